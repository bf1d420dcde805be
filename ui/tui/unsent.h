/* Text that was typed but not sent when the program ended, in a file next to the conversation's that only the user can read. */
#ifndef Q35_UI_TUI_UNSENT_H
#define Q35_UI_TUI_UNSENT_H

#include "base/buf.h"
#include "ui/tui/queue.h"

/* Writes draft and queue.  session: path of the conversation's file.  If there is no text the file is removed.  synced: waits for the disk.  False:
 * the file could not be written. */
bool unsent_save(const char *session, const char *draft, const struct queue *q, bool synced);
/* Appends the draft, and adds the messages to `q`.  Without a file nothing happens.  The file stays until the next unsent_save(), so that nothing is
 * lost if the program ends before. */
void unsent_load(const char *session, struct buf *draft, struct queue *q);

#endif
