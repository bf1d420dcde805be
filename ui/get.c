/* `q35chat model get`: what is downloaded, how far it is, and where it is then. */
#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "option/options.h"
#include "prepare/get.h"
#include "ui/exits.h"
#include "ui/interrupt.h"
#include "ui/subcommand.h"
#include "ui/tui/look.h"
#include "ui/tui/progress.h"

enum { JSON_EVERY_MS = 1000, ADD_MS = 10000, MAX_LINES = 8 };

struct show {
    struct get      *g;
    bool             json, terminal;
    bool             adds;              /* on the terminal lines are added, none is rewritten */
    bool             added;             /* there is one, */
    int64_t          added_ms;          /* the last one then */
    int              n_files, n_lines;  /* n_lines: of the block that stands on the terminal */
    enum get_state  *told;              /* by file: what was said of it */
    struct progress *files, all;
    uint64_t         total, done, had;
    int64_t          start_ms, json_ms;
    pthread_mutex_t  lock;              /* over the notes */
    struct buf       notes;             /* lines that other threads have left */
};

static int64_t now_ms(void)
{
    return clock_ns() / 1000000;
}

/* --- lines of JSON ---------------------------------------------------------------------------------------------------- */

static void put_json(json_t *j)
{
    struct buf text = {0};
    json_print(&text, memory_got(j), JSON_COMPACT | JSON_REAL_PRECISION(6));
    json_decref(j);
    puts(text.data);
    fflush(stdout);
    buf_free(&text);
}

static void json_file(const struct get_file *f)
{
    put_json(json_pack("{s:s, s:s, s:s, s:I, s:s}", "type", "file", "repo", f->repo, "path", f->path, "bytes", (json_int_t)f->bytes, "state",
                       f->state == GET_HAD ? "had" : "done"));
}

static void json_progress(struct show *s)
{
    if (!s->json || now_ms() - s->json_ms < JSON_EVERY_MS)
        return;
    s->json_ms = now_ms();
    int left = progress_left_s(&s->all, s->json_ms);
    json_t *j = json_pack("{s:s, s:I, s:I, s:f}", "type", "progress", "done", (json_int_t)s->done, "total", (json_int_t)s->total, "bytes_s",
                          progress_rate(&s->all));
    if (left >= 0)
        json_object_set_new(j, "left_s", json_integer(left));
    put_json(j);
}

static void json_end(const struct show *s, const struct err *e)
{
    json_t *j = json_pack("{s:s, s:b, s:I, s:f}", "type", "end", "ok", !*e->msg, "downloaded", (json_int_t)(s->done - s->had), "seconds",
                          (double)(now_ms() - s->start_ms) / 1000);
    json_t *repos = json_array();
    for (int i = 0; s->g && i < get_n_repos(s->g); i++) {
        struct get_repo r;
        get_repo(s->g, i, &r);
        json_array_append_new(repos, json_pack("{s:s, s:s, s:s, s:s}", "repo", r.name, "revision", r.revision, "commit", r.commit, "dir", r.dir));
    }
    json_object_set_new(j, "repos", repos);
    if (*e->msg)
        json_object_set_new(j, "error", json_string(e->msg));
    put_json(j);
}

/* --- the terminal ------------------------------------------------------------------------------------------------------ */

static void clear(struct show *s)
{
    if (s->n_lines)
        fprintf(stderr, "\033[%dA\r\033[J", s->n_lines);
    s->n_lines = 0;
}

static void add_line(struct buf *out, const char *name, const struct progress *p, int columns, int64_t ms)
{
    enum { NAME = 34, BAR = 22 };
    struct buf line = {0}, left = {0}, safe = {0};
    size_t n = strlen(name);
    int width = columns < 100 ? NAME - 10 : NAME;
    unicode_safe(&safe, n > (size_t)width ? name + n - (size_t)width : name, n > (size_t)width ? (size_t)width : n);
    buf_addf(&line, "%-*s ", width, buf_str(&safe));
    progress_bar(&line, p, columns < 80 ? BAR / 2 : BAR);
    buf_addf(&line, " %3d%%  ", progress_percent(p) < 0 ? 0 : progress_percent(p));
    progress_bytes(&line, p);
    buf_adds(&line, "  ");
    progress_bytes_s(&line, p);
    progress_left(&left, p, ms);
    buf_addf(&line, "%s%s", left.len ? ", " : "", buf_str(&left));
    buf_addf(out, "%.*s\033[K\n", columns - 1, line.data);
    buf_free(&line);
    buf_free(&left);
    buf_free(&safe);
}

/* The files that are under way, then all of them. */
static void draw(struct show *s)
{
    struct winsize size;
    struct buf out = {0};
    int columns = ioctl(2, TIOCGWINSZ, &size) || size.ws_col < 40 ? 80 : size.ws_col, n = 0;
    int most = columns && size.ws_row > 3 && size.ws_row - 2 < MAX_LINES ? size.ws_row - 2 : MAX_LINES;
    for (int i = 0; i < s->n_files; i++) {
        struct get_file f;
        get_look(s->g, i, &f);
        if (n < most && f.state == GET_RUNNING) {
            add_line(&out, f.path, &s->files[i], columns, now_ms());
            n++;
        }
    }
    add_line(&out, "all", &s->all, columns, now_ms());
    if (s->n_lines)
        fprintf(stderr, "\033[%dA\r", s->n_lines);
    fprintf(stderr, "%s\033[J", out.data);
    s->n_lines = n + 1;
    buf_free(&out);
}

static void add(struct show *s)
{
    struct buf line = {0};
    int64_t ms = now_ms();
    if (s->done == s->total || (s->added && ms - s->added_ms < ADD_MS))
        return;
    buf_addf(&line, "%d%%  ", progress_percent(&s->all) < 0 ? 0 : progress_percent(&s->all));
    progress_bytes(&line, &s->all);
    buf_adds(&line, progress_rate(&s->all) > 0 ? ", " : "");
    progress_bytes_s(&line, &s->all);
    progress_left(&line, &s->all, ms);
    fprintf(stderr, "%s\n", line.data);
    s->added = true;
    s->added_ms = ms;
    buf_free(&line);
}

/* --- while it runs ------------------------------------------------------------------------------------------------------ */

static void print_notes(struct show *s)
{
    struct buf lines = {0}, safe = {0};
    pthread_mutex_lock(&s->lock);
    lines = s->notes;
    s->notes = (struct buf){0};
    pthread_mutex_unlock(&s->lock);
    if (lines.len && s->terminal)
        clear(s);
    for (char *line = lines.len ? strtok(lines.data, "\n") : NULL; line; line = strtok(NULL, "\n")) {
        if (s->json)
            put_json(json_pack("{s:s, s:s}", "type", "note", "text", line));
        buf_reset(&safe);
        unicode_safe(&safe, line, strlen(line));
        fprintf(stderr, "q35chat: %s\n", buf_str(&safe));
    }
    buf_free(&lines);
    buf_free(&safe);
}

/* From any thread.  Until the lists are there, tick() is not called. */
static void note(void *arg, const char *text)
{
    struct show *s = arg;
    pthread_mutex_lock(&s->lock);
    buf_addf(&s->notes, "%s\n", text);
    pthread_mutex_unlock(&s->lock);
    if (!s->g)
        print_notes(s);
}

static void look(struct show *s)
{
    int64_t ms = now_ms();
    s->done = s->had = s->total = 0;
    for (int i = 0; i < s->n_files; i++) {
        struct get_file f;
        get_look(s->g, i, &f);
        progress_add(&s->files[i], ms, f.done, f.bytes, f.had);
        s->done += f.done;
        s->had += f.had;
        s->total += f.bytes;
        if (s->json && f.state >= GET_HAD && s->told[i] != f.state)
            json_file(&f);
        s->told[i] = f.state;
    }
    progress_add(&s->all, ms, s->done, s->total, s->had);
}

static void tick(void *arg)
{
    struct show *s = arg;
    if (interrupt_taken())
        get_stop(s->g);
    look(s);
    print_notes(s);
    json_progress(s);
    if (s->terminal && s->adds)
        add(s);
    else if (s->terminal)
        draw(s);
}

/* --- from start to end ---------------------------------------------------------------------------------------------------- */

static int ended(struct show *s, const struct err *e)
{
    struct buf safe = {0};
    bool stopped = s->g && get_stopped(s->g);
    unicode_safe(&safe, e->msg, strlen(e->msg));
    if (stopped)
        fprintf(stderr, "q35chat: stopped; run the same command again to continue\n");
    else if (*e->msg)
        fprintf(stderr, "q35chat: %s\n", buf_str(&safe));
    buf_free(&safe);
    if (s->json)
        json_end(s, e);
    return stopped ? (interrupt_ending() ? EXIT_SIGNAL + interrupt_ending() : EXIT_INTERRUPTED) : *e->msg ? EXIT_FAILED : EXIT_ANSWERED;
}

static void print_result(const struct show *s)
{
    double seconds = (double)(now_ms() - s->start_ms) / 1000, bytes = (double)(s->done - s->had);
    if (isatty(2) && bytes > 0)
        fprintf(stderr, "%.2f GB in %.0f s, %.1f MB/s; every hash is right\n", bytes / 1e9, seconds, seconds > 0 ? bytes / 1e6 / seconds : 0);
    for (int i = 0; !s->json && i < get_n_repos(s->g); i++) {
        struct get_repo r;
        get_repo(s->g, i, &r);
        puts(r.dir);
    }
}

static int run(struct show *s)
{
    struct err e = {0};
    s->n_files = get_n_files(s->g);
    s->files = memory_zeroed((size_t)s->n_files + 1, sizeof *s->files);
    s->told = memory_zeroed((size_t)s->n_files + 1, sizeof *s->told);
    s->start_ms = now_ms();
    for (int i = 0; i < s->n_files; i++)
        progress_start(&s->files[i], s->start_ms);
    progress_start(&s->all, s->start_ms);
    s->terminal = isatty(2) && !s->json;
    s->adds = look_is_plain(getenv("TERM")) || options_accessible();
    interrupt_open();
    bool ok = get_run(s->g, tick, s, &e);
    if (s->terminal)
        clear(s);
    if (ok)
        print_result(s);
    if (ok && (fflush(stdout) || ferror(stdout)))
        err_set(&e, "cannot write: %s", strerror(errno));
    return ended(s, &e);
}

static bool are_names(const struct get_options *o, struct err *e)
{
    int i = 0;
    while (i < o->n_what && get_is_name(o->what[i], e))
        i++;
    return i == o->n_what;
}

int model_get(const struct args *a)
{
    static const char *const standard[] = {"122b"};
    struct show s = {.json = args_on(a, "json"), .lock = PTHREAD_MUTEX_INITIALIZER};
    struct get_options o = {
        .what = standard, .n_what = 1,
        .to = args_text(a, "to"),
        .connections = args_int(a, "connections"),
        .range_bytes = (uint64_t)args_int(a, "range") << 20,
        .check = args_on(a, "check"),
        .fetch = {.stall_s = args_int(a, "stall"), .tries = args_int(a, "tries"), .note = note, .arg = &s},
    };
    const char **words = memory_zeroed((size_t)args_n_words(a) + 1, sizeof *words);
    struct err e = {0};
    for (int i = 0; i < args_n_words(a); i++)
        words[i] = args_word(a, i);
    if (args_n_words(a)) {
        o.what = words;
        o.n_what = args_n_words(a);
    }
    bool names = are_names(&o, &e);
    s.g = names ? get_open(&o, &e) : NULL;
    int status = s.g ? run(&s) : ended(&s, &e);
    status = names ? status : EXIT_USAGE;
    get_close(s.g);
    free(words);
    free(s.files);
    free(s.told);
    buf_free(&s.notes);
    return status;
}
