/* kv_seal: exact rows of a KV cache to codes, by blocks of 64 positions; kv_expand: codes back to rows.
 * Shapes    exact rows [kv_heads, 256] bf16; codes and scales of a block (kernels/kv.h)
 * Bytes     kv_seal: a position and KV head 1 KiB read, 260 B written with 4 bits; kv_expand: the other way round
 * Limit     none that counts: kv_seal has a block every 64 positions, kv_expand runs once for the tokens of a chunk
 * Launch    grid (blocks, kv_heads, keys and values), 8 warps, 8 positions a warp, 8 numbers a lane
 * Numerics  the bits of kernels/cpu/kv.c; expanded rows are rounded to bf16 */
#include "kernels/cuda/kv.cuh"

static __global__ __launch_bounds__(KV_WARPS * 32) void kv_seal_kernel(struct kv_seal_args a)
{
    const int role = (int)blockIdx.z;
    kv_seal_block(a.kv, role == KV_KEY ? a.kv.k_format : a.kv.v_format, role, (int)blockIdx.y, a.from + (int)blockIdx.x * KV_BLOCK);
}

extern "C" void kv_seal_cuda(struct cuda_queue *q, const struct kv_seal_args *a)
{
    if (a->kv.dtype != DT_BF16 || a->kv.head_dim != KV_DIM || a->from % KV_BLOCK || a->to % KV_BLOCK || (a->to > a->from && !kv_compressed(&a->kv))) {
        queue_note(q, "kv_seal", cudaErrorInvalidValue);
        return;
    }
    dim3 grid((unsigned)(a->to > a->from ? (a->to - a->from) / KV_BLOCK : 0), (unsigned)a->kv.n_kv_heads, 2);
    launch(q, "kv_seal", kv_seal_kernel, grid, KV_WARPS * 32, 0, false, *a);
}

/* Decodes a block of codes of one head to bf16; sinks are copied. */
static __global__ __launch_bounds__(KV_WARPS * 32) void kv_expand_kernel(struct kv_rows kv, struct kv_expanded x)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, head = (int)blockIdx.y, role = (int)blockIdx.z;
    const int first = x.from + (int)blockIdx.x * KV_BLOCK;
    const enum kv_format f = role == KV_KEY ? kv.k_format : kv.v_format;
    uint16_t *scales;
    const uint8_t *block = kv_codes_at(kv, role, head, first, &scales);
    uint4 *to = (uint4 *)(role == KV_KEY ? x.k : x.v);
#pragma unroll 2
    for (int n = 0; n < KV_TOKENS; n++) {
        const int token = KV_TOKENS * warp + n, pos = first + token;
        uint4 bits;
        if (pos < kv.sinks) {
            bits = *kv_exact_at(kv, role, head, pos, lane);
        } else {
            const float scale = __half2float(__ushort_as_half(scales[token]));
            uint32_t codes[KV_NUMBERS];
            float y[KV_NUMBERS];
            if (role == KV_KEY)
                read_key(f, block, token, lane, codes);
            else
                read_value(f, block, token, lane, codes);
#pragma unroll
            for (int j = 0; j < KV_NUMBERS; j++)
                y[j] = level_of(f, codes[j]) * scale;
            kv_turn_back(y, role, lane);
            bits = make_uint4(bf16_pair(y[0], y[1]), bf16_pair(y[2], y[3]), bf16_pair(y[4], y[5]), bf16_pair(y[6], y[7]));
        }
        to[((size_t)(pos - x.from) * (size_t)kv.n_kv_heads + (size_t)head) * (KV_DIM / 8) + (size_t)lane] = bits;
    }
}

void kv_expand(struct cuda_queue *q, const struct kv_rows &kv, const struct kv_expanded &x)
{
    dim3 grid((unsigned)(x.to > x.from ? (x.to - x.from) / KV_BLOCK : 0), (unsigned)kv.n_kv_heads, 2);
    launch(q, "kv_expand", kv_expand_kernel, grid, KV_WARPS * 32, 0, false, kv, x);
}
