/* The operations of a decode step of 1 to 8 rows, from token ids to the next token ids.  A device may record them and run the record as a whole.  So
 * everything that changes between two runs is read from device memory (struct step_live), never passed by value.
 *
 * The bits of a row depend neither on the number of rows nor on the other rows and their conversations.  The definition of each operation is in
 * kernels/cpu/step_*.c and is made of plain operations (kernels/ops.h).  Matrices have the layout of the device: packed on a GPU (kernels/pack.h), as
 * stored on a CPU.
 *
 * Rollback costs nothing.  The raw inputs of the DeltaNet layers lie in rings by position, so the rows of rejected drafts are simply overwritten.
 * The committed DeltaNet states lag behind: a step first applies to them the rows that were accepted in the step before, taken from the ring, and
 * writes the result into the other one of two buffers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "answer/token.h"
#include "kernels/attention.h"
#include "kernels/pack.h"
#include "kernels/rope.h"
#include "kernels/stream.h"
#include "kernels/tensor.h"

enum {
    STEP_ROWS  = 8,             /* rows of one step at most */
    STEP_RING  = 32,            /* positions of a ring: 3 taps + 8 rows to apply + 8 new ones, a power of two */
    STEP_PARTS = 4,             /* matrices of one step_project */
    STEP_CHOICES = 16,          /* top_k at most */
    STEP_EXPERTS = 256,         /* experts at most */
    STEP_STOPS = 8,
    STEP_RESULTS = 4,           /* results that the host may be behind, a power of two */
    STEP_ALTERNATIVES = LIMIT_ALTERNATIVES,
    STEP_RMS_PARTS = 4,
};

/* One call may have rows of several conversations.
 *
 * Each conversation has a slot.  Its data are in arrays by slot: struct step_live, struct step_sampling, results, drafts, seen ids, biases and last
 * hidden states, [slots] of what the arguments describe; KV rows, rings and states of slot s lie s * slot_bytes after those of slot 0.  Every pointer
 * is that for slot 0.  Pointers such as `pos`, `n_valid` and `ids` point to a member of the struct step_live of slot 0, and mean the same member of
 * each slot.
 *
 * A row names its slot and its index among the rows of that slot.  The index of its KV row is the slot's `pos` plus that index, and rope turns it by
 * the index of the KV row plus the slot's rope_offset, which is zero for text without pictures before it.  The rows of a slot are consecutive and in
 * order.  A call has at most STEP_ROWS rows in all.
 *
 * `rows` is device memory, so that one record of n rows can be used for any division into slots.  NULL: all rows belong to the conversation that the
 * pointers are for, and the index of row t is t. */
struct step_row {
    int32_t slot;
    int32_t index;              /* index among the slot's rows in this call, from 0 */
    int32_t first;              /* the slot's first row in the whole step.  In calls that make drafts, which have one row for each slot, this is not
                                 * t - index */
};

/* Device memory, one for each slot, written by step_pick and step_draft, and by the host between requests. */
struct step_live {
    int32_t pos;                /* KV row of the slot's first row in the next step: the number of positions in the cache */
    struct rope_position rope_offset;   /* from the KV row of a token to its position on each axis; the host sets it before an answer */
    int32_t unused;             /* makes the size a multiple of 8 bytes */
    int32_t n_apply;            /* rows before pos that are not applied to the committed DeltaNet states yet */
    int32_t parity;             /* index of the state buffer that is committed */
    int32_t done;               /* the answer has ended: steps may still run, but no token is accepted any more */
    int32_t ids[STEP_ROWS];     /* tokens of the rows of the next step: the newest token, then the drafts */
    int32_t n_drafts;           /* number of these drafts */
    /* for the MTP block, after a pick */
    int32_t mtp_pos;            /* position of the first catch-up row */
    int32_t mtp_rows;           /* catch-up rows that count: one for each picked token; 0 after the end */
    int32_t mtp_last;           /* the catch-up row whose output gives the first draft */
    int32_t drafting;           /* rows of a draft that is being made: 1, or 0 when the answer has ended */
    int32_t mtp_next[STEP_ROWS];        /* the token after that of each catch-up row */
    int32_t draft_pos[STEP_ROWS];       /* position of the i-th chained draft's row: mtp_pos + mtp_rows + i */
    int32_t draft_ids[STEP_ROWS];       /* the drafts that were made so far, which are also in ids[1 + i] */
    /* counters */
    int32_t step;               /* picks since the request began */
};

/* How to pick tokens; device memory, written by the host when a request begins.  engine/sampler.h explains the numbers. */
struct step_sampling {
    float    temperature, top_p, min_p, presence_penalty, repetition_penalty;
    int32_t  top_k;
    int32_t  n_ids;             /* ids from here on are never picked */
    int32_t  room;              /* how many tokens the answer may still have; counted down */
    uint64_t rng;               /* state of the random stream */
    int32_t  n_stop, stop[STEP_STOPS];
    int32_t  biased;            /* `bias` is used */
    int32_t  n_alternatives;    /* ids of the logprobs, at most STEP_ALTERNATIVES; 0: no logprobs */
    /* for measurements: a draft is accepted with probability trial[p / trial_tokens % 2] at position p, whatever the logits are, but
     * not in a row that has a mask.  The draw depends on p alone, so that it comes out alike with any number of drafts */
    float    trial[2];
    int32_t  trial_tokens;      /* 0: off */
};

/* Why a step was the last one of its answer. */
enum step_end {
    STEP_GOES_ON,
    STEP_STOPPED,               /* a stop id was picked */
    STEP_FULL,                  /* there is no room for another token */
    STEP_BAD_LOGIT,             /* a logit is NaN or +inf */
    STEP_ALL_BANNED,            /* every logit is -inf */
};

/* Bits for each id: where it has occurred. */
enum step_seen {
    STEP_IN_TEXT   = 1,         /* in prompt or answer: repetition penalty */
    STEP_IN_ANSWER = 2,         /* in the answer: presence penalty */
};

/* The result of a step, in host memory.  The device writes it, `serial` last. */
struct step_result {
    int32_t n;                  /* number of tokens; 0 after the end */
    int32_t ids[STEP_ROWS];
    uint8_t drafted[STEP_ROWS]; /* token i is draft i, which was accepted */
    float   prob[STEP_ROWS];
    int32_t n_drafts;           /* drafts that were verified */
    int32_t ended;              /* enum step_end */
    int32_t bad_id;             /* with STEP_BAD_LOGIT */
    float   bad_logit;
    struct logprobs logprobs[STEP_ROWS];        /* only written with n_alternatives > 0.  With a head in two planes the sum in the denominator is
                                                 * partly made of estimates (step_logits) */
    volatile int32_t serial;    /* step_live.step of this pick, > 0 */
};

/* The drafts made so far, in host memory.  The device writes them, `serial` last. */
struct step_drafts {
    int32_t ids[STEP_ROWS];
    float   prob[STEP_ROWS];    /* softmax over the ids that drafts are chosen from; 0 if the logits are NaN */
    volatile int32_t serial;    /* step_live.step * STEP_ROWS + drafts made since that pick */
};

/* The residual stream of a step is in fixed point (kernels/stream.h).  Operations add to it in place (step_add, step_experts), and the result does
 * not depend on the order of the additions.
 *
 * Many operations have `n_valid`, in device memory: only the first *n_valid rows of a slot are used, the others need not be computed.  NULL: all rows
 * are used. */

/* stream[t] = row ids[index of t] of the table.  Like embed. */
struct step_embed_args {
    int64_t       *stream;      /* [n_rows, table.cols] */
    const int32_t *ids;         /* device memory */
    const struct step_row *rows;
    struct weight  table;       /* dense [vocab, hidden], not packed; on a GPU bf16 */
    int            n_rows;
};

/* Returns the number of maxima of a row of logits: one for each 16 ids, rounded up to a multiple of 4. */
BOTH int step_maxima(int n_ids) { return (n_ids + 63) / 64 * 4; }

/* ---- products of the rows with matrices
 *
 * The operations first norm a row: h = (1 + norm) * u / sqrt(mean(u^2) + eps), where u is a row of the stream as fp32, unless said otherwise.  A
 * result in `parts` is the sum of these parts; a device with many blocks cuts the columns into ranges and makes one part of each.
 * Like rmsnorm, linear_*.                                    tolerance: 2^-15 of sum |W x| (a GPU keeps activations in two 16-bit floats; for
 * INT4 matrices in 16 bits with the scale of the greatest of 128 columns) */

/* h = norm of the stream, nothing else. */
struct step_norm_args {
    float         *h;           /* [n_rows, hidden] */
    const int64_t *stream;      /* [n_rows, hidden] */
    const float   *norm;        /* [hidden] */
    int            n_rows, hidden;
    float          eps;
};

/* y = W h for several matrices and the same rows: the inputs of a mixer. */
struct step_part {
    struct weight w;
    float        *y;            /* [n_rows, w.rows] */
    bool          ring;         /* y is a ring instead, [STEP_RING, w.rows] by position, one for each slot */
};
struct step_project_args {
    struct step_part part[STEP_PARTS];
    int            n_parts;
    const int64_t *stream;      /* [n_rows, hidden]; or */
    const float   *halves;      /* [2, n_rows, hidden]: u is the sum of the halves (step_mtp_join), and is written to stream_out */
    int64_t       *stream_out;  /* [n_rows, hidden], with halves */
    const float   *norm;        /* [hidden] */
    const int32_t *pos;         /* with rings: position of the slot's first row, device memory, written before the recorded graph begins */
    const int32_t *n_valid;
    const struct step_row *rows;
    size_t         slot_bytes;  /* with rings: from one slot's to the next */
    int            n_rows;
    float          eps;
};

/* Returns the number of ranges of columns into which a GPU cuts step_add: of at most 2 groups for each of 8 warps, so that there are more blocks than
 * multiprocessors, and blocks of the next kernel fit beside them. */
static inline int step_add_ranges(int cols) { return (cols / PACK_GROUP + 15) / 16; }

/* stream += W x, where the product of each range is rounded by stream_from_float().  With ssq each head of x is first divided by its rms:
 * x[t][s * head_dim + i] /= sqrt((ssq[t][s][0] + ssq[t][s][1]) / head_dim + eps). */
struct step_add_args {
    int64_t       *stream;      /* [n_rows, w.rows] */
    struct weight  w;
    const float   *x;           /* [n_rows, w.cols] */
    const float   *ssq;         /* [n_rows, w.cols / head_dim, 2] or NULL */
    int            head_dim;    /* with ssq; on a GPU 128 */
    const int32_t *n_valid;
    const struct step_row *rows;
    int            n_rows;
    float          eps;
};

/* Returns the number of parts of the router's results. */
static inline int step_router_parts(int hidden)
{
    int n = hidden / PACK_GROUP / 8;    /* a group of columns for each of 8 warps */
    return n < 1 ? 1 : n < STEP_RMS_PARTS ? n : STEP_RMS_PARTS;
}
/* Makes the input of the experts and the numbers by which they are chosen.  They are not divided by the rms yet, which step_experts does (struct
 * step_rms): h, logits and gate are those of (1 + norm) * u. */
struct step_router_args {
    float         *h;           /* [n_rows, hidden] the experts' input */
    float         *logits;      /* parts of [n_rows, n_experts] */
    float         *gate;        /* parts of [n_rows]: the shared expert's gate, before the sigmoid */
    size_t         part_step;   /* from one part of logits or gate to the next, in elements */
    float         *ssq;         /* parts of [STEP_ROWS]: sums of u^2 */
    const int64_t *stream;      /* [n_rows, hidden] */
    const float   *norm;        /* [hidden] */
    struct weight  router, shared_gate;
    float         *expert_h;    /* [n_expert_h], a multiple of 4: work space of step_experts, which this fills with STEP_MISSING */
    size_t         n_expert_h;
    const int32_t *n_valid;
    const struct step_row *rows;
    int            n_rows;
};

/* Logits of normed rows, after bias and penalties, from a head that is dense, INT8, or in two planes (WEIGHT_PLANES).
 *
 * With a head in two planes, the upper plane, half of the bytes, gives an estimate of each logit.  With h the normed row and i an id,
 *     e[i] = scale (1 + gain) (16 sum_k (upper[k] - 8) h[k] + mean sum_k h[k])
 * The gain makes e[i] equal to the INT8 logit when h points along the row, as it does for likely ids; else both differ by scale sum_k r[k] h[k],
 * where r is the part of the row that upper plane, mean and gain leave out.  That sum has a standard deviation of scale spread |h|.  So the INT8
 * logit is assumed to be at most the bound
 *     b[i] = e[i] + STEP_DEVIATIONS scale spread |h|.
 * Bias and penalties never reverse the order of two values of one id, so they are applied to b as to a logit.  First the INT8 logits of the
 * step_wanted() ids with the greatest bounds are computed; the least of these is a lower limit for the wanted ids.  Then every id whose bound
 * reaches this limit gets its INT8 logit, bit for bit.  Alternatives are chosen without bias and penalties: for them, every id whose bound without
 * these reaches the step_alternatives()-th greatest of these logits without these gets its INT8 logit too.  All other ids get e[i], with bias and
 * penalties; without alternatives a device may write -inf instead, since these logits are not added up.  That is less than any logit that a pick
 * or an alternative can have, so picks and alternatives are those of the INT8 head.
 *
 * Estimates only change the sum of exp over all ids, by which the probabilities of a struct logprobs are divided.  With p[i] the
 * probabilities of the ids that have estimates, d[i] = scale spread |h|, and errors that are normal, its relative error has a mean of at most
 * sum_i p[i] (exp(d[i]^2 / 2) - 1) (the mean of a log-normal distribution; ids are left out because their estimates are low, which makes
 * up for most of it) and a deviation of sqrt(sum_i p[i]^2 exp(d[i]^2) (exp(d[i]^2) - 1)).  So that it stays small, STEP_WANTED
 * ids are wanted when there are alternatives.  A probability is then wrong by less than 0.001 (measured: docs/log/2026-11.md).
 *
 * If a bound is not finite, or step_wanted() is 0, all logits are INT8 logits.  The bits of a row's logits, and so its pick, depend on the row
 * alone. */
enum { STEP_WANTED = 64, STEP_DEVIATIONS = 8, STEP_COMPLETED = 8, STEP_LOGITS_SCRATCH = 16 * STEP_ROWS };
/* Returns the number of alternatives of each pick. */
BOTH int step_alternatives(const struct step_sampling *s)
{
    const int n = s ? s->n_alternatives : 0;
    return n < STEP_ALTERNATIVES ? n : STEP_ALTERNATIVES;
}
/* Returns how many of the best ids must have INT8 logits; 0: all, or more than STEP_WANTED. */
BOTH int step_wanted(const struct step_sampling *s, int n_ids)
{
    const int picks = !s ? 0 : s->temperature > 0 ? s->top_k : 1;
    const int k = picks > 0 && picks < STEP_WANTED && step_alternatives(s) ? (int)STEP_WANTED : picks;
    return k > 0 && k <= STEP_WANTED && k < n_ids ? k : 0;
}
struct step_logits_args {
    float         *logits;      /* [n_rows, w.rows]; -inf for ids >= n_ids */
    float         *tile_max;    /* [n_rows, step_maxima(w.rows)] the greatest logit of each 16 ids; ids >= n_ids count as -inf; infinity if
                                 * one of them is NaN */
    struct weight  w;
    const int64_t *stream;      /* [n, hidden], normed by `norm`; or */
    const float   *hidden;      /* [1, hidden], one row that is already normed */
    const float   *norm;        /* [hidden], with stream */
    float         *hidden_out;  /* [n_rows, hidden] gets the normed rows, with stream; may be NULL, except for two planes on a GPU */
    void          *scratch;     /* STEP_LOGITS_SCRATCH bytes, for two planes on a GPU */
    const int32_t *row;         /* device memory: the row of each slot in the stream; NULL: rows 0..n_rows-1 */
    const struct step_sampling *sampling;       /* NULL: raw logits */
    const uint8_t *seen;        /* [vocab] of enum step_seen */
    const float   *bias;        /* [vocab] */
    const int32_t *drafts;      /* a slot's row i is penalised for drafts[0..i-1] too */
    int            n_ids;       /* without sampling */
    bool           estimate;    /* a head in two planes: e[i] for all ids except the STEP_COMPLETED greatest, which get their INT8 logits.
                                 * For drafts, without sampling */
    bool           whole;       /* a head in two planes: INT8 logits for all ids */
    const int32_t *n_valid;
    const struct step_row *rows;
    int            n_rows;
    float          eps;
};

/* The input of the MTP block, W [norm(table[ids[index of t]]); norm(hidden[t])], as two halves whose sum it is. */
struct step_mtp_join_args {
    float         *halves;      /* [2, n_rows, w.rows] */
    struct weight  w;           /* [hidden, 2 hidden] */
    struct weight  table;       /* dense [vocab, hidden], not packed; on a GPU bf16 */
    const int32_t *ids;         /* device memory */
    const float   *norm_embedding;      /* [hidden] */
    const float   *hidden;      /* [n_rows, hidden] */
    const float   *norm_hidden; /* [hidden] */
    const int32_t *n_valid;
    const struct step_row *rows;
    int            n_rows;
    float          eps;
};

/* One DeltaNet layer between its projections: convolution, gates, recurrence, gated norm.  For each slot, it applies rows pos-n_apply..pos-1 to
 * state[parity], stores the result as state[1 - parity], and continues from there through the slot's rows from pos on, without storing.
 * y is w * o * silu(z), not yet divided by the rms of o, which step_add does (ssq).
 * Like conv, deltanet_gates, the recurrence of kernels/deltanet.h, rmsnorm_gated.                                     tolerance: 1e-4 relative */
struct step_delta_args {
    float       *y;             /* [n_rows, n_v_heads, dv] */
    float       *ssq;           /* [n_rows, n_v_heads, 2]: sums of o^2 over the two halves of the columns */
    const float *raw;           /* ring [STEP_RING, 2 * n_k_heads * dk + n_v_heads * dv] by position */
    const float *a, *b;         /* rings [STEP_RING, n_v_heads] */
    const float *z;             /* [n_rows, n_v_heads * dv] */
    const float *conv;          /* [channels, taps] */
    const float *a_log, *dt_bias;       /* [n_v_heads] */
    const float *norm;          /* [dv] */
    float       *state[2];      /* [n_v_heads, dk, dv] each */
    const struct step_live *live;
    const struct step_row *rows;
    size_t       slot_bytes;    /* from one slot's rings and states to the next */
    int          n_rows;        /* 0, without `rows`: only applies */
    int          n_k_heads, n_v_heads, dk, dv, taps;    /* on a GPU dk and dv are 128, taps 4 */
};

/* One attention layer between its projections: norms q and k, applies rope, stores K and V rows, seals each slot's blocks from kv_sealed(*pos - 1) to
 * kv_sealed(*pos + its rows - 1), then attention and the output gate.  Rope turns row i of a slot by *pos + i + *rope_offset.
 * Positions are cut into ranges whose length depends on the row's own position alone.
 * Like rmsnorm, rope, kv_store, kv_seal, attention, sigmoid_gate.        tolerance: 2^-7 of the largest value (q and weights in bf16) */
struct step_attention_args {
    float       *y;             /* [n_rows, n_q_heads, head_dim] */
    const float *qg;            /* [n_rows, n_q_heads, 2, head_dim] query and gate */
    const float *k, *v;         /* [n_rows, n_kv_heads, head_dim] */
    const float *q_norm, *k_norm;       /* [head_dim], used as 1 + w */
    const float *freq;          /* [half] */
    struct kv_rows kv;          /* on a GPU BF16 and head_dim 256 */
    const int32_t *pos;         /* device memory: KV row of the slot's first row */
    const struct rope_position *rope_offset;    /* device memory, a member of struct step_live as `pos` is; NULL: zero */
    const int32_t *n_valid;
    const struct step_row *rows;
    size_t       slot_bytes;    /* from one slot's KV rows to the next */
    void        *scratch;       /* step_attention_scratch() bytes, for a GPU */
    bool         settled;       /* *pos, *rope_offset and the cache's rows before *pos are written before the recorded graph begins */
    int          n_rows, n_q_heads, half;
    float        eps, rope_scale, scale;
};
enum { STEP_RANGES = 64 };      /* most ranges of positions */
static inline size_t step_attention_scratch(int n_q_heads)      /* for the results of all ranges */
{
    return (size_t)STEP_ROWS * (size_t)n_q_heads * STEP_RANGES * (256 + 2) * sizeof(float);
}

/* The routed experts that the rows of a step need, each once, by ascending expert.  Device memory. */
struct step_route {
    int32_t n;                                  /* distinct experts */
    int32_t expert[STEP_ROWS * STEP_CHOICES];
    float   weight[STEP_ROWS * STEP_CHOICES][STEP_ROWS];        /* of expert i for row t; 0: the row did not choose it */
};

/* The factor with which rows must be multiplied that were not divided by their rms:
 * 1 / sqrt(sum over i < n of ssq[i][t] / width + eps), or 1 without ssq. */
struct step_rms {
    const float *ssq;           /* [n, STEP_ROWS], n <= STEP_RMS_PARTS */
    int          n, width;
    float        eps;
};

/* The choice of experts: the top_k of softmax(logits), renormalised.  Like router. */
struct step_choice {
    struct step_rms rms;        /* for the logits, the shared expert's gate and the experts' input */
    const float  *logits;       /* [n_logits] parts of [n_rows, n_experts], logit_step elements apart, which are added up */
    int           n_logits;
    size_t        logit_step;
    const int32_t *last_of;     /* device memory: of each slot only the last of its first *last_of rows is used and chooses experts; what becomes
                                 * of the others is undefined.  NULL: all rows are used */
    const struct step_row *rows;
    int           overlap;      /* for measurements: each row gets so many of row 0's experts, and others as if at random; -1: off */
    int           n_experts, top_k;
};

/* Chooses the experts; then computes, for every distinct expert e and the shared one, and for every row t,
 *     h[e][t] = silu(gate_e x[t]) * (up_e x[t])
 *     stream[t] += sum over e of weight_e[t] * down_e h[e][t] + sigmoid(shared_gate[t]) * shared_down h_shared[t],
 * where each product is rounded by stream_from_float() and added.  Like moe_group, experts_up, experts_down, moe_combine.
 *
 * It is one launch, whose blocks wait for values of h that other blocks write: before the launch all of these must be STEP_MISSING (step_router's
 * expert_h).  So all blocks must be resident at once.  There are no more of them than fit on the multiprocessors of the process (`check` makes sure),
 * and all become resident as long as other kernels on the GPU end by themselves: kernels before this one are resident already and do not wait for it;
 * the kernel after it starts when every block is past its first half; kernels of another process end at some time, or take turns with the whole of
 * this process.  Only under MPS could blocks of another process that wait in the same way keep some of these out.  Then, or if a value is never
 * written, the launch ends by itself after some seconds, and finish() of the device reports a fault. */
#define STEP_MISSING 0xffffffffu                /* bits of a NaN that no product gives */
struct step_experts_args {
    int64_t      *stream;       /* [n_rows, hidden] */
    float        *h;            /* [1 + n distinct, n_rows, inter], of the shared expert first, then by ascending expert; step_experts_space() */
    struct step_route *route;   /* gets the choice; or NULL */
    struct step_choice choice;
    const float  *x;            /* [n_rows, hidden] normed, except for the factor of choice.rms */
    const struct expert_weights *experts;       /* [n_experts]; packed: gate and up are one matrix, `gate`, and the experts of a layer lie at
                                                 * equal distances */
    const struct expert_weights *shared;
    const float  *shared_gate;  /* [n_gates] parts of [n_rows] before the sigmoid, gate_step elements apart, which are added up */
    int           n_gates;
    size_t        gate_step;
    bool          check;        /* launches nothing, but makes the device fail if the blocks could not all be resident */
    int           n_rows, hidden, inter;        /* inter: the widest of the experts, the shared one included */
};
/* Returns the size of h for any choice, in numbers. */
static inline size_t step_experts_space(int n_rows, int n_experts, int top_k, int inter)
{
    const int most = n_rows * top_k < n_experts ? n_rows * top_k : n_experts;
    return (size_t)(1 + most) * (size_t)n_rows * (size_t)inter;
}

/* Picks each slot's next tokens from the logits of its rows, row by row as long as the picks are equal to the drafts live->ids[1..].  Updates live,
 * sampling and seen, and writes one result (results[live->step % STEP_RESULTS]).
 * first: the only row of a slot is the last hidden state of its prompt, and no step ran before.
 *
 * With masks the pick is made once more, for one slot, after live, sampling and seen were put back: a row that has a mask is picked
 * with another random number, among the ids that its first pick was made from (after top-k, top-p and min-p) as far as the mask admits them.  If it
 * admits none of these, top-k, top-p and min-p apply to the ids of the mask.  So if p is the distribution of the first pick, of which the mask
 * admits a share A, and only refused picks are made once more, an admissible id comes with p + (1 - A) p / A = p / A: as if picks were made until
 * one is admissible.  Logprobs are those without a mask. */
struct step_pick_args {
    float             *logits;          /* [n_rows, vocab], after penalties */
    const float       *tile_max;        /* [n_rows, step_maxima(vocab)], as step_logits leaves it */
    struct step_live  *live;
    struct step_sampling *sampling;
    uint8_t           *seen;            /* [vocab] of enum step_seen */
    const float       *bias;            /* [vocab]; needed only for logprobs */
    struct step_result *results;        /* [STEP_RESULTS] host memory */
    const float       *hidden;          /* [n_rows, width] hidden states of the rows, or of the prompt's end */
    float             *last_hidden;     /* [3, width]: [parity] becomes the hidden state of the position before the new pos; [2] the former one */
    void              *scratch;         /* step_pick_scratch() bytes */
    const struct step_row *rows;
    int                n_rows, vocab, width;
    bool               first;
    const uint32_t    *mask;            /* [n_rows, step_mask_words(vocab)] a bit for each admissible id; without `rows` */
    uint32_t           masked;          /* a bit for each row that has a mask */
};
BOTH int step_mask_words(int vocab) { return (vocab + 31) / 32; }
static inline size_t step_pick_scratch(int vocab) { return (size_t)STEP_ROWS * ((size_t)vocab * 8 + 65536); }

/* Writes the arg-max of the logits as each slot's i-th draft, with its probability: live->draft_ids[i], live->ids[1 + i] and drafts.  Then
 * live->n_drafts = i + 1.
 *                                                                                                tolerance of prob: 2^-12 relative */
struct step_draft_args {
    const float      *logits;           /* [n_rows, n_ids] */
    const float      *tile_max;         /* [n_rows, step_maxima(n_ids)] */
    struct step_live *live;
    struct step_drafts *drafts;         /* host memory */
    const struct step_row *rows;        /* one row for each slot */
    int               n_rows;           /* with `rows`; else there is one row */
    int               i, n_ids;
};
