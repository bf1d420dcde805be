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

enum { BLOCK = 128, MAX_NAME = 320 };

/* The modules of a layer whose matrices come from the FP8 release. */
static const struct {
    const char *name;
    enum { EVERY_LAYER, FULL_ATTENTION, DELTANET } layers;
    bool        quality;                /* only with --quality */
} modules[] = {
    {"mlp.shared_expert.gate_proj", EVERY_LAYER,    false},
    {"mlp.shared_expert.up_proj",   EVERY_LAYER,    false},
    {"mlp.shared_expert.down_proj", EVERY_LAYER,    false},
    {"self_attn.q_proj",            FULL_ATTENTION, true},
    {"self_attn.k_proj",            FULL_ATTENTION, true},
    {"self_attn.v_proj",            FULL_ATTENTION, true},
    {"self_attn.o_proj",            FULL_ATTENTION, true},
    {"linear_attn.out_proj",        DELTANET,       true},
};
enum { N_MODULES = sizeof modules / sizeof *modules };

static const char *const fp8_files[2] = {HYBRID_FP8_FILE, HYBRID_QUALITY_FILE};                /* [quality] */

#define REQUEST_FILE ".request.json"    /* describes the sources of OUT.part */

/* The source of the bytes of a tensor to write. */
struct hybrid_origin {
    struct source *source;
    const char    *file;
    uint64_t       at;
    struct hybrid *b;
};

/* One matrix of the FP8 release and its scale. */
struct hybrid_matrix {
    const char          *stem;          /* what the names of its tensors in the INT4 checkpoint begin with */
    bool                 quality;
    struct tensor_out    part[2];       /* STEM.weight, STEM.weight_scale_inv */
    struct hybrid_origin origin[2];
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
    struct hybrid_matrix *moved;
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

/* Adds a row to the report.  how: "written", "hard link" and the like. */
static void add_to_report(struct hybrid *b, const char *name, uint64_t bytes, const char *how)
{
    struct hybrid_report *r = b->r;
    r->files = memory_resized(r->files, (size_t)(r->n_files + 1) * sizeof *r->files);
    r->files[r->n_files++] = (struct hybrid_file){memory_strdup(name), bytes, how};
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

/* Returns the matrix that takes the place of the tensor of that name in the INT4 checkpoint; NULL: the tensor stays.  *first (may be NULL) is true
 * for one of the old matrix's tensors. */
static struct hybrid_matrix *find_moved(struct hybrid *b, const char *name, bool *first)
{
    static const char *const parts[] = {"weight", "qweight", "qzeros", "scales", "g_idx"};
    const char *dot = strrchr(name, '.');
    int part = 0, n_parts = sizeof parts / sizeof *parts;
    while (dot && part < n_parts && strcmp(dot + 1, parts[part]))
        part++;
    if (!dot || part == n_parts || strstr(name, ".experts."))
        return NULL;
    for (int i = 0; i < b->n_moved; i++)
        if (!strncmp(b->moved[i].stem, name, (size_t)(dot - name)) && !b->moved[i].stem[dot - name]) {
            if (first)
                *first = part <= 1;
            return &b->moved[i];
        }
    return NULL;
}

/* ---- which matrices move */

/* Finds the matrix in the INT4 checkpoint and its shape.  False with the reason: it is FP8 already, or a shared expert that is not in 16 bits. */
static bool find_old(struct hybrid *b, const char *stem, bool quality, uint64_t *rows, uint64_t *cols)
{
    char name[MAX_NAME];
    snprintf(name, sizeof name, "%s.weight", stem);
    const struct shard_tensor *t = shards_find(&b->s, name);
    snprintf(name, sizeof name, "%s.weight_scale_inv", stem);
    const struct shard_tensor *scale = shards_find(&b->s, name);
    if (!t) {
        snprintf(name, sizeof name, "%s.qweight", stem);
        t = shards_find(&b->s, name);
        CHECK(t || !"weights_open() has seen it");
        *rows = t->t->shape[1], *cols = t->t->shape[0] * 8;
    } else
        *rows = t->t->shape[0], *cols = t->t->shape[1];
    const char *found = scale ? "FP8 already" : !quality && text_ends(text_of(t->name), ".qweight") ? "INT4" : NULL;
    if (!found)
        return true;
    t = scale ? scale : t;
    return err_set(b->e, "%s: tensor %s: the matrix is %s, expected %s: this is not the INT4 checkpoint that a hybrid is made from",
                   shards_file(&b->s, t)->path, t->name, found, quality ? "INT4 or 16 bits" : "16 bits");
}

/* Checks that the donor's tensors of one matrix fit the INT4 checkpoint. */
static bool check_donor(struct hybrid *b, uint64_t rows, uint64_t cols, const char *file, const struct tensor *w, const char *scale_file,
                        const struct tensor *s)
{
    uint64_t across = (cols + BLOCK - 1) / BLOCK, down = (rows + BLOCK - 1) / BLOCK;
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

/* Adds the matrix of a module of one layer, whose tensors the donor names with another prefix. */
static bool add_matrix(struct hybrid *b, const char *prefix, const char *donor_prefix, int layer, int module)
{
    static const char *const endings[2] = {"weight", "weight_scale_inv"};
    const struct tensor *t[2];
    const char *file[2];
    uint64_t rows, cols;
    char name[MAX_NAME];
    struct hybrid_matrix *m = &b->moved[b->n_moved];
    m->stem = arena_printf(&b->memory, "%slayers.%d.%s", prefix, layer, modules[module].name);
    m->quality = modules[module].quality;
    if (!find_old(b, m->stem, m->quality, &rows, &cols))
        return false;
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%slayers.%d.%s.%s", donor_prefix, layer, modules[module].name, endings[i]);
        if (!(t[i] = headers_find(&b->donor, name, &file[i], b->e)))
            return false;
    }
    if (!check_donor(b, rows, cols, file[0], t[0], file[1], t[1]))
        return false;
    for (int i = 0; i < 2; i++) {
        m->origin[i] = (struct hybrid_origin){b->fp8, file[i], t[i]->offset, b};
        m->part[i] = (struct tensor_out){.name = arena_printf(&b->memory, "%s.%s", m->stem, endings[i]), .dtype = t[i]->dtype, .n_dims = t[i]->n_dims,
                                         .source = &m->origin[i]};
        memcpy(m->part[i].shape, t[i]->shape, sizeof t[i]->shape);
        b->r->fp8_bytes += t[i]->bytes;
    }
    b->n_moved++;
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
    b->moved = arena_array(&b->memory, (size_t)b->c.n_layers * N_MODULES, sizeof *b->moved);
    for (int l = 0; l < b->c.n_layers; l++)
        for (int i = 0; i < N_MODULES; i++)
            if ((!modules[i].quality || b->o->quality) && modules[i].layers != (b->c.full[l] ? DELTANET : FULL_ATTENTION)
                && !add_matrix(b, prefix, donor_prefix, l, i))
                return false;
    b->r->n_matrices = b->n_moved;
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
    for (int i = 0; i < b->n_moved * 2 && ok; i++) {
        const struct tensor_out *t = &b->moved[i / 2].part[i % 2];
        const struct hybrid_origin *o = &b->moved[i / 2].origin[i % 2];
        const uint64_t n = tensor_out_bytes(t);
        buf_addf(&text, "%s %s %llu %llu\n", t->name, o->file, (unsigned long long)o->at, (unsigned long long)n);
        if (i % 2 == 0)                 /* the matrix itself */
            continue;
        buf_reserve(&text, n);
        ok = source_read(b->fp8, o->file, o->at, n, text.data + text.len, b->e);
        text.len += ok ? n : 0;
    }
    hash_text(buf_str(&text), text.len, b->p.fp8.fingerprint);
    buf_free(&text);
    return ok;
}

/* Records the sources with fingerprints: two builds with equal ones make the same hybrid. */
static bool plan_provenance(struct hybrid *b)
{
    static const char *const layouts[2][2] = {{"linked", "linked quality"}, {"compact", "compact quality"}};
    b->p = (struct provenance){.program = memory_strdup(b->o->program), .layout = memory_strdup(layouts[b->o->compact][b->o->quality])};
    b->p.int4 = (struct provenance_origin){.repo = memory_strdup(b->int4.repo), .commit = memory_strdup(b->int4.commit)};
    b->p.fp8 = (struct provenance_origin){.repo = memory_strdup(b->fp8->repo), .commit = memory_strdup(b->fp8->commit)};
    return fingerprint_int4(b) && fingerprint_fp8(b);
}

/* ---- the files of the hybrid */

/* True if the file has a matrix that becomes FP8, or an unused copy. */
static bool must_be_rewritten(struct hybrid *b, int file)
{
    const struct safetensors *f = &b->s.files[file];
    for (int i = 0; i < f->n_tensors; i++) {
        const struct shard_tensor *t = shards_find(&b->s, f->tensors[i].name);
        if (t->t != &f->tensors[i] || find_moved(b, t->name, NULL))
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
            if (shards_find(&b->s, t->name)->t != t || find_moved(b, t->name, NULL))
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

/* Checks that the files of a finished build still have their sizes, and reports them. */
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
        err_set(b->e, "%s holds a hybrid that was built %s (%s; now %s): remove it, or choose another --out", b->out,
                strcmp(p.layout, b->p.layout) ? "with other options" : "from other checkpoints", p.layout, b->p.layout);
    } else if (files_are_there(b, &p)) {
        drop_request(b->out);
        found = HYBRID_FINISHED;
    }
    provenance_free(&p);
    return found;
}

/* ---- the files */

/* Reads bytes of a tensor from its source and reports progress of the FP8 download. */
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

/* Writes the matrices of the shared experts, or those of the others, and their scales. */
static bool write_fp8_file(struct hybrid *b, bool quality)
{
    struct tensor_out **list = memory_alloc((size_t)b->n_moved * 2 * sizeof(*list));
    int n = 0;
    for (int i = 0; i < b->n_moved * 2; i++)
        if (b->moved[i / 2].quality == quality)
            list[n++] = &b->moved[i / 2].part[i % 2];
    bool ok = write_file(b, fp8_files[quality], list, n);
    free(list);
    return ok;
}

/* Writes a shard in its old order, without unused copies, with FP8 matrices and their scales in place of the old ones. */
static bool rewrite_shard(struct hybrid *b, struct safetensors *f)
{
    struct tensor_out **list = memory_alloc(((size_t)f->n_tensors * 2 + 1) * sizeof(*list)),
        *copies = memory_zeroed((size_t)f->n_tensors + 1, sizeof *copies);
    struct hybrid_origin *origins = memory_zeroed((size_t)f->n_tensors + 1, sizeof *origins);
    bool ok = true;
    int n = 0;
    for (int i = 0; i < f->n_tensors && ok; i++) {
        const struct tensor *t = &f->tensors[i];
        bool first;
        struct hybrid_matrix *m = find_moved(b, t->name, &first);
        if (shards_find(&b->s, t->name)->t != t)
            continue;
        if (m) {
            for (int k = 0; k < 2 && first; k++)
                list[n++] = &m->part[k];
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

/* Copies or links a file that the build does not change. */
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

/* Writes the index of the build: tensors that stay, and in place of moved ones their FP8 parts. */
static bool write_index(struct hybrid *b)
{
    struct index_entry *list = memory_alloc(((size_t)b->s.n + (size_t)b->n_moved) * sizeof *list);
    int n = 0;
    for (int i = 0; i < b->s.n; i++) {
        const struct shard_tensor *t = &b->s.list[i];
        bool first;
        const struct hybrid_matrix *m = find_moved(b, t->name, &first);
        const char *file = base_name(shards_file(&b->s, t)->path);
        if (!m)
            list[n++] = (struct index_entry){t->name, file, t->t->bytes};
        for (int k = 0; k < 2 && m && first; k++)
            list[n++] = (struct index_entry){m->part[k].name, b->o->compact ? file : fp8_files[m->quality], tensor_out_bytes(&m->part[k])};
    }
    bool ok = index_write(b->part, list, n, b->e);
    free(list);
    return ok;
}

/* ---- the record */

/* Records hashes of the moved tensors, read back from the disk. */
static bool record_tensors(struct hybrid *b, const struct shards *made)
{
    const int n = 2 * b->n_moved;
    struct hash_job *jobs = memory_zeroed((size_t)n, sizeof *jobs);
    for (int i = 0; i < n; i++) {
        const struct shard_tensor *t = shards_find(made, b->moved[i / 2].part[i % 2].name);
        CHECK(t);                       /* the index has just been written */
        jobs[i] = (struct hash_job){.path = shards_file(made, t)->path, .at = t->t->offset, .bytes = t->t->bytes};
    }
    bool ok = hash_jobs(jobs, n, NULL, b->e);
    for (int i = 0; i < n && ok; i++)
        provenance_add_tensor(&b->p, b->moved[i / 2].part[i % 2].name, jobs[i].bytes, jobs[i].hex);
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

/* Builds the checkpoint in a folder of its own, which gets its name when everything is checked. */
static bool build(struct hybrid *b)
{
    int lock = -1;
    bool ok = start_out(b, &lock);
    for (int i = 0; i < b->n_files && ok; i++)
        ok = b->files[i].rewritten ? rewrite_shard(b, find_shard(b, b->files[i].name)) : put_file(b, &b->files[i]);
    for (int quality = 0; quality <= b->o->quality && ok && !b->o->compact; quality++)
        ok = write_fp8_file(b, quality);
    ok = ok && write_index(b) && remove_others(b, b->r) && check_made(b) && record_files(b)
        && write_provenance(b) && finish_out(b);
    if (lock >= 0)
        close(lock);
    return ok;
}

/* Reports what a build would write, copy and link. */
static void report_plan(struct hybrid *b)
{
    for (int i = 0; i < b->n_files; i++) {
        const struct safetensors *f = find_shard(b, b->files[i].name);
        struct stat st;
        const char *path = arena_printf(&b->memory, "%s/%s", b->dir, b->files[i].name);
        add_to_report(b, b->files[i].name, f ? f->size : stat(path, &st) ? 0 : (uint64_t)st.st_size,
                    b->files[i].rewritten ? "to be written" : b->files[i].small ? "to be copied" : "to be linked");
    }
    for (int quality = 0; quality <= b->o->quality && !b->o->compact; quality++) {
        uint64_t bytes = 0;
        for (int i = 0; i < b->n_moved * 2; i++)
            bytes += b->moved[i / 2].quality == quality ? tensor_out_bytes(&b->moved[i / 2].part[i % 2]) : 0;
        add_to_report(b, fp8_files[quality], bytes, "to be written");
    }
}

static bool open_all(struct hybrid *b)
{
    struct weights w = {0};
    bool ok = config_load(&b->c, b->dir, b->e) && weights_open(&w, &b->c, b->dir, b->e);
    weights_close(&w);                  /* this checked that every tensor exists with its shape */
    return ok && shards_open(&b->s, b->dir, b->e) && headers_open(&b->donor, b->fp8, b->e);
}

/* Plans the build and makes it, unless it is there already or only the plan is wanted. */
static bool build_all(struct hybrid *b)
{
    if (!open_all(b) || !plan_matrices(b) || !plan_provenance(b))
        return false;
    switch (find_out(b)) {
    case HYBRID_IN_THE_WAY: return false;
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
