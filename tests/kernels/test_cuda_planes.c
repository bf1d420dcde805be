/* A head in two planes on the GPU against the INT8 head there: logits to the bit, picks, drafts; estimates against the definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "base/memory.h"
#include "kernels/cpu/vec.h"
#include "kernels/pack.h"
#include "model/quantize.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/rand.h"
#include "tests/kth.h"

static const float eps = 1e-6f;

/* Everything here is freed at the end of a test. */
static void *device_list[4096];
static int   n_device;
static struct arena memory;

static void *device(const void *p, size_t bytes) { return device_list[n_device++] = p ? upload(p, bytes) : poisoned(bytes); }
static void *host(size_t bytes) { return arena_array(&memory, bytes ? bytes : 1, 1); }
static void *fetch(const void *d, size_t bytes)
{
    void *p = host(bytes);
    download(p, d, bytes);
    return p;
}
static int end_test(void **state)
{
    (void)state;
    while (n_device)
        cuda->free(cuda, device_list[--n_device]);
    arena_free(&memory);
    return 0;
}

/* ---- heads and the rows that meet them */

enum kind { NORMAL, HEAVY_TAILS, OUTLIER_COLUMNS, N_KINDS };

struct heads {
    int rows, cols;
    struct weight int8, planes;         /* host */
    struct weight int8_packed, planes_packed;
};

static float number(enum kind kind, int column)
{
    if (kind == HEAVY_TAILS)
        return rand_normal() / (0.05f + fabsf(rand_normal()));
    return rand_normal() * (kind == OUTLIER_COLUMNS && column % 97 == 5 ? 30 : 1);
}

static struct weight packed(const struct weight *w)
{
    const size_t bytes = pack_bytes(w->format, w->rows, w->cols);
    void *h = host(bytes);
    assert_true(pack_matrix(w, h));
    return packed_view(w->format, w->rows, w->cols, device(h, bytes));
}

static struct heads make_heads(enum kind kind, int rows, int cols)
{
    float *data = host((size_t)rows * (size_t)cols * 4);
    for (int i = 0; i < rows * cols; i++)
        data[i] = number(kind, i % cols) / sqrtf((float)cols);
    const struct weight dense = {.format = WEIGHT_DENSE, .dtype = DT_F32, .rows = rows, .cols = cols, .data = data};
    struct heads h = {.rows = rows, .cols = cols, .int8 = quantize_int8(&dense, &memory), .planes = quantize_planes(&dense, &memory)};
    h.int8_packed = packed(&h.int8);
    h.planes_packed = packed(&h.planes);
    return h;
}

struct input {
    int64_t *stream;                    /* device */
    float   *norm;
    float   *h;                         /* host: normed rows */
};
static struct input make_input(enum kind kind, int n, int cols)
{
    const size_t all = (size_t)n * (size_t)cols;
    struct input in = {.h = host(all * 4)};
    int64_t *stream = host(all * 8);
    float *u = host(all * 4), *norm = host((size_t)cols * 4);
    for (size_t i = 0; i < all; i++) {
        stream[i] = stream_from_float(number(kind, (int)i % cols));
        u[i] = stream_to_float(stream[i]);
    }
    for (int i = 0; i < cols; i++)
        norm[i] = 0.3f * rand_normal();
    RUN(cpu, rmsnorm, .y = in.h, .x = u, .w = norm, .n_rows = n, .dim = cols, .eps = eps);
    in.stream = device(stream, all * 8);
    in.norm = device(norm, (size_t)cols * 4);
    return in;
}

/* ---- logits */

struct texts {                          /* device; of so many slots */
    struct step_sampling *how;
    uint8_t *seen;
    float   *bias;
    int32_t *drafts;
};
static struct texts make_texts(const struct step_sampling *how, int n_slots, int vocab)
{
    const size_t n = (size_t)n_slots, all = n * (size_t)vocab;
    uint8_t *seen = host(all);
    float *bias = host(all * 4);
    struct step_live *live = host(n * sizeof *live);
    for (size_t i = 0; i < all; i++) {
        seen[i] = rand_u64() >> 32 & 3 ? 0 : rand_u64() >> 32 & 1 ? STEP_IN_TEXT : STEP_IN_TEXT | STEP_IN_ANSWER;
        bias[i] = rand_u64() >> 32 & 63 ? 0 : rand_u64() >> 32 & 1 ? -INFINITY : 3 * rand_normal();
    }
    for (size_t s = 0; s < n; s++)
        for (int i = 0; i < STEP_ROWS; i++)
            live[s].ids[i] = (int32_t)((unsigned)(rand_u64() >> 33) % (unsigned)vocab);
    struct step_live *at = device(live, n * sizeof *live);
    return (struct texts){device(how, n * sizeof *how), device(seen, all), device(bias, all * 4), at->ids + 1};
}

struct outcome {
    float *logits, *tile_max, *h;       /* device */
    int    n, vocab, cols;
};
static struct outcome make_outcome(const struct heads *h, int n)
{
    const size_t rows = (size_t)n;
    return (struct outcome){device(NULL, rows * (size_t)h->rows * 4), device(NULL, rows * (size_t)step_maxima(h->rows) * 4),
                            device(NULL, rows * (size_t)h->cols * 4), n, h->rows, h->cols};
}
static void run(const struct outcome *o, const struct weight *w, const struct input *in, const struct texts *by, const struct step_row *rows)
{
    struct step_logits_args a = {.logits = o->logits, .tile_max = o->tile_max, .w = *w, .stream = in->stream, .norm = in->norm, .hidden_out = o->h,
                                 .scratch = device(NULL, STEP_LOGITS_SCRATCH), .rows = rows, .n_ids = o->vocab, .n_rows = o->n, .eps = eps};
    if (by)
        a.sampling = by->how, a.seen = by->seen, a.bias = by->bias, a.drafts = by->drafts;
    cuda->step->step_logits(cuda, &a);
    finish();
}
static float *logits_of(const struct outcome *o) { return fetch(o->logits, (size_t)o->n * (size_t)o->vocab * 4); }

static void assert_maxima(const struct outcome *o)
{
    const int n = step_maxima(o->vocab);
    const float *l = logits_of(o), *max = fetch(o->tile_max, (size_t)o->n * (size_t)n * 4);
    for (int t = 0; t < o->n; t++)
        for (int tile = 0; tile < n; tile++) {
            float best = -INFINITY;
            for (int id = 16 * tile; id < 16 * tile + 16 && id < o->vocab; id++)
                best = isnan(l[t * o->vocab + id]) ? INFINITY : fmaxf(best, l[t * o->vocab + id]);
            assert_true(max[t * n + tile] == best);
        }
}

/* Every logit there is has the bits of the INT8 head's, and whatever is among its k best is there.  Returns how many there are. */
static int check_row(const float *got, const float *want, int vocab, int k)
{
    const float least = kth_greatest(want, vocab, k);
    int n = 0;
    for (int id = 0; id < vocab; id++) {
        if (got[id] == -INFINITY && want[id] > -INFINITY) {
            if (want[id] >= least)
                fail_msg("id %d of %d is among the %d best, and missed", id, vocab, k);
            continue;
        }
        if (memcmp(&got[id], &want[id], sizeof *got) != 0)
            fail_msg("id %d of %d has the logit %.9g, expected %.9g", id, vocab, (double)got[id], (double)want[id]);
        n += got[id] > -INFINITY;
    }
    return n;
}

static void check_best(const struct heads *h, enum kind kind, int n, struct step_sampling how, int k, double *completed)
{
    const struct input in = make_input(kind, n, h->cols);
    const struct texts by = make_texts(&how, 1, h->rows);
    const struct outcome got = make_outcome(h, n), want = make_outcome(h, n);
    run(&got, &h->planes_packed, &in, &by, NULL);
    run(&want, &h->int8_packed, &in, &by, NULL);
    assert_memory_equal(fetch(got.h, (size_t)n * (size_t)h->cols * 4), fetch(want.h, (size_t)n * (size_t)h->cols * 4),
                        (size_t)n * (size_t)h->cols * 4);
    assert_maxima(&got);
    const float *g = logits_of(&got), *w = logits_of(&want);
    for (int t = 0; t < n; t++)
        *completed += (double)check_row(g + t * h->rows, w + t * h->rows, h->rows, k) / n;
}

static void test_planes__the_best_ids_have_the_bits_of_the_int8_head(void **state)
{
    (void)state;
    need_gpu();
    static const int wanted[] = {1, 2, 20, 64};
    for (enum kind kind = 0; kind < N_KINDS; kind++) {
        const struct heads h = make_heads(kind, 20011, 3072);
        double completed[4] = {0};
        for (int n = 1; n <= STEP_ROWS; n++)
            for (int k = 0; k < 4; k++)
                check_best(&h, kind, n, (struct step_sampling){.temperature = (float)k, .top_k = wanted[k], .n_ids = h.rows - 7 * n}, wanted[k],
                           &completed[k]);
        print_message("kind %d: of %d ids %.0f, %.0f, %.0f and %.0f were completed for the 1, 2, 20 and 64 best\n", (int)kind, h.rows,
                      completed[0] / 8, completed[1] / 8, completed[2] / 8, completed[3] / 8);
        assert_true(kind == HEAVY_TAILS || completed[0] / 8 < h.rows / 10);
        end_test(NULL);
    }
}

static void test_planes__every_width(void **state)
{
    (void)state;
    need_gpu();
    static const int shapes[][2] = {{17, 128}, {1000, 256}, {1024, 1024}, {4096, 2048}, {3000, 3072}, {5000, 4096}};
    double completed = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const struct heads h = make_heads(NORMAL, shapes[s][0], shapes[s][1]);
        for (int n = 1; n <= STEP_ROWS; n += n == 1 ? 1 : 3)
            for (int k = 1; k <= 16; k += 15)
                check_best(&h, NORMAL, n, (struct step_sampling){.temperature = 1, .top_k = k, .n_ids = h.rows}, k, &completed);
        end_test(NULL);
    }
}

static void test_planes__bias_and_penalties_count_before_ids_are_left_out(void **state)
{
    (void)state;
    need_gpu();
    const struct heads h = make_heads(NORMAL, 6000, 2048);
    double completed = 0;
    for (int i = 0; i < 8; i++)
        check_best(&h, NORMAL, 1 + i, (struct step_sampling){.temperature = 1, .top_k = 1 + 4 * i, .presence_penalty = 1.5f, .biased = i > 1,
                   .repetition_penalty = i % 2 ? 1.3f : 0.8f, .n_ids = h.rows}, 1 + 4 * i, &completed);
}

/* Logits of one row with alternatives: what may be picked or told has the bits of the INT8 head, the others the definition's estimates.  `plain`: the
 * INT8 logits before bias and penalties.  Returns how many have the bits. */
static int check_told(const float *got, const float *want, const float *plain, const float *defined, const struct step_sampling *how)
{
    const int n = how->n_ids;
    float *allowed = host((size_t)n * 4);
    double square = 0;
    int n_completed = 0, n_other = 0;
    for (int id = 0; id < n; id++) {
        allowed[id] = want[id] == -INFINITY ? -INFINITY : plain[id];
        square += (double)plain[id] * (double)plain[id] / n;
    }
    const float least = kth_greatest(want, n, STEP_WANTED), least_plain = kth_greatest(allowed, n, how->n_alternatives);
    for (int id = 0; id < n; id++) {
        const bool completed = memcmp(&got[id], &want[id], sizeof *got) == 0;
        n_completed += completed;
        if (completed)
            continue;
        if (want[id] >= least || allowed[id] >= least_plain)
            fail_msg("id %d has the logit %g, expected %g: it may be picked or told", id, (double)got[id], (double)want[id]);
        assert_true(got[id] < least && got[id] > -INFINITY);
        if (fabs((double)got[id] - (double)defined[id]) < 1e-3 * sqrt(square))
            continue;
        n_other++;                      /* its bound is next to what it must reach: only one of the two completes it */
        assert_true(fabs((double)defined[id] - (double)want[id]) < 1e-3 * sqrt(square));
    }
    assert_in_range(n_other, 0, 2);
    return n_completed;
}

static void test_planes__alternatives_have_the_bits_of_the_int8_head_and_others_estimates(void **state)
{
    (void)state;
    need_gpu();
    static const struct step_sampling hows[] = {
        {.n_alternatives = 8}, {.temperature = 1, .top_k = 20, .presence_penalty = 1.5f, .n_alternatives = 8},
        {.temperature = 1, .top_k = 20, .repetition_penalty = 1.3f, .biased = 1, .n_alternatives = 5},
        {.repetition_penalty = 0.8f, .n_alternatives = 1},
    };
    const int V = 20011, H = 3072;
    for (enum kind kind = 0; kind < N_KINDS; kind++) {
        const struct heads h = make_heads(kind, V, H);
        double completed = 0;
        for (int n = 1; n <= STEP_ROWS; n++) {
            struct step_sampling how = hows[n % 4];
            how.n_ids = V - 7 * n;
            const size_t all = (size_t)n * (size_t)V * 4;
            const struct input in = make_input(kind, n, H);
            const struct texts by = make_texts(&how, 1, V);
            const struct outcome got = make_outcome(&h, n), want = make_outcome(&h, n), plain = make_outcome(&h, n);
            float *defined = host(all), *max = host((size_t)n * (size_t)step_maxima(V) * 4);
            run(&got, &h.planes_packed, &in, &by, NULL);
            run(&want, &h.int8_packed, &in, &by, NULL);
            run(&plain, &h.int8_packed, &in, NULL, NULL);
            STEP(cpu, step_logits, .logits = defined, .tile_max = max, .w = h.planes, .stream = fetch(in.stream, (size_t)(n * H) * 8),
                 .norm = fetch(in.norm, (size_t)H * 4), .hidden_out = host((size_t)(n * H) * 4), .sampling = &how, .seen = fetch(by.seen, (size_t)V),
                 .bias = fetch(by.bias, (size_t)V * 4), .drafts = fetch(by.drafts, (STEP_ROWS - 1) * sizeof(int32_t)), .n_rows = n, .eps = eps);
            const float *g = logits_of(&got), *w = logits_of(&want), *p = logits_of(&plain);
            for (int t = 0; t < n; t++)
                completed += (double)check_told(g + t * V, w + t * V, p + t * V, defined + t * V, &how) / n;
            assert_maxima(&got);
        }
        print_message("kind %d: of %d ids %.0f were completed\n", (int)kind, V, completed / STEP_ROWS);
        end_test(NULL);
    }
}

static void test_planes__who_wants_all_ids_gets_all_logits(void **state)
{
    (void)state;
    need_gpu();
    const struct step_sampling hows[] = {
        {.temperature = 1}, {.temperature = 1, .top_k = STEP_WANTED + 1, .presence_penalty = 1, .repetition_penalty = 1.2f, .biased = 1},
        {.temperature = 1, .n_alternatives = 1}, {.temperature = 1, .top_k = 4000, .n_alternatives = 8, .n_ids = 4001},
    };
    static const int widths[] = {256, 2048, 3072, 4096};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        const struct heads h = make_heads(HEAVY_TAILS, 4017, widths[w]);
        for (int n = 1; n <= STEP_ROWS; n++) {
            struct step_sampling how = hows[n % 4];
            how.n_ids = how.n_ids ? how.n_ids : h.rows;
            const struct texts by = make_texts(&how, 1, h.rows);
            const struct input in = make_input(NORMAL, n, h.cols);
            const struct outcome got = make_outcome(&h, n), want = make_outcome(&h, n);
            run(&got, &h.planes_packed, &in, &by, NULL);
            run(&want, &h.int8_packed, &in, &by, NULL);
            assert_memory_equal(logits_of(&got), logits_of(&want), (size_t)n * (size_t)h.rows * 4);
            assert_maxima(&got);
        }
        end_test(NULL);
    }
}

/* Rows that want much and little, of several slots: each has the bits that it has alone. */
static void test_planes__rows_of_several_slots_have_the_bits_they_have_alone(void **state)
{
    (void)state;
    need_gpu();
    const struct step_row rows[] = {{.slot = 2, .index = 0, .first = 0}, {.slot = 2, .index = 1, .first = 0}, {.slot = 0, .index = 0, .first = 2},
                                    {.slot = 1, .index = 0, .first = 3}, {.slot = 1, .index = 1, .first = 3}, {.slot = 1, .index = 2, .first = 3}};
    const struct step_sampling how[] = {{.temperature = 1, .n_ids = 4999}, {.temperature = 1, .top_k = 9, .presence_penalty = 2, .n_alternatives = 3,
                                                                            .n_ids = 5000},
                                        {.repetition_penalty = 1.4f, .biased = 1, .n_ids = 4500}};
    const int n = sizeof rows / sizeof *rows, V = 5000, H = 3072;
    const struct heads h = make_heads(NORMAL, V, H);
    const struct texts by = make_texts(how, 3, V);
    const struct input in = make_input(NORMAL, n, H);
    const struct outcome all = make_outcome(&h, n);
    run(&all, &h.planes_packed, &in, &by, device(rows, sizeof rows));
    const float *got = logits_of(&all);
    for (int t = 0; t < n; t += t == 0 ? 2 : t == 2 ? 1 : 3) {
        const int slot = rows[t].slot, m = t == 0 ? 2 : t == 2 ? 1 : 3;
        const struct texts its = {by.how + slot, by.seen + slot * V, by.bias + slot * V,
                                  by.drafts + (size_t)slot * (sizeof(struct step_live) / sizeof *by.drafts)};
        const struct input rest = {.stream = in.stream + (size_t)t * H, .norm = in.norm};
        const struct outcome alone = make_outcome(&h, m);
        run(&alone, &h.planes_packed, &rest, &its, NULL);
        assert_memory_equal(got + t * V, logits_of(&alone), (size_t)m * (size_t)V * 4);
    }
    assert_maxima(&all);
}

static void test_planes__a_hidden_state_is_no_row_of_a_step(void **state)
{
    (void)state;
    need_gpu();
    const int V = 5000, H = 3072;
    const struct heads h = make_heads(NORMAL, V, H);
    const struct input in = make_input(NORMAL, 1, H);
    const struct step_sampling how = {.temperature = 1, .top_k = 20, .n_ids = V};
    const struct texts by = make_texts(&how, 1, V);
    const struct outcome got = make_outcome(&h, 1), want = make_outcome(&h, 1);
    const float *hidden = device(in.h, (size_t)H * 4);
    STEP(cuda, step_logits, .logits = got.logits, .tile_max = got.tile_max, .w = h.planes_packed, .hidden = hidden, .sampling = by.how,
         .seen = by.seen, .bias = by.bias, .drafts = by.drafts, .scratch = device(NULL, STEP_LOGITS_SCRATCH), .n_rows = 1, .eps = eps);
    STEP(cuda, step_logits, .logits = want.logits, .tile_max = want.tile_max, .w = h.int8_packed, .hidden = hidden, .sampling = by.how,
         .seen = by.seen, .bias = by.bias, .drafts = by.drafts, .n_rows = 1, .eps = eps);
    check_row(logits_of(&got), logits_of(&want), V, 20);
    assert_maxima(&got);
}

static void test_planes__a_row_that_is_no_number_says_so(void **state)
{
    (void)state;
    need_gpu();
    const int V = 3000, H = 2048, n = 3;
    const struct heads h = make_heads(NORMAL, V, H);
    const struct input in = make_input(NORMAL, n, H);
    const struct step_sampling how = {.n_ids = V};
    const struct texts by = make_texts(&how, 1, V);
    const struct outcome got = make_outcome(&h, n);
    const int64_t poison = STREAM_POISON;
    cuda->copy(cuda, in.stream + H + 5, &poison, sizeof poison);
    run(&got, &h.planes_packed, &in, &by, NULL);
    const float *l = logits_of(&got);
    for (int id = 0; id < V; id++)
        assert_true(isnan(l[V + id]) && !isnan(l[id]) && !isnan(l[2 * V + id]));
    assert_maxima(&got);
}

/* ---- drafts */

static void test_planes__estimates_as_defined_and_the_best_of_them_completed(void **state)
{
    (void)state;
    need_gpu();
    static const int shapes[][2] = {{4096, 256}, {20000, 2048}, {65536, 3072}, {9, 128}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const int V = shapes[s][0], H = shapes[s][1], n = 3;
        const struct heads h = make_heads(NORMAL, V, H);
        const struct input in = make_input(NORMAL, n, H);
        const struct outcome got = make_outcome(&h, 1), whole = make_outcome(&h, n);
        const int32_t row = 2;
        float *want = host((size_t)V * 4), *max = host((size_t)step_maxima(V) * 4);
        STEP(cuda, step_logits, .logits = got.logits, .tile_max = got.tile_max, .w = h.planes_packed, .stream = in.stream, .norm = in.norm,
             .hidden_out = got.h, .scratch = device(NULL, STEP_LOGITS_SCRATCH), .row = device(&row, sizeof row), .n_ids = V, .estimate = true,
             .n_rows = 1, .eps = eps);
        run(&whole, &h.int8_packed, &in, NULL, NULL);
        STEP(cpu, step_logits, .logits = want, .tile_max = max, .w = h.planes, .hidden = in.h + row * H, .n_ids = V, .estimate = true, .n_rows = 1);
        const float *g = logits_of(&got), *exact = logits_of(&whole) + row * V;
        double square = 0;
        int n_exact = 0;
        for (int id = 0; id < V; id++)
            square += (double)exact[id] * (double)exact[id] / V;
        for (int id = 0; id < V; id++) {
            const bool completed = g[id] == exact[id];
            n_exact += completed;
            if (!completed && !(fabs((double)g[id] - (double)want[id]) < 1e-3 * sqrt(square)))
                fail_msg("[%d, %d]: the estimate of id %d is %g, expected %g", V, H, id, (double)g[id], (double)want[id]);
        }
        assert_true(n_exact >= STEP_COMPLETED);
        assert_maxima(&got);
        end_test(NULL);
    }
}

/* ---- chunks of a prompt */

static void test_planes__products_of_any_number_of_rows(void **state)
{
    (void)state;
    need_gpu();
    const int V = 1000, H = 3072, n = 19;
    const struct heads h = make_heads(NORMAL, V, H);
    float *x = host((size_t)(n * H) * 4), *want = host((size_t)(n * V) * 4), *y = device(NULL, (size_t)(n * V) * 4);
    for (int i = 0; i < n * H; i++)
        x[i] = rand_normal();
    RUN(cuda, linear_int8, .l = {.y = y, .x = device(x, (size_t)(n * H) * 4), .w = h.planes_packed, .n_tokens = n});
    RUN(cpu, linear_int8, .l = {.y = want, .x = x, .w = h.int8, .n_tokens = n});
    const float *got = fetch(y, (size_t)(n * V) * 4);
    for (int i = 0; i < n * V; i++)
        assert_true(fabsf(got[i] - want[i]) < 1e-3f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_planes__the_best_ids_have_the_bits_of_the_int8_head, end_test),
        cmocka_unit_test_teardown(test_planes__every_width, end_test),
        cmocka_unit_test_teardown(test_planes__bias_and_penalties_count_before_ids_are_left_out, end_test),
        cmocka_unit_test_teardown(test_planes__alternatives_have_the_bits_of_the_int8_head_and_others_estimates, end_test),
        cmocka_unit_test_teardown(test_planes__who_wants_all_ids_gets_all_logits, end_test),
        cmocka_unit_test_teardown(test_planes__rows_of_several_slots_have_the_bits_they_have_alone, end_test),
        cmocka_unit_test_teardown(test_planes__a_hidden_state_is_no_row_of_a_step, end_test),
        cmocka_unit_test_teardown(test_planes__a_row_that_is_no_number_says_so, end_test),
        cmocka_unit_test_teardown(test_planes__estimates_as_defined_and_the_best_of_them_completed, end_test),
        cmocka_unit_test_teardown(test_planes__products_of_any_number_of_rows, end_test),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
