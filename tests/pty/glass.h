/* A terminal's screen: libvterm, and a second check of every sequence that the program sends.
 *
 * Allowed sequences are on a list, so that nothing passes only because libvterm ignores it: clipboard, palette colours, replies that
 * would be typed, printing.  Sequences that are not on the list or malformed are recorded as "strange". */
#ifndef TESTS_PTY_GLASS_H
#define TESTS_PTY_GLASS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct glass;

/* `replies` receives the terminal's replies to queries. */
struct glass *glass_open(int rows, int cols, struct buf *replies);
void glass_close(struct glass *g);
void glass_feed(struct glass *g, const char *bytes, size_t n);
void glass_size(struct glass *g, int rows, int cols);
/* A line for each row, without blanks at its end. */
void glass_text(const struct glass *g, struct buf *out);
/* The differences from a fresh terminal, in words: "alternate screen, paste".  Empty: none. */
void glass_modes(const struct glass *g, struct buf *out);
const char *glass_title(const struct glass *g);
const char *glass_strange(const struct glass *g);
size_t glass_bytes(const struct glass *g);              /* bytes received */
int  glass_bells(const struct glass *g);
int  glass_colors(const struct glass *g);               /* number of colours set, by number or name */
int  glass_erasures(const struct glass *g);             /* of the whole screen */

#endif
