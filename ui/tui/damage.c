#include "ui/tui/damage.h"

#include <string.h>

enum { LEAST_MOVE = 4 };        /* rows; curses does not let the terminal move fewer */

static bool same(const struct cell *a, const struct cell *b)
{
    return a->glyph.n == b->glyph.n && a->glyph.width == b->glyph.width && a->look.style == b->look.style && a->look.marks == b->look.marks
        && !memcmp(a->glyph.text, b->glyph.text, a->glyph.n);
}

bool damage_none(const struct cell *shown, const struct cell *want, int cols)
{
    for (int i = 0; i < cols; i++)
        if (!same(&shown[i], &want[i]))
            return false;
    return true;
}

bool damage_spreads(const struct cell *shown, const struct cell *want, int cols)
{
    bool disputed = false;
    for (int i = 0; i < cols; i++) {
        disputed = disputed || glyph_disputed(&shown[i].glyph) || glyph_disputed(&want[i].glyph);
        if (disputed && !same(&shown[i], &want[i]))
            return true;
    }
    return false;
}

int damage_scrolled(const struct cells *shown, const struct cells *want, int r)
{
    int best = 0, most = LEAST_MOVE - 1;
    for (int by = 1; by < want->rows - r; by++) {
        int n = 0;
        for (int i = r; i + by < want->rows; i++) {
            const struct cell *new = want->at + (size_t)i * want->cols, *old = shown->at + (size_t)i * want->cols;
            n += damage_none(old + (size_t)by * want->cols, new, want->cols) && !damage_none(old, new, want->cols);
        }
        if (n > most) {
            most = n;
            best = by;
        }
    }
    return best;
}
