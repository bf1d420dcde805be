/* Macros for functions in headers that both the host and kernels of a GPU call. */
#pragma once

#ifdef __CUDACC__
#define BOTH        static inline __host__ __device__
#define BOTH_FORCED static __forceinline__ __host__ __device__        /* inlined however long it is */
#else
#define BOTH        static inline
#define BOTH_FORCED static inline
#endif
