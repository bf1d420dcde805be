#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/events.h"

static const char *const tool_json[] = {
    "{\"type\": \"function\", \"function\": {\"name\": \"w\", \"parameters\": {\"type\": \"object\", \"properties\": {"
    "\"city\": {\"type\": \"string\"}, \"unit\": {\"type\": \"string\", \"enum\": [\"C\", \"F\"]}, \"days\": {\"type\": \"integer\"}}}}}",
    "{\"name\": \"now\"}",
    "{\"type\": \"function\", \"function\": {\"name\": \"t\", \"parameters\": {\"type\": \"object\", \"properties\": {"
    "\"i\": {\"type\": \"integer\"}, \"o\": {\"type\": \"object\"}, \"ns\": {\"type\": [\"string\", \"null\"]}}, \"required\": [\"o\", 5]}}}",
    "not a tool",
};
enum { N_TOOLS = sizeof tool_json / sizeof *tool_json };

enum { THINK = 1, CUT = 2, NO_TOOLS = 4 };

/* Feeds `text` in pieces that end at cuts[0], cuts[1], ...; the caller frees. */
static char *feed(const char *text, size_t n, int how, size_t step, size_t split)
{
    struct text tools[N_TOOLS];
    struct events x = {0};
    for (int i = 0; i < N_TOOLS; i++)
        tools[i] = text_of(tool_json[i]);
    struct stream *s = stream_open(tools, how & NO_TOOLS ? 0 : N_TOOLS, how & THINK, events_add, &x);
    if (step) {
        for (size_t at = 0; at < n; at += step)
            stream_push(s, text + at, n - at < step ? n - at : step);
    } else {
        stream_push(s, text, split);
        stream_push(s, text + split, n - split);
    }
    stream_finish(s, how & CUT);
    stream_close(s);
    events_end(&x);
    assert_false(x.wrong);
    char *line = strdup(buf_str(&x.line));
    events_free(&x);
    return line;
}

static void expect(const char *text, int how, const char *want)
{
    size_t n = strlen(text);
    for (size_t split = 0; split <= n + 1; split++) {
        char *got = feed(text, n, how, split > n ? 1 : 0, split > n ? 0 : split);
        if (strcmp(got, want))
            fail_msg("split at %zu: %s\n   gave %s\n   not  %s", split, text, got, want);
        free(got);
    }
}

struct row {
    const char *text;
    int         how;
    const char *want;
};

static void expect_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        expect(rows[i].text, rows[i].how, rows[i].want);
}
#define EXPECT(...) do { \
        static const struct row rows[] = {__VA_ARGS__}; \
        expect_rows(rows, sizeof rows / sizeof *rows); \
    } while (0)

/* The pieces of a call. */
#define TC   "<tool_call>\n"
#define TE   "\n</tool_call>"
#define FW   "<function=w>\n"
#define FE   "\n</function>"
#define P(name, value) "<parameter=" name ">\n" value "\n</parameter>"
#define PARIS TC FW P("city", "Paris") FE TE
#define F_PARIS "F[w {\"city\": \"Paris\"}]"

static void test_stream__reasoning_ends_at_the_closing_tag(void **state)
{
    (void)state;
    EXPECT({"", THINK, ""}, {"", 0, ""}, {" \n\t", THINK, ""}, {"a", THINK, "R[a]"}, {"a", 0, "C[a]"},
           {"a\n</think>\n\nb", THINK, "R[a]C[b]"}, {"</think>b", THINK, "C[b]"}, {"a</think>", THINK, "R[a]"},
           {"\n\n</think>\n\nb", THINK, "C[b]"}, {"a</think>b</think>c", THINK, "R[a]C[bc]"},
           {"a</think> </think> c", THINK, "R[a]C[c]"}, {"a\n</think>\n\nb\n</think>\n\nc", THINK, "R[a]C[b\n\n\nc]"},
           {"b</think>", 0, "C[b]"}, {"</think>\n\nb", 0, "C[b]"}, {"a</thin", THINK | CUT, "R[a</thin]"},
           {"a</thinker>b", THINK, "R[a</thinker>b]"}, {"a<</think>b", THINK, "R[a<]C[b]"},
           {"a</think>\n<think>\nb\n</think>\nc", THINK, "R[a]C[<think>\nb\n\nc]"});
}

static void test_stream__a_repeated_think_tag_at_the_start_is_dropped(void **state)
{
    (void)state;
    EXPECT({"<think>\na\n</think>\n\nb", THINK, "R[a]C[b]"}, {"\n <think>a</think>b", THINK, "R[a]C[b]"},
           {"<think>\n\n</think>\n\nb", 0, "C[b]"}, {"<think>", THINK, ""}, {"<thin", THINK, "R[<thin]"},
           {"a <think> b</think>c", THINK, "R[a <think> b]C[c]"}, {"<think>a <think> b", THINK, "R[a <think> b]"});
}

static void test_stream__white_space_goes_at_both_ends_and_stays_inside(void **state)
{
    (void)state;
    EXPECT({"\xe3\x80\x80 a \xc2\xa0 b\xe2\x80\xa8\x1c\n</think>\xc2\x85" "c \r\n", THINK, "R[a \xc2\xa0 b]C[c]"},
           {"a\xe2\x80\x8b ", 0, "C[a\xe2\x80\x8b]"},                   /* U+200B is not white space */
           {"a \xe2\x80", 0, "C[a \xe2\x80]"},                          /* cut inside a character */
           {"a \xe2\x80</think>b\xff", THINK, "R[a \xe2\x80]C[b\xff]"},
           {"A.\n\n" PARIS "\n\nB.", 0, "C[A.]" F_PARIS "C[\n\nB.]"},
           {"A." PARIS "\n\nB.", 0, "C[A.]" F_PARIS "C[\n\nB.]"},
           {"A. \n" PARIS "\n" PARIS "\n\n\nB.\n", 0, "C[A.]" F_PARIS F_PARIS "C[ \nB.]"},
           {" \n" PARIS "\n B \n", 0, F_PARIS "C[B]"});
}

static void test_stream__text_is_reported_as_soon_as_it_is_decided(void **state)
{
    (void)state;
    static const struct { const char *in, *told; } rows[] = {
        {"Hel", "C[Hel"}, {"lo", "C[Hello"}, {" \n", "C[Hello"}, {"you", "C[Hello \nyou"}, {"<", "C[Hello \nyou"},
        {"b>", "C[Hello \nyou<b>"}, {"<tool_call>\n", "C[Hello \nyou<b>"}, {"<fun", "C[Hello \nyou<b>"},
        {"!", "C[Hello \nyou<b><tool_call>\n<fun!"},
    };
    struct text tools[] = {text_of(tool_json[0])};
    struct events x = {0};
    struct stream *s = stream_open(tools, 1, false, events_add, &x);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        stream_push(s, rows[i].in, strlen(rows[i].in));
        assert_string_equal(buf_str(&x.line), rows[i].told);
    }
    stream_finish(s, false);
    stream_close(s);
    events_free(&x);
}

static void test_stream__says_whether_it_is_in_the_reasoning(void **state)
{
    (void)state;
    struct events x = {0};
    struct stream *s = stream_open(NULL, 0, true, events_add, &x);
    assert_true(stream_in_reasoning(s));
    stream_push(s, "a</th", 5);
    assert_true(stream_in_reasoning(s));
    stream_push(s, "ink>", 4);
    assert_false(stream_in_reasoning(s));
    stream_finish(s, false);
    stream_close(s);
    s = stream_open(NULL, 0, false, events_add, &x);
    assert_false(stream_in_reasoning(s));
    stream_close(s);
    stream_close(NULL);
    events_free(&x);
}

static void test_stream__calls_as_the_prompt_wants_them(void **state)
{
    (void)state;
    EXPECT({PARIS, 0, F_PARIS}, {"r\n</think>\n\nLooking.\n\n" PARIS, THINK, "R[r]C[Looking.]" F_PARIS},
           {PARIS "\n" PARIS, 0, F_PARIS F_PARIS}, {TC "<function=now>" FE TE, 0, "F[now {}]"},
           {"<tool_call><function=w><parameter=city>Oslo</parameter></function></tool_call>", 0, "F[w {\"city\": \"Oslo\"}]"},
           {"<tool_call>\r\n\t <function=now></function></tool_call>", 0, "F[now {}]"},
           {TC "<function=nobody>\n" P("x", "1") FE TE, 0, "F[nobody {\"x\": \"1\"}]"},         /* unknown: still a call */
           {TC FW P("days", "3") "\n" P("more", "3") FE TE, 0, "F[w {\"days\": 3, \"more\": \"3\"}]"},
           {TC FW P("city", "a") "\n" P("days", "1") "\n" P("city", "b") FE TE, 0, "F[w {\"city\": \"b\", \"days\": 1}]"},
           {PARIS "\n\nDone.", 0, F_PARIS "C[Done.]"}, {PARIS "<|im_end|>", 0, F_PARIS "C[<|im_end|>]"});
}

static void test_stream__a_call_inside_the_reasoning_ends_it(void **state)
{
    (void)state;
    EXPECT({"a\n" PARIS, THINK, "R[a]" F_PARIS}, {PARIS, THINK, F_PARIS},
           {"a\n" PARIS "\n</think>\n\n", THINK, "R[a]" F_PARIS}, {"a\n" PARIS "\n</think>\n\nb", THINK, "R[a]" F_PARIS "C[b]"},
           {"a\n" PARIS "\n" PARIS "\n</think>", THINK, "R[a]" F_PARIS F_PARIS},
           {"I could write <tool_call> here.\n</think>\n\nNo.", THINK, "R[I could write <tool_call> here.]C[No.]"},
           {"a <tool_call>\n", THINK, "R[a <tool_call>]"}, {"a <tool_call>\n<function", THINK, "R[a <tool_call>\n<function]"},
           {"a <tool_call></think>b", THINK, "R[a <tool_call>]C[b]"},
           {"a <tool_call><tool_call>\n<function=now></function>", THINK, "R[a <tool_call>]F[now {}]"},
           {"plan:\n<function=now>\n</think>\nb", THINK, "R[plan:\n<function=now>]C[b]"});
}

static void test_stream__markup_is_text_where_no_call_can_be(void **state)
{
    (void)state;
    EXPECT({PARIS, NO_TOOLS, "C[" PARIS "]"}, {"a" PARIS "</think>b", NO_TOOLS | THINK, "R[a" PARIS "]C[b]"},
           {"<tool_call>\nget_weather(Paris)\n</tool_call>", 0, "C[<tool_call>\nget_weather(Paris)\n</tool_call>]"},
           {"<tool_call>\n</tool_call>", 0, "C[<tool_call>\n</tool_call>]"}, {"<tool_call>", CUT, "C[<tool_call>]"},
           {"a <function=now> b", 0, "C[a <function=now> b]"}, {"<function=nobody>\n</function>", 0, "C[<function=nobody>\n</function>]"},
           {"<function=nowhere>", 0, "C[<function=nowhere>]"}, {"<function=no", 0, "C[<function=no]"},
           {"<parameter=city>\nx\n</parameter>", 0, "C[<parameter=city>\nx\n</parameter>]"},
           {"a < b > c </d> <e f=\"g\">", 0, "C[a < b > c </d> <e f=\"g\">]"}, {"ends with <", 0, "C[ends with <]"},
           {"```\n<tool>\n<function>\n```", 0, "C[```\n<tool>\n<function>\n```]"}, {"<<<tool_call", 0, "C[<<<tool_call]"});
}

static void test_stream__a_forgotten_tool_call_tag_is_no_reason_to_show_the_call(void **state)
{
    (void)state;
    EXPECT({"<function=now>\n</function>", 0, "F[now {}]"}, {"I'll look.\n\n" FW P("city", "Paris") FE TE, 0, "C[I'll look.]" F_PARIS},
           {" <function=now></function>", 0, "F[now {}]"}, {"r</think><function=now></function>", THINK, "R[r]F[now {}]"},
           {"<function=now></function>\n<function=now></function>\nx", 0, "F[now {}]F[now {}]C[x]"},
           {"<function=now></function>\n<function=nobody>", 0, "F[now {}]C[<function=nobody>]"},
           {"a\n  <function=now>", 0, "C[a\n  <function=now>]"});
}

static void test_stream__a_value_loses_one_line_end_at_each_side_and_nothing_else(void **state)
{
    (void)state;
#define VALUE(raw, json) {TC FW "<parameter=city>" raw "</parameter>" FE TE, 0, "F[w {\"city\": \"" json "\"}]"}
    EXPECT(VALUE("\nx\n", "x"), VALUE("x", "x"), VALUE("", ""), VALUE("\n", ""), VALUE("\n\n", ""), VALUE("\n\n\n", "\\n"),
           VALUE("\n\n\nx = 1\n", "\\n\\nx = 1"), VALUE("\nx\n\n", "x\\n"), VALUE("\n  x\t \n", "  x\\t "), VALUE("\na\r\nb\r\n\n", "a\\r\\nb\\r\\n"),
           VALUE("\n&lt; &#10; <![CDATA[x]]>\n", "&lt; &#10; <![CDATA[x]]>"), VALUE("\n\"\\n\" 'x' $HOME\n", "\\\"\\\\n\\\" 'x' $HOME"),
           VALUE("\n\xe4\xba\xac\xe9\x83\xbd \xf0\x9f\x8f\xaf\n", "\xe4\xba\xac\xe9\x83\xbd \xf0\x9f\x8f\xaf"), VALUE("\n\x01\n", "\\u0001"),
           VALUE("\n\xe4\xba\n", "\xef\xbf\xbd"));
}

static void test_stream__a_value_may_hold_any_markup(void **state)
{
    (void)state;
    EXPECT(VALUE("\nClose with </parameter> in the text.\n", "Close with </parameter> in the text."),
           VALUE("\n</parameter>\n\n x </parameter>\n", "</parameter>\\n\\n x </parameter>"),
           VALUE("\ns = \"</function>\"; t = \"<parameter=x>\";\n", "s = \\\"</function>\\\"; t = \\\"<parameter=x>\\\";"),
           VALUE("\n<parameter=nobody>\n</function> x\n", "<parameter=nobody>\\n</function> x"),
           VALUE("\nThe model writes <tool_call> then </tool_call> and <think>.\n", "The model writes <tool_call> then </tool_call> and <think>."),
           VALUE("\na </think> b\n</think>\n", "a </think> b\\n</think>"), VALUE("\n<tool_call>\n<function=now>\n", "<tool_call>\\n<function=now>"),
           VALUE("\n</parameter> <tool_call> x\n", "</parameter> <tool_call> x"), VALUE("\n<\n<<</\n", "<\\n<<</"),
           VALUE("\n x<parameter=unit>\n", " x<parameter=unit>"), VALUE("\n</function>\n</parameter>\n", "</function>\\n</parameter>"));
}

static void test_stream__forgotten_closers_are_found_by_what_follows(void **state)
{
    (void)state;
    EXPECT({TC FW "<parameter=city>\nParis" FE TE, 0, F_PARIS},
           {TC FW "<parameter=city>\nParis" TE, 0, F_PARIS}, {TC FW "<parameter=city>\nParis</function>" TE, 0, F_PARIS},
           {TC FW "<parameter=city>\nParis</function> x" TE, 0, "F[w {\"city\": \"Paris</function> x\"}]"},
           {TC FW "<parameter=city>\nParis\n<parameter=days>\n3" FE TE, 0, "F[w {\"city\": \"Paris\", \"days\": 3}]"},
           {TC FW "<parameter=city>\n<parameter=days>\n3" FE TE, 0, "F[w {\"city\": \"\", \"days\": 3}]"},
           {TC FW P("city", "Paris") TE, 0, F_PARIS}, {TC FW P("city", "Paris") FE, 0, F_PARIS}, {TC FW P("city", "Paris") FE, CUT, F_PARIS},
           {TC FW P("city", "Paris") FE "\n" TC "<function=now>" FE TE, 0, F_PARIS "F[now {}]"},
           {TC FW P("city", "Paris") "\n" TC "<function=now>" FE TE, 0, F_PARIS "F[now {}]"},
           {TC FW P("city", "Paris") FE "\n<function=now>" FE TE, 0, F_PARIS "F[now {}]"},
           {TC FW P("city", "Paris") FE "\n<function=nobody>" FE TE, 0, F_PARIS "F[nobody {}]"},
           {TC FW "<parameter=city>\nParis" FE "\n" TC "<function=now>" FE TE, 0, F_PARIS "F[now {}]"},
           {TC FW "<parameter=city>\nParis" FE, 0, F_PARIS},
           {TC FW "<parameter=city>\nParis" FE "\n</think>" TE, 0, "F[w {\"city\": \"Paris\\n</function>\\n</think>\"}]"},
           {TC FW P("city", "Paris") FE TE "\n</tool_call>\n</think>b", 0, F_PARIS "C[b]"},
           {TC "<function=now\n" FE TE, 0, "F[now {}]"}, {TC FW "<parameter=city\nParis\n</parameter>" FE TE, 0, F_PARIS});
}

static void test_stream__closers_inside_a_line_count_when_nothing_else_closed_the_value(void **state)
{
    (void)state;
    EXPECT({"<tool_call><function=w><parameter=city>Paris</function></tool_call>", 0, F_PARIS},
           {"<tool_call><function=w><parameter=city>Paris</tool_call>\n<tool_call><function=now></function></tool_call>b", 0,
            F_PARIS "F[now {}]C[b]"},
           {"<tool_call><function=w><parameter=city>Paris</function></tool_call>", CUT, "T[w {\"city\": \"Paris</function>]"});
}

static void test_stream__a_parameter_without_a_name_is_skipped(void **state)
{
    (void)state;
    EXPECT({TC FW "<parameter=\n</parameter>" FE TE, 0, "F[w {}]"}, {TC FW "<parameter=</parameter>\n" P("city", "Paris") FE TE, 0, F_PARIS},
           {TC FW "<parameter=>\nx\n</parameter>\n" P("city", "Paris") FE TE, 0, F_PARIS}, {TC FW "<parameter>\nx\n</parameter>" FE TE, 0, "F[w {}]"},
           {TC FW "words\n" P("city", "Paris") FE TE, 0, F_PARIS}, {TC "<function=>" FE TE, 0, "F[ {}]"});
}

/* Its arguments end where the model ended, so that they are no JSON. */
static void test_stream__a_call_that_was_cut_off_is_truncated(void **state)
{
    (void)state;
    EXPECT({TC FW "<parameter=city>\nPar", CUT, "T[w {\"city\": \"Par]"}, {TC FW "<parameter=city>\nPar", 0, "T[w {\"city\": \"Par]"},
           {TC FW P("city", "Paris") "\n", CUT, "T[w {\"city\": \"Paris\"]"},
           {TC FW P("city", "Paris") "\n<param", CUT, "T[w {\"city\": \"Paris\"]"},
           {TC FW P("city", "Paris") "\n<parameter=un", CUT, "T[w {\"city\": \"Paris\"]"},
           {TC FW P("city", "Paris") "\n<parameter=unit>\nC", CUT, "T[w {\"city\": \"Paris\", \"unit\": \"C]"},
           {TC FW P("city", "Paris") "\n<parameter=city>\nR", CUT, "T[w {\"city\": \"Paris\", \"city\": \"R]"},
           {TC FW "<parameter=days>\n12", CUT, "T[w {\"days\": 12]"}, {TC FW "<parameter=days>\n1 2", CUT, "T[w {\"days\": \"1 2]"},
           {TC "<function=t>\n<parameter=o>\n{\"a\": 1}", CUT, "T[t {\"o\": {\"a\": 1}]"},
           {TC FW "<parameter=city>\nParis\n</para", CUT, "T[w {\"city\": \"Paris]"}, {TC FW "<parameter=>\nx", CUT, "T[w {]"},
           {TC FW "<parameter=city>", CUT, "T[w {\"city\": \"]"}, {TC FW, CUT, "T[w {]"},
           {PARIS "\n" TC FW "<parameter=city>\nR", CUT, F_PARIS "T[w {\"city\": \"R]"},
           {TC "<function=t>\n" P("i", "5"), 0, "T[t {\"i\": 5]"}, {TC "<function=nobody>\n", 0, "T[nobody {]"},
           {TC "<function=t>\n" P("i", "5") "\n" P("o", "{}"), 0, "F[t {\"i\": 5, \"o\": {}}]"},
           {TC FW P("city", "Paris"), 0, F_PARIS});     /* the model ended it itself, with every value closed, and all that are required */
}

/* A name that broke off could be that of another tool. */
static void test_stream__a_call_without_its_whole_name_has_none(void **state)
{
    (void)state;
    EXPECT({TC "<function=w", CUT, ""}, {"a\n" TC "<function=w", THINK | CUT, "R[a]"}, {PARIS "\n" TC "<function=", CUT, F_PARIS},
           {TC "<function=w", 0, "T[ {]"}, {PARIS "\n" TC "<function=now", 0, F_PARIS "T[ {]"});
}

static void test_stream__closing_tags_on_lines_of_their_own_end_a_value_only_where_the_call_may_end(void **state)
{
    (void)state;
#define LINES "</function>\n</tool_call>"
    EXPECT(VALUE("\na\n" LINES "\nb\n", "a\\n</function>\\n</tool_call>\\nb"), VALUE("\na\n</tool_call>\nb\n", "a\\n</tool_call>\\nb"),
           VALUE("\na\n" LINES "\nb\n" LINES "\nc\n", "a\\n</function>\\n</tool_call>\\nb\\n</function>\\n</tool_call>\\nc"),
           VALUE("\na</function>\n</tool_call>\nb\n", "a</function>\\n</tool_call>\\nb"),
           {TC FW "<parameter=city>\na\n" LINES "\nb\n" LINES, 0, "F[w {\"city\": \"a\\n</function>\\n</tool_call>\\nb\"}]"},
           {TC FW "<parameter=city>\nParis\n" LINES "\n" TC "<function=now>" FE TE, 0, F_PARIS "F[now {}]"},
           {TC FW "<parameter=city>\nParis\n" LINES "\n</think>\nb", 0, F_PARIS "C[b]"},
           {TC FW "<parameter=city>\nParis\n" LINES "\n\nDone.", 0, "T[w {\"city\": \"Paris\\n</function>\\n</tool_call>\\n\\nDone.]"},
           {TC FW "<parameter=city>\nParis\n" LINES "\n\nDone.", CUT, "T[w {\"city\": \"Paris\\n</function>\\n</tool_call>\\n\\nDone.]"},
           {TC FW "<parameter=city>\nParis\n" LINES "\n", CUT, "T[w {\"city\": \"Paris\\n</function>\\n</tool_call>]"},
           {TC FW "<parameter=city>\nParis\n" LINES "\n", 0, F_PARIS});
}

static void test_stream__a_call_may_be_a_json_object(void **state)
{
    (void)state;
#define J(object) TC object TE
#define J_PARIS J("{\"name\": \"w\", \"arguments\": {\"city\": \"Paris\"}}")
    EXPECT({J_PARIS, 0, F_PARIS}, {"r\n" J_PARIS "\n</think>\nb", THINK, "R[r]" F_PARIS "C[b]"},
           {"A.\n\n" J_PARIS "\n" PARIS, 0, "C[A.]" F_PARIS F_PARIS},
           {J_PARIS "\n" J_PARIS, 0, F_PARIS F_PARIS}, {J("{\"arguments\": \"{\\\"city\\\": \\\"Paris\\\"}\", \"name\": \"w\"}"), 0, F_PARIS},
           {J("{\"name\": \"w\", \"parameters\": {\"city\": \"a\nb\", \"days\": \"3\"}}"), 0, "F[w {\"city\": \"a\\nb\", \"days\": 3}]"},
           {J("{\"name\": \"w\", \"arguments\": {\"city\": \"</tool_call> {<\"}}"), 0, "F[w {\"city\": \"</tool_call> {<\"}]"},
           {J("{\"name\": \"nobody\", \"arguments\": {}}"), 0, "F[nobody {}]"},
           {J("{\"name\": \"w\"}"), 0, "C[" J("{\"name\": \"w\"}") "]"}, {J("{\"a\": 1}"), 0, "C[" J("{\"a\": 1}") "]"},
           {J("{\"name\": \"w\", \"arguments\": [1]}"), 0, "C[" J("{\"name\": \"w\", \"arguments\": [1]}") "]"}, {J("{x}"), 0, "C[" J("{x}") "]"},
           {"a <tool_call>{\"<tool_call>\n<function=now></function>", 0, "C[a <tool_call>{\"]F[now {}]"},
           {J_PARIS, NO_TOOLS, "C[" J_PARIS "]"},
           {TC "{\"name\": \"w\", \"arguments\": {\"city\": \"Pa", CUT, "C[" TC "{\"name\": \"w\", \"arguments\": {\"city\": \"Pa]"});
}

static void test_stream__names_may_be_in_quotes_and_line_ends_those_of_dos(void **state)
{
    (void)state;
    EXPECT({TC "<function=\"w\">\n" P("\"city\"", "Paris") FE TE, 0, F_PARIS}, {"<function='w'>\n" P("'city'", "Paris") FE, 0, F_PARIS},
           {TC FW "<parameter=city>\nParis\n<parameter=\"days\">\n3" FE TE, 0, "F[w {\"city\": \"Paris\", \"days\": 3}]"},
           {"<function=\"now'></function>", 0, "C[<function=\"now'></function>]"},
           VALUE("\r\nParis\r\n", "Paris"), VALUE("\r\na\r\nb\r\n", "a\\r\\nb"), VALUE("\r\n", ""), VALUE("\nParis\r\n", "Paris"));
}

/* Writes each piece of the arguments in brackets, and the whole. */
static void add_piece(const struct delta *d, void *arg)
{
    struct buf *out = arg;
    if (d->kind == DELTA_CALL_PIECE)
        buf_addf(out, "[%.*s]", (int)d->text.n, d->text.p);
    else if (d->kind == DELTA_CALL_END)
        buf_addf(out, " %.*s", (int)d->text.n, d->text.p);
}

static void test_stream__arguments_come_in_pieces_as_they_are_written(void **state)
{
    (void)state;
    static const struct { const char *pushes[8], *want; } cases[] = {
        {{"<tool_call>\n<function=w>\n<parameter=city>\n", "Paris", ", \"Fr", "ance\"\n", "</para", "meter>\n</function>\n</tool_call>"},
         "[{\"city\": \"Paris][, \\\"Fr][ance\\\"] {\"city\": \"Paris, \\\"France\\\"\"}"},
        /* other values when they are whole */
        {{"<tool_call>\n<function=w>\n<parameter=days>\n1", "2\n</parameter>\n<parameter=city>\nRome", "\n</parameter>\n", "</function>"},
         "[{\"days\": 12, \"city\": \"Rome] {\"days\": 12, \"city\": \"Rome\"}"},
        /* a tag inside may turn out to be the end, half a character and a line end too */
        {{"<tool_call>\n<function=w>\n<parameter=city>\na</function> b\n", "c", "\n</parameter>\n</function>"},
         "[{\"city\": \"a] {\"city\": \"a</function> b\\nc\"}"},
        {{"<tool_call>\n<function=w>\n<parameter=city>\na\xc3", "\xa9\n", "b", "\n</parameter>\n</function>"},
         "[{\"city\": \"a][é][\\nb] {\"city\": \"aé\\nb\"}"},
        /* the second value of a parameter counts, and is in no piece */
        {{"<tool_call>\n<function=w>\n<parameter=city>\nA", "B\n</parameter>\n<parameter=city>\nC", "\n</parameter>\n", "</function>"},
         "[{\"city\": \"A][B\"] {\"city\": \"C\"}"},
        /* no closing quote where the model was cut off */
        {{"<tool_call>\n<function=w>\n<parameter=city>\nA", "B"}, "[{\"city\": \"A][B] {\"city\": \"AB"},
    };
    struct text tools[N_TOOLS];
    for (int i = 0; i < N_TOOLS; i++)
        tools[i] = text_of(tool_json[i]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf got = {0};
        struct stream *s = stream_open(tools, N_TOOLS, false, add_piece, &got);
        for (int k = 0; cases[i].pushes[k]; k++)
            stream_push(s, cases[i].pushes[k], strlen(cases[i].pushes[k]));
        stream_finish(s, true);
        stream_close(s);
        assert_string_equal(buf_str(&got), cases[i].want);
        buf_free(&got);
    }
}

static void test_stream__arguments_have_the_types_of_the_schema(void **state)
{
    (void)state;
    EXPECT({TC "<function=t>\n" P("i", "123456789012345678901234567890") FE TE, 0, "F[t {\"i\": 123456789012345678901234567890}]"},
           {TC "<function=t>\n" P("o", "{'a': None, \"b\": [1, 2,]}") "\n" P("ns", "None") FE TE, 0,
            "F[t {\"o\": {\"a\": null, \"b\": [1, 2]}, \"ns\": null}]"},
           {TC "<function=t>\n" P("i", "five") "\n" P("x", "[1]") FE TE, 0, "F[t {\"i\": \"five\", \"x\": \"[1]\"}]"},
           {TC "<function=nobody>\n" P("i", "5") FE TE, 0, "F[nobody {\"i\": \"5\"}]"});
}

/* Each unit a megabyte long, in single bytes: with a quadratic step each would take minutes. */
static void test_stream__a_megabyte_of_anything_takes_no_more_than_its_length(void **state)
{
    (void)state;
    static const struct { const char *before, *unit; } rows[] = {
        {"", "<"}, {"", "<tool_call>"}, {"", "<tool_call>\n"}, {"", " "}, {"a<tool_call>", " "}, {"a", "\xe3\x80\x80"}, {"", "</think>"},
        {"", "<function="},
        {"", "a "}, {TC FW "<parameter=city>\n", "\n</parameter>"}, {TC FW "<parameter=city>\n</parameter>", "\n"},
        {TC FW "<parameter=city>\n", "\n</function>\n"}, {TC FW "<parameter=city>\n", "</parameter>\n<tool_call>\n"},
        {TC FW "<parameter=city>\n", "\n<parameter=cit"}, {TC FW, "<"}, {TC "<function=", "w"}, {TC FW "<parameter=", "k"}, {TC FW, "<tool_call>"},
        {TC FW, "<parameter=a>b</parameter>"}, {"", "<function=now></function>"}, {"", TC "<function=w><parameter=city>x</function></tool_call>"},
        {TC FW "<parameter=city>\n", "</function>"}, {"", "\xc3"}, {TC "<function=t>\n<parameter=o>\n", "["},
        {TC "<function=t>\n<parameter=o>\n", "{\"a\":"}, {"", "<tool_call>{\""}, {"", "<tool_call>{\"a\": \""},
        {"", "<tool_call>{\"\\\""}, {TC, "{\"a\": "},
        {TC FW "<parameter=city>\n", "\n</tool_call>\n"}, {TC FW "<parameter=city>\n", "\n</function></tool_call>"},
    };
    struct text tools[] = {text_of(tool_json[0]), text_of(tool_json[1]), text_of(tool_json[2])};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int thinking = 0; thinking <= !*rows[i].before; thinking++) {
            struct events x = {0};
            const clock_t start = clock();          /* of the processor: others may be busy, too */
            struct stream *s = stream_open(tools, 3, thinking, events_add, &x);
            stream_push(s, rows[i].before, strlen(rows[i].before));
            for (size_t n = 0; n < 1 << 20; n++)
                stream_push(s, rows[i].unit + n % strlen(rows[i].unit), 1);
            stream_finish(s, false);
            stream_close(s);
            events_free(&x);
            if ((clock() - start) / CLOCKS_PER_SEC > 60)
                fail_msg("row %zu (%s): busy for more than a minute", i, rows[i].unit);
        }
}

static void test_stream__deep_nesting_stays_text(void **state)
{
    (void)state;
    struct buf in = {0}, want = {0};
    buf_adds(&in, TC "<function=t>\n<parameter=o>\n");
    for (int i = 0; i < 5000; i++)
        buf_adds(&in, "{\"a\":");
    buf_adds(&in, "\n</parameter>" FE TE);
    buf_adds(&want, "F[t {\"o\": \"");
    for (int i = 0; i < 5000; i++)
        buf_adds(&want, "{\\\"a\\\":");
    buf_adds(&want, "\"}]");
    char *got = feed(in.data, in.len, 0, 1000, 0);
    assert_string_equal(got, want.data);
    free(got);
    buf_free(&in);
    buf_free(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream__reasoning_ends_at_the_closing_tag),
        cmocka_unit_test(test_stream__a_repeated_think_tag_at_the_start_is_dropped),
        cmocka_unit_test(test_stream__white_space_goes_at_both_ends_and_stays_inside),
        cmocka_unit_test(test_stream__text_is_reported_as_soon_as_it_is_decided),
        cmocka_unit_test(test_stream__says_whether_it_is_in_the_reasoning),
        cmocka_unit_test(test_stream__calls_as_the_prompt_wants_them),
        cmocka_unit_test(test_stream__a_call_inside_the_reasoning_ends_it),
        cmocka_unit_test(test_stream__markup_is_text_where_no_call_can_be),
        cmocka_unit_test(test_stream__a_forgotten_tool_call_tag_is_no_reason_to_show_the_call),
        cmocka_unit_test(test_stream__a_value_loses_one_line_end_at_each_side_and_nothing_else),
        cmocka_unit_test(test_stream__a_value_may_hold_any_markup),
        cmocka_unit_test(test_stream__forgotten_closers_are_found_by_what_follows),
        cmocka_unit_test(test_stream__closers_inside_a_line_count_when_nothing_else_closed_the_value),
        cmocka_unit_test(test_stream__a_parameter_without_a_name_is_skipped),
        cmocka_unit_test(test_stream__a_call_that_was_cut_off_is_truncated),
        cmocka_unit_test(test_stream__a_call_without_its_whole_name_has_none),
        cmocka_unit_test(test_stream__closing_tags_on_lines_of_their_own_end_a_value_only_where_the_call_may_end),
        cmocka_unit_test(test_stream__a_call_may_be_a_json_object),
        cmocka_unit_test(test_stream__names_may_be_in_quotes_and_line_ends_those_of_dos),
        cmocka_unit_test(test_stream__arguments_come_in_pieces_as_they_are_written),
        cmocka_unit_test(test_stream__arguments_have_the_types_of_the_schema),
        cmocka_unit_test(test_stream__a_megabyte_of_anything_takes_no_more_than_its_length),
        cmocka_unit_test(test_stream__deep_nesting_stays_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
