/* A chat that is attached to another q35chat which answers whatever it likes: lines in any order, with any numbers, broken off anywhere.  Its news
 * still come in the order that responder/responder.h promises, an answer ends exactly once, and a call whose end never came does not look whole.  The
 * other program is a function here, in the place of the askers. */
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "responder/local.h"
#include "responder/responder.h"
#include "config/limits.h"
#include "remote/asker.h"
#include "tests/fuzz/mutate.h"
#include "text/tokenizer.h"

#define MODEL "tests/data/chat"

/* ---- the askers ---- */

struct asker {
    struct mailbox *out;
};

struct asked {
    struct asker *by;
    uint32_t tag;
    char path[32];
};

static struct {
    struct asked all[256];              /* requests under way, the oldest first */
    int   n;
    const char *wrong;
} asks;

struct asker *__wrap_asker_open(const char *socket, struct mailbox *out, struct err *e);
struct asker *__wrap_asker_open(const char *socket, struct mailbox *out, struct err *e)
{
    struct asker *a = memory_zeroed(1, sizeof *a);
    (void)socket, (void)e;
    a->out = out;
    return a;
}

static void post(struct asker *by, enum asker_what what, uint32_t tag, const struct buf *text)
{
    struct asker_event ev = {.what = what, .tag = tag};
    if (text)
        buf_add(&ev.text, buf_str(text), text->len);
    mailbox_post(by->out, &ev);
}

static void forget(int i)
{
    memmove(&asks.all[i], &asks.all[i + 1], (size_t)(--asks.n - i) * sizeof *asks.all);
}

/* The request that this asker has sent; others of it wait.  -1: there is none. */
static int first_of(const struct asker *by)
{
    int i = 0;
    while (i < asks.n && asks.all[i].by != by)
        i++;
    return i < asks.n ? i : -1;
}

void __wrap_asker_close(struct asker *a);
void __wrap_asker_close(struct asker *a)
{
    if (!a)
        return;
    if (first_of(a) >= 0)
        post(a, ASKER_ENDED, asks.all[first_of(a)].tag, NULL);
    while (first_of(a) >= 0)
        forget(first_of(a));
    free(a);
}

void __wrap_asker_ask(struct asker *a, uint32_t tag, const char *path, struct buf *body, int silence_s);
void __wrap_asker_ask(struct asker *a, uint32_t tag, const char *path, struct buf *body, int silence_s)
{
    json_t *v = json_loadb(buf_str(body), body->len, JSON_REJECT_DUPLICATES, NULL);
    (void)silence_s;
    if (!json_is_object(v) || strncmp(path, "/q35chat/", 9) || strlen(path) >= sizeof asks.all->path)
        asks.wrong = "a request is no JSON object, or has no path";
    if (asks.n == (int)COUNT(asks.all))
        asks.wrong = "requests pile up";
    else
        snprintf(asks.all[asks.n++].path, sizeof asks.all->path, "%s", path);
    asks.all[asks.n - 1].by = a;
    asks.all[asks.n - 1].tag = tag;
    json_decref(v);
    buf_free(body);
}

void __wrap_asker_stop(struct asker *a, uint32_t tag);
void __wrap_asker_stop(struct asker *a, uint32_t tag)
{
    for (int i = 0; i < asks.n; i++)
        if (asks.all[i].by == a && asks.all[i].tag == tag) {
            post(a, ASKER_ENDED, tag, NULL);
            forget(i);
            return;
        }
}

/* ---- the other program ---- */

#define STATS "\"stats\": {\"n_prompt\": 12, \"n_cached\": 5, \"n_ahead\": 1, \"n_tokens\": 3, \"n_steps\": 2, \"prefill_ms\": 1.5, \"decode_ms\": " \
    "2.5, \"bytes\": 100, \"drafts\": {\"mtp\": [[2,1],[1,0]], \"lookup\": [[1,0]]}, \"refill\": " \
    "{\"resident\": true, \"from_file\": false, \"common\": 4, \"pos\": 6}}"
static const char ready[] =
    "{\"ready\": {\"model\": \"m\", \"backend\": \"cpu\", \"formats\": \"bf16\", \"kv\": \"bf16\", \"memory\": \"1 GiB\", \"weights_in\": \"\", "
    "\"reads\": \"\", \"slow\": false, \"n_ctx\": 4096, \"draft_depth\": 2, \"n_threads\": 2, \"load_ms\": 12.5, \"kv_token_bytes\": 64, "
    "\"temperature\": 0.6, \"top_p\": 0.95, \"top_k\": 20, \"ends\": [1,2]}}";
static const char *const watch_lines[] = {
    "{\"loading\": [5,10]}", ready, ready, "{\"note\": \"the chat that had loaded the model has left\"}",
    "{\"saved\": {\"conversation\": \"7\", \"done\": 10, \"total\": 20, \"why\": \"\"}}",
    "{\"restored\": {\"conversation\": \"18446744073709551615\", \"done\": 10, \"total\": 0, \"why\": \"the file is damaged\"}}",
    "{\"ready\": {\"model\": \"\xe6\x97\xa5\xe6\x9c\xac\xe6\x97\xa5\xe6\x9c\xac\xe6\x97\xa5\xe6\x9c\xac\xe6\x97\xa5\xe6\x9c\xac\xe6\x97\xa5\xe6\x9c"
    "\xac\xe6\x97\xa5\xe6\x9c\xac\xe6\x97\xa5\xe6\x9c\xac\xe6\x97\xa5\xe6\x9c\xac\xe6\x97\xa5\xe6\x9c\xac\xe6\x97\xa5\xe6\x9c\xac\xe6\x97\xa5\xe6"
    "\x9c\xac\xe6\x97\xa5\xe6\x9c\xac\", \"n_ctx\": 8192, \"ends\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]}}",
};
static const char *const answer_lines[] = {
    "{\"reading\": [3,10,2]}", "{" STATS "}", "{\"token\": [5,1,0.5], \"likely\": [[5,0.5],[6,0.25]], " STATS "}",
    "{\"done\": \"stop\", \"why\": \"\", " STATS "}", "{\"done\": \"length\", \"why\": \"\"}", "{\"done\": \"context\", \"why\": \"\"}",
    "{\"done\": \"interrupted\", \"why\": \"\"}", "{\"done\": \"error\", \"why\": \"the device failed\"}",
};
static const char *const machine_lines[] = {
    "{\"machine\": {\"throttled\": \"heat\", \"memory_used\": 1e9, \"memory_total\": 2e9, \"celsius\": 50, \"watts\": 30.5, \"joules\": 100, "
    "\"snapshots\": 1, \"snapshots_max\": 8, \"resident\": 1, \"resident_max\": 2}}",
};
static const char *const far_words[] = {
    "\"done\":", "\"token\":", "\"reading\":", "\"likely\":", "\"stats\":", "\"ready\":", "\"note\":", "\"protocol\":", "\"saved\":", "[-1]",
    "[4096]",
    "[[1,2],[3]]", "\"stop\"", "null", "{}", "[]", ",", "\\u0000", "\\u001b",
};
static const char *const refusals[] = {
    "{\"error\": {\"message\": \"the model loads\", \"type\": \"x\"}}", "", "no JSON", "{\"error\": {\"message\": \"\\u001b[2J\\u0000\"}}",
    "{\"error\": 5}",
};
#define CALL(name, value) "<tool_call>\n<function=" name ">\n<parameter=a>\n" value "\n</parameter>\n</function>\n</tool_call>"
static const char *const answers[] = {
    "a thought\n</think>\n\nHello, \xe6\x97\xa5\xe6\x9c\xac!", "hm\n</think>\n\n" CALL("f", "1"), "</think>\n\nx " CALL("f",
    "{\"b\": [1]}") "\n" CALL("g", "two\nlines"),
    "Hello <tool_call>\n<function=f>\n", CALL("f", "</parameter> x") " y", CALL("h", "5"), "<tool_call>", "<think>again</think>" CALL("g", ""),
};

static struct {
    struct responder *r;
    struct tokenizer *tok;
    struct ids script;                  /* tokens of the answer under way */
    int  next;
    bool honest;                        /* its lines are never changed */
} far;

static void begin_script(void)
{
    const char *text = ANY(answers);
    far.script.n = far.next = 0;
    tokenizer_encode(far.tok, text, strlen(text), true, &far.script);
}

static void add_token(struct buf *line)
{
    int32_t id = far.next < far.script.n ? far.script.data[far.next++] : tokenizer_special(far.tok, "<|im_end|>");
    if (!far.honest && one_in(40))
        id = (int32_t)rnd(one_in(2) ? 600 : UINT32_MAX);
    buf_addf(line, "{\"token\": [%d,%u,0.5]%s}", id, rnd(4), one_in(8) ? ", " STATS : "");
}

static void make_line(const struct asked *q, struct buf *line)
{
    const char *other = ANY(answer_lines);
    if (!strcmp(q->path, "/q35chat/attach"))
        buf_adds(line, ANY(watch_lines));
    else if (!strcmp(q->path, "/q35chat/machine"))
        buf_adds(line, ANY(machine_lines));
    else if (!strcmp(q->path, "/q35chat/answer") && rnd(8))
        add_token(line);
    else
        buf_adds(line, other);
    if (!far.honest && one_in(6))
        mutate(line, far_words, COUNT(far_words), one_in(2) ? ready : other);
}

static void say_line(const struct asked *q)
{
    struct buf line = {0};
    make_line(q, &line);
    post(q->by, ASKER_LINE, q->tag, &line);
    buf_free(&line);
}

static void end_request(int i, enum asker_what what)
{
    struct buf text = {0};
    buf_adds(&text, ANY(refusals));
    if (one_in(4))
        mutate(&text, far_words, COUNT(far_words), refusals[0]);
    post(asks.all[i].by, what, asks.all[i].tag, what == ASKER_ENDED ? NULL : &text);
    forget(i);
    buf_free(&text);
}

/* Says a line for one of the requests that were sent, or ends it. */
static void far_step(void)
{
    if (!asks.n)
        return;
    const int i = first_of(asks.all[rnd((uint32_t)asks.n)].by);
    const char *path = asks.all[i].path;
    if (one_in(!strcmp(path, "/q35chat/attach") ? 400 : !strcmp(path, "/q35chat/answer") ? 100 : 3))
        end_request(i, rnd(3) ? ASKER_ENDED : one_in(2) ? ASKER_REFUSED : ASKER_BROKEN);
    else
        say_line(&asks.all[i]);
}

/* ---- the chat ---- */

static struct {
    bool answers;                       /* a request was taken, and its DONE has not come */
    bool dead, ready;
    int  n_calls;                       /* calls of the answer that look whole */
    bool in_call;
    size_t from;
    struct buf said;                    /* what the tokens of the answer decode to */
    struct model_info model;            /* when its request was made */
    const char *wrong;
} owner;

static size_t sum;

static void touch(struct text t)
{
    for (size_t i = 0; i < t.n; i++)
        sum += (unsigned char)t.p[i];
}

static int count_of(const struct buf *b, const char *what)
{
    int n = 0;
    for (const char *at = buf_str(b); (at = strstr(at, what)); at++)
        n++;
    return n;
}

/* True if the answer under way ends with this id.  Another program that takes over in the middle does not change that. */
static bool ends_answers(int32_t id)
{
    for (int i = 0; i < owner.model.n_ends; i++)
        if (owner.model.ends[i] == id)
            return true;
    return false;
}

static void take_token(const struct news *it)
{
    size_t n = 0;
    const char *bytes = tokenizer_bytes(far.tok, it->token.id, &n);
    const bool hidden = ends_answers(it->token.id) || tokenizer_is_special(far.tok, it->token.id);
    for (size_t i = 0; i < n && !hidden; i++)
        buf_addc(&owner.said, bytes[i] ? bytes[i] : ' ');
    for (int i = 0; it->alternatives && i < it->alternatives->n; i++)
        sum += (size_t)it->alternatives->ids[i];
    if (it->alternatives && (it->alternatives->n < 0 || it->alternatives->n > LIMIT_ALTERNATIVES))
        owner.wrong = "a token has too many alternatives";
}

static void take_call(const struct news *it)
{
    if (!owner.in_call)
        owner.wrong = "a call ends that did not begin";
    owner.in_call = false;
    if (it->truncated)
        return;
    json_t *v = json_loadb(it->text.p, it->text.n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    if (!json_is_object(v))
        owner.wrong = "the arguments of a whole call are no object";
    json_decref(v);
    owner.n_calls++;
}

/* An answer has ended: by itself, or it broke off.  A call of which no end came is then a cut one. */
static void check_calls(bool by_itself)
{
    const char *last = buf_str(&owner.said);
    for (const char *at = last; (at = strstr(at, "<function=")); at++)
        last = at;
    const int begun = count_of(&owner.said, "<function=");
    const bool open = begun && !by_itself && !strstr(last, "</") && !strchr(last, '}');
    if (owner.n_calls > begun + count_of(&owner.said, "\"name\"") - open)
        owner.wrong = "a call looks whole whose end never came";
    if (owner.in_call)
        owner.wrong = "an answer ends within a call";
    owner.answers = false;
}

static void take_done(const struct news *it)
{
    if (it->end == END_TOO_LONG || it->end == END_LOOP)
        owner.wrong = "an answer ends in no way that a responder has";
    check_calls(it->end == END_STOP);
}

static void check_info(void)
{
    const struct model_info *c = far.r->ops->info(far.r);
    const char *const texts[] = {c->model, c->backend, c->formats, c->kv, c->memory, c->weights_in, c->reads};
    for (uint32_t i = 0; i < COUNT(texts); i++)
        if (!unicode_valid(texts[i], strlen(texts[i])))
            owner.wrong = "a text about the model is cut within a character";
    if (far.r->ops->info(far.r)->n_ends > LIMIT_STOP_IDS)
        owner.wrong = "the model has too many ends";
}

static void on_news(const struct news *it, void *arg)
{
    (void)arg;
    touch(it->text);
    const bool of_answer = it->kind >= NEWS_READING && it->kind <= NEWS_CALL;
    if ((of_answer || it->kind == NEWS_DONE) && !owner.answers)
        owner.wrong = "there is news of an answer that nobody wants";
    if (owner.dead)
        owner.wrong = "there is news after the end";
    if ((it->kind == NEWS_REASONING || it->kind == NEWS_TEXT) && it->from < owner.from)
        owner.wrong = "a text comes before the one that came before it";
    if (it->kind == NEWS_REASONING || it->kind == NEWS_TEXT)
        owner.from = it->from + it->text.n;
    switch (it->kind) {
    case NEWS_READY:
        owner.ready = true;
        check_info();
        break;
    case NEWS_TOKEN:
        take_token(it);
        if (one_in(200))
            far.r->ops->interrupt(far.r);
        break;
    case NEWS_CALL_BEGIN:
        owner.in_call = true;
        break;
    case NEWS_CALL:
        take_call(it);
        break;
    case NEWS_DONE:
        take_done(it);
        break;
    case NEWS_GONE:
    case NEWS_FATAL:
        if (owner.answers)              /* a request without text gets no DONE */
            check_calls(false);
        owner.dead = true;
        break;
    default:
        break;
    }
}

static const struct text tools[] = {
    {"{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"integer\"}}}}}", 0}, {"{\"name\": \"g\"}", 0},
};

static void ask(void)
{
    static const struct message messages[] = {
        {.role = ROLE_USER, .content = {"What is it?", 11}}, {.role = ROLE_ASSISTANT, .content = {"An answer.", 10}},
        {.role = ROLE_USER, .content = {"And?", 4}},
    };
    static struct text offered[COUNT(tools)];
    struct err e = {{0}};
    for (uint32_t i = 0; i < COUNT(tools); i++)
        offered[i] = text_of(tools[i].p);
    const struct request q = {
        .conversation = rnd(3), .messages = messages, .n_messages = one_in(2) ? 1 : 3, .tools = offered, .n_tools = (int)rnd(3),
        .thinking = one_in(2),
        .think_budget = one_in(4) ? 1 + (int)rnd(8) : 0, .sampling = {.max_tokens = one_in(3) ? 1 + (int)rnd(30) : 0, .n_alternatives = (int)rnd(3)},
    };
    owner.model = *far.r->ops->info(far.r);
    owner.answers = true;               /* what was given comes within the call */
    owner.from = 0;
    owner.n_calls = 0;
    owner.in_call = false;
    buf_reset(&owner.said);
    begin_script();
    if (far.r->ops->request(far.r, &q, &e) != REQUEST_TAKEN) {
        owner.answers = false;
        owner.wrong = *e.msg ? owner.wrong : "a request is refused without a reason";
    }
}

static void chat_step(void)
{
    struct responder *r = far.r;
    const uint64_t conversation = rnd(3);
    struct machine_figures m = {0};
    switch (rnd(20)) {
    case 0:
        if (owner.answers)
            r->ops->interrupt(r);
        break;
    case 1:
        r->ops->end_thought(r);
        break;
    case 2:
        r->ops->save(r, conversation, "/tmp/talk.jsonl.checkpoint");
        break;
    case 3:
        r->ops->restore(r, conversation, one_in(2) ? "/tmp/talk.jsonl.checkpoint" : "/tmp/\xff");
        break;
    case 4:
        r->ops->keep(r, conversation, one_in(2) ? NULL : "/tmp/talk.jsonl.checkpoint");
        break;
    case 5:
        r->ops->machine(r, &m);
        touch(text_of(m.throttled));
        break;
    default:
        if (owner.ready && !owner.answers && !owner.dead && r->can.tokens)
            ask();
        else
            r->ops->drain(r);
    }
}

static struct responder *no_other(const struct options *o, bool attach, struct err *e)
{
    (void)o, (void)attach, (void)e;
    return NULL;
}

/* Waits until the tokenizer is read. */
static void load(void)
{
    struct pollfd fds[RESPONDER_MAX_FDS];
    while (!far.r->can.tokens) {
        poll(fds, (nfds_t)far.r->ops->fds(far.r, fds), 1000);
        far.r->ops->drain(far.r);
    }
}

static void begin_session(void)
{
    struct err e;
    memset(&owner, 0, sizeof owner);
    asks.n = 0;
    asks.wrong = NULL;
    far.honest = one_in(8);
    far.r = local_attach("/tmp/none.sock", MODEL, one_in(2), &e);
    assert_non_null(far.r);
    far.r->fn = on_news;
    if (one_in(2))
        far.r->instead = no_other;
    load();
    struct buf line = {0};
    buf_addf(&line, "{\"protocol\": %d}", one_in(20) ? (int)rnd(5) : RELAY_PROTOCOL);
    post(asks.all[0].by, ASKER_LINE, asks.all[0].tag, &line);
    buf_reset(&line);
    buf_adds(&line, ready);
    post(asks.all[0].by, ASKER_LINE, asks.all[0].tag, &line);
    buf_free(&line);
}

/* All that was asked for ends: then the answer does, too. */
static const char *end_session(void)
{
    for (int rounds = 0; rounds < 20; rounds++) {
        while (asks.n)
            end_request(0, ASKER_ENDED);
        far.r->ops->drain(far.r);
    }
    const char *wrong = asks.wrong ? asks.wrong : owner.wrong ? owner.wrong : owner.answers ? "an answer does not end" : NULL;
    far.r->ops->close(far.r);
    return wrong;
}

static void test_attached__whatever_the_other_program_says_answers_end_once_and_cut_calls_look_cut(void **state)
{
    struct long_run run;
    long steps = 0;
    (void)state;
    struct err e;
    far.tok = tokenizer_open(MODEL, &e);
    assert_non_null(far.tok);
    for (run = long_run_begin(2, 1); next_input(&run);) {
        begin_session();
        for (int n = 200 + (int)rnd(400); n && !asks.wrong && !owner.wrong && !owner.dead; n--, steps++)
            if (one_in(3))
                chat_step();
            else
                far_step();
        const char *wrong = end_session();
        if (wrong)
            fail_input(&run, wrong, buf_str(&owner.said), owner.said.len);
        buf_free(&owner.said);
    }
    long_run_print(&run, steps, "steps");
    ids_free(&far.script);
    tokenizer_close(far.tok);
}

static void ignore(const char *line, void *arg)
{
    (void)arg;
    touch(text_of(line));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attached__whatever_the_other_program_says_answers_end_once_and_cut_calls_look_cut),
    };
    err_set_sink(ignore, NULL);
    return cmocka_run_group_tests_name("attached fuzz", tests, NULL, NULL);
}
