/* An HTTP server without a thread of its own: the owner polls one descriptor and calls web_run().  The only user of libmicrohttpd.
 *
 * begun() is called when the head of a request has arrived, before a byte of its body is read.  asked() is called when the request has arrived
 * whole, and later gone() exactly once for it: after its reply was sent, or because the client went away.  In between the owner replies whenever it
 * likes, in one piece or with a stream.  Nothing here waits for a client: bytes that a slow client has not read yet are kept (the owner bounds how
 * many), and a request that has not arrived whole a minute after its first byte is dropped.
 *
 * Connections and the memory for bodies are divided into shares: unix sockets, TCP with the key, and TCP without it (so far), which has the
 * smallest share and no bodies.  A full share makes room by closing its oldest connection that is idle, or has not shown a key. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"

enum {
    WEB_MAX_BODY = 64 << 20,            /* bytes of a request's body, whatever begun() returns */
    WEB_RETRY_S = 2,                    /* Retry-After of a client that met a full queue */
};

#define WEB_CLOSING "the server is stopping; ask again when it has started again"

struct web;
struct exchange;                        /* a request and its reply */
struct format;
struct refusal;                         /* serve/format.h */

struct web_owner {
    /* Returns how many bytes the body may have; or replies, and no body is read. */
    size_t (*begun)(void *arg, struct exchange *x);
    void (*asked)(void *arg, struct exchange *x);
    void (*gone)(void *arg, struct exchange *x);        /* x is freed afterwards */
    void *arg;
};

struct web *web_open(const struct web_owner *owner, struct err *e);
/* Refuses requests that have no reply yet, breaks off streams that have not ended, and gives clients a second to read the rest; gone() is called for
 * each of them. */
void web_close(struct web *w);
/* Accepts connections at this socket, and closes it in the end.  At a unix socket it accepts only programs of the same user. */
bool web_listen(struct web *w, int fd, struct err *e);
void web_watch(struct web *w, int fd);  /* web_fd() is readable while this is, too */
int  web_fd(const struct web *w);       /* readable when there is something to do */
int  web_timeout(const struct web *w);  /* for poll(): ms, -1 for ever */
void web_run(struct web *w);            /* does what there is to do, without waiting */
void web_shut(struct web *w);           /* closes the sockets, and accepts no more connections */
int  web_n_clients(const struct web *w);                /* open connections */

const char *exchange_method(const struct exchange *x);
const char *exchange_path(const struct exchange *x);
struct text exchange_body(const struct exchange *x);
void exchange_take_body(struct exchange *x, struct buf *to);     /* moves it into the empty buffer */
const char *exchange_header(const struct exchange *x, const char *name);        /* NULL: the request has no such header */
bool exchange_is_local(const struct exchange *x);       /* the request came over a unix socket */
/* Gives the connection a place among those that have shown a key, that of number `key`.  False: all of these are taken, and a reply has said so. */
bool exchange_trust(struct exchange *x, int key);
int  exchange_key(const struct exchange *x);            /* that number; -1: none */
const char *exchange_id(const struct exchange *x);      /* of the request, "req_..." */
void exchange_set_data(struct exchange *x, void *own);      /* keeps a pointer for the owner */
void *exchange_data(const struct exchange *x);          /* that pointer, or NULL */

void exchange_set_format(struct exchange *x, const struct format *f);       /* the form of errors; NULL: that of OpenAI's servers */
void exchange_set_origin(struct exchange *x, const char *origin);        /* web pages from there may read the reply; `origin` is static */
void exchange_note(struct exchange *x, const char *note);               /* the reply has a header x-q35chat-note, in ASCII; copied */
void exchange_allow(struct exchange *x, const char *methods);           /* the reply has a header Allow; `methods` is static */

/* Replies in one piece.  retry_s: Retry-After in seconds; 0: none, since a second try would fail too. */
void exchange_reply(struct exchange *x, int status, const char *type, struct text body, int retry_s);
void exchange_json(struct exchange *x, int status, const struct buf *body);
void exchange_ok(struct exchange *x, const char *json);                 /* with status 200 */
void exchange_refuse(struct exchange *x, const struct refusal *f, int retry_s);
void exchange_error(struct exchange *x, int status, const char *message);       /* the same, with nothing but a sentence */
/* Replies with a stream: begin, then write any number of pieces, then end. */
void exchange_begin(struct exchange *x, const char *type);
bool exchange_has_begun(const struct exchange *x);       /* the stream has */
void exchange_write(struct exchange *x, struct text piece);
void exchange_end(struct exchange *x);
size_t exchange_unread(const struct exchange *x);       /* bytes of the stream that wait for the client to read */
double exchange_unread_ms(const struct exchange *x);    /* for how long the client has read none of them */
