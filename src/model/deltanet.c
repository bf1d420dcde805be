#include "model/blocks.h"

/* x += out_proj(gated_norm(delta_rule(conv(qkv)), z)).  In the chunk form. */
void deltanet_block(const struct pass *p, const struct delta_weights *w, int delta_layer)
{
    struct forward *f = p->f;
    const struct model_config *c = f->cfg;
    const struct delta_state *s = &p->k->state.delta[delta_layer];

    linear(f, f->mixer_in, f->h, &w->qkv, p->n, false);
    linear(f, f->mixer_gate, f->h, &w->z, p->n, false);
    linear(f, f->a, f->h, &w->a, p->n, false);
    linear(f, f->b, f->h, &w->b, p->n, false);
    RUN(f->dev, conv, .y = f->mixer_mid, .x = f->mixer_in, .w = w->conv, .window = s->window, .n_tokens = p->n,
        .n_channels = config_conv_dim(c), .taps = c->conv_kernel);
    RUN(f->dev, deltanet_gates, .c = f->mixer_mid, .beta = f->beta, .g = f->g, .a = f->a, .b = f->b, .a_log = w->a_log,
        .dt_bias = w->dt_bias, .n_tokens = p->n, .n_k_heads = c->lin_k_heads, .n_v_heads = c->lin_v_heads,
        .dk = c->lin_k_dim, .dv = c->lin_v_dim);
    RUN(f->dev, deltanet_chunk, .y = f->mixer_out, .c = f->mixer_mid, .beta = f->beta, .g = f->g, .state = s->state, .n_tokens = p->n,
        .n_k_heads = c->lin_k_heads, .n_v_heads = c->lin_v_heads, .dk = c->lin_k_dim, .dv = c->lin_v_dim, .pos = p->pos);
    RUN(f->dev, rmsnorm_gated, .y = f->mixer_out, .x = f->mixer_out, .z = f->mixer_gate, .w = w->norm,
        .next = &w->out, .n_rows = p->n * c->lin_v_heads, .dim = c->lin_v_dim, .eps = c->rms_eps);
    linear(f, f->x, f->mixer_out, &w->out, p->n, true);
}
