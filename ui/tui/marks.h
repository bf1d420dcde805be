/* Places of the transcript that have a letter, and the one where one was before the last jump.  Plain value, valid as {0}. */
#ifndef Q35_UI_TUI_MARKS_H
#define Q35_UI_TUI_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "ui/tui/pane.h"

enum { N_MARKS = 27 };                  /* a to z, and where one was before the last jump */
enum mark_wait { MARK_NONE, MARK_SETS, MARK_GOES };

struct marks {
    enum mark_wait waits;               /* what the letter that comes next does */
    struct pane_place at[N_MARKS];
    bool set[N_MARKS];
};

/* A letter for a mark: sets it or goes there, and says in `told` what it did.  False: none was waited for. */
bool marks_take(struct marks *m, struct pane *p, uint32_t code, struct buf *told);

#endif
