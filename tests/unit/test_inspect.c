#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "backend/dev.h"
#include "prepare/inspect.h"
#include "tests/checkpoint.h"

static const char *inspect(const char *dir, struct buf *out)
{
    struct err e = {0};
    buf_reset(out);
    if (!inspect_run(dir, &(struct inspect_options){.bandwidth_gb_s = 273}, out, &e))
        fail_msg("%s", e.msg);
    return buf_str(out);
}

static void test_inspect__a_hybrid_is_described_by_part_and_format(void **state)
{
    (void)state;
    const char *lines[] = {
        "tensors  431 bound (41 of the MTP block, 0 of the vision tower), 1 skipped, 40 stale copies\n",
        "matrices 109 INT4, 12 FP8, 50 in 16 or 32 bits\n",
        "embedding                 -            -         0.13         0.13         0.00\n",
        "attention              0.27            -            -         0.27         0.27\n",
        "shared expert             -         0.20            -         0.20         0.20\n",
        "experts                0.82            -            -         0.82         0.41\n",
        "total                  1.29         0.20         2.30         3.79         1.24\n",
        "one token without drafting reads 1.24 MB of weights with the head as stored",
    };
    struct buf out = {0};
    const char *text = inspect("tests/data/model/g0/hybrid", &out);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i]))
            fail_msg("no \"%s\" in\n%s", lines[i], text);
    buf_free(&out);
}

static void test_inspect__a_vision_tower_is_a_part_that_no_token_reads(void **state)
{
    (void)state;
    struct buf out = {0};
    const char *text = inspect("tests/data/vision/v0", &out);
    const char *lines[] = {"tensors  100 bound (19 of the MTP block, 45 of the vision tower), 0 skipped, 0 stale copies\n",
                           "vision tower              -            -         0.62         0.62         0.00\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i]))
            fail_msg("no \"%s\" in\n%s", lines[i], text);
    buf_free(&out);
}

/* The published sum of what a token of the 122B model reads, from the shapes alone, and its ceiling: the files are sparse. */
static void test_inspect__the_int4_model_of_full_size_reads_6539_mb_a_token(void **state)
{
    (void)state;
    struct ck k;
    struct buf out = {0};
    struct model_config c = ck_122b();
    ck_model(&k, &c, CK_INT4, "model.language_model.", 14, CK_EXTRA);
    k.sparse = true;
    ck_write(&k, &c);
    const char *text = inspect(k.dir, &out);
    assert_non_null(strstr(text, "Qwen3.5-122B-A10B: 48 layers (12 attention, 36 DeltaNet)"));
    assert_non_null(strstr(text, "tensors  112568 bound (785 of the MTP block, 0 of the vision tower), 0 skipped, 0 stale copies\n"));
    assert_non_null(strstr(text, "one token without drafting reads 6539.39 MB"));
    assert_non_null(strstr(text, "at 273 GB/s that is at most 39.8 tokens a second, with an INT8 head 44.8\n"));
    buf_free(&out);
    ck_close(&k);
}

static void test_inspect__adds_up(void **state)
{
    (void)state;
    struct buf out = {0}, text = {0};
    struct err e = {0};
    assert_true(inspect_run("tests/data/model/g1/hybrid", &(struct inspect_options){.json = true, .bandwidth_gb_s = 273}, &out, &e));
    json_t *j = json_loads(buf_str(&out), 0, NULL), *token = json_object_get(j, "token"), *layer;
    assert_non_null(j);
    size_t i;
    json_int_t read = 0, bytes = 0;
    json_array_foreach(json_object_get(j, "layers"), i, layer) {
        static const char *const parts[] = {"mixer", "router", "shared", "experts"};
        for (int k = 0; k < 4; k++) {
            read += json_integer_value(json_object_get(json_object_get(layer, parts[k]), "token_bytes"));
            bytes += json_integer_value(json_object_get(json_object_get(layer, parts[k]), "bytes"));
        }
        assert_string_equal(json_string_value(json_object_get(json_object_get(layer, "shared"), "formats")), "FP8");
        assert_true(json_real_value(json_object_get(json_object_get(layer, "fp8_scales"), "min")) > 0);
    }
    assert_int_equal(i, 4);
    json_int_t weights = json_integer_value(json_object_get(token, "weight_bytes")),
        states = json_integer_value(json_object_get(token, "state_bytes"));
    assert_true(weights > read + 1024 * 256 * 2 && weights < read + 1024 * 256 * 2 + 60000);       /* the head and the vectors */
    assert_true(bytes > read);
    double ceiling = json_real_value(json_object_get(token, "ceiling_tok_s"));
    assert_true(ceiling * (double)(weights + states) > 272.9e9 && ceiling * (double)(weights + states) < 273.1e9);
    assert_true(json_array_size(json_object_get(j, "memory")) >= 6);
    json_decref(j);
    assert_true(inspect_run("tests/data/model/g1/hybrid", &(struct inspect_options){0}, &text, &e));
    assert_non_null(strstr(buf_str(&text), "MTP block"));
    assert_false(inspect_run("tests/data", &(struct inspect_options){0}, &text, &e));
    assert_non_null(strstr(e.msg, "config.json"));
    buf_free(&out);
    buf_free(&text);
}

/* By the device that would run the model. */
static void test_inspect__measures_how_fast_memory_is_read(void **state)
{
    (void)state;
    const char *reader = strcmp(dev_backend(NULL, NULL), "cpu") ? "GPU" : "CPU";
    struct buf out = {0}, says = {0};
    struct err e = {0};
    buf_addf(&says, "(measured: the %s of this machine; --bandwidth overrides it)", reader);
    assert_true(inspect_run("tests/data/model/g1/hybrid", &(struct inspect_options){0}, &out, &e));
    assert_non_null(strstr(buf_str(&out), buf_str(&says)));
    buf_reset(&out);
    assert_true(inspect_run("tests/data/model/g1/hybrid", &(struct inspect_options){.json = true}, &out, &e));
    json_t *j = json_loads(buf_str(&out), 0, NULL), *token = json_object_get(j, "token");
    double gb_s = json_real_value(json_object_get(token, "gb_s"));
    assert_true(gb_s > 0 && gb_s < 1e5);
    assert_string_equal(json_string_value(json_object_get(token, "measured_by")), reader);
    json_decref(j);
    buf_reset(&out);
    inspect("tests/data/model/g1/hybrid", &out);
    assert_null(strstr(buf_str(&out), "reads memory here"));
    buf_free(&out);
    buf_free(&says);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inspect__a_hybrid_is_described_by_part_and_format),
        cmocka_unit_test(test_inspect__a_vision_tower_is_a_part_that_no_token_reads),
        cmocka_unit_test(test_inspect__the_int4_model_of_full_size_reads_6539_mb_a_token),
        cmocka_unit_test(test_inspect__adds_up),
        cmocka_unit_test(test_inspect__measures_how_fast_memory_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
