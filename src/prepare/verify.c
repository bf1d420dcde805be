#include "prepare/verify.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "fetch/cache.h"
#include "fetch/fetch.h"
#include "kernels/number.h"
#include "model/weights.h"
#include "prepare/files.h"
#include "prepare/provenance.h"
#include "prepare/scan.h"
#include "prepare/source.h"

enum { MAX_INDEX = 128 << 20, MAX_NAME = 320 };
enum { SPOT = 512, N_SPOTS = 5, RUN = 4096, SAME_BYTES = 256, BLOCK = 128 };       /* of values that are checked */
enum { FAULT = 1, NOTE = 0 };
#define AGAIN "fetch it again"
#define FETCH_FILE "fetch this file again"

/* ---- findings */

/* Adds a finding; its file and tensor are copied.  `expected` and `remedy` are constants, or in the memory of the report. */
__attribute__((format(printf, 3, 4)))
static void add_finding(struct verify_report *r, struct finding f, const char *found, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, found);
    vsnprintf(text, sizeof text, found, ap);
    va_end(ap);
    f.found = arena_strdup(&r->memory, text);
    f.file = f.file ? arena_strdup(&r->memory, f.file) : NULL;
    f.tensor = f.tensor ? arena_strdup(&r->memory, f.tensor) : NULL;
    r->list = memory_grow(r->list, r->n, &r->cap, sizeof *r->list);
    r->list[r->n++] = f;
    r->n_faults += f.fault;
}

void verify_sentence(const struct finding *f, struct buf *out)
{
    buf_addf(out, "%s  ", f->fault ? "FAULT" : "note ");
    if (f->file)
        buf_addf(out, "%s: ", f->file);
    if (f->tensor)
        buf_addf(out, "tensor %s: ", f->tensor);
    buf_adds(out, f->found);
    if (f->expected)
        buf_addf(out, ", expected %s", f->expected);
    if (f->remedy)
        buf_addf(out, ": %s", f->remedy);
}

void verify_free(struct verify_report *r)
{
    free(r->list);
    arena_free(&r->memory);
    *r = (struct verify_report){0};
}

/* ---- the geometry */

struct field { const char *key; int found, known; };

/* Finds numbers that differ from those of a published geometry, if these are few: no tensor shape shows them, or config.json is that of another
 * model. */
static void compare_geometry(struct verify_report *r, const char *name, const struct field *f, int n)
{
    int n_other = 0, other = 0;
    for (int i = 0; i < n; i++)
        if (f[i].found != f[i].known) {
            other = i;
            n_other++;
        }
    bool layers = n_other == 1 && !strcmp(f[other].key, "num_hidden_layers");
    if (!n_other || n_other > 3)
        return;
    for (int i = 0; i < n; i++)
        if (f[i].found != f[i].known)
            add_finding(r, (struct finding){!layers, "geometry", .file = "config.json",
                        .expected = arena_printf(&r->memory, "%d as in %s", f[i].known, name),
                        .remedy = layers ? NULL : "take config.json from where the shards come from"},
                        "%s is %d", f[i].key, f[i].found);
}

/* Compares a model of unknown sizes with the known ones, to report a field that is off. */
static void check_geometry(struct verify_report *r, const struct model_config *c)
{
    if (strcmp(c->name, "custom"))
        return;
    int interval = c->n_full ? c->n_layers / c->n_full : 0;
#define MODEL(name, h, l, every, q, kv, hd, lk, lv, ld, e, k, i, si, v)                                                         \
    compare_geometry(r, name, (const struct field[]){                                                                           \
        {"hidden_size", c->hidden, h}, {"num_hidden_layers", c->n_layers, l}, {"the interval of full attention", interval, every}, \
        {"num_attention_heads", c->n_q_heads, q}, {"num_key_value_heads", c->n_kv_heads, kv}, {"head_dim", c->head_dim, hd},     \
        {"linear_num_key_heads", c->lin_k_heads, lk}, {"linear_num_value_heads", c->lin_v_heads, lv},                            \
        {"linear_key_head_dim", c->lin_k_dim, ld}, {"linear_value_head_dim", c->lin_v_dim, ld}, {"num_experts", c->n_experts, e}, \
        {"num_experts_per_tok", c->top_k, k}, {"moe_intermediate_size", c->moe_inter, i},                                        \
        {"shared_expert_intermediate_size", c->shared_inter, si}, {"vocab_size", c->vocab, v}}, 15);
#include "config/models.def"
#undef MODEL
}

/* ---- files and the index */

struct check {
    const char *dir;
    struct verify_report *r;
    json_t     *index;                  /* weight_map; NULL: no index */
    char      **names;                  /* files that the index names, and the extra one */
    int         n_names;
};

static const char *path_of(struct check *k, const char *name)
{
    return arena_printf(&k->r->memory, "%s/%s", k->dir, name);
}

/* Returns the rest of a sentence after the path of the file. */
static const char *without_path(struct check *k, const char *name, const char *sentence)
{
    const char *path = path_of(k, name);
    size_t n = strlen(path);
    if (strncmp(sentence, path, n))
        return sentence;
    return sentence + n + strspn(sentence + n, ": ");
}

static bool is_named(const struct check *k, const char *name)
{
    for (int i = 0; i < k->n_names; i++)
        if (!strcmp(k->names[i], name))
            return true;
    return false;
}

static void name_file(struct check *k, const char *name)
{
    if (is_named(k, name))
        return;
    k->names = memory_resized(k->names, (size_t)(k->n_names + 1) * sizeof *k->names);
    k->names[k->n_names] = memory_strdup(name);
    k->n_names++;
}

/* Reads the index, if there is one, and lists the files that it names. */
static void read_index(struct check *k)
{
    struct buf text = {0};
    struct err e = {0};
    json_error_t je;
    if (access(path_of(k, INDEX_FILE), F_OK))
        return;
    json_t *root = file_read(&text, path_of(k, INDEX_FILE), MAX_INDEX, &e)
                       ? json_loadb(buf_str(&text), text.len, JSON_REJECT_DUPLICATES, &je) : NULL;
    k->index = json_incref(json_object_get(root, "weight_map"));
    if (!json_object_size(k->index)) {
        add_finding(k->r, (struct finding){FAULT, "bad-index", .file = INDEX_FILE, .expected = "the names of tensors and of their files",
                    .remedy = AGAIN},
                    "%s", *e.msg ? without_path(k, INDEX_FILE, e.msg) : root ? "weight_map is missing or empty" : je.text);
        json_decref(k->index);
        k->index = NULL;
    }
    json_decref(root);
    buf_free(&text);
    const char *name;
    json_t *file;
    json_object_foreach(k->index, name, file)
        if (json_is_string(file))
            name_file(k, json_string_value(file));
}

/* Checks that a file is 8 bytes of length, the header, then data up to the end of the last tensor. */
static void check_header(struct check *k, const char *name)
{
    struct safetensors s;
    struct err e = {0};
    struct stat st;
    const char *path = path_of(k, name);
    uint64_t end = 0;
    if (stat(path, &st)) {
        add_finding(k->r, (struct finding){FAULT, "missing-file", .file = name, .expected = "a file, since the index names it", .remedy = AGAIN},
                    "%s", errno == ENOENT ? "it is not there" : strerror(errno));
        return;
    }
    if (!safetensors_open(&s, path, &e)) {
        bool cut = strstr(e.msg, "but the file holds") || strstr(e.msg, "bytes, expected at most") || strstr(e.msg, "expected a safetensors file of");
        add_finding(k->r, (struct finding){FAULT, cut ? "truncated" : "bad-header", .file = name, .remedy = AGAIN},
                    "%s%s", cut ? "truncated: " : "", without_path(k, name, e.msg));
    } else {
        for (int i = 0; i < s.n_tensors; i++)
            end = s.tensors[i].offset + s.tensors[i].bytes > end ? s.tensors[i].offset + s.tensors[i].bytes : end;
        if (s.n_tensors && end != s.size)
            add_finding(k->r, (struct finding){FAULT, "overlong", .file = name, .expected = "none", .remedy = AGAIN},
                        "%llu bytes after the last tensor", (unsigned long long)(s.size - end));
        k->r->n_files++;
        k->r->n_tensors += s.n_tensors;
    }
    safetensors_close(&s);
}

/* Notes shards without an entry, and remains of interrupted commands. */
static void check_strays(struct check *k)
{
    struct dirent **list;
    int n = scandir(k->dir, &list, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = list[i]->d_name;
        if (k->index && text_ends(text_of(name), ".safetensors") && *name != '.' && !is_named(k, name) && strcmp(name, EXTRA_FILE))
            add_finding(k->r, (struct finding){NOTE, "unlisted-file", .file = name}, "the index does not name it: it is never read");
        if (*name == '.' && strstr(name, ".safetensors"))
            add_finding(k->r, (struct finding){NOTE, "rest", .file = name}, "left over from an interrupted command: it can be removed");
        free(list[i]);
    }
    if (n >= 0)
        free(list);
}

/* Checks the headers of all files that the model consists of. */
static void check_files(struct check *k)
{
    read_index(k);
    if (k->index && !access(path_of(k, EXTRA_FILE), F_OK))
        name_file(k, EXTRA_FILE);
    check_strays(k);
    if (!k->index && !access(path_of(k, "model.safetensors"), F_OK))
        name_file(k, "model.safetensors");
    for (int i = 0; i < k->n_names; i++)
        check_header(k, k->names[i]);
}

/* Finds tensors of the index that are missing in their file, and tensors of files that are missing in the index. */
static void check_names(struct check *k)
{
    struct verify_report *r = k->r;
    int n_lost = 0, n_mtp = 0;
    const char *lost = NULL, *name;
    json_t *file;
    for (int i = 0; i < k->n_names && k->index; i++) {
        struct safetensors s;
        bool ok = safetensors_open(&s, path_of(k, k->names[i]), NULL);
        json_object_foreach(k->index, name, file)
            if (ok && json_is_string(file) && !strcmp(json_string_value(file), k->names[i]) && !safetensors_find(&s, name))
                add_finding(r, (struct finding){FAULT, "missing-tensor", .file = k->names[i], .tensor = name,
                            .expected = "the tensor, since the index says so", .remedy = AGAIN},
                            "it is not in this file");
        for (int t = 0; t < s.n_tensors && ok; t++) {
            if (json_object_get(k->index, s.tensors[t].name))
                continue;
            bool mtp = !strncmp(s.tensors[t].name, "mtp.", 4);
            n_mtp += mtp && !strcmp(k->names[i], EXTRA_FILE);
            if (!mtp && !n_lost++)
                lost = arena_strdup(&r->memory, s.tensors[t].name);
        }
        safetensors_close(&s);
    }
    if (n_mtp)
        add_finding(r, (struct finding){NOTE, "index-without-mtp", .file = INDEX_FILE,
                    .remedy = "q35chat model add-mtp DIR lists them for other programs"},
                    "it does not name %d tensors of the MTP block in " EXTRA_FILE ", which q35chat still finds", n_mtp);
    if (n_lost)
        add_finding(r, (struct finding){NOTE, "unlisted-tensor", .file = INDEX_FILE, .tensor = lost},
                    "it is in a shard but not in the index (%d such tensors)", n_lost);
}

/* ---- tensors against the model */

static void add_weights_fault(void *arg, enum weights_fault fault, const char *file, const char *tensor, const char *text)
{
    static const char *const kinds[] = {"missing-tensor", "unexpected-tensor", "wrong-tensor"};
    struct verify_report *r = arg;
    add_finding(r, (struct finding){FAULT, kinds[fault], .file = file, .tensor = tensor,
                .remedy = fault == WEIGHTS_MISSING ? "fetch the file that has it, or another index"
                                                   : "take config.json and shards from one checkpoint"},
                "%s", text);
}

static void check_mtp(struct verify_report *r, const struct model_config *c, const struct weights *w)
{
    if (!c->n_mtp || w->mtp.present)
        return;
    add_finding(r, (struct finding){FAULT, "no-mtp", .expected = "the block, since config.json has mtp_num_hidden_layers 1",
                .remedy = "q35chat model add-mtp DIR --from the INT4 checkpoint"},
                "there is no tensor of the MTP block (mtp....), so no tokens are drafted");
}

static void check_vision(struct verify_report *r, const struct model_config *c, const struct weights *w)
{
    if (!c->vision.depth || w->vision.present)
        return;
    add_finding(r, (struct finding){NOTE, "no-vision", .expected = "the tower, since config.json has a vision_config",
                .remedy = "fetch the files that have it, if pictures are wanted"},
                "there is no tensor of the vision tower (model.visual....), so the model sees no pictures");
}

/* Reports tensors of which another file has the copy that counts. */
static void count_stale(struct verify_report *r, const struct shards *s)
{
    uint64_t bytes = 0;
    int n = 0;
    bool shared = false;
    for (int k = 0; k < s->n_files; k++)
        for (int i = 0; i < s->files[k].n_tensors; i++) {
            const struct tensor *t = &s->files[k].tensors[i];
            const struct shard_tensor *counts = shards_find(s, t->name);
            if (!counts || counts->t == t)
                continue;
            n++;
            bytes += t->bytes;
            shared |= counts->t->dtype == DT_F8_E4M3;
        }
    if (n)
        add_finding(r, (struct finding){NOTE, "stale-copies"},
                    "%d copies of tensors, %.2f MB, are unused, since the index names other files for them%s", n, (double)bytes * 1e-6,
                    shared ? "; vLLM, which reads whole shards, wants build-hybrid --compact" : "");
}

/* Reports layers whose shared expert is in 16 bits while others are FP8. */
static void count_formats(struct verify_report *r, const struct model_config *c, const struct weights *w)
{
    int n[WEIGHT_INT8 + 1] = {0}, odd = 0;
    for (int i = 0; i < c->n_layers; i++)
        n[w->layers[i].moe.shared.gate.format]++;
    for (int i = 0; i < c->n_layers && n[WEIGHT_FP8]; i++)
        if (w->layers[i].moe.shared.gate.format == WEIGHT_DENSE && !odd++)
            add_finding(r, (struct finding){NOTE, "mixed-formats"},
                        "the shared expert of layer %d is in 16 bits, those of %d other layers are FP8: this " "hybrid is not whole", i,
                        n[WEIGHT_FP8]);
}

/* ---- values */

/* Far above any scale of a trained model: the largest weight of a group is an INT4 scale times 8 or an FP8 scale times 448. */
static const double absurd_int4 = 8, absurd_fp8 = 1, absurd_vector = 1e5;

enum kind { INT4_DATA, INT4_SCALES, INT4_ZEROS, FP8_SCALES, MATRIX, VECTOR, OTHER };

struct content {                        /* what one tensor holds */
    enum kind kind;
    bool      all_zero, constant;
    uint64_t  zero_run;                 /* 1 + offset of a run of RUN zero bytes; 0: no run */
    uint64_t  n_odd_zeros;              /* words of INT4 zeros that are not 0x77777777 */
    uint64_t  digest;                   /* of scales */
    double    mean;                     /* mean magnitude of scales */
    struct scan_stats stats;
    bool      read;                     /* read completely */
};

struct scan {
    const struct shards *s;
    struct content      *contents;
    bool                 full;
    atomic_ullong        n_read;
};

/* ---- the values of a tensor */

/* Returns what a tensor is, by name, type and size. */
static enum kind kind_of(const char *name, const struct tensor *t)
{
    if (text_ends(text_of(name), ".qweight"))
        return INT4_DATA;
    if (text_ends(text_of(name), ".scales"))
        return INT4_SCALES;
    if (text_ends(text_of(name), ".qzeros"))
        return INT4_ZEROS;
    if (text_ends(text_of(name), ".weight_scale_inv"))
        return FP8_SCALES;
    if (!scan_is_float(t->dtype))
        return OTHER;
    return t->n_dims >= 2 && t->bytes > 1 << 18 ? MATRIX : VECTOR;
}

static bool only_zeros(const uint8_t *p, uint64_t n)
{
    return !n || (!p[0] && !memcmp(p, p + 1, n - 1));
}

static uint64_t digest(const uint8_t *p, uint64_t n)
{
    uint64_t h = 14695981039346656037u;
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

static bool spots_are_zero(const uint8_t *p, uint64_t n)
{
    bool zero = true;
    for (uint64_t i = 0; i < N_SPOTS && zero; i++) {
        uint64_t at = n > SPOT ? (n - SPOT) / (N_SPOTS - 1) * i : 0;
        zero = only_zeros(p + at, n < SPOT ? n : SPOT);
    }
    return zero;
}

/* Returns 1 + offset of a hole, 0 without one.  Packed INT4 never has RUN zero bytes in a row: each would be two weights of the largest negative
 * value. */
static uint64_t find_hole(const uint8_t *p, uint64_t n)
{
    for (uint64_t at = 0; at + RUN <= n; at += RUN)
        if (only_zeros(p + at, RUN))
            return 1 + at;
    return 0;
}

/* Looks at the numbers of tensor i, or at spots of a large one unless c->full; called by several threads. */
static void scan_contents(void *arg, int i)
{
    struct scan *c = arg;
    const struct shard_tensor *t = &c->s->list[i];
    const uint8_t *p = safetensors_data(shards_file(c->s, t), t->t);
    struct content *l = &c->contents[i];
    uint64_t n = t->t->bytes, read = 0;
    if (!n)
        return;
    l->kind = kind_of(t->name, t->t);
    l->read = c->full || (l->kind != INT4_DATA && l->kind != MATRIX && l->kind != OTHER);
    l->all_zero = spots_are_zero(p, n) && only_zeros(p, n);
    if (l->read && scan_is_float(t->t->dtype))
        scan_numbers(&l->stats, p, t->t->dtype, n / dtype_bytes(t->t->dtype));
    if (l->kind == INT4_SCALES || l->kind == FP8_SCALES) {
        l->constant = n < 4 || !memcmp(p, p + 2, n - 2);
        l->digest = digest(p, n);
        l->mean = scan_mean(p, t->t->dtype, n / dtype_bytes(t->t->dtype));
    }
    if (l->kind == INT4_DATA && !l->all_zero)
        l->zero_run = c->full ? find_hole(p, n) : 0;
    for (uint64_t k = 0; l->kind == INT4_ZEROS && k + 4 <= n; k += 4) {
        uint32_t word;
        memcpy(&word, p + k, 4);
        l->n_odd_zeros += word != 0x77777777u;
    }
    read = l->read || l->kind == INT4_ZEROS || c->full ? n : n < SPOT * N_SPOTS ? n : SPOT * N_SPOTS;
    atomic_fetch_add(&c->n_read, read);
}

/* ---- faults of a tensor */

static const char *name_of_file(const struct shards *s, const struct shard_tensor *t)
{
    return strrchr(shards_file(s, t)->path, '/') + 1;
}

/* Adds the faults of one tensor. */
static void judge(struct verify_report *r, const struct shards *s, int i, const struct content *l)
{
    const struct shard_tensor *t = &s->list[i];
    const struct scan_stats *v = &l->stats;
    double limit = l->kind == INT4_SCALES ? absurd_int4 : l->kind == FP8_SCALES ? absurd_fp8 : absurd_vector;
    bool scales = l->kind == INT4_SCALES || l->kind == FP8_SCALES;
    bool mtp = !strncmp(t->name, "mtp.", 4);
    if (l->all_zero && (l->kind == INT4_DATA || l->kind == INT4_SCALES || l->kind == FP8_SCALES || l->kind == MATRIX
                        || (l->kind == VECTOR && t->t->n_dims >= 2))) {
        add_finding(r, (struct finding){FAULT, mtp ? "zeroed-mtp" : "zeroed", .file = name_of_file(s, t), .tensor = t->name, .expected = "weights",
                    .remedy = mtp ? "take the block from the INT4 checkpoint: move model_extra_tensors.safetensors away, then "
                                    "q35chat model add-mtp DIR --from" : FETCH_FILE},
                    "all %llu bytes are 0", (unsigned long long)t->t->bytes);
    } else if (l->zero_run)
        add_finding(r, (struct finding){FAULT, "hole", .file = name_of_file(s, t), .tensor = t->name,
                    .expected = "packed weights, which have no such run", .remedy = FETCH_FILE},
                    "%d bytes of 0 in a row from byte %llu of the file on", RUN, (unsigned long long)(t->t->offset + l->zero_run - 1));
    if (v->n_nan || v->n_inf)
        add_finding(r, (struct finding){FAULT, "not-finite", .file = name_of_file(s, t), .tensor = t->name, .expected = "none",
                    .remedy = FETCH_FILE},
                    "%llu NaN and %llu inf among %llu numbers, the first at %llu", (unsigned long long)v->n_nan, (unsigned long long)v->n_inf,
                    (unsigned long long)v->n, (unsigned long long)v->first_bad);
    if (v->max > limit)
        add_finding(r, (struct finding){FAULT, scales ? "absurd-scale" : "absurd", .file = name_of_file(s, t), .tensor = t->name,
                    .expected = arena_printf(&r->memory, "at most %g", limit), .remedy = FETCH_FILE},
                    "a number of %.3g", v->max);
    if (l->kind == FP8_SCALES && v->n_negative)
        add_finding(r, (struct finding){FAULT, "absurd-scale", .file = name_of_file(s, t), .tensor = t->name,
                    .expected = "none: those of FP8 are positive", .remedy = FETCH_FILE},
                    "%llu negative scales", (unsigned long long)v->n_negative);
    if (scales && v->n_zero && v->n_zero < v->n)
        add_finding(r, (struct finding){v->n_zero * 100 > v->n, "zero-scale", .file = name_of_file(s, t), .tensor = t->name, .expected = "none",
                    .remedy = FETCH_FILE},
                    "%llu of %llu scales are 0", (unsigned long long)v->n_zero, (unsigned long long)v->n);
    if (l->n_odd_zeros)
        add_finding(r, (struct finding){FAULT, "odd-zeros", .file = name_of_file(s, t), .tensor = t->name,
                    .expected = "symmetric weights, whose zero point is 8", .remedy = FETCH_FILE},
                    "%llu words of zero points are not 0x77777777", (unsigned long long)l->n_odd_zeros);
}

/* ---- one tensor's scales in another's place */

struct seen {
    uint64_t digest;
    int      i;
};

static int by_digest(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    return x->digest != y->digest ? (x->digest < y->digest ? -1 : 1) : x->i - y->i;
}

/* The trained scales of two matrices never have equal bytes; if they do, one was copied over the other. */
static void find_same(struct verify_report *r, const struct shards *s, const struct content *contents)
{
    struct seen *list = memory_alloc(((size_t)s->n + 1) * sizeof *list);
    int n = 0;
    for (int i = 0; i < s->n; i++)
        if ((contents[i].kind == INT4_SCALES || contents[i].kind == FP8_SCALES) && !contents[i].constant && s->list[i].t->bytes >= SAME_BYTES)
            list[n++] = (struct seen){contents[i].digest, i};
    qsort(list, (size_t)n, sizeof *list, by_digest);
    for (int k = 1; k < n; k++) {
        const struct shard_tensor *a = &s->list[list[k - 1].i], *b = &s->list[list[k].i];
        if (list[k - 1].digest != list[k].digest || a->t->bytes != b->t->bytes
            || memcmp(safetensors_data(shards_file(s, a), a->t), safetensors_data(shards_file(s, b), b->t), a->t->bytes))
            continue;
        add_finding(r, (struct finding){FAULT, "same-scales", .file = name_of_file(s, b), .tensor = b->name, .expected = "scales of its own",
                    .remedy = FETCH_FILE},
                    "the same bytes as %s in %s", a->name, name_of_file(s, a));
    }
    free(list);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return x[n / 2];
}

static double mean_scale(const struct shards *s, const struct content *contents, const char *layer, int expert, const char *projection)
{
    char name[MAX_NAME];
    snprintf(name, sizeof name, "%smlp.experts.%d.%s_proj.scales", layer, expert, projection);
    const struct shard_tensor *t = shards_find(s, name);
    return t ? contents[t - s->list].mean : 0;
}

/* If gate and up have a common size ratio in all experts of a layer, an expert with the inverse ratio has the two exchanged.  If their
 * sizes are equal, an exchange cannot be detected. */
static void find_turned(struct verify_report *r, const struct shards *s, const struct content *contents, const char *layer, int n)
{
    double *ratio = memory_alloc((size_t)n * 2 * sizeof *ratio), *sorted = ratio + n;
    char name[MAX_NAME];
    int k = 0;
    for (; k < n; k++) {
        double gate = mean_scale(s, contents, layer, k, "gate"), up = mean_scale(s, contents, layer, k, "up");
        if (!(gate > 0 && up > 0))
            break;
        ratio[k] = sorted[k] = log(gate / up);
    }
    if (k == n && n >= 16) {
        double m = median(sorted, n);
        for (int i = 0; i < n; i++)
            sorted[i] = fabs(ratio[i] - m);
        double spread = median(sorted, n);
        for (int i = 0; i < n && fabs(m) > 8 * spread + 0.02; i++) {
            if (fabs(ratio[i] + m) > 4 * spread + 0.01)
                continue;
            snprintf(name, sizeof name, "%smlp.experts.%d.gate_proj.scales", layer, i);
            const struct shard_tensor *t = shards_find(s, name);
            add_finding(r, (struct finding){FAULT, "swapped-scales", .file = name_of_file(s, t), .tensor = t->name,
                        .expected = arena_printf(&r->memory, "about %.3f as in the layer's other experts", exp(m)), .remedy = FETCH_FILE},
                        "scales %.3f times those of up_proj on average, as if the two were exchanged", exp(ratio[i]));
        }
    }
    free(ratio);
}

/* ---- FP8 matrices beside their 16-bit copies */

static bool is_copy(const struct tensor *copy, const struct tensor *t)
{
    return copy && copy != t && (copy->dtype == DT_BF16 || copy->dtype == DT_F16) && copy->n_dims == 2
        && !memcmp(copy->shape, t->shape, 2 * sizeof *t->shape);
}

/* Comparison of FP8 values with 16-bit ones, in the block where they differ most. */
struct difference {
    double off;                         /* mean |FP8 - 16 bit| over mean |16 bit|: rounding gives 0.02 to 0.03 */
    double ratio;                       /* fitted ratio of FP8 to 16-bit values: rounding gives 1 +- 0.003 */
    bool   bad;
};
static const double max_off = 0.1, max_ratio = 0.01;

/* Compares a block of FP8 numbers, times its scale, with a copy in 16 or 32 bits; step 2 takes every second row. */
static struct difference compare_block(const uint8_t *q, double scale, const void *copy, enum dtype type, uint64_t rows, uint64_t cols,
                                       uint64_t pitch, uint64_t step)
{
    double off = 0, size = 0, both = 0, square = 0;
    for (uint64_t j = 0; j < rows; j += step)
        for (uint64_t i = 0; i < cols; i++) {
            double want = (double)scan_value(copy, type, j * pitch + i), found = (double)fp8_f32(q[j * pitch + i]) * scale;
            off += fabs(found - want);
            size += fabs(want);
            both += found * want;
            square += want * want;
        }
    struct difference d = {0, 1, false};
    if (square > 0) {                   /* copies that are all 0 are not compared */
        d.off = off / size;
        d.ratio = both / square;
        d.bad = !(d.off <= max_off) || !(fabs(d.ratio - 1) <= max_ratio);
    }
    return d;
}

/* Compares some rows of each block, or all. */
static struct difference compare_matrix(const uint8_t *q, const void *scale, enum dtype scale_type, const uint8_t *copy, enum dtype type,
                                        uint64_t rows, uint64_t cols, bool full)
{
    uint64_t across = (cols + BLOCK - 1) / BLOCK;
    struct difference worst = {0, 1, false};
    for (uint64_t y = 0; y < rows; y += BLOCK)
        for (uint64_t x = 0; x < cols; x += BLOCK) {
            struct difference d = compare_block(q + y * cols + x, (double)scan_value(scale, scale_type, y / BLOCK * across + x / BLOCK),
                                                copy + (y * cols + x) * dtype_bytes(type), type, rows - y < BLOCK ? rows - y : BLOCK,
                                                cols - x < BLOCK ? cols - x : BLOCK, cols, full ? 1 : 16);
            if (d.bad >= worst.bad && fabs(d.ratio - 1) >= fabs(worst.ratio - 1))
                worst = d;
        }
    return worst;
}

/* Reports a matrix whose scales do not fit the copy in another file. */
static void compare_copy(struct verify_report *r, const struct shards *s, const struct shard_tensor *t, const struct shard_tensor *scale,
                         const struct safetensors *f, const struct tensor *copy, bool full)
{
    struct difference d = compare_matrix(safetensors_data(shards_file(s, t), t->t), safetensors_data(shards_file(s, scale), scale->t),
                                         scale->t->dtype, safetensors_data(f, copy), copy->dtype, t->t->shape[0], t->t->shape[1], full);
    if (!d.bad)
        return;
    add_finding(r, (struct finding){FAULT, "swapped-scales", .file = name_of_file(s, t), .tensor = t->name,
                .expected = "1.000 times and 2 to 3 percent: the scales or the matrix belong to another tensor",
                .remedy = "build the hybrid again"},
                "a block has %.3f times the numbers of the 16-bit copy in %s and differs by %.0f percent", d.ratio, strrchr(f->path, '/') + 1,
                100 * d.off);
}

/* Compares FP8 with the 16-bit matrices that it replaced, which a linked hybrid still has: equal values but for rounding. */
static void compare_copies(struct verify_report *r, const struct shards *s, bool full)
{
    for (int i = 0; i < s->n; i++) {
        const struct shard_tensor *t = &s->list[i], *scale;
        char name[MAX_NAME];
        if (t->t->dtype != DT_F8_E4M3 || t->t->n_dims != 2)
            continue;
        snprintf(name, sizeof name, "%s_scale_inv", t->name);
        uint64_t n_scales = (t->t->shape[0] + BLOCK - 1) / BLOCK * ((t->t->shape[1] + BLOCK - 1) / BLOCK);
        scale = shards_find(s, name);
        if (!scale || !scan_is_float(scale->t->dtype) || scale->t->bytes != n_scales * dtype_bytes(scale->t->dtype))
            continue;
        for (int k = 0; k < s->n_files; k++) {
            const struct tensor *copy = safetensors_find(&s->files[k], t->name);
            if (is_copy(copy, t->t))
                compare_copy(r, s, t, scale, &s->files[k], copy, full);
        }
    }
}

/* Checks every used tensor.  Scales, zero points and vectors are read completely; matrices in samples, or with `full` completely. */
static void check_values(const struct shards *s, const struct model_config *c, bool full, struct verify_report *r)
{
    struct scan scan = {.s = s, .contents = memory_zeroed((size_t)s->n + 1, sizeof *scan.contents), .full = full};
    const char *prefix = shards_find(s, "model.embed_tokens.weight") ? "model." : "model.language_model.";
    for (int i = 0; i < s->n_files; i++)        /* the needed bytes are scattered between others */
        madvise((void *)(uintptr_t)s->files[i].map, s->files[i].size, full ? MADV_SEQUENTIAL : MADV_RANDOM);
    scan_each_tensor(s, scan_contents, &scan);
    for (int i = 0; i < s->n; i++)
        judge(r, s, i, &scan.contents[i]);
    find_same(r, s, scan.contents);
    for (int l = 0; l < c->n_layers; l++) {
        char layer[64];
        snprintf(layer, sizeof layer, "%slayers.%d.", prefix, l);
        find_turned(r, s, scan.contents, layer, c->n_experts);
    }
    compare_copies(r, s, full);
    r->read_bytes += atomic_load(&scan.n_read);
    free(scan.contents);
}

/* ---- recorded hashes */

struct recorded {
    struct hash_job *jobs;
    const char     **expected, **names, **tensors;
    int              n;
};

/* Appends a file or tensor whose hash is known. */
static void add_job(struct recorded *h, struct hash_job job, const char *name, const char *tensor, const char *expected)
{
    size_t n = (size_t)h->n + 1;
    h->jobs = memory_resized(h->jobs, n * sizeof *h->jobs);
    h->expected = memory_resized(h->expected, n * sizeof *h->expected);
    h->names = memory_resized(h->names, n * sizeof *h->names);
    h->tensors = memory_resized(h->tensors, n * sizeof *h->tensors);
    h->jobs[h->n] = job;
    h->names[h->n] = name;
    h->tensors[h->n] = tensor;
    h->expected[h->n++] = expected;
}

static void free_jobs(struct recorded *h)
{
    free(h->jobs);
    free(h->expected);
    free(h->names);
    free(h->tensors);
}

/* Checks sizes, and lists the hashes to compare: those of moved scales; with `full` also of all moved tensors and all files. */
static void list_provenance(struct check *k, const struct shards *s, const struct provenance *p, bool full, struct recorded *h)
{
    struct verify_report *r = k->r;
    for (int i = 0; i < p->n_files; i++) {
        struct stat st;
        const struct provenance_item *x = &p->files[i];
        const char *path = path_of(k, x->name);
        bool there = !stat(path, &st);
        if (!there || (uint64_t)st.st_size != x->bytes) {
            add_finding(r, (struct finding){FAULT, there ? "wrong-size" : "missing-file", .file = x->name,
                        .expected = arena_printf(&r->memory, "%llu bytes, as " PROVENANCE_FILE " records", (unsigned long long)x->bytes),
                        .remedy = "build the hybrid again"},
                        there ? "it has %llu bytes" : "it is not there", there ? (unsigned long long)st.st_size : 0ull);
        } else if (full && *x->sha256)
            add_job(h, (struct hash_job){.path = path, .bytes = UINT64_MAX}, x->name, NULL, x->sha256);
    }
    for (int i = 0; i < p->n_tensors; i++) {
        const struct provenance_item *x = &p->tensors[i];
        const struct shard_tensor *t = shards_find(s, x->name);
        if (t && *x->sha256 && (full || text_ends(text_of(x->name), "_scale_inv")))
            add_job(h, (struct hash_job){.path = shards_file(s, t)->path, .at = t->t->offset, .bytes = t->t->bytes},
                    strrchr(shards_file(s, t)->path, '/') + 1, x->name, x->sha256);
    }
}

/* Lists the hashes of a checkpoint in the Hugging Face cache, which names files by their hash. */
static void list_cached(struct check *k, const struct provenance *p, const struct fetch_repo *cached, struct recorded *h)
{
    for (int i = 0; i < cached->n_files; i++) {
        const struct fetch_file *f = &cached->files[i];
        const struct provenance_item *x = provenance_find(p->files, p->n_files, f->path);
        if (x && *x->sha256)
            continue;
        if (*f->hash)
            add_job(h, (struct hash_job){.path = path_of(k, f->path), .bytes = UINT64_MAX, .git = !f->lfs}, f->path, NULL, f->hash);
        else if (is_named(k, f->path))
            k->r->n_unhashed++;
    }
}

/* Computes all hashes and reports those that differ from the recorded ones. */
static bool compare_hashes(struct check *k, const struct recorded *h, struct err *e)
{
    struct verify_report *r = k->r;
    if (!hash_jobs(h->jobs, h->n, NULL, e))
        return false;
    for (int i = 0; i < h->n; i++) {
        r->n_hashed += !h->tensors[i];
        if (!strcmp(h->jobs[i].hex, h->expected[i]))
            continue;
        bool scale = h->tensors[i] && text_ends(text_of(h->tensors[i]), "_scale_inv");
        add_finding(r, (struct finding){FAULT, !h->tensors[i] ? "corrupt-file" : scale ? "changed-scale" : "changed-tensor", .file = h->names[i],
                    .tensor = h->tensors[i],
                    .expected = arena_printf(&r->memory, "%.16s... as was recorded when it was %s", h->expected[i],
                                             h->tensors[i] ? "built" : "fetched or built"),
                    .remedy = h->tensors[i] ? "build the hybrid again" : "remove it and fetch or build it again"},
                    "%s %.16s...", h->jobs[i].git ? "git's SHA-1" : "SHA-256", h->jobs[i].hex);
    }
    return true;
}

/* Checks the hashes that were recorded when the files were built or, if `full`, fetched. */
static bool check_recorded(struct check *k, const struct shards *s, bool full, struct err *e)
{
    struct provenance p;
    struct recorded h = {0};
    struct fetch_repo cached = {0};
    struct err why = {0};
    bool there;
    if (!provenance_read(&p, k->dir, &there, &why) && there)
        add_finding(k->r, (struct finding){FAULT, "bad-provenance", .file = PROVENANCE_FILE, .remedy = "build the hybrid again"},
                    "%s", without_path(k, PROVENANCE_FILE, why.msg));
    list_provenance(k, s, &p, full, &h);
    if (full && cache_list(k->dir, &cached, NULL))
        list_cached(k, &p, &cached, &h);
    bool ok = compare_hashes(k, &h, e);
    if (k->r->n_unhashed)
        add_finding(k->r, (struct finding){NOTE, "no-hash"},
                    "no hash is recorded for %d shards: wrong values of ordinary size in them cannot be found", k->r->n_unhashed);
    free_jobs(&h);
    fetch_repo_free(&cached);
    provenance_free(&p);
    return ok;
}

/* ---- everything */

/* Puts faults first, otherwise in the order in which they were found. */
static void sort_findings(struct verify_report *r)
{
    struct finding *out = memory_alloc((size_t)(r->n + 1) * sizeof *out);
    int n = 0;
    for (int fault = 1; fault >= 0; fault--)
        for (int i = 0; i < r->n; i++)
            if (r->list[i].fault == fault)
                out[n++] = r->list[i];
    if (r->n)
        memcpy(r->list, out, (size_t)r->n * sizeof *out);
    free(out);
}

/* Checks that the tensors fit the model, then their numbers and hashes. */
static bool check_contents(struct check *k, const struct model_config *c, bool full, struct err *e)
{
    struct weights w = {0};
    struct shards s = {0};
    bool ok = weights_check(&w, c, k->dir, add_weights_fault, k->r, e);
    if (ok) {
        check_mtp(k->r, c, &w);
        check_vision(k->r, c, &w);
        count_formats(k->r, c, &w);
    }
    weights_close(&w);
    ok = ok && shards_open(&s, k->dir, e);
    if (ok) {
        count_stale(k->r, &s);
        check_values(&s, c, full, k->r);
        ok = check_recorded(k, &s, full, e);
    }
    shards_close(&s);
    return ok;
}

bool verify_run(const char *dir, const struct verify_options *o, struct verify_report *r, struct err *e)
{
    struct check k = {.dir = dir, .r = r};
    struct model_config c;
    struct err why = {0};
    struct stat st;
    *r = (struct verify_report){0};
    if (stat(dir, &st) || !S_ISDIR(st.st_mode))
        return err_set(e, "%s is not the directory of a checkpoint", dir);
    bool configured = config_load(&c, dir, &why);
    if (!configured)
        add_finding(r, (struct finding){FAULT, "config", .file = "config.json", .remedy = AGAIN}, "%s", without_path(&k, "config.json", why.msg));
    else
        check_geometry(r, &c);
    check_files(&k);
    check_names(&k);
    bool damaged = false;
    for (int i = 0; i < r->n; i++)
        damaged |= r->list[i].fault && strcmp(r->list[i].kind, "geometry") && strcmp(r->list[i].kind, "overlong");
    r->stopped = damaged;
    if (!damaged && !check_contents(&k, &c, o->full, &why)) {
        add_finding(r, (struct finding){FAULT, "unreadable"}, "%s", why.msg);
        r->stopped = true;
    }
    sort_findings(r);
    json_decref(k.index);
    for (int i = 0; i < k.n_names; i++)
        free(k.names[i]);
    free(k.names);
    return true;
}
