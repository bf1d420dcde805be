#include "engine/restore.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/dev.h"
#include "base/memory.h"
#include "engine/checkpoint.h"

static bool load_rows(const struct resident *r, const struct checkpoint_section *s, const void *data, struct err *e)
{
    if (s->bytes != cache_rows_bytes(r->cache, s->from, s->to))
        return err_set(e, "the checkpoint has %llu bytes for the rows from %d to %d, expected %zu", (unsigned long long)s->bytes, s->from, s->to,
                       cache_rows_bytes(r->cache, s->from, s->to));
    cache_rows_load(r->cache, s->from, s->to, data);
    return true;
}

static bool load_states(const struct resident *r, const struct checkpoint_section *s, const void *data, struct err *e)
{
    if (s->bytes != r->snaps->bytes || cache_saved_pos(r->cache, data) != s->from)
        return err_set(e, "the checkpoint has %llu bytes for the states at %d, expected %zu and that position", (unsigned long long)s->bytes, s->from,
                       r->snaps->bytes);
    void *mem = snapshots_claim(r->snaps, r->sequence, s->from, false);
    if (mem) {
        memcpy(mem, data, s->bytes);
        r->snaps->from_file[snapshots_find(r->snaps, r->sequence, s->from)] = true;
    }
    return true;
}

static bool load_section(const struct resident *r, const struct checkpoint *c, const struct checkpoint_section *s, struct err *e)
{
    void *data = memory_alloc(s->bytes);
    bool ok = checkpoint_read(c, s, data, e) && (checkpoint_is_rows(s) ? load_rows : load_states)(r, s, data, e);
    free(data);
    return ok;
}

static int by_position(const void *a, const void *b)
{
    const struct checkpoint_section *x = a, *y = b;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* Rows in the file's order, then states in the sequence's. */
static bool load_all(const struct resident *r, const struct checkpoint *c, struct err *e)
{
    int n, n_states = 0;
    const struct checkpoint_section *s = checkpoint_sections(c, &n);
    struct checkpoint_section *states = memory_alloc((size_t)n * sizeof *states);
    bool ok = true;
    for (int i = 0; ok && i < n; i++) {
        if (checkpoint_is_rows(&s[i]))
            ok = load_section(r, c, &s[i], e);
        else
            states[n_states++] = s[i];
    }
    qsort(states, (size_t)n_states, sizeof *states, by_position);
    for (int i = 0; ok && i < n_states; i++)
        ok = load_section(r, c, &states[i], e);
    free(states);
    return ok;
}

/* Could it be ours, and is it worth it? */
static bool is_wanted(const struct resident *r, const struct checkpoint *c)
{
    int n, n_sections, last = 0;
    const int32_t *ids = checkpoint_ids(c, &n);
    const struct checkpoint_section *s = checkpoint_sections(c, &n_sections);
    for (int i = 0; i < n_sections; i++)
        if (!checkpoint_is_rows(&s[i]))
            last = s[i].from > last ? s[i].from : last;
    for (int i = 0; i < n_sections; i++)
        if (s[i].to > r->tl->cap)
            return false;
    const int common = timeline_common(r->tl, ids, n);
    return last && n <= r->tl->cap && (common < r->tl->n_run ? common : r->tl->n_run) < last;
}

static void empty(const struct resident *r)
{
    timeline_set(r->tl, NULL, 0, 0);
    snapshots_drop_after(r->snaps, r->sequence, 0);
    cache_reset(r->cache);
}

static void become(const struct resident *r, const struct checkpoint *c)
{
    int n;
    const int32_t *ids = checkpoint_ids(c, &n);
    int slot = snapshots_find(r->snaps, r->sequence, n);
    if (slot < 0) {                     /* there is room for none */
        empty(r);
        return;
    }
    cache_state_load(r->cache, snapshots_at(r->snaps, slot));
    timeline_set(r->tl, ids, r->snaps->pos[slot], r->snaps->pos[slot]);
}

bool restore_sequence(const char *path, struct fingerprint identity, const struct resident *r, struct restored *out, struct err *fault)
{
    *out = (struct restored){0};
    bool useless;
    struct checkpoint *c = checkpoint_open(path, identity, &useless, &out->refused);
    if (c && is_wanted(r, c)) {
        empty(r);
        useless = !load_all(r, c, &out->refused);
        if (useless)
            empty(r);
        else
            become(r, c);
        out->n_tokens = r->tl->n_run;
    }
    checkpoint_close(c);
    out->deleted = useless && !unlink(path);
    return r->dev->finish(r->dev, fault);
}
