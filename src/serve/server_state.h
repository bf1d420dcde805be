/* The inside of the server, for server.c, lane.c and routes.c.  Nobody else includes this. */
#ifndef Q35_SERVE_SERVER_STATE_H
#define Q35_SERVE_SERVER_STATE_H

#include "serve/attached.h"
#include "serve/figures.h"
#include "serve/job.h"
#include "serve/server.h"

/* A responder and its answer. */
struct lane {
    struct server    *s;
    struct responder *r;
    struct job *now;                    /* the one that is answered, or NULL */
    bool now_over;                      /* its DONE has come */
    bool pauses;                        /* it was interrupted, to go on later */
};

struct server {
    struct responder *r;                /* the one of the first lane */
    struct lane lanes[SERVER_ANSWERS];
    int n_lanes;
    struct server_options so;
    struct web *web;
    struct buf model;                   /* the name under which it is offered */
    struct buf options;                 /* those that shape the engine */
    size_t loaded, to_load;             /* bytes */
    bool ready;
    enum server_state state;
    struct err why;                     /* when it failed */
    struct queue waiting;
    struct queue unread;                /* answers that wait for their clients to read */
    bool held;                          /* nothing is under way, and nothing begins */
    bool shut;                          /* no further connections are accepted */
    uint64_t number;                    /* of the last request */
    struct figures figures;
    struct attached_list attached;
    int64_t unused_ns;                  /* since when there is no client; 0: there is one */
};

/* server.c */
int n_running(const struct server *s);          /* answers under way */
void write_state(const struct server *s, struct buf *out);      /* how the model loads, or what it is */

/* lane.c */
void lane_start(struct lane *l);        /* the next one of the queue, from its beginning or behind its last token; its news may come at once */
void lane_end(struct lane *l);          /* its job is over */
void lane_pause(struct lane *l);        /* its answer waits, again in the queue, or until its client has read */
void lane_take(struct lane *l, const struct news *it);  /* of its answer */
void lane_interrupt(struct lane *l);    /* the client wants no more of its answer, and waits for its end */
void lane_left(struct lane *l);         /* the client has gone */
struct lane *lane_of(struct server *s, const struct job *j);    /* that is at this job; NULL: it waits */
void end_answer(struct server *s, struct job *j, const struct news *last);      /* the last words to its client, and figures */
void end_waiting(struct server *s, struct job *j);      /* a job that waits is interrupted: with what it has said, or before it began */

/* routes.c */
void asked(void *arg, struct exchange *x);      /* of web_owner; arg: the server */

#endif
