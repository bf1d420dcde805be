#include "engine/snapshot.h"

#include <limits.h>
#include <stdlib.h>

enum { N_NEWEST = 2 };                  /* never evicted while there are more slots */

bool snapshots_init(struct snapshots *s, int n, size_t bytes)
{
    *s = (struct snapshots){.n = n, .bytes = bytes};
    if (!n)
        return true;
    s->pos = calloc((size_t)n, sizeof *s->pos);
    s->mem = calloc((size_t)n, bytes);
    return s->pos && s->mem;
}

bool snapshots_init_in(struct snapshots *s, int n, size_t bytes, void *mem)
{
    *s = (struct snapshots){.n = n, .bytes = bytes, .mem = mem, .borrowed = true};
    s->pos = calloc((size_t)n + 1, sizeof *s->pos);
    return s->pos && s->mem;
}

void snapshots_free(struct snapshots *s)
{
    free(s->pos);
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

static int n_above(const struct snapshots *s, int pos)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->pos[i] > pos;
    return n;
}

/* All slots are taken.  `keep` newest positions stay. */
static int victim(const struct snapshots *s, int keep)
{
    int best = 0, best_gap = INT_MAX;
    for (int i = 0; i < s->n; i++) {
        if (n_above(s, s->pos[i]) < keep)
            continue;
        int before = snapshots_find(s, s->pos[i] - 1);
        int gap = s->pos[i] - (before < 0 ? 0 : s->pos[before]);
        if (gap < best_gap || (gap == best_gap && s->pos[i] < s->pos[best])) {
            best = i;
            best_gap = gap;
        }
    }
    return best;
}

void *snapshots_claim(struct snapshots *s, int pos)
{
    int slot = -1;
    if (pos <= 0 || !s->n)
        return NULL;
    for (int i = 0; i < s->n; i++) {
        if (s->pos[i] == pos)
            return NULL;
        if (!s->pos[i])
            slot = i;
    }
    if (slot < 0)
        slot = victim(s, s->n > N_NEWEST ? N_NEWEST : s->n - 1);
    s->pos[slot] = pos;
    return snapshots_at(s, slot);
}

void snapshots_drop_after(struct snapshots *s, int pos)
{
    for (int i = 0; i < s->n; i++)
        if (s->pos[i] > pos)
            s->pos[i] = 0;
}
