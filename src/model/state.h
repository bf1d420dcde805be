/* The states of one conversation that depend on all of its tokens: those of the DeltaNet layers (recurrent state, window of the convolution), and
 * the last hidden state, which the MTP block needs.  Only cache.c depends on which copy is committed, and which rows that lacks.
 *
 * Two forms.  For prompts the states are those of `pos`, in `state` and `window`.  For steps the rings hold the newest raw rows by position, and
 * the recurrent states lie in `state` or `other`, by parity: each step first applies the rows that were accepted before it and writes the
 * result to the other copy (kernels/step.h), so rows that were not accepted are never undone.
 *
 * For src/model only; everybody else has model/cache.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "kernels/step.h"
#include "model/config.h"
#include "model/kv.h"

struct dev;
struct weights;
struct delta_weights;

/* Memory of one DeltaNet layer. */
struct delta_state {
    float *state;                       /* [lin_v_heads, dk, dv] fp32 */
    float *window;                      /* [conv_kernel - 1, conv_dim] */
    float *ring, *ring_a, *ring_b;      /* [STEP_RING, conv_dim], [STEP_RING, lin_v_heads]: raw inputs by position */
    float *other;                       /* the second copy of `state` */
};

struct state {
    struct dev                *dev;
    const struct model_config *cfg;
    struct delta_state *delta;          /* [n_delta] */
    float *last_hidden;                 /* [hidden], the last of the cache_state_bytes() bytes of `memory` */
    void  *memory;                      /* state_slot_bytes() of device memory */
    int    pos;                         /* committed: position after the accepted rows */
    int    n_staged;                    /* rows of the last step, before cache_accept() */
    int    n_accepted;                  /* accepted rows that the committed copy lacks */
    bool   stepping;                    /* in the form for steps */
    int    parity;                      /* when stepping: 1 when the committed copy is `other` */
    const struct weights *weights;
    struct step_live     *live;         /* device memory, owned by who runs the steps */
};

size_t state_slot_bytes(const struct model_config *c);  /* of the states and of what steps need besides (model/cache.h) */

/* Change between the forms; no effect if the states have that form.  Ending applies the accepted rows. */
void state_begin_steps(struct state *s, const struct weights *w, struct step_live *live, int pos);
void state_end_steps(struct state *s);

/* Steps that the host decides on, one by one, in this order, then cache_accept(): */
struct step_live state_next_step(const struct state *s);        /* what the device needs for the next step */
void state_ran_step(struct state *s, int n);            /* it has run n rows */

/* Takes over what steps that the device ran by itself left in `live`, except for the last `back` (0 to 2) steps, which accepted tokens[0] tokens (the
 * last one) and tokens[1].  Returns the row of step_pick's last_hidden that has the hidden state before the position. */
int  state_take_over(struct state *s, const struct step_live *live, int back, const int tokens[2]);

/* Queues one DeltaNet layer of a step. rows:  NULL for one conversation; else s and live are those of slot 0, and each slot lies state_slot_bytes()
 * behind the one before. */
void state_delta_step(const struct state *s, int layer, const struct delta_weights *w, const struct step_live *live, const struct step_row *rows,
                      float *y, float *ssq, const float *z, int n);

/* ---- a conversation, as cache.c, the forward pass and the steps see it ---- */

/* Memory of all conversations. */
struct cache_memory {
    struct dev *dev;
    struct kv  *kv;
    void       *states;
    size_t      state_bytes;            /* from one conversation's states to the next one's */
};

/* The positions of a conversation's rows (cache_set_positions). */
struct positions {
    const struct rope_position *at;     /* [n], the caller's */
    int n, offset;
};

struct cache {
    const struct model_config *cfg;
    const struct kv_recipe    *recipe;
    int                   n_ctx;
    int                   slot;         /* which of all it is */
    struct cache_memory  *memory;
    const struct kv_rows *kv;           /* [n_full, then the MTP block's] */
    struct state          state;
    struct positions      positions;
    const struct picture_rows *pictures;        /* [n_pictures], the caller's (cache_set_pictures) */
    int                   n_pictures;
};

/* Returns the offset of the rows of a step, which are text. */
static inline struct rope_position cache_rope_offset(const struct cache *k)
{
    const int offset = k->positions.offset;
    return (struct rope_position){offset, offset, offset};
}
