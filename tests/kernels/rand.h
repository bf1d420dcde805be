/* Seeded random numbers and arrays for tests. */
#ifndef TESTS_KERNELS_RAND_H
#define TESTS_KERNELS_RAND_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static uint64_t rand_state = 88172645463325252ull;

static inline uint64_t rand_u64(void)           /* xorshift* (Vigna 2014) */
{
    rand_state ^= rand_state >> 12;
    rand_state ^= rand_state << 25;
    rand_state ^= rand_state >> 27;
    return rand_state * 2685821657736338717ull;
}
static inline float rand_unit(void) { return (float)(rand_u64() >> 40) * 0x1p-24f; }
static inline float rand_normal(void)           /* sum of uniforms, variance 1 */
{
    float s = -6;
    for (int i = 0; i < 12; i++)
        s += rand_unit();
    return s;
}
static inline float *rand_array(size_t n, float scale)
{
    float *p = malloc((n ? n : 1) * sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = rand_normal() * scale;
    return p;
}

#endif
