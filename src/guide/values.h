/* JSON values of a schema as terms.  A rule is a set of schemas that hold together; its values are a lazy term, so that a rule may contain
 * itself.  Objects and arrays are lazy terms, too, one for each place between two members or items. */
#pragma once

#include "guide/shape.h"

struct values;
enum { VALUES_KEY_MAX = 119 };          /* bytes of a key that is not among the properties */
/* Kinds of lazy terms; the caller adds a number of `values` above VALUES_BITS. */
enum { VALUES_RULE, VALUES_OBJECT, VALUES_ARRAY, VALUES_BITS = 3 };

/* How much work may be done: sets of schemas that are looked at, terms that are made, and derivatives of them. */
struct values_budget { int steps, terms, work; };
static const struct values_budget values_budget = {40000, 600000, 2000000};

struct values_options {
    bool        loose;      /* a keyword that cannot be enforced is left out */
    bool        ordered;    /* members come in the order of the schema, then the others */
    bool        plain;      /* integers are written without a point, where nothing but integers is accepted */
    bool        members;    /* only the schemas of `properties` are compiled, each by itself, and that of other names */
    struct values_budget *budget;       /* what is left of it, which several may share; NULL: a budget of its own */
    struct buf *notes;      /* a line for each keyword that is enforced only in part, or NULL */
};

/* Compiles a schema.  `number` stands above the kind of each lazy term.  NULL with the sentence on failure. */
struct values *values_new(struct terms *t, struct text schema, int number, const struct values_options *o, struct err *e);
void values_free(struct values *v);
/* Returns the rule of property i, with `members`, or of any other name behind those; the rule of the whole schema is 0. */
int values_member(struct values *v, size_t i);
/* The JSON values of a rule; TERM_NONE if none satisfies it. */
uint32_t values_term(struct values *v, int rule);
/* The same without strings. */
uint32_t values_others(struct values *v, int rule);
/* The strings of a rule without quotes and escapes; TERM_NONE if no string satisfies it. */
uint32_t values_strings(struct values *v, int rule);
bool values_check(struct values *v, const struct pyjson *value);

uint32_t values_expand(struct values *v, int kind, uint32_t a, uint32_t b);
uint32_t values_take(struct values *v, uint32_t a, uint32_t b, struct text key);
/* The three steps of terms_collect(): the place `a` of an object stays; the others are dropped; the new number of a place that stayed. */
void values_keep(struct values *v, uint32_t a);
void values_sweep(struct values *v);
uint32_t values_moved(const struct values *v, uint32_t a);
size_t values_bytes(const struct values *v);
