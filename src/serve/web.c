#include "serve/web.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/memory.h"

enum {
    MAX_CLIENTS = 256,
    MAX_LISTENERS = 4,
    MAX_UNREAD = 4 << 20,               /* bytes of a stream that a client has not read; owners stay far below it, else it is dropped */
    IDLE_S = 120,                       /* how long a connection over TCP may be idle, streams apart; those of a unix socket may for ever */
    ARRIVE_MS = 60000,                  /* for a request to arrive whole */
    SWEEP_MS = 1000,
    HEADER_BYTES = 64 << 10,
    READ_BYTES = 16 << 10,
};

/* What the epoll descriptor watches. */
struct watch {
    enum { WATCH_DAEMON, WATCH_LISTENER, WATCH_CLIENT } what;
    int fd;
};

/* A connection. */
struct client {
    struct watch watch;                 /* the first member; tells when the other side has closed */
    struct web *web;
    struct client *next, **link;
    struct exchange *x;                 /* the one under way, or NULL */
    int64_t since_ns;                   /* when the request that has not arrived whole began; 0: there is none */
    bool local;
};

struct exchange {
    struct client *client;
    struct MHD_Connection *connection;
    char *method, *path;
    struct buf body;
    void *kept;
    bool asked, dropped, suspended;

    int status;                         /* 0: not answered yet */
    const char *type;
    int retry_s;
    bool streams, ended;
    struct buf out;                     /* the reply, or what of the stream is not sent yet */
    size_t sent;                        /* bytes at the front of `out` that are sent */
    int64_t read_ns;                    /* of a stream: when something was sent last, or came that could be */
};

struct web {
    struct web_owner owner;
    struct MHD_Daemon *daemon;
    struct watch watch;
    int epoll;
    struct watch listeners[MAX_LISTENERS];
    int n_listeners;
    struct client *clients;
    int n_clients;
};

/* ---- an exchange ---- */

static void suspend(struct exchange *x)
{
    x->suspended = true;
    MHD_suspend_connection(x->connection);
}

/* libmicrohttpd looks at it again. */
static void resume(struct exchange *x)
{
    if (!x->suspended)
        return;
    x->suspended = false;
    MHD_resume_connection(x->connection);
}

/* Also when it waits for the client to read. */
static void drop(struct exchange *x)
{
    x->dropped = true;
    shutdown(x->client->watch.fd, SHUT_RDWR);
    resume(x);
}

/* Over TCP: how long the connection may do nothing; 0: any time. */
static void set_patience(struct MHD_Connection *connection, int s)
{
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)s);
}

static void exchange_free(struct exchange *x)
{
    if (x->client->x == x)
        x->client->x = NULL;
    free(x->method);
    free(x->path);
    buf_free(&x->body);
    buf_free(&x->out);
    free(x);
}

/* What libmicrohttpd sends next of a stream. */
static ssize_t read_stream(void *arg, uint64_t pos, char *to, size_t max)
{
    struct exchange *x = arg;
    size_t left = exchange_unread(x), n = left < max ? left : max;
    (void)pos;
    if (x->dropped)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (!n && x->ended)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (!n) {
        suspend(x);
        return 0;
    }
    x->read_ns = clock_ns();
    memcpy(to, x->out.data + x->sent, n);
    x->sent += n;
    if (x->sent == x->out.len) {
        buf_reset(&x->out);
        x->sent = 0;
    }
    return (ssize_t)n;
}

static enum MHD_Result respond(struct exchange *x)
{
    char retry[16];
    struct MHD_Response *r = x->streams ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, READ_BYTES, read_stream, x, NULL)
                                        : MHD_create_response_from_buffer(x->out.len, (void *)buf_str(&x->out), MHD_RESPMEM_MUST_COPY);
    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, "Content-Type", x->type);
    MHD_add_response_header(r, "Cache-Control", "no-store");
    if (x->retry_s) {
        snprintf(retry, sizeof retry, "%d", x->retry_s);
        MHD_add_response_header(r, "Retry-After", retry);
    }
    enum MHD_Result done = MHD_queue_response(x->connection, (unsigned)x->status, r);
    MHD_destroy_response(r);
    return done;
}

void exchange_reply(struct exchange *x, int status, const char *type, struct text body, int retry_s)
{
    x->status = status;
    x->type = type;
    x->retry_s = retry_s;
    buf_add(&x->out, body.p ? body.p : "", body.n);
    resume(x);
}

void exchange_begin(struct exchange *x, const char *type)
{
    x->status = MHD_HTTP_OK;
    x->type = type;
    x->streams = true;
    set_patience(x->connection, 0);
    resume(x);
}

void exchange_write(struct exchange *x, struct text piece)
{
    if (exchange_unread(x) + piece.n > MAX_UNREAD) {
        drop(x);
        return;
    }
    if (x->sent > x->out.len / 2) {
        buf_consume(&x->out, x->sent);
        x->sent = 0;
    }
    if (!exchange_unread(x))
        x->read_ns = clock_ns();
    buf_add(&x->out, piece.p, piece.n);
    resume(x);
}

void exchange_end(struct exchange *x)
{
    x->ended = true;
    if (!x->client->local)
        set_patience(x->connection, IDLE_S);
    resume(x);
}

size_t exchange_unread(const struct exchange *x)
{
    return x->out.len - x->sent;
}

double exchange_unread_ms(const struct exchange *x)
{
    return exchange_unread(x) ? clock_ms_since(x->read_ns) : 0;
}

const char *exchange_method(const struct exchange *x) { return x->method; }
const char *exchange_path(const struct exchange *x) { return x->path; }
struct text exchange_body(const struct exchange *x) { return (struct text){buf_str(&x->body), x->body.len}; }
bool exchange_is_local(const struct exchange *x) { return x->client->local; }
void exchange_set_data(struct exchange *x, void *own) { x->kept = own; }
void *exchange_data(const struct exchange *x) { return x->kept; }

const char *exchange_header(const struct exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

/* ---- what libmicrohttpd tells ---- */

static enum MHD_Result too_large(struct exchange *x)
{
    static const char said[] = "{\"error\": {\"message\": \"the request has more than 64 MiB\", \"type\": \"invalid_request_error\"}}";
    exchange_reply(x, MHD_HTTP_CONTENT_TOO_LARGE, "application/json", text_of(said), 0);
    return respond(x);
}

static enum MHD_Result begin(struct client *client, struct MHD_Connection *connection, const char *method, const char *path, void **own)
{
    struct exchange *x = memory_zeroed(1, sizeof *x);
    *own = x;
    x->client = client;
    x->connection = connection;
    x->method = memory_strdup(method);
    x->path = memory_strdup(path);
    client->x = x;
    client->since_ns = clock_ns();
    const char *length = exchange_header(x, "Content-Length");
    return length && strtoull(length, NULL, 10) > WEB_MAX_BODY ? too_large(x) : MHD_YES;
}

static enum MHD_Result take_body(struct exchange *x, const char *bytes, size_t *n)
{
    if (x->body.len + *n > WEB_MAX_BODY)
        return MHD_NO;                  /* of a length that it did not tell: the connection is closed */
    buf_add(&x->body, bytes, *n);
    *n = 0;
    return MHD_YES;
}

/* Is called when the head has come, for each piece of the body, at its end, and after each resume(). */
static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *path, const char *method, const char *version,
                              const char *bytes, size_t *n, void **own)
{
    struct web *w = arg;
    struct exchange *x = *own;
    (void)version;
    if (!x)
        return begin(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context, connection, method, path, own);
    if (x->dropped)
        return MHD_NO;
    if (*n)
        return take_body(x, bytes, n);
    if (!x->asked) {
        x->asked = true;
        x->client->since_ns = 0;
        w->owner.asked(w->owner.arg, x);
    }
    if (x->status)
        return respond(x);
    suspend(x);
    return MHD_YES;
}

static void completed(void *arg, struct MHD_Connection *connection, void **own, enum MHD_RequestTerminationCode how)
{
    struct web *w = arg;
    struct exchange *x = *own;
    (void)connection, (void)how;
    if (!x)
        return;
    x->client->since_ns = 0;
    if (x->asked)
        w->owner.gone(w->owner.arg, x);
    exchange_free(x);
    *own = NULL;
}

static void watch(struct web *w, struct watch *it, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = it};
    epoll_ctl(w->epoll, EPOLL_CTL_ADD, it->fd, &ev);
}

static void client_opened(struct web *w, struct MHD_Connection *connection, void **context)
{
    struct client *c = memory_zeroed(1, sizeof *c);
    struct sockaddr_storage name = {0};
    socklen_t size = sizeof name;
    c->web = w;
    c->watch = (struct watch){WATCH_CLIENT, MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd};
    c->local = !getsockname(c->watch.fd, (struct sockaddr *)&name, &size) && name.ss_family == AF_UNIX;
    c->since_ns = clock_ns();
    c->next = w->clients;
    c->link = &w->clients;
    if (c->next)
        c->next->link = &c->next;
    w->clients = c;
    w->n_clients++;
    set_patience(connection, c->local ? 0 : IDLE_S);
    watch(w, &c->watch, EPOLLRDHUP | EPOLLET);
    *context = c;
}

static void client_closed(struct client *c)
{
    epoll_ctl(c->web->epoll, EPOLL_CTL_DEL, c->watch.fd, NULL);
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    c->web->n_clients--;
    free(c);
}

static void connection_changed(void *arg, struct MHD_Connection *connection, void **context, enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        client_opened(arg, connection, context);
    else if (*context)
        client_closed(*context);
}

static void say_nothing(void *arg, const char *fmt, va_list ap)
{
    (void)arg, (void)fmt, (void)ap;     /* clients that break off are nothing to tell */
}

/* ---- sockets ---- */

static bool is_ours(int fd)
{
    struct sockaddr_storage name = {0};
    struct ucred peer;
    socklen_t size = sizeof name, n = sizeof peer;
    if (getsockname(fd, (struct sockaddr *)&name, &size) || name.ss_family != AF_UNIX)
        return true;                    /* over TCP a key is asked for */
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) && peer.uid == geteuid();
}

static void accept_clients(struct web *w, int listener)
{
    for (;;) {
        struct sockaddr_storage from = {0};
        socklen_t size = sizeof from;
        int fd = accept4(listener, (struct sockaddr *)&from, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0)
            return;
        if (!is_ours(fd))
            close(fd);
        else                            /* closes it where there are too many */
            MHD_add_connection(w->daemon, fd, (struct sockaddr *)&from, size);
    }
}

bool web_listen(struct web *w, int fd, struct err *e)
{
    if (w->n_listeners == MAX_LISTENERS)
        return err_set(e, "there are more than %d sockets to listen on", (int)MAX_LISTENERS);
    struct watch *it = &w->listeners[w->n_listeners++];
    *it = (struct watch){WATCH_LISTENER, fd};
    watch(w, it, EPOLLIN);
    return true;
}

void web_shut(struct web *w)
{
    while (w->n_listeners)
        close(w->listeners[--w->n_listeners].fd);
}

/* ---- the whole ---- */

struct web *web_open(const struct web_owner *owner, struct err *e)
{
    struct web *w = memory_zeroed(1, sizeof *w);
    w->owner = *owner;
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->daemon = w->epoll < 0 ? NULL
        : MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle, w,
                           MHD_OPTION_EXTERNAL_LOGGER, say_nothing, NULL, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CLIENTS,
                           MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES, MHD_OPTION_NOTIFY_COMPLETED, completed, w,
                           MHD_OPTION_NOTIFY_CONNECTION, connection_changed, w, MHD_OPTION_END);
    if (!w->daemon) {
        err_set(e, "cannot start a server: %s", strerror(errno));
        web_close(w);
        return NULL;
    }
    w->watch = (struct watch){WATCH_DAEMON, MHD_get_daemon_info(w->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd};
    watch(w, &w->watch, EPOLLIN);
    return w;
}

/* Replies to a request that arrives while the server closes. */
static void refuse_late(void *arg, struct exchange *x)
{
    static const char said[] = "{\"error\": {\"message\": \"the server is closing\", \"type\": \"server_error\"}}";
    (void)arg;
    exchange_reply(x, MHD_HTTP_SERVICE_UNAVAILABLE, "application/json", text_of(said), 0);
}

void web_close(struct web *w)
{
    if (!w)
        return;
    w->owner.asked = refuse_late;       /* which suspends no connection */
    for (struct client *c = w->clients; c; c = c->next)
        if (c->x)
            drop(c->x);
    if (w->daemon) {
        MHD_run(w->daemon);             /* it must not be stopped while connections are suspended */
        MHD_stop_daemon(w->daemon);
    }
    web_shut(w);
    if (w->epoll >= 0)
        close(w->epoll);
    free(w);
}

int web_fd(const struct web *w)
{
    return w->epoll;
}

static bool arrives(const struct web *w)
{
    for (const struct client *c = w->clients; c; c = c->next)
        if (c->since_ns)
            return true;
    return false;
}

int web_timeout(const struct web *w)
{
    unsigned long long ms = 0;
    int most = arrives(w) ? SWEEP_MS : -1;
    if (MHD_get_timeout(w->daemon, &ms) != MHD_YES)
        return most;
    return most >= 0 && ms > (unsigned long long)most ? most : ms > 1u << 30 ? 1 << 30 : (int)ms;
}

/* Requests that take too long to arrive. */
static void sweep(struct web *w)
{
    for (struct client *c = w->clients; c; c = c->next)
        if (c->since_ns && clock_ms_since(c->since_ns) > ARRIVE_MS)
            shutdown(c->watch.fd, SHUT_RDWR);
}

void web_run(struct web *w)
{
    struct epoll_event events[64];
    int n = epoll_wait(w->epoll, events, sizeof events / sizeof *events, 0);
    for (int i = 0; i < n; i++) {
        struct watch *it = events[i].data.ptr;
        struct client *c = (struct client *)it;
        if (it->what == WATCH_CLIENT && c->x && c->x->asked)
            drop(c->x);                 /* frees nothing yet, so that the other events stay valid */
    }
    for (int i = 0; i < n; i++) {
        struct watch *it = events[i].data.ptr;
        if (it->what == WATCH_LISTENER)
            accept_clients(w, it->fd);
    }
    sweep(w);
    MHD_run(w->daemon);
}

int web_n_clients(const struct web *w)
{
    return w->n_clients;
}
