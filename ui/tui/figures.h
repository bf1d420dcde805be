/* The figures of status line and panel, sampled a few times a second: nobody reads faster, and each change must be sent to the terminal. */
#pragma once

#include "base/buf.h"
#include "chat/chat.h"
#include "ui/tui/status.h"
#include "ui/tui/window.h"

/* --- steps -------------------------------------------------------------------------------------------------------- */

/* The decode steps of a turn, from the chat's figures for the whole turn so far: how long the last steps took, and figures of the last seconds.
 * Plain value, valid as {0}.  The engine measures the times, so they do not depend on when these functions are called. */

enum { STEPS_KEPT = 32, STEPS_SAMPLES = 10 };

struct steps {
    float ms[STEPS_KEPT];               /* [n] the newest last; steps that were reported together get their mean */
    int   n;
    struct stats last;             /* figures at the newest step */
    struct stats samples[STEPS_SAMPLES];           /* a ring of figures, one for each call of steps_sample() */
    int   n_samples;
};

void steps_begin(struct steps *s);                              /* a turn begins */
void steps_add(struct steps *s, const struct stats *now);  /* whenever events have come */
void steps_sample(struct steps *s, const struct stats *now);
/* Figures since the oldest sample: tokens, steps, drafts, decode_ms. */
void steps_recent(const struct steps *s, struct stats *out);

/* --- figures ------------------------------------------------------------------------------------------------------ */

/* Plain value, valid as {0}. */
struct figures {
    int64_t sampled_ms;                 /* when the last sample was taken */
    int64_t machine_ms;                 /* when `machine` was read last */
    double  tok_s;
    struct stats turn;             /* figures of the turn under way, else of the last one */
    struct stats recent;           /* figures of the last two seconds of the turn under way */
    struct steps steps;                 /* steps of the turn under way, else of the last one */
    int     n_turns;                    /* host.n_turns when `steps` began */
    enum phase_kind phase;              /* at the last sample */
    struct progress progress;           /* of loading or reading, in such a phase */
    struct chat_count ctx;              /* how much of the context is used */
    const struct chat_part *parts;      /* [n_parts] of the next prompt */
    int     n_parts;
    int     not_counted;                /* tokens of reasoning that the next prompt leaves out */
    struct machine_figures machine;
};

/* Counts the context again and begins a turn's steps if the host says so. */
void figures_follow(struct figures *f, struct host *h);
/* The chat has sent events while a turn is under way. */
void figures_came(struct figures *f, struct host *h);
/* Takes a sample if it is time. */
void figures_sample(struct figures *f, struct host *h);
/* ms until the next sample, -1: none is due. */
int  figures_timeout(const struct figures *f, const struct host *h);

/* --- summary ------------------------------------------------------------------------------------------------------ */

/* Fills the structs of status line and panel from the state of the host. */

enum { MAX_PARTS = 64 };                /* most parts of the next prompt in the panel */

/* The sources, and the texts that status line and panel point to, valid until the next call. */
struct summary {
    struct host *host;
    const struct figures *figures;      /* up to date: figures_follow() was called */
    char state[80];                     /* what the user or the model does */
    char search[32];                    /* "hit 2 of 7" */
    char branch[48];                    /* which of several siblings the path goes through */
    char hint[48];                      /* what Enter does */
    char think[32];                     /* whether the model reasons, and how much it may */
    struct buf signs;                   /* "RAW NO-SAVE" */
    struct buf sampling;                /* name and values of the sampling */
    struct buf cost;                    /* figures of the last turn */
    struct panel_part parts[MAX_PARTS]; /* of the next prompt */
};

void summary_status(struct summary *sum, struct status *s);
void summary_panel(struct summary *sum, struct panel *p);
void summary_free(struct summary *sum);
