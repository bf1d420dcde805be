/* One measurement with its options, as the command line gave them. */
#pragma once

#include <stdbool.h>

/* {0} is valid: NULL and 0 mean the command's own default. */
struct bench_options {
    const char *synthetic, *model_dir;  /* one of them */
    const char *backend, *kv, *head, *mtp, *math;
    const char *out_file;
    const char *version, *model_note;   /* of the program; a note about the model, or NULL */
    bool (*stopped)(void);              /* true after Ctrl-C; NULL: it runs to its end */
    const char *arguments;              /* the command line for the report, without what belongs to this machine alone */
    int  n_layers;                      /* of a synthetic model */
    bool quality;                       /* of a synthetic model: attention and out projections in FP8 */
    int  draft;                         /* drafts a step, end to end */
    int  n_alternatives;                /* likely tokens that are returned with each token of an answer */
    int  rows;                          /* of a step: only this many */
    int  overlap;                       /* experts that neighbouring rows share, plus 1; 0: as routed */
    int  n_ctx, n_sms, n_threads, chunk, seed;
    double bandwidth, tflops;           /* of another machine: GB/s; TFLOP/s of products in 16 bits */
    const char *weights_in;             /* "device", "host" or "auto"; NULL: device */
    const char *machine_dir;            /* folder of remembered measurements of this machine; NULL: no memory */
    bool kv_in_host;                    /* a GPU reads it from there */
    bool json, full;                    /* full: the slow rows too */
};

/* Each returns the exit status. */
int bench_kernels(const struct bench_options *o);
int bench_vision(const struct bench_options *o);
int bench_sweep(const struct bench_options *o);
int bench_five(const struct bench_options *o);
int bench_project(const struct bench_options *o);
int bench_health(const struct bench_options *o);        /* src/bench/machine.c */
int bench_load(const struct bench_options *o);
int bench_report(const struct bench_options *o);        /* src/bench/machine.c */
