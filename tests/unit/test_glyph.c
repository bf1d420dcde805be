#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#include <cmocka.h>

#include "base/unicode.h"
#include "ui/tui/cells.h"

#define FFFD "\xEF\xBF\xBD"
#define ZWJ  "\xE2\x80\x8D"

static void test_glyph__nasty_text_has_the_form_that_terminals_agree_on(void **state)
{
    (void)state;
    static const struct { const char *in; size_t took; const char *out; int width; } rows[] = {
        { "ab", 1, "a", 1 },
        { "\tx", 1, " ", 1 },
        { "\nx", 1, "\xE2\x90\xA4", 1 },
        { "\r\nx", 1, "", 0 },                                              /* the newline comes next */
        { "\rx", 1, "\xE2\x90\x8D", 1 },
        { "\x1B[31m", 1, "\xE2\x90\x9B", 1 },
        { "\x7F", 1, "\xE2\x90\xA1", 1 },
        { "\xC2\x9B" "31m", 2, FFFD, 1 },                                   /* a C1 control */
        { "\xE2\x80\xAE" "abc", 3, FFFD, 1 },                               /* right-to-left override */
        { "\xE2\x80\xA8", 3, "\xE2\x90\xA4", 1 },                           /* line separator */
        { "\xFFz", 1, FFFD, 1 },
        { "\xF0\x9F\x99", 3, FFFD, 1 },                                     /* cut short */
        { "\xC2\xA0x", 2, " ", 1 },                                         /* no-break space */
        { "\xC2\xADx", 2, "\xC2\xAD", 0 },                                  /* soft hyphen */
        { "\xE2\x80\x8Bx", 3, "\xE2\x80\x8B", 0 },
        { "\xEF\xBB\xBFx", 3, "", 0 },                                      /* byte order mark */
        { "e\xCC\x81x", 3, "e\xCC\x81", 1 },
        { "\xCC\x81x", 2, "\xE2\x97\x8C\xCC\x81", 1 },                      /* a mark without a base */
        { "a\xCC\x80\xCC\x81\xCC\x82\xCC\x83\xCC\x84\xCC\x85x", 13, "a\xCC\x80\xCC\x81\xCC\x82\xCC\x83", 1 },
        { "\xE4\xBD\xA0x", 3, "\xE4\xBD\xA0", 2 },
        { "\xE2\x9D\xA4\xEF\xB8\x8Fx", 6, "\xE2\x9D\xA4", 1 },              /* a heart that asks for colour */
        { "1\xEF\xB8\x8F\xE2\x83\xA3x", 7, "1\xE2\x83\xA3", 1 },            /* a keycap */
        { "\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBDx", 8, "\xF0\x9F\x91\x8D", 2 },  /* a thumb with a skin tone */
        { "\xF0\x9F\x91\xA9" ZWJ "\xF0\x9F\x91\xA7x", 11, "\xF0\x9F\x91\xA9", 2 },
        { "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAAx", 8, "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA", 2 },     /* a flag */
        { "\xF0\x9F\x87\xA9x", 4, "D", 1 },                                 /* half of one */
        { "\xE0\xA4\x95\xE0\xA4\xBEx", 6, "\xE0\xA4\x95\xE0\xA4\xBE", 2 },  /* a consonant and a vowel behind it */
        { "\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4", 6, "\xE0\xA4\xB8\xE0\xA5\x8D", 1 },           /* a conjunct: half by half */
        { "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xABx", 9, "\xED\x95\x9C", 2 },  /* Hangul in pieces */
        { "\xE1\x84\x92\xE1\x85\xA1x", 6, "\xED\x95\x98", 2 },
        { "\xF0\x9F\x8F\xB4\xF3\xA0\x81\xA7\xF3\xA0\x81\xBFx", 12, "\xF0\x9F\x8F\xB4", 2 },     /* a flag by tags */
        { "a\xF3\xA0\x81\xA7", 1, "a", 1 },                                 /* hidden text in tags */
        { "\xF3\xA0\x81\xA7", 4, FFFD, 1 },
        { "\xCD\xB8", 2, FFFD, 1 },                                         /* unassigned */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct glyph g;
        size_t took = glyph_next(rows[i].in, strlen(rows[i].in), &g);
        if (took != rows[i].took || g.width != rows[i].width || g.n != strlen(rows[i].out) || memcmp(g.text, rows[i].out, g.n))
            fail_msg("row %zu: took %zu, width %d, \"%.*s\"", i, took, g.width, g.n, g.text);
    }
}

/* Checks a glyph, whatever it was made of: well-formed, without orders to the terminal, of characters that libc knows, and
 * of the columns that libc gives them. */
static void check_glyph(const char *s, size_t n)
{
    struct glyph g;
    size_t took = glyph_next(s, n, &g);
    assert_true(took > 0 && took <= n);
    assert_true(g.width <= 2 && g.n <= GLYPH_BYTES);
    assert_true(g.width || !g.n || g.text[0] == '\xC2' || g.text[0] == '\xE2');
    assert_true(unicode_valid(g.text, g.n));
    int columns = 0, in_cell = 0;
    for (size_t i = 0; i < g.n && g.width;) {
        uint32_t cp;
        i += unicode_decode(g.text + i, g.n - i, &cp, NULL);
        assert_true(cp >= 0x20 && cp != 0x7F && !(cp >= 0x80 && cp < 0xA0));
        int w = wcwidth((wchar_t)cp);
        assert_true(w >= 0);
        in_cell = w ? 1 : in_cell + 1;
        assert_true(in_cell <= 5);
        columns += w;
    }
    if (columns != g.width)
        fail_msg("%.*s: %d columns, libc says %d", g.n, g.text, g.width, columns);
}

static void test_glyph__columns_are_those_of_libc_for_every_code_point_with_and_without_a_mark(void **state)
{
    (void)state;
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        skip();
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        char s[8];
        size_t n = unicode_encode(cp, s);
        check_glyph(s, n);
        memcpy(s + n, "\xCC\x81", 2);
        check_glyph(s, n + 2);
    }
}

static uint32_t seed = 1;

static uint32_t rnd(uint32_t n)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * n >> 32);
}

static void test_glyph__random_text_keeps_the_rules_and_fits_where_it_says_it_fits(void **state)
{
    (void)state;
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        skip();
    static const char *const bits[] = {
        "a", " ", "\n", "\x1B", "\xCC\x81", "\xE0\xA4\x95", "\xE0\xA5\x8D", "\xE0\xA4\xBE", ZWJ, "\xEF\xB8\x8F", "\xF0\x9F\x91\xA9",
        "\xF0\x9F\x8F\xBD",
        "\xF0\x9F\x87\xA9", "\xE1\x84\x92", "\xE1\x85\xA1", "\xE1\x86\xAB", "\xD8\x80", "\xE4\xBD\xA0", "\xF3\xA0\x81\xA7", "\xF0\x9F\x8F\xB4",
        "\xFF",
        "\xE2\x80\xAE", "\xCD\xB8", "\xF0\x9F", "\xC2\xAD",
    };
    for (int round = 0; round < 20000; round++) {
        char s[64];
        size_t n = 0;
        for (uint32_t k = 1 + rnd(12); k; k--) {
            const char *bit = bits[rnd(sizeof bits / sizeof *bits)];
            memcpy(s + n, bit, strlen(bit));
            n += strlen(bit);
        }
        struct glyph g;
        int columns = 0;
        for (size_t i = 0; i < n; columns += g.width) {
            check_glyph(s + i, n - i);
            i += glyph_next(s + i, n - i, &g);
        }
        assert_int_equal(glyph_columns(s, n), columns);
        const int room = (int)rnd(10);
        const size_t fits = glyph_fit(s, n, room);
        const int took = glyph_columns(s, fits);
        assert_true(took <= room);
        if (fits < n) {
            glyph_next(s + fits, n - fits, &g);
            assert_true(took + g.width > room);
        } else
            assert_int_equal(took, columns);
    }
}

static void test_glyph__without_unicode_rules_and_bars_have_signs(void **state)
{
    (void)state;
    static const struct { const char *glyph; char sign; } rows[] = {
        {"a", 'a'}, {"\xE2\x94\x82", '|'}, {"\xE2\x94\x80", '-'}, {"\xE2\x96\x81", '.'}, {"\xE2\x96\x88", '#'}, {"\xE2\x80\xA2", '*'},
        {"\xE2\x80\x99", '\''}, {"\xE2\x80\x9D", '"'}, {"\xE2\x80\x94", '-'}, {"\xC3\xA9", '?'}, {"\xE4\xBD\xA0", '?'},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct glyph g;
        glyph_next(rows[i].glyph, strlen(rows[i].glyph), &g);
        assert_int_equal(glyph_ascii(&g), rows[i].sign);
    }
}

static void test_glyph__random_bytes_are_taken_bit_by_bit(void **state)
{
    (void)state;
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        skip();
    for (int round = 0; round < 20000; round++) {
        char s[40];
        size_t n = 1 + rnd(sizeof s);
        for (size_t i = 0; i < n; i++)
            s[i] = (char)(rnd(4) ? 0x80 + rnd(128) : rnd(256));
        struct glyph g;
        for (size_t i = 0; i < n; i += glyph_next(s + i, n - i, &g))
            check_glyph(s + i, n - i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_glyph__nasty_text_has_the_form_that_terminals_agree_on),
        cmocka_unit_test(test_glyph__columns_are_those_of_libc_for_every_code_point_with_and_without_a_mark),
        cmocka_unit_test(test_glyph__random_bytes_are_taken_bit_by_bit),
        cmocka_unit_test(test_glyph__random_text_keeps_the_rules_and_fits_where_it_says_it_fits),
        cmocka_unit_test(test_glyph__without_unicode_rules_and_bars_have_signs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
