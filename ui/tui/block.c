#include "ui/tui/block.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "ui/tui/formula.h"

/* A line without its newline, and where its text begins. */
struct line {
    const char *s;
    size_t n, at;
    int indent;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct line line_of(const char *s, size_t n)
{
    n -= n && s[n - 1] == '\n';
    n -= n && s[n - 1] == '\r';
    struct line l = {.s = s, .n = n};
    for (; l.at < n && is_blank(s[l.at]); l.at++)
        l.indent += s[l.at] == '\t' ? 4 - l.indent % 4 : 1;
    return l;
}

size_t block_line(const char *s, size_t n, bool ended)
{
    const char *nl = n ? memchr(s, '\n', n) : NULL;
    return nl ? (size_t)(nl - s) + 1 : ended ? n : 0;
}

bool block_is_blank(const char *line, size_t n)
{
    struct line l = line_of(line, n);
    return l.at == l.n;
}

static size_t run_of(const struct line *l, size_t at, char c)
{
    size_t n = 0;
    while (at + n < l->n && l->s[at + n] == c)
        n++;
    return n;
}

static bool starts_with(const struct line *l, const char *what)
{
    size_t n = strlen(what);
    return l->n - l->at >= n && !strncasecmp(l->s + l->at, what, n);
}

static bool holds(const struct line *l, size_t from, const char *what)
{
    size_t n = strlen(what);
    for (size_t i = from; i + n <= l->n; i++)
        if (!strncasecmp(l->s + i, what, n))
            return true;
    return false;
}

/* --- beginnings of blocks --- */

static bool is_heading(const struct line *l)
{
    size_t k = run_of(l, l->at, '#');
    return k >= 1 && k <= 6 && (l->at + k == l->n || is_blank(l->s[l->at + k]));
}

/* True if the line is a rule: three or more of -, * or _. */
static bool is_rule(const struct line *l)
{
    char c = l->at < l->n ? l->s[l->at] : 0;
    int count = 0;
    if (c != '-' && c != '*' && c != '_')
        return false;
    for (size_t i = l->at; i < l->n; i++) {
        if (l->s[i] == c)
            count++;
        else if (!is_blank(l->s[i]))
            return false;
    }
    return count >= 3;
}

/* True if the line begins fenced code; fills in mark, length and indent. */
static bool is_fence(const struct line *l, struct block *b)
{
    char c = l->at < l->n ? l->s[l->at] : 0;
    size_t k = c == '`' || c == '~' ? run_of(l, l->at, c) : 0;
    if (k < 3 || (c == '`' && memchr(l->s + l->at + k, '`', l->n - l->at - k)))
        return false;
    b->kind = BLOCK_FENCE;
    b->mark = c;
    b->count = (int)(k < 1000000 ? k : 1000000);
    b->indent = l->indent;
    return true;
}

/* True for HTML that can contain blank lines; other HTML is a paragraph here. */
static bool is_html(const struct line *l, struct block *b)
{
    static const struct { const char *start, *end; bool is_tag; } forms[] = {
        {"<script", "</script>", true}, {"<pre", "</pre>", true}, {"<style", "</style>", true}, {"<!--", "-->", false},
        {"<?", "?>", false}, {"<![CDATA[", "]]>", false},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t k = l->at + strlen(forms[i].start);
        if (!starts_with(l, forms[i].start) || (forms[i].is_tag && k < l->n && !is_blank(l->s[k]) && l->s[k] != '>'))
            continue;
        b->kind = BLOCK_HTML;
        b->end = forms[i].end;
        return true;
    }
    return false;
}

/* True if the line begins with display mathematics, which CommonMark lacks and models write. */
static bool is_math(const struct line *l, struct block *b)
{
    size_t n = l->n;
    while (n > l->at && is_blank(l->s[n - 1]))
        n--;
    for (size_t i = 0; i < FORMULA_N_DISPLAYS; i++) {
        const char *open = formula_displays[i].open, *end = formula_displays[i].close;
        size_t k = strlen(open), m = strlen(end);
        if (!starts_with(l, open))
            continue;
        bool alone = n - l->at == k;
        bool one_line = n - l->at > k + m && !memcmp(l->s + n - m, end, m);
        if (!alone && holds(l, l->at + k, end) && !one_line)
            return false;
        b->kind = BLOCK_MATH;
        b->opens = (int)k;
        b->end = end;
        return true;
    }
    return false;
}

struct item { char mark; int content; bool empty, first; };

/* True if the line begins a list item; fills in its mark and the column of its content. */
static bool is_item(const struct line *l, struct item *it)
{
    size_t i = l->at;
    *it = (struct item){.first = true};
    if (i < l->n && (l->s[i] == '-' || l->s[i] == '+' || l->s[i] == '*')) {
        it->mark = l->s[i++];
    } else {
        while (i < l->n && i - l->at < 9 && l->s[i] >= '0' && l->s[i] <= '9')
            i++;
        if (i == l->at || i >= l->n || (l->s[i] != '.' && l->s[i] != ')'))
            return false;
        it->first = i - l->at == 1 && l->s[l->at] == '1';
        it->mark = l->s[i++];
    }
    if (i < l->n && !is_blank(l->s[i]))
        return false;
    int column = l->indent + (int)(i - l->at), mark_end = column;
    for (; i < l->n && is_blank(l->s[i]); i++)
        column += l->s[i] == '\t' ? 4 - column % 4 : 1;
    it->empty = i == l->n;
    it->content = it->empty || column - mark_end > 4 ? mark_end + 1 : column;
    return true;
}

/* True if the line begins a block even right after a paragraph. */
static bool interrupts(const struct line *l)
{
    struct block b;
    struct item it;
    if (l->indent > 3)
        return false;
    return l->s[l->at] == '>' || is_heading(l) || is_rule(l) || is_fence(l, &b) || is_html(l, &b) || is_math(l, &b)
        || (is_item(l, &it) && !it.empty && it.first);
}

static enum block_step verbatim_step(struct block *b, const struct line *l, size_t from)
{
    if (b->kind == BLOCK_MATH && from == l->at && l->at == l->n)
        return BLOCK_ENDS_BEFORE;       /* mathematics has no blank lines: these were two dollars */
    return holds(l, from, b->end) ? BLOCK_ENDS_AFTER : BLOCK_CONTINUES;
}

/* Begins the block that a line opens. */
static enum block_step begin(struct block *b, const struct line *l)
{
    struct item it;
    int left = l->at == l->n || l->indent >= b->left ? b->left : 0;
    *b = (struct block){.n_lines = l->at < l->n, .indent = l->indent, .left = left, .next_left = left};
    if (l->at == l->n)
        return BLOCK_CONTINUES;
    if (l->indent > 3) {
        b->kind = BLOCK_INDENTED;
    } else if (l->s[l->at] == '>') {
        b->kind = BLOCK_QUOTE;
    } else if (is_heading(l) || is_rule(l)) {
        b->kind = BLOCK_LINE;
        return BLOCK_ENDS_AFTER;
    } else if (is_fence(l, b)) {
        return BLOCK_CONTINUES;
    } else if (is_html(l, b)) {
        return verbatim_step(b, l, l->at);
    } else if (is_math(l, b)) {
        return verbatim_step(b, l, l->at + (size_t)b->opens);
    } else if (is_item(l, &it)) {
        b->kind = BLOCK_LIST;
        b->mark = it.mark;
        b->content = it.content;
    } else {
        b->kind = BLOCK_TEXT;
        b->header = memchr(l->s, '|', l->n) != NULL;
    }
    return BLOCK_CONTINUES;
}

/* --- lines of an open block --- */

/* True if the line makes a heading of the text above: only - or only =. */
static bool underlines(const struct line *l)
{
    char c = l->at < l->n ? l->s[l->at] : 0;
    if (l->indent > 3 || (c != '-' && c != '='))
        return false;
    size_t i = l->at + run_of(l, l->at, c);
    while (i < l->n && is_blank(l->s[i]))
        i++;
    return i == l->n;
}

/* True if the line can be the second one of a table. */
static bool is_delimiter_row(const struct line *l)
{
    bool dash = false, pipe = false;
    for (size_t i = l->at; i < l->n; i++) {
        if (!strchr("|-: \t", l->s[i]) || !l->s[i])
            return false;
        dash = dash || l->s[i] == '-';
        pipe = pipe || l->s[i] == '|';
    }
    return dash && pipe && l->indent <= 3;
}

/* Decides whether a line continues text, a quote or a table; a text becomes a table by its second line. */
static enum block_step text_step(struct block *b, const struct line *l)
{
    if (l->at == l->n)
        return BLOCK_ENDS_BEFORE;
    if (b->kind == BLOCK_TEXT && underlines(l))
        return BLOCK_ENDS_AFTER;
    if (b->kind == BLOCK_QUOTE && l->indent <= 3 && l->s[l->at] == '>')
        return BLOCK_CONTINUES;
    if (interrupts(l))
        return BLOCK_ENDS_BEFORE;
    if (b->kind == BLOCK_TEXT && b->n_lines == 1 && b->header && is_delimiter_row(l))
        b->kind = BLOCK_TABLE;
    return BLOCK_CONTINUES;
}

/* Decides whether a line continues a list item. */
static enum block_step list_step(struct block *b, const struct line *l)
{
    struct item it;
    if (l->at == l->n || l->indent >= b->content)
        return BLOCK_CONTINUES;
    if (b->blank || interrupts(l))
        return BLOCK_ENDS_BEFORE;
    bool item = is_item(l, &it) && !it.empty;
    bool sibling = item && l->indent <= b->indent && it.mark == b->mark, outer = item && l->indent < b->left;
    return sibling || outer ? BLOCK_ENDS_BEFORE : BLOCK_CONTINUES;
}

/* True if the line closes fence `b`. */
static bool closes_fence(const struct block *b, const char *line, size_t n)
{
    struct line l = line_of(line, n);
    size_t k = run_of(&l, l.at, b->mark), i = l.at + k;
    while (i < l.n && is_blank(l.s[i]))
        i++;
    return l.indent <= 3 && k >= (size_t)b->count && i == l.n;
}

/* Decides whether a line continues the block, ends it, or comes after its end. */
static enum block_step step(struct block *b, const struct line *l)
{
    switch (b->kind) {
    case BLOCK_NONE:
        return begin(b, l);
    case BLOCK_LIST:
        return list_step(b, l);
    case BLOCK_INDENTED:
        return l->at == l->n || l->indent > 3 ? BLOCK_CONTINUES : BLOCK_ENDS_BEFORE;
    case BLOCK_FENCE:
        return closes_fence(b, l->s, l->n) ? BLOCK_ENDS_AFTER : BLOCK_CONTINUES;
    case BLOCK_MATH:
    case BLOCK_HTML:
        return verbatim_step(b, l, l->at);
    default:
        return text_step(b, l);
    }
}

/* True if a long block may end before this line, which then begins a block of its own. */
static bool divides(const struct block *b, const struct line *l)
{
    struct item it;
    if (b->bytes < BLOCK_LONG || l->at == l->n || l->indent > 3)
        return false;
    return b->kind == BLOCK_TEXT || b->kind == BLOCK_MATH || (b->kind == BLOCK_QUOTE && l->s[l->at] == '>')
        || (b->kind == BLOCK_LIST && l->indent >= b->content && is_item(l, &it) && !it.empty);
}

enum block_step block_step(struct block *b, const char *line, size_t n)
{
    struct line l = line_of(line, n);
    bool open = b->kind != BLOCK_NONE;
    if (divides(b, &l)) {
        b->next_left = b->kind == BLOCK_LIST ? l.indent : b->left;
        return BLOCK_ENDS_BEFORE;
    }
    enum block_step s = step(b, &l);
    b->bytes += n;
    if (open && s != BLOCK_ENDS_BEFORE)
        b->n_lines++;
    b->blank = l.at == l.n;
    return s;
}

size_t block_info(const char *line, size_t n, size_t *at)
{
    struct line l = line_of(line, n);
    size_t i = l.at < l.n ? l.at + run_of(&l, l.at, l.s[l.at]) : l.at;
    while (i < l.n && is_blank(l.s[i]))
        i++;
    *at = i;
    while (l.n > i && is_blank(l.s[l.n - 1]))
        l.n--;
    return l.n - i;
}

/* --- the copy for the parser --------------------------------------------------------------------------------------- */

/* Bytes of the copy that the source does not have, in place of others.  Ascending. */
struct copy_patch {
    size_t at, n;
    size_t source;              /* place in the source of the text after the patch */
};

struct text {
    const char *s;
    size_t n;
};

/* An opening mark that is not closed within this many bytes is text, so that the time for hostile text is bounded. */
enum { FAR = 2000 };

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80);
}

static bool at(const struct text *t, size_t i, const char *what)
{
    size_t n = strlen(what);
    return i + n <= t->n && !memcmp(t->s + i, what, n);
}

/* True if mathematics cannot continue past the line at i: it is blank, or may open or close a fence. */
static bool stops(const struct text *t, size_t i)
{
    while (i < t->n && (t->s[i] == ' ' || t->s[i] == '\t' || t->s[i] == '\r'))
        i++;
    return i >= t->n || t->s[i] == '\n' || at(t, i, "```") || at(t, i, "~~~");
}

/* Returns the place after the next `end`, or 0; s[i] follows the opening mark. */
static size_t display_end(const struct text *t, size_t i, const char *end)
{
    for (size_t from = i; i < t->n && i < from + FAR; i++) {
        if (at(t, i, end))
            return i + strlen(end);
        if (t->s[i] == '\n' && stops(t, i + 1))
            return 0;
    }
    return 0;
}

/* Returns the place after the closing dollar on the same line, or 0.  By pandoc's rule no blank may follow the opening dollar or precede the
 * closing one, and no digit may follow the closing one: "$5 and $10". */
static size_t dollar_end(const struct text *t, size_t i)
{
    size_t from = i;
    if (i >= t->n || is_space(t->s[i]))
        return 0;
    for (; i < t->n && i < from + FAR && t->s[i] != '\n' && t->s[i] != '`'; i++) {
        if (t->s[i] == '\\')
            i += i + 1 < t->n && t->s[i + 1] != '\n';
        else if (t->s[i] == '$')
            return i > from && !is_space(t->s[i - 1]) && (i + 1 == t->n || t->s[i + 1] < '0' || t->s[i + 1] > '9') ? i + 1 : 0;
    }
    return 0;
}

static size_t line_end(const struct text *t, size_t i, const char *end)
{
    for (size_t from = i; i < t->n && i < from + FAR && t->s[i] != '\n'; i++)
        if (at(t, i, end))
            return i + strlen(end);
    return 0;
}

/* Returns the end of the mathematics that begins at i, or 0. */
static size_t math_end(const struct text *t, size_t i)
{
    if (at(t, i, "$$"))
        return display_end(t, i + 2, "$$");
    if (at(t, i, "\\["))
        return display_end(t, i + 2, "\\]");
    if (at(t, i, "\\("))
        return line_end(t, i + 2, "\\)");
    return t->s[i] == '$' && (!i || !is_word(t->s[i - 1])) ? dollar_end(t, i + 1) : 0;
}

size_t copy_math_end(const char *s, size_t n, size_t i)
{
    return math_end(&(struct text){s, n}, i);
}

/* Returns the place after a code span, or after a run of backticks that opens none. */
static size_t skip_code(const struct text *t, size_t i)
{
    size_t n = 0, k = 0;
    while (i + n < t->n && t->s[i + n] == '`')
        n++;
    size_t from = i + n;
    for (size_t j = from; j < t->n && j < from + FAR; j++) {
        k = t->s[j] == '`' ? k + 1 : 0;
        if (k == n && (j + 1 == t->n || t->s[j + 1] != '`'))
            return j + 1;
        if (t->s[j] != '\n')
            continue;
        if (n >= 3 || stops(t, j + 1))
            break;                      /* three may open a fence, whose mark is no span */
        size_t next = j + 1;
        while (next < t->n && (t->s[next] == ' ' || t->s[next] == '\t'))
            next++;
        if (next < t->n && t->s[next] && strchr("-+*>#=|<0123456789", t->s[next]))
            break;                      /* the line may begin a block, where a code span ends */
    }
    return from;
}

/* Replaces bytes one for one: mathematics, link definitions, odd white space. */
static void defuse(char *out, const char *s, size_t n)
{
    struct text t = {s, n};
    for (size_t i = 0; i < n;) {
        size_t end = math_end(&t, i);
        if (s[i] == '`') {
            i = skip_code(&t, i);
        } else if (at(&t, i, "](")) {
            for (i += 2; i < n && !is_space(s[i]) && s[i] && s[i] != ')' && s[i] != '`'; i++)
                ;                       /* the target of a link is shown as md4c returns it */
        } else if (end) {
            for (; i < end; i++)
                if (!is_space(s[i]))
                    out[i] = 'x';
        } else {
            i += s[i] == '\\' && i + 1 < n && s[i + 1] && !is_space(s[i + 1]) && s[i + 1] != '`' ? 2 : 1;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (s[i] == ':' && i && s[i - 1] == ']')
            out[i] = ';';
        if (!s[i] || s[i] == '\v' || s[i] == '\f' || (s[i] == '\r' && (i + 1 == n || s[i + 1] != '\n')))
            out[i] = 'x';
    }
}

/* --- tables --- */

static void patch(struct copy *c, const char *text, size_t n, size_t source)
{
    if (!(c->n_patches & (c->n_patches - 1))) {         /* at powers of two */
        c->patches = memory_resized(c->patches, (size_t)(c->n_patches ? 2 * c->n_patches : 1) * sizeof *c->patches);
    }
    c->patches[c->n_patches++] = (struct copy_patch){c->text.len, n, source};
    buf_add(&c->text, text, n);
}

/* Rewrites a delimiter row: md4c needs three characters a column, others need one. */
static void patch_delimiters(struct copy *c, const char *s, size_t at, size_t end)
{
    struct buf row = {0};
    size_t i = at;
    while (i < end && (s[i] == ' ' || s[i] == '\t'))
        i++;
    i += i < end && s[i] == '|';
    for (; i < end; i++) {
        bool left = false, right = false, any = false;
        for (; i < end && s[i] != '|'; i++) {
            left = left || (s[i] == ':' && !any);
            right = s[i] == ':' ? any : right && s[i] != '-';
            any = any || s[i] == '-';
        }
        if (i < end || any)
            buf_addf(&row, "|%s---%s", left ? ":" : "", right ? ":" : "");
    }
    buf_addc(&row, '|');
    patch(c, row.data, row.len, end);
    buf_free(&row);
}

/* Adds rows with a blank between "||", which md4c takes for one boundary. */
static void add_rows(struct copy *c, const char *s, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (s[i] == '|' && i > from && s[i - 1] == '|')
            patch(c, " ", 1, i);
        buf_addc(&c->text, s[i]);
    }
}

/* Returns the end of the line's text, before its newline. */
static size_t text_end(const char *s, size_t from, size_t n)
{
    const char *nl = memchr(s + from, '\n', n - from);
    size_t end = nl ? (size_t)(nl - s) : n;
    return end > from && s[end - 1] == '\r' ? end - 1 : end;
}

void copy_make(struct copy *c, const char *s, size_t n, bool table)
{
    buf_reset(&c->text);
    c->n_patches = 0;
    if (!table) {
        buf_add(&c->text, s, n);
        defuse(c->text.data, s, n);
        return;
    }
    struct buf all = {0};
    buf_add(&all, s, n);
    defuse(all.data, s, n);
    size_t header = text_end(s, 0, n), row = header, end;
    row += row < n && s[row] == '\r';
    row += row < n && s[row] == '\n';
    end = text_end(s, row, n);
    add_rows(c, all.data, 0, row);
    patch_delimiters(c, s, row, end);
    add_rows(c, all.data, end, n);
    buf_free(&all);
}

size_t copy_place(const struct copy *c, size_t at, size_t n)
{
    int low = 0, high = c->n_patches;   /* patches below `low` begin before at + n */
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (c->patches[mid].at < at + n)
            low = mid + 1;
        else
            high = mid;
    }
    if (!low)
        return at;
    const struct copy_patch *p = &c->patches[low - 1];
    return at < p->at + p->n ? COPY_NO_PLACE : p->source + (at - p->at - p->n);
}

size_t copy_part(const struct copy *c, size_t at, size_t n)
{
    int low = 0, high = c->n_patches;   /* patches below `low` end at or before `at` */
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (c->patches[mid].at + c->patches[mid].n <= at)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == c->n_patches || c->patches[low].at >= at + n)
        return n;
    const struct copy_patch *p = &c->patches[low];
    size_t piece = p->at > at ? p->at - at : p->at + p->n - at;
    return piece < n ? piece : n;
}

void copy_free(struct copy *c)
{
    buf_free(&c->text);
    free(c->patches);
    *c = (struct copy){0};
}
