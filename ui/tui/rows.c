#include "ui/tui/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

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

/* Where the next row begins, or NO_MORE.  Looks at the text from `start` to the first unit that does not fit. */
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

/* Whether a unit ends at `to` when one walks from the begin of a row. */
static bool ends_unit(const struct draft *d, size_t from, size_t to)
{
    int w;
    while (from < to)
        from += draft_unit(d, from, &w);
    return from == to;
}

/* Where an old row begins after the edit. */
static size_t moved(const struct rows *r, int old, struct edited e)
{
    return r->start[old] - e.removed + e.added;
}

/* A row depends on the text from its begin to the first unit that does not fit, and on the character behind that: what is
 * edited in row i may change rows i-2 and on.  It ends where a new row begins at an old one's place behind the edit; in a text
 * without blanks that may never be, so after ENOUGH rows one is cut short there. */
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
        /* behind the last unit of a row that goes on, the cursor would stand in the next one */
        if (here > column || (at + n == end && row + 1 < r->n))
            break;
    }
    return at;
}

/* Rows begin where units do. */
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
