/* The responder in this process: engine, tokenizer, chat template and the parser of answers.  Of the conversation's files, those that
 * are named local* alone know these. */
#ifndef Q35_RESPONDER_LOCAL_H
#define Q35_RESPONDER_LOCAL_H

#include "base/err.h"
#include "option/options.h"

struct responder;

/* Checks the model that the options name, and returns while weights and tokenizer are still read.  Options are copied.  NULL with the
 * reason. */
struct responder *local_open(const struct options *o, struct err *e);
/* The same with the engine of another q35chat, which listens on `socket` and has loaded the model of `dir`: tokenizer, template and parser are
 * here, and only tokens go over the socket.  tells: a note says that it is attached. */
struct responder *local_attach(const char *socket, const char *dir, bool tells, struct err *e);
/* Another one with the engine of the first, which must outlive it: it has an answer of its own under way.  The engine gives as many at once as
 * model_info.at_once says, else one after the other.  Its news come while the first one is drained. */
struct responder *local_guest(struct responder *first);

#endif
