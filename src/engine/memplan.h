/* Every byte the engine will need, decided before the first weight is read.  A machine without swap that runs out of
 * memory freezes, so a plan that does not fit is refused. */
#ifndef Q35_ENGINE_MEMPLAN_H
#define Q35_ENGINE_MEMPLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "model/cache.h"
#include "model/config.h"

enum { MEMPLAN_MIN_CTX = 256 };         /* a smaller context is of no use as a default */

struct memplan_request {
    const struct model_config *model;
    const struct kv_recipe    *kv;
    size_t weight_bytes;                /* memplan_weight_bytes() */
    bool   int8_head;
    int    n_ctx;                       /* positions asked for; 0: what fits, at most default_ctx and the model's */
    int    default_ctx;
    int    max_rows, max_step;          /* rows of a prompt chunk, of a decode step */
    int    n_snapshots;
    size_t available, margin;           /* memplan_available(); what to leave to the rest of the machine */
};

struct memplan_line {
    const char *name;
    size_t      bytes;
};

struct memplan {
    struct memplan_line lines[8];
    int    n_lines;
    size_t total;
    int    n_ctx;                       /* decided */
};

/* False when it does not fit, with both numbers and what would. */
bool memplan_make(struct memplan *m, const struct memplan_request *q, struct err *e);

/* MemAvailable: what can be had without swapping, page cache included. */
size_t memplan_available(void);
/* All *.safetensors of the directory. */
size_t memplan_weight_bytes(const char *dir);

#endif
