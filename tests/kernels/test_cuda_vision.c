/* The operations of the vision tower on the GPU against their definitions, a tower of the published widths, and the small checkpoint against
 * the rows of transformers (tests/data/vision/README.md). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/memory.h"
#include "engine/load.h"
#include "kernels/pack.h"
#include "model/safetensors.h"
#include "tests/kernels/close.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/rand_weight.h"

static struct weight random_matrix(int rows, int cols)
{
    return rand_weight(WEIGHT_DENSE, rows, cols, (struct spread){.dense = 1 / sqrtf((float)cols)});
}

/* Returns the matrix in device memory, packed. */
static struct weight pack(const struct weight *w)
{
    const size_t bytes = pack_bytes(w->format, w->rows, w->cols);
    void *host = calloc(1, bytes);
    assert_true(pack_matrix(w, host));
    struct weight v = packed_view(w->format, w->rows, w->cols, upload(host, bytes));
    free(host);
    return v;
}

static float *upload_floats(const float *x, size_t n) { return upload(x, n * sizeof *x); }

static void drop(const void *p) { cuda->free(cuda, (void *)(uintptr_t)p); }

/* ---- the operations ---- */

/* y = W layernorm(x) + b, and the norm alone. */
static void test_cuda_vision__norms_and_products_with_a_bias(void **state)
{
    (void)state;
    need_gpu();
    const struct { int n, dim, rows; } shapes[] = {{1, 64, 192}, {3, 64, 512}, {5, 1152, 1152}, {129, 1152, 4304}, {300, 1152, 3456},
                                                   {77, 1024, 260}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t n = (size_t)shapes[i].n, dim = (size_t)shapes[i].dim, rows = (size_t)shapes[i].rows;
        float *x = rand_array(n * dim, 3), *w = rand_array(dim, 1), *b = rand_array(dim, 1);
        float *bias = rand_array(rows, 1), *y0 = rand_array(n * rows, 1);
        float *h = malloc(n * dim * sizeof *h), *y = malloc(n * rows * sizeof *y), *alone, *got;
        struct weight m = random_matrix((int)rows, (int)dim), p = pack(&m);
        float *dx = upload_floats(x, n * dim), *dw = upload_floats(w, dim), *db = upload_floats(b, dim), *dbias = upload_floats(bias, rows);
        float *dy = upload_floats(y0, n * rows), *dh = poisoned(n * dim * sizeof *h);
        memcpy(y, y0, n * rows * sizeof *y);
        for (int k = 0; k < 2; k++) {
            struct dev *d = k ? cuda : cpu;
            RUN(d, layernorm, .y = k ? dh : h, .x = k ? dx : x, .w = k ? dw : w, .b = k ? db : b, .n_rows = (int)n, .dim = (int)dim, .eps = 1e-6f);
        }
        alone = downloaded(dh, n * dim * sizeof *h);
        assert_rows_close("layernorm", alone, h, (int)n, (int)dim, 2e-6);
        RUN(cuda, layernorm, .y = dh, .x = dx, .w = dw, .b = db, .next = &p, .n_rows = (int)n, .dim = (int)dim, .eps = 1e-6f);
        RUN(cuda, linear_dense, .l = {.y = dy, .x = dh, .w = p, .n_tokens = (int)n, .add = true, .bias = dbias});
        RUN(cpu, linear_dense, .l = {.y = y, .x = h, .w = m, .n_tokens = (int)n, .add = true, .bias = bias});
        got = downloaded(dy, n * rows * sizeof *y);
        assert_rows_close("product", got, y, (int)n, (int)rows, 1e-3);
        drop(dx), drop(dw), drop(db), drop(dbias), drop(dy), drop(dh), drop(p.data);
        free(x), free(w), free(b), free(bias), free(y0), free(h), free(y), free(alone), free(got);
        rand_weight_free(&m);
    }
}

static void test_cuda_vision__gelu_alone_and_before_a_product(void **state)
{
    (void)state;
    need_gpu();
    const struct { int n, dim; bool exact; } shapes[] = {{1, 160, false}, {7, 4304, false}, {140, 4304, false}, {3, 4608, true}, {150, 4608, true},
                                                         {50, 256, true}, {130, 1152, false}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        enum { ROWS = 400 };
        const size_t n = (size_t)shapes[i].n, dim = (size_t)shapes[i].dim;
        float *x = rand_array(n * dim, 4), *y = malloc(n * ROWS * sizeof *y), *got;
        float *dx = upload_floats(x, n * dim), *dy = poisoned(n * ROWS * sizeof *y);
        struct weight m = random_matrix(ROWS, (int)dim), p = pack(&m);
        RUN(cuda, gelu, .x = dx, .n_rows = (int)n, .dim = (int)dim, .exact = shapes[i].exact);
        got = downloaded(dx, n * dim * sizeof *x);
        cuda->copy(cuda, dx, x, n * dim * sizeof *x);
        RUN(cuda, gelu, .x = dx, .next = &p, .n_rows = (int)n, .dim = (int)dim, .exact = shapes[i].exact);
        RUN(cuda, linear_dense, .l = {.y = dy, .x = dx, .w = p, .n_tokens = (int)n});
        RUN(cpu, gelu, .x = x, .n_rows = (int)n, .dim = (int)dim, .exact = shapes[i].exact);
        RUN(cpu, linear_dense, .l = {.y = y, .x = x, .w = m, .n_tokens = (int)n});
        assert_rows_close("gelu", got, x, (int)n, (int)dim, 2e-6);
        free(got);
        got = downloaded(dy, n * ROWS * sizeof *y);
        assert_rows_close("gelu and product", got, y, (int)n, ROWS, 1e-3);
        drop(dx), drop(dy), drop(p.data);
        free(x), free(y), free(got);
        rand_weight_free(&m);
    }
}

static void test_cuda_vision__positions_are_interpolated(void **state)
{
    (void)state;
    need_gpu();
    const struct { int h, w, side, cols; } shapes[] = {{2, 2, 6, 64}, {2, 52, 6, 64}, {48, 48, 48, 1152}, {62, 20, 48, 1152}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int n = shapes[i].h * shapes[i].w, cols = shapes[i].cols, first = n > 8 ? 8 : 0;
        const size_t size = (size_t)n * (size_t)cols, table = (size_t)(shapes[i].side * shapes[i].side * cols) * 2;
        struct weight t = rand_weight(WEIGHT_DENSE, shapes[i].side * shapes[i].side, cols, (struct spread){.dense = 1}), u = t;
        float *x = rand_array(size, 1), *dx = upload_floats(x, size);
        u.data = upload(t.data, table);
        for (int k = 0; k < 2; k++) {
            struct dev *d = k ? cuda : cpu;
            RUN(d, patch_positions, .x = k ? dx : x, .table = k ? u : t, .side = shapes[i].side, .first = first, .n_rows = n - first,
                .grid_h = shapes[i].h, .grid_w = shapes[i].w);
        }
        float *got = downloaded(dx, size * sizeof *x);
        assert_rows_close("positions", got, x, n, cols, 2e-6);
        drop(dx), drop(u.data);
        free(x), free(got);
        rand_weight_free(&t);
    }
}

static void widen(float *to, const uint16_t *from, size_t n) { floats_f32(to, from, DT_BF16, n); }

static void test_cuda_vision__heads_are_turned_and_split(void **state)
{
    (void)state;
    need_gpu();
    const struct { int h, w, first, n_heads, dim; } shapes[] = {{2, 2, 0, 4, 16}, {6, 10, 12, 16, 72}, {30, 4, 0, 3, 64}, {2, 202, 4, 2, 32}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int n = shapes[i].h * shapes[i].w, rows = n - shapes[i].first, dim = shapes[i].dim, heads = shapes[i].n_heads;
        const size_t width = (size_t)(heads * dim), all = (size_t)n * width;
        float freq[32], *x = rand_array((size_t)rows * 3 * width, 1);
        for (int j = 0; j < dim / 4; j++)
            freq[j] = (float)pow(1e4, -4.0 * j / dim);
        float *dx = upload_floats(x, (size_t)rows * 3 * width), *df = upload_floats(freq, (size_t)dim / 4);
        uint16_t *want = calloc(3 * all, 2), *got, *dgot = upload(want, 3 * all * 2);
        for (int k = 0; k < 2; k++) {
            struct dev *d = k ? cuda : cpu;
            uint16_t *to = k ? dgot : want;
            RUN(d, patch_rope, .q = to, .k = to + all, .v = to + 2 * all, .dtype = DT_BF16, .qkv = k ? dx : x, .freq = k ? df : freq,
                .first = shapes[i].first, .n_rows = rows, .n = n, .n_heads = heads, .dim = dim, .grid_w = shapes[i].w);
        }
        got = downloaded(dgot, 3 * all * 2);
        float *a = malloc(3 * all * sizeof *a), *b = malloc(3 * all * sizeof *b);
        widen(a, got, 3 * all);
        widen(b, want, 3 * all);
        assert_rows_close("rope", a, b, 3 * heads * n, dim, 4e-3);     /* a few numbers are rounded the other way */
        assert_true(distance(a, b, 3 * all) <= 2e-4);
        drop(dx), drop(df), drop(dgot);
        free(x), free(want), free(got), free(a), free(b);
    }
}

static void test_cuda_vision__attention_reads_all_patches(void **state)
{
    (void)state;
    need_gpu();
    const struct { int n, first, n_rows, n_heads, dim; } shapes[] = {
        {4, 0, 4, 4, 16}, {60, 0, 60, 2, 72}, {64, 8, 40, 3, 64}, {100, 0, 100, 4, 32}, {140, 128, 12, 16, 72}, {1028, 0, 1028, 2, 72},
        {1028, 512, 300, 2, 72}, {2052, 0, 132, 1, 64},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int n = shapes[i].n, rows = shapes[i].n_rows, dim = shapes[i].dim, heads = shapes[i].n_heads;
        const size_t all = (size_t)n * (size_t)(heads * dim), out = (size_t)rows * (size_t)(heads * dim);
        uint16_t *qkv = malloc(3 * all * 2);
        for (size_t j = 0; j < 3 * all; j++)
            qkv[j] = f32_bf16(rand_normal() * (j < all ? 3.0f : 1.0f));
        uint16_t *d = upload(qkv, 3 * all * 2);
        float *y = malloc(out * sizeof *y), *dy = poisoned(out * sizeof *y), *got;
        const struct patch_attention_args on_cpu = {.y = y, .q = qkv, .k = qkv + all, .v = qkv + 2 * all, .dtype = DT_BF16, .first = shapes[i].first,
                                                    .n_rows = rows, .n = n, .n_heads = heads, .dim = dim, .scale = 1 / sqrtf((float)dim)};
        struct patch_attention_args on_gpu = on_cpu;
        on_gpu.y = dy, on_gpu.q = d, on_gpu.k = d + all, on_gpu.v = d + 2 * all;
        cpu->ops->patch_attention(cpu, &on_cpu);
        cuda->ops->patch_attention(cuda, &on_gpu);
        got = downloaded(dy, out * sizeof *y);
        assert_rows_close("attention", got, y, rows * heads, dim, 1e-2);
        /* the last four rows alone have the same bits */
        on_gpu.first += rows - 4;
        on_gpu.n_rows = 4;
        cuda->ops->patch_attention(cuda, &on_gpu);
        float *last = downloaded(dy, out * sizeof *y);
        assert_memory_equal(last, got + (size_t)(rows - 4) * (size_t)(heads * dim), 4 * (size_t)(heads * dim) * sizeof *y);
        drop(d), drop(dy);
        free(qkv), free(y), free(got), free(last);
    }
}

/* ---- whole towers ---- */

/* A random tower, on the host and uploaded. */
struct twin {
    struct model_config cfg;
    struct weights host, gpu;
    struct arena arena;
};

static void add_matrix(struct weight *host, struct weight *gpu, int rows, int cols)
{
    *host = random_matrix(rows, cols);
    *gpu = pack(host);
}
static void add_vector(struct twin *t, const float **host, const float **gpu, int n, float centre, float width)
{
    float *v = arena_array(&t->arena, (size_t)n, sizeof *v);
    for (int i = 0; i < n; i++)
        v[i] = centre + rand_normal() * width;
    *host = v;
    *gpu = upload_floats(v, (size_t)n);
}

static void make_twin(struct twin *t, int depth)
{
    *t = (struct twin){.cfg = {.hidden = 512, .vision = {.depth = depth, .hidden = 1152, .n_heads = 16, .inter = 4304, .n_positions = 2304,
                                                         .side = 48, .out = 512}}};
    const struct vision_config *c = &t->cfg.vision;
    struct vision_weights *h = &t->host.vision, *g = &t->gpu.vision;
    h->present = g->present = true;
    h->blocks = arena_array(&t->arena, (size_t)depth, sizeof *h->blocks);
    g->blocks = arena_array(&t->arena, (size_t)depth, sizeof *g->blocks);
    h->positions = g->positions = random_matrix(c->n_positions, c->hidden);
    g->positions.data = upload(h->positions.data, (size_t)c->n_positions * (size_t)c->hidden * 2);
    add_matrix(&h->patch, &g->patch, c->hidden, PATCH_NUMBERS);
    add_matrix(&h->fc1, &g->fc1, 4 * c->hidden, 4 * c->hidden);
    add_matrix(&h->fc2, &g->fc2, c->out, 4 * c->hidden);
    add_vector(t, &h->patch_b, &g->patch_b, c->hidden, 0, 0.1f);
    add_vector(t, &h->norm_w, &g->norm_w, c->hidden, 1, 0.1f);
    add_vector(t, &h->norm_b, &g->norm_b, c->hidden, 0, 0.1f);
    add_vector(t, &h->fc1_b, &g->fc1_b, 4 * c->hidden, 0, 0.1f);
    add_vector(t, &h->fc2_b, &g->fc2_b, c->out, 0, 0.1f);
    for (int i = 0; i < depth; i++) {
        struct vision_block_weights *a = &h->blocks[i], *b = &g->blocks[i];
        add_matrix(&a->qkv, &b->qkv, 3 * c->hidden, c->hidden);
        add_matrix(&a->proj, &b->proj, c->hidden, c->hidden);
        add_matrix(&a->fc1, &b->fc1, c->inter, c->hidden);
        add_matrix(&a->fc2, &b->fc2, c->hidden, c->inter);
        add_vector(t, &a->norm1_w, &b->norm1_w, c->hidden, 1, 0.1f);
        add_vector(t, &a->norm1_b, &b->norm1_b, c->hidden, 0, 0.1f);
        add_vector(t, &a->norm2_w, &b->norm2_w, c->hidden, 1, 0.1f);
        add_vector(t, &a->norm2_b, &b->norm2_b, c->hidden, 0, 0.1f);
        add_vector(t, &a->qkv_b, &b->qkv_b, 3 * c->hidden, 0, 0.1f);
        add_vector(t, &a->proj_b, &b->proj_b, c->hidden, 0, 0.1f);
        add_vector(t, &a->fc1_b, &b->fc1_b, c->inter, 0, 0.1f);
        add_vector(t, &a->fc2_b, &b->fc2_b, c->hidden, 0, 0.1f);
    }
}

/* Returns the rows of a picture; release with free(). */
static float *rows_of(struct dev *d, const struct model_config *c, const struct weights *w, const uint8_t *rgb, int grid_h, int grid_w,
                      int max_rows, double tflop)
{
    struct err e = {0};
    const size_t bytes = (size_t)(grid_h * grid_w / VISION_MERGE) * (size_t)c->hidden * sizeof(float);
    float *rows = malloc(bytes);
    struct vision *v = vision_open(d, c, w, grid_h * grid_w, max_rows, &e);
    if (!v)
        fail_msg("%s", e.msg);
    float *to = d->alloc(d, bytes);
    vision_begin(v, rgb, grid_h, grid_w, to);
    while (!vision_continue(v, tflop))
        ;
    d->copy(d, rows, to, bytes);
    if (!d->finish(d, &e))
        fail_msg("%s", e.msg);
    d->free(d, to);
    vision_close(v);
    return rows;
}

static void test_cuda_vision__a_tower_of_the_published_widths(void **state)
{
    (void)state;
    need_gpu();
    enum { H = 14, W = 30, DEPTH = 2 };
    struct twin t;
    make_twin(&t, DEPTH);
    uint8_t *rgb = malloc((size_t)(H * W) * PATCH_NUMBERS / 2);
    for (int i = 0; i < H * W * PATCH_NUMBERS / 2; i++)
        rgb[i] = (uint8_t)(rand_u64() >> 40);
    float *want = rows_of(cpu, &t.cfg, &t.host, rgb, H, W, H * W, 1);
    const int sizes[] = {H * W, 256, 64};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        float *got = rows_of(cuda, &t.cfg, &t.gpu, rgb, H, W, sizes[i], i ? 0 : 1);
        print_message("slices of %d: %.2e\n", sizes[i], distance(got, want, (size_t)(H * W / VISION_MERGE) * (size_t)t.cfg.hidden));
        assert_rows_close("rows", got, want, H * W / VISION_MERGE, t.cfg.hidden, 1e-2);
        free(got);
    }
    free(rgb);
    free(want);                         /* the tower stays until the program ends */
}

static void test_cuda_vision__the_small_checkpoint_gives_the_rows_of_the_reference(void **state)
{
    (void)state;
    need_gpu();
    static const char dir[] = "tests/data/vision/v0";
    struct model m;
    struct safetensors s;
    struct err e = {0};
    if (!load_open(&m, &(struct load_options){.dir = dir, .backend = "cuda", .n_ctx = 512, .chunk = 64, .picture_tokens = 64,
                                              .n_snapshots = LOAD_NO_SNAPSHOTS}, &e)
        || !safetensors_open(&s, "tests/data/vision/v0/expected.safetensors", &e))
        fail_msg("%s", e.msg);
    assert_non_null(m.vision);
    for (int j = 0; j < 5; j++) {
        char name[32];
        snprintf(name, sizeof name, "image%d.grid_thw", j);
        const int32_t *grid = safetensors_data(&s, safetensors_find(&s, name));
        snprintf(name, sizeof name, "image%d.resized", j);
        const uint8_t *rgb = safetensors_data(&s, safetensors_find(&s, name));
        snprintf(name, sizeof name, "image%d.embeds", j);
        const float *want = safetensors_data(&s, safetensors_find(&s, name));
        const int n = grid[1] * grid[2];
        const size_t bytes = (size_t)(n / VISION_MERGE * m.cfg.hidden) * sizeof(float);
        float *to = m.dev->alloc(m.dev, bytes), *got = malloc(bytes);
        vision_begin(m.vision, rgb, grid[1], grid[2], to);
        while (!vision_continue(m.vision, 0))
            ;
        m.dev->copy(m.dev, got, to, bytes);
        if (!m.dev->finish(m.dev, &e))
            fail_msg("%s", e.msg);
        print_message("picture %d: %.2e\n", j, distance(got, want, (size_t)(n / VISION_MERGE * m.cfg.hidden)));
        assert_rows_close("rows", got, want, n / VISION_MERGE, m.cfg.hidden, 2e-2);
        free(got);
        m.dev->free(m.dev, to);
    }
    safetensors_close(&s);
    load_close(&m);
}

int main(void)
{
#define T(name) cmocka_unit_test(test_cuda_vision__##name)
    const struct CMUnitTest tests[] = {
        T(norms_and_products_with_a_bias), T(gelu_alone_and_before_a_product), T(positions_are_interpolated), T(heads_are_turned_and_split),
        T(attention_reads_all_patches), T(a_tower_of_the_published_widths), T(the_small_checkpoint_gives_the_rows_of_the_reference),
    };
    return cmocka_run_group_tests(tests, open_devices_with_scratch, close_devices);
}
