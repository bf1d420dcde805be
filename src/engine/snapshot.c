#include "engine/snapshot.h"

#include <limits.h>
#include <stdlib.h>

#include "base/memory.h"

enum { N_NEWEST = 2 };                  /* never evicted while there are more slots */

bool snapshots_init(struct snapshots *s, int n, size_t bytes)
{
    *s = (struct snapshots){.n = n, .bytes = bytes};
    if (!n)
        return true;
    s->pos = memory_zeroed((size_t)n, sizeof *s->pos);
    s->on_way = memory_zeroed((size_t)n, sizeof *s->on_way);
    s->mem = calloc((size_t)n, bytes);
    return s->pos && s->on_way && s->mem;
}

bool snapshots_init_in(struct snapshots *s, int n, size_t bytes, void *mem)
{
    *s = (struct snapshots){.n = n, .bytes = bytes, .mem = mem, .borrowed = true};
    s->pos = memory_zeroed((size_t)n + 1, sizeof *s->pos);
    s->on_way = memory_zeroed((size_t)n + 1, sizeof *s->on_way);
    return s->pos && s->on_way && s->mem;
}

void snapshots_free(struct snapshots *s)
{
    free(s->pos);
    free(s->on_way);
    if (!s->borrowed)
        free(s->mem);
    *s = (struct snapshots){0};
}

int snapshots_find(const struct snapshots *s, int pos)
{
    int best = -1;
    for (int i = 0; i < s->n; i++)
        if (s->pos[i] && s->pos[i] <= pos && (best < 0 || s->pos[i] > s->pos[best]))
            best = i;
    return best;
}

void *snapshots_at(const struct snapshots *s, int slot)
{
    return s->mem + (size_t)slot * s->bytes;
}

static int n_above(const struct snapshots *s, int pos, bool on_way)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->pos[i] > pos && s->on_way[i] == on_way;
    return n;
}

/* All slots are taken.  Of those of its kind, which there are, the `keep` newest positions stay. */
static int victim(const struct snapshots *s, int keep, bool on_way)
{
    int best = -1, best_gap = INT_MAX;
    for (int i = 0; i < s->n; i++) {
        if (s->on_way[i] != on_way || n_above(s, s->pos[i], on_way) < keep)
            continue;
        int before = snapshots_find(s, s->pos[i] - 1);
        int gap = s->pos[i] - (before < 0 ? 0 : s->pos[before]);
        if (best < 0 || gap < best_gap || (gap == best_gap && s->pos[i] < s->pos[best])) {
            best = i;
            best_gap = gap;
        }
    }
    return best;
}

/* -1: none may go for this. */
static int evict(const struct snapshots *s, bool on_way)
{
    int light = n_above(s, 0, true), heavy = s->n - light;
    if (light && (!on_way || light >= s->n / 4))
        return victim(s, 0, true);
    if (on_way && light >= s->n / 4)
        return -1;
    return victim(s, heavy > N_NEWEST ? N_NEWEST : heavy - 1, false);
}

void *snapshots_claim(struct snapshots *s, int pos, bool on_way)
{
    int slot = -1;
    if (pos <= 0 || !s->n)
        return NULL;
    for (int i = 0; i < s->n; i++) {
        if (s->pos[i] == pos) {
            s->on_way[i] = s->on_way[i] && on_way;
            return NULL;
        }
        if (!s->pos[i])
            slot = i;
    }
    if (slot < 0)
        slot = evict(s, on_way);
    if (slot < 0)
        return NULL;
    s->pos[slot] = pos;
    s->on_way[slot] = on_way;
    return snapshots_at(s, slot);
}

void snapshots_drop_after(struct snapshots *s, int pos)
{
    for (int i = 0; i < s->n; i++)
        if (s->pos[i] > pos)
            s->pos[i] = 0;
}
