#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "kernels/number.h"
#include "kernels/pack_piece.h"
#include "model/safetensors.h"
#include "model/weights.h"
#include "tests/checkpoint.h"
#include "tests/emulated.h"

#define PREFIX "model.language_model."
#define L0 PREFIX "layers.0."
#define L1 PREFIX "layers.1."

static void must_open(struct weights *w, const struct ck *k)
{
    struct err e = {0};
    struct model_config c;
    if (!config_load(&c, k->dir, &e) || !weights_open(w, &c, k->dir, &e))
        fail_msg("%s", e.msg);
}

/* Written, opened, refused with a sentence that has all of the parts. */
static void must_refuse(struct ck *k, const struct model_config *c, const char *a, const char *b, const char *d)
{
    struct weights w;
    struct err e = {0};
    struct model_config read;
    if (!k->dir[0])
        ck_write(k, c);
    if (!config_load(&read, k->dir, &e))
        fail_msg("%s", e.msg);
    if (weights_open(&w, &read, k->dir, &e))
        fail_msg("accepted, expected: %s ... %s ... %s", a, b, d);
    if (!strstr(e.msg, a) || !strstr(e.msg, b) || !strstr(e.msg, d))
        fail_msg("\n  gives:    %s\n  expected: %s ... %s ... %s", e.msg, a, b, d);
    assert_null(w.store);
    weights_close(&w);
    ck_close(k);
}

static void check_matrix(const struct weight *w, enum weight_format f, int rows, int cols)
{
    assert_int_equal(w->format, f);
    assert_int_equal(w->rows, rows);
    assert_int_equal(w->cols, cols);
    assert_non_null(w->data);
    assert_int_equal(!w->scale, f == WEIGHT_DENSE);
    assert_int_equal(!w->zeros, f != WEIGHT_INT4);
}

static double stored(const struct weight *w, size_t i)
{
    if (w->dtype == DT_F32)
        return (double)((const float *)w->data)[i];
    uint16_t h = ((const uint16_t *)w->data)[i];
    return (double)(w->dtype == DT_BF16 ? bf16_f32(h) : f16_f32(h));
}

static void check_vector(const float *v, int n)
{
    assert_non_null(v);
    for (int i = 0; i < n; i++)
        assert_true((double)v[i] == ck_value((uint64_t)i));
}

static void check_vectors(const struct weights *w, const struct model_config *c)
{
    check_vector(w->norm, c->hidden);
    check_vector(w->layers[0].norm_in, c->hidden);
    check_vector(w->layers[1].norm_post, c->hidden);
    check_vector(w->layers[1].attn.q_norm, c->head_dim);
    check_vector(w->layers[1].attn.k_norm, c->head_dim);
    check_vector(w->layers[0].delta.conv, config_conv_dim(c) * c->conv_kernel);
    check_vector(w->layers[0].delta.a_log, c->lin_v_heads);
    check_vector(w->layers[0].delta.dt_bias, c->lin_v_heads);
    check_vector(w->layers[0].delta.norm, c->lin_v_dim);
    check_vector(w->mtp.norm, c->hidden);
    check_vector(w->mtp.norm_embedding, c->hidden);
    check_vector(w->mtp.norm_hidden, c->hidden);
}

static void test_weights__every_layout_binds_every_tensor(void **state)
{
    (void)state;
    const struct { enum ck_layout layout; enum weight_format linear, shared, ab, mtp; int mtp_file; } rows[] = {
        {CK_BF16,   WEIGHT_DENSE, WEIGHT_DENSE, WEIGHT_DENSE, WEIGHT_DENSE, 2},
        {CK_F32,    WEIGHT_DENSE, WEIGHT_DENSE, WEIGHT_DENSE, WEIGHT_DENSE, 2},
        {CK_F16,    WEIGHT_DENSE, WEIGHT_DENSE, WEIGHT_DENSE, WEIGHT_DENSE, 2},
        {CK_FP8,    WEIGHT_FP8,   WEIGHT_FP8,   WEIGHT_DENSE, WEIGHT_FP8,   1},
        {CK_INT4,   WEIGHT_INT4,  WEIGHT_DENSE, WEIGHT_INT4,  WEIGHT_DENSE, CK_EXTRA},
        {CK_HYBRID, WEIGHT_INT4,  WEIGHT_FP8,   WEIGHT_INT4,  WEIGHT_DENSE, CK_EXTRA},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_config c = ck_tiny();
        struct ck k;
        struct weights w;
        ck_model(&k, &c, rows[i].layout, PREFIX, 2, rows[i].mtp_file);
        ck_write(&k, &c);
        must_open(&w, &k);
        assert_int_equal(w.stats.n_tensors, k.n);
        assert_int_equal(w.stats.n_skipped, 0);
        assert_int_equal(w.stats.n_stale, 0);
        size_t bytes = 0;
        int n_mtp = 0;
        for (int t = 0; t < k.n; t++) {
            bytes += ck_bytes(&k.t[t]);
            n_mtp += !strncmp(k.t[t].name, "mtp.", 4);
        }
        assert_int_equal(w.stats.bytes, bytes);
        assert_int_equal(w.stats.n_mtp, n_mtp);
        assert_int_equal(w.stats.n_int4 + w.stats.n_fp8 + w.stats.n_dense, 2 + 5 + 4 + 2 * (5 + 6) + 1 + 4 + 5 + 6);

        const struct layer_weights *d = &w.layers[0], *f = &w.layers[1], *m = &w.mtp.layer;
        assert_false(d->full);
        assert_true(f->full && m->full && w.mtp.present);
        check_matrix(&w.embed, WEIGHT_DENSE, 32, 128);
        check_matrix(&w.head, WEIGHT_DENSE, 32, 128);
        check_matrix(&d->delta.qkv, rows[i].linear, 2 * 64 + 256, 128);
        check_matrix(&d->delta.z, rows[i].linear, 256, 128);
        check_matrix(&d->delta.a, rows[i].ab, 8, 128);
        check_matrix(&d->delta.b, rows[i].ab, 8, 128);
        check_matrix(&d->delta.out, rows[i].linear, 128, 256);
        check_matrix(&f->attn.q, rows[i].linear, 256, 128);
        check_matrix(&f->attn.k, rows[i].linear, 64, 128);
        check_matrix(&f->attn.v, rows[i].linear, 64, 128);
        check_matrix(&f->attn.o, rows[i].linear, 128, 128);
        check_matrix(&f->moe.router, WEIGHT_DENSE, 2, 128);
        check_matrix(&f->moe.shared_gate, WEIGHT_DENSE, 1, 128);
        check_matrix(&d->moe.shared.gate, rows[i].shared, 256, 128);
        check_matrix(&d->moe.shared.down, rows[i].shared, 128, 256);
        check_matrix(&f->moe.experts[1].up, rows[i].linear, 128, 128);
        check_matrix(&w.mtp.fc, WEIGHT_DENSE, 128, 256);
        check_matrix(&m->attn.q, rows[i].mtp, 256, 128);
        check_matrix(&m->moe.experts[1].down, rows[i].mtp, 128, 128);
        check_vectors(&w, &c);
        for (size_t j = 0; j < 32 * 128; j++)
            assert_true(stored(&w.embed, j) == ck_value(j));
        weights_close(&w);
        weights_close(&w);
        ck_close(&k);
    }
}

static void test_weights__fused_experts_become_views_with_gate_rows_first(void **state)
{
    (void)state;
    struct model_config c = ck_tiny();
    struct ck k;
    struct weights w;
    ck_model(&k, &c, CK_F32, PREFIX, 1, 1);
    ck_write(&k, &c);
    must_open(&w, &k);
    const size_t matrix = 128 * 128;
    for (size_t e = 0; e < 2; e++)
        for (size_t j = 0; j < matrix; j++) {
            const struct expert_weights *x = &w.layers[0].moe.experts[e];
            assert_true(stored(&x->gate, j) == ck_value(2 * e * matrix + j));
            assert_true(stored(&x->up, j) == ck_value((2 * e + 1) * matrix + j));
            assert_true(stored(&x->down, j) == ck_value(e * matrix + j));
        }
    weights_close(&w);
    ck_close(&k);
}

static void test_weights__int4_and_fp8_views_point_at_their_own_parts(void **state)
{
    (void)state;
    struct model_config c = ck_tiny();
    struct ck k;
    struct weights w;
    uint8_t raw[8];
    ck_model(&k, &c, CK_HYBRID, PREFIX, 2, CK_EXTRA);
    ck_write(&k, &c);
    must_open(&w, &k);
    const struct weight *q = &w.layers[1].attn.q, *s = &w.layers[0].moe.shared.down;
    const struct { const char *name; const void *at; } rows[] = {
        {L1 "self_attn.q_proj.qweight", q->data}, {L1 "self_attn.q_proj.qzeros", q->zeros}, {L1 "self_attn.q_proj.scales", q->scale},
        {L0 "mlp.shared_expert.down_proj.weight", s->data}, {L0 "mlp.shared_expert.down_proj.weight_scale_inv", s->scale},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct ck_tensor *t = ck_find(&k, rows[i].name);
        size_t size = ck_element(t->dtype);
        for (size_t j = 0; j < ck_bytes(t) / size; j++) {
            ck_element_at(t, j, raw);
            assert_memory_equal((const char *)rows[i].at + j * size, raw, size);
        }
    }
    assert_int_equal(s->scale_dtype, DT_BF16);
    assert_int_equal(weight_bytes(q), 256 * 128 / 2 + 256 * 2 + 256 / 2);
    weights_close(&w);
    ck_close(&k);
}

static void test_weights__scales_of_fp8_may_have_any_float_type(void **state)
{
    (void)state;
    const struct { const char *name; enum dtype dtype; } rows[] = {{"F32", DT_F32}, {"F16", DT_F16}, {"BF16", DT_BF16}};
    for (int i = 0; i < 3; i++) {
        struct model_config c = ck_tiny();
        struct ck k;
        struct weights w;
        ck_model(&k, &c, CK_FP8, PREFIX, 2, 2);
        strcpy(ck_find(&k, L1 "self_attn.o_proj.weight_scale_inv")->dtype, rows[i].name);
        ck_write(&k, &c);
        must_open(&w, &k);
        assert_int_equal(w.layers[1].attn.o.scale_dtype, rows[i].dtype);
        assert_int_equal(w.layers[1].attn.q.scale_dtype, DT_BF16);
        weights_close(&w);
        ck_close(&k);
    }
}

static void test_weights__misaligned_tensors_are_copied(void **state)
{
    (void)state;
    struct model_config c = ck_tiny();
    struct ck k;
    struct weights w;
    ck_model(&k, &c, CK_HYBRID, PREFIX, 2, CK_EXTRA);
    k.odd_header = true;
    ck_write(&k, &c);
    must_open(&w, &k);
    assert_int_equal((uintptr_t)w.embed.data % 2, 0);
    assert_int_equal((uintptr_t)w.layers[1].attn.q.data % 4, 0);
    assert_int_equal((uintptr_t)w.layers[1].attn.q.zeros % 4, 0);
    for (size_t j = 0; j < 32 * 128; j++)
        assert_true(stored(&w.embed, j) == ck_value(j));
    check_vectors(&w, &c);
    weights_close(&w);
    ck_close(&k);
}

/* Copies that the index does not name hold zeros here; the values must be those of the other file. */
static void test_weights__stale_duplicates_are_ignored_and_counted(void **state)
{
    (void)state;
    for (int index = 0; index < 2; index++) {
        struct model_config c = ck_tiny();
        struct ck k;
        struct weights w;
        ck_model(&k, &c, CK_BF16, PREFIX, 2, CK_EXTRA);
        struct ck_tensor *t = ck_add(&k, 1, "BF16", L1, "input_layernorm", ".weight", 128, 0);      /* layer 1 lies in file 2 */
        t->unlisted = true;
        t->fill = CK_FILL_ZERO;
        t = ck_add(&k, CK_EXTRA, "BF16", L0, "input_layernorm", ".weight", 128, 0);
        t->unlisted = true;
        t->fill = CK_FILL_ZERO;
        k.index = index;
        ck_write(&k, &c);
        must_open(&w, &k);
        assert_int_equal(w.stats.n_stale, 2);
        assert_int_equal(w.stats.n_tensors, k.n - 2);
        check_vectors(&w, &c);
        weights_close(&w);
        ck_close(&k);
    }
}

static void test_weights__mtp_tensors_that_the_index_lost_come_from_the_extra_file(void **state)
{
    (void)state;
    struct model_config c = ck_tiny();
    struct ck k;
    struct weights w;
    ck_model(&k, &c, CK_INT4, PREFIX, 2, CK_EXTRA);
    for (int i = 0; i < k.n; i++)
        k.t[i].unlisted = k.t[i].file == CK_EXTRA;
    ck_write(&k, &c);
    must_open(&w, &k);
    assert_true(w.mtp.present);
    assert_int_equal(w.stats.n_stale, 0);
    assert_int_equal(w.stats.n_tensors, k.n);
    check_vectors(&w, &c);
    weights_close(&w);
    ck_close(&k);
}

static void test_weights__a_single_file_needs_no_index(void **state)
{
    (void)state;
    struct model_config c = ck_tiny();
    struct ck k;
    struct weights w;
    ck_model(&k, &c, CK_HYBRID, PREFIX, 1, CK_SINGLE);
    k.index = false;
    ck_write(&k, &c);
    must_open(&w, &k);
    assert_int_equal(w.stats.n_tensors, k.n);
    weights_close(&w);
    ck_close(&k);
}

static void test_weights__the_text_only_prefix_is_understood(void **state)
{
    (void)state;
    struct model_config c = ck_tiny();
    struct ck k;
    struct weights w;
    ck_model(&k, &c, CK_BF16, "model.", 2, 2);
    ck_write(&k, &c);
    must_open(&w, &k);
    check_vectors(&w, &c);
    weights_close(&w);
    ck_close(&k);
}

static void test_weights__the_vision_tower_is_skipped(void **state)
{
    (void)state;
    struct model_config c = ck_tiny();
    struct ck k;
    struct weights w;
    ck_model(&k, &c, CK_BF16, PREFIX, 2, 2);
    ck_add(&k, 2, "BF16", "model.visual.", "patch_embed.proj", ".weight", 8, 3, 2, 16, 0);
    ck_add(&k, 1, "U16", "model.visual.", "pos_embed", ".weight", 4, 8, 0);
    ck_write(&k, &c);
    must_open(&w, &k);
    assert_int_equal(w.stats.n_skipped, 2);
    assert_int_equal(w.stats.n_tensors, k.n - 2);
    weights_close(&w);
    ck_close(&k);
}

static void test_weights__a_tied_head_is_the_embedding(void **state)
{
    (void)state;
    for (int stored_too = 0; stored_too < 2; stored_too++) {
        struct model_config c = ck_tiny();
        struct ck k;
        struct weights w;
        ck_model(&k, &c, CK_BF16, PREFIX, 2, 2);
        if (!stored_too)
            ck_drop(&k, "lm_head.weight");
        strcpy(k.config_extra, ", \"tie_word_embeddings\": true");
        ck_write(&k, &c);
        must_open(&w, &k);
        assert_ptr_equal(w.head.data, w.embed.data);
        assert_int_equal(w.stats.n_skipped, stored_too);
        weights_close(&w);
        ck_close(&k);
    }
}

static void test_weights__without_an_mtp_block_there_is_no_drafting(void **state)
{
    (void)state;
    for (int unwanted = 0; unwanted < 2; unwanted++) {
        struct model_config c = ck_tiny(), none = ck_tiny();
        struct ck k;
        struct weights w;
        none.n_mtp = 0;
        ck_model(&k, unwanted ? &c : &none, CK_BF16, PREFIX, 2, 2);     /* unwanted: tensors there, config says 0 */
        ck_write(&k, unwanted ? &none : &c);                            /* else: config says 1, tensors not there */
        must_open(&w, &k);
        assert_false(w.mtp.present);
        assert_int_equal(w.stats.n_mtp, 0);
        assert_int_equal(w.stats.n_skipped, unwanted ? 19 : 0);
        weights_close(&w);
        ck_close(&k);
    }
}

static void test_weights__sequential_g_idx_is_accepted(void **state)
{
    (void)state;
    struct model_config c = ck_tiny();
    struct ck k;
    struct weights w;
    ck_model(&k, &c, CK_INT4, PREFIX, 2, CK_EXTRA);
    ck_add(&k, 1, "I32", L0, "linear_attn.out_proj", ".g_idx", 256, 0)->fill = CK_FILL_GROUPS;
    ck_write(&k, &c);
    must_open(&w, &k);
    assert_int_equal(w.stats.n_tensors, k.n);
    weights_close(&w);
    ck_close(&k);
}

static void reshape(struct ck *k, const char *name, const char *dtype, int n_dims, int a, int b)
{
    struct ck_tensor *t = ck_find(k, name);
    strcpy(t->dtype, dtype);
    t->n_dims = n_dims;
    t->shape[0] = (uint64_t)a;
    t->shape[1] = (uint64_t)b;
}

static void test_weights__a_tensor_that_does_not_fit_is_named_with_both_shapes(void **state)
{
    (void)state;
    const struct { enum ck_layout layout; const char *name, *dtype; int n_dims, a, b; const char *message; } rows[] = {
        {CK_BF16, L1 "self_attn.k_proj.weight", "BF16", 2, 32, 128, "is BF16 [32, 128], expected F32 or F16 or BF16 [64, 128]"},
        {CK_BF16, L1 "self_attn.k_proj.weight", "BF16", 2, 128, 64, "is BF16 [128, 64], expected F32 or F16 or BF16 [64, 128]"},
        {CK_BF16, L1 "self_attn.k_proj.weight", "BF16", 1, 64 * 128, 0, "is BF16 [8192], expected F32 or F16 or BF16 [64, 128]"},
        {CK_BF16, L1 "self_attn.k_proj.weight", "I32", 2, 64, 128, "is I32 [64, 128], expected F32 or F16 or BF16 [64, 128]"},
        {CK_BF16, L1 "self_attn.k_proj.weight", "F8_E4M3", 2, 64, 128, "is F8_E4M3 [64, 128], expected F32 or F16 or BF16"},
        {CK_BF16, L1 "self_attn.q_norm.weight", "BF16", 1, 63, 0, "is BF16 [63], expected F32 or F16 or BF16 [64]"},
        {CK_BF16, L0 "linear_attn.conv1d.weight", "BF16", 2, 384, 4, "is BF16 [384, 4], expected F32 or F16 or BF16 [384, 1, 4]"},
        {CK_BF16, L0 "linear_attn.A_log", "I64", 1, 8, 0, "is I64 [8], expected F32 or F16 or BF16 [8]"},
        {CK_BF16, L0 "mlp.experts.down_proj", "BF16", 2, 256, 128, "is BF16 [256, 128], expected F32 or F16 or BF16 [2, 128, 128]"},
        {CK_BF16, "mtp.fc.weight", "BF16", 2, 128, 128, "is BF16 [128, 128], expected F32 or F16 or BF16 [128, 256]"},
        {CK_FP8, L1 "self_attn.q_proj.weight_scale_inv", "BF16", 2, 4, 2,
         "is BF16 [4, 2], expected F32 or F16 or BF16 [2, 1] (one scale for 128 x 128)"},
        {CK_FP8, L1 "self_attn.q_proj.weight_scale_inv", "F32", 1, 1, 0, "is F32 [1], expected F32 or F16 or BF16 [2, 1]"},
        {CK_FP8, L1 "self_attn.q_proj.weight", "BF16", 2, 256, 128, "is BF16 [256, 128], expected F8_E4M3 [256, 128]"},
        {CK_INT4, L0 "linear_attn.out_proj.qweight", "I32", 2, 64, 128, "is I32 [64, 128], expected I32 [32, 128] (4 bits in groups of 128)"},
        {CK_INT4, L0 "linear_attn.out_proj.scales", "F16", 2, 4, 128, "is F16 [4, 128], expected F16 [2, 128] (4 bits in groups of 128)"},
        {CK_INT4, L0 "linear_attn.out_proj.scales", "BF16", 2, 2, 128, "is BF16 [2, 128], expected F16 [2, 128]"},
        {CK_INT4, L0 "linear_attn.out_proj.qzeros", "I32", 2, 2, 128, "is I32 [2, 128], expected I32 [2, 16]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_config c = ck_tiny();
        struct ck k;
        char where[200], file[64];
        ck_model(&k, &c, rows[i].layout, PREFIX, 2, CK_EXTRA);
        reshape(&k, rows[i].name, rows[i].dtype, rows[i].n_dims, rows[i].a, rows[i].b);
        ck_file_name(&k, ck_find(&k, rows[i].name)->file, file, sizeof file);
        snprintf(where, sizeof where, "/%s: tensor %s ", file, rows[i].name);
        must_refuse(&k, &c, "/tmp/q35chat-test-", where, rows[i].message);
    }
}

static void test_weights__missing_tensors_are_counted_and_the_first_named(void **state)
{
    (void)state;
    const struct { enum ck_layout layout; const char *drop[3]; const char *message, *first; } rows[] = {
        {CK_BF16, {L1 "self_attn.k_proj.weight"}, "1 of the tensors that config.json asks for is missing", L1 "self_attn.k_proj.weight"},
        {CK_BF16, {L0 "linear_attn.A_log", L1 "self_attn.k_proj.weight", "lm_head.weight"}, "3 of the tensors", "the first is lm_head.weight"},
        {CK_BF16, {PREFIX "embed_tokens.weight"}, "1 of the tensors", "the first is " PREFIX "embed_tokens.weight"},
        {CK_BF16, {L0 "mlp.experts.gate_up_proj"}, "1 of the tensors", "the first is " L0 "mlp.experts.gate_up_proj"},
        {CK_BF16, {L0 "mlp.experts.gate_up_proj", L0 "mlp.experts.down_proj"}, "6 of the tensors",
         "the first is " L0 "mlp.experts.0.gate_proj.weight"},
        {CK_INT4, {L1 "self_attn.q_proj.qzeros", L1 "self_attn.q_proj.scales"}, "2 of the tensors", L1 "self_attn.q_proj.qzeros"},
        {CK_INT4, {L0 "mlp.experts.1.up_proj.qweight", L0 "mlp.experts.1.up_proj.qzeros", L0 "mlp.experts.1.up_proj.scales"}, "1 of the tensors",
         L0 "mlp.experts.1.up_proj.weight"},
        {CK_FP8, {L0 "mlp.experts.1.up_proj.weight"}, "1 of the tensors", L0 "mlp.experts.1.up_proj.weight"},
        {CK_HYBRID, {"mtp.layers.0.mlp.experts.1.up_proj.weight"}, "1 of the tensors", "mtp.layers.0.mlp.experts.1.up_proj.weight"},
        {CK_HYBRID, {"mtp.norm.weight"}, "1 of the tensors", "the first is mtp.norm.weight"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_config c = ck_tiny();
        struct ck k;
        ck_model(&k, &c, rows[i].layout, PREFIX, 2, CK_EXTRA);
        for (int d = 0; d < 3 && rows[i].drop[d]; d++)
            ck_drop(&k, rows[i].drop[d]);
        must_refuse(&k, &c, "/tmp/q35chat-test-", rows[i].message, rows[i].first);
    }
}

static void test_weights__a_tensor_without_a_place_is_named(void **state)
{
    (void)state;
    const struct { enum ck_layout layout; const char *name; } rows[] = {
        {CK_BF16, PREFIX "layers.2.input_layernorm.weight"}, {CK_BF16, L1 "self_attn.q_proj.bias"}, {CK_BF16, L0 "mlp.experts.0.gate_proj.weight"},
        {CK_INT4, L1 "self_attn.q_proj.weight"}, {CK_INT4, L0 "mlp.experts.2.up_proj.qweight"}, {CK_BF16, "mtp.layers.1.input_layernorm.weight"},
        {CK_FP8, L1 "self_attn.q_proj.input_scale"}, {CK_BF16, "model.visualx"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_config c = ck_tiny();
        struct ck k;
        char text[200];
        ck_model(&k, &c, rows[i].layout, PREFIX, 2, 2);
        ck_add(&k, 2, "BF16", rows[i].name, "", "", 4, 0);
        snprintf(text, sizeof text, "tensor %s has no place in the model that config.json describes (1 such tensor)", rows[i].name);
        must_refuse(&k, &c, "/model-00002-of-00002.safetensors: ", text, "");
    }
}

static void test_weights__formats_that_no_kernel_reads_are_refused(void **state)
{
    (void)state;
    struct model_config c = ck_tiny();
    struct ck k;
    ck_model(&k, &c, CK_INT4, PREFIX, 2, CK_EXTRA);
    ck_drop(&k, L0 "mlp.gate.weight");
    ck_matrix(&k, 1, CK_INT4, L0, "mlp.gate", 8, 128);
    must_refuse(&k, &c, "/model-00001-of-00002.safetensors: ", L0 "mlp.gate is INT4, expected 16 or 32 bits", "");

    ck_model(&k, &c, CK_FP8, PREFIX, 2, 2);
    ck_drop(&k, "lm_head.weight");
    ck_matrix(&k, 1, CK_FP8, "", "lm_head", 32, 128);
    must_refuse(&k, &c, "/model-00001-of-00002.safetensors: ", "lm_head is FP8, expected 16 or 32 bits", "");

    ck_model(&k, &c, CK_INT4, PREFIX, 2, CK_EXTRA);
    ck_add(&k, 1, "I32", L0, "linear_attn.out_proj", ".g_idx", 256, 0);
    must_refuse(&k, &c, L0 "linear_attn.out_proj.g_idx puts column 1 into group ", "expected 0", "reordered columns (desc_act) are not supported");

    ck_model(&k, &c, CK_INT4, PREFIX, 2, CK_EXTRA);
    ck_add(&k, 1, "I32", L0, "linear_attn.out_proj", ".g_idx", 128, 0)->fill = CK_FILL_GROUPS;
    must_refuse(&k, &c, L0 "linear_attn.out_proj.g_idx", "is I32 [128]", "expected I32 [256]");

    c.lin_v_heads = 6;                  /* 6 rows cannot be packed by eights */
    ck_model(&k, &c, CK_INT4, PREFIX, 2, CK_EXTRA);
    must_refuse(&k, &c, "in_proj_", "is INT4 of", "expected a multiple of 8 rows and of 128 columns");
}

static void test_weights__a_bad_index_is_refused(void **state)
{
    (void)state;
    const struct { const char *text, *message; } rows[] = {
        {"", "model.safetensors.index.json: not valid JSON"},
        {"[1]", "weight_map is missing or empty"},
        {"{\"weight_map\": {}}", "weight_map is missing or empty"},
        {"{\"weight_map\": [\"a\"]}", "weight_map is missing or empty"},
        {"{\"weight_map\": {\"a\": 1}}", "tensor a is in \"(no string)\", expected the name of a .safetensors file"},
        {"{\"weight_map\": {\"a\": \"../model-00001-of-00002.safetensors\"}}", "tensor a is in \"../model-00001-of-00002.safetensors\""},
        {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "tensor a is in \"/etc/passwd\""},
        {"{\"weight_map\": {\"a\": \".safetensors\"}}", "tensor a is in \".safetensors\""},
        {"{\"weight_map\": {\"a\": \"config.json\"}}", "tensor a is in \"config.json\""},
        {"{\"weight_map\": {\"a\": \"model-00007-of-00002.safetensors\"}}", "cannot open /tmp/q35chat-test-"},
        {"{\"weight_map\": {\"a\": \"model-00001-of-00002.safetensors\"}}", "/model-00001-of-00002.safetensors has no tensor a, though"},
        {"{\"weight_map\": {\"a\": \"x.safetensors\", \"a\": \"y.safetensors\"}}", "duplicate"},
        {"{\"weight_map\": {\"__metadata__\": \"model-00001-of-00002.safetensors\"}}", "has no tensor __metadata__"},
        {"{\"weight_map\": {\"lm_head.weight\": \"model-00001-of-00002.safetensors\"}}", "are missing, the first is " PREFIX "embed_tokens.weight"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_config c = ck_tiny();
        struct ck k;
        ck_model(&k, &c, CK_BF16, PREFIX, 2, 2);
        ck_write(&k, &c);
        ck_text(&k, "model.safetensors.index.json", rows[i].text, strlen(rows[i].text));
        must_refuse(&k, &c, rows[i].message, "", "");
    }
    struct model_config c = ck_tiny();
    struct ck k = {0};
    must_refuse(&k, &c, "holds neither model.safetensors.index.json nor model.safetensors nor model-*.safetensors", "/tmp/", "");
}

static void test_weights__a_truncated_shard_is_refused(void **state)
{
    (void)state;
    struct model_config c = ck_tiny();
    struct ck k;
    char path[200];
    ck_model(&k, &c, CK_HYBRID, PREFIX, 2, CK_EXTRA);
    ck_write(&k, &c);
    snprintf(path, sizeof path, "%s/model-00002-of-00002.safetensors", k.dir);
    struct safetensors s;
    struct err e = {0};
    assert_true(safetensors_open(&s, path, &e));
    uint64_t size = s.size;
    safetensors_close(&s);
    assert_int_equal(truncate(path, (off_t)size - 1), 0);
    char text[80];
    snprintf(text, sizeof text, "but the file holds ");
    must_refuse(&k, &c, "/model-00002-of-00002.safetensors: tensor ", "lies at bytes", text);
}

static bool count_progress(size_t done, size_t total, void *arg)
{
    size_t *last = arg;
    assert_true(done >= last[0] && done <= total);
    last[0] = done;
    last[1] = total;
    last[2]++;
    return true;
}
static bool stop_at_once(size_t done, size_t total, void *arg)
{
    (void)done; (void)total;
    ++*(int *)arg;
    return false;
}

static void test_weights__prefetch_reads_everything_and_tells(void **state)
{
    (void)state;
    struct model_config c = ck_tiny();
    struct ck k;
    struct weights w;
    struct err e = {0};
    size_t last[3] = {0};
    int calls = 0;
    ck_model(&k, &c, CK_HYBRID, PREFIX, 2, CK_EXTRA);
    ck_write(&k, &c);
    must_open(&w, &k);
    assert_true(weights_prefetch(&w, count_progress, last, &e));
    assert_int_equal(last[0], last[1]);
    assert_true(last[1] >= w.stats.bytes && last[2] >= 4);
    assert_true(weights_prefetch(&w, NULL, NULL, &e));
    assert_true(weights_prefetch(&w, stop_at_once, &calls, &e));
    assert_int_equal(calls, 1);
    char path[200];
    snprintf(path, sizeof path, "%s/model-00002-of-00002.safetensors", k.dir);
    assert_int_equal(truncate(path, 8192), 0);
    if (!emulated()) {                  /* any madvise succeeds under qemu */
        assert_false(weights_prefetch(&w, NULL, NULL, &e));
        assert_non_null(strstr(e.msg, "/model-00002-of-00002.safetensors has shrunk"));
    }
    weights_close(&w);
    ck_close(&k);
}

static void test_weights__the_int8_head_is_the_head_rounded_row_by_row(void **state)
{
    (void)state;
    const enum ck_layout layouts[] = {CK_BF16, CK_F32, CK_F16};
    for (int l = 0; l < 3; l++) {
        struct model_config c = ck_tiny();
        struct ck k;
        struct weights w;
        ck_model(&k, &c, layouts[l], PREFIX, 2, 2);
        ck_write(&k, &c);
        must_open(&w, &k);
        assert_int_equal(w.head_int8.format, WEIGHT_NONE);
        weights_make_head(&w, HEAD_INT8);
        check_matrix(&w.head_int8, WEIGHT_INT8, 32, 128);
        const int8_t *q = w.head_int8.data;
        const uint16_t *scale = w.head_int8.scale;
        for (size_t r = 0; r < 32; r++) {
            double max = 0, s = (double)f16_f32(scale[r]);
            int top = 0;
            for (size_t i = 0; i < 128; i++) {
                double v = stored(&w.head, r * 128 + i);
                max = fabs(v) > max ? fabs(v) : max;
                top = abs(q[r * 128 + i]) > top ? abs(q[r * 128 + i]) : top;
                assert_true(fabs(v - q[r * 128 + i] * s) <= s * 0.5001);
            }
            assert_true(fabs(s - max / 127) <= max / 127 * 0x1p-11);
            assert_int_equal(top, 127);
        }
        weights_close(&w);
        ck_close(&k);
    }
    struct model_config c = ck_tiny();
    struct ck k;
    struct weights w;
    ck_model(&k, &c, CK_BF16, PREFIX, 2, 2);
    ck_find(&k, "lm_head.weight")->fill = CK_FILL_ZERO;
    ck_write(&k, &c);
    must_open(&w, &k);
    weights_make_head(&w, HEAD_INT8);         /* rows of zeros: no division by a scale of zero */
    for (size_t i = 0; i < 32 * 128; i++)
        assert_int_equal(((const int8_t *)w.head_int8.data)[i], 0);
    weights_close(&w);
    ck_close(&k);
}

/* The nearest of the numbers that FP8 has to x / scale, ties to the even code; there are few enough to try them all. */
static uint8_t nearest_fp8(float x)
{
    int best = 0;
    for (int i = 1; i < 256; i++) {
        const double d = fabs((double)fp8_f32((uint8_t)i) - (double)x), least = fabs((double)fp8_f32((uint8_t)best) - (double)x);
        if (d < least || (d == least && i % 2 < best % 2))
            best = i;
    }
    return (uint8_t)best;
}

/* Each 64th number, and all scales. */
static void check_made_fp8(const struct weight *got, const struct weight *want)
{
    const size_t rows = (size_t)want->rows, cols = (size_t)want->cols, blocks = (cols + 127) / 128;
    const float *scale = got->scale;
    assert_true(got->format == WEIGHT_FP8 && got->scale_dtype == DT_F32 && got->rows == want->rows && got->cols == want->cols);
    for (size_t b = 0; b < (rows + 127) / 128 * blocks; b++) {
        float max = 0;
        for (size_t r = b / blocks * 128; r < rows && r < b / blocks * 128 + 128; r++)
            for (size_t i = b % blocks * 128; i < cols && i < b % blocks * 128 + 128; i++)
                max = fmaxf(max, fabsf((float)stored(want, r * cols + i)));
        assert_true(scale[b] == max / 448);
    }
    for (size_t i = 0; i < rows * cols; i += 64 + (i % 3)) {
        const float x = (float)stored(want, i) / scale[i / cols / 128 * blocks + i % cols / 128];
        const uint8_t q = ((const uint8_t *)got->data)[i];
        if (fp8_f32(q) != fp8_f32(nearest_fp8(x)))
            fail_msg("%a became %a, and %a is nearest", (double)x, (double)fp8_f32(q), (double)fp8_f32(nearest_fp8(x)));
    }
}

static void test_weights__an_mtp_block_in_fp8_is_the_block_rounded(void **state)
{
    (void)state;
    const enum ck_layout layouts[] = {CK_BF16, CK_F32, CK_F16, CK_HYBRID, CK_FP8};
    for (int l = 0; l < 5; l++) {
        struct model_config c = ck_tiny();
        struct ck k;
        struct weights w, as;
        if (layouts[l] == CK_F32) {             /* blocks that are not whole */
            c.hidden = 200;
            c.moe_inter = 20;
            c.shared_inter = 140;
        }
        ck_model(&k, &c, layouts[l], PREFIX, 2, 2);
        ck_write(&k, &c);
        must_open(&w, &k);
        must_open(&as, &k);
        weights_make_mtp(&w, &c, MTP_STORED);
        assert_int_equal(w.mtp.fc.format, as.mtp.fc.format);
        weights_make_mtp(&w, &c, MTP_FP8);
        const struct layer_weights *got = &w.mtp.layer, *want = &as.mtp.layer;
        const struct { const struct weight *got, *want; } all[] = {
            {&w.mtp.fc, &as.mtp.fc}, {&got->attn.q, &want->attn.q}, {&got->attn.k, &want->attn.k}, {&got->attn.v, &want->attn.v},
            {&got->attn.o, &want->attn.o}, {&got->moe.shared.gate, &want->moe.shared.gate}, {&got->moe.shared.up, &want->moe.shared.up},
            {&got->moe.shared.down, &want->moe.shared.down}, {&got->moe.experts[1].gate, &want->moe.experts[1].gate},
            {&got->moe.experts[1].up, &want->moe.experts[1].up}, {&got->moe.experts[1].down, &want->moe.experts[1].down},
        };
        size_t bytes = 0;
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            if (all[i].want->format == WEIGHT_DENSE)
                check_made_fp8(all[i].got, all[i].want);
            else
                assert_int_equal(all[i].got->scale_dtype, all[i].want->scale_dtype);        /* as it was */
            bytes += weight_bytes(all[i].got) * (i < 8 ? 1 : (size_t)c.n_experts);
        }
        if (layouts[l] != CK_FP8)
            assert_int_equal(weights_made_mtp_bytes(&c, MTP_FP8), bytes);
        assert_int_equal(weights_made_mtp_bytes(&c, MTP_STORED), 0);
        assert_true(got->moe.router.format == WEIGHT_DENSE && got->moe.shared_gate.format == WEIGHT_DENSE);
        assert_int_equal(w.layers[0].moe.shared.gate.format, as.layers[0].moe.shared.gate.format);
        const struct weight made = w.mtp.fc;
        weights_make_mtp(&w, &c, MTP_FP8);      /* once */
        assert_ptr_equal(w.mtp.fc.data, made.data);
        weights_close(&w);
        weights_close(&as);
        ck_close(&k);
    }
}

/* Shapes that fit, some that do not, experts that do not: then each of them is in FP8. */
static void test_weights__an_mtp_block_in_int4_has_attention_and_routed_experts_in_it(void **state)
{
    (void)state;
    const struct { enum ck_layout layout; int hidden, inter; enum weight_format attn, routed; } rows[] = {
        {CK_BF16, 128, 128, WEIGHT_INT4, WEIGHT_INT4}, {CK_F32, 256, 256, WEIGHT_INT4, WEIGHT_INT4}, {CK_F16, 256, 136, WEIGHT_INT4, WEIGHT_FP8},
        {CK_BF16, 200, 128, WEIGHT_FP8, WEIGHT_FP8}, {CK_HYBRID, 128, 128, WEIGHT_INT4, WEIGHT_INT4}, {CK_FP8, 128, 128, WEIGHT_INT4, WEIGHT_FP8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_config c = ck_tiny();
        struct ck k;
        struct weights w, as;
        c.hidden = rows[i].hidden;
        c.moe_inter = rows[i].inter;
        ck_model(&k, &c, rows[i].layout, PREFIX, 2, 2);
        ck_write(&k, &c);
        must_open(&w, &k);
        must_open(&as, &k);
        weights_make_mtp(&w, &c, MTP_INT4);
        const struct layer_weights *l = &w.mtp.layer;
        const struct expert_weights *x = &l->moe.experts[1];
        check_matrix(&w.mtp.fc, as.mtp.fc.format == WEIGHT_DENSE ? WEIGHT_FP8 : as.mtp.fc.format, c.hidden, 2 * c.hidden);
        assert_int_equal(l->attn.q.format, as.mtp.layer.attn.q.format == WEIGHT_DENSE ? rows[i].attn : as.mtp.layer.attn.q.format);
        check_matrix(&x->gate, rows[i].routed, c.moe_inter, c.hidden);
        check_matrix(&x->up, rows[i].routed, c.moe_inter, c.hidden);
        check_matrix(&x->down, rows[i].routed, c.hidden, c.moe_inter);
        assert_int_equal(l->moe.shared.gate.format, WEIGHT_FP8);
        assert_int_equal(l->moe.shared.down.format, WEIGHT_FP8);
        assert_true(l->moe.router.format == WEIGHT_DENSE && l->moe.shared_gate.format == WEIGHT_DENSE);
        const struct weight *const all[] = {&w.mtp.fc, &l->attn.q, &l->attn.k, &l->attn.v, &l->attn.o, &l->moe.shared.gate, &l->moe.shared.up,
                                            &l->moe.shared.down, &x->gate, &x->up, &x->down};
        size_t bytes = 0;
        for (size_t n = 0; n < sizeof all / sizeof *all; n++)
            bytes += weight_bytes(all[n]) * (n < 8 ? 1 : (size_t)c.n_experts);
        if (rows[i].layout < CK_FP8)
            assert_int_equal(weights_made_mtp_bytes(&c, MTP_INT4), bytes);
        assert_true(weights_made_mtp_bytes(&c, MTP_INT4) <= weights_made_mtp_bytes(&c, MTP_FP8));
        weights_close(&w);
        weights_close(&as);
        ck_close(&k);
    }
}

static void test_weights__numbers_that_fp8_has_not_become_the_nearest(void **state)
{
    (void)state;
    for (uint32_t u = 0; u < 0x43e00000; u += 0xfffb)
        for (uint32_t sign = 0; sign < 2; sign++) {
            const float x = bits_f32(u | sign << 31);
            assert_true(fp8_f32((uint8_t)pack_fp8(x)) == fp8_f32(nearest_fp8(x)));
        }
    for (int i = 0; i < 127; i++) {             /* half-way between neighbours: to the even one */
        const float low = fp8_f32((uint8_t)i), high = fp8_f32((uint8_t)(i + 1));
        if (i < 126)
            assert_int_equal(pack_fp8((low + high) / 2), i % 2 ? i + 1 : i);
        assert_int_equal(pack_fp8(low), i);
    }
    assert_true(pack_fp8(1e30f) == 0x7e && pack_fp8(-INFINITY) == 0xfe && pack_fp8(NAN) == 0x7e);
    assert_true(pack_fp8_scale(0) == 0 && pack_fp8_value(f32_bits(1), 0) == 0);
    assert_true(pack_fp8_scale(f32_bits(448)) == 1 && pack_fp8_scale(f32_bits(NAN)) == 0x1p120f && pack_fp8_scale(1) == 0);
}

static bool all_zero(const void *p, size_t n)
{
    const char *c = p;
    return n == 0 || (c[0] == 0 && !memcmp(c, c + 1, n - 1));
}

static void test_weights__golden_checkpoints_open_with_the_copies_that_count(void **state)
{
    (void)state;
    const struct { const char *dir; int bound, skipped, stale, mtp, int4, fp8, dense; size_t bytes; } rows[] = {
        {"g0/bf16",    91, 1,  0, 19,   0,  0, 171,  7669028},
        {"g0/int4",   419, 1, 40, 41, 109,  0,  62,  3982116},
        {"g0/hybrid", 431, 1, 40, 41, 109, 12,  50,  3785532},
        {"g1/int4",   587, 1, 40, 53, 163,  0,  68, 16877136},
        {"g1/hybrid", 599, 1, 52, 53, 163, 12,  56, 16483968},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_config c;
        struct weights w;
        struct err e = {0};
        char dir[64];
        snprintf(dir, sizeof dir, "tests/data/model/%s", rows[i].dir);
        if (!config_load(&c, dir, &e) || !weights_open(&w, &c, dir, &e))
            fail_msg("%s", e.msg);
        assert_int_equal(w.stats.n_tensors, rows[i].bound);
        assert_int_equal(w.stats.n_skipped, rows[i].skipped);
        assert_int_equal(w.stats.n_stale, rows[i].stale);
        assert_int_equal(w.stats.n_mtp, rows[i].mtp);
        assert_int_equal(w.stats.n_int4, rows[i].int4);
        assert_int_equal(w.stats.n_fp8, rows[i].fp8);
        assert_int_equal(w.stats.n_dense, rows[i].dense);
        assert_int_equal(w.stats.bytes, rows[i].bytes);
        assert_true(w.mtp.present);
        assert_true(weights_prefetch(&w, NULL, NULL, &e));
        for (int l = 0; l < c.n_layers; l++) {
            const struct layer_weights *y = &w.layers[l];
            const struct weight *m = y->full ? &y->attn.q : &y->delta.qkv;
            assert_false(all_zero(m->data, 4096));
            assert_false(all_zero(y->norm_in, (size_t)c.hidden * 4));
            for (int x = 0; x < c.n_experts; x++) {
                assert_false(all_zero(y->moe.experts[x].up.data, 4096));
                assert_false(all_zero(y->moe.experts[x].down.data, 4096));
            }
        }
        weights_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights__every_layout_binds_every_tensor),
        cmocka_unit_test(test_weights__fused_experts_become_views_with_gate_rows_first),
        cmocka_unit_test(test_weights__int4_and_fp8_views_point_at_their_own_parts),
        cmocka_unit_test(test_weights__scales_of_fp8_may_have_any_float_type),
        cmocka_unit_test(test_weights__misaligned_tensors_are_copied),
        cmocka_unit_test(test_weights__stale_duplicates_are_ignored_and_counted),
        cmocka_unit_test(test_weights__mtp_tensors_that_the_index_lost_come_from_the_extra_file),
        cmocka_unit_test(test_weights__a_single_file_needs_no_index),
        cmocka_unit_test(test_weights__the_text_only_prefix_is_understood),
        cmocka_unit_test(test_weights__the_vision_tower_is_skipped),
        cmocka_unit_test(test_weights__a_tied_head_is_the_embedding),
        cmocka_unit_test(test_weights__without_an_mtp_block_there_is_no_drafting),
        cmocka_unit_test(test_weights__sequential_g_idx_is_accepted),
        cmocka_unit_test(test_weights__a_tensor_that_does_not_fit_is_named_with_both_shapes),
        cmocka_unit_test(test_weights__missing_tensors_are_counted_and_the_first_named),
        cmocka_unit_test(test_weights__a_tensor_without_a_place_is_named),
        cmocka_unit_test(test_weights__formats_that_no_kernel_reads_are_refused),
        cmocka_unit_test(test_weights__a_bad_index_is_refused),
        cmocka_unit_test(test_weights__a_truncated_shard_is_refused),
        cmocka_unit_test(test_weights__prefetch_reads_everything_and_tells),
        cmocka_unit_test(test_weights__the_int8_head_is_the_head_rounded_row_by_row),
        cmocka_unit_test(test_weights__an_mtp_block_in_fp8_is_the_block_rounded),
        cmocka_unit_test(test_weights__an_mtp_block_in_int4_has_attention_and_routed_experts_in_it),
        cmocka_unit_test(test_weights__numbers_that_fp8_has_not_become_the_nearest),
        cmocka_unit_test(test_weights__golden_checkpoints_open_with_the_copies_that_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
