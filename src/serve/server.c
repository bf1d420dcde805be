#include "serve/server.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "chat/stats.h"
#include "serve/attached.h"
#include "serve/choice.h"
#include "serve/engine_key.h"
#include "serve/figures.h"
#include "serve/question.h"
#include "serve/relay.h"
#include "serve/socket.h"
#include "serve/tokens.h"
#include "serve/web.h"
#include "text/pyjson.h"

enum { RETRY_S = 2, LONGEST_KEY = 4096 };

/* A request for an answer: it waits, then it is answered. */
struct job {
    struct job *next;
    struct exchange *x;                 /* NULL: the client has gone */
    struct question question;
    struct choice choice;
    bool begun;                         /* the choice */
    struct tokens said;                 /* the tokens of the answer so far */
    struct chat_stats before;         /* of the requests to the responder that were stopped */
    bool resumed;                       /* it goes on behind these tokens */
    bool unwanted;                      /* the client has interrupted it, and waits for its end */
    int  n_told, n_again;               /* of these tokens: told to the client when it was stopped; told again since it goes on */
};

/* A responder and its answer. */
struct lane {
    struct server    *s;
    struct responder *r;
    struct job *now;                    /* the one that is answered, or NULL */
    bool now_over;                      /* its DONE has come */
    enum { GOES, STOPS, STANDS } hold;  /* STOPS: the answer under way was interrupted; STANDS: nothing is under way, and nothing begins */
    bool released;                      /* while it still stops */
};

struct server {
    struct responder *r;                /* that of the first lane */
    struct lane lanes[SERVER_ANSWERS];
    int n_lanes;
    struct server_options so;
    struct web *web;
    struct buf model;                   /* the name under which it is offered */
    struct buf options;                 /* those that shape the engine */
    size_t loaded, to_load;             /* bytes */
    bool ready;
    enum server_state state;
    struct err why;                     /* when it failed */

    struct job *waiting;                /* the first one */
    int n_waiting;
    uint64_t number;                    /* of the last request */
    struct figures figures;
    struct attached_list attached;
    int64_t unused_ns;                  /* since when there is no client; 0: there is one */
};

static void on_news(const struct news *it, void *arg);
static void take_done(struct lane *l, const struct news *it);

/* ---- replies ---- */

static const char json_type[] = "application/json";

static void reply(struct exchange *x, int status, const struct buf *body)
{
    exchange_reply(x, status, json_type, (struct text){buf_str(body), body->len}, 0);
}

static void refuse_with(struct exchange *x, int status, const char *message, const char *code, int retry_s)
{
    struct buf body = {0};
    choice_error(&body, status, message, code);
    exchange_reply(x, status, json_type, (struct text){body.data, body.len}, retry_s);
    buf_free(&body);
}

static void refuse(struct exchange *x, int status, const char *message)
{
    refuse_with(x, status, message, NULL, 0);
}

/* ---- jobs ---- */

static void job_free(struct job *j)
{
    if (j->x)
        exchange_keep(j->x, NULL);
    if (j->begun)
        choice_free(&j->choice);
    tokens_free(&j->said);
    question_free(&j->question);
    free(j);
}

/* Behind those that go before it: an attached chat, where a person waits, goes before other programs. */
static void enqueue(struct server *s, struct job *j)
{
    struct job **at = &s->waiting;
    j->question.request.patient = !j->question.relayed;
    while (*at && (*at)->question.request.patient <= j->question.request.patient)
        at = &(*at)->next;
    j->next = *at;
    *at = j;
    s->n_waiting++;
}

static struct job *dequeue(struct server *s)
{
    struct job *j = s->waiting;
    s->waiting = j->next;
    s->n_waiting--;
    j->next = NULL;
    return j;
}

static void unqueue(struct server *s, struct job *j)
{
    struct job **at = &s->waiting;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    s->n_waiting--;
    job_free(j);
}

/* What the answer has gained goes out. */
static void flush(struct job *j)
{
    struct buf *out = &j->choice.out;
    if (j->x && j->question.streams && out->len)
        exchange_write(j->x, (struct text){out->data, out->len});
    buf_reset(out);
}

static void end_job(struct lane *l)
{
    struct job *j = l->now;
    l->now = NULL;
    l->now_over = false;
    job_free(j);
}

static void fail_job(struct server *s, struct job *j, int status, const char *message, const char *code)
{
    s->figures.refused += status < 500;
    if (j->x)
        refuse_with(j->x, status, message, code, 0);
}

/* The texts of an answer that is to be continued, as tokens. */
static bool find_begun(struct server *s, struct job *j, struct tokens *begun, struct err *e)
{
    struct question *q = &j->question;
    const struct spoken spoken = {.m = q->continued, .stopped = true, .tools = q->request.tools, .n_tools = q->request.n_tools};
    if (!q->continued)
        return true;
    if (!s->r->ops->tokens || !s->r->ops->tokens(s->r, &spoken, begun))
        return err_set(e, "the answer that is to be continued is none that this model writes");
    q->request.begun.tokens = begun;
    q->request.thinking = begun->thinking;
    return true;
}

/* Of /v1/completions and of an attached q35chat: the tokens of its prompt.  What the answer begins with is none of it. */
static void find_plain(struct server *s, struct question *q, struct tokens *begun)
{
    if (!q->plain && !q->relayed)
        return;
    if (q->prompt.p)
        s->r->ops->encode(s->r, q->prompt, true, &q->ids);
    q->request.plain = &q->ids;
    for (int i = q->ids.n - q->n_begun; i < q->ids.n; i++)
        tokens_add(begun, (struct token){.id = q->ids.data[i], .how = CHAT_FORCED, .prob = -1}, NULL);
    q->ids.n -= q->n_begun;
    if (begun->n)
        q->request.begun.tokens = begun;
}

static const char *stream_type(const struct job *j)
{
    return j->question.relayed ? "application/x-ndjson" : "text/event-stream";
}

/* The next one of the queue.  Its news may come at once. */
static void start(struct lane *l)
{
    struct job *j = l->now = dequeue(l->s);
    struct tokens begun = {0};
    struct err e = {{0}};
    question_sampling(&j->question, l->s->so.o, l->r->ops->info(l->r));
    find_plain(l->s, &j->question, &begun);
    choice_begin(&j->choice, &j->question, l->r, buf_str(&l->s->model), ++l->s->number);
    j->begun = true;
    enum request_result how = find_begun(l->s, j, &begun, &e) ? l->r->ops->request(l->r, &j->question.request, &e) : REQUEST_REFUSED;
    tokens_free(&begun);
    if (how != REQUEST_TAKEN) {
        fail_job(l->s, j, 400, e.msg, how == REQUEST_TOO_LONG ? "context_length_exceeded" : NULL);
        end_job(l);
    } else if (j->question.streams && j->x && !l->now_over) {
        exchange_begin(j->x, stream_type(j));
        flush(j);
    }
}

/* ---- an answer that was stopped ---- */

/* As if it had not been stopped: behind its tokens, with what is left of its limit. */
static void resume(struct lane *l)
{
    struct job *j = l->now;
    struct request q = j->question.request;
    struct err e = {{0}};
    const int most = q.sampling.max_tokens;
    if (most && j->before.n_tokens >= most && j->said.n > j->n_told) {         /* the last one is sampled again, so that all are told */
        j->said.n--;
        j->before.n_tokens--;
    }
    int left = most - j->before.n_tokens;
    j->resumed = true;
    j->n_again = 0;
    q.begun.tokens = j->said.n ? &j->said : NULL;
    q.sampling.max_tokens = most ? left : 0;
    if (most && left <= 0)
        on_news(&(struct news){.kind = NEWS_DONE, .end = CHAT_LENGTH}, l);
    else if (l->r->ops->request(l->r, &q, &e) != REQUEST_TAKEN)
        on_news(&(struct news){.kind = NEWS_DONE, .end = CHAT_FAILED, .text = text_of(e.msg)}, l);
}

static void release(struct lane *l)
{
    l->hold = GOES;
    l->released = false;
    if (l->now && l->now->x && !l->now_over)
        resume(l);
    else if (l->now)
        l->now_over = true;             /* its client has gone meanwhile */
}

static void hold_lane(struct lane *l, bool hold)
{
    if (hold && l->hold == GOES) {
        bool speaks = l->now && !l->now_over;
        l->hold = speaks ? STOPS : STANDS;
        if (speaks) {
            l->now->n_told = l->now->said.n;
            l->r->ops->interrupt(l->r);
        }
    }
    l->released = !hold;
    if (!hold && l->hold == STANDS)
        release(l);
}

void server_hold(struct server *s, bool hold)
{
    for (int i = 0; i < s->n_lanes; i++)
        hold_lane(&s->lanes[i], hold);
}

/* Stands, and its client wants no more of it. */
static void end_unwanted(struct lane *l)
{
    take_done(l, &(struct news){.kind = NEWS_DONE, .end = CHAT_INTERRUPTED});
}

/* The end of a request that was interrupted so that another one goes first. */
static void take_stopped(struct lane *l, const struct news *it)
{
    if (it->stats)
        stats_add(&l->now->before, it->stats, l->now->resumed);
    l->hold = STANDS;
    if (l->now->unwanted)
        end_unwanted(l);
    if (l->released)
        release(l);
}

/* ---- what the responder tells ---- */

static void take_done(struct lane *l, const struct news *it)
{
    struct job *j = l->now;
    struct news last = *it;
    bool streams = j->question.streams;
    if (it->stats)
        stats_add(&j->before, it->stats, j->resumed);
    last.stats = &j->before;
    choice_done(&j->choice, &last);
    l->s->figures.failed += chat_end_failed(it->end);
    l->s->figures.answers += j->x && !chat_end_failed(it->end);
    figures_add(&l->s->figures, last.stats);
    l->now_over = true;
    if (!j->x)
        return;
    if (streams) {
        exchange_begin(j->x, stream_type(j));
        flush(j);
        exchange_end(j->x);
    } else {
        reply(j->x, j->choice.failed ? 500 : 200, &j->choice.out);
    }
}

/* How the model loads, or what it is. */
static void write_state(const struct server *s, struct buf *out)
{
    if (s->ready)
        relay_ready(s->r->ops->info(s->r), out);
    else
        buf_addf(out, "{\"loading\": [%zu,%zu]}\n", s->loaded, s->to_load);
}

static void tell_attached(struct server *s)
{
    struct buf lines = {0};
    if (s->attached.n) {
        write_state(s, &lines);
        attached_tell(&s->attached, &lines);
    }
    buf_free(&lines);
}

static void fail_all(struct server *s, const char *why)
{
    if (s->state == SERVER_FAILED)      /* each lane tells it */
        return;
    attached_end(&s->attached);
    s->state = SERVER_FAILED;
    err_set(&s->why, "%s", why);
    for (int i = 0; i < s->n_lanes; i++) {
        const struct job *j = s->lanes[i].now;
        if (j && j->x && !j->question.streams)
            refuse(j->x, 503, why);
        else if (j && j->x)
            exchange_end(j->x);
    }
    for (struct job *j = s->waiting; j; j = j->next)
        if (j->x)
            refuse(j->x, 503, why);
}

/* A part of the answer.  While it stops, its last tokens are kept, so that the responder goes on where it stood, but not told: what the parser held
 * back is told then, too.  They are told when they come again. */
static void take_part(struct lane *l, const struct news *it)
{
    struct job *j = l->now;
    struct news part = *it;
    if (!j || l->now_over)
        return;
    bool again = it->replayed && j->resumed;
    if (it->kind == NEWS_TOKEN && again)
        j->n_again++;
    if (it->kind == NEWS_TOKEN && !again)
        tokens_add(&j->said, it->token, NULL);
    if (l->hold == STOPS)
        return;
    part.replayed = it->replayed && !(again && j->n_again > j->n_told);
    if (!choice_news(&j->choice, &part))
        l->r->ops->interrupt(l->r);     /* a stop string came */
    flush(j);
}

static void on_news(const struct news *it, void *arg)
{
    struct lane *l = arg;
    struct server *s = l->s;
    const bool first = l == s->lanes;   /* what concerns all of them is told once */
    switch (it->kind) {
    case NEWS_LOADING:
        s->loaded = it->done;
        s->to_load = it->total;
        if (first)
            tell_attached(s);
        break;
    case NEWS_READY:
        s->ready |= first;
        if (first)
            tell_attached(s);
        break;
    case NEWS_NOTE:
        if (first)
            log_warn("%.*s", (int)it->text.n, it->text.p);
        break;
    case NEWS_FATAL:
        fail_all(s, it->text.p);
        break;
    case NEWS_DONE:
        if (l->now && !l->now_over && l->hold == STOPS && it->end == CHAT_INTERRUPTED)
            take_stopped(l, it);
        else if (l->now && !l->now_over)
            take_done(l, it);
        if (l->hold == STOPS)           /* it had just come to its end */
            l->hold = l->released ? GOES : STANDS;
        break;
    default:
        take_part(l, it);
    }
}

/* Answers under way. */
static int n_running(const struct server *s)
{
    int n = 0;
    for (int i = 0; i < s->n_lanes; i++)
        n += s->lanes[i].now && !s->lanes[i].now_over;
    return n;
}

/* Answers that may be under way at once. */
static int n_at_once(const struct server *s)
{
    const struct responder_info *info = s->r->ops->info(s->r);
    const int most = !info || info->at_once <= s->so.n_spare ? 1 : info->at_once - s->so.n_spare;
    return most < s->n_lanes ? most : s->n_lanes;
}

/* That is at this job; NULL: it waits. */
static struct lane *lane_of(struct server *s, const struct job *j)
{
    for (int i = 0; i < s->n_lanes; i++)
        if (s->lanes[i].now == j)
            return &s->lanes[i];
    return NULL;
}

/* ---- who may ask ---- */

/* Takes as long for a wrong key as for the right one. */
static bool same(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    unsigned char differs = n != m;
    for (size_t i = 0; i < n && i < LONGEST_KEY; i++)
        differs |= (unsigned char)(a[i] ^ b[m ? i % m : 0]);
    return !differs;
}

static bool may_ask(struct server *s, struct exchange *x)
{
    static const char bearer[] = "Bearer ";
    if (exchange_is_local(x))
        return true;
    const char *host = exchange_header(x, "Host"), *key = exchange_header(x, "Authorization");
    if (!s->so.any_host && (!host || !socket_is_local_name(host))) {
        refuse(x, 403, "the Host header does not name this machine (localhost, 127.0.0.1 or [::1])");
        return false;
    }
    if (!strcmp(exchange_path(x), "/health"))
        return true;
    if (!s->so.key || !key || strncmp(key, bearer, strlen(bearer)) || !same(key + strlen(bearer), s->so.key)) {
        refuse(x, 401, "the key is missing or wrong: it is in the server's key file, and goes into the header Authorization: Bearer KEY");
        return false;
    }
    return true;
}

/* ---- what is asked ---- */

static void tell_health(struct server *s, struct exchange *x)
{
    struct buf body = {0};
    buf_addf(&body, "{\"status\": \"%s\", \"loaded_bytes\": %zu, \"total_bytes\": %zu, \"running\": %d, \"waiting\": %d, \"clients\": %d}",
             s->ready ? "ok" : "loading", s->loaded, s->to_load, n_running(s), s->n_waiting, web_n_clients(s->web));
    reply(x, s->ready ? 200 : 503, &body);
    buf_free(&body);
}

static void tell_models(struct server *s, struct exchange *x)
{
    const struct responder_info *info = s->r->ops->info(s->r);
    struct buf body = {0};
    buf_adds(&body, "{\"object\": \"list\", \"data\": [{\"id\": ");
    pyjson_quote((struct text){s->model.data, s->model.len}, &body);
    buf_adds(&body, ", \"object\": \"model\", \"created\": 0, \"owned_by\": \"q35chat\"");
    if (exchange_is_local(x)) {         /* what a chat on this machine compares */
        buf_adds(&body, ", \"root\": ");
        pyjson_quote(text_of(s->r->model), &body);
        buf_adds(&body, ", \"options\": ");
        pyjson_quote((struct text){buf_str(&s->options), s->options.len}, &body);
    }
    if (s->ready && info)
        buf_addf(&body, ", \"max_model_len\": %d", info->chat.n_ctx);
    else
        buf_addf(&body, ", \"loading\": {\"done\": %zu, \"total\": %zu}", s->loaded, s->to_load);
    buf_adds(&body, "}]}");
    reply(x, 200, &body);
    buf_free(&body);
}

static void tell_metrics(struct server *s, struct exchange *x)
{
    struct buf body = {0};
    figures_write(&s->figures, n_running(s), s->n_waiting, web_n_clients(s->web), &body);
    exchange_reply(x, 200, "text/plain; version=0.0.4", (struct text){body.data, body.len}, 0);
    buf_free(&body);
}

static void stop(struct server *s, struct exchange *x)
{
    if (!exchange_is_local(x)) {
        refuse(x, 403, "a server is stopped over its unix socket alone");
        return;
    }
    if (s->so.of_chat) {
        refuse(x, 403, "the model belongs to a chat that is open, and ends with it");
        return;
    }
    exchange_reply(x, 200, json_type, text_of("{\"status\": \"stopping\"}"), 0);
    s->state = SERVER_STOPPED;
}

static bool is_ours(const struct server *s, struct text model)
{
    return !model.n || text_is(model, buf_str(&s->model)) || text_is(model, s->r->model);
}

typedef bool read_fn(struct question *q, struct text body, const struct options *o, struct err *e);

static void complete_as(struct server *s, struct exchange *x, read_fn *read)
{
    struct job *j = memory_zeroed(1, sizeof *j);
    struct err e = {{0}};
    s->figures.requests++;
    j->x = x;
    if (!read(&j->question, exchange_body(x), s->so.o, &e)) {
        fail_job(s, j, 400, e.msg, NULL);
    } else if (!is_ours(s, j->question.model)) {
        err_set(&e, "there is no model %.*s here; it has %s", (int)j->question.model.n, j->question.model.p, buf_str(&s->model));
        fail_job(s, j, 404, e.msg, "model_not_found");
    } else if (s->state == SERVER_FAILED) {
        fail_job(s, j, 503, s->why.msg, NULL);
    } else if (s->n_waiting >= s->so.n_waiting) {
        s->figures.overloaded++;
        err_set(&e, "%d requests wait already; ask again in %d seconds", s->n_waiting, RETRY_S);
        refuse_with(x, 429, e.msg, "queue_full", RETRY_S);
    } else {
        exchange_keep(x, j);
        enqueue(s, j);
        return;
    }
    job_free(j);
}

static void complete(struct server *s, struct exchange *x)
{
    complete_as(s, x, question_read);
}

static void complete_plain(struct server *s, struct exchange *x)
{
    complete_as(s, x, question_read_plain);
}

static void tell_or_refuse(struct exchange *x, bool ok, const struct buf *body, const char *why)
{
    if (ok)
        reply(x, 200, body);
    else
        refuse(x, 400, why);
}

static void tokenize(struct server *s, struct exchange *x)
{
    struct buf body = {0};
    struct err e = {{0}};
    if (s->ready)
        tell_or_refuse(x, tokens_of_text(s->r, exchange_body(x), s->so.o, &body, &e), &body, e.msg);
    else
        refuse_with(x, 503, "the model loads", NULL, RETRY_S);
    buf_free(&body);
}

static void detokenize(struct server *s, struct exchange *x)
{
    struct buf body = {0};
    struct err e = {{0}};
    if (s->ready)
        tell_or_refuse(x, text_of_tokens(s->r, exchange_body(x), &body, &e), &body, e.msg);
    else
        refuse_with(x, 503, "the model loads", NULL, RETRY_S);
    buf_free(&body);
}

/* ---- what an attached q35chat asks ---- */

static void attach(struct server *s, struct exchange *x)
{
    struct buf lines = {0};
    write_state(s, &lines);
    attached_add(&s->attached, x, &lines);
    buf_free(&lines);
}

static void answer_attached(struct server *s, struct exchange *x)
{
    complete_as(s, x, relay_read);
}

/* The answer of that name, whether it is under way or waits; NULL: it is over. */
static struct job *find_job(struct server *s, struct text name)
{
    for (int i = 0; i < s->n_lanes; i++) {
        const struct lane *l = &s->lanes[i];
        if (l->now && !l->now_over && text_same(l->now->question.name, name))
            return l->now;
    }
    struct job *j = s->waiting;
    while (j && !text_same(j->question.name, name))
        j = j->next;
    return j;
}

/* Its stream ends with what it has. */
static void interrupt_job(struct server *s, struct job *j)
{
    struct lane *l = lane_of(s, j);
    if (!l) {                           /* it waits: its client hears that it was over before it began */
        struct exchange *x = j->x;
        static const char said[] = "{\"done\": \"interrupted\", \"why\": \"\"}\n";
        exchange_keep(x, NULL);
        exchange_reply(x, 200, "application/x-ndjson", text_of(said), 0);
        unqueue(s, j);
        return;
    }
    j->unwanted = true;
    if (l->hold == GOES)
        l->r->ops->interrupt(l->r);
    else if (l->hold == STANDS)
        end_unwanted(l);
}

static void interrupt(struct server *s, struct exchange *x)
{
    struct arena mem = {0};
    struct text name;
    struct err e = {{0}};
    bool ok = relay_read_name(exchange_body(x), &name, &mem, &e);
    struct job *j = ok ? find_job(s, name) : NULL;
    if (j)
        interrupt_job(s, j);
    if (ok)
        exchange_reply(x, 200, json_type, text_of("{}"), 0);
    else
        refuse(x, 400, e.msg);
    arena_free(&mem);
}

/* Nobody is kept waiting by it: not while an answer is under way. */
static void read_ahead(struct server *s, struct exchange *x)
{
    struct question q;
    struct err e = {{0}};
    bool ok = relay_read_ahead(&q, exchange_body(x), &e);
    q.request.plain = &q.ids;
    if (ok && s->ready && s->lanes[0].hold == GOES && !n_running(s) && s->state == SERVER_RUNS)
        s->r->ops->read_ahead(s->r, &q.request);
    if (ok)
        exchange_reply(x, 200, json_type, text_of("{}"), 0);
    else
        refuse(x, 400, e.msg);
    question_free(&q);
}

static void tell_machine(struct server *s, struct exchange *x)
{
    struct chat_machine m = {0};
    struct buf line = {0};
    s->r->ops->machine(s->r, &m);
    relay_machine(&m, &line);
    reply(x, 200, &line);
    buf_free(&line);
}

static const struct route {
    const char *method, *path;
    void (*go)(struct server *s, struct exchange *x);
    bool local;                         /* over the unix socket alone */
} routes[] = {
    {"POST", "/v1/chat/completions", complete}, {"POST", "/v1/completions", complete_plain}, {"POST", "/tokenize", tokenize},
    {"POST", "/detokenize", detokenize}, {"GET", "/v1/models", tell_models}, {"GET", "/health", tell_health},
    {"GET", "/metrics", tell_metrics}, {"POST", "/stop", stop},
    {"POST", "/q35chat/attach", attach, true}, {"POST", "/q35chat/answer", answer_attached, true}, {"POST", "/q35chat/interrupt", interrupt, true},
    {"POST", "/q35chat/ahead", read_ahead, true}, {"POST", "/q35chat/machine", tell_machine, true},
};

static void asked(void *arg, struct exchange *x)
{
    struct server *s = arg;
    const char *method = exchange_method(x), *path = exchange_path(x);
    const struct route *found = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (!strcmp(routes[i].path, path) && (!routes[i].local || exchange_is_local(x)))
            found = &routes[i];
    if (!may_ask(s, x))
        return;
    if (!found)
        refuse(x, 404, "there is nothing at this path; the paths are in docs/serve.md");
    else if (strcmp(found->method, method))
        refuse(x, 405, "this path takes another method");
    else
        found->go(s, x);
}

static void gone(void *arg, struct exchange *x)
{
    struct server *s = arg;
    struct job *j = exchange_kept(x);
    if (!j) {
        attached_gone(&s->attached, x);
        return;
    }
    j->x = NULL;
    s->figures.left++;
    struct lane *l = lane_of(s, j);
    if (!l)
        unqueue(s, j);
    else if (!l->now_over && l->hold == GOES)
        l->r->ops->interrupt(l->r);
}

/* ---- the whole ---- */

static void name_model(struct server *s)
{
    const char *slash = strrchr(s->r->model, '/');
    buf_adds(&s->model, slash && slash[1] ? slash + 1 : s->r->model);
}

static void add_lane(struct server *s, struct responder *r)
{
    struct lane *l = &s->lanes[s->n_lanes++];
    *l = (struct lane){.s = s, .r = r};
    r->fn = on_news;
    r->arg = l;
}

struct server *server_open(struct responder *const *all, int n, const struct server_options *so, struct err *e)
{
    struct responder *r = n > 0 ? all[0] : NULL;
    if (!r)
        return NULL;
    CHECK(n <= SERVER_ANSWERS);
    struct server *s = memory_zeroed(1, sizeof *s);
    const struct web_owner owner = {.asked = asked, .gone = gone, .arg = s};
    s->r = r;
    s->so = *so;
    s->unused_ns = clock_ns();
    for (int i = 0; i < n; i++)
        add_lane(s, all[i]);
    s->ready = r->ops->info(r) != NULL && r->can.tokens;
    name_model(s);
    engine_key(so->o, &s->options);
    s->web = web_open(&owner, e);
    if (s->web)
        return s;
    server_close(s);
    return NULL;
}

void server_close(struct server *s)
{
    if (!s)
        return;
    s->state = SERVER_STOPPED;
    web_close(s->web);                  /* tells gone() of what is under way */
    for (int i = s->n_lanes - 1; i >= 0; i--) {         /* the first one is last: the others may be its guests */
        struct lane *l = &s->lanes[i];
        if (l->now)
            end_job(l);
        l->r->ops->close(l->r);
    }
    buf_free(&s->model);
    buf_free(&s->options);
    attached_free(&s->attached);
    free(s);
}

bool server_listen(struct server *s, int fd, struct err *e)
{
    return web_listen(s->web, fd, e);
}

int server_n_open(const struct server *s)
{
    return s->n_waiting + n_running(s);
}

static int is_other(const struct job *j)
{
    return j->x && !j->question.relayed;
}

int server_n_others(const struct server *s)
{
    int n = s->attached.n;
    for (int i = 0; i < s->n_lanes; i++) {
        const struct lane *l = &s->lanes[i];
        n += l->now && !l->now_over && is_other(l->now);
    }
    for (const struct job *j = s->waiting; j; j = j->next)
        n += is_other(j);
    return s->state == SERVER_RUNS ? n : 0;
}

void server_leave_chat(struct server *s)
{
    struct buf line = {0};
    s->so.of_chat = false;
    s->so.n_spare = 0;
    buf_adds(&line, "{\"note\": \"the chat that had loaded the model has left; it stays loaded while it is used\"}\n");
    attached_tell(&s->attached, &line);
    buf_free(&line);
}

void server_shut(struct server *s)
{
    web_shut(s->web);
}

int server_fd(const struct server *s)
{
    return web_fd(s->web);
}

int server_fds(const struct server *s, struct pollfd fds[SERVER_MAX_FDS])
{
    int n = s->r->ops->fds(s->r, fds);
    fds[n++] = (struct pollfd){.fd = web_fd(s->web), .events = POLLIN};
    return n;
}

bool server_is_ready(const struct server *s)
{
    return s->ready;
}

static double unused_ms_left(const struct server *s)
{
    return s->so.keep_s * 1000.0 - clock_ms_since(s->unused_ns);
}

/* Where the next request is answered; NULL: it waits. */
static struct lane *free_lane(struct server *s)
{
    for (int i = 0; i < n_at_once(s) && s->ready && s->state == SERVER_RUNS && s->waiting; i++)
        if (s->lanes[i].hold == GOES && !s->lanes[i].now)
            return &s->lanes[i];
    return NULL;
}

int server_timeout(struct server *s)
{
    int web = free_lane(s) ? 0 : web_timeout(s->web);       /* a request may have come while replies went out */
    if (!s->so.keep_s || !s->unused_ns)
        return web;
    double left = unused_ms_left(s);
    int keep = left > 0 ? (int)left + 1 : 0;
    return web >= 0 && web < keep ? web : keep;
}

static void watch_use(struct server *s)
{
    bool used = web_n_clients(s->web) || n_running(s) || s->waiting;
    if (used)
        s->unused_ns = 0;
    else if (!s->unused_ns)
        s->unused_ns = clock_ns();
    if (!used && s->so.keep_s && s->state == SERVER_RUNS && unused_ms_left(s) <= 0)
        s->state = SERVER_UNUSED;
}

static void end_over(struct server *s)
{
    for (int i = 0; i < s->n_lanes; i++)
        if (s->lanes[i].now && s->lanes[i].now_over)
            end_job(&s->lanes[i]);
}

enum server_state server_run(struct server *s, struct err *e)
{
    web_run(s->web);
    s->r->ops->drain(s->r);
    end_over(s);
    for (struct lane *l; (l = free_lane(s));) {
        start(l);
        end_over(s);
    }
    web_run(s->web);                    /* what was written goes out */
    watch_use(s);
    if (s->state == SERVER_FAILED)
        err_set(e, "%s", s->why.msg);
    return s->state;
}
