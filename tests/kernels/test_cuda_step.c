/* Products and experts of a step on the GPU against their definitions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "backend/dev.h"
#include "kernels/cpu/vec.h"
#include "kernels/pack.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/rand_weight.h"

static const double tolerance = 5e-5;   /* relative L2: activations in 16 bits, of the greatest of 128 columns with INT4; sums in fp32 */
static const float  eps = 1e-6f;

/* Everything here is freed at the end of a test. */
static void *device_list[4096], *host_list[4096];
static int   n_device, n_host;

static void *host(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    assert_non_null(p);
    return host_list[n_host++] = p;
}
static void *device(const void *p, size_t bytes)
{
    return device_list[n_device++] = p ? upload(p, bytes) : poisoned(bytes);
}
static float *normals(size_t n, float scale)
{
    float *p = rand_array(n, scale);
    host_list[n_host++] = p;
    return p;
}
static void *fetch(const void *d, size_t bytes)
{
    void *p = host(bytes);
    download(p, d, bytes);
    return p;
}
static int end_test(void **state)
{
    (void)state;
    for (int i = 0; i < n_device; i++)
        cuda->free(cuda, device_list[i]);
    for (int i = 0; i < n_host; i++)
        free(host_list[i]);
    n_device = n_host = 0;
    return 0;
}

static struct weight make(enum weight_format format, int rows, int cols)
{
    float unit = 1 / sqrtf((float)cols);
    struct weight w = rand_weight(format, rows, cols, (struct spread){unit, 0.2f * unit, 0.01f * unit, 0.01f * unit, 0.5f});
    const void *parts[] = {w.data, w.scale, w.zeros};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        host_list[n_host++] = (void *)parts[i];
    return w;
}
static struct weight packed(const struct weight *w, const struct weight *up)
{
    int rows = w->rows * (up ? 2 : 1);
    size_t bytes = pack_bytes(w->format, rows, w->cols);
    void *h = host(bytes);
    assert_true(up ? pack_pair(w, up, h) : pack_matrix(w, h));
    return packed_view(w->format, rows, w->cols, device(h, bytes));
}

static void product(float *y, const float *x, const struct weight *w, int n)
{
    struct linear_args a = {.y = y, .x = x, .w = *w, .n_tokens = n};
    switch (w->format) {
    case WEIGHT_DENSE: RUN(cpu, linear_dense, .l = a); break;
    case WEIGHT_INT4:  RUN(cpu, linear_int4, .l = a); break;
    case WEIGHT_FP8:   RUN(cpu, linear_fp8, .l = a); break;
    case WEIGHT_INT8:
    case WEIGHT_PLANES: RUN(cpu, linear_int8, .l = a); break;
    case WEIGHT_NONE:  fail(); break;
    }
}

static void compare(const char *what, const float *got, const float *want, size_t n, double limit)
{
    double diff = 0, norm = 0, worst = 0;
    size_t bad = n;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - (double)want[i];
        if (!(fabs(d) <= 1e30) && bad == n)
            bad = i;
        if (fabs(d) > worst) {
            worst = fabs(d);
            bad = bad == n || isfinite(got[bad]) ? i : bad;
        }
        diff += d * d;
        norm += (double)want[i] * (double)want[i];
    }
    double rel = sqrt(diff / (norm > 0 ? norm : 1));
    if (!(rel <= limit))
        fail_msg("%s: relative error %.3g, expected at most %.3g; worst at %zu of %zu: %g, expected %g", what, rel, limit, bad, n,
                 bad < n ? (double)got[bad] : 0.0, bad < n ? (double)want[bad] : 0.0);
}

static const char *names[] = {"none", "dense", "INT4", "FP8", "INT8"};

/* ---- products ---- */

/* Rows as numbers, as two halves to be added up, and as a stream. */
struct input {
    float *x, *halves, *norm, *sum, *h;         /* host; sum and h as they must come out */
    float *dx, *dhalves, *dnorm;
    int64_t *stream, *dstream;
};
static struct input make_input(int n, int cols)
{
    struct input in;
    size_t all = (size_t)n * (size_t)cols;
    in.halves = normals(2 * all, 1);
    in.norm = normals((size_t)cols, 0.3f);
    in.stream = host(all * 8);
    in.sum = in.x = host(all * 4);
    in.h = host(all * 4);
    for (size_t i = 0; i < all; i++) {
        in.sum[i] = in.halves[i] + in.halves[all + i];
        in.stream[i] = stream_from_float(in.sum[i]);
    }
    RUN(cpu, rmsnorm, .y = in.h, .x = in.sum, .w = in.norm, .n_rows = n, .dim = cols, .eps = eps);
    in.dx = device(in.x, all * 4);
    in.dhalves = device(in.halves, 2 * all * 4);
    in.dnorm = device(in.norm, (size_t)cols * 4);
    in.dstream = device(in.stream, all * 8);
    return in;
}

static void check_project(enum weight_format f, int rows, int cols, int n, bool from_stream)
{
    char what[128];
    struct weight w = make(f, rows, cols);
    struct input in = make_input(n, cols);
    size_t out = (size_t)n * (size_t)rows, all = (size_t)n * (size_t)cols;
    float *want = host(out * 4), *y = device(NULL, out * 4);
    int64_t *kept = device(NULL, all * 8);
    struct step_project_args a = {.part = {{.w = w, .y = want}}, .n_parts = 1, .stream = in.stream, .norm = in.norm, .n_rows = n, .eps = eps};
    cpu->step->step_project(cpu, &a);
    a.part[0] = (struct step_part){.w = packed(&w, NULL), .y = y};
    a.stream = from_stream ? in.dstream : NULL;
    a.halves = from_stream ? NULL : in.dhalves;
    a.stream_out = from_stream ? NULL : kept;
    a.norm = in.dnorm;
    cuda->step->step_project(cuda, &a);
    snprintf(what, sizeof what, "%s [%d, %d], %d rows, %s", names[f], rows, cols, n, from_stream ? "stream" : "halves");
    compare(what, fetch(y, out * 4), want, out, tolerance);
    if (!from_stream)
        assert_memory_equal(fetch(kept, all * 8), in.stream, all * 8);
}

static void check_logits(enum weight_format f, int rows, int cols, int n)
{
    char what[128];
    struct weight w = make(f, rows, cols);
    struct input in = make_input(n, cols);
    size_t out = (size_t)n * (size_t)rows, all = (size_t)n * (size_t)cols, maxima = (size_t)n * (size_t)step_maxima(rows);
    float *want = host(out * 4), *y = device(NULL, out * 4), *h = device(NULL, all * 4);
    struct step_logits_args a = {.logits = want, .tile_max = host(maxima * 4), .w = w, .stream = in.stream, .norm = in.norm, .n_ids = rows,
                                 .n_rows = n, .eps = eps};
    cpu->step->step_logits(cpu, &a);
    a.logits = y, a.tile_max = device(NULL, maxima * 4), a.w = packed(&w, NULL), a.stream = in.dstream, a.norm = in.dnorm, a.hidden_out = h;
    cuda->step->step_logits(cuda, &a);
    snprintf(what, sizeof what, "logits %s [%d, %d], %d rows", names[f], rows, cols, n);
    compare(what, fetch(y, out * 4), want, out, tolerance);
    compare("the normed input", fetch(h, all * 4), in.h, all, 1e-6);
}

static void test_step_project__every_format_and_row_count_as_defined(void **state)
{
    (void)state;
    need_gpu();
    for (int n = 1; n <= STEP_ROWS; n++) {
        for (int f = WEIGHT_DENSE; f <= WEIGHT_FP8; f++)
            check_project((enum weight_format)f, 2064, 3072, n, n % 2);
        check_logits(WEIGHT_DENSE, 2064, 3072, n);
        check_logits(WEIGHT_INT8, 2064, 3072, n);
    }
}

static void test_step_project__awkward_shapes(void **state)
{
    (void)state;
    need_gpu();
    static const struct { int rows, cols; } shapes[] = {{2048, 4096}, {16, 128}, {24, 256}, {64, 1024}, {4096, 2048}, {257, 3072}, {1, 384}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int n = 1; n <= STEP_ROWS; n += i % 2 ? 3 : 7)
            for (int f = WEIGHT_DENSE; f <= WEIGHT_FP8; f++)
                if (f == WEIGHT_DENSE || shapes[i].rows % 8 == 0)
                    check_project((enum weight_format)f, shapes[i].rows, shapes[i].cols, n, true);
}

static void test_step_norm__agrees_with_the_definition(void **state)
{
    (void)state;
    need_gpu();
    static const int widths[] = {128, 384, 2048, 3072, 4096};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const int n = 1 + (int)i, cols = widths[i];
        struct input in = make_input(n, cols);
        float *h = device(NULL, (size_t)(n * cols) * 4);
        STEP(cuda, step_norm, .h = h, .stream = in.dstream, .norm = in.dnorm, .n_rows = n, .hidden = cols, .eps = eps);
        compare("norm", fetch(h, (size_t)(n * cols) * 4), in.h, (size_t)(n * cols), 1e-6);
    }
}

/* Parts are added up; the reader divides by the rms. */
static void test_step_router__agrees_with_the_definition(void **state)
{
    (void)state;
    need_gpu();
    static const struct { int experts, cols; } shapes[] = {{256, 3072}, {256, 2048}, {257, 3072}, {16, 256}, {5, 128}, {128, 1024}};
    enum { MISSING = 70004, BEHIND = 4 };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int n = 1; n <= STEP_ROWS; n += 1 + n / 3) {
            const int E = shapes[i].experts, H = shapes[i].cols, parts = step_router_parts(H);
            const size_t rows = (size_t)n, step = STEP_ROWS * ((size_t)E + 1), all = rows * (size_t)H, out = rows * (size_t)E;
            struct weight router = make(WEIGHT_DENSE, E, H), gate = make(WEIGHT_DENSE, 1, H);
            struct input in = make_input(n, H);
            float *logits = host(step * STEP_RMS_PARTS * 4), *ssq = host(STEP_RMS_PARTS * STEP_ROWS * 4), *h = host(all * 4);
            float *dlogits = device(NULL, step * STEP_RMS_PARTS * 4), *dssq = device(NULL, STEP_RMS_PARTS * STEP_ROWS * 4),
                *dh = device(NULL, all * 4);
            float *missing = device(host((MISSING + BEHIND) * 4), (MISSING + BEHIND) * 4);
            struct step_router_args a = {.h = h, .logits = logits, .gate = logits + (size_t)STEP_ROWS * (size_t)E, .part_step = step, .ssq = ssq,
                                         .stream = in.stream, .norm = in.norm, .router = router, .shared_gate = gate, .n_rows = n};
            cpu->step->step_router(cpu, &a);
            a.h = dh, a.logits = dlogits, a.gate = dlogits + (size_t)STEP_ROWS * (size_t)E, a.ssq = dssq, a.stream = in.dstream, a.norm = in.dnorm;
            a.router = packed(&router, NULL), a.shared_gate = packed(&gate, NULL), a.expert_h = missing, a.n_expert_h = MISSING;
            cuda->step->step_router(cuda, &a);
            float *got = fetch(dlogits, step * STEP_RMS_PARTS * 4), *squares = fetch(dssq, STEP_RMS_PARTS * STEP_ROWS * 4);
            for (int s = 1; s < parts; s++) {
                for (size_t k = 0; k < step; k++)
                    got[k] += got[(size_t)s * step + k];
                for (int t = 0; t < n; t++)
                    squares[t] += squares[s * STEP_ROWS + t];
            }
            compare("the router", got, logits, out, tolerance);
            compare("the shared gate", got + (size_t)STEP_ROWS * (size_t)E, logits + (size_t)STEP_ROWS * (size_t)E, rows, 10 * tolerance);
            compare("the squares", squares, ssq, rows, 1e-5);
            compare("the input", fetch(dh, all * 4), h, all, 1e-6);
            const uint32_t *bits = fetch(missing, (MISSING + BEHIND) * 4);
            for (size_t k = 0; k < MISSING + BEHIND; k++)
                assert_int_equal(bits[k], k < MISSING ? STEP_MISSING : 0);
        }
}

/* Products added to the stream, by ranges of columns; twice, so that what stood there counts. */
static void test_step_add__what_is_added_to_the_stream(void **state)
{
    (void)state;
    need_gpu();
    static const struct { enum weight_format f; int rows, cols; } shapes[] = {
        {WEIGHT_INT4, 3072, 8192}, {WEIGHT_FP8, 2048, 4096}, {WEIGHT_DENSE, 264, 1024}, {WEIGHT_INT4, 2048, 4096}, {WEIGHT_DENSE, 3, 128},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t rows = (size_t)shapes[i].rows, cols = (size_t)shapes[i].cols;
        struct weight w = make(shapes[i].f, shapes[i].rows, shapes[i].cols), p = packed(&w, NULL);
        float *x = normals(STEP_ROWS * cols, 1), *start = normals(STEP_ROWS * rows, 1), *want = host(STEP_ROWS * rows * 4),
            *dx = device(x, STEP_ROWS * cols * 4);
        int64_t *stream = host(STEP_ROWS * rows * 8), *sum = host(STEP_ROWS * rows * 8), *all = NULL;
        for (size_t k = 0; k < STEP_ROWS * rows; k++)
            sum[k] = stream[k] = stream_from_float(start[k]);
        for (int again = 0; again < 2; again++)
            STEP(cpu, step_add, .stream = sum, .w = w, .x = x, .n_rows = STEP_ROWS, .eps = eps);
        for (size_t k = 0; k < STEP_ROWS * rows; k++)
            want[k] = stream_to_float(sum[k]);
        for (int n = STEP_ROWS; n >= 1; n--) {
            int64_t *to = device(stream, (size_t)n * rows * 8);
            float *got = host((size_t)n * rows * 4);
            for (int again = 0; again < 2; again++)
                STEP(cuda, step_add, .stream = to, .w = p, .x = dx, .n_rows = n, .eps = eps);
            int64_t *exact = fetch(to, (size_t)n * rows * 8);
            for (size_t k = 0; k < (size_t)n * rows; k++)
                got[k] = stream_to_float(exact[k]);
            compare("the stream", got, want, (size_t)n * rows, tolerance);
            all = all ? all : exact;
            assert_memory_equal(exact, all, (size_t)n * rows * 8);
        }
    }
}

static void test_step_add__heads_are_divided_by_their_rms(void **state)
{
    (void)state;
    need_gpu();
    const int cols = 2048, n = 5, rows = 512;
    struct weight w = make(WEIGHT_INT4, rows, cols);
    const size_t out = (size_t)n * (size_t)rows, sums = (size_t)n * (size_t)(cols / 128) * 2;
    float *x = normals((size_t)n * (size_t)cols, 1), *ssq = normals(sums, 1), *want = host(out * 4), *got = host(out * 4);
    int64_t *sum = host(out * 8), *to = device(host(out * 8), out * 8);
    for (size_t i = 0; i < sums; i++)
        ssq[i] = ssq[i] * ssq[i] * 64;
    STEP(cpu, step_add, .stream = sum, .w = w, .x = x, .ssq = ssq, .head_dim = 128, .n_rows = n, .eps = eps);
    STEP(cuda, step_add, .stream = to, .w = packed(&w, NULL), .x = device(x, (size_t)n * (size_t)cols * 4), .ssq = device(ssq, sums * 4),
         .head_dim = 128, .n_rows = n, .eps = eps);
    const int64_t *exact = fetch(to, out * 8);
    for (size_t i = 0; i < out; i++) {
        want[i] = stream_to_float(sum[i]);
        got[i] = stream_to_float(exact[i]);
    }
    compare("heads", got, want, out, tolerance);
}

/* A product that cannot be added to the stream spoils that number for good, and nothing else. */
static void test_step_add__nothing_hides_a_product_that_was_no_number(void **state)
{
    (void)state;
    need_gpu();
    static const float bad[] = {NAN, INFINITY, -INFINITY, 1e30f, -2e6f};
    const int H = 512, n = 2;
    const size_t all = (size_t)n * (size_t)H;
    struct weight one = {.format = WEIGHT_DENSE, .dtype = DT_BF16, .rows = H, .cols = H};     /* the unit matrix */
    uint16_t *bits = host((size_t)(H * H) * 2);
    for (int i = 0; i < H; i++)
        bits[i * H + i] = f32_bf16(1);
    one.data = bits;
    const struct weight p = packed(&one, NULL), w = make(WEIGHT_INT4, 64, H), pw = packed(&w, NULL);
    float *norm = device(host((size_t)H * 4), (size_t)H * 4);
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
        float *x = normals(all, 1), *y = device(NULL, (size_t)n * 64 * 4), *want = host((size_t)n * 64 * 4), *h = host(all * 4);
        int64_t *stream = host(all * 8), *to;
        for (size_t i = 0; i < all; i++)
            stream[i] = stream_from_float(x[i]);
        to = device(stream, all * 8);
        float *add = host(all * 4);
        add[3] = bad[b];                /* row 0; a row's other products become NaN when it is not finite */
        const float *dadd = device(add, all * 4), *more = device(normals(all, 1000), all * 4);
        for (int k = 0; k < 20; k++)
            STEP(cuda, step_add, .stream = to, .w = p, .x = k ? more : dadd, .n_rows = n, .eps = eps);
        const int64_t *got = fetch(to, all * 8);
        assert_true(isnan(stream_to_float(got[3])));
        for (int i = 0; i < H; i++) {
            assert_true(!isfinite(bad[b]) || i == 3 || isfinite(stream_to_float(got[i])));
            assert_true(isfinite(stream_to_float(got[H + i])));
        }
        STEP(cuda, step_project, .part = {{.w = pw, .y = y}}, .n_parts = 1, .stream = to, .norm = norm, .n_rows = n, .eps = eps);
        const float *out = fetch(y, (size_t)n * 64 * 4);
        for (int i = 0; i < 64; i++)
            assert_true(isnan(out[i]));
        for (int i = 0; i < H; i++)
            h[i] = stream_to_float(got[H + i]);
        RUN(cpu, rmsnorm, .y = h, .x = h, .w = host((size_t)H * 4), .n_rows = 1, .dim = H, .eps = eps);
        product(want, h, &w, 1);
        compare("the row beside", out + 64, want, 64, tolerance);
    }
}

static void test_step_project__a_row_has_the_same_bits_in_any_company(void **state)
{
    (void)state;
    need_gpu();
    /* large matrices have code of their own */
    static const struct { enum weight_format f; int rows; } matrices[] = {
        {WEIGHT_DENSE, 4112}, {WEIGHT_INT4, 4112}, {WEIGHT_FP8, 4112}, {WEIGHT_INT8, 4112}, {WEIGHT_INT4, 12304},
    };
    const int cols = 3072;
    for (size_t m = 0; m < sizeof matrices / sizeof *matrices; m++) {
        const int rows = matrices[m].rows;
        struct weight w = make(matrices[m].f, rows, cols), p = packed(&w, NULL);
        struct input in = make_input(STEP_ROWS, cols);
        float *all = NULL;
        for (int n = STEP_ROWS; n >= 1; n--) {
            float *y = device(NULL, (size_t)n * (size_t)rows * 4), *max = device(NULL, (size_t)n * (size_t)step_maxima(rows) * 4);
            for (int again = 0; again < 2; again++)
                if (w.format == WEIGHT_INT8)
                    STEP(cuda, step_logits, .logits = y, .tile_max = max, .w = p, .stream = in.dstream, .norm = in.dnorm, .n_ids = rows, .n_rows = n,
                         .eps = eps);
                else
                    STEP(cuda, step_project, .part = {{.w = p, .y = y}}, .n_parts = 1, .stream = in.dstream, .norm = in.dnorm, .n_rows = n,
                         .eps = eps);
            float *got = fetch(y, (size_t)n * (size_t)rows * 4);
            all = all ? all : got;
            assert_memory_equal(got, all, (size_t)n * (size_t)rows * 4);
        }
    }
}

static void test_step_project__several_matrices_rings_and_formats(void **state)
{
    (void)state;
    need_gpu();
    const int cols = 2048, n = 5, rows = 512;
    const int32_t at = 30;
    struct weight a = make(WEIGHT_INT4, 8192, cols), b = make(WEIGHT_INT4, 64, cols), c = make(WEIGHT_FP8, 512, cols);
    struct input in = make_input(n, cols);
    float *ya = device(NULL, STEP_RING * 8192 * 4), *yb = device(NULL, (size_t)n * 64 * 4), *yc = device(NULL, (size_t)n * (size_t)rows * 4);
    float *wa = host(STEP_RING * 8192 * 4), *wb = host((size_t)n * 64 * 4), *wc = host((size_t)n * (size_t)rows * 4);
    STEP(cpu, step_project, .part = {{.w = a, .y = wa, .ring = true}, {.w = b, .y = wb}, {.w = c, .y = wc}}, .n_parts = 3, .stream = in.stream,
         .norm = in.norm, .pos = &at, .n_rows = n, .eps = eps);
    STEP(cuda, step_project, .part = {{.w = packed(&a, NULL), .y = ya, .ring = true}, {.w = packed(&b, NULL), .y = yb},
                                      {.w = packed(&c, NULL), .y = yc}},
         .n_parts = 3, .stream = in.dstream, .norm = in.dnorm, .pos = device(&at, 4), .n_rows = n, .eps = eps);
    const float *got = fetch(ya, STEP_RING * 8192 * 4);
    for (int t = 0; t < n; t++)
        compare("a ring", got + (at + t) % STEP_RING * 8192, wa + (at + t) % STEP_RING * 8192, 8192, tolerance);
    compare("a small matrix", fetch(yb, (size_t)n * 64 * 4), wb, (size_t)n * 64, tolerance);
    compare("another format", fetch(yc, (size_t)n * (size_t)rows * 4), wc, (size_t)n * (size_t)rows, tolerance);
}

/* Dense matrices beside INT4 ones, large and small. */
static void test_step_project__formats_together(void **state)
{
    (void)state;
    need_gpu();
    const int cols = 3072, bigs[] = {12304, 320}, smalls[] = {48, 4112};
    const size_t C = (size_t)cols;
    for (int i = 0; i < 4; i++) {
        const int big = bigs[i % 2], small = smalls[i / 2];
        const size_t B = (size_t)big, S = (size_t)small;
        struct weight a = make(WEIGHT_INT4, big, cols), b = make(WEIGHT_DENSE, small, cols), pa = packed(&a, NULL), pb = packed(&b, NULL);
        struct input in = make_input(STEP_ROWS, cols);
        float *want = host(STEP_ROWS * B * 4), *want_small = host(STEP_ROWS * S * 4), *all = NULL, *all_small = NULL;
        product(want, in.h, &a, STEP_ROWS);
        product(want_small, in.h, &b, STEP_ROWS);
        for (int n = STEP_ROWS; n >= 1; n--) {
            const size_t rows = (size_t)n;
            float *ya = device(NULL, rows * B * 4), *yb = device(NULL, rows * S * 4);
            int64_t *kept = device(NULL, rows * C * 8);
            float *halves = device(NULL, 2 * rows * C * 4);
            cuda->copy(cuda, halves, in.halves, rows * C * 4);
            cuda->copy(cuda, halves + rows * C, in.halves + STEP_ROWS * C, rows * C * 4);
            for (int again = 0; again < 2; again++)
                STEP(cuda, step_project, .part = {{.w = pa, .y = ya}, {.w = pb, .y = yb}}, .n_parts = 2, .halves = halves, .stream_out = kept,
                     .norm = in.dnorm, .n_rows = n, .eps = eps);
            float *got = fetch(ya, rows * B * 4), *got_small = fetch(yb, rows * S * 4);
            compare("the INT4 matrix", got, want, rows * B, tolerance);
            compare("the dense matrix", got_small, want_small, rows * S, tolerance);
            assert_memory_equal(fetch(kept, rows * C * 8), in.stream, rows * C * 8);
            all = all ? all : got;
            all_small = all_small ? all_small : got_small;
            assert_memory_equal(got, all, rows * B * 4);
            assert_memory_equal(got_small, all_small, rows * S * 4);
        }
    }
}

static void check_mtp_join(enum weight_format f, int H, int n)
{
    const int vocab = 50;
    const size_t all = (size_t)n * (size_t)H;
    struct weight w = make(f, H, 2 * H), table = make(WEIGHT_DENSE, vocab, H), on = table;
    struct input in = make_input(n, H), second = make_input(n, H);
    const int32_t ids[STEP_ROWS] = {7, 49, 0, 7, 1, 30, 48, 2};
    float *want = host(2 * all * 4), *y = device(NULL, 2 * all * 4);
    struct step_mtp_join_args a = {.halves = want, .w = w, .table = table, .ids = ids, .norm_embedding = in.norm, .hidden = second.x,
                                   .norm_hidden = second.norm, .n_rows = n, .eps = eps};
    cpu->step->step_mtp_join(cpu, &a);
    on.data = device(table.data, (size_t)vocab * (size_t)H * 2);
    a.halves = y, a.w = packed(&w, NULL), a.table = on, a.ids = device(ids, sizeof ids), a.norm_embedding = in.dnorm, a.hidden = second.dx;
    a.norm_hidden = second.dnorm;
    cuda->step->step_mtp_join(cuda, &a);
    float *got = fetch(y, 2 * all * 4);
    for (size_t i = 0; i < all; i++) {
        got[i] += got[all + i];
        want[i] += want[all + i];
    }
    compare("two inputs", got, want, all, tolerance);
}

static void test_step_mtp_join__agrees_with_the_definition(void **state)
{
    (void)state;
    need_gpu();
    static const int widths[] = {3072, 2048, 256}, rows[] = {1, 3, 8};
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 3; k++) {
            check_mtp_join(WEIGHT_DENSE, widths[i], rows[k]);
            check_mtp_join(WEIGHT_FP8, widths[i], rows[k]);
            check_mtp_join(WEIGHT_INT4, widths[i], rows[k]);
        }
}

static void test_step_logits__of_a_chosen_row_and_of_a_hidden_state(void **state)
{
    (void)state;
    need_gpu();
    const int H = 3072, n = 3;
    const int32_t row = 2;
    struct weight w = make(WEIGHT_INT8, 1024, H), p = packed(&w, NULL);
    struct input in = make_input(n, H);
    float *want = host((size_t)n * 1024 * 4), *z = device(NULL, 1024 * 4), *max = device(NULL, 64 * 4), *h = device(NULL, (size_t)H * 4), *got;
    product(want, in.h, &w, n);
    STEP(cuda, step_logits, .logits = z, .tile_max = max, .w = p, .stream = in.dstream, .norm = in.dnorm, .hidden_out = h, .row = device(&row, 4),
         .n_ids = 1000, .n_rows = 1, .eps = eps);
    got = fetch(z, 1024 * 4);
    compare("a chosen row", got, want + row * 1024, 1000, tolerance);
    compare("its normed input", fetch(h, (size_t)H * 4), in.h + row * H, (size_t)H, 1e-6);
    float *m = fetch(max, 64 * 4);
    for (int i = 0; i < 1024; i++) {
        assert_true(i < 1000 || got[i] == -INFINITY);
        assert_true(got[i] <= m[i / 16]);
    }
    STEP(cuda, step_logits, .logits = z, .tile_max = max, .w = p, .hidden = device(in.h, (size_t)H * 4), .n_ids = 1024, .n_rows = 1, .eps = eps);
    compare("a hidden state", fetch(z, 1024 * 4), want, 1024, tolerance);
}

static void test_step_logits__penalties_as_the_sampler_has_them(void **state)
{
    (void)state;
    need_gpu();
    const int V = 4096, H = 256, n = 4;
    struct weight w = make(WEIGHT_INT8, V, H), p = packed(&w, NULL);
    struct input in = make_input(n, H);
    struct step_sampling s = {.n_ids = 4001, .presence_penalty = 1.5f, .repetition_penalty = 1.25f, .biased = 1};
    uint8_t *seen = host((size_t)V);
    float *bias = normals((size_t)V, 1), *raw = device(NULL, (size_t)(n * V) * 4), *y = device(NULL, (size_t)(n * V) * 4),
        *max = device(NULL, (size_t)(n * V / 16) * 4);
    int32_t drafts[3] = {17, 18, 4000};
    for (int i = 0; i < V; i++)
        seen[i] = rand_u64() % 5 == 0 ? 1 : rand_u64() % 5 == 0 ? 3 : 0;
    STEP(cuda, step_logits, .logits = raw, .tile_max = device(NULL, (size_t)(n * V / 16) * 4), .w = p, .stream = in.dstream, .norm = in.dnorm,
         .n_ids = V, .n_rows = n, .eps = eps);
    STEP(cuda, step_logits, .logits = y, .tile_max = max, .w = p, .stream = in.dstream, .norm = in.dnorm, .sampling = device(&s, sizeof s),
         .seen = device(seen, (size_t)V), .bias = device(bias, (size_t)V * 4), .drafts = device(drafts, sizeof drafts), .n_rows = n, .eps = eps);
    float *r = fetch(raw, (size_t)(n * V) * 4), *got = fetch(y, (size_t)(n * V) * 4), *m = fetch(max, (size_t)(n * V / 16) * 4);
    for (int t = 0; t < n; t++)
        for (int i = 0; i < V; i++) {
            int mark = seen[i];
            for (int d = 0; d < t; d++)
                mark = drafts[d] == i ? 3 : mark;
            float l = r[t * V + i] + bias[i];
            l = !mark ? l : l > 0 ? l / 1.25f : l * 1.25f;
            l = mark & 2 ? l - 1.5f : l;
            l = i < s.n_ids ? l : -INFINITY;
            assert_true(l == got[t * V + i] || fabsf(l - got[t * V + i]) < 1e-5f);
            assert_true(got[t * V + i] <= m[t * (V / 16) + i / 16]);
        }
    for (int t = 0; t < n * (V / 16); t++) {
        float best = -INFINITY;
        for (int i = 0; i < 16; i++)
            best = fmaxf(best, got[t * 16 + i]);
        assert_true(best == m[t]);
    }
}

/* No multiple of 16: the maxima behind the last id count as -inf, a NaN makes its maximum infinite. */
static void test_step_logits__logits_of_odd_vocabularies(void **state)
{
    (void)state;
    need_gpu();
    static const int vocabs[] = {1000, 1500, 17};
    const int H = 384, n = 3;
    for (size_t v = 0; v < sizeof vocabs / sizeof *vocabs; v++)
        for (int f = WEIGHT_DENSE; f <= WEIGHT_INT8; f += WEIGHT_INT8 - WEIGHT_DENSE) {
            const int V = vocabs[v], tiles = step_maxima(V);
            struct weight w = make((enum weight_format)f, V, H);
            struct input in = make_input(n, H);
            float *y = device(NULL, (size_t)(n * V) * 4), *max = device(NULL, (size_t)(n * tiles) * 4), *want = host((size_t)(n * V) * 4);
            in.stream[H + 5] = STREAM_POISON;
            STEP(cuda, step_logits, .logits = y, .tile_max = max, .w = packed(&w, NULL), .stream = device(in.stream, (size_t)(n * H) * 8),
                 .norm = in.dnorm, .n_ids = V, .n_rows = n, .eps = eps);
            product(want, in.h, &w, n);
            const float *got = fetch(y, (size_t)(n * V) * 4), *m = fetch(max, (size_t)(n * tiles) * 4);
            for (int t = 0; t < n; t++) {
                if (t != 1)
                    compare("logits", got + t * V, want + t * V, (size_t)V, tolerance);
                for (int i = 0; i < tiles; i++) {
                    float best = -INFINITY;
                    for (int id = 16 * i; id < 16 * i + 16 && id < V; id++)
                        best = isnan(got[t * V + id]) ? INFINITY : fmaxf(best, got[t * V + id]);
                    assert_true(m[t * tiles + i] == best);
                    assert_true(t != 1 || 16 * i >= V || isinf(best));
                }
            }
        }
}

/* ---- experts ---- */

struct moe {
    int hidden, inter, n_experts, top_k;
    enum weight_format routed, shared;
    struct expert_weights *experts, one;        /* host */
    struct expert_weights *packed, one_packed;
};
static void make_moe(struct moe *m)
{
    size_t E = (size_t)m->n_experts;
    const size_t pair_step = pack_bytes(m->routed, 2 * m->inter, m->hidden), down_step = pack_bytes(m->routed, m->hidden, m->inter);
    char *pairs = host(E * pair_step), *downs = host(E * down_step);
    m->packed = host(E * sizeof *m->packed);
    m->experts = host(E * sizeof *m->experts);
    for (size_t e = 0; e < E; e++) {
        struct expert_weights *x = &m->experts[e];
        *x = (struct expert_weights){make(m->routed, m->inter, m->hidden), make(m->routed, m->inter, m->hidden),
                                     make(m->routed, m->hidden, m->inter)};
        assert_true(pack_pair(&x->gate, &x->up, pairs + e * pair_step) && pack_matrix(&x->down, downs + e * down_step));
    }
    m->one = (struct expert_weights){make(m->shared, m->inter, m->hidden), make(m->shared, m->inter, m->hidden),
                                     make(m->shared, m->hidden, m->inter)};
    const char *dpairs = device(pairs, E * pair_step), *ddowns = device(downs, E * down_step);
    for (size_t e = 0; e < E; e++) {
        m->packed[e].gate = packed_view(m->routed, 2 * m->inter, m->hidden, dpairs + e * pair_step);
        m->packed[e].down = packed_view(m->routed, m->hidden, m->inter, ddowns + e * down_step);
    }
    m->one_packed.gate = packed(&m->one.gate, &m->one.up);
    m->one_packed.down = packed(&m->one.down, NULL);
}

static float *numbers(const int64_t *stream, size_t n)
{
    float *x = host(n * 4);
    for (size_t i = 0; i < n; i++)
        x[i] = stream_to_float(stream[i]);
    return x;
}

enum { ALL = -1 };

/* Returns the sum for a stream of zeros [n, hidden], on the host; on the GPU, or by definition.  last_of: of the n rows only the last of the first so
 * many is used; or ALL. */
static float *run_moe(const struct moe *m, const float *x, const float *logits, const float *gate, const float *ssq, int n, int n_logits,
                      int32_t last_of, struct step_route *route, bool defined)
{
    size_t H = (size_t)m->hidden, rows = (size_t)n, step = rows * (size_t)m->n_experts;
    size_t space = step_experts_space(n, m->n_experts, m->top_k, m->inter);
    int64_t *zeros = host(rows * H * 8);
    struct step_experts_args a = {
        .stream = zeros, .route = route,
        .choice = {.rms = {ssq, 2, m->hidden, eps}, .logits = logits, .n_logits = n_logits, .logit_step = step,
                   .last_of = last_of == ALL ? NULL : &last_of, .overlap = -1, .n_experts = m->n_experts, .top_k = m->top_k},
        .x = x, .experts = m->experts, .shared = &m->one, .shared_gate = gate, .n_gates = n_logits, .gate_step = rows, .n_rows = n,
        .hidden = m->hidden, .inter = m->inter,
    };
    if (defined) {
        cpu->step->step_experts(cpu, &a);
        return numbers(zeros, rows * H);
    }
    a.stream = device(zeros, rows * H * 8);
    a.h = device(memset(host(space * 4), STEP_MISSING & 255, space * 4), space * 4);
    a.route = device(NULL, sizeof *route);
    a.choice.rms.ssq = ssq ? device(ssq, 2 * STEP_ROWS * 4) : NULL;
    a.choice.logits = device(logits, (size_t)n_logits * step * 4);
    a.choice.last_of = last_of == ALL ? NULL : device(&last_of, 4);
    a.x = device(x, rows * H * 4);
    a.experts = m->packed, a.shared = &m->one_packed;
    a.shared_gate = device(gate, (size_t)n_logits * rows * 4);
    cuda->step->step_experts(cuda, &a);
    memcpy(route, fetch(a.route, sizeof *route), sizeof *route);
    return numbers(fetch(a.stream, rows * H * 8), rows * H);
}

static void check_moe(struct moe *m, int n, int last_of, bool left)
{
    enum { PARTS = 3 };
    const int from = last_of > 0 ? last_of - 1 : 0, end = last_of == ALL ? n : last_of;         /* rows that are used */
    char what[128];
    size_t H = (size_t)m->hidden, rows = (size_t)n, E = (size_t)m->n_experts;
    float *x = normals(rows * H, left ? 2 : 1), *logits = normals(PARTS * rows * E, left ? 2 : 1), *gates = normals(PARTS * rows, 1),
        ssq[2 * STEP_ROWS] = {0};
    struct step_route route = {0}, wanted = {0};
    for (size_t t = 0; t < rows; t++) {
        ssq[t] = (float)m->hidden * (1.0f + (float)t);
        ssq[STEP_ROWS + t] = 0.5f * (float)m->hidden;
    }
    float *want = run_moe(m, x, logits, gates, left ? ssq : NULL, n, PARTS, last_of, &wanted, true);
    float *got = run_moe(m, x, logits, gates, left ? ssq : NULL, n, PARTS, last_of, &route, false);
    assert_int_equal(route.n, wanted.n);
    for (int i = 0; i < route.n; i++) {
        assert_int_equal(route.expert[i], wanted.expert[i]);
        for (int t = from; t < end; t++)
            assert_true(fabsf(route.weight[i][t] - wanted.weight[i][t]) <= 4e-6f);
    }
    snprintf(what, sizeof what, "experts %s and %s, hidden %d, inter %d, %d rows", names[m->routed], names[m->shared], m->hidden, m->inter, n);
    compare(what, got + (size_t)from * H, want + (size_t)from * H, (size_t)(end - from) * H, 2 * tolerance);      /* one product after the other */

    /* alone, a row must come out with the same bits */
    for (int t = from; t < end; t += 3) {
        float *one = host(PARTS * E * 4), one_gate[PARTS], one_ssq[2 * STEP_ROWS] = {ssq[t]};
        one_ssq[STEP_ROWS] = ssq[STEP_ROWS + t];
        for (int p = 0; p < PARTS; p++) {
            memcpy(one + (size_t)p * E, logits + ((size_t)p * rows + (size_t)t) * E, E * 4);
            one_gate[p] = gates[(size_t)p * rows + (size_t)t];
        }
        float *alone = run_moe(m, x + (size_t)t * H, one, one_gate, left ? one_ssq : NULL, 1, PARTS, ALL, &route, false);
        assert_memory_equal(alone, got + (size_t)t * H, H * 4);
    }
}

static void test_step_experts__full_width(void **state)
{
    (void)state;
    need_gpu();
    static const enum weight_format routed[] = {WEIGHT_INT4, WEIGHT_FP8};         /* layers and an MTP block in INT4, one in FP8 */
    for (size_t i = 0; i < 2; i++) {
        struct moe m = {.hidden = 3072, .inter = 1024, .n_experts = 12, .top_k = 8, .routed = routed[i], .shared = WEIGHT_FP8};
        make_moe(&m);
        for (int n = 1; n <= STEP_ROWS; n += 1 + n / 3)
            check_moe(&m, n, ALL, n != 3);
        for (int n = 1; n <= STEP_ROWS; n++)
            check_moe(&m, STEP_ROWS, n, n % 2);
        check_moe(&m, 4, 2, true);
        check_moe(&m, 1, 1, true);
        check_moe(&m, 1, 0, true);
        check_moe(&m, 3, 0, false);
    }
}

static void test_step_experts__other_widths_and_formats(void **state)
{
    (void)state;
    need_gpu();
    struct moe list[] = {
        {.hidden = 2048, .inter = 512, .n_experts = 16, .top_k = 8, .routed = WEIGHT_INT4, .shared = WEIGHT_DENSE},
        {.hidden = 128,  .inter = 128, .n_experts = 8,  .top_k = 4, .routed = WEIGHT_DENSE, .shared = WEIGHT_DENSE},
        {.hidden = 256,  .inter = 128,   .n_experts = 250, .top_k = 6, .routed = WEIGHT_INT4, .shared = WEIGHT_FP8},
        {.hidden = 256,  .inter = 256, .n_experts = 40, .top_k = 16, .routed = WEIGHT_FP8, .shared = WEIGHT_FP8},
        {.hidden = 512,  .inter = 640, .n_experts = 10, .top_k = 3, .routed = WEIGHT_INT4, .shared = WEIGHT_INT4},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        make_moe(&list[i]);
        for (int n = 1; n <= STEP_ROWS; n += 1 + n / 2)
            check_moe(&list[i], n, ALL, n % 2);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, end_test)
    const struct CMUnitTest tests[] = {
        TEST(test_step_project__every_format_and_row_count_as_defined),
        TEST(test_step_project__awkward_shapes),
        TEST(test_step_norm__agrees_with_the_definition),
        TEST(test_step_router__agrees_with_the_definition),
        TEST(test_step_add__what_is_added_to_the_stream),
        TEST(test_step_add__heads_are_divided_by_their_rms),
        TEST(test_step_add__nothing_hides_a_product_that_was_no_number),
        TEST(test_step_project__a_row_has_the_same_bits_in_any_company),
        TEST(test_step_project__several_matrices_rings_and_formats),
        TEST(test_step_project__formats_together),
        TEST(test_step_mtp_join__agrees_with_the_definition),
        TEST(test_step_logits__of_a_chosen_row_and_of_a_hidden_state),
        TEST(test_step_logits__penalties_as_the_sampler_has_them),
        TEST(test_step_logits__logits_of_odd_vocabularies),
        TEST(test_step_experts__full_width),
        TEST(test_step_experts__other_widths_and_formats),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
