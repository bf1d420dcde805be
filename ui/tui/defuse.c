#include "ui/tui/defuse.h"

#include <stdbool.h>
#include <string.h>

struct text {
    const char *s;
    size_t n;
};

/* What opens something and is not closed within this many bytes is text: hostile text must not make us search for ever. */
enum { FAR = 4000 };

static bool is_blank(char c)
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

/* A blank line, or one that may open or close a fence: mathematics does not go beyond. */
static bool stops(const struct text *t, size_t i)
{
    while (i < t->n && (t->s[i] == ' ' || t->s[i] == '\t' || t->s[i] == '\r'))
        i++;
    return i >= t->n || t->s[i] == '\n' || at(t, i, "```") || at(t, i, "~~~");
}

/* The place behind the next `end`, or 0: `s[i]` is behind what opened it. */
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

/* The same within a line, and (pandoc's rule) only if no blank stands at its inner sides and no digit behind: "$5 and $10". */
static size_t dollar_end(const struct text *t, size_t i)
{
    size_t from = i;
    if (i >= t->n || is_blank(t->s[i]))
        return 0;
    for (; i < t->n && i < from + FAR && t->s[i] != '\n' && t->s[i] != '`'; i++) {
        if (t->s[i] == '\\')
            i++;
        else if (t->s[i] == '$')
            return i > from && !is_blank(t->s[i - 1]) && (i + 1 == t->n || t->s[i + 1] < '0' || t->s[i + 1] > '9') ? i + 1 : 0;
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

/* Where the mathematics that begins at i ends, or 0. */
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

/* Behind a code span or a run of backticks that opens none. */
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
        if (t->s[j] == '\n' && stops(t, j + 1))
            break;
    }
    return from;
}

void defuse(struct buf *copy, const char *s, size_t n)
{
    buf_reset(copy);
    buf_add(copy, s, n);
    struct text t = {.s = s, .n = n};
    for (size_t i = 0; i < n;) {
        size_t end = math_end(&t, i);
        if (s[i] == '`') {
            i = skip_code(&t, i);
        } else if (end) {
            for (; i < end; i++)
                if (!is_blank(s[i]))
                    copy->data[i] = 'x';
        } else {
            if (s[i] == ']' && i + 1 < n && s[i + 1] == ':')
                copy->data[i + 1] = ';';
            if (!s[i] || s[i] == '\v' || s[i] == '\f')
                copy->data[i] = 'x';
            i += s[i] == '\\' && i + 1 < n && s[i + 1] && !is_blank(s[i + 1]) && s[i + 1] != '`' ? 2 : 1;
        }
    }
}
