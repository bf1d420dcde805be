/* The responder on another machine or in another program: an OpenAI-compatible server (src/remote). */
#ifndef Q35_RESPONDER_REMOTE_H
#define Q35_RESPONDER_REMOTE_H

#include "base/err.h"
#include "option/options.h"

struct responder;

/* Of the server that the options mean (option/endpoint.h).  Returns at once; who the server is,
 * and that it is not there, is news.  NULL with the reason. */
struct responder *remote_open(const struct options *o, struct err *e);
/* The same with a server of this user's own that listens on `socket` and has loaded the model of `dir`, which is what sessions note.  tells: it
 * says so in a note. */
struct responder *remote_attach(const struct options *o, const char *socket, const char *dir, bool tells, struct err *e);

#endif
