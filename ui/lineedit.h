/* Lines that are typed at a plain terminal, edited by libedit or, where libedit cannot be used, by the terminal.  While a line is typed the chat
 * continues: its events are shown above the line, and the typed text is the chat's draft. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "option/options.h"
#include "ui/turn.h"

struct lineedit;

struct lineedit *lineedit_open(struct turn *t, const struct options *o);
void lineedit_close(struct lineedit *l);
bool lineedit_edits(const struct lineedit *l);          /* true if libedit edits, not the terminal */

/* Adds one line without its end to `out`.  False at Ctrl-C, Ctrl-D or the end of the terminal. */
bool lineedit_line(struct lineedit *l, const char *prompt, struct buf *out);
/* The same for a question whose answer decides something: only typed keys count.  A line with a pasted key, and keys within half a second after a
 * paste, are dropped; then `out` stays empty and a sentence is shown. */
bool lineedit_answer(struct lineedit *l, const char *prompt, struct buf *out);
/* A message: a line, lines that end with a backslash, lines between two """, or a paste.  False as above. */
bool lineedit_message(struct lineedit *l, struct buf *out);
bool lineedit_interrupted(const struct lineedit *l);    /* by Ctrl-C, while the newest line was typed */
/* True if the server has several models and nothing of the next message was typed yet, so that the user can be asked for one. */
bool lineedit_asks_model(const struct lineedit *l);
bool lineedit_gone(const struct lineedit *l);           /* the terminal is gone */

/* Adds the text to the history, which Up shows, also in later programs. */
void lineedit_remember(struct lineedit *l, const char *text);
/* Puts the text into the next line, if libedit edits. */
void lineedit_put(struct lineedit *l, const struct buf *text);
/* Discards keys that were typed ahead. */
void lineedit_forget(struct lineedit *l);

/* While an answer runs, keys are not echoed and wait for the next line. */
void lineedit_rest(struct lineedit *l);
void lineedit_resume(struct lineedit *l);
