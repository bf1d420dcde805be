/* Streams and whole replies of /v1/messages and /v1/responses: which events come for an answer, that they add up, and that both say the same. */
#include "tests/unit/asked.h"
#include "tests/fuzz/long_run.h"

/* A token is a character. */
static struct text piece(const struct responder *r, int32_t id)
{
    static char texts[128][2];
    (void)r;
    texts[id & 127][0] = (char)id;
    return text_of(texts[id & 127]);
}

static const struct responder_ops ops = {.piece = piece};
static const struct responder responder = {.ops = &ops};
static const struct stats figures = {.n_prompt = 10, .n_cached = 4, .n_tokens = 7};

/* ---- an answer: parts "K=VALUE" with "|" between them: r reasoning, t text, c "NAME ARGUMENTS" a call, b one that breaks off, n one that breaks
 * off in its name, e how it ends ---- */

static void give_text(struct response *r, enum news_kind kind, struct text v, size_t *at)
{
    const struct logprobs likely = {.prob = 0.5f, .n = 1, .ids = {'x'}, .probs = {0.25f}};
    for (size_t i = 0; i < v.n; i++)
        response_news(r, &(struct news){.kind = NEWS_TOKEN, .alternatives = &likely, .stats = &figures,
                                        .token = {.id = v.p[i], .from = *at + i, .prob = 0.5f, .reasoning = kind == NEWS_REASONING}});
    response_news(r, &(struct news){.kind = kind, .text = v, .from = *at});
    *at += v.n;
}

static void give_call(struct response *r, struct text v, bool broken, int number)
{
    const struct text name = asked_word(&v), half = {v.p, v.n / 2 + 1};
    response_news(r, &(struct news){.kind = NEWS_TOKEN, .token = {.id = '<', .prob = -1}, .stats = &figures});
    response_news(r, &(struct news){.kind = NEWS_CALL_BEGIN, .text = text_of(arena_strndup(&a, name.p, name.n)),
                                    .id = text_of(arena_printf(&a, "call_%d", number))});
    response_news(r, &(struct news){.kind = NEWS_CALL_PIECE, .text = half});
    response_news(r, &(struct news){.kind = NEWS_CALL, .text = v, .truncated = broken});
}

/* The parser's news of a call whose name broke off. */
static void give_nameless(struct response *r)
{
    response_news(r, &(struct news){.kind = NEWS_CALL_BEGIN, .text = text_of(""), .id = text_of("call_n"), .truncated = true});
    response_news(r, &(struct news){.kind = NEWS_CALL, .text = text_of("{"), .truncated = true});
}

/* Returns the reply to the question that was read. */
static const char *reply(const char *answer)
{
    struct response r;
    struct news last = {.kind = NEWS_DONE, .end = END_STOP, .stats = &figures};
    const struct asked parts = asked_of(answer, false, false);
    size_t at = 0;
    response_begin(&r, &q, &responder, "demo");
    for (int i = 0; i < parts.n; i++) {
        const struct text v = parts.all[i].v;
        const char kind = parts.all[i].kind;
        if (kind == 'r' || kind == 't')
            give_text(&r, kind == 'r' ? NEWS_REASONING : NEWS_TEXT, v, &at);
        else if (kind == 'e')
            last.end = end_of_word(arena_strndup(&a, v.p, v.n));
        else if (kind == 'n')
            give_nameless(&r);
        else
            give_call(&r, v, kind == 'b', i);
    }
    response_done(&r, &last);
    const char *out = arena_strndup(&a, buf_str(&r.out), r.out.len);
    response_free(&r);
    return out;
}

/* ---- events ---- */

struct event { const char *type; struct pyjson v; };
struct events { struct event *all; int n, cap; };

static struct pyjson parsed(struct text t)
{
    struct pyjson v;
    if (!pyjson_parse(&v, t, PYJSON_LOADS, &a, &e))
        fail_msg("%s: %.*s", e.msg, (int)t.n, t.p);
    return v;
}

/* Returns the text under the key; "": there is none. */
static const char *text_at(const struct pyjson *v, const char *key)
{
    const struct pyjson *t = pyjson_given(v, key);
    return t && t->kind == PY_STR ? arena_strndup(&a, t->text.p, t->text.n) : "";
}

static int number_at(const struct pyjson *v, const char *key)
{
    const struct pyjson *t = pyjson_given(v, key);
    return t && t->kind == PY_INT ? (int)strtol(arena_strndup(&a, t->text.p, t->text.n), NULL, 10) : -1;
}

/* Splits a stream.  Each event has its name twice. */
static struct events events_of(const char *stream)
{
    struct events l = {0};
    while (*stream) {
        char name[80];
        int n = 0;
        if (sscanf(stream, "event: %79s\ndata: %n", name, &n) != 1 || !n)
            fail_msg("no event: %.200s", stream);
        const char *end = strstr(stream, "\n\n");
        assert_non_null(end);
        l.all = arena_grow(&a, l.all, l.n, &l.cap, sizeof *l.all);
        struct event *ev = &l.all[l.n++];
        *ev = (struct event){arena_strdup(&a, name), parsed((struct text){stream + n, (size_t)(end - stream - n)})};
        assert_string_equal(text_at(&ev->v, "type"), ev->type);
        stream = end + 2;
    }
    return l;
}

/* The types with blanks between them, without what all begin with; a delta after another one of that type is left out. */
static const char *types_of(const struct events *l)
{
    struct buf b = {0};
    for (int i = 0; i < l->n; i++)
        if (!i || !strstr(l->all[i].type, "delta") || strcmp(l->all[i].type, l->all[i - 1].type))
            buf_addf(&b, "%s%s", b.len ? " " : "", l->all[i].type + (!strncmp(l->all[i].type, "response.", 9) ? 9 : 0));
    const char *text = arena_strdup(&a, buf_str(&b));
    buf_free(&b);
    return text;
}

static const char *dumped(const struct pyjson *v)
{
    struct buf b = {0};
    pyjson_dump(v, &b);
    const char *text = arena_strdup(&a, b.data);
    buf_free(&b);
    return text;
}

/* Numbers are without gaps, deltas add up to what their end has, and the items that ended are those of the response at the end.
 * Returns its status. */
static const char *check_responses(const struct events *l)
{
    struct buf texts[ASKED_MOST] = {{0}}, items = {0};
    for (int i = 0; i < l->n; i++) {
        const struct pyjson *v = &l->all[i].v;
        const int at = number_at(v, "output_index");
        const char *type = l->all[i].type;
        assert_int_equal(number_at(v, "sequence_number"), i);
        assert_true(at < ASKED_MOST);
        if (text_ends(text_of(type), ".delta"))
            buf_adds(&texts[at], text_at(v, "delta"));
        else if (text_ends(text_of(type), "_text.done") || text_ends(text_of(type), "_arguments.done") || text_ends(text_of(type), "_input.done"))
            assert_string_equal(buf_str(&texts[at]), arena_printf(&a, "%s%s%s", text_at(v, "text"), text_at(v, "arguments"), text_at(v, "input")));
        else if (text_ends(text_of(type), "output_item.done"))
            buf_addf(&items, "%s%s", items.len ? ", " : "", dumped(pyjson_get(v, "item")));
    }
    const struct pyjson *last = pyjson_given(&l->all[l->n - 1].v, "response");
    assert_string_equal(dumped(pyjson_get(last, "output")), arena_printf(&a, "[%s]", buf_str(&items)));
    assert_string_equal(text_at(last, "status"), l->all[l->n - 1].type + strlen("response."));
    for (int i = 0; i < ASKED_MOST; i++)
        buf_free(&texts[i]);
    buf_free(&items);
    return text_at(last, "status");
}

/* Blocks come one after the other, with the next number each, and only an open one gets deltas. */
static void check_messages(const struct events *l)
{
    int n = 0;
    bool open = false;
    for (int i = 0; i < l->n; i++) {
        const char *type = l->all[i].type;
        const int at = number_at(&l->all[i].v, "index");
        assert_true(!i == !strcmp(type, "message_start") || !strcmp(type, "error"));
        if (!strcmp(type, "content_block_start")) {
            assert_true(!open && at == n++);
            open = true;
        } else if (!strcmp(type, "content_block_delta") || !strcmp(type, "content_block_stop")) {
            assert_true(open && at == n - 1);
            open = strcmp(type, "content_block_stop") != 0;
        } else if (!strncmp(type, "message_", 8)) {
            assert_false(open);
        }
    }
    assert_true(!strcmp(l->all[l->n - 1].type, "message_stop") || !strcmp(l->all[l->n - 1].type, "error"));
}

/* ---- tests ---- */

static void ask(const struct format *f, bool streams, const char *more)
{
    const char *talk = f == &format_responses ? "\"input\": \"q\", \"tools\": [{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}, "
                       "{\"type\": \"custom\", \"name\": \"note\"}]" : "\"max_tokens\": 9, \"messages\": [{\"role\": \"user\", \"content\": \"q\"}]";
    if (!read_as(f, arena_printf(&a, "{%s, \"stream\": %s%s}", talk, streams ? "true" : "false", more)))
        fail_msg("%s", e.msg);
}

#define ITEM(inside) " output_item.added " inside " output_item.done"
#define PART(kind) ITEM("content_part.added " kind "_text.delta " kind "_text.done content_part.done")
#define CALLED ITEM("function_call_arguments.delta function_call_arguments.done")
#define BLOCK " content_block_start content_block_delta content_block_stop"
#define OVER " message_delta message_stop"

static void test_replies__a_stream_has_these_events(void **state)
{
    (void)state;
    static const struct { const char *answer, *responses, *messages; } cases[] = {
        {"t=Hello|t= you|e=stop", PART("output") " completed", BLOCK OVER},
        {"r=Hm|r=m|t=so|e=stop", PART("reasoning") PART("output") " completed", BLOCK BLOCK OVER},
        {"c=f {\"x\": 1}|e=stop", CALLED " completed", BLOCK OVER},
        {"r=Hm|t=I look|c=f {\"x\": \"long\"}|c=f {}|e=stop",
         PART("reasoning") PART("output") CALLED CALLED " completed", BLOCK BLOCK BLOCK BLOCK OVER},
        {"c=note {\"input\": \"a\\nb\"}|e=stop", ITEM("custom_tool_call_input.delta custom_tool_call_input.done") " completed", BLOCK OVER},
        {"t=Hello|e=length", PART("output") " incomplete", BLOCK OVER}, {"r=Hm|e=context", PART("reasoning") " incomplete", BLOCK OVER},
        {"t=Hello|e=interrupted", PART("output") " incomplete", BLOCK OVER},
        {"t=a|b=f {\"x\": \"lon|e=length", PART("output") " output_item.added function_call_arguments.delta incomplete", BLOCK BLOCK OVER},
        {"b=note {\"input\": \"lon|e=stop", " output_item.added incomplete", BLOCK OVER}, {"e=stop", " completed", OVER},
        {"c=f {}|b=f {\"x|e=stop", CALLED " output_item.added function_call_arguments.delta incomplete", BLOCK BLOCK OVER},
        {"t=Hello|e=error", " output_item.added content_part.added output_text.delta failed", " content_block_start content_block_delta error"},
        {"r=Hm|e=error", " output_item.added content_part.added reasoning_text.delta failed", " content_block_start content_block_delta error"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask(&format_responses, true, "");
        struct events l = events_of(reply(cases[i].answer));
        assert_string_equal(types_of(&l), arena_printf(&a, "created in_progress%s", cases[i].responses));
        check_responses(&l);
        ask(&format_messages, true, ", \"thinking\": {\"type\": \"adaptive\"}");
        l = events_of(reply(cases[i].answer));
        assert_string_equal(types_of(&l), arena_printf(&a, "message_start%s", cases[i].messages));
        check_messages(&l);
    }
}

static void test_replies__a_response_repeats_its_request(void **state)
{
    (void)state;
    static const char given[] = ", \"instructions\": \"be kind\", \"temperature\": 0.5, \"top_p\": 0.25, \"max_output_tokens\": 77, "
        "\"metadata\": {\"k\": \"v\"}, \"tool_choice\": \"none\", \"parallel_tool_calls\": false, \"reasoning\": {\"effort\": \"low\", "
        "\"summary\": \"auto\"}, \"text\": {\"format\": {\"type\": \"json_object\"}}, \"truncation\": \"auto\", \"user\": \"me\", "
        "\"safety_identifier\": \"s\", \"prompt_cache_key\": \"p\", \"store\": true";
    for (int streams = 0; streams < 2; streams++) {
        ask(&format_responses, streams, given);
        const char *text = reply("t=Hello|e=stop");
        struct pyjson whole = streams ? (struct pyjson){0} : parsed(text_of(text)), wanted = parsed(text_of(arena_printf(&a, "{%s}", given + 2)));
        const struct events l = streams ? events_of(text) : (struct events){0};
        const struct pyjson *first = streams ? pyjson_get(&l.all[0].v, "response") : &whole;
        const struct pyjson *last = streams ? pyjson_get(&l.all[l.n - 1].v, "response") : first;
        for (size_t i = 0; i + 1 < wanted.n; i++)
            for (int k = 0; k < 2; k++)
                assert_string_equal(dumped(pyjson_item(k ? last : first, wanted.keys[i])), dumped(&wanted.items[i]));
        assert_string_equal(dumped(pyjson_get(last, "store")), "false");        /* nothing is */
        assert_non_null(strstr(dumped(pyjson_get(last, "tools")), "\"name\": \"note\""));
        assert_int_equal(number_at(pyjson_get(last, "usage"), "total_tokens"), 17);
        assert_string_equal(dumped(pyjson_get(pyjson_get(last, "usage"), "input_tokens_details")),
                            "{\"cached_tokens\": 4, \"cache_write_tokens\": 0}");
    }
    ask(&format_responses, false, "");
    const struct pyjson plain = parsed(text_of(reply("t=Hello|e=stop")));
    assert_string_equal(dumped(pyjson_get(&plain, "text")), "{\"format\": {\"type\": \"text\"}}");
    assert_string_equal(dumped(pyjson_get(&plain, "temperature")), "null");
    assert_string_equal(dumped(pyjson_get(&plain, "parallel_tool_calls")), "true");
}

static void test_replies__a_response_has_logprobs_where_they_are_wanted(void **state)
{
    (void)state;
    static const char *const fields[] = {"", ", \"include\": [\"message.output_text.logprobs\"]", ", \"top_logprobs\": 1"};
    for (int i = 0; i < 3; i++)
        for (int streams = 0; streams < 2; streams++) {
            ask(&format_responses, streams, fields[i]);
            const char *text = reply("r=Hm|t=Hello|t= you|c=f {}|e=stop");
            const struct events l = streams ? events_of(text) : (struct events){0};
            const struct pyjson whole = streams ? *pyjson_get(&l.all[l.n - 1].v, "response") : parsed(text_of(text));
            const struct pyjson *message = &pyjson_get(&whole, "output")->items[1], *part = &pyjson_get(message, "content")->items[0];
            const struct pyjson *all = pyjson_get(part, "logprobs");
            assert_int_equal(all->n, i ? strlen("Hello you") : 0);
            for (size_t k = 0; k < all->n; k++) {
                assert_string_equal(text_at(&all->items[k], "token"), arena_printf(&a, "%c", "Hello you"[k]));
                assert_int_equal(pyjson_get(&all->items[k], "top_logprobs")->n, i == 2);
            }
            size_t n = 0;
            for (int k = 0; k < l.n; k++)
                n += strstr(l.all[k].type, "output_text.delta") ? pyjson_get(&l.all[k].v, "logprobs")->n : 0;
            assert_int_equal(n, streams ? all->n : 0);
        }
}

/* The text of a custom call is its parameter, whatever the model named it; that of a call with others is their JSON. */
static void test_replies__a_custom_call_has_the_text_alone(void **state)
{
    (void)state;
    static const struct { const char *arguments, *input; } cases[] = {
        {"{\"input\": \"*** Begin Patch\\n+\\u00e9\\n\"}", "*** Begin Patch\n+\xc3\xa9\n"}, {"{\"patch\": \"p\"}", "p"},
        {"{\"x\": \"y\", \"input\": \"i\"}", "i"}, {"{}", "{}"}, {"{\"x\": 1}", "{\"x\": 1}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int streams = 0; streams < 2; streams++) {
            ask(&format_responses, streams, "");
            const char *text = reply(arena_printf(&a, "c=note %s|e=stop", cases[i].arguments));
            const struct events l = streams ? events_of(text) : (struct events){0};
            const struct pyjson whole = streams ? *pyjson_get(&l.all[l.n - 1].v, "response") : parsed(text_of(text));
            const struct pyjson *item = &pyjson_get(&whole, "output")->items[0];
            assert_string_equal(text_at(item, "type"), "custom_tool_call");
            assert_string_equal(text_at(item, "input"), cases[i].input);
            assert_string_equal(text_at(item, "call_id"), "call_0");
        }
}

static void test_replies__an_answer_that_is_not_whole_never_looks_so(void **state)
{
    (void)state;
    static const struct { const char *answer, *status, *reason, *stop; } cases[] = {
        {"t=a|e=length", "incomplete", "max_output_tokens", "max_tokens"},
        {"t=a|e=context", "incomplete", "max_output_tokens", "model_context_window_exceeded"},
        {"t=a|e=interrupted", "incomplete", "interrupt", "max_tokens"}, {"t=a|b=f {\"x|e=stop", "incomplete", "model", "max_tokens"},
        {"t=a|e=stop", "completed", "", "end_turn"}, {"c=f {}|e=stop", "completed", "", "tool_use"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int streams = 0; streams < 2; streams++) {
            ask(&format_responses, streams, "");
            const char *text = reply(cases[i].answer);
            struct events l = streams ? events_of(text) : (struct events){0};
            const struct pyjson whole = streams ? *pyjson_get(&l.all[l.n - 1].v, "response") : parsed(text_of(text));
            assert_string_equal(text_at(&whole, "status"), cases[i].status);
            assert_string_equal(text_at(pyjson_given(&whole, "incomplete_details"), "reason"), cases[i].reason);
            assert_int_equal(pyjson_get(&whole, "output")->n, 1);       /* a call that broke off is no item */
            ask(&format_messages, streams, "");
            text = reply(cases[i].answer);
            l = streams ? events_of(text) : (struct events){0};
            const struct pyjson message = streams ? *pyjson_get(&l.all[l.n - 2].v, "delta") : parsed(text_of(text));
            assert_string_equal(text_at(&message, "stop_reason"), cases[i].stop);
        }
}

/* A client must not take a part of a name for a tool: nothing of the call is sent, and the answer is not whole. */
static void test_replies__a_call_that_broke_off_in_its_name_is_not_sent(void **state)
{
    (void)state;
    static const struct { const struct format *f; const char *end; } cases[] = {
        {&format_openai, "\"finish_reason\": \"length\", \"truncated\": \"model\""}, {&format_messages, "\"stop_reason\": \"max_tokens\""},
        {&format_responses, "\"incomplete_details\": {\"reason\": \"model\"}"}, {&format_ollama, "\"done_reason\": \"length\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int streams = 0; streams < 2; streams++) {
            ask(cases[i].f, streams, "");
            const char *text = reply("t=a|c=f {}|n=|e=stop");
            assert_null(strstr(text, "call_n"));
            assert_null(strstr(text, "call_2"));
            assert_non_null(strstr(text, cases[i].end));
        }
}

static uint64_t rnd_state = 29;
static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rnd_state >> 32) * below >> 32);
}

/* Appends the kind of an item or a block, whose names differ in the dialects, and its text. */
static void add_kind(struct buf *b, const char *type, const char *text)
{
    static const char *const kinds[][4] = {{"reasoning", "thinking"}, {"message", "text"}, {"function_call", "custom_tool_call", "tool_use"}};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4 && kinds[i][k]; k++)
            if (!strcmp(type, kinds[i][k]))
                buf_addf(b, "%d(%s)", i, text);
}

static const char *items_of(const struct pyjson *whole)
{
    struct buf b = {0};
    const struct pyjson *list = pyjson_get(whole, "output") ? pyjson_get(whole, "output") : pyjson_get(whole, "content");
    for (size_t i = 0; i < list->n; i++) {
        const struct pyjson *content = pyjson_given(&list->items[i], "content");
        add_kind(&b, text_at(&list->items[i], "type"), arena_printf(&a, "%s%s%s", content && content->n ? text_at(&content->items[0], "text") : "",
                 text_at(&list->items[i], "thinking"), text_at(&list->items[i], "text")));
    }
    const char *text = arena_strdup(&a, buf_str(&b));
    buf_free(&b);
    return text;
}

/* Whatever the answer is: the stream adds up, and the whole replies of both dialects have its parts. */
static void test_replies__any_answer_adds_up(void **state)
{
    (void)state;
    static const char *const texts[] = {"t=a", "t= \\\" b", "t=\\n\\n", "t=x y"},
        *const calls[] = {"c=f {}", "c=f {\"x\": [1, \"}\"]}", "c=note {\"input\": \"i\"}"},
        *const ends[] = {"stop", "length", "context", "interrupted", "error"};
    struct long_run run;
    rnd_state = long_run_seed(rnd_state);
    for (run = long_run_begin(1, 200); long_run_goes_on(&run);) {
        struct buf answer = {0};
        for (uint32_t n = rnd(3); n; n--)
            buf_adds(&answer, "r=hm|");
        for (uint32_t n = rnd(4); n; n--)
            buf_addf(&answer, "%s|", texts[rnd(4)]);
        for (uint32_t n = rnd(4); n; n--)
            buf_addf(&answer, "%s|", calls[rnd(3)]);
        buf_addf(&answer, "%se=%s", rnd(5) ? "" : "b=f {\"x|", ends[rnd(5)]);
        const bool failed = text_ends((struct text){answer.data, answer.len}, "error");
        const char *said[2];
        for (int d = 0; d < 2; d++) {
            const struct format *f = d ? &format_messages : &format_responses;
            const char *more = d ? ", \"thinking\": {\"type\": \"adaptive\"}" : rnd(2) ? ", \"top_logprobs\": 1" : "";
            ask(f, true, more);
            const struct events l = events_of(reply(answer.data));
            if (d)
                check_messages(&l);
            else
                said[0] = check_responses(&l);
            ask(f, false, more);
            const struct pyjson whole = parsed(text_of(reply(answer.data)));
            assert_true(failed == !!pyjson_given(&whole, "error"));
            said[d] = failed ? "" : items_of(&whole);
        }
        assert_string_equal(said[0], said[1]);
        buf_free(&answer);
        arena_free(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replies__a_stream_has_these_events),
        cmocka_unit_test(test_replies__a_response_repeats_its_request),
        cmocka_unit_test(test_replies__a_response_has_logprobs_where_they_are_wanted),
        cmocka_unit_test(test_replies__a_custom_call_has_the_text_alone),
        cmocka_unit_test(test_replies__an_answer_that_is_not_whole_never_looks_so),
        cmocka_unit_test(test_replies__a_call_that_broke_off_in_its_name_is_not_sent),
        cmocka_unit_test(test_replies__any_answer_adds_up),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
