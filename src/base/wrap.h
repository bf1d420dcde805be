/* Breaks text at words while it arrives, for a terminal of a given width.  The only change: where a line breaks, a newline
 * replaces the blanks.  A word longer than a line, code between ``` and table rows stay as they are.  Plain value, valid as
 * {0}; the cursor's column is derived from the text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct wrap {
    int  column;                /* of the cursor */
    bool fenced;                /* between two ``` */
    bool verbatim;              /* this line stays as it is */
    bool has_word;                 /* the line has a word */
    bool inside;                /* the beginning of the word was already written */
    struct buf blanks, word;    /* not written yet: what follows decides where they go */
};

/* Appends to `out` the text whose place is decided.  `columns` may change from call to call; 0: break nothing. */
void wrap_push(struct wrap *w, const char *text, size_t n, int columns, struct buf *out);
void wrap_flush(struct wrap *w, int columns, struct buf *out);          /* writes what was held back */
void wrap_reset(struct wrap *w);                                        /* cursor at the left, nothing held back */
void wrap_free(struct wrap *w);
