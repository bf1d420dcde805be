/* Breaks text at words while it arrives, for a terminal of some columns.  The only change is a newline in place of the blanks
 * where a line breaks.  A word longer than a line, code between ``` and rows of tables stay as they are.  Plain value, valid as {0}; what the cursor's column is follows from the text. */
#ifndef Q35_BASE_WRAP_H
#define Q35_BASE_WRAP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct wrap {
    int  column;                /* where the cursor is */
    bool fenced;                /* between two ``` */
    bool verbatim;              /* this line stays as it is */
    bool begun;                 /* this line has a word already */
    bool inside;                /* the beginning of the word is given out already */
    struct buf blanks, word;    /* not yet given out: where they go depends on what follows */
};

/* Appends to `out` what can be decided; `columns` may change from call to call, 0 breaks nothing. */
void wrap_push(struct wrap *w, const char *text, size_t n, int columns, struct buf *out);
void wrap_flush(struct wrap *w, int columns, struct buf *out);          /* what was held back */
void wrap_reset(struct wrap *w);                                        /* the cursor is at the left, nothing is held */
void wrap_free(struct wrap *w);

#endif
