#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/limits.h"
#include "serve/relay.h"

static bool attaches(const char *protocol, struct err *e)
{
    struct arena mem = {0};
    struct text name = {0};
    char body[160];
    snprintf(body, sizeof body, "{\"id\": \"a7\"%s%s}", *protocol ? ", \"protocol\": " : "", protocol);
    bool ok = relay_read_attach(text_of(body), &name, &mem, e);
    if (ok)
        assert_true(text_is(name, "a7"));
    arena_free(&mem);
    return ok;
}

static void test_relay__only_who_speaks_the_same_protocol_attaches(void **state)
{
    static const char *const others[] = {"", "0", "-1", "\"1\"", "1.0", "null", "99999999999999999999", "[1]"};
    char ours[16], next[16], said[64];
    struct err e = {{0}};
    (void)state;
    snprintf(ours, sizeof ours, "%d", RELAY_PROTOCOL);
    snprintf(next, sizeof next, "%d", RELAY_PROTOCOL + 1);
    snprintf(said, sizeof said, "speaks protocol %d, and the one that has loaded the model %d", RELAY_PROTOCOL + 1, RELAY_PROTOCOL);
    if (!attaches(ours, &e))
        fail_msg("%s", e.msg);
    assert_false(attaches(next, &e));
    assert_non_null(strstr(e.msg, said));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        e = (struct err){{0}};
        assert_false(attaches(others[i], &e));
        assert_non_null(strstr(e.msg, "is of another version"));
    }
}

static void test_relay__the_first_line_tells_the_protocol(void **state)
{
    struct buf line = {0};
    char wanted[48];
    (void)state;
    snprintf(wanted, sizeof wanted, "{\"protocol\": %d}\n", RELAY_PROTOCOL);
    relay_protocol(&line);
    assert_string_equal(line.data, wanted);
    buf_free(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relay__only_who_speaks_the_same_protocol_attaches),
        cmocka_unit_test(test_relay__the_first_line_tells_the_protocol),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
