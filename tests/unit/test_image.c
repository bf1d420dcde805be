/* Decoding, resizing and patches against tests/data/pictures, which a reference implementation made. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

#include "base/file.h"
#include "debug/debug.h"
#include "fetch/digest.h"
#include "image/image.h"
#include "model/safetensors.h"
#include "tests/tmpdir.h"
#include "tests/unit/large.h"

#define DATA "tests/data/pictures/"

static json_t *golden;

static int read_golden(void **state)
{
    (void)state;
    golden = json_load_file(DATA "golden.json", 0, NULL);
    return !golden;
}

static int free_golden(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

static int64_t number(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static void check_digest(const json_t *o, const char *key, const struct image *im)
{
    const size_t n = (size_t)im->w * (size_t)im->h * 3;
    char hex[DIGEST_HEX];
    struct digest *d = digest_open(true, n);
    digest_add(d, im->rgb, n);
    digest_end(d, hex);
    digest_close(d);
    if (strcmp(hex, json_string_value(json_object_get(o, key))))
        fail_msg("%s of %s is %s", key, json_string_value(json_object_get(o, "file")), hex);
}

static void read_picture(struct image *im, const char *name)
{
    struct err e = {0};
    char path[100];
    snprintf(path, sizeof path, DATA "%s", name);
    if (!image_read(im, path, &e))
        fail_msg("%s", e.msg);
}

static void test_image__decoded_and_resized_pictures_equal_the_reference_byte_for_byte(void **state)
{
    (void)state;
    size_t i;
    json_t *o;
    struct err e = {0};
    json_array_foreach(json_object_get(golden, "images"), i, o) {
        const struct image_limits limits = {number(o, "min_pixels"), number(o, "max_pixels")};
        const json_t *grid = json_object_get(o, "grid_thw");
        struct image im;
        read_picture(&im, json_string_value(json_object_get(o, "file")));
        assert_int_equal(im.h, number(o, "height"));
        assert_int_equal(im.w, number(o, "width"));
        check_digest(o, "rgb_sha256", &im);
        assert_true(image_fit(&im, &limits, &e));
        check_digest(o, "resized_sha256", &im);
        const struct image_grid g = image_grid(&im);
        assert_int_equal(g.h, json_integer_value(json_array_get(grid, 1)));
        assert_int_equal(g.w, json_integer_value(json_array_get(grid, 2)));
        assert_int_equal(g.tokens, number(o, "tokens"));
        image_free(&im);
    }
    assert_int_equal(i, 10);
}

static void test_image__target_sizes_and_refusals_equal_the_reference(void **state)
{
    (void)state;
    size_t i;
    json_t *row;
    int refused = 0;
    json_array_foreach(json_object_get(golden, "smart_resize"), i, row) {
        json_int_t x[4];
        for (size_t k = 0; k < 4; k++)
            x[k] = json_integer_value(json_array_get(row, k));
        const json_t *want = json_array_get(row, 4);
        const struct image_limits limits = {x[2], x[3]};
        struct err e = {0};
        int h, w;
        const bool ok = image_target((int)x[0], (int)x[1], &limits, &h, &w, &e);
        const json_int_t want_h = json_integer_value(json_array_get(want, 0)), want_w = json_integer_value(json_array_get(want, 1));
        if (ok != json_is_array(want) || (ok && (h != want_h || w != want_w)))
            fail_msg("%d x %d gives %d x %d", (int)x[0], (int)x[1], ok ? h : 0, ok ? w : 0);
        refused += !ok && *e.msg;
    }
    assert_int_equal(i, 360);
    assert_int_equal(refused, 51);
}

static void test_image__patches_come_in_blocks_and_equal_the_reference(void **state)
{
    (void)state;
    struct image im;
    struct err e = {0};
    size_t i;
    json_t *spot;
    read_picture(&im, "gray.png");
    assert_true(image_fit(&im, &(struct image_limits){4096, 32768}, &e));
    const struct image_grid g = image_grid(&im);
    float *patches = malloc((size_t)g.h * (size_t)g.w * IMAGE_PATCH * sizeof *patches);
    image_patches(&im, patches);
    json_array_foreach(json_object_get(golden, "gray_patches"), i, spot) {
        const json_int_t at = json_integer_value(json_array_get(spot, 0));
        if (fabs((double)patches[at] - json_number_value(json_array_get(spot, 1))) > 1e-6)
            fail_msg("number %d of the patches is %g", (int)at, (double)patches[at]);
    }
    assert_int_equal(i, 150);
    free(patches);
    image_free(&im);
}

static bool same_hash(const struct image *a, const struct image *b)
{
    const struct fingerprint x = image_hash(a), y = image_hash(b);
    return x.low == y.low && x.high == y.high;
}

static void test_image__the_hash_depends_on_sides_and_every_pixel(void **state)
{
    (void)state;
    uint8_t zeros[32 * 64 * 3] = {0}, other[32 * 64 * 3] = {0};
    const struct image wide = {64, 32, zeros, true}, high = {32, 64, zeros, true}, changed = {64, 32, other, true};
    assert_true(same_hash(&wide, &changed));
    assert_false(same_hash(&wide, &high));
    other[sizeof other - 1] = 1;
    assert_false(same_hash(&wide, &changed));
}

static void test_image__limits_come_from_the_image_part_of_the_models_files(void **state)
{
    (void)state;
    static const struct { const char *name, *text; int64_t min, max; } rows[] = {
        {"preprocessor_config.json", "{\"size\": {\"shortest_edge\": 4096, \"longest_edge\": 32768}}", 4096, 32768},
        {"preprocessor_config.json", "{}", 65536, 16777216},
        {"processor_config.json", "{\"video_processor\": {\"size\": {\"shortest_edge\": 1, \"longest_edge\": 25165824}},"
         " \"image_processor\": {\"size\": {\"shortest_edge\": 65536, \"longest_edge\": 8388608}}}", 65536, 8388608},
        {"preprocessor_config.json", "[]", 0, 0},
        {"preprocessor_config.json", "{\"size\": {\"shortest_edge\": 9, \"longest_edge\": 8}}", 0, 0},
        {"preprocessor_config.json", "{\"size\": {\"shortest_edge\": 1, \"longest_edge\": 1e999}}", 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tmpdir d;
        struct image_limits l;
        struct err e = {0};
        assert_true(tmpdir_make(&d) && tmpdir_put(&d, rows[i].name, rows[i].text, strlen(rows[i].text)));
        const bool ok = image_limits_load(&l, d.path, &e);
        assert_int_equal(ok, rows[i].max != 0);
        assert_int_equal(ok, !*e.msg);
        if (ok) {
            assert_int_equal(l.min_pixels, rows[i].min);
            assert_int_equal(l.max_pixels, rows[i].max);
        }
        tmpdir_drop(&d, rows[i].name);
        tmpdir_remove(&d);
    }
}

static void test_image__a_written_png_reads_back_the_same(void **state)
{
    (void)state;
    struct image im, again;
    struct buf png = {0};
    struct err e = {0};
    read_picture(&im, "photo.jpg");
    assert_true(image_write_png(&im, &png, &e));
    assert_int_equal(image_kind(png.data, png.len), IMAGE_PNG);
    assert_true(image_decode(&again, png.data, png.len, "again", NULL, &e));
    assert_true(im.w == again.w && im.h == again.h && same_hash(&im, &again));
    image_free(&im);
    image_free(&again);
    buf_free(&png);
}

/* Decodes a picture on another thread. */
struct other {
    pthread_t thread;
    const struct buf *png;
    uint64_t client;
    atomic_bool stop, ended;
    bool ok;
    int place;                          /* how many were decoded before */
};

static atomic_int n_decoded, n_waiting;         /* threads that have decoded; that have waited for their turn */

int __real_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at);

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at)
{
    static _Thread_local bool waited;
    n_waiting += !waited;
    waited = true;
    return __real_pthread_cond_timedwait(c, m, at);
}

static void *decode_other(void *arg)
{
    struct other *t = arg;
    struct image im;
    t->ok = image_decode(&im, t->png->data, t->png->len, "it", &(struct image_wish){&t->stop, t->client}, NULL);
    t->place = atomic_fetch_add(&n_decoded, 1);
    image_free(&im);
    atomic_store(&t->ended, true);
    return NULL;
}

static void test_image__large_pictures_are_decoded_one_at_a_time_until_nobody_wants_them(void **state)
{
    (void)state;
    enum { H = 4000, W = IMAGE_LARGE / H + 1 };
    struct image im, first;
    struct buf large = {0}, small = {0};
    struct err e = {0};
    im = (struct image){.w = W, .h = H, .rgb = calloc(W * H, 3)};
    assert_true(image_write_png(&im, &large, &e));
    im.h = 1000;
    assert_true(image_write_png(&im, &small, &e));
    image_free(&im);
    struct other waits = {.png = &large}, stopped = {.png = &large}, beside = {.png = &small}, *all[] = {&waits, &stopped, &beside};
    assert_true(image_decode(&first, large.data, large.len, "it", NULL, &e));
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&all[i]->thread, NULL, decode_other, all[i]), 0);
    pthread_join(beside.thread, NULL);
    atomic_store(&stopped.stop, true);
    pthread_join(stopped.thread, NULL);
    usleep(200000);
    assert_true(beside.ok && !stopped.ok && !atomic_load(&waits.ended));
    image_free(&first);
    pthread_join(waits.thread, NULL);
    assert_true(waits.ok);
    buf_free(&large);
    buf_free(&small);
}

static void test_image__a_client_with_many_large_pictures_delays_another_one_by_one(void **state)
{
    (void)state;
    static const uint64_t clients[] = {1, 1, 1, 1, 2, 2, 0};
    static const int places[] = {0, 3, 5, 6, 1, 4, 2};
    enum { N = sizeof clients / sizeof *clients };
    struct other all[N] = {0};
    struct buf gif = gif_of(SIDE, 0);
    struct image im = hold();
    n_decoded = n_waiting = 0;
    for (int i = 0; i < N; i++) {
        all[i].png = &gif;
        all[i].client = clients[i];
        assert_int_equal(pthread_create(&all[i].thread, NULL, decode_other, &all[i]), 0);
        while (n_waiting <= i)
            sched_yield();
    }
    image_free(&im);
    for (int i = 0; i < N; i++) {
        pthread_join(all[i].thread, NULL);
        assert_true(all[i].ok);
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(all[i].place, places[i]);
    buf_free(&gif);
}

static void test_image__what_nobody_wants_is_not_decoded_to_its_end(void **state)
{
    (void)state;
    static const char *const names[] = {"photo.jpg", "page.png", "still.webp", "moving.webp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[100];
        struct image im;
        struct buf file = {0};
        struct err e = {0};
        snprintf(path, sizeof path, DATA "%s", names[i]);
        assert_true(file_read(&file, path, 1 << 20, &e));
        /* `plain` becomes true when there is room for the pixels: so it stops behind the header */
        assert_false(image_decode(&im, file.data, file.len, "it", &(struct image_wish){.stop = (const atomic_bool *)&im.plain}, &e));
        assert_string_equal(e.msg, "it is not needed any more");
        buf_free(&file);
    }
}

static void test_image__debug_image_writes_what_the_tower_gets(void **state)
{
    (void)state;
    static const char lines[] = "{\"image\": \"" DATA "gray.png\", \"min_pixels\": 4096, \"max_pixels\": 32768}\n{\"image\": \"" DATA "none.png\"}\n"
                                "{\"image\": \"" DATA "tiny.png\"}\n";
    struct tmpdir d;
    struct safetensors st;
    struct err e = {0};
    char path[100], answers[1000];
    assert_true(tmpdir_make(&d));
    snprintf(path, sizeof path, "%s/out", d.path);
    FILE *in = fmemopen((char *)lines, sizeof lines - 1, "r"), *out = tmpfile();
    assert_int_equal(debug_image(&(struct debug_options){.model_dir = d.path, .out_file = path}, in, out), 1);     /* a line has an error */
    rewind(out);
    const size_t n = fread(answers, 1, sizeof answers - 1, out);
    answers[n] = 0;
    assert_non_null(strstr(answers, "{\"grid\": [1, 4, 6], \"tokens\": 6}\n{\"error\": \""));
    assert_non_null(strstr(answers, "\"}\n{\"grid\": [1, 22, 14], \"tokens\": 77}\n"));
    assert_true(safetensors_open(&st, path, &e));
    assert_int_equal(st.n_tensors, 2);
    const struct tensor *t = safetensors_find(&st, "resized.2");
    assert_true(t && t->dtype == DT_U8 && t->n_dims == 3 && t->shape[0] == 352 && t->shape[1] == 224 && t->shape[2] == 3);
    check_digest(json_array_get(json_object_get(golden, "images"), 7), "resized_sha256",
                 &(struct image){.w = 224, .h = 352, .rgb = (uint8_t *)(uintptr_t)safetensors_data(&st, t)});
    safetensors_close(&st);
    fclose(in);
    fclose(out);
    tmpdir_drop(&d, "out");
    tmpdir_remove(&d);
}

static void test_image__other_kinds_of_files_are_refused_by_name(void **state)
{
    (void)state;
    static const struct { const char *bytes; size_t n; const char *why; } rows[] = {
        {"", 0, "x is empty"},
        {"hello", 5, "x is not a picture: its bytes are not PNG, JPEG, WebP or GIF"},
        {"GIF89a\1\0\1\0", 10, "x is a damaged GIF file: it ends too early"},
        {"GIF89a\1\0\1\0\0\0\0;1234567890", 24, "x is a damaged GIF file: it has no picture"},
        {"BM\x3a\0\0\0", 6, "x is a BMP file, which is not read as a picture; convert it to PNG or JPEG"},
        {"\0\0\0\x18" "ftypheic", 12, "x is a HEIC file, which is not read as a picture; convert it to PNG or JPEG"},
        {"\0\0\0\x1c" "ftypavif", 12, "x is an AVIF file, which is not read as a picture; convert it to PNG or JPEG"},
        {"%PDF-1.7", 8, "x is a PDF file, which is not read as a picture; convert it to PNG or JPEG"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct image im;
        struct err e = {0};
        assert_false(image_decode(&im, rows[i].bytes, rows[i].n, "x", NULL, &e));
        assert_string_equal(e.msg, rows[i].why);
        assert_null(im.rgb);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image__decoded_and_resized_pictures_equal_the_reference_byte_for_byte),
        cmocka_unit_test(test_image__target_sizes_and_refusals_equal_the_reference),
        cmocka_unit_test(test_image__patches_come_in_blocks_and_equal_the_reference),
        cmocka_unit_test(test_image__the_hash_depends_on_sides_and_every_pixel),
        cmocka_unit_test(test_image__limits_come_from_the_image_part_of_the_models_files),
        cmocka_unit_test(test_image__a_written_png_reads_back_the_same),
        cmocka_unit_test(test_image__large_pictures_are_decoded_one_at_a_time_until_nobody_wants_them),
        cmocka_unit_test(test_image__a_client_with_many_large_pictures_delays_another_one_by_one),
        cmocka_unit_test(test_image__what_nobody_wants_is_not_decoded_to_its_end),
        cmocka_unit_test(test_image__debug_image_writes_what_the_tower_gets),
        cmocka_unit_test(test_image__other_kinds_of_files_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, read_golden, free_golden);
}
