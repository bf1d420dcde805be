/* The text of a draft: its bytes, its chips, all changes for undo and redo, and the rows that it fills on the screen.  The lower half of editor.c,
 * without keys.  The text is valid UTF-8 whose only control characters are \n, \t and those of chips.  A chip is CHIP_BEGIN, a number in digits,
 * CHIP_END; no other text looks like that, and no grapheme cluster reaches across its ends.  A unit is what the cursor steps over at once: a glyph
 * or a chip. */
#ifndef Q35_UI_TUI_DRAFT_H
#define Q35_UI_TUI_DRAFT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum { CHIP_BEGIN = 1, CHIP_END = 2 };

struct chip {
    char *label;                /* text on the screen */
    struct buf text;            /* text in the message */
};

/* Adjoining changes of the same kind, of the first three kinds, are one step for undo. */
enum step { STEP_TYPED, STEP_BACKSPACE, STEP_DELETE, STEP_OTHER };

struct edited { size_t at, removed, added; };

struct draft {
    struct buf text;
    size_t cursor;              /* between two units */
    struct chip *chips;
    int n_chips, cap_chips;
    struct change *changes;     /* the first n_done made the present text; the others were undone */
    int n_changes, n_done, cap_changes;
};

void draft_free(struct draft *d);
void draft_forget(struct draft *d);                     /* makes it empty, without undo; chips stay */
void draft_forget_chips(struct draft *d);               /* frees the chips; none may be left in the text, the changes or elsewhere */

/* Replaces bytes at .. at+removed by `text` (see draft_clean()); the cursor goes after it.  joins: makes one step for undo with the change before, if
 * both fit together. */
struct edited draft_replace(struct draft *d, size_t at, size_t removed, const char *text, size_t n, enum step step, bool joins);
/* Moves the cursor after draft_replace(), so that redo moves it there too. */
void draft_place_cursor(struct draft *d, size_t cursor);
bool draft_undo(struct draft *d, struct edited *what);
bool draft_redo(struct draft *d, struct edited *what);

/* Appends any text in the form that a draft may hold: CR and CRLF become \n, other controls are removed, invalid bytes become U+FFFD. */
void draft_clean(struct buf *out, const char *text, size_t n);
/* Makes a chip and appends to `out` the bytes that stand for it in a text. */
void draft_add_chip(struct draft *d, const char *label, const char *text, size_t n, struct buf *out);
const struct chip *draft_chip(const struct draft *d, size_t at);        /* the chip that begins at this byte, or NULL */
/* Bytes and columns of the unit at byte `at`, before the end; \n has 0 columns, \t 1. */
size_t draft_unit(const struct draft *d, size_t at, int *columns);
void draft_expand(const struct draft *d, struct buf *out);              /* appends the text, with the texts of chips */

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* The rows of a draft on the screen.  Rows break after blanks, around wide glyphs and chips, else anywhere; one column at the right stays free for
 * the cursor.  An edit lays out only the rows that it moves, at most some hundred; the row after these may then be short until the draft is laid
 * out for another width. */

struct rows {
    size_t *start;              /* [n] byte of the draft's text where each row begins; n >= 1 */
    int n, cap;
    int width;                  /* columns of a row */
};

void rows_free(struct rows *r);
void rows_width(struct rows *r, const struct draft *d, int width);      /* >= 1; the first call makes the rows */
void rows_edit(struct rows *r, const struct draft *d, struct edited e); /* updates the rows after an edit of the draft */

int    rows_find(const struct rows *r, size_t at);      /* the row of a cursor before byte `at` */
size_t rows_end(const struct rows *r, const struct draft *d, int row);
/* rows_column(): the column of byte `at` of a row.  rows_place(): the last byte of a row whose column is at most `column`. */
int    rows_column(const struct rows *r, const struct draft *d, int row, size_t at);
size_t rows_place(const struct rows *r, const struct draft *d, int row, int column);
/* Columns of the unit at byte `at`, which begins in `column`; *n: its bytes. */
int    rows_step(const struct rows *r, const struct draft *d, size_t at, int column, size_t *n);
/* rows_unit_before(): the first byte of the unit before `at`; rows_unit_end(): the end of the unit at `at`. */
size_t rows_unit_before(const struct rows *r, const struct draft *d, size_t at);
size_t rows_unit_end(const struct rows *r, const struct draft *d, size_t at);

#endif
