/* `debug image`: what a vision tower gets of pictures. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "debug/debug.h"
#include "debug/lines.h"
#include "image/image.h"
#include "model/safetensors_write.h"

struct job {
    struct image_limits limits;         /* the model's */
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

/* Reads {"image": PATH, "min_pixels": n, "max_pixels": n}. */
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

static bool answer(const char *line, size_t n, struct buf *out, void *arg, struct err *e)
{
    struct job *j = arg;
    struct image_limits limits = j->limits;
    struct image im = {0};
    const char *path;
    json_t *root = json_loadb(line, n, 0, NULL);
    bool ok = read_line(root, &limits, &path, e) && image_read(&im, path, e) && image_fit(&im, &limits, e);
    if (ok) {
        const struct image_grid g = image_grid(&im);
        buf_addf(out, "{\"grid\": [1, %d, %d], \"tokens\": %d}", g.h, g.w, g.tokens);
        add_tensor(j, "resized", DT_U8, (uint64_t[]){(uint64_t)im.h, (uint64_t)im.w, 3}, 3, im.rgb);
    } else
        image_free(&im);
    json_decref(root);
    j->n_lines++;
    return ok;
}

int debug_image(const struct debug_options *o, FILE *in, FILE *out)
{
    struct job j = {0};
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
    return status;
}
