/* From options to a model that runs: defaults, limits and refusals, with the real parts and the demo model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "config/limits.h"
#include "engine/gallery.h"
#include "answer/machine.h"
#include "engine/memplan.h"
#include "model/synthetic.h"
#include "engine/load.h"

static const char demo[] = "assets/demo";

static void test_load__nothing_asked_is_what_the_device_does_by_itself(void **state)
{
    (void)state;
    struct model m;
    struct err e = {0};
    if (!load_check(&m, &(struct load_options){.dir = demo, .backend = "cpu", .depth = -1}, &e))
        fail_msg("%s", e.msg);
    assert_string_equal(m.backend, "cpu");
    assert_string_equal(m.kv->name, "f32");
    assert_int_equal(m.head, HEAD_INT8);
    assert_true(m.n_ctx > 0 && m.n_ctx <= 32768);
    assert_true(m.chunk > 0 && m.chunk <= LIMIT_CHUNK);
    assert_true(m.depth > 0 && m.depth <= LIMIT_DRAFTS);
    assert_true(m.n_snapshots > 0);
    assert_int_equal(m.plan.n_ctx, m.n_ctx);
    assert_true(m.plan.n_lines > 0 && m.plan.total > 0 && m.plan.total < m.plan.available);
    load_close(&m);
}

static void test_load__auto_says_which_recipe_it_took_and_why(void **state)
{
    (void)state;
    struct model m;
    struct err e = {0};
    struct buf plan = {0};
    assert_true(load_check(&m, &(struct load_options){.dir = demo, .backend = "cpu", .kv = "auto", .n_ctx = 1000}, &e));
    assert_string_equal(m.kv->name, "f32");
    plan_say(&m.plan, &plan);
    assert_non_null(strstr(buf_str(&plan), "; --kv auto took f32: the default makes the cheapest steps in this context"));
    buf_free(&plan);
    load_close(&m);
}

/* Qwen's model card for 1,010,000 tokens: factor 4 of 262,144. */
static void test_load__a_context_beyond_the_models_is_stretched(void **state)
{
    (void)state;
    const struct { int n_ctx, factor; } rows[] = {{262144, 1}, {262145, 2}, {524288, 2}, {524289, 4}, {1010000, 4}, {1048576, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model m;
        struct buf plan = {0};
        struct err e = {0};
        load_check(&m, &(struct load_options){.dir = demo, .backend = "cpu", .n_ctx = rows[i].n_ctx}, &e);    /* whether it fits or not */
        assert_true(m.cfg.yarn_factor == (float)rows[i].factor);
        assert_int_equal(m.plan.n_ctx, rows[i].n_ctx);
        plan_say(&m.plan, &plan);
        assert_int_equal(strstr(buf_str(&plan), "the model's 262144 positions are stretched by YaRN") != NULL, rows[i].factor > 1);
        buf_free(&plan);
        load_close(&m);
    }
}

static void test_load__what_is_asked_is_taken(void **state)
{
    (void)state;
    struct model m;
    struct err e = {0};
    const struct load_options o = {.dir = demo, .backend = "cpu", .kv = "bf16", .head = "bf16", .math = "int8", .n_ctx = 300, .chunk = 7,
                                   .n_snapshots = LOAD_NO_SNAPSHOTS};
    if (!load_open(&m, &o, &e))
        fail_msg("%s", e.msg);
    assert_string_equal(m.kv->name, "bf16");
    assert_int_equal(m.head, HEAD_BF16);
    assert_int_equal(m.math, PROMPT_INT8);
    assert_int_equal(m.weights.head_int8.format, WEIGHT_NONE);
    assert_true(m.n_ctx == 300 && m.chunk == 7 && m.depth == 0 && m.n_snapshots == 0);
    assert_true(m.forward && m.cache);
    load_close(&m);
    assert_null(m.dev);
}

static size_t planned(const struct memory_plan *p, const char *name)
{
    size_t bytes = 0;
    for (int i = 0; i < p->n_lines; i++)
        bytes += strcmp(p->lines[i].name, name) ? 0 : p->lines[i].bytes;
    return bytes;
}

static void test_load__two_planes_take_the_place_of_the_int8_head(void **state)
{
    (void)state;
    struct model m;
    struct err e = {0};
    if (!load_open(&m, &(struct load_options){.dir = demo, .backend = "cpu", .head = "planes", .n_ctx = 64}, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(m.weights.head_int8.format, WEIGHT_NONE);
    assert_int_equal(m.weights.head_planes.format, WEIGHT_PLANES);
    assert_int_equal(planned(&m.plan, "INT8 head"), weight_bytes(&m.weights.head_planes));
    load_close(&m);
}

static void test_load__the_mtp_block_is_made_in_the_form_that_is_asked_for_and_planned(void **state)
{
    (void)state;
    static const struct { const char *name; enum mtp_form form; enum weight_format format; } rows[] = {
        {NULL, MTP_STORED, WEIGHT_DENSE}, {"bf16", MTP_STORED, WEIGHT_DENSE}, {"fp8", MTP_FP8, WEIGHT_FP8}, {"int4", MTP_INT4, WEIGHT_INT4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model m;
        struct err e = {0};
        const struct load_options o = {.dir = demo, .backend = "cpu", .n_ctx = 64, .mtp = rows[i].name};
        if (!load_open(&m, &o, &e))
            fail_msg("%s", e.msg);
        assert_int_equal(m.mtp, rows[i].form);
        assert_int_equal(planned(&m.plan, "FP8 MTP block"), rows[i].form == MTP_FP8 ? weights_made_mtp_bytes(&m.cfg, MTP_FP8) : 0);
        assert_int_equal(planned(&m.plan, "INT4 MTP block"), rows[i].form == MTP_INT4 ? weights_made_mtp_bytes(&m.cfg, MTP_INT4) : 0);
        assert_int_equal(m.weights.mtp.layer.attn.q.format, rows[i].format);
        assert_int_equal(m.weights.mtp.fc.format, rows[i].form == MTP_STORED ? WEIGHT_DENSE : WEIGHT_FP8);
        assert_int_equal(m.weights.mtp.layer.moe.experts[3].down.format, rows[i].format);
        assert_int_equal(m.weights.mtp.layer.moe.shared.down.format, rows[i].form == MTP_STORED ? WEIGHT_DENSE : WEIGHT_FP8);
        load_close(&m);
    }
}

static void test_load__what_is_not_available_is_refused_with_what_was_expected(void **state)
{
    (void)state;
    const struct { struct load_options o; const char *why; } rows[] = {
        {{.backend = "cpu"}, "no model directory was given"},
        {{.dir = demo, .backend = "tpu"}, "backend 'tpu' is unknown, expected cpu or cuda"},
        {{.dir = demo, .backend = "cpu", .kv = "q2"}, "the KV recipe is 'q2', expected auto or one of: f32, bf16, int8, k8v4, tq4, k4v3"},
        {{.dir = demo, .backend = "cpu", .head = "fp64"}, "the head is 'fp64', expected bf16 (as stored), int8 or planes"},
        {{.dir = demo, .backend = "cpu", .mtp = "int8"}, "the MTP block is 'int8', expected bf16 (as stored), fp8 or int4"},
        {{.dir = demo, .backend = "cpu", .math = "fp4"}, "products of prompts are 'fp4', expected exact or int8"},
        {{.dir = demo, .backend = "cpu", .chunk = LIMIT_CHUNK + 1}, "the prompt chunk is 8193, expected 0 to 8192"},
        {{.dir = demo, .backend = "cpu", .depth = LIMIT_DRAFTS + 1}, "the draft depth is 8, expected -1 to 7"},
        {{.dir = demo, .backend = "cpu", .n_snapshots = -2}, "the number of snapshots is -2, expected -1 to 1024"},
        {{.dir = demo, .backend = "cpu", .n_threads = -1}, "the number of threads is -1, expected 0 to 1024"},
        {{.dir = demo, .backend = "cpu", .n_ctx = 1 << 22}, "--ctx is 4194304, expected 1 to 1048576: the model's 262144 positions can be stretched "
                                                            "4 times by YaRN, no further"},
        {{.dir = "/nonexistent", .backend = "cpu"}, "no directory /nonexistent"},
        {{.synthetic = "7b", .backend = "cpu"}, "no geometry is called '7b'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model m;
        struct memory_plan plan;
        struct err e = {0}, again = {0};
        assert_false(load_check(&m, &rows[i].o, &e));
        load_close(&m);
        if (!strstr(e.msg, rows[i].why))
            fail_msg("'%s' does not say '%s'", e.msg, rows[i].why);
        assert_false(load_fits(&rows[i].o, &plan, &again));
        assert_string_equal(e.msg, again.msg);
    }
}

static void test_load__random_weights_need_a_device_that_packs(void **state)
{
    (void)state;
    struct model m;
    struct err e = {0};
    assert_false(load_open(&m, &(struct load_options){.synthetic = "demo", .n_layers = 4, .backend = "cpu", .n_ctx = 64}, &e));
    assert_non_null(strstr(e.msg, "the backend is cpu"));
    load_close(&m);
}

static bool after_two(size_t done, size_t total, void *arg)
{
    assert_true(done <= total);
    return ++*(int *)arg < 2;
}

static void test_load__a_listener_may_end_it(void **state)
{
    (void)state;
    struct model m;
    struct err e = {0};
    int n = 0;
    assert_true(load_check(&m, &(struct load_options){.dir = demo, .backend = "cpu"}, &e));
    assert_false(load_weights(&m, after_two, &n, &e));
    assert_string_equal(e.msg, "closed while loading");
    assert_int_equal(n, 2);
    load_close(&m);
}

/* A context that does not fit is told with one that does, and the plan with all its parts is there all the same. */
static void test_load__the_plan_is_there_when_it_does_not_fit(void **state)
{
    (void)state;
    struct memory_plan plan;
    struct err e = {0};
    const struct load_options o = {.dir = demo, .backend = "cpu", .n_ctx = 262144, .chunk = LIMIT_CHUNK, .n_snapshots = LIMIT_SNAPSHOTS};
    bool fits = load_fits(&o, &plan, &e);
    assert_true(plan.n_lines > 0 && plan.total > (size_t)1 << 30);
    assert_int_equal(fits, plan.total + plan.margin <= plan.available);
    assert_int_equal(fits, !*e.msg);
}

/* The estimate for a GPU counts as the plan of one does: more snapshots or positions cannot take less. */
static void test_load__a_gpu_is_planned_without_one(void **state)
{
    (void)state;
    struct model m;
    struct memory_plan small, large;
    struct err e = {0};
    assert_true(load_check(&m, &(struct load_options){.dir = demo, .backend = "cpu"}, &e));
    assert_true(weights_open(&m.weights, &m.cfg, demo, &e));
    const struct kv_recipe *bf16 = kv_recipe_find("bf16", &e);
    load_estimate(&m.cfg, &m.weights, bf16, 100000, &small);
    load_estimate(&m.cfg, &m.weights, bf16, 200000, &large);
    assert_int_equal(small.n_ctx, 100000);
    assert_int_equal(large.n_ctx, 200000);
    assert_int_equal(large.total - small.total, (size_t)100000 * 3 * 1 * 256 * 2 * 2);
    assert_true(large.margin == (size_t)14 << 30);
    load_close(&m);
}

/* Plans the 122B model, of which a GPU takes 77 GB, within `mib` of its own memory. */
static bool plan_122b(struct model *m, size_t mib, int n_ctx, bool kv_auto, int chunk)
{
    struct err e = {0};
    *m = (struct model){.backend = "cpu", .kv = kv_recipe_find("bf16", &e), .kv_auto = kv_auto, .chunk = chunk ? chunk : 8192, .n_sequences = 1,
                        .weight_bytes = (size_t)77 * 1000 * 1000 * 1000,
                        .options = {.n_ctx = n_ctx, .chunk = chunk, .n_snapshots = LOAD_NO_SNAPSHOTS}};
    assert_true(synthetic_config(&m->cfg, "Qwen3.5-122B-A10B", 0, &e));
    return load_plan_gpu(m, mib << 20, true, 0, &e);
}

/* With less memory a chunk of 8,192 rows is given up first, then exact rows (with `auto`), and at last more of the chunk.  A chunk that was asked for
 * stays. */
static void test_load__a_long_chunk_costs_no_exact_rows(void **state)
{
    (void)state;
    enum { CTX = 90000, ALL = 90 << 10, STEP = 128 };
    for (int kv_auto = 0; kv_auto < 2; kv_auto++) {
        size_t long_chunk = 0, exact = 0, at_all = 0;       /* the least memory, in MiB, with which it is so */
        struct model m, fixed;
        for (size_t mib = ALL; plan_122b(&m, mib, CTX, kv_auto, 0); mib -= STEP) {
            const bool is_exact = !strcmp(m.kv->name, "bf16");
            assert_int_equal(m.n_ctx, CTX);
            assert_true(m.plan.total <= m.plan.available - m.plan.margin);
            assert_true(m.chunk == 8192 || m.chunk == 4096 || (m.chunk == 2048 && !plan_122b(&fixed, mib, CTX, kv_auto, 4096)));
            if (plan_122b(&fixed, mib, CTX, kv_auto, 8192))
                assert_true(fixed.chunk == 8192 && (m.chunk == 8192 ? m.kv == fixed.kv : kv_auto && strcmp(fixed.kv->name, "bf16")));
            long_chunk = m.chunk == 8192 && is_exact ? mib : long_chunk;
            exact = is_exact ? mib : exact;
            at_all = mib;
        }
        print_message("%s: chunks of 8,192 from %zu MiB, bf16 from %zu, at all from %zu\n", kv_auto ? "auto" : "bf16", long_chunk, exact, at_all);
        assert_true(long_chunk > exact && (kv_auto ? exact > at_all : exact == at_all));
    }
}

/* Without --ctx the chunk is halved before there are fewer positions. */
static void test_load__a_long_chunk_costs_no_positions(void **state)
{
    (void)state;
    struct model m;
    int n_ctx = 0, chunk = 8192;
    for (size_t mib = 90 << 10; plan_122b(&m, mib, 0, false, 0); mib -= 512) {
        assert_true(m.chunk <= chunk && (m.chunk < chunk || !n_ctx || m.n_ctx <= n_ctx));
        if (m.chunk == 8192)
            assert_int_equal(m.n_ctx, m.cfg.max_pos);
        else if (m.chunk == 2048)
            assert_true(n_ctx < m.cfg.max_pos);
        n_ctx = m.n_ctx;
        chunk = m.chunk;
    }
    assert_true(n_ctx && n_ctx < m.cfg.max_pos && chunk < 8192);
}

static size_t line_bytes(const struct memory_plan *p, const char *name)
{
    for (int i = 0; i < p->n_lines; i++)
        if (!strcmp(p->lines[i].name, name))
            return p->lines[i].bytes;
    return 0;
}

static void test_load__a_vision_tower_is_planned_and_can_be_left_out(void **state)
{
    (void)state;
    static const char seeing[] = "tests/data/vision/v0";
    const struct { const char *dir; bool no_vision; int tokens, taken, n_vision, n_skipped; } rows[] = {
        {seeing, false, 0, 1024, 2 + 1 + 3 * 12 + 6, 0}, {seeing, false, 64, 64, 2 + 1 + 3 * 12 + 6, 0}, {seeing, true, 0, 1024, 0, 45},
        {demo, false, 0, 1024, 3 + 6 * 12 + 6, 0}, {"tests/data/model/g0/int4", false, 0, 1024, 0, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model m;
        struct err e = {0};
        if (!load_open(&m, &(struct load_options){.dir = rows[i].dir, .backend = "cpu", .n_ctx = 512, .chunk = 32, .no_vision = rows[i].no_vision,
                                                  .picture_tokens = rows[i].tokens}, &e))
            fail_msg("%s", e.msg);
        assert_int_equal(m.picture_tokens, rows[i].taken);
        assert_int_equal(m.weights.stats.n_vision, rows[i].n_vision);
        assert_int_equal(m.weights.stats.n_skipped, rows[i].n_skipped);
        assert_true(!m.vision == !rows[i].n_vision);
        assert_int_equal(line_bytes(&m.plan, "pictures"), rows[i].n_vision ? vision_bytes(&m.cfg, false, rows[i].taken * VISION_MERGE, 32)
                                                                           + gallery_bytes(m.cfg.hidden, rows[i].taken) : 0);
        assert_true(!line_bytes(&m.plan, "pictures") == !rows[i].n_vision);
        load_close(&m);
    }
}

/* A DGX Spark: 119.2 GiB that the host and the GPU share, of which the system takes two; 77 GB of weights. */
static void test_load__a_spark_has_three_conversations_of_the_122b_model_and_more_when_compressed(void **state)
{
    (void)state;
    struct model_config c;
    struct memory_plan m;
    struct err e = {0};
    assert_true(synthetic_config(&c, "Qwen3.5-122B-A10B", 0, &e));
    const struct { const char *kv; int least, most; } rows[] = {{"bf16", 3, 3}, {"int8", 4, 7}, {"tq4", 5, 8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct memplan_request q = {
            .model = &c, .kv = kv_recipe_find(rows[i].kv, NULL), .weight_bytes = (size_t)77 * 1000 * 1000 * 1000, .n_ctx = 262144,
            .default_ctx = 262144, .max_rows = 8192, .picture_tokens = 4096, .n_snapshots = 8, .more_snapshots = true, .saves = true,
            .available = (size_t)117 << 30, .margin = (size_t)14 << 30, .gpu = true, .kv_choices = 1,
        };
        assert_true(memplan_make(&m, &q, &e));
        struct buf text = {0};
        plan_say(&m, &text);
        assert_int_equal(m.n_ctx, 262144);
        if (m.n_sequences < rows[i].least || m.n_sequences > rows[i].most)
            fail_msg("%s: %s", rows[i].kv, text.data);
        assert_int_equal(m.n_snapshots, 8 + 4 * (m.n_sequences - 2));
        assert_true(m.total <= q.available - q.margin);
        assert_true(text.len < sizeof ((struct model_info *)0)->memory);
        buf_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load__a_spark_has_three_conversations_of_the_122b_model_and_more_when_compressed),
        cmocka_unit_test(test_load__a_long_chunk_costs_no_exact_rows),
        cmocka_unit_test(test_load__a_long_chunk_costs_no_positions),
        cmocka_unit_test(test_load__nothing_asked_is_what_the_device_does_by_itself),
        cmocka_unit_test(test_load__auto_says_which_recipe_it_took_and_why),
        cmocka_unit_test(test_load__a_context_beyond_the_models_is_stretched),
        cmocka_unit_test(test_load__what_is_asked_is_taken),
        cmocka_unit_test(test_load__two_planes_take_the_place_of_the_int8_head),
        cmocka_unit_test(test_load__the_mtp_block_is_made_in_the_form_that_is_asked_for_and_planned),
        cmocka_unit_test(test_load__what_is_not_available_is_refused_with_what_was_expected),
        cmocka_unit_test(test_load__random_weights_need_a_device_that_packs),
        cmocka_unit_test(test_load__a_listener_may_end_it),
        cmocka_unit_test(test_load__the_plan_is_there_when_it_does_not_fit),
        cmocka_unit_test(test_load__a_gpu_is_planned_without_one),
        cmocka_unit_test(test_load__a_vision_tower_is_planned_and_can_be_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
