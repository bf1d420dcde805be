/* The responder on another machine or in another program: an OpenAI-compatible server (src/remote). */
#pragma once

#include "base/err.h"
#include "option/options.h"

struct responder;

/* Opens the server that the options name (option/endpoint.h).  Returns at once: whether the server is there, and what it is, comes as news.  NULL
 * with the reason. */
struct responder *remote_open(const struct options *o, struct err *e);
/* Opens a server of this user that listens on `socket` and has loaded the model of `dir`, which sessions store.  with_note: a note says so. */
struct responder *remote_attach(const struct options *o, const char *socket, const char *dir, bool with_note, struct err *e);
