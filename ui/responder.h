/* Who answers, as the options say: a server, the one of this user that has loaded the same model already, or a model that is loaded here. */
#ifndef Q35_UI_RESPONDER_H
#define Q35_UI_RESPONDER_H

#include "base/err.h"
#include "option/options.h"

struct responder;
struct responder *ui_responder(const struct options *o, struct err *e);         /* NULL with the reason */
/* The same for a chat: what it loads itself, other programs may use as long as it is open. */
struct responder *ui_responder_of_chat(const struct options *o, struct err *e);

/* Asks before the terminal is a screen what is asked there otherwise: whether the model is loaded a second time, since the server that may have it
 * does not answer.  False with the sentence: no. */
bool ui_responder_agreed(struct options *o, struct err *e);

#endif
