#include "ui/tui/block.h"

#include <string.h>
#include <strings.h>

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
