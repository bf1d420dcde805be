/* Takes a command line apart: --name, --name=value, --no-name, -n, -nvalue, and words.  `--` ends the flags.
 * What takes no value is a switch: --name, --name=off; `--name off` is a mistake. */
#ifndef Q35_OPTION_FLAGS_H
#define Q35_OPTION_FLAGS_H

#include <stdbool.h>

#include "base/err.h"

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

    /* what flags_next() found */
    int         found;                  /* the index of a flag, or -1: a word */
    bool        off;                    /* --no-NAME */
    const char *value;                  /* of a flag that takes one; the word.  NULL: a flag without a value */
    bool        words_only;             /* behind `--` */

    const char *letters;                /* inside: the rest of -abc */
};

/* 1: there is a next piece; 0: the end; -1: a mistake, with the reason. */
int flags_next(struct flags *f, struct err *e);
/* Whether a flag's name, with dashes or underscores, is this one. */
bool flags_same(const char *name, const char *other);

#endif
