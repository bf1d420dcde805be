#include "ui/tui/pane.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "session/export.h"
#include "ui/tui/find.h"
#include "ui/tui/item.h"

/* --- search over the items ----------------------------------------------------------------------------------------- */

static void search_item(struct pane_search *s, struct item *it)
{
    bool marks = it->kind == ITEM_ANSWER || it->kind == ITEM_REASONING;
    if (s->find.n && it->hits.scanned < it->source.len)
        hits_update(&it->hits, &s->find, buf_str(&it->source), it->source.len, marks);
}

/* Searches all items for a text; returns the number of hits. */
static long search_set(struct pane_search *s, struct items *items, const char *what)
{
    long n = 0;
    if (strcmp(what, buf_str(&s->text))) {
        for (int i = 0; i < items->n; i++)
            hits_free(&items->at[i].hits);
        buf_reset(&s->text);
        buf_adds(&s->text, what);
        find_set(&s->find, what);
        s->on_hit = false;
    }
    for (int i = 0; i < items->n; i++) {
        search_item(s, &items->at[i]);
        n += items->at[i].hits.n;
    }
    return n;
}

/* Moves to the next or previous hit, around the ends; returns its number from 1, or 0 without hits. */
static long search_step(struct pane_search *s, struct items *items, int direction, struct pane_place from)
{
    long which = 1;
    if (!search_set(s, items, buf_str(&s->text)))
        return 0;
    if (!s->on_hit) {
        /* Puts the current hit before the first one from that place on, which may be after the last hit of its item. */
        s->item = from.item >= 0 && from.item < items->n ? from.item : 0;
        s->hit = 0;
        const struct hits *h = &items->at[s->item].hits;
        while (from.sub >= 0 && s->hit < h->n && h->at[s->hit].at < from.at)
            s->hit++;
    }
    s->hit += direction < 0 ? -1 : s->on_hit;
    s->on_hit = true;
    while (s->hit < 0) {
        s->item = (s->item ? s->item : items->n) - 1;
        s->hit = items->at[s->item].hits.n - 1;
    }
    while (s->hit >= items->at[s->item].hits.n) {
        s->item = s->item + 1 < items->n ? s->item + 1 : 0;
        s->hit = 0;
    }
    for (int i = 0; i < s->item; i++)
        which += items->at[i].hits.n;
    return which + s->hit;
}

/* --- the pane --------------------------------------------------------------------------------------------------- */

enum { LEAST_MEASURE = 20 };

static const struct pane_place nowhere = {-1, 0, 0};

struct pane *pane_open(void)
{
    struct pane *p = memory_zeroed(1, sizeof *p);
    p->area = (struct area){0, 0, 24, 80};
    p->items.view = (struct item_view){.columns = 80, .measure = 80, .rows = 24};
    p->hinted = p->faded = -1;
    pane_reset(p);
    return p;
}

void pane_close(struct pane *p)
{
    if (!p)
        return;
    items_free(&p->items);
    find_free(&p->search.find);
    buf_free(&p->search.text);
    free(p);
}

void pane_reset(struct pane *p)
{
    pane_cut(p, 0);
    pane_to_end(p);
}

/* --- items --- */

static struct item *item_at_index(const struct pane *p, int item)
{
    CHECK(item >= 0 && item < p->items.n);
    return &p->items.at[item];
}

int pane_add(struct pane *p, enum item_kind kind, int message)
{
    CHECK(kind != ITEM_CALL);
    items_add(&p->items, kind, message);
    return p->items.n - 1;
}

void pane_picture(struct pane *p, int item, uint32_t number, int w, int h)
{
    if (p->items.at[item].picture == number)
        return;
    item_picture(&p->items.at[item], number, w, h);
    items_changed(&p->items, item);
}

int pane_call(struct pane *p, int message, const char *name, const char *arguments)
{
    struct item *it = items_add(&p->items, ITEM_CALL, message);
    it->one_argument = call_line(&it->source, name, arguments);
    buf_addc(&it->source, '\n');
    it->body = it->source.len;
    return p->items.n - 1;
}

void pane_append(struct pane *p, int item, const char *text, size_t n)
{
    item_append(item_at_index(p, item), text, n);
    items_changed(&p->items, item);
}

void pane_end(struct pane *p, int item)
{
    item_end(item_at_index(p, item));
    items_changed(&p->items, item);
}

void pane_head(struct pane *p, int item, const char *text)
{
    item_head(item_at_index(p, item), text);
}

void pane_cut(struct pane *p, int item)
{
    items_cut(&p->items, item);
    if (p->top.item >= item)
        pane_to_end(p);
    if (p->chosen >= item)
        p->chosen = -1;
    if (p->opened >= item)
        p->opened = -1;
    if (p->hinted >= item)
        p->hinted = -1;
    if (p->search.item >= item)
        p->search.on_hit = false;
    if (p->selected.item >= item)
        p->selected.n = 0;
    p->drawn = nowhere;
    p->showing.item = -1;
}

void pane_tint(struct pane *p, int item, const struct pane_tint *tints, int n)
{
    struct item *it = item_at_index(p, item);
    free(it->tints);
    it->tints = NULL;
    it->n_tints = n;
    if (!n)
        return;
    it->tints = memory_alloc((size_t)n * sizeof *tints);
    memcpy(it->tints, tints, (size_t)n * sizeof *tints);
}

void pane_select(struct pane *p, int item, size_t at, size_t n)
{
    p->selected.item = item;
    p->selected.at = at;
    p->selected.n = n;
}

/* --- the view --- */

static struct spot spot_of(struct pane *p, struct pane_place place)
{
    if (place.item >= p->items.n)
        return items_end(&p->items, p->area.rows);
    int rows = items_rows(&p->items, place.item), gap = items_gap(&p->items, place.item);
    if (!rows || (place.sub < 0 && gap))
        return (struct spot){place.item, 0};
    return (struct spot){place.item, gap + item_row(&p->items.at[place.item], place.at, place.sub > 0 ? place.sub : 0)};
}

/* Returns the place in the transcript of a row, which stays right when the width changes. */
static struct pane_place place_of(struct pane *p, struct spot s)
{
    struct pane_place place = {.item = s.item};
    if (s.item >= p->items.n || !items_rows(&p->items, s.item))
        return place;
    int gap = items_gap(&p->items, s.item);
    if (s.row < gap)
        place.sub = -1;
    else
        place.at = item_place(&p->items.at[s.item], s.row - gap, &place.sub);
    return place;
}

static struct spot top_spot(struct pane *p)
{
    if (!p->follows)
        return spot_of(p, p->top);
    struct spot end = items_end(&p->items, p->area.rows);
    struct spot held = p->top.item >= 0 ? spot_of(p, p->top) : end;
    return items_before(end, held) ? held : end;
}

static void stay_at(struct pane *p, struct spot s)
{
    p->top = place_of(p, s);
    p->follows = false;
    p->showing.item = -1;
}

/* True if that row is in view.  *at: its row of the view. */
static bool in_view(struct pane *p, struct spot s, int *at)
{
    struct spot top = top_spot(p);
    if (items_before(s, top))
        return false;
    int row = -top.row;
    for (int i = top.item; i < s.item && row < p->area.rows; i++)
        row += items_rows(&p->items, i);
    *at = row + s.row;
    return *at < p->area.rows;
}

/* Scrolls so that a place of an item is visible; opens its fold if it is hidden there. */
static void bring_into_view(struct pane *p, int item, size_t at)
{
    struct item *it = item_at_index(p, item);
    int row, clear = p->area.rows > p->covered ? p->area.rows - p->covered : 1;
    stay_at(p, top_spot(p));
    items_rows(&p->items, item);
    if (item_hides(it, at)) {
        it->fold = FOLD_OPEN;
        items_changed(&p->items, item);
    }
    if (!items_rows(&p->items, item))
        return;
    struct spot s = {item, items_gap(&p->items, item) + item_row(it, at, 0)};
    if (!in_view(p, s, &row) || row >= clear)
        stay_at(p, items_move(&p->items, s, -(clear / 3)));
}

/* Returns the first row in view of an item that begins above the view; else 0. */
static int first_row_in_view(struct pane *p, int item)
{
    struct spot top = top_spot(p);
    int row = top.item == item ? top.row - items_gap(&p->items, item) : 0;
    return row > 0 ? row : 0;
}

/* Draws a row of an item with hits, selection and choice. */
static void draw_row(struct pane *p, struct spot s, struct cells *c, struct area a, int at_row)
{
    struct item *it = &p->items.at[s.item];
    int gap = items_gap(&p->items, s.item);
    struct item_over over = {.hit = p->search.on_hit && p->search.item == s.item ? p->search.hit : -1, .chosen = p->chosen == s.item,
                             .chosen_row = first_row_in_view(p, s.item)};
    if (s.row < gap)
        return;
    if (p->selected.n && p->selected.item == s.item) {
        over.at = p->selected.at;
        over.n = p->selected.n;
    }
    item_draw(it, s.row - gap, &over, c, a, at_row);
    if (p->faded >= 0 && it->message >= p->faded)
        cells_mark(c, (struct area){a.row + at_row, a.col, 1, a.cols}, LOOK_DIM);
}

static int next_fold(struct pane *p, int first);

/* Names the key only on the fold that the next pane_toggle() changes. */
static void hint_fold(struct pane *p)
{
    enum { ABOVE = 16 };                /* items above the view that are searched: they stay laid out */
    int top = top_spot(p).item, fold = next_fold(p, top > ABOVE ? top - ABOVE : 0);
    if (fold == p->hinted)
        return;
    if (p->hinted >= 0) {
        p->items.at[p->hinted].hinted = false;
        items_changed(&p->items, p->hinted);
    }
    if (fold >= 0) {
        p->items.at[fold].hinted = true;
        items_changed(&p->items, fold);
    }
    p->hinted = fold;
}

void pane_draw(struct pane *p, struct cells *c, struct area a)
{
    cells_blank(c, a, (struct look){STYLE_text, 0});
    if (a.rows <= 0 || a.cols <= 0)
        return;
    bool same = a.rows == p->area.rows && a.cols == p->area.cols;
    p->area = a;
    p->items.view.columns = a.cols;
    p->items.view.measure = p->measure && p->measure < a.cols ? p->measure : a.cols;
    p->items.view.rows = a.rows;
    /* While the view follows, text only moves up: after a fold, rows at the bottom stay empty until new text fills them.  A change of size brings
     * the end back to the bottom. */
    if (same && p->follows && p->drawn.item >= 0) {
        struct spot last = spot_of(p, p->drawn), end = items_end(&p->items, p->area.rows);
        if (items_before(end, last))
            p->top = p->drawn;
        else if (items_before(last, end))
            p->top = nowhere;
    }
    if (p->showing.item >= 0)
        bring_into_view(p, p->showing.item, p->showing.at);
    hint_fold(p);
    struct spot top = top_spot(p);
    int row = -top.row, i = top.item;
    for (; i < p->items.n && row < a.rows; i++) {
        int rows = items_rows(&p->items, i);
        if (rows)
            search_item(&p->search, &p->items.at[i]);
        for (int r = row < 0 ? -row : 0; r < rows && row + r < a.rows; r++)
            draw_row(p, (struct spot){i, r}, c, a, row + r);
        row += rows;
    }
    p->drawn = p->items.n ? place_of(p, top) : nowhere;
    items_trim(&p->items, top.item, i);
}

void pane_scroll(struct pane *p, int lines)
{
    struct spot s = items_move(&p->items, top_spot(p), lines);
    if (items_before(s, items_end(&p->items, p->area.rows)))
        stay_at(p, s);
    else
        pane_to_end(p);
}

void pane_to_start(struct pane *p)
{
    struct spot start = items_move(&p->items, (struct spot){0, 0}, 0);
    if (items_before(start, items_end(&p->items, p->area.rows)))
        stay_at(p, start);
    else
        pane_to_end(p);
}

void pane_to_end(struct pane *p)
{
    p->follows = true;
    p->top = p->drawn = nowhere;
    p->showing.item = -1;
}

long pane_below(struct pane *p)
{
    long rows = p->follows ? 0 : items_after(&p->items, top_spot(p)) - p->area.rows;
    return rows > 0 ? rows : 0;
}

static bool is_conversation(const struct item *it)
{
    return it->kind != ITEM_NOTE && it->kind != ITEM_ERROR && it->kind != ITEM_OUTPUT;
}

int pane_here(struct pane *p)
{
    struct spot top = top_spot(p);
    int at, row = -top.row, i = p->chosen, rows;
    if (i >= 0 && in_view(p, (struct spot){i, items_gap(&p->items, i)}, &at))
        return i;
    if (p->follows) {
        for (i = p->items.n - 1; i >= 0; i--)
            if (item_shows(&p->items.at[i]) && is_conversation(&p->items.at[i]))
                return i;
        return p->items.n - 1;
    }
    for (i = top.item; i < p->items.n && row < p->area.rows; i++, row += rows) {
        rows = items_rows(&p->items, i);
        if (rows && row + items_gap(&p->items, i) >= 0 && is_conversation(&p->items.at[i]))
            return i;
    }
    return top.item < p->items.n ? top.item : -1;
}

void pane_show(struct pane *p, int item, size_t at)
{
    bring_into_view(p, item, at);
    p->showing.item = item;             /* shown again by the next draw, which may have less room */
    p->showing.at = at;
}

void pane_measure(struct pane *p, int columns)
{
    if (columns != p->measure)
        p->drawn = nowhere;
    p->measure = columns > 0 && columns < LEAST_MEASURE ? LEAST_MEASURE : columns;
}

int pane_cursor(struct pane *p)
{
    struct pane_place place = {.item = p->chosen};
    int row;
    if (p->selected.n)
        place = (struct pane_place){.item = p->selected.item, .at = p->selected.at};
    else if (p->search.on_hit)
        place = (struct pane_place){.item = p->search.item, .at = p->items.at[p->search.item].hits.at[p->search.hit].at};
    return place.item >= 0 && place.item < p->items.n && in_view(p, spot_of(p, place), &row) ? row : 0;
}

/* Returns the item at a row of the area, and makes *row its own row, negative in the gap above it.  -1: there is none. */
static int item_at_row(struct pane *p, int *row)
{
    struct spot s = top_spot(p);
    *row += s.row;
    for (int i = s.item, rows; i < p->items.n && *row >= 0; i++, *row -= rows) {
        rows = items_rows(&p->items, i);
        if (*row < rows) {
            *row -= items_gap(&p->items, i);
            return i;
        }
    }
    return -1;
}

bool pane_at(struct pane *p, int row, int col, int *item, size_t *at)
{
    *item = item_at_row(p, &row);
    return *item >= 0 && row >= 0 && item_at(&p->items.at[*item], row, col, at);
}

struct pane_place pane_place(struct pane *p)
{
    return p->items.n ? place_of(p, top_spot(p)) : nowhere;
}

void pane_go(struct pane *p, struct pane_place place)
{
    if (place.item < 0 || place.item >= p->items.n) {
        pane_to_end(p);
        return;
    }
    p->top = place;
    p->follows = false;
    p->showing.item = -1;
}

/* --- folds --- */

void pane_fold(struct pane *p, int item, bool folded)
{
    item_at_index(p, item)->fold = folded ? FOLD_SHUT : FOLD_OPEN;
    items_changed(&p->items, item);
}

bool pane_folds(struct pane *p, int item)
{
    enum item_kind kind = p->items.at[item].kind;
    bool may = kind == ITEM_USER || kind == ITEM_REASONING || kind == ITEM_FILE || kind == ITEM_CALL;
    return may && items_rows(&p->items, item) && item_folds(&p->items.at[item]);
}

static bool head_in_view(struct pane *p, int i)
{
    int row;
    return in_view(p, (struct spot){i, items_gap(&p->items, i)}, &row);
}

/* Returns the nearest fold from `i` up to `first`; -1: there is none. */
static int fold_above(struct pane *p, int i, int first, bool shut)
{
    while (i >= first && !(pane_folds(p, i) && !(shut && item_is_open(&p->items.at[i]))))
        i--;
    return i >= first ? i : -1;
}

static int fold_below(struct pane *p, int i)
{
    while (i < p->items.n && !pane_folds(p, i))
        i++;
    return i < p->items.n ? i : -1;
}

/* Returns the last item that begins in or above the view. */
static int last_in_view(struct pane *p)
{
    struct spot bottom = items_move(&p->items, top_spot(p), p->area.rows - 1);
    if (p->follows || bottom.item >= p->items.n)
        return p->items.n - 1;
    return bottom.item - (bottom.row < items_gap(&p->items, bottom.item));
}

/* Returns the item that the next pane_toggle() opens or closes; -1: none, or it is before the item `first`. */
static int next_fold(struct pane *p, int first)
{
    int prefer[] = {p->chosen, p->opened}, last = last_in_view(p), i;
    bool open = p->opened >= 0 && item_is_open(&p->items.at[p->opened]);
    if (p->walks && open) {
        i = fold_above(p, p->opened - 1, first, true);
        return i < 0 && !first ? p->opened : i;
    }
    for (int k = 0; k < 2; k++)
        if (prefer[k] >= 0 && (k == 0 || open) && pane_folds(p, prefer[k]) && head_in_view(p, prefer[k]))
            return prefer[k];
    i = fold_above(p, last, first, false);
    return i < 0 && !first ? fold_below(p, last + 1) : i;
}

/* Opens or closes an item.  other: an item that folds at the same time, or -1. */
static void toggle(struct pane *p, int item, int other)
{
    struct item *it = item_at_index(p, item);
    struct spot top = top_spot(p);
    struct pane_place place = place_of(p, top);
    bool seen = head_in_view(p, item) || top.item == item;
    if (other >= 0)
        pane_fold(p, other, true);
    pane_fold(p, item, item_is_open(it));
    if (!seen) {
        pane_show(p, item, 0);
    } else if (!p->follows || !it->live) {
        /* Keeps the top row after a fold: the end may leave the view or come back, but the head stays in it. */
        bool end_in_view = !items_before(spot_of(p, place), items_end(&p->items, p->area.rows));
        if (!p->follows || !end_in_view) {
            p->follows = end_in_view;
            p->top = p->drawn = place;
        }
    }
}

bool pane_toggle(struct pane *p)
{
    int item = next_fold(p, 0);
    if (item < 0)
        return false;
    bool close = item_is_open(&p->items.at[item]);
    toggle(p, item, p->walks && !close ? p->opened : -1);
    p->opened = close ? -1 : item;
    p->walks = !close;
    if (p->chosen >= 0)
        p->chosen = item;
    return true;
}

bool pane_choose_fold(struct pane *p, int direction)
{
    int last = last_in_view(p), i;
    bool from = p->chosen >= 0 && head_in_view(p, p->chosen);
    if (direction > 0)
        i = fold_below(p, from ? p->chosen + 1 : top_spot(p).item);
    else
        i = fold_above(p, from ? p->chosen - 1 : last, 0, false);
    if (i < 0)
        return false;
    if (!head_in_view(p, i))
        stay_at(p, items_move(&p->items, (struct spot){i, items_gap(&p->items, i)}, -(p->area.rows / 3)));
    p->chosen = i;
    return true;
}

int pane_fold_at(struct pane *p, int row)
{
    const int i = item_at_row(p, &row);
    if (i < 0 || row < 0)
        return -1;
    const struct item *it = &p->items.at[i];
    return (row < it->n_head || row >= it->n_head + it->n_body) && pane_folds(p, i) ? i : -1;
}

void pane_toggle_fold(struct pane *p, int item)
{
    toggle(p, item, -1);
    p->opened = item_is_open(&p->items.at[item]) ? item : -1;
    p->walks = false;
}

void pane_raw(struct pane *p, bool raw)
{
    p->items.view.raw = raw;
    p->drawn = nowhere;
}

void pane_bars(struct pane *p, bool bars)
{
    if (bars != p->items.view.bars)
        p->drawn = nowhere;
    p->items.view.bars = bars;
}

void pane_tables(struct pane *p, enum table_shape shape)
{
    p->items.view.tables = shape;
    p->drawn = nowhere;
}

/* --- search --- */

int pane_find(struct pane *p, const char *what)
{
    return (int)search_set(&p->search, &p->items, what);
}

bool pane_find_next(struct pane *p, int direction, int *which)
{
    struct pane_place from = pane_place(p);
    *which = (int)search_step(&p->search, &p->items, direction, from);
    if (!*which)
        return false;
    pane_show(p, p->search.item, p->items.at[p->search.item].hits.at[p->search.hit].at);
    return true;
}

/* --- pieces of answers --- */

static int blocks_of(struct pane *p, int i)
{
    struct item *it = &p->items.at[i];
    if (it->kind != ITEM_ANSWER || !strpbrk(buf_str(&it->source), "`~\t ") || !items_rows(&p->items, i))
        return 0;
    return markdown_n_blocks(it->md);
}

/* Returns the first item, from the top of the view down, with a row in view for which `is` returns true; -1: none.  Rows are counted as its
 * markdown counts them. */
typedef bool row_fn(struct pane *p, int item, int row, void *found);
static int find_in_view(struct pane *p, row_fn *is, void *found)
{
    struct spot top = top_spot(p);
    int row = -top.row, rows;
    for (int i = top.item; i < p->items.n && row < p->area.rows; i++, row += rows) {
        rows = items_rows(&p->items, i);
        const int first = items_gap(&p->items, i) + p->items.at[i].n_head;
        for (int r = row < 0 ? -row : 0; r < rows && row + r < p->area.rows; r++)
            if (r >= first && is(p, i, r - first, found))
                return i;
    }
    return -1;
}

static bool row_of_block(struct pane *p, int i, int row, void *block)
{
    return blocks_of(p, i) && (*(int *)block = markdown_block_at(p->items.at[i].md, row)) >= 0;
}

static bool row_of_table(struct pane *p, int i, int row, void *source)
{
    const struct item *it = &p->items.at[i];
    return it->md && markdown_table_at(it->md, row, source);
}

int pane_n_blocks(struct pane *p)
{
    int block, i = find_in_view(p, row_of_block, &block);
    return i < 0 ? 0 : blocks_of(p, i);
}

bool pane_block(struct pane *p, int i, struct buf *text, struct buf *language)
{
    int block, answer = find_in_view(p, row_of_block, &block);
    if (i < 0)
        i = block;
    return answer >= 0 && i < blocks_of(p, answer) && markdown_block(p->items.at[answer].md, i, text, language);
}

bool pane_table(struct pane *p, struct buf *source)
{
    return find_in_view(p, row_of_table, source) >= 0;
}

