#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/unicode.h"
#include "session/transcript.h"

static char warned[128];

static void sink(const char *line, void *arg)
{
    (void)arg;
    snprintf(warned, sizeof warned, "%s", line);
}

#define FFFD "\xEF\xBF\xBD"

struct row { const char *in, *out; };

static void check_rows(const struct row *rows, size_t n, void (*fn)(struct buf *, const char *, size_t))
{
    for (size_t i = 0; i < n; i++) {
        struct buf b = {0};
        fn(&b, rows[i].in, strlen(rows[i].in));
        assert_string_equal(buf_str(&b), rows[i].out);
        buf_free(&b);
    }
}
#define ROWS(fn, ...) do { static const struct row rows[] = { __VA_ARGS__ }; \
                           check_rows(rows, sizeof rows / sizeof *rows, fn); } while (0)

static void test_unicode__ill_formed_bytes_become_one_replacement_per_maximal_part(void **state)
{
    (void)state;
    ROWS(unicode_replace,
        { "", "" },
        { "A\xFF" "B", "A" FFFD "B" },
        { "\xC3(", FFFD "(" },
        { "\xED\xA0\x80", FFFD FFFD FFFD },                 /* a surrogate */
        { "\xE4\xBD\xA0\xE5\xA5", "\xE4\xBD\xA0" FFFD },    /* cut short */
        { "\xF0\x9F\x98", FFFD },
        { "\xF0\x9F\x98" "A", FFFD "A" },
        { "\xC0\xAF", FFFD FFFD },                          /* overlong */
        { "\xF4\x90\x80\x80", FFFD FFFD FFFD FFFD },        /* above U+10FFFF */
        { "\xE0\x80\x80", FFFD FFFD FFFD });
}

static void test_unicode__every_code_point_survives_encoding_and_decoding(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        if (cp >= 0xD800 && cp < 0xE000)
            continue;
        char s[4];
        uint32_t back;
        bool ok;
        size_t n = unicode_encode(cp, s);
        assert_int_equal(unicode_decode(s, n, &back, &ok), n);
        assert_true(ok && back == cp);
        assert_int_equal(unicode_complete(s, n), n);
        for (size_t k = 1; k < n; k++)
            assert_int_equal(unicode_complete(s, k), 0);
    }
}

static void test_unicode__bytes_that_nothing_can_complete_are_complete(void **state)
{
    (void)state;
    assert_int_equal(unicode_complete("a\xED\xA0", 3), 3);
    assert_int_equal(unicode_complete("\x80\x80", 2), 2);
    assert_int_equal(unicode_complete("\xFF", 1), 1);
    assert_int_equal(unicode_complete("ab\xF0\x9F\x98", 5), 2);
    assert_int_equal(unicode_complete("\xF0\x9F\x98\xE2\x82", 5), 3);
    assert_int_equal(unicode_complete("", 0), 0);
}

static void test_unicode__nfc_composes_reorders_and_keeps_what_is_composed(void **state)
{
    (void)state;
    ROWS(unicode_nfc,
        { "plain", "plain" },
        { "e\xCC\x81", "\xC3\xA9" },
        { "\xC3\xA9", "\xC3\xA9" },
        { "q\xCC\x87\xCC\xA3", "q\xCC\xA3\xCC\x87" },                       /* marks by class */
        { "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81" },         /* Hangul */
        { "\xE2\x84\xAB", "\xC3\x85" },                                     /* Angstrom sign */
        { "\xE3\x81\x8B\xE3\x82\x99", "\xE3\x81\x8C" },
        { "\xEF\xAC\x81", "\xEF\xAC\x81" },                                 /* ligature fi: compatibility only */
        { "e\xFF\xCC\x81", "e" FFFD "\xCC\x81" });
}

static void test_unicode__the_quick_check_never_passes_what_nfc_changes(void **state)
{
    (void)state;
    static const uint32_t after[] = { 0x41, 0x301, 0x327, 0x1161, 0x11A8, 0x3099, 0x9BE, 0x11927 };
    for (uint32_t cp = 0; cp < 0x30000; cp++) {
        if (cp >= 0xD800 && cp < 0xE000)
            continue;
        for (size_t k = 0; k < sizeof after / sizeof *after; k++) {
            char s[8];
            size_t n = unicode_encode(cp, s);
            n += unicode_encode(after[k], s + n);
            if (!unicode_nfc_quick(s, n))
                continue;
            struct buf b = {0};
            unicode_nfc(&b, s, n);
            assert_int_equal(b.len, n);
            assert_memory_equal(b.data, s, n);
            buf_free(&b);
        }
    }
    assert_true(unicode_nfc_quick("\xE4\xBD\xA0\xE5\xA5\xBD \xE2\x80\x9Cquoted\xE2\x80\x9D na\xC3\xAFve", 26));
    assert_false(unicode_nfc_quick("\xFF", 1));
}

/* A megabyte of marks in the wrong order must not take quadratic time. */
static void test_unicode__a_megabyte_of_marks_is_ordered_at_once(void **state)
{
    (void)state;
    struct buf in = {0}, out = {0};
    buf_addc(&in, 'q');
    for (int i = 0; i < 250000; i++)
        buf_adds(&in, "\xCC\x87");      /* U+0307, class 230 */
    for (int i = 0; i < 250000; i++)
        buf_adds(&in, "\xCC\xA3");      /* U+0323, class 220 */
    unicode_nfc(&out, in.data, in.len);
    assert_int_equal(out.len, in.len);
    assert_memory_equal(out.data, "q\xCC\xA3", 3);
    assert_memory_equal(out.data + out.len - 2, "\xCC\x87", 2);
    buf_free(&in);
    buf_free(&out);
}

/* Parts are cut at 64 KB: the result must not show where. */
static void test_unicode__long_texts_are_normalised_as_one(void **state)
{
    (void)state;
    struct buf in = {0}, want = {0}, out = {0};
    for (int i = 0; i < 30000; i++) {
        buf_adds(&in, i % 3 ? "xe\xCC\x81" : "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8");
        buf_adds(&want, i % 3 ? "x\xC3\xA9" : "\xEA\xB0\x81");
    }
    unicode_nfc(&out, in.data, in.len);
    assert_int_equal(out.len, want.len);
    assert_memory_equal(out.data, want.data, want.len);
    buf_free(&in);
    buf_free(&want);
    buf_free(&out);
}

static void test_unicode__classes_follow_the_standard(void **state)
{
    (void)state;
    static const struct { uint32_t cp; enum unicode_class is; } rows[] = {
        { 'a', UNICODE_LETTER }, { 0x4E00, UNICODE_LETTER }, { 0x2B0, UNICODE_LETTER }, { 0x301, UNICODE_MARK },
        { 0xE31, UNICODE_MARK }, { 0x903, UNICODE_MARK }, { '7', UNICODE_NUMBER }, { 0xBD, UNICODE_NUMBER },
        { 0x2163, UNICODE_NUMBER }, { ' ', UNICODE_SPACE }, { '\v', UNICODE_SPACE }, { 0x85, UNICODE_SPACE },
        { 0xA0, UNICODE_SPACE }, { 0x2028, UNICODE_SPACE }, { 0x3000, UNICODE_SPACE }, { 0x200B, UNICODE_OTHER },
        { 0xFEFF, UNICODE_OTHER }, { 0x180E, UNICODE_OTHER }, { 0x1C, UNICODE_OTHER }, { '.', UNICODE_OTHER },
        { 0, UNICODE_OTHER }, { 0x1F642, UNICODE_OTHER }, { 0x10FFFF, UNICODE_OTHER },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(unicode_class(rows[i].cp), rows[i].is);
}

static void test_unicode__kinds_say_how_a_character_stands_in_a_line(void **state)
{
    (void)state;
    static const struct { uint32_t cp; enum unicode_kind is; } rows[] = {
        { 'a', UNICODE_ALONE }, { 0x4E00, UNICODE_ALONE }, { 0x1F642, UNICODE_ALONE }, { ' ', UNICODE_ALONE }, { 0xE000, UNICODE_ALONE },
        { 0x301, UNICODE_OVER }, { 0x20E3, UNICODE_OVER }, { 0xFE0F, UNICODE_OVER }, { 0x93E, UNICODE_BEHIND },
        { 0x200D, UNICODE_FORMAT }, { 0x202E, UNICODE_FORMAT }, { 0xAD, UNICODE_FORMAT }, { 0x1B, UNICODE_CONTROL },
        { 0x9B, UNICODE_CONTROL }, { 0x2028, UNICODE_CONTROL }, { 0x378, UNICODE_UNASSIGNED }, { 0x10FFFF, UNICODE_UNASSIGNED },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(unicode_kind(rows[i].cp), rows[i].is);
}

static void test_unicode__graphemes_are_taken_whole_with_their_columns(void **state)
{
    (void)state;
    static const struct { const char *s; size_t len; int width; } rows[] = {
        { "ab", 1, 1 },
        { "e\xCC\x81x", 3, 1 },
        { "\xE4\xBD\xA0x", 3, 2 },
        { "\r\nx", 2, 0 },
        { "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAAx", 8, 2 },                                          /* a flag */
        { "\xE2\x9D\xA4\xEF\xB8\x8Fx", 6, 2 },                                                  /* a heart made wide */
        { "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7x", 11, 2 },                             /* joined */
        { "\xFFx", 1, 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int width;
        assert_int_equal(unicode_grapheme(rows[i].s, strlen(rows[i].s), &width), rows[i].len);
        assert_int_equal(width, rows[i].width);
    }
}

static void test_unicode__no_control_character_reaches_a_terminal(void **state)
{
    (void)state;
    ROWS(unicode_safe,
        { "line\n\tnext", "line\n\tnext" },
        { "\x1B[31mred", "\xE2\x90\x9B[31mred" },
        { "\a\b\r\x7F", "\xE2\x90\x87\xE2\x90\x88\xE2\x90\x8D\xE2\x90\xA1" },
        { "\xC2\x9B" "31m", "<U+009B>31m" },
        { "a\xE2\x80\xAE" "b", "a<U+202E>b" },
        { "\xE2\x81\xA6\xD8\x9C", "<U+2066><U+061C>" },
        { "\x9B" "31m", FFFD "31m" },
        { "na\xC3\xAFve \xF0\x9F\x99\x82", "na\xC3\xAFve \xF0\x9F\x99\x82" });
    struct buf b = {0};
    unicode_safe(&b, "\0", 1);
    assert_string_equal(buf_str(&b), "\xE2\x90\x80");
    buf_free(&b);
}

static void test_unicode__a_plain_line_has_neither_orders_nor_halves_of_characters(void **state)
{
    static const struct { const char *in, *out; } rows[] = {
        {"plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"}, {"", ""},
        {"a\033[2J\tb\x7f", "a?[2J?b?"},
        {"\xc2\x9b" "2J\xc2\x80\xc2\xa0", "?2J?\xc2\xa0"},                         /* C1, and the blank behind them */
        {"\xe2\x80\xae" "abc\xe2\x81\xa9\xd8\x9c", "?abc??"},                     /* U+202E, U+2069, U+061C */
        {"a\x9b" "b\xff" "c\xe2\x82" "d", "a?b?c?d"}, {"cut \xe2\x82", "cut "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char s[64];
        strcpy(s, rows[i].in);
        s[unicode_plain(s, strlen(s), '?')] = 0;
        assert_string_equal(s, rows[i].out);
    }
}

static void test_unicode__messages_are_plain_lines(void **state)
{
    struct err e = {0};
    (void)state;
    err_set(&e, "hidden_act is '%s', \xc3\xa9", "\xc2\x9b" "2Jx\xe2\x80\xae");
    assert_string_equal(e.msg, "hidden_act is '?2Jx?', \xc3\xa9");
    char longer[600];
    for (size_t i = 0; i < sizeof longer; i += 3)
        memcpy(longer + i, "\xe2\x82\xac", 3);
    longer[sizeof longer - 1] = 0;
    err_set(&e, "%s", longer);
    assert_int_equal(strlen(e.msg), 510);
    assert_true(unicode_valid(e.msg, strlen(e.msg)));
    err_set_sink(sink, NULL);
    err_warn("%s", "\xc2\x9b" "2Jx\xe2\x80\xae\xc3\xa9");
    err_set_sink(NULL, NULL);
    assert_string_equal(warned, "?2Jx?\xc3\xa9");
}

static void test_unicode__titles_have_no_controls(void **state)
{
    struct buf b = {0};
    (void)state;
    title_clean(&b, text_of("A\033]0;x\007 \xc2\x9b" "2J \xe2\x80\xae" "b\xc3\xa9\n"));
    assert_string_equal(b.data, "A ]0;x   2J  b\xc3\xa9");
    buf_free(&b);
}

static void test_unicode__valid_means_well_formed(void **state)
{
    (void)state;
    assert_true(unicode_valid("a\0b", 3));
    assert_true(unicode_valid("\xF4\x8F\xBF\xBF", 4));
    assert_false(unicode_valid("\xF4\x90\x80\x80", 4));
    assert_false(unicode_valid("\xC3", 1));
    assert_true(unicode_valid("", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unicode__ill_formed_bytes_become_one_replacement_per_maximal_part),
        cmocka_unit_test(test_unicode__every_code_point_survives_encoding_and_decoding),
        cmocka_unit_test(test_unicode__bytes_that_nothing_can_complete_are_complete),
        cmocka_unit_test(test_unicode__nfc_composes_reorders_and_keeps_what_is_composed),
        cmocka_unit_test(test_unicode__the_quick_check_never_passes_what_nfc_changes),
        cmocka_unit_test(test_unicode__a_megabyte_of_marks_is_ordered_at_once),
        cmocka_unit_test(test_unicode__long_texts_are_normalised_as_one),
        cmocka_unit_test(test_unicode__classes_follow_the_standard),
        cmocka_unit_test(test_unicode__kinds_say_how_a_character_stands_in_a_line),
        cmocka_unit_test(test_unicode__graphemes_are_taken_whole_with_their_columns),
        cmocka_unit_test(test_unicode__no_control_character_reaches_a_terminal),
        cmocka_unit_test(test_unicode__a_plain_line_has_neither_orders_nor_halves_of_characters),
        cmocka_unit_test(test_unicode__messages_are_plain_lines),
        cmocka_unit_test(test_unicode__titles_have_no_controls),
        cmocka_unit_test(test_unicode__valid_means_well_formed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
