#include "ui/responder.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "config/limits.h"
#include "option/endpoint.h"
#include "option/flags.h"
#include "responder/local.h"
#include "responder/remote.h"
#include "serve/control.h"
#include "serve/host.h"
#include "serve/server.h"
#include "serve/socket.h"
#include "ui/process.h"

/* True if the first n bytes of `value` are the default of the option whose name is the first n_key bytes of `key`. */
static bool is_default(const char *key, int n_key, const char *value, size_t n)
{
    struct option_about about;
    char name[64];
    snprintf(name, sizeof name, "%.*s", n_key, key);
    const int id = options_find(name);
    return id >= 0 && options_about((enum option_id)id, &about) && strlen(about.standard) == n && !strncmp(about.standard, value, n);
}

/* Appends the words KEY=VALUE of `wanted` that are not among those of `there`, and what is there instead of each. */
static void add_differences(const char *there, const char *wanted, struct buf *missing, struct buf *instead)
{
    struct buf in = {0}, word = {0};
    buf_addf(&in, " %s ", there);
    for (size_t n; *(wanted += strspn(wanted, " ")); wanted += n) {
        n = strcspn(wanted, " ");
        buf_reset(&word);
        buf_addf(&word, " %.*s ", (int)n, wanted);
        if (strstr(in.data, word.data))
            continue;
        const size_t key = strcspn(wanted, "=");
        const char *comma = missing->len ? ", " : "";
        buf_reset(&word);
        buf_addf(&word, " %.*s=", (int)key, wanted);
        const char *other = strstr(in.data, word.data);
        if (!other && is_default(wanted, (int)key, wanted + key + 1, n - key - 1))
            continue;
        buf_addf(missing, "%s%.*s", comma, (int)n, wanted);
        if (other)
            buf_addf(instead, "%s%.*s", comma, (int)strcspn(other + 1, " "), other + 1);
        else
            buf_addf(instead, "%sthe default of %.*s", comma, (int)key, wanted);
    }
    buf_free(&in);
    buf_free(&word);
}

/* True if tokens are needed here.  A single answer that no conversation keeps begins sooner without a tokenizer. */
static bool needs_tokens(const struct options *o, bool whole)
{
    return whole || options_name(o, OPT_save) || options_given(o, OPT_resume) || options_on(o, OPT_continue);
}

/* True if the server speaks our protocol; otherwise warns, and `instead` is what happens. */
static bool speaks_our_protocol(const struct control_state *s, const char *instead)
{
    if (s->protocol != RELAY_PROTOCOL)
        err_warn("the q35chat that has loaded the model is of another version: between programs it speaks protocol %d, and this one %d; %s",
                 s->protocol, RELAY_PROTOCOL, instead);
    return s->protocol == RELAY_PROTOCOL;
}

/* True if that server has loaded the model that would be loaded here, with the options that were given; the others may differ. */
static bool is_same(const struct options *o, const struct control_state *s, const char *dir)
{
    struct buf key = {0}, missing = {0}, instead = {0};
    control_engine_key(o, &key);
    add_differences(buf_str(&s->options), buf_str(&key), &missing, &instead);
    const bool model = !strcmp(buf_str(&s->root), dir), same = model && !missing.len;
    if (model && !same)
        err_warn("another q35chat has loaded this model with %s instead of %s, so it is loaded here as well", buf_str(&instead), buf_str(&missing));
    buf_free(&key);
    buf_free(&missing);
    buf_free(&instead);
    return same;
}

/* Warns of options on the command line that a model is loaded with, and that are too late for one that is. */
static void warn_too_late(const struct options *o)
{
    struct option_about about;
    struct buf flags = {0};
    for (enum option_id id = 0; options_about(id, &about); id++) {
        if (!about.of_engine || about.of_attached || options_from(o, id) != FROM_COMMAND_LINE || !options_given(o, id))
            continue;
        buf_addf(&flags, "%s--%s", flags.len ? ", " : "", about.type == VALUE_SWITCH && !options_on(o, id) ? "no-" : "");
        flags_add_dashed(&flags, about.key);
    }
    if (flags.len)
        err_warn("another q35chat has loaded this model, so %s has no effect; --no-attach loads the model here as well", flags.data);
    buf_free(&flags);
}

static struct responder *attach_to(const struct options *o, bool whole, const char *socket, const char *dir, struct err *e)
{
    const bool with_note = (isatty(0) && isatty(2)) || options_on(o, OPT_verbose);
    return needs_tokens(o, whole) ? local_attach(socket, dir, with_note, e) : remote_attach(o, socket, dir, with_note, e);
}

/* Asks whether to load a second model if a server of the user does not answer: it takes as much memory again. */
static bool wants_second_model(const char *why, struct err *e)
{
    struct termios t;
    if (!tcgetattr(0, &t) && (t.c_lflag & ICANON) && isatty(2)) {       /* not while the full screen has it */
        fprintf(stderr, "q35chat: %s.\nLoad the model here as well, which takes its memory a second time? [y/N] ", why);
        struct pollfd p = {.fd = 0, .events = POLLIN};
        char line[64];
        ssize_t n = poll(&p, 1, -1) == 1 ? read(0, line, sizeof line) : 0;         /* a signal ends it */
        if (n <= 0 || line[n - 1] != '\n')
            fputc('\n', stderr);
        if (n > 0 && (*line == 'y' || *line == 'Y'))
            return true;
    }
    return err_set(e, "%s; continue or end that program, or load the model here as well with --no-attach", why);
}

/* Looks for a server.  One that ends is waited for: until it is gone it has its memory, and the lock without which no chat shares its model. */
static enum control_found look(const char *socket, struct control_state *s, struct err *e)
{
    enum { PATIENCE_MS = 10000, STEP_MS = 20 };
    const int64_t since = clock_ns();
    enum control_found found;
    while ((found = control_look(socket, s, e)) == CONTROL_NONE && socket_is_held(socket) && clock_ms_since(since) < PATIENCE_MS)
        poll(NULL, 0, STEP_MS);
    return found;
}

/* Attaches to the running server if it has the model of the options, or if they name none and none is here.  *looked: what is at the usual socket.
 * *failed: it has the model but cannot be opened, or it may have it and the user does not want a second one. */
static struct responder *attach(const struct options *o, bool whole, enum control_found *looked, bool *failed, struct err *e)
{
    struct buf socket = {0}, dir = {0};
    struct control_state s = {{0}};
    struct err why = {{0}};
    struct responder *r = NULL;
    control_socket(NULL, &socket);
    const enum control_found found = *looked = look(socket.data, &s, &why);
    char *real = found != CONTROL_FOUND ? NULL : options_model_dir(o, &dir, NULL) ? realpath(dir.data, NULL) : memory_strdup(buf_str(&s.root));
    if (found == CONTROL_FAILED)
        err_warn("%s; the model is loaded here", why.msg);
    else if (found == CONTROL_BUSY)
        *failed = !wants_second_model(why.msg, e);
    if (real && is_same(o, &s, real) && speaks_our_protocol(&s, "it is loaded here as well")) {
        r = attach_to(o, whole, socket.data, real, e);
        *failed = !r;
        if (r)
            warn_too_late(o);
    }
    free(real);
    control_state_free(&s);
    buf_free(&socket);
    buf_free(&dir);
    return r;
}

/* ---- an endpoint ---- */

/* True if the server has the wanted model, whose tokenizer can be read here. */
static bool is_attachable(const struct control_state *s, const char *wanted)
{
    struct buf tokenizer = {0};
    buf_addf(&tokenizer, "%s/tokenizer.json", buf_str(&s->root));
    const bool readable = !access(tokenizer.data, R_OK);
    buf_free(&tokenizer);
    return readable && (!wanted || !strcmp(wanted, buf_str(&s->model)) || !strcmp(wanted, buf_str(&s->root)));
}

/* Attaches to a q35chat on a unix socket; NULL: it is another server, or is not to be treated as a q35chat. */
static struct responder *attach_endpoint(const struct options *o, enum control_found *found, struct err *e)
{
    struct endpoint ep;
    struct control_state s = {{0}};
    struct responder *r = NULL;
    const char *socket;
    *found = CONTROL_FAILED;
    if (endpoint_find(o, &ep, e) && endpoint_is_socket(ep.url, &socket) && !ep.dialect) {
        *found = control_look(socket, &s, e);
        if (*found == CONTROL_FOUND && is_attachable(&s, ep.model) && speaks_our_protocol(&s, "it is asked as any other server"))
            r = attach_to(o, true, socket, s.root.data, e);
        else if (*found == CONTROL_NONE)
            err_set(e, "no server listens on the socket %s: start it there, then send the message again", socket);
    }
    if (r)
        r->address = ep.url;
    control_state_free(&s);
    endpoint_free(&ep);
    return r;
}

/* Opens the same server after it ended; the conversation waits until it is back. */
static struct responder *endpoint_again(const struct options *o, bool attach, struct err *e)
{
    (void)attach;
    enum control_found found;
    struct responder *r = attach_endpoint(o, &found, e);
    if (r) {
        r->instead = endpoint_again;
        r->again = true;
    }
    return r || found == CONTROL_NONE ? r : remote_open(o, e);
}

/* Opens the server of --endpoint; if that is another q35chat here and ids are needed, attaches to its engine. */
static struct responder *endpoint_open(const struct options *o, bool whole, struct err *e)
{
    enum control_found found;
    struct err why = {{0}};
    struct responder *r = needs_tokens(o, whole) ? attach_endpoint(o, &found, &why) : NULL;
    if (!r)
        return remote_open(o, e);
    r->instead = endpoint_again;
    r->again = true;
    return r;
}

/* ---- an engine of our own ---- */

/* Shares the model on the usual socket, unless that cannot be used.  *taken: another program has it. */
static struct responder *share(struct responder *r, const struct options *o, bool *taken)
{
    struct buf socket = {0};
    struct err why = {{0}};
    control_socket(NULL, &socket);
    struct responder *guests[SERVER_ANSWERS - 1], *made;
    for (int i = 0; i < SERVER_ANSWERS - 1; i++)
        guests[i] = local_guest(r);
    made = host_open(r, guests, SERVER_ANSWERS - 1, socket.data, o, waiter_leave, &why);
    *taken = !made && socket_is_held(socket.data);
    if (!made && options_on(o, OPT_verbose))
        err_warn("other programs cannot use the model of this chat: %s", why.msg);
    buf_free(&socket);
    return made ? made : r;
}

static struct responder *open_shared(const struct options *o, bool *taken, struct err *e)
{
    struct responder *r = local_open(o, e);
    return r && options_on(o, OPT_attach) && options_on(o, OPT_share) ? share(r, o, taken) : r;
}

static struct responder *again(const struct options *o, bool attach, struct err *e);
static struct responder *again_of_chat(const struct options *o, bool attach, struct err *e);

/* Opens the responder of an answer, or of a chat, which shares its model.  If two chats find the socket free at the same time, the one that comes
 * second attaches to the first. */
static struct responder *responder(const struct options *o, bool whole, bool may_attach, struct err *e)
{
    enum control_found found = CONTROL_FAILED;
    bool failed = false, taken = false;
    if (*options_text(o, OPT_endpoint))
        return endpoint_open(o, whole, e);
    struct responder *r = may_attach ? attach(o, whole, &found, &failed, e) : NULL;
    if (!r && !failed) {
        struct responder *own = whole ? open_shared(o, &taken, e) : local_open(o, e);
        if (!taken || found != CONTROL_NONE || (!(r = attach(o, whole, &found, &failed, e)) && !failed))
            return own;
        own->ops->close(own);
    }
    if (r)
        r->instead = whole ? again_of_chat : again;
    return r;
}

static struct responder *again(const struct options *o, bool attach, struct err *e)
{
    return responder(o, false, attach, e);
}

static struct responder *again_of_chat(const struct options *o, bool attach, struct err *e)
{
    return responder(o, true, attach, e);
}

struct responder *ui_responder(const struct options *o, struct err *e)
{
    return responder(o, false, options_on(o, OPT_attach), e);
}

struct responder *ui_responder_of_chat(const struct options *o, struct err *e)
{
    return responder(o, true, options_on(o, OPT_attach), e);
}

bool ui_responder_agreed(struct options *o, struct err *e)
{
    struct buf socket = {0};
    struct control_state s = {{0}};
    struct err why = {{0}};
    bool ok = true;
    control_socket(NULL, &socket);
    if (options_on(o, OPT_attach) && !*options_text(o, OPT_endpoint) && control_look(socket.data, &s, &why) == CONTROL_BUSY)
        ok = wants_second_model(why.msg, e) && options_set(o, OPT_attach, "off", FROM_SET, e);
    control_state_free(&s);
    buf_free(&socket);
    return ok;
}
