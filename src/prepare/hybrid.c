#include "prepare/hybrid.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "fetch/cache.h"
#include "fetch/fetch.h"
#include "model/config.h"
#include "model/safetensors_write.h"
#include "model/shards.h"
#include "model/weights.h"
#include "prepare/files.h"
#include "prepare/provenance.h"

enum { BLOCK = 128, N_PROJECTIONS = 3, MAX_NAME = 320 };
static const char *const projections[N_PROJECTIONS] = {"gate_proj", "up_proj", "down_proj"};

#define REQUEST_FILE ".request.json"    /* describes the sources of OUT.part */

/* The source of the bytes of a tensor to write. */
struct hybrid_origin {
    struct source *source;
    const char    *file;
    uint64_t       at;
    struct hybrid *b;
};

/* One shared-expert matrix, or its scale. */
struct hybrid_matrix {
    const char          *name;
    struct tensor_out    out;
    struct hybrid_origin origin;
    bool                 scale;
};

struct hybrid_plan_file {
    const char *name;
    bool        small, rewritten;       /* small: not a shard */
};

struct hybrid {
    const struct hybrid_options *o;
    struct hybrid_report *r;
    struct err      *e;
    const char      *dir;               /* of the INT4 checkpoint */
    struct source    int4, *fp8;
    struct model_config c;
    struct shards    s;
    struct headers   donor;
    struct arena     memory;
    struct hybrid_matrix *moved;        /* [2 a matrix]: the matrix, its scale */
    int              n_moved;
    struct hybrid_plan_file *files;
    int              n_files, cap_files;
    struct provenance p;
    char            *out, *part;
    atomic_ullong    n_made;            /* bytes of FP8 */
};

/* Returns the name of a shard, whose path is always DIR/NAME. */
static const char *base_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

static char *copy_or_null(const char *s)
{
    return s ? memory_strdup(s) : NULL;
}

/* Adds a row to the report.  how: "written", "hard link" and the like. */
static void add_to_report(struct hybrid *b, const char *name, uint64_t bytes, const char *how)
{
    struct hybrid_report *r = b->r;
    r->files = memory_resized(r->files, (size_t)(r->n_files + 1) * sizeof *r->files);
    r->files[r->n_files++] = (struct hybrid_file){copy_or_null(name), bytes, how};
}

/* Returns the directory of OUT. */
static const char *parent_of(struct hybrid *b)
{
    const char *slash = strrchr(b->out, '/');
    return !slash ? "." : slash == b->out ? "/" : arena_strndup(&b->memory, b->out, (size_t)(slash - b->out));
}

/* Returns the shard of that name; NULL: the file is not a shard. */
static struct safetensors *find_shard(struct hybrid *b, const char *name)
{
    for (int i = 0; i < b->s.n_files; i++)
        if (!strcmp(base_name(b->s.files[i].path), name))
            return &b->s.files[i];
    return NULL;
}

/* Returns the moved matrix of that name, followed by its scale; NULL: the tensor does not move. */
static struct hybrid_matrix *find_moved(struct hybrid *b, const char *name)
{
    for (int i = 0; i < b->n_moved && strstr(name, ".shared_expert."); i++)
        if (!strcmp(b->moved[i].name, name))
            return &b->moved[i];
    return NULL;
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

/* Finds the matrices that move, checks them, and notes where they are in the donor. */
static bool plan_matrices(struct hybrid *b)
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

/* ---- fingerprints of the sources */

/* Hashes names, files, offsets and dtypes of all tensors, and config.json. */
static bool fingerprint_int4(struct hybrid *b)
{
    struct buf text = {0}, path = {0};
    buf_addf(&path, "%s/config.json", b->dir);
    bool ok = file_read(&text, buf_str(&path), 64 << 20, b->e);
    for (int i = 0; i < b->s.n && ok; i++) {
        const struct shard_tensor *t = &b->s.list[i];
        buf_addf(&text, "%s %s %llu %llu %d\n", t->name, base_name(shards_file(&b->s, t)->path), (unsigned long long)t->t->offset,
                 (unsigned long long)t->t->bytes, (int)t->t->dtype);
    }
    hash_text(buf_str(&text), text.len, b->p.int4.fingerprint);
    buf_free(&path);
    buf_free(&text);
    return ok;
}

/* Hashes names, files and offsets of the matrices, and the bytes of their scales, which are small. */
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

/* Records the sources with fingerprints: two builds with equal ones make the same hybrid. */
static bool plan_provenance(struct hybrid *b)
{
    b->p = (struct provenance){.program = copy_or_null(b->o->program), .layout = copy_or_null(b->o->compact ? "compact" : "linked")};
    b->p.int4 = (struct provenance_origin){.repo = copy_or_null(b->int4.repo), .commit = copy_or_null(b->int4.commit)};
    b->p.fp8 = (struct provenance_origin){.repo = copy_or_null(b->fp8->repo), .commit = copy_or_null(b->fp8->commit)};
    return fingerprint_int4(b) && fingerprint_fp8(b);
}

/* ---- the files of the hybrid */

/* True if the file has a matrix that becomes FP8, or an unused copy. */
static bool must_be_rewritten(struct hybrid *b, int file)
{
    const struct safetensors *f = &b->s.files[file];
    for (int i = 0; i < f->n_tensors; i++) {
        const struct shard_tensor *t = shards_find(&b->s, f->tensors[i].name);
        if (t->t != &f->tensors[i] || find_moved(b, t->name))
            return true;
    }
    return false;
}

static void add_file(struct hybrid *b, const char *name, bool small, bool rewritten)
{
    b->files = arena_grow(&b->memory, b->files, b->n_files, &b->cap_files, sizeof *b->files);
    b->files[b->n_files++] = (struct hybrid_plan_file){arena_strdup(&b->memory, name), small, rewritten};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct hybrid_plan_file *)a)->name, ((const struct hybrid_plan_file *)b)->name);
}

/* Adds configuration, tokenizer, template, licence: all files except shards. */
static bool list_small_files(struct hybrid *b)
{
    DIR *d = opendir(b->dir);
    if (!d)
        return err_set(b->e, "cannot open %s: %s", b->dir, strerror(errno));
    for (struct dirent *ent; (ent = readdir(d));) {
        struct stat st;
        const char *name = ent->d_name;
        if (*name == '.' || text_ends(text_of(name), ".safetensors") || !strcmp(name, INDEX_FILE) || !strcmp(name, PROVENANCE_FILE))
            continue;
        if (!fstatat(dirfd(d), name, &st, 0) && S_ISREG(st.st_mode))
            add_file(b, name, true, false);
    }
    closedir(d);
    return true;
}

/* Lists the files of the hybrid by name, except the file of FP8 matrices. */
static bool plan_files(struct hybrid *b)
{
    for (int i = 0; i < b->s.n_files; i++)
        add_file(b, base_name(b->s.files[i].path), false, b->o->compact && must_be_rewritten(b, i));
    if (!list_small_files(b))
        return false;
    qsort(b->files, (size_t)b->n_files, sizeof *b->files, by_name);
    for (int k = 0; k < b->s.n_files; k++)
        for (int i = 0; i < b->s.files[k].n_tensors; i++) {
            const struct tensor *t = &b->s.files[k].tensors[i];
            if (shards_find(&b->s, t->name)->t != t || find_moved(b, t->name))
                b->r->stale_bytes += t->bytes;
        }
    return true;
}

/* Checks that the disk of OUT has room for the files to write; shards on another disk must be copied. */
static bool plan_space(struct hybrid *b)
{
    struct stat here, there;
    struct statvfs fs;
    const char *parent = parent_of(b);
    if (stat(parent, &there) || statvfs(parent, &fs))
        return err_set(b->e, "cannot make %s: %s: %s", b->out, parent, strerror(errno));
    uint64_t need = b->o->compact ? 0 : b->r->fp8_bytes, room = (uint64_t)fs.f_bavail * fs.f_frsize;
    for (int i = 0; i < b->n_files; i++) {
        struct safetensors *f = find_shard(b, b->files[i].name);
        if (f && (b->files[i].rewritten || (!fstat(f->fd, &here) && here.st_dev != there.st_dev)))
            need += f->size;
    }
    b->r->written_bytes = need;
    if (need + (64 << 20) <= room)
        return true;
    return err_set(b->e, "%s needs %.2f GB, but its disk has %.2f GB free: make room, or give a directory beside %s on the same disk%s", b->out,
                   (double)need * 1e-9, (double)room * 1e-9, b->dir, b->o->compact ? ", or leave --compact out" : "");
}

/* ---- OUT.part */

/* Removes files that are not in the plan, left by an interrupted run; with keep NULL, all files. */
static bool remove_others(struct hybrid *b, const struct hybrid_report *keep)
{
    DIR *d = opendir(b->part);
    bool ok = d || err_set(b->e, "cannot open %s: %s", b->part, strerror(errno));
    for (struct dirent *ent; ok && (ent = readdir(d));) {
        const char *name = ent->d_name;
        bool wanted = !strcmp(name, ".") || !strcmp(name, "..") || (keep && (!strcmp(name, INDEX_FILE) || !strcmp(name, REQUEST_FILE)));
        for (int i = 0; keep && i < keep->n_files && !wanted; i++)
            wanted = !strcmp(keep->files[i].name, name);
        if (!wanted && unlinkat(dirfd(d), name, 0))
            ok = err_set(b->e, "cannot remove %s/%s: %s", b->part, name, strerror(errno));
    }
    if (d)
        closedir(d);
    return ok;
}

/* True if the directory is empty or has only an incomplete request file. */
static bool is_empty(const char *dir)
{
    DIR *d = opendir(dir);
    bool empty = d;
    for (struct dirent *ent; empty && (ent = readdir(d));)
        empty = !strcmp(ent->d_name, ".") || !strcmp(ent->d_name, "..") || !strcmp(ent->d_name, "." REQUEST_FILE ".tmp");
    if (d)
        closedir(d);
    return empty;
}

/* Prepares OUT.part for this request, locked by *lock (-1: not locked).  Files of an earlier run of the same request stay, others are removed. */
static bool start_out(struct hybrid *b, int *lock)
{
    struct buf path = {0}, found = {0}, wanted = {0};
    if (mkdir(b->part, 0755) && errno != EEXIST)
        return err_set(b->e, "cannot make %s: %s", b->part, strerror(errno));
    *lock = open(b->part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0 || flock(*lock, LOCK_EX | LOCK_NB))
        return err_set(b->e, "cannot use %s: %s", b->part, errno == EWOULDBLOCK ? "another q35chat is building there" : strerror(errno));
    buf_addf(&path, "%s/" REQUEST_FILE, b->part);
    provenance_print(&b->p, &wanted);
    bool ok, there = file_read(&found, buf_str(&path), 1 << 20, NULL);
    if (there && found.len == wanted.len && !memcmp(found.data, wanted.data, found.len))
        ok = true;
    else if (!there && !is_empty(b->part))
        ok = err_set(b->e, "%s exists and is not an unfinished hybrid: remove it, or choose another --out", b->part);
    else
        ok = remove_others(b, NULL) && index_write_text(b->part, REQUEST_FILE, buf_str(&wanted), wanted.len, b->e)
             && place_sync_dir(b->part, b->e);
    buf_free(&path);
    buf_free(&found);
    buf_free(&wanted);
    return ok;
}

static void drop_request(const char *dir)
{
    struct buf path = {0};
    buf_addf(&path, "%s/" REQUEST_FILE, dir);
    unlink(buf_str(&path));
    buf_free(&path);
}

/* Renames OUT.part to OUT. */
static bool finish_out(struct hybrid *b)
{
    const char *parent = parent_of(b);
    if (!place_sync_dir(b->part, b->e))
        return false;
    if (rename(b->part, b->out))
        return err_set(b->e, "cannot rename %s to %s: %s", b->part, b->out, strerror(errno));
    drop_request(b->out);
    return place_sync_dir(parent, b->e);
}

/* ---- OUT */

static bool files_are_there(struct hybrid *b, const struct provenance *p)
{
    for (int i = 0; i < p->n_files; i++) {
        struct stat st;
        const char *path = arena_printf(&b->memory, "%s/%s", b->out, p->files[i].name);
        if (stat(path, &st))
            return err_set(b->e, "%s was built before, but %s is gone: remove the directory and build again", b->out, p->files[i].name);
        if ((uint64_t)st.st_size != p->files[i].bytes)
            return err_set(b->e, "%s was built before, but %s has %llu bytes, expected %llu: remove the directory and build again", b->out,
                           p->files[i].name, (unsigned long long)st.st_size, (unsigned long long)p->files[i].bytes);
        add_to_report(b, p->files[i].name, p->files[i].bytes, placing_names[PLACED_ALREADY]);
    }
    return true;
}

/* Finds out whether OUT is this hybrid already, or something that must stay; then b->e has the reason. */
enum hybrid_found { HYBRID_NOTHING, HYBRID_FINISHED, HYBRID_IN_THE_WAY };
static enum hybrid_found find_out(struct hybrid *b)
{
    struct provenance p;
    struct stat st;
    bool there;
    enum hybrid_found found = HYBRID_IN_THE_WAY;
    if (lstat(b->out, &st) || (S_ISDIR(st.st_mode) && is_empty(b->out)))
        return HYBRID_NOTHING;
    if (!S_ISDIR(st.st_mode)) {
        err_set(b->e, "%s exists and is not a directory: choose another --out", b->out);
        return HYBRID_IN_THE_WAY;
    }
    if (!provenance_read(&p, b->out, &there, b->e)) {
        if (!there)
            err_set(b->e, "%s is there and holds no " PROVENANCE_FILE ", so q35chat did not build it: choose another --out", b->out);
    } else if (!provenance_same_sources(&p, &b->p)) {
        bool other = strcmp(p.layout, b->p.layout);
        err_set(b->e, "%s holds a hybrid that was built %s: remove it, or choose another --out", b->out,
                !other ? "from other checkpoints" : b->o->compact ? "without --compact" : "with --compact");
    } else if (files_are_there(b, &p)) {
        drop_request(b->out);
        found = HYBRID_FINISHED;
    }
    provenance_free(&p);
    return found;
}

/* ---- the files */

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
        add_to_report(b, name, f.bytes, "written");
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
        struct hybrid_matrix *m = find_moved(b, t->name);
        if (shards_find(&b->s, t->name)->t != t)
            continue;
        if (m) {
            list[n++] = &m[0].out;
            list[n++] = &m[1].out;
            continue;
        }
        ok = dtype_bytes(t->dtype) || err_set(b->e, "%s: tensor %s has a dtype that q35chat cannot write: leave --compact out", f->path, t->name);
        origins[i] = (struct hybrid_origin){&b->int4, base_name(f->path), t->offset, b};
        copies[i] = (struct tensor_out){.name = t->name, .dtype = t->dtype, .n_dims = t->n_dims, .source = &origins[i]};
        memcpy(copies[i].shape, t->shape, sizeof t->shape);
        list[n++] = &copies[i];
    }
    ok = ok && write_file(b, base_name(f->path), list, n);
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
        add_to_report(b, p->name, stat(buf_str(&to), &st) ? 0 : (uint64_t)st.st_size, placing_names[how]);
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
        const struct hybrid_matrix *m = find_moved(b, t->name);
        const char *file = base_name(shards_file(&b->s, t)->path);
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

/* ---- the record */

/* Records hashes of the moved tensors, read back from the disk. */
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

/* Records hashes of written and small files, and of shards with a hash in the Hugging Face cache; of other files only with --hash. */
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
        const struct safetensors *shard = find_shard(b, r->files[i].name);
        bool linked = shard && (!r->files[i].how || strcmp(r->files[i].how, "written"));
        const struct fetch_file *f = linked ? fetch_find(&cached, r->files[i].name) : NULL;
        if (f && f->lfs)
            snprintf(known[i], DIGEST_HEX, "%s", f->hash);
        if (!*known[i] && (!linked || b->o->hash))
            jobs[n++] = (struct hash_job){.path = arena_printf(&b->memory, "%s/%s", b->part, r->files[i].name), .bytes = UINT64_MAX};
    }
    bool ok = hash_jobs(jobs, n, NULL, b->e);
    for (int i = 0, k = 0; i < r->n_files && ok; i++) {
        if (k < n && !strcmp(base_name(jobs[k].path), r->files[i].name))
            snprintf(known[i], DIGEST_HEX, "%s", jobs[k++].hex);
        provenance_add_file(&b->p, r->files[i].name, r->files[i].bytes, known[i]);
    }
    fetch_repo_free(&cached);
    free(known);
    free(jobs);
    return ok;
}

static bool write_provenance(struct hybrid *b)
{
    struct buf text = {0};
    provenance_print(&b->p, &text);
    bool ok = index_write_text(b->part, PROVENANCE_FILE, buf_str(&text), text.len, b->e);
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
    bool ok = start_out(b, &lock);
    for (int i = 0; i < b->n_files && ok; i++)
        ok = b->files[i].rewritten ? rewrite_shard(b, find_shard(b, b->files[i].name)) : put_file(b, &b->files[i]);
    ok = ok && (b->o->compact || write_fp8_file(b)) && write_index(b) && remove_others(b, b->r) && check_made(b) && record_files(b)
        && write_provenance(b) && finish_out(b);
    if (lock >= 0)
        close(lock);
    return ok;
}

static void report_plan(struct hybrid *b)
{
    for (int i = 0; i < b->n_files; i++) {
        const struct safetensors *f = find_shard(b, b->files[i].name);
        struct stat st;
        const char *path = arena_printf(&b->memory, "%s/%s", b->dir, b->files[i].name);
        add_to_report(b, b->files[i].name, f ? f->size : stat(path, &st) ? 0 : (uint64_t)st.st_size,
                    b->files[i].rewritten ? "to be written" : b->files[i].small ? "to be copied" : "to be linked");
    }
    if (!b->o->compact)
        add_to_report(b, HYBRID_FP8_FILE, b->r->fp8_bytes, "to be written");
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
    if (!open_all(b) || !plan_matrices(b) || !plan_provenance(b))
        return false;
    switch (find_out(b)) {
    case HYBRID_IN_THE_WAY:
        return false;
    case HYBRID_FINISHED:
        b->r->state = HYBRID_THERE;
        return true;
    case HYBRID_NOTHING:
        break;
    }
    if (!plan_files(b) || !plan_space(b))
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
