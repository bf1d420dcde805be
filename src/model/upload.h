/* From the shards into the memory of a device, packed (kernels/pack.h), at the speed of the disk: threads read byte ranges past the
 * page cache into pinned buffers, which are copied to the device and packed there, piece by piece, as model/upload_plan says. */
#ifndef Q35_MODEL_UPLOAD_H
#define Q35_MODEL_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/dev.h"
#include "base/err.h"
#include "model/config.h"
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
 *   head         packed bf16, or empty when it is not asked for
 *   head_int8    packed, or empty; as model/quantize.h makes it
 * False with the reason: no room, a file that cannot be read, INT4 with zeros other than 8, experts in different formats,
 * progress returned false (it is called every few MiB).  Then only weights_close() is left. */
bool weights_upload(struct weights *w, const struct model_config *c, struct dev *d, const struct upload_options *o,
                    bool (*progress)(size_t done, size_t total, void *arg), void *arg, struct err *e);

#endif
