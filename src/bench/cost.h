/* The cost of reading a prompt on a GPU, by calculation: each operation moves its operands once and does its arithmetic, and on a given machine takes
 * as long as the slower of both.  Operations come one after the other.  A bound, not a measurement: caches are left out, and so is the
 * difference between a machine's rates and those that kernels reach. */
#pragma once

#include "model/config.h"
#include "model/kv.h"
#include "model/weights.h"

/* One operation of a chunk: bytes of weights, of activations read and written, and operations in 16 bits; those in eight bits count half. */
struct prompt_operation {
    const char *name;
    double      weights, read, written, flops;
};
enum { PROMPT_OPERATIONS = 24 };        /* of a layer, at most */

/* A layer of a chunk of n tokens from pos on, operation by operation.  int8: as with --prompt-math int8. */
struct prompt_layer {
    int                     n;
    struct prompt_operation all[PROMPT_OPERATIONS];
};
void prompt_layer(struct prompt_layer *to, const struct model_config *c, const struct layer_weights *w, const struct kv_recipe *kv, int n_tokens,
                  int pos, bool int8);

struct prompt_machine {
    double gb_s, tflop_s;               /* of memory; of matrix products in 16 bits */
};
struct prompt_cost {
    double bytes, flops, ms;
};

/* Returns the cost of n_tokens in chunks of at most `chunk`, with the rows of the MTP block if the model has one. */
struct prompt_cost prompt_cost(const struct model_config *c, const struct weights *w, const struct kv_recipe *kv, int n_tokens, int chunk,
                               bool int8, const struct prompt_machine *m);
