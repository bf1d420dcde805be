#include "ui/answer.h"

#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "ui/tui/markdown.h"

void reply_init(struct reply *r)
{
    *r = (struct reply){.calls = json_array()};
    CHECK(r->calls);
}

void reply_reset(struct reply *r)
{
    buf_reset(&r->reasoning);
    buf_reset(&r->answer);
    json_array_clear(r->calls);
    r->n_results = 0;
    r->new_reasoning = r->new_answer = r->denied = false;
}

void reply_free(struct reply *r)
{
    buf_free(&r->reasoning);
    buf_free(&r->answer);
    json_decref(r->calls);
}

static json_t *json_of_arguments(const char *text, size_t n)
{
    json_t *j = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    return j ? j : json_text(text, n);
}

/* --- collecting ------------------------------------------------------------------------------------------------- */

/* Adds the text of an event, with the same empty line between two parts as in plain output. */
static void collect(struct buf *b, const struct chat_event *ev, bool *new_part)
{
    if (*new_part && b->len)
        buf_adds(b, "\n\n");
    *new_part = false;
    buf_add(b, ev->text, ev->n);
}

static void add_call(struct reply *r, const struct chat_event *ev)
{
    json_t *j = json_object();
    json_object_set_new(j, "name", json_text(ev->name, strlen(ev->name)));
    json_object_set_new(j, "arguments", json_of_arguments(ev->text, ev->n));
    if (ev->truncated)
        json_object_set_new(j, "truncated", json_true());
    json_array_append_new(r->calls, j);
    r->new_reasoning = r->new_answer = true;
}

static void add_result(struct reply *r, const struct chat_event *ev)
{
    json_t *call = json_array_get(r->calls, (size_t)r->n_results++);
    json_object_set_new(call, "result", json_text(ev->text, ev->n));
    if (ev->denied)
        json_object_set_new(call, "denied", json_true());
    r->denied |= ev->denied;
}

void reply_take(struct reply *r, const struct chat_event *ev)
{
    switch (ev->kind) {
    case CHAT_REASONING:
        collect(&r->reasoning, ev, &r->new_reasoning);
        break;
    case CHAT_TEXT:
        collect(&r->answer, ev, &r->new_answer);
        break;
    case CHAT_CALL:
        add_call(r, ev);
        break;
    case CHAT_TOOL_RESULT:
        add_result(r, ev);
        break;
    default:
        break;
    }
}

/* --- how it ended ----------------------------------------------------------------------------------------------- */

static bool is_empty(const struct buf *answer)
{
    return strspn(buf_str(answer), " \t\r\n") == answer->len;
}

enum exit_status reply_status(const struct reply *r, const struct chat_event *done, bool strict)
{
    bool cut = done->end == END_LENGTH || done->end == END_CONTEXT || done->end == END_LOOP || is_empty(&r->answer);
    return done->end == END_TOO_LONG ? EXIT_TOO_LONG
         : done->end == END_FAILED || done->end == END_TOOL_ROUNDS ? EXIT_FAILED
         : done->end == END_INTERRUPTED ? EXIT_INTERRUPTED
         : strict && r->denied ? EXIT_DENIED
         : strict && cut ? EXIT_CUT : EXIT_ANSWERED;
}

bool reply_complaint(const struct reply *r, const struct chat_event *done, struct buf *out)
{
    bool empty = is_empty(&r->answer);
    if (done->end >= END_TOOL_ROUNDS)
        buf_adds(out, done->text);
    else if (done->end == END_LENGTH)
        buf_adds(out, empty ? "the answer is empty: max_tokens was reached before it began" : "the answer was cut off: max_tokens is reached");
    else if (done->end == END_CONTEXT)
        buf_adds(out, empty ? "the answer is empty: the context was full before it began" : "the answer was cut off: the context is full");
    else if (done->end == END_LOOP)
        buf_addf(out, "the answer was cut off: %s; --no-loop-guard allows it", done->text);
    else if (done->end != END_INTERRUPTED && empty)
        buf_adds(out, "the answer is empty: the model said nothing");
    if (r->denied)
        buf_addf(out, "%sa tool call was not allowed; --tools-approve NAME allows it", out->len ? "; " : "");
    return out->len > 0;
}

/* --- JSON ------------------------------------------------------------------------------------------------------- */

static void add_figures(json_t *j, const struct chat *c, const struct chat_event *done)
{
    const struct model_info *info = chat_info(c);
    json_object_set_new(j, "finish", json_string(end_word(done->end)));
    if (end_failed(done->end))
        json_object_set_new(j, "error", json_text(done->text, done->n));
    stats_to_json(&done->stats, j);
    json_object_set_new(j, "model", json_string(info ? info->model : chat_model_dir(c)));
    if (info)
        json_object_set_new(j, "backend", json_string(info->backend));
    json_object_set_new(j, "version", json_string(Q35_VERSION));
}

json_t *reply_json(const struct reply *r, const struct chat *c, const struct chat_event *done)
{
    json_t *j = json_object();
    json_object_set_new(j, "answer", json_text(buf_str(&r->answer), r->answer.len));
    json_object_set_new(j, "reasoning", json_text(buf_str(&r->reasoning), r->reasoning.len));
    json_object_set_new(j, "tool_calls", json_deep_copy(r->calls));
    add_figures(j, c, done);
    return j;
}

/* --- events ----------------------------------------------------------------------------------------------------- */

enum { EVENTS_VERSION = 1 };            /* grows when a reader of the events would have to change */

static json_t *event(const char *type, int64_t start_ns)
{
    return json_pack("{s:s, s:i, s:f}", "type", type, "v", EVENTS_VERSION, "t", clock_ms_since(start_ns) / 1000);
}

json_t *reply_event_start(const struct options *o, const struct chat *c, int64_t start_ns)
{
    json_t *j = event("start", start_ns);
    const char *dir = c ? chat_model_dir(c) : options_text(o, OPT_model);
    json_object_set_new(j, "version", json_string(Q35_VERSION));
    json_object_set_new(j, "model_dir", json_text(dir, strlen(dir)));
    if (options_given(o, OPT_seed))
        json_object_set_new(j, "seed", json_integer((json_int_t)options_seed(o)));
    if (c && chat_saved_as(c))
        json_object_set_new(j, "session", json_text(chat_saved_as(c), strlen(chat_saved_as(c))));
    return j;
}

json_t *reply_event_error(const char *why, int exit, int64_t start_ns)
{
    json_t *j = event("error", start_ns);
    json_object_set_new(j, "code", json_integer(exit));
    json_object_set_new(j, "message", json_text(why, strlen(why)));
    return j;
}

json_t *reply_event_no_model(const char *why, int exit, int64_t start_ns)
{
    json_t *j = event("end", start_ns);
    json_object_set_new(j, "finish", json_string(end_word(END_FAILED)));
    json_object_set_new(j, "error", json_text(why, strlen(why)));
    json_object_set_new(j, "exit", json_integer(exit));
    return j;
}

static void add_model(json_t *j, const struct model_info *info)
{
    json_object_set_new(j, "model", json_string(info->model));
    json_object_set_new(j, "backend", json_string(info->backend));
    json_object_set_new(j, "context", json_integer(info->n_ctx));
}

json_t *reply_event(const struct chat *c, const struct chat_event *ev, int64_t start_ns, int exit)
{
    static const char *const types[] = {
        [CHAT_LOADING] = "load", [CHAT_READY] = "ready", [CHAT_PREFILL] = "prefill", [CHAT_REASONING] = "reasoning",
        [CHAT_TEXT] = "text", [CHAT_CALL] = "tool_call", [CHAT_APPROVE] = "approve", [CHAT_TOOL_RESULT] = "tool_result",
        [CHAT_NOTE] = "note", [CHAT_DONE] = "end",
    };
    json_t *j = event(types[ev->kind], start_ns);
    switch (ev->kind) {
    case CHAT_LOADING:
    case CHAT_PREFILL:
        json_object_set_new(j, "done", json_integer((json_int_t)ev->done));
        json_object_set_new(j, "total", json_integer((json_int_t)ev->total));
        if (ev->kind == CHAT_PREFILL)
            json_object_set_new(j, "cached", json_integer((json_int_t)ev->cached));
        break;
    case CHAT_READY:
        add_model(j, chat_info(c));
        break;
    case CHAT_CALL:
    case CHAT_APPROVE:
        json_object_set_new(j, "name", json_text(ev->name, strlen(ev->name)));
        json_object_set_new(j, "arguments", json_of_arguments(ev->text, ev->n));
        if (ev->truncated)
            json_object_set_new(j, "truncated", json_true());
        break;
    case CHAT_TOOL_RESULT:
        json_object_set_new(j, "name", json_text(ev->name, strlen(ev->name)));
        json_object_set_new(j, "text", json_text(ev->text, ev->n));
        if (ev->denied)
            json_object_set_new(j, "denied", json_true());
        break;
    case CHAT_DONE:
        add_figures(j, c, ev);
        json_object_set_new(j, "exit", json_integer(exit));
        break;
    default:
        json_object_set_new(j, "text", json_text(ev->text, ev->n));
        break;
    }
    return j;
}

/* --- code --------------------------------------------------------------------------------------------------------- */

bool code_blocks(const struct buf *answer, struct buf *out)
{
    struct markdown *m = markdown_open();
    markdown_width(m, 80, 80);
    markdown_push(m, buf_str(answer), answer->len);
    markdown_end(m);
    int n = markdown_n_blocks(m);
    for (int i = 0; i < n; i++) {
        struct buf text = {0}, language = {0};
        markdown_block(m, i, &text, &language);
        buf_adds(out, i ? "\n" : "");
        buf_add(out, buf_str(&text), text.len);
        if (text.len && text.data[text.len - 1] != '\n')
            buf_addc(out, '\n');
        buf_free(&text);
        buf_free(&language);
    }
    markdown_close(m);
    return n > 0;
}
