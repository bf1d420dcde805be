#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "chat/preset.h"
#include "chat/sent.h"
#include "chat/state.h"

void round_post(struct chat *c, enum chat_event_kind kind, const char *text)
{
    outbox_post(&c->out, kind, NULL, text, strlen(text));
}

/* --- a turn ends ------------------------------------------------------------------------------------------------ */

static double joules(struct chat *c)
{
    struct chat_machine m;
    chat_machine(c, &m);
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
    if (c->continued && !a->gained && (!whole || answer_is_over(a)))            /* there is no more of it than before */
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
static void end_answer(struct chat *c, enum chat_end end, const char *why)
{
    struct answer *a = &c->answer;
    char said[96];
    answer_finish(a);
    show(c, false);
    bool whole = (end == CHAT_ANSWERED && !a->looped) || a->stopper.hit;      /* which may have stood in what was held back until now */
    bool calls = end == CHAT_ANSWERED && a->n_calls > 0 && !a->stopper.hit && !a->too_many;
    for (int i = 0; i < a->n_calls && calls; i++)
        calls = !a->calls[i].truncated;
    if (c->compact.on) {
        compact_answered(c, end, why);
        return;
    }
    keep_answer(c, a->n_calls ? calls : whole);
    if (calls) {
        c->next_call = 0;
        calls_next(c);
    } else if (a->too_many) {
        snprintf(said, sizeof said, "the model made more than %d tool calls in one answer; none of them was run", ANSWER_MAX_CALLS);
        round_finish(c, CHAT_FAILED, said);
    } else if (a->stopper.hit) {
        round_finish(c, CHAT_STOP_TEXT, "");
    } else if (a->looped && !c->interrupted) {
        if (a->loop.span == 1)
            snprintf(said, sizeof said, "it said the same token %d times in a row", a->loop.times);
        else
            snprintf(said, sizeof said, "it said the same %d tokens %d times in a row", a->loop.span, a->loop.times);
        round_finish(c, CHAT_LOOP, said);
    } else if (end == CHAT_ANSWERED && a->n_calls) {
        round_finish(c, CHAT_FAILED, "the model broke off in the middle of a tool call");
    } else {
        round_finish(c, end, why);
    }
}

/* --- a request -------------------------------------------------------------------------------------------------- */

static uint64_t random_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = (uint64_t)clock_ns();
    return seed >> 11;                  /* 53 bits: every JSON reader can hold it */
}

static struct request_sampling choose_sampling(struct chat *c)
{
    struct request_sampling s;
    preset_sampling(c->o, c->responder->ops->info(c->responder), &s);
    s.n_alternatives = c->front.inspects ? options_int(c->o, OPT_alternatives) : 0;
    if (!c->stats.n_rounds)
        c->stats.seed = c->begun.seeded ? c->begun.seed
                      : options_given(c->o, OPT_seed) ? s.seed + (uint64_t)c->variant : random_seed();
    s.seed = c->stats.seed + (uint64_t)c->stats.n_rounds;
    if (c->compact.on)
        s.max_tokens = c->compact.room;
    return s;
}

/* What the turn asks for now; the messages in `mem`. */
static struct request request_of(struct chat *c, struct arena *mem)
{
    struct request q = {.thinking = c->thinking, .think_budget = c->budget, .follows = c->stats.n_rounds > 0};
    q.messages = sent_messages(&c->t, c->compact.on ? buf_str(&c->compact.request) : NULL, mem, &q.n_messages);
    q.tools = tools_schemas(c->tools, &q.n_tools);
    if (c->begun.n)
        q.begun.tokens = &c->begun;
    else if (c->continued)
        q.begun = (struct given){.reasoning = c->continued->m.reasoning, .content = c->continued->m.content};
    return q;
}

int round_count_prompt(struct chat *c, struct err *e)
{
    if (!c->responder->can.count)
        return chat_context_used(c).tokens;
    struct arena mem = {0};
    const struct request q = request_of(c, &mem);
    int n = c->responder->ops->count_prompt(c->responder, &q, e);
    arena_free(&mem);
    return n;
}

/* The answer starts over; what it begins with is told first. */
static void begin_answer(struct chat *c, uint64_t seed)
{
    int n_stops;
    const char *const *stops = options_list(c->o, OPT_stop, &n_stops);
    answer_begin(&c->answer, c->thinking, stops, c->compact.on ? 0 : n_stops);
    c->answer.tokens.seed = seed;
    c->answer.tokens.seeded = true;
    c->shown_reasoning = c->shown_content = 0;
    c->shown_calls = 0;
    c->replaying = true;
}

/* From now on the answer is new. */
static void replay_ends(struct chat *c)
{
    if (!c->replaying)
        return;
    c->replaying = false;
    c->answer.guarded = options_on(c->o, OPT_loop_guard) && !c->answer.loop.span;       /* else that was told, and it goes on anyway */
    tokens_reset(&c->begun);
    keep_begun(c);
    show(c, true);
}

static void refused(struct chat *c, enum request_result result, const struct err *why)
{
    struct buf text = {0};
    c->stats.n_rounds--;
    buf_adds(&text, why->msg);
    if (result == REQUEST_TOO_LONG && c->front.keeps)
        buf_adds(&text, "; say less, /compact and /drop N make room, /undo goes back, /new begins again");
    if (result == REQUEST_TOO_LONG && c->responder->more_room)
        buf_addf(&text, "%s %s", c->front.keeps ? "," : ";", c->responder->more_room);
    round_finish(c, result == REQUEST_TOO_LONG ? CHAT_TOO_LONG : CHAT_FAILED, buf_str(&text));
    buf_free(&text);
}

/* Hands the conversation to the responder, or waits for that to be possible. */
void round_request(struct chat *c)
{
    struct err e = {0};
    struct arena mem = {0};
    if (!c->ready) {
        c->state = WAITING;
        return;
    }
    keep_system(c);
    if (!c->stats.n_rounds) {           /* stays as it is within a turn */
        c->thinking = c->begun.n ? c->begun.thinking : options_on(c->o, OPT_think) && !c->compact.on;
        c->budget = options_int(c->o, OPT_think_budget);
    }
    struct request q = request_of(c, &mem);
    q.sampling = choose_sampling(c);
    begin_answer(c, q.sampling.seed);
    c->stats.n_rounds++;
    c->state = ANSWERING;               /* from here on the answer may end within request() */
    enum request_result result = c->responder->ops->request(c->responder, &q, &e);
    arena_free(&mem);
    if (result == REQUEST_TAKEN)
        replay_ends(c);
    else
        refused(c, result, &e);
}

void round_turn(struct chat *c)
{
    c->stats = (struct chat_stats){.ctx_total = c->info.n_ctx, .acceptance = -1};
    c->live = (struct answer_stats){0};
    c->turn_start = c->t.n;
    c->ahead_print = 0;
    c->interrupted = c->warned = c->edit.on = false;
    c->after_first = 0;
    c->start_ns = clock_ns();
    if (c->ready)
        c->joules_before = joules(c);
    round_request(c);
}

/* --- what comes from the responder ------------------------------------------------------------------------------ */

void round_show(struct chat *c)
{
    show(c, false);
}

static void on_answer(struct chat *c, const struct news *it)
{
    bool over_before = answer_is_over(&c->answer);
    if (!it->replayed)
        replay_ends(c);
    if (it->stats)
        c->live = *it->stats;
    answer_take(&c->answer, it);
    if (answer_is_over(&c->answer) && !over_before)
        c->responder->ops->interrupt(c->responder);
}

static void add_request(struct chat_stats *s, const struct answer_stats *t)
{
    s->n_prompt += t->n_prompt;
    s->n_cached += t->n_cached;
    s->n_ahead += t->n_ahead;
    s->n_tokens += t->n_tokens;
    s->n_steps += t->n_steps;
    s->prefill_ms += t->prefill_ms;
    s->decode_ms += t->decode_ms;
    for (int i = 0; i < CHAT_MAX_DEPTH; i++) {
        s->drafted[i] += t->drafted[i];
        s->accepted[i] += t->accepted[i];
    }
}

void chat_stats_now(const struct chat *c, struct chat_stats *s)
{
    *s = c->stats;
    if (!chat_busy(c))
        return;
    if (c->live.n_tokens)
        add_request(s, &c->live);
    derive(c, s, c->after_first + c->live.n_timed);
}

static void on_done(struct chat *c, const struct news *it)
{
    replay_ends(c);
    if (it->stats) {
        add_request(&c->stats, it->stats);
        c->after_first += it->stats->n_timed;
    }
    c->live = (struct answer_stats){0};
    c->stats.ctx_total = c->info.n_ctx;
    end_answer(c, it->end, it->text.p ? it->text.p : "");
}

static void on_ready(struct chat *c)
{
    c->info = c->responder->ops->info(c->responder)->chat;
    c->ready = true;
    c->stats.ctx_total = c->info.n_ctx;
    c->joules_before = joules(c);
    round_post(c, CHAT_READY, "");
    if (c->state == WAITING)
        round_request(c);
}

static void on_fatal(struct chat *c, const struct news *it)
{
    if (c->state == ANSWERING) {        /* what was said so far stays */
        answer_finish(&c->answer);
        show(c, false);
        keep_answer(c, false);
    }
    round_die(c, it->text.p);
}

static void post_progress(struct chat *c, enum chat_event_kind kind, const struct news *it)
{
    struct chat_event *out = outbox_post(&c->out, kind, NULL, NULL, 0);
    out->done = it->done;
    out->total = it->total;
    out->cached = it->cached;
}

void round_news(const struct news *it, void *chat)
{
    struct chat *c = chat;
    if (c->state == DEAD)
        return;
    switch (it->kind) {
    case NEWS_LOADING:
        post_progress(c, CHAT_LOADING, it);
        break;
    case NEWS_READY:
        on_ready(c);
        break;
    case NEWS_NOTE:
        round_post(c, CHAT_NOTE, it->text.p);
        break;
    case NEWS_FATAL:
        on_fatal(c, it);
        break;
    case NEWS_READING:
        if (c->state == ANSWERING)
            post_progress(c, CHAT_PREFILL, it);
        break;
    case NEWS_DONE:
        if (c->state == ANSWERING)
            on_done(c, it);
        break;
    default:
        if (c->state == ANSWERING)
            on_answer(c, it);
    }
}
