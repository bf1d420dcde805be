/* Formulas in TeX, as models write them, turned into text that a terminal can show: \frac{a}{b} becomes a/b, x^2 becomes x², \alpha becomes α. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

/* Delimiters of a formula on lines of its own: $$, \[, and the environments that LaTeX allows in running text. */
enum { FORMULA_N_DISPLAYS = 8 };
extern const struct formula_display { const char *open, *close; } formula_displays[FORMULA_N_DISPLAYS];

/* Appends the formula s[0..n), its delimiters ($, \( or those of a display) included.  Only a display may become several lines, with \n between
 * them.  False, with `out` unchanged: the formula cannot be shown this way, or is not well formed. */
bool formula_text(const char *s, size_t n, struct buf *out);
