/* One answer as its news come: reasoning, text and calls, cut at a stop string, or where it begins to repeat itself. */
#ifndef Q35_CHAT_ANSWER_H
#define Q35_CHAT_ANSWER_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/ids.h"
#include "chat/loop.h"
#include "responder/responder.h"
#include "chat/stopper.h"
#include "answer/tokens.h"
#include "session/transcript.h"

enum { ANSWER_MAX_CALLS = 256 };        /* each is a tool that runs; a model that repeats itself makes thousands */

struct answer_call {
    const char *name;
    struct text arguments;
    bool truncated;
};

struct answer {
    struct buf reasoning, content;      /* as shown, as far as it has come */
    struct ids ids;                     /* as sampled, or given; empty where the responder tells no tokens */
    struct tokens tokens;               /* the same, and how they came about */
    struct answer_call *calls;
    int  n_calls, cap_calls;
    bool too_many;                      /* it would be more than ANSWER_MAX_CALLS */
    bool guarded, looped;               /* it ends when it repeats itself, and it did */
    bool gained;                        /* there is more of it than was given */
    struct stopper stopper;             /* .hit: a stop string was found */
    struct loop loop;                   /* .span: it repeats itself now */

    /* inside */
    struct arena mem;
    const char *call_name;
    size_t n_told;                      /* bytes of text that were told */
};

/* Starts over; guarded is off.  The list of stop strings is copied, the strings must stay. */
void answer_begin(struct answer *a, bool thinking, const char *const *stops, int n_stops);
void answer_take(struct answer *a, const struct news *it);      /* TOKEN, REASONING, TEXT, CALL_BEGIN, CALL; others are nothing to it */
bool answer_is_over(const struct answer *a);            /* nothing that may still come belongs to it */
void answer_finish(struct answer *a);                   /* what was held back for the stop strings is text after all */
struct entry *answer_entry(const struct answer *a, struct transcript *t, bool whole);     /* added at the path's end, with its calls if it is whole */
void answer_free(struct answer *a);

#endif
