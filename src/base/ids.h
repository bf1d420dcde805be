/* Growable list of token ids.  Plain value, valid as {0}; the caller owns it and calls ids_free(). */
#pragma once

#include <stdint.h>
#include <stdlib.h>

#include "base/memory.h"

struct ids {
    int32_t *data;
    int      n, cap;
};

static inline void ids_add(struct ids *l, int32_t id)
{
    l->data = memory_grow(l->data, l->n, &l->cap, sizeof *l->data);
    l->data[l->n++] = id;
}

static inline void ids_append(struct ids *l, const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++)
        ids_add(l, ids[i]);
}

static inline void ids_free(struct ids *l)
{
    free(l->data);
    *l = (struct ids){0};
}
