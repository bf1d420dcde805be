/* Answers put together at random from tags, names, values and bytes (the same ones each time), for two seconds: however they are
 * cut the events are the same, arguments are JSON objects, and no text but markup and white space gets lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/events.h"
#include "tests/fuzz/long_run.h"

static uint64_t rnd_state = 7;
static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rnd_state >> 32) * below >> 32);
}

static const char *const bits[] = {
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_call>\n<function=", "<function=", "f>", "g>", "f", "</function>", "<parameter=",
    "a>", "b>\n", "c>", "d", ">", "</parameter>", "\n</parameter>\n", "\n</function>\n", "\n</tool_call>\n", "\n", "\n\n", " ", "\t", "\r\n", "<",
    "</", "<tool_call>{\"name\": \"f\", \"arguments\": ", "{\"name\": \"g\", \"arguments\": {\"b\": \"5\"}}", "\"g\">", "\\\"",
    "x", "5", "-7", "1e400", "true", "None", "null", "{", "}", "[", "]", "{'a': None}", "[1, 2]", "\"", "'", "\\", ",", ":", "word ", "\xe3\x80\x80",
    "\xe3",
    "\x80", "\xf0\x9f\x99\x82", "\xc2", "\xa0", "\xff", "é",
};

static void make(struct buf *b)
{
    buf_reset(b);
    for (uint32_t n = rnd(40); n; n--) {
        const char *bit = bits[rnd(sizeof bits / sizeof *bits)];
        buf_add(b, bit, strlen(bit) - (rnd(30) == 0));
        if (rnd(200) == 0)
            buf_addc(b, 0);
    }
}

static const char *const tool_json[] = {
    "{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"object\"}, \"b\": {\"type\": \"integer\"}, "
    "\"c\": {\"anyOf\": [{\"type\": \"array\"}, {\"type\": \"number\"}, {\"type\": \"string\"}]}}}}}",
    "{\"name\": \"g\"}",
};

struct told {
    struct events e;
    const struct buf *input;
    size_t next[2];                     /* in the input, of either text */
    bool misplaced;
    bool bad_arguments;
    struct buf pieces;                  /* of the open call's arguments */
};

static json_t *load(const char *p, size_t n)
{
    return json_loadb(p, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
}

/* True if the arguments begin with their pieces; or, where a parameter came twice, are the same when they follow the pieces, since the last one of a
 * key counts. */
static bool continues(const struct buf *pieces, struct text whole, size_t closing)
{
    struct buf both = {0};
    if (!pieces->len || (pieces->len <= whole.n && !memcmp(pieces->data, whole.p, pieces->len)))
        return true;
    buf_addf(&both, "%s, ", pieces->data);
    buf_add(&both, whole.p + 1, whole.n + closing - 1);
    json_t *a = load(both.data, both.len), *b = load(whole.p, whole.n + closing);
    const bool same = json_equal(a, b) || !b;
    json_decref(a);
    json_decref(b);
    buf_free(&both);
    return same;
}

static void on_delta(const struct delta *d, void *arg)
{
    struct told *t = arg;
    events_add(d, &t->e);
    if (d->kind == DELTA_REASONING || d->kind == DELTA_CONTENT) {       /* it says where it stands, and never goes back */
        size_t *next = &t->next[d->kind == DELTA_CONTENT];
        t->misplaced |= d->from < *next || d->from + d->text.n > t->input->len || memcmp(t->input->data + d->from, d->text.p, d->text.n);
        *next = d->from + d->text.n;
    }
    if (d->kind == DELTA_CALL_BEGIN)
        buf_reset(&t->pieces);
    if (d->kind == DELTA_CALL_PIECE)
        buf_add(&t->pieces, d->text.p, d->text.n);
    if (d->kind != DELTA_CALL_END)
        return;
    t->bad_arguments |= !continues(&t->pieces, d->text, d->closing);
    json_error_t e;
    json_t *o = json_loadb(d->text.p, d->text.n + d->closing, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &e);
    t->bad_arguments |= !json_is_object(o) && json_error_code(&e) != json_error_null_byte_in_key;      /* jansson's own limit */
    json_decref(o);
    o = d->truncated ? json_loadb(d->text.p, d->text.n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &e) : NULL;
    t->bad_arguments |= o != NULL;      /* what broke off is no JSON */
    json_decref(o);
}

/* pieces: 0 for the whole, else pieces of 1 .. that many bytes. */
static void feed(struct told *t, const struct buf *b, int n_tools, bool thinking, bool cut, uint32_t pieces)
{
    struct text tools[] = {text_of(tool_json[0]), text_of(tool_json[1])};
    struct stream *s = stream_open(tools, n_tools, thinking, on_delta, t);
    t->input = b;
    for (size_t at = 0; at < b->len;) {
        size_t n = pieces ? 1 + rnd(pieces) : b->len;
        n = n < b->len - at ? n : b->len - at;
        stream_push(s, b->data + at, n);
        at += n;
    }
    stream_finish(s, cut);
    stream_close(s);
    buf_free(&t->pieces);
    events_end(&t->e);
    assert_false(t->e.wrong);
    assert_false(t->bad_arguments);
    assert_false(t->misplaced);
}

static void test_stream__random_answers_do_not_depend_on_how_they_are_cut(void **state)
{
    (void)state;
    struct buf b = {0};
    struct long_run run = long_run_begin(2, 1);
    rnd_state = long_run_seed(rnd_state);
    while (long_run_goes_on(&run)) {
        make(&b);
        int n_tools = (int)rnd(4);
        bool thinking = rnd(2), cut = rnd(2);
        n_tools = n_tools < 2 ? n_tools : 2;
        struct told whole = {0};
        feed(&whole, &b, n_tools, thinking, cut, 0);
        for (uint32_t pieces = 1; pieces <= 8; pieces *= 2) {
            struct told t = {0};
            feed(&t, &b, n_tools, thinking, cut, pieces);
            if (t.e.line.len != whole.e.line.len || (t.e.line.len && memcmp(t.e.line.data, whole.e.line.data, t.e.line.len)))
                fail_msg("%s\n   whole %s\n   cut   %s", buf_str(&b), buf_str(&whole.e.line), buf_str(&t.e.line));
            events_free(&t.e);
        }
        events_free(&whole.e);
    }
    print_message("%ld inputs\n", run.n);
    buf_free(&b);
}

/* Without tools all that may vanish is white space at the ends and the think tags. */
static void test_stream__without_tools_every_word_is_reported(void **state)
{
    (void)state;
    struct buf b = {0};
    for (int i = 0; i < 20000; i++) {
        struct events x = {0};
        make(&b);
        buf_addc(&b, '!');
        struct stream *s = stream_open(NULL, 0, rnd(2), events_add, &x);
        stream_push(s, b.data, b.len);
        stream_finish(s, rnd(2));
        stream_close(s);
        events_end(&x);
        size_t in[128] = {0}, out[128] = {0};
        for (size_t k = 0; k < b.len; k++)
            in[b.data[k] & 127]++;
        for (size_t k = 0; k < x.line.len; k++)
            out[x.line.data[k] & 127]++;
        assert_int_equal(in['w'], out['w']);
        assert_int_equal(in['5'], out['5']);
        assert_int_equal(in['_'], out['_']);
        assert_int_equal(in['!'], out['!']);
        events_free(&x);
    }
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream__random_answers_do_not_depend_on_how_they_are_cut),
        cmocka_unit_test(test_stream__without_tools_every_word_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
