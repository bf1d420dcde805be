#include "prepare/scan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/worker.h"
#include "kernels/number.h"

float scan_value(const void *data, enum dtype t, uint64_t i)
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

bool scan_is_float(enum dtype t)
{
    return t == DT_F32 || t == DT_BF16 || t == DT_F16 || t == DT_F8_E4M3;
}

/* Counts value by value. */
static void scan_each(struct scan_stats *s, const void *data, enum dtype dtype, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        double x = (double)scan_value(data, dtype, i), m = fabs(x);
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

/* Counts ordinary values: the bits of magnitudes order like the magnitudes, and compilers vectorise this.  False if there is a NaN, inf or 0:
 * then every value must be examined. */
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
    double low = (double)scan_value(&min, dtype, 0), high = (double)scan_value(&max, dtype, 0);
    s->min = s->min > 0 && s->min < low ? s->min : low;
    s->max = s->max > high ? s->max : high;
    s->n_negative += n_negative;
    s->n += n;
    return true;
}

void scan_numbers(struct scan_stats *s, const void *data, enum dtype dtype, uint64_t n)
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

/* True if these bytes of a sparse file are not on disk. */
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

double scan_mean(const void *data, enum dtype dtype, uint64_t n)
{
    uint64_t step = n > 4096 ? 7 : 1, k = 0;
    double sum = 0;
    for (uint64_t i = 0; i < n; i += step) {
        double m = fabs((double)scan_value(data, dtype, i));
        sum += isfinite(m) ? m : 0;
        k++;
    }
    return k ? sum / (double)k : 0;
}

struct pass {
    void (*each)(void *arg, int i);
    void *arg;
};

static bool pass_one(void *arg, uint64_t i, void *scratch, struct err *e)
{
    const struct pass *p = arg;
    (void)scratch, (void)e;
    p->each(p->arg, (int)i);
    return true;
}

void scan_each_tensor(const struct shards *s, void (*each)(void *arg, int i), void *arg)
{
    struct pass p = {each, arg};
    worker_run_jobs(&(struct worker_jobs){.n = (uint64_t)s->n, .job = pass_one, .arg = &p}, NULL);
}
