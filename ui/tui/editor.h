/* The draft of a message: text, cursor, undo, kill ring.  Knows graphemes and no terminal.  Folded pastes and attachments are
 * chips: one unit for the cursor, whole in the text that is sent.
 *
 * Text may come from anywhere: control characters but \n and \t are kept out, CR and CRLF become \n, ill-formed bytes U+FFFD.
 * Undo has no limit; a run of typing, of Backspace or of Delete is one step.  In a draft of a megabyte a key takes 0.1 ms; 5 ms
 * at worst, when all of it is a single word. */
#ifndef Q35_UI_TUI_EDITOR_H
#define Q35_UI_TUI_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "ui/tui/cells.h"

struct editor;

struct editor *editor_open(void);
void editor_close(struct editor *e);

/* What an action does to the text; all but the moves can be undone.  Words are letters, digits and marks, as in emacs; big words
 * end at blanks.  Successive kills are one entry of the kill ring. */
enum edit {
    EDIT_LEFT, EDIT_RIGHT, EDIT_UP, EDIT_DOWN,          /* up and down by what is shown; false at the first or last row */
    EDIT_WORD_LEFT, EDIT_WORD_RIGHT, EDIT_LINE_START, EDIT_LINE_END, EDIT_START, EDIT_END,
    EDIT_BACKSPACE, EDIT_DELETE,
    EDIT_KILL_WORD_LEFT, EDIT_KILL_BIG_WORD_LEFT, EDIT_KILL_WORD_RIGHT, EDIT_KILL_LINE_END, EDIT_KILL_LINE_START,
    EDIT_YANK, EDIT_YANK_POP,                           /* pop: only after a yank, puts the kill before in its place */
    EDIT_TRANSPOSE, EDIT_NEWLINE, EDIT_UNDO, EDIT_REDO,
    EDIT_UNFOLD,                                        /* the chip at the cursor, else the nearest before it, becomes text */
};
bool editor_do(struct editor *e, enum edit what);       /* false: nothing to do */
void editor_insert(struct editor *e, const char *text, size_t n);       /* as if typed */
/* A whole paste; above 20 lines or 2 kB it becomes a chip "[paste 1: 214 lines, 6.1 kB]". */
void editor_paste(struct editor *e, const char *text, size_t n);
void editor_chip(struct editor *e, const char *label, const char *text, size_t n);
/* Replaces the draft; can be undone.  The same text keeps its chips, and the last draft with chips that was reset gets them back. */
void editor_set(struct editor *e, const char *text);
void editor_reset(struct editor *e);                    /* an empty draft without a past; the kill ring stays */
bool editor_empty(const struct editor *e);
void editor_text(const struct editor *e, struct buf *out);              /* chips in full */
/* For completion: what stands before the cursor, chips as U+FFFC; the word of it that ends there, back to a blank or a chip. */
void editor_before(const struct editor *e, struct buf *out);
void editor_word(const struct editor *e, struct buf *out);
void editor_replace_before(struct editor *e, size_t n, const char *with);       /* the last n bytes before it, but no chip */

/* Rows that the draft takes in `columns`, of which the first two hold the sign ("> ").  Ask for the columns that are drawn: others
 * lay out the whole draft again. */
int  editor_rows(struct editor *e, int columns);
/* Draws as many rows as the area has, those around the cursor, and places the screen's cursor.  '^' and 'v' in the place of the
 * sign say that more is above or below. */
void editor_draw(struct editor *e, struct cells *c, struct area a, const char *sign);
/* The cursor goes to a place of the area that was drawn last, from 0; what is outside counts as the nearest place. */
void editor_click(struct editor *e, int row, int col);

#endif
