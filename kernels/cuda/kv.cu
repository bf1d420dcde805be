/* kv_seal: exact rows of a KV cache to codes, by blocks of 64 positions.
 * Shapes    exact rows [kv_heads, 256] bf16; codes and scales of a block (kernels/kv.h)
 * Bytes     a position and KV head: 1 KiB read, 260 B written with 4 bits
 * Limit     none that counts: a block every 64 positions
 * Launch    grid (blocks, kv_heads, keys and values), 8 warps, 8 positions a warp, 8 numbers a lane
 * Layout    a warp has 8 positions, so that each byte of a value's codes is whole in one lane
 * Numerics  the bits of kernels/cpu/kv.c: sums in its order, no fused multiply-add */
#include "kernels/cuda/common.cuh"

enum { TOKENS = 8, WARPS = KV_BLOCK / TOKENS, NUMBERS = KV_DIM / 32 };

static __constant__ uint64_t signs[2][KV_DIM / 64] = {KV_SIGNS_KEY, KV_SIGNS_VALUE};
static __constant__ float levels_3[] = {KV_LEVELS_3}, levels_4[] = {KV_LEVELS_4}, thresholds_3[] = {KV_THRESHOLDS_3}, thresholds_4[] = {KV_THRESHOLDS_4};

/* One butterfly of a lane's numbers with those of lane ^ step; the lower lane keeps the sum. */
static __device__ __forceinline__ float butterfly(float x, int step, int lane)
{
    const float other = __shfl_xor_sync(~0u, x, step);
    return lane & step ? __fsub_rn(other, x) : __fadd_rn(x, other);
}

/* y = H (s * x) / 16 of a warp's vector. */
static __device__ __forceinline__ void rotate(float x[NUMBERS], int role, int lane)
{
    const uint32_t sign = (uint32_t)(signs[role][lane / 8] >> (lane % 8 * 8)) & 0xff;
#pragma unroll
    for (int j = 0; j < NUMBERS; j++)
        x[j] = sign >> j & 1 ? -x[j] : x[j];
#pragma unroll
    for (int step = 1; step < NUMBERS; step *= 2)
#pragma unroll
        for (int j = 0; j < NUMBERS; j++)
            if (!(j & step)) {
                const float a = x[j], b = x[j + step];
                x[j] = __fadd_rn(a, b);
                x[j + step] = __fsub_rn(a, b);
            }
#pragma unroll
    for (int step = 1; step < 32; step *= 2)
#pragma unroll
        for (int j = 0; j < NUMBERS; j++)
            x[j] = butterfly(x[j], step, lane);
#pragma unroll
    for (int j = 0; j < NUMBERS; j++)
        x[j] *= 0.0625f;
}

static __device__ __forceinline__ float dot(const float x[NUMBERS], const float y[NUMBERS])
{
    float sum = __fmul_rn(x[0], y[0]);
#pragma unroll
    for (int j = 1; j < NUMBERS; j++)
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

static __device__ __forceinline__ uint16_t encode(enum kv_format f, int role, const float y[NUMBERS], uint32_t codes[NUMBERS])
{
    const float square = dot(y, y);
    if (!isfinite(square)) {
        for (int j = 0; j < NUMBERS; j++)
            codes[j] = 0;
        return 0x7e00;
    }
    if (f == KV_INT8) {
        float max = 0;
        for (int j = 0; j < NUMBERS; j++)
            max = fmaxf(max, fabsf(y[j]));
        max = warp_max(max);
        const float inv = __fdiv_rn(127, max);
        for (int j = 0; j < NUMBERS; j++)
            codes[j] = (uint32_t)(128 + (max > 0 ? __float2int_rn(__fmul_rn(y[j], inv)) : 0));
        return f16_bits(max);
    }
    const float *thresholds = f == KV_TQ4 ? thresholds_4 : thresholds_3, *levels = f == KV_TQ4 ? levels_4 : levels_3;
    const float inv = __fdiv_rn(16, __fsqrt_rn(square));
    float level[NUMBERS];
    for (int j = 0; j < NUMBERS; j++) {
        codes[j] = nearest(thresholds, 1 << (kv_bits(f) - 1), square > 0 ? __fmul_rn(y[j], inv) : 0);
        level[j] = levels[codes[j]];
    }
    const float g = role == KV_KEY ? __fdiv_rn(square, dot(y, level)) : __fdiv_rn(__fsqrt_rn(square), __fsqrt_rn(dot(level, level)));
    return f16_bits(square > 0 ? g : 0);
}

/* Two 32-bit words of bytes: byte j gets bits low.. of the codes j of N tokens, one beside the other. */
template <int N> static __device__ __forceinline__ uint2 gather(const uint32_t codes[TOKENS][NUMBERS], int first, int bits, int low)
{
    uint32_t word[2] = {0, 0};
    const uint32_t mask = (1u << bits) - 1;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int j = 0; j < NUMBERS; j++)
            word[j / 4] |= (codes[first + n][j] >> low & mask) << (bits * n + 8 * (j % 4));
    return make_uint2(word[0], word[1]);
}

static __device__ __forceinline__ void write_values(enum kv_format f, uint8_t *block, int warp, int lane, const uint32_t codes[TOKENS][NUMBERS])
{
    if (f == KV_INT8) {
#pragma unroll
        for (int n = 0; n < TOKENS; n += 2) {
            uint32_t w[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                w[i] = codes[n][2 * i] | codes[n + 1][2 * i] << 8 | codes[n][2 * i + 1] << 16 | codes[n + 1][2 * i + 1] << 24;
            *(uint4 *)(block + (TOKENS * warp + n) / 2 * 2 * KV_DIM + 16 * lane) = make_uint4(w[0], w[1], w[2], w[3]);
        }
    } else if (f == KV_TQ4) {
#pragma unroll
        for (int n = 0; n < TOKENS; n += 2)
            *(uint2 *)(block + (TOKENS * warp + n) / 2 * KV_DIM + 8 * lane) = gather<2>(codes, n, 4, 0);
    } else {
#pragma unroll
        for (int n = 0; n < TOKENS; n += 4)
            *(uint2 *)(block + (TOKENS * warp + n) / 4 * KV_DIM + 8 * lane) = gather<4>(codes, n, 2, 0);
        *(uint2 *)(block + KV_BLOCK * KV_DIM / 4 + warp * KV_DIM + 8 * lane) = gather<8>(codes, 0, 1, 2);
    }
}

static __device__ __forceinline__ void write_key(enum kv_format f, uint8_t *block, int n, int lane, const uint32_t c[NUMBERS])
{
    uint32_t low = 0, high = 0;
    if (f == KV_INT8) {
        *(uint2 *)(block + n * KV_DIM + 8 * lane) = make_uint2(c[0] | c[1] << 8 | c[2] << 16 | c[3] << 24, c[4] | c[5] << 8 | c[6] << 16 | c[7] << 24);
    } else if (f == KV_TQ4) {
#pragma unroll
        for (int j = 0; j < NUMBERS; j++)
            low |= c[j] << (4 * j);
        *(uint32_t *)(block + n * KV_DIM / 2 + 4 * lane) = low;
    } else {
#pragma unroll
        for (int j = 0; j < NUMBERS; j++) {
            low |= (c[j] & 3) << (2 * j);
            high |= c[j] >> 2 << j;
        }
        *(uint16_t *)(block + n * KV_DIM / 4 + 2 * lane) = (uint16_t)low;
        block[KV_BLOCK * KV_DIM / 4 + n * KV_DIM / 8 + lane] = (uint8_t)high;
    }
}

static __global__ __launch_bounds__(WARPS * 32) void kv_seal_kernel(struct kv_seal_args a)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, head = (int)blockIdx.y, role = (int)blockIdx.z;
    const int first = a.from + (int)blockIdx.x * KV_BLOCK;
    const enum kv_format f = role == KV_KEY ? a.kv.k_format : a.kv.v_format;
    const size_t i = (size_t)(first / KV_BLOCK) * (size_t)a.kv.n_kv_heads + (size_t)head;
    uint8_t *block = (role == KV_KEY ? a.kv.k_codes : a.kv.v_codes) + i * kv_block_bytes(f);
    uint16_t *scales = (role == KV_KEY ? a.kv.k_scales : a.kv.v_scales) + i * KV_BLOCK;
    uint32_t codes[TOKENS][NUMBERS];
#pragma unroll
    for (int n = 0; n < TOKENS; n++) {
        const int token = TOKENS * warp + n;
        const size_t row = (size_t)kv_exact_row(&a.kv, first + token) * (size_t)a.kv.n_kv_heads + (size_t)head;
        const uint4 bits = ((const uint4 *)(role == KV_KEY ? a.kv.k : a.kv.v))[row * (KV_DIM / 8) + (size_t)lane];
        float y[NUMBERS] = {bf16_low(bits.x), bf16_high(bits.x), bf16_low(bits.y), bf16_high(bits.y),
                            bf16_low(bits.z), bf16_high(bits.z), bf16_low(bits.w), bf16_high(bits.w)};
        rotate(y, role, lane);
        const uint16_t scale = encode(f, role, y, codes[n]);
        if (lane == 0)
            scales[token] = scale;
        if (role == KV_KEY)
            write_key(f, block, token, lane, codes[n]);
    }
    if (role == KV_VALUE)
        write_values(f, block, warp, lane, codes);
}

extern "C" void kv_seal_cuda(struct cuda_queue *q, const struct kv_seal_args *a)
{
    if (a->kv.dtype != DT_BF16 || a->kv.head_dim != KV_DIM || a->from % KV_BLOCK || a->to % KV_BLOCK || (a->to > a->from && !kv_compressed(&a->kv))) {
        queue_note(q, "kv_seal", cudaErrorInvalidValue);
        return;
    }
    dim3 grid((unsigned)(a->to > a->from ? (a->to - a->from) / KV_BLOCK : 0), (unsigned)a->kv.n_kv_heads, 2);
    launch(q, "kv_seal", kv_seal_kernel, grid, WARPS * 32, 0, false, *a);
}
