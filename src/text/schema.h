/* The JSON schema of a tool's arguments.  It converts the text between two parameter tags to a value of the right type.  Read once
 * per answer, into an arena. */
#pragma once

#include <stdbool.h>

#include "base/memory.h"
#include "base/text.h"
#include "text/pyjson.h"

struct param {
    struct text name;
    unsigned    types;                  /* 1 << enum, private to schema.c; 0: no type given, taken as a string */
    bool        required;
};

struct schema {
    struct text   name;                 /* of the function */
    struct param *params;
    size_t        n_params;
};

/* `tool` is {"type": "function", "function": {...}} or the inner object alone.  False if it names no function. */
bool schema_read(struct schema *s, struct text tool, struct arena *a);
/* NULL if there is no such parameter; `s` may be NULL. */
const struct param *schema_param(const struct schema *s, struct text name);
/* True if every value of the parameter is a string, exactly as it was written. */
bool schema_is_string(const struct param *p);
/* True if the arguments have all that the schema requires; NULL: nobody knows. */
bool schema_complete(const struct schema *s, const struct pyjson *args);
/* Returns the value with a type of its schema; a string if the text fits none of them, or if `p` is NULL. */
struct pyjson schema_value(const struct param *p, struct text value, struct arena *a);
/* Returns the same for a value that was written as a JSON string: it stays one where the schema allows strings or names no type. */
struct pyjson schema_string(const struct param *p, struct text value, struct arena *a);
