/* Rotary frequencies, plain and with YaRN: checked against the figures that follow from the published formula. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/ops.h"
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

/* Figures of transformers' _compute_yarn_parameters (src/transformers/modeling_rope_utils.py, Apache-2.0), evaluated in fp32 for 64 rotated dimensions,
 * theta 1e7, beta_fast 32, beta_slow 1, original_max_position_embeddings 262144: see the comment of rope_frequencies(). */
static const struct { int factor, i; float freq; } published[] = {
    {2, 0, 1.000000000e+00f}, {2, 5, 8.058422059e-02f}, {2, 13, 1.433012658e-03f}, {2, 14, 8.659643354e-04f}, {2, 15, 4.905929090e-04f},
    {2, 17, 1.552649483e-04f}, {2, 18, 8.660865569e-05f}, {2, 20, 2.635603414e-05f}, {2, 21, 1.433417128e-05f}, {2, 22, 7.699632079e-06f},
    {2, 27, 6.204688816e-07f}, {2, 31, 8.274085417e-08f},
    {4, 0, 1.000000000e+00f}, {4, 5, 8.058422059e-02f}, {4, 13, 1.433012658e-03f}, {4, 14, 8.659643354e-04f}, {4, 15, 4.742398160e-04f},
    {4, 17, 1.373497507e-04f}, {4, 18, 7.217387611e-05f}, {4, 20, 1.844922372e-05f}, {4, 21, 8.759770935e-06f}, {4, 22, 3.849816039e-06f},
    {4, 27, 3.102344408e-07f}, {4, 31, 4.137042708e-08f},
};
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

static void test_rope__a_longer_context_has_the_published_frequencies(void **state)
{
    (void)state;
    struct model_config c;
    float f[ROPE_MAX_HALF];
    for (size_t k = 0; k < sizeof published / sizeof *published; k++) {
        load_stretched(&c, published[k].factor * 262144, f);
        assert_int_equal((int)c.yarn_factor, published[k].factor);
        assert_true(fabsf(f[published[k].i] / published[k].freq - 1) < 1e-6f);
    }
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
                                     .pos = rotations[k].pos, .scale = c.yarn_attention_factor}, 0, 1);
        const float bound = 1e-6f + (float)rotations[k].pos * f[i] * 0x1p-22f;
        assert_true(fabsf(x[i] - rotations[k].cos) < bound && fabsf(x[i + 32] - rotations[k].sin) < bound);
    }
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
    assert_string_equal(e.msg, "--ctx is 524289, expected 1 to 524288: config.json stretches the model's 262144 positions by YaRN, which goes no further");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope__plain_frequencies_are_powers_of_theta),
        cmocka_unit_test(test_rope__yarn_leaves_fast_ones_and_divides_slow_ones),
        cmocka_unit_test(test_rope__a_longer_context_has_the_published_frequencies),
        cmocka_unit_test(test_rope__far_positions_turn_as_published),
        cmocka_unit_test(test_rope__what_yarn_cannot_reach_is_refused_with_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
