#include "ui/tui/lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "ui/tui/cells.h"

void lines_reset(struct lines *l)
{
    buf_reset(&l->text);
    l->n = l->n_runs = 0;
}

void lines_free(struct lines *l)
{
    buf_free(&l->text);
    free(l->runs);
    free(l->lines);
    *l = (struct lines){0};
}

struct line *lines_begin(struct lines *l, size_t source)
{
    uint32_t least = l->n ? l->lines[l->n - 1].source : 0;
    l->lines = memory_grow(l->lines, l->n, &l->cap, sizeof *l->lines);
    struct line *n = &l->lines[l->n++];
    *n = (struct line){.first = (uint32_t)l->n_runs, .source = (uint32_t)source, .block = -1};
    if (source >= LINES_NO_SOURCE || source < least)
        n->source = least;
    return n;
}

void lines_add(struct lines *l, struct look look, const char *text, size_t n, size_t source)
{
    CHECK(l->n > 0);
    if (!n)
        return;
    struct line *line = &l->lines[l->n - 1];
    struct run *last = line->n_runs ? &l->runs[l->n_runs - 1] : NULL;
    bool same = last && last->look.style == look.style && last->look.marks == look.marks;
    bool goes_on = last && (source == LINES_NO_SOURCE ? last->source == LINES_NO_SOURCE
                                                      : last->source != LINES_NO_SOURCE && last->source + last->n == source);
    if (same && goes_on) {
        last->n += (uint32_t)n;
    } else {
        l->runs = memory_grow(l->runs, l->n_runs, &l->cap_runs, sizeof *l->runs);
        l->runs[l->n_runs++] = (struct run){(uint32_t)l->text.len, (uint32_t)n, (uint32_t)source, look};
        line->n_runs++;
    }
    buf_add(&l->text, text, n);
}

void lines_cut(struct lines *l, int n)
{
    if (n >= l->n)
        return;
    uint32_t first = l->lines[n].first;
    if (first < (uint32_t)l->n_runs) {
        l->text.len = l->runs[first].at;
        l->text.data[l->text.len] = 0;
    }
    l->n_runs = (int)first;
    l->n = n;
}

static void add_line(struct lines *l, const struct lines *from, const struct line *line, uint8_t marks, size_t shift)
{
    for (uint32_t i = line->first; i < line->first + line->n_runs; i++) {
        const struct run *r = &from->runs[i];
        struct look look = {r->look.style, r->look.marks | marks};
        lines_add(l, look, from->text.data + r->at, r->n, r->source == LINES_NO_SOURCE ? r->source : r->source + shift);
    }
}

void lines_add_line(struct lines *l, const struct lines *from, int line, uint8_t marks)
{
    add_line(l, from, &from->lines[line], marks, 0);
}

void lines_append(struct lines *l, const struct lines *more, size_t shift)
{
    for (int i = 0; i < more->n; i++) {
        const struct line *from = &more->lines[i];
        struct line *to = lines_begin(l, from->source + shift);
        to->block = from->block;
        to->indent = from->indent;
        to->soft = from->soft;
        add_line(l, more, from, 0, shift);
    }
}

/* --- breaking ---
 * A place is a byte of a run.  The scan goes from glyph to glyph and remembers the last place where the line may break; a glyph
 * that does not fit ends the line there, and the scan continues after that place. */

struct place { uint32_t run; size_t at; };

struct fill {
    struct lines *out;
    const struct lines *text;
    struct line line;                   /* of text */
    enum lines_break mode;
    struct lines_margin margin;
    int  left;                          /* this line's margin */
    int  columns, room;                 /* of the area, and of this line without its margin */
    bool begun, tabs;                   /* begun: a line was put out; tabs: the text has tabs */
    struct place from, here;            /* where this line begins; the current glyph */
    int  column;                        /* of `here` */
    struct place end, next;             /* of a break: this line ends before `end`, the next one begins at `next` */
    int  next_column;                   /* of `next`, on this line */
    bool can_break;
    struct place slash;                 /* after the last '/' */
    int  slash_column;                  /* 0: the line has no '/' */
    bool blanks;                        /* the glyph before was a blank */
    struct glyph before;                /* the glyph before, unless a blank; width 0: no such glyph */
};

static const struct run *run_at(const struct fill *f, struct place p)
{
    return &f->text->runs[f->line.first + p.run];
}

static bool at_end(const struct fill *f, struct place p)
{
    return p.run >= f->line.n_runs;
}

static bool same_place(struct place a, struct place b)
{
    return a.run == b.run && a.at == b.at;
}

static struct place behind(const struct fill *f, struct place p, size_t n)
{
    p.at += n;
    if (p.at >= run_at(f, p)->n)
        p = (struct place){p.run + 1, 0};
    return p;
}

/* Returns the columns of a tab at `column`.  In verbatim text a tab ends at the edge. */
static int tab_columns(const struct fill *f, int column)
{
    int tab = f->mode == LINES_CODE ? 8 : 4, n = tab - column % tab;
    if (f->mode != LINES_WORDS && column + n > f->room)
        n = column < f->room ? f->room - column : 1;
    return n;
}

/* Adds [from, to) of a run, with tabs as blanks; returns the column after it. */
static int emit_piece(struct fill *f, const struct run *r, size_t from, size_t to, int column)
{
    static const char blanks[] = "        ";
    const char *s = f->text->text.data + r->at;
    while (from < to) {
        const char *tab = f->tabs ? memchr(s + from, '\t', to - from) : NULL;
        size_t n = (tab ? (size_t)(tab - s) : to) - from;
        lines_add(f->out, r->look, s + from, n, r->source == LINES_NO_SOURCE ? r->source : r->source + from);
        if (f->tabs)
            column += glyph_columns(s + from, n);
        from += n;
        if (tab) {
            int k = tab_columns(f, column);
            lines_add(f->out, r->look, blanks, (size_t)k, LINES_NO_SOURCE);
            column += k;
            from++;
        }
    }
    return column;
}

static size_t source_of(const struct fill *f, struct place p)
{
    if (!f->begun)
        return f->line.source;
    for (; !at_end(f, p); p = (struct place){p.run + 1, 0})
        if (run_at(f, p)->source != LINES_NO_SOURCE)
            return run_at(f, p)->source + p.at;
    return LINES_NO_SOURCE;
}

/* Ends a line at this place and copies its runs, after the margin. */
static void emit(struct fill *f, struct place end)
{
    struct line *line = lines_begin(f->out, source_of(f, f->from));
    line->soft = f->begun;
    line->block = f->line.block;
    if (f->left >= 0) {
        const struct line *m = &f->margin.of->lines[f->left];
        f->out->lines[f->out->n - 1].indent = m->indent;
        add_line(f->out, f->margin.of, m, 0, 0);
    }
    int column = 0;
    for (struct place p = f->from; p.run < end.run || (p.run == end.run && p.at < end.at); p = (struct place){p.run + 1, 0})
        column = emit_piece(f, run_at(f, p), p.at, p.run < end.run ? run_at(f, p)->n : end.at, column);
    f->begun = true;
}

/* Begins the next line at this place, with the room that the margin leaves. */
static void begin_at(struct fill *f, struct place p)
{
    f->from = f->here = p;
    f->column = f->slash_column = 0;
    f->can_break = f->blanks = false;
    f->before.width = 0;
    f->left = !f->margin.of ? -1 : f->begun ? f->margin.rest : f->margin.first;
    f->room = f->columns - (f->left < 0 ? 0 : lines_columns(f->margin.of, f->left));
    if (f->room < 2) {                  /* without room for a wide glyph the margin is dropped */
        f->left = -1;
        f->room = f->columns;
    }
}

static bool one_of(const struct glyph *g, const char *list)
{
    for (size_t k; *list; list += k) {
        k = (unsigned char)*list < 0x80 ? 1 : 3;        /* ASCII and CJK punctuation */
        if (g->n == k && !memcmp(g->text, list, k))
            return true;
    }
    return false;
}

static bool closes(const struct glyph *g)
{
    return one_of(g, ",.;:!?)]}'\"%、。，．！？；：）］｝」』】》〉”’…ー");
}

static bool opens(const struct glyph *g)
{
    return one_of(g, "([{'\"（［｛「『【《〈“‘");
}

/* Notes whether the line may break before the glyph at `here`, or at it if it is a blank. */
static void note_break(struct fill *f, const struct glyph *g, bool blank, struct place after)
{
    if (f->mode != LINES_WORDS)
        return;
    if (blank || !g->width) {
        if (!f->blanks)
            f->end = blank ? f->here : after;
        f->next = after;
        f->next_column = f->column + g->width;
        f->can_break = true;
    } else if ((f->before.width == 2 || (f->before.width && g->width == 2)) && !opens(&f->before) && !closes(g)) {
        f->end = f->next = f->here;
        f->next_column = f->column;
        f->can_break = true;
    }
}

/* True if the word at p, up to a blank or a wide glyph, does not fit on a line of its own. */
static bool too_wide(const struct fill *f, struct place p)
{
    struct glyph g;
    int columns = 0;
    while (!at_end(f, p) && columns <= f->room) {
        const struct run *r = run_at(f, p);
        const char *s = f->text->text.data + r->at + p.at;
        size_t n = glyph_next(s, r->n - p.at, &g);
        if (*s == ' ' || *s == '\t' || g.width == 2)
            break;
        columns += g.width;
        p = behind(f, p, n);
    }
    return columns > f->room;
}

/* True if a long address should begin right after the word before it, since it would be broken on a line of its own as well. */
static bool flows_on(const struct fill *f)
{
    enum { LEAST = 16 };                /* fewest columns of the address on the first line */
    return f->slash_column >= f->next_column + LEAST && too_wide(f, f->next);
}

/* Ends the line, because the glyph at `here` does not fit. */
static void break_line(struct fill *f)
{
    if (f->can_break && same_place(f->end, f->from)) {
        begin_at(f, f->next);           /* skips blanks after which no word fits */
        return;
    }
    struct place end = f->here, next = f->here;
    if (f->can_break && flows_on(f))
        end = next = f->slash;
    else if (f->can_break)
        end = f->end, next = f->next;
    else if (f->mode == LINES_WORDS && f->slash_column > f->room / 2)
        end = next = f->slash;
    emit(f, end);
    begin_at(f, next);
}

/* Takes the next glyph into the line, or breaks the line before it. */
static void fill_step(struct fill *f)
{
    const struct run *r = run_at(f, f->here);
    const char *s = f->text->text.data + r->at + f->here.at;
    struct glyph g;
    size_t n = glyph_next(s, r->n - f->here.at, &g);
    bool blank = n == 1 && (*s == ' ' || *s == '\t');
    int width = *s == '\t' ? tab_columns(f, f->column) : g.width;
    struct place after = behind(f, f->here, n);
    note_break(f, &g, blank, after);
    bool hangs = blank && f->mode == LINES_WORDS;
    if (f->column + width > f->room && !hangs && (f->can_break || !same_place(f->here, f->from))) {
        break_line(f);
        return;
    }
    f->column += width;
    f->blanks = blank || (f->blanks && !g.width);
    f->before = g;
    if (blank)
        f->before.width = 0;
    f->here = after;
    if (n == 1 && *s == '/' && !(after.at && s[1] == '/')) {
        f->slash = after;
        f->slash_column = f->column;
    }
}

void lines_fill(struct lines *l, const struct lines *text, int line, enum lines_break mode, struct lines_margin margin, int columns)
{
    struct fill f = {.out = l, .text = text, .line = text->lines[line], .mode = mode, .margin = margin, .columns = columns};
    for (uint32_t i = 0; i < f.line.n_runs && !f.tabs && mode != LINES_WHOLE; i++)
        f.tabs = memchr(text->text.data + text->runs[f.line.first + i].at, '\t', text->runs[f.line.first + i].n) != NULL;
    begin_at(&f, (struct place){0});
    if (mode == LINES_WHOLE) {
        emit(&f, (struct place){f.line.n_runs, 0});
        return;
    }
    while (!at_end(&f, f.here))
        fill_step(&f);
    bool too_long = f.column > f.room && f.blanks && f.can_break;
    emit(&f, too_long ? f.end : f.here);
}

void lines_wrap(struct lines *l, struct look look, const char *text, size_t n, size_t source, int columns, int indent)
{
    struct lines one = {0}, left = {0};
    lines_begin(&left, 0)->indent = (uint16_t)(indent < columns / 2 ? indent : columns / 2);
    for (size_t i = 0, k; i <= n; i += k + 1) {
        const char *end = i < n ? memchr(text + i, '\n', n - i) : NULL;
        k = end ? (size_t)(end - text) - i : n - i;
        if (!end && !k && n)
            break;                      /* the newline at the end opens no line */
        lines_reset(&one);
        lines_begin(&one, source + i);
        lines_add(&one, look, text + i, k, source + i);
        lines_fill(l, &one, 0, LINES_WORDS, (struct lines_margin){&left, -1, 0}, columns);
    }
    lines_free(&one);
    lines_free(&left);
}

int lines_columns(const struct lines *l, int line)
{
    const struct line *p = &l->lines[line];
    int columns = p->indent;
    for (uint32_t i = p->first; i < p->first + p->n_runs; i++)
        columns += glyph_columns(l->text.data + l->runs[i].at, l->runs[i].n);
    return columns;
}

void lines_draw(const struct lines *l, int line, struct cells *c, struct area a, int row)
{
    const struct line *p = &l->lines[line];
    int column = p->indent;
    for (uint32_t i = p->first; i < p->first + p->n_runs; i++)
        column = cells_put(c, a, row, column, l->runs[i].look, l->text.data + l->runs[i].at, l->runs[i].n);
}

void lines_text(const struct lines *l, int line, struct buf *out)
{
    const struct line *p = &l->lines[line];
    for (int i = 0; i < p->indent; i++)
        buf_addc(out, ' ');
    for (uint32_t i = p->first; i < p->first + p->n_runs; i++)
        buf_add(out, l->text.data + l->runs[i].at, l->runs[i].n);
}
