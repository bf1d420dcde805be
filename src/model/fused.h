/* The forward pass of a decode step by fused operations (kernels/step.h), for devices that have them: for the forward pass and
 * the stepper only.  Everything is queued; nothing is read back. */
#ifndef Q35_MODEL_FUSED_H
#define Q35_MODEL_FUSED_H

#include "backend/dev.h"
#include "model/blocks.h"

/* Work space, device memory.  Rows are packed: [n, width]. */
struct fused {
    void  *memory;
    int64_t *stream;                    /* [n, hidden] residual stream (kernels/step.h) */
    float *halves;                      /* [2, n, hidden]: products of the MTP block's two inputs */
    float *h;                           /* [n, hidden] normed */
    float *hidden;                      /* [n, hidden] after the final norm */
    float *qg, *k, *v, *z, *y, *ssq;
    float *router, *gate;               /* [router parts] of [n, experts] and of [n], router_step apart */
    size_t router_step;
    float *router_ssq;                  /* [router parts, STEP_ROWS]: the division by the rms is left to the experts */
    struct step_route *route;
    float *expert_h;                    /* SwiGLU outputs of the shared expert and of the routed ones */
    void  *attention;
    float *mtp_h;                       /* [n, hidden] after mtp.norm */
    struct step_live *live;             /* of forward_run() */
    int    overlap;                     /* for measurements; -1: off */
    int32_t *distinct;                  /* for measurements: [n_layers] host memory, or NULL */
};

size_t fused_bytes(const struct model_config *c);
/* False with the reason; fused_close() either way. */
bool   fused_open(struct fused *u, struct dev *d, const struct model_config *c, struct err *e);
void   fused_close(struct fused *u, struct dev *d);
/* Whether the operations can run this geometry. */
bool   fused_fits(const struct model_config *c, struct err *e);

/* The rows of a step (kernels/step.h): of one conversation, or of several whose caches were opened together. */
struct fused_rows {
    struct cache     *k;                /* of the conversation; of several that of slot 0 */
    struct step_live *live;             /* likewise */
    const struct step_row *rows;        /* [n] device memory; NULL: they are of one conversation */
    int               n;
};
/* Runs the rows, whose tokens are live->ids, through all layers.  What is left is the final norm (fused_hidden(), or fused_logits()). */
void fused_layers(struct forward *f, const struct fused_rows *r);
/* Whether the device can run steps of up to max_rows rows of these weights; else false with the reason.  Runs nothing. */
bool fused_check(struct forward *f, int max_rows, struct err *e);
/* The final norm alone, into u->hidden. */
void fused_hidden(struct forward *f, int n);
/* Logits of the rows, from hidden states after the final norm [n, hidden]; NULL: from what fused_layers() left, whose final norm goes to
 * u->hidden. */
struct fused_head {
    const struct weight *w;
    float *logits, *tile_max;
    const struct step_sampling *sampling;
    const uint8_t *seen;
    const float   *bias;
    const int32_t *drafts;
    int n_ids;
    bool estimate;                      /* of a head in two planes: from the upper one alone */
    void *scratch;                      /* STEP_LOGITS_SCRATCH bytes */
};
void fused_logits(struct forward *f, const struct fused_head *h, const struct fused_rows *r, const float *hidden);
/* The MTP layer over the rows.  next [n]: the ids that follow; hidden [n, hidden]; *pos: position of the first row; *n_valid: rows that count.
 * next, pos and n_valid point into r->live. */
void fused_mtp(struct forward *f, const struct fused_rows *r, const int32_t *next, const float *hidden, const int32_t *pos,
               const int32_t *n_valid);
/* After fused_mtp(), for one row of each conversation: mtp.norm of its row *row (NULL: of rows 0 to n - 1) into u->mtp_h, and its logits. */
void fused_mtp_logits(struct forward *f, const struct fused_head *h, const struct fused_rows *r, const int32_t *row, const int32_t *n_valid);

#endif
