/* Gated DeltaNet and its convolution: chunks against the recurrence in double.  Steps: test_step.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "backend/dev.h"
#include "tests/kernels/rand.h"

static struct dev *dev;

struct net {
    int    hk, hv, dk, dv, n;
    float *c, *beta, *g, *y, *state;
};

static size_t width(const struct net *d) { return (size_t)(2 * d->hk * d->dk + d->hv * d->dv); }
static size_t state_size(const struct net *d) { return (size_t)(d->hv * d->dk * d->dv); }

static struct net make(int hk, int hv, int dk, int dv, int n)
{
    struct net d = {.hk = hk, .hv = hv, .dk = dk, .dv = dv, .n = n};
    size_t N = (size_t)n;
    d.c = rand_array(N * width(&d), 1);
    for (size_t t = 0; t < N; t++)
        for (int h = 0; h < 2 * hk; h++) {              /* unit length, as deltanet_gates leaves q and k */
            float *x = d.c + t * width(&d) + h * dk, sum = 0;
            for (int i = 0; i < dk; i++)
                sum += x[i] * x[i];
            for (int i = 0; i < dk; i++)
                x[i] /= sqrtf(sum) * (h < hk ? sqrtf((float)dk) : 1);
        }
    d.beta = malloc(N * (size_t)hv * sizeof(float));
    d.g = malloc(N * (size_t)hv * sizeof(float));
    for (size_t i = 0; i < N * (size_t)hv; i++) {
        d.beta[i] = rand_unit();
        d.g[i] = -expf(2 * rand_normal() - 2);
    }
    d.y = calloc(N * (size_t)(hv * dv), sizeof(float));
    d.state = rand_array(state_size(&d), 0.3f);
    return d;
}

static void drop(struct net *d)
{
    free(d->c), free(d->beta), free(d->g), free(d->y), free(d->state);
}

static void chunk(struct net *d, float *state, float *y, int from, int n, int pos)
{
    RUN(dev, deltanet_chunk, .y = y + (size_t)from * (size_t)(d->hv * d->dv), .c = d->c + (size_t)from * width(d),
        .beta = d->beta + from * d->hv, .g = d->g + from * d->hv, .state = state,
        .n_tokens = n, .n_k_heads = d->hk, .n_v_heads = d->hv, .dk = d->dk, .dv = d->dv, .pos = pos);
}

/* The recurrence as written in the contract, in double. */
static void recur(const struct net *d, double *S, double *y, int n)
{
    int r = d->hv / d->hk;
    for (int t = 0; t < n; t++)
        for (int h = 0; h < d->hv; h++) {
            const float *q = d->c + (size_t)t * width(d) + h / r * d->dk, *k = q + d->hk * d->dk;
            const float *v = d->c + (size_t)t * width(d) + 2 * d->hk * d->dk + h * d->dv;
            double *s = S + (size_t)h * (size_t)(d->dk * d->dv), decay = exp((double)d->g[t * d->hv + h]);
            for (int i = 0; i < d->dk * d->dv; i++)
                s[i] *= decay;
            for (int j = 0; j < d->dv; j++) {
                double p = 0, o = 0;
                for (int i = 0; i < d->dk; i++)
                    p += (double)k[i] * s[i * d->dv + j];
                double delta = (double)d->beta[t * d->hv + h] * ((double)v[j] - p);
                for (int i = 0; i < d->dk; i++) {
                    s[i * d->dv + j] += (double)k[i] * delta;
                    o += (double)q[i] * s[i * d->dv + j];
                }
                y[((size_t)t * (size_t)d->hv + (size_t)h) * (size_t)d->dv + (size_t)j] = o;
            }
        }
}

static double distance(const double *want, const float *got, size_t n)         /* ||got - want|| / ||want|| */
{
    double d = 0, w = 0;
    for (size_t i = 0; i < n; i++) {
        d += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        w += want[i] * want[i];
    }
    return sqrt(d / w);
}

static const int heads[][4] = {{1, 2, 128, 128}, {2, 8, 128, 128}, {3, 3, 64, 32}, {2, 4, 16, 128}};

static void test_deltanet__chunks_agree_with_the_recurrence(void **unused)
{
    (void)unused;
    static const int counts[] = {1, 5, 63, 64, 65, 200};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            struct net d = make(heads[i][0], heads[i][1], heads[i][2], heads[i][3], counts[c]);
            size_t out = (size_t)(d.n * d.hv * d.dv), sn = state_size(&d);
            double *S = malloc(sn * sizeof *S), *y = malloc(out * sizeof *y);
            float *state = malloc(sn * sizeof *state);
            for (size_t k = 0; k < sn; k++)
                S[k] = (double)d.state[k];
            recur(&d, S, y, d.n);

            memcpy(state, d.state, sn * sizeof *state);
            chunk(&d, state, d.y, 0, d.n, 17);
            double chunk_y = distance(y, d.y, out), chunk_s = distance(S, state, sn);

            if (!(chunk_y < 1e-5 && chunk_s < 1e-5))
                fail_msg("%d tokens, heads %d/%d: %g %g", d.n, d.hk, d.hv, chunk_y, chunk_s);
            free(S), free(y), free(state);
            drop(&d);
        }
}

static void test_deltanet__chunks_cut_at_multiples_of_64_give_the_same_bits(void **unused)
{
    (void)unused;
    struct net d = make(1, 2, 128, 128, 200);
    size_t row = (size_t)(d.hv * d.dv), sn = state_size(&d);
    float *whole = malloc(200 * row * sizeof *whole), *a = malloc(sn * sizeof *a), *b = malloc(sn * sizeof *b);
    memcpy(a, d.state, sn * sizeof *a);
    memcpy(b, d.state, sn * sizeof *b);
    chunk(&d, a, whole, 0, 200, 64);
    chunk(&d, b, d.y, 0, 128, 64);
    chunk(&d, b, d.y, 128, 72, 192);
    assert_memory_equal(whole, d.y, 200 * row * sizeof *whole);
    assert_memory_equal(a, b, sn * sizeof *a);
    free(whole), free(a), free(b);
    drop(&d);
}

static void test_deltanet__gates_follow_their_formulas(void **unused)
{
    (void)unused;
    enum { N = 5, HK = 2, HV = 6, DK = 32, DV = 16, W = 2 * HK * DK + HV * DV };
    float *c = rand_array(N * W, 3), *c0 = malloc(N * W * sizeof *c0), *a = rand_array(N * HV, 15), *b = rand_array(N * HV, 4);
    float *a_log = rand_array(HV, 1), *dt = rand_array(HV, 1), beta[N * HV], g[N * HV];
    memcpy(c0, c, N * W * sizeof *c0);
    a[0] = 90;                                          /* the linear branch of softplus */
    RUN(dev, deltanet_gates, .c = c, .beta = beta, .g = g, .a = a, .b = b, .a_log = a_log, .dt_bias = dt, .n_tokens = N,
        .n_k_heads = HK, .n_v_heads = HV, .dk = DK, .dv = DV);
    for (int t = 0; t < N; t++) {
        for (int i = 0; i < W; i++) {
            double want = (double)c0[t * W + i];
            if (i < 2 * HK * DK) {
                double sum = 1e-6;
                for (int j = 0; j < DK; j++)
                    sum += (double)c0[t * W + i / DK * DK + j] * (double)c0[t * W + i / DK * DK + j];
                want /= sqrt(sum) * (i < HK * DK ? sqrt(DK) : 1);
            }
            assert_true(fabs((double)c[t * W + i] - want) <= 1e-6 * fabs(want) + 1e-12);
        }
        for (int h = 0; h < HV; h++) {
            double x = (double)(a[t * HV + h] + dt[h]), want = -exp((double)a_log[h]) * (x > 20 ? x : log1p(exp(x)));
            assert_true(fabs((double)g[t * HV + h] - want) <= 2e-6 * fabs(want));
            assert_true(fabs((double)beta[t * HV + h] - 1 / (1 + exp(-(double)b[t * HV + h]))) <= 1e-6);
        }
    }
    free(c), free(c0), free(a), free(b), free(a_log), free(dt);
}

static void test_conv__any_way_of_feeding_gives_the_same_bits(void **unused)
{
    (void)unused;
    enum { N = 23, C = 150, TAPS = 4 };
    float *x = rand_array(N * C, 1), *w = rand_array(C * TAPS, 1), y[N * C], *z = calloc(N * C, sizeof *z);
    float window[(TAPS - 1) * C] = {0};
    for (int t = 0; t < N; t++)
        for (int c = 0; c < C; c++) {
            float sum = 0;
            for (int j = 0; j < TAPS; j++)
                sum += w[c * TAPS + j] * (t - TAPS + 1 + j >= 0 ? x[(t - TAPS + 1 + j) * C + c] : 0);
            y[t * C + c] = sum / (1 + expf(-sum));
        }
    for (int round = 0; round < 30; round++) {
        memset(window, 0, sizeof window);
        for (int t = 0, n; t < N; t += n) {     /* chunks of random sizes */
            n = 1 + (int)(rand_u64() % 8);
            n = n < N - t ? n : N - t;
            RUN(dev, conv, .y = z + t * C, .x = x + t * C, .w = w, .window = window, .n_tokens = n, .n_channels = C, .taps = TAPS);
        }
        for (int i = 0; i < N * C; i++)
            assert_true(fabsf(z[i] - y[i]) <= 1e-6f * (fabsf(y[i]) + 1));
    }
    free(x), free(w), free(z);
}

static int open_dev(void **state) { (void)state; dev = dev_open_cpu(2, NULL); return !dev; }
static int close_dev(void **state) { (void)state; dev_close(dev); return 0; }

/* From raw rows, in two calls: the bits of convolution, gates and rule one after the other, and their window. */
static void test_deltanet__raw_rows_give_the_bits_of_the_operations_one_by_one(void **unused)
{
    (void)unused;
    enum { N = 150, HK = 2, HV = 6, DIM = 16, TAPS = 4, W = (2 * HK + HV) * DIM, FIRST = 2 };
    float *x = rand_array((size_t)N * W, 1), *w = rand_array((size_t)W * TAPS, 0.5f), *window[2], *state[2], *y[2];
    float *a = rand_array((size_t)N * HV, 2), *b = rand_array((size_t)N * HV, 1), *a_log = rand_array(HV, 1), *dt = rand_array(HV, 1);
    float *c = malloc(sizeof(float) * N * W), *beta = malloc(sizeof(float) * N * HV), *g = malloc(sizeof(float) * N * HV);
    window[0] = rand_array((TAPS - 1) * W, 1);
    window[1] = memcpy(malloc(sizeof(float) * (TAPS - 1) * W), window[0], sizeof(float) * (TAPS - 1) * W);
    state[0] = rand_array(HV * DIM * DIM, 0.3f);
    state[1] = memcpy(malloc(sizeof(float) * HV * DIM * DIM), state[0], sizeof(float) * HV * DIM * DIM);
    y[0] = malloc(sizeof(float) * N * HV * DIM);
    y[1] = malloc(sizeof(float) * N * HV * DIM);
    for (int from = 0, n = FIRST; from < N; from += n, n = N - from) {
        const struct deltanet_raw raw = {.x = x, .first = from, .w = w, .window = window[1], .a = a + from * HV, .b = b + from * HV, .a_log = a_log,
                                         .dt_bias = dt, .taps = TAPS};
        struct deltanet_chunk_args chunk = {.y = y[0] + from * HV * DIM, .c = c, .beta = beta, .g = g, .state = state[0], .n_tokens = n,
                                            .n_k_heads = HK, .n_v_heads = HV, .dk = DIM, .dv = DIM, .pos = 62 + from};
        RUN(dev, conv, .y = c, .x = x + from * W, .w = w, .window = window[0], .n_tokens = n, .n_channels = W, .taps = TAPS);
        RUN(dev, deltanet_gates, .c = c, .beta = beta, .g = g, .a = raw.a, .b = raw.b, .a_log = a_log, .dt_bias = dt, .n_tokens = n,
            .n_k_heads = HK, .n_v_heads = HV, .dk = DIM, .dv = DIM);
        dev->ops->deltanet_chunk(dev, &chunk);
        chunk.y = y[1] + from * HV * DIM;
        chunk.state = state[1];
        chunk.raw = &raw;
        dev->ops->deltanet_chunk(dev, &chunk);
    }
    assert_memory_equal(y[0], y[1], sizeof(float) * N * HV * DIM);
    assert_memory_equal(state[0], state[1], sizeof(float) * HV * DIM * DIM);
    assert_memory_equal(window[0], window[1], sizeof(float) * (TAPS - 1) * W);
    float *all[] = {x, w, a, b, a_log, dt, c, beta, g, window[0], window[1], state[0], state[1], y[0], y[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv__any_way_of_feeding_gives_the_same_bits),
        cmocka_unit_test(test_deltanet__gates_follow_their_formulas),
        cmocka_unit_test(test_deltanet__raw_rows_give_the_bits_of_the_operations_one_by_one),
        cmocka_unit_test(test_deltanet__chunks_agree_with_the_recurrence),
        cmocka_unit_test(test_deltanet__chunks_cut_at_multiples_of_64_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, open_dev, close_dev);
}
