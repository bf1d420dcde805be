/* The inside of the server: jobs, lanes, requests that are being read, attached chats.  For the files of this folder alone. */
#pragma once

#include <pthread.h>

#include "base/mailbox.h"
#include "answer/tokens.h"
#include "serve/format.h"
#include "serve/metrics.h"
#include "serve/question.h"
#include "serve/recall.h"
#include "serve/response.h"
#include "serve/seen.h"
#include "serve/selfcheck.h"
#include "serve/server_options.h"
#include "serve/web.h"

struct server;

/* ---- jobs (lane.c) ---- */

/* A request for an answer: it waits in a queue, then it is answered. */
struct job {
    struct job *next;
    struct queue *in;                   /* the queue where it waits; NULL: it is being answered */
    int64_t due;                        /* its turn in the queue (base/clock.h) */
    struct exchange *x;                 /* NULL: the client has gone */
    struct question question;
    struct response response;
    bool begun;                         /* `response` is begun; if it streams and its format can wait, so is the reply */
    bool started;                       /* it was given to a responder; so a job in a queue was paused */
    int64_t wrote_ns;                   /* when the last bytes of its stream were written */
    int     key;                        /* number of the key that was sent with it; -1: none */
    int64_t asked_ns, token_ns;         /* when it was read; when its newest tokens came, 0: none yet */
    int     n_together;                 /* of the answer's tokens, those that came together last */
    double  gap_s;                      /* time between these and those before; 0: they are the first */
    struct tokens tokens;               /* the answer so far */
    struct stats before;           /* figures of its requests to the responder before the newest one */
    bool resumed;                       /* the newest request continues after `tokens` */
    bool unwanted;                      /* the client has interrupted the answer, and waits for its end */
    int  n_sent;                        /* how many of `tokens` were sent before the pause */
    int  n_repeated;                    /* how many of `tokens` the responder has repeated since the pause */
};

/* An answer is paused when more than MOST bytes of its stream wait for the client to read, without those in its socket, and continues when only
 * LITTLE wait.  MOST holds a thousand tokens with all their figures.  All clients of a server together can leave 64 MiB. */
enum { JOB_MOST_UNREAD = 256 << 10, JOB_LITTLE_UNREAD = 64 << 10 };

void job_free(struct job *j);
void job_refuse(struct job *j, int status, const char *message, const char *code);
/* Begins the reply of a job that has to wait, if it is a stream: its client and the programs in between see that it is served.  False with the reason
 * if the prompt is refused, which *code is about as in struct refusal. */
bool job_begin_waiting(struct server *s, struct job *j, const char **code, struct err *e);
double job_silent_ms_left(const struct job *j);         /* until something must be sent so that its stream is not silent for too long */
void job_break_silence(struct job *j);
bool job_is_unread(const struct job *j, size_t bytes);  /* more than so many bytes of its stream wait for the client to read */
void job_waits(struct job *j, int64_t since_ns);        /* sets `due`, for a job that waits since then; that of an attached chat is due at once */
void job_end(struct server *s, struct job *j, const struct news *last);         /* ends the reply with the answer's DONE, and counts its figures */
void job_end_waiting(struct server *s, struct job *j);  /* interrupts a job that waits: it ends with the tokens that it had, if any */

/* Jobs that wait, ordered by `due`.  Plain value, valid as {0}. */
struct queue {
    struct job *first;
    int n;
};

void queue_add(struct queue *q, struct job *j);
struct job *queue_take(struct queue *q);                /* removes the first job; the queue must not be empty */
void queue_remove(struct job *j);                       /* removes the job from the queue where it waits */

/* ---- lanes (lane.c) ---- */

/* A responder and the answer that it makes. */
struct lane {
    struct server    *s;
    struct responder *r;
    struct job *now;                    /* the job that is answered, or NULL */
    bool now_over;                      /* its NEWS_DONE has come */
    bool pauses;                        /* it was interrupted in order to continue later */
};

void lane_start(struct lane *l);        /* begins or continues the first job of the queue; its news may come within the call */
void lane_end(struct lane *l);          /* frees its job, whose answer is over */
/* Reads the prompt again, up to the end of its last message, if the client left before the answer had a text, and nobody waits.  The states that are
 * kept of it are a few tokens further on, behind the head of the answer, and who comes back with one more message would find nothing.  Any request
 * ends that, so that it costs no turn anything. */
void lane_read_again(struct lane *l);
void lane_pause(struct lane *l);        /* interrupts the answer; the job waits in the queue, or until its client has read */
void lane_take(struct lane *l, const struct news *it);  /* takes news of the answer */
void lane_interrupt(struct lane *l);    /* the client has interrupted the answer, and waits for its end */
void lane_left(struct lane *l);         /* the client has gone away */
struct lane *lane_of(struct server *s, const struct job *j);    /* the lane that answers this job; NULL: the job waits */
int  lanes_running(const struct server *s);             /* answers under way */

/* ---- bodies (reading.c) ---- */

/* Makes a reply of a body.  Runs on any thread.  False with a sentence for the client. */
typedef bool reply_fn(struct responder *r, struct text body, const struct options *o, struct look *l, struct buf *out, struct err *e);

/* A body that is read: to a question for the model, or to a reply at once.  Large ones are read on threads of their own, up to the tokens of their
 * prompts, since the thread of the server may be the one that draws a chat's screen.  Small ones without pictures are read at
 * once. */
struct reading {
    struct reading *next;
    struct exchange *x;                 /* NULL: the client has gone */
    const struct format *format;        /* of the question, or NULL: */
    reply_fn *reply;
    struct responder *r;
    bool ready;                         /* its tokenizer is there */
    bool later;                         /* the server's thread is reading, and what is left takes too long for it */
    struct options *o;                  /* a copy: those of a chat can change meanwhile */
    struct mailbox *notes;
    struct look look;
    struct recall *recall;
    size_t most_values;                 /* of the body */
    struct buf body;
    struct text text;                   /* the body, wherever it is */
    struct buf interrupted;             /* names of answers that were interrupted meanwhile, each between two zero bytes */
    bool runs;
    bool looks;                         /* decodes pictures, so that another body is read meanwhile */
    pthread_t thread;

    bool ok;                            /* the results: */
    struct err e;                       /* the reason, if not */
    struct job *job;                    /* of `format` */
    struct buf out;                     /* of `reply` */
};

/* Called with the results, which it may take out of rd. */
typedef void reading_done(void *arg, struct reading *rd);

struct readings {
    struct reading *first;              /* those under way, and those that wait for a thread */
    struct mailbox notes;               /* of the threads */
    reading_done *fn;
    void *arg;
};

bool readings_init(struct readings *l, reading_done *fn, void *arg);    /* false with errno */
void readings_free(struct readings *l);         /* waits for the threads */
/* Reads the body of x; rd has x, format or reply, r, ready, recall and most_values.  The results come within the call or within readings_take(). */
void readings_add(struct readings *l, const struct reading *rd, const struct options *o);
void readings_take(struct readings *l);         /* when the mailbox is readable */
/* An answer of this name was interrupted, which a body may request that is being read; reading_was_interrupted() is true of that one then. */
void readings_interrupt(struct readings *l, struct text name);
bool reading_was_interrupted(const struct reading *rd);
bool readings_gone(struct readings *l, const struct exchange *x);       /* the client has gone; false: none of its bodies is here */

/* ---- attached chats (attached.c) ---- */

/* Each has a stream of lines from the server, which stays open as long as both run: how far the model is loaded, what the model is, and what became
 * of the checkpoints of its conversation.  When the stream ends the server has ended (docs/serve-reference.md, "Between two q35chats"). */
struct attached {
    struct exchange *x;
    char    *name;
    uint64_t conversation;              /* the conversation whose checkpoint news it gets; 0: none */
};

/* Plain value, valid as {0}; attached_free() frees it. */
struct attached_list {
    struct attached *all;
    int n, cap;
};

bool attached_gone(struct attached_list *l, const struct exchange *x);  /* removes the chat with this exchange; false: there is none */
void attached_send(struct attached_list *l, const struct buf *lines);   /* sends the lines to all */
/* Sends the result of a save or restore (NEWS_SAVED, NEWS_RESTORED) to the chat that requested it, if that is still there. */
void attached_send_filed(struct attached_list *l, const struct news *it);
void attached_end(struct attached_list *l);             /* ends all streams */
void attached_free(struct attached_list *l);

void attached_add_protocol(struct buf *out);            /* appends the first line of a stream: the version of the protocol */
void attached_add_state(const struct server *s, struct buf *out);       /* appends lines: how far the model is loaded, or what it is */

/* Read parts of a body.  False with a sentence for the client. */
bool attached_read_name(const struct pyjson *top, struct text *name, struct err *e);    /* `id`: of an answer, or of the q35chat that asks */
bool attached_read_prompt(struct question *q, const struct pyjson *top, struct err *e); /* tokens into q->ids, their conversation, snapshot_pos */
bool attached_read_guide(struct question *q, const struct pyjson *top, struct err *e);  /* what guides the answer, if anything does */
/* Reads the body of /q35chat/attach: the name of the q35chat, allocated in `mem`.  Refuses one that speaks another version of the protocol. */
bool attached_read_hello(struct text body, struct text *name, struct arena *mem, struct err *e);
/* Checks a checkpoint's path.  `path`: as the other program sent it; `own`: the same file's path as this program builds it.  True only for
 * NAME.jsonl.checkpoint next to the conversation NAME.jsonl in the folder of conversations, if both are regular files of this user and no links; the
 * checkpoint need not exist.  False with the reason. */
bool attached_checkpoint(struct text path, struct buf *own, struct err *e);

/* The result of a handler: a body, or the reason for a refusal. */
struct outcome {
    struct buf   body;                  /* JSON; empty: {} */
    struct arena mem;                   /* owns what was read of the request */
    struct err   e;
};

/* Handlers of their requests. */
void attached_attach(struct server *s, struct exchange *x);
bool attached_interrupt(struct server *s, struct exchange *x, struct outcome *to);
bool attached_ahead(struct server *s, struct exchange *x, struct outcome *to);
bool attached_save(struct server *s, struct exchange *x, struct outcome *to);
bool attached_restore(struct server *s, struct exchange *x, struct outcome *to);
bool attached_keep(struct server *s, struct exchange *x, struct outcome *to);
bool attached_machine(struct server *s, struct exchange *x, struct outcome *to);

/* ---- requests (routes.c): for struct web_owner and struct readings; arg: the server ---- */

size_t routes_begun(void *arg, struct exchange *x);
void routes_asked(void *arg, struct exchange *x);
void routes_read(void *arg, struct reading *rd);

/* ---- the server (server.c) ---- */

struct server {
    struct responder *r;                /* the responder of the first lane */
    struct lane lanes[SERVER_ANSWERS];
    int n_lanes;
    struct server_options so;
    struct web *web;
    struct buf model;                   /* the model's name for clients */
    struct buf options;                 /* control_engine_key() */
    int64_t opened_s;                   /* seconds since 1970 */
    size_t longest_piece;               /* bytes of the longest piece of the vocabulary; 0: not known yet */
    size_t loaded, to_load;             /* bytes of the model */
    bool ready;
    struct selfcheck check;             /* runs between the end of loading and `ready` */
    enum server_state state;
    struct err why;                     /* the reason of SERVER_FAILED */
    struct readings readings;           /* requests whose bodies are being read */
    struct queue waiting;
    struct queue unread;                /* answers that are paused until their clients read */
    bool held;                          /* server_hold() */
    bool shut;                          /* server_shut() */
    struct metrics metrics;
    struct recall recall;
    struct attached_list attached;
    int64_t unused_ns;                  /* when the last client went away; 0: there is one */
};

int  lanes_at_once(const struct server *s);     /* how many answers may be under way */
bool lanes_are_busy(const struct server *s);    /* a request that comes now has to wait */
