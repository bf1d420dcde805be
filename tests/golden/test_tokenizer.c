/* tests/data/golden/tokenizer.jsonl, made by other people's tokenizers, over the model's own vocabulary. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/unicode.h"
#include "base/file.h"
#include "debug/debug.h"
#include "tests/golden/fixture.h"
#include "text/tokenizer.h"

#define GOLDEN "tests/data/golden/tokenizer.jsonl"

/* Calls fn for each line of that kind; returns how many there were. */
static int each(const char *kind, void (*fn)(const json_t *o))
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int count = 0;
    FILE *f = fopen(GOLDEN, "r");
    assert_non_null(f);
    while ((n = getline(&line, &cap, f)) > 0) {
        json_t *o = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL);
        assert_non_null(o);
        if (!strcmp(json_string_value(json_object_get(o, "kind")), kind)) {
            fn(o);
            count++;
        }
        json_decref(o);
    }
    free(line);
    fclose(f);
    return count;
}

static void fail_line(const json_t *o, const char *what)
{
    fail_msg("line %s: %s", json_string_value(json_object_get(o, "id")), what);
}

static void expect_ids(const json_t *o, const char *key, const char *s, size_t n, bool specials)
{
    const json_t *want = json_object_get(o, key);
    struct ids ids = {0};
    tokenizer_encode(t, s, n, specials, &ids);
    bool same = (size_t)ids.n == json_array_size(want);
    for (int i = 0; same && i < ids.n; i++)
        same = ids.data[i] == json_integer_value(json_array_get(want, (size_t)i));
    ids_free(&ids);
    if (!same)
        fail_line(o, key);
}

static void decode(const json_t *list, bool skip_special, struct buf *out)
{
    struct detok d = {0};
    size_t i;
    json_t *id;
    json_array_foreach(list, i, id)
        detok_push(&d, t, (int32_t)json_integer_value(id), skip_special, out);
    detok_flush(&d, out);
}

static void expect_text(const json_t *o, const json_t *want, const json_t *ids, bool skip_special, const char *what)
{
    struct buf b = {0};
    decode(ids, skip_special, &b);
    if (b.len != json_string_length(want) || memcmp(buf_str(&b), json_string_value(want), b.len))
        fail_line(o, what);
    buf_free(&b);
}

static void unhex(const char *hex, struct buf *out)
{
    for (unsigned byte; *hex && sscanf(hex, "%2x", &byte) == 1; hex += 2)
        buf_addc(out, (char)byte);
}

static void check_encode(const json_t *o)
{
    const json_t *text = json_object_get(o, "text"), *ids = json_object_get(o, "ids");
    const char *s = json_string_value(text), *hex = json_string_value(json_object_get(o, "bytes"));
    size_t n = json_string_length(text);
    expect_ids(o, "ids", s, n, true);
    expect_ids(o, json_object_get(o, "ids_plain") ? "ids_plain" : "ids", s, n, false);
    if (hex) {
        struct buf raw = {0};
        unhex(hex, &raw);
        expect_ids(o, "ids", raw.data, raw.len, true);
        expect_ids(o, "ids", raw.data, raw.len, false);
        buf_free(&raw);
    }
    const json_t *decoded = json_object_get(o, "decoded"), *visible = json_object_get(o, "decoded_skip_special");
    decoded = decoded ? decoded : text;
    expect_text(o, decoded, ids, false, "decoded");
    expect_text(o, visible ? visible : decoded, ids, true, "decoded_skip_special");
}

static void check_decode(const json_t *o)
{
    const json_t *ids = json_object_get(o, "ids");
    expect_text(o, json_object_get(o, "text"), ids, false, "text");
    expect_text(o, json_object_get(o, "text_skip_special"), ids, true, "text_skip_special");
}

/* Nothing that Hugging Face shows comes later here, every state is well-formed, and the whole is `text`. */
static void check_stream(const json_t *o)
{
    const json_t *ids = json_object_get(o, "ids"), *pieces = json_object_get(o, "pieces"), *text = json_object_get(o, "text");
    const json_t *bytes = json_object_get(o, "token_bytes");
    struct buf ours = {0}, theirs = {0};
    struct detok d = {0};
    for (size_t i = 0; i < json_array_size(ids); i++) {
        int32_t id = (int32_t)json_integer_value(json_array_get(ids, i));
        struct buf raw = {0};
        size_t n;
        const char *s = tokenizer_bytes(t, id, &n);
        unhex(json_string_value(json_array_get(bytes, i)), &raw);
        if (n != raw.len || memcmp(s, raw.data, n))
            fail_line(o, "token_bytes");
        buf_free(&raw);
        detok_push(&d, t, id, false, &ours);
        const json_t *piece = json_array_get(pieces, i);
        buf_add(&theirs, json_string_value(piece), json_string_length(piece));
        if (!unicode_valid(buf_str(&ours), ours.len) || ours.len < theirs.len ||
            memcmp(buf_str(&ours), buf_str(&theirs), theirs.len))
            fail_line(o, "pieces");
    }
    buf_free(&ours);
    buf_free(&theirs);
    expect_text(o, text, ids, false, "text");
}

static void test_golden_tokenizer__texts_become_the_ids_that_others_give(void **state)
{
    (void)state;
    assert_true(each("encode", check_encode) > 600);
}

static void test_golden_tokenizer__ids_become_the_text_that_others_give(void **state)
{
    (void)state;
    assert_true(each("decode", check_decode) > 100);
}

static void test_golden_tokenizer__streams_show_no_less_than_others_and_nothing_else(void **state)
{
    (void)state;
    assert_true(each("stream", check_stream) > 50);
}

static void test_golden_tokenizer__the_vocabulary_is_whole(void **state)
{
    (void)state;
    assert_int_equal(tokenizer_n_ids(t), 248077);
    assert_int_equal(tokenizer_special(t, "<|im_end|>"), 248046);
    assert_int_equal(tokenizer_special(t, "</think>"), 248069);
    assert_int_equal(tokenizer_special(t, "<|audio_pad|>"), 248076);
    assert_null(tokenizer_notice(t));
    for (int32_t id = 0; id < 248077; id++) {
        size_t n;
        assert_non_null(tokenizer_bytes(t, id, &n));
        assert_true(n > 0);
        assert_int_equal(tokenizer_is_added(t, id), id >= 248044);
    }
}

/* Runs debug_tokenize over `in`; returns its status and its answer in *out (malloc). */
static int run_debug(const char *in, size_t n, char **out)
{
    size_t len;
    FILE *i = fmemopen((void *)(uintptr_t)in, n, "r"), *o = open_memstream(out, &len);
    assert_true(i && o);
    int status = debug_tokenize(&(struct debug_options){.model_dir = dir}, i, o);
    fclose(i);
    fclose(o);
    return status;
}

static void test_debug_tokenize__takes_golden_lines_as_they_are(void **state)
{
    (void)state;
    struct buf golden = {0};
    char *out;
    assert_true(file_read(&golden, GOLDEN, 1 << 24, NULL));
    assert_int_equal(run_debug(golden.data, golden.len, &out), 0);
    const char *q = golden.data, *a = out;
    for (; *q; q = strchr(q, '\n') + 1, a = strchr(a, '\n') + 1) {
        json_t *o = json_loadb(q, (size_t)(strchr(q, '\n') - q), JSON_ALLOW_NUL, NULL);
        json_t *got = json_loadb(a, (size_t)(strchr(a, '\n') - a), JSON_ALLOW_NUL, NULL);
        assert_true(o && got);
        bool encode = !strcmp(json_string_value(json_object_get(o, "kind")), "encode");
        static const char *const keys[2][2] = { { "text", "text_skip_special" }, { "ids", "ids_plain" } };
        for (int k = 0; k < 2; k++) {
            const json_t *want = json_object_get(o, keys[encode][k]);
            if (want && !json_equal(want, json_object_get(got, keys[encode][k])))
                fail_line(o, keys[encode][k]);
        }
        assert_int_equal(json_object_size(got), encode ? 2 : 3);
        json_decref(o);
        json_decref(got);
    }
    assert_int_equal(*a, 0);
    free(out);
    buf_free(&golden);
}

static void test_debug_tokenize__answers_each_line_and_reports_bad_ones_at_the_end(void **state)
{
    (void)state;
    static const struct { const char *in, *out; int status; } rows[] = {
        { "{\"text\": \"Hello\"}\n", "{\"ids\": [9419], \"ids_plain\": [9419]}\n", 0 },
        { "{\"text\": \"\"}\n", "{\"ids\": [], \"ids_plain\": []}\n", 0 },
        { "{\"text\": \"<think>\", \"x\": {}}", "{\"ids\": [248068], \"ids_plain\": [13314, 741, 29]}\n", 0 },
        { "{\"ids\": [9419, 248046, 172, 300000]}\n",
          "{\"text\": \"Hello<|im_end|>\xEF\xBF\xBD\", \"text_skip_special\": \"Hello\xEF\xBF\xBD\", "
          "\"pieces\": [\"Hello\", \"<|im_end|>\", \"\", \"\", \"\xEF\xBF\xBD\"]}\n", 0 },
        { "{\"ids\": [0], \"text\": \"a\"}\n", "{\"ids\": [64], \"ids_plain\": [64], \"text_skip_special\": \"!\", "
          "\"pieces\": [\"!\", \"\"]}\n", 0 },
        { "{\"text\": \"\\u0000\"}\n", "{\"ids\": [188], \"ids_plain\": [188]}\n", 0 },
        { "{\"ids\": [188]}\n", "{\"text\": \"\\u0000\", \"text_skip_special\": \"\\u0000\", \"pieces\": [\"\\u0000\", \"\"]}\n", 0 },
        { "{\"ids\": [1.5]}\n{\"text\": \"a\"}\n",
          "{\"error\": \"entry 0 of \\\"ids\\\" is not an integer\"}\n{\"ids\": [64], \"ids_plain\": [64]}\n", 1 },
        { "{\"text\": 1}\n", "{\"error\": \"expected {\\\"text\\\": string} or {\\\"ids\\\": [integers]}\"}\n", 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *out;
        assert_int_equal(run_debug(rows[i].in, strlen(rows[i].in), &out), rows[i].status);
        assert_string_equal(out, rows[i].out);
        free(out);
    }
    char *out;
    assert_int_equal(run_debug("\n{\n", 3, &out), 1);
    assert_int_equal(strncmp(out, "{\"error\": \"", 11), 0);
    assert_non_null(strstr(out, "\"}\n{\"error\": \""));
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_tokenizer__texts_become_the_ids_that_others_give),
        cmocka_unit_test(test_golden_tokenizer__ids_become_the_text_that_others_give),
        cmocka_unit_test(test_golden_tokenizer__streams_show_no_less_than_others_and_nothing_else),
        cmocka_unit_test(test_golden_tokenizer__the_vocabulary_is_whole),
        cmocka_unit_test(test_debug_tokenize__takes_golden_lines_as_they_are),
        cmocka_unit_test(test_debug_tokenize__answers_each_line_and_reports_bad_ones_at_the_end),
    };
    return cmocka_run_group_tests(tests, vocabulary_open, vocabulary_close);
}
