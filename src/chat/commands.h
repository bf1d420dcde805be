/* Input and output of a command, for the files that define commands; no other file includes this. */
#ifndef Q35_CHAT_COMMANDS_H
#define Q35_CHAT_COMMANDS_H

#include "chat/command.h"

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

/* command.c */
enum command_result command_refused(struct typed *c);                    /* c->e says why */
/* The argument's first word as a number from 1, `otherwise` if there is none; *rest is what follows it.  0: it is no number. */
int command_number(const char *arg, int otherwise, const char **rest);
void command_first_line(struct buf *out, const char *text);             /* "text of the first line ..." and a newline */

/* Whether a file of that name can be meant: pipes and redirections of a shell are refused, with the reason. */
bool command_names_file(struct typed *c, const char *name);

#endif
