/* Vectors of a KV cache in a warp: lane l holds numbers 8 l .. 8 l + 7.  Rotation, codes and blocks as kernels/cpu/kv.c defines them, to the bit:
 * sums in its order, no fused multiply-add. */
#pragma once

#include "kernels/cuda/common.cuh"

/* Rows that are made of codes: positions from..to-1 (multiples of KV_BLOCK) as [to - from, n_kv_heads, 256] bf16, not rotated any more; sinks are
 * copied. */
struct kv_expanded {
    uint16_t *k, *v;
    int       from, to;
};
void kv_expand(struct cuda_queue *q, const struct kv_rows &kv, const struct kv_expanded &x);

/* A warp has 8 tokens of a block, so that each byte of a value's codes is whole in one lane. */
enum { KV_TOKENS = 8, KV_WARPS = KV_BLOCK / KV_TOKENS, KV_NUMBERS = KV_DIM / 32 };

static __constant__ uint64_t kv_signs[2][KV_DIM / 64] = {KV_SIGNS_KEY, KV_SIGNS_VALUE};
static __constant__ float kv_levels_3[] = {KV_LEVELS_3}, kv_levels_4[] = {KV_LEVELS_4}, kv_thresholds_3[] = {KV_THRESHOLDS_3},
    kv_thresholds_4[] = {KV_THRESHOLDS_4};

/* One butterfly of a lane's numbers with those of lane ^ step; the lower lane keeps the sum. */
static __device__ __forceinline__ float butterfly(float x, int step, int lane)
{
    const float other = __shfl_xor_sync(~0u, x, step);
    return lane & step ? __fsub_rn(other, x) : __fadd_rn(x, other);
}

/* x = H x / 16 */
static __device__ __forceinline__ void kv_hadamard(float x[KV_NUMBERS], int lane)
{
#pragma unroll
    for (int step = 1; step < KV_NUMBERS; step *= 2)
#pragma unroll
        for (int j = 0; j < KV_NUMBERS; j++)
            if (!(j & step)) {
                const float a = x[j], b = x[j + step];
                x[j] = __fadd_rn(a, b);
                x[j + step] = __fsub_rn(a, b);
            }
#pragma unroll
    for (int step = 1; step < 32; step *= 2)
#pragma unroll
        for (int j = 0; j < KV_NUMBERS; j++)
            x[j] = butterfly(x[j], step, lane);
#pragma unroll
    for (int j = 0; j < KV_NUMBERS; j++)
        x[j] *= 0.0625f;
}

static __device__ __forceinline__ void kv_flip(float x[KV_NUMBERS], int role, int lane)
{
    const uint32_t sign = (uint32_t)(kv_signs[role][lane / 8] >> (lane % 8 * 8)) & 0xff;
#pragma unroll
    for (int j = 0; j < KV_NUMBERS; j++)
        x[j] = sign >> j & 1 ? -x[j] : x[j];
}

/* kv_rotate() and kv_unrotate() of a warp's vector. */
static __device__ __forceinline__ void kv_turn(float x[KV_NUMBERS], int role, int lane)
{
    kv_flip(x, role, lane);
    kv_hadamard(x, lane);
}
static __device__ __forceinline__ void kv_turn_back(float x[KV_NUMBERS], int role, int lane)
{
    kv_hadamard(x, lane);
    kv_flip(x, role, lane);
}

/* Returns x · y of a whole row, added in the order of the CPU's definition, without fused operations. */
static __device__ __forceinline__ float dot(const float x[KV_NUMBERS], const float y[KV_NUMBERS])
{
    float sum = __fmul_rn(x[0], y[0]);
#pragma unroll
    for (int j = 1; j < KV_NUMBERS; j++)
        sum = __fadd_rn(sum, __fmul_rn(x[j], y[j]));
#pragma unroll
    for (int step = 1; step < 32; step *= 2)
        sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, step));
    return sum;
}

static __device__ __forceinline__ uint16_t f16_bits(float x)
{
    return isnan(x) ? 0x7e00 : __half_as_ushort(__float2half_rn(x));
}

/* Codes 0, 1, ... of the levels; `half` of them are below zero. */
static __device__ __forceinline__ uint32_t nearest(const float *thresholds, int half, float z)
{
    int k = 0;
    for (int i = 0; i < half - 1; i++)
        k += fabsf(z) >= thresholds[i];
    return (uint32_t)(z >= 0 ? half + k : half - 1 - k);
}

/* Encodes a rotated row, of which each lane has KV_NUMBERS, in format f.  Returns the scale as fp16 bits; NaN if the row is not finite. */
static __device__ __forceinline__ uint16_t encode(enum kv_format f, int role, const float y[KV_NUMBERS], uint32_t codes[KV_NUMBERS])
{
    const float square = dot(y, y);
    if (!isfinite(square)) {
        for (int j = 0; j < KV_NUMBERS; j++)
            codes[j] = 0;
        return 0x7e00;
    }
    if (f == KV_INT8) {
        float max = 0;
        for (int j = 0; j < KV_NUMBERS; j++)
            max = fmaxf(max, fabsf(y[j]));
        max = warp_max(max);
        const float inv = __fdiv_rn(127, max);
        for (int j = 0; j < KV_NUMBERS; j++)
            codes[j] = (uint32_t)(128 + (max > 0 ? __float2int_rn(__fmul_rn(y[j], inv)) : 0));
        return f16_bits(max);
    }
    const float *thresholds = f == KV_TQ4 ? kv_thresholds_4 : kv_thresholds_3, *levels = f == KV_TQ4 ? kv_levels_4 : kv_levels_3;
    const float inv = __fdiv_rn(16, __fsqrt_rn(square));
    float level[KV_NUMBERS];
    for (int j = 0; j < KV_NUMBERS; j++) {
        codes[j] = nearest(thresholds, 1 << (kv_bits(f) - 1), square > 0 ? __fmul_rn(y[j], inv) : 0);
        level[j] = levels[codes[j]];
    }
    const float g = role == KV_KEY ? __fdiv_rn(square, dot(y, level)) : __fdiv_rn(__fsqrt_rn(square), __fsqrt_rn(dot(level, level)));
    return f16_bits(square > 0 ? g : 0);
}

/* Two 32-bit words of bytes: byte j gets bits low.. of the codes j of N tokens, one beside the other. */
template <int N> static __device__ __forceinline__ uint2 gather(const uint32_t codes[KV_TOKENS][KV_NUMBERS], int first, int bits, int low)
{
    uint32_t word[2] = {0, 0};
    const uint32_t mask = (1u << bits) - 1;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int j = 0; j < KV_NUMBERS; j++)
            word[j / 4] |= (codes[first + n][j] >> low & mask) << (bits * n + 8 * (j % 4));
    return make_uint2(word[0], word[1]);
}

/* Writes the codes of KV_TOKENS rows of values, those of several tokens side by side. */
static __device__ __forceinline__ void write_values(enum kv_format f, uint8_t *block, int warp, int lane, const uint32_t codes[KV_TOKENS][KV_NUMBERS])
{
    if (f == KV_INT8) {
#pragma unroll
        for (int n = 0; n < KV_TOKENS; n += 2) {
            uint32_t w[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                w[i] = codes[n][2 * i] | codes[n + 1][2 * i] << 8 | codes[n][2 * i + 1] << 16 | codes[n + 1][2 * i + 1] << 24;
            *(uint4 *)(block + (KV_TOKENS * warp + n) / 2 * 2 * KV_DIM + 16 * lane) = make_uint4(w[0], w[1], w[2], w[3]);
        }
    } else if (f == KV_TQ4) {
#pragma unroll
        for (int n = 0; n < KV_TOKENS; n += 2)
            *(uint2 *)(block + (KV_TOKENS * warp + n) / 2 * KV_DIM + 8 * lane) = gather<2>(codes, n, 4, 0);
    } else {
#pragma unroll
        for (int n = 0; n < KV_TOKENS; n += 4)
            *(uint2 *)(block + (KV_TOKENS * warp + n) / 4 * KV_DIM + 8 * lane) = gather<4>(codes, n, 2, 0);
        *(uint2 *)(block + KV_BLOCK * KV_DIM / 4 + warp * KV_DIM + 8 * lane) = gather<8>(codes, 0, 1, 2);
    }
}

/* Writes the codes of key n of a block. */
static __device__ __forceinline__ void write_key(enum kv_format f, uint8_t *block, int n, int lane, const uint32_t c[KV_NUMBERS])
{
    uint32_t low = 0, high = 0;
    if (f == KV_INT8) {
        *(uint2 *)(block + n * KV_DIM + 8 * lane) = make_uint2(c[0] | c[1] << 8 | c[2] << 16 | c[3] << 24,
                                                               c[4] | c[5] << 8 | c[6] << 16 | c[7] << 24);
    } else if (f == KV_TQ4) {
#pragma unroll
        for (int j = 0; j < KV_NUMBERS; j++)
            low |= c[j] << (4 * j);
        *(uint32_t *)(block + n * KV_DIM / 2 + 4 * lane) = low;
    } else {
#pragma unroll
        for (int j = 0; j < KV_NUMBERS; j++) {
            low |= (c[j] & 3) << (2 * j);
            high |= c[j] >> 2 << j;
        }
        *(uint16_t *)(block + n * KV_DIM / 4 + 2 * lane) = (uint16_t)low;
        block[KV_BLOCK * KV_DIM / 4 + n * KV_DIM / 8 + lane] = (uint8_t)high;
    }
}

/* Reads the lane's codes of key n of a block. */
static __device__ __forceinline__ void read_key(enum kv_format f, const uint8_t *block, int n, int lane, uint32_t c[KV_NUMBERS])
{
    if (f == KV_INT8) {
        const uint2 w = *(const uint2 *)(block + n * KV_DIM + 8 * lane);
#pragma unroll
        for (int j = 0; j < KV_NUMBERS; j++)
            c[j] = (j < 4 ? w.x : w.y) >> (8 * (j % 4)) & 0xff;
    } else if (f == KV_TQ4) {
        const uint32_t w = *(const uint32_t *)(block + n * KV_DIM / 2 + 4 * lane);
#pragma unroll
        for (int j = 0; j < KV_NUMBERS; j++)
            c[j] = w >> (4 * j) & 15;
    } else {
        const uint32_t low = *(const uint16_t *)(block + n * KV_DIM / 4 + 2 * lane), high = block[KV_BLOCK * KV_DIM / 4 + n * KV_DIM / 8 + lane];
#pragma unroll
        for (int j = 0; j < KV_NUMBERS; j++)
            c[j] = (low >> (2 * j) & 3) | (high >> j & 1) << 2;
    }
}

/* Byte j of two words, for each of a lane's numbers. */
static __device__ __forceinline__ uint32_t byte_of(const uint2 &w, int j) { return (j < 4 ? w.x : w.y) >> (8 * (j % 4)) & 0xff; }

/* Reads the lane's codes of value n of a block. */
static __device__ __forceinline__ void read_value(enum kv_format f, const uint8_t *block, int n, int lane, uint32_t c[KV_NUMBERS])
{
    if (f == KV_INT8) {
        const uint4 w = *(const uint4 *)(block + n / 2 * 2 * KV_DIM + 16 * lane);
        const uint32_t two[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int j = 0; j < KV_NUMBERS; j++)
            c[j] = two[j / 2] >> (16 * (j % 2) + 8 * (n % 2)) & 0xff;
    } else if (f == KV_TQ4) {
        const uint2 w = *(const uint2 *)(block + n / 2 * KV_DIM + 8 * lane);
#pragma unroll
        for (int j = 0; j < KV_NUMBERS; j++)
            c[j] = byte_of(w, j) >> (4 * (n % 2)) & 15;
    } else {
        const uint2 low = *(const uint2 *)(block + n / 4 * KV_DIM + 8 * lane);
        const uint2 high = *(const uint2 *)(block + KV_BLOCK * KV_DIM / 4 + n / 8 * KV_DIM + 8 * lane);
#pragma unroll
        for (int j = 0; j < KV_NUMBERS; j++)
            c[j] = (byte_of(low, j) >> (2 * (n % 4)) & 3) | (byte_of(high, j) >> (n % 8) & 1) << 2;
    }
}

static __device__ __forceinline__ float level_of(enum kv_format f, uint32_t code)
{
    return f == KV_INT8 ? (float)((int)code - 128) * (1.0f / 127) : f == KV_TQ4 ? kv_levels_4[code] : kv_levels_3[code];
}

/* Block of KV_BLOCK positions from `first` on of one head, keys or values: codes and scales. */
static __device__ __forceinline__ uint8_t *kv_codes_at(const struct kv_rows &kv, int role, int head, int first, uint16_t **scales)
{
    const size_t i = (size_t)(first / KV_BLOCK) * (size_t)kv.n_kv_heads + (size_t)head;
    *scales = (role == KV_KEY ? kv.k_scales : kv.v_scales) + i * KV_BLOCK;
    return role == KV_KEY ? kv.k_codes + i * kv_block_bytes(kv.k_format) : kv.v_codes + i * kv_block_bytes(kv.v_format);
}

/* A lane's part of an exact row. */
static __device__ __forceinline__ uint4 *kv_exact_at(const struct kv_rows &kv, int role, int head, int pos, int lane)
{
    const size_t row = (size_t)kv_exact_row(&kv, pos) * (size_t)kv.n_kv_heads + (size_t)head;
    return (uint4 *)(role == KV_KEY ? kv.k : kv.v) + row * (KV_DIM / 8) + (size_t)lane;
}

/* Encodes the exact rows of the block from `first` on of one head in format f, which is that of the role; KV_WARPS neighbouring warps. */
static __device__ __forceinline__ void kv_seal_block(const struct kv_rows &kv, enum kv_format f, int role, int head, int first)
{
    const int warp = (int)threadIdx.x / 32 % KV_WARPS, lane = (int)threadIdx.x % 32;
    uint16_t *scales;
    uint8_t *block = kv_codes_at(kv, role, head, first, &scales);
    uint32_t four[2][KV_NUMBERS] = {};  /* a byte for each of four tokens */
#pragma unroll 1                        /* it happens once in 64 steps, so that less code is better than fast code */
    for (int n = 0; n < KV_TOKENS; n++) {
        const int token = KV_TOKENS * warp + n;
        const uint4 bits = *kv_exact_at(kv, role, head, first + token, lane);
        float y[KV_NUMBERS] = {bf16_low(bits.x), bf16_high(bits.x), bf16_low(bits.y), bf16_high(bits.y),
                               bf16_low(bits.z), bf16_high(bits.z), bf16_low(bits.w), bf16_high(bits.w)};
        uint32_t codes[KV_NUMBERS];
        kv_turn(y, role, lane);
        const uint16_t scale = encode(f, role, y, codes);
        if (lane == 0)
            scales[token] = scale;
        if (role == KV_KEY)
            write_key(f, block, token, lane, codes);
#pragma unroll
        for (int j = 0; j < KV_NUMBERS; j++) {
            four[0][j] |= n < 4 ? codes[j] << (8 * n) : 0;
            four[1][j] |= n < 4 ? 0 : codes[j] << (8 * (n - 4));
        }
    }
    if (role == KV_KEY)
        return;
    uint32_t codes[KV_TOKENS][KV_NUMBERS];
#pragma unroll
    for (int n = 0; n < KV_TOKENS; n++)
#pragma unroll
        for (int j = 0; j < KV_NUMBERS; j++)
            codes[n][j] = four[n / 4][j] >> (8 * (n % 4)) & 0xff;
    write_values(f, block, warp, lane, codes);
}
