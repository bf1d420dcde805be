/* The tokens of a vocabulary by their bytes, for guide.c: a trie of all of them, and for each set of bytes that a place of a text repeats
 * freely, such as the inside of a string, the tokens made of these alone (a ready mask) with a small trie of the others. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/ids.h"
#include "base/text.h"

/* A vocabulary is made once for each tokenizer, in some 0.1 s for 248,320 ids, and shared by all guides. */

struct tokenizer;
struct guide_vocabulary;

struct guide_token {
    struct text bytes;                  /* empty: never admissible */
    bool mark;
};
struct guide_vocabulary_hooks {
    /* Appends the ids that the model would have had for the text.  marks: those of marks in the text too. */
    void (*encode)(const void *arg, struct text t, bool marks, struct ids *out);
    const void *arg;
};

/* The tokenizer stays the caller's, and valid as long as the vocabulary. */
struct guide_vocabulary *guide_vocabulary_of(const struct tokenizer *t);
/* Makes the vocabulary of n tokens, by id; bytes and hooks are copied.  think_end: the id of </think>, or -1. */
struct guide_vocabulary *guide_vocabulary_new(const struct guide_token *tokens, int n, int32_t think_end,
                                              const struct guide_vocabulary_hooks *hooks);
struct guide_vocabulary *guide_vocabulary_retain(struct guide_vocabulary *v);
void guide_vocabulary_release(struct guide_vocabulary *v);

/* ---- for guide.c ---- */

/* A node, in preorder: its children follow it, `next` is the node after its subtree. */
struct trie_node {
    uint32_t next;
    uint32_t first;                     /* its own ids are ids[first] up to that of the following node */
    uint16_t depth;                     /* bytes of the path to it, 1 and more */
    uint8_t  byte;
};
struct trie {
    struct trie_node *nodes;            /* [n + 1], the last one ends the list */
    int32_t *ids;
    int n, n_ids, depth;                /* depth: of the deepest node */
};

enum { SLICE_MAX = 32 };                /* bytes of the longest token in a ready mask */

struct slice {
    uint64_t free[2];                   /* ASCII bytes that the place repeats; characters beyond ASCII count as free, too, but for blanks */
    uint32_t *bits;                     /* [guide_words] ids made of these alone */
    struct trie rest;                   /* all other ids */
};

struct vocabulary_token {
    uint32_t at, n;                     /* range of `bytes`; n 0: never admissible */
    uint16_t shared;                    /* bytes at its beginning that the token before it in the trie has, too */
    uint64_t ascii[2];                  /* the bytes of ASCII in it */
    bool     plain;                     /* it has at most SLICE_MAX bytes, which are whole characters, and no blanks beyond ASCII */
    uint8_t  chars;                     /* of a plain one */
};

struct guide_vocabulary {
    atomic_int references;
    struct guide_vocabulary_hooks hooks;
    int n, n_words;                     /* ids; words of a mask */
    char *bytes;
    struct vocabulary_token *tokens;    /* [n] */
    bool *mark;                         /* [n] struct guide_token */
    int32_t think_end;
    struct trie all;                    /* without marks */
    int32_t *marks;                     /* [n_marks] */
    int n_marks;
    struct slices *slices;
};

/* True for a blank of Unicode beyond ASCII or the end of a line or paragraph there: what . and \S of a pattern leave out.  No ready mask has a token
 * with one. */
bool vocabulary_blank(uint32_t cp);
/* The slice of the inside of JSON strings. */
const struct slice *vocabulary_strings(struct guide_vocabulary *v);
/* Returns the slice of that set of ASCII bytes, which is made when it is first asked for; NULL where there are too many sets.  On any
 * thread. */
const struct slice *vocabulary_slice(struct guide_vocabulary *v, const uint64_t free_bytes[2]);
