#include "ui/tui/anchor.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/unicode.h"

enum {
    FIRST = 0xF0000,            /* the first character of a private-use plane, whose last two code points are not characters */
    MOST = 0x7FFF,
    SLOTS = 0x10000,            /* twice MOST, so that searches are short */
    CODE_BYTES = 4,             /* of a placeholder in UTF-8 */
};

void anchors_free(struct anchors *a)
{
    free(a->at);
    free(a->slots);
    *a = (struct anchors){0};
}

void anchors_clear(struct anchors *a)
{
    a->n = 0;
    if (a->slots)
        memset(a->slots, 0, SLOTS * sizeof *a->slots);
}

bool anchors_room(const struct anchors *a, int n)
{
    return a->n + n <= MOST;
}

static uint32_t hash(const struct glyph *g, int col)
{
    uint32_t h = 2166136261u ^ (uint32_t)col;
    for (size_t i = 0; i < g->n; i++)
        h = (h ^ (unsigned char)g->text[i]) * 16777619u;
    return h ^ h >> 16;
}

uint32_t anchor_code(struct anchors *a, const struct glyph *g, int col)
{
    if (!a->at) {
        a->at = memory_alloc(MOST * sizeof *a->at);
        a->slots = memory_zeroed(SLOTS, sizeof *a->slots);
    }
    uint32_t i = hash(g, col) % SLOTS;
    for (; a->slots[i]; i = (i + 1) % SLOTS) {
        const struct anchor *an = &a->at[a->slots[i] - 1];
        if (an->col == col && an->glyph.width == g->width && an->glyph.n == g->n && !memcmp(an->glyph.text, g->text, g->n))
            break;
    }
    if (!a->slots[i]) {
        if (a->n == MOST)
            return 0;
        a->at[a->n++] = (struct anchor){*g, col};
        a->slots[i] = a->n;
    }
    return FIRST + 2 * (uint32_t)(a->slots[i] - 1);
}

/* Moves the cursor to a column of its row, whatever column the terminal believes the cursor to be in. */
static void go_to(int col, const char *(*right)(int n), struct buf *out)
{
    buf_addc(out, '\r');
    if (col)
        buf_adds(out, right(col));
}

/* Returns the number of the placeholder at the beginning of s[0..n), which is odd for a second column; -1: s begins with other text. */
static int placeholder(const struct anchors *a, const char *s, size_t n)
{
    uint32_t cp = 0;
    if (n)
        unicode_decode(s, n, &cp, NULL);
    return cp >= FIRST && cp < FIRST + 2 * (uint32_t)a->n ? (int)(cp - FIRST) : -1;
}

void anchors_expand(const struct anchors *a, const char *s, size_t n, int cols, const char *(*right)(int n), struct buf *out)
{
    for (size_t i = 0; i < n;) {
        int p = placeholder(a, s + i, n - i);
        if (p < 0) {
            const char *next = memchr(s + i + 1, '\xF3', n - i - 1);       /* first byte of a placeholder in UTF-8 */
            size_t plain = next ? (size_t)(next - s) - i : n - i;
            buf_add(out, s + i, plain);
            i += plain;
            continue;
        }
        const struct anchor *an = &a->at[p / 2];
        i += CODE_BYTES;
        if (p % 2 == 0) {
            /* Blanks, then the glyph on top: a terminal with a narrower idea of the glyph shows the rest of the blanks, and one that takes the glyph
             * for a combining mark puts the mark on a blank. */
            buf_add(out, "  ", an->glyph.width);
            go_to(an->col, right, out);
            buf_add(out, an->glyph.text, an->glyph.n);
            if (placeholder(a, s + i, n - i) == p + 1) {
                i += CODE_BYTES;
                p++;
            }
        }
        int after = an->col + 1 + p % 2;
        if (after < cols)                       /* at the edge curses makes no assumption about the cursor */
            go_to(after, right, out);
    }
}
