#include "ui/tui/copy.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

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
    if (i >= t->n || is_blank(t->s[i]))
        return 0;
    for (; i < t->n && i < from + FAR && t->s[i] != '\n' && t->s[i] != '`'; i++) {
        if (t->s[i] == '\\')
            i += i + 1 < t->n && t->s[i + 1] != '\n';
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
            for (i += 2; i < n && !is_blank(s[i]) && s[i] && s[i] != ')' && s[i] != '`'; i++)
                ;                       /* the target of a link is shown as md4c returns it */
        } else if (end) {
            for (; i < end; i++)
                if (!is_blank(s[i]))
                    out[i] = 'x';
        } else {
            i += s[i] == '\\' && i + 1 < n && s[i + 1] && !is_blank(s[i + 1]) && s[i + 1] != '`' ? 2 : 1;
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
