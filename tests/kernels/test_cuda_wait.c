/* step_experts when a producer is missing: a fault with a sentence, not a hang.  A program of its own, since such a fault ends the
 * process's use of the GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "backend/dev.h"
#include "base/clock.h"
#include "kernels/pack.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/rand_weight.h"

enum { HIDDEN = 256, INTER = 128, EXPERTS = 4, TOP_K = 2 };

/* Packed bf16 matrices of random numbers in device memory, one after the other. */
static struct weight matrices(int n, int rows, int cols, bool pair)
{
    const float unit = 1 / sqrtf((float)cols);
    const size_t bytes = pack_bytes(WEIGHT_DENSE, rows, cols);
    char *all = calloc((size_t)n, bytes);
    assert_non_null(all);
    for (int i = 0; i < n; i++) {
        const struct spread s = {unit, 0.2f * unit, 0.01f * unit, 0.01f * unit, 0.5f};
        struct weight a = rand_weight(WEIGHT_DENSE, pair ? rows / 2 : rows, cols, s), b = rand_weight(WEIGHT_DENSE, pair ? rows / 2 : rows, cols, s);
        assert_true(pair ? pack_pair(&a, &b, all + (size_t)i * bytes) : pack_matrix(&a, all + (size_t)i * bytes));
        free((void *)(uintptr_t)a.data);
        free((void *)(uintptr_t)b.data);
    }
    struct weight w = packed_view(WEIGHT_DENSE, rows, cols, upload(all, (size_t)n * bytes));
    free(all);
    return w;
}

static float *normals(size_t n)
{
    float *p = rand_array(n, 1), *d = upload(p, n * sizeof *p);
    free(p);
    return d;
}

/* All experts of one matrix of each kind, at equal distances. */
static void spread_experts(struct expert_weights x[EXPERTS], const struct weight *pair, const struct weight *down)
{
    for (size_t e = 0; e < EXPERTS; e++) {
        x[e] = (struct expert_weights){.gate = *pair, .down = *down};
        x[e].gate.data = (const char *)pair->data + e * pack_bytes(WEIGHT_DENSE, 2 * INTER, HIDDEN);
        x[e].down.data = (const char *)down->data + e * pack_bytes(WEIGHT_DENSE, HIDDEN, INTER);
    }
}

/* One row.  `pair`: what makes h. */
static bool run(const struct weight *pair, const struct weight *down, const struct expert_weights *shared, int64_t *stream, bool check, struct err *e)
{
    const size_t space = step_experts_space(1, EXPERTS, TOP_K, INTER) * sizeof(float);
    char *missing = malloc(space);
    assert_non_null(missing);
    float *h = upload(memset(missing, STEP_MISSING & 255, space), space);
    free(missing);
    struct expert_weights experts[EXPERTS];
    spread_experts(experts, pair, down);
    const struct step_choice choice = {.logits = normals(EXPERTS), .n_logits = 1, .logit_step = EXPERTS, .overlap = -1, .n_experts = EXPERTS,
                                       .top_k = TOP_K};
    STEP(cuda, step_experts, .stream = stream, .h = h, .choice = choice, .x = normals(HIDDEN), .experts = experts, .shared = shared,
         .shared_gate = normals(1), .n_gates = 1, .gate_step = 1, .check = check, .n_rows = 1, .hidden = HIDDEN, .inter = INTER);
    return cuda->finish(cuda, e);
}

static void test_step_experts__a_lost_producer_ends_in_a_fault(void **state)
{
    (void)state;
    need_gpu();
    struct err e = {0};
    int64_t zeros[HIDDEN] = {0}, got[HIDDEN], *stream = upload(zeros, sizeof zeros);
    struct weight pair = matrices(EXPERTS, 2 * INTER, HIDDEN, true), down = matrices(EXPERTS, HIDDEN, INTER, false);
    const struct expert_weights shared = {.gate = matrices(1, 2 * INTER, HIDDEN, true), .down = matrices(1, HIDDEN, INTER, false)};

    assert_true(run(&pair, &down, &shared, stream, true, &e));
    download(got, stream, sizeof got);
    assert_memory_equal(got, zeros, sizeof got);        /* only a question */

    assert_true(run(&pair, &down, &shared, stream, false, &e));
    download(got, stream, sizeof got);
    assert_memory_not_equal(got, zeros, sizeof got);

    pair.rows -= PACK_ROWS;             /* nobody makes the last eight values of an expert */
    const int64_t start = clock_ns();
    assert_false(run(&pair, &down, &shared, stream, false, &e));
    print_message("%.1f s: %s\n", (double)clock_ms_since(start) / 1000, e.msg);
    assert_non_null(strstr(e.msg, "the GPU stopped in step_experts: a thread block waited in vain"));

    struct err again = {0};             /* and it stays so */
    assert_false(cuda->finish(cuda, &again));
    assert_string_equal(again.msg, e.msg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_experts__a_lost_producer_ends_in_a_fault),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
