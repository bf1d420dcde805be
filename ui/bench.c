/* `q35chat bench ...`. */
#include "bench/run.h"
#include "ui/subcommand.h"

static struct bench_options options(const struct args *a)
{
    return (struct bench_options){
        .synthetic = args_text(a, "synthetic"), .model_dir = args_text(a, "model"), .backend = args_text(a, "backend"), .kv = args_text(a, "kv"),
        .head = args_text(a, "head"), .out_file = args_text(a, "out"), .n_layers = args_int(a, "layers"),
        .draft = args_int(a, "depth"), .rows = args_int(a, "rows"), .overlap = args_text(a, "overlap") ? args_int(a, "overlap") + 1 : 0,
        .n_ctx = args_int(a, "ctx"), .n_sms = args_int(a, "sms"), .n_threads = args_int(a, "threads"), .chunk = args_int(a, "chunk"),
        .seed = args_int(a, "seed"), .json = args_on(a, "json"), .full = args_on(a, "long"),
    };
}

static int measure(const struct args *a, int (*fn)(const struct bench_options *o))
{
    struct bench_options o = options(a);
    struct buf line = {0};
    if (!o.synthetic == !o.model_dir)
        return args_refuse(a, "needs one of --synthetic NAME and --model DIR");
    args_line(a, &line);
    o.arguments = buf_str(&line);
    int status = fn(&o);
    buf_free(&line);
    return status;
}

int run_bench_kernels(const struct args *a) { return measure(a, bench_kernels); }
int run_bench_sweep(const struct args *a) { return measure(a, bench_sweep); }
int run_bench_load(const struct args *a) { return measure(a, bench_load); }

int run_bench_write(const struct args *a)
{
    struct bench_options o = options(a);
    o.write_dir = args_word(a, 0);
    return o.synthetic && !o.model_dir ? bench_write(&o) : args_refuse(a, "needs --synthetic NAME, the model to store");
}
