/* tests/data/golden/tool_calls.jsonl through `debug parse`, and each answer cut at every position. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "debug/debug.h"
#include "tests/events.h"

#define GOLDEN "tests/data/golden/tool_calls.jsonl"

/* Integers and reals of one value are equal; a call that says nothing is not truncated. */
static bool same(const json_t *a, const json_t *b)
{
    const char *key;
    size_t i;
    json_t *x;
    if (json_is_number(a) && json_is_number(b))
        return json_is_integer(a) && json_is_integer(b) ? json_integer_value(a) == json_integer_value(b)
                                                        : json_number_value(a) == json_number_value(b);
    if (json_is_object(a) && json_is_object(b)) {
        json_object_foreach((json_t *)a, key, x)
            if (!same(x, json_object_get(b, key)) && !(json_is_false(x) && !strcmp(key, "truncated") && !json_object_get(b, key)))
                return false;
        json_object_foreach((json_t *)b, key, x)
            if (!json_object_get(a, key))
                return false;
        return true;
    }
    if (json_is_array(a) && json_is_array(b)) {
        if (json_array_size(a) != json_array_size(b))
            return false;
        json_array_foreach(a, i, x)
            if (!same(x, json_array_get(b, i)))
                return false;
        return true;
    }
    return a && b && json_equal((json_t *)a, (json_t *)b);
}

static bool accepted(const json_t *got, const json_t *line)
{
    size_t i;
    json_t *other;
    if (same(got, json_object_get(line, "expect")))
        return true;
    json_array_foreach(json_object_get(line, "also_ok"), i, other)
        if (same(got, other))
            return true;
    return false;
}

static void test_tool_calls__debug_parse_gives_every_golden_answer(void **state)
{
    (void)state;
    FILE *in = fopen(GOLDEN, "r"), *out = tmpfile();
    assert_non_null(in);
    assert_non_null(out);
    assert_int_equal(debug_parse(&(struct debug_options){0}, in, out), 0);
    rewind(in);
    rewind(out);
    int n = 0;
    json_t *line, *got;
    while ((line = json_loadf(in, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL))) {
        got = json_loadf(out, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL);
        assert_non_null(got);
        if (!accepted(got, line))
            fail_msg("%s: %s", json_string_value(json_object_get(line, "id")), json_dumps(got, 0));
        json_decref(got);
        json_decref(line);
        n++;
    }
    assert_int_equal(n, 90);
    fclose(in);
    fclose(out);
}

static void run(struct events *x, const struct text *tools, int n_tools, const json_t *line, size_t split, bool bytes)
{
    const char *p = json_string_value(json_object_get(line, "output"));
    size_t n = json_string_length(json_object_get(line, "output"));
    struct stream *s = stream_open(tools, n_tools, json_is_true(json_object_get(line, "thinking")), events_add, x);
    for (size_t i = 0; bytes && i < n; i++)
        stream_push(s, p + i, 1);
    if (!bytes) {
        stream_push(s, p, split);
        stream_push(s, p + split, n - split);
    }
    stream_finish(s, !strcmp(json_string_value(json_object_get(line, "finish")), "length"));
    stream_close(s);
    events_end(x);
    assert_false(x->wrong);
}

static void test_tool_calls__split_anywhere_gives_the_same_events(void **state)
{
    (void)state;
    FILE *in = fopen(GOLDEN, "r");
    assert_non_null(in);
    json_t *line;
    while ((line = json_loadf(in, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL))) {
        json_t *list = json_object_get(line, "tools");
        struct text tools[16];
        int n_tools = (int)json_array_size(list);
        size_t n = json_string_length(json_object_get(line, "output"));
        assert_true(n_tools <= 16);
        for (int i = 0; i < n_tools; i++)
            tools[i] = text_of(json_dumps(json_array_get(list, (size_t)i), 0));
        struct events whole = {0};
        run(&whole, tools, n_tools, line, 0, false);
        size_t step = n > 5000 ? n / 997 : 1;           /* one line is twenty thousand letters long */
        for (size_t split = 0; split <= n; split += step) {
            struct events x = {0};
            run(&x, tools, n_tools, line, split, split == 0);
            assert_string_equal(buf_str(&x.line), buf_str(&whole.line));
            events_free(&x);
        }
        events_free(&whole);
        for (int i = 0; i < n_tools; i++)
            free((char *)tools[i].p);
        json_decref(line);
    }
    fclose(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tool_calls__debug_parse_gives_every_golden_answer),
        cmocka_unit_test(test_tool_calls__split_anywhere_gives_the_same_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
