/* The DeltaNet family on the GPU against its definition.  step_delta, conv, gates and the gated norm are fp32; deltanet_chunk
 * multiplies in F16 and is compared by its relative L2 error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "backend/dev.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/rand.h"

enum { D = 128, TAPS = 4 };
static const float EPS = 1e-6f;
static const double chunk_tolerance = 2e-3;     /* F16: about 5e-4, twice that when keys are nearly equal */

static float *poison(size_t n) { return poisoned(n * sizeof(float)); }
static float *fetch(const float *d, size_t n) { return downloaded(d, n * sizeof(float)); }

static float *twin(const float *p, size_t n)
{
    return memcpy(malloc(n * sizeof *p), p, n * sizeof *p);
}

/* Fails unless ||got - want|| <= most * ||want||. */
static void expect_near(const float *got, const float *want, size_t n, double most, const char *what)
{
    double d = 0, w = 0, worst = 0;
    size_t bad = n, at = 0;
    for (size_t i = 0; i < n; i++) {
        double e = fabs((double)got[i] - (double)want[i]);
        if (isnan(e) && bad == n)
            bad = i;
        if (e > worst)
            worst = e, at = i;
        d += e * e;
        w += (double)want[i] * (double)want[i];
    }
    if (!(d <= most * most * w) || bad != n)
        fail_msg("%s: relative error %g, allowed %g; largest error %g at %zu (%g, expected %g), first NaN at %zu of %zu", what, sqrt(d / w),
                 most, worst, at, (double)got[at], (double)want[at], bad, n);
}

static void same_bits(const float *x, const float *y, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(x + i, y + i, sizeof *x))
            fail_msg("%s: value %zu of %zu is %.9g, and %.9g again", what, i, n, (double)x[i], (double)y[i]);
}

/* ------------------------------------------------------------------ decode step */

/* A layer and raw rows of its first positions. */
struct layer {
    int    hk, hv, n;                           /* rows */
    float *raw, *a, *b, *z;                     /* [n, ...] by position */
    float *conv, *a_log, *dt_bias, *norm, *state;
    /* on the GPU */
    float *d_raw, *d_a, *d_b, *d_conv, *d_a_log, *d_dt_bias, *d_norm, *d_state[2];
};

static size_t width(const struct layer *l) { return (size_t)(2 * l->hk + l->hv) * D; }
static size_t values(const struct layer *l) { return (size_t)l->hv * D; }
static size_t state_size(const struct layer *l) { return (size_t)l->hv * D * D; }

static struct layer make_layer(int hk, int hv, int n)
{
    struct layer l = {.hk = hk, .hv = hv, .n = n};
    size_t N = (size_t)n, v = (size_t)hv;
    l.raw = rand_array(N * width(&l), 1);
    l.a = rand_array(N * v, 2);
    l.b = rand_array(N * v, 1);
    l.z = rand_array(N * values(&l), 1);
    l.conv = rand_array(width(&l) * TAPS, 0.5f);
    l.a_log = rand_array(v, 1);
    l.dt_bias = rand_array(v, 1);
    l.norm = rand_array(D, 1);
    l.state = rand_array(state_size(&l), 0.3f);
    l.d_conv = upload(l.conv, width(&l) * TAPS * sizeof(float));
    l.d_a_log = upload(l.a_log, v * sizeof(float));
    l.d_dt_bias = upload(l.dt_bias, v * sizeof(float));
    l.d_norm = upload(l.norm, D * sizeof(float));
    l.d_state[0] = upload(l.state, state_size(&l) * sizeof(float));
    l.d_state[1] = poison(state_size(&l));
    l.d_raw = poison(STEP_RING * width(&l));
    l.d_a = poison(STEP_RING * v);
    l.d_b = poison(STEP_RING * v);
    return l;
}

static void drop_layer(struct layer *l)
{
    float *host[] = {l->raw, l->a, l->b, l->z, l->conv, l->a_log, l->dt_bias, l->norm, l->state};
    float *device[] = {l->d_raw, l->d_a, l->d_b, l->d_conv, l->d_a_log, l->d_dt_bias, l->d_norm, l->d_state[0], l->d_state[1]};
    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        free(host[i]), cuda->free(cuda, device[i]);
}

/* Position p of the ring holds row p % n of the layer. */
static void fill_ring(const struct layer *l, int from, int to)
{
    size_t v = (size_t)l->hv;
    for (int p = from < 0 ? 0 : from; p < to; p++) {
        size_t row = (size_t)(p % l->n), place = (size_t)(p % STEP_RING);
        cuda->copy(cuda, l->d_raw + place * width(l), l->raw + row * width(l), width(l) * sizeof(float));
        cuda->copy(cuda, l->d_a + place * v, l->a + row * v, v * sizeof(float));
        cuda->copy(cuda, l->d_b + place * v, l->b + row * v, v * sizeof(float));
    }
}

struct step_out {
    float *y, *ssq, *state;                     /* state: the one that was written */
};
static void drop_out(struct step_out *o) { free(o->y), free(o->ssq), free(o->state); }

static struct step_out run_step(const struct layer *l, int pos, int n_apply, int n_rows, int parity)
{
    size_t rows = (size_t)(n_rows ? n_rows : 1);
    struct step_live live = {.pos = pos, .n_apply = n_apply, .parity = parity};
    struct step_live *d_live = upload(&live, sizeof live);
    float *z = malloc(rows * values(l) * sizeof *z), *y = poison(rows * values(l)), *ssq = poison(rows * (size_t)l->hv * 2);
    for (int t = 0; t < n_rows; t++)
        memcpy(z + (size_t)t * values(l), l->z + (size_t)((pos + t) % l->n) * values(l), values(l) * sizeof *z);
    float *d_z = upload(z, rows * values(l) * sizeof *z);
    STEP(cuda, step_delta, .y = y, .ssq = ssq, .raw = l->d_raw, .a = l->d_a, .b = l->d_b, .z = d_z, .conv = l->d_conv,
         .a_log = l->d_a_log, .dt_bias = l->d_dt_bias, .norm = l->d_norm, .state = {l->d_state[0], l->d_state[1]}, .live = d_live,
         .n_rows = n_rows, .n_k_heads = l->hk, .n_v_heads = l->hv, .dk = D, .dv = D, .taps = TAPS);
    struct step_out o = {fetch(y, rows * values(l)), fetch(ssq, rows * (size_t)l->hv * 2),
                         fetch(l->d_state[1 - parity], state_size(l))};
    cuda->free(cuda, y), cuda->free(cuda, ssq), cuda->free(cuda, d_z), cuda->free(cuda, d_live);
    free(z);
    return o;
}

/* The same by definition. */
static struct step_out define_step(const struct layer *l, int pos, int n_apply, int n_rows)
{
    const size_t rows = (size_t)(n_rows ? n_rows : 1), w = width(l), v = (size_t)l->hv;
    const struct step_live live = {.pos = pos, .n_apply = n_apply};
    float *raw = malloc(STEP_RING * w * sizeof *raw), *a = malloc(STEP_RING * v * sizeof *a), *b = malloc(STEP_RING * v * sizeof *b);
    float *z = malloc(rows * values(l) * sizeof *z), *y = malloc(rows * values(l) * sizeof *y), *ssq = malloc(rows * v * 2 * sizeof *ssq);
    float *from = twin(l->state, state_size(l)), *to = malloc(state_size(l) * sizeof *to);
    for (int p = pos - n_apply - 3 > 0 ? pos - n_apply - 3 : 0; p < pos + n_rows; p++) {
        const size_t row = (size_t)(p % l->n), place = (size_t)(p % STEP_RING);
        memcpy(raw + place * w, l->raw + row * w, w * sizeof *raw);
        memcpy(a + place * v, l->a + row * v, v * sizeof *a);
        memcpy(b + place * v, l->b + row * v, v * sizeof *b);
    }
    for (int t = 0; t < n_rows; t++)
        memcpy(z + (size_t)t * values(l), l->z + (size_t)((pos + t) % l->n) * values(l), values(l) * sizeof *z);
    STEP(cpu, step_delta, .y = y, .ssq = ssq, .raw = raw, .a = a, .b = b, .z = z, .conv = l->conv, .a_log = l->a_log, .dt_bias = l->dt_bias,
         .norm = l->norm, .state = {from, to}, .live = &live, .n_rows = n_rows, .n_k_heads = l->hk, .n_v_heads = l->hv, .dk = D, .dv = D,
         .taps = TAPS);
    free(raw), free(a), free(b), free(z), free(from);
    return (struct step_out){y, ssq, to};
}

static const int heads[][2] = {{16, 64}, {16, 32}, {1, 2}, {2, 8}, {2, 4}, {3, 3}};

static void test_step_delta__agrees_with_the_definition(void **unused)
{
    (void)unused;
    need_gpu();
    static const int cases[][3] = {                     /* pos, n_apply, n_rows */
        {0, 0, 1}, {0, 0, 8}, {1, 1, 1}, {2, 2, 3}, {2, 0, 1}, {5, 4, 2}, {31, 3, 4}, {32, 8, 8}, {1000, 1, 1}, {1000, 1, 2}, {4099, 5, 0},
        {40, 0, 0}, {262143, 8, 1},
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            int pos = cases[c][0], n_apply = cases[c][1], n = cases[c][2], parity = (int)c % 2;
            struct layer l = make_layer(heads[i][0], heads[i][1], 41);
            char what[96];
            fill_ring(&l, pos - n_apply - 3, pos + n);
            if (parity) {
                float *s = l.d_state[0];
                l.d_state[0] = l.d_state[1], l.d_state[1] = s;
            }
            struct step_out want = define_step(&l, pos, n_apply, n), got = run_step(&l, pos, n_apply, n, parity);
            struct step_out again = run_step(&l, pos, n_apply, n, parity);
            size_t out = (size_t)n * values(&l), sums = (size_t)(n * l.hv) * 2;
            same_bits(got.y, again.y, out, "y");
            same_bits(got.ssq, again.ssq, sums, "ssq");
            same_bits(got.state, again.state, state_size(&l), "state");
            snprintf(what, sizeof what, "heads %d/%d pos %d apply %d rows %d", l.hk, l.hv, pos, n_apply, n);
            expect_near(got.state, want.state, state_size(&l), 1e-5, what);
            expect_near(got.ssq, want.ssq, sums, 1e-5, what);
            expect_near(got.y, want.y, out, 1e-5, what);
            drop_out(&want), drop_out(&got), drop_out(&again);
            drop_layer(&l);
        }
}

static void test_step_delta__a_row_has_the_same_bits_in_any_company(void **unused)
{
    (void)unused;
    need_gpu();
    enum { POS = 29, N = STEP_ROWS };
    struct layer l = make_layer(2, 8, 50);
    size_t row = values(&l), size = state_size(&l);
    fill_ring(&l, POS - 3, POS + N);
    struct step_out all = run_step(&l, POS, 0, N, 0);
    same_bits(all.state, l.state, size, "nothing to apply");
    struct step_out applied = run_step(&l, POS + N, N, 0, 0);
    for (int per = 1; per <= 3; per++) {                /* rows a step, of which the first is accepted, or all */
        for (int take = 1; take <= per; take += per > 1 ? per - 1 : 1) {
            cuda->copy(cuda, l.d_state[0], l.state, size * sizeof *l.state);
            int parity = 0, n_apply = 0;
            for (int t = 0; t < N; t += take) {
                int n = N - t < per ? N - t : per;
                struct step_out o = run_step(&l, POS + t, n_apply, n, parity);
                same_bits(o.y, all.y + (size_t)t * row, (size_t)n * row, "y");
                same_bits(o.ssq, all.ssq + (size_t)(t * l.hv * 2), (size_t)(n * l.hv * 2), "ssq");
                n_apply = take < n ? take : n;
                parity = 1 - parity;
                drop_out(&o);
            }
            struct step_out o = run_step(&l, POS + N, n_apply, 0, parity);
            same_bits(o.state, applied.state, size, "state");
            drop_out(&o);
        }
    }
    drop_out(&all), drop_out(&applied);
    drop_layer(&l);
}

/* ------------------------------------------------------------------ prompt chunks */

static void test_conv__agrees_with_the_definition(void **unused)
{
    (void)unused;
    need_gpu();
    static const int shapes[][2] = {{1, 12288}, {2, 8192}, {3, 512}, {5, 768}, {31, 1536}, {32, 512}, {33, 12288}, {200, 1536}, {2049, 512}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        size_t n = (size_t)shapes[i][0], c = (size_t)shapes[i][1];
        float *x = rand_array(n * c, 1), *w = rand_array(c * TAPS, 1), *window = rand_array(3 * c, 1), *y = malloc(n * c * sizeof *y);
        float *dx = upload(x, n * c * 4), *dw = upload(w, c * TAPS * 4), *d_window = upload(window, 3 * c * 4), *dy = poison(n * c);
        char what[64];
        RUN(cpu, conv, .y = y, .x = x, .w = w, .window = window, .n_tokens = (int)n, .n_channels = (int)c, .taps = TAPS);
        RUN(cuda, conv, .y = dy, .x = dx, .w = dw, .window = d_window, .n_tokens = (int)n, .n_channels = (int)c, .taps = TAPS);
        float *got = fetch(dy, n * c), *got_window = fetch(d_window, 3 * c);
        snprintf(what, sizeof what, "%zu rows of %zu", n, c);
        expect_near(got, y, n * c, 1e-6, what);
        same_bits(got_window, window, 3 * c, what);
        free(x), free(w), free(window), free(y), free(got), free(got_window);
        cuda->free(cuda, dx), cuda->free(cuda, dw), cuda->free(cuda, d_window), cuda->free(cuda, dy);
    }
}

static void test_deltanet_gates__agrees_with_the_definition(void **unused)
{
    (void)unused;
    need_gpu();
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (int n = 1; n <= 70; n += 23) {
            size_t N = (size_t)n, hv = (size_t)heads[i][1], w = (size_t)(2 * heads[i][0] + heads[i][1]) * D;
            float *c = rand_array(N * w, 1), *a = rand_array(N * hv, 12), *b = rand_array(N * hv, 4), *a_log = rand_array(hv, 1);
            float *dt = rand_array(hv, 1), *beta = malloc(N * hv * 4), *g = malloc(N * hv * 4);
            float *dc = upload(c, N * w * 4), *da = upload(a, N * hv * 4), *db = upload(b, N * hv * 4), *d_log = upload(a_log, hv * 4);
            float *d_dt = upload(dt, hv * 4), *d_beta = poison(N * hv), *dg = poison(N * hv);
            struct deltanet_gates_args s = {.c = c, .beta = beta, .g = g, .a = a, .b = b, .a_log = a_log, .dt_bias = dt, .n_tokens = n,
                                            .n_k_heads = heads[i][0], .n_v_heads = heads[i][1], .dk = D, .dv = D};
            cpu->ops->deltanet_gates(cpu, &s);
            s.c = dc, s.beta = d_beta, s.g = dg, s.a = da, s.b = db, s.a_log = d_log, s.dt_bias = d_dt;
            cuda->ops->deltanet_gates(cuda, &s);
            float *got = fetch(dc, N * w), *got_beta = fetch(d_beta, N * hv), *got_g = fetch(dg, N * hv);
            expect_near(got, c, N * w, 1e-6, "c");
            expect_near(got_beta, beta, N * hv, 1e-6, "beta");
            expect_near(got_g, g, N * hv, 1e-6, "g");
            free(c), free(a), free(b), free(a_log), free(dt), free(beta), free(g), free(got), free(got_beta), free(got_g);
            float *device[] = {dc, da, db, d_log, d_dt, d_beta, dg};
            for (size_t k = 0; k < sizeof device / sizeof *device; k++)
                cuda->free(cuda, device[k]);
        }
}

static void test_rmsnorm_gated__agrees_with_the_definition_in_place(void **unused)
{
    (void)unused;
    need_gpu();
    static const int counts[] = {1, 2, 31, 33, 64, 320, 4097};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        size_t n = (size_t)counts[i];
        float *x = rand_array(n * D, i % 2 ? 1 : 1e-4f), *z = rand_array(n * D, 3), *w = rand_array(D, 1), *y = malloc(n * D * 4);
        float *dx = upload(x, n * D * 4), *dz = upload(z, n * D * 4), *dw = upload(w, D * 4);
        RUN(cpu, rmsnorm_gated, .y = y, .x = x, .z = z, .w = w, .n_rows = (int)n, .dim = D, .eps = EPS);
        RUN(cuda, rmsnorm_gated, .y = dx, .x = dx, .z = dz, .w = dw, .n_rows = (int)n, .dim = D, .eps = EPS);
        float *got = fetch(dx, n * D);
        expect_near(got, y, n * D, 1e-6, "y");
        free(x), free(z), free(w), free(y), free(got);
        cuda->free(cuda, dx), cuda->free(cuda, dz), cuda->free(cuda, dw);
    }
}

struct net {
    int    hk, hv, n;
    float *c, *beta, *g, *state;
};

/* `alike`: how much the keys of all rows have in common; `decay`: mean of log(-g); `v`: scale of values and state. */
static struct net make_net(int hk, int hv, int n, float alike, float decay, float v)
{
    struct net d = {.hk = hk, .hv = hv, .n = n};
    size_t N = (size_t)n, w = (size_t)(2 * hk + hv) * D;
    float *common = rand_array((size_t)(2 * hk) * D, alike);
    d.c = rand_array(N * w, 1);
    for (size_t t = 0; t < N; t++) {
        for (int h = 0; h < 2 * hk; h++) {              /* as deltanet_gates leaves q and k */
            float *x = d.c + t * w + h * D, sum = 0;
            for (int i = 0; i < D; i++) {
                x[i] += common[h * D + i];
                sum += x[i] * x[i];
            }
            for (int i = 0; i < D; i++)
                x[i] /= sqrtf(sum) * (h < hk ? sqrtf(D) : 1);
        }
        for (int i = 0; i < hv * D; i++)
            d.c[t * w + (size_t)(2 * hk * D + i)] *= v * (i % 7 ? 1 : 1e-3f);         /* columns of unlike size */
    }
    d.beta = malloc(N * (size_t)hv * sizeof(float));
    d.g = malloc(N * (size_t)hv * sizeof(float));
    for (size_t i = 0; i < N * (size_t)hv; i++) {
        d.beta[i] = rand_unit();
        d.g[i] = -expf(2 * rand_normal() + decay);
    }
    d.state = rand_array((size_t)hv * D * D, 0.3f * v);
    free(common);
    return d;
}
static void drop_net(struct net *d) { free(d->c), free(d->beta), free(d->g), free(d->state); }

struct chunk_out {
    float *y, *state;
};
static void drop_chunk(struct chunk_out *o) { free(o->y), free(o->state); }

static struct chunk_out define_chunk(const struct net *d, int pos)
{
    struct chunk_out o = {malloc((size_t)(d->n * d->hv) * D * 4), twin(d->state, (size_t)d->hv * D * D)};
    RUN(cpu, deltanet_chunk, .y = o.y, .c = d->c, .beta = d->beta, .g = d->g, .state = o.state, .n_tokens = d->n, .n_k_heads = d->hk,
        .n_v_heads = d->hv, .dk = D, .dv = D, .pos = pos);
    return o;
}

/* The first `cut` rows in a call of their own when cut > 0. */
static struct chunk_out run_chunk(const struct net *d, int pos, int cut)
{
    size_t n = (size_t)d->n, w = (size_t)(2 * d->hk + d->hv) * D, hv = (size_t)d->hv;
    float *c = upload(d->c, n * w * 4), *beta = upload(d->beta, n * hv * 4), *g = upload(d->g, n * hv * 4);
    float *state = upload(d->state, hv * D * D * 4), *y = poison(n * hv * D);
    for (int t = 0, until = cut; t < d->n; t = until, until = d->n) {
        if (t == until)
            continue;
        size_t T = (size_t)t;
        RUN(cuda, deltanet_chunk, .y = y + T * hv * D, .c = c + T * w, .beta = beta + T * hv, .g = g + T * hv, .state = state,
            .n_tokens = until - t, .n_k_heads = d->hk, .n_v_heads = d->hv, .dk = D, .dv = D, .pos = pos + t);
    }
    struct chunk_out o = {fetch(y, n * hv * D), fetch(state, hv * D * D)};
    float *device[] = {c, beta, g, state, y};
    for (size_t i = 0; i < sizeof device / sizeof *device; i++)
        cuda->free(cuda, device[i]);
    return o;
}

static void reserve(int n, int hv)              /* more than deltanet_chunk asks for */
{
    assert_true(cuda->reserve(cuda, (size_t)hv * 2048 * (size_t)(n + 128)));
}

static void compare_chunk(int hk, int hv, int n, int pos, float alike, float decay, float v)
{
    struct net d = make_net(hk, hv, n, alike, decay, v);
    char what[128];
    reserve(n, hv);
    struct chunk_out want = define_chunk(&d, pos), got = run_chunk(&d, pos, 0), again = run_chunk(&d, pos, 0);
    size_t out = (size_t)(n * hv) * D, size = (size_t)hv * D * D;
    snprintf(what, sizeof what, "heads %d/%d, %d rows from %d, keys alike %g, decay %g, values %g", hk, hv, n, pos, (double)alike,
             (double)decay, (double)v);
    expect_near(got.y, want.y, out, chunk_tolerance, what);
    expect_near(got.state, want.state, size, chunk_tolerance, what);
    same_bits(got.y, again.y, out, what);
    same_bits(got.state, again.state, size, what);
    drop_chunk(&want), drop_chunk(&got), drop_chunk(&again);
    drop_net(&d);
}

static void test_deltanet_chunk__agrees_with_the_definition(void **unused)
{
    (void)unused;
    need_gpu();
    static const int counts[] = {1, 5, 63, 64, 65, 200};
    for (size_t i = 2; i < sizeof heads / sizeof *heads; i++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            compare_chunk(heads[i][0], heads[i][1], counts[c], c % 2 ? 17 : 128, 0.3f, -2, 1);
    compare_chunk(16, 64, 130, 33, 0.3f, -2, 1);
    compare_chunk(16, 32, 64, 0, 0.3f, -2, 1);
    compare_chunk(1, 6, 70, 63, 0.3f, -2, 1);
}

static void test_deltanet_chunk__any_range_of_values_decay_and_likeness_of_keys(void **unused)
{
    (void)unused;
    need_gpu();
    compare_chunk(1, 2, 150, 0, 0, -2, 1e-6f);
    compare_chunk(1, 2, 150, 0, 0, -2, 1e6f);
    compare_chunk(1, 2, 150, 0, 0, -20, 1);             /* nothing is forgotten */
    compare_chunk(1, 2, 150, 0, 0, 3, 1);               /* nearly all is, at once */
    compare_chunk(1, 2, 150, 0, 3, -4, 1);              /* keys nearly equal */
}

static void test_deltanet_chunk__long_prompts_stay_close(void **unused)
{
    (void)unused;
    need_gpu();
    compare_chunk(1, 2, 4500, 100, 0.5f, -6, 1);
}

static void test_deltanet_chunk__calls_cut_at_multiples_of_64_give_the_same_bits(void **unused)
{
    (void)unused;
    need_gpu();
    struct net d = make_net(2, 4, 1300, 0.3f, -3, 1);
    size_t out = (size_t)(d.n * d.hv) * D, size = (size_t)d.hv * D * D;
    reserve(d.n, d.hv);
    struct chunk_out whole = run_chunk(&d, 10, 0);
    static const int cuts[] = {54, 118, 1078};          /* 10 + cut is a multiple of 64 */
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        struct chunk_out o = run_chunk(&d, 10, cuts[i]);
        same_bits(o.y, whole.y, out, "y");
        same_bits(o.state, whole.state, size, "state");
        drop_chunk(&o);
    }
    drop_chunk(&whole);
    drop_net(&d);
}

static void test_deltanet_chunk__the_size_of_the_cache_changes_no_bit(void **unused)
{
    (void)unused;
    need_gpu();
    struct net d = make_net(2, 4, 1300, 0.3f, -3, 1);
    size_t out = (size_t)(d.n * d.hv) * D, size = (size_t)d.hv * D * D;
    static const size_t caches[] = {1200000, 1};        /* two blocks of 64 rows at a time, and one */
    struct err e = {0};
    reserve(d.n, d.hv);
    struct chunk_out whole = run_chunk(&d, 10, 0);
    struct dev *large = cuda;
    cuda = dev_open("cuda", 0, &e);
    assert_non_null(cuda);
    reserve(d.n, d.hv);
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
        dev_limit_cache(cuda, caches[i]);
        struct chunk_out o = run_chunk(&d, 10, 0);
        same_bits(o.y, whole.y, out, "y");
        same_bits(o.state, whole.state, size, "state");
        drop_chunk(&o);
    }
    dev_close(cuda);
    cuda = large;
    drop_chunk(&whole);
    drop_net(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_delta__agrees_with_the_definition),
        cmocka_unit_test(test_step_delta__a_row_has_the_same_bits_in_any_company),
        cmocka_unit_test(test_conv__agrees_with_the_definition),
        cmocka_unit_test(test_deltanet_gates__agrees_with_the_definition),
        cmocka_unit_test(test_rmsnorm_gated__agrees_with_the_definition_in_place),
        cmocka_unit_test(test_deltanet_chunk__agrees_with_the_definition),
        cmocka_unit_test(test_deltanet_chunk__any_range_of_values_decay_and_likeness_of_keys),
        cmocka_unit_test(test_deltanet_chunk__long_prompts_stay_close),
        cmocka_unit_test(test_deltanet_chunk__calls_cut_at_multiples_of_64_give_the_same_bits),
        cmocka_unit_test(test_deltanet_chunk__the_size_of_the_cache_changes_no_bit),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
