/* A decode step of 1 to 8 rows as few fused operations, for a device that runs it as one recorded graph.
 *
 * What changes between two replays is read from device memory (struct step_live), never passed by value.  Matrices are packed
 * (kernels/pack.h).  The bits of a row depend neither on the number of rows nor on what the other rows hold.  Each operation
 * is defined by plain ones (kernels/ops.h), named in its comment; tests/kernels compares them.
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
    STEP_PARTS = 4,             /* matrices of one step_linear */
    STEP_CHOICES = 16,          /* top_k at most */
    STEP_EXPERTS = 256,         /* experts at most */
    STEP_STOPS = 8,
    STEP_SLOTS = 4,             /* results that the host may be behind, a power of two */
    STEP_ALTERNATIVES = 8,
    STEP_RMS_PARTS = 4,
};

/* Device memory, written by step_pick and step_draft, and by the host between requests. */
struct step_live {
    int32_t pos;                /* position of row 0 of the next step: what the cache holds */
    int32_t n_apply;            /* rows before pos that the committed DeltaNet states lack */
    int32_t parity;             /* which of the two state buffers is committed */
    int32_t done;               /* the answer has ended: steps still run but nothing is accepted any more */
    int32_t ids[STEP_ROWS];     /* tokens of the rows of the next step: the newest token, then the drafts */
    int32_t n_drafts;           /* of them */
    /* for the MTP block, after a pick */
    int32_t mtp_pos;            /* position of the first catch-up row */
    int32_t mtp_rows;           /* catch-up rows that count: their experts are read */
    int32_t mtp_last;           /* the catch-up row whose output gives the first draft */
    int32_t mtp_next[STEP_ROWS];        /* the token that follows each catch-up row */
    int32_t draft_pos[STEP_ROWS];       /* position of the i-th chained draft's row: mtp_pos + mtp_rows + i */
    int32_t draft_ids[STEP_ROWS];       /* drafts in the making; ids[1 + i] likewise */
    /* counters */
    int32_t step;               /* picks since the request began */
    int32_t zero;               /* always 0, for operations that want a position */
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
    int32_t  n_alternatives;    /* ids of an outlook, at most STEP_ALTERNATIVES; 0: none is made */
};

/* softmax of a row's logits as they were before bias and penalties; banned ids count as impossible.  engine/engine.h says more. */
struct step_outlook {
    float   prob;               /* of the id that was picked */
    int32_t n;                  /* ids, from the likeliest down; among equals the lower id first */
    int32_t ids[STEP_ALTERNATIVES];
    float   probs[STEP_ALTERNATIVES];
};

/* What the host learns of a step; in host memory, written by the device.  `serial` last. */
struct step_result {
    int32_t n;                  /* tokens; 0 after the end */
    int32_t ids[STEP_ROWS];
    uint8_t drafted[STEP_ROWS]; /* token i is draft i, accepted */
    float   prob[STEP_ROWS];
    int32_t n_drafts;           /* drafts that were verified */
    int32_t ended;              /* 0 no, 1 stop id, 2 no room, 3 a logit was no number, 4 every id is banned */
    int32_t bad_id;             /* with 3 */
    float   bad_logit;
    struct step_outlook outlook[STEP_ROWS];     /* with n_alternatives only, else what was there */
    volatile int32_t serial;    /* step_live.step of this pick, > 0 */
};

/* The residual stream of a step is in fixed point (kernels/stream.h).  Operations add to it in place (STEP_ADD, step_experts), and the
 * result does not depend on their order. */

/* stream[t] = row ids[t] of the dense, unpacked bf16 table.  As embed. */
struct step_embed_args {
    int64_t       *stream;      /* [n_rows, hidden] */
    const int32_t *ids;         /* device memory */
    const uint16_t *table;      /* [vocab, hidden] bf16 */
    int            n_rows, hidden;
};

/* The maxima of a row of logits, one of 16 ids each, up to a multiple of 4. */
PACK_INLINE int step_maxima(int n_ids) { return (n_ids + 63) / 64 * 4; }

/* Products with one normed input.  Row t of the input is
 *     u = x[t] + plus[t], or stream[t] to fp32                    written to stream_out when that is not NULL (with `norm` only)
 *     h = (1 + norm) * u / sqrt(mean(u^2) + eps)   with `norm`;   h = u without        likewise to h_out
 *     h[128 s + i] *= 1 / sqrt((ssq[t][s][0] + ssq[t][s][1]) / 128 + eps)   with `ssq`
 * then part p gives y = W_p h: plain, into a ring, added to the stream, or logits (INT8 or dense, one part alone).  With splits > 1 the
 * columns are cut into that many equal ranges; range s goes to y + s * y_split, for the reader to add up, or is added to the stream
 * by itself.  A range is at most 4096 columns long, 2048 with STEP_ADD and other inputs without norm, 1024 with `ssq_out`, which is for
 * dense matrices alone.  `norm` then means one of two things: with in[1], range s has an input of its own (input s: x, norm), as long as the
 * range, normed by itself; with `ssq_out` the division by the rms is left to the reader (struct step_rms), in h_out as well.
 * As rmsnorm, linear_*.                                      tolerance: 2^-15 of sum |W x| (activations in two 16-bit floats; with INT4
 * in 16 bits of the greatest of 128 columns) */
enum step_write {
    STEP_PLAIN,                 /* y[t * y_row + n] */
    STEP_TO_RING,               /* y[((*pos + t) % STEP_RING) * y_row + n] */
    STEP_ADD,                   /* stream[t * y_row + n] += product, as stream_from_float() rounds it; of an input without norm */
    STEP_LOGITS,                /* y[t * y_row + n] after bias and penalties, and tile_max */
};
struct step_part {
    struct weight   w;          /* packed; rows = 2 I for a pair */
    float          *y;
    int64_t        *stream;     /* with STEP_ADD, instead of y */
    size_t          y_row;      /* in elements */
    enum step_write write;
};
struct step_input {
    const void  *x;             /* [n, cols] fp32; bf16 rows of a table when `ids` */
    const int64_t *stream;      /* [n, cols], instead of x; with the whole input normed alone */
    const int32_t *ids;         /* NULL, or: row t is row ids[t] of the table x */
    const float *norm;          /* [cols] or NULL */
};
struct step_linear_args {
    struct step_part  part[STEP_PARTS];
    int               n_parts;
    struct step_input in[2];    /* in[1] when splits == 2 and both have norms of their own, else unused */
    const float      *plus;     /* [n, cols] or NULL; with x, the whole input normed alone and not cut */
    int64_t          *stream_out;       /* [n, cols] */
    float            *h_out;    /* [n, cols] */
    const float      *ssq;      /* [n, cols / 128, 2] */
    float            *ssq_out;  /* [splits, STEP_ROWS] sums of u^2 of each range */
    const int32_t    *row;      /* device memory: take input row *row as the only row; NULL: rows 0..n_rows-1 */
    const int32_t    *pos;      /* of row 0, for STEP_TO_RING */
    size_t            y_split;
    float            *missing;  /* [n_missing], a multiple of 4: becomes STEP_MISSING; with ssq_out only */
    size_t            n_missing;
    int               n_rows, splits;
    float             eps;
    /* STEP_LOGITS */
    float            *tile_max; /* [n_rows, step_maxima(rows)] greatest logit of 16 ids; ids >= n_ids count as -inf; infinity when
                                 * one of them is NaN */
    const struct step_sampling *sampling;       /* NULL: raw logits */
    const uint8_t    *marks;    /* [vocab]: bit 0 in prompt or answer, bit 1 in the answer */
    const float      *bias;     /* [vocab] */
    const int32_t    *drafts;   /* row t is penalised for drafts[0..t-1] too */
    int               n_ids;    /* without sampling */
};

/* One DeltaNet layer between its projections: convolution, gates, recurrence, gated norm.  Rows pos-n_apply..pos-1 are applied
 * to state[parity], the result is stored as state[1 - parity], and carried on through rows pos..pos+n_rows-1.
 * y is w * o * silu(z), the division by the rms of o is left to the reader (ssq).
 * As conv, deltanet_gates, deltanet_step, rmsnorm_gated.                                     tolerance: 1e-4 relative */
struct step_delta_args {
    float       *y;             /* [n_rows, n_v_heads, 128] */
    float       *ssq;           /* [n_rows, n_v_heads, 2]: sums of o^2 over columns 0..63 and 64..127 */
    const float *raw;           /* ring [STEP_RING, 2 * n_k_heads * 128 + n_v_heads * 128] by position */
    const float *a, *b;         /* rings [STEP_RING, n_v_heads] */
    const float *z;             /* [n_rows, n_v_heads * 128] */
    const float *conv;          /* [channels, 4] */
    const float *a_log, *dt_bias;       /* [n_v_heads] */
    const float *norm;          /* [128] */
    float       *state[2];      /* [n_v_heads, 128, 128] each */
    const struct step_live *live;
    int          n_rows;        /* 0: only apply */
    int          n_k_heads, n_v_heads;
};

/* One attention layer between its projections: norms of q and k, rope, K and V rows stored, attention, output gate.
 * Positions are cut into ranges whose length depends on the row's own position alone.
 * As rmsnorm, rope, kv_store, attention, sigmoid_gate.        tolerance: 2^-7 of the largest value (q and weights in bf16) */
struct step_attention_args {
    float       *y;             /* [n_rows, n_q_heads, 256] */
    const float *qg;            /* [n_rows, n_q_heads, 2, 256] query and gate */
    const float *k, *v;         /* [n_rows, n_kv_heads, 256] */
    const float *q_norm, *k_norm;       /* [256], 1 + w */
    const float *freq;          /* [half] */
    struct kv_rows kv;          /* BF16, head_dim 256 */
    const int32_t *pos;         /* device memory: position of row 0 */
    void        *scratch;       /* step_attention_scratch() bytes */
    bool         settled;       /* *pos and the cache's rows before it were there before the recorded graph began */
    int          n_rows, n_q_heads, half;
    float        eps, rope_scale, scale;
};
enum { STEP_RANGES = 64 };      /* of positions, at most */
static inline size_t step_attention_scratch(int n_q_heads)
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

/* Ranges of columns for the router, which has too few rows to fill a machine: a group of columns for each of 8 warps. */
static inline int step_router_splits(int hidden)
{
    int n = hidden / PACK_GROUP / 8;
    return n < 1 ? 1 : n < STEP_RMS_PARTS ? n : STEP_RMS_PARTS;
}

/* Ranges of columns for the mixers' projections: at most 2 groups for each of 8 warps, so more blocks than multiprocessors, with room
 * for the next kernel's. */
static inline int step_out_splits(int cols) { return (cols / PACK_GROUP + 15) / 16; }

/* What rows choose their experts from: top-k of softmax(logits), renormalised.  As router. */
struct step_choice {
    struct step_rms rms;        /* of the rows: for the logits, the shared gate and the experts' input */
    const float  *logits;       /* [n_logits] of [n_rows, n_experts], logit_step elements apart, to be added up */
    int           n_logits;
    size_t        logit_step;
    const int32_t *n_valid;     /* device memory: rows from here on choose nothing; NULL: all count */
    int           overlap;      /* for measurements: rows take this many experts of row 0's, and others as if at random; -1: off */
    int           n_experts, top_k;
};

/* Chooses; then for every distinct expert e and the shared one, every row t
 *     h[e][t] = silu(gate_e x[t]) * (up_e x[t])
 *     stream[t] += sum over e of weight_e[t] * down_e h[e][t] + sigmoid(shared_gate[t]) * shared_down h_shared[t],
 * a product at a time, each rounded by stream_from_float().  As moe_group, experts_up, experts_down, moe_combine.
 *
 * All is one launch, whose blocks wait for each other's values of h: before it, all of these must be STEP_MISSING (step_linear's `missing`).
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
    struct weight pair, down;   /* of expert 0, packed: pair [2 inter, hidden], [hidden, inter] */
    size_t        pair_stride, down_stride;     /* bytes from one expert's to the next */
    struct weight shared_pair, shared_down;     /* likewise */
    const float  *shared_gate;  /* [n_gates] of [n_rows] before the sigmoid, gate_step elements apart, to be added up */
    int           n_gates;
    size_t        gate_step;
    bool          check;        /* launch nothing: only a fault if the blocks could not all be resident */
    int           n_rows, hidden, inter;
};
/* Values of h that can be written. */
static inline size_t step_experts_space(int n_rows, int n_experts, int top_k, int inter)
{
    const int most = n_rows * top_k < n_experts ? n_rows * top_k : n_experts;
    return (size_t)(1 + most) * (size_t)n_rows * (size_t)inter;
}

/* Picks the next tokens from the logits of n_rows rows, row by row while the picks agree with the drafts live->ids[1..], updates
 * live, sampling and marks, and writes one result (slot live->step % STEP_SLOTS).
 * `first`: the only row is the prompt's last hidden state, no row of a step ran. */
struct step_pick_args {
    float             *logits;          /* [n_rows, vocab], after penalties */
    const float       *tile_max;        /* [n_rows, step_maxima(vocab)], as step_linear leaves it */
    struct step_live  *live;
    struct step_sampling *sampling;
    uint8_t           *marks;
    const float       *bias;            /* [vocab]; read for outlooks alone */
    struct step_result *results;        /* [STEP_SLOTS] host memory */
    const float       *hidden;          /* [n_rows, width] of the rows, or of the prompt's end */
    float             *last_hidden;     /* [3, width]: [parity] becomes the hidden state before the new pos; what it was, [2] */
    void              *scratch;         /* step_pick_scratch() bytes */
    int                n_rows, vocab, width;
    bool               first;
};
static inline size_t step_pick_scratch(int vocab) { return (size_t)STEP_ROWS * ((size_t)vocab * 8 + 65536); }

/* The arg-max of a draft's logits: live->draft_ids[i] and live->ids[1 + i]; live->n_drafts = i + 1. */
struct step_draft_args {
    const float      *logits;           /* [1, n_ids] */
    const float      *tile_max;         /* [step_maxima(n_ids)] */
    struct step_live *live;
    int               i, n_ids;
};

#endif
