/* `q35chat bench vision`: pictures through the vision tower, whole and operation by operation. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/least.h"
#include "base/memory.h"
#include "bench/timing.h"
#include "model/synthetic.h"

/* Grids of patches: 512 x 512 and 1024 x 1024 pixels, and an A4 page that becomes 3,600 tokens. */
static const struct picture { const char *name; int h, w; } pictures[] = {
    {"picture of 512 x 512", 32, 32}, {"picture of 1024 x 1024", 64, 64}, {"A4 page of 1600 x 2304", 144, 100},
};
enum { N_PICTURES = sizeof pictures / sizeof *pictures, MOST_PATCHES = 144 * 100, ALONE = 1, CPU_PICTURES = 1,
       PIXELS = 3 * PATCH_SIDE * PATCH_SIDE };

struct seeing {
    const struct vision_weights *w;
    const struct vision_config *c;
    struct vision *v;
    const struct picture *picture;
    uint8_t *rgb;                       /* of MOST_PATCHES patches, host memory */
    float *rows;                        /* the result */
    double mma;                         /* TFLOP/s of products in registers; NAN on a CPU */
    /* operands of the operations alone, n patches */
    int    n, dim;
    float *x, *h, *wide, *y, *freq, *most;
    char  *q, *k, *values;
    const struct product *product;
};

/* Products of a block: places of the matrix and its bias in struct vision_block_weights, and what reads the outcome. */
enum reader { READ_BY_ALL, READ_BY_ROPE, READ_BY_GELU };
static const struct product { const char *name; size_t matrix, bias; enum reader reader; } products[] = {
#define PRODUCT(name, matrix, reader) {name, offsetof(struct vision_block_weights, matrix), offsetof(struct vision_block_weights, matrix##_b), reader}
    PRODUCT("attn.qkv", qkv, READ_BY_ROPE), PRODUCT("attn.proj", proj, READ_BY_ALL), PRODUCT("mlp.linear_fc1, gelu", fc1, READ_BY_GELU),
    PRODUCT("mlp.linear_fc2", fc2, READ_BY_ALL),
#undef PRODUCT
};
enum { N_PRODUCTS = sizeof products / sizeof *products };

static const struct vision_block_weights *block(const struct seeing *s, int i) { return &s->w->blocks[i % s->c->depth]; }

static void call_picture(struct timing *k, void *arg, int i)
{
    struct seeing *s = arg;
    (void)k, (void)i;
    vision_begin(s->v, s->rgb, s->picture->h, s->picture->w, s->rows);
    while (!vision_continue(s->v, 1))
        ;
}

static void call_product(struct timing *k, void *arg, int i)
{
    const struct seeing *s = arg;
    const char *b = (const char *)block(s, i);
    const struct weight *w = (const struct weight *)(const void *)(b + s->product->matrix);
    const struct gelu_args gelu = {.x = s->y, .next = &block(s, i)->fc2, .n_rows = s->n, .dim = w->rows};
    const float *norms = block(s, i)->norms;
    const enum reader reader = s->product->reader;
    RUN(k->d, linear_dense, .l = {.y = s->y, .x = w->cols == s->c->inter ? s->wide : s->x, .w = *w, .n_tokens = s->n,
                                  .bias = *(const float *const *)(const void *)(b + s->product->bias),
                                  .own_form = reader == READ_BY_ROPE && norms, .gelu = reader == READ_BY_GELU ? &gelu : NULL,
                                  .norm = norms && reader == READ_BY_GELU ? norms + 1 : norms});
}

static void call_norm(struct timing *k, void *arg, int i)
{
    const struct seeing *s = arg;
    const struct vision_block_weights *b = block(s, i);
    RUN(k->d, layernorm, .y = s->h, .x = s->x, .w = b->norm1_w, .b = b->norm1_b, .n_rows = s->n, .dim = s->c->hidden, .eps = 1e-6f);
}

static void call_rope(struct timing *k, void *arg, int i)
{
    const struct seeing *s = arg;
    RUN(k->d, patch_rope, .q = s->q, .k = s->k, .v = s->values, .dtype = subject_fused(k->s) ? DT_BF16 : DT_F32, .qkv = s->y, .freq = s->freq,
        .most = s->most, .own_form = block(s, i)->norms, .n_rows = s->n, .n = s->n, .n_heads = s->c->n_heads, .dim = s->dim, .grid_w = s->picture->w);
}

static void call_attention(struct timing *k, void *arg, int i)
{
    const struct seeing *s = arg;
    RUN(k->d, patch_attention, .y = s->h, .q = s->q, .k = s->k, .v = s->values, .dtype = subject_fused(k->s) ? DT_BF16 : DT_F32, .most = s->most,
        .next = &block(s, i)->proj, .n_rows = s->n, .n = s->n, .n_heads = s->c->n_heads, .dim = s->dim, .scale = 1 / sqrtf((float)s->dim));
}

/* ---- the table ---- */

static const struct column columns[] = {
    {"operation", "operation", -30, 0}, {"patches", "patches", 7, 0}, {"us", "us", 11, 1}, {"tflop_s", "TFLOP/s", 8, 1}, {"of_mma", "% mma", 6, 1},
    {"longest_ms", "slice ms", 9, 2},
};

/* Reports a row: microseconds, TFLOP/s and the share of the peak. */
static void row(struct timing *k, const struct seeing *s, const char *name, int n, double us, double flops, double longest_ms)
{
    if (k->failed)
        return;
    const double tflop_s = flops > 0 ? flops / us * 1e-6 : NAN;
    report_text(k->r, name);
    report_number(k->r, n);
    report_number(k->r, us);
    report_number(k->r, tflop_s);
    report_number(k->r, 100 * tflop_s / s->mma);
    report_number(k->r, longest_ms);
}

/* Returns the time of the slowest slice of the picture, in ms. */
static double longest_slice(struct timing *k, struct seeing *s)
{
    double longest = 0;
    bool complete = false;
    vision_begin(s->v, s->rgb, s->picture->h, s->picture->w, s->rows);
    while (!complete && !k->failed) {
        const int64_t start = clock_ns();
        complete = vision_continue(s->v, 0);
        k->failed = !k->d->finish(k->d, k->e);
        longest = fmax(longest, (double)(clock_ns() - start) * 1e-6);
    }
    return longest;
}

/* Measures the tower on whole pictures. */
static void measure_pictures(struct timing *k, struct seeing *s)
{
    const int n = subject_fused(k->s) || k->s->o->full ? N_PICTURES : CPU_PICTURES;
    for (int i = 0; i < n && !k->failed && !report_stopped(k->r); i++) {
        s->picture = &pictures[i];
        vision_begin(s->v, s->rgb, s->picture->h, s->picture->w, s->rows);
        const double flops = vision_left(s->v) * 1e12, us = timing_measure(k, false, ALONE, call_picture, s);
        row(k, s, s->picture->name, s->picture->h * s->picture->w, us, flops, longest_slice(k, s));
    }
}

static void measure_products(struct timing *k, struct seeing *s, int from, int n)
{
    for (int i = from; i < from + n; i++) {
        const struct weight *w = (const struct weight *)(const void *)((const char *)block(s, 0) + products[i].matrix);
        s->product = &products[i];
        row(k, s, products[i].name, s->n, timing_measure(k, false, 8, call_product, s), 2.0 * s->n * w->rows * w->cols, NAN);
    }
}

/* Measures the operations of the tower at the size of one picture. */
static void measure_operations(struct timing *k, struct seeing *s)
{
    const size_t H = (size_t)s->c->hidden, size = subject_fused(k->s) ? 2 : 4;
    s->picture = &pictures[subject_fused(k->s) ? 1 : 0];
    s->n = s->picture->h * s->picture->w;
    const size_t n = (size_t)s->n;
    s->x = timing_random(k, n * H);
    s->h = timing_random(k, n * H);
    s->wide = timing_random(k, n * (size_t)s->c->inter);
    s->y = timing_random(k, n * most_size((size_t)s->c->inter, 3 * H));
    s->freq = timing_random(k, (size_t)s->dim);
    s->most = timing_random(k, 4);
    s->q = timing_alloc(k, n * H * size);
    s->k = timing_alloc(k, n * H * size);
    s->values = timing_alloc(k, n * H * size);
    if (k->failed)
        return;
    row(k, s, "layernorm", s->n, timing_measure(k, false, 8, call_norm, s), 0, NAN);
    measure_products(k, s, 0, 1);       /* which leaves what rope reads */
    row(k, s, "patch_rope", s->n, timing_measure(k, false, 8, call_rope, s), 0, NAN);
    row(k, s, "patch_attention", s->n, timing_measure(k, false, 8, call_attention, s), 4.0 * s->n * s->n * s->c->hidden, NAN);
    measure_products(k, s, 1, N_PRODUCTS - 1);
}

/* ---- the command ---- */

/* Returns the patches of a slice, as many as in an answer. */
static int slice_rows(const struct model *m) { return least(m->chunk, VISION_ROWS); }

/* Opens the vision tower and makes pixels.  False if the model has no tower. */
static bool open_tower(struct seeing *s, struct subject *b, struct err *e)
{
    struct model *m = &b->m;
    if (b->o->synthetic && !synthetic_add_vision(m->synthetic, &m->weights, &m->cfg, m->options.seed, e))
        return false;
    if (!m->weights.vision.present)
        return err_set(e, "the model has no vision tower, expected one to measure; --synthetic 122b has the published one");
    s->w = &m->weights.vision;
    s->c = &m->cfg.vision;
    s->dim = config_vision_head_dim(&m->cfg);
    s->v = vision_open(m->dev, &m->cfg, &m->weights, MOST_PATCHES, slice_rows(m), e);
    s->mma = m->dev->mma_tflop_s ? m->dev->mma_tflop_s(m->dev, e) : NAN;
    s->rows = m->dev->alloc(m->dev, (size_t)(MOST_PATCHES / VISION_MERGE) * (size_t)s->c->out * sizeof *s->rows);
    s->rgb = memory_alloc(MOST_PATCHES * PIXELS);
    for (size_t i = 0; i < MOST_PATCHES * PIXELS; i++)
        s->rgb[i] = (uint8_t)fill_hash(1, i);
    if (!s->rows)
        return err_set(e, "no memory for the rows of a picture");
    return s->v && !(s->mma <= 0);
}

int bench_vision(const struct bench_options *o)
{
    struct bench_options one = *o;
    struct subject b;
    struct report r;
    struct seeing s = {0};
    struct err e = {0};
    if (one.synthetic && !one.n_layers)
        one.n_layers = 1;               /* of the text model, which is not measured */
    report_open(&r, "vision", &one);
    bool ok = subject_open(&b, &one, &(struct load_options){.n_ctx = 64, .chunk = o->chunk}, &e) && open_tower(&s, &b, &e);
    if (ok) {
        subject_report(&b, &r);
        report_fact(&r, "tower", "%d blocks of %d, %d heads of %d, slices of %d patches", s.c->depth, s.c->hidden, s.c->n_heads, s.dim,
                    slice_rows(&b.m));
        if (!isnan(s.mma))
            report_fact(&r, "mma rate", "%.0f TFLOP/s: products in fp16 by mma.sync, operands in registers", s.mma);
        struct timing k = {.s = &b, .r = &r, .d = b.m.dev, .e = &e};
        report_table(&r, "vision tower", columns, sizeof columns / sizeof *columns);
        measure_pictures(&k, &s);
        measure_operations(&k, &s);
        k.d->finish(k.d, k.failed ? NULL : &e);
        timing_release(&k);
        ok = !k.failed;
    }
    int status = report_close(&r, ok ? NULL : &e);
    vision_close(s.v);
    if (s.rows)
        b.m.dev->free(b.m.dev, s.rows);
    free(s.rgb);
    subject_close(&b);
    return status;
}
