#include "ui/tui/excerpt.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

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

static bool is_sign(char c)
{
    return strchr(" \t\n\r-*#>", c) != NULL;
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
        while (begin < end && is_sign(s[begin]))
            begin++;
        if (begin + LEAST > end)
            continue;
        for (; begin < end; begin++)
            if (s[begin] != '\n' && s[begin] != '\r')
                buf_addc(out, s[begin] == '\t' ? ' ' : s[begin]);
        return true;
    }
}
