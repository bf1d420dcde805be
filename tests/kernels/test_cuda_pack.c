/* Packing on the device gives the bytes that kernels/cpu/pack.c, model/int8.c and model/int4.c give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/clock.h"
#include "base/err.h"
#include "kernels/cpu/vec.h"
#include "kernels/pack_piece.h"
#include "model/quantize.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/rand.h"
#include "tests/uploaded.h"

static void *random_bytes(size_t n)
{
    uint64_t *p = malloc(n + 8);
    CHECK(p);
    for (size_t i = 0; i < n / 8 + 1; i++)
        p[i] = rand_u64();
    return p;
}

/* Any bits at all: packing must not care what a number is.  Only NaN of bf16 is left out: the host makes a signalling one quiet. */
static struct weight random_weight(enum weight_format f, enum dtype t, int rows, int cols)
{
    struct weight w = {.format = f, .dtype = t, .scale_dtype = t, .rows = rows, .cols = cols};
    size_t n = (size_t)rows * (size_t)cols, z = n / 128 / 8;
    uint16_t *data = random_bytes(n * 4);
    for (size_t i = 0; i < n && t == DT_BF16; i++)
        data[i] = (uint16_t)((data[i] & 0x7f80) == 0x7f80 ? data[i] ^ 0x80 : data[i]);
    w.data = data;
    w.scale = random_bytes(n / 32 + 4096);
    uint32_t *zeros = malloc(z * 4 + 4);
    CHECK(zeros);
    for (size_t i = 0; i < z; i++)
        zeros[i] = 0x77777777;
    w.zeros = zeros;
    return w;
}

static void weight_free(struct weight *w)
{
    free((void *)(uintptr_t)w->data);
    free((void *)(uintptr_t)w->scale);
    free((void *)(uintptr_t)w->zeros);
}

enum { MAX_PIECES = 64 };
struct work {
    struct pack_piece pieces[MAX_PIECES];
    int   n;
    void *memory[MAX_PIECES];
};

/* A run of `n` rows of a stored tensor: on the device at an odd multiple of `align` bytes, NULL rows left out. */
static void add(struct work *k, struct pack_piece p, const void *data, size_t row_bytes, size_t align)
{
    CHECK(k->n < MAX_PIECES);
    char *at = k->memory[k->n] = cuda->alloc(cuda, (size_t)p.n * row_bytes + 256);
    CHECK(at);
    at += align;
    cuda->copy(cuda, at, (const char *)data + (size_t)p.first * row_bytes, (size_t)p.n * row_bytes);
    p.src = at;
    k->pieces[k->n++] = p;
}

/* In three pieces, the first a unit long. */
static void add_cut(struct work *k, struct pack_piece p, int n_rows, const void *data, size_t row_bytes, size_t align)
{
    int unit = pack_unit_rows(p.kind, p.half), half = unit + (n_rows - unit) / 2 / unit * unit, ends[] = {unit, half, n_rows};
    for (int i = 0, at = 0; i < 3; i++) {
        int end = ends[i] < n_rows ? ends[i] : n_rows;
        if (end <= at)
            continue;
        p.first = at;
        p.n = end - at;
        add(k, p, data, row_bytes, align);
        at = end;
    }
}

static void add_weight(struct work *k, const struct weight *w, char *dst, int all_rows, enum pack_half half)
{
    struct pack_piece p = {.dst = dst, .half = half, .dtype = w->dtype, .rows = w->rows, .cols = w->cols};
    char *scales = dst + pack_data_bytes(w->format, all_rows, w->cols);
    size_t rows = (size_t)w->rows, cols = (size_t)w->cols, number = w->dtype == DT_F32 ? 4 : 2;
    if (w->format == WEIGHT_DENSE) {
        p.kind = PACK_DENSE;
        add_cut(k, p, w->rows, w->data, cols * number, number);
    } else if (w->format == WEIGHT_FP8) {
        p.kind = PACK_FP8;
        add_cut(k, p, w->rows, w->data, cols, 1);
        p.kind = PACK_FP8_SCALE;
        p.dst = scales;
        p.dtype = w->scale_dtype;
        add_cut(k, p, (w->rows + 127) / 128, w->scale, (cols + 127) / 128 * number, number);
    } else {
        p.kind = PACK_INT4;
        add_cut(k, p, w->cols / 8, w->data, rows * 4, 4);
        p.kind = PACK_INT4_SCALE;
        p.dst = scales;
        add_cut(k, p, w->cols / 128, w->scale, rows * 2, 2);
    }
}

/* Last pieces first: the order must not matter. */
static void run(struct work *k, char *dst, void *got, size_t bytes)
{
    struct pack_piece *table = cuda->alloc_host(cuda, sizeof k->pieces);
    CHECK(table);
    for (int i = 0; i < k->n; i++)
        table[i] = k->pieces[k->n - 1 - i];
    uint64_t blocks = pack_number(table, k->n);
    cuda->pack(cuda, &(struct pack_args){.pieces = table, .n = k->n, .n_blocks = blocks});
    cuda->copy(cuda, got, dst, bytes);
    finish();
    for (int i = 0; i < k->n; i++)
        cuda->free(cuda, k->memory[i]);
    cuda->free_host(cuda, table);
    cuda->free(cuda, dst);
}

static void compare(const char *what, const struct weight *w, const unsigned char *got, const unsigned char *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("%s %d x %d, format %d, type %d: byte %zu of %zu is %02x, expected %02x", what, w->rows, w->cols, (int)w->format,
                     (int)w->dtype, i, n, got[i], want[i]);
}

static void check(enum weight_format f, enum dtype t, int rows, int cols, bool pair)
{
    struct work k = {.n = 0};
    struct weight a = random_weight(f, t, rows, cols), b = random_weight(f, t, rows, cols);
    int all = pair ? 2 * rows : rows;
    size_t n = pack_bytes(f, all, cols);
    unsigned char *want = malloc(n), *got = malloc(n);
    char *dst = cuda->alloc(cuda, n);
    CHECK(want && got && dst);
    memset(got, 0xee, n);
    if (pair) {
        assert_true(pack_pair(&a, &b, want));
        add_weight(&k, &a, dst, all, PACK_GATE);
        add_weight(&k, &b, dst, all, PACK_UP);
    } else {
        assert_true(pack_matrix(&a, want));
        add_weight(&k, &a, dst, all, PACK_WHOLE);
    }
    run(&k, dst, got, n);
    compare(pair ? "pair" : "matrix", &a, got, want, n);
    free(want);
    free(got);
    weight_free(&a);
    weight_free(&b);
}

static const int shapes[][2] = {{16, 128}, {1, 128}, {7, 3}, {20, 132}, {129, 257}, {24, 640}, {136, 384}, {1024, 3072}, {300, 1000}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void test_pack__int4_matrices_and_pairs_in_pieces(void **state)
{
    static const int int4[][2] = {{8, 128}, {24, 128}, {16, 256}, {128, 640}, {1024, 3072}, {3072, 1024}, {264, 384}};
    (void)state;
    need_gpu();
    for (size_t i = 0; i < sizeof int4 / sizeof *int4; i++)
        for (int pair = 0; pair < 2; pair++)
            check(WEIGHT_INT4, DT_F16, int4[i][0], int4[i][1], pair);
}

static void test_pack__fp8_matrices_and_pairs_with_scales_of_every_type(void **state)
{
    static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16};
    (void)state;
    need_gpu();
    for (int i = 0; i < N_SHAPES; i++)
        for (int pair = 0; pair < 2; pair++)
            check(WEIGHT_FP8, types[i % 3], shapes[i][0], shapes[i][1], pair);
}

static void test_pack__dense_matrices_and_pairs_of_every_type(void **state)
{
    static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16};
    (void)state;
    need_gpu();
    for (int i = 0; i < N_SHAPES; i++)
        for (int k = 0; k < 6; k++)
            check(WEIGHT_DENSE, types[k % 3], shapes[i][0], shapes[i][1], k / 3);
}

static void test_pack__rows_of_a_table_stay_in_their_order(void **state)
{
    static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16};
    (void)state;
    need_gpu();
    for (int i = 0; i < N_SHAPES; i++)
        for (int k = 0; k < 3; k++) {
            struct work work = {.n = 0};
            struct weight w = random_weight(WEIGHT_DENSE, types[k], shapes[i][0], shapes[i][1]);
            size_t n = (size_t)w.rows * (size_t)w.cols, number = types[k] == DT_F32 ? 4 : 2;
            unsigned char *got = malloc(n * 2);
            uint16_t *want = malloc(n * 2);
            float *f = malloc(n * 4);
            char *dst = cuda->alloc(cuda, n * 2);
            CHECK(got && want && f && dst);
            floats_f32(f, w.data, types[k], n);
            for (size_t j = 0; j < n; j++)
                want[j] = types[k] == DT_BF16 ? ((const uint16_t *)w.data)[j] : f32_bf16(f[j]);
            add_cut(&work, (struct pack_piece){.kind = PACK_PLAIN, .dst = dst, .dtype = types[k], .rows = w.rows, .cols = w.cols}, w.rows,
                    w.data, (size_t)w.cols * number, number);
            run(&work, dst, got, n * 2);
            compare("table", &w, got, (const unsigned char *)want, n * 2);
            free(got);
            free(want);
            free(f);
            weight_free(&w);
        }
}

/* Rows of every size: normal, tiny, huge, zero, with infinities and NaN. */
static struct weight rows_of_every_size(enum dtype type, int rows, int cols)
{
    struct weight w = random_weight(WEIGHT_DENSE, type, rows, cols);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols && r % 16 != 15; c++) {          /* the rest is random bits */
            float x = rand_normal() * (r % 16 == 3 ? 1e-6f : r % 16 == 4 ? 3e4f : r % 16 == 5 ? 0 : 0.02f);
            size_t at = (size_t)r * (size_t)cols + (size_t)c;
            if (type == DT_F32)
                ((float *)(uintptr_t)w.data)[at] = x;
            else
                ((uint16_t *)(uintptr_t)w.data)[at] = type == DT_F16 ? f32_f16(x) : f32_bf16(x);
        }
    return w;
}

static void check_made_int4(enum dtype type, int rows, int cols, bool pair, bool aligned)
{
    struct work k = {.n = 0};
    struct arena arena = {0};
    struct weight a = rows_of_every_size(type, rows, cols), b = rows_of_every_size(type, rows, cols);
    const struct weight qa = quantize_int4(&a, &arena), qb = quantize_int4(&b, &arena);
    const size_t n = pack_bytes(WEIGHT_INT4, pair ? 2 * rows : rows, cols), number = type == DT_F32 ? 4 : 2, align = aligned ? 0 : number;
    unsigned char *want = malloc(n), *got = malloc(n);
    char *dst = cuda->alloc(cuda, n);
    CHECK(want && got && dst && (pair ? pack_pair(&qa, &qb, want) : pack_matrix(&qa, want)));
    struct pack_piece p = {.kind = PACK_DENSE_INT4, .half = pair ? PACK_GATE : PACK_WHOLE, .dst = dst, .dtype = type, .rows = rows, .cols = cols};
    add_cut(&k, p, rows, a.data, (size_t)cols * number, align);
    p.half = PACK_UP;
    if (pair)
        add_cut(&k, p, rows, b.data, (size_t)cols * number, align);
    run(&k, dst, got, n);
    compare(pair ? "pair to INT4" : "matrix to INT4", &a, got, want, n);
    free(want);
    free(got);
    weight_free(&a);
    weight_free(&b);
    arena_free(&arena);
}

static void test_pack__int4_made_from_any_numbers_is_the_hosts(void **state)
{
    static const int sizes[][2] = {{8, 128}, {24, 128}, {16, 256}, {136, 640}, {1024, 3072}, {264, 384}};
    static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16};
    (void)state;
    need_gpu();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int k = 0; k < 12; k++)
            check_made_int4(types[k % 3], sizes[i][0], sizes[i][1], k / 3 % 2, k / 6);
}

static void test_pack__the_int8_head_and_its_planes_are_the_hosts(void **state)
{
    static const int sizes[][2] = {{37, 132}, {16, 128}, {512, 3072}, {1000, 200}};
    static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16};
    (void)state;
    need_gpu();
    for (int i = 0; i < 24; i++) {
        const bool planes = i >= 12;
        const enum weight_format f = planes ? WEIGHT_PLANES : WEIGHT_INT8;
        struct work work = {.n = 0};
        struct arena a = {0};
        int rows = sizes[i % 4][0], cols = sizes[i % 4][1];
        enum dtype type = types[i / 4 % 3];
        struct weight w = rows_of_every_size(type, rows, cols);
        struct weight q = planes ? quantize_planes(&w, &a) : quantize_int8(&w, &a);
        size_t n = pack_bytes(f, rows, cols), number = type == DT_F32 ? 4 : 2;
        unsigned char *want = malloc(n), *got = malloc(n);
        char *dst = cuda->alloc(cuda, n);
        CHECK(want && got && dst && pack_matrix(&q, want));
        add_cut(&work, (struct pack_piece){.kind = planes ? PACK_PLANES : PACK_INT8, .dst = dst, .dtype = type, .rows = rows, .cols = cols}, rows,
                w.data, (size_t)cols * number, number);
        run(&work, dst, got, n);
        compare(planes ? "two planes" : "INT8", &w, got, want, n);
        free(want);
        free(got);
        weight_free(&w);
        arena_free(&a);
    }
}

static void test_pack__checkpoints_of_every_layout_arrive_packed(void **state)
{
    static const char *const dirs[] = {"assets/demo", "tests/data/model/g0/bf16", "tests/data/model/g0/int4", "tests/data/model/g0/hybrid",
                                       "tests/data/model/g1/int4", "tests/data/model/g1/hybrid"};
    (void)state;
    need_gpu();
    for (size_t i = 0; i < 3 * sizeof dirs / sizeof *dirs; i++) {
        struct err e = {0};
        struct model_config c;
        struct weights host, w;
        struct uploaded u = {.d = cuda};
        const char *dir = dirs[i / 3];
        struct upload_options o = {.heads = HEAD_BF16 | HEAD_INT8, .span = i % 2 ? 1 << 20 : 0, .mtp = (enum mtp_form)(i % 3)};
        if (!config_load(&c, dir, &e) || !weights_open(&host, &c, dir, &e) || !weights_open(&w, &c, dir, &e))
            fail_msg("%s", e.msg);
        weights_make_head(&host, HEAD_INT8);
        weights_make_mtp(&host, &c, o.mtp);
        if (!weights_upload(&w, &c, cuda, &o, NULL, NULL, &e))
            fail_msg("%s: %s", dir, e.msg);
        uploaded_check(&u, &c, o.heads, &w, &host);
        if (u.wrong[0])
            fail_msg("%s: %s", dir, u.wrong);
        weights_close(&w);
        weights_close(&host);
    }
}

/* Figures, no verdict: one large launch of each kind, with the tensors already there. */
static void test_pack__speed(void **state)
{
    static const struct { const char *name; enum pack_kind kind; enum pack_half half; enum dtype type; } kinds[] = {
        {"INT4 matrix", PACK_INT4, PACK_WHOLE, DT_F16}, {"INT4 pair", PACK_INT4, PACK_GATE, DT_F16}, {"FP8 matrix", PACK_FP8, PACK_WHOLE, DT_F16},
        {"FP8 pair", PACK_FP8, PACK_GATE, DT_F16}, {"bf16 matrix", PACK_DENSE, PACK_WHOLE, DT_BF16}, {"bf16 pair", PACK_DENSE, PACK_GATE, DT_BF16},
        {"bf16 table", PACK_PLAIN, PACK_WHOLE, DT_BF16}, {"bf16 to INT8", PACK_INT8, PACK_WHOLE, DT_BF16},
        {"bf16 to FP8", PACK_DENSE_FP8, PACK_WHOLE, DT_BF16}, {"bf16 pair to FP8", PACK_DENSE_FP8, PACK_GATE, DT_BF16},
        {"bf16 to INT4", PACK_DENSE_INT4, PACK_WHOLE, DT_BF16}, {"bf16 pair to INT4", PACK_DENSE_INT4, PACK_GATE, DT_BF16},
    };
    enum { ROWS = 1024, COLS = 3072, N = 8, ROUNDS = 20 };
    struct err e = {0};
    (void)state;
    need_gpu();
    size_t each = (size_t)ROWS * COLS * 2;
    char *src = cuda->alloc(cuda, N * each), *dst = cuda->alloc(cuda, 2 * N * each);
    struct pack_piece *table = cuda->alloc_host(cuda, N * sizeof *table);
    CHECK(src && dst && table);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t bytes = kinds[i].kind == PACK_INT4 ? each / 4 : kinds[i].kind == PACK_FP8 ? each / 2 : each;
        int rows = kinds[i].kind == PACK_INT4 ? COLS / 8 : ROWS;
        for (int k = 0; k < N; k++)
            table[k] = (struct pack_piece){.src = src + (size_t)k * each, .dst = dst + (size_t)(2 * k) * each, .kind = kinds[i].kind,
                                           .half = kinds[i].half, .dtype = kinds[i].type, .rows = ROWS, .cols = COLS, .n = rows};
        struct pack_args a = {.pieces = table, .n = N, .n_blocks = pack_number(table, N)};
        cuda->pack(cuda, &a);
        assert_true(cuda->finish(cuda, &e));
        int64_t start = clock_ns();
        for (int r = 0; r < ROUNDS; r++)
            cuda->pack(cuda, &a);
        assert_true(cuda->finish(cuda, &e));
        double ms = clock_ms_since(start) / ROUNDS;
        print_message("pack %-13s %7.1f GB/s of stored bytes, %.3f ms for %.1f MB\n", kinds[i].name, (double)(N * bytes) / ms / 1e6, ms,
                      (double)(N * bytes) / 1e6);
    }
    cuda->free(cuda, src);
    cuda->free(cuda, dst);
    cuda->free_host(cuda, table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pack__int4_matrices_and_pairs_in_pieces),
        cmocka_unit_test(test_pack__fp8_matrices_and_pairs_with_scales_of_every_type),
        cmocka_unit_test(test_pack__dense_matrices_and_pairs_of_every_type),
        cmocka_unit_test(test_pack__rows_of_a_table_stay_in_their_order),
        cmocka_unit_test(test_pack__int4_made_from_any_numbers_is_the_hosts),
        cmocka_unit_test(test_pack__the_int8_head_and_its_planes_are_the_hosts),
        cmocka_unit_test(test_pack__checkpoints_of_every_layout_arrive_packed),
        cmocka_unit_test(test_pack__speed),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
