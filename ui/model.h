/* `q35chat model ...`, and which model a chat or a server loads. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "option/options.h"

/* Sets the option `model` to a directory.  --model can be a name; without it the newest real model of this machine is chosen, else the demo.
 * Returns 0; EXIT_USAGE if --model is empty; EXIT_MODEL if no model, or more than one, has the name. */
int model_choose(struct options *o, struct err *e);
/* Appends the directory of the model that a chat loads where its command line names none: that of Q35CHAT_MODEL or of the config file, else as above;
 * nothing if there is no model.  Returns as model_choose() does. */
int model_usual(struct buf *dir, struct err *e);
