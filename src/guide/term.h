/* Sets of byte strings as hash-consed terms, with derivatives: the derivative of a term by a byte is the term of what may follow that
 * byte (Brzozowski 1964; Owens, Reppy, Turon, "Regular-expression derivatives reexamined", 2009).  Two terms of equal structure have the
 * same id, so an id is a state of a lazily built automaton.  A tail of a concatenation is shared, which makes it the stack of a recursive
 * language.  Counted repetition is a term with two numbers, not a copy for each count.
 *
 * TERM_NONE, the empty set, never is a part of another term: each other term has at least one string, except below TERM_AND and
 * TERM_NOT, whose emptiness is decided by a search where they are wrapped (term_live, term_string). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

enum { TERM_NONE = 0, TERM_EMPTY = 1, TERM_INFINITE = -1, TERM_MANY = 1 << 20 };    /* the empty set; the empty string; no upper limit */

struct terms;
/* Terms of the caller: `expand` returns the body of a lazy term; `take` the term behind a key that was written (term_taker), by what
 * the colon behind it leads to.  Both return TERM_NONE if nothing is admissible.  The other three are called by terms_collect(): `keep` for
 * each lazy term (kind, a) and each taker (a, b) that stays; `sweep` once, behind them; `moved` again for each, which returns its new `a`. */
struct term_hooks {
    uint32_t (*expand)(void *arg, int kind, uint32_t a, uint32_t b);
    uint32_t (*take)(void *arg, uint32_t a, uint32_t b, struct text key);
    void     (*keep)(void *arg, bool taker, uint32_t kind_or_b, uint32_t a);
    void     (*sweep)(void *arg);
    uint32_t (*moved)(void *arg, bool taker, uint32_t kind_or_b, uint32_t a);
    void *arg;
};

struct terms *terms_new(const struct term_hooks *hooks);
void terms_free(struct terms *t);
size_t terms_bytes(const struct terms *t);
int  terms_count(const struct terms *t);
/* True once more terms were made than the bound allows; all results are TERM_NONE from then on. */
bool terms_full(const struct terms *t);
/* True also if a search was given up because those before it used the work that all of them may take. */
bool terms_starved(const struct terms *t);
/* Sets how many more terms may be made. */
void terms_allow(struct terms *t, uint32_t n);
/* Sets how many more derivatives may be taken; beyond that terms_full(), until this is called again.  They are counted, so that all machines do
 * the same. */
void terms_allow_work(struct terms *t, uint64_t n);
void terms_spend(struct terms *t, uint64_t n);              /* counts other work as n derivatives */
uint64_t terms_work(const struct terms *t);
/* True if a search was given up since the last time that this was asked. */
bool terms_unsure(struct terms *t);
/* All terms that were made so far stay for good. */
void terms_seal(struct terms *t);
/* If `made` terms or more, or lists of as many bytes, were made since the last time, or the bound of terms is reached: drops all that are
 * neither sealed nor a part of the n places, which get new ids. */
bool terms_collect(struct terms *t, uint32_t *const *place, int n, int made);

uint32_t term_bytes_of(struct terms *t, const uint64_t set[4]);         /* one byte of a set of 256 */
uint32_t term_range(struct terms *t, int lo, int hi);                   /* one byte of lo .. hi */
uint32_t term_literal(struct terms *t, struct text bytes);
uint32_t term_one_of(struct terms *t, const struct text *list, int n);  /* copied and sorted */
uint32_t term_cat(struct terms *t, uint32_t a, uint32_t b);
uint32_t term_alt(struct terms *t, uint32_t a, uint32_t b);
uint32_t term_alts(struct terms *t, uint32_t *list, int n);             /* the union of n terms; the list is scratch */
uint32_t term_and(struct terms *t, uint32_t a, uint32_t b);             /* both regular */
uint32_t term_not(struct terms *t, uint32_t a);                         /* all byte strings but those of a regular term */
uint32_t term_repeat(struct terms *t, uint32_t a, int min, int max);    /* max TERM_INFINITE: any number */
uint32_t term_char(struct terms *t, uint32_t lo, uint32_t hi);          /* one character of a range, in UTF-8, no surrogates */
uint32_t term_any_char(struct terms *t);
/* The text up to and with the first occurrence of `end`, valid UTF-8 or not.  never: any text without it. */
uint32_t term_until(struct terms *t, struct text end, bool never);
/* The digits of a multiple of `of` / 10^scale: an integer without sign, then, if scale > 0, at most `scale` decimals that matter. */
uint32_t term_multiple(struct terms *t, uint32_t of, int scale);
/* A regular term in which AND or NOT occurs, with dead ends cut off; TERM_NONE if it is empty. */
uint32_t term_live(struct terms *t, uint32_t a);
/* The rest of a JSON string, closing quote included, whose decoded characters are of the regular term `a`.  With `key`, escapes are only
 * those that must be, so that a key has one form. */
uint32_t term_string(struct terms *t, uint32_t a, bool key);
uint32_t term_lazy(struct terms *t, int kind, uint32_t a, uint32_t b);
uint32_t term_taker(struct terms *t, uint32_t a, uint32_t b);

/* True if the search finds no string in the regular term; also where it takes too long (terms_unsure()). */
bool term_is_none(struct terms *t, uint32_t a);
/* Counts the strings of a regular term that have at most `depth` bytes, up to `most`; of a count that takes too long (terms_unsure()) those that were
 * found. */
int  term_count(struct terms *t, uint32_t a, int depth, int most);
/* The fewest bytes that close the free key which is written at `a`, or the term_string() `a`; of several the shortest.  TERM_MANY: none was found
 * that has fewer than 128 (terms_unsure(): nor was everything looked at). */
int  term_least(struct terms *t, uint32_t a);
/* Returns the part of `a` that is no free key: the rests of members' names. */
uint32_t term_members(struct terms *t, uint32_t a);
bool term_matches(struct terms *t, uint32_t a, struct text bytes);
/* The derivative.  `key` is used for a taker only. */
uint32_t term_next(struct terms *t, uint32_t a, uint8_t byte, struct text key);
bool term_may_end(const struct terms *t, uint32_t a);
/* True if the term's form says that any text may follow each of its strings. */
bool term_is_open(const struct terms *t, uint32_t a);
bool term_begins_key(const struct terms *t, uint32_t a);        /* the next byte is the first of a free key */
bool term_in_key(const struct terms *t, uint32_t a);            /* a free key is being written or was just closed */
/* Inside of a JSON string, between two characters: how many characters of any kind may follow, after which nothing but its closing quote may, at
 * most TERM_MANY; 0 elsewhere.  *key: it is a key. */
int  term_free_chars(const struct terms *t, uint32_t a, bool *key);
/* Returns a term that all strings share in which the same characters may follow, for tables by term, and the byte that closes them.  0: `a` is not
 * inside of such a string. */
uint32_t term_string_class(struct terms *t, uint32_t a, uint8_t *closer);
