#include "remote/client.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mailbox.h"
#include "base/memory.h"
#include "base/worker.h"
#include "fetch/http.h"
#include "remote/body.h"

enum { SILENCE_S = 600, LIST_S = 20, MAX_BODY = 4 << 20, MAX_DROPPED = 16, AGAIN_MS = 500, LOADING_MS = 200 };

struct client {
    struct buf url, model;              /* url ends in "/v1" */
    struct buf key, key_from, ca_file;
    struct buf socket;                  /* path of a unix socket; empty: the address names a host */
    struct buf name;                    /* of the server, for sentences */
    const struct dialect *dialect;      /* NULL: that of the server's list of models */
    int silence_s;
    struct remote_model found;          /* of the thread until CLIENT_READY, then constant */
    struct mailbox out;
    int n_taken;                        /* events of the last drain, whose texts are still to be freed */
    struct client_event *taken;

    struct worker worker;               /* its lock guards what follows */
    enum { FIND, NOTHING, QUESTION, CHOICE } order;     /* the next order */
    struct buf ordered;                 /* body of the question, or name of the model; "": list the models */
    bool continues;                     /* the answer to the question continues an earlier one */
    size_t most;                        /* bytes that the answer may have */
    const char *reasoning;
    atomic_bool stop;                   /* the request under way ends */

    /* used by the thread only */
    struct http *http;
    struct buf names;                   /* of the models in the newest list */
    struct buf dropped[MAX_DROPPED];    /* fields that the server does not take */
    int n_dropped;
};

static void post(struct client *c, struct client_event ev, const char *text, size_t n)
{
    ev.text = ev.id = (struct buf){0};
    if (n)
        buf_add(&ev.text, text, n);
    if (ev.delta.id.n)
        buf_add(&ev.id, ev.delta.id.p, ev.delta.id.n);
    mailbox_post(&c->out, &ev);
}

static void post_text(struct client *c, enum client_event_kind kind, const char *text)
{
    post(c, (struct client_event){.kind = kind}, text, strlen(text));
}

/* ---- one request ---- */

/* One POST or GET, and its result so far. */
struct transfer {
    struct client *c;
    struct buf body;                    /* of a GET */
    struct completion *answer;          /* of a POST */
    bool reported;                      /* a part of the answer was posted: the request cannot be sent again */
};

static bool begin(void *arg, const struct http_reply *r, struct err *e)
{
    (void)arg, (void)r, (void)e;
    return true;
}

/* Takes bytes of the reply: to the parser of an answer, else to a text of at most MAX_BODY bytes. */
static bool take(void *arg, const void *bytes, size_t n, struct err *e)
{
    struct transfer *t = arg;
    if (t->answer)
        return completion_push(t->answer, bytes, n, e);
    if (t->body.len + n > MAX_BODY)
        return err_set(e, "the server's answer has more than %d MiB", MAX_BODY >> 20);
    buf_add(&t->body, bytes, n);
    return true;
}

static void on_delta(const struct completion_delta *d, void *arg)
{
    struct transfer *t = arg;
    t->reported = t->reported || d->kind != COMPLETION_READING;
    post(t->c, (struct client_event){.kind = CLIENT_DELTA, .delta = *d}, d->text.p, d->text.n);
}

/* Makes a sentence of a reply with another status than 200. */
static void refusal(const struct client *c, int status, const struct buf *body, struct err *e)
{
    struct err said = {{0}};
    completion_error(buf_str(body), body->len, &said);
    if (status == 401 || status == 403)
        err_set(e, c->key.len ? "%s did not accept the key from %s (status %d): %s" : "%s wants a key, which %s holds (status %d): %s",
                buf_str(&c->name), buf_str(&c->key_from), status, said.msg);
    else if (status == 429 || status == 503)
        err_set(e, "%s is overloaded (status %d): %s", buf_str(&c->name), status, said.msg);
    else
        err_set(e, "%s refused (status %d): %s", buf_str(&c->name), status, said.msg);
}

/* Sends a request, POST if it has a body, and waits for the whole reply. */
static enum http_result ask(struct client *c, const char *path, const struct buf *post_body, int silence_s, struct transfer *t, struct http_reply *r,
                            struct buf *refused, struct err *e)
{
    struct buf url = {0};
    buf_addf(&url, "%s%s", buf_str(&c->url), path);
    struct http_request q = {.url = url.data, .socket = c->socket.len ? c->socket.data : NULL, .token = c->key.len ? c->key.data : NULL,
                             .ca_file = c->ca_file.len ? c->ca_file.data : NULL, .stall_s = silence_s, .stop = &c->stop, .begin = begin, .take = take,
                             .arg = t, .refusal = refused};
    if (post_body) {
        q.post = buf_str(post_body);
        q.post_bytes = post_body->len;
    }
    enum http_result result = http_ask(c->http, &q, r, e);
    buf_free(&url);
    return result;
}

/* Waits for `ms`.  False: the answer was stopped. */
static bool rest(struct client *c, int ms)
{
    for (int64_t start = clock_ns(); clock_ms_since(start) < ms;) {
        if (atomic_load(&c->stop))
            return false;
        poll(NULL, 0, 20);
    }
    return true;
}

/* ---- the model ---- */

/* Sends a GET.  *status: 0 if there was no reply. */
static bool get(struct client *c, const char *path, struct transfer *t, int *status, struct err *e)
{
    struct http_reply r = {0};
    struct buf refused = {0};
    bool ok = ask(c, path, NULL, LIST_S, t, &r, &refused, e) == HTTP_ANSWERED;
    *status = ok ? r.status : 0;
    if (ok && r.status != 200) {
        refusal(c, r.status, &refused, e);
        ok = false;
    }
    http_reply_free(&r);
    buf_free(&refused);
    return ok;
}

/* Asks llama.cpp for the size of its context, which is outside of /v1. */
static void ask_context(struct client *c)
{
    struct transfer t = {.c = c};
    struct err ignored = {{0}};
    int status;
    if (get(c, "/../props", &t, &status, &ignored))
        c->found.n_ctx = props_context(buf_str(&t.body), t.body.len);
    buf_free(&t.body);
}

/* True if the server replies, but has no list of models, or fails to make one.  A wrong key or a proxy has other statuses. */
static bool has_no_list(int status)
{
    return status == 404 || status == 405 || status == 500 || status == 501;
}

/* Finds the model in the server's list.  A server without a list has the model that was named. */
static bool list_models(struct client *c, struct err *e)
{
    struct transfer t = {.c = c};
    const char *wanted = c->model.len ? c->model.data : NULL;
    int status;
    remote_model_free(&c->found);
    bool ok = get(c, "/models", &t, &status, e);
    if (ok) {
        ok = models_choose(buf_str(&t.body), t.body.len, wanted, &c->found, &c->names, e);
    } else if (wanted && has_no_list(status)) {
        c->found = (struct remote_model){{0}};
        models_assume(wanted, &c->found);
        ok = true;
    } else if (!wanted && has_no_list(status)) {
        struct err why = *e;
        err_set(e, "%s; since the server has no list of models, --model must name one", why.msg);
    }
    buf_free(&t.body);
    return ok;
}

/* Finds the model and its context.  Waits while the server, a q35chat, is still loading it. */
static bool find_model(struct client *c, struct err *e)
{
    bool ok = list_models(c, e);
    while (ok && c->found.loading) {
        post(c, (struct client_event){.kind = CLIENT_LOADING, .delta = {.done = c->found.loaded, .total = c->found.to_load}}, NULL, 0);
        ok = (rest(c, LOADING_MS) || err_set(e, "stopped")) && list_models(c, e);
    }
    if (ok && c->dialect)
        c->found.dialect = c->dialect;
    if (ok && c->found.unlisted) {
        struct buf note = {0};
        buf_addf(&note, "the server does not list the model %s; it is requested anyway", buf_str(&c->found.id));
        post_text(c, CLIENT_NOTE, note.data);
        buf_free(&note);
    }
    if (ok && c->found.dialect->context == CONTEXT_PROPS)
        ask_context(c);
    return ok;
}

/* ---- one answer ---- */

/* Returns how the answer ended, by the server's reason. */
static enum client_end end_of(const struct completion *answer)
{
    switch (completion_finish(answer)) {
    case COMPLETION_LENGTH:   return CLIENT_LENGTH;
    case COMPLETION_CONTEXT:  return CLIENT_CONTEXT;
    case COMPLETION_BROKEN:   return CLIENT_BROKEN;
    case COMPLETION_FILTERED: return CLIENT_FILTERED;
    default:                  return CLIENT_ANSWERED;
    }
}

/* True if the refusal has the words of a server for a prompt that is longer than the context. */
static bool is_too_long(const struct buf *refused)
{
    static const char *const words[] = {"maximum context length", "context length", "exceeds the available context", "exceed_context_size",
                                        "longer than the model", "context_length_exceeded"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(buf_str(refused), words[i]))
            return true;
    return false;
}

/* True if the server ended the answer for another request.  A server of such a dialect sends a finish_reason with every other answer. */
static bool is_interrupted(const struct client *c, const struct completion *answer, struct err *e)
{
    if (!c->found.dialect->interrupts || completion_finish(answer) != COMPLETION_DONE)
        return false;
    err_set(e, "the server ended the answer for another request; started with --interrupt_requests false it answers one after the other");
    return true;
}

/* Leaves a field that another maker's server refuses out of this body and of later ones.  False: the refusal names no field. */
static bool drop_refused(struct client *c, struct buf *body, const struct buf *refused)
{
    struct buf name = {0};
    if (c->found.dialect->own || c->n_dropped == MAX_DROPPED || !body_drop_refused(body, buf_str(refused), &name)) {
        buf_free(&name);
        return false;
    }
    struct buf note = {0};
    buf_addf(&note, "the server does not take \"%s\"; it is left out", buf_str(&name));
    post_text(c, CLIENT_NOTE, note.data);
    buf_free(&note);
    c->dropped[c->n_dropped++] = name;
    return true;
}

/* Sends the request once.  *again: nothing was posted, and sending the request again may help. */
static enum client_end try_answer(struct client *c, struct buf *body, struct stats *stats, bool *again, struct err *e)
{
    struct transfer t = {.c = c};
    struct http_reply r = {0};
    struct buf refused = {0};
    enum client_end how = CLIENT_FAILED;
    worker_lock(&c->worker);
    t.answer = completion_open(on_delta, &t, c->continues);
    completion_limit(t.answer, c->most);
    worker_unlock(&c->worker);
    enum http_result result = ask(c, "/chat/completions", body, c->silence_s, &t, &r, &refused, e);
    bool ok = result == HTTP_ANSWERED && r.status == 200 && completion_end(t.answer, e) && !is_interrupted(c, t.answer, e);
    *again = !t.reported && result == HTTP_BROKEN;
    if (ok) {
        how = end_of(t.answer);
    } else if (atomic_load(&c->stop)) {
        how = CLIENT_STOPPED;
    } else if (result == HTTP_ANSWERED && r.status != 200) {
        refusal(c, r.status, &refused, e);
        how = is_too_long(&refused) ? CLIENT_TOO_LONG : CLIENT_FAILED;
        *again = how == CLIENT_FAILED && (r.status == 400 || r.status == 422) && drop_refused(c, body, &refused);
    }
    completion_cut(t.answer);
    *stats = completion_stats(t.answer);
    worker_lock(&c->worker);
    if (completion_reasoning_name(t.answer))
        c->reasoning = completion_reasoning_name(t.answer);
    worker_unlock(&c->worker);
    completion_close(t.answer);
    http_reply_free(&r);
    buf_free(&refused);
    return how;
}

/* Requests an answer, again without fields that the server refuses, and posts its end. */
static void answer(struct client *c, struct buf *body)
{
    struct client_event done = {.kind = CLIENT_DONE};
    struct err e = {{0}};
    bool again = false;
    for (int i = 0; i < c->n_dropped; i++)      /* fields that the server does not take */
        body_drop(body, buf_str(&c->dropped[i]));
    int dropped = c->n_dropped;
    done.how = try_answer(c, body, &done.stats, &again, &e);
    for (int broken = 0; again && done.how == CLIENT_FAILED; dropped = c->n_dropped) {
        if (dropped == c->n_dropped && (broken++ || !rest(c, AGAIN_MS)))
            break;
        done.how = try_answer(c, body, &done.stats, &again, &e);
    }
    if (atomic_load(&c->stop) && done.how == CLIENT_FAILED)
        done.how = CLIENT_STOPPED;
    done.unreachable = again && done.how == CLIENT_FAILED;
    bool failed = done.how == CLIENT_FAILED || done.how == CLIENT_TOO_LONG;
    post(c, done, e.msg, failed ? strlen(e.msg) : 0);
}

/* ---- several models ---- */

static void offer(struct client *c)
{
    post(c, (struct client_event){.kind = CLIENT_OFFER}, buf_str(&c->names), c->names.len);
}

/* Requests the list of models and posts it, or a note with the reason. */
static void list_again(struct client *c)
{
    struct transfer t = {.c = c};
    struct remote_model unused;
    struct err why = {{0}};
    int status;
    bool ok = get(c, "/models", &t, &status, &why);
    if (ok) {                           /* takes the names, whether there is one model or several */
        models_choose(buf_str(&t.body), t.body.len, NULL, &unused, &c->names, &why);
        remote_model_free(&unused);
    }
    if (ok && c->names.len)
        offer(c);
    else
        post_text(c, CLIENT_NOTE, why.msg);
    buf_free(&t.body);
}

/* Changes to another model; the one before stays if the new one cannot be found. */
static void choose(struct client *c, const char *name)
{
    struct remote_model before = c->found;
    struct buf model = c->model;
    struct err why = {{0}};
    c->found = (struct remote_model){{0}};
    c->model = (struct buf){0};
    buf_adds(&c->model, name);
    bool ok = find_model(c, &why);
    if (!ok) {
        struct remote_model failed = c->found;
        struct buf wanted = c->model;
        c->found = before;
        c->model = model;
        before = failed;
        model = wanted;
        post_text(c, CLIENT_NOTE, why.msg);
    }
    remote_model_free(&before);
    buf_free(&model);
    if (c->found.id.len)
        post_text(c, CLIENT_READY, "");
    else
        offer(c);
}

/* ---- the thread ---- */

/* Finds the model when the client opens, and posts the result. */
static void begin_with_model(struct client *c)
{
    struct err e = {{0}};
    bool found = find_model(c, &e), several = !found && !c->model.len && c->names.len;
    if (found)
        post_text(c, CLIENT_READY, "");
    else if (several)
        offer(c);
    else
        post_text(c, CLIENT_FATAL, e.msg);
}

/* Carries out the order. */
static int64_t client_step(void *arg)
{
    struct client *c = arg;
    const int order = c->order;
    struct buf with = c->ordered;
    if (order == NOTHING)
        return WORKER_IDLE;
    c->ordered = (struct buf){0};
    c->order = NOTHING;
    worker_unlock(&c->worker);
    if (!c->http)
        c->http = http_open();
    if (order == FIND)
        begin_with_model(c);
    else if (order == QUESTION)
        answer(c, &with);
    else if (with.len)
        choose(c, with.data);
    else
        list_again(c);
    buf_free(&with);
    worker_lock(&c->worker);
    return WORKER_AGAIN;
}

/* ---- the owner's side ---- */

/* Takes the options of a client.  False if the address or the dialect is wrong. */
static bool set_up(struct client *c, const struct client_options *o, struct err *e)
{
    bool local = !strncmp(o->url, "unix:", 5) && o->url[5];
    const char *url = local ? "http://localhost" : o->url;
    size_t n = strlen(url);
    if (strncmp(url, "http://", 7) && strncmp(url, "https://", 8))
        return err_set(e, "the endpoint is '%s', expected an address that begins with http:// or https://, or unix:PATH", o->url);
    while (n && url[n - 1] == '/')
        n--;
    buf_add(&c->url, url, n);
    if (n < 3 || strcmp(c->url.data + n - 3, "/v1"))
        buf_adds(&c->url, "/v1");
    buf_adds(&c->socket, local ? o->url + 5 : "");
    buf_adds(&c->name, local ? o->url : c->url.data);
    buf_adds(&c->model, o->model ? o->model : "");
    buf_adds(&c->key, o->key ? o->key : "");
    buf_adds(&c->key_from, o->key_from ? o->key_from : "its owner");
    buf_adds(&c->ca_file, o->ca_file ? o->ca_file : "");
    c->silence_s = o->silence_s ? o->silence_s : SILENCE_S;
    c->dialect = o->dialect ? dialect_find(o->dialect, e) : NULL;
    return (!o->dialect || c->dialect) && (mailbox_init(&c->out, sizeof(struct client_event)) || err_set(e, "no more files may be opened"));
}

/* Frees the client with the events that were not taken. */
static void release(struct client *c)
{
    int n;
    while (client_drain(c, &n), n)
        ;
    mailbox_free(&c->out);
    struct buf *all[] = {&c->url, &c->model, &c->key, &c->key_from, &c->ca_file, &c->socket, &c->name, &c->ordered, &c->names};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        buf_free(all[i]);
    for (int i = 0; i < c->n_dropped; i++)
        buf_free(&c->dropped[i]);
    remote_model_free(&c->found);
    http_close(c->http);
    free(c);
}

struct client *client_open(const struct client_options *o, struct err *e)
{
    struct client *c = memory_zeroed(1, sizeof *c);
    c->out.fd = -1;
    if (!set_up(c, o, e) || !(worker_start(&c->worker, 1, client_step, c) || err_set(e, "cannot start a thread for the endpoint"))) {
        release(c);
        return NULL;
    }
    return c;
}

void client_close(struct client *c)
{
    if (!c)
        return;
    worker_lock(&c->worker);
    c->worker.ending = true;            /* first, so that no order given before clears `stop` */
    atomic_store(&c->stop, true);
    worker_unlock(&c->worker);
    worker_stop(&c->worker);
    release(c);
}

int client_fd(const struct client *c)
{
    return c->out.fd;
}

const struct client_event *client_drain(struct client *c, int *n)
{
    for (int i = 0; i < c->n_taken; i++) {
        buf_free(&c->taken[i].text);
        buf_free(&c->taken[i].id);
    }
    c->taken = (struct client_event *)mailbox_take(&c->out, n);
    c->n_taken = *n;
    for (int i = 0; i < *n; i++) {
        struct client_event *ev = &c->taken[i];
        ev->delta.text = (struct text){buf_str(&ev->text), ev->text.len};
        ev->delta.id = (struct text){buf_str(&ev->id), ev->id.len};
    }
    return c->taken;
}

/* Gives the worker an order, in place of one that it has not begun, and takes over `with`.  Called with the lock held. */
static void give_order(struct client *c, int order, struct buf *with)
{
    buf_free(&c->ordered);
    c->ordered = *with;
    *with = (struct buf){0};
    c->order = order;
    atomic_store(&c->stop, false);
    worker_wake(&c->worker);
}

void client_ask(struct client *c, struct buf *body, bool continues, size_t most)
{
    worker_lock(&c->worker);
    c->continues = continues;
    c->most = most;
    give_order(c, QUESTION, body);
    worker_unlock(&c->worker);
}

void client_choose(struct client *c, const char *name)
{
    struct buf with = {0};
    buf_adds(&with, name);
    worker_lock(&c->worker);
    give_order(c, CHOICE, &with);
    worker_unlock(&c->worker);
}

void client_stop(struct client *c)
{
    atomic_store(&c->stop, true);
}

const struct remote_model *client_model(const struct client *c)
{
    return &c->found;
}

const char *client_reasoning_name(const struct client *c)
{
    struct client *own = (struct client *)c;
    worker_lock(&own->worker);
    const char *name = c->reasoning;
    worker_unlock(&own->worker);
    return name;
}
