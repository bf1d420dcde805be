/* Hands the terminal to another program and waits for it.  The caller has left the terminal (term_leave()) and takes it again.
 * Ctrl-C meanwhile is the other program's alone. */
#ifndef Q35_UI_TUI_HANDOFF_H
#define Q35_UI_TUI_HANDOFF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* The draft in $VISUAL, $EDITOR, vi or nano, by way of a file for the owner only in $XDG_RUNTIME_DIR or /tmp.  The shell reads
 * the variable, so "emacs -nw" works.  False, with `edited` as it was: the editor failed, or what it left cannot be read; then
 * the file stays if it holds anything new, and `e` says where. */
bool handoff_edit(const char *draft, struct buf *edited, struct err *e);
/* A text in $PAGER or less, made safe. */
bool handoff_page(const char *text, size_t n, struct err *e);

#endif
