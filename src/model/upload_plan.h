/* The plan for loading weights to a device, made before any byte is read: the place of each weight in slabs of device memory, and the reads of the
 * shards, in the order of the files, with the rows that each read brings.  Knows no device. */
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
    UPLOAD_PLAN_PIECES = 3072,          /* most pieces of one read */
    SLAB_VECTORS = 0,                   /* index of the slab of all vectors */
};

struct upload_plan {
    int     n_slabs;
    size_t *slab_bytes;                 /* [n_slabs] */
    /* from upload_plan_fill() on */
    char   *vectors;                    /* fp32, the content of the slab of vectors */
    struct read_job *jobs;              /* the reads */
    int     n_jobs;
    size_t  total;                      /* bytes of all reads */

    /* inside */
    struct weights            *w;
    const struct model_config *c;
    unsigned heads;
    enum mtp_form mtp;
    bool     in_mtp;                    /* the weights that are being placed belong to the MTP block */
    int      slab;                      /* index of the slab that they go to */
    void *const        *slabs;          /* NULL while measuring */
    struct plan_source *sources;        /* stored tensors */
    struct pack_piece  *targets;        /* the packed matrices that are made of them */
    struct plan_part   *parts;          /* the rows of them that each read brings */
    int                *first_part;     /* [n_jobs + 1] index of each read's first part; those of read i end before first_part[i + 1] */
    int n_sources, cap_sources, n_targets, cap_targets, n_parts, cap_parts, cap_jobs;
};

/* True if a device can take these weights: it computes an expert's place from its number, so all experts of a layer must have the same formats.
 * False with the reason. */
bool upload_plan_allows(const struct weights *w, const struct model_config *c, struct err *e);

/* Computes the sizes of the slabs.  heads: bits of enum head.  Weights and config must stay valid until upload_plan_free(). */
void upload_plan_init(struct upload_plan *p, struct weights *w, const struct model_config *c, unsigned heads, enum mtp_form mtp);
void upload_plan_free(struct upload_plan *p);
/* Returns the size of all slabs together. */
size_t upload_plan_bytes(const struct weights *w, const struct model_config *c, unsigned heads, enum mtp_form mtp);

/* Gives every weight its place in the slabs, which must have slab_bytes[], makes the views of the weights point there, and lists the reads, each of
 * at most `span` bytes.  False with the reason: a row is longer than `span`. */
bool upload_plan_fill(struct upload_plan *p, void *const *slabs, size_t span, struct err *e);

/* Checks that all INT4 zero points of a read, whose bytes are at `data`, are 8. False with the reason.  May be called from any thread. */
bool upload_plan_check_zeros(const struct upload_plan *p, int job, const char *data, struct err *e);
/* Lists the pieces to be packed of a read whose bytes the device has at `data`, not yet numbered (pack_number()); returns how many. */
int  upload_plan_pieces(const struct upload_plan *p, int job, const char *data, struct pack_piece *pieces);

#endif
