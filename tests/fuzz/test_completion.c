/* Streams of servers put together at random from chunks and pieces of them (the same ones each time), for two seconds: however they are cut the
 * answer is the same, a call begins before it ends, and arguments that are not truncated are a JSON object. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <string.h>

#include "base/buf.h"
#include "remote/completion.h"
#include "tests/fuzz/long_run.h"

static uint64_t rnd_state = 11;
static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rnd_state >> 32) * below >> 32);
}

static const char *const bits[] = {
    "data: ", "data:", "event: error", ":", "\n", "\n\n", "\r\n", "\r\n\r\n", "\r", "[DONE]", "{", "}", "[", "]", "\"", ",", "null", "-1", "1e99",
    "\xef\xbb\xbf", "\xff", "é",
    "data: {\"choices\": [{\"delta\": {\"content\": \"word \"}}]}\n\n",
    "data: {\"choices\": [{\"delta\": {\"reasoning\": \"hm\", \"reasoning_content\": \"hm\"}}]}\n\n",
    "data: {\"choices\": [{\"delta\": {\"tool_calls\": [{\"index\": 0, \"id\": \"a\", \"function\": {\"name\": \"f\", \"arguments\": "
    "\"{\"}}]}}]}\n\n",
    "data: {\"choices\": [{\"delta\": {\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": \"}\"}}]}}]}\n\n",
    "data: {\"choices\": [{\"delta\": {\"tool_calls\": [{\"index\": 1, \"function\": {\"name\": \"g\", \"arguments\": {\"x\": [1]}}}, {\"index\": "
    "\"2\"}, 3]}}]}\n\n",
    "data: {\"choices\": [{\"delta\": {}, \"finish_reason\": \"tool_calls\"}]}\n\n", "data: {\"choices\": [{\"finish_reason\": \"length\"}]}\n\n",
    "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 5, \"completion_tokens\": -3}}\n\n",
    "data: {\"prompt_progress\": {\"total\": 3, \"processed\": 9}}\n\n",
    "data: {\"error\": null}\n\n", "data: {\"timings\": {\"prompt_n\": 1e300, \"draft_n\": 2}}\n\n", "data: {\"choices\": 7}\n\n",
    "data: {\"choices\": [{\"delta\": \"x\"}]}\n\n",
};

struct told {
    struct buf text;
    bool in_call, wrong;
};

static void note(const struct completion_delta *d, void *arg)
{
    struct told *t = arg;
    t->wrong |= (d->kind == COMPLETION_CALL) != t->in_call && (d->kind == COMPLETION_CALL || d->kind == COMPLETION_CALL_BEGIN);
    t->in_call = d->kind == COMPLETION_CALL_BEGIN || (t->in_call && d->kind != COMPLETION_CALL);
    if (d->kind == COMPLETION_CALL && !d->truncated) {
        json_t *v = json_loadb(d->text.p, d->text.n, 0, NULL);
        t->wrong |= !json_is_object(v);
        json_decref(v);
    }
    buf_addf(&t->text, "%d %d %zu %zu ", (int)d->kind, d->truncated, d->done, d->total);
    buf_add(&t->text, d->text.p ? d->text.p : "", d->text.n);
}

static void read_stream(const struct buf *body, bool whole, struct told *t)
{
    struct err e = {0};
    struct completion *c = completion_open(note, t, false);
    bool ok = true;
    for (size_t at = 0, n; ok && at < body->len; at += n) {
        n = whole ? body->len : 1 + rnd(20);
        n = n < body->len - at ? n : body->len - at;
        ok = completion_push(c, body->data + at, n, &e);
    }
    ok = ok && completion_end(c, &e);
    completion_cut(c);
    buf_addf(&t->text, "%d %s %d", ok, e.msg, (int)completion_finish(c));
    completion_close(c);
}

static void test_completion__random_streams_read_the_same_however_they_are_cut(void **state)
{
    (void)state;
    struct buf body = {0};
    struct told a = {0}, b = {0};
    struct long_run run;
    rnd_state = long_run_seed(rnd_state);
    for (run = long_run_begin(2, 1); long_run_goes_on(&run);) {
        buf_reset(&body);
        for (uint32_t n = rnd(30); n; n--) {
            const char *bit = bits[rnd(sizeof bits / sizeof *bits)];
            buf_add(&body, bit, strlen(bit) - (rnd(60) == 0));
        }
        buf_reset(&a.text);
        buf_reset(&b.text);
        a.in_call = b.in_call = false;
        read_stream(&body, true, &a);
        read_stream(&body, false, &b);
        if (a.wrong || b.wrong || strcmp(buf_str(&a.text), buf_str(&b.text)))
            fail_msg("%s\nfrom\n%s\nor\n%s", body.data, buf_str(&a.text), buf_str(&b.text));
    }
    print_message("%ld inputs\n", run.n);
    buf_free(&body);
    buf_free(&a.text);
    buf_free(&b.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_completion__random_streams_read_the_same_however_they_are_cut),
    };
    return cmocka_run_group_tests_name("completion fuzz", tests, NULL, NULL);
}
