/* A synthetic model as files: names, shapes and faults of the published checkpoints. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "kernels/number.h"
#include "model/safetensors_write.h"
#include "model/synthetic.h"
#include "tests/bench/measure.h"

#define PREFIX "model.language_model."
enum { N_SHARDS = 14, EXTRA = N_SHARDS, N_FILES, MAX_FILE_NAME = 48 };
enum { N_STALE_EXPERTS = 8 };

/* Vectors are small: their bytes are made when they are listed. */
struct item {
    struct tensor_out out;
    uint64_t    bytes;
    int         file;
    bool        stale;
    struct fill fill;
    uint8_t    *made;                   /* NULL: by `fill` */
};

struct writer {
    const struct model_config *c;
    const char  *dir;
    struct item **items;
    int          n_items, cap;
    char         names[N_FILES][MAX_FILE_NAME];
    uint64_t     seed;
    bool         in_extra;
};

/* ---- which tensors there are */

static struct item *add(struct writer *w, enum dtype type, const char *name, int n_dims, int a, int b, int c)
{
    w->items = memory_grow(w->items, w->n_items, &w->cap, sizeof *w->items);
    struct item *t = memory_zeroed(1, sizeof *t);
    t->out = (struct tensor_out){
        .name = memory_strdup(name), .dtype = type, .n_dims = n_dims, .shape = {(uint64_t)a, (uint64_t)b, (uint64_t)c}, .source = t,
    };
    t->file = w->in_extra ? EXTRA : 0;
    t->bytes = tensor_out_bytes(&t->out);
    w->items[w->n_items++] = t;
    t->fill.key = random_key(w->seed, (uint64_t)w->n_items);
    return t;
}

static void add_filled(struct writer *w, const char *name, enum dtype type, int rows, int cols, enum fill_kind kind, float centre, float width)
{
    struct item *t = add(w, type, name, 2, rows, cols, 1);
    t->fill.kind = kind;
    t->fill.centre = centre;
    t->fill.width = width;
}

static void add_int4(struct writer *w, const char *stem, int rows, int cols, float rms)
{
    char name[256];
    snprintf(name, sizeof name, "%s.qweight", stem);
    add_filled(w, name, DT_I32, cols / 8, rows, FILL_BITS, 0, 0);
    snprintf(name, sizeof name, "%s.qzeros", stem);
    struct item *zeros = add(w, DT_I32, name, 2, cols / 128, rows / 8, 1);
    zeros->fill = (struct fill){.kind = FILL_SAME, .key = 0x7777777777777777};
    snprintf(name, sizeof name, "%s.scales", stem);
    add_filled(w, name, DT_F16, cols / 128, rows, FILL_F16, rms / FILL_INT4_RMS, rms / FILL_INT4_RMS / 4);
}

static void add_fp8(struct writer *w, const char *stem, int rows, int cols, float rms)
{
    char name[256];
    snprintf(name, sizeof name, "%s.weight", stem);
    add_filled(w, name, DT_F8_E4M3, rows, cols, FILL_FP8, 0, 0);
    snprintf(name, sizeof name, "%s.weight_scale_inv", stem);
    add_filled(w, name, DT_BF16, (rows + 127) / 128, (cols + 127) / 128, FILL_BF16, rms / FILL_FP8_RMS, rms / FILL_FP8_RMS / 4);
}

static void add_dense(struct writer *w, const char *stem, int rows, int cols, float rms)
{
    char name[256];
    snprintf(name, sizeof name, "%s.weight", stem);
    add_filled(w, name, DT_BF16, rows, cols, FILL_BF16, 0, rms * RANDOM_WIDTH);
}

__attribute__((format(printf, 5, 6)))
static void add_matrix(struct writer *w, enum weight_format f, int rows, int cols, const char *stem, ...)
{
    char name[200];
    va_list ap;
    va_start(ap, stem);
    vsnprintf(name, sizeof name, stem, ap);
    va_end(ap);
    float rms = 1 / sqrtf((float)cols);
    if (f == WEIGHT_INT4 && rows % 8 == 0)
        add_int4(w, name, rows, cols, rms);
    else if (f == WEIGHT_FP8)
        add_fp8(w, name, rows, cols, rms);
    else
        add_dense(w, name, rows, cols, rms);
}

static void add_vector(struct writer *w, enum dtype type, enum random_vector kind, int n_dims, int a, int b, int c, const char *prefix,
                       const char *name)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    struct item *t = add(w, type, full, n_dims, a, b, c);
    size_t n = t->bytes / dtype_bytes(type);
    float *x = memory_alloc(n * sizeof *x);
    t->made = memory_alloc(t->bytes);
    random_floats(x, kind, n, t->fill.key);
    for (size_t i = 0; i < n; i++)
        if (type == DT_F32)
            ((float *)t->made)[i] = x[i];
        else
            ((uint16_t *)t->made)[i] = f32_bf16(x[i]);
    free(x);
}

static void add_norm(struct writer *w, const char *prefix, const char *name, int n)
{
    add_vector(w, DT_BF16, RANDOM_NORM, 1, n, 1, 1, prefix, name);
}

static void add_expert(struct writer *w, enum weight_format f, const char *stem, int inter)
{
    add_matrix(w, f, inter, w->c->hidden, "%sgate_proj", stem);
    add_matrix(w, f, inter, w->c->hidden, "%sup_proj", stem);
    add_matrix(w, f, w->c->hidden, inter, "%sdown_proj", stem);
}

static void add_moe(struct writer *w, const char *prefix, enum weight_format routed, enum weight_format shared, int n_experts)
{
    const struct model_config *c = w->c;
    char stem[128];
    snprintf(stem, sizeof stem, "%smlp.gate", prefix);
    add_dense(w, stem, c->n_experts, c->hidden, RANDOM_ROUTER / sqrtf((float)c->hidden));
    add_matrix(w, WEIGHT_DENSE, 1, c->hidden, "%smlp.shared_expert_gate", prefix);
    snprintf(stem, sizeof stem, "%smlp.shared_expert.", prefix);
    add_expert(w, shared, stem, c->shared_inter);
    for (int i = 0; i < n_experts; i++) {
        snprintf(stem, sizeof stem, "%smlp.experts.%d.", prefix, i);
        add_expert(w, routed, stem, c->moe_inter);
    }
}

static void add_layer(struct writer *w, const char *prefix, bool full, enum weight_format f, enum weight_format shared, int n_experts)
{
    const struct model_config *c = w->c;
    int H = c->hidden, query = c->n_q_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim, value = config_lin_value_dim(c);
    add_norm(w, prefix, "input_layernorm.weight", H);
    add_norm(w, prefix, "post_attention_layernorm.weight", H);
    if (full) {
        add_matrix(w, f, 2 * query, H, "%sself_attn.q_proj", prefix);
        add_matrix(w, f, kv, H, "%sself_attn.k_proj", prefix);
        add_matrix(w, f, kv, H, "%sself_attn.v_proj", prefix);
        add_matrix(w, f, H, query, "%sself_attn.o_proj", prefix);
        add_norm(w, prefix, "self_attn.q_norm.weight", c->head_dim);
        add_norm(w, prefix, "self_attn.k_norm.weight", c->head_dim);
    } else {
        add_matrix(w, f, config_conv_dim(c), H, "%slinear_attn.in_proj_qkv", prefix);
        add_matrix(w, f, value, H, "%slinear_attn.in_proj_z", prefix);
        add_matrix(w, f, c->lin_v_heads, H, "%slinear_attn.in_proj_a", prefix);
        add_matrix(w, f, c->lin_v_heads, H, "%slinear_attn.in_proj_b", prefix);
        add_matrix(w, f, H, value, "%slinear_attn.out_proj", prefix);
        add_vector(w, DT_BF16, RANDOM_CONV, 3, config_conv_dim(c), 1, c->conv_kernel, prefix, "linear_attn.conv1d.weight");
        add_vector(w, DT_F32, RANDOM_A_LOG, 1, c->lin_v_heads, 1, 1, prefix, "linear_attn.A_log");
        add_vector(w, DT_BF16, RANDOM_DT_BIAS, 1, c->lin_v_heads, 1, 1, prefix, "linear_attn.dt_bias");
        add_vector(w, DT_F32, RANDOM_GATED_NORM, 1, c->lin_v_dim, 1, 1, prefix, "linear_attn.norm.weight");
    }
    add_moe(w, prefix, f, shared, n_experts);
}

/* Each tensor goes to the shard in whose share of the bytes its middle lies. */
static void place(struct writer *w, int first, int end)
{
    uint64_t total = 0, at = 0;
    for (int i = first; i < end; i++)
        total += w->items[i]->bytes;
    for (int i = first; i < end; at += w->items[i++]->bytes)
        w->items[i]->file = (int)((at + w->items[i]->bytes / 2) * N_SHARDS / total);
}

/* An old copy of a layer in the shard before, as the tools leave it behind: shared expert not yet FP8, numbers that would do harm. */
static void add_stale(struct writer *w, int layer, int file)
{
    char prefix[64];
    int first = w->n_items;
    snprintf(prefix, sizeof prefix, PREFIX "layers.%d.", layer);
    add_layer(w, prefix, w->c->full[layer], WEIGHT_INT4, WEIGHT_DENSE, N_STALE_EXPERTS < w->c->n_experts ? N_STALE_EXPERTS : w->c->n_experts);
    for (int i = first; i < w->n_items; i++) {
        struct item *t = w->items[i];
        free(t->made);
        t->made = NULL;
        t->fill = (struct fill){.kind = FILL_SAME};
        t->file = file;
        t->stale = true;
    }
}

static void list(struct writer *w)
{
    const struct model_config *c = w->c;
    char prefix[64];
    int layer_at[MODEL_MAX_LAYERS];
    add_matrix(w, WEIGHT_DENSE, 576, 1152, "model.visual.pos_embed");
    add_norm(w, "model.visual.", "blocks.0.norm1.weight", 1152);
    add_norm(w, "model.visual.", "merger.norm.weight", 1152);
    add_filled(w, PREFIX "embed_tokens.weight", DT_BF16, c->vocab, c->hidden, FILL_BF16, 0, RANDOM_WIDTH);
    for (int i = 0; i < c->n_layers; i++) {
        layer_at[i] = w->n_items;
        snprintf(prefix, sizeof prefix, PREFIX "layers.%d.", i);
        add_layer(w, prefix, c->full[i], WEIGHT_INT4, WEIGHT_FP8, c->n_experts);
    }
    add_norm(w, PREFIX, "norm.weight", c->hidden);
    add_dense(w, "lm_head", c->vocab, c->hidden, RANDOM_HEAD / sqrtf((float)c->hidden));
    place(w, 0, w->n_items);
    for (int i = c->n_layers / 2; i < c->n_layers && i <= c->n_layers / 2 + 1; i++) {
        int file = w->items[layer_at[i]]->file;
        if (file > 0)
            add_stale(w, i, file - 1);
    }
    w->in_extra = true;
    add_matrix(w, WEIGHT_DENSE, c->hidden, 2 * c->hidden, "mtp.fc");
    add_norm(w, "mtp.", "pre_fc_norm_embedding.weight", c->hidden);
    add_norm(w, "mtp.", "pre_fc_norm_hidden.weight", c->hidden);
    add_norm(w, "mtp.", "norm.weight", c->hidden);
    add_layer(w, "mtp.layers.0.", true, WEIGHT_DENSE, WEIGHT_DENSE, c->n_experts);
}

/* ---- files */

static bool fault(struct writer *w, const char *name, struct err *e)
{
    return err_set(e, "cannot write %s/%s: %s", w->dir, name, strerror(errno));
}

static bool write_text(struct writer *w, const char *name, const struct buf *text, struct err *e)
{
    struct buf path = {0};
    buf_addf(&path, "%s/%s", w->dir, name);
    FILE *f = fopen(buf_str(&path), "wbe");
    buf_free(&path);
    if (!f)
        return fault(w, name, e);
    bool ok = fwrite(buf_str(text), 1, text->len, f) == text->len;
    return (!fclose(f) && ok) || fault(w, name, e);
}

static bool write_index(struct writer *w, struct err *e)
{
    struct buf out = {0};
    const char *comma = "";
    uint64_t total = 0;
    for (int i = 0; i < w->n_items; i++)
        total += w->items[i]->stale ? 0 : w->items[i]->bytes;
    buf_addf(&out, "{\"metadata\":{\"total_size\":%llu},\"weight_map\":{\n", (unsigned long long)total);
    for (int i = 0; i < w->n_items; i++)
        if (!w->items[i]->stale) {
            buf_addf(&out, "%s\"%s\":\"%s\"", comma, w->items[i]->out.name, w->names[w->items[i]->file]);
            comma = ",\n";
        }
    buf_adds(&out, "\n}}\n");
    bool ok = write_text(w, "model.safetensors.index.json", &out, e);
    buf_free(&out);
    return ok;
}

/* ---- bytes */

static bool make_bytes(const struct tensor_out *out, uint64_t at, uint64_t n, uint8_t *dst, struct err *e)
{
    const struct item *t = out->source;
    struct fill f = t->fill;
    (void)e;
    if (t->made) {
        memcpy(dst, t->made + at, n);
        return true;
    }
    while (n) {
        uint64_t word = fill_word(&f, at / 8), skip = at % 8, k = 8 - skip < n ? 8 - skip : n;
        memcpy(dst, (const uint8_t *)&word + skip, k);
        at += k;
        dst += k;
        n -= k;
        for (; n >= 8; n -= 8, at += 8, dst += 8) {     /* now on a multiple of 8 */
            word = fill_word(&f, at / 8);
            memcpy(dst, &word, 8);
        }
    }
    return true;
}

static bool write_tensors(struct writer *w, int n_threads, size_t *bytes, struct err *e)
{
    struct tensor_out **tensors = memory_alloc(((size_t)w->n_items + 1) * sizeof *tensors);
    struct file_out files[N_FILES] = {0};
    char *paths[N_FILES];
    int n = 0;
    for (int i = 0; i < N_FILES; i++) {
        CHECK(asprintf(&paths[i], "%s/%s", w->dir, w->names[i]) > 0);
        files[i] = (struct file_out){.path = paths[i], .tensors = tensors + n};
        for (int k = 0; k < w->n_items; k++)
            if (w->items[k]->file == i)
                tensors[n++] = &w->items[k]->out;
        files[i].n_tensors = (int)(tensors + n - files[i].tensors);
    }
    bool ok = safetensors_write(files, N_FILES, &(struct write_options){.n_threads = n_threads, .make = make_bytes}, e);
    *bytes = 0;
    for (int i = 0; i < N_FILES; i++) {
        *bytes += files[i].bytes;
        free(paths[i]);
    }
    free(tensors);
    return ok;
}

static bool write_configs(struct writer *w, const struct buf *config, struct err *e)
{
    struct buf generation = {0};
    buf_adds(&generation, "{\"do_sample\": true, \"eos_token_id\": [248046, 248044], \"pad_token_id\": 248044, \"temperature\": 0.6, "
                          "\"top_k\": 20, \"top_p\": 0.95}\n");
    bool ok = write_text(w, "config.json", config, e) && write_text(w, "generation_config.json", &generation, e);
    buf_free(&generation);
    return ok;
}

bool synthetic_write_config(const struct buf *config, const char *name, const char *dir, uint64_t seed, int n_threads, size_t *bytes, struct err *e)
{
    struct model_config c;
    struct writer w = {.c = &c, .dir = dir, .seed = random_key(seed, 0)};
    size_t written = 0;
    bool ok = config_parse(&c, buf_str(config), config->len, name, e);
    if (ok && mkdir(dir, 0755) && errno != EEXIST)
        ok = err_set(e, "cannot make %s: %s", dir, strerror(errno));
    if (ok)
        list(&w);
    for (int i = 0; i < N_SHARDS; i++)
        snprintf(w.names[i], sizeof w.names[i], "model-%05d-of-%05d.safetensors", i + 1, N_SHARDS);
    snprintf(w.names[EXTRA], sizeof w.names[EXTRA], "model_extra_tensors.safetensors");
    ok = ok && write_configs(&w, config, e) && write_index(&w, e) && write_tensors(&w, n_threads, &written, e);
    if (bytes)
        *bytes = written;
    for (int i = 0; i < w.n_items; i++) {
        free((char *)(uintptr_t)w.items[i]->out.name);
        free(w.items[i]->made);
        free(w.items[i]);
    }
    free(w.items);
    return ok;
}

bool synthetic_write(const char *name, int n_layers, const char *dir, uint64_t seed, int n_threads, size_t *bytes, struct err *e)
{
    struct buf config = {0};
    bool ok = synthetic_config_json(&config, name, n_layers, e) && synthetic_write_config(&config, name, dir, seed, n_threads, bytes, e);
    buf_free(&config);
    return ok;
}

int measure_write(const struct measure_options *o)
{
    struct err e = {0};
    size_t bytes;
    int64_t start = clock_ns();
    if (!synthetic_write(o->b.synthetic, o->b.n_layers, o->write_dir, (uint64_t)o->b.seed, o->b.n_threads, &bytes, &e)) {
        err_warn("%s", e.msg);
        return 1;
    }
    double ms = clock_ms_since(start);
    printf("%s: %.2f GB in %.1f s, %.2f GB/s\n", o->write_dir, (double)bytes * 1e-9, ms * 1e-3, (double)bytes / ms * 1e-6);
    return 0;
}
