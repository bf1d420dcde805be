#include "bench/cost.h"

#include <math.h>

#include "base/err.h"
#include "kernels/deltanet.h"
#include "kernels/gemm.h"
#include "kernels/linear.h"
#include "model/traffic.h"

/* A chunk of n rows at pos, and its operations so far.  Sizes of activations are bytes of a number: fp32 4, fp16 2. */
struct chunk {
    const struct model_config *c;
    const struct kv_recipe    *kv;
    double n, pos;
    bool   int8;
    struct prompt_layer *sum;
};

static void add(struct chunk *k, const char *name, double weights, double read, double written, double flops)
{
    CHECK(k->sum->n < PROMPT_OPERATIONS);
    k->sum->all[k->sum->n++] = (struct prompt_operation){name, weights, read, written, flops};
}

/* Bytes of a number of the copy that products read (kernels/gemm.h). */
static double copied(const struct chunk *k) { return 2 * gemm_halves((int)k->n); }

/* Bytes of a number in rows that one operation leaves for another alone (kernels/cuda/packets.cuh). */
static double left(const struct chunk *k, double cols) { return gemm_packets((int)k->n, (int)cols) ? 2 : 4; }

/* Bytes of a number of the rows that a product reads, and its operations; narrow ones read fp32 and compute twice. */
static double number_read(const struct chunk *k, const struct weight *w) { return linear_narrow(w) ? 4 : copied(k); }
static double operations(const struct chunk *k, const struct weight *w)
{
    return 2 * k->n * w->rows * w->cols * (linear_narrow(w) ? 2 : gemm_halves((int)k->n));
}

/* Adds a product over rows that the operation before left in fp16.  `old`: bytes of a number of the rows that it adds to;
 * to: of those that it writes. */
static void product(struct chunk *k, const char *name, const struct weight *w, int old, double to)
{
    add(k, name, (double)traffic_matrix(w, true), k->n * (number_read(k, w) * w->cols + old * w->rows), k->n * to * w->rows, operations(k, w));
}

/* Adds two products over the same rows, which narrow ones read once for both. */
static void product_pair(struct chunk *k, const char *name, const struct weight *a, const struct weight *b)
{
    const bool once = linear_narrow(a) && linear_narrow(b);
    add(k, name, (double)(traffic_matrix(a, true) + traffic_matrix(b, true)), k->n * a->cols * (number_read(k, a) + (once ? 0 : number_read(k, b))),
        k->n * 4 * (a->rows + b->rows), operations(k, a) + operations(k, b));
}

/* Bytes of a row in eight bits: codes, scales of groups, columns apart (kernels/cuda/int8_rows.cuh). */
static double eight(double cols) { return cols * (1 + 4.0 / INT8_GROUP) + 2 * INT8_APART; }

static bool is_int8(const struct chunk *k, const struct weight *w) { return k->int8 && gemm_int8(w, (int)k->n); }

/* Adds a product of the rows that mixers read, which may be in eight bits. */
static void product_int8(struct chunk *k, const char *name, const struct weight *w, double to)
{
    if (!is_int8(k, w)) {
        product(k, name, w, 0, to);
        return;
    }
    add(k, name, (double)traffic_matrix(w, true), k->n * eight(w->cols), k->n * to * w->rows, k->n * w->rows * w->cols);
}

/* Adds a norm for these products alone, the first of which may be in eight bits; it leaves rows in fp32 as well where one of them is narrow. */
static void norm(struct chunk *k, const char *name, const struct weight *const *next, int n_next)
{
    const double hidden = k->c->hidden;
    bool plain = false;
    for (int i = 0; i < n_next; i++)
        plain = plain || linear_narrow(next[i]);
    add(k, name, 0, k->n * hidden * 4, k->n * (hidden * ((plain ? 4 : 0) + copied(k)) + (is_int8(k, next[0]) ? eight(hidden) : 0)), 0);
}

static void delta(struct chunk *k, const struct delta_weights *w)
{
    const struct model_config *c = k->c;
    const double n = k->n, conv = config_conv_dim(c), value = config_lin_value_dim(c), dk = c->lin_k_dim, dv = c->lin_v_dim,
        heads = c->lin_v_heads;
    product_int8(k, "in_proj_qkv", &w->qkv, left(k, conv));
    product_pair(k, "in_proj_a, in_proj_b", &w->a, &w->b);
    add(k, "deltanet_chunk", 0, n * conv * left(k, conv) + (2 * n * heads + value * dk) * 4, n * value * 4 + value * dk * 4,
        n * heads * (2 * DELTANET_CHUNK * (3 * dk + 2 * dv) + 6 * dk * dv));
    if (linear_gates(&w->z, &w->out, c->lin_v_dim, (int)n)) {
        add(k, "in_proj_z, gated norm", (double)traffic_matrix(&w->z, true), n * (copied(k) * w->z.cols + 4 * value), n * value * copied(k),
            2 * n * value * w->z.cols);
    } else {
        product(k, "in_proj_z", &w->z, 0, 4);
        add(k, "rmsnorm_gated", 0, n * value * (4 + 4), n * value * copied(k), 0);
    }
    product(k, "linear_attn.out_proj", &w->out, 4, 4);
}

/* Adds K and V rows alone. */
static void attention_rows(struct chunk *k, const struct attn_weights *w)
{
    const struct model_config *c = k->c;
    const double kv = (double)c->n_kv_heads * c->head_dim, turned = (double)c->rotary_dim / c->head_dim;
    product_int8(k, "k_proj", &w->k, 4);
    product_int8(k, "v_proj", &w->v, 4);
    add(k, "norm, rope of k", 0, k->n * kv * 4 * (1 + turned), k->n * kv * 4 * (1 + turned), 0);
    add(k, "kv_store", 0, k->n * 2 * kv * 4, k->n * 2 * kv * 2, 0);
}

static void attention(struct chunk *k, const struct attn_weights *w)
{
    const struct model_config *c = k->c;
    const double n = k->n, q = (double)c->n_q_heads * c->head_dim, end = k->pos + n;
    product_int8(k, "q_proj", &w->q, 4);
    attention_rows(k, w);
    const bool gated = gemm_halves((int)n) == 1;
    add(k, gated ? "attention, gate" : "attention", 0, (double)kv_token_bytes(c, k->kv) / c->n_full * end + n * q * (gated ? 8 : 4),
        n * q * (gated ? copied(k) : 4), 4 * n * (k->pos + n / 2) * q);
    if (!gated)
        add(k, "sigmoid_gate", 0, 2 * n * q * 4, n * q * copied(k), 0);
    product(k, "o_proj", &w->o, 4, 4);
}

static void mixture(struct chunk *k, const struct moe_weights *w)
{
    const struct model_config *c = k->c;
    const double n = k->n, routed = n * c->top_k, slots = routed + n, inter = c->moe_inter, halves = gemm_halves((int)n), hidden = c->hidden;
    const double distinct = c->n_experts * (1 - pow(1 - (double)c->top_k / c->n_experts, n));
    const struct expert_weights *x = &w->experts[0], *s = &w->shared;
    const double up = distinct * (double)(traffic_matrix(&x->gate, true) + traffic_matrix(&x->up, true))
                      + (double)(traffic_matrix(&s->gate, true) + traffic_matrix(&s->up, true));
    const double down = distinct * (double)traffic_matrix(&x->down, true) + (double)traffic_matrix(&s->down, true);
    product_pair(k, "mlp.gate, shared_expert_gate", &w->router, &w->shared_gate);
    add(k, "router, moe_group", 0, n * (c->n_experts + c->top_k) * 4, n * (3 * c->top_k + 1) * 4, 0);
    const bool int8 = is_int8(k, &x->gate) && !gemm_few_routed((int)n, c->top_k, c->n_experts);
    const bool own = halves == 1;       /* experts_up writes what experts_down reads */
    const double up_slots = int8 ? routed / 2 + n : slots * halves;
    add(k, "experts_up", up, n * (hidden * copied(k) + (int8 ? eight(hidden) : 0)), slots * inter * (own ? copied(k) : 4),
        4 * up_slots * inter * hidden);
    if (!own)
        add(k, "fp16 rows for experts_down", 0, slots * inter * 4, slots * copied(k) * inter, 0);
    add(k, "experts_down", down, slots * copied(k) * inter, slots * hidden * left(k, hidden), 2 * slots * halves * inter * hidden);
    add(k, "moe_combine", 0, slots * hidden * left(k, hidden) + n * hidden * 4, n * hidden * 4, 0);
}

void prompt_layer(struct prompt_layer *to, const struct model_config *c, const struct layer_weights *w, const struct kv_recipe *kv, int n_tokens,
                  int pos, bool int8)
{
    struct chunk k = {.c = c, .kv = kv, .n = n_tokens, .pos = pos, .int8 = int8, .sum = to};
    to->n = 0;
    if (w->full) {
        norm(&k, "input_layernorm", (const struct weight *[]){&w->attn.q, &w->attn.k, &w->attn.v}, 3);
        attention(&k, &w->attn);
    } else {
        norm(&k, "input_layernorm", (const struct weight *[]){&w->delta.qkv, &w->delta.z, &w->delta.a, &w->delta.b}, 4);
        delta(&k, &w->delta);
    }
    norm(&k, "post_attention_layernorm", (const struct weight *[]){&w->moe.experts[0].gate, &w->moe.shared_gate}, 2);
    mixture(&k, &w->moe);
}

static void spend(struct prompt_cost *sum, const struct prompt_layer *l, const struct prompt_machine *m)
{
    for (int i = 0; i < l->n; i++) {
        const struct prompt_operation *o = &l->all[i];
        const double bytes = o->weights + o->read + o->written;
        sum->bytes += bytes;
        sum->flops += o->flops;
        sum->ms += fmax(bytes / (m->gb_s * 1e6), o->flops / (m->tflop_s * 1e9));
    }
}

struct prompt_cost prompt_cost(const struct model_config *c, const struct weights *w, const struct kv_recipe *kv, int n_tokens, int chunk,
                               bool int8, const struct prompt_machine *m)
{
    struct prompt_cost sum = {0};
    struct prompt_layer l;
    for (int pos = 0; pos < n_tokens; pos += chunk) {
        const int n = n_tokens - pos < chunk ? n_tokens - pos : chunk;
        for (int i = 0; i < c->n_layers; i++) {
            prompt_layer(&l, c, &w->layers[i], kv, n, pos, int8);
            spend(&sum, &l, m);
        }
        if (w->mtp.present) {
            struct chunk k = {.c = c, .kv = kv, .n = n, .pos = pos, .sum = &l};
            l.n = 0;
            product(&k, "mtp.fc", &w->mtp.fc, 0, 4);
            norm(&k, "input_layernorm", (const struct weight *[]){&w->mtp.layer.attn.k, &w->mtp.layer.attn.v}, 2);
            attention_rows(&k, &w->mtp.layer.attn);
            spend(&sum, &l, m);
        }
    }
    return sum;
}
