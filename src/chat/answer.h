/* One answer, made of its news: reasoning, text and calls, ended at a stop string, or where it begins to repeat itself. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/ids.h"
#include "base/memory.h"
#include "responder/responder.h"
#include "session/transcript.h"

/* --- stop strings: found in text that comes in pieces.  Text that may be the beginning of one is held back, with the blanks before it. --- */

struct stopper {
    const char *const *stops;           /* the caller's */
    int  n_stops;
    struct buf held;
    bool hit;                           /* a stop string was found: everything after it is dropped */
    const char *found;                  /* that string, or NULL */
};

void stopper_push(struct stopper *s, const char *text, size_t n, struct buf *out);
void stopper_finish(struct stopper *s, struct buf *out);        /* at the end of the text: passes on what was held back */
void stopper_reset(struct stopper *s, const char *const *stops, int n_stops);
void stopper_free(struct stopper *s);

/* --- repetition: the newest tokens are one span again and again, without any difference: at least LOOP_TIMES times, and LOOP_TOKENS tokens in all.
 * An answer that counts, names or varies anything between two repetitions never does that, so lists, tables, code and refrains pass. --- */

enum { LOOP_TIMES = 6, LOOP_TOKENS = 1024, LOOP_LONGEST = 1024 };       /* LOOP_LONGEST: tokens of the longest span */

struct loop {
    int span, times;                    /* tokens of the span, and how often it came; 0: no repetition now.  Valid as {0} */
    int same[LOOP_LONGEST + 1];         /* [distance] how many of the newest tokens equal the token that far before them */
};

/* Call after each token with all ids so far.  True while they repeat. */
bool loop_push(struct loop *l, const struct ids *ids);

/* --- the answer --- */

enum { ANSWER_MAX_CALLS = 256 };        /* each is a tool that runs; a model that repeats itself makes thousands */

struct answer_call {
    const char *name, *id;
    struct text arguments;
    bool truncated;
};

struct answer {
    struct buf reasoning, content;      /* the text so far, as shown */
    struct ids ids;                     /* as sampled, or given; empty if the responder does not report tokens */
    struct tokens tokens;               /* the same ids, with their sources and places */
    struct answer_call *calls;
    int  n_calls, cap_calls;
    bool too_many;                      /* it made more than ANSWER_MAX_CALLS */
    bool guarded, looped;               /* guarded: it ends when it repeats itself; looped: it did */
    bool gained;                        /* it has more than its given beginning */
    struct stopper stopper;             /* .hit: it ended at a stop string */
    struct loop loop;                   /* .span: it repeats itself */

    /* inside */
    struct arena mem;
    const char *call_name, *call_id;
    size_t n_text;                      /* bytes of text in the news so far */
};

/* Empties it, with `guarded` off.  Copies the list of stop strings, not the strings. */
void answer_begin(struct answer *a, bool thinking, const char *const *stops, int n_stops);
void answer_take(struct answer *a, const struct news *it);      /* TOKEN, REASONING, TEXT, CALL_BEGIN, CALL; other news change nothing */
bool answer_is_over(const struct answer *a);            /* true if later news do not belong to it */
void answer_finish(struct answer *a);                   /* adds the text that was held back for stop strings */
/* Adds it to the end of the path, with its calls if it is whole. */
struct entry *answer_entry(const struct answer *a, struct transcript *t, bool whole);
void answer_free(struct answer *a);
