/* The model that a conversation was held with, in the first line of its file: a directory, or the address of a server, a blank and the name of the
 * model there.  Older files may have neither. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "option/options.h"

/* Reads the model from the file of a conversation (name or path).  False: the file has no directory and no address. */
bool held_with(const char *name, struct buf *model);
/* True if both are the same model.  An address without a name is any model of that server. */
bool held_same(const char *a, const char *b);
/* True for a directory that has no checkpoint any more. */
bool held_gone(const char *model);
/* Makes the options choose the model that the conversation was held with, unless the command line chooses one or the model is gone.  An address
 * from a file outside of the directory for conversations is used only if the config file has it, since such a file may be another person's, and keys
 * and text are sent to the address.  True if the options choose that model now. */
bool held_choose(struct options *o, const char *name);
/* Calls fn() with each word of the options that choose this model: --endpoint URL -m NAME. */
void held_words(const char *model, void (*fn)(const char *word, void *arg), void *arg);
