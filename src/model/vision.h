/* The vision tower: the patches of a picture become rows of the text model.  Formulas: docs/model.md.  One owner thread, which is also that of the
 * device's other work.  One picture at a time; its work is cut into slices, so that other work can come between two of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/config.h"
#include "model/weights.h"

struct dev;
struct vision;

enum {
    VISION_ROWS = 8192,                 /* patches of a slice on a GPU, at most; 17 ms of a GB10 for a page, by calculation */
    VISION_MERGE = 4,                   /* patches of a row of the text model: a block of 2 x 2 */
    VISION_SIDE = 32,                   /* pixels of the side of such a block */
};

/* Allocates the memory for pictures of up to max_patches patches, and of slices of up to max_rows of them; nothing is allocated later.  The weights
 * have a tower (vision.present).  NULL with the reason: no room, or heads that the device has no kernel for. */
struct vision *vision_open(struct dev *d, const struct model_config *c, const struct weights *w, int max_patches, int max_rows, struct err *e);
void   vision_close(struct vision *v);
/* Returns that memory's size; on a GPU there is scratch memory for operations beside it, which is shared with prompts. */
size_t vision_bytes(const struct model_config *c, bool gpu, int max_patches, int max_rows);
size_t vision_scratch_bytes(const struct model_config *c, int max_rows);

/* Begins a picture of h x w patches, both even, at most max_patches; one that was not complete is given up.  rgb [h * PATCH_SIDE, w * PATCH_SIDE, 3]
 * is copied.  rows [h * w / VISION_MERGE, hidden of the text model] fp32 in device memory gets the result, in the raster order of blocks. */
void   vision_begin(struct vision *v, const uint8_t *rgb, int h, int w, float *rows);
/* Queues slices until about `tflop` * 10^12 operations have been queued, but at least one slice.  True when the picture is complete. */
bool   vision_continue(struct vision *v, double tflop);
/* Returns the operations, in 10^12, that are still to be queued; 0 when the picture is complete. */
double vision_left(const struct vision *v);
