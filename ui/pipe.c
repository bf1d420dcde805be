#include "ui/pipe.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/unicode.h"
#include "chat/chat.h"
#include "ui/exits.h"
#include "ui/interrupt.h"
#include "ui/turn.h"

struct pipe {
    struct options *o;
    struct chat *chat;
    bool json, jsonl, verbose, terminal;        /* terminal: stdout is one */
    bool show_reasoning, show_answer;
    struct buf reasoning, answer;
    json_t *calls;                      /* [{"name", "arguments", "result"}] */
    int   n_results;
    bool  new_part;                     /* text after a tool call: a paragraph of its own */
    enum chat_event_kind part;          /* what was printed last */
    bool  printed;
    int   newlines;                     /* held back: only the end of the output decides about them */
    struct turn progress;               /* lines on stderr, if that is a terminal */
    int64_t start_ns;
    int   status;                       /* -1: goes on */
};

/* --- output ----------------------------------------------------------------------------------------------------- */

/* A write that fails for another reason than a closed pipe (that one kills us, as it should) is a failure. */
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

/* Plain text; line ends wait until something follows, so that the output ends with exactly one. */
static void print(struct pipe *p, const char *text, size_t n)
{
    struct buf safe = {0};
    turn_clear(&p->progress);
    if (p->terminal) {
        unicode_safe(&safe, text, n);
        text = buf_str(&safe);
        n = safe.len;
    }
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
    buf_free(&safe);
    flush(p);
}

static void part(struct pipe *p, enum chat_event_kind kind, const struct chat_event *ev)
{
    if (p->printed && (p->part != kind || p->new_part))
        p->newlines = 2;
    p->part = kind;
    p->new_part = false;
    print(p, ev->text, ev->n);
}

static void put_json(struct pipe *p, json_t *j)
{
    char *text = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(10));
    json_decref(j);
    CHECK(text);
    out(p, text, strlen(text));
    out(p, "\n", 1);
    flush(p);
    free(text);
}

static json_t *text_json(const char *s, size_t n)
{
    json_t *j = json_stringn(s, n);     /* chat gives valid UTF-8 only */
    CHECK(j);
    return j;
}

static json_t *json_of_arguments(const char *text, size_t n)
{
    json_t *j = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    return j ? j : text_json(text, n);
}

/* --- JSON ------------------------------------------------------------------------------------------------------- */

static json_t *event_json(struct pipe *p, const char *type)
{
    return json_pack("{s:s, s:f}", "type", type, "t", clock_ms_since(p->start_ns) / 1000);
}

static void add_figures(struct pipe *p, json_t *j, const struct chat_event *ev)
{
    const struct chat_stats *s = &ev->stats;
    const struct chat_info *info = chat_info(p->chat);
    json_t *by_position = json_array();
    for (int i = 0; i < CHAT_MAX_DEPTH && s->drafted[i]; i++)
        json_array_append_new(by_position, json_real((double)s->accepted[i] / s->drafted[i]));
    json_object_set_new(j, "finish", json_string(chat_end_name(ev->end)));
    if (ev->end == CHAT_FAILED)
        json_object_set_new(j, "error", text_json(ev->text, ev->n));
    json_object_set_new(j, "tokens", json_pack("{s:i, s:i, s:i}", "prompt", s->n_prompt, "cached", s->n_cached, "generated", s->n_tokens));
    json_object_set_new(j, "context", json_pack("{s:i, s:i}", "used", s->ctx_used, "total", s->ctx_total));
    json_object_set_new(j, "tok_per_s", json_real(s->tok_s));
    json_object_set_new(j, "acceptance", s->acceptance < 0 ? json_null() : json_real(s->acceptance));
    json_object_set_new(j, "acceptance_by_position", by_position);
    json_object_set_new(j, "steps", json_integer(s->n_steps));
    json_object_set_new(j, "rounds", json_integer(s->n_rounds));
    json_object_set_new(j, "prefill_ms", json_real(s->prefill_ms));
    json_object_set_new(j, "decode_ms", json_real(s->decode_ms));
    json_object_set_new(j, "wall_ms", json_real(s->wall_ms));
    json_object_set_new(j, "seed", json_integer((json_int_t)s->seed));
    json_object_set_new(j, "model", json_string(info ? info->model : chat_model_dir(p->chat)));
    if (info)
        json_object_set_new(j, "backend", json_string(info->backend));
    json_object_set_new(j, "version", json_string(Q35_VERSION));
}

static void put_object(struct pipe *p, const struct chat_event *ev)
{
    json_t *j = json_object();
    json_object_set_new(j, "answer", text_json(buf_str(&p->answer), p->answer.len));
    json_object_set_new(j, "reasoning", text_json(buf_str(&p->reasoning), p->reasoning.len));
    json_object_set(j, "tool_calls", p->calls);
    add_figures(p, j, ev);
    put_json(p, j);
}

static void put_event(struct pipe *p, const struct chat_event *ev)
{
    static const char *const types[] = {
        [CHAT_LOADING] = "load", [CHAT_READY] = "ready", [CHAT_PREFILL] = "prefill", [CHAT_REASONING] = "reasoning",
        [CHAT_TEXT] = "text", [CHAT_CALL] = "tool_call", [CHAT_APPROVE] = "approve", [CHAT_TOOL_RESULT] = "tool_result",
        [CHAT_NOTE] = "note", [CHAT_DONE] = "end", [CHAT_FATAL] = "end",
    };
    json_t *j = event_json(p, types[ev->kind]);
    switch (ev->kind) {
    case CHAT_LOADING:
    case CHAT_PREFILL:
        json_object_set_new(j, "done", json_integer((json_int_t)ev->done));
        json_object_set_new(j, "total", json_integer((json_int_t)ev->total));
        if (ev->kind == CHAT_PREFILL)
            json_object_set_new(j, "cached", json_integer((json_int_t)ev->cached));
        break;
    case CHAT_READY:
        json_object_set_new(j, "model", json_string(chat_info(p->chat)->model));
        json_object_set_new(j, "backend", json_string(chat_info(p->chat)->backend));
        json_object_set_new(j, "context", json_integer(chat_info(p->chat)->n_ctx));
        break;
    case CHAT_CALL:
    case CHAT_APPROVE:
        json_object_set_new(j, "name", text_json(ev->name, strlen(ev->name)));
        json_object_set_new(j, "arguments", json_of_arguments(ev->text, ev->n));
        if (ev->truncated)
            json_object_set_new(j, "truncated", json_true());
        break;
    case CHAT_TOOL_RESULT:
        json_object_set_new(j, "name", text_json(ev->name, strlen(ev->name)));
        json_object_set_new(j, "text", text_json(ev->text, ev->n));
        break;
    case CHAT_FATAL:
        json_object_set_new(j, "finish", json_string(chat_end_name(CHAT_FAILED)));
        json_object_set_new(j, "error", text_json(ev->text, ev->n));
        break;
    case CHAT_DONE:
        add_figures(p, j, ev);
        break;
    default:
        json_object_set_new(j, "text", text_json(ev->text, ev->n));
        break;
    }
    put_json(p, j);
}

/* --- events ----------------------------------------------------------------------------------------------------- */

static void note(const char *text)
{
    struct buf safe = {0};
    unicode_safe(&safe, text, strlen(text));
    fprintf(stderr, "q35chat: %s\n", buf_str(&safe));
    buf_free(&safe);
}

/* The name comes from the model. */
static void note_call(const char *name)
{
    struct buf text = {0};
    buf_addf(&text, "calls %s", name);
    note(text.data);
    buf_free(&text);
}

/* The answer as a whole is kept for --json, with the same paragraph between two parts that plain output has. */
static void collect(struct buf *b, const struct chat_event *ev, bool new_part)
{
    if (new_part && b->len)
        buf_adds(b, "\n\n");
    buf_add(b, ev->text, ev->n);
}

static void add_call(struct pipe *p, const struct chat_event *ev)
{
    json_t *j = json_object();
    json_object_set_new(j, "name", text_json(ev->name, strlen(ev->name)));
    json_object_set_new(j, "arguments", json_of_arguments(ev->text, ev->n));
    if (ev->truncated)
        json_object_set_new(j, "truncated", json_true());
    json_array_append_new(p->calls, j);
    p->new_part = true;
}

static void print_figures(const struct chat_event *ev)
{
    const struct chat_stats *s = &ev->stats;
    fprintf(stderr, "q35chat: %d tokens, %.1f tok/s, prompt %d (%d cached), context %d of %d, seed %llu, %.1f s\n", s->n_tokens, s->tok_s,
            s->n_prompt, s->n_cached, s->ctx_used, s->ctx_total, (unsigned long long)s->seed, s->wall_ms / 1000);
}

static int interrupted(void)
{
    return interrupt_ending() ? EXIT_SIGNAL + interrupt_ending() : EXIT_INTERRUPTED;
}

static void done(struct pipe *p, const struct chat_event *ev)
{
    if (p->json)
        put_object(p, ev);
    else if (!p->jsonl && (p->printed || ev->end != CHAT_FAILED)) {
        out(p, "\n", 1);
        flush(p);
    }
    if (ev->end == CHAT_FAILED || ev->end == CHAT_TOOL_ROUNDS)
        note(ev->text);
    if (ev->end == CHAT_CONTEXT)
        note("the answer was cut off: the context is full");
    if (ev->end == CHAT_LENGTH && !p->answer.len)
        note("max_tokens was reached before the answer began");
    if (p->verbose)
        print_figures(ev);
    if (p->status < 0)
        p->status = ev->end == CHAT_INTERRUPTED ? interrupted()
                  : ev->end == CHAT_FAILED || ev->end == CHAT_TOOL_ROUNDS ? EXIT_FAILED : EXIT_ANSWERED;
}

static void fatal(struct pipe *p, const struct chat_event *ev)
{
    if (p->json)
        put_json(p, json_pack("{s:s, s:s, s:s%}", "finish", "error", "version", Q35_VERSION, "error", ev->text, ev->n));
    else if (p->printed && !p->jsonl) {
        out(p, "\n", 1);
        flush(p);
    }
    note(ev->text);
    p->status = EXIT_FAILED;
}

static void take(struct pipe *p, const struct chat_event *ev)
{
    bool plain = !p->json && !p->jsonl;
    if (p->jsonl && ev->kind != CHAT_TOOL_OUTPUT)      /* its result says it all */
        put_event(p, ev);
    switch (ev->kind) {
    case CHAT_REASONING:
        collect(&p->reasoning, ev, p->new_part);
        if (plain && p->show_reasoning)
            part(p, CHAT_REASONING, ev);
        break;
    case CHAT_TEXT:
        collect(&p->answer, ev, p->new_part);
        if (plain && p->show_answer)
            part(p, CHAT_TEXT, ev);
        p->new_part = false;
        break;
    case CHAT_CALL:
        add_call(p, ev);
        if (p->verbose)
            note_call(ev->name);
        break;
    case CHAT_TOOL_RESULT:
        json_object_set_new(json_array_get(p->calls, (size_t)p->n_results++), "result", text_json(ev->text, ev->n));
        break;
    case CHAT_NOTE:
        if (p->verbose)
            note(ev->text);
        break;
    case CHAT_DONE:
        turn_clear(&p->progress);
        done(p, ev);
        break;
    case CHAT_FATAL:
        turn_clear(&p->progress);
        fatal(p, ev);
        break;
    case CHAT_LOADING:
    case CHAT_READY:
    case CHAT_PREFILL:
        turn_event(&p->progress, ev);
        break;
    default:
        break;
    }
}

/* --- input ------------------------------------------------------------------------------------------------------ */

enum { MAX_INPUT = 256 << 20, CHUNK = 65536, NOTICE_MS = 2000 };

/* stdin to its end.  Somebody who waits for us while we wait for stdin gets told after two seconds. */
static bool read_stdin(struct buf *text, struct err *e)
{
    struct pollfd fds[2] = {{.fd = 0, .events = POLLIN}, {.fd = interrupt_fd(), .events = POLLIN}};
    bool told = false;
    for (;;) {
        int r = poll(fds, 2, told ? -1 : NOTICE_MS);
        if (fds[1].revents && interrupt_taken())
            _exit(interrupted());    /* the model may still be loading: nothing of it is worth waiting for */
        if (r == 0) {
            fprintf(stderr, "q35chat: waiting for stdin (--no-stdin ignores it)\n");
            told = true;
        }
        if (r <= 0)
            continue;
        buf_reserve(text, CHUNK);
        ssize_t n = read(0, text->data + text->len, CHUNK);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return err_set(e, "cannot read stdin: %s", strerror(errno));
        if (n == 0)
            return true;
        text->len += (size_t)n;
        text->data[text->len] = 0;
        if (text->len > MAX_INPUT)
            return err_set(e, "stdin has more than %d MiB, no context holds that much", MAX_INPUT >> 20);
    }
}

static bool is_blank(const struct buf *b)
{
    return !b->len || strspn(b->data, " \t\r\n") == b->len;
}

/* The words of the command line, an empty line, then stdin. */
static bool add_stdin(struct buf *prompt, struct err *e)
{
    struct buf text = {0};
    bool ok = read_stdin(&text, e);
    const char *s = buf_str(&text);
    size_t n = text.len;
    if (n >= 3 && !memcmp(s, "\xef\xbb\xbf", 3)) {      /* a byte order mark is no part of the text */
        s += 3;
        n -= 3;
    }
    if (ok && memchr(s, 0, n))
        ok = err_set(e, "stdin looks binary: it holds a zero byte; text was expected");
    if (ok && !unicode_valid(s, n))
        fprintf(stderr, "q35chat: stdin is not all UTF-8; what is not became U+FFFD\n");
    if (ok && n && prompt->len)
        buf_adds(prompt, "\n\n");
    if (ok)
        buf_add(prompt, s, n);
    buf_free(&text);
    return ok;
}

int pipe_run(struct options *o, struct buf *prompt)
{
    const char *reasoning = options_text(o, OPT_reasoning);
    struct pipe p = {
        .o = o,
        .json = options_on(o, OPT_json),
        .jsonl = options_on(o, OPT_jsonl),
        .verbose = options_on(o, OPT_verbose),
        .terminal = isatty(1),
        .show_reasoning = !strcmp(reasoning, "show") || !strcmp(reasoning, "only"),
        .show_answer = strcmp(reasoning, "only") != 0,
        .start_ns = clock_ns(),
        .status = -1,
    };
    static const struct chat_front front = {.tools = "none"};
    struct err e = {0};
    bool use_stdin = options_on(o, OPT_stdin) && !isatty(0);
    if (!use_stdin && is_blank(prompt)) {
        note("there is no prompt: give one as arguments or on stdin");
        return EXIT_USAGE;
    }
    interrupt_open();
    p.chat = chat_open(o, &front, &e);  /* loads while stdin is being read */
    if (!p.chat) {
        note(e.msg);
        return EXIT_FAILED;
    }
    p.calls = json_array();
    turn_init(&p.progress, p.chat, o);
    if (use_stdin && !add_stdin(prompt, &e)) {
        note(e.msg);
        p.status = EXIT_USAGE;
    } else if (is_blank(prompt)) {
        note("there is no prompt: stdin is empty");
        p.status = EXIT_USAGE;
    } else if (!chat_resume(p.chat, &p.answer, &e)) {
        note(e.msg);
        p.status = EXIT_FAILED;
    } else {
        if (p.answer.len)
            note(p.answer.data);
        buf_reset(&p.answer);
        CHECK(chat_submit(p.chat, prompt->data, prompt->len, &e));
    }
    if (p.verbose && chat_notice(p.chat))
        note(chat_notice(p.chat));
    while (p.status < 0) {
        int n;
        chat_wait(p.chat, interrupt_fd(), -1);
        if (interrupt_taken())
            chat_interrupt(p.chat);
        const struct chat_event *ev = chat_drain(p.chat, &n);
        for (int i = 0; i < n && p.status < 0; i++)
            take(&p, &ev[i]);
    }
    json_decref(p.calls);
    buf_free(&p.answer);
    buf_free(&p.reasoning);
    chat_close(p.chat);
    return p.status;
}
