/* The responder of a chat that answers other programs, too, over a unix socket.  The person at the chat goes first: where only one answer can be
 * under way, one for another program is paused, and goes on behind its last token.  Everything happens when the chat drains its responder. */
#ifndef Q35_SERVE_HOST_H
#define Q35_SERVE_HOST_H

#include "base/err.h"
#include "chat/options.h"
#include "chat/responder.h"

/* Writes a line to stderr and leaves the terminal: from then on this process runs without it.  False: that is not possible. */
typedef bool host_leave(const char *said);
/* Takes the responders: the person's, and n guests with the same engine for the others (chat/local.h).  When it is closed while others use it, it
 * leaves the terminal and goes on until they are done.  Where it cannot leave, answers for others that are under way come to their end first, and a
 * line on stderr says so.  NULL with the reason: the socket cannot be used; then the guests are closed, and `person` stays the caller's. */
struct responder *host_open(struct responder *person, struct responder *const *guests, int n, const char *socket, const struct options *o,
                            host_leave *leave, struct err *e);

#endif
