#include "serve/web.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/memory.h"
#include "serve/format.h"
#include "serve/socket.h"

enum {
    MAX_CLIENTS = 512,                  /* more than all shares, since connections that were closed leave a little later */
    AT_ONCE = 16,                       /* connections accepted of a listener before those that are there are read again */
    MAX_LISTENERS = 4,
    MAX_UNREAD = 4 << 20,               /* bytes of a stream that a client has not read; owners stay far below it, else it is dropped */
    IDLE_S = 120,                       /* how long a connection over TCP may be idle, streams apart; those of a unix socket may for ever */
    ANY_TIME_S = 30 * 24 * 3600,        /* longer than it matters; libmicrohttpd counts milliseconds in 32 bits */
    ARRIVE_MS = 60000,                  /* for a request to arrive whole */
    SWEEP_MS = 1000,
    LAST_MS = 1000,                     /* for clients to read the ends of their replies when the server closes */
    LAST_POLL_MS = 10,
    HEADER_BYTES = 64 << 10,
    READ_BYTES = 16 << 10,
    ID_BYTES = 48,
    MAX_RESTS = 64,
    REST_BYTES = 4 << 20,               /* of a request that was refused: what agents send, without a picture or with a few */
    REST_MS = 2000,
};

static const char no_memory[] = "the requests that are under way take all the memory for bodies; ask again later";

/* The key is known after the first head, so every connection over TCP begins as SHARE_OPEN. */
enum share { SHARE_LOCAL, SHARE_KEYED, SHARE_OPEN, SHARE_NONE };
static const struct {
    int places;
    size_t body_bytes;                  /* of all requests together, from their heads to the ends of their replies */
    const char *full;
} shares[] = {
    [SHARE_LOCAL] = {256, 256 << 20, "256 programs are connected over the unix socket; end one of them, or ask again later"},
    [SHARE_KEYED] = {96, 128 << 20, "96 connections with the key are in use; ask again later"},
    [SHARE_OPEN] = {32, 0, "more than 32 connections have not sent a key yet: this one was the oldest; connect again and send the key at once"},
};

/* A descriptor that the epoll descriptor watches. */
struct watch {
    enum { WATCH_DAEMON, WATCH_LISTENER, WATCH_CLIENT, WATCH_REST, WATCH_OWNERS } what;
    int fd;
};

/* A connection. */
struct client {
    struct watch watch;                 /* the first member */
    struct web *web;
    struct client *next, **link;
    struct exchange *x;                 /* the one under way, or NULL */
    int64_t since_ns;                   /* when the first byte came of a request that has not arrived whole; 0: no such request */
    enum share share;                   /* SHARE_NONE: the connection is being closed */
    bool local;
    bool finished;                      /* the client sends nothing more: it has closed, or shut its sending side */
    bool closed;                        /* it has closed; over TCP that shows when something is sent */
    int64_t looked_ns;                  /* when the finished client was looked for among the sockets of this machine */
    bool more;                          /* bytes of the next request are there */
};

/* A connection that was replied to before its request had arrived whole.  If it were closed, what comes of the request would have the kernel reset
 * it, and the client, which still sends, might never see the reply.  So the rest is read and dropped, up to REST_BYTES and REST_MS. */
struct rest {
    struct watch watch;                 /* the first member */
    int64_t since_ns;                   /* 0: the place is free */
    size_t left;
};

struct exchange {
    struct client *client;
    struct MHD_Connection *connection;
    char *method, *path;
    struct buf body;
    bool has_body;                      /* the head announces one */
    size_t most;                        /* bytes that it may have */
    size_t reserved;                    /* bytes of its share that the body takes */
    enum share share;                   /* where they are reserved */
    void *kept;
    int  key;                           /* the number of the key that it showed; -1: none */
    bool asked, dropped, suspended;
    char id[ID_BYTES];                  /* of the request: in the headers of its reply, and in the errors of formats that have it */

    int status;                         /* 0: not answered yet */
    const struct format *format;        /* of errors; NULL: that of OpenAI's servers */
    const char *type;
    const char *allow;                  /* methods of the path, or NULL */
    char *note;                         /* what the client should know, or NULL */
    const char *origin;                 /* of the web page that may read the reply, or NULL */
    int retry_s;
    bool streams, ended;
    struct buf out;                     /* the reply, or what of the stream is not sent yet */
    size_t sent;                        /* bytes at the front of `out` that are sent */
    int64_t read_ns;                    /* of a stream: when something was sent last, or came that could be */
};

struct web {
    struct web_owner owner;
    struct MHD_Daemon *daemon;
    struct watch watch, owners;
    int epoll;
    struct watch listeners[MAX_LISTENERS];
    int n_listeners;
    struct client *clients;
    int n_clients;
    struct rest rests[MAX_RESTS];
    unsigned next_rest;                 /* the number of the oldest, or of a free place */
    int n_in[SHARE_NONE + 1];           /* clients of each share */
    size_t body_bytes[SHARE_NONE + 1];  /* reserved in each share */
    uint64_t id;                        /* random, and */
    uint64_t n_requests;                /* ... a number: the ids of requests */
};

/* ---- clients ---- */

static void watch(struct web *w, struct watch *it, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = it};
    epoll_ctl(w->epoll, EPOLL_CTL_ADD, it->fd, &ev);
}

static bool is_unix(int fd)
{
    struct sockaddr_storage name = {0};
    socklen_t size = sizeof name;
    return !getsockname(fd, (struct sockaddr *)&name, &size) && name.ss_family == AF_UNIX;
}

static void move_to(struct client *c, enum share share)
{
    c->web->n_in[c->share]--;
    c->share = share;
    c->web->n_in[share]++;
}

/* Closes the connection; libmicrohttpd finds that out when it runs. */
static void hang_up(struct client *c)
{
    move_to(c, SHARE_NONE);
    c->since_ns = 0;
    shutdown(c->watch.fd, SHUT_RDWR);
}

static void make_id(struct web *w, char id[ID_BYTES])
{
    snprintf(id, ID_BYTES, "req_%016llx%llu", (unsigned long long)w->id, (unsigned long long)++w->n_requests);
}

typedef void header_fn(void *to, const char *name, const char *value);

/* Adds the headers by which a browser lets a page of another origin use the server. */
static void add_origin(const struct exchange *x, header_fn *add, void *to)
{
    const char *headers = exchange_header(x, "Access-Control-Request-Headers");
    add(to, "Access-Control-Allow-Origin", x->origin);
    add(to, "Vary", "Origin");
    add(to, "Access-Control-Expose-Headers", "request-id, x-request-id, x-q35chat-note, Retry-After");
    if (strcmp(x->method, "OPTIONS"))
        return;
    add(to, "Access-Control-Allow-Methods", "GET, POST, HEAD");
    add(to, "Access-Control-Max-Age", "600");
    if (headers)
        add(to, "Access-Control-Allow-Headers", headers);
    if (exchange_header(x, "Access-Control-Request-Private-Network"))
        add(to, "Access-Control-Allow-Private-Network", "true");
}

/* Adds the headers of the reply, without those that say where its body ends. */
static void add_headers(const struct exchange *x, header_fn *add, void *to)
{
    char retry[16];
    add(to, "Content-Type", x->type);
    add(to, "Cache-Control", "no-store");
    if (x->streams)
        add(to, "X-Accel-Buffering", "no");     /* nginx would keep the bytes of a stream until its buffers are full */
    add(to, "request-id", x->id);       /* Anthropic's name of it, and */
    add(to, "x-request-id", x->id);     /* ... that of everybody else */
    if (x->retry_s) {
        snprintf(retry, sizeof retry, "%d", x->retry_s);
        add(to, "Retry-After", retry);
    }
    if (x->note)
        add(to, "x-q35chat-note", x->note);
    if (x->origin)
        add_origin(x, add, to);
    if (x->allow)
        add(to, "Allow", x->allow);
}

static void add_line(void *to, const char *name, const char *value)
{
    buf_addf(to, "%s: %s\r\n", name, value);
}

/* Sends a reply without libmicrohttpd, which replies at the end of a head or of a body alone, and closes the connection.  The reply fits into the
 * buffer of a socket to which nothing was sent, or is lost. */
static void send_reply(int fd, const struct exchange *x)
{
    struct buf out = {0};
    buf_addf(&out, "HTTP/1.1 %d %s\r\nContent-Length: %zu\r\nConnection: close\r\n", x->status,
             MHD_get_reason_phrase_for((unsigned)x->status), x->out.len);
    add_headers(x, add_line, &out);
    buf_adds(&out, "\r\n");
    buf_add(&out, buf_str(&x->out), x->out.len);
    (void)!send(fd, out.data, out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    buf_free(&out);
}

/* Sends a sentence as the reply.  of NULL: the connection has no request yet. */
static void send_why(struct web *w, int fd, const struct exchange *of, int status, const char *why)
{
    struct exchange x = of ? *of : (struct exchange){0};
    if (!of)
        make_id(w, x.id);
    x.out = (struct buf){0};
    x.status = status;
    x.type = "application/json";
    x.retry_s = status == MHD_HTTP_SERVICE_UNAVAILABLE ? WEB_RETRY_S : 0;
    (x.format ? x.format->error : openai_error)(&(struct refusal){.status = status, .message = why, .request_id = x.id}, &x.out);
    send_reply(fd, &x);
    buf_free(&x.out);
}

static void refuse_and_hang_up(struct client *c, int status, const char *why)
{
    send_why(c->web, c->watch.fd, c->x, status, why);
    hang_up(c);
}

/* ---- rests of refused requests ---- */

static void end_rest(struct rest *r)
{
    if (r->since_ns)
        close(r->watch.fd);
    r->since_ns = 0;
}

/* Reads what has come, and closes the connection at its end. */
static void drop_rest(struct rest *r)
{
    char bytes[READ_BYTES];
    ssize_t n = 1;
    while (r->left && n > 0) {
        n = recv(r->watch.fd, bytes, r->left < sizeof bytes ? r->left : sizeof bytes, MSG_DONTWAIT);
        r->left -= n > 0 ? (size_t)n : 0;
    }
    if (!r->left || !n || (n < 0 && errno != EAGAIN && errno != EINTR))
        end_rest(r);
}

/* Keeps the connection of a client that was refused until the rest of its request has come; fd is its own, or negative. */
static void keep_rest(struct web *w, int fd)
{
    struct rest *r = &w->rests[w->next_rest++ % MAX_RESTS];
    if (fd < 0)
        return;
    end_rest(r);
    *r = (struct rest){{WATCH_REST, fd}, clock_ns(), REST_BYTES};
    shutdown(fd, SHUT_WR);
    watch(w, &r->watch, EPOLLIN);
}

/* Leaves a client whose request is arriving and was replied to.  Its handler returns this to libmicrohttpd, which closes the connection there. */
static enum MHD_Result leave(struct client *c)
{
    keep_rest(c->web, fcntl(c->watch.fd, F_DUPFD_CLOEXEC, 0));
    move_to(c, SHARE_NONE);
    c->since_ns = 0;
    return MHD_NO;
}

static enum MHD_Result refuse_and_leave(struct client *c, int status, const char *why)
{
    send_why(c->web, c->watch.fd, c->x, status, why);
    return leave(c);
}

/* True if the client can be closed for another: it is idle, or has not shown a key. */
static bool may_go(const struct client *c)
{
    return c->share == SHARE_OPEN ? !c->x || !c->x->status : !c->x && !c->since_ns;
}

/* Makes a place in the share.  False: all are in use. */
static bool make_place(struct web *w, enum share share)
{
    struct client *oldest = NULL;
    if (w->n_in[share] < shares[share].places)
        return true;
    for (struct client *c = w->clients; c; c = c->next)         /* the newest is the first */
        if (c->share == share && may_go(c))
            oldest = c;
    if (oldest && share == SHARE_OPEN)
        refuse_and_hang_up(oldest, MHD_HTTP_SERVICE_UNAVAILABLE, shares[share].full);
    else if (oldest)                    /* idle: its client connects again when it has a request */
        hang_up(oldest);
    return oldest;
}

/* Reserves memory for n more bytes of a body.  False: the share is used up. */
static bool reserve(struct exchange *x, size_t n)
{
    size_t *used = &x->client->web->body_bytes[x->share];
    if (n > shares[x->share].body_bytes - *used)
        return false;
    *used += n;
    x->reserved += n;
    return true;
}

/* ---- an exchange ---- */

static void suspend(struct exchange *x)
{
    x->suspended = true;
    MHD_suspend_connection(x->connection);
}

/* Makes libmicrohttpd look at the exchange again. */
static void resume(struct exchange *x)
{
    if (!x->suspended)
        return;
    x->suspended = false;
    MHD_resume_connection(x->connection);
}

/* Breaks the exchange off, also while it waits for the client to read. */
static void drop(struct exchange *x)
{
    x->dropped = true;
    shutdown(x->client->watch.fd, SHUT_RDWR);
    resume(x);
}

/* Sets how long the connection may do nothing; 0: any time.  libmicrohttpd reads from a connection that was resumed before its reply has begun, and
 * breaks it off if the client has shut its sending side; those with a time of their own it handles first.  So each one has some. */
static void set_patience(struct MHD_Connection *connection, int s)
{
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)(s ? s : ANY_TIME_S));
}

/* Frees an exchange and gives back the bytes reserved for its body. */
static void exchange_free(struct exchange *x)
{
    if (x->client->x == x)
        x->client->x = NULL;
    x->client->web->body_bytes[x->share] -= x->reserved;
    free(x->method);
    free(x->path);
    free(x->note);
    buf_free(&x->body);
    buf_free(&x->out);
    free(x);
}

/* Gives libmicrohttpd the next bytes of a stream. */
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

static void add_header(void *to, const char *name, const char *value)
{
    MHD_add_response_header(to, name, value);
}

/* Queues the reply, from its buffer or as a stream, with its headers. */
static enum MHD_Result respond(struct exchange *x)
{
    struct MHD_Response *r = x->streams ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, READ_BYTES, read_stream, x, NULL)
                                        : MHD_create_response_from_buffer(x->out.len, (void *)buf_str(&x->out), MHD_RESPMEM_MUST_COPY);
    if (!r)
        return MHD_NO;
    add_headers(x, add_header, r);
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

void exchange_json(struct exchange *x, int status, const struct buf *body)
{
    exchange_reply(x, status, "application/json", (struct text){buf_str(body), body->len}, 0);
}

void exchange_ok(struct exchange *x, const char *json)
{
    exchange_reply(x, MHD_HTTP_OK, "application/json", text_of(json), 0);
}

void exchange_refuse(struct exchange *x, const struct refusal *f, int retry_s)
{
    struct buf body = {0};
    struct refusal own = *f;
    own.request_id = x->id;
    (x->format ? x->format->error : openai_error)(&own, &body);
    exchange_reply(x, f->status, "application/json", (struct text){body.data, body.len}, retry_s);
    buf_free(&body);
}

void exchange_error(struct exchange *x, int status, const char *message)
{
    exchange_refuse(x, &(struct refusal){.status = status, .message = message}, 0);
}

void exchange_begin(struct exchange *x, const char *type)
{
    x->status = MHD_HTTP_OK;
    x->type = type;
    x->streams = true;
    set_patience(x->connection, 0);
    resume(x);
}

bool exchange_has_begun(const struct exchange *x)
{
    return x->streams;
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

void exchange_take_body(struct exchange *x, struct buf *to)
{
    *to = x->body;
    x->body = (struct buf){0};
}

void exchange_set_format(struct exchange *x, const struct format *f) { x->format = f; }
void exchange_set_origin(struct exchange *x, const char *origin) { x->origin = origin; }

void exchange_note(struct exchange *x, const char *note)
{
    free(x->note);
    x->note = memory_strdup(note);
    for (char *p = x->note; *p; p++)    /* other characters would end the header, or mean different things to different clients */
        *p = *p < ' ' || *p > '~' ? '?' : *p;
}

void exchange_allow(struct exchange *x, const char *methods) { x->allow = methods; }
void exchange_set_data(struct exchange *x, void *own) { x->kept = own; }
void *exchange_data(const struct exchange *x) { return x->kept; }

const char *exchange_header(const struct exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

bool exchange_trust(struct exchange *x, int key)
{
    x->key = key;
    struct client *c = x->client;
    if (c->share == SHARE_OPEN && make_place(c->web, SHARE_KEYED)) {
        move_to(c, SHARE_KEYED);
        x->share = SHARE_KEYED;
    }
    if (c->share != SHARE_OPEN)
        return true;
    exchange_refuse(x, &(struct refusal){.status = 503, .message = shares[SHARE_KEYED].full}, WEB_RETRY_S);
    return false;
}

const char *exchange_id(const struct exchange *x) { return x->id; }

int exchange_key(const struct exchange *x)
{
    return x->key;
}

/* ---- reports of libmicrohttpd ---- */

/* Header fields that a head may have only once: the length of its body, and the host. */
struct lengths {
    int n, n_codings, n_hosts;
    const char *first;
    bool differ, chunked, blank;        /* blank: in the name of a field, which others may read as the name without it */
};

/* Counts the headers that say where the body ends, and notes contradictions between them. */
static enum MHD_Result add_length(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct lengths *l = arg;
    (void)kind;
    l->blank |= name[strcspn(name, " \t")] != 0;
    if (!strcasecmp(name, "Transfer-Encoding")) {
        l->n_codings++;
        l->chunked = !strcasecmp(value, "chunked");
    }
    l->n_hosts += !strcasecmp(name, "Host");
    if (strcasecmp(name, "Content-Length"))
        return MHD_YES;
    l->differ |= l->n++ && strcmp(l->first, value);
    l->first = value;
    return MHD_YES;
}

/* Replies to a request whose body has no one length: a program in front of this one could find another end of it.  Sets *bytes; 0: the length is
 * not known, or there is no body. */
static bool read_length(struct exchange *x, size_t *bytes)
{
    struct lengths l = {0};
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, add_length, &l);
    const size_t digits = l.first ? strspn(l.first, "0123456789") : 0;
    *bytes = l.first ? strtoull(l.first, NULL, 10) : 0;
    x->has_body = *bytes || l.n_codings;
    if (l.n_codings > 1 || (l.n_codings && !l.chunked))
        exchange_error(x, 501, "the Transfer-Encoding is not chunked, and no other is supported");
    else if (l.n_codings && l.n)
        exchange_error(x, 400, "the request has both Content-Length and Transfer-Encoding");
    else if (l.blank)                   /* libmicrohttpd would read the body as the next request */
        refuse_and_leave(x->client, 400, "the name of a header field has a blank");
    else if (l.n_hosts > 1)             /* a program in front of this one may have checked the other */
        exchange_error(x, 400, "the request has more than one Host header");
    else if (l.differ || (l.first && (!digits || l.first[digits])))
        exchange_error(x, 400, "the Content-Length is not one whole number");
    return !x->status && !l.blank;
}

static void refuse_body(struct exchange *x)
{
    struct err e;
    if (x->most)
        err_set(&e, "the body has more than %zu bytes, the most that a request can have here", x->most);
    else
        err_set(&e, "a request of this method has no body here");
    exchange_error(x, MHD_HTTP_CONTENT_TOO_LARGE, e.msg);
}

/* Looks at the head, and replies if the body is not wanted. */
static void look_at_head(struct exchange *x)
{
    struct web *w = x->client->web;
    const char *coding = exchange_header(x, "Content-Encoding");
    size_t bytes;
    if (!read_length(x, &bytes))
        return;
    x->most = w->owner.begun(w->owner.arg, x);
    x->most = x->most < WEB_MAX_BODY ? x->most : WEB_MAX_BODY;
    if (x->status)
        return;
    if (x->has_body && coding && strcasecmp(coding, "identity"))
        exchange_error(x, 415, "the body has a Content-Encoding: send it as it is, without one");
    else if (bytes > x->most || (x->has_body && !x->most))
        refuse_body(x);
    else if (!reserve(x, bytes))
        exchange_refuse(x, &(struct refusal){.status = 503, .message = no_memory}, WEB_RETRY_S);
    else
        buf_reserve(&x->body, bytes);   /* so that it is not copied while it grows */
}

/* Replies to the head alone, before the body, if there is one. */
static enum MHD_Result refuse(struct exchange *x)
{
    if (!x->has_body)
        return respond(x);
    send_reply(x->client->watch.fd, x);
    return leave(x->client);
}

/* Begins an exchange when the head of a request has arrived, and refuses it at once if the head is wrong. */
static enum MHD_Result begin(struct client *client, struct MHD_Connection *connection, const char *method, const char *path, void **own)
{
    struct exchange *x = memory_zeroed(1, sizeof *x);
    x->key = -1;
    make_id(client->web, x->id);
    *own = x;
    x->client = client;
    x->share = client->share;
    x->connection = connection;
    x->method = memory_strdup(method);
    x->path = memory_strdup(path);
    client->x = x;
    if (!client->since_ns)
        client->since_ns = clock_ns();
    look_at_head(x);
    if (client->share == SHARE_NONE)
        return MHD_NO;
    return x->status ? refuse(x) : MHD_YES;
}

/* A body whose length was not given grows until a limit is met. */
static enum MHD_Result take_body(struct exchange *x, const char *bytes, size_t *n)
{
    const size_t len = x->body.len + *n;
    if (len > x->most)
        return refuse_and_leave(x->client, MHD_HTTP_CONTENT_TOO_LARGE, "the body is larger than a request can have here");
    if (len > x->reserved && !reserve(x, len - x->reserved))
        return refuse_and_leave(x->client, MHD_HTTP_SERVICE_UNAVAILABLE, no_memory);
    buf_add(&x->body, bytes, *n);
    *n = 0;
    return MHD_YES;
}

/* Called when the head has come, for each piece of the body, at its end, and after each resume(). */
static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *path, const char *method, const char *version,
                              const char *bytes, size_t *n, void **own)
{
    struct web *w = arg;
    struct exchange *x = *own;
    (void)version;
    if (!x) {
        struct client *c = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
        return c->share == SHARE_NONE ? MHD_NO : begin(c, connection, method, path, own);
    }
    if (x->dropped)
        return MHD_NO;
    if (x->status && !x->asked)
        return MHD_NO;                  /* refused, and yet there is a body */
    if (*n)
        return take_body(x, bytes, n);
    if (!x->asked) {
        x->asked = true;
        x->client->since_ns = 0;
        w->owner.asked(w->owner.arg, x);
        buf_free(&x->body);             /* was read */
    }
    if (x->status)
        return respond(x);
    suspend(x);
    return MHD_YES;
}

/* Called by libmicrohttpd at the end of an exchange, complete or broken off: frees it. */
static void completed(void *arg, struct MHD_Connection *connection, void **own, enum MHD_RequestTerminationCode how)
{
    struct web *w = arg;
    struct exchange *x = *own;
    (void)connection, (void)how;
    if (!x)
        return;
    x->client->since_ns = x->client->more ? clock_ns() : 0;
    x->client->more = false;
    if (x->asked)
        w->owner.gone(w->owner.arg, x);
    exchange_free(x);
    *own = NULL;
}

/* Called by libmicrohttpd for a new connection: adds it to the list and watches it. */
static void client_opened(struct web *w, struct MHD_Connection *connection, void **context)
{
    struct client *c = memory_zeroed(1, sizeof *c);
    c->web = w;
    c->watch = (struct watch){WATCH_CLIENT, MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd};
    c->local = is_unix(c->watch.fd);
    c->since_ns = clock_ns();
    c->share = c->local ? SHARE_LOCAL : SHARE_OPEN;
    w->n_in[c->share]++;
    c->next = w->clients;
    c->link = &w->clients;
    if (c->next)
        c->next->link = &c->next;
    w->clients = c;
    w->n_clients++;
    set_patience(connection, c->local ? 0 : IDLE_S);
    watch(w, &c->watch, EPOLLIN | EPOLLRDHUP | EPOLLET);
    *context = c;
}

/* Takes a closed connection off the list and frees it. */
static void client_closed(struct client *c)
{
    epoll_ctl(c->web->epoll, EPOLL_CTL_DEL, c->watch.fd, NULL);
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    c->web->n_clients--;
    c->web->n_in[c->share]--;
    free(c);
}

static void connection_changed(void *arg, struct MHD_Connection *connection, void **context, enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        client_opened(arg, connection, context);
    else if (*context)
        client_closed(*context);
}

static void log_nothing(void *arg, const char *fmt, va_list ap)
{
    (void)arg, (void)fmt, (void)ap;     /* clients that break off are not reported */
}

/* ---- sockets ---- */

static bool is_own_user(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) && peer.uid == geteuid();
}

/* Accepts a connection; closes that of another user, and refuses it with 503 if there are too many. */
static void take_client(struct web *w, int fd, const struct sockaddr *from, socklen_t size)
{
    const bool local = is_unix(fd);
    if (local && !is_own_user(fd)) {
        close(fd);
    } else if (!make_place(w, local ? SHARE_LOCAL : SHARE_OPEN)) {
        send_why(w, fd, NULL, 503, shares[local ? SHARE_LOCAL : SHARE_OPEN].full);
        keep_rest(w, fd);
    } else {                            /* closes it where there are too many */
        MHD_add_connection(w->daemon, fd, from, size);
    }
}

/* Accepts up to AT_ONCE connections; more of them are accepted in the next round. */
static void accept_clients(struct web *w, int listener)
{
    for (int i = 0; i < AT_ONCE; i++) {
        struct sockaddr_storage from = {0};
        socklen_t size = sizeof from;
        int fd = accept4(listener, (struct sockaddr *)&from, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            take_client(w, fd, (struct sockaddr *)&from, size);
        else if (errno != EINTR && errno != ECONNABORTED)
            return;
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

void web_watch(struct web *w, int fd)
{
    w->owners = (struct watch){WATCH_OWNERS, fd};
    watch(w, &w->owners, EPOLLIN);
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
    (void)!getrandom(&w->id, sizeof w->id, GRND_NONBLOCK);
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->daemon = w->epoll < 0 ? NULL
        : MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle, w,
                           MHD_OPTION_EXTERNAL_LOGGER, log_nothing, NULL, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CLIENTS,
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
    (void)arg;
    exchange_error(x, MHD_HTTP_SERVICE_UNAVAILABLE, WEB_CLOSING);
}

/* Replies to a request that has no reply yet, and breaks off a stream that has not ended.  An attached chat gets no reply: it continues by itself. */
static void end_exchange(struct exchange *x)
{
    if (x->status ? x->streams && !x->ended : x->format && x->format->attached)
        drop(x);
    else if (!x->status && x->asked)
        refuse_late(NULL, x);
    else if (!x->status)
        refuse_and_hang_up(x->client, MHD_HTTP_SERVICE_UNAVAILABLE, WEB_CLOSING);
}

/* True if a reply is not sent whole. */
static bool are_unsent(const struct web *w)
{
    for (const struct client *c = w->clients; c; c = c->next)
        if (c->x && c->x->status && !c->x->dropped)
            return true;
    return false;
}

/* Sends what is left of the replies, for LAST_MS at most. */
static void send_last(struct web *w)
{
    for (const int64_t since = clock_ns(); are_unsent(w) && clock_ms_since(since) < LAST_MS;) {
        struct pollfd events = {.fd = w->epoll, .events = POLLIN};
        web_run(w);
        if (are_unsent(w))
            poll(&events, 1, LAST_POLL_MS);
    }
}

void web_close(struct web *w)
{
    if (!w)
        return;
    w->owner.asked = refuse_late;       /* which suspends no connection */
    web_shut(w);
    for (struct client *c = w->clients; c; c = c->next)
        if (c->x)
            end_exchange(c->x);
    if (w->daemon)
        send_last(w);
    for (struct client *c = w->clients; c; c = c->next)
        if (c->x)
            drop(c->x);
    if (w->daemon) {
        MHD_run(w->daemon);             /* it must not be stopped while connections are suspended */
        MHD_stop_daemon(w->daemon);
    }
    for (int i = 0; i < MAX_RESTS; i++)
        end_rest(&w->rests[i]);
    if (w->epoll >= 0)
        close(w->epoll);
    free(w);
}

int web_fd(const struct web *w)
{
    return w->epoll;
}

/* True if a connection must be looked at again soon though nothing may come from it. */
static bool arrives(const struct web *w)
{
    for (const struct client *c = w->clients; c; c = c->next)
        if (c->since_ns || c->finished)
            return true;
    for (int i = 0; i < MAX_RESTS; i++)
        if (w->rests[i].since_ns)
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

/* True if a client that sends nothing more has left its request half sent, or sent no request. */
static bool has_left(const struct client *c)
{
    char next;
    return c->finished && c->share != SHARE_NONE && !recv(c->watch.fd, &next, 1, MSG_PEEK | MSG_DONTWAIT);     /* all that came was read */
}

/* True if a client that sends nothing more waits for no reply. */
static bool is_gone(struct client *c)
{
    if (c->closed || !c->finished || c->local || clock_ms_since(c->looked_ns) < SWEEP_MS)
        return c->closed;
    c->looked_ns = clock_ns();
    return !socket_peer_waits(c->watch.fd);
}

/* Closes connections whose request takes too long to arrive, and those whose client has left; ends the rests that take too long. */
static void sweep(struct web *w)
{
    for (struct client *c = w->clients; c; c = c->next) {
        const bool answers = c->x && c->x->status, asked = c->x && c->x->asked;
        if (asked && is_gone(c))
            drop(c->x);
        else if (!asked && !answers && has_left(c))
            hang_up(c);
        else if (c->since_ns && clock_ms_since(c->since_ns) > ARRIVE_MS && answers)
            hang_up(c);
        else if (c->since_ns && clock_ms_since(c->since_ns) > ARRIVE_MS)
            refuse_and_hang_up(c, MHD_HTTP_REQUEST_TIMEOUT, "the request has not arrived whole within a minute");
    }
    for (int i = 0; i < MAX_RESTS; i++)
        if (w->rests[i].since_ns && clock_ms_since(w->rests[i].since_ns) > REST_MS)
            end_rest(&w->rests[i]);
}

/* Notes what the kernel reports of a connection. */
static void client_changed(struct client *c, uint32_t events)
{
    c->closed |= (events & (EPOLLHUP | EPOLLERR)) != 0;
    c->finished |= c->closed || (events & EPOLLRDHUP);
    c->more |= c->x && c->x->asked && !c->finished;
    if (!c->x && !c->since_ns && !c->finished)
        c->since_ns = clock_ns();
}

void web_run(struct web *w)
{
    struct epoll_event events[64];
    int n = epoll_wait(w->epoll, events, sizeof events / sizeof *events, 0);
    for (int i = 0; i < n; i++) {
        struct watch *it = events[i].data.ptr;
        if (it->what == WATCH_CLIENT)
            client_changed((struct client *)it, events[i].events);
    }
    for (int i = 0; i < n; i++) {
        struct watch *it = events[i].data.ptr;
        if (it->what == WATCH_LISTENER)
            accept_clients(w, it->fd);
        else if (it->what == WATCH_REST && ((struct rest *)it)->since_ns)
            drop_rest((struct rest *)it);
    }
    MHD_run(w->daemon);
    sweep(w);
    MHD_run(w->daemon);
}

int web_n_clients(const struct web *w)
{
    return w->n_clients;
}
