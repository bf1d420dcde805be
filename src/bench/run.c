#include "bench/run.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "model/synthetic.h"

/* `bench write --synthetic NAME DIR`. */
int bench_write(const struct bench_options *o)
{
    struct err e = {0};
    size_t bytes;
    int64_t start = clock_ns();
    if (!synthetic_write(o->synthetic, o->n_layers, o->write_dir, (uint64_t)o->seed, o->n_threads, &bytes, &e)) {
        err_warn("%s", e.msg);
        return 1;
    }
    double ms = clock_ms_since(start);
    printf("%s: %.2f GB in %.1f s, %.2f GB/s\n", o->write_dir, (double)bytes * 1e-9, ms * 1e-3, (double)bytes / ms * 1e-6);
    return 0;
}
