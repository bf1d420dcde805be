#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/wrap.h"

static const struct row {
    int columns;
    const char *text, *expected;
} rows[] = {
    {11, "one two three", "one two\nthree"},
    {20, "one two three", "one two three"},
    {0,  "one two three", "one two three"},
    {8,  "one two\nthree", "one two\nthree"},           /* one column stays free */
    {7,  "one two\nthree", "one\ntwo\nthree"},
    {6,  "one  two", "one\ntwo"},
    {20, "  two  blanks  stay \n  here", "  two  blanks  stay\n  here"},
    {21, "  two  blanks  stay \n  here", "  two  blanks  stay \n  here"},
    {5,  "abcdefgh ij", "abcdefgh\nij"},
    {8,  "a\tb c", "a\nb c"},
    {10, "a\tb c", "a\tb\nc"},
    {6,  "one\n```\nint a long line;\n```\nand two", "one\n```\nint a long line;\n```\nand\ntwo"},
    {6,  "| a | b | c |\none two", "| a | b | c |\none\ntwo"},
    {7,  "\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97\xe5\xad\x97", "\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97\n\xe5\xad\x97"},
    {6,  "ab \xe4\xb8\xad\xe6\x96\x87", "ab \xe4\xb8\xad\n\xe6\x96\x87"},
    {6,  "e\xcc\x81\xe2\x82\xac\xcc\x88 abc", "e\xcc\x81\xe2\x82\xac\xcc\x88\nabc"},       /* combining marks take no column */
    {9,  "e\xcc\x81 e\xcc\x81 ab c", "e\xcc\x81 e\xcc\x81 ab c"},
    {4,  "a \xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7",
     "a\n\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7"},
    {40, "", ""},
    {10, "\n\n", "\n\n"},
};

/* In pieces of `step` bytes that end at whole characters, as they come from a model. */
static void run(const struct row *r, size_t step)
{
    struct wrap w = {0};
    struct buf out = {0};
    size_t n = strlen(r->text);
    for (size_t i = 0; i < n;) {
        size_t k = i + step < n ? step : n - i;
        while (i + k < n && ((unsigned char)r->text[i + k] & 0xc0) == 0x80)
            k++;
        wrap_push(&w, r->text + i, k, r->columns, &out);
        i += k;
    }
    wrap_flush(&w, r->columns, &out);
    assert_string_equal(buf_str(&out), r->expected);
    buf_free(&out);
    wrap_free(&w);
}

static void test_wrap__lines_break_at_words_however_the_text_arrives(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t step = 1; step < 12; step++)
            run(&rows[i], step);
}

static void test_wrap__nothing_is_lost_from_an_endless_word(void **state)
{
    struct wrap w = {0};
    struct buf out = {0};
    (void)state;
    for (int i = 0; i < 5000; i++)
        wrap_push(&w, "abcdefg", 7, 80, &out);
    assert_true(out.len > 34900);       /* it is shown while it comes */
    wrap_flush(&w, 80, &out);
    assert_int_equal(out.len, 35000);
    assert_null(memchr(out.data, '\n', out.len));
    buf_free(&out);
    wrap_free(&w);
}

static void test_wrap__a_new_width_holds_from_the_next_line_on(void **state)
{
    struct wrap w = {0};
    struct buf out = {0};
    (void)state;
    wrap_push(&w, "one two three ", 14, 40, &out);
    wrap_push(&w, "four five six", 13, 10, &out);
    wrap_flush(&w, 10, &out);
    assert_string_equal(out.data, "one two three\nfour five\nsix");
    buf_free(&out);
    wrap_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrap__lines_break_at_words_however_the_text_arrives),
        cmocka_unit_test(test_wrap__nothing_is_lost_from_an_endless_word),
        cmocka_unit_test(test_wrap__a_new_width_holds_from_the_next_line_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
