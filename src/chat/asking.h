/* The requests of a turn to the responder: messages, sampling, and the beginning of the answer. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/memory.h"
#include "chat/front.h"
#include "responder/responder.h"

struct chat;

const char *chat_asked_aside(const struct chat *c);     /* the question of chat_aside() while its turn is under way, else NULL */

/* --- inside --- */
/* Makes the option `begin`, if it is set, the beginning of a new answer.  False with the reason: an answer cannot begin with it. */
bool asking_begins(struct chat *c, struct err *e);
bool asking_thinks(const struct chat *c);
struct sampling asking_sampling(struct chat *c);        /* draws the seed for the first request of a turn */
/* Makes a request without its sampling; messages in `mem`. */
struct request asking_request(const struct chat *c, enum turn_kind kind, struct arena *mem);
/* Tokens that the prompt of such a turn would have; negative with the reason: it is refused. */
int  asking_count(struct chat *c, enum turn_kind kind, struct err *e);
