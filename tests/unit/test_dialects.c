/* Bodies of requests in the dialects of several makers: the same content has the same prompt, and each field is treated as its table says. */
#include "guide/form.h"
#include "tests/unit/asked.h"

static const char *prompt_as(const struct format *f, const char *body)
{
    return read_as(f, body) ? prompt() : arena_printf(&a, "(%s)", e.msg);
}

static void test_dialects__claude_codes_next_request_begins_with_the_former_prompt(void **state)
{
    (void)state;
    const char *first = prompt_as(&format_messages, read_file("messages-1.json")), *second = prompt_as(&format_messages,
        read_file("messages-2.json"));
    assert_string_equal(second, read_file("messages-2.txt"));
    assert_int_equal(strncmp(second, first, strlen(first)), 0);
    assert_true(q.streams && q.hides_reasoning && q.request.follows && q.request.thinking && q.given.max_tokens == 32000);
}

static void test_dialects__codexs_next_request_begins_with_the_former_prompt(void **state)
{
    (void)state;
    const char *first = prompt_as(&format_responses, read_file("responses-1.json")), *second = prompt_as(&format_responses,
        read_file("responses-2.json"));
    assert_string_equal(second, read_file("responses-2.txt"));
    assert_int_equal(strncmp(second, first, strlen(first)), 0);
    assert_true(q.streams && q.keeps_reasoning && q.request.follows && q.request.thinking && q.n_alternatives < 0);
}

#define U(content) "{\"role\": \"user\", \"content\": " content "}"
#define A(content) "{\"role\": \"assistant\", \"content\": " content "}"
#define S(content) "{\"role\": \"system\", \"content\": " content "}"
#define T(text) "{\"type\": \"text\", \"text\": \"" text "\"}"
#define USE(id) "{\"type\": \"tool_use\", \"id\": \"" id "\", \"name\": \"f\", \"input\": {\"x\": [1, {}]}}"
#define OUTCOME(id, content) "{\"type\": \"tool_result\", \"tool_use_id\": \"" id "\", \"content\": " content "}"
/* ---- one content in three dialects ---- */

/* The tokens of the prompt, as they go to the engine. */
static struct ids tokens(const struct tokenizer *t, int *keep)
{
    const struct segments s = rendered();
    struct ids ids = {0};
    if (!segments_encode(&s, t, &ids, keep, &e))
        fail_msg("%s", e.msg);
    return ids;
}

static const char *const talks[] = {
    "u=hello", "u= blanks around ", "u=", "u=ab\\n\\ncd", "u=caf\\u00e9 \\ud83d\\ude00", "s=be brief|u=q", "s=a|s=b|u=q", "s=|u=q", "s= a |s=b|u=q",
    "u=q|d=late", "s=a|u=q|d=late|d=later", "u=q|a=r|d=late|u=s", "u=q|a=r|u=s", "u=q|r=thought|a=answer|u=next", "u=q|a=r|u=s|a=t|u=v",
    "u=q|r=thought|c=1 g {}", "u=q|c=1 g {}|o=1 out", "u=q|r=thought|c=1 g {\"x\": [1, {}]}|o=1 out", "u=q|r=t|a=I look|c=1 g {\"x\": \"y\"}|o=1 out",
    "u=q|c=1 g {}|c=2 h {}|o=1 one|o=2 two", "u=q|c=1 g {}|c=2 h {}|o=2 two|o=1 one", "u=q|r=t|c=1 g {\"x\": 1.50}|o=1 |r=t2|c=2 g {}|o=2 out",
    "u=q|r=t|c=1 g {}|o=1 out|u=and hurry", "u=q|r=t|c=1 g {}|o=1 out|d=reminder", "u=q|r=t|c=1 g {}|o=1 out|p=",
    "u=q|c=1 g {}|o=1 out|u=and|a=r|u=next",
    "u=q|r=t|c=1 g {}|o=1 out|a=r|u=next", "u=q|r=t|c=1 g {}|o=1 out|u=hurry|r=t2|c=2 g {}|o=2 out", "p=", "u=what|a=that|p=|u=and this", "u=q|u=p",
    "u=<\\u007cim_end\\u007c> <tool_call> </think>|a=<think>|u=<\\u007cim_start\\u007c>user",
    "f=g|u=q", "f=g|f=h|s=a|u=q", "f=g|u=q|x=none", "f=g|u=q|x=auto",
    "f=g|u=q|x=required", "f=g|f=h|u=q|x=h", "f=g|u=q|y=", "f=g|f=h|u=q|c=1 g {}|o=1 out|x=required",
    "f=g|f=h|u=q|x=+h", "f=g|s=a|s=b|u=q|a=r|d=c|u=s|x=+g",
};

static void expect_same(const struct tokenizer *t, const char *talk, bool parts, bool thinks)
{
    struct request was = {0};
    struct ids first = {0};
    const char *function = "";
    int kept = 0, keep;
    for (int d = 0; d < N_ASKED; d++) {
        const struct asked talked = asked_of(talk, parts, thinks);
        if (d == ASKED_MESSAGES && strstr(talk, "x=+"))
            continue;                   /* the dialect has no such choice */
        if (!read_as(asked_formats[d], asked_body(&talked, d)))
            fail_msg("%s: %s\n%s", talk, e.msg, asked_body(&talked, d));
        const struct request *r = &q.request;
        struct ids ids = tokens(t, &keep);
        if (d && (ids.n != first.n || memcmp(ids.data, first.data, (size_t)ids.n * sizeof *ids.data)))
            fail_msg("%s has another prompt in dialect %d: %s", talk, d, prompt());
        if (d && (keep != kept || r->thinking != was.thinking || r->follows != was.follows || r->form.kind != was.form.kind ||
                  r->form.one_call != was.form.one_call || r->n_allowed != was.n_allowed || !text_is(r->form.text, function)))
            fail_msg("%s is read otherwise in dialect %d", talk, d);
        if (!d) {
            was = *r;
            function = arena_strndup(&a, r->form.text.p ? r->form.text.p : "", r->form.text.n);
            kept = keep;
            first = ids;
        } else {
            ids_free(&ids);
        }
    }
    ids_free(&first);
}

static void test_dialects__the_same_content_has_the_same_tokens(void **state)
{
    (void)state;
    struct tokenizer *t = tokenizer_open("assets/demo", &e);
    assert_non_null(t);
    assert_true(sizeof talks / sizeof *talks >= 40);
    for (size_t i = 0; i < sizeof talks / sizeof *talks; i++)
        for (int style = 0; style < 4; style++)
            expect_same(t, talks[i], style & 1, style & 2);
    tokenizer_close(t);
}

/* A conversation that was begun in one dialect goes on in another: the prompt of its next request begins with what is kept of the former. */
static void test_dialects__a_conversation_continues_in_another_dialect(void **state)
{
    (void)state;
    static const char *const next[] = {"|a=so|u=next", "|r=hm|a=so|d=late|u=next", "|r=hm|c=9 g {}|o=9 out|a=so|u=next|u=more"};
    struct tokenizer *t = tokenizer_open("assets/demo", &e);
    for (size_t i = 0; i < sizeof talks / sizeof *talks; i++)
        for (int k = 0; k < 3 * N_ASKED * 2; k++) {
            const enum asked_dialect before = i % N_ASKED, after = k / 2 % N_ASKED;
            const struct asked one = asked_of(talks[i], k & 1, true), two = asked_of(arena_printf(&a, "%s%s", talks[i], next[k / 6]), !(k & 1), true);
            int keep;
            if (strstr(talks[i], "x=+") || one.all[one.n - 1].kind == 'c')      /* a choice of one dialect; calls without results */
                continue;
            assert_true(read_as(asked_formats[before], asked_body(&one, before)));
            struct ids first = tokens(t, &keep);
            if (!read_as(asked_formats[after], asked_body(&two, after)))
                fail_msg("%s: %s", talks[i], e.msg);
            struct ids second = tokens(t, NULL);
            if (second.n < keep || memcmp(first.data, second.data, (size_t)keep * sizeof *first.data))
                fail_msg("%s%s does not begin with what was kept", talks[i], next[k / 6]);
            ids_free(&first);
            ids_free(&second);
        }
    tokenizer_close(t);
}

/* Words behind results are no new question: the reasoning that led to the calls stays. */
static void test_dialects__a_turn_continues_after_its_results(void **state)
{
    (void)state;
    const char *turn = U("\"q\"") ", " A("[{\"type\": \"thinking\", \"thinking\": \"my thought\", \"signature\": \"\"}, " USE("1") "]") ", "
                       U("[" OUTCOME("1", "\"out\"") ", " T("and hurry") "]");
    const char *now = prompt_as(&format_messages, arena_printf(&a, "{\"max_tokens\": 9, \"messages\": [%s]}", turn));
    assert_non_null(strstr(now, "my thought"));
    assert_non_null(strstr(now, "</tool_response><|im_end|>\n<|im_start|>user\nand hurry<|im_end|>\n"));
    const char *later = prompt_as(&format_messages, arena_printf(&a, "{\"max_tokens\": 9, \"messages\": [%s, " A("\"r\"") ", " U("\"next\"") "]}",
        turn));
    assert_null(strstr(later, "my thought"));
    /* ... and in a history that begins with a result they are the question */
    assert_true(*prompt_as(&format_messages, "{\"max_tokens\": 9, \"messages\": [" U("[" OUTCOME("1", "\"out\"") ", " T("go") "]") "]}") != '(');
}

static void test_dialects__messages_are_refused_by_their_number(void **state)
{
    (void)state;
    static const struct { const char *fields, *words; } cases[] = {
        {"\"messages\": [" U("\"q\"") "]", "max_tokens is missing"},
        {"\"max_tokens\": 9", "messages is missing"},
        {"\"max_tokens\": 9, \"messages\": []", "messages is missing"},
        {"\"max_tokens\": 9, \"messages\": [5]", "message 1: expected {"},
        {"\"max_tokens\": 9, \"messages\": [" U("\"q\"") ", {\"role\": \"tool\", \"content\": \"\"}]", "message 2: its role is \"tool\""},
        {"\"max_tokens\": 9, \"system\": [" T("s") ", " T("t") "], \"messages\": [" U("\"q\"") ", " A("[" USE("1") "]") ", "
         U("[" OUTCOME("1", "\"\"") ", {\"type\": \"hologram\"}]") "]",
             "message 3: block 2 is of the type \"hologram\""},
        {"\"max_tokens\": 9, \"messages\": [" U("\"q\"") "], \"thinking\": {\"type\": \"maybe\"}", "thinking.type is not true"},
        {"\"max_tokens\": 9, \"messages\": [" U("\"q\"") "], \"output_config\": {\"format\": {\"type\": \"xml\"}}", "output_config.format.type is"},
        {"\"max_tokens\": 9, \"messages\": [" U("\"q\"") "], \"thinking\": {\"type\": \"adaptive\"}, \"output_config\": {\"effort\": \"much\"}",
         "output_config.effort is not true"},
        {"\"max_tokens\": 9, \"messages\": [" U("\"q\"") "], \"tools\": [{\"type\": \"bash_1\"}, {\"input_schema\": {}}]", "tools[1] has no name"},
        {"\"max_tokens\": 9, \"messages\": [" U("\"q\"") ", " A("[" T("a") ", {\"type\": \"tool_use\"}]") "]",
         "message 2: block 2 is a call without"},
        {"\"max_tokens\": 9, \"messages\": [" U("\"q\"") ", " A("[" USE("1") "]") ", " U("[" T("a") ", " OUTCOME("1",
         "[{\"type\": \"image\", \"source\": {\"url\": \"x\"}}]") "]") "]", "message 3: block 2: block 1: this server does not support image"},
#define PICTURE(source) "\"max_tokens\": 9, \"messages\": [" U("[" T("a") ", {\"type\": \"image\", \"source\": " source "}]") "]"
#define NO_PICTURE "message 1: block 2: this server does not support image input of this source"
        {PICTURE("{\"type\": \"file\", \"file_id\": \"f\"}"), NO_PICTURE ": it keeps no files; expected {\"type\": \"base64\", \"media_type\""},
        {PICTURE("{\"type\": \"url\", \"url\": \"http://x/y\"}"), NO_PICTURE ": it fetches nothing from the network; expected {\"type\": \"base64\""},
        {PICTURE("{\"type\": \"base64\", \"data\": \"eA==\"}"), NO_PICTURE "; expected {\"type\": \"base64\", \"media_type\""},
        {"\"max_tokens\": 9, \"system\": 5, \"messages\": [" U("\"q\"") "]", "system is neither"},
        {"\"max_tokens\": 9, \"messages\": [" U("\"q\"") "], \"tool_choice\": {\"type\": \"maybe\"}", "tool_choice is of an unknown type"},
        {"\"max_tokens\": 9, \"messages\": [" U("\"q\"") "], \"stop_sequences\": [\"\"]", "stop_sequences is not a text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_false(read_as(&format_messages, arena_printf(&a, "{%s}", cases[i].fields)));
        if (strncmp(e.msg, cases[i].words, strlen(cases[i].words)))
            fail_msg("%s: %s", cases[i].fields, e.msg);
    }
}

/* Each dialect has its own names in what it refuses, never those of a chat completion. */
static void test_dialects__responses_are_refused_in_their_own_names(void **state)
{
    (void)state;
#define IN(items) "\"input\": [{\"role\": \"user\", \"content\": \"q\"}, " items "]"
#define Q "\"input\": \"q\""
    static const struct { const char *fields, *words, *param; } cases[] = {
        {Q ", \"max_output_tokens\": 0", "max_output_tokens is 0, expected 1 or more", "max_output_tokens"},
        {Q ", \"max_output_tokens\": \"x\"", "max_output_tokens is not a number", "max_output_tokens"},
        {Q ", \"reasoning\": {\"effort\": \"much\"}", "reasoning.effort is not true", "reasoning.effort"},
        {Q ", \"text\": {\"format\": {\"type\": \"xml\"}}", "text.format.type is not", "text.format.type"},
        {Q ", \"text\": {\"format\": 5}", "text.format is not an object", "text.format"},
        {Q ", \"top_logprobs\": 99", "top_logprobs is not a number from 0", "top_logprobs"},
        {Q ", \"tools\": [{\"type\": \"web_search\"}, {\"type\": \"function\"}]", "tools[1] has no name", "tools[1]"},
        {Q ", \"tool_choice\": {\"type\": \"allowed_tools\", \"mode\": \"auto\", \"tools\": []}", "tool_choice.allowed_tools is not {", NULL},
        {Q ", \"tool_choice\": {\"type\": \"allowed_tools\", \"mode\": \"auto\", \"tools\": [{\"type\": \"function\", \"name\": \"g\"}]}",
         "tool_choice.allowed_tools has a tool that is not among tools: g", "tool_choice.allowed_tools"},
        {"\"x\": 0", "input is missing", "input"}, {"\"input\": []", "input is missing", "input"},
        {"\"instructions\": 5, " Q, "instructions: its content is neither", "instructions"},
        {"\"input\": [{\"role\": \"developer\", \"content\": \"s\"}]", "input has no question", "input"},
        {IN("{\"type\": \"hologram\"}"), "input[1] is of the type \"hologram\"", "input[1]"},
        {IN("{\"type\": \"item_reference\", \"id\": \"x\"}"), "input[1] is of the type \"item_reference\"", "input[1]"},
        {IN("{\"role\": \"king\", \"content\": \"x\"}"), "input[1] has no role that is known", "input[1]"},
        {IN("{\"type\": \"reasoning\", \"content\": [{\"text\": \"t\"}]}, {\"type\": \"function_call\"}"), "input[2] is a call without a name", NULL},
        {IN("{\"type\": \"reasoning\", \"content\": [{\"text\": \"t\"}]}, {\"role\": \"assistant\", \"content\": [{\"type\": \"x\"}]}"),
         "input[2]: part 1 of its content is of the type \"x\"", "input[2]"},
        {IN("{\"type\": \"web_search_call\"}, {\"type\": \"function_call_output\", \"output\": [{\"type\": \"input_file\"}]}"),
         "input[2]: this server does not support file input", "input[2]"},
#define NO_SOURCE "input[1]: this server does not support image input of this source"
        {IN("{\"role\": \"user\", \"content\": [{\"type\": \"input_image\", \"file_id\": \"f\"}]}"),
         NO_SOURCE ": it keeps no files; expected {\"type\": \"input_image\", \"image_url\": \"data:", "input[1]"},
        {IN("{\"role\": \"user\", \"content\": [{\"type\": \"input_image\", \"image_url\": \"https://x/y.png\"}]}"),
         NO_SOURCE ": it fetches nothing from the network; expected {\"type\": \"input_image\"", "input[1]"},
        {IN("{\"type\": \"function_call_output\", \"output\": [{\"type\": \"input_image\"}]}"), NO_SOURCE "; expected {", "input[1]"},
    };
    char name[QUESTION_PARAM];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_false(read_as(&format_responses, arena_printf(&a, "{%s}", cases[i].fields)));
        if (strncmp(e.msg, cases[i].words, strlen(cases[i].words)))
            fail_msg("%s: %s", cases[i].fields, e.msg);
        const char *param = question_param(e.msg, NULL, name);
        if (cases[i].param && (!param || strcmp(param, cases[i].param)))
            fail_msg("%s is about %s", e.msg, param ? param : "no field");
    }
}

/* Items of tools that the maker's servers ran are left out; those of tools that a client ran are calls. */
static void test_dialects__items_of_other_tools_are_calls_or_left_out(void **state)
{
    (void)state;
    static const char call[] = "<function=%s>\n";
    static const struct { const char *item, *name; } cases[] = {
        {"{\"type\": \"local_shell_call\", \"call_id\": \"1\", \"action\": {\"type\": \"exec\", \"command\": [\"ls\"]}}", "local_shell"},
        {"{\"type\": \"shell_call\", \"call_id\": \"1\", \"action\": {\"commands\": [\"ls\"]}}", "shell"},
        {"{\"type\": \"apply_patch_call\", \"call_id\": \"1\", \"operation\": {\"type\": \"delete_file\", \"path\": \"a\"}}", "apply_patch"},
        {"{\"type\": \"custom_tool_call\", \"call_id\": \"1\", \"name\": \"note\", \"input\": \"free text\"}", "note"},
        {"{\"type\": \"web_search_call\"}", NULL}, {"{\"type\": \"mcp_call\", \"name\": \"note\"}", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = prompt_as(&format_responses, arena_printf(&a, "{" IN("%s, {\"type\": \"custom_tool_call_output\", \"call_id\": \"1\", "
                                                                                "\"output\": \"done\"}") "}", cases[i].item));
        assert_non_null(strstr(text, "<tool_response>\ndone\n</tool_response>"));
        assert_true(!strstr(text, "<tool_call>") == !cases[i].name);
        assert_true(!cases[i].name || strstr(text, arena_printf(&a, call, cases[i].name)));
    }
    assert_non_null(strstr(prompt_as(&format_responses, arena_printf(&a, "{" IN("%s") "}", cases[3].item)),
                           "<parameter=input>\nfree text\n</parameter>"));
}

/* Texts in blocks of other types are read; what tools of other servers did is left out. */
static void test_dialects__blocks_with_texts_are_read(void **state)
{
    (void)state;
    static const struct { const char *block, *text; } cases[] = {
        {"{\"type\": \"document\", \"source\": {\"type\": \"text\", \"media_type\": \"text/plain\", \"data\": \"words\"}}", "words"},
        {"{\"type\": \"document\", \"source\": {\"type\": \"content\", \"content\": [" T("wo") ", " T("rds") "]}}", "words"},
        {"{\"type\": \"search_result\", \"title\": \"t\", \"source\": \"s\", \"content\": [" T("words") "]}", "words"},
        {"{\"type\": \"tool_reference\", \"tool_name\": \"words\"}", "words"}, {"{\"type\": \"web_search_tool_result\", \"content\": []}", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(prompt_as(&format_messages, arena_printf(&a, "{\"max_tokens\": 9, \"messages\": [" U("[" T("a") ", %s, " T("b") "]") "]}",
                            cases[i].block)), prompt_as(&format_openai, arena_printf(&a, "{\"messages\": [" U("\"a%sb\"") "], \"thinking\": false}",
                            cases[i].text)));
    assert_string_equal(prompt_as(&format_messages, "{\"max_tokens\": 9, \"messages\": [" U("[]") "]}"),
                        prompt_as(&format_openai, "{\"messages\": [" U("\"\"") "], \"thinking\": false}"));
    assert_non_null(strstr(prompt_as(&format_messages, "{\"max_tokens\": 9, \"messages\": [" U("[{\"type\": \"document\", \"source\": {\"type\": "
                                     "\"base64\"}}]") "]}"), "(message 1: this server does not support file input"));
}

static void test_dialects__thinking_and_effort(void **state)
{
    (void)state;
    static const struct { const char *fields; bool thinks; int budget; } cases[] = {
        {"\"x\": 0", false, 0},
        {"\"thinking\": {\"type\": \"disabled\"}, \"output_config\": {\"effort\": \"high\"}", false, 0},
        {"\"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 1024}", true, 1024},
        {"\"thinking\": {\"type\": \"adaptive\"}", true, 0},
        {"\"thinking\": {\"type\": \"adaptive\"}, \"output_config\": {\"effort\": \"low\"}", true, 2048},
        {"\"output_config\": {\"effort\": \"high\"}", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(read_as(&format_messages, arena_printf(&a, "{\"max_tokens\": 9, \"messages\": [" U("\"q\"") "], %s}", cases[i].fields)));
        assert_int_equal(q.request.thinking, cases[i].thinks);
        if (cases[i].thinks)
            assert_int_equal(q.request.think_budget, cases[i].budget);
    }
}

static const struct row { const char *names; bool ignored, refused; } messages_rows[] = {
#define DONE(names, words) {names, false, false},
#define IGNORED(names, words) {names, true, false},
#define REFUSED(names, value, words) {names, false, true},
#include "config/messages_fields.def"
}, responses_rows[] = {
#define DONE(names, words) {names, false, false},
#define IGNORED(names, words) {names, true, false},
#define REFUSED(names, value, words) {names, false, true},
#include "config/responses_fields.def"
};

/* No field is of the kind [[{}]]: those that are read or refused do not take it, others do. */
static void expect_rows(const struct format *f, const struct row *rows, size_t n, const char *talk, const char *asked)
{
    for (size_t i = 0; i < n; i++)
        for (const char *p = rows[i].names; *p; p += strspn(p, " ")) {
            const char *name = arena_strndup(&a, p, strcspn(p, " "));
            p += strlen(name);
            const bool takes = rows[i].ignored;
            const char *given = !strcmp(name, "max_tokens") ? "\"x\": 0" : "\"max_tokens\": 9";
            const bool read = read_as(f, arena_printf(&a, "{%s, %s, \"%s\": [[{}]]}", given, !strcmp(name, talk) ? "\"x\": 0" : asked, name));
            if (read != takes)
                fail_msg("%s is %s", name, read ? "read" : e.msg);
            if (!read && strncmp(e.msg, name, strlen(name)) && strncmp(e.msg, name, strlen(name) - 1))       /* "message 1" of "messages" */
                fail_msg("%s: %s", name, e.msg);
        }
}

static void test_dialects__every_field_of_the_tables_is_treated_as_it_says(void **state)
{
    (void)state;
    expect_rows(&format_messages, messages_rows, sizeof messages_rows / sizeof *messages_rows, "messages", "\"messages\": [" U("\"q\"") "]");
    expect_rows(&format_responses, responses_rows, sizeof responses_rows / sizeof *responses_rows, "input", "\"input\": \"q\"");
}

/* ---- the types of values ---- */

enum { CHAT = 1, PLAIN = 2, BOTH = CHAT | PLAIN };

static const struct dialect {
    const struct format *format;
    int where;
    const char *rest;                   /* a request, open at the end, without that field: the last one counts */
    struct { const char *names; int where; } done[32];
    struct field_type types[32];
} typed[] = {
    {&format_openai, CHAT, "\"messages\": [" U("\"q\"") "]", {
#define DONE(names, where, words) {names, where},
#include "config/request_fields.def"
    }, {
#define TYPE(...) {__VA_ARGS__},
#include "config/request_fields.def"
    }}, {&format_plain, PLAIN, "\"prompt\": \"q\"", {
#define DONE(names, where, words) {names, where},
#include "config/request_fields.def"
    }, {
#define TYPE(...) {__VA_ARGS__},
#include "config/request_fields.def"
    }}, {&format_messages, 1, "\"max_tokens\": 9, \"messages\": [" U("\"q\"") "]", {
#define DONE(names, words) {names, 1},
#include "config/messages_fields.def"
    }, {
#define TYPE(names, types) {names, 1, types},
#include "config/messages_fields.def"
    }}, {&format_responses, 1, "\"input\": \"q\"", {
#define DONE(names, words) {names, 1},
#include "config/responses_fields.def"
    }, {
#define TYPE(names, types) {names, 1, types},
#include "config/responses_fields.def"
    }}, {&format_ollama, CHAT, "\"messages\": [" U("\"q\"") "]", {
#define DONE(names, where, words) {names, where},
#include "config/ollama_fields.def"
    }, {
#define TYPE(...) {__VA_ARGS__},
#include "config/ollama_fields.def"
    }}, {&format_generate, PLAIN, "\"prompt\": \"q\"", {
#define DONE(names, where, words) {names, where},
#include "config/ollama_fields.def"
    }, {
#define TYPE(...) {__VA_ARGS__},
#include "config/ollama_fields.def"
    }},
};

/* Returns the request with one more field, whose name may have a dot into an object. */
static const char *with_field(const struct dialect *d, const char *name, const char *value)
{
    const char *dot = strchr(name, '.');
    return dot ? arena_printf(&a, "{%s, \"%.*s\": {\"%s\": %s}}", d->rest, (int)(dot - name), name, dot + 1, value)
               : arena_printf(&a, "{%s, \"%s\": %s}", d->rest, name, value);
}

static void expect_types(const struct dialect *d, const char *name, const char *types)
{
    static const struct { const char *value, *types; } values[] = {
        {"5", "number"}, {"\"x\"", "text"}, {"{}", "object"}, {"true", "bool"}, {"[5]", "list"}, {"[\"x\"]", "list texts"}, {"[{}]", "list objects"},
        {"[[]]", "list"},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        bool may_be = false;
        for (const char *p = values[i].types; *p; p += strspn(p, " ")) {
            const struct text type = {p, strcspn(p, " ")};
            may_be |= text_listed(types, type);
            p += type.n;
        }
        if (may_be)
            continue;
        if (read_as(d->format, with_field(d, name, values[i].value)))
            fail_msg("%s takes %s", name, values[i].value);
        char param[QUESTION_PARAM];
        const char *top = question_param(e.msg, NULL, param);
        if (!top || strncmp(top, name, strcspn(name, ".")))
            fail_msg("%s: %s is refused without the name: %s", name, values[i].value, e.msg);
    }
}

/* A name of the rows for this place. */
static const char *types_of(const struct dialect *d, const char *name)
{
    const char *found = NULL;
    for (size_t i = 0; d->types[i].names; i++)
        if (d->types[i].where & d->where && text_listed(d->types[i].names, text_of(name))) {
            assert_null(found);
            found = d->types[i].types;
        }
    return found;
}

static void test_dialects__a_value_of_another_type_is_refused_by_the_fields_name(void **state)
{
    (void)state;
    for (size_t d = 0; d < sizeof typed / sizeof *typed; d++) {
        for (size_t i = 0; typed[d].done[i].names; i++)
            for (const char *p = typed[d].done[i].names; typed[d].done[i].where & typed[d].where && *p; p += strspn(p, " ")) {
                const char *name = arena_strndup(&a, p, strcspn(p, " "));
                p += strlen(name);
                if (!types_of(&typed[d], name))
                    fail_msg("%s has no row TYPE", name);
            }
        for (size_t i = 0; typed[d].types[i].names; i++)
            for (const char *p = typed[d].types[i].names; typed[d].types[i].where & typed[d].where && *p; p += strspn(p, " ")) {
                const char *name = arena_strndup(&a, p, strcspn(p, " "));
                p += strlen(name);
                expect_types(&typed[d], name, typed[d].types[i].types);
            }
    }
}

/* ---- ollama's ---- */

static void test_dialects__ollamas_fields_are_treated_as_the_table_says(void **state)
{
    static const struct { const char *names; int where; bool ignored; const char *value; } rows[] = {
#define DONE(names, where, words) {names, where, false, NULL},
#define IGNORED(names, where, words) {names, where, true, NULL},
#define REFUSED(names, where, value, words) {names, where, false, value},
#include "config/ollama_fields.def"
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (const char *p = rows[i].names; *p; p += strspn(p, " ")) {
            const char *name = arena_strndup(&a, p, strcspn(p, " "));
            p += strlen(name);
            for (int k = 4; k < 6; k++) {
                const struct dialect *d = &typed[k];
                if (!(rows[i].where & d->where))
                    continue;
                const bool read = read_as(d->format, with_field(d, name, "[[{}]]"));
                if (read != rows[i].ignored || (!read && strncmp(e.msg, name, strlen(name))))
                    fail_msg("%s is %s", name, read ? "read" : e.msg);
                if (rows[i].value && !read_as(d->format, with_field(d, name, *rows[i].value ? rows[i].value : "[]")))
                    fail_msg("%s", e.msg);
            }
        }
    assert_true(read_as(&format_ollama, "{\"messages\": [" U("\"q\"") "], \"options\": {\"unheard_of\": [[{}]]}, \"unheard_of\": 5}"));
}

/* Both routes make the same prompt of the same question. */
static void test_dialects__ollamas_generate_is_a_question_or_a_prompt_as_it_is(void **state)
{
    (void)state;
    assert_true(read_as(&format_generate, "{\"model\": \"m:latest\", \"prompt\": \"q\", \"system\": \"s\", \"options\": {\"num_predict\": 7}}"));
    assert_true(text_is(q.model, "m") && q.streams && q.given.max_tokens == 7);
    const char *asked = prompt();
    assert_true(read_as(&format_ollama, "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, " U("\"q\"") "]}"));
    assert_string_equal(prompt(), asked);
    assert_true(read_as(&format_generate, "{\"prompt\": \"see\", \"images\": [\"" ASKED_PICTURE "\"]}"));
    assert_int_equal(q.request.messages[0].n_media, 1);
    assert_true(read_as(&format_generate, "{\"prompt\": \"<|im_start|>\", \"raw\": true, \"options\": {\"num_predict\": -2, \"temperature\": 0}}"));
    assert_true(q.plain && text_is(q.prompt, "<|im_start|>") && q.given.max_tokens == -1 && q.given.temperature == 0);
    assert_false(read_as(&format_generate, "{\"prompt\": \"x\", \"raw\": true, \"system\": \"s\"}"));
    assert_string_equal(e.msg, "system cannot be given beside raw, which sends the prompt as it is");
    static const char *const nothing[] = {"{}", "{\"prompt\": \"\", \"model\": \"m\"}", "{\"messages\": []}"};
    for (int i = 0; i < 3; i++) {
        assert_true(read_as(i == 2 ? &format_ollama : &format_generate, nothing[i]));
        assert_true(q.asks_nothing);
    }
}

static void test_dialects__ollamas_streams_have_calls_whole(void **state)
{
    struct response r;
    (void)state;
    assert_true(read_as(&format_ollama, "{\"messages\": [" U("\"q\"") "], \"tools\": [{\"function\": {\"name\": \"f\"}}]}"));
    response_begin(&r, &q, NULL, "demo");
    assert_true(response_news(&r, &(struct news){.kind = NEWS_CALL_BEGIN, .text = text_of("f"), .id = text_of("call_1")}));
    assert_true(response_news(&r, &(struct news){.kind = NEWS_CALL_PIECE, .text = text_of("{\"x\": ")}));
    assert_true(response_news(&r, &(struct news){.kind = NEWS_CALL, .text = text_of("{\"x\": 1}")}));
    response_done(&r, &(struct news){.kind = NEWS_DONE, .end = END_STOP});
    assert_non_null(strstr(r.out.data, "\"tool_calls\": [{\"id\": \"call_1\", \"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1}}}]}, "
                                       "\"done\": false}\n{"));
    response_free(&r);
}

/* ---- names in the tags of calls ---- */

static void test_dialects__names_that_do_not_come_back_from_a_call_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "a>b", "a<b", "a\\nb", "a\\rb", "</tool_call>", " a", "a ", "\\\"a\\\"", "'a", "a\\u0000b", "a\\u007f"},
        *const good[] = {"a", "a.b", "mcp__x__y", "a/b:c", "a b", "\u00e4", "it's"};
    static const struct { const struct format *format; const char *tools; } forms[] = {
        {&format_openai, "\"messages\": [" U("\"q\"") "], \"tools\": ["
         "{\"type\": \"function\", \"function\": {\"name\": \"%s\", \"parameters\": %s}}]"},
        {&format_messages, "\"max_tokens\": 9, \"messages\": [" U("\"q\"") "], \"tools\": [{\"name\": \"%s\", \"input_schema\": %s}]"},
        {&format_responses, "\"input\": \"q\", \"tools\": [{\"type\": \"function\", \"name\": \"%s\", \"parameters\": %s}]"},
        {&format_responses, "\"input\": \"q\", \"tools\": [{\"type\": \"custom\", \"name\": \"%s\", \"x\": %s}]"},
    };
    static const char place[] = "tools[0]";
    for (size_t f = 0; f < 4; f++) {
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            if (read_as(forms[f].format, arena_printf(&a, arena_printf(&a, "{%s}", forms[f].tools), bad[i], "{}")))
                fail_msg("%s is taken", bad[i]);
            assert_true(strstr(e.msg, place) == e.msg && strstr(e.msg, "a name has no <, >"));
            const char *parameters = arena_printf(&a, "{\"properties\": {\"%s\": {}}}", bad[i]);
            if (f < 3 && read_as(forms[f].format, arena_printf(&a, arena_printf(&a, "{%s}", forms[f].tools), "f", parameters)))
                fail_msg("the parameter %s is taken", bad[i]);
            assert_true(f == 3 || strstr(e.msg, arena_printf(&a, "%s (f) has a parameter", place)) == e.msg);
        }
        for (size_t i = 0; i < sizeof good / sizeof *good; i++)
            if (!read_as(forms[f].format, arena_printf(&a, arena_printf(&a, "{%s}", forms[f].tools), good[i],
                                                       arena_printf(&a, "{\"properties\": {\"%s\": {}}}", good[i]))))
                fail_msg("%s", e.msg);
    }
}

/* Compiles the form of the request, and the calls of its tools, as a responder does. */
static bool compile(void)
{
    const struct request *r = &q.request;
    struct buf tools = {0};
    for (int i = 0; i < r->n_tools; i++)
        buf_addf(&tools, "%s%.*s", i ? ", " : "[", (int)r->tools[i].n, r->tools[i].p);
    buf_addc(&tools, ']');
    const struct grammar_calls calls = {.tools = {tools.data, tools.len}, .fields = r->tool_fields, .strict = true};
    struct grammar *g = r->form.kind == FORM_ANY ? grammar_of_calls(&calls, &e) : form_grammar(&r->form, &e);
    const bool ok = g;
    grammar_release(g);
    buf_free(&tools);
    return ok;
}

#define BAD "{\"properties\": {\"a\": {\"not\": {\"contains\": {}, \"maxContains\": 2, \"minContains\": 2}}}}"
#define BAD_TOOL "{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#/$defs/none\"}}}"
#define TOOL(name, field, schema) "{\"type\": \"function\", \"name\": \"" name "\", \"" field "\": " schema "}"
#define FUNCTION(name, schema) "{\"type\": \"function\", \"function\": {\"name\": \"" name "\", \"parameters\": " schema "}}"
#define ASKS "\"messages\": [" U("\"q\"") "], "

/* Whether a form is refused while its request is read or when it is compiled, the sentence begins with the client's name of it. */
static void test_dialects__a_form_that_is_refused_has_the_clients_name(void **state)
{
    (void)state;
    static const struct { const struct format *format; const char *body, *field; } rows[] = {
        {&format_openai, ASKS "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\", \"schema\": " BAD "}}",
         "response_format.json_schema.schema"},
        {&format_openai, ASKS "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"x\"}}",
         "response_format.json_schema.schema"},
        {&format_openai, ASKS "\"response_format\": {\"type\": \"json_schema\"}", "response_format.json_schema.schema"},
        {&format_openai, ASKS "\"response_format\": {\"type\": \"json_object\", \"schema\": " BAD "}", "response_format.schema"},
        {&format_openai, ASKS "\"guided_json\": " BAD, "guided_json"}, {&format_openai, ASKS "\"guided_regex\": \"(\"", "guided_regex"},
        {&format_openai, ASKS "\"guided_choice\": [\"\"]", "guided_choice"},
        {&format_openai, ASKS "\"structured_outputs\": {\"json\": " BAD "}", "structured_outputs.json"},
        {&format_openai, ASKS "\"structured_outputs\": {\"regex\": \"a\\\\b\"}", "structured_outputs.regex"},
        {&format_openai, ASKS "\"structured_outputs\": {\"choice\": [\"\"]}", "structured_outputs.choice"},
        {&format_openai, ASKS "\"tools\": [" FUNCTION("f", "{}") ", " FUNCTION("g", BAD_TOOL) "]", "tools[1].function.parameters"},
        {&format_openai, ASKS "\"tools\": [" FUNCTION("f", "{\"type\": \"objec\"}") "]", "tools[0].function.parameters"},
        {&format_openai, ASKS "\"tools\": [" FUNCTION("f", "{}") "], \"tool_choice\": {\"function\": {\"name\": \"g\"}}", "tool_choice"},
        {&format_plain, "\"prompt\": \"q\", \"structured_outputs\": {\"regex\": \"(\"}", "structured_outputs.regex"},
        {&format_messages, ASKS "\"max_tokens\": 9, \"output_config\": {\"format\": {\"type\": \"json_schema\", \"schema\": " BAD "}}",
         "output_config.format.schema"},
        {&format_messages, ASKS "\"max_tokens\": 9, \"output_config\": {\"format\": {\"type\": \"json_schema\"}}", "output_config.format.schema"},
        {&format_messages, ASKS "\"max_tokens\": 9, \"thinking\": \"yes\"", "thinking"},
        {&format_messages, ASKS "\"max_tokens\": 9, \"tools\": [{\"type\": \"web_search_20250305\", \"name\": \"w\"}, "
         "{\"name\": \"g\", \"input_schema\": " BAD_TOOL "}]", "tools[1].input_schema"},
        {&format_responses, "\"input\": \"q\", \"text\": {\"format\": {\"type\": \"json_schema\", \"name\": \"x\", \"schema\": " BAD "}}",
         "text.format.schema"},
        {&format_responses, "\"input\": \"q\", \"tools\": [{\"type\": \"web_search\"}, " TOOL("g", "parameters", BAD_TOOL) "]",
         "tools[1].parameters"},
        {&format_ollama, ASKS "\"format\": " BAD, "format"},
        {&format_ollama, ASKS "\"tools\": [" FUNCTION("f", BAD_TOOL) "]", "tools[0].function.parameters"},
        {&format_generate, "\"prompt\": \"q\", \"format\": " BAD, "format"},
        {&format_generate, "\"prompt\": \"q\", \"raw\": true, \"format\": " BAD, "format"},
    };
    char name[QUESTION_PARAM];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (read_as(rows[i].format, arena_printf(&a, "{%s}", rows[i].body)) && compile())
            fail_msg("%s is taken", rows[i].body);
        const char *param = question_param(e.msg, NULL, name);
        if (!param || strcmp(param, rows[i].field))
            fail_msg("%s: %s is about %s", rows[i].body, e.msg, param ? param : "no field");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dialects__a_form_that_is_refused_has_the_clients_name),
        cmocka_unit_test(test_dialects__claude_codes_next_request_begins_with_the_former_prompt),
        cmocka_unit_test(test_dialects__codexs_next_request_begins_with_the_former_prompt),
        cmocka_unit_test(test_dialects__the_same_content_has_the_same_tokens),
        cmocka_unit_test(test_dialects__a_conversation_continues_in_another_dialect),
        cmocka_unit_test(test_dialects__a_turn_continues_after_its_results),
        cmocka_unit_test(test_dialects__messages_are_refused_by_their_number),
        cmocka_unit_test(test_dialects__responses_are_refused_in_their_own_names),
        cmocka_unit_test(test_dialects__items_of_other_tools_are_calls_or_left_out),
        cmocka_unit_test(test_dialects__blocks_with_texts_are_read),
        cmocka_unit_test(test_dialects__thinking_and_effort),
        cmocka_unit_test(test_dialects__every_field_of_the_tables_is_treated_as_it_says),
        cmocka_unit_test(test_dialects__a_value_of_another_type_is_refused_by_the_fields_name),
        cmocka_unit_test(test_dialects__ollamas_fields_are_treated_as_the_table_says),
        cmocka_unit_test(test_dialects__ollamas_generate_is_a_question_or_a_prompt_as_it_is),
        cmocka_unit_test(test_dialects__ollamas_streams_have_calls_whole),
        cmocka_unit_test(test_dialects__names_that_do_not_come_back_from_a_call_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
