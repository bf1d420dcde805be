#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ui/tui/cells.h"

static void draw(struct cells *c, int row, int col, const char *text)
{
    cells_puts(c, cells_all(c), row, col, (struct look){0}, text);
}

static void test_damage__spreads_from_what_terminals_do_not_agree_about(void **state)
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

static void test_damage__text_that_scrolls_is_seen_to_have_moved(void **state)
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
        cmocka_unit_test(test_damage__spreads_from_what_terminals_do_not_agree_about),
        cmocka_unit_test(test_damage__text_that_scrolls_is_seen_to_have_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
