/* Runs another program in the terminal and waits for it.  The caller calls term_leave() before and term_enter() afterwards.  Ctrl-C in between
 * goes to the other program alone. */
#ifndef Q35_UI_TUI_HANDOFF_H
#define Q35_UI_TUI_HANDOFF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* Edits the draft in $VISUAL, $EDITOR, vi or nano, by a file in $XDG_RUNTIME_DIR or /tmp that only the user can read.  The shell expands the
 * variable, so "emacs -nw" works.  False: the editor failed, or its file cannot be read; then `edited` is unchanged, and if the file has changed it
 * stays, and `e` says where. */
bool handoff_edit(const char *draft, struct buf *edited, struct err *e);
/* Shows a text in $PAGER or less, without its control characters. */
bool handoff_page(const char *text, size_t n, struct err *e);

#endif
