/* The forward pass of a decode step, made of fused operations (kernels/step.h).  Used by the forward pass,
 * the recorder and the stepper; the memory plan asks for its size.  All functions only queue operations; nothing is read back. */
#ifndef Q35_MODEL_FUSED_H
#define Q35_MODEL_FUSED_H

#include "backend/dev.h"
#include "model/blocks.h"

/* Work space in device memory.  Rows lie one after the other: [n, width]. */
struct fused {
    void  *memory;
    int64_t *stream;                    /* [n, hidden] residual stream (kernels/step.h) */
    float *halves;                      /* [2, n, hidden]: products of the MTP block's two inputs */
    float *h;                           /* [n, hidden] normed */
    float *hidden;                      /* [n, hidden] after the final norm */
    float *qg, *k, *v, *z, *y, *ssq;    /* inputs and outputs of the mixers; ssq: sums of squares of the heads of y */
    float *router, *gate;               /* [router parts]: sums of router logits [n, experts] and of the shared expert's gate [n] */
    size_t router_step;                 /* floats from one part to the next */
    float *router_ssq;                  /* [router parts, STEP_ROWS] sums of squares; the experts' operation divides by the rms */
    struct step_route *route;
    float *expert_h;                    /* SwiGLU outputs of the shared expert and of the routed ones */
    void  *attention;                   /* scratch of step_attention */
    float *mtp_h;                       /* [n, hidden] after mtp.norm */
    struct step_live *live;             /* for steps of forward_run() */
    int    overlap;                     /* for measurements: experts that neighbouring rows share; -1: as routed */
    int32_t *distinct;                  /* for measurements: [n_layers] distinct experts, host memory; NULL: not counted */
};

size_t fused_bytes(const struct model_config *c);
/* False with the reason; fused_close() must be called either way. */
bool   fused_open(struct fused *u, struct dev *d, const struct model_config *c, struct err *e);
void   fused_close(struct fused *u, struct dev *d);
/* Whether the operations can run this geometry. */
bool   fused_fits(const struct model_config *c, struct err *e);

/* The rows of a step (kernels/step.h): of one conversation, or of several whose caches were opened together. */
struct fused_rows {
    struct cache     *k;                /* cache of the conversation; if there are several, of slot 0 */
    struct step_live *live;             /* likewise */
    const struct step_row *rows;        /* [n] device memory: the slot of each row; NULL: all rows are of one conversation */
    int               n;
};
/* Runs the rows, whose tokens are live->ids, through all layers, up to the final norm, which fused_hidden() or fused_logits() adds. */
void fused_layers(struct forward *f, const struct fused_rows *r);
/* Whether the device can run steps of up to max_rows rows with these weights; else false with the reason.  Runs no step. */
bool fused_check(struct forward *f, int max_rows, struct err *e);
/* The final norm alone, into u->hidden. */
void fused_hidden(struct forward *f, int n);
/* Logits of the rows from `hidden` [n, hidden], hidden states after the final norm.  hidden NULL: from the result of fused_layers(), whose final norm
 * is also written to u->hidden. */
struct fused_head {
    const struct weight *w;
    float *logits, *tile_max;
    const struct step_sampling *sampling;
    const uint8_t *seen;
    const float   *bias;
    const int32_t *drafts;
    int n_ids;
    bool estimate;                      /* for a head in two planes: uses the upper plane alone */
    void *scratch;                      /* STEP_LOGITS_SCRATCH bytes */
};
void fused_logits(struct forward *f, const struct fused_head *h, const struct fused_rows *r, const float *hidden);
/* Runs the MTP layer over the rows.  All that count get keys and values; of each conversation only the last of these also its experts.  next [n]: the
 * id after each row's token; hidden [n, hidden]: the main model's hidden states; *pos: position of the first row; *n_valid: rows that count.  next,
 * pos and n_valid point into r->live. */
void fused_mtp(struct forward *f, const struct fused_rows *r, const int32_t *next, const float *hidden, const int32_t *pos,
               const int32_t *n_valid);
/* After fused_mtp(), for one row of each conversation, row *row (NULL: rows 0 to n - 1): mtp.norm of the row into u->mtp_h, and its logits. */
void fused_mtp_logits(struct forward *f, const struct fused_head *h, const struct fused_rows *r, const int32_t *row, const int32_t *n_valid);

#endif
