/* The model that a conversation was held with, which the first line of its file names: a directory, or the address of a server, a blank and the
 * server's name of the model.  Older files may name neither. */
#ifndef Q35_SESSION_HELD_H
#define Q35_SESSION_HELD_H

#include <stdbool.h>

#include "base/buf.h"
#include "option/options.h"

/* Reads it from the file of a conversation (name or path).  False: the file names no directory and no address. */
bool held_with(const char *name, struct buf *model);
/* Whether both are the same model.  An address without a name is any model of that server. */
bool held_same(const char *a, const char *b);
/* Whether it is a directory that has no checkpoint any more. */
bool held_gone(const char *model);
/* Makes the options choose the model that the conversation was held with, unless the command line chooses one or the model is gone.  The address
 * in a file outside of the directory for conversations counts only if the config file has it, since other people write such files: keys and text
 * go to that address.  Returns whether the options choose that model now. */
bool held_choose(struct options *o, const char *name);
/* Appends the options of a command line that choose this model: " --endpoint URL --model NAME", each word as it is. */
void held_words(const char *model, void (*fn)(const char *word, void *arg), void *arg);

#endif
