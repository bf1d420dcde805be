/* The step operations' definitions on a CPU against the plain operations, at shapes of the models and at awkward ones; and that a row's bits
 * do not depend on how many rows share the step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/kernels/step_host.h"

static void product(float *y, const float *x, const struct weight *w, int n)
{
    const struct linear_args a = {.y = y, .x = x, .w = *w, .n_tokens = n};
    switch (w->format) {
    case WEIGHT_DENSE: RUN(cpu, linear_dense, .l = a); break;
    case WEIGHT_INT4:  RUN(cpu, linear_int4, .l = a); break;
    case WEIGHT_FP8:   RUN(cpu, linear_fp8, .l = a); break;
    case WEIGHT_INT8:
    case WEIGHT_PLANES: RUN(cpu, linear_int8, .l = a); break;
    case WEIGHT_NONE:  fail(); break;
    }
}

/* Relative error of the whole. */
static void expect_near(const char *what, const float *got, const float *want, size_t n, double limit)
{
    double diff = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)got[i] - (double)want[i];
        diff += d * d;
        norm += (double)want[i] * (double)want[i];
    }
    const double rel = sqrt(diff / (norm > 0 ? norm : 1));
    if (!(rel <= limit))
        fail_msg("%s: relative error %.3g, expected at most %.3g", what, rel, limit);
}

/* Rows of a stream, as numbers, and normed. */
struct rows {
    int n, dim;
    int64_t *stream;
    float   *u, *norm, *h;
};

static struct rows make_rows(int n, int dim)
{
    const size_t all = (size_t)n * (size_t)dim;
    struct rows r = {.n = n, .dim = dim, .stream = host(all * 8), .u = normals(all, 2), .norm = normals((size_t)dim, 0.3f), .h = host(all * 4)};
    for (size_t i = 0; i < all; i++) {
        r.stream[i] = stream_from_float(r.u[i]);
        r.u[i] = stream_to_float(r.stream[i]);
    }
    RUN(cpu, rmsnorm, .y = r.h, .x = r.u, .w = r.norm, .n_rows = n, .dim = dim, .eps = eps);
    return r;
}

/* ---- products ---- */

static void test_step_embed__rows_of_the_table_join_the_stream(void **state)
{
    (void)state;
    const int hidden = 24, n = 5;
    const int32_t ids[] = {0, 3, 9, 9, 1};
    struct weight table = make(WEIGHT_DENSE, 10, hidden);
    int64_t *stream = host((size_t)(n * hidden) * 8);
    STEP(cpu, step_embed, .stream = stream, .ids = ids, .table = table, .n_rows = n);
    for (int t = 0; t < n; t++)
        for (int i = 0; i < hidden; i++)
            assert_int_equal(stream[t * hidden + i], stream_from_float(bf16_f32(((const uint16_t *)table.data)[ids[t] * hidden + i])));
}

static void test_step_norm__is_rmsnorm_of_the_stream(void **state)
{
    (void)state;
    struct rows r = make_rows(3, 200);
    float *h = host(600 * 4);
    STEP(cpu, step_norm, .h = h, .stream = r.stream, .norm = r.norm, .n_rows = 3, .hidden = 200, .eps = eps);
    assert_memory_equal(h, r.h, 600 * 4);
}

static const struct { enum weight_format f; int rows, cols; } shapes[] = {
    {WEIGHT_DENSE, 257, 384}, {WEIGHT_DENSE, 5, 72}, {WEIGHT_DENSE, 1, 128}, {WEIGHT_INT4, 64, 128}, {WEIGHT_INT4, 2056, 256}, {WEIGHT_FP8, 130, 384},
    {WEIGHT_INT8, 100, 200},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void test_step_project__is_norm_and_product_for_any_number_of_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SHAPES; i++) {
        const size_t rows = (size_t)shapes[i].rows;
        struct weight w = make(shapes[i].f, shapes[i].rows, shapes[i].cols);
        struct rows r = make_rows(STEP_ROWS, shapes[i].cols);
        float *want = host(STEP_ROWS * rows * 4), *y = host(STEP_ROWS * rows * 4);
        product(want, r.h, &w, STEP_ROWS);
        for (int n = 1; n <= STEP_ROWS; n++) {
            STEP(cpu, step_project, .part = {{.w = w, .y = y}}, .n_parts = 1, .stream = r.stream, .norm = r.norm, .n_rows = n, .eps = eps);
            same_bits("a product", y, want, (size_t)n * rows * 4);
        }
    }
}

static void test_step_project__several_matrices_fill_rings_by_position(void **state)
{
    (void)state;
    const int n = 6, A = 40, B = 16;
    struct weight a = make(WEIGHT_DENSE, A, 256), b = make(WEIGHT_INT4, B, 256);
    struct rows r = make_rows(n, 256);
    float *wa = host((size_t)(n * A) * 4), *wb = host((size_t)(n * B) * 4), *y = host((size_t)(n * B) * 4);
    product(wa, r.h, &a, n);
    product(wb, r.h, &b, n);
    for (int32_t pos = 0; pos < 70; pos += 5) {
        float *ring = host((size_t)(STEP_RING * A) * 4);
        STEP(cpu, step_project, .part = {{.w = a, .y = ring, .ring = true}, {.w = b, .y = y}}, .n_parts = 2, .stream = r.stream, .norm = r.norm,
             .pos = &pos, .n_rows = n, .eps = eps);
        same_bits("rows beside a ring", y, wb, (size_t)(n * B) * 4);
        for (int p = 0; p < STEP_RING; p++) {
            const int t = (p - pos % STEP_RING + STEP_RING) % STEP_RING;
            for (int i = 0; i < A; i++)
                assert_true(ring[p * A + i] == (t < n ? wa[t * A + i] : 0));
        }
    }
}

static void test_step_project__halves_become_the_stream(void **state)
{
    (void)state;
    const int n = 3, dim = 136;
    const size_t all = (size_t)n * (size_t)dim;
    const int32_t two = 2;
    struct weight w = make(WEIGHT_DENSE, 50, dim);
    float *halves = normals(2 * all, 1), *norm = normals((size_t)dim, 0.3f), *sum = host(all * 4), *h = host(all * 4), *want = host(150 * 4),
        *y = host(150 * 4);
    int64_t *stream = host(all * 8);
    for (size_t i = 0; i < all; i++)
        sum[i] = halves[i] + halves[all + i];
    RUN(cpu, rmsnorm, .y = h, .x = sum, .w = norm, .n_rows = n, .dim = dim, .eps = eps);
    product(want, h, &w, n);
    STEP(cpu, step_project, .part = {{.w = w, .y = y}}, .n_parts = 1, .halves = halves, .stream_out = stream, .norm = norm, .n_valid = &two,
         .n_rows = n, .eps = eps);
    same_bits("halves", y, want, 100 * 4);
    for (size_t i = 0; i < all; i++)    /* the third row is of no use to anybody */
        assert_int_equal(stream[i], i < 2 * (size_t)dim ? stream_from_float(sum[i]) : 0);
    assert_true(y[100] == 0);
}

static void test_step_add__adds_products_of_heads_to_what_stands_there(void **state)
{
    (void)state;
    const int heads = 3, dim = 40, cols = heads * dim, rows = 70;
    struct weight w = make(WEIGHT_DENSE, rows, cols);
    for (int with = 0; with < 2; with++)
        for (int n = 1; n <= STEP_ROWS; n += 3) {
            float *x = normals((size_t)(n * cols), 1), *ssq = normals((size_t)(n * heads * 2), 4), *scaled = host((size_t)(n * cols) * 4),
                *want = host((size_t)(n * rows) * 4);
            struct rows r = make_rows(n, rows);
            for (int i = 0; i < n * heads * 2; i++)
                ssq[i] *= ssq[i];
            for (int i = 0; i < n * cols; i++)
                scaled[i] = with ? x[i] * (1 / sqrtf((ssq[i / dim * 2] + ssq[i / dim * 2 + 1]) / (float)dim + eps)) : x[i];
            product(want, scaled, &w, n);
            STEP(cpu, step_add, .stream = r.stream, .w = w, .x = x, .ssq = with ? ssq : NULL, .head_dim = dim, .n_rows = n, .eps = eps);
            for (int i = 0; i < n * rows; i++)
                assert_int_equal(r.stream[i], stream_from_float(r.u[i]) + stream_from_float(want[i]));
        }
}

static void test_step_add__a_product_that_is_no_number_stays_one(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY, 1e30f, -2e6f};
    struct weight one = {.format = WEIGHT_DENSE, .dtype = DT_F32, .rows = 2, .cols = 2, .data = (const float[]){1, 0, 0, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t stream[2] = {0};
        STEP(cpu, step_add, .stream = stream, .w = one, .x = (const float[]){1, bad[i]}, .n_rows = 1, .eps = eps);
        for (int k = 0; k < 50; k++)
            STEP(cpu, step_add, .stream = stream, .w = one, .x = (const float[]){-1000, -900000}, .n_rows = 1, .eps = eps);
        assert_true(isnan(stream_to_float(stream[1])));
        assert_true(!isfinite(bad[i]) || stream_to_float(stream[0]) == -49999);
    }
}

static void test_step_router__with_the_rms_made_up_for_is_norm_and_product(void **state)
{
    (void)state;
    static const int sizes[][2] = {{12, 72}, {256, 2048}, {5, 3072}};
    for (size_t s = 0; s < 3; s++) {
        const int n = 3, E = sizes[s][0], H = sizes[s][1], parts = step_router_parts(H);
        const size_t step = (size_t)(n * (E + 1));
        struct weight router = make(WEIGHT_DENSE, E, H), gate = make(WEIGHT_DENSE, 1, H);
        struct rows r = make_rows(n, H);
        float *want = host((size_t)(n * E) * 4), *want_gate = host((size_t)n * 4), *h = host((size_t)(n * H) * 4);
        float *logits = normals((size_t)parts * step, 1), *ssq = normals((size_t)(parts * STEP_ROWS), 1);
        product(want, r.h, &router, n);
        product(want_gate, r.h, &gate, n);
        STEP(cpu, step_router, .h = h, .logits = logits, .gate = logits + n * E, .part_step = step, .ssq = ssq, .stream = r.stream, .norm = r.norm,
             .router = router, .shared_gate = gate, .n_rows = n);
        for (int p = 1; p < parts; p++) {
            for (size_t i = 0; i < step; i++)
                logits[i] += logits[(size_t)p * step + i];
            for (int t = 0; t < n; t++)
                ssq[t] += ssq[p * STEP_ROWS + t];
        }
        for (int t = 0; t < n; t++) {
            const float by = 1 / sqrtf(ssq[t] / (float)H + eps);
            for (int i = 0; i < E; i++)
                logits[t * E + i] *= by;
            logits[n * E + t] *= by;
            for (int i = 0; i < H; i++)
                h[t * H + i] *= by;
        }
        expect_near("logits", logits, want, (size_t)(n * E), 1e-6);
        expect_near("the shared gate", logits + n * E, want_gate, (size_t)n, 1e-5);
        expect_near("rows", h, r.h, (size_t)(n * H), 1e-6);
    }
}

static float penalised(float l, int seen, const struct step_sampling *s, float bias)
{
    l += s->biased ? bias : 0;
    if (seen && s->repetition_penalty != 1)
        l = l > 0 ? l / s->repetition_penalty : l * s->repetition_penalty;
    return seen & STEP_IN_ANSWER ? l - s->presence_penalty : l;
}

static void test_step_logits__have_bias_penalties_and_maxima(void **state)
{
    (void)state;
    const struct step_sampling hows[] = {
        {.repetition_penalty = 1, .n_ids = 1 << 20}, {.repetition_penalty = 1.25f, .presence_penalty = 1.5f, .biased = 1, .n_ids = 90},
        {.repetition_penalty = 1, .biased = 1, .n_ids = 65},
        {.repetition_penalty = 1, .presence_penalty = 2, .n_ids = 100},
    };
    const int n = 4, V = 100, H = 48, tiles = step_maxima(V);
    const int32_t drafts[] = {17, 18, 63};
    struct weight w = make(WEIGHT_INT8, V, H);
    for (size_t k = 0; k < sizeof hows / sizeof *hows; k++) {
        struct rows r = make_rows(n, H);
        float *want = host((size_t)(n * V) * 4), *y = host((size_t)(n * V) * 4), *max = host((size_t)(n * tiles) * 4), *bias = normals((size_t)V, 1),
            *h = host((size_t)(n * H) * 4);
        uint8_t *seen = host((size_t)V);
        for (int i = 0; i < V; i++)
            seen[i] = i % 3 ? 0 : i % 2 ? STEP_IN_TEXT : STEP_IN_TEXT | STEP_IN_ANSWER;
        product(want, r.h, &w, n);
        STEP(cpu, step_logits, .logits = y, .tile_max = max, .w = w, .stream = r.stream, .norm = r.norm, .hidden_out = h, .sampling = &hows[k],
             .seen = seen, .bias = bias, .drafts = drafts, .n_rows = n, .eps = eps);
        same_bits("the normed rows", h, r.h, (size_t)(n * H) * 4);
        for (int t = 0; t < n; t++)
            for (int i = 0; i < V; i++) {
                int s = seen[i];
                for (int d = 0; d < t; d++)
                    s = drafts[d] == i ? 3 : s;
                const float l = i < hows[k].n_ids ? penalised(want[t * V + i], s, &hows[k], bias[i]) : -INFINITY;
                assert_true(y[t * V + i] == l);
                assert_true(max[t * tiles + i / 16] >= l);
            }
        for (int t = 0; t < n * tiles; t++) {
            float best = -INFINITY;
            for (int i = t % tiles * 16; i < t % tiles * 16 + 16 && i < V; i++)
                best = fmaxf(best, y[t / tiles * V + i]);
            assert_true(max[t] == best);
        }
    }
}

static void test_step_logits__of_a_chosen_row_a_hidden_state_and_a_nan(void **state)
{
    (void)state;
    const int V = 40, H = 48, tiles = step_maxima(V);
    const int32_t row = 2;
    struct weight w = make(WEIGHT_DENSE, V, H);
    struct rows r = make_rows(3, H);
    float *want = host((size_t)(3 * V) * 4), *y = host((size_t)V * 4), *max = host((size_t)tiles * 4);
    product(want, r.h, &w, 3);
    STEP(cpu, step_logits, .logits = y, .tile_max = max, .w = w, .stream = r.stream, .norm = r.norm, .row = &row, .n_ids = 33, .n_rows = 1,
         .eps = eps);
    same_bits("a chosen row", y, want + 2 * V, 33 * 4);
    assert_true(y[33] == -INFINITY && max[2] == y[32] && max[3] == -INFINITY);
    STEP(cpu, step_logits, .logits = y, .tile_max = max, .w = w, .hidden = r.h, .n_ids = V, .n_rows = 1, .eps = eps);
    same_bits("a hidden state", y, want, (size_t)V * 4);
    r.stream[5] = STREAM_POISON;
    STEP(cpu, step_logits, .logits = y, .tile_max = max, .w = w, .stream = r.stream, .norm = r.norm, .n_ids = V, .n_rows = 1, .eps = eps);
    assert_true(isnan(y[0]) && max[0] == INFINITY && max[2] == INFINITY && max[3] == -INFINITY);
}

static void test_step_mtp_join__is_the_product_of_both_inputs(void **state)
{
    (void)state;
    const int H = 80, n = 3;
    const size_t all = (size_t)n * (size_t)H;
    const int32_t ids[] = {4, 0, 7};
    struct weight w = make(WEIGHT_DENSE, H, 2 * H), table = make(WEIGHT_DENSE, 8, H);
    float *ne = normals((size_t)H, 0.3f), *nh = normals((size_t)H, 0.3f), *hidden = normals(all, 1), *both = host(2 * all * 4), *want = host(all * 4),
        *halves = normals(2 * all, 1);
    for (int t = 0; t < n; t++) {
        float row[80];
        floats_f32(row, (const uint16_t *)table.data + ids[t] * H, DT_BF16, (size_t)H);
        RUN(cpu, rmsnorm, .y = both + 2 * t * H, .x = row, .w = ne, .n_rows = 1, .dim = H, .eps = eps);
        RUN(cpu, rmsnorm, .y = both + (2 * t + 1) * H, .x = hidden + t * H, .w = nh, .n_rows = 1, .dim = H, .eps = eps);
    }
    product(want, both, &w, n);
    STEP(cpu, step_mtp_join, .halves = halves, .w = w, .table = table, .ids = ids, .norm_embedding = ne, .hidden = hidden, .norm_hidden = nh,
         .n_rows = n, .eps = eps);
    for (size_t i = 0; i < all; i++)
        assert_true(halves[i] + halves[all + i] == want[i]);
}

/* ---- mixers ---- */

struct delta {
    int    hk, hv, dk, dv, taps;
    size_t width, state;
    float *raw, *a, *b, *z, *conv, *a_log, *dt_bias, *norm, *first;     /* raw, a, b, z: by position; first: the state before position 0 */
};
enum { POSITIONS = 80 };

static struct delta make_delta(int hk, int hv, int dk, int dv, int taps)
{
    struct delta d = {.hk = hk, .hv = hv, .dk = dk, .dv = dv, .taps = taps, .width = (size_t)(2 * hk * dk + hv * dv),
                      .state = (size_t)(hv * dk * dv)};
    d.raw = normals(POSITIONS * d.width, 1);
    d.a = normals((size_t)(POSITIONS * hv), 1);
    d.b = normals((size_t)(POSITIONS * hv), 1);
    d.z = normals((size_t)(POSITIONS * hv * dv), 1);
    d.conv = normals(d.width * (size_t)taps, 0.5f);
    d.a_log = normals((size_t)hv, 1);
    d.dt_bias = normals((size_t)hv, 1);
    d.norm = normals((size_t)dv, 1);
    d.first = normals(d.state, 0.3f);
    return d;
}

/* States and outputs of all positions, one after the other, by the formulas of kernels/deltanet.h; y is divided by the rms. */
static void define_delta(const struct delta *d, int n, float *y, float *states)
{
    const int dk = d->dk, dv = d->dv;
    float *c = host((size_t)n * d->width * 4), *beta = host((size_t)(n * d->hv) * 4), *g = host((size_t)(n * d->hv) * 4);
    float *window = host((size_t)(d->taps - 1) * d->width * 4), *o = host((size_t)(n * d->hv * dv) * 4);
    RUN(cpu, conv, .y = c, .x = d->raw, .w = d->conv, .window = window, .n_tokens = n, .n_channels = (int)d->width, .taps = d->taps);
    RUN(cpu, deltanet_gates, .c = c, .beta = beta, .g = g, .a = d->a, .b = d->b, .a_log = d->a_log, .dt_bias = d->dt_bias, .n_tokens = n,
        .n_k_heads = d->hk, .n_v_heads = d->hv, .dk = dk, .dv = dv);
    for (int t = 0; t < n; t++)
        for (int h = 0; h < d->hv; h++) {
            const float *q = c + (size_t)t * d->width + h / (d->hv / d->hk) * dk, *k = q + d->hk * dk,
                        *v = c + (size_t)t * d->width + 2 * d->hk * dk + h * dv;
            const float *from = (t ? states + (size_t)(t - 1) * d->state : d->first) + h * dk * dv;
            float *to = states + (size_t)t * d->state + h * dk * dv;
            const double keep = exp((double)g[t * d->hv + h]);
            for (int j = 0; j < dv; j++) {
                double p = 0, out = 0;
                for (int i = 0; i < dk; i++)
                    p += (double)k[i] * keep * (double)from[i * dv + j];
                for (int i = 0; i < dk; i++) {
                    to[i * dv + j] = (float)(keep * (double)from[i * dv + j] + (double)k[i] * (double)beta[t * d->hv + h] * ((double)v[j] - p));
                    out += (double)q[i] * (double)to[i * dv + j];
                }
                o[(t * d->hv + h) * dv + j] = (float)out;
            }
        }
    RUN(cpu, rmsnorm_gated, .y = y, .x = o, .z = d->z, .w = d->norm, .n_rows = n * d->hv, .dim = dv, .eps = eps);
}

struct rings { float *raw, *a, *b; };

static void fill_rings(const struct delta *d, struct rings *r, int from, int to)
{
    for (int p = from; p < to; p++) {
        const size_t at = (size_t)(p % STEP_RING), row = (size_t)p, v = (size_t)d->hv;
        memcpy(r->raw + at * d->width, d->raw + row * d->width, d->width * 4);
        memcpy(r->a + at * v, d->a + row * v, v * 4);
        memcpy(r->b + at * v, d->b + row * v, v * 4);
    }
}

/* Steps of 1 to 8 rows, of which some are accepted, from position 0 on. */
static void test_step_delta__steps_with_rejected_rows_are_the_recurrence(void **state)
{
    (void)state;
    static const int cases[][5] = {{2, 4, 128, 128, 4}, {1, 3, 16, 24, 4}, {2, 2, 8, 40, 2}, {1, 1, 64, 32, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct delta d = make_delta(cases[i][0], cases[i][1], cases[i][2], cases[i][3], cases[i][4]);
        const size_t v = (size_t)d.hv, values = v * (size_t)d.dv;
        float *want = host(POSITIONS * values * 4), *states = host(POSITIONS * d.state * 4), *y = host(STEP_ROWS * values * 4),
            *ssq = host(STEP_ROWS * v * 2 * 4);
        struct rings r = {host(STEP_RING * d.width * 4), host(STEP_RING * v * 4), host(STEP_RING * v * 4)};
        float *copies[2] = {host(d.state * 4), host(d.state * 4)};
        struct step_live live = {0};
        define_delta(&d, POSITIONS, want, states);
        memcpy(copies[0], d.first, d.state * 4);
        for (int step = 0; live.pos + STEP_ROWS < POSITIONS; step++) {
            const int n = 1 + step * 5 % STEP_ROWS, take = step % 4 == 3 ? 0 : 1 + step % n;
            fill_rings(&d, &r, live.pos, live.pos + n);
            STEP(cpu, step_delta, .y = y, .ssq = ssq, .raw = r.raw, .a = r.a, .b = r.b, .z = d.z + (size_t)live.pos * values, .conv = d.conv,
                 .a_log = d.a_log, .dt_bias = d.dt_bias, .norm = d.norm, .state = {copies[0], copies[1]}, .live = &live, .n_rows = n,
                 .n_k_heads = d.hk, .n_v_heads = d.hv, .dk = d.dk, .dv = d.dv, .taps = d.taps);
            for (size_t k = 0; k < (size_t)n * values; k++)
                y[k] /= sqrtf((ssq[k / (size_t)d.dv * 2] + ssq[k / (size_t)d.dv * 2 + 1]) / (float)d.dv + eps);
            expect_near("y", y, want + (size_t)live.pos * values, (size_t)n * values, 1e-4);
            expect_near("the state", copies[1 - live.parity], live.pos ? states + (size_t)(live.pos - 1) * d.state : d.first, d.state, 1e-5);
            live.parity = 1 - live.parity;
            live.n_apply = take;
            live.pos += take;
        }
        assert_true(live.pos > 40);
    }
}

static void test_step_delta__a_row_has_the_same_bits_in_any_company(void **state)
{
    (void)state;
    struct delta d = make_delta(2, 4, 128, 128, 4);
    const size_t v = (size_t)d.hv, values = v * (size_t)d.dv;
    struct rings r = {host(STEP_RING * d.width * 4), host(STEP_RING * v * 4), host(STEP_RING * v * 4)};
    float *all = host(STEP_ROWS * values * 4), *y = host(values * 4), *ssq = host(STEP_ROWS * v * 2 * 4),
        *copies[2] = {host(d.state * 4), host(d.state * 4)};
    struct step_live live = {.pos = 5};
    fill_rings(&d, &r, 0, 5 + STEP_ROWS);
    struct step_delta_args a = {.y = all, .ssq = ssq, .raw = r.raw, .a = r.a, .b = r.b, .z = d.z, .conv = d.conv, .a_log = d.a_log,
                                .dt_bias = d.dt_bias, .norm = d.norm, .state = {copies[0], copies[1]}, .live = &live, .n_rows = STEP_ROWS,
                                .n_k_heads = d.hk, .n_v_heads = d.hv, .dk = d.dk, .dv = d.dv, .taps = d.taps};
    memcpy(copies[0], d.first, d.state * 4);
    cpu->step->step_delta(cpu, &a);
    a.y = y;
    a.n_rows = 1;
    for (int t = 0; t < STEP_ROWS; t++) {
        a.z = d.z + (size_t)t * values;
        cpu->step->step_delta(cpu, &a);
        same_bits("a row", y, all + (size_t)t * values, values * 4);
        live.pos++;
        live.n_apply = 1;
        live.parity = 1 - live.parity;
    }
}

static void test_step_attention__is_the_plain_operations_in_one(void **state)
{
    (void)state;
    static const struct { int q, kv, dim, half, n, pos; enum dtype t; struct rope_position offset; } cases[] = {
        {4, 1, 256, 32, 1, 0, DT_BF16}, {4, 1, 256, 32, 8, 61, DT_F32}, {16, 2, 256, 32, 3, 300, DT_BF16}, {3, 3, 40, 8, 5, 7, DT_F32},
        {6, 2, 64, 32, 2, 129, DT_F32}, {4, 1, 256, 32, 3, 61, DT_F32, {-21, -21, -21}}, {6, 2, 64, 32, 5, 40, DT_BF16, {-3, 9, -40}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int Q = cases[i].q, K = cases[i].kv, D = cases[i].dim, n = cases[i].n;
        const int32_t pos = cases[i].pos;
        const size_t query = (size_t)(Q * D), key = (size_t)(K * D), ctx = (size_t)(pos + n), bytes = ctx * key * (cases[i].t == DT_F32 ? 4 : 2);
        float *qg = normals((size_t)n * 2 * query, 1), *k = normals((size_t)n * key, 1), *v = normals((size_t)n * key, 1),
            *qn = normals((size_t)D, 0.3f), *kn = normals((size_t)D, 0.3f);
        float *freq = normals((size_t)cases[i].half, 0.1f), *y = host((size_t)n * query * 4), *want = host((size_t)n * query * 4),
            *one = host(query * 4);
        struct kv_rows kv = {.k = host(bytes), .v = host(bytes), .dtype = cases[i].t, .n_kv_heads = K, .head_dim = D}, other = kv;
        float *old = normals((size_t)pos * key, 1);
        RUN(cpu, kv_store, .kv = kv, .k = old, .v = old, .n_tokens = pos, .pos = 0);
        other.k = memcpy(host(bytes), kv.k, bytes);
        other.v = memcpy(host(bytes), kv.v, bytes);
        struct step_attention_args a = {.y = y, .qg = qg, .k = k, .v = v, .q_norm = qn, .k_norm = kn, .freq = freq, .kv = kv, .pos = &pos,
                                        .rope_offset = i ? &cases[i].offset : NULL, .n_rows = n, .n_q_heads = Q, .half = cases[i].half,
                                        .eps = eps, .rope_scale = 1.05f, .scale = 1 / sqrtf((float)D)};
        cpu->step->step_attention(cpu, &a);
        for (int t = 0; t < n; t++) {   /* a row at a time */
            const int32_t at = pos + t;
            struct step_attention_args b = a;
            b.y = one, b.qg += (size_t)t * 2 * query, b.k += (size_t)t * key, b.v += (size_t)t * key, b.kv = other, b.pos = &at, b.n_rows = 1;
            cpu->step->step_attention(cpu, &b);
            same_bits("a row", one, y + (size_t)t * query, query * 4);
        }
        same_bits("keys", kv.k, other.k, bytes);
        /* as model/prompt.c has it */
        struct rope_position turned[STEP_ROWS];
        for (int t = 0; t < n; t++)
            turned[t] = (struct rope_position){pos + t + cases[i].offset.t, pos + t + cases[i].offset.h, pos + t + cases[i].offset.w};
        RUN(cpu, rmsnorm, .y = qg, .x = qg, .w = qn, .n_rows = n * Q, .dim = D, .eps = eps, .per_group = Q, .x_group = 2 * query,
            .x_row = 2 * (size_t)D, .y_group = 2 * query, .y_row = 2 * (size_t)D);
        RUN(cpu, rmsnorm, .y = k, .x = k, .w = kn, .n_rows = n * K, .dim = D, .eps = eps);
        RUN(cpu, rope, .x = qg, .token_stride = 2 * query, .head_stride = 2 * (size_t)D, .freq = freq, .n_tokens = n, .n_heads = Q,
            .half = cases[i].half, .at = turned, .scale = 1.05f);
        RUN(cpu, rope, .x = k, .token_stride = key, .head_stride = (size_t)D, .freq = freq, .n_tokens = n, .n_heads = K, .half = cases[i].half,
            .at = turned, .scale = 1.05f);
        RUN(cpu, kv_store, .kv = other, .k = k, .v = v, .n_tokens = n, .pos = pos);
        RUN(cpu, attention, .y = want, .q = qg, .q_token = 2 * query, .q_head = 2 * (size_t)D, .kv = other, .n_tokens = n, .n_q_heads = Q, .pos = pos,
            .scale = a.scale);
        RUN(cpu, sigmoid_gate, .y = want, .gate = qg + D, .gate_token = 2 * query, .gate_head = 2 * (size_t)D, .n_tokens = n, .n_heads = Q,
            .head_dim = D);
        assert_memory_equal(y, want, (size_t)n * query * 4);
        assert_memory_equal(kv.k, other.k, bytes);
        assert_memory_equal(kv.v, other.v, bytes);
    }
}

/* ---- experts ---- */

struct moe {
    int hidden, inter, shared_inter, n_experts, top_k;
    enum weight_format routed, one;
};

enum { ALL = -1 };

/* last_of: of the n rows only the last of the first so many is used; or ALL. */
static void check_experts(const struct moe *m, int n, int32_t last_of, bool left)
{
    const size_t from = last_of > 0 ? (size_t)last_of - 1 : 0, end = last_of == ALL ? (size_t)n : (size_t)last_of;      /* rows that are used */
    const int most = m->inter > m->shared_inter ? m->inter : m->shared_inter, parts = left ? 2 : 1;
    const size_t E = (size_t)m->n_experts, H = (size_t)m->hidden, rows = (size_t)n, k = (size_t)m->top_k, slots = rows * (k + 1), step = rows * E;
    struct expert_weights *x = host(E * sizeof *x), one = {make(m->one, m->shared_inter, m->hidden), make(m->one, m->shared_inter, m->hidden),
                                                           make(m->one, m->hidden, m->shared_inter)};
    for (size_t e = 0; e < E; e++)
        x[e] = (struct expert_weights){make(m->routed, m->inter, m->hidden), make(m->routed, m->inter, m->hidden),
                                       make(m->routed, m->hidden, m->inter)};
    float *in = normals(rows * H, 1), *logits = normals((size_t)parts * step, 1), *gate = normals((size_t)parts * rows, 1), ssq[2 * STEP_ROWS];
    float *scaled = host(rows * H * 4), *sum = host(step * 4), *gates = host(rows * 4), *weights = host(rows * k * 4),
        *h = host(slots * (size_t)most * 4), *d = host(slots * H * 4);
    int32_t *experts = host(rows * k * 4), *start = host((E + 2) * 4), *at = host(slots * 4);
    struct rows r = make_rows(n, m->hidden);
    for (int t = 0; t < n; t++) {
        ssq[t] = (float)m->hidden * (1 + (float)t);
        ssq[STEP_ROWS + t] = 0.5f * (float)m->hidden;
        const float by = left ? 1 / sqrtf(1.5f + (float)t + eps) : 1;
        for (size_t i = 0; i < H; i++)
            scaled[(size_t)t * H + i] = by * in[(size_t)t * H + i];
        for (size_t e = (size_t)t * E; e < (size_t)(t + 1) * E; e++)
            sum[e] = by * (logits[e] + (left ? logits[step + e] : 0));
        gates[t] = by * (gate[t] + (left ? gate[n + t] : 0));
    }
    float *want = memcpy(host(rows * H * 4), r.u, rows * H * 4);
    RUN(cpu, router, .experts = experts, .weights = weights, .logits = sum, .n_tokens = n, .n_experts = m->n_experts, .top_k = m->top_k);
    RUN(cpu, moe_group, .start = start, .slots = at, .experts = experts, .n_tokens = n, .n_experts = m->n_experts, .top_k = m->top_k);
    RUN(cpu, experts_up, .h = h, .x = scaled, .experts = x, .shared = &one, .start = start, .slots = at, .n_tokens = n, .n_experts = m->n_experts,
        .top_k = m->top_k, .inter_max = most);
    RUN(cpu, experts_down, .d = d, .h = h, .experts = x, .shared = &one, .start = start, .slots = at, .n_tokens = n, .n_experts = m->n_experts,
        .top_k = m->top_k, .inter_max = most);
    RUN(cpu, moe_combine, .x = want, .d = d, .weights = weights, .shared_gate = gates, .n_tokens = n, .top_k = m->top_k, .hidden = m->hidden);

    struct step_route route;
    int64_t *before = memcpy(host(rows * H * 8), r.stream, rows * H * 8);
    struct step_experts_args a = {
        .stream = r.stream, .route = &route,
        .choice = {.rms = {left ? ssq : NULL, 2, m->hidden, eps}, .logits = logits, .n_logits = parts, .logit_step = step,
                   .last_of = last_of == ALL ? NULL : &last_of, .overlap = -1, .n_experts = m->n_experts, .top_k = m->top_k},
        .x = in, .experts = x, .shared = &one, .shared_gate = gate, .n_gates = parts, .gate_step = rows, .check = true, .n_rows = n,
        .hidden = m->hidden, .inter = most,
    };
    cpu->step->step_experts(cpu, &a);   /* only asks */
    assert_memory_equal(before, r.stream, rows * H * 8);
    a.check = false;
    cpu->step->step_experts(cpu, &a);
    float *got = host(rows * H * 4);
    for (size_t i = 0; i < rows * H; i++)
        got[i] = stream_to_float(r.stream[i]);
    expect_near("experts", got + from * H, want + from * H, (end - from) * H, 1e-6);
    assert_memory_equal(before, r.stream, from * H * 8);
    assert_memory_equal(before + end * H, r.stream + end * H, (rows - end) * H * 8);
    int n_distinct = 0;
    for (int e = 0; e < m->n_experts && end; e++) {
        float w[STEP_ROWS] = {0};
        bool used = false;
        for (size_t i = from * k; i < end * k; i++)
            if (experts[i] == e) {
                used = true;
                w[i / k] = weights[i];
            }
        if (!used)
            continue;
        assert_int_equal(route.expert[n_distinct], e);
        expect_near("the route", route.weight[n_distinct++], w, end, 1e-5);
    }
    assert_true(!end || route.n == n_distinct);

    if (!left && end) {                 /* alone, a row has the same bits */
        const size_t last = end - 1;
        int64_t *alone = memcpy(host(H * 8), before + last * H, H * 8);
        a.stream = alone, a.choice.logits += last * E, a.choice.last_of = NULL, a.x += last * H, a.shared_gate += last, a.n_rows = 1, a.route = NULL;
        cpu->step->step_experts(cpu, &a);
        same_bits("experts", alone, r.stream + last * H, H * 8);
    }
}

static void test_step_experts__add_what_the_plain_operations_add(void **state)
{
    (void)state;
    static const struct moe list_of[] = {
        {128, 128, 128, 16, 4, WEIGHT_INT4, WEIGHT_DENSE}, {72, 24, 40, 5, 2, WEIGHT_DENSE, WEIGHT_DENSE},
        {256, 128, 128, 40, 16, WEIGHT_FP8, WEIGHT_FP8},
    };
    for (size_t i = 0; i < sizeof list_of / sizeof *list_of; i++)
        for (int n = 1; n <= STEP_ROWS; n += 1 + n / 2) {
            check_experts(&list_of[i], n, ALL, n % 2);
            check_experts(&list_of[i], n, n / 2, n % 2);
            check_experts(&list_of[i], n, n, n % 2);
            end_test(NULL);
        }
}

static void test_step_experts__overlap_is_what_neighbours_share(void **state)
{
    (void)state;
    enum { H = 64, E = 64, K = 4, N = 3 };
    struct expert_weights x[E], one = {make(WEIGHT_DENSE, 16, H), make(WEIGHT_DENSE, 16, H), make(WEIGHT_DENSE, H, 16)};
    for (int e = 0; e < E; e++)
        x[e] = one;
    for (int overlap = 0; overlap <= K; overlap++) {
        struct step_route route;
        STEP(cpu, step_experts, .stream = host(N * H * 8), .route = &route,
             .choice = {.logits = normals(N * E, 1), .n_logits = 1, .overlap = overlap, .n_experts = E, .top_k = K}, .x = normals(N * H, 1),
             .experts = x, .shared = &one, .shared_gate = normals(N, 1), .n_gates = 1, .n_rows = N, .hidden = H, .inter = 16);
        assert_true(route.n <= K + (N - 1) * (K - overlap) && route.n >= K);
        assert_true(overlap < K || route.n == K);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, end_test)
    const struct CMUnitTest tests[] = {
        TEST(test_step_embed__rows_of_the_table_join_the_stream),
        TEST(test_step_norm__is_rmsnorm_of_the_stream),
        TEST(test_step_project__is_norm_and_product_for_any_number_of_rows),
        TEST(test_step_project__several_matrices_fill_rings_by_position),
        TEST(test_step_project__halves_become_the_stream),
        TEST(test_step_add__adds_products_of_heads_to_what_stands_there),
        TEST(test_step_add__a_product_that_is_no_number_stays_one),
        TEST(test_step_router__with_the_rms_made_up_for_is_norm_and_product),
        TEST(test_step_logits__have_bias_penalties_and_maxima),
        TEST(test_step_logits__of_a_chosen_row_a_hidden_state_and_a_nan),
        TEST(test_step_mtp_join__is_the_product_of_both_inputs),
        TEST(test_step_delta__steps_with_rejected_rows_are_the_recurrence),
        TEST(test_step_delta__a_row_has_the_same_bits_in_any_company),
        TEST(test_step_attention__is_the_plain_operations_in_one),
        TEST(test_step_experts__add_what_the_plain_operations_add),
        TEST(test_step_experts__overlap_is_what_neighbours_share),
    };
    return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}
