#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "serve/tokens.h"

static void test_tokens__counts_the_values_of_a_body_before_it_is_parsed(void **state)
{
    static const struct {
        const char *body;
        size_t n;                       /* values, as many as are counted */
    } rows[] = {
        {"", 1}, {"3", 1}, {"[]", 2}, {"[1,2,3]", 4}, {"{\"a\":1,\"b\":[]}", 4}, {"[[],[],[]]", 7},
        {"\"[[[,,,\"", 1}, {"[\"a,b\",\"c\"]", 3}, {"[\"\\\",,,\",1]", 3}, {"[\"\\\\\",1]", 3}, {"[\"\\\\\\\",,\"]", 2}, {"\"", 1},
        {"[\"no end,,,", 2},
        {"\\\"[", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_false(tokens_too_many(text_of(rows[i].body), rows[i].n));
        assert_true(rows[i].n == 0 || tokens_too_many(text_of(rows[i].body), rows[i].n - 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens__counts_the_values_of_a_body_before_it_is_parsed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
