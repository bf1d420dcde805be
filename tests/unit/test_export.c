#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "session/export.h"
#include "base/file.h"

static struct text text(const char *s)
{
    return (struct text){s, strlen(s)};
}

/* A message with a file, a call, its result, an answer with a fence in it that was stopped; and one that is not on the path. */
static void fill(struct transcript *t)
{
    transcript_system(t, "Be brief.");
    transcript_add(t, ROLE_USER, "another beginning", 17);
    transcript_cut(t, 0);
    struct entry *m = transcript_add(t, ROLE_USER, "When is\n@now?", 13);
    entry_attach(m, &(struct entry_file){.path = text("now"), .bytes = 3, .text = text("12h")});
    m = transcript_add(t, ROLE_ASSISTANT, "", 0);
    entry_reasoning(m, "I look.\n\nAt it.", 15);
    entry_call(m, "", "clock", "{\"zone\": \"UTC\"}", 15);
    ids_add(&m->ids, 7);
    entry_tool(transcript_add(t, ROLE_TOOL, "```\nnoon", 8), "clock", "");
    transcript_add(t, ROLE_ASSISTANT, "At *noon*.", 10)->stopped = true;
    transcript_title(t, "The time");
}

static void is(const char *format, const char *expected)
{
    struct transcript t = {0};
    struct buf out = {0};
    struct err e = {0};
    fill(&t);
    if (!export_transcript(&t, format, NULL, &out, &e))
        fail_msg("%s", e.msg);
    assert_string_equal(out.data, expected);
    buf_free(&out);
    transcript_free(&t);
}

static void test_export__markdown_has_everything_on_the_path(void **state)
{
    (void)state;
    is("md", "# The time\n\n## System\n\nBe brief.\n\n## You\n\nWhen is\n@now?\n\nAttached: now (3 bytes)\n\n"
             "## Answer\n\n> I look.\n>\n> At it.\n\nCalls clock:\n\n```json\n{\"zone\": \"UTC\"}\n```\n\n"
             "## Tool clock\n\n````\n```\nnoon\n````\n\n## Answer\n\nAt *noon*.\n\n(stopped)\n\n");
}

static void test_export__text_has_what_was_said_and_each_call_with_its_result(void **state)
{
    struct transcript t = {0};
    struct buf out = {0};
    struct err e = {0};
    (void)state;
    is("txt", "You:\nWhen is\n@now?\n\nAnswer:\n[clock UTC =\n```\nnoon]\n\nAnswer:\nAt *noon*.\n\n");
    transcript_add(&t, ROLE_USER, "Add", 3);
    struct entry *m = transcript_add(&t, ROLE_ASSISTANT, "", 0);
    entry_call(m, "", "calculator", "{\"expression\": \"17 + 25\"}", 25);
    entry_call(m, "", "clock", "{}", 2);
    entry_tool(transcript_add(&t, ROLE_TOOL, "42", 2), "calculator", "");
    assert_true(export_transcript(&t, "txt", NULL, &out, &e));
    assert_string_equal(out.data, "You:\nAdd\n\nAnswer:\n[calculator 17 + 25 = 42]\n\n[clock = (no result)]\n\n");
    transcript_free(&t);
    buf_free(&out);
}

static void test_export__every_format_has_the_times_that_are_known(void **state)
{
    static const struct { const char *format, *has, *has_too; } formats[] = {
        {"txt", "You (2026-01-31 14:02):\nHello\n", "Answer:\nHi\n"}, {"md", "## You (2026-01-31 14:02)\n", "## Answer\n"},
        {"json", "\"role\": \"user\",\n      \"time\": \"2026-01-31T14:02:03Z\",\n", "\"role\": \"assistant\",\n      \"content\""},
    };
    struct transcript t = {0};
    struct buf out = {0};
    struct err e = {0};
    (void)state;
    setenv("TZ", "UTC", 1);
    transcript_add(&t, ROLE_USER, "Hello", 5)->time_s = 1769868123;
    transcript_add(&t, ROLE_ASSISTANT, "Hi", 2);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        buf_reset(&out);
        assert_true(export_transcript(&t, formats[i].format, NULL, &out, &e));
        assert_non_null(strstr(out.data, formats[i].has));
        assert_non_null(strstr(out.data, formats[i].has_too));
    }
    transcript_free(&t);
    buf_free(&out);
}

static void test_export__json_has_the_messages_of_the_session(void **state)
{
    (void)state;
    is("json", "{\n  \"title\": \"The time\",\n  \"system\": \"Be brief.\",\n  \"messages\": [\n"
               "    {\n      \"role\": \"user\",\n      \"content\": \"When is\\n@now?\",\n      \"files\": [\n        {\n"
               "          \"path\": \"now\",\n          \"bytes\": 3,\n          \"text\": \"12h\"\n        }\n      ]\n    },\n"
               "    {\n      \"role\": \"assistant\",\n      \"reasoning\": \"I look.\\n\\nAt it.\",\n      \"content\": \"\",\n      \"calls\": [\n"
               "        {\n          \"name\": \"clock\",\n          \"arguments\": \"{\\\"zone\\\": \\\"UTC\\\"}\"\n        }\n      ]\n    },\n"
               "    {\n      \"role\": \"tool\",\n      \"name\": \"clock\",\n      \"content\": \"```\\nnoon\"\n    },\n"
               "    {\n      \"role\": \"assistant\",\n      \"content\": \"At *noon*.\",\n      \"stopped\": true\n    }\n  ]\n}\n");
}

static void test_export__formats_are_known_by_name_and_ending(void **state)
{
    struct transcript t = {0};
    struct buf out = {0};
    struct err e = {0};
    (void)state;
    assert_false(export_transcript(&t, "pdf", NULL, &out, &e));
    assert_string_equal(e.msg, "unknown format pdf; the formats are md, json and txt");
    static const struct { const char *said, *file, *format, *why; } chosen[] = {
        {NULL, NULL, "md", NULL}, {"txt", NULL, "txt", NULL}, {NULL, "a.b/talk.json", "json", NULL}, {"md", "talk.json", "md", NULL},
        {"md", "talk", "md", NULL}, {NULL, "my talk.md", "md", NULL},
        {"html", NULL, NULL, "unknown format html"}, {NULL, "html", NULL, "unknown format html"},
        {NULL, "html talk.html", NULL, "unknown format html"}, {NULL, "talk.pdf", NULL, "talk.pdf does not name a format"},
        {NULL, "./talk", NULL, "./talk does not name a format"}, {NULL, "a.md/talk", NULL, "does not name a format"},
    };
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++) {
        const char *format = chosen[i].said;
        e.msg[0] = 0;
        assert_int_equal(export_choose(&format, chosen[i].file, &e), !chosen[i].why);
        if (chosen[i].why)
            assert_non_null(strstr(e.msg, chosen[i].why));
        else
            assert_string_equal(format, chosen[i].format);
    }
    transcript_system(&t, "a\xff");     /* no JSON as it is */
    for (int i = 0; export_formats[i]; i++)
        assert_true(export_transcript(&t, export_formats[i], NULL, &out, &e));
    buf_free(&out);
    transcript_free(&t);
}

static void test_export__a_file_that_is_there_stays(void **state)
{
    char dir[] = "/tmp/q35chat-test-XXXXXX", file[64];
    struct buf a = {0}, b = {0}, back = {0};
    struct err e = {0};
    struct stat st;
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/talk.md", dir);
    setenv("HOME", dir, 1);
    buf_adds(&a, "one");
    buf_adds(&b, "two");
    assert_true(export_write("~/talk.md", &a, &e));
    assert_false(export_write(file, &b, &e));
    assert_non_null(strstr(e.msg, "exists; choose another name"));
    assert_true(file_read(&back, file, 100, &e));
    assert_string_equal(back.data, "one");
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    unlink(file);
    rmdir(dir);
    buf_free(&a);
    buf_free(&b);
    buf_free(&back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export__markdown_has_everything_on_the_path),
        cmocka_unit_test(test_export__text_has_what_was_said_and_each_call_with_its_result),
        cmocka_unit_test(test_export__every_format_has_the_times_that_are_known),
        cmocka_unit_test(test_export__json_has_the_messages_of_the_session),
        cmocka_unit_test(test_export__formats_are_known_by_name_and_ending),
        cmocka_unit_test(test_export__a_file_that_is_there_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
