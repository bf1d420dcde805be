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
    size_t weight_bytes;                /* memplan_weight_bytes(); on a GPU weights_packed_bytes(), heads included */
    bool   int8_head;                   /* made beside the one that is stored */
    int    n_ctx;                       /* positions asked for; 0: what fits, at most default_ctx and the model's */
    int    default_ctx;
    int    max_rows, max_step;          /* rows of a prompt chunk, of a decode step */
    int    n_snapshots;
    size_t available, margin;           /* memplan_available(); what to leave to the rest of the machine */

    /* On a GPU; all 0 without. */
    bool   gpu;
    bool   discrete;                    /* it has memory of its own, and `available` is about that */
    size_t host_available, host_margin; /* discrete: for the lines that lie in the host's memory */
    int    spare_positions;             /* behind the context, for rows of drafts */
    size_t step_bytes, scratch_bytes;   /* for decode steps; for plain operations */
    size_t read_bytes;                  /* host memory while weights are read */
    size_t int8_weight_bytes;           /* weight_bytes with the INT8 head instead */
};

struct memplan_line {
    const char *name;
    size_t      bytes;
    bool        host;                   /* in the host's memory, beside a discrete GPU */
};

struct memplan {
    struct memplan_line lines[10];
    int    n_lines;
    size_t total, host_total;           /* host_total: of the lines of the host, which are not in total */
    int    n_ctx;                       /* decided */
};

/* False when it does not fit, with both numbers and what would. */
bool memplan_make(struct memplan *m, const struct memplan_request *q, struct err *e);

/* MemAvailable: what can be had without swapping, page cache included. */
size_t memplan_available(void);
/* All *.safetensors of the directory. */
size_t memplan_weight_bytes(const char *dir);

#endif
