/* Answers with calls, cut at every byte and at every token: by a limit, the end of the context, an interrupt, a failure, a model that ends itself
 * within a call, a connection that breaks.  No call looks complete, and none is run, that is not the whole one. */
#include "beside.h"

#include <jansson.h>

#include "remote/completion.h"
#include "serve/response.h"
#include "text/stream.h"

static const char *const tool_json[] = {
    "{\"function\": {\"name\": \"run\", \"parameters\": {\"properties\": {\"command\": {\"type\": \"string\"}, "
    "\"seconds\": {\"type\": \"integer\"}}, \"required\": [\"command\", \"seconds\"]}}}",
    "{\"function\": {\"name\": \"write\", \"parameters\": {\"properties\": {\"text\": {\"type\": \"string\"}}, "
    "\"required\": [\"text\"]}}}",
    "{\"function\": {\"name\": \"put\", \"parameters\": {\"properties\": {\"value\": {\"type\": \"object\"}, "
    "\"list\": {\"type\": \"array\"}, \"on\": {\"type\": \"boolean\"}}, \"required\": [\"value\", \"list\", \"on\"]}}}",
    "{\"name\": \"now\"}",
};
enum { N_TOOLS = sizeof tool_json / sizeof *tool_json, MOST = 8 };

#define P(name, value) "<parameter=" name ">\n" value "\n</parameter>\n"
#define CALL(name, parameters) "<tool_call>\n<function=" name ">\n" parameters "</function>\n</tool_call>"
#define RUN CALL("run", P("command", "rm -rf /home/me/proj/build") P("seconds", "120"))

static const char *const outputs[] = {
    RUN,
    "I look.\n</think>\n\nFirst this.\n\n" RUN "\n" RUN,
    "I look.\n" RUN "\n</think>\n\n",
    CALL("write", P("text", "one\ntwo \"three\" \\ \xc3\xa9\n\n<b>four</b>")),
    CALL("write", P("text", "a\n</function>\n</tool_call>\nb\n</parameter> c")),
    CALL("put", P("value", "{\"a\": {\"b\": [1, 2]}, \"c\": \"}\"}") P("list", "[1, [2], \"]\"]") P("on", "true")),
    CALL("put", P("list", "[]") P("on", "\"false\"") P("value", "{'a': None}")),
    CALL("now", "") "\n" CALL("now", "") "\n\nDone, and more.",
    "<tool_call>\n{\"name\": \"run\", \"arguments\": {\"command\": \"ls -l\", \"seconds\": 5}}\n</tool_call>\n" RUN,
    "<function=run>\n<parameter=command>\nls\n<parameter=seconds>\n5\n</function>",
    "<tool_call><function=write><parameter=text>within a line</parameter></function></tool_call>",
    CALL("unknown", P("x", "1 2 3")),
    CALL("write", P("text", "\xe4\xba\xac\xe9\x83\xbd") ) "\n" CALL("run", P("seconds", "5") P("seconds", "6") P("command", "b")),
};
enum { N_OUTPUTS = sizeof outputs / sizeof *outputs };

/* The calls of a reply, as a client has them. */
struct calls {
    struct buf arguments[MOST];
    bool truncated[MOST];               /* our own client's */
    int  n;
    char finish[32];
    bool failed;                        /* an error came, or no end */
};

static void calls_free(struct calls *c)
{
    for (int i = 0; i < MOST; i++)
        buf_free(&c->arguments[i]);
    *c = (struct calls){0};
}

/* ---- the reply ---- */

struct writer {
    struct response response;
    struct buf *out;
    size_t events[256];                 /* where they end */
    int n_events;
    bool nameless;                      /* a call broke off in its name */
};

static void write_out(struct writer *w)
{
    if (w->response.question->streams && w->response.out.len) {
        buf_add(w->out, w->response.out.data, w->response.out.len);
        buf_reset(&w->response.out);
        assert_true(w->n_events < 256);
        w->events[w->n_events++] = w->out->len;
    }
}

static void on_delta(const struct delta *d, void *arg)
{
    static const enum news_kind kinds[] = {
        [DELTA_REASONING] = NEWS_REASONING, [DELTA_CONTENT] = NEWS_TEXT, [DELTA_CALL_BEGIN] = NEWS_CALL_BEGIN, [DELTA_CALL_END] = NEWS_CALL,
        [DELTA_CALL_PIECE] = NEWS_CALL_PIECE,
    };
    struct writer *w = arg;
    w->nameless |= d->kind == DELTA_CALL_BEGIN && d->truncated;
    response_news(&w->response, &(struct news){.kind = kinds[d->kind], .text = d->text, .from = d->from, .truncated = d->truncated});
    write_out(w);
}

/* The reply to an answer of these bytes that ends so. */
static void write_reply(struct writer *w, const char *text, size_t n, enum end end, bool streams, struct buf *out)
{
    const struct question q = {.format = &format_openai, .streams = streams, .n_alternatives = -1};
    struct text tools[N_TOOLS];
    for (int i = 0; i < N_TOOLS; i++)
        tools[i] = text_of(tool_json[i]);
    *w = (struct writer){.out = out};
    response_begin(&w->response, &q, NULL, "m");
    write_out(w);
    struct stream *s = stream_open(tools, N_TOOLS, strstr(text, "</think>") != NULL, on_delta, w);
    stream_push(s, text, n);
    stream_finish(s, end != END_STOP);
    stream_close(s);
    response_done(&w->response, &(struct news){.kind = NEWS_DONE, .end = end, .text = text_of("it failed")});
    write_out(w);
    if (!streams)
        buf_add(out, w->response.out.data, w->response.out.len);
    response_free(&w->response);
}

/* ---- its readers ---- */

static bool is_name(const char *name)
{
    static const char *const names[] = {"run", "write", "put", "now", "unknown"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

/* Any client: it joins the arguments and parses them. */
static void take_calls(struct calls *c, const json_t *choice, const char *message)
{
    const json_t *list = json_object_get(json_object_get(choice, message), "tool_calls");
    const char *finish = json_string_value(json_object_get(choice, "finish_reason"));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i), *index = json_object_get(one, "index");
        const int k = index ? (int)json_integer_value(index) : (int)i;
        const char *arguments = json_string_value(json_object_get(json_object_get(one, "function"), "arguments"));
        const char *name = json_string_value(json_object_get(json_object_get(one, "function"), "name"));
        assert_true(k < MOST && arguments);
        assert_true(!name || is_name(name));    /* not a part of one */
        buf_adds(&c->arguments[k], arguments);
        c->n = k + 1 > c->n ? k + 1 : c->n;
    }
    if (finish)
        snprintf(c->finish, sizeof c->finish, "%s", finish);
}

static void read_any(const struct buf *reply, size_t n, bool streams, struct calls *c)
{
    const char *p = buf_str(reply), *end = p + n;
    while (p < end) {
        const char *stop = streams ? memmem(p, (size_t)(end - p), "\n\n", 2) : end;
        p += streams ? strlen("data: ") : 0;
        if (stop - p == strlen("[DONE]") && !memcmp(p, "[DONE]", strlen("[DONE]")))
            break;
        json_t *v = json_loadb(p, (size_t)(stop - p), 0, NULL);
        assert_non_null(v);
        c->failed |= json_object_get(v, "error") != NULL;
        take_calls(c, json_array_get(json_object_get(v, "choices"), 0), streams ? "delta" : "message");
        json_decref(v);
        p = stop + (streams ? 2 : 0);
    }
}

static void take_own(const struct completion_delta *d, void *arg)
{
    struct calls *c = arg;
    if (d->kind != COMPLETION_CALL)
        return;
    buf_add(&c->arguments[c->n], d->text.p, d->text.n);
    c->truncated[c->n++] = d->truncated;
}

/* Our own client of that stream. */
static enum completion_finish read_own(const struct buf *reply, size_t n, struct calls *c)
{
    struct err e = {{0}};
    struct completion *r = completion_open(take_own, c, false);
    c->failed = !completion_push(r, buf_str(reply), n, &e) || !completion_end(r, &e);
    completion_cut(r);
    const enum completion_finish finish = completion_finish(r);
    completion_close(r);
    return finish;
}

static bool is_object(const struct buf *text)
{
    json_t *v = json_loadb(buf_str(text), text->len, 0, NULL);
    const bool ok = json_is_object(v);
    json_decref(v);
    return ok;
}

/* A model that itself ends behind a closing tag has, for all anybody can see, only forgotten those that follow. */
static bool ends_in_tag(const char *text, size_t n)
{
    static const char *const tags[] = {"</parameter>", "</function>", "</tool_call>"};
    struct text t = text_trim((struct text){text, n});
    const char *last = t.n ? memrchr(t.p, '<', t.n) : NULL;
    const size_t part = last ? (size_t)(t.p + t.n - last) : 0;
    bool ends = false;
    for (int i = 0; i < 3 && part && !ends; i++)        /* the beginning of the next one is no part of a value either */
        ends = part < strlen(tags[i]) && !strncmp(last, tags[i], part);
    t = ends ? text_trim((struct text){t.p, t.n - part}) : t;
    ends = false;
    for (int i = 0; i < 3; i++)
        ends |= text_ends(t, tags[i]);
    return ends;
}

/* Every call that looks complete is the whole one.  Returns whether one does not. */
static bool check_calls(const char *what, size_t cut, const struct calls *got, const struct calls *whole)
{
    bool broken = false;
    for (int i = 0; i < got->n; i++) {
        const char *arguments = buf_str(&got->arguments[i]);
        const bool object = is_object(&got->arguments[i]);
        broken |= !object;
        if (!*arguments || (object && (i >= whole->n || strcmp(arguments, buf_str(&whole->arguments[i])))))
            fail_msg("%.*s\ncall %d looks complete: %s", (int)cut, what, i, arguments);
        if (!object && i + 1 < got->n)
            fail_msg("%.*s\ncall %d of %d is broken: %s", (int)cut, what, i, got->n, arguments);
    }
    return broken;
}

/* ---- each reply, cut everywhere ---- */

static const enum end ends[] = {END_STOP, END_LENGTH, END_CONTEXT, END_INTERRUPTED, END_FAILED};

static void check_reply(const char *text, size_t cut, enum end end, bool streams, const struct calls *whole)
{
    struct buf reply = {0};
    struct calls any = {0}, own = {0};
    struct writer w;
    write_reply(&w, text, cut, end, streams, &reply);
    read_any(&reply, reply.len, streams, &any);
    const bool forgot = end == END_STOP && ends_in_tag(text, cut), broken = check_calls(text, cut, &any, forgot ? &any : whole) || w.nameless;
    assert_int_equal(any.failed, end == END_FAILED);
    if (end != END_FAILED)
        assert_string_equal(any.finish, end != END_STOP || broken ? "length" : any.n ? "tool_calls" : "stop");
    if (streams) {
        const enum completion_finish finish = read_own(&reply, reply.len, &own);
        check_calls(text, cut, &own, forgot ? &own : whole);
        for (int i = 0; i < own.n; i++)
            assert_int_equal(own.truncated[i], !is_object(&own.arguments[i]));
        assert_int_equal(own.failed, end == END_FAILED);
        if (!own.failed)                /* as the chat itself sees it: it refuses a broken call, and all calls of an answer that was cut */
            assert_int_equal(finish, end == END_CONTEXT ? COMPLETION_CONTEXT : end != END_STOP ? COMPLETION_LENGTH
                                   : broken ? COMPLETION_BROKEN : COMPLETION_STOPPED);
    }
    buf_free(&reply);
    calls_free(&any);
    calls_free(&own);
}

static void read_whole(const char *text, struct calls *whole)
{
    struct buf reply = {0};
    struct writer w;
    write_reply(&w, text, strlen(text), END_STOP, false, &reply);
    read_any(&reply, reply.len, false, whole);
    assert_true(whole->n > 0);
    assert_string_equal(whole->finish, "tool_calls");
    buf_free(&reply);
}

static void test_cuts__no_call_of_a_cut_answer_looks_complete(void **state)
{
    int n = 0;
    (void)state;
    for (int i = 0; i < N_OUTPUTS; i++) {
        struct calls whole = {0};
        read_whole(outputs[i], &whole);
        for (size_t cut = 0; cut <= strlen(outputs[i]); cut++)
            for (size_t k = 0; k < 2 * sizeof ends / sizeof *ends; k++, n++)
                check_reply(outputs[i], cut, ends[k / 2], k % 2, &whole);
        calls_free(&whole);
    }
    print_message("%d replies\n", n);
}

/* The server is killed, or the connection breaks, after any event. */
static void test_cuts__no_call_of_a_broken_stream_looks_complete(void **state)
{
    (void)state;
    for (int i = 0; i < N_OUTPUTS; i++) {
        struct calls whole = {0};
        struct buf reply = {0};
        struct writer w;
        read_whole(outputs[i], &whole);
        write_reply(&w, outputs[i], strlen(outputs[i]), END_STOP, true, &reply);
        for (int k = 0; k < w.n_events; k++) {
            struct calls any = {0}, own = {0};
            read_any(&reply, w.events[k], true, &any);
            check_calls(outputs[i], strlen(outputs[i]), &any, &whole);
            read_own(&reply, w.events[k], &own);
            check_calls(outputs[i], strlen(outputs[i]), &own, &whole);
            assert_int_equal(own.failed, k + 1 < w.n_events);
            calls_free(&any);
            calls_free(&own);
        }
        buf_free(&reply);
        calls_free(&whole);
    }
}

static void test_cuts__ids_of_calls_and_replies_never_come_twice(void **state)
{
    enum { N = 200 };
    static char seen[3 * N][64];
    struct buf reply = {0};
    int n = 0;
    (void)state;
    for (int i = 0; i < N; i++) {
        struct writer w;
        buf_reset(&reply);
        write_reply(&w, outputs[1], strlen(outputs[1]), END_STOP, false, &reply);
        json_t *v = json_loadb(reply.data, reply.len, 0, NULL);
        const json_t *list = json_object_get(json_object_get(json_array_get(json_object_get(v, "choices"), 0), "message"), "tool_calls");
        assert_int_equal(json_array_size(list), 2);
        snprintf(seen[n++], sizeof *seen, "%s", json_string_value(json_object_get(v, "id")));
        for (size_t k = 0; k < 2; k++)
            snprintf(seen[n++], sizeof *seen, "%s", json_string_value(json_object_get(json_array_get(list, k), "id")));
        json_decref(v);
    }
    for (int i = 0; i < n; i++) {
        const size_t prefix = strlen(i % 3 ? "call_" : "chatcmpl-");
        assert_int_equal(strncmp(seen[i], i % 3 ? "call_" : "chatcmpl-", prefix), 0);
        assert_int_equal(strlen(seen[i]), prefix + 24);
        assert_int_equal(strspn(seen[i] + prefix, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"), 24);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(seen[i], seen[k]);
    }
    buf_free(&reply);
}

/* ---- through the chat ---- */

#define SUM "x</think>One moment.\n\n" CALL("calculator", P("expression", "12 * 12")) "\n" CALL("calculator", P("expression", "7"))

/* Outcome of an answer of which only so many tokens came (0: all): how it ended, and what was run. */
static void try_answer(struct talk *t, struct talk *chat, int tokens, enum end finish, struct buf *out)
{
    struct err e = {{0}};
    while (fake_engine->running)
        step_both(t, chat);
    for (int i = 0; i < fake.n_submits; i++)
        ids_free(&fake.prompts[i]);
    fake.n_submits = 0;
    fake.n_answers = 2;
    fake.answers[0] = (struct fake_answer){SUM, finish, .to = tokens};
    fake.answers[1] = (struct fake_answer){"x</think>So it is.", END_STOP};
    assert_true(chat_new(t->c, &e));
    submit(t, "?");
    while (!step_both(t, chat))
        ;
    buf_reset(out);
    buf_addf(out, "%s %s|%s", end_word(t->s.last.end), finish == END_FAILED ? "" : t->s.why, buf_str(&t->s.results));
}

/* Only a model that has ended by itself has its calls run, those that are whole. */
static void check_talk(struct talk *t, int tokens, enum end finish, const char *whole, const struct buf *got)
{
    if (t->s.results.len && (finish != END_STOP || strncmp(buf_str(&t->s.results), whole, t->s.results.len)))
        fail_msg("token %d, finish %d: ran %s", tokens, (int)finish, buf_str(&t->s.results));
    if (!t->s.results.len && fake.n_submits != 1)
        fail_msg("token %d, finish %d: asked again after %s", tokens, (int)finish, got->data);
}

static void test_cuts__what_was_cut_is_not_run_here_by_a_server_or_attached(void **state)
{
    static const enum end finishes[] = {END_STOP, END_LENGTH, END_CONTEXT, END_INTERRUPTED, END_FAILED};
    enum { N_FINISHES = sizeof finishes / sizeof *finishes, TOKENS = 256 };
    static struct buf local[TOKENS][N_FINISHES];
    struct talk alone, chat, others[2];
    struct buf got = {0}, results = {0};
    struct ids ids = {0};
    (void)state;
    fake_reset();
    tokenizer_encode(fake.tok, SUM, strlen(SUM), true, &ids);
    const int n = ids.n;
    ids_free(&ids);
    assert_in_range(n, 100, TOKENS - 1);
    offered = "calculator";
    open_alone(&alone);
    try_answer(&alone, NULL, 0, END_STOP, &got);
    if (strcmp(buf_str(&alone.s.results), "calculator=144;calculator=7;"))
        fail_msg("%s: %s %s", got.data, buf_str(&alone.s.reasoning), buf_str(&alone.s.text));
    buf_adds(&results, buf_str(&alone.s.results));
    for (int i = 1; i <= n; i++)
        for (int k = 0; k < N_FINISHES; k++) {
            try_answer(&alone, NULL, i, finishes[k], &local[i][k]);
            check_talk(&alone, i, finishes[k], results.data, &local[i][k]);
        }
    end(&alone);
    open_chat(&chat);
    for (int pipe = 0; pipe < 2; pipe++) {
        struct talk *t = &others[pipe];
        attach(t, pipe);
        for (int i = 1; i <= n; i++) {
            const int k = i % N_FINISHES;               /* all at all tokens would take a minute */
            try_answer(t, &chat, i, finishes[k], &got);
            check_talk(t, i, finishes[k], results.data, &got);
            if (finishes[k] != END_INTERRUPTED && strcmp(got.data, local[i][k].data))        /* nobody there has interrupted it */
                fail_msg("%s, token %d: %s\nhere: %s", pipe ? "a pipe" : "an attached chat", i, got.data, local[i][k].data);
        }
        end(t);
    }
    end(&chat);
    for (int i = 0; i < TOKENS; i++)
        for (int k = 0; k < N_FINISHES; k++)
            buf_free(&local[i][k]);
    buf_free(&got);
    buf_free(&results);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts__no_call_of_a_cut_answer_looks_complete),
        cmocka_unit_test(test_cuts__no_call_of_a_broken_stream_looks_complete),
        cmocka_unit_test(test_cuts__ids_of_calls_and_replies_never_come_twice),
        cmocka_unit_test(test_cuts__what_was_cut_is_not_run_here_by_a_server_or_attached),
    };
    return run_beside(tests, sizeof tests / sizeof *tests);
}
