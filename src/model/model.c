#include "model/model.h"

bool model_open(struct model *m, const struct model_options *o, struct err *e)
{
    *m = (struct model){0};
    const struct kv_recipe *recipe = kv_recipe_find(o->kv, e);
    if (!recipe || !config_load(&m->cfg, o->dir, e) || !weights_open(&m->weights, &m->cfg, o->dir, e))
        return false;
    if (o->int8_head)
        weights_make_int8_head(&m->weights);
    m->dev = dev_open(o->backend, o->n_threads, e);
    if (!m->dev)
        return false;
    m->forward = forward_open(m->dev, &m->cfg, &m->weights, o->max_rows, e);
    m->cache = m->forward ? cache_open(m->dev, &m->cfg, recipe, o->n_ctx, o->max_step, e) : NULL;
    return m->cache;
}

void model_close(struct model *m)
{
    cache_close(m->cache);
    forward_close(m->forward);
    dev_close(m->dev);
    weights_close(&m->weights);
    *m = (struct model){0};
}
