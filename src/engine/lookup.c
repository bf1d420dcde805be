#include "engine/lookup.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    FIRST_BITS = 10,
    TRIES      = 32,                    /* places that are compared, the newest ones */
    COMPARED   = 64,                    /* ids of each */
};

void lookup_free(struct lookup *l)
{
    free(l->ids);
    free(l->earlier);
    free(l->newest);
    *l = (struct lookup){0};
}

/* Hashes the LOOKUP_LEAST ids that end at position i. */
static uint32_t hash_of(const struct lookup *l, int i)
{
    uint32_t h = 0;
    for (int k = 0; k < LOOKUP_LEAST; k++)
        h = (h ^ (uint32_t)l->ids[i - k]) * 0x9e3779b1u;
    return h >> (32 - l->bits);
}

/* Enters the trigram that ends at position i into the table, before earlier ones like it. */
static void insert(struct lookup *l, int i)
{
    l->earlier[i] = -1;
    if (i < LOOKUP_LEAST - 1)
        return;
    int32_t *newest = &l->newest[hash_of(l, i)];
    l->earlier[i] = *newest;
    *newest = i;
}

/* Makes a larger table, when the text has outgrown it. */
static void rehash(struct lookup *l, int bits)
{
    l->bits = bits;
    l->newest = memory_resized(l->newest, sizeof *l->newest << bits);
    memset(l->newest, -1, sizeof *l->newest << bits);
    for (int i = 0; i < l->n; i++)
        insert(l, i);
}

/* Returns how many ids up to position i are equal to those up to j, at most COMPARED. */
static int alike(const struct lookup *l, int i, int j)
{
    int n = 0;
    while (n < COMPARED && n <= i && l->ids[i - n] == l->ids[j - n])
        n++;
    return n;
}

/* Finds the longest match; of equal ones the newest. */
static void find(struct lookup *l)
{
    const int last = l->n - 1;
    l->length = 0;
    for (int i = l->earlier[last], tries = 0; i >= 0 && tries < TRIES; i = l->earlier[i], tries++) {
        const int n = alike(l, i, last);
        if (n >= LOOKUP_LEAST && n > l->length) {
            l->length = n;
            l->at = i + 1;
        }
    }
}

/* Appends an id to the text and to the table of its trigrams, which grows with it. */
static void append(struct lookup *l, int32_t id)
{
    if (!l->bits)
        rehash(l, FIRST_BITS);
    if (l->n >> l->bits)
        rehash(l, l->bits + 1);
    l->ids = memory_grow(l->ids, l->n, &l->cap, sizeof *l->ids);
    l->earlier = memory_grow(l->earlier, l->n, &l->cap_earlier, sizeof *l->earlier);
    l->ids[l->n] = id;
    insert(l, l->n++);
}

void lookup_add(struct lookup *l, int32_t id)
{
    const bool continues = l->length && l->ids[l->at] == id;
    append(l, id);
    if (continues) {                      /* no other match can have become longer than this one */
        l->at++;
        l->length++;
    } else {
        find(l);
    }
}

void lookup_begin(struct lookup *l, struct spans text)
{
    int k = 0;
    l->n = l->length = 0;
    if (l->bits)
        rehash(l, l->bits);
    for (int i = 0; i < text.n; i++) {
        while (k < text.n_pictures && i >= text.pictures[k].first + text.pictures[k].n)
            k++;
        append(l, k < text.n_pictures && i >= text.pictures[k].first ? -1 - i : text.ids[i]);
    }
    if (text.n)
        find(l);
}

int lookup_next(const struct lookup *l, int32_t *out, int most)
{
    const int known = l->n - l->at;
    if (!l->length)
        return 0;
    int n = 0;
    for (; n < most && (n >= known || l->ids[l->at + n] >= 0); n++)
        out[n] = n < known ? l->ids[l->at + n] : out[n - known];
    return n;
}
