#include "model/traffic.h"

#include <math.h>

#include "kernels/pack.h"
#include "model/stepper.h"

size_t traffic_matrix(const struct weight *w, bool packed)
{
    if (w->format == WEIGHT_NONE)
        return 0;
    return packed ? pack_data_bytes(w->format, w->rows, w->cols) + pack_scale_bytes(w->format, w->rows, w->cols) : weight_bytes(w);
}

size_t traffic_expert(const struct expert_weights *x, bool packed)
{
    return traffic_matrix(&x->gate, packed) + traffic_matrix(&x->up, packed) + traffic_matrix(&x->down, packed);
}

static size_t mixer(const struct layer_weights *l, bool packed)
{
    const struct weight *attn[] = {&l->attn.q, &l->attn.k, &l->attn.v, &l->attn.o};
    const struct weight *delta[] = {&l->delta.qkv, &l->delta.z, &l->delta.a, &l->delta.b, &l->delta.out};
    size_t bytes = 0;
    for (int i = 0; i < (l->full ? 4 : 5); i++)
        bytes += traffic_matrix(l->full ? attn[i] : delta[i], packed);
    return bytes;
}

/* Returns the bytes of a layer without its routed experts. */
static size_t layer(const struct layer_weights *l, bool packed)
{
    const struct moe_weights *m = &l->moe;
    return mixer(l, packed) + traffic_matrix(&m->router, packed) + traffic_matrix(&m->shared_gate, packed) + traffic_expert(&m->shared, packed);
}

/* Returns the bytes of a head that a step reads: of two planes the upper one.  The few ids that the step completes do not count. */
static size_t head_bytes(const struct weight *w, bool packed)
{
    return w->format == WEIGHT_PLANES ? weight_bytes(w) - (size_t)w->rows * plane_pitch(w->cols) : traffic_matrix(w, packed);
}

struct traffic traffic_of(const struct model_config *c, const struct weights *w, enum head head, const struct kv_recipe *kv, bool packed)
{
    const struct weight *h = weights_head(w, head);
    const size_t state = (size_t)c->lin_v_heads * (size_t)c->lin_k_dim * (size_t)c->lin_v_dim * sizeof(float);
    struct traffic t = {.c = c, .kv = kv};
    t.fixed = (double)head_bytes(h, packed) + 2.0 * c->n_delta * (double)state;
    for (int i = 0; i < c->n_layers; i++) {
        t.fixed += (double)layer(&w->layers[i], packed);
        t.expert += (double)traffic_expert(&w->layers[i].moe.experts[0], packed);
    }
    if (!w->mtp.present)
        return t;
    t.mtp = (double)(traffic_matrix(&w->mtp.fc, packed) + layer(&w->mtp.layer, packed));
    t.mtp_rows = (double)(traffic_matrix(&w->mtp.fc, packed) + traffic_matrix(&w->mtp.layer.attn.k, packed)
                          + traffic_matrix(&w->mtp.layer.attn.v, packed));
    t.mtp_expert = (double)traffic_expert(&w->mtp.layer.moe.experts[0], packed);
    t.draft_head = (double)head_bytes(h, packed) * stepper_draft_rows(h) / c->vocab;
    return t;
}

double traffic_distinct(const struct traffic *t, double rows)
{
    return fmin(t->c->n_experts, t->c->top_k * pow(rows, 0.77));
}

double traffic_step(const struct traffic *t, int rows, int pos, double distinct)
{
    return t->fixed + distinct * t->expert + (double)kv_read_bytes(t->c, t->kv, pos + rows - 1);
}

double traffic_mtp(const struct traffic *t, double distinct)
{
    return t->mtp + distinct * t->mtp_expert;
}
