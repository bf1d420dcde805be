#include "engine/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"

void timeline_init(struct timeline *t, int cap)
{
    *t = (struct timeline){.cap = cap};
    t->ids = memory_zeroed((size_t)cap, sizeof *t->ids);
}

void timeline_free(struct timeline *t)
{
    free(t->ids);
    *t = (struct timeline){0};
}

int timeline_common(const struct timeline *t, const int32_t *ids, int n)
{
    int most = t->n < n ? t->n : n, i = 0;
    while (i < most && t->ids[i] == ids[i])
        i++;
    return i;
}

struct rejoin timeline_rejoin(const struct timeline *t, const struct snapshots *s, int seq, const int32_t *ids, int n)
{
    struct rejoin r = {.common = timeline_common(t, ids, n), .snapshot = -1};
    if (r.common >= t->n_run) {
        r.pos = t->n_run;
        r.stay = true;
    } else {
        r.snapshot = snapshots_find(s, seq, r.common);
        r.pos = r.snapshot < 0 ? 0 : s->pos[r.snapshot];
    }
    return r;
}

void timeline_set(struct timeline *t, const int32_t *ids, int n, int pos)
{
    CHECK(n <= t->cap && pos <= n);
    if (n)
        memcpy(t->ids, ids, (size_t)n * sizeof *ids);
    t->n = n;
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
}
