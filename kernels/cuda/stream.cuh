/* The residual stream (kernels/stream.h) in device memory. */
#pragma once

#include "kernels/stream.h"

/* Other blocks may add to the same number at the same time.  Written in PTX because the compiler turns atomicAdd() into an instruction that
 * returns the old value, at least in step_experts; a step of eight rows then took a tenth longer. */
__device__ __forceinline__ void stream_add(int64_t *to, float x)
{
    if (fabsf(x) < STREAM_LIMIT)
        asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(to), "l"(stream_round(x)));
    else
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(STREAM_POISON));
}

/* Four neighbours, aligned to 4, in memory order. */
struct stream4 {
    longlong2 a, b;
};
__device__ __forceinline__ struct stream4 stream_load4(const int64_t *at)
{
    return {*(const longlong2 *)at, *(const longlong2 *)(at + 2)};
}
/* If one of them must read as NaN, all four do: the row is lost anyway. */
__device__ __forceinline__ float4 stream_read4(const struct stream4 &v)
{
    const uint32_t excess = stream_excess(v.a.x) | stream_excess(v.a.y) | stream_excess(v.b.x) | stream_excess(v.b.y);
    return make_float4(stream_read(v.a.x, excess), stream_read(v.a.y, excess), stream_read(v.b.x, excess), stream_read(v.b.y, excess));
}

__device__ __forceinline__ void stream_store4(int64_t *to, float a, float b, float c, float d)
{
    ((longlong2 *)to)[0] = make_longlong2(stream_from_float(a), stream_from_float(b));
    ((longlong2 *)to)[1] = make_longlong2(stream_from_float(c), stream_from_float(d));
}
