#include "base/text.h"

#include <string.h>

#include "base/unicode.h"
#include "base/utf8.h"

struct text text_of(const char *s)
{
    return (struct text){s, strlen(s)};
}

bool text_same(struct text a, struct text b)
{
    return a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n));
}

bool text_is(struct text t, const char *s)
{
    return text_same(t, text_of(s));
}

bool text_starts(struct text t, const char *s)
{
    size_t n = strlen(s);
    return t.n >= n && !memcmp(t.p, s, n);
}

bool text_ends(struct text t, const char *s)
{
    size_t n = strlen(s);
    return t.n >= n && !memcmp(t.p + t.n - n, s, n);
}

bool text_listed(const char *list, struct text word)
{
    for (const char *p = list; *p;) {
        const size_t n = strcspn(p, ", ");
        if (text_same((struct text){p, n}, word))
            return true;
        p += n + (p[n] != 0);
    }
    return false;
}

const char *text_find(struct text t, const char *s)
{
    return t.n ? memmem(t.p, t.n, s, strlen(s)) : NULL;
}

struct text text_ltrim_char(struct text t, char c)
{
    while (t.n && t.p[0] == c)
        t.p++, t.n--;
    return t;
}

struct text text_rtrim_char(struct text t, char c)
{
    while (t.n && t.p[t.n - 1] == c)
        t.n--;
    return t;
}

bool text_space(uint32_t cp)
{
    return (cp >= 0x1c && cp <= 0x1f) || unicode_class(cp) == UNICODE_SPACE;
}

/* Returns the length of the white space character that ends `t`, or 0.  No such character is longer than three bytes. */
static size_t space_before_end(struct text t)
{
    uint32_t cp;
    for (size_t n = 1; n <= 3 && n <= t.n; n++)
        if (utf8_decode(t.p + t.n - n, n, &cp, NULL) == n && text_space(cp))
            return n;
    return 0;
}

bool text_is_tag_name(struct text t)
{
    bool ok = t.n && text_trim(t).n == t.n && !strchr("\"'", t.p[0]) && !strchr("\"'", t.p[t.n - 1]);
    for (size_t i = 0; ok && i < t.n; i++)
        ok = (unsigned char)t.p[i] >= ' ' && !strchr("<>\x7f", t.p[i]);
    return ok;
}

struct text text_trim(struct text t)
{
    uint32_t cp;
    size_t n;
    while (t.n && (n = utf8_decode(t.p, t.n, &cp, NULL), text_space(cp)))
        t.p += n, t.n -= n;
    while ((n = space_before_end(t)))
        t.n -= n;
    return t;
}
