#include "ui/tui/jsontext.h"

#include "base/least.h"
#include "base/unicode.h"

/* A line, [from, to) of the source, and what is open after it. */
struct piece {
    size_t from, to;
    int indent, depth;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_open(char c) { return c == '{' || c == '['; }
static bool is_close(char c) { return c == '}' || c == ']'; }

static size_t skip(const char *s, size_t n, size_t at)
{
    while (at < n && is_space(s[at]))
        at++;
    return at;
}

enum jsontext_kind jsontext_kind(const char *s, size_t n)
{
    size_t at = skip(s, n, 0);
    if (at < n && s[at] != '{')
        return JSONTEXT_NOT;
    at = at < n ? skip(s, n, at + 1) : n;
    return at == n ? JSONTEXT_UNDECIDED : s[at] == '"' || s[at] == '}' ? JSONTEXT_IS : JSONTEXT_NOT;
}

/* Looks at the character outside of strings at *i, and moves *i to the last one that belongs to it: an empty object or list is one piece.  True: the
 * line ends there, before o->to. */
static bool ends_line(const char *s, size_t n, size_t *i, struct piece *o)
{
    const char c = s[*i];
    if (is_open(c)) {
        const size_t next = skip(s, n, *i + 1);
        if (next < n && is_close(s[next])) {
            *i = next;
            return false;
        }
        o->depth += next < n;
        o->to = *i + 1;
        return next < n;
    }
    o->to = c == ',' ? *i + 1 : *i;
    return c == ',' || c == '\n' || is_close(c);
}

/* Finds the next line.  False: more text may belong to it; it is then all that there is. */
static bool next_line(const struct jsontext *t, const char *s, size_t n, struct piece *o)
{
    size_t i = skip(s, n, t->at);
    bool string = false, complete = false;
    *o = (struct piece){.from = i, .to = n, .indent = t->depth, .depth = t->depth};
    if (i < n && is_close(s[i])) {
        o->indent = o->depth = most(t->depth - 1, 0);
        o->to = ++i;
        complete = !o->depth;
    }
    for (; i < n && !complete; i++) {
        if (string && s[i] == '\\')
            i++;
        else if (s[i] == '"')
            string = !string;
        else if (!string)
            complete = ends_line(s, n, &i, o);
    }
    if (!complete)
        o->to = n;
    while (o->to > o->from && is_space(s[o->to - 1]))
        o->to--;
    return complete;
}

/* Adds a line of JSON, indented by its depth. */
static void add(const char *s, const struct piece *o, struct sheet *to)
{
    enum { STEP = 2 };
    struct lines margin = {0};
    const int indent = least(STEP * o->indent, to->columns / 2);
    lines_begin(&margin, 0)->indent = (uint16_t)indent;
    for (int i = 0; i < indent; i++)
        buf_addc(&to->code, ' ');
    sheet_code_line(to, s + o->from, o->to - o->from, o->from, (struct lines_margin){&margin, 0, 0});
    lines_free(&margin);
}

void jsontext_take(struct jsontext *t, const char *s, size_t n, struct sheet *to)
{
    struct piece o;
    if (!t->begun)
        sheet_code_bare(to, "json", 4);
    t->begun = true;
    while (!t->over && next_line(t, s, n, &o)) {
        add(s, &o, to);
        t->at = o.to;
        t->depth = o.depth;
        t->over = !o.depth;
    }
}

void jsontext_rest(const struct jsontext *t, const char *s, size_t n, struct sheet *to)
{
    struct piece o;
    if (!t->over && !next_line(t, s, unicode_complete(s, n), &o) && o.to > o.from)
        add(s, &o, to);
}
