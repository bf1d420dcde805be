#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ui/tui/lines.h"

static const struct look plain = {STYLE_text, 0}, bold = {STYLE_text, LOOK_BOLD}, dim = {STYLE_dim, 0};

/* All lines, a continuation marked by '+'. */
static const char *shown(const struct lines *l)
{
    static struct buf b;
    buf_reset(&b);
    for (int i = 0; i < l->n; i++) {
        if (i)
            buf_addc(&b, '\n');
        if (l->lines[i].soft)
            buf_addc(&b, '+');
        lines_text(l, i, &b);
    }
    return buf_str(&b);
}

static const struct row {
    int columns, indent;
    const char *text, *expected;
} rows[] = {
    {20, 0, "one two three", "one two three"},
    {7,  0, "one two three", "one two\n+three"},
    {8,  2, "one two three", "one two\n+  three"},
    {4,  9, "one two three", "one\n+  tw\n+  o\n+  th\n+  re\n+  e"},     /* an indent takes half of the columns at most */
    {7,  0, "one two\nthree\n", "one two\nthree"},
    {7,  0, "one\n\nthree", "one\n\nthree"},
    {9,  0, "one  two   three", "one  two\n+three"},
    {5,  0, "  one two", "  one\n+two"},
    {3,  0, "    one two", "one\n+two"},               /* no line of blanks alone */
    {4,  0, "abcdefghij kl", "abcd\n+efgh\n+ij\n+kl"},
    {9,  0, "go abcdefghijkl", "go\n+abcdefghi\n+jkl"},
    {12, 0, "http://a.bc/defghi/jk", "http://a.bc/\n+defghi/jk"},
    {24, 0, "see (http://a.bc/defghi/jk/lm) too", "see (http://a.bc/defghi/\n+jk/lm) too"},       /* it has no room on a line of its own either */
    {26, 0, "see (http://a.bc/defghi/jk/lm) too", "see\n+(http://a.bc/defghi/jk/lm)\n+too"},
    {20, 0, "a\tb\tccccc\td", "a   b   ccccc   d"},
    {4,  0, "one     ", "one"},
    {3,  0, "one     ", "one"},
    {1,  0, "abc d", "a\n+b\n+c\n+d"},
    {5,  0, "中文字字", "中文\n+字字"},
    {7,  0, "ab 中文字", "ab 中文\n+字"},
    {7,  0, "中文字。a", "中文\n+字。a"},               /* a full stop begins no line */
    {5,  0, "ab\xC2\xA0" "cd ef", "ab\xC2\xA0" "cd\n+ef"},     /* NBSP holds */
    {3,  0, "ab\xE2\x80\x8B" "cd", "ab\xE2\x80\x8B\n+cd"},     /* ZWSP breaks */
    {3,  0, "e\xCC\x81" "e\xCC\x81 abc", "e\xCC\x81" "e\xCC\x81\n+abc"},
    {10, 0, "", ""},
};

static void test_lines__break_at_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lines l = {0};
        lines_wrap(&l, plain, rows[i].text, strlen(rows[i].text), 100, rows[i].columns, rows[i].indent);
        assert_string_equal(shown(&l), rows[i].expected);
        lines_free(&l);
    }
}

static void test_lines__runs_of_one_look_are_joined_and_others_not(void **state)
{
    struct lines l = {0};
    (void)state;
    lines_begin(&l, 5);
    lines_add(&l, plain, "one", 3, 5);
    lines_add(&l, plain, " two", 4, 8);
    lines_add(&l, plain, "!", 1, 14);           /* the source goes on elsewhere */
    lines_add(&l, bold, "x", 1, 15);
    lines_add(&l, bold, "", 0, 16);
    assert_int_equal(l.lines[0].n_runs, 3);
    assert_int_equal(l.runs[0].n, 7);
    lines_begin(&l, 2);
    lines_add(&l, bold, "y", 1, 16);            /* joins nothing over a line's end */
    assert_int_equal(l.n_runs, 4);
    assert_int_equal(l.lines[1].source, 5);     /* never decreases */
    lines_free(&l);
}

static void test_lines__cut_lines_leave_nothing_behind(void **state)
{
    struct lines l = {0};
    (void)state;
    lines_wrap(&l, plain, "one\ntwo\n\n", 9, 0, 10, 0);
    lines_cut(&l, 1);
    lines_wrap(&l, bold, "four", 4, 9, 10, 0);
    assert_string_equal(shown(&l), "one\nfour");
    assert_int_equal(l.text.len, 7);
    lines_cut(&l, 0);
    assert_int_equal(l.n_runs, 0);
    assert_int_equal(l.text.len, 0);
    lines_free(&l);
}

static void test_lines__margins_stand_before_the_first_and_the_other_lines(void **state)
{
    struct lines l = {0}, text = {0}, margin = {0};
    (void)state;
    lines_begin(&margin, 0);
    lines_add(&margin, dim, "- ", 2, LINES_NO_SOURCE);
    lines_begin(&margin, 0)->indent = 2;
    lines_begin(&text, 2);
    lines_add(&text, plain, "one ", 4, 2);
    lines_add(&text, bold, "two three", 9, 8);
    lines_fill(&l, &text, 0, LINES_WORDS, (struct lines_margin){&margin, 0, 1}, 9);
    assert_string_equal(shown(&l), "- one two\n+  three");
    assert_int_equal(l.lines[1].source, 12);
    assert_int_equal(lines_columns(&l, 1), 7);
    lines_free(&l);
    lines_free(&text);
    lines_free(&margin);
}

static void test_lines__code_breaks_at_the_edge_and_keeps_its_blanks(void **state)
{
    struct lines l = {0}, text = {0};
    (void)state;
    lines_begin(&text, 0)->block = 3;
    lines_add(&text, plain, "if\ta b   c", 10, 0);
    lines_fill(&l, &text, 0, LINES_CODE, (struct lines_margin){0}, 10);
    assert_string_equal(shown(&l), "if      a \n+b   c");
    assert_int_equal(l.lines[1].block, 3);
    lines_free(&l);
    lines_free(&text);
}

static void test_lines__drawn_lines_hold_their_indent_and_looks(void **state)
{
    struct lines l = {0};
    struct cells c = {0};
    struct buf b = {0};
    (void)state;
    lines_begin(&l, 0)->indent = 1;
    lines_add(&l, plain, "ab", 2, 0);
    lines_add(&l, dim, "cd", 2, 2);
    cells_size(&c, 2, 6);
    lines_draw(&l, 0, &c, cells_all(&c), 1);
    cells_dump(&c, true, &b);
    assert_non_null(strstr(b.data, "\n abcd\n"));
    assert_non_null(strstr(b.data, "dd"));
    cells_free(&c);
    buf_free(&b);
    lines_free(&l);
}

/* Whatever the text and the width: no line is too wide, and all but blanks and breaks is there, once, in order, in its place. */
static void test_lines__nothing_is_lost_at_any_width(void **state)
{
    static const char *const pieces[] = {"a", "bc", "def", " ", "  ", "\t", "中", "文。", "/", "-", "e\xCC\x81", "(",
                                         "\xE2\x80\x8B", "\xFF", "\x1B", "\n"};
    (void)state;
    srand(5);
    for (int round = 0; round < 4000; round++) {
        struct buf in = {0};
        struct lines l = {0};
        for (int i = rand() % 40; i >= 0; i--)
            buf_adds(&in, pieces[(size_t)rand() % (sizeof pieces / sizeof *pieces)]);
        int columns = 2 + rand() % 20;
        lines_wrap(&l, plain, in.data, in.len, 7, columns, rand() % 4);
        size_t at = 0;
        for (int i = 0; i < l.n; i++) {
            assert_true(lines_columns(&l, i) <= columns);
            for (uint32_t k = l.lines[i].first; k < l.lines[i].first + l.lines[i].n_runs; k++) {
                const struct run *r = &l.runs[k];
                if (r->source == LINES_NO_SOURCE)
                    continue;
                for (; at < r->source - 7; at++)
                    assert_true(strchr(" \t\n\xE2\x80\x8B", in.data[at]));
                assert_memory_equal(in.data + at, l.text.data + r->at, r->n);
                at += r->n;
            }
        }
        assert_int_equal(strspn(in.data + at, " \t\n\xE2\x80\x8B"), in.len - at);
        buf_free(&in);
        lines_free(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines__break_at_words),
        cmocka_unit_test(test_lines__runs_of_one_look_are_joined_and_others_not),
        cmocka_unit_test(test_lines__cut_lines_leave_nothing_behind),
        cmocka_unit_test(test_lines__margins_stand_before_the_first_and_the_other_lines),
        cmocka_unit_test(test_lines__code_breaks_at_the_edge_and_keeps_its_blanks),
        cmocka_unit_test(test_lines__drawn_lines_hold_their_indent_and_looks),
        cmocka_unit_test(test_lines__nothing_is_lost_at_any_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
