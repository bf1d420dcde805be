#include "text/jscan.h"

#include <string.h>

#include "base/unicode.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

void jscan_space(struct jscan *j)
{
    while (j->p < j->end && is_space(*j->p))
        j->p++;
}

bool jscan_char(struct jscan *j, char c)
{
    jscan_space(j);
    if (j->p == j->end || *j->p != c)
        return false;
    j->p++;
    return true;
}

/* Returns the value of four hex digits at p, or -1. */
static int hex4(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int c = p[i], d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (d < 0)
            return -1;
        v = v << 4 | d;
    }
    return v;
}

/* Reads the escape after a backslash. */
static bool escape(struct jscan *j)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (j->p == j->end)
        return false;
    char c = *j->p++;
    const char *at = c ? strchr(names, c) : NULL;
    if (at) {
        buf_addc(&j->unescaped, values[at - names]);
        return true;
    }
    if (c != 'u')
        return false;
    int cp = hex4(j->p, j->end);
    if (cp < 0)
        return false;
    j->p += 4;
    if (cp >= 0xD800 && cp < 0xDC00) {
        if (j->end - j->p < 6 || j->p[0] != '\\' || j->p[1] != 'u')
            return false;
        int low = hex4(j->p + 2, j->end);
        if (low < 0xDC00 || low > 0xDFFF)
            return false;
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
        j->p += 6;
    } else if (cp >= 0xDC00 && cp < 0xE000) {
        return false;
    }
    char utf8[4];
    buf_add(&j->unescaped, utf8, unicode_encode((uint32_t)cp, utf8));
    return true;
}

/* Moves to the next quote, backslash or control character. */
static bool plain(struct jscan *j)
{
    while (j->p < j->end && *j->p != '"' && *j->p != '\\' && (unsigned char)*j->p >= 0x20)
        j->p++;
    return j->p < j->end;
}

bool jscan_string(struct jscan *j, const char **s, size_t *n)
{
    if (!jscan_char(j, '"'))
        return false;
    const char *from = j->p;
    if (!plain(j))
        return false;
    if (*j->p == '"') {                 /* no escapes: the text itself */
        *s = from;
        *n = (size_t)(j->p++ - from);
        return true;
    }
    buf_reset(&j->unescaped);
    while (*j->p == '\\') {
        buf_add(&j->unescaped, from, (size_t)(j->p++ - from));
        if (!escape(j))
            return false;
        from = j->p;
        if (!plain(j))
            return false;
    }
    if (*j->p != '"')
        return false;
    buf_add(&j->unescaped, from, (size_t)(j->p++ - from));
    *s = j->unescaped.data;
    *n = j->unescaped.len;
    return true;
}

bool jscan_int(struct jscan *j, int64_t *v)
{
    jscan_space(j);
    const char *p = j->p;
    bool minus = p < j->end && *p == '-';
    p += minus;
    const char *digits = p;
    int64_t x = 0;
    for (; p < j->end && *p >= '0' && *p <= '9' && p - digits < 18; p++)
        x = x * 10 + (*p - '0');
    if (p == digits || (p < j->end && (*p == '.' || (*p | 32) == 'e' || (*p >= '0' && *p <= '9'))))
        return false;
    j->p = p;
    *v = minus ? -x : x;
    return true;
}

/* Moves behind a string, whose opening quote is at the current byte.  False if it does not end. */
static bool skip_string(struct jscan *j)
{
    for (j->p++; j->p < j->end && *j->p != '"'; j->p++)
        if (*j->p == '\\' && ++j->p == j->end)
            return false;
    if (j->p == j->end)
        return false;
    j->p++;
    return true;
}

bool jscan_skip(struct jscan *j)
{
    size_t depth = 0;
    jscan_space(j);
    const char *from = j->p;
    for (; j->p < j->end; j->p++) {
        char c = *j->p;
        if (c == '"') {
            if (!skip_string(j))
                return false;
            if (!depth)
                return true;
            j->p--;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (!depth)
                return j->p > from;
            if (!--depth) {
                j->p++;
                return true;
            }
        } else if (!depth && (c == ',' || is_space(c))) {
            return j->p > from;
        }
    }
    return !depth && j->p > from;
}
