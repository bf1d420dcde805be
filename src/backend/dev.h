/* A device: memory, one queue of operations, sticky faults.  The table of operations is kernels/ops.def.
 * One owner thread.  Operations return nothing; finish() reports the first one that failed. */
#ifndef Q35_BACKEND_DEV_H
#define Q35_BACKEND_DEV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "kernels/ops.h"

struct dev;

struct dev_ops {
#define OP(name) void (*name)(struct dev *d, const struct name##_args *a);
#include "kernels/ops.def"
#undef OP
};

struct dev {
    const struct dev_ops *ops;
    const char *name;                   /* "cpu" */
    void  *(*alloc)(struct dev *d, size_t bytes);       /* zeroed; NULL when there is no room */
    void   (*free)(struct dev *d, void *p);
    void   (*copy)(struct dev *d, void *dst, const void *src, size_t bytes);   /* device or host memory, in queue order */
    bool   (*finish)(struct dev *d, struct err *e);     /* waits; false names the first operation that failed */
    void   (*close)(struct dev *d);
};

/* RUN(dev, rmsnorm, .y = h, .x = x, ...): every argument is named. */
#define RUN(d, op, ...) ((d)->ops->op((d), &(struct op##_args){__VA_ARGS__}))

/* The backend of that name, the first one for NULL.  NULL with the reason: unknown, or not in this build.
 * n_threads is for the CPU, 0: one per core that this process may use. */
struct dev *dev_open(const char *name, int n_threads, struct err *e);
/* Whether dev_open() would find it, without opening anything: its own constant name, or NULL with the reason. */
const char *dev_backend(const char *name, struct err *e);

struct dev *dev_open_cpu(int n_threads, struct err *e);
int dev_cpu_threads(const struct dev *d);

static inline void dev_close(struct dev *d) { if (d) d->close(d); }

#endif
