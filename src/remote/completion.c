#include "remote/completion.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/memory.h"

static const char *const reasoning_names[] = {"reasoning_content", "reasoning", "thinking"};
enum { N_REASONING = sizeof reasoning_names / sizeof *reasoning_names };

enum { MAX_EVENT = 16 << 20 };      /* bytes of one event's data */

/* Reads server-sent events from bytes as they arrive, as the HTML standard defines the format (section 9.2.6); names of events, `id` and `retry` are
 * ignored.  The events do not depend on how the bytes are cut into pieces. */
struct events {
    struct buf line, data;
    bool has_data;
    bool after_cr;                      /* a line feed at the beginning of the next bytes belongs to the line before */
    bool begun;                         /* a byte order mark may only come before the first byte */
};

/* The call that is being written. */
struct open_call {
    bool       open;
    json_int_t index;                   /* -1: not given */
    struct buf id, name, arguments;
};

struct completion {
    completion_fn *fn;
    void *arg;
    struct events events;
    const char *reasoning;              /* of reasoning_names */
    struct open_call call;
    enum completion_finish finish;
    struct stats stats;                 /* negative figures are not known */
    size_t bytes, most;                 /* of the answer so far; the limit, 0: none */
    bool done;                          /* [DONE] came */
    bool begun[COMPLETION_TEXT + 1];    /* reasoning, text: more than blank lines came */
};

struct completion *completion_open(completion_fn *fn, void *arg, bool continues)
{
    struct completion *c = memory_zeroed(1, sizeof *c);
    c->fn = fn;
    c->arg = arg;
    c->begun[COMPLETION_TEXT] = continues;
    c->stats = stats_unknown();
    return c;
}

void completion_close(struct completion *c)
{
    if (!c)
        return;
    buf_free(&c->events.line);
    buf_free(&c->events.data);
    buf_free(&c->call.id);
    buf_free(&c->call.name);
    buf_free(&c->call.arguments);
    free(c);
}

void completion_limit(struct completion *c, size_t most)
{
    c->most = most;
}

static struct text string_of(const json_t *v)
{
    return json_is_string(v) ? (struct text){json_string_value(v), json_string_length(v)} : (struct text){0};
}

static void report(struct completion *c, enum completion_kind kind, struct text text)
{
    c->bytes += text.n;
    if (text.n)
        c->fn(&(struct completion_delta){.kind = kind, .text = text}, c->arg);
}

/* Reports a text without the blank lines before its first word. */
static void report_words(struct completion *c, enum completion_kind kind, struct text text)
{
    for (; text.n && !c->begun[kind] && (*text.p == '\n' || *text.p == '\r'); text.n--)
        text.p++;
    c->begun[kind] = c->begun[kind] || text.n;
    report(c, kind, text);
}

/* ---- tool calls ---- */

/* True if the text is a whole JSON object. */
static bool is_object(const struct buf *text)
{
    json_t *v = json_loadb(buf_str(text), text->len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);       /* integers may have any size */
    bool ok = json_is_object(v);
    json_decref(v);
    return ok;
}

/* Delivers the arguments of the open call, if there is one; truncated if they are no complete object. */
static void end_call(struct completion *c, bool cut)
{
    struct open_call *o = &c->call;
    if (!o->open)
        return;
    o->open = false;
    if (!o->arguments.len && !cut)
        buf_adds(&o->arguments, "{}");  /* a tool without parameters */
    c->fn(&(struct completion_delta){.kind = COMPLETION_CALL, .text = {buf_str(&o->arguments), o->arguments.len},
                                     .truncated = !is_object(&o->arguments)}, c->arg);
}

/* Ends the open call and begins another one. */
static void begin_call(struct completion *c, json_int_t index, struct text id, struct text name)
{
    struct open_call *o = &c->call;
    end_call(c, false);
    buf_reset(&o->id);
    buf_reset(&o->name);
    buf_reset(&o->arguments);
    buf_add(&o->id, id.p ? id.p : "", id.n);
    buf_add(&o->name, name.p, name.n);
    o->index = index;
    o->open = true;
    c->bytes += name.n;
    c->fn(&(struct completion_delta){.kind = COMPLETION_CALL_BEGIN, .text = name, .id = {buf_str(&o->id), o->id.len}}, c->arg);
}

/* True if a part with a name begins another call than the open one.  A repeated name with a repeated or missing id is the same call,
 * unless that one's arguments are whole. */
static bool is_another(const struct open_call *o, json_int_t index, struct text id, struct text name)
{
    if (!o->open || !text_same(name, (struct text){buf_str(&o->name), o->name.len}))
        return true;
    if (id.n && o->id.len)
        return !text_same(id, (struct text){buf_str(&o->id), o->id.len});
    if (index >= 0 && o->index >= 0 && index != o->index)
        return true;
    return is_object(&o->arguments);
}

/* Takes a part of a call; arguments come as text in parts, or as a whole object. */
static void take_call(struct completion *c, const json_t *part)
{
    const json_t *function = json_object_get(part, "function"), *given = json_object_get(part, "index"),
        *arguments = json_object_get(function, "arguments");
    json_int_t index = json_is_integer(given) ? json_integer_value(given) : -1;
    struct text id = string_of(json_object_get(part, "id")), name = string_of(json_object_get(function, "name"));
    if (name.n && is_another(&c->call, index, id, name))
        begin_call(c, index, id, name);
    if (!c->call.open)
        return;                         /* arguments without a call */
    if (json_is_object(arguments)) {
        char *text = memory_got(json_dumps(arguments, JSON_COMPACT));
        buf_reset(&c->call.arguments);
        buf_adds(&c->call.arguments, text);
        c->bytes += c->call.arguments.len;
        free(text);
    } else {
        struct text t = string_of(arguments);
        buf_add(&c->call.arguments, t.p ? t.p : "", t.n);
        c->bytes += t.n;
    }
}

/* ---- chunks ---- */

/* Delivers reasoning from the first field that has any; others only repeat it. */
static void take_reasoning(struct completion *c, const json_t *delta)
{
    for (int i = 0; i < N_REASONING; i++) {
        struct text t = string_of(json_object_get(delta, reasoning_names[i]));
        if (t.n && !c->reasoning)
            c->reasoning = reasoning_names[i];
        if (t.n && c->reasoning == reasoning_names[i])
            report_words(c, COMPLETION_REASONING, t);
    }
}

static void take_delta(struct completion *c, const json_t *delta)
{
    const json_t *calls = json_object_get(delta, "tool_calls");
    take_reasoning(c, delta);
    report_words(c, COMPLETION_TEXT, string_of(json_object_get(delta, "content")));
    for (size_t i = 0; i < json_array_size(calls); i++)
        take_call(c, json_array_get(calls, i));
}

/* Takes the reason for which the answer ended.  truncated: why an answer of q35chat is not whole. */
static void take_finish(struct completion *c, struct text reason, struct text truncated)
{
    if (!reason.n)
        return;
    c->finish = text_is(truncated, "context") ? COMPLETION_CONTEXT : text_is(truncated, "model") ? COMPLETION_BROKEN
              : text_is(reason, "length") ? COMPLETION_LENGTH : text_is(reason, "content_filter") ? COMPLETION_FILTERED : COMPLETION_STOPPED;
    end_call(c, c->finish != COMPLETION_STOPPED);
}

static void take_int(const json_t *from, const char *name, int *to)
{
    const json_t *v = json_object_get(from, name);
    if (json_is_number(v) && json_number_value(v) >= 0 && json_number_value(v) < 1e9)
        *to = (int)json_number_value(v);
}

static void take_real(const json_t *from, const char *name, double *to)
{
    const json_t *v = json_object_get(from, name);
    if (json_is_number(v) && json_number_value(v) >= 0)
        *to = json_number_value(v);
}

/* Takes the figures of `usage`, and of `timings` where the server has them. */
static void take_figures(struct completion *c, const json_t *chunk)
{
    struct stats *s = &c->stats;
    struct draft_count all = {-1, 0}, lookup = {0};
    const json_t *usage = json_object_get(chunk, "usage"), *timings = json_object_get(chunk, "timings");
    take_int(usage, "prompt_tokens", &s->n_prompt);
    take_int(usage, "completion_tokens", &s->n_tokens);
    take_int(json_object_get(usage, "prompt_tokens_details"), "cached_tokens", &s->n_cached);
    if (!json_is_object(timings))
        return;
    int read = -1;
    take_int(timings, "cache_n", &s->n_cached);
    take_int(timings, "prompt_n", &read);
    if (read >= 0)                      /* tokens that were computed; the others came from the cache */
        s->n_prompt = read + (s->n_cached > 0 ? s->n_cached : 0);
    take_int(timings, "predicted_n", &s->n_tokens);
    take_int(timings, "steps_n", &s->n_steps);
    take_int(timings, "draft_n", &all.drafted);
    take_int(timings, "draft_n_accepted", &all.accepted);
    take_int(timings, "draft_lookup_n", &lookup.drafted);
    take_int(timings, "draft_lookup_n_accepted", &lookup.accepted);
    if (all.drafted > 0) {              /* not by position */
        s->drafts[DRAFT_MTP][0] = (struct draft_count){all.drafted - lookup.drafted, all.accepted - lookup.accepted};
        s->drafts[DRAFT_LOOKUP][0] = lookup;
    }
    take_real(timings, "prompt_ms", &s->prefill_ms);
    take_real(timings, "predicted_ms", &s->decode_ms);
    take_real(timings, "moved_bytes", &s->bytes);
}

static void take_progress(struct completion *c, const json_t *progress)
{
    int done = -1, total = -1, cached = 0;
    take_int(progress, "processed", &done);
    take_int(progress, "total", &total);
    take_int(progress, "cache", &cached);
    if (done >= 0 && total >= done)
        c->fn(&(struct completion_delta){.kind = COMPLETION_READING, .done = (size_t)done, .total = (size_t)total, .cached = (size_t)cached}, c->arg);
}

/* ---- errors ---- */

/* Returns the message in any of the shapes {"error": {"message": m}}, {"error": m}, {"object": "error", "message": m}, {"detail": m or [{"msg": m}]};
 * empty: the value has no such shape. */
static struct text message_of(const json_t *v)
{
    const json_t *error = json_object_get(v, "error"), *detail = json_object_get(v, "detail");
    if (json_is_object(error))
        return string_of(json_object_get(error, "message"));
    if (json_is_string(error))
        return string_of(error);
    if (json_is_array(detail))
        return string_of(json_object_get(json_array_get(detail, 0), "msg"));
    if (json_is_string(detail))
        return string_of(detail);
    return text_is(string_of(json_object_get(v, "object")), "error") ? string_of(json_object_get(v, "message")) : (struct text){0};
}

static bool is_error(const json_t *v)
{
    const json_t *error = json_object_get(v, "error");
    return (error && !json_is_null(error)) || json_object_get(v, "detail") || text_is(string_of(json_object_get(v, "object")), "error");
}

static void describe_error(const json_t *v, struct err *e)
{
    struct text m = text_trim(message_of(v));
    if (m.n)
        err_set(e, "the server says: %.*s", (int)(m.n < 400 ? m.n : 400), m.p);
    else
        err_set(e, "the server reported an error without a message");
}

void completion_error(const char *body, size_t n, struct err *e)
{
    json_t *v = json_loadb(body, n, JSON_ALLOW_NUL, NULL);
    struct text plain = text_trim((struct text){body, n});
    if (json_is_object(v))
        describe_error(v, e);
    else if (plain.n && !text_starts(plain, "<"))
        err_set(e, "the server says: %.*s", (int)(plain.n < 200 ? plain.n : 200), plain.p);
    else
        err_set(e, "the server reported an error without a message");
    json_decref(v);
}

/* ---- the stream ---- */

static void take_chunk(struct completion *c, const json_t *chunk)
{
    const json_t *choice = json_array_get(json_object_get(chunk, "choices"), 0);
    take_figures(c, chunk);
    take_progress(c, json_object_get(chunk, "prompt_progress"));
    take_delta(c, json_object_get(choice, "delta"));
    take_finish(c, string_of(json_object_get(choice, "finish_reason")), string_of(json_object_get(choice, "truncated")));
}

/* Takes an event's data; whether it is an error does not depend on the event's name. */
static bool take_event(struct completion *c, struct text data, struct err *e)
{
    if (c->done || !data.n)
        return true;
    if (text_is(data, "[DONE]")) {
        c->done = true;
        return true;
    }
    json_error_t why;
    json_t *v = json_loadb(data.p, data.n, JSON_ALLOW_NUL, &why);
    bool ok = json_is_object(v);
    if (!ok) {
        err_set(e, "the server sent an event that is not a JSON object: %.*s", (int)(data.n < 80 ? data.n : 80), data.p);
    } else if (is_error(v)) {
        describe_error(v, e);
        ok = false;
    } else {
        take_chunk(c, v);
        if (c->most && c->bytes > c->most)
            ok = err_set(e, "the server does not stop: its answer has more than %zu bytes, which is longer than what was asked for", c->most);
    }
    json_decref(v);
    return ok;
}

/* Takes the field of s->line, "field: value"; only "data" counts.  One space after the colon is not part of the value.  A line that begins
 * with a colon is a comment. */
static void take_field(struct events *s)
{
    struct text line = {buf_str(&s->line), s->line.len};
    const char *colon = line.n ? memchr(line.p, ':', line.n) : NULL;
    struct text field = {line.p, colon ? (size_t)(colon - line.p) : line.n};
    struct text value = {colon ? colon + 1 : "", colon ? line.n - field.n - 1 : 0};
    if (text_starts(value, " "))
        value = (struct text){value.p + 1, value.n - 1};
    if (text_is(field, "data")) {
        if (s->has_data)
            buf_addc(&s->data, '\n');
        buf_add(&s->data, value.p, value.n);
        s->has_data = true;
    }
}

/* Handles a complete line: a field, or the empty line that ends an event. */
static bool end_line(struct completion *c, struct err *e)
{
    struct events *s = &c->events;
    static const char mark[] = "\xef\xbb\xbf";
    if (!s->begun && text_starts((struct text){buf_str(&s->line), s->line.len}, mark))
        buf_consume(&s->line, 3);
    s->begun = true;
    bool ok = true;
    if (s->line.len) {
        take_field(s);
    } else {
        struct text data = {buf_str(&s->data), s->data.len};
        ok = !s->has_data || take_event(c, text_trim(data), e);
        buf_reset(&s->data);
        s->has_data = false;
    }
    buf_reset(&s->line);
    return ok;
}

/* Splits bytes into lines, which end with LF, CR or both.  False if an event is too long or wrong. */
static bool push_bytes(struct completion *c, const char *bytes, size_t n, struct err *e)
{
    struct events *s = &c->events;
    for (const char *p = bytes, *end = bytes + n; p < end;) {
        if (s->after_cr && *p == '\n') {
            s->after_cr = false;
            p++;
            continue;
        }
        const char *stop = p;
        while (stop < end && *stop != '\n' && *stop != '\r')
            stop++;
        buf_add(&s->line, p, (size_t)(stop - p));
        if (s->line.len + s->data.len > MAX_EVENT)
            return err_set(e, "the server sent an event of more than %d MiB", MAX_EVENT >> 20);
        s->after_cr = stop < end && *stop == '\r';
        if (stop < end && !end_line(c, e))
            return false;
        p = stop + (stop < end);
    }
    return true;
}

bool completion_push(struct completion *c, const char *bytes, size_t n, struct err *e)
{
    return push_bytes(c, bytes, n, e);
}

bool completion_end(struct completion *c, struct err *e)
{
    bool ok = push_bytes(c, "\n\n", 2, e);       /* some servers leave the last blank line out */
    if (ok && c->finish == COMPLETION_OPEN) {
        if (!c->done)
            ok = err_set(e, "the stream broke off before the answer was complete");
        c->finish = c->done ? COMPLETION_DONE : COMPLETION_OPEN;
    }
    end_call(c, !ok);
    return ok;
}

void completion_cut(struct completion *c)
{
    end_call(c, true);
}

enum completion_finish completion_finish(const struct completion *c)
{
    return c->finish;
}

struct stats completion_stats(const struct completion *c)
{
    return c->stats;
}

const char *completion_reasoning_name(const struct completion *c)
{
    return c->reasoning;
}
