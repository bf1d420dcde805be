/* The status line and the side panel, drawn from plain structs.
 *
 * The status line is one row.  State, signs and hint are emphasized, figures are not.  If the row is too narrow, the parts
 * that matter least are left out first, then texts get shorter; it never wraps. */
#pragma once

#include <stdbool.h>

#include "answer/machine.h"
#include "answer/stats.h"
#include "base/buf.h"
#include "ui/tui/cells.h"

/* Valid as {0}: members that are zero or NULL are not known, or do not apply, and are not shown.  The numbers are priorities: after state and signs,
 * parts with 1 stay longest.  A bar for the context has the lowest priority. */
struct status {
    const char *parts;          /*    names of config/status.def with blanks between: only these are shown; empty: all */
    const char *state;          /* 1  "answering", "reading", "loading", "stopping", "waiting for approval", "inspect 18/64" */
    bool   timed;               /*    the state is shown with its time */
    int    state_s;             /*    seconds since the state began */
    int    percent;             /* 2  of the reading or loading; shown when > 0 */
    int    ctx_used, ctx_total; /* 2  tokens: of the next prompt, of the whole context.  Yellow from 75 %, red from 90 % */
    bool   ctx_estimated;       /*    "~" before it */
    double read_tok_s;          /* 3  while reading a prompt */
    double tok_s;               /* 3  now (rate.h), or of the last turn */
    const char *hint;           /* 4  the keys that matter now, a long and a short text with a tab between: "F1 keys, q back\tq back" */
    const char *session;        /* 5  title of the session, cut if that makes room for the acceptance */
    struct draft_count drafts[DRAFT_SOURCES];        /* 6  (during an answer before the title) drafts of this turn by source */
    double per_step;            /* 7  tokens per step */
    double gb_token;            /* 8  memory traffic of the steps, in GB per token */
    const char *sampling;       /* 7  "temperature 0.6", "coding, temperature 0.6" */
    const char *cost;           /* 6  of the last turn, long and short: "read 383 in 1.3 s, 24 tok in 0.2 s, 5 J\t24 tok in 0.2 s" */
    struct machine_figures machine;     /* memory 8, temperature 9, power 10, why clocks are lowered 2 */
    bool   slow;                /* 2  memory is read more slowly than it should be */
    const char *recipe;         /* 11 from 110 columns on: formats, that of the KV cache last, "INT4, INT8 head, KV bf16"; if too long, only the
                                 * last */
    int    queued;              /* 1  messages in the queue */
    bool   held;                /*    they wait until the user sends something */
    long   below;               /* 1  rows below the view, if it does not follow */
    const char *search;         /* 1  "hit 3 of 12" */
    const char *signs;          /* 1  "RAW NO-SAVE YOLO": always visible */
};

void status_draw(const struct status *s, struct cells *c, struct area a);       /* row 0 of the area */
void status_title(const struct status *s, struct buf *out);     /* for the terminal's title: "q35chat: hashmap" */

/* --- the side panel ------------------------------------------------------------------------------------------------ */

/* Session, context, speed and machine at the right edge.  Rows with unknown figures are left
 * out, so every figure that is shown was measured. */

enum { PANEL_COLUMNS = 32, PANEL_MOST_COLUMNS = 48, PANEL_MIN_SCREEN = 110 };   /* columns of the panel with its rule; of a screen that has room */

struct panel_part { const char *what; const char *label; int tokens; const char *note; };       /* "t1 timeline.c", 9800, "file" */

/* A figure now, and over the turn.  0: not known. */
struct panel_pair { double now, turn; };

/* Valid as {0}: zeros and NULL are not known. */
struct panel {
    /* SESSION */
    const char *session, *model, *think, *branch, *sampling, *recipe;         /* recipe: formats, separated by commas */
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
    struct machine_figures machine;     /* with the snapshots */
    const char *disk;           /* "log saved 1 s ago" */
    /* THIS TURN */
    double turn_s;
    int turn_tokens;
    double joules;
};

/* Columns of the panel on a screen of `screen` columns: it grows into those that text of `measure` columns leaves. */
int  panel_columns(int screen, int measure);
void panel_draw(const struct panel *p, struct cells *c, struct area a); /* fills the area; its first column is a rule */
