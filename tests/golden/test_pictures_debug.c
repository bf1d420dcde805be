/* `debug logits`, `draft` and `generate` with "images": pictures from their files to logits, positions, drafts and greedy ids of the reference
 * (tests/data/vision/README.md).  Bound: 2e-3 on every logit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debug/debug.h"
#include "model/config.h"
#include "model/safetensors.h"
#include "tests/tmpdir.h"

static const char dir[] = "tests/data/vision/v0";
static const char *const files[] = {"palette.png", "gray.png", "exif6.jpg", "wide.png", "photo.jpg"};
static const char *const linked[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json",
                                     "preprocessor_config.json"};
static const double bound = 2e-3;
enum { N_PROMPTS = 5, N_GREEDY = 12, N_DRAFTS = 3, N_LINKS = sizeof linked / sizeof *linked };

static struct safetensors expected;
static int32_t pad;

static const void *want(const char *what, int i, int *n)
{
    char name[64];
    snprintf(name, sizeof name, "prompt%d.%s", i, what);
    const struct tensor *t = safetensors_find(&expected, name);
    assert_non_null(t);
    *n = 1;
    for (int k = 0; k < t->n_dims; k++)
        *n *= (int)t->shape[k];
    return safetensors_data(&expected, t);
}

/* Writes prompt i as a line.  brief: with one pad for each picture. */
static void put_line(FILE *in, int i, bool brief, const char *rest)
{
    int n, n_images;
    const int32_t *ids = want("ids", i, &n), *images = want("images", i, &n_images);
    fprintf(in, "{\"ids\": [%d", ids[0]);
    for (int k = 1; k < n; k++)
        if (!brief || ids[k] != pad || ids[k - 1] != pad)
            fprintf(in, ", %d", ids[k]);
    fprintf(in, "], \"images\": [");
    for (int k = 0; k < n_images; k++)
        fprintf(in, "%s\"tests/data/pictures/%s\"", k ? ", " : "", files[images[k]]);
    fprintf(in, "]%s}\n", rest);
}

/* Runs the command on the lines of `in`; returns its answers as a JSON array. */
static json_t *answers(int (*command)(const struct debug_options *o, FILE *in, FILE *out), const struct debug_options *o, FILE *in, int status)
{
    FILE *out = tmpfile();
    char line[4096];
    json_t *all = json_array();
    rewind(in);
    assert_int_equal(command(o, in, out), status);
    rewind(out);
    while (fgets(line, sizeof line, out))
        json_array_append_new(all, json_loads(line, 0, NULL));
    fclose(out);
    fclose(in);
    return all;
}

static void check_list(const json_t *list, const int32_t *ids, int n)
{
    assert_int_equal(json_array_size(list), n);
    for (int i = 0; i < n; i++)
        assert_int_equal(json_integer_value(json_array_get(list, (size_t)i)), ids[i]);
}

static void check_tensors(const char *path, int i)
{
    struct safetensors got;
    struct err e = {0};
    char name[32];
    int n, n_images, n_positions;
    const float *logits = want("logits", i, &n);
    const int32_t *positions = want("positions", i, &n_positions);
    want("images", i, &n_images);
    if (!safetensors_open(&got, path, &e))
        fail_msg("%s", e.msg);
    snprintf(name, sizeof name, "logits.%d", i);
    const struct tensor *t = safetensors_find(&got, name);
    assert_non_null(t);
    assert_int_equal(t->shape[0] * t->shape[1], n);
    const float *x = safetensors_data(&got, t);
    for (int k = 0; k < n; k++)
        if (!(fabs((double)x[k] - (double)logits[k]) <= bound))
            fail_msg("prompt %d, logit %d is %g, expected %g", i, k, (double)x[k], (double)logits[k]);
    snprintf(name, sizeof name, "positions.%d", i);
    t = safetensors_find(&got, name);
    assert_int_equal(!!t, n_images > 0);
    if (t)
        assert_memory_equal(safetensors_data(&got, t), positions, (size_t)n_positions * sizeof *positions);
    safetensors_close(&got);
}

static void test_pictures_debug__logits_and_positions_from_files(void **state)
{
    (void)state;
    static const struct { bool brief, step; int chunk, rows; } ways[] = {{0}, {.brief = true}, {.chunk = 1}, {.brief = true, .chunk = 7},
                                                                         {.step = true}, {.brief = true, .step = true, .rows = 5, .chunk = 3}};
    char path[] = "/tmp/q35-logits-XXXXXX";
    close(mkstemp(path));
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        FILE *in = tmpfile();
        for (int i = 0; i < N_PROMPTS; i++)
            put_line(in, i, ways[w].brief, "");
        json_decref(answers(debug_logits, &(struct debug_options){.model_dir = dir, .backend = "cpu", .kv = "f32", .out_file = path, .n_threads = 2,
                                                                  .chunk = ways[w].chunk, .step = ways[w].step, .rows = ways[w].rows}, in, 0));
        for (int i = 0; i < N_PROMPTS; i++)
            check_tensors(path, i);
    }
    unlink(path);
}

static void test_pictures_debug__drafts_are_those_of_the_reference(void **state)
{
    (void)state;
    FILE *in = tmpfile();
    for (int i = 0; i < N_PROMPTS; i++)
        put_line(in, i, true, ", \"depth\": 3");
    json_t *all = answers(debug_draft, &(struct debug_options){.model_dir = dir, .backend = "cpu", .kv = "f32", .n_threads = 2}, in, 0);
    for (int i = 0; i < N_PROMPTS; i++) {
        int n;
        const json_t *a = json_array_get(all, (size_t)i);
        assert_int_equal(json_integer_value(json_object_get(a, "first")), *(const int32_t *)want("mtp_first", i, &n));
        check_list(json_object_get(a, "drafts"), want("mtp_drafts", i, &n), N_DRAFTS);
    }
    json_decref(all);
}

static void test_pictures_debug__generated_ids_are_those_of_the_reference(void **state)
{
    (void)state;
    enum { DEPTHS = 8 };
    FILE *in = tmpfile();
    for (int k = 0; k < N_PROMPTS * DEPTHS; k++) {
        char rest[64];
        snprintf(rest, sizeof rest, ", \"max_tokens\": %d, \"draft\": %d", N_GREEDY, k % DEPTHS);
        put_line(in, k / DEPTHS, k % 2, rest);
    }
    json_t *all = answers(debug_generate, &(struct debug_options){.model_dir = dir, .backend = "cpu", .kv = "f32", .n_threads = 2, .n_ctx = 256,
                                                                  .chunk = 16}, in, 0);
    for (int k = 0; k < N_PROMPTS * DEPTHS; k++) {
        int n;
        check_list(json_object_get(json_array_get(all, (size_t)k), "ids"), want("greedy", k / DEPTHS, &n), N_GREEDY);
    }
    json_decref(all);
}

static void test_pictures_debug__lines_that_cannot_be_run_say_why(void **state)
{
    (void)state;
    static const struct { const char *line, *why; } bad[] = {
        {"{\"ids\": [1, 500], \"images\": 3, \"depth\": 0}", "\"images\" is not a list of paths"},
        {"{\"ids\": [1], \"images\": [7], \"depth\": 0}", "images[0] is not a path"},
        {"{\"ids\": [1], \"images\": [\"tests/data/pictures/no.png\"], \"depth\": 0}", "no.png"},
        {"{\"ids\": [1], \"images\": [\"tests/data/pictures/palette.png\"], \"depth\": 0}", "places for 0 pictures, expected 1"},
        {"{\"ids\": [PAD, PAD, 1], \"images\": [\"tests/data/pictures/palette.png\"], \"depth\": 0}", "2 pads among the ids, expected 1 or 4"},
        {"{\"ids\": [PAD, 1, PAD], \"images\": [\"tests/data/pictures/palette.png\"], \"depth\": 0}", "more pictures than the 1"},
    };
    const int n = sizeof bad / sizeof *bad;
    FILE *in = tmpfile();
    for (int i = 0; i < n; i++) {
        for (const char *s = bad[i].line; *s; s++)
            if (!strncmp(s, "PAD", 3)) {
                fprintf(in, "%d", pad);
                s += 2;
            } else
                fputc(*s, in);
        fputc('\n', in);
    }
    put_line(in, 0, true, ", \"depth\": 0");             /* what came before does it no harm */
    json_t *all = answers(debug_draft, &(struct debug_options){.model_dir = dir, .backend = "cpu", .kv = "f32", .n_threads = 1}, in, 1);
    for (int i = 0; i < n; i++) {
        const char *why = json_string_value(json_object_get(json_array_get(all, (size_t)i), "error"));
        if (!why || !strstr(why, bad[i].why))
            fail_msg("%s: %s", bad[i].line, why ? why : "no error");
    }
    assert_non_null(json_object_get(json_array_get(all, (size_t)n), "first"));
    json_decref(all);
}

/* Checks the rows of picture i: those of the file, and what the answer says of each. */
static void check_rows(const struct safetensors *got, const json_t *answer, int i)
{
    char name[32];
    snprintf(name, sizeof name, "image%d.embeds", i);
    const struct tensor *ref = safetensors_find(&expected, name);
    snprintf(name, sizeof name, "rows.%d", i);
    const struct tensor *t = safetensors_find(got, name);
    assert_true(ref && t && t->dtype == DT_F32 && t->shape[0] == ref->shape[0] && t->shape[1] == ref->shape[1]);
    const json_t *list = json_object_get(answer, "rows");
    assert_int_equal(json_array_size(list), t->shape[0]);
    const size_t width = (size_t)t->shape[1];
    const float *want_row = safetensors_data(&expected, ref), *row = safetensors_data(got, t);
    for (size_t r = 0; r < t->shape[0]; r++, row += width, want_row += width) {
        const json_t *said = json_array_get(list, r), *first = json_object_get(said, "first");
        double sum = 0, squares = 0;
        for (size_t k = 0; k < width; k++) {
            if (!(fabs((double)row[k] - (double)want_row[k]) <= 2e-4))
                fail_msg("picture %d, row %d, number %d", i, (int)r, (int)k);
            sum += (double)want_row[k];
            squares += (double)want_row[k] * (double)want_row[k];
        }
        assert_true(fabs(json_number_value(json_object_get(said, "mean")) - sum / (double)width) < 1e-4);
        assert_true(fabs(json_number_value(json_object_get(said, "norm")) - sqrt(squares)) < 1e-3);
        assert_int_equal(json_array_size(first), 4);
        for (size_t k = 0; k < 4; k++)
            assert_true(fabs(json_number_value(json_array_get(first, k)) - (double)want_row[k]) < 2e-4);
    }
}

static void test_pictures_debug__image_gives_the_rows_of_the_reference(void **state)
{
    (void)state;
    const int n = sizeof files / sizeof *files;
    struct safetensors got;
    struct err e = {0};
    char path[] = "/tmp/q35-rows-XXXXXX";
    close(mkstemp(path));
    FILE *in = tmpfile();
    for (int i = 0; i < n; i++)
        fprintf(in, "{\"image\": \"tests/data/pictures/%s\", \"rows\": true}\n", files[i]);
    fprintf(in, "{\"image\": \"tests/data/pictures/%s\"}\n", files[0]);
    json_t *all = answers(debug_image, &(struct debug_options){.model_dir = dir, .out_file = path, .n_threads = 2}, in, 0);
    if (!safetensors_open(&got, path, &e))
        fail_msg("%s", e.msg);
    for (int i = 0; i < n; i++)
        check_rows(&got, json_array_get(all, (size_t)i), i);
    assert_null(json_object_get(json_array_get(all, (size_t)n), "rows"));
    assert_int_equal(got.n_tensors, 2 * n + 1);
    safetensors_close(&got);
    json_decref(all);
    in = tmpfile();
    fprintf(in, "{\"image\": \"tests/data/pictures/%s\", \"rows\": true}\n", files[0]);
    all = answers(debug_image, &(struct debug_options){.model_dir = "tests/data/model/g0/hybrid", .out_file = path, .n_threads = 1}, in, 1);
    assert_non_null(strstr(json_string_value(json_object_get(json_array_get(all, 0), "error")), "has no vision tower"));
    json_decref(all);
    unlink(path);
}

/* ---- YaRN ---- */

enum { TRAINED = 128 };                 /* positions of the stretched model; the debug commands ask for four times as many */

/* Makes a folder with the checkpoint as if it had been trained on few positions. */
static void make_stretched(struct tmpdir *d)
{
    char from[300], to[200], here[200];
    assert_true(tmpdir_make(d) && getcwd(here, sizeof here));
    for (int i = 0; i < N_LINKS; i++) {
        snprintf(from, sizeof from, "%s/%s/%s", here, dir, linked[i]);
        snprintf(to, sizeof to, "%s/%s", d->path, linked[i]);
        assert_int_equal(symlink(from, to), 0);
    }
    snprintf(from, sizeof from, "%s/config.json", dir);
    json_t *config = json_load_file(from, 0, NULL);
    json_object_set_new(json_object_get(config, "text_config"), "max_position_embeddings", json_integer(TRAINED));
    char *text = json_dumps(config, 0);
    assert_true(tmpdir_put(d, "config.json", text, strlen(text)));
    free(text);
    json_decref(config);
}

static void drop_stretched(const struct tmpdir *d)
{
    for (int i = 0; i < N_LINKS; i++)
        tmpdir_drop(d, linked[i]);
    tmpdir_drop(d, "config.json");
    tmpdir_remove(d);
}

/* Returns the greatest distance between a prompt's logits of the file and `x`. */
static double off_by(const struct safetensors *got, int i, const float *x)
{
    char name[32];
    snprintf(name, sizeof name, "logits.%d", i);
    const struct tensor *t = safetensors_find(got, name);
    assert_non_null(t);
    const float *logits = safetensors_data(got, t);
    double most = 0;
    for (uint64_t k = 0; k < t->shape[0] * t->shape[1]; k++)
        most = fmax(most, fabs((double)logits[k] - (double)x[k]));
    return most;
}

static const float *logits_of(const struct safetensors *got, int i)
{
    char name[32];
    snprintf(name, sizeof name, "logits.%d", i);
    return safetensors_data(got, safetensors_find(got, name));
}

/* Whole, in chunks that are cut inside pictures, and in steps: all give the same logits, which are far from those without YaRN. */
static void test_pictures_debug__a_stretched_context_gives_the_same_logits_in_any_cut(void **state)
{
    (void)state;
    static const struct { bool step; int chunk, rows; } ways[] = {{0}, {.chunk = 7}, {.step = true}, {.step = true, .rows = 5, .chunk = 3}};
    enum { N_WAYS = sizeof ways / sizeof *ways };
    struct tmpdir d;
    struct safetensors got[N_WAYS];
    struct err e = {0};
    char path[N_WAYS][32];
    int n;
    make_stretched(&d);
    for (int w = 0; w < N_WAYS; w++) {
        FILE *in = tmpfile();
        for (int i = 0; i < N_PROMPTS; i++)
            put_line(in, i, true, "");
        strcpy(path[w], "/tmp/q35-logits-XXXXXX");
        close(mkstemp(path[w]));
        const struct debug_options o = {.model_dir = d.path, .backend = "cpu", .kv = "f32", .out_file = path[w], .n_threads = 2,
                                        .chunk = ways[w].chunk, .step = ways[w].step, .rows = ways[w].rows};
        json_decref(answers(debug_logits, &o, in, 0));
        if (!safetensors_open(&got[w], path[w], &e))
            fail_msg("%s", e.msg);
    }
    for (int i = 0; i < N_PROMPTS; i++) {
        for (int w = 1; w < N_WAYS; w++)
            if (!(off_by(&got[w], i, logits_of(&got[0], i)) <= bound))
                fail_msg("prompt %d, way %d: off by %g", i, w, off_by(&got[w], i, logits_of(&got[0], i)));
        assert_true(off_by(&got[0], i, want("logits", i, &n)) > 20 * bound);
    }
    for (int w = 0; w < N_WAYS; w++) {
        safetensors_close(&got[w]);
        unlink(path[w]);
    }
    drop_stretched(&d);
}

static void test_pictures_debug__a_stretched_context_gives_the_same_ids_at_any_depth_of_drafts(void **state)
{
    (void)state;
    enum { DEPTHS = 8 };
    struct tmpdir d;
    FILE *in = tmpfile();
    make_stretched(&d);
    for (int k = 0; k < N_PROMPTS * DEPTHS; k++) {
        char rest[64];
        snprintf(rest, sizeof rest, ", \"max_tokens\": %d, \"draft\": %d", N_GREEDY, k % DEPTHS);
        put_line(in, k / DEPTHS, true, rest);
    }
    json_t *all = answers(debug_generate, &(struct debug_options){.model_dir = d.path, .backend = "cpu", .kv = "f32", .n_threads = 2,
                                                                  .n_ctx = 4 * TRAINED, .chunk = 16}, in, 0);
    for (size_t k = 0; k < N_PROMPTS * DEPTHS; k++) {
        const json_t *ids = json_object_get(json_array_get(all, k), "ids"), *plain = json_object_get(json_array_get(all, k - k % DEPTHS), "ids");
        assert_true(json_array_size(ids) == N_GREEDY && json_equal(ids, plain));
    }
    json_decref(all);
    drop_stretched(&d);
}

static int open_expected(void **state)
{
    (void)state;
    struct err e = {0};
    struct model_config c;
    char path[128];
    snprintf(path, sizeof path, "%s/expected.safetensors", dir);
    if (!config_load(&c, dir, &e) || !safetensors_open(&expected, path, &e))
        fail_msg("%s", e.msg);
    pad = c.vision.image_id;
    return 0;
}

static int close_expected(void **state)
{
    (void)state;
    safetensors_close(&expected);
    return 0;
}

int main(void)
{
#define T(name) cmocka_unit_test(test_pictures_debug__##name)
    const struct CMUnitTest tests[] = {
        T(logits_and_positions_from_files), T(drafts_are_those_of_the_reference), T(generated_ids_are_those_of_the_reference),
        T(lines_that_cannot_be_run_say_why), T(image_gives_the_rows_of_the_reference),
        T(a_stretched_context_gives_the_same_logits_in_any_cut), T(a_stretched_context_gives_the_same_ids_at_any_depth_of_drafts),
    };
    return cmocka_run_group_tests(tests, open_expected, close_expected);
}
