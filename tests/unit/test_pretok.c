#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "text/pretok.h"

/* Words in brackets. */
static void split(struct buf *out, const char *s, size_t n)
{
    while (n) {
        size_t k = pretok_next(s, n);
        assert_true(k > 0 && k <= n);
        buf_addc(out, '[');
        buf_add(out, s, k);
        buf_addc(out, ']');
        s += k;
        n -= k;
    }
}

static void test_pretok__words_end_where_the_pattern_says(void **state)
{
    (void)state;
    static const struct { const char *in, *out; } rows[] = {
        { "Hello world", "[Hello][ world]" },
        { "a   b", "[a][  ][ b]" },
        { "a \n\n  b", "[a][ \n\n][ ][ b]" },
        { "a  ", "[a][  ]" },
        { " ", "[ ]" },
        { "\n\n \t\n x", "[\n\n \t\n][ x]" },
        { "a\t\tb", "[a][\t][\tb]" },
        { "a\t 1", "[a][\t][ ][1]" },
        { "it's we'LL I'd 'tis", "[it]['s][ we]['LL][ I]['d][ '][tis]" },
        { "'s", "['s]" },
        { "'sup 'x '", "['s][up][ '][x][ ']" },
        { "it'\xC5\xBF ok", "[it]['\xC5\xBF][ ok]" },                              /* long s */
        { "'re've'r", "['re]['ve]['r]" },
        { "1234", "[1][2][3][4]" },
        { " 12", "[ ][1][2]" },
        { "x\xC2\xBD\xE2\x85\xA3", "[x][\xC2\xBD][\xE2\x85\xA3]" },
        { "What?! No...\n\nyes", "[What][?!][ No][...\n\n][yes]" },
        { "(foo)", "[(foo][)]" },
        { " (foo", "[ (][foo]" },
        { "a=b", "[a][=b]" },
        { "\r\nx", "[\r\n][x]" },
        { "e\xCC\x81t", "[e\xCC\x81t]" },
        { "\xCC\x81", "[\xCC\x81]" },                                               /* a mark of its own */
        { ".\xCC\x81x", "[.\xCC\x81x]" },
        { "1\xCC\x81", "[1][\xCC\x81]" },
        { " \xCC\x81", "[ \xCC\x81]" },
        { "\xE0\xB8\xAA\xE0\xB8\xA7\xE0\xB8\xB1\xE0\xB8\xAA", "[\xE0\xB8\xAA\xE0\xB8\xA7\xE0\xB8\xB1\xE0\xB8\xAA]" },
        { "a\xC2\xA0\xE3\x80\x80" "b", "[a][\xC2\xA0][\xE3\x80\x80" "b]" },
        { "a\xE2\x80\x8B" "b", "[a][\xE2\x80\x8B" "b]" },                           /* U+200B is no space */
        { "\xF0\x9F\x99\x82\xF0\x9F\x99\x82 \xF0\x9F\x99\x82", "[\xF0\x9F\x99\x82\xF0\x9F\x99\x82][ \xF0\x9F\x99\x82]" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf b = {0};
        split(&b, rows[i].in, strlen(rows[i].in));
        assert_string_equal(buf_str(&b), rows[i].out);
        buf_free(&b);
    }
}

static void test_pretok__every_byte_belongs_to_a_word(void **state)
{
    (void)state;
    uint32_t r = 1;
    for (int round = 0; round < 2000; round++) {
        char s[64];
        size_t n = round % sizeof s, at = 0;
        for (size_t i = 0; i < n; i++)
            s[i] = (char)((r = r * 1664525 + 1013904223) >> 24);   /* not UTF-8: must not read past the end either */
        while (at < n) {
            size_t k = pretok_next(s + at, n - at);
            assert_true(k > 0 && k <= n - at);
            at += k;
        }
    }
}

static void test_pretok__only_patterns_of_the_family_are_taken(void **state)
{
    (void)state;
    static const struct { const char *pattern; enum pretok_pattern is; } rows[] = {
        { "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*"
          "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", PRETOK_FAMILY },
        { "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
          "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", PRETOK_FAMILY },
        { "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
          "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", PRETOK_RESAVED },
        { "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
          "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", PRETOK_UNKNOWN },
        { "(?i:'s|'t|'re|'ve|'m|'ll|'d)", PRETOK_UNKNOWN },
        { "", PRETOK_UNKNOWN },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(pretok_check(rows[i].pattern), rows[i].is);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pretok__words_end_where_the_pattern_says),
        cmocka_unit_test(test_pretok__every_byte_belongs_to_a_word),
        cmocka_unit_test(test_pretok__only_patterns_of_the_family_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
