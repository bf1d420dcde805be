/* tests/bench/kv.c: bytes, errors that theory gives, planted keys, next tokens of a text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "tests/bench/measure.h"
#include "tests/emulated.h"
#include "tests/tmpdir.h"

static json_t *report;

static double cell(size_t table, const char *recipe, const char *key)
{
    const json_t *rows = json_object_get(json_array_get(json_object_get(report, "tables"), table), "rows"), *row;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)rows, i, row)
        if (!strcmp(json_string_value(json_object_get(row, "recipe")), recipe))
            return json_number_value(json_object_get(row, key));
    fail_msg("table %zu has no recipe '%s'", table, recipe);
    return NAN;
}

static int measure(void **state)
{
    (void)state;
    struct tmpdir dir;
    struct buf text = {0}, in = {0}, out = {0};
    if (!tmpdir_make(&dir))
        return 1;
    buf_addf(&in, "%s/text", dir.path);
    buf_addf(&out, "%s/report.json", dir.path);
    for (int i = 0; i < 40; i++)
        buf_addf(&text, "<|im_start|>user\nWhat is %d plus %d?<|im_end|>\n<|im_start|>assistant\n%d + %d = %d.<|im_end|>\n", i, 3 * i, i, 3 * i,
                 4 * i);
    assert_true(tmpdir_put(&dir, "text", buf_str(&text), text.len));
    assert_int_equal(measure_kv(&(struct measure_options){.b = {.model_dir = "assets/demo", .backend = "cpu", .n_threads = 1, .n_ctx = 1100,
                                                               .out_file = buf_str(&out), .json = true, .arguments = "kv"},
                                                         .text_file = buf_str(&in)}), 0);
    report = json_load_file(buf_str(&out), 0, NULL);
    buf_free(&text), buf_free(&in), buf_free(&out);
    tmpdir_drop(&dir, "text");
    tmpdir_drop(&dir, "report.json");
    tmpdir_remove(&dir);
    return !report;
}

static int forget(void **state)
{
    (void)state;
    json_decref(report);
    return 0;
}

static void test_bench_kv__bytes_are_those_of_the_large_model(void **state)
{
    (void)state;
    assert_int_equal(cell(0, "bf16", "bytes_122b"), 24576);
    assert_int_equal(cell(0, "tq4", "bytes_122b"), 6240);
    assert_true(fabs(cell(0, "tq4", "bits") - 4.0625) < 1e-9);
}

/* Values alone in 4 bits: the square root of 0.0093, whatever the data.  Keys add 0.097 times the deviation of the logits. */
static void test_bench_kv__errors_are_those_of_theory(void **state)
{
    (void)state;
    static const char *const kinds[] = {"gauss", "heavy", "outliers"};
    for (int i = 0; i < 3; i++) {
        assert_true(cell(1, "f32", kinds[i]) == 0);
        assert_true(cell(1, "bf16", kinds[i]) < 0.02);
        assert_true(cell(1, "int8", kinds[i]) < 0.03);
        assert_true(cell(1, "k8v4", kinds[i]) > 0.085 && cell(1, "k8v4", kinds[i]) < 0.110);
        assert_true(cell(1, "tq4", kinds[i]) > 0.100 && cell(1, "tq4", kinds[i]) < 0.240);
        assert_true(cell(1, "k4v3", kinds[i]) > cell(1, "tq4", kinds[i]) && cell(1, "k4v3", kinds[i]) < 0.320);
    }
}

static void test_bench_kv__planted_keys_are_found_as_with_exact_rows(void **state)
{
    (void)state;
    static const char *const lengths[] = {"1k", "4k", "8k"}, *const recipes[] = {"bf16", "int8", "k8v4", "tq4", "k4v3"};
    for (int i = 0; i < 3; i++)
        for (int r = 0; r < 5; r++)
            if (cell(2, recipes[r], lengths[i]) < cell(2, "f32", lengths[i]) || cell(2, "f32", lengths[i]) < 95)
                fail_msg("%s at %s: %g %%, exact %g", recipes[r], lengths[i], cell(2, recipes[r], lengths[i]), cell(2, "f32", lengths[i]));
}

static void test_bench_kv__next_tokens_stay_close(void **state)
{
    (void)state;
    assert_true(cell(3, "tq4", "tokens") > 500);
    assert_true(cell(3, "f32", "kl") == 0);
    assert_true(cell(3, "int8", "kl") > 0 && cell(3, "int8", "kl") < 1e-3);
    assert_true(cell(3, "tq4", "kl") > cell(3, "int8", "kl") && cell(3, "tq4", "kl") < 2e-3);
}

/* The demo model makes these calls within the lengths that it was trained on, with codes as with exact rows. */
static void test_bench_kv__tools_are_called_behind_a_text(void **state)
{
    (void)state;
    static const char *const recipes[] = {"bf16", "int8", "k8v4", "tq4"};
    assert_true(cell(4, "f32", "calls_512") >= 3 && cell(4, "f32", "same_512") == 4);
    for (int i = 0; i < 4; i++)
        assert_true(cell(4, recipes[i], "calls_512") >= cell(4, "f32", "calls_512"));
}

int main(void)
{
    if (SANITIZED)                      /* minutes; tests/kernels/test_kv runs the same operations */
        return 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bench_kv__bytes_are_those_of_the_large_model),
        cmocka_unit_test(test_bench_kv__errors_are_those_of_theory),
        cmocka_unit_test(test_bench_kv__planted_keys_are_found_as_with_exact_rows),
        cmocka_unit_test(test_bench_kv__next_tokens_stay_close),
        cmocka_unit_test(test_bench_kv__tools_are_called_behind_a_text),
    };
    return cmocka_run_group_tests_name("kv", tests, measure, forget);
}
