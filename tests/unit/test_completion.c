/* Streams of servers (tests/data/streams) -> what the answer is, cut at every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "remote/completion.h"

/* Writes the reported parts as text, joining adjacent texts of one kind. */
struct story {
    struct buf text;
    enum completion_kind last;
};

static void note(const struct completion_delta *d, void *arg)
{
    static const char *const heads[] = {"\nread ", "\nthink ", "\nsay ", "\ncall ", "\nwith "};
    struct story *s = arg;
    if (!s->text.len || s->last != d->kind || (d->kind != COMPLETION_REASONING && d->kind != COMPLETION_TEXT))
        buf_adds(&s->text, heads[d->kind]);
    s->last = d->kind;
    if (d->kind == COMPLETION_READING)
        buf_addf(&s->text, "%zu of %zu, %zu cached", d->done, d->total, d->cached);
    else
        buf_add(&s->text, d->text.p, d->text.n);
    if (d->truncated)
        buf_adds(&s->text, " (truncated)");
}

/* The body in pieces that end at `cut` and then have `step` bytes each. */
static void read_stream(const struct buf *body, size_t cut, size_t step, struct buf *story)
{
    struct story s = {.text = *story};
    struct err e = {0};
    struct completion *c = completion_open(note, &s, false);
    bool ok = true;
    for (size_t at = 0, n; ok && at < body->len; at += n) {
        n = at < cut ? cut - at : step < body->len - at ? step : body->len - at;
        ok = completion_push(c, body->data + at, n, &e);
    }
    ok = ok && completion_end(c, &e);
    completion_cut(c);
    static const char *const finishes[] = {"open", "done", "stopped", "length", "context", "broken", "filtered"};
    const char *name = completion_reasoning_name(c);
    const struct stats f = completion_stats(c);
    const struct draft_count d = f.drafts[DRAFT_MTP][0];
    buf_addf(&s.text, "\n%s%s; reasoning: %s; %d prompt, %d cached, %d tokens, %d drafted, %d accepted, %.1f and %.1f ms%s", ok ? "" : e.msg,
             ok ? finishes[completion_finish(c)] : "", name ? name : "none", f.n_prompt, f.n_cached, f.n_tokens, d.drafted, d.accepted,
             f.prefill_ms, f.decode_ms, f.bytes > 0 ? "; bytes" : "");
    completion_close(c);
    *story = s.text;
}

static const struct { const char *name, *story; } streams[] = {
    {"vllm", "\nthink The user wants the weather – 東京.\nsay Let me look.\ncall weather\nwith {\"city\": \"Tokyo\"}\ncall weather\n"
             "with {\"city\": \"Oslo\"}"
             "\nstopped; reasoning: reasoning; 345 prompt, 320 cached, 55 tokens, -1 drafted, -1 accepted, -1.0 and -1.0 ms"},
    {"sglang", "\nthink Easy.\nsay 42 is it.\n"
               "length; reasoning: reasoning_content; 20 prompt, -1 cached, 7 tokens, -1 drafted, -1 accepted, -1.0 and -1.0 ms"},
    {"llamacpp", "\nread 700 of 900, 512 cached\nread 900 of 900, 512 cached\nthink I count.\nsay One, \"two\"\n\ncall add\nwith {\"a\":1,\"b\":2}"
                 "\nstopped; reasoning: reasoning_content; 900 prompt, 512 cached, 40 tokens, 30 drafted, 21 accepted, 230.5 and 800.2 ms"},
    {"llamacpp-python", "\nsay <think>\nTwo \u2013 and two.\n</think>\n\nFour.\n"
                        "stopped; reasoning: none; -1 prompt, -1 cached, -1 tokens, -1 drafted, -1 accepted, -1.0 and -1.0 ms"},
    {"interrupted", "\nsay One moment\ndone; reasoning: none; -1 prompt, -1 cached, -1 tokens, -1 drafted, -1 accepted, -1.0 and -1.0 ms"},
    {"ollama", "\nthink Two cities.\ncall weather\nwith {\"city\":\"Rome\"}\ncall weather\nwith {\"city\":\"Bern\"}"
               "\nstopped; reasoning: reasoning; 88 prompt, -1 cached, 31 tokens, -1 drafted, -1 accepted, -1.0 and -1.0 ms"},
    {"transformers", "\nthink The user wants a calculation. I call calculator.\n\nsay One moment.\ncall calculator\n"
                     "with {\"expression\": \"12 * 12\"}"
                     "\nstopped; reasoning: reasoning_content; 338 prompt, -1 cached, 35 tokens, -1 drafted, -1 accepted, -1.0 and -1.0 ms"},
    {"odd", "\nthink Hm.\nsay a\u2028bc\ncall read\nwith {\"path\": \"x\"}\ncall list\nwith {\"all\":true}\ncall now\nwith {}"
            "\nstopped; reasoning: reasoning_content; -1 prompt, -1 cached, -1 tokens, -1 drafted, -1 accepted, -1.0 and -1.0 ms"},
    {"error", "\nsay Once upon \nthe server says: CUDA out of memory; reasoning: none; -1 prompt, -1 cached, -1 tokens, -1 drafted, -1 accepted, "
              "-1.0 and -1.0 ms"},
    {"q35chat-context", "\ncall read\nwith {\"path\": \"/et (truncated)\ncontext; reasoning: none; -1 prompt, -1 cached, -1 tokens, -1 drafted, "
                        "-1 accepted, -1.0 and -1.0 ms"},
    {"q35chat-model", "\ncall read\nwith {\"path\": \"/et (truncated)\nbroken; reasoning: none; -1 prompt, -1 cached, -1 tokens, -1 drafted, "
                        "-1 accepted, -1.0 and -1.0 ms"},
    {"broken", "\nsay Look:\ncall read\nwith {\"path\": \"/et (truncated)\n"
               "the stream broke off before the answer was complete; reasoning: none; -1 prompt, -1 cached, "
               "-1 tokens, -1 drafted, -1 accepted, -1.0 and -1.0 ms"},
};

static void test_completion__streams_of_all_servers_read_the_same_however_they_are_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        struct buf path = {0}, body = {0}, story = {0};
        struct err e = {0};
        buf_addf(&path, "tests/data/streams/%s.sse", streams[i].name);
        if (!file_read(&body, path.data, 1 << 20, &e))
            fail_msg("%s", e.msg);
        for (size_t cut = 0; cut <= body.len; cut++) {
            buf_reset(&story);
            read_stream(&body, cut, cut % 3 ? body.len : 1 + cut % 7, &story);
            if (strcmp(story.data, streams[i].story))
                fail_msg("%s, cut at %zu:%s\nexpected:%s", streams[i].name, cut, story.data, streams[i].story);
        }
        buf_free(&path);
        buf_free(&body);
        buf_free(&story);
    }
}

static void test_completion__an_answer_without_an_end_is_stopped(void **state)
{
    static const char *const endless[] = {
        "data: {\"choices\": [{\"delta\": {\"content\": \"0123456789\"}}]}\n\n",
        "data: {\"choices\": [{\"delta\": {\"reasoning\": \"0123456789\"}}]}\n\n",
        "data: {\"choices\": [{\"delta\": {\"tool_calls\": [{\"id\": \"a\", \"function\": {\"name\": \"f\", \"arguments\": \"0123456789\"}}]}}]}\n\n",
        "data: {\"choices\": [{\"delta\": {\"tool_calls\": [{\"function\": {\"name\": \"names\", \"arguments\": {}}}]}}]}\n\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof endless / sizeof *endless; i++) {
        struct story s = {0};
        struct err e = {0};
        struct completion *c = completion_open(note, &s, false);
        int n = 0;
        completion_limit(c, 1000);
        while (n < 1000 && completion_push(c, endless[i], strlen(endless[i]), &e))
            n++;
        assert_in_range(n, 50, 150);
        assert_string_equal(e.msg, "the server does not stop: its answer has more than 1000 bytes, which is longer than what was asked for");
        completion_close(c);
        buf_free(&s.text);
    }
}

/* The continued beginning of an answer belongs to it. */
static void test_completion__blank_lines_are_dropped_at_the_beginning_alone(void **state)
{
    static const char body[] = "data: {\"choices\": [{\"delta\": {\"content\": \"\\n\"}}]}\n\ndata: {\"choices\": [{\"delta\": {\"content\": \"\\n"
                               " a\\n\\nb\"}}]}\n\n";
    (void)state;
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        struct story s = {0};
        struct err e = {0};
        struct completion *c = completion_open(note, &s, goes_on);
        assert_true(completion_push(c, body, strlen(body), &e));
        assert_string_equal(s.text.data, goes_on ? "\nsay \n\n a\n\nb" : "\nsay  a\n\nb");
        completion_close(c);
        buf_free(&s.text);
    }
}

static void assert_error(const char *body, const char *sentence)
{
    struct err e = {0};
    completion_error(body, strlen(body), &e);
    assert_string_equal(e.msg, sentence);
}

static void test_completion__an_error_of_any_shape_is_one_sentence(void **state)
{
    (void)state;
    assert_error("{\"error\": {\"message\": \"no such model\", \"code\": 404}}", "the server says: no such model");
    assert_error("{\"error\": \"model 'x' not found\"}", "the server says: model 'x' not found");
    assert_error("{\"object\": \"error\", \"message\": \"context too long\", \"type\": \"BadRequestError\"}", "the server says: context too long");
    assert_error("{\"detail\": \"Unauthorized\"}", "the server says: Unauthorized");
    assert_error("{\"detail\": [{\"loc\": [\"body\"], \"msg\": \"field required\"}]}", "the server says: field required");
    assert_error("upstream connect error\n", "the server says: upstream connect error");
    assert_error("<html><body>502</body></html>", "the server reported an error without a message");
    assert_error("", "the server reported an error without a message");
    assert_error("{}", "the server reported an error without a message");
}

static void test_completion__what_is_no_stream_is_refused(void **state)
{
    (void)state;
    static const char *const bodies[] = {"data: nonsense\n\n", "data: [1, 2]\n\n", "data: {\"choices\": [\n\n", "data: \"\xff\"\n\n"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct story s = {0};
        struct err e = {0};
        struct completion *c = completion_open(note, &s, false);
        assert_false(completion_push(c, bodies[i], strlen(bodies[i]), &e));
        assert_non_null(strstr(e.msg, "not a JSON object"));
        completion_close(c);
        buf_free(&s.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_completion__streams_of_all_servers_read_the_same_however_they_are_cut),
        cmocka_unit_test(test_completion__an_answer_without_an_end_is_stopped),
        cmocka_unit_test(test_completion__blank_lines_are_dropped_at_the_beginning_alone),
        cmocka_unit_test(test_completion__an_error_of_any_shape_is_one_sentence),
        cmocka_unit_test(test_completion__what_is_no_stream_is_refused),
    };
    return cmocka_run_group_tests_name("completion", tests, NULL, NULL);
}
