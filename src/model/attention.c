#include <math.h>

#include "model/blocks.h"

/* Appends K and V rows pos .. pos+n-1 of one KV layer. */
void attention_rows(const struct pass *p, const struct attn_weights *w, int kv_layer)
{
    struct forward *f = p->f;
    const struct model_config *c = f->cfg;
    const struct kv_rows *kv = &p->k->kv[kv_layer];
    const size_t d = (size_t)c->head_dim, kv_token = (size_t)c->n_kv_heads * d;
    float *k = f->kv, *v = k + (size_t)p->n * kv_token;

    linear(f, k, f->h, &w->k, p->n, false);
    linear(f, v, f->h, &w->v, p->n, false);
    RUN(f->dev, rmsnorm, .y = k, .x = k, .w = w->k_norm, .n_rows = p->n * c->n_kv_heads, .dim = c->head_dim, .eps = c->rms_eps);
    RUN(f->dev, rope, .x = k, .token_stride = kv_token, .head_stride = d, .freq = f->freq, .n_tokens = p->n,
        .n_heads = c->n_kv_heads, .half = c->rotary_dim / 2, .pos = p->pos, .scale = c->yarn_attention_factor);
    RUN(f->dev, kv_store, .kv = *kv, .k = k, .v = v, .n_tokens = p->n, .pos = p->pos);
    if (kv_sealed(kv, p->pos + p->n - 1) > kv_sealed(kv, p->pos - 1))
        RUN(f->dev, kv_seal, .kv = *kv, .from = kv_sealed(kv, p->pos - 1), .to = kv_sealed(kv, p->pos + p->n - 1));
}

/* x += o_proj(sigmoid(gate) * attention(q, k, v)).  Appends K and V rows pos .. pos+n-1 of one KV layer. */
void attention_block(const struct pass *p, const struct attn_weights *w, int kv_layer)
{
    struct forward *f = p->f;
    const struct model_config *c = f->cfg;
    const struct kv_rows *kv = &p->k->kv[kv_layer];
    size_t d = (size_t)c->head_dim, q_token = (size_t)c->n_q_heads * 2 * d;
    float *q = f->mixer_in, *gate = q + d;

    linear(f, q, f->h, &w->q, p->n, false);         /* [n, heads, 2, head_dim]: per head, query then gate */
    attention_rows(p, w, kv_layer);                 /* its products read the same, so they come next */
    RUN(f->dev, rmsnorm, .y = q, .x = q, .w = w->q_norm, .n_rows = p->n * c->n_q_heads, .dim = c->head_dim, .eps = c->rms_eps,
        .per_group = c->n_q_heads, .x_group = q_token, .x_row = 2 * d, .y_group = q_token, .y_row = 2 * d);
    RUN(f->dev, rope, .x = q, .token_stride = q_token, .head_stride = 2 * d, .freq = f->freq, .n_tokens = p->n,
        .n_heads = c->n_q_heads, .half = c->rotary_dim / 2, .pos = p->pos, .scale = c->yarn_attention_factor);
    RUN(f->dev, attention, .y = f->mixer_out, .q = q, .q_token = q_token, .q_head = 2 * d, .kv = *kv,
        .n_tokens = p->n, .n_q_heads = c->n_q_heads, .pos = p->pos, .scale = 1.0f / sqrtf((float)c->head_dim));
    RUN(f->dev, sigmoid_gate, .y = f->mixer_out, .gate = gate, .gate_token = q_token, .gate_head = 2 * d,
        .next = &w->o, .n_tokens = p->n, .n_heads = c->n_q_heads, .head_dim = c->head_dim);
    linear(f, f->x, f->mixer_out, &w->o, p->n, true);
}
