/* A decode step of 1 to 8 rows, from token ids to the next token ids, as few operations.  A device may record them and run the record as a
 * whole, so what changes between two runs is read from device memory (struct step_live), never passed by value.
 *
 * The bits of a row depend neither on the number of rows, nor on what the others hold and whose they are.  The definition of each
 * operation is in kernels/cpu/step_*.c and is made of plain operations (kernels/ops.h).  Matrices lie as the device keeps them: packed
 * on a GPU (kernels/pack.h), as stored on a CPU.
 *
 * Rollback costs nothing: raw inputs of the DeltaNet layers lie in rings by position, so that rows of rejected drafts are
 * simply written again, and the DeltaNet states of step i stand where its first row starts: each step first applies
 * the rows that were accepted last time, taken from the ring, and writes the result beside the old states. */
#ifndef Q35_KERNELS_STEP_H
#define Q35_KERNELS_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/attention.h"
#include "kernels/pack.h"
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
    STEP_ALTERNATIVES = 8,
    STEP_RMS_PARTS = 4,
};

/* One call may hold rows of several conversations.
 *
 * Each conversation has a slot.  What a device keeps of it lies in arrays by slot: struct step_live, struct step_sampling, results and
 * drafts; of seen ids, biases and last hidden states [slots] of what the arguments describe; KV rows, rings and states of slot s lie
 * s * slot_bytes behind those of slot 0.  Every pointer leads to slot 0.  `pos`, `n_valid`, `ids` and others lead to a member of its
 * struct step_live, and mean the same member of each slot's.
 *
 * A row names its slot and its index among the rows of that slot; its position is the slot's `pos` plus the index.  Rows of a slot
 * stand together, in order.  A call has at most STEP_ROWS rows in all.
 *
 * `rows` lies in device memory, so that a record of n rows serves however they are shared out.  NULL: all rows belong to one conversation,
 * to whose memory the pointers lead, and the index of row t is t. */
struct step_row {
    int32_t slot;
    int32_t index;              /* among the slot's rows in this call, from 0 */
    int32_t first;              /* row of the whole step at which the slot's rows begin.  Calls that make drafts have one row a slot, so there it
                                 * is not t - index */
};

/* Device memory, one for each slot, written by step_pick and step_draft, and by the host between requests. */
struct step_live {
    int32_t pos;                /* position of the slot's first row of the next step: what the cache holds */
    int32_t n_apply;            /* rows before pos that the committed DeltaNet states lack */
    int32_t parity;             /* which of the two state buffers is committed */
    int32_t done;               /* the answer has ended: steps still run but nothing is accepted any more */
    int32_t ids[STEP_ROWS];     /* tokens of the rows of the next step: the newest token, then the drafts */
    int32_t n_drafts;           /* of them */
    /* for the MTP block, after a pick */
    int32_t mtp_pos;            /* position of the first catch-up row */
    int32_t mtp_rows;           /* catch-up rows that count: one for each token picked; none after the end */
    int32_t mtp_last;           /* the catch-up row whose output gives the first draft */
    int32_t drafting;           /* rows of a draft in the making: 1, or 0 when the answer has ended */
    int32_t mtp_next[STEP_ROWS];        /* the token that follows each catch-up row */
    int32_t draft_pos[STEP_ROWS];       /* position of the i-th chained draft's row: mtp_pos + mtp_rows + i */
    int32_t draft_ids[STEP_ROWS];       /* drafts in the making; ids[1 + i] likewise */
    /* counters */
    int32_t step;               /* picks since the request began */
};

/* How to pick, device memory, written by the host when a request begins.  engine/sampler.h says what the numbers mean. */
struct step_sampling {
    float    temperature, top_p, min_p, presence_penalty, repetition_penalty;
    int32_t  top_k;
    int32_t  n_ids;             /* ids from here on are never picked */
    int32_t  room;              /* tokens that may still come; counted down */
    uint64_t rng;               /* state of the stream */
    int32_t  n_stop, stop[STEP_STOPS];
    int32_t  biased;            /* `bias` counts */
    int32_t  n_alternatives;    /* ids of the logprobs, at most STEP_ALTERNATIVES; 0: none is made */
    /* for measurements: a draft is the token with this chance, whatever the logits say.  The chance of position p is that at
     * [p / trial_tokens % 2], and the draw depends on p alone, so that all numbers of drafts meet the same luck */
    float    trial[2];
    int32_t  trial_tokens;      /* 0: off */
};

/* softmax of a row's logits as they were before bias and penalties; banned ids count as impossible.  engine/engine.h says more.
 * With a head in two planes the sum that all are divided by is in part of estimates (step_logits). */
struct step_logprobs {
    float   prob;               /* of the id that was picked */
    int32_t n;                  /* ids, from the likeliest down; among equals the lower id first */
    int32_t ids[STEP_ALTERNATIVES];
    float   probs[STEP_ALTERNATIVES];
};

/* Why a step was the last one of its answer. */
enum step_end {
    STEP_GOES_ON,
    STEP_STOPPED,               /* a stop id was picked */
    STEP_FULL,                  /* there is no room for another token */
    STEP_BAD_LOGIT,             /* a logit is NaN or +inf */
    STEP_ALL_BANNED,            /* every logit is -inf */
};

/* Bits of what is known of an id. */
enum step_seen {
    STEP_IN_TEXT   = 1,         /* in prompt or answer: repetition penalty */
    STEP_IN_ANSWER = 2,         /* in the answer: presence penalty */
};

/* What the host learns of a step; in host memory, written by the device.  `serial` last. */
struct step_result {
    int32_t n;                  /* tokens; 0 after the end */
    int32_t ids[STEP_ROWS];
    uint8_t drafted[STEP_ROWS]; /* token i is draft i, accepted */
    float   prob[STEP_ROWS];
    int32_t n_drafts;           /* drafts that were verified */
    int32_t ended;              /* enum step_end */
    int32_t bad_id;             /* with STEP_BAD_LOGIT */
    float   bad_logit;
    struct step_logprobs logprobs[STEP_ROWS];   /* with n_alternatives only, else what was there */
    volatile int32_t serial;    /* step_live.step of this pick, > 0 */
};

/* Drafts as they are made; in host memory, written by the device.  `serial` last. */
struct step_drafts {
    int32_t ids[STEP_ROWS];
    float   prob[STEP_ROWS];    /* softmax over the ids that drafts are chosen from; 0 when their logits are no numbers */
    volatile int32_t serial;    /* step_live.step * STEP_ROWS + drafts made since that pick */
};

/* The residual stream of a step is in fixed point (kernels/stream.h).  Operations add to it in place (step_add, step_experts), and the
 * result does not depend on their order.
 *
 * Many operations have `n_valid`, in device memory: of a slot's rows those from there on are of no use to anybody, and need not be
 * computed.  NULL: all count. */

/* stream[t] = row ids[index of t] of the table.  As embed. */
struct step_embed_args {
    int64_t       *stream;      /* [n_rows, table.cols] */
    const int32_t *ids;         /* device memory */
    const struct step_row *rows;
    struct weight  table;       /* dense [vocab, hidden], not packed; on a GPU bf16 */
    int            n_rows;
};

/* The maxima of a row of logits, one of 16 ids each, up to a multiple of 4. */
BOTH int step_maxima(int n_ids) { return (n_ids + 63) / 64 * 4; }

/* ---- products of the rows with matrices
 *
 * Rows are normed on the way in: h = (1 + norm) * u / sqrt(mean(u^2) + eps), u being a row of the stream as fp32, or what is said.  Where a
 * result is in `parts`, their sum is what is meant; a device with many blocks cuts columns into ranges, and makes a part of each.
 * As rmsnorm, linear_*.                                      tolerance: 2^-15 of sum |W x| (a GPU has activations in two 16-bit floats; with
 * INT4 in 16 bits of the greatest of 128 columns) */

/* h = norm of the stream, nothing else. */
struct step_norm_args {
    float         *h;           /* [n_rows, hidden] */
    const int64_t *stream;      /* [n_rows, hidden] */
    const float   *norm;        /* [hidden] */
    int            n_rows, hidden;
    float          eps;
};

/* y = W h for some matrices and the same rows: what a mixer reads. */
struct step_part {
    struct weight w;
    float        *y;            /* [n_rows, w.rows] */
    bool          ring;         /* instead: [STEP_RING, w.rows] by position, one for each slot */
};
struct step_project_args {
    struct step_part part[STEP_PARTS];
    int            n_parts;
    const int64_t *stream;      /* [n_rows, hidden]; or */
    const float   *halves;      /* [2, n_rows, hidden], whose sum u is, which is written to stream_out (step_mtp_join) */
    int64_t       *stream_out;  /* [n_rows, hidden], with halves */
    const float   *norm;        /* [hidden] */
    const int32_t *pos;         /* device memory: of the slot's first row, for rings; with them it was there before the recorded graph began */
    const int32_t *n_valid;
    const struct step_row *rows;
    size_t         slot_bytes;  /* of rings */
    int            n_rows;
    float          eps;
};

/* Ranges of columns into which a GPU cuts step_add: at most 2 groups for each of 8 warps, so more blocks than multiprocessors, with room
 * for the next kernel's. */
static inline int step_add_ranges(int cols) { return (cols / PACK_GROUP + 15) / 16; }

/* stream += W x, as stream_from_float() rounds it, range by range.  With ssq every head of x is first divided by its rms:
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

/* Parts of the router's results. */
static inline int step_router_parts(int hidden)
{
    int n = hidden / PACK_GROUP / 8;    /* a group of columns for each of 8 warps */
    return n < 1 ? 1 : n < STEP_RMS_PARTS ? n : STEP_RMS_PARTS;
}
/* What experts are chosen by and fed with.  The division by the rms is left to the reader (struct step_rms): h, logits and gate are of
 * (1 + norm) * u. */
struct step_router_args {
    float         *h;           /* [n_rows, hidden] */
    float         *logits;      /* parts of [n_rows, n_experts] */
    float         *gate;        /* parts of [n_rows]: of the shared expert, before the sigmoid */
    size_t         part_step;   /* from one part of logits or gate to the next, in elements */
    float         *ssq;         /* parts of [STEP_ROWS]: sums of u^2 */
    const int64_t *stream;      /* [n_rows, hidden] */
    const float   *norm;        /* [hidden] */
    struct weight  router, shared_gate;
    float         *expert_h;    /* [n_expert_h], a multiple of 4: work space of step_experts, made ready for it */
    size_t         n_expert_h;
    const int32_t *n_valid;
    const struct step_row *rows;
    int            n_rows;
};

/* Logits of normed rows, after bias and penalties.  A dense or INT8 head, or one in two planes (WEIGHT_PLANES).
 *
 * Of a head in two planes the upper one, half of the bytes, gives an estimate of each logit.  With h the normed row, i an id,
 *     e[i] = scale (1 + gain) (16 sum_k (upper[k] - 8) h[k] + mean sum_k h[k])
 * The gain makes e[i] the INT8 logit when h points along the row, as it does for likely ids; else the two differ by scale sum_k r[k] h[k],
 * where r is what upper plane and mean leave out of the row.  That sum has a deviation of scale spread |h|.  So the INT8 logit is
 * taken to be at most the bound
 *     b[i] = e[i] + STEP_DEVIATIONS scale spread |h|.
 * Bias and penalties never turn the order of two values of one id round, so they are applied to b as to a logit.  The INT8 logits of the
 * step_wanted() ids with the greatest bounds are computed; the least of them is the least that the wanted ids can have.  Every
 * id whose bound reaches that one gets its INT8 logit, bit for bit.  Alternatives are told without bias and penalties: for them, so does every
 * id whose bound without these reaches the step_told()-th greatest of those logits without these.  All other ids get e[i], with bias
 * and penalties.  That is less than any logit that a pick or an alternative can have, so both are those of the INT8 head.
 *
 * What estimates can change is the sum of exp over all ids, which the probabilities of a struct step_logprobs are divided by.  With p[i] the
 * probabilities of the ids that have estimates, d[i] = scale spread |h|, and errors that are normal, its relative error has a mean of at most
 * sum_i p[i] (exp(d[i]^2 / 2) - 1) (the mean of a log-normal distribution; ids are left out because their estimates are low, which makes
 * up for most of it) and a deviation of sqrt(sum_i p[i]^2 exp(d[i]^2) (exp(d[i]^2) - 1)).  So that it stays small, alternatives want
 * the STEP_WANTED best ids.  A probability then is off by less than 0.001 (measured: docs/measurements.md).
 *
 * When a bound is not finite, or step_wanted() is 0, all logits are INT8 logits.  The bits of a row depend on nothing but the row, so a pick
 * does not either. */
enum { STEP_WANTED = 64, STEP_DEVIATIONS = 8, STEP_COMPLETED = 8, STEP_LOGITS_SCRATCH = 16 * STEP_ROWS };
/* How many alternatives are told with a pick. */
BOTH int step_told(const struct step_sampling *s)
{
    const int n = s ? s->n_alternatives : 0;
    return n < STEP_ALTERNATIVES ? n : STEP_ALTERNATIVES;
}
/* How many of the best ids must have INT8 logits; 0: all, or more than STEP_WANTED. */
BOTH int step_wanted(const struct step_sampling *s, int n_ids)
{
    const int picks = !s ? 0 : s->temperature > 0 ? s->top_k : 1, k = picks > 0 && picks < STEP_WANTED && step_told(s) ? (int)STEP_WANTED : picks;
    return k > 0 && k <= STEP_WANTED && k < n_ids ? k : 0;
}
struct step_logits_args {
    float         *logits;      /* [n_rows, w.rows]; of ids >= n_ids -inf */
    float         *tile_max;    /* [n_rows, step_maxima(w.rows)] greatest logit of 16 ids; ids >= n_ids count as -inf; infinity when
                                 * one of them is NaN */
    struct weight  w;
    const int64_t *stream;      /* [n, hidden], normed by `norm`; or */
    const float   *hidden;      /* [1, hidden], one row that is normed already */
    const float   *norm;        /* [hidden], with stream */
    float         *hidden_out;  /* [n_rows, hidden] the normed rows, with stream; or NULL, but not of two planes on a GPU */
    void          *scratch;     /* STEP_LOGITS_SCRATCH bytes, for two planes on a GPU */
    const int32_t *row;         /* device memory: each row is row *row of the slot's in the stream; NULL: rows 0..n_rows-1 */
    const struct step_sampling *sampling;       /* NULL: raw logits */
    const uint8_t *seen;        /* [vocab] of enum step_seen */
    const float   *bias;        /* [vocab] */
    const int32_t *drafts;      /* a slot's row i is penalised for drafts[0..i-1] too */
    int            n_ids;       /* without sampling */
    bool           estimate;    /* of a head in two planes: e[i] of all ids but the STEP_COMPLETED greatest, which get their INT8 logits.
                                 * For drafts: without sampling */
    const int32_t *n_valid;
    const struct step_row *rows;
    int            n_rows;
    float          eps;
};

/* The MTP block's input: W [norm(table[ids[index of t]]); norm(hidden[t])], as two halves to be added up. */
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

/* One DeltaNet layer between its projections: convolution, gates, recurrence, gated norm.  Of each slot, rows pos-n_apply..pos-1 are applied
 * to state[parity], the result is stored as state[1 - parity], and carried on through the slot's rows from pos on.
 * y is w * o * silu(z), the division by the rms of o is left to the reader (ssq).
 * As conv, deltanet_gates, the recurrence of kernels/deltanet.h, rmsnorm_gated.                                     tolerance: 1e-4 relative */
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
    size_t       slot_bytes;    /* of rings and states */
    int          n_rows;        /* 0, without rows: only apply */
    int          n_k_heads, n_v_heads, dk, dv, taps;    /* on a GPU dk and dv are 128, taps 4 */
};

/* One attention layer between its projections: norms of q and k, rope, K and V rows stored, a slot's blocks sealed from kv_sealed(*pos - 1) to
 * kv_sealed(*pos + its rows - 1), attention, output gate.
 * Positions are cut into ranges whose length depends on the row's own position alone.
 * As rmsnorm, rope, kv_store, kv_seal, attention, sigmoid_gate.        tolerance: 2^-7 of the largest value (q and weights in bf16) */
struct step_attention_args {
    float       *y;             /* [n_rows, n_q_heads, head_dim] */
    const float *qg;            /* [n_rows, n_q_heads, 2, head_dim] query and gate */
    const float *k, *v;         /* [n_rows, n_kv_heads, head_dim] */
    const float *q_norm, *k_norm;       /* [head_dim], used as 1 + w */
    const float *freq;          /* [half] */
    struct kv_rows kv;          /* on a GPU BF16 and head_dim 256 */
    const int32_t *pos;         /* device memory: position of the slot's first row */
    const int32_t *n_valid;
    const struct step_row *rows;
    size_t       slot_bytes;    /* of KV rows */
    void        *scratch;       /* step_attention_scratch() bytes, for a GPU */
    bool         settled;       /* *pos and the cache's rows before it were there before the recorded graph began */
    int          n_rows, n_q_heads, half;
    float        eps, rope_scale, scale;
};
enum { STEP_RANGES = 64 };      /* of positions, at most */
static inline size_t step_attention_scratch(int n_q_heads)      /* outcomes of ranges */
{
    return (size_t)STEP_ROWS * (size_t)n_q_heads * STEP_RANGES * (256 + 2) * sizeof(float);
}

/* The routed experts that the rows of a step need, each once, by ascending expert.  Device memory. */
struct step_route {
    int32_t n;                                  /* distinct experts */
    int32_t expert[STEP_ROWS * STEP_CHOICES];
    float   weight[STEP_ROWS * STEP_CHOICES][STEP_ROWS];        /* of expert i for row t; 0: the row did not choose it */
};

/* What rows must still be multiplied with when their division by the rms was left to the reader:
 * 1 / sqrt(sum over i < n of ssq[i][t] / width + eps), or 1 without ssq. */
struct step_rms {
    const float *ssq;           /* [n, STEP_ROWS], n <= STEP_RMS_PARTS */
    int          n, width;
    float        eps;
};

/* What rows choose their experts from: top-k of softmax(logits), renormalised.  As router. */
struct step_choice {
    struct step_rms rms;        /* of the rows: for the logits, the shared gate and the experts' input */
    const float  *logits;       /* [n_logits] of [n_rows, n_experts], logit_step elements apart, to be added up */
    int           n_logits;
    size_t        logit_step;
    const int32_t *n_valid;
    const struct step_row *rows;
    int           overlap;      /* for measurements: rows take this many experts of row 0's, and others as if at random; -1: off */
    int           n_experts, top_k;
};

/* Chooses; then for every distinct expert e and the shared one, every row t
 *     h[e][t] = silu(gate_e x[t]) * (up_e x[t])
 *     stream[t] += sum over e of weight_e[t] * down_e h[e][t] + sigmoid(shared_gate[t]) * shared_down h_shared[t],
 * a product at a time, each rounded by stream_from_float().  As moe_group, experts_up, experts_down, moe_combine.
 *
 * All is one launch, whose blocks wait for each other's values of h: before it, all of these must be STEP_MISSING (step_router's expert_h).
 * So its blocks must all be resident at once.  There are no more than fit on the multiprocessors that the process has (`check` asks for
 * that), and they all get there as long as other kernels on the GPU end by themselves: kernels in front were resident before and wait
 * for nobody behind them, the one behind starts when every block is past its first half, and what another process runs ends at some time, or
 * takes turns with all of this one.  Only blocks of another process that wait in the same way could keep each other out, under MPS.
 * Then, or when a value is never written, the launch ends by itself after some seconds, and finish() of the device says so. */
#define STEP_MISSING 0xffffffffu                /* bits of a NaN that no product gives */
struct step_experts_args {
    int64_t      *stream;       /* [n_rows, hidden] */
    float        *h;            /* [1 + n distinct, n_rows, inter], the shared one's first, then by ascending expert; step_experts_space() */
    struct step_route *route;   /* written, what was chosen, for whoever wants to know; or NULL */
    struct step_choice choice;
    const float  *x;            /* [n_rows, hidden] normed, but for choice.rms */
    const struct expert_weights *experts;       /* [n_experts]; packed weights have gate and up together as `gate`, and all experts of a layer
                                                 * lie at equal distances */
    const struct expert_weights *shared;
    const float  *shared_gate;  /* [n_gates] of [n_rows] before the sigmoid, gate_step elements apart, to be added up */
    int           n_gates;
    size_t        gate_step;
    bool          check;        /* launch nothing: only a fault if the blocks could not all be resident */
    int           n_rows, hidden, inter;        /* inter: the widest of the experts, the shared one included */
};
/* Values of h that can be written. */
static inline size_t step_experts_space(int n_rows, int n_experts, int top_k, int inter)
{
    const int most = n_rows * top_k < n_experts ? n_rows * top_k : n_experts;
    return (size_t)(1 + most) * (size_t)n_rows * (size_t)inter;
}

/* Picks each slot's next tokens from the logits of its rows, row by row while the picks agree with the drafts live->ids[1..], updates
 * live, sampling and seen, and writes one result (results[live->step % STEP_RESULTS]).
 * `first`: a slot's only row is the prompt's last hidden state, no row of a step ran. */
struct step_pick_args {
    float             *logits;          /* [n_rows, vocab], after penalties */
    const float       *tile_max;        /* [n_rows, step_maxima(vocab)], as step_logits leaves it */
    struct step_live  *live;
    struct step_sampling *sampling;
    uint8_t           *seen;            /* [vocab] of enum step_seen */
    const float       *bias;            /* [vocab]; read for logprobs alone */
    struct step_result *results;        /* [STEP_RESULTS] host memory */
    const float       *hidden;          /* [n_rows, width] of the rows, or of the prompt's end */
    float             *last_hidden;     /* [3, width]: [parity] becomes the hidden state before the new pos; what it was, [2] */
    void              *scratch;         /* step_pick_scratch() bytes */
    const struct step_row *rows;
    int                n_rows, vocab, width;
    bool               first;
};
static inline size_t step_pick_scratch(int vocab) { return (size_t)STEP_ROWS * ((size_t)vocab * 8 + 65536); }

/* The arg-max of each slot's i-th draft, with its probability: live->draft_ids[i], live->ids[1 + i] and drafts; live->n_drafts = i + 1.
 *                                                                                                tolerance of prob: 2^-12 relative */
struct step_draft_args {
    const float      *logits;           /* [n_rows, n_ids] */
    const float      *tile_max;         /* [n_rows, step_maxima(n_ids)] */
    struct step_live *live;
    struct step_drafts *drafts;         /* host memory */
    const struct step_row *rows;        /* a row a slot */
    int               n_rows;           /* with rows; else there is one */
    int               i, n_ids;
};

#endif
