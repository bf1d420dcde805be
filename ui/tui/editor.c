#include "ui/tui/editor.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "ui/tui/cells.h"
#include "ui/tui/numbers.h"

/* --- the draft ----------------------------------------------------------------------------------------------------- */

/* The text of a draft: its bytes, its chips, all changes for undo and redo, and the rows that it fills on the screen.  The text is valid UTF-8 whose
 * only control characters are \n, \t and those of chips.  A chip is CHIP_BEGIN, a number in digits, CHIP_END; no other text looks like that, and no
 * grapheme cluster reaches across its ends.  A unit is what the cursor steps over at once: a glyph or a chip. */

enum { CHIP_BEGIN = 1, CHIP_END = 2 };

struct chip {
    char *label;                /* text on the screen */
    struct buf text;            /* text in the message */
};

/* Adjoining changes of the same kind, of the first three kinds, are one step for undo. */
enum step { STEP_TYPED, STEP_BACKSPACE, STEP_DELETE, STEP_OTHER };

struct edited { size_t at, removed, added; };

struct draft {
    struct buf text;
    size_t cursor;              /* between two units */
    struct chip *chips;
    int n_chips, cap_chips;
    struct change *changes;     /* the first n_done made the present text; the others were undone */
    int n_changes, n_done, cap_changes;
};

struct change {
    size_t at;
    struct buf out, in;                 /* the removed and the inserted text */
    size_t before, after;               /* the cursor */
    enum step step;
};

/* --- changes ---------------------------------------------------------------------------------------------------- */

static void drop_changes(struct draft *d, int from)
{
    for (int i = from; i < d->n_changes; i++) {
        buf_free(&d->changes[i].out);
        buf_free(&d->changes[i].in);
    }
    d->n_changes = from;
}

/* Makes the draft empty, without undo; chips stay. */
static void draft_forget(struct draft *d)
{
    drop_changes(d, 0);
    d->n_done = 0;
    buf_reset(&d->text);
    d->cursor = 0;
}

/* Frees the chips; none may be left in the text, the changes or elsewhere. */
static void draft_forget_chips(struct draft *d)
{
    for (int i = 0; i < d->n_chips; i++) {
        free(d->chips[i].label);
        buf_free(&d->chips[i].text);
    }
    d->n_chips = 0;
}

/* Replaces `removed` bytes at `at` by a text. */
static void splice(struct buf *b, size_t at, size_t removed, const char *text, size_t n)
{
    CHECK(at + removed <= b->len);
    buf_reserve(b, n);
    memmove(b->data + at + n, b->data + at + removed, b->len - at - removed);
    if (n)
        memcpy(b->data + at, text, n);
    b->len += n - removed;
    b->data[b->len] = 0;
}

/* Returns the newest change if this one continues it, else NULL. */
static struct change *joined(struct draft *d, size_t at, size_t removed, size_t n, enum step step)
{
    struct change *c = d->n_done ? &d->changes[d->n_done - 1] : NULL;
    if (!c || c->step != step || step == STEP_OTHER)
        return NULL;
    bool meets = step == STEP_TYPED       ? !removed && at == c->at + c->in.len
                 : step == STEP_BACKSPACE ? !n && at + removed == c->at
                                          : !n && at == c->at;
    return meets ? c : NULL;
}

/* Appends a step of undo; steps that were undone are lost. */
static struct change *add_change(struct draft *d, size_t at, enum step step)
{
    d->changes = memory_grow(d->changes, d->n_done, &d->cap_changes, sizeof *d->changes);
    struct change *c = &d->changes[d->n_done++];
    d->n_changes = d->n_done;
    *c = (struct change){.at = at, .before = d->cursor, .step = step};
    return c;
}

/* Moves the cursor after draft_replace(), so that redo moves it there too. */
static void draft_place_cursor(struct draft *d, size_t cursor)
{
    d->cursor = cursor;
    if (d->n_done)
        d->changes[d->n_done - 1].after = cursor;
}

/* Replaces bytes at .. at+removed by `text` (see draft_clean()); the cursor goes after it.  joins: makes one step for undo with the change before,
 * if both fit together. */
static struct edited draft_replace(struct draft *d, size_t at, size_t removed, const char *text, size_t n, enum step step, bool joins)
{
    drop_changes(d, d->n_done);
    struct change *c = joins ? joined(d, at, removed, n, step) : NULL;
    if (!c)
        c = add_change(d, at, step);
    if (step == STEP_BACKSPACE)
        splice(&c->out, 0, 0, d->text.data + at, removed);
    else
        buf_add(&c->out, buf_str(&d->text) + at, removed);
    buf_add(&c->in, text, n);
    if (at < c->at)
        c->at = at;
    splice(&d->text, at, removed, text, n);
    draft_place_cursor(d, at + n);
    return (struct edited){at, removed, n};
}

/* Takes back the last step.  False if there is none. */
static bool draft_undo(struct draft *d, struct edited *what)
{
    if (!d->n_done)
        return false;
    const struct change *c = &d->changes[--d->n_done];
    splice(&d->text, c->at, c->in.len, buf_str(&c->out), c->out.len);
    d->cursor = c->before;
    *what = (struct edited){c->at, c->in.len, c->out.len};
    return true;
}

/* Repeats a step that was undone.  False if there is none. */
static bool draft_redo(struct draft *d, struct edited *what)
{
    if (d->n_done == d->n_changes)
        return false;
    const struct change *c = &d->changes[d->n_done++];
    splice(&d->text, c->at, c->out.len, buf_str(&c->in), c->in.len);
    d->cursor = c->after;
    *what = (struct edited){c->at, c->out.len, c->in.len};
    return true;
}

/* --- text ------------------------------------------------------------------------------------------------------- */

/* Appends any text in the form that a draft may hold: CR and CRLF become \n, other controls are removed, invalid bytes become U+FFFD. */
static void draft_clean(struct buf *out, const char *text, size_t n)
{
    size_t from = 0;                    /* bytes between from and i are copied as they are */
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x80 ? c >= ' ' && c != 0x7F : c >= 0xE0 && i + 2 < n && unicode_valid(text + i, 3)) {
            i += c < 0x80 ? 1 : 3;      /* most text */
            continue;
        }
        uint32_t cp;
        bool ok;
        size_t k = unicode_decode(text + i, n - i, &cp, &ok);
        bool keep = ok && (cp >= 0xA0 || cp == '\n' || cp == '\t');
        if (!keep) {
            buf_add(out, text + from, i - from);
            from = i + k;
            if (!ok)
                buf_adds(out, "\xEF\xBF\xBD");
            else if (cp == '\r' && (i + k == n || text[i + k] != '\n'))
                buf_addc(out, '\n');
        }
        i += k;
    }
    buf_add(out, text + from, n - from);
}

/* Returns the chip that begins at this byte, or NULL. */
static const struct chip *draft_chip(const struct draft *d, size_t at)
{
    if (at >= d->text.len || d->text.data[at] != CHIP_BEGIN)
        return NULL;
    int i = atoi(d->text.data + at + 1);
    CHECK(i < d->n_chips);
    return &d->chips[i];
}

/* Returns the bytes and columns of the unit at byte `at`, before the end; \n has 0 columns, \t 1. */
static size_t draft_unit(const struct draft *d, size_t at, int *columns)
{
    const char *s = d->text.data + at;
    const struct chip *chip = draft_chip(d, at);
    if (chip) {
        *columns = glyph_columns(chip->label, strlen(chip->label));
        return (size_t)(strchr(s, CHIP_END) + 1 - s);
    }
    /* The byte after the end is 0.  Text after a control character never joins it. */
    if (!(s[0] & 0x80) && (!(s[1] & 0x80) || s[0] < ' ')) {
        *columns = s[0] != '\n';
        return 1;
    }
    struct glyph g;
    size_t n = glyph_next(s, d->text.len - at, &g);
    *columns = g.width;
    return n;
}

/* Appends the text, with the texts of chips. */
static void draft_expand(const struct draft *d, struct buf *out)
{
    const char *s = buf_str(&d->text);
    for (size_t at = 0; at < d->text.len;) {
        const char *begin = memchr(s + at, CHIP_BEGIN, d->text.len - at);
        size_t n = begin ? (size_t)(begin - s) - at : d->text.len - at;
        buf_add(out, s + at, n);
        at += n;
        const struct chip *chip = draft_chip(d, at);
        if (chip) {
            buf_add(out, chip->text.data, chip->text.len);
            at = (size_t)(strchr(s + at, CHIP_END) + 1 - s);
        }
    }
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* The rows of a draft on the screen.  Rows break after blanks, around wide glyphs and chips, else anywhere; one column at the right stays free for
 * the cursor.  An edit lays out only the rows that it moves, at most some hundred; the row after these may then be short until the draft is laid
 * out for another width. */

struct rows {
    size_t *start;              /* [n] byte of the draft's text where each row begins; n >= 1 */
    int n, cap;
    int width;                  /* columns of a row */
};

enum { TAB = 4, ENOUGH = 256 };
#define NO_MORE ((size_t)-1)

static void rows_free(struct rows *r)
{
    free(r->start);
    *r = (struct rows){0};
}

/* Returns the columns of the unit at byte `at`, which begins in `column`; *n: its bytes. */
static int rows_step(const struct rows *r, const struct draft *d, size_t at, int column, size_t *n)
{
    int w;
    *n = draft_unit(d, at, &w);
    if (d->text.data[at] == '\t')
        w = TAB - column % TAB;
    return w < r->width ? w : r->width;
}

/* Returns the start of the next row, or NO_MORE.  Reads the text from `start` to the first unit that does not fit. */
static size_t next_row(const struct rows *r, const struct draft *d, size_t start)
{
    size_t at = start, may_break = start, n;
    for (int column = 0; at < d->text.len; at += n) {
        char c = d->text.data[at];
        if (c == '\n')
            return at + 1;
        bool blank = c == ' ' || c == '\t';
        int w = rows_step(r, d, at, column, &n);
        if (w > 1 && !blank)
            may_break = at;
        if (column + w > r->width)      /* a blank goes into the free column */
            return blank ? at + n : may_break > start ? may_break : at;
        column += w;
        if (blank || w != 1)
            may_break = at + n;
    }
    return NO_MORE;
}

static void reserve(struct rows *r, int n)
{
    while (r->cap < n)
        r->start = memory_grow(r->start, r->cap, &r->cap, sizeof *r->start);
}

/* True if a unit ends at `to` when one walks from the start of a row. */
static bool ends_unit(const struct draft *d, size_t from, size_t to)
{
    int w;
    while (from < to)
        from += draft_unit(d, from, &w);
    return from == to;
}

/* Returns the start of an old row after the edit. */
static size_t moved(const struct rows *r, int old, struct edited e)
{
    return r->start[old] - e.removed + e.added;
}

/* Returns the row of a cursor before byte `at`. */
static int rows_find(const struct rows *r, size_t at)
{
    int low = 0, high = r->n;           /* start[low] <= at < start[high] */
    while (high - low > 1) {
        int mid = low + (high - low) / 2;
        if (r->start[mid] <= at)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* Lays out the rows that an edit moves.  A row depends on the text from its start to the first unit that does not fit, and on the character after
 * that, so an edit in row i may change rows from i-2 on.  The work ends where a new row starts at the place of an old one after the edit; in a
 * text without blanks that may never happen, so after ENOUGH rows one is cut short there. */
static void rows_edit(struct rows *r, const struct draft *d, struct edited e)
{
    struct rows fresh = {.width = r->width};
    int first = rows_find(r, e.at) - 2, old;
    if (first < 0)
        first = 0;
    size_t at = r->start[first];
    for (old = first + 1; old < r->n && r->start[old] < e.at + e.removed; old++)
        ;
    for (;;) {
        size_t from = at;
        at = next_row(r, d, at);
        bool enough = fresh.n >= ENOUGH && from >= e.at + e.added;
        while (old < r->n && moved(r, old, e) < at && !(enough && ends_unit(d, from, moved(r, old, e))))
            old++;
        if (old == r->n ? at == NO_MORE : moved(r, old, e) <= at)
            break;
        reserve(&fresh, fresh.n + 1);
        fresh.start[fresh.n++] = at;
    }
    int tail = r->n - old, to = first + 1 + fresh.n;
    reserve(r, to + tail);
    memmove(r->start + to, r->start + old, (size_t)tail * sizeof *r->start);
    if (fresh.n)
        memcpy(r->start + first + 1, fresh.start, (size_t)fresh.n * sizeof *r->start);
    r->n = to + tail;
    for (int i = to; i < r->n; i++)
        r->start[i] = moved(r, i, e);
    rows_free(&fresh);
}

static size_t rows_end(const struct rows *r, const struct draft *d, int row)
{
    return row + 1 < r->n ? r->start[row + 1] : d->text.len;
}

/* Returns the column of byte `at` of a row. */
static int rows_column(const struct rows *r, const struct draft *d, int row, size_t at)
{
    int column = 0;
    size_t n;
    for (size_t i = r->start[row]; i < at; i += n)
        column += rows_step(r, d, i, column, &n);
    return column;
}

/* Returns the last byte of a row whose column is at most `column`. */
static size_t rows_place(const struct rows *r, const struct draft *d, int row, int column)
{
    size_t end = rows_end(r, d, row), at = r->start[row], n;
    for (int here = 0; at < end && d->text.data[at] != '\n'; at += n) {
        here += rows_step(r, d, at, here, &n);
        /* after the last unit of a row that continues, the cursor would be in the next one */
        if (here > column || (at + n == end && row + 1 < r->n))
            break;
    }
    return at;
}

/* Returns the first byte of the unit before `at`. */
static size_t rows_unit_before(const struct rows *r, const struct draft *d, size_t at)
{
    int w;
    size_t i = r->start[rows_find(r, at - 1)];
    for (;;) {
        size_t n = draft_unit(d, i, &w);
        if (i + n >= at)
            return i;
        i += n;
    }
}

/* Returns the end of the unit at `at`. */
static size_t rows_unit_end(const struct rows *r, const struct draft *d, size_t at)
{
    int w;
    size_t i = r->start[rows_find(r, at)];
    while (i < at)
        i += draft_unit(d, i, &w);
    return i;
}

/* --- the editor ---------------------------------------------------------------------------------------------------- */

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
    draft_forget(&e->draft);
    draft_forget_chips(&e->draft);
    buf_free(&e->draft.text);
    free(e->draft.changes);
    free(e->draft.chips);
    e->draft = (struct draft){0};
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

/* Returns the character at `at`, and the one that ends before it, in n bytes. */
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

/* Returns the end of the next word; a chip is a word. */
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

/* Replaces text; typed characters that follow each other are one step of undo. */
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

/* Cuts text to the ring of kills; kills that follow each other are joined.  False if there is nothing to cut. */
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

/* Inserts a kill in place of `removed` bytes.  False if there is none. */
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

/* Replaces the chip at the cursor, or the one before it, by its text.  False if there is none. */
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

/* Moves the cursor up or down a row of the screen, in the column in which it began.  False at the edge. */
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

/* Carries out an editing action.  False if it changed nothing. */
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

/* Returns what the action counts as for the next one, for joining kills and steps of undo. */
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
    e->draft.chips = memory_grow(e->draft.chips, e->draft.n_chips, &e->draft.cap_chips, sizeof *e->draft.chips);
    struct chip *chip = &e->draft.chips[e->draft.n_chips];
    *chip = (struct chip){.label = memory_strdup(label)};
    buf_add(&chip->text, buf_str(&clean), clean.len);
    buf_addf(&reference, "%c%d%c", CHIP_BEGIN, e->draft.n_chips++, CHIP_END);
    change(e, e->draft.cursor, 0, reference.data, reference.len, STEP_OTHER);
    buf_free(&reference);
    buf_free(&clean);
}

void editor_paste(struct editor *e, const char *s, size_t n)
{
    struct buf clean = {0}, label = {0};
    draft_clean(&clean, s, n);
    int lines = 1;
    for (size_t i = 0; i + 1 < clean.len; i++)
        lines += clean.data[i] == '\n';
    if (lines > FOLD_LINES || clean.len > FOLD_BYTES) {
        buf_addf(&label, "[paste %d: %d line%s, ", ++e->n_pastes, lines, lines == 1 ? "" : "s");
        number_bytes(&label, clean.len);
        buf_addc(&label, ']');
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
    if (removed && memchr(text(e), CHIP_BEGIN, removed)) {             /* the message may be refused and come back: keeps the folds */
        buf_reset(&e->gone);
        buf_reset(&e->gone_text);
        buf_add(&e->gone, text(e), e->draft.text.len);
        draft_expand(&e->draft, &e->gone_text);
    }
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
    int width = columns - e->indent > 2 ? columns - e->indent - 1 : 1;
    if (!e->rows.n || width != e->rows.width) {
        e->rows.width = width;
        e->rows.n = 0;
        for (size_t at = 0; at != NO_MORE; at = next_row(&e->rows, &e->draft, at)) {
            reserve(&e->rows, e->rows.n + 1);
            e->rows.start[e->rows.n++] = at;
        }
    }
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

/* Draws a row of the draft, with chips as their labels. */
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
