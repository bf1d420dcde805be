/* Keys and values of conversations on a device: where the rows of each KV layer lie (struct kv_rows), by recipe.
 * KV layers are the full-attention layers in order, then the MTP block's.
 *
 * An exact recipe has a row for each position, which stays where it is.  A compressed one has codes for old positions, exact rows for
 * the first ones (sinks), and a ring of exact rows for the newest.  So a row that left the ring exists as codes alone, and a caller
 * that returns to an earlier position must keep a copy of the exact rows before that position: its tail (kv_tail_save). */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "kernels/attention.h"
#include "model/config.h"
#include "model/kv_recipe.h"

struct dev;
struct kv;

/* The numbers that decide how much memory the rows take. */
struct kv_shape {
    const struct model_config *cfg;
    const struct kv_recipe    *recipe;
    int n_ctx;                          /* positions of a conversation */
    int max_rows;                       /* most rows that a call stores */
    int n_slots;                        /* conversations */
};

int    kv_n_layers(const struct model_config *c);       /* full-attention layers, and the MTP block's */
size_t kv_bytes(const struct kv_shape *s);              /* device memory of all */
/* Returns the bytes that one position more takes in a long context, without the MTP block's. */
size_t kv_token_bytes(const struct model_config *c, const struct kv_recipe *r);
/* Returns the bytes of rows that a decode step reads for the row at `pos`, without the MTP block's. */
size_t kv_read_bytes(const struct model_config *c, const struct kv_recipe *r, int pos);
/* False with the reason if the model's heads are not of the size that codes are made for. */
bool   kv_recipe_fits(const struct kv_recipe *r, const struct model_config *c, struct err *e);

/* NULL with the reason. */
struct kv *kv_open(struct dev *d, const struct kv_shape *s, struct err *e);
void kv_close(struct kv *k);
/* Returns the rows of one conversation, [kv_n_layers()]. */
const struct kv_rows *kv_slot(const struct kv *k, int slot);
size_t kv_slot_bytes(const struct kv *k);               /* from one conversation's rows to the next one's */

/* Copy the exact rows before `pos` that rows from `pos` on need, those of the MTP block from pos - 1 on, to or from kv_tail_bytes() bytes of host
 * memory.  Positions below `pos` must not have changed in between.  Nothing for an exact recipe. */
size_t kv_tail_bytes(const struct model_config *c, const struct kv_recipe *r);
void   kv_tail_save(const struct kv *k, int slot, int pos, void *dst);
void   kv_tail_load(const struct kv *k, int slot, int pos, const void *src);

/* Copy what positions from..to-1 added to the rows of a conversation that has `to` of them, to or from kv_saved_bytes() bytes of host memory: with a
 * compressed recipe codes and sinks, which together with the tail at `to` are all that rows from `to` on need.  Consecutive ranges must be loaded in
 * their order. */
size_t kv_saved_bytes(const struct kv *k, int from, int to);
void   kv_save(const struct kv *k, int slot, int from, int to, void *dst);
void   kv_load(const struct kv *k, int slot, int from, int to, const void *src);
