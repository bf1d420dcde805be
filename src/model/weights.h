/* Every tensor of a checkpoint bound to its slot.  The shards are memory-mapped and the views point into them; only vectors
 * (norms, A_log, dt_bias, conv taps) and misaligned tensors are copied, as fp32 where small.  The CPU works with that;
 * weights_upload() (model/upload.h) puts device memory in its place. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "backend/dev.h"
#include "base/err.h"
#include "base/memory.h"
#include "kernels/tensor.h"
#include "model/config.h"
#include "model/shards.h"

struct moe_weights {
    struct weight router;                       /* [E, H] dense */
    struct weight shared_gate;                  /* [1, H] dense: the scalar sigmoid gate */
    struct expert_weights shared;
    struct expert_weights *experts;             /* [E]; fused tensors become views, gate rows first */
    float *norms;                               /* [E + 1] on a GPU: largest norm of a row of gate and up, the shared expert's last */
};

struct attn_weights {
    struct weight q, k, v, o;                   /* q rows: per head, head_dim of query then head_dim of gate */
    const float *q_norm, *k_norm;               /* [head_dim], as stored: the norm multiplies by 1 + w */
    float *v_norm;                              /* [1] on a GPU: largest norm of a row of v */
};

struct delta_weights {
    struct weight qkv, z, a, b, out;
    const float *conv;                          /* [conv_dim, conv_kernel], the last tap is the current token */
    const float *a_log, *dt_bias;               /* [lin_v_heads] */
    const float *norm;                          /* [lin_v_dim], plain: the gated norm multiplies by w */
    float *z_norm;                              /* [1] on a GPU: largest norm of a row of z */
};

struct layer_weights {
    const float *norm_in, *norm_post;           /* [H] */
    bool full;
    struct attn_weights  attn;                  /* when full */
    struct delta_weights delta;                 /* when not */
    struct moe_weights   moe;
};

struct mtp_weights {
    bool present;
    struct weight fc;                           /* [H, 2H], embedding half first */
    const float *norm_embedding, *norm_hidden, *norm;   /* [H] */
    struct layer_weights layer;                 /* full attention */
};

/* The vision tower; all matrices dense. */
struct vision_block_weights {
    const float  *norm1_w, *norm1_b, *norm2_w, *norm2_b;        /* [hidden] */
    struct weight qkv, proj, fc1, fc2;          /* rows of qkv: all q, head by head, all k, all v */
    const float  *qkv_b, *proj_b, *fc1_b, *fc2_b;
    float *norms;                               /* [2] on a GPU: largest norm of a row of qkv and of fc1, their biases included */
};
struct vision_weights {
    bool present;
    struct weight patch;                        /* [hidden, 1536]: channel, frame, y, x */
    struct weight positions;                    /* [side * side, hidden], on a GPU not packed */
    const float  *patch_b;
    struct vision_block_weights *blocks;        /* [depth] */
    const float  *norm_w, *norm_b;              /* [hidden] */
    struct weight fc1, fc2;                     /* [4 hidden, 4 hidden], [out, 4 hidden] */
    const float  *fc1_b, *fc2_b;
};

/* How the output head is stored: bits, so that a set of heads is their sum. */
enum head {
    HEAD_BF16 = 1,                              /* as in the checkpoint */
    HEAD_INT8 = 2,                              /* made at load */
    HEAD_PLANES = 4,                            /* made at load: the same numbers in two planes */
};

/* How the matrices of the MTP block are kept that the checkpoint has in 16 or 32 bits.  Router and gate of the shared expert stay. */
enum mtp_form {
    MTP_STORED,                                 /* as in the checkpoint */
    MTP_FP8,                                    /* made at load (model/quantize.h) */
    MTP_INT4,                                   /* made at load: attention and routed experts in INT4; fc, the shared expert and whatever does not
                                                 * fit in FP8; routed experts all or none */
};
enum mtp_part { MTP_ATTENTION, MTP_ROUTED, MTP_OTHER };         /* the place of a matrix; other: fc and the shared expert */

struct weights_stats {
    int    n_files;
    size_t file_bytes;                          /* of all of them, unneeded tensors and stale copies included */
    int    n_tensors;                           /* bound to a slot */
    int    n_skipped;                           /* known and not needed: a vision tower that is left out */
    int    n_vision;                            /* of n_tensors, those of the vision tower */
    int    n_stale;                             /* stored in a shard that the index does not name for them */
    int    n_mtp;                               /* of n_tensors, those of the MTP block */
    size_t bytes;                               /* mapped bytes of the bound tensors */
    size_t vision_bytes;                        /* of these, those of the vision tower */
    int    n_int4, n_fp8, n_dense;              /* matrices by format */
};

struct weights {
    struct weight embed, head;                  /* [V, H] dense; the same view when tied */
    struct weight head_int8, head_planes;       /* those that weights_make_head() made */
    const float  *norm;                         /* [H] */
    struct layer_weights *layers;               /* [n_layers] */
    struct mtp_weights mtp;
    struct vision_weights vision;
    struct weights_stats stats;
    struct weights_store *store;                /* owns mappings and copies */
};

/* Maps the shards of DIR (by model.safetensors.index.json, or model.safetensors alone; MTP tensors also from
 * model_extra_tensors.safetensors when the index lost them) and binds every tensor.  Formats are probed per matrix:
 * X.qweight is INT4, X.weight_scale_inv FP8, else dense.  A shape that does not fit, a missing or truncated tensor, a
 * tensor that no slot takes: false, with file, tensor and both values. */
bool weights_open(struct weights *w, const struct model_config *c, const char *dir, struct err *e);

/* Does the same without stopping at tensors that do not fit: calls `say` for each of them, with a sentence that names neither file nor tensor.  Such
 * a matrix has the format WEIGHT_NONE, and *w is there to be looked at, not to be computed with.  False when the shards cannot be opened. */
enum weights_fault { WEIGHTS_MISSING, WEIGHTS_UNEXPECTED, WEIGHTS_MISFIT };
typedef void weights_say(void *arg, enum weights_fault fault, const char *file, const char *tensor, const char *text);
bool weights_check(struct weights *w, const struct model_config *c, const char *dir, weights_say *say, void *arg, struct err *e);

void weights_close(struct weights *w);          /* before the device that they were uploaded to */

/* Reads every bound byte once, so that the first token does not pay for page faults; `progress` may be NULL.  Stops
 * early when progress returns false.  False on a read error (a file that shrank), with the file. */
bool weights_prefetch(struct weights *w, bool (*progress)(size_t done, size_t total, void *arg), void *arg, struct err *e);

/* Converts the matrices of the MTP block to `form`, once. */
void weights_make_mtp(struct weights *w, const struct model_config *c, enum mtp_form form);
/* Returns the format that this matrix of the block gets; for all but router and gate. */
enum weight_format weights_mtp_format(const struct model_config *c, enum mtp_form form, enum mtp_part part, const struct weight *w);
/* Memory that these take beside the checkpoint, if that has all of them in 16 or 32 bits. */
size_t weights_made_mtp_bytes(const struct model_config *c, enum mtp_form form);

/* Computes the norms of a layer's packed matrices and n experts, whose memory is there, in queue order. */
void weights_norms(struct layer_weights *l, int n, struct dev *d);
/* Does the same for n blocks of the vision tower. */
void weights_vision_norms(struct vision_weights *v, int n, struct dev *d);

/* Makes head_int8 or head_planes from head, once (model/quantize.h).  HEAD_BF16 must be there. */
void weights_make_head(struct weights *w, enum head h);
static inline const struct weight *weights_head(const struct weights *w, enum head h)
{
    return h == HEAD_INT8 ? &w->head_int8 : h == HEAD_PLANES ? &w->head_planes : &w->head;
}

/* ---- inside, for weights.c and upload.c: what the views of a struct weights point into ---- */

/* Bytes of one file that bound tensors occupy. */
struct range {
    int      file;
    uint64_t offset, bytes;
};

struct weights_store {
    struct shards shards;               /* the mappings; none any more when the weights lie on a device */
    struct arena  copies;
    struct range *ranges;
    int           n_ranges, cap;
    struct dev   *dev;                  /* owns the slabs */
    void        **slabs;
    int           n_slabs;
};
