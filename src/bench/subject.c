#include "bench/subject.h"

#include "kernels/pack.h"
#include "model/stepper.h"

bool subject_load(struct model *m, const struct bench_options *o, const struct load_options *l, struct err *e)
{
    struct load_options all = *l;
    all.dir = o->model_dir;
    all.synthetic = o->synthetic;
    all.n_layers = o->n_layers;
    all.seed = (uint64_t)o->seed;
    all.backend = o->backend;
    all.kv = o->kv;
    all.head = o->head;
    all.n_threads = o->n_threads;
    all.n_snapshots = LOAD_NO_SNAPSHOTS;
    all.weights_in_host = o->weights_in_host;
    all.kv_in_host = o->kv_in_host;
    /* --sms: before the device is opened, whose stream then belongs to the part */
    return load_check(m, &all, e) && (!o->n_sms || dev_confine(m->backend, o->n_sms, e)) && load_device(m, e);
}

/* While weights are read: a report that was stopped wants no more of them. */
static bool still_wanted(size_t done, size_t total, void *arg)
{
    const struct bench_options *o = arg;
    (void)done, (void)total;
    return !o->stopped || !o->stopped();
}

bool subject_open(struct subject *s, const struct bench_options *o, const struct load_options *l, struct err *e)
{
    *s = (struct subject){.o = o};
    if (!subject_load(&s->m, o, l, e) || !load_weights(&s->m, still_wanted, (void *)o, e) || !load_space(&s->m, e))
        return false;
    const struct model_config *c = &s->m.cfg;
    for (int i = 0; i < c->n_layers; i++)
        if (c->full[i])
            s->full[s->n_full++] = &s->m.weights.layers[i];
        else
            s->delta[s->n_delta++] = &s->m.weights.layers[i];
    s->read_gb_s = s->m.dev->read_gb_s(s->m.dev, e);
    return s->read_gb_s > 0;
}

void subject_report(const struct subject *s, struct report *r)
{
    const struct model_config *c = &s->m.cfg;
    report_device(r, s->m.dev);
    report_fact(r, "model", "%s%s, %d layers (%d attention), hidden %d, %d of %d experts, head %s", s->o->synthetic ? "synthetic " : "",
                s->o->synthetic ? s->o->synthetic : c->name, c->n_layers, c->n_full, c->hidden, c->top_k, c->n_experts,
                s->m.head == HEAD_INT8 ? "INT8" : s->m.head == HEAD_PLANES ? "INT8 in two planes" : "as stored");
    report_fact(r, "plain read", "%.0f GB/s", s->read_gb_s);
}

void subject_close(struct subject *s)
{
    load_close(&s->m);
}

/* ---- bytes */

size_t subject_matrix_bytes(const struct subject *s, const struct weight *w)
{
    if (w->format == WEIGHT_NONE)
        return 0;
    return subject_fused(s) ? pack_data_bytes(w->format, w->rows, w->cols) + pack_scale_bytes(w->format, w->rows, w->cols) : weight_bytes(w);
}

size_t subject_expert_bytes(const struct subject *s, const struct expert_weights *x)
{
    return subject_matrix_bytes(s, &x->gate) + subject_matrix_bytes(s, &x->up) + subject_matrix_bytes(s, &x->down);
}

static size_t mixer_bytes(const struct subject *s, const struct layer_weights *l)
{
    const struct weight *attn[] = {&l->attn.q, &l->attn.k, &l->attn.v, &l->attn.o};
    const struct weight *delta[] = {&l->delta.qkv, &l->delta.z, &l->delta.a, &l->delta.b, &l->delta.out};
    size_t bytes = 0;
    for (int i = 0; i < (l->full ? 4 : 5); i++)
        bytes += subject_matrix_bytes(s, l->full ? attn[i] : delta[i]);
    return bytes;
}

/* Router and experts of a layer; `distinct` of them are read. */
static double mixture_bytes(const struct subject *s, const struct moe_weights *m, double distinct)
{
    return (double)(subject_matrix_bytes(s, &m->router) + subject_matrix_bytes(s, &m->shared_gate) + subject_expert_bytes(s, &m->shared))
        + distinct * (double)subject_expert_bytes(s, &m->experts[0]);
}

static const struct weight *head_of(const struct subject *s)
{
    return weights_head(&s->m.weights, s->m.head);
}

/* Of two planes a step reads the upper one; the few ids that it completes do not count. */
static size_t head_bytes(const struct subject *s)
{
    const struct weight *w = head_of(s);
    return w->format == WEIGHT_PLANES ? weight_bytes(w) - (size_t)w->rows * plane_pitch(w->cols) : subject_matrix_bytes(s, w);
}

double subject_step_bytes(const struct subject *s, int rows, int pos, double distinct)
{
    const struct model_config *c = &s->m.cfg;
    const struct weights *w = &s->m.weights;
    double bytes = (double)head_bytes(s);
    for (int i = 0; i < c->n_layers; i++)
        bytes += (double)mixer_bytes(s, &w->layers[i]) + mixture_bytes(s, &w->layers[i].moe, distinct);
    bytes += c->n_delta * 2.0 * c->lin_v_heads * c->lin_k_dim * c->lin_v_dim * (double)sizeof(float);
    bytes += (double)kv_read_bytes(c, s->m.kv, pos + rows - 1);
    return bytes;
}

/* The MTP block over rows that read `distinct` experts. */
static double mtp_bytes(const struct subject *s, double distinct)
{
    const struct mtp_weights *w = &s->m.weights.mtp;
    return (double)(subject_matrix_bytes(s, &w->fc) + mixer_bytes(s, &w->layer)) + mixture_bytes(s, &w->layer.moe, distinct);
}

double subject_draft_bytes(const struct subject *s, int rows, int n_drafts, double distinct)
{
    const struct model_config *c = &s->m.cfg;
    const double head = (double)head_bytes(s) * stepper_draft_rows(head_of(s)) / c->vocab;
    if (!s->m.weights.mtp.present)
        return 0;
    return mtp_bytes(s, rows > 1 ? distinct : c->top_k) + n_drafts * head + (n_drafts > 1 ? (n_drafts - 1) * mtp_bytes(s, c->top_k) : 0);
}
