/* Prices of steps and drafts in a file: what one start writes the next one finds, whatever else is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "engine/price.h"
#include "tests/tmpdir.h"

static struct tmpdir dir;
static char path[96];

static int make_dir(void **state)
{
    (void)state;
    const bool ok = tmpdir_make(&dir);
    snprintf(path, sizeof path, "%s/prices", dir.path);
    return !ok;
}

static int drop_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir.path);             /* nothing else is left there */
}

static struct price measured(double one_ms)
{
    struct price p = {0};
    for (int i = 0; i < 8; i++) {
        price_step_took(&p, 1, one_ms);
        price_step_took(&p, 3, 1.5 * one_ms);
        price_drafts_took(&p, 1, 2, 0.2 * one_ms);
    }
    return p;
}

static void keep(const struct price *p, const char *key)
{
    struct err e;
    if (!price_remember(p, path, key, &e))
        fail_msg("%s", e.msg);
}

static void assert_alike(const struct price *a, const struct price *b)
{
    for (int rows = 1; rows <= PRICE_ROWS; rows++) {
        assert_float_equal(price_step(a, rows), price_step(b, rows), 1e-3);
        assert_float_equal(price_draft(a, rows), price_draft(b, rows), 1e-3);
        assert_int_equal(a->timed[rows - 1], b->timed[rows - 1]);
    }
}

static void test_pricelist__each_key_finds_what_was_kept_last(void **state)
{
    (void)state;
    const struct price one = measured(20), other = measured(3), newer = measured(25);
    struct price got = {.one_ms = 7};
    assert_false(price_recall(&got, path, "a GPU, a model"));         /* no file */
    assert_true(got.one_ms > 6.9 && got.one_ms < 7.1);
    keep(&one, "a GPU, a model");
    keep(&other, "a GPU, a model, KV tq4");
    keep(&newer, "a GPU, a model");
    assert_true(price_recall(&got, path, "a GPU, a model"));
    assert_alike(&got, &newer);
    assert_true(price_recall(&got, path, "a GPU, a model, KV tq4"));
    assert_alike(&got, &other);
    assert_false(price_recall(&got, path, "a GPU"));
}

static void test_pricelist__what_is_no_price_is_ignored_and_goes(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "\n\n\n", "garbage", "1 2 3 key", "\xff\xfe\x01\n",
        "0 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 key",             /* nothing was measured */
        "nan 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 key", "inf 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 key",
        "-5 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 key", "1e300 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 key",
        "5 1 9 1 1 1 1 1 1 6 6 0 0 0 0 0 0 0 0 0 0 0 0 0 0 key",             /* two rows for the price of nine */
        "5 1 1e-9 1 1 1 1 1 1 6 6 0 0 0 0 0 0 0 0 0 0 0 0 0 0 key",          /* ... and for none */
        "5 1 1.2 1 1 1 1 1 1 6 900 0 0 0 0 0 0 0 0 0 0 0 0 0 0 key", "5 1 1.2 1 1 1 1 1 1 6 6 0 0 0 0 0 0 nan 0 0 0 0 0 0 0 key",
        "5 1 1.2 1 1 1 1 1 1 6 6 0 0 0 0 0 0 1 0 0 0 0 0 0 0key",
    };
    const struct price p = measured(5);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct price got;
        struct buf text = {0};
        struct err e;
        assert_true(tmpdir_put(&dir, "prices", bad[i], strlen(bad[i])));
        if (price_recall(&got, path, "key"))
            fail_msg("taken for prices: %s", bad[i]);
        keep(&p, "key");
        assert_true(price_recall(&got, path, "key"));
        assert_alike(&got, &p);
        assert_true(file_read(&text, path, 10000, &e));
        assert_ptr_equal(strchr(text.data, '\n'), text.data + text.len - 1);    /* one line */
        buf_free(&text);
    }
}

static void test_pricelist__cut_at_any_byte_it_is_whole_or_nothing(void **state)
{
    (void)state;
    const struct price p = measured(123.456);
    struct price got;
    struct buf text = {0};
    struct err e;
    keep(&p, "key");
    assert_true(file_read(&text, path, 10000, &e));
    for (size_t n = 0; n < text.len; n++) {
        assert_true(tmpdir_put(&dir, "prices", text.data, n));
        assert_int_equal(price_recall(&got, path, "key"), n == text.len - 1); /* without its line end */
    }
    buf_free(&text);
}

static void test_pricelist__a_file_does_not_grow_without_end(void **state)
{
    (void)state;
    const struct price p = measured(5);
    struct price got;
    struct stat s;
    char key[32];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "model %d", i);
        keep(&p, key);
    }
    assert_int_equal(stat(path, &s), 0);
    assert_true(s.st_size < 32 * 200);
    assert_true(price_recall(&got, path, "model 99") && price_recall(&got, path, "model 68"));
    assert_false(price_recall(&got, path, "model 67"));
}

static void test_pricelist__prices_of_a_busy_machine_are_measured_again(void **state)
{
    (void)state;
    const struct price fresh = {.one_ms = 10};
    struct price p = {0}, got;
    for (int i = 0; i < 20; i++) {
        price_step_took(&p, 1, 10);
        price_step_took(&p, 2, 20);
        price_step_took(&p, 4, 16);
        price_drafts_took(&p, 1, 1, 1);
    }
    assert_true(price_step(&p, 2) > 1.9);
    keep(&p, "key");
    assert_true(price_recall(&got, path, "key"));
    assert_true(price_step(&got, 2) <= price_step(&fresh, 2) + 1e-3);
    assert_float_equal(price_step(&got, 4), price_step(&p, 4), 1e-3);
    assert_float_equal(price_draft(&got, 1), price_draft(&p, 1), 1e-3);
}

static void test_pricelist__where_nothing_can_be_written_it_says_so(void **state)
{
    (void)state;
    const struct price p = measured(5);
    struct err e;
    struct price got;
    assert_false(price_remember(&p, "/nonexistent/prices", "key", &e));
    assert_non_null(strstr(e.msg, "/nonexistent/prices"));
    assert_int_equal(mkfifo(path, 0600), 0);                            /* nobody waits for it */
    assert_false(price_recall(&got, path, "key"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pricelist__each_key_finds_what_was_kept_last, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(test_pricelist__what_is_no_price_is_ignored_and_goes, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(test_pricelist__cut_at_any_byte_it_is_whole_or_nothing, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(test_pricelist__a_file_does_not_grow_without_end, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(test_pricelist__prices_of_a_busy_machine_are_measured_again, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(test_pricelist__where_nothing_can_be_written_it_says_so, make_dir, drop_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
