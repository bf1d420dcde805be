/* The draft of a message: text, cursor, undo, kill ring.  Knows graphemes and no terminal.  Folded pastes and attachments are
 * chips: one unit for the cursor, whole in the text that is sent. */
#ifndef Q35_UI_TUI_EDITOR_H
#define Q35_UI_TUI_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "ui/tui/cells.h"

struct editor;

struct editor *editor_open(void);
void editor_close(struct editor *e);

/* What an action does to the text; all but the moves can be undone. */
enum edit {
    EDIT_LEFT, EDIT_RIGHT, EDIT_UP, EDIT_DOWN,          /* up and down by what is shown; false at the first or last row */
    EDIT_WORD_LEFT, EDIT_WORD_RIGHT, EDIT_LINE_START, EDIT_LINE_END, EDIT_START, EDIT_END,
    EDIT_BACKSPACE, EDIT_DELETE, EDIT_KILL_WORD_LEFT, EDIT_KILL_BIG_WORD_LEFT, EDIT_KILL_WORD_RIGHT, EDIT_KILL_LINE_END, EDIT_KILL_LINE_START,
    EDIT_YANK, EDIT_YANK_POP, EDIT_TRANSPOSE, EDIT_NEWLINE, EDIT_UNDO, EDIT_REDO, EDIT_UNFOLD,
};
bool editor_do(struct editor *e, enum edit what);       /* false: nothing to do */
void editor_insert(struct editor *e, const char *text, size_t n);
/* A whole paste; long ones become a chip "[paste 1: 214 lines]". */
void editor_paste(struct editor *e, const char *text, size_t n);
void editor_set(struct editor *e, const char *text);    /* replaces the draft; can be undone */
void editor_reset(struct editor *e);                    /* an empty draft without a past */
bool editor_empty(const struct editor *e);
void editor_text(const struct editor *e, struct buf *out);              /* chips in full */
/* The word before the cursor, back to a blank, for completion; its start is what editor_replace_word() replaces. */
void editor_word(const struct editor *e, struct buf *out);
void editor_replace_word(struct editor *e, const char *with);
bool editor_at_start(const struct editor *e);           /* the word before the cursor is the first of the draft */

/* Rows that the draft takes in `columns`, of which the first two hold the sign ("> "). */
int  editor_rows(struct editor *e, int columns);
/* Draws as many rows as the area has, those around the cursor, and places the screen's cursor. */
void editor_draw(struct editor *e, struct cells *c, struct area a, const char *sign);

#endif
