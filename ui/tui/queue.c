#include "ui/tui/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/memory.h"

static char *copy(const char *text)
{
    char *s = memory_strdup(text);
    return s;
}

void queue_push(struct queue *q, const char *text)
{
    q->texts = grow(q->texts, q->n, &q->cap, sizeof *q->texts);
    q->texts[q->n++] = copy(text);
}

void queue_push_front(struct queue *q, const char *text)
{
    q->texts = grow(q->texts, q->n, &q->cap, sizeof *q->texts);
    memmove(q->texts + 1, q->texts, (size_t)q->n * sizeof *q->texts);
    q->texts[0] = copy(text);
    q->n++;
}

char *queue_take_oldest(struct queue *q)
{
    if (!q->n)
        return NULL;
    char *s = q->texts[0];
    memmove(q->texts, q->texts + 1, (size_t)--q->n * sizeof *q->texts);
    return s;
}

char *queue_take_newest(struct queue *q)
{
    return q->n ? q->texts[--q->n] : NULL;
}

void queue_free(struct queue *q)
{
    while (q->n)
        free(q->texts[--q->n]);
    free(q->texts);
    *q = (struct queue){0};
}
