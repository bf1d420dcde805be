#include "ui/tui/cells.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/unicode.h"

/* --- glyphs -------------------------------------------------------------------------------------------------------- */

/* A curses cell holds one character and this many marks. */
enum { MAX_MARKS = 4 };

static bool between(uint32_t cp, uint32_t first, uint32_t last)
{
    return cp >= first && cp <= last;
}

static bool is_flag_letter(uint32_t cp) { return between(cp, 0x1F1E6, 0x1F1FF); }
static bool is_skin_tone(uint32_t cp)   { return between(cp, 0x1F3FB, 0x1F3FF); }
static bool is_selector(uint32_t cp)    { return between(cp, 0xFE00, 0xFE0F) || between(cp, 0xE0100, 0xE01EF) || between(cp, 0x180B, 0x180F); }
static bool is_tag(uint32_t cp)         { return between(cp, 0xE0000, 0xE007F); }
static bool is_bidi(uint32_t cp)
{
    return cp == 0x61C || between(cp, 0x200E, 0x200F) || between(cp, 0x202A, 0x202E) || between(cp, 0x2066, 0x2069);
}
/* Vowels and finals of Hangul, which are drawn over their first consonant. */
static bool is_hangul_rest(uint32_t cp) { return between(cp, 0x1160, 0x11FF) || between(cp, 0xD7B0, 0xD7C6) || between(cp, 0xD7CB, 0xD7FB); }
/* Format characters that have a column: signs before or below a number. */
static bool is_prefix(uint32_t cp)
{
    return between(cp, 0x600, 0x605) || cp == 0x6DD || cp == 0x70F || between(cp, 0x890, 0x891) || cp == 0x8E2 || cp == 0x110BD || cp == 0x110CD;
}

/* The part that a character plays in its cluster. */
enum part { BASE, OVER, BEHIND, DROPPED, JOINER, BAD };

/* Decides by category and columns, which are of different releases of Unicode: a mark with a column is drawn in that column, a letter without one
 * cannot be drawn. */
static enum part part(uint32_t cp)
{
    if (is_selector(cp))
        return DROPPED;
    int width = unicode_width(cp);
    if (width < 0 || is_bidi(cp) || is_tag(cp))
        return BAD;
    switch (unicode_kind(cp)) {
    case UNICODE_OVER:
    case UNICODE_BEHIND:
        return width ? BEHIND : OVER;
    case UNICODE_FORMAT:
        return cp == 0x200D ? JOINER : is_prefix(cp) && width ? BASE : DROPPED;
    case UNICODE_CONTROL:
    case UNICODE_UNASSIGNED:
        return BAD;
    default:
        return width ? BASE : is_hangul_rest(cp) ? OVER : BAD;
    }
}

/* Appends a character to a glyph.  False if it is full. */
static bool put(struct glyph *g, uint32_t cp)
{
    char utf8[4];
    size_t n = unicode_encode(cp, utf8);
    if (g->n + n > GLYPH_BYTES)
        return false;
    memcpy(g->text + g->n, utf8, n);
    g->n = (uint8_t)(g->n + n);
    return true;
}

static void set(struct glyph *g, uint32_t cp, int width)
{
    *g = (struct glyph){.width = (uint8_t)width};
    put(g, cp);
}

/* Makes the glyph of a control character: a symbol, a blank for a tab, nothing for the \r of a line's end. */
static void set_control(struct glyph *g, uint32_t cp, bool before_newline)
{
    if (cp == '\t')
        set(g, ' ', 1);
    else if (cp == '\r' && before_newline)
        *g = (struct glyph){0};
    else if (cp == '\n' || cp == 0x85 || cp == 0x2028 || cp == 0x2029)
        set(g, 0x2424, 1);
    else if (cp < 0x20)
        set(g, 0x2400 + cp, 1);
    else
        set(g, cp == 0x7F ? 0x2421 : UNICODE_REPLACEMENT, 1);
}

/* Begins a glyph with its first character; true if others may follow. */
static bool set_first(struct glyph *g, uint32_t cp)
{
    *g = (struct glyph){0};
    switch (part(cp)) {
    case BAD:
        set(g, UNICODE_REPLACEMENT, 1);
        return false;
    case DROPPED:
    case JOINER:
        if (cp == 0xAD || cp == 0x200B)         /* chances to break */
            put(g, cp);
        return false;
    case OVER:
        set(g, 0x25CC, 1);                      /* a dotted circle */
        put(g, cp);
        return true;
    default:
        set(g, cp == 0xA0 ? ' ' : cp, unicode_width(cp) == 2 ? 2 : 1);
        return true;
    }
}

/* True if cp takes the second column of a glyph whose last character with a column of its own was `last`. */
static bool goes_behind(const struct glyph *g, uint32_t last, uint32_t cp)
{
    if (g->width == 2 || unicode_width(cp) == 2)
        return false;
    return part(cp) == BEHIND || (is_flag_letter(last) && is_flag_letter(cp)) || (is_prefix(last) && part(cp) == BASE);
}

/* Composes a Hangul consonant, vowel and optional final into one syllable; *took: their bytes.  Returns 0 if s begins with something else. */
static uint32_t syllable(const char *s, size_t n, size_t *took)
{
    uint32_t l, v = 0, t = 0;
    size_t i = unicode_decode(s, n, &l, NULL);
    if (!between(l, 0x1100, 0x1112) || i == n)
        return 0;
    i += unicode_decode(s + i, n - i, &v, NULL);
    if (!between(v, 0x1161, 0x1175))
        return 0;
    size_t k = i < n ? unicode_decode(s + i, n - i, &t, NULL) : 0;
    bool final = k && between(t, 0x11A8, 0x11C2);
    *took = i + (final ? k : 0);
    return 0xAC00 + ((l - 0x1100) * 21 + v - 0x1161) * 28 + (final ? t - 0x11A7 : 0);
}

/* Adds the characters after the first one of cluster s[0..n), from byte `i` on; returns where the glyph ends. */
static size_t add_rest(struct glyph *g, const char *s, size_t n, size_t i, uint32_t first)
{
    uint32_t last = first, cp;
    int marks = part(first) == OVER;
    bool joined = false;
    for (size_t k; i < n; i += k) {
        k = unicode_decode(s + i, n - i, &cp, NULL);
        enum part p = part(cp);
        if (p == JOINER)
            joined = true;
        else if (p == DROPPED || is_skin_tone(cp) || (is_tag(cp) && first == 0x1F3F4))
            continue;
        else if (p == OVER) {
            if (!joined && marks < MAX_MARKS && put(g, cp))
                marks++;
        } else if (!joined && goes_behind(g, last, cp) && put(g, cp)) {
            g->width = 2;
            marks = 0;
            last = cp;
        } else if (!joined || p != BASE || unicode_class(cp) == UNICODE_LETTER)
            break;                              /* a glyph of its own */
    }
    if (is_flag_letter(first) && g->width == 1)
        set(g, 'A' + first - 0x1F1E6, 1);       /* half a flag: terminals give it one column or two */
    return i;
}

size_t glyph_next(const char *s, size_t n, struct glyph *g)
{
    unsigned char c = (unsigned char)s[0];
    if (c >= ' ' && c < 0x7F && (n == 1 || !(s[1] & 0x80))) {
        *g = (struct glyph){.n = 1, .width = 1, .text = {s[0]}};
        return 1;
    }
    uint32_t cp;
    size_t i = unicode_decode(s, n, &cp, NULL);
    if (unicode_kind(cp) == UNICODE_CONTROL) {
        set_control(g, cp, i < n && s[i] == '\n');
        return i;
    }
    n = unicode_grapheme(s, n, NULL);
    uint32_t whole = syllable(s, n, &i);
    if (whole)
        cp = whole;
    return set_first(g, cp) ? add_rest(g, s, n, i, cp) : i;
}

int glyph_columns(const char *s, size_t n)
{
    int columns = 0;
    struct glyph g;
    for (size_t i = 0; i < n; columns += g.width)
        i += glyph_next(s + i, n - i, &g);
    return columns;
}

size_t glyph_fit(const char *s, size_t n, int columns)
{
    int used = 0;
    size_t i = 0;
    while (i < n) {
        struct glyph g;
        size_t k = glyph_next(s + i, n - i, &g);
        if (used + g.width > columns)
            break;
        used += g.width;
        i += k;
    }
    return i;
}

/* True if all tables since Unicode 5 agree on the character's columns: one, or two from U+2E80 on; none for marks. */
static bool is_settled(uint32_t cp)
{
    static const struct { uint32_t first, last; } rows[] = {
        {0x20, 0x377}, {0x37A, 0x486}, {0x48A, 0x52F}, {0x591, 0x5F4}, {0x61B, 0x65E}, {0x660, 0x6DC}, {0x6DF, 0x6FF}, {0xE01, 0xE5B},
        {0x10D0, 0x10FA},
        {0x1E00, 0x1FFE}, {0x2010, 0x2027}, {0x2030, 0x205E}, {0x2070, 0x20B5}, {0x20D0, 0x20EF}, {0x2100, 0x218B}, {0x2190, 0x262F},
        {0x2638, 0x2689}, {0x2690, 0x2BFF}, {0x2E80, 0x3029}, {0x3030, 0x3098}, {0x309B, 0x3163}, {0x3165, 0x3247}, {0x3250, 0x4DBF},
        {0x4E00, 0xA4C6}, {0xAC00, 0xD7A3}, {0xF900, 0xFAD9}, {0xFF01, 0xFF9F}, {0xFFFD, 0xFFFD}, {0x20000, 0x3FFFD},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows && cp >= rows[i].first; i++)
        if (cp <= rows[i].last)
            return cp >= 0x2E80 || unicode_width(cp) < 2;
    return false;
}

bool glyph_disputed(const struct glyph *g)
{
    int columns = 0;
    for (size_t i = 0; g->n > 1 && i < g->n;) {
        uint32_t cp;
        i += unicode_decode(g->text + i, g->n - i, &cp, NULL);
        if (!is_settled(cp) || (columns && unicode_width(cp) > 0))
            return true;
        columns += unicode_width(cp);
    }
    return false;
}

int glyph_most_columns(const struct glyph *g)
{
    int columns = 0;
    for (size_t i = 0; i < g->n;) {
        uint32_t cp;
        i += unicode_decode(g->text + i, g->n - i, &cp, NULL);
        columns += is_settled(cp) ? unicode_width(cp) : cp < 0x2000 ? 1 : 2;        /* symbols and emoji are where tables differ by two */
    }
    return columns;
}

char glyph_ascii(const struct glyph *g)
{
    static const struct { uint32_t first, last; const char *signs; } rows[] = {
        {0x2010, 0x2015, "------"}, {0x2018, 0x201B, "''''"}, {0x201C, 0x201F, "\"\"\"\""}, {0x2022, 0x2022, "*"}, {0x2026, 0x2026, "."},
        {0x21B3, 0x21B3, "\\"},
        {0x2500, 0x2503, "--||"}, {0x2581, 0x2588, "..::||##"}, {0x25A0, 0x25A1, "#-"}, {0x25CF, 0x25CF, "*"},
    };
    uint32_t cp;
    if (!g->n)
        return ' ';
    unicode_decode(g->text, g->n, &cp, NULL);
    if (cp < 0x80)
        return (char)cp;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (between(cp, rows[i].first, rows[i].last))
            return rows[i].signs[cp - rows[i].first];
    return '?';
}

/* --- cells --------------------------------------------------------------------------------------------------------- */

static const struct glyph blank = {.n = 1, .width = 1, .text = {' '}};

bool area_has(struct area a, int row, int col)
{
    return row >= a.row && row < a.row + a.rows && col >= a.col && col < a.col + a.cols;
}

bool cells_are_tiny(const struct cells *c)
{
    enum { TINY_ROWS = 10, TINY_COLUMNS = 40 };
    return c->rows < TINY_ROWS || c->cols < TINY_COLUMNS;
}

void cells_size(struct cells *c, int rows, int cols)
{
    CHECK(rows >= 0 && cols >= 0);
    if (rows != c->rows || cols != c->cols) {
        free(c->at);
        free(c->strips);
        c->at = memory_alloc(((size_t)rows * cols + 1) * sizeof *c->at);
        c->strips = memory_zeroed((size_t)rows + 1, sizeof *c->strips);
    }
    c->rows = rows;
    c->cols = cols;
    c->cursor_row = -1;
    c->cursor_col = 0;
    cells_blank(c, cells_all(c), (struct look){0});
}

void cells_free(struct cells *c)
{
    free(c->at);
    free(c->strips);
    *c = (struct cells){.cursor_row = -1};
}

void cells_picture(struct cells *c, struct area a, int row, struct strip s)
{
    const struct area over = {a.row + row, a.col + s.col, 1, s.cols};
    if (row < 0 || row >= a.rows || s.col + s.cols > a.cols || over.row < 0 || over.row >= c->rows || over.col + over.cols > c->cols)
        return;
    cells_blank(c, over, (struct look){STYLE_text, LOOK_PICTURE});
    s.col = over.col;
    c->strips[over.row] = s;
}

struct strip cells_strip(const struct cells *c, int row)
{
    const struct strip s = c->strips[row];
    for (int i = 0; s.number && i < s.cols; i++) {
        const struct cell *cell = &c->at[(size_t)row * (size_t)c->cols + (size_t)(s.col + i)];
        if (!(cell->look.marks & LOOK_PICTURE) || cell->glyph.n != 1 || *cell->glyph.text != ' ')
            return (struct strip){0};
    }
    return s;
}

struct area cells_all(const struct cells *c)
{
    return (struct area){0, 0, c->rows, c->cols};
}

/* Gives a cell a glyph of one column.  A wide glyph that loses a half becomes blank. */
static void put_cell(struct cells *c, struct cell *row, int col, const struct glyph *g, struct look look)
{
    if (row[col].glyph.width == 0 && col > 0)
        row[col - 1].glyph = blank;
    if (row[col].glyph.width == 2 && col + 1 < c->cols)
        row[col + 1].glyph = blank;
    row[col] = (struct cell){*g, look};
}

static void put_wide(struct cells *c, struct cell *row, int col, const struct glyph *g, struct look look)
{
    put_cell(c, row, col, &blank, look);
    put_cell(c, row, col + 1, &blank, look);
    row[col].glyph = *g;
    row[col + 1].glyph = (struct glyph){0};
}

/* Clips row `row` of an area to the screen: returns the cells of that row, and the columns *from .. *to of the area in it; NULL: no part of the row
 * is on the screen. */
static struct cell *clip(const struct cells *c, struct area a, int row, int *from, int *to)
{
    *from = a.col > 0 ? a.col : 0;
    *to = a.col + a.cols < c->cols ? a.col + a.cols : c->cols;
    bool there = row >= 0 && row < a.rows && a.row + row >= 0 && a.row + row < c->rows && *from < *to;
    return there ? c->at + (size_t)(a.row + row) * c->cols : NULL;
}

void cells_mark(struct cells *c, struct area a, uint8_t marks)
{
    for (int r = 0; r < a.rows; r++) {
        int from, to;
        struct cell *row = clip(c, a, r, &from, &to);
        for (int col = from; row && col < to; col++)
            row[col].look.marks |= marks;
    }
}

void cells_blank(struct cells *c, struct area a, struct look look)
{
    int first = a.row < 0 ? -a.row : 0, last = a.row + a.rows < c->rows ? a.rows : c->rows - a.row;
    bool whole = a.col <= 0 && a.col + a.cols >= c->cols;       /* then no wide glyph is cut, and new memory has no glyphs to look at */
    for (int r = first; r < last; r++) {
        int from, to;
        struct cell *row = clip(c, a, r, &from, &to);
        for (int col = from; row && col < to; col++) {
            if (whole)
                row[col] = (struct cell){blank, look};
            else
                put_cell(c, row, col, &blank, look);
        }
    }
}

int cells_put(struct cells *c, struct area a, int row, int col, struct look look, const char *text, size_t n)
{
    int from, to;
    struct cell *at = clip(c, a, row, &from, &to);
    for (size_t i = 0; at && i < n && a.col + col < to;) {
        struct glyph g;
        i += glyph_next(text + i, n - i, &g);
        int x = a.col + col;
        if (g.width == 2 && x >= from && x + 1 < to)
            put_wide(c, at, x, &g, look);
        else if (g.width == 1 && x >= from)
            put_cell(c, at, x, &g, look);
        else if (g.width == 2 && x + 1 >= from)
            put_cell(c, at, x < from ? from : x, &blank, look);      /* half of the glyph would stick out */
        col += g.width;
    }
    return col < a.cols ? col : a.cols;
}

int cells_puts(struct cells *c, struct area a, int row, int col, struct look look, const char *text)
{
    return cells_put(c, a, row, col, look, text, strlen(text));
}

static bool is_plain(const struct cell *cell)
{
    return cell->look.style == STYLE_text && !cell->look.marks;
}

/* Appends a row as letters of styles, for tests; capitals have marks such as bold. */
static void dump_looks(const struct cell *row, int cols, struct buf *out)
{
    while (cols > 0 && is_plain(&row[cols - 1]))
        cols--;
    for (int col = 0; col < cols; col++) {
        int letter = style_name(row[col].look.style)[0];
        buf_addc(out, (char)(is_plain(&row[col]) ? '.' : row[col].look.marks ? toupper(letter) : letter));
    }
    if (cols)
        buf_addc(out, '\n');
}

void cells_dump(const struct cells *c, bool looks, struct buf *out)
{
    for (int r = 0; r < c->rows; r++) {
        const struct cell *row = c->at + (size_t)r * c->cols;
        int end = c->cols;
        while (end > 0 && row[end - 1].glyph.n == 1 && row[end - 1].glyph.text[0] == ' ')
            end--;
        for (int col = 0; col < end; col++)
            buf_add(out, row[col].glyph.text, row[col].glyph.n);
        buf_addc(out, '\n');
        if (looks)
            dump_looks(row, c->cols, out);
    }
}

/* --- what has changed --- */

enum { LEAST_MOVE = 4 };        /* rows; curses does not let the terminal move fewer */

static bool same(const struct cell *a, const struct cell *b)
{
    return a->glyph.n == b->glyph.n && a->glyph.width == b->glyph.width && a->look.style == b->look.style && a->look.marks == b->look.marks
        && !memcmp(a->glyph.text, b->glyph.text, a->glyph.n);
}

bool cells_same_row(const struct cell *shown, const struct cell *want, int cols)
{
    for (int i = 0; i < cols; i++)
        if (!same(&shown[i], &want[i]))
            return false;
    return true;
}

bool cells_row_disputed(const struct cell *shown, const struct cell *want, int cols)
{
    bool disputed = false;
    for (int i = 0; i < cols; i++) {
        disputed = disputed || glyph_disputed(&shown[i].glyph) || glyph_disputed(&want[i].glyph);
        if (disputed && !same(&shown[i], &want[i]))
            return true;
    }
    return false;
}

int cells_scrolled(const struct cells *shown, const struct cells *want, int r)
{
    int best = 0, most = LEAST_MOVE - 1;
    for (int by = 1; by < want->rows - r; by++) {
        int n = 0;
        for (int i = r; i + by < want->rows; i++) {
            const struct cell *new = want->at + (size_t)i * want->cols, *old = shown->at + (size_t)i * want->cols;
            n += cells_same_row(old + (size_t)by * want->cols, new, want->cols) && !cells_same_row(old, new, want->cols);
        }
        if (n > most) {
            most = n;
            best = by;
        }
    }
    return best;
}
