/* Bodies of requests to our server, those of an attached q35chat among them, put together at random from pieces of good ones (the same ones each
 * time), for two seconds: each is refused with a sentence, or read into a request that the responder can take: messages, values within their bounds,
 * the same again on a second reading. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/buf.h"
#include "serve/question.h"
#include "serve/server_state.h"
#include "text/template.h"
#include "tests/fuzz/long_run.h"

static uint64_t rnd_state = 13;
static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rnd_state >> 32) * below >> 32);
}

static const char *const fields[] = {
    "\"model\": \"demo\"", "\"model\": 7", "\"stream\": true", "\"stream_options\": {\"include_usage\": true}", "\"stream_options\": []",
    "\"temperature\": 0.7",
    "\"temperature\": 1e999", "\"temperature\": -0.0", "\"top_p\": 0", "\"top_p\": 1", "\"min_p\": 0.05", "\"top_k\": -1", "\"top_k\": 20.5",
    "\"top_k\": 99999999999999999999",
    "\"max_tokens\": 5", "\"max_tokens\": null", "\"max_completion_tokens\": -3", "\"seed\": 18446744073709551615", "\"seed\": -1",
    "\"seed\": 123456789012345678901234567890",
    "\"stop\": \"x\"", "\"stop\": [\"a\", \"b\"]", "\"stop\": [\"\\u0000\"]", "\"stop\": [1]",
    "\"stop\": [\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\"]", "\"logprobs\": true",
    "\"top_logprobs\": 3", "\"top_logprobs\": 99",
    "\"logit_bias\": {\"17\": -100, \" the\": 1.5}", "\"logit_bias\": {\"=\": 1e400}", "\"logit_bias\": {\"\": 1}", "\"n\": 1", "\"n\": 2",
    "\"response_format\": {\"type\": \"text\"}",
    "\"response_format\": {\"type\": \"json_schema\"}", "\"chat_template_kwargs\": {\"enable_thinking\": false}", "\"chat_template_kwargs\": 3",
    "\"reasoning_effort\": \"none\"",
    "\"thinking_budget\": 12", "\"continue_final_message\": true", "\"tool_choice\": \"none\"", "\"tool_choice\": {\"type\": \"function\"}",
    "\"return_progress\": true",
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}]", "\"tools\": [3]", "\"tools\": null",
    "\"frequency_penalty\": 0",
    "\"prompt\": \"once\"", "\"prompt\": [\"once\"]", "\"prompt\": [1, 2, 99999999999]", "\"prompt\": [[7, 8]]", "\"prompt\": []", "\"prompt\": [[]]",
    "\"echo\": true",
    "\"suffix\": \"\"", "\"best_of\": 1", "\"logprobs\": 5", "\"messages\": []", "\"messages\": {}", "\"messages\": [[]]", "\"presence_penalty\": 2",
    "\"repetition_penalty\": 1.1", "\"repeat_penalty\": 11", "\"user\": \"me\"",
    "\"id\": \"a-1\", \"conversation\": 18446744073709551615, \"prompt\": [1, 2, 3]", "\"id\": 3", "\"id\": \"\"", "\"conversation\": -1",
    "\"conversation\": 1.5", "\"answer_prefix\": 2",
    "\"answer_prefix\": 3", "\"answer_prefix\": -1", "\"snapshot_pos\": 3", "\"snapshot_pos\": 4", "\"draft_depth\": -1", "\"draft_depth\": 99",
    "\"lookup\": false", "\"likely\": 8", "\"likely\": 9",
    "\"guided_json\": {}", "\"n\": 1.0", "\"functions\": [3]", "\"parallel_tool_calls\": false", "\"add_generation_prompt\": false",
    "\"reasoning\": {\"effort\": \"low\", \"max_tokens\": 5}", "\"thinking\": {\"type\": \"disabled\"}", "\"think\": \"max\"", "\"max_tokens\": 0",
    /* of other dialects */
    "\"system\": \"s\"", "\"system\": [{\"type\": \"text\", \"text\": \"x-anthropic-billing-header:\"}, 5, {\"type\": \"text\"}]", "\"system\": 5",
    "\"tools\": [{\"name\": \"f\", \"input_schema\": {}}, {\"type\": \"web_search_20250305\"}]", "\"stop_sequences\": [\"a\", \"\"]",
    "\"tool_choice\": {\"type\": \"auto\", \"disable_parallel_tool_use\": true}", "\"thinking\": {\"type\": \"adaptive\", \"display\": \"omitted\"}",
    "\"output_config\": {\"effort\": \"low\", \"format\": {\"type\": \"json_schema\"}}", "\"output_config\": [[]]", "\"mcp_servers\": [{}]",
    "\"tools\": [{\"type\": \"custom\", \"name\": \"f\", \"format\": {\"definition\": \"x\"}}, {\"type\": \"function\"}, {\"type\": \"namespace\"}]",
    "\"tools\": [{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}]", "\"tool_choice\": {\"type\": \"custom\", \"name\": \"f\"}",
    "\"tool_choice\": {\"type\": \"allowed_tools\", \"mode\": \"auto\", \"tools\": [{\"type\": \"function\", \"name\": \"f\"}, 5]}",
    "\"tool_choice\": {\"type\": \"allowed_tools\", \"allowed_tools\": {\"mode\": \"required\", \"tools\": [{\"function\": {\"name\": \"f\"}}]}}",
    "\"max_output_tokens\": 7", "\"text\": {\"format\": {\"type\": \"json_schema\", \"schema\": {}}}", "\"text\": {\"format\": []}",
    "\"include\": [\"reasoning.encrypted_content\", \"message.output_text.logprobs\", 3]", "\"top_logprobs\": 2", "\"instructions\": [[]]",
    "\"raw\": true", "\"format\": \"json\"", "\"format\": {\"type\": \"object\"}", "\"images\": [\"x\"]", "\"images\": []", "\"images\": 5",
    "\"prompt\": \"\"", "\"options\": {\"num_predict\": -2, \"seed\": 7, \"stop\": [\"a\"], \"mirostat\": 0}", "\"keep_alive\": -1",
    "\"options\": {\"num_predict\": 1e9, \"top_k\": \"x\"}", "\"options\": [[]]", "\"context\": [1, 2]", "\"model\": \":latest\"",
    "\"input\": \"hello\"", "\"input\": [{\"type\": \"function_call\", \"call_id\": \"c\", \"name\": \"f\", \"arguments\": "
    "\"{\"}, {\"role\": \"user\", "
    "\"content\": \"x\"}, {\"type\": \"reasoning\", \"summary\": 5}]", "\"input\": [[]]", "\"instructions\": \"be brief\"",
};
static const char *const messages[] = {
    "{\"role\": \"user\", \"content\": \"hello\"}", "{\"role\": \"developer\", \"content\": \"be brief\"}",
    "{\"role\": \"system\", \"content\": null}", "{}", "\"text\"",
    "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"image_url\", \"image_url\": {\"url\": \"x\"}}]}",
    "{\"role\": \"user\", \"content\": [{\"type\": \"input_image\", \"image_url\": \""
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAMAAAAFCAIAAAAPE8H1AAAAPUlEQVR4nAEyAM3/AfX7FLjcnS7+3gJ9x9P5CxD8/RMABh3tCwr+"
    "0NWmBGa8/Df4xPn7BgICARD2Bxn9BP6htRkhHsAHjgAAAABJRU5ErkJggg==\"}], \"images\": []}",
    "{\"role\": [], \"content\": 7}",
    "{\"role\": \"assistant\", \"content\": \"hi\", \"reasoning\": \"hm\"}", "{\"role\": \"assistant\", \"content\": \"hi\", \"thinking\": \"hm\", "
                                                                             "\"reasoning_content\": null}",
    "{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"c\", \"function\": {\"name\": \"f\", \"arguments\": \"{\\\"x\\\": 1}\"}}]}",
    "{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": \" \"}}, {\"name\": \"g\", \"arguments\": {}}]}",
    "{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": \"[\"}}]}",
    "{\"role\": \"assistant\", \"tool_calls\": \"f\"}", "{\"role\": \"assistant\", \"function_call\": {\"name\": \"f\", \"arguments\": [null]}}",
    "{\"role\": \"system\", \"content\": [{\"type\": \"text\", \"text\": \"be brief\"}, \"\"]}",
    "{\"role\": \"tool\", \"content\": {\"x\": [1e999]}}",
    "{\"role\": \"assistant\", \"tool_calls\": [3, {\"function\": 4}]}",
    "{\"role\": \"user\", \"content\": \"see\", \"images\": [\"iVBORw0KGgoAAAANSUhEUgAAAAMAAAAFCAIAAAAPE8H1AAAAPUlEQVR4nAEyAM3/AfX7FLjcnS7+3gJ9x9P5C"
    "xD8/RMABh3tCwr+0NWmBGa8/Df4xPn7BgICARD2Bxn9BP6htRkhHsAHjgAAAABJRU5ErkJggg==\"]}",
    "{\"role\": \"tool\", \"tool_call_id\": \"c\", \"content\": \"42\"}",
};
/* ... of /v1/messages */
static const char *const blocks[] = {
    "{\"role\": \"user\", \"content\": \"hello\"}", "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"text\", "
    "\"text\": \"b\", \"cache_control\": {}}]}",
    "{\"role\": \"assistant\", \"content\": [{\"type\": \"thinking\", \"thinking\": \"hm\", \"signature\": \"\"}, {\"type\": "
    "\"tool_use\", \"id\": \"c\", "
    "\"name\": \"f\", \"input\": {\"x\": 1}}]}",
    "{\"role\": \"assistant\", \"content\": [{\"type\": \"thinking\", \"signature\": \"q35chat:hm\"}, {\"type\": \"text\", \"text\": \"so\"}]}",
    "{\"role\": \"user\", \"content\": [{\"type\": \"tool_result\", \"tool_use_id\": \"c\", \"content\": [{\"type\": \"text\", \"text\": \"42\"}]}, "
    "{\"type\": \"text\", \"text\": \"and hurry\"}]}",
    "{\"role\": \"user\", \"content\": [{\"type\": \"tool_result\"}, 7, {\"type\": \"tool_result\", \"content\": 3}]}",
    "{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"source\": {\"type\": \"base64\", \"media_type\": \"image/png\", \"data\": \"x\"}}]}",
    "{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"source\": 5}, []]}", "{\"role\": \"system\", \"content\": \"late\"}",
    "{\"role\": \"system\", \"content\": [{\"type\": \"text\", \"text\": \"late\"}]}", "{\"role\": \"assistant\", \"content\": []}",
    "{\"role\": \"assistant\", \"content\": [{\"type\": \"tool_use\"}, {\"type\": \"redacted_thinking\"}, {\"type\": \"tool_use\", \"input\": [1]}]}",
};
/* ... and items of /v1/responses */
static const char *const items[] = {
    "{\"role\": \"user\", \"content\": \"hello\"}", "{\"type\": \"message\", \"role\": \"developer\", \"content\": [{\"type\": \"input_text\", "
    "\"text\": \"be brief\"}]}",
    "{\"type\": \"reasoning\", \"summary\": [], \"content\": [{\"type\": \"reasoning_text\", \"text\": \"hm\"}]}",
    "{\"type\": \"function_call\", \"call_id\": \"c\", \"name\": \"f\", \"arguments\": \"{\\\"x\\\": 1}\"}",
    "{\"type\": \"function_call_output\", \"call_id\": \"c\", \"output\": [{\"type\": \"input_text\", \"text\": \"42\"}]}",
    "{\"type\": \"message\", \"role\": \"assistant\", \"content\": [{\"type\": \"output_text\", \"text\": \"hi\"}]}",
    "{\"type\": \"reasoning\", \"encrypted_content\": \"q35chat:hm\", \"content\": 5}", "{\"type\": \"web_search_call\"}", "{\"type\": []}", "7",
    "{\"type\": \"custom_tool_call\", \"call_id\": \"c\", \"name\": \"f\", \"input\": \"x\"}", "{\"type\": \"local_shell_call\", \"action\": [1]}",
    "{\"type\": \"function_call\", \"name\": 5}", "{\"type\": \"function_call_output\", \"output\": {\"x\": 1}}", "{\"type\": \"item_reference\"}",
    "{\"role\": \"assistant\", \"content\": [{\"type\": \"input_image\", \"image_url\": \"data:,\"}]}", "{\"role\": \"king\"}",
};
enum { N_ITEMS = sizeof items / sizeof *items };
enum { N_BLOCKS = sizeof blocks / sizeof *blocks };
enum { N_FIELDS = sizeof fields / sizeof *fields, N_MESSAGES = sizeof messages / sizeof *messages };

static void make_body(struct buf *b)
{
    buf_reset(b);
    buf_adds(b, "{");
    for (uint32_t i = 0, n = rnd(6); i < n; i++)
        buf_addf(b, "%s, ", fields[rnd(N_FIELDS)]);
    const bool input = !rnd(3);
    buf_adds(b, input ? "\"input\": [" : "\"messages\": [");
    for (uint32_t i = 0, n = rnd(5); i <= n; i++)
        buf_addf(b, "%s%s", i ? ", " : "", input ? items[rnd(rnd(4) ? 6 : N_ITEMS)] : !rnd(3) ? blocks[rnd(N_BLOCKS)]
                 : messages[rnd(4) ? rnd(2) : rnd(N_MESSAGES)]);
    buf_adds(b, rnd(2) ? "], \"max_tokens\": 99}" : "]}");
    for (uint32_t n = rnd(4) ? 0 : 1 + rnd(3); n && b->len; n--) {              /* some are damaged */
        uint32_t at = rnd((uint32_t)b->len);
        if (rnd(2))
            b->data[at] = (char)rnd(256);
        else
            b->len = at;
    }
}

static const struct format *const formats[] = {&format_openai, &format_plain, &format_tokens, &format_messages, &format_responses,
    &format_ollama, &format_generate};
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* Reads a request into text for the comparison.  False: it was refused, with a sentence. */
static bool read_once(const struct buf *body, const struct format *f, const struct options *o, struct buf *told)
{
    static const struct model_info info = {.temperature = 0.6f, .top_p = 0.95f, .top_k = 20};
    struct question q;
    struct err e = {{0}};
    const bool relayed = f == &format_tokens, plain = relayed || f == &format_plain;
    bool raw = false;
    bool ok = f->read(&q, (struct text){buf_str(body), body->len}, o, &e);
    if (!ok)
        assert_true(*e.msg);
    if (ok && q.asks_nothing) {
        assert_true(f == &format_ollama || f == &format_generate);
        question_free(&q);
        return true;
    }
    raw = ok && f == &format_generate && q.plain;
    static const char *const chats[] = {"message ", "messages ", "max_tokens ", "max_completion_tokens ", "response_format", "reasoning_effort"};
    for (int i = 0; !ok && f == &format_responses && i < 6; i++)
        if (!strncmp(e.msg, chats[i], strlen(chats[i])))
            fail_msg("a refusal has a name of another dialect: %s", e.msg);
    if (ok) {
        q.seeded = true;
        question_sampling(&q, o, &info);
        const struct sampling *s = &q.request.sampling;
        assert_true(q.plain == (plain || raw) && q.complete == relayed && (plain || raw || q.request.n_messages >= 1) && (!q.prompt.p || !q.ids.n)
                    && q.n_stops >= 0 && q.n_stops <= QUESTION_MAX_STOPS);
        assert_true(s->temperature >= 0 && s->temperature <= 10 && (s->top_p > 0 || relayed) && s->top_p >= 0 && s->top_p <= 1 && s->min_p >= 0
                    && s->min_p <= 1 && s->top_k >= 0 && s->max_tokens >= 0);
        assert_true(s->n_alternatives >= 0 && s->n_alternatives <= LIMIT_ALTERNATIVES);
        assert_true(!relayed || (q.ids.n > q.n_answer_prefix && q.n_answer_prefix >= 0 && q.request.snapshot_pos <= q.ids.n && q.name.n
                                 && s->draft_depth >= -1 && s->draft_depth <= LIMIT_DRAFTS));
        assert_true(!q.continued || q.continued->role == ROLE_ASSISTANT);
        for (int i = 0; i < q.n_stops; i++)
            assert_true(*q.stops[i]);
        buf_addf(told, "%g %g %d %d %llu %d", (double)s->temperature, (double)s->top_p, s->top_k, s->max_tokens, (unsigned long long)s->seed,
                 q.request.thinking);
        for (int i = 0; i < q.request.n_messages; i++)
            buf_add(told, q.request.messages[i].content.p ? q.request.messages[i].content.p : "", q.request.messages[i].content.n);
        for (int i = 0; i < q.ids.n; i++)
            buf_addf(told, " %d", q.ids.data[i]);
    }
    buf_adds(told, e.msg);
    question_free(&q);
    return ok;
}

static void test_question__any_body_is_refused_with_a_sentence_or_read_within_bounds(void **state)
{
    (void)state;
    struct options *o = options_open();
    struct buf body = {0}, once = {0}, twice = {0};
    struct long_run run;
    long n_read = 0, n_refused = 0;
    rnd_state = long_run_seed(rnd_state);
    for (run = long_run_begin(2, 1000); long_run_goes_on(&run);) {
        make_body(&body);
        buf_reset(&once);
        buf_reset(&twice);
        const struct format *f = formats[rnd(N_FORMATS)];
        bool ok = read_once(&body, f, o, &once);
        assert_int_equal(read_once(&body, f, o, &twice), ok);
        assert_string_equal(buf_str(&once), buf_str(&twice));
        n_read += ok;
        n_refused += !ok;
    }
    print_message("%ld read, %ld refused\n", n_read, n_refused);
    assert_true(n_read && n_refused);
    buf_free(&body);
    buf_free(&once);
    buf_free(&twice);
    options_close(o);
}

static void render(const struct question *q, struct segments *s, struct arena *mem)
{
    const struct conversation c = {
        .messages = (struct message *)q->request.messages, .n_messages = q->request.n_messages, .tools = (struct text *)q->request.tools,
        .n_tools = q->request.n_tools, .thinking = q->request.thinking, .generation_prompt = true,
    };
    struct err e = {{0}};
    if (!template_render(&c, s, mem, &e))
        fail_msg("the template refuses what was read: %s", e.msg);
}

/* Whatever the history is: the template takes what was read, and the prompt of the next turn begins with what this one keeps. */
static void test_question__the_next_request_of_a_conversation_begins_with_this_one(void **state)
{
    (void)state;
    struct options *o = options_open();
    struct long_run run;
    long n_read = 0;
    rnd_state = long_run_seed(rnd_state);
    for (run = long_run_begin(1, 1000); long_run_goes_on(&run);) {
        const uint32_t dialect = rnd(3);
        static const struct { const struct format *format; const char *const *all; uint32_t n, n_good; } dialects[] = {
            {&format_openai, messages, N_MESSAGES, N_MESSAGES}, {&format_messages, blocks, N_BLOCKS, 5}, {&format_responses, items, N_ITEMS, 6},
        };
        const char *const *all = dialects[dialect].all;
        const struct format *f = dialects[dialect].format;
        struct buf body = {0}, next = {0};
        struct question one, two;
        struct arena mem = {0};
        struct err e;
        buf_addf(&body, "{\"max_tokens\": 99, \"%s\": [", dialect == 2 ? "input" : "messages");
        for (uint32_t i = 0, n = rnd(6); i <= n; i++)
            buf_addf(&body, "%s%s", i ? ", " : "", all[rnd(rnd(4) ? dialects[dialect].n_good : dialects[dialect].n)]);
        buf_addf(&next, "%s, {\"role\": \"assistant\", \"content\": \"hi\"}, %s, {\"role\": \"user\", \"content\": \"next\"}]}", body.data,
                 all[rnd(2)]);
        buf_adds(&body, "]}");
        const bool ok = f->read(&one, (struct text){body.data, body.len}, o, &e);
        const bool follows = f->read(&two, (struct text){next.data, next.len}, o, &e);
        if (ok) {
            struct segments first = {0}, second = {0};
            assert_true(follows);
            render(&one, &first, &mem);
            render(&two, &second, &mem);
            for (int k = 0; k < first.keep; k++)
                if (first.items[k].control != second.items[k].control || !text_same(first.items[k].text, second.items[k].text))
                    fail_msg("%s does not begin with what was kept", body.data);
            n_read++;
        }
        question_free(&one);
        question_free(&two);
        arena_free(&mem);
        buf_free(&body);
        buf_free(&next);
    }
    assert_true(n_read);
    options_close(o);
}

static void test_question__a_number_that_is_too_large_is_refused_however_long(void **state)
{
    static const char asked[] = "\"messages\": [{\"role\": \"user\", \"content\": \"Q\"}]";
    struct options *o = options_open();
    (void)state;
    for (int n = 2; n < 100; n++) {     /* 100, 1000, ... */
        struct buf body = {0};
        struct question q;
        struct err e = {{0}};
        buf_addf(&body, "{%s, \"temperature\": 1%0*d}", asked, n, 0);
        assert_false(question_read(&q, (struct text){body.data, body.len}, o, &e));
        assert_non_null(strstr(e.msg, "temperature is not a number from 0 to"));
        question_free(&q);
        buf_free(&body);
    }
    options_close(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_question__any_body_is_refused_with_a_sentence_or_read_within_bounds),
        cmocka_unit_test(test_question__the_next_request_of_a_conversation_begins_with_this_one),
        cmocka_unit_test(test_question__a_number_that_is_too_large_is_refused_however_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
