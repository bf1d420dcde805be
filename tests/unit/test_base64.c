#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/base64.h"

static void test_base64__gives_the_published_values_and_reads_them_back(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="},
                                          {"foobar", "Zm9vYmFy"}, {"\xff\xfe\xfb", "//77"}};         /* RFC 4648, 10 */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out = {0}, back = {0};
        base64_add(&out, text_of(rows[i][0]));
        assert_string_equal(buf_str(&out), rows[i][1]);
        assert_true(base64_read(&back, text_of(rows[i][1])));
        assert_string_equal(buf_str(&back), rows[i][0]);
        back.len = 0;
        assert_true(base64_read(&back, (struct text){rows[i][1], strcspn(rows[i][1], "=")}));        /* without padding */
        assert_int_equal(back.len, strlen(rows[i][0]));
        buf_free(&out);
        buf_free(&back);
    }
}

static void test_base64__refuses_everything_else_and_appends_nothing(void **state)
{
    (void)state;
    static const char *const rows[] = {"Z", "Zm9vY", "Zm 9", "Zm9-", "Zh==", "Zm9=", "=", "====", "Zg=a", "Zm9v\nYg==", "Zg==Zg=="};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out = {0};
        buf_adds(&out, "before");
        if (base64_read(&out, text_of(rows[i])) || out.len != 6)
            fail_msg("%s", rows[i]);
        buf_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base64__gives_the_published_values_and_reads_them_back),
        cmocka_unit_test(test_base64__refuses_everything_else_and_appends_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
