/* A sub-command, as a row of config/subcommands.def, and the words and options that it was given.  The functions of the rows are defined in the file
 * of their group and know this header; the table of them is subcommand.h, above them. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "option/flags.h"

struct args;

/* A row of the table: FLAGs belong to the SUBCOMMAND or GROUP above them. */
struct sub_row {
    enum sub_kind { SUB_END, SUB_GROUP, SUB_COMMAND, SUB_FLAG } kind;
    const char *name, *help;
    const char *arguments;              /* for a command: its words; for a flag: its value or choices, NULL for a switch */
    enum value_type type;               /* of a flag's value, or of a command's words */
    const char *standard;               /* of a flag; NULL: it must be given */
    double min, max;
    int  (*run)(const struct args *a);
};

/* Returns the next option of a command after `at` (NULL: its first): those of its group, then its own; NULL: no more. */
const struct sub_row *sub_next_flag(const struct sub_row *command, const struct sub_row *at);

/* Returns the letter of a command's option: that of the option of a chat with this name, 0 if it has none. */
char sub_letter(const struct sub_row *flag);

/* Runs a command with the words and options in argv from `at` on, after checking them.  Returns its exit status; EXIT_USAGE, after a message; or
 * ARGS_HELP: the user wants the help of the command. */
enum { ARGS_HELP = -1 };
int args_run(const struct sub_row *group, const struct sub_row *command, int argc, char **argv, int at);

/* The words and options that a sub-command was given. */
enum { ARGS_FLAGS = 32, ARGS_LISTED = 64 };
struct args {
    const struct sub_row *group, *command;
    const struct sub_row *rows[ARGS_FLAGS];             /* of the flags */
    const char *values[ARGS_FLAGS];     /* NULL: not given */
    int   n_flags;
    struct { int flag; const char *value; } listed[ARGS_LISTED];        /* every value of the flags that may be given several times */
    int   n_listed;
    const char **words;                 /* [n_words]; NULL after the last one, as often as the row has optional words */
    int   n_words;
};

/* Options; a flag that its row does not have is our bug. */
const char *args_text(const struct args *a, const char *flag);          /* given, else the default; NULL if that is "" */
int         args_int(const struct args *a, const char *flag);           /* 0 if neither given nor a default */
int         args_list(const struct args *a, const char *flag, const char *values[ARGS_LISTED]);    /* all that were given; returns how many */
bool        args_on(const struct args *a, const char *flag);
/* Appends the command line for a report that goes to others: words and values that are neither numbers nor choices of the table
 * appear as what they stand for, DIR or FILE. */
void args_line(const struct args *a, struct buf *out);

/* Reports a mistake in words or options that the table cannot find, with the command that helps.  Returns EXIT_USAGE. */
int args_refuse(const struct args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define GROUP(name, help)
#define SUBCOMMAND(name, arguments, completes, function, help) int function(const struct args *a);
#define FLAG(...)
#include "config/subcommands.def"
