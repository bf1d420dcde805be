/* A fuzz test that can run for as long as one likes: FUZZ_SECONDS instead of the seconds it has in `make test`, and FUZZ_SEED for other random
 * numbers than the same ones each time.  The same values of both repeat a run. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

struct long_run {
    int64_t start;
    double  ms;
    long    least, n;   /* inputs, however long they take; inputs so far */
};

static inline uint64_t long_run_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* Seeds of neighbouring numbers begin far from each other (splitmix64). */
static inline uint64_t long_run_seed(uint64_t otherwise)
{
    if (!getenv("FUZZ_SEED"))
        return otherwise;
    uint64_t z = long_run_number("FUZZ_SEED", 0) + 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline struct long_run long_run_begin(int seconds, long least)
{
    return (struct long_run){.start = clock_ns(), .ms = 1000.0 * (double)long_run_number("FUZZ_SECONDS", (uint64_t)seconds), .least = least};
}

/* The condition of the test's loop; counts its inputs. */
static inline bool long_run_goes_on(struct long_run *r)
{
    return (r->n < r->least || clock_ms_since(r->start) < r->ms) && ++r->n;
}

/* Prints how many inputs or steps there were, and how many a second. */
static inline void long_run_print(const struct long_run *r, long n, const char *what)
{
    const double ms = clock_ms_since(r->start);
    printf("%ld %s, %.0f a second\n", n, what, 1000.0 * (double)n / (ms > 1 ? ms : 1));
}
