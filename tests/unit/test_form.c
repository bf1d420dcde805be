/* The form of an answer: what the prompt gets for it, and whether a text has it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "guide/form.h"

#define SCHEMA "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}, \"age\": {\"type\": \"integer\"}}," \
    " \"required\": [\"name\"], \"additionalProperties\": false}"

static const struct text two[] = {{"yes", 3}, {"no", 2}};
static const struct form schema = {.kind = FORM_SCHEMA, .text = {SCHEMA, sizeof SCHEMA - 1}}, object = {.kind = FORM_JSON},
    pattern = {.kind = FORM_PATTERN, .text = {"[a-z]+", 6}}, choices = {.kind = FORM_CHOICES, .choices = two, .n_choices = 2}, any;

static struct message said(enum role role, const char *text)
{
    return (struct message){.role = role, .content = text_of(text)};
}

/* Returns the last content of two messages with the words for the form. */
static const char *worded(const struct form *f, const char *system, const char *user, struct arena *mem)
{
    const struct message m[] = {said(ROLE_SYSTEM, system), said(ROLE_USER, user)};
    const struct message *all = form_worded(f, m, 2, false, mem);
    assert_string_equal(all[0].content.p, system);
    return all[1].content.n == strlen(user) ? "" : arena_strndup(mem, all[1].content.p, all[1].content.n);
}

static void test_form__a_prompt_that_lacks_the_form_gets_words_for_it(void **state)
{
    static const struct { const struct form *f; const char *system, *user, *words; } rows[] = {
        {&any,     "", "Hello", ""},
        {&object,  "", "Who is Otto?", "nothing else."},
        {&object,  "", "Otto as json, please", ""},
        {&object,  "Always answer in JSON.", "Who is Otto?", ""},
        {&schema,  "", "Who is Otto? Give name and age", SCHEMA},
        {&schema,  "Fields: \"name\", \"age\"", "Who is Otto?", ""},
        {&schema,  "Fields: \"name\"", "Who is Otto?", SCHEMA},
        {&schema,  "", "Who is Otto? {\"name\": \"...\", \"age\": 7}", ""},
        {&pattern, "", "A word", "\n[a-z]+"},
        {&pattern, "", "A word like [a-z]+", ""},
        {&choices, "", "Is it cold?", "\nyes\nno"},
        {&choices, "", "Is it cold, yes or no?", ""},
    };
    struct arena mem = {0};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *got = worded(rows[i].f, rows[i].system, rows[i].user, &mem), *words = rows[i].words;
        if (!*words) {
            assert_string_equal(got, "");
            continue;
        }
        assert_memory_equal(got, rows[i].user, strlen(rows[i].user));
        assert_true(strlen(got) > strlen(words) && !strcmp(got + strlen(got) - strlen(words), words));
    }
    arena_free(&mem);
}

static void test_form__the_words_come_after_the_last_question_and_change_no_other_message(void **state)
{
    struct arena mem = {0};
    struct message m[] = {said(ROLE_USER, "Otto?"), said(ROLE_ASSISTANT, "A man."), said(ROLE_USER, "Age?"), said(ROLE_TOOL, "7"),
                          said(ROLE_USER, "x")};
    (void)state;
    m[4].aside = true;
    const struct message *all = form_worded(&schema, m, 5, true, &mem);
    for (int i = 0; i < 5; i++)
        assert_int_equal(all[i].content.n > m[i].content.n && all[i].fleeting, i == 2);
    assert_true(strstr(arena_strndup(&mem, all[2].content.p, all[2].content.n), "You may call tools before"));
    assert_ptr_equal(form_worded(&schema, m + 1, 1, false, &mem), m + 1);      /* nobody asks anything */
    arena_free(&mem);
}

static void test_form__a_text_is_checked_against_the_form(void **state)
{
    static const char loose[] = "{\"type\": \"array\", \"uniqueItems\": true}", bad[] = "{\"type\": \"array\", \"items\": {\"$ref\": \"#/no\"}}";
    static const struct form unique = {.kind = FORM_SCHEMA, .text = {loose, sizeof loose - 1}};
    static const struct form broken = {.kind = FORM_SCHEMA, .text = {bad, sizeof bad - 1}};
    static const struct { const struct form *f; const char *answer; bool has; } rows[] = {
        {&any, "x", true},                  {&object, " {}\n", true},            {&object, "{} x", false},       {&object, "[]", false},
        {&schema, "{\"name\": \"O\"}", true}, {&schema, "{\"age\": 7}", false},  {&schema, "{\"na", false},      {&schema, "", false},
        {&pattern, "abc", true},            {&pattern, "abC", false},            {&pattern, "", false},
        {&choices, "yes", true},            {&choices, "ye", false},             {&choices, "yes!", false},
        {&unique, "[1, 2]", true},          {&unique, "[1, 1.0]", false},        {&broken, "[1]", false},
    };
    struct err e;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        e = (struct err){{0}};
        assert_int_equal(form_check(rows[i].f, text_of(rows[i].answer), &e), rows[i].has);
        assert_int_equal(!*e.msg, rows[i].has);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form__a_prompt_that_lacks_the_form_gets_words_for_it),
        cmocka_unit_test(test_form__the_words_come_after_the_last_question_and_change_no_other_message),
        cmocka_unit_test(test_form__a_text_is_checked_against_the_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
