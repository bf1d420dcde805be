/* step_linear: y = W h for one to eight rows, h normed on the way in; up to four matrices in one launch.
 * Shapes    W [rows, cols] packed (any format), h [n, cols], y [n, rows]
 * Bytes     the packed matrices; n * 4 * (cols * (1 + partials) + rows)
 * Limit     bandwidth
 * Launch    one block of 8 warps per multiprocessor; every matrix gets blocks by its bytes, a block a run of tiles
 * Layout    kernels/pack.h; the loop: step_tiles.cuh
 * Numerics  weights exact, activations in two bf16 (16 bits), products and sums fp32, scale per group; the order of a row's sum
 *           depends on the shape of W alone */
#include "kernels/cuda/step_tiles.cuh"

namespace {

struct part {
    const uint8_t *data, *scale;
    float         *y;
    int            y_row, rows, tiles;
    int            first, per_split;    /* blocks: [splits][per_split] from `first` on */
    int            format, write;
};

struct job {
    struct part       part[STEP_PARTS];
    int               n_parts;
    struct step_input in[2];
    const float      *partials;
    int               n_partials;
    size_t            partial_step, y_split;
    float            *x_out, *h_out, *tile_max;
    const float      *ssq, *bias;
    const int32_t    *row, *pos, *drafts;
    const uint8_t    *marks;
    const struct step_sampling *sampling;
    int               n_rows, n_ids, cols, groups, split_groups, two_inputs;
    int               half;             /* activations as fp16: all parts are INT8 */
    float             eps;
};

template <int COLS> struct shared_memory {
    step_shared<COLS>   step;
    struct step_staging input;
};

struct tiles_of_part {
    const uint8_t *tile;                /* unit 0 of this warp */
    size_t         step;                /* bytes of a tile */
    int            n_units;
    __device__ __forceinline__ int next(const uint8_t **at)
    {
        *at = tile;
        tile += step;
        return n_units;
    }
};

/* Columns at .. at + 3, counted through all rows of the input, with what is still to be added. */
__device__ __forceinline__ float4 input(const struct job &j, const float *x, size_t at)
{
    float4 u = *(const float4 *)(x + at);
    const float *p = j.partials + at;
#pragma unroll 1
    for (int k = 0; k < j.n_partials; k++, p += j.partial_step) {
        float4 v = *(const float4 *)p;
        u.x += v.x;
        u.y += v.y;
        u.z += v.z;
        u.w += v.w;
    }
    return u;
}

__device__ __forceinline__ float4 table_input(const struct job &j, const struct step_input &in, int i, int c)
{
    uint2 v = *(const uint2 *)((const uint16_t *)in.x + (size_t)in.ids[i] * j.cols + c);
    return make_float4(bf16_low(v.x), bf16_high(v.x), bf16_low(v.y), bf16_high(v.y));
}

/* 1 / rms of rows first .. first + 3, from each thread's sums of squares. */
__device__ __forceinline__ float4 inverse_rms(struct step_staging *sm, const float mine[4], const struct job &j)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float r[4];
    __syncthreads();
    for (int i = 0; i < 4; i++) {
        float v = warp_sum(mine[i]);
        if (lane == 0)
            sm->square[warp][i] = v;
    }
    __syncthreads();
    for (int i = 0; i < 4; i++) {
        float v = 0;
        for (int w = 0; w < STEP_WARPS; w++)
            v += sm->square[w][i];
        r[i] = rsqrtf(v / (float)j.cols + j.eps);
    }
    return make_float4(r[0], r[1], r[2], r[3]);
}

__device__ __forceinline__ float square4(const float4 &u) { return u.x * u.x + u.y * u.y + u.z * u.z + u.w * u.w; }

/* The sum of squares of a whole row, of which this block needs a part only. */
__device__ __forceinline__ void squares_of_row(float ss[4], const struct job &j, const struct step_input &in, int first, int n)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        for (int c = 4 * threadIdx.x; i < n && c < j.cols; c += 4 * STEP_THREADS)
            ss[i] += square4(input(j, (const float *)in.x, (size_t)(first + i) * j.cols + c));
}

__device__ __forceinline__ void scale4(float4 &u, float s)
{
    u.x *= s;
    u.y *= s;
    u.z *= s;
    u.w *= s;
}

/* The input of this warp's columns as fragments; `column` is the first one in the input's row. */
template <int GW, int COLS, int ROWS>
__device__ __forceinline__ void load_input(step_frags<GW, COLS> &f, struct step_staging *sm, const struct job &j, int split, int g0, int gw, bool writer)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const struct step_input in = j.in[j.two_inputs ? split : 0];
    const bool whole = j.split_groups == j.groups || j.two_inputs;      /* the warps together hold the row */
    const int c0 = (j.two_inputs ? g0 - split * j.split_groups : g0) * PACK_GROUP + 4 * lane;
#pragma unroll
    for (int set = 0; set < COLS; set++) {
        const int n = min(4, j.n_rows - 4 * set);
        float4 u[GW][4];
        float ss[4] = {0, 0, 0, 0};
        const size_t at = (size_t)(j.row ? *j.row : 4 * set) * j.cols + c0;
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int gi = 0; gi < GW; gi++) {
                u[gi][i] = make_float4(0, 0, 0, 0);
                if (i < ROWS && i < n && gi < gw)
                    u[gi][i] = in.ids ? table_input(j, in, 4 * set + i, c0 + gi * PACK_GROUP)
                                      : input(j, (const float *)in.x, at + (size_t)i * j.cols + gi * PACK_GROUP);
                ss[i] += square4(u[gi][i]);
            }
        if (in.norm) {
            if (!whole) {
                ss[0] = ss[1] = ss[2] = ss[3] = 0;
                squares_of_row(ss, j, in, 4 * set, n);
            }
            const float4 r = inverse_rms(sm, ss, j);
            const float rms[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
            for (int gi = 0; gi < GW; gi++) {
                if (gi >= gw)
                    break;
                const int c = c0 + gi * PACK_GROUP;
                const float4 w = *(const float4 *)(in.norm + c);
#pragma unroll
                for (int i = 0; i < ROWS && i < 4; i++) {
                    if (writer && j.x_out && i < n)
                        *(float4 *)(j.x_out + (size_t)(4 * set + i) * j.cols + c) = u[gi][i];
                    u[gi][i].x *= rms[i] * (1 + w.x);
                    u[gi][i].y *= rms[i] * (1 + w.y);
                    u[gi][i].z *= rms[i] * (1 + w.z);
                    u[gi][i].w *= rms[i] * (1 + w.w);
                    if (writer && j.h_out && i < n)
                        *(float4 *)(j.h_out + (size_t)(4 * set + i) * j.cols + c) = u[gi][i];
                }
            }
        }
        if (j.ssq)
#pragma unroll
            for (int gi = 0; gi < GW; gi++)
#pragma unroll
                for (int i = 0; i < ROWS && i < 4; i++)
                    if (gi < gw && i < n) {
                        float2 q = ((const float2 *)j.ssq)[(size_t)(4 * set + i) * j.groups + g0 + gi];
                        scale4(u[gi][i], rsqrtf((q.x + q.y) / PACK_GROUP + j.eps));
                    }
#pragma unroll
        for (int gi = 0; gi < GW; gi++)
            frags_set(f, set, gi, u[gi], j.half, sm->staged[warp], lane);
    }
}

/* Bias and penalties of a logit, in the order of engine/sampler.h. */
__device__ __forceinline__ float penalised(const struct job &j, float l, int id, int token)
{
    const struct step_sampling *s = j.sampling;
    if (!s)
        return id < j.n_ids ? l : -INFINITY;
    if (id >= s->n_ids)
        return -INFINITY;
    int mark = j.marks[id];
    for (int i = 0; i < token; i++)
        if (j.drafts[i] == id)
            mark = 3;
    if (s->biased)
        l += j.bias[id];
    if (mark && s->repetition_penalty > 0 && s->repetition_penalty != 1)
        l = l > 0 ? l / s->repetition_penalty : l * s->repetition_penalty;
    return mark & 2 ? l - s->presence_penalty : l;
}

/* A finished pair of sums: rows 16 tile + g and + 8 of one token. */
__device__ __forceinline__ void write_sums(const struct job &j, const struct part &p, int split, int tile, int token, float2 v)
{
    const int g = threadIdx.x % 32 / 4, row = tile * PACK_ROWS + g;
    float *y = p.y + split * j.y_split;
    if (p.write == STEP_LOGITS) {
        float m = -INFINITY;
        if (token < j.n_rows) {
            v.x = row < p.rows ? penalised(j, v.x, row, token) : -INFINITY;
            v.y = row + 8 < p.rows ? penalised(j, v.y, row + 8, token) : -INFINITY;
            m = isnan(v.x) || isnan(v.y) ? INFINITY : fmaxf(v.x, v.y);     /* what is no number must be looked at */
        }
        for (int k = 4; k < 32; k *= 2)
            m = fmaxf(m, __shfl_xor_sync(~0u, m, k));
        if (token < j.n_rows && g == 0)
            j.tile_max[(size_t)token * p.tiles + tile] = m;
    }
    if (token >= j.n_rows)
        return;
    if (p.write == STEP_SWIGLU) {
        int i = tile * 8 + g;
        if (2 * i < p.rows)
            y[(size_t)token * p.y_row + i] = silu_f(v.x) * v.y;
        return;
    }
    y += (size_t)(p.write == STEP_TO_RING ? (*j.pos + token) % STEP_RING : token) * p.y_row;
    if (row < p.rows)
        y[row] = v.x;
    if (row + 8 < p.rows)
        y[row + 8] = v.y;
}

template <int F, int GW>
__device__ __forceinline__ void load_scales(group_scales<F> scale[GW], const struct part &p, size_t tile_group, int gw)
{
#pragma unroll
    for (int gi = 0; gi < GW; gi++)
        if (gi < gw)
            scale[gi].load(p.scale, tile_group + gi, threadIdx.x % 32 / 4);
}

template <int F, int GW, int COLS>
__device__ __forceinline__ void run(const struct job &j, const struct part &p, step_shared<COLS> *sm, const step_frags<GW, COLS> &f,
                                    step_stream<tiles_of_part> &s, int split, int t0, int t1, int g0, int gw)
{
    group_scales<F> scale[GW], ahead[GW];
    load_scales<F, GW>(ahead, p, (size_t)t0 * j.groups + g0, gw);
    for (int tile = t0; tile < t1; tile++) {
        float2 total[COLS] = {};
#pragma unroll
        for (int gi = 0; gi < GW; gi++)
            scale[gi] = ahead[gi];
        if (tile + 1 < t1)
            load_scales<F, GW>(ahead, p, (size_t)(tile + 1) * j.groups + g0, gw);
        tile_product<F, GW, COLS>(total, f, gw, scale, s);
        tile_reduce<COLS>(sm, tile - t0, STEP_WARPS, total, [&](int set, float2 v) {
            float2 r = row_scale<F>(p.scale, tile, threadIdx.x % 32 / 4);
            write_sums(j, p, split, tile, 4 * set + threadIdx.x % 4, make_float2(v.x * r.x, v.y * r.y));
        });
    }
}

template <int GW, int ROWS>
__global__ void __launch_bounds__(STEP_THREADS, ROWS <= 4 && GW < 4 ? 2 : 1) step_linear_kernel(const __grid_constant__ struct job j)
{
    constexpr int COLS = (ROWS + 3) / 4;
    extern __shared__ uint4 memory[];
    shared_memory<COLS> *sm = (shared_memory<COLS> *)memory;
    const int warp = threadIdx.x / 32;
    gpu_next();
    int pi = 0;
    while (pi + 1 < j.n_parts && blockIdx.x >= (unsigned)j.part[pi + 1].first)
        pi++;
    const struct part &p = j.part[pi];
    const int local = blockIdx.x - p.first, split = local / p.per_split, block = local % p.per_split;
    const int t0 = (int)((long)p.tiles * block / p.per_split), t1 = (int)((long)p.tiles * (block + 1) / p.per_split);
    const int g0 = split * j.split_groups + warp * GW;
    const int gw = max(0, min(GW, min(j.groups, (split + 1) * j.split_groups) - g0));
    const int units = format_units(p.format);
    step_stream<tiles_of_part> s;
    step_frags<GW, COLS> f;

    s.src = {p.data + ((size_t)t0 * j.groups + g0) * units * STEP_UNIT, (size_t)j.groups * units * STEP_UNIT, gw * units};
    s.start(sm->step.ring[warp][0], gw * units * (t1 - t0));
    s.ready();
    gpu_wait();
    load_input<GW, COLS, ROWS>(f, &sm->input, j, split, g0, gw, pi == 0 && block == 0);
    switch (p.format) {
    case WEIGHT_INT4:  run<WEIGHT_INT4, GW, COLS>(j, p, &sm->step, f, s, split, t0, t1, g0, gw); break;
    case WEIGHT_FP8:   run<WEIGHT_FP8, GW, COLS>(j, p, &sm->step, f, s, split, t0, t1, g0, gw); break;
    case WEIGHT_INT8:  run<WEIGHT_INT8, GW, COLS>(j, p, &sm->step, f, s, split, t0, t1, g0, gw); break;
    case WEIGHT_DENSE: run<WEIGHT_DENSE, GW, COLS>(j, p, &sm->step, f, s, split, t0, t1, g0, gw); break;
    }
}

/* Blocks for every part by its bytes, at least one, at most one per tile; about `n` in all. */
void share_blocks(struct job *j, const size_t bytes[], int n, int splits)
{
    size_t total = 0;
    int used = 0, largest = 0;
    for (int i = 0; i < j->n_parts; i++)
        total += bytes[i];
    for (int i = 0; i < j->n_parts; i++) {
        int b = (int)((double)n * (double)bytes[i] / (double)total);
        j->part[i].per_split = b < 1 ? 1 : b;
        used += j->part[i].per_split;
        if (bytes[i] > bytes[largest])
            largest = i;
    }
    j->part[largest].per_split += used < n ? n - used : 0;
    for (int i = 0, first = 0; i < j->n_parts; i++) {
        struct part *p = &j->part[i];
        if (p->per_split > p->tiles)
            p->per_split = p->tiles;
        p->first = first;
        first += p->per_split * splits;
    }
}

template <int GW> void launch_sets(struct cuda_queue *q, const struct job &j, int blocks)
{
    if (j.n_rows == 1)
        launch(q, "step_linear", step_linear_kernel<GW, 1>, dim3(blocks), STEP_THREADS, sizeof(shared_memory<1>), true, j);
    else if (j.n_rows <= 4)
        launch(q, "step_linear", step_linear_kernel<GW, 4>, dim3(blocks), STEP_THREADS, sizeof(shared_memory<1>), true, j);
    else
        launch(q, "step_linear", step_linear_kernel<GW, 8>, dim3(blocks), STEP_THREADS, sizeof(shared_memory<2>), true, j);
}

}

static_assert(sizeof(shared_memory<2>) <= 99 * 1024, "shared memory of a GB10");

extern "C" void step_linear_cuda(struct cuda_queue *q, const struct step_linear_args *a)
{
    struct job j = {};
    size_t bytes[STEP_PARTS];
    int splits = a->splits > 1 ? a->splits : 1;
    j.n_parts = a->n_parts;
    for (int i = 0; i < a->n_parts; i++) {
        const struct step_part *s = &a->part[i];
        struct part *p = &j.part[i];
        p->data = (const uint8_t *)s->w.data;
        p->scale = (const uint8_t *)s->w.scale;
        p->y = s->y;
        p->y_row = (int)s->y_row;
        p->rows = s->w.rows;
        p->tiles = pack_tiles(s->w.rows);
        p->format = s->w.format;
        p->write = s->write;
        bytes[i] = pack_data_bytes(s->w.format, s->w.rows, s->w.cols);
    }
    j.in[0] = a->in[0];
    j.in[1] = a->in[1];
    j.partials = a->partials;
    j.n_partials = a->n_partials;
    j.partial_step = a->partial_step;
    j.y_split = a->y_split;
    j.x_out = a->x_out;
    j.h_out = a->h_out;
    j.tile_max = a->tile_max;
    j.ssq = a->ssq;
    j.bias = a->bias;
    j.row = a->row;
    j.pos = a->pos;
    j.drafts = a->drafts;
    j.marks = a->marks;
    j.sampling = a->sampling;
    j.n_rows = a->n_rows;
    j.n_ids = a->n_ids;
    j.eps = a->eps;
    j.two_inputs = a->in[1].x != NULL;
    j.half = a->part[0].w.format == WEIGHT_INT8;
    for (int i = 1; i < a->n_parts; i++)
        if ((a->part[i].w.format == WEIGHT_INT8) != (bool)j.half)
            queue_note(q, "step_linear", cudaErrorInvalidValue);
    j.groups = pack_groups(a->part[0].w.cols);
    j.cols = a->part[0].w.cols / (j.two_inputs ? 2 : 1);
    j.split_groups = (j.groups + splits - 1) / splits;
    share_blocks(&j, bytes, (q->n_sm + splits - 1) / splits, splits);
    const struct part *last = &j.part[j.n_parts - 1];
    int blocks = last->first + last->per_split * splits;
    switch ((j.split_groups + STEP_WARPS - 1) / STEP_WARPS) {
    case 1: launch_sets<1>(q, j, blocks); break;
    case 2: launch_sets<2>(q, j, blocks); break;
    case 3: launch_sets<3>(q, j, blocks); break;
    case 4: launch_sets<4>(q, j, blocks); break;
    default: queue_note(q, "step_linear", cudaErrorInvalidValue);
    }
}
