/* What status line and panel say, gathered from the state. */
#ifndef Q35_UI_TUI_SUMMARY_H
#define Q35_UI_TUI_SUMMARY_H

#include "base/buf.h"
#include "ui/tui/panel.h"
#include "ui/tui/status.h"

struct app;

enum { MAX_PARTS = 64 };                /* of the next prompt, that the panel is told */

/* The texts that status line and panel point to; valid until the next call.  Plain value, valid as {0}. */
struct summary {
    char state[80];                     /* what one is at, or what the model does */
    char search[32];                    /* "hit 2 of 7" */
    char branch[48];                    /* where the path stands beside others */
    char think[32];                     /* whether it thinks, and how much it may */
    struct buf signs;                   /* "RAW NO-SAVE" */
    struct buf sampling;                /* the sampling's name and values */
    struct buf cost;                    /* of the last turn */
    struct panel_part parts[MAX_PARTS]; /* of the next prompt */
};

/* `a` has followed its host: figures.h. */
void summary_status(struct app *a, struct status *s);
void summary_panel(struct app *a, struct panel *p);
void summary_free(struct summary *s);

#endif
