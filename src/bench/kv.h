/* Parts of `q35chat bench kv`: what compressed keys and values cost in quality. */
#ifndef Q35_BENCH_KV_H
#define Q35_BENCH_KV_H

#include "base/ids.h"
#include "bench/report.h"
#include "engine/load.h"

/* Attention over keys and values of known kinds, in the geometry of a large model: error of its output, and planted keys that it must find.
 * False with the reason. */
bool kv_attention(struct report *r, struct dev *d, struct err *e);
/* Distributions of the next token over a text, against the exact recipe of the model, which is open with it. */
bool kv_text(struct report *r, struct model *m, const char *path, int n_ctx, struct err *e);

/* Tool calls behind the beginning of that text, at several lengths. */
bool kv_calls(struct report *r, struct model *m, const struct ids *text, struct err *e);

/* The recipes that a device takes for heads of this model, the exact one first; at most `most`. */
int kv_recipes_of(const struct dev *d, const struct model_config *c, const struct kv_recipe **out, int most);
enum { KV_MOST_RECIPES = 8 };

#endif
