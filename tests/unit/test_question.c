/* Bodies of requests to the server: what is read of them, the prompt that it makes, and what is refused. */
#include "tests/unit/asked.h"

static bool read_body(const char *body) { return read_as(&format_openai, body); }

#define ASKED "{\"role\": \"user\", \"content\": \"q\"}"

/* A request with that field and a question. */
static bool read_with(const char *field)
{
    return read_body(arena_printf(&a, "{\"messages\": [" ASKED "], %s}", field));
}

/* The prompt of these messages, or the refusal in brackets. */
static const char *prompt_of(const char *messages)
{
    if (!read_body(arena_printf(&a, "{\"messages\": [%s]}", messages)))
        return arena_printf(&a, "(%s)", e.msg);
    return prompt();
}

#define TURN(role, text) "<|im_start|>" role "\n" text "<|im_end|>\n"
#define REMINDER(text)   TURN("user", "<system-reminder>\n" text "\n</system-reminder>")
#define BEGIN            "<|im_start|>assistant\n<think>\n"
#define THOUGHT(text)    "<think>\n" text "\n</think>\n\n"
#define CALL(inside)     "<tool_call>\n<function=f>\n" inside "</function>\n</tool_call>"
#define S(text)          "{\"role\": \"system\", \"content\": \"" text "\"}"
#define U(text)          "{\"role\": \"user\", \"content\": \"" text "\"}"
#define A(text)          "{\"role\": \"assistant\", \"content\": \"" text "\"}"
#define CALLS(arguments) "{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"f\", " \
                         "\"arguments\": " arguments "}}]}"
#define T(text)          "{\"role\": \"tool\", \"tool_call_id\": \"1\", \"content\": \"" text "\"}"

struct prompt_row { const char *messages, *prompt; };

static void expect_prompts(const struct prompt_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(prompt_of(rows[i].messages), rows[i].prompt))
            fail_msg("%s\n  made  %s\n  not   %s", rows[i].messages, prompt_of(rows[i].messages), rows[i].prompt);
}
#define EXPECT_PROMPTS(rows) expect_prompts(rows, sizeof rows / sizeof *rows)

static void test_question__system_messages_are_joined_at_the_beginning_and_reminders_later(void **state)
{
    (void)state;
    static const struct prompt_row rows[] = {
        {S("a") ", " S(" b\\n") ", " U("q"), TURN("system", "a\n\nb") TURN("user", "q") BEGIN},
        {"{\"role\": \"developer\", \"content\": \"a\"}, {\"role\": \"developer\", \"content\": [{\"type\": \"text\", \"text\": \"b\"}]}, " U("q"),
         TURN("system", "a\n\nb") TURN("user", "q") BEGIN},
        {S("") ", " S("b") ", " S(" ") ", " U("q"), TURN("system", "b") TURN("user", "q") BEGIN},
        {S("") ", " U("q"), TURN("system", "") TURN("user", "q") BEGIN},
        {U("q") ", " S(" r "), TURN("user", "q") REMINDER("r") BEGIN},
        {U("q") ", {\"role\": \"system\", \"content\": [{\"type\": \"text\", \"text\": \"r\", \"cache_control\": {\"type\": \"ephemeral\"}}]}",
         TURN("user", "q") REMINDER("r") BEGIN},
        {U("q") ", " S("") ", " A("a") ", " S("r") ", " U("p"), TURN("user", "q") TURN("assistant", "a") REMINDER("r") TURN("user", "p") BEGIN},
    };
    EXPECT_PROMPTS(rows);
}

/* A reminder is no question: the steps of the answer before it keep their reasoning. */
static void test_question__a_reminder_takes_no_reasoning_away(void **state)
{
    (void)state;
    static const struct prompt_row rows[] = {
        {U("q") ", {\"role\": \"assistant\", \"reasoning\": \"r\", \"tool_calls\": [{\"function\": {\"name\": \"f\"}}]}, " T("1") ", " S("s"),
         TURN("user", "q") "<|im_start|>assistant\n" THOUGHT("r") CALL("") "<|im_end|>\n"
         "<|im_start|>user\n<tool_response>\n1\n</tool_response><|im_end|>\n" REMINDER("s") BEGIN},
        {U("q") ", {\"role\": \"assistant\", \"content\": \"a\", \"thinking\": \"r\"}, " S("output"),
         TURN("user", "q") "<|im_start|>assistant\n" THOUGHT("r") "a<|im_end|>\n" REMINDER("output") BEGIN},
    };
    EXPECT_PROMPTS(rows);
    assert_true(q.request.follows);
}

static void test_question__texts_and_lists_of_parts_are_the_same(void **state)
{
    (void)state;
    static const struct prompt_row rows[] = {
        {"{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"input_text\", \"text\": \"b\"}, "
         "{\"text\": \"c\"}, \"d\"]}",
         TURN("user", "abcd") BEGIN},
        {"{\"role\": \"user\", \"content\": []}", TURN("user", "") BEGIN}, {"{\"role\": \"user\"}", TURN("user", "") BEGIN},
        {U("q") ", {\"role\": \"assistant\", \"content\": null, \"tool_calls\": null, \"refusal\": null}, " U("p"),
         TURN("user", "q") TURN("assistant", "") TURN("user", "p") BEGIN},
        {U("q") ", {\"role\": \"assistant\", \"content\": [{\"type\": \"thinking\", \"thinking\": \"r\", \"signature\": \"x\"}, {\"type\": "
         "\"redacted_thinking\", \"data\": \"x\"}, {\"type\": \"output_text\", \"text\": \"a\"}]}",
         TURN("user", "q") "<|im_start|>assistant\n" THOUGHT("r") "a<|im_end|>\n" BEGIN},
        {U("q") ", " A("a") ", {\"role\": \"tool\", \"content\": [{\"type\": \"text\", \"text\": \"1\"}]}, "
         "{\"role\": \"tool\", \"content\": {\"x\": 1.50}}",
         TURN("user", "q") "<|im_start|>assistant\n" THOUGHT("") "a<|im_end|>\n"
         "<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n{\"x\": 1.5}\n</tool_response><|im_end|>\n" BEGIN},
    };
    EXPECT_PROMPTS(rows);
}

static void test_question__arguments_that_are_no_object_are_taken_as_text(void **state)
{
    (void)state;
    static const struct { const char *arguments, *inside; } rows[] = {
        {"{\"x\": 1}", "<parameter=x>\n1\n</parameter>\n"}, {"\"{\\\"x\\\": \\\"y\\\"}\"", "<parameter=x>\ny\n</parameter>\n"},
        {"\"\"", ""}, {"\" \\n\"", ""}, {"null", ""}, {"\"null\"", ""}, {"\"{}\"", ""}, {"{}", ""},
        {"\"{\\\"expression\\\": \\\"12*\"", "<parameter=arguments>\n{\"expression\": \"12*\n</parameter>\n"},
        {"[]", "<parameter=arguments>\n[]\n</parameter>\n"}, {"\"[]\"", "<parameter=arguments>\n[]\n</parameter>\n"},
        {"5", "<parameter=arguments>\n5\n</parameter>\n"}, {"\"ls -l\"", "<parameter=arguments>\nls -l\n</parameter>\n"},
        {"true", "<parameter=arguments>\ntrue\n</parameter>\n"}, {"\"{\\\"x\\\": 1e999}\"", "<parameter=arguments>\n{\"x\": 1e999}\n</parameter>\n"},
        {"{\"x\": 1e999}", "<parameter=arguments>\n{\"x\": Infinity}\n</parameter>\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(prompt_of(arena_printf(&a, U("q") ", " CALLS("%s"), rows[i].arguments)),
                            arena_printf(&a, TURN("user", "q") "<|im_start|>assistant\n" THOUGHT("") CALL("%s") "<|im_end|>\n" BEGIN,
                                         rows[i].inside));
}

static void test_question__results_and_calls_that_match_nothing_are_taken(void **state)
{
    (void)state;
    static const struct prompt_row rows[] = {
        {T("1") ", " U("q"), TURN("user", "<tool_response>\n1\n</tool_response>") TURN("user", "q") BEGIN},
        {S("s") ", " T("1") ", " U("q"),
         TURN("system", "s") "<|im_start|>user\n<tool_response>\n1\n</tool_response><|im_end|>\n" TURN("user", "q") BEGIN},
        {U("q") ", " CALLS("{}") ", {\"role\": \"tool\", \"tool_call_id\": \"other\", \"content\": \"1\"}, {\"role\": \"tool\", \"content\": \"2\"}",
         TURN("user", "q") "<|im_start|>assistant\n" THOUGHT("") CALL("") "<|im_end|>\n"
         "<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response><|im_end|>\n" BEGIN},
        {U("q") ", {\"role\": \"assistant\", \"function_call\": {\"name\": \"f\", \"arguments\": \"{}\"}}, {\"role\": \"function\", \"name\": \"f\", "
         "\"content\": \"1\"}",
         TURN("user", "q") "<|im_start|>assistant\n" THOUGHT("") CALL("") "<|im_end|>\n"
         "<|im_start|>user\n<tool_response>\n1\n</tool_response><|im_end|>\n" BEGIN},
    };
    EXPECT_PROMPTS(rows);
}

/* The template writes no ids, so that the model takes the first result for that of the first call. */
static void test_question__results_come_in_the_order_of_their_calls(void **state)
{
    (void)state;
#define TWO      "{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"x\", \"function\": {\"name\": \"f\"}}, {\"id\": \"y\", \"function\": " \
                 "{\"name\": \"f\"}}]}"
#define R(id)    "{\"role\": \"tool\", \"tool_call_id\": \"" id "\", \"content\": \"" id "\"}"
#define IN_ORDER(first, second) TURN("user", "q") "<|im_start|>assistant\n" THOUGHT("") CALL("") "\n" CALL("") "<|im_end|>\n<|im_start|>user\n" \
        "<tool_response>\n" first "\n</tool_response>\n<tool_response>\n" second "\n</tool_response><|im_end|>\n" BEGIN
    static const struct prompt_row rows[] = {
        {U("q") ", " TWO ", " R("x") ", " R("y"), IN_ORDER("x", "y")}, {U("q") ", " TWO ", " R("y") ", " R("x"), IN_ORDER("x", "y")},
        {U("q") ", " TWO ", " R("y") ", " R("z"), IN_ORDER("y", "z")}, {U("q") ", " TWO ", " R("y") ", " R("y"), IN_ORDER("y", "y")},
    };
    EXPECT_PROMPTS(rows);
}

static void test_question__a_refusal_names_the_message_and_what_is_wrong_with_it(void **state)
{
    (void)state;
    static const char expected[] = "expected system, developer, user, assistant or tool)";
    static const struct prompt_row rows[] = {
        {U("q") ", {\"role\": \"critic\", \"content\": \"x\"}", "(message 2 (role \"critic\"): unknown role, %s"},
        {U("q") ", " U("q") ", {\"content\": \"x\"}", "(message 3: it has no role, %s"}, {"{\"role\": 5}", "(message 1: it has no role, %s"},
        {"5", "(message 1: it is not an object, expected {\"role\": ..., \"content\": ...})"},
        {"{\"role\": \"user\", \"content\": 5}", "(message 1 (role \"user\"): its content is neither a text nor a list of parts)"},
        {U("q") ", {\"role\": \"tool\", \"content\": [{\"type\": \"text\"}]}",
        "(message 2 (role \"tool\"): part 1 of its content has no text in \"text\")"},
        {"{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"tool_use\"}]}",
         "(message 1 (role \"user\"): part 2 of its content is of the type \"tool_use\", expected \"text\")"},
        {"{\"role\": \"user\", \"content\": [{}]}", "(message 1 (role \"user\"): part 1 of its content is of the type \"\", expected \"text\")"},
        {U("q") ", {\"role\": \"assistant\", \"tool_calls\": \"f\"}", "(message 2 (role \"assistant\"): tool_calls is not a list of calls)"},
        {U("q") ", {\"role\": \"assistant\", \"tool_calls\": [{\"function\": {}}]}",
         "(message 2 (role \"assistant\"): call 1 has no name, expected {\"function\": {\"name\": ..., \"arguments\": ...}})"},
        {S("s") ", " A("a"), "(messages has no question of the role \"user\", expected at least one)"},
        {U("<tool_response>x</tool_response>"), "(messages has no question of the role \"user\", expected at least one)"},
        {"", "(messages is missing or empty, expected a list of {\"role\": ..., \"content\": ...})"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf wanted = {0};
        const char *percent = strstr(rows[i].prompt, "%s");
        buf_add(&wanted, rows[i].prompt, percent ? (size_t)(percent - rows[i].prompt) : strlen(rows[i].prompt));
        buf_adds(&wanted, percent ? expected : "");
        assert_string_equal(prompt_of(rows[i].messages), wanted.data);
        buf_free(&wanted);
    }
}

/* A picture of 3 x 5 pixels. */
static const char tiny[] =
    "iVBORw0KGgoAAAANSUhEUgAAAAMAAAAFCAIAAAAPE8H1AAAAPUlEQVR4nAEyAM3/AfX7FLjcnS7+3gJ9x9P5CxD8/RMABh3tCwr+"
    "0NWmBGa8/Df4xPn7BgICARD2Bxn9BP6htRkhHsAHjgAAAABJRU5ErkJggg==";

static void test_question__pictures_are_read_in_the_forms_of_all_clients(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "{\"type\": \"image_url\", \"image_url\": {\"url\": \"data:image/png;base64,%s\", \"detail\": \"low\"}}",
        "{\"type\": \"input_image\", \"image_url\": \"data:image/jpeg;base64,%s\"}", "{\"image_url\": \"data:;base64,%s\"}",
        "{\"type\": \"image\", \"source\": {\"type\": \"base64\", \"media_type\": \"image/png\", \"data\": \"%s\"}}",
        "{\"type\": \"image\", \"image\": \"data:image/png;base64,%s\"}",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char part[600];
        snprintf(part, sizeof part, parts[i], tiny);
        assert_string_equal(prompt_of(arena_printf(&a, "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, %s, %s]}",
                                                   part, part)), TURN("user", "a" MEDIA_IMAGE MEDIA_IMAGE) BEGIN);
    }
    assert_string_equal(prompt_of(arena_printf(&a, "{\"role\": \"user\", \"content\": \"q\", \"images\": [\"%s\"]}", tiny)),
                        TURN("user", MEDIA_IMAGE "q") BEGIN);
    assert_non_null(strstr(prompt_of(arena_printf(&a, "{\"role\": \"system\", \"content\": [{\"image\": \"data:;base64,%s\"}]}", tiny)),
                           "a system message cannot have pictures"));
}

static void test_question__pictures_that_cannot_be_read_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"data:image/png;base64,iVBORw0KGgo=", "picture 1 of message 1", "like this: it is a damaged PNG file: it ends too early)"},
        {"data:image/png;base64,R0lGODlhAQABAA==", "picture 1 of message 1", "like this: it is a damaged GIF file: it ends too early)"},
        {"data:image/bmp;base64,Qk06AAAA", "picture 1 of message 1",
         "like this: it is a BMP file, which is not read as a picture; convert it to PNG or JPEG)"},
        {"data:image/png;base64,????", "message 1 (role \"user\")", "like this: its data is not base64)"},
        {"https://example.org/a.png", "message 1 (role \"user\")",
         "by address: it fetches nothing from the network; send data:image/png;base64,...)"},
        {"file:///etc/passwd", "message 1 (role \"user\")",
         "of this form, expected {\"type\": \"image_url\", \"image_url\": {\"url\": \"data:image/png;base64,...\"}})"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *parts = arena_printf(&a, "[{\"type\": \"image_url\", \"image_url\": {\"url\": \"%s\"}}]", rows[i][0]);
        assert_string_equal(prompt_of(arena_printf(&a, "{\"role\": \"user\", \"content\": %s}", parts)),
                            arena_printf(&a, "(%s: this server does not support image input %s", rows[i][1], rows[i][2]));
    }
}

static void test_question__pictures_are_refused_in_words_that_programs_know(void **state)
{
    (void)state;
    static const struct { const char *part, *what; } rows[] = {
        {"{\"type\": \"image_file\"}", "image"}, {"{\"type\": \"video_url\"}", "video"},
        {"{\"type\": \"input_audio\", \"input_audio\": {\"data\": \"x\"}}", "audio"}, {"{\"type\": \"file\", \"file\": {}}", "file"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int tool = 0; tool < 2; tool++) {
            const char *role = tool ? "tool" : "user", *said = prompt_of(arena_printf(&a, U("q") ", {\"role\": \"%s\", \"content\": [{\"type\": "
                "\"text\", \"text\": \"a\"}, %s]}", role, rows[i].part));
            assert_string_equal(said, arena_printf(&a, "(message 2 (role \"%s\"): this server does not support %s input (what it serves is "
                                                   "not a multimodal model); send text only)", role, rows[i].what));
        }
    assert_non_null(strstr(prompt_of("{\"role\": \"user\", \"content\": \"a\", \"images\": [\"x\"]}"), "does not support image input"));
    assert_string_equal(prompt_of("{\"role\": \"user\", \"content\": \"q\", \"images\": []}"), TURN("user", "q") BEGIN);
}

static void test_question__tools_are_functions(void **state)
{
    (void)state;
    static const struct { const char *tool, *why; } rows[] = {
        {"{\"type\": \"web_search\"}", "tools[1] is of the type \"web_search\", expected \"function\": the program that asks runs all tools"},
        {"{\"type\": \"custom\", \"custom\": {\"name\": \"g\"}}", "tools[1] is of the type \"custom\", expected"},
        {"{\"name\": \"g\", \"input_schema\": {}}", "tools[1] has no function with a name, expected {\"type\": \"function\""},
        {"{\"type\": \"function\", \"name\": \"g\", \"parameters\": {}}", "tools[1] has no function with a name"}, {"5", "tools[1] has no function"},
#define PARAMETERS(v) {"{\"type\": \"function\", \"function\": {\"name\": \"g\", \"parameters\": " v "}}", \
                       "tools[1] (g) has parameters that are not a JSON schema of an object"}
        PARAMETERS("false"), PARAMETERS("[]"), PARAMETERS("\"x\""), PARAMETERS("5"),
    };
    static const char f[] = "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": true, \"parameters\": {}}}";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_false(read_with(arena_printf(&a, "\"tools\": [%s, %s]", f, rows[i].tool)));
        assert_true(strstr(e.msg, rows[i].why) == e.msg);
    }
    static const char *const parameters[] = {"null", "{}", "true"};
    for (int i = 0; i < 3; i++)
        assert_true(read_with(arena_printf(&a, "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"g\", \"parameters\": %s}}]",
                                           parameters[i])));
    assert_true(read_with(arena_printf(&a, "\"tools\": [%s], \"parallel_tool_calls\": false", f)));
    assert_true(text_is(q.request.tools[0], f));
    assert_true(q.one_call);
    assert_true(read_with(arena_printf(&a, "\"tools\": [%s], \"tool_choice\": \"none\"", f)));
    assert_int_equal(q.request.n_tools, 0);
    assert_true(read_with(arena_printf(&a, "\"tools\": [%s], \"tool_choice\": \"required\"", f)));
    assert_true(q.request.form.kind == FORM_CALLS && !q.request.form.text.n && !q.request.form.one_call);
    assert_true(read_with(arena_printf(&a, "\"tools\": [%s], \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"f\"}}", f)));
    assert_true(q.request.form.kind == FORM_CALLS && text_is(q.request.form.text, "f") && q.request.form.one_call);
#define ALLOWED(mode) "\"tools\": [%s], \"tool_choice\": {\"type\": \"allowed_tools\", \"allowed_tools\": {\"mode\": \"" mode "\", \"tools\": " \
                      "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]}}"
    assert_true(read_with(arena_printf(&a, ALLOWED("auto"), f)));
    assert_true(q.request.form.kind == FORM_ANY && q.request.n_tools == 1 && q.request.n_allowed == 1 && text_is(q.request.allowed[0], "f"));
    assert_true(read_with(arena_printf(&a, ALLOWED("required"), f)));
    assert_true(q.request.form.kind == FORM_CALLS && !q.request.form.text.n && q.request.n_allowed == 1);
    assert_false(read_with(arena_printf(&a, ALLOWED("none"), f)));
    assert_false(read_with(arena_printf(&a, ALLOWED("auto"), "{\"type\": \"function\", \"function\": {\"name\": \"g\"}}")));
    assert_false(read_with("\"tool_choice\": \"required\""));
    assert_false(read_with(arena_printf(&a, "\"tools\": [%s], \"tool_choice\": \"sometimes\"", f)));
    assert_true(read_with(arena_printf(&a, "\"tools\": [%s], \"parallel_tool_calls\": false, \"response_format\": {\"type\": \"json_object\"}", f)));
    assert_true(q.request.form.kind == FORM_JSON && q.request.n_tools == 1 && q.request.form.one_call);
    assert_true(read_with(arena_printf(&a, "\"tools\": [%s], \"tool_choice\": \"required\", \"response_format\": {\"type\": \"json_object\"}", f)));
    assert_true(q.request.form.kind == FORM_CALLS);
    assert_true(read_with(arena_printf(&a, "\"tools\": [%s], \"tool_choice\": \"none\", \"response_format\": {\"type\": \"json_object\"}", f)));
}

/* Fields as OpenAI and vLLM write them. */
static void test_question__the_form_of_an_answer_comes_in_several_fields(void **state)
{
    (void)state;
    static const struct { const char *fields; enum form_kind kind; const char *text; } good[] = {
        {"\"response_format\": {\"type\": \"text\"}", FORM_ANY, ""}, {"\"response_format\": null", FORM_ANY, ""},
        {"\"response_format\": {\"type\": \"json_object\"}", FORM_JSON, ""},
        {"\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\", \"schema\": {\"type\": \"object\"}}}", FORM_SCHEMA,
         "{\"type\": \"object\"}"},
        {"\"guided_json\": {\"type\": \"null\"}", FORM_SCHEMA, "{\"type\": \"null\"}"},
        {"\"guided_json\": \"{}\"", FORM_SCHEMA, "{}"}, {"\"guided_json\": false", FORM_SCHEMA, "false"},
        {"\"structured_outputs\": {\"json\": {}}", FORM_SCHEMA, "{}"},
        {"\"guided_regex\": \"a+\"", FORM_PATTERN, "a+"}, {"\"structured_outputs\": {\"regex\": \"b\"}", FORM_PATTERN, "b"},
        {"\"guided_choice\": [\"a\", \"b\"]", FORM_CHOICES, ""}, {"\"structured_outputs\": {\"choice\": [\"a\", \"b\"]}", FORM_CHOICES, ""},
    };
    static const char *const bad[] = {
        "\"response_format\": \"json\"", "\"response_format\": {\"type\": \"xml\"}", "\"response_format\": {\"type\": \"json_schema\"}",
        "\"guided_regex\": 5", "\"guided_choice\": []", "\"guided_choice\": [1]", "\"structured_outputs\": []", "\"guided_grammar\": \"x\"",
        "\"guided_regex\": \"a\", \"guided_choice\": [\"a\"]", "\"guided_regex\": \"\"", "\"guided_choice\": [\"a\", \"\"]",
        "\"structured_outputs\": {\"regex\": \"\"}",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!read_with(good[i].fields))
            fail_msg("%s: %s", good[i].fields, e.msg);
        assert_int_equal(q.request.form.kind, good[i].kind);
        assert_true(text_is(q.request.form.text, good[i].text));
        assert_int_equal(q.request.form.n_choices, good[i].kind == FORM_CHOICES ? 2 : 0);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (read_with(bad[i]))
            fail_msg("%s is accepted", bad[i]);
    assert_true(read_with("\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"strict\": false, \"schema\": {}}}"));
    assert_true(q.request.form.loose);
}

static void test_question__without_parallel_calls_an_answer_ends_after_the_first_one(void **state)
{
    (void)state;
    for (int streams = 0; streams < 2; streams++) {
        struct response c;
        assert_true(read_with(arena_printf(&a, "\"parallel_tool_calls\": false, \"stream\": %s", streams ? "true" : "false")));
        q.format = &format_openai;
        response_begin(&c, &q, NULL, "demo");
        assert_true(response_news(&c, &(struct news){.kind = NEWS_CALL_BEGIN, .text = text_of("f"), .id = text_of("call_mine")}));
        assert_false(response_news(&c, &(struct news){.kind = NEWS_CALL, .text = text_of("{\"x\": 1}")}));
        assert_false(response_news(&c, &(struct news){.kind = NEWS_CALL_BEGIN, .text = text_of("another")}));
        assert_false(response_news(&c, &(struct news){.kind = NEWS_TEXT, .text = text_of("later")}));
        response_done(&c, &(struct news){.kind = NEWS_DONE, .end = END_INTERRUPTED});
        assert_non_null(strstr(c.out.data, "\\\"x\\\": 1}"));
        assert_non_null(strstr(c.out.data, "\"id\": \"call_mine\""));
        assert_non_null(strstr(c.out.data, "\"finish_reason\": \"tool_calls\""));
        assert_null(strstr(c.out.data, "another"));
        assert_null(strstr(c.out.data, "later"));
        response_free(&c);
    }
}

/* ---- requests that programs sent, with shorter texts ---- */

static const char *prompt_of_file(const char *name)
{
    if (!read_body(read_file(arena_printf(&a, "%s.json", name))))
        fail_msg("%s: %s", name, e.msg);
    return prompt();
}

/* Each next request of a conversation, with parts as texts and marks of other servers elsewhere, continues the prompt of the first one. */
static void test_question__requests_of_agents_make_these_prompts(void **state)
{
    (void)state;
    static const char *const programs[] = {"gptme", "codex", "claude-code", "opencode"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        const char *first = prompt_of_file(arena_printf(&a, "%s-1", programs[i])), *second = prompt_of_file(arena_printf(&a, "%s-2", programs[i]));
        assert_string_equal(second, read_file(arena_printf(&a, "%s-2.txt", programs[i])));
        assert_int_equal(strncmp(second, first, strlen(first)), 0);
    }
}

static void test_question__a_refusal_names_its_field(void **state)
{
    static const struct { const char *body, *param; } rows[] = {
        {"\"temperature\": \"hot\"", "temperature"}, {"\"n\": 2", "n"}, {"\"tools\": [{}]", "tools[0]"},
        {"\"tool_choice\": \"required\"", "tool_choice"},
        {"\"top_logprobs\": 2", "top_logprobs"}, {"\"seed\": 1.5", "seed"}, {"\"seed\": 1e30", "seed"},
    };
    char name[QUESTION_PARAM];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_false(read_with(rows[i].body));
        assert_string_equal(question_param(e.msg, NULL, name), rows[i].param);
    }
    assert_false(read_body("{\"messages\": [{\"role\": \"king\"}]}"));
    assert_string_equal(question_param(e.msg, NULL, name), "messages");
    assert_false(read_body("5"));
    assert_null(question_param(e.msg, NULL, name));
}

static void test_question__a_whole_number_may_be_written_as_a_real_one(void **state)
{
    (void)state;
    assert_true(read_with("\"seed\": 7.0, \"max_tokens\": 3.0, \"top_k\": 2e1"));
    assert_true(q.given.seed == 7 && q.given.max_tokens == 3 && q.given.top_k == 20);
}

/* ---- config/request_fields.def ---- */

enum { CHAT = 1, PLAIN = 2, BOTH = CHAT | PLAIN };
enum rule { IS_DONE, IS_IGNORED, IS_REFUSED };

static const struct field_row { enum rule rule; const char *names; int where; const char *value; } fields[] = {
#define DONE(names, where, words) {IS_DONE, names, where, ""},
#define IGNORED(names, where, words) {IS_IGNORED, names, where, ""},
#define REFUSED(names, where, value, words) {IS_REFUSED, names, where, value},
#include "config/request_fields.def"
};

/* Reads a request for `where` that is valid but for the field `name`, which has this value. */
static bool read_field(int where, const char *name, const char *value)
{
    const char *rest = !strcmp(name, "messages") || !strcmp(name, "prompt") ? "\"user\": \"me\"" : where == CHAT ? "\"messages\": [" ASKED "]"
                                                                                                               : "\"prompt\": \"p\"";
    const char *body = arena_printf(&a, "{%s, \"%s\": %s}", rest, name, value);
    e = (struct err){{0}};
    question_free(&q);
    return (where == CHAT ? question_read : question_read_plain)(&q, text_of(body), options, &e);
}

/* No field is of the kind [[{}]]. */
static void check_field(const struct field_row *row, int where, const char *name)
{
    const bool read = read_field(where, name, "[[{}]]");
    if (read != (row->rule == IS_IGNORED))
        fail_msg("%s is %s", name, read ? "read" : e.msg);
    if (!read && strncmp(e.msg, name, strlen(name)) && strncmp(e.msg, name, strlen(name) - 1))  /* "message 1" of "messages" */
        fail_msg("the refusal does not name %s: %s", name, e.msg);
    static const char *const harmless[] = {"false", "\"\"", "[]", "{}"}, *const others[] = {"\"yes\"", "7", "false", "{}"};
    const bool one = *row->value;       /* only one value is taken */
    for (int i = 0; row->rule == IS_REFUSED && i < 4; i++) {
        const char *value = (one ? others : harmless)[i];
        if (read_field(where, name, value) == one)
            fail_msg("%s with %s is %s", name, value, one ? "read" : e.msg);
    }
    if (row->rule == IS_REFUSED && (!read_field(where, name, one ? row->value : "null") || !read_field(where, name, "null")))
        fail_msg("%s with %s is refused: %s", name, row->value, e.msg);
}

static void test_question__every_field_of_the_table_is_treated_as_it_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        for (const char *p = fields[i].names; *p; p += strspn(p, " ")) {
            const char *name = arena_strndup(&a, p, strcspn(p, " "));
            p += strlen(name);
            for (int where = CHAT; where <= PLAIN; where++)
                if (fields[i].where & where)
                    check_field(&fields[i], where, name);
        }
}

static void test_question__flags_are_true_or_false(void **state)
{
    (void)state;
    static const char *const flags[] = {"stream", "return_progress", "continue_final_message", "add_generation_prompt", "parallel_tool_calls",
                                        "logprobs"},
                      *const wrong[] = {"\"yes\"", "\"true\"", "1", "0", "[]", "{}"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            assert_false(read_with(arena_printf(&a, "\"%s\": %s", flags[i], wrong[k])));
            assert_string_equal(e.msg, arena_printf(&a, "%s is neither true nor false", flags[i]));
        }
    assert_false(read_with("\"stream_options\": {\"include_usage\": \"yes\"}"));
    assert_false(read_with("\"add_generation_prompt\": false"));
    assert_true(read_body("{\"messages\": [" ASKED ", " A("a") "], \"continue_final_message\": true, \"add_generation_prompt\": false}"));
    assert_non_null(q.continued);
}

static void test_question__a_limit_of_nothing_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"max_tokens", "max_completion_tokens"};
    for (int i = 0; i < 2; i++) {
        assert_false(read_with(arena_printf(&a, "\"%s\": 0", names[i])));
        assert_string_equal(e.msg, arena_printf(&a, "%s is 0, expected 1 or more, or -1 for no limit", names[i]));
        assert_true(read_with(arena_printf(&a, "\"%s\": -1", names[i])));
        assert_true(read_with(arena_printf(&a, "\"%s\": 1", names[i])));
        assert_int_equal(q.given.max_tokens, 1);
    }
}

static void test_question__reasoning_is_switched_under_every_name(void **state)
{
    (void)state;
    static const struct { const char *field; bool thinks; int budget; } rows[] = {
        {"\"user\": \"me\"", true, 0}, {"\"reasoning_effort\": \"none\"", false, 0}, {"\"reasoning_effort\": \"minimal\"", true, 512},
        {"\"reasoning_effort\": \"low\"", true, 2048}, {"\"reasoning_effort\": \"medium\"", true, 8192}, {"\"reasoning_effort\": \"high\"", true, 0},
        {"\"reasoning_effort\": null", true, 0},
        {"\"reasoning\": {\"effort\": \"none\"}", false, 0}, {"\"reasoning\": {\"effort\": \"low\", \"summary\": \"auto\"}", true, 2048},
        {"\"reasoning\": {\"enabled\": false}", false, 0}, {"\"reasoning\": {\"max_tokens\": 100}", true, 100}, {"\"reasoning\": false", false, 0},
        {"\"thinking\": {\"type\": \"disabled\"}", false, 0}, {"\"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 4000}", true, 4000},
        {"\"thinking\": {\"type\": \"adaptive\"}", true, 0}, {"\"think\": false", false, 0}, {"\"think\": \"low\"", true, 2048},
        {"\"enable_thinking\": false", false, 0}, {"\"enable_thinking\": \"false\"", false, 0},
        {"\"chat_template_kwargs\": {\"enable_thinking\": \"false\"}", false, 0},
        {"\"chat_template_kwargs\": {\"enable_thinking\": \"true\"}", true, 0},
        {"\"chat_template_kwargs\": {\"thinking\": false, \"other\": 1}", false, 0},
        {"\"chat_template_kwargs\": {\"reasoning_effort\": \"low\"}", true, 2048},
        {"\"reasoning_effort\": \"low\", \"chat_template_kwargs\": {\"enable_thinking\": false}", false, 2048},
        {"\"reasoning_effort\": \"none\", \"enable_thinking\": true, \"thinking_budget\": 9", true, 9},
        {"\"reasoning_effort\": \"low\", \"thinking_token_budget\": 7", true, 7},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!read_with(rows[i].field) || q.request.thinking != rows[i].thinks || q.request.think_budget != rows[i].budget)
            fail_msg("%s: reasoning %d, budget %d %s", rows[i].field, q.request.thinking, q.request.think_budget, e.msg);
    }
    static const char *const wrong[] = {"\"think\": 1", "\"reasoning_effort\": \"much\"", "\"reasoning\": {\"effort\": 3}",
                                        "\"thinking\": {\"type\": []}",
                                        "\"thinking\": {\"budget_tokens\": -1}", "\"enable_thinking\": \"no\"", "\"chat_template_kwargs\": 3"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(read_with(wrong[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_question__system_messages_are_joined_at_the_beginning_and_reminders_later, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__a_reminder_takes_no_reasoning_away, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__texts_and_lists_of_parts_are_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__arguments_that_are_no_object_are_taken_as_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__results_and_calls_that_match_nothing_are_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__results_come_in_the_order_of_their_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__a_refusal_names_the_message_and_what_is_wrong_with_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__pictures_are_read_in_the_forms_of_all_clients, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__pictures_that_cannot_be_read_are_refused_by_name, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__pictures_are_refused_in_words_that_programs_know, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__tools_are_functions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__the_form_of_an_answer_comes_in_several_fields, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__without_parallel_calls_an_answer_ends_after_the_first_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__a_refusal_names_its_field, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__a_whole_number_may_be_written_as_a_real_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__requests_of_agents_make_these_prompts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__every_field_of_the_table_is_treated_as_it_says, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__flags_are_true_or_false, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__a_limit_of_nothing_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_question__reasoning_is_switched_under_every_name, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
