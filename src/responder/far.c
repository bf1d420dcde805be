/* The engine of another q35chat on this machine, over its socket (docs/serve-reference.md, "Between two q35chats").  Three requests may be under
 * way: one whose stream lasts as long as the other program, one for the answer, and a short one in between. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "config/limits.h"
#include "remote/asker.h"
#include "responder/source.h"

/* Tags of requests for anything but an answer; the tag of an answer is its serial. */
enum { TAG_WATCH = 0x7fffffff, TAG_MACHINE = 0x7ffffffe, TAG_OTHER = 0x7ffffffd, TAG_SAVE = 0x7ffffffc, TAG_INTERRUPT = 0x40000000 };
enum { PROMPTLY_S = 2, MACHINE_MS = 1000 };

struct far {
    struct source base;
    struct mailbox in;
    struct asker *watch, *answers, *others;
    struct model_info info;
    struct machine_figures machine;
    bool asks_machine;
    int64_t machine_ns;                 /* time of the newest request for it; 0: none was sent */
    uint64_t number;                    /* random: our name, with which the names of answers begin */
    uint32_t serial;                    /* of the newest answer */
    bool runs;                          /* that answer is under way */
    int  n_prompt, n_reading;           /* tokens of its prompt; how often the other program has reported that it reads them */
    int  most, n_tokens;                /* tokens that it may have; that have come */
    bool stops;                         /* that answer was interrupted */
    bool watched;                       /* the other program has accepted us as attached */
    bool left;                          /* the other program is going away */
    struct buf restore;                 /* a file to restore once we are attached; empty: no file */
    uint64_t restore_of;
    int  n_saves;                       /* requests to save that have no reply yet */
    uint64_t save_of;                   /* conversation of the newest of these */
    struct stats stats;                 /* newest figures of that answer */
    struct { struct event *all; int n, cap; } events;           /* of one drain */
    struct buf note;
};

static struct far *own(struct source *s)
{
    return (struct far *)s;
}

/* ---- requests ---- */

static void add_ids(struct buf *out, struct spans prompt)
{
    buf_adds(out, ", \"prompt\": [");
    for (int i = 0; i < prompt.n; i++)
        buf_addf(out, i ? ",%d" : "%d", prompt.ids[i]);
    buf_addc(out, ']');
}

static void add_real(struct buf *out, const char *key, float x)
{
    buf_addf(out, ", \"%s\": %.9g", key, (double)x);
}

/* Appends the sampling as members of a JSON object. */
static void add_sampling(struct buf *out, const struct sampling *s)
{
#define SAMPLING_NUMBER(name, ...) add_real(out, #name, s->name);
#include "config/sampling_numbers.def"
    buf_addf(out, ", \"top_k\": %d, \"seed\": %llu, \"max_tokens\": %d, \"draft_depth\": %d, \"lookup\": %s, \"likely\": %d, \"logit_bias\": {",
             s->top_k, (unsigned long long)s->seed, s->max_tokens, s->draft_depth, s->lookup ? "true" : "false", s->n_alternatives);
    for (int i = 0; i < s->n_bias; i++)
        buf_addf(out, "%s\"%d\": %.9g", i ? ", " : "", s->bias_ids[i], isinf(s->bias[i]) ? -1e9 : (double)s->bias[i]);
    buf_addc(out, '}');
}

static void add_pictures(struct buf *out, const struct source *s)
{
    if (!s->pictures.len)
        return;
    buf_adds(out, ", \"pictures\": ");
    buf_add(out, s->pictures.data, s->pictures.len);
}

/* Sends a prompt of ids to the other q35chat; returns the serial of its answer. */
static uint32_t submit(struct source *s, uint64_t conversation, struct spans prompt, int snapshot_pos, const struct sampling *how)
{
    struct far *f = own(s);
    struct buf body = {0};
    f->serial = f->serial % (TAG_INTERRUPT - 1) + 1;
    f->runs = true;
    f->stops = false;
    f->stats = (struct stats){0};
    f->n_prompt = prompt.n;
    f->most = (how->max_tokens ? how->max_tokens : f->info.n_ctx) + LIMIT_STEP_ROWS;       /* a step more does no harm */
    f->n_reading = f->n_tokens = 0;
    buf_addf(&body, "{\"id\": \"%llx-%u\", \"conversation\": %llu, \"snapshot_pos\": %d, \"answer_prefix\": %d", (unsigned long long)f->number,
             f->serial, (unsigned long long)conversation, snapshot_pos, how->n_answer_prefix);
    add_sampling(&body, how);
    if (s->wish.len) {
        buf_addf(&body, ", \"rests\": %s, \"guide\": ", how->guide_rests ? "true" : "false");
        buf_add(&body, s->wish.data, s->wish.len);
    }
    add_pictures(&body, s);
    add_ids(&body, prompt);
    buf_addc(&body, '}');
    asker_ask(f->answers, f->serial, "/q35chat/answer", &body, 0);
    return f->serial;
}

/* Interrupts the answer.  The other program ends it, so that every token of its engine arrives; if that program does not
 * reply, the answer ends here. */
static void interrupt(struct source *s, uint32_t serial)
{
    struct far *f = own(s);
    struct buf body = {0};
    if (!f->runs || f->stops || serial != f->serial)
        return;
    f->stops = true;
    buf_addf(&body, "{\"id\": \"%llx-%u\"}", (unsigned long long)f->number, serial);
    asker_ask(f->others, TAG_INTERRUPT | serial, "/q35chat/interrupt", &body, PROMPTLY_S);
}

static void read_ahead(struct source *s, uint64_t conversation, struct spans prompt, int snapshot_pos)
{
    struct buf body = {0};
    buf_addf(&body, "{\"conversation\": %llu, \"snapshot_pos\": %d", (unsigned long long)conversation, snapshot_pos);
    add_pictures(&body, s);
    add_ids(&body, prompt);
    buf_addc(&body, '}');
    asker_ask(own(s)->others, TAG_OTHER, "/q35chat/ahead", &body, PROMPTLY_S);
}

/* Sends a request about the checkpoint of a conversation, which the other program reads and writes.  path NULL: there is no file. */
static void ask_file(struct far *f, struct asker *by, uint32_t tag, const char *what, uint64_t conversation, const char *path)
{
    struct buf body = {0};
    json_t *v = json_pack("{s:s}", "path", path ? path : "");
    char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;        /* a path that is no UTF-8 has no checkpoint */
    if (text) {
        buf_addf(&body, "{\"id\": \"%llx\", \"conversation\": %llu, %s", (unsigned long long)f->number, (unsigned long long)conversation, text + 1);
        f->n_saves += tag == TAG_SAVE;
        asker_ask(by, tag, what, &body, PROMPTLY_S);
    }
    free(text);
    json_decref(v);
}

static void save(struct source *s, uint64_t conversation, const char *path)
{
    struct far *f = own(s);
    if (f->left)
        return;
    f->save_of = conversation;
    ask_file(f, f->others, TAG_SAVE, "/q35chat/save", conversation, path);
}

/* Sends the request to restore before that for the next answer, over the same connection. */
static void ask_restore(struct far *f)
{
    if (f->restore.len)
        ask_file(f, f->answers, TAG_OTHER, "/q35chat/restore", f->restore_of, f->restore.data);
    buf_reset(&f->restore);
}

static void restore(struct source *s, uint64_t conversation, const char *path)
{
    struct far *f = own(s);
    buf_reset(&f->restore);
    buf_adds(&f->restore, path);
    f->restore_of = conversation;
    if (f->watched)
        ask_restore(f);
}

/* Names the file of the conversation before the next answer is requested. */
static void keep(struct source *s, uint64_t conversation, const char *path)
{
    if (!own(s)->left)
        ask_file(own(s), own(s)->answers, TAG_OTHER, "/q35chat/keep", conversation, path);
}

/* Returns the newest state of the machine, and requests another one when it is old. */
static void machine(struct source *s, struct machine_figures *m)
{
    struct far *f = own(s);
    *m = f->machine;
    if (f->asks_machine || f->base.gone || f->left || (f->machine_ns && clock_ms_since(f->machine_ns) < MACHINE_MS))
        return;
    struct buf body = {0};
    buf_adds(&body, "{}");
    f->asks_machine = true;
    f->machine_ns = clock_ns();
    asker_ask(f->others, TAG_MACHINE, "/q35chat/machine", &body, PROMPTLY_S);
}

/* ---- replies ---- */

/* Appends an event for the next drain(), with the serial of the answer unless the event is about the model. */
static struct event *add_event(struct far *f, enum event_kind kind)
{
    f->events.all = memory_grow(f->events.all, f->events.n, &f->events.cap, sizeof *f->events.all);
    struct event *ev = &f->events.all[f->events.n++];
    memset(ev, 0, sizeof *ev);
    ev->kind = kind;
    ev->serial = kind == EV_LOADING || kind == EV_READY ? 0 : f->serial;
    ev->stats = f->stats;
    return ev;
}

static void take_info(struct far *f, const json_t *v)
{
    model_info_read(&f->info, v);
    f->info.at_once = 0;                /* the other program's */
    add_event(f, EV_READY);
}

/* Posts a token of the reply as an event, with its alternatives. */
static void take_token(struct far *f, const json_t *token, const json_t *likely)
{
    struct event *ev = add_event(f, EV_TOKENS);
    struct logprobs *o = &ev->logprobs[0];
    ev->n = 1;
    ev->ids[0] = (int32_t)json_integer_value(json_array_get(token, 0));
    ev->source[0] = (uint8_t)json_integer_value(json_array_get(token, 1));
    o->prob = (float)json_number_value(json_array_get(token, 2));
    for (size_t i = 0; i < json_array_size(likely) && o->n < ENGINE_MAX_ALTERNATIVES; i++, o->n++) {
        const json_t *one = json_array_get(likely, i);
        o->ids[o->n] = (int32_t)json_integer_value(json_array_get(one, 0));
        o->probs[o->n] = (float)json_number_value(json_array_get(one, 1));
    }
}

static void end_answer(struct far *f, enum end finish, const char *why)
{
    struct event *ev = add_event(f, EV_DONE);
    ev->finish = finish;
    snprintf(ev->message, sizeof ev->message, "%s", why);
    f->runs = false;
}

/* Ends an answer of a program that does not stop where it must. */
static void stop_endless(struct far *f)
{
    struct err why;
    if (f->n_tokens > f->most)
        err_set(&why, "the q35chat that has loaded the model does not stop: %d tokens came, where %d are the limit", f->n_tokens,
                f->most - LIMIT_STEP_ROWS);
    else
        err_set(&why, "the q35chat that has loaded the model does not answer: it has been reading %d tokens for too long", f->n_prompt);
    asker_stop(f->answers, f->serial);
    end_answer(f, END_FAILED, why.msg);
}

/* Reads a line of the answer's reply: progress of the prompt, a token, figures, the end.  A reply that does not end is stopped. */
static void take_answer(struct far *f, const json_t *v)
{
    const json_t *reading = json_object_get(v, "reading"), *token = json_object_get(v, "token"), *stats = json_object_get(v, "stats");
    const char *done = json_string_value(json_object_get(v, "done")), *why = json_string_value(json_object_get(v, "why"));
    f->n_tokens += token != NULL;
    f->n_reading += reading != NULL;
    if (f->n_tokens > f->most || f->n_reading > f->n_prompt + LIMIT_CHUNK) {
        stop_endless(f);
        return;
    }
    if (stats)
        stats_read(&f->stats, stats);
    if (reading) {
        struct event *ev = add_event(f, EV_PREFILL);
        ev->done = (size_t)json_integer_value(json_array_get(reading, 0));
        ev->total = (size_t)json_integer_value(json_array_get(reading, 1));
        ev->cached = (size_t)json_integer_value(json_array_get(reading, 2));
    }
    if (token)
        take_token(f, token, json_object_get(v, "likely"));
    if (done)
        end_answer(f, end_of_word(done), why ? why : "");
}

/* Posts that a conversation was saved or restored; v NULL: nothing happened. */
static void take_file(struct far *f, enum event_kind kind, const json_t *v)
{
    const char *conversation = json_string_value(json_object_get(v, "conversation"));
    if (!conversation)
        return;
    struct event *ev = add_event(f, kind);
    ev->serial = 0;
    ev->sequence = strtoull(conversation, NULL, 10);
    ev->done = (size_t)json_integer_value(json_object_get(v, "done"));
    ev->total = (size_t)json_integer_value(json_object_get(v, "total"));
    const char *why = json_string_value(json_object_get(v, "why"));
    snprintf(ev->message, sizeof ev->message, "%s", why ? why : "");
    ev->message[utf8_plain(ev->message, strlen(ev->message), '?')] = 0;         /* its end may be half a character */
}

/* Takes the first line of the stream: the protocol. */
static void take_protocol(struct far *f, int theirs)
{
    f->watched = theirs == RELAY_PROTOCOL;
    f->left = !f->watched;
    if (f->watched)
        ask_restore(f);
    else
        err_warn("the q35chat that has loaded the model is of another version: between programs it speaks protocol %d, and this one %d", theirs,
                 RELAY_PROTOCOL);
}

/* Reads a line about the other q35chat itself.  The first line has its protocol, without which nothing else is read. */
static void take_watch(struct far *f, const json_t *v)
{
    if (!f->watched && !f->left)
        take_protocol(f, (int)json_integer_value(json_object_get(v, "protocol")));
    if (!f->watched)
        return;
    take_file(f, EV_SAVED, json_object_get(v, "saved"));
    take_file(f, EV_RESTORED, json_object_get(v, "restored"));
    const json_t *loading = json_object_get(v, "loading"), *ready = json_object_get(v, "ready");
    const char *note = json_string_value(json_object_get(v, "note"));
    if (loading) {
        struct event *ev = add_event(f, EV_LOADING);
        ev->done = (size_t)json_integer_value(json_array_get(loading, 0));
        ev->total = (size_t)json_integer_value(json_array_get(loading, 1));
    }
    if (ready)
        take_info(f, ready);
    if (note) {
        buf_reset(&f->note);
        buf_adds(&f->note, note);
        f->base.note = f->note.data;
    }
}

/* Reads a line of a reply by the tag of its request; lines of answers that have ended are ignored. */
static void take_line(struct far *f, const struct asker_event *ev)
{
    json_t *v = json_loadb(buf_str(&ev->text), ev->text.len, JSON_ALLOW_NUL, NULL);
    if (ev->tag == TAG_WATCH)
        take_watch(f, v);
    else if (ev->tag == TAG_MACHINE)
        machine_figures_read(&f->machine, json_object_get(v, "machine"));
    else if (f->runs && ev->tag == f->serial)
        take_answer(f, v);
    json_decref(v);
}

/* Makes a sentence of a reply with another status than 200. */
static void describe_refusal(const struct buf *body, struct err *e)
{
    json_t *v = json_loadb(buf_str(body), body->len, JSON_ALLOW_NUL, NULL);
    const char *said = json_string_value(json_object_get(json_object_get(v, "error"), "message"));
    err_set(e, "%s", said ? said : "the q35chat that has loaded the model refused without a reason");
    json_decref(v);
}

/* Takes the reply to a save: accepted or refused. */
static void take_save_end(struct far *f, const struct asker_event *ev)
{
    struct err e = {{0}};
    f->n_saves--;
    if (ev->what != ASKER_REFUSED)
        return;
    describe_refusal(&ev->text, &e);
    struct event *told = add_event(f, EV_SAVED);
    told->serial = 0;
    told->sequence = f->save_of;
    snprintf(told->message, sizeof told->message, "%s", e.msg);
}

/* Handles the end of a reply.  The end of the watch, or of an answer without its last line, means that the other q35chat is gone. */
static void take_end(struct far *f, const struct asker_event *ev)
{
    struct err e = {{0}};
    if (ev->tag == TAG_SAVE)
        take_save_end(f, ev);
    if (ev->tag == TAG_MACHINE)
        f->asks_machine = false;
    if (ev->tag == TAG_WATCH && ev->what == ASKER_REFUSED) {
        describe_refusal(&ev->text, &e);
        err_warn("%s", e.msg);
    }
    if (ev->tag == TAG_WATCH)
        f->left = true;
    if (ev->tag == (TAG_INTERRUPT | f->serial) && ev->what != ASKER_ENDED)
        asker_stop(f->answers, f->serial);
    if (ev->tag != f->serial || !f->runs)
        return;
    if (f->stops) {
        end_answer(f, END_INTERRUPTED, "");
    } else if (ev->what == ASKER_REFUSED) {
        describe_refusal(&ev->text, &e);
        end_answer(f, END_FAILED, e.msg);
    } else {
        f->left = true;                 /* in the middle of it */
        f->runs = false;
    }
}

/* Returns the events of all lines that have arrived, valid until the next call. */
static struct event_list drain(struct source *s)
{
    struct far *f = own(s);
    int n;
    const struct asker_event *list = mailbox_take(&f->in, &n);
    f->events.n = 0;
    for (int i = 0; i < n; i++) {
        struct asker_event ev = list[i];
        if (ev.what == ASKER_LINE)
            take_line(f, &ev);
        else
            take_end(f, &ev);
        buf_free(&ev.text);
    }
    f->base.gone = f->left && !f->runs; /* an answer may still have its last words under way */
    return (struct event_list){f->events.all, f->events.n};
}

/* ---- the whole ---- */

static int fd(const struct source *s)
{
    return ((const struct far *)s)->in.fd;
}

static const struct model_info *info(const struct source *s)
{
    return &((const struct far *)s)->info;
}

/* Before closing: waits briefly until the other program has accepted our saves. */
static void finish_saves(struct far *f)
{
    const int64_t begun = clock_ns();
    int left = PROMPTLY_S * 1000;
    while (f->n_saves && left > 0 && mailbox_wait(&f->in, left)) {
        drain(&f->base);
        left = PROMPTLY_S * 1000 - (int)clock_ms_since(begun);
    }
}

/* Waits for saves under way, ends all requests and frees the source. */
static void close_far(struct source *s)
{
    struct far *f = own(s);
    asker_close(f->answers);
    finish_saves(f);
    asker_close(f->others);
    asker_close(f->watch);
    if (f->in.item_size)
        drain(s);                       /* frees the texts */
    mailbox_free(&f->in);
    free(f->events.all);
    buf_free(&f->note);
    buf_free(&f->restore);
    buf_free(&f->base.wish);
    buf_free(&f->base.pictures);
    free(f);
}

static const struct source_ops ops = {
    .submit = submit, .interrupt = interrupt, .read_ahead = read_ahead, .save = save, .restore = restore, .keep = keep, .fd = fd, .drain = drain,
    .info = info, .machine = machine, .close = close_far,
};

static bool open_askers(struct far *f, const char *socket, struct err *e)
{
    return (mailbox_init(&f->in, sizeof(struct asker_event)) || err_set(e, "no more files may be opened")) &&
           (f->watch = asker_open(socket, &f->in, e)) && (f->answers = asker_open(socket, &f->in, e)) && (f->others = asker_open(socket, &f->in, e));
}

struct source *source_far(const char *socket, struct err *e)
{
    struct far *f = memory_zeroed(1, sizeof *f);
    struct buf body = {0};
    f->base.ops = &ops;
    f->base.pixels = f->base.files = true;
    if (getrandom(&f->number, sizeof f->number, GRND_NONBLOCK) != sizeof f->number)
        f->number = (uint64_t)clock_ns();
    if (!open_askers(f, socket, e)) {
        close_far(&f->base);
        return NULL;
    }
    buf_addf(&body, "{\"id\": \"%llx\", \"protocol\": %d}", (unsigned long long)f->number, RELAY_PROTOCOL);
    asker_ask(f->watch, TAG_WATCH, "/q35chat/attach", &body, 0);
    return &f->base;
}
