/* Lines that are typed at a plain terminal, edited by libedit or, where that cannot be, by the terminal.  While a line is typed the chat goes on:
 * what happens is shown above it, and what is typed is the chat's draft. */
#ifndef Q35_UI_LINEEDIT_H
#define Q35_UI_LINEEDIT_H

#include <stdbool.h>

#include "base/buf.h"
#include "option/options.h"
#include "ui/turn.h"

struct lineedit;

struct lineedit *lineedit_open(struct turn *t, const struct options *o);
void lineedit_close(struct lineedit *l);
bool lineedit_edits(const struct lineedit *l);          /* it is libedit */

/* Adds one line without its end to `out`.  False at Ctrl-C, Ctrl-D or the end of the terminal. */
bool lineedit_line(struct lineedit *l, const char *prompt, struct buf *out);
/* The same for a question of which the answer decides something: only keys that are typed count.  A line with a key that was pasted, and what
 * follows a paste within half a second, is dropped; then `out` stays empty and a sentence says so. */
bool lineedit_answer(struct lineedit *l, const char *prompt, struct buf *out);
/* A message: a line, lines that end with a backslash, lines between two """, or a paste.  False as above. */
bool lineedit_message(struct lineedit *l, struct buf *out);
bool lineedit_interrupted(const struct lineedit *l);    /* by Ctrl-C, while the newest line was typed */
/* Before anything was typed of the newest message the server told several models: which one it is can be asked now. */
bool lineedit_asks_model(const struct lineedit *l);
bool lineedit_gone(const struct lineedit *l);           /* there is no terminal any more */

/* Into what Up brings back, also in later programs. */
void lineedit_remember(struct lineedit *l, const char *text);
/* The next line begins with that, if it is libedit that edits. */
void lineedit_put(struct lineedit *l, const struct buf *text);
/* Discards keys that were typed ahead. */
void lineedit_forget(struct lineedit *l);

/* While an answer runs, what is typed is not echoed and waits for the next line. */
void lineedit_rest(struct lineedit *l);
void lineedit_resume(struct lineedit *l);

#endif
