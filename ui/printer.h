/* Output on a terminal that is printed on, like paper: markdown on stdout, and lines on stderr about a wait.
 *
 * Markdown: a line that came out stays, so scrollback and recordings are clean, and the
 * only control sequences are those of looks.  Lines of an open paragraph come out as soon as no further text changes them.
 * The lines do not depend on how the text was cut, but for a table whose header fills more than a line and begins with no bar. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "option/options.h"
#include "ui/tui/phase.h"

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

/* --- lines about a wait -------------------------------------------------------------------------------------------- */

/* Lines on stderr while there is nothing else to show: loading, reading, thinking.  Only long waits are shown, as one line that is rewritten, or,
 * where lines can only be added, as a line now and then. */

struct waiting {
    bool tells;                         /* stderr is a terminal */
    bool adds;                          /* lines are added, none is rewritten */
    struct phase phase;
    enum phase_kind kind;               /* the current phase, */
    int64_t since_ms, told_ms;          /* its start, and when it was shown last; told_ms 0: not yet */
    bool shown;                         /* a line is shown that will be rewritten */
};

/* Begins when the chat is open: the model loads. */
void waiting_open(struct waiting *w, const struct options *o);
void waiting_turn(struct waiting *w);
/* Follows an event.  With `tell` it may write: the cursor is at the start of a line. */
void waiting_event(struct waiting *w, const struct chat_event *ev, bool tell);
void waiting_clear(struct waiting *w);  /* removes the line, before other output */

/* Follow an event; append the line that is due now (false: none). */
void waiting_follow(struct waiting *w, const struct chat_event *ev, int64_t ms);
bool waiting_line(struct waiting *w, int64_t ms, struct buf *line);
