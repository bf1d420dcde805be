/* Answers of one responder: one after the other, each may be paused and go on later, there or elsewhere. */
#include "base/clock.h"
#include "base/due.h"
#include "answer/stats.h"
#include "serve/server_state.h"

/* Of /v1/completions and of an attached q35chat: the tokens of its prompt.  What the answer begins with is none of it. */
static void find_plain(struct server *s, struct question *q)
{
    if (!q->plain && !q->relayed)
        return;
    if (q->prompt.p)
        s->r->ops->encode(s->r, q->prompt, true, &q->ids);
    q->request.plain = &q->ids;
    for (int i = q->ids.n - q->n_answer_prefix; i < q->ids.n; i++)
        tokens_add(&q->prefix, (struct token){.id = q->ids.data[i], .source = TOKEN_FORCED, .prob = -1}, NULL);
    q->ids.n -= q->n_answer_prefix;
    if (q->prefix.n)
        q->request.prefix.tokens = &q->prefix;
}

static void begin(struct lane *l)
{
    struct server *s = l->s;
    struct job *j = l->now;
    struct err e = {{0}};
    j->question.request.patience_ms = due_patience_ms(j->due, clock_ns());
    question_sampling(&j->question, s->so.o, l->r->ops->info(l->r));
    find_plain(s, &j->question);
    choice_begin(&j->choice, &j->question, l->r, buf_str(&s->model));
    j->begun = true;
    const bool known = question_prefix(&j->question, s->r, &e);
    const enum request_result how = known ? l->r->ops->request(l->r, &j->question.request, &e) : REQUEST_REFUSED;
    if (how != REQUEST_TAKEN) {
        s->figures.refused++;
        job_refuse(j, 400, e.msg, how == REQUEST_TOO_LONG ? "context_length_exceeded" : NULL);
        lane_end(l);
    } else if (j->question.streams && j->x && !l->now_over) {
        job_begin(j);
        job_flush(j);
    }
}

void lane_end(struct lane *l)
{
    struct job *j = l->now;
    l->now = NULL;
    l->now_over = false;
    job_free(j);
}

void end_answer(struct server *s, struct job *j, const struct news *it)
{
    struct figures *f = &s->figures;
    struct news last = *it;
    if (it->stats)
        stats_add(&j->before, it->stats, j->resumed);
    last.stats = &j->before;
    f->failed += end_failed(it->end);
    f->answers += j->x && !end_failed(it->end);
    figures_add(f, last.stats);
    job_end(j, &last);
}

void end_waiting(struct server *s, struct job *j)
{
    static const char said[] = "{\"done\": \"interrupted\", \"why\": \"\"}\n";
    queue_remove(j);
    if (j->begun)
        end_answer(s, j, &(struct news){.kind = NEWS_DONE, .end = END_INTERRUPTED});
    else if (j->x)                      /* only another q35chat can ask for that */
        exchange_reply(j->x, 200, "application/x-ndjson", text_of(said), 0);
    job_free(j);
}

static void take_done(struct lane *l, const struct news *it)
{
    l->now_over = true;
    end_answer(l->s, l->now, it);
}

/* ---- it is paused, and goes on ---- */

void lane_pause(struct lane *l)
{
    if (!l->now || l->now_over || l->pauses)
        return;
    l->pauses = true;
    l->now->n_told = l->now->said.n;
    l->r->ops->interrupt(l->r);
}

/* It has stopped, and the responder is free for others.  An answer that was to end then does not go on. */
static void take_paused(struct lane *l, const struct news *it)
{
    struct server *s = l->s;
    struct job *j = l->now;
    if (!j->x || j->unwanted || choice_is_over(&j->choice)) {
        take_done(l, it);
        return;
    }
    if (it->stats)
        stats_add(&j->before, it->stats, j->resumed);
    l->now = NULL;
    queue_add(job_is_unread(j, JOB_LITTLE_UNREAD) ? &s->unread : &s->waiting, j);
}

/* As if it had not been paused: behind its tokens, with what is left of its limit. */
static void go_on(struct lane *l)
{
    struct job *j = l->now;
    struct request q = j->question.request;
    struct err e = {{0}};
    const int most = q.sampling.max_tokens;
    if (most && j->before.n_tokens >= most && j->said.n > j->n_told) {         /* the last one is sampled again, so that all are told */
        j->said.n--;
        j->before.n_tokens--;
    }
    int left = most - j->before.n_tokens;
    j->resumed = true;
    j->n_again = 0;
    j->choice.responder = l->r;
    q.patience_ms = due_patience_ms(j->due, clock_ns());
    q.prefix.tokens = j->said.n ? &j->said : NULL;
    q.sampling.max_tokens = most ? left : 0;
    if (most && left <= 0)
        take_done(l, &(struct news){.kind = NEWS_DONE, .end = END_LENGTH});
    else if (l->r->ops->request(l->r, &q, &e) != REQUEST_TAKEN)
        take_done(l, &(struct news){.kind = NEWS_DONE, .end = END_FAILED, .text = text_of(e.msg)});
}

void lane_start(struct lane *l)
{
    l->now = queue_take(&l->s->waiting);
    l->now->begun ? go_on(l) : begin(l);
}

/* ---- what the responder tells ---- */

/* A part of the answer.  While the answer is being paused, tokens that still come are kept, so that the responder can go on behind them, but not
 * told: an interrupted responder also tells what its parser had held back, and that may go on otherwise.  They are told when they come again. */
static void take_part(struct lane *l, const struct news *it)
{
    struct job *j = l->now;
    struct news part = *it;
    if (!j || l->now_over)
        return;
    bool again = it->replayed && j->resumed;
    if (it->kind == NEWS_TOKEN && again)
        j->n_again++;
    if (it->kind == NEWS_TOKEN && !again)
        tokens_add(&j->said, it->token, NULL);
    if (l->pauses)
        return;
    part.replayed = it->replayed && !(again && j->n_again > j->n_told);
    if (!choice_news(&j->choice, &part))
        l->r->ops->interrupt(l->r);     /* a stop string came */
    job_flush(j);
}

void lane_take(struct lane *l, const struct news *it)
{
    if (it->kind != NEWS_DONE) {
        take_part(l, it);
        return;
    }
    const bool paused = l->pauses && it->end == END_INTERRUPTED;       /* else it had just come to its end */
    l->pauses = false;
    if (l->now && !l->now_over)
        (paused ? take_paused : take_done)(l, it);
}

void lane_interrupt(struct lane *l)
{
    l->now->unwanted = true;
    lane_left(l);
}

void lane_left(struct lane *l)
{
    if (!l->now_over && !l->pauses)
        l->r->ops->interrupt(l->r);
}

struct lane *lane_of(struct server *s, const struct job *j)
{
    for (int i = 0; i < s->n_lanes; i++)
        if (s->lanes[i].now == j)
            return &s->lanes[i];
    return NULL;
}
