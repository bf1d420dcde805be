#include "bench/timing.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "model/synthetic.h"

/* Runs n calls, or the graph of them, `times` times; returns the nanoseconds until the device has finished. */
static int64_t run_once(struct timing *k, struct dev_graph *g, int n, int times, timing_call *call, void *arg)
{
    int64_t start = clock_ns();
    for (int t = 0; t < times; t++)
        if (g)
            k->d->graph_launch(k->d, g);
        else
            for (int i = 0; i < n; i++)
                call(k, arg, i);
    k->failed = k->failed || !k->d->finish(k->d, k->e);
    return clock_ns() - start;
}

double timing_measure(struct timing *k, bool graph, int n, timing_call *call, void *arg)
{
    enum { TARGET_NS = 20000000, BATCHES = 3 };
    struct dev_graph *g = NULL;
    double best = INFINITY;
    if (k->failed)
        return NAN;
    if (graph) {
        k->d->graph_begin(k->d);
        for (int i = 0; i < n; i++)
            call(k, arg, i);
        g = k->d->graph_end(k->d, k->e);
        k->failed = !g;
    }
    if (!k->failed)
        run_once(k, g, n, 1, call, arg);        /* warms up */
    int64_t once = k->failed ? 1 : run_once(k, g, n, 1, call, arg);
    int times = (int)(TARGET_NS / (once > 0 ? once : 1)) + 1;
    for (int i = 0; i < BATCHES && !k->failed; i++)
        best = fmin(best, (double)run_once(k, g, n, times, call, arg) / ((double)times * n) * 1e-3);
    if (g)
        k->d->graph_free(k->d, g);
    return k->failed ? NAN : best;
}

static const struct column columns[] = {
    {"operation", "operation", -30, 0}, {"rows", "rows", 5, 0}, {"experts", "experts", 7, 2}, {"us", "us", 10, 2}, {"mb", "MB", 9, 3},
    {"gb_s", "GB/s", 7, 0},
    {"of_read", "% read", 7, 1}, {"tflop_s", "TFLOP/s", 8, 1},
};

void timing_table(struct timing *k, const char *title)
{
    report_table(k->r, title, columns, sizeof columns / sizeof *columns);
}

void timing_row(struct timing *k, const char *name, double us, double bytes, double flops)
{
    if (k->failed)
        return;
    double gb_s = bytes / us * 1e-3;
    report_text(k->r, name);
    report_number(k->r, k->rows);
    report_number(k->r, k->distinct > 0 ? k->distinct : NAN);
    k->distinct = 0;
    report_number(k->r, us);
    report_number(k->r, bytes * 1e-6);
    report_number(k->r, gb_s);
    report_number(k->r, 100 * gb_s / k->s->read_gb_s);
    report_number(k->r, flops > 0 ? flops / us * 1e-6 : NAN);
}

void *timing_alloc(struct timing *k, size_t bytes)
{
    CHECK(k->n_memory < (int)(sizeof k->memory / sizeof *k->memory));
    void *p = k->failed ? NULL : k->d->alloc(k->d, bytes);
    if (!p && !k->failed)
        k->failed = !err_set(k->e, "no memory for the operands: %zu MiB asked for; try a smaller --ctx or --chunk", bytes >> 20);
    if (p)
        k->memory[k->n_memory++] = p;
    return p;
}

float *timing_random(struct timing *k, size_t n)
{
    enum { PIECE = 1 << 20 };
    float *p = timing_alloc(k, n * sizeof *p);
    float *host = p ? memory_alloc(PIECE * sizeof *host) : NULL;
    if (!host)
        return p;
    for (size_t i = 0; i < PIECE; i++)
        host[i] = (float)(int32_t)(uint32_t)fill_hash(n, i) * (1.0f / 2147483648.0f);
    for (size_t at = 0; at < n; at += PIECE)
        k->d->copy(k->d, p + at, host, (n - at < PIECE ? n - at : PIECE) * sizeof *host);
    free(host);
    return p;
}

void timing_release(struct timing *k)
{
    while (k->n_memory)
        k->d->free(k->d, k->memory[--k->n_memory]);
}
