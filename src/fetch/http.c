#include "fetch/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/unixsocket.h"

/* A connection with less than this per second counts as stalled. */
enum { LEAST_BYTES_S = 512, BUFFER_BYTES = 256 << 10, MAX_REFUSAL = 1 << 20, MAX_HEADER = 16 << 10, STOP_MS = 100 };

struct http {
    CURL  *curl;
    CURLM *multi;                       /* holds curl alone; polling it shows a stop at once */
    const struct http_request *q;       /* the current request */
    struct http_reply *r;
    struct err *e;
    bool   begun, ended;
    int    port;                        /* of the connection that was tried last, a proxy's too; 0: none */
    int    fd;                          /* the newest connection, if this request opened one; -1: it uses one that was open */
    struct err refused;                 /* why nothing was sent to a unix socket; empty: it was */
    size_t n_refused;                   /* bytes of an unwanted body */
    char   why[CURL_ERROR_SIZE];        /* curl's error message */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init(void)
{
    CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
}

/* Makes a handle whose own descriptors, by which other threads could wake it, are closed in a tool that is started: some versions leave them open. */
static CURLM *open_multi(void)
{
    const int first = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);  /* the lowest free one, or -1 */
    if (first >= 0)
        close(first);
    CURLM *multi = memory_got(curl_multi_init());
    if (first >= 0)
        close_range((unsigned)first, UINT_MAX, CLOSE_RANGE_CLOEXEC);
    return multi;
}

struct http *http_open(void)
{
    pthread_once(&once, init);
    struct http *h = memory_zeroed(1, sizeof *h);
    h->curl = memory_got(curl_easy_init());
    h->multi = open_multi();
    return h;
}

void http_close(struct http *h)
{
    if (!h)
        return;
    curl_multi_cleanup(h->multi);
    curl_easy_cleanup(h->curl);
    free(h);
}

void http_reply_free(struct http_reply *r)
{
    for (int i = 0; i < HTTP_N_HEADERS; i++)
        buf_free(&r->headers[i]);
    buf_free(&r->location);
    *r = (struct http_reply){0};
}

/* --- addresses ----------------------------------------------------------------------------------------------------- */

/* Replaces *out by one part of the address.  False if the address is not valid. */
static bool part_of(const char *url, CURLUPart what, struct buf *out)
{
    CURLU *u = memory_got(curl_url());
    char *text = NULL;
    bool ok = !curl_url_set(u, CURLUPART_URL, url, 0) && !curl_url_get(u, what, &text, CURLU_DEFAULT_PORT);
    buf_reset(out);
    if (ok)
        buf_adds(out, text);
    curl_free(text);
    curl_url_cleanup(u);
    return ok;
}

static bool part_is_same(const char *a, const char *b, CURLUPart what)
{
    struct buf x = {0}, y = {0};
    bool same = part_of(a, what, &x) && part_of(b, what, &y) && !strcasecmp(buf_str(&x), buf_str(&y));
    buf_free(&x);
    buf_free(&y);
    return same;
}

bool http_same_origin(const char *a, const char *b)
{
    return part_is_same(a, b, CURLUPART_SCHEME) && part_is_same(a, b, CURLUPART_HOST) && part_is_same(a, b, CURLUPART_PORT);
}

bool http_may_follow(const char *from, const char *to)
{
    struct buf f = {0}, t = {0};
    bool ok = part_of(from, CURLUPART_SCHEME, &f) && part_of(to, CURLUPART_SCHEME, &t) &&
              (!strcasecmp(t.data, "https") || (!strcasecmp(t.data, "http") && !strcasecmp(f.data, "http")));
    buf_free(&f);
    buf_free(&t);
    return ok;
}

void http_host(const char *url, struct buf *host)
{
    if (!part_of(url, CURLUPART_HOST, host))
        buf_adds(host, url);
}

int http_port(const char *url)
{
    struct buf port = {0};
    int n = part_of(url, CURLUPART_PORT, &port) ? atoi(buf_str(&port)) : 0;
    buf_free(&port);
    return n;
}

void http_escape(struct buf *out, const char *text, const char *keep)
{
    for (const char *s = text; *s; s++) {
        unsigned char c = (unsigned char)*s;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-._~", c) || strchr(keep, c);
        buf_addf(out, plain ? "%c" : "%%%02X", c);
    }
}

/* --- what curl calls --------------------------------------------------------------------------------------------- */

/* Called by libcurl for each header line; stores the values of those that we use. */
static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
    static const char *const names[HTTP_N_HEADERS] = {
        [HTTP_ETAG] = "ETag", [HTTP_LINKED_ETAG] = "X-Linked-ETag", [HTTP_COMMIT] = "X-Repo-Commit", [HTTP_RANGE] = "Content-Range",
        [HTTP_LINK] = "Link", [HTTP_LIMIT] = "RateLimit", [HTTP_MESSAGE] = "X-Error-Message",
    };
    struct http *h = arg;
    (void)size;                         /* always 1 */
    if (n > 5 && !strncasecmp(line, "HTTP/", 5))        /* drops the headers of a 100 reply or of a proxy before it */
        for (int i = 0; i < HTTP_N_HEADERS; i++)
            buf_reset(&h->r->headers[i]);
    for (int i = 0; i < HTTP_N_HEADERS; i++) {
        size_t name = strlen(names[i]);
        if (n <= name || n > MAX_HEADER || line[name] != ':' || strncasecmp(line, names[i], name))
            continue;
        const char *from = line + name + 1, *to = line + n;
        while (from < to && (*from == ' ' || *from == '\t'))
            from++;
        while (to > from && (to[-1] == '\r' || to[-1] == '\n' || to[-1] == ' '))
            to--;
        buf_reset(&h->r->headers[i]);
        buf_add(&h->r->headers[i], from, (size_t)(to - from));
    }
    return n;
}

static void read_status(struct http *h)
{
    long status = 0;
    curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
    h->r->status = (int)status;
}

/* Called by libcurl with the reply's bytes: passes them on, or keeps the beginning of a refusal's text.  Returning less than n ends the transfer. */
static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct http *h = arg;
    (void)size;
    if (!h->begun) {
        read_status(h);
        h->begun = true;
        if ((h->r->status == 200 || h->r->status == 206) && !h->q->begin(h->q->arg, h->r, h->e))
            h->ended = true;
    }
    if (h->r->status != 200 && h->r->status != 206) {
        h->n_refused += n;
        if (h->q->refusal && h->n_refused <= MAX_REFUSAL)
            buf_add(h->q->refusal, bytes, n);
        return h->n_refused > MAX_REFUSAL ? 0 : n;
    }
    if (!h->ended && !h->q->take(h->q->arg, bytes, n, h->e))
        h->ended = true;
    return h->ended ? 0 : n;
}

/* Opens a socket as curl does by itself, and notes the port. */
static curl_socket_t on_connect(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct http *h = arg;
    (void)purpose;                      /* no other than a connection */
    if (to->family == AF_INET)
        h->port = ntohs(((const struct sockaddr_in *)&to->addr)->sin_port);
    else if (to->family == AF_INET6)
        h->port = ntohs(((const struct sockaddr_in6 *)&to->addr)->sin6_port);
    h->fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
    return h->fd;
}

/* Checks the connection of the next request before anything is sent, since the path can lead to another user's socket by now. */
static int before_sending(void *arg, char *to_ip, char *from_ip, int to_port, int from_port)
{
    struct http *h = arg;
    (void)to_ip, (void)from_ip, (void)to_port, (void)from_port;
    if (h->fd < 0 || unixsocket_check(h->fd, h->q->socket, &h->refused))
        return CURL_PREREQFUNC_OK;
    shutdown(h->fd, SHUT_RDWR);         /* no later request uses it */
    return CURL_PREREQFUNC_ABORT;
}

/* --- why there is no reply ------------------------------------------------------------------------------------------ */

struct failure {
    const struct http_request *q;
    int  code;                          /* curl's */
    int  os_error;                      /* of the last attempt to connect; 0: no error */
    int  proxy_status;                  /* the status with which a proxy answered; 0: no proxy was used */
    int  port;                          /* of the last attempt to connect; 0: not known */
    bool connected;                     /* the connection was ready for the request */
    bool replies;                       /* the reply had begun */
    const char *why;                    /* curl's words; may be empty */
};

/* How far the request came, and by which route. */
enum { BY_SOCKET = 1, BY_PROXY = 2, REFUSED_BY_PROXY = 4, WITHOUT_TLS = 8, CONNECTED = 16, REPLIES = 32 };
enum { ANY = CURLE_OK };

/* The first row that fits is taken.  The words in braces are those of describe_failure(). */
static const struct row {
    int code;                           /* curl's; ANY: each */
    int needs;                          /* all of these */
    int os_error;                       /* 0: any */
    enum http_result result;
    const char *sentence;
} rows[] = {
    {ANY, REFUSED_BY_PROXY, 0, HTTP_BROKEN, "the proxy of {variable} refused the way to {host} (status {status}): correct {variable}, or set "
                                            "no_proxy={host}"},
    {CURLE_COULDNT_RESOLVE_PROXY, 0, 0, HTTP_BROKEN, "the name of the proxy in {variable} is not known: correct {variable}, or set no_proxy={host}"},
    {CURLE_COULDNT_CONNECT, BY_PROXY, 0, HTTP_BROKEN, "the proxy of {variable} cannot be reached ({os}): correct {variable}, or set no_proxy={host}"},
    {CURLE_PROXY, 0, 0, HTTP_BROKEN, "the proxy of {variable} gave no way to {host} ({why}): correct {variable}, or set no_proxy={host}"},
    {CURLE_COULDNT_CONNECT, BY_SOCKET, ENOENT, HTTP_BROKEN, "there is no socket {host}: start the server there, or correct the path"},
    {CURLE_COULDNT_CONNECT, BY_SOCKET, EACCES, HTTP_HOPELESS, "the socket {host} cannot be used ({os}): its owner must allow it"},
    {CURLE_COULDNT_CONNECT, BY_SOCKET, 0, HTTP_BROKEN, "no server listens on the socket {host} ({os}): start it there"},
    {CURLE_COULDNT_CONNECT, 0, ECONNREFUSED, HTTP_BROKEN, "no server listens at {host} port {port}: start it there, or correct the address"},
    {CURLE_COULDNT_CONNECT, 0, 0, HTTP_BROKEN,
     "{host} port {port} cannot be reached ({os}): correct the address, or see whether the network is there"},
    {CURLE_COULDNT_RESOLVE_HOST, 0, 0, HTTP_BROKEN, "the name {host} is not known: correct the address, or see whether this machine has a network"},
    {CURLE_URL_MALFORMAT, 0, 0, HTTP_HOPELESS, "the address {url} is not valid ({why}): expected one such as https://example.org:8000/v1"},
    {CURLE_PEER_FAILED_VERIFICATION, 0, 0, HTTP_HOPELESS,
     "the certificate of {host} was not accepted: {why} ({authorities} names the authorities to trust)"},
    {CURLE_SSL_CACERT_BADFILE, 0, 0, HTTP_HOPELESS,
     "the certificate of {host} cannot be checked: {why} ({authorities} names the authorities to trust)"},
    {CURLE_SSL_CONNECT_ERROR, 0, 0, HTTP_BROKEN,
     "no TLS connection to {host} port {port} ({why}): the address of a server without TLS begins with http://"},
    {CURLE_UNSUPPORTED_PROTOCOL, 0, 0, HTTP_HOPELESS, "what listens at {host} port {port} does not speak HTTP: correct the address and its port"},
    {CURLE_WEIRD_SERVER_REPLY, 0, 0, HTTP_HOPELESS, "what listens at {host} port {port} does not speak HTTP: correct the address and its port"},
    {CURLE_OPERATION_TIMEDOUT, CONNECTED, 0, HTTP_BROKEN, "{host} sent {amount} for {silence} s: see whether the server and the network still work"},
    {CURLE_OPERATION_TIMEDOUT, 0, 0, HTTP_BROKEN, "{host} port {port} did not answer within {patience} s: correct the address, or see whether a "
                                                  "firewall is in the way"},
    {ANY, REPLIES, 0, HTTP_BROKEN, "{host} broke off in the middle of its answer ({why}): see whether the server and the network still work"},
    {ANY, CONNECTED | BY_SOCKET, 0, HTTP_BROKEN,
     "the server on the socket {host} closed the connection without an answer: see whether it still runs"},
    {ANY, CONNECTED | WITHOUT_TLS, 0, HTTP_BROKEN,
     "{host} port {port} closed the connection without an answer ({why}): see whether the server still runs; with TLS its address begins with "
     "https://"},
    {ANY, CONNECTED, 0, HTTP_BROKEN, "{host} port {port} closed the connection without an answer ({why}): see whether the server still runs"},
    {ANY, 0, 0, HTTP_BROKEN, "no answer came from {host}: {why}"},
};

/* Returns the name of the variable from which curl takes the proxy for this address. */
static const char *proxy_variable(const char *url)
{
    static const char *const plain[] = {"http_proxy", "all_proxy", "ALL_PROXY"},
        *const tls[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    const bool is_plain = !strncmp(url, "http:", strlen("http:"));
    const char *const *names = is_plain ? plain : tls, *value;
    size_t n = is_plain ? sizeof plain / sizeof *plain : sizeof tls / sizeof *tls;
    for (size_t i = 0; i < n; i++)
        if ((value = getenv(names[i])) && *value)
            return names[i];
    return names[0];
}

static int flags_of(const struct failure *f)
{
    const bool others_port = f->port && f->port != http_port(f->q->url);
    return (f->q->socket ? BY_SOCKET : others_port ? BY_PROXY : 0) | (f->proxy_status && f->proxy_status / 100 != 2 ? REFUSED_BY_PROXY : 0) |
           (strncmp(f->q->url, "https:", strlen("https:")) ? WITHOUT_TLS : 0) | (f->connected ? CONNECTED : 0) | (f->replies ? REPLIES : 0);
}

/* Returns the first row that fits. */
static const struct row *find_row(const struct failure *f)
{
    const struct row *r = rows;
    for (const int flags = flags_of(f); (r->code != ANY && r->code != f->code) || (r->needs & ~flags) || (r->os_error && r->os_error != f->os_error);)
        r++;                            /* the last row always fits */
    return r;
}

struct word {
    const char *name, *text;
};

/* Appends the sentence with its words in braces replaced.  Every word must be in the list. */
static void fill(const char *sentence, const struct word *words, struct buf *out)
{
    for (const char *at = sentence; *at;) {
        size_t n = strcspn(at, "{");
        buf_add(out, at, n);
        at += n;
        if (*at) {
            const struct word *w = words;
            n = strcspn(at, "}");
            while (!text_is((struct text){at + 1, n - 1}, w->name))
                w++;
            buf_adds(out, w->text);
            at += n + 1;
        }
    }
}

/* Says why a request got no reply, in one sentence for a person: the other end, what was found, what to do.  Returns HTTP_BROKEN or HTTP_HOPELESS. */
static enum http_result describe_failure(const struct failure *f, struct err *e)
{
    const struct http_request *q = f->q;
    const struct row *r = find_row(f);
    char port[16], status[16], silence[16], patience[16];
    struct buf host = {0}, why = {0}, out = {0};
    http_host(q->url, &host);
    buf_adds(&why, *f->why ? f->why : curl_easy_strerror((CURLcode)f->code));
    while (why.len && strchr(" .", why.data[why.len - 1]))      /* curl's words end now and then in a blank or a full stop */
        why.data[--why.len] = 0;
    snprintf(port, sizeof port, "%d", f->port ? f->port : http_port(q->url));
    snprintf(status, sizeof status, "%d", f->proxy_status);
    snprintf(silence, sizeof silence, "%d", q->stall_s);
    snprintf(patience, sizeof patience, "%d", HTTP_CONNECT_S);
    const struct word words[] = {
        {"host", q->socket ? q->socket : buf_str(&host)}, {"port", port}, {"url", q->url}, {"why", buf_str(&why)},
        {"os", f->os_error ? strerror(f->os_error) : buf_str(&why)},
        {"variable", proxy_variable(q->url)}, {"status", status}, {"authorities", q->ca_file ? q->ca_file : "SSL_CERT_FILE=FILE"},
        {"amount", q->post ? "nothing" : "next to nothing"}, {"silence", silence}, {"patience", patience},
    };
    fill(r->sentence, words, &out);
    err_set(e, "%s", buf_str(&out));
    buf_free(&host);
    buf_free(&why);
    buf_free(&out);
    return r->result;
}

/* --- a request ---------------------------------------------------------------------------------------------------- */

/* Returns the file of trusted authorities: the request's, else one named by the variables that curl and the Hugging Face tools read; NULL: the
 * system's. */
static const char *authorities(const struct http_request *q)
{
    static const char *const names[] = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !q->ca_file; i++) {
        const char *path = getenv(names[i]);
        if (path && *path)
            return path;
    }
    return q->ca_file;
}

/* Checks that reading the authorities of a request with TLS cannot wait: libcurl would open a FIFO.  A file that is missing is left to libcurl. */
static bool check_authorities(const struct http_request *q, struct err *e)
{
    struct stat st;
    const char *path = strncmp(q->url, "https:", strlen("https:")) ? NULL : authorities(q);
    return !path || stat(path, &st) || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) ||
           err_set(e, "%s, which names the authorities to trust%s, is neither a regular file nor a folder", path,
                   q->ca_file ? "" : " (SSL_CERT_FILE=FILE names another)");
}

/* Makes a handle for the request.  Returns its headers, which the caller frees after the transfer. */
static struct curl_slist *set_up(struct http *h, const struct http_request *q)
{
    /* A fresh handle, since after a reset libcurl 7.88 still points to the last header of the reply before: a reply that begins with a folded header
     * would be read into freed memory.  Connections stay, for they belong to h->multi. */
    curl_easy_cleanup(h->curl);
    CURL *c = h->curl = memory_got(curl_easy_init());
    struct curl_slist *headers = NULL;
    curl_easy_setopt(c, CURLOPT_URL, q->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "q35chat");
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)HTTP_CONNECT_S);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, q->post ? 1L : (long)LEAST_BYTES_S);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)q->stall_s);
    curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, h->why);
    if (q->socket) {
        curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, q->socket);
        curl_easy_setopt(c, CURLOPT_PREREQFUNCTION, before_sending);
        curl_easy_setopt(c, CURLOPT_PREREQDATA, h);
        curl_easy_setopt(c, CURLOPT_PROXY, "");
    }
    if (authorities(q))
        curl_easy_setopt(c, CURLOPT_CAINFO, authorities(q));
    curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_connect);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, h);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, h);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, h);
    if (q->ranged) {
        char range[64];
        snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)q->first, (unsigned long long)q->last);
        curl_easy_setopt(c, CURLOPT_RANGE, range);
    }
    if (q->token) {
        struct buf line = {0};
        buf_addf(&line, "Authorization: Bearer %s", q->token);
        headers = memory_got(curl_slist_append(headers, line.data));
        buf_free(&line);
    }
    if (q->post) {
        headers = memory_got(curl_slist_append(headers, "Content-Type: application/json"));
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->post_bytes);
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, q->post);
    }
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    return headers;
}

static long long_info(const struct http *h, CURLINFO what)
{
    long v = 0;
    curl_easy_getinfo(h->curl, what, &v);
    return v;
}

/* Describes why a transfer failed; returns HTTP_BROKEN or HTTP_HOPELESS. */
static enum http_result failed(const struct http *h, CURLcode code, struct err *e)
{
    curl_off_t connected = 0;
    curl_easy_getinfo(h->curl, CURLINFO_PRETRANSFER_TIME_T, &connected);
    return describe_failure(&(struct failure){
        .q = h->q, .code = (int)code, .os_error = (int)long_info(h, CURLINFO_OS_ERRNO), .proxy_status = (int)long_info(h, CURLINFO_HTTP_CONNECTCODE),
        .port = h->port, .connected = connected > 0, .replies = h->r->status > 0, .why = h->why,
    }, e);
}

/* Runs the transfer until it ends or h->q->stop is set; returns its result. */
static CURLcode perform(struct http *h)
{
    CURLcode code = CURLE_OK;
    int running = 1, n;
    curl_multi_add_handle(h->multi, h->curl);
    while (running && code == CURLE_OK) {
        if (curl_multi_perform(h->multi, &running) != CURLM_OK || (running && curl_multi_poll(h->multi, NULL, 0, STOP_MS, NULL) != CURLM_OK))
            code = CURLE_FAILED_INIT;
        if (running && h->q->stop && atomic_load(h->q->stop))
            code = CURLE_ABORTED_BY_CALLBACK;
    }
    for (CURLMsg *m; code == CURLE_OK && (m = curl_multi_info_read(h->multi, &n));)
        code = m->msg == CURLMSG_DONE ? m->data.result : code;
    curl_multi_remove_handle(h->multi, h->curl);
    return code;
}

enum http_result http_ask(struct http *h, const struct http_request *q, struct http_reply *r, struct err *e)
{
    struct err mine = {0};
    http_reply_free(r);
    if (!check_authorities(q, e ? e : &mine))
        return HTTP_HOPELESS;
    h->q = q;
    h->r = r;
    h->e = e ? e : &mine;
    h->begun = h->ended = false;
    h->port = 0;
    h->fd = -1;
    h->refused = (struct err){{0}};
    h->n_refused = 0;
    *h->why = 0;
    struct curl_slist *headers = set_up(h, q);
    CURLcode code = perform(h);
    curl_slist_free_all(headers);
    read_status(h);
    char *next = NULL;
    curl_off_t wait_s = 0;
    if (!curl_easy_getinfo(h->curl, CURLINFO_REDIRECT_URL, &next) && next)
        buf_adds(&r->location, next);
    if (!curl_easy_getinfo(h->curl, CURLINFO_RETRY_AFTER, &wait_s) && wait_s > 0)
        r->retry_after_s = wait_s < 86400 ? (int)wait_s : 86400;
    if (h->ended)
        return HTTP_ENDED;
    if (code == CURLE_OK)
        return HTTP_ANSWERED;
    if (*h->refused.msg) {
        err_set(e, "%s", h->refused.msg);
        return HTTP_HOPELESS;
    }
    if (code == CURLE_ABORTED_BY_CALLBACK) {
        err_set(e, "stopped");
        return HTTP_ENDED;
    }
    return failed(h, code, e);
}

