/* From the shards into the memory of a device, packed (kernels/pack.h), at the speed of the disk: threads read byte ranges past the
 * page cache into pinned buffers, which are copied to the device and packed there, piece by piece, by a plan. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "backend/dev.h"
#include "base/err.h"
#include "kernels/pack_piece.h"
#include "model/config.h"
#include "model/reader.h"
#include "model/weights.h"

struct upload_options {
    unsigned heads;                     /* which ones are needed: bits of enum head */
    enum mtp_form mtp;                  /* of the MTP block */
    size_t   span;                      /* bytes of one read; 0: 8 MiB */
    int      n_threads;                 /* that read; 0: 8 */
};

/* Returns the host memory that an upload takes. */
size_t weights_upload_bytes(void);

/* Replaces every view of opened weights by device memory and closes the shards:
 *   matrices     packed; experts[e].gate and shared.gate are the packed pair of gate and up, `up` is empty; the pairs of a layer's
 *                experts are equally far apart, and so are their downs
 *                with MTP_FP8 and MTP_INT4 those of the MTP block are packed as model/quantize.h and model/quantize.h make them
 *   vectors      fp32
 *   embed        bf16 [vocab, hidden], not packed
 *   head         packed bf16, or empty when it is not requested
 *   head_int8    packed, or empty; as model/quantize.h makes it
 * False with the reason: no room, a file that cannot be read, INT4 with zeros other than 8, experts in different formats,
 * progress returned false (it is called every few MiB).  Then only weights_close() is left. */
bool weights_upload(struct weights *w, const struct model_config *c, struct dev *d, const struct upload_options *o,
                    bool (*progress)(size_t done, size_t total, void *arg), void *arg, struct err *e);

/* The plan, made before any byte is read: the place of each weight in slabs of device memory, and the reads of the shards, in the order of the files,
 * with the rows that each read brings.  Knows no device. */
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

/* Computes the sizes of the slabs.  heads: bits of enum head.  Weights and config must stay valid until upload_plan_free(). */
void upload_plan_init(struct upload_plan *p, struct weights *w, const struct model_config *c, unsigned heads, enum mtp_form mtp);
void upload_plan_free(struct upload_plan *p);
/* Returns the size of all slabs together. */
size_t upload_plan_bytes(const struct weights *w, const struct model_config *c, unsigned heads, enum mtp_form mtp);

/* Gives every weight its place in the slabs, which must have slab_bytes[], makes the views of the weights point there, and lists the reads, each of
 * at most `span` bytes.  False with the reason: a row is longer than `span`. */
bool upload_plan_fill(struct upload_plan *p, void *const *slabs, size_t span, struct err *e);

/* Lists the pieces to be packed of a read whose bytes the device has at `data`, not yet numbered (pack_number()); returns how many. */
int  upload_plan_pieces(const struct upload_plan *p, int job, const char *data, struct pack_piece *pieces);
