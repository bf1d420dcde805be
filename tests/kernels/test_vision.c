/* The operations of the vision tower against their formulas in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "backend/dev.h"
#include "kernels/cpu/vec.h"
#include "tests/kernels/rand.h"

static struct dev *dev;

static void test_vision__layernorm_and_both_gelus(void **state)
{
    (void)state;
    enum { N = 5, D = 72 };
    float *x = rand_array(N * D, 3), *w = rand_array(D, 1), *b = rand_array(D, 1), *y = malloc(N * D * sizeof *y);
    for (int i = 0; i < N * D; i++)
        x[i] += 2;
    RUN(dev, layernorm, .y = y, .x = x, .w = w, .b = b, .n_rows = N, .dim = D, .eps = 1e-6f);
    for (int r = 0; r < N; r++) {
        double mean = 0, var = 0;
        for (int i = 0; i < D; i++)
            mean += (double)x[r * D + i] / D;
        for (int i = 0; i < D; i++)
            var += ((double)x[r * D + i] - mean) * ((double)x[r * D + i] - mean) / D;
        for (int i = 0; i < D; i++) {
            const double want = ((double)x[r * D + i] - mean) / sqrt(var + 1e-6) * (double)w[i] + (double)b[i];
            assert_true(fabs((double)y[r * D + i] - want) <= 2e-6 * (1 + fabs(want)));
        }
    }
    for (int exact = 0; exact < 2; exact++) {
        memcpy(y, x, N * D * sizeof *y);
        RUN(dev, gelu, .x = y, .n_rows = N, .dim = D, .exact = exact);
        for (int i = 0; i < N * D; i++) {
            const double v = (double)x[i], tanh_form = v / 2 * (1 + tanh(sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
            const double want = exact ? v / 2 * (1 + erf(v / sqrt(2))) : tanh_form;
            assert_true(fabs((double)y[i] - want) <= 2e-6 * fmax(1, fabs(v)));
        }
    }
    free(x), free(w), free(b), free(y);
}

static void test_vision__with_a_gelu_is_the_product_and_then_the_gelu(void **state)
{
    (void)state;
    enum { N = 5, ROWS = 21, COLS = 40 };
    float *x = rand_array(N * COLS, 2), *m = rand_array(ROWS * COLS, 0.3f), *b = rand_array(ROWS, 1), *y = malloc(N * ROWS * sizeof *y);
    float *want = malloc(N * ROWS * sizeof *want);
    const struct weight w = {.format = WEIGHT_DENSE, .dtype = DT_F32, .rows = ROWS, .cols = COLS, .data = m};
    for (int exact = 0; exact < 2; exact++) {
        const struct gelu_args gelu = {.x = y, .n_rows = N, .dim = ROWS, .exact = exact};
        RUN(dev, linear_dense, .l = {.y = want, .x = x, .w = w, .n_tokens = N, .bias = b});
        RUN(dev, gelu, .x = want, .n_rows = N, .dim = ROWS, .exact = exact);
        RUN(dev, linear_dense, .l = {.y = y, .x = x, .w = w, .n_tokens = N, .bias = b, .gelu = &gelu});
        assert_memory_equal(y, want, N * ROWS * sizeof *y);
    }
    free(x), free(m), free(b), free(y), free(want);
}

static void test_vision__a_bias_is_added_once(void **state)
{
    (void)state;
    enum { N = 5, ROWS = 21, COLS = 40 };
    float *x = rand_array(N * COLS, 1), *m = rand_array(ROWS * COLS, 1), *b = rand_array(ROWS, 1), *old = rand_array(N * ROWS, 1);
    float *y = malloc(N * ROWS * sizeof *y);
    const struct weight w = {.format = WEIGHT_DENSE, .dtype = DT_F32, .rows = ROWS, .cols = COLS, .data = m};
    for (int add = 0; add < 2; add++) {
        memcpy(y, old, N * ROWS * sizeof *y);
        RUN(dev, linear_dense, .l = {.y = y, .x = x, .w = w, .n_tokens = N, .add = add, .bias = b});
        for (int i = 0; i < N * ROWS; i++) {
            double want = (double)b[i % ROWS] + (add ? (double)old[i] : 0);
            for (int k = 0; k < COLS; k++)
                want += (double)m[i % ROWS * COLS + k] * (double)x[i / ROWS * COLS + k];
            assert_true(fabs((double)y[i] - want) <= 1e-5);
        }
    }
    free(x), free(m), free(b), free(old), free(y);
}

/* Patches of pixels whose values name their places. */
static void test_vision__patches_come_in_blocks_of_four(void **state)
{
    (void)state;
    enum { H = 4, W = 6, SIDE = PATCH_SIDE, AREA = SIDE * SIDE };
    static uint8_t rgb[H * SIDE][W * SIDE][3];
    static const int order[H * W][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {0, 4}, {0, 5}, {1, 4}, {1, 5},
                                        {2, 0}, {2, 1}, {3, 0}, {3, 1}, {2, 2}, {2, 3}, {3, 2}, {3, 3}, {2, 4}, {2, 5}, {3, 4}, {3, 5}};
    for (int y = 0; y < H * SIDE; y++)
        for (int x = 0; x < W * SIDE; x++)
            for (int c = 0; c < 3; c++)
                rgb[y][x][c] = (uint8_t)(7 * y + 13 * x + 101 * c);
    float *out = malloc(H * W * PATCH_NUMBERS * sizeof *out);
    for (int first = 0; first < H * W; first += 5)
        RUN(dev, patch_cut, .x = out + first * PATCH_NUMBERS, .rgb = &rgb[0][0][0], .first = first, .n_rows = first + 5 > H * W ? H * W - first : 5,
            .grid_w = W);
    for (int i = 0; i < H * W; i++)
        for (int k = 0; k < PATCH_NUMBERS; k++) {
            const int c = k / (2 * AREA), y = order[i][0] * SIDE + k / SIDE % SIDE, x = order[i][1] * SIDE + k % SIDE;
            assert_true(fabs((double)out[i * PATCH_NUMBERS + k] - (rgb[y][x][c] / 127.5 - 1)) <= 1e-6);
        }
    free(out);
}

/* Aligned corners: the table's corner rows belong to the corner patches. */
static void test_vision__positions_reach_from_corner_to_corner(void **state)
{
    (void)state;
    enum { SIDE = 5, D = 8 };
    static const int grids[][2] = {{2, 2}, {2, 12}, {10, 6}, {4, 14}};
    float *table = rand_array(SIDE * SIDE * D, 1);
    const struct weight w = {.format = WEIGHT_DENSE, .dtype = DT_F32, .rows = SIDE * SIDE, .cols = D, .data = table};
    for (size_t g = 0; g < sizeof grids / sizeof *grids; g++) {
        const int h = grids[g][0], wide = grids[g][1], n = h * wide;
        float *x = rand_array((size_t)(n * D), 1), *y = malloc((size_t)(n * D) * sizeof *y);
        memcpy(y, x, (size_t)(n * D) * sizeof *y);
        RUN(dev, patch_positions, .x = y, .table = w, .side = SIDE, .n_rows = n, .grid_h = h, .grid_w = wide);
        for (int i = 0; i < n; i++) {
            const struct patch_place p = patch_place(i, wide);
            const double r = p.row * (SIDE - 1.0) / (h - 1), c = p.col * (SIDE - 1.0) / (wide - 1);
            for (int j = 0; j < D; j++) {
                double want = (double)x[i * D + j];
                for (int k = 0; k < SIDE * SIDE; k++)   /* hats around each row of the table */
                    want += fmax(0, 1 - fabs(r - k / SIDE)) * fmax(0, 1 - fabs(c - k % SIDE)) * (double)table[k * D + j];
                assert_true(fabs((double)y[i * D + j] - want) <= 1e-5);
            }
        }
        free(x), free(y);
    }
    free(table);
}

/* q, k and v of a grid, then attention of some rows, in both ways that they are stored. */
static void test_vision__heads_are_turned_and_attend_to_all(void **state)
{
    (void)state;
    enum { H = 6, W = 12, N = H * W, HEADS = 2, D = 24, FIRST = 8, ROWS = 61 };
    float freq[D / 4], *qkv = rand_array(N * 3 * HEADS * D, 1), *y = malloc(ROWS * HEADS * D * sizeof *y), *stored[3];
    static double turned[3][HEADS][N][D];
    for (int i = 0; i < D / 4; i++)
        freq[i] = (float)pow(1e4, -4.0 * i / D);
    for (int i = 0; i < 3; i++)
        stored[i] = malloc(HEADS * N * D * sizeof *stored[i]);
    for (int first = 0; first < N; first += 20)
        RUN(dev, patch_rope, .q = stored[0], .k = stored[1], .v = stored[2], .dtype = DT_F32, .qkv = qkv + (size_t)first * 3 * HEADS * D,
            .freq = freq, .first = first, .n_rows = first + 20 > N ? N - first : 20, .n = N, .n_heads = HEADS, .dim = D, .grid_w = W);
    for (int which = 0; which < 3; which++)
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < N; i++)
                for (int j = 0; j < D; j++) {
                    const struct patch_place p = patch_place(i, W);
                    const float *x = qkv + ((size_t)(i * 3 + which) * HEADS + (size_t)h) * D;
                    const int pair = j % (D / 2);
                    const double angle = pair < D / 4 ? p.row * (double)freq[pair] : p.col * (double)freq[pair - D / 4];
                    const double other = j < D / 2 ? -(double)x[j + D / 2] : (double)x[j - D / 2];
                    turned[which][h][i][j] = which < 2 ? (double)x[j] * cos(angle) + other * sin(angle) : (double)x[j];
                    assert_true(fabs((double)stored[which][((size_t)h * N + (size_t)i) * D + (size_t)j] - turned[which][h][i][j]) <= 1e-5);
                }
    RUN(dev, patch_attention, .y = y, .q = stored[0], .k = stored[1], .v = stored[2], .dtype = DT_F32, .first = FIRST, .n_rows = ROWS, .n = N,
        .n_heads = HEADS, .dim = D, .scale = 0.2f);
    for (int r = 0; r < ROWS; r++)
        for (int h = 0; h < HEADS; h++) {
            double weight[N], sum = 0;
            for (int p = 0; p < N; p++) {
                double dot = 0;
                for (int j = 0; j < D; j++)
                    dot += turned[0][h][FIRST + r][j] * turned[1][h][p][j];
                sum += weight[p] = exp(dot * (double)0.2f);
            }
            for (int j = 0; j < D; j++) {
                double want = 0;
                for (int p = 0; p < N; p++)
                    want += weight[p] / sum * turned[2][h][p][j];
                assert_true(fabs((double)y[(r * HEADS + h) * D + j] - want) <= 1e-5);
            }
        }
    for (int i = 0; i < 3; i++)
        free(stored[i]);
    free(qkv), free(y);
}

static int open_cpu(void **state)
{
    struct err e = {0};
    (void)state;
    dev = dev_open("cpu", 2, &e);
    return dev ? 0 : -1;
}

static int close_cpu(void **state)
{
    (void)state;
    dev_close(dev);
    return 0;
}

int main(void)
{
#define T(name) cmocka_unit_test(test_vision__##name)
    const struct CMUnitTest tests[] = {
        T(layernorm_and_both_gelus), T(with_a_gelu_is_the_product_and_then_the_gelu), T(a_bias_is_added_once),
        T(patches_come_in_blocks_of_four), T(positions_reach_from_corner_to_corner), T(heads_are_turned_and_attend_to_all),
    };
    return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}
