#include "debug/run.h"

#include "debug/debug.h"
#include "debug/logits.h"
#include "engine/engine.h"

static int tokenize(const struct debug_options *o, FILE *in, FILE *out)
{
    return debug_tokenize(o->model_dir, in, out);
}

static int render(const struct debug_options *o, FILE *in, FILE *out)
{
    return debug_render(o->model_dir, in, out);
}

static int parse(const struct debug_options *o, FILE *in, FILE *out)
{
    (void)o;
    return debug_parse(in, out);
}

/* Answers are for comparing: which machine gives them must not depend on what it has. */
static const char *backend(const struct debug_options *o) { return o->backend ? o->backend : "cpu"; }

static int draft(const struct debug_options *o, FILE *in, FILE *out)
{
    struct draft_options d = {.model_dir = o->model_dir, .backend = backend(o), .kv = o->kv, .n_threads = o->n_threads};
    return debug_draft(&d, in, out);
}

static int logits(const struct debug_options *o, FILE *in, FILE *out)
{
    struct logits_options l = {
        .model_dir = o->model_dir, .out_file = o->out_file, .backend = backend(o), .kv = o->kv, .head = o->head,
        .n_threads = o->n_threads, .chunk = o->chunk, .step = o->step, .rows = o->rows,
    };
    return debug_logits(&l, in, out);
}

static int generate(const struct debug_options *o, FILE *in, FILE *out)
{
    struct engine_options e = {
        .model_dir = o->model_dir, .backend = backend(o), .kv = o->kv, .head = o->head, .n_threads = o->n_threads, .chunk = o->chunk,
        .draft_depth = ENGINE_MAX_DEPTH,
    };
    return debug_generate(&e, in, out);
}

const struct debug_command debug_commands[] = {
    {"tokenize", true, false, "{\"text\"} -> {\"ids\", \"ids_plain\"}; {\"ids\"} -> {\"text\", \"text_skip_special\", \"pieces\"}", tokenize},
    {"render", true, false, "{\"messages\", \"tools\", \"kwargs\"} -> {\"rendered\", \"ids\"}", render},
    {"parse", false, false, "{\"output\", \"tools\", \"thinking\", \"finish\"} -> {\"reasoning\", \"content\", \"tool_calls\"}", parse},
    {"logits", true, true, "{\"ids\"} -> safetensors FILE with logits.<line> and hidden.<line>", logits},
    {"draft", true, false, "{\"ids\", \"depth\"} -> {\"first\", \"drafts\"}", draft},
    {"generate", true, false, "{\"ids\", \"max_tokens\", \"draft\"} -> {\"ids\", \"steps\", \"accepted\"}", generate},
    {0},
};
