/* What a user types: a message, or a command that begins with a slash (config/commands.def).  The same for all front ends;
 * what only some of them can do comes back as a result of its own. */
#ifndef Q35_CHAT_COMMAND_H
#define Q35_CHAT_COMMAND_H

#include "base/buf.h"
#include "chat/chat.h"
#include "option/options.h"

enum command_result {
    COMMAND_MESSAGE,            /* not a command: send *message (of "//text" the text with one slash) */
    COMMAND_DONE,               /* done or refused; `out` says what */
    COMMAND_MOVED,              /* likewise, and another path is shown now */
    COMMAND_TURN,               /* the model answers now */
    COMMAND_EDIT,               /* `out` is text for the input: as it would have to be typed; chat_edited() if it is an earlier message */
    COMMAND_COPY,               /* `out` is text for the clipboard */
    COMMAND_SCREEN,             /* for the front end to do: *message is the command's name, `out` its argument */
    COMMAND_QUIT,
};
/* `out` receives lines for the user; they may hold text of the model or of files. */
enum command_result command_run(struct chat *c, struct options *o, const char *line, const char **message, struct buf *out);

/* The command that `line` calls, by its full name, and where its argument begins (in `line`); NULL if it is none. */
const char *command_name(const char *line, const char **argument);

/* For completion: calls fn for every way to end `line` (commands, options, names), each with the whole word.  A conversation comes with its title and
 * time as `note` (else NULL) if its name or its title matches; its name takes the place of the whole argument.
 * True if the argument is a file instead, which the caller knows how to complete. */
typedef void command_word_fn(const char *word, const char *note, void *arg);
bool command_complete(const char *line, command_word_fn *fn, void *arg);
/* What such a word does, in one line, and in *argument what may follow it ("" if nothing); NULL: not known. */
const char *command_help_of(const char *word, const char **argument);

#endif
