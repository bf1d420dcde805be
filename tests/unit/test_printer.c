#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ui/printer.h"

static void push(struct printer *p, const char *text, struct buf *out)
{
    printer_push(p, text, strlen(text), out);
}

/* Pushed in two pieces, or with `at` beyond its end a byte at a time. */
static void print_cut(const char *text, size_t at, int columns, int colors, struct buf *out)
{
    struct printer p = {0};
    size_t n = strlen(text);
    printer_set(&p, columns, 0, "default", colors);
    buf_reset(out);
    if (at <= n) {
        printer_push(&p, text, at, out);
        printer_push(&p, text + at, n - at, out);
    } else {
        for (size_t i = 0; i < n; i++)
            printer_push(&p, text + i, 1, out);
    }
    printer_end(&p, out);
    printer_free(&p);
}

static const struct row { int columns; const char *source, *expected; } rows[] = {
    {21, "one two three four five six seven", "one two three four\nfive six seven\n"},
    {21, "A **bold claim that is long** and *more of the like*.\n\n- one two three four five six\n- b\n",
     "A bold claim that is\nlong and more of the\nlike.\n\n- one two three four\n  five six\n- b\n"},
    {11, "```c\nint a_long_line_of_code(void);\n\tx\n\n```\nafter", "```c\nint a_long_line_of_code(void);\n\tx\n\n```\nafter\n"},
    {11, "1. a\n   ```\n   int a_long_line_of_code(void);\n   \tx\n   ```\n", "1. a\n   ```\n   int a_long_line_of_code(void);\n    x\n   ```\n"},
    {40, "```\ncut off in the mid", "```\ncut off in the mid\n```\n"},
    {60, "a|b\n-|-\n1|2\n\ntext", "a  b\n─  ─\n1  2\n\ntext\n"},
    {40, "Head\n====\nmore\n", "Head\n────\nmore\n"},
    {40, "# Head\n> quote\n", "# Head\n│ quote\n"},
    {16, "a `code span` and a * alone, an [open one", "a code span and\na * alone, an\n[open one\n"},
    {16, "5 * 3 is 15 and snake_case_names stay as they are\n", "5 * 3 is 15 and\nsnake_case_name\ns stay as they\nare\n"},
    {16, "\xE4\xB8\xAD\xE6\x96\x87\xE4\xB8\xAD\xE6\x96\x87\xE4\xB8\xAD\xE6\x96\x87\xE4\xB8\xAD\xE6\x96\x87",
     "\xE4\xB8\xAD\xE6\x96\x87\xE4\xB8\xAD\xE6\x96\x87\xE4\xB8\xAD\xE6\x96\x87\xE4\xB8\xAD\n\xE6\x96\x87\n"},
    {40, "an order \033[31m or \xC2\x9B two\n", "an order \xE2\x90\x9B[31m or <U+009B> two\n"},
    {40, "", ""},
};

static void test_printer__text_is_laid_out_for_the_terminal(void **state)
{
    struct buf out = {0};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_cut(rows[i].source, 0, rows[i].columns, -1, &out);
        assert_string_equal(buf_str(&out), rows[i].expected);
    }
    buf_free(&out);
}

static void test_printer__split_anywhere_gives_the_same_lines(void **state)
{
    struct buf out = {0}, whole = {0};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_cut(rows[i].source, 0, rows[i].columns, 8, &whole);
        for (size_t at = 1; at <= strlen(rows[i].source) + 1; at++) {
            print_cut(rows[i].source, at, rows[i].columns, 8, &out);
            assert_string_equal(buf_str(&out), buf_str(&whole));
        }
    }
    buf_free(&out);
    buf_free(&whole);
}

static void test_printer__lines_come_before_their_paragraph_ends(void **state)
{
    static const struct { const char *source, *out; } open[] = {
        {"one two three four five si", "one two three four\n"},
        {"one two three four fi", ""},                         /* might it fit? */
        {"one two three four five ", "one two three four\n"},
        {"one **two three four five six", ""},                  /* the mark will go when its other half comes */
        {"one **two** three four five six", "one two three four\n"},
        {"one two three four five\nsix seven **eight ", "one two three four\nfive\n"},
        {"- one two three four five six seven", "- one two three four\n"},
        {"- a\n  - b\n  - one two three four five", "- a\n  - b\n  - one two three\n"},
        {"> one two three four five six seven", "│ one two three four\n"},
        {"one two three|four five six seven", ""},              /* a table's header? */
        {"```\na\nb", "```\na\n"},
        {"1. x\n   ```\n   a\n   b\n   c", "1. x\n   ```\n   a\n   b\n"},
        {"a|b\n-|-\n1|2\n3|4\n", ""},                           /* its columns may become wider */
    };
    (void)state;
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        struct printer p = {0};
        struct buf out = {0};
        printer_set(&p, 21, 0, "default", -1);
        push(&p, open[i].source, &out);
        assert_string_equal(buf_str(&out), open[i].out);
        printer_free(&p);
        buf_free(&out);
    }
}

/* The header's first line came out as text. */
static void test_printer__nothing_is_lost_when_a_long_line_becomes_a_table(void **state)
{
    struct buf out = {0};
    (void)state;
    print_cut("one two three four five six seven eight nine ten | b\n--|--\nx|y\n", 99, 41, -1, &out);
    assert_string_equal(out.data,
                        "one two three four five six seven eight\none two three four five six seven      b\neight nine ten\n"
                        "─────────────────────────────────────  ─\nx                                      y\n");
    buf_free(&out);
}

/* Nothing but SGR: no cursor is moved. */
static void check_sequences(const char *s, bool colors)
{
    for (s = strchr(s, '\033'); s; s = strchr(s + 1, '\033')) {
        size_t n = strspn(s + 2, "0123456789;");
        assert_int_equal(s[1], '[');
        assert_int_equal(s[2 + n], 'm');
        for (const char *p = s + 2; !colors && p < s + 2 + n; p += strspn(p, "0123456789") + 1)
            assert_false(atoi(p) >= 30 && atoi(p) <= 107);
    }
}

static void test_printer__looks_are_all_that_it_sends(void **state)
{
    static const char source[] = "# Head\n**bold** *slanted* ~~gone~~ `code` [a](http://b) text\n```c\nint x = 1;\n```\n\xE4\xB8\xAD\033[2J\n";
    struct buf out = {0};
    (void)state;
    print_cut(source, 0, 80, 8, &out);
    assert_non_null(strstr(out.data, "\033[1mbold\033[0m \033[3mslanted\033[0m \033[9mgone\033[0m \033[36mcode\033[0m"));
    check_sequences(out.data, true);
    print_cut(source, 0, 80, 256, &out);
    check_sequences(out.data, true);
    print_cut(source, 0, 80, 0, &out);
    assert_non_null(strstr(out.data, "\033[1mbold\033[0m"));
    check_sequences(out.data, false);
    print_cut(source, 0, 80, -1, &out);
    assert_null(strchr(out.data, '\033'));
    buf_free(&out);
}

static void test_printer__a_text_behind_the_end_is_one_of_its_own(void **state)
{
    struct printer p = {0};
    struct buf out = {0};
    (void)state;
    printer_set(&p, 40, 10, "default", -1);
    push(&p, "```\nopen", &out);
    printer_end(&p, &out);
    push(&p, "one two three four", &out);
    printer_end(&p, &out);
    printer_end(&p, &out);
    assert_string_equal(buf_str(&out), "```\nopen\n```\none two\nthree four\n");
    printer_free(&p);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printer__text_is_laid_out_for_the_terminal),
        cmocka_unit_test(test_printer__split_anywhere_gives_the_same_lines),
        cmocka_unit_test(test_printer__lines_come_before_their_paragraph_ends),
        cmocka_unit_test(test_printer__nothing_is_lost_when_a_long_line_becomes_a_table),
        cmocka_unit_test(test_printer__looks_are_all_that_it_sends),
        cmocka_unit_test(test_printer__a_text_behind_the_end_is_one_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
