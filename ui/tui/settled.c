#include "ui/tui/settled.h"

#include <string.h>

#include "ui/tui/copy.h"
#include "ui/tui/glyph.h"

/* Blocks before the last leaf are over.  Of a paragraph two things are open: a mark that is shown as text because its other half is
 * not there, with all that comes behind; and the last word, which decides where its line and the one before it break. */

struct scan {
    const struct sheet *sheet;
    const char *source;
    size_t from, to;                    /* of the paragraph, in the source */
    size_t span;                        /* where the marked text under way begins */
    bool   marked;                      /* there is some */
    size_t skip;                        /* mathematics goes on up to there */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';         /* a carriage return alone is text */
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool settled_says_nothing(const char *line, size_t n)
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

/* The unit that more bytes may join: the last word, or the last cluster of a script without blanks, which has at most so many
 * characters. */
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

/* Could the character at `at`, which is shown as text, still open something? */
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

/* The first place of a run that may open something, or NO_SOURCE.  What it opens may take the marked text around it apart. */
static size_t doubt_in(struct scan *s, const struct run *r)
{
    bool marked = r->look.marks || r->look.style == STYLE_link || r->look.style == STYLE_dim;           /* dim: where a link goes */
    if (r->source == LINES_NO_SOURCE || r->look.style == STYLE_code)
        return LINES_NO_SOURCE;
    if (marked && !s->marked)
        s->span = r->source;
    s->marked = marked;
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
            return marked ? s->span : at && s->source[at] == '[' && s->source[at - 1] == '!' ? at - 1 : at;
    }
    return LINES_NO_SOURCE;
}

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

/* True if a line may break at s->source[i].  The blanks at both ends of a code span are not shown. */
static bool breaks_at(const struct scan *s, size_t i)
{
    return is_blank(s->source[i]) && !(i > s->from && s->source[i - 1] == '`') && !(i + 1 < s->to && s->source[i + 1] == '`');
}

/* Returns the place after the first word of a line, or after so many characters of a script without blanks: the line before ends for their sake. */
static size_t first_word(const struct scan *s, int line)
{
    enum { ENOUGH = 8 };
    size_t i = s->sheet->lines.lines[line].source;
    for (int wide = 0; i < s->to && !breaks_at(s, i) && wide < ENOUGH;) {
        struct glyph g;
        i += glyph_next(s->source + i, s->to - i, &g);
        wide += g.width == 2;
    }
    return i;
}

/* What closes a span may go on and then be something else. */
static bool ends_in_mark(const struct scan *s)
{
    char c = s->to > s->from ? s->source[s->to - 1] : 0;
    return c && strchr("*_~`$", c);
}

/* A first line with a bar is the header of a table if the second one says so. */
static bool may_be_table(const struct scan *s)
{
    const char *p = s->source + s->from, *end = memchr(p, '\n', s->to - s->from);
    size_t n = end ? (size_t)(end - p) : s->to - s->from;
    return memchr(p, '|', n) && (!end || !memchr(end + 1, '\n', s->to - s->from - n - 1));
}

static int text_lines(const struct sheet *sheet, const char *source, size_t to)
{
    struct scan s = {.sheet = sheet, .source = source, .from = sheet->leaf.source, .to = to};
    const struct lines *l = &sheet->lines;
    int n = sheet->leaf.first;
    if (may_be_table(&s) || ends_in_mark(&s))
        return n;
    size_t doubt = first_doubt(&s);
    while (n + 1 < l->n && l->lines[n + 1].source > l->lines[n].source && first_word(&s, n + 1) < doubt)
        n++;
    return n;
}

/* Formulas of several lines take marks of lists and quotes for their own. */
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

int settled_lines(const struct sheet *s, const char *source, size_t from, size_t to)
{
    if (opens_formula(source + from, to - from))
        return 0;
    return s->leaf.kind == LEAF_TEXT ? text_lines(s, source, to) : s->leaf.kind == LEAF_CODE ? s->leaf.last : s->leaf.first;
}
