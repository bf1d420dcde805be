#include "ui/reply.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/err.h"
#include "chat/forms.h"
#include "ui/prompt.h"
#include "ui/tui/markdown.h"

void reply_init(struct reply *a)
{
    a->calls = json_array();
    CHECK(a->calls);
}

void reply_reset(struct reply *a)
{
    buf_reset(&a->reasoning);
    buf_reset(&a->text);
    json_array_clear(a->calls);
    a->n_results = 0;
    a->new_reasoning = a->new_text = a->denied = a->timed_out = false;
    a->status = -1;
}

void reply_free(struct reply *a)
{
    buf_free(&a->reasoning);
    buf_free(&a->text);
    json_decref(a->calls);
}

/* --- output ------------------------------------------------------------------------------------------------------ */

void reply_write(struct reply *a, const char *text, size_t n)
{
    if ((fwrite(text, 1, n, stdout) != n || fflush(stdout)) && a->status < 0) {
        fprintf(stderr, "q35chat: cannot write the answer: %s\n", strerror(errno));
        a->status = EXIT_FAILED;
    }
}

/* Prints a sentence on stderr. */
static void reply_say(const struct reply *a, const char *text)
{
    struct buf line = {0};
    buf_addf(&line, "%s%s", a->about, text);
    process_say(line.data);
    buf_free(&line);
}

/* --- the reply --------------------------------------------------------------------------------------------------- */

static json_t *json_of_arguments(const char *text, size_t n)
{
    json_t *j = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    return j ? j : json_text(text, n);
}

/* Adds the text of an event, with the same empty line between two parts as in plain output. */
static void add_text(struct buf *b, const struct chat_event *ev, bool *new_part)
{
    if (*new_part && b->len)
        buf_adds(b, "\n\n");
    *new_part = false;
    buf_add(b, ev->text, ev->n);
}

/* Collects reasoning, text and calls of an answer. */
static void collect(struct reply *a, const struct chat_event *ev)
{
    json_t *call;
    switch (ev->kind) {
    case CHAT_REASONING:
        add_text(&a->reasoning, ev, &a->new_reasoning);
        break;
    case CHAT_TEXT:
        add_text(&a->text, ev, &a->new_text);
        break;
    case CHAT_CALL:
        call = json_object();
        json_object_set_new(call, "name", json_text(ev->name, strlen(ev->name)));
        json_object_set_new(call, "arguments", json_of_arguments(ev->text, ev->n));
        if (ev->truncated)
            json_object_set_new(call, "truncated", json_true());
        json_array_append_new(a->calls, call);
        a->new_reasoning = a->new_text = true;
        break;
    case CHAT_TOOL_RESULT:
        call = json_array_get(a->calls, (size_t)a->n_results++);
        json_object_set_new(call, "result", json_text(ev->text, ev->n));
        if (ev->denied)
            json_object_set_new(call, "denied", json_true());
        a->denied |= ev->denied;
        break;
    default:
        break;
    }
}

/* Returns what the options want an answer to be. */
static const char *form_words(const struct options *o)
{
    const char *name = forms_name(o);
    return !name || !strcmp(name, "schema") ? "what the schema wants" : !strcmp(name, "pattern") ? "what the pattern wants" : "one of the choices";
}

/* Says why the answer is not what was asked for: it failed, was cut, is empty. */
static void complain(const struct reply *a, const struct chat_event *done)
{
    struct buf out = {0};
    const bool empty = prompt_is_blank(&a->text), wanted = !(a->reasoning_only && a->reasoning.len && !end_failed(done->end));
    if (a->timed_out)
        buf_adds(&out, "--timeout was reached");
    else if (done->end >= END_TOOL_ROUNDS)
        buf_adds(&out, done->text);
    else if (done->unformed)
        buf_addf(&out, "the answer is not %s: %s", form_words(a->o), done->unformed);
    else if (done->end == END_LENGTH)
        buf_adds(&out, empty ? "the answer is empty: max_tokens was reached before it began" : "the answer was cut off: max_tokens is reached");
    else if (done->end == END_CONTEXT)
        buf_adds(&out, empty ? "the answer is empty: the context was full before it began" : "the answer was cut off: the context is full");
    else if (done->end == END_LOOP)
        buf_addf(&out, "the answer was cut off: %s; --no-loop-guard allows it", done->text);
    else if (done->end != END_INTERRUPTED && empty)
        buf_adds(&out, "the answer is empty: the model said nothing");
    if (a->denied && !a->timed_out)
        buf_addf(&out, "%sa tool call was not allowed; --tools-approve NAME allows it", out.len ? "; " : "");
    if (out.len && (wanted || a->timed_out))
        reply_say(a, out.data);
    buf_free(&out);
}

/* --- a turn ------------------------------------------------------------------------------------------------------ */

bool reply_attach_files(struct reply *a, struct err *e)
{
    int n;
    const char *const *files = options_list(a->o, OPT_file, &n);
    for (int i = 0; i < n; i++)
        if (!chat_attach(a->chat, files[i], e))
            return false;
    return true;
}

void reply_fail(struct reply *a, const char *why, int status)
{
    a->form->failed(a, why, status);
    reply_say(a, why);
    a->status = status;
}

/* Ends an answer: saves it, writes it in its form, reports what is wrong with it, and sets the exit status. */
static void finish(struct reply *a, const struct chat_event *ev)
{
    const struct stats *s = &ev->stats;
    struct err unsaved = {0};
    /* --strict makes failures of a cut or empty answer and of a call that was not allowed; a cut answer never has the form that was asked for. */
    const bool strict = a->strict || forms_name(a->o);
    bool cut = ev->end == END_LENGTH || ev->end == END_CONTEXT || ev->end == END_LOOP || prompt_is_blank(&a->text);
    int status = ev->end == END_TOO_LONG ? EXIT_TOO_LONG
               : end_failed(ev->end) || ev->end == END_TOOL_ROUNDS ? EXIT_FAILED
               : ev->end == END_INTERRUPTED ? (a->timed_out ? EXIT_TIMEOUT : EXIT_SIGNAL + interrupt_signal())
               : a->strict && a->denied ? EXIT_DENIED
               : strict && cut ? EXIT_CUT : ev->unformed ? EXIT_FAILED : EXIT_ANSWERED;
    a->lacks = NULL;
    if (a->keeps && !chat_keep(a->chat, &unsaved) && status == EXIT_ANSWERED)
        status = EXIT_FAILED;           /* the answer is there, but not where it was to be kept */
    a->form->done(a, ev, status);
    complain(a, ev);
    if (*unsaved.msg)
        reply_say(a, unsaved.msg);
    if (a->lacks && status == EXIT_ANSWERED) {
        reply_say(a, a->lacks);
        status = EXIT_FAILED;
    }
    if (a->verbose)
        fprintf(stderr, "q35chat: %d tokens, %.1f tok/s, prompt %d (%d cached), context %d of %d, seed %llu, %.1f s\n", s->n_tokens, stats_tok_s(s),
                s->n_prompt, s->n_cached, s->ctx_used, s->ctx_total, (unsigned long long)s->seed, s->wall_ms / 1000);
    if (a->status < 0)
        a->status = status;
}

/* With --verbose says how memory was planned, which tools are called, and the notes of the program. */
static void comment(struct reply *a, const struct chat_event *ev)
{
    struct buf line = {0};
    const struct model_info *info = chat_info(a->chat);
    if (ev->kind == CHAT_READY && info && *info->memory)
        buf_addf(&line, "memory planned: %s", info->memory);
    else if (ev->kind == CHAT_CALL)
        buf_addf(&line, "calls %s", ev->name);
    else if (ev->kind == CHAT_NOTE)
        buf_adds(&line, ev->text);
    if (ev->kind == CHAT_CALL || ev->kind == CHAT_NOTE || line.len)
        waiting_clear(&a->waiting);
    if (a->verbose && line.len)
        reply_say(a, line.data);
    buf_free(&line);
}

void reply_run(struct reply *a)
{
    enum { KILL_MS = 3000 };            /* for a tool that does not end when it should */
    while (a->status < 0) {
        int n;
        chat_wait(a->chat, interrupt_fd(), a->timed_out ? KILL_MS : prompt_ms_left(a->deadline_ns));
        if (interrupt_taken()) {
            a->stopped = true;
            chat_interrupt(a->chat);
        }
        if (a->deadline_ns && !prompt_ms_left(a->deadline_ns)) {
            a->timed_out = true;
            chat_interrupt(a->chat);
        }
        const struct chat_event *ev = chat_drain(a->chat, &n);
        for (int i = 0; i < n && a->status < 0; i++) {
            bool within = a->form->event && a->form->event(a, &ev[i]);
            waiting_event(&a->waiting, &ev[i], !within);
            collect(a, &ev[i]);
            comment(a, &ev[i]);
            if (ev[i].kind == CHAT_DONE || ev[i].kind == CHAT_FATAL)
                waiting_clear(&a->waiting);
            if (ev[i].kind == CHAT_DONE)
                finish(a, &ev[i]);
            if (ev[i].kind == CHAT_FATAL)
                reply_fail(a, ev[i].text, EXIT_MODEL);
        }
    }
}

/* --- one object -------------------------------------------------------------------------------------------------- */

/* Adds end, figures, model and version to the object of an answer. */
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

/* Adds the pictures that the model sees, if there are any. */
static void add_pictures(json_t *j, struct chat *c)
{
    json_t *list = json_array();
    for (int i = 0; i < chat_n_messages(c); i++)
        for (int k = 0; k < chat_n_files(c, i); k++) {
            const struct chat_file f = chat_file(c, i, k);
            json_t *picture = NULL;
            if (f.w)
                picture = json_pack("{s:o, s:i, s:i, s:i}", "path", json_text_of(f.path), "width", f.w, "height", f.h, "tokens", f.tokens);
            if (picture && f.estimated)
                json_object_set_new(picture, "estimated", json_true());
            if (picture)
                json_array_append_new(list, picture);
        }
    if (json_array_size(list))
        json_object_set(j, "pictures", list);
    json_decref(list);
}

void reply_add_parsed(const struct reply *a, const struct chat_event *done, struct buf *object)
{
    const char *form = forms_name(a->o);
    if (!done->formed || !form || strcmp(form, "schema"))
        return;
    struct buf value = {0};
    const struct text json = text_trim(text_of(done->formed));
    buf_add(&value, json.p, json.n);
    for (size_t i = 0; i < value.len; i++)
        if (strchr("\n\r\t", value.data[i]))           /* between two tokens: within a string they are escaped */
            value.data[i] = ' ';
    object->len--;
    buf_adds(object, ",\"parsed\":");
    json_escape(object, value.data, value.len);
    buf_addc(object, '}');
    buf_free(&value);
}

json_t *reply_object(struct reply *a, const struct chat_event *done)
{
    json_t *j = json_object();
    json_object_set_new(j, "answer", json_text(buf_str(&a->text), a->text.len));
    json_object_set_new(j, "reasoning", json_text(buf_str(&a->reasoning), a->reasoning.len));
    json_object_set_new(j, "tool_calls", json_deep_copy(a->calls));
    if (done->unformed)
        json_object_set_new(j, "invalid", json_text_of(done->unformed));
    add_pictures(j, a->chat);
    add_figures(j, a->chat, done);
    return j;
}

/* Prints an object as a line, and frees it.  done: it ends the answer, and has what was parsed of it; NULL: it does not. */
static void put_json(struct reply *a, json_t *j, const struct chat_event *done)
{
    struct buf text = {0};
    json_print(&text, j, JSON_COMPACT | JSON_REAL_PRECISION(10));
    if (done)
        reply_add_parsed(a, done, &text);
    json_decref(j);
    buf_addc(&text, '\n');
    reply_write(a, text.data, text.len);
    buf_free(&text);
}

/* Prints the answer as one JSON object. */
static void json_done(struct reply *a, const struct chat_event *ev, int status)
{
    (void)status;
    put_json(a, reply_object(a, ev), ev);
}

static void json_failed(struct reply *a, const char *why, int status)
{
    (void)status;
    put_json(a, json_pack("{s:s, s:s, s:o}", "finish", "error", "version", Q35_VERSION, "error", json_text_of(why)), NULL);
}

const struct reply_form reply_json = {.done = json_done, .failed = json_failed};

/* --- an object for each event ------------------------------------------------------------------------------------ */

enum { EVENTS_VERSION = 1 };            /* grows when a reader of the events would have to change */

static json_t *event(const struct reply *a, const char *type)
{
    return json_pack("{s:s, s:i, s:f}", "type", type, "v", EVENTS_VERSION, "t", clock_ms_since(a->start_ns) / 1000);
}

/* Prints the first line of --jsonl. */
static void jsonl_begin(struct reply *a)
{
    json_t *j = event(a, "start");
    json_object_set_new(j, "version", json_string(Q35_VERSION));
    json_object_set_new(j, "model_dir", json_text_of(a->chat ? chat_model_dir(a->chat) : options_text(a->o, OPT_model)));
    if (options_given(a->o, OPT_seed))
        json_object_set_new(j, "seed", json_integer((json_int_t)options_seed(a->o)));
    if (a->chat && chat_saved_as(a->chat))
        json_object_set_new(j, "session", json_text_of(chat_saved_as(a->chat)));
    put_json(a, j, NULL);
}

/* Prints an event as a line of JSON. False: the cursor is never within text, since lines are complete. */
static bool jsonl_event(struct reply *a, const struct chat_event *ev)
{
    static const char *const types[] = {
        [CHAT_LOADING] = "load", [CHAT_READY] = "ready", [CHAT_PREFILL] = "prefill", [CHAT_REASONING] = "reasoning",
        [CHAT_TEXT] = "text", [CHAT_CALL] = "tool_call", [CHAT_APPROVE] = "approve", [CHAT_TOOL_RESULT] = "tool_result",
        [CHAT_NOTE] = "note",
    };
    const struct model_info *info = chat_info(a->chat);
    if (ev->kind == CHAT_RUNS || ev->kind == CHAT_TOOL_OUTPUT || ev->kind == CHAT_DONE || ev->kind == CHAT_FATAL)
        return false;                   /* a result has the output of a tool */
    json_t *j = event(a, types[ev->kind]);
    switch (ev->kind) {
    case CHAT_LOADING:
    case CHAT_PREFILL:
        json_object_set_new(j, "done", json_integer((json_int_t)ev->done));
        json_object_set_new(j, "total", json_integer((json_int_t)ev->total));
        if (ev->kind == CHAT_PREFILL)
            json_object_set_new(j, "cached", json_integer((json_int_t)ev->cached));
        break;
    case CHAT_READY:
        json_object_set_new(j, "model", json_string(info->model));
        json_object_set_new(j, "backend", json_string(info->backend));
        json_object_set_new(j, "context", json_integer(info->n_ctx));
        break;
    case CHAT_CALL:
    case CHAT_APPROVE:
        json_object_set_new(j, "name", json_text_of(ev->name));
        json_object_set_new(j, "arguments", json_of_arguments(ev->text, ev->n));
        if (ev->truncated)
            json_object_set_new(j, "truncated", json_true());
        break;
    case CHAT_TOOL_RESULT:
        json_object_set_new(j, "name", json_text_of(ev->name));
        json_object_set_new(j, "text", json_text(ev->text, ev->n));
        if (ev->denied)
            json_object_set_new(j, "denied", json_true());
        break;
    default:
        json_object_set_new(j, "text", json_text(ev->text, ev->n));
        break;
    }
    put_json(a, j, NULL);
    return false;
}

static void put_error(struct reply *a, const char *why, int status)
{
    json_t *j = event(a, "error");
    json_object_set_new(j, "code", json_integer(status));
    json_object_set_new(j, "message", json_text_of(why));
    put_json(a, j, NULL);
}

/* Prints the last line of --jsonl, after the error if the answer failed. */
static void jsonl_done(struct reply *a, const struct chat_event *ev, int status)
{
    if (end_failed(ev->end))
        put_error(a, ev->text, status);
    json_t *j = event(a, "end");
    add_figures(j, a->chat, ev);
    if (ev->unformed)
        json_object_set_new(j, "invalid", json_text_of(ev->unformed));
    json_object_set_new(j, "exit", json_integer(status));
    put_json(a, j, ev);
}

static void jsonl_failed(struct reply *a, const char *why, int status)
{
    put_error(a, why, status);
    json_t *j = event(a, "end");
    json_object_set_new(j, "finish", json_string(end_word(END_FAILED)));
    json_object_set_new(j, "error", json_text_of(why));
    json_object_set_new(j, "exit", json_integer(status));
    put_json(a, j, NULL);
}

const struct reply_form reply_jsonl = {.begin = jsonl_begin, .event = jsonl_event, .done = jsonl_done, .failed = jsonl_failed};

/* --- code -------------------------------------------------------------------------------------------------------- */

bool reply_code(const struct reply *a, struct buf *out)
{
    struct markdown *m = markdown_open();
    markdown_width(m, 80, 80);
    markdown_push(m, buf_str(&a->text), a->text.len);
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
