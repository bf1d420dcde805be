#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "chat/preset.h"
#include "chat/state.h"

void round_post(struct chat *c, enum chat_event_kind kind, const char *text)
{
    outbox_post(&c->out, kind, NULL, text, strlen(text));
}

/* --- a turn ends ------------------------------------------------------------------------------------------------ */

void round_finish(struct chat *c, enum chat_end end, const char *why)
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

    /* nothing came of it: as if it had not been said, so that the front end can give the message back to its editor */
    bool nothing = (end == CHAT_INTERRUPTED || end == CHAT_FAILED) && c->turn_start == c->t.n - 1;
    const char *taken_back = nothing ? tree_take_back(c) : NULL;
    keep_retry(c);
    struct chat_event *ev = outbox_post(&c->out, CHAT_DONE, NULL, why, strlen(why));
    ev->end = end;
    ev->stats = *s;
    ev->taken_back = taken_back;
}

void round_die(struct chat *c, const char *why)
{
    c->state = DEAD;
    round_post(c, CHAT_FATAL, why);
}

/* --- a request -------------------------------------------------------------------------------------------------- */

static void add_stop(struct sampling *s, int32_t id)
{
    for (int i = 0; i < s->n_stop; i++)
        if (s->stop[i] == id)
            return;
    if (id >= 0 && s->n_stop < ENGINE_MAX_STOP)
        s->stop[s->n_stop++] = id;
}

/* What the template ends a turn with, and what the checkpoint says: config.json alone names only <|endoftext|>. */
static void stop_ids(struct chat *c, struct sampling *s)
{
    const struct engine_info *info = engine_info(c->engine);
    add_stop(s, tokenizer_special(c->tok, "<|im_end|>"));
    add_stop(s, tokenizer_special(c->tok, "<|endoftext|>"));
    for (int i = 0; i < info->n_eos; i++)
        add_stop(s, info->eos[i]);
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
void round_request(struct chat *c)
{
    struct err e = {0};
    struct sampling s;
    int n_tools;
    if (!c->ready) {
        c->state = WAITING;
        return;
    }
    const struct text *tools = tools_schemas(c->tools, &n_tools);
    keep_system(c);
    if (!c->stats.n_rounds)
        c->thinking = options_on(c->o, OPT_think);      /* stays as it is within a turn */
    if (!prompt_make(&c->prompt, &c->t, tools, n_tools, c->thinking, c->tok, &e)) {
        round_finish(c, CHAT_FAILED, e.msg);
        return;
    }
    if (c->prompt.ids.n >= c->info.n_ctx) {
        err_set(&e, "the prompt has %d tokens, the context holds %d", c->prompt.ids.n, c->info.n_ctx);
        round_finish(c, CHAT_FAILED, e.msg);
        return;
    }
    preset_sampling(c->o, engine_info(c->engine), &s);
    s.n_ids = tokenizer_n_ids(c->tok);          /* the model's vocabulary is padded beyond it */
    if (!bias_make(&c->bias, c->o, c->tok, &e)) {
        round_finish(c, CHAT_FAILED, e.msg);
        return;
    }
    s.bias_ids = c->bias.ids;
    s.bias = c->bias.values;
    s.n_bias = c->bias.n;
    if (!c->stats.n_rounds)
        c->stats.seed = options_given(c->o, OPT_seed) ? s.seed + (uint64_t)c->variant : random_seed();
    s.seed = c->stats.seed + (uint64_t)c->stats.n_rounds;
    stop_ids(c, &s);
    begin_answer(c);
    c->stats.n_rounds++;
    c->state = ANSWERING;
    c->serial = engine_submit(c->engine, c->prompt.ids.data, c->prompt.ids.n, c->prompt.keep_at, &s);
}

void round_turn(struct chat *c)
{
    c->stats = (struct chat_stats){.ctx_total = c->info.n_ctx, .acceptance = -1};
    c->turn_start = transcript_last_user(&c->t);
    c->interrupted = false;
    c->after_first = 0;
    c->start_ns = clock_ns();
    prompt_forget(&c->prompt);
    round_request(c);
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
        calls_next(c);
    } else if (a->stopper.hit) {
        round_finish(c, CHAT_STOP_TEXT, "");
    } else if (ev->finish == FINISH_STOP && a->n_calls) {
        round_finish(c, CHAT_FAILED, "the model broke off in the middle of a tool call");
    } else {
        round_finish(c, ends[ev->finish], ev->finish == FINISH_ERROR ? ev->message : "");
    }
}

void round_ready(struct chat *c)
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
    round_post(c, CHAT_READY, "");
    if (c->state == WAITING)
        round_request(c);
}

void round_event(struct chat *c, const struct event *ev)
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
        round_ready(c);
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
        round_die(c, ev->message);
        break;
    }
}
