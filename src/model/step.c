/* A decode step, operation by operation: the same model as prompt.c, in as few launches as its data allow.  The residual stream is in fixed point, so
 * that sums from many blocks need no order; each projection reads it, applies the layer's norm and writes what the mixer or the experts need. */
#include "model/step.h"

#include <math.h>
#include <string.h>

#include "base/least.h"
#include "base/err.h"
#include "model/workspace.h"

/* stream += W y; ssq: heads of y are divided by their rms first. */
static void project_out(struct forward *f, const struct step_rows *r, const struct weight *w, const float *ssq, const int32_t *n_valid)
{
    struct step_space *u = &f->step;
    STEP(f->dev, step_add, .stream = u->stream, .w = *w, .x = u->y, .ssq = ssq, .head_dim = f->cfg->lin_v_dim, .n_valid = n_valid,
         .rows = r->rows, .n_rows = r->n, .eps = f->cfg->rms_eps);
}

/* stream += o_proj(sigmoid(gate) * attention(q, k, v)).  The first launch norms the stream (or joins the MTP block's halves: `in` selects which) and
 * projects it to q with gate, k and v; the second norms and turns these, stores k and v in layer kv_layer of the KV cache, attends and gates. */
static void attention_step(struct forward *f, const struct step_rows *r, const struct layer_weights *l, struct step_project_args in,
                           int kv_layer)
{
    const struct model_config *c = f->cfg;
    struct step_space *u = &f->step;
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
         .freq = f->freq, .kv = r->k->kv[kv_layer], .pos = in.pos, .rope_offset = &r->live->rope_offset, .n_valid = in.n_valid,
         .rows = r->rows, .slot_bytes = kv_slot_bytes(r->k->memory->kv), .scratch = u->attention, .settled = in.pos == &r->live->pos, .n_rows = r->n,
         .n_q_heads = c->n_q_heads, .half = c->rotary_dim / 2, .eps = c->rms_eps, .rope_scale = c->yarn_attention_factor,
         .scale = 1.0f / sqrtf((float)c->head_dim));
    project_out(f, r, &l->attn.o, NULL, in.n_valid);
}

/* stream += out_proj(gated_norm(delta_rule(conv(qkv)), z)).  The projections go to rings, in which the next step finds those of the rows that were
 * accepted: it applies them to the states before its own rows. */
static void delta_step(struct forward *f, const struct step_rows *r, const struct layer_weights *l, int delta_layer)
{
    const struct delta_weights *w = &l->delta;
    struct step_space *u = &f->step;
    const struct delta_state *s = &r->k->state.delta[delta_layer];
    STEP(f->dev, step_project,
         .part = {{.w = w->qkv, .y = s->ring, .ring = true}, {.w = w->z, .y = u->z}, {.w = w->a, .y = s->ring_a, .ring = true},
                  {.w = w->b, .y = s->ring_b, .ring = true}},
         .n_parts = 4, .stream = u->stream, .norm = l->norm_in, .pos = &r->live->pos, .rows = r->rows,
         .slot_bytes = state_slot_bytes(f->cfg), .n_rows = r->n, .eps = f->cfg->rms_eps);
    state_delta_step(&r->k->state, delta_layer, w, r->live, r->rows, u->y, u->ssq, u->z, r->n);
    project_out(f, r, &w->out, u->ssq, NULL);
}

/* Chooses the experts of each row and runs them: rows are grouped by expert, the shared expert is one more, and each is read once for all rows.
 * check: runs nothing, but makes the device fail if it could not run this. */
static void run_experts(struct forward *f, const struct step_rows *r, const struct moe_weights *w, const int32_t *last_of, bool check)
{
    const struct model_config *c = f->cfg;
    const struct step_space *u = &f->step;
    const struct step_choice choice = {.rms = {u->router_ssq, step_router_parts(c->hidden), c->hidden, c->rms_eps}, .logits = u->router,
                                       .n_logits = step_router_parts(c->hidden), .logit_step = u->router_step, .last_of = last_of,
                                       .rows = r->rows, .overlap = u->overlap, .n_experts = c->n_experts, .top_k = c->top_k};
    STEP(f->dev, step_experts, .stream = u->stream, .h = u->expert_h, .route = u->distinct ? u->route : NULL, .choice = choice, .x = u->h,
         .experts = w->experts, .shared = &w->shared, .shared_gate = u->gate, .n_gates = step_router_parts(c->hidden),
         .gate_step = u->router_step, .check = check, .n_rows = r->n, .hidden = c->hidden, .inter = most(c->moe_inter, c->shared_inter));
}

/* stream += experts(norm_post(stream)).  The router's products come in parts, which run_experts() adds up, with the sums of squares of the norm. */
static void moe_step(struct forward *f, const struct step_rows *r, const struct layer_weights *l, const int32_t *n_valid)
{
    const struct model_config *c = f->cfg;
    const struct moe_weights *w = &l->moe;
    struct step_space *u = &f->step;
    STEP(f->dev, step_router, .h = u->h, .logits = u->router, .gate = u->gate, .part_step = u->router_step, .ssq = u->router_ssq,
         .stream = u->stream, .norm = l->norm_post, .router = w->router, .shared_gate = w->shared_gate, .expert_h = u->expert_h,
         .n_expert_h = step_experts_space(r->n, c->n_experts, c->top_k, c->moe_inter), .n_valid = n_valid, .rows = r->rows,
         .n_rows = r->n);
    run_experts(f, r, w, n_valid, false);
}

bool step_check(struct forward *f, int max_rows, struct err *e)
{
    for (int n = 1; n <= max_rows; n++) {
        const struct step_rows r = {.n = n};
        run_experts(f, &r, &f->w->layers[0].moe, NULL, true);
        if (f->w->mtp.present)
            run_experts(f, &r, &f->w->mtp.layer.moe, NULL, true);
    }
    return f->dev->finish(f->dev, e);
}

void step_layers(struct forward *f, const struct step_rows *r)
{
    const struct model_config *c = f->cfg;
    struct step_space *u = &f->step;
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

static struct step_logits_args head_args(const struct step_head *h, float eps)
{
    return (struct step_logits_args){
        .logits = h->logits, .tile_max = h->tile_max, .w = *h->w, .sampling = h->sampling, .seen = h->seen, .bias = h->bias,
        .drafts = h->drafts, .n_ids = h->n_ids, .estimate = h->estimate, .whole = h->whole, .scratch = h->scratch, .eps = eps,
    };
}

void step_output(struct forward *f, const struct step_head *h, const struct step_rows *r, const float *hidden)
{
    struct step_space *u = &f->step;
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

void step_mtp(struct forward *f, const struct step_rows *r, const int32_t *next, const float *hidden, const int32_t *pos,
              const int32_t *n_valid)
{
    const struct mtp_weights *w = &f->w->mtp;
    struct step_space *u = &f->step;
    STEP(f->dev, step_mtp_join, .halves = u->halves, .w = w->fc, .table = f->w->embed, .ids = next, .norm_embedding = w->norm_embedding,
         .hidden = hidden, .norm_hidden = w->norm_hidden, .n_valid = n_valid, .rows = r->rows, .n_rows = r->n, .eps = f->cfg->rms_eps);
    attention_step(f, r, &w->layer, (struct step_project_args){.halves = u->halves, .stream_out = u->stream, .pos = pos, .n_valid = n_valid},
                   f->cfg->n_full);
    moe_step(f, r, &w->layer, n_valid);
}

void step_mtp_output(struct forward *f, const struct step_head *h, const struct step_rows *r, const int32_t *row, const int32_t *n_valid)
{
    struct step_space *u = &f->step;
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

void step_run(struct forward *f, struct cache *k, const int32_t *ids, int n, int pos)
{
    struct step_space *u = &f->step;
    CHECK(n > 0 && n <= STEP_ROWS && pos >= 0 && pos + n <= k->n_ctx);
    state_begin_steps(&k->state, f->w, u->live, pos);
    struct step_live live = state_next_step(&k->state);
    live.rope_offset = cache_rope_offset(k);
    memcpy(live.ids, ids, (size_t)n * sizeof *ids);
    f->dev->copy(f->dev, u->live, &live, sizeof live);
    step_layers(f, &(struct step_rows){.k = k, .live = u->live, .n = n});
    STEP(f->dev, step_norm, .h = u->hidden, .stream = u->stream, .norm = f->w->norm, .n_rows = n, .hidden = f->cfg->hidden,
         .eps = f->cfg->rms_eps);
    state_ran_step(&k->state, n);
    f->newest = u->hidden;
}
