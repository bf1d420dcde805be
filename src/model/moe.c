#include "base/least.h"
#include "model/blocks.h"

/* x += sum over the chosen experts + the gated shared expert, which rides along as one more expert of every row. */
void moe_block(const struct pass *p, const struct moe_weights *w)
{
    struct forward *f = p->f;
    const struct model_config *c = f->cfg;
    const int inter = most(c->moe_inter, c->shared_inter);

    linear(f, f->router_logits, f->h, &w->router, p->n, false);
    linear(f, f->shared_gate, f->h, &w->shared_gate, p->n, false);
    RUN(f->dev, router, .experts = f->experts, .weights = f->router_weights, .logits = f->router_logits, .n_tokens = p->n,
        .n_experts = c->n_experts, .top_k = c->top_k);
    RUN(f->dev, moe_group, .start = f->start, .slots = f->slots, .experts = f->experts, .n_tokens = p->n,
        .n_experts = c->n_experts, .top_k = c->top_k);
    RUN(f->dev, experts_up, .h = f->slots_h, .x = f->h, .experts = w->experts, .shared = &w->shared, .start = f->start,
        .slots = f->slots, .n_tokens = p->n, .n_experts = c->n_experts, .top_k = c->top_k, .inter_max = inter);
    RUN(f->dev, experts_down, .d = f->slots_d, .h = f->slots_h, .experts = w->experts, .shared = &w->shared,
        .start = f->start, .slots = f->slots, .n_tokens = p->n, .n_experts = c->n_experts, .top_k = c->top_k, .inter_max = inter);
    RUN(f->dev, moe_combine, .x = f->x, .d = f->slots_d, .weights = f->router_weights, .shared_gate = f->shared_gate,
        .n_tokens = p->n, .top_k = c->top_k, .hidden = c->hidden);
}
