/* A checkpoint with everything that runs it: config, weights, device, work space, one cache.  Open it and use its parts. */
#ifndef Q35_MODEL_MODEL_H
#define Q35_MODEL_MODEL_H

#include "backend/dev.h"
#include "base/err.h"
#include "model/cache.h"
#include "model/config.h"
#include "model/forward.h"
#include "model/weights.h"

struct model {
    struct model_config cfg;
    struct weights      weights;
    struct dev         *dev;
    struct forward     *forward;
    struct cache       *cache;
};

struct model_options {
    const char *dir;
    const char *backend;                /* NULL: the best that there is */
    const char *kv;                     /* NULL: "f32", on a GPU "bf16" */
    int  n_threads;                     /* 0: one per usable core */
    int  n_ctx;                         /* positions of the cache */
    int  max_rows;                      /* of one forward call */
    int  max_step;                      /* of one staged step */
    bool int8_head;                     /* beside the head as stored; on a GPU instead of it */
};

/* False with the reason; *m can be closed either way.  m must not move afterwards. */
bool model_open(struct model *m, const struct model_options *o, struct err *e);
void model_close(struct model *m);

#endif
