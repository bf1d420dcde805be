/* rope, kv_store, sigmoid_gate: the operations around attention for prompt rows.
 * Shapes    rope: heads with 2 * half rotated dims; kv_store: fp32 rows [n, n_kv_heads, 256] -> bf16 rows of the cache;
 *           sigmoid_gate: y [n, heads, dim], gate strided
 * Bytes     rope 16 * half a head, kv_store 6 bytes a value, sigmoid_gate 12;  4096 tokens of the 122B: 33 MB, 25 MB, 403 MB
 * Limit     bandwidth: a few flops a value.  At 4.5 TB/s 8, 6, 90 us
 * Launch    256 threads; rope: 8 tokens a block, whose angles are computed once; the others: four or eight values a thread
 * Layout    as the contracts have it, 16-byte loads and stores
 * Numerics  rope: angle in fp32, sine and cosine to 2 ulp at any position; the gate through __expf */
#include "kernels/cuda/halves.cuh"

enum { THREADS = 256, ROPE_TOKENS = 8 };

/* VEC values of a half per thread. */
template <int VEC> static __global__ void rope_kernel(struct rope_args a)
{
    extern __shared__ float2 turn[];            /* [ROPE_TOKENS, half] cos and sin, times scale */
    int t0 = (int)blockIdx.x * ROPE_TOKENS, n = min(ROPE_TOKENS, a.n_tokens - t0), steps = a.half / VEC;
    for (int i = (int)threadIdx.x; i < n * a.half; i += THREADS) {
        float s, c;
        const int t = t0 + i / a.half, pair = i % a.half, p = a.at ? rope_coordinate(a.at[t], pair) : a.first + t;
        sincosf((float)p * a.freq[pair], &s, &c);
        turn[i] = make_float2(c * a.scale, s * a.scale);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < n * a.n_heads * steps; i += THREADS) {
        int d = i % steps * VEC, h = i / steps % a.n_heads, t = i / steps / a.n_heads;
        float *x = a.x + (size_t)(t0 + t) * a.token_stride + (size_t)h * a.head_stride + d;
        const float2 *w = turn + t * a.half + d;
        float p[VEC], q[VEC];
        if (VEC == 4) {
            *(float4 *)p = *(const float4 *)x;
            *(float4 *)q = *(const float4 *)(x + a.half);
        } else {
            p[0] = x[0];
            q[0] = x[a.half];
        }
#pragma unroll
        for (int j = 0; j < VEC; j++) {
            float u = p[j] * w[j].x - q[j] * w[j].y;
            q[j] = q[j] * w[j].x + p[j] * w[j].y;
            p[j] = u;
        }
        if (VEC == 4) {
            *(float4 *)x = *(const float4 *)p;
            *(float4 *)(x + a.half) = *(const float4 *)q;
        } else {
            x[0] = p[0];
            x[a.half] = q[0];
        }
    }
}

static_assert(ROPE_TOKENS * 128 * sizeof(float2) <= 99 * 1024, "shared memory of a GB10, heads of 256");

extern "C" void rope_cuda(struct cuda_queue *q, const struct rope_args *a)
{
    bool four = a->half % 4 == 0 && a->token_stride % 4 == 0 && a->head_stride % 4 == 0 && (uintptr_t)a->x % 16 == 0;
    dim3 grid((unsigned)(a->n_tokens + ROPE_TOKENS - 1) / ROPE_TOKENS);
    size_t smem = ROPE_TOKENS * (size_t)a->half * sizeof(float2);
    launch(q, "rope", four ? rope_kernel<4> : rope_kernel<1>, grid, THREADS, smem, false, *a);
}

/* Eight values per thread, `row` values per position; block row 0: k, 1: v. */
static __global__ void kv_store_kernel(struct kv_store_args a, int row, size_t n)
{
    const float4 *x = (const float4 *)(blockIdx.y ? a.v : a.k);
    uint4 *y = (uint4 *)(blockIdx.y ? a.kv.v : a.kv.k);
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n)
        return;
    int token = (int)(i / (size_t)row);
    float4 lo = x[2 * i], hi = x[2 * i + 1];
    y[(size_t)kv_exact_row(&a.kv, a.pos + token) * (size_t)row + i % (size_t)row] =
        make_uint4(bf16_pair(lo.x, lo.y), bf16_pair(lo.z, lo.w), bf16_pair(hi.x, hi.y), bf16_pair(hi.z, hi.w));
}

extern "C" void kv_store_cuda(struct cuda_queue *q, const struct kv_store_args *a)
{
    int row = a->kv.n_kv_heads * a->kv.head_dim;
    size_t n = (size_t)row * (size_t)a->n_tokens / 8;
    if (a->kv.dtype != DT_BF16 || row % 8) {
        queue_note(q, "kv_store", cudaErrorInvalidValue);
        return;
    }
    dim3 grid((unsigned)((n + THREADS - 1) / THREADS), 2);
    launch(q, "kv_store", kv_store_kernel, grid, THREADS, 0, false, *a, row / 8, n);
}

/* y *= sigmoid(gate), VEC numbers a thread. */
template <int VEC> static __global__ void sigmoid_gate_kernel(struct sigmoid_gate_args a)
{
    int steps = a.head_dim / VEC;
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x, head = i / (size_t)steps;
    if (head >= (size_t)a.n_tokens * (size_t)a.n_heads)
        return;
    int d = (int)(i % (size_t)steps) * VEC;
    const float *g = a.gate + head / (size_t)a.n_heads * a.gate_token + head % (size_t)a.n_heads * a.gate_head + d;
    float *y = a.y + head * (size_t)a.head_dim + d;
    if (VEC == 4) {
        float4 u = *(const float4 *)g, v = *(const float4 *)y;
        v.x *= sigmoid_f(u.x);
        v.y *= sigmoid_f(u.y);
        v.z *= sigmoid_f(u.z);
        v.w *= sigmoid_f(u.w);
        *(float4 *)y = v;
    } else {
        y[0] *= sigmoid_f(g[0]);
    }
}

/* A block per token, whose y it writes as a product reads it. */
template <int HALVES>
static __global__ void __launch_bounds__(HALVES_THREADS) sigmoid_gate_product_kernel(const struct sigmoid_gate_args a, const struct halves_to to)
{
    const int quads = a.n_heads * a.head_dim / 4, per = a.head_dim / 4;
    const float4 *y = (const float4 *)a.y + (size_t)blockIdx.x * (size_t)quads;
    const float *gate = a.gate + (size_t)blockIdx.x * a.gate_token;
    float4 v[GATE_HELD], g[GATE_HELD];
    gpu_wait();
    gpu_next();
#pragma unroll
    for (int i = 0; i < GATE_HELD; i++) {
        const int at = (int)threadIdx.x + i * HALVES_THREADS;
        if (at < quads) {
            v[i] = y[at];
            g[i] = __ldcs((const float4 *)(gate + (size_t)(at / per) * a.gate_head) + at % per);
        }
    }
    auto apply = [&](auto open) {
#pragma unroll
        for (int i = 0; i < GATE_HELD; i++)
            if ((int)threadIdx.x + i * HALVES_THREADS < quads)
                v[i] = make_float4(v[i].x * open(g[i].x), v[i].y * open(g[i].y), v[i].z * open(g[i].z), v[i].w * open(g[i].w));
    };
    if (HALVES == 2 || a.most == 0) {
        apply(sigmoid_f);
        halves_row<GATE_HELD, HALVES>(to, (int)blockIdx.x, quads, v);
        return;
    }
    float undo;
    apply(sigmoid_fast);                /* as attention does */
    halves_put<GATE_HELD, HALVES>(to, (int)blockIdx.x, quads, v, halves_bound_factor(a.most, &undo));
    if (threadIdx.x == 0)
        to.undo[blockIdx.x] = undo;
}

/* `four`: addresses are multiples of 16 bytes. */
static bool gate_for_product(struct cuda_queue *q, const struct sigmoid_gate_args *a, bool four)
{
    const int cols = a->n_heads * a->head_dim;
    if (!four || linear_narrow(a->next) || a->next->cols != cols || cols > GATE_HELD * 4 * HALVES_THREADS || !halves_beside(q, a->n_tokens, cols))
        return false;
    auto kernel = gemm_halves(a->n_tokens) == 2 ? sigmoid_gate_product_kernel<2> : sigmoid_gate_product_kernel<1>;
    launch(q, "sigmoid_gate", kernel, dim3((unsigned)a->n_tokens), HALVES_THREADS, 0, true, *a, halves_place(q, a->n_tokens, cols));
    halves_made(q, a->y, a->n_tokens, cols, false);
    return true;
}

extern "C" void sigmoid_gate_cuda(struct cuda_queue *q, const struct sigmoid_gate_args *a)
{
    bool four = a->head_dim % 4 == 0 && a->gate_token % 4 == 0 && a->gate_head % 4 == 0
                && (uintptr_t)a->gate % 16 == 0 && (uintptr_t)a->y % 16 == 0;
    if (a->next && gate_for_product(q, a, four))
        return;
    size_t n = (size_t)a->n_tokens * (size_t)a->n_heads * (size_t)a->head_dim / (four ? 4 : 1);
    launch(q, "sigmoid_gate", four ? sigmoid_gate_kernel<4> : sigmoid_gate_kernel<1>, dim3((unsigned)((n + THREADS - 1) / THREADS)),
           THREADS, 0, false, *a);
}
