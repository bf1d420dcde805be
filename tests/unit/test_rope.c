/* Rotary frequencies, plain and with YaRN: checked against the published formula and against those of transformers
 * (tests/data/golden/yarn.json). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/ops.h"
#include "model/config.h"
#include "model/rope.h"

static const char plain[] =
    "{\"architectures\": [\"Qwen3_5MoeForConditionalGeneration\"], \"text_config\": {\"hidden_size\": 2048, \"num_hidden_layers\": 40,"
    " \"full_attention_interval\": 4, \"num_attention_heads\": 16, \"num_key_value_heads\": 2, \"head_dim\": 256, \"linear_num_key_heads\": 16,"
    " \"linear_num_value_heads\": 32, \"linear_key_head_dim\": 128, \"linear_value_head_dim\": 128, \"linear_conv_kernel_dim\": 4,"
    " \"num_experts\": 256, \"num_experts_per_tok\": 8, \"moe_intermediate_size\": 512, \"shared_expert_intermediate_size\": 512,"
    " \"vocab_size\": 248320, \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-6, \"max_position_embeddings\": 262144,"
    " \"rope_parameters\": {\"rope_theta\": 10000000, \"partial_rotary_factor\": 0.25, %s}}}";

static void load(struct model_config *c, const char *rope)
{
    char json[2048];
    struct err e = {0};
    snprintf(json, sizeof json, plain, rope);
    if (!config_parse(c, json, strlen(json), "test", &e))
        fail_msg("%s", e.msg);
}

static void test_rope__plain_frequencies_are_powers_of_theta(void **state)
{
    (void)state;
    struct model_config c;
    float f[ROPE_MAX_HALF];
    load(&c, "\"rope_type\": \"default\"");
    rope_frequencies(f, &c);
    for (int i = 0; i < 32; i++)
        assert_true(fabs((double)f[i] * pow(1e7, i / 32.0) - 1) < 1e-6);
    assert_true(c.yarn_attention_factor == 1);
}

static void test_rope__yarn_leaves_fast_ones_and_divides_slow_ones(void **state)
{
    (void)state;
    struct model_config c;
    float f[ROPE_MAX_HALF];
    load(&c, "\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 262144");
    rope_frequencies(f, &c);
    for (int i = 0; i < 32; i++) {
        double ratio = (double)f[i] * pow(1e7, i / 32.0), ramp = fmin(fmax((i - 14) / 8.0, 0), 1);      /* between 14 and 22 */
        assert_true(fabs(ratio - (1 - ramp + ramp / 4)) < 1e-6);
    }
    assert_true(fabs((double)c.yarn_attention_factor - 1.1386294) < 1e-5);      /* 0.1 ln 4 + 1 */
    load(&c, "\"rope_type\": \"yarn\", \"factor\": 2.0, \"original_max_position_embeddings\": 262144");
    assert_true(fabs((double)c.yarn_attention_factor - 1.0693147) < 1e-5);
}

/* Factor 4: cos and sin of a position, times the attention factor. */
static const struct { int pos, i; float cos, sin; } rotations[] = {
    {300000, 0, -1.1320848f, 0.1219058f}, {300000, 7, 1.0856383f, 0.3433169f}, {300000, 16, -0.1266950f, 1.1315588f},
    {300000, 19, 0.1432012f, -1.1295886f}, {300000, 23, 0.8723891f, 0.7317201f}, {300000, 31, 1.1385417f, 0.0141313f},
    {1009999, 0, -0.5695287f, 0.9859584f}, {1009999, 7, -0.5241037f, 1.0108374f}, {1009999, 16, -0.3611856f, 1.0798250f},
    {1009999, 19, 1.1014703f, -0.2885137f}, {1009999, 23, -0.7998803f, 0.8103508f}, {1009999, 31, 1.1376356f, 0.0475628f},
};

static void load_stretched(struct model_config *c, int n_ctx, float *f)
{
    struct err e = {0};
    load(c, "\"rope_type\": \"default\"");
    if (!rope_stretch(c, n_ctx, &e))
        fail_msg("%s", e.msg);
    rope_frequencies(f, c);
}

/* With the factors of --ctx, and with one that only a config.json has. */
static void test_rope__a_longer_context_has_the_published_frequencies(void **state)
{
    (void)state;
    json_t *golden = json_load_file("tests/data/golden/yarn.json", 0, NULL), *g, *x;
    size_t i, k;
    assert_int_equal(json_array_size(json_object_get(golden, "frequencies")), 3);
    json_array_foreach(json_object_get(golden, "frequencies"), i, g) {
        const double factor = json_number_value(json_object_get(g, "factor"));
        struct model_config c;
        float f[ROPE_MAX_HALF];
        char rope[128];
        if (factor == floor(factor)) {
            load_stretched(&c, (int)factor * 262144, f);
        } else {
            snprintf(rope, sizeof rope, "\"rope_type\": \"yarn\", \"factor\": %g, \"original_max_position_embeddings\": 262144", factor);
            load(&c, rope);
            rope_frequencies(f, &c);
        }
        assert_true(fabs((double)c.yarn_factor - factor) < 1e-6);
        assert_true(fabs((double)c.yarn_attention_factor - json_number_value(json_object_get(g, "attention_factor"))) < 1e-6);
        assert_int_equal(json_array_size(json_object_get(g, "inv_freq")), c.rotary_dim / 2);
        json_array_foreach(json_object_get(g, "inv_freq"), k, x)
            assert_true(fabs((double)f[k] / json_number_value(x) - 1) < 1e-6);
    }
    json_decref(golden);
}

/* The angle is computed in fp32: at position 1,009,999 one step of a float is up to 0.06. */
static void test_rope__far_positions_turn_as_published(void **state)
{
    (void)state;
    struct model_config c;
    float f[ROPE_MAX_HALF];
    load_stretched(&c, 1010000, f);
    for (size_t k = 0; k < sizeof rotations / sizeof *rotations; k++) {
        const int i = rotations[k].i;
        float x[64] = {0};
        x[i] = 1;
        rope_cpu(&(struct rope_args){.x = x, .token_stride = 64, .head_stride = 64, .freq = f, .n_tokens = 1, .n_heads = 1, .half = 32,
                                     .first = rotations[k].pos, .scale = c.yarn_attention_factor}, 0, 1);
        const float bound = 1e-6f + (float)rotations[k].pos * f[i] * 0x1p-22f;
        assert_true(fabsf(x[i] - rotations[k].cos) < bound && fabsf(x[i + 32] - rotations[k].sin) < bound);
    }
}

/* Qwen3_5MoeTextRotaryEmbedding.apply_interleaved_mrope() with mrope_section [11, 11, 10]: all pairs turn by time, then of rows and columns every
 * third one replaces it. */
static void interleave(float *angle, const float *freq, const float at[3])
{
    static const int section[] = {11, 11, 10};
    for (int i = 0; i < 32; i++)
        angle[i] = at[0] * freq[i];
    for (int axis = 1; axis < 3; axis++)
        for (int i = axis; i < 3 * section[axis]; i += 3)
            angle[i] = at[axis] * freq[i];
}

static void test_rope__pictures_in_a_longer_context_turn_as_published(void **state)
{
    (void)state;
    static const struct rope_position at[] = {{7, 7, 9}, {270000, 270031, 270104}, {500000, 500063, 500000}};
    json_t *golden = json_load_file("tests/data/golden/yarn.json", 0, NULL), *g;
    size_t k;
    json_array_foreach(json_object_get(golden, "frequencies"), k, g) {
        const float scale = (float)json_number_value(json_object_get(g, "attention_factor"));
        struct model_config c;
        float f[ROPE_MAX_HALF], published[32], angle[32], x[3][64];
        if (k == 2)
            continue;                           /* no factor of --ctx */
        load_stretched(&c, (int)json_number_value(json_object_get(g, "factor")) * 262144, f);
        for (size_t i = 0; i < 32; i++)
            published[i] = (float)json_number_value(json_array_get(json_object_get(g, "inv_freq"), i));
        for (int i = 0; i < 3 * 64; i++)
            x[i / 64][i % 64] = i % 64 < 32 ? 2 : 3;
        rope_cpu(&(struct rope_args){.x = x[0], .token_stride = 64, .head_stride = 64, .freq = f, .n_tokens = 3, .n_heads = 1, .half = 32, .at = at,
                                     .scale = c.yarn_attention_factor}, 0, 3);
        for (int t = 0; t < 3; t++) {
            interleave(angle, published, (const float[]){(float)at[t].t, (float)at[t].h, (float)at[t].w});
            for (int i = 0; i < 32; i++) {
                const float sine = sinf(angle[i]) * scale, cosine = cosf(angle[i]) * scale, bound = 5e-6f + fabsf(angle[i]) * 0x1p-20f;
                if (fabsf(x[t][i] - (2 * cosine - 3 * sine)) > bound || fabsf(x[t][i + 32] - (3 * cosine + 2 * sine)) > bound)
                    fail_msg("position %d, pair %d: %g and %g", t, i, (double)x[t][i], (double)x[t][i + 32]);
            }
        }
    }
    json_decref(golden);
}

static void test_rope__what_yarn_cannot_reach_is_refused_with_figures(void **state)
{
    (void)state;
    struct model_config c;
    struct err e = {0};
    load(&c, "\"rope_type\": \"default\"");
    assert_false(rope_stretch(&c, 1048577, &e));
    assert_string_equal(e.msg, "--ctx is 1048577, expected 1 to 1048576: the model's 262144 positions can be stretched 4 times by YaRN, no further");
    assert_true(c.yarn_factor == 1 && c.max_pos == 262144);
    load(&c, "\"rope_type\": \"yarn\", \"factor\": 2.0, \"original_max_position_embeddings\": 262144");
    assert_true(rope_stretch(&c, 524288, &e));
    assert_false(rope_stretch(&c, 524289, &e));
    assert_string_equal(e.msg,
                        "--ctx is 524289, expected 1 to 524288: config.json stretches the model's 262144 positions by YaRN, which goes no further");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope__plain_frequencies_are_powers_of_theta),
        cmocka_unit_test(test_rope__yarn_leaves_fast_ones_and_divides_slow_ones),
        cmocka_unit_test(test_rope__a_longer_context_has_the_published_frequencies),
        cmocka_unit_test(test_rope__far_positions_turn_as_published),
        cmocka_unit_test(test_rope__pictures_in_a_longer_context_turn_as_published),
        cmocka_unit_test(test_rope__what_yarn_cannot_reach_is_refused_with_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
