#include "engine/saver.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/dev.h"
#include "base/ids.h"
#include "base/memory.h"
#include "engine/checkpoint.h"

/* A copy of the states after `pos` tokens, made when the save began. */
struct saved_states { int pos; void *data; };

struct saver {
    char *path;
    struct fingerprint identity;
    struct resident    of;
    struct ids         ids;             /* tokens that are to be saved */
    struct saved_states states[SAVED_STATES];
    int    n_states;
    size_t state_bytes;                 /* size of one set of states */
    struct checkpoint *file;
    int    n_there;                     /* tokens whose rows the file has */
    int    expected;                    /* tokens whose rows it must have had before (saver_expect()); -1: any number */
    struct err why;                     /* why the file cannot be written; "": it can */
};

/* Adds the position of the newest snapshot at or before `pos` to the save, unless the save has it. */
static void add_states_at(const struct resident *r, int pos, struct saving *s, int *n)
{
    const int slot = snapshots_find(r->snaps, r->slot, pos);
    if (slot >= 0 && !(*n && s->pos[0] == r->snaps->pos[slot]))
        s->pos[(*n)++] = r->snaps->pos[slot];
}

/* A save has the states where the next turn rejoins and, if the answer may still be continued, the newest states.  No more, since one set of states
 * of a large model is as large as the rows of 23,000 tokens. */
struct saving saver_saving(const struct resident *r)
{
    struct saving s = {.ids = r->tl->ids};
    int n = 0;
    const bool known = r->rejoins > 0 && r->rejoins < r->tl->n_run;
    if (!known || !r->finished)
        add_states_at(r, r->tl->n_run, &s, &n);
    if (known)
        add_states_at(r, r->rejoins, &s, &n);
    if (!n)
        add_states_at(r, r->tl->n_run, &s, &n);
    s.n = s.pos[0];
    return s;
}

struct saver *saver_open(const char *path, struct fingerprint identity, const struct resident *r)
{
    const struct saving has = saver_saving(r);
    if (!has.n)
        return NULL;
    struct saver *s = memory_zeroed(1, sizeof *s);
    *s = (struct saver){.path = memory_strdup(path), .identity = identity, .of = *r, .state_bytes = r->snaps->bytes, .expected = -1};
    for (int i = 0; i < SAVED_STATES && has.pos[i]; i++) {
        void *data = memory_alloc(s->state_bytes);
        memcpy(data, snapshots_at(r->snaps, snapshots_find(r->snaps, r->slot, has.pos[i])), s->state_bytes);
        s->states[s->n_states++] = (struct saved_states){has.pos[i], data};
    }
    ids_append(&s->ids, has.ids, has.n);
    return s;
}

void saver_close(struct saver *s)
{
    if (!s)
        return;
    saver_close_file(s);
    for (int i = 0; i < s->n_states; i++)
        free(s->states[i].data);
    ids_free(&s->ids);
    free(s->path);
    free(s);
}

const char *saver_path(const struct saver *s)
{
    return s->path;
}

int saver_n_tokens(const struct saver *s)
{
    return s->ids.n;
}

int saver_n_written(const struct saver *s)
{
    return s->n_there;
}

static int common_ids(const int32_t *a, int n_a, const int32_t *b, int n_b)
{
    int i = 0;
    while (i < n_a && i < n_b && a[i] == b[i])
        i++;
    return i;
}

/* Of the rows of `common` equal tokens, how many are equal.  If more tokens follow, the last row is not: the MTP block's row of a token depends on
 * the next token. */
static int rows_that_stay(const struct saver *s, int common)
{
    return common - (common > 0 && common < s->ids.n);
}

/* --- on the device's thread -------------------------------------------------------------------------------------------- */

int saver_expect(struct saver *s, int common)
{
    return s->expected = rows_that_stay(s, common);
}

void saver_shorten(struct saver *s)
{
    const struct timeline *t = s->of.tl;
    int n = common_ids(t->ids, t->n_run, s->ids.data, s->ids.n), n_states = 0;
    s->ids.n = n > s->n_there ? n : s->n_there;
    for (int i = 0; i < s->n_states; i++) {
        if (s->states[i].pos <= s->ids.n)
            s->states[n_states++] = s->states[i];
        else
            free(s->states[i].data);
    }
    s->n_states = n_states;
}

struct saver_piece *saver_copy(const struct saver *s, int from, size_t most, struct err *fault)
{
    int to = s->ids.n;
    while (to - from > 1 && cache_rows_bytes(s->of.cache, from, to) > most)
        to = from + (to - from) / 2;
    const size_t bytes = cache_rows_bytes(s->of.cache, from, to);
    struct saver_piece *p = memory_alloc(sizeof *p + bytes);
    *p = (struct saver_piece){.to = to, .bytes = bytes};
    cache_rows_save(s->of.cache, from, to, p->data);
    if (s->of.dev->finish(s->of.dev, fault))
        return p;
    free(p);
    return NULL;
}

/* --- on the file's thread ------------------------------------------------------------------------------------------------ */

bool saver_open_file(struct saver *s)
{
    int n;
    s->file = checkpoint_edit(s->path, s->identity, &s->why);
    if (!s->file)
        return true;
    const int32_t *ids = checkpoint_ids(s->file, &n);
    s->n_there = rows_that_stay(s, common_ids(ids, n, s->ids.data, s->ids.n));
    if (s->n_there < s->expected)
        return false;
    if (s->expected >= 0)
        s->n_there = s->expected;
    checkpoint_cut(s->file, s->n_there);
    return true;
}

void saver_write(struct saver *s, const struct saver_piece *p)
{
    checkpoint_add_rows(s->file, s->ids.data + s->n_there, p->to - s->n_there, p->data, p->bytes, &s->why);
    s->n_there = p->to;
}

bool saver_failed(const struct saver *s)
{
    return *s->why.msg;
}

static bool is_new_states(const struct saver *s, int pos)
{
    for (int i = 0; i < s->n_states; i++)
        if (s->states[i].pos == pos)
            return true;
    return false;
}

/* States of earlier saves are kept as long as all states of the file are no larger than its rows: the tokens of a short conversation are computed
 * sooner than states are read.  The states of the lowest position are dropped first. */
static void drop_old_states(const struct saver *s)
{
    for (;;) {
        int n, oldest = 0;
        const struct checkpoint_section *all = checkpoint_sections(s->file, &n);
        uint64_t rows = 0, states = 0;
        for (int i = 0; i < n; i++) {
            *(checkpoint_is_rows(&all[i]) ? &rows : &states) += all[i].bytes;
            if (!checkpoint_is_rows(&all[i]) && !is_new_states(s, all[i].from) && (!oldest || all[i].from < oldest))
                oldest = all[i].from;
        }
        if (!oldest || states <= rows)
            return;
        checkpoint_drop_states(s->file, oldest);
    }
}

static bool write_states(struct saver *s)
{
    bool ok = true;
    for (int i = 0; ok && i < s->n_states; i++) {
        checkpoint_drop_states(s->file, s->states[i].pos);
        ok = checkpoint_add_states(s->file, s->states[i].pos, s->states[i].data, s->state_bytes, &s->why);
    }
    drop_old_states(s);
    return ok;
}

struct saved saver_finish(struct saver *s)
{
    const bool ok = !saver_failed(s) && write_states(s) && checkpoint_commit(s->file, &s->why);
    struct saved out = {.failed = s->why, .written = s->file ? checkpoint_written(s->file) : 0};
    if (ok) {
        out.bytes = checkpoint_bytes(s->file);
        out.has = (struct saving){.ids = s->ids.data, .n = s->n_there};
        for (int i = 0; i < s->n_states; i++)
            out.has.pos[i] = s->states[i].pos;
    } else if (s->file) {               /* deleted, since on a full disk the conversation itself needs the space */
        unlink(s->path);
    }
    return out;
}

void saver_close_file(struct saver *s)
{
    checkpoint_close(s->file);
    s->file = NULL;
}
