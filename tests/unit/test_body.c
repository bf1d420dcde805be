/* Requests to servers: the body of a request in each dialect, and their lists of models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "remote/body.h"

static struct text t(const char *s) { return text_of(s); }

static struct call calls[] = {{{"weather", 7}, {"{\"city\": \"Rom\xc3\xa9\"}", 17}, {0}}, {{"now", 3}, {0}, {0}}};
static const struct message messages[] = {
    {.role = ROLE_SYSTEM, .content = {"Be \"brief\".", 11}},
    {.role = ROLE_USER, .content = {"Hot?\n", 5}},
    {.role = ROLE_ASSISTANT, .content = {"", 0}, .has_reasoning = true, .reasoning = {"Look.", 5}, .calls = calls, .n_calls = 2},
    {.role = ROLE_TOOL, .content = {"30", 2}},
    {.role = ROLE_TOOL, .content = {"noon", 4}},
    {.role = ROLE_ASSISTANT, .content = {"Yes.", 4}},
    {.role = ROLE_USER, .content = {"Bye", 3}},
};

static struct sampling sampling;

static struct body body_for(const char *dialect)
{
    sampling = (struct sampling){.temperature = 0.5f, .top_k = 20, .top_p = 0.95f, .min_p = 0.05f, .repetition_penalty = 1.1f, .seed = 7,
                                 .max_tokens = 100};
    return (struct body){.model = "m", .dialect = dialect_find(dialect, NULL), .messages = messages, .n_messages = 2,
                         .sampling = &sampling};
}

static void assert_body(const struct body *b, const char *expected)
{
    struct buf out = {0};
    struct err e = {0};
    assert_true(body_write(b, &out, &e));
    if (strcmp(out.data, expected))
        fail_msg("%s\nexpected\n%s", out.data, expected);
    buf_free(&out);
}

#define MESSAGES "\"messages\":[{\"role\":\"system\",\"content\":\"Be \\\"brief\\\".\"},{\"role\":\"user\",\"content\":\"Hot?\\n\"}]"

static void test_body__each_dialect_is_asked_in_its_own_words(void **state)
{
    (void)state;
    static const struct { const char *dialect, *body; } rows[] = {
        {"vllm", "{\"model\":\"m\",\"stream\":true,\"temperature\":0.5,\"seed\":7,\"top_p\":0.95,\"top_k\":20,\"min_p\":0.05,"
                 "\"repetition_penalty\":1.1,\"max_tokens\":100,\"stream_options\":{\"include_usage\":true},"
                 "\"chat_template_kwargs\":{\"enable_thinking\":false},"
         MESSAGES "}"},
        {"llamacpp", "{\"model\":\"m\",\"stream\":true,\"temperature\":0.5,\"seed\":7,\"top_p\":0.95,\"top_k\":20,\"min_p\":0.05,"
                     "\"repeat_penalty\":1.1,\"max_tokens\":100,\"stream_options\":{\"include_usage\":true},"
                     "\"chat_template_kwargs\":{\"enable_thinking\":false},\"return_progress\":true,"
         MESSAGES "}"},
        {"llamacpp-python", "{\"model\":\"m\",\"stream\":true,\"temperature\":0.5,\"seed\":7,\"top_p\":0.95,\"top_k\":20,\"min_p\":0.05,"
                            "\"repeat_penalty\":1.1,\"max_tokens\":100,\"stream_options\":{\"include_usage\":true},"
         MESSAGES "}"},
        {"ollama", "{\"model\":\"m\",\"stream\":true,\"temperature\":0.5,\"seed\":7,\"top_p\":0.95,\"max_tokens\":100,"
                   "\"stream_options\":{\"include_usage\":true},\"reasoning_effort\":\"none\","
         MESSAGES "}"},
        {"openai", "{\"model\":\"m\",\"stream\":true,\"temperature\":0.5,\"seed\":7,\"top_p\":0.95,\"max_completion_tokens\":100,"
                   "\"stream_options\":{\"include_usage\":true},"
         MESSAGES "}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct body b = body_for(rows[i].dialect);
        assert_body(&b, rows[i].body);
    }
}

static void test_body__a_form_is_asked_for_in_the_words_of_each_dialect(void **state)
{
    static const struct text ways[] = {{"yes", 3}, {"a \"b\" (c)", 9}};
    static const struct form forms[] = {
        {.kind = FORM_SCHEMA, .text = {"{\"maximum\": 0.1234567890123, \"minimum\": 0}", 42}}, {.kind = FORM_PATTERN, .text = {"\\d+", 3}},
        {.kind = FORM_CHOICES, .choices = ways, .n_choices = 2},
    };
    static const struct { const char *dialect, *field[3]; } rows[] = {
        {"q35chat", {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\",\"strict\":true,\"schema\":"
                     "{\"maximum\":0.1234567890123,\"minimum\":0}}},\"schema_prompt\":false,",
                     "\"structured_outputs\":{\"regex\":\"\\\\d+\"},\"schema_prompt\":false,",
                     "\"structured_outputs\":{\"choice\":[\"yes\",\"a \\\"b\\\" (c)\"]},\"schema_prompt\":false,"}},
        {"vllm", {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\",\"strict\":true,\"schema\":"
                  "{\"maximum\":0.1234567890123,\"minimum\":0}}},",
                  "\"structured_outputs\":{\"regex\":\"\\\\d+\"},", "\"structured_outputs\":{\"choice\":[\"yes\",\"a \\\"b\\\" (c)\"]},"}},
        {"sglang", {"\"response_format\":{\"type\":\"json_schema\",", "\"regex\":\"\\\\d+\",", "\"regex\":\"(yes|a \\\"b\\\" \\\\(c\\\\))\","}},
        {"llamacpp", {"\"response_format\":{\"type\":\"json_schema\",", "",
                      "\"grammar\":\"root ::= \\\"yes\\\" | \\\"a \\\\\\\"b\\\\\\\" (c)\\\"\","}},
        {"llamacpp-python", {"\"response_format\":{\"type\":\"json_object\",\"schema\":{\"maximum\":0.1234567890123,\"minimum\":0}},", "", ""}},
        {"ollama", {"\"response_format\":{\"type\":\"json_schema\",", "", ""}},
        {"transformers", {"", "", ""}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; k < 3; k++) {
            struct body b = body_for(rows[i].dialect);
            struct buf without = {0}, with = {0};
            const char *field = rows[i].field[k];
            assert_true(body_write(&b, &without, NULL));
            b.form = &forms[k];
            assert_true(body_write(&b, &with, NULL));
            assert_int_equal(body_takes_form(b.dialect, forms[k].kind), *field != 0);
            if (*field ? !strstr(with.data, field) : strcmp(with.data, without.data) != 0)
                fail_msg("%s: %s\nexpected\n%s", rows[i].dialect, with.data, field);
            buf_free(&without);
            buf_free(&with);
        }
}

/* llama.cpp and its Python server would else cut at their own top_k and min_p, and the latter penalise repetition. */
static void test_body__pictures_are_parts_of_the_content_as_data_addresses(void **state)
{
    (void)state;
    struct body b = body_for("openai");
    size_t media[] = {0, strlen(MEDIA_IMAGE) + 5};
    const struct media pictures[] = {{t("a.png"), t("\x89PNG")}, {t("b.jpg"), t("\xff\xd8\xff")}};
    struct message seen[] = {{.role = ROLE_USER, .content = t(MEDIA_IMAGE " and " MEDIA_IMAGE "\nLike " MEDIA_IMAGE "?"),
                              .media = media, .n_media = 2, .pictures = pictures}};
    struct buf out = {0};
    struct err e = {0};
    b.messages = seen;
    b.n_messages = 1;
    assert_true(body_write(&b, &out, &e));
    assert_non_null(strstr(out.data, "\"messages\":[{\"role\":\"user\",\"content\":["
        "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,iVBORw==\"}},{\"type\":\"text\",\"text\":\" and \"},"
        "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/jpeg;base64,/9j/\"}},"
        "{\"type\":\"text\",\"text\":\"\\nLike " MEDIA_IMAGE "?\"}]}]"));
    buf_free(&out);
}

static void test_body__what_is_off_is_said_where_the_server_has_values_of_its_own(void **state)
{
    (void)state;
    for (int greedy = 0; greedy < 2; greedy++) {
        struct body b = body_for("llamacpp-python");
        sampling.temperature = greedy ? 0 : 0.5f;
        sampling.top_k = sampling.max_tokens = 0;
        sampling.top_p = greedy ? 0 : 1;
        sampling.min_p = 0;
        sampling.repetition_penalty = greedy ? 0 : 1;
        assert_body(&b, greedy ? "{\"model\":\"m\",\"stream\":true,\"temperature\":0.0,\"top_p\":1.0,\"top_k\":0,\"min_p\":0.0,"
                                 "\"repeat_penalty\":1.0,\"stream_options\":{\"include_usage\":true}," MESSAGES "}"
                               : "{\"model\":\"m\",\"stream\":true,\"temperature\":0.5,\"seed\":7,\"top_p\":1.0,\"top_k\":0,\"min_p\":0.0,"
                                 "\"repeat_penalty\":1.0,\"stream_options\":{\"include_usage\":true}," MESSAGES "}");
        b.dialect = dialect_find("vllm", NULL);
        assert_body(&b, greedy ? "{\"model\":\"m\",\"stream\":true,\"temperature\":0.0,\"stream_options\":{\"include_usage\":true},"
                                 "\"chat_template_kwargs\":{\"enable_thinking\":false}," MESSAGES "}"
                               : "{\"model\":\"m\",\"stream\":true,\"temperature\":0.5,\"seed\":7,\"stream_options\":{\"include_usage\":true},"
                                 "\"chat_template_kwargs\":{\"enable_thinking\":false}," MESSAGES "}");
    }
}

static void test_body__calls_and_their_results_name_each_other(void **state)
{
    (void)state;
    const struct text tools[] = {t("{\"type\": \"function\", \"function\": {\"name\": \"weather\"}}"), t("{\"name\": \"now\"}")};
    const struct sampling greedy = {0};
    struct body b = {.model = "m", .dialect = dialect_find("openai", NULL), .sampling = &greedy, .messages = messages,
                     .n_messages = 5, .tools = tools, .n_tools = 2, .reasoning_name = "reasoning"};
    assert_body(&b, "{\"model\":\"m\",\"stream\":true,\"temperature\":0.0,\"stream_options\":{\"include_usage\":true},"
                    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\"}},"
                    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}],\"messages\":[{\"role\":\"system\",\"content\":\"Be \\\"brief\\\".\"},"
                    "{\"role\":\"user\",\"content\":\"Hot?\\n\"},{\"role\":\"assistant\",\"content\":\"\",\"reasoning\":\"Look.\",\"tool_calls\":["
                    "{\"id\":\"call_2_0\",\"type\":\"function\",\"function\":{\"name\":\"weather\",\"arguments\":\"{\\\"city\\\": "
                    "\\\"Rom\xc3\xa9\\\"}\"}},"
                    "{\"id\":\"call_2_1\",\"type\":\"function\",\"function\":{\"name\":\"now\",\"arguments\":\"{}\"}}]},"
                    "{\"role\":\"tool\",\"content\":\"30\",\"tool_call_id\":\"call_2_0\"},{\"role\":\"tool\",\"content\":\"noon\","
                    "\"tool_call_id\":\"call_2_1\"}]}");
}

static void test_body__calls_keep_their_ids(void **state)
{
    (void)state;
    static struct call own[] = {{{"now", 3}, {0}, {"a7", 2}}, {{"now", 3}, {0}, {"b8", 2}}};
    static const struct message both[] = {
        {.role = ROLE_ASSISTANT, .calls = own, .n_calls = 2}, {.role = ROLE_TOOL, .content = {"2", 1}, .call_id = {"b8", 2}},
        {.role = ROLE_TOOL, .content = {"1", 1}, .call_id = {"a7", 2}},
    };
    const struct sampling greedy = {0};
    struct body b = {.model = "m", .dialect = dialect_find("openai", NULL), .sampling = &greedy, .messages = both, .n_messages = 3};
    assert_body(&b, "{\"model\":\"m\",\"stream\":true,\"temperature\":0.0,\"stream_options\":{\"include_usage\":true},"
                    "\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":["
                    "{\"id\":\"a7\",\"type\":\"function\",\"function\":{\"name\":\"now\",\"arguments\":\"{}\"}},"
                    "{\"id\":\"b8\",\"type\":\"function\",\"function\":{\"name\":\"now\",\"arguments\":\"{}\"}}]},"
                    "{\"role\":\"tool\",\"content\":\"2\",\"tool_call_id\":\"b8\"},"
                    "{\"role\":\"tool\",\"content\":\"1\",\"tool_call_id\":\"a7\"}]}");
}

static void test_body__more_messages_leave_the_bytes_before_them_as_they_are(void **state)
{
    (void)state;
    struct buf shorter = {0}, longer = {0};
    struct body b = body_for("vllm");
    for (int n = 1; n < (int)(sizeof messages / sizeof *messages); n++) {
        buf_reset(&shorter);
        buf_reset(&longer);
        b.n_messages = n;
        assert_true(body_write(&b, &shorter, NULL));
        b.n_messages = n + 1;
        assert_true(body_write(&b, &longer, NULL));
        assert_true(shorter.len > 2 && longer.len > shorter.len);
        assert_memory_equal(shorter.data, longer.data, shorter.len - 2);        /* all but "]}" */
    }
    buf_free(&shorter);
    buf_free(&longer);
}

static void test_body__what_a_server_refuses_is_left_out(void **state)
{
    (void)state;
    struct body b = body_for("vllm");
    struct buf out = {0}, name = {0};
    assert_true(body_write(&b, &out, NULL));
    size_t whole = out.len;
    assert_true(body_drop_refused(&out, "Unsupported parameter(s): `min_p`", &name));
    assert_string_equal(name.data, "min_p");
    assert_null(strstr(out.data, "min_p"));
    assert_int_equal(out.len, whole - strlen("\"min_p\":0.05,"));
    assert_false(body_drop_refused(&out, "Unsupported parameter(s): `min_p`", &name));
    assert_false(body_drop_refused(&out, "the model is overloaded", &name));
    assert_false(body_drop(&out, "min_p"));
    buf_free(&name);
    struct text tool = t("[1]");
    struct err e = {0};
    b.tools = &tool;
    b.n_tools = 1;
    assert_false(body_write(&b, &out, &e));
    assert_string_equal(e.msg, "tool 1 is not a JSON object: [1]");
    buf_free(&out);
}

static void assert_model(const char *body, const char *wanted, const char *id, const char *dialect, int n_ctx)
{
    struct remote_model m;
    struct err e = {0};
    struct buf names = {0};
    if (!models_choose(body, strlen(body), wanted, &m, &names, &e))
        fail_msg("%s", e.msg);
    assert_string_equal(m.id.data, id);
    assert_string_equal(m.dialect->name, dialect);
    assert_int_equal(m.n_ctx, n_ctx);
    remote_model_free(&m);
    buf_free(&names);
}

static void assert_no_model(const char *body, const char *wanted, const char *why)
{
    struct remote_model m;
    struct err e = {0};
    struct buf names = {0};
    assert_false(models_choose(body, strlen(body), wanted, &m, &names, &e));
    assert_string_equal(e.msg, why);
    remote_model_free(&m);
    buf_free(&names);
}

static void test_models__the_list_says_which_server_it_is(void **state)
{
    (void)state;
    assert_model("{\"object\":\"list\",\"data\":[{\"id\":\"Qwen/Qwen3.5-122B-A10B\",\"object\":\"model\",\"owned_by\":\"vllm\","
                 "\"max_model_len\":262144}]}", NULL,
                 "Qwen/Qwen3.5-122B-A10B", "vllm", 262144);
    assert_model("{\"data\":[{\"id\":\"/m\",\"owned_by\":\"sglang\",\"max_model_len\":32768}]}", NULL, "/m", "sglang", 32768);
    assert_model("{\"models\":[],\"data\":[{\"id\":\"q.gguf\",\"owned_by\":\"llamacpp\",\"meta\":{\"n_ctx_train\":262144}}]}", "q.gguf", "q.gguf",
                 "llamacpp", 0);
    assert_model("{\"data\":[{\"id\":\"a\",\"owned_by\":\"library\"},{\"id\":\"b:7b\",\"owned_by\":\"library\"}]}", "b:7b", "b:7b", "ollama", 0);
    assert_model("{\"object\":\"list\",\"data\":[{\"id\":\"models/q.gguf\",\"object\":\"model\",\"owned_by\":\"me\",\"permissions\":[]}]}", NULL,
                 "models/q.gguf", "llamacpp-python", 0);
    assert_model("{\"data\":[{\"id\":\"gpt\",\"owned_by\":\"system\",\"max_model_len\":\"x\"}]}", NULL, "gpt", "openai", 0);
    assert_no_model("{\"data\":[{\"id\":\"a\"},{\"id\":\"b\"}]}", NULL, "the server has 2 models; --model names one of them: a, b");
    assert_no_model("{\"data\":[{\"id\":\"a\",\"owned_by\":\"vllm\"}]}", "c", "the server has no model c; it has a");
    assert_model("{\"data\":[{\"id\":\"a\",\"owned_by\":\"somebody\"}]}", "c", "c", "openai", 0);
    assert_model("{\"data\":[]}", "c", "c", "openai", 0);
    assert_no_model("{\"data\":[]}", NULL, "the server lists no model; --model names the one that it has");
    assert_no_model("{\"data\":[{\"name\":\"a\"}]}", NULL, "the server lists a model without a name; --model names the one that it has");
    assert_no_model("<html>", NULL, "the server's list of models is not one: expected {\"data\": [{\"id\": ...}]}");
    assert_int_equal(props_context("{\"default_generation_settings\":{\"n_ctx\":65536}}", 47), 65536);
    assert_int_equal(props_context("{}", 2), 0);
}

/* Lists in which servers mark their models; unmarked ones may answer. */
static void test_models__those_that_make_embeddings_alone_are_left_out(void **state)
{
    (void)state;
    static const char *const marks[] = {
        "\"capabilities\":{\"completion_chat\":false}", "\"capabilities\":[\"embed\"]", "\"capabilities\":[\"embedding\"]",
        "\"architecture\":{\"output_modalities\":[\"embeddings\"]}", "\"type\":\"embeddings\"", "\"type\":\"embedding\"",
    };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        struct buf body = {0};
        buf_addf(&body, "{\"data\":[{\"id\":\"e\",%s},{\"id\":\"a\",\"type\":\"llm\"}]}", marks[i]);
        assert_model(body.data, NULL, "a", "openai", 0);
        assert_model(body.data, "e", "e", "openai", 0);         /* who names it means it */
        buf_free(&body);
    }
    assert_model("{\"data\":[{\"id\":\"a\",\"capabilities\":[\"completion\",\"embedding\"],\"architecture\":{\"output_modalities\":[\"text\"]}}]}",
                 NULL, "a", "openai", 0);
    assert_no_model("{\"data\":[{\"id\":\"e\",\"type\":\"embedding\"}]}", NULL, "the server lists models for embeddings alone; --model names the one "
                                                                                "that it has");
    assert_no_model("{\"data\":[{\"id\":\"a\"},{\"id\":\"e\",\"type\":\"embedding\"},{\"id\":\"b\"}]}", NULL,
                    "the server has 2 models; --model names one of them: a, b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_body__each_dialect_is_asked_in_its_own_words),
        cmocka_unit_test(test_body__a_form_is_asked_for_in_the_words_of_each_dialect),
        cmocka_unit_test(test_body__pictures_are_parts_of_the_content_as_data_addresses),
        cmocka_unit_test(test_body__what_is_off_is_said_where_the_server_has_values_of_its_own),
        cmocka_unit_test(test_body__calls_keep_their_ids),
        cmocka_unit_test(test_body__calls_and_their_results_name_each_other),
        cmocka_unit_test(test_body__more_messages_leave_the_bytes_before_them_as_they_are),
        cmocka_unit_test(test_body__what_a_server_refuses_is_left_out),
        cmocka_unit_test(test_models__those_that_make_embeddings_alone_are_left_out),
        cmocka_unit_test(test_models__the_list_says_which_server_it_is),
    };
    return cmocka_run_group_tests_name("body", tests, NULL, NULL);
}
