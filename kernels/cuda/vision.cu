/* patch_cut, patch_positions, patch_rope, gelu: what lies between the products of the vision tower.
 * Shapes    x [n_rows, cols] fp32, table [side^2, cols] bf16; qkv [n_rows, 3, heads, dim] fp32, q, k, v [heads, n, dim] bf16; gelu [n_rows, dim] fp32
 * Bytes     for 4096 patches of the 122B's tower: positions 38 MB and the table, rope 57 MB, of which it reads half in fp16 (85 MB from fp32)
 * Limit     bandwidth, mostly of L2
 * Launch    cut: a thread a pixel; positions: 128 threads a row; rope: 288 threads for 4 rows; gelu: 256 threads a row, where the
 *           product before it (linear.cu) does not apply it: in short chunks and in the exact form
 * Layout    qkv with own_form from GEMM_FINE + 1 rows on as linear_dense leaves it: rows of fp16, filled up to whole groups, and behind them what
 *           undoes their factors.  Before a product gelu leaves the product's fp16 copy alone (halves.cuh), its columns filled up to whole
 *           groups with zeros
 * Numerics  fp32; angles as in cpu/vision.c */
#include "kernels/cuda/halves.cuh"

enum { POSITION_THREADS = 128, ROPE_THREADS = 288, ROPE_ROWS = 4, GELU_HELD = 5 };

/* A thread has one pixel of the patch. */
static __global__ void __launch_bounds__(PATCH_SIDE * PATCH_SIDE) patch_cut_kernel(const struct patch_cut_args a)
{
    enum { AREA = PATCH_SIDE * PATCH_SIDE };
    const int k = (int)threadIdx.x;
    const struct patch_place p = patch_place(a.first + (int)blockIdx.x, a.grid_w);
    const size_t row = (size_t)(p.row * PATCH_SIDE + k / PATCH_SIDE), col = (size_t)(p.col * PATCH_SIDE + k % PATCH_SIDE);
    const uint8_t *rgb = a.rgb + (row * (size_t)(a.grid_w * PATCH_SIDE) + col) * 3;
    float *x = a.x + (size_t)blockIdx.x * PATCH_NUMBERS + k;
    gpu_wait();
    gpu_next();
#pragma unroll
    for (int c = 0; c < 3; c++)
        x[2 * c * AREA] = x[(2 * c + 1) * AREA] = patch_number(rgb[c]);
}

extern "C" void patch_cut_cuda(struct cuda_queue *q, const struct patch_cut_args *a)
{
    launch(q, "patch_cut", patch_cut_kernel, dim3((unsigned)a->n_rows), PATCH_SIDE * PATCH_SIDE, 0, true, *a);
}

/* Adds to x the rows of the table around each patch's place (kernels/vision.h).  A block per patch. */
static __global__ void __launch_bounds__(POSITION_THREADS) patch_positions_kernel(const struct patch_positions_args a)
{
    const int i = (int)blockIdx.x, cols = a.table.cols;
    const struct patch_place p = patch_place(a.first + i, a.grid_w);
    const struct patch_between r = patch_between(p.row, a.grid_h, a.side), c = patch_between(p.col, a.grid_w, a.side);
    const uint16_t *table = (const uint16_t *)a.table.data;
    const uint16_t *rows[4] = {table + (size_t)(r.low * a.side + c.low) * (size_t)cols, table + (size_t)(r.low * a.side + c.high) * (size_t)cols,
                               table + (size_t)(r.high * a.side + c.low) * (size_t)cols, table + (size_t)(r.high * a.side + c.high) * (size_t)cols};
    const float weights[4] = {(1 - r.part) * (1 - c.part), (1 - r.part) * c.part, r.part * (1 - c.part), r.part * c.part};
    float *x = a.x + (size_t)i * (size_t)cols;
    gpu_wait();
    gpu_next();
    for (int j = 2 * (int)threadIdx.x; j < cols; j += 2 * POSITION_THREADS) {
        float2 sum = make_float2(0, 0), old = *(const float2 *)(x + j);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint32_t two = __ldg((const uint32_t *)(rows[k] + j));
            sum = make_float2(fmaf(weights[k], bf16_low(two), sum.x), fmaf(weights[k], bf16_high(two), sum.y));
        }
        *(float2 *)(x + j) = make_float2(old.x + sum.x, old.y + sum.y);
    }
}

extern "C" void patch_positions_cuda(struct cuda_queue *q, const struct patch_positions_args *a)
{
    if (a->table.dtype != DT_BF16 || a->table.cols % 2)
        queue_note(q, "patch_positions", cudaErrorInvalidValue);
    else
        launch(q, "patch_positions", patch_positions_kernel, dim3((unsigned)a->n_rows), POSITION_THREADS, 0, true, *a);
}

/* Four numbers of fp32, or of fp16 that `undo` brings back. */
__device__ __forceinline__ float4 rope_load(const float *x, float) { return *(const float4 *)x; }
__device__ __forceinline__ float4 rope_load(const __half *x, float undo)
{
    const uint2 v = *(const uint2 *)x;
    const float2 a = __half22float2(*(const __half2 *)&v.x), b = __half22float2(*(const __half2 *)&v.y);
    return make_float4(a.x * undo, a.y * undo, b.x * undo, b.y * undo);
}

/* T: of qkv, rows of `stride` numbers; undo: factors of rows of fp16 */
template <class T>
static __global__ void __launch_bounds__(ROPE_THREADS) patch_rope_kernel(const struct patch_rope_args a, size_t stride, const float *undo)
{
    __shared__ float2 turns[ROPE_ROWS][PATCH_MAX_DIM / 2];      /* cosine and sine */
    __shared__ float part[ROPE_THREADS / 32];
    const int half = a.dim / 2, quarter = a.dim / 4, row0 = (int)blockIdx.x * ROPE_ROWS, n = min(ROPE_ROWS, a.n_rows - row0);
    const size_t width = (size_t)a.n_heads * (size_t)a.dim;
    float most = 0;                     /* of v */
    gpu_wait();
    gpu_next();
    for (int i = (int)threadIdx.x; i < n * half; i += ROPE_THREADS) {
        const int r = i / half, j = i % half;
        const struct patch_place p = patch_place(a.first + row0 + r, a.grid_w);
        const float angle = j < quarter ? (float)p.row * a.freq[j] : (float)p.col * a.freq[j - quarter];
        float2 turn;
        sincosf(angle, &turn.y, &turn.x);
        turns[r][j] = turn;
    }
    __syncthreads();
    /* a thread has four pairs, of which it loads all of q, k and v first */
    const int quads = half / 4;
    for (int i = (int)threadIdx.x; i < n * a.n_heads * quads; i += ROPE_THREADS) {
        const int j = i % quads * 4, head = i / quads % a.n_heads, r = i / quads / a.n_heads;
        const T *x = (const T *)a.qkv + (size_t)(row0 + r) * stride + (size_t)(head * a.dim + j);
        const float back = undo ? undo[row0 + r] : 1;
        const size_t at = ((size_t)head * (size_t)a.n + (size_t)(a.first + row0 + r)) * (size_t)a.dim + (size_t)j;
        const float2 *t = &turns[r][j];
        float4 lo[3], hi[3];
#pragma unroll
        for (int which = 0; which < 3; which++) {
            lo[which] = rope_load(x + (size_t)which * width, back);
            hi[which] = rope_load(x + (size_t)which * width + half, back);
        }
        most = fmaxf(most, fmaxf(most_of(lo[2]), most_of(hi[2])));
#pragma unroll
        for (int which = 0; which < 3; which++) {
            uint16_t *to = (uint16_t *)(which == 0 ? a.q : which == 1 ? a.k : a.v) + at;
            float4 u = lo[which], v = hi[which];
            if (which < 2) {
                u = make_float4(u.x * t[0].x - v.x * t[0].y, u.y * t[1].x - v.y * t[1].y, u.z * t[2].x - v.z * t[2].y, u.w * t[3].x - v.w * t[3].y);
                v = make_float4(v.x * t[0].x + lo[which].x * t[0].y, v.y * t[1].x + lo[which].y * t[1].y, v.z * t[2].x + lo[which].z * t[2].y,
                                v.w * t[3].x + lo[which].w * t[3].y);
            }
            *(uint2 *)to = make_uint2(bf16_pair(u.x, u.y), bf16_pair(u.z, u.w));
            *(uint2 *)(to + half) = make_uint2(bf16_pair(v.x, v.y), bf16_pair(v.z, v.w));
        }
    }
    if (!a.most)
        return;
    most = warp_max(most);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = most;
    __syncthreads();
    most = warp_max(threadIdx.x < ROPE_THREADS / 32 ? part[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0)
        atomicMax((int *)a.most, __float_as_int(most));         /* positive numbers have the order of their bits */
}

extern "C" void patch_rope_cuda(struct cuda_queue *q, const struct patch_rope_args *a)
{
    const dim3 grid((unsigned)((a->n_rows + ROPE_ROWS - 1) / ROPE_ROWS));
    const int cols = 3 * a->n_heads * a->dim;
    if (a->dtype != DT_BF16 || a->dim > PATCH_MAX_DIM || a->dim % 8)
        queue_note(q, "patch_rope", cudaErrorInvalidValue);
    else if (a->own_form && gemm_halves(a->n_rows) == 1)
        launch(q, "patch_rope", patch_rope_kernel<__half>, grid, ROPE_THREADS, 0, true, *a, (size_t)pack_groups(cols) * PACK_GROUP,
               (const float *)((const char *)a->qkv + gemm_factors_at((size_t)a->n_rows, cols)));
    else
        launch(q, "patch_rope", patch_rope_kernel<float>, grid, ROPE_THREADS, 0, true, *a, (size_t)cols, (const float *)NULL);
}

template <bool EXACT> static __device__ __forceinline__ float gelu_of(float x)
{
    return EXACT ? 0.5f * x * (1.0f + erff(x * 0.70710678f)) : gelu_f(x);
}
template <bool EXACT> static __device__ __forceinline__ float4 gelu_four(const float4 &v)
{
    return make_float4(gelu_of<EXACT>(v.x), gelu_of<EXACT>(v.y), gelu_of<EXACT>(v.z), gelu_of<EXACT>(v.w));
}

template <bool EXACT> static __global__ void __launch_bounds__(HALVES_THREADS) gelu_kernel(float *x, int quads)
{
    float4 *row = (float4 *)x + (size_t)blockIdx.x * (size_t)quads;
    gpu_wait();
    gpu_next();
    for (int i = (int)threadIdx.x; i < quads; i += HALVES_THREADS)
        row[i] = gelu_four<EXACT>(row[i]);
}
template <bool EXACT, int HALVES>
static __global__ void __launch_bounds__(HALVES_THREADS) gelu_product_kernel(const float *x, int quads, const struct halves_to to)
{
    const float4 *row = (const float4 *)x + (size_t)blockIdx.x * (size_t)quads;
    float4 v[GELU_HELD] = {};
    gpu_wait();
    gpu_next();
#pragma unroll
    for (int i = 0; i < GELU_HELD; i++)
        if ((int)threadIdx.x + i * HALVES_THREADS < quads)
            v[i] = gelu_four<EXACT>(row[threadIdx.x + i * HALVES_THREADS]);
    halves_row<GELU_HELD, HALVES>(to, (int)blockIdx.x, quads, v);
}

template <bool EXACT> static void gelu(struct cuda_queue *q, const struct gelu_args *a)
{
    const dim3 grid((unsigned)a->n_rows);
    const int quads = a->dim / 4;
    if (!a->next || linear_narrow(a->next) || pack_groups(a->dim) * (PACK_GROUP / 4) > GELU_HELD * HALVES_THREADS
        || linear_scratch(a->n_rows, a->dim) > q->scratch_bytes) {
        launch(q, "gelu", gelu_kernel<EXACT>, grid, HALVES_THREADS, 0, true, a->x, quads);
        return;
    }
    auto kernel = gemm_halves(a->n_rows) == 2 ? gelu_product_kernel<EXACT, 2> : gelu_product_kernel<EXACT, 1>;
    launch(q, "gelu", kernel, grid, HALVES_THREADS, 0, true, a->x, quads, halves_place(q, a->n_rows, a->dim));
    halves_made(q, a->x, a->n_rows, a->dim, false);
}

extern "C" void gelu_cuda(struct cuda_queue *q, const struct gelu_args *a)
{
    if (a->dim % 4)
        queue_note(q, "gelu", cudaErrorInvalidValue);
    else if (a->exact)
        gelu<true>(q, a);
    else
        gelu<false>(q, a);
}
