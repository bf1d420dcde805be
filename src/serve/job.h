/* A job is a request for an answer: it waits in a queue, then it is answered. */
#ifndef Q35_SERVE_JOB_H
#define Q35_SERVE_JOB_H

#include "answer/tokens.h"
#include "serve/choice.h"
#include "serve/question.h"
#include "serve/web.h"

struct job {
    struct job *next;
    struct queue *in;                   /* the queue where it waits; NULL: it is being answered */
    int64_t due;                        /* its turn in the queue (base/due.h) */
    struct exchange *x;                 /* NULL: the client has gone */
    struct question question;
    struct choice choice;
    bool begun;                         /* `choice` is begun; so a job in a queue was paused */
    struct tokens said;                 /* the tokens of the answer so far */
    struct stats before;           /* figures of its requests to the responder before the newest one */
    bool resumed;                       /* the newest request goes on from `said` */
    bool unwanted;                      /* the client has interrupted the answer, and waits for its end */
    int  n_told;                        /* tokens of `said` that were sent before the pause */
    int  n_again;                       /* tokens of `said` that the responder has repeated since the pause */
};

/* An answer is paused when more than MOST bytes of its stream wait for the client to read, without those in its socket, and goes on when only LITTLE
 * wait.  MOST holds a thousand tokens with all their figures.  All clients of a server together can leave 64 MiB. */
enum { JOB_MOST_UNREAD = 256 << 10, JOB_LITTLE_UNREAD = 64 << 10 };

void job_free(struct job *j);
void job_refuse(struct job *j, int status, const char *message, const char *code);
void job_begin(struct job *j);          /* begins the stream of its reply */
void job_flush(struct job *j);          /* sends what the answer has gained */
bool job_is_unread(const struct job *j, size_t bytes);     /* more than so many bytes of its stream wait for the client to read */
/* Ends the reply; `last`: the NEWS_DONE of the answer. */
void job_end(struct job *j, const struct news *last);

void job_waits(struct job *j, int64_t since_ns);        /* sets `due`, for a job that waits since then; that of an attached chat is due at once */

/* Jobs that wait, ordered by `due`.  Plain value, valid as {0}. */
struct queue {
    struct job *first;
    int n;
};

void queue_add(struct queue *q, struct job *j);
struct job *queue_take(struct queue *q);                /* removes the first job; the queue must not be empty */
void queue_remove(struct job *j);                       /* removes the job from the queue where it waits */

#endif
