#include "base/log.h"
#include "model/blocks.h"

/* x = fc [norm(embed(next)) ; norm(hidden)], one full-attention layer with a KV layer of its own, norm. */
void forward_mtp(struct forward *f, struct cache *k, const float *hidden, const int32_t *next_ids, int n, int pos, float *out)
{
    const struct model_config *c = f->cfg;
    const struct mtp_weights *w = &f->w->mtp;
    size_t H = (size_t)c->hidden;
    CHECK(w->present && n > 0 && n <= f->max_rows && pos >= 0 && pos + n <= k->n_ctx);
    f->dev->copy(f->dev, f->ids, next_ids, (size_t)n * sizeof *next_ids);
    RUN(f->dev, embed, .y = f->x, .ids = f->ids, .table = f->w->embed, .n_tokens = n);
    RUN(f->dev, rmsnorm, .y = f->h2, .x = f->x, .w = w->norm_embedding, .n_rows = n, .dim = c->hidden, .eps = c->rms_eps,
        .y_group = 2 * H);
    RUN(f->dev, rmsnorm, .y = f->h2 + H, .x = hidden, .w = w->norm_hidden, .n_rows = n, .dim = c->hidden, .eps = c->rms_eps,
        .y_group = 2 * H);
    linear(f, f->x, f->h2, &w->fc, n, false);
    const struct pass p = {.f = f, .k = k, .n = n, .pos = pos};
    if (!out) {
        norm(f, f->h, f->x, w->layer.norm_in, n);
        attention_rows(&p, &w->layer.attn, c->n_full);
        return;
    }
    layer_block(&p, &w->layer, c->n_full, 0);
    norm(f, out, f->x, w->norm, n);
}
