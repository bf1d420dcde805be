/* Command lines, of the chat and of sub-commands: the flags, the kinds of values that they take, and the name that a mistyped one may mean. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* --- values --- */

enum value_type {
    VALUE_TEXT, VALUE_FILE, VALUE_DIRECTORY, VALUE_MODEL, VALUE_SESSION, VALUE_ENDPOINT, VALUE_DELETED,        /* any text; kinds for completion */
    VALUE_CHOICE,                       /* one of a|b|c */
    VALUE_WORDS,                        /* some of "a b c", with blanks between */
    VALUE_INT, VALUE_REAL,
    VALUE_SIZE,                         /* k and m after the number stand for 1024 and its square */
    VALUE_SWITCH,                       /* on or off; as a flag it takes no value */
    VALUE_SEED,
    VALUE_LIST, VALUE_BIAS,             /* repeatable; BIAS: TOKEN=X each */
};

/* True if `text` may be a value of the option `name`; `choices` is for CHOICE and WORDS, min and max are for numbers. */
bool value_check(enum value_type type, const char *name, const char *text, const char *choices, double min, double max, struct err *e);
int value_switch(const char *text);                             /* 1 on, 0 off, -1 neither */
double value_number(enum value_type type, const char *text);    /* the number in text that was checked; 0 for other text */
extern const char value_kv_recipes[];                           /* choices: auto and the rows of config/kv_recipes.def */

/* An item of the option logit_bias is TEXT=X or ID=X: X is added to the logit of that token; -inf bans the token.  Returns X in *value, and how many
 * bytes before it name the token.  False if the item is written in another way. */
bool bias_split(const char *item, size_t *n, float *value);
bool bias_check(const char *item, struct err *e);               /* the same with a reason; the responder checks whether there is such a token */

/* --- mistyped names --- */

/* Returns the name of names[0..n) that is closest to the word; NULL if none is close.  NULL entries are skipped. */
const char *nearest_name(const char *word, const char *const *names, int n);
/* True if the word is the name, or differs from it by one slip: a letter too many, too few or another one, two neighbours swapped; by two slips in a
 * name of six letters or more. */
bool nearest_is(const char *word, const char *name);

/* --- flags: --name, --name=value, --no-name, -n, -nvalue, and words.  `--` ends the flags.  A flag without a value is a switch: --name, --name=off;
 * `--name off` is a mistake. --- */

struct flag {
    const char *name;                   /* "top_p" or "top-p": both are --top-p */
    char        letter;                 /* 0: none */
    bool        can_be_off;             /* --no-NAME exists */
    const char *arg;                    /* what its value is called; NULL: it takes none */
    bool        optional;               /* the value may be missing, at the end or before another flag: "" */
};

/* Valid as {.flags, .n_flags, .argc, .argv, .at: the first to read, .help: the command that lists the flags}. */
struct flags {
    const struct flag *flags;
    int    n_flags;
    int    argc;
    char **argv;
    int    at;
    const char *help;

    /* found by flags_next() */
    int         found;                  /* the index of a flag, or -1: a word */
    bool        off;                    /* --no-NAME */
    const char *value;                  /* the value of a flag that takes one, or the word.  NULL: a flag without a value */
    bool        words_only;             /* after `--` */

    const char *letters;                /* inside: the rest of -abc */
};

/* 1: there is a next piece; 0: the end; -1: a mistake, with the reason. */
int flags_next(struct flags *f, struct err *e);
bool flags_same(const char *name, const char *other);           /* true for equal names; a dash equals an underscore */
void flags_add_dashed(struct buf *out, const char *name);       /* "top-p" for "top_p" */
