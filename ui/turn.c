#include "ui/turn.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unicode.h"
#include "ui/process.h"
#include "ui/tui/look.h"
#include "ui/tui/numbers.h"

void turn_init(struct turn *t, struct chat *c, struct options *o)
{
    const char *when = options_text(o, OPT_color), *no_color = getenv("NO_COLOR");
    bool can = isatty(1) && !(no_color && *no_color), speaks = options_on(o, OPT_accessible);
    *t = (struct turn){
        .chat = c,
        .o = o,
        .color = !speaks && !look_is_plain(getenv("TERM")) && (!strcmp(when, "always") || (can && strcmp(when, "never"))),
        .speaks = speaks,
    };
    waiting_open(&t->waiting, o);
}

void turn_free(struct turn *t)
{
    wrap_free(&t->wrap);
}

/* Returns the width of the terminal now: windows change.  0: unknown. */
static int columns(void)
{
    struct winsize size;
    return ioctl(1, TIOCGWINSZ, &size) ? 0 : size.ws_col;
}

/* Sends a sequence only when the state changes: words come one by one. */
static void dim(struct turn *t, bool on)
{
    if (t->color && on != t->dimmed)
        fputs(on ? "\033[2m" : "\033[0m", stdout);
    t->dimmed = on;
}

static void put(struct turn *t, const struct buf *text, bool dimmed)
{
    if (text->len)
        dim(t, dimmed);
    fwrite(buf_str(text), 1, text->len, stdout);
    fflush(stdout);
}

/* Prints a text that is not part of the answer, wrapped on a terminal. */
static void say(struct turn *t, const char *text, size_t n, bool dimmed)
{
    struct buf safe = {0}, lines = {0};
    struct wrap wrap = {0};
    int width = t->wraps ? columns() : 0;
    unicode_safe(&safe, text, n);
    wrap_push(&wrap, buf_str(&safe), safe.len, width, &lines);
    wrap_flush(&wrap, width, &lines);
    put(t, &lines, dimmed);
    dim(t, false);
    fflush(stdout);
    buf_free(&safe);
    buf_free(&lines);
    wrap_free(&wrap);
}

void turn_say(struct turn *t, const char *fmt, ...)
{
    struct buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_addv(&text, fmt, ap);
    va_end(ap);
    say(t, buf_str(&text), text.len, true);
    buf_free(&text);
}

/* --- the parts of an answer ------------------------------------------------------------------------------------- */

/* Ends the line that is being printed, if there is one. */
static void end_line(struct turn *t)
{
    waiting_clear(&t->waiting);
    if (t->in_line) {                   /* prints what is held back because its word may continue */
        struct buf lines = {0};
        wrap_flush(&t->wrap, columns(), &lines);
        put(t, &lines, t->part == TURN_THINKING);
        buf_free(&lines);
    }
    dim(t, false);
    if (t->in_line)
        putchar('\n');
    fflush(stdout);
    wrap_reset(&t->wrap);
    t->in_line = false;
}

static void end_part(struct turn *t)
{
    end_line(t);
    t->part = TURN_NOTHING;
    if (t->thinks_ns && strcmp(options_text(t->o, OPT_reasoning), "hide"))
        turn_say(t, "[thought for %.1f s]\n", clock_ms_since(t->thinks_ns) / 1000);
    t->thinks_ns = 0;
}

/* Prints a piece of reasoning or answer as it arrives. */
static void show_text(struct turn *t, const struct chat_event *ev, enum turn_part part)
{
    struct buf safe = {0}, lines = {0};
    if (!ev->n)
        return;
    waiting_clear(&t->waiting);
    if (part != t->part) {
        bool in_line = t->in_line;
        end_part(t);
        if (in_line)
            putchar('\n');
        t->part = part;
        if (t->speaks)
            buf_adds(&safe, part == TURN_THINKING ? "Thinking: " : "Answer: ");
    }
    unicode_safe(&safe, ev->text, ev->n);
    if (t->wraps)
        wrap_push(&t->wrap, buf_str(&safe), safe.len, columns(), &lines);
    put(t, t->wraps ? &lines : &safe, part == TURN_THINKING);
    t->in_line = ev->text[ev->n - 1] != '\n';
    buf_free(&safe);
    buf_free(&lines);
}

/* Returns the bytes of a call or result that are shown: its beginning is enough. */
static size_t beginning(const char *text, size_t n)
{
    enum { LINES = 8, BYTES = 800 };
    size_t end = 0;
    for (int lines = 0; end < n && end < BYTES; end++)
        if (text[end] == '\n' && ++lines == LINES)
            break;
    return unicode_complete(text, end);
}

/* Prints a call or its result, cut to its beginning. */
static void show_call(struct turn *t, const struct chat_event *ev)
{
    struct buf line = {0};
    bool result = ev->kind == CHAT_TOOL_RESULT;
    end_part(t);
    if (t->speaks)
        buf_addf(&line, "Tool %s%s: ", ev->name, result ? " returned" : "");
    else
        buf_addf(&line, "[%s%s: ", result ? "-> " : "", ev->name);
    size_t n = beginning(ev->text, ev->n);
    buf_add(&line, ev->text, n);
    if (n < ev->n)
        buf_addf(&line, " ... (%zu bytes more)", ev->n - n);
    buf_addf(&line, "%s%s\n", ev->truncated && !result ? " (cut off, not run)" : "", t->speaks ? "" : "]");
    say(t, line.data, line.len, true);          /* not every byte of it is a character: a tool can print anything */
    buf_free(&line);
}

/* Shows all of a call, then asks: the user must see what to decide about. */
static void approve(struct turn *t, const struct chat_event *ev)
{
    end_line(t);
    if (beginning(ev->text, ev->n) < ev->n) {
        struct buf all = {0};
        buf_adds(&all, "all of it: ");
        buf_add(&all, ev->text, ev->n);
        buf_addc(&all, '\n');
        say(t, all.data, all.len, true);
        buf_free(&all);
    }
    struct buf command = {0};
    chat_asked_command(t->chat, &command);
    if (command.len) {
        buf_addc(&command, '\n');
        turn_say(t, "%s", command.data);
    }
    buf_free(&command);
    chat_approve(t->chat, t->ask ? t->ask(t, ev->name, ev->text) : CHAT_NO);
}

/* Appends the figures of a turn. */
static void add_figures(struct buf *line, const struct stats *s)
{
    number_turn(line, s->n_prompt - s->n_cached, s->prefill_ms, s->n_tokens, s->decode_ms);
    buf_addf(line, ", %.1f tok/s, ", stats_tok_s(s));
    if (stats_acceptance(s) >= 0)
        buf_addf(line, "accept %.0f %%, ", 100 * stats_acceptance(s));
    buf_adds(line, "ctx ");
    number_tokens(line, s->ctx_used);
    if (s->ctx_total) {
        buf_addc(line, '/');
        number_context(line, s->ctx_total);
    }
    if (s->joules > 0) {
        buf_adds(line, ", ");
        number_joules(line, s->joules);
    }
}

/* Shows a line below the answer with its time and its figures, as the options want. */
static void show_figures(struct turn *t, const struct stats *s)
{
    const bool times = options_on(t->o, OPT_times), stats = options_on(t->o, OPT_stats);
    struct buf line = {0};
    if (!times && !stats)
        return;
    buf_addc(&line, '[');
    if (times)
        when_clock(&line, time(NULL), time(NULL));
    if (times && stats)
        buf_adds(&line, ", ");
    if (stats)
        add_figures(&line, s);
    buf_adds(&line, "]\n");
    turn_say(t, "%s", line.data);
    buf_free(&line);
}

/* Returns the line that says why an answer ended early, or NULL. */
static const char *ended(enum end end)
{
    switch (end) {
    case END_LENGTH:      return "[cut off: max_tokens is reached]\n";
    case END_CONTEXT:     return "[cut off: the context is full; free space with /compact or /drop N, or start over with /new]\n";
    case END_INTERRUPTED: return "[stopped]\n";
    case END_TOOL_ROUNDS: return "[ended: too many rounds of tool calls, see /set tool_rounds]\n";
    default:               return NULL;
    }
}

/* Prints why the turn ended, if that is not plain, and its figures. */
static void show_done(struct turn *t, const struct chat_event *ev)
{
    end_part(t);
    if (end_failed(ev->end))
        turn_say(t, "[failed: %s]\n", ev->text);
    if (ev->end == END_LOOP)
        turn_say(t, "[cut off: %s; /continue continues anyway]\n", ev->text);
    if (ended(ev->end))
        turn_say(t, "%s", ended(ev->end));
    if (ev->taken_back)
        turn_say(t, t->recalls ? "[nothing was answered; the message is taken back, Up brings it to the prompt]\n" :
                                 "[nothing was answered; the message is taken back]\n");
    else
        show_figures(t, &ev->stats);
}

static void show_fatal(struct turn *t, const struct chat_event *ev)
{
    struct buf line = {0};
    end_line(t);
    t->dead = true;
    buf_addf(&line, "the engine has stopped: %s\n", ev->text);
    say(t, line.data, line.len, false);
    buf_free(&line);
}

static bool shows_thinking(const struct turn *t)
{
    const char *how = options_text(t->o, OPT_reasoning);
    return !strcmp(how, "show") || !strcmp(how, "only");
}

static bool shows_answer(const struct turn *t)
{
    return strcmp(options_text(t->o, OPT_reasoning), "only") != 0;
}

void turn_event(struct turn *t, const struct chat_event *ev)
{
    const bool silent = ev->kind == CHAT_LOADING || ev->kind == CHAT_PREFILL || (ev->kind == CHAT_REASONING && !shows_thinking(t))
                        || (ev->kind == CHAT_TEXT && !shows_answer(t));
    waiting_event(&t->waiting, ev, !t->in_line && silent);
    if (ev->replayed)                   /* /continue: it is on the screen already */
        return;
    switch (ev->kind) {
    case CHAT_LOADING:
    case CHAT_READY:
    case CHAT_PREFILL:
        break;
    case CHAT_REASONING:
        if (shows_thinking(t))
            show_text(t, ev, TURN_THINKING);
        else if (!t->thinks_ns)
            t->thinks_ns = clock_ns();
        break;
    case CHAT_TEXT:
        if (shows_answer(t))
            show_text(t, ev, TURN_ANSWER);
        break;
    case CHAT_MODELS:
        t->chooses = t->choose != NULL;
        break;
    case CHAT_CALL:
    case CHAT_TOOL_RESULT:
        show_call(t, ev);
        break;
    case CHAT_APPROVE:
        approve(t, ev);
        break;
    case CHAT_RUNS:
    case CHAT_TOOL_OUTPUT:
        break;                          /* the result has all of it */
    case CHAT_TITLED:
    case CHAT_THUMB:
        break;
    case CHAT_NOTE:
        end_line(t);
        turn_say(t, "%s\n", ev->text);
        break;
    case CHAT_DONE:
        show_done(t, ev);
        break;
    case CHAT_FATAL:
        show_fatal(t, ev);
        break;
    }
}

void turn_run(struct turn *t)
{
    waiting_turn(&t->waiting);
    t->in_line = false;
    t->part = TURN_NOTHING;
    t->thinks_ns = 0;
    while (chat_busy(t->chat) || chat_timeout(t->chat) == 0) {
        int n;
        chat_wait(t->chat, interrupt_fd(), -1);
        if (interrupt_taken())
            chat_interrupt(t->chat);
        const struct chat_event *ev = chat_drain(t->chat, &n);
        for (int i = 0; i < n; i++)
            turn_event(t, &ev[i]);
        if (t->chooses) {               /* which takes events of its own */
            t->chooses = false;
            end_line(t);
            t->choose(t);
        }
    }
}
