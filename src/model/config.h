/* config.json of a Qwen3.5 MoE checkpoint, checked.  Plain values. */
#pragma once

#include <math.h>
#include <stdbool.h>

#include "base/err.h"

enum { MODEL_MAX_LAYERS = 256 };

/* The vision tower, which turns the patches of a picture into rows of the text model (model/vision.h). */
struct vision_config {
    int depth;                          /* blocks; 0: the model has no tower */
    int hidden, n_heads, inter;
    int n_positions, side;              /* learned positions, side x side of them */
    int out;                            /* out_hidden_size, which is the text model's hidden_size */
    int image_id, start_id, end_id;     /* <|image_pad|>, one for each row, between <|vision_start|> and <|vision_end|>; -1 when not given */
};

struct model_config {
    char  name[64];                     /* "Qwen3.5-122B-A10B" when config/models.def has the geometry, else "custom" */
    int   hidden;                       /* hidden_size */
    int   n_layers;
    bool  full[MODEL_MAX_LAYERS];       /* layer i is full attention (else Gated DeltaNet); from layer_types, else interval */
    int   n_full, n_delta;              /* how many of each */
    int   n_q_heads, n_kv_heads, head_dim;
    int   rotary_dim;                   /* head_dim * partial_rotary_factor */
    float rope_theta;
    float yarn_factor;                  /* 1 when rope_type is default */
    int   yarn_original;                /* original_max_position_embeddings; 0 when default */
    float yarn_beta_fast, yarn_beta_slow, yarn_attention_factor;   /* the last: multiplies cos and sin; 1 when default */
    int   lin_k_heads, lin_v_heads, lin_k_dim, lin_v_dim, conv_kernel;
    int   n_experts, top_k, moe_inter, shared_inter;
    int   vocab;
    int   max_pos;                      /* max_position_embeddings, or yarn_factor * yarn_original when that is more */
    float rms_eps;
    int   n_mtp;                        /* mtp_num_hidden_layers: 0 or 1; weights_open() finds whether its tensors are there */
    bool  tied;                         /* tie_word_embeddings: the head is the embedding table */
    struct vision_config vision;
    int   eos[8], n_eos;                /* from generation_config.json when there, else config.json */
    float gen_temperature, gen_top_p;   /* generation_config.json; negative when not given */
    int   gen_top_k;                    /* generation_config.json; negative when not given */
};

/* Reads DIR/config.json (and DIR/generation_config.json when it is there).  False with file, field, both values. */
bool config_load(struct model_config *c, const char *dir, struct err *e);
/* Reads the same from memory; `where` names the source in messages. */
bool config_parse(struct model_config *c, const char *json, unsigned long len, const char *where, struct err *e);

static inline int config_vision_head_dim(const struct model_config *c) { return c->vision.hidden / c->vision.n_heads; }
static inline int config_lin_key_dim(const struct model_config *c)   { return c->lin_k_heads * c->lin_k_dim; }
static inline int config_lin_value_dim(const struct model_config *c) { return c->lin_v_heads * c->lin_v_dim; }
static inline int config_conv_dim(const struct model_config *c)      { return 2 * config_lin_key_dim(c) + config_lin_value_dim(c); }

/* Returns the factor on cos and sin that YaRN has for a factor of positions; as get_mscale() of transformers. */
static inline float config_yarn_attention(double factor) { return (float)(0.1 * log(factor) + 1); }
