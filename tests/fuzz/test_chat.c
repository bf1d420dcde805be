/* Random conversations: what a user does in any order, answers that break off, disks that fail, a program that is killed between
 * two calls, damaged files, another tokenizer.  After every step the session's file must read as what is in memory, or the chat
 * must say that it is not saved; nothing that was said may be gone; every turn ends exactly once.
 *
 * A run is a list of steps that follows from its seed.  One that fails is cut down by leaving out halves, quarters and so on.
 *     FUZZ_SECONDS=3600 FUZZ_SEED=1 build/tests/fuzz/test_chat
 *     FUZZ_ONE=SEED      that run alone */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/syncer.h"
#include "responder/local.h"
#include "responder/local_state.h"
#include "session/list.h"
#include "session/record.h"
#include "chat/chat.h"
#include "chat/state.h"
#include "session/trash.h"
#include "tests/fuzz/disk.h"
#include "tests/fuzz/long_run.h"
#include "tests/tmpdir.h"
#include "tests/unit/fake_engine.h"

/* --- instead of clock, threads and loading, so that a run follows from its seed alone ---------------------------------- */

static int64_t now_ns;

int64_t __wrap_clock_ns(void);
double __wrap_clock_ms_since(int64_t start_ns);

int64_t __wrap_clock_ns(void)
{
    return now_ns;
}

double __wrap_clock_ms_since(int64_t start_ns)
{
    return (double)(now_ns - start_ns) * 1e-6;
}

time_t time(time_t *out)                /* every session gets a second of its own */
{
    static time_t now = 1700000000;
    now++;
    if (out)
        *out = now;
    return now;
}

struct syncer { int fd, failed; };
static struct syncer the_syncer;

struct syncer *syncer_open(int fd, const char *name)
{
    (void)name;
    the_syncer = (struct syncer){.fd = fd};
    return &the_syncer;
}

void syncer_want(struct syncer *s)
{
    s->failed = fsync(s->fd) ? errno : 0;
}

void syncer_now(struct syncer *s)
{
    syncer_want(s);
}

int syncer_fd(const struct syncer *s)
{
    (void)s;
    return -1;
}

bool syncer_settled(struct syncer *s)
{
    (void)s;
    return true;
}

void syncer_wait(struct syncer *s)
{
    (void)s;
}

int syncer_failed(struct syncer *s)
{
    int failed = s->failed;
    s->failed = 0;
    return failed;
}

void syncer_close(struct syncer *s)
{
    (void)s;
}

struct loader { bool taken; };
static struct loader the_loader;
static struct tokenizer *tokenizers[2]; /* the second one has two ids exchanged */
static int which_tokenizer;

struct loader *loader_start(const char *dir, bool guides, struct err *e)
{
    (void)dir, (void)guides, (void)e;
    the_loader.taken = false;
    return &the_loader;
}

int loader_fd(const struct loader *l)
{
    (void)l;
    return -1;
}

bool loader_take(struct loader *l, struct tokenizer **tok, struct err *e)
{
    (void)e;
    if (l->taken)
        return false;
    *tok = tokenizers[which_tokenizer];
    return l->taken = true;
}

struct guide_vocabulary *loader_take_vocabulary(struct loader *l)
{
    (void)l;
    return NULL;
}

void loader_stop(struct loader *l)
{
    (void)l;
}

/* --- the world of a run ------------------------------------------------------------------------------------------------ */

struct step { unsigned char kind; uint16_t a, b; };
enum { MAX_STEPS = 80, MAX_PAST = 8, MAX_NODES = 40 };

struct past { char *path, *text; };     /* a session that was left, and what was in it */

/* A message as it was, to be found again. */
struct so_far { enum role role; char *text; bool stopped; };

static struct {
    struct options *o;
    struct chat *c;
    struct past past[MAX_PAST];
    int  n_past, n_said, n_files;
    int  n_answer_prefix, n_ended;              /* turns */
    bool hostile, hostiles;             /* the file of the conversation may have damaged lines; some file has */
    bool asked, elsewhere;              /* elsewhere: the step led to another conversation */
    char taken_back[256];               /* by the turn that ended in this step */
    bool gave_back;
    struct buf streamed;                /* of the answer under way */
    struct so_far *before;                /* [n_before] when the step began */
    int  n_before;
    bool was_saved, was_idle;           /* when the step began */
    size_t safe;                        /* bytes of `streamed` that must be on disk by now */
    bool failed;
    char why[600];
} w;

static struct tmpdir home;
static char sessions_dir[160];

static void failed(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void failed(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (!w.failed)
        vsnprintf(w.why, sizeof w.why, fmt, args);
    va_end(args);
    w.failed = true;
}

static bool is_sentence(const struct err *e)
{
    size_t n = strlen(e->msg);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)e->msg[i] < 32 || e->msg[i] == 127)
            return false;
    return n > 0 && n < sizeof e->msg - 1;
}

static void refused(bool ok, const struct err *e)
{
    if (!ok && !is_sentence(e))
        failed("refused without a sentence: \"%s\"", e->msg);
}

static char *lines_of(const struct transcript *t)
{
    struct buf lines = {0};
    record_transcript(&lines, t);
    char *text = strdup(buf_str(&lines));
    buf_free(&lines);
    return text;
}

static void first_difference(const char *a, const char *b, const char *what)
{
    size_t at = 0;
    while (a[at] && a[at] == b[at])
        at++;
    size_t from = at > 60 ? at - 60 : 0;
    failed("%s: memory \"...%.140s\", file \"...%.140s\"", what, a + from, b + from);
}

static void all_lines(const struct transcript *t, const char *wanted, const char *what)
{
    char *found = lines_of(t);
    if (strcmp(found, wanted))
        first_difference(wanted, found, what);
    free(found);
}

/* --- opening, ending ------------------------------------------------------------------------------------------------------ */

static void take_events(void);

static void open_chat(void)
{
    static const struct chat_front front = {.can_ask = true, .keeps = true, .attaches = true, .tools = "all", .inspects = true,
                                            .reads_ahead = true};
    struct err e = {0};
    fake.tok = tokenizers[which_tokenizer];
    w.c = chat_open(local_open(w.o, &e), w.o, &front, &e);
    CHECK(w.c);
    w.n_answer_prefix = w.n_ended = 0;
    w.asked = false;
    buf_reset(&w.streamed);
    w.safe = 0;
    take_events();
}

static void close_chat(void)
{
    ((struct local *)w.c->responder)->tok = NULL;       /* stays for the next one */
    chat_close(w.c);
    w.c = NULL;
}

static void take_event(const struct chat_event *ev)
{
    switch (ev->kind) {
    case CHAT_TEXT:
        buf_add(&w.streamed, ev->text, ev->n);
        break;
    case CHAT_TOOL_RESULT:
        buf_reset(&w.streamed);
        w.safe = 0;
        break;
    case CHAT_APPROVE:
        w.asked = true;
        break;
    case CHAT_DONE:
    case CHAT_FATAL:
        w.n_ended += ev->kind == CHAT_DONE || w.n_ended < w.n_answer_prefix;
        w.asked = false;
        w.safe = 0;
        w.gave_back = ev->taken_back != NULL;
        snprintf(w.taken_back, sizeof w.taken_back, "%s", ev->taken_back ? ev->taken_back : "");
        break;
    default:
        break;
    }
}

static void take_events(void)
{
    int n;
    const struct chat_event *ev = chat_drain(w.c, &n);
    for (int i = 0; i < n; i++)
        take_event(&ev[i]);
}

/* The program is killed here: what it had not written is gone. */
static void restart(void)
{
    struct buf path = {0}, note = {0};
    struct err e = {0};
    buf_adds(&path, chat_saved_as(w.c) ? chat_saved_as(w.c) : "");
    bool must = path.len && w.was_saved;
    disk.dead = true;
    disk.kill_in = 0;
    close_chat();
    memset(&disk, 0, sizeof disk);
    options_set(w.o, OPT_system, "", FROM_SET, &e);
    open_chat();
    w.elsewhere = true;
    if (path.len && !chat_load(w.c, path.data, &note, &e) && must)
        failed("after a kill: %s", e.msg);
    buf_free(&path);
    buf_free(&note);
}

/* --- what the user does ----------------------------------------------------------------------------------------------- */

static const char *const words[] = {
    "Roses are red", " and", "\n\n", "```c\nint x;\n```\n", " \xc3\xa9\xe2\x82\xac", "\xf0\x9f\x92\x9c", "a", "b", " ab", "  ", "- one\n- two\n",
    "{\"keep\":0}\n",
    "\\u0000", "<|im_end|>", "<think>", "END", "\xff", "<tool_call>", "violets are blue, and so on for a while",
};
enum { N_WORDS = sizeof words / sizeof *words };

#define CALL(expression) "<tool_call>\n<function=calculator>\n<parameter=expression>\n" expression "\n</parameter>\n</function>\n</tool_call>"

static uint32_t next(uint32_t *dice)
{
    *dice = *dice * 1664525 + 1013904223;
    return *dice >> 16;
}

static void say_something(struct buf *out, uint32_t *dice, int most)
{
    for (int n = (int)(next(dice) % (unsigned)most); n > 0; n--)
        buf_adds(out, words[next(dice) % N_WORDS]);
}

/* Scripts the engine's answers to the requests that the step may lead to. */
static void write_answers(uint32_t a, uint32_t b)
{
    static struct buf text[FAKE_MAX];
    static const enum end finishes[] = {END_STOP, END_STOP, END_STOP, END_STOP, END_STOP, END_LENGTH, END_CONTEXT,
                                           END_FAILED};
    uint32_t dice = a * 65536 + b;
    if (fake_engine->running)
        return;
    fake.n_submits = fake.n_answers = 0;
    fake.batch = 1 + (int)(next(&dice) % (ENGINE_MAX_DEPTH + 1));
    for (int i = 0; i < FAKE_MAX; i++) {
        struct buf *t = &text[i];
        buf_reset(t);
        if (options_on(w.o, OPT_think) && next(&dice) % 8) {
            say_something(t, &dice, 4);
            buf_adds(t, "</think>\n\n");
        }
        say_something(t, &dice, 8);
        if (next(&dice) % 32 == 0)
            for (int k = 0; k < 60; k++)
                buf_adds(t, words[(k + i) % 9]);
        if (i < FAKE_MAX / 2 && next(&dice) % 4 == 0)
            buf_adds(t, next(&dice) & 1 ? CALL("6 * 7") : CALL("1 / 0") "\n" CALL("2"));
        else if (next(&dice) % 16 == 0)
            buf_adds(t, "<tool_call>\n<function=calcul");
        fake.prompts[i].n = 0;
        fake_end(buf_str(t), finishes[next(&dice) % 8], next(&dice) % 8 == 0);
    }
}

static void begun(bool ok, const struct err *e)
{
    refused(ok, e);
    if (!ok)
        return;
    w.n_answer_prefix++;
    buf_reset(&w.streamed);
    w.safe = 0;
}

static void do_submit(uint32_t a, uint32_t b)
{
    struct buf text = {0};
    struct err e = {0};
    uint32_t dice = a ^ b << 7;
    buf_addf(&text, "u%d ", ++w.n_said);
    say_something(&text, &dice, 4);
    if (b % 8 == 0)
        buf_addf(&text, " @%s/note", home.path);
    if (b % 32 == 1)
        buf_addf(&text, " @%s/none", home.path);
    write_answers(a, b);
    bool ok = chat_submit(w.c, buf_str(&text), text.len, &e);
    if (!ok && b % 2 && !chat_busy(w.c) && w.c->turn.state != TURN_DEAD) {
        e = (struct err){0};
        ok = chat_submit(w.c, buf_str(&text), text.len, &e);        /* it was meant */
    }
    begun(ok, &e);
    buf_free(&text);
}

static void do_wait(uint32_t a, uint32_t b)
{
    size_t told = w.streamed.len;
    now_ns += (int64_t)(b % 1500) * 1000000;
    if (b % 1500 >= 1000 && chat_busy(w.c) && w.was_saved && !chat_sums_up(w.c) && !chat_asked_aside(w.c))
        w.safe = told;
    for (int i = (int)(a % 12); i >= 0 && chat_busy(w.c); i--)
        take_events();
}

/* Nobody does anything: the model may be asked for a title, and what comes next may come before its end. */
static void do_rest(uint32_t a, uint32_t b)
{
    enum { LONG_MS = 2000 };
    write_answers(a, b);
    now_ns += LONG_MS * (int64_t)1000000;
    for (int i = (int)(b % 12); i >= 0 && !chat_busy(w.c); i--)
        take_events();
}

static void do_draft(uint32_t a, uint32_t b)
{
    struct buf text = {0};
    uint32_t dice = a ^ b << 7;
    if (a % 2)
        say_something(&text, &dice, 4);
    chat_draft(w.c, buf_str(&text), text.len);
    buf_free(&text);
}

static void do_finish(uint32_t a, uint32_t b)
{
    (void)a, (void)b;
    for (int i = 0; i < 400 && chat_busy(w.c) && !w.asked; i++)
        take_events();
}

static void do_interrupt(uint32_t a, uint32_t b)
{
    chat_interrupt(w.c);
    if (a % 4)
        do_finish(a, b);
}

static void do_answer_now(uint32_t a, uint32_t b)
{
    (void)a, (void)b;
    chat_answer_now(w.c);
}

static void do_approve(uint32_t a, uint32_t b)
{
    static const char edited[] = "{\"expression\":\"1+1\"}", wrong[] = "[1]";
    struct err e = {0};
    if (!w.asked)
        return;
    switch (a % 6) {
    case 0: chat_refuse(w.c, b % 2 ? "not \xff now" : ""); break;
    case 1: refused(chat_approve_edited(w.c, edited, strlen(edited), &e), &e); break;
    case 2:
        if (chat_approve_edited(w.c, wrong, strlen(wrong), &e))
            failed("arguments that are no object were taken");
        refused(false, &e);
        return;
    case 3: chat_approve(w.c, CHAT_ALWAYS); break;
    case 4: chat_approve(w.c, CHAT_NO); break;
    default: chat_approve(w.c, CHAT_YES); break;
    }
    w.asked = false;
}

static void do_regenerate(uint32_t a, uint32_t b)
{
    struct err e = {0};
    write_answers(a, b);
    begun(a % 2 ? chat_regenerate(w.c, &e) : chat_regenerate_seed(w.c, b, &e), &e);
}

static void do_continue(uint32_t a, uint32_t b)
{
    struct err e = {0};
    write_answers(a, b);
    begun(chat_continue(w.c, &e), &e);
}

static int some(uint32_t a, int n)      /* now and then one that is not there */
{
    return (int)(a % (unsigned)(n + 2)) - 1;
}

static void do_branch(uint32_t a, uint32_t b)
{
    struct err e = {0};
    int i = some(a, chat_n_messages(w.c));
    write_answers(a, b);
    begun(chat_branch_token(w.c, i, some(b, i < 0 ? 1 : chat_n_tokens(w.c, i)), some(b >> 3, 2), &e), &e);
}

static void do_undo(uint32_t a, uint32_t b)
{
    struct buf text = {0};
    struct err e = {0};
    (void)a, (void)b;
    refused(chat_undo(w.c, &text, &e), &e);
    buf_free(&text);
}

static void do_redo(uint32_t a, uint32_t b)
{
    struct err e = {0};
    (void)a, (void)b;
    refused(chat_redo(w.c, &e), &e);
}

/* Until something is sent it changes nothing. */
static void do_edit(uint32_t a, uint32_t b)
{
    struct buf text = {0};
    struct err e = {0};
    char *before = lines_of(&w.c->t);
    int i = some(a, chat_n_messages(w.c));
    bool ok = chat_edit(w.c, i, &text, &e);
    refused(ok, &e);
    all_lines(&w.c->t, before, "an edit changed the conversation");
    if (ok && chat_edited(w.c) != i)
        failed("message %d is to be edited, and %d is", i, chat_edited(w.c));
    if (b % 3 == 0)
        chat_edit_end(w.c);
    if (b % 3 == 0 && chat_edited(w.c) >= 0)
        failed("an edit that was left is still there");
    buf_free(&text);
    free(before);
}

static void do_cut(uint32_t a, uint32_t b)
{
    struct err e = {0};
    (void)b;
    refused(chat_cut(w.c, some(a, chat_n_messages(w.c)), &e), &e);
}

static void do_mark(uint32_t a, uint32_t b)
{
    static const enum chat_mark marks[] = {CHAT_DROPPED, CHAT_PINNED, CHAT_PLAIN, CHAT_DROPPED};
    const struct chat_part *parts;
    struct err e = {0};
    int n = chat_context(w.c, &parts), i = some(a, n);
    refused(chat_mark(w.c, i >= 0 && i < n ? parts[i].number : i, marks[b % 4], &e), &e);
}

static void do_compact(uint32_t a, uint32_t b)
{
    struct err e = {0};
    write_answers(a, b);
    begun(chat_compact(w.c, b % 2 ? "" : "names", &e), &e);
}

static void do_aside(uint32_t a, uint32_t b)
{
    struct err e = {0};
    write_answers(a, b);
    begun(chat_aside(w.c, words[a % N_WORDS], &e), &e);
}

static void do_decide(uint32_t a, uint32_t b)
{
    (void)b;
    chat_decide(w.c, a % 3);
}

static void do_sibling(uint32_t a, uint32_t b)
{
    struct err e = {0};
    refused(chat_show_sibling(w.c, some(a, chat_n_messages(w.c)), some(b, 3), &e), &e);
}

static void do_go(uint32_t a, uint32_t b)
{
    struct err e = {0};
    (void)b;
    refused(chat_go(w.c, some(a, chat_n_nodes(w.c)), &e), &e);
}

static void do_recall(uint32_t a, uint32_t b)
{
    struct err e = {0};
    char text[64];
    int n = snprintf(text, sizeof text, "r%d %s", ++w.n_said, words[b % N_WORDS]);
    refused(chat_recall(w.c, a % 2 ? "user" : "assistant", text, (size_t)n, &e), &e);
}

static void do_rename(uint32_t a, uint32_t b)
{
    struct err e = {0};
    char title[256];
    snprintf(title, sizeof title, "%s%s", words[a % N_WORDS], words[b % N_WORDS]);
    refused(chat_rename(w.c, title, &e), &e);
}

static void do_system(uint32_t a, uint32_t b)
{
    struct err e = {0};
    (void)b;
    refused(options_set(w.o, OPT_system, a % 3 ? words[b % 4] : "", FROM_SET, &e), &e);
}

static void do_set(uint32_t a, uint32_t b)
{
    static const struct { enum option_id id; const char *values[4]; } settings[] = {
        {OPT_think, {"on", "off", "on", "off"}}, {OPT_think_budget, {"0", "3", "0", "20"}}, {OPT_max_tokens, {"0", "0", "5", "40"}},
        {OPT_tools_approve, {"auto", "ask", "never", "always"}}, {OPT_tool_rounds, {"8", "1", "3", "2"}}, {OPT_stop, {"END", "END", "END", "END"}},
        {OPT_auto_title, {"on", "auto", "on", "off"}},
    };
    struct err e = {0};
    int k = (int)(a % (sizeof settings / sizeof *settings));
    refused(options_set(w.o, settings[k].id, settings[k].values[b % 4], FROM_SET, &e), &e);
}

static void do_tools(uint32_t a, uint32_t b)
{
    struct err e = {0};
    (void)b;
    refused(chat_offer_tools(w.c, a % 2 ? "all" : "none", &e), &e);
}

/* A conversation is left: what is in it will be asked for. */
static struct past leave(void)
{
    return (struct past){strdup(chat_saved_as(w.c) ? chat_saved_as(w.c) : ""), lines_of(&w.c->t)};
}

static void forget_past(struct past *p)
{
    free(p->path);
    free(p->text);
    *p = w.past[--w.n_past];
}

/* Drops what was known of the same file, whether this version is kept or not. */
static void left(struct past p, bool ok)
{
    for (int i = w.n_past - 1; i >= 0; i--)
        if (!strcmp(w.past[i].path, p.path))
            forget_past(&w.past[i]);
    if (ok && *p.path && w.n_past < MAX_PAST) {
        w.past[w.n_past++] = p;
        return;
    }
    free(p.path);
    free(p.text);
}

/* Its file has what was in it. */
static void same_as(const struct past *p, struct err *e)
{
    struct transcript t = {0};
    struct buf note = {0};
    if (session_read(p->path, &t, &note, e))
        all_lines(&t, p->text, "a conversation came back as another one");
    else
        failed("it cannot be read: %s", e->msg);
    transcript_free(&t);
    buf_free(&note);
}

static void do_new(uint32_t a, uint32_t b)
{
    struct err e = {0};
    struct past p = leave();
    (void)a, (void)b;
    bool ok = chat_new(w.c, &e);
    refused(ok, &e);
    w.elsewhere = ok;
    w.hostile = w.hostile && !ok;
    left(p, ok);
}

static void do_save(uint32_t a, uint32_t b)
{
    struct err e = {0};
    char name[32];
    struct past p = leave();
    (void)b;
    snprintf(name, sizeof name, "s%u", a % 4 ? (unsigned)w.n_files++ : a % 16);
    bool ok = chat_save(w.c, name, &e), was_unsaved = !w.was_saved;
    refused(ok, &e);
    left(p, ok && !was_unsaved && w.was_idle);
}

static void do_load(uint32_t a, uint32_t b)
{
    struct err e = {0};
    struct buf note = {0};
    (void)b;
    if (!w.n_past)
        return;
    struct past p = leave();
    int i = (int)(a % (unsigned)w.n_past);
    bool ok = chat_load(w.c, w.past[i].path, &note, &e);
    refused(ok, &e);
    if (ok)
        all_lines(&w.c->t, w.past[i].text, "a conversation came back as another one");
    w.elsewhere = ok;
    w.hostile = ok ? w.hostiles : w.hostile;
    left(p, ok);
    buf_free(&note);
}

static void do_reopen(uint32_t a, uint32_t b)
{
    struct err e = {0};
    struct buf note = {0};
    if (chat_busy(w.c) || chat_unsaved(w.c) || disk.mode)
        return;
    struct past p = leave();
    close_chat();
    if (a % 4 == 0)
        which_tokenizer = 1 - which_tokenizer;
    options_set(w.o, OPT_system, "", FROM_SET, &e);
    open_chat();
    w.elsewhere = true;
    if (*p.path && !chat_load(w.c, p.path, &note, &e))
        failed("it does not open again: %s", e.msg);
    else if (*p.path)
        all_lines(&w.c->t, p.text, "a conversation came back as another one");
    left(p, b % 2);
    buf_free(&note);
}

static void do_kill(uint32_t a, uint32_t b)
{
    (void)b;
    if (a % 4)
        disk.kill_in = 1 + (int)(a / 4 % 12);   /* in the middle of what comes next */
    else
        restart();
}

static void do_disk(uint32_t a, uint32_t b)
{
    if (w.was_saved || !chat_saved_as(w.c)) {
        disk.mode = (enum disk_mode)(a % N_DISK_MODES);
        disk.dice = b;
    }
}

static void do_mend(uint32_t a, uint32_t b)
{
    (void)a, (void)b;
    disk.mode = DISK_WORKS;
    disk.half = false;
}

static void damage(struct buf *text, uint32_t *dice)
{
    static const char *const pieces[] = {
        "{", "}", "\"", "\n", "\\u0000", "null", "-1", "99999999999", "{\"keep\":0}\n", "{\"go\":1}\n", "{\"keep\":1,\"forget\":true}\n",
        "{\"go\":0}\n",
        "{\"answering\":[0,0,0],\"content\":\"cut\",\"ids\":[99]}\n", "{\"role\":\"user\",\"content\":\"x\"}\n",
        "{\"role\":\"tool\",\"name\":\"t\",\"content\":\"x\"}\n",
        "\"stopped\":true,", "{\"role\":\"assistant\",\"content\":\"y\",\"ids\":[97,5],\"stopped\":true}\n", "{\"title\":\"t\"}\n",
        "{\"role\":\"syst", "\xff",
    };
    enum { N_PIECES = sizeof pieces / sizeof *pieces };
    for (int k = 1 + (int)(next(dice) % 3); k && text->len; k--) {
        struct buf out = {0};
        size_t at = (next(dice) << 16 | next(dice)) % text->len, n = next(dice) % 40;
        buf_add(&out, text->data, at);
        switch (next(dice) % 4) {
        case 0:                         /* other bytes */
            buf_addc(&out, (char)next(dice));
            break;
        case 1:                         /* something that means something */
            buf_adds(&out, pieces[next(dice) % N_PIECES]);
            n = 0;
            break;
        case 2:                         /* the same, as a line of its own */
            n = strcspn(text->data + at, "\n");
            buf_add(&out, text->data + at, n);
            buf_addf(&out, "\n%s", pieces[next(dice) % N_PIECES]);
            n += at + n < text->len;
            break;
        default:                        /* a stretch less */
            break;
        }
        n = at + n > text->len ? text->len - at : n;
        buf_add(&out, text->data + at + n, text->len - at - n);
        buf_free(text);
        *text = out;
    }
}

static void do_hostile(uint32_t a, uint32_t b)
{
    static const char good[] =
        "{\"q35chat\":1,\"model\":\"m\"}\n{\"role\":\"system\",\"content\":\"s\"}\n{\"role\":\"user\",\"content\":\"hello \\u0000 \xc3\xa9\"}\n"
        "{\"role\":\"assistant\",\"reasoning\":\"r\",\"content\":\"\",\"calls\":[{\"name\":\"calculator\",\"arguments\":\"{}\"}],\"ids\":[1,2,3]}\n"
        "{\"role\":\"tool\",\"name\":\"calculator\",\"content\":\"noon\"}\n{\"keep\":1}\n"
        "{\"role\":\"assistant\",\"reasoning\":\"\",\"content\":\"hi\",\"ids\":[104,105],\"stopped\":true}\n"
        "{\"go\":2}\n{\"role\":\"user\",\"content\":\"no\"}\n{\"keep\":3,\"forget\":true}\n{\"title\":\"t\"}\n"
        "{\"answering\":[0,0,0],\"content\":\"a running answer\",\"ids\":[97]}\n";
    struct buf text = {0}, note = {0};
    struct err e = {0};
    char path[256], name[32];
    uint32_t dice = a << 16 | b;
    if (a % 3 && chat_saved_as(w.c))
        file_read(&text, chat_saved_as(w.c), 1 << 20, NULL);
    if (!text.len)
        buf_add(&text, good, sizeof good - 1);
    damage(&text, &dice);
    snprintf(name, sizeof name, "h%d", w.n_files++);
    snprintf(path, sizeof path, "%s/%s.jsonl", sessions_dir, name);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(buf_str(&text), 1, text.len, f) == text.len && !fclose(f));
    struct past p = leave();
    bool ok = chat_load(w.c, name, &note, &e);
    refused(ok, &e);
    w.elsewhere = ok;
    w.hostiles = true;
    w.hostile = w.hostile || ok;
    if (!ok)
        all_lines(&w.c->t, p.text, "a file that was refused changed the conversation");
    left(p, ok);
    buf_free(&text);
    buf_free(&note);
}

static void name_of(const char *path, char name[static 64])
{
    const char *base = strrchr(path, '/') + 1;
    snprintf(name, 64, "%.*s", (int)(strlen(base) - strlen(".jsonl")), base);
}

/* Checks that the list describes the open conversation as it is in memory, if no line of its file is damaged. */
static void do_list(uint32_t a, uint32_t b)
{
    struct sessions s;
    struct err e = {0};
    const char *path = chat_saved_as(w.c);
    int turns = 0;
    (void)b;
    for (int i = 0; i < w.c->t.n; i++)
        turns += w.c->t.entries[i]->m.role == ROLE_USER;
    refused(sessions_list(&s, a % 3 ? NULL : words[a % N_WORDS], &e), &e);
    for (int i = 0; i < s.n && path && !chat_busy(w.c) && !chat_unsaved(w.c) && !w.hostile; i++)
        if (!strcmp(s.items[i].path, path) && s.items[i].n_turns != turns)
            failed("the list has %d turns, the conversation %d", s.items[i].n_turns, turns);
    sessions_free(&s);
}

/* Its name in the trash is another one when that is taken; the sentence about it says so.  It comes back by that name. */
static bool restore(struct past *p, const char *told)
{
    static const char before[] = "/restore ";
    struct buf path = {0};
    struct err e = {0};
    char name[64];
    const char *at = strstr(told, before) + strlen(before);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " "), at);
    bool ok = trash_take(name, &e);
    refused(ok, &e);
    if (ok) {
        buf_addf(&path, "%s/q35chat/sessions/%s.jsonl", home.path, name);
        free(p->path);
        p->path = path.data;
    }
    return ok;
}

/* A conversation that is deleted is in its place or in the trash, whatever the disk does; what came back is what it was. */
static void do_delete(uint32_t a, uint32_t b)
{
    struct buf told = {0}, in_trash = {0};
    struct err e = {0};
    char name[64];
    if (!w.n_past)
        return;
    struct past *p = &w.past[a % (unsigned)w.n_past];
    name_of(p->path, name);
    if (!chat_delete(w.c, name, &told, &e)) {
        refused(false, &e);
    } else if (access(p->path, F_OK)) {
        failed("%s was deleted without a question", name);
    } else {
        bool ok = chat_delete(w.c, name, &told, &e), restored = false;
        refused(ok, &e);
        buf_addf(&in_trash, "%s/q35chat/trash/%s.jsonl", home.path, name);
        if (access(p->path, F_OK) && access(in_trash.data, F_OK))
            failed("%s is nowhere", name);
        if (ok && b % 4)
            restored = restore(p, told.data);
        if (restored || !ok)
            same_as(p, &e);
        if (access(p->path, F_OK))
            forget_past(p);
    }
    buf_free(&told);
    buf_free(&in_trash);
}

static void do_look(uint32_t a, uint32_t b)
{
    static const char *const formats[] = {"md", "json", "txt"};
    const struct chat_part *parts;
    struct buf out = {0};
    struct err e = {0};
    struct chat_token token;
    int i = some(b, chat_n_messages(w.c));
    refused(chat_export(w.c, formats[a % 3], a & 4 ? "talk.md" : NULL, &out, &e), &e);
    chat_context(w.c, &parts);
    if (i < 0 || i < chat_n_messages(w.c))
        for (int k = chat_n_tokens(w.c, i) - 1; k >= 0; k--)
            if (!chat_token(w.c, i, k, &token))
                failed("token %d of message %d is missing", k, i);
    chat_title(w.c);
    chat_rest(w.c);
    buf_free(&out);
}

static void do_die(uint32_t a, uint32_t b)
{
    (void)b;
    if (a % 4 == 0)
        fake_dies("the engine died");
}

static const struct action {
    const char *name;
    int weight;
    void (*fn)(uint32_t a, uint32_t b);
} actions[] = {
    {"submit", 24, do_submit}, {"wait", 24, do_wait}, {"finish", 24, do_finish}, {"interrupt", 8, do_interrupt}, {"answer-now", 2, do_answer_now},
    {"approve", 8, do_approve}, {"regenerate", 6, do_regenerate}, {"continue", 10, do_continue}, {"branch", 4, do_branch}, {"undo", 5, do_undo},
    {"redo", 4, do_redo}, {"edit", 4, do_edit}, {"sibling", 4, do_sibling}, {"go", 4, do_go}, {"recall", 1, do_recall}, {"rename", 2, do_rename},
    {"system", 2, do_system}, {"set", 4, do_set}, {"tools", 1, do_tools}, {"new", 2, do_new}, {"save", 3, do_save}, {"load", 3, do_load},
    {"reopen", 3, do_reopen}, {"kill", 5, do_kill}, {"disk", 4, do_disk}, {"mend", 5, do_mend}, {"hostile", 3, do_hostile}, {"look", 3, do_look},
    {"die", 1, do_die}, {"cut", 2, do_cut}, {"mark", 4, do_mark}, {"compact", 3, do_compact}, {"aside", 2, do_aside}, {"decide", 4, do_decide},
    {"list", 2, do_list}, {"rest", 8, do_rest}, {"draft", 3, do_draft},
    {"delete", 3, do_delete},
};
enum { N_ACTIONS = sizeof actions / sizeof *actions };

/* --- what must hold ----------------------------------------------------------------------------------------------------- */

static void forget_before(void)
{
    for (int i = 0; i < w.n_before; i++)
        free(w.before[i].text);
    free(w.before);
    w.before = NULL;
    w.n_before = 0;
}

static void note_before(void)
{
    const struct transcript *t = &w.c->t;
    forget_before();
    w.before = calloc((size_t)t->n_all + 1, sizeof *w.before);
    CHECK(w.before);
    for (int i = 0; i < t->n_all; i++)
        w.before[w.n_before++] = (struct so_far){t->all[i]->m.role, strdup(t->all[i]->m.content.p), t->all[i]->stopped};
    w.was_saved = chat_saved_as(w.c) && !chat_unsaved(w.c);
    w.was_idle = !chat_busy(w.c);
    w.gave_back = w.elsewhere = false;
}

/* Returns what a stopped answer keeps when it continues: half a call becomes a call, and blanks at the end are dropped. */
static size_t lasting(const char *s)
{
    const char *call = strstr(s, "<tool_call>");
    size_t n = call ? (size_t)(call - s) : strlen(s);
    while (n && strchr(" \n", s[n - 1]))
        n--;
    return n;
}

/* Every message is still there, but for one that was given back to the user, and a stopped answer that went on. */
static void nothing_is_lost(const struct transcript *t, bool killed)
{
    for (int i = 0; i < w.n_before; i++) {
        const struct so_far *b = &w.before[i];
        const struct entry *m = i < t->n_all ? t->all[i] : NULL;
        bool newest = i == w.n_before - 1;
        if (m && m->m.role == b->role && !strcmp(m->m.content.p, b->text))
            continue;
        if (newest && b->role == ROLE_USER && (killed || (w.gave_back && !strcmp(w.taken_back, b->text))))
            continue;
        if (newest && m && b->stopped && m->m.role == ROLE_ASSISTANT && !strncmp(m->m.content.p, b->text, lasting(b->text)))
            continue;
        failed("message %d is gone: \"%s\" (now \"%s\")", i, b->text, m ? m->m.content.p : "");
    }
}

static void file_is_memory(void)
{
    struct transcript t = {0};
    struct buf note = {0};
    struct err e = {0};
    const char *path = chat_saved_as(w.c);
    bool saved = path && !chat_unsaved(w.c);
    if (!path)
        return;
    if (!session_read(path, &t, &note, &e)) {
        failed("the file cannot be read: %s", e.msg);
        return;
    }
    if (saved && !chat_busy(w.c)) {
        char *memory = lines_of(&w.c->t);
        all_lines(&t, memory, "file and memory differ");
        free(memory);
    } else if (saved && w.was_idle == chat_busy(w.c) && !w.elsewhere) {
        nothing_is_lost(&t, false);
    }
    if (saved && chat_busy(w.c) && w.safe && w.safe <= w.streamed.len) {
        const struct entry *last = t.n ? t.entries[t.n - 1] : NULL;
        size_t n = w.safe;
        if (!last || last->m.content.n < n || memcmp(last->m.content.p, w.streamed.data, n))
            failed("%zu bytes were shown a second ago, the file has \"%s\"", n, last ? last->m.content.p : "");
    }
    transcript_free(&t);
    buf_free(&note);
}

static void check(void)
{
    if (!w.elsewhere)
        nothing_is_lost(&w.c->t, false);
    file_is_memory();
    if (!chat_busy(w.c) && w.n_answer_prefix != w.n_ended)
        failed("%d turns began, %d ended", w.n_answer_prefix, w.n_ended);
    if (chat_busy(w.c) && w.n_answer_prefix != w.n_ended + 1)
        failed("busy, and %d turns began, %d ended", w.n_answer_prefix, w.n_ended);
}

/* --- a run --------------------------------------------------------------------------------------------------------------- */

static void clean(const char *dir)
{
    char path[512];
    DIR *d = opendir(dir);
    for (struct dirent *at; d && (at = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", dir, at->d_name);
        if (*at->d_name != '.')
            unlink(path);
    }
    if (d)
        closedir(d);
}

static void clean_sessions(void)
{
    char trash[160];
    snprintf(trash, sizeof trash, "%s/q35chat/trash", home.path);
    clean(sessions_dir);
    clean(trash);
    rmdir(trash);
}

static void set(enum option_id id, const char *value)
{
    struct err e = {0};
    CHECK(options_set(w.o, id, value, FROM_COMMAND_LINE, &e));
}

static void begin_run(void)
{
    memset(&disk, 0, sizeof disk);
    struct buf streamed = w.streamed;
    memset(&w, 0, sizeof w);
    w.streamed = streamed;
    now_ns = 1000000000;
    which_tokenizer = 0;
    w.o = options_open();
    set(OPT_model, "tests/data/chat");
    fake.tok = tokenizers[which_tokenizer];
    fake_reset();
    open_chat();
}

/* With a disk that works again nothing stays unsaved. */
static void end_run(void)
{
    struct transcript t = {0};
    struct buf note = {0};
    struct err e = {0};
    if (disk.dead)
        restart();
    memset(&disk, 0, sizeof disk);
    for (int i = 0; i < 50 && chat_busy(w.c) && !w.failed; i++) {
        chat_interrupt(w.c);
        do_finish(0, 0);
    }
    if (chat_busy(w.c))
        failed("an interrupt does not end the turn");
    struct past p = leave();
    close_chat();
    if (!w.failed && *p.path) {
        if (session_read(p.path, &t, &note, &e))
            all_lines(&t, p.text, "at the end file and memory differ");
        else
            failed("at the end the file cannot be read: %s", e.msg);
    }
    left(p, false);
    transcript_free(&t);
    buf_free(&note);
    forget_before();
    for (int i = 0; i < w.n_past; i++) {
        free(w.past[i].path);
        free(w.past[i].text);
    }
    options_close(w.o);
    clean_sessions();
}

static void one_step(struct step s)
{
    note_before();
    actions[s.kind].fn(s.a, s.b);
    if (!disk.dead)
        take_events();
    if (disk.dead && !w.failed) {
        bool other = w.elsewhere;
        restart();
        if (!other && w.was_saved && w.was_idle && !w.failed)
            nothing_is_lost(&w.c->t, true);
    }
    if (!w.failed)
        check();
}

/* False: something did not hold; w.why says what, and *at is the step. */
static bool run(const struct step *steps, int n, int *at)
{
    begin_run();
    for (*at = 0; *at < n && !w.failed; ++*at) {
        if (w.c->t.n_all > MAX_NODES && !chat_busy(w.c) && !chat_unsaved(w.c))
            do_new(0, 0);
        one_step(steps[*at]);
    }
    end_run();
    return !w.failed;
}

/* Faults that earlier runs found, each cut down to its steps. */
static const char *const known[] = {
    /* a call became text: the tools that it was read with were offered no more */
    "submit 7825 28531, set 21307 54357, wait 12227 4001, regenerate 24478 1831, finish 40910 41496, tools 49672 26152, continue 7022 41346",
    /* saved anew while a stopped answer went on, of which nothing more came: the file's path ended before it */
    "disk 25797 36010, submit 7460 58631, sibling 30145 10053, interrupt 22638 49631, continue 62039 36715, mend 4884 38872, save 22516 57414",
    /* two of one name were deleted, and the wrong one was looked at: a mistake of this test */
    "submit 14865 60302, undo 2204 27731, save 60941 8698, compact 14028 5873, wait 22928 36472, decide 27559 5867, hostile 53121 33619,"
    "delete 62363 14124, save 45728 47007, save 23767 19737, delete 61937 5453",
    "submit 39882 50848, wait 61225 41261, save 8740 33483, hostile 65213 41345, submit 7448 40695, finish 49560 11776, delete 40159 26424,"
    "save 37892 5071, save 34574 54165, delete 55391 34849",
};

static int steps_from(const char *text, struct step steps[MAX_STEPS])
{
    char name[32];
    unsigned a, b;
    int n = 0;
    for (int took; sscanf(text, "%31s %u %u%n", name, &a, &b, &took) == 3; text += took + strspn(text + took, ", ")) {
        int k = 0;
        while (k < N_ACTIONS && strcmp(actions[k].name, name))
            k++;
        CHECK(k < N_ACTIONS && n < MAX_STEPS);
        steps[n++] = (struct step){(unsigned char)k, (uint16_t)a, (uint16_t)b};
    }
    CHECK(!*text);
    return n;
}

static int steps_of(uint64_t seed, struct step steps[MAX_STEPS])
{
    static int weights;
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    if (!weights)
        for (int i = 0; i < N_ACTIONS; i++)
            weights += actions[i].weight;
    for (int i = 0; i < MAX_STEPS; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        int k = 0, pick = (int)((x >> 8) % (unsigned)weights);
        while (pick >= actions[k].weight)
            pick -= actions[k++].weight;
        steps[i] = (struct step){(unsigned char)k, (uint16_t)(x >> 32), (uint16_t)(x >> 48)};
    }
    return MAX_STEPS;
}

/* Progress of the running child, for the parent that sees it end. */
static struct watch {
    uint64_t seed;
    long n_steps, n_runs;
    int  at;
    char why[600];
} *watch;

/* cmocka catches crashes for its report; a child ends by them. */
static void crash_plainly(void)
{
    static const int signals[] = {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS};
    for (int i = 0; i < 5; i++)
        signal(signals[i], SIG_DFL);
}

/* In a child, so that a crash is a result like others. */
static bool survives(const struct step *steps, int n)
{
    int status;
    watch->at = 0;
    *watch->why = 0;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        crash_plainly();
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        bool ok = run(steps, n, &watch->at);
        snprintf(watch->why, sizeof watch->why, "%s", w.why);
        _exit(!ok);
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status);
}

static int without(const struct step *steps, int n, int from, int k, struct step *out)
{
    memcpy(out, steps, (size_t)from * sizeof *steps);
    memcpy(out + from, steps + from + k, (size_t)(n - from - k) * sizeof *steps);
    return n - k;
}

static int shrink(struct step *steps, int n)
{
    struct step fewer[MAX_STEPS];
    for (int k = n / 2; k; k /= 2)
        for (int from = 0; from + k <= n;) {
            int left_over = without(steps, n, from, k, fewer);
            if (survives(fewer, left_over)) {
                from += k;
                continue;
            }
            memcpy(steps, fewer, (size_t)left_over * sizeof *steps);
            n = left_over;
        }
    return n;
}

static void tell(uint64_t seed)
{
    struct step steps[MAX_STEPS];
    int n = steps_of(seed, steps);
    if (survives(steps, n)) {
        print_error("seed %llu failed once, and not again\n", (unsigned long long)seed);
        return;
    }
    n = shrink(steps, n);
    survives(steps, n);
    print_error("seed %llu: %s\n", (unsigned long long)seed, *watch->why ? watch->why : "it crashed");
    for (int i = 0; i < n; i++)
        print_error("  %s %u %u\n", actions[steps[i].kind].name, steps[i].a, steps[i].b);
}

static void runs_until(uint64_t seed, double seconds)
{
    struct timespec start, now;
    struct step steps[MAX_STEPS];
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        int at;
        watch->seed = seed;
        if (!run(steps, steps_of(seed, steps), &at)) {
            fprintf(stderr, "seed %llu, step %d: %s\n", (unsigned long long)seed, at, w.why);
            exit(1);
        }
        watch->n_steps += at;
        watch->n_runs++;
        seed++;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) * 1e-9 < seconds);
}

static void test_chat__random_talks_stay_as_they_were_said(void **state)
{
    enum { SECONDS = 3 };
    int status;
    (void)state;
    if (getenv("FUZZ_ONE")) {
        tell(long_run_number("FUZZ_ONE", 1));
        return;
    }
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        crash_plainly();
        runs_until(long_run_number("FUZZ_SEED", 1), (double)long_run_number("FUZZ_SECONDS", SECONDS));
        exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    print_message("%ld runs, %ld steps\n", watch->n_runs, watch->n_steps);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        tell(watch->seed);
        fail();
    }
    assert_true(watch->n_runs > 0);
}

static void test_chat__what_was_found_is_not_found_again(void **state)
{
    struct step steps[MAX_STEPS];
    int at;
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!run(steps, steps_from(known[i], steps), &at))
            fail_msg("%s: step %d: %s", known[i], at, w.why);
}

/* The checks can fail. */
static void test_chat__a_disk_that_forgets_is_noticed(void **state)
{
    static const struct step steps[] = {{.kind = 0}, {.kind = 2}, {.kind = 0, .a = 1}, {.kind = 2}};
    int at;
    (void)state;
    begin_run();
    one_step(steps[0]);
    one_step(steps[1]);
    assert_false(w.failed);
    disk.mode = DISK_LIES;
    one_step(steps[2]);
    one_step(steps[3]);
    assert_true(w.failed);
    end_run();
    assert_true(run(steps, 4, &at));
}

static struct tokenizer *with_ids_exchanged(void)
{
    struct buf text = {0};
    struct err e = {0};
    CHECK(file_read(&text, "tests/data/chat/tokenizer.json", 1 << 20, &e));
    char *a = strstr(text.data, "\"a\":97"), *b = strstr(text.data, "\"b\":98");
    CHECK(a && b);
    a[5] = '8';
    b[5] = '7';
    CHECK(tmpdir_put(&home, "tokenizer.json", text.data, text.len));
    struct tokenizer *tok = tokenizer_open(home.path, &e);
    CHECK(tok);
    tmpdir_drop(&home, "tokenizer.json");
    buf_free(&text);
    return tok;
}

static void no_word(const char *line, void *arg)
{
    (void)line, (void)arg;
}

static int setup(void **state)
{
    struct err e = {0};
    char path[128];
    (void)state;
    assert_true(tmpdir_make(&home));
    setenv("XDG_STATE_HOME", home.path, 1);
    snprintf(path, sizeof path, "%s/q35chat", home.path);
    snprintf(sessions_dir, sizeof sessions_dir, "%s/sessions", path);
    assert_true(!mkdir(path, 0700) && !mkdir(sessions_dir, 0700));
    tokenizers[0] = tokenizer_open("tests/data/chat", &e);
    assert_non_null(tokenizers[0]);
    tokenizers[1] = with_ids_exchanged();
    assert_true(tmpdir_put(&home, "note", "a file\n", 7));
    watch = mmap(NULL, sizeof *watch, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(watch != MAP_FAILED);
    err_set_sink(no_word, NULL);        /* disks that fail are the subject here */
    return 0;
}

static int teardown(void **state)
{
    char path[128];
    (void)state;
    clean_sessions();
    rmdir(sessions_dir);
    snprintf(path, sizeof path, "%s/q35chat", home.path);
    rmdir(path);
    tmpdir_drop(&home, "note");
    tmpdir_remove(&home);
    tokenizer_close(tokenizers[0]);
    tokenizer_close(tokenizers[1]);
    for (int i = 0; i < FAKE_MAX; i++)
        ids_free(&fake.prompts[i]);
    buf_free(&w.streamed);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat__random_talks_stay_as_they_were_said),
        cmocka_unit_test(test_chat__what_was_found_is_not_found_again),
        cmocka_unit_test(test_chat__a_disk_that_forgets_is_noticed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
