/* A chunk of a prompt, operation by operation: read it beside docs/model.md.  Each block reads h, the normed input, and adds its result to x, the
 * residual stream; all rows are fp32. */
#include "model/prompt.h"

#include <math.h>
#include <stdlib.h>

#include "base/least.h"
#include "base/err.h"
#include "base/memory.h"
#include "model/workspace.h"

/* The n rows from KV row `pos` on of the sequence whose cache is k. */
struct pass {
    struct forward *f;
    struct cache   *k;
    int             n, pos;
    const struct rope_position *at;     /* device memory: where rope turns the rows; NULL: from `first` on, on all axes */
    int             first;
    int             layer;              /* -1: the MTP block */
};

/* Looks up the positions of n rows, and copies those that differ by axis to the device. */
static struct pass pass_of(struct forward *f, struct cache *k, int n, int pos)
{
    const struct positions *q = &k->positions;
    struct pass p = {.f = f, .k = k, .n = n, .pos = pos, .first = pos + q->offset, .layer = -1};
    if (pos >= q->n)
        return p;
    struct rope_position *at = memory_alloc((size_t)n * sizeof *at);
    for (int i = 0; i < n; i++) {
        const int text = pos + i + q->offset;
        at[i] = pos + i < q->n ? q->at[pos + i] : (struct rope_position){text, text, text};
    }
    f->dev->copy(f->dev, f->at, at, (size_t)n * sizeof *at);
    free(at);
    p.at = f->at;
    return p;
}

static void product(struct forward *f, const struct linear_args *l)
{
    struct linear_args a = *l;
    switch (a.w.format) {
    case WEIGHT_DENSE: RUN(f->dev, linear_dense, .l = a); break;
    case WEIGHT_INT4:  RUN(f->dev, linear_int4, .l = a); break;
    case WEIGHT_FP8:   RUN(f->dev, linear_fp8, .l = a); break;
    case WEIGHT_INT8:
    case WEIGHT_PLANES: RUN(f->dev, linear_int8, .l = a); break;
    case WEIGHT_NONE:  CHECK(!"a weight without a format"); break;
    }
}

/* Returns the columns apart of a product that is rounded, behind the first or the second norm of the layer; NULL: the product is exact, as all of
 * the MTP block are. */
static const struct int8_apart *rounded(const struct pass *p, enum prompt_math what, const struct weight *w, int second)
{
    const struct forward *f = p->f;
    const bool can = w->format == WEIGHT_INT4 || (f->math & PROMPT_INT8_ANY);
    return f->apart && p->layer >= 0 && (f->math & what) && can ? &f->apart[2 * p->layer + second] : NULL;
}

/* y = W h, of the input of a mixer. */
static void read_hidden(const struct pass *p, float *y, const struct weight *w, enum prompt_math what)
{
    product(p->f, &(struct linear_args){.y = y, .x = p->f->h, .w = *w, .n_tokens = p->n, .int8 = rounded(p, what, w, 0)});
}

/* y = W x (add: y += W x), by the operation for the weight's format. */
static void linear(struct forward *f, float *y, const float *x, const struct weight *w, int n, bool add)
{
    product(f, &(struct linear_args){.y = y, .x = x, .w = *w, .n_tokens = n, .add = add});
}

/* x = the embeddings of tokens pos .. pos+n-1, or of pictures among them the rows of the tower. */
static void embed_tokens(struct forward *f, const struct cache *k, const int32_t *ids, int n, int pos)
{
    const size_t H = (size_t)f->cfg->hidden;
    f->dev->copy(f->dev, f->ids, ids, (size_t)n * sizeof *ids);
    RUN(f->dev, embed, .y = f->x, .ids = f->ids, .table = f->w->embed, .n_tokens = n);
    for (int i = 0; i < k->n_pictures; i++) {
        const struct picture_rows *p = &k->pictures[i];
        const int from = most(p->first, pos), to = least(p->first + p->n, pos + n);
        if (from < to)
            f->dev->copy(f->dev, f->x + (size_t)(from - pos) * H, p->rows + (size_t)(from - p->first) * H, (size_t)(to - from) * H * sizeof *f->x);
    }
}

static void norm(struct forward *f, float *y, const float *x, const float *w, int n)
{
    RUN(f->dev, rmsnorm, .y = y, .x = x, .w = w, .n_rows = n, .dim = f->cfg->hidden, .eps = f->cfg->rms_eps);
}

/* Appends K and V rows pos .. pos+n-1 of one KV layer. */
static void attention_rows(const struct pass *p, const struct attn_weights *w, int kv_layer)
{
    struct forward *f = p->f;
    const struct model_config *c = f->cfg;
    const struct kv_rows *kv = &p->k->kv[kv_layer];
    const size_t d = (size_t)c->head_dim, kv_token = (size_t)c->n_kv_heads * d;
    float *k = f->kv, *v = k + (size_t)p->n * kv_token;

    read_hidden(p, k, &w->k, PROMPT_INT8_QKV);
    read_hidden(p, v, &w->v, PROMPT_INT8_QKV);
    RUN(f->dev, rmsnorm, .y = k, .x = k, .w = w->k_norm, .n_rows = p->n * c->n_kv_heads, .dim = c->head_dim, .eps = c->rms_eps);
    RUN(f->dev, rope, .x = k, .token_stride = kv_token, .head_stride = d, .freq = f->freq, .n_tokens = p->n,
        .n_heads = c->n_kv_heads, .half = c->rotary_dim / 2, .at = p->at, .first = p->first, .scale = c->yarn_attention_factor);
    RUN(f->dev, kv_store, .kv = *kv, .k = k, .v = v, .n_tokens = p->n, .pos = p->pos);
    if (kv_sealed(kv, p->pos + p->n - 1) > kv_sealed(kv, p->pos - 1))
        RUN(f->dev, kv_seal, .kv = *kv, .from = kv_sealed(kv, p->pos - 1), .to = kv_sealed(kv, p->pos + p->n - 1));
}

/* x += o_proj(sigmoid(gate) * attention(q, k, v)).  Appends K and V rows pos .. pos+n-1 of one KV layer. */
static void attention_block(const struct pass *p, const struct attn_weights *w, int kv_layer)
{
    struct forward *f = p->f;
    const struct model_config *c = f->cfg;
    const struct kv_rows *kv = &p->k->kv[kv_layer];
    size_t d = (size_t)c->head_dim, q_token = (size_t)c->n_q_heads * 2 * d;
    float *q = f->mixer_in, *gate = q + d;

    read_hidden(p, q, &w->q, PROMPT_INT8_QKV);      /* [n, heads, 2, head_dim]: per head, query then gate */
    attention_rows(p, w, kv_layer);                 /* its products read the same, so they come next */
    RUN(f->dev, attention, .y = f->mixer_out, .q = q, .q_token = q_token, .q_head = 2 * d, .kv = *kv,
        .n_tokens = p->n, .n_q_heads = c->n_q_heads, .pos = p->pos, .scale = 1.0f / sqrtf((float)c->head_dim),
        .turn = {.norm = w->q_norm, .eps = c->rms_eps, .freq = f->freq, .half = c->rotary_dim / 2, .at = p->at, .first = p->first,
                 .scale = c->yarn_attention_factor});
    RUN(f->dev, sigmoid_gate, .y = f->mixer_out, .gate = gate, .gate_token = q_token, .gate_head = 2 * d,
        .next = &w->o, .n_tokens = p->n, .n_heads = c->n_q_heads, .head_dim = c->head_dim);
    linear(f, f->x, f->mixer_out, &w->o, p->n, true);
}

/* x += out_proj(gated_norm(delta_rule(conv(qkv)), z)).  In the chunk form. */
static void deltanet_block(const struct pass *p, const struct delta_weights *w, int delta_layer)
{
    struct forward *f = p->f;
    const struct model_config *c = f->cfg;
    const struct delta_state *s = &p->k->state.delta[delta_layer];
    const struct deltanet_raw raw = {.x = f->mixer_in, .w = w->conv, .window = s->window, .a = f->a, .b = f->b, .a_log = w->a_log,
                                     .dt_bias = w->dt_bias, .taps = c->conv_kernel, .own_rows = linear_narrow(&w->qkv) ? 0 : p->n};
    const struct rmsnorm_gated_args gate = {.y = f->mixer_gate, .x = f->mixer_out, .z = f->mixer_gate, .w = w->norm, .next = &w->out,
                                            .n_rows = p->n * c->lin_v_heads, .dim = c->lin_v_dim, .eps = c->rms_eps};

    product(f, &(struct linear_args){.y = f->mixer_in, .x = f->h, .w = w->qkv, .n_tokens = p->n,
        .int8 = rounded(p, PROMPT_INT8_DELTA, &w->qkv, 0), .own_form = raw.own_rows > 0});
    linear(f, f->a, f->h, &w->a, p->n, false);
    linear(f, f->b, f->h, &w->b, p->n, false);
    RUN(f->dev, deltanet_chunk, .y = f->mixer_out, .c = f->mixer_mid, .beta = f->beta, .g = f->g, .raw = &raw, .state = s->state, .n_tokens = p->n,
        .n_k_heads = c->lin_k_heads, .n_v_heads = c->lin_v_heads, .dk = c->lin_k_dim, .dv = c->lin_v_dim, .pos = p->pos);
    product(f, &(struct linear_args){.y = f->mixer_gate, .x = f->h, .w = w->z, .n_tokens = p->n,
        .int8 = rounded(p, PROMPT_INT8_DELTA, &w->z, 0), .gate = &gate, .norm = w->z_norm});
    linear(f, f->x, f->mixer_gate, &w->out, p->n, true);
}

/* x += sum over the chosen experts + the gated shared expert, which rides along as one more expert of every row. */
static void moe_block(const struct pass *p, const struct moe_weights *w)
{
    struct forward *f = p->f;
    const struct model_config *c = f->cfg;
    const int inter = most(c->moe_inter, c->shared_inter);
    static const struct int8_apart none;        /* no norm is before down */
    const struct int8_apart *up = rounded(p, PROMPT_INT8_UP, &w->experts[0].gate, 1),
        *down = rounded(p, PROMPT_INT8_DOWN, &w->experts[0].down, 1) ? &none : NULL;
    const bool own = !up && !down;

    linear(f, f->router_logits, f->h, &w->router, p->n, false);
    linear(f, f->shared_gate, f->h, &w->shared_gate, p->n, false);
    RUN(f->dev, router, .experts = f->experts, .weights = f->router_weights, .logits = f->router_logits, .n_tokens = p->n,
        .n_experts = c->n_experts, .top_k = c->top_k);
    RUN(f->dev, moe_group, .start = f->start, .slots = f->slots, .experts = f->experts, .n_tokens = p->n,
        .n_experts = c->n_experts, .top_k = c->top_k);
    RUN(f->dev, experts_up, .h = f->slots_h, .x = f->h, .experts = w->experts, .shared = &w->shared, .start = f->start,
        .slots = f->slots, .n_tokens = p->n, .n_experts = c->n_experts, .top_k = c->top_k, .inter_max = inter, .norms = w->norms,
        .int8 = up, .own_form = own);
    RUN(f->dev, experts_down, .d = f->slots_d, .h = f->slots_h, .experts = w->experts, .shared = &w->shared,
        .start = f->start, .slots = f->slots, .n_tokens = p->n, .n_experts = c->n_experts, .top_k = c->top_k, .inter_max = inter,
        .int8 = down, .own_input = own, .own_form = true);
    RUN(f->dev, moe_combine, .x = f->x, .d = f->slots_d, .weights = f->router_weights, .shared_gate = f->shared_gate,
        .n_tokens = p->n, .top_k = c->top_k, .hidden = c->hidden, .own_form = true);
}

/* h = norm(x), for products of these matrices alone. */
static void norm_for(const struct pass *p, const float *w, const struct weight *const *next, int n_next)
{
    struct forward *f = p->f;
    bool own = !(f->math & PROMPT_INT8);       /* which reads fp32 */
    for (int i = 0; i < n_next; i++)
        own = own && !linear_narrow(next[i]);
    RUN(f->dev, rmsnorm, .y = f->h, .x = f->x, .w = w, .n_rows = p->n, .dim = f->cfg->hidden, .eps = f->cfg->rms_eps, .own_form = own);
}

/* x += mixer(norm(x)); x += moe(norm(x)) */
static void layer_block(const struct pass *p, const struct layer_weights *w, int kv_layer, int delta_layer)
{
    struct forward *f = p->f;
    if (w->full) {
        norm_for(p, w->norm_in, (const struct weight *[]){&w->attn.q, &w->attn.k, &w->attn.v}, 3);
        attention_block(p, &w->attn, kv_layer);
    } else {
        norm_for(p, w->norm_in, (const struct weight *[]){&w->delta.qkv, &w->delta.z, &w->delta.a, &w->delta.b}, 4);
        deltanet_block(p, &w->delta, delta_layer);
    }
    norm(f, f->h, f->x, w->norm_post, p->n);
    moe_block(p, &w->moe);
}

void prompt_run(struct forward *f, struct cache *k, const int32_t *ids, int n, int pos)
{
    const struct model_config *c = f->cfg;
    CHECK(n > 0 && n <= f->max_rows && pos >= 0 && pos + n <= k->n_ctx);
    struct pass p = pass_of(f, k, n, pos);
    state_end_steps(&k->state);
    embed_tokens(f, k, ids, n, pos);
    for (int i = 0, full = 0, delta = 0; i < c->n_layers; i++) {
        p.layer = i;
        layer_block(&p, &f->w->layers[i], full, delta);
        *(c->full[i] ? &full : &delta) += 1;
    }
    norm(f, f->hidden, f->x, f->w->norm, n);
    f->newest = f->hidden;
    CHECK(!k->state.n_staged);
    k->state.pos = pos + n;
}

/* x = fc [norm(embed(next)) ; norm(hidden)], one full-attention layer with a KV layer of its own, norm. */
void prompt_mtp(struct forward *f, struct cache *k, const float *hidden, const int32_t *next_ids, int n, int pos, float *out)
{
    const struct model_config *c = f->cfg;
    const struct mtp_weights *w = &f->w->mtp;
    size_t H = (size_t)c->hidden;
    CHECK(w->present && n > 0 && n <= f->max_rows && pos >= 0 && pos + n <= k->n_ctx);
    embed_tokens(f, k, next_ids, n, pos + 1);
    RUN(f->dev, rmsnorm, .y = f->h2, .x = f->x, .w = w->norm_embedding, .n_rows = n, .dim = c->hidden, .eps = c->rms_eps,
        .y_group = 2 * H);
    RUN(f->dev, rmsnorm, .y = f->h2 + H, .x = hidden, .w = w->norm_hidden, .n_rows = n, .dim = c->hidden, .eps = c->rms_eps,
        .y_group = 2 * H);
    linear(f, f->x, f->h2, &w->fc, n, false);
    const struct pass p = pass_of(f, k, n, pos);
    if (!out) {
        norm_for(&p, w->layer.norm_in, (const struct weight *[]){&w->layer.attn.k, &w->layer.attn.v}, 2);
        attention_rows(&p, &w->layer.attn, c->n_full);
        return;
    }
    layer_block(&p, &w->layer, c->n_full, 0);
    norm(f, out, f->x, w->norm, n);
}

void prompt_chunk(struct forward *f, struct cache *k, const int32_t *ids, int n, int pos, bool mtp)
{
    const bool has_mtp = mtp && f->w->mtp.present;
    prompt_run(f, k, ids, n, pos);
    if (has_mtp && pos > 0)             /* the token that follows position pos - 1 is known only now */
        prompt_mtp(f, k, k->state.last_hidden, ids, 1, pos - 1, NULL);
    if (has_mtp && n > 1)
        prompt_mtp(f, k, f->hidden, ids + 1, n - 1, pos, NULL);
    forward_keep_hidden(k, f->hidden + (size_t)(n - 1) * (size_t)f->cfg->hidden);
}

void prompt_head(struct forward *f, enum head h, const float *hidden, int n, float *logits)
{
    linear(f, logits, hidden, weights_head(f->w, h), n, false);
}
