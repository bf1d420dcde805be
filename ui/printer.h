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
    int  n_printed;                     /* lines printed so far */
    int  n_final;                       /* lines among them that can no longer change */
    struct buf early;                   /* text of the lines that can still change */
};

/* True if answers are printed like this: stdout is a terminal that can show it, and the options do not ask for plain text. */
bool printer_usable(const struct options *o);
void printer_open(struct printer *p, const struct options *o);
void printer_free(struct printer *p);
/* Prepares for a terminal with so many columns; colors: as look_colors() returns, below 0: no looks at all.  width: columns of running text, 0:
 * all. */
void printer_set(struct printer *p, int columns, int width, const char *theme, int colors);
void printer_push(struct printer *p, const char *text, size_t n, struct buf *out);     /* `out` gets whole lines */
void printer_end(struct printer *p, struct buf *out);           /* appends the rest; the next push begins another text */

#endif
