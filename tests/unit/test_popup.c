#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ui/tui/popup.h"

static const struct popup_row commands[] = {
    {"Transcript", .head = true}, {"/copy [what]", "copies a message"}, {"/context", "what fills the context"},
    {"Sessions", .head = true}, {"/new", "a new conversation"}, {"/resume", "another one", .here = true},
};

static struct buf shown;

static const char *drawn(struct popup *p, int rows, int cols)
{
    struct cells c = {0};
    cells_size(&c, rows, cols);
    popup_draw(p, &c, cells_all(&c));
    buf_reset(&shown);
    cells_dump(&c, false, &shown);
    cells_free(&c);
    return buf_str(&shown);
}

static struct popup list(void)
{
    struct popup p = {.title = "commands", .help = "Enter takes it", .rows = commands, .n = 6};
    popup_settle(&p);
    return p;
}

static void test_popup__stands_in_the_last_rows(void **state)
{
    (void)state;
    struct popup p = list();
    assert_int_equal(popup_height(&p, 24), 8);
    assert_string_equal(drawn(&p, 10, 44),
                        "\n\n"
                        " commands\n"
                        " Transcript\n"
                        ">  /copy [what]            copies a message\n"
                        "   /context          what fills the context\n"
                        " Sessions\n"
                        "   /new                  a new conversation\n"
                        " * /resume                      another one\n"
                        " Enter takes it\n");
}

/* The row that is open can be the chosen one: neither mark hides the other. */
static void test_popup__shows_that_the_chosen_row_is_the_open_one(void **state)
{
    (void)state;
    struct popup p = list();
    popup_choose(&p, 5);
    assert_non_null(strstr(drawn(&p, 10, 44), "\n>* /resume "));
}

static void test_popup__sentences_begin_in_one_column_and_the_edge_tells_how_many(void **state)
{
    (void)state;
    static const struct popup_row rows[] = {
        {"/help", "what there is"}, {"/set [KEY]", "an option"}, {"/undo", "goes back"}, {"/a-name-of-more-than-half-a-row-is-not-counted", "x"},
        {"/e", "e"},
        {"/f", "f"}, {"/g", "g"}, {"/h", "h"}, {"/i", "i"},
    };
    struct popup p = {.rows = rows, .n = 9, .help = "Enter takes it", .column = true};
    assert_string_equal(drawn(&p, 5, 44),
                        "> /help       what there is\n"
                        "  /set [KEY]  an option\n"
                        "  /undo       goes back\n"
                        "  /a-name-of-more-than-half-a-row-is-not-cou\n"
                        " Enter takes it                      1 of 9\n");
    p.chosen = 8;
    assert_non_null(strstr(drawn(&p, 5, 44), "9 of 9\n"));
}

static void test_popup__on_few_rows_the_list_stays_longest(void **state)
{
    (void)state;
    struct popup p = list();
    assert_string_equal(drawn(&p, 4, 44), " commands\n Transcript\n>  /copy [what]            copies a message\n Enter takes it\n");
    assert_string_equal(drawn(&p, 2, 44), " commands\n>  /copy [what]            copies a message\n");
    assert_string_equal(drawn(&p, 1, 30), ">  /copy [what]  copies a mess\n");
    assert_string_equal(drawn(&p, 1, 20), ">  /copy [what]\n");
    assert_int_equal(popup_height(&p, 0), 0);
}

static void test_popup__the_choice_passes_over_headings_and_goes_round(void **state)
{
    (void)state;
    struct popup p = list();
    static const int down[] = {2, 4, 5, 1, 2}, up[] = {1, 5, 4, 2};
    for (int i = 0; i < 5; i++) {
        popup_move(&p, 1);
        assert_int_equal(p.chosen, down[i]);
    }
    for (int i = 0; i < 4; i++) {
        popup_move(&p, -1);
        assert_int_equal(p.chosen, up[i]);
    }
    popup_move(&p, 7);                  /* a page stops at the end */
    assert_int_equal(p.chosen, 5);
    popup_move(&p, -7);
    assert_int_equal(p.chosen, 1);
    popup_choose(&p, 3);
    assert_int_equal(p.chosen, 4);
}

static void test_popup__a_filter_lists_rows_that_have_all_its_words(void **state)
{
    (void)state;
    static const struct { const char *filter; int listed, chosen; } rows[] = {
        {"", 6, 1}, {"con", 2, 2}, {"CON", 0, -1}, {"con new", 1, 4}, {"new con", 1, 4}, {"  an ", 1, 5}, {"xyz", 0, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct popup p = list();
        p.filter = rows[i].filter;
        popup_settle(&p);
        assert_int_equal(popup_listed(&p), rows[i].listed);
        assert_int_equal(p.chosen, rows[i].chosen);
    }
    struct popup p = list();
    p.filter = "con";
    popup_settle(&p);
    popup_move(&p, 1);
    assert_string_equal(drawn(&p, 4, 44),
                        " commands: con                       2 of 2\n"
                        "   /context          what fills the context\n"
                        ">  /new                  a new conversation\n"
                        " Enter takes it\n");
    p.filter = "no such";
    popup_settle(&p);
    assert_string_equal(drawn(&p, 4, 44), "\n commands: no such\n  nothing found\n Enter takes it\n");
    p.filter = "new";
    popup_settle(&p);
    assert_int_equal(p.chosen, 4);      /* a choice comes back */
}

static void test_popup__the_cursor_stands_behind_the_filter(void **state)
{
    (void)state;
    struct popup p = list();
    struct cells c = {0};
    cells_size(&c, 10, 30);
    popup_draw(&p, &c, cells_all(&c));
    assert_int_equal(c.cursor_row, -1);
    p.filter = "new";
    popup_settle(&p);
    popup_draw(&p, &c, cells_all(&c));
    assert_int_equal(c.cursor_row, 7);
    assert_int_equal(c.cursor_col, 14);
    cells_free(&c);
}

enum { MANY = 50 };

static struct popup many(struct popup_row rows[MANY], char texts[MANY][16])
{
    for (int i = 0; i < MANY; i++) {
        snprintf(texts[i], 16, "row %d", i);
        rows[i] = (struct popup_row){texts[i], .head = i % 10 == 0};
    }
    struct popup p = {.rows = rows, .n = MANY};
    popup_settle(&p);
    return p;
}

static void test_popup__the_choice_is_always_in_view(void **state)
{
    (void)state;
    struct popup_row rows[MANY];
    char texts[MANY][16], want[20];
    struct popup p = many(rows, texts);
    uint32_t seed = 1;
    for (int i = 0; i < 3000; i++) {
        seed = seed * 1664525u + 1013904223u;
        popup_move(&p, (int)(seed >> 8) % 11 - 5);
        int height = 1 + (int)(seed >> 16) % 12;
        snprintf(want, sizeof want, "> row %d\n", p.chosen);
        assert_non_null(strstr(drawn(&p, height, 20), want));
    }
}

static void test_popup__a_list_that_is_only_read_scrolls(void **state)
{
    (void)state;
    struct popup_row rows[MANY];
    char texts[MANY][16];
    struct popup p = many(rows, texts);
    p.chosen = -1;
    popup_move(&p, 3);
    assert_string_equal(drawn(&p, 8, 20), "  row 3\n  row 4\n  row 5\n  row 6\n  row 7\n  row 8\n  row 9\n row 10\n");
    popup_move(&p, 100);
    assert_non_null(strstr(drawn(&p, 8, 20), "  row 42\n"));
    popup_move(&p, -100);
    assert_non_null(strstr(drawn(&p, 8, 20), " row 0\n"));
}

static void test_popup__every_size_stays_inside_its_area(void **state)
{
    (void)state;
    struct popup p = list();
    struct cells c = {0};
    p.filter = "";
    for (int rows = 0; rows <= 12; rows++)
        for (int cols = 0; cols <= 60; cols++) {
            cells_size(&c, rows + 2, cols + 2);
            popup_draw(&p, &c, (struct area){1, 1, rows, cols});
            for (int i = 0; i < c.rows * c.cols; i++) {
                int row = i / c.cols, col = i % c.cols;
                assert_true((row >= 1 && row <= rows && col >= 1 && col <= cols) || c.at[i].look.style == STYLE_text);
            }
            assert_true(c.cursor_row <= rows && c.cursor_col <= cols);
        }
    cells_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_popup__stands_in_the_last_rows),
        cmocka_unit_test(test_popup__shows_that_the_chosen_row_is_the_open_one),
        cmocka_unit_test(test_popup__sentences_begin_in_one_column_and_the_edge_tells_how_many),
        cmocka_unit_test(test_popup__on_few_rows_the_list_stays_longest),
        cmocka_unit_test(test_popup__the_choice_passes_over_headings_and_goes_round),
        cmocka_unit_test(test_popup__a_filter_lists_rows_that_have_all_its_words),
        cmocka_unit_test(test_popup__the_cursor_stands_behind_the_filter),
        cmocka_unit_test(test_popup__the_choice_is_always_in_view),
        cmocka_unit_test(test_popup__a_list_that_is_only_read_scrolls),
        cmocka_unit_test(test_popup__every_size_stays_inside_its_area),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
