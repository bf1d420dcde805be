#include "fetch/failure.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"

/* How far the request came, and on which way. */
enum { BY_SOCKET = 1, BY_PROXY = 2, REFUSED_BY_PROXY = 4, WITHOUT_TLS = 8, CONNECTED = 16, REPLIES = 32 };
enum { ANY = CURLE_OK };

/* The first row that fits is taken.  The words in braces are those of failure_say(). */
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

/* The variable of the proxy that is used for the address, as curl looks for it. */
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

static const struct row *row_of(const struct failure *f)
{
    const struct row *r = rows;
    for (const int flags = flags_of(f); (r->code != ANY && r->code != f->code) || (r->needs & ~flags) || (r->os_error && r->os_error != f->os_error);)
        r++;                            /* the last one always fits */
    return r;
}

struct word {
    const char *name, *text;
};

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

/* curl's words end now and then in a blank or a full stop. */
static void say_why(const struct failure *f, struct buf *out)
{
    buf_adds(out, *f->why ? f->why : curl_easy_strerror((CURLcode)f->code));
    while (out->len && strchr(" .", out->data[out->len - 1]))
        out->data[--out->len] = 0;
}

enum http_result failure_say(const struct failure *f, struct err *e)
{
    const struct http_request *q = f->q;
    const struct row *r = row_of(f);
    char port[16], status[16], silence[16], patience[16];
    struct buf host = {0}, why = {0}, out = {0};
    http_host(q->url, &host);
    say_why(f, &why);
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
