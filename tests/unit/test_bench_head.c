/* tests/bench/head.c: its counts are in the report, and no id is missed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <jansson.h>
#include <string.h>

#include "base/buf.h"
#include "tests/bench/measure.h"
#include "tests/tmpdir.h"

static double number(const json_t *row, const char *key) { return json_number_value(json_object_get(row, key)); }

static void test_bench_head__counts_positions_misses_and_completed_ids(void **state)
{
    (void)state;
    struct tmpdir dir;
    struct buf text = {0}, in = {0}, out = {0};
    assert_true(tmpdir_make(&dir));
    buf_addf(&in, "%s/text", dir.path);
    buf_addf(&out, "%s/report.json", dir.path);
    for (int i = 0; i < 12; i++)
        buf_addf(&text, "<|im_start|>user\nWhat is %d plus %d?<|im_end|>\n", i, 3 * i);
    assert_true(tmpdir_put(&dir, "text", buf_str(&text), text.len));
    assert_int_equal(measure_head(&(struct measure_options){.b = {.model_dir = "assets/demo", .backend = "cpu", .n_threads = 1, .n_ctx = 90,
                                                                 .out_file = buf_str(&out), .json = true, .arguments = "head"},
                                                           .n_positions = 40, .text_file = buf_str(&in)}), 0);
    json_t *report = json_load_file(buf_str(&out), 0, NULL), *row;
    const json_t *rows = json_object_get(json_array_get(json_object_get(report, "tables"), 0), "rows");
    double of_model = 0, of_normal = 0;
    size_t i;
    assert_int_equal(json_array_size(rows), 3 * 8);
    json_array_foreach((json_t *)(uintptr_t)rows, i, row) {
        assert_true(number(row, "missed") == 0);
        assert_true(number(row, "ids") >= number(row, "wanted") && number(row, "most") <= number(row, "rows"));
        of_normal += strcmp(json_string_value(json_object_get(row, "numbers")), "normal") ? 0 : number(row, "positions");
        of_model += i >= 3 * 7 ? number(row, "positions") : 0;
    }
    assert_true(of_normal == 40 && of_model == 90);
    row = json_array_get(rows, 0);
    assert_true(number(row, "rms") > 0.8 && number(row, "rms") < 1.2 && number(row, "worst") > number(row, "rms"));
    json_decref(report);
    buf_free(&text), buf_free(&in), buf_free(&out);
    tmpdir_drop(&dir, "text");
    tmpdir_drop(&dir, "report.json");
    tmpdir_remove(&dir);
}

static void test_bench_text__errors_name_the_file(void **state)
{
    static const struct { const char *path, *says; } rows[] = {
        {"/nonexistent", "cannot open /nonexistent: No such file or directory"}, {"/tmp", "/tmp is a directory, expected a file"},
        {"/dev/zero", "/dev/zero is larger than the 268435456 bytes that such a file may have"},
        {"LICENSE", "LICENSE has "},
    };
    struct model m = {.dir = "assets/demo"};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ids ids = {0};
        struct err e = {0};
        assert_false(text_ids(&m, rows[i].path, 1 << 30, 1 << 30, &ids, &e));
        assert_ptr_equal(strstr(e.msg, rows[i].says), e.msg);
        ids_free(&ids);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bench_head__counts_positions_misses_and_completed_ids),
        cmocka_unit_test(test_bench_text__errors_name_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
