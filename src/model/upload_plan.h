/* Weights on their way to a device, decided before a byte of them moves: into which slab of its memory each goes, and which reads of the
 * shards bring which rows of it, in the order of the files.  Knows no device. */
#ifndef Q35_MODEL_UPLOAD_PLAN_H
#define Q35_MODEL_UPLOAD_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "kernels/pack_piece.h"
#include "model/config.h"
#include "model/reader.h"
#include "model/weights.h"

enum {
    UPLOAD_PLAN_PIECES = 3072,          /* of one read, at most */
    SLAB_VECTORS = 0,                   /* the slab of all vectors */
};

struct upload_plan {
    int     n_slabs;
    size_t *slab_bytes;
    /* from upload_plan_fill() on */
    char   *vectors;                    /* fp32, what goes into their slab */
    struct read_job *jobs;
    int     n_jobs;
    size_t  total;                      /* bytes of the jobs */

    /* inside */
    struct weights            *w;
    const struct model_config *c;
    unsigned heads;
    enum mtp_form mtp;
    bool     in_mtp;                    /* what is placed belongs to the MTP block */
    int      slab;                      /* ... and goes there */
    void *const        *slabs;          /* NULL: measuring */
    struct plan_source *sources;        /* stored tensors */
    struct pack_piece  *targets;        /* what becomes of them, whole */
    struct plan_part   *parts;          /* what the jobs have of them */
    int                *first_part;     /* of each job; one more at the end */
    int n_sources, cap_sources, n_targets, cap_targets, n_parts, cap_parts, cap_jobs;
};

/* A device finds an expert by its number, so those of a layer have to be alike.  False with the reason. */
bool upload_plan_allows(const struct weights *w, const struct model_config *c, struct err *e);

/* Measures.  heads: bits of enum head.  Weights and config stay valid until upload_plan_free(). */
void upload_plan_init(struct upload_plan *p, struct weights *w, const struct model_config *c, unsigned heads, enum mtp_form mtp);
void upload_plan_free(struct upload_plan *p);
/* All slabs together. */
size_t upload_plan_bytes(const struct weights *w, const struct model_config *c, unsigned heads, enum mtp_form mtp);

/* Gives everything its place in slabs of the sizes that were measured, which every view of the weights then points to, and lists the reads, each of
 * `span` bytes at most.  False: a row is longer. */
bool upload_plan_fill(struct upload_plan *p, void *const *slabs, size_t span, struct err *e);

/* The bytes of a job are at `data`.  The zeros of INT4 among them have to be 8; false with the reason.  Any thread. */
bool upload_plan_check_zeros(const struct upload_plan *p, int job, const char *data, struct err *e);
/* What is to be packed of a job whose bytes the device has at `data`, not numbered; returns how many. */
int  upload_plan_pieces(const struct upload_plan *p, int job, const char *data, struct pack_piece *pieces);

#endif
