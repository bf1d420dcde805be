/* A JSON schema as a document: its parts with their places, what references lead to, and the check of a value. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/memory.h"
#include "guide/term.h"
#include "text/pyjson.h"

enum { DOCUMENT_BYTES = 4 << 20, DOCUMENT_PARTS = 200000, DOCUMENT_DEPTH = 256, DOCUMENT_STEPS = 20000 };
enum { DOCUMENT_WORK = 2000000, DOCUMENT_KNOWN = 1024 };

/* One object or boolean of the document. */
struct part {
    const struct pyjson *schema;
    int                  parent;        /* index of the part that it is in, -1 for the document */
    struct text          name;          /* key in the parent, or */
    int                  index;         /* the place in a list, -1 for a key */
    const char          *base;          /* URI that references are relative to */
};

struct document {
    struct arena   arena;
    struct pyjson  root;
    struct part   *part;                /* [n] */
    int            n, cap;
    uint32_t      *slot;                /* [n_slots] 1 + index of the part, by the address of its schema */
    size_t         n_slots;
    bool           old;                 /* draft-03 to draft-07: what stands beside $ref is ignored */
    struct anchor { const char *uri; const struct pyjson *schema; } *anchor;
    int            n_anchors, cap_anchors;
    struct terms  *terms;               /* of patterns, of the caller */
    struct { const struct pyjson *schema, *value; } active[DOCUMENT_DEPTH];     /* checks that are under way */
    int            n_active, steps;     /* steps: of one check of a value */
    int            least, check;        /* the least of `active` that a result was built on; number of the check */
    bool           worn;                /* a check took more steps than are allowed, or all of them did */
    int64_t        work;                /* steps of all checks */
    struct known { const struct pyjson *schema, *value; int check; bool holds; } known[DOCUMENT_KNOWN];     /* results, by schema and value */
    struct listing { const struct pyjson *list; uint32_t *slot; size_t n_slots; } *listing;                 /* long lists by their values */
    int            n_listings, cap_listings;
};

/* Reads the text.  The caller keeps `d` in place and calls document_free(), also after a failure. */
bool document_read(struct document *d, struct text schema, struct terms *t, struct err *e);
void document_free(struct document *d);
/* Appends the place of a part as a JSON pointer: "#/properties/a". */
void document_place(const struct document *d, const struct pyjson *schema, struct buf *out);
/* The part that a reference in `from` leads to; NULL if it is not in the document. */
const struct pyjson *document_follow(const struct document *d, const struct pyjson *from, struct text reference);
/* The texts of a format, by the regular expression that stands for it; NULL if nothing is known of it. */
const char *document_format(struct text name);
/* True if the value satisfies the schema.  Keywords of another draft or of no effect are skipped, as are unknown formats.
 * A schema that refers to itself without end adds nothing; a check of more than DOCUMENT_STEPS steps fails, as all do after
 * DOCUMENT_WORK steps of all checks: d->worn says so. */
bool document_check(struct document *d, const struct pyjson *schema, const struct pyjson *value);
