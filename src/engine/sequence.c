#include "engine/sequence.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/least.h"
#include "base/memory.h"
#include "config/limits.h"
#include "engine/residency.h"

/* ---- the timeline ---- */

void timeline_init(struct timeline *t, int cap)
{
    *t = (struct timeline){.cap = cap};
    t->ids = memory_zeroed((size_t)cap, sizeof *t->ids);
}

void timeline_free(struct timeline *t)
{
    free(t->ids);
    pictures_free(&t->pictures);
    *t = (struct timeline){0};
}

struct spans timeline_spans(const struct timeline *t)
{
    return (struct spans){t->ids, t->n, t->pictures.all, t->pictures.n};
}

struct rejoin timeline_rejoin(const struct timeline *t, const struct snapshots *s, int seq, struct spans prompt)
{
    struct rejoin r = {.common = spans_common(timeline_spans(t), prompt), .snapshot = -1};
    if (r.common >= t->n_run) {
        r.pos = t->n_run;
        r.stay = true;
    } else {
        r.snapshot = snapshots_find(s, seq, r.common);
        r.pos = r.snapshot < 0 ? 0 : s->pos[r.snapshot];
    }
    return r;
}

void timeline_set(struct timeline *t, struct spans prompt, int pos)
{
    CHECK(prompt.n <= t->cap && pos <= prompt.n);
    if (prompt.n)
        memcpy(t->ids, prompt.ids, (size_t)prompt.n * sizeof *prompt.ids);
    t->pictures.n = 0;
    pictures_add(&t->pictures, prompt, 0, prompt.n);
    t->n = prompt.n;
    t->n_run = pos;
}

void timeline_ran(struct timeline *t, int n)
{
    CHECK(n >= 0 && n <= t->n - t->n_run);
    t->n_run += n;
}

void timeline_add(struct timeline *t, int32_t id)
{
    CHECK(t->n < t->cap);
    t->ids[t->n++] = id;
}

void timeline_cut(struct timeline *t)
{
    t->n = t->n_run;
    pictures_cut(&t->pictures, t->n);
}

enum { WORTH_NOTING = 64 };             /* tokens of a refill: reading ahead ends at multiples of it */

/* ---- sequences ---- */

bool sequences_open(struct sequences *s, struct dev *dev, const struct model_config *c, struct cache *const *caches, int n, int n_ctx,
                    int n_snapshots, struct err *e)
{
    const size_t bytes = cache_saved_bytes(c, cache_recipe(caches[0]));
    *s = (struct sequences){.dev = dev, .n = n, .all = memory_zeroed((size_t)n, sizeof *s->all)};
    for (int i = 0; i < n; i++) {
        s->all[i] = (struct sequence){.slot = i, .k = caches[i]};
        timeline_init(&s->all[i].tl, n_ctx);
    }
    s->states = dev->alloc_host(dev, (size_t)n_snapshots * bytes);
    if (!s->states)
        return err_set(e, "no memory for %d snapshots: %zu MiB of the host asked for; end other programs", n_snapshots,
                       ((size_t)n_snapshots * bytes) >> 20);
    snapshots_init(&s->snaps, n_snapshots, n, bytes, s->states);
    return true;
}

void sequences_close(struct sequences *s)
{
    if (!s->all)
        return;
    snapshots_free(&s->snaps);
    if (s->states)
        s->dev->free_host(s->dev, s->states);
    for (int i = 0; i < s->n; i++) {
        timeline_free(&s->all[i].tl);
        free(s->all[i].at);
    }
    free(s->all);
    *s = (struct sequences){0};
}

int sequences_resident(const struct sequences *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->all[i].tl.n > 0;
    return n;
}

/* ---- which one ---- */

struct sequence *sequences_named(const struct sequences *s, uint64_t name)
{
    for (int i = 0; name && i < s->n; i++)
        if (s->all[i].name == name)
            return &s->all[i];
    return NULL;
}

/* Returns the unnamed sequence with the longest common prefix. */
static struct sequence *unnamed_continued_by(const struct sequences *s, struct spans prompt)
{
    struct sequence *best = NULL;
    int most = 0;
    for (int i = 0; i < s->n; i++) {
        struct sequence *q = &s->all[i];
        const int common = spans_common(timeline_spans(&q->tl), prompt), needed = q->rejoins < q->tl.n ? q->rejoins : q->tl.n;
        if (!q->busy && sequence_is_unnamed(q->name) && common > most && common >= needed) {
            best = q;
            most = common;
        }
    }
    return best;
}

struct sequence *sequences_continued_by(const struct sequences *s, const struct arrival *a)
{
    struct sequence *q = sequences_named(s, a->name);
    return q ? q : unnamed_continued_by(s, a->prompt);
}

/* Describes the places and the prompt for engine/residency. */
static struct newcomer describe(const struct sequences *s, const struct arrival *a, struct seat seats[LIMIT_SEQUENCES])
{
    for (int i = 0; i < s->n; i++) {
        const struct sequence *q = &s->all[i];
        seats[i] = (struct seat){.n = q->tl.n, .busy = q->busy, .kept = q->kept && q->name, .client = q->client,
                                 .idle_s = (double)(s->now_ns - q->used_ns) * 1e-9};
    }
    return (struct newcomer){.n = a->prompt.n ? a->prompt.n : INT_MAX, .client = a->client};
}

bool sequences_have_place(const struct sequences *s, const struct arrival *a)
{
    struct seat seats[LIMIT_SEQUENCES];
    const struct sequence *q = sequences_continued_by(s, a);
    if (q)
        return !q->busy;
    const struct newcomer who = describe(s, a, seats);
    return residency_choose(seats, s->n, &who) >= 0 && !residency_waits(seats, s->n, &who);
}

struct sequence *sequences_choose(const struct sequences *s, const struct arrival *a)
{
    struct seat seats[LIMIT_SEQUENCES];
    struct sequence *q = sequences_continued_by(s, a);
    if (q)
        return q;
    const struct newcomer who = describe(s, a, seats);
    const int i = residency_choose(seats, s->n, &who);
    CHECK(i >= 0);
    return &s->all[i];
}

void sequence_use(struct sequences *s, struct sequence *q, const struct arrival *a, int rejoins)
{
    if (a->name || unnamed_continued_by(s, a->prompt) != q)
        q->name = a->name;
    q->client = a->client;
    q->used_ns = s->now_ns = clock_ns();
    q->rejoins = rejoins > 0 ? rejoins : a->prompt.n;
}

/* ---- what it holds ---- */

struct rejoin sequence_rejoin(const struct sequences *s, const struct sequence *q, struct spans prompt)
{
    return timeline_rejoin(&q->tl, &s->snaps, q->slot, prompt);
}

void sequence_set_prompt(struct sequences *s, struct sequence *q, const struct rejoin *j, struct spans prompt)
{
    int n, offset;
    if (j->snapshot >= 0)
        cache_state_load(q->k, snapshots_at(&s->snaps, j->snapshot));
    else if (!j->stay)
        cache_reset(q->k);
    snapshots_drop_after(&s->snaps, q->slot, j->common);
    timeline_set(&q->tl, prompt, j->pos);
    free(q->at);
    q->at = spans_positions(prompt, &n, &offset);
    cache_set_positions(q->k, q->at, n, offset);
}

void sequence_keep(struct sequences *s, struct sequence *q, bool on_way)
{
    void *mem = snapshots_claim(&s->snaps, q->slot, q->tl.n_run, on_way);
    if (mem)
        cache_state_save(q->k, mem);
}

void sequence_forget(struct sequences *s, struct sequence *q)
{
    timeline_set(&q->tl, (struct spans){0}, 0);
    snapshots_drop_after(&s->snaps, q->slot, 0);
    cache_reset(q->k);
}

void sequence_note_refill(const struct sequences *s, struct sequence *q, uint64_t name, const struct rejoin *j)
{
    const int expected = least(q->rejoins, q->tl.n);
    const bool resident = q->tl.n && (q->name == name || (!name && sequence_is_unnamed(q->name))) && (name || j->common >= expected);
    if (resident && (most(expected, j->common) - j->pos < WORTH_NOTING || (q->refill.happened && q->refill.pos <= j->pos)))
        return;
    q->refill = (struct refill){
        .happened = true, .resident = resident, .common = j->common, .pos = j->pos,
        .from_file = j->snapshot >= 0 && s->snaps.from_file[j->snapshot],
    };
}

struct refill sequence_take_refill(struct sequence *q)
{
    const struct refill r = q->refill;
    q->refill = (struct refill){0};
    return r;
}

void sequence_note_ahead(struct sequence *q, int pos, int rows)
{
    if (pos < q->ahead_from || pos > q->ahead_to)
        q->ahead_from = pos;
    q->ahead_to = pos + rows;
}

int sequence_take_ahead(struct sequence *q, int pos)
{
    const int n = most(least(pos, q->ahead_to) - q->ahead_from, 0);
    q->ahead_from = q->ahead_to = 0;
    return n;
}
