/* Markdown on a terminal that is printed on, like paper: a line that came out stays, so scrollback and recordings are clean, and the
 * only control sequences are those of looks.  Lines of an open paragraph come out as soon as no further text changes them.
 * The lines do not depend on how the text was cut, but for a table whose header fills more than a line and begins with no bar. */
#ifndef Q35_UI_PRINTER_H
#define Q35_UI_PRINTER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "option/options.h"

struct markdown;

struct printer {                        /* valid as {0} between printer_free() and printer_open() */
    const struct theme *theme;          /* NULL: no looks */
    int  colors;
    int  columns, measure;              /* of the page; of running text on it */
    struct markdown *text;              /* NULL: none is under way */
    int  n_printed;                     /* of its lines; */
    int  n_final;                       /* so many of these are so for good, */
    struct buf early;                   /* and this is what the others say */
};

/* Whether answers are printed so: stdout is a terminal that can be, and nobody wants the plain text. */
bool printer_usable(const struct options *o);
void printer_open(struct printer *p, const struct options *o);
void printer_free(struct printer *p);
/* For a terminal of that many columns; `colors` as look_colors() tells, below 0: no looks at all.  width 0: running text has them all. */
void printer_set(struct printer *p, int columns, int width, const char *theme, int colors);
void printer_push(struct printer *p, const char *text, size_t n, struct buf *out);     /* `out` gets whole lines */
void printer_end(struct printer *p, struct buf *out);           /* the rest; what is pushed next is a text of its own */

#endif
