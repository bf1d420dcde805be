/* Lines that a user types: messages, and commands, which begin with a slash (config/commands.def).  All front ends share them; commands that
 * only some front ends can run have results of their own. */
#pragma once

#include "base/buf.h"
#include "chat/commands.h"

/* `out` receives lines for the user; they may hold text of the model or of files. */
enum command_result command_run(struct chat *c, struct options *o, const char *line, const char **message, struct buf *out);

/* The full name of the command of this line, and its argument (in `line`); NULL: it is not a command. */
const char *command_name(const char *line, const char **argument);

/* Completes a line: calls fn with each whole word that can end it (commands, options, names).  A conversation, whose name or title matches, has its
 * title and time as `note` (else NULL); its name replaces the whole argument.  True: the argument is a file, which the caller completes. */
typedef void command_word_fn(const char *word, const char *note, void *arg);
bool command_complete(const char *line, command_word_fn *fn, void *arg);
/* Describes such a word in one line, and in *argument what may follow it ("": nothing); NULL: not known. */
const char *command_help_of(const char *word, const char **argument);
