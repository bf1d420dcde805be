#include "serve/control.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unixsocket.h"
#include "option/paths.h"
#include "fetch/http.h"
#include "serve/socket.h"

enum { ANSWER_S = 5, MAX_ANSWER = 1 << 20 };

void control_socket(const char *given, struct buf *path)
{
    buf_reset(path);
    if (given)
        paths_expand(path, given);
    else
        paths_runtime(path, "serve.sock");
}

/* Connects to find out whether a program of this user listens at the socket. */
static enum control_found knock(const char *path, struct err *e)
{
    struct err why = {{0}};
    int fd = unixsocket_connect(path, ANSWER_S * 1000, &why);
    if (fd >= 0) {
        close(fd);
        return CONTROL_FOUND;
    }
    if (errno == EAGAIN) {
        err_set(e, "the q35chat at %s does not answer, perhaps it is suspended: it has accepted no connection for %d s", path, ANSWER_S);
        return CONTROL_BUSY;
    }
    if (errno != EPERM && errno != EACCES)
        return CONTROL_NONE;
    err_set(e, "%s", why.msg);
    return CONTROL_FAILED;
}

static bool begin(void *arg, const struct http_reply *r, struct err *e)
{
    (void)arg, (void)r, (void)e;
    return true;
}

static bool take(void *arg, const void *bytes, size_t n, struct err *e)
{
    struct buf *out = arg;
    if (out->len + n > MAX_ANSWER)
        return err_set(e, "the answer is too long");
    buf_add(out, bytes, n);
    return true;
}

/* Puts the sentence of a refusal into `e`.  False: the reply is no refusal. */
static bool refusal(const char *socket, const struct buf *body, struct err *e)
{
    json_t *top = json_loadb(buf_str(body), body->len, 0, NULL);
    const json_t *error = json_object_get(top, "error");
    const char *why = json_string_value(json_object_get(error, "message"));
    if (error)
        err_set(e, "the server at %s refuses: %s", socket, why ? why : buf_str(body));
    json_decref(top);
    return error;
}

/* Sends a request.  Status 503 without an error is an answer as well: the model is loading. */
static enum control_found ask(struct http *h, const char *socket, const char *url, const char *post, struct buf *out, struct err *e)
{
    struct http_request q = {.url = url, .socket = socket, .stall_s = ANSWER_S, .begin = begin, .take = take, .arg = out, .refusal = out,
                             .post = post, .post_bytes = post ? strlen(post) : 0};
    struct http_reply r = {0};
    struct err why = {{0}};
    const enum http_result result = http_ask(h, &q, &r, &why);
    const int status = r.status;
    http_reply_free(&r);
    if (result == HTTP_ANSWERED && status == 200)
        return CONTROL_FOUND;
    if (result == HTTP_ANSWERED && refusal(socket, out, e))
        return status == 503 ? CONTROL_BUSY : CONTROL_FAILED;
    if (result == HTTP_ANSWERED && status == 503)
        return CONTROL_FOUND;
    if (result == HTTP_ANSWERED)
        err_set(e, "the server at %s answers with status %d", socket, status);
    else if (result == HTTP_HOPELESS)
        err_set(e, "%s", why.msg);
    else
        err_set(e, "the q35chat at %s does not answer, perhaps it is suspended: %s", socket, why.msg);
    if (result == HTTP_BROKEN)          /* perhaps because the server has ended since */
        return knock(socket, &why) == CONTROL_NONE ? CONTROL_NONE : CONTROL_BUSY;
    return CONTROL_FAILED;
}

static void add(struct buf *to, const json_t *from, const char *key)
{
    const json_t *v = json_object_get(from, key);
    buf_add(to, json_is_string(v) ? json_string_value(v) : "", json_string_length(v));
}

static int whole(const json_t *from, const char *key)
{
    return (int)json_integer_value(json_object_get(from, key));
}

/* Reads the state of a server from its replies to /v1/models and /health. */
static void read_state(const struct buf *models, const struct buf *health, struct control_state *s)
{
    json_t *list = json_loadb(buf_str(models), models->len, 0, NULL), *state = json_loadb(buf_str(health), health->len, 0, NULL);
    const json_t *model = json_array_get(json_object_get(list, "data"), 0);
    add(&s->model, model, "id");
    add(&s->root, model, "root");
    add(&s->options, model, "options");
    add(&s->address, model, "address");
    add(&s->key_file, model, "key_file");
    add(&s->why, state, "why");
    s->protocol = whole(model, "protocol");
    s->n_ctx = whole(model, "max_model_len");
    s->n_running = whole(state, "running");
    s->n_waiting = whole(state, "waiting");
    s->n_unread = whole(state, "unread");
    s->n_connections = whole(state, "clients") - 1;
    s->loaded_bytes = (double)json_integer_value(json_object_get(state, "loaded_bytes"));
    s->total_bytes = (double)json_integer_value(json_object_get(state, "total_bytes"));
    json_decref(list);
    json_decref(state);
}

enum control_found control_look(const char *socket, struct control_state *s, struct err *e)
{
    enum control_found found = knock(socket, e);
    struct buf models = {0}, health = {0};
    *s = (struct control_state){{0}};
    if (found != CONTROL_FOUND)
        return found;
    struct http *h = http_open();
    found = ask(h, socket, "http://localhost/v1/models", NULL, &models, e);
    if (found == CONTROL_FOUND)
        found = ask(h, socket, "http://localhost/health", NULL, &health, e);
    http_close(h);
    if (found == CONTROL_FOUND)
        read_state(&models, &health, s);
    if (found == CONTROL_FOUND && !s->root.len) {
        err_set(e, "the program that listens at %s is not q35chat", socket);
        found = CONTROL_FAILED;
    }
    buf_free(&models);
    buf_free(&health);
    return found;
}

void control_state_free(struct control_state *s)
{
    buf_free(&s->model);
    buf_free(&s->root);
    buf_free(&s->options);
    buf_free(&s->address);
    buf_free(&s->key_file);
    buf_free(&s->why);
}

/* True if another socket has taken the place of this one. */
static bool is_replaced(const char *socket, const struct stat *s)
{
    struct stat now;
    return !stat(socket, &now) && (now.st_ino != s->st_ino || memcmp(&now.st_ctim, &s->st_ctim, sizeof now.st_ctim));
}

/* Waits until a server that ends is gone; a chat may take its place at once.  False if it is still there after that time. */
static bool wait_for_end(const char *socket, const struct stat *own, int patience_s)
{
    enum { STEP_MS = 20 };
    const int64_t since = clock_ns();
    while (socket_is_held(socket) && !is_replaced(socket, own)) {
        if (clock_ms_since(since) > patience_s * 1000.0)
            return false;
        poll(NULL, 0, STEP_MS);
    }
    return true;
}

enum control_found control_stop(const char *socket, int patience_s, struct err *e)
{
    struct stat own = {0};
    struct buf out = {0};
    stat(socket, &own);
    enum control_found found = knock(socket, e);
    if (found != CONTROL_FOUND)
        return found;
    struct http *h = http_open();
    found = ask(h, socket, "http://localhost/stop", "", &out, e);
    http_close(h);
    buf_free(&out);
    if (found == CONTROL_FOUND && !wait_for_end(socket, &own, patience_s)) {
        err_set(e, "the server on %s ends, but still holds its socket after %d s: it gives its memory back, or is suspended", socket, patience_s);
        found = CONTROL_FAILED;
    }
    return found;
}

/* ---- the engine's options ---- */

static bool is_number(enum value_type type)
{
    return type == VALUE_INT || type == VALUE_SIZE || type == VALUE_REAL;
}

/* True if the default leaves the value to the program. */
static bool is_automatic(const char *standard)
{
    return !*standard || !strcmp(standard, "auto");
}

/* Appends a value so that equal values have equal texts, 4k and 4096; appends nothing for a default that leaves the value to the program. */
static void add_option(const struct option_about *about, const char *text, struct buf *out)
{
    if (is_number(about->type) && value_number(about->type, text) != value_number(about->type, about->standard))
        buf_addf(out, "%.10g", value_number(about->type, text));
    else if (!is_number(about->type) && (strcmp(text, about->standard) || !is_automatic(about->standard)))
        buf_adds(out, text);
}

void control_engine_key(const struct options *o, struct buf *out)
{
    struct option_about about;
    struct buf value = {0};
    for (int id = 0; options_about((enum option_id)id, &about); id++) {
        buf_reset(&value);
        if (about.of_attached && options_given(o, (enum option_id)id))
            add_option(&about, options_text(o, (enum option_id)id), &value);
        if (value.len)
            buf_addf(out, "%s%s=%s", out->len ? " " : "", about.key, value.data);
    }
    buf_free(&value);
}
