/* What the CPU's step operations are given: threads for the plain operations that they are made of, and work space. */
#ifndef Q35_KERNELS_CPU_POOL_H
#define Q35_KERNELS_CPU_POOL_H

#include <stddef.h>

#include "kernels/ops.h"
#include "kernels/step.h"

typedef void cpu_units(const void *args, int begin, int end);

struct cpu_pool {
    /* Runs units 0..n-1 of fn, in pieces, on all threads when `bytes` are worth it. */
    void (*run)(struct cpu_pool *p, cpu_units *fn, const void *args, int n, size_t bytes);
    /* 64-byte aligned memory that is valid until the next call, of any content. */
    void *(*scratch)(struct cpu_pool *p, size_t bytes);
};

/* The plain operations on all threads: PLAIN(pool, rmsnorm, .y = h, .x = x, ...). */
#define OP(name)                                                                                  \
    static inline void name##_units_of(const void *a, int begin, int end) { name##_cpu(a, begin, end); } \
    static inline void name##_on(struct cpu_pool *p, const struct name##_args *a)                 \
    {                                                                                             \
        p->run(p, name##_units_of, a, name##_units(a), name##_bytes(a));                          \
    }
#include "kernels/ops.def"
#undef OP
#define PLAIN(p, op, ...) op##_on((p), &(struct op##_args){__VA_ARGS__})

/* The step operations. */
#define OP(name) void name##_cpu(struct cpu_pool *p, const struct name##_args *a);
#include "kernels/step.def"
#undef OP

/* Rows that count. */
static inline int step_rows(const int32_t *n_valid, int n_rows)
{
    return n_valid && *n_valid < n_rows ? *n_valid : n_rows;
}

/* y = W x for n rows, by the weight's own format. */
void step_product(struct cpu_pool *p, float *y, const float *x, const struct weight *w, int n);

#endif
