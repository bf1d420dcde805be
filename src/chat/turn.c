#include "chat/turn.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/unicode.h"
#include "chat/asking.h"
#include "chat/branch.h"
#include "chat/calls.h"
#include "chat/context.h"
#include "chat/saving.h"
#include "chat/state.h"
#include "chat/summary.h"
#include "chat/titler.h"
#include "guide/form.h"

/* --- a turn ends ------------------------------------------------------------------------------------------------ */

/* Returns the energy used so far, or 0. */
static double joules(struct chat *c)
{
    struct machine_figures m = {0};
    if (c->responder->ops->machine)
        c->responder->ops->machine(c->responder, &m);
    return m.joules;
}

/* If continuing a stopped answer added nothing, shows the stopped answer again. */
static void back_to_continued(struct chat *c)
{
    if (c->turn.continued)
        transcript_go(&c->t, c->turn.continued);
    c->turn.continued = NULL;
}

/* Appends token i in quotes. */
static void name_piece(struct chat *c, const struct tokens *t, int i, struct buf *out)
{
    struct text piece = i < t->n ? c->responder->ops->piece(c->responder, t->all[i].id) : text_of("");
    if (piece.n) {
        buf_addc(out, '\'');
        buf_add(out, piece.p, piece.n);
        buf_addc(out, '\'');
    } else {
        buf_adds(out, "the end");
    }
}

/* Compares a repeated answer with the first one, as far as both go. */
static void compare_replay(struct chat *c)
{
    const struct entry *old = c->turn.replays, *new = c->t.n > c->turn.start ? c->t.entries[c->turn.start] : NULL;
    struct buf said = {0};
    int n = 0;
    c->turn.replays = NULL;
    if (!old || !new)
        return;
    const struct tokens *a = &old->made, *b = &new->made;
    while (n < a->n && n < b->n && a->all[n].id == b->all[n].id)
        n++;
    if ((n == a->n && (n == b->n || old->stopped)) || (n == b->n && new->stopped)) {
        buf_addf(&said, "the same %d tokens again, with seed %llu", n, (unsigned long long)a->seed);
    } else {
        buf_addf(&said, "with seed %llu the first %d tokens are the same; then came ", (unsigned long long)a->seed, n);
        name_piece(c, a, n, &said);
        buf_adds(&said, ", now ");
        name_piece(c, b, n, &said);
    }
    state_note(c, "%s", said.data);
    buf_free(&said);
}

/* Checks a complete answer against the form that was asked for: a server may have ignored it, a stop string may have ended it.  Returns the answer if
 * it has the form; otherwise *why says why it has not, or is NULL: no form was asked for, or the answer is not complete. */
static const char *check_form(struct chat *c, enum end end, const char **why)
{
    const struct buf *answer = &c->turn.answer.content;
    struct err e = {0};
    *why = NULL;
    if (c->turn.form.kind == FORM_ANY || (end != END_STOP && end != END_STOP_TEXT))
        return NULL;
    if (form_check(&c->turn.form, (struct text){buf_str(answer), answer->len}, &e))
        return outbox_copy(&c->out, buf_str(answer), answer->len);
    if (c->front.can_ask)
        state_note(c, "the answer does not have the form that was asked for: %s", e.msg);
    *why = outbox_copy(&c->out, e.msg, strlen(e.msg));
    return NULL;
}

/* Ends the turn: completes its figures, takes a message without an answer back, saves, and posts CHAT_DONE. */
static void end_turn(struct chat *c, enum end end, const char *why)
{
    struct stats *s = &c->turn.stats;
    const enum turn_kind kind = c->turn.kind;
    struct buf back = {0};
    s->wall_ms = clock_ms_since(c->turn.start_ns);
    s->joules = state_ready(c) ? joules(c) - c->turn.joules_before : 0;
    c->turn.state = TURN_IDLE;
    c->turn.kind = TURN_AGAIN;
    summary_over(c);
    tokens_reset(&c->turn.prefix);
    back_to_continued(c);
    compare_replay(c);

    /* without any text of an answer the message is taken back, so that the front end can return it to its editor */
    bool nothing = turn_is_kept(kind) && c->turn.start == c->t.n
                && (end == END_INTERRUPTED || end_failed(end) || c->t.entries[c->t.n - 1]->shown);
    bool taken_back = nothing && branch_take_back(c, kind == TURN_SUBMITTED, &back);
    const struct responder *r = c->responder;
    const int counted = r->can.count || !r->ops->used ? -1 : r->ops->used(r);           /* by a server, with the reasoning */
    s->ctx_used = counted >= 0 ? counted : chat_context_used(c).tokens;
    persist_retry(c);
    checkpointer_due(c);
    titler_turn_ended(c);
    if (turn_is_kept(kind))
        summary_advise(c);
    const char *unformed, *formed = check_form(c, end, &unformed);
    struct chat_event *ev = outbox_post(&c->out, CHAT_DONE, NULL, why, strlen(why));
    ev->end = end;
    ev->stats = *s;
    ev->formed = formed;
    ev->unformed = unformed;
    ev->taken_back = taken_back ? outbox_copy(&c->out, buf_str(&back), back.len) : NULL;
    buf_free(&back);
}

/* --- an answer --------------------------------------------------------------------------------------------------- */

static void show_text(struct chat *c, enum chat_event_kind kind, const struct buf *text, size_t *shown, bool replayed)
{
    if (text->len > *shown)
        outbox_post(&c->out, kind, NULL, text->data + *shown, text->len - *shown)->replayed = replayed;
    *shown = text->len;
}

/* Posts the new text and calls of the answer. */
static void show_gain(struct chat *c, bool replayed)
{
    struct answer *a = &c->turn.answer;
    show_text(c, CHAT_REASONING, &a->reasoning, &c->turn.shown.reasoning, replayed);
    show_text(c, CHAT_TEXT, &a->content, &c->turn.shown.content, replayed);
    for (; c->turn.shown.calls < a->n_calls; c->turn.shown.calls++) {
        const struct answer_call *call = &a->calls[c->turn.shown.calls];
        struct chat_event *ev = outbox_post(&c->out, CHAT_CALL, call->name, call->arguments.p, call->arguments.n);
        ev->truncated = call->truncated;
        ev->replayed = replayed;
    }
}

/* Drops the alternatives of older answers, since 64 bytes a token add up. */
static void forget_old_alternatives(struct chat *c)
{
    enum { ANSWERS = 32, TOKENS = 1 << 18 };
    int answers = 0, tokens = 0;
    for (int i = c->t.n_all - 1; i >= 0; i--) {
        struct tokens *t = &c->t.all[i]->made;
        if (!t->alternatives)
            continue;
        tokens += t->n;
        if (++answers > ANSWERS || (tokens > TOKENS && answers > 1))
            tokens_drop_alternatives(t);
    }
}

/* Makes the answer an entry, unless it is empty. */
static void keep_answer(struct chat *c, bool whole)
{
    struct answer *a = &c->turn.answer;
    if (!turn_is_kept(c->turn.kind) || (!a->reasoning.len && !a->content.len && !a->n_calls && !whole))
        return;
    if (c->turn.continued && !a->gained && (!whole || answer_is_over(a)))            /* nothing was added */
        return;
    enum mark mark = c->turn.continued ? c->turn.continued->mark : ENTRY_PLAIN;
    if (c->turn.continued)
        persist_instead(c, c->turn.continued);
    c->turn.continued = NULL;
    struct entry *m = answer_entry(a, &c->t, whole);
    m->made = a->tokens;
    a->tokens = (struct tokens){0};
    forget_old_alternatives(c);
    m->stopped = !whole;
    persist_entry(c, m);
    if (mark)
        persist_mark(c, m, -1, mark);
}

/* Returns how an aside ends for the user, with a note: one that was cut off cannot be continued. */
static enum end end_aside(struct chat *c, enum end end, const char **why)
{
    const struct answer *a = &c->turn.answer;
    if (a->n_calls && end == END_STOP) {           /* the calls could not be run */
        *why = a->too_many ? "the model made too many tool calls in one answer; none of them was run"
                           : "the model broke off in the middle of a tool call";
        return END_FAILED;
    }
    const char *cut = a->looped ? ", and was cut off because it repeats itself" : end == END_LENGTH ? ", and was cut off: max_tokens is reached"
                    : end == END_CONTEXT ? ", and was cut off: the context is full" : "";
    state_note(c, "aside: it is not part of the conversation%s", cut);
    return a->looped || end == END_LENGTH || end == END_CONTEXT ? END_STOP : end;
}

/* At the end of an answer: keeps it, and runs its calls or ends the turn. */
static void finish_answer(struct chat *c, enum end end, const char *why)
{
    struct answer *a = &c->turn.answer;
    char said[96];
    answer_finish(a);
    show_gain(c, false);
    bool whole = (end == END_STOP && !a->looped) || a->stopper.hit;      /* the stop string may have been held back until now */
    bool calls = end == END_STOP && a->n_calls > 0 && !a->stopper.hit && !a->too_many;
    for (int i = 0; i < a->n_calls && calls; i++)
        calls = !a->calls[i].truncated;
    if (c->turn.kind == TURN_ASIDE && calls) {
        answer_entry(a, &c->aside, true);
    } else if (!turn_is_kept(c->turn.kind)) {
        end = c->turn.kind == TURN_SUMMARY ? summary_take(c, end, &why) : end_aside(c, end, &why);
        end_turn(c, end, why);
        return;
    } else {
        keep_answer(c, a->n_calls ? calls : whole);
    }
    if (calls) {
        calls_begin(c);
        turn_after_calls(c);
    } else if (a->too_many) {
        snprintf(said, sizeof said, "the model made more than %d tool calls in one answer; none of them was run", ANSWER_MAX_CALLS);
        end_turn(c, END_FAILED, said);
    } else if (a->stopper.hit) {
        end_turn(c, END_STOP_TEXT, "");
    } else if (a->looped && !turn_stops(&c->turn)) {
        if (a->loop.span == 1)
            snprintf(said, sizeof said, "it said the same token %d times in a row", a->loop.times);
        else
            snprintf(said, sizeof said, "it said the same %d tokens %d times in a row", a->loop.span, a->loop.times);
        end_turn(c, END_LOOP, said);
    } else if (end == END_STOP && a->n_calls) {
        end_turn(c, END_FAILED, "the model broke off in the middle of a tool call");
    } else {
        end_turn(c, end, why);
    }
}

/* --- a request -------------------------------------------------------------------------------------------------- */

/* Empties the answer; its given beginning comes as news first. */
static void begin_answer(struct chat *c, uint64_t seed)
{
    int n_stops;
    const char *const *stops = options_list(c->o, OPT_stop, &n_stops);
    answer_begin(&c->turn.answer, c->turn.thinking, stops, c->turn.kind == TURN_SUMMARY ? 0 : n_stops);
    c->turn.answer.tokens.seed = seed;
    c->turn.answer.tokens.seeded = true;
    memset(&c->turn.shown, 0, sizeof c->turn.shown);
}

/* The given beginning of the answer is complete. */
static void end_beginning(struct chat *c)
{
    if (c->turn.state != TURN_BEGINNING)
        return;
    c->turn.state = TURN_ANSWERING;
    /* an answer that already repeated itself is continued because the user asked for it */
    c->turn.answer.guarded = options_on(c->o, OPT_loop_guard) && !c->turn.answer.loop.span;
    tokens_reset(&c->turn.prefix);
    persist_begun(c);
    show_gain(c, !c->turn.begins);
    c->turn.begins = false;
}

void turn_advise(const struct chat *c, struct buf *text)
{
    const bool alone = c->t.n <= (c->turn.state != TURN_IDLE);          /* there are no earlier messages */
    if (c->front.keeps)
        buf_adds(text, alone ? "; shorten it" : "; shorten it, free space with /compact or /drop N, or start over with /new");
    if (c->responder->more_room)
        buf_addf(text, "; %s", c->responder->more_room);
}

/* Ends the turn because the responder took no request, with advice if the prompt is too long. */
static void request_refused(struct chat *c, enum request_result result, const struct err *why)
{
    struct buf text = {0};
    c->turn.stats.n_rounds--;
    buf_adds(&text, why->msg);
    if (result == REQUEST_TOO_LONG)
        turn_advise(c, &text);
    end_turn(c, result == REQUEST_TOO_LONG ? END_TOO_LONG : END_FAILED, buf_str(&text));
    buf_free(&text);
}

/* Makes the next request of the turn, or waits until the responder is ready. */
static void ask_responder(struct chat *c)
{
    struct err e = {0};
    if (!state_ready(c) || titler_stop(c)) {
        c->turn.state = TURN_WAITING;
        if (c->presence == RESPONDER_ASKS)
            outbox_post(&c->out, CHAT_MODELS, NULL, NULL, 0);
        return;
    }
    persist_system(c);
    persist_form(c);
    if (!c->turn.stats.n_rounds && !asking_begins(c, &e)) {
        end_turn(c, END_FAILED, e.msg);
        return;
    }
    if (!c->turn.stats.n_rounds) {           /* stays the same within a turn */
        c->turn.thinking = asking_thinks(c) && (c->turn.prefix.n || !c->turn.begins);
        c->turn.think_budget = options_int(c->o, OPT_think_budget);
    }
    arena_free(&c->turn.asked);
    struct request q = asking_request(c, c->turn.kind, &c->turn.asked);
    c->turn.form = q.form;
    q.sampling = asking_sampling(c);
    begin_answer(c, q.sampling.seed);
    c->turn.stats.n_rounds++;
    c->turn.state = TURN_BEGINNING;     /* before request(), within which the answer may end */
    checkpointer_turn(c);
    enum request_result result = c->responder->ops->request(c->responder, &q, &e);
    if (result == REQUEST_TAKEN)
        end_beginning(c);
    else
        request_refused(c, result, &e);
}

void turn_begin(struct chat *c, enum turn_kind kind)
{
    c->turn.kind = kind;
    c->turn.stats = (struct stats){.ctx_total = c->info.n_ctx};
    c->turn.live = (struct stats){0};
    buf_reset(&c->turn.refill);
    c->turn.start = c->t.n;
    c->turn.start_ns = clock_ns();
    c->persist.warned = c->edit.on = false;
    c->ahead.print = 0;
    if (state_ready(c))
        c->turn.joules_before = joules(c);
    ask_responder(c);
}

void turn_after_calls(struct chat *c)
{
    if (!calls_over(c))
        return;
    if (turn_stops(&c->turn))
        end_turn(c, END_INTERRUPTED, "");
    else if (c->turn.stats.n_rounds > options_int(c->o, OPT_tool_rounds))
        end_turn(c, END_TOOL_ROUNDS, "the limit of tool_rounds is reached");
    else
        ask_responder(c);
}

void turn_stop(struct chat *c)
{
    switch (c->turn.state) {
    case TURN_WAITING: end_turn(c, END_INTERRUPTED, ""); break;
    case TURN_ANSWERING:
        c->turn.state = TURN_ENDING;
        c->responder->ops->interrupt(c->responder);
        break;
    case TURN_ASKING:
    case TURN_RUNNING:
        calls_stop(c);
        turn_after_calls(c);
        break;
    case TURN_STOPPING:                 /* it ignores the interrupt */
        calls_kill(c);
        turn_after_calls(c);
        break;
    default:
        break;
    }
}

void turn_fail(struct chat *c, const char *why)
{
    end_turn(c, END_FAILED, why);
}

/* --- the user decides about a call --------------------------------------------------------------------------------- */

static const struct answer_call *asked_call(const struct chat *c)
{
    return &c->turn.answer.calls[c->calls.next];
}

void chat_asked_command(const struct chat *c, struct buf *out)
{
    if (c->turn.state == TURN_ASKING)
        tool_command(tools_find(c->calls.tools, asked_call(c)->name), out);
}

void chat_refuse(struct chat *c, const char *why)
{
    struct buf text = {0};
    if (c->turn.state != TURN_ASKING)
        return;
    buf_adds(&text, TOOL_REFUSED);
    if (*why) {
        buf_adds(&text, ": ");
        unicode_replace(&text, why, strlen(why));
    }
    calls_deny(c, text.data, text.len);
    turn_after_calls(c);
    buf_free(&text);
}

void chat_approve(struct chat *c, enum chat_answer answer)
{
    if (c->turn.state != TURN_ASKING)
        return;
    if (answer == CHAT_NO) {
        chat_refuse(c, "");
        return;
    }
    if (answer == CHAT_ALWAYS)
        buf_addf(&c->calls.always, "%s,", asked_call(c)->name);
    calls_run(c, asked_call(c)->arguments.p, asked_call(c)->arguments.n);
    turn_after_calls(c);
}

bool chat_approve_edited(struct chat *c, const char *arguments, size_t n, struct err *e)
{
    struct buf clean = {0};
    if (c->turn.state != TURN_ASKING)
        return err_set(e, "no tool asks");
    const struct answer_call *call = asked_call(c);
    unicode_replace(&clean, arguments, n);
    bool ok = tool_check_arguments(buf_str(&clean), clean.len, e);
    if (ok && (clean.len != call->arguments.n || memcmp(buf_str(&clean), call->arguments.p, clean.len))) {
        buf_addf(&c->calls.edited, "[the user changed the arguments; it ran with: %s]\n", clean.data);
        outbox_post(&c->out, CHAT_TOOL_OUTPUT, call->name, c->calls.edited.data, c->calls.edited.len);
    }
    if (ok) {
        calls_run(c, buf_str(&clean), clean.len);
        turn_after_calls(c);
    }
    buf_free(&clean);
    return ok;
}

/* --- news of the responder -------------------------------------------------------------------------------------- */

void turn_show(struct chat *c)
{
    show_gain(c, false);
}

/* Adds a piece to the answer and interrupts the responder when the answer is complete by the chat's own rules. */
static void news_answer(struct chat *c, const struct news *it)
{
    bool over_before = answer_is_over(&c->turn.answer);
    if (!it->replayed)
        end_beginning(c);
    if (it->stats)
        c->turn.live = *it->stats;
    answer_take(&c->turn.answer, it);
    if (answer_is_over(&c->turn.answer) && !over_before)
        c->responder->ops->interrupt(c->responder);
}

const char *chat_refill(const struct chat *c)
{
    return buf_str(&c->turn.refill);
}

void chat_stats_now(const struct chat *c, struct stats *s)
{
    *s = c->turn.stats;
    if (c->turn.state == TURN_IDLE || c->turn.state == TURN_DEAD)
        return;
    if (c->turn.live.n_tokens)
        stats_add(s, &c->turn.live, false);
    s->wall_ms = clock_ms_since(c->turn.start_ns);
}

/* Adds the figures of a request to the turn and ends its answer. */
static void news_done(struct chat *c, const struct news *it)
{
    end_beginning(c);
    if (it->stats)
        stats_add(&c->turn.stats, it->stats, false);
    c->turn.live = (struct stats){0};
    c->turn.stats.ctx_total = c->info.n_ctx;
    finish_answer(c, it->end, it->text.p ? it->text.p : "");
}

/* Keeps the text so far and ends the conversation with this responder. */
static void news_fatal(struct chat *c, const struct news *it)
{
    if (turn_answers(&c->turn)) {       /* the text so far is kept */
        answer_finish(&c->turn.answer);
        turn_show(c);
        keep_answer(c, false);
    }
    c->turn.state = TURN_DEAD;
    back_to_continued(c);
    outbox_post(&c->out, CHAT_FATAL, NULL, it->text.p, it->text.n);
}

/* True if the chat can begin: a bias that this model cannot have ends a chat at once, not with its first message.  With a later model, or if a
 * request comes at once, that request is refused. */
static bool biases_work(struct chat *c, struct err *e)
{
    int n;
    const char *const *items = options_list(c->o, OPT_logit_bias, &n);
    const bool begins = c->presence == RESPONDER_OPENS || c->presence == RESPONDER_ASKS;
    const struct responder_ops *ops = c->responder->ops;
    return !begins || !c->front.reads_ahead || !ops->check_biases || ops->check_biases(c->responder, items, n, e);
}

/* Takes the facts about the model, posts CHAT_READY, and sends the request that waited for them. */
static void news_ready(struct chat *c)
{
    struct err e = {{0}};
    if (!biases_work(c, &e)) {
        news_fatal(c, &(struct news){.text = text_of(e.msg)});
        return;
    }
    c->info = *c->responder->ops->info(c->responder);
    c->presence = RESPONDER_READY;
    c->turn.stats.ctx_total = c->info.n_ctx;
    c->turn.joules_before = joules(c);
    persist_model(c);
    outbox_post(&c->out, CHAT_READY, NULL, NULL, 0);
    if (c->turn.state == TURN_WAITING)
        ask_responder(c);
}

/* Posts the list of models; at the start one of them must be chosen. */
static void news_models(struct chat *c, const struct news *it)
{
    if (c->presence == RESPONDER_OPENS && !c->front.can_ask) {
        news_fatal(c, it);
        return;
    }
    if (c->presence == RESPONDER_OPENS)
        c->presence = RESPONDER_ASKS;
    outbox_post(&c->out, CHAT_MODELS, NULL, NULL, 0);
}

/* Notes that the responder is gone; an answer under way waits to be continued by the next one. */
static void news_gone(struct chat *c, const struct news *it)
{
    state_note(c, "%s", it->text.p);
    c->presence = RESPONDER_GONE;
    if (!turn_answers(&c->turn))
        return;
    /* the request waits for the next responder, with the same beginning */
    tokens_copy(&c->turn.prefix, &c->turn.answer.tokens, c->turn.answer.tokens.n);
    c->turn.stats.n_rounds--;
    c->turn.state = TURN_WAITING;
}

static void post_progress(struct chat *c, enum chat_event_kind kind, const struct news *it)
{
    struct chat_event *out = outbox_post(&c->out, kind, NULL, NULL, 0);
    out->done = it->done;
    out->total = it->total;
    out->cached = it->cached;
}

void turn_news(const struct news *it, void *chat)
{
    struct chat *c = chat;
    if (c->turn.state == TURN_DEAD)
        return;
    if (titler_news(c, it)) {
        if (c->turn.state == TURN_WAITING && !c->title.under_way)
            ask_responder(c);
        return;
    }
    switch (it->kind) {
    case NEWS_LOADING: post_progress(c, CHAT_LOADING, it); break;
    case NEWS_MODELS: news_models(c, it); break;
    case NEWS_READY: news_ready(c); break;
    case NEWS_RESTORED:
    case NEWS_SAVED: checkpointer_news(c, it); break;
    case NEWS_NOTE: state_note(c, "%s", it->text.p); break;
    case NEWS_FATAL: news_fatal(c, it); break;
    case NEWS_READING:
        if (turn_answers(&c->turn))
            post_progress(c, CHAT_PREFILL, it);
        break;
    case NEWS_REFILL:
        buf_reset(&c->turn.refill);
        buf_add(&c->turn.refill, it->text.p, it->text.n);
        break;
    case NEWS_GONE: news_gone(c, it); break;
    case NEWS_DONE:
        if (turn_answers(&c->turn))
            news_done(c, it);
        break;
    default:
        if (turn_answers(&c->turn))
            news_answer(c, it);
    }
}
