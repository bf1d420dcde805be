/* Random actions (the same ones each time), for two seconds, on an editor and on a model of it: a string, a cursor and copies of
 * both for undo.  Then enough undos give the empty draft and as many redos the end again, and whatever size it is drawn in,
 * nothing is written outside and the cursor stands inside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/unicode.h"
#include "tests/fuzz/long_run.h"
#include "ui/tui/editor.h"

static uint64_t rnd_state = 11;
static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rnd_state >> 32) * below >> 32);
}

/* --- the model -------------------------------------------------------------------------------------------------- */

/* A chip is one of these, which no cluster reaches across and which the bits do not have. */
static const char *const signs[] = {"\xef\xbf\xb9", "\xef\xbf\xba", "\xef\xbf\xbb"};
enum { SIGN_BYTES = 3, N_SIGNS = 3, MAX_TEXT = 4096, MAX_STEPS = 1024, KILLS = 32 };

struct text { char s[MAX_TEXT]; size_t n, cursor; };

enum last { OTHER, TYPED, BACKSPACE, DELETE, KILL, YANK };

static struct model {
    struct text now, past[MAX_STEPS], future[MAX_STEPS];
    int n_past, n_future;
    size_t before[MAX_STEPS], after[MAX_STEPS];         /* where the cursor was around step i */
    enum last last;
    bool apart;                         /* the cursor moved on after typing: the next character is a new step */
    struct text kills[KILLS];
    int n_kills, yanked;
    size_t yank_at;
    int n_chips;
} m;

static struct buf chips[N_SIGNS];

static size_t unit_end(const struct text *t, size_t at)
{
    struct glyph g;
    return at < t->n ? at + glyph_next(t->s + at, t->n - at, &g) : at;
}

static size_t unit_start(const struct text *t, size_t at)
{
    size_t i = 0;
    while (i < at && unit_end(t, i) < at)
        i = unit_end(t, i);
    return i;
}

static size_t up_to_unit(const struct text *t, size_t at)
{
    size_t i = 0;
    while (i < at)
        i = unit_end(t, i);
    return i;
}

static bool is_sign(const struct text *t, size_t at)
{
    return t->n - at >= SIGN_BYTES && !memcmp(t->s + at, signs[0], SIGN_BYTES - 1) && (unsigned char)t->s[at + 2] >= 0xB9 &&
           (unsigned char)t->s[at + 2] <= 0xBB;
}

static bool word_at(const struct text *t, size_t at, bool big)
{
    uint32_t cp;
    unicode_decode(t->s + at, t->n - at, &cp, NULL);
    enum unicode_class c = unicode_class(cp);
    return big ? c != UNICODE_SPACE : c == UNICODE_LETTER || c == UNICODE_NUMBER || c == UNICODE_MARK;
}

static size_t back(const struct text *t, size_t at)
{
    do
        at--;
    while (at && ((unsigned char)t->s[at] & 0xC0) == 0x80);
    return at;
}

static size_t word_left(const struct text *t, bool big)
{
    size_t at = t->cursor;
    while (at && !is_sign(t, back(t, at)) && !word_at(t, back(t, at), big))
        at = back(t, at);
    if (at && is_sign(t, back(t, at)))
        return at - SIGN_BYTES;
    while (at && !is_sign(t, back(t, at)) && word_at(t, back(t, at), big))
        at = back(t, at);
    return up_to_unit(t, at) == at ? at : unit_start(t, up_to_unit(t, at));
}

static size_t word_right(const struct text *t)
{
    uint32_t cp;
    size_t at = t->cursor;
    while (at < t->n && !is_sign(t, at) && !word_at(t, at, false))
        at += unicode_decode(t->s + at, t->n - at, &cp, NULL);
    if (at < t->n && is_sign(t, at))
        return at + SIGN_BYTES;
    while (at < t->n && !is_sign(t, at) && word_at(t, at, false))
        at += unicode_decode(t->s + at, t->n - at, &cp, NULL);
    return up_to_unit(t, at);
}

static size_t line_start(const struct text *t)
{
    size_t at = t->cursor;
    while (at && t->s[at - 1] != '\n')
        at--;
    return at;
}

static size_t line_end(const struct text *t)
{
    size_t at = t->cursor;
    while (at < t->n && t->s[at] != '\n')
        at++;
    return at;
}

static void change(size_t at, size_t removed, const char *with, size_t n, enum last kind)
{
    bool joins = (kind == TYPED || kind == BACKSPACE || kind == DELETE) && m.last == kind && !m.apart && m.n_past;
    if (!joins) {
        m.before[m.n_past] = m.now.cursor;
        m.past[m.n_past++] = m.now;
    }
    m.n_future = 0;
    struct text *t = &m.now;
    memmove(t->s + at + n, t->s + at + removed, t->n - at - removed);
    memcpy(t->s + at, with, n);
    t->n += n - removed;
    t->cursor = up_to_unit(t, at + n);
    m.after[m.n_past - 1] = t->cursor;
    m.apart = t->cursor != at + n;
    m.last = kind;
}

static bool cut(size_t from, size_t to, enum last kind)
{
    if (from == to)
        return false;
    change(from, to - from, "", 0, kind);
    return true;
}

static bool kill(size_t from, size_t to)
{
    if (from == to)
        return false;
    if (m.last != KILL) {
        memmove(m.kills + 1, m.kills, (KILLS - 1) * sizeof *m.kills);
        m.kills[0].n = 0;
        m.n_kills += m.n_kills < KILLS;
    }
    struct text *k = &m.kills[0];
    size_t n = to - from, where = from < m.now.cursor ? 0 : k->n;
    memmove(k->s + where + n, k->s + where, k->n - where);
    memcpy(k->s + where, m.now.s + from, n);
    k->n += n;
    return cut(from, to, KILL);
}

static bool yank(int which, size_t at, size_t removed)
{
    if (!m.n_kills)
        return false;
    change(at, removed, m.kills[which].s, m.kills[which].n, YANK);
    m.yanked = which;
    m.yank_at = at;
    return true;
}

static bool transpose(void)
{
    struct text *t = &m.now;
    size_t mid = t->cursor, start = line_start(t);
    if (mid > start && mid == line_end(t))
        mid = unit_start(t, mid);
    if (mid == start)
        return false;
    size_t from = unit_start(t, mid), to = unit_end(t, mid);
    char swapped[MAX_TEXT];
    memcpy(swapped, t->s + mid, to - mid);
    memcpy(swapped + (to - mid), t->s + from, mid - from);
    change(from, to - from, swapped, to - from, OTHER);
    return true;
}

static bool unfold(void)
{
    struct text *t = &m.now;
    size_t at = t->cursor;
    if (at == t->n || !is_sign(t, at)) {
        do {
            if (!at)
                return false;
            at = back(t, at);
        } while (!is_sign(t, at));
    }
    const struct buf *full = &chips[(unsigned char)t->s[at + 2] - 0xB9];
    change(at, SIGN_BYTES, full->data, full->len, OTHER);
    return true;
}

static bool move(size_t to)
{
    bool moved = to != m.now.cursor;
    m.now.cursor = to;
    return moved;
}

static bool undo(void)
{
    if (!m.n_past)
        return false;
    m.future[m.n_future++] = m.now;
    m.now = m.past[--m.n_past];
    m.now.cursor = m.before[m.n_past];
    return true;
}

static bool redo(void)
{
    if (!m.n_future)
        return false;
    m.past[m.n_past++] = m.now;
    m.now = m.future[--m.n_future];
    m.now.cursor = m.after[m.n_past - 1];
    return true;
}

static bool act(enum edit what)
{
    struct text *t = &m.now;
    size_t at = t->cursor, start = line_start(t), end = line_end(t);
    switch (what) {
    case EDIT_LEFT:               return move(at ? unit_start(t, at) : 0);
    case EDIT_RIGHT:              return move(unit_end(t, at));
    case EDIT_WORD_LEFT:          return move(word_left(t, false));
    case EDIT_WORD_RIGHT:         return move(word_right(t));
    case EDIT_LINE_START:         return move(start);
    case EDIT_LINE_END:           return move(end);
    case EDIT_START:              return move(0);
    case EDIT_END:                return move(t->n);
    case EDIT_BACKSPACE:          return cut(at ? unit_start(t, at) : 0, at, BACKSPACE);
    case EDIT_DELETE:             return cut(at, unit_end(t, at), DELETE);
    case EDIT_KILL_WORD_LEFT:     return kill(word_left(t, false), at);
    case EDIT_KILL_BIG_WORD_LEFT: return kill(word_left(t, true), at);
    case EDIT_KILL_WORD_RIGHT:    return kill(at, word_right(t));
    case EDIT_KILL_LINE_END:      return kill(at, at == end ? unit_end(t, at) : end);
    case EDIT_KILL_LINE_START:    return kill(at == start && at ? unit_start(t, at) : start, at);
    case EDIT_YANK:               return yank(0, at, 0);
    case EDIT_YANK_POP:           return m.last == YANK && m.n_kills > 1 && yank((m.yanked + 1) % m.n_kills, m.yank_at, at - m.yank_at);
    case EDIT_TRANSPOSE:          return transpose();
    case EDIT_NEWLINE:            change(at, 0, "\n", 1, TYPED); m.last = OTHER; return true;
    case EDIT_UNDO:               return undo();
    case EDIT_REDO:               return redo();
    case EDIT_UNFOLD:             return unfold();
    default:                      return false;
    }
}

/* --- both ------------------------------------------------------------------------------------------------------- */

static const char *const bits[] = {
    "a", "b", "word", " ", "  ", "\t", "\n", ".", "_", "9", "\xc3\xa4", "\xcc\x81", "\xe4\xb8\xad", "\xe6\x96\x87\xe5\xad\x97",
    "\xe2\x80\x8d", "\xef\xb8\x8f", "\xf0\x9f\x91\xa9", "\xf0\x9f\x91\xa7", "\xf0\x9f\x8f\xbd", "\xf0\x9f\x87\xa9", "\xf0\x9f\x87\xaa",
    "\xe0\xa4\x95", "\xe0\xa5\x8d",
    "\xe2\x80\x8b", "\xc2\xad", "\xe1\x84\x80", "\xe1\x85\xa1", "\xd8\x80", "\xe2\x80\xae", "long words without end",
};

static void insert(struct editor *e, bool as_paste)
{
    const char *bit = bits[rnd(sizeof bits / sizeof *bits)];
    change(m.now.cursor, 0, bit, strlen(bit), as_paste ? OTHER : TYPED);
    (as_paste ? editor_paste : editor_insert)(e, bit, strlen(bit));
}

static void paste_long(struct editor *e)
{
    struct buf *b = &chips[m.n_chips];
    buf_reset(b);
    while (b->len < 40)
        buf_adds(b, bits[rnd(sizeof bits / sizeof *bits)]);
    char label[16] = "[\xe4\xb8\xad 0]";
    change(m.now.cursor, 0, signs[m.n_chips++], SIGN_BYTES, OTHER);
    editor_chip(e, label, b->data, b->len);
}

static void compare(const struct editor *e)
{
    struct buf got = {0}, expected = {0}, before = {0}, expected_before = {0};
    for (size_t at = 0, n; at < m.now.n; at += n) {
        n = 1;
        if (is_sign(&m.now, at)) {
            const struct buf *chip = &chips[(unsigned char)m.now.s[at + 2] - 0xB9];
            buf_add(&expected, chip->data, chip->len);
            n = SIGN_BYTES;
        } else {
            buf_addc(&expected, m.now.s[at]);
        }
    }
    for (size_t at = 0, n; at < m.now.cursor; at += n) {
        n = is_sign(&m.now, at) ? SIGN_BYTES : 1;
        buf_add(&expected_before, n > 1 ? "\xef\xbf\xbc" : m.now.s + at, n);
    }
    editor_text(e, &got);
    editor_before(e, &before);
    assert_string_equal(buf_str(&got), buf_str(&expected));
    assert_string_equal(buf_str(&before), buf_str(&expected_before));
    buf_free(&got), buf_free(&expected), buf_free(&before), buf_free(&expected_before);
}

/* The screen is one cell larger on each side than what may be drawn in; those cells keep their letter. */
static void draw(struct editor *e, int rows, int cols)
{
    struct cells c = {0};
    cells_size(&c, rows + 2, cols + 2);
    for (int row = 0; row < rows + 2; row++)
        for (int col = 0; col < cols + 2; col++)
            cells_puts(&c, cells_all(&c), row, col, (struct look){0}, "#");
    editor_draw(e, &c, (struct area){1, 1, rows, cols}, "> ");
    for (int row = 0; row < rows + 2; row++)
        for (int col = 0; col < cols + 2; col++)
            if (row == 0 || row == rows + 1 || col == 0 || col == cols + 1)
                assert_true(*c.at[row * (cols + 2) + col].glyph.text == '#');
    assert_true(c.cursor_row >= 1 && c.cursor_row <= rows);
    assert_true(c.cursor_col >= 1 && c.cursor_col <= cols);
    cells_free(&c);
}

static void vertical(struct editor *e)
{
    editor_do(e, rnd(2) ? EDIT_UP : EDIT_DOWN);
    struct buf before = {0};
    editor_before(e, &before);
    m.now.cursor = before.len;          /* the model learns where the cursor is: it knows no rows */
    assert_int_equal(up_to_unit(&m.now, before.len), before.len);
    m.last = OTHER;
    buf_free(&before);
}

static void step(struct editor *e)
{
    static int columns = 20;
    uint32_t r = rnd(100);
    if (r < 2)
        columns = 1 + (int)rnd(rnd(2) ? 8 : 100);
    if (r < 35 && m.now.n < MAX_TEXT / 4)
        insert(e, false);
    else if (r < 40 && m.now.n < MAX_TEXT / 4)
        insert(e, true);
    else if (r < 42 && m.n_chips < N_SIGNS)
        paste_long(e);
    else if (r < 50)
        vertical(e);
    else {
        enum edit what = rnd(EDIT_UNFOLD + 1);
        if (what == EDIT_UP || what == EDIT_DOWN || ((what == EDIT_YANK || what == EDIT_YANK_POP) && m.now.n > MAX_TEXT / 4))
            return;
        if (what == EDIT_UNFOLD && (rnd(4) || m.now.n > MAX_TEXT / 2))
            return;
        bool kills = what >= EDIT_KILL_WORD_LEFT && what <= EDIT_KILL_LINE_START, yanks = what == EDIT_YANK || what == EDIT_YANK_POP;
        enum last last = kills ? KILL : yanks ? YANK : what == EDIT_BACKSPACE ? BACKSPACE : what == EDIT_DELETE ? DELETE : OTHER;
        bool done = act(what);
        m.last = done ? last : OTHER;
        assert_int_equal(editor_do(e, what), done);
    }
    if (rnd(4) == 0)
        draw(e, 1 + (int)rnd(6), columns);
    compare(e);
}

/* Laid out in pieces, edit by edit, the rows are those of the whole text. */
static void same_rows(struct editor *e)
{
    int columns = 1 + (int)rnd(60);
    editor_rows(e, columns);
    for (int i = 0; i < 20; i++) {
        editor_do(e, rnd(2) ? EDIT_LEFT : EDIT_WORD_LEFT);
        insert(e, false);
        int rows = editor_rows(e, columns);
        editor_rows(e, columns == 7 ? 9 : 7);
        assert_int_equal(editor_rows(e, columns), rows);
    }
}

static void test_editor__does_what_a_string_with_copies_does(void **state)
{
    (void)state;
    struct long_run run = long_run_begin(2, 20);
    rnd_state = long_run_seed(rnd_state);
    while (long_run_goes_on(&run)) {
        struct editor *e = editor_open();
        m.now.n = m.now.cursor = 0;
        m.n_past = m.n_future = m.n_kills = m.n_chips = 0;
        m.last = OTHER;
        for (int steps = (int)rnd(300); steps; steps--)
            step(e);
        int undone = 0;
        struct buf end = {0}, again = {0};
        editor_text(e, &end);
        while (editor_do(e, EDIT_UNDO))
            undone++;
        assert_true(editor_empty(e));
        for (; undone; undone--)
            assert_true(editor_do(e, EDIT_REDO));
        editor_text(e, &again);
        assert_string_equal(buf_str(&again), buf_str(&end));
        buf_free(&end), buf_free(&again);
        same_rows(e);
        editor_close(e);
    }
    for (int i = 0; i < N_SIGNS; i++)
        buf_free(&chips[i]);
    print_message("%ld drafts\n", run.n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_editor__does_what_a_string_with_copies_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
