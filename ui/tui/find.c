#include "ui/tui/find.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/unicode.h"

static bool is_blank(uint32_t cp)
{
    return cp == ' ' || cp == '\n' || cp == '\t' || cp == '\r';
}

static bool is_mark(uint32_t cp)
{
    return cp == '*' || cp == '_' || cp == '`' || cp == '~' || cp == '\\';
}

void find_set(struct find *f, const char *what)
{
    size_t n = strlen(what);
    find_free(f);
    f->what = memory_alloc((n + 1) * sizeof *f->what);
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        i += unicode_decode(what + i, n - i, &cp, NULL);
        if (is_blank(cp))
            cp = ' ';
        if (cp == ' ' && f->n && f->what[f->n - 1] == ' ')
            continue;
        f->exact |= cp != unicode_lower(cp);
        f->what[f->n++] = cp;
    }
}

void find_free(struct find *f)
{
    free(f->what);
    *f = (struct find){0};
}

enum outcome { NO, YES, UNDECIDED };    /* UNDECIDED: the text ended before the search did */

/* Compares the text at s[at..n) with the search; *took: bytes of the hit. */
static enum outcome match(const struct find *f, const char *s, size_t n, size_t at, bool marks, size_t *took)
{
    size_t i = at;
    for (int k = 0; k < f->n;) {
        if (i == n)
            return UNDECIDED;
        uint32_t cp;
        size_t step = unicode_decode(s + i, n - i, &cp, NULL);
        if (!f->exact)
            cp = unicode_lower(cp);
        if (f->what[k] == ' ' && is_blank(cp)) {
            while (i < n && is_blank((unsigned char)s[i]))
                i++;
            k++;
        } else if (cp == f->what[k]) {
            i += step;
            k++;
        } else if (marks && k && is_mark(cp)) {
            i += step;
        } else {
            return NO;
        }
    }
    *took = i - at;
    return YES;
}

/* Returns the next byte from `i` on where a hit may begin, judged by its first byte alone. */
static size_t candidate(const struct find *f, const char *s, size_t n, size_t i)
{
    uint32_t first = f->what[0];
    for (; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (first == ' ' ? is_blank(c) : first >= 0x80 ? c >= 0xc0 : c == first || (!f->exact && c < 0x80 && unicode_lower(c) == first))
            break;
    }
    return i;
}

static void add(struct hits *h, size_t at, size_t n)
{
    if (h->n == h->cap) {
        h->cap = h->cap ? 2 * h->cap : 8;
        h->at = memory_resized(h->at, (size_t)h->cap * sizeof *h->at);
    }
    h->at[h->n++] = (struct hit){at, n};
}

void hits_update(struct hits *h, const struct find *f, const char *text, size_t n, bool marks)
{
    if (!f->n)
        return;
    size_t i = h->scanned, took = 0;
    n = unicode_complete(text, n);
    while ((i = candidate(f, text, n, i)) < n) {
        enum outcome o = match(f, text, n, i, marks, &took);
        if (o == UNDECIDED)
            break;
        if (o == YES)
            add(h, i, took);
        i += o == YES ? took : 1;
    }
    h->scanned = i;
}

void hits_free(struct hits *h)
{
    free(h->at);
    *h = (struct hits){0};
}
