#include "model/model.h"

#include <string.h>

struct dev *model_device(const char *backend, int n_threads, struct err *e)
{
    if (!backend || !strcmp(backend, "cpu"))
        return dev_open_cpu(n_threads, e);
    if (!strcmp(backend, "cuda"))
        err_set(e, "the backend cuda is not in this build; use --backend cpu");
    else
        err_set(e, "there is no backend named %s; there are cpu and cuda", backend);
    return NULL;
}

bool model_open(struct model *m, const struct model_options *o, struct err *e)
{
    *m = (struct model){0};
    const char *kv = o->kv ? o->kv : "f32";
    const struct kv_recipe *recipe = kv_recipe_find(kv);
    if (!recipe)
        return err_set(e, "there is no KV recipe named %s; there are f32 and bf16", kv);
    if (!config_load(&m->cfg, o->dir, e) || !weights_open(&m->weights, &m->cfg, o->dir, e))
        return false;
    if (o->int8_head)
        weights_make_int8_head(&m->weights);
    m->dev = model_device(o->backend, o->n_threads, e);
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
