/* Messages that were typed while an answer ran, in order.  Plain value, valid as {0}. */
#ifndef Q35_UI_TUI_QUEUE_H
#define Q35_UI_TUI_QUEUE_H

#include <stdbool.h>

struct queue {
    char **texts;               /* the oldest first */
    int  n, cap;
    bool held;                  /* the user stopped an answer, or it failed: the queue waits until the user sends something */
};

void  queue_push(struct queue *q, const char *text);
void  queue_push_front(struct queue *q, const char *text);
char *queue_take_oldest(struct queue *q);               /* the caller frees it; NULL: it is empty */
char *queue_take_newest(struct queue *q);
void  queue_free(struct queue *q);

#endif
