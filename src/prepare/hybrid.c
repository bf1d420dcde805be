#include "prepare/hybrid.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/memory.h"
#include "fetch/cache.h"
#include "fetch/fetch.h"
#include "model/weights.h"
#include "prepare/hash.h"
#include "prepare/hybrid_build.h"
#include "prepare/place.h"

/* ---- making them */

static bool make_bytes(const struct tensor_out *t, uint64_t at, uint64_t n, uint8_t *dst, struct err *e)
{
    const struct hybrid_origin *o = t->source;
    struct hybrid *b = o->b;
    if (!source_read(o->source, o->file, o->at + at, n, dst, e))
        return false;
    if (o->source == b->fp8 && b->o->progress)
        b->o->progress(b->o->arg, atomic_fetch_add(&b->n_made, n) + n, b->r->fp8_bytes);
    return true;
}

/* Makes one file of OUT.part, which gets its name when it is complete. */
static bool write_file(struct hybrid *b, const char *name, struct tensor_out **tensors, int n)
{
    struct buf path = {0}, tmp = {0};
    struct stat st;
    struct write_options o = {.n_threads = 8, .make = make_bytes};
    buf_addf(&path, "%s/%s", b->part, name);
    buf_addf(&tmp, "%s/.%s.tmp", b->part, name);
    struct file_out f = {.path = buf_str(&tmp), .tensors = tensors, .n_tensors = n};
    bool ok = true;
    if (stat(buf_str(&path), &st))      /* otherwise an earlier run made it from the same sources */
        ok = safetensors_write(&f, 1, &o, b->e)
            && (!rename(buf_str(&tmp), buf_str(&path)) || err_set(b->e, "cannot write %s: %s", buf_str(&path), strerror(errno)));
    else
        f.bytes = (uint64_t)st.st_size;
    if (ok)
        hybrid_report_add(b, name, f.bytes, "written");
    buf_free(&path);
    buf_free(&tmp);
    return ok;
}

static bool write_fp8_file(struct hybrid *b)
{
    struct tensor_out **list = memory_alloc((size_t)b->n_moved * sizeof(*list));
    for (int i = 0; i < b->n_moved; i++)
        list[i] = &b->moved[i].out;
    bool ok = write_file(b, HYBRID_FP8_FILE, list, b->n_moved);
    free(list);
    return ok;
}

/* Writes a shard in its old order, without unused copies, with FP8 matrices and scales in place of the 16-bit ones. */
static bool rewrite_shard(struct hybrid *b, struct safetensors *f)
{
    struct tensor_out **list = memory_alloc(((size_t)f->n_tensors * 2 + 1) * sizeof(*list)),
        *copies = memory_zeroed((size_t)f->n_tensors + 1, sizeof *copies);
    struct hybrid_origin *origins = memory_zeroed((size_t)f->n_tensors + 1, sizeof *origins);
    bool ok = true;
    int n = 0;
    for (int i = 0; i < f->n_tensors && ok; i++) {
        const struct tensor *t = &f->tensors[i];
        struct hybrid_matrix *m = hybrid_moved(b, t->name);
        if (shards_find(&b->s, t->name)->t != t)
            continue;
        if (m) {
            list[n++] = &m[0].out;
            list[n++] = &m[1].out;
            continue;
        }
        ok = dtype_bytes(t->dtype) || err_set(b->e, "%s: tensor %s has a dtype that q35chat cannot write: leave --compact out", f->path, t->name);
        origins[i] = (struct hybrid_origin){&b->int4, hybrid_base_name(f->path), t->offset, b};
        copies[i] = (struct tensor_out){.name = t->name, .dtype = t->dtype, .n_dims = t->n_dims, .source = &origins[i]};
        memcpy(copies[i].shape, t->shape, sizeof t->shape);
        list[n++] = &copies[i];
    }
    ok = ok && write_file(b, hybrid_base_name(f->path), list, n);
    free(list);
    free(copies);
    free(origins);
    return ok;
}

static bool put_file(struct hybrid *b, const struct hybrid_plan_file *p)
{
    struct buf from = {0}, to = {0};
    struct stat st;
    enum placing how;
    buf_addf(&from, "%s/%s", b->dir, p->name);
    buf_addf(&to, "%s/%s", b->part, p->name);
    bool ok = place_file(buf_str(&from), buf_str(&to), p->small, &how, b->e);
    if (ok)
        hybrid_report_add(b, p->name, stat(buf_str(&to), &st) ? 0 : (uint64_t)st.st_size, placing_names[how]);
    buf_free(&from);
    buf_free(&to);
    return ok;
}

static bool write_index(struct hybrid *b)
{
    struct index_entry *list = memory_alloc(((size_t)b->s.n + (size_t)b->n_moved) * sizeof *list);
    int n = 0;
    for (int i = 0; i < b->s.n; i++) {
        const struct shard_tensor *t = &b->s.list[i];
        const struct hybrid_matrix *m = hybrid_moved(b, t->name);
        const char *file = hybrid_base_name(shards_file(&b->s, t)->path);
        list[n++] = (struct index_entry){t->name, m && !b->o->compact ? HYBRID_FP8_FILE : file, m ? tensor_out_bytes(&m->out) : t->t->bytes};
        if (m) {                        /* its scale is in the same file */
            list[n] = list[n - 1];
            list[n].tensor = m[1].name;
            list[n++].bytes = tensor_out_bytes(&m[1].out);
        }
    }
    bool ok = index_write(b->part, list, n, b->e);
    free(list);
    return ok;
}

/* ---- what is recorded */

/* Hashes of the moved tensors, read back from the disk. */
static bool record_tensors(struct hybrid *b, const struct shards *made)
{
    struct hash_job *jobs = memory_zeroed((size_t)b->n_moved, sizeof *jobs);
    for (int i = 0; i < b->n_moved; i++) {
        const struct shard_tensor *t = shards_find(made, b->moved[i].name);
        CHECK(t);                       /* the index has just been written */
        jobs[i] = (struct hash_job){.path = shards_file(made, t)->path, .at = t->t->offset, .bytes = t->t->bytes};
    }
    bool ok = hash_jobs(jobs, b->n_moved, NULL, b->e);
    for (int i = 0; i < b->n_moved && ok; i++)
        provenance_add_tensor(&b->p, b->moved[i].name, jobs[i].bytes, jobs[i].hex);
    free(jobs);
    return ok;
}

static int by_report_name(const void *a, const void *b)
{
    return strcmp(((const struct hybrid_file *)a)->name, ((const struct hybrid_file *)b)->name);
}

/* Hashes of written and small files, and of shards with a hash in the Hugging Face cache; of the others only with --hash. */
static bool record_files(struct hybrid *b)
{
    struct hybrid_report *r = b->r;
    struct hash_job *jobs = memory_zeroed((size_t)r->n_files + 1, sizeof *jobs);
    struct fetch_repo cached = {0};
    int n = 0;
    cache_list(b->dir, &cached, NULL);
    qsort(r->files, (size_t)r->n_files, sizeof *r->files, by_report_name);
    char (*known)[DIGEST_HEX] = memory_zeroed((size_t)r->n_files + 1, sizeof *known);
    for (int i = 0; i < r->n_files; i++) {
        const struct safetensors *shard = hybrid_shard(b, r->files[i].name);
        bool linked = shard && (!r->files[i].how || strcmp(r->files[i].how, "written"));
        const struct fetch_file *f = linked ? fetch_find(&cached, r->files[i].name) : NULL;
        if (f && f->lfs)
            snprintf(known[i], DIGEST_HEX, "%s", f->hash);
        if (!*known[i] && (!linked || b->o->hash))
            jobs[n++] = (struct hash_job){.path = arena_printf(&b->memory, "%s/%s", b->part, r->files[i].name), .bytes = UINT64_MAX};
    }
    bool ok = hash_jobs(jobs, n, NULL, b->e);
    for (int i = 0, k = 0; i < r->n_files && ok; i++) {
        if (k < n && !strcmp(hybrid_base_name(jobs[k].path), r->files[i].name))
            snprintf(known[i], DIGEST_HEX, "%s", jobs[k++].hex);
        provenance_add_file(&b->p, r->files[i].name, r->files[i].bytes, known[i]);
    }
    fetch_repo_free(&cached);
    free(known);
    free(jobs);
    return ok;
}

static bool write_provenance(struct hybrid *b, const char *name)
{
    struct buf text = {0};
    provenance_print(&b->p, &text);
    bool ok = index_write_text(b->part, name, buf_str(&text), text.len, b->e);
    buf_free(&text);
    return ok;
}

/* Checks that the new checkpoint opens and that every moved matrix is FP8. */
static bool check_made(struct hybrid *b)
{
    struct weights w = {0};
    struct shards made = {0};
    bool ok = weights_open(&w, &b->c, b->part, b->e);
    CHECK(!ok || w.stats.n_fp8 >= b->r->n_matrices);
    weights_close(&w);
    ok = ok && shards_open(&made, b->part, b->e) && record_tensors(b, &made);
    shards_close(&made);
    return ok;
}

static bool build(struct hybrid *b)
{
    int lock = -1;
    bool ok = hybrid_out_start(b, &lock);
    for (int i = 0; i < b->n_files && ok; i++)
        ok = b->files[i].rewritten ? rewrite_shard(b, hybrid_shard(b, b->files[i].name)) : put_file(b, &b->files[i]);
    ok = ok && (b->o->compact || write_fp8_file(b)) && write_index(b) && hybrid_out_sweep(b, b->r) && check_made(b) && record_files(b)
        && write_provenance(b, PROVENANCE_FILE) && hybrid_out_finish(b);
    if (lock >= 0)
        close(lock);
    return ok;
}

static void report_plan(struct hybrid *b)
{
    for (int i = 0; i < b->n_files; i++) {
        const struct safetensors *f = hybrid_shard(b, b->files[i].name);
        struct stat st;
        const char *path = arena_printf(&b->memory, "%s/%s", b->dir, b->files[i].name);
        hybrid_report_add(b, b->files[i].name, f ? f->size : stat(path, &st) ? 0 : (uint64_t)st.st_size,
                    b->files[i].rewritten ? "to be written" : b->files[i].small ? "to be copied" : "to be linked");
    }
    if (!b->o->compact)
        hybrid_report_add(b, HYBRID_FP8_FILE, b->r->fp8_bytes, "to be written");
}

static bool open_all(struct hybrid *b)
{
    struct weights w = {0};
    bool ok = config_load(&b->c, b->dir, b->e) && weights_open(&w, &b->c, b->dir, b->e);
    weights_close(&w);                  /* this checked that every tensor exists with its shape */
    return ok && shards_open(&b->s, b->dir, b->e) && headers_open(&b->donor, b->fp8, b->e);
}

static bool build_all(struct hybrid *b)
{
    if (!open_all(b) || !hybrid_plan_matrices(b) || !hybrid_plan_provenance(b))
        return false;
    switch (hybrid_out_look(b)) {
    case HYBRID_IN_THE_WAY:
        return false;
    case HYBRID_FINISHED:
        b->r->state = HYBRID_THERE;
        return true;
    case HYBRID_NOTHING:
        break;
    }
    if (!hybrid_plan_files(b) || !hybrid_plan_space(b))
        return false;
    if (b->o->dry_run) {
        b->r->state = HYBRID_PLANNED;
        report_plan(b);
        return true;
    }
    return build(b);
}

bool hybrid_build(const char *int4_dir, struct source *fp8, const struct hybrid_options *o, struct hybrid_report *r, struct err *e)
{
    struct hybrid b = {.o = o, .r = r, .e = e, .dir = int4_dir, .fp8 = fp8};
    size_t n = strlen(o->out);
    *r = (struct hybrid_report){.state = HYBRID_BUILT};
    while (n > 1 && o->out[n - 1] == '/')
        n--;
    b.out = arena_strndup(&b.memory, o->out, n);
    b.part = arena_printf(&b.memory, "%s.part", b.out);
    source_open_dir(&b.int4, int4_dir);
    bool ok = build_all(&b);
    shards_close(&b.s);
    headers_close(&b.donor);
    provenance_free(&b.p);
    source_close(&b.int4);
    arena_free(&b.memory);
    return ok;
}

void hybrid_report_free(struct hybrid_report *r)
{
    for (int i = 0; i < r->n_files; i++)
        free(r->files[i].name);
    free(r->files);
    *r = (struct hybrid_report){0};
}
