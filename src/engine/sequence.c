#include "engine/sequence.h"

#include <stdlib.h>

#include "backend/dev.h"
#include "base/least.h"
#include "base/err.h"
#include "base/memory.h"

enum { WORTH_NOTING = 64 };             /* tokens of a refill: reading ahead ends at multiples of it */

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
    for (int i = 0; i < s->n; i++)
        timeline_free(&s->all[i].tl);
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

bool sequences_have_place(const struct sequences *s)
{
    int i = 0;
    while (i < s->n && s->all[i].busy)
        i++;
    return i < s->n;
}

/* ---- which one ---- */

struct sequence *sequences_named(const struct sequences *s, uint64_t name)
{
    for (int i = 0; name && i < s->n; i++)
        if (s->all[i].name == name)
            return &s->all[i];
    return NULL;
}

/* The unnamed sequence with the longest common prefix. */
static struct sequence *unnamed_that_goes_on(const struct sequences *s, const int32_t *ids, int n)
{
    struct sequence *best = NULL;
    int most = 0;
    for (int i = 0; i < s->n; i++) {
        struct sequence *q = &s->all[i];
        const int common = timeline_common(&q->tl, ids, n), needed = q->rejoins < q->tl.n ? q->rejoins : q->tl.n;
        if (!q->busy && !q->name && common > most && common >= needed) {
            best = q;
            most = common;
        }
    }
    return best;
}

static struct sequence *least_recent(const struct sequences *s)
{
    struct sequence *best = NULL;
    for (int i = 0; i < s->n; i++)
        if (!s->all[i].busy && (!best || s->all[i].used < best->used))
            best = &s->all[i];
    CHECK(best);
    return best;
}

struct sequence *sequences_that_goes_on(const struct sequences *s, uint64_t name, const int32_t *ids, int n)
{
    struct sequence *q = sequences_named(s, name);
    return q ? q : unnamed_that_goes_on(s, ids, n);
}

struct sequence *sequences_choose(const struct sequences *s, uint64_t name, const int32_t *ids, int n)
{
    struct sequence *q = sequences_that_goes_on(s, name, ids, n);
    return q ? q : least_recent(s);
}

void sequence_use(struct sequences *s, struct sequence *q, uint64_t name, int n, int rejoins)
{
    q->name = name;
    q->used = ++s->clock;
    q->rejoins = rejoins > 0 ? rejoins : n;
}

/* ---- what it holds ---- */

struct rejoin sequence_rejoin(const struct sequences *s, const struct sequence *q, const int32_t *ids, int n)
{
    return timeline_rejoin(&q->tl, &s->snaps, q->slot, ids, n);
}

void sequence_set_prompt(struct sequences *s, struct sequence *q, const struct rejoin *j, const int32_t *ids, int n)
{
    if (j->snapshot >= 0)
        cache_state_load(q->k, snapshots_at(&s->snaps, j->snapshot));
    else if (!j->stay)
        cache_reset(q->k);
    snapshots_drop_after(&s->snaps, q->slot, j->common);
    timeline_set(&q->tl, ids, n, j->pos);
}

void sequence_keep(struct sequences *s, struct sequence *q, bool on_way)
{
    void *mem = snapshots_claim(&s->snaps, q->slot, q->tl.n_run, on_way);
    if (mem)
        cache_state_save(q->k, mem);
}

void sequence_forget(struct sequences *s, struct sequence *q)
{
    timeline_set(&q->tl, NULL, 0, 0);
    snapshots_drop_after(&s->snaps, q->slot, 0);
    cache_reset(q->k);
}


void sequence_note_refill(const struct sequences *s, struct sequence *q, uint64_t name, const struct rejoin *j)
{
    const int expected = least(q->rejoins, q->tl.n);
    const bool resident = q->tl.n && q->name == name && (name || j->common >= expected);
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
