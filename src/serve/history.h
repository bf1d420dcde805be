/* Reads the messages and tools of a request to /v1/chat/completions, as clients of many kinds send them, into what the chat template takes.
 *
 * A client sends its whole history with every request and cannot mend it: what a model wrote, arguments that are not JSON among it, is taken as text.
 * Messages of the roles system and developer at the beginning become one; a later one becomes a user message in <system-reminder> at its place.
 * It, and a user message after the result of a call, begins no new turn: the reasoning before it stays.
 * Each message is rendered in the same way whatever follows it, so that the next request's prompt begins with this one's. */
#pragma once

#include "base/err.h"
#include "base/memory.h"
#include "responder/responder.h"
#include "text/pyjson.h"

/* Checks the names of a tool and of its parameters, which come back from the tags of a call.  place: of the tool, for the refusal. */
bool history_tool(const char *place, const struct pyjson *name, const struct pyjson *parameters, struct err *e);

/* Reads `messages` and `tools` of the body into the request, in `mem`.  False with a sentence that has the message by its number, the tool as
 * tools[0]. */
bool history_read(struct request *r, const struct pyjson *top, struct arena *mem, struct err *e);
