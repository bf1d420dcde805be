#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ui/tui/pane.h"

static uint32_t seed;

static int draw_lot(int n)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)n);
}

static void append(struct pane *p, int item, const char *text)
{
    pane_append(p, item, text, strlen(text));
}

static int add(struct pane *p, enum item_kind kind, const char *text)
{
    int i = pane_add(p, kind, -1);
    append(p, i, text);
    pane_end(p, i);
    return i;
}

static struct buf shown;

static const char *screen_of(struct pane *p, int rows, int cols, bool looks)
{
    struct cells c = {0};
    cells_size(&c, rows, cols);
    pane_draw(p, &c, cells_all(&c));
    buf_reset(&shown);
    cells_dump(&c, looks, &shown);
    cells_free(&c);
    return buf_str(&shown);
}

static const char *screen(struct pane *p, int rows, int cols)
{
    return screen_of(p, rows, cols, false);
}

/* Row `row` of what screen() gave last. */
static const char *row_of(int row)
{
    static struct buf b;
    const char *s = buf_str(&shown);
    for (; row > 0; row--)
        s = strchr(s, '\n') + 1;
    buf_reset(&b);
    buf_add(&b, s, strcspn(s, "\n"));
    return buf_str(&b);
}

static void expect(struct pane *p, int rows, int cols, const char *want)
{
    assert_string_equal(screen(p, rows, cols), want);
}

/* One of each kind. */
static struct pane *conversation(void)
{
    struct pane *p = pane_open();
    int i = add(p, ITEM_USER, "Why does test_timeline__rewind fail since yesterday? Find out why, and fix it.");
    pane_head(p, i, "<2/3>");
    i = add(p, ITEM_REASONING, "The test counts tokens.\nSo the snapshot was skipped.");
    pane_head(p, i, "thought 11.8 s, 402 tok");
    add(p, ITEM_ANSWER, "I will look at the failing test first.");
    i = pane_call(p, -1, "shell", "{\"command\": \"make test-unit T=timeline\"}");
    append(p, i, "one\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    pane_head(p, i, "exit 2  3.4 s");
    pane_end(p, i);
    i = pane_call(p, -1, "read", "{\"path\": \"src/engine/sequence.c\", \"from\": 120}");
    append(p, i, "static void\n");
    pane_end(p, i);
    add(p, ITEM_ANSWER, "The search uses < where the header promises at or before, so the snapshot at 96 is skipped.");
    add(p, ITEM_NOTE, "saved");
    add(p, ITEM_ERROR, "The disk is full: nothing more is written to the log.");
    add(p, ITEM_OUTPUT, "a  1\nb  2\n");
    return p;
}

static void test_pane__a_conversation_on_80_columns(void **state)
{
    (void)state;
    struct pane *p = conversation();
    expect(p, 24, 80,
           "> Why does test_timeline__rewind fail since yesterday? Find out why, and   <2/3>\n"
           "  fix it.\n"
           "\n"
           "  thought 11.8 s, 402 tok\n"
           "I will look at the failing test first.\n"
           "\n"
           "$ shell make test-unit T=timeline               (Ctrl-O)  exit 2  3.4 s  7 lines\n"
           "read {\"path\": \"src/engine/sequence.c\", \"from\": 120}                = static void\n"
           "\n"
           "The search uses < where the header promises at or before, so the snapshot at 96\n"
           "is skipped.\n"
           "\n"
           "  saved\n"
           "\n"
           "! The disk is full: nothing more is written to the log.\n"
           "\n"
           "a  1\n"
           "b  2\n"
           "\n\n\n\n\n\n");
    pane_close(p);
}

static void test_pane__colours_of_a_tool_are_left_out_and_other_orders_seen(void **state)
{
    (void)state;
    struct pane *p = pane_open();
    int i = pane_call(p, -1, "ls", "{}");
    append(p, i, "\033[1;31mred\033[0m plain \033[2J\033[3");
    expect(p, 3, 40, "$ ls                              1 line\n  red plain ␛[2J␛[3\n\n");
    append(p, i, "8;5;9mx\033[m");
    expect(p, 3, 40, "$ ls                              1 line\n  red plain ␛[2Jx\n\n");
    assert_non_null(strstr(p->items.at[i].source.data, "\033[1;31mred\033[0m"));
    pane_close(p);
}

static void test_pane__a_bar_stands_before_thoughts_where_no_look_tells(void **state)
{
    (void)state;
    struct pane *p = pane_open();
    int i = add(p, ITEM_REASONING, "One thought.\n\nAnother one, which is longer than a row.");
    pane_fold(p, i, false);
    expect(p, 5, 30, "thought\n  One thought.\n\n  Another one, which is longer\n  than a row.\n");
    pane_bars(p, true);
    expect(p, 5, 30, "thought\n| One thought.\n|\n| Another one, which is longer\n| than a row.\n");
    pane_bars(p, false);
    expect(p, 5, 30, "thought\n  One thought.\n\n  Another one, which is longer\n  than a row.\n");
    pane_close(p);
}

static void test_pane__a_conversation_on_40_columns(void **state)
{
    (void)state;
    struct pane *p = conversation();
    expect(p, 12, 40,
           "thought 11.8 s, 402 tok\n"
           "I will look at the failing test first.\n"
           "$ shell make test-unit...  exit 2  3.4 s\n"
           "read {\"path\": \"src/eng...  = static void\n"
           "The search uses < where the header\n"
           "promises at or before, so the snapshot\n"
           "at 96 is skipped.\n"
           "  saved\n"
           "! The disk is full: nothing more is\n"
           "  written to the log.\n"
           "a  1\n"
           "b  2\n");
    pane_close(p);
}

static void test_pane__a_conversation_on_120_columns(void **state)
{
    (void)state;
    struct pane *p = conversation();
    expect(p, 16, 120,
           "> Why does test_timeline__rewind fail since yesterday? Find out why, and fix it.                                   <2/3>\n"
           "\n"
           "  thought 11.8 s, 402 tok\n"
           "I will look at the failing test first.\n"
           "\n"
           "$ shell make test-unit T=timeline                                                       (Ctrl-O)  exit 2  3.4 s  7 lines\n"
           "read {\"path\": \"src/engine/sequence.c\", \"from\": 120}                                                        = static void\n"
           "\n"
           "The search uses < where the header promises at or before, so the snapshot at 96 is skipped.\n"
           "\n"
           "  saved\n"
           "\n"
           "! The disk is full: nothing more is written to the log.\n"
           "\n"
           "a  1\n"
           "b  2\n");
    pane_close(p);
}

/* The same for all sizes: at most these rows and columns are written, and the same twice. */
static void test_pane__every_size_stays_inside_its_area(void **state)
{
    (void)state;
    struct pane *p = conversation();
    struct cells c = {0};
    for (int rows = 1; rows <= 60; rows += rows < 8 ? 1 : 13)
        for (int cols = 1; cols <= 200; cols += cols < 12 ? 1 : 17) {
            cells_size(&c, rows + 2, cols + 2);
            for (int i = 0; i < c.rows * c.cols; i++)
                c.at[i].glyph = (struct glyph){1, 1, "#"};
            pane_draw(p, &c, (struct area){1, 1, rows, cols});
            for (int r = 0; r < c.rows; r++)
                for (int k = 0; k < c.cols; k++) {
                    bool inside = r >= 1 && r <= rows && k >= 1 && k <= cols;
                    assert_true(inside || c.at[r * c.cols + k].glyph.text[0] == '#');
                }
            switch (draw_lot(4)) {
            case 0: pane_scroll(p, draw_lot(9) - 6); break;
            case 1: pane_toggle(p); break;
            case 2: pane_to_end(p); break;
            }
        }
    cells_free(&c);
    pane_close(p);
}

static void test_pane__what_a_message_brought_stands_beside_it_or_above(void **state)
{
    (void)state;
    struct pane *p = pane_open();
    int u = add(p, ITEM_USER, "Review @big.patch for locking mistakes.");
    pane_head(p, u, "big.patch 61.4k tok");
    expect(p, 2, 60, "> Review @big.patch for locking          big.patch 61.4k tok\n  mistakes.\n");
    expect(p, 2, 50, "                               big.patch 61.4k tok\n> Review @big.patch for locking mistakes.\n");
    pane_head(p, u, "");
    expect(p, 2, 60, "> Review @big.patch for locking mistakes.\n\n");
    pane_close(p);
}

static void test_pane__an_item_of_no_text_takes_no_row(void **state)
{
    (void)state;
    struct pane *p = pane_open();
    expect(p, 2, 20, "\n\n");
    assert_int_equal(pane_here(p), -1);
    assert_false(pane_toggle(p));
    pane_scroll(p, -1);
    pane_scroll(p, 5);
    assert_true(p->follows);
    add(p, ITEM_REASONING, "\n\n");
    int answer = pane_add(p, ITEM_ANSWER, 0);
    expect(p, 2, 20, "\n\n");
    append(p, answer, "now");
    expect(p, 2, 20, "now\n\n");
    pane_close(p);
}

static void test_pane__reasoning_under_way_shows_a_third_of_the_view(void **state)
{
    (void)state;
    struct pane *p = pane_open();
    add(p, ITEM_USER, "why?");
    int r = pane_add(p, ITEM_REASONING, 0);
    expect(p, 5, 60, "> why?\n\n  thinking\n\n\n");
    pane_head(p, r, "thinking 1 s");
    for (int i = 1; i < 6; i++) {
        char line[32];
        snprintf(line, sizeof line, "thought %d\n", i);
        append(p, r, line);
    }
    expect(p, 9, 60, "> why?\n\n  thinking 1 s                               Ctrl-O opens it\n\n\n\n\n\n\n");
    assert_true(pane_toggle(p));
    expect(p, 9, 60, "> why?\n\n  thinking 1 s                              Ctrl-O closes it\n  thought 3\n  thought 4\n  thought 5\n\n\n\n");
    pane_head(p, r, "thought 2 s");
    pane_end(p, r);
    expect(p, 9, 60, "> why?\n\n  thought 2 s                               Ctrl-O closes it\n  thought 1\n  thought 2\n  thought 3\n"
                     "  thought 4\n  thought 5\n\n");
    pane_close(p);
}

static void test_pane__a_running_tool_shows_its_last_lines_then_one(void **state)
{
    (void)state;
    struct pane *p = pane_open();
    int call = pane_call(p, 0, "shell", "{\"command\": \"make\"}");
    expect(p, 3, 40, "$ shell make\n\n\n");
    append(p, call, "1\n2\n3\n4\n5\n6\n7");
    expect(p, 7, 40, "$ shell make                     7 lines\n  3\n  4\n  5\n  6\n  7\n\n");
    pane_end(p, call);
    pane_head(p, call, "exit 0  1.2 s");
    expect(p, 7, 40, "$ shell make      exit 0  1.2 s  7 lines\n\n\n\n\n\n\n");
    assert_true(pane_toggle(p));
    expect(p, 8, 40, "$ shell make      exit 0  1.2 s  7 lines\n  1\n  2\n  3\n  4\n  5\n  6\n  7\n");
    pane_close(p);
}

static void test_pane__an_opened_call_shows_what_its_line_had_to_cut(void **state)
{
    (void)state;
    struct pane *p = pane_open();
    int call = pane_call(p, 0, "shell", "{\"command\": \"rm -rf build\\nmake && make install DESTDIR=/\"}");
    pane_end(p, call);
    expect(p, 4, 40, "$ shell rm -rf build...         (Ctrl-O)\n\n\n\n");
    assert_true(pane_toggle(p));
    expect(p, 4, 40, "$ shell rm -rf build...\n  shell rm -rf build\n  make && make install DESTDIR=/\n\n");
    assert_int_equal(pane_find(p, "destdir"), 1);
    pane_close(p);
}

static void test_pane__arguments_show_as_they_are_unless_they_are_one_text(void **state)
{
    (void)state;
    static const struct { const char *arguments, *line; } rows[] = {
        {"{\"q\": \"one two\"}", "$ f one two\n"}, {"{}", "$ f\n"}, {"", "$ f\n"}, {"{\"n\": 1}", "f {\"n\": 1}\n"},
        {"{\"a\": \"b\", \"c\": \"d\"}", "f {\"a\": \"b\", \"c\": \"d\"}\n"}, {"{\"a\": tru", "f {\"a\": tru\n"}, {"[\"x\"]", "f [\"x\"]\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pane *p = pane_open();
        pane_call(p, 0, "f", rows[i].arguments);
        expect(p, 1, 80, rows[i].line);
        pane_close(p);
    }
}

static struct pane *long_message(int lines)
{
    struct pane *p = pane_open();
    int u = pane_add(p, ITEM_USER, 0);
    for (int i = 1; i <= lines; i++) {
        char line[32];
        snprintf(line, sizeof line, "line %d\n", i);
        append(p, u, line);
    }
    pane_end(p, u);
    return p;
}

static void test_pane__a_long_message_folds_to_its_first_rows(void **state)
{
    (void)state;
    struct pane *p = long_message(12);
    screen(p, 14, 40);
    assert_string_equal(row_of(11), "  line 12");
    pane_close(p);
    p = long_message(1234);
    screen(p, 14, 40);
    assert_string_equal(row_of(9), "  line 10");
    assert_string_equal(row_of(10), "  ... 1,224 more lines, Ctrl-O");
    assert_string_equal(row_of(11), "");
    assert_true(pane_toggle(p));
    screen(p, 14, 40);
    assert_string_equal(row_of(0), "> line 1");
    assert_string_equal(row_of(13), "  line 14");
    assert_int_equal(pane_below(p), 1220);
    pane_close(p);
}

/* --- the view --- */

/* A conversation of n turns that are told apart by their numbers; some of it folds. */
static struct pane *turns(int n)
{
    struct pane *p = pane_open();
    char text[400];
    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof text, "question %d?", i);
        add(p, ITEM_USER, text);
        snprintf(text, sizeof text, "thought %d\nand more of it\nand more", i);
        add(p, ITEM_REASONING, text);
        snprintf(text, sizeof text, "Answer %d begins here and has a second line at most widths, since it goes on and on.\n\nIts end, %d.", i, i);
        add(p, ITEM_ANSWER, text);
        int call = pane_call(p, -1, "shell", "{\"command\": \"ls\"}");
        for (int k = 0; k < i % 9; k++) {
            snprintf(text, sizeof text, "file %d of %d\n", k, i);
            append(p, call, text);
        }
        pane_end(p, call);
    }
    return p;
}

/* A row without the hint that one fold of a view has. */
static void plain_row(const char *row, struct buf *out)
{
    static const char *const hints[] = {"(Ctrl-O closes it)", "(Ctrl-O)", "Ctrl-O closes it", "Ctrl-O opens it"};
    buf_reset(out);
    for (size_t at = 0, n = strcspn(row, "\n"); at < n;) {
        size_t skip = 0;
        for (int i = 0; i < 4 && !skip; i++)
            skip = strncmp(row + at, hints[i], strlen(hints[i])) ? 0 : strlen(hints[i]);
        if (!skip && row[at] != ' ')
            buf_addc(out, row[at]);
        at += skip ? skip : 1;
    }
}

static void test_pane__every_scrolled_view_is_a_window_into_the_whole(void **state)
{
    (void)state;
    enum { ROWS = 7, COLS = 44, ALL = 2000 };
    struct pane *p = turns(30);
    struct buf whole = {0};
    buf_adds(&whole, screen(p, ALL, COLS));
    int n = 0, end = 0;
    for (const char *s = whole.data; *s; s = strchr(s, '\n') + 1, n++)
        end = *s == '\n' ? end : n + 1;
    pane_to_end(p);
    screen(p, ROWS, COLS);
    for (int top = end - ROWS; ; top--) {
        const char *want = whole.data;
        for (int i = 0; i < top; i++)
            want = strchr(want, '\n') + 1;
        screen(p, ROWS, COLS);
        const char *got = shown.data;
        struct buf a = {0}, b = {0};
        for (int i = 0; i < ROWS; i++, got = strchr(got, '\n') + 1, want = strchr(want, '\n') + 1) {
            plain_row(got, &a);
            plain_row(want, &b);
            assert_string_equal(buf_str(&a), buf_str(&b));
        }
        buf_free(&a);
        buf_free(&b);
        assert_int_equal(pane_below(p), end - ROWS - top);
        assert_int_equal(p->follows, top == end - ROWS);
        if (!top)
            break;
        pane_scroll(p, -1);
    }
    pane_scroll(p, -5);
    screen(p, ROWS, COLS);
    assert_memory_equal(shown.data, whole.data, shown.len);
    for (int top = 0; top < end - ROWS; top += 5)
        pane_scroll(p, 5);
    assert_true(p->follows);
    buf_free(&whole);
    pane_close(p);
}

static void test_pane__a_size_there_and_back_gives_the_same_cells(void **state)
{
    (void)state;
    struct pane *p = turns(12);
    struct buf before = {0};
    for (int i = 0; i < 400; i++) {
        int rows = 1 + draw_lot(60), cols = 1 + draw_lot(200);
        switch (draw_lot(5)) {
        case 0: pane_to_end(p); break;
        case 1: pane_scroll(p, draw_lot(41) - 20); break;
        case 2: pane_toggle(p); break;
        case 3: pane_to_start(p); break;
        }
        buf_reset(&before);
        buf_adds(&before, screen(p, rows, cols));
        screen(p, 1 + draw_lot(60), 1 + draw_lot(200));
        assert_string_equal(screen(p, rows, cols), before.data);
    }
    buf_free(&before);
    pane_close(p);
}

/* Item of the top row, and its first byte there. */
static struct pane_place top(struct pane *p)
{
    struct pane_place place = {-1, 0, 0};
    if (!pane_at(p, 0, 0, &place.item, &place.at))
        place.at = 0;
    return place;
}

static void grow(struct pane *p, int live)
{
    switch (draw_lot(6)) {
    case 0: append(p, live, " and some more words"); break;
    case 1: append(p, live, "\n\nAnother paragraph."); break;
    case 2: add(p, ITEM_USER, "a question that came later"); break;
    case 3: pane_head(p, live, draw_lot(2) ? "<1/2>" : ""); break;
    case 4: pane_append(p, pane_add(p, ITEM_REASONING, 0), "new", 3); break;
    case 5: pane_end(p, pane_call(p, 0, "f", "{}")); break;
    }
}

static void test_pane__nothing_moves_a_view_that_does_not_follow(void **state)
{
    (void)state;
    struct pane *p = turns(20);
    int live = pane_add(p, ITEM_ANSWER, 0);
    append(p, live, "It begins.");
    screen(p, 20, 80);
    for (int i = 0; i < 600; i++) {
        if (draw_lot(20) == 0) {
            pane_scroll(p, -1 - draw_lot(30));
            screen(p, 20, 80);
            if (p->follows)
                pane_scroll(p, -30);
        }
        screen(p, 20, 80);
        struct pane_place was = top(p);
        struct buf row = {0};
        buf_adds(&row, row_of(0));
        bool followed = p->follows;
        int other = draw_lot(p->items.n);
        if (draw_lot(2))
            grow(p, live);
        else if (other != was.item)
            pane_fold(p, other, draw_lot(2));
        if (draw_lot(3) == 0)
            screen(p, 1 + draw_lot(40), 1 + draw_lot(120));
        screen(p, 20, 80);
        if (!followed) {
            assert_false(p->follows);
            assert_int_equal(top(p).item, was.item);
            assert_int_equal(top(p).at, was.at);
            assert_string_equal(row_of(0), row.data);
        }
        buf_free(&row);
    }
    pane_close(p);
}

static void test_pane__details_open_and_close_below_a_head_that_stays(void **state)
{
    (void)state;
    struct pane *p = turns(6);
    for (int up = 0; up < 30; up += 3) {
        pane_to_end(p);
        screen(p, 16, 70);
        pane_scroll(p, -up);
        struct buf before = {0}, row = {0};
        buf_adds(&before, screen(p, 16, 70));
        assert_true(pane_toggle(p));
        screen(p, 16, 70);
        buf_adds(&row, row_of(0));
        assert_memory_equal(before.data, row.data, row.len < 12 ? row.len : 12);       /* it may be the head itself */
        p->walks = false;
        assert_true(pane_toggle(p));
        assert_string_equal(screen(p, 16, 70), before.data);
        buf_free(&before);
        buf_free(&row);
    }
    pane_close(p);
}

/* Which row names the key; -1: none.  No two do. */
static int hinted_row(int rows)
{
    int at = -1;
    for (int i = 0; i < rows; i++)
        if (strstr(row_of(i), "Ctrl-O")) {
            assert_int_equal(at, -1);
            at = i;
        }
    return at;
}

static void test_pane__every_fold_is_reached_upwards_and_only_the_next_one_says_so(void **state)
{
    enum { ROWS = 30, COLS = 70 };
    static const char *const heads[] = {"$ second", "$ first", "  notes.txt  4 bytes", "  a thought"};
    (void)state;
    struct pane *p = pane_open();
    add(p, ITEM_USER, "question");
    pane_head(p, add(p, ITEM_REASONING, "thinking hard"), "a thought");
    pane_head(p, add(p, ITEM_FILE, "text"), "notes.txt  4 bytes");
    int first = pane_call(p, 0, "first", "{}");
    append(p, first, "one\nmore");
    pane_end(p, first);
    int second = pane_call(p, 0, "second", "{}");
    append(p, second, "two\nmore");
    pane_end(p, second);
    add(p, ITEM_ANSWER, "Done.");
    struct buf shut = {0};
    buf_adds(&shut, screen(p, ROWS, COLS));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(strncmp(row_of(hinted_row(ROWS)), heads[i], strlen(heads[i])), 0);
        assert_true(pane_toggle(p));
        screen(p, ROWS, COLS);
        for (int k = 0; k < ROWS; k++)                  /* the others are shut again */
            if (!strncmp(row_of(k), heads[i], strlen(heads[i])))
                assert_non_null(strstr("  two  one  text  thinking hard", row_of(k + 1)));
        assert_true(hinted_row(ROWS) >= 0);
    }
    assert_non_null(strstr(row_of(hinted_row(ROWS)), "closes it"));
    assert_true(pane_toggle(p));        /* behind the topmost none is open */
    assert_string_equal(screen(p, ROWS, COLS), shut.data);
    assert_true(pane_toggle(p));
    p->walks = false;                       /* another key: now it closes what it opened */
    screen(p, ROWS, COLS);
    assert_string_equal(row_of(hinted_row(ROWS) + 1), "  two");
    assert_true(pane_toggle(p));
    assert_string_equal(screen(p, ROWS, COLS), shut.data);
    buf_free(&shut);
    pane_close(p);
}

static void test_pane__a_fold_is_chosen_and_opened_where_it_is_clicked(void **state)
{
    (void)state;
    struct pane *p = turns(9);
    screen(p, 12, 70);
    for (int i = 0; i < 40 && pane_choose_fold(p, -1); i++)
        screen(p, 12, 70);
    assert_int_equal(pane_here(p), 1);                  /* the first thought */
    assert_false(pane_choose_fold(p, -1));
    assert_false(p->follows);
    pane_toggle_fold(p, pane_here(p));
    screen(p, 12, 70);
    assert_non_null(strstr(shown.data, "  thought 0\n  and more of it\n"));
    assert_true(pane_choose_fold(p, 1));
    assert_int_equal(pane_here(p), 5);
    screen(p, 12, 70);
    int row = 0;
    while (strncmp(row_of(row), "  thought", 9) || !strstr(row_of(row), "Ctrl-O"))
        row++;
    assert_int_equal(pane_fold_at(p, row), 5);
    assert_int_equal(pane_fold_at(p, row + 1), -1);     /* the answer */
    pane_close(p);
}

static void test_pane__details_out_of_view_come_into_it(void **state)
{
    (void)state;
    struct pane *p = pane_open();
    add(p, ITEM_REASONING, "an old thought");
    for (int i = 0; i < 30; i++)
        add(p, ITEM_USER, "hello");
    screen(p, 10, 60);
    assert_true(pane_toggle(p));
    screen(p, 10, 60);
    assert_string_equal(row_of(1), "  an old thought");
    assert_true(pane_toggle(p));
    screen(p, 10, 60);
    assert_string_equal(row_of(0), "  thought                                    Ctrl-O opens it");
    pane_close(p);
}

static void test_pane__a_following_view_never_moves_text_down(void **state)
{
    (void)state;
    struct pane *p = pane_open();
    add(p, ITEM_USER, "question");
    int call = pane_call(p, 0, "f", "{}");
    append(p, call, "1\n2\n3\n4\n5\n");
    expect(p, 6, 60, "$ f                                                  5 lines\n  1\n  2\n  3\n  4\n  5\n");
    pane_end(p, call);                  /* five rows fold away: they stay empty */
    expect(p, 6, 60, "$ f                                        (Ctrl-O)  5 lines\n\n\n\n\n\n");
    assert_true(p->follows);
    int answer = pane_add(p, ITEM_ANSWER, 0);
    append(p, answer, "one\n\ntwo");
    expect(p, 6, 60, "$ f                                        (Ctrl-O)  5 lines\n\none\n\ntwo\n\n");
    append(p, answer, "\n\nthree");
    expect(p, 6, 60, "\none\n\ntwo\n\nthree\n");
    pane_close(p);
}

static void test_pane__the_end_comes_back_with_a_larger_screen(void **state)
{
    (void)state;
    struct pane *p = turns(10);
    screen(p, 20, 80);
    screen(p, 8, 80);
    screen(p, 8, 80);
    screen(p, 20, 80);
    assert_string_not_equal(row_of(19), "");
    assert_true(p->follows);
    pane_close(p);
}

static void test_pane__marks_go_to_heads_of_messages(void **state)
{
    (void)state;
    struct pane *p = turns(9);
    screen(p, 10, 80);
    struct pane_place mark = pane_place(p);
    pane_to_start(p);
    screen(p, 10, 80);
    assert_string_equal(row_of(0), "> question 0?");
    assert_int_equal(pane_here(p), 0);
    pane_go(p, mark);
    screen(p, 10, 80);
    assert_int_equal(pane_below(p), 0);
    p->chosen = 0;                  /* out of view: it does not count */
    assert_int_not_equal(pane_here(p), 0);
    pane_close(p);
}

static void test_pane__a_cut_forgets_what_follows(void **state)
{
    (void)state;
    struct pane *p = turns(5);
    screen(p, 10, 80);
    pane_scroll(p, -2);
    pane_find(p, "answer");
    int which;
    assert_true(pane_find_next(p, -1, &which));
    pane_cut(p, 4);
    assert_int_equal(p->items.n, 4);
    assert_true(p->follows);
    assert_int_equal(pane_find(p, "answer"), 1);
    screen(p, 10, 80);
    assert_string_equal(row_of(0), "> question 0?");
    pane_reset(p);
    expect(p, 1, 10, "\n");
    pane_close(p);
}

/* Pieces of markdown, of characters, and bytes that are none. */
static void hostile_text(struct pane *p, int item)
{
    static const char *const pieces[] = {
        "word ", "a longer-word ", "\n", "\n\n", "**", "`", "```c\n", "\n```\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "- ", "1. ", "> ", "# ", "\t",
        "\r\n",
        "\xe4\xb8\xad\xe6\x96\x87", "e\xcc\x81", "\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9", "\xe2\x80\xae", "\x1b[31m", "\xff", "\xe4\xb8",
        "\xc2\x9b", "\xcc\x81",
    };
    for (int n = draw_lot(30); n > 0; n--)
        append(p, item, pieces[draw_lot(sizeof pieces / sizeof *pieces)]);
}

static void hostile_step(struct pane *p)
{
    int n = p->items.n, item = n ? draw_lot(n) : 0, which;
    size_t at;
    switch (draw_lot(16)) {
    case 0: case 1: case 2:
        hostile_text(p, pane_add(p, (enum item_kind[]){ITEM_USER, ITEM_REASONING, ITEM_ANSWER, ITEM_NOTE, ITEM_OUTPUT}[draw_lot(5)], -1));
        break;
    case 3: hostile_text(p, pane_call(p, -1, "f", draw_lot(2) ? "{\"a\": \"x\\ny\\u0007\"}" : "{\"n\": [1, 2]}")); break;
    case 4: case 5: if (n) hostile_text(p, item); break;
    case 6: if (n) pane_end(p, item); break;
    case 7: if (n) pane_head(p, item, draw_lot(2) ? "\x1b]0;title\x07 and more" : ""); break;
    case 8: if (n) pane_fold(p, item, draw_lot(2)); break;
    case 9: pane_toggle(p); break;
    case 10: pane_scroll(p, draw_lot(60) - 30); break;
    case 11:
        pane_find(p, (const char *[]){"", "word", "A", "\xe4\xb8\xad", " a"}[draw_lot(5)]);
        pane_find_next(p, draw_lot(2) ? 1 : -1, &which);
        break;
    case 12: pane_at(p, draw_lot(40), draw_lot(90), &item, &at); pane_here(p); pane_n_blocks(p); break;
    case 13: if (n) pane_tint(p, item, &(struct pane_tint){(size_t)draw_lot(50), (size_t)draw_lot(50), STYLE_drafted}, 1); break;
    case 14: if (n && draw_lot(4) == 0) pane_cut(p, item); break;
    case 15: pane_raw(p, draw_lot(2)); pane_tables(p, (enum table_shape)draw_lot(4)); break;
    }
}

static void test_pane__hostile_text_and_random_steps_keep_all_promises(void **state)
{
    (void)state;
    struct buf before = {0};
    for (int round = 0; round < 30; round++) {
        struct pane *p = pane_open();
        for (int i = 0; i < 150; i++) {
            hostile_step(p);
            int rows = 1 + draw_lot(40), cols = 1 + draw_lot(100);
            buf_reset(&before);
            buf_adds(&before, screen_of(p, rows, cols, true));
            for (const char *s = before.data; *s; s++)
                assert_true((unsigned char)*s >= ' ' || *s == '\n');
            screen(p, 1 + draw_lot(40), 1 + draw_lot(100));
            assert_string_equal(screen_of(p, rows, cols, true), before.data);
            if (p->follows && p->items.n)
                assert_int_equal(pane_below(p), 0);
        }
        pane_close(p);
    }
    buf_free(&before);
}

/* --- sources --- */

static void test_pane__the_source_comes_back_byte_by_byte(void **state)
{
    (void)state;
    static const char text[] = "  **bold**\t\n\n\n```c\nint x;\n```\n\x1b[31m trailing  \n\n";
    struct pane *p = pane_open();
    for (enum item_kind kind = 0; kind <= ITEM_OUTPUT; kind++) {
        if (kind == ITEM_CALL)
            continue;
        int i = add(p, kind, text);
        screen(p, 5, 7);
        assert_string_equal(p->items.at[i].source.data, text);
    }
    pane_close(p);
}

static void test_pane__the_newest_whole_sentence_of_a_thought(void **state)
{
    (void)state;
    static const struct { const char *text, *sentence; } rows[] = {
        {"", NULL}, {"Only begun", NULL}, {"It is done. And", "It is done."}, {"First one. Second of\nthem. Then", "Second of"},
        {"A long line without a stop\n\nNext", "A long line without a stop"}, {"It is 3.5 times as large. So", "It is 3.5 times as large."},
        {"- a point of a list\n- ", "a point of a list"}, {"Checking the bound. So\n", "Checking the bound."},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pane *p = pane_open();
        struct buf out = {0};
        int item = add(p, ITEM_REASONING, rows[i].text);
        const struct buf *source = &p->items.at[item].source;
        assert_int_equal(excerpt_sentence(buf_str(source), source->len, &out), rows[i].sentence != NULL);
        assert_string_equal(buf_str(&out), rows[i].sentence ? rows[i].sentence : "");
        buf_free(&out);
        pane_close(p);
    }
}

static void test_pane__cells_know_their_place_in_the_source(void **state)
{
    (void)state;
    struct pane *p = pane_open();
    add(p, ITEM_USER, "one two three");
    int item;
    size_t at;
    expect(p, 3, 9, "> one two\n  three\n\n");
    assert_true(pane_at(p, 0, 6, &item, &at));
    assert_int_equal(at, 4);
    assert_true(pane_at(p, 1, 4, &item, &at));
    assert_int_equal(at, 10);
    assert_true(pane_at(p, 1, 99, &item, &at));
    assert_int_equal(at, 12);
    assert_false(pane_at(p, 2, 0, &item, &at));
    pane_close(p);
}

static void test_pane__tints_hits_and_selection_lie_above_each_other(void **state)
{
    (void)state;
    struct pane *p = pane_open();
    int i = add(p, ITEM_USER, "one two three four");
    pane_tint(p, i, (struct pane_tint[]){{0, 3, STYLE_drafted}, {4, 9, STYLE_looked_up}}, 2);
    assert_string_equal(screen_of(p, 2, 12, true), "> one two\nppdddulll\n  three four\n..llllluuuuu\n");
    pane_find(p, "two t");              /* over the soft break */
    assert_string_equal(screen_of(p, 2, 12, true), "> one two\nppdddufff\n  three four\n..flllluuuuu\n");
    pane_select(p, i, 5, 2);
    assert_string_equal(screen_of(p, 2, 12, true), "> one two\nppdddufss\n  three four\n..flllluuuuu\n");
    pane_tint(p, i, NULL, 0);
    pane_find(p, "");
    pane_select(p, i, 0, 0);
    assert_string_equal(screen_of(p, 2, 12, true), "> one two\nppuuuuuuu\n  three four\n..uuuuuuuuuu\n");
    p->chosen = i;
    assert_string_equal(screen_of(p, 2, 12, true), "> one two\nssssssssssss\n  three four\n..uuuuuuuuuu\n");
    pane_close(p);
}

/* --- search --- */

static void test_pane__a_search_goes_round_and_opens_what_hides_a_hit(void **state)
{
    (void)state;
    struct pane *p = pane_open();
    int which = 0;
    add(p, ITEM_USER, "apple and pear");
    int thought = add(p, ITEM_REASONING, "the apple is red");
    add(p, ITEM_ANSWER, "no fruit");
    int call = pane_call(p, 0, "f", "{}");
    append(p, call, "an APPLE");
    pane_end(p, call);
    screen(p, 20, 80);
    assert_int_equal(pane_find(p, "Apple"), 0);         /* a capital makes case count */
    assert_false(pane_find_next(p, 1, &which));
    assert_int_equal(pane_find(p, "apple"), 3);
    for (int i = 0; i < 4; i++) {
        assert_true(pane_find_next(p, 1, &which));
        assert_int_equal(which, i % 3 + 1);
    }
    assert_true(pane_find_next(p, -1, &which));
    assert_int_equal(which, 3);
    screen(p, 20, 80);
    assert_non_null(strstr(shown.data, "the apple is red"));
    assert_non_null(strstr(shown.data, "an APPLE"));
    pane_fold(p, thought, true);
    assert_int_equal(pane_find(p, "pear\nthe"), 0);     /* not across items */
    pane_close(p);
}

static void test_pane__a_search_begins_at_the_view(void **state)
{
    (void)state;
    struct pane *p = pane_open();
    int i = pane_add(p, ITEM_OUTPUT, 0), which;
    for (int k = 0; k < 100; k++)
        append(p, i, "a word in a row\n");
    screen(p, 10, 60);
    pane_scroll(p, -40);                /* rows 50 to 59 */
    assert_int_equal(pane_find(p, "word"), 100);
    assert_true(pane_find_next(p, 1, &which));
    assert_int_equal(which, 51);
    pane_find(p, "row");
    assert_true(pane_find_next(p, -1, &which));
    assert_int_equal(which, 50);
    pane_close(p);
}

static void test_pane__a_hit_far_away_comes_into_view(void **state)
{
    (void)state;
    struct pane *p = turns(200);
    int which;
    screen(p, 12, 80);
    assert_int_equal(pane_find(p, "question 77?"), 1);
    assert_true(pane_find_next(p, 1, &which));
    screen(p, 12, 80);
    assert_string_equal(row_of(4), "> question 77?");
    assert_int_equal(pane_find(p, "and more of it"), 200);
    assert_true(pane_find_next(p, 1, &which));
    assert_int_equal(which, 78);
    screen(p, 12, 80);
    assert_non_null(strstr(shown.data, "  and more of it"));
    assert_true(pane_find_next(p, -1, &which));
    assert_int_equal(which, 77);
    pane_close(p);
}

static void test_pane__nothing_is_shown_below_what_covers_the_last_rows(void **state)
{
    (void)state;
    struct pane *p = turns(30);
    screen(p, 20, 80);
    p->covered = 11;
    for (int i = 4 * 29; i >= 0; i -= 4) {
        char question[32];
        pane_show(p, i, 0);
        screen(p, 20, 80);
        snprintf(question, sizeof question, "> question %d?", i / 4);
        const char *found = strstr(shown.data, question);
        int row = 0;
        assert_non_null(found);
        for (const char *s = shown.data; s < found; s++)
            row += *s == '\n';
        assert_true(row < 9);
    }
    pane_close(p);
}

static void test_pane__hits_of_a_text_that_grows_are_those_of_the_whole(void **state)
{
    (void)state;
    static const char *const words[] = {"ab", "a", "b", " ", "*", "\n", "B", "aab"}, *const searches[] = {"ab", "aab", "a b", "b a", "AB", "ab "};
    for (int round = 0; round < 200; round++) {
        struct pane *grown = pane_open(), *whole = pane_open();
        const char *what = searches[draw_lot(6)];
        int i = pane_add(grown, ITEM_ANSWER, 0);
        pane_find(grown, what);
        for (int k = draw_lot(60); k > 0; k--) {
            append(grown, i, words[draw_lot(8)]);
            if (draw_lot(2))
                pane_find(grown, what);
        }
        add(whole, ITEM_ANSWER, buf_str(&grown->items.at[i].source));
        assert_int_equal(pane_find(grown, what), pane_find(whole, what));
        pane_close(grown);
        pane_close(whole);
    }
}

static void test_pane__what_is_far_away_is_forgotten(void **state)
{
    (void)state;
    struct pane *p = turns(8000);
    size_t most = 0;
    screen(p, 24, 80);
    for (int i = 0; i < 3000; i++) {
        pane_scroll(p, -20);
        screen(p, 24, 80);
        most = p->items.cached > most ? p->items.cached : most;
    }
    assert_true(most > 1 << 20);
    assert_true(most < 9 << 20);
    pane_to_end(p);
    screen(p, 24, 80);
    assert_true(p->items.cached < 9 << 20);
    pane_cut(p, 1);
    screen(p, 24, 80);
    assert_true(p->items.cached > 0 && p->items.cached < 4096);
    pane_reset(p);
    assert_int_equal(p->items.cached, 0);
    pane_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pane__a_conversation_on_80_columns),
        cmocka_unit_test(test_pane__colours_of_a_tool_are_left_out_and_other_orders_seen),
        cmocka_unit_test(test_pane__a_bar_stands_before_thoughts_where_no_look_tells),
        cmocka_unit_test(test_pane__a_conversation_on_40_columns),
        cmocka_unit_test(test_pane__a_conversation_on_120_columns),
        cmocka_unit_test(test_pane__every_size_stays_inside_its_area),
        cmocka_unit_test(test_pane__what_a_message_brought_stands_beside_it_or_above),
        cmocka_unit_test(test_pane__an_item_of_no_text_takes_no_row),
        cmocka_unit_test(test_pane__reasoning_under_way_shows_a_third_of_the_view),
        cmocka_unit_test(test_pane__a_running_tool_shows_its_last_lines_then_one),
        cmocka_unit_test(test_pane__an_opened_call_shows_what_its_line_had_to_cut),
        cmocka_unit_test(test_pane__arguments_show_as_they_are_unless_they_are_one_text),
        cmocka_unit_test(test_pane__a_long_message_folds_to_its_first_rows),
        cmocka_unit_test(test_pane__every_scrolled_view_is_a_window_into_the_whole),
        cmocka_unit_test(test_pane__a_size_there_and_back_gives_the_same_cells),
        cmocka_unit_test(test_pane__nothing_moves_a_view_that_does_not_follow),
        cmocka_unit_test(test_pane__details_open_and_close_below_a_head_that_stays),
        cmocka_unit_test(test_pane__details_out_of_view_come_into_it),
        cmocka_unit_test(test_pane__every_fold_is_reached_upwards_and_only_the_next_one_says_so),
        cmocka_unit_test(test_pane__a_fold_is_chosen_and_opened_where_it_is_clicked),
        cmocka_unit_test(test_pane__a_following_view_never_moves_text_down),
        cmocka_unit_test(test_pane__the_end_comes_back_with_a_larger_screen),
        cmocka_unit_test(test_pane__marks_go_to_heads_of_messages),
        cmocka_unit_test(test_pane__a_cut_forgets_what_follows),
        cmocka_unit_test(test_pane__hostile_text_and_random_steps_keep_all_promises),
        cmocka_unit_test(test_pane__the_source_comes_back_byte_by_byte),
        cmocka_unit_test(test_pane__the_newest_whole_sentence_of_a_thought),
        cmocka_unit_test(test_pane__cells_know_their_place_in_the_source),
        cmocka_unit_test(test_pane__tints_hits_and_selection_lie_above_each_other),
        cmocka_unit_test(test_pane__a_search_goes_round_and_opens_what_hides_a_hit),
        cmocka_unit_test(test_pane__a_search_begins_at_the_view),
        cmocka_unit_test(test_pane__a_hit_far_away_comes_into_view),
        cmocka_unit_test(test_pane__nothing_is_shown_below_what_covers_the_last_rows),
        cmocka_unit_test(test_pane__hits_of_a_text_that_grows_are_those_of_the_whole),
        cmocka_unit_test(test_pane__what_is_far_away_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
