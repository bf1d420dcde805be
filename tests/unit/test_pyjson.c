#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/pyjson.h"

enum { DUMP, STR };

/* src as Python would print it again; "!" if it is refused, NULL for an empty text.  The caller frees. */
static char *again(struct text src, enum pyjson_mode mode, int how)
{
    struct arena a = {0};
    struct buf out = {0};
    struct pyjson v;
    struct err e = {0};
    if (!pyjson_parse(&v, src, mode, &a, &e)) {
        assert_true(e.msg[0]);
        buf_addc(&out, '!');
    } else if (how == STR) {
        pyjson_str(&v, &out);
    } else {
        pyjson_dump(&v, &out);
    }
    arena_free(&a);
    return out.data;
}

struct row { const char *src, *want; };

static void expect_rows(const struct row *rows, size_t n, enum pyjson_mode mode, int how)
{
    for (size_t i = 0; i < n; i++) {
        char *got = again(text_of(rows[i].src), mode, how);
        if (strcmp(got ? got : "", rows[i].want))
            fail_msg("%s gave %s, not %s", rows[i].src, got, rows[i].want);
        free(got);
    }
}
#define EXPECT(mode, how, ...) do { \
        static const struct row rows[] = {__VA_ARGS__}; \
        expect_rows(rows, sizeof rows / sizeof *rows, mode, how); \
    } while (0)

static void test_pyjson__numbers_keep_every_digit(void **state)
{
    (void)state;
    EXPECT(PYJSON_LOADS, DUMP, {"0", "0"}, {"-0", "0"}, {"-7", "-7"}, {"9223372036854775808", "9223372036854775808"},
           {"-123456789012345678901234567890123456789012345678901234567890", "-123456789012345678901234567890123456789012345678901234567890"},
           {"01", "!"}, {"+1", "!"}, {".5", "!"}, {"5.", "!"}, {"1e", "!"}, {"-", "!"}, {"0x10", "!"}, {"1_0", "!"}, {"NaN", "!"}, {"Infinity", "!"},
           {"-Infinity", "!"}, {"nan", "!"});
}

static void test_pyjson__floats_are_spelled_as_repr_does(void **state)
{
    (void)state;
    EXPECT(PYJSON_LOADS, STR, {"1e-07", "1e-07"}, {"0.0000001", "1e-07"}, {"1e21", "1e+21"}, {"1e+21", "1e+21"}, {"100000.0", "100000.0"},
           {"1e16", "1e+16"},
           {"1e15", "1000000000000000.0"}, {"9007199254740993.0", "9007199254740992.0"}, {"12345678901234567890.0", "1.2345678901234567e+19"},
           {"-0.0", "-0.0"},
           {"0e9", "0.0"}, {"1E5", "100000.0"}, {"0.0001", "0.0001"}, {"0.00001", "1e-05"}, {"0.1", "0.1"},
           {"0.30000000000000004", "0.30000000000000004"},
           {"1.50", "1.5"}, {"-2e3", "-2000.0"}, {"3.141592653589793", "3.141592653589793"}, {"5e-324", "5e-324"},
           {"1.7976931348623157e308", "1.7976931348623157e+308"},
           {"5.684341886080802e-14", "5.684341886080802e-14"},          /* 2^-44: the nearest 16 digits do not read back, the next do */
           {"1e-400", "0.0"}, {"1e400", "inf"}, {"-1e99999999999999999999999", "-inf"}, {"1e-99999999999999999999999", "0.0"},
           {"123.456e-2", "1.23456"});
    EXPECT(PYJSON_LOADS, DUMP, {"[1e400, -1e400]", "[Infinity, -Infinity]"});
    EXPECT(PYJSON_FINITE, DUMP, {"1e400", "!"}, {"[-1e999]", "!"}, {"1e308", "1e+308"});
}

static void test_pyjson__strings_are_escaped_as_dumps_does(void **state)
{
    (void)state;
    EXPECT(PYJSON_LOADS, DUMP, {"\"a/b<c>&\"", "\"a/b<c>&\""}, {"\"\\/\"", "\"/\""}, {"\"\\u00e9\\ud83d\\ude42\"", "\"\xc3\xa9\xf0\x9f\x99\x82\""},
           {"\"\\b\\f\\n\\r\\t\\u0001\\u001F\\u007f\"", "\"\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\""}, {"\"\\u0000\"", "\"\\u0000\""},
           {"\"\\u2028\"", "\"\xe2\x80\xa8\""},
           {"\"\\\"\\\\\"", "\"\\\"\\\\\""}, {"\"\\ud83d\"", "!"}, {"\"\\ude42\"", "!"}, {"\"\\ud83dx\"", "!"}, {"\"\\ud83d\\u0041\"", "!"},
           {"\"\\x41\"", "!"}, {"\"\\u12\"", "!"},
           {"\"a\nb\"", "!"}, {"\"a", "!"}, {"\"a\\", "!"}, {"\"\xff\"", "!"}, {"'a'", "!"});
    struct buf out = {0};
    pyjson_quote((struct text){"a\xf0\x9f\xff\0b", 6}, &out);
    assert_string_equal(out.data, "\"a\xef\xbf\xbd\xef\xbf\xbd\\u0000b\"");
    buf_free(&out);
}

static void test_pyjson__lists_and_dicts_keep_their_order(void **state)
{
    (void)state;
    EXPECT(PYJSON_LOADS, DUMP, {"[]", "[]"}, {"{}", "{}"}, {" [ 1 ,\t2\r\n] ", "[1, 2]"},
           {"{\"b\":1,\"a\":{\"c\":null}}", "{\"b\": 1, \"a\": {\"c\": null}}"},
           {"{\"a\":1,\"b\":2,\"a\":3}", "{\"a\": 3, \"b\": 2}"}, {"[true,false,null]", "[true, false, null]"}, {"[1,]", "!"}, {"[,]", "!"},
           {"{\"a\"}", "!"}, {"{a:1}", "!"},
           {"{\"a\":}", "!"}, {"[1 2]", "!"}, {"[1", "!"}, {"{", "!"}, {"", "!"}, {" ", "!"}, {"1 1", "!"}, {"True", "!"}, {"tru", "!"}, {"(1)", "!"},
           {"[1]x", "!"});
    EXPECT(PYJSON_LOADS, STR, {"true", "True"}, {"false", "False"}, {"null", "None"}, {"\"x\"", "x"}, {"17", "17"});
}

static void test_pyjson__python_literals_are_read_where_asked(void **state)
{
    (void)state;
    EXPECT(PYJSON_LITERAL, DUMP, {"{'k': True, 'n': None, \"f\": False}", "{\"k\": true, \"n\": null, \"f\": false}"}, {"(1, 'a')", "[1, \"a\"]"},
           {"(1,)", "[1]"}, {"(1)", "1"},
           {"()", "[]"}, {"[1, 2,]", "[1, 2]"}, {"{'a': 1,}", "{\"a\": 1}"},
           {"'it\\'s \"x\" \\x41\\101\\u00e9\\U0001F642\\q\\\n\\0'", "\"it's \\\"x\\\" AA\xc3\xa9\xf0\x9f\x99\x82\\\\q\\u0000\""},
           {"[true, null]", "[true, null]"}, {"{1: 2}", "!"}, {"{1, 2}", "!"}, {"[,]", "!"}, {"'a\nb'", "!"}, {"'a", "!"}, {"f()", "!"},
           {"[1e400]", "!"}, {"nan", "!"}, {"[nan]", "!"});
}

static void test_pyjson__large_dicts_find_their_keys(void **state)
{
    (void)state;
    struct arena a = {0};
    struct pyjson v = {.kind = PY_DICT};
    enum { N = 20000 };
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < N; i++)
            pyjson_set(&v, text_of(arena_printf(&a, "k%d", i)), pyjson_string(text_of(arena_printf(&a, "%d.%d", i, round))), &a);
    assert_int_equal(v.n, N);
    assert_true(text_is(v.keys[17], "k17"));
    assert_true(text_is(pyjson_get(&v, "k19999")->text, "19999.1"));
    assert_null(pyjson_get(&v, "k20000"));
    assert_null(pyjson_get(NULL, "a"));
    arena_free(&a);
}

static void test_pyjson__nesting_is_limited(void **state)
{
    (void)state;
    static char deep[300001];
    for (int n = 1; n <= 100000; n *= 10) {
        memset(deep, '[', (size_t)n);
        memset(deep + n, ']', (size_t)n);
        char *got = again((struct text){deep, (size_t)n * 2}, PYJSON_LOADS, DUMP);
        if (n <= 1000)
            assert_memory_equal(got, deep, (size_t)n * 2);
        else
            assert_string_equal(got, "!");
        free(got);
    }
}

static void test_pyjson__truth_is_pythons(void **state)
{
    (void)state;
    static const struct { const char *src; bool want; } rows[] = {
        {"null", false}, {"true", true}, {"false", false}, {"0", false}, {"-0", false}, {"0.0", false}, {"-0.0", false}, {"1", true}, {"0.5", true},
        {"\"\"", false}, {"\"0\"", true}, {"[]", false}, {"[0]", true}, {"{}", false}, {"{\"a\": 0}", true},
    };
    struct arena a = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pyjson v;
        assert_true(pyjson_parse(&v, text_of(rows[i].src), PYJSON_LOADS, &a, NULL));
        assert_int_equal(pyjson_truth(&v), rows[i].want);
    }
    assert_false(pyjson_truth(NULL));
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pyjson__numbers_keep_every_digit),
        cmocka_unit_test(test_pyjson__floats_are_spelled_as_repr_does),
        cmocka_unit_test(test_pyjson__strings_are_escaped_as_dumps_does),
        cmocka_unit_test(test_pyjson__lists_and_dicts_keep_their_order),
        cmocka_unit_test(test_pyjson__python_literals_are_read_where_asked),
        cmocka_unit_test(test_pyjson__large_dicts_find_their_keys),
        cmocka_unit_test(test_pyjson__nesting_is_limited),
        cmocka_unit_test(test_pyjson__truth_is_pythons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
