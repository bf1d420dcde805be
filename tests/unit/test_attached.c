#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/limits.h"
#include "serve/server_state.h"

static bool attaches(const char *protocol, struct err *e)
{
    struct arena mem = {0};
    struct text name = {0};
    char body[160];
    snprintf(body, sizeof body, "{\"id\": \"a7\"%s%s}", *protocol ? ", \"protocol\": " : "", protocol);
    bool ok = attached_read_hello(text_of(body), &name, &mem, e);
    if (ok)
        assert_true(text_is(name, "a7"));
    arena_free(&mem);
    return ok;
}

static void test_attached__only_who_speaks_the_same_protocol_attaches(void **state)
{
    static const char *const others[] = {"", "0", "-1", "\"1\"", "1.0", "null", "99999999999999999999", "[1]"};
    char ours[16], next[16], said[64];
    struct err e = {{0}};
    (void)state;
    snprintf(ours, sizeof ours, "%d", RELAY_PROTOCOL);
    snprintf(next, sizeof next, "%d", RELAY_PROTOCOL + 1);
    snprintf(said, sizeof said, "speaks protocol %d, and the one that has loaded the model %d", RELAY_PROTOCOL + 1, RELAY_PROTOCOL);
    if (!attaches(ours, &e))
        fail_msg("%s", e.msg);
    assert_false(attaches(next, &e));
    assert_non_null(strstr(e.msg, said));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        e = (struct err){{0}};
        assert_false(attaches(others[i], &e));
        assert_non_null(strstr(e.msg, "is of another version"));
    }
}

static void test_attached__the_first_line_tells_the_protocol(void **state)
{
    struct buf line = {0};
    char wanted[48];
    (void)state;
    snprintf(wanted, sizeof wanted, "{\"protocol\": %d}\n", RELAY_PROTOCOL);
    attached_add_protocol(&line);
    assert_string_equal(line.data, wanted);
    buf_free(&line);
}

/* A request of an attached q35chat, without this key. */
static bool asks_without(const char *key, struct err *e)
{
    static const char *const pairs[][2] = {
#define SAMPLING_NUMBER(name, ...) {#name, "0.5"},
#include "config/sampling_numbers.def"
        {"top_k", "0"}, {"seed", "7"}, {"max_tokens", "0"}, {"draft_depth", "-1"}, {"lookup", "false"}, {"likely", "0"}, {"logit_bias", "{}"},
    };
    struct options *o = options_open();
    struct question q;
    struct buf body = {0};
    assert_true(options_set(o, OPT_max_tokens, "3", FROM_SET, e) && options_set(o, OPT_stop, "x", FROM_SET, e) &&
                options_set(o, OPT_logit_bias, "5=1", FROM_SET, e));
    buf_adds(&body, "{\"id\": \"a7-1\", \"conversation\": 1, \"prompt\": [1, 2]");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (strcmp(pairs[i][0], key))
            buf_addf(&body, ", \"%s\": %s", pairs[i][0], pairs[i][1]);
    buf_addc(&body, '}');
    const bool ok = format_tokens.read(&q, (struct text){body.data, body.len}, o, e);
    if (ok) {
        question_sampling(&q, o, NULL);
        const struct sampling *s = &q.request.sampling;
        assert_true(s->temperature == 0.5f && s->top_k == 0 && s->seed == 7 && s->max_tokens == 0 && s->n_bias_words == 0 && q.n_stops == 0);
        assert_true(s->draft_depth == -1 && !s->lookup && s->n_alternatives == 0);
    }
    question_free(&q);
    options_close(o);
    buf_free(&body);
    return ok;
}

static void test_attached__a_request_has_all_of_its_sampling_or_is_refused(void **state)
{
    static const char *const keys[] = {
#define SAMPLING_NUMBER(name, ...) #name,
#include "config/sampling_numbers.def"
        "top_k", "seed", "max_tokens", "draft_depth", "lookup", "likely", "logit_bias",
    };
    struct err e = {{0}};
    char wanted[96];
    (void)state;
    if (!asks_without("", &e))
        fail_msg("%s", e.msg);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(wanted, sizeof wanted, "%s is missing: a q35chat sends all of its sampling", keys[i]);
        assert_false(asks_without(keys[i], &e));
        assert_string_equal(e.msg, wanted);
    }
}

/* Reads what guides an answer; `guide` is its JSON. */
static bool guides(struct question *q, const char *guide, struct err *e)
{
    struct pyjson top;
    *q = (struct question){0};
    const char *body = arena_printf(&q->mem, "{\"rests\": true, \"guide\": %s}", guide);
    assert_true(question_object(&top, text_of(body), &q->mem, e));
    return attached_read_guide(q, &top, e);
}

static void test_attached__what_guides_an_answer_comes_whole_or_is_refused(void **state)
{
#define REST "\"text\": \"{}\", \"choices\": [], \"tools\": [{\"name\": \"f\"}], \"loose\": true, \"one_call\": true, "
    static const char *const bad[] = {
        "5", "{\"kind\": \"any\"}", "{" REST "\"kind\": \"poem\", \"allowed\": []}", "{" REST "\"kind\": \"any\", \"allowed\": [5]}",
        "{\"kind\": \"any\", \"text\": \"\", \"choices\": [], \"allowed\": [], \"tools\": {}}",
        "{\"kind\": \"any\", \"text\": \"\", \"choices\": [], \"allowed\": [], \"tools\": [{\"name\": \"a>b\"}]}",
    };
    struct err e = {{0}};
    struct question q;
    (void)state;
    assert_true(guides(&q, "{" REST "\"kind\": \"schema\", \"allowed\": [\"f\", \"g\"]}", &e));
    const struct request *r = &q.request;
    assert_true(r->form.kind == FORM_SCHEMA && text_is(r->form.text, "{}") && r->form.loose && r->form.one_call && r->thinking);
    assert_true(r->n_tools == 1 && text_is(r->tools[0], "{\"name\": \"f\"}") && r->n_allowed == 2 && text_is(r->allowed[1], "g"));
    question_free(&q);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(guides(&q, bad[i], &e));
        assert_string_equal(e.msg, "guide is not what a q35chat sends");
        question_free(&q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attached__what_guides_an_answer_comes_whole_or_is_refused),
        cmocka_unit_test(test_attached__only_who_speaks_the_same_protocol_attaches),
        cmocka_unit_test(test_attached__the_first_line_tells_the_protocol),
        cmocka_unit_test(test_attached__a_request_has_all_of_its_sampling_or_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
