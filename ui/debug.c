/* `q35chat debug ...`. */
#include "debug/debug.h"
#include "ui/subcommand.h"

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
    o.rows = args_int(a, "rows");
    return debug_logits(&o, stdin, stdout);
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
