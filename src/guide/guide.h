/* Which token ids may come next in an answer: a grammar over bytes (guide/grammar.h), walked by the bytes of tokens.
 *
 * A place in an answer is a plain value, struct guide_state: it is copied to look ahead along drafts, and to go back it is copied back.  It
 * advances over accepted ids alone.  Ids that end an answer are not the guide's: who samples admits them where guide_may_end().
 *
 * An answer that begins with reasoning is free until </think>.  After it the model writes an empty line, which is no part of the text: up to
 * two line ends are admissible there.
 *
 * Tokens that only mark up a conversation (<|im_end|>, <think> and their like) have no bytes and are never admissible.  Of them <tool_call> and
 * </tool_call> are marks: admissible, as the text that they are written as, where calls are.
 *
 * GUIDE_TALK admits any ids and rests until a call begins: with the mark <tool_call>, or with what text/stream.h takes for the beginning of one,
 * which is <tool_call> and <function= in any text, or at the start of a line <function= with the name of a tool.  The call is then what the
 * grammar admits, and when it is closed the guide rests again.  In reasoning, too, a call may begin so, which ends the reasoning.
 *
 * A guide fills its tables, and those of its grammar, while it is used: one thread at a time.  Once it was submitted to an engine that is the
 * engine's thread: others only retain and release it, and compile a grammar of their own.  Several answers may have the same guide.  Reference
 * counts are atomic; a vocabulary may be shared by all threads. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/ids.h"
#include "base/text.h"
#include "guide/grammar.h"
#include "guide/vocabulary.h"

enum guide_kind {
    GUIDE_TEXT,                         /* the text is one of the grammar; there are no calls */
    GUIDE_CALLS,                        /* ... and the grammar is grammar_of_calls() */
    GUIDE_EITHER,                       /* ... and the grammar has calls beside other texts */
    GUIDE_TALK,                         /* any text, in which there may be calls of a grammar_of_calls() that has no further ones */
    GUIDE_TALK_ONCE,                    /* the same, but the answer ends with its first call */
};

struct guide;
struct guide_state {
    struct grammar_state at;
    uint8_t stage;                      /* guide.c: reasoning, any text, in a text of the grammar, ended */
    uint8_t lead;                       /* line ends that may still precede the text */
    uint8_t matched, bare;              /* guide.c: bytes at the end of any text that may begin a call */
    uint8_t line;                       /* guide.c: such a text stands at the start of a line */
    uint8_t called;                     /* a call was begun in the text */
};

/* A guide by the grammar, which nobody else uses from then on.  Grammar and vocabulary are retained. */
struct guide *guide_new(struct grammar *g, struct guide_vocabulary *v, enum guide_kind kind);
struct guide *guide_retain(struct guide *g);
void guide_release(struct guide *g);            /* the last reference frees it; NULL is accepted */

/* The places that answers stand at, *s of each, from watch to unwatch: they stay valid through guide_settle(), which is called before
 * the work for each token.  It allows GRAMMAR_WORK of it, and gives back memory of all other places now and then: by grammar_trim(), whose `made` is
 * given. */
void guide_watch(struct guide *g, struct guide_state *s);
void guide_unwatch(struct guide *g, const struct guide_state *s);
void guide_settle(struct guide *g, int made);
/* The beginning of an answer.  reasons: it begins with reasoning. */
struct guide_state guide_begin(const struct guide *g, bool reasons);
/* True if the answer's beginning need not fit: one that does not is not guided. */
bool guide_is_optional(const struct guide *g);
/* True if no id is refused here, nor in the rest of a token that begins a call: nothing that must be obeyed is open. */
bool guide_rests(const struct guide *g, const struct guide_state *s);
/* Advances over the id.  False if it is not admissible; the state is then unchanged. */
bool guide_advance(struct guide *g, struct guide_state *s, int32_t id);
/* True if the answer may end here: the text is complete. */
bool guide_may_end(const struct guide *g, const struct guide_state *s);
/* True if it may end, and nothing else may come. */
bool guide_must_end(struct guide *g, const struct guide_state *s);
/* True if ids were refused, or left out of a mask, because the work for a token went beyond its bound; guide_settle() ends that. */
bool guide_full(const struct guide *g);
/* Sets the bits of the admissible ids (id / 32, id % 32) and clears all others, of n_ids ids in all; returns how many are admissible. */
int  guide_mask(struct guide *g, const struct guide_state *s, uint32_t *bits, int n_ids);
/* Writes the text that must come as ids, at most `most`, and returns how many: those that the tokenizer gives whatever follows the text, since the
 * model has learnt its split; so a last token that could be longer is left out.  They are guesses of what will be picked, never forced. */
int  guide_forced(struct guide *g, const struct guide_state *s, int32_t *ids, int most);
