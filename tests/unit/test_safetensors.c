#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "model/safetensors.h"
#include "tests/checkpoint.h"
#include "tests/emulated.h"

#define ENTRY(name, dtype, shape, range) "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" range "}"

static void test_safetensors__a_header_gives_names_shapes_and_places(void **state)
{
    (void)state;
    const char json[] = " { \"__metadata__\" : {\"a\": \"x \\\" \\u00e9\", \"b\":\"\"} ,\n"
                        ENTRY("m.w", "BF16", "[2, 3]", "[4, 16]") ","
                        "\"scalar\": {\"data_offsets\": [0,4], \"shape\": [], \"dtype\": \"F32\"},"
                        ENTRY("empty", "F8_E4M3", "[0,18446744073709551615]", "[16,16]") "," ENTRY("b", "BOOL", "[1,1,1,1,2]", "[18,20]") "}  ";
    struct safetensors s;
    struct err e = {0};
    if (!safetensors_parse(&s, json, sizeof json - 1, 20, "x.safetensors", &e))
        fail_msg("%s", e.msg);
    assert_int_equal(s.n_tensors, 4);
    const struct tensor *t = safetensors_find(&s, "m.w");
    assert_non_null(t);
    assert_int_equal(t->dtype, DT_BF16);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(t->offset, 8 + sizeof json - 1 + 4);
    assert_int_equal(t->bytes, 12);
    assert_int_equal(safetensors_find(&s, "scalar")->n_dims, 0);
    assert_int_equal(safetensors_find(&s, "scalar")->bytes, 4);
    assert_int_equal(safetensors_find(&s, "b")->n_dims, 5);
    assert_null(safetensors_find(&s, "m.x"));
    assert_null(safetensors_find(&s, "__metadata__"));
    safetensors_close(&s);
    assert_true(safetensors_parse(&s, "{}", 2, 0, "x", &e));
    assert_null(safetensors_find(&s, "a"));
    safetensors_close(&s);
}

static void test_safetensors__a_hostile_header_gets_one_sentence(void **state)
{
    (void)state;
    const struct { const char *json, *message; } rows[] = {
        {"", "byte 0 of the header: expected {"},
        {"[]", "byte 0 of the header: expected {"},
        {"null", "expected {"},
        {"{", "expected a string"},
        {"{}x", "byte 2 of the header: expected nothing after the last }"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4]"), "expected }"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4]") ",}", "expected a string"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("a", "F32", "[1]", "[4,8]") "}", "tensor a is there twice"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("b", "F32", "[1]", "[3,7]") "}", "tensors a and b overlap"},
        {"{" ENTRY("a", "F32", "[2]", "[0,8]") "," ENTRY("b", "F32", "[1]", "[0,4]") "}", "tensors b and a overlap"},
        {"{" ENTRY("a", "F32", "[1]", "[4,0]") "}", "tensor a lies at bytes 4 to 0, but the file holds 16 bytes"},
        {"{" ENTRY("a", "F32", "[5]", "[0,20]") "}", "tensor a lies at bytes 0 to 20, but the file holds 16 bytes"},
        {"{" ENTRY("a", "F32", "[1]", "[18446744073709551612,18446744073709551615]") "}", "tensor a lies at bytes"},
        {"{" ENTRY("a", "F32", "[2]", "[0,4]") "}", "tensor a has 4 bytes, but its dtype and shape need 8"},
        {"{" ENTRY("a", "F32", "[4294967296,4294967296]", "[0,4]") "}", "tensor a has a shape of more than 2^64 bytes"},
        {"{" ENTRY("a", "F32", "[4611686018427387905]", "[0,4]") "}", "tensor a has a shape of more than 2^64 bytes"},
        {"{" ENTRY("a", "F32", "[18446744073709551616]", "[0,4]") "}", "expected a number below 2^64"},
        {"{" ENTRY("a", "F32", "[-1]", "[0,4]") "}", "expected a whole number"},
        {"{" ENTRY("a", "F32", "[1.0]", "[0,4]") "}", "expected ]"},
        {"{" ENTRY("a", "F32", "[1e1]", "[0,4]") "}", "expected ]"},
        {"{" ENTRY("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", "expected at most 8 dimensions"},
        {"{" ENTRY("a", "F32", "[[1]]", "[0,4]") "}", "expected a whole number"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4,8]") "}", "expected two numbers"},
        {"{" ENTRY("a", "F32", "[1]", "[0]") "}", "tensor a lacks dtype, shape or two data_offsets"},
        {"{" ENTRY("a", "F32", "[1]", "[]") "}", "tensor a lacks dtype, shape or two data_offsets"},
        {"{" ENTRY("a", "F31", "[1]", "[0,4]") "}", "tensor a has the unknown dtype \"F31\""},
        {"{" ENTRY("a", "", "[1]", "[0,4]") "}", "tensor a has the unknown dtype \"\""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "tensor a lacks"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", "tensor a has a second field \"dtype\""},
        {"{\"a\":{\"strides\":[1]}}", "tensor a has an unknown field \"strides\""},
        {"{\"a\":{}}", "expected a string"},
        {"{\"a\":4}", "expected {"},
        {"{\"a\":{\"dtype\":32}}", "expected a string"},
        {"{\"a\\u0062\":{}}", "expected a name of printable ASCII characters without escapes"},
        {"{\"a\nb\":{}}", "expected a name of printable ASCII"},
        {"{\"\xc3\xa9\":{}}", "expected a name of printable ASCII"},
        {"{\"abc", "expected the end of a string"},
        {"{\"__metadata__\":[]}", "expected {"},
        {"{\"__metadata__\":{\"a\":1}}", "expected a string"},
        {"{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}", "expected a string"},
        {"{\"__metadata__\":{\"a\":\"b\\", "expected the end of a string"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct safetensors s;
        struct err e = {0};
        if (safetensors_parse(&s, rows[i].json, strlen(rows[i].json), 16, "x.safetensors", &e))
            fail_msg("accepted: %s", rows[i].json);
        if (strncmp(e.msg, "x.safetensors: ", 15) || !strstr(e.msg, rows[i].message))
            fail_msg("%s\n  gives:    %s\n  expected: %s", rows[i].json, e.msg, rows[i].message);
        safetensors_close(&s);
    }
}

static void test_safetensors__a_zero_byte_in_the_header_is_refused(void **state)
{
    (void)state;
    const char json[] = "{\"a\0b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    for (size_t at = 0; at < sizeof json - 1; at++) {
        char text[sizeof json];
        struct safetensors s;
        struct err e = {0};
        memcpy(text, json, sizeof json);
        text[3] = '_';
        text[at] = 0;
        assert_false(safetensors_parse(&s, text, sizeof json - 1, 4, "x", &e));
        safetensors_close(&s);
    }
}

static void test_safetensors__tensors_may_lie_in_any_order(void **state)
{
    (void)state;
    const char json[] = "{" ENTRY("z", "F32", "[1]", "[12,16]") "," ENTRY("a", "F32", "[2]", "[0,8]") "," ENTRY("m", "F32", "[0]", "[4,4]") "}";
    struct safetensors s;
    struct err e = {0};
    /* an empty tensor inside another one overlaps nothing, but no writer makes it: refused like any overlap */
    assert_false(safetensors_parse(&s, json, sizeof json - 1, 16, "x", &e));
    safetensors_close(&s);
    const char good[] = "{" ENTRY("z", "F32", "[1]", "[12,16]") "," ENTRY("a", "F32", "[2]", "[0,8]") "," ENTRY("m", "F32", "[0]", "[8,8]") "}";
    assert_true(safetensors_parse(&s, good, sizeof good - 1, 16, "x", &e));
    safetensors_close(&s);
}

/* A file of `len` bytes that starts with `header_len` and then `json`. */
static void write_raw(const char *path, uint64_t header_len, const char *json, size_t len)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(&header_len, 1, len < 8 ? len : 8, f);
    if (len > 8)
        fwrite(json, 1, strlen(json) < len - 8 ? strlen(json) : len - 8, f);
    fflush(f);
    assert_int_equal(ftruncate(fileno(f), (off_t)len), 0);
    fclose(f);
}

static void test_safetensors__a_file_too_short_for_its_header_is_refused(void **state)
{
    (void)state;
    char path[] = "/tmp/q35chat-test-XXXXXX";
    int fd = mkstemp(path);
    close(fd);
    const char json[] = "{" ENTRY("a", "F32", "[4]", "[0,16]") "}";
    size_t whole = 8 + sizeof json - 1 + 16;
    struct safetensors s;
    for (size_t len = 0; len <= whole; len++) {
        struct err e = {0};
        write_raw(path, sizeof json - 1, json, len);
        bool ok = safetensors_open(&s, path, &e);
        assert_int_equal(ok, len == whole);
        if (!ok)
            assert_non_null(strstr(e.msg, path));
        safetensors_close(&s);
    }
    const struct { uint64_t len; const char *message; } rows[] = {
        {UINT64_MAX, "the header is said to have 18446744073709551615 bytes, expected at most"},
        {UINT64_MAX - 7, "the header is said to have"},
        {100000001, "the header is said to have 100000001 bytes, expected at most"},
        {whole, "the header is said to have"},
        {0, "expected {"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err e = {0};
        write_raw(path, rows[i].len, json, whole);
        assert_false(safetensors_open(&s, path, &e));
        if (!strstr(e.msg, rows[i].message))
            fail_msg("%s", e.msg);
        safetensors_close(&s);
    }
    unlink(path);
}

static void test_safetensors__what_is_no_regular_file_is_refused(void **state)
{
    (void)state;
    const struct { const char *path, *message; } rows[] = {
        {"/nonexistent/x.safetensors", "cannot open /nonexistent/x.safetensors: No such file"},
        {"tests", "tests is not a regular file"},
        {"/dev/zero", "/dev/zero is not a regular file"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct safetensors s;
        struct err e = {0};
        assert_false(safetensors_open(&s, rows[i].path, &e));
        if (!strstr(e.msg, rows[i].message))
            fail_msg("%s", e.msg);
        safetensors_close(&s);
    }
}

static void test_safetensors__a_file_that_shrinks_is_reported_when_read(void **state)
{
    (void)state;
    char path[] = "/tmp/q35chat-test-XXXXXX";
    close(mkstemp(path));
    const char json[] = "{" ENTRY("a", "U8", "[1000000]", "[0,1000000]") "}";
    struct safetensors s;
    struct err e = {0};
    write_raw(path, sizeof json - 1, json, 8 + sizeof json - 1 + 1000000);
    assert_true(safetensors_open(&s, path, &e));
    const struct tensor *t = safetensors_find(&s, "a");
    uint8_t *copy = malloc(t->bytes);
    assert_true(safetensors_read(&s, t, copy, &e));
    assert_memory_equal(copy, safetensors_data(&s, t), t->bytes);
    assert_true(safetensors_populate(&s, t->offset, t->bytes, &e));
    assert_int_equal(truncate(path, 5000), 0);
    assert_false(safetensors_read(&s, t, copy, &e));
    assert_non_null(strstr(e.msg, "has shrunk: it had 1000"));
    e.msg[0] = 0;
    if (!emulated()) {                  /* any madvise succeeds under qemu */
        assert_false(safetensors_populate(&s, t->offset, t->bytes, &e));
        assert_non_null(strstr(e.msg, "has shrunk"));
    }
    free(copy);
    safetensors_close(&s);
    unlink(path);
}

static void test_safetensors__expected_values_of_a_golden_checkpoint_are_found(void **state)
{
    (void)state;
    struct safetensors s;
    struct err e = {0};
    if (!safetensors_open(&s, "tests/data/model/g0/bf16/expected.safetensors", &e))
        fail_msg("%s", e.msg);
    const struct tensor *ids = safetensors_find(&s, "prompt0.ids"), *logits = safetensors_find(&s, "prompt0.logits");
    assert_non_null(ids);
    assert_non_null(logits);
    assert_int_equal(logits->n_dims, 2);
    assert_int_equal(logits->shape[0], ids->shape[0]);
    assert_int_equal(logits->shape[1], 512);
    assert_string_equal(dtype_name(logits->dtype), "F32");
    assert_int_equal(logits->bytes, logits->shape[0] * 512 * dtype_bytes(DT_F32));
    safetensors_close(&s);
    safetensors_close(&s);              /* closing twice is fine */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors__a_header_gives_names_shapes_and_places),
        cmocka_unit_test(test_safetensors__a_hostile_header_gets_one_sentence),
        cmocka_unit_test(test_safetensors__a_zero_byte_in_the_header_is_refused),
        cmocka_unit_test(test_safetensors__tensors_may_lie_in_any_order),
        cmocka_unit_test(test_safetensors__a_file_too_short_for_its_header_is_refused),
        cmocka_unit_test(test_safetensors__what_is_no_regular_file_is_refused),
        cmocka_unit_test(test_safetensors__a_file_that_shrinks_is_reported_when_read),
        cmocka_unit_test(test_safetensors__expected_values_of_a_golden_checkpoint_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
