#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "engine/memplan.h"
#include "fake_model.h"                 /* KV: 64 bytes a position */

static const size_t MIB = 1 << 20;

static struct memplan_request request(struct model_config *c, size_t available_mib)
{
    struct err e;
    config_load(c, "fake", &e);
    return (struct memplan_request){
        .model = c, .kv = kv_recipe_find("f32", NULL), .weight_bytes = 10 * MIB, .made_head_bytes = 100, .kv_choices = 1, .default_ctx = 32768,
        .n_sequences = 1, .max_rows = 256, .n_snapshots = 8, .available = available_mib * MIB, .margin = 5 * MIB,
    };
}

static void test_memplan__the_default_context_is_what_fits(void **state)
{
    (void)state;
    const struct { size_t available_mib; int low, high; } rows[] = {
        {1000, 32768, 32768},           /* the default */
        {17,   32000, 32768},
        {16,   15000, 16384},           /* 1 MiB for the KV cache */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_config c;
        struct memory_plan m;
        struct err e = {0};
        struct memplan_request q = request(&c, rows[i].available_mib);
        assert_true(memplan_make(&m, &q, &e));
        assert_true(m.n_ctx >= rows[i].low && m.n_ctx <= rows[i].high);
        assert_true(m.total <= q.available - q.margin);
        size_t sum = 0;
        for (int k = 0; k < m.n_lines; k++)
            sum += m.lines[k].bytes;
        assert_int_equal(sum, m.total);
    }
}

static void test_memplan__memory_of_steps_and_spare_positions_count(void **state)
{
    (void)state;
    struct model_config c;
    struct memory_plan none, some;
    struct err e = {0};
    struct memplan_request q = request(&c, 1000);
    q.n_ctx = 1000;
    assert_true(memplan_make(&none, &q, &e));
    q.step_bytes = 12345;
    q.spare_positions = 8;
    assert_true(memplan_make(&some, &q, &e));
    assert_int_equal(some.total - none.total, 12345 + 8 * 64);
}

static void test_memplan__the_models_context_is_the_most(void **state)
{
    (void)state;
    struct model_config c;
    struct memory_plan m;
    struct err e = {0};
    struct memplan_request q = request(&c, 1000);
    c.max_pos = 2000;
    assert_true(memplan_make(&m, &q, &e));
    assert_int_equal(m.n_ctx, 2000);
    q.n_ctx = 2001;
    assert_false(memplan_make(&m, &q, &e));
    assert_string_equal(e.msg, "--ctx is 2001, expected 1 to the model's 2000");
}

static void test_memplan__a_context_that_does_not_fit_names_one_that_does(void **state)
{
    (void)state;
    struct model_config c;
    struct memory_plan m;
    struct err e = {0};
    struct memplan_request q = request(&c, 16);
    int fits;
    q.n_ctx = 50000;
    assert_false(memplan_make(&m, &q, &e));
    assert_non_null(strstr(e.msg, "a context of 50000 tokens needs"));
    const char *hint = strstr(e.msg, "--ctx ");
    assert_non_null(hint);
    assert_int_equal(sscanf(hint, "--ctx %d fits", &fits), 1);
    q.n_ctx = fits;
    assert_true(memplan_make(&m, &q, &e));
    assert_int_equal(m.n_ctx, fits);
}

static void test_memplan__weights_that_do_not_fit_are_refused_with_both_numbers(void **state)
{
    (void)state;
    struct model_config c;
    struct memory_plan m;
    struct err e = {0};
    struct memplan_request q = request(&c, 14);
    q.weight_bytes = (size_t)100 << 30;
    assert_false(memplan_make(&m, &q, &e));
    assert_non_null(strstr(e.msg, "needs 100.00 GiB"));
    assert_non_null(strstr(e.msg, "weights 100.00"));
    assert_non_null(strstr(e.msg, "0.01 GiB are available"));
    q.available = 0;                    /* less than the margin */
    assert_false(memplan_make(&m, &q, &e));
}

static void test_memplan__weight_files_are_counted(void **state)
{
    (void)state;
    char dir[] = "/tmp/memplanXXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    const char *names[] = {"a.safetensors", "b.safetensors", "c.json"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs("0123456789", f);
        fclose(f);
    }
    assert_int_equal(memplan_weight_bytes(dir), 20);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
    assert_int_equal(memplan_weight_bytes("/nonexistent"), 0);
    assert_true(memplan_available() > 0);
}

/* A GPU with memory of its own, and a host with some. */
static struct memplan_request gpu_request(struct model_config *c, size_t available_mib, size_t host_mib)
{
    struct memplan_request q = request(c, available_mib);
    q.made_head_bytes = 0;
    q.gpu = q.discrete = true;
    q.host_available = host_mib * MIB;
    q.spare_positions = 8;
    q.step_bytes = MIB;
    q.scratch_bytes = 2 * MIB;
    q.read_bytes = 3 * MIB;
    return q;
}

static void test_memplan__a_gpu_and_its_host_are_counted_apart(void **state)
{
    (void)state;
    struct model_config c;
    struct memory_plan m;
    struct err e = {0};
    struct memplan_request q = gpu_request(&c, 1000, 100);
    size_t device = 0, host = 0;
    assert_true(memplan_make(&m, &q, &e));
    for (int k = 0; k < m.n_lines; k++)
        *(m.lines[k].host ? &host : &device) += m.lines[k].bytes;
    assert_int_equal(device, m.total);
    assert_int_equal(host, m.host_total);
    assert_int_equal(host, 3 * MIB + 8 * cache_saved_bytes(&c, q.kv));
    /* The states of a save, of the next one and of two conversations that left, and rows: here less than a piece; and a section of a file that is
     * read. */
    q.saves = true;
    assert_true(memplan_make(&m, &q, &e));
    const size_t rows = m.kv_bytes / (size_t)m.n_sequences;
    assert_true(rows < 64 * MIB);
    const size_t states = cache_saved_bytes(&c, q.kv);
    assert_int_equal(m.host_total - host, 3 * rows + 8 * states + (rows > states ? rows : states));
    q.saves = false;
    size_t one = m.total;
    q.weights_in_host = true;
    assert_true(memplan_make(&m, &q, &e));
    assert_int_equal(m.host_total, host + q.weight_bytes);
    assert_int_equal(m.total, one - q.weight_bytes);
    q.weight_bytes = 100 * MIB;
    assert_false(memplan_make(&m, &q, &e));
    assert_non_null(strstr(e.msg, "GiB of the host's memory (weights 100 MiB, "));
    q.weight_bytes = 10 * MIB;
    q.weights_in_host = false;
    q.spare_positions += 100;
    assert_true(memplan_make(&m, &q, &e));
    assert_int_equal(m.total - one, 100 * 64);
    q.discrete = false;                 /* one memory: one sum */
    assert_true(memplan_make(&m, &q, &e));
    assert_int_equal(m.host_total, 0);
    assert_int_equal(m.total, one + 100 * 64 + host);
}

static void test_memplan__a_plan_is_said_in_a_line_with_every_part(void **state)
{
    (void)state;
    struct model_config c;
    struct memory_plan m, none = {0};
    struct err e = {0};
    struct buf text = {0};
    struct memplan_request q = gpu_request(&c, 4000, 100);
    plan_say(&none, &text);
    assert_int_equal(text.len, 0);
    q.weight_bytes = (size_t)3 << 30;
    q.default_ctx = 1000;
    assert_true(memplan_make(&m, &q, &e));
    plan_say(&m, &text);
    assert_non_null(strstr(text.data, "3.00 GiB of 3.91 GiB, of which 0.00 stay free: weights 3.00 GiB, KV cache 0.1 MiB"));
    assert_non_null(strstr(text.data, "; in the host's memory 3.0 MiB: snapshots 0.0 MiB, read buffers 3.0 MiB"));
    buf_free(&text);
}

static void test_memplan__a_host_without_room_for_the_snapshots_says_so(void **state)
{
    (void)state;
    struct model_config c;
    struct memory_plan m;
    struct err e = {0};
    struct memplan_request q = gpu_request(&c, 1000, 5);
    q.n_snapshots = 100000;
    assert_false(memplan_make(&m, &q, &e));
    assert_non_null(strstr(e.msg, "of the host's memory (snapshots"));
    assert_non_null(strstr(e.msg, "--snapshots "));
    int n;
    assert_int_equal(sscanf(strstr(e.msg, "--snapshots "), "--snapshots %d fits", &n), 1);
    q.n_snapshots = n;
    assert_true(memplan_make(&m, &q, &e));
}

static void test_memplan__the_option_that_makes_room_is_named(void **state)
{
    (void)state;
    struct model_config c;
    struct memory_plan m;
    struct err e = {0};
    struct memplan_request q = gpu_request(&c, 21, 100);
    q.max_rows = 100000;                /* 100 bytes each */
    assert_false(memplan_make(&m, &q, &e));
    assert_non_null(strstr(e.msg, "of GPU memory (weights"));
    assert_non_null(strstr(e.msg, "left free: --chunk 8192 fits"));
    q.max_rows = 64;
    q.weight_bytes = 14 * MIB;
    q.int8_weight_bytes = 12 * MIB;
    assert_false(memplan_make(&m, &q, &e));
    assert_non_null(strstr(e.msg, "left free: --head int8 fits"));
    q.weight_bytes = 12 * MIB;
    q.int8_weight_bytes = 0;
    q.n_ctx = 50000;                    /* 3 MiB */
    assert_false(memplan_make(&m, &q, &e));
    assert_non_null(strstr(e.msg, "--ctx "));
}

static void test_memplan__as_many_conversations_as_fit_with_the_same_context(void **state)
{
    (void)state;
    const struct { size_t available_mib; int asked, n, n_ctx; } rows[] = {
        {1000, 0, 8, 32768},            /* the most by default */
        {20,   0, 2, 32768},            /* and not a third one */
        {24,   0, 4, 32768},            /* a fifth one would take more than half of what two leave */
        {18,   0, 1, 32768},            /* 2 MiB for each KV cache: room for one and a half */
        {1000, 5, 5, 32768},
        {20,   2, 2, 32768},
        {1000, 1, 1, 32768},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_config c;
        struct memory_plan m;
        struct err e = {0};
        struct memplan_request q = request(&c, rows[i].available_mib);
        q.n_sequences = rows[i].asked;
        assert_true(memplan_make(&m, &q, &e));
        assert_int_equal(m.n_sequences, rows[i].n);
        assert_int_equal(m.n_ctx, rows[i].n_ctx);
        size_t sum = 0;
        for (int k = 0; k < m.n_lines; k++)
            sum += m.lines[k].bytes;
        assert_int_equal(sum, m.total);
        assert_true(m.total <= q.available - q.margin);
        struct buf text = {0};
        plan_say(&m, &text);
        assert_int_equal(strstr(text.data, "KV cache 2 x 2.0 MiB") != NULL, rows[i].n == 2);
        assert_int_equal(strstr(text.data, " at once: ") != NULL, !rows[i].asked);
        buf_free(&text);
    }
    struct model_config c;              /* fewer would fit */
    struct memory_plan m;
    struct err e = {0};
    struct memplan_request q = request(&c, 20);
    q.n_sequences = 4;
    q.n_ctx = 32768;
    assert_false(memplan_make(&m, &q, &e));
    assert_non_null(strstr(e.msg, "--conversations 2"));
}

/* In a long context compressed rows make steps cheaper, in which one depends on the memory; and where only they fit, they are taken. */
static void test_memplan__auto_takes_the_recipe_with_the_cheapest_steps(void **state)
{
    (void)state;
    const unsigned all = (1u << 6) - 1, exact = 3;
    const struct { bool gpu, discrete; int n_ctx; unsigned choices; size_t available_mib; const char *recipe, *why; } rows[] = {
        {true,  true,  32768, all,   1000, "bf16", "cheapest steps"},
        {true,  true,  98304, all,   1000, "tq4",  "H200"},
        {true,  false, 4096,  all,   1000, "bf16", "cheapest steps"},
        {true,  false, 98304, all,   1000, "tq4",  "273 GB/s"},
        {true,  true,  98304, exact, 1000, "bf16", "cheapest steps"},
        {false, false, 98304, all,   1000, "bf16", "cheapest steps"},
        {true,  true,  65536, all,   17,   "int8", "does not fit"},
        {true,  true,  98304, exact, 17,   "bf16", "cheapest steps"},         /* nothing fits: refused as without it */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_config c;
        struct memory_plan m;
        struct memplan_request q = request(&c, rows[i].available_mib);
        q.kv = kv_recipe_find("bf16", NULL);
        q.gpu = rows[i].gpu;
        q.discrete = rows[i].discrete;
        q.host_available = 1000 * MIB;
        q.n_ctx = rows[i].n_ctx;
        q.kv_choices = rows[i].choices;
        const char *why = memplan_choose_kv(&q);
        if (strcmp(q.kv->name, rows[i].recipe) || !strstr(why, rows[i].why))
            fail_msg("row %zu: %s: %s", i, q.kv->name, why);
        assert_int_equal(memplan_make(&m, &q, NULL), i < 7);
        assert_string_equal(m.kv, rows[i].recipe);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memplan__the_default_context_is_what_fits),
        cmocka_unit_test(test_memplan__memory_of_steps_and_spare_positions_count),
        cmocka_unit_test(test_memplan__the_models_context_is_the_most),
        cmocka_unit_test(test_memplan__a_context_that_does_not_fit_names_one_that_does),
        cmocka_unit_test(test_memplan__weights_that_do_not_fit_are_refused_with_both_numbers),
        cmocka_unit_test(test_memplan__weight_files_are_counted),
        cmocka_unit_test(test_memplan__a_gpu_and_its_host_are_counted_apart),
        cmocka_unit_test(test_memplan__a_plan_is_said_in_a_line_with_every_part),
        cmocka_unit_test(test_memplan__a_host_without_room_for_the_snapshots_says_so),
        cmocka_unit_test(test_memplan__as_many_conversations_as_fit_with_the_same_context),
        cmocka_unit_test(test_memplan__the_option_that_makes_room_is_named),
        cmocka_unit_test(test_memplan__auto_takes_the_recipe_with_the_cheapest_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
