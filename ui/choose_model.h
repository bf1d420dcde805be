/* Which model a program loads. */
#ifndef Q35_UI_CHOOSE_MODEL_H
#define Q35_UI_CHOOSE_MODEL_H

#include "base/err.h"
#include "option/options.h"

/* Sets the option to a directory: --model can be a name; without it the newest real model of this machine is used, and the demo when
 * there is none.  0; EXIT_USAGE where --model is empty; EXIT_MODEL where no model, or more than one, has the name. */
int choose_model(struct options *o, struct err *e);

#endif
