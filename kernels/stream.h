/* The residual stream of a decode step: fixed-point numbers, 64-bit integers in units of 2^-30.
 *
 * Kernels add to the stream in place with integer atomics, so a sum is exact and does not depend on the order of its addends.
 * A GB10 has almost no FP64 units, and its 64-bit conversions are just as slow, so both conversions below use 32-bit operations.
 *
 * What holds, for at most STREAM_ADDENDS addends to one number:
 * - An addend is rounded to the nearest unit, ties to even: it loses at most 2^-31.
 * - An addend that is NaN, infinite or at least STREAM_LIMIT in magnitude is not added: it overwrites the number with STREAM_POISON.
 * - Other sums stay below 2^62 units, so they never wrap, and a number that was overwritten stays more than 2^61 units away from 0
 *   whatever is added to it later.
 * - A number of 2^54 units (2^24) or more in magnitude reads as NaN.  So no later sum hides a poisoned number.
 * - Other numbers read as the nearest fp32 below 2^17, and within one ulp above. */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/both.h"

enum { STREAM_ADDENDS = 4096 };
#define STREAM_LIMIT  1048576.0f        /* 2^20 */
#define STREAM_POISON INT64_MIN

/* For a magnitude below STREAM_LIMIT. */
BOTH int64_t stream_round(float x)
{
    const float high = rintf(x * 1024), low = rintf((x * 1024 - high) * 1048576);      /* units of 2^-10; the rest in units of 2^-30 */
    return (int64_t)(int32_t)high * (1 << 20) + (int32_t)low;
}

BOTH int64_t stream_from_float(float x) { return fabsf(x) < STREAM_LIMIT ? stream_round(x) : STREAM_POISON; }

#ifndef __CUDACC__
/* Adds to a number without atomics.  Sums of a poisoned number may wrap: they stay far from 0. */
BOTH void stream_add(int64_t *to, float x)
{
    *to = fabsf(x) < STREAM_LIMIT ? (int64_t)((uint64_t)*to + (uint64_t)stream_round(x)) : STREAM_POISON;
}
#endif

/* One of the upper 9 bits is set if v must read as NaN. */
BOTH uint32_t stream_excess(int64_t v) { return (uint32_t)((uint64_t)v >> 32) + (1u << 22); }

/* Returns the float with these bits. */
BOTH float stream_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* v as fp32; NaN when `excess` says so. */
BOTH float stream_read(int64_t v, uint32_t excess)
{
    const int32_t high = (int32_t)(v >> 23);
    const float low = stream_float(((uint32_t)v & 0x7fffff) | 0x4b000000u);    /* 2^23 more than the lower 23 bits */
    return (float)high * 0x1p-7f + (low * 0x1p-30f + (excess >> 23 ? NAN : -0x1p-7f));         /* all but the last sum is exact */
}

BOTH float stream_to_float(int64_t v) { return stream_read(v, stream_excess(v)); }
