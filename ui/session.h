/* q35chat session: the conversations on disk, without a model. */
#ifndef Q35_UI_SESSION_H
#define Q35_UI_SESSION_H

#include <stdbool.h>

bool session_is_command(int argc, char **argv);         /* otherwise `session` is the first word of a prompt */
int  session_main(int argc, char **argv);               /* returns the exit status */

#endif
