#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "model/safetensors_write.h"
#include "tests/tmpdir.h"

enum { BIG = 20 << 20 };                /* more than two pieces of work */

static uint8_t value(const struct tensor_out *t, uint64_t at)
{
    return (uint8_t)(at * 7 + at / 253 + (uint64_t)t->name[0]);
}

static bool make(const struct tensor_out *t, uint64_t at, uint64_t n, uint8_t *dst, struct err *e)
{
    if (t->source)
        return err_set(e, "no bytes of %s at %s", t->name, (const char *)t->source);
    for (uint64_t i = 0; i < n; i++)
        dst[i] = value(t, at + i);
    return true;
}

/* Odd sizes, an empty tensor, a scalar, one that spans several pieces. */
static struct tensor_out tensors[] = {
    {.name = "a", .dtype = DT_U8, .n_dims = 1, .shape = {3}},
    {.name = "b", .dtype = DT_BF16, .n_dims = 2, .shape = {5, 7}},
    {.name = "empty", .dtype = DT_F32, .n_dims = 2, .shape = {0, 7}},
    {.name = "c", .dtype = DT_F32, .n_dims = 0},
    {.name = "d", .dtype = DT_F8_E4M3, .n_dims = 2, .shape = {BIG / 64 + 1, 64}},
    {.name = "e", .dtype = DT_I32, .n_dims = 1, .shape = {1}},
};
enum { N_TENSORS = sizeof tensors / sizeof *tensors };

static void path_of(char *out, size_t size, const struct tmpdir *d, const char *name)
{
    snprintf(out, size, "%s/%s", d->path, name);
}

static void write_file(const struct tmpdir *d, const char *name, int n_threads)
{
    char path[192];
    struct tensor_out *list[N_TENSORS];
    struct err e = {0};
    path_of(path, sizeof path, d, name);
    for (int i = 0; i < N_TENSORS; i++)
        list[i] = &tensors[i];
    struct file_out f = {.path = path, .tensors = list, .n_tensors = N_TENSORS};
    if (!safetensors_write(&f, 1, &(struct write_options){.n_threads = n_threads, .make = make}, &e))
        fail_msg("%s", e.msg);
}

static void test_safetensors_write__what_is_written_reads_back(void **state)
{
    (void)state;
    struct tmpdir d;
    struct safetensors s;
    struct err e = {0};
    char path[192];
    assert_true(tmpdir_make(&d));
    write_file(&d, "x", 3);
    path_of(path, sizeof path, &d, "x");
    if (!safetensors_open(&s, path, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(s.n_tensors, N_TENSORS);
    for (int i = 0; i < N_TENSORS; i++) {
        const struct tensor *t = safetensors_find(&s, tensors[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, tensors[i].dtype);
        assert_int_equal(t->n_dims, tensors[i].n_dims);
        assert_int_equal(t->bytes, tensor_out_bytes(&tensors[i]));
        const uint8_t *data = safetensors_data(&s, t);
        for (uint64_t k = 0; k < t->bytes; k++)
            if (data[k] != value(&tensors[i], k))
                fail_msg("%s: byte %llu is %d", t->name, (unsigned long long)k, data[k]);
    }
    const struct tensor *last = safetensors_find(&s, "e");
    assert_int_equal(last->offset + last->bytes, s.size);      /* nothing behind: readers of other programs refuse it */
    assert_int_equal((s.tensors[0].offset) % 8, 0);
    safetensors_close(&s);
    tmpdir_drop(&d, "x");
    tmpdir_remove(&d);
}

static void test_safetensors_write__bytes_do_not_depend_on_threads_or_an_older_file(void **state)
{
    (void)state;
    struct tmpdir d;
    struct buf a = {0}, b = {0};
    struct err e = {0};
    char x[192], y[192];
    assert_true(tmpdir_make(&d));
    path_of(x, sizeof x, &d, "x");
    path_of(y, sizeof y, &d, "y");
    char *junk = calloc(1, BIG + (1 << 20));
    assert_non_null(junk);
    assert_true(tmpdir_put(&d, "y", junk, BIG + (1 << 20)));
    free(junk);
    write_file(&d, "x", 1);
    write_file(&d, "y", 5);
    assert_true(file_read(&a, x, 1 << 30, &e) && file_read(&b, y, 1 << 30, &e));
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    buf_free(&a);
    buf_free(&b);
    tmpdir_drop(&d, "x");
    tmpdir_drop(&d, "y");
    tmpdir_remove(&d);
}

static void test_safetensors_write__a_failure_is_reported(void **state)
{
    (void)state;
    struct tensor_out t = {.name = "t", .dtype = DT_U8, .n_dims = 1, .shape = {9}, .source = "all"}, *list[] = {&t};
    struct file_out f = {.path = "/nowhere/at/all", .tensors = list, .n_tensors = 1};
    struct write_options o = {.make = make};
    struct err e = {0};
    assert_false(safetensors_write(&f, 1, &o, &e));
    assert_non_null(strstr(e.msg, "cannot write /nowhere/at/all: "));
    struct tmpdir d;
    char path[192];
    assert_true(tmpdir_make(&d));
    path_of(path, sizeof path, &d, "x");
    f.path = path;
    assert_false(safetensors_write(&f, 1, &o, &e));
    assert_string_equal(e.msg, "no bytes of t at all");
    tmpdir_drop(&d, "x");
    tmpdir_remove(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors_write__what_is_written_reads_back),
        cmocka_unit_test(test_safetensors_write__bytes_do_not_depend_on_threads_or_an_older_file),
        cmocka_unit_test(test_safetensors_write__a_failure_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
