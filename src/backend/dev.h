/* A device: memory, one queue of operations, sticky faults.  The tables of operations are kernels/ops.def and kernels/step.def.
 * One owner thread.  Operations return nothing; finish() reports the first one that failed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "kernels/ops.h"
#include "kernels/step.h"

struct dev;
struct dev_graph;
struct pack_args;                       /* kernels/pack_piece.h */
struct fill;                            /* kernels/fill.h */

struct dev_ops {
#define OP(name) void (*name)(struct dev *d, const struct name##_args *a);
#include "kernels/ops.def"
#undef OP
};

/* Operations of a decode step; kernels/step.h. */
struct dev_step_ops {
#define OP(name) void (*name)(struct dev *d, const struct name##_args *a);
#include "kernels/step.def"
#undef OP
};

/* The abilities of a device, and the forms in which it takes data. */
struct dev_caps {
    bool packs_weights;                 /* matrices lie in device memory, packed (kernels/pack.h), which only some shapes can be; else as stored */
    unsigned kv_dtypes;                 /* of exact KV rows, bits of 1 << enum dtype */
    unsigned kv_codes;                  /* of compressed ones, bits of 1 << KV_PAIR(); 0: it takes none */
    bool several;                       /* a step may hold rows of several conversations (struct step_row) */
    bool beside_host;                   /* works on its queue beside the host; else a call returns when its work is done */
};

/* Plain facts about a GPU, for bench and status line. */
struct dev_facts {
    char   gpu[256];
    char   driver[32];
    char   pci[32];                     /* bus address, "0000:01:00.0" */
    int    n_sm, arch;                  /* arch: 90 for sm_90 */
    int    sm_mhz, memory_mhz;          /* highest clocks */
    size_t memory, l2;
    bool   integrated;                  /* one memory for CPU and GPU */
};

struct dev {
    const struct dev_ops *ops;
    const struct dev_step_ops *step;
    const struct dev_caps *caps;
    const char *name;                   /* "cpu", "cuda" */
    void  *(*alloc)(struct dev *d, size_t bytes);       /* zeroed; NULL when there is no room */
    void  *(*alloc_weights)(struct dev *d, size_t bytes);       /* the same for weights, which may lie elsewhere */
    void  *(*alloc_kv)(struct dev *d, size_t bytes);            /* and for the rows of the KV cache */
    bool   weights_in_host, kv_in_host; /* in pinned memory of the host, which the device reads over its link; set before memory is asked for */
    void   (*free)(struct dev *d, void *p);
    void  *(*alloc_host)(struct dev *d, size_t bytes);  /* host memory that copies run at full speed to and from; device code
                                                         * may read and write it, too */
    void   (*free_host)(struct dev *d, void *p);
    void   (*copy)(struct dev *d, void *dst, const void *src, size_t bytes);   /* device or host memory, in queue order; host
                                                         * memory not from alloc_host() may be reused at once */
    void   (*copy_rows)(struct dev *d, void *dst, size_t dst_step, const void *src, size_t src_step, size_t bytes, int n);
                                                        /* n pieces of `bytes`, dst_step and src_step bytes apart */
    void   (*zero)(struct dev *d, void *p, size_t bytes);       /* in queue order */
    void   (*fill)(struct dev *d, void *p, size_t bytes, const struct fill *f);         /* in queue order; a multiple of 16 bytes */
    bool   (*reserve)(struct dev *d, size_t bytes);     /* scratch memory for the plain operations; false: no room */
    bool   (*finish)(struct dev *d, struct err *e);     /* waits; false names the first operation that failed */
    double (*read_gb_s)(struct dev *d, size_t bytes, struct err *e);    /* bytes a second, in 10^9, of a plain read of so much memory where
                                                         * weights lie; 0: so much that no cache holds it, which is what operations can
                                                         * reach at best.  Takes a moment.  0 with the reason */
    double (*mma_tflop_s)(struct dev *d, struct err *e);        /* 10^12 operations a second of products in fp16 whose operands are in registers,
                                                         * which no product exceeds.  NULL where there is no such unit.  0 with the reason */
    bool   (*facts)(const struct dev *d, struct dev_facts *f);  /* NULL where there are none */
    void   (*limit_shared)(struct dev *d, size_t bytes);        /* may be NULL */
    void   (*limit_cache)(struct dev *d, size_t bytes);         /* may be NULL */
    void   (*close)(struct dev *d);

    /* Step operations between begin and end are recorded, not executed; a launch executes them all, in queue order. */
    void   (*graph_begin)(struct dev *d);
    struct dev_graph *(*graph_end)(struct dev *d, struct err *e);
    void   (*graph_launch)(struct dev *d, struct dev_graph *g);
    void   (*graph_free)(struct dev *d, struct dev_graph *g);

    /* With packs_weights only. */
    size_t (*available)(struct dev *d);                 /* bytes that alloc() could still give */
    void   (*pack)(struct dev *d, const struct pack_args *a);   /* pieces of stored tensors into packed matrices, in queue order */
    void   (*row_norms)(struct dev *d, float *norms, const struct weight *w, const float *bias, int n, size_t step);    /* the largest Euclidean norm
                                                         * of a row of n packed matrices, `step` bytes apart, of which w is the first; a bias,
                                                         * or NULL, is one more column of each; accurate to 2^-10; in queue order.  NULL where
                                                         * no operation reads norms */
};

/* RUN(dev, rmsnorm, .y = h, .x = x, ...): every argument is named. */
#define RUN(d, op, ...) ((d)->ops->op((d), &(struct op##_args){__VA_ARGS__}))
#define STEP(d, op, ...) ((d)->step->op((d), &(struct op##_args){__VA_ARGS__}))

/* Opens a device of the backend of that name; for NULL of the best one of this build that has a device.  NULL with the reason: unknown, not in this
 * build, or no such device. n_threads is for the CPU, 0: one per core that this process may use. */
struct dev *dev_open(const char *name, int n_threads, struct err *e);
/* Returns the constant name of the backend that dev_open() would use, without opening a device; NULL with the reason. */
const char *dev_backend(const char *name, struct err *e);
/* Returns the abilities of devices of a backend, whose name is one that dev_backend() returned. */
const struct dev_caps *dev_caps(const char *backend);

bool dev_facts(const struct dev *d, struct dev_facts *f);       /* false on the CPU */
/* Limits the shared memory of thread blocks to so many bytes, as on a GPU that has no more.  For tests; no effect on the CPU. */
void dev_limit_shared(struct dev *d, size_t bytes);
/* Cuts work as for a GPU with a second-level cache of so many bytes.  For tests; no effect on the CPU. */
void dev_limit_cache(struct dev *d, size_t bytes);

/* Confines the devices that this thread opens afterwards to about so many multiprocessors.  False with the reason. */
bool dev_confine(const char *backend, int n_sm, struct err *e);

struct dev *dev_open_cpu(int n_threads, struct err *e);
int dev_cpu_threads(const struct dev *d);               /* 0 for another device */

#ifdef Q35_CUDA
struct dev *dev_open_cuda(int n_threads, struct err *e);
bool dev_cuda_present(void);
bool dev_cuda_confine(int n_sm, struct err *e);
#endif

static inline void dev_close(struct dev *d) { if (d) d->close(d); }
