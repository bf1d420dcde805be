/* `q35chat --print-completions SHELL`: a script that completes the command line in bash, zsh or fish.  Options and their choices
 * come from config/options.def, subcommands and theirs from the tables and help texts of those who run them. */
#ifndef Q35_UI_COMPLETIONS_H
#define Q35_UI_COMPLETIONS_H

#include "base/buf.h"

void completions_print(const char *shell, struct buf *out);     /* bash, zsh or fish */

#endif
