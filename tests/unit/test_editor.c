#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ui/tui/editor.h"

static struct editor *e;
static struct cells screen;
static struct buf out;

static int setup(void **state)
{
    (void)state;
    e = editor_open();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    editor_close(e);
    cells_free(&screen);
    buf_free(&out);
    return 0;
}

static void type(const char *s)
{
    editor_insert(e, s, strlen(s));
}

static void paste(const char *s)
{
    editor_paste(e, s, strlen(s));
}

static const char *text(void)
{
    buf_reset(&out);
    editor_text(e, &out);
    return buf_str(&out);
}

/* The draft with a bar where the cursor is. */
static const char *marked(void)
{
    size_t n = 0;
    buf_reset(&out);
    struct buf before = {0};
    editor_before(e, &before);
    n = before.len;
    buf_free(&before);
    editor_text(e, &out);
    struct buf all = {0};
    buf_add(&all, buf_str(&out), n);
    buf_addc(&all, '|');
    buf_adds(&all, buf_str(&out) + n);
    buf_free(&out);
    out = all;
    return out.data;
}

static void times(int n, enum edit what)
{
    while (n--)
        editor_do(e, what);
}

static const char *draw(int rows, int cols)
{
    cells_size(&screen, rows, cols);
    editor_draw(e, &screen, cells_all(&screen), "> ");
    buf_reset(&out);
    cells_dump(&screen, false, &out);
    return buf_str(&out);
}

static void test_editor__motions_and_deletions(void **state)
{
    static const struct row {
        const char *typed;
        enum edit does[4];
        int n;
        const char *expected;
    } rows[] = {
        {"abc", {EDIT_LEFT}, 1, "ab|c"},
        {"ae\xcc\x81", {EDIT_LEFT}, 1, "a|e\xcc\x81"},
        {"ae\xcc\x81", {EDIT_BACKSPACE}, 1, "a|"},
        {"\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7x", {EDIT_START, EDIT_DELETE}, 2, "|x"},
        {"\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa\xf0\x9f\x87\xab\xf0\x9f\x87\xb7", {EDIT_BACKSPACE}, 1, "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa|"},
        {"one two_three", {EDIT_WORD_LEFT}, 1, "one two_|three"},
        {"one two  ", {EDIT_WORD_LEFT}, 1, "one |two  "},
        {"one two", {EDIT_START, EDIT_WORD_RIGHT}, 2, "one| two"},
        {"one two", {EDIT_START, EDIT_WORD_RIGHT, EDIT_WORD_RIGHT, EDIT_WORD_RIGHT}, 4, "one two|"},
        {"\xc3\xa4\xcc\x81rger nicht", {EDIT_START, EDIT_WORD_RIGHT}, 2, "\xc3\xa4\xcc\x81rger| nicht"},
        {"a b-c/d", {EDIT_KILL_WORD_LEFT}, 1, "a b-c/|"},
        {"a b-c/d ", {EDIT_KILL_BIG_WORD_LEFT}, 1, "a |"},
        {"a b", {EDIT_START, EDIT_KILL_WORD_RIGHT}, 2, "| b"},
        {"one\ntwo", {EDIT_LINE_START}, 1, "one\n|two"},
        {"one\ntwo", {EDIT_START, EDIT_LINE_END}, 2, "one|\ntwo"},
        {"one\ntwo", {EDIT_START, EDIT_KILL_LINE_END}, 2, "|\ntwo"},
        {"one\ntwo", {EDIT_START, EDIT_KILL_LINE_END, EDIT_KILL_LINE_END}, 3, "|two"},
        {"one\ntwo", {EDIT_KILL_LINE_START}, 1, "one\n|"},
        {"one\ntwo", {EDIT_KILL_LINE_START, EDIT_KILL_LINE_START}, 2, "one|"},
        {"ab", {EDIT_TRANSPOSE}, 1, "ba|"},
        {"abc", {EDIT_LEFT, EDIT_TRANSPOSE}, 2, "acb|"},
        {"a\nbc", {EDIT_LINE_START, EDIT_TRANSPOSE}, 2, "a\n|bc"},
        {"ab\nc", {EDIT_START, EDIT_LINE_END, EDIT_TRANSPOSE}, 3, "ba|\nc"},
        {"ab", {EDIT_LEFT, EDIT_NEWLINE}, 2, "a\n|b"},
        {"a b c", {EDIT_KILL_WORD_LEFT, EDIT_KILL_WORD_LEFT, EDIT_YANK}, 3, "a b c|"},
        {"a b c", {EDIT_KILL_WORD_LEFT, EDIT_LEFT, EDIT_KILL_WORD_LEFT, EDIT_YANK}, 4, "a b| "},
        {"a b", {EDIT_START, EDIT_KILL_WORD_RIGHT, EDIT_KILL_WORD_RIGHT, EDIT_YANK}, 4, "a b|"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        editor_reset(e);
        type(rows[i].typed);
        for (int k = 0; k < rows[i].n; k++)
            editor_do(e, rows[i].does[k]);
        assert_string_equal(marked(), rows[i].expected);
    }
}

static void test_editor__what_has_nothing_to_do_says_so(void **state)
{
    (void)state;
    for (int what = EDIT_LEFT; what <= EDIT_UNFOLD; what++)
        if (what != EDIT_NEWLINE)
            assert_false(editor_do(e, (enum edit)what));
    assert_true(editor_empty(e));
}

static void test_editor__a_run_of_typing_is_one_step_back(void **state)
{
    (void)state;
    type("a"), type("b"), type("c");
    times(2, EDIT_BACKSPACE);
    type("d");
    assert_string_equal(text(), "ad");
    times(1, EDIT_UNDO);
    assert_string_equal(text(), "a");
    times(1, EDIT_UNDO);
    assert_string_equal(text(), "abc");
    times(1, EDIT_UNDO);
    assert_true(editor_empty(e));
    assert_false(editor_do(e, EDIT_UNDO));
    times(2, EDIT_REDO);
    assert_string_equal(marked(), "a|");
    type("x");
    assert_false(editor_do(e, EDIT_REDO));      /* what was undone is gone with the first new change */
}

static void test_editor__a_move_ends_the_run(void **state)
{
    (void)state;
    type("ab");
    times(1, EDIT_LEFT);
    times(1, EDIT_RIGHT);
    type("c");
    times(1, EDIT_UNDO);
    assert_string_equal(marked(), "ab|");
}

static void test_editor__the_kill_ring_turns(void **state)
{
    (void)state;
    type("one");
    times(1, EDIT_KILL_LINE_START);
    type("two");
    times(1, EDIT_KILL_LINE_START);
    assert_false(editor_do(e, EDIT_YANK_POP));          /* only after a yank */
    times(1, EDIT_YANK);
    assert_string_equal(text(), "two");
    times(1, EDIT_YANK_POP);
    assert_string_equal(text(), "one");
    times(1, EDIT_YANK_POP);
    assert_string_equal(text(), "two");
    editor_reset(e);
    times(1, EDIT_YANK);                        /* the ring outlives the draft */
    assert_string_equal(text(), "two");
}

static void test_editor__controls_are_kept_out(void **state)
{
    (void)state;
    type("a\033[31mb\x7f\tc\nd\r\ne\rf\xc2\x9bg\xffh\x01" "0\x02");
    assert_string_equal(text(), "a[31mb\tc\nd\ne\nfg\xef\xbf\xbdh0");
}

static char long_paste[40 * 8];
static void make_long_paste(int lines)
{
    *long_paste = 0;
    for (int i = 0; i < lines; i++)
        sprintf(long_paste + strlen(long_paste), "row %d\n", i);
}

static void test_editor__a_long_paste_is_one_unit(void **state)
{
    (void)state;
    make_long_paste(21);
    type("see: ");
    paste(long_paste);
    type("!");
    assert_string_equal(draw(1, 60), "> see: [paste 1: 21 lines, 137 bytes]!\n");
    times(2, EDIT_LEFT);
    type("<");
    times(1, EDIT_RIGHT);
    type(">");
    assert_string_equal(draw(1, 60), "> see: <[paste 1: 21 lines, 137 bytes]>!\n");
    times(2, EDIT_BACKSPACE);
    assert_string_equal(text(), "see: <!");
    times(1, EDIT_UNDO);
    assert_string_equal(draw(1, 60), "> see: <[paste 1: 21 lines, 137 bytes]>!\n");
    times(1, EDIT_UNFOLD);
    assert_int_equal(editor_rows(e, 60), 22);
    size_t n = strlen("see: <");
    assert_memory_equal(text() + n, long_paste, strlen(long_paste));
    times(1, EDIT_UNDO);
    assert_int_equal(editor_rows(e, 60), 1);
}

static void test_editor__only_long_pastes_fold(void **state)
{
    (void)state;
    make_long_paste(20);
    paste(long_paste);
    assert_int_equal(editor_rows(e, 60), 21);
    editor_reset(e);
    char *wide = malloc(6101);
    memset(wide, 'x', 6100);
    wide[6100] = 0;
    paste(wide);
    paste(wide);
    assert_string_equal(draw(2, 60), "> [paste 1: 1 line, 6.1 kB][paste 2: 1 line, 6.1 kB]\n\n");
    assert_int_equal(strlen(text()), 12200);
    free(wide);
}

static void test_editor__a_killed_paste_survives_the_draft(void **state)
{
    (void)state;
    make_long_paste(30);
    paste(long_paste);
    times(1, EDIT_KILL_WORD_LEFT);
    editor_reset(e);
    times(1, EDIT_YANK);
    assert_string_equal(text(), long_paste);
}

static void test_editor__setting_can_be_undone_and_the_same_text_keeps_chips(void **state)
{
    (void)state;
    make_long_paste(30);
    paste(long_paste);
    editor_set(e, long_paste);
    assert_int_equal(editor_rows(e, 80), 1);
    editor_set(e, "other");
    assert_string_equal(marked(), "other|");
    times(1, EDIT_UNDO);
    assert_string_equal(text(), long_paste);
}

static void test_editor__completion_sees_a_word(void **state)
{
    (void)state;
    type("/se");
    editor_replace_before(e, 3, "/set ");
    assert_string_equal(marked(), "/set |");
    type("x @src/ma tail");
    times(5, EDIT_LEFT);
    buf_reset(&out);
    editor_word(e, &out);
    assert_string_equal(out.data, "@src/ma");
    editor_replace_before(e, out.len, "@src/main.c");
    assert_string_equal(marked(), "/set x @src/main.c| tail");
    times(1, EDIT_UNDO);
    assert_string_equal(marked(), "/set x @src/ma| tail");
}

static void test_editor__what_is_replaced_ends_at_a_chip(void **state)
{
    (void)state;
    type("see @\"a pa");
    editor_replace_before(e, 6, "@\"a path\"");
    assert_string_equal(marked(), "see @\"a path\"|");
    editor_chip(e, "[chip]", "c", 1);
    type("\xc3\xa4z");
    editor_replace_before(e, 2, "y");               /* half of a character is not taken */
    assert_string_equal(text(), "see @\"a path\"c\xc3\xa4y");
    editor_replace_before(e, 100, "x");
    assert_string_equal(text(), "see @\"a path\"cx");
    times(1, EDIT_KILL_LINE_START);
    editor_replace_before(e, 5, "x");
    assert_string_equal(text(), "x");
}

static void test_editor__rows_break_at_words(void **state)
{
    static const struct row {
        int rows, cols;
        const char *typed, *expected;
        int row, col;                   /* of the cursor */
    } rows[] = {
        {3, 12, "hello world", "> hello\n  world\n\n", 1, 7},
        {2, 12, "123456789", "> 123456789\n\n", 0, 11},         /* the last column is the cursor's */
        {2, 12, "1234567890", "> 123456789\n  0\n", 1, 3},
        {2, 12, "123456789 ", "> 123456789\n\n", 1, 2},
        {3, 12, "a\n\nb", "> a\n\n  b\n", 2, 3},
        {2, 12, "a\tb", "> a   b\n\n", 0, 7},
        {2, 9, "\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97\xe5\xad\x97", "> \xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97\n  \xe5\xad\x97\n", 1, 4},
        {2, 4, "abcde", "abc\nde\n", 1, 2},                     /* too narrow for a sign */
        {1, 1, "ab", "b\n", 0, 0},
        {2, 12, "", ">\n\n", 0, 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        editor_reset(e);
        type(rows[i].typed);
        assert_string_equal(draw(rows[i].rows, rows[i].cols), rows[i].expected);
        assert_int_equal(screen.cursor_row, rows[i].row);
        assert_int_equal(screen.cursor_col, rows[i].col);
    }
}

static void test_editor__up_and_down_keep_the_column(void **state)
{
    (void)state;
    type("long enough\nno\nlong again");
    editor_rows(e, 40);
    times(2, EDIT_LEFT);
    times(1, EDIT_UP);
    assert_string_equal(marked(), "long enough\nno|\nlong again");
    times(1, EDIT_UP);
    assert_string_equal(marked(), "long eno|ugh\nno\nlong again");
    assert_false(editor_do(e, EDIT_UP));
    times(2, EDIT_DOWN);
    assert_string_equal(marked(), "long enough\nno\nlong aga|in");
    assert_false(editor_do(e, EDIT_DOWN));
}

static void test_editor__up_goes_by_what_is_shown(void **state)
{
    (void)state;
    type("hello world again");
    editor_rows(e, 14);                 /* hello world, again */
    times(1, EDIT_UP);
    assert_string_equal(marked(), "hello| world again");
    times(6, EDIT_RIGHT);
    times(1, EDIT_RIGHT);
    assert_string_equal(draw(2, 14), "> hello world\n  again\n");
    assert_int_equal(screen.cursor_row, 1);     /* behind the blank the next row begins */
}

static void test_editor__scrolls_inside_and_keeps_the_cursor_in_view(void **state)
{
    (void)state;
    type("1\n2\n3\n4\n5");
    assert_string_equal(draw(3, 10), "^ 3\n  4\n  5\n");
    times(1, EDIT_START);
    assert_string_equal(draw(3, 10), "> 1\n  2\nv 3\n");
    times(3, EDIT_DOWN);
    assert_string_equal(draw(3, 10), "^ 2\n  3\nv 4\n");
    assert_int_equal(screen.cursor_row, 2);
    assert_string_equal(draw(8, 10), "> 1\n  2\n  3\n  4\n  5\n\n\n\n");
}

static void test_editor__an_endless_word_is_laid_out_only_near_an_edit(void **state)
{
    (void)state;
    enum { N = 100000, WIDTH = 17 };
    char *word = malloc(N + 1);
    for (int i = 0; i < N; i++)
        word[i] = (char)('a' + i % 26);
    word[N] = 0;
    editor_set(e, word);
    int whole = editor_rows(e, WIDTH + 3);
    times(1, EDIT_START);
    type("--");
    int rows = editor_rows(e, WIDTH + 3), downs = 0;
    assert_true(rows >= whole && rows <= whole + 1);
    while (editor_do(e, EDIT_DOWN))
        downs++;
    assert_int_equal(downs, rows - 1);
    times(1, EDIT_END);
    char last[WIDTH + 8];
    snprintf(last, sizeof last, "^ %s\n", word + (N - 1) / WIDTH * WIDTH);
    assert_string_equal(draw(1, WIDTH + 3), last);
    assert_memory_equal(text() + 2, word, N + 1);
    free(word);
}

static void test_editor__a_click_places_the_cursor(void **state)
{
    (void)state;
    type("hello\nyou");
    draw(3, 20);
    editor_click(e, 0, 4);
    assert_string_equal(marked(), "he|llo\nyou");
    editor_click(e, 1, 30);
    assert_string_equal(marked(), "hello\nyou|");
    editor_click(e, -3, -3);
    assert_string_equal(marked(), "|hello\nyou");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(test_editor__##name, setup, teardown)
        T(motions_and_deletions),
        T(what_has_nothing_to_do_says_so),
        T(a_run_of_typing_is_one_step_back),
        T(a_move_ends_the_run),
        T(the_kill_ring_turns),
        T(controls_are_kept_out),
        T(a_long_paste_is_one_unit),
        T(only_long_pastes_fold),
        T(a_killed_paste_survives_the_draft),
        T(setting_can_be_undone_and_the_same_text_keeps_chips),
        T(completion_sees_a_word),
        T(what_is_replaced_ends_at_a_chip),
        T(rows_break_at_words),
        T(up_and_down_keep_the_column),
        T(up_goes_by_what_is_shown),
        T(scrolls_inside_and_keeps_the_cursor_in_view),
        T(an_endless_word_is_laid_out_only_near_an_edit),
        T(a_click_places_the_cursor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
