#include "model/fused.h"

#include <math.h>

#include "base/least.h"
#include "base/log.h"

/* A number of the residual stream is the sum of at most STREAM_ADDENDS addends (kernels/stream.h): each layer adds some for its mixer and its
 * experts, and the MTP block counts as a layer. */
enum { MOST_SPLITS = 16, MAX_LAYERS = STREAM_ADDENDS / (MOST_SPLITS + STEP_CHOICES + 1) - 2 };

bool fused_fits(const struct model_config *c, struct err *e)
{
    const struct { const char *name; int found, low, high, multiple; } rules[] = {
        {"hidden_size",             c->hidden,                       128, 4096, 128},
        {"head_dim",                c->head_dim,                     256, 256, 1},
        {"query heads per KV head", c->n_q_heads / c->n_kv_heads,    1, 16, 1},
        {"attention width",         c->n_q_heads * c->head_dim,      128, MOST_SPLITS * 2048, 128},
        {"DeltaNet value width",    config_lin_value_dim(c),         128, MOST_SPLITS * 2048, 128},
        {"rotary dimensions",       c->rotary_dim,                   8, 256, 8},
        {"linear_key_head_dim",     c->lin_k_dim,                    128, 128, 1},
        {"linear_value_head_dim",   c->lin_v_dim,                    128, 128, 1},
        {"linear_conv_kernel_dim",  c->conv_kernel,                  4, 4, 1},
        {"num_experts",             c->n_experts,                    2, STEP_EXPERTS, 1},
        {"num_experts_per_tok",     c->top_k,                        1, STEP_CHOICES, 1},
        {"moe_intermediate_size",   c->moe_inter,                    128, 2048, 128},
        {"shared_expert_intermediate_size", c->shared_inter,         c->moe_inter, c->moe_inter, 1},
        {"vocab_size",              c->vocab,                        16, 1 << 20, 1},
        {"num_hidden_layers",       c->n_layers,                     1, MAX_LAYERS, 1},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].found < rules[i].low || rules[i].found > rules[i].high || rules[i].found % rules[i].multiple)
            return err_set(e, "the backend 'cuda' cannot run this model: %s is %d, expected %d to %d in steps of %d; --backend cpu can",
                           rules[i].name, rules[i].found, rules[i].low, rules[i].high, rules[i].multiple);
    return true;
}


/* Sets the pointers of *u into `memory`; returns the bytes that this takes.  memory NULL: only counts them. */
static size_t cut(struct fused *u, char *memory, const struct model_config *c)
{
    const size_t n = STEP_ROWS, H = (size_t)c->hidden, q = (size_t)c->n_q_heads * (size_t)c->head_dim,
        kv = (size_t)c->n_kv_heads * (size_t)c->head_dim, value = (size_t)config_lin_value_dim(c);
    const struct { void *at; size_t bytes; } list[] = {
        {&u->stream, n * H * 8}, {&u->halves, 2 * n * H * 4}, {&u->h, n * H * 4}, {&u->hidden, n * H * 4},
        {&u->qg, n * 2 * q * 4}, {&u->k, n * kv * 4}, {&u->v, n * kv * 4}, {&u->z, n * value * 4}, {&u->y, n * most_size(q, value) * 4},
        {&u->ssq, n * (size_t)c->lin_v_heads * 8}, {&u->router, STEP_RMS_PARTS * n * ((size_t)c->n_experts + 1) * 4},
        {&u->router_ssq, STEP_RMS_PARTS * n * 4}, {&u->route, sizeof *u->route},
        {&u->expert_h, step_experts_space(STEP_ROWS, c->n_experts, c->top_k, c->moe_inter) * 4},
        {&u->attention, step_attention_scratch(c->n_q_heads)}, {&u->mtp_h, n * H * 4}, {&u->live, sizeof *u->live},
    };
    size_t at = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (memory)
            *(char **)list[i].at = memory + at;
        at += (list[i].bytes + 255) / 256 * 256;
    }
    return at;
}

size_t fused_bytes(const struct model_config *c)
{
    struct fused u;
    return cut(&u, NULL, c);
}

bool fused_open(struct fused *u, struct dev *d, const struct model_config *c, struct err *e)
{
    size_t bytes = fused_bytes(c);
    *u = (struct fused){.overlap = -1, .router_step = (size_t)STEP_ROWS * ((size_t)c->n_experts + 1)};
    if (d->caps->packs_weights && !fused_fits(c, e))
        return false;
    u->memory = d->alloc(d, bytes);
    if (!u->memory)
        return err_set(e, "no memory for the work space of a step: %zu MiB asked for", bytes >> 20);
    cut(u, u->memory, c);
    u->gate = u->router + (size_t)STEP_ROWS * (size_t)c->n_experts;
    return true;
}

void fused_close(struct fused *u, struct dev *d)
{
    if (u->memory)
        d->free(d, u->memory);
    u->memory = NULL;
}

/* stream += W y; ssq: heads of y are divided by their rms first. */
static void project_out(struct forward *f, const struct fused_rows *r, const struct weight *w, const float *ssq, const int32_t *n_valid)
{
    struct fused *u = f->fused;
    STEP(f->dev, step_add, .stream = u->stream, .w = *w, .x = u->y, .ssq = ssq, .head_dim = f->cfg->lin_v_dim, .n_valid = n_valid,
         .rows = r->rows, .n_rows = r->n, .eps = f->cfg->rms_eps);
}

/* The attention of one layer.  in: the rows and their position; kv_layer: the layer of the KV cache that gets their keys and values. */
static void attention_step(struct forward *f, const struct fused_rows *r, const struct layer_weights *l, struct step_project_args in,
                           int kv_layer)
{
    const struct model_config *c = f->cfg;
    struct fused *u = f->fused;
    in.part[0] = (struct step_part){.w = l->attn.q, .y = u->qg};
    in.part[1] = (struct step_part){.w = l->attn.k, .y = u->k};
    in.part[2] = (struct step_part){.w = l->attn.v, .y = u->v};
    in.n_parts = 3;
    in.norm = l->norm_in;
    in.rows = r->rows;
    in.n_rows = r->n;
    in.eps = c->rms_eps;
    f->dev->step->step_project(f->dev, &in);
    STEP(f->dev, step_attention, .y = u->y, .qg = u->qg, .k = u->k, .v = u->v, .q_norm = l->attn.q_norm, .k_norm = l->attn.k_norm,
         .freq = f->freq, .kv = r->k->kv[kv_layer], .pos = in.pos, .n_valid = in.n_valid, .rows = r->rows,
         .slot_bytes = kv_slot_bytes(r->k->memory->kv), .scratch = u->attention, .settled = in.pos == &r->live->pos, .n_rows = r->n,
         .n_q_heads = c->n_q_heads, .half = c->rotary_dim / 2, .eps = c->rms_eps, .rope_scale = c->yarn_attention_factor,
         .scale = 1.0f / sqrtf((float)c->head_dim));
    project_out(f, r, &l->attn.o, NULL, in.n_valid);
}

static void delta_step(struct forward *f, const struct fused_rows *r, const struct layer_weights *l, int delta_layer)
{
    const struct delta_weights *w = &l->delta;
    struct fused *u = f->fused;
    const struct delta_state *s = &r->k->state.delta[delta_layer];
    STEP(f->dev, step_project,
         .part = {{.w = w->qkv, .y = s->ring, .ring = true}, {.w = w->z, .y = u->z}, {.w = w->a, .y = s->ring_a, .ring = true},
                  {.w = w->b, .y = s->ring_b, .ring = true}},
         .n_parts = 4, .stream = u->stream, .norm = l->norm_in, .pos = &r->live->pos, .rows = r->rows,
         .slot_bytes = state_slot_bytes(f->cfg), .n_rows = r->n, .eps = f->cfg->rms_eps);
    state_delta_step(&r->k->state, delta_layer, w, r->live, r->rows, u->y, u->ssq, u->z, r->n);
    project_out(f, r, &w->out, u->ssq, NULL);
}

/* check: runs nothing, but makes the device fail if it could not run this. */
static void run_experts(struct forward *f, const struct fused_rows *r, const struct moe_weights *w, const int32_t *last_of, bool check)
{
    const struct model_config *c = f->cfg;
    const struct fused *u = f->fused;
    const struct step_choice choice = {.rms = {u->router_ssq, step_router_parts(c->hidden), c->hidden, c->rms_eps}, .logits = u->router,
                                       .n_logits = step_router_parts(c->hidden), .logit_step = u->router_step, .last_of = last_of,
                                       .rows = r->rows, .overlap = u->overlap, .n_experts = c->n_experts, .top_k = c->top_k};
    STEP(f->dev, step_experts, .stream = u->stream, .h = u->expert_h, .route = u->distinct ? u->route : NULL, .choice = choice, .x = u->h,
         .experts = w->experts, .shared = &w->shared, .shared_gate = u->gate, .n_gates = step_router_parts(c->hidden),
         .gate_step = u->router_step, .check = check, .n_rows = r->n, .hidden = c->hidden, .inter = most(c->moe_inter, c->shared_inter));
}

static void moe_step(struct forward *f, const struct fused_rows *r, const struct layer_weights *l, const int32_t *n_valid)
{
    const struct model_config *c = f->cfg;
    const struct moe_weights *w = &l->moe;
    struct fused *u = f->fused;
    STEP(f->dev, step_router, .h = u->h, .logits = u->router, .gate = u->gate, .part_step = u->router_step, .ssq = u->router_ssq,
         .stream = u->stream, .norm = l->norm_post, .router = w->router, .shared_gate = w->shared_gate, .expert_h = u->expert_h,
         .n_expert_h = step_experts_space(r->n, c->n_experts, c->top_k, c->moe_inter), .n_valid = n_valid, .rows = r->rows,
         .n_rows = r->n);
    run_experts(f, r, w, n_valid, false);
}

bool fused_check(struct forward *f, int max_rows, struct err *e)
{
    for (int n = 1; n <= max_rows; n++) {
        const struct fused_rows r = {.n = n};
        run_experts(f, &r, &f->w->layers[0].moe, NULL, true);
        if (f->w->mtp.present)
            run_experts(f, &r, &f->w->mtp.layer.moe, NULL, true);
    }
    return f->dev->finish(f->dev, e);
}

void fused_layers(struct forward *f, const struct fused_rows *r)
{
    const struct model_config *c = f->cfg;
    struct fused *u = f->fused;
    STEP(f->dev, step_embed, .stream = u->stream, .ids = r->live->ids, .rows = r->rows, .table = f->w->embed, .n_rows = r->n);
    for (int i = 0, full = 0, delta = 0; i < c->n_layers; i++) {
        const struct layer_weights *l = &f->w->layers[i];
        if (l->full) {
            attention_step(f, r, l, (struct step_project_args){.stream = u->stream, .pos = &r->live->pos}, full++);
        } else {
            delta_step(f, r, l, delta++);
        }
        moe_step(f, r, l, NULL);
        if (u->distinct)
            f->dev->copy(f->dev, u->distinct + i, &u->route->n, sizeof *u->distinct);
    }
}

void fused_hidden(struct forward *f, int n)
{
    struct fused *u = f->fused;
    STEP(f->dev, step_norm, .h = u->hidden, .stream = u->stream, .norm = f->w->norm, .n_rows = n, .hidden = f->cfg->hidden,
         .eps = f->cfg->rms_eps);
}

static struct step_logits_args head_args(const struct fused_head *h, float eps)
{
    return (struct step_logits_args){
        .logits = h->logits, .tile_max = h->tile_max, .w = *h->w, .sampling = h->sampling, .seen = h->seen, .bias = h->bias,
        .drafts = h->drafts, .n_ids = h->n_ids, .estimate = h->estimate, .scratch = h->scratch, .eps = eps,
    };
}

void fused_logits(struct forward *f, const struct fused_head *h, const struct fused_rows *r, const float *hidden)
{
    struct fused *u = f->fused;
    struct step_logits_args a = head_args(h, f->cfg->rms_eps);
    a.rows = r->rows;
    a.n_rows = r->n;
    a.hidden = hidden;
    if (!hidden) {
        a.stream = u->stream;
        a.norm = f->w->norm;
        a.hidden_out = u->hidden;
    }
    f->dev->step->step_logits(f->dev, &a);
}

void fused_mtp(struct forward *f, const struct fused_rows *r, const int32_t *next, const float *hidden, const int32_t *pos,
               const int32_t *n_valid)
{
    const struct mtp_weights *w = &f->w->mtp;
    struct fused *u = f->fused;
    STEP(f->dev, step_mtp_join, .halves = u->halves, .w = w->fc, .table = f->w->embed, .ids = next, .norm_embedding = w->norm_embedding,
         .hidden = hidden, .norm_hidden = w->norm_hidden, .n_valid = n_valid, .rows = r->rows, .n_rows = r->n, .eps = f->cfg->rms_eps);
    attention_step(f, r, &w->layer, (struct step_project_args){.halves = u->halves, .stream_out = u->stream, .pos = pos, .n_valid = n_valid},
                   f->cfg->n_full);
    moe_step(f, r, &w->layer, n_valid);
}

void fused_mtp_logits(struct forward *f, const struct fused_head *h, const struct fused_rows *r, const int32_t *row, const int32_t *n_valid)
{
    struct fused *u = f->fused;
    struct step_logits_args a = head_args(h, f->cfg->rms_eps);
    a.rows = r->rows;
    a.n_rows = r->n;
    a.stream = u->stream;
    a.norm = f->w->mtp.norm;
    a.hidden_out = u->mtp_h;
    a.row = row;
    a.n_valid = n_valid;
    f->dev->step->step_logits(f->dev, &a);
}
