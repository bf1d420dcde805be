/* A head in two planes against the INT8 head of the same numbers: logits, picks and drafts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "backend/dev.h"
#include "base/memory.h"
#include "kernels/cpu/vec.h"
#include "model/quantize.h"
#include "tests/kernels/rand.h"
#include "tests/kth.h"

enum { ROWS = 1000, COLS = 200, MAXIMA = 64, N = 3 };

static struct dev *cpu;

/* ---- heads */

/* How the numbers of a head and of the rows that meet it are spread. */
enum kind { NORMAL, HEAVY_TAILS, OUTLIER_COLUMNS, SMALL_NUMBERS, ALONG_A_ROW, N_KINDS };

struct heads {
    struct arena  memory;
    struct weight int8, planes;
    int           rows, cols;
};

static float heavy(void) { return rand_normal() / (0.05f + fabsf(rand_normal())); }

static struct heads make_heads(enum kind kind, int rows, int cols)
{
    struct heads h = {.rows = rows, .cols = cols};
    float *data = arena_array(&h.memory, (size_t)rows * (size_t)cols, sizeof *data);
    for (int i = 0; i < rows * cols; i++) {
        const bool outlier = i % cols % 97 == 5;
        data[i] = kind == HEAVY_TAILS ? heavy() : rand_normal() * (kind == OUTLIER_COLUMNS && outlier ? 40 : 1);
        data[i] = kind == SMALL_NUMBERS && i % cols ? data[i] / 100 : data[i];       /* a row's first number makes the others small */
    }
    const struct weight dense = {.format = WEIGHT_DENSE, .dtype = DT_F32, .rows = rows, .cols = cols, .data = data};
    h.int8 = quantize_int8(&dense, &h.memory);
    h.planes = quantize_planes(&dense, &h.memory);
    return h;
}

static void close_heads(struct heads *h) { arena_free(&h->memory); }

static void fill_rows(float *x, int n, const struct heads *h, enum kind kind)
{
    for (int t = 0; t < n; t++) {
        const int8_t *row = (const int8_t *)h->int8.data + (size_t)(rand_u64() % (unsigned)h->rows) * (size_t)h->cols;
        for (int k = 0; k < h->cols; k++) {
            float *v = &x[t * h->cols + k];
            *v = kind == HEAVY_TAILS ? heavy() : rand_normal() * (kind == OUTLIER_COLUMNS && k % 97 == 5 ? 30 : 1);
            if (kind == ALONG_A_ROW)
                *v += 0.02f * row[k];
        }
    }
}

/* ---- logits */

struct outcome {
    float *logits, *tile_max;
};

static struct outcome make_outcome(const struct heads *h, int n)
{
    return (struct outcome){calloc((size_t)(n * h->rows), 4), calloc((size_t)(n * step_maxima(h->rows)), 4)};
}

static void free_outcome(struct outcome *o) { free(o->logits), free(o->tile_max); }

struct texts {
    struct step_sampling how;
    uint8_t seen[ROWS];
    float   bias[ROWS];
    int32_t drafts[STEP_ROWS];
};

static void run(struct outcome *o, const struct weight *w, const float *x, int n, const struct texts *by)
{
    for (int t = 0; t < n; t++)         /* a hidden state is one row; drafts count for the first rows alone */
        STEP(cpu, step_logits, .logits = o->logits + (size_t)t * (size_t)w->rows, .tile_max = o->tile_max + (size_t)t * (size_t)step_maxima(w->rows),
             .w = *w, .hidden = x + (size_t)t * (size_t)w->cols, .sampling = &by->how, .seen = by->seen, .bias = by->bias, .drafts = by->drafts,
             .n_rows = 1);
}

/* How many of the k best ids of `want` have other bits in `got`, or are met there by one that is not among them. */
static int missed(const float *got, const float *want, int vocab, int k, int *n_completed)
{
    const float least = kth_greatest(want, vocab, k);
    int n = 0;
    *n_completed = 0;
    for (int i = 0; i < vocab; i++) {
        n += want[i] >= least ? got[i] != want[i] : got[i] >= least;
        *n_completed += got[i] > -INFINITY && got[i] == want[i];
    }
    return n;
}

static void assert_maxima(const struct outcome *o, int vocab)
{
    for (int tile = 0; tile < step_maxima(vocab); tile++) {
        float best = -INFINITY;
        for (int i = 16 * tile; i < 16 * tile + 16 && i < vocab; i++)
            best = fmaxf(best, o->logits[i]);
        assert_true(o->tile_max[tile] == best);
    }
}

static void test_planes__the_best_ids_have_the_logits_of_the_int8_head(void **state)
{
    (void)state;
    static const int wanted[] = {1, 20, 64};
    for (enum kind kind = 0; kind < N_KINDS; kind++) {
        struct heads h = make_heads(kind, ROWS, COLS);
        struct outcome got = make_outcome(&h, N), want = make_outcome(&h, N);
        float x[N * COLS];
        double left[3] = {0};
        for (int i = 0; i < 10; i++) {
            fill_rows(x, N, &h, kind);
            for (int k = 0; k < 3; k++) {
                struct texts by = {.how = {.temperature = k, .top_k = wanted[k], .n_ids = ROWS - i}};
                run(&got, &h.planes, x, N, &by);
                run(&want, &h.int8, x, N, &by);
                for (int t = 0; t < N; t++) {
                    int n;
                    assert_int_equal(missed(got.logits + t * ROWS, want.logits + t * ROWS, ROWS, wanted[k], &n), 0);
                    left[k] += n;
                }
                assert_maxima(&got, ROWS);
            }
        }
        print_message("kind %d: of %d ids, %.0f, %.0f and %.0f may be among the 1, 20 and 64 best\n", (int)kind, ROWS, left[0] / N / 10,
                      left[1] / N / 10, left[2] / N / 10);
        assert_true(kind == SMALL_NUMBERS || left[0] / N / 10 < ROWS / 4);      /* numbers below 16 lie in the lower plane alone */
        free_outcome(&got);
        free_outcome(&want);
        close_heads(&h);
    }
}

static void test_planes__bias_and_penalties_count_before_ids_are_left_out(void **state)
{
    (void)state;
    struct heads h = make_heads(NORMAL, ROWS, COLS);
    struct outcome got = make_outcome(&h, N), want = make_outcome(&h, N);
    float x[N * COLS];
    int n, moved = 0;
    for (int i = 0; i < 10; i++) {
        struct texts by = {.how = {.temperature = 1, .top_k = 5, .presence_penalty = 20, .repetition_penalty = i % 2 ? 1.7f : 0.6f, .biased = 1,
                                   .n_ids = ROWS}};
        fill_rows(x, N, &h, NORMAL);
        for (int id = 0; id < ROWS; id++) {
            by.seen[id] = rand_u64() % 4 ? 0 : rand_u64() % 2 ? STEP_IN_TEXT : STEP_IN_TEXT | STEP_IN_ANSWER;
            by.bias[id] = rand_u64() % 50 ? 0 : rand_u64() % 2 ? -INFINITY : 30 * rand_normal();
        }
        run(&got, &h.planes, x, N, &by);
        run(&want, &h.int8, x, N, &by);
        for (int t = 0; t < N; t++)
            assert_int_equal(missed(got.logits + t * ROWS, want.logits + t * ROWS, ROWS, 5, &n), 0);
        by.how.biased = 0;
        run(&want, &h.int8, x, 1, &by);
        moved += missed(got.logits, want.logits, ROWS, 5, &n) > 0;
    }
    assert_true(moved);
    free_outcome(&got);
    free_outcome(&want);
    close_heads(&h);
}

static void test_planes__who_wants_all_ids_gets_all_logits(void **state)
{
    (void)state;
    const struct step_sampling hows[] = {
        {.temperature = 1}, {.temperature = 1, .top_k = STEP_WANTED + 1}, {.temperature = 1, .n_alternatives = 8}, {.n_alternatives = 8, .n_ids = 8},
        {.temperature = 1, .top_k = 20, .n_ids = 20},
    };
    struct heads h = make_heads(HEAVY_TAILS, ROWS, COLS);
    struct outcome got = make_outcome(&h, N), want = make_outcome(&h, N);
    float x[N * COLS];
    fill_rows(x, N, &h, HEAVY_TAILS);
    for (size_t i = 0; i < sizeof hows / sizeof *hows; i++) {
        const struct texts by = {.how = hows[i]};
        run(&got, &h.planes, x, N, &by);
        run(&want, &h.int8, x, N, &by);
        assert_memory_equal(got.logits, want.logits, N * ROWS * sizeof *got.logits);
        assert_memory_equal(got.tile_max, want.tile_max, (size_t)(N * step_maxima(ROWS)) * sizeof *got.tile_max);
    }
    x[7] = NAN;                         /* no bound is finite */
    const struct texts greedy = {.how = {.n_ids = ROWS}};
    run(&got, &h.planes, x, 1, &greedy);
    for (int i = 0; i < ROWS; i++)
        assert_true(isnan(got.logits[i]));
    assert_true(got.tile_max[0] == INFINITY);
    free_outcome(&got);
    free_outcome(&want);
    close_heads(&h);
}

/* A row of numbers that the upper plane knows nothing of, met by just what it leaves out: far beyond eight deviations.  The logit may be
 * missed, but some id is always left. */
static void test_planes__a_logit_above_its_bound_never_leaves_nothing(void **state)
{
    (void)state;
    struct heads h = make_heads(NORMAL, 100, COLS);
    const int8_t *q = h.int8.data;
    struct outcome got = make_outcome(&h, 1), want = make_outcome(&h, 1);
    const struct texts greedy = {.how = {.n_ids = 1 << 20}};
    float x[COLS];
    int n = 0, above = 0;
    const struct plane_row *about = h.planes.scale;
    for (int id = 0; id < 100; id++) {
        double e = 0, sum = 0, length = 0, whole = 0;
        for (int k = 0; k < COLS; k++)
            x[k] = (float)((q[id * COLS + k] + 128) % 16) - 7.5f;
        run(&got, &h.planes, x, 1, &greedy);
        run(&want, &h.int8, x, 1, &greedy);
        for (int i = 0; i < 100; i++)
            n += got.logits[i] == want.logits[i];
        for (int k = 0; k < COLS; k++) {
            const int b = q[id * COLS + k] + 128;
            e += 16 * (b / 16 - 8) * (double)x[k], sum += (double)x[k], length += (double)x[k] * (double)x[k], whole += (b - 128) * (double)x[k];
        }
        e = (1 + (double)f16_f32(about[id].gain)) * (e + (double)f16_f32(about[id].mean) * sum);
        above += whole > e + STEP_DEVIATIONS * (double)f16_f32(about[id].spread) * sqrt(length);
        assert_true(n > id);
    }
    assert_true(above > 0);             /* otherwise it was no test */
    free_outcome(&got);
    free_outcome(&want);
    close_heads(&h);
}

/* ---- alternatives */

/* Result of a pick from the given logits. */
static struct step_result pick(const struct outcome *o, const struct texts *by, int vocab)
{
    struct texts t = *by;
    struct step_live live = {.pos = 1};
    struct step_result results[STEP_RESULTS] = {{0}};
    float hidden[1] = {0}, last[3] = {0};
    void *scratch = calloc(1, step_pick_scratch(vocab));
    t.how.room = 9;
    STEP(cpu, step_pick, .logits = o->logits, .tile_max = o->tile_max, .live = &live, .sampling = &t.how, .seen = t.seen, .bias = t.bias,
         .results = results, .hidden = hidden, .last_hidden = last, .scratch = scratch, .n_rows = 1, .vocab = vocab, .width = 1);
    free(scratch);
    return results[1];
}

/* Rows whose logits have this deviation. */
static void fill_soft(float *x, const struct heads *h, enum kind kind, float deviation)
{
    float l[ROWS];
    double square = 0;
    fill_rows(x, 1, h, kind);
    RUN(cpu, linear_int8, .l = {.y = l, .x = x, .w = h->int8, .n_tokens = 1});
    for (int i = 0; i < h->rows; i++)
        square += (double)l[i] * (double)l[i] / h->rows;
    for (int k = 0; k < h->cols; k++)
        x[k] *= deviation / (float)sqrt(square);
}

/* The greatest |a - b|.  (In a loop with fmax() instead, gcc 12 for aarch64 has an error of its own.) */
static double furthest(const float *a, const float *b, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++) {
        const double off = fabs((double)a[i] - (double)b[i]);
        if (!(off <= most))
            most = off;
    }
    return most;
}

static void test_planes__alternatives_are_those_of_the_int8_head(void **state)
{
    (void)state;
    static const struct step_sampling hows[] = {
        {.n_alternatives = 8}, {.temperature = 1, .top_k = 20, .top_p = 0.95f, .presence_penalty = 1.5f, .n_alternatives = 8},
        {.temperature = 1, .top_k = 20, .repetition_penalty = 1.3f, .biased = 1, .n_alternatives = 5},
        {.repetition_penalty = 0.8f, .n_alternatives = 1},
    };
    static const float deviations[] = {0.3f, 1, 2, 3, 5};
    for (enum kind kind = 0; kind < N_KINDS; kind++) {
        struct heads h = make_heads(kind, ROWS, COLS);
        struct outcome got = make_outcome(&h, 1), want = make_outcome(&h, 1);
        double worst = 0, worst_log = 0, completed = 0;
        for (int i = 0; i < 200; i++) {
            struct texts by = {.how = hows[i % 4]};
            float x[COLS];
            int n_completed;
            by.how.n_ids = ROWS - i % 7;
            by.how.rng = (uint64_t)i;
            fill_soft(x, &h, kind, deviations[i % 5]);
            for (int id = 0; id < ROWS; id++) {
                by.seen[id] = rand_u64() % 4 ? 0 : rand_u64() % 2 ? STEP_IN_TEXT : STEP_IN_TEXT | STEP_IN_ANSWER;
                by.bias[id] = rand_u64() % 50 ? 0 : rand_u64() % 2 ? -INFINITY : 3 * rand_normal();
            }
            run(&got, &h.planes, x, 1, &by);
            run(&want, &h.int8, x, 1, &by);
            missed(got.logits, want.logits, ROWS, 1, &n_completed);
            const struct step_result g = pick(&got, &by, ROWS), w = pick(&want, &by, ROWS);
            assert_int_equal(g.ids[0], w.ids[0]);
            assert_memory_equal(&g.prob[0], &w.prob[0], sizeof g.prob[0]);
            assert_int_equal(g.logprobs[0].n, by.how.n_alternatives);
            assert_memory_equal(g.logprobs[0].ids, w.logprobs[0].ids, (size_t)g.logprobs[0].n * sizeof *g.logprobs[0].ids);
            worst = fmax(worst, furthest(g.logprobs[0].probs, w.logprobs[0].probs, g.logprobs[0].n));
            worst = fmax(worst, furthest(&g.logprobs[0].prob, &w.logprobs[0].prob, 1));
            worst_log = fmax(worst_log, fabs(log((double)g.logprobs[0].prob / (double)w.logprobs[0].prob)));
            completed += n_completed;
        }
        print_message("kind %d: %.0f of %d ids completed; a probability is off by %.1e at most, its logarithm by %.1e\n", (int)kind, completed / 200,
                      ROWS, worst, worst_log);
        assert_true(worst < 2e-3);      /* of few ids a single one weighs more than of a vocabulary */
        assert_true(kind != NORMAL || completed / 200 < ROWS / 2);
        free_outcome(&got);
        free_outcome(&want);
        close_heads(&h);
    }
}

/* ---- the format */

static void test_planes__products_have_the_bits_of_int8_at_odd_shapes(void **state)
{
    (void)state;
    static const int shapes[][2] = {{1, 1}, {5, 7}, {9, 8}, {8, 15}, {17, 16}, {33, 77}, {16, 264}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const int rows = shapes[s][0], cols = shapes[s][1], n = 5;
        struct heads h = make_heads(NORMAL, rows, cols);
        float *x = rand_array((size_t)(n * cols), 1), *got = calloc((size_t)(n * rows), 4), *want = calloc((size_t)(n * rows), 4);
        RUN(cpu, linear_int8, .l = {.y = got, .x = x, .w = h.planes, .n_tokens = n});
        RUN(cpu, linear_int8, .l = {.y = want, .x = x, .w = h.int8, .n_tokens = n});
        assert_memory_equal(got, want, (size_t)(n * rows) * sizeof *got);
        assert_int_equal(weight_bytes(&h.planes), (size_t)rows * (2 * plane_pitch(cols) + 8));
        free(x), free(got), free(want);
        close_heads(&h);
    }
}

/* ---- estimates */

static void test_planes__estimates_are_off_by_what_the_spread_says(void **state)
{
    (void)state;
    for (enum kind kind = 0; kind < N_KINDS; kind++) {
        struct heads h = make_heads(kind, ROWS, COLS);
        struct outcome got = make_outcome(&h, 1), want = make_outcome(&h, 1);
        const struct plane_row *about = h.planes.scale;
        const struct texts all = {.how = {.temperature = 1}};
        double squares = 0, worst = 0;
        for (int i = 0; i < 20; i++) {
            float x[COLS];
            double length = 0;
            fill_rows(x, 1, &h, kind);
            for (int k = 0; k < COLS; k++)
                length += (double)x[k] * (double)x[k];
            STEP(cpu, step_logits, .logits = got.logits, .tile_max = got.tile_max, .w = h.planes, .hidden = x, .n_ids = ROWS, .estimate = true,
                 .n_rows = 1);
            run(&want, &h.int8, x, 1, &all);
            assert_maxima(&got, ROWS);
            for (int id = 0; id < ROWS; id++) {
                const double deviation = (double)f16_f32(about[id].scale) * (double)f16_f32(about[id].spread) * sqrt(length),
                             off = ((double)want.logits[id] - (double)got.logits[id]) / deviation;
                squares += off * off / (20 * ROWS);
                worst = fmax(worst, fabs(off));
            }
        }
        print_message("kind %d: rms %.2f, at most %.2f deviations\n", (int)kind, sqrt(squares), worst);
        assert_true(squares > 0.2 * 0.2 && squares < 1.5 * 1.5 && worst < STEP_DEVIATIONS);
        free_outcome(&got);
        free_outcome(&want);
        close_heads(&h);
    }
}

/* Without the gain the estimate of a row that the state points along would be too small by several deviations. */
static void test_planes__a_row_along_itself_is_estimated_exactly(void **state)
{
    (void)state;
    for (enum kind kind = 0; kind < N_KINDS; kind++) {
        struct heads h = make_heads(kind, 50, COLS);
        const struct plane_row *about = h.planes.scale;
        for (int id = 0; id < 50; id++) {
            const int8_t *q = (const int8_t *)h.int8.data + id * COLS;
            double upper = 0, sum = 0, whole = 0;
            for (int k = 0; k < COLS; k++) {
                upper += 16 * ((q[k] + 128) / 16 - 8) * q[k];
                sum += q[k];
                whole += q[k] * q[k];
            }
            const double e = (1 + (double)f16_f32(about[id].gain)) * (upper + (double)f16_f32(about[id].mean) * sum);
            assert_true(fabs(e - whole) < 2e-3 * whole);
        }
        close_heads(&h);
    }
}

static void test_planes__the_best_drafts_have_the_logits_of_the_int8_head(void **state)
{
    (void)state;
    struct heads h = make_heads(NORMAL, ROWS, COLS);
    struct outcome got = make_outcome(&h, 1), want = make_outcome(&h, 1);
    const struct texts all = {.how = {.temperature = 1}};
    const int n_ids = ROWS - 3;
    int same = 0;
    for (int i = 0; i < 50; i++) {
        float x[COLS];
        int best = 0, best_whole = 0, n_whole = 0;
        fill_rows(x, 1, &h, NORMAL);
        run(&want, &h.int8, x, 1, &all);
        STEP(cpu, step_logits, .logits = got.logits, .tile_max = got.tile_max, .w = h.planes, .hidden = x, .n_ids = n_ids, .estimate = true,
             .n_rows = 1);
        assert_maxima(&got, ROWS);
        for (int id = 0; id < n_ids; id++) {
            best = got.logits[id] > got.logits[best] ? id : best;
            best_whole = want.logits[id] > want.logits[best_whole] ? id : best_whole;
            n_whole += got.logits[id] == want.logits[id];
        }
        assert_true(n_whole >= STEP_COMPLETED && n_whole < ROWS / 10);
        same += best == best_whole;
    }
    assert_true(same >= 48);            /* from estimates alone it is some 40 */
    free_outcome(&got);
    free_outcome(&want);
    close_heads(&h);
}

/* Estimates without end cannot be put in order: none becomes an INT8 logit, and what is picked from them sees that. */
static void test_planes__a_row_with_a_nan_keeps_it(void **state)
{
    (void)state;
    struct heads h = make_heads(NORMAL, ROWS, COLS);
    struct outcome got = make_outcome(&h, 1);
    float x[COLS];
    fill_rows(x, 1, &h, NORMAL);
    x[COLS / 2] = NAN;
    for (int estimate = 0; estimate < 2; estimate++) {
        STEP(cpu, step_logits, .logits = got.logits, .tile_max = got.tile_max, .w = h.planes, .hidden = x, .n_ids = ROWS, .estimate = estimate,
             .n_rows = 1);
        for (int id = 0; id < ROWS; id++)
            assert_true(isnan(got.logits[id]));
    }
    free_outcome(&got);
    close_heads(&h);
}

/* ---- rows of a step */

static void test_planes__a_row_does_not_know_the_others_of_its_step(void **state)
{
    (void)state;
    struct heads h = make_heads(NORMAL, ROWS, COLS);
    const int n = STEP_ROWS, maxima = step_maxima(ROWS);
    struct outcome all = make_outcome(&h, n), one = make_outcome(&h, 1);
    float *norm = calloc(COLS, sizeof *norm);
    int64_t *stream = calloc((size_t)n * COLS, sizeof *stream);
    struct texts by = {.how = {.presence_penalty = 1, .n_ids = ROWS}, .drafts = {1, 2, 3, 4, 5, 6, 7}};
    for (int i = 0; i < n * COLS; i++)
        stream[i] = stream_from_float(rand_normal());
    STEP(cpu, step_logits, .logits = all.logits, .tile_max = all.tile_max, .w = h.planes, .stream = stream, .norm = norm, .sampling = &by.how,
         .seen = by.seen, .bias = by.bias, .drafts = by.drafts, .n_rows = n, .eps = 1e-6f);
    for (int t = 0; t < n; t++) {
        const int32_t row = t;
        STEP(cpu, step_logits, .logits = one.logits, .tile_max = one.tile_max, .w = h.planes, .stream = stream, .norm = norm, .row = &row,
             .sampling = &by.how, .seen = by.seen, .bias = by.bias, .drafts = by.drafts, .n_rows = 1, .eps = 1e-6f);
        assert_memory_equal(all.logits + (size_t)t * ROWS, one.logits, ROWS * sizeof *one.logits);
        assert_memory_equal(all.tile_max + (size_t)t * (size_t)maxima, one.tile_max, (size_t)maxima * sizeof *one.tile_max);
        by.seen[1 + t] = STEP_IN_TEXT | STEP_IN_ANSWER;         /* what a draft before a row is in a step of its own */
    }
    free_outcome(&all);
    free_outcome(&one);
    free(norm), free(stream);
    close_heads(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planes__the_best_ids_have_the_logits_of_the_int8_head),
        cmocka_unit_test(test_planes__bias_and_penalties_count_before_ids_are_left_out),
        cmocka_unit_test(test_planes__who_wants_all_ids_gets_all_logits),
        cmocka_unit_test(test_planes__a_logit_above_its_bound_never_leaves_nothing),
        cmocka_unit_test(test_planes__alternatives_are_those_of_the_int8_head),
        cmocka_unit_test(test_planes__products_have_the_bits_of_int8_at_odd_shapes),
        cmocka_unit_test(test_planes__estimates_are_off_by_what_the_spread_says),
        cmocka_unit_test(test_planes__a_row_along_itself_is_estimated_exactly),
        cmocka_unit_test(test_planes__the_best_drafts_have_the_logits_of_the_int8_head),
        cmocka_unit_test(test_planes__a_row_with_a_nan_keeps_it),
        cmocka_unit_test(test_planes__a_row_does_not_know_the_others_of_its_step),
    };
    struct err e = {0};
    if (!(cpu = dev_open("cpu", 1, &e)))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    dev_close(cpu);
    return failed;
}
