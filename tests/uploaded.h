/* Uploaded weights against the same checkpoint packed on the host, byte by byte. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "kernels/cpu/vec.h"
#include "kernels/pack.h"
#include "model/upload.h"

struct uploaded {
    struct dev *d;
    int  n_matrices, n_vectors;
    char wrong[600];                    /* the first difference */
};

static inline void uploaded_bytes(struct uploaded *u, const char *what, int layer, const void *device, const void *want, size_t n)
{
    unsigned char *got = malloc(n + 1);
    struct err e = {0};
    CHECK(got);
    u->d->copy(u->d, got, device, n);
    if (!u->d->finish(u->d, &e))
        snprintf(u->wrong, sizeof u->wrong, "%s", e.msg);
    for (size_t i = 0; i < n && !u->wrong[0]; i++)
        if (got[i] != ((const unsigned char *)want)[i])
            snprintf(u->wrong, sizeof u->wrong, "%s of layer %d: byte %zu of %zu is %02x, expected %02x", what, layer, i, n, got[i],
                     ((const unsigned char *)want)[i]);
    free(got);
}

/* `up` NULL: a single matrix. */
static inline void uploaded_matrix(struct uploaded *u, const char *what, int layer, const struct weight *got, const struct weight *want,
                                   const struct weight *up)
{
    int rows = want->rows + (up ? up->rows : 0);
    size_t n = pack_bytes(want->format, rows, want->cols);
    void *packed = malloc(n);
    CHECK(packed);
    if (u->wrong[0])
        return;
    if (!(up ? pack_pair(want, up, packed) : pack_matrix(want, packed)))
        snprintf(u->wrong, sizeof u->wrong, "%s of layer %d cannot be packed", what, layer);
    else if (got->format != want->format || got->rows != rows || got->cols != want->cols
             || (const char *)got->scale != (const char *)got->data + pack_data_bytes(want->format, rows, want->cols))
        snprintf(u->wrong, sizeof u->wrong, "%s of layer %d is described as %d x %d", what, layer, got->rows, got->cols);
    else
        uploaded_bytes(u, what, layer, got->data, packed, n);
    u->n_matrices++;
    free(packed);
}

static inline void uploaded_vector(struct uploaded *u, const char *what, int layer, const float *got, const float *want, int n)
{
    if (!u->wrong[0])
        uploaded_bytes(u, what, layer, got, want, (size_t)n * sizeof *want);
    u->n_vectors++;
}

static inline void uploaded_layer(struct uploaded *u, const struct model_config *c, int i, const struct layer_weights *x,
                                  const struct layer_weights *y)
{
    uploaded_vector(u, "norm_in", i, x->norm_in, y->norm_in, c->hidden);
    uploaded_vector(u, "norm_post", i, x->norm_post, y->norm_post, c->hidden);
    if (y->full) {
        uploaded_vector(u, "q_norm", i, x->attn.q_norm, y->attn.q_norm, c->head_dim);
        uploaded_vector(u, "k_norm", i, x->attn.k_norm, y->attn.k_norm, c->head_dim);
        uploaded_matrix(u, "q", i, &x->attn.q, &y->attn.q, NULL);
        uploaded_matrix(u, "k", i, &x->attn.k, &y->attn.k, NULL);
        uploaded_matrix(u, "v", i, &x->attn.v, &y->attn.v, NULL);
        uploaded_matrix(u, "o", i, &x->attn.o, &y->attn.o, NULL);
    } else {
        uploaded_vector(u, "conv", i, x->delta.conv, y->delta.conv, config_conv_dim(c) * c->conv_kernel);
        uploaded_vector(u, "A_log", i, x->delta.a_log, y->delta.a_log, c->lin_v_heads);
        uploaded_vector(u, "dt_bias", i, x->delta.dt_bias, y->delta.dt_bias, c->lin_v_heads);
        uploaded_vector(u, "norm", i, x->delta.norm, y->delta.norm, c->lin_v_dim);
        uploaded_matrix(u, "qkv", i, &x->delta.qkv, &y->delta.qkv, NULL);
        uploaded_matrix(u, "z", i, &x->delta.z, &y->delta.z, NULL);
        uploaded_matrix(u, "a", i, &x->delta.a, &y->delta.a, NULL);
        uploaded_matrix(u, "b", i, &x->delta.b, &y->delta.b, NULL);
        uploaded_matrix(u, "out", i, &x->delta.out, &y->delta.out, NULL);
    }
    uploaded_matrix(u, "router", i, &x->moe.router, &y->moe.router, NULL);
    uploaded_matrix(u, "shared gate", i, &x->moe.shared_gate, &y->moe.shared_gate, NULL);
    uploaded_matrix(u, "shared pair", i, &x->moe.shared.gate, &y->moe.shared.gate, &y->moe.shared.up);
    uploaded_matrix(u, "shared down", i, &x->moe.shared.down, &y->moe.shared.down, NULL);
    const struct expert_weights *a = x->moe.experts, *b = y->moe.experts;
    for (int k = 0; k < c->n_experts; k++) {
        ptrdiff_t n = c->n_experts > 1 ? k : 0;
        uploaded_matrix(u, "pair of an expert", i, &a[k].gate, &b[k].gate, &b[k].up);
        uploaded_matrix(u, "down of an expert", i, &a[k].down, &b[k].down, NULL);
        if (n && ((const char *)a[k].gate.data - (const char *)a[0].gate.data != n * ((const char *)a[1].gate.data - (const char *)a[0].gate.data)
                  || (const char *)a[k].down.scale - (const char *)a[0].down.scale != n
                  * ((const char *)a[1].down.scale - (const char *)a[0].down.scale)
                  || a[k].up.format != WEIGHT_NONE))
            snprintf(u->wrong, sizeof u->wrong, "expert %d of layer %d lies elsewhere", k, i);
    }
}

/* The tower's positions are stored in bf16. */
static inline void uploaded_vision(struct uploaded *u, const struct model_config *c, const struct vision_weights *x, const struct vision_weights *y)
{
    const struct vision_config *v = &c->vision;
    if (!u->wrong[0])
        uploaded_bytes(u, "positions", -3, x->positions.data, y->positions.data, (size_t)v->n_positions * (size_t)v->hidden * 2);
    uploaded_matrix(u, "patches", -3, &x->patch, &y->patch, NULL);
    uploaded_vector(u, "bias of patches", -3, x->patch_b, y->patch_b, v->hidden);
    uploaded_vector(u, "norm", -3, x->norm_w, y->norm_w, v->hidden);
    uploaded_vector(u, "bias of norm", -3, x->norm_b, y->norm_b, v->hidden);
    uploaded_vector(u, "bias of fc1", -3, x->fc1_b, y->fc1_b, 4 * v->hidden);
    uploaded_vector(u, "bias of fc2", -3, x->fc2_b, y->fc2_b, v->out);
    uploaded_matrix(u, "fc1", -3, &x->fc1, &y->fc1, NULL);
    uploaded_matrix(u, "fc2", -3, &x->fc2, &y->fc2, NULL);
    for (int i = 0; i < v->depth; i++) {
        const struct vision_block_weights *a = &x->blocks[i], *b = &y->blocks[i];
        uploaded_vector(u, "norm1", i, a->norm1_w, b->norm1_w, v->hidden);
        uploaded_vector(u, "bias of norm1", i, a->norm1_b, b->norm1_b, v->hidden);
        uploaded_vector(u, "norm2", i, a->norm2_w, b->norm2_w, v->hidden);
        uploaded_vector(u, "bias of norm2", i, a->norm2_b, b->norm2_b, v->hidden);
        uploaded_vector(u, "bias of qkv", i, a->qkv_b, b->qkv_b, 3 * v->hidden);
        uploaded_vector(u, "bias of proj", i, a->proj_b, b->proj_b, v->hidden);
        uploaded_vector(u, "bias of a block's fc1", i, a->fc1_b, b->fc1_b, v->inter);
        uploaded_vector(u, "bias of a block's fc2", i, a->fc2_b, b->fc2_b, v->hidden);
        uploaded_matrix(u, "qkv of the tower", i, &a->qkv, &b->qkv, NULL);
        uploaded_matrix(u, "proj", i, &a->proj, &b->proj, NULL);
        uploaded_matrix(u, "a block's fc1", i, &a->fc1, &b->fc1, NULL);
        uploaded_matrix(u, "a block's fc2", i, &a->fc2, &b->fc2, NULL);
    }
}

/* `want` is open on the host with an INT8 head and one in two planes; `got` is uploaded with the given heads. */
static inline void uploaded_check(struct uploaded *u, const struct model_config *c, unsigned heads, const struct weights *got,
                                  const struct weights *want)
{
    size_t n = (size_t)want->embed.rows * (size_t)want->embed.cols;
    uint16_t *plain = malloc(n * 2);
    CHECK(plain);
    for (size_t i = 0; i < n; i++) {
        float f;
        floats_f32(&f, (const char *)want->embed.data + i * (want->embed.dtype == DT_F32 ? 4 : 2), want->embed.dtype, 1);
        plain[i] = f32_bf16(f);
    }
    uploaded_bytes(u, "embed", -1, got->embed.data, plain, n * 2);
    free(plain);
    if (got->embed.format != WEIGHT_DENSE || got->embed.dtype != DT_BF16 || got->embed.rows != want->embed.rows)
        snprintf(u->wrong, sizeof u->wrong, "embed is described wrongly");
    if ((got->head.format != WEIGHT_NONE) != ((heads & HEAD_BF16) != 0) || (got->head_int8.format != WEIGHT_NONE) != ((heads & HEAD_INT8) != 0)
        || (got->head_planes.format != WEIGHT_NONE) != ((heads & HEAD_PLANES) != 0))
        snprintf(u->wrong, sizeof u->wrong, "the heads are not those that were asked for");
    if (heads & HEAD_BF16)
        uploaded_matrix(u, "head", -1, &got->head, &want->head, NULL);
    if (heads & HEAD_INT8)
        uploaded_matrix(u, "INT8 head", -1, &got->head_int8, &want->head_int8, NULL);
    if (heads & HEAD_PLANES)
        uploaded_matrix(u, "head in two planes", -1, &got->head_planes, &want->head_planes, NULL);
    uploaded_vector(u, "norm", -1, got->norm, want->norm, c->hidden);
    for (int i = 0; i < c->n_layers; i++)
        uploaded_layer(u, c, i, &got->layers[i], &want->layers[i]);
    if (want->vision.present)
        uploaded_vision(u, c, &got->vision, &want->vision);
    if (!want->mtp.present)
        return;
    uploaded_vector(u, "norm_embedding", -2, got->mtp.norm_embedding, want->mtp.norm_embedding, c->hidden);
    uploaded_vector(u, "norm_hidden", -2, got->mtp.norm_hidden, want->mtp.norm_hidden, c->hidden);
    uploaded_vector(u, "norm", -2, got->mtp.norm, want->mtp.norm, c->hidden);
    uploaded_matrix(u, "fc", -2, &got->mtp.fc, &want->mtp.fc, NULL);
    uploaded_layer(u, c, c->n_layers, &got->mtp.layer, &want->mtp.layer);
}
