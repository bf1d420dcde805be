#include "ui/tui/csi.h"

#include <string.h>

#include "ui/tui/keycode.h"

int csi_parse(struct csi *c, const char *s, size_t n)
{
    *c = (struct csi){.n = 1, .arg = {-1}, .sub = {-1}};
    int *number = c->arg;
    for (size_t i = 1; i < n && i < CSI_MAX; i++) {
        char b = s[i];
        if (b >= '0' && b <= '9') {
            if (number)
                *number = *number < 0 ? b - '0' : *number < 0x1000000 ? *number * 10 + b - '0' : *number;
        } else if (b == ';') {
            number = c->n < 8 ? &c->arg[c->n] : NULL;
            if (number)
                c->arg[c->n] = c->sub[c->n] = -1, c->n++;
        } else if (b == ':') {
            number = number == &c->arg[c->n - 1] ? &c->sub[c->n - 1] : NULL;
        } else if (b >= '<' && b <= '?') {
            c->prefix = b;
        } else if (b >= ' ' && b <= '/') {
            c->middle = b;
            if (b == '$' && !c->prefix && c->n == 1 && c->arg[0] >= 0) {       /* rxvt: Shift and a key */
                c->final = b;
                return (int)i + 1;
            }
        } else if (b >= '@' && b <= '~') {
            c->final = b;
            return (int)i + 1;
        } else
            return -1;
    }
    return n < CSI_MAX ? 0 : -1;
}

bool csi_mods(int number, uint8_t *mods)
{
    int bits = number > 0 ? number - 1 : 0;
    *mods = (uint8_t)((bits & 7) | (bits & 32 ? MOD_ALT : 0));
    return !(bits & (8 | 16));
}

uint32_t csi_letter_key(char final)
{
    static const char letters[] = "ABCDHFPQRSZM";
    static const uint32_t keys[] = {
        KEY_UP, KEY_DOWN, KEY_RIGHT, KEY_LEFT, KEY_HOME, KEY_END, KEY_F1, KEY_F2, KEY_F3, KEY_F4, KEY_TAB, KEY_ENTER,
    };
    const char *p = final ? strchr(letters, final) : NULL;
    return p ? keys[p - letters] : KEY_NONE;
}

uint32_t csi_number_key(int number)
{
    static const uint32_t keys[] = {
        [1] = KEY_HOME, KEY_INSERT, KEY_DELETE, KEY_END, KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_HOME, KEY_END,
        [11] = KEY_F1, KEY_F2, KEY_F3, KEY_F4, KEY_F5, [17] = KEY_F6, KEY_F7, KEY_F8, KEY_F9, KEY_F10, [23] = KEY_F11, KEY_F12,
    };
    bool known = number > 0 && number < (int)(sizeof keys / sizeof *keys) && keys[number];
    return known ? keys[number] : KEY_NONE;
}

int csi_luminance(const char *s, size_t n)
{
    static const int weight[] = {299, 587, 114};
    int sum = 0;
    const char *end = s + n, *p = memchr(s, ':', n);
    if (n < 4 || memcmp(s, "rgb", 3) || !p)
        return -1;
    for (int i = 0; i < 3; i++) {
        unsigned value = 0, max = 0;
        for (p++; p < end && *p != '/' && max < 0xFFFF; p++) {
            int digit = *p >= '0' && *p <= '9' ? *p - '0' : (*p | 32) >= 'a' && (*p | 32) <= 'f' ? (*p | 32) - 'a' + 10 : -1;
            if (digit < 0)
                return -1;
            value = value * 16 + (unsigned)digit;
            max = max * 16 + 15;
        }
        if (!max || (i < 2 && (p == end || *p != '/')))
            return -1;
        sum += (int)(value * 255 / max) * weight[i];
    }
    return sum / 1000;
}
