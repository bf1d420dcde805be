#include "ui/tui/entity.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/unicode.h"

static const struct { const char *name, *text; } entities[] = {
    {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}, {"&nbsp;", " "}, {"&copy;", "©"},
    {"&hellip;", "…"}, {"&mdash;", "—"}, {"&ndash;", "–"}, {"&times;", "×"}, {"&deg;", "°"}, {"&larr;", "←"}, {"&rarr;", "→"},
    {"&le;", "≤"}, {"&ge;", "≥"}, {"&ne;", "≠"}, {"&middot;", "·"}, {"&bull;", "•"},
};

size_t entity_text(const char *s, size_t n, char out[4])
{
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++)
        if (n == strlen(entities[i].name) && !memcmp(s, entities[i].name, n)) {
            memcpy(out, entities[i].text, strlen(entities[i].text));
            return strlen(entities[i].text);
        }
    if (n < 4 || n > 12 || s[1] != '#')
        return 0;
    bool hex = s[2] == 'x' || s[2] == 'X';
    char digits[16] = {0};
    memcpy(digits, s + (hex ? 3 : 2), n - (hex ? 4 : 3));
    unsigned long cp = strtoul(digits, NULL, hex ? 16 : 10);
    if (!cp || cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000))
        cp = UNICODE_REPLACEMENT;
    return unicode_encode((uint32_t)cp, out);
}
