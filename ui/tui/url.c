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

/* Without the marks of the sentence at its end, and without closing marks that it does not open itself. */
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
