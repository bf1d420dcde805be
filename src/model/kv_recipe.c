#include "model/kv_recipe.h"

#include <string.h>

#include "base/buf.h"

static const struct kv_recipe recipes[] = {
#define KV(n, t, k, v, s, r, h) {n, t, k, v, s, r, h},
#include "config/kv_recipes.def"
#undef KV
};
enum { N_RECIPES = sizeof recipes / sizeof *recipes };

const struct kv_recipe *kv_recipe_at(int i)
{
    return i < N_RECIPES ? &recipes[i] : NULL;
}

const struct kv_recipe *kv_recipe_find(const char *name, struct err *e)
{
    struct buf known = {0};
    for (int i = 0; i < N_RECIPES; i++) {
        if (!strcmp(recipes[i].name, name)) {
            buf_free(&known);
            return &recipes[i];
        }
        buf_addf(&known, "%s%s", i ? ", " : "", recipes[i].name);
    }
    err_set(e, "the KV recipe is '%s', expected auto or one of: %s", name, buf_str(&known));
    buf_free(&known);
    return NULL;
}

const struct kv_recipe *kv_recipe_auto(enum kv_memory memory, int n_ctx, const char **why)
{
    static const struct { enum kv_memory memory; int n_ctx; const char *recipe, *why; } rows[] = {
#define KV_AUTO(m, c, r, w) {m, c, r, w},
#include "config/kv_auto.def"
#undef KV_AUTO
    };
    const struct kv_recipe *best = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].memory == memory && n_ctx >= rows[i].n_ctx) {
            best = kv_recipe_find(rows[i].recipe, NULL);
            *why = rows[i].why;
        }
    return best;
}
