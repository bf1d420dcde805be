/* The memory of a sequence in a model: KV rows of the full-attention layers and of the MTP block (model/kv.h), and the DeltaNet and convolution
 * states.  KV rows below a position never change; the states exist only for the newest committed position, so a caller that returns to a position
 * later must keep a copy of them (cache_state_save). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "kernels/rope.h"
#include "model/config.h"
#include "model/kv.h"

struct dev;
struct cache;

size_t cache_state_bytes(const struct model_config *c);         /* one copy of the states */
size_t cache_step_bytes(const struct model_config *c);          /* what steps need besides: rings and a second copy */
/* Returns the size of what cache_state_save() writes: the states, and the exact KV rows before the position when others are compressed. */
size_t cache_saved_bytes(const struct model_config *c, const struct kv_recipe *r);

/* Opens s->n_slots conversations of that shape, whose memory lies at equal distances, so that one step can hold rows of several.  `all` is {NULL}
 * before.  False with the reason; caches_close() either way. */
bool caches_open(struct cache **all, struct dev *d, const struct kv_shape *s, struct err *e);
void caches_close(struct cache **all, int n);
struct cache *cache_open(struct dev *d, const struct kv_shape *s, struct err *e);       /* one conversation, whatever n_slots is */
void cache_close(struct cache *k);
const struct kv_recipe *cache_recipe(const struct cache *k);

/* Sets the positions that rope turns the rows of the sequence by: at[i] for KV row i < n, and i + offset on all three axes for the rows after these.
 * Before the first call, and after cache_reset(), a row's position is its index, as in text.  The tokens of a picture have positions of their own,
 * and the text after a picture has an offset below zero (docs/model.md).  `at` must stay valid until row n - 1 has been run.  Rows that were run
 * before keep their positions.  The rows of an answer, and the row before it, must not be below n. */
void cache_set_positions(struct cache *k, const struct rope_position *at, int n, int offset);
/* Rows of the vision tower that take the place of the embeddings of tokens first .. first + n - 1. */
struct picture_rows {
    int          first, n;
    const float *rows;                  /* [n, hidden] fp32 in device memory */
};
/* Sets the pictures that prompts of the sequence have from now on, in order.  p[n] and the rows must stay valid while tokens of them are run, and the
 * token before them with its row of the MTP block. */
void cache_set_pictures(struct cache *k, const struct picture_rows *p, int n);
/* Empties the sequence: states zero, nothing staged, positions of text, no pictures. */
void cache_reset(struct cache *k);
/* Lets the first n rows of the last step_run() join the sequence and drops the others. */
void cache_accept(struct cache *k, int n);
/* Copy what restores the committed position to and from cache_saved_bytes() bytes of host memory.  Saving applies accepted rows first.  Loading drops
 * what is staged.  The copy also holds the last hidden state, which the MTP block needs for the next token. */
void cache_state_save(struct cache *k, void *dst);
void cache_state_load(struct cache *k, const void *src);
/* Returns the position that such a copy restores. */
int  cache_saved_pos(const struct cache *k, const void *saved);
/* Copy what positions from..to-1 added to the KV rows to and from host memory (kv_save in model/kv.h). */
size_t cache_rows_bytes(const struct cache *k, int from, int to);
void   cache_rows_save(struct cache *k, int from, int to, void *dst);
void   cache_rows_load(struct cache *k, int from, int to, const void *src);
