#include "ui/tui/phase.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "ui/tui/numbers.h"

enum { LEAST_CHUNK_MS = 250 };

void progress_start(struct progress *p, int64_t ms)
{
    *p = (struct progress){.n_chunks = 1};
    p->chunk[0].ms = ms;
}

/* Returns the fraction that is done, 0 to 1. */
static double part(size_t done, size_t total)
{
    return total ? (double)done / (double)total : 0;
}

void progress_add(struct progress *p, int64_t ms, size_t done, size_t total, size_t cached)
{
    if (done > total)
        done = total;
    if (!p->n_chunks)
        progress_start(p, ms);
    bool first = !p->total;
    if (!first && part(done, total) < part(p->done, p->total)) {
        total = p->total;               /* a bar does not go back */
        done = p->done;
    }
    if (first || cached > p->cached)
        p->cached = cached;
    if (p->cached > done)
        p->cached = done;
    bool more = done > p->done;
    p->total = total;
    p->done = done;
    if (first) {
        p->chunk[0].done = p->cached;   /* cached tokens took no time */
        more = done > p->cached;
    }
    if (!more)
        return;
    /* Events that come close together count as one chunk. */
    int newest = p->n_chunks - 1;
    bool same = newest > 0 && p->chunk[newest % PROGRESS_CHUNKS].ms - p->chunk[(newest - 1) % PROGRESS_CHUNKS].ms < LEAST_CHUNK_MS;
    int i = (same ? newest : p->n_chunks++) % PROGRESS_CHUNKS;
    p->chunk[i].ms = ms;
    p->chunk[i].done = done;
    /* The end that is shown: earlier at once, later only if it is much later. */
    double rate = progress_rate(p);
    if (rate <= 0)
        return;
    double left_ms = 1000.0 * (double)(p->total - p->done) / rate, told_ms = (double)(p->end_ms - ms);
    int64_t end = ms + (int64_t)left_ms;
    if (!p->end_ms || end <= p->end_ms) {
        p->end_ms = end;
    } else if (left_ms > 1.25 * told_ms + 2000) {
        p->end_ms = end;
        p->longer = true;
    }
}

double progress_rate(const struct progress *p)
{
    enum { LONG_MS = 1500 };
    if (p->n_chunks < 2 || (p->n_chunks == 2 && p->chunk[1].ms - p->chunk[0].ms < LONG_MS))
        return 0;
    int newest = p->n_chunks - 1, oldest = p->n_chunks > PROGRESS_CHUNKS ? p->n_chunks - PROGRESS_CHUNKS : 0;
    int64_t ms = p->chunk[newest % PROGRESS_CHUNKS].ms - p->chunk[oldest % PROGRESS_CHUNKS].ms;
    size_t from = p->chunk[oldest % PROGRESS_CHUNKS].done, to = p->chunk[newest % PROGRESS_CHUNKS].done;
    return ms > 0 && to > from ? 1000.0 * (double)(to - from) / (double)ms : 0;
}

int progress_left_s(const struct progress *p, int64_t ms)
{
    if (!p->end_ms)
        return -1;
    if (p->done == p->total)
        return 0;
    int64_t left = p->end_ms - ms;
    return left > 0 ? (int)((left + 999) / 1000) : 1;
}

int progress_percent(const struct progress *p)
{
    if (!p->total)
        return -1;
    return (int)(100 * part(p->done, p->total));
}

void progress_bar(struct buf *out, const struct progress *p, int columns)
{
    int n = columns - 2, cached = (int)(part(p->cached, p->total) * n), done = (int)(part(p->done, p->total) * n);
    buf_addc(out, '[');
    for (int i = 0; i < n; i++)
        buf_addc(out, i < cached ? '=' : i < done ? '#' : '-');
    buf_addc(out, ']');
}

/* Draws a word and a bar; returns the column after it. */
static int draw_bar(const struct progress *p, struct cells *c, struct area a, const char *what)
{
    enum { MOST = 26 };                 /* columns of the bar */
    struct look plain = {STYLE_text, 0}, dim = {STYLE_dim, 0};
    struct buf bar = {0};
    int part_of = a.cols < 60 ? 4 : 3, columns = a.cols / part_of < MOST ? a.cols / part_of : MOST;
    int col = cells_puts(c, a, 0, a.cols >= 60 ? 2 : 0, plain, what);
    if (columns < 8)
        return col;
    progress_bar(&bar, p, columns);
    size_t filled = 0;
    while (filled < bar.len && bar.data[filled] != '-' && bar.data[filled] != ']')
        filled++;
    col = cells_put(c, a, 0, col, (struct look){STYLE_bar, 0}, bar.data, filled);
    col = cells_put(c, a, 0, col, dim, bar.data + filled, bar.len - filled);
    buf_free(&bar);
    return col;
}

void progress_left(struct buf *out, const struct progress *p, int64_t ms)
{
    int s = progress_left_s(p, ms);
    if (s <= 0)
        return;
    buf_addf(out, "%s%s", out->len ? ", " : "", p->longer ? "slower than thought, " : "");
    number_about(out, s);
    buf_adds(out, " left");
}

/* Draws texts one after the other; a text that does not fit is left out, with all after it. */
static void draw_texts(struct cells *c, struct area a, int row, int col, const char *between, struct buf *texts, int n)
{
    const struct look plain = {STYLE_text, 0};
    bool fits = true, any = false;
    for (int i = 0; i < n; i++) {
        const char *gap = any ? between : "";
        fits = fits && col + (int)strlen(gap) + glyph_columns(buf_str(&texts[i]), texts[i].len) <= a.cols;
        if (fits && texts[i].len) {
            col = cells_puts(c, a, row, cells_puts(c, a, row, col, plain, gap), plain, texts[i].data);
            any = true;
        }
        buf_free(&texts[i]);
    }
}

void progress_draw_prompt(const struct progress *p, int64_t ms, struct cells *c, struct area a)
{
    struct buf first[2] = {0}, second[2] = {0};
    double rate = progress_rate(p);
    int col = draw_bar(p, c, a, a.cols >= 60 ? "reading   " : "reading ");
    number_tokens(&first[0], (double)p->done);
    buf_adds(&first[0], " of ");
    number_tokens(&first[0], (double)p->total);
    buf_adds(&first[0], " tok");
    if (p->cached) {
        number_tokens(&first[1], (double)p->cached);
        buf_adds(&first[1], " from cache");
    }
    draw_texts(c, a, 0, col + 2, "   ", first, 2);
    if (rate > 0) {
        number_rate(second, rate);
        buf_adds(second, " tok/s");
    }
    progress_left(second, p, ms);
    buf_adds(&second[1], "Ctrl-C gives the draft back");
    draw_texts(c, a, 1, a.cols >= 60 ? 12 : 0, "; ", second, 2);
}

void progress_bytes(struct buf *out, const struct progress *p)
{
    bool small = p->total < 100000000;          /* a demo model */
    buf_addf(out, "%.1f of %.1f %s", (double)p->done / (small ? 1e6 : 1e9), (double)p->total / (small ? 1e6 : 1e9), small ? "MB" : "GB");
}

void progress_bytes_s(struct buf *out, const struct progress *p)
{
    double rate = progress_rate(p);
    if (rate > 0)
        buf_addf(out, rate < 1e8 ? "%.1f MB/s" : "%.1f GB/s", rate / (rate < 1e8 ? 1e6 : 1e9));
}

void progress_draw_load(const struct progress *p, int64_t ms, struct cells *c, struct area a)
{
    struct buf first[3] = {0}, second[2] = {0};
    int col = draw_bar(p, c, a, a.cols >= 60 ? "weights  " : "weights ");
    if (p->total) {
        buf_addf(&first[0], "%3d%%", progress_percent(p));
        progress_bytes(&first[1], p);
    }
    progress_bytes_s(&first[2], p);
    draw_texts(c, a, 0, col + 1, "   ", first, 3);
    progress_left(second, p, ms);
    buf_adds(&second[1], "then check and warm up");
    draw_texts(c, a, 1, a.cols >= 60 ? 2 : 0, "; ", second, 2);
}

/* --- rate --------------------------------------------------------------------------------------------------------- */

void rate_add(struct rate *r, int64_t ms, int n)
{
    int64_t slot = ms / RATE_SLOT_MS;
    bool idle = r->first_ms == 0 || slot - r->slot >= RATE_SLOTS;
    /* Moves to the slot, and empties the slots that were passed over. */
    if (slot - r->slot >= RATE_SLOTS)
        r->slot = slot - RATE_SLOTS;
    while (r->slot < slot)
        r->n[++r->slot % RATE_SLOTS] = 0;
    if (idle)
        r->first_ms = ms ? ms : 1;      /* the first events took a time that nobody measured: they do not count */
    else
        r->n[r->slot % RATE_SLOTS] += n;
}

double rate_now(const struct rate *r, int64_t ms)
{
    int64_t window = RATE_SLOTS * RATE_SLOT_MS, since = ms - r->first_ms, oldest = ms / RATE_SLOT_MS - RATE_SLOTS + 1;
    long n = 0;
    for (int64_t s = r->slot; s > r->slot - RATE_SLOTS && s >= oldest && s >= 0; s--)
        n += r->n[s % RATE_SLOTS];
    if (!r->first_ms || !n || since < RATE_SLOT_MS * 2)
        return 0;
    /* the newest slot is not over yet */
    double over = (double)(window - RATE_SLOT_MS + ms % RATE_SLOT_MS);
    return 1000.0 * (double)n / (since < over ? (double)since : over);
}

/* --- phase -------------------------------------------------------------------------------------------------------- */

void phase_open(struct phase *p, int64_t ms)
{
    p->kind = PHASE_LOADING;
    p->since_ms = p->reads_ms = ms;
    progress_start(&p->progress, ms);
}

static void read_prompt(struct phase *p, int64_t ms)
{
    p->kind = PHASE_READING;
    p->reads_ms = ms;
    p->n_tokens = 0;
    p->rate = (struct rate){0};         /* reading, tools and the user's pause are not decoding */
    progress_start(&p->progress, ms);
}

void phase_turn(struct phase *p, int64_t ms)
{
    if (!p->turn)
        p->asked_ms = ms;
    p->turn = true;
    p->stopping = p->asking = false;
    if (p->ready) {
        p->since_ms = ms;
        read_prompt(p, ms);
    }
}

void phase_event(struct phase *p, const struct chat_event *ev, int64_t ms)
{
    if (ev->replayed)                   /* the beginning of a continued answer, which is still to be read */
        return;
    switch (ev->kind) {
    case CHAT_LOADING:
        if (p->ready) {                 /* the program that had loaded the model has ended, so it is loaded here */
            p->ready = false;
            phase_open(p, ms);
        }
        progress_add(&p->progress, ms, ev->done, ev->total, 0);
        break;
    case CHAT_MODELS:
        p->kind = p->ready ? p->kind : PHASE_CHOOSING;
        break;
    case CHAT_READY:
        p->ready = true;
        p->kind = PHASE_IDLE;
        if (p->turn)
            phase_turn(p, ms);
        break;
    case CHAT_PREFILL:
        progress_add(&p->progress, ms, ev->done, ev->total, ev->cached);
        break;
    case CHAT_REASONING:
        p->kind = PHASE_THINKING;
        break;
    case CHAT_TEXT:
        p->kind = PHASE_ANSWERING;
        break;
    case CHAT_CALL:
    case CHAT_APPROVE:
    case CHAT_RUNS:
        p->kind = PHASE_CALLING;
        p->asking = ev->kind == CHAT_APPROVE;
        p->calls_ms = ms;
        snprintf(p->tool, sizeof p->tool, "%s", ev->name);
        break;
    case CHAT_TOOL_RESULT:
        p->asking = false;
        read_prompt(p, ms);
        break;
    case CHAT_DONE:
        p->kind = p->ready ? PHASE_IDLE : p->kind == PHASE_CHOOSING ? PHASE_CHOOSING : PHASE_LOADING;
        p->turn = p->stopping = p->asking = false;
        break;
    case CHAT_FATAL:
        p->kind = PHASE_DEAD;
        p->turn = p->stopping = p->asking = false;
        break;
    default:
        break;
    }
}

void phase_tokens(struct phase *p, int n_tokens, int64_t ms)
{
    if (n_tokens > p->n_tokens && p->kind != PHASE_READING)
        rate_add(&p->rate, ms, n_tokens - p->n_tokens);
    p->n_tokens = n_tokens;
}

int phase_seconds(const struct phase *p, int64_t ms)
{
    return (int)((ms - (p->kind == PHASE_CALLING ? p->calls_ms : p->since_ms)) / 1000);
}

const char *phase_name(const struct phase *p)
{
    static const char *const names[] = {"opening", "loading", "which model?", "ready", "reading", "thinking", "answering", "running", "no model"};
    return p->stopping ? "stopping" : p->asking ? "waiting for approval" : names[p->kind];
}
