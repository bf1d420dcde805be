#include "bench/prompt_cost.h"

#include <math.h>

#include "kernels/deltanet.h"
#include "kernels/gemm.h"
#include "model/traffic.h"

/* A chunk of n rows at pos, and its cost so far.  Sizes of activations are bytes of a number: fp32 4, fp16 2. */
struct chunk {
    const struct model_config   *c;
    const struct kv_recipe      *kv;
    const struct prompt_machine *m;
    double n, pos;
    struct prompt_cost sum;
};

static void add(struct chunk *k, double bytes, double flops)
{
    k->sum.bytes += bytes;
    k->sum.flops += flops;
    k->sum.ms += fmax(bytes / (k->m->gb_s * 1e6), flops / (k->m->tflop_s * 1e9));
}

/* Adds a product over rows that the operation before left in fp16; narrow products read fp32.  `old`: bytes of the rows that it adds to. */
static void product(struct chunk *k, const struct weight *w, int old)
{
    const double halves = gemm_halves((int)k->n), x = linear_narrow(w) ? 4 : 2 * halves;
    add(k, (double)traffic_matrix(w, true) + k->n * (x * w->cols + (4 + old) * w->rows),
        2 * k->n * w->rows * w->cols * (linear_narrow(w) ? 2 : halves));
}

static void norm(struct chunk *k)
{
    add(k, k->n * k->c->hidden * (4 + 4 + 2 * gemm_halves((int)k->n)), 0);
}

static void delta(struct chunk *k, const struct delta_weights *w)
{
    const struct model_config *c = k->c;
    const double n = k->n, conv = config_conv_dim(c), key = config_lin_key_dim(c), value = config_lin_value_dim(c), dk = c->lin_k_dim,
        dv = c->lin_v_dim;
    product(k, &w->qkv, 0);
    product(k, &w->z, 0);
    product(k, &w->a, 0);
    product(k, &w->b, 0);
    add(k, 8 * n * conv, 0);                                            /* conv */
    add(k, n * (4 * key + 4 * c->lin_v_heads) * 4, 0);                  /* deltanet_gates */
    add(k, (n * (2 * key + 2 * value) + 2 * value * dk) * 4, n * c->lin_v_heads * (2 * DELTANET_CHUNK * (3 * dk + 2 * dv) + 6 * dk * dv));
    add(k, n * value * (4 + 4 + 2 * gemm_halves((int)n)), 0);           /* rmsnorm_gated */
    product(k, &w->out, 4);
}

/* Bytes of K and V rows alone. */
static void attention_rows(struct chunk *k, const struct attn_weights *w)
{
    const struct model_config *c = k->c;
    const double kv = (double)c->n_kv_heads * c->head_dim;
    product(k, &w->k, 0);
    product(k, &w->v, 0);
    add(k, 2 * k->n * kv * 4 * (1 + (double)c->rotary_dim / c->head_dim), 0);              /* norm, rope */
    add(k, k->n * 2 * kv * (4 + 2), 0);                                 /* kv_store */
}

static void attention(struct chunk *k, const struct attn_weights *w)
{
    const struct model_config *c = k->c;
    const double n = k->n, q = (double)c->n_q_heads * c->head_dim, end = k->pos + n;
    product(k, &w->q, 0);
    attention_rows(k, w);
    add(k, 2 * n * q * 4 * (1 + (double)c->rotary_dim / c->head_dim), 0);                  /* norm, rope */
    add(k, (double)kv_token_bytes(c, k->kv) / c->n_full * end + 2 * n * q * 4, 4 * n * (k->pos + n / 2) * q);
    add(k, n * q * (4 + 4 + 2 * gemm_halves((int)n)), 0);               /* gate */
    product(k, &w->o, 4);
}

static void mixture(struct chunk *k, const struct moe_weights *w)
{
    const struct model_config *c = k->c;
    const double n = k->n, slots = n * (c->top_k + 1), inter = c->moe_inter, halves = gemm_halves((int)n);
    const double distinct = c->n_experts * (1 - pow(1 - (double)c->top_k / c->n_experts, n));
    const struct expert_weights *x = &w->experts[0], *s = &w->shared;
    const double up = distinct * (double)(traffic_matrix(&x->gate, true) + traffic_matrix(&x->up, true))
                      + (double)(traffic_matrix(&s->gate, true) + traffic_matrix(&s->up, true));
    const double down = distinct * (double)traffic_matrix(&x->down, true) + (double)traffic_matrix(&s->down, true);
    product(k, &w->router, 0);
    product(k, &w->shared_gate, 0);
    add(k, n * (c->n_experts + 4 * c->top_k) * 4, 0);                   /* router, moe_group */
    add(k, up + n * c->hidden * 2 * halves + slots * inter * 4, 4 * slots * inter * c->hidden * halves);
    add(k, slots * inter * (4 + 2 * halves), 0);                        /* fp16 rows for the next */
    add(k, down + slots * (inter * 2 * halves + c->hidden * 4), 2 * slots * inter * c->hidden * halves);
    add(k, n * (c->top_k + 3) * c->hidden * 4, 0);                      /* moe_combine */
}

static void layer(struct chunk *k, const struct layer_weights *l)
{
    norm(k);
    if (l->full)
        attention(k, &l->attn);
    else
        delta(k, &l->delta);
    norm(k);
    mixture(k, &l->moe);
}

struct prompt_cost prompt_cost(const struct model_config *c, const struct weights *w, const struct kv_recipe *kv, int n_tokens, int chunk,
                               const struct prompt_machine *m)
{
    struct chunk k = {.c = c, .kv = kv, .m = m};
    for (int pos = 0; pos < n_tokens; pos += chunk) {
        k.pos = pos;
        k.n = n_tokens - pos < chunk ? n_tokens - pos : chunk;
        for (int i = 0; i < c->n_layers; i++)
            layer(&k, &w->layers[i]);
        if (w->mtp.present) {
            product(&k, &w->mtp.fc, 0);
            norm(&k);
            attention_rows(&k, &w->mtp.layer.attn);
        }
    }
    return k.sum;
}
