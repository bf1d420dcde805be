/* `debug image`: what a vision tower gets of pictures. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/memory.h"
#include "debug/debug.h"
#include "debug/lines.h"
#include "image/image.h"
#include "model/safetensors_write.h"
#include "model/vision.h"

enum { SHOWN = 4, SLICE = 1024 };      /* numbers of a row in an answer; patches computed at a time */

/* The vision tower, opened for the first line that asks for its rows. */
struct tower {
    struct model_config cfg;
    struct weights weights;
    struct dev *dev;
    bool open;                          /* the weights are */
};

struct job {
    const struct debug_options *o;
    struct image_limits limits;         /* the model's */
    struct tower tower;
    int n_lines;
    struct tensor_out **tensors;        /* [n]; each owns its name and its source */
    int n, cap;
};

/* Adds a tensor; its bytes, which the job owns from now on, are written at the end. */
static void add_tensor(struct job *j, const char *kind, enum dtype dtype, const uint64_t *shape, int n_dims, void *bytes)
{
    struct tensor_out *t = memory_zeroed(1, sizeof *t);
    struct buf name = {0};
    buf_addf(&name, "%s.%d", kind, j->n_lines);
    *t = (struct tensor_out){.name = name.data, .dtype = dtype, .n_dims = n_dims, .source = bytes};
    memcpy(t->shape, shape, (size_t)n_dims * sizeof *shape);
    j->tensors = memory_grow(j->tensors, j->n, &j->cap, sizeof *j->tensors);
    j->tensors[j->n++] = t;
}

static bool copy_bytes(const struct tensor_out *t, uint64_t at, uint64_t n, uint8_t *dst, struct err *e)
{
    (void)e;
    memcpy(dst, (const uint8_t *)t->source + at, n);
    return true;
}

/* Loads the vision tower, once, on the CPU. */
static bool open_tower(struct tower *t, const struct debug_options *o, struct err *e)
{
    if (t->open)
        return true;
    if (!config_load(&t->cfg, o->model_dir, e))
        return false;
    if (!t->cfg.vision.depth)
        return err_set(e, "%s has no vision tower, expected one to compute \"rows\"", o->model_dir);
    t->dev = t->dev ? t->dev : dev_open_cpu(o->n_threads, e);
    t->open = t->dev && weights_open(&t->weights, &t->cfg, o->model_dir, e);
    return t->open;
}

/* Computes the rows that the tower makes of the picture, [tokens, hidden], by the definitions of the operations.  NULL with the reason. */
static float *compute_rows(struct tower *t, const struct image *im, struct err *e)
{
    const struct image_grid g = image_grid(im);
    struct vision *v = vision_open(t->dev, &t->cfg, &t->weights, g.h * g.w, SLICE, e);
    if (!v)
        return NULL;
    float *rows = memory_zeroed((size_t)g.tokens * (size_t)t->cfg.hidden, sizeof *rows);
    vision_begin(v, im->rgb, g.h, g.w, rows);
    while (!vision_continue(v, 1))
        ;
    const bool ok = t->dev->finish(t->dev, e);
    vision_close(v);
    if (ok)
        return rows;
    free(rows);
    return NULL;
}

/* Appends of each row its mean, its norm and its first numbers. */
static void add_rows(struct buf *out, const float *rows, int n, int hidden)
{
    buf_adds(out, ", \"rows\": [");
    for (int i = 0; i < n; i++, rows += hidden) {
        double sum = 0, squares = 0;
        for (int k = 0; k < hidden; k++) {
            sum += (double)rows[k];
            squares += (double)rows[k] * (double)rows[k];
        }
        buf_addf(out, "%s{\"mean\": %.6g, \"norm\": %.6g, \"first\": [", i ? ", " : "", sum / hidden, sqrt(squares));
        for (int k = 0; k < SHOWN && k < hidden; k++)
            buf_addf(out, "%s%.6g", k ? ", " : "", (double)rows[k]);
        buf_adds(out, "]}");
    }
    buf_adds(out, "]");
}

/* Reads {"image": PATH, "min_pixels": n, "max_pixels": n, "rows": true}. */
static bool read_line(const json_t *root, struct image_limits *l, const char **path, struct err *e)
{
    const json_t *least = json_object_get(root, "min_pixels"), *most = json_object_get(root, "max_pixels");
    *path = json_string_value(json_object_get(root, "image"));
    if (least)
        l->min_pixels = json_integer_value(least);
    if (most)
        l->max_pixels = json_integer_value(most);
    if (!*path)
        return err_set(e, "expected {\"image\": PATH}");
    return (l->min_pixels >= 1 && l->max_pixels >= IMAGE_FACTOR * IMAGE_FACTOR && l->max_pixels <= IMAGE_MAX_PIXELS) ||
           err_set(e, "min_pixels must be at least 1 and max_pixels from %d to %d", IMAGE_FACTOR * IMAGE_FACTOR, IMAGE_MAX_PIXELS);
}

/* Answers a line: decodes and resizes a picture, and computes its rows if they are wanted. */
static bool answer(const char *line, size_t n, struct buf *out, void *arg, struct err *e)
{
    struct job *j = arg;
    struct image_limits limits = j->limits;
    struct image im = {0};
    const char *path;
    json_t *root = json_loadb(line, n, 0, NULL);
    float *rows = NULL;
    bool ok = read_line(root, &limits, &path, e) && image_read(&im, path, e) && image_fit(&im, &limits, e);
    if (ok && json_is_true(json_object_get(root, "rows")))
        ok = open_tower(&j->tower, j->o, e) && (rows = compute_rows(&j->tower, &im, e)) != NULL;
    if (ok) {
        const struct image_grid g = image_grid(&im);
        const int hidden = j->tower.cfg.hidden;
        buf_addf(out, "{\"grid\": [1, %d, %d], \"tokens\": %d", g.h, g.w, g.tokens);
        if (rows) {
            add_rows(out, rows, g.tokens, hidden);
            add_tensor(j, "rows", DT_F32, (uint64_t[]){(uint64_t)g.tokens, (uint64_t)hidden}, 2, rows);
        }
        buf_adds(out, "}");
        add_tensor(j, "resized", DT_U8, (uint64_t[]){(uint64_t)im.h, (uint64_t)im.w, 3}, 3, im.rgb);
    } else
        image_free(&im);
    json_decref(root);
    j->n_lines++;
    return ok;
}

int debug_image(const struct debug_options *o, FILE *in, FILE *out)
{
    struct job j = {.o = o};
    struct err e = {0};
    int status = 1;
    if (image_limits_load(&j.limits, o->model_dir, &e)) {
        status = debug_lines(in, out, answer, &j);
        struct file_out file = {.path = o->out_file, .tensors = j.tensors, .n_tensors = j.n};
        status |= !safetensors_write(&file, 1, &(struct write_options){.make = copy_bytes}, &e);
    }
    if (*e.msg)
        err_warn("%s", e.msg);
    for (int i = 0; i < j.n; i++) {
        free((void *)(uintptr_t)j.tensors[i]->name);
        free((void *)(uintptr_t)j.tensors[i]->source);
        free(j.tensors[i]);
    }
    free(j.tensors);
    if (j.tower.open)
        weights_close(&j.tower.weights);
    dev_close(j.tower.dev);
    return status;
}
