/* Kinds of values that an option of the chat or of a sub-command can have, as their tables name them, and what text each takes. */
#ifndef Q35_OPTION_VALUE_H
#define Q35_OPTION_VALUE_H

#include <stdbool.h>

#include "base/err.h"

enum value_type {
    VALUE_TEXT, VALUE_FILE, VALUE_DIRECTORY, VALUE_SESSION, VALUE_ENDPOINT, VALUE_DELETED,      /* any text; the shells' completion tells them
                                                                                                 * apart */
    VALUE_CHOICE,                       /* one of a|b|c */
    VALUE_WORDS,                        /* some of "a b c", with blanks between */
    VALUE_INT, VALUE_REAL,
    VALUE_SIZE,                         /* k and m behind the number stand for 1024 and its square */
    VALUE_SWITCH,                       /* on or off; as a flag it takes no value */
    VALUE_SEED,
    VALUE_LIST, VALUE_BIAS,             /* repeatable; BIAS: TOKEN=X each */
};

/* Whether a value of the option `name` may be `text`; `choices` for CHOICE and WORDS, min and max for numbers. */
bool value_check(enum value_type type, const char *name, const char *text, const char *choices, double min, double max, struct err *e);
int value_switch(const char *text);                     /* 1 on, 0 off, -1 neither */
double value_number(enum value_type type, const char *text);    /* of text that was checked; 0 for none */
extern const char value_kv_recipes[];                   /* choices: auto and the rows of config/kv_recipes.def */

#endif
