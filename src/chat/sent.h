/* What of the shown path a prompt holds.  An entry that was dropped leaves a line in its place, so that roles go on alternating
 * and the model knows; a dropped answer takes its calls and their results along.
 * Before a summary only what is pinned is sent. */
#ifndef Q35_CHAT_SENT_H
#define Q35_CHAT_SENT_H

#include "base/arena.h"
#include "session/transcript.h"

#define SENT_INSTEAD "(left out)"

enum sent { SENT_WHOLE, SENT_AS_LINE, SENT_NOT };
enum sent_for {
    SENT_NEXT,                  /* the prompt of the next message */
    SENT_ANSWER,                /* of an answer to the last user message, which is whole then */
    SENT_SUMMED,                /* as if a summary stood at the path's end */
};

/* Of each entry of the path, in `a`. */
enum sent *sent_all(const struct transcript *t, enum sent_for why, struct arena *a);
/* The messages of a prompt, in `a`, with the system prompt and the text of files.  `more`: a message of the user behind all, or NULL. */
struct message *sent_messages(const struct transcript *t, const char *more, struct arena *a, int *n);

#endif
