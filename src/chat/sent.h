/* What of the shown path a prompt holds.  An entry that was dropped leaves a line in its place, so that roles go on alternating
 * and the model knows; a dropped answer takes its calls and their results along. */
#ifndef Q35_CHAT_SENT_H
#define Q35_CHAT_SENT_H

#include "base/arena.h"
#include "chat/transcript.h"

#define SENT_INSTEAD "(left out)"

enum sent { SENT_WHOLE, SENT_AS_LINE, SENT_NOT };

/* Of each entry of the path, in `a`.  `answers`: the prompt asks for an answer to the last user message, which is whole then. */
enum sent *sent_all(const struct transcript *t, bool answers, struct arena *a);

#endif
