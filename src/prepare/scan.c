#include "prepare/scan.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "kernels/number.h"

enum { MAX_THREADS = 16, SPOT = 512, N_SPOTS = 5, RUN = 4096, SAME_BYTES = 256, BLOCK = 128, MAX_NAME = 320 };

/* Far above any scale of a trained model: the largest weight of a group is an INT4 scale times 8 or an FP8 scale times 448. */
static const double absurd_int4 = 8, absurd_fp8 = 1, absurd_vector = 1e5;

enum kind { INT4_DATA, INT4_SCALES, INT4_ZEROS, FP8_SCALES, MATRIX, VECTOR, OTHER };

struct look {                           /* the findings in one tensor */
    enum kind kind;
    bool      all_zero, constant;
    uint64_t  zero_run;                 /* 1 + offset of a run of RUN zero bytes; 0: none */
    uint64_t  n_odd_zeros;              /* words of INT4 zeros that are not 0x77777777 */
    uint64_t  digest;                   /* of scales */
    double    mean;                     /* mean magnitude of scales */
    struct scan_stats stats;
    bool      read;                     /* read completely */
};

struct scan {
    const struct shards *s;
    struct look         *looks;
    bool                 full;
    atomic_int           next;
    atomic_ullong        n_read;
};

/* ---- numbers */

static float value_at(const void *data, enum dtype t, uint64_t i)
{
    uint16_t h;
    uint32_t u;
    switch (t) {
    case DT_F32:     memcpy(&u, (const char *)data + 4 * i, 4); return bits_f32(u);
    case DT_BF16:    memcpy(&h, (const char *)data + 2 * i, 2); return bf16_f32(h);
    case DT_F16:     memcpy(&h, (const char *)data + 2 * i, 2); return f16_f32(h);
    case DT_F8_E4M3: return fp8_f32(((const uint8_t *)data)[i]);
    default:         return 0;
    }
}

static bool is_float(enum dtype t)
{
    return t == DT_F32 || t == DT_BF16 || t == DT_F16 || t == DT_F8_E4M3;
}

/* The exact count, value by value. */
static void scan_each(struct scan_stats *s, const void *data, enum dtype dtype, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        double x = (double)value_at(data, dtype, i), m = fabs(x);
        if (!isfinite(x)) {
            if (!s->n_nan && !s->n_inf)
                s->first_bad = s->n + i;
            *(isnan(x) ? &s->n_nan : &s->n_inf) += 1;
        } else if (x == 0) {
            s->n_zero++;
        } else {
            s->n_negative += x < 0;
            s->min = s->min > 0 && s->min < m ? s->min : m;
            s->max = s->max > m ? s->max : m;
        }
    }
    s->n += n;
}

/* The bits of magnitudes order like the magnitudes, and compilers vectorise this.  False if there is a NaN, inf or 0: then every value
 * must be examined. */
static bool scan_ordinary(struct scan_stats *s, const uint16_t *h, uint32_t n, enum dtype dtype)
{
    const uint16_t inf = dtype == DT_F16 ? 0x7c00 : 0x7f80;
    uint16_t min = UINT16_MAX, max = 0;
    uint32_t n_negative = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint16_t m = h[i] & 0x7fff;
        min = m < min ? m : min;
        max = m > max ? m : max;
        n_negative += h[i] >> 15;
    }
    if (!n || !min || max >= inf)
        return false;
    double low = (double)value_at(&min, dtype, 0), high = (double)value_at(&max, dtype, 0);
    s->min = s->min > 0 && s->min < low ? s->min : low;
    s->max = s->max > high ? s->max : high;
    s->n_negative += n_negative;
    s->n += n;
    return true;
}

static void scan_numbers(struct scan_stats *s, const void *data, enum dtype dtype, uint64_t n)
{
    enum { PIECE = 1 << 14 };
    bool small = (dtype == DT_F16 || dtype == DT_BF16) && (uintptr_t)data % 2 == 0;
    for (uint64_t at = 0; at < n; at += PIECE) {
        uint64_t k = n - at < PIECE ? n - at : PIECE;
        const char *p = (const char *)data + at * dtype_bytes(dtype);
        if (!small || !scan_ordinary(s, (const uint16_t *)(const void *)p, (uint32_t)k, dtype))
            scan_each(s, p, dtype, k);
    }
}

void scan_add(struct scan_stats *sum, const struct scan_stats *s)
{
    if (!sum->n_nan && !sum->n_inf)
        sum->first_bad = sum->n + s->first_bad;
    sum->n += s->n;
    sum->n_nan += s->n_nan;
    sum->n_inf += s->n_inf;
    sum->n_zero += s->n_zero;
    sum->n_negative += s->n_negative;
    sum->min = sum->min > 0 && (s->min <= 0 || sum->min < s->min) ? sum->min : s->min;
    sum->max = sum->max > s->max ? sum->max : s->max;
}

static bool is_hole(int fd, uint64_t at, uint64_t n)
{
    off_t data = lseek(fd, (off_t)at, SEEK_DATA);
    return data < 0 ? errno == ENXIO : (uint64_t)data >= at + n;
}

bool scan_tensor(struct scan_stats *s, const struct safetensors *f, const struct tensor *t)
{
    uint64_t n = t->bytes / dtype_bytes(t->dtype);
    if (is_hole(f->fd, t->offset, t->bytes)) {
        scan_add(s, &(struct scan_stats){.n = n, .n_zero = n});
        return true;
    }
    void *data = memory_alloc(t->bytes + 1);
    bool ok = safetensors_read(f, t, data, NULL);
    if (ok)
        scan_numbers(s, data, t->dtype, n);
    free(data);
    return ok;
}

/* Mean magnitude of some of the values. */
static double mean_of(const void *data, enum dtype dtype, uint64_t n)
{
    uint64_t step = n > 4096 ? 7 : 1, k = 0;
    double sum = 0;
    for (uint64_t i = 0; i < n; i += step) {
        double m = fabs((double)value_at(data, dtype, i));
        sum += isfinite(m) ? m : 0;
        k++;
    }
    return k ? sum / (double)k : 0;
}

/* ---- one tensor */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

static enum kind kind_of(const char *name, const struct tensor *t)
{
    if (ends_with(name, ".qweight"))
        return INT4_DATA;
    if (ends_with(name, ".scales"))
        return INT4_SCALES;
    if (ends_with(name, ".qzeros"))
        return INT4_ZEROS;
    if (ends_with(name, ".weight_scale_inv"))
        return FP8_SCALES;
    if (!is_float(t->dtype))
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

/* A hole: packed INT4 never has so many zero bytes in a row, since each would be two weights of the largest negative value. */
static uint64_t find_hole(const uint8_t *p, uint64_t n)
{
    for (uint64_t at = 0; at + RUN <= n; at += RUN)
        if (only_zeros(p + at, RUN))
            return 1 + at;
    return 0;
}

static void look_at(struct scan *c, int i)
{
    const struct shard_tensor *t = &c->s->list[i];
    const uint8_t *p = safetensors_data(shards_file(c->s, t), t->t);
    struct look *l = &c->looks[i];
    uint64_t n = t->t->bytes, read = 0;
    if (!n)
        return;
    l->kind = kind_of(t->name, t->t);
    l->read = c->full || (l->kind != INT4_DATA && l->kind != MATRIX && l->kind != OTHER);
    l->all_zero = spots_are_zero(p, n) && only_zeros(p, n);
    if (l->read && is_float(t->t->dtype))
        scan_numbers(&l->stats, p, t->t->dtype, n / dtype_bytes(t->t->dtype));
    if (l->kind == INT4_SCALES || l->kind == FP8_SCALES) {
        l->constant = n < 4 || !memcmp(p, p + 2, n - 2);
        l->digest = digest(p, n);
        l->mean = mean_of(p, t->t->dtype, n / dtype_bytes(t->t->dtype));
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

static void *work(void *arg)
{
    struct scan *c = arg;
    for (int i; (i = atomic_fetch_add(&c->next, 1)) < c->s->n;)
        look_at(c, i);
    return NULL;
}

/* ---- findings */

static const char *file_of(const struct shards *s, const struct shard_tensor *t)
{
    return strrchr(shards_file(s, t)->path, '/') + 1;
}

#define AGAIN "fetch this file again"

static void judge_zeros(struct verify_report *r, const struct shards *s, const struct shard_tensor *t, const struct look *l)
{
    bool mtp = !strncmp(t->name, "mtp.", 4);
    if (l->all_zero && (l->kind == INT4_DATA || l->kind == INT4_SCALES || l->kind == FP8_SCALES || l->kind == MATRIX
                        || (l->kind == VECTOR && t->t->n_dims >= 2))) {
        struct finding *f = verify_add(r, FAULT, mtp ? "zeroed-mtp" : "zeroed", file_of(s, t), t->name, "all %llu bytes are 0",
                                       (unsigned long long)t->t->bytes);
        verify_expect(r, f, "weights");
        f->remedy = mtp ? "take the block from the INT4 checkpoint: move model_extra_tensors.safetensors away, then q35chat model add-mtp DIR --from"
                        : AGAIN;
    } else if (l->zero_run) {
        struct finding *f = verify_add(r, FAULT, "hole", file_of(s, t), t->name, "%d bytes of 0 in a row from byte %llu of the file on", RUN,
                                       (unsigned long long)(t->t->offset + l->zero_run - 1));
        verify_expect(r, f, "packed weights, which have no such run");
        f->remedy = AGAIN;
    }
}

static void judge_numbers(struct verify_report *r, const struct shards *s, const struct shard_tensor *t, const struct look *l)
{
    const struct scan_stats *v = &l->stats;
    double limit = l->kind == INT4_SCALES ? absurd_int4 : l->kind == FP8_SCALES ? absurd_fp8 : absurd_vector;
    bool scales = l->kind == INT4_SCALES || l->kind == FP8_SCALES;
    if (v->n_nan || v->n_inf) {
        struct finding *f = verify_add(r, FAULT, "not-finite", file_of(s, t), t->name, "%llu NaN and %llu inf among %llu numbers, the first at %llu",
                                       (unsigned long long)v->n_nan, (unsigned long long)v->n_inf, (unsigned long long)v->n,
                                       (unsigned long long)v->first_bad);
        verify_expect(r, f, "none");
        f->remedy = AGAIN;
    }
    if (v->max > limit) {
        struct finding *f = verify_add(r, FAULT, scales ? "absurd-scale" : "absurd", file_of(s, t), t->name, "a number of %.3g", v->max);
        verify_expect(r, f, "at most %g", limit);
        f->remedy = AGAIN;
    }
    if (l->kind == FP8_SCALES && v->n_negative) {
        struct finding *f = verify_add(r, FAULT, "absurd-scale", file_of(s, t), t->name, "%llu negative scales", (unsigned long long)v->n_negative);
        verify_expect(r, f, "none: those of FP8 are positive");
        f->remedy = AGAIN;
    }
    if (scales && v->n_zero && v->n_zero < v->n) {
        struct finding *f = verify_add(r, v->n_zero * 100 > v->n, "zero-scale", file_of(s, t), t->name, "%llu of %llu scales are 0",
                                       (unsigned long long)v->n_zero, (unsigned long long)v->n);
        verify_expect(r, f, "none");
        f->remedy = AGAIN;
    }
}

static void judge(struct verify_report *r, const struct shards *s, int i, const struct look *l)
{
    const struct shard_tensor *t = &s->list[i];
    judge_zeros(r, s, t, l);
    judge_numbers(r, s, t, l);
    if (l->n_odd_zeros) {
        struct finding *f = verify_add(r, FAULT, "odd-zeros", file_of(s, t), t->name, "%llu words of zero points are not 0x77777777",
                                       (unsigned long long)l->n_odd_zeros);
        verify_expect(r, f, "symmetric weights, whose zero point is 8");
        f->remedy = AGAIN;
    }
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
static void find_same(struct verify_report *r, const struct shards *s, const struct look *looks)
{
    struct seen *list = memory_alloc(((size_t)s->n + 1) * sizeof *list);
    int n = 0;
    for (int i = 0; i < s->n; i++)
        if ((looks[i].kind == INT4_SCALES || looks[i].kind == FP8_SCALES) && !looks[i].constant && s->list[i].t->bytes >= SAME_BYTES)
            list[n++] = (struct seen){looks[i].digest, i};
    qsort(list, (size_t)n, sizeof *list, by_digest);
    for (int k = 1; k < n; k++) {
        const struct shard_tensor *a = &s->list[list[k - 1].i], *b = &s->list[list[k].i];
        if (list[k - 1].digest != list[k].digest || a->t->bytes != b->t->bytes
            || memcmp(safetensors_data(shards_file(s, a), a->t), safetensors_data(shards_file(s, b), b->t), a->t->bytes))
            continue;
        struct finding *f = verify_add(r, FAULT, "same-scales", file_of(s, b), b->name, "the same bytes as %s in %s", a->name, file_of(s, a));
        verify_expect(r, f, "scales of its own");
        f->remedy = AGAIN;
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

static double mean_scale(const struct shards *s, const struct look *looks, const char *layer, int expert, const char *projection)
{
    char name[MAX_NAME];
    snprintf(name, sizeof name, "%smlp.experts.%d.%s_proj.scales", layer, expert, projection);
    const struct shard_tensor *t = shards_find(s, name);
    return t ? looks[t - s->list].mean : 0;
}

/* If gate and up have a common size ratio in all experts of a layer, an expert with the inverse ratio has the two exchanged.  If their
 * sizes are equal, an exchange cannot be detected. */
static void find_turned(struct verify_report *r, const struct shards *s, const struct look *looks, const char *layer, int n)
{
    double *ratio = memory_alloc((size_t)n * 2 * sizeof *ratio), *sorted = ratio + n;
    char name[MAX_NAME];
    int k = 0;
    for (; k < n; k++) {
        double gate = mean_scale(s, looks, layer, k, "gate"), up = mean_scale(s, looks, layer, k, "up");
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
            struct finding *f = verify_add(r, FAULT, "swapped-scales", file_of(s, t), t->name,
                                           "scales %.3f times those of up_proj on average, as if the two were exchanged", exp(ratio[i]));
            verify_expect(r, f, "about %.3f as in the layer's other experts", exp(m));
            f->remedy = AGAIN;
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

static struct difference compare_block(const uint8_t *q, double scale, const void *copy, enum dtype type, uint64_t rows, uint64_t cols,
                                       uint64_t pitch, uint64_t step)
{
    double off = 0, size = 0, both = 0, square = 0;
    for (uint64_t j = 0; j < rows; j += step)
        for (uint64_t i = 0; i < cols; i++) {
            double want = (double)value_at(copy, type, j * pitch + i), found = (double)fp8_f32(q[j * pitch + i]) * scale;
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

/* Some rows of each block, or all. */
static struct difference compare_matrix(const uint8_t *q, const void *scale, enum dtype scale_type, const uint8_t *copy, enum dtype type,
                                        uint64_t rows, uint64_t cols, bool full)
{
    uint64_t across = (cols + BLOCK - 1) / BLOCK;
    struct difference worst = {0, 1, false};
    for (uint64_t y = 0; y < rows; y += BLOCK)
        for (uint64_t x = 0; x < cols; x += BLOCK) {
            struct difference d = compare_block(q + y * cols + x, (double)value_at(scale, scale_type, y / BLOCK * across + x / BLOCK),
                                                copy + (y * cols + x) * dtype_bytes(type), type, rows - y < BLOCK ? rows - y : BLOCK,
                                                cols - x < BLOCK ? cols - x : BLOCK, cols, full ? 1 : 16);
            if (d.bad >= worst.bad && fabs(d.ratio - 1) >= fabs(worst.ratio - 1))
                worst = d;
        }
    return worst;
}

static void compare_copy(struct verify_report *r, const struct shards *s, const struct shard_tensor *t, const struct shard_tensor *scale,
                         const struct safetensors *f, const struct tensor *copy, bool full)
{
    struct difference d = compare_matrix(safetensors_data(shards_file(s, t), t->t), safetensors_data(shards_file(s, scale), scale->t),
                                         scale->t->dtype, safetensors_data(f, copy), copy->dtype, t->t->shape[0], t->t->shape[1], full);
    if (!d.bad)
        return;
    struct finding *found = verify_add(r, FAULT, "swapped-scales", file_of(s, t), t->name,
                                       "a block has %.3f times the numbers of the 16-bit copy in %s and differs by %.0f percent", d.ratio,
                                       strrchr(f->path, '/') + 1, 100 * d.off);
    verify_expect(r, found, "1.000 times and 2 to 3 percent: the scales or the matrix belong to another tensor");
    found->remedy = "build the hybrid again";
}

/* A linked hybrid still has the 16-bit matrices that FP8 replaced: equal values but for rounding. */
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
        if (!scale || !is_float(scale->t->dtype) || scale->t->bytes != n_scales * dtype_bytes(scale->t->dtype))
            continue;
        for (int k = 0; k < s->n_files; k++) {
            const struct tensor *copy = safetensors_find(&s->files[k], t->name);
            if (is_copy(copy, t->t))
                compare_copy(r, s, t, scale, &s->files[k], copy, full);
        }
    }
}

/* ---- all */

void scan_shards(const struct shards *s, const struct model_config *c, bool full, struct verify_report *r)
{
    struct scan scan = {.s = s, .looks = memory_zeroed((size_t)s->n + 1, sizeof *scan.looks), .full = full};
    pthread_t threads[MAX_THREADS];
    int n = 0, usable = (int)sysconf(_SC_NPROCESSORS_ONLN);
    const char *prefix = shards_find(s, "model.embed_tokens.weight") ? "model." : "model.language_model.";
    for (int i = 0; i < s->n_files; i++)        /* the needed bytes are scattered between others */
        madvise((void *)(uintptr_t)s->files[i].map, s->files[i].size, full ? MADV_SEQUENTIAL : MADV_RANDOM);
    while (n < MAX_THREADS && n < usable && !pthread_create(&threads[n], NULL, work, &scan))
        n++;
    if (!n)
        work(&scan);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < s->n; i++)
        judge(r, s, i, &scan.looks[i]);
    find_same(r, s, scan.looks);
    for (int l = 0; l < c->n_layers; l++) {
        char layer[64];
        snprintf(layer, sizeof layer, "%slayers.%d.", prefix, l);
        find_turned(r, s, scan.looks, layer, c->n_experts);
    }
    compare_copies(r, s, full);
    r->read_bytes += atomic_load(&scan.n_read);
    free(scan.looks);
}
