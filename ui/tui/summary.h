/* What status line and panel say, gathered from the state. */
#ifndef Q35_UI_TUI_SUMMARY_H
#define Q35_UI_TUI_SUMMARY_H

#include "base/buf.h"
#include "ui/tui/figures.h"
#include "ui/tui/panel.h"
#include "ui/tui/status.h"
#include "ui/tui/window.h"

enum { MAX_PARTS = 64 };                /* of the next prompt, that the panel is told */

/* Whom it asks, and the texts that status line and panel point to, which are valid until the next call. */
struct summary {
    struct host *host;
    const struct figures *figures;      /* which have followed the host */
    char state[80];                     /* what one is at, or what the model does */
    char search[32];                    /* "hit 2 of 7" */
    char branch[48];                    /* where the path stands beside others */
    char think[32];                     /* whether it thinks, and how much it may */
    struct buf signs;                   /* "RAW NO-SAVE" */
    struct buf sampling;                /* the sampling's name and values */
    struct buf cost;                    /* of the last turn */
    struct panel_part parts[MAX_PARTS]; /* of the next prompt */
};

void summary_status(struct summary *sum, struct status *s);
void summary_panel(struct summary *sum, struct panel *p);
void summary_free(struct summary *sum);

#endif
