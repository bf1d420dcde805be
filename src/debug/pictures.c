#include "debug/pictures.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/memory.h"
#include "engine/load.h"
#include "image/image.h"
#include "model/vision.h"

/* Reads and resizes a picture of the prompt. */
static bool look(struct debug_prompt *p, const char *path, const struct image_limits *l, struct err *e)
{
    struct image im = {0};
    const bool ok = image_read(&im, path, e) && image_fit(&im, l, e);
    if (ok) {
        const struct image_grid g = image_grid(&im);
        p->pictures[p->n] = (struct picture){.n = g.tokens, .h = g.h / 2, .w = g.w / 2, .hash = image_hash(&im)};
        p->pixels[p->n++] = pixels_new(im.rgb, im.h, im.w);
    }
    image_free(&im);
    return ok;
}

/* Copies the ids with the pads that each picture needs, and notes where they begin. */
static bool spread(struct debug_prompt *p, const struct ids *ids, int32_t pad, struct err *e)
{
    int n_seen = 0;
    for (int i = 0, run; i < ids->n; i += run) {
        run = 1;
        if (ids->data[i] != pad || !p->n) {
            ids_add(&p->spread, ids->data[i]);
            continue;
        }
        while (i + run < ids->n && ids->data[i + run] == pad)
            run++;
        if (n_seen == p->n)
            return err_set(e, "the ids have places for more pictures than the %d of \"images\"", p->n);
        struct picture *at = &p->pictures[n_seen++];
        if (run != 1 && run != at->n)
            return err_set(e, "picture %d has %d tokens, but %d pads among the ids, expected 1 or %d", n_seen, at->n, run, at->n);
        at->first = p->spread.n;
        for (int k = 0; k < at->n; k++)
            ids_add(&p->spread, pad);
    }
    return n_seen == p->n || err_set(e, "the ids have places for %d pictures, expected %d as in \"images\"", n_seen, p->n);
}

bool debug_prompt_read(struct debug_prompt *p, const struct debug_request *q, const char *dir, const struct model_config *c, int picture_tokens,
                       struct err *e)
{
    struct image_limits limits;
    *p = (struct debug_prompt){0};
    if (q->n_images && (!c->vision.depth || c->vision.image_id < 0))
        return err_set(e, "%s has no vision tower, expected one to see \"images\"", dir);
    if (q->n_images && !image_limits_load(&limits, dir, e))
        return false;
    p->pictures = memory_zeroed((size_t)q->n_images, sizeof *p->pictures);
    p->pixels = memory_zeroed((size_t)q->n_images, sizeof *p->pixels);
    for (int i = 0; i < q->n_images; i++) {
        const int64_t most = (int64_t)picture_tokens * IMAGE_FACTOR * IMAGE_FACTOR;
        limits.max_pixels = limits.max_pixels < most ? limits.max_pixels : most;
        limits.min_pixels = limits.min_pixels < most ? limits.min_pixels : most;
        if (!look(p, q->images[i], &limits, e))
            return false;
        if (p->pictures[i].n > picture_tokens)
            return err_set(e, "%s has %d tokens even when shrunk, expected at most %d", q->images[i], p->pictures[i].n, picture_tokens);
    }
    if (!spread(p, &q->ids, c->vision.image_id, e))
        return false;
    p->spans = (struct spans){.ids = p->spread.data, .n = p->spread.n, .pictures = p->pictures, .n_pictures = p->n, .pixels = p->pixels};
    return true;
}

bool debug_prompt_begin(struct debug_prompt *p, struct model *m, struct err *e)
{
    const size_t hidden = (size_t)m->cfg.hidden;
    size_t n_rows = 0;
    cache_reset(m->cache);
    if (!p->n)
        return true;
    for (int i = 0; i < p->n; i++)
        n_rows += (size_t)p->pictures[i].n;
    p->memory = m->dev->alloc(m->dev, n_rows * hidden * sizeof *p->memory);
    if (!p->memory)
        return err_set(e, "no memory for the %zu rows of the pictures", n_rows);
    p->rows = memory_zeroed((size_t)p->n, sizeof *p->rows);
    float *rows = p->memory;
    for (int i = 0; i < p->n; i++) {
        const struct picture *at = &p->pictures[i];
        vision_begin(m->vision, p->pixels[i]->rgb, at->h * 2, at->w * 2, rows);
        while (!vision_continue(m->vision, 1))
            ;
        p->rows[i] = (struct picture_rows){at->first, at->n, rows};
        rows += (size_t)at->n * hidden;
    }
    p->at = spans_positions(p->spans, &p->n_at, &p->offset);
    cache_set_positions(m->cache, p->at, p->n_at, p->offset);
    cache_set_pictures(m->cache, p->rows, p->n);
    return m->dev->finish(m->dev, e);
}

void debug_prompt_free(struct debug_prompt *p, struct model *m)
{
    if (p->memory) {
        cache_reset(m->cache);
        m->dev->free(m->dev, p->memory);
    }
    for (int i = 0; i < p->n; i++)
        pixels_release(p->pixels[i]);
    free(p->pixels);
    free(p->pictures);
    free(p->rows);
    free(p->at);
    ids_free(&p->spread);
    *p = (struct debug_prompt){0};
}
