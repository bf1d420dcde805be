#include "ui/waiting.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "ui/tui/look.h"

enum {
    SOON_MS = 500, LONG_MS = 1000,      /* for waits with a known end, and for others */
    REWRITE_MS = 100, ADD_MS = 10000,
};

static int64_t now_ms(void)
{
    return clock_ns() / 1000000;
}

void waiting_open(struct waiting *w, const struct options *o)
{
    *w = (struct waiting){
        .tells = isatty(2),
        .adds = options_on(o, OPT_accessible) || look_is_plain(getenv("TERM")),
    };
    phase_open(&w->phase, now_ms());
    w->kind = w->phase.kind;
    w->since_ms = w->phase.since_ms;
}

static int width(void)
{
    enum { WIDEST = 72 };
    struct winsize size;
    int columns = ioctl(2, TIOCGWINSZ, &size) ? 0 : size.ws_col;
    return columns > 1 && columns <= WIDEST ? columns - 1 : WIDEST;
}

void waiting_clear(struct waiting *w)
{
    if (w->shown)
        fprintf(stderr, "\r%*s\r", width(), "");
    w->shown = false;
}

static void begin(struct waiting *w, int64_t ms)
{
    w->kind = w->phase.kind;
    w->since_ms = ms;
    w->told_ms = 0;
}

void waiting_turn(struct waiting *w)
{
    phase_turn(&w->phase, now_ms());
    begin(w, now_ms());
}

void waiting_follow(struct waiting *w, const struct chat_event *ev, int64_t ms)
{
    phase_event(&w->phase, ev, ms);
    if (w->phase.kind != w->kind)
        begin(w, ms);
}

/* True if the wait is long enough for a line about it to be read. */
static bool is_worth(const struct waiting *w, int64_t ms)
{
    const struct progress *p = &w->phase.progress;
    int left_s = progress_left_s(p, ms);
    int64_t took = ms - w->since_ms;
    switch (w->kind) {
    case PHASE_LOADING:
    case PHASE_READING:
        return w->told_ms || (left_s < 0 ? took >= LONG_MS && p->done < p->total : took >= SOON_MS && left_s > 1);
    case PHASE_THINKING:
    case PHASE_ANSWERING:
        return took >= LONG_MS;
    default:
        return false;
    }
}

static void describe(const struct waiting *w, int64_t ms, struct buf *line)
{
    const struct progress *p = &w->phase.progress;
    buf_addf(line, "%s ", phase_name(&w->phase));
    if (w->kind == PHASE_LOADING) {
        progress_bytes(line, p);
        buf_adds(line, progress_rate(p) > 0 ? ", " : "");
        progress_bytes_s(line, p);
        progress_left(line, p, ms);
    } else if (w->kind == PHASE_READING) {
        buf_addf(line, "%zu of %zu tokens", p->done, p->total);
        if (p->cached)
            buf_addf(line, " (%zu from the cache)", p->cached);
        progress_left(line, p, ms);
    } else {
        buf_addf(line, "for %d s", (int)((ms - w->since_ms) / 1000));
    }
}

bool waiting_line(struct waiting *w, int64_t ms, struct buf *line)
{
    if (!is_worth(w, ms) || (w->told_ms && ms - w->told_ms < (w->adds ? ADD_MS : REWRITE_MS)))
        return false;
    describe(w, ms, line);
    w->told_ms = ms;
    return true;
}

static void show(struct waiting *w)
{
    struct buf line = {0};
    if (!waiting_line(w, now_ms(), &line))
        return;
    if (w->adds)
        fprintf(stderr, "%s\n", line.data);
    else
        fprintf(stderr, "\r%-*.*s", width(), width(), line.data);
    w->shown = !w->adds;
    buf_free(&line);
}

void waiting_event(struct waiting *w, const struct chat_event *ev, bool tell)
{
    enum phase_kind before = w->kind;
    waiting_follow(w, ev, now_ms());
    if (w->kind != before)
        waiting_clear(w);
    if (tell && w->tells)
        show(w);
}
