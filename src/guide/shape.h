/* The values that satisfy a set of schemas, as a list of alternatives (shapes) without anyOf, not or references: for each shape the types
 * that are left and a list of facts. */
#pragma once

#include "guide/document.h"
#include "guide/number.h"

enum {
    TYPE_NULL = 1, TYPE_TRUE = 2, TYPE_FALSE = 4, TYPE_INTEGER = 8, TYPE_FRACTION = 16, TYPE_STRING = 32, TYPE_ARRAY = 64, TYPE_OBJECT = 128,
    TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION, TYPE_ANY = 255,
};

enum { SHAPE_NAMES = 4000 };            /* most names of `required`, and most members of an object */

/* A schema that holds, or that does not hold. */
struct clause {
    const struct pyjson *schema;
    bool                 negated;
    int                  keyword, part; /* only this keyword, or part of a keyword, is negated; -1: the whole */
};

enum fact_kind {
    FACT_MIN, FACT_MAX, FACT_MULTIPLE,                          /* number; open */
    FACT_PATTERN, FACT_FORMAT, FACT_MIN_LENGTH, FACT_MAX_LENGTH,
    FACT_ITEMS, FACT_EACH, FACT_CONTAINS, FACT_UNIQUE, FACT_MIN_ITEMS, FACT_MAX_ITEMS,
    FACT_MEMBERS, FACT_MEMBER, FACT_NEEDED, FACT_ABSENT, FACT_NAMES, FACT_MIN_MEMBERS, FACT_MAX_MEMBERS, FACT_CLOSED,
    FACT_ENUM,
};

struct fact {
    enum fact_kind       kind;
    const struct pyjson *schema, *value;    /* the schema with the keyword; its value */
    struct text          name;              /* of a member */
    struct clause        clause;            /* of each item, of the member, of the names */
    struct decimal       number;
    int                  n;
    bool                 open, negated;
    const struct fact   *next, *past;       /* past: the next one that is not FACT_NEEDED, of such a fact */
};

struct shape {
    unsigned           types;
    const struct fact *facts;
    struct shape      *next;
};

struct shapes {
    struct document *doc;
    struct buf      *notes;
    bool             loose;
    struct err      *e;
    bool             failed;
    int              steps;             /* that are left, of the whole schema */
    int              looked;            /* facts that were looked at, for which no step was taken off yet */
    struct shape   **end;               /* of the list that is made */
    int              probing;           /* > 0: a keyword that cannot be enforced makes the result unsure */
    bool             unsure;
};

/* Stores the shapes whose union is the values that satisfy all n clauses.  False on failure, with the sentence in s->e. */
bool shapes_of(struct shapes *s, const struct clause *clause, int n, struct shape **list);
/* Reports a keyword that cannot be enforced: the schema is refused, or, if loose, goes on without it. */
void shapes_refuse(struct shapes *s, const struct pyjson *schema, const char *keyword, const char *why);
/* Returns the clauses of the member `name` in a shape: at most `max`, none if every value will do, -1 if there must be no such member. */
int shape_member(struct shapes *s, const struct shape *shape, struct text name, struct clause *list, int max);
/* True if the value satisfies the schema, or does not where it is negated. */
bool clause_holds(struct document *d, const struct clause *c, const struct pyjson *value);
