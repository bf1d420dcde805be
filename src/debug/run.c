#include "debug/run.h"

#include "debug/debug.h"
#include "debug/logits.h"
#include "engine/engine.h"

int debug_run_tokenize(const struct debug_options *o, FILE *in, FILE *out)
{
    return debug_tokenize(o->model_dir, in, out);
}

int debug_run_render(const struct debug_options *o, FILE *in, FILE *out)
{
    return debug_render(o->model_dir, in, out);
}

int debug_run_parse(const struct debug_options *o, FILE *in, FILE *out)
{
    (void)o;
    return debug_parse(in, out);
}

int debug_run_draft(const struct debug_options *o, FILE *in, FILE *out)
{
    struct draft_options d = {.model_dir = o->model_dir, .backend = o->backend, .kv = o->kv, .n_threads = o->n_threads};
    return debug_draft(&d, in, out);
}

int debug_run_logits(const struct debug_options *o, FILE *in, FILE *out)
{
    struct logits_options l = {
        .model_dir = o->model_dir, .out_file = o->out_file, .backend = o->backend, .kv = o->kv, .head = o->head,
        .n_threads = o->n_threads, .chunk = o->chunk, .step = o->step, .rows = o->rows,
    };
    return debug_logits(&l, in, out);
}

int debug_run_generate(const struct debug_options *o, FILE *in, FILE *out)
{
    struct engine_options e = {
        .model_dir = o->model_dir, .backend = o->backend, .kv = o->kv, .head = o->head, .mtp = o->mtp, .n_threads = o->n_threads, .chunk = o->chunk,
        .draft_depth = ENGINE_MAX_DEPTH,
    };
    return debug_generate(&e, in, out);
}
