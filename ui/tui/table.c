#include "ui/tui/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "base/memory.h"
#include "ui/tui/glyph.h"

enum {
    GAP = 2,                    /* columns between columns */
    WORD = 14,                  /* a column of at least this width may break words */
    NARROW = 40,                /* with fewer columns a table is shown as records */
};

void table_begin(struct table *t, int n_cols)
{
    lines_reset(&t->text);
    t->n_cols = n_cols;
    t->n_cells = 0;
    t->align = memory_resized(t->align, (size_t)n_cols + 1);
    memset(t->align, TABLE_LEFT, (size_t)n_cols + 1);
}

void table_cell(struct table *t, enum table_align align)
{
    if (t->n_cells == t->cap_cells) {
        t->cap_cells = t->cap_cells ? t->cap_cells * 2 : 32;
        t->cells = memory_resized(t->cells, (size_t)t->cap_cells * sizeof *t->cells);
    }
    t->align[t->n_cells % t->n_cols] = (unsigned char)align;
    t->cells[t->n_cells++] = (struct table_cell){t->text.n, 0};
}

void table_cell_end(struct table *t)
{
    struct table_cell *c = &t->cells[t->n_cells - 1];
    c->n = t->text.n - c->first;
}

void table_free(struct table *t)
{
    lines_free(&t->text);
    free(t->cells);
    free(t->align);
    *t = (struct table){0};
}

/* --- widths --- */

static int longest_word(const struct lines *l, int line)
{
    const struct line *p = &l->lines[line];
    int longest = 0, word = 0;
    for (uint32_t i = p->first; i < p->first + p->n_runs; i++) {
        const char *s = l->text.data + l->runs[i].at;
        struct glyph g;
        for (size_t k = 0, n = l->runs[i].n; k < n; longest = most(longest, word)) {
            bool blank = s[k] == ' ' || s[k] == '\t';
            k += glyph_next(s + k, n - k, &g);
            word = blank ? 0 : g.width == 2 ? 2 : word + g.width;       /* lines break beside wide glyphs */
        }
    }
    return longest;
}

struct widths { int *natural, *least, *given; };

static void measure(const struct table *t, struct widths *w)
{
    for (int i = 0; i < t->n_cells; i++) {
        int c = i % t->n_cols, word = 0;
        for (int k = t->cells[i].first; k < t->cells[i].first + t->cells[i].n; k++) {
            w->natural[c] = most(w->natural[c], lines_columns(&t->text, k));
            word = most(word, longest_word(&t->text, k));
        }
        w->least[c] = most(w->least[c], least(word, WORD));
    }
    for (int c = 0; c < t->n_cols; c++) {
        w->natural[c] = most(w->natural[c], 1);
        w->least[c] = most(least(w->least[c], w->natural[c]), 1);
    }
}

static long fill_to(const struct widths *w, int n, int level, int *given)
{
    long sum = 0;
    for (int c = 0; c < n; c++) {
        int width = most(w->least[c], least(w->natural[c], level));
        if (given)
            given[c] = width;
        sum += width;
    }
    return sum;
}

/* Shares the width by water filling: no column is wider than its longest line, none is narrower than its longest word, and all others are equally
 * wide. False: the table does not fit. */
static bool share(const struct widths *w, int n, int columns)
{
    long room = columns - (long)GAP * (n - 1);
    if (fill_to(w, n, 0, NULL) > room)
        return false;
    int low = 0, high = columns;        /* low fits */
    while (high - low > 1) {
        int mid = low + (high - low) / 2;
        if (fill_to(w, n, mid, NULL) <= room)
            low = mid;
        else
            high = mid;
    }
    long spare = room - fill_to(w, n, low, w->given);
    for (int c = 0; c < n && spare > 0; c++)
        if (w->given[c] == low && w->natural[c] > low) {
            w->given[c]++;
            spare--;
        }
    return true;
}

/* --- the grid --- */

static void pad(struct lines *l, int n)
{
    static const char blanks[] = "                                ";
    for (; n > 0; n -= (int)sizeof blanks - 1)
        lines_add(l, (struct look){STYLE_text, 0}, blanks, (size_t)least(n, (int)sizeof blanks - 1), LINES_NO_SOURCE);
}

static size_t row_source(const struct table *t, int row)
{
    for (int i = row * t->n_cols; i < (row + 1) * t->n_cols; i++)
        if (t->cells[i].n)
            return t->text.lines[t->cells[i].first].source;
    return LINES_NO_SOURCE;
}

/* Begins a line with its margin. */
static void begin_line(struct lines *out, struct lines_margin *margin, size_t source)
{
    int i = margin->first;
    lines_begin(out, source);
    if (margin->of && i >= 0) {
        out->lines[out->n - 1].indent = margin->of->lines[i].indent;
        lines_add_line(out, margin->of, i, 0);
    }
    margin->first = margin->rest;
}

/* Adds the lines of a row.  `broken` has the cells broken into lines, at[c] .. at[c + 1] those of column c. */
static void row_lines(const struct table *t, const struct lines *broken, const int *at, const int *given, uint8_t marks,
                      struct lines *out, struct lines_margin *margin, size_t source)
{
    int height = 1;
    for (int c = 0; c < t->n_cols; c++)
        height = most(height, at[c + 1] - at[c]);
    for (int k = 0; k < height; k++) {
        int owed = 0;                   /* blanks at the end of a line are not drawn */
        begin_line(out, margin, source);
        for (int c = 0; c < t->n_cols; c++) {
            bool there = at[c] + k < at[c + 1];
            int used = there ? lines_columns(broken, at[c] + k) : 0, room = most(given[c] - used, 0);
            int left = t->align[c] == TABLE_RIGHT ? room : t->align[c] == TABLE_CENTER ? room / 2 : 0;
            if (used) {
                pad(out, owed + left);
                lines_add_line(out, broken, at[c] + k, marks);
                owed = 0;
            } else {
                owed += left;
            }
            owed += room - left + GAP;
        }
    }
}

static void rule(const struct table *t, const int *given, struct lines *out, struct lines_margin *margin)
{
    begin_line(out, margin, LINES_NO_SOURCE);
    for (int c = 0; c < t->n_cols; c++) {
        pad(out, c ? GAP : 0);
        for (int i = 0; i < given[c]; i++)
            lines_add(out, (struct look){STYLE_rule, 0}, "─", strlen("─"), LINES_NO_SOURCE);
    }
}

static void grid(const struct table *t, const int *given, struct lines *out, struct lines_margin margin)
{
    struct lines broken = {0};
    int *at = memory_zeroed((size_t)t->n_cols + 1, sizeof *at);
    for (int row = 0; row < t->n_cells / t->n_cols; row++) {
        lines_reset(&broken);
        for (int c = 0; c < t->n_cols; c++) {
            const struct table_cell *cell = &t->cells[row * t->n_cols + c];
            at[c] = broken.n;
            for (int k = cell->first; k < cell->first + cell->n; k++)
                lines_fill(&broken, &t->text, k, LINES_WORDS, (struct lines_margin){0}, given[c]);
        }
        at[t->n_cols] = broken.n;
        row_lines(t, &broken, at, given, row ? 0 : LOOK_BOLD, out, &margin, row_source(t, row));
        if (!row)
            rule(t, given, out, &margin);
    }
    free(at);
    lines_free(&broken);
}

/* --- records --- */

static bool is_empty(const struct table *t, int cell)
{
    for (int k = t->cells[cell].first; k < t->cells[cell].first + t->cells[cell].n; k++)
        if (t->text.lines[k].n_runs)
            return false;
    return true;
}

/* Adds "name: value" as one text, broken at words. */
static void record(const struct table *t, int name, int value, uint8_t marks, struct lines *out, struct lines_margin *margin, int columns)
{
    struct lines line = {0};
    struct look dim = {STYLE_dim, marks};
    const struct table_cell *n = &t->cells[name], *v = &t->cells[value];
    if (is_empty(t, name) && is_empty(t, value))
        return;
    lines_begin(&line, v->n ? t->text.lines[v->first].source : LINES_NO_SOURCE);
    for (int k = n->first; k < n->first + n->n; k++) {
        if (k > n->first)
            pad(&line, 1);
        lines_add_line(&line, &t->text, k, marks | LOOK_BOLD);
    }
    if (name != value && !is_empty(t, name))
        lines_add(&line, dim, v->n ? ": " : ":", v->n ? 2 : 1, LINES_NO_SOURCE);
    for (int k = v->first; k < v->first + v->n && name != value; k++) {
        if (k > v->first)
            pad(&line, 1);
        lines_add_line(&line, &t->text, k, marks);
    }
    lines_fill(out, &line, 0, LINES_WORDS, *margin, columns);
    margin->first = margin->rest;
    lines_free(&line);
}

/* Lays out two columns as names and values, more columns as records of "header: value" with an empty line between them.  Empty cells are left out,
 * except in the first record. */
static void records(const struct table *t, struct lines *out, struct lines_margin margin, int columns)
{
    int n_rows = t->n_cells / t->n_cols;
    bool pairs = t->n_cols == 2;
    for (int i = 0; i < t->n_cells && pairs; i += 2)
        record(t, i, i + 1, i ? 0 : LOOK_BOLD, out, &margin, columns);
    for (int c = 0; c < t->n_cols && n_rows == 1 && !pairs; c++)
        record(t, c, c, LOOK_BOLD, out, &margin, columns);
    for (int row = 1; row < n_rows && !pairs; row++) {
        if (row > 1)
            begin_line(out, &margin, row_source(t, row));
        for (int c = 0; c < t->n_cols; c++)
            if (row == 1 || !is_empty(t, row * t->n_cols + c))
                record(t, c, row * t->n_cols + c, 0, out, &margin, columns);
    }
}

void table_layout(struct table *t, enum table_shape shape, struct lines *out, struct lines_margin margin, int columns)
{
    size_t n = (size_t)t->n_cols;
    int *all = memory_zeroed(3 * n + 1, sizeof *all);
    struct widths w = {all, all + n, all + 2 * n};
    int left = margin.of && margin.rest >= 0 ? lines_columns(margin.of, margin.rest) : 0, room = columns - left;
    measure(t, &w);
    bool fits = share(&w, t->n_cols, room);
    if (!fits && shape == TABLE_GRID) {                 /* the user chose a grid: all words may break */
        for (size_t c = 0; c < n; c++)
            w.least[c] = least(w.natural[c], 2);
        fits = share(&w, t->n_cols, room);
    }
    if (fits && (shape == TABLE_GRID || (shape == TABLE_AUTO && columns >= NARROW)))
        grid(t, w.given, out, margin);
    else
        records(t, out, margin, columns);
    free(all);
}
