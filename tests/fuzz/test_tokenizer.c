/* The small tokenizer.json, damaged at random for three seconds (same damage each time): it is refused in one sentence or
 * read, and what was read still gives every text back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/unicode.h"
#include "tests/tmpdir.h"
#include "text/tokenizer.h"

static uint64_t rnd_state = 42;
static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rnd_state >> 32) * below >> 32);
}

static void splice(struct buf *b, size_t at, size_t drop, const char *s, size_t n)
{
    struct buf out = {0};
    buf_add(&out, b->data, at);
    buf_add(&out, s, n);
    buf_add(&out, b->data + at + drop, b->len - at - drop);
    buf_free(b);
    *b = out;
}

static void damage(struct buf *b)
{
    static const char *const bits[] = {
        "\"", "{", "}", "[", "]", ",", ":", "\\", "\\u0000", "\\ud800", "\\udc00\\ud800", "null", "-1", "1e9", "4194303", "4194304",
        "99999999999999999999", "\"\"", "[]", "{}", "\xFF", "\xC3", "\xED\xA0\x80", "\"a b\"", "[\"a\",\"b\"]", "\"model\":", "\"vocab\":",
        "\"merges\":", " ", "\n", "true", "\"id\":",
    };
    size_t at = rnd((uint32_t)b->len), n = rnd(rnd(4) ? 8 : 2000);
    n = n < b->len - at ? n : b->len - at;
    const char *bit = bits[rnd(sizeof bits / sizeof *bits)];
    switch (rnd(7)) {
    case 0:
        b->data[at] = (char)rnd(256);
        break;
    case 1:
        splice(b, at, n, "", 0);
        break;
    case 2:
        splice(b, at, 0, bit, strlen(bit));
        break;
    case 3:
        splice(b, at, n, bit, strlen(bit));
        break;
    case 4: {                           /* a piece of the file once more, somewhere else */
        struct buf copy = {0};
        buf_add(&copy, b->data + at, n);
        splice(b, rnd((uint32_t)b->len), 0, copy.data, n);
        buf_free(&copy);
        break;
    }
    case 5:                             /* another digit */
        for (; at < b->len && (b->data[at] < '0' || b->data[at] > '9'); at++)
            ;
        if (at < b->len)
            b->data[at] = (char)('0' + rnd(10));
        break;
    case 6:
        if (!rnd(8))
            splice(b, at, b->len - at, "", 0);
        break;
    }
}

static void use(const struct tokenizer *t)
{
    static const char text[] = "Hello world, it's <|im_end|> <think>\n\n"
                               " 42 e\xCC\x81 \xE0\xB8\xAA\xF0\x9F\x99\x82\xFF\x80 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    struct buf back = {0}, nfc = {0};
    struct detok d = {0};
    struct ids ids = {0};
    tokenizer_encode(t, text, sizeof text, true, &ids);
    for (int i = 0; i < ids.n; i++)
        assert_true(ids.data[i] >= 0 && ids.data[i] < tokenizer_n_ids(t));
    ids.n = 0;
    tokenizer_encode(t, text, sizeof text, false, &ids);
    for (int i = 0; i < ids.n; i++)
        detok_push(&d, t, ids.data[i], false, &back);
    detok_flush(&d, &back);
    unicode_nfc(&nfc, text, sizeof text);
    assert_int_equal(back.len, nfc.len);
    assert_memory_equal(back.data, nfc.data, nfc.len);
    buf_free(&back);
    buf_free(&nfc);
    ids_free(&ids);
}

static void damaged(const char *name, int ms)
{
    struct tmpdir d;
    struct buf json = {0}, config = {0}, b = {0};
    int n_read = 0, n_refused = 0;
    assert_true(file_read(&json, "tests/data/tokenizer/small/tokenizer.json", 1 << 20, NULL));
    assert_true(file_read(&config, "tests/data/tokenizer/small/tokenizer_config.json", 1 << 20, NULL));
    assert_true(tmpdir_make(&d));
    assert_true(tmpdir_put(&d, "tokenizer.json", json.data, json.len));
    assert_true(tmpdir_put(&d, "tokenizer_config.json", config.data, config.len));
    const struct buf *whole = strcmp(name, "tokenizer.json") ? &config : &json;
    int64_t start = clock_ns();
    for (int n = 0; clock_ms_since(start) < ms || (n < 10000 && (!n_read || !n_refused)); n++) {     /* some of both, on a busy machine, too */
        struct err e = {0};
        buf_reset(&b);
        buf_add(&b, whole->data, whole->len);
        for (uint32_t k = 1 + rnd(3); k && b.len; k--)
            damage(&b);
        assert_true(tmpdir_put(&d, name, buf_str(&b), b.len));
        struct tokenizer *t = tokenizer_open(d.path, &e);
        if (t) {
            n_read++;
            assert_string_equal(e.msg, "");
            use(t);
        } else {
            n_refused++;
            assert_non_null(strstr(e.msg, "/tokenizer"));
            assert_null(strchr(e.msg, '\n'));
        }
        tokenizer_close(t);
    }
    print_message("%s: %d read, %d refused\n", name, n_read, n_refused);
    assert_true(n_read && n_refused);
    tmpdir_drop(&d, "tokenizer.json");
    tmpdir_drop(&d, "tokenizer_config.json");
    tmpdir_remove(&d);
    buf_free(&json);
    buf_free(&config);
    buf_free(&b);
}

static void test_fuzz_tokenizer__a_damaged_tokenizer_json_is_read_or_refused(void **state)
{
    (void)state;
    damaged("tokenizer.json", 2500);
}

static void test_fuzz_tokenizer__a_damaged_tokenizer_config_is_read_or_refused(void **state)
{
    (void)state;
    damaged("tokenizer_config.json", 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fuzz_tokenizer__a_damaged_tokenizer_json_is_read_or_refused),
        cmocka_unit_test(test_fuzz_tokenizer__a_damaged_tokenizer_config_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
