#include "responder/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "guide/form.h"
#include "image/image.h"
#include "option/endpoint.h"
#include "remote/body.h"
#include "remote/client.h"
#include "responder/responder.h"

/* The answer under way.
 *
 *     SILENT -> SPEAKING              request()
 *     SPEAKING -> STOPPING            interrupt(); only DONE is reported from here on
 *     SPEAKING, STOPPING -> SILENT    the client's answer has ended */
enum speaking { SILENT, SPEAKING, STOPPING };

enum { ASSUMED_CTX = 32768 };           /* tokens; if neither the server nor --ctx says */

struct remote {
    struct responder base;
    struct client *client;
    struct buf name;                    /* "ADDRESS MODEL", as sessions store it */
    size_t n_address;                   /* bytes of ADDRESS */
    struct buf names;                   /* names of the models, each ended by a zero byte */
    const char **models;                /* [n_models] where each name begins */
    int    n_models;
    bool   chosen;                      /* the user chose the model */
    struct model_info info;
    int    ctx;                         /* tokens of context, if the server does not say */
    bool   known, dead;
    enum form_kind lacks;               /* a form that the server does not take, of which a note was reported */
    bool   attached;                    /* when it is ready, a note says that another program has loaded the model */
    enum speaking speaking;
    struct stats stats;
    int    used;                        /* tokens of the newest prompt and answer; -1: not known */
    int64_t asked_ns, first_ns;         /* first_ns: of the first part of the answer; 0: not yet */
};

static struct remote *own(struct responder *r)
{
    return (struct remote *)r;
}

static const struct remote *own_const(const struct responder *r)
{
    return (const struct remote *)r;
}

/* ---- a request ---- */

/* Copies the messages and appends the answer to be continued.  The caller frees the list. */
static struct message *messages_of(const struct request *q, int *n)
{
    struct message *all = memory_alloc(((size_t)q->n_messages + 1) * sizeof *all);
    *n = q->n_messages;
    memcpy(all, q->messages, (size_t)q->n_messages * sizeof *all);
    if (q->prefix.content.n || q->prefix.reasoning.n)
        all[(*n)++] = (struct message){
            .role = ROLE_ASSISTANT, .content = q->prefix.content, .has_reasoning = q->prefix.reasoning.n > 0, .reasoning = q->prefix.reasoning,
        };
    return all;
}

/* Writes the body of a request for the server's dialect. */
static bool write_body(const struct remote *r, const struct request *q, struct buf *out, struct err *e)
{
    const struct remote_model *m = client_model(r->client);
    const char *told = client_reasoning_name(r->client);
    int n;
    struct message *messages = messages_of(q, &n);
    const bool calls = m->dialect->own || q->form.kind == FORM_ANY || q->form.kind == FORM_CALLS;       /* others take a form or tools, not both */
    struct body b = {
        .model = buf_str(&m->id), .dialect = m->dialect, .messages = messages, .n_messages = n, .tools = q->tools, .n_tools = calls ? q->n_tools : 0,
        .reasoning_name = told ? told : m->dialect->own ? "reasoning_content" : NULL, .thinking = q->thinking, .continues = n > q->n_messages,
        .sampling = &q->sampling, .think_budget = q->think_budget,
        .form = &q->form,
    };
    bool ok = body_write(&b, out, e);
    free(messages);
    return ok;
}

static void tell_given(const struct remote *r, enum news_kind kind, struct text t)
{
    if (t.n)
        responder_tell(&r->base, &(struct news){.kind = kind, .text = t, .replayed = true});
}

/* Returns a number of bytes that no answer exceeds, with every token as long as the longest of any vocabulary. */
static size_t most_bytes(const struct remote *r, const struct request *q)
{
    enum { TOKEN_BYTES = 256, BESIDE = 1 << 16 };
    int n = r->info.n_ctx, most = q->sampling.max_tokens;
    return (size_t)(most && most < n ? most : n) * TOKEN_BYTES + BESIDE;
}

/* Reports once that the server does not take such a form. */
static void note_form(struct remote *r, enum form_kind kind)
{
    static const char *const words[] = {[FORM_JSON] = "JSON", [FORM_SCHEMA] = "a schema", [FORM_PATTERN] = "a pattern", [FORM_CHOICES] = "choices"};
    char note[120];
    if (kind == FORM_ANY || kind == FORM_CALLS || kind == r->lacks || body_takes_form(client_model(r->client)->dialect, kind))
        return;
    r->lacks = kind;
    snprintf(note, sizeof note, "the server cannot enforce %s: the prompt asks for it, and the answer is checked here", words[kind]);
    responder_tell(&r->base, &(struct news){.kind = NEWS_NOTE, .text = text_of(note)});
}

/* False with the reason if a q35chat would refuse the form.  Other servers may enforce what we cannot. */
static bool may_have_form(const struct remote *r, const struct form *f, struct err *e)
{
    if (f->kind == FORM_ANY || f->kind == FORM_CALLS || !client_model(r->client)->dialect->own)
        return true;
    struct grammar *g = form_grammar(f, e);
    grammar_release(g);
    return g != NULL;
}

/* Sends a request to the server; with a prefix it continues that answer.  REQUEST_REFUSED, with the reason, if the dialect cannot. */
static enum request_result request(struct responder *base, const struct request *q, struct err *e)
{
    struct remote *r = own(base);
    struct buf body = {0};
    if (q->prefix.reasoning.n && !q->prefix.content.n && !client_model(r->client)->dialect->own) {
        err_set(e, "a server cannot continue an answer that was stopped while it reasoned; /regen asks for another one");
        return REQUEST_REFUSED;
    }
    if (!may_have_form(r, &q->form, e) || !write_body(r, q, &body, e)) {
        buf_free(&body);
        return REQUEST_REFUSED;
    }
    note_form(r, q->form.kind);
    r->stats = (struct stats){0};
    r->asked_ns = clock_ns();
    r->first_ns = 0;
    r->speaking = SPEAKING;
    tell_given(r, NEWS_REASONING, q->prefix.reasoning);
    tell_given(r, NEWS_TEXT, q->prefix.content);
    client_ask(r->client, &body, q->prefix.content.n > 0, most_bytes(r, q));
    return REQUEST_TAKEN;
}

static void interrupt(struct responder *base)
{
    struct remote *r = own(base);
    if (r->speaking != SPEAKING)
        return;
    r->speaking = STOPPING;
    client_stop(r->client);
}

/* ---- events of the client ---- */

static void tell_text(const struct remote *r, enum news_kind kind, const char *text)
{
    responder_tell(&r->base, &(struct news){.kind = kind, .text = text_of(text)});
}

/* Stores the chosen model for sessions as if it had been named at the start. */
static void take_chosen(struct remote *r, const char *model)
{
    struct buf note = {0};
    r->name.len = r->n_address;
    buf_addf(&r->name, " %s", model);
    r->base.model = r->name.data;
    buf_addf(&note, "answers come from %s now", model);
    tell_text(r, NEWS_NOTE, note.data);
    buf_free(&note);
    r->chosen = false;
}

/* Takes the list of models, which end with zero bytes, and posts that one of them must be chosen. */
static void take_offer(struct remote *r, const struct buf *names)
{
    struct err ask = {{0}};
    buf_reset(&r->names);
    buf_add(&r->names, names->data, names->len);
    r->n_models = 0;
    for (size_t at = 0; at < r->names.len; at += strlen(r->names.data + at) + 1) {
        r->models = memory_resized(r->models, (size_t)(r->n_models + 1) * sizeof *r->models);
        r->models[r->n_models++] = r->names.data + at;
    }
    models_ask(&r->names, &ask);
    tell_text(r, NEWS_MODELS, ask.msg);
}

/* Fills in the facts about the server's model and posts that it is ready. */
static void take_ready(struct remote *r)
{
    const struct remote_model *m = client_model(r->client);
    struct model_info *to = &r->info;
    snprintf(to->model, sizeof to->model, "%s", buf_str(&m->id));
    to->model[unicode_plain(to->model, strlen(to->model), '?')] = 0;    /* its end may be half a character */
    snprintf(to->backend, sizeof to->backend, "%s", m->dialect->name);
    to->n_ctx = m->n_ctx ? m->n_ctx : r->ctx;
    r->info.temperature = m->samples ? m->temperature : -1;
    r->info.top_p = m->top_p;
    r->info.top_k = m->top_k;
    r->known = true;
    r->base.can.begin_text = m->dialect->continues;
    if (!m->n_ctx) {
        char note[160];
        snprintf(note, sizeof note, "the server does not say how long its context is: %d tokens are assumed (--ctx)", r->ctx);
        tell_text(r, NEWS_NOTE, note);
    }
    if (r->chosen)
        take_chosen(r, buf_str(&m->id));
    if (r->attached)
        tell_text(r, NEWS_NOTE, "attached to the model that another q35chat has loaded");
    tell_text(r, NEWS_READY, "");
}

/* Posts a part of the answer and counts it in the figures. */
static void take_delta(struct remote *r, const struct completion_delta *d)
{
    static const enum news_kind kinds[] = {
        [COMPLETION_READING] = NEWS_READING, [COMPLETION_REASONING] = NEWS_REASONING, [COMPLETION_TEXT] = NEWS_TEXT,
        [COMPLETION_CALL_BEGIN] = NEWS_CALL_BEGIN, [COMPLETION_CALL] = NEWS_CALL,
    };
    if (r->speaking != SPEAKING)
        return;
    if (d->kind == COMPLETION_READING) {
        r->stats.n_prompt = (int)d->total;
        r->stats.n_cached = (int)d->cached;
    } else {                                    /* each part counts as a token; the server's own count comes at the end */
        r->stats.n_tokens++;
        if (!r->first_ns) {
            r->first_ns = clock_ns();
            r->stats.prefill_ms = clock_ms_since(r->asked_ns);
        } else {
            r->stats.n_timed++;
            r->stats.decode_ms = clock_ms_since(r->first_ns);
        }
    }
    responder_tell(&r->base, &(struct news){.kind = kinds[d->kind], .text = d->text, .id = d->id, .truncated = d->truncated, .done = d->done,
                                            .total = d->total, .cached = d->cached, .stats = &r->stats});
}

/* Replaces the figures that were counted here with the server's own. */
static void take_figures(struct remote *r, const struct stats *given)
{
    struct stats *s = &r->stats;
    stats_overwrite(s, given);
    if (given->n_prompt >= 0 && given->n_cached < 0)
        s->n_cached = 0;
    if (given->decode_ms >= 0)
        s->n_timed = s->n_tokens;
    else if (given->n_tokens >= 0)
        s->n_timed = s->n_tokens > 0 ? s->n_tokens - 1 : 0;
    r->used = given->n_prompt >= 0 && given->n_tokens >= 0 ? given->n_prompt + given->n_tokens : -1;
}

/* Posts the end of the answer; or that the server is gone, if another responder can take its place. */
static void take_done(struct remote *r, const struct client_event *ev)
{
    static const enum end ends[] = {
        [CLIENT_ANSWERED] = END_STOP, [CLIENT_LENGTH] = END_LENGTH, [CLIENT_CONTEXT] = END_CONTEXT, [CLIENT_BROKEN] = END_FAILED,
        [CLIENT_FILTERED] = END_FAILED, [CLIENT_STOPPED] = END_INTERRUPTED, [CLIENT_FAILED] = END_FAILED, [CLIENT_TOO_LONG] = END_TOO_LONG,
    };
    const char *why = ev->how == CLIENT_FILTERED ? "the server's content filter stopped the answer"
                    : ev->how == CLIENT_BROKEN ? "the model broke off in the middle of a tool call" : buf_str(&ev->text);
    take_figures(r, &ev->stats);
    r->speaking = SILENT;
    if (ev->unreachable && r->base.instead) {
        tell_text(r, NEWS_GONE, "the q35chat that had loaded the model has ended: it is loaded again");
        return;
    }
    responder_tell(&r->base, &(struct news){.kind = NEWS_DONE, .end = ends[ev->how], .text = text_of(why), .stats = &r->stats});
}

/* Turns an event of the client into news. */
static void take_event(struct remote *r, const struct client_event *ev)
{
    switch (ev->kind) {
    case CLIENT_LOADING:
        responder_tell(&r->base, &(struct news){.kind = NEWS_LOADING, .done = ev->delta.done, .total = ev->delta.total});
        break;
    case CLIENT_READY:
        take_ready(r);
        break;
    case CLIENT_OFFER:
        take_offer(r, &ev->text);
        break;
    case CLIENT_FATAL:
        r->dead = true;
        tell_text(r, NEWS_FATAL, buf_str(&ev->text));
        break;
    case CLIENT_NOTE:
        tell_text(r, NEWS_NOTE, buf_str(&ev->text));
        break;
    case CLIENT_DELTA:
        take_delta(r, &ev->delta);
        break;
    case CLIENT_DONE:
        take_done(r, ev);
        break;
    }
}

static void drain(struct responder *base)
{
    struct remote *r = own(base);
    int n;
    const struct client_event *list = client_drain(r->client, &n);
    for (int i = 0; i < n && !r->dead; i++)
        take_event(r, &list[i]);
}

/* ---- the rest ---- */

static bool check_biases(const struct responder *r, const char *const *items, int n, struct err *e)
{
    const struct dialect *d = client_model(own_const(r)->client)->dialect;
    for (int i = 0; i < n; i++)
        if (!body_check_bias(d, items[i], e))
            return false;
    return true;
}

static int fds(const struct responder *r, struct pollfd fds[RESPONDER_MAX_FDS])
{
    fds[0] = (struct pollfd){.fd = client_fd(own_const(r)->client), .events = POLLIN};
    return !own_const(r)->dead;
}

static const struct model_info *info(const struct responder *r)
{
    return own_const(r)->known ? &own_const(r)->info : NULL;
}

static void machine(struct responder *r, struct machine_figures *m)
{
    (void)r, (void)m;                   /* a server does not report its machine */
}

static int used(const struct responder *r)
{
    return own_const(r)->used;
}

static int models(const struct responder *r, const char *const **names)
{
    *names = own_const(r)->models;
    return own_const(r)->n_models;
}

static void choose(struct responder *base, const char *name)
{
    own(base)->chosen = own(base)->chosen || *name;
    client_choose(own(base)->client, name);
}

static void close_remote(struct responder *base)
{
    struct remote *r = own(base);
    client_close(r->client);
    buf_free(&r->names);
    free(r->models);
    buf_free(&r->name);
    free(r);
}

static const struct responder_ops ops = {
    .request = request, .interrupt = interrupt, .fds = fds, .drain = drain, .info = info, .machine = machine, .used = used, .models = models,
    .choose = choose, .check_biases = check_biases, .close = close_remote,
};

static struct remote *remote_new(const struct options *o)
{
    struct remote *r = memory_zeroed(1, sizeof *r);
    r->base = (struct responder){.ops = &ops, .more_room = "a server that holds more is needed"};
    r->ctx = options_int(o, OPT_ctx) ? options_int(o, OPT_ctx) : ASSUMED_CTX;
    r->used = -1;
    return r;
}

static struct responder *finish_open(struct remote *r, const struct client_options *co, struct err *e)
{
    r->base.model = r->name.data;
    r->client = client_open(co, e);
    if (r->client)
        return &r->base;
    close_remote(&r->base);
    return NULL;
}

struct responder *remote_open(const struct options *o, struct err *e)
{
    struct endpoint ep;
    struct responder *made = NULL;
    if (endpoint_find(o, &ep, e)) {
        struct remote *r = remote_new(o);
        const struct client_options co = {.url = ep.url, .model = ep.model, .dialect = ep.dialect, .key = ep.key.len ? ep.key.data : NULL,
                                          .key_from = ep.key_from.data, .ca_file = ep.ca_file.len ? ep.ca_file.data : NULL};
        r->base.can.choose = true;
        r->base.can.pictures = true;        /* a server that takes none says so */
        r->n_address = strlen(co.url);
        buf_addf(&r->name, "%s%s%s", co.url, co.model ? " " : "", co.model ? co.model : "");
        made = finish_open(r, &co, e);
    }
    endpoint_free(&ep);
    return made;
}

struct responder *remote_attach(const struct options *o, const char *socket, const char *dir, bool with_note, struct err *e)
{
    struct remote *r = remote_new(o);
    struct buf url = {0};
    buf_addf(&url, "unix:%s", socket);
    buf_adds(&r->name, dir);
    r->attached = with_note;
    struct image_limits limits;
    if (image_limits_within(&limits, dir, USUAL_PICTURE_TOKENS, NULL)) {
        r->base.least_pixels = (int)limits.min_pixels;
        r->base.most_pixels = (int)limits.max_pixels;
    }
    struct responder *made = finish_open(r, &(struct client_options){.url = url.data, .dialect = "q35chat"}, e);
    buf_free(&url);
    return made;
}
