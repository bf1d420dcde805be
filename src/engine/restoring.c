#include "engine/restoring.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/dev.h"
#include "base/least.h"
#include "base/memory.h"
#include "base/worker.h"
#include "engine/checkpoint.h"
#include "engine/saving.h"

/* A restore in the queue.  It is used without the lock: by the thread that reads in stages OPENING, READING and CLOSING, by the engine thread
 * in the other stages.
 *
 *     WAITS -> OPENING -> OPEN -> READING <-> READ -> CLOSING -> CLOSED -> freed
 *
 * From OPENING and READING it becomes CLOSED at once if the file cannot be used; from OPEN it becomes CLOSING if the file is not needed. */
struct job {
    struct job *next;
    enum { WAITS, OPENING, OPEN, READING, READ, CLOSING, CLOSED } stage;
    struct restored   out;
    char             *path;
    struct fingerprint identity;
    struct checkpoint *file;
    struct checkpoint_section *sections;                /* rows in the order of the file, then states by position */
    int    n_sections, at;              /* at: index of the section that is being read, or was read last */
    void  *data;                        /* bytes of that section; allocated for the largest one */
    size_t n_copied;                    /* bytes of it that were copied to the device */
    bool   own;                         /* the place already has a sequence of this conversation */
    bool   emptied;                     /* the sequence that was in the place is gone */
    bool   useless;                     /* the file cannot be used */
};

struct restoring {
    struct restoring_hooks hooks;
    struct worker worker;               /* its lock guards the queue and the stages of jobs */
    struct job   *first;                /* the queue; the first job is under way */
};

/* ---- the file, on the thread that reads ---- */

static int by_position(const void *a, const void *b)
{
    const struct checkpoint_section *x = a, *y = b;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* Lists the sections in the order in which they are read: KV rows as in the file, then states by position. */
static void sort_sections(struct job *j)
{
    int n, n_rows = 0;
    const struct checkpoint_section *s = checkpoint_sections(j->file, &n);
    j->sections = memory_alloc((size_t)n * sizeof *j->sections);
    for (int i = 0; i < n; i++)
        if (checkpoint_is_rows(&s[i]))
            j->sections[n_rows++] = s[i];
    j->n_sections = n_rows;
    for (int i = 0; i < n; i++)
        if (!checkpoint_is_rows(&s[i]))
            j->sections[j->n_sections++] = s[i];
    qsort(j->sections + n_rows, (size_t)(n - n_rows), sizeof *j->sections, by_position);
}

static size_t expected_bytes(const struct resident *r, const struct checkpoint_section *s)
{
    return checkpoint_is_rows(s) ? cache_rows_bytes(r->cache, s->from, s->to) : r->snaps->bytes;
}

/* True if the context has all positions of the file. */
static bool has_room(const struct job *j)
{
    int i = 0;
    while (i < j->n_sections && j->sections[i].to <= j->out.of.tl->cap)
        i++;
    return i == j->n_sections;
}

/* Checks that each section has the size that this model writes, then allocates memory for the largest one. */
static bool make_room(struct job *j)
{
    size_t most = 0;
    for (int i = 0; i < j->n_sections; i++) {
        const struct checkpoint_section *s = &j->sections[i];
        const size_t expected = expected_bytes(&j->out.of, s);
        if (s->bytes != expected)
            return err_set(&j->out.refused, "the checkpoint has %llu bytes for the %s %d, expected %zu", (unsigned long long)s->bytes,
                           checkpoint_is_rows(s) ? "rows from" : "states at", s->from, expected);
        most = expected > most ? expected : most;
    }
    j->data = memory_alloc(most);
    return true;
}

static void close_file(struct job *j)
{
    checkpoint_close(j->file);
    j->file = NULL;
    j->out.deleted = j->useless && !unlink(j->path);
}

/* Opens the job's file and makes room for it.  False: it cannot be used. */
static bool open_file(struct job *j)
{
    j->file = checkpoint_open(j->path, j->identity, &j->useless, &j->out.refused);
    if (!j->file)
        return false;
    sort_sections(j);
    j->useless = has_room(j) && !make_room(j);
    return !j->useless;
}

static bool read_section(struct job *j)
{
    j->n_copied = 0;
    j->useless = !checkpoint_read(j->file, &j->sections[j->at], j->data, &j->out.refused);
    return !j->useless;
}

/* True if the thread that reads has something to do. */
static bool has_work(const struct job *j)
{
    return j && (j->stage == OPENING || j->stage == READING || j->stage == CLOSING);
}

/* One step of the worker: opens the file, reads a section, or closes it, without the lock.  Called with the lock. */
static int64_t restoring_work(void *arg)
{
    struct restoring *t = arg;
    struct job *j = t->first;
    if (!has_work(j))
        return WORKER_IDLE;
    int stage = CLOSED;
    worker_unlock(&t->worker);
    if (j->stage == OPENING && open_file(j))
        stage = OPEN;
    else if (j->stage == READING && read_section(j))
        stage = READ;
    else
        close_file(j);
    worker_lock(&t->worker);
    j->stage = stage;
    t->hooks.arrived(t->hooks.arg);
    return WORKER_AGAIN;
}

/* ---- the sequence, on the engine thread ---- */

/* True if the file fits into the place and has more than the sequence that is there. */
static bool is_wanted(const struct job *j)
{
    const struct resident *r = &j->out.of;
    int last = 0;
    for (int i = 0; i < j->n_sections; i++) {
        const struct checkpoint_section *s = &j->sections[i];
        last = !checkpoint_is_rows(s) && s->from > last ? s->from : last;
    }
    const int common = j->own ? spans_common(timeline_spans(r->tl), checkpoint_spans(j->file)) : 0;
    return last && has_room(j) && (common < r->tl->n_run ? common : r->tl->n_run) < last;
}

static void empty(const struct resident *r)
{
    timeline_set(r->tl, (struct spans){0}, 0);
    snapshots_drop_after(r->snaps, r->slot, 0);
    cache_reset(r->cache);
}

/* Returns the host memory of the sequence's snapshot at exactly this position; NULL: it has no snapshot there, or another sequence has taken the
 * slot. */
static char *snapshot_at(const struct resident *r, int pos)
{
    const int slot = snapshots_find(r->snaps, r->slot, pos);
    return slot >= 0 && r->snaps->pos[slot] == pos ? snapshots_at(r->snaps, slot) : NULL;
}

/* Copies a slice of states to the snapshot of their position.  False: the file is not what it should be. */
static bool copy_states(struct job *j, const struct checkpoint_section *s)
{
    const struct resident *r = &j->out.of;
    const int pos = cache_saved_pos(r->cache, j->data);
    if (pos != s->from)
        return err_set(&j->out.refused, "the checkpoint has states of position %d where those of %d are expected", pos, s->from);
    if (!j->n_copied && snapshots_claim(r->snaps, r->slot, pos, false))
        r->snaps->from_file[snapshots_find(r->snaps, r->slot, pos)] = true;
    char *mem = snapshot_at(r, s->from);
    size_t n = s->bytes - j->n_copied;
    n = n < RESTORING_SLICE || !mem ? n : RESTORING_SLICE;
    if (mem)
        memcpy(mem + j->n_copied, (char *)j->data + j->n_copied, n);
    j->n_copied += n;
    return true;
}

/* Sets timeline and states to the last position of the file that a snapshot has, after all sections were copied. */
static void become(struct job *j)
{
    const struct resident *r = &j->out.of;
    const struct spans s = checkpoint_spans(j->file);
    const int slot = snapshots_find(r->snaps, r->slot, s.n), pos = slot < 0 ? 0 : r->snaps->pos[slot];
    if (slot < 0) {                     /* other sequences took the slots of all its snapshots */
        empty(r);
        return;
    }
    cache_state_load(r->cache, snapshots_at(r->snaps, slot));
    timeline_set(r->tl, spans_head(s, pos), pos);
    j->out.n_tokens = r->tl->n_run;
}

/* Copies a slice of the section that was read; returns the job's next stage. */
static int copy_slice(struct job *j)
{
    const struct checkpoint_section *s = &j->sections[j->at];
    if (checkpoint_is_rows(s)) {
        cache_rows_load(j->out.of.cache, s->from, s->to, j->data);
        j->n_copied = s->bytes;
    } else if (!copy_states(j, s)) {
        j->useless = true;
        return CLOSING;
    }
    if (j->n_copied < s->bytes)
        return READ;
    if (++j->at < j->n_sections)
        return READING;
    become(j);
    return CLOSING;
}

/* Empties the place for an open file, if the file is wanted; returns the job's next stage. */
static int take_file(struct job *j)
{
    if (!is_wanted(j))
        return CLOSING;
    empty(&j->out.of);
    j->emptied = true;
    return READING;
}

/* ---- what the engine thread calls ---- */

static void free_job(struct job *j)
{
    checkpoint_close(j->file);
    free(j->sections);
    free(j->data);
    free(j->path);
    free(j);
}

size_t restoring_bytes(size_t state_bytes, size_t rows_bytes)
{
    return most_size(state_bytes, least_size(SAVING_PIECE, rows_bytes));
}

struct restoring *restoring_open(const struct restoring_hooks *h, struct err *e)
{
    struct restoring *t = memory_zeroed(1, sizeof *t);
    t->hooks = *h;
    if (worker_start(&t->worker, 1, restoring_work, t))
        return t;
    err_set(e, "cannot start the thread that reads what was saved");
    free(t);
    return NULL;
}

void restoring_close(struct restoring *t)
{
    if (!t)
        return;
    worker_stop(&t->worker);
    for (struct job *j = t->first, *next; j; j = next) {
        next = j->next;
        free_job(j);
    }
    free(t);
}

void restoring_begin(struct restoring *t, uint64_t name, const char *path, struct fingerprint identity, const struct resident *r, bool own)
{
    struct job *j = memory_zeroed(1, sizeof *j), **at = &t->first;
    j->path = memory_strdup(path);
    j->identity = identity;
    j->own = own;
    j->out = (struct restored){.name = name, .path = j->path, .of = *r};
    worker_lock(&t->worker);
    while (*at)
        at = &(*at)->next;
    *at = j;
    worker_unlock(&t->worker);
}

/* Returns the stage of the first job, or -1. */
static int stage_of_first(struct restoring *t)
{
    worker_lock(&t->worker);
    const int stage = t->first ? (int)t->first->stage : -1;
    worker_unlock(&t->worker);
    return stage;
}

/* Sets the stage of the first job and wakes the worker. */
static void set_stage(struct restoring *t, int stage)
{
    worker_lock(&t->worker);
    t->first->stage = stage;
    worker_wake(&t->worker);
    worker_unlock(&t->worker);
}

const char *restoring_next(struct restoring *t)
{
    return stage_of_first(t) == WAITS ? t->first->path : NULL;
}

void restoring_read(struct restoring *t)
{
    CHECK(stage_of_first(t) == WAITS);
    set_stage(t, OPENING);
}

/* Takes no lock: the list is changed on this thread alone. */
bool restoring_brings(const struct restoring *t, uint64_t name)
{
    const struct job *j = t->first;
    while (j && j->out.name != name)
        j = j->next;
    return j;
}

/* True if the engine thread has something to do. */
static bool is_ours(int stage)
{
    return stage == OPEN || stage == READ || stage == CLOSED;
}

bool restoring_ready(struct restoring *t)
{
    return is_ours(stage_of_first(t));
}

/* Takes the first job off the queue, reports it and frees it. */
static void end_job(struct restoring *t)
{
    struct job *j = t->first;
    if (j->emptied && j->useless)
        empty(&j->out.of);
    worker_lock(&t->worker);
    t->first = j->next;
    worker_unlock(&t->worker);
    t->hooks.done(t->hooks.arg, &j->out);
    free_job(j);
}

bool restoring_step(struct restoring *t, struct err *fault)
{
    const int stage = stage_of_first(t);
    if (!is_ours(stage))
        return true;
    struct job *j = t->first;
    if (!j->out.of.dev->finish(j->out.of.dev, fault))           /* no copy to or from a snapshot is under way when it loses its slot */
        return false;
    if (stage == CLOSED)
        end_job(t);
    else
        set_stage(t, stage == OPEN ? take_file(j) : copy_slice(j));
    return true;
}

bool restoring_wait(struct restoring *t, const char *path)
{
    worker_lock(&t->worker);
    while (has_work(t->first) && !strcmp(t->first->path, path))
        worker_wait(&t->worker, WORKER_IDLE);
    const bool ready = t->first && is_ours((int)t->first->stage) && !strcmp(t->first->path, path);
    worker_unlock(&t->worker);
    return ready;
}
