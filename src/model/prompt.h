/* Chunks of prompts through the model: the layer loop in its plain form.  Formulas: docs/model.md.
 * Rows are tokens at consecutive positions.  All functions only queue operations; nothing is read back. */
#pragma once

#include "config/limits.h"
#include "kernels/gemm.h"
#include "model/forward.h"

/* Runs the tokens ids[0..n-1] at positions pos..pos+n-1, which join the sequence.  Rows 0..pos-1 are in the cache, and its states are those of
 * position pos.  The result is forward_hidden(). */
void prompt_run(struct forward *f, struct cache *k, const int32_t *ids, int n, int pos);
/* MTP block.  Row i of the MTP cache joins the main model's hidden state of position i with the token of position
 * i + 1, and predicts the token of position i + 2.  Runs rows pos..pos+n-1 with hidden[n, H] and next_ids[n]; writes
 * their KV rows (rewriting rows from pos on is allowed: drafts do that).  out [n, H] fp32: after mtp.norm, for
 * prompt_head(), and the hidden input of the next chained draft.  out may not alias hidden.  NULL: only the KV rows
 * are wanted, which need neither attention nor experts. */
void prompt_mtp(struct forward *f, struct cache *k, const float *hidden, const int32_t *next_ids, int n, int pos, float *out);
/* The chunk of one conversation: tokens ids[0..n-1] at positions pos..pos+n-1. */
struct prompt_part {
    struct cache  *k;
    const int32_t *ids;
    int            n, pos;
};
enum { PROMPT_PARTS = LIMIT_SEQUENCES };
/* Does both for chunks of n_parts conversations, at most PROMPT_PARTS: prompt_run(), then, when the model has an MTP block and `mtp` is set, its rows
 * for positions pos-1..pos+n-2, for which the hidden states and following tokens are known now (the one of pos-1 is kept in the cache).  Afterwards
 * each cache's last hidden state is that of its newest position.  All parts together read the weights once and are one call: their rows are at most
 * those of the work space, and forward_hidden() has them one part after the other. */
void prompt_chunks(struct forward *f, const struct prompt_part *parts, int n_parts, bool mtp);
static inline void prompt_chunk(struct forward *f, struct cache *k, const int32_t *ids, int n, int pos, bool mtp)
{
    prompt_chunks(f, &(struct prompt_part){.k = k, .ids = ids, .n = n, .pos = pos}, 1, mtp);
}
/* True if `more` rows of a conversation have the same bits in a call with others, which have `rows`, as alone: all of them together are a call that a
 * GPU rounds as a short one, or each part by itself would be a long one (kernels/gemm.h), also its MTP rows, of which the first chunk of a
 * conversation has one fewer.  `rows` is one part, or parts that this rule has put together.  With PROMPT_INT8 a GPU's experts still round
 * differently where a call has more rows than the part. */
static inline bool prompt_joins(int rows, int more)
{
    return rows + more <= GEMM_FINE || (rows > GEMM_FINE + 1 && more > GEMM_FINE + 1);
}
/* logits [n, vocab] fp32 of n rows of hidden states after a final norm. */
void prompt_head(struct forward *f, enum head h, const float *hidden, int n, float *logits);
