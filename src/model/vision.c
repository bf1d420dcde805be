/* The vision tower, operation by operation: read it beside docs/model.md.  x is the residual stream of all patches; everything else of a patch is
 * computed for a piece of them at a time, a slice.  Before a block's attention each patch must have its keys and values, so a block has two rounds of
 * slices: attention_inputs(), then block_outputs(). */
#include "model/vision.h"

#include <math.h>
#include <stdlib.h>

#include "backend/dev.h"
#include "base/least.h"
#include "base/memory.h"
#include "kernels/gemm.h"

static const float EPS = 1e-6f;         /* of all norms; config.json does not have it */
static const double THETA = 10000;      /* of the rotary angles, likewise */

enum { PIXEL_BYTES = 3 * PATCH_SIDE * PATCH_SIDE };     /* of a patch */
enum round { EMBED, INPUTS, OUTPUTS, MERGE, COMPLETE };

struct vision {
    struct dev                 *dev;
    const struct model_config  *cfg;
    const struct vision_weights *w;
    int         max_patches, max_rows;
    enum dtype  dtype;                  /* of q, k and v */
    void       *memory;
    /* of the whole picture, n patches */
    float      *x;                      /* [n, hidden] residual stream */
    char       *q, *k, *v;              /* [heads, n, head size] of dtype */
    uint8_t    *rgb;                    /* [rows of 16 pixels, 3] the picture */
    /* of a slice, m patches */
    float      *h;                      /* [m, hidden] normed; attention's output */
    float      *wide;                   /* [m, 3 hidden] q, k and v; [m, inter]; [m, 1536] patches; [m / 4, 4 hidden] */
    float      *freq;                   /* [head size / 4] */
    float      *most;                   /* [depth] on a GPU: the greatest magnitude of each block's v */
    /* the picture, and how far it is */
    float      *rows;                   /* [n / 4, out] the result, the caller's */
    int         grid_h, grid_w;
    enum round  round;
    int         block, first;           /* the next slice begins at patch `first` of that round and block */
    double      left;                   /* operations that are still to be queued */
};

/* ---- the arithmetic ---- */

/* y = W x + b (add: y += W x + b) */
static void project(struct vision *v, float *y, const float *x, const struct weight *w, const float *b, int n, bool add)
{
    RUN(v->dev, linear_dense, .l = {.y = y, .x = x, .w = *w, .n_tokens = n, .add = add, .bias = b});
}

/* wide = gelu(W h + b), for fc2 alone.  norm: as in linear_args */
static void widen(struct vision *v, const struct weight *w, const float *b, const float *norm, const struct weight *fc2, int n, bool exact)
{
    const struct gelu_args gelu = {.x = v->wide, .next = fc2, .n_rows = n, .dim = w->rows, .exact = exact};
    RUN(v->dev, linear_dense, .l = {.y = v->wide, .x = v->h, .w = *w, .n_tokens = n, .bias = b, .gelu = &gelu, .norm = norm});
}

static float *row(const struct vision *v, int patch) { return v->x + (size_t)patch * (size_t)v->cfg->vision.hidden; }

static void norm(struct vision *v, int first, int n, const float *w, const float *b, const struct weight *next)
{
    RUN(v->dev, layernorm, .y = v->h, .x = row(v, first), .w = w, .b = b, .next = next, .n_rows = n, .dim = v->cfg->vision.hidden, .eps = EPS);
}

/* x = W patch + b + position */
static void embed_patches(struct vision *v, int first, int n)
{
    const struct vision_weights *w = v->w;
    RUN(v->dev, patch_cut, .x = v->wide, .rgb = v->rgb, .first = first, .n_rows = n, .grid_w = v->grid_w);
    project(v, row(v, first), v->wide, &w->patch, w->patch_b, n, false);
    RUN(v->dev, patch_positions, .x = row(v, first), .table = w->positions, .side = v->cfg->vision.side, .first = first, .n_rows = n,
        .grid_h = v->grid_h, .grid_w = v->grid_w);
}

static float *most_of_block(const struct vision *v) { return v->dtype == DT_BF16 ? v->most + v->block : NULL; }

/* q, k, v = rope(W norm(x) + b) */
static void attention_inputs(struct vision *v, const struct vision_block_weights *w, int first, int n)
{
    const struct vision_config *c = &v->cfg->vision;
    const bool own = w->norms && !linear_narrow(&w->qkv);
    norm(v, first, n, w->norm1_w, w->norm1_b, &w->qkv);
    RUN(v->dev, linear_dense, .l = {.y = v->wide, .x = v->h, .w = w->qkv, .n_tokens = n, .bias = w->qkv_b, .own_form = own, .norm = w->norms});
    RUN(v->dev, patch_rope, .q = v->q, .k = v->k, .v = v->v, .dtype = v->dtype, .qkv = v->wide, .freq = v->freq, .most = most_of_block(v),
        .own_form = own, .first = first, .n_rows = n, .n = v->grid_h * v->grid_w, .n_heads = c->n_heads, .dim = config_vision_head_dim(v->cfg),
        .grid_w = v->grid_w);
}

/* x += proj(attention(q, k, v)); x += fc2(gelu(fc1(norm(x)))).  Attention reads all patches. */
static void block_outputs(struct vision *v, const struct vision_block_weights *w, int first, int n)
{
    const struct vision_config *c = &v->cfg->vision;
    const int dim = config_vision_head_dim(v->cfg);
    RUN(v->dev, patch_attention, .y = v->h, .q = v->q, .k = v->k, .v = v->v, .dtype = v->dtype, .most = most_of_block(v), .next = &w->proj,
        .first = first, .n_rows = n, .n = v->grid_h * v->grid_w, .n_heads = c->n_heads, .dim = dim, .scale = 1.0f / sqrtf((float)dim));
    project(v, row(v, first), v->h, &w->proj, w->proj_b, n, true);
    norm(v, first, n, w->norm2_w, w->norm2_b, &w->fc1);
    widen(v, &w->fc1, w->fc1_b, w->norms ? w->norms + 1 : NULL, &w->fc2, n, false);
    project(v, row(v, first), v->wide, &w->fc2, w->fc2_b, n, true);
}

/* rows = fc2(gelu(fc1(norm(x)))), where the four patches of a block, neighbours in memory, are one row of fc1's input. */
static void merge_patches(struct vision *v, int first, int n)
{
    const struct vision_weights *w = v->w;
    const int n_rows = n / VISION_MERGE;
    norm(v, first, n, w->norm_w, w->norm_b, NULL);
    widen(v, &w->fc1, w->fc1_b, NULL, &w->fc2, n_rows, true);
    project(v, v->rows + (size_t)(first / VISION_MERGE) * (size_t)w->fc2.rows, v->wide, &w->fc2, w->fc2_b, n_rows, false);
}

/* ---- slices ---- */

/* Returns the operations of a slice of n patches: two a multiply-add. */
static double cost(const struct vision *v, enum round r, int n)
{
    const struct vision_config *c = &v->cfg->vision;
    const double m = n, all = (double)v->grid_h * v->grid_w, H = c->hidden;
    switch (r) {
    case EMBED:   return 2 * m * PATCH_NUMBERS * H;
    case INPUTS:  return 2 * m * H * 3 * H;
    case OUTPUTS: return 4 * m * all * H + 2 * m * H * H + 4 * m * H * c->inter;
    case MERGE:   return 2 * m / VISION_MERGE * (4 * H * 4 * H + 4 * H * c->out);
    default:      return 0;
    }
}

void vision_begin(struct vision *v, const uint8_t *rgb, int h, int w, float *rows)
{
    const int n = h * w;
    CHECK(h > 0 && w > 0 && h % 2 == 0 && w % 2 == 0 && h <= v->max_patches / w);
    v->rows = rows;
    v->dev->copy(v->dev, v->rgb, rgb, (size_t)n * PIXEL_BYTES);
    v->dev->zero(v->dev, v->most, (size_t)v->cfg->vision.depth * sizeof *v->most);
    v->grid_h = h;
    v->grid_w = w;
    v->round = EMBED;
    v->block = v->first = 0;
    v->left = cost(v, EMBED, n) + v->cfg->vision.depth * (cost(v, INPUTS, n) + cost(v, OUTPUTS, n)) + cost(v, MERGE, n);
}

/* Queues the next slice; returns its operations. */
static double run_slice(struct vision *v)
{
    const int first = v->first, n = least(v->max_rows, v->grid_h * v->grid_w - first);
    const double tflop = cost(v, v->round, n);
    switch (v->round) {
    case EMBED:   embed_patches(v, first, n); break;
    case INPUTS:  attention_inputs(v, &v->w->blocks[v->block], first, n); break;
    case OUTPUTS: block_outputs(v, &v->w->blocks[v->block], first, n); break;
    case MERGE:   merge_patches(v, first, n); break;
    case COMPLETE: CHECK(!"a picture");
    }
    v->first += n;
    if (v->first < v->grid_h * v->grid_w)
        return tflop;
    v->first = 0;
    if (v->round != OUTPUTS || ++v->block == v->cfg->vision.depth)
        v->round++;
    else
        v->round = INPUTS;
    return tflop;
}

bool vision_continue(struct vision *v, double tflop)
{
    for (double done = 0; v->round != COMPLETE;) {
        const double now = run_slice(v);
        done += now;
        v->left -= now;
        if (done >= tflop * 1e12)
            break;
    }
    return v->round == COMPLETE;
}

double vision_left(const struct vision *v)
{
    return v->round == COMPLETE ? 0 : v->left * 1e-12;
}

/* ---- memory ---- */

/* Sets the pointers of *v into `memory`; returns the bytes that this takes.  memory NULL: only counts them. */
static size_t cut(struct vision *v, char *memory)
{
    const struct vision_config *c = &v->cfg->vision;
    const size_t n = (size_t)v->max_patches, m = (size_t)v->max_rows, H = (size_t)c->hidden, head = v->dtype == DT_F32 ? 4 : 2;
    const size_t wide = most_size(most_size(3 * H, (size_t)c->inter), PATCH_NUMBERS);
    const struct { void *at; size_t bytes; } list[] = {
        {&v->x, n * H * 4}, {&v->q, n * H * head}, {&v->k, n * H * head}, {&v->v, n * H * head}, {&v->rgb, n * PIXEL_BYTES},
        {&v->h, m * H * 4}, {&v->wide, m * wide * 4}, {&v->freq, (size_t)config_vision_head_dim(v->cfg)},
        {&v->most, (size_t)c->depth * sizeof *v->most},
    };
    size_t at = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (memory)
            *(char **)list[i].at = memory + at;
        at += (list[i].bytes + 255) / 256 * 256;
    }
    return at;
}

/* Rows come in whole blocks. */
static int whole(int n) { return most(n / VISION_MERGE, 1) * VISION_MERGE; }

size_t vision_bytes(const struct model_config *c, bool gpu, int max_patches, int max_rows)
{
    struct vision v = {.cfg = c, .max_patches = whole(max_patches), .dtype = gpu ? DT_BF16 : DT_F32};
    v.max_rows = least(whole(max_rows), v.max_patches);
    return c->vision.depth ? cut(&v, NULL) : 0;
}

size_t vision_scratch_bytes(const struct model_config *c, int max_rows)
{
    const struct vision_config *v = &c->vision;
    const int inputs[] = {PATCH_NUMBERS, v->hidden, v->inter};
    size_t bytes = v->depth ? linear_scratch(most(max_rows / VISION_MERGE, 1), 4 * v->hidden) : 0;
    for (int n = max_rows; n > 0 && v->depth; n = n > GEMM_FINE ? GEMM_FINE : 0) {      /* a short call takes two halves a row */
        for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
            bytes = most_size(bytes, linear_scratch(n, inputs[i]));
        bytes = most_size(bytes, linear_scratch(least(n, most(max_rows / VISION_MERGE, 1)), 4 * v->hidden));
    }
    return bytes;
}

/* True if a GPU's operations can run a tower of this geometry; else the reason. */
static bool gpu_fits(const struct model_config *c, struct err *e)
{
    const struct vision_config *v = &c->vision;
    if (!patch_attention_dim(config_vision_head_dim(c)))
        return err_set(e, "a GPU cannot run this vision tower: its heads have %d numbers, expected 16, 32, 64 or 72; --no-vision leaves it out",
                       config_vision_head_dim(c));
    return (v->hidden <= 4096 && v->inter % 4 == 0)
        || err_set(e, "a GPU cannot run this vision tower: hidden_size is %d and intermediate_size %d, expected at most 4096 and a multiple of 4; "
                   "--no-vision leaves it out", v->hidden, v->inter);
}

struct vision *vision_open(struct dev *d, const struct model_config *c, const struct weights *w, int max_patches, int max_rows, struct err *e)
{
    const int quarter = config_vision_head_dim(c) / 4;
    const bool gpu = d->caps->packs_weights;
    float freq[PATCH_MAX_DIM / 4];
    struct vision *v = memory_zeroed(1, sizeof *v);
    *v = (struct vision){.dev = d, .cfg = c, .w = &w->vision, .max_patches = whole(max_patches), .dtype = gpu ? DT_BF16 : DT_F32, .round = COMPLETE};
    v->max_rows = least(whole(max_rows), v->max_patches);
    CHECK(w->vision.present);
    if (gpu && !gpu_fits(c, e)) {
        vision_close(v);
        return NULL;
    }
    const size_t bytes = cut(v, NULL);
    v->memory = d->alloc(d, bytes);
    if (!v->memory || (gpu && !d->reserve(d, vision_scratch_bytes(c, v->max_rows)))) {
        err_set(e, "no memory for pictures of %d tokens: %zu MiB asked for; --no-vision needs none", v->max_patches / VISION_MERGE, bytes >> 20);
        vision_close(v);
        return NULL;
    }
    cut(v, v->memory);
    for (int i = 0; i < quarter; i++)
        freq[i] = (float)pow(THETA, -2.0 * i / (2 * quarter));
    d->copy(d, v->freq, freq, (size_t)quarter * sizeof *freq);
    return v;
}

void vision_close(struct vision *v)
{
    if (!v)
        return;
    v->dev->free(v->dev, v->memory);
    free(v);
}
