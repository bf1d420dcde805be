/* What clients may ask, and the replies.  Answers are jobs: their turn comes later. */
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/memory.h"
#include "config/limits.h"
#include "serve/checkpoint_path.h"
#include "serve/relay.h"
#include "serve/respond.h"
#include "serve/server_state.h"
#include "serve/socket.h"
#include "serve/tokens.h"
#include "text/pyjson.h"

enum { LONGEST_KEY = 4096 };
#define MODELS "/v1/models/"            /* ... and the name of one */

enum {
    LEAST_BODY = 1 << 20,               /* bytes of a prompt, whatever the context */
    TOOLS_BODY = 4 << 20,               /* ... of what comes with it: schemas of tools, names, the marks of JSON */
    TOOLS_VALUES = 1 << 16,             /* values of that */
    PICTURES_BODY = 0,                  /* ... of pictures in base64, once they are read: 4/3 of the largest files */
};

/* ---- who may ask ---- */

/* Takes as long for a wrong key as for the right one. */
static bool same(struct text given, const char *b)
{
    const char *a = given.p;
    size_t n = given.n, m = strlen(b);
    unsigned char differs = n != m;
    for (size_t i = 0; i < n && i < LONGEST_KEY; i++)
        differs |= (unsigned char)(a[i] ^ b[m ? i % m : 0]);
    return !differs;
}

/* The key of "Bearer KEY", with the scheme in any case and any blanks around the key; empty: another scheme. */
static struct text key_in(const char *header)
{
    static const char bearer[] = "Bearer";
    const size_t n = strlen(bearer);
    if (!header || strncasecmp(header, bearer, n) || !strchr(" \t", header[n]))
        return text_of("");
    return text_trim(text_of(header + n));
}

static bool may_ask(struct server *s, struct exchange *x, const char *path)
{
    if (exchange_is_local(x))
        return true;
    const char *host = exchange_header(x, "Host");
    if (!s->so.any_host && (!host || !socket_is_local_name(host))) {
        respond_error(x, 403, "the Host header does not name this machine (localhost, 127.0.0.1 or [::1])");
        return false;
    }
    if (s->so.key && same(key_in(exchange_header(x, "Authorization")), s->so.key))
        return exchange_trust(x);
    if (!strcmp(path, "/health"))
        return true;
    respond_error(x, 401, "the key is missing or wrong: it is in the server's key file, and goes into the header Authorization: Bearer KEY");
    return false;
}

/* ---- replies ---- */

static void tell_health(struct server *s, struct exchange *x)
{
    struct buf body = {0};
    buf_addf(&body, "{\"status\": \"%s\", \"loaded_bytes\": %zu, \"total_bytes\": %zu, \"running\": %d, \"waiting\": %d, \"unread\": %d, "
             "\"clients\": %d}", s->ready ? "ok" : "loading", s->loaded, s->to_load, n_running(s), s->waiting.n, s->unread.n,
             web_n_clients(s->web));
    respond_json(x, s->ready ? 200 : 503, &body);
    buf_free(&body);
}

static void tell_metrics(struct server *s, struct exchange *x)
{
    struct buf body = {0};
    figures_write(&s->figures, n_running(s), s->waiting.n, s->unread.n, web_n_clients(s->web), &body);
    exchange_reply(x, 200, "text/plain; version=0.0.4", (struct text){body.data, body.len}, 0);
    buf_free(&body);
}

static void stop(struct server *s, struct exchange *x)
{
    if (!exchange_is_local(x)) {
        respond_error(x, 403, "a server is stopped over its unix socket alone");
        return;
    }
    if (s->so.of_chat) {
        respond_error(x, 403, "the model belongs to a chat that is open, and ends with it");
        return;
    }
    respond_ok(x, "{\"status\": \"stopping\"}");
    s->state = SERVER_STOPPED;
}

static bool is_ours(const struct server *s, struct text model)
{
    return !model.n || text_is(model, buf_str(&s->model)) || text_is(model, s->r->model);
}

static bool refuse_model(const struct server *s, struct text name, struct err *e)
{
    return err_set(e, "unknown model %.*s; this server has %s", (int)name.n, name.p, buf_str(&s->model));
}

static void fail(struct server *s, struct job *j, int status, const char *message, const char *code)
{
    s->figures.refused += status < 500;
    job_refuse(j, status, message, code);
}

/* The question has been read: it waits in the queue, or is refused. */
static void take_question(struct server *s, struct reading *rd)
{
    struct job *j = rd->job;
    struct err e;
    s->figures.requests++;
    if (!rd->ok) {
        fail(s, j, 400, rd->e.msg, NULL);
    } else if (!is_ours(s, j->question.model)) {
        refuse_model(s, j->question.model, &e);
        fail(s, j, 404, e.msg, "model_not_found");
    } else if (s->state == SERVER_FAILED) {
        fail(s, j, 503, s->why.msg, NULL);
    } else if (s->waiting.n >= s->so.n_waiting) {
        s->figures.overloaded++;
        err_set(&e, "%d requests wait already; ask again in %d seconds", s->waiting.n, RESPOND_RETRY_S);
        respond_error_with(j->x, 429, e.msg, "queue_full", RESPOND_RETRY_S);
    } else {
        exchange_set_data(j->x, j);
        job_waits(j, clock_ns());
        queue_add(&s->waiting, j);
        if (reading_was_interrupted(rd))
            end_waiting(s, j);
        rd->job = NULL;
    }
}

void has_read(void *arg, struct reading *rd)
{
    if (rd->how->question)
        take_question(arg, rd);
    else if (rd->ok)
        respond_json(rd->x, 200, &rd->out);
    else
        respond_error(rd->x, 400, rd->e.msg);
}

/* The result of a handler: a body, or the reason for a refusal. */
struct reply {
    struct buf   body;                  /* JSON; empty: {} */
    struct arena mem;                   /* owns what was read of the request */
    struct err   e;
};
typedef bool tell_fn(struct server *s, struct exchange *x, struct reply *r);

static void reply_to(struct server *s, struct exchange *x, tell_fn *tell)
{
    struct reply r = {0};
    if (!tell(s, x, &r))
        respond_error(x, 400, r.e.msg);
    else if (r.body.len)
        respond_json(x, 200, &r.body);
    else
        respond_ok(x, "{}");
    buf_free(&r.body);
    arena_free(&r.mem);
}

static void add_model(struct server *s, struct exchange *x, struct buf *body)
{
    const struct responder_info *info = s->r->ops->info(s->r);
    buf_adds(body, "{\"id\": ");
    pyjson_quote((struct text){s->model.data, s->model.len}, body);
    buf_addf(body, ", \"object\": \"model\", \"created\": %lld, \"owned_by\": \"q35chat\"", (long long)s->opened_s);
    if (exchange_is_local(x)) {         /* what a chat on this machine compares */
        buf_adds(body, ", \"root\": ");
        pyjson_quote(text_of(s->r->model), body);
        buf_adds(body, ", \"options\": ");
        pyjson_quote((struct text){buf_str(&s->options), s->options.len}, body);
        buf_addf(body, ", \"protocol\": %d", RELAY_PROTOCOL);
    }
    if (s->ready && info)
        buf_addf(body, ", \"max_model_len\": %d", info->chat.n_ctx);
    else
        buf_addf(body, ", \"loading\": {\"done\": %zu, \"total\": %zu}", s->loaded, s->to_load);
    if (s->ready && info && info->temperature >= 0)     /* the model's own defaults */
        buf_addf(body, ", \"sampling\": {\"temperature\": %.9g, \"top_p\": %.9g, \"top_k\": %d}", (double)info->temperature, (double)info->top_p,
                 info->top_k);
    buf_addc(body, '}');
}

static bool tell_models(struct server *s, struct exchange *x, struct reply *r)
{
    buf_adds(&r->body, "{\"object\": \"list\", \"data\": [");
    add_model(s, x, &r->body);
    buf_adds(&r->body, "]}");
    return true;
}

static void tell_model(struct server *s, struct exchange *x)
{
    struct buf body = {0};
    struct err e;
    struct text name = text_of(exchange_path(x) + strlen(MODELS));
    name.n -= name.n && name.p[name.n - 1] == '/';
    if (is_ours(s, name)) {
        add_model(s, x, &body);
        respond_json(x, 200, &body);
    } else {
        refuse_model(s, name, &e);
        respond_error_with(x, 404, e.msg, "model_not_found", 0);
    }
    buf_free(&body);
}

/* ---- requests of an attached q35chat ---- */

static void attach(struct server *s, struct exchange *x)
{
    struct buf lines = {0};
    struct arena mem = {0};
    struct text name;
    struct err e = {{0}};
    relay_protocol(&lines);
    write_state(s, &lines);
    if (relay_read_attach(exchange_body(x), &name, &mem, &e))
        attached_add(&s->attached, x, name, &lines);
    else
        respond_error(x, 400, e.msg);
    buf_free(&lines);
    arena_free(&mem);
}

typedef void file_fn(struct responder *r, uint64_t conversation, const char *path);

/* Saves or restores the computed states of a conversation.  may_be_none: an empty path means no file. */
static bool use_file(struct server *s, struct exchange *x, struct reply *r, file_fn *use, bool may_be_none)
{
    struct relay_file f;
    struct buf own = {0};
    bool ok = relay_read_file(exchange_body(x), &f, &r->mem, &r->e) && ((may_be_none && !f.path.n) || checkpoint_path(f.path, &own, &r->e));
    if (ok && !attached_claim(&s->attached, f.name, f.conversation))
        ok = err_set(&r->e, "no q35chat of that name is attached");
    if (ok)
        use(s->r, f.conversation, own.len ? own.data : NULL);
    buf_free(&own);
    return ok;
}

static bool save(struct server *s, struct exchange *x, struct reply *r)
{
    return use_file(s, x, r, s->r->ops->save, false);
}

static bool restore(struct server *s, struct exchange *x, struct reply *r)
{
    return use_file(s, x, r, s->r->ops->restore, false);
}

static bool keep(struct server *s, struct exchange *x, struct reply *r)
{
    return use_file(s, x, r, s->r->ops->keep, true);
}

static struct job *find_waiting(const struct queue *q, struct text name)
{
    struct job *j = q->first;
    while (j && !text_same(j->question.name, name))
        j = j->next;
    return j;
}

/* The answer of that name, whether it is under way or waits; NULL: it is over. */
static struct job *find_job(struct server *s, struct text name)
{
    for (int i = 0; i < s->n_lanes; i++) {
        const struct lane *l = &s->lanes[i];
        if (l->now && !l->now_over && text_same(l->now->question.name, name))
            return l->now;
    }
    struct job *j = find_waiting(&s->waiting, name);
    return j ? j : find_waiting(&s->unread, name);
}

/* Its stream ends with what it has. */
static void interrupt_job(struct server *s, struct job *j)
{
    if (j->in)
        end_waiting(s, j);
    else
        lane_interrupt(lane_of(s, j));
}

static bool interrupt(struct server *s, struct exchange *x, struct reply *r)
{
    struct text name;
    if (!relay_read_name(exchange_body(x), &name, &r->mem, &r->e))
        return false;
    struct job *j = find_job(s, name);
    if (j)
        interrupt_job(s, j);
    else
        readings_interrupt(&s->readings, name);
    return true;
}

/* Nobody is kept waiting by it: not while an answer is under way. */
static bool read_ahead(struct server *s, struct exchange *x, struct reply *r)
{
    struct question q;
    const bool ok = relay_read_ahead(&q, exchange_body(x), &r->e);
    q.request.plain = &q.ids;
    if (ok && s->ready && !s->held && !n_running(s) && s->state == SERVER_RUNS)
        s->r->ops->read_ahead(s->r, &q.request);
    question_free(&q);
    return ok;
}

static bool tell_machine(struct server *s, struct exchange *x, struct reply *r)
{
    struct chat_machine m = {0};
    (void)x;
    s->r->ops->machine(s->r, &m);
    relay_machine(&m, &r->body);
    return true;
}

static const struct route {
    const char *method, *path;
    tell_fn *tell;                      /* makes a reply at once, which reply_to() sends, */
    void (*go)(struct server *s, struct exchange *x);   /* or sends a reply of its own, perhaps later, */
    struct reader reader;               /* or reads the body, perhaps on another thread */
    bool local;                         /* over the unix socket alone */
} routes[] = {
    {"POST", "/v1/chat/completions", .reader = {question_read, NULL}},
    {"POST", "/v1/completions",      .reader = {question_read_plain, NULL}},
    {"POST", "/tokenize",            .reader = {NULL, tokens_of_text}},
    {"POST", "/detokenize",          .reader = {NULL, text_of_tokens}},
    {"GET",  "/v1/models",           tell_models},
    {"GET",  MODELS,                 .go = tell_model},
    {"GET",  "/health",              .go = tell_health},
    {"GET",  "/metrics",             .go = tell_metrics},
    {"POST", "/stop",                .go = stop},
    {"POST", "/q35chat/attach",      .go = attach, .local = true},
    {"POST", "/q35chat/answer",      .reader = {relay_read, NULL}, .local = true},
    {"POST", "/q35chat/interrupt",   interrupt, .local = true},
    {"POST", "/q35chat/ahead",       read_ahead, .local = true},
    {"POST", "/q35chat/save",        save, .local = true},
    {"POST", "/q35chat/restore",     restore, .local = true},
    {"POST", "/q35chat/keep",        keep, .local = true},
    {"POST", "/q35chat/machine",     tell_machine, .local = true},
};

static void refuse_method(struct exchange *x, const struct route *r, const char *method)
{
    struct err e;
    err_set(&e, "%s accepts %s, not %s", r->path, r->method, method);
    respond_error(x, 405, e.msg);
}

/* Whether the path is that of the route, or begins with it if that ends in a slash; a slash at the end of the path counts for nothing. */
static bool leads_to(const struct route *r, const char *path)
{
    const size_t n = strlen(r->path), len = strlen(path);
    if (r->path[n - 1] == '/')
        return len > n && !strncmp(path, r->path, n);
    return !strncmp(path, r->path, n) && len - n <= 1 && strspn(path + n, "/") == len - n;
}

static const struct route *find_route(const struct exchange *x)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (leads_to(&routes[i], exchange_path(x)) && (!routes[i].local || exchange_is_local(x)))
            return &routes[i];
    return NULL;
}

/* Bytes that a body can have: those of a prompt that fills the context, and of what comes with it.  A context of long pieces only is no text that
 * anybody has, but the limit refuses no prompt that fits. */
static size_t most_bytes(struct server *s)
{
    const struct responder_info *info = s->ready ? s->r->ops->info(s->r) : NULL;
    if (info && !s->longest_piece)
        s->longest_piece = tokens_longest(s->r);
    const size_t prompt = info ? (size_t)info->chat.n_ctx * s->longest_piece : 0;
    return (prompt > LEAST_BODY ? prompt : LEAST_BODY) + TOOLS_BODY + PICTURES_BODY;
}

/* Values that the JSON of a body can have: a token of the prompt is one, or more than one byte of a text. */
static size_t most_values(const struct server *s)
{
    const struct responder_info *info = s->ready ? s->r->ops->info(s->r) : NULL;
    return (size_t)(info ? info->chat.n_ctx : 0) + TOOLS_VALUES;
}

size_t begun(void *arg, struct exchange *x)
{
    struct server *s = arg;
    const struct route *found = find_route(x);
    const char *method = exchange_method(x);
    if (!may_ask(s, x, found ? found->path : ""))
        return 0;
    if (!found)
        respond_error(x, 404, "unknown path; docs/serve.md lists the paths");
    else if (strcmp(found->method, method) && (strcmp(found->method, "GET") || strcmp(method, "HEAD")))
        refuse_method(x, found, method);
    else if (!strcmp(found->method, "POST"))
        return most_bytes(s);
    return 0;
}

static void read_body(struct server *s, struct exchange *x, const struct route *found)
{
    const struct reading rd = {.x = x, .how = &found->reader, .r = s->ready ? s->r : NULL, .most_values = most_values(s)};
    if (!s->ready && found->reader.reply)
        respond_error_with(x, 503, "the model loads", NULL, RESPOND_RETRY_S);
    else
        readings_add(&s->readings, &rd, s->so.o);
}

void asked(void *arg, struct exchange *x)
{
    struct server *s = arg;
    const struct route *found = find_route(x);
    if (!found->tell && !found->go)
        read_body(s, x, found);
    else if (tokens_too_many(exchange_body(x), most_values(s)))
        respond_error(x, 400, "the body has more values than the context can hold");
    else if (found->tell)
        reply_to(s, x, found->tell);
    else
        found->go(s, x);
}
