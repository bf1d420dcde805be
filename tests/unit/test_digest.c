#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "fetch/digest.h"

/* From FIPS 180-2; and `printf 'hello\n' | git hash-object --stdin`. */
static const char abc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
static const char million_a[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
static const char hello_blob[] = "ce013625030ba8dba906f756967f9e9ca394464a";

static void test_digest__gives_the_published_values(void **state)
{
    (void)state;
    char hex[DIGEST_HEX];
    struct digest *d = digest_open(true, 3);
    digest_add(d, "a", 1);
    digest_add(d, "bc", 2);
    digest_end(d, hex);
    digest_close(d);
    assert_string_equal(hex, abc);
    d = digest_open(false, 6);
    digest_add(d, "hello\n", 6);
    digest_end(d, hex);
    digest_close(d);
    assert_string_equal(hex, hello_blob);
}

static void test_digest__continues_from_a_saved_state(void **state)
{
    (void)state;
    char bytes[1000], saved[DIGEST_HEX], hex[DIGEST_HEX];
    memset(bytes, 'a', sizeof bytes);
    for (size_t cut = 0; cut < sizeof bytes; cut += 111) {
        struct digest *d = digest_open(true, 1000000);
        for (int i = 0; i < 500; i++)
            digest_add(d, bytes, sizeof bytes);
        digest_add(d, bytes, cut);
        uint64_t n = digest_save(d, saved);
        digest_close(d);
        assert_true(n <= 500000 + cut && n + DIGEST_BLOCK > 500000 + cut);
        d = digest_open(true, 1000000);
        assert_true(digest_load(d, saved, n));
        for (uint64_t at = n; at < 1000000; at += 50)
            digest_add(d, bytes, 1000000 - at < 50 ? 1000000 - at : 50);
        digest_end(d, hex);
        digest_close(d);
        assert_string_equal(hex, million_a);
    }
}

static void test_digest__refuses_what_is_no_state(void **state)
{
    (void)state;
    struct digest *d = digest_open(true, 3);
    assert_false(digest_load(d, "0123", 64));
    assert_false(digest_load(d, million_a, 63));        /* never saved within a block */
    assert_false(digest_load(d, "zz7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", 64));
    char hex[DIGEST_HEX];
    digest_add(d, "abc", 3);
    digest_end(d, hex);
    digest_close(d);
    assert_string_equal(hex, abc);      /* it is as if it had just been opened */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digest__gives_the_published_values),
        cmocka_unit_test(test_digest__continues_from_a_saved_state),
        cmocka_unit_test(test_digest__refuses_what_is_no_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
