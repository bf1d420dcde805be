/* The five small checkpoints against the logits, hidden states and drafts of Hugging Face transformers (fp32 on the
 * dequantized weights): see tests/data/model/README.md.  Bound: 2e-3 on every logit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ids.h"
#include "engine/load.h"
#include "model/prompt.h"
#include "model/safetensors.h"
#include "model/step.h"
#include "tests/tmpdir.h"
#include "text/tokenizer.h"

static const char *const dirs[] = {"g0/bf16", "g0/int4", "g0/hybrid", "g1/int4", "g1/hybrid"};
enum { N_DIRS = sizeof dirs / sizeof *dirs, N_PROMPTS = 6, MAX = 256 };

static const double bound = 2e-3;

static const void *expected(const struct safetensors *s, int *n, const char *fmt, int i)
{
    char name[64];
    snprintf(name, sizeof name, fmt, i);
    const struct tensor *t = safetensors_find(s, name);
    assert_non_null(t);
    if (n)
        *n = (int)t->shape[0];
    return safetensors_data(s, t);
}

static void open_both(struct model *m, struct safetensors *s, const char *dir, const char *kv)
{
    struct err e = {0};
    char path[256];
    snprintf(path, sizeof path, "tests/data/model/%s/expected.safetensors", dir);
    if (!safetensors_open(s, path, &e))
        fail_msg("%s", e.msg);
    snprintf(path, sizeof path, "tests/data/model/%s", dir);
    if (!load_open(m, &(struct load_options){
            .head = "bf16", .dir = path, .backend = "cpu", .kv = kv, .n_threads = 2,
            .n_ctx = MAX, .chunk = MAX, .n_snapshots = LOAD_NO_SNAPSHOTS,
        }, &e))
        fail_msg("%s", e.msg);
}

/* Runs the prompt in pieces: `chunk` rows a call, 0 for all at once; negative: staged steps of -chunk rows. */
static void run(struct model *m, const int32_t *ids, int n, int chunk, float *hidden, float *logits)
{
    size_t H = (size_t)m->cfg.hidden, V = (size_t)m->cfg.vocab;
    int size = chunk ? abs(chunk) : n;
    cache_reset(m->cache);
    for (int pos = 0; pos < n; pos += size) {
        int k = n - pos < size ? n - pos : size;
        (chunk < 0 ? step_run : prompt_run)(m->forward, m->cache, ids + pos, k, pos);
        if (chunk < 0)
            cache_accept(m->cache, k);
        memcpy(hidden + (size_t)pos * H, forward_hidden(m->forward), (size_t)k * H * sizeof *hidden);
        prompt_head(m->forward, HEAD_BF16, forward_hidden(m->forward), k, logits + (size_t)pos * V);
    }
}

static double worst(const float *a, const float *b, size_t n)
{
    double w = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        w = d <= w ? w : d;                     /* NaN counts as larger */
    }
    return w;
}

static void test_model__logits_and_hidden_states_match_transformers(void **state)
{
    (void)state;
    for (int d = 0; d < N_DIRS; d++) {
        struct model m;
        struct safetensors s;
        open_both(&m, &s, dirs[d], "f32");
        size_t H = (size_t)m.cfg.hidden, V = (size_t)m.cfg.vocab;
        float *hidden = malloc(MAX * H * sizeof *hidden), *logits = malloc(MAX * V * sizeof *logits);
        static const int chunks[] = {0, 1, 7, 64, 100, -1, -5};
        double all = 0;
        for (int i = 0; i < N_PROMPTS; i++)
            for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
                int n;
                const int32_t *ids = expected(&s, &n, "prompt%d.ids", i);
                run(&m, ids, n, chunks[c], hidden, logits);
                double l = worst(expected(&s, NULL, "prompt%d.logits", i), logits, (size_t)n * V);
                double h = worst(expected(&s, NULL, "prompt%d.hidden", i), hidden, (size_t)n * H);
                if (!(l <= bound && h <= bound))
                    fail_msg("%s, prompt %d, chunk %d: logits off by %g, hidden by %g", dirs[d], i, chunks[c], l, h);
                all = l > all ? l : all;
            }
        printf("%-10s max |logit - reference| %.1e\n", dirs[d], all);
        free(hidden), free(logits);
        load_close(&m);
        safetensors_close(&s);
    }
}

static int argmax(const float *x, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

static void test_model__chained_mtp_drafts_match_the_reference(void **state)
{
    (void)state;
    for (int d = 0; d < N_DIRS; d++)
        for (int chunk = 1; chunk <= 64; chunk *= 8) {
            struct model m;
            struct safetensors s;
            open_both(&m, &s, dirs[d], "f32");
            assert_true(m.weights.mtp.present);
            size_t H = (size_t)m.cfg.hidden, V = (size_t)m.cfg.vocab;
            float *logits = malloc(V * sizeof *logits), *in = malloc(H * sizeof *in), *out = malloc(H * sizeof *out);
            for (int i = 0; i < N_PROMPTS; i++) {
                int n;
                const int32_t *ids = expected(&s, &n, "prompt%d.ids", i), *drafts = expected(&s, NULL, "prompt%d.mtp_drafts", i);
                const float *want = expected(&s, NULL, "prompt%d.mtp_logits", i);
                cache_reset(m.cache);
                for (int pos = 0; pos < n; pos += chunk)
                    prompt_chunk(m.forward, m.cache, ids + pos, n - pos < chunk ? n - pos : chunk, pos, true);
                memcpy(in, forward_last_hidden(m.cache), H * sizeof *in);
                prompt_head(m.forward, HEAD_BF16, in, 1, logits);
                int32_t token = argmax(logits, m.cfg.vocab);
                assert_int_equal(token, *(const int32_t *)expected(&s, NULL, "prompt%d.mtp_first", i));
                for (int k = 0; k < 3; k++) {
                    prompt_mtp(m.forward, m.cache, in, &token, 1, n - 1 + k, out);
                    prompt_head(m.forward, HEAD_BF16, out, 1, logits);
                    double w = worst(want + (size_t)k * V, logits, V);
                    if (!(w <= bound))
                        fail_msg("%s, prompt %d, draft %d: off by %g", dirs[d], i, k + 1, w);
                    token = argmax(logits, m.cfg.vocab);
                    assert_int_equal(token, drafts[k]);
                    memcpy(in, out, H * sizeof *in);
                }
            }
            free(logits), free(in), free(out);
            load_close(&m);
            safetensors_close(&s);
        }
}

static void test_model__trained_weights_give_the_same_logits_in_any_chunking(void **state)
{
    (void)state;
    static const char text[] =
        "<|im_start|>user\nMy name is Ann. What is 348 + 277?<|im_end|>\n<|im_start|>assistant\n348 + 277 = 625.<|im_end|>\n"
        "<|im_start|>user\nGive me a JSON object with name Ann and age 31<|im_end|>\n<|im_start|>assistant\n{\"name\": \"Ann\", \"age\": 31}"
        "<|im_end|>\n<|im_start|>user\nWhat is my name?<|im_end|>\n<|im_start|>assistant\n<think>\nThe user told me the name: Ann.\n</think>\n\n";
    struct err e = {0};
    struct model m;
    struct ids ids = {0};
    struct tokenizer *t = tokenizer_open("assets/demo", &e);
    if (!t || !load_open(&m, &(struct load_options){
            .head = "bf16", .dir = "assets/demo", .backend = "cpu", .n_threads = 2,
            .n_ctx = MAX, .chunk = MAX, .n_snapshots = LOAD_NO_SNAPSHOTS,
        }, &e))
        fail_msg("%s", e.msg);
    tokenizer_encode(t, text, strlen(text), true, &ids);
    assert_true(ids.n >= 100 && ids.n <= MAX);
    size_t H = (size_t)m.cfg.hidden, V = (size_t)m.cfg.vocab, n = (size_t)ids.n;
    float *hidden = malloc(MAX * H * sizeof *hidden), *whole = malloc(MAX * V * sizeof *whole), *logits = malloc(MAX * V * sizeof *logits);
    run(&m, ids.data, ids.n, 0, hidden, whole);
    static const int chunks[] = {1, 7, 37, 64, -1, -3};
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
        run(&m, ids.data, ids.n, chunks[c], hidden, logits);
        double w = worst(whole, logits, n * V);
        if (!(w <= (chunks[c] == 64 ? 0 : bound)))      /* cut at multiples of 64: the same bits */
            fail_msg("chunk %d: logits off by %g", chunks[c], w);
    }
    free(hidden), free(whole), free(logits);
    ids_free(&ids);
    tokenizer_close(t);
    load_close(&m);
}

static void test_model__steps_with_rejected_rows_give_the_bits_of_single_steps(void **state)
{
    (void)state;
    struct model m;
    struct safetensors s;
    open_both(&m, &s, "g1/hybrid", "f32");
    int n;
    const int32_t *ids = expected(&s, &n, "prompt%d.ids", 5);
    size_t H = (size_t)m.cfg.hidden, V = (size_t)m.cfg.vocab;
    float *hidden = malloc(MAX * H * sizeof *hidden), *plain = malloc(MAX * H * sizeof *plain), *logits = malloc(MAX * V * sizeof *logits);
    run(&m, ids, n, -1, plain, logits);
    cache_reset(m.cache);
    unsigned seed = 7;
    for (int pos = 0; pos < n;) {
        int32_t rows[4];
        int k = n - pos < 4 ? n - pos : 4, take = 1 + (int)((seed = seed * 1103515245 + 12345) >> 16) % k;
        for (int i = 0; i < k; i++)             /* rows behind `take` are wrong guesses */
            rows[i] = i < take ? ids[pos + i] : (ids[pos + i] + 1) % m.cfg.vocab;
        step_run(m.forward, m.cache, rows, k, pos);
        assert_memory_equal(forward_hidden(m.forward), plain + (size_t)pos * H, (size_t)take * H * sizeof *plain);
        cache_accept(m.cache, take);
        pos += take;
    }
    free(hidden), free(plain), free(logits);
    load_close(&m);
    safetensors_close(&s);
}

static void test_model__saved_states_bring_a_position_back(void **state)
{
    (void)state;
    struct model m;
    struct safetensors s;
    open_both(&m, &s, "g0/int4", "f32");
    int n;
    const int32_t *ids = expected(&s, &n, "prompt%d.ids", 5);
    size_t H = (size_t)m.cfg.hidden;
    void *saved = malloc(cache_saved_bytes(&m.cfg, m.kv));
    float *first = malloc(H * sizeof *first);
    cache_reset(m.cache);
    prompt_chunk(m.forward, m.cache, ids, 64, 0, true);
    step_run(m.forward, m.cache, ids + 64, 3, 64);       /* saving applies accepted rows first */
    cache_accept(m.cache, 2);
    cache_state_save(m.cache, saved);
    prompt_run(m.forward, m.cache, ids + 66, 40, 66);
    memcpy(first, forward_hidden(m.forward) + 39 * H, H * sizeof *first);
    prompt_run(m.forward, m.cache, ids + 10, 20, 106);    /* go astray */
    cache_state_load(m.cache, saved);
    prompt_run(m.forward, m.cache, ids + 66, 40, 66);
    assert_memory_equal(first, forward_hidden(m.forward) + 39 * H, H * sizeof *first);
    free(saved), free(first);
    load_close(&m);
    safetensors_close(&s);
}

static void test_model__the_int8_head_and_bf16_rows_stay_close(void **state)
{
    (void)state;
    struct model m;
    struct safetensors s;
    open_both(&m, &s, "g1/hybrid", "bf16");
    weights_make_head(&m.weights, HEAD_INT8);
    int n;
    const int32_t *ids = expected(&s, &n, "prompt%d.ids", 5);
    size_t V = (size_t)m.cfg.vocab;
    float *logits = malloc(MAX * V * sizeof *logits);
    const float *want = expected(&s, NULL, "prompt%d.logits", 5);
    cache_reset(m.cache);
    prompt_run(m.forward, m.cache, ids, n, 0);
    prompt_head(m.forward, HEAD_INT8, forward_hidden(m.forward), n, logits);
    double kl = 0;
    for (int t = 0; t < n; t++) {
        double za = 0, zb = 0;
        for (size_t v = 0; v < V; v++) {
            za += exp((double)want[(size_t)t * V + v]);
            zb += exp((double)logits[(size_t)t * V + v]);
        }
        for (size_t v = 0; v < V; v++) {
            double a = (double)want[(size_t)t * V + v] - log(za), b = (double)logits[(size_t)t * V + v] - log(zb);
            kl += exp(a) * (a - b) / n;
        }
    }
    printf("g1/hybrid with INT8 head and bf16 KV rows: mean KL %.1e\n", kl);
    assert_true(kl <= 1e-3);
    free(logits);
    load_close(&m);
    safetensors_close(&s);
}

/* ---- YaRN ---- */

static const char *const files_of_g0[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"};
enum { N_FILES_OF_G0 = sizeof files_of_g0 / sizeof *files_of_g0 };

/* g0/bf16 as if it had been trained on so many positions. */
static void make_short_g0(struct tmpdir *dir, int positions)
{
    char from[256], to[192], here[200];
    assert_true(tmpdir_make(dir) && getcwd(here, sizeof here));
    for (int i = 0; i < N_FILES_OF_G0; i++) {
        snprintf(from, sizeof from, "%s/tests/data/model/g0/bf16/%s", here, files_of_g0[i]);
        snprintf(to, sizeof to, "%s/%s", dir->path, files_of_g0[i]);
        assert_int_equal(symlink(from, to), 0);
    }
    json_t *config = json_load_file("tests/data/model/g0/bf16/config.json", 0, NULL);
    json_object_set_new(json_object_get(config, "text_config"), "max_position_embeddings", json_integer(positions));
    char *text = json_dumps(config, 0);
    assert_true(tmpdir_put(dir, "config.json", text, strlen(text)));
    free(text);
    json_decref(config);
}

static void drop_short_g0(const struct tmpdir *dir)
{
    for (int i = 0; i < N_FILES_OF_G0; i++)
        tmpdir_drop(dir, files_of_g0[i]);
    tmpdir_drop(dir, "config.json");
    tmpdir_remove(dir);
}

/* How far the logits of some rows are from those of the file. */
static double off_by(const json_t *stretched, const float *logits, int vocab)
{
    const json_t *rows = json_object_get(stretched, "rows"), *all = json_object_get(stretched, "logits"), *x;
    double most = 0;
    size_t i, v;
    for (i = 0; i < json_array_size(rows); i++) {
        const float *row = logits + (size_t)json_integer_value(json_array_get(rows, i)) * (size_t)vocab;
        assert_int_equal(json_array_size(json_array_get(all, i)), vocab);
        json_array_foreach(json_array_get(all, i), v, x)
            most = fmax(most, fabs(json_number_value(x) - (double)row[v]));
    }
    return most;
}

/* A --ctx beyond the model's positions.  The logits of the model without YaRN are far from these. */
static void test_model__a_stretched_context_has_the_logits_of_transformers(void **state)
{
    (void)state;
    static const int chunks[] = {0, 64, -1};
    struct safetensors plain;
    struct err e = {0};
    int n;
    json_t *golden = json_load_file("tests/data/golden/yarn.json", 0, NULL), *s;
    size_t i;
    assert_non_null(golden);
    if (!safetensors_open(&plain, "tests/data/model/g0/bf16/expected.safetensors", &e))
        fail_msg("%s", e.msg);
    const int32_t *ids = expected(&plain, &n, "prompt%d.ids", 5);
    assert_int_equal(json_array_size(json_object_get(golden, "stretched")), 2);
    json_array_foreach(json_object_get(golden, "stretched"), i, s) {
        const int positions = (int)json_integer_value(json_object_get(s, "original")), factor = (int)json_number_value(json_object_get(s, "factor"));
        struct model m;
        struct tmpdir dir;
        make_short_g0(&dir, positions);
        if (!load_open(&m, &(struct load_options){
                .head = "bf16", .dir = dir.path, .backend = "cpu", .kv = "f32", .n_threads = 2,
                .n_ctx = factor * positions, .chunk = factor * positions, .n_snapshots = LOAD_NO_SNAPSHOTS,
            }, &e))
            fail_msg("%s", e.msg);
        const size_t H = (size_t)m.cfg.hidden, V = (size_t)m.cfg.vocab;
        float *hidden = malloc(MAX * H * sizeof *hidden), *logits = malloc(MAX * V * sizeof *logits);
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            run(&m, ids, n, chunks[c], hidden, logits);
            const double off = off_by(s, logits, m.cfg.vocab);
            if (!(off <= bound))
                fail_msg("%d positions stretched %d times, chunk %d: logits off by %g", positions, factor, chunks[c], off);
        }
        assert_true(off_by(s, expected(&plain, NULL, "prompt%d.logits", 5), m.cfg.vocab) > 20 * bound);
        free(hidden), free(logits);
        load_close(&m);
        drop_short_g0(&dir);
    }
    safetensors_close(&plain);
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model__logits_and_hidden_states_match_transformers),
        cmocka_unit_test(test_model__chained_mtp_drafts_match_the_reference),
        cmocka_unit_test(test_model__trained_weights_give_the_same_logits_in_any_chunking),
        cmocka_unit_test(test_model__steps_with_rejected_rows_give_the_bits_of_single_steps),
        cmocka_unit_test(test_model__saved_states_bring_a_position_back),
        cmocka_unit_test(test_model__the_int8_head_and_bf16_rows_stay_close),
        cmocka_unit_test(test_model__a_stretched_context_has_the_logits_of_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
