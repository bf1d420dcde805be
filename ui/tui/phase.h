/* The activity of the model and when it began, followed from the chat's events, for status line and panel.  Plain value. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "chat/chat.h"
#include "ui/tui/cells.h"

/* --- progress ----------------------------------------------------------------------------------------------------- */

/* How far loading or reading a prompt has come, and when it will be done.  Plain value; the caller gives the time.
 *
 * The bar never goes back.  The time left is estimated from the rate of the last chunks, since later chunks of a prompt are slower; it is rounded up,
 * and shown after two chunks, or a long one.  It does not grow; if the estimate does, the text says that it takes longer. */

enum { PROGRESS_CHUNKS = 8 };

struct progress {
    size_t done, total, cached;                         /* cached: the part of `done` that was in the cache */
    struct { int64_t ms; size_t done; } chunk[PROGRESS_CHUNKS];         /* [i % PROGRESS_CHUNKS] the last chunks */
    int     n_chunks;
    int64_t end_ms;             /* the time of the end that was shown; 0: none was shown yet */
    bool    longer;             /* it will take longer than was shown */
};

void   progress_start(struct progress *p, int64_t ms);
void   progress_add(struct progress *p, int64_t ms, size_t done, size_t total, size_t cached);
double progress_rate(const struct progress *p);         /* per second, over the last chunks; 0: not known yet */
int    progress_left_s(const struct progress *p, int64_t ms);   /* whole seconds, rounded up; -1: not known yet */
int    progress_percent(const struct progress *p);      /* 0..100, 100 only when it is done; -1: total is not known */

/* Append parts as text: "[====####----]" of so many columns; "1.2 of 4.5 GB"; "92.1 MB/s", nothing while it is not known; "about 7 s left", after a
 * comma unless `out` is empty. */
void progress_bar(struct buf *out, const struct progress *p, int columns);
void progress_bytes(struct buf *out, const struct progress *p);
void progress_bytes_s(struct buf *out, const struct progress *p);
void progress_left(struct buf *out, const struct progress *p, int64_t ms);

/* Draw two rows (one if the area has no more): the bar, with '=' for what was cached, '#' for what was done, '-' for the rest, and figures beside it:
 * tokens of a prompt, bytes of weights. */
enum { PROGRESS_ROWS = 2 };
void progress_draw_prompt(const struct progress *p, int64_t ms, struct cells *c, struct area a);
void progress_draw_load(const struct progress *p, int64_t ms, struct cells *c, struct area a);

/* --- rate --------------------------------------------------------------------------------------------------------- */

/* How many events came per second, over the last two seconds.  Plain value, valid as {0}; the caller gives the time. */

enum { RATE_SLOTS = 20, RATE_SLOT_MS = 100 };

struct rate {
    int64_t slot;               /* the newest slot: ms / RATE_SLOT_MS */
    int64_t first_ms;           /* time of the first event */
    int     n[RATE_SLOTS];      /* [slot % RATE_SLOTS] events */
};

void   rate_add(struct rate *r, int64_t ms, int n);
double rate_now(const struct rate *r, int64_t ms);      /* per second; 0: nothing came, or the first event is too recent */

/* --- phase -------------------------------------------------------------------------------------------------------- */

enum phase_kind { PHASE_OPENING, PHASE_LOADING, PHASE_CHOOSING, PHASE_IDLE, PHASE_READING, PHASE_THINKING, PHASE_ANSWERING, PHASE_CALLING,
                  PHASE_DEAD };

struct phase {
    enum phase_kind kind;
    bool    ready, stopping, asking;    /* asking: a call waits for chat_approve() */
    bool    turn;                       /* a turn is under way */
    int64_t since_ms;                   /* when the turn, or loading, began */
    int64_t asked_ms;                   /* when the user began the turn, which may have waited for the model since */
    int64_t calls_ms;                   /* when the tool began to run, or the question about it appeared */
    int64_t reads_ms;                   /* when reading this prompt, or loading, began */
    struct progress progress;           /* of loading or reading */
    struct rate     rate;               /* of tokens */
    int     n_tokens;                   /* tokens of the answer under way that `rate` has */
    char    tool[48];                   /* name of the tool that runs */
};

void phase_open(struct phase *p, int64_t ms);           /* the chat is open: the model loads */
void phase_turn(struct phase *p, int64_t ms);           /* a turn has begun */
void phase_event(struct phase *p, const struct chat_event *ev, int64_t ms);
void phase_tokens(struct phase *p, int n_tokens, int64_t ms);   /* the answer under way has n_tokens now */
int phase_seconds(const struct phase *p, int64_t ms);   /* the time beside its name: of the turn, or of the tool or the question alone */
const char *phase_name(const struct phase *p);          /* "answering" */
