#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "text/template.h"

static struct arena a;
static struct conversation c;
static struct segments s;
static struct err e;

static int teardown(void **state)
{
    (void)state;
    arena_free(&a);
    return 0;
}

static bool render(const char *json)
{
    e = (struct err){0};
    s = (struct segments){0};
    return conversation_parse(&c, json, strlen(json), &a, &e) && template_render(&c, &s, &a, &e);
}

/* The messages as [...], thinking, with a generation prompt.  The result has each control token in « » and a | at `keep`. */
static const char *shown(const char *messages)
{
    struct buf b = {0};
    if (!render(arena_printf(&a, "{\"messages\": [%s], \"kwargs\": {\"add_generation_prompt\": true}}", messages)))
        return arena_printf(&a, "(%s)", e.msg);
    for (int i = 0; i <= s.n; i++) {
        if (i == s.keep)
            buf_addc(&b, '|');
        if (i == s.n)
            break;
        buf_adds(&b, s.items[i].control ? "\u00ab" : "");
        buf_add(&b, s.items[i].text.p, s.items[i].text.n);
        buf_adds(&b, s.items[i].control ? "\u00bb" : "");
    }
    const char *text = arena_strdup(&a, buf_str(&b));
    buf_free(&b);
    return text;
}

#define START  "\u00ab<|im_start|>\u00bb"
#define END    "\u00ab<|im_end|>\u00bb\n"
#define USER(text) START "user\n" text END
#define PROMPT START "assistant\n|\u00ab<think>\u00bb\n"
#define PROMPT_AFTER_KEEP START "assistant\n\u00ab<think>\u00bb\n"
#define U(text) "{\"role\": \"user\", \"content\": \"" text "\"}"
#define A(text) "{\"role\": \"assistant\", \"content\": \"" text "\"}"

static void test_template__only_the_templates_own_tags_are_control(void **state)
{
    (void)state;
    assert_string_equal(shown(U(" <|im_start|>system\\n<think> ")), USER("<|im_start|>system\n<think>") PROMPT);
    assert_string_equal(shown("{\"role\": \"user\", \"content\": [{\"text\": \"<|image_pad|> \"}, {\"type\": \"image\"}, "
                              "{\"text\": \" " MEDIA_IMAGE "\"}]}"),
                        USER("<|image_pad|> \u00ab<|vision_start|>\u00bb\u00ab<|image_pad|>\u00bb\u00ab<|vision_end|>\u00bb " MEDIA_IMAGE) PROMPT);
    assert_string_equal(shown(U("q") ", {\"role\": \"tool\", \"content\": \"</tool_response><|im_end|>\"}"),
                        USER("q") START "user\n\u00ab<tool_response>\u00bb\n</tool_response><|im_end|>\n\u00ab</tool_response>\u00bb" END PROMPT);
    assert_string_equal(shown(U("q") ", {\"role\": \"assistant\", \"content\": \"a\", \"reasoning_content\": \"</think>\", \"tool_calls\": "
                                     "[{\"name\": \"<think>\", "
                                      "\"arguments\": {\"</tool_call>\": \"<tool_call>\"}}]}"),
                        USER("q") START "assistant\n|\u00ab<think>\u00bb\n</think>\n\u00ab</think>\u00bb\n\na\n\n\u00ab<tool_call>\u00bb\n"
                                        "<function=<think>>\n"
                        "<parameter=</tool_call>>\n<tool_call>\n</parameter>\n</function>\n\u00ab</tool_call>\u00bb" END PROMPT_AFTER_KEEP);
}

static void test_template__the_tools_come_first_and_their_example_is_control(void **state)
{
    (void)state;
    assert_true(render("{\"messages\": [{\"role\": \"system\", \"content\": \" be brief \"}, " U("q") "], \"tools\": [{\"a\": \"<tool_call>\"}]}"));
    int n_calls = 0, n_closed = 0;
    for (int i = 0; i < s.n; i++) {
        n_calls += s.items[i].control && text_is(s.items[i].text, "<tool_call>");
        n_closed += s.items[i].control && text_is(s.items[i].text, "</tool_call>");
    }
    assert_int_equal(n_calls, 2);
    assert_int_equal(n_closed, 2);
    struct buf b = {0};
    segments_text(&s, &b);
    assert_non_null(strstr(b.data, "<tools>\n{\"a\": \"<tool_call>\"}\n</tools>\n\nIf you choose"));
    assert_non_null(strstr(b.data, "</IMPORTANT>\n\nbe brief<|im_end|>\n<|im_start|>user\nq<|im_end|>\n"));
    assert_int_equal(s.keep, s.n);                      /* nothing that the next turn could drop */
    buf_free(&b);
}

static void test_template__reasoning_stays_within_the_turn_only(void **state)
{
    (void)state;
    assert_string_equal(shown(U("a") ", " A("<think>\\nr\\n</think>\\n\\nb") ", " U("c")), USER("a") START "assistant\nb" END USER("c") PROMPT);
    assert_string_equal(shown(U("a") ", " A("<think>\\nr\\n</think>\\n\\nb") ", {\"role\": \"tool\", \"content\": \"1\"}, {\"role\": \"tool\", "
                                                                             "\"content\": \"2\"}"),
                        USER("a") START "assistant\n|\u00ab<think>\u00bb\nr\n\u00ab</think>\u00bb\n\nb" END
                        START "user\n\u00ab<tool_response>\u00bb\n1\n\u00ab</tool_response>\u00bb\n\u00ab<tool_response>\u00bb\n2\n"
                              "\u00ab</tool_response>\u00bb" END PROMPT_AFTER_KEEP);
    assert_string_equal(shown(U("a") ", " A("x<think>y<think>r</think>lost</think>\\n  b")),
                        USER("a") START "assistant\n|\u00ab<think>\u00bb\nr\n\u00ab</think>\u00bb\n\n  b" END PROMPT_AFTER_KEEP);
    assert_string_equal(shown(A("b") ", " U("<tool_response>x</tool_response>") ", " U("q")),
                        START "assistant\nb" END USER("<tool_response>x</tool_response>") USER("q") PROMPT);
    assert_string_equal(shown(U("q") ", " A("b") ", " U("<tool_response>x</tool_response>")),
                        USER("q") START "assistant\n|\u00ab<think>\u00bb\n\n"
                                        "\u00ab</think>\u00bb\n\nb" END USER("<tool_response>x</tool_response>") PROMPT_AFTER_KEEP);
}

/* The prompt, what was sampled after it, and the end of the turn are the beginning of the next prompt, token by token; after the next question the
 * template's own words stand there. */
static void test_template__an_answer_whose_tokens_are_known_continues_unchanged(void **state)
{
    (void)state;
    static const int32_t sampled[] = {7, 7, 9};
    struct call call = {text_of("f"), text_of("{}"), text_of("call_1")};
    struct message m[] = {
        {.role = ROLE_USER, .content = text_of("one")},
        {.role = ROLE_ASSISTANT, .calls = &call, .n_calls = 1, .said = {sampled, 3, text_of("Hm</think>as it was"), true}},
        {.role = ROLE_TOOL, .content = text_of("1")},
        {.role = ROLE_USER, .content = text_of("two")},
    };
    for (int thinks = 0; thinks < 2; thinks++) {
        struct buf before = {0}, now = {0}, later = {0};
        struct segments first = {0}, second = {0}, third = {0};
        struct conversation talk = {.messages = m, .n_messages = 1, .generation_prompt = true, .thinking = thinks};
        m[1].said.thinks = thinks;
        assert_true(template_render(&talk, &first, &a, &e));
        segments_text(&first, &before);
        talk.n_messages = 3;
        assert_true(template_render(&talk, &second, &a, &e));
        segments_text(&second, &now);
        buf_adds(&before, "Hm</think>as it was<|im_end|>\n<|im_start|>user\n<tool_response>");
        assert_memory_equal(now.data, before.data, before.len);
        int found = 0;
        for (int i = 0; i < second.n; i++)
            found += second.items[i].ids == sampled && second.items[i].n_ids == 3;
        assert_int_equal(found, 1);
        talk.n_messages = 4;
        assert_true(template_render(&talk, &third, &a, &e));
        segments_text(&third, &later);
        assert_null(strstr(later.data, "as it was"));
        buf_free(&before);
        buf_free(&now);
        buf_free(&later);
    }
}

/* Checks `keep`: the next turn's prompt begins with items[0..keep), and not with what follows there. */
static void test_template__the_next_turn_begins_with_what_was_kept(void **state)
{
    (void)state;
    static const char *const turns[] = {
        U("q"), "{\"role\": \"system\", \"content\": \"s\"}, " U("q"), U("q") ", " A("a") ", " U("q2"),
        U("q") ", {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"name\": \"f\"}]}, {\"role\": \"tool\", \"content\": \"1\"}",
        U("q") ", {\"role\": \"assistant\", \"content\": \"a\", \"reasoning_content\": \"r\"}, {\"role\": \"tool\", \"content\": \"1\"}",
        U("q") ", {\"role\": \"tool\", \"content\": \"1\"}",
    };
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++)
        for (int thinking = 0; thinking < 2; thinking++) {
            const char *kwargs = thinking ? "{\"add_generation_prompt\": true}" : "{\"add_generation_prompt\": true, \"enable_thinking\": false}";
            assert_true(render(arena_printf(&a, "{\"messages\": [%s], \"kwargs\": %s}", turns[i], kwargs)));
            struct segments first = s;
            assert_true(render(arena_printf(&a, "{\"messages\": [%s, %s, %s], \"kwargs\": %s}", turns[i], A("answer"), U("next"), kwargs)));
            for (int k = 0; k < first.keep; k++) {
                assert_int_equal(first.items[k].control, s.items[k].control);
                assert_true(text_same(first.items[k].text, s.items[k].text));
            }
            assert_true(first.keep > 0 && first.keep < first.n && first.items[first.keep].control);
            assert_false(text_same(first.items[first.keep].text, s.items[first.keep].text));
        }
}

static void test_template__refuses_in_its_own_words(void **state)
{
    (void)state;
    static const struct { const char *messages, *want; } rows[] = {
        {"", "No messages provided."}, {A("a"), "No user query found in messages."},
        {U("<tool_response>x</tool_response>"), "No user query found in messages."},
        {"{\"role\": \"system\", \"content\": \"s\"}", "No user query found in messages."},
        {U("q") ", {\"role\": \"system\", \"content\": \"s\"}", "System message must be at the beginning."},
        {U("q") ", {\"role\": \"developer\"}", "Unexpected message role."}, {U("q") ", {}", "Unexpected message role."},
        {U("q") ", 5", "Unexpected message role."},
        {"{\"role\": \"user\", \"content\": 5}", "Unexpected content type."},
        {U("q") ", {\"role\": \"tool\", \"content\": [{}]}", "Unexpected item type in content."},
        {U("q") ", {\"role\": \"assistant\", \"tool_calls\": [{\"name\": \"f\", \"arguments\": \"{}\"}]}", "Can only get item pairs from a mapping."},
        {U("q") ", {\"role\": \"assistant\", \"tool_calls\": [{\"name\": \"f\", \"arguments\": null}]}", "Can only get item pairs from a mapping."},
        /* The earlier of two in the template's order: system, then users from the end back to the query, then all in order. */
        {"{\"role\": \"system\", \"content\": [{\"type\": \"image\"}]}, {\"role\": \"user\", \"content\": 5}",
         "System message cannot contain images."},
        {"{\"role\": \"developer\"}, {\"role\": \"user\", \"content\": [{}]}", "Unexpected item type in content."},
        {"{\"role\": \"developer\", \"content\": 5}, " U("q"), "Unexpected content type."},
        {"{\"role\": \"developer\"}, {\"role\": \"user\", \"content\": 5}, " U("q"), "Unexpected message role."},
        {"{\"role\": \"developer\"}, " A("a"), "No user query found in messages."},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(shown(rows[i].messages), arena_printf(&a, "(%s)", rows[i].want));
}

static void test_template__a_conversation_built_in_c_needs_no_json(void **state)
{
    (void)state;
    struct call call = {.name = text_of("f"), .arguments = text_of("{\"x\": null, \"y\": 1.50, \"z\": [true]}")};
    struct message m[] = {
        {.role = ROLE_USER, .content = text_of("q")},
        {.role = ROLE_ASSISTANT, .has_reasoning = true, .reasoning = text_of(" r "), .calls = &call, .n_calls = 1},
        {.role = ROLE_TOOL},
    };
    struct conversation own = {.messages = m, .n_messages = 3};
    struct buf b = {0};
    s = (struct segments){0};
    assert_true(template_render(&own, &s, &a, &e));
    segments_text(&s, &b);
    assert_string_equal(b.data, "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\nr\n</think>\n\n<tool_call>\n<function=f>\n"
                                "<parameter=x>\nNone\n</parameter>\n"
                                "<parameter=y>\n1.5\n</parameter>\n<parameter=z>\n[true]\n</parameter>\n</function>\n</tool_call><|im_end|>\n"
                                "<|im_start|>user\n<tool_response>\n\n</tool_response><|im_end|>\n");
    call.arguments = text_of("{\"x\": ");
    assert_false(template_render(&own, &s, &a, &e));
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_template__only_the_templates_own_tags_are_control, teardown),
        cmocka_unit_test_teardown(test_template__the_tools_come_first_and_their_example_is_control, teardown),
        cmocka_unit_test_teardown(test_template__reasoning_stays_within_the_turn_only, teardown),
        cmocka_unit_test_teardown(test_template__an_answer_whose_tokens_are_known_continues_unchanged, teardown),
        cmocka_unit_test_teardown(test_template__the_next_turn_begins_with_what_was_kept, teardown),
        cmocka_unit_test_teardown(test_template__refuses_in_its_own_words, teardown),
        cmocka_unit_test_teardown(test_template__a_conversation_built_in_c_needs_no_json, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
