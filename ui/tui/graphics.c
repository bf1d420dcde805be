#include "ui/tui/graphics.h"

#include <string.h>

#include "base/base64.h"
#include "base/unicode.h"

void graphics_size(int w, int h, int *rows, int *cols)
{
    *rows = GRAPHICS_MOST_ROWS;
    *cols = (2 * w * *rows + h / 2) / h;
    if (*cols > GRAPHICS_MOST_COLS) {
        *cols = GRAPHICS_MOST_COLS;
        *rows = (*cols * h + w) / (2 * w);
    }
    *rows = *rows < 1 ? 1 : *rows;
    *cols = *cols < 1 ? 1 : *cols;
}

static void add_point(struct buf *out, uint32_t cp)
{
    char bytes[4];
    buf_add(out, bytes, unicode_encode(cp, bytes));
}

/* Returns the mean colour of the part of the picture below cell x, y of a grid of w x h. */
static uint32_t mean(const struct thumb *t, int x, int y, int w, int h)
{
    const int x0 = x * t->w / w, y0 = y * t->h / h;
    const int x1 = (x + 1) * t->w / w > x0 ? (x + 1) * t->w / w : x0 + 1, y1 = (y + 1) * t->h / h > y0 ? (y + 1) * t->h / h : y0 + 1;
    uint32_t sum[3] = {0}, n = 0, color = 0;
    for (int i = y0; i < y1; i++)
        for (int j = x0; j < x1; j++, n++)
            for (int c = 0; c < 3; c++)
                sum[c] += t->rgb[((size_t)i * (size_t)t->w + (size_t)j) * 3 + (size_t)c];
    for (int c = 0; c < 3; c++)
        color = color << 8 | (sum[c] + n / 2) / n;
    return color;
}

/* ---- half blocks ---- */

/* Returns the nearest colour of the cube of 6 x 6 x 6 in the palette of 256. */
static int in_cube(uint32_t rgb)
{
    static const int levels[] = {0, 95, 135, 175, 215, 255};
    int number = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        const int v = (int)(rgb >> shift & 255);
        int i = 0;
        while (i < 5 && v > (levels[i] + levels[i + 1]) / 2)
            i++;
        number = number * 6 + i;
    }
    return 16 + number;
}

static void add_color(struct buf *out, int which, uint32_t color, bool rgb)
{
    if (rgb)
        buf_addf(out, "\033[%d;2;%u;%u;%um", which, color >> 16, color >> 8 & 255, color & 255);
    else
        buf_addf(out, "\033[%d;5;%dm", which, in_cube(color));
}

void graphics_blocks(struct buf *out, const struct thumb *t, const struct strip *s, bool rgb)
{
    uint32_t upper = UINT32_MAX, lower = UINT32_MAX;
    for (int x = 0; x < s->cols; x++) {
        const uint32_t up = mean(t, x, 2 * s->part, s->cols, 2 * s->rows), down = mean(t, x, 2 * s->part + 1, s->cols, 2 * s->rows);
        if (up != upper)
            add_color(out, 38, upper = up, rgb);
        if (down != lower)
            add_color(out, 48, lower = down, rgb);
        buf_adds(out, "\xE2\x96\x80");          /* upper half block */
    }
    buf_adds(out, "\033[m");
}

/* ---- kitty: https://sw.kovidgoyal.net/kitty/graphics-protocol/, Unicode placeholders ---- */

enum { CHUNK = 4096 };                  /* bytes of base64 in a sequence, by the protocol */

/* Appends a sequence, for the terminal around tmux with each ESC twice. */
static void add_sequence(struct buf *out, const char *s, size_t n, bool tmux)
{
    buf_adds(out, tmux ? "\033Ptmux;" : "");
    for (size_t i = 0; i < n; i++) {
        if (tmux && s[i] == '\033')
            buf_addc(out, '\033');
        buf_addc(out, s[i]);
    }
    buf_adds(out, tmux ? "\033\\" : "");
}

void graphics_kitty(struct buf *out, const struct thumb *t, const struct strip *s, int id, bool tmux)
{
    struct buf coded = {0}, one = {0};
    base64_add(&coded, (struct text){t->png.data, t->png.len});
    for (size_t at = 0; at < coded.len; at += CHUNK) {
        const size_t n = coded.len - at < CHUNK ? coded.len - at : CHUNK;
        buf_reset(&one);
        if (!at)
            buf_addf(&one, "\033_Ga=T,U=1,f=100,i=%d,c=%d,r=%d,q=2,m=%d;", id, s->cols, s->rows, n < coded.len);
        else
            buf_addf(&one, "\033_Gm=%d;", at + n < coded.len);
        buf_add(&one, coded.data + at, n);
        buf_adds(&one, "\033\\");
        add_sequence(out, one.data, one.len, tmux);
    }
    buf_free(&one);
    buf_free(&coded);
}

void graphics_kitty_delete(struct buf *out, int id, bool tmux)
{
    struct buf one = {0};
    buf_addf(&one, "\033_Ga=d,d=I,i=%d,q=2\033\\", id);
    add_sequence(out, one.data, one.len, tmux);
    buf_free(&one);
}

void graphics_kitty_row(struct buf *out, const struct strip *s, int id)
{
    static const uint32_t marks[GRAPHICS_MOST_ROWS] = {0x305, 0x30D, 0x30E, 0x310, 0x312, 0x33D, 0x33E, 0x33F};    /* of row and column 0, 1, ... */
    buf_addf(out, "\033[38;5;%dm", id);
    for (int x = 0; x < s->cols; x++) {
        add_point(out, 0x10EEEE);
        if (!x) {                       /* those after it continue the row */
            add_point(out, marks[s->part]);
            add_point(out, marks[0]);
        }
    }
    buf_adds(out, "\033[m");
}

/* ---- at a place ---- */

void graphics_iterm(struct buf *out, const struct thumb *t, const struct strip *s)
{
    buf_addf(out, "\033]1337;File=inline=1;size=%zu;width=%d;height=%d;preserveAspectRatio=0;doNotMoveCursor=1:", t->png.len, s->cols, s->rows);
    base64_add(out, (struct text){t->png.data, t->png.len});
    buf_addc(out, '\a');
}

/* Appends a run of one sixel. */
static void add_run(struct buf *out, int n, int bits)
{
    if (n > 3)
        buf_addf(out, "!%d%c", n, 63 + bits);
    else
        for (int i = 0; i < n; i++)
            buf_addc(out, (char)(63 + bits));
}

/* Appends six rows of w pixels: each colour that they have, one after the other. */
static void add_band(struct buf *out, const uint8_t *pixels, int w, int h)
{
    bool has[216] = {false}, first = true;
    for (int i = 0; i < w * h; i++)
        has[pixels[i]] = true;
    for (int color = 0; color < 216; color++) {
        int run = 0, last = 0;
        if (!has[color])
            continue;
        buf_addf(out, first ? "#%d" : "$#%d", color);
        first = false;
        for (int x = 0; x < w; x++) {
            int bits = 0;
            for (int y = 0; y < h; y++)
                bits |= (pixels[y * w + x] == color) << y;
            if (x && bits != last) {
                add_run(out, run, last);
                run = 0;
            }
            last = bits;
            run++;
        }
        add_run(out, run, last);
    }
    buf_addc(out, '-');
}

void graphics_sixel(struct buf *out, const struct thumb *t, const struct strip *s, int n, int cell_w, int cell_h)
{
    enum { BAND = 6, WIDEST = GRAPHICS_MOST_COLS * 64 };
    uint8_t pixels[BAND * WIDEST];
    cell_w = cell_w > 64 ? 64 : cell_w;
    const int w = s->cols * cell_w, all = s->rows * cell_h, from = s->part * cell_h;
    const int h = n * cell_h / BAND * BAND;             /* no band reaches below its last cell */
    buf_addf(out, "\033P0;1;0q\"1;1;%d;%d", w, h);
    for (int color = 0; color < 216; color++)
        buf_addf(out, "#%d;2;%d;%d;%d", color, color / 36 * 20, color / 6 % 6 * 20, color % 6 * 20);
    for (int y = 0; y < h; y += BAND) {
        for (int i = 0; i < BAND * w; i++) {
            const uint32_t c = mean(t, i % w, from + y + i / w, w, all);
            pixels[i] = (uint8_t)(((c >> 16) * 5 + 127) / 255 * 36 + ((c >> 8 & 255) * 5 + 127) / 255 * 6 + ((c & 255) * 5 + 127) / 255);
        }
        add_band(out, pixels, w, BAND);
    }
    buf_adds(out, "\033\\");
}
