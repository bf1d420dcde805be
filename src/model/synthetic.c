
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/memory.h"
#include "kernels/fill.h"
#include "kernels/planes.h"
#include "model/synthetic.h"

/* ---- geometries */

static const struct geometry {
    const char *name;
    int hidden, n_layers, interval, n_q_heads, n_kv_heads, head_dim, lin_k_heads, lin_v_heads, lin_dim, n_experts, top_k, inter, shared, vocab;
} geometries[] = {
#define MODEL(...) {__VA_ARGS__},
#include "config/models.def"
#undef MODEL
};
enum { N_GEOMETRIES = sizeof geometries / sizeof *geometries };

/* True if `part` is in `name` at the start of a word. */
static bool is_called(const char *name, const char *part)
{
    const char *at = *part ? strcasestr(name, part) : NULL;
    while (at && at > name && isalnum((unsigned char)at[-1]))
        at = strcasestr(at + 1, part);
    return at;
}

/* Returns the known geometry whose name has `name` as a part.  NULL, with the names, if there is none. */
static const struct geometry *find_geometry(const char *name, struct err *e)
{
    struct buf known = {0};
    for (int i = 0; i < N_GEOMETRIES; i++) {
        if (is_called(geometries[i].name, name)) {
            buf_free(&known);
            return &geometries[i];
        }
        buf_addf(&known, "%s%s", i ? ", " : "", geometries[i].name);
    }
    err_set(e, "no geometry is called '%s', expected a part of one of: %s", name, buf_str(&known));
    buf_free(&known);
    return NULL;
}

bool synthetic_config_json(struct buf *out, const char *name, int n_layers, struct err *e)
{
    const struct geometry *g = find_geometry(name, e);
    if (!g)
        return false;
    if (n_layers < 0 || n_layers > g->n_layers)
        return err_set(e, "%d layers asked for, but %s has %d", n_layers, g->name, g->n_layers);
    buf_addf(out,
             "{\n  \"architectures\": [\"Qwen3_5MoeForConditionalGeneration\"],\n  \"model_type\": \"qwen3_5_moe\",\n"
             "  \"tie_word_embeddings\": false,\n  \"text_config\": {\n    \"model_type\": \"qwen3_5_moe_text\",\n    \"hidden_act\": \"silu\",\n"
             "    \"attention_bias\": false,\n    \"attn_output_gate\": true,\n    \"rms_norm_eps\": 1e-06,\n"
             "    \"max_position_embeddings\": 262144,\n"
             "    \"eos_token_id\": 248044,\n    \"linear_conv_kernel_dim\": 4,\n    \"mtp_num_hidden_layers\": 1,\n"
             "    \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000000, \"partial_rotary_factor\": 0.25},\n");
    buf_addf(out, "    \"hidden_size\": %d,\n    \"num_hidden_layers\": %d,\n    \"full_attention_interval\": %d,\n    \"num_attention_heads\": %d,\n"
             "    \"num_key_value_heads\": %d,\n    \"head_dim\": %d,\n    \"linear_num_key_heads\": %d,\n    \"linear_num_value_heads\": %d,\n",
             g->hidden, n_layers ? n_layers : g->n_layers, g->interval, g->n_q_heads, g->n_kv_heads, g->head_dim, g->lin_k_heads, g->lin_v_heads);
    buf_addf(out, "    \"linear_key_head_dim\": %d,\n    \"linear_value_head_dim\": %d,\n    \"num_experts\": %d,\n    \"num_experts_per_tok\": %d,\n"
             "    \"moe_intermediate_size\": %d,\n    \"shared_expert_intermediate_size\": %d,\n    \"vocab_size\": %d\n  },\n",
             g->lin_dim, g->lin_dim, g->n_experts, g->top_k, g->inter, g->shared, g->vocab);
    buf_adds(out, "  \"quantization_config\": {\"quant_method\": \"auto-round\", \"bits\": 4, \"group_size\": 128, \"data_type\": \"int\", "
                  "\"sym\": true,\n"
                  "    \"packing_format\": \"auto_round:auto_gptq\", \"block_name_to_quantize\": \"model.language_model.layers\"}\n}\n");
    return true;
}

bool synthetic_config(struct model_config *c, const char *name, int n_layers, struct err *e)
{
    struct buf text = {0};
    bool ok = synthetic_config_json(&text, name, n_layers, e) && config_parse(c, buf_str(&text), text.len, name, e);
    buf_free(&text);
    return ok;
}

/* ---- weights on a device */

struct synthetic {
    struct dev  *dev;
    struct arena host;                  /* arrays of views */
    void       **slabs;                 /* one a layer and a few more */
    int          n_slabs;
};

/* Returns the place of the next piece of a slab; without memory only counts the bytes. */
struct place {
    struct synthetic *s;
    char    *base;
    size_t   used;
    uint64_t seed, n_pieces;
};

static void *piece(struct place *p, size_t bytes)
{
    void *at = p->base ? p->base + p->used : NULL;
    p->used += (bytes + 511) / 512 * 512;
    p->n_pieces++;
    return at;
}

static void fill(const struct place *p, const void *at, size_t bytes, enum fill_kind kind, float centre, float width)
{
    uint64_t is_scale = kind == FILL_F16 || kind == FILL_F32;   /* data and scales of a piece have keys of their own */
    struct fill f = {.kind = kind, .key = random_key(p->seed, 2 * p->n_pieces + is_scale), .centre = centre, .width = width};
    p->s->dev->fill(p->s->dev, (void *)(uintptr_t)at, bytes, &f);
}

/* Zeroes the rows of a packed matrix's last tile after the first `rows`. Word i of dense data belongs to lane i / 4, words 1 and 3 to the row 8
 * further; of scales to row i % 8 and the one 8 further. */
static void clear_rows(const struct place *p, void *tile, size_t bytes, int rows, bool dense)
{
    struct dev *d = p->s->dev;
    uint32_t *words = memory_alloc(bytes);
    d->copy(d, words, tile, bytes);
    d->finish(d, NULL);                 /* a fault is sticky, and reported in the end */
    for (size_t i = 0; i < bytes / sizeof *words; i++) {
        int low = dense ? (int)(i / 16 % 8) + (i % 2 ? 8 : 0) : (int)(i % 8), high = dense ? low : low + 8;
        words[i] &= (low < rows ? 0xffffu : 0) | (high < rows ? 0xffff0000u : 0);
    }
    d->copy(d, tile, words, bytes);
    free(words);
}

/* Fills in the plane_row of rows whose nibbles are FILL_BELL and FILL_BITS: the expectations of its figures. */
static void fill_plane_rows(const struct place *p, const struct weight *w, size_t bytes, float rms)
{
    struct plane_sums s = {0};
    static const int ways[16] = {1, 15, 105, 455, 1365, 3003, 5005, 6435, 6435, 5005, 3003, 1365, 455, 105, 15, 1};    /* 15 over u */
    for (int q = -128; q < 128; q++)
        for (int i = 0; i < ways[(q + 128) / 16]; i++)
            plane_add(&s, q);
    const struct plane_row row = plane_row_of(&s, f32_f16(rms / FILL_PLANES_RMS));
    struct fill f = {.kind = FILL_SAME};
    _Static_assert(sizeof row == sizeof f.key, "one word a row");
    memcpy(&f.key, &row, sizeof row);
    p->s->dev->fill(p->s->dev, (void *)(uintptr_t)w->scale, bytes, &f);
}

/* Makes a packed matrix whose numbers have the given root mean square. */
static struct weight matrix(struct place *p, enum weight_format f, int rows, int cols, float rms)
{
    struct weight w = packed_view(f, rows, cols, piece(p, pack_bytes(f, rows, cols)));
    size_t data = pack_data_bytes(f, rows, cols), scale = pack_scale_bytes(f, rows, cols), groups = (size_t)pack_groups(cols);
    int tail = rows % PACK_ROWS;
    if (!p->base)
        return w;
    CHECK(cols % PACK_GROUP == 0 && ((f != WEIGHT_FP8 && f != WEIGHT_PLANES) || !tail));
    switch (f) {
    case WEIGHT_INT4:
        fill(p, w.data, data, FILL_BITS, 0, 0);
        fill(p, w.scale, scale, FILL_F16, rms / FILL_INT4_RMS, rms / FILL_INT4_RMS / 4);
        break;
    case WEIGHT_FP8:
        fill(p, w.data, data, FILL_FP8, 0, 0);
        fill(p, w.scale, (scale + 15) / 16 * 16, FILL_F32, rms / FILL_FP8_RMS, rms / FILL_FP8_RMS / 4);
        break;
    case WEIGHT_INT8:
        fill(p, w.data, data, FILL_INT8, 0, 0);
        fill(p, w.scale, scale, FILL_F16, rms / FILL_INT8_RMS, rms / FILL_INT8_RMS / 4);
        break;
    case WEIGHT_PLANES:
        fill(p, w.data, data / 2, FILL_BELL, 0, 0);
        fill(p, w.low_plane, data / 2, FILL_BITS, 0, 0);
        fill_plane_rows(p, &w, scale, rms);
        break;
    default:
        fill(p, w.data, data, FILL_BF16, 0, rms * RANDOM_WIDTH);
    }
    if (tail && f == WEIGHT_DENSE) {
        size_t tile = groups * (size_t)pack_lines(f) * PACK_LINE;
        clear_rows(p, (char *)(uintptr_t)w.data + data - tile, tile, tail, true);
    } else if (tail) {
        size_t tile = (f == WEIGHT_INT4 ? groups : 1) * 32;
        clear_rows(p, (char *)(uintptr_t)w.scale + scale - tile, tile, tail, false);
    }
    return w;
}

static struct weight linear_weight(struct place *p, enum weight_format f, int rows, int cols)
{
    return matrix(p, f == WEIGHT_INT4 && rows % 8 ? WEIGHT_DENSE : f, rows, cols, 1 / sqrtf((float)cols));
}

/* Places a vector of n random floats; while sizes are only counted, nothing is written. */
static const float *vector(struct place *p, enum random_vector kind, int n)
{
    float *at = piece(p, (size_t)n * sizeof *at);
    if (p->base) {
        float *host = memory_alloc((size_t)n * sizeof *host);
        random_floats(host, kind, (size_t)n, random_key(p->seed, 2 * p->n_pieces));
        p->s->dev->copy(p->s->dev, at, host, (size_t)n * sizeof *host);
        free(host);
    }
    return at;
}

static void place_expert(struct place *p, struct expert_weights *x, enum weight_format f, int hidden, int inter)
{
    x->gate = linear_weight(p, f, 2 * inter, hidden);
    x->up = (struct weight){WEIGHT_NONE};
    x->down = linear_weight(p, f, hidden, inter);
}

/* Places router, shared expert and routed experts of a layer. */
static void place_moe(struct place *p, struct moe_weights *m, const struct model_config *c, enum weight_format routed, enum weight_format shared)
{
    m->router = matrix(p, WEIGHT_DENSE, c->n_experts, c->hidden, RANDOM_ROUTER / sqrtf((float)c->hidden));
    m->shared_gate = linear_weight(p, WEIGHT_DENSE, 1, c->hidden);
    place_expert(p, &m->shared, shared, c->hidden, c->shared_inter);
    if (!m->experts)
        m->experts = arena_array(&p->s->host, (size_t)c->n_experts, sizeof *m->experts);
    for (int i = 0; i < c->n_experts; i++)
        place_expert(p, &m->experts[i], routed, c->hidden, c->moe_inter);
    m->norms = piece(p, (size_t)(c->n_experts + 1) * sizeof *m->norms);
}

/* The formats of a layer's matrices: attention and out projections, the other large ones, the shared expert. */
struct layer_form { enum weight_format attention, f, shared; };

/* Places all weights of a layer, which has attention or DeltaNet. */
static void place_layer(struct place *p, struct layer_weights *l, const struct model_config *c, bool full, struct layer_form form)
{
    const enum weight_format f = form.f, a = form.attention;
    int query = c->n_q_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim, value = config_lin_value_dim(c);
    l->full = full;
    l->norm_in = vector(p, RANDOM_NORM, c->hidden);
    l->norm_post = vector(p, RANDOM_NORM, c->hidden);
    if (full) {
        l->attn.q = linear_weight(p, a, 2 * query, c->hidden);
        l->attn.k = linear_weight(p, a, kv, c->hidden);
        l->attn.v = linear_weight(p, a, kv, c->hidden);
        l->attn.o = linear_weight(p, a, c->hidden, query);
        l->attn.q_norm = vector(p, RANDOM_NORM, c->head_dim);
        l->attn.v_norm = piece(p, sizeof *l->attn.v_norm);
        l->attn.k_norm = vector(p, RANDOM_NORM, c->head_dim);
    } else {
        l->delta.qkv = linear_weight(p, f, config_conv_dim(c), c->hidden);
        l->delta.z = linear_weight(p, f, value, c->hidden);
        l->delta.a = linear_weight(p, f, c->lin_v_heads, c->hidden);
        l->delta.b = linear_weight(p, f, c->lin_v_heads, c->hidden);
        l->delta.out = linear_weight(p, a, c->hidden, value);
        l->delta.conv = vector(p, RANDOM_CONV, config_conv_dim(c) * c->conv_kernel);
        l->delta.a_log = vector(p, RANDOM_A_LOG, c->lin_v_heads);
        l->delta.dt_bias = vector(p, RANDOM_DT_BIAS, c->lin_v_heads);
        l->delta.norm = vector(p, RANDOM_GATED_NORM, c->lin_v_dim);
        l->delta.z_norm = piece(p, sizeof *l->delta.z_norm);
    }
    place_moe(p, &l->moe, c, f, form.shared);
    if (p->base)
        weights_norms(l, c->n_experts, p->s->dev);
}

/* Fills slab `i`: the layers, then the MTP block, then what no layer owns. */
static void place_slab(struct place *p, struct weights *w, const struct model_config *c, int i, const struct synthetic_form *form)
{
    const enum weight_format other = form->mtp == MTP_STORED ? WEIGHT_DENSE : WEIGHT_FP8, block = form->mtp == MTP_INT4 ? WEIGHT_INT4 : other;
    if (i < c->n_layers) {
        place_layer(p, &w->layers[i], c, c->full[i], (struct layer_form){form->quality ? WEIGHT_FP8 : WEIGHT_INT4, WEIGHT_INT4, WEIGHT_FP8});
    } else if (i == c->n_layers) {
        w->mtp.present = c->n_mtp;
        if (!c->n_mtp)
            return;
        w->mtp.fc = linear_weight(p, other, c->hidden, 2 * c->hidden);
        w->mtp.norm_embedding = vector(p, RANDOM_NORM, c->hidden);
        w->mtp.norm_hidden = vector(p, RANDOM_NORM, c->hidden);
        w->mtp.norm = vector(p, RANDOM_NORM, c->hidden);
        place_layer(p, &w->mtp.layer, c, true, (struct layer_form){block, block, other});
    } else {
        size_t table = (size_t)c->vocab * (size_t)c->hidden * 2;
        w->norm = vector(p, RANDOM_NORM, c->hidden);
        w->embed = (struct weight){.format = WEIGHT_DENSE, .dtype = DT_BF16, .rows = c->vocab, .cols = c->hidden, .data = piece(p, table)};
        if (p->base)
            fill(p, w->embed.data, table, FILL_BF16, 0, RANDOM_WIDTH);
        if (form->heads & HEAD_BF16)
            w->head = matrix(p, WEIGHT_DENSE, c->vocab, c->hidden, RANDOM_HEAD / sqrtf((float)c->hidden));
        if (form->heads & HEAD_INT8)
            w->head_int8 = matrix(p, WEIGHT_INT8, c->vocab, c->hidden, RANDOM_HEAD / sqrtf((float)c->hidden));
        if (form->heads & HEAD_PLANES)
            w->head_planes = matrix(p, WEIGHT_PLANES, c->vocab, c->hidden, RANDOM_HEAD / sqrtf((float)c->hidden));
    }
}

/* Makes a dense matrix of any number of columns.  Those that fill its last group are multiplied with zeros. */
static struct weight tower_matrix(struct place *p, int rows, int cols)
{
    const size_t bytes = pack_data_bytes(WEIGHT_DENSE, rows, cols);
    const struct weight w = packed_view(WEIGHT_DENSE, rows, cols, piece(p, bytes));
    if (p->base)
        fill(p, w.data, bytes, FILL_BF16, 0, RANDOM_WIDTH / sqrtf((float)cols));
    return w;
}

/* Places the weights of the vision tower. */
static void place_tower(struct place *p, struct vision_weights *v, const struct vision_config *c)
{
    const size_t table = (size_t)c->n_positions * (size_t)c->hidden * 2;
    v->positions = (struct weight){.format = WEIGHT_DENSE, .dtype = DT_BF16, .rows = c->n_positions, .cols = c->hidden, .data = piece(p, table)};
    if (p->base)
        fill(p, v->positions.data, table, FILL_BF16, 0, RANDOM_WIDTH);
    v->patch = tower_matrix(p, c->hidden, PATCH_NUMBERS);
    v->patch_b = vector(p, RANDOM_NORM, c->hidden);
    for (int i = 0; i < c->depth; i++) {
        struct vision_block_weights *b = &v->blocks[i];
        b->norm1_w = vector(p, RANDOM_GATED_NORM, c->hidden);
        b->norm1_b = vector(p, RANDOM_NORM, c->hidden);
        b->norm2_w = vector(p, RANDOM_GATED_NORM, c->hidden);
        b->norm2_b = vector(p, RANDOM_NORM, c->hidden);
        b->qkv = tower_matrix(p, 3 * c->hidden, c->hidden);
        b->qkv_b = vector(p, RANDOM_NORM, 3 * c->hidden);
        b->proj = tower_matrix(p, c->hidden, c->hidden);
        b->proj_b = vector(p, RANDOM_NORM, c->hidden);
        b->fc1 = tower_matrix(p, c->inter, c->hidden);
        b->fc1_b = vector(p, RANDOM_NORM, c->inter);
        b->fc2 = tower_matrix(p, c->hidden, c->inter);
        b->fc2_b = vector(p, RANDOM_NORM, c->hidden);
        b->norms = piece(p, 2 * sizeof *b->norms);
    }
    v->norm_w = vector(p, RANDOM_GATED_NORM, c->hidden);
    v->norm_b = vector(p, RANDOM_NORM, c->hidden);
    v->fc1 = tower_matrix(p, 4 * c->hidden, 4 * c->hidden);
    v->fc1_b = vector(p, RANDOM_NORM, 4 * c->hidden);
    v->fc2 = tower_matrix(p, c->out, 4 * c->hidden);
    v->fc2_b = vector(p, RANDOM_NORM, c->out);
}

/* Makes slab i: counts its bytes, allocates them, then fills them with random weights. */
static bool make_slab(struct synthetic *s, struct weights *w, const struct model_config *c, int i, const struct synthetic_form *form, uint64_t seed,
                      struct err *e)
{
    struct place p = {.s = s, .seed = random_key(seed, (uint64_t)i)};
    place_slab(&p, w, c, i, form);
    size_t bytes = p.used;
    p = (struct place){.s = s, .seed = p.seed, .base = s->dev->alloc_weights(s->dev, bytes)};
    if (!p.base)
        return err_set(e, "no memory for synthetic weights: %zu MiB asked for with %zu MiB there; try fewer --layers", bytes >> 20,
                       s->dev->available(s->dev) >> 20);
    s->slabs[s->n_slabs++] = p.base;
    place_slab(&p, w, c, i, form);
    CHECK(p.used == bytes);
    w->stats.bytes += bytes;
    return true;
}

struct synthetic *synthetic_open(struct weights *w, const struct model_config *c, struct dev *d, const struct synthetic_form *form, uint64_t seed,
                                 struct err *e)
{
    *w = (struct weights){0};
    if (!d->caps->packs_weights) {
        err_set(e, "synthetic weights are made on a GPU, but the backend is %s: measure a checkpoint with --model DIR", d->name);
        return NULL;
    }
    struct synthetic *s = memory_zeroed(1, sizeof *s);
    s->dev = d;
    s->slabs = arena_array(&s->host, (size_t)c->n_layers + 3, sizeof *s->slabs);
    w->layers = arena_array(&s->host, (size_t)c->n_layers, sizeof *w->layers);
    bool ok = true;
    for (int i = 0; i < c->n_layers + 2 && ok; i++)
        ok = make_slab(s, w, c, i, form, seed, e);
    if (ok && d->finish(d, e))
        return s;
    synthetic_close(s);
    *w = (struct weights){0};
    return NULL;
}

void synthetic_vision(struct model_config *c)
{
    c->vision = (struct vision_config){.depth = 27, .hidden = 1152, .n_heads = 16, .inter = 4304, .n_positions = 2304, .side = 48, .out = c->hidden,
                                       .image_id = c->vocab - 1, .start_id = -1, .end_id = -1};
}

bool synthetic_add_vision(struct synthetic *s, struct weights *w, struct model_config *c, uint64_t seed, struct err *e)
{
    synthetic_vision(c);
    const struct vision_config published = c->vision;
    struct place p = {.s = s, .seed = random_key(seed, (uint64_t)c->n_layers + 2)};
    CHECK(!w->vision.present);
    w->vision.blocks = arena_array(&s->host, (size_t)published.depth, sizeof *w->vision.blocks);
    place_tower(&p, &w->vision, &published);
    const size_t bytes = p.used;
    p = (struct place){.s = s, .seed = p.seed, .base = s->dev->alloc_weights(s->dev, bytes)};
    if (!p.base)
        return err_set(e, "no memory for a synthetic vision tower: %zu MiB asked for", bytes >> 20);
    s->slabs[s->n_slabs++] = p.base;
    place_tower(&p, &w->vision, &published);
    weights_vision_norms(&w->vision, published.depth, s->dev);
    w->vision.present = true;
    return s->dev->finish(s->dev, e);
}

size_t synthetic_bytes(const struct model_config *c, const struct synthetic_form *form)
{
    struct synthetic s = {0};
    struct weights w = {.layers = arena_array(&s.host, (size_t)c->n_layers, sizeof *w.layers)};
    struct place p = {.s = &s};
    for (int i = 0; i < c->n_layers + 2; i++)
        place_slab(&p, &w, c, i, form);
    arena_free(&s.host);
    return p.used;
}

void synthetic_close(struct synthetic *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n_slabs; i++)
        s->dev->free(s->dev, s->slabs[i]);
    arena_free(&s->host);
    free(s);
}
