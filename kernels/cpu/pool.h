/* The resources of the CPU's step operations: threads for the plain operations that they are made of, and work space. */
#pragma once

#include <stddef.h>

#include "base/err.h"
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

static inline struct step_row step_row(const struct step_row *rows, int t)
{
    return rows ? rows[t] : (struct step_row){.index = t};
}

/* Returns the member of a slot's struct step_live that `at` is in that of slot 0; or NULL. */
static inline const int32_t *step_live_of(const int32_t *at, int slot)
{
    return at ? at + (size_t)slot * (sizeof(struct step_live) / sizeof *at) : NULL;
}

/* True if a row is used. */
static inline bool step_counts(const struct step_row *rows, const int32_t *n_valid, int t)
{
    const struct step_row r = step_row(rows, t);
    return !n_valid || r.index < *step_live_of(n_valid, r.slot);
}

/* Returns the number of rows up to the last one that is used. */
static inline int step_rows(const struct step_row *rows, const int32_t *n_valid, int n_rows)
{
    while (n_rows > 0 && !step_counts(rows, n_valid, n_rows - 1))
        n_rows--;
    return n_rows;
}

/* Rows from..from+n-1 of a call: all that it has of one slot.  Begins with {0}; false when there is no other run. */
struct step_run { int slot, from, n; };
static inline bool step_next_run(struct step_run *r, const struct step_row *rows, int n_rows)
{
    const int from = r->from + r->n;
    if (from >= n_rows)
        return false;
    *r = (struct step_run){.slot = step_row(rows, from).slot, .from = from};
    while (from + r->n < n_rows && step_row(rows, from + r->n).slot == r->slot) {
        CHECK(step_row(rows, from + r->n).index == r->n);
        r->n++;
    }
    return true;
}
