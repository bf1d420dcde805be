#include "base/base64.h"

#include <stdint.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_add(struct buf *out, struct text bytes)
{
    const uint8_t *p = (const uint8_t *)bytes.p;
    buf_reserve(out, (bytes.n + 2) / 3 * 4);
    for (size_t i = 0; i < bytes.n; i += 3) {
        const size_t n = bytes.n - i < 3 ? bytes.n - i : 3;
        const uint32_t x = (uint32_t)p[i] << 16 | (n > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (n > 2 ? p[i + 2] : 0);
        const char four[] = {digits[x >> 18], digits[x >> 12 & 63], n > 1 ? digits[x >> 6 & 63] : '=', n > 2 ? digits[x & 63] : '='};
        buf_add(out, four, 4);
    }
}

/* Returns the value of a base64 character, 0 to 63, or -1. */
static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_read(struct buf *out, struct text text)
{
    const size_t before = out->len;
    uint32_t x = 0;
    int bits = 0;
    if (text.n && text.n % 4 == 0 && text.p[text.n - 1] == '=')
        text.n -= text.p[text.n - 2] == '=' ? 2 : 1;
    bool ok = text.n % 4 != 1;
    buf_reserve(out, text.n / 4 * 3 + 3);
    for (size_t i = 0; ok && i < text.n; i++) {
        const int d = digit_of(text.p[i]);
        ok = d >= 0;
        x = x << 6 | (uint32_t)(d & 63);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            buf_addc(out, (char)(x >> bits & 255));
        }
    }
    ok = ok && !(x & ((1u << bits) - 1));
    if (!ok)
        out->len = before;
    return ok;
}
