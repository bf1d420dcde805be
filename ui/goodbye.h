/* The last lines of a chat. */
#ifndef Q35_UI_GOODBYE_H
#define Q35_UI_GOODBYE_H

#include "base/buf.h"
#include "chat/chat.h"

/* "resume with: q35chat -r NAME", with a line end; nothing if the conversation is not kept or has no message.  The command line is one for a shell:
 * the program as it was started, the options that lead to this model if -r alone does not, words quoted. */
void goodbye_add(const struct chat *c, const struct options *o, struct buf *out);
/* The last attempt to save what is not saved.  Who is ended by a signal (`ending`, or 0) could not choose another place: then it goes
 * into a file of HOME, or of a directory for temporary files.  `said`, a line for stderr, tells where it is; or that it is not saved and
 * why, and the program's status is EXIT_FAILED. */
int goodbye_status(struct chat *c, int ending, int status, struct buf *said);

#endif
