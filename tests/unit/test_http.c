#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>

#include "fetch/cache.h"
#include "fetch/http.h"

static void test_http__a_token_is_for_one_scheme_host_and_port(void **state)
{
    (void)state;
    assert_true(http_same_origin("https://hub.example", "https://hub.example/org/name?x=y"));
    assert_true(http_same_origin("https://hub.example:443/a", "https://HUB.example/b"));
    assert_false(http_same_origin("https://hub.example", "http://hub.example"));
    assert_false(http_same_origin("https://hub.example", "https://hub.example:444"));
    assert_false(http_same_origin("https://hub.example", "https://cdn.hub.example"));
    assert_false(http_same_origin("https://hub.example", "https://hub.example.evil.org"));
    assert_false(http_same_origin("https://hub.example", "https://hub.example@evil.org/"));
    assert_false(http_same_origin("https://hub.example", "no address"));
}

static void test_http__never_goes_from_https_to_http(void **state)
{
    (void)state;
    assert_true(http_may_follow("https://a", "https://b"));
    assert_true(http_may_follow("http://a", "https://b"));
    assert_true(http_may_follow("http://a", "http://b"));
    assert_false(http_may_follow("https://a", "http://b"));
    assert_false(http_may_follow("https://a", "file:///etc/passwd"));
    assert_false(http_may_follow("http://a", "ftp://b"));
}

static void test_http__escapes_names_for_addresses(void **state)
{
    (void)state;
    struct buf out = {0};
    http_escape(&out, "a b/c?#%\xc3\xa9", "/");
    assert_string_equal(buf_str(&out), "a%20b/c%3F%23%25%C3%A9");
    buf_reset(&out);
    http_escape(&out, "refs/pr/1", "");
    assert_string_equal(buf_str(&out), "refs%2Fpr%2F1");
    buf_free(&out);
}

static void test_cache__tells_a_repository_from_its_folder(void **state)
{
    (void)state;
    struct buf name = {0};
    assert_true(cache_repo_name(&name, "models--Qwen--Qwen3.5-122B-A10B-FP8"));
    assert_string_equal(name.data, "Qwen/Qwen3.5-122B-A10B-FP8");
    assert_true(cache_repo_name(&name, "models--gpt2"));
    assert_string_equal(name.data, "gpt2");
    assert_false(cache_repo_name(&name, "datasets--a--b"));
    buf_free(&name);
}

/* Descriptors that a program started now would get, but for the first three. */
static int inherited(void)
{
    int n = 0;
    for (int fd = 3; fd < 1024; fd++) {
        const int flags = fcntl(fd, F_GETFD);
        n += flags >= 0 && !(flags & FD_CLOEXEC);
    }
    return n;
}

static void test_http__its_descriptors_are_closed_in_a_program_that_is_started(void **state)
{
    (void)state;
    const int before = inherited();
    struct http *h = http_open(), *other = http_open();
    assert_true(inherited() <= before);
    http_close(h);
    http_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_http__a_token_is_for_one_scheme_host_and_port),
        cmocka_unit_test(test_http__never_goes_from_https_to_http),
        cmocka_unit_test(test_http__escapes_names_for_addresses),
        cmocka_unit_test(test_http__its_descriptors_are_closed_in_a_program_that_is_started),
        cmocka_unit_test(test_cache__tells_a_repository_from_its_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
