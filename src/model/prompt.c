/* A chunk of a prompt, operation by operation: read it beside docs/model.md.  Each block reads h, the normed input, and adds its result to x, the
 * residual stream.  Rows are fp32 by definition; a GPU may keep some in less. */
#include "model/prompt.h"

#include <math.h>
#include <stdlib.h>

#include "base/least.h"
#include "base/err.h"
#include "base/memory.h"
#include "model/workspace.h"

/* The rows of all parts, one part after the other.  Operations that treat each row by itself run once, over all of them. */
struct pass {
    struct forward *f;
    const struct prompt_part *parts;
    int n_parts, n;                     /* parts, their rows together */
    int layer;                          /* -1: the MTP block */
};

#define EACH_PART(p, i, row) for (int i = 0, row = 0; i < (p)->n_parts; row += (p)->parts[i++].n)

/* Checks that the rows have room, and copies their positions to the device. */
static struct pass pass_of(struct forward *f, const struct prompt_part *parts, int n_parts)
{
    struct pass p = {.f = f, .parts = parts, .n_parts = n_parts, .layer = -1};
    for (int i = 0; i < n_parts; p.n += parts[i++].n)
        CHECK(parts[i].n > 0 && parts[i].pos >= 0 && parts[i].pos + parts[i].n <= parts[i].k->n_ctx);
    CHECK(p.n > 0 && p.n <= f->max_rows);
    struct rope_position *at = memory_alloc((size_t)p.n * sizeof *at);
    EACH_PART(&p, i, row) {
        const struct positions *q = &parts[i].k->positions;
        for (int j = 0; j < parts[i].n; j++) {
            const int pos = parts[i].pos + j, text = pos + q->offset;
            at[row + j] = pos < q->n ? q->at[pos] : (struct rope_position){text, text, text};
        }
    }
    f->dev->copy(f->dev, f->at, at, (size_t)p.n * sizeof *at);
    free(at);
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

/* y[i] = W[i] h; of narrow matrices in one operation, which reads h once. */
static void linear_pair(const struct pass *p, float *const y[2], const struct weight *const w[2])
{
    if (linear_narrow(w[0]) && linear_narrow(w[1]))
        RUN(p->f->dev, linear_pair, .y = {y[0], y[1]}, .x = p->f->h, .w = {*w[0], *w[1]}, .n_tokens = p->n);
    else
        for (int i = 0; i < 2; i++)
            linear(p->f, y[i], p->f->h, w[i], p->n, false);
}

/* x = the embeddings of the ids, which are the tokens from `ahead` after the first row on; of pictures among them the rows of the tower. */
static void embed_tokens(const struct pass *p, int ahead)
{
    struct forward *f = p->f;
    const size_t H = (size_t)f->cfg->hidden;
    EACH_PART(p, i, row)
        f->dev->copy(f->dev, f->ids + row, p->parts[i].ids, (size_t)p->parts[i].n * sizeof *f->ids);
    RUN(f->dev, embed, .y = f->x, .ids = f->ids, .table = f->w->embed, .n_tokens = p->n);
    EACH_PART(p, i, row) {
        const struct cache *k = p->parts[i].k;
        const int pos = p->parts[i].pos + ahead;
        for (int j = 0; j < k->n_pictures; j++) {
            const struct picture_rows *r = &k->pictures[j];
            const int from = most(r->first, pos), to = least(r->first + r->n, pos + p->parts[i].n);
            if (from < to)
                f->dev->copy(f->dev, f->x + (size_t)(row + from - pos) * H, r->rows + (size_t)(from - r->first) * H,
                             (size_t)(to - from) * H * sizeof *f->x);
        }
    }
}

static void norm(struct forward *f, float *y, const float *x, const float *w, int n)
{
    RUN(f->dev, rmsnorm, .y = y, .x = x, .w = w, .n_rows = n, .dim = f->cfg->hidden, .eps = f->cfg->rms_eps);
}

/* Appends the K and V rows of one KV layer. */
static void attention_rows(const struct pass *p, const struct attn_weights *w, int kv_layer)
{
    struct forward *f = p->f;
    const struct model_config *c = f->cfg;
    const size_t d = (size_t)c->head_dim, kv_token = (size_t)c->n_kv_heads * d;
    float *k = f->kv, *v = k + (size_t)p->n * kv_token;

    read_hidden(p, k, &w->k, PROMPT_INT8_QKV);
    read_hidden(p, v, &w->v, PROMPT_INT8_QKV);
    RUN(f->dev, rmsnorm, .y = k, .x = k, .w = w->k_norm, .n_rows = p->n * c->n_kv_heads, .dim = c->head_dim, .eps = c->rms_eps);
    RUN(f->dev, rope, .x = k, .token_stride = kv_token, .head_stride = d, .freq = f->freq, .n_tokens = p->n, .n_heads = c->n_kv_heads,
        .half = c->rotary_dim / 2, .at = f->at, .scale = c->yarn_attention_factor);
    EACH_PART(p, i, row) {
        const struct kv_rows *kv = &p->parts[i].k->kv[kv_layer];
        const int n = p->parts[i].n, pos = p->parts[i].pos, from = kv_sealed(kv, pos - 1), to = kv_sealed(kv, pos + n - 1);
        RUN(f->dev, kv_store, .kv = *kv, .k = k + (size_t)row * kv_token, .v = v + (size_t)row * kv_token, .n_tokens = n, .pos = pos);
        if (to > from)
            RUN(f->dev, kv_seal, .kv = *kv, .from = from, .to = to);
    }
}

/* Returns a bound of attention's outcomes on a GPU, which are averages of V rows; 0: not known.  A row of codes keeps its length, or nearly, so no
 * number of it is greater than sqrt(head_dim) times the greatest one before. */
static float most_outcome(const struct pass *p, int kv_layer)
{
    const float most = p->layer < 0 ? 0 : p->f->most_value[p->layer];
    return kv_compressed(&p->parts[0].k->kv[kv_layer]) ? most * sqrtf((float)p->f->cfg->head_dim) : most;
}

/* x += o_proj(sigmoid(gate) * attention(q, k, v)).  Appends the K and V rows of one KV layer. */
static void attention_block(const struct pass *p, const struct attn_weights *w, int kv_layer)
{
    struct forward *f = p->f;
    const struct model_config *c = f->cfg;
    const size_t d = (size_t)c->head_dim, y_token = (size_t)c->n_q_heads * d, q_token = 2 * y_token;
    float *q = f->mixer_in, *gate = q + d;

    const struct sigmoid_gate_args open = {.y = f->mixer_out, .gate = gate, .gate_token = q_token, .gate_head = 2 * d, .next = &w->o,
                                           .n_tokens = p->n, .n_heads = c->n_q_heads, .head_dim = c->head_dim,
                                           .most = most_outcome(p, kv_layer)};

    read_hidden(p, q, &w->q, PROMPT_INT8_QKV);      /* [n, heads, 2, head_dim]: per head, query then gate */
    attention_rows(p, w, kv_layer);                 /* its products read the same, so they come next */
    EACH_PART(p, i, row)
        RUN(f->dev, attention, .y = f->mixer_out + (size_t)row * y_token, .q = q + (size_t)row * q_token, .q_token = q_token, .q_head = 2 * d,
            .kv = p->parts[i].k->kv[kv_layer], .n_tokens = p->parts[i].n, .n_q_heads = c->n_q_heads, .pos = p->parts[i].pos,
            .scale = 1.0f / sqrtf((float)c->head_dim),
            .turn = {.norm = w->q_norm, .eps = c->rms_eps, .freq = f->freq, .half = c->rotary_dim / 2, .at = f->at + row,
                     .scale = c->yarn_attention_factor},
            .gate = p->n_parts == 1 ? &open : NULL);
    if (p->n_parts > 1)                             /* the copy for the product has the rows of all parts */
        f->dev->ops->sigmoid_gate(f->dev, &open);
    linear(f, f->x, f->mixer_out, &w->o, p->n, true);
}

/* Convolution and rule of one DeltaNet layer, over the rows of each conversation by its own states.  own_rows: as in struct deltanet_raw. */
static void delta_rule(const struct pass *p, const struct delta_weights *w, int delta_layer, int own_rows)
{
    struct forward *f = p->f;
    const struct model_config *c = f->cfg;
    const size_t heads = (size_t)c->lin_v_heads, values = heads * (size_t)c->lin_v_dim;
    EACH_PART(p, i, r) {
        const struct delta_state *s = &p->parts[i].k->state.delta[delta_layer];
        const size_t row = (size_t)r;
        const struct deltanet_raw raw = {.x = f->mixer_in, .first = r, .w = w->conv, .window = s->window, .a = f->a + row * heads,
                                         .b = f->b + row * heads, .a_log = w->a_log, .dt_bias = w->dt_bias, .taps = c->conv_kernel,
                                         .own_rows = own_rows};
        RUN(f->dev, deltanet_chunk, .y = f->mixer_out + row * values, .c = f->mixer_mid, .beta = f->beta, .g = f->g, .raw = &raw, .state = s->state,
            .n_tokens = p->parts[i].n, .n_k_heads = c->lin_k_heads, .n_v_heads = c->lin_v_heads, .dk = c->lin_k_dim, .dv = c->lin_v_dim,
            .pos = p->parts[i].pos);
    }
}

/* x += out_proj(gated_norm(delta_rule(conv(qkv)), z)).  In the chunk form. */
static void deltanet_block(const struct pass *p, const struct delta_weights *w, int delta_layer)
{
    struct forward *f = p->f;
    const struct model_config *c = f->cfg;
    const int own_rows = linear_narrow(&w->qkv) ? 0 : p->n;
    const struct rmsnorm_gated_args gate = {.y = f->mixer_gate, .x = f->mixer_out, .z = f->mixer_gate, .w = w->norm, .next = &w->out,
                                            .n_rows = p->n * c->lin_v_heads, .dim = c->lin_v_dim, .eps = c->rms_eps};

    product(f, &(struct linear_args){.y = f->mixer_in, .x = f->h, .w = w->qkv, .n_tokens = p->n,
        .int8 = rounded(p, PROMPT_INT8_DELTA, &w->qkv, 0), .own_form = own_rows > 0});
    linear_pair(p, (float *[]){f->a, f->b}, (const struct weight *[]){&w->a, &w->b});
    delta_rule(p, w, delta_layer, own_rows);
    product(f, &(struct linear_args){.y = f->mixer_gate, .x = f->h, .w = w->z, .n_tokens = p->n,
        .gate = &gate, .norm = w->z_norm});
    linear(f, f->x, f->mixer_gate, &w->out, p->n, true);
}

/* x += sum over the chosen experts + the gated shared expert, which rides along as one more expert of every row. */
static void moe_block(const struct pass *p, const struct moe_weights *w)
{
    struct forward *f = p->f;
    const struct model_config *c = f->cfg;
    const int inter = most(c->moe_inter, c->shared_inter);

    linear_pair(p, (float *[]){f->router_logits, f->shared_gate}, (const struct weight *[]){&w->router, &w->shared_gate});
    RUN(f->dev, router, .experts = f->experts, .weights = f->router_weights, .logits = f->router_logits, .n_tokens = p->n,
        .n_experts = c->n_experts, .top_k = c->top_k);
    RUN(f->dev, moe_group, .start = f->start, .slots = f->slots, .experts = f->experts, .n_tokens = p->n,
        .n_experts = c->n_experts, .top_k = c->top_k);
    RUN(f->dev, experts_up, .h = f->slots_h, .x = f->h, .experts = w->experts, .shared = &w->shared, .start = f->start,
        .slots = f->slots, .n_tokens = p->n, .n_experts = c->n_experts, .top_k = c->top_k, .inter_max = inter, .norms = w->norms,
        .int8 = rounded(p, PROMPT_INT8_UP, &w->experts[0].gate, 1), .own_form = true);
    RUN(f->dev, experts_down, .d = f->slots_d, .h = f->slots_h, .experts = w->experts, .shared = &w->shared,
        .start = f->start, .slots = f->slots, .n_tokens = p->n, .n_experts = c->n_experts, .top_k = c->top_k, .inter_max = inter,
        .own_input = true, .own_form = true);
    RUN(f->dev, moe_combine, .x = f->x, .d = f->slots_d, .weights = f->router_weights, .shared_gate = f->shared_gate,
        .n_tokens = p->n, .top_k = c->top_k, .hidden = c->hidden, .own_form = true);
}

/* h = norm(x), for products of these matrices alone, some of which may round h. */
static void norm_for(const struct pass *p, const float *w, enum prompt_math what, const struct weight *const *next, int n_next)
{
    struct forward *f = p->f;
    const struct int8_apart *int8 = NULL;
    bool own = true;                    /* narrow products read fp32 */
    for (int i = 0; i < n_next; i++) {
        own = own && !linear_narrow(next[i]);
        int8 = int8 ? int8 : rounded(p, what, next[i], 0);
    }
    RUN(f->dev, rmsnorm, .y = f->h, .x = f->x, .w = w, .n_rows = p->n, .dim = f->cfg->hidden, .eps = f->cfg->rms_eps, .own_form = own,
        .int8 = int8);
}

/* x += mixer(norm(x)); x += moe(norm(x)) */
static void layer_block(const struct pass *p, const struct layer_weights *w, int kv_layer, int delta_layer)
{
    struct forward *f = p->f;
    if (w->full) {
        norm_for(p, w->norm_in, PROMPT_INT8_QKV, (const struct weight *[]){&w->attn.q, &w->attn.k, &w->attn.v}, 3);
        attention_block(p, &w->attn, kv_layer);
    } else {
        norm_for(p, w->norm_in, PROMPT_INT8_DELTA, (const struct weight *[]){&w->delta.qkv, &w->delta.z, &w->delta.a, &w->delta.b}, 4);
        deltanet_block(p, &w->delta, delta_layer);
    }
    RUN(f->dev, rmsnorm, .y = f->h, .x = f->x, .w = w->norm_post, .n_rows = p->n, .dim = f->cfg->hidden, .eps = f->cfg->rms_eps,
        .int8 = rounded(p, PROMPT_INT8_UP, &w->moe.experts[0].gate, 1));
    moe_block(p, &w->moe);
}

/* Runs all parts through the layers; updates their states and forward_hidden(). */
static void run(struct forward *f, const struct prompt_part *parts, int n_parts)
{
    const struct model_config *c = f->cfg;
    struct pass p = pass_of(f, parts, n_parts);
    for (int i = 0; i < n_parts; i++)
        state_end_steps(&parts[i].k->state);
    embed_tokens(&p, 0);
    for (int i = 0, full = 0, delta = 0; i < c->n_layers; i++) {
        p.layer = i;
        layer_block(&p, &f->w->layers[i], full, delta);
        *(c->full[i] ? &full : &delta) += 1;
    }
    norm(f, f->hidden, f->x, f->w->norm, p.n);
    f->newest = f->hidden;
    for (int i = 0; i < n_parts; i++) {
        CHECK(!parts[i].k->state.n_staged);
        parts[i].k->state.pos = parts[i].pos + parts[i].n;
    }
}

void prompt_run(struct forward *f, struct cache *k, const int32_t *ids, int n, int pos)
{
    run(f, &(struct prompt_part){.k = k, .ids = ids, .n = n, .pos = pos}, 1);
}

/* x = fc [norm(embed(next)) ; norm(hidden)], one full-attention layer with a KV layer of its own, norm.  The ids of a part are those after its rows,
 * whose hidden states are in hidden[i]. */
static void run_mtp(struct forward *f, const struct prompt_part *parts, const float *const *hidden, int n_parts, float *out)
{
    const struct model_config *c = f->cfg;
    const struct mtp_weights *w = &f->w->mtp;
    const size_t H = (size_t)c->hidden;
    CHECK(w->present);
    const struct pass p = pass_of(f, parts, n_parts);
    embed_tokens(&p, 1);
    RUN(f->dev, rmsnorm, .y = f->mixer_in, .x = f->x, .w = w->norm_embedding, .n_rows = p.n, .dim = c->hidden, .eps = c->rms_eps, .y_group = 2 * H);
    EACH_PART(&p, i, row)
        RUN(f->dev, rmsnorm, .y = f->mixer_in + (size_t)row * 2 * H + H, .x = hidden[i], .w = w->norm_hidden, .n_rows = parts[i].n, .dim = c->hidden,
            .eps = c->rms_eps, .y_group = 2 * H);
    linear(f, f->x, f->mixer_in, &w->fc, p.n, false);
    if (!out) {
        norm_for(&p, w->layer.norm_in, PROMPT_EXACT, (const struct weight *[]){&w->layer.attn.k, &w->layer.attn.v}, 2);
        attention_rows(&p, &w->layer.attn, c->n_full);
        return;
    }
    layer_block(&p, &w->layer, c->n_full, 0);
    norm(f, out, f->x, w->norm, p.n);
}

void prompt_mtp(struct forward *f, struct cache *k, const float *hidden, const int32_t *next_ids, int n, int pos, float *out)
{
    run_mtp(f, &(struct prompt_part){.k = k, .ids = next_ids, .n = n, .pos = pos}, &hidden, 1, out);
}

/* Runs the MTP rows of a call's parts.  The one before a part's first row is among them: the token that follows it is known only now. */
static void run_mtp_rows(struct forward *f, const struct prompt_part *parts, int n_parts)
{
    struct prompt_part rows[2 * PROMPT_PARTS];
    const float *hidden[2 * PROMPT_PARTS], *next = f->hidden;
    int n = 0;
    for (int i = 0; i < n_parts; next += (size_t)parts[i++].n * (size_t)f->cfg->hidden) {
        const struct prompt_part *p = &parts[i];
        if (p->pos > 0) {
            hidden[n] = p->k->state.last_hidden;
            rows[n++] = (struct prompt_part){.k = p->k, .ids = p->ids, .n = 1, .pos = p->pos - 1};
        }
        if (p->n > 1) {
            hidden[n] = next;
            rows[n++] = (struct prompt_part){.k = p->k, .ids = p->ids + 1, .n = p->n - 1, .pos = p->pos};
        }
    }
    if (n)
        run_mtp(f, rows, hidden, n, NULL);
}

void prompt_chunks(struct forward *f, const struct prompt_part *parts, int n_parts, bool mtp)
{
    const float *end = f->hidden;
    CHECK(n_parts > 0 && n_parts <= PROMPT_PARTS);
    run(f, parts, n_parts);
    if (mtp && f->w->mtp.present)
        run_mtp_rows(f, parts, n_parts);
    for (int i = 0; i < n_parts; i++) {
        end += (size_t)parts[i].n * (size_t)f->cfg->hidden;
        forward_keep_hidden(parts[i].k, end - f->cfg->hidden);
    }
}

void prompt_head(struct forward *f, enum head h, const float *hidden, int n, float *logits)
{
    linear(f, logits, hidden, weights_head(f->w, h), n, false);
}
