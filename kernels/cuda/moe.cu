/* router, moe_group, moe_combine: the operations around the expert products of prompt chunks.
 * Shapes    logits [n, n_experts] fp32, n_experts <= 512, top_k <= 16; d [n, top_k + 1, hidden] fp32
 * Bytes     router n n_experts 4; moe_group n (2 top_k + 1) 4 (every block reads the choices, from L2); moe_combine n (top_k + 3) hidden 4, or
 *           with d in packets n ((top_k + 1) hidden 2 + 2 hidden 4)
 * Limit     bandwidth; moe_combine at 4.5 TB/s, 4096 tokens, top 8, hidden 3072: 123 us
 * Launch    router: a warp per token, 8 a block.  moe_group: a block of 1024 per expert.  moe_combine: a block per token
 * Layout    router: lane l holds the logits of experts l, l + 32, ..
 * Numerics  router as the reference, but with another expf; experts are chosen by their logits.  moe_group exact */
#include "kernels/cuda/packets.cuh"

enum { ROUTER_EXPERTS = 512, ROUTER_HELD = ROUTER_EXPERTS / 32, GROUP_THREADS = 1024 };

static __global__ void __launch_bounds__(256) router_kernel(const struct router_args a)
{
    const int token = (int)(blockIdx.x * 8 + threadIdx.x / 32), lane = (int)threadIdx.x % 32, E = a.n_experts;
    gpu_wait();
    gpu_next();
    if (token >= a.n_tokens)
        return;
    float l[ROUTER_HELD], max = -INFINITY, all = 0, mine = 0;
    uint32_t taken = 0;                 /* bit i: expert lane + 32 i is chosen or does not exist */
#pragma unroll
    for (int i = 0; i < ROUTER_HELD; i++) {
        const int e = lane + 32 * i;
        l[i] = e < E ? a.logits[(size_t)token * (size_t)E + e] : -INFINITY;
        if (!(l[i] > -INFINITY))        /* NaN or -inf: chosen last */
            l[i] = -INFINITY;
        if (e >= E)
            taken |= 1u << i;
        max = fmaxf(max, l[i]);
    }
    max = warp_max(max);
#pragma unroll
    for (int i = 0; i < ROUTER_HELD; i++)
        if (lane + 32 * i < E)
            all += expf(l[i] - max);
    all = warp_sum(all);
    int choice = 0;
    for (int k = 0; k < a.top_k; k++) {
        float best = -INFINITY;
        int at = ROUTER_EXPERTS;          /* none */
#pragma unroll
        for (int i = 0; i < ROUTER_HELD; i++)
            if (!(taken >> i & 1) && (at == ROUTER_EXPERTS || l[i] > best)) {
                best = l[i];
                at = lane + 32 * i;
            }
        for (int m = 16; m; m >>= 1) {
            const float other = __shfl_xor_sync(~0u, best, m);
            const int there = __shfl_xor_sync(~0u, at, m);
            if (there < ROUTER_EXPERTS && (at == ROUTER_EXPERTS || other > best || (other == best && there < at))) {
                best = other;
                at = there;
            }
        }
        if (at % 32 == lane && at < ROUTER_EXPERTS)
            taken |= 1u << at / 32;
        if (lane == k) {
            choice = at;
            mine = expf(best - max) / all;
        }
    }
    float chosen = 0;
    for (int k = 0; k < a.top_k; k++)
        chosen += __shfl_sync(~0u, mine, k);
    if (lane < a.top_k) {
        a.experts[(size_t)token * (size_t)a.top_k + lane] = choice;
        a.weights[(size_t)token * (size_t)a.top_k + lane] = mine / chosen;
    }
}

extern "C" void router_cuda(struct cuda_queue *q, const struct router_args *a)
{
    if (a->n_experts > ROUTER_EXPERTS || a->top_k > STEP_CHOICES || a->top_k > a->n_experts) {
        queue_note(q, "router", cudaErrorInvalidValue);
        return;
    }
    const struct halves_of kept = q->halves;
    launch(q, "router", router_kernel, dim3((unsigned)((a->n_tokens + 7) / 8)), 256, 0, true, *a);
    q->halves = kept;
}

/* Block e finds the choices of expert e.  Each warp has a range of consecutive choices: it counts those of e and those of lower
 * experts.  When all counts are known, it reads its range again and writes. */
static __global__ void __launch_bounds__(GROUP_THREADS) moe_group_kernel(const struct moe_group_args a)
{
    const int e = (int)blockIdx.x, lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int n = a.n_tokens * a.top_k;
    gpu_wait();
    gpu_next();
    if (e == a.n_experts) {             /* the shared expert, the last choice of every token */
        if (threadIdx.x == 0) {
            a.start[e] = n;
            a.start[e + 1] = n + a.n_tokens;
        }
        for (int t = (int)threadIdx.x; t < a.n_tokens; t += GROUP_THREADS)
            a.slots[n + t] = t * (a.top_k + 1) + a.top_k;
        return;
    }
    __shared__ int lower[32], same[32];
    const int range = (n + GROUP_THREADS - 1) / GROUP_THREADS * 32, begin = min(n, warp * range), end = min(n, begin + range);
    int n_lower = 0, n_same = 0;
#pragma unroll 8
    for (int i = begin + lane; i < end; i += 32) {
        const int chosen = a.experts[i];
        n_lower += chosen < e;
        n_same += chosen == e;
    }
    for (int m = 16; m; m >>= 1) {
        n_lower += __shfl_xor_sync(~0u, n_lower, m);
        n_same += __shfl_xor_sync(~0u, n_same, m);
    }
    if (lane == 0) {
        lower[warp] = n_lower;
        same[warp] = n_same;
    }
    __syncthreads();
    int at = 0, start = 0;
    for (int w = 0; w < 32; w++) {
        start += lower[w];
        at += w < warp ? same[w] : 0;
    }
    if (threadIdx.x == 0)
        a.start[e] = start;
    if (n_same == 0)
        return;
    at += start;
#pragma unroll 4
    for (int i0 = begin; i0 < end; i0 += 32) {
        const int i = i0 + lane;
        const bool mine = i < end && a.experts[i] == e;
        const unsigned all = __ballot_sync(~0u, mine);
        if (mine)
            a.slots[at + __popc(all & ((1u << lane) - 1))] = i + i / a.top_k;
        at += __popc(all);
    }
}

extern "C" void moe_group_cuda(struct cuda_queue *q, const struct moe_group_args *a)
{
    const struct halves_of kept = q->halves;
    launch(q, "moe_group", moe_group_kernel, dim3((unsigned)a->n_experts + 1), GROUP_THREADS, 0, true, *a);
    q->halves = kept;
}

static __global__ void __launch_bounds__(256) moe_combine_kernel(const struct moe_combine_args a)
{
    const size_t token = blockIdx.x;
    const int k = a.top_k, quads = a.hidden / 4;
    float4 *x = (float4 *)(a.x + token * (size_t)a.hidden);
    const float4 *d = (const float4 *)(a.d + token * (size_t)(k + 1) * (size_t)a.hidden);
    __shared__ float weight[STEP_CHOICES + 1];
    gpu_wait();
    gpu_next();
    if ((int)threadIdx.x <= k)
        weight[threadIdx.x] = (int)threadIdx.x < k ? a.weights[token * (size_t)k + threadIdx.x] : 1.0f / (1.0f + expf(-a.shared_gate[token]));
    __syncthreads();
    for (int i = (int)threadIdx.x; i < quads; i += 256) {
        float4 sum = x[i];
#pragma unroll 9
        for (int j = 0; j <= k; j++) {
            const float4 v = __ldcs(d + (size_t)j * (size_t)quads + i);
            const float w = weight[j];
            sum.x += w * v.x;
            sum.y += w * v.y;
            sum.z += w * v.z;
            sum.w += w * v.w;
        }
        x[i] = sum;
    }
}

/* d in packets: a thread adds up a packet of each choice. */
static __global__ void __launch_bounds__(256) moe_combine_packets_kernel(const struct moe_combine_args a)
{
    const size_t token = blockIdx.x;
    const int k = a.top_k, packets = a.hidden / 16;
    float4 *x = (float4 *)(a.x + token * (size_t)a.hidden);
    const uint4 *d = (const uint4 *)a.d + token * (size_t)(k + 1) * (size_t)(2 * packets);
    __shared__ float weight[STEP_CHOICES + 1];
    gpu_wait();
    gpu_next();
    if ((int)threadIdx.x <= k)
        weight[threadIdx.x] = (int)threadIdx.x < k ? a.weights[token * (size_t)k + threadIdx.x] : 1.0f / (1.0f + expf(-a.shared_gate[token]));
    __syncthreads();
    for (int i = (int)threadIdx.x; i < packets; i += (int)blockDim.x) {
        float sum[16];
#pragma unroll
        for (int c = 0; c < 4; c++)
            *(float4 *)&sum[4 * c] = x[4 * i + c];
#pragma unroll 3
        for (int j = 0; j <= k; j++) {
            const uint4 *at = d + (size_t)j * (size_t)(2 * packets) + 2 * i;
            const uint4 first = __ldcs(at), second = __ldcs(at + 1);
            const float w = weight[j];
            float v[16];
            packet_all(v, first, second);
#pragma unroll
            for (int c = 0; c < 16; c++)
                sum[c] = fmaf(w, v[c], sum[c]);
        }
#pragma unroll
        for (int c = 0; c < 4; c++)
            x[4 * i + c] = *(float4 *)&sum[4 * c];
    }
}

extern "C" void moe_combine_cuda(struct cuda_queue *q, const struct moe_combine_args *a)
{
    if (a->hidden % 4 || a->top_k > STEP_CHOICES) {
        queue_note(q, "moe_combine", cudaErrorInvalidValue);
        return;
    }
    const dim3 grid((unsigned)a->n_tokens);
    if (a->own_form && gemm_packets(a->n_tokens, a->hidden))
        launch(q, "moe_combine", moe_combine_packets_kernel, grid, min(256, (a->hidden / 16 + 31) / 32 * 32), 0, true, *a);
    else
        launch(q, "moe_combine", moe_combine_kernel, grid, 256, 0, true, *a);
}
