#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "base/json.h"
#include "base/unicode.h"

/* By Unicode's own lists: controls, what orders a line, line ends, what marks bytes or text and is not drawn. */
static bool must_not_be_printed(uint32_t cp)
{
    return cp < 0x20 || (cp >= 0x7F && cp < 0xA0) || cp == 0x61C || cp == 0x200E || cp == 0x200F || (cp >= 0x2028 && cp <= 0x202E) ||
           (cp >= 0x2060 && cp <= 0x206F && cp != 0x2065) || cp == 0xFEFF || (cp >= 0xFFF9 && cp <= 0xFFFB) || (cp >= 0xE0020 && cp <= 0xE007F);
}

static void test_json__every_character_is_printed_with_its_value_and_none_is_obeyed(void **state)
{
    struct buf out = {0};
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char utf8[4];
        if (cp >= 0xD800 && cp < 0xE000)
            continue;
        size_t n = unicode_encode(cp, utf8);
        buf_reset(&out);
        json_quote(&out, utf8, n);
        json_t *back = json_loadb(out.data, out.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(back);
        assert_int_equal(json_string_length(back), n);
        assert_memory_equal(json_string_value(back), utf8, n);
        json_decref(back);
        for (size_t i = 0, k; i < out.len; i += k) {
            uint32_t printed;
            k = unicode_decode(out.data + i, out.len - i, &printed, NULL);
            assert_false(must_not_be_printed(printed));
        }
    }
    buf_free(&out);
}

static void test_json__what_people_read_is_printed_as_it_is(void **state)
{
    static const char text[] = "Gr\xc3\xbc\xc3\x9f" "e \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb";     /* joined emoji */
    struct buf out = {0};
    (void)state;
    json_quote(&out, text, strlen(text));
    assert_int_equal(out.len, strlen(text) + 2);
    assert_memory_equal(out.data + 1, text, strlen(text));
    buf_free(&out);
}

static void test_json__a_document_on_a_terminal_is_that_of_a_pipe(void **state)
{
    struct buf out = {0}, shown = {0};
    (void)state;
    json_t *j = json_pack("{s:s, s:[s]}", "\xc2\x9d" "52;c;AAAA\xc2\x9c", "a\nb\x7f", "list", "\xe2\x80\xae\xf3\xa0\x81\xa1");
    json_print(&out, j, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    unicode_safe(&shown, out.data, out.len);
    assert_string_equal(shown.data, out.data);
    assert_string_equal(out.data, "{\n \"\\u009d52;c;AAAA\\u009c\": \"a\\nb\\u007f\",\n \"list\": [\n  \"\\u202e\\udb40\\udc61\"\n ]\n}");
    json_decref(j);
    buf_free(&out);
    buf_free(&shown);
}

static void test_json__bytes_that_are_no_text_are_replaced(void **state)
{
    struct buf out = {0};
    (void)state;
    json_quote(&out, "a\xff\xc2", 3);
    assert_string_equal(out.data, "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json__every_character_is_printed_with_its_value_and_none_is_obeyed),
        cmocka_unit_test(test_json__what_people_read_is_printed_as_it_is),
        cmocka_unit_test(test_json__a_document_on_a_terminal_is_that_of_a_pipe),
        cmocka_unit_test(test_json__bytes_that_are_no_text_are_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
