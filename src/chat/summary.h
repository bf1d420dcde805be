/* A summary that the model writes of the conversation, to replace it in later prompts.  The request is the conversation as it is and one more
 * message, which becomes no entry: so the engine reads nothing again, and nothing changes until the user accepts the summary.  It then is an entry
 * like any other: the entries before it stay on the path, and prompts begin with it (chat/sent.h). */
#pragma once

#include <stdbool.h>

#include "answer/end.h"
#include "base/buf.h"
#include "base/err.h"

struct chat;

bool chat_sums_up(const struct chat *c);                /* true while the turn of chat_compact() is under way */
bool chat_proposes(struct chat *c, struct buf *out);    /* true if a summary waits for chat_decide(); `out` (or NULL): "replace 12 messages (...)" */
void chat_decide(struct chat *c, bool take);

/* --- inside --- */
bool summary_request(struct chat *c, const char *hint, struct err *e);  /* prepares the request of chat_compact(), and leaves out what does not fit */
/* The turn that writes the summary has ended like this; *why is the reason if it failed.  Returns how the turn ends for the user, with a sentence in
 * *why. */
enum end summary_take(struct chat *c, enum end end, const char **why);
void summary_over(struct chat *c);                      /* at the end of every turn: prompts leave nothing out any more */
void summary_advise(struct chat *c);                    /* posts a note when the context is nearly full, once */
