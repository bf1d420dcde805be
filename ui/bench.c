/* `q35chat bench ...`, which measures, and `q35chat debug ...`, which shows parts of the engine at work. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/run.h"
#include "debug/debug.h"
#include "option/paths.h"
#include "prepare/models.h"
#include "ui/args.h"
#include "ui/model.h"
#include "ui/process.h"

static double real(const struct args *a, const char *flag)
{
    const char *given = args_text(a, flag);
    return given ? strtod(given, NULL) : 0;
}

/* Returns the options of a measurement from the command line. */
static struct bench_options options(const struct args *a)
{
    return (struct bench_options){
        .synthetic = args_text(a, "synthetic"), .quality = args_on(a, "quality"),
        .model_dir = args_text(a, "model"), .backend = args_text(a, "backend"), .kv = args_text(a, "kv"),
        .head = args_text(a, "head"), .mtp = args_text(a, "mtp"), .math = args_text(a, "prompt-math"),
        .out_file = args_text(a, "out"), .n_layers = args_int(a, "layers"),
        .draft = args_int(a, "depth"), .n_alternatives = args_int(a, "alternatives"), .rows = args_int(a, "rows"),
        .overlap = args_text(a, "overlap") ? args_int(a, "overlap") + 1 : 0,
        .n_ctx = args_int(a, "ctx"), .n_sms = args_int(a, "sms"), .n_threads = args_int(a, "threads"), .chunk = args_int(a, "chunk"),
        .seed = args_int(a, "seed"), .json = args_on(a, "json"), .full = args_on(a, "long"), .weights_in = args_text(a, "weights-in"),
        .kv_in_host = !strcmp(args_text(a, "kv-in"), "host"),
    };
}

/* True if a signal has come, which is not taken: a second one ends the program at once. */
static bool stopped(void) { return interrupt_signal(); }

/* Runs a measurement, with the model that was named; returns the exit status. */
static int run(const struct args *a, struct bench_options *o, int (*fn)(const struct bench_options *o))
{
    struct buf line = {0}, machine = {0}, dir = {0};
    struct err e = {0};
    if (o->model_dir && !models_resolve(o->model_dir, &dir, &e)) {
        process_say(e.msg);
        buf_free(&dir);
        return EXIT_FAILED;
    }
    if (o->model_dir)
        o->model_dir = buf_str(&dir);
    args_line(a, &line);
    o->arguments = buf_str(&line);
    o->machine_dir = paths_machine(&machine) ? machine.data : NULL;
    int status = fn(o);
    buf_free(&line);
    buf_free(&machine);
    buf_free(&dir);
    return status;
}

static int one_model(const struct args *a, struct bench_options *o, int (*fn)(const struct bench_options *o))
{
    return !o->synthetic == !o->model_dir ? args_refuse(a, "needs one of --synthetic NAME and --model DIR") : run(a, o, fn);
}

static int measure(const struct args *a, int (*fn)(const struct bench_options *o))
{
    struct bench_options o = options(a);
    return one_model(a, &o, fn);
}

int run_bench_kernels(const struct args *a) { return measure(a, bench_kernels); }
int run_bench_vision(const struct args *a) { return measure(a, bench_vision); }
int run_bench_sweep(const struct args *a) { return measure(a, bench_sweep); }
int run_bench_project(const struct args *a)
{
    struct bench_options o = options(a);
    o.bandwidth = real(a, "bandwidth");
    o.tflops = real(a, "tflops");
    return one_model(a, &o, bench_project);
}
int run_bench_load(const struct args *a) { return measure(a, bench_load); }

int run_bench_health(const struct args *a)
{
    struct bench_options o = options(a);
    if (o.synthetic || o.model_dir || o.n_sms)
        return args_refuse(a, "measures the machine: --synthetic, --model and --sms are for other measurements");
    struct buf path = {0};
    struct err ignored;                 /* the measurement reports that it cannot store the figure */
    paths_state(&path, "reads", &ignored);              /* makes the folder */
    buf_free(&path);
    return run(a, &o, bench_health);
}

/* ---- measurements that ask */

/* Ctrl-C ends it with what there is. */
static int answers(const struct args *a, int (*fn)(const struct bench_options *o))
{
    struct bench_options o = options(a);
    struct buf dir = {0};
    if (o.synthetic || o.n_layers || o.n_sms || o.kv_in_host)
        return args_refuse(a, "measures a model as a chat runs it: --synthetic, --layers, --sms and --kv-in are for the other measurements");
    if (!o.weights_in)
        o.weights_in = "auto";
    if (!o.model_dir) {
        struct buf demo = {0}, looked = {0};
        struct err e = {{0}};
        const int status = model_usual(&dir, &e);
        if (status)
            return process_fail(status, e.msg);
        if (paths_demo(&demo, &looked) && !strcmp(demo.data, buf_str(&dir)))
            o.model_note = "the demo model, since no other is on this machine: its figures do not describe a large one";
        buf_free(&demo);
        buf_free(&looked);
        if (!dir.len)
            return args_refuse(a, "no model is on this machine, not even the demo: `q35chat model get` downloads one");
        o.model_dir = buf_str(&dir);
    }
    o.version = Q35_VERSION;
    o.stopped = stopped;
    interrupt_open();
    if (isatty(2))
        fprintf(stderr, "Measuring for some minutes.  Ctrl-C ends it with what there is so far.\n");
    int status = run(a, &o, fn);
    buf_free(&dir);
    return interrupt_signal() ? EXIT_SIGNAL + interrupt_signal() : status;
}

int run_bench_report(const struct args *a) { return answers(a, bench_report); }
int run_bench_five(const struct args *a) { return answers(a, bench_five); }

/* --- debug --------------------------------------------------------------------------------------------------------- */

int run_debug_tokenize(const struct args *a)
{
    return debug_tokenize(&(struct debug_options){.model_dir = args_text(a, "model")}, stdin, stdout);
}

int run_debug_render(const struct args *a)
{
    return debug_render(&(struct debug_options){.model_dir = args_text(a, "model")}, stdin, stdout);
}

int run_debug_parse(const struct args *a)
{
    (void)a;
    return debug_parse(&(struct debug_options){0}, stdin, stdout);
}

/* Returns the options that all commands with a model share. */
static struct debug_options model_options(const struct args *a)
{
    return (struct debug_options){.model_dir = args_text(a, "model"), .backend = args_text(a, "backend"), .kv = args_text(a, "kv"),
                                  .n_threads = args_int(a, "threads")};
}

int run_debug_logits(const struct args *a)
{
    struct debug_options o = model_options(a);
    o.out_file = args_text(a, "out");
    o.head = args_text(a, "head");
    o.chunk = args_int(a, "chunk");
    o.step = args_on(a, "step");
    o.math = args_text(a, "prompt-math");
    o.rows = args_int(a, "rows");
    return debug_logits(&o, stdin, stdout);
}

int run_debug_image(const struct args *a)
{
    const struct debug_options o = {.model_dir = args_text(a, "model"), .out_file = args_text(a, "out"), .n_threads = args_int(a, "threads")};
    return debug_image(&o, stdin, stdout);
}

int run_debug_draft(const struct args *a)
{
    struct debug_options o = model_options(a);
    return debug_draft(&o, stdin, stdout);
}

int run_debug_generate(const struct args *a)
{
    struct debug_options o = model_options(a);
    o.head = args_text(a, "head");
    o.mtp = args_text(a, "mtp");
    o.chunk = args_int(a, "chunk");
    return debug_generate(&o, stdin, stdout);
}
