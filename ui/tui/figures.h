/* The figures of status line and panel, sampled a few times a second: nobody reads faster, and each change must be sent to the terminal. */
#ifndef Q35_UI_TUI_FIGURES_H
#define Q35_UI_TUI_FIGURES_H

#include "ui/tui/steps.h"
#include "ui/tui/window.h"

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

/* Counts the context anew and begins a turn's steps if the host says so. */
void figures_follow(struct figures *f, struct host *h);
/* The chat has sent events while a turn is under way. */
void figures_came(struct figures *f, struct host *h);
/* Takes a sample if it is time. */
void figures_sample(struct figures *f, struct host *h);
/* ms until the next sample, -1: none is due. */
int  figures_timeout(const struct figures *f, const struct host *h);

#endif
