/* experts_up, experts_down: the products of a mixture of experts for prompt chunks, grouped by expert.
 * Shapes    up: pair [2 inter, hidden] packed, x [n, hidden] fp32 -> h [n (top_k + 1), inter_max] fp32, row = slot; for experts_down alone, from
 *           GEMM_FINE + 1 tokens on, fp16, followed by their factors, fp32
 *           down: [hidden, inter] packed, h -> d [n (top_k + 1), hidden] fp32, or for moe_combine alone in packets (packets.cuh)
 * Bytes     each expert once; rows once as fp32, h once, as fp16, and as one or two fp16 from L2 per 64 to 128 output rows
 * Limit     tensor cores from about 30 rows per expert, below that the weights
 * Launch    halves_kernel, unless there is a copy of x (halves.cuh) or h is one; then one block per tile of rows of an expert and 128 output rows,
 *           or 256 and more when experts have few rows; up to GEMM_FINE tokens a row counts as two, hi and lo.  The host does not know the
 *           counts, so each block finds its tile, and blocks beyond the last return at once.  The shared expert has all tokens as rows and
 *           may have another format; it is a second launch, which overlaps with the end of the first
 * Layout    kernels/cuda/gemm.cuh; rows are gathered through the slots.  Blocks of one tile and of one expert are neighbours, so
 *           that an expert is read from memory once
 * Numerics  as linear_*; SwiGLU in fp32; the factor of a row of h in fp16 comes from a bound (halves.cuh), which needs no row.  On request
 *           rows of x have eight bits for the routed experts (gemm_int8.cuh) */
#include <type_traits>

#include "kernels/cuda/gemm_int8.cuh"
#include "kernels/cuda/packets.cuh"

struct experts_job {
    float         *y;           /* [slots, y_row]; own: fp16 */
    const char    *x;           /* fp16 rows of n_groups_x groups: of tokens (per_row = top_k + 1), or of slots (per_row = 1) */
    const float   *undo;        /* factors of these rows */
    const char    *data, *scale;
    size_t         data_step, scale_step;       /* strides between experts */
    const int32_t *start, *slots;
    int            only;        /* >= 0: only this expert */
    int            n_experts, rows, n_tiles, n_groups, n_groups_x, per_row, y_row, depth;
    const float   *norm, *norms;        /* own: of the rows of x, of the experts */
    float         *y_undo;      /* own: [slots] */
    bool           own;         /* y is as experts_down reads it */
    bool           packets;     /* y is in packets */
    bool           int8;        /* x is in eight bits (int8_rows.cuh); there are no factors */
    struct int8_apart apart;
};

/* Rows [begin, end) of an expert: row i is half i % HALVES of slots[i / HALVES].  None: expert < 0. */
struct experts_tile {
    int expert, begin, end;
};
/* Finds tile `at` of all experts; an expert with c rows has ceil(c / TOKENS) tiles.  Called by the whole block. */
template <int THREADS, int TOKENS, int HALVES>
__device__ __forceinline__ struct experts_tile experts_find(const struct experts_job &j, int at)
{
    constexpr int PER = STEP_EXPERTS / THREADS;
    __shared__ int sum[THREADS / 32], found[3];
    if (j.only >= 0) {
        const int begin = HALVES * j.start[j.only] + at * TOKENS;
        return {j.only, begin, HALVES * j.start[j.only + 1]};
    }
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, first = (int)threadIdx.x * PER;
    int begin[PER + 1], n = 0, before = 0;
#pragma unroll
    for (int i = 0; i <= PER; i++)
        begin[i] = HALVES * j.start[min(first + i, j.n_experts)];
#pragma unroll
    for (int i = 0; i < PER; i++)
        n += (begin[i + 1] - begin[i] + TOKENS - 1) / TOKENS;
    int upto = n;
    for (int d = 1; d < 32; d *= 2) {
        int v = __shfl_up_sync(~0u, upto, d);
        if (lane >= d)
            upto += v;
    }
    if (lane == 31)
        sum[warp] = upto;
    if (threadIdx.x == 0)
        found[0] = -1;
    __syncthreads();
    for (int w = 0; w < warp; w++)
        before += sum[w];
    before += upto - n;
#pragma unroll
    for (int i = 0; i < PER; i++) {
        n = (begin[i + 1] - begin[i] + TOKENS - 1) / TOKENS;
        if (at >= before && at < before + n) {
            found[0] = first + i;
            found[1] = begin[i] + (at - before) * TOKENS;
            found[2] = begin[i + 1];
        }
        before += n;
    }
    __syncthreads();
    return {found[0], found[1], found[2]};
}

/* The previous kernel is the same one for other experts and has itself waited for its inputs, so this one may start at once.  It must
 * still wait before it signals completion. */
__device__ __forceinline__ void experts_begin(const struct experts_job &j)
{
    if (j.only < 0)
        gpu_wait();
    gpu_next();
}
__device__ __forceinline__ void experts_end(const struct experts_job &j)
{
    if (j.only >= 0)
        gpu_wait();
}

/* v: values of rows `row` and `row` + 8 of a matrix, or of gate and up */
template <int F, bool UP, int HALVES>
__device__ __forceinline__ void experts_store(const struct experts_job &j, int slot, float undo, int row, float2 scale, float2 v)
{
    if (slot < 0)
        return;
    float *y = j.y + (size_t)slot * (size_t)j.y_row + row;
    undo *= gemm_undo<F, HALVES>();
    const float lo = v.x * scale.x * undo, hi = v.y * scale.y * undo;
    if (row < j.rows)
        *y = UP ? silu_f(lo) * hi : lo;
    if (!UP && row + 8 < j.rows)
        y[8] = hi;
}

/* Two tokens of a lane: first words of their rows in packets, and their factors. */
struct experts_two {
    uint32_t *row[2];
    bool      there[2];
    float     undo[2];
};
template <int F> __device__ __forceinline__ struct experts_two experts_pair(const struct experts_job &j, const int *slot, const float *undo)
{
    struct experts_two p;
#pragma unroll
    for (int c = 0; c < 2; c++) {
        p.row[c] = (uint32_t *)j.y + (size_t)slot[c] * (size_t)(j.y_row / 2);
        p.there[c] = slot[c] >= 0;
        p.undo[c] = undo[c] * gemm_undo<F, 1>();
    }
    return p;
}
/* acc: rows g and g + 8 of a tile of both tokens. */
__device__ __forceinline__ void experts_packets(const struct experts_two &p, int tile, int g, float2 scale, const float acc[4])
{
    const float lo[2] = {acc[0] * scale.x * p.undo[0], acc[1] * scale.x * p.undo[1]};
    const float hi[2] = {acc[2] * scale.y * p.undo[0], acc[3] * scale.y * p.undo[1]};
    uint32_t *const row[2] = {p.row[0] + tile * 8, p.row[1] + tile * 8};
    packets_store(row, p.there, g, lo, hi);
}

/* Packs the exponent of the factor of a slot's row of h into the low bits of *undo, a power of two.  The first block of a row stores what undoes the
 * factor. */
__device__ __forceinline__ void experts_bound(const struct experts_job &j, int expert, int slot, float *undo, int block)
{
    if (slot < 0)
        return;
    float h_undo;
    const float most = __ldg(j.norm + slot / j.per_row) * __ldg(j.norms + expert), factor = halves_bound_factor(most * most, &h_undo);
    if (block == 0)
        j.y_undo[slot] = h_undo;
    *undo = __uint_as_float(__float_as_uint(*undo) | __float_as_uint(factor) >> 23);
}
/* Stores SwiGLU of a tile's gate and up, rows g and g + 8 of two tokens, in fp16.  Lanes 4 apart have neighbouring columns; each stores those of one
 * token.  Called by the whole warp. */
template <int F>
__device__ __forceinline__ void experts_own(const struct experts_job &j, const int *slot, const float *undo, int tile, int g, float2 scale,
                                            const float acc[4])
{
    float h[2];
#pragma unroll
    for (int c = 0; c < 2; c++) {
        const uint32_t both = __float_as_uint(undo[c]);
        const float x_undo = __uint_as_float(both & 0xff800000u) * gemm_undo<F, 1>();
        h[c] = silu_f(acc[c] * scale.x * x_undo) * (acc[c + 2] * scale.y * x_undo) * __uint_as_float(both << 23);
    }
    const bool odd = g % 2;
    const float other = __shfl_xor_sync(~0u, odd ? h[0] : h[1], 4);
    const int s = slot[odd];
    if (s >= 0)
        ((uint32_t *)j.y)[(size_t)s * (size_t)(j.y_row / 2) + tile * 4 + g / 2] = odd ? f16_pair(other, h[1]) : f16_pair(h[0], other);
}

template <int F, class S, bool UP, int HALVES>
__device__ __forceinline__ void experts_rows(const struct experts_job &j, const struct experts_tile &of, int *slot, float *undo, char *smem)
{
    uint32_t *rows = (uint32_t *)(smem + S::RING);
    const int expert = j.only >= 0 ? 0 : of.expert;
    const char *data = j.data + (size_t)expert * j.data_step, *scale = j.scale + (size_t)expert * j.scale_step;
    float acc[S::MT][S::NT][4];
    const int first_tile = (int)blockIdx.x * S::TILES + (int)threadIdx.x / 32 * S::MT;
    gemm_any<F, S, HALVES>(acc, data, scale, first_tile, j.n_tiles, j.n_groups, j.x, rows, smem, [&] {
        for (int i = (int)threadIdx.x; i < S::TOKENS; i += S::THREADS) {
            const int at = min(of.begin + i, of.end - 1);       /* excess rows are computed but not stored */
            const int s = j.slots[at / HALVES], row = s / j.per_row;
            slot[i] = of.begin + i < of.end ? s : -1;
            rows[i] = (uint32_t)(HALVES * row + at % HALVES) * (uint32_t)(j.n_groups_x * 16);
            if (S::EIGHT)
                undo[i] = 1;
            else
                gemm_copy4(&undo[i], j.undo + row);
        }
        __syncthreads();
    });
    const int thread = gemm_thread(), g = thread % 32 / 4, t = thread % 4, first = gemm_block() * S::TILES + thread / 32 * S::MT;
    if constexpr (S::EIGHT)
        gemm_int8_apart<S>(acc, j.data + (size_t)expert * j.data_step, j.scale + (size_t)expert * j.scale_step, first, j.n_tiles, j.n_groups, j.x,
                           rows, j.apart);
    const bool packets = !UP && HALVES == 1 && j.packets;
    if (UP && HALVES == 1 && j.own) {
        for (int i = thread; i < S::TOKENS; i += S::THREADS)
            experts_bound(j, of.expert, slot[i], &undo[i], gemm_block());
        __syncthreads();
#pragma unroll
        for (int m = 0; m < S::MT; m++)
#pragma unroll
            for (int n = 0; n < S::NT; n++)
                if (first + m < j.n_tiles)
                    experts_own<F>(j, slot + n * 8 + 2 * t, undo + n * 8 + 2 * t, first + m, g, row_scale<F>(scale, (size_t)(first + m), g),
                                   acc[m][n]);
        return;
    }
#pragma unroll
    for (int m = 0; m < S::MT; m++) {
        const int tile = first + m, row = tile * (UP ? 8 : 16) + g;
        if (tile >= j.n_tiles)
            break;
        const float2 f = row_scale<F>(scale, (size_t)tile, g);
#pragma unroll
        for (int n = 0; n < S::NT; n++) {
            const int i = n * 8 + 2 * t;
            if (packets) {
                experts_packets(experts_pair<F>(j, slot + i, undo + i), tile, g, f, acc[m][n]);
                continue;
            }
#pragma unroll
            for (int c = 0; c < 2; c += HALVES)
                experts_store<F, UP, HALVES>(j, slot[i + c], undo[i + c], row, f, gemm_result<HALVES>(acc[m][n], c));
        }
    }
}
/* The last rows of an expert use a smaller tile, since experts have about one or two tiles of rows.  With two halves there are
 * registers only for the smaller tiles. */
struct experts_fp16 { using most = gemm_medium; using half = gemm_medium_half; using rest = gemm_medium_rest; };
struct experts_two_fp16 { using most = gemm_medium_half; using half = gemm_medium_half; using rest = gemm_medium_rest; };
struct experts_int8 { using most = gemm_int8_most; using half = gemm_int8_half; using rest = gemm_int8_rest; };
template <int F, class SHAPES, bool UP, int HALVES>
static __global__ void __launch_bounds__(SHAPES::most::THREADS, SHAPES::most::BLOCKS) experts_kernel(const __grid_constant__ struct experts_job j)
{
    using S = typename SHAPES::most;
    extern __shared__ __align__(128) char smem[];
    __shared__ int slot[S::TOKENS];
    __shared__ float undo[S::TOKENS];
    experts_begin(j);
    const struct experts_tile of = experts_find<S::THREADS, S::TOKENS, HALVES>(j, (int)blockIdx.y);
    if (of.expert < 0)
        return;
    if (of.end - of.begin <= SHAPES::rest::TOKENS)
        experts_rows<F, typename SHAPES::rest, UP, HALVES>(j, of, slot, undo, smem);
    else if (of.end - of.begin <= SHAPES::half::TOKENS)
        experts_rows<F, typename SHAPES::half, UP, HALVES>(j, of, slot, undo, smem);
    else
        experts_rows<F, S, UP, HALVES>(j, of, slot, undo, smem);
    experts_end(j);
}
static_assert(gemm_medium_half::SMEM <= gemm_medium::SMEM && gemm_medium_rest::SMEM <= gemm_medium_half::SMEM
              && gemm_int8_half::SMEM <= gemm_int8_most::SMEM && gemm_int8_rest::SMEM <= gemm_int8_half::SMEM, "one launch for all");

template <int F, bool UP, int HALVES>
static __global__ void __launch_bounds__(gemm_few::THREADS, 2) experts_few_kernel(const struct experts_job j)
{
    using S = gemm_few;
    extern __shared__ __align__(128) char smem[];
    __shared__ int slot[S::TOKENS];
    __shared__ float undo[S::TOKENS];
    experts_begin(j);
    const struct experts_tile of = experts_find<S::THREADS, S::TOKENS, HALVES>(j, (int)blockIdx.y);
    if (of.expert < 0)
        return;
    const int expert = j.only >= 0 ? 0 : of.expert, n = min(of.end - of.begin, S::TOKENS);
    const int thread = (int)threadIdx.x, stream0 = ((int)blockIdx.x * S::WARPS + thread / 32) * 2, pitch = S::pitch(j.n_groups);
    const char *scale = j.scale + (size_t)expert * j.scale_step;
    struct gemm_streams<F> streams;
    streams.begin(j.data + (size_t)expert * j.data_step, scale, stream0, j.depth, j.n_tiles, j.n_groups);
    /* 16 threads per token; columns of missing tokens are computed from arbitrary data and not stored */
    const int i = thread / 16;
    if (i < n) {
        const int s = j.slots[(of.begin + i) / HALVES], row = s / j.per_row;
        const char *x = j.x + (size_t)(HALVES * row + i % HALVES) * (size_t)(j.n_groups_x * 256);
        for (int c = thread % 16; c < j.n_groups * 16; c += 16)
            copy16(smem + i * pitch + c * 16, x + c * 16);
        if (thread % 16 == 0) {
            slot[i] = s;
            gemm_copy4(&undo[i], j.undo + row);
        }
    } else if (thread % 16 == 0) {
        slot[i] = -1;
        undo[i] = 0;
    }
    copy_commit();
    copy_wait<0>();
    const bool own = UP && HALVES == 1 && j.own;
    if (own && thread % 16 == 0)
        experts_bound(j, of.expert, slot[i], &undo[i], (int)blockIdx.x);
    __syncthreads();
    const int g = thread % 32 / 4, t = thread % 4;
    auto store = [&](int m, int tile, const float(*acc)[4], int tokens) {
        if (tile < (stream0 + m) * j.depth)
            return;
        const int row = tile * (UP ? 8 : 16) + g;
        const float2 f = row_scale<F>(scale, (size_t)tile, g);
#pragma unroll
        for (int k = 0; k < S::TOKENS / 8; k++) {
            if (k * 8 < tokens && own) {
                experts_own<F>(j, slot + k * 8 + 2 * t, undo + k * 8 + 2 * t, tile, g, f, acc[k]);
                continue;
            }
            if (k * 8 < tokens && !UP && HALVES == 1 && j.packets) {
                experts_packets(experts_pair<F>(j, slot + k * 8 + 2 * t, undo + k * 8 + 2 * t), tile, g, f, acc[k]);
                continue;
            }
#pragma unroll
            for (int c = 0; c < 2; c += HALVES) {
                const int at = k * 8 + 2 * t + c;
                if (k * 8 < tokens)
                    experts_store<F, UP, HALVES>(j, slot[at], undo[at], row, f, gemm_result<HALVES>(acc[k], c));
            }
        }
    };
    if (n <= 8)
        gemm_stream<F, 1, HALVES>(streams, smem, [&](int m, int tile, const float(*acc)[4]) { store(m, tile, acc, 8); });
    else
        gemm_stream<F, 2, HALVES>(streams, smem, [&](int m, int tile, const float(*acc)[4]) { store(m, tile, acc, 16); });
    experts_end(j);
}

struct experts_plan {
    const char *op;
    int         n_tokens, top_k, n_experts, n_slots, halves;        /* n_slots: of routed experts */
};

/* Upper bound of row tiles */
static unsigned tiles(const struct experts_plan *p, const struct experts_job *j, int tokens)
{
    int most = (p->n_slots < p->n_experts ? p->n_slots : p->n_experts) + p->halves * p->n_slots / tokens;
    return (unsigned)(j->only < 0 ? most : (p->halves * p->n_tokens + tokens - 1) / tokens);
}
template <int F, class SHAPES, bool UP, int HALVES>
static void run_many(struct cuda_queue *q, const struct experts_plan *p, const struct experts_job *j)
{
    using S = typename SHAPES::most;
    dim3 grid((unsigned)((j->n_tiles + S::TILES - 1) / S::TILES), tiles(p, j, S::TOKENS));
    launch(q, p->op, experts_kernel<F, SHAPES, UP, HALVES>, grid, S::THREADS, S::SMEM, true, *j);
}
template <int F, bool UP, int HALVES>
static void run_few(struct cuda_queue *q, const struct experts_plan *p, struct experts_job j)
{
    using S = gemm_few;
    enum { GROUPS = 32 };               /* of a stream, about */
    j.depth = GROUPS / j.n_groups < 1 ? 1 : GROUPS / j.n_groups > j.n_tiles ? j.n_tiles : GROUPS / j.n_groups;
    int step = S::STREAMS * j.depth;
    dim3 grid((unsigned)((j.n_tiles + step - 1) / step), tiles(p, &j, S::TOKENS));
    launch(q, p->op, experts_few_kernel<F, UP, HALVES>, grid, S::THREADS, (size_t)(S::TOKENS * S::pitch(j.n_groups)), true, j);
}
/* Chosen by the mean number of rows per expert; the bits do not depend on it.  The shared expert alone would be few blocks of many
 * rows. */
template <int F, bool UP, int HALVES>
static void run_halves(struct cuda_queue *q, const struct experts_plan *p, const struct experts_job *j)
{
    const bool few = j->only < 0 ? gemm_few_routed(p->n_tokens, p->top_k, p->n_experts) : gemm_few_shared(p->n_tokens);
    if (few && j->n_groups <= gemm_few::MAX_GROUPS)
        run_few<F, UP, HALVES>(q, p, *j);
    else
        run_many<F, std::conditional_t<HALVES == 1, experts_fp16, experts_two_fp16>, UP, HALVES>(q, p, j);
}
template <int F, bool UP> static void run_format(struct cuda_queue *q, const struct experts_plan *p, const struct experts_job *j)
{
    if constexpr (UP && F == WEIGHT_INT4)
        if (j->int8) {
            run_many<F, experts_int8, UP, 1>(q, p, j);
            return;
        }
    if (p->halves == 1)
        run_halves<F, UP, 1>(q, p, j);
    else
        run_halves<F, UP, 2>(q, p, j);
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
    case WEIGHT_PLANES:                 /* for heads alone */
    case WEIGHT_NONE:  queue_note(q, p->op, cudaErrorInvalidValue); break;
    }
}

/* Bytes of the rows of h in fp16, before their factors. */
static size_t experts_factors_at(const struct experts_plan &p, int inter_max)
{
    return gemm_factors_at((size_t)(p.n_slots + p.n_tokens), inter_max);
}

/* Can the routed experts, whose matrix this is, take rows in eight bits? */
static bool in_eight_bits(const struct experts_plan *p, const struct weight *w, const struct int8_apart *apart)
{
    return apart && gemm_int8(w, p->n_tokens) && !gemm_few_routed(p->n_tokens, p->top_k, p->n_experts);
}

/* Routed experts, then the shared one.  `matrix` of expert i is i steps after that of expert 0.  eight: the rows in eight bits that the routed ones
 * take, or NULL. */
template <bool UP>
static void run_both(struct cuda_queue *q, const struct experts_plan *p, struct experts_job j, const struct weight *first,
                     const struct weight *second, const struct weight *shared, const struct halves_of *eight)
{
    if (p->n_experts > STEP_EXPERTS || first->cols % PACK_GROUP || shared->cols % PACK_GROUP) {
        queue_note(q, p->op, cudaErrorInvalidValue);
        return;
    }
    j.n_experts = p->n_experts;
    struct experts_job s = j;
    j.data_step = (size_t)((const char *)second->data - (const char *)first->data);
    j.scale_step = (size_t)((const char *)second->scale - (const char *)first->scale);
    j.only = -1;
    s.only = p->n_experts;
    if (eight) {
        j.int8 = true;
        j.x = eight->eight;
        j.apart = *eight->apart;
    }
    run<UP>(q, p, j, first);
    run<UP>(q, p, s, shared);
}

extern "C" void experts_up_cuda(struct cuda_queue *q, const struct experts_up_args *a)
{
    const struct experts_plan p = {"experts_up", a->n_tokens, a->top_k, a->n_experts, a->n_tokens * a->top_k, gemm_halves(a->n_tokens)};
    const struct weight *w = &a->experts[0].gate;
    struct experts_job j = {};
    if (a->n_tokens < 1 || !gemm_scratch(q, p.op, linear_scratch(a->n_tokens, w->cols)))
        return;
    const bool eight = in_eight_bits(&p, w, a->int8);
    const struct halves_of x = eight ? int8_get(q, p.op, a->x, a->n_tokens, w->cols, a->int8) : halves_get(q, p.op, a->x, a->n_tokens, w->cols);
    j.undo = x.undo;
    j.y = a->h;
    j.x = x.at;
    j.start = a->start;
    j.slots = a->slots;
    j.per_row = a->top_k + 1;
    j.n_groups_x = pack_groups(w->cols);
    j.y_row = a->inter_max;
    j.own = a->own_form && p.halves == 1;
    j.norm = x.undo + a->n_tokens;
    j.norms = a->norms;
    j.y_undo = (float *)((char *)a->h + experts_factors_at(p, a->inter_max));
    if (j.own && (!a->norms || a->inter_max % PACK_GROUP || x.at != q->scratch)) {        /* only a copy in scratch memory has norms */
        queue_note(q, p.op, cudaErrorInvalidValue);
        return;
    }
    run_both<true>(q, &p, j, w, &a->experts[a->n_experts > 1].gate, &a->shared->gate, eight ? &x : NULL);
    q->halves = x;
}

extern "C" void experts_down_cuda(struct cuda_queue *q, const struct experts_down_args *a)
{
    const struct experts_plan p = {"experts_down", a->n_tokens, a->top_k, a->n_experts, a->n_tokens * a->top_k, gemm_halves(a->n_tokens)};
    const struct weight *w = &a->experts[0].down;
    struct experts_job j = {};
    const size_t slots = (size_t)a->n_tokens * (size_t)(a->top_k + 1);
    const bool own = a->own_input && p.halves == 1;
    if (a->n_tokens < 1 || (!own && !gemm_scratch(q, p.op, experts_down_scratch(a->n_tokens, a->top_k, a->inter_max))))
        return;
    j.undo = own ? (const float *)((const char *)a->h + experts_factors_at(p, a->inter_max))
                 : halves_pass(q, p.op, a->h, slots, p.halves, a->inter_max, w->cols, a->shared->down.cols, a->top_k + 1);
    j.y = a->d;
    j.x = own ? (const char *)a->h : q->scratch;
    j.start = a->start;
    j.slots = a->slots;
    j.per_row = 1;
    j.n_groups_x = pack_groups(a->inter_max);
    j.y_row = w->rows;
    j.packets = a->own_form && gemm_packets(a->n_tokens, w->rows);
    run_both<false>(q, &p, j, w, &a->experts[a->n_experts > 1].down, &a->shared->down, NULL);
}
