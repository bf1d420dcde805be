#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ui/tui/cells.h"

#define NI  "\xE4\xBD\xA0"
#define HAO "\xE5\xA5\xBD"

static const struct look plain = {0};

static void check_dump(const struct cells *c, bool looks, const char *want)
{
    struct buf b = {0};
    cells_dump(c, looks, &b);
    assert_string_equal(buf_str(&b), want);
    buf_free(&b);
}

static void test_cells__text_is_clipped_at_the_edges_of_its_area(void **state)
{
    (void)state;
    struct cells c = {0};
    cells_size(&c, 3, 8);
    struct area a = {1, 2, 1, 4};
    assert_int_equal(cells_puts(&c, a, 0, 0, plain, "abcdef"), 4);
    assert_int_equal(cells_puts(&c, a, 1, 0, plain, "below"), 0);
    assert_int_equal(cells_puts(&c, a, -1, 0, plain, "above"), 0);
    check_dump(&c, false, "\n  abcd\n\n");
    assert_int_equal(cells_puts(&c, a, 0, -2, plain, "xyz"), 1);
    check_dump(&c, false, "\n  zbcd\n\n");
    cells_puts(&c, (struct area){2, 6, 4, 40}, 0, 0, plain, "much too long");
    cells_puts(&c, (struct area){-1, -3, 2, 5}, 1, 0, plain, "0123456");
    check_dump(&c, false, "34\n  zbcd\n      mu\n");
    cells_free(&c);
}

static void test_cells__a_wide_glyph_is_never_split(void **state)
{
    (void)state;
    struct cells c = {0};
    cells_size(&c, 1, 6);
    struct area all = cells_all(&c);
    assert_int_equal(cells_puts(&c, all, 0, 0, plain, NI HAO), 4);
    assert_int_equal(c.at[0].glyph.width, 2);
    assert_int_equal(c.at[1].glyph.width, 0);
    check_dump(&c, false, NI HAO "\n");
    cells_puts(&c, all, 0, 1, plain, "x");                  /* over the right half of one */
    check_dump(&c, false, " x" HAO "\n");
    cells_puts(&c, all, 0, 2, plain, "y");                  /* over the left half of one */
    check_dump(&c, false, " xy\n");
    cells_puts(&c, all, 0, 3, plain, NI);
    cells_puts(&c, all, 0, 2, plain, HAO);                  /* over halves of both kinds */
    check_dump(&c, false, " x" HAO "\n");
    cells_blank(&c, all, plain);
    assert_int_equal(cells_puts(&c, all, 0, 5, plain, NI), 6);      /* it does not fit */
    cells_puts(&c, all, 0, -1, plain, NI "a");
    check_dump(&c, false, " a\n");
    cells_puts(&c, all, 0, 2, plain, NI);
    cells_blank(&c, (struct area){0, 3, 1, 1}, plain);
    check_dump(&c, false, " a\n");
    assert_int_equal(c.at[2].glyph.width, 1);
    cells_free(&c);
}

static void test_cells__what_is_not_drawn_takes_no_cell(void **state)
{
    (void)state;
    struct cells c = {0};
    cells_size(&c, 1, 8);
    assert_int_equal(cells_puts(&c, cells_all(&c), 0, 0, plain, "a\xC2\xAD" "b\xE2\x80\x8B\xEF\xBB\xBF" "c\td\x1B"), 6);
    check_dump(&c, false, "abc d\xE2\x90\x9B\n");
    cells_free(&c);
}

static void test_cells__the_dump_tells_looks_by_letters(void **state)
{
    (void)state;
    struct cells c = {0};
    cells_size(&c, 3, 12);
    struct area all = cells_all(&c);
    cells_puts(&c, all, 0, 0, plain, "plain");
    cells_puts(&c, all, 1, 0, plain, "an ");
    cells_puts(&c, all, 1, 3, (struct look){STYLE_error, 0}, "error");
    cells_puts(&c, all, 1, 9, (struct look){STYLE_text, LOOK_BOLD}, "b" NI);
    cells_blank(&c, (struct area){2, 0, 1, 4}, (struct look){STYLE_status, 0});
    check_dump(&c, true, "plain\nan error b" NI "\n...eeeee.TTT\n\nssss\n");
    cells_free(&c);
}

static void test_cells__a_new_size_is_blank_and_may_be_nothing(void **state)
{
    (void)state;
    struct cells c = {0};
    cells_size(&c, 2, 4);
    c.cursor_row = 1;
    cells_puts(&c, cells_all(&c), 0, 0, plain, "text");
    cells_size(&c, 2, 4);
    check_dump(&c, true, "\n\n");
    assert_int_equal(c.cursor_row, -1);
    cells_size(&c, 0, 0);
    cells_puts(&c, cells_all(&c), 0, 0, plain, "text");
    check_dump(&c, true, "");
    cells_size(&c, 1, 1);
    cells_puts(&c, cells_all(&c), 0, 0, plain, NI);
    check_dump(&c, true, "\n");
    cells_free(&c);
}

static uint32_t seed = 1;

static uint32_t rnd(uint32_t n)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * n >> 32);
}

static void test_cells__halves_always_come_in_pairs(void **state)
{
    (void)state;
    static const char *const bits[] = { "a", NI, HAO NI, "bc", " ", "e\xCC\x81", "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA", "\xF0\x9F\x99\x82x" };
    struct cells c = {0};
    cells_size(&c, 4, 9);
    for (int i = 0; i < 50000; i++) {
        struct area a = {(int)rnd(7) - 2, (int)rnd(12) - 2, (int)rnd(6), (int)rnd(12)};
        if (rnd(4))
            cells_puts(&c, a, (int)rnd(5), (int)rnd(12) - 3, plain, bits[rnd(sizeof bits / sizeof *bits)]);
        else
            cells_blank(&c, a, plain);
        for (int r = 0; r < c.rows; r++) {
            const struct cell *row = c.at + r * c.cols;
            for (int col = 0; col < c.cols; col++) {
                bool right = col > 0 && row[col - 1].glyph.width == 2;
                assert_int_equal(row[col].glyph.width == 0, right);
                assert_false(row[col].glyph.width == 2 && col + 1 == c.cols);
                assert_true(row[col].glyph.n > 0 || right);
            }
        }
    }
    cells_free(&c);
}

/* --- what has changed --- */

static void draw(struct cells *c, int row, int col, const char *text)
{
    cells_puts(c, cells_all(c), row, col, (struct look){0}, text);
}

static void test_cells__spreads_from_what_terminals_do_not_agree_about(void **state)
{
    (void)state;
    static const struct { const char *text; bool spreads; } rows[] = {
        { "plain", false }, { "\xE4\xBD\xA0", false }, { "\xF0\xA0\x80\x80", false }, { "e\xCC\x81", false }, { "\xE0\xB8\x97\xE0\xB8\xB5", false },
        { "\xED\x95\x9C", false },
        { "\xF0\x9F\x99\x82", true }, { "\xE2\x8C\x9A", true }, { "\xE2\x9C\x85", true }, { "\xF0\x9F\x9B\xA0", true },
        { "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA", true },
        { "\xE0\xA4\xB9\xE0\xA4\xBF", true },
    };
    struct cells a = {0}, b = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cells_size(&a, 1, 20);
        cells_size(&b, 1, 20);
        draw(&a, 0, 5, rows[i].text);
        draw(&b, 0, 5, rows[i].text);
        assert_true(cells_same_row(a.at, b.at, 20));
        assert_false(cells_row_disputed(a.at, b.at, 20));
        draw(&b, 0, 0, "left");
        assert_false(cells_same_row(a.at, b.at, 20));
        assert_false(cells_row_disputed(a.at, b.at, 20));       /* in front of it */
        draw(&b, 0, 15, "right");
        assert_int_equal(cells_row_disputed(a.at, b.at, 20), rows[i].spreads);
        cells_size(&b, 1, 20);                              /* it has gone */
        assert_int_equal(cells_row_disputed(a.at, b.at, 20), rows[i].spreads);
        assert_int_equal(cells_row_disputed(b.at, a.at, 20), rows[i].spreads);
    }
    cells_free(&a);
    cells_free(&b);
}

static void fill(struct cells *c, int rows, int first)
{
    char text[32];
    cells_size(c, rows, 20);
    for (int r = 0; r < rows; r++) {
        snprintf(text, sizeof text, "line %d", first + r);
        draw(c, r, 0, text);
    }
}

static void test_cells__text_that_scrolls_is_seen_to_have_moved(void **state)
{
    (void)state;
    struct cells a = {0}, b = {0};
    fill(&a, 20, 100);
    for (int by = 0; by < 20; by++) {
        fill(&b, 20, 100 + by);
        assert_int_equal(cells_scrolled(&a, &b, 0), by <= 16 ? by : 0);       /* three rows are not worth it */
    }
    fill(&b, 20, 101);
    draw(&b, 3, 0, "something else");
    assert_int_equal(cells_scrolled(&a, &b, 0), 1);
    fill(&b, 20, 99);
    assert_int_equal(cells_scrolled(&a, &b, 0), 0);           /* down */
    cells_size(&a, 20, 20);
    cells_size(&b, 20, 20);
    draw(&b, 19, 0, "the first row of a blank screen");
    assert_int_equal(cells_scrolled(&a, &b, 0), 0);
    cells_free(&a);
    cells_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells__text_is_clipped_at_the_edges_of_its_area),
        cmocka_unit_test(test_cells__a_wide_glyph_is_never_split),
        cmocka_unit_test(test_cells__what_is_not_drawn_takes_no_cell),
        cmocka_unit_test(test_cells__the_dump_tells_looks_by_letters),
        cmocka_unit_test(test_cells__a_new_size_is_blank_and_may_be_nothing),
        cmocka_unit_test(test_cells__halves_always_come_in_pairs),
        cmocka_unit_test(test_cells__spreads_from_what_terminals_do_not_agree_about),
        cmocka_unit_test(test_cells__text_that_scrolls_is_seen_to_have_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
