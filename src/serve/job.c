#include "serve/job.h"

#include <stdlib.h>

#include "base/due.h"
#include "serve/respond.h"

void job_free(struct job *j)
{
    if (j->x)
        exchange_set_data(j->x, NULL);
    if (j->begun)
        choice_free(&j->choice);
    tokens_free(&j->said);
    question_free(&j->question);
    free(j);
}

void job_refuse(struct job *j, int status, const char *message, const char *code)
{
    if (j->x)
        respond_error_with(j->x, status, message, code, 0);
}

void job_begin(struct job *j)
{
    exchange_begin(j->x, j->question.relayed ? "application/x-ndjson" : "text/event-stream");
}

void job_flush(struct job *j)
{
    struct buf *out = &j->choice.out;
    if (j->x && j->question.streams && out->len)
        exchange_write(j->x, (struct text){out->data, out->len});
    buf_reset(out);
}

void job_end(struct job *j, const struct news *last)
{
    choice_done(&j->choice, last);
    if (!j->x)
        return;
    if (j->question.streams) {
        job_begin(j);
        job_flush(j);
        exchange_end(j->x);
    } else {
        respond_json(j->x, j->choice.failed ? 500 : 200, &j->choice.out);
    }
}

bool job_is_unread(const struct job *j, size_t bytes)
{
    return j->x && j->question.streams && exchange_unread(j->x) > bytes;
}

void job_waits(struct job *j, int64_t since_ns)
{
    j->due = due_ns(since_ns, j->question.relayed ? 0 : DUE_PATIENCE_MS);
}

/* ---- those that wait ---- */

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
