/* The responder on another machine or in another program: an OpenAI-compatible server (src/remote). */
#ifndef Q35_CHAT_REMOTE_H
#define Q35_CHAT_REMOTE_H

#include "base/err.h"
#include "chat/options.h"

struct responder;

/* Takes the address from the option `endpoint`, and the key from Q35CHAT_API_KEY or OPENAI_API_KEY.  Returns at once; who the server is,
 * and that it is not there, is news.  NULL with the reason. */
struct responder *remote_open(const struct options *o, struct err *e);

#endif
