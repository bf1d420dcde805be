#include "base/utf8.h"

#include <string.h>

/* Returns the length of a character whose first byte is `b` (0: none), and sets the range of its second byte (Unicode Standard, table 3-7). */
static int lead(unsigned char b, unsigned char *lo, unsigned char *hi)
{
    *lo = b == 0xE0 ? 0xA0 : b == 0xF0 ? 0x90 : 0x80;
    *hi = b == 0xED ? 0x9F : b == 0xF4 ? 0x8F : 0xBF;
    return b < 0x80 ? 1 : b < 0xC2 ? 0 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : b < 0xF5 ? 4 : 0;
}

size_t utf8_decode(const char *s, size_t n, uint32_t *cp, bool *ok)
{
    const unsigned char *p = (const unsigned char *)s;
    unsigned char lo, hi;
    int need = lead(p[0], &lo, &hi);
    uint32_t c = p[0];
    if (need > 1)
        c &= 0x7Fu >> need;
    size_t i = 1;
    for (; (int)i < need && i < n && p[i] >= lo && p[i] <= hi; i++) {
        c = c << 6 | (p[i] & 0x3F);
        lo = 0x80;
        hi = 0xBF;
    }
    bool good = (int)i == need;
    if (ok)
        *ok = good;
    *cp = good ? c : UTF8_REPLACEMENT;
    return i;
}

size_t utf8_encode(uint32_t cp, char out[4])
{
    const size_t n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : cp < 0x110000 ? 4 : 0;
    static const unsigned char first[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; cp >>= 6)
        out[i] = (char)(0x80 | (cp & 0x3F));
    if (n)
        out[0] = (char)(first[n] | cp);
    return n;
}

bool utf8_valid(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        bool ok;
        i += utf8_decode(s + i, n - i, &cp, &ok);
        if (!ok)
            return false;
    }
    return true;
}

size_t utf8_complete(const char *s, size_t n)
{
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        unsigned char lo, hi;
        if (lead((unsigned char)s[n - k], &lo, &hi) <= (int)k)
            continue;
        uint32_t cp;
        return utf8_decode(s + n - k, k, &cp, NULL) == k ? n - k : n;
    }
    return n;
}

bool utf8_is_bidi_control(uint32_t cp)
{
    return cp == 0x61C || cp == 0x200E || cp == 0x200F || (cp >= 0x202A && cp <= 0x202E) || (cp >= 0x2066 && cp <= 0x2069);
}

size_t utf8_plain(char *s, size_t n, char instead)
{
    size_t to = 0;
    n = utf8_complete(s, n);
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        bool ok;
        size_t k = utf8_decode(s + i, n - i, &cp, &ok);
        if (!ok || cp < 0x20 || (cp >= 0x7F && cp < 0xA0) || utf8_is_bidi_control(cp)) {
            s[to++] = instead;
        } else {
            memmove(s + to, s + i, k);
            to += k;
        }
        i += k;
    }
    return to;
}
