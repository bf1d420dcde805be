#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "text/schema.h"

/* `type` is the JSON schema of the one parameter. */
static void expect(const char *type, const char *value, const char *want)
{
    struct arena a = {0};
    struct schema s;
    struct buf out = {0};
    const char *tool = arena_printf(&a, "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"p\": %s}, "
                                        "\"$defs\": {\"Point\": {\"type\": \"object\"}, \"Ring\": {\"$ref\": \"#/$defs/Ring\"}, "
                                        "\"Colour\": {\"enum\": [\"red\", 5]}}}}}", type);
    assert_true(schema_read(&s, text_of(tool), &a));
    struct pyjson v = schema_value(schema_param(&s, text_of("p")), text_of(value), &a);
    pyjson_dump(&v, &out);
    if (strcmp(out.data, want))
        fail_msg("%s as %s gave %s, not %s", value, type, out.data, want);
    buf_free(&out);
    arena_free(&a);
}

struct row { const char *type, *value, *want; };

static void expect_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        expect(rows[i].type, rows[i].value, rows[i].want);
}
#define EXPECT(...) do { \
        static const struct row rows[] = {__VA_ARGS__}; \
        expect_rows(rows, sizeof rows / sizeof *rows); \
    } while (0)

#define T(name) "{\"type\": \"" name "\"}"

static void test_schema__a_string_stays_what_it_is(void **state)
{
    (void)state;
    EXPECT({T("string"), "5", "\"5\""}, {T("string"), "null", "\"null\""}, {T("string"), "None", "\"None\""}, {T("string"), "true", "\"true\""},
           {T("string"), "{\"a\": 1}", "\"{\\\"a\\\": 1}\""}, {T("string"), " x ", "\" x \""},
           {"{\"type\": \"string\", \"enum\": [\"1\"]}", "1", "\"1\""},
           {"{}", "5", "\"5\""}, {"{}", "null", "\"null\""}, {T("strange"), "5", "\"5\""}, {"true", "5", "\"5\""}, {"null", "[1]", "\"[1]\""},
           {"{\"type\": []}", "5", "\"5\""});
}

static void test_schema__integers_are_exact(void **state)
{
    (void)state;
    EXPECT({T("integer"), "42", "42"}, {T("integer"), "-7", "-7"}, {T("integer"), " 5 ", "5"}, {T("integer"), "+5", "5"}, {T("integer"), "007", "7"},
           {T("integer"), "-0", "0"},
           {T("integer"), "123456789012345678901234567890", "123456789012345678901234567890"}, {T("integer"), "5.0", "5"},
           {T("integer"), "-70.00", "-70"},
           {T("integer"), "5.5", "\"5.5\""}, {T("integer"), "5.", "5"}, {T("integer"), ".0", "\".0\""}, {T("integer"), "100.0", "100"},
           {T("integer"), "1.0.0", "\"1.0.0\""},
           {T("integer"), "five", "\"five\""},
           {T("integer"), "", "\"\""}, {T("integer"), "-", "\"-\""}, {T("integer"), "1e3", "\"1e3\""}, {T("integer"), "null", "null"},
           {T("integer"), "NONE", "null"}, {T("integer"), "true", "\"true\""});
}

static void test_schema__numbers_are_json_numbers(void **state)
{
    (void)state;
    EXPECT({T("number"), "3", "3"}, {T("number"), "-2e3", "-2000.0"}, {T("number"), "0.25", "0.25"}, {T("number"), "1e-7", "1e-07"},
           {T("number"), "\t1.5\n", "1.5"},
           {T("number"), "18446744073709551616", "18446744073709551616"}, {T("number"), "NaN", "\"NaN\""}, {T("number"), "Infinity", "\"Infinity\""},
           {T("number"), "1e400", "\"1e400\""},
           {T("number"), "1,5", "\"1,5\""}, {T("number"), "five", "\"five\""}, {T("number"), "[1]", "\"[1]\""}, {T("number"), "null", "null"});
}

static void test_schema__booleans_in_any_case(void **state)
{
    (void)state;
    EXPECT({T("boolean"), "true", "true"}, {T("boolean"), "False", "false"}, {T("boolean"), "TRUE", "true"}, {T("boolean"), " false ", "false"},
           {T("boolean"), "yes", "\"yes\""},
           {T("boolean"), "1", "\"1\""}, {T("boolean"), "null", "null"}, {T("boolean"), "", "\"\""});
}

static void test_schema__lists_and_objects_from_json_or_python(void **state)
{
    (void)state;
    EXPECT({T("array"), "[\n  1,\n  2\n]", "[1, 2]"}, {T("array"), "[1, \"x\", null]", "[1, \"x\", null]"},
           {T("array"), "('a', True)", "[\"a\", true]"}, {T("array"), "[1, 2", "\"[1, 2\""},
           {T("array"), "{\"a\": 1}", "\"{\\\"a\\\": 1}\""}, {T("array"), "1, 2", "\"1, 2\""},
           {T("object"), "{\"k\": {\"l\": [true]}}", "{\"k\": {\"l\": [true]}}"},
           {T("object"), "{'k': True, 'n': None}", "{\"k\": true, \"n\": null}"},
           {T("object"), "{\"\xc3\xa9\": \"\xf0\x9f\x99\x82\"}", "{\"\xc3\xa9\": \"\xf0\x9f\x99\x82\"}"},
           {T("object"), "[1]", "\"[1]\""}, {T("object"), "{\"a\": NaN}", "\"{\\\"a\\\": NaN}\""},
           {T("object"), "{\"i\": 12345678901234567890}", "{\"i\": 12345678901234567890}"},
           {T("object"), "None", "null"}, {T("object"), "{\"a\": 1, \"a\": 2}", "{\"a\": 2}"}, {T("array"), "[]", "[]"}, {T("object"), "{}", "{}"});
}

static void test_schema__a_value_in_quotes_has_the_type_that_is_named(void **state)
{
    (void)state;
    EXPECT({T("boolean"), "\"true\"", "true"}, {T("boolean"), "'False'", "false"}, {T("boolean"), "\"yes\"", "\"\\\"yes\\\"\""},
           {T("number"), "\"5\"", "5"}, {T("integer"), "\"-5\"", "-5"}, {T("integer"), "'5'", "5"}, {T("integer"), "\"5", "\"\\\"5\""},
           {T("object"), "\"{\\\"a\\\": 1}\"", "{\"a\": 1}"}, {T("array"), "\"[1]\"", "[1]"}, {T("integer"), "\"null\"", "null"},
           {T("integer"), "\"\\\"5\\\"\"", "5"}, {T("string"), "\"5\"", "\"\\\"5\\\"\""},
           {"{\"type\": [\"integer\", \"string\"]}", "\"5\"", "\"\\\"5\\\"\""});
}

static void test_schema__strings_within_objects_may_hold_line_ends(void **state)
{
    (void)state;
    EXPECT({T("object"), "{\"a\": \"l1\nl2\"}", "{\"a\": \"l1\\nl2\"}"}, {T("array"), "[\"a\tb\r\n\"]", "[\"a\\tb\\r\\n\"]"},
           {T("object"), "{\"a\": \"l1\nl2}", "\"{\\\"a\\\": \\\"l1\\nl2}\""}, {T("object"), "{\"a\": 1e400}", "\"{\\\"a\\\": 1e400}\""});
}

static void test_schema__of_several_types_the_first_that_fits(void **state)
{
    (void)state;
#define ANY(...) "{\"anyOf\": [" __VA_ARGS__ "]}"
    EXPECT({"{\"type\": [\"integer\", \"string\"]}", "5", "5"}, {"{\"type\": [\"string\", \"integer\"]}", "5", "5"},
           {"{\"type\": [\"integer\", \"string\"]}", "five", "\"five\""},
           {"{\"type\": [\"string\", \"null\"]}", "null", "null"}, {"{\"type\": [\"string\", \"null\"]}", "None", "null"},
           {"{\"type\": [\"string\", \"null\"]}", "text", "\"text\""},
           {"{\"type\": [\"string\", \"null\"]}", "5", "\"5\""}, {ANY(T("integer") ", " T("null")), "8", "8"},
           {ANY(T("integer") ", " T("null")), "null", "null"},
           {ANY(T("integer") ", " T("null")), "x", "\"x\""},
           {ANY(T("string") ", " T("boolean") ", " T("integer") ", " T("number") ", " T("array") ", " T("object")), "true", "true"},
           {ANY(T("string") ", " T("number") ", " T("integer")), "1.5", "1.5"}, {ANY(T("object") ", " T("array")), "[{}]", "[{}]"},
           {ANY(T("object") ", " T("string")), "{'a': 1}", "{\"a\": 1}"},
           {"{\"oneOf\": [" T("integer") ", " T("string") "]}", "5", "5"}, {"{\"allOf\": [" T("integer") "]}", "5", "5"},
           {ANY(ANY(T("boolean"))), "true", "true"},
           {"{\"type\": \"string\", \"nullable\": true}", "null", "null"}, {T("null"), "x", "\"x\""}, {T("null"), "null", "null"});
}

static void test_schema__without_a_type_references_and_values_tell(void **state)
{
    (void)state;
    EXPECT({"{\"$ref\": \"#/$defs/Point\"}", "{\"x\": 1}", "{\"x\": 1}"}, {ANY("{\"$ref\": \"#/$defs/Point\"}, " T("null")), "null", "null"},
           {"{\"$ref\": \"#/$defs/Ring\"}", "5", "\"5\""}, {"{\"$ref\": \"#/$defs/Nobody\"}", "5", "\"5\""},
           {"{\"$ref\": \"http://x\"}", "5", "\"5\""}, {"{\"$ref\": \"#/\"}", "5", "\"5\""},
           {"{\"enum\": [1, 2]}", "2", "2"}, {"{\"enum\": [\"1\", \"2\"]}", "2", "\"2\""}, {"{\"enum\": [\"a\", null]}", "null", "null"},
           {"{\"$ref\": \"#/$defs/Colour\"}", "5", "5"},
           {"{\"const\": true}", "True", "true"});
}

static void test_schema__reads_both_forms_of_a_tool(void **state)
{
    (void)state;
    struct arena a = {0};
    struct schema s;
    assert_true(schema_read(&s, text_of("{\"name\": \"g\", \"parameters\": {\"properties\": {\"a\": {}, \"b\": {}}}}"), &a));
    assert_true(text_is(s.name, "g"));
    assert_int_equal(s.n_params, 2);
    assert_null(schema_param(&s, text_of("c")));
    assert_null(schema_param(NULL, text_of("a")));
    assert_true(schema_read(&s, text_of("{\"function\": {\"name\": \"h\", \"parameters\": []}}"), &a));
    assert_int_equal(s.n_params, 0);
    assert_false(schema_read(&s, text_of("{\"function\": {}}"), &a));
    assert_false(schema_read(&s, text_of("[]"), &a));
    assert_false(schema_read(&s, text_of("{"), &a));
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema__a_string_stays_what_it_is),
        cmocka_unit_test(test_schema__integers_are_exact),
        cmocka_unit_test(test_schema__numbers_are_json_numbers),
        cmocka_unit_test(test_schema__booleans_in_any_case),
        cmocka_unit_test(test_schema__lists_and_objects_from_json_or_python),
        cmocka_unit_test(test_schema__a_value_in_quotes_has_the_type_that_is_named),
        cmocka_unit_test(test_schema__strings_within_objects_may_hold_line_ends),
        cmocka_unit_test(test_schema__of_several_types_the_first_that_fits),
        cmocka_unit_test(test_schema__without_a_type_references_and_values_tell),
        cmocka_unit_test(test_schema__reads_both_forms_of_a_tool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
