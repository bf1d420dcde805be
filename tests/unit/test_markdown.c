#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ui/tui/markdown.h"

/* All lines, as text; with looks, letters below: see cells_dump(). */
static const char *shown(struct markdown *m, int columns, bool looks)
{
    static struct buf b;
    const struct lines *l = markdown_lines(m);
    buf_reset(&b);
    if (!looks) {
        for (int i = 0; i < l->n; i++) {
            lines_text(l, i, &b);
            buf_addc(&b, '\n');
        }
        return buf_str(&b);
    }
    struct cells c = {0};
    cells_size(&c, l->n, columns);
    for (int i = 0; i < l->n; i++)
        lines_draw(l, i, &c, cells_all(&c), i);
    cells_dump(&c, true, &b);
    cells_free(&c);
    return buf_str(&b);
}

static struct markdown *open_with(const char *text, int columns)
{
    struct markdown *m = markdown_open();
    markdown_width(m, columns, columns);
    markdown_push(m, text, strlen(text));
    return m;
}

static const struct row { int columns; const char *source, *expected; } rows[] = {
    {40, "a *b* **c** `d` ~~e~~\n", "a b c d e\n"},
    {40, "one\ntwo  \nthree", "one\ntwo\nthree\n"},                       /* a model's lines stay lines */
    {12, "one two three four", "one two\nthree four\n"},
    {40, "a\n\n\nb\n", "a\n\nb\n"},
    {40, "# Head #\ntext\n### x\n#\n", "# Head\ntext\n### x\n# \n"},
    {40, "Head\n====\nmore\n", "Head\n────\nmore\n"},
    {9,  "***\n", "─────────\n"},
    {40, "snake_case_name 2*3*4 **open", "snake_case_name 234 **open\n"},
    /* lists: as they are written */
    {14, "- one two three\n- b\n\n- c\n", "- one two\n  three\n- b\n\n- c\n"},
    {40, "* a\n+ b\n3. c\n3. d\n10) e\n", "* a\n+ b\n3. c\n3. d\n10) e\n"},
    {40, "- a\n  1. b\n\n     c\n  2. d\n", "- a\n  1. b\n\n     c\n  2. d\n"},
    {40, "- [ ] todo\n- [x] done\n", "- [ ] todo\n- [x] done\n"},
    {40, "-\n- a\n- - b\n", "- \n- a\n- - b\n"},
    {40, "- a\n - b\n  - c\n    - d\n      - e\n        - f\n          - g\n            - h\n",
     "- a\n- b\n- c\n  - d\n    - e\n      - f\n        - g\n        - h\n"},
    {40, "1. a\n   ```c\n   x\n   ```\n2. b\n", "1. a\n                              C, block 1\n   x\n2. b\n"},
    {20, "```\n0123456789012345678901234\n\tx\n```\n", "             block 1\n01234567890123456789\n↳ 01234\n        x\n"},
    {20, "- ```\n  01234567890123456789\n  ```\n", "-            block 1\n  012345678901234567\n  ↳ 89\n"},
    /* JSON, as answers by a schema are */
    {40, "{\"a\": 1, \"b\": {\"c\": [], \"d\": \"x, {y}\"}, \"e\": [1, {}]}",
     "{\n  \"a\": 1,\n  \"b\": {\n    \"c\": [],\n    \"d\": \"x, {y}\"\n  },\n  \"e\": [\n    1,\n    {}\n  ]\n}\n"},
    {40, "\n{\n\"a\":\n\"\\\"\\\\\" , \"b\" : [ ]\n}\n\nAnd *more*\n", "{\n  \"a\":\n  \"\\\"\\\\\" ,\n  \"b\" : [ ]\n}\n\nAnd more\n"},
    {40, "{\"a\": [1, \"b", "{\n  \"a\": [\n    1,\n    \"b\n"},
    {12, "{\"a\": \"0123456789\"}", "{\n  \"a\": \"0123\n  456789\"\n}\n"},
    {40, "{x} *y*\n", "{x} y\n"},
    {40, "{", "{\n"},
    {40, "{}", "{}\n"},
    /* quotes */
    {12, "> one two three\n> four\n", "│ one two\n│ three\n│ four\n"},
    {40, "> a\n>\n> > b\n> - c\n", "│ a\n│ \n│ │ b\n│ - c\n"},
    /* code */
    {20, "a\n```\n  x  y\n\nz\n```\nb\n", "a\n             block 1\n  x  y\n\nz\nb\n"},
    {20, "```\n\tx\n", "             block 1\n        x\n"},
    {16, "~~~\nlong line of code\n~~~\n", "         block 1\nlong line of cod\ne\n"},
    {20, "    x\n\n      y\n\nz\n", "             block 1\nx\n\n  y\n\nz\n"},
    {20, "```\na\n````\nb\n```\nc\n```\n", "             block 1\na\nb\n             block 2\nc\n"},
    /* links */
    {60, "[a](http://b) <http://c> http://d/e_f_g ![i](p.png \"t\") [](x)\n", "a (http://b) http://c http://d/e_f_g i (p.png \"t\") (x)\n"},
    {60, "[a][b] [c]\n\n[c]: http://d\n", "[a][b] [c]\n\n[c]: http://d\n"},       /* what another block defines stays source */
    {60, "&lt;b&gt; &amp; &#65; &nope;\n", "<b> & A &nope;\n"},
    /* as source */
    {60, "a <b>c</b>\n\n<div>\n*x*\n</div>\n", "a <b>c</b>\n\n<div>\n*x*\n</div>\n"},
    {60, "<!-- a\n\n*b* -->\n*c*\n", "<!-- a\n\n*b* -->\nc\n"},
    {60, "$a_1 * b_2 * c$ and \\(x_1*y*z\\) for $5 or *$6*\n", "a₁ * b₂ * c and x₁*y*z for $5 or $6\n"},
    {60, "$$\na\n- b\n= c\n$$\n- d\n", "  a - b = c\n- d\n"},
    {60, "\\[ x_1 * y_1 \\]\n", "  x₁ * y₁\n"},
    {60, "so \\[ x_1\n+y_1 \\] and $x_2$\n", "so \\[ x_1\n+y_1 \\] and x₂\n"},
    {60, "`$x_1$` **$x_1$** \\$x_1$ $\\unknown{x_1}$\n", "$x_1$ x₁ $x_1$ $\\unknown{x_1}$\n"},
    {60, "|$a_1$|\n|-|\n|$\\frac{1}{2}$ x|\n", "a₁\n─────\n1/2 x\n"},
    {8, "aaa $x + y + z$ b\n", "aaa x +\ny + z b\n"},
    {60, "$$ is a price\n\n*b*\n", "$$ is a price\n\nb\n"},
};

static void test_markdown__blocks_and_marks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct markdown *m = open_with(rows[i].source, rows[i].columns);
        markdown_end(m);
        assert_string_equal(shown(m, 0, false), rows[i].expected);
        markdown_close(m);
    }
}

static const struct row tables[] = {
    {60, "|a|b|\n|-|-:|\n|one|2|\n|**x** y|`10`|\n", "a     b\n───  ──\none   2\nx y  10\n"},
    {60, "| a | b\n|:-:|-\n| three | x | y | z |\n| q\n", "  a    b\n─────  ─────────\nthree  x | y | z\n  q\n"},       /* no cell is lost */
    {40, "a|b\n-|-\none two three four five six|seven eight nine ten\n", "a                    b\n───────────────────  ───────────────────\n"
        "one two three four   seven eight nine\nfive six             ten\n"},
    {60, "|a|b|\n|-|-|\n|x<br>y|\xe4\xb8\xad|\n", "a  b\n─  ──\nx  \xe4\xb8\xad\ny\n"},
    {60, "|a|\n|-|\ntext\n\ntext\n", "a\n────\ntext\n\ntext\n"},
    {39, "|a|b|c|\n|-|-|-|\n|1|2|3|\n|4||6|\n", "a: 1\nb: 2\nc: 3\n\na: 4\nc: 6\n"},
    {20, "|op|map|\n|-|-|\n|get|O(1)|\n|scan|not ordered at all|\n", "op: map\nget: O(1)\nscan: not ordered at\nall\n"},
    {40, "- |a|b|\n  |---|---|\n  |1|2|\n", "- a  b\n  ─  ─\n  1  2\n"},
};

static void test_markdown__tables_take_the_width_they_need(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        struct markdown *m = open_with(tables[i].source, tables[i].columns);
        markdown_end(m);
        assert_string_equal(shown(m, 0, false), tables[i].expected);
        markdown_close(m);
    }
}

static void test_markdown__a_table_has_the_shape_one_asks_for(void **state)
{
    static const char source[] = "|a|b|\n|-|-|\n|1|*2*|\n";
    struct markdown *m = open_with(source, 60);
    struct buf b = {0};
    (void)state;
    markdown_tables(m, TABLE_RECORDS);
    assert_string_equal(shown(m, 0, false), "a: b\n1: 2\n");
    markdown_tables(m, TABLE_SOURCE);
    assert_string_equal(shown(m, 0, false), source);
    assert_true(markdown_table_at(m, 1, &b));
    assert_string_equal(buf_str(&b), source);
    markdown_width(m, 8, 8);
    markdown_tables(m, TABLE_GRID);
    assert_string_equal(shown(m, 0, false), "a  b\n─  ─\n1  2\n");
    assert_false(markdown_table_at(m, 3, &b));
    markdown_close(m);
    buf_free(&b);
}

/* The screen after each piece. */
static const struct { const char *piece, *expected; } stream[] = {
    {"Some **bo", "Some **bo\n"},
    {"ld** \xE4\xB8", "Some bold\n"},                   /* half a character */
    {"\xAD\n", "Some bold \xE4\xB8\xAD\n"},
    {"-", "Some bold \xE4\xB8\xAD\n-\n"},               /* no heading yet */
    {" a\n`", "Some bold \xE4\xB8\xAD\n- a\n"},         /* may be a fence */
    {"x`", "Some bold \xE4\xB8\xAD\n- a\n  x\n"},
    {"\n\n``", "Some bold \xE4\xB8\xAD\n- a\n  x\n"},
    {"`p", "Some bold \xE4\xB8\xAD\n- a\n  x\n\n          p, block 1\n"},
    {"y\n1", "Some bold \xE4\xB8\xAD\n- a\n  x\n\n     Python, block 1\n1\n"},
    {"\n``", "Some bold \xE4\xB8\xAD\n- a\n  x\n\n     Python, block 1\n1\n"},
    {"`\n", "Some bold \xE4\xB8\xAD\n- a\n  x\n\n     Python, block 1\n1\n"},
    {"$x_1", "Some bold \xE4\xB8\xAD\n- a\n  x\n\n     Python, block 1\n1\n$x_1\n"},       /* a formula is source until it is complete */
    {"$\n\\[\ny", "Some bold \xE4\xB8\xAD\n- a\n  x\n\n     Python, block 1\n1\nx₁\n\\[\ny\n"},
    {"_1\n\\]", "Some bold \xE4\xB8\xAD\n- a\n  x\n\n     Python, block 1\n1\nx₁\n  y₁\n"},
};

static void test_markdown__text_is_there_while_it_arrives(void **state)
{
    struct markdown *m = markdown_open();
    (void)state;
    markdown_width(m, 20, 20);
    for (size_t i = 0; i < sizeof stream / sizeof *stream; i++) {
        markdown_push(m, stream[i].piece, strlen(stream[i].piece));
        assert_string_equal(shown(m, 0, false), stream[i].expected);
    }
    markdown_close(m);
}

static void test_markdown__rows_of_a_formula_are_below_each_other(void **state)
{
    static const struct { const char *source, *expected; } cases[] = {
        {"So $$\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}$$\n", "So \n( 1  2 )\n( 3  4 )\n"},
        {"- $$\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}$$\n", "- ( 1  2 )\n  ( 3  4 )\n"},
        {"So\n\\begin{align}\na &= 12 \\\\\n  &= 10\n\\end{align}\nEnd\n", "So\n  a = 12\n    = 10\nEnd\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct markdown *m = markdown_open();
        markdown_width(m, 30, 30);
        markdown_push(m, cases[i].source, strlen(cases[i].source));
        markdown_end(m);
        assert_string_equal(shown(m, 0, false), cases[i].expected);
        markdown_close(m);
    }
}

static const struct { const char *piece, *expected; } table_stream[] = {
    {"|a|*b*", "|a|*b*\n"},
    {"|\n|-", "|a|*b*|\n|-\n"},
    {"|-|", "|a|*b*|\n|-|-|\n"},
    {"\n", "a  b\n─  ─\n"},
    {"|lo", "a  b\n─  ─\n|lo\n"},
    {"ng|2|", "a  b\n─  ─\n|long|2|\n"},
    {"\n\n", "a     b\n────  ─\nlong  2\n"},
    {"x", "a     b\n────  ─\nlong  2\n\nx\n"},
};

static void test_markdown__a_table_grows_by_whole_rows(void **state)
{
    struct markdown *m = markdown_open();
    (void)state;
    markdown_width(m, 50, 50);
    for (size_t i = 0; i < sizeof table_stream / sizeof *table_stream; i++) {
        markdown_push(m, table_stream[i].piece, strlen(table_stream[i].piece));
        assert_string_equal(shown(m, 0, false), table_stream[i].expected);
    }
    markdown_close(m);
}

static void test_markdown__looks(void **state)
{
    struct markdown *m = open_with("a *b* `c`\n# h\n> q\n", 20);
    (void)state;
    assert_string_equal(shown(m, 20, true), "a b c\n..T.c\n# h\nddH\n│ q\nqqq\n");
    markdown_close(m);
}

static void test_markdown__code_blocks_can_be_had(void **state)
{
    struct markdown *m = open_with("```c++ x\nint\n\n  a;\n```\n\n- b\n  ~~~\n    c\n  ~~~\n\n```\nopen", 40);
    struct buf text = {0}, language = {0};
    (void)state;
    assert_int_equal(markdown_n_blocks(m), 3);
    assert_true(markdown_block(m, 0, &text, &language));
    assert_string_equal(buf_str(&text), "int\n\n  a;\n");
    assert_string_equal(buf_str(&language), "c++");
    buf_reset(&text);
    buf_reset(&language);
    assert_true(markdown_block(m, 1, &text, &language));
    assert_string_equal(buf_str(&text), "  c\n");
    assert_string_equal(buf_str(&language), "");
    assert_true(markdown_block(m, 2, &text, &language));
    assert_string_equal(buf_str(&text), "  c\nopen\n");
    markdown_push(m, "\n```", 4);
    buf_reset(&text);
    assert_true(markdown_block(m, 2, &text, &language));
    assert_string_equal(buf_str(&text), "open\n");
    assert_false(markdown_block(m, 3, &text, &language));
    const struct lines *l = markdown_lines(m);
    assert_int_equal(l->lines[1].block, 0);
    assert_int_equal(l->lines[4].block, -1);
    buf_free(&text);
    buf_free(&language);
    markdown_close(m);
}

static void test_markdown__the_source_can_be_shown(void **state)
{
    struct markdown *m = open_with("# a\n\n*b* ", 40);
    (void)state;
    markdown_raw(m, true);
    assert_string_equal(shown(m, 0, false), "# a\n\n*b* \n");
    markdown_push(m, "c", 1);
    assert_string_equal(shown(m, 0, false), "# a\n\n*b* c\n");
    markdown_raw(m, false);
    assert_string_equal(shown(m, 0, false), "# a\n\nb c\n");
    markdown_close(m);
}

static void test_markdown__another_width_lays_out_again(void **state)
{
    struct markdown *m = open_with("one two three\n\n```\nx\n```\n", 40);
    (void)state;
    shown(m, 0, false);
    markdown_width(m, 8, 8);
    assert_string_equal(shown(m, 0, false), "one two\nthree\n\n block 1\nx\n");
    assert_int_equal(markdown_n_blocks(m), 1);
    markdown_close(m);
}

/* A parser would make two hundred thousand cells of it; more columns are no table to newer releases of md4c. */
static void test_markdown__a_table_of_holes_is_shown_as_source(void **state)
{
    struct buf b = {0};
    (void)state;
    buf_adds(&b, "|a|\n");
    for (int i = 0; i < 100; i++)
        buf_adds(&b, "|-");
    for (int i = 0; i < 2000; i++)
        buf_adds(&b, "\n|b|");
    struct markdown *m = open_with(b.data, 80);
    markdown_end(m);
    assert_int_equal(strncmp(shown(m, 0, false), "|a|\n|-|-|-", 10), 0);
    markdown_close(m);
    buf_free(&b);
}

/* A block longer than BLOCK_LONG is laid out in parts, which does not show. */
static void test_markdown__long_blocks_are_laid_out_in_parts(void **state)
{
    static const char *const first[] = {"w\n", "> w\n", "1. w\n"}, *const more[] = {"*w*\n", "> *w*\n", "   - *w*\n"};
    static const char *const shows[] = {"w", "│ w", "   - w"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct markdown *m = open_with(first[i], 40);
        for (int k = 0; k < 10000; k++)
            markdown_push(m, more[i], strlen(more[i]));
        assert_int_equal(markdown_lines(m)->n, 10001);
        assert_true(markdown_n_final(m) > 5000);
        for (int k = 1; k <= 10000; k++) {
            struct buf b = {0};
            lines_text(markdown_lines(m), k, &b);
            assert_string_equal(buf_str(&b), shows[i]);
            buf_free(&b);
        }
        markdown_push(m, "2. end", 6);
        struct buf b = {0};
        lines_text(markdown_lines(m), 10001, &b);
        assert_string_equal(buf_str(&b), "2. end");
        buf_free(&b);
        markdown_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_markdown__blocks_and_marks),
        cmocka_unit_test(test_markdown__tables_take_the_width_they_need),
        cmocka_unit_test(test_markdown__a_table_has_the_shape_one_asks_for),
        cmocka_unit_test(test_markdown__text_is_there_while_it_arrives),
        cmocka_unit_test(test_markdown__rows_of_a_formula_are_below_each_other),
        cmocka_unit_test(test_markdown__a_table_grows_by_whole_rows),
        cmocka_unit_test(test_markdown__looks),
        cmocka_unit_test(test_markdown__code_blocks_can_be_had),
        cmocka_unit_test(test_markdown__the_source_can_be_shown),
        cmocka_unit_test(test_markdown__another_width_lays_out_again),
        cmocka_unit_test(test_markdown__a_table_of_holes_is_shown_as_source),
        cmocka_unit_test(test_markdown__long_blocks_are_laid_out_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
