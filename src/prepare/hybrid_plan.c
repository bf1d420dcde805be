#include "prepare/hybrid_build.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/err.h"
#include "base/file.h"
#include "base/memory.h"
#include "prepare/hash.h"

enum { BLOCK = 128, N_PROJECTIONS = 3, MAX_NAME = 320 };
static const char *const projections[N_PROJECTIONS] = {"gate_proj", "up_proj", "down_proj"};

const char *hybrid_base_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

char *hybrid_copied(const char *s)
{
    return s ? memory_strdup(s) : NULL;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

/* ---- which matrices move */

static bool refuse_format(struct hybrid *b, const struct shard_tensor *t, const char *what)
{
    return err_set(b->e, "%s: tensor %s: the shared expert is %s, expected 16 bits: this is not the INT4 checkpoint that a hybrid is made from",
                   shards_file(&b->s, t)->path, t->name, what);
}

/* Checks that the donor's tensors of one matrix fit the INT4 checkpoint. */
static bool check_donor(struct hybrid *b, const struct tensor *old, const char *file, const struct tensor *w, const char *scale_file,
                        const struct tensor *s)
{
    uint64_t rows = old->shape[0], cols = old->shape[1], across = (cols + BLOCK - 1) / BLOCK, down = (rows + BLOCK - 1) / BLOCK;
    const char *dir = b->fp8->name;
    if (w->dtype != DT_F8_E4M3 || w->n_dims != 2 || w->shape[0] != rows || w->shape[1] != cols)
        return err_set(b->e, "%s/%s: tensor %s is %s of %d dimensions [%llu, %llu], expected F8_E4M3 [%llu, %llu] as in %s", dir, file, w->name,
                       dtype_name(w->dtype), w->n_dims, (unsigned long long)w->shape[0], (unsigned long long)w->shape[1],
                       (unsigned long long)rows, (unsigned long long)cols, b->dir);
    if ((s->dtype != DT_F32 && s->dtype != DT_BF16 && s->dtype != DT_F16) || s->n_dims != 2 || s->shape[0] != down || s->shape[1] != across)
        return err_set(b->e, "%s/%s: tensor %s is %s of %d dimensions [%llu, %llu], expected F32 or BF16 [%llu, %llu]", dir, scale_file, s->name,
                       dtype_name(s->dtype), s->n_dims, (unsigned long long)s->shape[0], (unsigned long long)s->shape[1],
                       (unsigned long long)down, (unsigned long long)across);
    return true;
}

static void add_moved(struct hybrid *b, const char *name, const struct tensor *t, const char *file, bool scale)
{
    struct hybrid_matrix *m = &b->moved[b->n_moved++];
    m->name = arena_strdup(&b->memory, name);
    m->scale = scale;
    m->origin = (struct hybrid_origin){b->fp8, file, t->offset, b};
    m->out = (struct tensor_out){.name = m->name, .dtype = t->dtype, .n_dims = t->n_dims, .source = &m->origin};
    memcpy(m->out.shape, t->shape, sizeof m->out.shape);
    b->r->fp8_bytes += t->bytes;
}

static bool add_matrix(struct hybrid *b, const char *prefix, const char *donor_prefix, int layer, const char *projection)
{
    char name[MAX_NAME], at[MAX_NAME], stem[200];
    const char *file, *scale_file;
    snprintf(stem, sizeof stem, "layers.%d.mlp.shared_expert.%s", layer, projection);
    snprintf(name, sizeof name, "%s%s.weight", prefix, stem);
    const struct shard_tensor *old = shards_find(&b->s, name);
    CHECK(old || !"weights_open() has seen it");
    snprintf(at, sizeof at, "%s%s.weight", donor_prefix, stem);
    const struct tensor *w = headers_find(&b->donor, at, &file, b->e);
    if (!w)
        return false;
    snprintf(at, sizeof at, "%s%s.weight_scale_inv", donor_prefix, stem);
    const struct tensor *s = headers_find(&b->donor, at, &scale_file, b->e);
    if (!s || !check_donor(b, old->t, file, w, scale_file, s))
        return false;
    add_moved(b, name, w, file, false);
    snprintf(name, sizeof name, "%s%s.weight_scale_inv", prefix, stem);
    add_moved(b, name, s, scale_file, true);
    b->r->n_matrices++;
    return true;
}

static bool is_still_16_bit(struct hybrid *b, const char *prefix)
{
    char name[MAX_NAME];
    for (int l = 0; l < b->c.n_layers; l++)
        for (int i = 0; i < N_PROJECTIONS; i++) {
            const struct shard_tensor *t;
            snprintf(name, sizeof name, "%slayers.%d.mlp.shared_expert.%s.weight_scale_inv", prefix, l, projections[i]);
            if ((t = shards_find(&b->s, name)))
                return refuse_format(b, t, "FP8 already");
            snprintf(name, sizeof name, "%slayers.%d.mlp.shared_expert.%s.qweight", prefix, l, projections[i]);
            if ((t = shards_find(&b->s, name)))
                return refuse_format(b, t, "INT4");
        }
    return true;
}

bool hybrid_plan_matrices(struct hybrid *b)
{
    static const char *const prefixes[] = {"model.language_model.", "model."};
    const char *prefix = prefixes[shards_find(&b->s, "model.embed_tokens.weight") ? 1 : 0];
    char name[MAX_NAME];
    snprintf(name, sizeof name, "%slayers.0.mlp.shared_expert.gate_proj.weight", prefixes[0]);
    const char *donor_prefix = prefixes[b->donor.index && !headers_list(&b->donor, name) ? 1 : 0];
    b->moved = arena_array(&b->memory, (size_t)b->c.n_layers * N_PROJECTIONS * 2, sizeof *b->moved);
    if (!is_still_16_bit(b, prefix))
        return false;
    for (int l = 0; l < b->c.n_layers; l++)
        for (int i = 0; i < N_PROJECTIONS; i++)
            if (!add_matrix(b, prefix, donor_prefix, l, projections[i]))
                return false;
    return true;
}

struct hybrid_matrix *hybrid_moved(struct hybrid *b, const char *name)
{
    for (int i = 0; i < b->n_moved && strstr(name, ".shared_expert."); i++)
        if (!strcmp(b->moved[i].name, name))
            return &b->moved[i];
    return NULL;
}

/* ---- fingerprints of the sources */

/* Names, files, offsets and dtypes of all tensors, and config.json. */
static bool fingerprint_int4(struct hybrid *b)
{
    struct buf text = {0}, path = {0};
    buf_addf(&path, "%s/config.json", b->dir);
    bool ok = file_read(&text, buf_str(&path), 64 << 20, b->e);
    for (int i = 0; i < b->s.n && ok; i++) {
        const struct shard_tensor *t = &b->s.list[i];
        buf_addf(&text, "%s %s %llu %llu %d\n", t->name, hybrid_base_name(shards_file(&b->s, t)->path), (unsigned long long)t->t->offset,
                 (unsigned long long)t->t->bytes, (int)t->t->dtype);
    }
    hash_text(buf_str(&text), text.len, b->p.int4.fingerprint);
    buf_free(&path);
    buf_free(&text);
    return ok;
}

/* Names, files and offsets of the matrices, and the bytes of their scales, which are small. */
static bool fingerprint_fp8(struct hybrid *b)
{
    struct buf text = {0};
    bool ok = true;
    for (int i = 0; i < b->n_moved && ok; i++) {
        const struct hybrid_matrix *m = &b->moved[i];
        uint64_t n = tensor_out_bytes(&m->out);
        buf_addf(&text, "%s %s %llu %llu\n", m->name, m->origin.file, (unsigned long long)m->origin.at, (unsigned long long)n);
        if (!m->scale)
            continue;
        buf_reserve(&text, n);
        ok = source_read(b->fp8, m->origin.file, m->origin.at, n, text.data + text.len, b->e);
        text.len += ok ? n : 0;
    }
    hash_text(buf_str(&text), text.len, b->p.fp8.fingerprint);
    buf_free(&text);
    return ok;
}

bool hybrid_plan_provenance(struct hybrid *b)
{
    b->p = (struct provenance){.program = hybrid_copied(b->o->program), .layout = hybrid_copied(b->o->compact ? "compact" : "linked")};
    b->p.int4 = (struct provenance_origin){.repo = hybrid_copied(b->int4.repo), .commit = hybrid_copied(b->int4.commit)};
    b->p.fp8 = (struct provenance_origin){.repo = hybrid_copied(b->fp8->repo), .commit = hybrid_copied(b->fp8->commit)};
    return fingerprint_int4(b) && fingerprint_fp8(b);
}

/* ---- the files of the hybrid */

/* Does the file have a matrix that becomes FP8, or an unused copy? */
static bool must_be_rewritten(struct hybrid *b, int file)
{
    const struct safetensors *f = &b->s.files[file];
    for (int i = 0; i < f->n_tensors; i++) {
        const struct shard_tensor *t = shards_find(&b->s, f->tensors[i].name);
        if (t->t != &f->tensors[i] || hybrid_moved(b, t->name))
            return true;
    }
    return false;
}

static void count_stale(struct hybrid *b)
{
    for (int k = 0; k < b->s.n_files; k++)
        for (int i = 0; i < b->s.files[k].n_tensors; i++) {
            const struct tensor *t = &b->s.files[k].tensors[i];
            if (shards_find(&b->s, t->name)->t != t || hybrid_moved(b, t->name))
                b->r->stale_bytes += t->bytes;
        }
}

static void add_file(struct hybrid *b, const char *name, bool small, bool rewritten)
{
    if (b->n_files % 64 == 0) {
        struct hybrid_plan_file *more = arena_array(&b->memory, (size_t)b->n_files + 64, sizeof *more);
        if (b->n_files)
            memcpy(more, b->files, (size_t)b->n_files * sizeof *more);
        b->files = more;
    }
    b->files[b->n_files++] = (struct hybrid_plan_file){arena_strdup(&b->memory, name), small, rewritten};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct hybrid_plan_file *)a)->name, ((const struct hybrid_plan_file *)b)->name);
}

/* Configuration, tokenizer, template, licence: all files beside the shards. */
static bool list_small_files(struct hybrid *b)
{
    DIR *d = opendir(b->dir);
    if (!d)
        return err_set(b->e, "cannot open %s: %s", b->dir, strerror(errno));
    for (struct dirent *ent; (ent = readdir(d));) {
        struct stat st;
        const char *name = ent->d_name;
        if (*name == '.' || ends_with(name, ".safetensors") || !strcmp(name, INDEX_FILE) || !strcmp(name, PROVENANCE_FILE))
            continue;
        if (!fstatat(dirfd(d), name, &st, 0) && S_ISREG(st.st_mode))
            add_file(b, name, true, false);
    }
    closedir(d);
    return true;
}

bool hybrid_plan_files(struct hybrid *b)
{
    for (int i = 0; i < b->s.n_files; i++)
        add_file(b, hybrid_base_name(b->s.files[i].path), false, b->o->compact && must_be_rewritten(b, i));
    if (!list_small_files(b))
        return false;
    qsort(b->files, (size_t)b->n_files, sizeof *b->files, by_name);
    count_stale(b);
    return true;
}

struct safetensors *hybrid_shard(struct hybrid *b, const char *name)
{
    for (int i = 0; i < b->s.n_files; i++)
        if (!strcmp(hybrid_base_name(b->s.files[i].path), name))
            return &b->s.files[i];
    return NULL;
}

void hybrid_report_add(struct hybrid *b, const char *name, uint64_t bytes, const char *how)
{
    struct hybrid_report *r = b->r;
    r->files = memory_resized(r->files, (size_t)(r->n_files + 1) * sizeof *r->files);
    r->files[r->n_files++] = (struct hybrid_file){hybrid_copied(name), bytes, how};
}

const char *hybrid_parent(struct hybrid *b)
{
    const char *slash = strrchr(b->out, '/');
    return !slash ? "." : slash == b->out ? "/" : arena_strndup(&b->memory, b->out, (size_t)(slash - b->out));
}

bool hybrid_plan_space(struct hybrid *b)
{
    struct stat here, there;
    struct statvfs fs;
    const char *parent = hybrid_parent(b);
    if (stat(parent, &there) || statvfs(parent, &fs))
        return err_set(b->e, "cannot make %s: %s: %s", b->out, parent, strerror(errno));
    uint64_t need = b->o->compact ? 0 : b->r->fp8_bytes, room = (uint64_t)fs.f_bavail * fs.f_frsize;
    for (int i = 0; i < b->n_files; i++) {
        struct safetensors *f = hybrid_shard(b, b->files[i].name);
        if (f && (b->files[i].rewritten || (!fstat(f->fd, &here) && here.st_dev != there.st_dev)))
            need += f->size;
    }
    b->r->written_bytes = need;
    if (need + (64 << 20) <= room)
        return true;
    return err_set(b->e, "%s needs %.2f GB, but its disk has %.2f GB free: make room, or give a directory beside %s on the same disk%s", b->out,
                   (double)need * 1e-9, (double)room * 1e-9, b->dir, b->o->compact ? ", or leave --compact out" : "");
}
