/* Marks: places of the transcript with a letter, and the place before the last jump.  Plain value, valid as {0}. */
#ifndef Q35_UI_TUI_MARKS_H
#define Q35_UI_TUI_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "ui/tui/pane.h"

enum { N_MARKS = 27 };                  /* a to z, and the place before the last jump */
enum mark_wait { MARK_NONE, MARK_SETS, MARK_GOES };

struct marks {
    enum mark_wait waits;               /* what the next letter does: sets a mark, or goes to it */
    struct pane_place at[N_MARKS];
    bool set[N_MARKS];
};

/* Takes the letter: sets the mark or goes there, and says in `told` what it did.  False: no letter was waited for. */
bool marks_take(struct marks *m, struct pane *p, uint32_t code, struct buf *told);

#endif
