#include "model/weights.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/memory.h"
#include "kernels/number.h"
#include "model/quantize.h"
#include "model/shards.h"

enum { MAX_STEM = 192, MAX_NAME = 256, GROUP = 128, FP8_BLOCK = 128 };

/* ---- which tensors a model has.  Sizes are named, so that a table holds for every geometry. */

enum dim {
    ONE, HIDDEN, HIDDEN2, QUERY_GATE, QUERY, KV, HEAD_DIM, CONV, VALUE, VALUE_HEADS, VALUE_DIM, TAPS, EXPERTS, INTER, INTER2,
    SHARED, VOCAB, TOWER, TOWER3, TOWER4, TOWER_INTER, TOWER_OUT, POSITIONS, N_DIMS
};

/* Fills in the sizes that the shapes of the tables name. */
static void fill_dims(int d[N_DIMS], const struct model_config *c)
{
    d[ONE] = 1;
    d[HIDDEN] = c->hidden;
    d[HIDDEN2] = 2 * c->hidden;
    d[QUERY] = c->n_q_heads * c->head_dim;
    d[QUERY_GATE] = 2 * d[QUERY];
    d[KV] = c->n_kv_heads * c->head_dim;
    d[HEAD_DIM] = c->head_dim;
    d[CONV] = config_conv_dim(c);
    d[VALUE] = config_lin_value_dim(c);
    d[VALUE_HEADS] = c->lin_v_heads;
    d[VALUE_DIM] = c->lin_v_dim;
    d[TAPS] = c->conv_kernel;
    d[EXPERTS] = c->n_experts;
    d[INTER] = c->moe_inter;
    d[INTER2] = 2 * c->moe_inter;
    d[SHARED] = c->shared_inter;
    d[VOCAB] = c->vocab;
    d[TOWER] = c->vision.hidden;
    d[TOWER3] = 3 * c->vision.hidden;
    d[TOWER4] = 4 * c->vision.hidden;
    d[TOWER_INTER] = c->vision.inter;
    d[TOWER_OUT] = c->vision.out;
    d[POSITIONS] = c->vision.n_positions;
}

#define TOWER_PREFIX "model.visual."

/* A struct weight at `at`; its tensors are NAME.weight, or NAME.qweight and so on.  `dense`: in 16 or 32 bits only. */
struct matrix_slot {
    const char *name;
    size_t      at;
    enum dim    rows, cols;
    bool        dense;
};
/* A const float * at `at`; the tensor is called NAME and copied as fp32. */
struct vector_slot {
    const char *name;
    size_t      at;
    int         n_dims;
    enum dim    shape[3];
};
#define LAYER(member)  offsetof(struct layer_weights, member)
#define EXPERT(member) offsetof(struct expert_weights, member)
#define MTP(member)    offsetof(struct mtp_weights, member)
#define TOWER(member)  offsetof(struct vision_weights, member)
#define BLOCK(member)  offsetof(struct vision_block_weights, member)
#define COUNT(a)       (int)(sizeof(a) / sizeof *(a))

static const struct vector_slot layer_vectors[] = {
    {"input_layernorm.weight",          LAYER(norm_in),   1, {HIDDEN}},
    {"post_attention_layernorm.weight", LAYER(norm_post), 1, {HIDDEN}},
};
static const struct matrix_slot layer_matrices[] = {
    {"mlp.gate",                    LAYER(moe.router),      EXPERTS, HIDDEN, true},
    {"mlp.shared_expert_gate",      LAYER(moe.shared_gate), ONE,     HIDDEN, true},
    {"mlp.shared_expert.gate_proj", LAYER(moe.shared.gate), SHARED,  HIDDEN, false},
    {"mlp.shared_expert.up_proj",   LAYER(moe.shared.up),   SHARED,  HIDDEN, false},
    {"mlp.shared_expert.down_proj", LAYER(moe.shared.down), HIDDEN,  SHARED, false},
};
static const struct vector_slot attn_vectors[] = {
    {"self_attn.q_norm.weight", LAYER(attn.q_norm), 1, {HEAD_DIM}},
    {"self_attn.k_norm.weight", LAYER(attn.k_norm), 1, {HEAD_DIM}},
};
static const struct matrix_slot attn_matrices[] = {
    {"self_attn.q_proj", LAYER(attn.q), QUERY_GATE, HIDDEN, false},
    {"self_attn.k_proj", LAYER(attn.k), KV,         HIDDEN, false},
    {"self_attn.v_proj", LAYER(attn.v), KV,         HIDDEN, false},
    {"self_attn.o_proj", LAYER(attn.o), HIDDEN,     QUERY,  false},
};
static const struct vector_slot delta_vectors[] = {
    {"linear_attn.conv1d.weight", LAYER(delta.conv),    3, {CONV, ONE, TAPS}},
    {"linear_attn.A_log",         LAYER(delta.a_log),   1, {VALUE_HEADS}},
    {"linear_attn.dt_bias",       LAYER(delta.dt_bias), 1, {VALUE_HEADS}},
    {"linear_attn.norm.weight",   LAYER(delta.norm),    1, {VALUE_DIM}},
};
static const struct matrix_slot delta_matrices[] = {
    {"linear_attn.in_proj_qkv", LAYER(delta.qkv), CONV,        HIDDEN, false},
    {"linear_attn.in_proj_z",   LAYER(delta.z),   VALUE,       HIDDEN, false},
    {"linear_attn.in_proj_a",   LAYER(delta.a),   VALUE_HEADS, HIDDEN, false},
    {"linear_attn.in_proj_b",   LAYER(delta.b),   VALUE_HEADS, HIDDEN, false},
    {"linear_attn.out_proj",    LAYER(delta.out), HIDDEN,      VALUE,  false},
};
static const struct matrix_slot expert_matrices[] = {
    {"gate_proj", EXPERT(gate), INTER,  HIDDEN, false},
    {"up_proj",   EXPERT(up),   INTER,  HIDDEN, false},
    {"down_proj", EXPERT(down), HIDDEN, INTER,  false},
};
static const struct vector_slot mtp_vectors[] = {
    {"pre_fc_norm_embedding.weight", MTP(norm_embedding), 1, {HIDDEN}},
    {"pre_fc_norm_hidden.weight",    MTP(norm_hidden),    1, {HIDDEN}},
    {"norm.weight",                  MTP(norm),           1, {HIDDEN}},
};
static const struct matrix_slot mtp_matrices[] = {
    {"fc", MTP(fc), HIDDEN, HIDDEN2, false},
};
static const struct vector_slot vision_vectors[] = {
    {"patch_embed.proj.bias",  TOWER(patch_b), 1, {TOWER}},
    {"merger.norm.weight",     TOWER(norm_w),  1, {TOWER}},
    {"merger.norm.bias",       TOWER(norm_b),  1, {TOWER}},
    {"merger.linear_fc1.bias", TOWER(fc1_b),   1, {TOWER4}},
    {"merger.linear_fc2.bias", TOWER(fc2_b),   1, {TOWER_OUT}},
};
static const struct matrix_slot vision_matrices[] = {
    {"pos_embed",         TOWER(positions), POSITIONS, TOWER,  true},
    {"merger.linear_fc1", TOWER(fc1),       TOWER4,    TOWER4, true},
    {"merger.linear_fc2", TOWER(fc2),       TOWER_OUT, TOWER4, true},
};
static const struct vector_slot block_vectors[] = {
    {"norm1.weight",        BLOCK(norm1_w), 1, {TOWER}},
    {"norm1.bias",          BLOCK(norm1_b), 1, {TOWER}},
    {"norm2.weight",        BLOCK(norm2_w), 1, {TOWER}},
    {"norm2.bias",          BLOCK(norm2_b), 1, {TOWER}},
    {"attn.qkv.bias",       BLOCK(qkv_b),   1, {TOWER3}},
    {"attn.proj.bias",      BLOCK(proj_b),  1, {TOWER}},
    {"mlp.linear_fc1.bias", BLOCK(fc1_b),   1, {TOWER_INTER}},
    {"mlp.linear_fc2.bias", BLOCK(fc2_b),   1, {TOWER}},
};
static const struct matrix_slot block_matrices[] = {
    {"attn.qkv",       BLOCK(qkv),  TOWER3,      TOWER,       true},
    {"attn.proj",      BLOCK(proj), TOWER,       TOWER,       true},
    {"mlp.linear_fc1", BLOCK(fc1),  TOWER_INTER, TOWER,       true},
    {"mlp.linear_fc2", BLOCK(fc2),  TOWER,       TOWER_INTER, true},
};
static const struct vector_slot model_vectors[] = {
    {"norm.weight", offsetof(struct weights, norm), 1, {HIDDEN}},
};
static const struct matrix_slot embed_matrix[] = {
    {"embed_tokens", offsetof(struct weights, embed), VOCAB, HIDDEN, true},
};
static const struct matrix_slot head_matrix[] = {
    {"lm_head", offsetof(struct weights, head), VOCAB, HIDDEN, true},
};

/* ---- taking tensors */

struct binder {
    struct weights       *w;
    struct weights_store *st;
    const struct model_config *c;
    const char           *dir;
    struct err           *e;
    weights_say          *say;          /* NULL: the first fault ends it */
    void                 *arg;
    int  dims[N_DIMS];
    bool in_mtp, in_vision;
    int  n_missing;
    char missing[MAX_NAME];             /* the first one */
    char name[MAX_NAME];                /* of the tensor in hand */
};

static struct shard_tensor *find(struct binder *b, const char *stem, const char *suffix)
{
    snprintf(b->name, sizeof b->name, "%s%s", stem, suffix);
    return shards_find(&b->st->shards, b->name);
}

static void add_range(struct weights_store *st, const struct shard_tensor *t)
{
    st->ranges = memory_grow(st->ranges, st->n_ranges, &st->cap, sizeof *st->ranges);
    st->ranges[st->n_ranges++] = (struct range){t->file, t->t->offset, t->t->bytes};
}

/* Reports that a tensor does not fit, with `subject` (NULL: the tensor itself) before the sentence: by `say`, or by the error.  Returns false. */
__attribute__((format(printf, 4, 5)))
static bool refuse_tensor(struct binder *b, const struct shard_tensor *t, const char *subject, const char *fmt, ...)
{
    char text[400];
    const char *path = shards_file(&b->st->shards, t)->path;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!b->say)
        return err_set(b->e, "%s: %s%s %s", path, subject ? "" : "tensor ", subject ? subject : t->name, text);
    b->say(b->arg, WEIGHTS_MISFIT, strrchr(path, '/') + 1, t->name, text);
    return false;
}

/* Returns the tensor; NULL if it is not there.  Missing tensors are counted, so that the message can have their number. */
static struct shard_tensor *take(struct binder *b, const char *stem, const char *suffix)
{
    struct shard_tensor *t = find(b, stem, suffix);
    if (!t) {
        if (!b->n_missing++)
            snprintf(b->missing, sizeof b->missing, "%s", b->name);
        if (b->say)
            b->say(b->arg, WEIGHTS_MISSING, NULL, b->name, "it is in no file, though config.json asks for it");
        return NULL;
    }
    CHECK(!t->taken);
    t->taken = true;
    b->w->stats.n_tensors++;
    b->w->stats.n_mtp += b->in_mtp;
    b->w->stats.n_vision += b->in_vision;
    b->w->stats.vision_bytes += b->in_vision ? t->t->bytes : 0;
    b->w->stats.bytes += t->t->bytes;
    add_range(b->st, t);
    return t;
}

static void print_shape(struct buf *out, const uint64_t *shape, int n)
{
    for (int i = 0; i < n; i++)
        buf_addf(out, "%s%llu", i ? ", " : "", (unsigned long long)shape[i]);
}

/* Sets of dtypes, as bits. */
#define BIT(t) (1u << (t))
enum { FLOATS = 1 << DT_F32 | 1 << DT_F16 | 1 << DT_BF16 };

/* True if a tensor has the shape that the arguments list.  `note` is added to the message. */
static bool fits(struct binder *b, const struct shard_tensor *t, unsigned allowed, const char *note, int n_dims, ...)
{
    uint64_t want[TENSOR_MAX_DIMS];
    va_list ap;
    va_start(ap, n_dims);
    for (int i = 0; i < n_dims; i++)
        want[i] = (uint64_t)va_arg(ap, int);
    va_end(ap);
    bool ok = (allowed & BIT(t->t->dtype)) && t->t->n_dims == n_dims;
    for (int i = 0; i < n_dims && ok; i++)
        ok = t->t->shape[i] == want[i];
    if (ok)
        return true;
    struct buf found = {0}, types = {0}, shape = {0};
    print_shape(&found, t->t->shape, t->t->n_dims);
    print_shape(&shape, want, n_dims);
    for (int d = 0; d <= DT_OTHER; d++)
        if (allowed & BIT(d))
            buf_addf(&types, "%s%s", types.len ? " or " : "", dtype_name((enum dtype)d));
    refuse_tensor(b, t, NULL, "is %s [%s], expected %s [%s]%s", dtype_name(t->t->dtype), buf_str(&found), buf_str(&types), buf_str(&shape), note);
    buf_free(&found);
    buf_free(&types);
    buf_free(&shape);
    return false;
}

/* Returns the bytes: in the mapping, or copied when they do not lie on a multiple of their element size. */
static const void *data(struct binder *b, const struct shard_tensor *t)
{
    const struct safetensors *f = shards_file(&b->st->shards, t);
    if (t->t->offset % dtype_bytes(t->t->dtype) == 0)
        return safetensors_data(f, t->t);
    void *copy = arena_alloc(&b->st->copies, t->t->bytes);
    return safetensors_read(f, t->t, copy, b->e) ? copy : NULL;
}

/* ---- formats of a matrix */

/* Packers that reorder columns store which group a column belongs to; only k/128 is what the kernels compute. */
static bool check_g_idx(struct binder *b, const char *stem, int cols)
{
    if (!find(b, stem, ".g_idx"))
        return true;
    const struct shard_tensor *t = take(b, stem, ".g_idx");
    const struct safetensors *f = shards_file(&b->st->shards, t);
    if (!fits(b, t, BIT(DT_I32), "", 1, cols))
        return false;
    int32_t *group = memory_alloc(t->t->bytes);
    bool ok = safetensors_read(f, t->t, group, b->e);
    for (int k = 0; k < cols && ok; k++)
        if (group[k] != k / GROUP)
            ok = refuse_tensor(b, t, NULL, "puts column %d into group %d, expected %d: reordered columns (desc_act) are not supported", k, group[k],
                        k / GROUP);
    free(group);
    return ok;
}

/* Binds the three tensors of an INT4 matrix.  A missing tensor is counted, and is no error here; false if one does not fit. */
static bool bind_int4(struct binder *b, const char *stem, struct weight *w)
{
    static const char note[] = " (4 bits in groups of 128)";
    struct shard_tensor *q = take(b, stem, ".qweight"), *z = take(b, stem, ".qzeros"), *s = take(b, stem, ".scales");
    if (w->rows % 8 || w->cols % GROUP)
        return refuse_tensor(b, q, stem, "is INT4 of %d x %d, expected a multiple of 8 rows and of %d columns", w->rows, w->cols, GROUP);
    if (!z || !s)
        return true;                    /* counted as missing */
    if (!fits(b, q, BIT(DT_I32), note, 2, w->cols / 8, w->rows)
        || !fits(b, z, BIT(DT_I32), note, 2, w->cols / GROUP, w->rows / 8)
        || !fits(b, s, BIT(DT_F16), note, 2, w->cols / GROUP, w->rows)
        || !check_g_idx(b, stem, w->cols))
        return false;
    b->w->stats.n_int4++;
    return (w->data = data(b, q)) && (w->zeros = data(b, z)) && (w->scale = data(b, s));
}

/* Binds an FP8 matrix and its scales.  A missing tensor is counted, and is no error here; false if one does not fit. */
static bool bind_fp8(struct binder *b, const char *stem, struct weight *w)
{
    static const char note[] = " (one scale for 128 x 128)";
    struct shard_tensor *s = take(b, stem, ".weight_scale_inv"), *q = take(b, stem, ".weight");
    if (!q)
        return true;
    if (!fits(b, q, BIT(DT_F8_E4M3), "", 2, w->rows, w->cols)
        || !fits(b, s, FLOATS, note, 2, (w->rows + FP8_BLOCK - 1) / FP8_BLOCK, (w->cols + FP8_BLOCK - 1) / FP8_BLOCK))
        return false;
    w->scale_dtype = s->t->dtype;
    b->w->stats.n_fp8++;
    return (w->data = data(b, q)) && (w->scale = data(b, s));
}

/* Binds a matrix in floating point.  A missing tensor is counted, and is no error here; false if it does not fit. */
static bool bind_dense(struct binder *b, const char *stem, struct weight *w)
{
    struct shard_tensor *t = take(b, stem, ".weight");
    if (!t)
        return true;
    if (!fits(b, t, FLOATS, "", 2, w->rows, w->cols))
        return false;
    w->dtype = t->t->dtype;
    b->w->stats.n_dense++;
    return (w->data = data(b, t));
}

/* Probed in this order by the tensor that only the format has; the last one is the default. */
static const struct format {
    enum weight_format format;
    const char *name, *probe;
    bool (*bind)(struct binder *b, const char *stem, struct weight *w);
} formats[] = {
    {WEIGHT_INT4,  "INT4", ".qweight",          bind_int4},
    {WEIGHT_FP8,   "FP8",  ".weight_scale_inv", bind_fp8},
    {WEIGHT_DENSE, "dense", ".weight",          bind_dense},
};

/* Binds a matrix in the format that its tensors are in.  A matrix that does not fit ends it, unless b->say reports all of them. */
static bool bind_matrix(struct binder *b, const char *stem, const struct matrix_slot *m, struct weight *w)
{
    int i = 0;
    while (i < COUNT(formats) - 1 && !find(b, stem, formats[i].probe))
        i++;
    const struct shard_tensor *t = find(b, stem, formats[i].probe);
    if (t && m->dense && formats[i].format != WEIGHT_DENSE)
        return refuse_tensor(b, t, stem, "is %s, expected 16 or 32 bits: this matrix is not supported in other formats", formats[i].name) || b->say;
    *w = (struct weight){.format = formats[i].format, .rows = b->dims[m->rows], .cols = b->dims[m->cols]};
    if (formats[i].bind(b, stem, w))
        return true;
    *w = (struct weight){WEIGHT_NONE};
    return b->say;
}

/* Binds n matrices to members of the struct at `base`. */
static bool bind_matrices(struct binder *b, const char *prefix, const struct matrix_slot *m, int n, void *base)
{
    char stem[MAX_STEM];
    for (int i = 0; i < n; i++) {
        snprintf(stem, sizeof stem, "%s%s", prefix, m[i].name);
        if (!bind_matrix(b, stem, &m[i], (struct weight *)((char *)base + m[i].at)))
            return false;
    }
    return true;
}

/* ---- vectors */

/* Reads a vector and converts it to floats, which the store owns.  A missing tensor is counted, and is no error here. */
static bool bind_vector(struct binder *b, const char *prefix, const struct vector_slot *v, const float **out)
{
    struct shard_tensor *t = take(b, prefix, v->name);
    const int *d = b->dims;
    if (!t)
        return true;
    if (!fits(b, t, FLOATS, "", v->n_dims, d[v->shape[0]], d[v->shape[1]], d[v->shape[2]]))
        return b->say;
    size_t n = t->t->bytes / dtype_bytes(t->t->dtype);
    float *copy = arena_array(&b->st->copies, n, sizeof *copy);
    void *raw = memory_alloc(t->t->bytes);
    bool ok = safetensors_read(shards_file(&b->st->shards, t), t->t, raw, b->e);
    if (ok)
        floats_f32(copy, raw, t->t->dtype, n);
    free(raw);
    *out = copy;
    return ok;
}

static bool bind_vectors(struct binder *b, const char *prefix, const struct vector_slot *v, int n, void *base)
{
    for (int i = 0; i < n; i++)
        if (!bind_vector(b, prefix, &v[i], (const float **)((char *)base + v[i].at)))
            return false;
    return true;
}

/* ---- blocks */

static struct weight part(const struct shard_tensor *t, const void *base, int first_row, int rows, int cols)
{
    const char *p = base;
    return (struct weight){.format = WEIGHT_DENSE, .dtype = t->t->dtype, .rows = rows, .cols = cols,
                           .data = p + (size_t)first_row * (size_t)cols * dtype_bytes(t->t->dtype)};
}

/* Binds all experts from two tensors: gate_up_proj [E, 2I, H], gate rows first, and down_proj [E, H, I]. */
static bool bind_fused_experts(struct binder *b, const char *stem, struct expert_weights *x)
{
    const int *d = b->dims;
    struct shard_tensor *up = take(b, stem, "gate_up_proj"), *down = take(b, stem, "down_proj");
    const void *up_data, *down_data;
    if (!up || !down)
        return true;
    if (!fits(b, up, FLOATS, "", 3, d[EXPERTS], d[INTER2], d[HIDDEN])
        || !fits(b, down, FLOATS, "", 3, d[EXPERTS], d[HIDDEN], d[INTER])
        || !(up_data = data(b, up)) || !(down_data = data(b, down)))
        return b->say;
    const char *p = up_data, *q = down_data;
    size_t up_bytes = up->t->bytes / (size_t)d[EXPERTS], down_bytes = down->t->bytes / (size_t)d[EXPERTS];
    for (int i = 0; i < d[EXPERTS]; i++, p += up_bytes, q += down_bytes) {
        x[i].gate = part(up, p, 0, d[INTER], d[HIDDEN]);
        x[i].up = part(up, p, d[INTER], d[INTER], d[HIDDEN]);
        x[i].down = part(down, q, 0, d[HIDDEN], d[INTER]);
    }
    b->w->stats.n_dense += 3 * d[EXPERTS];
    return true;
}

/* Binds the experts of a layer, which are fused into two tensors or stored one by one. */
static bool bind_experts(struct binder *b, const char *prefix, struct moe_weights *m)
{
    char stem[MAX_STEM];
    m->experts = arena_array(&b->st->copies, (size_t)b->c->n_experts, sizeof *m->experts);
    snprintf(stem, sizeof stem, "%smlp.experts.", prefix);
    if (find(b, stem, "gate_up_proj") || find(b, stem, "down_proj"))
        return bind_fused_experts(b, stem, m->experts);
    for (int i = 0; i < b->c->n_experts; i++) {
        snprintf(stem, sizeof stem, "%smlp.experts.%d.", prefix, i);
        if (!bind_matrices(b, stem, expert_matrices, COUNT(expert_matrices), &m->experts[i]))
            return false;
    }
    return true;
}

/* Binds all weights of a layer, whose tensors begin with `prefix`. */
static bool bind_layer(struct binder *b, const char *prefix, bool full, struct layer_weights *l)
{
    l->full = full;
    return bind_vectors(b, prefix, layer_vectors, COUNT(layer_vectors), l)
        && (full ? bind_vectors(b, prefix, attn_vectors, COUNT(attn_vectors), l)
                   && bind_matrices(b, prefix, attn_matrices, COUNT(attn_matrices), l)
                 : bind_vectors(b, prefix, delta_vectors, COUNT(delta_vectors), l)
                   && bind_matrices(b, prefix, delta_matrices, COUNT(delta_matrices), l))
        && bind_matrices(b, prefix, layer_matrices, COUNT(layer_matrices), l)
        && bind_experts(b, prefix, &l->moe);
}

static bool has_names(const struct shards *s, const char *prefix)
{
    for (int i = 0; i < s->n; i++)
        if (!strncmp(s->list[i].name, prefix, strlen(prefix)))
            return true;
    return false;
}

/* Binds the MTP block.  A checkpoint without the block is whole; one with a part of the block is not. */
static bool bind_mtp(struct binder *b)
{
    struct mtp_weights *m = &b->w->mtp;
    if (!b->c->n_mtp || !has_names(&b->st->shards, "mtp."))
        return true;
    m->present = b->in_mtp = true;
    const bool ok = bind_vectors(b, "mtp.", mtp_vectors, COUNT(mtp_vectors), m)
        && bind_matrices(b, "mtp.", mtp_matrices, COUNT(mtp_matrices), m)
        && bind_layer(b, "mtp.layers.0.", true, &m->layer);
    b->in_mtp = false;
    return ok;
}

/* Binds the matrix of patches, which is stored as a convolution [hidden, channels, frames, 16, 16]. */
static bool bind_patches(struct binder *b, struct weight *w)
{
    struct shard_tensor *t = take(b, TOWER_PREFIX, "patch_embed.proj.weight");
    const int hidden = b->c->vision.hidden;
    if (!t)
        return true;
    if (!fits(b, t, FLOATS, "", 5, hidden, 3, 2, 16, 16))
        return b->say;
    *w = (struct weight){.format = WEIGHT_DENSE, .dtype = t->t->dtype, .rows = hidden, .cols = 3 * 2 * 16 * 16, .data = data(b, t)};
    b->w->stats.n_dense++;
    return w->data;
}

/* Binds the vision tower, which like the MTP block is there as a whole or not at all. */
static bool bind_vision(struct binder *b)
{
    struct vision_weights *v = &b->w->vision;
    const int depth = b->c->vision.depth;
    if (!depth || !has_names(&b->st->shards, TOWER_PREFIX))
        return true;
    v->present = b->in_vision = true;
    v->blocks = arena_array(&b->st->copies, (size_t)depth, sizeof *v->blocks);
    bool ok = bind_patches(b, &v->patch) && bind_vectors(b, TOWER_PREFIX, vision_vectors, COUNT(vision_vectors), v)
        && bind_matrices(b, TOWER_PREFIX, vision_matrices, COUNT(vision_matrices), v);
    for (int i = 0; i < depth && ok; i++) {
        char block[MAX_STEM];
        snprintf(block, sizeof block, TOWER_PREFIX "blocks.%d.", i);
        ok = bind_vectors(b, block, block_vectors, COUNT(block_vectors), &v->blocks[i])
            && bind_matrices(b, block, block_matrices, COUNT(block_matrices), &v->blocks[i]);
    }
    b->in_vision = false;
    return ok;
}

/* Binds the weights of the text model, then those of the MTP block and the vision tower. */
static bool bind_model(struct binder *b)
{
    /* The published checkpoints carry a vision tower beside the language model; text-only ones have one name less. */
    const char *prefix = shards_find(&b->st->shards, "model.embed_tokens.weight") ? "model." : "model.language_model.";
    struct weights *w = b->w;
    if (!bind_matrices(b, prefix, embed_matrix, COUNT(embed_matrix), w) || !bind_vectors(b, prefix, model_vectors, COUNT(model_vectors), w))
        return false;
    if (b->c->tied)
        w->head = w->embed;
    else if (!bind_matrices(b, "", head_matrix, COUNT(head_matrix), w))
        return false;
    w->layers = arena_array(&b->st->copies, (size_t)b->c->n_layers, sizeof *w->layers);
    for (int i = 0; i < b->c->n_layers; i++) {
        char layer[MAX_STEM];
        snprintf(layer, sizeof layer, "%slayers.%d.", prefix, i);
        if (!bind_layer(b, layer, b->c->full[i], &w->layers[i]))
            return false;
    }
    return bind_mtp(b) && bind_vision(b);
}

/* ---- what is left over */

static bool is_unneeded(const struct model_config *c, const char *name)
{
    return (!c->vision.depth && !strncmp(name, TOWER_PREFIX, strlen(TOWER_PREFIX)))
        || (c->tied && !strcmp(name, "lm_head.weight"))
        || (!c->n_mtp && !strncmp(name, "mtp.", 4));
}

/* Refuses a checkpoint in which tensors are missing or that has others than the model needs; b->say is called for each instead. */
static bool check_rest(struct binder *b)
{
    const struct shards *s = &b->st->shards;
    const struct shard_tensor *unknown = NULL;
    int n_unknown = 0;
    if (b->n_missing && !b->say)
        return err_set(b->e, "%s: %d of the tensors that config.json asks for %s missing, the first is %s", b->dir, b->n_missing,
                       b->n_missing == 1 ? "is" : "are", b->missing);
    for (int i = 0; i < s->n; i++) {
        if (s->list[i].taken)
            continue;
        if (is_unneeded(b->c, s->list[i].name))
            b->w->stats.n_skipped++;
        else if (b->say)
            b->say(b->arg, WEIGHTS_UNEXPECTED, strrchr(shards_file(s, &s->list[i])->path, '/') + 1, s->list[i].name,
                   "it has no place in the model that config.json describes");
        else if (!n_unknown++)
            unknown = &s->list[i];
    }
    if (!n_unknown)
        return true;
    return err_set(b->e, "%s: tensor %s has no place in the model that config.json describes (%d such tensor%s)",
                   shards_file(s, unknown)->path, unknown->name, n_unknown, n_unknown == 1 ? "" : "s");
}

static int by_place(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Sorts the ranges and joins neighbours, whose padding is read along. */
static void join_ranges(struct weights_store *st)
{
    enum { GAP = 64 << 10 };
    int n = 0;
    if (st->n_ranges)
        qsort(st->ranges, (size_t)st->n_ranges, sizeof *st->ranges, by_place);
    for (int i = 0; i < st->n_ranges; i++) {
        struct range *r = &st->ranges[i], *last = &st->ranges[n ? n - 1 : 0];
        if (n && r->file == last->file && r->offset - (last->offset + last->bytes) <= GAP)
            last->bytes = r->offset + r->bytes - last->offset;
        else
            st->ranges[n++] = *r;
    }
    st->n_ranges = n;
}

bool weights_open(struct weights *w, const struct model_config *c, const char *dir, struct err *e)
{
    return weights_check(w, c, dir, NULL, NULL, e);
}

bool weights_check(struct weights *w, const struct model_config *c, const char *dir, weights_say *say, void *arg, struct err *e)
{
    *w = (struct weights){.store = memory_zeroed(1, sizeof *w->store)};
    struct binder b = {.w = w, .st = w->store, .c = c, .dir = dir, .e = e, .say = say, .arg = arg};
    fill_dims(b.dims, c);
    if (!shards_open(&w->store->shards, dir, e) || !bind_model(&b) || !check_rest(&b)) {
        weights_close(w);
        return false;
    }
    w->stats.n_stale = w->store->shards.n_stale;
    w->stats.n_files = w->store->shards.n_files;
    for (int i = 0; i < w->stats.n_files; i++)
        w->stats.file_bytes += w->store->shards.files[i].size;
    shards_drop_names(&w->store->shards);
    join_ranges(w->store);
    return true;
}

void weights_close(struct weights *w)
{
    if (!w->store)
        return;
    struct weights_store *st = w->store;
    for (int i = 0; i < st->n_slabs; i++)
        st->dev->free(st->dev, st->slabs[i]);
    free(st->slabs);
    shards_close(&st->shards);
    arena_free(&st->copies);
    free(st->ranges);
    free(st);
    *w = (struct weights){0};
}

bool weights_prefetch(struct weights *w, bool (*progress)(size_t done, size_t total, void *arg), void *arg, struct err *e)
{
    enum { STEP = 32 << 20 };
    const struct weights_store *st = w->store;
    size_t done = 0, total = 0;
    for (int i = 0; i < st->n_ranges; i++)
        total += st->ranges[i].bytes;
    for (int i = 0; i < st->n_ranges; i++) {
        const struct range *r = &st->ranges[i];
        for (uint64_t at = 0; at < r->bytes; at += STEP) {
            uint64_t n = r->bytes - at < STEP ? r->bytes - at : STEP;
            if (progress && !progress(done, total, arg))
                return true;
            if (!safetensors_populate(&st->shards.files[r->file], r->offset + at, n, e))
                return false;
            done += n;
        }
    }
    if (progress)
        progress(done, total, arg);
    return true;
}

void weights_norms(struct layer_weights *l, int n, struct dev *d)
{
    struct moe_weights *m = &l->moe;
    const char *first = m->experts[0].gate.data, *second = m->experts[n > 1].gate.data;
    if (!d->row_norms)
        return;
    d->row_norms(d, m->norms, &m->experts[0].gate, NULL, n, (size_t)(second - first));
    d->row_norms(d, m->norms + n, &m->shared.gate, NULL, 1, 0);
    if (l->full)
        d->row_norms(d, l->attn.v_norm, &l->attn.v, NULL, 1, 0);
    else
        d->row_norms(d, l->delta.z_norm, &l->delta.z, NULL, 1, 0);
}

void weights_vision_norms(struct vision_weights *v, int n, struct dev *d)
{
    for (int i = 0; i < n && d->row_norms; i++) {
        const struct vision_block_weights *b = &v->blocks[i];
        d->row_norms(d, b->norms, &b->qkv, b->qkv_b, 1, 0);
        d->row_norms(d, b->norms + 1, &b->fc1, b->fc1_b, 1, 0);
    }
}

void weights_make_head(struct weights *w, enum head h)
{
    if (weights_head(w, h)->format != WEIGHT_NONE)
        return;
    if (h == HEAD_INT8)
        w->head_int8 = quantize_int8(&w->head, &w->store->copies);
    else
        w->head_planes = quantize_planes(&w->head, &w->store->copies);
}

/* ---- the MTP block in another form */

/* All of its matrices, experts apart. */
static const struct mtp_list { const struct matrix_slot *list; int n; size_t at; enum mtp_part part; } mtp_lists[] = {
    {mtp_matrices,   COUNT(mtp_matrices),   0,          MTP_OTHER},
    {attn_matrices,  COUNT(attn_matrices),  MTP(layer), MTP_ATTENTION},
    {layer_matrices, COUNT(layer_matrices), MTP(layer), MTP_OTHER},
};
static const struct mtp_list mtp_experts = {expert_matrices, COUNT(expert_matrices), 0, MTP_ROUTED};

enum weight_format weights_mtp_format(const struct model_config *c, enum mtp_form form, enum mtp_part part, const struct weight *w)
{
    const bool fits = part == MTP_ROUTED ? quantize_int4_fits(c->moe_inter, c->hidden) && quantize_int4_fits(c->hidden, c->moe_inter)
                                         : quantize_int4_fits(w->rows, w->cols);
    if (w->format != WEIGHT_DENSE || form == MTP_STORED)
        return w->format;
    return form == MTP_INT4 && part != MTP_OTHER && fits ? WEIGHT_INT4 : WEIGHT_FP8;
}

static void make_matrices(const struct model_config *c, enum mtp_form form, const struct mtp_list *l, void *base, struct arena *a)
{
    for (int i = 0; i < l->n; i++) {
        struct weight *w = (struct weight *)((char *)base + l->list[i].at);
        if (w->format == WEIGHT_DENSE && !l->list[i].dense)
            *w = weights_mtp_format(c, form, l->part, w) == WEIGHT_INT4 ? quantize_int4(w, a) : quantize_fp8(w, a);
    }
}

void weights_make_mtp(struct weights *w, const struct model_config *c, enum mtp_form form)
{
    struct arena *a = &w->store->copies;
    if (!w->mtp.present || form == MTP_STORED)
        return;
    for (int i = 0; i < COUNT(mtp_lists); i++)
        make_matrices(c, form, &mtp_lists[i], (char *)&w->mtp + mtp_lists[i].at, a);
    for (int i = 0; i < c->n_experts; i++)
        make_matrices(c, form, &mtp_experts, &w->mtp.layer.moe.experts[i], a);
}

/* Returns the bytes that the matrices of a list take when they are converted for the MTP block. */
static size_t made_bytes(const struct model_config *c, enum mtp_form form, const struct mtp_list *l, const int d[N_DIMS])
{
    size_t bytes = 0;
    for (int i = 0; i < l->n; i++) {
        const struct weight w = {.format = WEIGHT_DENSE, .rows = d[l->list[i].rows], .cols = d[l->list[i].cols]};
        const bool int4 = weights_mtp_format(c, form, l->part, &w) == WEIGHT_INT4;
        bytes += l->list[i].dense ? 0 : int4 ? quantize_int4_bytes(w.rows, w.cols) : quantize_fp8_bytes(w.rows, w.cols);
    }
    return bytes;
}

size_t weights_made_mtp_bytes(const struct model_config *c, enum mtp_form form)
{
    int d[N_DIMS];
    size_t bytes = 0;
    fill_dims(d, c);
    if (!c->n_mtp || form == MTP_STORED)
        return 0;
    for (int i = 0; i < COUNT(mtp_lists); i++)
        bytes += made_bytes(c, form, &mtp_lists[i], d);
    return bytes + (size_t)c->n_experts * made_bytes(c, form, &mtp_experts, d);
}
