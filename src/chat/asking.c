#include "chat/asking.h"

#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "chat/forms.h"
#include "chat/state.h"
#include "guide/form.h"
#include "option/preset.h"

/* Returns a random seed of 53 bits, which every JSON reader can hold. */
static uint64_t draw_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = (uint64_t)clock_ns();
    return seed >> 11;
}

/* Returns the number of this answer among those to its message, since each gets another seed; an answer that is continued keeps its own. */
static int which_answer(const struct chat *c)
{
    int which = 0;
    if (c->turn.continued)
        transcript_siblings(&c->t, c->turn.continued, &which);
    else if (turn_is_kept(c->turn.kind))
        which = transcript_n_children(&c->t, c->t.entries[c->t.n - 1]);
    return which;
}

struct sampling asking_sampling(struct chat *c)
{
    struct sampling s;
    preset_sampling(c->o, c->responder->ops->info(c->responder), &s);
    s.n_alternatives = c->front.inspects ? options_int(c->o, OPT_alternatives) : 0;
    if (!c->turn.stats.n_rounds)
        c->turn.stats.seed = c->turn.prefix.seeded ? c->turn.prefix.seed
                      : options_given(c->o, OPT_seed) ? s.seed + (uint64_t)which_answer(c) : draw_seed();
    s.seed = c->turn.stats.seed + (uint64_t)c->turn.stats.n_rounds;
    if (c->turn.kind == TURN_SUMMARY)
        s.max_tokens = c->summary.room;
    return s;
}

/* Returns the option `begin` without blanks around it, which neither begin an answer nor end a word. */
static struct text given_text(const struct chat *c)
{
    return text_trim(text_of(options_text(c->o, OPT_begin)));
}

bool asking_begins(struct chat *c, struct err *e)
{
    const struct text text = given_text(c);
    c->turn.begins = text.n && !c->turn.prefix.n && !c->turn.continued && turn_is_kept(c->turn.kind);
    if (!c->turn.begins || (!c->responder->can.begin_tokens && c->responder->can.begin_text))
        return true;
    if (!c->responder->can.begin_tokens)
        return err_set(e, "this model's answers cannot begin with a given text: leave out `begin`");
    const struct message m = {.role = ROLE_ASSISTANT, .content = text};
    struct spoken s = {.m = &m, .stopped = true};
    s.tools = tools_schemas(c->calls.tools, &s.n_tools);
    bool seeded = c->turn.prefix.seeded;
    uint64_t seed = c->turn.prefix.seed;
    tokens_free(&c->turn.prefix);
    bool ok = c->responder->ops->tokens(c->responder, &s, &c->turn.prefix);
    c->turn.prefix.seeded = seeded;
    c->turn.prefix.seed = seed;
    return ok || err_set(e, "an answer cannot begin with '%s': the model's tokens do not give that text back", options_text(c->o, OPT_begin));
}

/* Adds the calls of an aside so far, and their results, to its request. */
static void add_aside_calls(const struct chat *c, struct request *q, struct arena *mem)
{
    struct message *all = arena_array(mem, (size_t)q->n_messages + (size_t)c->aside.n, sizeof *all);
    memcpy(all, q->messages, (size_t)q->n_messages * sizeof *all);
    for (int i = 1; i < c->aside.n; i++)
        all[q->n_messages++] = c->aside.entries[i]->m;
    q->messages = all;
}

struct request asking_request(const struct chat *c, enum turn_kind kind, struct arena *mem)
{
    struct request q = {
        .conversation = state_conversation(c), .thinking = c->turn.thinking, .think_budget = c->turn.think_budget,
        .follows = c->turn.stats.n_rounds > 0,
    };
    const char *more = kind == TURN_SUMMARY ? buf_str(&c->summary.request) : kind == TURN_ASIDE ? c->aside.entries[0]->m.content.p : NULL;
    q.messages = sent_messages(&c->t, more, mem, &q.n_messages);
    if (kind == TURN_ASIDE)
        add_aside_calls(c, &q, mem);
    q.tools = tools_schemas(c->calls.tools, &q.n_tools);
    q.no_calls = kind == TURN_SUMMARY;
    q.free_calls = !options_on(c->o, OPT_tool_guide);
    if (kind != TURN_SUMMARY)
        q.form = forms_wanted(c->o, mem);
    if (options_on(c->o, OPT_schema_prompt))
        q.messages = form_worded(&q.form, q.messages, q.n_messages, q.n_tools > 0, mem);
    if (c->turn.prefix.n)
        q.prefix.tokens = &c->turn.prefix;
    else if (c->turn.begins && !c->turn.stats.n_rounds)
        q.prefix.content = given_text(c);
    else if (c->turn.continued)
        q.prefix = (struct given){.reasoning = c->turn.continued->m.reasoning, .content = c->turn.continued->m.content};
    return q;
}

bool asking_thinks(const struct chat *c)
{
    if (c->turn.prefix.n)
        return c->turn.prefix.thinking;
    if (c->turn.continued && c->turn.continued->m.content.n)
        return c->turn.continued->m.reasoning.n > 0;
    return options_on(c->o, OPT_think) && c->turn.kind != TURN_SUMMARY;
}

int asking_count(struct chat *c, enum turn_kind kind, struct err *e)
{
    struct arena mem = {0};
    struct request q = asking_request(c, kind, &mem);
    q.thinking = q.thinking && kind != TURN_SUMMARY;
    int n = c->responder->ops->count_prompt(c->responder, &q, e);
    arena_free(&mem);
    return n;
}

const char *chat_asked_aside(const struct chat *c)
{
    return c->turn.kind == TURN_ASIDE ? c->aside.entries[0]->m.content.p : NULL;
}
