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

/* Returns the largest norm of a row of a packed matrix with its bias, in device memory.  The same in host memory: to compare with. */
static float *norm_of(const struct weight *w, const float *bias, const struct weight *host, const float *host_bias)
{
    float *norm = cuda->alloc(cuda, sizeof *norm), *row = malloc((size_t)host->cols * sizeof *row), *got;
    double most = 0;
    cuda->row_norms(cuda, norm, w, bias, 1, 0);
    for (int i = 0; i < host->rows; i++) {
        double sum = host_bias ? (double)host_bias[i] * (double)host_bias[i] : 0;
        floats_f32(row, (const uint16_t *)host->data + (size_t)i * (size_t)host->cols, DT_BF16, (size_t)host->cols);
        for (int k = 0; k < host->cols; k++)
            sum += (double)row[k] * (double)row[k];
        most = fmax(most, sqrt(sum));
    }
    got = downloaded(norm, sizeof *got);
    assert_true(fabs((double)*got - most) <= 0x1p-10 * most);
    free(row), free(got);
    return norm;
}

/* GELU inside of a product, and the product that follows: n rows of `cols`, `inter` columns between. */
struct gelu_shape { int n, cols, inter, rows; bool bias, exact; };
struct gelu_run {
    struct gelu_shape s;
    struct weight w, next, dw, dnext;   /* in host memory; packed */
    float *x, *bias, *dx, *dbias, *norm;
};

/* The numbers that both products make of rows from .. from + n - 1, by definition. */
static float *gelu_by_definition(const struct gelu_run *r, int from, int n)
{
    float *h = malloc((size_t)n * (size_t)r->s.inter * sizeof *h), *y = malloc((size_t)n * (size_t)r->s.rows * sizeof *y);
    const struct gelu_args gelu = {.x = h, .next = &r->next, .n_rows = n, .dim = r->s.inter, .exact = r->s.exact};
    RUN(cpu, linear_dense, .l = {.y = h, .x = r->x + (size_t)from * (size_t)r->s.cols, .w = r->w, .n_tokens = n, .bias = r->bias, .gelu = &gelu});
    RUN(cpu, linear_dense, .l = {.y = y, .x = h, .w = r->next, .n_tokens = n});
    free(h);
    return y;
}

/* The same by the GPU.  Fails unless the columns that fill the last group of rows of fp16 are zeros. */
static float *gelu_by_gpu(const struct gelu_run *r, int from, int n, bool norm)
{
    const size_t inter = (size_t)r->s.inter, stride = (size_t)pack_groups(r->s.inter) * PACK_GROUP;
    float *h = poisoned((size_t)n * inter * sizeof *h), *y = poisoned((size_t)n * (size_t)r->s.rows * sizeof *y);
    const struct gelu_args gelu = {.x = h, .next = &r->dnext, .n_rows = n, .dim = r->s.inter, .exact = r->s.exact};
    RUN(cuda, linear_dense, .l = {.y = h, .x = r->dx + (size_t)from * (size_t)r->s.cols, .w = r->dw, .n_tokens = n, .bias = r->dbias, .gelu = &gelu,
                                  .norm = norm ? r->norm : NULL});
    RUN(cuda, linear_dense, .l = {.y = y, .x = h, .w = r->dnext, .n_tokens = n});
    if (norm && linear_gelus(&r->dw, &gelu, n)) {
        uint16_t *half = downloaded(h, (size_t)n * stride * 2);
        for (size_t t = 0; t < (size_t)n; t++)
            for (size_t i = inter; i < stride; i++)
                assert_int_equal(half[t * stride + i], 0);
        free(half);
    }
    float *got = downloaded(y, (size_t)n * (size_t)r->s.rows * sizeof *got);
    drop(h), drop(y);
    return got;
}

static void check_gelu(struct gelu_shape s)
{
    enum { ALONE = 66, FEW = 200 };     /* rows that the definition computes of many; of the end of a call, computed again */
    struct gelu_run r = {.s = s, .w = random_matrix(s.inter, s.cols), .next = random_matrix(s.rows, s.inter)};
    r.dw = pack(&r.w), r.dnext = pack(&r.next);
    r.x = rand_array((size_t)s.n * (size_t)s.cols, 1);
    for (int t = 0; t < s.n; t++)       /* rows of very different size, with numbers that stand out */
        for (int i = 0; i < s.cols; i++)
            r.x[(size_t)t * (size_t)s.cols + (size_t)i] *= t % 7 == 1 ? 1e-6f : t % 7 == 2 ? 1e4f : t % 7 == 3 && i % 100 == 7 ? 100 : 3;
    r.dx = upload_floats(r.x, (size_t)s.n * (size_t)s.cols);
    if (s.bias) {
        r.bias = rand_array((size_t)s.inter, 0.5f);
        r.dbias = upload_floats(r.bias, (size_t)s.inter);
    }
    r.norm = norm_of(&r.dw, r.dbias, &r.w, r.bias);
    float *got = gelu_by_gpu(&r, 0, s.n, true), *apart = gelu_by_gpu(&r, 0, s.n, false);
    const int alone = s.n > 3 * ALONE ? ALONE : s.n;
    for (int from = 0; from < s.n; from += s.n - alone) {
        float *want = gelu_by_definition(&r, from, alone);
        assert_rows_close("gelu inside", got + (size_t)from * (size_t)s.rows, want, alone, s.rows, 1e-3);
        assert_rows_close("gelu apart", apart + (size_t)from * (size_t)s.rows, want, alone, s.rows, 1e-3);
        free(want);
        if (from || alone == s.n)
            break;
    }
    if (s.n > FEW) {                    /* a row has the same bits in any company */
        float *few = gelu_by_gpu(&r, s.n - FEW, FEW, true);
        assert_memory_equal(few, got + (size_t)(s.n - FEW) * (size_t)s.rows, FEW * (size_t)s.rows * sizeof *few);
        free(few);
    }
    drop(r.dw.data), drop(r.dnext.data), drop(r.dx), drop(r.dbias), drop(r.norm);
    free(r.x), free(r.bias), free(got), free(apart);
    rand_weight_free(&r.w), rand_weight_free(&r.next);
}

static void test_cuda_vision__gelu_inside_of_a_product(void **state)
{
    (void)state;
    need_gpu();
    check_gelu((struct gelu_shape){129, 1152, 4304, 1152, true, false});
    check_gelu((struct gelu_shape){200, 1152, 4304, 1152, false, false});
    check_gelu((struct gelu_shape){4096, 1152, 4304, 1152, true, false});
    check_gelu((struct gelu_shape){1030, 1152, 4304, 1152, true, false});
    check_gelu((struct gelu_shape){100, 1152, 4304, 400, true, false});         /* two halves */
    check_gelu((struct gelu_shape){150, 4608, 4608, 400, true, true});          /* the exact form */
    check_gelu((struct gelu_shape){300, 1152, 80, 400, true, false});           /* narrow matrices */
    check_gelu((struct gelu_shape){131, 256, 512, 200, false, false});
    check_gelu((struct gelu_shape){257, 203, 300, 260, true, false});
    check_gelu((struct gelu_shape){1000, 128, 272, 300, false, false});
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

/* The product for q, k and v leaves rows for rope alone. */
static void test_cuda_vision__heads_come_from_a_product(void **state)
{
    (void)state;
    need_gpu();
    const struct { int h, w, first, n_heads, dim; } shapes[] = {{6, 10, 12, 16, 72}, {6, 24, 0, 16, 72}, {32, 64, 4, 16, 72}, {30, 10, 12, 3, 64},
                                                               {2, 202, 4, 8, 16}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int n = shapes[i].h * shapes[i].w, rows = n - shapes[i].first, dim = shapes[i].dim, heads = shapes[i].n_heads, width = heads * dim;
        const size_t all = (size_t)n * (size_t)width;
        struct weight m = random_matrix(3 * width, width), p = pack(&m);
        float freq[32], *x = rand_array((size_t)rows * (size_t)width, 1), *bias = rand_array(3 * (size_t)width, 0.3f);
        for (int j = 0; j < dim / 4; j++)
            freq[j] = (float)pow(1e4, -4.0 * j / dim);
        float *dx = upload_floats(x, (size_t)rows * (size_t)width), *dbias = upload_floats(bias, 3 * (size_t)width);
        float *df = upload_floats(freq, (size_t)dim / 4), *norm = norm_of(&p, dbias, &m, bias), *most = cuda->alloc(cuda, sizeof *most);
        float *y = malloc((size_t)rows * 3 * (size_t)width * sizeof *y), *dy = poisoned((size_t)rows * 3 * (size_t)width * sizeof *y);
        uint16_t *want = calloc(3 * all, 2), *got, *dgot = upload(want, 3 * all * 2);
        cuda->zero(cuda, most, sizeof *most);
        for (int k = 0; k < 2; k++) {
            struct dev *d = k ? cuda : cpu;
            uint16_t *to = k ? dgot : want;
            RUN(d, linear_dense, .l = {.y = k ? dy : y, .x = k ? dx : x, .w = k ? p : m, .n_tokens = rows, .bias = k ? dbias : bias, .own_form = true,
                                       .norm = k ? norm : NULL});
            RUN(d, patch_rope, .q = to, .k = to + all, .v = to + 2 * all, .dtype = DT_BF16, .qkv = k ? dy : y, .freq = k ? df : freq,
                .most = k ? most : NULL, .own_form = true, .first = shapes[i].first, .n_rows = rows, .n = n, .n_heads = heads, .dim = dim,
                .grid_w = shapes[i].w);
        }
        got = downloaded(dgot, 3 * all * 2);
        float *a = malloc(3 * all * sizeof *a), *b = malloc(3 * all * sizeof *b), *v_most = downloaded(most, sizeof *most), v = 0;
        widen(a, got, 3 * all);
        widen(b, want, 3 * all);
        for (size_t j = 2 * all; j < 3 * all; j++)
            v = fmaxf(v, fabsf(b[j]));
        assert_true(fabsf(*v_most - v) <= 5e-3f * v);
        assert_rows_close("rope of a product", a, b, 3 * heads * n, dim, 4e-3);
        drop(dx), drop(df), drop(dgot), drop(dbias), drop(norm), drop(most), drop(dy), drop(p.data);
        free(x), free(want), free(got), free(a), free(b), free(bias), free(y), free(v_most);
        rand_weight_free(&m);
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

/* Attention leaves rows for the product that follows, whatever the size of its values. */
static void test_cuda_vision__attention_before_a_product(void **state)
{
    (void)state;
    need_gpu();
    const struct { int n, first, n_rows, n_heads, dim; float size; } shapes[] = {
        {300, 100, 200, 16, 72, 1}, {300, 0, 300, 16, 72, 1e7f}, {260, 0, 260, 2, 64, 1e-12f}, {300, 0, 300, 8, 16, 0}, {300, 0, 100, 16, 72, 1},
        {200, 0, 200, 3, 64, 1},        /* no whole groups */
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        enum { ROWS = 400 };
        const int n = shapes[i].n, rows = shapes[i].n_rows, dim = shapes[i].dim, heads = shapes[i].n_heads, width = heads * dim;
        const size_t all = (size_t)n * (size_t)width;
        uint16_t *qkv = malloc(3 * all * 2);
        float most = 0;
        for (size_t j = 0; j < 3 * all; j++) {
            const float v = rand_normal() * (j < 2 * all ? 2 : shapes[i].size * (j / (size_t)dim % 5 ? 1 : 1e-3f));
            most = j < 2 * all ? 0 : fmaxf(most, fabsf(v));
            qkv[j] = f32_bf16(v);
        }
        struct weight m = random_matrix(ROWS, width), p = pack(&m);
        uint16_t *d = upload(qkv, 3 * all * 2);
        float *h = malloc((size_t)(rows * width) * sizeof *h), *y = malloc((size_t)rows * ROWS * sizeof *y), *got;
        float *dh = poisoned((size_t)(rows * width) * sizeof *h), *dy = poisoned((size_t)rows * ROWS * sizeof *y), *dmost = upload_floats(&most, 1);
        for (int k = 0; k < 2; k++) {
            struct dev *dev = k ? cuda : cpu;
            const uint16_t *from = k ? d : qkv;
            RUN(dev, patch_attention, .y = k ? dh : h, .q = from, .k = from + all, .v = from + 2 * all, .dtype = DT_BF16, .most = k ? dmost : NULL,
                .next = k ? &p : &m, .first = shapes[i].first, .n_rows = rows, .n = n, .n_heads = heads, .dim = dim, .scale = 1 / sqrtf((float)dim));
            RUN(dev, linear_dense, .l = {.y = k ? dy : y, .x = k ? dh : h, .w = k ? p : m, .n_tokens = rows});
        }
        got = downloaded(dy, (size_t)rows * ROWS * sizeof *y);
        assert_rows_close("attention and product", got, y, rows, ROWS, 1e-2);
        drop(d), drop(dh), drop(dy), drop(dmost), drop(p.data);
        free(qkv), free(h), free(y), free(got);
        rand_weight_free(&m);
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
        b->norms = cuda->alloc(cuda, 2 * sizeof *b->norms);
    }
    weights_vision_norms(g, depth, cuda);
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
        T(norms_and_products_with_a_bias), T(gelu_alone_and_before_a_product), T(gelu_inside_of_a_product), T(positions_are_interpolated),
        T(heads_are_turned_and_split), T(heads_come_from_a_product), T(attention_reads_all_patches), T(attention_before_a_product),
        T(a_tower_of_the_published_widths), T(the_small_checkpoint_gives_the_rows_of_the_reference),
    };
    return cmocka_run_group_tests(tests, open_devices_with_scratch, close_devices);
}
