/* Automata over bytes for the text of an answer: a JSON schema, a regular expression, a list of choices or the calls of tools.
 *
 * A place in a text is one number, the id of a hash-consed term that describes all continuations (a derivative; the stack of open objects
 * is the tail of the term, shared by all places inside of it), and the text of the object key that is being written, since keys are
 * unique.  So a place is copied by assignment, equal numbers have equal continuations, and a byte costs one look-up in a table that fills
 * itself.
 *
 * A byte is accepted only if some finished text begins with what was accepted.  Terms that no place needs any more are given back by
 * grammar_trim(), which who writes a text calls once for each token: an answer of any length then takes a few MB.  Between two such calls 4
 * million terms (some 200 MB) may be made, which only patterns with counted repetitions in others need; beyond that all bytes are refused,
 * and grammar_full() says so.
 *
 * A grammar fills its tables while it is used: one thread at a time, which may be any; the reference count is atomic. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"

enum { GRAMMAR_KEY_MAX = 119 };         /* bytes of a key that is not among the properties; longer ones are not accepted */

struct grammar;
struct grammar_state {
    uint32_t place;                     /* equal places without `n_key` have equal continuations */
    uint8_t  n_key;
    char     key[GRAMMAR_KEY_MAX];      /* [n_key], the rest is undefined */
};

struct grammar_options {
    bool loose;                         /* keywords that cannot be enforced are left out, and `notes` names them */
    bool ordered;                       /* members come in the order of `properties`, then all others; otherwise in any order */
    bool plain;                         /* integers are written as 1, not as 1.0, where nothing but integers is accepted */
    struct buf *notes;                  /* a line for each keyword that is enforced only in part, or NULL */
};

/* One of a list of texts, exactly. */
struct grammar *grammar_of_choices(const struct text *choices, int n, struct err *e);
/* The whole text matches the regular expression (ECMA syntax over characters, without \b and back references; look-around only as
 * (?= and (?! at the beginning).  `^` and `$` at the ends may be written and change nothing. */
struct grammar *grammar_of_pattern(struct text pattern, struct err *e);
/* Any JSON object. */
struct grammar *grammar_of_json(void);
/* One JSON value that the schema (JSON text) accepts.  NULL with a sentence that names keyword and place otherwise. */
struct grammar *grammar_of_schema(struct text schema, const struct grammar_options *o, struct err *e);

/* Calls of tools in Qwen's XML form: each parameter once, the required ones present, strings as they are, anything else as JSON. */
struct grammar_calls {
    struct text tools;                  /* a JSON array of tools as the template has them */
    const char *const *fields;          /* the user's names of their parameters, which a refusal begins with; NULL: none */
    const struct text *allowed;         /* [n_allowed] names of those that may be called; none: all */
    int  n_allowed;
    bool several;                       /* further calls may follow the first */
    bool strict;                        /* a tool whose schema is wrong, or has no values, is refused, unless it has "strict": false */
    struct buf *notes;                  /* a line for each tool whose schema cannot be obeyed: its arguments may be anything; or NULL */
};
struct grammar *grammar_of_calls(const struct grammar_calls *c, struct err *e);
/* Adds the calls to a grammar that was not used yet: texts are those that it had, or calls.  False with the reason, and nothing is added. */
bool grammar_or_calls(struct grammar *g, const struct grammar_calls *c, struct err *e);

struct grammar *grammar_retain(struct grammar *g);
void grammar_release(struct grammar *g);        /* the last reference frees it; NULL is accepted */

struct grammar_state grammar_begin(const struct grammar *g);
/* Advances over one byte.  False if no finished text has it here; the state is then unchanged. */
bool grammar_byte(struct grammar *g, struct grammar_state *s, uint8_t byte);
/* Advances over as many bytes of `t` as are accepted, and returns their number. */
size_t grammar_text(struct grammar *g, struct grammar_state *s, struct text t);
/* If `made` terms or more (some 50 bytes each) were made since the last time, or no more can be made, gives back those for other places than
 * that of the n states, and returns true; all other states are invalid then, and the numbers of places are new. */
enum { GRAMMAR_TRIM = 1 << 18 };        /* a good `made`: the time that it takes does not show */
bool grammar_trim(struct grammar *g, struct grammar_state *const *s, int n, int made);
/* Sets how much work (derivatives of terms, some 0.1 us each) may be done until this is called again; beyond it all bytes are refused, and
 * grammar_full() says so. */
enum { GRAMMAR_WORK = 250000 };         /* for a token: no other answer waits longer than some 30 ms for it */
void grammar_allow(struct grammar *g, uint64_t work);
uint64_t grammar_work(const struct grammar *g);         /* that was done */
/* True if refusals since the last grammar_trim() or grammar_allow() may be for want of memory or work alone; spent: of those, all bytes are
 * refused by now. */
bool grammar_full(const struct grammar *g);
bool grammar_spent(const struct grammar *g);
/* True if the text may end here. */
bool grammar_may_end(const struct grammar *g, const struct grammar_state *s);
/* Writes the text that must come next, at most `max` bytes, and returns its length.  Where nothing but white space is free, it is written as
 * Qwen writes JSON: a blank after a comma and after a colon.  The state is not changed. */
size_t grammar_forced(struct grammar *g, const struct grammar_state *s, char *out, size_t max);
/* Inside of a JSON string: how many characters of any kind may follow, after which nothing but its end may; 0 elsewhere.  *key: it is a key, and has
 * as many bytes as there is room for. */
int  grammar_free_chars(const struct grammar *g, const struct grammar_state *s, bool *key);
/* In a key that is written: the fewest bytes with which it can end, for which there must be room; 0 elsewhere. */
int  grammar_key_least(struct grammar *g, const struct grammar_state *s);
/* Inside of a string: a number > 0.  At places with equal numbers the same sequences of bytes without the byte *closer are accepted.  0
 * elsewhere. */
uint32_t grammar_string_class(struct grammar *g, const struct grammar_state *s, uint8_t *closer);
/* True if a finished text satisfies all of the schema, also what a loose grammar left out. */
bool grammar_check(struct grammar *g, struct text json, struct err *e);
/* Bytes of memory that the grammar holds now. */
size_t grammar_bytes(const struct grammar *g);
