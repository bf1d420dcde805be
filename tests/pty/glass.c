#include "tests/pty/glass.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <vterm.h>

#include "base/err.h"
#include "base/unicode.h"

enum place { TEXT, ESCAPE, CHARSET, CSI, STRING };

struct glass {
    VTerm *vt;
    VTermScreen *screen;
    struct buf *replies;
    int  rows, cols;
    enum place place;
    struct buf sequence;                /* that has begun */
    bool on[4096];                      /* private modes, by number */
    bool insert, keypad, region;
    int  titles, keyboards;             /* that are kept */
    struct buf title, strange;
    size_t bytes;
    int  bells, colors, erasures;
    unsigned char before;               /* the last byte */
};

/* --- what is sent ------------------------------------------------------------------------------------------------- */

static void add_strange(struct glass *g, const char *bytes, size_t n)
{
    if (g->strange.len > 400)
        return;
    buf_adds(&g->strange, g->strange.len ? " " : "");
    for (size_t i = 0; i < n && i < 60; i++)
        buf_addf(&g->strange, bytes[i] > ' ' && bytes[i] < 127 ? "%c" : "\\%03o", (unsigned char)bytes[i]);
}

static bool set_modes(struct glass *g, const char *params, bool on)
{
    static const int known[] = {1, 7, 12, 25, 1000, 1004, 1006, 1007, 1049, 2004, 2026};
    for (const char *p = params; *p;) {
        char *end;
        long mode = strtol(p, &end, 10);
        bool ok = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            ok = ok || mode == known[i];
        if (!ok || end == p)
            return false;
        g->on[mode] = on;
        p = *end ? end + 1 : end;
    }
    return *params;
}

/* 30 to 49 and 90 to 107 choose colours, 38 and 48 with what follows them. */
static void count_colors(struct glass *g, const char *params)
{
    for (const char *p = params; *p; p += strcspn(p, ";"), p += *p == ';') {
        long n = strtol(p, NULL, 10);
        g->colors += (n >= 30 && n <= 48 && n != 39) || (n >= 90 && n <= 107);
        if (n == 38 || n == 48)
            break;
    }
}

static bool private_sequence(struct glass *g, const char *params, char final)
{
    if (final == 'h' || final == 'l')
        return set_modes(g, params + 1, final == 'h');
    if (!strcmp(params, "?") && final == 'u')
        return true;                                    /* asks for the keyboard's mode */
    if (*params == '?' && final == 'p' && strchr(params, '$'))
        return true;                                    /* asks for a mode */
    if (!strcmp(params, ">") && final == 'q')
        return true;                                    /* asks for the terminal's name */
    if (*params == '?' && final == 'c')
        return true;                                    /* the Linux console's cursor */
    if (final == 'u' && (*params == '>' || *params == '<')) {
        g->keyboards += *params == '>' ? 1 : -1;
        return true;
    }
    return false;
}

static bool plain_sequence(struct glass *g, const char *params, char final)
{
    switch (final) {
    case 'm':
        count_colors(g, params);
        return true;
    case 'h': case 'l':
        g->insert = final == 'h';
        return !strcmp(params, "4");
    case 'r':
        g->region = *params && (atoi(params) > 1 || atoi(params + strcspn(params, ";") + 1) < g->rows);
        return true;
    case 't':
        if (!strcmp(params, "16"))
            return true;                                /* asks for the size of a cell */
        g->titles += strncmp(params, "22;", 3) ? -1 : 1;
        return !strncmp(params, "22;", 3) || !strncmp(params, "23;", 3);
    case 'c':
        return !*params;
    case 'J':
        g->erasures += !strcmp(params, "2");
        return strcmp(params, "3");                     /* which would wipe what was there before us */
    default:
        return strchr("ABCDGHKLMPSTXZ@bdf`", final);
    }
}

static void end_csi(struct glass *g)
{
    char params[64] = "", final = g->sequence.data[g->sequence.len - 1];
    size_t n = g->sequence.len - 3;
    if (n < sizeof params)
        memcpy(params, g->sequence.data + 2, n);
    bool ok = n < sizeof params && (strchr("?<>=", *params) && *params ? private_sequence(g, params, final) : plain_sequence(g, params, final));
    if (!ok)
        add_strange(g, g->sequence.data, g->sequence.len);
    g->place = TEXT;
}

static bool is_notice(const char *s, size_t n)
{
    static const char *const begins[] = {"\033]9;q35chat: ", "\033]99;;q35chat: ", "\033]777;notify;q35chat;"};
    bool is = false;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        is = is || (n > strlen(begins[i]) && !memcmp(s, begins[i], strlen(begins[i])));
    return is;
}

/* A question whether pictures can be shown, which shows none. */
static bool asks_for_pictures(const char *s, size_t n)
{
    static const char begin[] = "\033_Gi=31,s=1,v=1,a=q,";
    return n > strlen(begin) && !memcmp(s, begin, strlen(begin));
}

static void end_string(struct glass *g)
{
    const char *s = g->sequence.data;
    size_t n = g->sequence.len - (s[g->sequence.len - 1] == '\a' ? 1 : 2);
    if (n >= 4 && s[1] == ']' && (s[2] == '0' || s[2] == '2') && s[3] == ';') {
        buf_reset(&g->title);
        buf_add(&g->title, s + 4, n - 4);
    } else if (!is_notice(s, n) && !asks_for_pictures(s, n) && (n != 6 || memcmp(s, "\033]11;?", n)))       /* asks for the background */
        add_strange(g, s, g->sequence.len);
    g->place = TEXT;
}

static void after_escape(struct glass *g, unsigned char c)
{
    if (c == '[')
        g->place = CSI;
    else if (strchr("]P_^X", c))
        g->place = STRING;
    else if (strchr("()", c))
        g->place = CHARSET;
    else {
        if (c == '=' || c == '>')
            g->keypad = c == '=';
        else if (!strchr("78MDE\\", c))
            add_strange(g, g->sequence.data, g->sequence.len);
        g->place = TEXT;
    }
}

static void look_at_text(struct glass *g, unsigned char c)
{
    char ch = (char)c;
    if (c == '\033') {
        buf_reset(&g->sequence);
        buf_addc(&g->sequence, ch);
        g->place = ESCAPE;
    } else if (c == '\a')
        g->bells++;
    else if (c < ' ' ? !strchr("\b\t\n\r\016\017", c) : c == 127 || (g->before == 0xC2 && c >= 0x80 && c < 0xA0))
        add_strange(g, &ch, 1);
}

static void look_at(struct glass *g, unsigned char c)
{
    if (g->place == TEXT) {
        look_at_text(g, c);
    } else {
        buf_addc(&g->sequence, (char)c);
        if (g->place == ESCAPE)
            after_escape(g, c);
        else if (g->place == CHARSET)
            g->place = TEXT;
        else if (g->place == CSI && c >= '@' && c <= '~')
            end_csi(g);
        else if (g->place == STRING && (c == '\a' || (c == '\\' && g->before == '\033')))
            end_string(g);
        else if (c < ' ' && c != '\033') {              /* inside a sequence */
            add_strange(g, g->sequence.data, g->sequence.len);
            g->place = TEXT;
        }
    }
    g->before = c;
}

/* --- what is shown ------------------------------------------------------------------------------------------------ */

static void on_output(const char *bytes, size_t n, void *arg)
{
    struct glass *g = arg;
    buf_add(g->replies, bytes, n);
}

struct glass *glass_open(int rows, int cols, struct buf *replies)
{
    static const VTermScreenCallbacks none;
    struct glass *g = calloc(1, sizeof *g);
    CHECK(g);
    g->vt = vterm_new(rows, cols);
    g->replies = replies;
    g->rows = rows;
    g->cols = cols;
    g->on[7] = g->on[25] = g->on[1007] = true;
    vterm_set_utf8(g->vt, 1);
    vterm_output_set_callback(g->vt, on_output, g);
    g->screen = vterm_obtain_screen(g->vt);
    vterm_screen_enable_altscreen(g->screen, 1);
    vterm_screen_set_callbacks(g->screen, &none, g);
    vterm_screen_reset(g->screen, 1);
    return g;
}

void glass_close(struct glass *g)
{
    if (!g)
        return;
    vterm_free(g->vt);
    buf_free(&g->sequence);
    buf_free(&g->title);
    buf_free(&g->strange);
    free(g);
}

void glass_feed(struct glass *g, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        look_at(g, (unsigned char)bytes[i]);
    g->bytes += n;
    vterm_input_write(g->vt, bytes, n);
}

void glass_size(struct glass *g, int rows, int cols)
{
    g->rows = rows;
    g->cols = cols;
    vterm_set_size(g->vt, rows, cols);
}

static void add_row(const struct glass *g, int row, struct buf *out)
{
    size_t end = out->len;
    VTermScreenCell cell;
    for (int col = 0; col < g->cols; col += cell.width > 1 ? cell.width : 1) {
        vterm_screen_get_cell(g->screen, (VTermPos){row, col}, &cell);
        if (!cell.chars[0] || cell.chars[0] == (uint32_t)-1) {
            buf_addc(out, ' ');
            continue;
        }
        for (int i = 0; i < VTERM_MAX_CHARS_PER_CELL && cell.chars[i]; i++) {
            char utf8[4];
            buf_add(out, utf8, (size_t)unicode_encode(cell.chars[i], utf8));
        }
        if (cell.chars[0] != ' ')
            end = out->len;
    }
    out->len = end;
    buf_addc(out, '\n');
}

void glass_text(const struct glass *g, struct buf *out)
{
    for (int row = 0; row < g->rows; row++)
        add_row(g, row, out);
}

void glass_modes(const struct glass *g, struct buf *out)
{
    static const struct { int mode; bool usual; const char *name; } modes[] = {
        {1, false, "cursor keys"}, {7, true, "no wrap"}, {25, true, "hidden cursor"}, {1000, false, "mouse"}, {1004, false, "focus"},
        {1006, false, "mouse"}, {1007, true, "no wheel keys"},
        {1049, false, "alternate screen"}, {2004, false, "paste"}, {2026, false, "held output"},
    };
    const char *names[16];
    int n = 0;
    VTermValue bold, reverse;
    VTermState *state = vterm_obtain_state(g->vt);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (g->on[modes[i].mode] != modes[i].usual)
            names[n++] = modes[i].name;
    if (g->insert)
        names[n++] = "insert";
    if (g->keypad)
        names[n++] = "keypad";
    if (g->region)
        names[n++] = "scroll region";
    if (g->titles)
        names[n++] = "kept title";
    if (g->keyboards)
        names[n++] = "keyboard";
    if (vterm_state_get_penattr(state, VTERM_ATTR_BOLD, &bold) && vterm_state_get_penattr(state, VTERM_ATTR_REVERSE, &reverse)
        && (bold.boolean || reverse.boolean))
        names[n++] = "attributes";
    if (g->place != TEXT)
        names[n++] = "an unfinished sequence";
    for (int i = 0; i < n; i++)
        buf_addf(out, "%s%s", i ? ", " : "", names[i]);
}

const char *glass_title(const struct glass *g)
{
    return buf_str(&g->title);
}

const char *glass_strange(const struct glass *g)
{
    return buf_str(&g->strange);
}

size_t glass_bytes(const struct glass *g)
{
    return g->bytes;
}

int glass_bells(const struct glass *g)
{
    return g->bells;
}

int glass_colors(const struct glass *g)
{
    return g->colors;
}

int glass_erasures(const struct glass *g)
{
    return g->erasures;
}
