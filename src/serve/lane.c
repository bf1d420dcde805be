/* Jobs: their queues, and the lanes where they are answered, one after the other.  Each may be paused, and continued later, there or elsewhere. */
#include <math.h>
#include <stdlib.h>

#include "answer/stats.h"
#include "base/clock.h"
#include "serve/server_state.h"

/* ---- jobs ---- */

void job_free(struct job *j)
{
    if (j->x)
        exchange_set_data(j->x, NULL);
    if (j->begun)
        response_free(&j->response);
    tokens_free(&j->tokens);
    question_free(&j->question);
    free(j);
}

/* Sends what the answer has gained. */
static void flush_job(struct job *j)
{
    struct buf *out = &j->response.out;
    if (j->x && j->question.streams && out->len) {
        exchange_write(j->x, (struct text){out->data, out->len});
        j->wrote_ns = clock_ns();
    }
    buf_reset(out);
}

void job_refuse(struct job *j, int status, const char *message, const char *code)
{
    char param[QUESTION_PARAM];
    const struct refusal f = {status, message, code, question_param(message, code, param)};
    if (j->x && exchange_has_begun(j->x)) {
        response_fail(&j->response, &f, NULL);
        flush_job(j);
        exchange_end(j->x);
    } else if (j->x) {
        exchange_refuse(j->x, &f, 0);
    }
}

/* Sends the status line, if it was not sent, and what there is of the stream. */
static void begin_stream(struct job *j)
{
    if (!exchange_has_begun(j->x)) {
        exchange_begin(j->x, j->response.format->stream_type);
        j->wrote_ns = clock_ns();
    }
    flush_job(j);
}

static void begin_response(struct server *s, struct job *j)
{
    if (j->begun)
        return;
    response_begin(&j->response, &j->question, s->r, buf_str(&s->model));
    buf_adds(&j->response.request_id, j->x ? exchange_id(j->x) : "");
    j->begun = true;
}

/* ---- figures ---- */

enum { TOGETHER_NS = 200000 };          /* tokens of one step come within so long */

/* Counts the time before the tokens that came last. */
static void count_gap(struct metrics *m, struct job *j)
{
    if (j->gap_s > 0)
        metrics_observe(m, HISTOGRAM_TOKEN, j->gap_s / j->n_together, j->n_together);
    j->gap_s = 0;
}

/* Counts the time since the token before; tokens that come together share one. */
static void count_token(struct metrics *m, struct job *j)
{
    const int64_t now = clock_ns();
    if (j->token_ns && now - j->token_ns < TOGETHER_NS) {
        j->n_together++;
        return;
    }
    if (j->token_ns) {
        count_gap(m, j);
        j->gap_s = (double)(now - j->token_ns) * 1e-9;
    } else {
        metrics_observe(m, HISTOGRAM_FIRST_TOKEN, (double)(now - j->asked_ns) * 1e-9, 1);
    }
    j->token_ns = now;
    j->n_together = 1;
}

/* Adds an answer that has ended to the metrics. */
static void count_answer(struct server *s, struct job *j, enum end end)
{
    struct metrics *m = &s->metrics;
    const bool aborted = end == END_INTERRUPTED || !j->x;
    count_gap(m, j);
    metrics_observe(m, HISTOGRAM_REQUEST, clock_ms_since(j->asked_ns) / 1000, 1);
    m->answers += j->x && !end_failed(end);
    *(end_failed(end) ? &m->failed : aborted ? &m->aborted : end == END_LENGTH || end == END_CONTEXT ? &m->length : &m->stopped) += 1;
    metrics_answer(m, &j->before, j->key >= 0 ? &s->so.keys->list[j->key] : NULL);
}

void job_end(struct server *s, struct job *j, const struct news *it)
{
    struct news last = *it;
    if (it->stats)
        stats_add(&j->before, it->stats, j->resumed);
    last.stats = &j->before;
    count_answer(s, j, it->end);
    response_done(&j->response, &last);
    if (it->end == END_STOP)
        recall_keep(&s->recall, &j->response, &j->tokens);
    if (j->x && j->question.streams) {
        begin_stream(j);
        exchange_end(j->x);
    } else if (j->x) {
        exchange_json(j->x, j->response.failed ? j->response.failed : 200, &j->response.out);
    }
}

void job_end_waiting(struct server *s, struct job *j)
{
    queue_remove(j);
    if (j->x)                           /* an attached chat may have interrupted it before it began */
        begin_response(s, j);
    if (j->begun)
        job_end(s, j, &(struct news){.kind = NEWS_DONE, .end = END_INTERRUPTED});
    job_free(j);
}

bool job_is_unread(const struct job *j, size_t bytes)
{
    return j->x && j->question.streams && exchange_unread(j->x) > bytes;
}

/* ---- a job waits ---- */

/* Makes the tokens of the prompt, unless they are there.  False with the reason if they are too many, or the prompt is refused. */
static bool make_prompt(struct server *s, struct question *q, const char **code, struct err *e)
{
    const struct model_info *info = s->r->ops->info(s->r);
    if (q->prompt.p)
        s->r->ops->encode(s->r, q->prompt, true, &q->ids);
    q->prompt.p = NULL;
    if (!q->plain && !q->request.made) {
        q->request.made = &q->ids;
        if (!question_prefix(q, s->r, e) || !s->r->ops->prompt(s->r, &q->request, &q->ids, &q->request.snapshot_pos, e))
            return false;
    }
    if (!info || q->ids.n < info->n_ctx)
        return true;
    *code = "context_length_exceeded";
    return err_set(e, RESPONDER_TOO_LONG, info->n_ctx, q->ids.n);
}

bool job_begin_waiting(struct server *s, struct job *j, const char **code, struct err *e)
{
    if (!j->question.streams || !j->question.format->wait)
        return true;
    if (s->ready && !make_prompt(s, &j->question, code, e))
        return false;
    begin_response(s, j);
    begin_stream(j);
    return true;
}

double job_silent_ms_left(const struct job *j)
{
    const bool waits = j->begun && j->x && j->question.streams && j->question.format->wait && exchange_has_begun(j->x) && !exchange_unread(j->x);
    return waits ? FORMAT_WAIT_MS - clock_ms_since(j->wrote_ns) : INFINITY;
}

void job_break_silence(struct job *j)
{
    if (job_silent_ms_left(j) > 0)
        return;
    j->response.format->wait(&j->response);
    flush_job(j);
}

/* ---- queues ---- */

void job_waits(struct job *j, int64_t since_ns)
{
    j->due = due_ns(since_ns, j->question.format->attached ? 0 : DUE_PATIENCE_MS);
}

void queue_add(struct queue *q, struct job *j)
{
    struct job **at = &q->first;
    while (*at && (*at)->due <= j->due)
        at = &(*at)->next;
    j->next = *at;
    j->in = q;
    *at = j;
    q->n++;
}

struct job *queue_take(struct queue *q)
{
    struct job *j = q->first;
    queue_remove(j);
    return j;
}

void queue_remove(struct job *j)
{
    struct job **at = &j->in->first;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    j->in->n--;
    j->in = NULL;
    j->next = NULL;
}

/* ---- an answer begins ---- */

/* Makes the tokens of a prompt that is a text or tokens.  Only the prompt's own tokens stay in q->ids: those that begin the answer, at the end of an
 * attached q35chat's, become the prefix. */
static void make_plain(struct server *s, struct question *q)
{
    if (q->prompt.p)
        s->r->ops->encode(s->r, q->prompt, true, &q->ids);
    q->request.plain = &q->ids;
    for (int i = q->ids.n - q->n_answer_prefix; i < q->ids.n; i++)
        tokens_add(&q->prefix, (struct token){.id = q->ids.data[i], .source = TOKEN_FORCED, .prob = -1}, NULL);
    q->ids.n -= q->n_answer_prefix;
    if (q->prefix.n)
        q->request.prefix.tokens = &q->prefix;
}

/* Begins the lane's job: sends its request to the responder, or refuses it. */
static void begin(struct lane *l)
{
    struct server *s = l->s;
    struct job *j = l->now;
    struct question *q = &j->question;
    struct err e = {{0}};
    q->request.client = (uint32_t)(j->key + 1);
    q->request.patience_ms = due_patience_ms(j->due, clock_ns());
    metrics_observe(&s->metrics, HISTOGRAM_QUEUE, clock_ms_since(j->asked_ns) / 1000, 1);
    question_sampling(q, s->so.o, l->r->ops->info(l->r));
    if (q->plain)
        make_plain(s, q);
    begin_response(s, j);
    j->response.responder = l->r;
    j->started = true;
    const bool known = question_prefix(q, s->r, &e);
    const enum request_result result = known ? l->r->ops->request(l->r, &q->request, &e) : REQUEST_REFUSED;
    if (result != REQUEST_TAKEN) {
        s->metrics.refused++;
        job_refuse(j, 400, e.msg, result == REQUEST_TOO_LONG ? "context_length_exceeded" : NULL);
        lane_end(l);
    } else if (q->streams && j->x && !l->now_over) {
        begin_stream(j);
    }
}

void lane_end(struct lane *l)
{
    struct job *j = l->now;
    l->now = NULL;
    l->now_over = false;
    job_free(j);
}

void lane_read_again(struct lane *l)
{
    struct server *s = l->s;
    const struct job *j = l->now;
    const struct question *q = &j->question;
    const bool bare = j->begun && j->tokens.n && !j->response.content.len && !j->response.calls.n;
    if (j->x || q->plain || !bare || s->held || s->state != SERVER_RUNS || s->waiting.n || lanes_running(s) || !s->r->ops->read_ahead)
        return;
    for (int i = 0; i < q->request.n_messages; i++)
        if (q->request.messages[i].n_media)
            return;
    struct ids ids = {0};
    struct err e;
    int n = 0;
    if (s->r->ops->prompt(s->r, &q->request, &ids, &n, &e))
        while (--n > 0 && !text_is(s->r->ops->piece(s->r, ids.data[n]), "<|im_start|>"))        /* where the head of the answer begins */
            ;
    ids.n = n > 0 ? n : 0;
    if (ids.n)
        s->r->ops->read_ahead(s->r, &(struct request){.plain = &ids, .snapshot_pos = ids.n});
    ids_free(&ids);
}

static void take_done(struct lane *l, const struct news *it)
{
    l->now_over = true;
    job_end(l->s, l->now, it);
}

/* ---- it is paused, and continues ---- */

void lane_pause(struct lane *l)
{
    if (!l->now || l->now_over || l->pauses)
        return;
    l->pauses = true;
    l->now->n_sent = l->now->tokens.n;
    l->r->ops->interrupt(l->r);
}

/* The answer has stopped, and the responder is free for others.  An answer that was to end then does not continue. */
static void take_paused(struct lane *l, const struct news *it)
{
    struct server *s = l->s;
    struct job *j = l->now;
    if (!j->x || j->unwanted || response_is_over(&j->response)) {
        take_done(l, it);
        return;
    }
    if (it->stats)
        stats_add(&j->before, it->stats, j->resumed);
    l->now = NULL;
    queue_add(job_is_unread(j, JOB_LITTLE_UNREAD) ? &s->unread : &s->waiting, j);
}

/* Resumes a paused answer after its last token, with what is left of its limit. */
static void resume(struct lane *l)
{
    struct job *j = l->now;
    struct request q = j->question.request;
    struct err e = {{0}};
    const int most = q.sampling.max_tokens;
    if (most && j->before.n_tokens >= most && j->tokens.n > j->n_sent) {       /* sample the last token again, so that all are sent */
        j->tokens.n--;
        j->before.n_tokens--;
    }
    const int left = most - j->before.n_tokens;
    j->resumed = true;
    j->n_repeated = 0;
    j->response.responder = l->r;
    q.patience_ms = due_patience_ms(j->due, clock_ns());
    q.prefix.tokens = j->tokens.n ? &j->tokens : NULL;
    q.sampling.max_tokens = most ? left : 0;
    if (most && left <= 0)
        take_done(l, &(struct news){.kind = NEWS_DONE, .end = END_LENGTH});
    else if (l->r->ops->request(l->r, &q, &e) != REQUEST_TAKEN)
        take_done(l, &(struct news){.kind = NEWS_DONE, .end = END_FAILED, .text = text_of(e.msg)});
}

void lane_start(struct lane *l)
{
    l->now = queue_take(&l->s->waiting);
    l->now->started ? resume(l) : begin(l);
}

/* ---- news of the responder ---- */

/* Takes a part of the answer.  While the answer is being paused, tokens that still come are kept, so that the responder can continue after them, but
 * not sent: an interrupted responder also reports what its parser had held back, and that may continue otherwise.  They are sent when they come
 * again. */
static void take_part(struct lane *l, const struct news *it)
{
    struct job *j = l->now;
    struct news part = *it;
    if (!j || l->now_over)
        return;
    const bool repeated = it->replayed && j->resumed;
    if (it->kind == NEWS_TOKEN && repeated)
        j->n_repeated++;
    if (it->kind == NEWS_TOKEN && !repeated) {
        tokens_add(&j->tokens, it->token, NULL);
        count_token(&l->s->metrics, j);
    }
    if (l->pauses)
        return;
    part.replayed = it->replayed && !(repeated && j->n_repeated > j->n_sent);
    if (!response_news(&j->response, &part))
        l->r->ops->interrupt(l->r);     /* a stop string came, or the only call */
    flush_job(j);
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

int lanes_running(const struct server *s)
{
    int n = 0;
    for (int i = 0; i < s->n_lanes; i++)
        n += s->lanes[i].now && !s->lanes[i].now_over;
    return n;
}

/* Returns how many answers may be under way at once. */
int lanes_at_once(const struct server *s)
{
    const struct model_info *info = s->r->ops->info(s->r);
    const int most = !info || info->at_once <= s->so.n_spare ? 1 : info->at_once - s->so.n_spare;
    return most < s->n_lanes ? most : s->n_lanes;
}

bool lanes_are_busy(const struct server *s)
{
    return s->waiting.n || !s->ready || s->held || lanes_running(s) >= lanes_at_once(s);
}
