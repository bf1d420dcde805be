#include "model/upload.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "kernels/pack_piece.h"
#include "model/reader.h"
#include "model/store.h"
#include "model/upload_plan.h"

enum {
    SPAN      = 8 << 20,                /* bytes of a read */
    N_THREADS = 8,
    IN_FLIGHT = 4,                      /* buffers that the device works on before anybody waits for it */
    N_BUFFERS = N_THREADS + 2 * IN_FLIGHT,
    TABLE     = (UPLOAD_PLAN_PIECES * (int)sizeof(struct pack_piece) + READER_PAGE - 1) / READER_PAGE * READER_PAGE,       /* bytes */
    EMPTY     = 512,                    /* bytes of a slab for nothing */
    PATIENCE_MS = 50,                   /* between two looks at progress() when nothing arrives */
};

struct upload {
    struct upload_plan p;
    struct dev   *d;
    struct reader *reader;
    const char  **paths;                /* of the shards */
    bool   unified;                     /* the device packs out of the pinned buffers */
    size_t buffer_bytes;                /* read into each buffer; a table follows */
    char  *pinned, *staging;            /* n_buffers of them; one in device memory */
    char  *buffers[N_BUFFERS];
    int    n_buffers, n_threads;
    int    in_flight[IN_FLIGHT], n_in_flight;
};

size_t weights_upload_bytes(void)
{
    return (size_t)N_BUFFERS * (SPAN + 2 * READER_PAGE + TABLE);
}

static bool check_zeros(void *arg, int job, const char *data, struct err *e)
{
    const struct upload *u = arg;
    return upload_plan_check_zeros(&u->p, job, data, e);
}

static void pack_block(struct upload *u, const struct read_block *b)
{
    struct dev *d = u->d;
    char *host = u->buffers[b->buffer], *at = u->unified ? host : u->staging;
    struct pack_piece *table = (struct pack_piece *)(void *)(host + u->buffer_bytes);
    struct pack_args a = {.pieces = (struct pack_piece *)(void *)(at + u->buffer_bytes)};
    a.n = upload_plan_pieces(&u->p, b->job, at + (b->data - host), table);
    a.n_blocks = pack_number(table, a.n);
    if (!a.n)
        return;
    if (!u->unified) {
        d->copy(d, at, host, (size_t)(b->data - host) + u->p.jobs[b->job].bytes);
        d->copy(d, at + u->buffer_bytes, table, (size_t)a.n * sizeof *table);
    }
    d->pack(d, &a);
}

/* Waits for the device; afterwards its buffers are free again. */
static bool wait_for_device(struct upload *u, struct err *e)
{
    if (!u->d->finish(u->d, e))
        return false;
    while (u->n_in_flight)
        reader_give_back(u->reader, u->in_flight[--u->n_in_flight]);
    return true;
}

static bool stream_reads(struct upload *u, bool (*progress)(size_t done, size_t total, void *arg), void *arg, struct err *e)
{
    const struct upload_plan *p = &u->p;
    size_t done = 0;
    for (int n = 0; n < p->n_jobs;) {
        struct read_block b;
        if (progress && !progress(done, p->total, arg))
            return err_set(e, "loading was stopped");
        enum read_result r = reader_next(u->reader, &b, u->n_in_flight ? 0 : PATIENCE_MS, e);
        if (r == READ_FAILED)
            return false;
        if (r == READ_BLOCK) {
            pack_block(u, &b);
            u->in_flight[u->n_in_flight++] = b.buffer;
            done += p->jobs[b.job].bytes;
            n++;
        }
        /* Waiting costs nothing while the reading threads have other buffers to fill. */
        if ((r == READ_NOTHING_YET || u->n_in_flight == IN_FLIGHT) && !wait_for_device(u, e))
            return false;
    }
    if (!wait_for_device(u, e))
        return false;
    if (progress)
        progress(p->total, p->total, arg);
    return true;
}

static bool open_upload(struct upload *u, const struct shards *sh, size_t span, struct err *e)
{
    const struct upload_plan *p = &u->p;
    struct dev_facts facts = {.integrated = false};
    struct dev *d = u->d;
    u->unified = dev_facts(d, &facts) && facts.integrated;
    u->buffer_bytes = (span + READER_PAGE - 1) / READER_PAGE * READER_PAGE + 2 * READER_PAGE;
    u->n_buffers = p->n_jobs < N_BUFFERS ? p->n_jobs : N_BUFFERS;
    if (u->n_threads > u->n_buffers)
        u->n_threads = u->n_buffers;
    size_t each = u->buffer_bytes + TABLE;
    u->pinned = d->alloc_host(d, (size_t)u->n_buffers * each + READER_PAGE);
    u->staging = u->unified ? NULL : d->alloc(d, each);
    if (!u->pinned || (!u->unified && !u->staging))
        return err_set(e, "no memory for the %zu MiB of buffers that loading needs", (size_t)u->n_buffers * each >> 20);
    char *at = (char *)(((uintptr_t)u->pinned + READER_PAGE - 1) / READER_PAGE * READER_PAGE);
    for (int i = 0; i < u->n_buffers; i++, at += each)
        u->buffers[i] = at;
    u->paths = memory_zeroed((size_t)sh->n_files + 1, sizeof *u->paths);
    for (int i = 0; i < sh->n_files; i++)
        u->paths[i] = sh->files[i].path;
    struct reader_options o = {.paths = u->paths, .n_paths = sh->n_files, .jobs = p->jobs, .n_jobs = p->n_jobs, .buffers = u->buffers,
                               .n_buffers = u->n_buffers, .n_threads = u->n_threads, .buffer_bytes = u->buffer_bytes,
                               .check = check_zeros, .arg = u};
    u->reader = reader_open(&o, e);
    return u->reader;
}

static void close_upload(struct upload *u)
{
    struct err ignored;
    reader_close(u->reader);
    u->d->finish(u->d, &ignored);       /* nothing may copy out of the buffers any more */
    u->d->free(u->d, u->staging);
    u->d->free_host(u->d, u->pinned);
    free(u->paths);
}

static bool alloc_slabs(struct weights_store *st, const struct upload_plan *p, struct dev *d, struct err *e)
{
    st->dev = d;
    st->slabs = memory_zeroed((size_t)p->n_slabs, sizeof *st->slabs);
    for (int i = 0; i < p->n_slabs; i++) {
        st->slabs[i] = d->alloc_weights(d, p->slab_bytes[i] ? p->slab_bytes[i] : EMPTY);
        if (!st->slabs[i])
            return err_set(e, "no room on the GPU for the weights: the allocation of %.2f GiB (part %d of %d) failed",
                           (double)p->slab_bytes[i] / (1 << 30), i + 1, p->n_slabs);
        st->n_slabs++;
    }
    return true;
}

bool weights_upload(struct weights *w, const struct model_config *c, struct dev *d, const struct upload_options *o,
                    bool (*progress)(size_t done, size_t total, void *arg), void *arg, struct err *e)
{
    struct weights_store *st = w->store;
    size_t span = o->span ? o->span : SPAN;
    struct upload u = {.d = d, .n_threads = o->n_threads ? o->n_threads : N_THREADS};
    if (!upload_plan_allows(w, c, e))
        return false;
    upload_plan_init(&u.p, w, c, o->heads, o->mtp);
    bool ok = alloc_slabs(st, &u.p, d, e) && upload_plan_fill(&u.p, st->slabs, span, e);
    if (ok) {
        d->copy(d, st->slabs[SLAB_VECTORS], u.p.vectors, u.p.slab_bytes[SLAB_VECTORS]);
        ok = open_upload(&u, &st->shards, span, e) && stream_reads(&u, progress, arg, e);
    }
    close_upload(&u);
    upload_plan_free(&u.p);
    shards_close(&st->shards);
    free(st->ranges);
    st->ranges = NULL;
    st->n_ranges = st->cap = 0;
    return ok;
}
