#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/file.h"
#include "model/config.h"
#include "tests/checkpoint.h"

#define DATA "tests/data/model/config/"

/* 35b.json with changes: `patch` is an object whose members replace those of text_config (null removes); members under
 * "outer" replace top-level ones. */
static bool parse_patched(struct model_config *c, const char *patch, struct err *e)
{
    json_error_t je;
    json_t *root = json_load_file(DATA "35b.json", 0, &je), *p = json_loads(patch, 0, &je);
    assert_non_null(root);
    assert_non_null(p);
    json_t *outer = json_incref(json_object_get(p, "outer"));
    json_object_del(p, "outer");
    assert_int_equal(json_object_update(json_object_get(root, "text_config"), p), 0);
    if (outer)
        assert_int_equal(json_object_update(root, outer), 0);
    char *text = json_dumps(root, 0);
    bool ok = config_parse(c, text, strlen(text), "config.json", e);
    free(text);
    json_decref(outer);
    json_decref(p);
    json_decref(root);
    return ok;
}

static bool parse_file(struct model_config *c, const char *path, struct err *e)
{
    struct buf b = {0};
    bool ok = file_read(&b, path, 1 << 20, e) && config_parse(c, buf_str(&b), b.len, path, e);
    buf_free(&b);
    return ok;
}

static void test_config__published_files_are_read_and_named(void **state)
{
    (void)state;
    const struct { const char *path, *name; int hidden, layers, full, experts, top_k, v_heads, q_heads; } rows[] = {
        {DATA "35b.json",  "Qwen3.5-35B-A3B",   2048, 40, 10, 256,  8, 32, 16},
        {DATA "122b.json", "Qwen3.5-122B-A10B", 3072, 48, 12, 256,  8, 64, 32},
        {DATA "397b.json", "Qwen3.5-397B-A17B", 4096, 60, 15, 512, 10, 64, 32},        /* without rope fields */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_config c;
        struct err e = {0};
        if (!parse_file(&c, rows[i].path, &e))
            fail_msg("%s", e.msg);
        assert_string_equal(c.name, rows[i].name);
        assert_int_equal(c.hidden, rows[i].hidden);
        assert_int_equal(c.n_layers, rows[i].layers);
        assert_int_equal(c.n_full, rows[i].full);
        assert_int_equal(c.n_delta, rows[i].layers - rows[i].full);
        assert_int_equal(c.n_experts, rows[i].experts);
        assert_int_equal(c.top_k, rows[i].top_k);
        assert_int_equal(c.lin_v_heads, rows[i].v_heads);
        assert_int_equal(c.n_q_heads, rows[i].q_heads);
        assert_int_equal(c.rotary_dim, 64);
        assert_true(c.rope_theta == 1e7f && c.yarn_factor == 1 && c.yarn_attention_factor == 1 && c.rms_eps == 1e-6f);
        assert_int_equal(c.max_pos, 262144);
        assert_int_equal(c.n_mtp, 1);
        assert_int_equal(config_conv_dim(&c), 4096 + rows[i].v_heads * 128);
        const struct vision_config *v = &c.vision;
        assert_true(v->depth == 27 && v->hidden == 1152 && v->n_heads == 16 && v->inter == 4304 && v->side == 48 && v->out == c.hidden);
        assert_true(v->image_id == 248056 && v->start_id == 248053 && v->end_id == 248054);
        assert_int_equal(c.n_eos, 1);
        assert_int_equal(c.eos[0], 248044);
        assert_false(c.tied);
        for (int l = 0; l < c.n_layers; l++)
            assert_int_equal(c.full[l], l % 4 == 3);
    }
}

static void test_config__golden_checkpoints_load(void **state)
{
    (void)state;
    const char *dirs[] = {"g0/bf16", "g0/int4", "g0/hybrid", "g1/int4", "g1/hybrid"};
    for (int i = 0; i < 5; i++) {
        struct model_config c;
        struct err e = {0};
        char dir[64];
        snprintf(dir, sizeof dir, "tests/data/model/%s", dirs[i]);
        if (!config_load(&c, dir, &e))
            fail_msg("%s", e.msg);
        assert_string_equal(c.name, "custom");
        assert_int_equal(c.vocab, dirs[i][1] == '0' ? 512 : 1024);
        assert_int_equal(c.n_eos, 0);
        assert_true(c.gen_temperature < 0 && c.gen_top_k < 0);
    }
}

static void test_config__missing_fields_have_the_family_defaults(void **state)
{
    (void)state;
    struct model_config c;
    struct err e = {0};
    assert_true(parse_patched(&c, "{\"head_dim\": null, \"linear_conv_kernel_dim\": null, \"rms_norm_eps\": null, \"layer_types\": null,"
                                  "\"linear_key_head_dim\": null, \"rope_parameters\": null, \"partial_rotary_factor\": null,"
                                  "\"full_attention_interval\": null, \"max_position_embeddings\": null, \"hidden_act\": null}", &e));
    assert_int_equal(c.head_dim, 256);
    assert_int_equal(c.conv_kernel, 4);
    assert_int_equal(c.lin_k_dim, 128);
    assert_int_equal(c.n_full, 10);
    assert_true(c.full[3] && !c.full[0]);
    assert_int_equal(c.rotary_dim, 64);
    assert_int_equal(c.max_pos, 32768);
    assert_true(c.rms_eps == 1e-6f && c.rope_theta == 1e7f);
    assert_true(parse_patched(&c, "{\"layer_types\": null, \"full_attention_interval\": 2}", &e));
    assert_int_equal(c.n_full, 20);
    assert_string_equal(c.name, "custom");
}

static void test_config__yarn_in_the_new_and_the_old_place(void **state)
{
    (void)state;
    const char *rows[] = {
        "{\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 5000000, \"partial_rotary_factor\": 0.25, \"factor\": 4.0,"
        " \"original_max_position_embeddings\": 262144}}",
        "{\"rope_parameters\": null, \"rope_theta\": 5e6, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}}",
    };
    for (int i = 0; i < 2; i++) {
        struct model_config c;
        struct err e = {0};
        if (!parse_patched(&c, rows[i], &e))
            fail_msg("%s", e.msg);
        assert_true(c.rope_theta == 5e6f && c.yarn_factor == 4 && c.yarn_beta_fast == 32 && c.yarn_beta_slow == 1);
        assert_int_equal(c.yarn_original, 262144);
        assert_int_equal(c.max_pos, 1048576);
        assert_true(fabs(c.yarn_attention_factor - 1.1386294) < 1e-6);
        assert_string_equal(c.name, "Qwen3.5-35B-A3B");
    }
}

static void test_config__stop_ids_and_sampling_come_from_the_generation_file(void **state)
{
    (void)state;
    struct ck k = {0};
    struct model_config tiny = ck_tiny(), c;
    struct err e = {0};
    snprintf(k.config_extra, sizeof k.config_extra, ", \"eos_token_id\": 3");
    ck_write(&k, &tiny);
    assert_true(config_load(&c, k.dir, &e));
    assert_int_equal(c.n_eos, 1);
    assert_int_equal(c.eos[0], 3);
    const char *gen = "{\"eos_token_id\": [7, 5, 4000], \"temperature\": 0.6, \"top_p\": 0.95, \"top_k\": 20}";
    ck_text(&k, "generation_config.json", gen, strlen(gen));
    assert_true(config_load(&c, k.dir, &e));
    assert_int_equal(c.n_eos, 2);       /* 4000 is outside the vocabulary of 32 */
    assert_int_equal(c.eos[0], 7);
    assert_int_equal(c.eos[1], 5);
    assert_true(c.gen_temperature == 0.6f && c.gen_top_p == 0.95f);
    assert_int_equal(c.gen_top_k, 20);
    gen = "{\"eos_token_id\": \"stop\"}";
    ck_text(&k, "generation_config.json", gen, strlen(gen));
    assert_false(config_load(&c, k.dir, &e));
    assert_non_null(strstr(e.msg, "/generation_config.json: eos_token_id is \"stop\", expected a token id"));
    ck_close(&k);
    assert_false(config_load(&c, "/nonexistent", &e));
    assert_non_null(strstr(e.msg, "no directory /nonexistent;"));
    assert_false(config_load(&c, "tests/unit/test_config.c", &e));
    assert_non_null(strstr(e.msg, "tests/unit/test_config.c is a file, expected the directory of a checkpoint"));
    assert_false(config_load(&c, "tests/unit", &e));
    assert_non_null(strstr(e.msg, "tests/unit has no config.json, expected the directory of a checkpoint"));
}

/* Each change of a good file is refused by a sentence with the field, what was found and what was expected. */
static void test_config__what_the_engine_cannot_compute_is_refused(void **state)
{
    (void)state;
    const struct { const char *patch, *message; } rows[] = {
        {"{\"hidden_size\": null}", "hidden_size is missing, expected a whole number from 2 to 65536"},
        {"{\"hidden_size\": \"2048\"}", "hidden_size is \"2048\", expected a whole number"},
        {"{\"hidden_size\": 2048.0}", "hidden_size is 2048.0, expected a whole number"},
        {"{\"hidden_size\": -1}", "hidden_size is -1, expected"},
        {"{\"hidden_size\": 4294967298}", "hidden_size is 4294967298, expected"},
        {"{\"num_hidden_layers\": 257}", "num_hidden_layers is 257, expected a whole number from 1 to 256"},
        {"{\"num_hidden_layers\": 39}", "layer_types has 40 entries, expected a list of num_hidden_layers = 39"},
        {"{\"layer_types\": \"full\"}", "layer_types is \"full\", expected a list"},
        {"{\"num_hidden_layers\": 1, \"layer_types\": [\"sliding_attention\"]}",
         "layer_types is \"sliding_attention\", expected \"full_attention\" or"},
        {"{\"num_hidden_layers\": 1, \"layer_types\": [4]}", "layer_types is 4, expected"},
        {"{\"full_attention_interval\": 0}", "full_attention_interval is 0, expected"},
        {"{\"num_experts\": 0}", "num_experts is 0, expected a whole number from 1"},
        {"{\"num_experts_per_tok\": 8, \"num_experts\": 4}", "num_experts_per_tok is 8, expected at most num_experts 4"},
        {"{\"num_key_value_heads\": 3}", "num_attention_heads is 16, expected a multiple of num_key_value_heads 3"},
        {"{\"linear_num_key_heads\": 5}", "linear_num_value_heads is 32, expected a multiple of linear_num_key_heads 5"},
        {"{\"head_dim\": 1024}", "head_dim is 1024, expected a whole number from 8 to 512"},
        {"{\"head_dim\": 60}", "head_dim is 60, expected a multiple of 8"},
        {"{\"linear_key_head_dim\": 256}", "linear_key_head_dim is 256, expected a whole number from 1 to 128"},
        {"{\"linear_conv_kernel_dim\": 9}", "linear_conv_kernel_dim is 9, expected a whole number from 2 to 8"},
        {"{\"mtp_num_hidden_layers\": 2}", "mtp_num_hidden_layers is 2, expected a whole number from 0 to 1"},
        {"{\"hidden_act\": \"gelu\"}", "hidden_act is \"gelu\", expected \"silu\" or \"swish\""},
        {"{\"hidden_act\": \"an activation whose name is longer than what a buffer for a sentence would hold, by far\"}",
         "hidden_act is \"an activation whose name is longer than what a buffer for a..., expected \"silu\""},
        {"{\"attention_bias\": true}", "attention_bias is true, expected false"},
        {"{\"attn_output_gate\": false}", "attn_output_gate is false, expected true"},
        {"{\"mlp_only_layers\": [0]}", "mlp_only_layers is [0], expected []"},
        {"{\"mtp_use_dedicated_embeddings\": true}", "mtp_use_dedicated_embeddings is true, expected false"},
        {"{\"model_type\": \"llama\"}", "model_type is \"llama\", expected \"qwen3_5_moe\""},
        {"{\"outer\": {\"model_type\": \"qwen3_next\"}}", "model_type is \"qwen3_next\", expected"},
        {"{\"rms_norm_eps\": 1}", "rms_norm_eps is 1, expected a number from 1e-12 to 0.1"},
        {"{\"rope_parameters\": 7}", "rope_parameters is 7, expected an object"},
        {"{\"rope_parameters\": {\"rope_type\": \"longrope\"}}", "rope_type is \"longrope\", expected \"default\" or \"yarn\""},
        {"{\"rope_parameters\": {\"rope_type\": \"yarn\"}}", "rope_parameters.factor is missing"},
        {"{\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 0.5}}", "factor is 0.5, expected a number from 1 to 64"},
        {"{\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 2, \"truncate\": false}}", "truncate is false, expected true"},
        {"{\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 2, \"mscale\": 1}}", "mscale is 1, expected no such field"},
        {"{\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 2, \"beta_fast\": 1}}", "beta_fast is 1, expected more than beta_slow 1"},
        {"{\"rope_parameters\": {\"partial_rotary_factor\": 0.3}}", "partial_rotary_factor 0.3 of head_dim 256 gives 76.8 rotated"},
        {"{\"rope_parameters\": {\"rope_theta\": 0}}", "rope_theta is 0, expected a number from 1"},
        {"{\"eos_token_id\": -4}", "eos_token_id is -4, expected a token id"},
        {"{\"outer\": {\"tie_word_embeddings\": 1}}", "tie_word_embeddings is 1, expected true or false"},
        {"{\"outer\": {\"text_config\": []}}", "text_config is [], expected an object"},
        {"{\"outer\": {\"quantization_config\": {\"bits\": 8}}}", "bits is 8, expected 4"},
        {"{\"outer\": {\"quantization_config\": {\"group_size\": 64}}}", "group_size is 64, expected 128"},
        {"{\"outer\": {\"quantization_config\": {\"desc_act\": true}}}", "desc_act is true, expected false"},
        {"{\"outer\": {\"quantization_config\": {\"quant_method\": \"awq\"}}}", "quant_method is \"awq\", expected \"auto-round\""},
        {"{\"outer\": {\"quantization_config\": {\"packing_format\": \"auto_round:auto_awq\"}}}",
         "packing_format is \"auto_round:auto_awq\", expected"},
        {"{\"outer\": {\"quantization_config\": {\"weight_block_size\": [64, 64]}}}", "weight_block_size is [64,64], expected [128,128]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_config c;
        struct err e = {0};
        if (parse_patched(&c, rows[i].patch, &e))
            fail_msg("accepted: %s", rows[i].patch);
        if (strncmp(e.msg, "config.json: ", 13) || !strstr(e.msg, rows[i].message))
            fail_msg("%s\n  gives:    %s\n  expected: %s", rows[i].patch, e.msg, rows[i].message);
    }
}

static void test_config__text_that_is_no_json_object_is_refused(void **state)
{
    (void)state;
    const struct { const char *text, *message; } rows[] = {
        {"", "not valid JSON"}, {"{", "not valid JSON"}, {"[]", "the file is [], expected an object"},
        {"{\"hidden_size\": 1, \"hidden_size\": 2}", "duplicate"}, {"{\"hidden_size\": 1e999}", "not valid JSON"},
        {"{\"hidden_size\": 99999999999999999999}", "not valid JSON"}, {"{}", "is missing"}, {"{\"a\": \"\xff\"}", "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_config c;
        struct err e = {0};
        assert_false(config_parse(&c, rows[i].text, strlen(rows[i].text), "config.json", &e));
        if (!strstr(e.msg, rows[i].message))
            fail_msg("%s gives: %s", rows[i].text, e.msg);
    }
    char deep[9000];
    memset(deep, '[', sizeof deep);
    struct model_config c;
    struct err e = {0};
    assert_false(config_parse(&c, deep, sizeof deep, "config.json", &e));
}

static void test_config__tied_embeddings_are_noted_and_the_outer_word_counts(void **state)
{
    (void)state;
    struct model_config c;
    struct err e = {0};
    assert_true(parse_patched(&c, "{\"outer\": {\"tie_word_embeddings\": true}}", &e));
    assert_true(c.tied);
    assert_true(parse_patched(&c, "{\"tie_word_embeddings\": true}", &e));
    assert_false(c.tied);
}

static void test_config__a_vision_tower_that_cannot_be_computed_is_refused(void **state)
{
    (void)state;
    const struct { const char *key, *value, *message; } rows[] = {
        {"hidden_act", "\"gelu\"", "vision_config: hidden_act is \"gelu\", expected \"gelu_pytorch_tanh\""},
        {"patch_size", "14", "vision_config: patch_size is 14, expected 16"},
        {"spatial_merge_size", "4", "vision_config: spatial_merge_size is 4, expected 2"},
        {"deepstack_visual_indexes", "[8, 16, 24]", "vision_config: deepstack_visual_indexes is [8,16,24], expected []"},
        {"depth", "0", "vision_config: depth is 0, expected a whole number from 1 to"},
        {"num_heads", "17", "vision_config: hidden_size is 1152 for 17 heads, expected heads of a multiple of 8 up to 128"},
        {"num_heads", "8", "vision_config: hidden_size is 1152 for 8 heads, expected heads of a multiple of 8 up to 128"},
        {"num_position_embeddings", "2300", "vision_config: num_position_embeddings is 2300, expected the square of a whole number"},
        {"out_hidden_size", "3072", "vision_config: out_hidden_size is 3072, expected hidden_size of the text model, 2048"},
        {"hidden_size", "null", "vision_config: hidden_size is missing, expected a whole number"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_config c;
        struct err e = {0};
        json_t *root = json_load_file(DATA "35b.json", 0, NULL), *tower = json_object_get(root, "vision_config");
        json_object_set_new(tower, rows[i].key, json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
        json_t *patch = json_pack("{s:{s:O}}", "outer", "vision_config", tower);
        char *text = json_dumps(patch, 0);
        assert_false(parse_patched(&c, text, &e));
        if (!strstr(e.msg, rows[i].message))
            fail_msg("%s", e.msg);
        free(text);
        json_decref(patch);
        json_decref(root);
    }
    struct model_config c;
    struct err e = {0};
    assert_true(parse_patched(&c, "{\"outer\": {\"vision_config\": null}}", &e));
    assert_int_equal(c.vision.depth, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config__published_files_are_read_and_named),
        cmocka_unit_test(test_config__golden_checkpoints_load),
        cmocka_unit_test(test_config__missing_fields_have_the_family_defaults),
        cmocka_unit_test(test_config__yarn_in_the_new_and_the_old_place),
        cmocka_unit_test(test_config__stop_ids_and_sampling_come_from_the_generation_file),
        cmocka_unit_test(test_config__what_the_engine_cannot_compute_is_refused),
        cmocka_unit_test(test_config__text_that_is_no_json_object_is_refused),
        cmocka_unit_test(test_config__tied_embeddings_are_noted_and_the_outer_word_counts),
        cmocka_unit_test(test_config__a_vision_tower_that_cannot_be_computed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
