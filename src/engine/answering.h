/* Answers under way: from prompts to tokens.  Prompt chunks, decode steps, drafts and their verification, snapshots on the way; of one answer or of
 * several together.  Runs on the engine thread; calls back for everything that is worth an event. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/decode.h"
#include "engine/request.h"

/* Tokens of one step. */
struct picks {
    int     n;
    int32_t ids[ENGINE_MAX_DEPTH + 1];
    uint8_t source[ENGINE_MAX_DEPTH + 1];       /* enum token_source */
    float   prob[ENGINE_MAX_DEPTH + 1];
    struct logprobs logprobs[ENGINE_MAX_DEPTH + 1];
};

struct decoder_hooks {
    bool (*stop)(void *arg);            /* called between chunks and between steps; true: stop */
    void (*prefill)(void *arg, int done, int total, int cached);        /* prompt tokens */
    bool (*tokens)(void *arg, const struct picks *p);   /* false: stop, and these tokens do not count */
    void (*done)(void *arg);            /* the outcome is complete; may be NULL */
    void *arg;
};

/* For measurements with random weights, whose drafts are never right: a draft is accepted with probability rate[i], whatever the model
 * says.  i is 0 for `tokens` positions, then 1 for as many, and so on. */
struct draft_trial {
    float rate[2];
    int   tokens;                       /* 0: off */
};

struct prompt {
    uint64_t               sequence;    /* the conversation's name; 0: none */
    struct spans           spans;
    int                    snapshot_pos;
    const struct sampling *how;
    int64_t                submitted_ns;
    struct draft_trial     trial;
};

/* Several answers are under way at once, each on a sequence of its own, where the device can do that (dev_caps.several); else one.  An answer
 * has the same tokens as if it were alone, but for what PROMPT_INT8 rounds beside other prompts (model/prompt.h). */
bool decoder_may_begin(const struct decoder *d, const struct arrival *a);       /* an answer to that prompt, now */
/* Begins an answer, or ends it at once because it is refused.  What `p` points to and `out` stay valid until done(). */
void decoder_begin(struct decoder *d, const struct prompt *p, const struct decoder_hooks *h, struct outcome *out);
/* Advances all of them: a chunk of one prompt, or of several that cost little, and a step of those whose prompts are read.  False when the device
 * failed: then all have ended, and the decoder is of no more use. */
bool decoder_turn(struct decoder *d, struct err *fault);
/* Ends those that are to stop, so that an answer that begins next finds their sequences.  False as decoder_turn(). */
bool decoder_end_stopped(struct decoder *d, struct err *fault);
void decoder_fail(struct decoder *d, const struct err *fault);   /* after the device failed: all end */
/* One answer, from its beginning to its end. */
bool decoder_answer(struct decoder *d, const struct prompt *p, const struct decoder_hooks *h, struct outcome *out, struct err *fault);
