/* The responder of a chat that answers other programs, too, over a unix socket.  The person at the chat goes first: an answer for another program stops
 * for hers, and goes on behind its last token.  Everything happens where the chat drains its responder. */
#ifndef Q35_SERVE_HOST_H
#define Q35_SERVE_HOST_H

#include "base/err.h"
#include "chat/options.h"
#include "chat/responder.h"

/* Takes both responders: that of the person, and one with the same engine for the others (chat/local.h).  When it is closed, answers for others
 * that are under way come to their end first, and a line on stderr says so.  NULL with the reason: the socket is not to be had; then only
 * `guest` is closed. */
struct responder *host_open(struct responder *person, struct responder *guest, const char *socket, const struct options *o, struct err *e);

#endif
