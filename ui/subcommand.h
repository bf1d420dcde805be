/* Sub-commands, `q35chat GROUP NAME ...`, from config/subcommands.def.  A new one is a row there and its function; the row gives
 * it its options, checked, --help, its place in the manual and in the shells' completions. */
#ifndef Q35_UI_SUBCOMMAND_H
#define Q35_UI_SUBCOMMAND_H

#include <stdbool.h>

#include "base/buf.h"
#include "option/flags.h"

struct args;

/* The rows of the table: FLAGs belong to the SUBCOMMAND or GROUP above them. */
struct sub_row {
    enum sub_kind { SUB_END, SUB_GROUP, SUB_COMMAND, SUB_FLAG } kind;
    const char *name, *help;
    const char *arguments;              /* for a command: its words; for a flag: its value or choices, NULL for a switch */
    enum value_type type;               /* of a flag's value, or of a command's words */
    const char *standard;               /* of a flag; NULL: it must be given */
    double min, max;
    int  (*run)(const struct args *a);
};

extern const struct sub_row sub_rows[];                 /* ends with SUB_END */
/* Returns the next row of a kind after `at` (NULL: the first one), for commands within their group; NULL: no more. */
const struct sub_row *sub_next(const struct sub_row *at, enum sub_kind kind);
/* Returns the next option of a command after `at` (NULL: its first): those of its group, then its own; NULL: no more. */
const struct sub_row *sub_next_flag(const struct sub_row *command, const struct sub_row *at);

/* The words and options that a sub-command was given.  A flag that its row does not have is our bug. */
const char *args_text(const struct args *a, const char *flag);          /* given, else the default; NULL if that is "" */
int         args_int(const struct args *a, const char *flag);           /* 0 if neither given nor a default */
bool        args_on(const struct args *a, const char *flag);
int         args_n_words(const struct args *a);
const char *args_word(const struct args *a, int i);     /* NULL: there are fewer words */
/* Appends the command line for a report that goes to others: words and values that are neither numbers nor choices of the table
 * appear as what they stand for, DIR or FILE. */
void args_line(const struct args *a, struct buf *out);

/* Reports a mistake in words or options that the table cannot find, with the command that helps.  Returns EXIT_USAGE. */
int args_refuse(const struct args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

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

#define GROUP(name, help)
#define SUBCOMMAND(name, arguments, completes, function, help) int function(const struct args *a);
#define FLAG(...)
#include "config/subcommands.def"

#endif
