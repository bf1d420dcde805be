#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "text/message.h"

static struct arena a;
static struct conversation c;
static struct err e;

static int teardown(void **state)
{
    (void)state;
    arena_free(&a);
    return 0;
}

static bool read(const char *json)
{
    e = (struct err){0};
    return conversation_parse(&c, json, strlen(json), &a, &e);
}

/* The first message's content, or its refusal in brackets. */
static void expect_content(const char *content, const char *role, const char *want)
{
    assert_true(read(arena_printf(&a, "{\"messages\": [{\"role\": \"%s\", \"content\": %s}], \"kwargs\": {\"add_vision_id\": true}}", role,
                                  content)));
    const struct message *m = &c.messages[0];
    struct text got = m->refusal ? text_of(arena_printf(&a, "(%s)", m->refusal)) : m->content;
    if (!text_is(got, want))
        fail_msg("%s gave %.*s, not %s", content, (int)got.n, got.p, want);
}

static void test_message__roles_and_fields(void **state)
{
    (void)state;
    assert_true(read("{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"u\\u0000v\"}, {\"role\": "
                     "\"assistant\", "
                     "\"reasoning_content\": \"\"}, {\"role\": \"tool\", \"content\": null, \"tool_call_id\": \"1\"}, {\"role\": \"developer\"}, "
                     "{\"role\": 5}, 5], \"id\": \"x\"}"));
    static const enum role roles[] = {ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL, ROLE_OTHER, ROLE_OTHER, ROLE_OTHER};
    assert_int_equal(c.n_messages, 7);
    for (int i = 0; i < 7; i++)
        assert_int_equal(c.messages[i].role, roles[i]);
    assert_int_equal(c.messages[1].content.n, 3);
    assert_true(c.messages[2].has_reasoning);
    assert_false(c.messages[1].has_reasoning);
    assert_int_equal(c.messages[3].content.n, 0);
    assert_null(c.messages[3].refusal);
    assert_true(read("{\"messages\": [{\"role\": \"assistant\", \"reasoning_content\": null}]}"));
    assert_false(c.messages[0].has_reasoning);
}

static void test_message__switches_are_those_of_the_template(void **state)
{
    (void)state;
    static const struct { const char *kwargs; bool thinking, generation, vision; } rows[] = {
        {"{}", true, false, false}, {"null", true, false, false}, {"{\"enable_thinking\": false}", false, false, false},
        {"{\"enable_thinking\": null}", true, false, false}, {"{\"enable_thinking\": 0}", true, false, false},
        {"{\"enable_thinking\": \"false\"}", true, false, false},
        {"{\"add_generation_prompt\": true, \"add_vision_id\": 1}", true, true, true},
        {"{\"add_generation_prompt\": \"\", \"add_vision_id\": []}", true, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(read(arena_printf(&a, "{\"kwargs\": %s}", rows[i].kwargs)));
        assert_int_equal(c.thinking, rows[i].thinking);
        assert_int_equal(c.generation_prompt, rows[i].generation);
        assert_int_equal(c.vision_ids, rows[i].vision);
    }
}

static void test_message__parts_are_joined_and_pictures_counted(void **state)
{
    (void)state;
    expect_content("[]", "user", "");
    expect_content("[{\"type\": \"text\", \"text\": \"a\"}, {\"text\": \" b \"}, {\"type\": \"text\", \"text\": 1e-7}]", "user", "a b 1e-07");
    expect_content("[{\"text\": null}, {\"text\": true}]", "user", "NoneTrue");
    expect_content("[{\"type\": \"image\"}, \"text\", {\"image_url\": 1, \"text\": \"x\"}]", "user",
                   "Picture 1: " MEDIA_IMAGE "Picture 2: " MEDIA_IMAGE);
    expect_content("[{\"type\": \"video\"}, {\"video\": \"x\"}, \"an image\"]", "user",
                   "Video 1: " MEDIA_VIDEO "Video 2: " MEDIA_VIDEO "Picture 1: " MEDIA_IMAGE);
    assert_int_equal(c.messages[0].n_media, 3);
    assert_int_equal(c.messages[0].media[0], strlen("Video 1: "));
    expect_content("\"" MEDIA_IMAGE "\"", "user", MEDIA_IMAGE);
    assert_int_equal(c.messages[0].n_media, 0);         /* somebody's text */
    assert_true(read("{\"messages\": [{\"content\": [{\"type\": \"image\"}]}, {\"content\": [{\"type\": \"image\"}]}], \"kwargs\": "
                     "{\"add_vision_id\": true}}"));
    assert_true(text_is(c.messages[1].content, "Picture 2: " MEDIA_IMAGE));
}

static void test_message__what_the_template_refuses_is_kept_for_it_to_say(void **state)
{
    (void)state;
    expect_content("5", "user", "(Unexpected content type.)");
    expect_content("true", "user", "(Unexpected content type.)");
    expect_content("{\"type\": \"text\"}", "user", "(Unexpected content type.)");
    expect_content("[{\"type\": \"audio\", \"audio\": \"x\"}]", "user", "(Unexpected item type in content.)");
    expect_content("[{\"type\": \"text\", \"text\": \"x\"}, 5]", "user", "(Unexpected item type in content.)");
    expect_content("[null]", "user", "(Unexpected item type in content.)");
    expect_content("[{\"type\": \"image\"}]", "system", "(System message cannot contain images.)");
    expect_content("[{\"video\": 1}]", "system", "(System message cannot contain videos.)");
    assert_true(read("{\"messages\": [{\"role\": \"user\"}, {\"role\": \"system\", \"content\": [{\"type\": \"image\"}]}]}"));
    assert_null(c.messages[1].refusal);                 /* its place is what will be refused */
}

static void test_message__calls_keep_their_arguments_as_written(void **state)
{
    (void)state;
    assert_true(read("{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": "
                     "{\"b\":1,\"a\":12345678901234567890,\"b\":[ ]}}}, "
                     "{\"name\": \"g\"}, {\"name\": \"h\", \"arguments\": \"{}\"}]}, {\"role\": \"user\", \"tool_calls\": \"passed over\"}, "
                     "{\"role\": \"assistant\", \"tool_calls\": {}}]}"));
    assert_int_equal(c.messages[0].n_calls, 3);
    assert_true(text_is(c.messages[0].calls[0].arguments, "{\"b\": [], \"a\": 12345678901234567890}"));
    assert_int_equal(c.messages[0].calls[1].arguments.n, 0);
    assert_true(text_is(c.messages[0].calls[2].arguments, "\"{}\""));
    assert_int_equal(c.messages[1].n_calls, 0);
    assert_int_equal(c.messages[2].n_calls, 0);
}

static void test_message__what_is_no_conversation_gets_a_sentence(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "[]", "{", "5", "{\"messages\": 5}", "{\"messages\": \"x\"}", "{\"messages\": {\"a\": 1}}", "{\"tools\": {\"a\": 1}}",
        "{\"tools\": [\"x\"]}", "{\"tools\": \"x\"}",
        "{\"kwargs\": []}", "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": \"x\"}]}",
        "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{}]}]}",
        "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"function\": null}]}]}",
        "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"name\": 5}]}]}",
        "{\"messages\": [{\"content\": [{\"text\": {}}]}]}", "{\"messages\": [{\"content\": \"\xff\"}]}",
        "{\"messages\": [{\"content\": \"\\ud800\"}]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(read(bad[i]));
        assert_true(strlen(e.msg) > 10);
    }
    static const char *const empty[] = {"{}", "{\"messages\": null}", "{\"messages\": []}", "{\"messages\": 0}",
                                        "{\"messages\": \"\", \"tools\": null}", "{\"tools\": []}"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        assert_true(read(empty[i]));
        assert_int_equal(c.n_messages + c.n_tools, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_message__roles_and_fields, teardown),
        cmocka_unit_test_teardown(test_message__switches_are_those_of_the_template, teardown),
        cmocka_unit_test_teardown(test_message__parts_are_joined_and_pictures_counted, teardown),
        cmocka_unit_test_teardown(test_message__what_the_template_refuses_is_kept_for_it_to_say, teardown),
        cmocka_unit_test_teardown(test_message__calls_keep_their_arguments_as_written, teardown),
        cmocka_unit_test_teardown(test_message__what_is_no_conversation_gets_a_sentence, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
