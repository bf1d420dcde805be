#include "ui/tui/render.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <md4c.h>

#include "base/memory.h"
#include "base/unicode.h"
#include "ui/tui/block.h"
#include "ui/tui/cells.h"
#include "ui/tui/formula.h"
#include "ui/tui/sheet.h"

enum {
    DEEPEST = 4,                /* levels of quotes and lists that indent */
    CELLS_MAX = 100000,         /* md4c adds the missing cells of a row, so a table can be far larger than its source */
};

/* A quote, or an item of a list. */
struct box {
    bool quote, fresh;          /* fresh: the box is still empty */
    char marker[16];            /* of an item */
    size_t source;
    int  columns;
};

struct list { unsigned next; char mark; bool ordered; };

struct render {
    struct sheet *out;
    const char *source;         /* the whole text */
    size_t from, to;
    struct copy copy;           /* copy of source[from..to) that md4c reads */
    enum table_shape shape;

    struct box  *boxes;         /* [n_boxes] */
    struct list *lists;         /* [n_lists] */
    int n_boxes, cap_boxes, n_lists, cap_lists;
    struct lines margin;        /* see make_margin() */
    struct lines loose;         /* one line: marks of items that have no room in the margin */

    struct lines text;          /* the current paragraph, heading or cell */
    size_t text_cursor;         /* the cursor before it */
    size_t cursor;              /* end of the source that was handled so far */
    bool line_done;             /* the next text begins on a later line than the cursor's */
    bool gap;                   /* an empty line was passed */
    int  em, strong, del, code, link, heading;
    bool underlined;            /* a heading by the line below it */
    struct { int line; size_t at; } link_text;
    bool any;                   /* a line was put out */

    size_t formula_to;          /* a formula is shown as source up to there */
    bool in_code, in_table;
    struct buf line;            /* of code */
    size_t line_source;

    struct table table;
    struct lines_margin table_margin;
    size_t table_from, cell_from;
    int cell, last_cell;        /* number within its row; the last one with text */
    bool too_large;
};

static const struct look plain = {STYLE_text, 0}, dim = {STYLE_dim, 0}, ruled = {STYLE_rule, 0}, quoted = {STYLE_quote, 0};

static bool in_quote(const struct render *r)
{
    for (int i = 0; i < r->n_boxes; i++)
        if (r->boxes[i].quote)
            return true;
    return false;
}

/* Returns the look of text inside all spans that are open. */
static struct look look_of(const struct render *r)
{
    struct look l = in_quote(r) ? quoted : plain;
    if (r->heading)
        l = (struct look){STYLE_heading, LOOK_BOLD};
    if (r->link)
        l = (struct look){STYLE_link, l.marks | LOOK_UNDERLINE};
    if (r->code)
        l.style = STYLE_code;
    if (r->em)
        l.marks |= LOOK_ITALIC;
    if (r->strong)
        l.marks |= LOOK_BOLD;
    if (r->del)
        l.marks |= LOOK_STRIKE;
    return l;
}

/* Maps a pointer of md4c to its place in the source; LINES_NO_SOURCE: the text is md4c's own. */
static size_t place_of(const struct render *r, const char *p, size_t n)
{
    uintptr_t first = (uintptr_t)r->copy.text.data, at = (uintptr_t)p - first;
    if ((uintptr_t)p < first || at + n > r->copy.text.len)
        return LINES_NO_SOURCE;
    size_t place = copy_place(&r->copy, at, n);
    return place == COPY_NO_PLACE ? LINES_NO_SOURCE : r->from + place;
}

static size_t line_end(const struct render *r, size_t at)
{
    const char *p = memchr(r->source + at, '\n', r->to - at);
    return p ? (size_t)(p - r->source) : r->to;
}

/* Returns where the next block's text or mark begins. */
static size_t upcoming(const struct render *r)
{
    size_t i = r->line_done ? line_end(r, r->cursor) : r->cursor;
    while (i < r->to && strchr(" \t\r\n>", r->source[i]) && r->source[i])
        i++;
    return i;
}

/* Moves the cursor forward, noting an empty line on the way. */
static void pass(struct render *r, size_t at)
{
    bool empty = false;
    for (size_t i = r->cursor; i < at; i++) {
        char c = r->source[i];
        if (c == '\n') {
            r->gap = r->gap || empty;
            empty = true;
        } else if (c != ' ' && c != '\t' && c != '\r' && c != '>') {
            empty = false;
        }
    }
    if (at > r->cursor)
        r->cursor = at;
}

/* --- margins --- */

/* Makes the margins of the next block: line 0 for its first line, 1 for its other lines, 2 for an empty line before it.  Deep levels for which
 * there is no room are left out, and marks of their items become loose. */
static void make_margin(struct render *r)
{
    static const char blanks[] = "                ";
    lines_reset(&r->margin);
    lines_reset(&r->loose);
    lines_begin(&r->loose, r->cursor);
    for (int k = 0; k < 3; k++) {
        lines_begin(&r->margin, 0);
        int used = 0;
        for (int i = 0; i < r->n_boxes; i++) {
            struct box *b = &r->boxes[i];
            bool room = i < DEEPEST && used + b->columns <= r->out->measure / 2;
            struct line *line = &r->margin.lines[k];
            if (!b->quote && b->fresh && k == 0)
                lines_add(room ? &r->margin : &r->loose, plain, b->marker, strlen(b->marker), b->source);
            else if (b->quote && room && !(b->fresh && k == 2))
                lines_add(&r->margin, quoted, "│ ", strlen("│ "), LINES_NO_SOURCE);
            else if (!b->quote && room && line->n_runs)
                lines_add(&r->margin, plain, blanks, (size_t)b->columns, LINES_NO_SOURCE);
            else if (!b->quote && room)
                line->indent = (uint16_t)(line->indent + b->columns);
            used += room ? b->columns : 0;
        }
    }
}

/* Begins a block whose text begins at `at`: adds the empty line above it if the source has one, and returns its margins.  A paragraph begins with the
 * loose marks; other blocks have them on a line of their own above. */
static struct lines_margin begin_leaf(struct render *r, size_t at, bool text)
{
    struct lines_margin margin = {&r->margin, 0, 1};
    pass(r, at);
    make_margin(r);
    if (r->any && r->gap)
        lines_fill(&r->out->lines, &r->margin, 2, LINES_ANYWHERE, (struct lines_margin){0}, r->out->measure);
    r->out->leaf = (struct sheet_leaf){.kind = text && !r->heading ? LEAF_TEXT : LEAF_OTHER, .first = r->out->lines.n, .source = at};
    if (r->loose.n_runs && !text) {
        lines_fill(&r->out->lines, &r->loose, 0, LINES_WORDS, margin, r->out->measure);
        margin.first = 1;
    }
    for (int i = 0; i < r->n_boxes; i++)
        r->boxes[i].fresh = false;
    r->any = r->line_done = true;
    r->gap = false;
    return margin;
}

/* --- text --- */

/* Draws a horizontal rule. */
static void rule(struct render *r, int columns, struct lines_margin margin)
{
    struct lines line = {0};
    int left = margin.first >= 0 ? lines_columns(margin.of, margin.first) : 0;
    lines_begin(&line, r->cursor);
    for (int i = 0; i < columns && i < r->out->measure - left; i++)
        lines_add(&line, ruled, "─", strlen("─"), LINES_NO_SOURCE);
    lines_fill(&r->out->lines, &line, 0, LINES_ANYWHERE, margin, r->out->measure);
    lines_free(&line);
}

/* Lays out the paragraph or heading collected so far, if there is one. */
static void flush_text(struct render *r)
{
    struct lines *t = &r->text;
    if (!t->n || r->in_table)
        return;
    size_t at = t->lines[0].source, end = r->cursor;
    r->cursor = r->text_cursor;
    struct lines_margin margin = begin_leaf(r, at, true);
    r->cursor = end;
    int widest = 0;
    if (r->loose.n_runs)
        lines_add_line(&r->loose, t, 0, 0);
    for (int i = 0; i < t->n; i++) {
        bool marked = !i && r->loose.n_runs;
        lines_fill(&r->out->lines, marked ? &r->loose : t, i, LINES_WORDS, margin, r->out->measure);
        margin.first = margin.rest;
        int columns = lines_columns(t, i);
        widest = columns > widest ? columns : widest;
    }
    if (r->underlined)
        rule(r, widest, margin);
    r->underlined = false;
    lines_reset(t);
}

/* Begins a paragraph or heading, if none is open; a heading keeps its marks. */
static void begin_text(struct render *r, size_t source)
{
    if (r->in_table || r->text.n)
        return;
    r->text_cursor = r->cursor;
    lines_begin(&r->text, source != LINES_NO_SOURCE ? source : upcoming(r));
    if (!r->heading)
        return;
    size_t at = source, end = source;
    if (source == LINES_NO_SOURCE)
        end = line_end(r, at = upcoming(r));
    while (at > r->from && r->source[at - 1] != '\n')
        at--;
    const char *marks = memmem(r->source + at, end - at, "######", (size_t)r->heading);
    r->underlined = !marks;
    if (!marks)
        return;
    size_t behind = (size_t)(marks - r->source) + (size_t)r->heading;
    lines_add(&r->text, dim, marks, (size_t)r->heading, behind - (size_t)r->heading);
    lines_add(&r->text, dim, " ", 1, behind < r->to && r->source[behind] == ' ' ? behind : LINES_NO_SOURCE);
}

/* Adds text; a newline in it begins a new line. */
static void add_text(struct render *r, struct look look, const char *s, size_t n, size_t source)
{
    struct lines *to = r->in_table ? &r->table.text : &r->text;
    begin_text(r, source);
    for (size_t i = 0, k; i < n; i += k + 1) {
        const char *end = memchr(s + i, '\n', n - i);
        k = end ? (size_t)(end - s) - i : n - i;
        lines_add(to, look, s + i, k, source == LINES_NO_SOURCE ? source : source + i);
        if (end)
            lines_begin(to, source == LINES_NO_SOURCE ? source : source + i + k);
    }
    if (source != LINES_NO_SOURCE) {
        r->cursor = source + n;
        r->line_done = true;
    }
}

/* Returns the end of the formula that begins at s[i] of md4c's text s[0..n), or 0.  md4c cuts a formula of several lines, which is shown as source.
 * */
static size_t formula_end(struct render *r, const char *s, size_t n, size_t i, size_t source)
{
    char c = r->source[source + i];
    if ((c != '$' && c != '\\') || s[i] != 'x' || source + i < r->formula_to)
        return 0;
    size_t end = copy_math_end(r->source + r->from, r->to - r->from, source + i - r->from);
    r->formula_to = end ? r->from + end : r->formula_to;
    return end && r->formula_to <= source + n ? r->formula_to - source : 0;
}

/* Adds text that is one piece of the source, or md4c's own; formulas in it are made readable. */
static void add_piece(struct render *r, struct look look, const char *s, size_t n)
{
    struct buf text = {0};
    size_t source = place_of(r, s, n), done = 0;
    if (source == LINES_NO_SOURCE) {
        add_text(r, look, s, n, source);
        return;
    }
    for (size_t i = 0, end; i < n && !r->code; i = end ? end : i + 1) {
        end = formula_end(r, s, n, i, source);
        buf_reset(&text);
        if (!end || !formula_text(r->source + source + i, end - i, &text))
            continue;
        add_text(r, look, r->source + source + done, i - done, source + done);
        begin_text(r, source + i);
        if (memchr(buf_str(&text), '\n', text.len) && !r->in_table && lines_columns(&r->text, r->text.n - 1))
            lines_begin(&r->text, source + i);          /* its rows are aligned below each other */
        add_text(r, look, buf_str(&text), text.len, LINES_NO_SOURCE);
        r->cursor = source + (done = end);
        r->line_done = true;
    }
    add_text(r, look, r->source + source + done, n - done, source + done);
    buf_free(&text);
}

/* Adds text that md4c points to, in pieces where it crosses a replacement in the copy. */
static void add(struct render *r, struct look look, const char *s, size_t n)
{
    uintptr_t first = (uintptr_t)r->copy.text.data, at = (uintptr_t)s - first;
    bool copied = (uintptr_t)s >= first && at + n <= r->copy.text.len;
    size_t piece;
    do {
        piece = copied && n ? copy_part(&r->copy, at, n) : n;
        add_piece(r, look, s, piece);
        s += piece;
        at += piece;
        n -= piece;
    } while (n);
}

static void new_line(struct render *r)
{
    begin_text(r, LINES_NO_SOURCE);
    lines_begin(r->in_table ? &r->table.text : &r->text, r->cursor);
}

static const struct { const char *name, *text; } entities[] = {
    {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}, {"&nbsp;", " "}, {"&copy;", "©"},
    {"&hellip;", "…"}, {"&mdash;", "—"}, {"&ndash;", "–"}, {"&times;", "×"}, {"&deg;", "°"}, {"&larr;", "←"}, {"&rarr;", "→"},
    {"&le;", "≤"}, {"&ge;", "≥"}, {"&ne;", "≠"}, {"&middot;", "·"}, {"&bull;", "•"},
};

/* Writes the character that the entity s[0..n), from "&" to ";", stands for to out, as UTF-8; returns its length; 0: unknown entity. */
static size_t entity_text(const char *s, size_t n, char out[4])
{
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++)
        if (n == strlen(entities[i].name) && !memcmp(s, entities[i].name, n)) {
            memcpy(out, entities[i].text, strlen(entities[i].text));
            return strlen(entities[i].text);
        }
    if (n < 4 || n > 12 || s[1] != '#')
        return 0;
    bool hex = s[2] == 'x' || s[2] == 'X';
    char digits[16] = {0};
    memcpy(digits, s + (hex ? 3 : 2), n - (hex ? 4 : 3));
    unsigned long cp = strtoul(digits, NULL, hex ? 16 : 10);
    if (!cp || cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000))
        cp = UNICODE_REPLACEMENT;
    return unicode_encode((uint32_t)cp, out);
}

/* Adds an entity as the character that it stands for, or as written. */
static void add_entity(struct render *r, struct look look, const char *s, size_t n)
{
    char text[4];
    size_t source = place_of(r, s, n), k = entity_text(s, n, text);
    if (!k) {
        add(r, look, s, n);
        return;
    }
    begin_text(r, source);
    if (text[0] == '\n')
        text[0] = ' ';
    add_text(r, look, text, k, LINES_NO_SOURCE);
    if (source != LINES_NO_SOURCE)
        r->cursor = source + n;
}

/* Adds the text of an attribute, such as a link's target. */
static void add_attribute(struct render *r, const MD_ATTRIBUTE *a)
{
    for (int i = 0; a->text && a->substr_offsets[i] < a->size; i++) {
        const char *s = a->text + a->substr_offsets[i];
        size_t n = a->substr_offsets[i + 1] - a->substr_offsets[i];
        if (a->substr_types[i] == MD_TEXT_ENTITY)
            add_entity(r, dim, s, n);
        else
            add(r, dim, s, n);
    }
}

/* Adds the target after the text of a link or an image, unless the text is the target. */
static void add_target(struct render *r, const MD_ATTRIBUTE *url, const MD_ATTRIBUTE *title)
{
    const struct lines *to = r->in_table ? &r->table.text : &r->text;
    const char *text = to->n == r->link_text.line ? to->text.data + r->link_text.at : NULL;
    size_t n = text ? to->text.len - r->link_text.at : 0, skip = url->size - n;
    bool same = n <= url->size && (!skip || (skip == 7 && !memcmp(url->text, "mailto:", 7))) && n && !memcmp(url->text + skip, text, n);
    if ((same || !url->size) && !title->size)
        return;
    add_text(r, dim, text && !n ? "(" : " (", text && !n ? 1 : 2, LINES_NO_SOURCE);
    add_attribute(r, url);
    if (title->size) {
        add_text(r, dim, " \"", 2, LINES_NO_SOURCE);
        add_attribute(r, title);
        add_text(r, dim, "\"", 1, LINES_NO_SOURCE);
    }
    add_text(r, dim, ")", 1, LINES_NO_SOURCE);
}

/* --- quotes and lists --- */

/* Opens a quote or list item; returns its box. */
static struct box *push_box(struct render *r)
{
    r->boxes = memory_grow(r->boxes, r->n_boxes, &r->cap_boxes, sizeof *r->boxes);
    struct box *b = &r->boxes[r->n_boxes++];
    *b = (struct box){.fresh = true, .columns = 2, .source = LINES_NO_SOURCE};
    return b;
}

static void push_list(struct render *r, struct list l)
{
    r->lists = memory_grow(r->lists, r->n_lists, &r->cap_lists, sizeof *r->lists);
    r->lists[r->n_lists++] = l;
}

/* Returns the length of the item's mark at `at`; 0: the source has no mark there. */
static size_t mark_at(const struct render *r, size_t at, const struct list *l)
{
    size_t i = at;
    while (l->ordered && i < r->to && i - at < 9 && r->source[i] >= '0' && r->source[i] <= '9')
        i++;
    return i < r->to && r->source[i] == l->mark && (!l->ordered || i > at) ? i + 1 - at : 0;
}

/* Opens a list item with its marker as written, or the next number. */
static void enter_item(struct render *r, const MD_BLOCK_LI_DETAIL *d)
{
    struct list *l = &r->lists[r->n_lists - 1];
    struct box *b = push_box(r);
    size_t at = upcoming(r), n = mark_at(r, at, l);
    if (n)
        snprintf(b->marker, sizeof b->marker, "%.*s ", (int)n, r->source + at);
    else if (l->ordered)
        snprintf(b->marker, sizeof b->marker, "%u%c ", l->next % 1000000000, l->mark);
    else
        snprintf(b->marker, sizeof b->marker, "%c ", l->mark);
    l->next++;
    if (n) {
        pass(r, at);
        r->cursor = at + n;
        r->line_done = false;
    }
    if (d->is_task) {
        size_t len = strlen(b->marker);
        snprintf(b->marker + len, sizeof b->marker - len, "[%c] ", d->task_mark);
        r->cursor = place_of(r, r->copy.text.data + d->task_mark_offset, 1) + 2;
    }
    b->columns = (int)strlen(b->marker);
    if (n && r->to - at >= (size_t)b->columns && !memcmp(r->source + at, b->marker, (size_t)b->columns))
        b->source = at;
}

/* Closes a list item; an empty one still shows its marker. */
static void leave_item(struct render *r)
{
    struct box *b = &r->boxes[r->n_boxes - 1];
    struct lines empty = {0};
    if (b->fresh) {
        bool done = r->line_done;
        lines_begin(&empty, r->cursor);
        struct lines_margin margin = begin_leaf(r, r->cursor, false);
        if (margin.first == 0)
            lines_fill(&r->out->lines, &empty, 0, LINES_WORDS, margin, r->out->measure);
        r->line_done = done;
        lines_free(&empty);
    }
    r->n_boxes--;
}

/* --- code, rules, tables --- */

/* Opens a code block with its info string. */
static void enter_code(struct render *r, const MD_BLOCK_CODE_DETAIL *d)
{
    size_t at = upcoming(r);
    struct lines_margin margin = begin_leaf(r, at, false);
    size_t info, n = block_info(r->source + at, line_end(r, at) - at, &info);
    bool found = at < r->to && r->source[at] == d->fence_char;          /* the info string as written, else as md4c returns it */
    sheet_code_begin(r->out, found ? r->source + at + info : d->info.text, found ? n : d->info.size, at, margin);
    if (d->fence_char)
        r->cursor = line_end(r, at);
    r->in_code = true;
}

/* Closes a code block and passes its closing fence in the source. */
static void leave_code(struct render *r, const MD_BLOCK_CODE_DETAIL *d)
{
    size_t at;
    r->in_code = false;
    r->line_done = true;
    sheet_code_end(r->out, LINES_NO_SOURCE, (struct lines_margin){&r->margin, 1, 1});
    if (!d->fence_char)
        return;
    for (at = line_end(r, r->cursor); at < r->to && strchr(" \t\r\n>", r->source[at]) && r->source[at]; at++)
        ;
    if (at < r->to && r->source[at] == d->fence_char)
        r->cursor = line_end(r, at);
}

/* Adds a piece of code; md4c sends lines in pieces, some of them not from the source. */
static void code_text(struct render *r, const char *s, size_t n)
{
    size_t at = place_of(r, s, n);
    if (at == LINES_NO_SOURCE && n == 1 && *s == '\n') {
        sheet_code_line(r->out, buf_str(&r->line), r->line.len, r->line_source, (struct lines_margin){&r->margin, 1, 1});
        buf_reset(&r->line);
        return;
    }
    if (at == LINES_NO_SOURCE) {
        buf_add(&r->line, s, n);
        r->line_source = at;
        return;
    }
    size_t before = r->line.len;        /* blanks that are the source's blanks */
    if (before <= at - r->from && !memcmp(r->source + at - before, buf_str(&r->line), before))
        r->line_source = at - before;
    buf_add(&r->line, r->source + at, n);
    r->cursor = at + n;
}

static void enter_table(struct render *r, const MD_BLOCK_TABLE_DETAIL *d)
{
    r->too_large = (size_t)d->col_count * (d->body_row_count + 1) > CELLS_MAX;
    r->in_table = true;
    r->table_from = upcoming(r);
    r->table_margin = begin_leaf(r, r->table_from, false);
    r->line_done = false;
    table_begin(&r->table, (int)d->col_count);
}

/* Lays out the table that has ended, or shows its source if it has no room. */
static void leave_table(struct render *r)
{
    int first = r->out->lines.n;
    r->in_table = false;
    if (r->shape == TABLE_SOURCE)
        render_source(r->out, plain, r->source, r->table_from, r->cursor);
    else
        table_layout(&r->table, r->shape, &r->out->lines, r->table_margin, r->out->columns);
    sheet_table(r->out, first, r->table_from, r->cursor);
    r->line_done = true;
}

/* Ends a row.  Cells beyond those of the header, which md4c drops, are added to the last one. */
static void leave_row(struct render *r)
{
    size_t end = line_end(r, r->cursor), i = r->cursor;
    int pipes = r->table.n_cols - (r->last_cell < 0 ? 0 : r->last_cell);
    if (r->last_cell < 0 && i < end && r->source[i] == '|')
        i++;
    for (; i < end && pipes; i++) {
        if (r->source[i] == '\\' && i + 1 < end)
            i++;
        else if (r->source[i] == '|')
            pipes--;
    }
    while (end > i && strchr(" \t\r|", r->source[end - 1]) && r->source[end - 1])
        end--;
    while (i < end && (r->source[i] == ' ' || r->source[i] == '\t'))
        i++;
    if (i < end) {
        lines_add(&r->table.text, dim, " | ", 3, LINES_NO_SOURCE);
        lines_add(&r->table.text, plain, r->source + i, end - i, i);
        table_cell_end(&r->table);
    }
    r->cursor = line_end(r, r->cursor);
    if (r->table.n_cells == r->table.n_cols)            /* skips the delimiter row after the header */
        r->cursor = line_end(r, upcoming(r));
}

/* --- callbacks of md4c --- */

/* Called by md4c at the beginning of a block; -1 ends the parse. */
static int enter_block(MD_BLOCKTYPE type, void *detail, void *arg)
{
    struct render *r = arg;
    MD_ALIGN align;
    flush_text(r);
    switch (type) {
    case MD_BLOCK_QUOTE:
        push_box(r)->quote = true;
        break;
    case MD_BLOCK_UL:
        push_list(r, (struct list){0, ((MD_BLOCK_UL_DETAIL *)detail)->mark, false});
        break;
    case MD_BLOCK_OL:
        push_list(r, (struct list){((MD_BLOCK_OL_DETAIL *)detail)->start, ((MD_BLOCK_OL_DETAIL *)detail)->mark_delimiter, true});
        break;
    case MD_BLOCK_LI:
        enter_item(r, detail);
        break;
    case MD_BLOCK_HR:
        rule(r, r->out->measure, begin_leaf(r, upcoming(r), false));
        break;
    case MD_BLOCK_H:
        r->heading = (int)((MD_BLOCK_H_DETAIL *)detail)->level;
        break;
    case MD_BLOCK_CODE:
        enter_code(r, detail);
        break;
    case MD_BLOCK_TABLE:
        enter_table(r, detail);
        break;
    case MD_BLOCK_TR:
        r->cursor = upcoming(r);
        while (r->cursor > r->from && r->source[r->cursor - 1] == '\r')
            r->cursor--;                /* a carriage return alone is text of the first cell */
        r->line_done = true;
        r->cell = r->last_cell = -1;
        break;
    case MD_BLOCK_TH:
    case MD_BLOCK_TD:
        align = ((MD_BLOCK_TD_DETAIL *)detail)->align;
        table_cell(&r->table, align == MD_ALIGN_RIGHT ? TABLE_RIGHT : align == MD_ALIGN_CENTER ? TABLE_CENTER : TABLE_LEFT);
        lines_begin(&r->table.text, r->cursor);
        r->cell_from = r->cursor;
        r->cell++;
        break;
    default:
        break;
    }
    return r->too_large ? -1 : 0;       /* ends the parse */
}

/* Called by md4c at the end of a block. */
static int leave_block(MD_BLOCKTYPE type, void *detail, void *arg)
{
    struct render *r = arg;
    switch (type) {
    case MD_BLOCK_H:
        begin_text(r, LINES_NO_SOURCE);
        flush_text(r);
        r->heading = 0;
        break;
    case MD_BLOCK_CODE:
        leave_code(r, detail);
        break;
    case MD_BLOCK_TABLE:
        leave_table(r);
        break;
    case MD_BLOCK_TR:
        leave_row(r);
        break;
    case MD_BLOCK_TH:
    case MD_BLOCK_TD:
        if (r->cursor != r->cell_from)
            r->last_cell = r->cell;
        table_cell_end(&r->table);
        break;
    case MD_BLOCK_HTML:
        if (r->text.n > 1 && !r->text.lines[r->text.n - 1].n_runs)
            lines_cut(&r->text, r->text.n - 1);
        break;
    default:
        break;
    }
    flush_text(r);
    if (type == MD_BLOCK_LI)
        leave_item(r);
    else if (type == MD_BLOCK_QUOTE)
        r->n_boxes--;
    else if (type == MD_BLOCK_UL || type == MD_BLOCK_OL)
        r->n_lists--;
    return 0;
}

/* Counts the spans of each kind that are open. */
static void count_span(struct render *r, MD_SPANTYPE type, int step)
{
    switch (type) {
    case MD_SPAN_EM:
        r->em += step;
        break;
    case MD_SPAN_STRONG:
        r->strong += step;
        break;
    case MD_SPAN_DEL:
        r->del += step;
        break;
    case MD_SPAN_CODE:
        r->code += step;
        break;
    case MD_SPAN_A:
    case MD_SPAN_IMG:
        r->link += step;
        break;
    default:
        break;
    }
}

/* Called by md4c at the beginning of a span. */
static int enter_span(MD_SPANTYPE type, void *detail, void *arg)
{
    struct render *r = arg;
    (void)detail;
    count_span(r, type, 1);
    if (type == MD_SPAN_A || type == MD_SPAN_IMG) {
        const struct lines *to = r->in_table ? &r->table.text : &r->text;
        r->link_text.line = to->n ? to->n : 1;
        r->link_text.at = to->text.len;
    }
    return 0;
}

/* Called by md4c at the end of a span; adds the target of a link. */
static int leave_span(MD_SPANTYPE type, void *detail, void *arg)
{
    struct render *r = arg;
    count_span(r, type, -1);
    if (type == MD_SPAN_A)
        add_target(r, &((MD_SPAN_A_DETAIL *)detail)->href, &((MD_SPAN_A_DETAIL *)detail)->title);
    else if (type == MD_SPAN_IMG)
        add_target(r, &((MD_SPAN_IMG_DETAIL *)detail)->src, &((MD_SPAN_IMG_DETAIL *)detail)->title);
    return 0;
}

static bool is_break_tag(const char *s, size_t n)
{
    return (n == 4 && !memcmp(s, "<br>", 4)) || (n == 5 && !memcmp(s, "<br/>", 5)) || (n == 6 && !memcmp(s, "<br />", 6));
}

/* Called by md4c with a piece of text. */
static int text(MD_TEXTTYPE type, const MD_CHAR *s, MD_SIZE n, void *arg)
{
    struct render *r = arg;
    if (type == MD_TEXT_BR || type == MD_TEXT_SOFTBR) {
        new_line(r);
    } else if (r->in_code) {
        code_text(r, s, n);
    } else if (type == MD_TEXT_ENTITY) {
        add_entity(r, look_of(r), s, n);
    } else if (type == MD_TEXT_HTML && r->in_table && is_break_tag(s, n)) {
        new_line(r);
        r->cursor = place_of(r, s, n) + n;
    } else {
        add(r, look_of(r), s, n);
    }
    return 0;
}

void render(struct sheet *out, const char *source, size_t from, size_t to, const struct render_as *as)
{
    static const MD_PARSER parser = {
        .flags = MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_TASKLISTS | MD_FLAG_PERMISSIVEURLAUTOLINKS,
        .enter_block = enter_block, .leave_block = leave_block, .enter_span = enter_span, .leave_span = leave_span, .text = text,
    };
    struct sheet_mark mark = sheet_mark(out);
    struct render r = {.out = out, .source = source, .from = from, .to = to, .cursor = from, .shape = as->shape};
    copy_make(&r.copy, source + from, to - from, as->table);
    if (as->left)
        *push_box(&r) = (struct box){.columns = as->left};
    if (md_parse(buf_str(&r.copy.text), (MD_SIZE)r.copy.text.len, &parser, &r)) {
        sheet_cut(out, &mark);
        render_source(out, plain, source, from, to);
    }
    copy_free(&r.copy);
    buf_free(&r.line);
    lines_free(&r.margin);
    lines_free(&r.loose);
    lines_free(&r.text);
    table_free(&r.table);
    free(r.boxes);
    free(r.lists);
}

bool render_formula(struct sheet *out, const char *source, size_t from, size_t to)
{
    size_t at = from, end = to;
    struct buf text = {0};
    struct lines rows = {0}, indent = {0};
    lines_begin(&indent, from);
    lines_add(&indent, plain, "  ", 2, LINES_NO_SOURCE);
    while (end > at && strchr(" \t\r\n", source[end - 1]))
        end--;
    while (at < end && (source[at] == ' ' || source[at] == '\t'))
        at++;
    bool ok = formula_text(source + at, end - at, &text);
    enum lines_break how = strchr(buf_str(&text), '\n') ? LINES_ANYWHERE : LINES_WORDS;
    for (size_t i = 0, k; ok && i < text.len; i += k + 1) {
        k = strcspn(text.data + i, "\n");
        lines_reset(&rows);
        lines_begin(&rows, from);
        lines_add(&rows, plain, text.data + i, k, LINES_NO_SOURCE);
        lines_fill(&out->lines, &rows, 0, how, (struct lines_margin){&indent, 0, 0}, out->measure);
    }
    lines_free(&indent);
    lines_free(&rows);
    buf_free(&text);
    return ok;
}

void render_source(struct sheet *out, struct look look, const char *source, size_t from, size_t to)
{
    while (to > from && (source[to - 1] == '\n' || source[to - 1] == '\r'))
        to--;
    lines_wrap(&out->lines, look, source + from, to - from, from, out->measure, 0);
}
