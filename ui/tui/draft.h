/* The text of a draft: its bytes, its chips, and the way back through every change.  The lower half of editor.c: it knows no keys
 * and no rows.
 *
 * The text is valid UTF-8 whose only control characters are \n and \t, and chips: CHIP_BEGIN, a number in digits, CHIP_END.
 * Nothing else can look like one, and no grapheme cluster reaches across its ends.  A unit is what the cursor steps over: a
 * glyph or a chip. */
#ifndef Q35_UI_TUI_DRAFT_H
#define Q35_UI_TUI_DRAFT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum { CHIP_BEGIN = 1, CHIP_END = 2 };

struct chip {
    char *label;                /* what is shown */
    struct buf text;            /* what is sent */
};

/* Changes of one of the first three kinds that meet are one step for undo. */
enum step { STEP_TYPED, STEP_BACKSPACE, STEP_DELETE, STEP_OTHER };

struct edited { size_t at, removed, added; };

struct draft {
    struct buf text;
    size_t cursor;              /* between two units */
    struct chip *chips;
    int n_chips, cap_chips;
    struct change *changes;     /* the first n_done of them led to the text, the others were undone */
    int n_changes, n_done, cap_changes;
};

void draft_free(struct draft *d);
void draft_forget(struct draft *d);                     /* empty and without a past; chips stay */
void draft_forget_chips(struct draft *d);               /* only when neither text nor past nor anybody else has any */

/* Puts `text`, which is clean, in the place of bytes at .. at+removed; the cursor goes behind it.  `joins`: one step with the
 * change before, if they fit. */
struct edited draft_replace(struct draft *d, size_t at, size_t removed, const char *text, size_t n, enum step step, bool joins);
/* The cursor had to move a little after draft_replace(): redo shall bring it there as well. */
void draft_place_cursor(struct draft *d, size_t cursor);
bool draft_undo(struct draft *d, struct edited *what);
bool draft_redo(struct draft *d, struct edited *what);

/* Appends text that may come from anywhere as a draft may hold it: CR and CRLF are \n, other controls go, U+FFFD for bad bytes. */
void draft_clean(struct buf *out, const char *text, size_t n);
/* A new chip; what stands for it in a text is appended to `out`. */
void draft_add_chip(struct draft *d, const char *label, const char *text, size_t n, struct buf *out);
const struct chip *draft_chip(const struct draft *d, size_t at);        /* the one that begins there, or NULL */
/* Bytes and columns of the unit at a place before the end; \n has 0 columns, \t 1. */
size_t draft_unit(const struct draft *d, size_t at, int *columns);
void draft_expand(const struct draft *d, struct buf *out);              /* the text, chips in full */

#endif
