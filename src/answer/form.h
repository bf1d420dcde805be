/* The form that an answer must have, which a guide enforces (guide/guide.h).  Plain value; {0}: any text.  Whoever fills it in owns the texts. */
#pragma once

#include <stdbool.h>

#include "base/text.h"

enum form_kind {
    FORM_ANY,
    FORM_JSON,                          /* any JSON object */
    FORM_SCHEMA,                        /* text: a JSON schema */
    FORM_PATTERN,                       /* text: a regular expression that the whole answer matches */
    FORM_CHOICES,                       /* one of choices[n_choices] */
    FORM_CALLS,                         /* calls of the request's tools alone.  text: the name of the function; empty: any that is allowed */
};

struct form {
    enum form_kind kind;
    struct text text;
    const char *field;                  /* the user's name of it, which a refusal begins with: "text.format.schema"; NULL: none */
    const struct text *choices;
    int  n_choices;
    bool one_call;                      /* of any kind, if the request has tools: no further call follows the first */
    bool loose;                         /* of SCHEMA: keywords that cannot be enforced are left out */
};
