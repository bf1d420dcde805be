/* The inside of the server, for server.c, lane.c and routes.c.  Nobody else includes this. */
#ifndef Q35_SERVE_SERVER_STATE_H
#define Q35_SERVE_SERVER_STATE_H

#include "serve/attached.h"
#include "serve/figures.h"
#include "serve/job.h"
#include "serve/reading.h"
#include "serve/server.h"

/* A responder and the answer that it makes. */
struct lane {
    struct server    *s;
    struct responder *r;
    struct job *now;                    /* the job that is answered, or NULL */
    bool now_over;                      /* its NEWS_DONE has come */
    bool pauses;                        /* it was interrupted in order to continue later */
};

struct server {
    struct responder *r;                /* the responder of the first lane */
    struct lane lanes[SERVER_ANSWERS];
    int n_lanes;
    struct server_options so;
    struct web *web;
    struct buf model;                   /* the model's name for clients */
    struct buf options;                 /* serve/engine_key.h */
    int64_t opened_s;                   /* seconds since 1970 */
    size_t longest_piece;               /* bytes of the longest piece of the vocabulary; 0: not known yet */
    size_t loaded, to_load;             /* bytes of the model */
    bool ready;
    enum server_state state;
    struct err why;                     /* the reason of SERVER_FAILED */
    struct readings readings;           /* requests whose bodies are being read */
    struct queue waiting;
    struct queue unread;                /* answers that are paused until their clients read */
    bool held;                          /* server_hold() */
    bool shut;                          /* server_shut() */
    struct figures figures;
    struct attached_list attached;
    int64_t unused_ns;                  /* when the last client went away; 0: there is one */
};

/* server.c */
int n_running(const struct server *s);          /* answers under way */
void write_state(const struct server *s, struct buf *out);      /* appends lines: how far the model is loaded, or what it is */

/* lane.c */
void lane_start(struct lane *l);        /* begins or continues the first job of the queue; its news may come within the call */
void lane_end(struct lane *l);          /* frees its job, whose answer is over */
void lane_pause(struct lane *l);        /* interrupts the answer; the job waits in the queue, or until its client has read */
void lane_take(struct lane *l, const struct news *it);  /* takes news of the answer */
void lane_interrupt(struct lane *l);    /* the client has interrupted the answer, and waits for its end */
void lane_left(struct lane *l);         /* the client has gone away */
struct lane *lane_of(struct server *s, const struct job *j);    /* the lane that answers this job; NULL: the job waits */
void end_answer(struct server *s, struct job *j, const struct news *last);      /* ends the reply, and counts its figures */
void end_waiting(struct server *s, struct job *j);      /* interrupts a job that waits: it ends with the tokens that it had, if any */

/* routes.c: for struct web_owner; arg: the server */
size_t begun(void *arg, struct exchange *x);
void asked(void *arg, struct exchange *x);
void has_read(void *arg, struct reading *rd);   /* for struct readings */

#endif
