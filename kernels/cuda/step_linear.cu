/* step_project, step_add, step_router, step_logits, step_mtp_join: y = W h for one to eight rows, h normed on the way in; up to four
 * matrices in one launch.  One kernel template for all five, with a kind of input and a way of writing each.
 * Shapes    W [rows, cols] packed (any format), h [n, cols], y [n, rows]
 * Bytes     the packed matrices; n * 4 * (cols * 2 + rows)
 * Limit     bandwidth
 * Launch    two blocks of 8 warps per multiprocessor where they fit; every matrix gets blocks by its bytes, a block a run of tiles
 * Layout    kernels/pack.h; the loop: step_tiles.cuh
 * Numerics  weights exact, activations in two 16-bit floats, or with INT4 in 16 bits of the greatest of 128 columns; sums fp32, scale per
 *           group; the order of a row's sum depends on the shape of W alone */
#include "kernels/cuda/step_tiles.cuh"
#include "kernels/cuda/stream.cuh"

namespace {

/* The kind of input; each kernel has code for one kind alone, since the instruction cache holds little and forgets at every launch. */
enum kind {
    STREAM,                             /* rows, normed; the block multiplies them whole: step_project, step_logits */
    RANGE,                              /* the same, but a range of columns, and not divided by the rms: step_router */
    PLAIN,                              /* rows as they are, or scaled by head: step_add, step_logits of a hidden state */
    PAIR,                               /* two ranges of columns with an input and a norm of their own: step_mtp_join */
};

/* The destination of sums; with LOGITS logits and tile_max. */
enum write {
    TO_ROWS,                            /* y[t * y_row + n] */
    TO_RING,                            /* y[((*pos + t) % STEP_RING) * y_row + n] of the row's slot */
    TO_STREAM,                          /* added to it */
};

struct input_rows {
    const void    *x;                   /* [n, cols] fp32; bf16 rows of a table when `ids` */
    const int64_t *stream;              /* [n, cols], instead of x */
    const int32_t *ids;                 /* NULL, or: row t is row ids[index of t] of the table x */
    const float   *norm;                /* [cols] or NULL */
};

struct part {
    const uint8_t *data, *scale;
    float         *y;                   /* with TO_STREAM the stream */
    int            y_row, rows, tiles;
    int            first, per_split;    /* blocks: [splits][per_split] from `first` on */
    int            format, write;
};

struct job {
    struct part       part[STEP_PARTS];
    int               n_parts;
    struct input_rows in[2];
    const float      *plus;
    int64_t          *stream_out;
    uint4            *missing;
    size_t            y_split;
    float            *h_out, *ssq_out, *tile_max;
    const float      *ssq, *bias;
    const int32_t    *row, *pos, *drafts;
    const uint8_t    *seen;
    const struct step_sampling *sampling;
    const struct step_row *rows;
    size_t            slot_bytes;       /* of rings */
    int               n_rows, n_ids, cols, groups, split_groups, n_missing;
    int               warp_groups;      /* of columns, no more than the kernel's GW */
    float             eps;
};

template <int F> struct tiles_of_part {
    enum { SCALED = has_scales<F>(), SCALE_STEP = unit_scale_bytes<F>() };
    const uint8_t *tile, *scale;        /* unit 0 of this warp, this lane's scale */
    uint32_t       step, scale_step;    /* bytes of a tile */
    int            n_units, tiles, per; /* of a tile; tiles left; taken at a time */
    __device__ __forceinline__ void next(struct step_piece *p)
    {
        const bool two = tiles > 1;     /* the last tile may be alone */
        *p = {tile, scale, two ? step : 0, two ? scale_step : 0, n_units};
        tile += per * step;
        scale += per * scale_step;
        tiles -= per;
    }
};

template <int KIND> __device__ __forceinline__ bool from_stream(const struct job &j) { return KIND == RANGE || (KIND == STREAM && j.in[0].stream); }

/* Columns at .. at + 3, counted through all rows of the input. */
template <int KIND> __device__ __forceinline__ float4 input(const struct job &j, size_t at)
{
    if (from_stream<KIND>(j))
        return stream_read4(stream_load4(j.in[0].stream + at));
    float4 u = *(const float4 *)((const float *)j.in[0].x + at);
    if (KIND == STREAM && j.plus) {
        const float4 p = *(const float4 *)(j.plus + at);
        u = make_float4(u.x + p.x, u.y + p.y, u.z + p.z, u.w + p.w);
    }
    return u;
}

__device__ __forceinline__ float4 table_input(const struct job &j, const struct input_rows &in, int i, int c)
{
    const struct step_row r = row_of(j.rows, i);
    uint2 v = *(const uint2 *)((const uint16_t *)in.x + (size_t)live_of(in.ids, r.slot)[r.index] * j.cols + c);
    return make_float4(bf16_low(v.x), bf16_high(v.x), bf16_low(v.y), bf16_high(v.y));
}

__device__ __forceinline__ void scale4(float4 &u, float s)
{
    u.x *= s;
    u.y *= s;
    u.z *= s;
    u.w *= s;
}

/* The places of a warp's columns: in the matrix, and in the row that is normed. */
struct place {
    int split, g0, gw;
    template <int KIND> __device__ __forceinline__ int column(const struct job &j) const
    {
        return (KIND == PAIR ? g0 - split * j.split_groups : g0) * PACK_GROUP + 4 * (threadIdx.x % 32);
    }
};

template <int KIND, int GW> __device__ __forceinline__ void load_norm(float4 norm[GW], const struct job &j, const struct place &at)
{
    const float *w = j.in[KIND == PAIR ? at.split : 0].norm + at.column<KIND>(j);
#pragma unroll
    for (int gi = 0; gi < GW; gi++)
        norm[gi] = gi < at.gw ? *(const float4 *)(w + gi * PACK_GROUP) : make_float4(0, 0, 0, 0);
}

/* INT4 scales each group of columns by its greatest, so the division by the rms can be made up for when sums are written: nobody waits for
 * the other warps' squares.  For large matrices, CHAINS 1, alone: with more blocks a multiprocessor registers do not suffice. */
template <int KIND, int P, int CHAINS> __host__ __device__ constexpr bool rms_at_end() { return KIND == STREAM && P == S8 && CHAINS == 1; }
template <class SHARED> __device__ __forceinline__ float squares_of(const SHARED *sm, int set, int row)
{
    const float4 *v = (const float4 *)sm->square[set][row];
    static_assert(STEP_WARPS == 8, "two of four");
    return ((v[0].x + v[0].y) + (v[0].z + v[0].w)) + ((v[1].x + v[1].y) + (v[1].z + v[1].w));
}
template <class SHARED> __device__ __forceinline__ float rms_of(const SHARED *sm, const struct job &j, int set, int row)
{
    return rsqrtf(squares_of(sm, set, row) / (float)j.cols + j.eps);
}

/* The row of the stream that row t is made of; row0: of row 0, without `rows`. */
template <bool LOGITS> __device__ __forceinline__ int row_of_stream(const struct job &j, int t, int row0)
{
    if (!LOGITS || !j.rows || !j.row || t >= j.n_rows)
        return row0 + t;
    return j.rows[t].first + *live_of(j.row, j.rows[t].slot);
}

/* The input of this warp's columns as fragments.  norm: weights of them, fetched before. */
template <int KIND, int GW, int ROWS, int P, int CHAINS, bool LOGITS, class SHARED>
__device__ __forceinline__ void load_input(group_frags<P, (ROWS + 3) / 4> f[GW], SHARED *sm, const struct job &j, const float4 norm[GW],
                                           const struct place &at, bool writer)
{
    constexpr int N = ROWS < 4 ? ROWS : 4, COLS = (ROWS + 3) / 4;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, c0 = at.column<KIND>(j);
    const struct input_rows &in = j.in[KIND == PAIR ? at.split : 0];
    const float *x = (const float *)in.x;
    const int row0 = j.row ? *j.row : 0;
#pragma unroll
    for (int set = 0; set < COLS; set++) {
        const int n = min(N, j.n_rows - 4 * set);
        float4 u[GW][N];
        float ss[N] = {};
        int row[N];
#pragma unroll
        for (int i = 0; i < N; i++)
            row[i] = row_of_stream<LOGITS>(j, 4 * set + i, row0);
        const auto from = [&](int i, int gi) { return (size_t)row[i] * j.cols + c0 + gi * PACK_GROUP; };
        constexpr bool TOGETHER = (KIND == STREAM || KIND == RANGE) && GW * N <= 12;        /* else there are not enough registers */
        if (TOGETHER && from_stream<KIND>(j)) {
            struct stream4 v[GW][N];    /* all loads in flight before the first conversion: with a branch around both, each load would be awaited */
#pragma unroll
            for (int i = 0; i < N; i++)
#pragma unroll
                for (int gi = 0; gi < GW; gi++) {
                    v[gi][i] = {};
                    if (i < n && gi < at.gw)
                        v[gi][i] = stream_load4(j.in[0].stream + from(i, gi));
                }
#pragma unroll
            for (int i = 0; i < N; i++)
#pragma unroll
                for (int gi = 0; gi < GW; gi++)
                    u[gi][i] = stream_read4(v[gi][i]);
        } else {
#pragma unroll
            for (int i = 0; i < N; i++)
#pragma unroll
                for (int gi = 0; gi < GW; gi++) {
                    u[gi][i] = make_float4(0, 0, 0, 0);
                    if (i < n && gi < at.gw) {
                        if (KIND == PAIR)
                            u[gi][i] = in.ids ? table_input(j, in, 4 * set + i, c0 + gi * PACK_GROUP) : *(const float4 *)(x + from(i, gi));
                        else
                            u[gi][i] = input<KIND>(j, from(i, gi));
                    }
                }
        }
        if (KIND != PLAIN)
#pragma unroll
            for (int i = 0; i < N; i++)
#pragma unroll
                for (int gi = 0; gi < GW; gi++)
                    ss[i] += square4(u[gi][i]);
        if (KIND != PLAIN) {
            constexpr bool LATER = rms_at_end<KIND, P, CHAINS>();
            float r[N];
#pragma unroll
            for (int i = 0; i < N; i++)
                r[i] = 1;
            if (KIND != RANGE || writer) {
#pragma unroll
                for (int i = 0; i < N; i++) {
                    const float v = warp_sum(ss[i]);
                    if (lane == 0)
                        sm->square[set][i][warp] = v;
                }
                if (!LATER || j.h_out) {
                    __syncthreads();
#pragma unroll
                    for (int i = 0; i < N; i++)
                        if (KIND != RANGE)
                            r[i] = rms_of(sm, j, set, i);
                        else if (threadIdx.x == 0 && i < n)
                            j.ssq_out[at.split * STEP_ROWS + 4 * set + i] = squares_of(sm, set, i);
                }
            }
#pragma unroll
            for (int i = 0; i < N; i++)
#pragma unroll
                for (int gi = 0; gi < GW; gi++) {
                    const size_t to = (size_t)(4 * set + i) * j.cols + c0 + gi * PACK_GROUP;
                    const bool out = KIND != PAIR && writer && i < n && gi < at.gw;
                    if (KIND == STREAM && out && j.stream_out)
                        stream_store4(j.stream_out + to, u[gi][i].x, u[gi][i].y, u[gi][i].z, u[gi][i].w);
                    const float by = LATER ? 1 : r[i];
                    u[gi][i].x *= by * (1 + norm[gi].x);
                    u[gi][i].y *= by * (1 + norm[gi].y);
                    u[gi][i].z *= by * (1 + norm[gi].z);
                    u[gi][i].w *= by * (1 + norm[gi].w);
                    if (out && j.h_out) {
                        float4 h = u[gi][i];
                        if (LATER)
                            scale4(h, r[i]);
                        *(float4 *)(j.h_out + to) = h;
                    }
                }
        } else if (j.ssq) {
#pragma unroll
            for (int i = 0; i < N; i++)
#pragma unroll
                for (int gi = 0; gi < GW; gi++)
                    if (i < n && gi < at.gw) {
                        float2 q = ((const float2 *)j.ssq)[(size_t)(4 * set + i) * j.groups + at.g0 + gi];
                        scale4(u[gi][i], rsqrtf((q.x + q.y) / PACK_GROUP + j.eps));
                    }
        }
#pragma unroll
        for (int gi = 0; gi < GW; gi++)
            frags_set(f[gi], set, u[gi], sm->own[warp]);
    }
}

/* Bias and penalties of a logit of row `r`, in the order of engine/sampler.h; `vocab` ids have a bias. */
__device__ __forceinline__ float penalised(const struct job &j, float l, int id, const struct step_row &r, int vocab)
{
    if (!j.sampling)
        return id < j.n_ids ? l : -INFINITY;
    const struct step_sampling *s = j.sampling + r.slot;
    const size_t at = (size_t)r.slot * vocab + id;
    if (id >= s->n_ids)
        return -INFINITY;
    int seen = j.seen[at];
    for (int i = 0; i < r.index; i++)
        if (live_of(j.drafts, r.slot)[i] == id)
            seen = STEP_IN_TEXT | STEP_IN_ANSWER;
    if (s->biased)
        l += j.bias[at];
    if (seen && s->repetition_penalty > 0 && s->repetition_penalty != 1)
        l = l > 0 ? l / s->repetition_penalty : __fmul_rn(l, s->repetition_penalty);
    return seen & STEP_IN_ANSWER ? __fsub_rn(l, s->presence_penalty) : l;
}

/* Returns the destination of row t of the sums. */
__device__ __forceinline__ float *place_of_row(const struct job &j, const struct part &p, int split, int t)
{
    if (p.write != TO_RING)
        return p.y + split * j.y_split + (size_t)t * p.y_row;
    const struct step_row r = row_of(j.rows, t);
    const int pos = *live_of(j.pos, r.slot) + r.index;
    return behind(p.y, r.slot * j.slot_bytes) + (size_t)(pos % STEP_RING) * p.y_row;
}

/* A finished pair of sums: rows 16 tile + g and + 8 of one token; y: its place_of_row(). */
template <int KIND, bool LOGITS> __device__ __forceinline__ void write_sums(const struct job &j, const struct part &p, int tile, int token, float *y,
                                                                            float2 v)
{
    const int g = threadIdx.x % 32 / 4, row = tile * PACK_ROWS + g;
    if (LOGITS) {
        float m = -INFINITY;
        if (token < j.n_rows) {
            const struct step_row r = row_of(j.rows, token);
            v.x = row < p.rows ? penalised(j, v.x, row, r, p.rows) : -INFINITY;
            v.y = row + 8 < p.rows ? penalised(j, v.y, row + 8, r, p.rows) : -INFINITY;
            m = isnan(v.x) || isnan(v.y) ? INFINITY : fmaxf(v.x, v.y);     /* a NaN makes the maximum +inf, so that step_pick looks at the tile */
        }
        for (int k = 4; k < 32; k *= 2)
            m = fmaxf(m, __shfl_xor_sync(~0u, m, k));
        if (token < j.n_rows && g == 0) {
            const int n = step_maxima(p.rows);
            float *max = j.tile_max + (size_t)token * n;
            max[tile] = m;
            for (int i = tile + 1 == p.tiles ? p.tiles : n; i < n; i++)
                max[i] = -INFINITY;
        }
    }
    if (token >= j.n_rows)
        return;
    if (KIND == PLAIN && p.write == TO_STREAM) {
        int64_t *to = (int64_t *)p.y + (size_t)token * p.y_row;
        if (row < p.rows)
            stream_add(to + row, v.x);
        if (row + 8 < p.rows)
            stream_add(to + row + 8, v.y);
        return;
    }
    if (row < p.rows)
        y[row] = v.x;
    if (row + 8 < p.rows)
        y[row + 8] = v.y;
}

/* Tiles side by side. */
template <int ROWS, int CHAINS> __host__ __device__ constexpr int tiles_of() { return CHAINS == 1 && ROWS <= 4 ? 2 : 1; }
/* Two blocks a multiprocessor where they fit: eight warps alone leave half of the issue slots empty.  A third place is for the
 * next kernel's first blocks, which fetch their weights there. */
template <int F, int GW, int ROWS, int T, int KIND> __host__ __device__ constexpr int blocks_of()
{
    return GW >= 4 ? 1 : F != WEIGHT_INT4 || KIND == RANGE ? (ROWS * GW <= 8 ? 2 : 1) : ROWS == 1 && GW <= 2 && T == 1 ? 3 : ROWS <= 4 ? 2 : 1;
}
template <int T> struct linear_shared : step_shared<T == 2 ? 8 : 5> {
    float *to[STEP_ROWS];               /* place_of_row(): there are too few registers to keep it in */
};

template <int F, int GW, int ROWS, int CHAINS, int KIND, bool LOGITS>
__global__ void __launch_bounds__(STEP_THREADS, blocks_of<F, GW, ROWS, tiles_of<ROWS, CHAINS>(), KIND>())
    step_linear_kernel(const __grid_constant__ struct job j)
{
    constexpr int COLS = (ROWS + 3) / 4, T = tiles_of<ROWS, CHAINS>(), units = group_units<F>();
    constexpr int P = product_of<F, KIND == STREAM || KIND == PAIR>();
    extern __shared__ uint4 memory[];
    linear_shared<T> *sm = (linear_shared<T> *)memory;
    const int warp = threadIdx.x / 32;
    gpu_next();
    int pi = 0;
    while (pi + 1 < j.n_parts && blockIdx.x >= (unsigned)j.part[pi + 1].first)
        pi++;
    const struct part &p = j.part[pi];
    const int local = blockIdx.x - p.first, block = local % p.per_split;
    const int pairs = (p.tiles + T - 1) / T, t0 = first_of(pairs, block, p.per_split) * T,
              t1 = min(first_of(pairs, block + 1, p.per_split) * T, p.tiles);
    struct place at;
    at.split = local / p.per_split;
    at.g0 = at.split * j.split_groups + warp * j.warp_groups;
    at.gw = max(0, min(j.warp_groups, min(j.groups, (at.split + 1) * j.split_groups) - at.g0));
    const size_t tile_bytes = (size_t)j.groups * units * STEP_UNIT;
    step_stream<tiles_of_part<F>, T, linear_shared<T>::UNITS> s;
    group_frags<P, COLS> f[GW];
    float4 norm[GW];

    /* what does not depend on the kernels in front */
    s.src = {p.data + t0 * tile_bytes + (size_t)at.g0 * units * STEP_UNIT,
             p.scale + ((size_t)t0 * j.groups + at.g0) * group_scale_bytes<F>() + lane_scale<F>(), (uint32_t)tile_bytes,
             (uint32_t)(j.groups * group_scale_bytes<F>()), at.gw * units, t1 - t0, T};
    s.start(sm, at.gw * units * ((t1 - t0 + T - 1) / T));
    s.ready();
    if ((int)threadIdx.x < j.n_rows)    /* the barrier before sums are added up makes it seen */
        sm->to[threadIdx.x] = place_of_row(j, p, at.split, threadIdx.x);
    if (ROWS < 4)
        staging_clear<ROWS>(sm->own[warp]);
    if (KIND != PLAIN && ROWS <= 2)
        load_norm<KIND, GW>(norm, j, at);
    gpu_wait();
    if (KIND == RANGE)
        for (int i = blockIdx.x * STEP_THREADS + threadIdx.x; i < j.n_missing; i += gridDim.x * STEP_THREADS)
            j.missing[i] = make_uint4(STEP_MISSING, STEP_MISSING, STEP_MISSING, STEP_MISSING);
    if (KIND != PLAIN && ROWS > 2)      /* too many registers to hold it meanwhile */
        load_norm<KIND, GW>(norm, j, at);
    load_input<KIND, GW, ROWS, P, CHAINS, LOGITS>(f, sm, j, norm, at, pi == 0 && block == 0);

    for (int tile = t0, n = 0; tile < t1; tile += T, n++) {
        float2 total[T][COLS] = {};
        tile_product<F, P, GW, COLS, T, CHAINS>(total, f, at.gw, s);
        keep_sums<COLS, T>(sm, n, tile + T >= t1, total, [&](int round, int i, int set, float2 v) {
            const int at = t0 + round * T + i;
            if (at >= t1)
                return;
            float2 r = row_scale<F>(p.scale, at, threadIdx.x % 32 / 4);
            if (rms_at_end<KIND, P, CHAINS>())
                r.x = r.y = rms_of(sm, j, set, threadIdx.x % 4);
            const int token = 4 * set + threadIdx.x % 4;
            write_sums<KIND, LOGITS>(j, p, at, token, sm->to[token], make_float2(v.x * r.x, v.y * r.y));
        });
    }
}

/* Blocks for every part by its bytes, at least one, at most one per tile; about `n` in all. */
void share_blocks(struct job *j, const size_t bytes[], int n, int splits, int t)
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
        if (p->per_split > (p->tiles + t - 1) / t)
            p->per_split = (p->tiles + t - 1) / t;
        p->first = first;
        first += p->per_split * splits;
    }
}

template <int F, int GW, int ROWS, int CHAINS, int KIND, bool LOGITS>
void launch_rows_of(struct cuda_queue *q, struct job j, const size_t bytes[], int splits)
{
    constexpr int T = tiles_of<ROWS, CHAINS>();
    const size_t shared = sizeof(linear_shared<T>);
    const int per_sm = blocks_of<F, GW, ROWS, T, KIND>() >= 2 && 2 * shared <= (size_t)q->smem ? 2 : 1;
    share_blocks(&j, bytes, (per_sm * q->n_sm + splits - 1) / splits, splits, T);
    const struct part *last = &j.part[j.n_parts - 1];
    launch(q, "step_linear", step_linear_kernel<F, GW, ROWS, CHAINS, KIND, LOGITS>, dim3(last->first + last->per_split * splits), STEP_THREADS,
           shared, true, j);
}
/* Which code there is.  GENERAL code takes any width and number of rows that is legal, by warps of up to four groups and eight rows, and
 * is slower where there are fewer.  The rest is for what the models of config/models.def have as published: INT4 layers with a head in
 * INT8 or bf16 and an MTP block in bf16, FP8 or INT4, 2048 or 3072 columns wide, and FP8 layers of 2048.  Of all this only
 * CHAINS changes a row's bits, and it depends on the matrix alone. */
enum { GENERAL = 4 };
template <int F, int GW, int CHAINS, int KIND, bool LOGITS> void launch_rows(struct cuda_queue *q, const struct job &j, const size_t bytes[],
                                                                             int splits)
{
    if constexpr (GW == GENERAL) {
        launch_rows_of<F, GW, 8, CHAINS, KIND, LOGITS>(q, j, bytes, splits);
    } else {
        if (j.n_rows == 1)
            launch_rows_of<F, GW, 1, CHAINS, KIND, LOGITS>(q, j, bytes, splits);
        else if (j.n_rows == 2)
            launch_rows_of<F, GW, KIND == PAIR ? 4 : 2, CHAINS, KIND, LOGITS>(q, j, bytes, splits);
        else if (j.n_rows <= 4)
            launch_rows_of<F, GW, 4, CHAINS, KIND, LOGITS>(q, j, bytes, splits);
        else
            launch_rows_of<F, GW, 8, CHAINS, KIND, LOGITS>(q, j, bytes, splits);
    }
}

/* gw: groups of columns of a warp.  NARROW, WIDE: there is code of its own for up to two groups, for three. */
template <int F, int CHAINS, int KIND, bool LOGITS, bool NARROW, bool WIDE>
void launch_width(struct cuda_queue *q, const struct job &j, const size_t bytes[], int splits, int gw)
{
    if constexpr (NARROW)
        if (gw <= 2) {
            launch_rows<F, 2, CHAINS, KIND, LOGITS>(q, j, bytes, splits);
            return;
        }
    if constexpr (WIDE)
        if (gw == 3) {
            launch_rows<F, 3, CHAINS, KIND, LOGITS>(q, j, bytes, splits);
            return;
        }
    if (gw <= GENERAL)
        launch_rows<F, GENERAL, CHAINS, KIND, LOGITS>(q, j, bytes, splits);
    else
        queue_note(q, "step_linear", cudaErrorInvalidValue);
}

/* Dense matrices that are small, beside large ones of another format, have two chains of products. */
template <int F> void launch_kind(struct cuda_queue *q, const struct job &j, const size_t bytes[], int splits, int gw, enum kind kind, bool many)
{
    constexpr bool dense = F == WEIGHT_DENSE, fp8 = F == WEIGHT_FP8;
    if constexpr (dense)
        if (kind == STREAM && !many) {
            launch_width<F, 2, STREAM, false, true, true>(q, j, bytes, splits, gw);
            return;
        }
    if (kind == STREAM)
        launch_width<F, 1, STREAM, false, true, true>(q, j, bytes, splits, gw);
    else if (kind == PAIR)
        launch_width<F, 2, PAIR, false, dense || fp8, dense || fp8>(q, j, bytes, splits, gw);
    else if (kind == PLAIN && gw <= 2)
        launch_rows<F, 2, 2, PLAIN, false>(q, j, bytes, splits);
    else if (kind == RANGE && dense && gw <= 1)
        launch_rows<WEIGHT_DENSE, 1, 2, RANGE, false>(q, j, bytes, splits);
    else
        queue_note(q, "step_linear", cudaErrorInvalidValue);
}

/* The first token after a prompt has one row that is normed already. */
template <int F> void launch_logits(struct cuda_queue *q, const struct job &j, const size_t bytes[], int splits, int gw, enum kind kind)
{
    if (kind == STREAM)
        launch_width<F, 1, STREAM, true, true, true>(q, j, bytes, splits, gw);
    else if (kind == PLAIN && j.n_rows == 1 && gw <= GENERAL)
        launch_rows_of<F, GENERAL, 1, 1, PLAIN, true>(q, j, bytes, splits);
    else
        queue_note(q, "step_linear", cudaErrorInvalidValue);
}

/* The parts of one format. */
void launch_format(struct cuda_queue *q, struct job j, int format, int splits, enum kind kind, bool logits)
{
    size_t bytes[STEP_PARTS], total = 0;
    int n = 0;
    for (int i = 0; i < j.n_parts; i++)
        if (j.part[i].format == format) {
            j.part[n] = j.part[i];
            bytes[n] = pack_data_bytes((enum weight_format)format, j.part[n].rows, j.groups * PACK_GROUP);
            total += bytes[n++];
        }
    const int writer = j.part[0].first == 0;            /* the first part of all writes stream_out and h_out */
    j.n_parts = n;
    if (!writer) {
        j.stream_out = NULL;
        j.h_out = NULL;
    }
    const int gw = j.warp_groups = (j.split_groups + STEP_WARPS - 1) / STEP_WARPS;
    const bool many = total / splits >= (size_t)q->n_sm * 64 * 1024;
    switch (format + (logits ? 16 : 0)) {
    case WEIGHT_INT4:       launch_kind<WEIGHT_INT4>(q, j, bytes, splits, gw, kind, many); break;
    case WEIGHT_FP8:        launch_kind<WEIGHT_FP8>(q, j, bytes, splits, gw, kind, many); break;
    case WEIGHT_DENSE:      launch_kind<WEIGHT_DENSE>(q, j, bytes, splits, gw, kind, many); break;
    case WEIGHT_DENSE + 16: launch_logits<WEIGHT_DENSE>(q, j, bytes, splits, gw, kind); break;
    case WEIGHT_INT8 + 16:  launch_logits<WEIGHT_INT8>(q, j, bytes, splits, gw, kind); break;
    default: queue_note(q, "step_linear", cudaErrorInvalidValue);       /* INT8 is for heads, INT4 and FP8 are not */
    }
}

}

static_assert(sizeof(linear_shared<2>) <= 99 * 1024, "shared memory of a GB10");

namespace {

/* A matrix of the job, and where its products go. */
void add_part(struct job *j, const struct weight &w, void *y, enum write write)
{
    struct part *p = &j->part[j->n_parts];
    p->data = (const uint8_t *)w.data;
    p->scale = (const uint8_t *)w.scale;
    p->y = (float *)y;
    p->y_row = p->rows = w.rows;
    p->tiles = pack_tiles(w.rows);
    p->format = w.format;
    p->write = write;
    p->first = j->n_parts++;
}

/* All parts have as many columns; each format is a launch of its own. */
void launch_job(struct cuda_queue *q, struct job &j, int cols, int splits, enum kind kind, bool logits)
{
    j.groups = pack_groups(cols);
    j.cols = kind == PAIR ? cols / 2 : cols;
    j.split_groups = (j.groups + splits - 1) / splits;
    for (int f = WEIGHT_DENSE; f <= WEIGHT_INT8; f++)
        for (int i = 0; i < j.n_parts; i++)
            if (j.part[i].format == f) {
                launch_format(q, j, f, splits, kind, logits);
                break;
            }
}

}

extern "C" void step_project_cuda(struct cuda_queue *q, const struct step_project_args *a)
{
    struct job j = {};
    const int cols = a->part[0].w.cols;
    for (int i = 0; i < a->n_parts; i++)
        add_part(&j, a->part[i].w, a->part[i].y, a->part[i].ring ? TO_RING : TO_ROWS);
    j.in[0].stream = a->stream;
    j.in[0].x = a->halves;
    j.in[0].norm = a->norm;
    j.plus = a->halves ? a->halves + (size_t)a->n_rows * cols : NULL;
    j.stream_out = a->halves ? a->stream_out : NULL;
    j.pos = a->pos;
    j.rows = a->rows;
    j.slot_bytes = a->slot_bytes;
    j.n_rows = a->n_rows;
    j.eps = a->eps;
    launch_job(q, j, cols, 1, STREAM, false);
}

extern "C" void step_add_cuda(struct cuda_queue *q, const struct step_add_args *a)
{
    struct job j = {};
    if (a->ssq && a->head_dim != PACK_GROUP)
        queue_note(q, "step_add", cudaErrorInvalidValue);
    add_part(&j, a->w, a->stream, TO_STREAM);
    j.in[0].x = a->x;
    j.ssq = a->ssq;
    j.n_rows = a->n_rows;
    j.eps = a->eps;
    const int ranges = step_add_ranges(a->w.cols);
    launch_job(q, j, a->w.cols, ranges > 1 ? ranges : 1, PLAIN, false);
}

extern "C" void step_router_cuda(struct cuda_queue *q, const struct step_router_args *a)
{
    struct job j = {};
    add_part(&j, a->router, a->logits, TO_ROWS);
    add_part(&j, a->shared_gate, a->gate, TO_ROWS);
    j.in[0].stream = a->stream;
    j.in[0].norm = a->norm;
    j.h_out = a->h;
    j.ssq_out = a->ssq;
    j.y_split = a->part_step;
    j.missing = (uint4 *)a->expert_h;
    j.n_missing = (int)(a->n_expert_h / 4);
    j.n_rows = a->n_rows;
    launch_job(q, j, a->router.cols, step_router_parts(a->router.cols), RANGE, false);
}

void step_planes(struct cuda_queue *q, const struct step_logits_args *a);       /* step_planes.cu */

extern "C" void step_logits_cuda(struct cuda_queue *q, const struct step_logits_args *a)
{
    if (a->w.format == WEIGHT_PLANES) {
        step_planes(q, a);
        return;
    }
    struct job j = {};
    add_part(&j, a->w, a->logits, TO_ROWS);
    j.in[0].stream = a->stream;
    j.in[0].x = a->hidden;
    j.in[0].norm = a->norm;
    j.h_out = a->hidden_out;
    j.tile_max = a->tile_max;
    j.sampling = a->sampling;
    j.seen = a->seen;
    j.bias = a->bias;
    j.drafts = a->drafts;
    j.row = a->row;
    j.rows = a->rows;
    j.n_ids = a->n_ids;
    j.n_rows = a->n_rows;
    j.eps = a->eps;
    launch_job(q, j, a->w.cols, 1, a->stream ? STREAM : PLAIN, true);
}

extern "C" void step_mtp_join_cuda(struct cuda_queue *q, const struct step_mtp_join_args *a)
{
    struct job j = {};
    if (a->table.dtype != DT_BF16)
        queue_note(q, "step_mtp_join", cudaErrorInvalidValue);
    add_part(&j, a->w, a->halves, TO_ROWS);
    j.in[0].x = a->table.data;
    j.in[0].ids = a->ids;
    j.rows = a->rows;
    j.in[0].norm = a->norm_embedding;
    j.in[1].x = a->hidden;
    j.in[1].norm = a->norm_hidden;
    j.y_split = (size_t)a->n_rows * a->w.rows;
    j.n_rows = a->n_rows;
    j.eps = a->eps;
    launch_job(q, j, a->w.cols, 2, PAIR, false);
}
