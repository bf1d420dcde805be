/* The size that a picture gets, and resampling to it in 8 bits. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "image/image.h"

enum {
    MAX_CONFIG = 1 << 20,               /* bytes of the file with the limits */
    WEIGHT_BITS = 22,                   /* of a weight after the point: with 8 of a sample and the sign, 32 bits hold every sum */
    RADIUS = 2,                         /* of the kernel, in output pixels when shrinking, else in input pixels */
};

/* ---- limits ---- */

/* Reads the limits from a file of the checkpoint.  False if it cannot be read, or if its sizes are no limits. */
static bool read_limits(struct image_limits *l, const char *path, struct err *e)
{
    struct buf text = {0};
    json_error_t je;
    if (!file_read(&text, path, MAX_CONFIG, e)) {
        buf_free(&text);
        return false;
    }
    json_t *root = json_loadb(buf_str(&text), text.len, 0, &je), *part = json_object_get(root, "image_processor");
    const json_t *size = json_object_get(part ? part : root, "size");
    const json_t *least = json_object_get(size, "shortest_edge"), *most = json_object_get(size, "longest_edge");
    bool ok = json_is_object(root) || err_set(e, "%s is not a JSON object", path);
    if (ok && least && most) {
        *l = (struct image_limits){json_integer_value(least), json_integer_value(most)};
        ok = (l->min_pixels >= 1 && l->max_pixels >= IMAGE_FACTOR * IMAGE_FACTOR && l->min_pixels <= l->max_pixels &&
              l->max_pixels <= IMAGE_MAX_PIXELS) ||
             err_set(e, "%s has the limits shortest_edge %lld and longest_edge %lld, expected areas in pixels", path, (long long)l->min_pixels,
                     (long long)l->max_pixels);
    }
    json_decref(root);
    buf_free(&text);
    return ok;
}

bool image_limits_load(struct image_limits *l, const char *dir, struct err *e)
{
    static const char *const names[] = {"preprocessor_config.json", "processor_config.json"};
    bool ok = true, found = false;
    *l = (struct image_limits){IMAGE_MIN_AREA, IMAGE_MAX_AREA};
    for (size_t i = 0; i < 2 && !found; i++) {
        struct buf path = {0};
        buf_addf(&path, "%s/%s", dir, names[i]);
        found = !access(path.data, F_OK);
        ok = !found || read_limits(l, path.data, e);
        buf_free(&path);
    }
    return ok;
}

bool image_limits_within(struct image_limits *l, const char *dir, int most_tokens, struct err *e)
{
    const int64_t most = (int64_t)most_tokens * IMAGE_FACTOR * IMAGE_FACTOR;
    if (!image_limits_load(l, dir, e))
        return false;
    l->max_pixels = l->max_pixels < most ? l->max_pixels : most;
    l->min_pixels = l->min_pixels < l->max_pixels ? l->min_pixels : l->max_pixels;
    return true;
}

/* ---- size ---- */

/* rint() rounds halves to even. */
bool image_target(int h, int w, const struct image_limits *l, int *target_h, int *target_w, struct err *e)
{
    const double f = IMAGE_FACTOR, longer = h > w ? h : w, shorter = h > w ? w : h;
    double H = rint(h / f) * f, W = rint(w / f) * f;
    if (shorter < 1 || longer / shorter > IMAGE_MAX_RATIO)
        return err_set(e, "a picture of %d x %d pixels is too narrow: one side may be at most %d times the other", w, h, IMAGE_MAX_RATIO);
    if (H * W > (double)l->max_pixels) {
        const double beta = sqrt((double)h * w / (double)l->max_pixels);
        H = fmax(f, floor(h / beta / f) * f);
        W = fmax(f, floor(w / beta / f) * f);
    } else if (H * W < (double)l->min_pixels) {
        const double beta = sqrt((double)l->min_pixels / ((double)h * w));
        H = ceil(h * beta / f) * f;
        W = ceil(w * beta / f) * f;
    }
    *target_h = (int)H;
    *target_w = (int)W;
    return (H >= f && W >= f) || err_set(e, "a picture of %d x %d pixels is too small", w, h);
}

/* ---- resampling ---- */

/* Which input samples make each output sample of a row or a column, and with which weights. */
struct filter {
    int n_out, most;                    /* samples of the output; weights of one at most */
    int *first, *count;                 /* [n_out] */
    int32_t *weights;                   /* [n_out, most], times 2^WEIGHT_BITS */
};

/* Keys' cubic with a = -0.5 (Cubic convolution interpolation for digital image processing, 1981). */
static double cubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/* Computes the weights of an output sample; they are cut at the edges and add up to 1. */
static void set_weights(struct filter *f, int out, int n_in, double scale, double *w)
{
    const double widened = scale > 1 ? scale : 1, reach = RADIUS * widened, centre = (out + 0.5) * scale, per = 1 / widened;
    const double low = centre - reach + 0.5, high = centre + reach + 0.5;
    const int first = low > 0 ? (int)low : 0, end = high < n_in ? (int)high : n_in;
    double sum = 0;
    for (int i = first; i < end; i++)
        sum += w[i - first] = cubic((i - centre + 0.5) * per);
    f->first[out] = first;
    f->count[out] = end - first;
    for (int i = 0; i < end - first; i++) {
        const double x = (sum != 0 ? w[i] / sum : w[i]) * (1 << WEIGHT_BITS);
        f->weights[(size_t)out * (size_t)f->most + (size_t)i] = (int32_t)(x < 0 ? x - 0.5 : x + 0.5);
    }
}

/* Returns the weights of a resampling from n_in to n_out pixels; they are the arena's. */
static struct filter filter_make(int n_in, int n_out, struct arena *a)
{
    const double scale = (double)n_in / n_out, widened = scale > 1 ? scale : 1;
    struct filter f = {.n_out = n_out, .most = 2 * (int)ceil(RADIUS * widened) + 1};
    f.first = arena_array(a, (size_t)n_out, sizeof *f.first);
    f.count = arena_array(a, (size_t)n_out, sizeof *f.count);
    f.weights = arena_array(a, (size_t)n_out * (size_t)f.most, sizeof *f.weights);
    double *w = arena_array(a, (size_t)f.most, sizeof *w);
    for (int i = 0; i < n_out; i++)
        set_weights(&f, i, n_in, scale, w);
    return f;
}

static uint8_t rounded(int32_t sum)
{
    const int32_t x = sum >> WEIGHT_BITS;
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

/* Resamples a row of three colours to n_out pixels. */
static void filter_row(const struct filter *f, const uint8_t *in, uint8_t *out)
{
    for (int x = 0; x < f->n_out; x++) {
        const int32_t *w = f->weights + (size_t)x * (size_t)f->most;
        const uint8_t *p = in + (size_t)f->first[x] * 3;
        int32_t r = 1 << (WEIGHT_BITS - 1), g = r, b = r;
        for (int i = 0; i < f->count[x]; i++, p += 3) {
            r += p[0] * w[i];
            g += p[1] * w[i];
            b += p[2] * w[i];
        }
        out[3 * x] = rounded(r);
        out[3 * x + 1] = rounded(g);
        out[3 * x + 2] = rounded(b);
    }
}

/* Makes row y of the output from rows of `n` samples.  sums [n] is for the function's own use. */
static void filter_columns(const struct filter *f, int y, const uint8_t *in, size_t n, int32_t *sums, uint8_t *out)
{
    for (size_t x = 0; x < n; x++)
        sums[x] = 1 << (WEIGHT_BITS - 1);
    for (int i = 0; i < f->count[y]; i++) {
        const uint8_t *row = in + (size_t)(f->first[y] + i) * n;
        const int32_t w = f->weights[(size_t)y * (size_t)f->most + (size_t)i];
        for (size_t x = 0; x < n; x++)
            sums[x] += row[x] * w;
    }
    for (size_t x = 0; x < n; x++)
        out[x] = rounded(sums[x]);
}

/* The two passes.  A pass that changes nothing is left out.  False without memory; then *im is as before. */
static bool widen(struct image *im, int w, struct arena *a)
{
    if (w == im->w)
        return true;
    struct image to = {.w = w, .h = im->h, .rgb = malloc((size_t)w * (size_t)im->h * 3)};
    if (!to.rgb)
        return false;
    const struct filter f = filter_make(im->w, w, a);
    for (int y = 0; y < im->h; y++)
        filter_row(&f, im->rgb + (size_t)y * (size_t)im->w * 3, to.rgb + (size_t)y * (size_t)w * 3);
    image_free(im);
    *im = to;
    return true;
}

/* Resamples a picture to the height h.  False if there is too little memory. */
static bool heighten(struct image *im, int h, struct arena *a)
{
    if (h == im->h)
        return true;
    const size_t row = (size_t)im->w * 3;
    struct image to = {.w = im->w, .h = h, .rgb = malloc((size_t)h * row)};
    if (!to.rgb)
        return false;
    const struct filter f = filter_make(im->h, h, a);
    int32_t *sums = arena_array(a, row, sizeof *sums);
    for (int y = 0; y < h; y++)
        filter_columns(&f, y, im->rgb, row, sums, to.rgb + (size_t)y * row);
    image_free(im);
    *im = to;
    return true;
}

bool image_fit(struct image *im, const struct image_limits *l, struct err *e)
{
    struct arena tmp = {0};
    int h, w;
    if (!image_target(im->h, im->w, l, &h, &w, e))
        return false;
    bool ok = (widen(im, w, &tmp) && heighten(im, h, &tmp)) ||
              err_set(e, "there is too little memory to resize a picture of %d x %d pixels", im->w, im->h);
    arena_free(&tmp);
    return ok;
}

/* ---- patches ---- */

struct image_grid image_grid(const struct image *im)
{
    const int h = im->h / IMAGE_SIDE, w = im->w / IMAGE_SIDE;
    return (struct image_grid){.h = h, .w = w, .tokens = h * w / 4};
}

bool image_shrink(struct image *im, int w, int h)
{
    struct arena a = {0};
    const bool ok = widen(im, w, &a) && heighten(im, h, &a);
    arena_free(&a);
    return ok;
}

/* out [3, 2, IMAGE_SIDE, IMAGE_SIDE]: the patch whose upper left pixel is at row y, column x. */
static void one_patch(const struct image *im, int y, int x, float *out)
{
    enum { FRAME = IMAGE_SIDE * IMAGE_SIDE };
    for (int r = 0; r < IMAGE_SIDE; r++) {
        const uint8_t *p = im->rgb + ((size_t)(y + r) * (size_t)im->w + (size_t)x) * 3;
        for (int c = 0; c < IMAGE_SIDE; c++)
            for (int channel = 0; channel < 3; channel++)
                out[2 * FRAME * channel + IMAGE_SIDE * r + c] = ((float)p[3 * c + channel] - 127.5f) / 127.5f;
    }
    for (int channel = 0; channel < 3; channel++)
        memcpy(out + (2 * channel + 1) * FRAME, out + 2 * channel * FRAME, FRAME * sizeof *out);
}

void image_patches(const struct image *im, float *patches)
{
    for (int y = 0; y < im->h; y += IMAGE_FACTOR)
        for (int x = 0; x < im->w; x += IMAGE_FACTOR)
            for (int i = 0; i < 4; i++, patches += IMAGE_PATCH)
                one_patch(im, y + i / 2 * IMAGE_SIDE, x + i % 2 * IMAGE_SIDE, patches);
}

struct fingerprint image_hash(const struct image *im)
{
    struct fingerprinter *f = fingerprint_begin();
    const uint8_t size[] = {(uint8_t)(im->h >> 24), (uint8_t)(im->h >> 16), (uint8_t)(im->h >> 8), (uint8_t)im->h,
                            (uint8_t)(im->w >> 24), (uint8_t)(im->w >> 16), (uint8_t)(im->w >> 8), (uint8_t)im->w};
    fingerprint_add(f, size, sizeof size);
    fingerprint_add(f, im->rgb, (size_t)im->w * (size_t)im->h * 3);
    return fingerprint_end(f);
}
