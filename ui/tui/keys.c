#include "ui/tui/keys.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/unicode.h"
#include "ui/tui/graphics.h"

enum {
    ESC = 0x1B, DEL = 0x7F,
    UNFINISHED_MS = 500,        /* for the rest of a sequence: nobody types one, and a slow line may split it */
    PASTE_MS = 1000,            /* a paste without bytes is over */
    REST_MS = 2000,             /* after the rest of such a paste: then keys are typed again */
    GAP_MS = 5,                 /* characters that come faster were not typed */
    GAP_CHARS = 3,
    SPLIT_MS = 150,             /* a slow line cuts Alt-Enter into ESC and Enter */
    MAX_STRING = 256,
};

enum { PASTE_BEGIN = 200, PASTE_END = 201 };
static const char paste_end[] = "\033[201~";

struct keys {
    struct buf in;              /* bytes that are no complete event yet */
    struct buf text;            /* of the next event */
    int64_t last_ms;            /* time of the last bytes */
    int     escape_ms;
    int64_t escaped_ms;         /* time of a lone ESC, if no byte came since */
    bool in_paste;              /* between the marks */
    bool cut;                   /* the time limit ended the paste, whose rest may follow */
    bool rest;                  /* bytes have come since the cut */
    bool after_cr;              /* the last newline was a CR: an LF after it is part of it */
    bool in_string;             /* the rest of a reply that is too long is dropped */
    int  pressed_row, pressed_col;              /* of the left button */
    bool more, burst;           /* more: the same arrow follows at once; burst: it followed another one */
    int  fast;                  /* number of characters that came fast so far */
    bool fast_paste;            /* there was a CR among them: they are a paste */
    bool held_cr;               /* a CR that is Enter, unless more bytes come fast */
    void (*fn)(void *arg, const struct key_event *ev);
    void *arg;
};

struct keys *keys_open(void)
{
    struct keys *k = memory_zeroed(1, sizeof *k);
    k->escape_ms = 25;
    k->last_ms = k->escaped_ms = INT64_MIN / 2;
    return k;
}

void keys_close(struct keys *k)
{
    if (!k)
        return;
    buf_free(&k->in);
    buf_free(&k->text);
    free(k);
}

void keys_escape_ms(struct keys *k, int ms)
{
    k->escape_ms = ms;
}

/* --- events ----------------------------------------------------------------------------------------------------- */

/* Calls fn with an event, marked if it may belong to the rest of a paste that was cut off. */
static void emit(struct keys *k, struct key_event ev)
{
    ev.cut = k->cut;
    k->fn(k->arg, &ev);
}

static void emit_text(struct keys *k, enum key_kind kind)
{
    if (k->text.len) {
        k->escaped_ms = INT64_MIN / 2;
        emit(k, (struct key_event){.kind = kind, .text = k->text.data, .n = k->text.len});
    }
    buf_reset(&k->text);
}

static void not_fast(struct keys *k)
{
    k->fast = 0;
    k->fast_paste = false;
}

static void emit_key(struct keys *k, uint32_t code, uint8_t mods)
{
    bool burst = k->more || k->burst;
    k->burst = k->more;
    k->more = false;
    not_fast(k);
    k->escaped_ms = INT64_MIN / 2;
    emit(k, (struct key_event){.kind = KEYS_KEY, .code = code, .mods = mods, .burst = burst});
}

static void emit_report(struct keys *k, enum key_report report, int value)
{
    emit(k, (struct key_event){.kind = KEYS_REPORT, .report = report, .value = value});
}

static void emit_pasted(struct keys *k, char c)
{
    buf_addc(&k->text, c);
    emit_text(k, KEYS_PASTE);
    emit(k, (struct key_event){.kind = KEYS_PASTE_END});
}

static bool is_visible(uint32_t code)
{
    return code >= ' ' && code < KEY_NONE && !(code >= DEL && code < 0xA0) && !(code >= 0xD800 && code < 0xE000);
}

/* Emits a key that the terminal reported by code: it may be text. */
static void emit_code(struct keys *k, uint32_t code, uint8_t mods, uint32_t shifted)
{
    char utf8[4];
    if (!is_visible(code) && code < KEY_NONE)
        return;
    keys_normalize(&code, &mods, shifted);
    if (code >= KEY_NONE || (mods & (MOD_CTRL | MOD_ALT)))
        emit_key(k, code, mods);
    else {
        buf_add(&k->text, utf8, unicode_encode(code, utf8));
        emit_text(k, KEYS_TEXT);
    }
}

/* --- control sequences taken apart -------------------------------------------------------------------------------------- */

enum { CSI_MAX = 128 };         /* bytes of the longest sequence */

/* The parts between "ESC [" and the final byte.  arg[i]: a number, -1 if it is left out; sub[i]: the number after its ':'. */
struct csi {
    char prefix, middle, final;
    int  n, arg[8], sub[8];
};

/* Parses the bytes after ESC, "[..." or "O...".  Returns the length of the sequence; 0: incomplete; -1: not a sequence. */
static int csi_parse(struct csi *c, const char *s, size_t n)
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

/* Decodes the modifiers of a key: the number is 1 plus 1 for Shift, 2 Alt, 4 Ctrl, 32 Meta.  False: unknown modifier. */
static bool csi_mods(int number, uint8_t *mods)
{
    int bits = number > 0 ? number - 1 : 0;
    *mods = (uint8_t)((bits & 7) | (bits & 32 ? MOD_ALT : 0));
    return !(bits & (8 | 16));
}

/* Returns the key of a sequence such as "CSI A" or "CSI 5 ~"; KEY_NONE: the sequence is no key. */
static uint32_t csi_letter_key(char final)
{
    static const char letters[] = "ABCDHFPQRSZM";
    static const uint32_t keys[] = {
        KEY_UP, KEY_DOWN, KEY_RIGHT, KEY_LEFT, KEY_HOME, KEY_END, KEY_F1, KEY_F2, KEY_F3, KEY_F4, KEY_TAB, KEY_ENTER,
    };
    const char *p = final ? strchr(letters, final) : NULL;
    return p ? keys[p - letters] : KEY_NONE;
}

static uint32_t csi_number_key(int number)
{
    static const uint32_t keys[] = {
        [1] = KEY_HOME, KEY_INSERT, KEY_DELETE, KEY_END, KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_HOME, KEY_END,
        [11] = KEY_F1, KEY_F2, KEY_F3, KEY_F4, KEY_F5, [17] = KEY_F6, KEY_F7, KEY_F8, KEY_F9, KEY_F10, [23] = KEY_F11, KEY_F12,
    };
    bool known = number > 0 && number < (int)(sizeof keys / sizeof *keys) && keys[number];
    return known ? keys[number] : KEY_NONE;
}

/* Returns the luminance 0..255 of "rgb:RRRR/GGGG/BBBB", with one to four digits each; -1: the text has another form. */
static int csi_luminance(const char *s, size_t n)
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

/* Returns the number at i, or `otherwise` if it is left out. */
static int csi_arg(const struct csi *c, int i, int otherwise)
{
    return i < c->n && c->arg[i] >= 0 ? c->arg[i] : otherwise;
}


/* --- sequences -------------------------------------------------------------------------------------------------- */

/* Emits a key that kitty or xterm reports by code point; kitty's keypad has codes of its own. */
static void emit_reported(struct keys *k, int code, int shifted, int number, bool alt)
{
    static const char pad[] = "0123456789./*-+\r=,";
    static const uint32_t pad_keys[] = {
        KEY_LEFT, KEY_RIGHT, KEY_UP, KEY_DOWN, KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_HOME, KEY_END, KEY_INSERT, KEY_DELETE,
    };
    uint8_t mods;
    if (!csi_mods(number, &mods) || code < 0)
        return;
    uint32_t c = (uint32_t)code;
    if (c >= 57399 && c < 57417)
        c = (uint32_t)pad[c - 57399];
    else if (c >= 57417 && c < 57427)
        c = pad_keys[c - 57417];
    else if ((c >= 0xE000 && c < 0xF900) || c >= KEY_NONE)
        return;                                 /* modifiers alone, media keys */
    c = c == '\r' || c == '\n' ? KEY_ENTER : c == '\t' ? KEY_TAB : c == ESC ? KEY_ESCAPE : c == DEL || c == '\b' ? KEY_BACKSPACE : c;
    emit_code(k, c, mods | (alt ? MOD_ALT : 0), shifted > 0 && is_visible((uint32_t)shifted) ? (uint32_t)shifted : 0);
}

/* Emits a mouse event; `button` is the number that the terminal sends.  A release counts only at the end of a drag. */
static void emit_mouse(struct keys *k, int button, int row, int col, bool released)
{
    static const uint32_t pressed[] = {KEY_CLICK, KEY_GRAB, KEY_GRAB, KEY_NONE}, wheel[] = {KEY_WHEEL_UP, KEY_WHEEL_DOWN, KEY_NONE, KEY_NONE};
    struct key_event ev = {.kind = KEYS_KEY, .row = row, .col = col};
    ev.mods = (uint8_t)((button & 4 ? MOD_SHIFT : 0) | (button & 8 ? MOD_ALT : 0) | (button & 16 ? MOD_CTRL : 0));
    button &= ~(4 | 8 | 16);
    if (released)
        ev.code = row != k->pressed_row || col != k->pressed_col ? KEY_GRAB : KEY_NONE;
    else
        ev.code = button >= 0 && button < 4 ? pressed[button] : button >= 64 && button < 68 ? wheel[button - 64] : KEY_NONE;
    if (ev.code == KEY_CLICK)
        k->pressed_row = row, k->pressed_col = col;
    if (ev.code == KEY_NONE)
        return;
    not_fast(k);
    emit(k, ev);
}

/* Emits a reply or notice of the terminal.  False: the sequence is a key. */
static bool csi_report(struct keys *k, const struct csi *c)
{
    if (c->prefix == '<' && (c->final == 'M' || c->final == 'm')) {
        int button = csi_arg(c, 0, 3);
        bool released = c->final == 'm';
        if (!released || (button & 3) == 0)
            emit_mouse(k, button, csi_arg(c, 2, 1) - 1, csi_arg(c, 1, 1) - 1, released);
    } else if (c->prefix == '?' && c->final == 'c') {
        enum { SIXEL = 4 };
        for (int i = 1; i < c->n; i++)
            if (csi_arg(c, i, 0) == SIXEL)
                emit_report(k, REPORT_GRAPHICS, GRAPHICS_SIXEL);
        emit_report(k, REPORT_DA1, csi_arg(c, 0, 0));
    } else if (!c->prefix && c->final == 't' && csi_arg(c, 0, 0) == 6 && c->n == 3)
        emit_report(k, REPORT_CELL, csi_arg(c, 2, 0) % 1024 * 1024 + csi_arg(c, 1, 0) % 1024);
    else if (c->prefix == '?' && c->final == 'u')
        emit_report(k, REPORT_KITTY, csi_arg(c, 0, 0));
    else if (c->prefix == '?' && c->final == 'y' && csi_arg(c, 0, 0) == 2026)
        emit_report(k, REPORT_SYNC, csi_arg(c, 1, 0) >= 1 && csi_arg(c, 1, 0) <= 3);
    else if (c->prefix == '?' && c->final == 'y' && csi_arg(c, 0, 0) == 1007)
        emit_report(k, REPORT_WHEEL_KEYS, csi_arg(c, 1, 0) == 1);
    else if (c->final == 'R' && (c->prefix || (c->n > 1 && c->arg[0] != 1)))
        emit_report(k, REPORT_CURSOR, csi_arg(c, 1, 1) - 1);
    else if (!c->prefix && !c->middle && (c->final == 'I' || c->final == 'O'))
        emit_report(k, REPORT_FOCUS, c->final == 'I');
    else
        return c->prefix || (c->middle && c->middle != '$');
    return true;
}

/* Reports the key of a CSI sequence, in the forms of xterm, rxvt and the protocols that report all keys. */
static void emit_csi(struct keys *k, const struct csi *c, bool alt)
{
    static const char rxvt[] = "$^@";           /* after a number: Shift, Ctrl, both */
    static const uint8_t rxvt_mods[] = {MOD_SHIFT, MOD_CTRL, MOD_SHIFT | MOD_CTRL};
    const char *r = strchr(rxvt, c->final);
    uint8_t mods = 0, extra = alt ? MOD_ALT : 0;
    uint32_t code = KEY_NONE;
    if (c->final == 'u') {
        if (c->sub[1] != 3)                     /* not the release */
            emit_reported(k, csi_arg(c, 0, -1), c->sub[0], csi_arg(c, 1, 1), alt);
        return;
    }
    if (c->final == '~' && csi_arg(c, 0, 0) == 27) {
        emit_reported(k, csi_arg(c, 2, -1), 0, csi_arg(c, 1, 1), alt);
        return;
    }
    if (c->final >= 'a' && c->final <= 'd') {   /* rxvt: Shift and an arrow */
        code = csi_letter_key((char)(c->final - 'a' + 'A'));
        extra |= MOD_SHIFT;
    } else if (c->final == '~' || r) {
        code = csi_number_key(csi_arg(c, 0, 0));
        extra |= r ? rxvt_mods[r - rxvt] : 0;
    } else if (c->final != 'M')
        code = csi_letter_key(c->final);
    if (c->final == 'Z')
        extra |= MOD_SHIFT;
    if (csi_mods(csi_arg(c, 1, 1), &mods) && code != KEY_NONE && c->sub[1] != 3)
        emit_key(k, code, mods | extra);
}

/* Reads "[..." after an ESC, or after two of them (`alt`).  Returns the length; 0: incomplete. */
static size_t csi(struct keys *k, const char *s, size_t n, bool alt)
{
    struct csi c;
    if (n >= 2 && s[1] == '[') {                /* the linux console's F1 to F5 */
        if (n >= 3 && s[2] >= 'A' && s[2] <= 'E')
            emit_key(k, KEY_F1 + (uint32_t)(s[2] - 'A'), alt ? MOD_ALT : 0);
        return n < 3 ? 0 : 3;
    }
    if (n >= 5 && s[1] == 'M')                  /* the old form of the mouse: three bytes of anything; button 3 is a release */
        emit_mouse(k, (unsigned char)s[2] - ' ', (unsigned char)s[4] - '!', (unsigned char)s[3] - '!', ((s[2] - ' ') & ~(4 | 8 | 16)) == 3);
    if (n >= 2 && s[1] == 'M')
        return n < 5 ? 0 : 5;
    int took = csi_parse(&c, s, n);
    if (took < 0) {
        size_t i = 1;
        while (i < n && i < CSI_MAX && s[i] >= ' ' && s[i] <= '?')
            i++;
        return i;
    }
    if (!took)
        return 0;
    if (c.final == '~' && csi_arg(&c, 0, 0) == PASTE_BEGIN) {
        if (alt)
            emit_key(k, KEY_ESCAPE, 0);
        k->in_paste = true;
        k->after_cr = k->cut = k->rest = false;
    } else if (c.final == '~' && csi_arg(&c, 0, 0) == PASTE_END) {
        k->cut = k->rest = false;               /* late, or without a paste */
    } else if (!csi_report(k, &c))
        emit_csi(k, &c, alt);
    return (size_t)took;
}

/* Reads "O." after an ESC: keys in application mode, and rxvt's arrows with Ctrl.  Returns the length; 0: incomplete; -1: not such a key. */
static int ss3(struct keys *k, const char *s, size_t n, bool alt)
{
    static const char pad[] = "*+,-./0123456789";       /* j to y */
    struct csi c = {0};
    int took = csi_parse(&c, s, n);
    uint8_t mods = 0;
    if (took <= 0)
        return took;
    uint32_t code = c.final >= 'a' && c.final <= 'd' ? csi_letter_key((char)(c.final - 'a' + 'A')) : csi_letter_key(c.final);
    if (c.final >= 'j' && c.final <= 'y')
        code = (uint32_t)(unsigned char)pad[c.final - 'j'];
    if (code == KEY_NONE || c.prefix || c.middle || !csi_mods(csi_arg(&c, c.n - 1, 1), &mods))
        return took == 2 ? -1 : took;
    mods |= (uint8_t)((alt ? MOD_ALT : 0) | (c.final >= 'a' && c.final <= 'd' ? MOD_CTRL : 0));
    emit_code(k, code, mods, 0);
    return took;
}

/* Finds the end of a string at s: *at bytes of text, *took bytes with its terminator.  A control character, or the start of another sequence, ends
 * the string too.  False: incomplete. */
static bool string_end(const char *s, size_t n, size_t *at, size_t *took)
{
    for (*at = 0; *at < n; ++*at) {
        unsigned char b = (unsigned char)s[*at];
        if (b == ESC && *at + 1 == n)
            return false;
        if (b < ' ') {
            *took = *at + (b == '\a' ? 1 : b == ESC && s[*at + 1] == '\\' ? 2 : 0);
            return true;
        }
    }
    return false;
}

/* Reads "]...", "P..." or "_G..." after an ESC, a reply.  Returns the length; 0: incomplete. */
static size_t string(struct keys *k, const char *s, size_t n)
{
    size_t at, took;
    if (!string_end(s, n, &at, &took)) {
        k->in_string = n > MAX_STRING;
        return k->in_string ? n - (s[n - 1] == ESC) : 0;
    }
    static const char kitty[] = "_Gi=31;OK", iterm[] = "P>|iTerm2";
    if (at >= strlen(kitty) && !memcmp(s, kitty, strlen(kitty)))
        emit_report(k, REPORT_GRAPHICS, GRAPHICS_KITTY);
    if (at >= strlen(iterm) && !memcmp(s, iterm, strlen(iterm)))
        emit_report(k, REPORT_GRAPHICS, GRAPHICS_ITERM);
    if (at > 4 && !memcmp(s, "]11;", 4)) {
        int value = csi_luminance(s + 4, at - 4);
        if (value >= 0)
            emit_report(k, REPORT_BACKGROUND, value);
    }
    return took;
}

/* --- single bytes ----------------------------------------------------------------------------------------------- */

static void emit_control(struct keys *k, unsigned char b, uint8_t mods)
{
    uint32_t code = b == '\r' ? KEY_ENTER : b == '\t' ? KEY_TAB : b == DEL || b == '\b' ? KEY_BACKSPACE : b == ESC ? KEY_ESCAPE : 0;
    if (code)
        emit_key(k, code, mods);
    else
        emit_key(k, b == 0 ? ' ' : b <= 26 ? 'a' + b - 1u : b + 64u, mods | MOD_CTRL);
}

static void emit_enter(struct keys *k, int64_t ms)
{
    emit_key(k, KEY_ENTER, ms - k->escaped_ms < SPLIT_MS ? MOD_ALT : 0);
}

/* Handles carriage returns and tabs amid fast text.  False: the byte is a key. */
static bool fast_control(struct keys *k, const char *s, size_t n)
{
    if (k->fast < GAP_CHARS && !k->fast_paste)
        return false;
    if (s[0] == '\t' && k->fast_paste) {
        emit_pasted(k, '\t');
        return true;
    }
    if (s[0] != '\r')
        return false;
    unsigned char next = n > 1 ? (unsigned char)s[1] : 0;
    if (k->fast_paste || (n > 1 && (next >= ' ' || next == '\r' || next == '\n' || next == '\t') && next != DEL)) {
        emit_pasted(k, '\n');
        k->fast_paste = k->after_cr = true;
    } else if (n > 1)
        return false;
    else
        k->held_cr = true;
    return true;
}

/* Takes a control character; returns the bytes taken. */
static size_t control(struct keys *k, const char *s, size_t n, int64_t ms)
{
    if (fast_control(k, s, n))
        return 1;
    if (s[0] == '\r')
        emit_enter(k, ms);
    else
        emit_control(k, (unsigned char)s[0], 0);
    return 1;
}

/* Adds one character of text or of a paste to k->text.  Returns its length; 0: incomplete. */
static size_t character(struct keys *k, const char *s, size_t n)
{
    uint32_t cp;
    if (!unicode_complete(s, n < 4 ? n : 4) && n < 4)
        return 0;
    size_t took = unicode_decode(s, n, &cp, NULL);
    char utf8[4];
    if (!(cp >= DEL && cp < 0xA0))
        buf_add(&k->text, utf8, unicode_encode(cp, utf8));
    return took;
}

/* Takes characters up to the next control character; returns the bytes taken. */
static size_t text(struct keys *k, const char *s, size_t n)
{
    size_t i = 0, took;
    for (; i < n && (unsigned char)s[i] >= ' ' && s[i] != DEL; i += took) {
        took = character(k, s + i, n - i);
        if (!took)
            break;
        k->fast++;
    }
    emit_text(k, KEYS_TEXT);
    return i;
}

/* Reads ESC and the sequence or key after it.  Returns the length; 0: incomplete. */
static size_t escape(struct keys *k, const char *s, size_t n)
{
    if (n == 1)
        return 0;
    k->more = n >= 6 && (s[1] == '[' || s[1] == 'O') && (s[2] == 'A' || s[2] == 'B') && !memcmp(s, s + 3, 3);       /* Up or Down twice */
    bool alt = s[1] == ESC;
    size_t at = alt ? 2 : 1, took;
    if (n == at)
        return 0;
    if (s[at] == '[') {
        took = csi(k, s + at, n - at, alt);
        return took ? at + took : 0;
    }
    if (s[at] == 'O') {
        int r = ss3(k, s + at, n - at, alt);
        if (r >= 0)
            return r ? at + (size_t)r : 0;
    }
    if (alt) {
        emit_key(k, KEY_ESCAPE, 0);             /* the second ESC begins another sequence */
        return 1;
    }
    if (strchr("]P_", s[1]) && s[1] && n == 2)
        return 0;
    if ((s[1] == ']' && s[2] >= '0' && s[2] <= '9') || (s[1] == 'P' && strchr("0123456789>!+$", s[2]) && s[2]) || (s[1] == '_' && s[2] == 'G')) {
        took = string(k, s + 1, n - 1);
        return took ? 1 + took : 0;
    }
    unsigned char b = (unsigned char)s[1];
    if (b < ' ' || b == DEL) {
        emit_control(k, b, MOD_ALT);
        return 2;
    }
    uint32_t cp;
    if (!unicode_complete(s + 1, n - 1 < 4 ? n - 1 : 4) && n - 1 < 4)
        return 0;
    took = unicode_decode(s + 1, n - 1, &cp, NULL);
    if (!(cp >= 0x80 && cp < 0xA0))
        emit_code(k, cp, MOD_ALT, 0);
    return 1 + took;
}

/* --- pastes ----------------------------------------------------------------------------------------------------- */

static void end_paste(struct keys *k)
{
    emit_text(k, KEYS_PASTE);
    emit(k, (struct key_event){.kind = KEYS_PASTE_END});
    k->in_paste = k->after_cr = false;
    not_fast(k);
}

/* Reads bytes of a paste; stops before a possible beginning of the end mark. */
static size_t paste(struct keys *k, const char *s, size_t n)
{
    const size_t mark = sizeof paste_end - 1;
    for (size_t i = 0, took; i < n; i += took) {
        unsigned char b = (unsigned char)s[i];
        took = 1;
        if (b == ESC && !memcmp(s + i, paste_end, n - i < mark ? n - i : mark)) {
            if (n - i < mark) {
                emit_text(k, KEYS_PASTE);
                return i;
            }
            end_paste(k);
            return i + mark;
        }
        if (b == '\r' || (b == '\n' && !k->after_cr) || b == '\t')
            buf_addc(&k->text, b == '\t' ? '\t' : '\n');
        else if (b >= ' ' && b < DEL)
            buf_addc(&k->text, (char)b);
        else if (b >= 0x80 && !(took = character(k, s + i, n - i))) {
            emit_text(k, KEYS_PASTE);
            return i;
        }
        k->after_cr = b == '\r';
    }
    emit_text(k, KEYS_PASTE);
    return n;
}

/* --- time ------------------------------------------------------------------------------------------------------- */

/* Reads the next event from s[0..n).  Returns the length; 0: incomplete. */
static size_t next(struct keys *k, const char *s, size_t n, int64_t ms)
{
    unsigned char b = (unsigned char)s[0];
    size_t at, took;
    if (k->in_paste)
        return paste(k, s, n);
    if (k->in_string) {
        k->in_string = !string_end(s, n, &at, &took);
        return k->in_string ? n - (s[n - 1] == ESC) : took;
    }
    bool joins = k->after_cr && b == '\n';
    k->after_cr = false;
    if (joins)
        return 1;
    return b == ESC ? escape(k, s, n) : b < ' ' || b == DEL ? control(k, s, n, ms) : text(k, s, n);
}

/* Emits a CR that was held back: as Enter, or as a newline of a paste if more bytes came at once. */
static void let_go(struct keys *k, bool pasted, int64_t ms)
{
    k->held_cr = false;
    if (pasted) {
        emit_pasted(k, '\n');
        k->fast_paste = k->after_cr = true;
    } else
        emit_enter(k, ms);
}

void keys_feed(struct keys *k, const char *bytes, size_t n, int64_t ms, void (*fn)(void *arg, const struct key_event *ev), void *arg)
{
    if (!n)
        return;
    keys_tick(k, ms, fn, arg);
    bool fast = ms - k->last_ms < GAP_MS;
    if (k->rest && ms - k->last_ms >= REST_MS)
        k->cut = false;                         /* the rest is over */
    k->rest = k->cut;
    unsigned char b = (unsigned char)bytes[0];
    if (k->held_cr)
        let_go(k, fast && (b >= ' ' || b == '\r' || b == '\n' || b == '\t') && b != DEL, ms);
    if (!fast)
        not_fast(k);
    k->last_ms = ms;
    buf_add(&k->in, bytes, n);
    size_t at = 0;
    while (at < k->in.len) {
        bool was_string = k->in_string, was_paste = k->in_paste;
        size_t took = next(k, k->in.data + at, k->in.len - at, ms);
        at += took;
        if (!took && was_string == k->in_string && was_paste == k->in_paste)
            break;
    }
    buf_consume(&k->in, at);
}

/* Returns how many ms pending bytes may stay undecided after the last one; -1 if none are pending. */
static int patience(const struct keys *k)
{
    if (k->in_paste)
        return PASTE_MS;
    if (k->held_cr)
        return GAP_MS;
    if (k->in_string)
        return UNFINISHED_MS;
    if (!k->in.len)
        return -1;
    const char *s = k->in.data;
    bool typed = s[0] == ESC && (k->in.len == 1 || (k->in.len == 2 && (s[1] == ESC || s[1] == ']' || s[1] == 'P' || s[1] == '_')));
    return typed ? k->escape_ms : UNFINISHED_MS;
}

/* Ends a sequence that was not completed in time: its bytes become keys, or are dropped. */
static void give_up(struct keys *k)
{
    const char *s = k->in.data;
    size_t n = k->in.len;
    bool escapes = n && n <= 2 && s[0] == ESC && s[n - 1] == ESC;
    for (size_t i = 0; i < n && escapes; i++) {
        emit_key(k, KEY_ESCAPE, 0);
        k->escaped_ms = k->last_ms;
    }
    if (n == 2 && s[0] == ESC && s[1] > 0 && !escapes)
        emit_code(k, (unsigned char)s[1], MOD_ALT, 0);
    else if (n && s[0] != ESC) {
        buf_adds(&k->text, "\xEF\xBF\xBD");
        emit_text(k, KEYS_TEXT);
    }
    k->in_string = false;
    buf_reset(&k->in);
}

void keys_tick(struct keys *k, int64_t ms, void (*fn)(void *arg, const struct key_event *ev), void *arg)
{
    k->fn = fn;
    k->arg = arg;
    int wait = patience(k);
    if (wait < 0 || ms - k->last_ms < wait)
        return;
    if (k->in_paste) {
        if (k->in.len && k->in.data[0] != ESC)
            buf_adds(&k->text, "\xEF\xBF\xBD");
        buf_reset(&k->in);
        end_paste(k);
        k->cut = true;
    } else if (k->held_cr)
        let_go(k, false, k->last_ms);
    else
        give_up(k);
}

int keys_timeout(const struct keys *k, int64_t ms)
{
    int wait = patience(k);
    if (wait < 0)
        return -1;
    int64_t left = k->last_ms + wait - ms;
    return left < 0 ? 0 : (int)(left < wait ? left : wait);
}

/* --- names: keys as people write them ---------------------------------------------------------------------------------- */

/* The first name of a key is the one that is shown. */
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
        i = (size_t)-1;                         /* look for more prefixes, in any order */
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
