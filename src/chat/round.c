#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/memory.h"
#include "chat/preset.h"
#include "chat/state.h"

void round_post(struct chat *c, enum chat_event_kind kind, const char *text)
{
    outbox_post(&c->out, kind, NULL, text, strlen(text));
}

/* --- a turn ends ------------------------------------------------------------------------------------------------ */

static double joules(struct chat *c)
{
    struct engine_machine m;
    engine_machine(c->engine, &m);
    return m.joules;
}

/* What follows from the sums. */
static void derive(const struct chat *c, struct chat_stats *s, double after_first)
{
    int drafted = 0, accepted = 0;
    for (int i = 0; i < CHAT_MAX_DEPTH; i++) {
        drafted += s->drafted[i];
        accepted += s->accepted[i];
    }
    s->wall_ms = clock_ms_since(c->start_ns);
    s->tok_s = s->decode_ms > 0 ? after_first * 1000 / s->decode_ms : 0;
    s->acceptance = drafted ? (double)accepted / drafted : -1;
}

/* An answer that was to go on and did not is as it was. */
static void back_to_continued(struct chat *c)
{
    if (c->continued)
        transcript_go(&c->t, c->continued);
    c->continued = NULL;
}

void round_finish(struct chat *c, enum chat_end end, const char *why)
{
    struct chat_stats *s = &c->stats;
    derive(c, s, c->after_first);
    s->joules = c->ready ? joules(c) - c->joules_before : 0;
    const bool summed = c->compact.on;
    c->state = IDLE;
    compact_over(c);
    prompt_forget(&c->prompt);
    tokens_reset(&c->begun);
    back_to_continued(c);

    /* nothing came of it: as if it had not been said, so that the front end can give the message back to its editor */
    bool nothing = !summed && c->turn_start == c->t.n && (end == CHAT_INTERRUPTED || chat_end_failed(end) || c->t.entries[c->t.n - 1]->shown);
    const char *taken_back = nothing ? tree_take_back(c) : NULL;
    s->ctx_used = chat_context_used(c).tokens;
    c->submitted = false;
    keep_retry(c);
    if (!summed)
        compact_advise(c);
    struct chat_event *ev = outbox_post(&c->out, CHAT_DONE, NULL, why, strlen(why));
    ev->end = end;
    ev->stats = *s;
    ev->taken_back = taken_back;
}

void round_die(struct chat *c, const char *why)
{
    c->state = DEAD;
    c->serial = 0;                      /* nothing is under way: keep_part() has nothing to add */
    back_to_continued(c);
    round_post(c, CHAT_FATAL, why);
}

/* --- an answer --------------------------------------------------------------------------------------------------- */

static void show_text(struct chat *c, enum chat_event_kind kind, const struct buf *text, size_t *shown, bool replayed)
{
    if (text->len > *shown)
        outbox_post(&c->out, kind, NULL, text->data + *shown, text->len - *shown)->replayed = replayed;
    *shown = text->len;
}

/* Posts what the answer has gained. */
static void show(struct chat *c, bool replayed)
{
    struct answer *a = &c->answer;
    show_text(c, CHAT_REASONING, &a->reasoning, &c->shown_reasoning, replayed);
    show_text(c, CHAT_TEXT, &a->content, &c->shown_content, replayed);
    for (; c->shown_calls < a->n_calls; c->shown_calls++) {
        const struct answer_call *call = &a->calls[c->shown_calls];
        struct chat_event *ev = outbox_post(&c->out, CHAT_CALL, call->name, call->arguments.p, call->arguments.n);
        ev->truncated = call->truncated;
        ev->replayed = replayed;
    }
}

/* The newest answers keep what else was likely, older ones only how their tokens came about: 64 bytes a token add up. */
static void forget_old_alternatives(struct chat *c)
{
    enum { ANSWERS = 32, TOKENS = 1 << 18 };
    int answers = 0, tokens = 0;
    for (int i = c->t.n_all - 1; i >= 0; i--) {
        struct tokens *t = &c->t.all[i]->made;
        if (!t->near)
            continue;
        tokens += t->n;
        if (++answers > ANSWERS || (tokens > TOKENS && answers > 1))
            tokens_drop_alternatives(t);
    }
}

/* The answer becomes an entry, if there is anything of it. */
static void keep_answer(struct chat *c, bool whole)
{
    struct answer *a = &c->answer;
    if (c->compact.on || (!a->reasoning.len && !a->content.len && !a->n_calls && !whole))
        return;
    if (c->continued && a->ids.n == c->n_begun && (!whole || answer_is_over(a)))        /* there is no more of it than before */
        return;
    enum mark mark = c->continued ? c->continued->mark : MARK_NONE;
    if (c->continued)
        keep_instead(c, c->continued);
    c->continued = NULL;
    struct entry *m = transcript_add(&c->t, ROLE_ASSISTANT, buf_str(&a->content), a->content.len);
    entry_reasoning(m, buf_str(&a->reasoning), a->reasoning.len);
    for (int i = 0; i < a->n_calls && whole; i++)
        entry_call(m, a->calls[i].name, a->calls[i].arguments.p, a->calls[i].arguments.n);
    if (!a->stopper.hit)
        ids_append(&m->ids, a->ids.data, a->ids.n);
    m->made = a->tokens;
    a->tokens = (struct tokens){0};
    forget_old_alternatives(c);
    m->stopped = !whole;
    keep_entry(c, m);
    if (mark)
        keep_mark(c, m, -1, mark);
}

/* The answer has come to its end: it is kept, and its calls are run. */
static void end_answer(struct chat *c, enum finish finish, const char *why)
{
    static const enum chat_end ends[] = {
        [FINISH_STOP] = CHAT_ANSWERED, [FINISH_LENGTH] = CHAT_LENGTH, [FINISH_CONTEXT] = CHAT_CONTEXT,
        [FINISH_INTERRUPTED] = CHAT_INTERRUPTED, [FINISH_ERROR] = CHAT_FAILED,
    };
    struct answer *a = &c->answer;
    char said[96];
    answer_finish(a, finish != FINISH_STOP);
    show(c, false);
    bool whole = (finish == FINISH_STOP && !c->looped) || a->stopper.hit;      /* which may have stood in what was held back until now */
    bool calls = finish == FINISH_STOP && a->n_calls > 0 && !answer_is_over(a);
    for (int i = 0; i < a->n_calls && calls; i++)
        calls = !a->calls[i].truncated;
    if (c->compact.on) {
        compact_answered(c, finish, why);
        return;
    }
    keep_answer(c, a->n_calls ? calls : whole);
    if (calls) {
        prompt_answered(&c->prompt, &a->ids, c->tok);
        c->next_call = 0;
        calls_next(c);
    } else if (a->too_many) {
        snprintf(said, sizeof said, "the model made more than %d tool calls in one answer; none of them was run", ANSWER_MAX_CALLS);
        round_finish(c, CHAT_FAILED, said);
    } else if (a->stopper.hit) {
        round_finish(c, CHAT_STOP_TEXT, "");
    } else if (c->looped && !c->interrupted) {
        if (a->loop.span == 1)
            snprintf(said, sizeof said, "it said the same token %d times in a row", a->loop.times);
        else
            snprintf(said, sizeof said, "it said the same %d tokens %d times in a row", a->loop.span, a->loop.times);
        round_finish(c, CHAT_LOOP, said);
    } else if (finish == FINISH_STOP && a->n_calls) {
        round_finish(c, CHAT_FAILED, "the model broke off in the middle of a tool call");
    } else {
        round_finish(c, ends[finish], why);
    }
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

static bool is_stop(const struct chat *c, int32_t id)
{
    for (int i = 0; i < c->how.n_stop; i++)
        if (c->how.stop[i] == id)
            return true;
    return false;
}

static uint64_t random_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = (uint64_t)clock_ns();
    return seed >> 11;                  /* 53 bits: every JSON reader can hold it */
}

/* Everything but what differs between the requests of one answer. */
static void choose_sampling(struct chat *c)
{
    struct sampling *s = &c->how;
    preset_sampling(c->o, engine_info(c->engine), s);
    s->n_ids = tokenizer_n_ids(c->tok);         /* the model's vocabulary is padded beyond it */
    s->n_alternatives = c->front.inspects ? options_int(c->o, OPT_alternatives) : 0;
    s->bias_ids = c->bias.ids;
    s->bias = c->bias.values;
    s->n_bias = c->bias.n;
    if (!c->stats.n_rounds)
        c->stats.seed = c->begun.seeded ? c->begun.seed
                      : options_given(c->o, OPT_seed) ? s->seed + (uint64_t)c->variant : random_seed();
    s->seed = c->stats.seed + (uint64_t)c->stats.n_rounds;
    if (c->compact.on)
        s->max_tokens = c->compact.room;
    stop_ids(c, s);
}

/* The answer starts over, with the beginning that was given. */
static void begin_answer(struct chat *c)
{
    int n_tools, n_stops;
    const struct text *tools = tools_schemas(c->tools, &n_tools);
    const char *const *stops = options_list(c->o, OPT_stop, &n_stops);
    if (c->compact.on)
        n_stops = 0;
    c->stops = memory_resized(c->stops, ((size_t)n_stops + 1) * sizeof *c->stops);
    if (n_stops)
        memcpy(c->stops, stops, (size_t)n_stops * sizeof *stops);
    answer_begin(&c->answer, c->tok, tools, n_tools, c->thinking, c->stops, n_stops);
    c->answer.tokens.seed = c->how.seed;
    c->answer.tokens.seeded = true;
    c->shown_reasoning = c->shown_content = 0;
    c->shown_calls = c->n_sampled = 0;
    c->goes_on = c->answer_now = false;
    for (int i = 0; i < c->begun.n; i++) {
        const struct token *t = &c->begun.all[i];
        struct outlook o = tokens_outlook(&c->begun, i);
        answer_push(&c->answer, t->id, t->how, &o, is_stop(c, t->id));
    }
    c->n_begun = c->answer.ids.n;
    c->guarded = options_on(c->o, OPT_loop_guard) && !c->answer.loop.span;      /* else that was told, and it goes on anyway */
    c->looped = false;
    tokens_reset(&c->begun);
    keep_begun(c);
    show(c, true);
}

/* So many tokens may still come; 0: no limit.  The reasoning's budget is one, too: the request ends there, exactly. */
static int tokens_left(struct chat *c)
{
    int left = c->how.max_tokens ? c->how.max_tokens - c->n_sampled : 0;
    int thoughts = c->budget - c->answer.ids.n;
    c->to_budget = c->budget && answer_reasons(&c->answer) && (!c->how.max_tokens || thoughts < left);
    return c->to_budget ? thoughts : left;
}

/* As the template writes it behind a thought. */
static void end_reasoning(struct chat *c)
{
    static const char end[] = "\n</think>\n\n";
    struct answer *a = &c->answer;
    struct ids ids = {0};
    size_t n = 0;
    const char *last = a->ids.n ? tokenizer_bytes(c->tok, a->ids.data[a->ids.n - 1], &n) : NULL;
    int skip = n && last[n - 1] == '\n';
    tokenizer_encode(c->tok, end + skip, strlen(end) - (size_t)skip, true, &ids);
    for (int i = 0; i < ids.n; i++)
        answer_push(a, ids.data[i], CHAT_FORCED, NULL, false);
    ids_free(&ids);
    show(c, false);
}

/* Asks for what comes after the prompt and what there is of the answer.  False when the context is full. */
static bool ask_engine(struct chat *c)
{
    struct answer *a = &c->answer;
    if (c->budget && answer_reasons(a) && a->ids.n >= c->budget)
        end_reasoning(c);
    struct ids ids = {0};
    struct sampling s = c->how;
    ids_append(&ids, c->prompt.ids.data, c->prompt.ids.n);
    ids_append(&ids, a->ids.data, a->ids.n);
    s.max_tokens = tokens_left(c);
    s.n_begun = a->ids.n;
    bool fits = ids.n < c->info.n_ctx;
    if (fits)
        c->serial = engine_submit(c->engine, ids.data, ids.n, c->prompt.keep_at, &s);
    ids_free(&ids);
    return fits;
}

bool round_prompt(struct chat *c, struct err *e)
{
    int n_tools;
    const struct text *tools = tools_schemas(c->tools, &n_tools);
    return prompt_make(&c->prompt, &c->t, tools, n_tools, c->thinking, c->compact.on ? buf_str(&c->compact.request) : NULL, c->tok, e);
}

/* Renders the conversation and hands it to the engine, or waits for that to be possible. */
void round_request(struct chat *c)
{
    struct err e = {0};
    if (!c->ready) {
        c->state = WAITING;
        return;
    }
    keep_system(c);
    if (!c->stats.n_rounds) {           /* stays as it is within a turn */
        c->thinking = c->begun.n ? c->begun.thinking : options_on(c->o, OPT_think) && !c->compact.on;
        c->budget = options_int(c->o, OPT_think_budget);
    }
    if (!round_prompt(c, &e)) {
        round_finish(c, CHAT_FAILED, e.msg);
        return;
    }
    if (c->prompt.ids.n >= c->info.n_ctx) {
        err_set(&e, "the prompt has %d tokens, the context holds %d; %sa larger --ctx holds more", c->prompt.ids.n, c->info.n_ctx,
                c->front.keeps ? "say less, /compact and /drop N make room, /undo goes back, /new begins again, " : "");
        round_finish(c, CHAT_TOO_LONG, e.msg);
        return;
    }
    int n_bias;
    const char *const *biases = options_list(c->o, OPT_logit_bias, &n_bias);
    if (!bias_make(&c->bias, biases, n_bias, c->tok, &e)) {
        round_finish(c, CHAT_FAILED, e.msg);
        return;
    }
    choose_sampling(c);
    begin_answer(c);
    c->stats.n_rounds++;
    c->state = ANSWERING;
    const struct ids *ids = &c->answer.ids;
    if (ids->n && is_stop(c, ids->data[ids->n - 1]))
        end_answer(c, FINISH_STOP, "");         /* that was the other way to take */
    else if (!ask_engine(c))
        end_answer(c, FINISH_CONTEXT, "");
}

void round_turn(struct chat *c)
{
    c->stats = (struct chat_stats){.ctx_total = c->info.n_ctx, .acceptance = -1};
    c->live = (struct turn_stats){0};
    c->turn_start = c->t.n;
    c->ahead_print = 0;
    c->interrupted = c->warned = c->edit.on = false;
    c->after_first = 0;
    c->start_ns = clock_ns();
    if (c->ready)
        c->joules_before = joules(c);
    prompt_forget(&c->prompt);
    round_request(c);
}

/* --- what comes from the engine --------------------------------------------------------------------------------- */

/* Nothing that may still come belongs to the answer. */
static bool is_over(const struct chat *c)
{
    return answer_is_over(&c->answer) || c->looped;
}

static void on_tokens(struct chat *c, const struct event *ev)
{
    struct answer *a = &c->answer;
    c->live = ev->stats;
    bool over_before = is_over(c);
    for (int i = 0; i < ev->n && !is_over(c); i++) {
        answer_push(a, ev->ids[i], ev->how[i] == TOKEN_DRAFTED ? CHAT_DRAFTED : CHAT_SAMPLED, &ev->outlook[i], is_stop(c, ev->ids[i]));
        c->looped = c->guarded && a->loop.span;
    }
    show(c, false);
    keep_part(c);
    if (is_over(c) && !over_before)
        engine_interrupt(c->engine, c->serial);
}

/* `again`: its prompt was counted before. */
static void add_request(struct chat_stats *s, const struct turn_stats *t, bool again)
{
    if (!again) {
        s->n_prompt += t->n_prompt;
        s->n_cached += t->n_cached;
        s->n_ahead += t->n_ahead;
    }
    s->n_tokens += t->n_tokens;
    s->n_steps += t->n_steps;
    s->prefill_ms += t->prefill_ms;
    s->decode_ms += t->decode_ms;
    for (int i = 0; i < CHAT_MAX_DEPTH && i < ENGINE_MAX_DEPTH; i++) {
        s->drafted[i] += t->drafted[i];
        s->accepted[i] += t->accepted[i];
    }
}

static int after_first(const struct turn_stats *t)
{
    return t->n_tokens > 1 ? t->n_tokens - 1 : 0;
}

static void add_stats(struct chat *c, const struct turn_stats *t)
{
    add_request(&c->stats, t, c->goes_on);
    c->live = (struct turn_stats){0};
    c->n_sampled += t->n_tokens;
    c->after_first += after_first(t);
    c->stats.ctx_total = c->info.n_ctx;
}

void chat_stats_now(const struct chat *c, struct chat_stats *s)
{
    *s = c->stats;
    if (!chat_busy(c))
        return;
    if (c->live.n_tokens)
        add_request(s, &c->live, c->goes_on);
    derive(c, s, c->after_first + after_first(&c->live));
}

/* A request ended only for the sake of the reasoning: it is over, or the budget was looked at.  Then the answer goes on. */
static bool go_on(struct chat *c)
{
    if (c->interrupted || is_over(c))
        return false;
    c->goes_on = true;
    if (answer_reasons(&c->answer))
        end_reasoning(c);
    return ask_engine(c);
}

static void on_done(struct chat *c, const struct event *ev)
{
    enum finish finish = ev->finish;
    const bool spent = c->to_budget && finish == FINISH_LENGTH, now = c->answer_now && finish == FINISH_INTERRUPTED;
    c->serial = 0;
    c->answer_now = false;
    add_stats(c, &ev->stats);
    if (now && c->how.max_tokens && c->n_sampled >= c->how.max_tokens)         /* it had just come to its end */
        finish = FINISH_LENGTH;
    else if ((now || spent) && go_on(c))
        return;
    if (spent)                          /* that is not the user's limit */
        finish = c->interrupted ? FINISH_INTERRUPTED : FINISH_CONTEXT;
    end_answer(c, finish, finish == FINISH_ERROR ? ev->message : "");
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
    c->joules_before = joules(c);
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
        if (!ours || c->goes_on)
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
            show(c, false);
            keep_answer(c, false);
        }
        round_die(c, ev->message);
        break;
    }
}
