/* The last lines of a chat. */
#ifndef Q35_UI_GOODBYE_H
#define Q35_UI_GOODBYE_H

#include "base/buf.h"
#include "chat/chat.h"

/* Appends "resume with: q35chat -r NAME" and a line end; nothing if the conversation is not kept or has no message.  The command line is for a
 * shell: the program as it was started, the options that lead to this model if -r alone does not, words quoted. */
void goodbye_add(const struct chat *c, const struct options *o, struct buf *out);
/* Tries a last time to save a conversation that is not saved.  If a signal ends the program (`ending`, else 0), so that the user cannot choose
 * another place, the conversation goes into a file of HOME or of a directory for temporary files.  Appends to `said` a line for stderr with the
 * place, or the reason why nothing is saved; returns EXIT_FAILED then, else `status`. */
int goodbye_status(struct chat *c, int ending, int status, struct buf *said);

#endif
