#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/unicode.h"
#include "ui/tui/tty.h"

#define SMILE "\xF0\x9F\x99\x82"

static const char *right(int n)
{
    static char text[16];
    snprintf(text, sizeof text, "<%d>", n);
    return text;
}

static struct glyph glyph(const char *text, int width)
{
    struct glyph g = {.n = (uint8_t)strlen(text), .width = (uint8_t)width};
    memcpy(g.text, text, g.n);
    return g;
}

/* Text with the letters A and B as the placeholders of a wide glyph at column 4, C as that of a narrow one at 79, the last. */
static void check(const char *drawn, const char *want)
{
    struct anchors a = {0};
    struct buf in = {0}, out = {0};
    struct glyph wide = glyph(SMILE, 2), narrow = glyph("\xE2\x98\xB0", 1);
    uint32_t first = anchor_code(&a, &wide, 4), last = anchor_code(&a, &narrow, 79);
    for (const char *s = drawn; *s; s++) {
        char utf8[4];
        buf_add(&in, utf8, unicode_encode(*s == 'A' ? first : *s == 'B' ? first + 1 : *s == 'C' ? last : (unsigned char)*s, utf8));
    }
    anchors_expand(&a, buf_str(&in), in.len, 80, right, &out);
    assert_string_equal(buf_str(&out), want);
    buf_free(&in);
    buf_free(&out);
    anchors_free(&a);
}

static void test_anchor__a_placeholder_becomes_its_glyph_between_two_moves_of_the_cursor(void **state)
{
    (void)state;
    check("", "");
    check("plain", "plain");
    check("AB", "  \r<4>" SMILE "\r<6>");
    check("xABy\033[m", "x  \r<4>" SMILE "\r<6>y\033[m");
    check("A\033[mB", "  \r<4>" SMILE "\r<5>\033[m\r<6>");
    check("Bx", "\r<6>x");
    check("C\033[1;1H", " \r<79>\xE2\x98\xB0\033[1;1H");
}

static void test_anchor__text_of_private_characters_is_left_alone(void **state)
{
    (void)state;
    struct anchors a = {0};
    struct buf out = {0};
    const char text[] = "\xF3\xB0\x80\x80 \xF3\xA0\x81\xA7 \xF3 \xF4\x80\x80\x80";      /* the last byte of one is missing */
    anchors_expand(&a, text, sizeof text - 1, 80, right, &out);
    assert_string_equal(buf_str(&out), text);
    buf_free(&out);
}

static void test_anchor__the_same_glyph_at_the_same_column_has_one_code(void **state)
{
    (void)state;
    struct anchors a = {0};
    struct glyph g = glyph(SMILE, 2), other = glyph("\xF0\x9F\x99\x83", 2);
    uint32_t code = anchor_code(&a, &g, 4);
    assert_int_equal(anchor_code(&a, &g, 4), code);
    assert_int_not_equal(anchor_code(&a, &g, 5), code);
    assert_int_not_equal(anchor_code(&a, &other, 4), code);
    anchors_free(&a);
}

static void test_anchor__what_has_no_room_gets_no_code_until_all_are_cleared(void **state)
{
    (void)state;
    struct anchors a = {0};
    struct glyph g = glyph(SMILE, 2);
    int n = 0;
    while (anchors_room(&a, 1)) {
        uint32_t code = anchor_code(&a, &g, n++);
        assert_true(code >= 0xF0000 && code + 1 < 0xFFFFE);     /* private characters */
    }
    assert_int_equal(anchor_code(&a, &g, n), 0);
    assert_int_not_equal(anchor_code(&a, &g, n - 1), 0);
    anchors_clear(&a);
    assert_true(anchors_room(&a, n) && !anchors_room(&a, n + 1));
    assert_int_not_equal(anchor_code(&a, &g, n), 0);
    anchors_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_anchor__a_placeholder_becomes_its_glyph_between_two_moves_of_the_cursor),
        cmocka_unit_test(test_anchor__text_of_private_characters_is_left_alone),
        cmocka_unit_test(test_anchor__the_same_glyph_at_the_same_column_has_one_code),
        cmocka_unit_test(test_anchor__what_has_no_room_gets_no_code_until_all_are_cleared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
