/* What was typed and not sent when the program ended: a file beside the conversation's, for the owner only. */
#ifndef Q35_UI_TUI_UNSENT_H
#define Q35_UI_TUI_UNSENT_H

#include "base/buf.h"
#include "ui/tui/queue.h"

/* `session` is the path of the conversation.  Where there is nothing to keep, there will be no file.  synced: waits for the disk.  False: it
 * could not be written. */
bool unsent_save(const char *session, const char *draft, const struct queue *q, bool synced);
/* The draft is appended, the queue's messages join `q`.  Without a file nothing happens.  The file stays until it is saved again:
 * nothing is lost if the program ends before. */
void unsent_load(const char *session, struct buf *draft, struct queue *q);

#endif
