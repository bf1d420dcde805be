/* For tests that choose numbers of drafts: a machine, known by what its steps and drafts take, and random numbers. */
#pragma once

#include <stdint.h>

#include "engine/gate.h"

/* Times of steps of 1 to 8 rows and of a draft, in units of a step of one row or in ms. */
struct machine {
    const char *name;
    double step[GATE_ROWS], draft;
    int    lot;                         /* drafts made before anybody looks at them */
};

static uint64_t seed;

static inline void random_begin(void) { seed = 88172645463325252u; }

static inline double random_number(void)        /* 0 to 1, by xorshift */
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (double)(seed >> 11) * 0x1p-53;
}
