/* JSON with the semantics of Python's json module, for which the chat template was written: numbers of any size, keys in the given
 * order (a repeated key keeps its first place and takes the last value), floats printed as by repr().  All values live in an
 * arena. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/text.h"

enum py_kind { PY_NONE, PY_FALSE, PY_TRUE, PY_INT, PY_FLOAT, PY_STR, PY_LIST, PY_DICT };

struct pyjson {
    enum py_kind   kind;
    struct text    text;                /* PY_STR: its characters; PY_INT, PY_FLOAT: as str() prints it */
    struct text   *keys;                /* PY_DICT [n] */
    struct pyjson *items;               /* PY_LIST, PY_DICT [n] */
    size_t         n, cap;
    uint32_t      *index;               /* of a dict with many keys: hash -> 1 + position */
    size_t         n_index;
};

enum pyjson_mode {
    PYJSON_LOADS,       /* json.loads: a number too large for a double is inf; NaN and Infinity are refused */
    PYJSON_FINITE,      /* the same without inf */
    PYJSON_LENIENT,     /* the same, and strings may hold control characters, such as real line ends: strict=False */
    PYJSON_LITERAL,     /* a Python literal: 'text', True, None, (1, 2), trailing commas; JSON's names too */
};

/* Parses `src` as one value.  Strings must be UTF-8; at most 1000 levels of nesting. */
bool pyjson_parse(struct pyjson *v, struct text src, enum pyjson_mode mode, struct arena *a, struct err *e);

const struct pyjson *pyjson_get(const struct pyjson *dict, const char *key);     /* NULL if absent or if `dict` is not a dict */
const struct pyjson *pyjson_given(const struct pyjson *dict, const char *key);   /* NULL also if the value is null */
const struct pyjson *pyjson_item(const struct pyjson *dict, struct text key);    /* pyjson_get() with a key of any bytes */
void pyjson_set(struct pyjson *dict, struct text key, struct pyjson value, struct arena *a);
struct pyjson *pyjson_add(struct pyjson *list, struct pyjson value, struct arena *a);     /* returns the new item, valid until the next one */
struct pyjson pyjson_string(struct text t);
bool pyjson_truth(const struct pyjson *v);                       /* Python's bool(); NULL is false */

void pyjson_dump(const struct pyjson *v, struct buf *out);       /* json.dumps(v, ensure_ascii=False) */
void pyjson_str(const struct pyjson *v, struct buf *out);        /* str(v); lists and dicts as pyjson_dump() */
void pyjson_quote(struct text t, struct buf *out);               /* a JSON string; invalid UTF-8 becomes U+FFFD */
