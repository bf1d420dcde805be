/* Eight floats at a time with the compilers' vector types.  Plain arithmetic: the same operations in the same order
 * on every machine, whatever its vector width. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/number.h"

typedef float    f32x8 __attribute__((vector_size(32)));
typedef int32_t  i32x8 __attribute__((vector_size(32)));
typedef uint32_t u32x8 __attribute__((vector_size(32)));
typedef uint16_t u16x8 __attribute__((vector_size(16)));
typedef uint8_t  u8x8  __attribute__((vector_size(8)));
typedef int8_t   i8x8  __attribute__((vector_size(8)));

#define LOAD(type, p) ({ type v_; memcpy(&v_, (p), sizeof v_); v_; })

static inline f32x8 splat(float x) { return (f32x8){x, x, x, x, x, x, x, x}; }

/* Sums the lanes in a fixed tree: 0+4, 1+5, ... */
static inline float sum8(f32x8 v)
{
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

static inline f32x8 load_f32(const float *p)      { return LOAD(f32x8, p); }
static inline f32x8 load_bf16(const uint16_t *p)
{
    u32x8 u = __builtin_convertvector(LOAD(u16x8, p), u32x8) << 16;
    return (f32x8)u;
}
static inline f32x8 load_f16(const uint16_t *p)
{
    f32x8 v;
    for (int i = 0; i < 8; i++)
        v[i] = f16_f32(p[i]);
    return v;
}
static inline f32x8 load_fp8(const uint8_t *p)
{
    u32x8 x = __builtin_convertvector(LOAD(u8x8, p), u32x8);
    f32x8 f = (f32x8)((x & 0x7f) << 20) * splat(0x1p120f);
    u32x8 nan = (u32x8)((x & 0x7f) == 0x7f) & 0x7fc00000u;
    return (f32x8)((u32x8)f | (x & 0x80) << 24 | nan);
}
static inline f32x8 load_i8(const int8_t *p)
{
    return __builtin_convertvector(LOAD(i8x8, p), f32x8);
}

static inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
static inline float silu(float x)    { return x / (1.0f + expf(-x)); }
static inline float gelu(float x, bool exact)
{
    return exact ? 0.5f * x * (1.0f + erff(x * 0.70710678f)) : 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}
