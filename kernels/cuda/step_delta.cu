/* step_delta: convolution, gates, recurrence and gated norm of one DeltaNet layer for the rows of a decode step.
 * Shapes    state [n_v, 128, 128] fp32 twice, ring [32, channels] and [32, n_v], z and y [n_rows, n_v * 128]
 * Bytes     2 * n_v * 64 KiB of state;  64 value heads: 8.4 MB, all else is below 1 MB and in the second-level cache
 * Limit     bandwidth, while rows are few: at 4.5 TB/s 1.9 us, at 230 GB/s 36 us;  a row takes 0.25 us of arithmetic
 * Launch    a block per half of a value head (64 columns), 8 warps; with rows of several conversations one for each of them (run_at())
 * Layout    a warp holds 16 rows of the half state, a lane 8 rows of 4 columns: 32 registers, 16-byte loads and stores
 * Numerics  fp32.  With e = exp(g), p = k^T S and o = q^T S come from one pass over the old state:
 *           d = beta (v - e p),  S <- e S + k d^T,  and the output is e o + (q . k) d.  A row that is applied later runs
 *           the same instructions, so committed states carry the bits that the step had in registers */
#include "kernels/cuda/common.cuh"

enum {
    DIM   = 128,
    COLS  = 64,                         /* columns of a block */
    WARPS = 8,
    APPLY_AND_NEW = 2 * STEP_ROWS,
    CHANNELS = 2 * DIM + COLS,          /* that a block needs of the convolution: q, k, its columns of v */
};

struct delta_shared {
    float4 taps[CHANNELS];              /* weights of channel c at tap_place(c) */
    float  q[APPLY_AND_NEW][DIM], k[APPLY_AND_NEW][DIM], v[APPLY_AND_NEW][COLS];
    float  beta[APPLY_AND_NEW], decay[APPLY_AND_NEW], qk[APPLY_AND_NEW];
    float  part[2][2][WARPS][COLS];     /* sums of each warp's rows: of k and of q */
};

/* Lanes read every second or fourth channel; so spread, eight lanes meet eight different groups of banks. */
__device__ __forceinline__ int tap_place(int c) { return c ^ ((c >> 3) & 3); }

__device__ __forceinline__ float convolve(float m0, float m1, float m2, float m3, float4 w)
{
    return silu_f(fmaf(w.w, m3, fmaf(w.z, m2, fmaf(w.y, m1, __fmul_rn(w.x, m0)))));
}

__device__ __forceinline__ float4 convolve4(const float4 m[4], const float4 *taps, int c)
{
    float4 y;
    y.x = convolve(m[0].x, m[1].x, m[2].x, m[3].x, taps[tap_place(c)]);
    y.y = convolve(m[0].y, m[1].y, m[2].y, m[3].y, taps[tap_place(c + 1)]);
    y.z = convolve(m[0].z, m[1].z, m[2].z, m[3].z, taps[tap_place(c + 2)]);
    y.w = convolve(m[0].w, m[1].w, m[2].w, m[3].w, taps[tap_place(c + 3)]);
    return y;
}

__device__ __forceinline__ float dot4(float4 x, float4 y)
{
    return fmaf(x.w, y.w, fmaf(x.z, y.z, fmaf(x.y, y.y, __fmul_rn(x.x, y.x))));
}
__device__ __forceinline__ float4 times(float4 x, float s) { return make_float4(x.x * s, x.y * s, x.z * s, x.w * s); }

/* One warp: q, k, v, beta and the decay of the row at position `pos`, into place r.  The rings are those of a slot, `bytes` behind. */
__device__ __forceinline__ void row_inputs(struct delta_shared *s, const struct step_delta_args &a, size_t bytes, int r, int pos, int h, int half,
                                           float minus_rate, float dt_bias)
{
    int lane = threadIdx.x % 32, hk = h / (a.n_v_heads / a.n_k_heads);
    size_t channels = (size_t)(2 * a.n_k_heads + a.n_v_heads) * DIM;
    float4 q[4], k[4];
    float2 v[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        int at = pos - 3 + j;
        const float *raw = behind(a.raw, bytes) + (size_t)(at & (STEP_RING - 1)) * channels;
        q[j] = k[j] = make_float4(0, 0, 0, 0);
        v[j] = make_float2(0, 0);
        if (at >= 0) {
            q[j] = *(const float4 *)(raw + hk * DIM + 4 * lane);
            k[j] = *(const float4 *)(raw + (a.n_k_heads + hk) * DIM + 4 * lane);
            v[j] = *(const float2 *)(raw + (2 * a.n_k_heads + h) * DIM + half * COLS + 2 * lane);
        }
    }
    size_t gate = (size_t)(pos & (STEP_RING - 1)) * a.n_v_heads + h;
    float step = behind(a.a, bytes)[gate] + dt_bias, b = behind(a.b, bytes)[gate];

    float4 qc = convolve4(q, s->taps, 4 * lane), kc = convolve4(k, s->taps, DIM + 4 * lane);
    float2 vc;
    vc.x = convolve(v[0].x, v[1].x, v[2].x, v[3].x, s->taps[tap_place(2 * DIM + 2 * lane)]);
    vc.y = convolve(v[0].y, v[1].y, v[2].y, v[3].y, s->taps[tap_place(2 * DIM + 2 * lane + 1)]);
    float qq = warp_sum(dot4(qc, qc)), kk = warp_sum(dot4(kc, kc)), qk = warp_sum(dot4(qc, kc));
    float q_scale = 0.08838834764831845f / sqrtf(qq + 1e-6f), k_scale = 1.0f / sqrtf(kk + 1e-6f);    /* 128^-0.5 */
    qc = times(qc, q_scale);
    kc = times(kc, k_scale);
    qk *= q_scale * k_scale;
    *(float4 *)&s->q[r][4 * lane] = qc;
    *(float4 *)&s->k[r][4 * lane] = kc;
    *(float2 *)&s->v[r][2 * lane] = vc;
    if (lane == 0) {
        s->beta[r] = 1.0f / (1.0f + expf(-b));
        s->decay[r] = expf(minus_rate * (step > 20.0f ? step : log1pf(expf(step))));
        s->qk[r] = qk;
    }
}

/* y += s * x, rounded once. */
__device__ __forceinline__ void add4(float4 &y, float s, const float4 &x)
{
    y.x = fmaf(s, x.x, y.x);
    y.y = fmaf(s, x.y, y.y);
    y.z = fmaf(s, x.z, y.z);
    y.w = fmaf(s, x.w, y.w);
}

/* Adds what the lane 16 further on has. */
__device__ __forceinline__ void add_half_warp(float4 &v)
{
    v.x += __shfl_xor_sync(~0u, v.x, 16);
    v.y += __shfl_xor_sync(~0u, v.y, 16);
    v.z += __shfl_xor_sync(~0u, v.z, 16);
    v.w += __shfl_xor_sync(~0u, v.w, 16);
}

/* The sum of what the warps have for columns col .. col + 3. */
__device__ __forceinline__ float4 sum_of_warps(const float (*part)[COLS], int col)
{
    float4 sum = *(const float4 *)&part[0][col];
#pragma unroll
    for (int w = 1; w < WARPS; w++) {
        float4 x = *(const float4 *)&part[w][col];
        sum.x += x.x;
        sum.y += x.y;
        sum.z += x.z;
        sum.w += x.w;
    }
    return sum;
}

/* s * x + e * y, the second product rounded first. */
__device__ __forceinline__ float4 mix4(float s, const float4 &x, float e, const float4 &y)
{
    return make_float4(fmaf(s, x.x, __fmul_rn(e, y.x)), fmaf(s, x.y, __fmul_rn(e, y.y)), fmaf(s, x.z, __fmul_rn(e, y.z)),
                       fmaf(s, x.w, __fmul_rn(e, y.w)));
}

/* Takes the state over row r, but not over the last one.  With READ also returns the lane's columns of the output in the warp that asks
 * for them.  The bits of S do not depend on READ: nothing here may be contracted by the compiler's choice. */
template <bool READ> __device__ __forceinline__ float4 carry(float4 S[8], struct delta_shared *s, int r, bool mine, bool last)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = 16 * warp + 8 * (lane / 16), col = 4 * (lane % 16);
    float k[8], q[8];
    *(float4 *)k = *(const float4 *)&s->k[r][row];
    *(float4 *)(k + 4) = *(const float4 *)&s->k[r][row + 4];
    if (READ) {
        *(float4 *)q = *(const float4 *)&s->q[r][row];
        *(float4 *)(q + 4) = *(const float4 *)&s->q[r][row + 4];
    }
    float4 p = make_float4(0, 0, 0, 0), o = p;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        add4(p, k[i], S[i]);
        if (READ)
            add4(o, q[i], S[i]);
    }
    add_half_warp(p);
    if (READ)
        add_half_warp(o);
    float (*part)[WARPS][COLS] = s->part[r & 1];        /* two in turn: one barrier a row is enough */
    if (lane < 16)
        *(float4 *)&part[0][warp][col] = p;
    else if (READ)
        *(float4 *)&part[1][warp][col] = o;
    __syncthreads();
    p = sum_of_warps(part[0], col);
    float e = s->decay[r], beta = s->beta[r];
    float4 v = *(const float4 *)&s->v[r][col], d;
    d.x = __fmul_rn(beta, fmaf(-e, p.x, v.x));
    d.y = __fmul_rn(beta, fmaf(-e, p.y, v.y));
    d.z = __fmul_rn(beta, fmaf(-e, p.z, v.z));
    d.w = __fmul_rn(beta, fmaf(-e, p.w, v.w));
    if (READ && mine)
        o = mix4(s->qk[r], d, e, sum_of_warps(part[1], col));
    if (READ && last)
        return o;
#pragma unroll
    for (int i = 0; i < 8; i++)
        S[i] = mix4(k[i], d, e, S[i]);
    return o;
}

__global__ void __launch_bounds__(32 * WARPS, 2) step_delta_kernel(struct step_delta_args a)
{
    __shared__ struct delta_shared s;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, h = blockIdx.x / 2, half = blockIdx.x % 2;
    int hk = h / (a.n_v_heads / a.n_k_heads);
    const struct row_run run = run_at(a.rows, blockIdx.y, a.n_rows);
    if (a.rows && run.n == 0)
        return;
    const size_t bytes = run.slot * a.slot_bytes;

    /* Before gpu_wait(): weights, and also `live` and the state.  They were last written by the step before, and graph replays
     * are ordered as a whole: whatever still runs beside us belongs to this replay, and nothing in it writes the committed
     * state, or `live` before the last DeltaNet layer is done.  Outside a graph (n_rows 0) the launch does not overlap. */
    const struct step_live *live = a.live + run.slot;
    int pos = live->pos, n_apply = live->n_apply, parity = live->parity;
    for (int c = threadIdx.x; c < CHANNELS; c += 32 * WARPS) {
        int head = c < DIM ? hk : c < 2 * DIM ? a.n_k_heads + hk : 2 * a.n_k_heads + h;
        int in = c < 2 * DIM ? c % DIM : c - 2 * DIM + half * COLS;
        copy16(&s.taps[tap_place(c)], a.conv + (size_t)(head * DIM + in) * 4);
    }
    copy_commit();
    float minus_rate = -expf(a.a_log[h]), dt_bias = a.dt_bias[h];
    int col = half * COLS + 4 * (lane % 16);
    float4 norm = *(const float4 *)(a.norm + col);
    size_t at = (size_t)h * DIM * DIM + (size_t)(16 * warp + 8 * (lane / 16)) * DIM + col;
    const float *from = behind(parity ? a.state[1] : a.state[0], bytes) + at;
    float *to = behind(parity ? a.state[0] : a.state[1], bytes) + at;
    float4 S[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        S[i] = __ldcs((const float4 *)(from + i * DIM));
    gpu_next();
    gpu_wait();

    int n = n_apply + run.n, first = pos - n_apply;
    int t = (warp - n_apply) & (WARPS - 1);             /* the new row whose output this warp writes: row n_apply + t */
    size_t out = (size_t)((run.from + t) * a.n_v_heads + h) * DIM + col;
    float4 z = make_float4(0, 0, 0, 0);
    if (t < run.n)
        z = *(const float4 *)(a.z + out);
    copy_wait<0>();
    __syncthreads();
    for (int r = warp; r < n; r += WARPS)
        row_inputs(&s, a, bytes, r, first + r, h, half, minus_rate, dt_bias);
    __syncthreads();

    for (int r = 0; r < n_apply; r++)
        carry<false>(S, &s, r, false, false);
#pragma unroll
    for (int i = 0; i < 8; i++)
        __stcs((float4 *)(to + i * DIM), S[i]);
    for (int r = n_apply; r < n; r++) {
        bool mine = r - n_apply == t;
        float4 o = carry<true>(S, &s, r, mine, r == n - 1);
        if (mine) {
            float ssq = dot4(o, o);
            for (int m = 8; m; m >>= 1)
                ssq += __shfl_xor_sync(~0u, ssq, m);
            o.x *= norm.x * silu_f(z.x);
            o.y *= norm.y * silu_f(z.y);
            o.z *= norm.z * silu_f(z.z);
            o.w *= norm.w * silu_f(z.w);
            if (lane < 16)
                *(float4 *)(a.y + out) = o;
            if (lane == 0)
                a.ssq[(size_t)((run.from + t) * a.n_v_heads + h) * 2 + half] = ssq;
        }
    }
}

extern "C" void step_delta_cuda(struct cuda_queue *q, const struct step_delta_args *a)
{
    if (a->n_rows < 0 || a->n_rows > STEP_ROWS || a->n_k_heads < 1 || a->n_v_heads % a->n_k_heads || a->dk != DIM || a->dv != DIM || a->taps != 4)
        queue_note(q, "step_delta", cudaErrorInvalidValue);
    else
        launch(q, "step_delta", step_delta_kernel, dim3(2 * a->n_v_heads, a->rows ? a->n_rows : 1), 32 * WARPS, 0, a->n_rows > 0, *a);
}
