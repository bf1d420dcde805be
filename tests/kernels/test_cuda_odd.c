/* Whole models of odd shapes on the GPU: vocabularies that are no multiple of 16 and head counts that no published model has.  Random
 * checkpoints; the CPU is the definition.  The same bounds as for golden checkpoints (tests/golden/compare.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "debug/debug.h"
#include "engine/engine.h"
#include "model/safetensors.h"
#include "model/synthetic.h"
#include "tests/bench/measure.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/rand.h"
#include "tests/tmpdir.h"

enum { N_SHARDS = 14, PROMPT = 150 };        /* longer than GEMM_FINE */
static const double kl_bound = 1e-3;
static const float clear_margin = 0.1f;

static const struct shape {
    int vocab, hidden, q, kv, lin_k, lin_v, experts, top_k;
} shapes[] = {
    {1000, 256, 3, 1, 3, 3, 5, 3},
    {1500, 384, 10, 5, 1, 5, 7, 2},
    {1017, 128, 14, 2, 3, 9, 11, 5},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void write_model(struct tmpdir *d, const struct shape *s)
{
    struct buf config = {0};
    struct err e = {0};
    assert_true(tmpdir_make(d));
    buf_addf(&config, "{\"architectures\": [\"Qwen3_5MoeForConditionalGeneration\"], \"model_type\": \"qwen3_5_moe\", "
             "\"tie_word_embeddings\": false,\n"
             "\"text_config\": {\"model_type\": \"qwen3_5_moe_text\", \"hidden_act\": \"silu\", \"attention_bias\": false, "
             "\"attn_output_gate\": true,\n"
             "\"rms_norm_eps\": 1e-06, \"max_position_embeddings\": 4096, \"eos_token_id\": 1, \"linear_conv_kernel_dim\": 4, "
             "\"mtp_num_hidden_layers\": 1,\n"
             "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000000, \"partial_rotary_factor\": 0.25},\n"
             "\"hidden_size\": %d, \"num_hidden_layers\": 4, \"full_attention_interval\": 4, \"num_attention_heads\": %d, "
             "\"num_key_value_heads\": %d,\n"
             "\"head_dim\": 256, \"linear_num_key_heads\": %d, \"linear_num_value_heads\": %d, \"linear_key_head_dim\": 128,\n"
             "\"linear_value_head_dim\": 128, \"num_experts\": %d, \"num_experts_per_tok\": %d, \"moe_intermediate_size\": 128,\n"
             "\"shared_expert_intermediate_size\": 128, \"vocab_size\": %d}}\n",
             s->hidden, s->q, s->kv, s->lin_k, s->lin_v, s->experts, s->top_k, s->vocab);
    if (!synthetic_write_config(&config, "an odd model", d->path, (uint64_t)s->vocab, 1, NULL, &e))
        fail_msg("%s", e.msg);
    buf_free(&config);
}

static void drop_model(const struct tmpdir *d)
{
    static const char *const names[] = {"model_extra_tensors.safetensors", "model.safetensors.index.json", "config.json", "generation_config.json",
                                        "cpu.safetensors", "cuda.safetensors"};
    char name[64];
    for (int i = 1; i <= N_SHARDS; i++) {
        snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", i, N_SHARDS);
        tmpdir_drop(d, name);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        tmpdir_drop(d, names[i]);
    tmpdir_remove(d);
}

static FILE *lines(const char *text)
{
    FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(f);
    return f;
}

static void add_prompt(struct buf *b, const struct shape *s)
{
    buf_addf(b, "{\"ids\": [%d", s->vocab - 1);
    for (int i = 1; i < PROMPT; i++)
        buf_addf(b, ",%d", (int)(rand_u64() % (uint64_t)s->vocab));
    buf_adds(b, "]");
}

/* ---- logits ---- */

static void answer(const struct tmpdir *d, const char *backend, const char *head, const char *prompt, bool step, int rows, struct safetensors *s)
{
    char path[128], *text = NULL;
    size_t n = 0;
    struct err e = {0};
    snprintf(path, sizeof path, "%s/%s.safetensors", d->path, backend);
    FILE *in = lines(prompt), *out = open_memstream(&text, &n);
    const struct debug_options o = {.model_dir = d->path, .out_file = path, .backend = backend, .kv = "bf16", .head = head, .step = step,
                                     .rows = rows};
    assert_non_null(out);
    const int status = debug_logits(&o, in, out);
    fclose(in);
    fclose(out);
    if (status)
        fail_msg("%s: %s", backend, text);
    free(text);
    if (!safetensors_open(s, path, &e))
        fail_msg("%s", e.msg);
}

static double log_sum(const float *x, int n)
{
    double top = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++)
        top = fmax(top, (double)x[i]);
    for (int i = 0; i < n; i++)
        sum += exp((double)x[i] - top);
    return top + log(sum);
}

static int best_of(const float *x, int n, float *margin)
{
    int best = 0;
    float next = -INFINITY;
    for (int i = 1; i < n; i++)
        if (x[i] > x[best]) {
            next = x[best];
            best = i;
        } else if (x[i] > next) {
            next = x[i];
        }
    *margin = x[best] - next;
    return best;
}

static void compare(const struct shape *s, const char *what, const struct safetensors *cpu_file, const struct safetensors *gpu_file)
{
    const struct tensor *a = safetensors_find(cpu_file, "logits.0"), *b = safetensors_find(gpu_file, "logits.0");
    const int V = s->vocab;
    double kl = 0;
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(a->bytes, (size_t)(PROMPT * V) * sizeof(float));
    assert_int_equal(b->bytes, a->bytes);
    for (int t = 0; t < PROMPT; t++) {
        const float *p = (const float *)safetensors_data(cpu_file, a) + (size_t)(t * V),
            *q = (const float *)safetensors_data(gpu_file, b) + (size_t)(t * V);
        const double lp = log_sum(p, V), lq = log_sum(q, V);
        float margin, other;
        for (int i = 0; i < V; i++)
            kl += exp((double)p[i] - lp) * ((double)p[i] - lp - (double)q[i] + lq) / PROMPT;
        const int best = best_of(p, V, &margin);
        if (margin >= clear_margin)
            assert_int_equal(best_of(q, V, &other), best);
    }
    if (!(kl <= kl_bound))
        fail_msg("vocabulary %d, %s: mean KL %g, expected at most %g", V, what, kl, kl_bound);
}

static void test_odd__logits_as_on_the_cpu(void **state)
{
    (void)state;
    need_gpu();
    static const struct { const char *what, *head; bool step; int rows; } ways[] = {
        {"a prompt", "bf16", false, 0}, {"a prompt, INT8 head", "int8", false, 0}, {"steps of one", "bf16", true, 1},
        {"steps of two", "int8", true, 2},
        {"steps of three", "bf16", true, 3}, {"steps of eight", "int8", true, 8},
    };
    for (int i = 0; i < N_SHAPES; i++) {
        struct tmpdir d;
        struct buf prompt = {0};
        write_model(&d, &shapes[i]);
        add_prompt(&prompt, &shapes[i]);
        buf_adds(&prompt, "}\n");
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            struct safetensors one, other;
            answer(&d, "cpu", ways[w].head, buf_str(&prompt), false, 0, &one);
            answer(&d, "cuda", ways[w].head, buf_str(&prompt), ways[w].step, ways[w].rows, &other);
            compare(&shapes[i], ways[w].what, &one, &other);
            safetensors_close(&one);
            safetensors_close(&other);
        }
        buf_free(&prompt);
        drop_model(&d);
    }
}

/* ---- answers ---- */

static void test_odd__the_same_answer_at_every_draft_depth(void **state)
{
    (void)state;
    need_gpu();
    enum { DEPTHS = 4, TOKENS = 40 };
    for (int i = 0; i < N_SHAPES; i++)
        for (int h = 0; h < 2; h++) {
            struct tmpdir d;
            struct buf in = {0}, prompt = {0};
            char *text = NULL;
            size_t n = 0;
            write_model(&d, &shapes[i]);
            add_prompt(&prompt, &shapes[i]);
            for (int depth = 0; depth < DEPTHS; depth++)
                buf_addf(&in, "%s, \"max_tokens\": %d, \"draft\": %d}\n", buf_str(&prompt), TOKENS, depth);
            FILE *f = lines(buf_str(&in)), *out = open_memstream(&text, &n);
            const struct debug_options o = {.model_dir = d.path, .backend = "cuda", .kv = "bf16", .head = h ? "int8" : "bf16"};
            const int status = debug_generate(&o, f, out);
            fclose(f);
            fclose(out);
            if (status)
                fail_msg("%s", text);
            json_t *first = NULL;
            char *at = text;
            for (int depth = 0; depth < DEPTHS; depth++) {
                char *end = strchr(at, '\n');
                assert_non_null(end);
                *end = 0;
                json_t *line = json_loads(at, 0, NULL), *ids = json_object_get(line, "ids"), *id;
                size_t k;
                assert_true(json_array_size(ids) > 0);
                json_array_foreach(ids, k, id)
                    assert_true(json_integer_value(id) >= 0 && json_integer_value(id) < shapes[i].vocab);
                assert_true(!first || json_equal(json_object_get(first, "ids"), ids));
                if (first)
                    json_decref(line);
                else
                    first = line;
                at = end + 1;
            }
            json_decref(first);
            free(text);
            buf_free(&in);
            buf_free(&prompt);
            drop_model(&d);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_odd__logits_as_on_the_cpu),
        cmocka_unit_test(test_odd__the_same_answer_at_every_draft_depth),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
