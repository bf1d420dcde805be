/* The commands: their results, input and output, and helpers for the files that define them.  Other files include chat/command.h. */
#pragma once

#include "base/buf.h"
#include "chat/chat.h"
#include "option/options.h"

enum command_result {
    COMMAND_MESSAGE,            /* not a command: send *message ("/text" for "//text") */
    COMMAND_DONE,               /* done or refused: `out` has the result */
    COMMAND_MOVED,              /* the same, and another path is shown now */
    COMMAND_TURN,               /* the model answers now */
    COMMAND_EDIT,               /* `out` is text for the input, as it would be typed; chat_edited() if it is an earlier message */
    COMMAND_COPY,               /* `out` is text for the clipboard */
    COMMAND_SCREEN,             /* the front end runs it: *message is the name of the command, `out` its argument */
    COMMAND_QUIT,
};

struct typed {
    struct chat    *chat;
    struct options *o;
    const char     *arg;                /* without blanks around it; "" if there is none */
    struct buf     *out;
    struct err      e;
};

typedef enum command_result command_fn(struct typed *c);

#define COMMAND(name, ...) command_fn command_##name;
#include "config/commands.def"

enum command_result command_refused(struct typed *c);                   /* prints c->e */
/* Returns the first word of the argument as a number from 1; `otherwise` if there is no word; 0 if it is not a number.  *rest follows it. */
int command_number(const char *arg, int otherwise, const char **rest);
void command_first_line(struct buf *out, const char *text);             /* appends "text of the first line ..." and a newline */

/* True if this can be the name of a file; pipes and redirections of a shell are refused, with the reason. */
bool command_names_file(struct typed *c, const char *name);
