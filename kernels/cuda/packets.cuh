/* Packets: rows between two operations of a chunk in half the bytes of fp32.
 *
 * A packet is 16 neighbouring columns of a row in 32 bytes.  Word g has column g as a whole number plus 16384 in 15 bits, column g + 8 as one plus
 * 32768 in the upper 16, and between them, in bit 15, bit g of an exponent that all 16 share.  So a number is off by at most 2^-15 of the greatest
 * magnitude of the packet, or 2^-16: some ten times less than in fp16.  A packet with NaN or infinity has nothing but NaN.
 *
 * The bits of a packet depend on its 16 numbers alone. */
#pragma once

#include "kernels/cuda/common.cuh"

extern "C" {
#include "kernels/gemm.h"
}

/* 2^23, whose last place is 1, plus what the halves of a word add. */
static const float PACKET_LOWER = 8388608.0f + 16384, PACKET_UPPER = 8388608.0f + 32768;

/* Magnitudes of two tokens in one register, as far as packets need them: the upper 16 bits of fp32 without sign. */
__device__ __forceinline__ uint32_t packet_magnitudes(float first, float second)
{
    return __byte_perm(__float_as_uint(first), __float_as_uint(second), 0x7632) & 0x7fff7fffu;
}
/* The exponents, in place, with which eight lanes 4 apart store their magnitudes.  The numbers of a packet are below 2^15 (1 - 2^-8), so they never
 * round up to 2^15. */
__device__ __forceinline__ uint32_t packet_exponents(uint32_t m)
{
    m = __vmaxu2(m, __shfl_xor_sync(~0u, m, 4));
    m = __vmaxu2(m, __shfl_xor_sync(~0u, m, 8));
    m = __vmaxu2(m, __shfl_xor_sync(~0u, m, 16));
    return __vminu2(m + 0x00010001u, 0x7f807f80u);
}
/* Word g of a packet, columns g and g + 8; exponent: in the place that fp32 has for it, other bits are ignored. */
__device__ __forceinline__ uint32_t packet_word(float lo, float hi, uint32_t exponent, int g)
{
    const uint32_t e = max(exponent & 0x7f800000u, 15u << 23);
    const uint32_t a = __float_as_uint(fmaf(lo, __uint_as_float((267u << 23) - e), PACKET_LOWER));
    const uint32_t b = __float_as_uint(fmaf(hi, __uint_as_float((268u << 23) - e), PACKET_UPPER));
    return __byte_perm((a & 0x7fffu) | (e >> (8 + g) & 0x8000u), b, 0x5410);
}
/* Stores the packets of a tile of 16 columns and the two tokens of which a lane has lo, columns g, and hi, columns g + 8; a lane stores word g of
 * those that are there.  Called by the whole warp; row[c]: the tile's first word in the row of token c. */
__device__ __forceinline__ void packets_store(uint32_t *const row[2], const bool there[2], int g, const float lo[2], const float hi[2])
{
    const uint32_t e = packet_exponents(__vmaxu2(packet_magnitudes(lo[0], lo[1]), packet_magnitudes(hi[0], hi[1])));
    if (there[0])
        row[0][g] = packet_word(lo[0], hi[0], e << 16, g);
    if (there[1])
        row[1][g] = packet_word(lo[1], hi[1], e, g);
}

/* Bit g of the exponent, in its place. */
__device__ __forceinline__ uint32_t packet_bit(uint32_t word, int g) { return (word >> 15 & 1) << g; }
/* The unit of the numbers of a packet with that exponent. */
__device__ __forceinline__ float packet_unit(uint32_t exponent)
{
    return exponent == 255 ? __uint_as_float(0x7f800000u) : __uint_as_float((exponent - 14) << 23);
}
/* Columns g and g + 8 of word g. */
__device__ __forceinline__ float2 packet_numbers(uint32_t word, float unit)
{
    const float lo = __uint_as_float((word & 0x7fffu) | 0x4b000000u), hi = __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7632));
    return make_float2(fmaf(lo, 2 * unit, -PACKET_LOWER * (2 * unit)), fmaf(hi, unit, -PACKET_UPPER * unit));
}

/* All columns of a packet. */
__device__ __forceinline__ void packet_all(float v[16], const uint4 &first, const uint4 &second)
{
    const uint32_t word[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
    uint32_t e = 0;
#pragma unroll
    for (int g = 0; g < 8; g++)
        e |= packet_bit(word[g], g);
    const float unit = packet_unit(e);
#pragma unroll
    for (int g = 0; g < 8; g++) {
        const float2 two = packet_numbers(word[g], unit);
        v[g] = two.x;
        v[g + 8] = two.y;
    }
}

/* Four columns of a row of packets for each lane, in the order in which they lie: c, c + 1, c + 8, c + 9 with c = packet_column(at).  Lane i has at
 * = i plus a multiple of 32; packet_four() is called by the whole warp. */
__device__ __forceinline__ int packet_column(int at) { return at / 4 * 16 + at % 4 * 2; }
__device__ __forceinline__ float4 packet_four(const uint2 &v, int at)
{
    uint32_t e = packet_bit(v.x, at % 4 * 2) | packet_bit(v.y, at % 4 * 2 + 1);
    e |= __shfl_xor_sync(~0u, e, 1);
    e |= __shfl_xor_sync(~0u, e, 2);
    const float unit = packet_unit(e);
    const float2 a = packet_numbers(v.x, unit), b = packet_numbers(v.y, unit);
    return make_float4(a.x, b.x, a.y, b.y);
}
