/* The side panel: session, context, speed and machine at the right edge.  Draws a plain struct.  Rows with unknown figures are left
 * out, so every figure that is shown was measured. */
#ifndef Q35_UI_TUI_PANEL_H
#define Q35_UI_TUI_PANEL_H

#include <stdbool.h>

#include "answer/stats.h"
#include "ui/tui/cells.h"

enum { PANEL_COLUMNS = 32, PANEL_MOST_COLUMNS = 48, PANEL_MIN_SCREEN = 110 };   /* columns of the panel with its rule; of a screen that has room */

struct panel_part { const char *what; const char *label; int tokens; const char *note; };       /* "t1 timeline.c", 9800, "file" */

/* A figure now, and over the turn.  0: not known. */
struct panel_pair { double now, turn; };

/* Valid as {0}: zeros and NULL are not known. */
struct panel {
    /* SESSION */
    const char *session, *model, *persona, *think, *branch, *sampling, *recipe;         /* recipe: formats, separated by commas */
    /* CONTEXT: tokens of the next prompt */
    int ctx_used, ctx_total;
    bool ctx_estimated;
    const struct panel_part *parts;
    int n_parts;
    int not_counted;            /* tokens of earlier reasoning, which it leaves out */
    /* SPEED */
    struct panel_pair decode_tok_s, prefill_tok_s, per_step, step_ms;
    struct draft_count drafts_now[DRAFT_SOURCES], drafts_turn[DRAFT_SOURCES];
    const float *steps;         /* ms of the last steps, the newest last: the spark line */
    int n_steps;
    /* MACHINE */
    double memory_used, memory_total;   /* bytes */
    int celsius;
    double watts;
    const char *throttled;
    const char *disk;           /* "log saved 1 s ago" */
    /* THIS TURN */
    double turn_s;
    int turn_tokens;
    double joules;
    bool estimated;             /* watts and joules are estimates */
    /* SNAPSHOTS */
    int snapshots, snapshots_max;
    const char *const *kept;    /* their names: "t1 end" */
    int n_kept;
    bool undo_known;
    int  undo_refill;           /* if undo_known: tokens to read again after an undo */
};

/* Columns of the panel on a screen of `screen` columns: it grows into those that text of `measure` columns leaves. */
int  panel_columns(int screen, int measure);
void panel_draw(const struct panel *p, struct cells *c, struct area a); /* fills the area; its first column is a rule */

#endif
