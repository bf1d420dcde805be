/* What status line and panel show, taken a few times a second: nobody reads faster, and each change is sent to the terminal. */
#ifndef Q35_UI_TUI_FIGURES_H
#define Q35_UI_TUI_FIGURES_H

#include "ui/tui/steps.h"
#include "ui/tui/window.h"

/* Plain value, valid as {0}. */
struct figures {
    int64_t sampled_ms;                 /* when the last sample was taken */
    int64_t machine_ms;                 /* when the machine was looked at last */
    double  tok_s;
    struct chat_stats turn;             /* of the turn under way, else of the last one */
    struct chat_stats recent;           /* of the last two seconds of the turn under way */
    struct steps steps;                 /* of the turn under way, else of the last one */
    int     n_turns;                    /* so many had begun when `steps` began */
    enum phase_kind phase;              /* as of the last sample */
    struct progress progress;           /* of loading or reading, while `phase` lasts */
    struct chat_count ctx;              /* what is taken of the context */
    const struct chat_part *parts;      /* of the next prompt */
    int     n_parts;
    int     not_counted;                /* tokens of reasoning that the next prompt does not hold */
    struct chat_machine machine;
};

/* Counts the context anew and begins a turn's steps if the host says so. */
void figures_follow(struct figures *f, struct host *h);
/* Something has come while a turn is under way. */
void figures_came(struct figures *f, struct host *h);
/* Takes a sample if it is time. */
void figures_sample(struct figures *f, struct host *h);
/* ms until there is one to take, -1: none. */
int  figures_timeout(const struct figures *f, const struct host *h);

#endif
