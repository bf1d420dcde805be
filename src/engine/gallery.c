#include "engine/gallery.h"

#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/least.h"
#include "base/memory.h"

static const double SLICE_MS = 20;      /* of the device, before others have their turn */

/* A picture whose rows lie in the memory, or are on their way there. */
struct held {
    struct fingerprint hash;
    int      at, n;                     /* rows of the memory */
    uint64_t used;                      /* by the clock of the gallery */
    bool     complete;
};

struct gallery {
    struct dev    *dev;
    struct vision *vision;
    int      hidden, picture_tokens, room;      /* rows: of one picture, of all */
    float   *memory;                    /* [room, hidden] on the device */
    struct held *held;                  /* in the order of their places */
    int      n_held, cap_held;
    bool     busy;                      /* the tower works on the one that is not complete */
    uint64_t clock;
    double   tflop_ms;                  /* what the tower computes in a ms, as measured; 0: not yet */
    struct picture_rows *rows;          /* of the last call */
    int      cap_rows;
};

size_t gallery_bytes(int hidden, int picture_tokens)
{
    return (size_t)GALLERY_PICTURES * (size_t)picture_tokens * (size_t)hidden * sizeof(float);
}

struct gallery *gallery_open(struct dev *d, struct vision *v, int hidden, int picture_tokens, struct err *e)
{
    struct gallery *g = memory_zeroed(1, sizeof *g);
    *g = (struct gallery){.dev = d, .vision = v, .hidden = hidden, .picture_tokens = picture_tokens, .room = GALLERY_PICTURES * picture_tokens};
    g->memory = d->alloc(d, gallery_bytes(hidden, picture_tokens));
    if (g->memory)
        return g;
    err_set(e, "no memory for the rows of pictures: %zu MiB asked for; try fewer --picture-tokens, or --no-vision",
            gallery_bytes(hidden, picture_tokens) >> 20);
    free(g);
    return NULL;
}

void gallery_close(struct gallery *g)
{
    if (!g)
        return;
    g->dev->free(g->dev, g->memory);
    free(g->held);
    free(g->rows);
    free(g);
}

bool gallery_check(const struct gallery *g, struct spans prompt, struct err *e)
{
    for (int i = 0; i < prompt.n_pictures; i++) {
        const struct picture *p = &prompt.pictures[i];
        const struct pixels *x = spans_pixels(prompt, i);
        if (p->n > g->picture_tokens)
            return err_set(e, "picture %d of the prompt has %d tokens, expected at most %d: send it smaller, or start with more --picture-tokens",
                           i + 1, p->n, g->picture_tokens);
        if (x && (x->h != p->h * VISION_SIDE || x->w != p->w * VISION_SIDE))
            return err_set(e, "picture %d of the prompt has %d x %d pixels, expected %d x %d for its tokens", i + 1, x->w, x->h,
                           p->w * VISION_SIDE, p->h * VISION_SIDE);
    }
    return true;
}

/* ---- places ---- */

/* Returns the picture if its rows are in memory or are being computed, else NULL. */
static struct held *find_held(struct gallery *g, const struct picture *p)
{
    for (int i = 0; i < g->n_held; i++)
        if (!memcmp(&g->held[i].hash, &p->hash, sizeof p->hash) && g->held[i].n == p->n)
            return &g->held[i];
    return NULL;
}

/* Finds n free rows in a row.  Returns the index in held[] of the picture that will have them, and *at; -1: there are none. */
static int find_gap(const struct gallery *g, int n, int *at)
{
    for (int i = 0; i <= g->n_held; i++) {
        const int from = i ? g->held[i - 1].at + g->held[i - 1].n : 0, to = i < g->n_held ? g->held[i].at : g->room;
        if (to - from >= n) {
            *at = from;
            return i;
        }
    }
    return -1;
}

/* Evicts the least recently used picture that was last used before `before` and that the tower does not work on.  False if there is none. */
static bool give_up_one(struct gallery *g, uint64_t before)
{
    int oldest = -1;
    for (int i = 0; i < g->n_held; i++)
        if (g->held[i].complete && g->held[i].used < before && (oldest < 0 || g->held[i].used < g->held[oldest].used))
            oldest = i;
    if (oldest < 0)
        return false;
    memmove(&g->held[oldest], &g->held[oldest + 1], (size_t)(g->n_held - oldest - 1) * sizeof *g->held);
    g->n_held--;
    return true;
}

/* Takes a place for the rows of a picture.  False: those used since `now` leave no room. */
static bool take_place(struct gallery *g, const struct picture *p, uint64_t now, struct held **out)
{
    int at = 0, i = find_gap(g, p->n, &at);
    while (i < 0 && give_up_one(g, now))
        i = find_gap(g, p->n, &at);
    if (i < 0)
        return false;
    g->held = memory_grow(g->held, g->n_held, &g->cap_held, sizeof *g->held);
    memmove(&g->held[i + 1], &g->held[i], (size_t)(g->n_held - i) * sizeof *g->held);
    g->n_held++;
    g->held[i] = (struct held){.hash = p->hash, .at = at, .n = p->n, .used = now};
    *out = &g->held[i];
    return true;
}

/* ---- the tower ---- */

static float *rows_at(const struct gallery *g, int row) { return g->memory + (size_t)row * (size_t)g->hidden; }

/* Runs the tower on its picture for about SLICE_MS.  False on a device fault. */
static bool work(struct gallery *g, int *n_computed, struct err *fault)
{
    const int64_t start = clock_ns();
    const double left = vision_left(g->vision);
    bool complete = vision_continue(g->vision, g->dev->caps->packs_weights ? g->tflop_ms * SLICE_MS : 0);
    /* A CPU works at once, and at very different rates: the time itself is looked at. */
    while (!complete && !g->dev->caps->packs_weights && clock_ms_since(start) < SLICE_MS)
        complete = vision_continue(g->vision, 0);
    if (!g->dev->finish(g->dev, fault))
        return false;
    const double ms = clock_ms_since(start), done = left - vision_left(g->vision);
    if (ms > 0)
        g->tflop_ms = done / ms;
    if (complete) {
        for (int i = 0; i < g->n_held; i++)
            g->held[i].complete = true;
        g->busy = false;
        ++*n_computed;
    }
    return true;
}

enum gallery_state gallery_fetch(struct gallery *g, struct spans prompt, int from, int *to, const struct picture_rows **rows, int *n_rows,
                                 int *n_computed, struct err *why, struct err *fault)
{
    const uint64_t now = ++g->clock;
    *n_rows = 0;
    for (int i = 0; i < prompt.n_pictures; i++) {
        const struct picture *p = &prompt.pictures[i];
        const struct pixels *x = spans_pixels(prompt, i);
        struct held *h = find_held(g, p);
        if (p->first + p->n <= from || p->first >= *to)
            continue;
        if (h && h->complete) {
            h->used = now;
            g->rows = memory_grow(g->rows, *n_rows, &g->cap_rows, sizeof *g->rows);
            g->rows[(*n_rows)++] = (struct picture_rows){p->first, p->n, rows_at(g, h->at)};
            continue;
        }
        if (g->busy)                    /* with this one, or with another prompt's */
            return work(g, n_computed, fault) ? GALLERY_WORKS : GALLERY_FAILED;
        if (!x) {
            err_set(why, "picture %d of the prompt came without its pixels, and what the model saw of it is no longer in memory", i + 1);
            return GALLERY_LACKS;
        }
        if (!take_place(g, p, now, &h)) {
            CHECK(p->first > from);     /* one picture always has room */
            *to = p->first;
            break;
        }
        vision_begin(g->vision, x->rgb, p->h * 2, p->w * 2, rows_at(g, h->at));
        g->busy = true;
        return work(g, n_computed, fault) ? GALLERY_WORKS : GALLERY_FAILED;
    }
    *rows = g->rows;
    return GALLERY_THERE;
}
