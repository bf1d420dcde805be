#include "ui/tui/osc.h"

#include <stdint.h>
#include <string.h>

#include "base/unicode.h"

enum { TITLE_MAX = 200 };

void osc_title(struct buf *out, const char *text)
{
    struct buf safe = {0};
    unicode_safe(&safe, text, strlen(text));
    for (size_t i = 0; i < safe.len; i++)
        if (safe.data[i] == '\n' || safe.data[i] == '\t')
            safe.data[i] = ' ';
    buf_adds(out, "\033]2;");
    buf_add(out, buf_str(&safe), unicode_complete(buf_str(&safe), safe.len < TITLE_MAX ? safe.len : TITLE_MAX));
    buf_adds(out, "\033\\");
    buf_free(&safe);
}

static void add_base64(struct buf *out, const char *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = (const unsigned char *)bytes;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (uint32_t)(i + 1 < n ? p[i + 1] : 0) << 8 | (i + 2 < n ? p[i + 2] : 0);
        for (size_t k = 0; k < 4; k++)
            buf_addc(out, i + k > n ? '=' : digits[v >> (18 - 6 * k) & 63]);
    }
}

void osc_clipboard(struct buf *out, const char *text, size_t n, bool tmux)
{
    buf_adds(out, "\033]52;c;");
    add_base64(out, text, n);
    buf_adds(out, "\033\\");
    if (!tmux)
        return;
    buf_adds(out, "\033Ptmux;\033\033]52;c;");
    add_base64(out, text, n);
    buf_adds(out, "\a\033\\");
}
