/* How keys and values are stored: the rows of config/kv_recipes.def. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "kernels/kv.h"
#include "kernels/tensor.h"

struct kv_recipe {
    const char    *name;                /* "f32", "tq4" */
    enum dtype     dtype;               /* of exact rows */
    enum kv_format keys, values;        /* of the others */
    int            sinks, recent;       /* positions that stay exact */
    const char    *help;
};

/* NULL when unknown; the error lists those that there are. */
const struct kv_recipe *kv_recipe_find(const char *name, struct err *e);
/* Row i of the table; NULL behind the last. */
const struct kv_recipe *kv_recipe_at(int i);

/* Which memory a device reads rows from: a CPU the host's, a GPU its own or one that it shares with the host. */
enum kv_memory { KV_HOST, KV_OWN, KV_SHARED };
/* Returns the recipe that makes steps cheapest in a context of n_ctx positions, and why (config/kv_auto.def); NULL: the device's default. */
const struct kv_recipe *kv_recipe_auto(enum kv_memory memory, int n_ctx, const char **why);

static inline bool kv_recipe_compresses(const struct kv_recipe *r) { return r->keys != KV_EXACT; }
