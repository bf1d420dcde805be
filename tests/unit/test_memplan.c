#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>

#include "engine/memplan.h"
#include "fake_model.h"                 /* KV: 64 bytes a position */

static const size_t MIB = 1 << 20;

static struct memplan_request request(struct model_config *c, size_t available_mib)
{
    struct err e;
    config_load(c, "fake", &e);
    return (struct memplan_request){
        .model = c, .kv = kv_recipe_find("f32", NULL), .weight_bytes = 10 * MIB, .int8_head = true, .default_ctx = 32768,
        .max_rows = 256, .max_step = 3, .n_snapshots = 8, .available = available_mib * MIB, .margin = 5 * MIB,
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
        struct memplan m;
        struct err e = {0};
        struct memplan_request q = request(&c, rows[i].available_mib);
        assert_true(memplan_make(&m, &q, &e));
        assert_in_range(m.n_ctx, rows[i].low, rows[i].high);
        assert_true(m.total <= q.available - q.margin);
        size_t sum = 0;
        for (int k = 0; k < m.n_lines; k++)
            sum += m.lines[k].bytes;
        assert_int_equal(sum, m.total);
    }
}

static void test_memplan__staged_rows_of_a_step_count(void **state)
{
    (void)state;
    struct model_config c;
    struct memplan one, six;
    struct err e = {0};
    struct memplan_request q = request(&c, 1000);
    q.max_step = 1;
    assert_true(memplan_make(&one, &q, &e));
    q.max_step = 6;
    assert_true(memplan_make(&six, &q, &e));
    size_t logits = 5 * (size_t)c.vocab * sizeof(float), hidden = 5 * (size_t)c.hidden * sizeof(float);
    assert_int_equal(six.total - one.total, logits + hidden + cache_stage_bytes(&c, 5));
}

static void test_memplan__the_models_context_is_the_most(void **state)
{
    (void)state;
    struct model_config c;
    struct memplan m;
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
    struct memplan m;
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
    struct memplan m;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memplan__the_default_context_is_what_fits),
        cmocka_unit_test(test_memplan__staged_rows_of_a_step_count),
        cmocka_unit_test(test_memplan__the_models_context_is_the_most),
        cmocka_unit_test(test_memplan__a_context_that_does_not_fit_names_one_that_does),
        cmocka_unit_test(test_memplan__weights_that_do_not_fit_are_refused_with_both_numbers),
        cmocka_unit_test(test_memplan__weight_files_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
