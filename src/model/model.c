#include "model/model.h"

#include "model/upload.h"

/* To where the device wants them. */
static bool place_weights(struct model *m, bool int8_head, struct err *e)
{
    if (m->dev->caps->packs_weights)
        return weights_upload(&m->weights, &m->cfg, m->dev,
                              &(struct upload_options){.heads = int8_head ? UPLOAD_HEAD_INT8 : UPLOAD_HEAD_BF16}, NULL, NULL, e);
    if (int8_head)
        weights_make_int8_head(&m->weights);
    return true;
}

bool model_open(struct model *m, const struct model_options *o, struct err *e)
{
    *m = (struct model){0};
    if (!config_load(&m->cfg, o->dir, e) || !weights_open(&m->weights, &m->cfg, o->dir, e))
        return false;
    m->dev = dev_open(o->backend, o->n_threads, e);
    const struct kv_recipe *recipe = m->dev ? kv_recipe_find(o->kv ? o->kv : m->dev->caps->packs_weights ? "bf16" : NULL, e) : NULL;
    if (!recipe || !place_weights(m, o->int8_head, e))
        return false;
    m->forward = forward_open(m->dev, &m->cfg, &m->weights, o->max_rows, e);
    m->cache = m->forward ? cache_open(m->dev, &m->cfg, recipe, o->n_ctx, o->max_step, e) : NULL;
    return m->cache;
}

void model_close(struct model *m)
{
    cache_close(m->cache);
    forward_close(m->forward);
    weights_close(&m->weights);         /* its memory is the device's */
    dev_close(m->dev);
    *m = (struct model){0};
}
