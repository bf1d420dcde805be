#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "ui/tui/find.h"

static const struct { const char *text, *found; } rows[] = {
    {"see https://a.b/c.", "https://a.b/c "},
    {"(http://a.b/x_(y)) and <HTTPS://C.d>", "http://a.b/x_(y) HTTPS://C.d "},
    {"[text](https://a.b/?q=1&r=2#z), `ftp://f.g`", "https://a.b/?q=1&r=2#z ftp://f.g "},
    {"**https://a.b** _https://c.d_ \"mailto:x@y.z\"!", "https://a.b https://c.d mailto:x@y.z "},
    {"http:// https://. xhttp://a.b http:/a", ""},
    {"https://\303\244.b/\346\227\245 https://a.b\033[31m", "https://\303\244.b/\346\227\245 https://a.b "},
    {"", ""},
};

static void test_excerpt__those_of_a_text_without_the_marks_around_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf found = {0};
        size_t at = 0, n;
        for (; excerpt_url(rows[i].text, strlen(rows[i].text), &at, &n); at += n) {
            buf_add(&found, rows[i].text + at, n);
            buf_addc(&found, ' ');
        }
        assert_string_equal(buf_str(&found), rows[i].found);
        buf_free(&found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_excerpt__those_of_a_text_without_the_marks_around_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
