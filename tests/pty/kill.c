/* kill N PROGRAM MODEL FOLDER
 *
 * Starts the line-mode chat N times, asks for a story, and kills it with -9 at a random moment.  Then it looks what the screen had
 * and what the disk has: text that was shown a second before must be there, and every conversation must open and go on.  On a busy
 * machine the program, or this one, which reads what it prints, may wait for a processor: that time is none in which the text could
 * have been written, so from the moment when the text was shown on it does not count, and it is told.
 * Prints a line "ok NAME" or "not ok NAME: why" for each check. */
#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "chat/chat.h"
#include "responder/local.h"
#include "session/file.h"

static const char question[] = "Tell me a story";

/* Text that the screen showed in one run, without white space, since lines are broken for its width. */
struct shown {
    struct buf text;
    struct { int64_t ns; size_t len; double waited_ms; } *marks;        /* so much of it at that time, and so much waiting until then */
    int n, cap;
};

static struct result {
    int  n_text, n_question, n_nothing;                 /* killed with text of an answer on disk, with the question, before that */
    double worst_ms;                                    /* of text that is lost, without waiting for a processor */
    int  n_late;                                        /* more than a second of it with that */
    double late_ms, late_waited_ms;                     /* the worst of these */
    int  n_failed;
} sum;

static void fail(int run, const char *why, const struct buf *shown)
{
    printf("not ok kill %d: %s; shown: ...%s\n", run, why, shown->len > 200 ? shown->data + shown->len - 200 : buf_str(shown));
    sum.n_failed++;
}

static void add_words(struct buf *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isspace((unsigned char)s[i]))
            buf_addc(out, s[i]);
}

/* For how long a process was ready to run and got no processor. */
static double waited_of(pid_t pid)
{
    char path[64];
    double ran, waited = 0;
    snprintf(path, sizeof path, "/proc/%d/schedstat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%lf %lf", &ran, &waited) != 2)
        waited = 0;
    if (f)
        fclose(f);
    return waited / 1e6;
}

static double waited_ms(pid_t pid)
{
    return waited_of(pid) + waited_of(getpid());
}

/* Reads what has come; false at the end. */
static bool take(int fd, pid_t pid, struct shown *s, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char chunk[4096];
    if (poll(&p, 1, timeout_ms) <= 0)
        return true;
    ssize_t n = read(fd, chunk, sizeof chunk);
    if (n <= 0)
        return n < 0 && errno == EINTR;
    add_words(&s->text, chunk, (size_t)n);
    s->marks = memory_grow(s->marks, s->n, &s->cap, sizeof *s->marks);
    s->marks[s->n].ns = clock_ns();
    s->marks[s->n].waited_ms = waited_ms(pid);
    s->marks[s->n++].len = s->text.len;
    return true;
}

/* Finds the beginning of the answer in the shown text: after the echo of the question, which comes twice if the question was typed before
 * the line editor took over the terminal; 0: it has not come. */
static size_t answer_at(const struct shown *s)
{
    static const char echo[] = "Tellmeastory";
    const size_t n = strlen(echo);
    const char *at = strstr(buf_str(&s->text), echo);
    while (at && !strncmp(at + n, echo, n))
        at += n;
    if (at && !strncmp(echo, at + n, strlen(at + n)))   /* not yet the end of the echo, or nothing behind it */
        return 0;
    return at ? (size_t)(at - s->text.data) + n : 0;
}

/* The banner and the prompt are there. */
static bool asks(const struct shown *s)
{
    return strstr(buf_str(&s->text), "Ctrl-Dends.") && s->text.data[s->text.len - 1] == '>';
}

static pid_t start(const char *program, const char *model, const char *home, int run, int *fd)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    char seed[16];
    snprintf(seed, sizeof seed, "%d", run);
    pid_t pid = forkpty(fd, NULL, NULL, &size);
    CHECK(pid >= 0);
    if (pid)
        return pid;
    setenv("XDG_STATE_HOME", home, 1);
    setenv("TERM", "dumb", 1);
    CHECK(freopen("/dev/null", "w", stderr));
    execl(program, program, "--line", "--model", model, "--seed", seed, "--no-think", "--max-tokens", "0", "--tools", "none", "--ctx", "4096",
          "--logit-bias", "4063=-inf", "--logit-bias", "4065=-inf", (char *)NULL);         /* the tokens that end an answer */
    _exit(127);
}

static bool session_of_run(const char *home, char *path, size_t size)
{
    glob_t g;
    char pattern[600];
    snprintf(pattern, sizeof pattern, "%.500s/q35chat/sessions/*.jsonl", home);
    bool found = !glob(pattern, 0, NULL, &g) && g.gl_pathc == 1;
    if (found)
        snprintf(path, size, "%s", g.gl_pathv[0]);
    globfree(&g);
    return found;
}

/* The screen against the disk. */
static void compare(int run, const struct shown *s, const char *home, int64_t killed_ns, double waited)
{
    char path[600];
    struct transcript t = {0};
    struct buf note = {0}, kept = {0};
    struct err e = {0};
    size_t from = answer_at(s), shown = from ? s->text.len - from : 0;
    if (!session_of_run(home, path, sizeof path)) {
        sum.n_nothing++;
        if (shown)
            fail(run, "an answer was shown and there is no conversation", &s->text);
        return;
    }
    if (!session_read(path, &t, &note, &e)) {
        fail(run, e.msg, &s->text);
        return;
    }
    if (note.len)
        fail(run, note.data, &s->text);
    if (t.n > 1)
        add_words(&kept, t.entries[1]->m.content.p, t.entries[1]->m.content.n);
    sum.n_text += kept.len > 0;
    sum.n_question += !kept.len;
    size_t same = kept.len < shown ? kept.len : shown;
    size_t i = 0;
    while (i < same && kept.data[i] == s->text.data[from + i])
        i++;
    if (i < same) {
        struct buf why = {0};
        buf_addf(&why, "byte %zu: on disk is '%.60s', shown was '%.60s'", i, kept.data + i, s->text.data + from + i);
        fail(run, why.data, &s->text);
        buf_free(&why);
    }
    int m = 0;                          /* when the first byte that is lost was shown */
    while (m < s->n && s->marks[m].len <= from + kept.len)
        m++;
    bool lost = kept.len < shown && m < s->n;
    double lost_ms = lost ? (double)(killed_ns - s->marks[m].ns) / 1e6 : 0, since_ms = lost ? waited - s->marks[m].waited_ms : 0;
    if (lost_ms - since_ms > sum.worst_ms)
        sum.worst_ms = lost_ms - since_ms;
    sum.n_late += lost_ms > 1000;
    if (lost_ms > 1000 && lost_ms > sum.late_ms) {
        sum.late_ms = lost_ms;
        sum.late_waited_ms = since_ms;
    }
    if (lost_ms - since_ms > 1000) {
        struct buf why = {0};
        buf_addf(&why, "%.0f ms of text are lost (%zu of %zu bytes), and of those a processor was waited for %.0f ms", lost_ms, shown - kept.len,
                 shown, since_ms);
        fail(run, why.data, &s->text);
        buf_free(&why);
    }
    transcript_free(&t);
    buf_free(&note);
    buf_free(&kept);
}

static void kill_one(int run, const char *program, const char *model, const char *home)
{
    enum { LOADING_MS = 120000, LONGEST_MS = 2500 };
    struct shown s = {0};
    int fd;
    bool behind_text = rand() % 4;      /* the moment counts from the first word, else from the question */
    const int moment_ms = rand() % LONGEST_MS;
    int64_t begun = clock_ns();
    pid_t pid = start(program, model, home, run, &fd);
    while (!asks(&s) && clock_ms_since(begun) < LOADING_MS && take(fd, pid, &s, 100))
        ;
    CHECK(write(fd, question, strlen(question)) > 0 && write(fd, "\r", 1) == 1);
    begun = clock_ns();
    for (bool waits = behind_text; waits || clock_ms_since(begun) < moment_ms;) {
        if (!take(fd, pid, &s, 5))
            break;
        if (waits && (clock_ms_since(begun) > LOADING_MS || (answer_at(&s) && s.text.len > answer_at(&s)))) {
            waits = false;
            begun = clock_ns();
        }
    }
    double waited = waited_ms(pid);
    int64_t killed_ns = clock_ns();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    while (take(fd, pid, &s, 20) && s.n && s.marks[s.n - 1].ns > killed_ns && clock_ms_since(killed_ns) < 1000)
        ;
    close(fd);
    compare(run, &s, home, killed_ns, waited);
    buf_free(&s.text);
    free(s.marks);
}

/* --- and then ---------------------------------------------------------------------------------------------------- */

/* The chat, until the turn has ended. */
static enum end finish(struct chat *c, struct buf *notes)
{
    for (;;) {
        int n;
        chat_wait(c, -1, 1000);
        const struct chat_event *ev = chat_drain(c, &n);
        for (int i = 0; i < n; i++) {
            if (ev[i].kind == CHAT_NOTE || ev[i].end == END_FAILED)
                buf_adds(notes, ev[i].text);
            if (ev[i].kind == CHAT_DONE || ev[i].kind == CHAT_FATAL)
                return ev[i].kind == CHAT_DONE ? ev[i].end : END_FAILED;
        }
    }
}

static void go_on(struct chat *c, int run, const char *path)
{
    struct err e = {0};
    struct buf before = {0}, notes = {0};
    if (!chat_load(c, path, &notes, &e)) {
        fail(run, e.msg, &notes);
        return;
    }
    buf_reset(&notes);
    int n = chat_n_messages(c);
    if (!n) {                           /* just made: nothing was said yet */
        chat_new(c, &e);
        buf_free(&notes);
        return;
    }
    enum chat_rest rest = chat_rest(c);
    if (n > 1)
        buf_adds(&before, chat_message(c, 1).text);
    if (rest != (n > 1 ? CHAT_CUT : CHAT_UNANSWERED))
        fail(run, "the conversation does not say that its answer is cut, or missing", &before);
    else if (!chat_continue(c, &e))
        fail(run, e.msg, &before);
    else if (finish(c, &notes) == END_FAILED || notes.len)
        fail(run, notes.len ? notes.data : "/continue fails", &before);
    else if (chat_n_messages(c) != 2 || strncmp(chat_message(c, 1).text, buf_str(&before), before.len)
             || strlen(chat_message(c, 1).text) <= before.len)
        fail(run, "/continue does not go on with the text that was kept", &before);
    chat_new(c, &e);
    buf_free(&before);
    buf_free(&notes);
}

static void go_on_with_all(int n, const char *model, const char *folder)
{
    static const struct chat_front front = {.can_ask = true, .tools = "none"};
    static const struct { enum option_id id; const char *value; } set[] = {
        {OPT_ctx, "4096"}, {OPT_max_tokens, "12"}, {OPT_think, "off"}, {OPT_logit_bias, "4063=-inf"}, {OPT_logit_bias, "4065=-inf"},
    };
    struct options *o = options_open();
    struct err e = {0};
    CHECK(options_set(o, OPT_model, model, FROM_COMMAND_LINE, &e));
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        if (!options_set(o, set[i].id, set[i].value, FROM_COMMAND_LINE, &e))
            printf("not ok kill: %s\n", e.msg);
    struct chat *c = chat_open(local_open(o, &e), o, &front, &e);
    CHECK(c);
    while (!chat_ready(c)) {
        int k;
        chat_wait(c, -1, 1000);
        chat_drain(c, &k);
    }
    for (int i = 0; i < n; i++) {
        char home[512], path[600];
        snprintf(home, sizeof home, "%s/%d", folder, i);
        if (session_of_run(home, path, sizeof path))
            go_on(c, i, path);
    }
    chat_close(c);
    options_close(o);
}

int main(int argc, char **argv)
{
    CHECK(argc == 5);
    const int n = atoi(argv[1]);
    srand((unsigned)getpid());
    for (int i = 0; i < n; i++) {
        char home[512];
        snprintf(home, sizeof home, "%s/%d", argv[4], i);
        CHECK(mkdir(home, 0700) == 0);
        kill_one(i, argv[2], argv[3], home);
    }
    go_on_with_all(n, argv[3], argv[4]);
    if (!sum.n_failed && sum.n_text)
        printf("ok kill -9 at %d random moments (%d with text on disk, %d with the question alone, %d before it): at most %.0f ms of text lost; "
               "every conversation opens, /continue works in each\n",
               n, sum.n_text, sum.n_question, sum.n_nothing, sum.worst_ms);
    if (sum.n_late)
        printf("# in %d of them more than a second was lost while a processor was waited for; at most %.0f ms, of which %.0f ms waited\n",
               sum.n_late, sum.late_ms, sum.late_waited_ms);
    if (!sum.n_failed && !sum.n_text)
        printf("not ok kill: no answer was ever on disk\n");
    return sum.n_failed || !sum.n_text;
}
