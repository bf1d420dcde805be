/* Keys as people write them. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/unicode.h"
#include "ui/tui/keys.h"

/* The first name of a key is the one it is shown by. */
static const struct { const char *name; uint32_t code; } names[] = {
    {"Enter", KEY_ENTER}, {"Return", KEY_ENTER}, {"Tab", KEY_TAB}, {"Esc", KEY_ESCAPE}, {"Escape", KEY_ESCAPE},
    {"Backspace", KEY_BACKSPACE}, {"Delete", KEY_DELETE}, {"Del", KEY_DELETE}, {"Insert", KEY_INSERT}, {"Ins", KEY_INSERT},
    {"Up", KEY_UP}, {"Down", KEY_DOWN}, {"Left", KEY_LEFT}, {"Right", KEY_RIGHT}, {"Home", KEY_HOME}, {"End", KEY_END},
    {"PgUp", KEY_PAGE_UP}, {"PageUp", KEY_PAGE_UP}, {"PgDn", KEY_PAGE_DOWN}, {"PageDown", KEY_PAGE_DOWN},
    {"F1", KEY_F1}, {"F2", KEY_F2}, {"F3", KEY_F3}, {"F4", KEY_F4}, {"F5", KEY_F5}, {"F6", KEY_F6}, {"F7", KEY_F7},
    {"F8", KEY_F8}, {"F9", KEY_F9}, {"F10", KEY_F10}, {"F11", KEY_F11}, {"F12", KEY_F12},
    {"WheelUp", KEY_WHEEL_UP}, {"WheelDown", KEY_WHEEL_DOWN}, {"Click", KEY_CLICK}, {"Grab", KEY_GRAB}, {"Space", ' '},
};

static const struct { const char *name; uint8_t mod; } prefixes[] = {
    {"Ctrl-", MOD_CTRL}, {"Alt-", MOD_ALT}, {"Shift-", MOD_SHIFT}, {"C-", MOD_CTRL}, {"M-", MOD_ALT}, {"S-", MOD_SHIFT},
};

static bool is_letter(uint32_t code)
{
    return code < 0x80 && isalpha((int)code);
}

void keys_normalize(uint32_t *code, uint8_t *mods, uint32_t shifted)
{
    if (*code >= KEY_NONE)
        return;
    if ((*mods & MOD_SHIFT) && shifted && !is_letter(*code)) {
        *code = shifted;
        *mods &= (uint8_t)~MOD_SHIFT;
    }
    if (is_letter(*code) && (*mods & (MOD_CTRL | MOD_ALT))) {
        if (isupper((int)*code))
            *mods |= MOD_SHIFT;
        *code = (uint32_t)tolower((int)*code);
    } else if (is_letter(*code) && (*mods & MOD_SHIFT)) {
        *code = (uint32_t)toupper((int)*code);
        *mods = 0;
    }
    if ((*mods & (MOD_CTRL | MOD_SHIFT)) != MOD_CTRL)
        return;
    static const struct { char code; uint32_t is; bool key; } same[] = {
        {'h', KEY_BACKSPACE, true}, {'i', KEY_TAB, true}, {'m', KEY_ENTER, true}, {'[', KEY_ESCAPE, true}, {'/', '_', false}, {'@', ' ', false},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (*code == (uint32_t)same[i].code) {
            *code = same[i].is;
            if (same[i].key)
                *mods &= (uint8_t)~MOD_CTRL;
            return;
        }
}

bool keys_parse(const char *name, uint32_t *code, uint8_t *mods)
{
    *mods = 0;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t n = strlen(prefixes[i].name);
        if (strncasecmp(name, prefixes[i].name, n) || !name[n])
            continue;
        *mods |= prefixes[i].mod;
        name += n;
        i = (size_t)-1;                         /* there may be more, in any order */
    }
    size_t n = strlen(name);
    bool ok = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && !ok; i++)
        if (!strcasecmp(name, names[i].name)) {
            *code = names[i].code;
            ok = true;
        }
    if (!ok && (!n || unicode_decode(name, n, code, &ok) != n || !ok || unicode_kind(*code) == UNICODE_CONTROL))
        return false;
    if (is_letter(*code) && (*mods & (MOD_CTRL | MOD_ALT)))
        *code = (uint32_t)tolower((int)*code);  /* Alt-P is not Alt-Shift-P */
    keys_normalize(code, mods, 0);
    return true;
}

void keys_name(uint32_t code, uint8_t mods, struct buf *out)
{
    for (size_t i = 0; i < 3; i++)
        if (mods & prefixes[i].mod)
            buf_adds(out, prefixes[i].name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code) {
            buf_adds(out, names[i].name);
            return;
        }
    char utf8[4];
    if (is_letter(code) && mods)
        code = (uint32_t)toupper((int)code);
    if (code < KEY_NONE)
        buf_add(out, utf8, unicode_encode(code, utf8));
}
