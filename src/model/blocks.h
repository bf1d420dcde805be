/* Inside of the forward pass: its work space and the blocks of a layer, one file each. */
#ifndef Q35_MODEL_BLOCKS_H
#define Q35_MODEL_BLOCKS_H

#include "backend/dev.h"
#include "model/forward.h"
#include "model/layout.h"

struct fused;

struct forward {
    struct dev                *dev;
    const struct model_config *cfg;
    const struct weights      *w;
    int      max_rows;
    void    *memory;
    /* all fp32, n rows */
    float   *x;                         /* [n, hidden] residual stream */
    float   *hidden;                    /* [n, hidden] after the final norm, kept until the next run */
    float   *h;                         /* [n, hidden] after a layer's norm */
    float   *h2;                        /* [n, 2 hidden] MTP: embedding and hidden side by side */
    float   *mixer_in;                  /* attention: [n, heads, 2, head_dim] query and gate; DeltaNet: [n, conv_dim] raw */
    float   *mixer_mid;                 /* DeltaNet: [n, conv_dim] after the convolution */
    float   *mixer_gate;                /* DeltaNet: z [n, value_dim] */
    float   *mixer_out;                 /* [n, heads * head_dim] or [n, value_dim] before the output projection */
    float   *kv;                        /* k [n, kv_heads, head_dim], then v */
    float   *a, *b, *beta, *g;          /* [n, lin_v_heads] */
    float   *router_logits;             /* [n, experts] */
    float   *router_weights;            /* [n, top_k] */
    float   *shared_gate;               /* [n] */
    float   *slots_h, *slots_d;         /* [n, top_k + 1, inter], [n, top_k + 1, hidden] */
    int32_t *ids, *experts, *slots, *start;
    float   *freq;                      /* [rotary_dim / 2] */
    const float *newest;                /* hidden states of the last run: `hidden`, or those of a step */
    struct fused *fused;                /* work space of steps */
};

/* One call of the forward pass: n rows from position pos. */
struct pass {
    struct forward *f;
    struct cache   *k;
    int             n, pos;
};

void linear(struct forward *f, float *y, const float *x, const struct weight *w, int n, bool add);     /* by the weight's own format */
void norm(struct forward *f, float *y, const float *x, const float *w, int n);
/* Each reads f->h, the normed input, and adds its result to f->x. */
void attention_block(const struct pass *p, const struct attn_weights *w, int kv_layer);
void attention_rows(const struct pass *p, const struct attn_weights *w, int kv_layer);       /* only its KV rows, and nothing to f->x */
void deltanet_block(const struct pass *p, const struct delta_weights *w, int delta_layer);
void moe_block(const struct pass *p, const struct moe_weights *w);
void layer_block(const struct pass *p, const struct layer_weights *w, int kv_layer, int delta_layer);

#endif
