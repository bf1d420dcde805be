#include "ui/pipe.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/unicode.h"
#include "chat/chat.h"
#include "ui/answer.h"
#include "ui/printer.h"
#include "ui/process.h"
#include "ui/prompt.h"
#include "ui/responder.h"
#include "ui/waiting.h"

struct pipe {
    struct options *o;
    struct chat *chat;
    bool json, jsonl, verbose, terminal;        /* terminal: stdout is one */
    bool strict, extract, streams;
    bool show_reasoning, show_answer;
    bool prints;                        /* the answer is markdown on a terminal */
    struct printer printer;
    struct reply reply;
    enum chat_event_kind part;          /* what was printed last */
    bool  printed;
    int   newlines;                     /* held back: only the end of the output decides about them */
    struct waiting waiting;
    int64_t start_ns, deadline_ns;      /* deadline 0: none */
    bool  timed_out;
    int   status;                       /* -1: not known yet */
};

/* --- output ----------------------------------------------------------------------------------------------------- */

/* Writes.  A closed pipe kills us, as it should; any other error is a failure of the program. */
static void out(struct pipe *p, const char *text, size_t n)
{
    if (fwrite(text, 1, n, stdout) == n)
        return;
    fprintf(stderr, "q35chat: cannot write the answer: %s\n", strerror(errno));
    p->status = EXIT_FAILED;
}

static void flush(struct pipe *p)
{
    if (fflush(stdout) && p->status < 0) {
        fprintf(stderr, "q35chat: cannot write the answer: %s\n", strerror(errno));
        p->status = EXIT_FAILED;
    }
}

/* Line ends wait until something follows, so that the output ends with exactly one. */
static void put(struct pipe *p, const char *text, size_t n)
{
    waiting_clear(&p->waiting);
    size_t end = n;
    while (end && text[end - 1] == '\n')
        end--;
    if (end) {
        for (; p->newlines; p->newlines--)
            out(p, "\n", 1);
        out(p, text, end);
        p->printed = true;
    }
    if (p->printed)
        p->newlines += (int)(n - end);
    flush(p);
}

/* Plain text. */
static void print(struct pipe *p, const char *text, size_t n)
{
    struct buf safe = {0};
    if (!p->terminal) {
        put(p, text, n);
        return;
    }
    unicode_safe(&safe, text, n);
    put(p, buf_str(&safe), safe.len);
    buf_free(&safe);
}

static void print_answer(struct pipe *p, const char *text, size_t n)
{
    struct buf lines = {0};
    if (!p->prints) {
        print(p, text, n);
        return;
    }
    printer_push(&p->printer, text, n, &lines);
    if (lines.len)
        put(p, lines.data, lines.len);
    buf_free(&lines);
}

/* Prints what the printer holds back of the answer. */
static void end_markdown(struct pipe *p)
{
    struct buf lines = {0};
    printer_end(&p->printer, &lines);
    if (lines.len)
        put(p, lines.data, lines.len);
    buf_free(&lines);
}

static void part(struct pipe *p, enum chat_event_kind kind, const struct chat_event *ev)
{
    if (p->part != kind || (kind == CHAT_TEXT ? p->reply.new_answer : p->reply.new_reasoning)) {
        end_markdown(p);
        p->newlines = p->printed ? 2 : 0;
    }
    p->part = kind;
    (kind == CHAT_TEXT ? print_answer : print)(p, ev->text, ev->n);
}

static void put_json(struct pipe *p, json_t *j)
{
    struct buf text = {0};
    json_print(&text, j, JSON_COMPACT | JSON_REAL_PRECISION(10));
    json_decref(j);
    buf_addc(&text, '\n');
    out(p, text.data, text.len);
    flush(p);
    buf_free(&text);
}

/* --- events ----------------------------------------------------------------------------------------------------- */

static void print_figures(const struct chat_event *ev)
{
    const struct stats *s = &ev->stats;
    fprintf(stderr, "q35chat: %d tokens, %.1f tok/s, prompt %d (%d cached), context %d of %d, seed %llu, %.1f s\n", s->n_tokens, stats_tok_s(s),
            s->n_prompt, s->n_cached, s->ctx_used, s->ctx_total, (unsigned long long)s->seed, s->wall_ms / 1000);
}

static int interrupted(const struct pipe *p)
{
    return p->timed_out ? EXIT_TIMEOUT : EXIT_SIGNAL + interrupt_signal();
}

/* Prints what was held back until the end. */
static void print_whole(struct pipe *p)
{
    if (p->show_reasoning)
        print(p, buf_str(&p->reply.reasoning), p->reply.reasoning.len);
    if (p->printed)
        p->newlines = 2;
    if (p->show_answer)
        print_answer(p, buf_str(&p->reply.answer), p->reply.answer.len);
}

/* Prints the code blocks.  False: the answer has none. */
static bool print_code(struct pipe *p)
{
    struct buf code = {0};
    bool found = code_blocks(&p->reply.answer, &code);
    print(p, buf_str(&code), code.len);
    buf_free(&code);
    return found;
}

static void print_end(struct pipe *p, enum end end)
{
    end_markdown(p);
    if (!p->printed && (p->extract || end_failed(end) || (end == END_INTERRUPTED && !p->terminal)))
        return;
    out(p, "\n", 1);
    flush(p);
}

static void complain(struct pipe *p, const struct chat_event *ev)
{
    struct buf why = {0};
    bool fine = !p->show_answer && p->reply.reasoning.len && !end_failed(ev->end);     /* the answer was not wanted */
    if (p->timed_out)
        prompt_say("--timeout was reached");
    else if (!fine && reply_complaint(&p->reply, ev, &why))
        prompt_say(why.data);
    buf_free(&why);
}

static void done(struct pipe *p, const struct chat_event *ev)
{
    int status = ev->end == END_INTERRUPTED ? interrupted(p) : (int)reply_status(&p->reply, ev, p->strict);
    struct err unsaved = {0};
    bool plain = !p->json && !p->jsonl;
    if (!chat_keep(p->chat, &unsaved) && status == EXIT_ANSWERED)       /* the answer is there, but not where it was to be kept */
        status = EXIT_FAILED;
    if (p->jsonl && end_failed(ev->end))
        put_json(p, reply_event_error(ev->text, status, p->start_ns));
    if (p->jsonl)
        put_json(p, reply_event(p->chat, ev, p->start_ns, status));
    if (p->json)
        put_json(p, reply_json(&p->reply, p->chat, ev));
    if (plain && !p->streams && !p->extract)
        print_whole(p);
    bool code = !p->extract || print_code(p);
    if (plain)
        print_end(p, ev->end);
    complain(p, ev);
    if (*unsaved.msg)
        prompt_say(unsaved.msg);
    if (!code && status == EXIT_ANSWERED) {
        prompt_say("the answer has no code block");
        status = EXIT_FAILED;
    }
    if (p->verbose)
        print_figures(ev);
    if (p->status < 0)
        p->status = status;
}

static void fatal(struct pipe *p, const char *why)
{
    if (p->jsonl) {
        put_json(p, reply_event_error(why, EXIT_MODEL, p->start_ns));
        put_json(p, reply_event_no_model(why, EXIT_MODEL, p->start_ns));
    } else if (p->json) {
        put_json(p, json_pack("{s:s, s:s, s:o}", "finish", "error", "version", Q35_VERSION, "error", json_text(why, strlen(why))));
    } else {
        end_markdown(p);
        if (p->printed)
            out(p, "\n", 1);
        flush(p);
    }
    prompt_say(why);
    p->status = EXIT_MODEL;
}

static void tell(const struct pipe *p, const struct chat_event *ev)
{
    struct buf line = {0};
    if (ev->kind == CHAT_CALL)
        buf_adds(&line, "calls ");
    buf_adds(&line, ev->kind == CHAT_CALL ? ev->name : ev->text);
    if (p->verbose)
        prompt_say(line.data);
    buf_free(&line);
}

/* Shows the memory plan, made before the weights were read. */
static void tell_memory(struct pipe *p)
{
    const struct model_info *info = chat_info(p->chat);
    if (!p->verbose || !info || !*info->memory)
        return;
    struct buf line = {0};
    waiting_clear(&p->waiting);
    buf_addf(&line, "memory planned: %s", info->memory);
    prompt_say(line.data);
    buf_free(&line);
}

static void take(struct pipe *p, const struct chat_event *ev)
{
    bool plain = !p->json && !p->jsonl && p->streams;
    const bool skipped = ev->kind == CHAT_RUNS || ev->kind == CHAT_TOOL_OUTPUT || ev->kind == CHAT_DONE || ev->kind == CHAT_FATAL;
    if (p->jsonl && !skipped)           /* a result has what was output */
        put_json(p, reply_event(p->chat, ev, p->start_ns, 0));
    bool shown = plain && ((ev->kind == CHAT_REASONING && p->show_reasoning) || (ev->kind == CHAT_TEXT && p->show_answer));
    waiting_event(&p->waiting, ev, !shown && !(p->terminal && p->printed));
    if (shown)
        part(p, ev->kind, ev);
    reply_take(&p->reply, ev);
    switch (ev->kind) {
    case CHAT_READY:
        tell_memory(p);
        break;
    case CHAT_CALL:
    case CHAT_NOTE:
        waiting_clear(&p->waiting);
        tell(p, ev);
        break;
    case CHAT_DONE:
        waiting_clear(&p->waiting);
        done(p, ev);
        break;
    case CHAT_FATAL:
        waiting_clear(&p->waiting);
        fatal(p, ev->text);
        break;
    default:
        break;
    }
}

/* --- a turn ----------------------------------------------------------------------------------------------------- */

static bool attach_files(struct pipe *p, struct err *e)
{
    int n;
    const char *const *files = options_list(p->o, OPT_file, &n);
    for (int i = 0; i < n; i++)
        if (!chat_attach(p->chat, files[i], e))
            return false;
    return true;
}

/* Sends the prompt, or sets the status. */
static void submit(struct pipe *p, struct buf *prompt)
{
    struct buf told = {0};
    struct err e = {0};
    if (!chat_resume(p->chat, &told, &e)) {
        prompt_say(e.msg);
        p->status = EXIT_FAILED;
    } else if (!attach_files(p, &e)) {
        prompt_say(e.msg);
        p->status = EXIT_USAGE;
    } else {
        if (told.len)
            prompt_say(told.data);
        if (p->jsonl)
            put_json(p, reply_event_start(p->o, p->chat, p->start_ns));
        if (!chat_submit(p->chat, buf_str(prompt), prompt->len, &e))
            fatal(p, e.msg);            /* the model failed while stdin was read */
        waiting_turn(&p->waiting);
    }
    buf_free(&told);
}

static void run_turn(struct pipe *p)
{
    enum { KILL_MS = 3000 };            /* a tool that does not end when it is asked to */
    while (p->status < 0) {
        int n;
        chat_wait(p->chat, interrupt_fd(), p->timed_out ? KILL_MS : prompt_ms_left(p->deadline_ns));
        if (interrupt_taken())
            chat_interrupt(p->chat);
        if (p->deadline_ns && !prompt_ms_left(p->deadline_ns)) {
            p->timed_out = true;
            chat_interrupt(p->chat);
        }
        const struct chat_event *ev = chat_drain(p->chat, &n);
        for (int i = 0; i < n && p->status < 0; i++)
            take(p, &ev[i]);
    }
}

/* A model that is still loading is not waited for when the program is told to end. */
static void leave_if_loading(const struct pipe *p)
{
    if (chat_ready(p->chat) || (p->status < EXIT_SIGNAL && p->status != EXIT_TIMEOUT))
        return;
    fflush(stdout);
    if (p->status > EXIT_SIGNAL)
        interrupt_die(p->status - EXIT_SIGNAL);
    _exit(p->status);
}

/* Shows the model's notice to a user who sees the answer on a terminal and named no model. */
static void tell_notice(const struct pipe *p)
{
    bool unnamed = p->terminal && isatty(2) && options_from(p->o, OPT_model) == FROM_DEFAULT;
    const char *notice = chat_notice(p->chat);
    struct buf line = {0};
    if ((unnamed || p->verbose) && notice) {
        buf_add(&line, notice, strcspn(notice, "\n"));         /* the rest says what to ask it */
        prompt_say(buf_str(&line));
    }
    buf_free(&line);
}

static int usage(const char *why)
{
    prompt_say(why);
    return EXIT_USAGE;
}

static struct pipe make_pipe(struct options *o)
{
    const char *reasoning = options_text(o, OPT_reasoning);
    struct pipe p = {
        .o = o,
        .json = options_on(o, OPT_json),
        .jsonl = options_on(o, OPT_jsonl),
        .verbose = options_on(o, OPT_verbose),
        .terminal = isatty(1),
        .prints = printer_usable(o),
        .strict = options_on(o, OPT_strict),
        .extract = options_on(o, OPT_extract),
        .show_reasoning = !strcmp(reasoning, "show") || !strcmp(reasoning, "only"),
        .show_answer = strcmp(reasoning, "only") != 0,
        .start_ns = clock_ns(),
        .status = -1,
    };
    p.streams = options_on(o, OPT_stream) && !p.extract;
    if (options_real(o, OPT_timeout) > 0)
        p.deadline_ns = p.start_ns + (int64_t)(options_real(o, OPT_timeout) * 1e9);
    return p;
}

static void no_model(struct pipe *p, const char *why)
{
    if (p->jsonl)
        put_json(p, reply_event_start(p->o, NULL, p->start_ns));
    fatal(p, why);
}

void pipe_no_model(struct options *o, const char *why)
{
    struct pipe p = make_pipe(o);
    no_model(&p, why);
}

int pipe_run(struct options *o, struct buf *prompt)
{
    static const struct chat_front front = {.tools = "none"};
    struct pipe p = make_pipe(o);
    struct err e = {0};
    bool use_stdin = options_on(o, OPT_stdin) && !isatty(0);
    if (!use_stdin && prompt_is_blank(prompt))
        return usage("no prompt: give one as arguments or on stdin");
    if (options_given(o, OPT_resume) && !*options_text(o, OPT_resume))
        return usage("-r needs the name of a conversation here; q35chat session list shows them");
    if (!prompt_check_files(o, &e))
        return usage(e.msg);
    if (prompt_ignores_file(prompt) && p.strict)
        return EXIT_USAGE;
    interrupt_open();
    p.chat = chat_open(ui_responder(o, &e), o, &front, &e);  /* loads while stdin is being read */
    if (!p.chat) {
        no_model(&p, e.msg);
        return p.status;
    }
    tell_notice(&p);
    reply_init(&p.reply);
    if (p.prints)
        printer_open(&p.printer, o);
    waiting_open(&p.waiting, o);
    int status = use_stdin ? prompt_read_stdin(o, prompt, p.deadline_ns) : EXIT_ANSWERED;
    if (status)
        p.status = status;
    else if (prompt_is_blank(prompt))
        p.status = usage("no prompt: stdin is empty");
    else
        submit(&p, prompt);
    run_turn(&p);
    leave_if_loading(&p);
    printer_free(&p.printer);
    reply_free(&p.reply);
    chat_close(p.chat);
    return p.status;
}
