/* Writes small checkpoints of every layout for tests: a list of tensors that a test may change before it is written.
 * Names and shapes are written out again here on purpose, independently of src/model. */
#pragma once

#include <dirent.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "model/config.h"

enum ck_layout { CK_BF16, CK_F32, CK_F16, CK_FP8, CK_INT4, CK_HYBRID };
enum { CK_EXTRA = -1, CK_SINGLE = -2 };                 /* files with special names; others are 1..n_files */
enum ck_fill { CK_FILL_VALUES, CK_FILL_ZERO, CK_FILL_GROUPS };      /* GROUPS: element k is k / 128 */

struct ck_tensor {
    char         name[160];
    char         dtype[16];
    uint64_t     shape[4];
    int          n_dims, file;
    bool         unlisted;              /* not in the index */
    enum ck_fill fill;
};

struct ck {
    char              dir[64];
    struct ck_tensor *t;
    int               n, cap, n_files;
    bool              index, sparse, odd_header;
    char              config_extra[256];        /* goes into config.json: ", \"key\": value" */
};

static inline size_t ck_element(const char *dtype)
{
    return strstr(dtype, "64") ? 8 : strstr(dtype, "32") ? 4 : strstr(dtype, "16") ? 2 : 1;
}

static inline uint64_t ck_bytes(const struct ck_tensor *t)
{
    uint64_t n = ck_element(t->dtype);
    for (int i = 0; i < t->n_dims; i++)
        n *= t->shape[i];
    return n;
}

static inline struct ck_tensor *ck_find(struct ck *k, const char *name)
{
    for (int i = 0; i < k->n; i++)
        if (!strcmp(k->t[i].name, name))
            return &k->t[i];
    CHECK(!"the test's checkpoint has that tensor");
    return NULL;
}

static inline void ck_drop(struct ck *k, const char *name)
{
    struct ck_tensor *t = ck_find(k, name);
    memmove(t, t + 1, (size_t)(k->t + k->n - t - 1) * sizeof *t);
    k->n--;
}

/* The list of sizes ends with 0. */
static inline struct ck_tensor *ck_add(struct ck *k, int file, const char *dtype, const char *prefix, const char *name, const char *suffix, ...)
{
    struct ck_tensor t = {.file = file};
    snprintf(t.name, sizeof t.name, "%s%s%s", prefix, name, suffix);
    snprintf(t.dtype, sizeof t.dtype, "%s", dtype);
    va_list ap;
    va_start(ap, suffix);
    for (int d; (d = va_arg(ap, int)); )
        t.shape[t.n_dims++] = (uint64_t)d;
    va_end(ap);
    if (k->n == k->cap) {
        k->cap = k->cap ? k->cap * 2 : 256;
        k->t = realloc(k->t, (size_t)k->cap * sizeof *k->t);
        CHECK(k->t);
    }
    k->t[k->n] = t;
    return &k->t[k->n++];
}

static inline void ck_matrix(struct ck *k, int file, enum ck_layout as, const char *prefix, const char *name, int rows, int cols)
{
    if (as == CK_INT4) {
        ck_add(k, file, "I32", prefix, name, ".qweight", cols / 8, rows, 0);
        ck_add(k, file, "I32", prefix, name, ".qzeros", cols / 128, rows / 8, 0);
        ck_add(k, file, "F16", prefix, name, ".scales", cols / 128, rows, 0);
    } else if (as == CK_FP8) {
        ck_add(k, file, "F8_E4M3", prefix, name, ".weight", rows, cols, 0);
        ck_add(k, file, "BF16", prefix, name, ".weight_scale_inv", (rows + 127) / 128, (cols + 127) / 128, 0);
    } else
        ck_add(k, file, as == CK_F32 ? "F32" : as == CK_F16 ? "F16" : "BF16", prefix, name, ".weight", rows, cols, 0);
}

static inline void ck_moe(struct ck *k, int file, const struct model_config *c, enum ck_layout l, const char *p, bool fused)
{
    enum ck_layout linear = l == CK_HYBRID ? CK_INT4 : l, shared = l == CK_HYBRID ? CK_FP8 : l == CK_INT4 ? CK_BF16 : l;
    enum ck_layout dense = l == CK_F32 || l == CK_F16 ? l : CK_BF16;
    const char *type = dense == CK_F32 ? "F32" : dense == CK_F16 ? "F16" : "BF16";
    int h = c->hidden, i = c->moe_inter, s = c->shared_inter;
    ck_matrix(k, file, dense, p, "mlp.gate", c->n_experts, h);
    ck_matrix(k, file, dense, p, "mlp.shared_expert_gate", 1, h);
    ck_matrix(k, file, shared, p, "mlp.shared_expert.gate_proj", s, h);
    ck_matrix(k, file, shared, p, "mlp.shared_expert.up_proj", s, h);
    ck_matrix(k, file, shared, p, "mlp.shared_expert.down_proj", h, s);
    if (fused) {
        ck_add(k, file, type, p, "mlp.experts.gate_up_proj", "", c->n_experts, 2 * i, h, 0);
        ck_add(k, file, type, p, "mlp.experts.down_proj", "", c->n_experts, h, i, 0);
        return;
    }
    for (int e = 0; e < c->n_experts; e++) {
        char q[128];
        snprintf(q, sizeof q, "%smlp.experts.%d.", p, e);
        ck_matrix(k, file, linear, q, "gate_proj", i, h);
        ck_matrix(k, file, linear, q, "up_proj", i, h);
        ck_matrix(k, file, linear, q, "down_proj", h, i);
    }
}

static inline void ck_layer(struct ck *k, int file, const struct model_config *c, enum ck_layout l, const char *p, bool full, bool fused)
{
    enum ck_layout linear = l == CK_HYBRID ? CK_INT4 : l;
    const char *type = l == CK_F32 ? "F32" : l == CK_F16 ? "F16" : "BF16";
    int h = c->hidden, v = c->lin_v_heads * c->lin_v_dim, q = c->n_q_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    ck_add(k, file, type, p, "input_layernorm", ".weight", h, 0);
    ck_add(k, file, type, p, "post_attention_layernorm", ".weight", h, 0);
    if (full) {
        ck_matrix(k, file, linear, p, "self_attn.q_proj", 2 * q, h);
        ck_matrix(k, file, linear, p, "self_attn.k_proj", kv, h);
        ck_matrix(k, file, linear, p, "self_attn.v_proj", kv, h);
        ck_matrix(k, file, linear, p, "self_attn.o_proj", h, q);
        ck_add(k, file, type, p, "self_attn.q_norm", ".weight", c->head_dim, 0);
        ck_add(k, file, type, p, "self_attn.k_norm", ".weight", c->head_dim, 0);
    } else {
        int conv = 2 * c->lin_k_heads * c->lin_k_dim + v;
        enum ck_layout ab = l == CK_FP8 ? CK_BF16 : linear;
        ck_matrix(k, file, linear, p, "linear_attn.in_proj_qkv", conv, h);
        ck_matrix(k, file, linear, p, "linear_attn.in_proj_z", v, h);
        ck_matrix(k, file, ab, p, "linear_attn.in_proj_a", c->lin_v_heads, h);
        ck_matrix(k, file, ab, p, "linear_attn.in_proj_b", c->lin_v_heads, h);
        ck_matrix(k, file, linear, p, "linear_attn.out_proj", h, v);
        ck_add(k, file, type, p, "linear_attn.conv1d", ".weight", conv, 1, c->conv_kernel, 0);
        ck_add(k, file, "F32", p, "linear_attn.A_log", "", c->lin_v_heads, 0);
        ck_add(k, file, type, p, "linear_attn.dt_bias", "", c->lin_v_heads, 0);
        ck_add(k, file, "F32", p, "linear_attn.norm", ".weight", c->lin_v_dim, 0);
    }
    ck_moe(k, file, c, l, p, fused);
}

/* A whole model over n_files files; the MTP block, if any, in mtp_file. */
static inline void ck_model(struct ck *k, const struct model_config *c, enum ck_layout l, const char *prefix, int n_files, int mtp_file)
{
    enum ck_layout dense = l == CK_F32 || l == CK_F16 ? l : CK_BF16;
    bool fused = l == CK_BF16 || l == CK_F32 || l == CK_F16;
    const char *type = dense == CK_F32 ? "F32" : dense == CK_F16 ? "F16" : "BF16";
    int first = mtp_file == CK_SINGLE ? CK_SINGLE : 1;
    char p[128];
    *k = (struct ck){.n_files = n_files, .index = true};
    ck_matrix(k, first, dense, prefix, "embed_tokens", c->vocab, c->hidden);
    ck_matrix(k, first, dense, "", "lm_head", c->vocab, c->hidden);
    ck_add(k, first, type, prefix, "norm", ".weight", c->hidden, 0);
    for (int i = 0; i < c->n_layers; i++) {
        snprintf(p, sizeof p, "%slayers.%d.", prefix, i);
        ck_layer(k, first == 1 ? 1 + i * n_files / c->n_layers : first, c, l, p, c->full[i], fused);
    }
    if (!c->n_mtp)
        return;
    ck_matrix(k, mtp_file, dense, "mtp.", "fc", c->hidden, 2 * c->hidden);
    ck_add(k, mtp_file, type, "mtp.", "pre_fc_norm_embedding", ".weight", c->hidden, 0);
    ck_add(k, mtp_file, type, "mtp.", "pre_fc_norm_hidden", ".weight", c->hidden, 0);
    ck_add(k, mtp_file, type, "mtp.", "norm", ".weight", c->hidden, 0);
    ck_layer(k, mtp_file, c, l == CK_INT4 || l == CK_HYBRID ? CK_BF16 : l, "mtp.layers.0.", true, fused);
}

static inline void ck_file_name(const struct ck *k, int file, char *out, size_t size)
{
    if (file == CK_EXTRA || file == CK_SINGLE)
        snprintf(out, size, "%s", file == CK_EXTRA ? "model_extra_tensors.safetensors" : "model.safetensors");
    else
        snprintf(out, size, "model-%05d-of-%05d.safetensors", file, k->n_files);
}

/* Numbers that every float type represents exactly; other types get mixed bytes. */
static inline double ck_value(uint64_t i) { return (double)((int)(i * 7 % 33) - 16) / 8; }

static inline void ck_element_at(const struct ck_tensor *t, uint64_t i, uint8_t out[8])
{
    float f = (float)ck_value(i);
    uint32_t u = (uint32_t)(i * 2654435761u) >> 3;
    memset(out, 0, 8);
    if (t->fill == CK_FILL_ZERO)
        return;
    if (t->fill == CK_FILL_GROUPS)
        u = (uint32_t)(i / 128);
    if (!strcmp(t->dtype, "F32") || !strcmp(t->dtype, "BF16"))
        memcpy(&u, &f, 4);
    if (!strcmp(t->dtype, "BF16"))
        u >>= 16;
    if (!strcmp(t->dtype, "F16")) {
        uint32_t b;
        memcpy(&b, &f, 4);
        u = f ? (b >> 16 & 0x8000) | (((b >> 23 & 255) - 112) << 10) | (b >> 13 & 1023) : 0;
    }
    if (!strcmp(t->dtype, "F8_E4M3"))
        u = i % 120;
    memcpy(out, &u, 4);
}

static inline void ck_write_file(const struct ck *k, int file)
{
    char name[64], path[160];
    struct buf json = {0};
    uint64_t at = 0;
    ck_file_name(k, file, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", k->dir, name);
    buf_adds(&json, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int i = 0; i < k->n; i++) {
        const struct ck_tensor *t = &k->t[i];
        if (t->file != file)
            continue;
        buf_addf(&json, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, t->dtype);
        for (int d = 0; d < t->n_dims; d++)
            buf_addf(&json, "%s%llu", d ? "," : "", (unsigned long long)t->shape[d]);
        buf_addf(&json, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)(at + ck_bytes(t)));
        at += ck_bytes(t);
    }
    buf_adds(&json, "}");
    while (json.len % 8 != (k->odd_header ? 1 : 0))
        buf_addc(&json, ' ');
    FILE *f = fopen(path, "wb");
    CHECK(f);
    uint64_t len = json.len;            /* little-endian machines only, as the program itself */
    fwrite(&len, 8, 1, f);
    fwrite(json.data, 1, json.len, f);
    for (int i = 0; i < k->n && !k->sparse; i++) {
        const struct ck_tensor *t = &k->t[i];
        size_t size = ck_element(t->dtype);
        for (uint64_t j = 0; t->file == file && j < ck_bytes(t) / size; j++) {
            uint8_t raw[8];
            ck_element_at(t, j, raw);
            fwrite(raw, 1, size, f);
        }
    }
    fflush(f);
    CHECK(!ftruncate(fileno(f), (off_t)(8 + json.len + at)));
    fclose(f);
    buf_free(&json);
}

static inline void ck_text(const struct ck *k, const char *name, const char *text, size_t len)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", k->dir, name);
    FILE *f = fopen(path, "wb");
    CHECK(f);
    fwrite(text, 1, len, f);
    fclose(f);
}

static inline void ck_write_index(const struct ck *k)
{
    struct buf json = {0};
    const char *comma = "";
    buf_adds(&json, "{\"metadata\": {}, \"weight_map\": {");
    for (int i = 0; i < k->n; i++) {
        char name[64];
        if (k->t[i].unlisted)
            continue;
        ck_file_name(k, k->t[i].file, name, sizeof name);
        buf_addf(&json, "%s\n\"%s\": \"%s\"", comma, k->t[i].name, name);
        comma = ",";
    }
    buf_adds(&json, "}}");
    ck_text(k, "model.safetensors.index.json", buf_str(&json), json.len);
    buf_free(&json);
}

static inline void ck_write_config(const struct ck *k, const struct model_config *c)
{
    struct buf json = {0};
    buf_addf(&json, "{\"model_type\": \"qwen3_5_moe\", \"hidden_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": %d,"
             " \"num_key_value_heads\": %d, \"head_dim\": %d, \"linear_num_key_heads\": %d, \"linear_num_value_heads\": %d,"
             " \"linear_key_head_dim\": %d, \"linear_value_head_dim\": %d, \"linear_conv_kernel_dim\": %d, \"num_experts\": %d,"
             " \"num_experts_per_tok\": %d, \"moe_intermediate_size\": %d, \"shared_expert_intermediate_size\": %d,"
             " \"vocab_size\": %d, \"mtp_num_hidden_layers\": %d",
             c->hidden, c->n_layers, c->n_q_heads, c->n_kv_heads, c->head_dim, c->lin_k_heads, c->lin_v_heads, c->lin_k_dim, c->lin_v_dim,
             c->conv_kernel, c->n_experts, c->top_k, c->moe_inter, c->shared_inter, c->vocab, c->n_mtp);
    buf_adds(&json, ", \"layer_types\": [");
    for (int i = 0; i < c->n_layers; i++)
        buf_addf(&json, "%s\"%s_attention\"", i ? ", " : "", c->full[i] ? "full" : "linear");
    buf_addf(&json, "]%s}", k->config_extra);
    ck_text(k, "config.json", buf_str(&json), json.len);
    buf_free(&json);
}

/* Writes everything below a new directory k->dir. */
static inline void ck_write(struct ck *k, const struct model_config *c)
{
    snprintf(k->dir, sizeof k->dir, "/tmp/q35chat-test-XXXXXX");
    CHECK(mkdtemp(k->dir));
    int files[64], n = 0;
    for (int i = 0; i < k->n; i++) {
        int seen = 0;
        for (int j = 0; j < n; j++)
            seen |= files[j] == k->t[i].file;
        if (!seen)
            files[n++] = k->t[i].file;
    }
    for (int i = 0; i < n; i++)
        ck_write_file(k, files[i]);
    if (k->index)
        ck_write_index(k);
    ck_write_config(k, c);
}

static inline void ck_remove_dir(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(dir);
}

static inline void ck_close(struct ck *k)
{
    if (k->dir[0])
        ck_remove_dir(k->dir);
    free(k->t);
    *k = (struct ck){0};
}

/* hidden 128, one DeltaNet and one attention layer, two experts of width 128; every linear fits INT4. */
static inline struct model_config ck_tiny(void)
{
    return (struct model_config){
        .hidden = 128, .n_layers = 2, .full = {false, true}, .n_full = 1, .n_delta = 1, .n_q_heads = 2, .n_kv_heads = 1, .head_dim = 64,
        .lin_k_heads = 1, .lin_v_heads = 8, .lin_k_dim = 64, .lin_v_dim = 32, .conv_kernel = 4, .n_experts = 2, .top_k = 1,
        .moe_inter = 128, .shared_inter = 256, .vocab = 32, .n_mtp = 1,
    };
}

/* The geometry of Qwen3.5-122B-A10B. */
static inline struct model_config ck_122b(void)
{
    struct model_config c = {
        .hidden = 3072, .n_layers = 48, .n_full = 12, .n_delta = 36, .n_q_heads = 32, .n_kv_heads = 2, .head_dim = 256,
        .lin_k_heads = 16, .lin_v_heads = 64, .lin_k_dim = 128, .lin_v_dim = 128, .conv_kernel = 4, .n_experts = 256, .top_k = 8,
        .moe_inter = 1024, .shared_inter = 1024, .vocab = 248320, .n_mtp = 1,
    };
    for (int i = 3; i < c.n_layers; i += 4)
        c.full[i] = true;
    return c;
}
