/* Sub-commands, `q35chat GROUP NAME ...`, from config/subcommands.def.  A new one is a row there and its function; the row gives
 * it its options, checked, --help, its place in the manual and in the shells' completions. */
#pragma once

#include "ui/args.h"

/* The rows of the table. */
extern const struct sub_row sub_rows[];                 /* ends with SUB_END */
/* Returns the next row of a kind after `at` (NULL: the first one), for commands within their group; NULL: no more. */
const struct sub_row *sub_next(const struct sub_row *at, enum sub_kind kind);

const char *sub_alias(const struct sub_row *group);     /* another word for the group; NULL: it has none */

/* True if the command line begins with the name of a group, another word for one, or `help`; if the word is one. */
bool subcommand_is(int argc, char **argv);
bool subcommand_is_name(const char *word);
/* Appends the command line that a prompt of these words was probably meant to be.  False: it is no sub-command with a slip. */
bool subcommand_meant(const char *words, struct buf *line);
int  subcommand_main(int argc, char **argv);            /* the exit status */

/* Appends the usage of a command, of a group (command NULL), or of all (both NULL). */
void subcommand_help(const struct sub_row *group, const struct sub_row *command, struct buf *out);

/* Appends the script of --print-completions SHELL (completions.c), which completes the command line in bash, zsh or fish. */
void completions_print(const char *shell, struct buf *out);
