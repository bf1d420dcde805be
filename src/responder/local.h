/* The responder in this process: engine, tokenizer, chat template and the parser of answers. */
#pragma once

#include "base/err.h"
#include "option/options.h"

struct responder;

/* Checks the model that the options name, and returns while weights and tokenizer are still read.  Options are copied.  NULL with the
 * reason. */
struct responder *local_open(const struct options *o, struct err *e);
/* Opens the engine of another q35chat, which listens on `socket` and has loaded the model of `dir`: tokenizer, template and parser are here, and
 * only tokens go over the socket.  with_note: a note says that it is attached. */
struct responder *local_attach(const char *socket, const char *dir, bool with_note, struct err *e);
/* Opens another responder with the engine of `first`, which must outlive it.  Each has an answer of its own under way: model_info.at_once of them at
 * the same time, others wait.  Its news come while `first` is drained. */
struct responder *local_guest(struct responder *first);
