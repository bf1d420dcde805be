#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/child.h"
#include "base/clock.h"

static int run(const char *script, size_t most, struct buf *out)
{
    const char *const words[] = {"sh", "-c", script, "it", "a b", "'c", NULL};
    buf_reset(out);
    return child_run(words, most, out);
}

static void test_child__gives_output_and_status_and_gets_its_words_whole(void **state)
{
    (void)state;
    struct buf out = {0};
    const char *const none[] = {"q35chat-no-such-program", NULL};
    assert_int_equal(run("echo \"$1|$2|$#\"; exit 3", 100, &out), 3);
    assert_string_equal(out.data, "a b|'c|2\n");
    assert_int_equal(child_run(none, 100, &out), CHILD_NOT_FOUND);
    buf_free(&out);
}

static void test_child__too_much_output_ends_it_with_all_it_has_started(void **state)
{
    (void)state;
    struct buf out = {0};
    const int64_t begun = clock_ns();
    assert_int_equal(run("sleep 60 & yes", 1 << 20, &out), -1);
    assert_true(out.len < 2 << 20 && clock_ms_since(begun) < 10000);
    buf_free(&out);
}

static void test_child__has_no_terminal_no_input_and_none_of_our_secrets(void **state)
{
    (void)state;
    struct buf out = {0};
    setenv("Q35CHAT_API_KEY", "secret", 1);
    assert_true(run("cat; env; exec 2> /dev/null; cat < /dev/tty", 1 << 16, &out) > 0);
    assert_null(strstr(buf_str(&out), "secret"));
    assert_non_null(strstr(buf_str(&out), "PATH="));
    buf_free(&out);
}

static void test_child__memory_is_limited(void **state)
{
    (void)state;
    struct buf out = {0};
    assert_int_equal(run("ulimit -v; ulimit -t", 100, &out), 0);
    assert_string_equal(out.data, "1500000\n20\n");
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child__gives_output_and_status_and_gets_its_words_whole),
        cmocka_unit_test(test_child__too_much_output_ends_it_with_all_it_has_started),
        cmocka_unit_test(test_child__has_no_terminal_no_input_and_none_of_our_secrets),
        cmocka_unit_test(test_child__memory_is_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
