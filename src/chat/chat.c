#include "chat/chat.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/unicode.h"
#include "chat/answer.h"
#include "chat/loader.h"
#include "chat/outbox.h"
#include "chat/preset.h"
#include "chat/prompt.h"
#include "chat/session.h"
#include "chat/tool.h"
#include "chat/transcript.h"
#include "engine/engine.h"

enum state {
    IDLE,
    WAITING,            /* a request, for the model to be there */
    ANSWERING,          /* the engine has a request */
    ASKING,             /* chat_approve() decides about calls[next_call] */
    RUNNING,            /* a tool runs calls[next_call] */
    DEAD,               /* the engine is gone */
};

struct chat {
    struct options   *o;
    struct chat_front front;
    struct buf        dir, notice;
    struct engine    *engine;
    struct tokenizer *tok;
    struct loader     loader;
    struct chat_info  info;
    bool              ready;            /* engine and tokenizer both */
    struct tools     *tools;
    struct buf        always;           /* tools that were allowed for good, with commas */
    struct transcript t;
    struct session   *session;
    bool              keep;             /* a session is made for the first message */
    struct outbox     out;

    enum state    state;
    struct prompt prompt;
    struct answer answer;
    const char  **stops;                /* copied: /set may change the list in the middle */
    uint32_t      serial;
    size_t        shown_reasoning, shown_content;       /* bytes of the answer already posted */
    int           shown_calls;
    bool          thinking, interrupted;
    int           turn_start;           /* entry of the user's message */
    int           next_call;
    struct tool_run *run;
    int           variant;              /* how often this turn was generated before */
    int64_t       start_ns;
    double        after_first;          /* tokens after the first one of each request */
    struct chat_stats stats;
};

const char *chat_end_name(enum chat_end end)
{
    static const char *const names[] = {"stop", "stop_text", "length", "context", "interrupted", "tool_rounds", "error"};
    return names[end];
}

static void post_text(struct chat *c, enum chat_event_kind kind, const char *name, const char *text)
{
    outbox_post(&c->out, kind, name, text, strlen(text));
}

/* --- keeping on disk -------------------------------------------------------------------------------------------- */

/* A disk that fails must not end the talk: said once, and no more is written. */
static void kept(struct chat *c, bool ok, const struct err *e)
{
    if (ok)
        return;
    struct buf note = {0};
    buf_addf(&note, "this conversation is no longer kept: %s", e->msg);
    post_text(c, CHAT_NOTE, NULL, note.data);
    buf_free(&note);
    session_close(c->session);
    c->session = NULL;
    c->keep = false;
}

static void keep_entry(struct chat *c, const struct entry *m)
{
    struct err e = {0};
    if (c->keep && !c->session) {
        c->session = session_create(NULL, c->dir.data, &e);
        bool ok = c->session && (!c->t.system || session_system(c->session, c->t.system, &e));
        kept(c, ok, &e);
    }
    if (c->session)
        kept(c, session_append(c->session, m, &e), &e);
}

static void cut(struct chat *c, int n)
{
    struct err e = {0};
    if (n == c->t.n)
        return;
    transcript_cut(&c->t, n);
    if (c->session)
        kept(c, session_keep(c->session, n, &e), &e);
}

/* The option `system` is the truth; the transcript follows it when a request is made. */
static void follow_system(struct chat *c)
{
    const char *wanted = options_text(c->o, OPT_system), *have = c->t.system ? c->t.system : "";
    struct err e = {0};
    if (!strcmp(wanted, have))
        return;
    transcript_system(&c->t, wanted);
    if (c->session)
        kept(c, session_system(c->session, wanted, &e), &e);
}

/* --- a turn ends ------------------------------------------------------------------------------------------------ */

static void finish(struct chat *c, enum chat_end end, const char *why)
{
    struct chat_stats *s = &c->stats;
    int drafted = 0, accepted = 0;
    for (int i = 0; i < CHAT_MAX_DEPTH; i++) {
        drafted += s->drafted[i];
        accepted += s->accepted[i];
    }
    s->wall_ms = clock_ms_since(c->start_ns);
    s->tok_s = s->decode_ms > 0 ? c->after_first * 1000 / s->decode_ms : 0;
    s->acceptance = drafted ? (double)accepted / drafted : -1;
    c->state = IDLE;
    prompt_forget(&c->prompt);

    struct chat_event *ev = outbox_post(&c->out, CHAT_DONE, NULL, why, strlen(why));
    ev->end = end;
    ev->stats = *s;
    /* nothing came of it: as if it had not been said, so that the front end can give the message back to its editor */
    if ((end == CHAT_INTERRUPTED || end == CHAT_FAILED) && c->turn_start == c->t.n - 1) {
        ev->taken_back = arena_strdup(&c->out.lists[c->out.in].mem, c->t.entries[c->turn_start]->m.content.p);
        cut(c, c->turn_start);
    }
}

static void die(struct chat *c, const char *why)
{
    c->state = DEAD;
    post_text(c, CHAT_FATAL, NULL, why);
}

/* --- a request -------------------------------------------------------------------------------------------------- */

static void stop_ids(struct chat *c, struct sampling *s)
{
    const struct engine_info *info = engine_info(c->engine);
    const char *const names[] = {"<|im_end|>", "<|endoftext|>"};
    for (int i = 0; i < info->n_eos && s->n_stop < ENGINE_MAX_STOP; i++)
        s->stop[s->n_stop++] = info->eos[i];
    for (int i = 0; i < 2 && !info->n_eos; i++)
        if (tokenizer_special(c->tok, names[i]) >= 0)
            s->stop[s->n_stop++] = tokenizer_special(c->tok, names[i]);
}

static uint64_t random_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = (uint64_t)clock_ns();
    return seed >> 11;                  /* 53 bits: every JSON reader can hold it */
}

static void begin_answer(struct chat *c)
{
    int n_tools, n_stops;
    const struct text *tools = tools_schemas(c->tools, &n_tools);
    const char *const *stops = options_list(c->o, OPT_stop, &n_stops);
    c->stops = realloc(c->stops, ((size_t)n_stops + 1) * sizeof *c->stops);
    CHECK(c->stops);
    if (n_stops)
        memcpy(c->stops, stops, (size_t)n_stops * sizeof *stops);
    answer_begin(&c->answer, c->tok, tools, n_tools, c->thinking, c->stops, n_stops);
    c->shown_reasoning = c->shown_content = 0;
    c->shown_calls = 0;
}

/* Renders the conversation and hands it to the engine, or waits for that to be possible. */
static void request(struct chat *c)
{
    struct err e = {0};
    struct sampling s;
    int n_tools;
    if (!c->ready) {
        c->state = WAITING;
        return;
    }
    const struct text *tools = tools_schemas(c->tools, &n_tools);
    follow_system(c);
    if (!c->stats.n_rounds)
        c->thinking = options_on(c->o, OPT_think);      /* stays as it is within a turn */
    if (!prompt_make(&c->prompt, &c->t, tools, n_tools, c->thinking, c->tok, &e)) {
        finish(c, CHAT_FAILED, e.msg);
        return;
    }
    if (c->prompt.ids.n >= c->info.n_ctx) {
        err_set(&e, "the prompt has %d tokens, the context holds %d", c->prompt.ids.n, c->info.n_ctx);
        finish(c, CHAT_FAILED, e.msg);
        return;
    }
    preset_sampling(c->o, engine_info(c->engine), &s);
    if (!c->stats.n_rounds)
        c->stats.seed = options_given(c->o, OPT_seed) ? s.seed + (uint64_t)c->variant : random_seed();
    s.seed = c->stats.seed + (uint64_t)c->stats.n_rounds;
    stop_ids(c, &s);
    begin_answer(c);
    c->stats.n_rounds++;
    c->state = ANSWERING;
    c->serial = engine_submit(c->engine, c->prompt.ids.data, c->prompt.ids.n, c->prompt.keep_at, &s);
}

static void begin_turn(struct chat *c)
{
    c->stats = (struct chat_stats){.ctx_total = c->info.n_ctx, .acceptance = -1};
    c->turn_start = transcript_last_user(&c->t);
    c->interrupted = false;
    c->after_first = 0;
    c->start_ns = clock_ns();
    prompt_forget(&c->prompt);
    request(c);
}

/* --- calls ------------------------------------------------------------------------------------------------------ */

static void request_after_calls(struct chat *c)
{
    if (c->interrupted)
        finish(c, CHAT_INTERRUPTED, "");
    else if (c->stats.n_rounds > options_int(c->o, OPT_tool_rounds))
        finish(c, CHAT_TOOL_ROUNDS, "the limit of tool_rounds is reached");
    else
        request(c);
}

static void answer_call(struct chat *c, const char *text, size_t n)
{
    const char *name = c->answer.calls[c->next_call++].name;
    struct entry *m = transcript_add(&c->t, ROLE_TOOL, text, n);
    entry_tool(m, name);
    keep_entry(c, m);
    outbox_post(&c->out, CHAT_TOOL_RESULT, name, text, n);
}

static void refuse_call(struct chat *c, const char *why)
{
    answer_call(c, why, strlen(why));
}

static void unknown_call(struct chat *c, const char *name)
{
    struct buf why = {0};
    buf_addf(&why, "error: there is no tool %s; there are ", name);
    tools_names(c->tools, true, &why);
    answer_call(c, why.data, why.len);
    buf_free(&why);
}

static void start_call(struct chat *c, const struct tool *tool)
{
    const struct answer_call *call = &c->answer.calls[c->next_call];
    struct err e = {0};
    c->run = tool_start(tool, call->arguments.p, call->arguments.n, &e);
    if (c->run) {
        c->state = RUNNING;
        return;
    }
    char why[sizeof e.msg + 8];
    snprintf(why, sizeof why, "error: %s", e.msg);
    refuse_call(c, why);
}

static void finish_call(struct chat *c)
{
    struct buf result = {0};
    if (tool_step(c->run, &result)) {
        tool_close(c->run);
        c->run = NULL;
        c->state = ANSWERING;
        answer_call(c, buf_str(&result), result.len);
    }
    buf_free(&result);
}

/* Goes on with the calls until one has to be waited for, or all are answered. */
static void next_calls(struct chat *c)
{
    c->state = ANSWERING;
    while (c->state == ANSWERING && c->next_call < c->answer.n_calls) {
        const struct answer_call *call = &c->answer.calls[c->next_call];
        const struct tool *tool = tools_find(c->tools, call->name);
        if (c->interrupted) {
            refuse_call(c, "error: the user interrupted");
            continue;
        }
        if (!tool) {
            unknown_call(c, call->name);
            continue;
        }
        enum tool_approval may = tool_approval(tool, options_text(c->o, OPT_tools_approve));
        if (may == TOOL_ASK && tool_approval(tool, buf_str(&c->always)) == TOOL_RUN)
            may = TOOL_RUN;
        if (may == TOOL_ASK && c->front.can_ask) {
            outbox_post(&c->out, CHAT_APPROVE, call->name, call->arguments.p, call->arguments.n);
            c->state = ASKING;
        } else if (may == TOOL_RUN) {
            start_call(c, tool);
            if (c->run)
                finish_call(c);         /* a built-in has ended already */
        } else {
            refuse_call(c, "error: this call was not allowed; answer without it");
        }
    }
    if (c->state == ANSWERING)
        request_after_calls(c);
}

void chat_approve(struct chat *c, enum chat_answer answer)
{
    if (c->state != ASKING)
        return;
    const char *name = c->answer.calls[c->next_call].name;
    if (answer == CHAT_ALWAYS)
        buf_addf(&c->always, "%s,", name);
    if (answer == CHAT_NO)
        refuse_call(c, "error: the user did not allow this call");
    else
        start_call(c, tools_find(c->tools, name));
    if (!c->run)
        next_calls(c);
}

/* --- what comes from the engine --------------------------------------------------------------------------------- */

/* Posts what the answer has gained. */
static void show(struct chat *c)
{
    struct answer *a = &c->answer;
    if (a->reasoning.len > c->shown_reasoning)
        outbox_post(&c->out, CHAT_REASONING, NULL, a->reasoning.data + c->shown_reasoning, a->reasoning.len - c->shown_reasoning);
    if (a->content.len > c->shown_content)
        outbox_post(&c->out, CHAT_TEXT, NULL, a->content.data + c->shown_content, a->content.len - c->shown_content);
    c->shown_reasoning = a->reasoning.len;
    c->shown_content = a->content.len;
    for (; c->shown_calls < a->n_calls; c->shown_calls++) {
        const struct answer_call *call = &a->calls[c->shown_calls];
        outbox_post(&c->out, CHAT_CALL, call->name, call->arguments.p, call->arguments.n)->truncated = call->truncated;
    }
}

static void on_tokens(struct chat *c, const struct event *ev)
{
    const struct engine_info *info = engine_info(c->engine);
    bool hit_before = c->answer.stopper.hit;
    for (int i = 0; i < ev->n; i++) {
        bool is_stop = false;
        for (int k = 0; k < info->n_eos; k++)
            is_stop = is_stop || ev->ids[i] == info->eos[k];
        answer_push(&c->answer, ev->ids[i], is_stop);
    }
    show(c);
    if (c->answer.stopper.hit && !hit_before)
        engine_interrupt(c->engine, c->serial);
}

static void add_stats(struct chat *c, const struct turn_stats *t)
{
    struct chat_stats *s = &c->stats;
    s->n_prompt += t->n_prompt;
    s->n_cached += t->n_cached;
    s->n_tokens += t->n_tokens;
    s->n_steps += t->n_steps;
    s->prefill_ms += t->prefill_ms;
    s->decode_ms += t->decode_ms;
    for (int i = 0; i < CHAT_MAX_DEPTH && i < ENGINE_MAX_DEPTH; i++) {
        s->drafted[i] += t->drafted[i];
        s->accepted[i] += t->accepted[i];
    }
    c->after_first += t->n_tokens > 1 ? t->n_tokens - 1 : 0;
    s->ctx_used = t->n_prompt + t->n_tokens;
    s->ctx_total = c->info.n_ctx;
}

/* The answer becomes an entry, if there is anything of it. */
static void keep_answer(struct chat *c, bool whole)
{
    struct answer *a = &c->answer;
    if (!a->reasoning.len && !a->content.len && !a->n_calls && !whole)
        return;
    struct entry *m = transcript_add(&c->t, ROLE_ASSISTANT, buf_str(&a->content), a->content.len);
    entry_reasoning(m, buf_str(&a->reasoning), a->reasoning.len);
    for (int i = 0; i < a->n_calls && whole; i++)
        entry_call(m, a->calls[i].name, a->calls[i].arguments.p, a->calls[i].arguments.n);
    if (!a->stopper.hit)
        ids_append(&m->ids, a->ids.data, a->ids.n);
    m->stopped = !whole;
    keep_entry(c, m);
}

static void on_done(struct chat *c, const struct event *ev)
{
    static const enum chat_end ends[] = {
        [FINISH_STOP] = CHAT_ANSWERED, [FINISH_LENGTH] = CHAT_LENGTH, [FINISH_CONTEXT] = CHAT_CONTEXT,
        [FINISH_INTERRUPTED] = CHAT_INTERRUPTED, [FINISH_ERROR] = CHAT_FAILED,
    };
    struct answer *a = &c->answer;
    bool whole = ev->finish == FINISH_STOP || a->stopper.hit;
    c->serial = 0;
    add_stats(c, &ev->stats);
    answer_finish(a, ev->finish != FINISH_STOP);
    show(c);
    whole = whole || a->stopper.hit;            /* it may have stood in what was held back until now */
    bool calls = ev->finish == FINISH_STOP && a->n_calls > 0 && !a->stopper.hit;
    for (int i = 0; i < a->n_calls && calls; i++)
        calls = !a->calls[i].truncated;
    keep_answer(c, a->n_calls ? calls : whole);
    if (calls) {
        prompt_answered(&c->prompt, &a->ids, c->tok);
        c->next_call = 0;
        next_calls(c);
    } else if (a->stopper.hit) {
        finish(c, CHAT_STOP_TEXT, "");
    } else if (ev->finish == FINISH_STOP && a->n_calls) {
        finish(c, CHAT_FAILED, "the model broke off in the middle of a tool call");
    } else {
        finish(c, ends[ev->finish], ev->finish == FINISH_ERROR ? ev->message : "");
    }
}

static void become_ready(struct chat *c)
{
    const struct engine_info *info = engine_info(c->engine);
    if (c->ready || !info || !c->tok || c->state == DEAD)
        return;
    snprintf(c->info.model, sizeof c->info.model, "%s", info->model);
    snprintf(c->info.backend, sizeof c->info.backend, "%s", info->backend);
    snprintf(c->info.formats, sizeof c->info.formats, "%s", info->formats);
    c->info.n_ctx = info->n_ctx;
    c->info.draft_depth = info->draft_depth;
    c->info.n_threads = info->n_threads;
    c->info.load_ms = info->load_ms;
    c->ready = true;
    c->stats.ctx_total = info->n_ctx;
    post_text(c, CHAT_READY, NULL, "");
    if (c->state == WAITING)
        request(c);
}

static void on_event(struct chat *c, const struct event *ev)
{
    struct chat_event *out;
    bool ours = c->serial && ev->serial == c->serial;
    switch (ev->kind) {
    case EV_LOADING:
        out = outbox_post(&c->out, CHAT_LOADING, NULL, NULL, 0);
        out->done = ev->done;
        out->total = ev->total;
        break;
    case EV_READY:
        become_ready(c);
        break;
    case EV_PREFILL:
        if (!ours)
            break;
        out = outbox_post(&c->out, CHAT_PREFILL, NULL, NULL, 0);
        out->done = ev->done;
        out->total = ev->total;
        out->cached = ev->cached;
        break;
    case EV_TOKENS:
        if (ours)
            on_tokens(c, ev);
        break;
    case EV_DONE:
        if (ours)
            on_done(c, ev);
        break;
    case EV_FATAL:
        if (c->state == ANSWERING && c->serial) {       /* what was said so far stays */
            answer_finish(&c->answer, true);
            show(c);
            keep_answer(c, false);
        }
        die(c, ev->message);
        break;
    }
}

static void check_loader(struct chat *c)
{
    struct err e = {0};
    if (!loader_take(&c->loader, &c->tok, &e))
        return;
    if (!c->tok)
        die(c, e.msg);
    else if (tokenizer_notice(c->tok))
        post_text(c, CHAT_NOTE, NULL, tokenizer_notice(c->tok));
    become_ready(c);
}

const struct chat_event *chat_drain(struct chat *c, int *n)
{
    check_loader(c);
    struct event_list l = engine_drain(c->engine);
    for (int i = 0; i < l.n; i++)
        if (c->state != DEAD)
            on_event(c, &l.events[i]);
    if (c->state == RUNNING) {
        finish_call(c);
        if (c->state == ANSWERING)
            next_calls(c);
    }
    return outbox_take(&c->out, n);
}

int chat_fds(const struct chat *c, struct pollfd fds[CHAT_MAX_FDS])
{
    int n = 0;
    if (c->state != DEAD)
        fds[n++] = (struct pollfd){.fd = engine_fd(c->engine), .events = POLLIN};
    if (c->loader.running)
        fds[n++] = (struct pollfd){.fd = c->loader.fd, .events = POLLIN};
    if (c->run && tool_fd(c->run) >= 0)
        fds[n++] = (struct pollfd){.fd = tool_fd(c->run), .events = POLLIN};
    return n;
}

int chat_timeout(const struct chat *c)
{
    return outbox_waiting(&c->out) ? 0 : c->run ? TOOL_TICK_MS : -1;
}

void chat_wait(const struct chat *c, int fd, int timeout_ms)
{
    struct pollfd fds[CHAT_MAX_FDS + 1];
    int n = chat_fds(c, fds), own = chat_timeout(c);
    if (fd >= 0)
        fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
    if (timeout_ms < 0 || (own >= 0 && own < timeout_ms))
        timeout_ms = own;
    poll(fds, (nfds_t)n, timeout_ms);   /* an interrupted sleep is as good as one that ended */
}

/* --- what the user wants ---------------------------------------------------------------------------------------- */

bool chat_busy(const struct chat *c)
{
    return c->state != IDLE && c->state != DEAD;
}

bool chat_ready(const struct chat *c)
{
    return c->ready;
}

static bool usable(const struct chat *c, struct err *e)
{
    if (c->state == DEAD)
        return err_set(e, "the model has ended; only saving is left");
    return c->state == IDLE || err_set(e, "the last message is still being answered");
}

bool chat_submit(struct chat *c, const char *text, size_t n, struct err *e)
{
    struct buf clean = {0};
    if (!usable(c, e))
        return false;
    unicode_replace(&clean, text, n);
    follow_system(c);
    keep_entry(c, transcript_add(&c->t, ROLE_USER, buf_str(&clean), clean.len));
    buf_free(&clean);
    c->variant = 0;
    begin_turn(c);
    return true;
}

bool chat_regenerate(struct chat *c, struct err *e)
{
    if (!usable(c, e))
        return false;
    int last = transcript_last_user(&c->t);
    if (last < 0)
        return err_set(e, "there is no message to answer yet");
    cut(c, last + 1);
    c->variant++;
    begin_turn(c);
    return true;
}

void chat_interrupt(struct chat *c)
{
    if (!chat_busy(c) || c->interrupted)
        return;
    c->interrupted = true;
    switch (c->state) {
    case WAITING:
        finish(c, CHAT_INTERRUPTED, "");
        break;
    case ANSWERING:
        engine_interrupt(c->engine, c->serial);
        break;
    case RUNNING:
        tool_close(c->run);
        c->run = NULL;
        next_calls(c);
        break;
    case ASKING:
        next_calls(c);
        break;
    default:
        break;
    }
}

bool chat_new(struct chat *c, struct err *e)
{
    if (c->state != DEAD && !usable(c, e))
        return false;
    transcript_cut(&c->t, 0);
    session_close(c->session);
    c->session = NULL;
    c->stats = (struct chat_stats){.ctx_total = c->info.n_ctx, .acceptance = -1};
    return true;
}

bool chat_undo(struct chat *c, struct buf *taken_back, struct err *e)
{
    if (!usable(c, e))
        return false;
    int last = transcript_last_user(&c->t);
    if (last < 0)
        return err_set(e, "there is nothing to take back");
    buf_add(taken_back, c->t.entries[last]->m.content.p, c->t.entries[last]->m.content.n);
    cut(c, last);
    return true;
}

bool chat_offer_tools(struct chat *c, const char *list, struct err *e)
{
    if (c->state != DEAD && !usable(c, e))
        return false;
    return tools_offer(c->tools, list, e);
}

void chat_list_tools(const struct chat *c, struct buf *out)
{
    tools_list(c->tools, out);
}

bool chat_save(struct chat *c, const char *name, struct err *e)
{
    struct session *s = session_create(name, c->dir.data, e);
    bool ok = s && (!c->t.system || session_system(s, c->t.system, e));
    for (int i = 0; i < c->t.n && ok; i++)
        ok = session_append(s, c->t.entries[i], e);
    if (!ok) {
        session_close(s);
        return false;
    }
    session_close(c->session);
    c->session = s;
    return true;
}

bool chat_load(struct chat *c, const char *name, struct buf *note, struct err *e)
{
    struct transcript t = {0};
    if (c->state != DEAD && !usable(c, e))
        return false;
    struct buf path = {0};
    bool same = c->session && session_path_of(name, &path, NULL) && !strcmp(path.data, session_path(c->session));
    buf_free(&path);
    if (same)
        return err_set(e, "this conversation is the one that is open");
    struct session *s = session_open(name, &t, note, e);
    if (!s || !options_set(c->o, OPT_system, t.system ? t.system : "", FROM_SET, e)) {
        session_close(s);
        transcript_free(&t);
        return false;
    }
    transcript_free(&c->t);
    session_close(c->session);
    c->t = t;
    c->session = s;
    return true;
}

/* --- open and close --------------------------------------------------------------------------------------------- */

static void read_notice(struct chat *c)
{
    struct buf path = {0}, text = {0};
    buf_addf(&path, "%s/notice.txt", c->dir.data);
    if (buf_read_file(&text, path.data, 4096, NULL))
        unicode_replace(&c->notice, buf_str(&text), strcspn(buf_str(&text), "\n"));
    buf_free(&path);
    buf_free(&text);
}

static const char *given(const struct options *o, enum option_id id)
{
    return *options_text(o, id) ? options_text(o, id) : NULL;
}

struct chat *chat_open(struct options *o, const struct chat_front *front, struct err *e)
{
    struct chat *c = calloc(1, sizeof *c);
    CHECK(c);
    c->o = o;
    c->front = *front;
    c->keep = front->keeps && options_on(o, OPT_save);
    c->tools = tools_open(o, e);
    const char *list = options_text(o, OPT_tools);
    if (!c->tools || !tools_offer(c->tools, strcmp(list, "auto") ? list : front->tools, e) || !options_model_dir(o, &c->dir, e)) {
        chat_close(c);
        return NULL;
    }
    struct engine_options eo = {
        .model_dir = c->dir.data,
        .backend = given(o, OPT_backend),
        .kv = given(o, OPT_kv),
        .head = given(o, OPT_head),
        .n_threads = options_int(o, OPT_threads),
        .n_ctx = options_int(o, OPT_ctx),
        .chunk = options_int(o, OPT_chunk),
        .draft_depth = options_int(o, OPT_draft),
        .n_snapshots = options_int(o, OPT_snapshots),
    };
    c->engine = engine_open(&eo, e);
    if (!c->engine) {
        chat_close(c);
        return NULL;
    }
    loader_start(&c->loader, c->dir.data);
    read_notice(c);
    return c;
}

void chat_close(struct chat *c)
{
    if (!c)
        return;
    tool_close(c->run);
    if (c->engine)
        engine_close(c->engine);
    loader_stop(&c->loader);
    tokenizer_close(c->tok);
    session_close(c->session);
    transcript_free(&c->t);
    answer_free(&c->answer);
    prompt_free(&c->prompt);
    tools_close(c->tools);
    outbox_free(&c->out);
    buf_free(&c->dir);
    buf_free(&c->notice);
    buf_free(&c->always);
    free(c->stops);
    free(c);
}

const struct chat_info *chat_info(const struct chat *c)
{
    return c->ready ? &c->info : NULL;
}

const char *chat_model_dir(const struct chat *c)
{
    return c->dir.data;
}

const char *chat_notice(const struct chat *c)
{
    return c->notice.len ? c->notice.data : NULL;
}

const char *chat_saved_as(const struct chat *c)
{
    return c->session ? session_path(c->session) : NULL;
}

int chat_n_messages(const struct chat *c)
{
    return c->t.n;
}

const struct chat_stats *chat_last_stats(const struct chat *c)
{
    return &c->stats;
}

struct chat_message chat_message(const struct chat *c, int i)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool", "other"};
    const struct entry *m = c->t.entries[i];
    return (struct chat_message){
        .role = roles[m->m.role],
        .text = m->m.content.p ? m->m.content.p : "",
        .reasoning = m->m.reasoning.p ? m->m.reasoning.p : "",
        .name = m->tool.p ? m->tool.p : "",
        .stopped = m->stopped,
    };
}
