/* From options to a model that runs: config, weights, device, memory plan, work space.  The engine, the measurements and the
 * debug commands begin here, so that a default and a limit have one place. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/dev.h"
#include "base/err.h"
#include "config/limits.h"
#include "engine/memory_speed.h"
#include "engine/memplan.h"
#include "model/cache.h"
#include "model/config.h"
#include "model/forward.h"
#include "model/traffic.h"
#include "model/vision.h"
#include "model/weights.h"

enum { LOAD_NO_SNAPSHOTS = -1, LOAD_SOME_SEQUENCES = -1 };

/* Which memory a GPU reads the weights from: its own, pinned memory of the host, or, where both are one, whichever is read faster. */
enum weights_in { WEIGHTS_IN_DEVICE, WEIGHTS_IN_HOST, WEIGHTS_IN_AUTO };

/* {0} is valid but for dir or synthetic: 0 and NULL mean the default. */
struct load_options {
    const char *dir;                    /* a checkpoint, or */
    const char *synthetic;              /* random weights in this geometry, see synthetic_config() */
    bool        quality;                /* of these, attention and out projections in FP8 */
    int         n_layers;               /* of these; 0: all */
    bool        sees;                   /* with a vision tower, too */
    uint64_t    seed;
    const char *backend;                /* NULL: the best one that is there */
    enum weights_in weights_in;
    bool kv_in_host;                    /* pinned memory of the host, which a GPU then reads over its link */
    const char *machine_dir;            /* folder for what was measured of this machine, to compare a GPU's reads with; NULL: not measured */
    const char *kv;                     /* KV recipe, or "auto"; NULL: the first one that the device takes */
    const char *head;                   /* "int8" (default on a CPU), "planes" (default on a GPU): the same in two planes, or "bf16": as stored */
    const char *mtp;                    /* the MTP block: "int4" (default on a GPU), "fp8", or "bf16": as stored (default on a CPU) */
    const char *math;                   /* products of prompts: "exact" (default), or "int8": half of them with activations in eight bits */
    bool no_vision;                     /* leaves out the vision tower */
    int picture_tokens;                 /* most rows that a picture may become; 0: as many as make sense on the device */
    int n_threads;                      /* of a CPU; 0: one per usable core */
    int n_ctx;                          /* positions; 0: what fits, at most the model's, and 32,768 on a CPU */
    int chunk;                          /* most prompt rows a call */
    int depth;                          /* most drafts a step; -1: as many as a step can have */
    int n_sequences;                    /* conversations resident at once; 0: one; LOAD_SOME_SEQUENCES: as many as fit (engine/memplan.h) */
    int n_snapshots;                    /* states kept beside; LOAD_NO_SNAPSHOTS: none */
    bool saves;                         /* conversations will be saved: that takes memory, too */
};

/* A model with everything that runs it.  Must not move after it is loaded. */
struct model {
    /* set by load_check() */
    char                  *dir;         /* NULL: synthetic */
    struct load_options    options;
    const char            *backend;
    const struct kv_recipe *kv;         /* `auto`: the default, until there is a plan */
    bool                   kv_auto;
    enum head              head;
    enum mtp_form          mtp;
    enum prompt_math       math;
    int                    chunk, depth, n_snapshots, picture_tokens;      /* chunk: shorter than the default where memory is short */
    bool                   no_vision;   /* there is a vision tower, which is left out */
    struct model_config    cfg;
    struct memory_plan     plan;        /* on a GPU made by load_weights() */
    int                    n_ctx, n_sequences;          /* as in the plan */
    /* set by load_device() and load_weights() */
    struct dev            *dev;
    char                  *machine_dir;
    struct placement       placement;   /* what `weights_in` auto goes by */
    struct reads           reads;       /* what a GPU's memory reaches; {0}: not measured */
    struct weights         weights;
    struct synthetic      *synthetic;
    size_t                 weight_bytes;        /* taken by the weights where the device reads them: mapped, or packed */
    /* set by load_space() */
    struct forward        *forward;
    struct vision         *vision;      /* NULL: the model has no tower, or it was left out */
    struct cache          *caches[LIMIT_SEQUENCES];     /* [n_sequences] */
    struct cache          *cache;       /* the first of them */
};

/* Called every few MiB; false ends the loading. */
typedef bool load_progress(size_t done, size_t total, void *arg);

/* Each fails with the reason; then call load_close().
 *   load_check    options, config.json, on a CPU the memory plan: quick
 *   load_device   opens the device
 *   load_weights  after that: memory plan of a GPU, then the weights, to where the device wants them; opens the device if need be
 *   load_space    after that: work space and cache
 *   load_open     all of them */
bool load_check(struct model *m, const struct load_options *o, struct err *e);
bool load_device(struct model *m, struct err *e);
bool load_weights(struct model *m, load_progress *progress, void *arg, struct err *e);
bool load_space(struct model *m, struct err *e);
bool load_open(struct model *m, const struct load_options *o, struct err *e);
struct traffic load_traffic(const struct model *m);     /* of its steps, after load_weights() */
void load_close(struct model *m);               /* also after a failure */

/* The plan that load_weights() would make now, without reading weights.  The numbers are there even when it does not fit. */
bool load_fits(const struct load_options *o, struct memory_plan *plan, struct err *e);
/* Plans the memory of a GPU with `available` bytes, its own (discrete) or shared with the host.  An automatic chunk is halved before the context gets
 * shorter than it should be, and before --kv auto takes a recipe only because the default does not fit.  `m` has been through load_check() and has
 * its weight_bytes; int8_weight_bytes: see memplan.h. */
bool load_plan_gpu(struct model *m, size_t available, bool discrete, size_t int8_weight_bytes, struct err *e);
/* The memory plan of an engine with default settings on a GPU that shares the host's memory.  False when that does not fit now. */
bool load_estimate(const struct model_config *c, const struct weights *w, const struct kv_recipe *kv, int n_ctx, struct memory_plan *plan);

/* True if the device's attention reads rows of that recipe. */
bool load_takes(const struct dev_caps *caps, const struct kv_recipe *r);
/* "device", "host" or "auto"; NULL: device. */
enum weights_in load_weights_in(const char *name);
