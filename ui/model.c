#include "ui/model.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "option/options.h"
#include "prepare/get.h"
#include "prepare/hybrid.h"
#include "prepare/inspect.h"
#include "prepare/models.h"
#include "prepare/mtp.h"
#include "prepare/verify.h"
#include "session/held.h"
#include "session/list.h"
#include "ui/args.h"
#include "ui/process.h"
#include "ui/tui/look.h"
#include "ui/tui/numbers.h"
#include "ui/tui/phase.h"

/* `q35chat model list`: what is on this machine. */

/* Appends a model as a line of JSON; `standard` marks the one that is taken by default. */
static void add_json(const struct models_item *it, bool standard, struct buf *out)
{
    static const char *const places[] = {[MODELS_OURS] = "models", [MODELS_HUB] = "hub", [MODELS_DEMO] = "demo"};
    struct memory_plan plan;
    struct err e = {0};
    json_t *j = memory_got(json_object());
    json_object_set_new(j, "name", json_text_of(it->name));
    json_object_set_new(j, "dir", json_text_of(it->dir));
    json_object_set_new(j, "place", json_string(places[it->place]));
    json_object_set_new(j, "model", json_text_of(it->geometry));
    json_object_set_new(j, "bytes", json_integer((json_int_t)it->bytes));
    json_object_set_new(j, "complete", json_boolean(it->complete));
    json_object_set_new(j, "default", json_boolean(standard));
    if (it->complete) {
        bool fits = models_fits(it, &plan, &e);
        json_object_set_new(j, "fits", json_boolean(fits));
        if (fits) {
            json_object_set_new(j, "context", json_integer(plan.n_ctx));
            json_object_set_new(j, "need", json_integer((json_int_t)plan.total));
            json_object_set_new(j, "available", json_integer((json_int_t)plan.available));
        }
    }
    if (it->missing || *e.msg)
        json_object_set_new(j, "why", json_text_of(it->missing ? it->missing : e.msg));
    json_print(out, j, JSON_COMPACT);
    json_decref(j);
    buf_addc(out, '\n');
}

/* Appends whether a model fits, or what is missing. */
static void add_state(const struct models_item *it, struct buf *out)
{
    struct memory_plan plan;
    struct err e = {0};
    if (!it->complete)
        buf_adds(out, it->missing);
    else if (!models_fits(it, &plan, &e))
        buf_adds(out, e.msg);
    else {
        buf_adds(out, "fits, with ");
        number_context(out, plan.n_ctx);
        buf_adds(out, " tokens of context");
    }
    if (!it->complete && it->place == MODELS_HUB)
        buf_addf(out, "; to continue: q35chat model get %s", it->name);
}

static bool same_folder(const char *a, const char *b)
{
    struct stat here, there;
    return !stat(a, &here) && !stat(b, &there) && here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

int model_list(const struct args *a)
{
    struct models m;
    struct buf out = {0};
    const bool json = args_on(a, "json"), names = args_on(a, "names"), table = !json && !names;
    int width = 4;
    struct buf usual = {0};
    struct err e = {{0}};
    models_find(&m);
    const int failed = model_usual(&usual, &e);
    int standard = -1;
    for (int i = 0; i < m.n; i++)
        standard = same_folder(m.items[i].dir, buf_str(&usual)) ? i : standard;
    for (int i = 0; i < m.n; i++)
        width = (int)strlen(m.items[i].name) > width ? (int)strlen(m.items[i].name) : width;
    for (int i = 0; i < m.n; i++)
        if (names) {
            buf_addf(&out, "%s\n", m.items[i].name);
        } else if (json) {
            add_json(&m.items[i], i == standard, &out);
        } else {
            const struct models_item *it = &m.items[i];
            struct buf size = {0}, state = {0};
            buf_addf(&size, it->bytes < 100000000 ? "%.1f MB" : "%.1f GB", (double)it->bytes / (it->bytes < 100000000 ? 1e6 : 1e9));
            add_state(it, &state);
            buf_addf(&out, "%c %-*s  %9s  %s\n", i == standard ? '*' : ' ', width, it->name, size.data, state.data);
            buf_free(&size);
            buf_free(&state);
        }
    if (table && standard >= 0)
        buf_adds(&out, "* is the default.\n");
    else if (table && usual.len)
        buf_addf(&out, "The default is %s.\n", usual.data);
    if (failed)
        process_say(e.msg);
    if (table && (standard < 0 ? !usual.len : m.items[standard].place == MODELS_DEMO))
        buf_adds(&out, "q35chat model get downloads Qwen3.5-122B-A10B, q35chat model get 35b the small one.\n");
    models_free(&m);
    int status = process_print(&out, !json, EXIT_ANSWERED);
    buf_free(&usual);
    buf_free(&out);
    return status;
}

/* --- get ---------------------------------------------------------------------------------------------------------- */

/* `q35chat model get`: what is downloaded, how far it is, and where it is then. */

enum { JSON_EVERY_MS = 1000, ADD_MS = 10000, MAX_LINES = 8 };

struct show {
    struct get      *g;
    bool             json, terminal;
    bool             adds;              /* on the terminal lines are added, none is rewritten */
    bool             added;             /* there is one, */
    int64_t          added_ms;          /* the last one then */
    int              n_files, n_lines;  /* n_lines: lines of the block on the terminal */
    enum get_state  *told;              /* by file: the state that was shown */
    struct progress *files, all;
    uint64_t         total, done, had;
    int64_t          start_ms, json_ms;
    pthread_mutex_t  lock;              /* over the notes */
    struct buf       notes;             /* lines that other threads have left */
};

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

/* Prints a line of progress as JSON, from time to time. */
static void json_progress(struct show *s)
{
    if (!s->json || clock_ms() - s->json_ms < JSON_EVERY_MS)
        return;
    s->json_ms = clock_ms();
    int left = progress_left_s(&s->all, s->json_ms);
    json_t *j = json_pack("{s:s, s:I, s:I, s:f}", "type", "progress", "done", (json_int_t)s->done, "total", (json_int_t)s->total, "bytes_s",
                          progress_rate(&s->all));
    if (left >= 0)
        json_object_set_new(j, "left_s", json_integer(left));
    put_json(j);
}

/* --- the terminal ------------------------------------------------------------------------------------------------------ */

static void clear(struct show *s)
{
    if (s->n_lines)
        fprintf(stderr, "\033[%dA\r\033[J", s->n_lines);
    s->n_lines = 0;
}

/* Appends the line of a file's progress, cut to the width of the terminal. */
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

/* Shows the files that are being downloaded, then all of them. */
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
            add_line(&out, f.path, &s->files[i], columns, clock_ms());
            n++;
        }
    }
    add_line(&out, "all", &s->all, columns, clock_ms());
    if (s->n_lines)
        fprintf(stderr, "\033[%dA\r", s->n_lines);
    fprintf(stderr, "%s\033[J", out.data);
    s->n_lines = n + 1;
    buf_free(&out);
}

/* Prints a new line of progress from time to time, for terminals on which lines are not redrawn. */
static void add(struct show *s)
{
    struct buf line = {0};
    int64_t ms = clock_ms();
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

/* Prints the notes that other threads have left. */
static void print_notes(struct show *s)
{
    struct buf lines = {0};
    pthread_mutex_lock(&s->lock);
    lines = s->notes;
    s->notes = (struct buf){0};
    pthread_mutex_unlock(&s->lock);
    if (lines.len && s->terminal)
        clear(s);
    for (char *line = lines.len ? strtok(lines.data, "\n") : NULL; line; line = strtok(NULL, "\n")) {
        if (s->json)
            put_json(json_pack("{s:s, s:s}", "type", "note", "text", line));
        process_say(line);
    }
    buf_free(&lines);
}

/* Called from any thread, once the lists exist. */
static void note(void *arg, const char *text)
{
    struct show *s = arg;
    pthread_mutex_lock(&s->lock);
    buf_addf(&s->notes, "%s\n", text);
    pthread_mutex_unlock(&s->lock);
    if (!s->g)
        print_notes(s);
}

/* Takes the progress of all files; in JSON mode prints each file that has become complete. */
static void look(struct show *s)
{
    int64_t ms = clock_ms();
    s->done = s->had = s->total = 0;
    for (int i = 0; i < s->n_files; i++) {
        struct get_file f;
        get_look(s->g, i, &f);
        progress_add(&s->files[i], ms, f.done, f.bytes, f.had);
        s->done += f.done;
        s->had += f.had;
        s->total += f.bytes;
        if (s->json && f.state >= GET_HAD && s->told[i] != f.state)
            put_json(json_pack("{s:s, s:s, s:s, s:I, s:s}", "type", "file", "repo", f.repo, "path", f.path, "bytes", (json_int_t)f.bytes, "state",
                               f.state == GET_HAD ? "had" : "done"));
        s->told[i] = f.state;
    }
    progress_add(&s->all, ms, s->done, s->total, s->had);
}

/* Called while files are downloaded: stops them after Ctrl-C, and shows notes and progress. */
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

/* Prints how the download ended; returns the exit status. */
static int ended(struct show *s, const struct err *e)
{
    bool stopped = s->g && get_stopped(s->g);
    if (stopped || *e->msg)
        process_say(stopped ? "stopped; run the same command again to continue" : e->msg);
    if (s->json) {
        json_t *j = json_pack("{s:s, s:b, s:I, s:f}", "type", "end", "ok", !*e->msg, "downloaded", (json_int_t)(s->done - s->had), "seconds",
                              (double)(clock_ms() - s->start_ms) / 1000);
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
    return stopped ? (interrupt_ending() ? EXIT_SIGNAL + interrupt_ending() : EXIT_INTERRUPTED) : *e->msg ? EXIT_FAILED : EXIT_ANSWERED;
}

/* Prints rate and folders of a finished download. */
static void print_result(const struct show *s)
{
    double seconds = (double)(clock_ms() - s->start_ms) / 1000, bytes = (double)(s->done - s->had);
    if (isatty(2) && bytes > 0)
        fprintf(stderr, "%.2f GB in %.0f s, %.1f MB/s; every hash is right\n", bytes / 1e9, seconds, seconds > 0 ? bytes / 1e6 / seconds : 0);
    for (int i = 0; !s->json && i < get_n_repos(s->g); i++) {
        struct get_repo r;
        get_repo(s->g, i, &r);
        puts(r.dir);
    }
}

/* Runs the download and shows it; returns the exit status. */
static int run(struct show *s)
{
    struct err e = {0};
    s->n_files = get_n_files(s->g);
    s->files = memory_zeroed((size_t)s->n_files + 1, sizeof *s->files);
    s->told = memory_zeroed((size_t)s->n_files + 1, sizeof *s->told);
    s->start_ms = clock_ms();
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
    const char **words = memory_zeroed((size_t)a->n_words + 1, sizeof *words);
    struct err e = {0};
    for (int i = 0; i < a->n_words; i++)
        words[i] = a->words[i];
    if (a->n_words) {
        o.what = words;
        o.n_what = a->n_words;
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

/* --- model -------------------------------------------------------------------------------------------------------- */

static int print_json(json_t *j)
{
    struct buf text = {0};
    json_print(&text, j, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    json_decref(j);
    puts(text.data);
    buf_free(&text);
    return process_flush(EXIT_ANSWERED);
}

/* --- inspect, verify ---------------------------------------------------------------------------------------------- */

int model_inspect(const struct args *a)
{
    struct buf dir = {0}, out = {0};
    struct err e = {0};
    const char *bandwidth = args_text(a, "bandwidth");
    struct inspect_options o = {.json = args_on(a, "json"), .bandwidth_gb_s = bandwidth ? strtod(bandwidth, NULL) : 0};
    bool ok = models_resolve(a->words[0], &dir, &e) && inspect_run(dir.data, &o, &out, &e);
    int status = process_print(&out, false, EXIT_ANSWERED);
    buf_free(&dir);
    buf_free(&out);
    return ok ? status : process_fail(EXIT_FAILED, e.msg);
}

/* Prints the first few faults of each kind: a directory that lacks a shard lacks thousands of tensors. */
static void print_findings(const struct verify_report *r)
{
    enum { EACH = 10 };
    for (int i = 0, same = 0; i < r->n; i++) {
        struct buf line = {0}, safe = {0};
        same = i && !strcmp(r->list[i].kind, r->list[i - 1].kind) ? same + 1 : 0;
        bool last = i + 1 == r->n || strcmp(r->list[i].kind, r->list[i + 1].kind);
        if (same < EACH)
            verify_sentence(&r->list[i], &line);
        else if (last)
            buf_addf(&line, "       and %d more of this kind (--json has them all)", same - EACH + 1);
        unicode_safe(&safe, buf_str(&line), line.len);
        if (safe.len)
            puts(buf_str(&safe));
        buf_free(&line);
        buf_free(&safe);
    }
}

/* Returns the report of `model verify` as JSON. */
static json_t *verify_json(const struct verify_report *r, const char *dir)
{
    json_t *list = json_array();
    for (const struct finding *f = r->list; f < r->list + r->n; f++)
        json_array_append_new(list, json_pack("{s:b, s:s, s:s?, s:s?, s:s, s:s?, s:s?}", "fault", f->fault, "kind", f->kind, "file", f->file,
                                              "tensor", f->tensor, "found", f->found, "expected", f->expected, "remedy", f->remedy));
    return json_pack("{s:s, s:b, s:b, s:i, s:i, s:i, s:I, s:i, s:o}", "dir", dir, "sound", !r->n_faults, "stopped", r->stopped, "files", r->n_files,
                     "tensors", r->n_tensors, "hashed_files", r->n_hashed, "read_bytes", (json_int_t)r->read_bytes, "faults", r->n_faults,
                     "findings", list);
}

int model_verify(const struct args *a)
{
    struct verify_report r;
    struct err e = {0};
    struct buf dir = {0}, safe = {0};
    int status = EXIT_FAILED;
    if (!models_resolve(a->words[0], &dir, &e) || !verify_run(dir.data, &(struct verify_options){.full = args_on(a, "full")}, &r, &e)) {
        process_say(e.msg);
        goto out;
    }
    status = r.n_faults ? EXIT_FAILED : EXIT_ANSWERED;
    if (args_on(a, "json")) {
        int written = print_json(verify_json(&r, dir.data));
        status = status ? status : written;
    } else {
        unicode_safe(&safe, dir.data, dir.len);
        print_findings(&r);
        printf("%s: %s", buf_str(&safe), r.n_faults ? "" : "sound: ");
        if (r.n_faults)
            printf("%d fault%s in ", r.n_faults, r.n_faults == 1 ? "" : "s");
        printf("%d files with %d tensors, %.2f MB of them read%s\n", r.n_files, r.n_tensors, (double)r.read_bytes * 1e-6,
               r.stopped ? "; their contents were not checked, repair these first" : args_on(a, "full") ? "" : " (--full reads all)");
        status = process_flush(status);
    }
    verify_free(&r);
out:
    buf_free(&dir);
    buf_free(&safe);
    return status;
}

/* --- build-hybrid ------------------------------------------------------------------------------------------------- */

/* Shows the progress on stderr; arg: lines are only added, and then only the end is shown. */
static void show_progress(void *arg, uint64_t done, uint64_t total)
{
    bool adds = *(bool *)arg;
    if (adds && done != total)
        return;
    fprintf(stderr, "%sFP8: %.3f of %.3f GB%s", adds ? "" : "\r", (double)done * 1e-9, (double)total * 1e-9, done == total ? "\n" : " ");
}

/* Returns the report of a build as JSON. */
static json_t *hybrid_json(const struct hybrid_report *r, const struct source *fp8, const struct hybrid_options *o)
{
    static const char *const states[] = {"built", "planned", "there"};
    json_t *files = json_array();
    for (int i = 0; i < r->n_files; i++)
        json_array_append_new(files, json_pack("{s:s, s:I, s:s}", "name", r->files[i].name, "bytes", (json_int_t)r->files[i].bytes,
                                               "how", r->files[i].how));
    return json_pack("{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:o}", "state", states[r->state], "out", o->out,
                     "layout", o->compact ? "compact" : "linked", "fp8_matrices", r->n_matrices, "fp8_bytes", (json_int_t)r->fp8_bytes,
                     "fp8_read_bytes", (json_int_t)atomic_load(&fp8->n_bytes), "fp8_reads", (json_int_t)atomic_load(&fp8->n_reads),
                     "stale_bytes", (json_int_t)r->stale_bytes, "files", files);
}

/* Prints what was built, or would be. */
static void print_hybrid(const struct hybrid_report *r, const struct source *fp8, const struct hybrid_options *o)
{
    if (r->state == HYBRID_THERE) {
        printf("%s was built before from these checkpoints: nothing to do\n", o->out);
        return;
    }
    for (int i = 0; i < r->n_files; i++)
        printf("%12.2f MB  %-14s %s\n", (double)r->files[i].bytes * 1e-6, r->files[i].how, r->files[i].name);
    printf("%s %s: %d matrices of %s in FP8, %.2f MB; read %.2f MB of the FP8 checkpoint\n", o->out,
           r->state == HYBRID_PLANNED ? "would be built" : "is built", r->n_matrices,
           o->quality ? "shared experts, attention and out projections" : "shared experts", (double)r->fp8_bytes * 1e-6,
           (double)atomic_load(&fp8->n_bytes) * 1e-6);
    if (r->state == HYBRID_PLANNED)
        printf("it needs %.2f MB of additional disk space\n", (double)r->written_bytes * 1e-6);
    if (!o->compact && r->stale_bytes)
        printf("%.2f MB in the shards are unused. q35chat never reads them; vLLM reads whole shards and needs --compact.\n",
               (double)r->stale_bytes * 1e-6);
}

int model_build_hybrid(const struct args *a)
{
    struct err e = {0};
    struct source int4 = {0}, fp8 = {0};
    struct hybrid_report r = {0};
    bool json = args_on(a, "json"), adds = options_accessible() || look_is_plain(getenv("TERM"));
    struct hybrid_options o = {
        .out = args_text(a, "out"), .program = "q35chat " Q35_VERSION, .quality = args_on(a, "quality"), .compact = args_on(a, "compact"),
        .dry_run = args_on(a, "dry-run"),
        .hash = args_on(a, "hash"), .progress = isatty(2) && !json ? show_progress : NULL, .arg = &adds,
    };
    int status = EXIT_ANSWERED;
    if (!source_open_local(&int4, args_text(a, "int4"), &e) || !source_open(&fp8, args_text(a, "fp8"), &e)
        || !hybrid_build(int4.name, &fp8, &o, &r, &e))
        status = process_fail(EXIT_FAILED, e.msg);
    else if (json)
        status = print_json(hybrid_json(&r, &fp8, &o));
    else
        print_hybrid(&r, &fp8, &o);
    hybrid_report_free(&r);
    source_close(&int4);
    source_close(&fp8);
    return status;
}

/* --- add-mtp ------------------------------------------------------------------------------------------------------ */

int model_add_mtp(const struct args *a)
{
    static const char *const did[] = {"were added, and the index lists them", "are listed in the index now", "are there and listed: nothing to do"};
    static const char *const states[] = {"added", "indexed", "there"};
    struct err e = {0};
    struct source from = {0};
    struct mtp_report r;
    const char *dir = a->words[0], *name = args_text(a, "from");
    bool ok = (!name || source_open(&from, name, &e)) && mtp_add(dir, name ? &from : NULL, &r, &e);
    source_close(&from);
    if (!ok)
        return process_fail(EXIT_FAILED, e.msg);
    if (args_on(a, "json"))
        return print_json(json_pack("{s:s, s:s, s:i}", "state", states[r.state], "dir", dir, "tensors", r.n_tensors));
    printf("%s: %d tensors of the MTP block %s\n", dir, r.n_tensors, did[r.state]);
    return EXIT_ANSWERED;
}

/* --- the model of a chat or a server ------------------------------------------------------------------------------ */

int model_choose(struct options *o, struct err *e)
{
    struct buf newest = {0}, dir = {0}, whole = {0};
    const char *held = options_text(o, OPT_resume);
    struct models m;
    bool ok = true;
    if (*held || (options_on(o, OPT_continue) && sessions_newest(&newest)))
        held_choose(o, *held ? held : newest.data);     /* a conversation continues with its model */
    buf_free(&newest);
    enum option_from from = options_from(o, OPT_model);
    const char *name = options_text(o, OPT_model);
    if (*options_text(o, OPT_endpoint))
        return EXIT_ANSWERED;           /* the server's model */
    if (!*name && from == FROM_COMMAND_LINE) {
        err_set(e, "--model is empty, expected a directory or a name that `q35chat model list` lists");
        return EXIT_USAGE;
    }
    if (*name) {
        ok = models_resolve(name, &dir, e);
    } else {
        models_find(&m);
        int i = models_standard(&m);
        buf_adds(&dir, i < 0 ? "" : m.items[i].dir);
        models_free(&m);
    }
    char *here = ok && dir.len && *dir.data != '/' ? getcwd(NULL, 0) : NULL;
    buf_addf(&whole, "%s%s%s", here ? here : "", here ? "/" : "", buf_str(&dir));       /* conversations record it, and are continued elsewhere */
    ok = ok && (!dir.len || options_set(o, OPT_model, whole.data, from, e));
    free(here);
    buf_free(&dir);
    buf_free(&whole);
    return ok ? EXIT_ANSWERED : EXIT_MODEL;
}

int model_usual(struct buf *dir, struct err *e)
{
    struct options *o = options_open();
    const bool ok = options_read_usual_file(o, e) && options_read_environment(o, e) && options_set(o, OPT_endpoint, "", FROM_COMMAND_LINE, e);
    const int status = ok ? model_choose(o, e) : EXIT_USAGE;
    if (!status)
        buf_adds(dir, options_text(o, OPT_model));
    options_close(o);
    return status;
}
