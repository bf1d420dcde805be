/* Answers that come back in a history: which of them give the tokens that were sampled. */
#include "serve/recall.h"
#include "tests/unit/asked.h"

/* A token is a character; 1 ends an answer. */
static struct text piece(const struct responder *r, int32_t id)
{
    static char texts[128][2];
    (void)r;
    texts[id & 127][0] = (char)id;
    return id == 1 ? text_of("<|im_end|>") : text_of(texts[id & 127]);
}

static const struct responder_ops ops = {.piece = piece};
static const struct responder responder = {.ops = &ops};

/* Has the answer "said" with calls of f and g sampled in a reply of that format, and kept. */
static void keep_as(struct recall *l, const struct format *f, const char *id, bool truncated)
{
    struct question sampled_for = {.format = f};
    struct response r;
    struct tokens t = {0};
    const char *sampled = "Hm...said(calls)\1";
    sampled_for.request.thinking = true;
    sampled_for.n_alternatives = -1;
    response_begin(&r, &sampled_for, &responder, "m");
    response_news(&r, &(struct news){.kind = NEWS_REASONING, .text = text_of("Hm")});
    response_news(&r, &(struct news){.kind = NEWS_TEXT, .text = text_of("said")});
    response_news(&r, &(struct news){.kind = NEWS_CALL_BEGIN, .text = text_of("f"), .id = text_of(id)});
    response_news(&r, &(struct news){.kind = NEWS_CALL, .text = text_of("{\"x\": 1.0, \"y\": \"é\"}")});
    response_news(&r, &(struct news){.kind = NEWS_CALL_BEGIN, .text = text_of("g"), .id = text_of("second")});
    response_news(&r, &(struct news){.kind = NEWS_CALL, .text = text_of("{}"), .truncated = truncated});
    for (const char *s = sampled; *s; s++)
        tokens_add(&t, (struct token){.id = *s}, NULL);
    response_done(&r, &(struct news){.kind = NEWS_DONE, .end = END_STOP});
    recall_keep(l, &r, &t);
    response_free(&r);
    tokens_free(&t);
}

static void keep(struct recall *l, const char *id, bool truncated)
{
    keep_as(l, &format_openai, id, truncated);
}

/* Returns how many tokens are found for the answer in the request that was read. */
static int n_applied(struct recall *l)
{
    recall_apply(l, &q);
    const struct said *said = &q.request.messages[1].said;
    if (said->n) {
        assert_true(text_is(said->text, "Hm...said(calls)"));
        assert_int_equal(said->ids[0], 'H');
        assert_true(said->thinks);
    }
    return said->n;
}

static int n_found(struct recall *l, const char *answer)
{
    const char *body = arena_printf(&a, "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\", %s}]}", answer);
    if (!read_as(&format_openai, body))
        fail_msg("%s", e.msg);
    return n_applied(l);
}

#define CALL(id, name, arguments) "{\"id\": \"" id "\", \"type\": \"function\", \"function\": {\"name\": \"" name "\", \"arguments\": " arguments "}}"
#define G CALL("second", "g", "\"{}\"")
#define X "\"{\\\"x\\\": 1.0, \\\"y\\\": \\\"é\\\"}\""

static void test_recall__an_answer_is_found_however_a_client_writes_it(void **state)
{
    (void)state;
    static const struct { const char *body; bool found; } cases[] = {
        {"\"content\": \"said\", \"reasoning_content\": \"Hm\", \"tool_calls\": [" CALL("one", "f", X) ", " G "]", true},
        {"\"content\": \"said\", \"tool_calls\": [" CALL("one", "f", X) ", " G "]", true}, /* no reasoning */
        {"\"content\": [{\"type\": \"text\", \"text\": \"said\\n\"}], \"tool_calls\": [" CALL("one", "f", X) ", " G "]", true},
        {"\"content\": \"said\", \"tool_calls\": [" CALL("one", "f", "{\"y\": \"\\u00e9\", \"x\": 1}") ", " G "]", true},
        {"\"content\": \"said\", \"tool_calls\": [" CALL("one", "f", "{\"y\": \"e\", \"x\": 1}") ", " G "]", false},
        {"\"content\": \"said\", \"tool_calls\": [" CALL("one", "h", X) ", " G "]", false},
        {"\"content\": \"said\", \"tool_calls\": [" CALL("two", "f", X) ", " G "]", false},                                   /* another id */
        {"\"content\": \"said\", \"tool_calls\": [" CALL("one", "f", X) "]", false},
        {"\"content\": \"\", \"tool_calls\": [" CALL("one", "f", X) ", " G "]", false},
        {"\"content\": \"said\", \"reasoning_content\": \"Oh\", \"tool_calls\": [" CALL("one", "f", X) ", " G "]", false},
        {"\"content\": \"said\"", false},
    };
    struct recall l;
    recall_init(&l, 1 << 20);
    keep(&l, "zero", false);
    keep(&l, "one", false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (n_found(&l, cases[i].body) != (cases[i].found ? (int)strlen("Hm...said(calls)") : 0))
            fail_msg("%s", cases[i].body);
    recall_free(&l);
}

/* A conversation that was begun in one dialect goes on in another by the tokens that were sampled. */
static void test_recall__an_answer_is_found_in_every_dialect(void **state)
{
    (void)state;
    static const struct { const char *talk; bool found; } cases[] = {
        {"u=x|r=Hm|a=said|c=one f {\"x\": 1.0, \"y\": \"\\u00e9\"}|c=second g {}|o=one out", true},
        {"u=x|a=said|c=one f {\"y\": \"\\u00e9\", \"x\": 1}|c=second g {}|o=one out|o=second out", true},
        {"u=x|a=said|c=one f {\"x\": 2, \"y\": \"\\u00e9\"}|c=second g {}|o=one out", false},
        {"u=x|a=said|c=two f {\"x\": 1.0, \"y\": \"\\u00e9\"}|c=second g {}|o=two out", false},
    };
    for (int from = 0; from < N_ASKED; from++) {
        struct recall l;
        recall_init(&l, 1 << 20);
        keep_as(&l, asked_formats[from], "one", false);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            for (int k = 0; k < 2 * N_ASKED; k++) {
                const struct asked talk = asked_of(cases[i].talk, k & 1, true);
                if (!read_as(asked_formats[k / 2], asked_body(&talk, k / 2)))
                    fail_msg("%s", e.msg);
                if (n_applied(&l) != (cases[i].found ? (int)strlen("Hm...said(calls)") : 0))
                    fail_msg("%s in dialect %d", cases[i].talk, k / 2);
            }
        recall_free(&l);
    }
}

/* A call of a custom tool has its text alone in responses, and comes back so. */
static void test_recall__a_custom_call_is_found(void **state)
{
    (void)state;
    struct recall l;
    struct response r;
    struct tokens t = {0};
    recall_init(&l, 1 << 20);
    assert_true(read_as(&format_responses, "{\"input\": \"x\", \"tools\": [{\"type\": \"custom\", \"name\": \"note\"}]}"));
    response_begin(&r, &q, &responder, "m");
    response_news(&r, &(struct news){.kind = NEWS_CALL_BEGIN, .text = text_of("note"), .id = text_of("one")});
    response_news(&r, &(struct news){.kind = NEWS_CALL, .text = text_of("{\"input\": \"a\\nb\"}")});
    tokens_add(&t, (struct token){.id = 'N'}, NULL);
    response_done(&r, &(struct news){.kind = NEWS_DONE, .end = END_STOP});
    assert_non_null(strstr(r.out.data, "\"input\": \"a\\nb\""));
    recall_keep(&l, &r, &t);
    response_free(&r);
    tokens_free(&t);
    assert_true(read_as(&format_responses, "{\"input\": [{\"role\": \"user\", \"content\": \"x\"}, {\"type\": \"custom_tool_call\", \"call_id\": "
                        "\"one\", \"name\": \"note\", \"input\": \"a\\nb\"}]}"));
    recall_apply(&l, &q);
    assert_int_equal(q.request.messages[1].said.n, 1);
    recall_free(&l);
}

static void test_recall__a_broken_answer_is_not_kept_and_old_ones_go(void **state)
{
    (void)state;
    struct recall l;
    recall_init(&l, 1 << 20);
    keep(&l, "one", true);
    assert_null(l.first);
    for (int i = 0; i < 20000; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        keep(&l, id, false);
    }
    assert_in_range(l.bytes, 1 << 19, 1 << 20);
    assert_int_equal(n_found(&l, "\"content\": \"said\", \"tool_calls\": [" CALL("1", "f", X) ", " G "]"), 0);
    assert_true(n_found(&l, "\"content\": \"said\", \"tool_calls\": [" CALL("19999", "f", X) ", " G "]"));
    recall_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recall__an_answer_is_found_however_a_client_writes_it),
        cmocka_unit_test(test_recall__an_answer_is_found_in_every_dialect),
        cmocka_unit_test(test_recall__a_custom_call_is_found),
        cmocka_unit_test(test_recall__a_broken_answer_is_not_kept_and_old_ones_go),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
