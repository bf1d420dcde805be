/* Heads in the attention of a step, over exact and over compressed rows: norm, rope, and the sums of their ranges. */
#pragma once

#include "kernels/cuda/attention.cuh"

enum { DIM = 256 };

/* step_attention of compressed rows, arguments checked but for formats. */
void step_attention_codes(struct cuda_queue *q, const struct step_attention_args *a);

/* The outcome of (row, head, range): 256 sums; behind those of all, at partial_ends(), the greatest logit and the sum of weights. */
static __device__ __forceinline__ size_t partial(int row, int n_heads, int head, int range)
{
    return ((size_t)row * (size_t)n_heads + (size_t)head) * STEP_RANGES + (size_t)range;
}
static __device__ __forceinline__ float *partial_ends(const struct step_attention_args &a)
{
    return (float *)a.scratch + (size_t)STEP_ROWS * (size_t)a.n_q_heads * STEP_RANGES * DIM;
}

static __device__ __forceinline__ uint4 eight_bf16(const float v[8])
{
    return make_uint4(bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]), bf16_pair(v[4], v[5]), bf16_pair(v[6], v[7]));
}

/* Returns the position by which rope turns the row of a slot whose KV row is p. */
static __device__ __forceinline__ struct rope_position turned_at(const struct step_attention_args &a, int slot, int p)
{
    if (!a.rope_offset)
        return {p, p, p};
    const int32_t *offset = live_of(&a.rope_offset->t, slot);
    return {p + offset[0], p + offset[1], p + offset[2]};
}

/* Norm and rope of one head by a warp, eight values a lane: `w` holds the lane's norm weights and `z` those of the values that
 * its own turn with; what does not turn has itself for a partner. */
struct head_norm {
    float w[8], z[8];
    int   at, mate[2];
};
static __device__ __forceinline__ void load_eight(float v[8], const float *lo, const float *hi)
{
    *(float4 *)v = *(const float4 *)lo;
    *(float4 *)(v + 4) = *(const float4 *)hi;
}
/* Loads the norm's weights of a lane's eight numbers and of their mates in the rotation. */
static __device__ __forceinline__ struct head_norm head_norm_of(const float *weights, int half, int lane)
{
    struct head_norm h;
    h.at = 8 * lane;
#pragma unroll
    for (int j = 0; j < 2; j++) {
        int d = h.at + 4 * j;
        h.mate[j] = d < half ? d + half : d < 2 * half ? d - half : d;
    }
    load_eight(h.w, weights + h.at, weights + h.at + 4);
    load_eight(h.z, weights + h.mate[0], weights + h.mate[1]);
    return h;
}
/* sincosf() of 0 <= x < 2^22 without its way for large arguments, which is in fp64.  pi / 2 in three parts: the first one times a whole number
 * of 24 bits leaves an exact rest, so the error stays below 2 ulp. */
static __device__ __forceinline__ float2 cos_sin(float x)
{
    const int quarter = __float2int_rn(x * 0.636619747f);
    const float q = (float)quarter, r = fmaf(q, -5.39030295e-15f, fmaf(q, -7.54978942e-08f, fmaf(q, -1.57079625f, x)));
    float s, c;
    __builtin_assume(fabsf(r) < 2);
    sincosf(r, &s, &c);
    const float2 v = quarter & 1 ? make_float2(-s, c) : make_float2(c, s);
    return quarter & 2 ? make_float2(-v.x, -v.y) : v;
}

/* Writes cosine and sine of every pair of n rows, the first of them at `at`, to turn[n, half].  By all threads of the block. */
static __device__ __forceinline__ void turn_rows(float2 *turn, const struct step_attention_args &a, struct rope_position at, int n)
{
    for (int i = (int)threadIdx.x; i < n * a.half; i += (int)blockDim.x) {
        const int pair = i % a.half;
        const float2 v = cos_sin((float)(rope_coordinate(at, pair) + i / a.half) * a.freq[pair]);
        turn[i] = make_float2(v.x * a.rope_scale, v.y * a.rope_scale);
    }
}

/* v: the lane's values, u: their partners, turn: cos and sin of the row. */
static __device__ __forceinline__ uint4 norm_and_turn(const struct head_norm &h, float v[8], const float u[8], const float2 *turn,
                                                      int half, float eps)
{
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 8; j++)
        sum = fmaf(v[j], v[j], sum);
    float s = 1.0f / sqrtf(warp_sum(sum) * (1.0f / DIM) + eps);
#pragma unroll
    for (int j = 0; j < 8; j++)
        v[j] = v[j] * s * (1.0f + h.w[j]);
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
        int d = h.at + j;
        if (d >= 2 * half)
            continue;
        const float2 *c = turn + (d < half ? d : d - half);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float mate = u[j + e] * s * (1.0f + h.z[j + e]);
            v[j + e] = d < half ? v[j + e] * c[e].x - mate * c[e].y : v[j + e] * c[e].x + mate * c[e].y;
        }
    }
    return eight_bf16(v);
}
