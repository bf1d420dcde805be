#include "ui/tui/items.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    NARROW = 60,                        /* columns below which blank lines are kept for new messages */
    BLOCK = 256,                        /* items whose guessed rows are summed up */
    EXACT_BYTES = 1 << 16,              /* of source that are laid out to count rows */
    CACHE_BYTES = 4 << 20,
    AROUND = 16,                        /* items beside the view that stay laid out */
};

void items_free(struct items *s)
{
    items_cut(s, 0);
    free(s->at);
    free(s->guesses);
    *s = (struct items){0};
}

struct item *items_add(struct items *s, enum item_kind kind, int message)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : BLOCK;
        s->at = memory_resized(s->at, (size_t)s->cap * sizeof *s->at);
        s->guesses = memory_resized(s->guesses, (size_t)(s->cap / BLOCK) * sizeof *s->guesses);
    }
    struct item *it = &s->at[s->n++];
    *it = (struct item){.kind = kind, .message = message, .live = true, .stale = true};
    items_changed(s, s->n - 1);
    return it;
}

void items_cut(struct items *s, int from)
{
    for (int i = from; i < s->n; i++) {
        s->cached -= s->at[i].cached;
        item_free(&s->at[i]);
    }
    if (from >= s->n)
        return;
    s->n = from;
    if (from > 0)
        items_changed(s, from - 1);
}

void items_changed(struct items *s, int i)
{
    s->at[i].stale = true;
    s->guesses[i / BLOCK].known = false;
}

int items_gap(const struct items *s, int i)
{
    int k = i - 1;
    while (k >= 0 && !item_shows(&s->at[k]))
        k--;
    if (k < 0)
        return 0;
    const struct item *above = &s->at[k], *it = &s->at[i];
    if (s->view.columns < NARROW)
        return it->kind == ITEM_USER;
    if (it->kind == ITEM_FILE)
        return above->kind == ITEM_FILE && item_is_open(above);
    if (above->kind == ITEM_REASONING || (above->kind == ITEM_CALL && it->kind == ITEM_CALL))
        return item_is_open(above);
    return above->kind != it->kind || (it->kind != ITEM_NOTE && it->kind != ITEM_ERROR);
}

static void layout(struct items *s, int i)
{
    struct item *it = &s->at[i];
    if (!item_layout(it, &s->view))
        return;
    s->cached -= it->cached;
    it->cached = item_cached(it);
    s->cached += it->cached;
}

int items_rows(struct items *s, int i)
{
    if (!item_shows(&s->at[i]))
        return 0;
    layout(s, i);
    int rows = item_rows(&s->at[i]);
    return rows ? rows + items_gap(s, i) : 0;
}

bool items_before(struct spot a, struct spot b)
{
    return a.item != b.item ? a.item < b.item : a.row < b.row;
}

struct spot items_move(struct items *s, struct spot from, long by)
{
    long row = from.row + by;
    int i = from.item, rows;
    while (row < 0 && i > 0)
        row += items_rows(s, --i);
    if (row < 0)
        row = 0;
    while (i < s->n && row >= (rows = items_rows(s, i)) && i + 1 < s->n) {
        row -= rows;
        i++;
    }
    if (i < s->n && (rows = items_rows(s, i)) <= row) {
        row = rows - 1;                 /* after the end: the last row */
        while (row < 0 && i > 0)
            row = items_rows(s, --i) - 1;
    }
    return (struct spot){i, row > 0 ? (int)row : 0};
}

struct spot items_end(struct items *s, int rows)
{
    int i = s->n, left = rows;
    while (i > 0 && left > 0)
        left -= items_rows(s, --i);
    return (struct spot){i, left < 0 ? -left : 0};
}

static long guess_block(struct items *s, int block)
{
    struct guess *g = &s->guesses[block];
    if (g->known)
        return g->rows;
    g->rows = 0;
    for (int i = block * BLOCK; i < s->n && i < (block + 1) * BLOCK; i++)
        g->rows += item_guess(&s->at[i], s->view.columns);
    g->known = true;
    return g->rows;
}

/* Returns an estimate of the rows from item `i` on, without a layout. */
static long guess_from(struct items *s, int i)
{
    long rows = 0;
    if (s->guess_columns != s->view.columns)
        for (int k = 0; k * BLOCK < s->n; k++)
            s->guesses[k].known = false;
    s->guess_columns = s->view.columns;
    for (; i < s->n && i % BLOCK; i++)
        rows += item_guess(&s->at[i], s->view.columns);
    for (; i < s->n; i += BLOCK)
        rows += guess_block(s, i / BLOCK);
    return rows;
}

long items_after(struct items *s, struct spot from)
{
    if (from.item >= s->n)
        return 0;
    long rows = items_rows(s, from.item) - from.row;
    size_t bytes = 0;
    int i = s->n;
    while (i > from.item + 1 && bytes <= EXACT_BYTES)
        bytes += s->at[--i].source.len + 64;
    if (bytes > EXACT_BYTES)
        return rows + guess_from(s, from.item + 1);
    for (i = from.item + 1; i < s->n; i++)
        rows += items_rows(s, i);
    return rows;
}

void items_trim(struct items *s, int first, int last)
{
    if (s->cached <= CACHE_BYTES || s->cached <= s->trim_at)
        return;
    for (int i = 0; i < s->n; i++) {
        struct item *it = &s->at[i];
        if (!it->cached || (i >= first - AROUND && i <= last + AROUND))
            continue;
        s->cached -= it->cached;
        it->cached = 0;
        item_drop(it);
    }
    s->trim_at = s->cached * 2;         /* the items in view may be that large: then the next draw need not look again */
}
