/* Norms, rope, KV rows, attention and the mixture of experts against their formulas in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/dev.h"
#include "kernels/cpu/vec.h"
#include "tests/kernels/rand_weight.h"

static struct dev *dev;

static void test_rmsnorm__strided_heads_and_plain_rows(void **state)
{
    (void)state;
    enum { N = 5, HEADS = 3, D = 48 };
    float *x = rand_array(N * HEADS * 2 * D, 2), *w = rand_array(D, 0.5f), *y = malloc(N * HEADS * D * sizeof *y);
    RUN(dev, rmsnorm, .y = y, .x = x, .w = w, .n_rows = N * HEADS, .dim = D, .eps = 1e-6f, .per_group = HEADS,
        .x_group = HEADS * 2 * D, .x_row = 2 * D, .y_group = HEADS * D, .y_row = D);
    for (int r = 0; r < N * HEADS; r++) {
        double sum = 0;
        for (int i = 0; i < D; i++)
            sum += (double)x[r * 2 * D + i] * (double)x[r * 2 * D + i];
        for (int i = 0; i < D; i++) {
            double want = (double)x[r * 2 * D + i] / sqrt(sum / D + 1e-6) * (1 + (double)w[i]);
            assert_true(fabs((double)y[r * D + i] - want) <= 1e-6 * fabs(want) + 1e-9);
        }
    }
    float *z = rand_array(N * D, 2), *u = malloc(N * D * sizeof *u);
    RUN(dev, rmsnorm_gated, .y = u, .x = x, .z = z, .w = w, .n_rows = N, .dim = D, .eps = 1e-6f);
    for (int r = 0; r < N; r++) {
        double sum = 0;
        for (int i = 0; i < D; i++)
            sum += (double)x[r * D + i] * (double)x[r * D + i];
        for (int i = 0; i < D; i++) {
            double g = (double)z[r * D + i], want = (double)w[i] * (double)x[r * D + i] / sqrt(sum / D + 1e-6) * g / (1 + exp(-g));
            assert_true(fabs((double)u[r * D + i] - want) <= 2e-6 * fabs(want) + 1e-9);
        }
    }
    free(x), free(w), free(y), free(z), free(u);
}

static void test_rope__turns_pairs_and_keeps_the_rest(void **state)
{
    (void)state;
    enum { N = 3, HEADS = 2, D = 256, HALF = 32, POS = 70000 };
    float freq[HALF], *x = rand_array(N * HEADS * D, 1), *y = malloc(N * HEADS * D * sizeof *y);
    for (int i = 0; i < HALF; i++)
        freq[i] = (float)pow(1e7, -2.0 * i / 64);
    memcpy(y, x, N * HEADS * D * sizeof *y);
    RUN(dev, rope, .x = y, .token_stride = HEADS * D, .head_stride = D, .freq = freq, .n_tokens = N, .n_heads = HEADS,
        .half = HALF, .first = POS, .scale = 1.1f);
    for (int t = 0; t < N; t++)
        for (int i = 0; i < HEADS * D; i++) {
            int d = i % D, k = d % HALF;
            double angle = (double)((float)(POS + t) * freq[k]), a = (double)x[t * HEADS * D + i];
            double want = a;
            if (d < HALF)
                want = (a * cos(angle) - (double)x[t * HEADS * D + i + HALF] * sin(angle)) * (double)1.1f;
            else if (d < 2 * HALF)
                want = (a * cos(angle) + (double)x[t * HEADS * D + i - HALF] * sin(angle)) * (double)1.1f;
            assert_true(fabs((double)y[t * HEADS * D + i] - want) <= 1e-5);
        }
    free(x), free(y);
}

/* Checks the axes: of 32 pairs 1, 4, ... 31 turn by the row of the picture, 2, 5, ... 29 by the column, and the others by the time. */
static void test_rope__pairs_turn_by_the_axis_that_is_theirs(void **state)
{
    (void)state;
    enum { N = 4, HEADS = 3, HALF = 32, D = 80 };
    static const struct rope_position at[N] = {{7, 7, 7}, {100, 104, 117}, {100, 2000, 131}, {262000, 5, 90000}};
    static const char axes[] = "thwthwthwthwthwthwthwthwthwthwth";
    float freq[HALF], *x = rand_array(N * HEADS * D, 1), *y = malloc(N * HEADS * D * sizeof *y), *text = malloc(N * HEADS * D * sizeof *text);
    for (int i = 0; i < HALF; i++)
        freq[i] = (float)pow(1e7, -2.0 * i / 64);
    memcpy(y, x, N * HEADS * D * sizeof *y);
    memcpy(text, x, N * HEADS * D * sizeof *text);
    RUN(dev, rope, .x = y, .token_stride = HEADS * D, .head_stride = D, .freq = freq, .n_tokens = N, .n_heads = HEADS, .half = HALF, .at = at,
        .scale = 1);
    RUN(dev, rope, .x = text, .token_stride = HEADS * D, .head_stride = D, .freq = freq, .n_tokens = N, .n_heads = HEADS, .half = HALF, .first = 7,
        .scale = 1);
    assert_memory_equal(y, text, HEADS * D * sizeof *y);        /* a row whose three numbers are equal */
    for (int i = 0; i < N * HEADS * D; i++) {
        const int t = i / (HEADS * D), d = i % D, pair = d % HALF;
        const int pos = axes[pair] == 't' ? at[t].t : axes[pair] == 'h' ? at[t].h : at[t].w;
        const double angle = (double)((float)pos * freq[pair]), a = (double)x[i];
        const double want = d < HALF ? a * cos(angle) - (double)x[i + HALF] * sin(angle)
                          : d < 2 * HALF ? a * cos(angle) + (double)x[i - HALF] * sin(angle) : a;
        assert_true(fabs((double)y[i] - want) <= 1e-5);
    }
    free(x), free(y), free(text);
}

static void test_attention__agrees_with_softmax_in_double_for_both_row_types(void **state)
{
    (void)state;
    static const struct { int q, kv, dim, pos, n; } cases[] = {
        {4, 1, 256, 0, 1}, {32, 2, 256, 130, 5}, {16, 2, 64, 63, 3}, {6, 3, 40, 0, 70}, {4, 2, 8, 500, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int type = 0; type < 2; type++) {
            int Q = cases[i].q, K = cases[i].kv, D = cases[i].dim, pos = cases[i].pos, n = cases[i].n, len = pos + n;
            size_t row = (size_t)(K * D);
            float *q = rand_array((size_t)(n * Q * 2 * D), 1), *k = rand_array((size_t)len * row, 1), *v = rand_array((size_t)len * row, 1);
            float *y = malloc((size_t)(n * Q * D) * sizeof *y), *one = malloc((size_t)(Q * D) * sizeof *one);
            struct kv_rows kv = {.k = malloc((size_t)len * row * 4), .v = malloc((size_t)len * row * 4), .dtype = type ? DT_BF16 : DT_F32,
                                 .n_kv_heads = K, .head_dim = D};
            RUN(dev, kv_store, .kv = kv, .k = k, .v = v, .n_tokens = pos, .pos = 0);
            RUN(dev, kv_store, .kv = kv, .k = k + (size_t)pos * row, .v = v + (size_t)pos * row, .n_tokens = n, .pos = pos);
            if (type)                                   /* what was stored */
                for (size_t j = 0; j < (size_t)len * row; j++) {
                    k[j] = bf16_f32(f32_bf16(k[j]));
                    v[j] = bf16_f32(f32_bf16(v[j]));
                }
            struct attention_args a = {.y = y, .q = q, .q_token = (size_t)(Q * 2 * D), .q_head = (size_t)(2 * D), .kv = kv,
                                       .n_tokens = n, .n_q_heads = Q, .pos = pos, .scale = 0.3f};
            dev->ops->attention(dev, &a);
            for (int t = 0; t < n; t++)
                for (int h = 0; h < Q; h++) {
                    double s[1024], max = -1e300, sum = 0;
                    for (int p = 0; p <= pos + t; p++) {
                        s[p] = 0;
                        for (int d = 0; d < D; d++)
                            s[p] += (double)q[(t * Q + h) * 2 * D + d] * (double)k[(size_t)p * row + (size_t)(h / (Q / K) * D + d)];
                        s[p] *= (double)0.3f;
                        max = s[p] > max ? s[p] : max;
                    }
                    for (int p = 0; p <= pos + t; p++)
                        sum += s[p] = exp(s[p] - max);
                    for (int d = 0; d < D; d++) {
                        double want = 0;
                        for (int p = 0; p <= pos + t; p++)
                            want += s[p] / sum * (double)v[(size_t)p * row + (size_t)(h / (Q / K) * D + d)];
                        assert_true(fabs((double)y[(t * Q + h) * D + d] - want) <= 2e-5);
                    }
                }
            for (int t = 0; t < n; t++) {               /* the same bits one token at a time */
                struct attention_args b = a;
                b.y = one, b.q = q + (size_t)t * a.q_token, b.pos = pos + t, b.n_tokens = 1;
                dev->ops->attention(dev, &b);
                assert_memory_equal(one, y + (size_t)(t * Q * D), (size_t)(Q * D) * sizeof *one);
            }
            free(q), free(k), free(v), free(y), free(one), free(kv.k), free(kv.v);
        }
}

static void test_attention__norms_and_turns_queries_as_these_operations_do(void **state)
{
    (void)state;
    enum { N = 5, Q = 4, K = 2, D = 64, HALF = 8, POS = 20 };
    const size_t q_token = Q * 2 * D, rows = (POS + N) * K * D;
    float *q = rand_array(N * q_token, 1), *k = rand_array(rows, 1), *v = rand_array(rows, 1), *norm = rand_array(D, 0.5f), freq[HALF];
    float *raw = malloc(N * q_token * sizeof *raw), *want = malloc(N * Q * D * sizeof *want), *got = malloc(N * Q * D * sizeof *got);
    struct rope_position at[N];
    for (int i = 0; i < HALF; i++)
        freq[i] = powf(1e4f, -(float)i / HALF);
    for (int i = 0; i < N; i++)
        at[i] = (struct rope_position){POS + i, POS + 2 * i, POS + i % 2};
    memcpy(raw, q, N * q_token * sizeof *raw);
    struct attention_args a = {.y = got, .q = raw, .q_token = q_token, .q_head = 2 * D, .n_tokens = N, .n_q_heads = Q, .pos = POS, .scale = 0.2f,
                               .kv = {.k = k, .v = v, .dtype = DT_F32, .n_kv_heads = K, .head_dim = D},
                               .turn = {.norm = norm, .eps = 1e-6f, .freq = freq, .half = HALF, .at = at, .scale = 1.2f}};
    dev->ops->attention(dev, &a);
    assert_memory_equal(raw, q, N * q_token * sizeof *raw);
    RUN(dev, rmsnorm, .y = q, .x = q, .w = norm, .n_rows = N * Q, .dim = D, .eps = 1e-6f, .per_group = Q, .x_group = q_token, .x_row = 2 * D,
        .y_group = q_token, .y_row = 2 * D);
    RUN(dev, rope, .x = q, .token_stride = q_token, .head_stride = 2 * D, .freq = freq, .n_tokens = N, .n_heads = Q, .half = HALF, .at = at,
        .scale = 1.2f);
    a.turn.norm = NULL, a.q = q, a.y = want;
    dev->ops->attention(dev, &a);
    assert_memory_equal(got, want, N * Q * D * sizeof *got);
    free(q), free(k), free(v), free(norm), free(raw), free(want), free(got);
}

static void test_router__picks_the_largest_and_renormalises(void **state)
{
    (void)state;
    enum { N = 50, E = 256, K = 8 };
    float *l = rand_array(N * E, 2), w[N * K];
    int32_t top[N * K];
    l[3] = l[200] = 50;                                 /* a tie: the lower index first */
    RUN(dev, router, .experts = top, .weights = w, .logits = l, .n_tokens = N, .n_experts = E, .top_k = K);
    assert_int_equal(top[0], 3);
    assert_int_equal(top[1], 200);
    for (int t = 0; t < N; t++) {
        double all = 0;
        for (int j = 0; j < K; j++)
            all += exp((double)l[t * E + top[t * K + j]]);
        for (int j = 0; j < K; j++) {
            float mine = l[t * E + top[t * K + j]];
            assert_true(fabs((double)w[t * K + j] - exp((double)mine) / all) < 1e-5);
            int larger = 0;
            for (int e = 0; e < E; e++)
                larger += l[t * E + e] > mine || (l[t * E + e] == mine && e < top[t * K + j]);
            assert_int_equal(larger, j);
        }
    }
    free(l);
}

static struct weight bf16_matrix(int rows, int cols)
{
    size_t n = (size_t)(rows * cols);
    uint16_t *h = malloc(n * 2);
    for (size_t i = 0; i < n; i++)
        h[i] = f32_bf16(rand_normal() * 0.2f);
    return (struct weight){.format = WEIGHT_DENSE, .dtype = DT_BF16, .rows = rows, .cols = cols, .data = h};
}
static double at(const struct weight *w, int r, int c) { return (double)bf16_f32(((const uint16_t *)w->data)[r * w->cols + c]); }

static void test_moe__grouped_experts_give_the_weighted_sum_of_each(void **state)
{
    (void)state;
    enum { N = 21, E = 6, K = 3, H = 24, I = 20, S = 33, SLOTS = K + 1, MAX = S };
    struct expert_weights ex[E], shared = {bf16_matrix(S, H), bf16_matrix(S, H), bf16_matrix(H, S)};
    for (int e = 0; e < E; e++)
        ex[e] = (struct expert_weights){bf16_matrix(I, H), bf16_matrix(I, H), bf16_matrix(H, I)};
    float *x = rand_array(N * H, 1), *y = rand_array(N * H, 1), *logits = rand_array(N * E, 1), *sg = rand_array(N, 1), y0[N * H], w[N * K];
    float h[N * SLOTS * MAX], d[N * SLOTS * H];
    int32_t top[N * K], start[E + 2], slots[N * SLOTS];
    memcpy(y0, y, sizeof y0);
    for (int t = 0; t < N; t++)
        logits[t * E + 4] = -1e9f;                      /* an expert that nobody takes */
    RUN(dev, router, .experts = top, .weights = w, .logits = logits, .n_tokens = N, .n_experts = E, .top_k = K);
    RUN(dev, moe_group, .start = start, .slots = slots, .experts = top, .n_tokens = N, .n_experts = E, .top_k = K);
    assert_int_equal(start[5] - start[4], 0);
    assert_int_equal(start[E + 1] - start[E], N);
    RUN(dev, experts_up, .h = h, .x = x, .experts = ex, .shared = &shared, .start = start, .slots = slots, .n_tokens = N,
        .n_experts = E, .top_k = K, .inter_max = MAX);
    RUN(dev, experts_down, .d = d, .h = h, .experts = ex, .shared = &shared, .start = start, .slots = slots, .n_tokens = N,
        .n_experts = E, .top_k = K, .inter_max = MAX);
    RUN(dev, moe_combine, .x = y, .d = d, .weights = w, .shared_gate = sg, .n_tokens = N, .top_k = K, .hidden = H);
    for (int t = 0; t < N; t++) {
        double want[H];
        for (int i = 0; i < H; i++)
            want[i] = (double)y0[t * H + i];
        for (int j = 0; j <= K; j++) {
            const struct expert_weights *e = j < K ? &ex[top[t * K + j]] : &shared;
            double weight = j < K ? (double)w[t * K + j] : 1 / (1 + exp(-(double)sg[t]));
            for (int m = 0; m < e->gate.rows; m++) {
                double g = 0, u = 0;
                for (int i = 0; i < H; i++) {
                    g += at(&e->gate, m, i) * (double)x[t * H + i];
                    u += at(&e->up, m, i) * (double)x[t * H + i];
                }
                for (int i = 0; i < H; i++)
                    want[i] += weight * at(&e->down, i, m) * g / (1 + exp(-g)) * u;
            }
        }
        for (int i = 0; i < H; i++)
            assert_true(fabs((double)y[t * H + i] - want[i]) < 1e-4);
    }
    for (int e = 0; e < E; e++)
        free((void *)ex[e].gate.data), free((void *)ex[e].up.data), free((void *)ex[e].down.data);
    free((void *)shared.gate.data), free((void *)shared.up.data), free((void *)shared.down.data);
    free(x), free(y), free(logits), free(sg);
}

static void test_dev__threads_cut_the_work_without_changing_it(void **state)
{
    (void)state;
    enum { N = 40, R = 640, C = 256 };
    struct weight w = bf16_matrix(R, C);
    float *x = rand_array(N * C, 1), *y[2] = {malloc(N * R * sizeof(float)), malloc(N * R * sizeof(float))};
    for (int i = 0; i < 2; i++) {
        struct dev *d = dev_open_cpu(i ? 7 : 1, NULL);
        for (int round = 0; round < (i ? 200 : 1); round++)
            RUN(d, linear_dense, .l = {.y = y[i], .x = x, .w = w, .n_tokens = N});
        dev_close(d);
    }
    assert_memory_equal(y[0], y[1], N * R * sizeof(float));
    free((void *)w.data), free(x), free(y[0]), free(y[1]);
}

/* Returns the bytes of this process that are in memory. */
static long resident(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d %ld", &pages), 1);
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

static void test_dev__zeroed_memory_takes_room_only_when_it_is_written(void **state)
{
    (void)state;
    enum { LARGE = 1 << 30, SMALL = 100 };
    const long before = resident();
    char *p = dev->alloc_kv(dev, LARGE), *q = dev->alloc(dev, SMALL);
    assert_true(resident() - before < LARGE / 4);               /* an eighth, where a sanitizer notes what may be read */
    assert_int_equal((uintptr_t)p % 64 + (uintptr_t)q % 64, 0);
    for (int i = 0; i < SMALL; i++)
        assert_int_equal(p[(size_t)i * (LARGE / SMALL)] + q[i], 0);
    dev->free(dev, p);
    dev->free(dev, q);
    assert_null(dev->alloc(dev, SIZE_MAX));
}

static int open_dev(void **state) { (void)state; dev = dev_open_cpu(2, NULL); return !dev; }
static int close_dev(void **state) { (void)state; dev_close(dev); return 0; }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rmsnorm__strided_heads_and_plain_rows),
        cmocka_unit_test(test_rope__turns_pairs_and_keeps_the_rest),
        cmocka_unit_test(test_rope__pairs_turn_by_the_axis_that_is_theirs),
        cmocka_unit_test(test_attention__agrees_with_softmax_in_double_for_both_row_types),
        cmocka_unit_test(test_attention__norms_and_turns_queries_as_these_operations_do),
        cmocka_unit_test(test_router__picks_the_largest_and_renormalises),
        cmocka_unit_test(test_moe__grouped_experts_give_the_weighted_sum_of_each),
        cmocka_unit_test(test_dev__threads_cut_the_work_without_changing_it),
        cmocka_unit_test(test_dev__zeroed_memory_takes_room_only_when_it_is_written),
    };
    return cmocka_run_group_tests(tests, open_dev, close_dev);
}
