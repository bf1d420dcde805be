#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "engine/load.h"
#include "kernels/number.h"
#include "kernels/attention.h"
#include "kernels/deltanet.h"
#include "kernels/fill.h"
#include "kernels/gemm.h"
#include "kernels/pack.h"
#include "model/prompt.h"
#include "model/synthetic.h"
#include "tests/bench/measure.h"
#include "tests/tmpdir.h"

enum { LAYERS = 4, N_EXPERTS = 16, N_SHARDS = 14 };

static void drop_model(const struct tmpdir *d)
{
    char name[64];
    for (int i = 1; i <= N_SHARDS; i++) {
        snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", i, N_SHARDS);
        tmpdir_drop(d, name);
    }
    tmpdir_drop(d, "model_extra_tensors.safetensors");
    tmpdir_drop(d, "model.safetensors.index.json");
    tmpdir_drop(d, "config.json");
    tmpdir_drop(d, "generation_config.json");
    tmpdir_remove(d);
}

static void make_model(struct tmpdir *d, uint64_t seed, int n_threads)
{
    struct err e = {0};
    assert_true(tmpdir_make(d));
    if (!synthetic_write("demo", LAYERS, d->path, seed, n_threads, NULL, &e))
        fail_msg("%s", e.msg);
}

/* FNV-1a of all shards of a directory. */
static uint64_t digest(const struct tmpdir *d)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 1; i <= N_SHARDS; i++) {
        char path[192];
        snprintf(path, sizeof path, "%s/model-%05d-of-%05d.safetensors", d->path, i, N_SHARDS);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        for (int c; (c = getc(f)) != EOF;)
            h = (h ^ (uint64_t)c) * 0x100000001b3u;
        fclose(f);
    }
    return h;
}

static void test_synthetic__a_written_model_opens_with_every_part(void **state)
{
    (void)state;
    struct tmpdir d;
    struct model_config c;
    struct weights w;
    struct err e = {0};
    make_model(&d, 1, 0);
    if (!config_load(&c, d.path, &e) || !weights_open(&w, &c, d.path, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(c.n_layers, LAYERS);
    assert_true(w.stats.n_files > N_SHARDS / 2);        /* some shards of so small a model are empty, and the index knows only the others */
    assert_int_equal(w.stats.n_mtp, 3 * N_EXPERTS + 17);
    assert_int_equal(w.stats.n_skipped, 3);
    assert_true(w.stats.n_stale > 0);
    assert_int_equal(w.stats.n_fp8, 3 * LAYERS);
    assert_int_equal(w.layers[0].moe.experts[0].gate.format, WEIGHT_INT4);
    assert_int_equal(w.layers[0].moe.shared.down.format, WEIGHT_FP8);
    assert_int_equal(w.mtp.layer.moe.experts[0].gate.format, WEIGHT_DENSE);
    weights_close(&w);
    drop_model(&d);
}

/* The device is the CPU, which is only told to keep weights packed: filling and cutting are the same on every device. */
static void test_synthetic__rows_behind_a_matrix_are_zero_and_the_bytes_were_told(void **state)
{
    (void)state;
    static const struct dev_caps packs = {.packs_weights = true};
    const unsigned heads = HEAD_BF16 | HEAD_INT8 | HEAD_PLANES;
    struct model_config c;
    struct weights w;
    struct err e = {0};
    assert_true(synthetic_config(&c, "demo", 4, &e));
    struct dev *d = dev_open("cpu", 1, &e);
    assert_non_null(d);
    d->caps = &packs;
    struct synthetic *s = synthetic_open(&w, &c, d, &(struct synthetic_form){heads, MTP_FP8, false}, 3, &e);
    if (!s)
        fail_msg("%s", e.msg);
    assert_int_equal(w.stats.bytes, synthetic_bytes(&c, &(struct synthetic_form){heads, MTP_FP8, false}));
    assert_true(synthetic_bytes(&c, &(struct synthetic_form){heads, MTP_STORED, false})
                > w.stats.bytes + weights_made_mtp_bytes(&c, MTP_FP8) * 9 / 10);
    assert_int_equal(w.mtp.fc.format, WEIGHT_FP8);
    assert_int_equal(w.mtp.layer.moe.experts[1].down.format, WEIGHT_FP8);
    assert_int_equal(w.mtp.layer.moe.router.format, WEIGHT_DENSE);
    assert_true(synthetic_bytes(&c, &(struct synthetic_form){heads, MTP_INT4, false}) < w.stats.bytes - weights_made_mtp_bytes(&c, MTP_FP8) / 3);
    /* a gate of one row, against where the host packs a row of ones */
    const struct weight *gate = &w.layers[0].moe.shared_gate;
    size_t n = pack_data_bytes(WEIGHT_DENSE, 1, c.hidden) / 2, n_ones = 0, n_used = 0;
    uint16_t *row = malloc((size_t)c.hidden * sizeof *row), *ones = calloc(n + 64, sizeof *ones);
    const uint16_t *got = gate->data;
    assert_true(row && ones && gate->rows == 1);
    for (int i = 0; i < c.hidden; i++)
        row[i] = 0x3f80;
    struct weight one = {.format = WEIGHT_DENSE, .dtype = DT_BF16, .rows = 1, .cols = c.hidden, .data = row};
    assert_true(pack_matrix(&one, ones));
    for (size_t i = 0; i < n; i++) {
        n_ones += ones[i] == 0x3f80;
        n_used += ones[i] && got[i];
        assert_true(ones[i] || !got[i]);
    }
    assert_int_equal(n_ones, c.hidden);
    assert_true(n_used > n_ones * 9 / 10);
    free(row);
    free(ones);
    synthetic_close(s);
    dev_close(d);
}

static void test_synthetic__an_mtp_block_in_int4_is_like_the_layers(void **state)
{
    (void)state;
    static const struct dev_caps packs = {.packs_weights = true};
    struct model_config c;
    struct weights w;
    struct err e = {0};
    assert_true(synthetic_config(&c, "demo", 4, &e));
    struct dev *d = dev_open("cpu", 1, &e);
    assert_non_null(d);
    d->caps = &packs;
    struct synthetic *s = synthetic_open(&w, &c, d, &(struct synthetic_form){HEAD_INT8, MTP_INT4, true}, 3, &e);
    if (!s)
        fail_msg("%s", e.msg);
    assert_int_equal(w.stats.bytes, synthetic_bytes(&c, &(struct synthetic_form){HEAD_INT8, MTP_INT4, true}));
    assert_true(w.layers[3].attn.k.format == WEIGHT_FP8 && w.layers[0].delta.out.format == WEIGHT_FP8 && w.layers[0].delta.qkv.format == WEIGHT_INT4);
    const struct moe_weights *m = &w.mtp.layer.moe, *like = &w.layers[0].moe;
    assert_true(w.mtp.fc.format == WEIGHT_FP8 && w.mtp.layer.attn.q.format == WEIGHT_INT4 && w.mtp.layer.attn.o.format == WEIGHT_INT4);
    assert_true(m->experts[1].gate.format == like->experts[1].gate.format && m->experts[1].down.format == like->experts[1].down.format);
    assert_true(m->shared.gate.format == like->shared.gate.format && m->shared.down.format == like->shared.down.format);
    assert_int_equal(m->router.format, WEIGHT_DENSE);
    synthetic_close(s);
    dev_close(d);
}

/* Memory set aside for plain operations on a GPU: enough for each of them, and no more than the largest takes. */
static void test_synthetic__scratch_is_what_the_hungriest_operation_takes(void **state)
{
    (void)state;
    static const int rows[] = {1, GEMM_FINE, GEMM_FINE + 1, 4096, 8192};
    struct model_config c;
    struct err e = {0};
    assert_true(synthetic_config(&c, "122b", 0, &e));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t told = forward_scratch_bytes(&c, rows[i]), sums[] = {
            linear_scratch(rows[i], 2 * c.hidden), linear_scratch(rows[i], c.n_q_heads * c.head_dim),
                linear_scratch(rows[i], config_lin_value_dim(&c)),
            rounded_scratch(rows[i], c.hidden), experts_down_scratch(rows[i], c.top_k, c.moe_inter), attention_scratch(192),
            linear_scratch(rows[i], c.hidden) + deltanet_chunk_scratch(rows[i], c.lin_k_heads, c.lin_v_heads),
            experts_down_scratch(rows[i] < GEMM_FINE ? rows[i] : GEMM_FINE, c.top_k, c.moe_inter),
        };
        size_t most = 0;
        for (size_t k = 0; k < sizeof sums / sizeof *sums; k++)
            most = sums[k] > most ? sums[k] : most;
        assert_int_equal(told, most);
    }
}

static void test_synthetic__activations_stay_of_ordinary_size(void **state)
{
    (void)state;
    enum { N = 24 };
    struct tmpdir d;
    struct model m;
    struct err e = {0};
    int32_t ids[N];
    double rms[2] = {0, 0}, mean = 0;
    make_model(&d, 2, 0);
    if (!load_open(&m, &(struct load_options){
            .head = "bf16", .dir = d.path, .backend = "cpu",
            .n_ctx = N, .chunk = N, .n_snapshots = LOAD_NO_SNAPSHOTS,
        }, &e))
        fail_msg("%s", e.msg);
    float *logits = malloc((size_t)m.cfg.vocab * sizeof *logits);
    assert_non_null(logits);
    for (int i = 0; i < N; i++)
        ids[i] = (i * 811 + 5) % m.cfg.vocab;
    prompt_run(m.forward, m.cache, ids, N, 0);
    prompt_head(m.forward, HEAD_BF16, forward_hidden(m.forward) + (N - 1) * m.cfg.hidden, 1, logits);
    if (!m.dev->finish(m.dev, &e))
        fail_msg("%s", e.msg);
    for (int i = 0; i < N * m.cfg.hidden; i++)
        rms[0] += pow((double)forward_hidden(m.forward)[i], 2) / (N * m.cfg.hidden);
    for (int i = 0; i < m.cfg.vocab; i++) {
        rms[1] += pow((double)logits[i], 2) / m.cfg.vocab;
        mean += (double)logits[i] / m.cfg.vocab;
    }
    assert_true(rms[0] > 0.5 && rms[0] < 2);
    assert_true(rms[1] > 1 && rms[1] < 16);
    assert_true(fabs(mean) < 0.5);
    free(logits);
    load_close(&m);
    drop_model(&d);
}

static void test_synthetic__bytes_depend_on_the_seed_and_not_on_the_threads(void **state)
{
    (void)state;
    struct tmpdir d[3];
    make_model(&d[0], 7, 1);
    make_model(&d[1], 7, 3);
    make_model(&d[2], 8, 3);
    assert_true(digest(&d[0]) == digest(&d[1]));
    assert_true(digest(&d[0]) != digest(&d[2]));
    for (int i = 0; i < 3; i++)
        drop_model(&d[i]);
}

static void test_synthetic__names_find_their_geometry(void **state)
{
    (void)state;
    const struct { const char *name; int layers, hidden, want_layers, want_full; const char *known; } rows[] = {
        {"122b", 0, 3072, 48, 12, "Qwen3.5-122B-A10B"}, {"35B", 0, 2048, 40, 10, "Qwen3.5-35B-A3B"}, {"122b", 6, 3072, 6, 1, "custom"},
    };
    struct model_config c;
    struct err e = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!synthetic_config(&c, rows[i].name, rows[i].layers, &e))
            fail_msg("%s", e.msg);
        assert_int_equal(c.hidden, rows[i].hidden);
        assert_int_equal(c.n_layers, rows[i].want_layers);
        assert_int_equal(c.n_full, rows[i].want_full);
        assert_int_equal(c.rotary_dim, 64);
        assert_string_equal(c.name, rows[i].known);
    }
    assert_false(synthetic_config(&c, "7b", 0, &e));
    assert_non_null(strstr(e.msg, "7b"));
    assert_false(synthetic_config(&c, "122b", 49, &e));
    assert_non_null(strstr(e.msg, "49"));
}

static void test_synthetic__random_numbers_have_the_size_they_promise(void **state)
{
    (void)state;
    enum { WORDS = 20000 };
    double int4 = 0, int8 = 0, planes = 0, fp8 = 0, bf16 = 0, f32 = 0;
    for (uint64_t i = 0; i < WORDS; i++) {
        uint64_t nibbles = fill_word(&(struct fill){.kind = FILL_BITS, .key = 3}, i),
            bytes = fill_word(&(struct fill){.kind = FILL_INT8, .key = 4}, i);
        uint64_t e4m3 = fill_word(&(struct fill){.kind = FILL_FP8, .key = 5}, i);
        uint64_t half = fill_word(&(struct fill){.kind = FILL_BF16, .key = 6, .width = 1.7320508f}, i);
        uint64_t scale = fill_word(&(struct fill){.kind = FILL_F16, .key = 7, .centre = 0.004f, .width = 0.001f}, i);
        uint64_t single = fill_word(&(struct fill){.kind = FILL_F32, .key = 8, .centre = 1, .width = 0.25f}, i);
        uint64_t bell = fill_word(&(struct fill){.kind = FILL_BELL, .key = 9}, i);
        for (int j = 0; j < 16; j++)
            planes += pow(16 * ((double)(bell >> 4 * j & 15) - 8) + (double)(nibbles >> 4 * j & 15), 2) / (16.0 * WORDS);
        for (int j = 0; j < 16; j++)
            int4 += pow((double)(nibbles >> 4 * j & 15) - 8, 2) / (16.0 * WORDS);
        for (int j = 0; j < 8; j++) {
            int q = (int8_t)(bytes >> 8 * j);
            float x = fp8_f32((uint8_t)(e4m3 >> 8 * j));
            assert_true(q > -128 && isfinite(x) && fabsf(x) >= 0.25f && fabsf(x) <= 3.75f);
            int8 += (double)q * q / (8.0 * WORDS);
            fp8 += (double)x * (double)x / (8.0 * WORDS);
        }
        for (int j = 0; j < 4; j++) {
            float s = fabsf(f16_f32((uint16_t)(scale >> 16 * j)));
            assert_true(s >= 0.00299f && s <= 0.00501f);
            bf16 += pow((double)bf16_f32((uint16_t)(half >> 16 * j)), 2) / (4.0 * WORDS);
        }
        for (int j = 0; j < 2; j++) {
            float x = bits_f32((uint32_t)(single >> 32 * j));
            assert_true(x >= 0.75f && x <= 1.25f);
            f32 += (double)x / (2.0 * WORDS);
        }
    }
    assert_true(fabs(sqrt(int4) / (double)FILL_INT4_RMS - 1) < 0.01);
    assert_true(fabs(sqrt(int8) / (double)FILL_INT8_RMS - 1) < 0.01);
    assert_true(fabs(sqrt(planes) / (double)FILL_PLANES_RMS - 1) < 0.01);
    assert_true(fabs(sqrt(fp8) / (double)FILL_FP8_RMS - 1) < 0.01);
    assert_true(fabs(sqrt(bf16) - 1) < 0.01);
    assert_true(fabs(f32 - 1) < 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_synthetic__a_written_model_opens_with_every_part),
        cmocka_unit_test(test_synthetic__rows_behind_a_matrix_are_zero_and_the_bytes_were_told),
        cmocka_unit_test(test_synthetic__an_mtp_block_in_int4_is_like_the_layers),
        cmocka_unit_test(test_synthetic__scratch_is_what_the_hungriest_operation_takes),
        cmocka_unit_test(test_synthetic__activations_stay_of_ordinary_size),
        cmocka_unit_test(test_synthetic__bytes_depend_on_the_seed_and_not_on_the_threads),
        cmocka_unit_test(test_synthetic__names_find_their_geometry),
        cmocka_unit_test(test_synthetic__random_numbers_have_the_size_they_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
