/* Rotary frequencies, plain and with YaRN: checked against the figures that follow from the published formula. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope__plain_frequencies_are_powers_of_theta),
        cmocka_unit_test(test_rope__yarn_leaves_fast_ones_and_divides_slow_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
