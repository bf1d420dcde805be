/* The look of text: a style by meaning (config/theme.def gives every theme's colours for it) and marks on top. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum style {
#define STYLE(name, ...) STYLE_##name,
#include "config/theme.def"
    N_STYLES
};

enum { LOOK_BOLD = 1, LOOK_ITALIC = 2, LOOK_UNDERLINE = 4, LOOK_REVERSE = 8, LOOK_DIM = 16, LOOK_STRIKE = 32,
       LOOK_PICTURE = 64 };              /* a picture lies over the cell (struct strip of ui/tui/graphics.h): the terminal needs no attribute */

struct look { uint8_t style, marks; };

/* A style in a theme: colours 0..255, or 0x1000000 | RGB; -1: the terminal's own.  Its marks are added to those of the look. */
struct theme_style { int32_t fg, bg; uint8_t marks; };
struct theme { const char *name, *help; struct theme_style style[N_STYLES]; };

int theme_find(const char *name);                       /* index, or -1 */
const struct theme *theme_at(int i);                    /* 0: the default; NULL after the last one */
const char *style_name(enum style style);               /* "status_warn" */
/* A colour as 0xRRGGBB.  For the first 16, which users may change, those of xterm. */
uint32_t look_rgb(int32_t color);
/* The nearest among the first n of the 256 colours; -1 stays -1. */
int32_t look_nearest(int32_t color, int n);
/* How many colours to use if the terminal has `has`.  option: "always", "never" or "auto".  With "auto" the environment decides: Q35CHAT_COLOR with
 * the same words, then NO_COLOR (not empty) and FORCE_COLOR=0, which both mean none. */
int look_colors(const char *option, int has);
/* Whether a terminal of this type (TERM, may be NULL) understands text alone: no control sequence, no carriage return. */
bool look_is_plain(const char *term);
