#include "chat/answer.h"

#include <ctype.h>
#include <string.h>

/* --- stop strings ------------------------------------------------------------------------------------------------ */

/* Returns the beginning of the earliest stop string, or held.len. */
static size_t find_stop(const struct stopper *s)
{
    size_t best = s->held.len;
    for (int i = 0; i < s->n_stops; i++) {
        const char *at = memmem(s->held.data, s->held.len, s->stops[i], strlen(s->stops[i]));
        if (at && (size_t)(at - s->held.data) < best)
            best = (size_t)(at - s->held.data);
    }
    return best;
}

/* Returns the length of the longest end of `held` that is the beginning of a stop string. */
static size_t possible_stop(const struct stopper *s)
{
    size_t longest = 0;
    for (int i = 0; i < s->n_stops; i++) {
        size_t k = strlen(s->stops[i]);
        if (k > s->held.len)
            k = s->held.len;
        while (k > longest && memcmp(s->held.data + s->held.len - k, s->stops[i], k))
            k--;
        if (k > longest)
            longest = k;
    }
    return longest;
}

static size_t without_blanks(const struct stopper *s, size_t n)
{
    while (n && isspace((unsigned char)s->held.data[n - 1]))
        n--;
    return n;
}

void stopper_push(struct stopper *s, const char *text, size_t n, struct buf *out)
{
    if (s->hit || !n)
        return;
    if (!s->n_stops) {
        buf_add(out, text, n);
        return;
    }
    buf_add(&s->held, text, n);
    size_t at = find_stop(s), keep = possible_stop(s), give;
    if (at < s->held.len) {
        s->hit = true;
        for (int i = 0; i < s->n_stops && !s->found; i++)
            if (s->held.len - at >= strlen(s->stops[i]) && !memcmp(s->held.data + at, s->stops[i], strlen(s->stops[i])))
                s->found = s->stops[i];
        give = without_blanks(s, at);
    } else {
        give = keep ? without_blanks(s, s->held.len - keep) : s->held.len;
    }
    buf_add(out, s->held.data, give);
    buf_consume(&s->held, give);
}

void stopper_finish(struct stopper *s, struct buf *out)
{
    if (!s->hit && s->held.len)
        buf_add(out, s->held.data, s->held.len);
    buf_reset(&s->held);
}

void stopper_reset(struct stopper *s, const char *const *stops, int n_stops)
{
    buf_reset(&s->held);
    s->stops = stops;
    s->n_stops = n_stops;
    s->hit = false;
    s->found = NULL;
}

void stopper_free(struct stopper *s)
{
    buf_free(&s->held);
}

/* --- repetition -------------------------------------------------------------------------------------------------- */

bool loop_push(struct loop *l, const struct ids *ids)
{
    const int last = ids->n - 1, longest = last < LOOP_LONGEST ? last : LOOP_LONGEST;
    l->span = l->times = 0;
    for (int d = 1; d <= longest; d++)
        l->same[d] = ids->data[last] == ids->data[last - d] ? l->same[d] + 1 : 0;
    for (int d = 1; d <= longest && !l->span; d++) {
        const int all = l->same[d] + d;         /* the first span equals nothing before it */
        if (l->same[d] && all >= LOOP_TOKENS && all / d >= LOOP_TIMES) {
            l->span = d;
            l->times = all / d;
        }
    }
    return l->span > 0;
}

/* --- the answer -------------------------------------------------------------------------------------------------- */

/* Keeps the name and the id of the call that begins.  The id is the server's, else it is made here, once. */
static void begin_call(struct answer *a, const struct news *it)
{
    struct buf id = {0};
    buf_adds(&id, it->id.n ? "" : "call_");
    it->id.n ? buf_add(&id, it->id.p, it->id.n) : buf_add_random(&id, 24);
    a->call_name = arena_strndup(&a->mem, it->text.p, it->text.n);
    a->call_id = arena_strndup(&a->mem, id.data, id.len);
    buf_free(&id);
}

void answer_take(struct answer *a, const struct news *it)
{
    if (a->stopper.hit || a->too_many)          /* an answer that repeats itself keeps the text of its last token */
        return;
    switch (it->kind) {
    case NEWS_TOKEN:
        ids_add(&a->ids, it->token.id);
        loop_push(&a->loop, &a->ids);
        a->looped = a->guarded && a->loop.span;
        tokens_add(&a->tokens, it->token, it->alternatives);
        break;
    case NEWS_REASONING:
        tokens_place(&a->tokens, true, it->from, it->text.n, a->reasoning.len);
        buf_add(&a->reasoning, it->text.p, it->text.n);
        break;
    case NEWS_TEXT:
        tokens_place(&a->tokens, false, it->from, it->text.n, a->n_text);
        a->n_text += it->text.n;
        stopper_push(&a->stopper, it->text.p, it->text.n, &a->content);
        break;
    case NEWS_CALL_BEGIN:
        stopper_finish(&a->stopper, &a->content);
        a->too_many = a->n_calls == ANSWER_MAX_CALLS;
        begin_call(a, it);
        break;
    case NEWS_CALL:
        a->calls = arena_grow(&a->mem, a->calls, a->n_calls, &a->cap_calls, sizeof *a->calls);
        a->calls[a->n_calls++] = (struct answer_call){
            a->call_name ? a->call_name : "", a->call_id ? a->call_id : "",
            {arena_strndup(&a->mem, it->text.p, it->text.n), it->text.n}, it->truncated,
        };
        break;
    default:
        return;
    }
    a->gained |= !it->replayed;
}

void answer_begin(struct answer *a, bool thinking, const char *const *stops, int n_stops)
{
    buf_reset(&a->reasoning);
    buf_reset(&a->content);
    arena_free(&a->mem);
    a->ids.n = 0;
    tokens_reset(&a->tokens);
    a->tokens.thinking = thinking;
    a->n_text = 0;
    a->calls = NULL;
    a->n_calls = a->cap_calls = 0;
    a->too_many = a->guarded = a->looped = a->gained = false;
    a->loop = (struct loop){0};
    a->call_name = a->call_id = NULL;
    const char **own = arena_array(&a->mem, (size_t)n_stops + 1, sizeof *own);          /* /set may change the list during the answer */
    for (int i = 0; i < n_stops; i++)
        own[i] = stops[i];
    stopper_reset(&a->stopper, own, n_stops);
}

bool answer_is_over(const struct answer *a)
{
    return a->stopper.hit || a->too_many || a->looped;
}

void answer_finish(struct answer *a)
{
    stopper_finish(&a->stopper, &a->content);
}

struct entry *answer_entry(const struct answer *a, struct transcript *t, bool whole)
{
    struct entry *m = transcript_add(t, ROLE_ASSISTANT, buf_str(&a->content), a->content.len);
    entry_reasoning(m, buf_str(&a->reasoning), a->reasoning.len);
    for (int i = 0; i < a->n_calls && whole; i++)
        entry_call(m, a->calls[i].id, a->calls[i].name, a->calls[i].arguments.p, a->calls[i].arguments.n);
    if (!a->stopper.hit)
        ids_append(&m->ids, a->ids.data, a->ids.n);
    return m;
}

void answer_free(struct answer *a)
{
    stopper_free(&a->stopper);
    buf_free(&a->reasoning);
    buf_free(&a->content);
    ids_free(&a->ids);
    tokens_free(&a->tokens);
    arena_free(&a->mem);
    *a = (struct answer){0};
}
