/* Conversions between stored numbers and fp32 in plain arithmetic, with the same bits on every machine. */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/both.h"
#include "kernels/tensor.h"

BOTH_FORCED float bits_f32(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
BOTH_FORCED uint32_t f32_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }

BOTH_FORCED float bf16_f32(uint16_t h) { return bits_f32((uint32_t)h << 16); }

BOTH_FORCED uint16_t f32_bf16(float f)        /* round to nearest even; NaN stays NaN */
{
    uint32_t u = f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Returns the bits of the fp32 number that equals an fp16 number with these bits. */
BOTH_FORCED uint32_t f16_f32_bits(uint32_t h)
{
    uint32_t sign = (h & 0x8000) << 16, mag = h & 0x7fff;
    if (mag >= 0x7c00)                  /* infinity, NaN */
        return sign | 0x7f800000u | (mag & 0x3ff) << 13;
    return sign | f32_bits(bits_f32(mag << 13) * 0x1p112f);     /* re-bias; exact, subnormals too */
}
BOTH_FORCED float f16_f32(uint16_t h) { return bits_f32(f16_f32_bits(h)); }

BOTH_FORCED uint16_t f32_f16(float f)         /* round to nearest even; overflow becomes infinity */
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

BOTH_FORCED float fp8_f32(uint8_t x)          /* E4M3: no infinity, 0x7f is NaN */
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
    const uint16_t *half = (const uint16_t *)src;
    if (type == DT_F32)
        memcpy(dst, src, n * sizeof *dst);
    else if (type == DT_BF16)
        for (size_t i = 0; i < n; i++)
            dst[i] = bf16_f32(half[i]);
    else
        for (size_t i = 0; i < n; i++)
            dst[i] = f16_f32(half[i]);
}
