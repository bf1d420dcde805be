#include "base/ids.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

static void reserve(struct ids *l, int n)
{
    CHECK(n >= 0 && l->n <= INT32_MAX / 2 - n);
    if (l->n + n <= l->cap)
        return;
    int cap = l->cap ? l->cap : 64;
    while (cap < l->n + n)
        cap *= 2;
    l->data = memory_resized(l->data, (size_t)cap * sizeof *l->data);
    l->cap = cap;
}

void ids_add(struct ids *l, int32_t id)
{
    reserve(l, 1);
    l->data[l->n++] = id;
}

void ids_append(struct ids *l, const int32_t *ids, int n)
{
    reserve(l, n);
    if (n)
        memcpy(l->data + l->n, ids, (size_t)n * sizeof *ids);
    l->n += n;
}

void ids_free(struct ids *l)
{
    free(l->data);
    *l = (struct ids){0};
}
