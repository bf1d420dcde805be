/* A terminal's screen: libvterm, and a second look at every sequence that it is sent.
 *
 * What the program may send is a list, so that nothing slips through because libvterm does not know it: the clipboard, colours
 * of the palette, answers that would be typed, a printer.  What is not on the list, or not well formed, is kept as "strange". */
#ifndef TESTS_PTY_GLASS_H
#define TESTS_PTY_GLASS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct glass;

/* `replies` takes what the terminal answers to questions. */
struct glass *glass_open(int rows, int cols, struct buf *replies);
void glass_close(struct glass *g);
void glass_feed(struct glass *g, const char *bytes, size_t n);
void glass_size(struct glass *g, int rows, int cols);
/* A line for each row, without blanks at its end. */
void glass_text(const struct glass *g, struct buf *out);
/* What differs from a terminal that nothing was sent to, in words: "alternate screen, paste".  Empty: nothing does. */
void glass_modes(const struct glass *g, struct buf *out);
const char *glass_title(const struct glass *g);
const char *glass_strange(const struct glass *g);
size_t glass_bytes(const struct glass *g);              /* that it was fed */
int  glass_bells(const struct glass *g);
int  glass_colors(const struct glass *g);               /* colours that were chosen, by number or name */
int  glass_erasures(const struct glass *g);             /* of the whole screen */

#endif
