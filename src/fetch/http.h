/* One GET after another over connections that stay open.  The only user of libcurl.
 * Follows no redirect by itself: the caller sees each answer and decides what the next host may know. */
#ifndef Q35_FETCH_HTTP_H
#define Q35_FETCH_HTTP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum http_header { HTTP_ETAG, HTTP_LINKED_ETAG, HTTP_COMMIT, HTTP_RANGE, HTTP_LINK, HTTP_LIMIT, HTTP_MESSAGE, HTTP_N_HEADERS };

struct http_reply {
    int        status;                  /* 0: there was no answer */
    struct buf headers[HTTP_N_HEADERS]; /* their values; empty: not there */
    struct buf location;                /* of a redirect: the whole address */
    int        retry_after_s;           /* 0: not said */
};

struct http_request {
    const char *url;
    const char *token;                  /* NULL: none is sent */
    bool        ranged;                 /* bytes first..last of it */
    uint64_t    first, last;
    int         stall_s;                /* a connection that brings next to nothing for so long has broken */
    const atomic_bool *stop;            /* set by any thread: the request ends soon */
    /* Called once before the first byte of the body of a 200 or 206, then with every piece of it; false ends the request. */
    bool (*begin)(void *arg, const struct http_reply *r, struct err *e);
    bool (*take)(void *arg, const void *bytes, size_t n, struct err *e);
    void       *arg;
};

enum http_result {
    HTTP_ANSWERED,                      /* wholly, whatever its status */
    HTTP_BROKEN,                        /* no connection, or it broke or stalled; `e` says how */
    HTTP_UNTRUSTED,                     /* the host's certificate was not accepted, nor will it be the next time; `e` says why */
    HTTP_ENDED,                         /* begin, take or stop ended it; `e` is theirs */
};

struct http;
struct http *http_open(void);           /* one user at a time */
void http_close(struct http *h);
enum http_result http_get(struct http *h, const struct http_request *q, struct http_reply *r, struct err *e);
void http_reply_free(struct http_reply *r);

/* Whether both addresses have the same scheme, host and port. */
bool http_same_origin(const char *a, const char *b);
/* Whether `to` may be gone to from `from`: http or https, and never from https to http. */
bool http_may_follow(const char *from, const char *to);
void http_host(const char *url, struct buf *host);      /* "example.org", for messages */
/* Appends text with all but letters, digits, "-._~" and the characters of `keep` as %XX. */
void http_escape(struct buf *out, const char *text, const char *keep);

#endif
