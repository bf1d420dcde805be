#include "bench/subject.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "kernels/cuda/fill.h"
#include "kernels/pack.h"

/* ---- device */

/* --sms: before the device is opened, whose stream then belongs to the part. */
static bool confine(const struct bench_options *o, const char *backend, struct err *e)
{
    if (!o->n_sms)
        return true;
#ifdef Q35_CUDA
    char why[160];
    if (!strcmp(backend, "cuda"))
        return gpu_confine(o->n_sms, why, sizeof why) || err_set(e, "--sms %d: %s", o->n_sms, why);
#endif
    return err_set(e, "--sms %d: the backend %s has no multiprocessors", o->n_sms, backend);
}

struct dev *subject_open_device(const struct bench_options *o, struct err *e)
{
    const char *backend = dev_backend(o->backend, e);
    return backend && confine(o, backend, e) ? dev_open(backend, o->n_threads, e) : NULL;
}

/* ---- model */

static bool open_synthetic(struct subject *s, int n_ctx, int max_rows, int max_step, struct err *e)
{
    struct model *m = &s->m;
    const struct bench_options *o = s->o;
    const struct kv_recipe *recipe;
    unsigned heads = s->head == HEAD_INT8 ? SYNTHETIC_INT8_HEAD : SYNTHETIC_DENSE_HEAD;
    if (!synthetic_config(&m->cfg, o->synthetic, o->n_layers, e))
        return false;
    m->dev = subject_open_device(o, e);
    recipe = m->dev ? kv_recipe_find(o->kv ? o->kv : "bf16", e) : NULL;
    s->synthetic = recipe ? synthetic_open(&m->weights, &m->cfg, m->dev, heads, (uint64_t)o->seed, e) : NULL;
    m->forward = s->synthetic ? forward_open(m->dev, &m->cfg, &m->weights, max_rows, e) : NULL;
    m->cache = m->forward ? cache_open(m->dev, &m->cfg, recipe, n_ctx, max_step, e) : NULL;
    return m->cache;
}

static bool open_checkpoint(struct subject *s, int n_ctx, int max_rows, int max_step, struct err *e)
{
    const struct bench_options *o = s->o;
    const char *backend = dev_backend(o->backend, e);
    return backend && confine(o, backend, e)
        && model_open(&s->m, &(struct model_options){
               .dir = o->model_dir, .backend = backend, .kv = o->kv ? o->kv : strcmp(backend, "cuda") ? NULL : "bf16", .n_threads = o->n_threads,
               .n_ctx = n_ctx, .max_rows = max_rows, .max_step = max_step, .int8_head = s->head == HEAD_INT8,
           }, e);
}

bool subject_open(struct subject *s, const struct bench_options *o, int n_ctx, int max_rows, int max_step, struct err *e)
{
    *s = (struct subject){.o = o, .head = o->head && !strcmp(o->head, "bf16") ? HEAD_BF16 : HEAD_INT8};
    if (o->head && strcmp(o->head, "bf16") && strcmp(o->head, "int8"))
        return err_set(e, "--head is '%s', expected bf16 or int8", o->head);
    if (!o->synthetic == !o->model_dir)
        return err_set(e, "expected one of --synthetic NAME and --model DIR");
    if (!(o->synthetic ? open_synthetic(s, n_ctx, max_rows, max_step, e) : open_checkpoint(s, n_ctx, max_rows, max_step, e)))
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
                s->head == HEAD_INT8 ? "INT8" : "as stored");
    report_fact(r, "plain read", "%.0f GB/s", s->read_gb_s);
}

void subject_close(struct subject *s)
{
    if (!s->synthetic && s->o && s->o->model_dir) {
        model_close(&s->m);
        return;
    }
    cache_close(s->m.cache);
    forward_close(s->m.forward);
    synthetic_close(s->synthetic);
    dev_close(s->m.dev);
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

double subject_step_bytes(const struct subject *s, int rows, int pos, double distinct)
{
    const struct model_config *c = &s->m.cfg;
    const struct weights *w = &s->m.weights;
    double bytes = (double)subject_matrix_bytes(s, s->head == HEAD_INT8 ? &w->head_int8 : &w->head);
    double element = !s->o->kv ? subject_fused(s) ? 2 : 4 : strcmp(s->o->kv, "f32") ? 2 : 4;
    for (int i = 0; i < c->n_layers; i++) {
        const struct moe_weights *m = &w->layers[i].moe;
        bytes += (double)(mixer_bytes(s, &w->layers[i]) + subject_matrix_bytes(s, &m->router) + subject_matrix_bytes(s, &m->shared_gate)
                          + subject_expert_bytes(s, &m->shared))
               + distinct * (double)subject_expert_bytes(s, &m->experts[0]);
    }
    bytes += c->n_delta * 2.0 * c->lin_v_heads * c->lin_k_dim * c->lin_v_dim * (double)sizeof(float);
    bytes += c->n_full * 2.0 * (pos + rows) * c->n_kv_heads * c->head_dim * element;
    return bytes;
}
