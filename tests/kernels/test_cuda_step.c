/* step_linear and step_experts on the GPU against the plain operations that define them. */
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
    case WEIGHT_INT8:  RUN(cpu, linear_int8, .l = a); break;
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

/* ---- step_linear ---- */

/* Rows as numbers and something to add (`plus`, whose place dplus may be), or as a stream. */
struct input {
    float *x, *plus, *norm, *sum, *h;   /* host; sum and h as they must come out */
    float *dx, *dplus, *dnorm;
    int64_t *stream, *dstream;
};
static struct input make_input(int n, int cols, bool plus)
{
    struct input in;
    size_t all = (size_t)n * (size_t)cols;
    in.x = normals(all, 2);
    in.plus = normals(all, plus ? 0.5f : 0);
    in.norm = normals((size_t)cols, 0.3f);
    in.stream = host(all * 8);
    in.sum = host(all * 4);
    in.h = host(all * 4);
    for (size_t i = 0; i < all; i++) {
        in.sum[i] = in.x[i] + in.plus[i];
        in.stream[i] = stream_from_float(in.sum[i]);
    }
    RUN(cpu, rmsnorm, .y = in.h, .x = in.sum, .w = in.norm, .n_rows = n, .dim = cols, .eps = eps);
    in.dx = device(in.x, all * 4);
    in.dplus = device(in.plus, all * 4);
    in.dnorm = device(in.norm, (size_t)cols * 4);
    in.dstream = device(in.stream, all * 8);
    return in;
}

/* What a reader multiplies row t with, by definition. */
static float rms_of(const float *x, int cols)
{
    double sum = 0;
    for (int i = 0; i < cols; i++)
        sum += (double)x[i] * (double)x[i];
    return (float)(1 / sqrt(sum / cols + (double)eps));
}

/* Ranges of columns leave the division by the rms to the reader. */
static void check_linear(enum weight_format f, int rows, int cols, int n, bool stream, int splits)
{
    char what[128];
    struct weight w = make(f, rows, cols);
    struct input in = make_input(n, cols, true);
    size_t out = (size_t)n * (size_t)rows, y_split = (size_t)STEP_ROWS * (size_t)rows, all = (size_t)n * (size_t)cols;
    float *want = host(out * 4), *y = device(NULL, y_split * (size_t)splits * 4), *h = device(NULL, all * 4),
          *ssq = splits > 1 ? device(NULL, (size_t)splits * STEP_ROWS * 4) : NULL;
    int64_t *kept = splits > 1 ? NULL : device(NULL, all * 8);
    enum { MISSING = 70004, BEHIND = 4 };
    float *missing = splits > 1 ? device(host((MISSING + BEHIND) * 4), (MISSING + BEHIND) * 4) : NULL;
    product(want, in.h, &w, n);
    enum step_write write = f == WEIGHT_INT8 ? STEP_LOGITS : STEP_PLAIN;
    STEP(cuda, step_linear, .part = {{.w = packed(&w, NULL), .y = y, .y_row = (size_t)rows, .write = write}}, .n_parts = 1,
         .in = {{.x = stream ? NULL : in.dx, .stream = stream ? in.dstream : NULL, .norm = in.dnorm}}, .plus = stream ? NULL : in.dplus,
         .stream_out = kept, .h_out = h, .tile_max = device(NULL, (size_t)n * (size_t)step_maxima(rows) * 4), .n_ids = rows, .ssq_out = ssq,
         .missing = missing, .n_missing = missing ? MISSING : 0, .y_split = y_split, .n_rows = n, .splits = splits, .eps = eps);
    float *got = fetch(y, y_split * (size_t)splits * 4), *normed = fetch(h, all * 4);
    for (size_t i = 0; i < out; i++)
        for (int s = 1; s < splits; s++)
            got[i] += got[(size_t)s * y_split + i];
    for (int t = 0; ssq && t < n; t++) {
        const float *part = fetch(ssq, (size_t)splits * STEP_ROWS * 4), want_rms = rms_of(in.sum + (size_t)t * (size_t)cols, cols);
        double squares = 0;
        for (int s = 0; s < splits; s++)
            squares += (double)part[s * STEP_ROWS + t];
        float rms = (float)(1 / sqrt(squares / cols + (double)eps));
        assert_true(fabsf(rms - want_rms) <= 1e-5f * want_rms);
        for (int i = 0; i < rows; i++)
            got[(size_t)t * (size_t)rows + (size_t)i] *= rms;
        for (int i = 0; i < cols; i++)
            normed[(size_t)t * (size_t)cols + (size_t)i] *= rms;
    }
    const uint32_t *bits = missing ? fetch(missing, (MISSING + BEHIND) * 4) : NULL;
    for (size_t i = 0; bits && i < MISSING + BEHIND; i++)
        assert_int_equal(bits[i], i < MISSING ? STEP_MISSING : 0);
    snprintf(what, sizeof what, "%s [%d, %d], %d rows, %s, %d splits", names[f], rows, cols, n, stream ? "stream" : "sum", splits);
    compare(what, got, want, out, tolerance);
    if (kept)
        assert_memory_equal(fetch(kept, all * 8), in.stream, all * 8);
    compare("the normed input", normed, in.h, all, 1e-6);
}

static void test_step_linear__every_format_and_row_count_as_defined(void **state)
{
    (void)state;
    need_gpu();
    for (int n = 1; n <= STEP_ROWS; n++)
        for (int f = WEIGHT_DENSE; f <= WEIGHT_INT8; f++)
            check_linear((enum weight_format)f, 2064, 3072, n, n % 2, 1);
}

static void test_step_linear__awkward_shapes_and_ranges_of_columns(void **state)
{
    (void)state;
    need_gpu();
    static const struct { int rows, cols, splits; } shapes[] = {
        {3072, 8192, 8}, {257, 3072, 3}, {256, 2048, 2}, {1, 3072, 3}, {2048, 4096, 1}, {16, 128, 1}, {24, 256, 1}, {64, 1024, 1}, {4096, 2048, 1},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int n = 1; n <= STEP_ROWS; n += i % 2 ? 3 : 7)
            for (int f = WEIGHT_DENSE; f <= WEIGHT_FP8; f++)
                if (f == WEIGHT_DENSE || (shapes[i].rows % 8 == 0 && shapes[i].splits == 1))
                    check_linear((enum weight_format)f, shapes[i].rows, shapes[i].cols, n, true, shapes[i].splits);
}

/* Products added to the stream, by ranges of columns; twice, so that what stood there counts. */
static void test_step_linear__what_is_added_to_the_stream(void **state)
{
    (void)state;
    need_gpu();
    static const struct { enum weight_format f; int rows, cols; } shapes[] = {
        {WEIGHT_INT4, 3072, 8192}, {WEIGHT_FP8, 2048, 4096}, {WEIGHT_DENSE, 264, 1024}, {WEIGHT_INT4, 2048, 4096}, {WEIGHT_DENSE, 3, 128},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t rows = (size_t)shapes[i].rows, cols = (size_t)shapes[i].cols;
        struct weight w = make(shapes[i].f, shapes[i].rows, shapes[i].cols), p = packed(&w, NULL);
        float *x = normals(STEP_ROWS * cols, 1), *start = normals(STEP_ROWS * rows, 1), *want = host(STEP_ROWS * rows * 4), *dx = device(x, STEP_ROWS * cols * 4);
        int64_t *stream = host(STEP_ROWS * rows * 8), *all = NULL;
        product(want, x, &w, STEP_ROWS);
        for (size_t k = 0; k < STEP_ROWS * rows; k++) {
            stream[k] = stream_from_float(start[k]);
            want[k] = start[k] + 2 * want[k];
        }
        for (int n = STEP_ROWS; n >= 1; n--) {
            int64_t *to = device(stream, (size_t)n * rows * 8);
            float *got = host((size_t)n * rows * 4);
            for (int again = 0; again < 2; again++)
                STEP(cuda, step_linear, .part = {{.w = p, .stream = to, .y_row = rows, .write = STEP_ADD}}, .n_parts = 1, .in = {{.x = dx}}, .n_rows = n,
                     .splits = step_out_splits(shapes[i].cols), .eps = eps);
            int64_t *exact = fetch(to, (size_t)n * rows * 8);
            for (size_t k = 0; k < (size_t)n * rows; k++)
                got[k] = stream_to_float(exact[k]);
            compare("the stream", got, want, (size_t)n * rows, tolerance);
            all = all ? all : exact;
            assert_memory_equal(exact, all, (size_t)n * rows * 8);
        }
    }
}

/* What a product cannot add to the stream spoils that number for good, and nothing else. */
static void test_step_linear__nothing_hides_a_product_that_was_no_number(void **state)
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
            STEP(cuda, step_linear, .part = {{.w = p, .stream = to, .y_row = (size_t)H, .write = STEP_ADD}}, .n_parts = 1, .in = {{.x = k ? more : dadd}}, .n_rows = n,
                 .splits = 1, .eps = eps);
        const int64_t *got = fetch(to, all * 8);
        assert_true(isnan(stream_to_float(got[3])));
        for (int i = 0; i < H; i++) {
            assert_true(!isfinite(bad[b]) || i == 3 || isfinite(stream_to_float(got[i])));
            assert_true(isfinite(stream_to_float(got[H + i])));
        }
        STEP(cuda, step_linear, .part = {{.w = pw, .y = y, .y_row = 64}}, .n_parts = 1, .in = {{.stream = to, .norm = norm}}, .n_rows = n, .eps = eps);
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

static void test_step_linear__a_row_has_the_same_bits_in_any_company(void **state)
{
    (void)state;
    need_gpu();
    /* large matrices have code of their own */
    static const struct { enum weight_format f; int rows; } matrices[] = {
        {WEIGHT_DENSE, 4112}, {WEIGHT_INT4, 4112}, {WEIGHT_FP8, 4112}, {WEIGHT_INT8, 4112}, {WEIGHT_INT4, 12304},
    };
    const int cols = 3072;
    for (size_t m = 0; m < sizeof matrices / sizeof *matrices; m++) {
        const enum weight_format f = matrices[m].f;
        const int rows = matrices[m].rows;
        struct weight w = make(f, rows, cols), p = packed(&w, NULL);
        struct input in = make_input(STEP_ROWS, cols, true);
        float *all = NULL;
        for (int n = STEP_ROWS; n >= 1; n--) {
            float *y = device(NULL, (size_t)n * (size_t)rows * 4), *max = device(NULL, (size_t)n * (size_t)step_maxima(rows) * 4);
            for (int again = 0; again < 2; again++)
                STEP(cuda, step_linear, .part = {{.w = p, .y = y, .y_row = (size_t)rows, .write = f == WEIGHT_INT8 ? STEP_LOGITS : STEP_PLAIN}},
                     .n_parts = 1, .in = {{.stream = in.dstream, .norm = in.dnorm}}, .tile_max = max, .n_ids = rows, .n_rows = n, .eps = eps);
            float *got = fetch(y, (size_t)n * (size_t)rows * 4);
            all = all ? all : got;
            assert_memory_equal(got, all, (size_t)n * (size_t)rows * 4);
        }
    }
}

static void test_step_linear__several_matrices_rings_formats_and_head_norms(void **state)
{
    (void)state;
    need_gpu();
    const int cols = 2048, n = 5, pos_value = 30, rows = 512;
    struct weight a = make(WEIGHT_INT4, 8192, cols), b = make(WEIGHT_INT4, 64, cols), c = make(WEIGHT_FP8, 512, cols);
    struct input in = make_input(n, cols, true);
    float *ssq = normals((size_t)n * (size_t)(cols / 128) * 2, 1), *x = host((size_t)n * (size_t)cols * 4);
    for (int i = 0; i < n * cols / 128 * 2; i++)
        ssq[i] = ssq[i] * ssq[i] * 64;
    for (int i = 0; i < n * cols; i++)
        x[i] = in.x[i] / sqrtf((ssq[i / 128 * 2] + ssq[i / 128 * 2 + 1]) / 128 + eps);
    const int32_t *pos = device(&pos_value, 4);
    float *ya = device(NULL, STEP_RING * 8192 * 4), *yb = device(NULL, (size_t)n * 64 * 4), *yc = device(NULL, (size_t)n * (size_t)rows * 4);
    STEP(cuda, step_linear, .part = {{.w = packed(&a, NULL), .y = ya, .y_row = 8192, .write = STEP_TO_RING}, {.w = packed(&b, NULL), .y = yb, .y_row = 64},
         {.w = packed(&c, NULL), .y = yc, .y_row = (size_t)rows}}, .n_parts = 3, .in = {{.x = in.dx}},
         .ssq = device(ssq, (size_t)n * (size_t)(cols / 128) * 8), .pos = pos, .n_rows = n, .eps = eps);
    float *want = host((size_t)n * 8192 * 4), *got = fetch(ya, STEP_RING * 8192 * 4);
    product(want, x, &a, n);
    for (int t = 0; t < n; t++)
        compare("a ring", got + (pos_value + t) % STEP_RING * 8192, want + t * 8192, 8192, tolerance);
    product(want, x, &b, n);
    compare("a small matrix", fetch(yb, (size_t)n * 64 * 4), want, (size_t)n * 64, tolerance);
    product(want, x, &c, n);
    compare("another format", fetch(yc, (size_t)n * (size_t)rows * 4), want, (size_t)n * (size_t)rows, tolerance);
}

/* Dense matrices beside INT4 ones, large and small. */
static void test_step_linear__formats_together_with_one_normed_input(void **state)
{
    (void)state;
    need_gpu();
    const int cols = 3072, bigs[] = {12304, 320}, smalls[] = {48, 4112};
    const size_t C = (size_t)cols;
    for (int i = 0; i < 4; i++) {
        const int big = bigs[i % 2], small = smalls[i / 2];
        const size_t B = (size_t)big, S = (size_t)small;
        struct weight a = make(WEIGHT_INT4, big, cols), b = make(WEIGHT_DENSE, small, cols), pa = packed(&a, NULL), pb = packed(&b, NULL);
        struct input in = make_input(STEP_ROWS, cols, true);
        float *want = host(STEP_ROWS * B * 4), *want_small = host(STEP_ROWS * S * 4), *all = NULL, *all_small = NULL;
        product(want, in.h, &a, STEP_ROWS);
        product(want_small, in.h, &b, STEP_ROWS);
        for (int n = STEP_ROWS; n >= 1; n--) {
            const size_t rows = (size_t)n;
            float *ya = device(NULL, rows * B * 4), *yb = device(NULL, rows * S * 4), *h = device(NULL, rows * C * 4);
            int64_t *kept = device(NULL, rows * C * 8);
            for (int again = 0; again < 2; again++)
                STEP(cuda, step_linear, .part = {{.w = pa, .y = ya, .y_row = B}, {.w = pb, .y = yb, .y_row = S}}, .n_parts = 2,
                     .in = {{.x = in.dx, .norm = in.dnorm}}, .plus = in.dplus, .stream_out = kept, .h_out = h, .n_rows = n, .splits = 1, .eps = eps);
            float *got = fetch(ya, rows * B * 4), *got_small = fetch(yb, rows * S * 4);
            compare("the INT4 matrix", got, want, rows * B, tolerance);
            compare("the dense matrix", got_small, want_small, rows * S, tolerance);
            assert_memory_equal(fetch(kept, rows * C * 8), in.stream, rows * C * 8);
            compare("the normed input", fetch(h, rows * C * 4), in.h, rows * C, 1e-6);
            all = all ? all : got;
            all_small = all_small ? all_small : got_small;
            assert_memory_equal(got, all, rows * B * 4);
            assert_memory_equal(got_small, all_small, rows * S * 4);
        }
    }
}

static void test_step_linear__two_inputs_tables_and_a_chosen_row(void **state)
{
    (void)state;
    need_gpu();
    const int H = 3072, n = 3, vocab = 50, rows = H;
    struct weight w = make(WEIGHT_DENSE, rows, 2 * H);
    struct input in = make_input(n, H, false), second = make_input(n, H, false);
    uint16_t *table = host((size_t)vocab * (size_t)H * 2);
    int32_t ids[3] = {7, 49, 0}, row = 2;
    float *cat = host((size_t)n * 2 * (size_t)H * 4), *want = host((size_t)n * (size_t)rows * 4);
    for (int i = 0; i < vocab * H; i++)
        table[i] = f32_bf16(rand_normal());
    for (int t = 0; t < n; t++) {
        float *u = host((size_t)H * 4);
        floats_f32(u, table + (size_t)ids[t] * (size_t)H, DT_BF16, (size_t)H);
        RUN(cpu, rmsnorm, .y = cat + (size_t)t * 2 * (size_t)H, .x = u, .w = in.norm, .n_rows = 1, .dim = H, .eps = eps);
        memcpy(cat + (size_t)t * 2 * (size_t)H + H, second.h + (size_t)t * (size_t)H, (size_t)H * 4);
    }
    product(want, cat, &w, n);
    size_t split = (size_t)STEP_ROWS * (size_t)rows;
    float *y = device(NULL, 2 * split * 4);
    STEP(cuda, step_linear, .part = {{.w = packed(&w, NULL), .y = y, .y_row = (size_t)rows}}, .n_parts = 1,
         .in = {{.x = device(table, (size_t)vocab * (size_t)H * 2), .ids = device(ids, sizeof ids), .norm = in.dnorm}, {.x = second.dx, .norm = second.dnorm}},
         .y_split = split, .n_rows = n, .splits = 2, .eps = eps);
    float *got = fetch(y, 2 * split * 4);
    for (int i = 0; i < n * rows; i++)
        got[i] += got[split + (size_t)i];
    compare("two inputs", got, want, (size_t)n * (size_t)rows, tolerance);

    struct weight v = make(WEIGHT_INT8, 1024, H);
    product(want, second.h, &v, n);
    float *z = device(NULL, 1024 * 4), *max = device(NULL, 64 * 4), *h = device(NULL, (size_t)H * 4);
    STEP(cuda, step_linear, .part = {{.w = packed(&v, NULL), .y = z, .y_row = 1024, .write = STEP_LOGITS}}, .n_parts = 1, .in = {{.x = second.dx, .norm = second.dnorm}},
         .row = device(&row, 4), .n_rows = 1, .eps = eps, .tile_max = max, .n_ids = 1000, .h_out = h);
    got = fetch(z, 1024 * 4);
    compare("a chosen row", got, want + row * 1024, 1000, tolerance);
    compare("its normed input", fetch(h, (size_t)H * 4), second.h + row * H, (size_t)H, 1e-6);
    float *m = fetch(max, 64 * 4);
    for (int i = 0; i < 1024; i++) {
        assert_true(i < 1000 || got[i] == -INFINITY);
        assert_true(got[i] <= m[i / 16]);
    }
}

static void test_step_linear__penalties_as_the_sampler_has_them(void **state)
{
    (void)state;
    need_gpu();
    const int V = 4096, H = 256, n = 4;
    struct weight w = make(WEIGHT_INT8, V, H), p = packed(&w, NULL);
    struct input in = make_input(n, H, false);
    struct step_sampling s = {.n_ids = 4001, .presence_penalty = 1.5f, .repetition_penalty = 1.25f, .biased = 1};
    uint8_t *marks = host((size_t)V);
    float *bias = normals((size_t)V, 1), *raw = device(NULL, (size_t)(n * V) * 4), *y = device(NULL, (size_t)(n * V) * 4), *max = device(NULL, (size_t)(n * V / 16) * 4);
    int32_t drafts[3] = {17, 18, 4000};
    for (int i = 0; i < V; i++)
        marks[i] = rand_u64() % 5 == 0 ? 1 : rand_u64() % 5 == 0 ? 3 : 0;
    STEP(cuda, step_linear, .part = {{.w = p, .y = raw, .y_row = (size_t)V, .write = STEP_LOGITS}}, .n_parts = 1, .in = {{.x = in.dx, .norm = in.dnorm}}, .n_rows = n,
         .eps = eps, .tile_max = device(NULL, (size_t)(n * V / 16) * 4), .n_ids = V);
    STEP(cuda, step_linear, .part = {{.w = p, .y = y, .y_row = (size_t)V, .write = STEP_LOGITS}}, .n_parts = 1, .in = {{.x = in.dx, .norm = in.dnorm}}, .n_rows = n,
         .eps = eps, .tile_max = max, .sampling = device(&s, sizeof s), .marks = device(marks, (size_t)V), .bias = device(bias, (size_t)V * 4),
         .drafts = device(drafts, sizeof drafts));
    float *r = fetch(raw, (size_t)(n * V) * 4), *got = fetch(y, (size_t)(n * V) * 4), *m = fetch(max, (size_t)(n * V / 16) * 4);
    for (int t = 0; t < n; t++)
        for (int i = 0; i < V; i++) {
            int mark = marks[i];
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
static void test_step_linear__logits_of_odd_vocabularies(void **state)
{
    (void)state;
    need_gpu();
    static const int vocabs[] = {1000, 1500, 17};
    const int H = 384, n = 3;
    for (size_t v = 0; v < sizeof vocabs / sizeof *vocabs; v++)
        for (int f = WEIGHT_DENSE; f <= WEIGHT_INT8; f += WEIGHT_INT8 - WEIGHT_DENSE) {
            const int V = vocabs[v], tiles = step_maxima(V);
            struct weight w = make((enum weight_format)f, V, H);
            struct input in = make_input(n, H, false);
            float *y = device(NULL, (size_t)(n * V) * 4), *max = device(NULL, (size_t)(n * tiles) * 4), *want = host((size_t)(n * V) * 4);
            ((float *)in.x)[H + 5] = NAN;
            STEP(cuda, step_linear, .part = {{.w = packed(&w, NULL), .y = y, .y_row = (size_t)V, .write = STEP_LOGITS}}, .n_parts = 1,
                 .in = {{.x = device(in.x, (size_t)(n * H) * 4), .norm = in.dnorm}}, .n_rows = n, .eps = eps, .tile_max = max, .n_ids = V);
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
    struct weight pair, down, shared_pair, shared_down;
    size_t pair_step, down_step;
};
static void make_moe(struct moe *m)
{
    size_t E = (size_t)m->n_experts;
    m->pair_step = pack_bytes(m->routed, 2 * m->inter, m->hidden);
    m->down_step = pack_bytes(m->routed, m->hidden, m->inter);
    char *pairs = host(E * m->pair_step), *downs = host(E * m->down_step);
    m->experts = host(E * sizeof *m->experts);
    for (size_t e = 0; e < E; e++) {
        struct expert_weights *x = &m->experts[e];
        *x = (struct expert_weights){make(m->routed, m->inter, m->hidden), make(m->routed, m->inter, m->hidden), make(m->routed, m->hidden, m->inter)};
        assert_true(pack_pair(&x->gate, &x->up, pairs + e * m->pair_step) && pack_matrix(&x->down, downs + e * m->down_step));
    }
    m->one = (struct expert_weights){make(m->shared, m->inter, m->hidden), make(m->shared, m->inter, m->hidden), make(m->shared, m->hidden, m->inter)};
    m->pair = packed_view(m->routed, 2 * m->inter, m->hidden, device(pairs, E * m->pair_step));
    m->down = packed_view(m->routed, m->hidden, m->inter, device(downs, E * m->down_step));
    m->shared_pair = packed(&m->one.gate, &m->one.up);
    m->shared_down = packed(&m->one.down, NULL);
}

/* Runs it on the GPU; what it adds to a stream of zeros [n, hidden] on the host. */
static float *run_moe(const struct moe *m, const float *x, const float *logits, const float *gate, const float *ssq, int n, int n_logits, int n_valid,
                      struct step_route *route)
{
    size_t H = (size_t)m->hidden, rows = (size_t)n, step = rows * (size_t)m->n_experts;
    size_t space = step_experts_space(n, m->n_experts, m->top_k, m->inter);
    float *h = device(memset(host(space * 4), STEP_MISSING & 255, space * 4), space * 4);
    struct step_route *r = device(NULL, sizeof *r);
    int64_t *stream = device(host(rows * H * 8), rows * H * 8);
    const struct step_choice choice = {.rms = {ssq ? device(ssq, 2 * STEP_ROWS * 4) : NULL, 2, m->hidden, eps},
                                       .logits = device(logits, (size_t)n_logits * step * 4), .n_logits = n_logits, .logit_step = step,
                                       .n_valid = device(&n_valid, 4), .overlap = -1, .n_experts = m->n_experts, .top_k = m->top_k};
    STEP(cuda, step_experts, .stream = stream, .h = h, .route = r, .choice = choice, .x = device(x, rows * H * 4), .pair = m->pair, .down = m->down,
         .pair_stride = m->pair_step, .down_stride = m->down_step, .shared_pair = m->shared_pair, .shared_down = m->shared_down,
         .shared_gate = device(gate, (size_t)n_logits * rows * 4), .n_gates = n_logits, .gate_step = rows, .n_rows = n, .hidden = m->hidden,
         .inter = m->inter);
    const int64_t *exact = fetch(stream, rows * H * 8);
    float *got = host(rows * H * 4);
    for (size_t i = 0; i < rows * H; i++)
        got[i] = stream_to_float(exact[i]);
    memcpy(route, fetch(r, sizeof *r), sizeof *route);
    return got;
}

static void check_moe(struct moe *m, int n, int n_valid, bool left)
{
    enum { PARTS = 3 };
    char what[128];
    size_t H = (size_t)m->hidden, rows = (size_t)n, E = (size_t)m->n_experts, slots = rows * (size_t)(m->top_k + 1);
    float *x = normals(rows * H, 1), *parts = normals(PARTS * rows * E, 1), *logits = host(rows * E * 4), *gates = normals(PARTS * rows, 1), *gate = host(rows * 4),
          *weights = host(rows * (size_t)m->top_k * 4), *sh = host(slots * (size_t)m->inter * 4), *sd = host(slots * H * 4), *want = host(rows * H * 4);
    int32_t *experts = host(rows * (size_t)m->top_k * 4), *start = host((E + 2) * 4), *list = host(slots * 4);
    struct step_route route;
    for (size_t i = 0; i < rows * E; i++)
        for (int p = 0; p < PARTS; p++)
            logits[i] += parts[(size_t)p * rows * E + i];
    for (size_t i = 0; i < rows; i++)
        for (int p = 0; p < PARTS; p++)
            gate[i] += gates[(size_t)p * rows + i];
    /* With ssq what the GPU gets are rows, logits and gates before a division by the rms that it must make up for. */
    float *raw_x = host(rows * H * 4), *raw_parts = host(PARTS * rows * E * 4), *raw_gates = host(PARTS * rows * 4), ssq[2 * STEP_ROWS] = {0};
    for (size_t t = 0; t < rows; t++) {
        ssq[t] = (float)m->hidden * (1.0f + (float)t);
        ssq[STEP_ROWS + t] = 0.5f * (float)m->hidden;
        const float up = left ? sqrtf(1.5f + (float)t + eps) : 1;
        for (size_t i = 0; i < H; i++)
            raw_x[t * H + i] = x[t * H + i] * up;
        for (size_t p = 0; p < PARTS; p++)
            for (size_t e = 0; e < E; e++)
                raw_parts[(p * rows + t) * E + e] = parts[(p * rows + t) * E + e] * up;
        for (size_t p = 0; p < PARTS; p++)
            raw_gates[p * rows + t] = gates[p * rows + t] * up;
    }
    RUN(cpu, router, .experts = experts, .weights = weights, .logits = logits, .n_tokens = n, .n_experts = m->n_experts, .top_k = m->top_k);
    for (int t = n_valid; t < n; t++)
        for (int k = 0; k < m->top_k; k++)
            weights[t * m->top_k + k] = 0;
    RUN(cpu, moe_group, .start = start, .slots = list, .experts = experts, .n_tokens = n, .n_experts = m->n_experts, .top_k = m->top_k);
    RUN(cpu, experts_up, .h = sh, .x = x, .experts = m->experts, .shared = &m->one, .start = start, .slots = list, .n_tokens = n,
        .n_experts = m->n_experts, .top_k = m->top_k, .inter_max = m->inter);
    RUN(cpu, experts_down, .d = sd, .h = sh, .experts = m->experts, .shared = &m->one, .start = start, .slots = list, .n_tokens = n,
        .n_experts = m->n_experts, .top_k = m->top_k, .inter_max = m->inter);
    RUN(cpu, moe_combine, .x = want, .d = sd, .weights = weights, .shared_gate = gate, .n_tokens = n, .top_k = m->top_k, .hidden = m->hidden);

    float *got = run_moe(m, raw_x, raw_parts, raw_gates, left ? ssq : NULL, n, PARTS, n_valid, &route);
    int distinct = 0;
    for (int e = 0; e < m->n_experts; e++) {
        bool used = false;
        float w[STEP_ROWS] = {0};
        for (int i = 0; i < n_valid * m->top_k; i++)
            if (experts[i] == e) {
                used = true;
                w[i / m->top_k] = weights[i];
            }
        if (!used)
            continue;
        assert_true(distinct < route.n);
        assert_int_equal(route.expert[distinct], e);
        for (int t = 0; t < n; t++)
            assert_true(fabsf(route.weight[distinct][t] - w[t]) <= 4e-6f);
        distinct++;
    }
    assert_int_equal(route.n, distinct);
    snprintf(what, sizeof what, "experts %s and %s, hidden %d, inter %d, %d rows", names[m->routed], names[m->shared], m->hidden, m->inter, n);
    compare(what, got, want, rows * H, 2 * tolerance);          /* one product after the other */

    /* alone, a row must come out with the same bits */
    for (int t = 0; t < n_valid; t += 3) {
        float *one = host(PARTS * E * 4), one_gate[PARTS], one_ssq[2 * STEP_ROWS] = {ssq[t]};
        one_ssq[STEP_ROWS] = ssq[STEP_ROWS + t];
        for (int p = 0; p < PARTS; p++) {
            memcpy(one + (size_t)p * E, raw_parts + ((size_t)p * rows + (size_t)t) * E, E * 4);
            one_gate[p] = raw_gates[(size_t)p * rows + (size_t)t];
        }
        float *alone = run_moe(m, raw_x + (size_t)t * H, one, one_gate, left ? one_ssq : NULL, 1, PARTS, 1, &route);
        assert_memory_equal(alone, got + (size_t)t * H, H * 4);
    }
}

static void test_step_experts__full_width(void **state)
{
    (void)state;
    need_gpu();
    struct moe m = {.hidden = 3072, .inter = 1024, .n_experts = 12, .top_k = 8, .routed = WEIGHT_INT4, .shared = WEIGHT_FP8};
    make_moe(&m);
    for (int n = 1; n <= STEP_ROWS; n += 1 + n / 3)
        check_moe(&m, n, n, n != 3);
    check_moe(&m, 4, 2, true);
    check_moe(&m, 3, 0, false);
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
            check_moe(&list[i], n, n, n % 2);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, end_test)
    const struct CMUnitTest tests[] = {
        TEST(test_step_linear__every_format_and_row_count_as_defined),
        TEST(test_step_linear__awkward_shapes_and_ranges_of_columns),
        TEST(test_step_linear__what_is_added_to_the_stream),
        TEST(test_step_linear__nothing_hides_a_product_that_was_no_number),
        TEST(test_step_linear__a_row_has_the_same_bits_in_any_company),
        TEST(test_step_linear__several_matrices_rings_formats_and_head_norms),
        TEST(test_step_linear__formats_together_with_one_normed_input),
        TEST(test_step_linear__two_inputs_tables_and_a_chosen_row),
        TEST(test_step_linear__penalties_as_the_sampler_has_them),
        TEST(test_step_linear__logits_of_odd_vocabularies),
        TEST(test_step_experts__full_width),
        TEST(test_step_experts__other_widths_and_formats),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
