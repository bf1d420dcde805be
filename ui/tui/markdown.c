#include "ui/tui/markdown.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "ui/tui/block.h"
#include "ui/tui/cells.h"
#include "ui/tui/jsontext.h"
#include "ui/tui/render.h"
#include "ui/tui/sheet.h"

/* The part of the source that is laid out for good: whole lines, and all blocks but the open one. */
struct progress {
    size_t scan;                /* end of the lines that were handled */
    size_t open;                /* where the open block begins */
    struct block block;
    struct sheet_mark mark;     /* end of the layout so far */
};

struct markdown {
    struct buf source;
    bool ended, raw, settled;
    enum table_shape shape;
    struct sheet sheet;
    struct progress done;
    struct sheet_mark table;    /* of the open table as far as its rows are complete, */
    size_t table_to;            /* which end here; 0: no open table */
    struct sheet raw_sheet;
    struct progress raw_done;
    int n_settled;              /* lines found to be settled; not when raw */
    struct jsontext json;       /* of a text that begins with JSON */
};

static const struct look plain = {STYLE_text, 0}, dim = {STYLE_dim, 0};

struct markdown *markdown_open(void)
{
    struct markdown *m = memory_zeroed(1, sizeof *m);
    m->sheet.columns = m->raw_sheet.columns = m->sheet.measure = m->raw_sheet.measure = 80;
    return m;
}

void markdown_close(struct markdown *m)
{
    if (!m)
        return;
    buf_free(&m->source);
    sheet_free(&m->sheet);
    sheet_free(&m->raw_sheet);
    free(m);
}

void markdown_push(struct markdown *m, const char *text, size_t n)
{
    CHECK(!m->ended && m->source.len + n < LINES_NO_SOURCE);
    buf_add(&m->source, text, n);
    m->settled = false;
}

void markdown_end(struct markdown *m)
{
    m->ended = true;
    m->settled = false;
}

static void start_again(struct markdown *m)
{
    m->done = m->raw_done = (struct progress){0};
    m->table_to = m->n_settled = 0;
    m->json = (struct jsontext){0};
    m->settled = false;
}

void markdown_width(struct markdown *m, int columns, int measure)
{
    CHECK(columns >= 1 && measure >= 1 && measure <= columns);
    if (columns == m->sheet.columns && measure == m->sheet.measure)
        return;
    m->sheet.columns = m->raw_sheet.columns = columns;
    m->sheet.measure = m->raw_sheet.measure = measure;
    start_again(m);
}

void markdown_fences(struct markdown *m, bool fenced)
{
    if (fenced == m->sheet.fenced)
        return;
    m->sheet.fenced = fenced;
    start_again(m);
}

void markdown_tables(struct markdown *m, enum table_shape shape)
{
    if (shape == m->shape)
        return;
    m->shape = shape;
    start_again(m);
}

void markdown_raw(struct markdown *m, bool raw)
{
    if (raw != m->raw)
        m->settled = false;
    m->raw = raw;
}

/* --- blocks --- */

/* True if the line before this place is blank. */
static bool blank_before(const struct markdown *m, size_t at)
{
    size_t end = at, from;
    if (!at)
        return false;
    from = --end;
    while (from && m->source.data[from - 1] != '\n')
        from--;
    return block_is_blank(m->source.data + from, end - from);
}

/* Adds a line of a block that is shown as it is. */
static void verbatim_line(struct markdown *m, const struct block *b, size_t at, size_t n)
{
    const char *s = m->source.data + at;
    n -= n && s[n - 1] == '\n';
    n -= n && s[n - 1] == '\r';
    if (b->kind != BLOCK_FENCE) {
        lines_wrap(&m->sheet.lines, plain, s, n, at, m->sheet.measure, 0);
        return;
    }
    size_t skip = 0;
    while (skip < n && skip < (size_t)b->indent && s[skip] == ' ')
        skip++;
    sheet_code_line(&m->sheet, s + skip, n - skip, at + skip, (struct lines_margin){0});
}

/* Begins a block at the current line: a gap, and for code its first line. */
static void begin_block(struct markdown *m, struct progress *p, size_t n)
{
    const char *line = m->source.data + p->scan;
    p->open = p->scan;
    if (blank_before(m, p->open))
        sheet_blank(&m->sheet, p->open);
    if (p->block.kind == BLOCK_FENCE) {
        size_t at, k = block_info(line, n, &at);
        sheet_code_begin(&m->sheet, line + at, k, p->open, (struct lines_margin){0});
    }
}

/* Ends the open block before `to` and lays it out. */
static void end_block(struct markdown *m, struct progress *p, size_t to)
{
    int first = m->sheet.lines.n;
    if (p->block.kind == BLOCK_TABLE && m->shape == TABLE_SOURCE) {
        render_source(&m->sheet, plain, m->source.data, p->open, to);
        sheet_table(&m->sheet, first, p->open, to);
    } else if (p->block.kind == BLOCK_MATH) {
        if (!render_formula(&m->sheet, m->source.data, p->open, to))
            render_source(&m->sheet, plain, m->source.data, p->open, to);
    } else if (p->block.kind > BLOCK_NONE && p->block.kind < BLOCK_FENCE) {
        render(&m->sheet, m->source.data, p->open, to, &(struct render_as){p->block.kind == BLOCK_TABLE, m->shape, p->block.left});
    } else if (p->block.kind == BLOCK_FENCE) {
        sheet_code_end(&m->sheet, to, (struct lines_margin){0});
    }
    p->block = (struct block){.left = p->block.next_left};
}

/* Handles the next n bytes, a whole line. */
static void take_line(struct markdown *m, struct progress *p, size_t n)
{
    const char *line = m->source.data + p->scan;
    bool open = p->block.kind != BLOCK_NONE;
    enum block_step step = block_step(&p->block, line, n);
    if (step == BLOCK_ENDS_BEFORE) {
        end_block(m, p, p->scan);
        step = block_step(&p->block, line, n);
        open = false;
    }
    bool verbatim = p->block.kind >= BLOCK_FENCE, fence = p->block.kind == BLOCK_FENCE;
    if (!open && p->block.kind != BLOCK_NONE)
        begin_block(m, p, n);
    if (verbatim && !(fence && (!open || step == BLOCK_ENDS_AFTER)))
        verbatim_line(m, &p->block, p->scan, n);
    p->scan += n;
    if (step == BLOCK_ENDS_AFTER)
        end_block(m, p, p->scan);
}

/* --- the line that is not complete --- */

/* Returns how many bytes of it are shown: no part of a character or of a newline, and nothing that may still become a fence. */
static size_t shown(const struct markdown *m, const struct progress *p)
{
    const char *s = m->source.data + p->scan;
    size_t n = unicode_complete(s, m->source.len - p->scan), i = 0, k;
    n -= n && s[n - 1] == '\r';
    while (i < n && (s[i] == ' ' || s[i] == '\t'))
        i++;
    if (i == n || (s[i] != '`' && s[i] != '~'))
        return n;
    for (k = i; k < n && s[k] == s[i]; k++)
        ;
    bool other = p->block.kind == BLOCK_FENCE && p->block.mark != s[i];
    return k == n && k - i <= 3 && !other ? 0 : n;
}

static bool only(const char *s, size_t n, const char *set)
{
    for (size_t i = 0; i < n; i++)
        if (!s[i] || !strchr(set, s[i]))
            return false;
    return true;
}

/* True if the lines may become a table once their delimiter row is complete; until then they are shown as they are. */
static bool may_become_table(const struct markdown *m, const struct progress *p, size_t n)
{
    const char *s = m->source.data, *line = s + p->scan;
    if (p->block.kind == BLOCK_NONE)
        return n && *line == '|';
    return p->block.kind == BLOCK_TEXT && p->block.n_lines == 1 && p->block.header && (n || s[p->open] == '|') && only(line, n, "|-: \t");
}

/* Takes the unfinished line below a table: as source if it may become a row. */
static void take_open_table(struct markdown *m, struct progress *p, size_t n)
{
    struct block next = p->block;
    int left = p->block.next_left;
    const char *line = m->source.data + p->scan;
    bool row = n && block_step(&next, line, n) == BLOCK_CONTINUES;
    if (m->table_to != p->scan) {
        size_t to = p->scan;
        end_block(m, p, to);
        m->table = sheet_mark(&m->sheet);
        m->table_to = to;
    }
    p->block = (struct block){.left = left};
    if (row)
        render_source(&m->sheet, dim, m->source.data, p->scan, p->scan + n);
    else if (n)
        take_line(m, p, n);
}

/* --- settled lines ---
 * Blocks before the last leaf are over.  In a paragraph two things are open: a mark that is shown as text because its other half
 * is missing, with all text after it; and the last word, which decides where its line and the line before break. */

struct scan {
    const struct sheet *sheet;
    const char *source;
    size_t from, to;                    /* of the paragraph, in the source */
    size_t seen;                        /* end of the last run that is in the source */
    size_t span;                        /* where the last marked text begins, with the mark that opens it */
    bool   marked;                      /* the last run is marked */
    size_t skip;                        /* end of the mathematics under way */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';         /* a carriage return alone is text */
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* True if a line can still become anything: a list item, a rule, a fence, text. */
static bool is_undecided(const char *line, size_t n)
{
    size_t i = 0;
    while (i < n && (line[i] == ' ' || line[i] == '\t'))
        i++;
    if (i < n && strchr("`~$\\<", line[i]))
        return true;
    while (i < n && strchr("0123456789.)-+*#>=_:|[]! \t", line[i]))
        i++;
    return n && i == n;
}

/* Returns the start of the unit that more bytes may join: the last word, or the last cluster of a script without blanks. */
static size_t last_unit(const struct scan *s)
{
    enum { CLUSTER = 12 };
    size_t i = s->to;
    if (i > s->from && s->source[i - 1] == '\n')        /* a backslash before it is text until there is a next line */
        i--;
    while (i > s->from && !is_blank(s->source[i - 1]) && !(s->source[i - 1] & 0x80))
        i--;
    for (int n = 0; i > s->from && (s->source[i - 1] & 0x80) && n < CLUSTER; n += (s->source[i] & 0xC0) != 0x80)
        i--;
    return i;
}

static bool is_escaped(const struct scan *s, size_t at)
{
    size_t i = at;
    while (i && s->source[i - 1] == '\\')
        i--;
    return (at - i) & 1;
}

/* True if the character at `at`, which is shown as text, may still open a span. */
static bool may_open(const struct scan *s, size_t at)
{
    char c = s->source[at], before = at ? s->source[at - 1] : ' ', behind = at + 1 < s->to ? s->source[at + 1] : ' ';
    bool escaped = is_escaped(s, at);
    switch (c) {
    case '*':
    case '~':
        return !escaped && !is_blank(behind);
    case '_':
        return !escaped && !is_blank(behind) && !is_word(before);
    case '`':
        return !escaped;
    case '[':
        return true;                    /* escaped, it opens mathematics */
    case '(':
        return escaped;
    case '<':
        return !escaped && (is_word(behind) || behind == '/' || behind == '!' || behind == '?');
    case '$':                           /* a formula ends within its line */
        return !escaped && !is_blank(behind) && !memchr(s->source + at, '\n', s->to - at);
    default:
        return false;
    }
}

/* Returns the first place of a run that may open a span, or LINES_NO_SOURCE.  The new span may dissolve marked text around it. */
static size_t doubt_in(struct scan *s, const struct run *r)
{
    bool marked = r->look.marks || r->look.style == STYLE_link || r->look.style == STYLE_dim;           /* dim: where a link goes */
    if (r->source == LINES_NO_SOURCE)
        return LINES_NO_SOURCE;
    bool after_mark = s->marked && !marked;
    size_t end_before = s->seen;
    s->seen = r->source + r->n;
    if (r->look.style == STYLE_code)
        return LINES_NO_SOURCE;
    if (marked && !s->marked)
        s->span = end_before;
    s->marked = marked;
    bool opens_html = r->source > s->from && s->source[r->source - 1] == '<' && strchr("!?", s->source[r->source]);
    if (marked && opens_html)           /* md4c takes "<!a:b>" for an address until a comment ends */
        return s->span;
    size_t from = r->source > s->from ? r->source : s->from;            /* the mark of an item may be in the same run */
    for (size_t at = from > s->skip ? from : s->skip; at < r->source + r->n; at++) {
        size_t end = is_escaped(s, at) ? 0 : copy_math_end(s->source + s->from, s->to - s->from, at - s->from);
        if (end)
            s->skip = s->from + end;
        if (end && s->skip >= r->source + r->n)
            break;
        if (end)
            at = s->skip - 1;
        else if (may_open(s, at))
            return marked || (after_mark && at <= r->source + 1) ? s->span : at && s->source[at] == '[' && s->source[at - 1] == '!' ? at - 1 : at;
    }
    return LINES_NO_SOURCE;
}

/* Returns the first place of a text that more bytes may change. */
static size_t first_doubt(struct scan *s)
{
    const struct lines *l = &s->sheet->lines;
    size_t last = last_unit(s), at;
    for (int i = s->sheet->leaf.first; i < l->n; i++)
        for (uint32_t k = l->lines[i].first; k < l->lines[i].first + l->lines[i].n_runs; k++)
            if ((at = doubt_in(s, &l->runs[k])) != LINES_NO_SOURCE)
                return at < last ? at : last;
    return last;
}

/* Returns the place after the first word of a line, or after ENOUGH characters of a script without blanks: the line before
 * breaks so that these stay together. */
static size_t first_word(const struct scan *s, int line)
{
    enum { ENOUGH = 8 };
    size_t i = s->sheet->lines.lines[line].source;
    for (int wide = 0; i < s->to && wide < ENOUGH;) {
        struct glyph g;
        bool in_code = (i > s->from && s->source[i - 1] == '`') || (i + 1 < s->to && s->source[i + 1] == '`');
        if (is_blank(s->source[i]) && !in_code)         /* the blanks at both ends of a code span are not shown */
            break;
        i += glyph_next(s->source + i, s->to - i, &g);
        wide += g.width == 2;
    }
    return i;
}

/* Returns how many lines of a text more bytes cannot change. */
static int text_lines(const struct sheet *sheet, const char *source, size_t to)
{
    struct scan s = {.sheet = sheet, .source = source, .from = sheet->leaf.source, .seen = sheet->leaf.source, .to = to};
    const struct lines *l = &sheet->lines;
    int n = sheet->leaf.first;
    const char *p = source + s.from, *end = memchr(p, '\n', to - s.from);
    size_t first = end ? (size_t)(end - p) : to - s.from;
    if (memchr(p, '|', first) && (!end || !memchr(end + 1, '\n', to - s.from - first - 1)))
        return n;                       /* the second line may make the first one the header of a table */
    if (to > s.from && source[to - 1] && strchr("*_~`$", source[to - 1]))
        return n;                       /* more bytes may turn this mark into another one */
    size_t doubt = first_doubt(&s);
    while (n + 1 < l->n && l->lines[n + 1].source > l->lines[n].source && first_word(&s, n + 1) < doubt)
        n++;
    return n;
}

/* True if the text opens a formula of several lines, in which marks of lists and quotes are part of the formula. */
static bool opens_formula(const char *s, size_t n)
{
    for (size_t i = 0, end; i + 1 < n; i += end ? end - i : 1) {
        bool opens = (s[i] == '$' && s[i + 1] == '$') || (s[i] == '\\' && s[i + 1] == '[');
        end = opens ? copy_math_end(s, n, i) : 0;
        if (opens && !end)
            return true;
    }
    return false;
}

/* Returns the number of lines of the sheet, from its first line on, that no later text can change, so that they can be printed where printed lines
 * stay.  source[from..to) is the last block so far. */
static int count_settled(const struct sheet *s, const char *source, size_t from, size_t to)
{
    if (opens_formula(source + from, to - from))
        return 0;
    return s->leaf.kind == LEAF_TEXT ? text_lines(s, source, to) : s->leaf.kind == LEAF_CODE ? s->leaf.last : s->leaf.first;
}

static void note_settled(struct markdown *m, int n)
{
    m->n_settled = n > m->n_settled ? n : m->n_settled;
}

/* Shows the unfinished last line of the source, as what it is most likely to become. */
static void take_open_line(struct markdown *m)
{
    struct progress p = m->done;
    size_t n = shown(m, &p), to = p.scan + n;
    const char *line = m->source.data + p.scan;
    if (may_become_table(m, &p, n)) {
        if (p.block.kind == BLOCK_NONE) {
            p.block.kind = BLOCK_TEXT;
            begin_block(m, &p, n);
        }
        render_source(&m->sheet, plain, m->source.data, p.open, to);
        return;
    }
    /* The line may underline a heading, or begin a list or a rule; until then the text above must not jump. */
    if (n && p.block.kind == BLOCK_TEXT && (only(line, n, "-") || only(line, n, "="))) {
        end_block(m, &p, p.scan);
        render_source(&m->sheet, plain, m->source.data, p.scan, to);
        return;
    }
    if (p.block.kind == BLOCK_TABLE)
        take_open_table(m, &p, n);
    else if (n)
        take_line(m, &p, n);
    size_t from = p.open;
    bool parsed = p.block.kind == BLOCK_TEXT || p.block.kind == BLOCK_LIST || p.block.kind == BLOCK_QUOTE;
    if (p.block.kind != BLOCK_NONE)
        end_block(m, &p, to);
    if (parsed && !is_undecided(line, n))
        note_settled(m, count_settled(&m->sheet, m->source.data, from, to));
}

/* Lays out a text that is JSON, as an answer by a schema.  False: it is none, or the rest of the text comes after it. */
static bool settle_json(struct markdown *m)
{
    struct progress *p = &m->done;
    const char *s = m->source.data;
    const size_t n = m->source.len;
    const enum jsontext_kind kind = m->json.begun ? JSONTEXT_IS : jsontext_kind(s, n);
    if (m->json.over || kind == JSONTEXT_NOT || (kind == JSONTEXT_UNDECIDED && m->ended))
        return false;
    sheet_cut(&m->sheet, &p->mark);
    if (kind == JSONTEXT_UNDECIDED) {
        render_source(&m->sheet, plain, s, 0, n);
        return true;
    }
    jsontext_take(&m->json, s, n, &m->sheet);
    p->scan = p->open = m->json.at;
    if (m->ended && !m->json.over) {
        jsontext_rest(&m->json, s, n, &m->sheet);
        m->json.over = true;
        p->scan = n;
    }
    p->mark = sheet_mark(&m->sheet);
    note_settled(m, p->mark.n_lines);
    jsontext_rest(&m->json, s, n, &m->sheet);
    return !m->json.over;
}

/* Lays out the lines that have come since the last call, and the unfinished last line again. */
static void settle(struct markdown *m)
{
    struct progress *p = &m->done;
    if (settle_json(m))
        return;
    size_t n = block_line(m->source.data + p->scan, m->source.len - p->scan, m->ended);
    bool table = p->block.kind == BLOCK_TABLE && m->table_to == p->scan && !n && !m->ended;
    sheet_cut(&m->sheet, table ? &m->table : &p->mark);
    for (; n; n = block_line(m->source.data + p->scan, m->source.len - p->scan, m->ended))
        take_line(m, p, n);
    if (m->ended)
        end_block(m, p, m->source.len);
    if (!table)
        p->mark = sheet_mark(&m->sheet);
    note_settled(m, p->mark.n_lines);
    if (!m->ended)
        take_open_line(m);
}

/* --- the source as it is --- */

/* Wraps the source as it is, for the raw view: the lines that have come since, and the unfinished last line again. */
static void settle_raw(struct markdown *m)
{
    struct progress *p = &m->raw_done;
    size_t n, left;
    sheet_cut(&m->raw_sheet, &p->mark);
    while ((n = block_line(m->source.data + p->scan, m->source.len - p->scan, m->ended)) > 0) {
        lines_wrap(&m->raw_sheet.lines, plain, m->source.data + p->scan, n, p->scan, m->raw_sheet.measure, 0);
        p->scan += n;
    }
    p->mark = sheet_mark(&m->raw_sheet);
    left = unicode_complete(m->source.data + p->scan, m->source.len - p->scan);
    if (left)
        lines_wrap(&m->raw_sheet.lines, plain, m->source.data + p->scan, left, p->scan, m->raw_sheet.measure, 0);
}

const struct lines *markdown_lines(struct markdown *m)
{
    if (!m->settled && m->source.len)
        (m->raw ? settle_raw : settle)(m);
    m->settled = true;
    return m->raw ? &m->raw_sheet.lines : &m->sheet.lines;
}

int markdown_n_final(struct markdown *m)
{
    markdown_lines(m);
    return m->raw ? m->raw_done.mark.n_lines : m->done.mark.n_lines;
}

int markdown_n_settled(struct markdown *m)
{
    int n = markdown_n_final(m);
    return m->raw || m->n_settled < n ? n : m->n_settled < m->sheet.lines.n ? m->n_settled : m->sheet.lines.n;
}

/* Blocks and tables are those of the laid out text, also when the source is shown. */
static const struct sheet *sheet_of(struct markdown *m)
{
    bool raw = m->raw;
    markdown_raw(m, false);
    markdown_lines(m);
    markdown_raw(m, raw);
    return &m->sheet;
}

int markdown_n_blocks(struct markdown *m)
{
    return sheet_of(m)->n_codes;
}

bool markdown_block(struct markdown *m, int i, struct buf *text, struct buf *language)
{
    const struct sheet *s = sheet_of(m);
    if (i < 0 || i >= s->n_codes)
        return false;
    const struct sheet_code *c = &s->codes[i];
    size_t n = 0;
    while (n < c->n_info && s->code.data[c->info + n] != ' ' && s->code.data[c->info + n] != '\t')
        n++;
    buf_add(text, buf_str(&s->code) + c->text, c->n);
    buf_add(language, buf_str(&s->code) + c->info, n);
    return true;
}

int markdown_block_at(struct markdown *m, int line)
{
    const struct sheet *s = sheet_of(m);
    return line >= 0 && line < s->lines.n ? s->lines.lines[line].block : -1;
}

bool markdown_table_at(struct markdown *m, int line, struct buf *source)
{
    const struct sheet *s = sheet_of(m);
    for (int i = 0; i < s->n_tables; i++) {
        const struct sheet_table *t = &s->tables[i];
        if (line < t->first || line >= t->first + t->n)
            continue;
        buf_add(source, m->source.data + t->from, t->to - t->from);
        return true;
    }
    return false;
}
