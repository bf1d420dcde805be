/* Fills the structs of status line and panel from the state of the host. */
#ifndef Q35_UI_TUI_SUMMARY_H
#define Q35_UI_TUI_SUMMARY_H

#include "base/buf.h"
#include "ui/tui/figures.h"
#include "ui/tui/panel.h"
#include "ui/tui/status.h"
#include "ui/tui/window.h"

enum { MAX_PARTS = 64 };                /* most parts of the next prompt in the panel */

/* Where it reads from, and the texts that status line and panel point to, valid until the next call. */
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

#endif
