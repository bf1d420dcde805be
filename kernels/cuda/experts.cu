/* experts_up, experts_down: the products of a mixture of experts for prompt chunks, grouped by expert.
 * Shapes    up: pair [2 inter, hidden] packed, x [n, hidden] fp32 -> h [n (top_k + 1), inter_max] fp32, row = slot
 *           down: [hidden, inter] packed, h -> d [n (top_k + 1), hidden] fp32
 * Bytes     every expert once, rows once as fp32 and, per 64 to 128 output rows, as fp16 from L2
 * Limit     tensor cores from about 30 rows per expert on, below that the weights
 * Launch    experts_tiles_kernel cuts the rows of each expert into tiles (the host does not know the counts), gemm_copy_kernel, then
 *           one block per 128 or 64 output rows and tile; blocks beyond the last tile end at once.  The shared expert, whose
 *           rows are all tokens and whose format may be another, is a second launch
 * Layout    kernels/cuda/gemm.cuh; rows are gathered through the slots.  Blocks of one tile and of one expert follow each other, so
 *           that an expert comes from memory once
 * Numerics  as linear_*; SwiGLU in fp32 */
#include "kernels/cuda/gemm.cuh"

struct experts_job {
    float         *y;           /* [slots, y_row] */
    const char    *x;           /* fp16 rows of n_groups_x groups: of tokens (per_row = top_k + 1), or of slots (per_row = 1) */
    const float   *undo;        /* of these rows */
    const char    *data, *scale;
    size_t         data_step, scale_step;       /* from one expert to the next */
    const int32_t *start, *slots;
    const int2    *table;       /* [0].x tiles, then (expert, first index into slots) each; NULL: all rows of expert `only` */
    int            only, rows, n_tiles, n_groups, n_groups_x, per_row, y_row;
};

/* One block.  An expert with c rows has ceil(c / tokens) tiles. */
static __global__ void __launch_bounds__(STEP_EXPERTS) experts_tiles_kernel(int2 *table, const int32_t *start, int n_experts, int tokens)
{
    __shared__ int sum[STEP_EXPERTS / 32];
    const int e = (int)threadIdx.x, lane = e % 32, warp = e / 32;
    const int begin = e < n_experts ? start[e] : 0, end = e < n_experts ? start[e + 1] : 0, n = (end - begin + tokens - 1) / tokens;
    int upto = n, at = 0;
    for (int d = 1; d < 32; d *= 2) {
        int v = __shfl_up_sync(~0u, upto, d);
        if (lane >= d)
            upto += v;
    }
    if (lane == 31)
        sum[warp] = upto;
    __syncthreads();
    for (int w = 0; w < warp; w++)
        at += sum[w];
    for (int i = 0; i < n; i++)
        table[1 + at + upto - n + i] = make_int2(e, begin + i * tokens);
    if (e == STEP_EXPERTS - 1)
        table[0] = make_int2(at + upto, 0);
}

template <int F, class S, bool UP> static __global__ void __launch_bounds__(S::THREADS, S::BLOCKS) experts_kernel(const struct experts_job j)
{
    extern __shared__ __align__(128) char smem[];
    __shared__ int slot[S::TOKENS];
    __shared__ float undo[S::TOKENS];
    int e = j.only, begin, end;
    if (j.table) {
        if ((int)blockIdx.y >= j.table[0].x)
            return;
        const int2 tile = j.table[1 + blockIdx.y];
        e = tile.x;
        begin = tile.y;
    } else {
        begin = j.start[e] + (int)blockIdx.y * S::TOKENS;
    }
    end = j.start[e + 1];
    uint32_t *rows = (uint32_t *)(smem + S::RING);
    for (int i = (int)threadIdx.x; i < S::TOKENS; i += S::THREADS) {
        int s = j.slots[min(begin + i, end - 1)];                   /* rows too many are computed but not stored */
        slot[i] = begin + i < end ? s : -1;
        undo[i] = j.undo[s / j.per_row] * (gemm_scaled<F>() ? 1 / GEMM_UNIT : 1.0f);
        rows[i] = (uint32_t)(s / j.per_row) * (uint32_t)(j.n_groups_x * 16);
    }
    __syncthreads();
    const int tile0 = (int)blockIdx.x * S::TILES;
    const int of = j.table ? e : 0;
    const char *data = j.data + (size_t)of * j.data_step, *scale = j.scale + (size_t)of * j.scale_step;
    float acc[S::MT][S::NT][4];
    gemm_run<F, S>(acc, data, scale, tile0 + (int)threadIdx.x / 32 * S::MT, j.n_tiles, j.n_groups, j.x, rows, smem);
    const int thread = gemm_thread(), g = thread % 32 / 4, t = thread % 4, first = tile0 + thread / 32 * S::MT;
#pragma unroll
    for (int m = 0; m < S::MT; m++) {
        const int tile = first + m, row = tile * (UP ? 8 : 16) + g;
        if (tile >= j.n_tiles)
            break;
        const float2 f = row_scale<F>(scale, (size_t)tile, g);
#pragma unroll
        for (int n = 0; n < S::NT; n++)
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const int s = slot[n * 8 + 2 * t + c];
                if (s < 0)
                    continue;
                const float u = undo[n * 8 + 2 * t + c];
                float *y = j.y + (size_t)s * (size_t)j.y_row + row, lo = acc[m][n][c] * f.x * u, hi = acc[m][n][c + 2] * f.y * u;
                if (row < j.rows)
                    *y = UP ? silu_f(lo) * hi : lo;
                if (!UP && row + 8 < j.rows)
                    y[8] = hi;
            }
    }
}

struct experts_plan {
    const char *op;
    int         n_tokens, top_k, n_experts, n_slots;        /* n_slots: of routed experts */
};

template <int F, class S, bool UP>
static void run_shape(struct cuda_queue *q, const struct experts_plan *p, const struct experts_job *j)
{
    int most = (p->n_slots < p->n_experts ? p->n_slots : p->n_experts) + p->n_slots / S::TOKENS;
    int tiles = j->table ? most : (p->n_tokens + S::TOKENS - 1) / S::TOKENS;
    dim3 grid((unsigned)((j->n_tiles + S::TILES - 1) / S::TILES), (unsigned)tiles);
    if (j->table)
        launch(q, p->op, experts_tiles_kernel, dim3(1), STEP_EXPERTS, 0, false, (int2 *)j->table, j->start, p->n_experts, S::TOKENS);
    launch(q, p->op, experts_kernel<F, S, UP>, grid, S::THREADS, S::SMEM, false, *j);
}
/* By the rows that an expert has on average; the bits do not depend on it. */
template <int F, bool UP> static void run_format(struct cuda_queue *q, const struct experts_plan *p, const struct experts_job *j)
{
    int mean = j->table ? p->n_slots / p->n_experts : p->n_tokens;
    if (mean > 32)
        run_shape<F, gemm_medium, UP>(q, p, j);
    else if (mean > 12)
        run_shape<F, gemm_small, UP>(q, p, j);
    else
        run_shape<F, gemm_tiny, UP>(q, p, j);
}
template <bool UP> static void run(struct cuda_queue *q, const struct experts_plan *p, struct experts_job j, const struct weight *w)
{
    j.n_tiles = pack_tiles(w->rows);
    j.n_groups = pack_groups(w->cols);
    j.rows = UP ? w->rows / 2 : w->rows;
    j.data = (const char *)w->data;
    j.scale = (const char *)w->scale;
    switch (w->format) {
    case WEIGHT_DENSE: run_format<WEIGHT_DENSE, UP>(q, p, &j); break;
    case WEIGHT_INT4:  run_format<WEIGHT_INT4, UP>(q, p, &j); break;
    case WEIGHT_FP8:   run_format<WEIGHT_FP8, UP>(q, p, &j); break;
    case WEIGHT_INT8:  run_format<WEIGHT_INT8, UP>(q, p, &j); break;
    case WEIGHT_NONE:  queue_note(q, p->op, cudaErrorInvalidValue); break;
    }
}

/* Routed experts, then the shared one.  `matrix` of expert i lies i steps behind that of expert 0. */
template <bool UP>
static void run_both(struct cuda_queue *q, const struct experts_plan *p, struct experts_job j, const struct weight *first,
                     const struct weight *second, const struct weight *shared)
{
    if (p->n_experts > STEP_EXPERTS || first->cols % PACK_GROUP || shared->cols % PACK_GROUP) {
        queue_note(q, p->op, cudaErrorInvalidValue);
        return;
    }
    struct experts_job s = j;
    j.data_step = (size_t)((const char *)second->data - (const char *)first->data);
    j.scale_step = (size_t)((const char *)second->scale - (const char *)first->scale);
    run<UP>(q, p, j, first);
    s.table = NULL;
    s.only = p->n_experts;
    run<UP>(q, p, s, shared);
}

extern "C" void experts_up_cuda(struct cuda_queue *q, const struct experts_up_args *a)
{
    const struct experts_plan p = {"experts_up", a->n_tokens, a->top_k, a->n_experts, a->n_tokens * a->top_k};
    const struct weight *w = &a->experts[0].gate;
    struct experts_job j = {};
    size_t copy = gemm_copy_bytes((size_t)a->n_tokens, w->cols);
    if (a->n_tokens < 1 || !gemm_scratch(q, p.op, experts_up_scratch_cuda(a->n_tokens, a->top_k, a->n_experts, w->cols)))
        return;
    gemm_copy(q, p.op, q->scratch, a->x, (size_t)a->n_tokens, w->cols, w->cols, w->cols, 1);
    j.y = a->h;
    j.x = q->scratch;
    j.undo = (const float *)(q->scratch + gemm_factors_at((size_t)a->n_tokens, w->cols));
    j.table = (const int2 *)(q->scratch + copy);
    j.start = a->start;
    j.slots = a->slots;
    j.per_row = a->top_k + 1;
    j.n_groups_x = pack_groups(w->cols);
    j.y_row = a->inter_max;
    run_both<true>(q, &p, j, w, &a->experts[a->n_experts > 1].gate, &a->shared->gate);
}

extern "C" void experts_down_cuda(struct cuda_queue *q, const struct experts_down_args *a)
{
    const struct experts_plan p = {"experts_down", a->n_tokens, a->top_k, a->n_experts, a->n_tokens * a->top_k};
    const struct weight *w = &a->experts[0].down;
    struct experts_job j = {};
    size_t slots = (size_t)a->n_tokens * (size_t)(a->top_k + 1), copy = gemm_copy_bytes(slots, a->inter_max);
    if (a->n_tokens < 1 || !gemm_scratch(q, p.op, experts_down_scratch_cuda(a->n_tokens, a->top_k, a->n_experts, a->inter_max)))
        return;
    gemm_copy(q, p.op, q->scratch, a->h, slots, a->inter_max, w->cols, a->shared->down.cols, a->top_k + 1);
    j.y = a->d;
    j.x = q->scratch;
    j.undo = (const float *)(q->scratch + gemm_factors_at(slots, a->inter_max));
    j.table = (const int2 *)(q->scratch + copy);
    j.start = a->start;
    j.slots = a->slots;
    j.per_row = 1;
    j.n_groups_x = pack_groups(a->inter_max);
    j.y_row = w->rows;
    run_both<false>(q, &p, j, w, &a->experts[a->n_experts > 1].down, &a->shared->down);
}
