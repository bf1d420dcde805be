/* `q35chat model inspect DIR`: what a checkpoint holds. */
#ifndef Q35_UI_MODEL_H
#define Q35_UI_MODEL_H

#include <stdbool.h>

/* Whether the command line is such a command: "model" alone may begin a prompt. */
bool model_is_command(int argc, char **argv);
int  model_main(int argc, char **argv);                 /* the exit status */

#endif
