/* Opens what answers, as the options say: a server, the q35chat of this user that has loaded the same model already, or a model that is loaded
 * here. */
#pragma once

#include "base/err.h"
#include "option/options.h"

struct responder;
struct responder *ui_responder(const struct options *o, struct err *e);         /* NULL with the reason */
/* The same for a chat: other programs may use the model that it loads, as long as the chat is open. */
struct responder *ui_responder_of_chat(const struct options *o, struct err *e);

/* Asks, before the full screen opens, whether to load the model a second time if the server that may have it does not answer.  False with the
 * sentence: no. */
bool ui_responder_agreed(struct options *o, struct err *e);
