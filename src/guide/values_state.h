/* The inside of `values`, for values.c (compilation), values_scalar.c (texts of what is neither array nor object) and values_walk.c (lazy terms).  No
 * other file includes this. */
#pragma once

#include "base/memory.h"
#include "guide/shape.h"

enum {
    N_CLAUSES = 64, N_GROUPS = 6, N_KEYS = 1024, N_UNIQUE = 16,
    N_INDENT = 64,              /* blanks that a line may begin with */
    MANY = 1 << 30,
};

struct member { struct text name; uint32_t key; int rule; bool needed, absent; };
struct group { uint32_t keys; int rule, n_keys; };      /* keys that are no members, how many there are (at least), and their values */

struct object {
    struct member *member;
    struct group  *group;
    int            n, n_groups, min, max;
    struct pyjson  names, needed;               /* of all members, and of those that must be there: two dicts, which are hashed */
    struct object *next;
};

struct array {
    int          *prefix;       /* rules */
    int           n_prefix, rest, min, max, contains;   /* contains: a rule, -1 if there is none */
    uint32_t     *unique;       /* [n_unique] terms of all values of an item, each of which may come once; n_unique 0: there is no such bound */
    int           n_unique;
    int           number;       /* 1 + index in values.array, 0 if it has none */
    struct array *next;
};

struct rule {
    struct clause *clause;
    int            n;
    uint32_t       scalars;
    struct object *objects;
    struct array  *arrays;
    bool           productive;
};

/* A place between two members: the first one that may come, if they have an order, or which there were; how many; the free keys so far. */
struct between { const struct object *object; int next, count, keys; uint64_t *done; bool mark; };
struct keys { int before; struct text key; int n; bool mark; };

struct values {
    struct terms   *t;
    struct document doc;
    struct shapes   shapes;
    struct arena   *arena;
    struct rule    *rule;
    struct between *between;
    struct array  **array;
    struct keys    *keys;
    uint32_t       *moved;      /* [n_between before the last sweep] where a place went */
    uint32_t       *slot;       /* [n_slots] 1 + rule, by clauses */
    int            *member;     /* rules of the properties */
    bool            ordered, plain, alternatives;      /* alternatives: the rule that is compiled has several shapes */
    int             n_rules, cap_rules, n_between, cap_between, n_arrays, cap_arrays, n_keys, cap_keys, number;
    size_t          n_slots;
};

static inline uint32_t literal(struct values *v, const char *s) { return term_literal(v->t, text_of(s)); }

/* --- values_scalar.c --- */

uint32_t scalar_blank(struct values *v);                /* nothing, or one blank */
uint32_t scalar_space(struct values *v);                /* the same, or a new line with its indentation */
uint32_t scalar_quoted(struct values *v, uint32_t texts);
uint32_t scalar_any_text(struct values *v);
uint32_t scalar_value(struct values *v, const struct pyjson *one);      /* one value, which may be an array or object */
/* The decoded texts of the strings of a shape.  A pattern that cannot be used is refused. */
uint32_t scalar_strings(struct values *v, const struct shape *h);
uint32_t scalar_numbers(struct values *v, const struct shape *h);
unsigned scalar_types(const struct pyjson *one);        /* of a value */
/* Stores the values of the shape's list that satisfy the whole rule, and the texts of those that are strings; false if the shape has no list. */
bool scalar_listed(struct values *v, const struct rule *r, const struct shape *h, uint32_t *term, uint32_t *texts);
