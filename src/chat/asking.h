/* What a turn asks of the responder: the conversation as it is sent, how tokens are picked, what the answer begins with. */
#ifndef Q35_CHAT_ASKING_H
#define Q35_CHAT_ASKING_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "responder/responder.h"
#include "chat/turn.h"

/* A new answer begins with what the option `begin` says, if anything.  False with the reason: it cannot. */
bool asking_begins(struct chat *c, struct err *e);
bool asking_thinks(const struct chat *c);
/* The first request of a turn draws its seed. */
struct sampling asking_sampling(struct chat *c);
/* All but the sampling; messages in `mem`. */
struct request asking_request(const struct chat *c, enum turn_kind kind, struct arena *mem);
/* Tokens that the prompt of such a turn would have; negative with the reason: it is refused. */
int  asking_count(struct chat *c, enum turn_kind kind, struct err *e);

#endif
