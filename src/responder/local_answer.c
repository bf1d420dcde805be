/* One answer of the engine: the request, its tokens as reasoning, text and calls, its end.  Also the tokens of answers that are given. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/least.h"
#include "base/memory.h"
#include "option/flags.h"
#include "responder/local_state.h"
#include "text/message.h"
#include "text/pyjson.h"

/* The end of the reasoning, as the template writes it. */
#define THOUGHT_END "\n</think>\n\n"

static struct local *own(struct responder *r)
{
    return (struct local *)r;
}

/* --- tokens as news ------------------------------------------------------------------------------------------------- */

/* Reports a part of the parsed answer as news. */
static void report_delta(const struct delta *d, void *arg)
{
    static const enum news_kind kinds[] = {
        [DELTA_REASONING] = NEWS_REASONING, [DELTA_CONTENT] = NEWS_TEXT, [DELTA_CALL_BEGIN] = NEWS_CALL_BEGIN,
        [DELTA_CALL_PIECE] = NEWS_CALL_PIECE, [DELTA_CALL_END] = NEWS_CALL,
    };
    struct speech *s = arg;
    s->fn(&(struct news){.kind = kinds[d->kind], .text = d->text, .from = d->from, .truncated = d->truncated, .replayed = s->replayed}, s->arg);
}

/* Starts over, with an answer that is text alone. */
static void speech_begin_plain(struct speech *s, const struct tokenizer *tok, news_fn *fn, void *arg)
{
    s->ids.n = 0;
    s->replayed = false;
    s->tok = tok;
    s->fn = fn;
    s->arg = arg;
    s->detok = (struct detok){0};
    s->n_pushed = 0;
    buf_reset(&s->piece);
    stream_close(s->stream);
    s->stream = NULL;
}

/* Starts over, with an answer that the parser reads.  The schemas are not copied: they must stay. */
static void speech_begin(struct speech *s, const struct tokenizer *tok, const struct text *tools, int n_tools, bool thinking, news_fn *fn, void *arg)
{
    speech_begin_plain(s, tok, fn, arg);
    s->stream = stream_open(tools, n_tools, thinking, report_delta, s);
}

/* Passes the decoded piece to the parser, or reports it as text. */
static void push_piece(struct speech *s)
{
    const struct text piece = {s->piece.data, s->piece.len};
    if (piece.n && s->stream)
        stream_push(s->stream, piece.p, piece.n);
    else if (piece.n)
        s->fn(&(struct news){.kind = NEWS_TEXT, .text = piece, .from = s->n_pushed, .replayed = s->replayed}, s->arg);
    s->n_pushed += s->piece.len;
    buf_reset(&s->piece);
}

/* True if the next token belongs to the reasoning. */
static bool speech_reasons(const struct speech *s)
{
    return s->stream && stream_in_reasoning(s->stream);
}

/* Adds a token, of which id, source and prob are given.  `alternatives` may be NULL.  is_stop: the id ended the answer and has no text. */
static void speech_push(struct speech *s, struct token t, const struct logprobs *alternatives, bool is_stop)
{
    t.from = s->n_pushed + (size_t)s->detok.n_held;
    t.reasoning = speech_reasons(s);
    ids_add(&s->ids, t.id);
    s->fn(&(struct news){.kind = NEWS_TOKEN, .token = t, .alternatives = alternatives, .replayed = s->replayed, .stats = s->stats}, s->arg);
    if (is_stop)
        return;
    detok_push(&s->detok, s->tok, t.id, true, &s->piece);
    push_piece(s);
}

/* Reports what was held back. */
static void speech_finish(struct speech *s, bool cut)
{
    detok_flush(&s->detok, &s->piece);
    push_piece(s);
    if (s->stream)
        stream_finish(s->stream, cut);
}

static void speech_free(struct speech *s)
{
    stream_close(s->stream);
    buf_free(&s->piece);
    ids_free(&s->ids);
}

/* --- logit bias ------------------------------------------------------------------------------------------------------ */

/* Finds the token that a bias names: by its id in digits, or by its text, which may have quotes around it. */
static bool find_token(const char *s, size_t n, const struct tokenizer *tok, int32_t *id, struct err *e)
{
    struct ids ids = {0};
    if (strspn(s, "0123456789") >= n) {
        long v = n < 10 ? strtol(s, NULL, 10) : -1;
        if (v < 0 || v >= tokenizer_n_ids(tok))
            return err_set(e, "logit_bias for token %.*s, expected 0 to %d", (int)n, s, tokenizer_n_ids(tok) - 1);
        *id = (int32_t)v;
        return true;
    }
    if (n > 2 && s[0] == '"' && s[n - 1] == '"') {
        s++;
        n -= 2;
    }
    tokenizer_encode(tok, s, n, true, &ids);
    bool one = ids.n == 1;
    if (one)
        *id = ids.data[0];
    else
        err_set(e, "logit_bias for '%.*s': that is %d tokens, expected one", (int)n, s, ids.n);
    ids_free(&ids);
    return one;
}

/* Replaces *b with these items, "TOKEN=X".  False with the reason if a text is not exactly one token. */
static bool biases_make(struct biases *b, const char *const *items, int n, const struct tokenizer *tok, struct err *e)
{
    b->n = 0;
    b->ids = memory_resized(b->ids, ((size_t)n + 1) * sizeof *b->ids);
    b->values = memory_resized(b->values, ((size_t)n + 1) * sizeof *b->values);
    for (int i = 0; i < n; i++, b->n++) {
        size_t len;
        CHECK(bias_split(items[i], &len, &b->values[i]));
        if (!find_token(items[i], len, tok, &b->ids[i], e))
            return false;
    }
    return true;
}

/* Adds one more, if `token` is exactly one token. */
static void biases_ban(struct biases *b, const char *token, const struct tokenizer *tok)
{
    int32_t id = -1;
    struct err e;
    if (!find_token(token, strlen(token), tok, &id, &e))
        return;
    b->ids = memory_resized(b->ids, ((size_t)b->n + 1) * sizeof *b->ids);
    b->values = memory_resized(b->values, ((size_t)b->n + 1) * sizeof *b->values);
    b->ids[b->n] = id;
    b->values[b->n++] = -INFINITY;
}

static void biases_free(struct biases *b)
{
    free(b->ids);
    free(b->values);
    *b = (struct biases){0};
}

bool local_check_biases(const struct responder *r, const char *const *items, int n, struct err *e)
{
    struct biases b = {0};
    const bool ok = biases_make(&b, items, n, ((const struct local *)r)->tok, e);
    biases_free(&b);
    return ok;
}

/* --- requests to the engine ----------------------------------------------------------------------------------------- */

static struct conversation conversation_of(const struct request *q)
{
    return (struct conversation){
        .messages = (struct message *)q->messages, .n_messages = q->n_messages, .tools = (struct text *)q->tools, .n_tools = q->n_tools,
        .thinking = q->thinking, .generation_prompt = true,
    };
}

/* Adds an id that ends the answer, once. */
static void add_stop(struct sampling *s, int32_t id)
{
    for (int i = 0; i < s->n_stop; i++)
        if (s->stop[i] == id)
            return;
    if (id >= 0 && s->n_stop < ENGINE_MAX_STOP)
        s->stop[s->n_stop++] = id;
}

/* Sets the ids that end an answer: those of the template, and those of the checkpoint, whose config.json names only <|endoftext|>. */
static void set_stop_ids(const struct local *l, struct sampling *s)
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

/* Copies the sampling of the request and fills in its ids. */
static bool take_sampling(struct local *l, const struct request *q, struct err *e)
{
    struct sampling *s = &l->sampling;
    struct guide *guide = s->guide;
    *s = q->sampling;
    s->guide = guide;
    if (!local_take_form(l, q, e) || !biases_make(&l->biases, s->bias_words, s->n_bias_words, l->tok, e))
        return false;
    if (q->no_calls && q->n_tools)
        biases_ban(&l->biases, "<tool_call>", l->tok);
    s->bias_words = NULL;               /* they are the request's */
    s->n_bias_words = 0;
    s->bias_ids = l->biases.ids;
    s->bias = l->biases.values;
    s->n_bias = l->biases.n;
    s->n_ids = tokenizer_n_ids(l->tok); /* the model's vocabulary is padded beyond it */
    set_stop_ids(l, s);
    return true;
}

/* Returns how many tokens the engine's next request may have; 0: no limit.  A request ends exactly where the budget of reasoning does. */
static int tokens_left(struct local *l)
{
    const int most = l->sampling.max_tokens;
    int left = most ? most - l->ended.n_tokens : 0;
    int thoughts = l->think_budget - l->speech.ids.n;
    bool to_budget = l->think_budget && speech_reasons(&l->speech) && (!most || thoughts < left);
    l->speaking = to_budget ? TO_BUDGET : SPEAKING;
    return to_budget ? thoughts : left;
}

/* Appends the end of the reasoning as the template writes it, after at most one line break. */
static void end_reasoning(struct local *l)
{
    static const char end[] = THOUGHT_END;
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

/* Submits the prompt and the answer so far.  False if the context is full. */
static bool submit(struct local *l)
{
    if (l->think_budget && speech_reasons(&l->speech) && l->speech.ids.n >= l->think_budget)
        end_reasoning(l);
    struct ids ids = {0};
    struct sampling s = l->sampling;
    ids_append(&ids, l->prompt.ids.data, l->prompt.ids.n);
    ids_append(&ids, l->speech.ids.data, l->speech.ids.n);
    s.max_tokens = tokens_left(l);
    s.n_answer_prefix = l->speech.ids.n;
    struct placed p;
    if (l->source->files) {
        const bool room = ids.n + sights_extra(&l->sights, ids.data, ids.n, l->pad) < l->info.n_ctx;
        if (room)
            l->serial = l->source->ops->submit(l->source, l->conversation, spans_text(ids.data, ids.n), l->prompt.snapshot_pos, &s);
        ids_free(&ids);
        return room;
    }
    const int snapshot_pos = l->prompt.snapshot_pos + sights_extra(&l->sights, l->prompt.ids.data, l->prompt.snapshot_pos, l->pad);
    bool fits = sights_place(&l->sights, &ids, l->pad, false, &p, NULL) && p.ids.n < l->info.n_ctx;
    if (fits)
        l->serial = l->source->ops->submit(l->source, l->conversation, p.spans, snapshot_pos, &s);
    placed_free(&p);
    ids_free(&ids);
    return fits;
}

/* --- the answer ends ------------------------------------------------------------------------------------------------ */

/* Ends the answer and reports DONE. */
static void finish(struct local *l, enum end end, const char *why)
{
    speech_finish(&l->speech, end != END_STOP);
    l->speaking = SILENT;
    responder_tell(&l->base, &(struct news){.kind = NEWS_DONE, .end = end, .text = text_of(why), .stats = &l->ended});
}

void local_gone(struct local *l)
{
    static const char *const sentences[2][2] = {        /* [again][waits] */
        {"the q35chat that had loaded the model has ended: the next message loads it again",
         "the q35chat that had loaded the model has ended: it is loaded again"},
        {"the q35chat that answers has ended: the next message asks for it again",
         "the q35chat that answers has ended: it is asked for again now"},
    };
    bool waits = l->speaking != SILENT && !l->so_far.n_tokens;
    l->gone = true;
    l->awaits = l->early.awaits = false;
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
    l->awaits = false;
    l->serial = 0;
}

/* --- a request ------------------------------------------------------------------------------------------------------ */

/* Starts the answer over, with the beginning that was given. */
static void begin_speech(struct local *l, const struct request *q)
{
    const struct tokens *prefix = q->prefix.tokens;
    l->ended = l->so_far = (struct stats){0};
    l->continues = l->enough = false;
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

/* Writes the files of a request's pictures as JSON. */
static void list_files(const struct request *q, struct buf *out)
{
    buf_reset(out);
    for (int i = 0; i < q->n_messages; i++)
        for (int k = 0; k < q->messages[i].n_media; k++) {
            const struct media *m = &q->messages[i].pictures[k];
            buf_adds(out, out->len ? ", {\"name\": " : "[{\"name\": ");
            pyjson_quote(m->name.p ? m->name : text_of(""), out);
            buf_adds(out, ", \"source\": {\"data\": \"");
            base64_add(out, m->bytes);
            buf_adds(out, "\"}}");
        }
    buf_adds(out, out->len ? "]" : "");
}

/* Takes the prompt from the request's tokens, and its pictures from its messages. */
static bool take_plain(struct local *l, const struct request *q, struct err *e)
{
    const struct ids *plain = q->plain;
    prompt_forget(&l->prompt);
    buf_reset(&l->source->pictures);
    if (!sights_take(&l->sights, local_views(l), q->messages, q->n_messages, e))
        return false;
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

/* Makes the prompt from the request's messages. */
static bool take_messages(struct local *l, const struct request *q, struct err *e)
{
    const struct conversation c = conversation_of(q);
    if (q->follows)
        prompt_answered(&l->prompt, &l->speech.ids, l->tok);
    else
        prompt_forget(&l->prompt);
    if (!sights_take(&l->sights, local_views(l), q->messages, q->n_messages, e))
        return false;
    if (l->source->files)
        list_files(q, &l->source->pictures);
    if (!prompt_make(&l->prompt, &c, q->made ? &(struct made){q->made, q->snapshot_pos} : NULL, l->tok, e))
        return false;
    const struct ids *head = &l->head, *all = &l->prompt.ids;
    if (q->apart && head->n && head->n <= all->n && !memcmp(head->data, all->data, (size_t)head->n * sizeof *head->data))
        l->prompt.snapshot_pos = head->n / ENGINE_BLOCK * ENGINE_BLOCK;         /* where reading ahead ended */
    return true;
}

/* False with the reason if a message has a picture and the model cannot see.  Several clients of servers look for "does not support image input" or
 * "not a multimodal model", send the history again without pictures, and continue. */
static bool can_see(const struct local *l, const struct request *q, struct err *e)
{
    for (int i = 0; i < q->n_messages && !l->base.can.pictures; i++) {
        const struct message *m = &q->messages[i];
        if (m->n_media)
            return err_set(e, "%s and does not support image input (it is not a multimodal model); leave %s out", model_info_blind(&l->info),
                           m->pictures && m->pictures->name.n ? m->pictures->name.p : "the picture");
    }
    return true;
}

/* Submits the request when its pictures are decoded. */
static void submit_seen(struct local *l)
{
    struct err e = {0};
    const enum sights_state state = l->speaking == STOPPING ? SIGHTS_THERE : sights_update(&l->sights, local_views(l), &e);
    l->awaits = state == SIGHTS_AWAITED;
    if (l->speaking == STOPPING) {
        sights_abandon(&l->sights, local_views(l));
        finish(l, END_INTERRUPTED, "");
    } else if (state == SIGHTS_FAILED) {
        finish(l, END_FAILED, e.msg);
    } else if (state == SIGHTS_THERE && !submit(l)) {
        finish(l, END_CONTEXT, "");
    }
}

enum request_result local_request(struct responder *r, const struct request *q, struct err *e)
{
    struct local *l = own(r);
    if (l->gone) {
        err_set(e, "the q35chat that had loaded the model has ended");
        return REQUEST_REFUSED;
    }
    if (!can_see(l, q, e) || !(q->plain ? take_plain(l, q, e) : take_messages(l, q, e)))
        return REQUEST_REFUSED;
    const int n_prompt = l->prompt.ids.n + sights_extra(&l->sights, l->prompt.ids.data, l->prompt.ids.n, l->pad);
    if (n_prompt >= l->info.n_ctx) {
        err_set(e, RESPONDER_TOO_LONG, l->info.n_ctx, n_prompt);
        return REQUEST_TOO_LONG;
    }
    if (!take_sampling(l, q, e))
        return REQUEST_REFUSED;
    l->sampling.patience_ms = q->patience_ms;
    l->sampling.client = q->client;
    l->early.awaits = false;
    l->conversation = q->conversation;
    l->answered_before = has_answer(q);
    l->think_budget = q->think_budget;
    begin_speech(l, q);
    const struct ids *ids = &l->speech.ids;
    if (l->speaking == STOPPING)
        finish(l, END_INTERRUPTED, "");
    else if (ids->n && is_stop(l, ids->data[ids->n - 1]))
        finish(l, END_STOP, "");             /* the answer branches off with its end */
    else
        submit_seen(l);
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
    const bool ok = can_see(own(r), q, e) && local_prompt(r, q, &ids, NULL, e);
    const int n = ok ? ids.n + sights_measure(&local_views(own(r))->limits, q->messages, q->n_messages) : -1;
    ids_free(&ids);
    return n;
}

bool local_look(struct responder *r, struct media *m, const struct image_wish *wish, struct err *e)
{
    return views_look(local_views(own(r)), m, wish, e);
}

int local_used(const struct responder *r)
{
    const struct local *l = (const struct local *)r;
    return l->prompt.ids.n + sights_extra(&l->sights, l->prompt.ids.data, l->prompt.ids.n, l->pad) + l->speech.ids.n;
}

/* Sends the beginning of the next prompt to the engine, to be read ahead, once its pictures are decoded. */
static void read_early(struct local *l)
{
    struct placed p;
    const enum sights_state state = sights_update(&l->early.sights, local_views(l), NULL);
    l->early.awaits = state == SIGHTS_AWAITED;
    if (state != SIGHTS_THERE)
        return;
    if (l->source->files) {             /* without files, as far as there is no picture */
        int n = l->source->pictures.len ? l->early.ids.n : 0;
        while (n < l->early.ids.n && l->early.ids.data[n] != l->pad)
            n++;
        l->source->ops->read_ahead(l->source, l->early.conversation, spans_text(l->early.ids.data, n), least(n, l->early.snapshot_pos));
        return;
    }
    if (sights_place(&l->early.sights, &l->early.ids, l->pad, true, &p, NULL)) {
        const int snapshot_pos = l->early.snapshot_pos + sights_extra(&l->early.sights, l->early.ids.data, l->early.snapshot_pos, l->pad);
        l->source->ops->read_ahead(l->source, l->early.conversation, p.spans, snapshot_pos);
    }
    placed_free(&p);
}

/* Begins to read ahead these tokens and the pictures of the request.  Their files go along to another program, unless they are too much for each
 * pause of the user. */
static void begin_early(struct local *l, const struct request *q, const struct ids *ids, int snapshot_pos)
{
    enum { MOST_BYTES = 6 << 20 };
    size_t bytes = 0;
    for (int i = 0; i < q->n_messages; i++)
        for (int k = 0; k < q->messages[i].n_media && q->messages[i].pictures; k++)
            bytes += q->messages[i].pictures[k].bytes.n;
    buf_reset(&l->source->pictures);
    if (l->source->files && bytes && bytes <= MOST_BYTES)
        list_files(q, &l->source->pictures);
    l->early.ids.n = 0;
    ids_append(&l->early.ids, ids->data, ids->n);
    l->early.conversation = q->conversation;
    l->early.snapshot_pos = snapshot_pos;
    read_early(l);
}

void local_read_ahead(struct responder *r, const struct request *q)
{
    struct local *l = own(r);
    l->early.awaits = false;
    if (!can_see(l, q, NULL) || !sights_take(&l->early.sights, local_views(l), q->messages, q->n_messages, NULL))
        return;
    if (q->plain) {
        begin_early(l, q, q->plain, q->snapshot_pos);
        return;
    }
    struct conversation c = conversation_of(q);
    const struct message *last = &q->messages[q->n_messages - 1];
    c.generation_prompt = c.thinking = false;
    struct ids ids = {0};
    /* the snapshot is made before the typed words, which may change */
    const struct ids *beginning = last->content.n ? &ids : &l->head;
    if (last->content.n ? prompt_typed(&l->head, last, l->tok, &ids) : prompt_beginning(&c, l->tok, &l->head))
        begin_early(l, q, beginning, l->head.n);
    ids_free(&ids);
}

void local_seen(struct local *l)
{
    if (l->early.awaits)
        read_early(l);
    if (l->awaits)
        submit_seen(l);
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
    else if (l->awaits)
        views_notice(local_views(l));
}

bool local_end_thought(struct responder *r)
{
    struct local *l = own(r);
    if (!l->serial || l->speaking == STOPPING || !speech_reasons(&l->speech))
        return false;
    if (l->speaking != LEAVING_THOUGHT)
        l->source->ops->interrupt(l->source, l->serial);
    l->speaking = LEAVING_THOUGHT;      /* on_done() continues */
    return true;
}

/* --- events of the engine ------------------------------------------------------------------------------------------- */

/* Returns how many of the tokens that were read ahead come after the beginning that was known before the user typed. */
static int count_typed(const struct local *l, const struct stats *t)
{
    const struct ids *head = &l->head, *all = &l->prompt.ids;
    bool begins = head->n && head->n <= all->n && !memcmp(head->data, all->data, (size_t)head->n * sizeof *head->data);
    int after = begins ? t->n_cached - head->n - sights_extra(&l->sights, head->data, head->n, l->pad) : 0;
    return after <= 0 ? 0 : after < t->n_ahead ? after : t->n_ahead;
}

/* Updates the figures of the answer so far: of the requests that have ended, and of this one. */
static void update_stats(struct local *l, const struct stats *of_engine)
{
    struct stats s = *of_engine;
    s.n_typed = count_typed(l, &s);
    l->so_far = l->ended;
    stats_add(&l->so_far, &s, l->continues);
}

/* Sends the tokens of a step through the parser, until the answer is complete. */
static void on_tokens(struct local *l, const struct event *ev)
{
    update_stats(l, &ev->stats);
    l->speech.stats = &l->so_far;
    for (int i = 0; i < ev->n && !l->enough; i++) {
        const struct logprobs *o = &ev->logprobs[i];
        struct token t = {.id = ev->ids[i], .source = ev->source[i], .prob = o->prob};
        speech_push(&l->speech, t, o, is_stop(l, t.id));
    }
}

/* Reports why tokens were computed again, unless the prompt is the first one of its conversation. */
static void report_refill(const struct local *l, const struct refill *r)
{
    struct buf why = {0};
    if (!r->happened || (!r->resident && !l->answered_before))
        return;
    struct placed p;
    sights_place(&l->sights, &l->prompt.ids, l->pad, true, &p, NULL);
    refill_describe(r, &p.ids, l->tok, &why);
    placed_free(&p);
    responder_tell(&l->base, &(struct news){.kind = NEWS_REFILL, .text = text_of(buf_str(&why))});
    buf_free(&why);
}

/* Ends the answer, or continues it if only its reasoning was to end. */
static void on_done(struct local *l, const struct event *ev)
{
    enum end end = ev->finish;
    const int most = l->sampling.max_tokens;
    bool thought_ends = (l->speaking == TO_BUDGET && end == END_LENGTH)
                     || (l->speaking == LEAVING_THOUGHT && (end == END_LENGTH || end == END_INTERRUPTED));
    l->serial = 0;
    if (!l->continues)
        report_refill(l, &ev->stats.refill);
    update_stats(l, &ev->stats);
    l->ended = l->so_far;
    if (thought_ends && most && l->ended.n_tokens >= most) {    /* the answer had just reached its limit */
        end = END_LENGTH;
    } else if (thought_ends) {
        l->continues = true;
        if (speech_reasons(&l->speech))
            end_reasoning(l);
        if (l->speaking != STOPPING && submit(l))
            return;
        end = l->speaking == STOPPING ? END_INTERRUPTED : END_CONTEXT;
    }
    finish(l, end, end_failed(end) ? ev->message : "");
}

void local_event(struct local *l, const struct event *ev)
{
    if (!l->serial || ev->serial != l->serial)
        return;
    if (ev->kind == EV_TOKENS)
        on_tokens(l, ev);
    else if (ev->kind == EV_DONE)
        on_done(l, ev);
    else if (ev->kind == EV_PREFILL && !l->continues)
        responder_tell(&l->base, &(struct news){.kind = NEWS_READING, .done = ev->done, .total = ev->total, .cached = ev->cached});
}

/* --- tokens of answers that are given --------------------------------------------------------------------------- */

/* How the parser reads ids.  It is not stored with an answer which tools there were, and whether it began with reasoning. */
struct reading {
    const struct text *tools;
    int  n_tools;
    bool thinking;
};

/* The texts that ids decode to. */
struct texts {
    struct buf reasoning, content;
    struct tokens tokens;
};

static void texts_free(struct texts *t)
{
    buf_free(&t->reasoning);
    buf_free(&t->content);
    tokens_free(&t->tokens);
}

/* Adds a piece of news to the texts, with the place of its tokens in them. */
static void add_to_texts(const struct news *it, void *arg)
{
    struct texts *t = arg;
    struct buf *to = it->kind == NEWS_REASONING ? &t->reasoning : &t->content;
    if (it->kind == NEWS_TOKEN)
        tokens_add(&t->tokens, it->token, NULL);
    if (it->kind != NEWS_REASONING && it->kind != NEWS_TEXT)
        return;
    tokens_place(&t->tokens, it->kind == NEWS_REASONING, it->from, it->text.n, to->len);
    buf_add(to, it->text.p, it->text.n);
}

/* True if the text is the stored one.  After a cut the ids may hold more: text that the parser held back did not reach the disk. */
static bool matches(const struct buf *found, struct text stored, bool cut)
{
    return (found->len == stored.n || (cut && found->len > stored.n)) && !memcmp(buf_str(found), stored.p ? stored.p : "", stored.n);
}

/* Decodes ids into *t.  True if the texts are those of the message. */
static bool reads_as(const struct local *l, const struct ids *ids, struct reading r, const struct spoken *s, struct texts *t)
{
    struct speech speech = {0};
    bool known = true;
    buf_reset(&t->reasoning);
    buf_reset(&t->content);
    tokens_reset(&t->tokens);
    t->tokens.thinking = r.thinking;
    speech_begin(&speech, l->tok, r.tools, r.n_tools, r.thinking, add_to_texts, t);
    for (int i = 0; i < ids->n && known; i++) {
        known = ids->data[i] >= 0 && ids->data[i] < tokenizer_n_ids(l->tok);
        if (known)
            speech_push(&speech, (struct token){.id = ids->data[i], .source = s->ids ? TOKEN_SAMPLED : TOKEN_FORCED, .prob = -1}, NULL, false);
    }
    speech_finish(&speech, s->stopped);
    speech_free(&speech);
    return known && matches(&t->reasoning, s->m->reasoning, s->cut) && matches(&t->content, s->m->content, s->cut);
}

/* Makes schemas of the tools that m calls, which may no longer be offered. */
static struct text *own_tools(const struct message *m, struct arena *mem)
{
    struct text *tools = arena_array(mem, (size_t)m->n_calls + 1, sizeof *tools);
    for (int i = 0; i < m->n_calls; i++) {
        struct text name = m->calls[i].name;
        json_t *schema = json_pack("{s:s, s:{s:s%}}", "type", "function", "function", "name", name.p, name.n);
        char *text = memory_got(schema ? json_dumps(schema, JSON_COMPACT) : memory_strdup("{}"));
        tools[i] = (struct text){arena_strndup(mem, text, strlen(text)), strlen(text)};
        free(text);
        json_decref(schema);
    }
    return tools;
}

/* True if the answer began with reasoning. */
static bool began_thinking(const struct local *l, const struct ids *ids, const struct message *m)
{
    int end = tokenizer_special(l->tok, "</think>");
    bool thinking = m->reasoning.n > 0;
    for (int i = 0; i < ids->n && !thinking; i++)
        thinking = ids->data[i] == end;
    return thinking;
}

/* Reads ids with each guess about tools and reasoning until the texts are those of the message. */
static bool read_ids(const struct local *l, const struct ids *ids, const struct spoken *s, struct tokens *out)
{
    struct texts t = {0};
    struct arena mem = {0};
    const struct text *own = own_tools(s->m, &mem);
    bool thinking = began_thinking(l, ids, s->m), found = false;
    for (int k = 0; k < 4 && !found; k++) {
        bool other = k & 1;
        struct reading r = {k & 2 ? own : s->tools, k & 2 ? s->m->n_calls : s->n_tools, thinking != other};
        found = reads_as(l, ids, r, s, &t);
    }
    if (found) {
        *out = t.tokens;
        t.tokens = (struct tokens){0};
    }
    texts_free(&t);
    arena_free(&mem);
    return found;
}

bool local_tokens(struct responder *r, const struct spoken *s, struct tokens *out)
{
    const struct local *l = (const struct local *)r;
    struct text thought = s->m->reasoning, said = s->m->content;
    struct ids ids = {0};
    if (s->ids)
        return read_ids(l, s->ids, s, out);
    tokenizer_encode(l->tok, thought.p, thought.n, false, &ids);
    if (thought.n && said.n)
        tokenizer_encode(l->tok, THOUGHT_END, strlen(THOUGHT_END), true, &ids);
    tokenizer_encode(l->tok, said.p, said.n, false, &ids);
    bool ok = ids.n && ids.n <= l->info.n_ctx && read_ids(l, &ids, s, out);
    ids_free(&ids);
    return ok;
}

bool local_says(struct responder *r, const struct spoken *s, const struct tokens *t)
{
    struct texts texts = {0};
    struct ids ids = {0};
    for (int i = 0; i < t->n; i++)
        ids_add(&ids, t->all[i].id);
    bool same = reads_as((const struct local *)r, &ids, (struct reading){s->tools, s->n_tools, t->thinking}, s, &texts);
    texts_free(&texts);
    ids_free(&ids);
    return same;
}

void local_free_answer(struct local *l)
{
    speech_free(&l->speech);
    prompt_free(&l->prompt);
    ids_free(&l->head);
    ids_free(&l->early.ids);
    sights_free(&l->early.sights, local_views(l));
    sights_free(&l->sights, local_views(l));
    views_close(&l->views);
    biases_free(&l->biases);
    local_free_guide(l);
}
