/* The responder of a chat that also serves other programs over a unix socket.  The person at the chat goes first: if only one answer at a time can be
 * under way, an answer for another program is paused, and continues later after its last token.  All happens within the chat's drain(). */
#pragma once

#include "base/err.h"
#include "option/options.h"
#include "responder/responder.h"

/* Writes a line to stderr and leaves the terminal: from then on this process runs without one.  False: that is not possible. */
typedef bool host_leave(const char *said);
/* Owns the responders from now on: the person's, and n guests with the same engine for other programs (responder/local.h).  If it is closed
 * while other programs use it, it leaves the terminal and serves them until they are done.  If it cannot leave, it finishes the answers
 * under way for them first, after a line on stderr.  NULL with the reason when the socket cannot be used; then it closes the guests,
 * and the caller keeps `person`. */
struct responder *host_open(struct responder *person, struct responder *const *guests, int n, const char *socket, const struct options *o,
                            host_leave *leave, struct err *e);
