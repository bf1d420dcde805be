/* Names in options by which a user means something else: tools, an endpoint, a conversation, keys. */
#ifndef Q35_UI_NAMES_H
#define Q35_UI_NAMES_H

#include <stdbool.h>

#include "base/err.h"
#include "option/options.h"

/* Checks what they name before a model is loaded for it.  False with the name and what there is.  chats: the program opens a chat, which can be a
 * new one where --continue finds none. */
bool names_check(const struct options *o, bool chats, struct err *e);

#endif
