/* Successive requests over persistent connections, and the parts of their addresses.  The only user of libcurl.
 * Redirects are not followed here: the caller gets each reply and decides what to send to the next host. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum http_header { HTTP_ETAG, HTTP_LINKED_ETAG, HTTP_COMMIT, HTTP_RANGE, HTTP_LINK, HTTP_LIMIT, HTTP_MESSAGE, HTTP_N_HEADERS };

struct http_reply {
    int        status;                  /* 0: no reply */
    struct buf headers[HTTP_N_HEADERS]; /* values; empty: absent */
    struct buf location;                /* of a redirect: the complete URL */
    int        retry_after_s;           /* 0: not given */
};

struct http_request {
    const char *url;
    const char *socket;                 /* path of a unix socket to connect to in place of the URL's host; NULL: none.  Nothing is sent
                                         * unless the program that listens is the user's own (base/unixsocket.h) */
    const char *token;                  /* NULL: send none */
    const char *ca_file;                /* of the certificate authorities to trust; NULL: SSL_CERT_FILE, else the system's */
    bool        ranged;                 /* request only bytes first..last */
    uint64_t    first, last;
    const char *post;                   /* JSON text to send; NULL: a GET */
    size_t      post_bytes;
    int         stall_s;                /* seconds with almost no data (of a POST: no data) after which the connection counts as broken */
    const atomic_bool *stop;            /* any thread may set it to end the request within a tenth of a second */
    /* For status 200 and 206: begin() is called once before the first byte of the body, take() for each piece.  False ends the request. */
    bool (*begin)(void *arg, const struct http_reply *r, struct err *e);
    bool (*take)(void *arg, const void *bytes, size_t n, struct err *e);
    void       *arg;
    struct buf *refusal;                /* NULL, or where the body of any other status goes, at most a MiB */
};

enum http_result {
    HTTP_ANSWERED,                      /* a complete reply with any status */
    HTTP_BROKEN,                        /* no connection, or it broke or stalled; see `e` */
    HTTP_HOPELESS,                      /* as HTTP_BROKEN, but another attempt cannot help: the certificate was not accepted, for example */
    HTTP_ENDED,                         /* begin(), take() or stop ended the request; they set `e` */
};

enum { HTTP_CONNECT_S = 15 };            /* in which a connection must be made */

struct http;
struct http *http_open(void);           /* one user at a time */
void http_close(struct http *h);
enum http_result http_ask(struct http *h, const struct http_request *q, struct http_reply *r, struct err *e);
void http_reply_free(struct http_reply *r);

/* True if both addresses have the same scheme, host and port. */
bool http_same_origin(const char *a, const char *b);
/* True if a redirect from `from` to `to` is allowed: http or https, but never from https to http. */
bool http_may_follow(const char *from, const char *to);
void http_host(const char *url, struct buf *host);      /* "example.org", for messages */
int  http_port(const char *url);                        /* 0: not an address */
/* Appends text; all characters but letters, digits, "-._~" and those of `keep` become %XX. */
void http_escape(struct buf *out, const char *text, const char *keep);
