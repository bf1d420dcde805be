#include "ui/tui/item.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/least.h"
#include "base/memory.h"
#include "ui/tui/numbers.h"

enum {
    FOLD_ROWS = 12, FOLDED_ROWS = 10,   /* a longer message of the user shows its first rows */
    TAIL_ROWS = 5,                      /* of a tool's output while it runs */
    NARROW = 60,                        /* columns below which hints, margins of head rows and most blank lines are left out */
};

static bool has_text(const struct item *it)
{
    return it->source.len && strspn(it->source.data, " \t\r\n") < it->source.len;
}

/* Forgets the rows, which frees memory. */
static void item_drop(struct item *it)
{
    markdown_close(it->md);
    it->md = NULL;
    lines_free(&it->own);
    lines_free(&it->frame);
    it->from = it->wrapped = 0;
    it->n_closed = 0;
    it->view = (struct item_view){0};
}

void item_append(struct item *it, const char *text, size_t n)
{
    buf_add(&it->source, text, n);
    if (!it->live)
        item_drop(it);                  /* an answer that continues is laid out again */
    else if (it->md)
        markdown_push(it->md, text, n);
    it->live = true;
    it->stale = true;
}

void item_end(struct item *it)
{
    it->live = false;
    it->stale = true;
    if (it->md)
        markdown_end(it->md);
}

void item_head(struct item *it, const char *text)
{
    char *copy = text && *text ? memory_strdup(text) : NULL;
    CHECK(copy || !text || !*text);
    free(it->head);
    it->head = copy;
    it->stale = true;
    if (it->kind == ITEM_USER)
        it->wrapped = 0;                /* the text makes room for the head */
}

static void item_free(struct item *it)
{
    item_drop(it);
    buf_free(&it->source);
    hits_free(&it->hits);
    free(it->head);
    free(it->tints);
}

static size_t lines_bytes(const struct lines *l)
{
    return l->text.cap + (size_t)l->cap_runs * sizeof *l->runs + (size_t)l->cap * sizeof *l->lines;
}

/* Returns about how many bytes the rows take. */
static size_t item_cached(const struct item *it)
{
    size_t n = lines_bytes(&it->own) + lines_bytes(&it->frame);
    return it->md ? n + it->source.len + lines_bytes(markdown_lines(it->md)) : n;
}

void item_picture(struct item *it, uint32_t number, int w, int h)
{
    it->picture = number;
    graphics_size(w, h, &it->picture_rows, &it->picture_cols);
}

bool item_shows(const struct item *it)
{
    switch (it->kind) {
    case ITEM_USER:
    case ITEM_CALL:
        return true;
    case ITEM_REASONING:
        return it->live || has_text(it);
    default:
        return it->head || has_text(it);
    }
}

bool item_is_open(const struct item *it)
{
    bool shut = it->kind == ITEM_USER || it->kind == ITEM_REASONING || it->kind == ITEM_FILE || it->kind == ITEM_CALL;
    return it->fold == FOLD_OPEN || (it->fold == FOLD_AUTO && !shut);
}

bool item_folds(struct item *it)
{
    switch (it->kind) {
    case ITEM_USER:
        return it->own.n > FOLD_ROWS;
    case ITEM_REASONING:
    case ITEM_FILE:
        return has_text(it);
    case ITEM_CALL:
        return (it->source.len > it->body && !it->whole) || it->shown < it->body - 1;
    default:
        return false;
    }
}

/* Guesses the number of rows without a layout. */
static long item_guess(const struct item *it, int columns)
{
    if (!item_shows(it))
        return 0;
    long rows = (long)it->source.len / (columns < 10 ? 10 : columns) + 2;
    long shut = it->kind == ITEM_USER ? FOLDED_ROWS + 2 : 2;
    return !item_is_open(it) && rows > shut ? shut : rows;
}

/* --- the body --- */

static struct look body_look(const struct item *it)
{
    static const enum style style[] = {
        [ITEM_USER] = STYLE_user, [ITEM_REASONING] = STYLE_reasoning, [ITEM_FILE] = STYLE_text, [ITEM_ANSWER] = STYLE_text, [ITEM_CALL] = STYLE_tool,
        [ITEM_NOTE] = STYLE_note, [ITEM_ERROR] = STYLE_error, [ITEM_OUTPUT] = STYLE_text,
    };
    return (struct look){(uint8_t)style[it->kind], 0};
}

/* Returns the column where the rest of a long line of a command's output continues: below its last column, else a bit further in. */
static int hanging(const char *s, size_t n, int columns)
{
    size_t lead = 0, at = 0;
    while (lead < n && s[lead] == ' ')
        lead++;
    for (size_t i = lead; i + 2 < n; i++)
        if (s[i] == ' ' && s[i + 1] == ' ' && s[i + 2] != ' ')
            at = i + 2;
    int below = glyph_columns(s, at);
    return at && below <= columns / 2 ? below : (int)lead + 2 <= columns / 2 ? (int)lead + 2 : 0;
}

/* Makes the margins before the first row, before all others, and before the rest of a broken line of output. */
static void make_margin(const struct item *it, struct lines *m)
{
    bool user = it->kind == ITEM_USER, sign = user || it->kind == ITEM_ERROR, bar = it->kind == ITEM_REASONING && it->view.bars;
    lines_begin(m, 0)->indent = sign || bar ? 0 : 2;
    if (bar)
        lines_add(m, (struct look){STYLE_reasoning, 0}, "| ", 2, LINES_NO_SOURCE);
    if (sign)
        lines_add(m, (struct look){user ? STYLE_prompt : STYLE_error, 0}, user ? "> " : "! ", 2, LINES_NO_SOURCE);
    struct line *rest = lines_begin(m, 0);
    rest->indent = bar ? 0 : 2;
    if (bar)
        lines_add(m, (struct look){STYLE_reasoning, 0}, "| ", 2, LINES_NO_SOURCE);
    bool room = it->view.columns >= LINES_LEAST_SIGNED;
    lines_begin(m, 0)->indent = room ? 0 : 2;
    if (room)
        lines_add(m, (struct look){STYLE_dim, 0}, LINES_CONTINUED, strlen(LINES_CONTINUED), LINES_NO_SOURCE);
}

/* Returns the bytes of a sequence that changes the colour ("ESC [ 1 ; 31 m") at s[0], or 0. */
static size_t colour_order(const char *s, size_t n)
{
    size_t i = 2;
    if (n < 3 || s[0] != '\033' || s[1] != '[')
        return 0;
    while (i < n && ((s[i] >= '0' && s[i] <= '9') || s[i] == ';' || s[i] == ':'))
        i++;
    return i < n && s[i] == 'm' ? i + 1 : 0;
}

/* Adds output of a tool without its colours, which mean nothing here.  Other control sequences stay visible. */
static void add_output(struct item *it, struct lines *one, size_t at, size_t end)
{
    const char *s = it->source.data;
    while (at < end) {
        const char *order = memchr(s + at, '\033', end - at);
        size_t stop = order ? (size_t)(order - s) : end, skip = order ? colour_order(order, end - stop) : 0;
        if (order && !skip)
            stop++;
        lines_add(one, body_look(it), s + at, stop - at, at);
        at = stop + skip;
    }
}

/* Lays out the source line at..end, which holds no newline. */
static void add_source_line(struct item *it, size_t at, size_t end, int columns)
{
    struct lines one = {0}, margin = {0};
    bool output = it->kind == ITEM_CALL && at >= it->body;
    lines_begin(&one, at);
    if (output)
        add_output(it, &one, at, end);
    else
        lines_add(&one, body_look(it), it->source.data + at, end - at, at);
    bool code = output || it->kind == ITEM_FILE;
    struct lines_margin m = {&margin, it->own.n ? 1 : 0, code ? 2 : 1};
    if (it->kind == ITEM_OUTPUT) {
        lines_begin(&margin, 0)->indent = (uint16_t)hanging(it->source.data + at, end - at, columns);
        m = (struct lines_margin){&margin, -1, 0};
    } else {
        make_margin(it, &margin);
    }
    lines_fill(&it->own, &one, 0, code ? LINES_CODE : LINES_WORDS, m, columns);
    lines_free(&one);
    lines_free(&margin);
}

/* Lays out plain text.  Lines of complete source lines are kept, so a growing text costs only what was added. */
static void layout_own(struct item *it, size_t from, int columns)
{
    size_t end = it->source.len;
    const char *s = buf_str(&it->source), *newline;
    while (end > from && (s[end - 1] == '\n' || s[end - 1] == '\r'))
        end--;
    if (it->wrapped <= from) {
        while (from < end && s[from] == '\n' && it->kind != ITEM_CALL)
            from++;
        it->from = it->wrapped = from;
        it->n_closed = 0;
    }
    lines_cut(&it->own, it->n_closed);
    while (it->wrapped < end && (newline = memchr(s + it->wrapped, '\n', end - it->wrapped))) {
        size_t stop = (size_t)(newline - s);
        add_source_line(it, it->wrapped, stop, columns);
        it->wrapped = stop + 1;
        it->n_closed = it->own.n;
    }
    if (it->wrapped < end || (it->kind == ITEM_USER && !it->own.n))
        add_source_line(it, it->wrapped, end, columns);
}

/* Lays out an answer as Markdown. */
static void layout_answer(struct item *it, const struct item_view *v)
{
    if (!it->md) {
        it->md = markdown_open();
        markdown_width(it->md, v->columns, v->measure);
        markdown_push(it->md, buf_str(&it->source), it->source.len);
        if (!it->live)
            markdown_end(it->md);
    }
    markdown_width(it->md, v->columns, v->measure);
    markdown_tables(it->md, v->tables);
    markdown_raw(it->md, v->raw);
}

static const struct lines *body_lines(const struct item *it)
{
    return it->md ? markdown_lines(it->md) : &it->own;
}

/* --- head and foot --- */

struct part { const char *text; size_t n, source; struct look look; bool more; };      /* more: the text continues */

static int columns_of(const struct part *p)
{
    return glyph_columns(p->text, p->n);
}

/* Adds a row with `left`, cut where `right` begins, and `right` at the right edge; returns how many bytes of `left` are shown. */
static size_t add_frame(struct item *it, int columns, int indent, const char *sign, struct part left, struct part right)
{
    int taken = glyph_columns(sign, strlen(sign)), room = columns - indent - taken, wide = columns_of(&right);
    size_t n = left.n;
    if (wide > room) {
        right.n = glyph_fit(right.text, right.n, room > 0 ? room : 0);
        wide = columns_of(&right);
    }
    struct line *line = lines_begin(&it->frame, left.source == LINES_NO_SOURCE ? 0 : left.source);
    line->indent = (uint16_t)(indent > 0 ? indent : 0);
    if (wide)
        room -= wide + (left.n ? 2 : 0);
    bool dots = left.more || columns_of(&left) > room;
    if (dots && columns_of(&left) > room - 3)
        n = glyph_fit(left.text, left.n, room > 3 ? room - 3 : 0);
    lines_add(&it->frame, left.look, sign, strlen(sign), LINES_NO_SOURCE);
    lines_add(&it->frame, left.look, left.text, n, left.source);
    taken += glyph_columns(left.text, n);
    if (dots && room > 3) {
        lines_add(&it->frame, left.look, "...", 3, LINES_NO_SOURCE);
        taken += 3;
    }
    if (wide) {
        int pad = columns - indent - taken - wide;
        for (; pad > 0; pad--)
            lines_add(&it->frame, right.look, " ", 1, LINES_NO_SOURCE);
        lines_add(&it->frame, right.look, right.text, right.n, LINES_NO_SOURCE);
    }
    return n;
}

static const struct look dim = {STYLE_dim, 0};

static long count_lines(const char *s, size_t n)
{
    while (n && s[n - 1] == '\n')
        n--;
    long lines = n > 0;
    for (size_t i = 0; i < n; i++)
        lines += s[i] == '\n';
    return lines;
}

static bool has_controls(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && (unsigned char)s[i] >= ' ')
        i++;
    return i < n;
}

/* Appends a result of one line that fits, "= 42", or the number of lines.  True: the result has no more text. */
static bool short_result(const struct item *it, int room, struct buf *out)
{
    const char *s = buf_str(&it->source) + it->body;
    size_t n = it->source.len - it->body;
    while (n && s[n - 1] == '\n')
        n--;
    long lines = count_lines(s, n);
    bool whole = lines == 1 && !it->live && !item_is_open(it) && glyph_columns(s, n) <= room && !has_controls(s, n) && strncmp(s, "error:", 6);
    if (whole) {
        buf_adds(out, "= ");
        buf_add(out, s, n);
    } else if (lines) {
        number_count(out, lines);
        buf_adds(out, lines == 1 ? " line" : " lines");
    }
    return whole || !lines;
}

/* Appends the right side of a card's line: its result or the number of lines, how the call ended, and before these the key that opens it, as far
 * as there is room. */
static void call_summary(struct item *it, int columns, int left, bool more, struct buf *out)
{
    enum { MOST = 40, SIGN = 2 };
    int room = columns - 3 - (left < columns / 2 ? left : columns / 2);
    struct buf count = {0}, all = {0};
    const char *hint = item_is_open(it) ? "(Ctrl-O closes it)" : "(Ctrl-O)";
    const char *head = it->head ? it->head : "";
    bool whole = it->whole = short_result(it, least(MOST, room - SIGN), &count);
    const char *texts[] = {whole ? buf_str(&count) : head, whole ? head : buf_str(&count), it->hinted && (!whole || more) && !it->live ? hint : ""};
    for (int i = 0; i < 3; i++) {
        int wide = glyph_columns(buf_str(out), out->len) + (out->len ? 2 : 0) + glyph_columns(texts[i], strlen(texts[i]));
        if (!*texts[i] || wide > room)
            continue;
        const char *gap = out->len ? "  " : "";
        buf_reset(&all);
        if (i == 2)
            buf_addf(&all, "%s%s%s", texts[i], gap, buf_str(out));
        else
            buf_addf(&all, "%s%s%s", buf_str(out), gap, texts[i]);
        buf_reset(out);
        buf_adds(out, all.data);
    }
    buf_free(&count);
    buf_free(&all);
}

/* --- rows --- */

static int head_columns(const struct item *it)
{
    return it->head ? glyph_columns(it->head, strlen(it->head)) : 0;
}

/* True if the head is short enough to be beside the message, which makes room for it; a long one is above. */
static bool head_is_beside(const struct item *it, int columns)
{
    return it->kind == ITEM_USER && it->head && head_columns(it) <= columns / 3;
}

static void add_message_head(struct item *it, int columns)
{
    it->n_head = 1;
    add_frame(it, columns, 0, "", (struct part){"", 0, 0, dim}, (struct part){it->head, strlen(it->head), LINES_NO_SOURCE, dim});
}

/* Lays out a message of the user; a long one is folded. */
static void rows_of_user(struct item *it, const struct item_view *v)
{
    bool beside = head_is_beside(it, v->measure);
    layout_own(it, 0, beside ? v->measure - head_columns(it) - 1 : v->measure);
    if (it->head && !beside)
        add_message_head(it, v->measure);
    it->n_body = it->own.n;
    if (it->own.n <= FOLD_ROWS || item_is_open(it))
        return;
    it->n_body = FOLDED_ROWS;
    it->n_foot = 1;
    struct buf text = {0};
    buf_adds(&text, "... ");
    number_count(&text, it->own.n - FOLDED_ROWS);
    buf_adds(&text, it->own.n - FOLDED_ROWS == 1 ? " more line" : " more lines");
    buf_adds(&text, it->hinted ? ", Ctrl-O" : "");
    add_frame(it, v->measure, v->measure < 8 ? 0 : 2, "", (struct part){text.data, text.len, LINES_NO_SOURCE, dim}, (struct part){"", 0, 0, dim});
    buf_free(&text);
}

/* Lays out reasoning or a file: its head, and its text or picture if it is open.  Live reasoning shows its last lines. */
static void rows_of_fold(struct item *it, const struct item_view *v)
{
    const char *text = it->head ? it->head : it->live ? "thinking" : "thought";
    const char *hint = !it->hinted || !has_text(it) ? "" : item_is_open(it) ? "Ctrl-O closes it" : "Ctrl-O opens it";
    int indent = v->measure < NARROW ? 0 : 2;
    if (v->measure < NARROW)
        hint = "";
    add_frame(it, v->measure, indent, "", (struct part){text, strlen(text), LINES_NO_SOURCE, dim},
              (struct part){hint, strlen(hint), LINES_NO_SOURCE, dim});
    it->n_head = 1;
    if (it->picture && indent && v->columns >= it->picture_cols + 2 * indent && v->rows > it->picture_rows) {
        lines_reset(&it->own);
        for (it->n_body = 0; it->n_body < it->picture_rows; it->n_body++)
            lines_begin(&it->own, 0);
        return;
    }
    if (!item_is_open(it))
        return;
    layout_own(it, 0, it->kind == ITEM_FILE ? v->columns : v->measure);
    it->n_body = it->own.n;
    int most = v->rows / 3 > 1 ? v->rows / 3 : 1;
    if (it->live && it->n_body > most) {
        it->first = it->n_body - most;
        it->n_body = most;
    }
}

/* Lays out a call: its head, and its output if it is open.  A live one shows its last lines. */
static void rows_of_call(struct item *it, const struct item_view *v)
{
    struct buf right = {0};
    const char *s = buf_str(&it->source), *sign = it->one_argument ? "$ " : "";
    size_t n = it->body - 1;
    const char *newline = memchr(s, '\n', n);
    if (newline)
        n = (size_t)(newline - s);
    call_summary(it, v->measure, glyph_columns(s, n) + (int)strlen(sign), newline != NULL, &right);
    it->shown = add_frame(it, v->measure, 0, sign, (struct part){s, n, 0, body_look(it), newline != NULL},
                          (struct part){buf_str(&right), right.len, LINES_NO_SOURCE, dim});
    buf_free(&right);
    it->n_head = 1;
    bool open = item_is_open(it);
    if (!open && !it->live)
        return;
    size_t from = open && it->shown < it->body - 1 ? 0 : it->body;      /* the whole line if the head row cuts it */
    if (from != it->from)
        it->wrapped = 0;
    layout_own(it, from, v->columns);
    it->n_body = it->own.n;
    if (!open && it->n_body > TAIL_ROWS) {
        it->first = it->n_body - TAIL_ROWS;
        it->n_body = TAIL_ROWS;
    }
}

/* Makes the rows.  False: they are as before. */
static bool item_layout(struct item *it, const struct item_view *v)
{
    const struct item_view *was = &it->view;
    if (!it->stale && was->columns == v->columns && was->measure == v->measure && was->rows == v->rows && was->raw == v->raw
        && was->bars == v->bars && was->tables == v->tables)
        return false;
    if (it->view.columns != v->columns || it->view.measure != v->measure || it->view.bars != v->bars)
        it->wrapped = 0;
    it->view = *v;
    it->stale = false;
    it->n_head = it->first = it->n_body = it->n_foot = 0;
    lines_reset(&it->frame);
    switch (it->kind) {
    case ITEM_USER:
        rows_of_user(it, v);
        break;
    case ITEM_REASONING:
    case ITEM_FILE:
        rows_of_fold(it, v);
        break;
    case ITEM_CALL:
        rows_of_call(it, v);
        break;
    case ITEM_ANSWER:
        layout_answer(it, v);
        it->n_body = markdown_lines(it->md)->n;
        if (it->head)
            add_message_head(it, v->measure);
        break;
    default:
        layout_own(it, 0, it->kind == ITEM_OUTPUT ? v->columns : v->measure);
        it->n_body = it->own.n;
    }
    return true;
}

static int item_rows(const struct item *it)
{
    return it->n_head + it->n_body + it->n_foot;
}

/* Returns the lines that hold a row of the item, and which of them it is. */
static const struct lines *line_at(struct item *it, int row, int *line)
{
    CHECK(row >= 0 && row < item_rows(it));
    if (row < it->n_head || row >= it->n_head + it->n_body) {
        *line = row < it->n_head ? 0 : it->n_head;
        return &it->frame;
    }
    *line = it->first + row - it->n_head;
    return body_lines(it);
}

/* --- places --- */

static size_t source_of(struct item *it, int row)
{
    if (row < it->n_head)
        return 0;
    return body_lines(it)->lines[it->first + row - it->n_head].source;  /* for a foot: where the hidden rows begin */
}

/* Returns the first row, from `row` up, that has the same byte. */
static int first_of(struct item *it, int row)
{
    while (row > 0 && source_of(it, row - 1) == source_of(it, row))
        row--;
    return row;
}

size_t item_place(struct item *it, int row, int *sub)
{
    *sub = row - first_of(it, row);
    return source_of(it, row);
}

int item_row(struct item *it, size_t at, int sub)
{
    int low = 0, high = item_rows(it) - 1;
    if (high < 0)
        return 0;
    while (low < high) {
        int mid = (low + high + 1) / 2;
        if (source_of(it, mid) <= at)
            low = mid;
        else
            high = mid - 1;
    }
    if (source_of(it, low) != at)
        return low;
    int row = first_of(it, low) + sub;
    return row < low ? row : low;
}

bool item_hides(const struct item *it, size_t at)
{
    if (item_is_open(it))
        return false;
    if (it->kind == ITEM_USER)
        return it->n_foot && at >= it->own.lines[it->n_body].source;
    return it->kind == ITEM_REASONING || it->kind == ITEM_FILE || (it->kind == ITEM_CALL && at >= it->shown);
}

/* --- drawing --- */

/* Walks over the glyphs of a line. */
struct walk {
    const struct lines *lines;
    uint32_t run, end, i;       /* bytes of that run */
    int col;                    /* the column after the glyph */
    struct glyph glyph;
    size_t source;              /* of the glyph; LINES_NO_SOURCE */
};

static struct walk walk_line(const struct lines *l, int line)
{
    const struct line *at = &l->lines[line];
    return (struct walk){.lines = l, .run = at->first, .end = at->first + at->n_runs, .col = at->indent};
}

/* Moves to the next glyph of a line.  False at its end. */
static bool walk_next(struct walk *w)
{
    while (w->run < w->end && w->i >= w->lines->runs[w->run].n) {
        w->run++;
        w->i = 0;
    }
    if (w->run >= w->end)
        return false;
    const struct run *r = &w->lines->runs[w->run];
    w->source = r->source == LINES_NO_SOURCE ? LINES_NO_SOURCE : (size_t)r->source + w->i;
    w->i += (uint32_t)glyph_next(w->lines->text.data + r->at + w->i, r->n - w->i, &w->glyph);
    w->col += w->glyph.width;
    return true;
}

bool item_at(struct item *it, int row, int col, size_t *at)
{
    int line;
    const struct lines *l = line_at(it, row, &line);
    bool any = false;
    for (struct walk w = walk_line(l, line); walk_next(&w) && !(any && w.col - w.glyph.width > col);) {
        if (w.source == LINES_NO_SOURCE)
            continue;
        *at = w.source;
        any = true;
    }
    return any;
}

/* Returns the index of the piece that holds the byte among n ascending ones (structs of `size` bytes that begin as struct hit does); -1: none. */
static int piece_at(const void *pieces, int n, size_t size, size_t at)
{
    struct hit piece = {0};
    int low = 0, high = n;
    while (low < high) {
        int mid = (low + high) / 2;
        memcpy(&piece, (const char *)pieces + (size_t)mid * size, sizeof piece);
        if (piece.at <= at)
            low = mid + 1;
        else
            high = mid;
    }
    if (!low)
        return -1;
    memcpy(&piece, (const char *)pieces + (size_t)(low - 1) * size, sizeof piece);
    return at < piece.at + piece.n ? low - 1 : -1;
}

static struct cell *cell_at(struct cells *c, struct area a, int row, int col)
{
    bool in = row >= 0 && row < a.rows && col >= 0 && col < a.cols && a.row + row >= 0 && a.row + row < c->rows && a.col + col >= 0
              && a.col + col < c->cols;
    return in ? &c->at[(size_t)(a.row + row) * c->cols + a.col + col] : NULL;
}

/* Colours hits, tints and selection over a line that was drawn. */
static void draw_over(struct item *it, const struct lines *l, int line, const struct item_over *over, struct cells *c, struct area a, int at_row)
{
    if (!it->hits.n && !it->n_tints && !over->n)
        return;
    for (struct walk w = walk_line(l, line); walk_next(&w);)
        for (int i = 0; w.source != LINES_NO_SOURCE && i < w.glyph.width; i++) {
            struct cell *cell = cell_at(c, a, at_row, w.col - w.glyph.width + i);
            if (cell) {
                int hit = piece_at(it->hits.at, it->hits.n, sizeof *it->hits.at, w.source);
                int tint = piece_at(it->tints, it->n_tints, sizeof *it->tints, w.source);
                if (over->n && w.source >= over->at && w.source < over->at + over->n)
                    cell->look = (struct look){STYLE_selected, 0};
                else if (hit >= 0)
                    cell->look = (struct look){hit == over->hit ? STYLE_found_here : STYLE_found, 0};
                else if (tint >= 0)
                    cell->look.style = (uint8_t)it->tints[tint].style;
            }
        }
}

void item_draw(struct item *it, int row, const struct item_over *over, struct cells *c, struct area a, int at_row)
{
    int line;
    const struct lines *l = line_at(it, row, &line);
    lines_draw(l, line, c, a, at_row);
    draw_over(it, l, line, over, c, a, at_row);
    if (it->picture && row >= it->n_head)
        cells_picture(c, a, at_row, (struct strip){it->picture, row - it->n_head, it->picture_rows, 2, it->picture_cols});
    if (row == 0 && head_is_beside(it, it->view.measure))
        cells_puts(c, a, at_row, it->view.measure - head_columns(it), dim, it->head);
    for (int col = 0; over->chosen && row == over->chosen_row && col < a.cols; col++) {
        struct cell *cell = cell_at(c, a, at_row, col);
        if (cell)
            cell->look = (struct look){STYLE_selected, 0};
    }
}

/* --- items, one below the other ------------------------------------------------------------------------------------ */

enum {
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

int items_rows(struct items *s, int i)
{
    if (!item_shows(&s->at[i]))
        return 0;
    struct item *it = &s->at[i];
    if (item_layout(it, &s->view)) {
        s->cached -= it->cached;
        it->cached = item_cached(it);
        s->cached += it->cached;
    }
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

/* Returns about how many rows a block of items takes, without laying them out. */
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
