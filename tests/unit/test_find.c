#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "ui/tui/find.h"

/* Hits in brackets. */
static const char *found(const char *what, const char *text, bool marks)
{
    static struct buf b;
    struct find f = {0};
    struct hits h = {0};
    size_t from = 0;
    find_set(&f, what);
    hits_update(&h, &f, text, strlen(text), marks);
    buf_reset(&b);
    for (int i = 0; i < h.n; i++) {
        buf_add(&b, text + from, h.at[i].at - from);
        buf_addf(&b, "[%.*s]", (int)h.at[i].n, text + h.at[i].at);
        from = h.at[i].at + h.at[i].n;
    }
    buf_adds(&b, text + from);
    hits_free(&h);
    find_free(&f);
    return buf_str(&b);
}

static const struct row { const char *what, *text, *expected; } rows[] = {
    {"", "abc", "abc"},
    {"b", "", ""},
    {"b", "abcabc", "a[b]ca[b]c"},
    {"aa", "aaaaa", "[aa][aa]a"},
    {"aab", "aaab", "a[aab]"},
    {"abc", "xABcx", "x[ABc]x"},
    {"aBc", "xABc aBc", "xABc [aBc]"},
    {"ÄRGER", "ÄRGER ärger", "[ÄRGER] ärger"},
    {"ärger", "ÄRGER ärger", "[ÄRGER] [ärger]"},
    {"中文", "在中文里", "在[中文]里"},
    {"one two", "one\n  two one\ttwo onetwo", "[one\n  two] [one\ttwo] onetwo"},
    {"one  two ", "one two\n\nx", "[one two\n\n]x"},
    {" b", "a b\nb", "a[ b][\nb]"},
    {"a b", "a **b** _a_ `b`", "[a **b]** _[a_ `b]`"},
    {"bold text", "a **bold** text", "a **[bold** text]"},
    {"a_b", "a_b a\\_b", "[a_b] [a\\_b]"},
    {"**", "a ** b", "a [**] b"},
    {"a", "*a*", "*[a]*"},
    {"b", "a\xff" "b\xe4\xb8", "a\xff[b]\xe4\xb8"},
};

static void test_find__what_is_found_in_which_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(found(rows[i].what, rows[i].text, true), rows[i].expected);
    assert_string_equal(found("a b", "a **b**", false), "a **b**");
}

static void test_find__a_text_that_grows_byte_by_byte_has_the_same_hits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct find f = {0};
        struct hits whole = {0}, grown = {0};
        size_t n = strlen(rows[i].text);
        find_set(&f, rows[i].what);
        hits_update(&whole, &f, rows[i].text, n, true);
        for (size_t k = 0; k <= n; k++)
            hits_update(&grown, &f, rows[i].text, k, true);
        assert_int_equal(grown.n, whole.n);
        for (int k = 0; k < whole.n; k++)
            assert_int_equal(grown.at[k].at, whole.at[k].at);
        hits_free(&whole);
        hits_free(&grown);
        find_free(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find__what_is_found_in_which_text),
        cmocka_unit_test(test_find__a_text_that_grows_byte_by_byte_has_the_same_hits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
