/* Eight floats at a time with the compilers' vector types, and the conversions of stored numbers to fp32.  Plain
 * arithmetic: the same operations in the same order on every machine, whatever its vector width. */
#ifndef Q35_KERNELS_CPU_VEC_H
#define Q35_KERNELS_CPU_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/tensor.h"

typedef float    f32x8 __attribute__((vector_size(32)));
typedef int32_t  i32x8 __attribute__((vector_size(32)));
typedef uint32_t u32x8 __attribute__((vector_size(32)));
typedef uint16_t u16x8 __attribute__((vector_size(16)));
typedef uint8_t  u8x8  __attribute__((vector_size(8)));
typedef int8_t   i8x8  __attribute__((vector_size(8)));

#define LOAD(type, p) ({ type v_; memcpy(&v_, (p), sizeof v_); v_; })

static inline f32x8 splat(float x) { return (f32x8){x, x, x, x, x, x, x, x}; }

/* Fixed tree: lanes 0+4, 1+5, ... */
static inline float sum8(f32x8 v)
{
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

static inline float bits_f32(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static inline uint32_t f32_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }

static inline float bf16_f32(uint16_t h) { return bits_f32((uint32_t)h << 16); }

static inline uint16_t f32_bf16(float f)        /* round to nearest even; NaN stays NaN */
{
    uint32_t u = f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float f16_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, mag = h & 0x7fff;
    if (mag >= 0x7c00)                  /* infinity, NaN */
        return bits_f32(sign | 0x7f800000u | (mag & 0x3ff) << 13);
    return bits_f32(sign | f32_bits(bits_f32(mag << 13) * 0x1p112f));   /* re-bias; exact, subnormals too */
}

static inline uint16_t f32_f16(float f)         /* round to nearest even; overflow becomes infinity */
{
    uint32_t u = f32_bits(f), sign = u >> 16 & 0x8000, mag = u & 0x7fffffffu;
    if (mag > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00);
    if (mag >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00);
    if (mag < 0x38800000u)              /* subnormal: let the float adder round at bit 2^-24 */
        return (uint16_t)(sign | (f32_bits(bits_f32(mag) + 0.5f) - f32_bits(0.5f)));
    mag += 0xfff + (mag >> 13 & 1);
    return (uint16_t)(sign | (mag - 0x38000000u) >> 13);
}

static inline float fp8_f32(uint8_t x)          /* E4M3: no infinity, 0x7f is NaN */
{
    uint32_t mag = x & 0x7f;
    if (mag == 0x7f)
        return NAN;
    float f = bits_f32(mag << 20) * 0x1p120f;
    return x & 0x80 ? -f : f;
}

/* dst[i] = number i of src, which is F32, F16 or BF16. */
static inline void floats_f32(float *dst, const void *src, enum dtype type, size_t n)
{
    const uint16_t *half = src;
    if (type == DT_F32)
        memcpy(dst, src, n * sizeof *dst);
    else if (type == DT_BF16)
        for (size_t i = 0; i < n; i++)
            dst[i] = bf16_f32(half[i]);
    else
        for (size_t i = 0; i < n; i++)
            dst[i] = f16_f32(half[i]);
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

#endif
