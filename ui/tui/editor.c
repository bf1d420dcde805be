#include "ui/tui/editor.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/unicode.h"
#include "ui/tui/draft.h"
#include "ui/tui/numbers.h"

enum { KILLS = 32, SIGN = 2, FOLD_LINES = 20, FOLD_BYTES = 2000, DEFAULT_COLUMNS = 80 };

/* The last action, where its kind matters to the next one. */
enum last { LAST_OTHER, LAST_TYPED, LAST_BACKSPACE, LAST_DELETE, LAST_KILL, LAST_YANK, LAST_VERTICAL };

struct editor {
    struct draft draft;
    struct rows  rows;
    enum last    last;
    struct buf   kills[KILLS];          /* the newest first */
    int          n_kills;
    int          yanked;                /* LAST_YANK: index of that kill, */
    size_t       yank_at, yank_n;       /* and its place in the text */
    int          wish;                  /* LAST_VERTICAL: the column that up and down keep */
    int          n_pastes;
    struct buf   gone, gone_text;       /* the last draft with chips that was reset; in full */
    int          indent, top;           /* columns before the rows; the first row that is drawn */
};

struct editor *editor_open(void)
{
    struct editor *e = memory_zeroed(1, sizeof *e);
    editor_rows(e, DEFAULT_COLUMNS);
    return e;
}

void editor_close(struct editor *e)
{
    if (!e)
        return;
    for (int i = 0; i < KILLS; i++)
        buf_free(&e->kills[i]);
    rows_free(&e->rows);
    draft_free(&e->draft);
    buf_free(&e->gone);
    buf_free(&e->gone_text);
    free(e);
}

/* --- places ----------------------------------------------------------------------------------------------------- */

static const char *text(const struct editor *e)
{
    return buf_str(&e->draft.text);
}

static size_t left_of(const struct editor *e, size_t at)
{
    return at ? rows_unit_before(&e->rows, &e->draft, at) : 0;
}

static size_t right_of(const struct editor *e, size_t at)
{
    int columns;
    return at < e->draft.text.len ? at + draft_unit(&e->draft, at, &columns) : at;
}

static size_t line_start(const struct editor *e, size_t at)
{
    const char *newline = at ? memrchr(text(e), '\n', at) : NULL;
    return newline ? (size_t)(newline + 1 - text(e)) : 0;
}

static size_t line_end(const struct editor *e, size_t at)
{
    const char *newline = memchr(text(e) + at, '\n', e->draft.text.len - at);
    return newline ? (size_t)(newline - text(e)) : e->draft.text.len;
}

/* The character at `at`, and the one that ends before it, in n bytes. */
static uint32_t char_at(const struct editor *e, size_t at, size_t *n)
{
    uint32_t cp = (unsigned char)text(e)[at];
    *n = 1;
    if (cp >= 0x80)
        *n = unicode_decode(text(e) + at, e->draft.text.len - at, &cp, NULL);
    return cp;
}

static uint32_t char_before(const struct editor *e, size_t at, size_t *n)
{
    do
        at--;
    while (at && ((unsigned char)text(e)[at] & 0xC0) == 0x80);
    return char_at(e, at, n);
}

static bool in_word(uint32_t cp, bool big)
{
    if (cp < 0x80)                      /* only blanks, tabs and newlines are white space in clean text */
        return big ? cp > ' ' : (cp | 0x20) - 'a' < 26 || cp - '0' < 10;
    enum unicode_class c = unicode_class(cp);
    return big ? c != UNICODE_SPACE : c == UNICODE_LETTER || c == UNICODE_NUMBER || c == UNICODE_MARK;
}

/* Returns the start of the word before `at`.  Walks by characters, since a word may be long; only the result must be between units.  A chip is a
 * word. */
static size_t word_left(const struct editor *e, size_t at, bool big)
{
    bool found = false;
    while (at) {
        size_t n;
        uint32_t cp = char_before(e, at, &n);
        if (cp == CHIP_END)
            return found ? at : left_of(e, at);
        if (found && !in_word(cp, big))
            break;
        found = found || in_word(cp, big);
        at -= n;
    }
    size_t end = rows_unit_end(&e->rows, &e->draft, at);
    return end == at ? at : left_of(e, end);
}

static size_t word_right(const struct editor *e, size_t at)
{
    bool found = false;
    while (at < e->draft.text.len) {
        size_t n;
        uint32_t cp = char_at(e, at, &n);
        if (cp == CHIP_BEGIN)
            return found ? at : right_of(e, at);
        if (found && !in_word(cp, false))
            break;
        found = found || in_word(cp, false);
        at += n;
    }
    return rows_unit_end(&e->rows, &e->draft, at);
}

/* --- changes ---------------------------------------------------------------------------------------------------- */

static void change(struct editor *e, size_t at, size_t removed, const char *with, size_t n, enum step step)
{
    static const enum last joins[] = {[STEP_TYPED] = LAST_TYPED, [STEP_BACKSPACE] = LAST_BACKSPACE, [STEP_DELETE] = LAST_DELETE};
    bool join = step != STEP_OTHER && e->last == joins[step];
    rows_edit(&e->rows, &e->draft, draft_replace(&e->draft, at, removed, with, n, step, join));
    /* The typed text may have joined the cluster that follows. */
    size_t end = rows_unit_end(&e->rows, &e->draft, e->draft.cursor);
    if (end != e->draft.cursor)
        draft_place_cursor(&e->draft, end);
    e->last = step == STEP_OTHER ? LAST_OTHER : joins[step];
}

/* Removes from .. to; false if that is empty. */
static bool cut(struct editor *e, size_t from, size_t to, enum step step)
{
    if (from == to)
        return false;
    change(e, from, to - from, "", 0, step);
    return true;
}

static bool kill(struct editor *e, size_t from, size_t to)
{
    if (from == to)
        return false;
    if (e->last != LAST_KILL) {
        struct buf oldest = e->kills[KILLS - 1];
        memmove(e->kills + 1, e->kills, (KILLS - 1) * sizeof *e->kills);
        buf_reset(&oldest);
        e->kills[0] = oldest;
        e->n_kills += e->n_kills < KILLS;
    }
    struct buf *k = &e->kills[0], before = {0};
    if (from < e->draft.cursor) {
        buf_add(&before, text(e) + from, to - from);
        buf_add(&before, k->data, k->len);
        buf_free(k);
        *k = before;
    } else {
        buf_add(k, text(e) + from, to - from);
    }
    return cut(e, from, to, STEP_OTHER);
}

static bool yank(struct editor *e, int which, size_t at, size_t removed)
{
    if (!e->n_kills)
        return false;
    const struct buf *k = &e->kills[which];
    change(e, at, removed, k->data, k->len, STEP_OTHER);
    e->yanked = which;
    e->yank_at = at;
    e->yank_n = e->draft.cursor - at;
    return true;
}

/* Swaps the units around the cursor; at the end of a line, the two before it. */
static bool transpose(struct editor *e)
{
    size_t mid = e->draft.cursor, start = line_start(e, mid);
    if (mid > start && mid == line_end(e, mid))
        mid = left_of(e, mid);
    if (mid == start)
        return false;
    size_t from = left_of(e, mid), to = right_of(e, mid);
    struct buf swapped = {0};
    buf_add(&swapped, text(e) + mid, to - mid);
    buf_add(&swapped, text(e) + from, mid - from);
    change(e, from, to - from, swapped.data, swapped.len, STEP_OTHER);
    buf_free(&swapped);
    return true;
}

static bool unfold(struct editor *e)
{
    struct buf full = {0};
    size_t at = e->draft.cursor;
    const struct chip *chip = draft_chip(&e->draft, at);
    if (!chip) {
        const char *begin = at ? memrchr(text(e), CHIP_BEGIN, at) : NULL;
        if (!begin)
            return false;
        at = (size_t)(begin - text(e));
        chip = draft_chip(&e->draft, at);
    }
    buf_add(&full, chip->text.data, chip->text.len);
    change(e, at, right_of(e, at) - at, full.data, full.len, STEP_OTHER);
    buf_free(&full);
    return true;
}

static bool go_back(struct editor *e, bool (*step)(struct draft *, struct edited *))
{
    struct edited what;
    if (!step(&e->draft, &what))
        return false;
    rows_edit(&e->rows, &e->draft, what);
    return true;
}

/* --- actions ---------------------------------------------------------------------------------------------------- */

static bool move(struct editor *e, size_t to)
{
    bool moved = to != e->draft.cursor;
    e->draft.cursor = to;
    return moved;
}

static bool vertical(struct editor *e, int by)
{
    int row = rows_find(&e->rows, e->draft.cursor);
    if (e->last != LAST_VERTICAL)
        e->wish = rows_column(&e->rows, &e->draft, row, e->draft.cursor);
    if (row + by < 0 || row + by >= e->rows.n)
        return false;
    e->draft.cursor = rows_place(&e->rows, &e->draft, row + by, e->wish);
    return true;
}

static bool act(struct editor *e, enum edit what)
{
    size_t at = e->draft.cursor, start = line_start(e, at), end = line_end(e, at);
    switch (what) {
    case EDIT_LEFT:               return move(e, left_of(e, at));
    case EDIT_RIGHT:              return move(e, right_of(e, at));
    case EDIT_UP:                 return vertical(e, -1);
    case EDIT_DOWN:               return vertical(e, +1);
    case EDIT_WORD_LEFT:          return move(e, word_left(e, at, false));
    case EDIT_WORD_RIGHT:         return move(e, word_right(e, at));
    case EDIT_LINE_START:         return move(e, start);
    case EDIT_LINE_END:           return move(e, end);
    case EDIT_START:              return move(e, 0);
    case EDIT_END:                return move(e, e->draft.text.len);
    case EDIT_BACKSPACE:          return cut(e, left_of(e, at), at, STEP_BACKSPACE);
    case EDIT_DELETE:             return cut(e, at, right_of(e, at), STEP_DELETE);
    case EDIT_KILL_WORD_LEFT:     return kill(e, word_left(e, at, false), at);
    case EDIT_KILL_BIG_WORD_LEFT: return kill(e, word_left(e, at, true), at);
    case EDIT_KILL_WORD_RIGHT:    return kill(e, at, word_right(e, at));
    case EDIT_KILL_LINE_END:      return kill(e, at, at == end ? right_of(e, at) : end);
    case EDIT_KILL_LINE_START:    return kill(e, at == start ? left_of(e, at) : start, at);
    case EDIT_YANK:               return yank(e, 0, at, 0);
    case EDIT_YANK_POP:           return e->last == LAST_YANK && e->n_kills > 1 && yank(e, (e->yanked + 1) % e->n_kills, e->yank_at, e->yank_n);
    case EDIT_TRANSPOSE:          return transpose(e);
    case EDIT_NEWLINE:            change(e, at, 0, "\n", 1, STEP_TYPED); return true;
    case EDIT_UNDO:               return go_back(e, draft_undo);
    case EDIT_REDO:               return go_back(e, draft_redo);
    case EDIT_UNFOLD:             return unfold(e);
    }
    return false;
}

static enum last last_of(enum edit what)
{
    switch (what) {
    case EDIT_UP: case EDIT_DOWN:              return LAST_VERTICAL;
    case EDIT_BACKSPACE:                       return LAST_BACKSPACE;
    case EDIT_DELETE:                          return LAST_DELETE;
    case EDIT_KILL_WORD_LEFT: case EDIT_KILL_BIG_WORD_LEFT: case EDIT_KILL_WORD_RIGHT:
    case EDIT_KILL_LINE_END: case EDIT_KILL_LINE_START:
                                               return LAST_KILL;
    case EDIT_YANK: case EDIT_YANK_POP:        return LAST_YANK;
    default:                                   return LAST_OTHER;       /* also a newline: a line is a step */
    }
}

bool editor_do(struct editor *e, enum edit what)
{
    bool done = act(e, what);
    e->last = done || last_of(what) == LAST_VERTICAL ? last_of(what) : LAST_OTHER;
    return done;
}

/* --- text ------------------------------------------------------------------------------------------------------- */

void editor_insert(struct editor *e, const char *s, size_t n)
{
    struct buf clean = {0};
    draft_clean(&clean, s, n);
    if (clean.len)
        change(e, e->draft.cursor, 0, clean.data, clean.len, STEP_TYPED);
    buf_free(&clean);
}

void editor_chip(struct editor *e, const char *label, const char *s, size_t n)
{
    struct buf reference = {0}, clean = {0};
    draft_clean(&clean, s, n);
    draft_add_chip(&e->draft, label, buf_str(&clean), clean.len, &reference);
    change(e, e->draft.cursor, 0, reference.data, reference.len, STEP_OTHER);
    buf_free(&reference);
    buf_free(&clean);
}

static void label_paste(struct buf *label, int number, const struct buf *s)
{
    int lines = 1;
    for (size_t i = 0; i + 1 < s->len; i++)
        lines += s->data[i] == '\n';
    buf_addf(label, "[paste %d: %d line%s, ", number, lines, lines == 1 ? "" : "s");
    number_bytes(label, s->len);
    buf_addc(label, ']');
}

static bool is_long(const struct buf *s)
{
    int lines = 1;
    for (size_t i = 0; i + 1 < s->len && lines <= FOLD_LINES; i++)
        lines += s->data[i] == '\n';
    return lines > FOLD_LINES || s->len > FOLD_BYTES;
}

void editor_paste(struct editor *e, const char *s, size_t n)
{
    struct buf clean = {0}, label = {0};
    draft_clean(&clean, s, n);
    if (is_long(&clean)) {
        label_paste(&label, ++e->n_pastes, &clean);
        editor_chip(e, label.data, clean.data, clean.len);
    } else if (clean.len) {
        change(e, e->draft.cursor, 0, clean.data, clean.len, STEP_OTHER);
    }
    buf_free(&label);
    buf_free(&clean);
}

/* True if the texts are equal but for blanks at the end, without which a message is sent. */
static bool same_but_blanks(const struct buf *s, const struct buf *kept)
{
    if (s->len > kept->len || memcmp(s->data, kept->data, s->len))
        return false;
    return s->len + strspn(kept->data + s->len, " \t\n") == kept->len;
}

/* Remembers the draft with its folds, in case the message is refused and comes back. */
static void keep_folds(struct editor *e)
{
    if (!memchr(text(e), CHIP_BEGIN, e->draft.text.len))
        return;
    buf_reset(&e->gone);
    buf_reset(&e->gone_text);
    buf_add(&e->gone, text(e), e->draft.text.len);
    draft_expand(&e->draft, &e->gone_text);
}

void editor_set(struct editor *e, const char *s)
{
    struct buf clean = {0}, now = {0};
    draft_clean(&clean, s, strlen(s));
    draft_expand(&e->draft, &now);
    if (clean.len && same_but_blanks(&clean, &e->gone_text))
        change(e, 0, e->draft.text.len, e->gone.data, e->gone.len, STEP_OTHER);
    else if (now.len != clean.len || (now.len && memcmp(now.data, clean.data, now.len)))
        change(e, 0, e->draft.text.len, buf_str(&clean), clean.len, STEP_OTHER);
    else
        move(e, e->draft.text.len);
    e->last = LAST_OTHER;
    buf_free(&clean);
    buf_free(&now);
}

void editor_reset(struct editor *e)
{
    bool killed_chips = false;
    for (int i = 0; i < e->n_kills; i++)
        killed_chips = killed_chips || (e->kills[i].len && memchr(e->kills[i].data, CHIP_BEGIN, e->kills[i].len));
    size_t removed = e->draft.text.len;
    if (removed)
        keep_folds(e);
    draft_forget(&e->draft);
    if (!killed_chips && !e->gone.len)
        draft_forget_chips(&e->draft);
    rows_edit(&e->rows, &e->draft, (struct edited){.removed = removed});
    e->n_pastes = e->top = 0;
    e->last = LAST_OTHER;
}

bool editor_empty(const struct editor *e)
{
    return !e->draft.text.len;
}

void editor_text(const struct editor *e, struct buf *out)
{
    draft_expand(&e->draft, out);
}

void editor_before(const struct editor *e, struct buf *out)
{
    for (size_t at = 0; at < e->draft.cursor;) {
        size_t n = strcspn(text(e) + at, "\001");
        if (n > e->draft.cursor - at)
            n = e->draft.cursor - at;
        buf_add(out, text(e) + at, n);
        at += n;
        if (at < e->draft.cursor) {
            buf_adds(out, "\xEF\xBF\xBC");
            at = right_of(e, at);
        }
    }
}

void editor_word(const struct editor *e, struct buf *out)
{
    size_t at = e->draft.cursor;
    while (at && !strchr(" \t\n\002", text(e)[at - 1]))
        at--;
    buf_add(out, text(e) + at, e->draft.cursor - at);
}

void editor_replace_before(struct editor *e, size_t n, const char *with)
{
    struct buf clean = {0};
    size_t at = n < e->draft.cursor ? e->draft.cursor - n : 0;
    const char *chip = memrchr(text(e) + at, CHIP_END, e->draft.cursor - at);
    at = chip ? (size_t)(chip + 1 - text(e)) : rows_unit_end(&e->rows, &e->draft, at);
    draft_clean(&clean, with, strlen(with));
    change(e, at, e->draft.cursor - at, buf_str(&clean), clean.len, STEP_OTHER);
    buf_free(&clean);
}

/* --- the screen ------------------------------------------------------------------------------------------------- */

int editor_rows(struct editor *e, int columns)
{
    e->indent = columns > 2 * SIGN ? SIGN : 0;
    int width = columns - e->indent - 1;
    rows_width(&e->rows, &e->draft, width > 0 ? width : 1);
    return e->rows.n;
}

/* Scrolls as little as possible to bring the cursor into view, and leaves no row of the area empty that could show text. */
static int scroll(struct editor *e, int row, int shown)
{
    if (e->top > e->rows.n - shown)
        e->top = e->rows.n - shown;
    if (e->top < row - shown + 1)
        e->top = row - shown + 1;
    if (e->top > row)
        e->top = row;
    if (e->top < 0)
        e->top = 0;
    return e->top;
}

static void draw_row(const struct editor *e, struct cells *c, struct area a, int screen_row, int row)
{
    size_t at = e->rows.start[row], end = rows_end(&e->rows, &e->draft, row), n;
    for (int column = 0; at < end && text(e)[at] != '\n'; at += n) {
        const struct chip *chip = draft_chip(&e->draft, at);
        if (chip)
            cells_puts(c, a, screen_row, column, (struct look){STYLE_chip}, chip->label);
        if (chip || text(e)[at] == '\t') {
            column += rows_step(&e->rows, &e->draft, at, column, &n);
            continue;
        }
        for (n = 1; at + n < end && !strchr("\001\t\n", text(e)[at + n]); n++)
            ;
        column = cells_put(c, a, screen_row, column, (struct look){STYLE_text}, text(e) + at, n);
    }
}

void editor_draw(struct editor *e, struct cells *c, struct area a, const char *sign)
{
    if (a.rows < 1 || a.cols < 1)
        return;
    editor_rows(e, a.cols);
    int here = rows_find(&e->rows, e->draft.cursor), top = scroll(e, here, a.rows);
    struct area inner = {a.row, a.col + e->indent, a.rows, a.cols - e->indent};
    cells_blank(c, a, (struct look){STYLE_text});
    for (int i = 0; i < a.rows && top + i < e->rows.n; i++)
        draw_row(e, c, inner, i, top + i);
    if (e->indent && top == 0)
        cells_puts(c, a, 0, 0, (struct look){STYLE_prompt}, sign);
    else if (e->indent)
        cells_puts(c, a, 0, 0, (struct look){STYLE_dim}, "^");
    if (e->indent && a.rows > 1 && top + a.rows < e->rows.n)
        cells_puts(c, a, a.rows - 1, 0, (struct look){STYLE_dim}, "v");
    int column = rows_column(&e->rows, &e->draft, here, e->draft.cursor);
    c->cursor_row = a.row + here - top;
    c->cursor_col = inner.col + (column < inner.cols ? column : inner.cols - 1);
}

void editor_click(struct editor *e, int row, int col)
{
    int to = e->top + (row > 0 ? row : 0), column = col - e->indent;
    if (to >= e->rows.n)
        to = e->rows.n - 1;
    e->draft.cursor = rows_place(&e->rows, &e->draft, to, column > 0 ? column : 0);
    e->last = LAST_OTHER;
}
