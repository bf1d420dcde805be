#include <string.h>

#include "responder/local_state.h"
#include "answer/stats.h"
#include "text/message.h"

static struct local *own(struct responder *r)
{
    return (struct local *)r;
}

/* --- what the engine is asked for --------------------------------------------------------------------------------- */

static struct conversation conversation_of(const struct request *q)
{
    return (struct conversation){
        .messages = (struct message *)q->messages, .n_messages = q->n_messages, .tools = (struct text *)q->tools, .n_tools = q->n_tools,
        .thinking = q->thinking, .generation_prompt = true,
    };
}

static void add_stop(struct sampling *s, int32_t id)
{
    for (int i = 0; i < s->n_stop; i++)
        if (s->stop[i] == id)
            return;
    if (id >= 0 && s->n_stop < ENGINE_MAX_STOP)
        s->stop[s->n_stop++] = id;
}

/* What the template ends a turn with, and what the checkpoint says: config.json alone names only <|endoftext|>. */
static void stop_ids(const struct local *l, struct sampling *s)
{
    add_stop(s, tokenizer_special(l->tok, "<|im_end|>"));
    add_stop(s, tokenizer_special(l->tok, "<|endoftext|>"));
    for (int i = 0; i < l->info.n_ends; i++)
        add_stop(s, l->info.ends[i]);
}

static bool is_stop(const struct local *l, int32_t id)
{
    for (int i = 0; i < l->sampling.n_stop; i++)
        if (l->sampling.stop[i] == id)
            return true;
    return false;
}

static bool take_sampling(struct local *l, const struct request *q, struct err *e)
{
    struct sampling *s = &l->sampling;
    *s = q->sampling;
    if (!biases_make(&l->biases, s->bias_words, s->n_bias_words, l->tok, e))
        return false;
    if (q->no_calls && q->n_tools)
        biases_ban(&l->biases, "<tool_call>", l->tok);
    s->bias_words = NULL;               /* they are the request's */
    s->n_bias_words = 0;
    s->bias_ids = l->biases.ids;
    s->bias = l->biases.values;
    s->n_bias = l->biases.n;
    s->n_ids = tokenizer_n_ids(l->tok); /* the model's vocabulary is padded beyond it */
    stop_ids(l, s);
    return true;
}

/* Tokens that the engine's next request may have; 0: no limit.  The budget of reasoning is a limit, too: the request ends exactly there. */
static int tokens_left(struct local *l)
{
    const int most = l->sampling.max_tokens;
    int left = most ? most - l->ended.n_tokens : 0;
    int thoughts = l->think_budget - l->speech.ids.n;
    bool to_budget = l->think_budget && speech_reasons(&l->speech) && (!most || thoughts < left);
    l->speaking = to_budget ? TO_BUDGET : SPEAKING;
    return to_budget ? thoughts : left;
}

/* As the template writes it behind a thought. */
static void end_reasoning(struct local *l)
{
    static const char end[] = "\n</think>\n\n";
    const struct ids *said = &l->speech.ids;
    struct ids ids = {0};
    size_t n = 0;
    const char *last = said->n ? tokenizer_bytes(l->tok, said->data[said->n - 1], &n) : NULL;
    int skip = n && last[n - 1] == '\n';
    tokenizer_encode(l->tok, end + skip, strlen(end) - (size_t)skip, true, &ids);
    for (int i = 0; i < ids.n; i++)
        speech_push(&l->speech, (struct token){.id = ids.data[i], .source = TOKEN_FORCED, .prob = -1}, NULL, false);
    ids_free(&ids);
}

/* Asks for what comes after the prompt and what there is of the answer.  False when the context is full. */
static bool ask_engine(struct local *l)
{
    if (l->think_budget && speech_reasons(&l->speech) && l->speech.ids.n >= l->think_budget)
        end_reasoning(l);
    struct ids ids = {0};
    struct sampling s = l->sampling;
    ids_append(&ids, l->prompt.ids.data, l->prompt.ids.n);
    ids_append(&ids, l->speech.ids.data, l->speech.ids.n);
    s.max_tokens = tokens_left(l);
    s.n_answer_prefix = l->speech.ids.n;
    bool fits = ids.n < l->info.n_ctx;
    if (fits)
        l->serial = l->source->ops->submit(l->source, l->conversation, &ids, l->prompt.snapshot_pos, &s);
    ids_free(&ids);
    return fits;
}

/* --- the answer ends ------------------------------------------------------------------------------------------------ */

static void finish(struct local *l, enum end how, const char *why)
{
    speech_finish(&l->speech, how != END_STOP);
    l->speaking = SILENT;
    responder_tell(&l->base, &(struct news){.kind = NEWS_DONE, .end = how, .text = text_of(why), .stats = &l->ended});
}

void local_gone(struct local *l)
{
    static const char *const sentences[2][2] = {        /* [again][waits] */
        {"the q35chat that had loaded the model has ended: the next message loads it here",
         "the q35chat that had loaded the model has ended: it is loaded here now"},
        {"the q35chat that answers has ended: the next message asks for it again",
         "the q35chat that answers has ended: it is asked for again now"},
    };
    bool waits = l->speaking != SILENT && !l->so_far.n_tokens;
    l->gone = true;
    l->serial = 0;
    if (waits) {
        speech_finish(&l->speech, true);
        l->speaking = SILENT;
    } else if (l->speaking != SILENT) {
        finish(l, END_FAILED, "the q35chat that had loaded the model has ended in the middle of the answer");
    }
    responder_tell(&l->base, &(struct news){.kind = NEWS_GONE, .text = text_of(sentences[l->base.again][waits])});
}

void local_break_off(struct local *l)
{
    if (l->speaking == SILENT)
        return;
    speech_finish(&l->speech, true);
    l->speaking = SILENT;
    l->serial = 0;
}

/* --- a request ------------------------------------------------------------------------------------------------------ */

/* The answer starts over, with the beginning that was given. */
static void begin_speech(struct local *l, const struct request *q)
{
    const struct tokens *prefix = q->prefix.tokens;
    l->ended = l->so_far = (struct stats){0};
    l->goes_on = l->enough = false;
    l->speaking = SPEAKING;
    if (q->plain)
        speech_begin_plain(&l->speech, l->tok, l->base.fn, l->base.arg);
    else
        speech_begin(&l->speech, l->tok, q->tools, q->n_tools, q->thinking, l->base.fn, l->base.arg);
    l->speech.replayed = true;
    for (int i = 0; prefix && i < prefix->n; i++)
        speech_push(&l->speech, prefix->all[i], tokens_alternatives(prefix, i), is_stop(l, prefix->all[i].id));
    l->speech.replayed = false;
}

static bool has_answer(const struct request *q)
{
    int i = 0;
    while (i < q->n_messages && q->messages[i].role != ROLE_ASSISTANT)
        i++;
    return i < q->n_messages;
}

static bool take_plain(struct local *l, const struct request *q, struct err *e)
{
    const struct ids *plain = q->plain;
    prompt_forget(&l->prompt);
    if (!plain->n)
        return err_set(e, "the prompt has no tokens");
    for (int i = 0; i < plain->n; i++)
        if (plain->data[i] < 0 || plain->data[i] >= tokenizer_n_ids(l->tok))
            return err_set(e, "token %d of the prompt is %d, expected 0 to %d", i + 1, plain->data[i], tokenizer_n_ids(l->tok) - 1);
    l->prompt.ids.n = 0;
    ids_append(&l->prompt.ids, plain->data, plain->n);
    l->prompt.snapshot_pos = q->snapshot_pos ? q->snapshot_pos : plain->n;
    return true;
}

static bool take_messages(struct local *l, const struct request *q, struct err *e)
{
    const struct conversation c = conversation_of(q);
    if (q->follows)
        prompt_answered(&l->prompt, &l->speech.ids, l->tok);
    else
        prompt_forget(&l->prompt);
    if (!prompt_make(&l->prompt, &c, q->made ? &(struct made){q->made, q->snapshot_pos} : NULL, l->tok, e))
        return false;
    const struct ids *head = &l->head, *all = &l->prompt.ids;
    if (q->apart && head->n && head->n <= all->n && !memcmp(head->data, all->data, (size_t)head->n * sizeof *head->data))
        l->prompt.snapshot_pos = head->n / ENGINE_BLOCK * ENGINE_BLOCK;         /* to which it was read ahead */
    return true;
}

enum request_result local_request(struct responder *r, const struct request *q, struct err *e)
{
    struct local *l = own(r);
    if (l->gone) {
        err_set(e, "the q35chat that had loaded the model has ended");
        return REQUEST_REFUSED;
    }
    if (!(q->plain ? take_plain(l, q, e) : take_messages(l, q, e)))
        return REQUEST_REFUSED;
    if (l->prompt.ids.n >= l->info.n_ctx) {
        err_set(e, "This model's maximum context length is %d tokens; the prompt has %d", l->info.n_ctx, l->prompt.ids.n);
        return REQUEST_TOO_LONG;
    }
    if (!take_sampling(l, q, e))
        return REQUEST_REFUSED;
    l->sampling.patience_ms = q->patience_ms;
    l->conversation = q->conversation;
    l->answered_before = has_answer(q);
    l->think_budget = q->think_budget;
    begin_speech(l, q);
    const struct ids *ids = &l->speech.ids;
    if (l->speaking == STOPPING)
        finish(l, END_INTERRUPTED, "");
    else if (ids->n && is_stop(l, ids->data[ids->n - 1]))
        finish(l, END_STOP, "");             /* that was the other way to take */
    else if (!ask_engine(l))
        finish(l, END_CONTEXT, "");
    return REQUEST_TAKEN;
}

bool local_prompt(struct responder *r, const struct request *q, struct ids *out, int *snapshot_pos, struct err *e)
{
    const struct conversation c = conversation_of(q);
    struct prompt p = {0};
    bool ok = prompt_make(&p, &c, NULL, own(r)->tok, e);
    if (ok && snapshot_pos)
        *snapshot_pos = p.snapshot_pos;
    if (ok)
        ids_append(out, p.ids.data, p.ids.n);
    prompt_free(&p);
    return ok;
}

int local_count_prompt(struct responder *r, const struct request *q, struct err *e)
{
    struct ids ids = {0};
    int n = local_prompt(r, q, &ids, NULL, e) ? ids.n : -1;
    ids_free(&ids);
    return n;
}

/* The states where the typed words begin are kept: they may be taken back. */
static void read_typed(struct local *l, uint64_t conversation, const char *words)
{
    struct ids ids = {0};
    if (prompt_typed(&l->head, words, l->tok, &ids))
        l->source->ops->read_ahead(l->source, conversation, &ids, l->head.n);
    ids_free(&ids);
}

void local_read_ahead(struct responder *r, const struct request *q)
{
    struct local *l = own(r);
    if (q->plain) {
        l->source->ops->read_ahead(l->source, q->conversation, q->plain, q->snapshot_pos);
        return;
    }
    struct conversation c = conversation_of(q);
    const struct text typed = q->messages[q->n_messages - 1].content;
    c.generation_prompt = c.thinking = false;
    if (typed.n)
        read_typed(l, q->conversation, typed.p);
    else if (prompt_beginning(&c, l->tok, &l->head))
        l->source->ops->read_ahead(l->source, q->conversation, &l->head, l->head.n);
}

void local_interrupt(struct responder *r)
{
    struct local *l = own(r);
    if (l->speaking == SILENT || l->speaking == STOPPING)
        return;
    l->speaking = STOPPING;
    l->enough = l->telling;
    if (l->serial)
        l->source->ops->interrupt(l->source, l->serial);
}

bool local_end_thought(struct responder *r)
{
    struct local *l = own(r);
    if (!l->serial || l->speaking == STOPPING || !speech_reasons(&l->speech))
        return false;
    if (l->speaking != LEAVING_THOUGHT)
        l->source->ops->interrupt(l->source, l->serial);
    l->speaking = LEAVING_THOUGHT;      /* goes on when that end has come */
    return true;
}

/* --- what comes from the engine --------------------------------------------------------------------------------- */

/* Of the tokens that were read ahead, those behind the beginning that was known before anything was typed. */
static int count_typed(const struct local *l, const struct stats *t)
{
    const struct ids *head = &l->head, *all = &l->prompt.ids;
    bool begins = head->n && head->n <= all->n && !memcmp(head->data, all->data, (size_t)head->n * sizeof *head->data);
    int behind = begins ? t->n_cached - head->n : 0;
    return behind <= 0 ? 0 : behind < t->n_ahead ? behind : t->n_ahead;
}

/* Updates the figures of the answer so far: of the requests that have ended, and of this one. */
static void count(struct local *l, const struct stats *of_engine)
{
    struct stats s = *of_engine;
    s.n_typed = count_typed(l, &s);
    l->so_far = l->ended;
    stats_add(&l->so_far, &s, l->goes_on);
}

static void on_tokens(struct local *l, const struct event *ev)
{
    count(l, &ev->stats);
    l->speech.stats = &l->so_far;
    for (int i = 0; i < ev->n && !l->enough; i++) {
        const struct logprobs *o = &ev->logprobs[i];
        struct token t = {.id = ev->ids[i], .source = ev->source[i], .prob = o->prob};
        speech_push(&l->speech, t, o, is_stop(l, t.id));
    }
}

/* That the first prompt of a conversation is new needs no word. */
static void tell_refill(const struct local *l, const struct refill *r)
{
    struct buf why = {0};
    if (!r->happened || (!r->resident && !l->answered_before))
        return;
    refill_say(r, &l->prompt.ids, l->tok, &why);
    responder_tell(&l->base, &(struct news){.kind = NEWS_REFILL, .text = text_of(buf_str(&why))});
    buf_free(&why);
}

static void on_done(struct local *l, const struct event *ev)
{
    enum end how = ev->finish;
    const int most = l->sampling.max_tokens;
    bool thought_ends = (l->speaking == TO_BUDGET && how == END_LENGTH)
                     || (l->speaking == LEAVING_THOUGHT && (how == END_LENGTH || how == END_INTERRUPTED));
    l->serial = 0;
    if (!l->goes_on)
        tell_refill(l, &ev->stats.refill);
    count(l, &ev->stats);
    l->ended = l->so_far;
    if (thought_ends && most && l->ended.n_tokens >= most) {    /* it had just come to its end */
        how = END_LENGTH;
    } else if (thought_ends) {
        l->goes_on = true;
        if (speech_reasons(&l->speech))
            end_reasoning(l);
        if (l->speaking != STOPPING && ask_engine(l))
            return;
        how = l->speaking == STOPPING ? END_INTERRUPTED : END_CONTEXT;
    }
    finish(l, how, how == END_FAILED ? ev->message : "");
}

void local_event(struct local *l, const struct event *ev)
{
    if (!l->serial || ev->serial != l->serial)
        return;
    if (ev->kind == EV_TOKENS)
        on_tokens(l, ev);
    else if (ev->kind == EV_DONE)
        on_done(l, ev);
    else if (ev->kind == EV_PREFILL && !l->goes_on)
        responder_tell(&l->base, &(struct news){.kind = NEWS_READING, .done = ev->done, .total = ev->total, .cached = ev->cached});
}
