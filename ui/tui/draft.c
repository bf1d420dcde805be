#include "ui/tui/draft.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "ui/tui/glyph.h"

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

void draft_forget(struct draft *d)
{
    drop_changes(d, 0);
    d->n_done = 0;
    buf_reset(&d->text);
    d->cursor = 0;
}

void draft_forget_chips(struct draft *d)
{
    for (int i = 0; i < d->n_chips; i++) {
        free(d->chips[i].label);
        buf_free(&d->chips[i].text);
    }
    d->n_chips = 0;
}

void draft_free(struct draft *d)
{
    draft_forget(d);
    draft_forget_chips(d);
    buf_free(&d->text);
    free(d->changes);
    free(d->chips);
    *d = (struct draft){0};
}

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

static struct change *add_change(struct draft *d, size_t at, enum step step)
{
    if (d->n_done == d->cap_changes) {
        d->cap_changes = d->cap_changes ? 2 * d->cap_changes : 64;
        d->changes = memory_resized(d->changes, (size_t)d->cap_changes * sizeof *d->changes);
    }
    struct change *c = &d->changes[d->n_done++];
    d->n_changes = d->n_done;
    *c = (struct change){.at = at, .before = d->cursor, .step = step};
    return c;
}

struct edited draft_replace(struct draft *d, size_t at, size_t removed, const char *text, size_t n, enum step step, bool joins)
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

void draft_place_cursor(struct draft *d, size_t cursor)
{
    d->cursor = cursor;
    if (d->n_done)
        d->changes[d->n_done - 1].after = cursor;
}

bool draft_undo(struct draft *d, struct edited *what)
{
    if (!d->n_done)
        return false;
    const struct change *c = &d->changes[--d->n_done];
    splice(&d->text, c->at, c->in.len, buf_str(&c->out), c->out.len);
    d->cursor = c->before;
    *what = (struct edited){c->at, c->in.len, c->out.len};
    return true;
}

bool draft_redo(struct draft *d, struct edited *what)
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

void draft_clean(struct buf *out, const char *text, size_t n)
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

void draft_add_chip(struct draft *d, const char *label, const char *text, size_t n, struct buf *out)
{
    if (d->n_chips == d->cap_chips) {
        d->cap_chips = d->cap_chips ? 2 * d->cap_chips : 8;
        d->chips = memory_resized(d->chips, (size_t)d->cap_chips * sizeof *d->chips);
    }
    struct chip *chip = &d->chips[d->n_chips];
    *chip = (struct chip){.label = memory_strdup(label)};
    buf_add(&chip->text, text, n);
    buf_addf(out, "%c%d%c", CHIP_BEGIN, d->n_chips++, CHIP_END);
}

const struct chip *draft_chip(const struct draft *d, size_t at)
{
    if (at >= d->text.len || d->text.data[at] != CHIP_BEGIN)
        return NULL;
    int i = atoi(d->text.data + at + 1);
    CHECK(i < d->n_chips);
    return &d->chips[i];
}

size_t draft_unit(const struct draft *d, size_t at, int *columns)
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

void draft_expand(const struct draft *d, struct buf *out)
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

enum { TAB = 4, ENOUGH = 256 };
#define NO_MORE ((size_t)-1)

void rows_free(struct rows *r)
{
    free(r->start);
    *r = (struct rows){0};
}

int rows_step(const struct rows *r, const struct draft *d, size_t at, int column, size_t *n)
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
    if (n <= r->cap)
        return;
    while (r->cap < n)
        r->cap = r->cap ? 2 * r->cap : 64;
    r->start = memory_resized(r->start, (size_t)r->cap * sizeof *r->start);
}

void rows_width(struct rows *r, const struct draft *d, int width)
{
    if (r->n && width == r->width)
        return;
    r->width = width;
    r->n = 0;
    for (size_t at = 0; at != NO_MORE; at = next_row(r, d, at)) {
        reserve(r, r->n + 1);
        r->start[r->n++] = at;
    }
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

/* Lays out the rows that an edit moves.  A row depends on the text from its start to the first unit that does not fit, and on the character after
 * that, so an edit in row i may change rows from i-2 on.  The work ends where a new row starts at the place of an old one after the edit; in a
 * text without blanks that may never happen, so after ENOUGH rows one is cut short there. */
void rows_edit(struct rows *r, const struct draft *d, struct edited e)
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

int rows_find(const struct rows *r, size_t at)
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

size_t rows_end(const struct rows *r, const struct draft *d, int row)
{
    return row + 1 < r->n ? r->start[row + 1] : d->text.len;
}

int rows_column(const struct rows *r, const struct draft *d, int row, size_t at)
{
    int column = 0;
    size_t n;
    for (size_t i = r->start[row]; i < at; i += n)
        column += rows_step(r, d, i, column, &n);
    return column;
}

size_t rows_place(const struct rows *r, const struct draft *d, int row, int column)
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

size_t rows_unit_before(const struct rows *r, const struct draft *d, size_t at)
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

size_t rows_unit_end(const struct rows *r, const struct draft *d, size_t at)
{
    int w;
    size_t i = r->start[rows_find(r, at)];
    while (i < at)
        i += draft_unit(d, i, &w);
    return i;
}
