/* Names in options by which a user means something else: tools, an endpoint, a conversation, keys. */
#ifndef Q35_UI_NAMES_H
#define Q35_UI_NAMES_H

#include <stdbool.h>

#include "base/err.h"
#include "chat/options.h"

/* Whether there is what they name, before a model is loaded for it.  False with the name and what there is. */
bool names_check(const struct options *o, struct err *e);

#endif
