#include "ui/tui/url.h"

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

/* A closing mark whose opening one stands outside. */
static bool closes_nothing(const char *s, size_t n)
{
    char close = s[n - 1], open = close == ')' ? '(' : close == ']' ? '[' : close == '}' ? '{' : 0;
    int depth = 0;
    for (size_t i = 0; open && i < n; i++)
        depth += (s[i] == open) - (s[i] == close);
    return depth < 0;
}

static size_t length(const char *s, size_t n)
{
    size_t len = 0;
    while (len < n && (unsigned char)s[len] > ' ' && s[len] != 127 && !strchr("<>\"`|\\^", s[len]))
        len++;
    while (len && (strchr(".,;:!?'*_~", s[len - 1]) || closes_nothing(s, len)))
        len--;
    return len;
}

bool url_next(const char *text, size_t len, size_t *at, size_t *n)
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
