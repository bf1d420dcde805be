/* rmsnorm: y = (1 + w) * x / sqrt(mean(x^2) + eps), rows with strides; layernorm: y = w * (x - mean(x)) / sqrt(var(x) + eps) + b.
 * Shapes    x, y [n_rows, dim] fp32, w [dim] fp32; dim a multiple of 4 up to 8192
 * Bytes     2 n_rows dim 4; whole rows of 512 to 4096 columns also as one or two fp16, for the products that follow (halves.cuh), or only so; on
 *           request in eight bits as well (int8_rows.cuh)
 * Limit     bandwidth; 4096 rows of 3072 at 4.5 TB/s: 22 us
 * Launch    dim <= 512: a warp per row, 8 a block; else 256 threads per row, as in layernorm, whose rows have up to 4096 columns
 * Layout    a thread keeps its values in registers between the two passes, so y may alias x
 * Numerics  sum of squares in fp32, per thread and then pairwise; the bits of a row depend only on dim */
#include "kernels/cuda/halves.cuh"
#include "kernels/cuda/int8_rows.cuh"

enum { NORM_THREADS = 256, NORM_MAX = 8192, NORM_NARROW = 512 };

/* THREADS per row, HELD float4 per thread; HALVES: those of the copy, 0: none.  eight: of a copy of one half.  with_y: y is written. */
template <int THREADS, int HELD, int HALVES>
static __global__ void __launch_bounds__(NORM_THREADS) rmsnorm_kernel(const struct rmsnorm_args a, const struct halves_to to,
                                                                      const __grid_constant__ struct int8_to eight, bool with_y)
{
    const int row = (int)(blockIdx.x * (NORM_THREADS / THREADS) + threadIdx.x / THREADS), at = (int)threadIdx.x % THREADS, quads = a.dim / 4;
    const int group = a.per_group ? row / a.per_group : row, in = a.per_group ? row % a.per_group : 0;
    const bool there = row < a.n_rows;
    const float4 *x = (const float4 *)(a.x + (size_t)group * a.x_group + (size_t)in * a.x_row);
    float4 *y = (float4 *)(a.y + (size_t)group * a.y_group + (size_t)in * a.y_row);
    float4 v[HELD];
    float sum = 0;
    gpu_wait();
    gpu_next();
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (there && at + i * THREADS < quads) {
            v[i] = x[at + i * THREADS];
            sum += v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z + v[i].w * v[i].w;
        }
    sum = warp_sum(sum);
    if (THREADS > 32) {
        __shared__ float part[NORM_THREADS / 32];
        if (at % 32 == 0)
            part[at / 32] = sum;
        __syncthreads();
        sum = warp_sum(at % 32 < NORM_THREADS / 32 ? part[at % 32] : 0.0f);
    }
    const float s = 1.0f / sqrtf(sum / (float)a.dim + a.eps);
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (there && at + i * THREADS < quads) {
            const float4 w = __ldg((const float4 *)a.w + at + i * THREADS);
            v[i] = make_float4(v[i].x * s * (1.0f + w.x), v[i].y * s * (1.0f + w.y), v[i].z * s * (1.0f + w.z), v[i].w * s * (1.0f + w.w));
            if (with_y)
                y[at + i * THREADS] = v[i];
        }
    if constexpr (HALVES > 0) {
        static_assert(THREADS == HALVES_THREADS, "a row's threads");
        if (HALVES == 1 && eight.dst) {
            if (at >= eight.apart.n && at < INT8_APART)
                int8_numbers(eight, row)[at] = __float2half_rn(0.0f);
            int apart = 0;
#pragma unroll
            for (int i = 0; i < HELD; i++) {            /* a warp has one whole group at a time */
                const int group = i * (THREADS / 32) + at / 32;
                while (apart < eight.apart.n && eight.apart.column[apart] < group * PACK_GROUP)
                    apart++;
                if (group < eight.n_groups)
                    int8_group(eight, row, group, at % 32, v[i], &apart);
            }
        }
        halves_row<HELD, HALVES>(to, row, quads, v);
    }
}

/* A row per block, HELD quads a thread.  HALVES: those of the copy, which then replaces y; 0: y is written. */
enum { LAYER_HELD = 4 };
template <int HALVES>
static __global__ void __launch_bounds__(NORM_THREADS) layernorm_kernel(const struct layernorm_args a, const struct halves_to to)
{
    __shared__ float part[2][NORM_THREADS / 32];
    const int at = (int)threadIdx.x, quads = a.dim / 4;
    const float4 *x = (const float4 *)(a.x + (size_t)blockIdx.x * (size_t)a.dim);
    float4 v[LAYER_HELD] = {};
    float sum = 0, squares = 0;
    gpu_wait();
    gpu_next();
#pragma unroll
    for (int i = 0; i < LAYER_HELD; i++)
        if (at + i * NORM_THREADS < quads) {
            v[i] = x[at + i * NORM_THREADS];
            sum += v[i].x + v[i].y + (v[i].z + v[i].w);
        }
    sum = warp_sum(sum);
    if (at % 32 == 0)
        part[0][at / 32] = sum;
    __syncthreads();
    const float mean = warp_sum(at % 32 < NORM_THREADS / 32 ? part[0][at % 32] : 0.0f) / (float)a.dim;
#pragma unroll
    for (int i = 0; i < LAYER_HELD; i++)
        if (at + i * NORM_THREADS < quads) {
            v[i] = make_float4(v[i].x - mean, v[i].y - mean, v[i].z - mean, v[i].w - mean);
            squares += v[i].x * v[i].x + v[i].y * v[i].y + (v[i].z * v[i].z + v[i].w * v[i].w);
        }
    squares = warp_sum(squares);
    if (at % 32 == 0)
        part[1][at / 32] = squares;
    __syncthreads();
    const float s = 1.0f / sqrtf(warp_sum(at % 32 < NORM_THREADS / 32 ? part[1][at % 32] : 0.0f) / (float)a.dim + a.eps);
#pragma unroll
    for (int i = 0; i < LAYER_HELD; i++)
        if (at + i * NORM_THREADS < quads) {
            const float4 w = __ldg((const float4 *)a.w + at + i * NORM_THREADS), b = __ldg((const float4 *)a.b + at + i * NORM_THREADS);
            v[i] = make_float4(fmaf(v[i].x * s, w.x, b.x), fmaf(v[i].y * s, w.y, b.y), fmaf(v[i].z * s, w.z, b.z), fmaf(v[i].w * s, w.w, b.w));
            if (HALVES == 0)
                ((float4 *)(a.y + (size_t)blockIdx.x * (size_t)a.dim))[at + i * NORM_THREADS] = v[i];
        }
    if constexpr (HALVES > 0)
        halves_row<LAYER_HELD, HALVES>(to, (int)blockIdx.x, quads, v);
}

extern "C" void layernorm_cuda(struct cuda_queue *q, const struct layernorm_args *a)
{
    const dim3 grid((unsigned)a->n_rows);
    if (a->dim % 4 || a->dim > LAYER_HELD * 4 * NORM_THREADS) {
        queue_note(q, "layernorm", cudaErrorInvalidValue);
        return;
    }
    const int halves = a->next && a->next->cols == a->dim && !linear_narrow(a->next) ? halves_beside(q, a->n_rows, a->dim) : 0;
    const struct halves_to to = halves_place(q, a->n_rows, a->dim);
    launch(q, "layernorm", halves == 2 ? layernorm_kernel<2> : halves == 1 ? layernorm_kernel<1> : layernorm_kernel<0>, grid, NORM_THREADS, 0, true,
           *a, to);
    if (halves)
        halves_made(q, a->y, a->n_rows, a->dim, false);
}

extern "C" void rmsnorm_cuda(struct cuda_queue *q, const struct rmsnorm_args *args)
{
    struct rmsnorm_args a = *args;
    if (a.dim % 4 || a.dim > NORM_MAX || a.x_group % 4 || a.x_row % 4 || a.y_group % 4 || a.y_row % 4) {
        queue_note(q, "rmsnorm", cudaErrorInvalidValue);
        return;
    }
    if (!a.x_group)
        a.x_group = (size_t)a.dim;
    if (!a.y_group)
        a.y_group = (size_t)a.dim;
    unsigned rows = (unsigned)a.n_rows;
    enum { HELD = 4, LONG = NORM_MAX / 4 / NORM_THREADS };
    const bool whole = !a.per_group && a.y_group == (size_t)a.dim && a.dim > NORM_NARROW && a.dim <= HELD * 4 * NORM_THREADS;
    const int halves = whole ? halves_beside(q, a.n_rows, a.dim) : 0;
    const struct halves_to to = halves_place(q, a.n_rows, a.dim);
    const bool rounds = a.int8 && halves == 1 && rounded_scratch(a.n_rows, a.dim) <= q->scratch_bytes;
    const bool with_y = !a.own_form || !halves || (a.int8 && halves == 1 && !rounds);           /* a product rounds y itself */
    const struct int8_to eight = rounds ? int8_place(q, a.n_rows, a.dim, a.int8) : int8_to{};
    if (a.dim <= NORM_NARROW)
        launch(q, "rmsnorm", rmsnorm_kernel<32, NORM_NARROW / 128, 0>, dim3((rows + 7) / 8), NORM_THREADS, 0, true, a, to, eight, with_y);
    else if (halves == 2)
        launch(q, "rmsnorm", rmsnorm_kernel<NORM_THREADS, HELD, 2>, dim3(rows), NORM_THREADS, 0, true, a, to, eight, with_y);
    else if (halves == 1)
        launch(q, "rmsnorm", rmsnorm_kernel<NORM_THREADS, HELD, 1>, dim3(rows), NORM_THREADS, 0, true, a, to, eight, with_y);
    else
        launch(q, "rmsnorm", rmsnorm_kernel<NORM_THREADS, LONG, 0>, dim3(rows), NORM_THREADS, 0, true, a, to, eight, with_y);
    if (halves)
        halves_made(q, a.y, a.n_rows, a.dim, with_y, true);
    if (rounds) {
        q->halves.eight = eight.dst;
        q->halves.apart = a.int8;
    }
}
