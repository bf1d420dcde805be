/* The editor of a message's draft: text, cursor, undo, kill ring.  Knows graphemes and no terminal.  Folded pastes and attachments are chips: one
 * unit for the cursor, their whole text in the message that is sent.
 *
 * Takes any text: removes control characters other than \n and \t, makes \n of CR and CRLF, U+FFFD of ill-formed bytes.  Undo has no limit; a run of
 * typing, of Backspace or of Delete is one step.  In a draft of a megabyte a key takes 0.1 ms, 5 ms at worst, if the draft is a single word. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "ui/tui/cells.h"

struct editor;

struct editor *editor_open(void);
void editor_close(struct editor *e);

/* Edits; all except moves can be undone.  Words are letters, digits and marks, as in emacs; big words end at blanks.  Successive kills make one entry
 * of the kill ring. */
enum edit {
    EDIT_LEFT, EDIT_RIGHT, EDIT_UP, EDIT_DOWN,          /* up and down by rows of the screen; false at the first or last row */
    EDIT_WORD_LEFT, EDIT_WORD_RIGHT, EDIT_LINE_START, EDIT_LINE_END, EDIT_START, EDIT_END,
    EDIT_BACKSPACE, EDIT_DELETE,
    EDIT_KILL_WORD_LEFT, EDIT_KILL_BIG_WORD_LEFT, EDIT_KILL_WORD_RIGHT, EDIT_KILL_LINE_END, EDIT_KILL_LINE_START,
    EDIT_YANK, EDIT_YANK_POP,                           /* pop: only after a yank, replaces it by the kill before */
    EDIT_TRANSPOSE, EDIT_NEWLINE, EDIT_UNDO, EDIT_REDO,
    EDIT_UNFOLD,                                        /* the chip at the cursor, else the nearest before it, becomes text */
};
bool editor_do(struct editor *e, enum edit what);       /* false: nothing to do */
void editor_insert(struct editor *e, const char *text, size_t n);       /* inserts text as if typed */
/* Inserts a whole paste; above 20 lines or 2 kB it becomes a chip "[paste 1: 214 lines, 6.1 kB]". */
void editor_paste(struct editor *e, const char *text, size_t n);
void editor_chip(struct editor *e, const char *label, const char *text, size_t n);
/* Replaces the draft; can be undone.  If the text is equal to the draft, or to the last draft that was reset, its chips stay or come back. */
void editor_set(struct editor *e, const char *text);
void editor_reset(struct editor *e);                    /* an empty draft without undo; the kill ring stays */
bool editor_empty(const struct editor *e);
void editor_text(const struct editor *e, struct buf *out);              /* appends the draft, with the texts of chips */
/* For completion.  Appends the text before the cursor, with chips as U+FFFC; the word before the cursor, back to a blank or a chip. */
void editor_before(const struct editor *e, struct buf *out);
void editor_word(const struct editor *e, struct buf *out);
void editor_replace_before(struct editor *e, size_t n, const char *with);       /* replaces the last n bytes before the cursor; no chip among them */

/* The rows of the draft in `columns` columns, of which the first two hold the sign ("> ").  Asking for other columns than are drawn lays out the
 * whole draft again. */
int  editor_rows(struct editor *e, int columns);
/* Draws the rows around the cursor, as many as the area has, and places the screen's cursor.  '^' and 'v' in place of the sign mean that there are
 * more rows above or below. */
void editor_draw(struct editor *e, struct cells *c, struct area a, const char *sign);
/* Moves the cursor to a cell of the area that was drawn last (rows and columns from 0), or to the nearest place if the cell is outside the text. */
void editor_click(struct editor *e, int row, int col);
