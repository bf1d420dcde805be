#include "ui/tui/damage.h"

#include <string.h>

#include "base/unicode.h"

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

/* Whether terminals may disagree about the columns of a glyph: an emoji, a flag, a vowel sign in a column of its own.  They do
 * agree about the wide characters of East Asia and about marks over others. */
static bool is_risky(const struct glyph *g)
{
    uint32_t cp;
    if (g->n < 2)
        return false;
    bool several = unicode_decode(g->text, g->n, &cp, NULL) < g->n;
    return (cp >= 0x1F000 && cp < 0x20000) || (g->width == 2 && (several || cp < 0x2E80));
}

bool damage_spreads(const struct cell *shown, const struct cell *want, int cols)
{
    bool risky = false;
    for (int i = 0; i < cols; i++) {
        risky = risky || is_risky(&shown[i].glyph) || is_risky(&want[i].glyph);
        if (risky && !same(&shown[i], &want[i]))
            return true;
    }
    return false;
}

int damage_moved(const struct cells *shown, const struct cells *want, int r)
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
