/* Inside of the forward pass: its device memory, for prompts (model/prompt.c) and for steps (model/step.c). */
#pragma once

#include "backend/dev.h"
#include "model/state.h"

/* Memory of a decode step.  Rows lie one after the other: [n, width]. */
struct step_space {
    void  *memory;
    int64_t *stream;                    /* [n, hidden] residual stream (kernels/step.h) */
    float *halves;                      /* [2, n, hidden]: products of the MTP block's two inputs */
    float *h;                           /* [n, hidden] normed */
    float *hidden;                      /* [n, hidden] after the final norm */
    float *qg, *k, *v, *z, *y, *ssq;    /* inputs and outputs of the mixers; ssq: sums of squares of the heads of y */
    float *router, *gate;               /* [router parts]: sums of router logits [n, experts] and of the shared expert's gate [n] */
    size_t router_step;                 /* floats from one part to the next */
    float *router_ssq;                  /* [router parts, STEP_ROWS] sums of squares; the experts' operation divides by the rms */
    struct step_route *route;
    float *expert_h;                    /* SwiGLU outputs of the shared expert and of the routed ones */
    void  *attention;                   /* scratch of step_attention */
    float *mtp_h;                       /* [n, hidden] after mtp.norm */
    struct step_live *live;             /* for step_run() */
    int    overlap;                     /* for measurements: experts that neighbouring rows share; -1: as routed */
    int32_t *distinct;                  /* for measurements: [n_layers] distinct experts, host memory; NULL: not counted */
};

struct forward {
    struct dev                *dev;
    const struct model_config *cfg;
    const struct weights      *w;
    int      max_rows;
    void    *memory;
    /* of a prompt's chunk, fp32 or less, n rows */
    float   *x;                         /* [n, hidden] residual stream */
    float   *hidden;                    /* [n, hidden] after the final norm, kept until the next run */
    float   *h;                         /* [n, hidden] after a layer's norm */
    float   *mixer_in;                  /* attention: [n, heads, 2, head_dim] query and gate; DeltaNet: [n, conv_dim] raw; before the MTP block:
                                         * [n, 2 hidden] embedding and hidden side by side */
    float   *mixer_mid;                 /* DeltaNet on a CPU: [n, conv_dim] after the convolution; else NULL */
    float   *mixer_gate;                /* DeltaNet: z [n, value_dim], then the gated output, before the output projection */
    float   *mixer_out;                 /* [n, heads * head_dim] before the output projection; DeltaNet: [n, value_dim] of the rule */
    float   *kv;                        /* k [n, kv_heads, head_dim], then v */
    float   *a, *b, *beta, *g;          /* [n, lin_v_heads] */
    float   *router_logits;             /* [n, experts] */
    float   *router_weights;            /* [n, top_k] */
    float   *shared_gate;               /* [n] */
    float   *slots_h, *slots_d;         /* [n, top_k + 1, inter], [n, top_k + 1, hidden] */
    int32_t *ids, *experts, *slots, *start;
    float   *freq;                      /* [rotary_dim / 2] */
    struct rope_position *at;           /* [n] positions of the rows */
    int      math;                      /* enum prompt_math */
    float    most_value[MODEL_MAX_LAYERS];      /* on a GPU: no number of the V rows of an attention layer is greater; 0: not known */
    struct int8_apart *apart;           /* [n_layers, 2] columns apart behind the norms of a layer; NULL: all products are exact */
    const float *newest;                /* hidden states of the last run: `hidden`, or those of a step */
    struct step_space step;
};
