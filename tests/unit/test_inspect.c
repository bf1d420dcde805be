#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/debug.h"
#include "tests/checkpoint.h"

static const char *inspect(const char *dir, int *rc)
{
    static char text[1 << 14];
    *text = 0;
    FILE *out = fmemopen(text, sizeof text, "w");
    *rc = debug_inspect(dir, out);
    fclose(out);
    return text;
}

static void test_inspect__a_hybrid_is_told_by_part_and_format(void **state)
{
    (void)state;
    const char *lines[] = {
        "tensors  431 bound (41 of the MTP block), 1 skipped, 40 stale copies\n",
        "matrices 109 INT4, 12 FP8, 50 in 16 or 32 bits\n",
        "embedding                 -            -         0.13         0.13\n",
        "attention              0.27            -            -         0.27\n",
        "shared expert             -         0.20            -         0.20\n",
        "experts                0.82            -            -         0.82\n",
        "total                  1.29         0.20         2.30         3.79\n",
        "one token without drafting reads 1.24 MB of weights (head as stored)\n",
    };
    int rc;
    const char *text = inspect("tests/data/model/g0/hybrid", &rc);
    assert_int_equal(rc, 0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i]))
            fail_msg("no \"%s\" in\n%s", lines[i], text);
}

/* The published sum of what a token of the 122B model reads, from the shapes alone: the files are sparse. */
static void test_inspect__the_int4_model_of_full_size_reads_6539_mb_a_token(void **state)
{
    (void)state;
    struct ck k;
    struct model_config c = ck_122b();
    ck_model(&k, &c, CK_INT4, "model.language_model.", 14, CK_EXTRA);
    k.sparse = true;
    ck_write(&k, &c);
    int rc;
    const char *text = inspect(k.dir, &rc);
    assert_int_equal(rc, 0);
    assert_non_null(strstr(text, "Qwen3.5-122B-A10B: 48 layers (12 attention, 36 DeltaNet)"));
    assert_non_null(strstr(text, "tensors  112568 bound (785 of the MTP block), 0 skipped, 0 stale copies\n"));
    assert_non_null(strstr(text, "one token without drafting reads 6539.39 MB"));
    ck_close(&k);
}

static void test_inspect__a_bad_directory_fails_with_status_1(void **state)
{
    (void)state;
    int rc;
    const char *text = inspect("tests/data/model/nothing-here", &rc);
    assert_int_equal(rc, 1);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inspect__a_hybrid_is_told_by_part_and_format),
        cmocka_unit_test(test_inspect__the_int4_model_of_full_size_reads_6539_mb_a_token),
        cmocka_unit_test(test_inspect__a_bad_directory_fails_with_status_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
