/* The keys of clients over TCP, from a file that its owner alone can read: on each line NAME KEY, or one line with a KEY alone, whose name is
 * "default".  Lines that begin with # are comments.  Use is counted by name, also of keys that were taken out of the file since. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/text.h"

enum { KEYS_MOST = 64, KEYS_NAMES = 256, KEY_LEAST = 16 };      /* keys of a file; names that are counted; characters of a key */

struct key_use { unsigned long long requests, prompt_tokens, cached_tokens, tokens; };

struct key {
    char *name, *secret;                /* secret NULL: taken out of the file */
    unsigned left;                      /* the order in which names left the file */
    struct key_use use;
};

/* Plain value, valid as {0}; keys_free() frees it. */
struct keys {
    struct key *list;                   /* a key's index stays while its name is counted */
    int n;
    unsigned n_left;
    struct key_use forgotten;           /* of names that left the file when KEYS_NAMES others had come: each gives its place to a new name */
};

/* Reads the file, and makes one with a random key if there is none and `makes` is set.  On failure the keys are as before; *e names the line. */
bool keys_read(struct keys *k, const char *path, bool makes, struct err *e);
void keys_free(struct keys *k);
/* Returns the index of the key; -1: it is none of them.  Takes as long for a wrong key as for a right one. */
int  keys_find(const struct keys *k, struct text given);
