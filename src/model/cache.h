/* What a sequence leaves behind in a model: KV rows of the full-attention layers and of the MTP block, and the
 * DeltaNet and convolution states.  KV rows below a position never change; the states exist only for the newest
 * committed position, so whoever wants to come back to a position keeps a copy of them (cache_state_save). */
#ifndef Q35_MODEL_CACHE_H
#define Q35_MODEL_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "kernels/tensor.h"
#include "model/config.h"
#include "model/kv_recipe.h"

struct dev;
struct cache;

/* Bytes for n_ctx positions, MTP rows included; of one copy of the states; of what steps need besides: rings and a second copy. */
size_t cache_kv_bytes(const struct model_config *c, const struct kv_recipe *r, int n_ctx);
size_t cache_state_bytes(const struct model_config *c);
size_t cache_step_bytes(const struct model_config *c);

/* Room for n_ctx positions. */
struct cache *cache_open(struct dev *d, const struct model_config *c, const struct kv_recipe *r, int n_ctx, struct err *e);
void cache_close(struct cache *k);

/* Back to the empty sequence: states zero, nothing staged. */
void cache_reset(struct cache *k);
/* Of the rows staged by the last forward_run(ROWS_STAGE), the first n belong to the sequence; the others never were. */
void cache_accept(struct cache *k, int n);
/* Copies the states of the committed position to or from cache_state_bytes() bytes of host memory.  Saving applies
 * accepted rows first.  Loading drops what is staged.  The copy also holds the last hidden state, which the MTP block
 * needs when the sequence goes on. */
void cache_state_save(struct cache *k, void *dst);
void cache_state_load(struct cache *k, const void *src);

#endif
