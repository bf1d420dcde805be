/* What a user types: a message, or a command that begins with a slash (config/commands.def). */
#ifndef Q35_CHAT_COMMAND_H
#define Q35_CHAT_COMMAND_H

#include "base/buf.h"
#include "chat/chat.h"
#include "chat/options.h"

enum command_result {
    COMMAND_MESSAGE,            /* not a command: send *message (of "//text" the text with one slash) */
    COMMAND_DONE,               /* done or refused; `out` says what */
    COMMAND_TURN,               /* the model answers now */
    COMMAND_QUIT,
};
/* `out` receives lines for the user; they may hold text of the model or of files. */
enum command_result command_run(struct chat *c, struct options *o, const char *line, const char **message, struct buf *out);

/* For completion: calls fn for every way to end `line` (commands, options), each as the whole word that stands there then.
 * True if the argument is a file instead, which the caller knows how to complete. */
bool command_complete(const char *line, void (*fn)(const char *word, void *arg), void *arg);
/* What such a word does, in one line, and in *argument what may follow it ("" if nothing); NULL: not known. */
const char *command_help_of(const char *word, const char **argument);

#endif
