#include "ui/tui/find.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
        if (o == YES) {
            h->at = memory_grow(h->at, h->n, &h->cap, sizeof *h->at);
            h->at[h->n++] = (struct hit){i, took};
        }
        i += o == YES ? took : 1;
    }
    h->scanned = i;
}

void hits_free(struct hits *h)
{
    free(h->at);
    *h = (struct hits){0};
}

/* --- addresses and sentences --------------------------------------------------------------------------------------- */

static size_t scheme(const char *s, size_t n)
{
    static const char *const all[] = {"https://", "http://", "ftp://", "mailto:"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strlen(all[i]) < n && !strncasecmp(s, all[i], strlen(all[i])))
            return strlen(all[i]);
    return 0;
}

/* Returns the length of the address, without punctuation at its end and without closing brackets that it does not open itself. */
static size_t length(const char *s, size_t n)
{
    static const char opening[] = "([{", closing[] = ")]}";
    int depth[3] = {0};
    size_t len = 0;
    for (; len < n && (unsigned char)s[len] > ' ' && s[len] != 127 && !strchr("<>\"`|\\^", s[len]); len++)
        for (int k = 0; k < 3; k++)
            depth[k] += (s[len] == opening[k]) - (s[len] == closing[k]);
    for (; len; len--) {
        const char last = s[len - 1], *mark = strchr(closing, last);
        if (mark ? depth[mark - closing]++ >= 0 : !strchr(".,;:!?'*_~", last))
            break;
    }
    return len;
}

bool excerpt_url(const char *text, size_t len, size_t *at, size_t *n)
{
    for (size_t i = *at; i < len; i++) {
        size_t begin = i && isalnum((unsigned char)text[i - 1]) ? 0 : scheme(text + i, len - i);
        size_t whole = begin ? length(text + i, len - i) : 0;
        if (whole > begin) {
            *at = i;
            *n = whole;
            return true;
        }
    }
    return false;
}

/* --- the newest sentence --- */

enum { LEAST = 8 };                     /* bytes; shorter ones, such as "So", are no summary of a thought */

/* True if a sentence ends with byte i.  Lines count as sentences, since reasoning is full of lists. */
static bool ends(const char *s, size_t n, size_t i)
{
    bool stop = s[i] == '.' || s[i] == '!' || s[i] == '?';
    bool wide = i >= 2 && !memcmp(s + i - 2, "\xe3\x80\x82", 3);        /* the full stop of Chinese and Japanese */
    return s[i] == '\n' || wide || (stop && i + 1 < n && (s[i + 1] == ' ' || s[i + 1] == '\n'));
}

bool excerpt_sentence(const char *s, size_t n, struct buf *out)
{
    size_t end = n, from = 0;
    for (;; end = from) {
        while (end > 0 && !ends(s, n, end - 1))
            end--;
        if (!end)
            return false;
        for (from = end - 1; from > 0 && !ends(s, n, from - 1);)
            from--;
        size_t begin = from;
        while (begin < end && strchr(" \t\n\r-*#>", s[begin]))
            begin++;
        if (begin + LEAST > end)
            continue;
        for (; begin < end; begin++)
            if (s[begin] != '\n' && s[begin] != '\r')
                buf_addc(out, s[begin] == '\t' ? ' ' : s[begin]);
        return true;
    }
}
