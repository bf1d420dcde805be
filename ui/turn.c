#include "ui/turn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unicode.h"
#include "ui/interrupt.h"
#include "ui/tui/figure.h"

enum { PROGRESS_AFTER_MS = 500, PROGRESS_EVERY_MS = 100 };

void turn_init(struct turn *t, struct chat *c, struct options *o)
{
    const char *when = options_text(o, OPT_color), *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    bool can = isatty(1) && !(no_color && *no_color) && term && strcmp(term, "dumb");
    *t = (struct turn){
        .chat = c,
        .o = o,
        .color = !strcmp(when, "always") || (can && strcmp(when, "never")),
        .terminal = isatty(2),
        .load_ns = clock_ns(),
        .start_ns = clock_ns(),
    };
}

void turn_free(struct turn *t)
{
    wrap_free(&t->wrap);
}

/* Of the terminal, as it is now: windows change.  0: unknown. */
static int columns(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) ? 0 : size.ws_col;
}

static void put(const struct turn *t, const struct buf *text, bool dim)
{
    bool on = dim && t->color && text->len;
    if (on)
        fputs("\033[2m", stdout);
    fwrite(buf_str(text), 1, text->len, stdout);
    if (on)
        fputs("\033[0m", stdout);
    fflush(stdout);
}

static void say(const struct turn *t, const char *text, size_t n, bool dim)
{
    struct buf safe = {0}, lines = {0};
    struct wrap wrap = {0};
    int width = t->wraps ? columns(1) : 0;
    unicode_safe(&safe, text, n);
    wrap_push(&wrap, buf_str(&safe), safe.len, width, &lines);
    wrap_flush(&wrap, width, &lines);
    put(t, &lines, dim);
    buf_free(&safe);
    buf_free(&lines);
    wrap_free(&wrap);
}

void turn_say(const struct turn *t, const char *text)
{
    say(t, text, strlen(text), true);
}

/* --- progress --------------------------------------------------------------------------------------------------- */

static int progress_width(void)
{
    enum { WIDEST = 72 };
    int width = columns(2);
    return width > 1 && width <= WIDEST ? width - 1 : WIDEST;
}

void turn_clear(struct turn *t)
{
    if (t->progress)
        fprintf(stderr, "\r%*s\r", progress_width(), "");
    t->progress = false;
}

static void show_progress(struct turn *t, const char *text)
{
    if (!t->terminal || t->in_line || clock_ms_since(t->start_ns) < PROGRESS_AFTER_MS || clock_ms_since(t->shown_ns) < PROGRESS_EVERY_MS)
        return;
    t->shown_ns = clock_ns();
    t->progress = true;
    fprintf(stderr, "\r%-*.*s", progress_width(), progress_width(), text);
}

static void show_loading(struct turn *t, const struct chat_event *ev)
{
    char text[128];
    double seconds = clock_ms_since(t->load_ns) / 1000, rate = seconds > 0 ? (double)ev->done / seconds : 0;
    if (!ev->total)
        return;
    snprintf(text, sizeof text, "loading %.2f of %.2f GB, %.2f GB/s, %.0f s left", (double)ev->done / 1e9, (double)ev->total / 1e9,
             rate / 1e9, rate > 0 ? ceil((double)(ev->total - ev->done) / rate) : 0);
    show_progress(t, text);
}

static void show_prefill(struct turn *t, const struct chat_event *ev)
{
    char text[128];
    double seconds = clock_ms_since(t->start_ns) / 1000;
    double rate = seconds > 0 && ev->done > ev->cached ? (double)(ev->done - ev->cached) / seconds : 0;
    snprintf(text, sizeof text, "reading %zu of %zu tokens (%zu from the cache), %.0f tok/s, %.0f s left", ev->done, ev->total, ev->cached,
             rate, rate > 0 ? ceil((double)(ev->total - ev->done) / rate) : 0);
    show_progress(t, text);
}

/* --- the parts of an answer ------------------------------------------------------------------------------------- */

/* What is held back because its word may go on. */
static void flush_words(struct turn *t)
{
    struct buf lines = {0};
    wrap_flush(&t->wrap, columns(1), &lines);
    put(t, &lines, t->dim);
    buf_free(&lines);
}

static void end_line(struct turn *t)
{
    turn_clear(t);
    if (t->in_line) {
        flush_words(t);
        putchar('\n');
    }
    wrap_reset(&t->wrap);
    t->in_line = false;
}

static void show_text(struct turn *t, const struct chat_event *ev, bool dim)
{
    struct buf safe = {0}, lines = {0};
    turn_clear(t);
    if (dim != t->dim && t->in_line) {
        end_line(t);
        putchar('\n');
    }
    t->dim = dim;
    unicode_safe(&safe, ev->text, ev->n);
    if (t->wraps)
        wrap_push(&t->wrap, buf_str(&safe), safe.len, columns(1), &lines);
    put(t, t->wraps ? &lines : &safe, dim);
    if (ev->n)
        t->in_line = ev->text[ev->n - 1] != '\n';
    buf_free(&safe);
    buf_free(&lines);
}

/* Calls and results can be long: their beginning is enough to see what happens. */
static size_t beginning(const char *text, size_t n)
{
    enum { LINES = 8, BYTES = 800 };
    size_t end = 0;
    for (int lines = 0; end < n && end < BYTES; end++)
        if (text[end] == '\n' && ++lines == LINES)
            break;
    return unicode_complete(text, end);
}

static void show_call(struct turn *t, const char *before, const struct chat_event *ev, const char *after)
{
    struct buf line = {0};
    end_line(t);
    buf_addf(&line, "%s%s: ", before, ev->name);
    size_t n = beginning(ev->text, ev->n);
    buf_add(&line, ev->text, n);
    if (n < ev->n)
        buf_addf(&line, " ... (%zu bytes more)", ev->n - n);
    buf_addf(&line, "%s\n", after);
    say(t, line.data, line.len, true);          /* not every byte of it is a character: a tool can print anything */
    buf_free(&line);
}

/* Nobody decides about what was not shown. */
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
        turn_say(t, command.data);
    }
    buf_free(&command);
    chat_approve(t->chat, t->ask ? t->ask(t, ev->name, ev->text) : CHAT_NO);
}

static void show_figures(const struct turn *t, const struct chat_stats *s)
{
    struct buf line = {0};
    buf_addc(&line, '[');
    figure_turn(&line, s->n_prompt - s->n_cached, s->prefill_ms, s->n_tokens, s->decode_ms);
    buf_addf(&line, ", %.1f tok/s, ", s->tok_s);
    if (s->acceptance >= 0)
        buf_addf(&line, "accept %.0f %%, ", 100 * s->acceptance);
    buf_adds(&line, "ctx ");
    figure_tokens(&line, s->ctx_used);
    buf_addc(&line, '/');
    figure_window(&line, s->ctx_total);
    if (s->joules > 0) {
        buf_adds(&line, ", ");
        figure_joules(&line, s->joules);
    }
    buf_adds(&line, "]\n");
    turn_say(t, line.data);
    buf_free(&line);
}

static const char *ended(enum chat_end end)
{
    switch (end) {
    case CHAT_LENGTH:      return "[cut off: max_tokens is reached]\n";
    case CHAT_CONTEXT:     return "[cut off: the context is full; /compact and /drop N make room, /undo goes back, /new begins again]\n";
    case CHAT_INTERRUPTED: return "[stopped]\n";
    case CHAT_TOOL_ROUNDS: return "[ended: too many rounds of tool calls, see /set tool_rounds]\n";
    default:               return NULL;
    }
}

static void show_done(struct turn *t, const struct chat_event *ev)
{
    end_line(t);
    if (chat_end_failed(ev->end)) {
        struct buf line = {0};
        buf_addf(&line, "[failed: %s]\n", ev->text);
        turn_say(t, line.data);
        buf_free(&line);
    }
    if (ev->end == CHAT_LOOP) {
        struct buf line = {0};
        buf_addf(&line, "[cut off: %s; /continue goes on anyway]\n", ev->text);
        turn_say(t, line.data);
        buf_free(&line);
    }
    if (ended(ev->end))
        turn_say(t, ended(ev->end));
    if (ev->taken_back)
        turn_say(t, "[nothing was answered; the message is taken back, Up brings it to the prompt]\n");
    else if (options_on(t->o, OPT_stats))
        show_figures(t, &ev->stats);
}

static void show_note(struct turn *t, const struct chat_event *ev)
{
    struct buf line = {0};
    end_line(t);
    buf_addf(&line, "%s\n", ev->text);
    turn_say(t, line.data);
    buf_free(&line);
}

static void show_fatal(struct turn *t, const struct chat_event *ev)
{
    struct buf line = {0};
    end_line(t);
    t->dead = true;
    buf_addf(&line, "the model has ended: %s\n", ev->text);
    say(t, line.data, line.len, false);
    buf_free(&line);
}

void turn_event(struct turn *t, const struct chat_event *ev)
{
    if (ev->replayed)                   /* /continue: it stands above already */
        return;
    switch (ev->kind) {
    case CHAT_LOADING:
        show_loading(t, ev);
        break;
    case CHAT_READY:
        turn_clear(t);
        t->start_ns = clock_ns();       /* reading is timed without the loading before it */
        break;
    case CHAT_PREFILL:
        show_prefill(t, ev);
        break;
    case CHAT_REASONING:
        if (strcmp(options_text(t->o, OPT_reasoning), "hide"))
            show_text(t, ev, true);
        break;
    case CHAT_TEXT:
        if (strcmp(options_text(t->o, OPT_reasoning), "only"))
            show_text(t, ev, false);
        break;
    case CHAT_CALL:
        show_call(t, "[", ev, ev->truncated ? " (cut off, not run)]" : "]");
        break;
    case CHAT_APPROVE:
        approve(t, ev);
        break;
    case CHAT_TOOL_OUTPUT:
        break;                          /* the result says it all */
    case CHAT_TOOL_RESULT:
        show_call(t, "[-> ", ev, "]");
        break;
    case CHAT_NOTE:
        show_note(t, ev);
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
    t->start_ns = clock_ns();
    t->in_line = t->dim = false;
    while (chat_busy(t->chat) || chat_timeout(t->chat) == 0) {
        int n;
        chat_wait(t->chat, interrupt_fd(), -1);
        if (interrupt_taken())
            chat_interrupt(t->chat);
        const struct chat_event *ev = chat_drain(t->chat, &n);
        for (int i = 0; i < n; i++)
            turn_event(t, &ev[i]);
    }
}
