#include "engine/snapshot.h"

#include <limits.h>
#include <stdlib.h>

#include "base/memory.h"

enum { N_NEWEST = 3 };                  /* never evicted while there are more slots */

void snapshots_init(struct snapshots *s, int n, int n_seq, size_t bytes, void *mem)
{
    *s = (struct snapshots){.n = n, .n_seq = n_seq, .bytes = bytes, .mem = mem};
    s->pos = memory_zeroed((size_t)n + 1, sizeof *s->pos);
    s->seq = memory_zeroed((size_t)n + 1, sizeof *s->seq);
    s->on_way = memory_zeroed((size_t)n + 1, sizeof *s->on_way);
    s->from_file = memory_zeroed((size_t)n + 1, sizeof *s->from_file);
}

void snapshots_free(struct snapshots *s)
{
    free(s->pos);
    free(s->seq);
    free(s->on_way);
    free(s->from_file);
    *s = (struct snapshots){0};
}

int snapshots_find(const struct snapshots *s, int seq, int pos)
{
    int best = -1;
    for (int i = 0; i < s->n; i++)
        if (s->pos[i] && s->seq[i] == seq && s->pos[i] <= pos && (best < 0 || s->pos[i] > s->pos[best]))
            best = i;
    return best;
}

int snapshots_in_use(const struct snapshots *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->pos[i] > 0;
    return n;
}

void *snapshots_at(const struct snapshots *s, int slot)
{
    return s->mem + (size_t)slot * s->bytes;
}

/* Snapshots of a sequence and a kind behind a position. */
static int n_above(const struct snapshots *s, int seq, int pos, bool on_way)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->pos[i] > pos && s->seq[i] == seq && s->on_way[i] == on_way;
    return n;
}

static int n_held(const struct snapshots *s, int seq)
{
    return n_above(s, seq, 0, true) + n_above(s, seq, 0, false);
}

/* Returns the slot that is evicted among those of the sequence and of this kind, when all slots are taken.  The `keep` newest positions stay; there
 * must be more than these. */
static int victim(const struct snapshots *s, int seq, int keep, bool on_way)
{
    int best = -1, best_gap = INT_MAX;
    for (int i = 0; i < s->n; i++) {
        if (s->seq[i] != seq || s->on_way[i] != on_way || n_above(s, seq, s->pos[i], on_way) < keep)
            continue;
        int before = snapshots_find(s, seq, s->pos[i] - 1);
        int gap = s->pos[i] - (before < 0 ? 0 : s->pos[before]);
        if (best < 0 || gap < best_gap || (gap == best_gap && s->pos[i] < s->pos[best])) {
            best = i;
            best_gap = gap;
        }
    }
    return best;
}

/* Returns the sequence that loses a slot to `seq`. */
static int loser(const struct snapshots *s, int seq)
{
    int share = s->n / s->n_seq > 1 ? s->n / s->n_seq : 1, most = seq;
    if (n_held(s, seq) >= share)
        return seq;
    for (int i = 0; i < s->n_seq; i++)
        if (n_held(s, i) > n_held(s, most))
            most = i;
    return most;
}

/* Returns the slot to take for a snapshot of `seq`; -1: none may be taken for it. */
static int evict(const struct snapshots *s, int seq, bool on_way)
{
    const int from = loser(s, seq), most = s->n / 4;
    if (on_way && n_above(s, seq, 0, true) >= most)
        return n_above(s, seq, 0, true) ? victim(s, seq, 0, true) : -1;
    const int light = n_above(s, from, 0, true), heavy = n_above(s, from, 0, false);
    if (light && (!on_way || from != seq))
        return victim(s, from, 0, true);
    return victim(s, from, heavy > N_NEWEST ? N_NEWEST : heavy - 1, false);
}

void *snapshots_claim(struct snapshots *s, int seq, int pos, bool on_way)
{
    int slot = -1;
    if (pos <= 0 || !s->n)
        return NULL;
    for (int i = 0; i < s->n; i++) {
        if (s->pos[i] == pos && s->seq[i] == seq) {
            s->on_way[i] = s->on_way[i] && on_way;
            return NULL;
        }
        if (!s->pos[i])
            slot = i;
    }
    if (slot < 0)
        slot = evict(s, seq, on_way);
    if (slot < 0)
        return NULL;
    s->pos[slot] = pos;
    s->seq[slot] = seq;
    s->on_way[slot] = on_way;
    s->from_file[slot] = false;
    return snapshots_at(s, slot);
}

void snapshots_drop_after(struct snapshots *s, int seq, int pos)
{
    for (int i = 0; i < s->n; i++)
        if (s->seq[i] == seq && s->pos[i] > pos)
            s->pos[i] = 0;
}
