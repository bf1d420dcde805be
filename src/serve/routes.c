/* The paths of the server: who may send requests, what each path accepts, and the replies that are made at once.  Answers are jobs: their turn comes
 * later. */
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "config/limits.h"
#include "serve/server_state.h"
#include "serve/socket.h"
#include "serve/tokens.h"
#include "text/pyjson.h"

#define MODELS "/v1/models/"            /* ... and the name of a model */
#define LATEST ":latest"                /* what ollama's clients put behind a name */

enum {
    LEAST_BODY = 1 << 20,               /* bytes of a prompt, whatever the context */
    TOOLS_BODY = 4 << 20,               /* ... of what comes with it: schemas of tools, names, the marks of JSON */
    TOOLS_VALUES = 1 << 16,             /* values of that */
    PICTURES_BODY = 128 << 20,          /* ... of pictures in base64, if the model sees them */
};

/* ---- access ---- */

/* Returns the key of "Bearer KEY", with the scheme in any case and any blanks around the key; empty: another scheme. */
static struct text key_in(const char *header)
{
    static const char bearer[] = "Bearer";
    const size_t n = strlen(bearer);
    if (!header || strncasecmp(header, bearer, n) || !strchr(" \t", header[n]))
        return text_of("");
    return text_trim(text_of(header + n));
}

/* Returns the origin of the request if web pages from there may use the server; NULL: not, or no page asks. */
static const char *origin_of(const struct server *s, const struct exchange *x)
{
    const char *origin = exchange_header(x, "Origin");
    for (int i = 0; origin && i < s->so.n_origins; i++)
        if (!strcasecmp(origin, s->so.origins[i]))
            return s->so.origins[i];
    return NULL;
}

/* True if the request may be answered: local, or with a valid Host header and key.  Else replies with the error. */
static bool may_ask(struct server *s, struct exchange *x, const char *path)
{
    if (exchange_is_local(x))
        return true;
    const char *host = exchange_header(x, "Host");
    if (!s->so.any_host && (!host || !socket_is_local_name(host))) {
        exchange_error(x, 403, "the Host header does not name this machine (localhost, 127.0.0.1 or [::1])");
        return false;
    }
    const char *bare = exchange_header(x, "x-api-key");
    if (origin_of(s, x) && !strcmp(exchange_method(x), "OPTIONS"))       /* a browser asks before it sends the key */
        return true;
    int key = s->so.keys ? keys_find(s->so.keys, key_in(exchange_header(x, "Authorization"))) : -1;
    if (key < 0 && s->so.keys && bare)
        key = keys_find(s->so.keys, text_trim(text_of(bare)));
    if (key >= 0)
        return exchange_trust(x, key);
    if (!strcmp(path, "/health"))
        return true;
    exchange_refuse(x, &(struct refusal){401, "the key is missing or wrong: it is in the server's key file, and goes into the header "
                    "Authorization: Bearer KEY", .code = "invalid_api_key"}, 0);
    return false;
}

/* ---- replies ---- */

/* Replies with the state of the server; 503 until it is ready. */
static void send_health(struct server *s, struct exchange *x)
{
    struct buf body = {0};
    const bool failed = s->ready && *s->check.why.msg;
    buf_addf(&body, "{\"status\": \"%s\", \"loaded_bytes\": %zu, \"total_bytes\": %zu, \"running\": %d, \"waiting\": %d, \"unread\": %d, "
             "\"clients\": %d", failed ? "failed" : s->ready ? "ok" : "loading", s->loaded, s->to_load, lanes_running(s), s->waiting.n,
             s->unread.n, web_n_clients(s->web));
    if (failed) {
        buf_adds(&body, ", \"why\": ");
        pyjson_quote(text_of(s->check.why.msg), &body);
    }
    buf_addc(&body, '}');
    exchange_json(x, s->ready && !failed ? 200 : 503, &body);
    buf_free(&body);
}

/* Replies with the metrics. */
static void send_metrics(struct server *s, struct exchange *x)
{
    static const struct keys none = {0};
    struct machine_figures m = {0};
    s->r->ops->machine(s->r, &m);
    const struct metrics_now now = {
        .model = buf_str(&s->model), .running = lanes_running(s), .waiting = s->waiting.n, .unread = s->unread.n, .clients = web_n_clients(s->web),
        .resident = m.resident, .resident_max = m.resident_max, .evicted = m.evicted, .moved_out = m.moved_out, .moved_in = m.moved_in,
    };
    struct buf body = {0};
    metrics_print(&s->metrics, &now, s->so.keys ? s->so.keys : &none, &body);
    exchange_reply(x, 200, "text/plain; version=0.0.4", (struct text){body.data, body.len}, 0);
    buf_free(&body);
}

/* Stops the server, if the request came over its Unix socket and the model is not a chat's. */
static void stop(struct server *s, struct exchange *x)
{
    if (!exchange_is_local(x)) {
        exchange_error(x, 403, "a server is stopped over its unix socket alone");
        return;
    }
    if (s->so.of_chat) {
        exchange_error(x, 403, "the model belongs to a chat that is open, and ends with it");
        return;
    }
    exchange_ok(x, "{\"status\": \"stopping\"}");
    s->state = SERVER_STOPPED;
}

static bool is_ours(const struct server *s, struct text model)
{
    bool known = s->so.any_model || !model.n || text_is(model, buf_str(&s->model)) || text_is(model, s->r->model);
    for (int i = 0; !known && i < s->so.n_aliases; i++)
        known = text_is(model, s->so.aliases[i]);
    return known;
}

static bool refuse_model(const struct server *s, struct text name, struct err *e)
{
    return err_set(e, "unknown model %.*s; this server has %s (--alias gives it more names)", (int)name.n, name.p, buf_str(&s->model));
}

static void refuse(struct server *s, struct job *j, int status, const char *message, const char *code)
{
    s->metrics.refused += status < 500;
    job_refuse(j, status, message, code);
}

/* Replies at once that the model is there. */
static void answer_nothing(struct server *s, struct job *j)
{
    static const struct stats nothing;
    struct response r;
    j->question.streams = false;
    response_begin(&r, &j->question, s->r, buf_str(&s->model));
    r.format->whole(&r, RESPONSE_ENDED, &nothing);
    exchange_json(j->x, 200, &r.out);
    response_free(&r);
}

/* Puts a question that has been read into the queue, or refuses it. */
static void take_question(struct server *s, struct reading *rd)
{
    struct job *j = rd->job;
    struct err e;
    const char *code = NULL;
    s->metrics.requests++;
    j->asked_ns = clock_ns();
    j->key = j->x ? exchange_key(j->x) : -1;
    if (j->key >= 0)
        s->so.keys->list[j->key].use.requests++;
    if (j->x && j->question.left_out) {
        err_set(&e, "tools that other servers run are left out: %s", j->question.left_out);
        exchange_note(j->x, e.msg);
    }
    if (!rd->ok) {
        refuse(s, j, 400, rd->e.msg, NULL);
    } else if (!is_ours(s, j->question.model)) {
        refuse_model(s, j->question.model, &e);
        refuse(s, j, 404, e.msg, "model_not_found");
    } else if (s->state == SERVER_FAILED) {
        refuse(s, j, 503, s->why.msg, NULL);
    } else if (j->question.asks_nothing) {
        answer_nothing(s, j);
    } else if (s->waiting.n >= s->so.n_waiting) {
        s->metrics.overloaded++;
        err_set(&e, "%d requests wait already; ask again in %d seconds", s->waiting.n, WEB_RETRY_S);
        exchange_refuse(j->x, &(struct refusal){429, e.msg, "queue_full", NULL}, WEB_RETRY_S);
    } else if (lanes_are_busy(s) && !job_begin_waiting(s, j, &code, &e)) {
        refuse(s, j, 400, e.msg, code);
    } else {
        exchange_set_data(j->x, j);
        job_waits(j, clock_ns());
        queue_add(&s->waiting, j);
        if (reading_was_interrupted(rd))
            job_end_waiting(s, j);
        rd->job = NULL;
    }
}

void routes_read(void *arg, struct reading *rd)
{
    if (rd->format)
        take_question(arg, rd);
    else if (rd->ok)
        exchange_json(rd->x, 200, &rd->out);
    else
        exchange_error(rd->x, 400, rd->e.msg);
}

/* ---- models ---- */

/* Appends a moment, in seconds since 1970, as a text in JSON. */
static void add_time(struct buf *body, int64_t seconds)
{
    char text[32] = "";
    struct tm tm;
    const time_t t = (time_t)seconds;
    if (gmtime_r(&t, &tm))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    buf_addf(body, "\"%s\"", text);
}

/* Appends the model with the fields of OpenAI's servers and of Anthropic's. */
static void add_model(struct server *s, struct exchange *x, struct text name, struct buf *body)
{
    const struct model_info *info = s->r->ops->info(s->r);
    buf_adds(body, "{\"id\": ");
    pyjson_quote(name, body);
    buf_addf(body, ", \"object\": \"model\", \"type\": \"model\", \"created\": %lld, \"owned_by\": \"q35chat\", \"created_at\": ",
             (long long)s->opened_s);
    add_time(body, s->opened_s);
    buf_adds(body, ", \"display_name\": ");
    pyjson_quote(name, body);
    if (exchange_is_local(x)) {         /* what a chat on this machine compares */
        buf_adds(body, ", \"root\": ");
        pyjson_quote(text_of(s->r->model), body);
        buf_adds(body, ", \"options\": ");
        pyjson_quote((struct text){buf_str(&s->options), s->options.len}, body);
        buf_addf(body, ", \"protocol\": %d", RELAY_PROTOCOL);
    }
    if (exchange_is_local(x) && s->so.address) {
        buf_adds(body, ", \"address\": ");
        pyjson_quote(text_of(s->so.address), body);
        buf_adds(body, ", \"key_file\": ");
        pyjson_quote(text_of(s->so.key_file), body);
    }
    if (s->ready && info)
        buf_addf(body, ", \"max_model_len\": %d, \"max_input_tokens\": %d", info->n_ctx, info->n_ctx);
    else
        buf_addf(body, ", \"loading\": {\"done\": %zu, \"total\": %zu}", s->loaded, s->to_load);
    if (s->ready && info && info->temperature >= 0)     /* the model's own defaults */
        buf_addf(body, ", \"sampling\": {\"temperature\": %.7g, \"top_p\": %.7g, \"top_k\": %d}", (double)info->temperature, (double)info->top_p,
                 info->top_k);
    buf_addc(body, '}');
}

/* Sends the list, of one model: programs would offer a choice between its names. */
static void send_models(struct server *s, struct exchange *x)
{
    struct buf body = {0};
    const struct text own = {s->model.data, s->model.len};
    buf_adds(&body, "{\"object\": \"list\", \"data\": [");
    add_model(s, x, own, &body);
    buf_adds(&body, "], \"has_more\": false, \"first_id\": ");
    pyjson_quote(own, &body);
    buf_adds(&body, ", \"last_id\": ");
    pyjson_quote(own, &body);
    buf_adds(&body, "}");
    exchange_json(x, 200, &body);
    buf_free(&body);
}

/* Replies with the model that the path names, or 404. */
static void send_model(struct server *s, struct exchange *x)
{
    struct buf body = {0};
    struct err e;
    struct text name = text_of(exchange_path(x) + strlen(MODELS));
    name.n -= name.n && name.p[name.n - 1] == '/';
    if (is_ours(s, name)) {
        add_model(s, x, name, &body);
        exchange_json(x, 200, &body);
    } else {
        refuse_model(s, name, &e);
        exchange_refuse(x, &(struct refusal){404, e.msg, "model_not_found", "model"}, 0);
    }
    buf_free(&body);
}

static void refuse_embeddings(struct server *s, struct exchange *x)
{
    (void)s;
    exchange_error(x, 404, "this server does not provide embeddings: run a model for embeddings beside it");
}

/* ---- the model, for clients of ollama ---- */

/* Appends its description, open at the end: what clients choose by, and what they show.  bytes: of its weights, or of all that it takes. */
static void add_tag(const struct server *s, size_t bytes, struct buf *body)
{
    const struct model_info *info = s->r->ops->info(s->r);
    buf_adds(body, "{\"name\": ");
    pyjson_quote((struct text){s->model.data, s->model.len}, body);
    buf_adds(body, ", \"model\": ");
    pyjson_quote((struct text){s->model.data, s->model.len}, body);
    buf_addf(body, ", \"size\": %zu, \"digest\": \"%s\", \"details\": {\"parent_model\": \"\", \"format\": \"safetensors\", "
             "\"family\": \"qwen3.5\", \"families\": [\"qwen3.5\"], \"parameter_size\": \"\", \"quantization_level\": \"\"}", bytes,
             info ? info->fingerprint : "");
}

static void add_modified(const struct server *s, struct buf *body)
{
    const struct model_info *info = s->r->ops->info(s->r);
    add_tag(s, info ? info->weight_bytes : 0, body);
    buf_adds(body, ", \"modified_at\": ");
    add_time(body, s->opened_s);
}

static void send_tags(struct server *s, struct exchange *x)
{
    struct buf body = {0};
    buf_adds(&body, "{\"models\": [");
    add_modified(s, &body);
    buf_adds(&body, "}]}");
    exchange_json(x, 200, &body);
    buf_free(&body);
}

/* Sends what runs: the model with its memory, once it is loaded.  It leaves when no client has been there for --keep; 292 years is what ollama has
 * for one that never does. */
static void send_running(struct server *s, struct exchange *x)
{
    const struct model_info *info = s->ready ? s->r->ops->info(s->r) : NULL;
    const int64_t left_s = s->so.keep_s ? s->so.keep_s : INT64_MAX / 1000000000;
    const size_t bytes = info ? info->weight_bytes + (size_t)info->n_ctx * info->kv_token_bytes : 0;
    struct buf body = {0};
    buf_adds(&body, "{\"models\": [");
    if (info) {
        add_tag(s, bytes, &body);
        buf_addf(&body, ", \"size_vram\": %zu, \"context_length\": %d, \"expires_at\": ", info->n_threads ? 0 : bytes, info->n_ctx);
        add_time(&body, (int64_t)time(NULL) + left_s);
        buf_addc(&body, '}');
    }
    buf_adds(&body, "]}");
    exchange_json(x, 200, &body);
    buf_free(&body);
}

/* Reads the model's name in the body of a request about it, "model" or formerly "name".  False: it is another one's. */
static bool is_named(const struct server *s, struct exchange *x, struct arena *mem, struct err *e)
{
    struct pyjson top;
    if (!question_object(&top, exchange_body(x), mem, e))
        return false;
    const struct pyjson *name = pyjson_given(&top, "model") ? pyjson_given(&top, "model") : pyjson_given(&top, "name");
    if (name && name->kind != PY_STR)
        return err_set(e, "model is not a text");
    const struct text t = name ? name->text : text_of("");
    return is_ours(s, text_ends(t, LATEST) ? (struct text){t.p, t.n - strlen(LATEST)} : t) || refuse_model(s, t, e);
}

/* Replies with the facts that Ollama's clients ask for. */
static void send_shown(struct server *s, struct exchange *x)
{
    const struct model_info *info = s->r->ops->info(s->r);
    struct arena mem = {0};
    struct buf body = {0};
    struct err e = {{0}};
    if (!is_named(s, x, &mem, &e)) {
        const bool unknown = !strncmp(e.msg, "unknown", 7);
        exchange_refuse(x, &(struct refusal){unknown ? 404 : 400, e.msg, unknown ? "model_not_found" : NULL, NULL}, 0);
        arena_free(&mem);
        return;
    }
    arena_free(&mem);
    add_modified(s, &body);
    buf_addf(&body, ", \"modelfile\": \"\", \"template\": \"\", \"parameters\": \"\", \"model_info\": {\"general.architecture\": \"qwen3.5\", "
             "\"qwen3.5.context_length\": %d}, \"capabilities\": [\"completion\", \"tools\", \"thinking\"%s]}", info ? info->n_ctx : 0,
             info && info->picture_tokens ? ", \"vision\"" : "");
    exchange_json(x, 200, &body);
    buf_free(&body);
}

/* Replies to clients of ollama that look whether a server is there: its status is what they read. */
static void send_greeting(struct server *s, struct exchange *x)
{
    (void)s;
    exchange_reply(x, 200, "text/plain; charset=utf-8", text_of("q35chat is running\n"), 0);
}

/* The version of ollama's whose requests are understood; clients refuse older ones. */
static void send_version(struct server *s, struct exchange *x)
{
    (void)s;
    exchange_ok(x, "{\"version\": \"0.12.0\"}");
}

/* ---- the table ---- */

static const struct route {
    const char *method, *path;
    const struct format *format;        /* of answers; their questions are read, perhaps on another thread, */
    reply_fn *reply;                    /* or makes a reply of the body, perhaps on another thread, */
    const struct format *errors;        /* the form of its refusals; NULL: that of `format` */
    bool (*at_once)(struct server *s, struct exchange *x, struct outcome *to);  /* or makes a reply at once, */
    void (*send)(struct server *s, struct exchange *x);         /* or sends a reply of its own, perhaps later */
    bool local;                         /* over the unix socket alone */
} routes[] = {
    {"POST", "/v1/chat/completions", .format = &format_openai},
    {"POST", "/v1/completions",      .format = &format_plain},
    {"POST", "/v1/responses",        .format = &format_responses},
    {"POST", "/v1/responses/input_tokens", .reply = responses_count, .errors = &format_responses},
    {"POST", "/v1/messages",         .format = &format_messages},
    {"POST", "/v1/messages/count_tokens", .reply = messages_count, .errors = &format_messages},
    {"POST", "/v1/embeddings",       .send = refuse_embeddings},
    {"GET",  "/",                    .send = send_greeting},
    {"POST", "/api/chat",            .format = &format_ollama},
    {"POST", "/api/generate",        .format = &format_generate},
    {"POST", "/api/embed",           .send = refuse_embeddings, .errors = &format_ollama},
    {"POST", "/api/embeddings",      .send = refuse_embeddings, .errors = &format_ollama},
    {"POST", "/api/show",            .send = send_shown, .errors = &format_ollama},
    {"GET",  "/api/tags",            .send = send_tags, .errors = &format_ollama},
    {"GET",  "/api/ps",              .send = send_running, .errors = &format_ollama},
    {"GET",  "/api/version",         .send = send_version, .errors = &format_ollama},
    {"POST", "/tokenize",            .reply = tokens_of_text},
    {"POST", "/detokenize",          .reply = text_of_tokens},
    {"GET",  "/v1/models",           .send = send_models},
    {"GET",  MODELS,                 .send = send_model},
    {"GET",  "/health",              .send = send_health},
    {"GET",  "/metrics",             .send = send_metrics},
    {"POST", "/stop",                .send = stop},
    {"POST", "/q35chat/answer",      .format = &format_tokens, .local = true},
    {"POST", "/q35chat/attach",      .send = attached_attach, .local = true},
    {"POST", "/q35chat/interrupt",   .at_once = attached_interrupt, .local = true},
    {"POST", "/q35chat/ahead",       .at_once = attached_ahead, .local = true},
    {"POST", "/q35chat/save",        .at_once = attached_save, .local = true},
    {"POST", "/q35chat/restore",     .at_once = attached_restore, .local = true},
    {"POST", "/q35chat/keep",        .at_once = attached_keep, .local = true},
    {"POST", "/q35chat/machine",     .at_once = attached_machine, .local = true},
};

/* True if the path is that of the route, or begins with it if that ends in a slash; a slash at the end of the path counts for nothing. */
static bool leads_to(const struct route *r, const char *path)
{
    const size_t n = strlen(r->path), len = strlen(path);
    if (n == 1)
        return len == 1;
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

/* Returns the form of errors on a path: that of its route, else of the dialect that has others with its beginning; NULL: that of OpenAI's servers. */
static const struct format *errors_of(const struct route *found, const char *path)
{
    static const struct { const char *begin; const struct format *errors; } dialects[] = {
        {"/api/", &format_ollama}, {"/v1/messages", &format_messages},
    };
    for (size_t i = 0; !found && i < sizeof dialects / sizeof *dialects; i++)
        if (!strncmp(path, dialects[i].begin, strlen(dialects[i].begin)))
            return dialects[i].errors;
    return !found ? NULL : found->errors ? found->errors : found->format;
}

/* Returns how many bytes a body can have: those of a prompt that fills the context, and of what comes with it.  A context of long pieces only is no
 * text that anybody has, but the limit refuses no prompt that fits. */
static size_t most_bytes(struct server *s)
{
    const struct model_info *info = s->ready ? s->r->ops->info(s->r) : NULL;
    if (info && !s->longest_piece)
        s->longest_piece = tokens_longest(s->r);
    const size_t prompt = info ? (size_t)info->n_ctx * s->longest_piece : 0;
    return (prompt > LEAST_BODY ? prompt : LEAST_BODY) + TOOLS_BODY + (s->r->can.pictures ? PICTURES_BODY : 0);
}

/* Returns how many values the JSON of a body can have: a token of the prompt is one, or more than one byte of a text. */
static size_t most_values(const struct server *s)
{
    const struct model_info *info = s->ready ? s->r->ops->info(s->r) : NULL;
    return (size_t)(info ? info->n_ctx : 0) + TOOLS_VALUES;
}

size_t routes_begun(void *arg, struct exchange *x)
{
    struct server *s = arg;
    const struct route *found = find_route(x);
    const char *method = exchange_method(x);
    struct err e;
    exchange_set_format(x, errors_of(found, exchange_path(x)));
    exchange_set_origin(x, origin_of(s, x));
    if (!may_ask(s, x, found ? found->path : ""))
        return 0;
    if (!strcmp(method, "OPTIONS") && origin_of(s, x)) {
        exchange_reply(x, 204, "text/plain", text_of(""), 0);
    } else if (!found) {
        exchange_error(x, 404, "unknown path; docs/serve.md lists the paths");
    } else if (strcmp(found->method, method) && (strcmp(found->method, "GET") || strcmp(method, "HEAD"))) {
        err_set(&e, "%s accepts %s, not %s", found->path, found->method, method);
        exchange_allow(x, strcmp(found->method, "GET") ? found->method : "GET, HEAD");
        exchange_error(x, 405, e.msg);
    } else if (!strcmp(found->method, "POST")) {
        return most_bytes(s);
    }
    return 0;
}

/* Has the body of a request read, on another thread if it is long. */
static void read_body(struct server *s, struct exchange *x, const struct route *found)
{
    const struct reading rd = {
        .x = x, .format = found->format, .reply = found->reply, .r = s->r, .ready = s->ready, .most_values = most_values(s), .recall = &s->recall,
    };
    if (!s->ready && found->reply)
        exchange_refuse(x, &(struct refusal){.status = 503, .message = "the model loads"}, WEB_RETRY_S);
    else
        readings_add(&s->readings, &rd, s->so.o);
}

/* Replies to a request that needs no body to be read. */
static void reply_at_once(struct server *s, struct exchange *x, const struct route *found)
{
    struct outcome to = {0};
    if (!found->at_once(s, x, &to))
        exchange_error(x, 400, to.e.msg);
    else if (to.body.len)
        exchange_json(x, 200, &to.body);
    else
        exchange_ok(x, "{}");
    buf_free(&to.body);
    arena_free(&to.mem);
}

void routes_asked(void *arg, struct exchange *x)
{
    struct server *s = arg;
    const struct route *found = find_route(x);
    if (found->format || found->reply)
        read_body(s, x, found);
    else if (tokens_too_many(exchange_body(x), most_values(s)))
        exchange_error(x, 400, "the body has more values than the context can hold");
    else if (found->at_once)
        reply_at_once(s, x, found);
    else
        found->send(s, x);
}
