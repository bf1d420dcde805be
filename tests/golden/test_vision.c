/* The vision tower of a small checkpoint against the rows of Hugging Face transformers: see tests/data/vision/README.md.  Bound: 2e-4. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "model/safetensors.h"
#include "model/vision.h"

static const char dir[] = "tests/data/vision/v0";
static const double bound = 2e-4;
enum { N_PICTURES = 5, N_THREADS = 2, LARGEST = 112 };

struct tower {
    struct model_config cfg;
    struct weights weights;
    struct safetensors rows;
    struct dev    *dev;
};

static const void *expected(const struct tower *t, int picture, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "image%d.%s", picture, what);
    const struct tensor *found = safetensors_find(&t->rows, name);
    assert_non_null(found);
    return safetensors_data(&t->rows, found);
}

static void open_tower(struct tower *t)
{
    struct err e = {0};
    char path[128];
    snprintf(path, sizeof path, "%s/expected.safetensors", dir);
    t->dev = dev_open("cpu", N_THREADS, &e);
    if (!t->dev || !config_load(&t->cfg, dir, &e) || !weights_open(&t->weights, &t->cfg, dir, &e) || !safetensors_open(&t->rows, path, &e))
        fail_msg("%s", e.msg);
    assert_true(t->weights.vision.present);
}

static void close_tower(struct tower *t)
{
    weights_close(&t->weights);
    safetensors_close(&t->rows);
    dev_close(t->dev);
}

/* Begins the picture j of the golden file.  Returns memory for its rows; release with free(). */
static float *begin(const struct tower *t, struct vision *v, int j, int *n_rows)
{
    const int32_t *grid = expected(t, j, "grid_thw");
    *n_rows = grid[1] * grid[2] / VISION_MERGE;
    float *rows = malloc((size_t)(*n_rows * t->cfg.hidden) * sizeof *rows);
    vision_begin(v, expected(t, j, "resized"), grid[1], grid[2], rows);
    return rows;
}

/* Computes the rows of a picture, in slices of at most max_rows patches, and returns the greatest error. */
static double greatest_error(const struct tower *t, int j, int max_rows, int *n_slices)
{
    struct err e = {0};
    int n_rows;
    const float *want = expected(t, j, "embeds");
    struct vision *v = vision_open(t->dev, &t->cfg, &t->weights, LARGEST, max_rows, &e);
    double worst = 0, left;
    assert_non_null(v);
    float *rows = begin(t, v, j, &n_rows);
    do {
        left = vision_left(v);
        assert_true(left > 0);
        ++*n_slices;
    } while (!vision_continue(v, 0) && vision_left(v) < left);
    assert_true(vision_left(v) == 0);
    for (int i = 0; i < n_rows * t->cfg.hidden; i++) {
        const double d = fabs((double)rows[i] - (double)want[i]);
        worst = d <= worst ? worst : d;         /* NaN counts as larger */
    }
    vision_close(v);
    free(rows);
    return worst;
}

static void test_vision__rows_are_those_of_the_reference(void **state)
{
    (void)state;
    struct tower t;
    open_tower(&t);
    for (int j = 0; j < N_PICTURES; j++) {
        int n_slices = 0;
        const double worst = greatest_error(&t, j, LARGEST, &n_slices);
        print_message("picture %d: greatest error %.1e\n", j, worst);
        assert_true(worst <= bound);
        assert_int_equal(n_slices, 2 + 2 * t.cfg.vision.depth);
    }
    close_tower(&t);
}

static void test_vision__slices_of_any_size_give_the_same_rows(void **state)
{
    (void)state;
    struct tower t;
    open_tower(&t);
    const int sizes[] = {4, 12, 30, 64};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int n_slices = 0;
        const int pieces = (104 + sizes[i] / 4 * 4 - 1) / (sizes[i] / 4 * 4);
        assert_true(greatest_error(&t, 3, sizes[i], &n_slices) <= bound);
        assert_int_equal(n_slices, pieces * (2 + 2 * t.cfg.vision.depth));
    }
    close_tower(&t);
}

static void test_vision__a_new_picture_ends_the_one_before(void **state)
{
    (void)state;
    struct tower t;
    struct err e = {0};
    int n, n_other;
    open_tower(&t);
    struct vision *v = vision_open(t.dev, &t.cfg, &t.weights, LARGEST, 32, &e);
    assert_non_null(v);
    float *first = begin(&t, v, 4, &n);
    assert_true(vision_continue(v, 1));         /* 10^12 operations are more than it has */
    float *other = begin(&t, v, 3, &n_other);
    assert_false(vision_continue(v, vision_left(v) / 2));
    float *again = begin(&t, v, 4, &n);
    while (!vision_continue(v, 1e-6))
        ;
    assert_memory_equal(first, again, (size_t)(n * t.cfg.hidden) * sizeof *first);
    vision_close(v);
    free(first);
    free(other);
    free(again);
    close_tower(&t);
}

int main(void)
{
#define T(name) cmocka_unit_test(test_vision__##name)
    const struct CMUnitTest tests[] = {
        T(rows_are_those_of_the_reference), T(slices_of_any_size_give_the_same_rows), T(a_new_picture_ends_the_one_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
