/* A request for an answer: it waits in a queue, then it is answered. */
#ifndef Q35_SERVE_JOB_H
#define Q35_SERVE_JOB_H

#include "chat/tokens.h"
#include "serve/choice.h"
#include "serve/question.h"
#include "serve/web.h"

struct job {
    struct job *next;
    struct queue *in;                   /* where it waits; NULL: it is answered */
    int64_t due;                        /* base/due.h */
    struct exchange *x;                 /* NULL: the client has gone */
    struct question question;
    struct choice choice;
    bool begun;                         /* the choice: when it waits, it was paused */
    struct tokens said;                 /* the tokens of the answer so far */
    struct chat_stats before;           /* of the requests to the responder before it was paused */
    bool resumed;                       /* it goes on behind these tokens */
    bool unwanted;                      /* the client has interrupted it, and waits for its end */
    int  n_told;                        /* tokens of `said` that the client had been told when it was paused */
    int  n_again;                       /* tokens of `said` that have come again since it goes on */
};

/* An answer is paused when its client has left more than MOST bytes of its stream unread, beside what its socket holds, and goes on when LITTLE are
 * left.  MOST is enough for a thousand tokens with all their figures, and all clients of a server together can leave 64 MiB. */
enum { JOB_MOST_UNREAD = 256 << 10, JOB_LITTLE_UNREAD = 64 << 10 };

void job_free(struct job *j);
void job_refuse(struct job *j, int status, const char *message, const char *code);
void job_begin(struct job *j);          /* its stream */
void job_flush(struct job *j);          /* what the answer has gained goes out */
bool job_is_unread(const struct job *j, size_t bytes);     /* more than so many bytes of its stream are unread */
/* The answer ends, as the last news say. */
void job_end(struct job *j, const struct news *last);

void job_waits(struct job *j, int64_t since_ns);        /* it waits since then: sets when it is due.  At an attached chat a person waits */

/* Those that wait, by when they are due.  Plain value, valid as {0}. */
struct queue {
    struct job *first;
    int n;
};

void queue_add(struct queue *q, struct job *j);
struct job *queue_take(struct queue *q);                /* the next one; there is one */
void queue_remove(struct job *j);                       /* from where it waits */

#endif
