/* A fuzz test that can go on for as long as one likes: FUZZ_SECONDS instead of the seconds it has in `make test`, and FUZZ_SEED for other random
 * numbers than the same ones each time.  Both again repeat a run. */
#ifndef Q35_TESTS_FUZZ_LONG_RUN_H
#define Q35_TESTS_FUZZ_LONG_RUN_H

#include <stdbool.h>
#include <stdint.h>
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

#endif
