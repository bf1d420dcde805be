/* Which geometries the operations of a step can run where weights are packed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "model/forward.h"
#include "model/synthetic.h"

static void test_forward__the_known_models_fit(void **state)
{
    (void)state;
    const char *const names[] = {"demo", "35b", "122b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct model_config c;
        struct err e = {0};
        if (!synthetic_config(&c, names[i], 0, &e) || !forward_fits(&c, &e))
            fail_msg("%s: %s", names[i], e.msg);
    }
}

/* One number of a model that fits is changed at a time. */
static void test_forward__what_does_not_fit_is_refused_with_its_number(void **state)
{
    (void)state;
    const struct { size_t at; int value; const char *why; } rows[] = {
        {offsetof(struct model_config, hidden),       3072 + 64, "hidden_size is 3136, expected 128 to 4096 in steps of 128"},
        {offsetof(struct model_config, hidden),       8192, "hidden_size is 8192"},
        {offsetof(struct model_config, head_dim),     128,  "head_dim is 128, expected 256 to 256"},
        {offsetof(struct model_config, n_q_heads),    64,   "query heads per KV head is 32, expected 1 to 16"},
        {offsetof(struct model_config, rotary_dim),   60,   "rotary dimensions is 60, expected 16 to 256 in steps of 16"},
        {offsetof(struct model_config, lin_k_dim),    64,   "linear_key_head_dim is 64"},
        {offsetof(struct model_config, lin_v_dim),    64,   "linear_value_head_dim is 64"},
        {offsetof(struct model_config, conv_kernel),  3,    "linear_conv_kernel_dim is 3"},
        {offsetof(struct model_config, n_experts),    512,  "num_experts is 512, expected 2 to 256"},
        {offsetof(struct model_config, top_k),        17,   "num_experts_per_tok is 17, expected 1 to 16"},
        {offsetof(struct model_config, moe_inter),    1000, "moe_intermediate_size is 1000"},
        {offsetof(struct model_config, shared_inter), 512,  "shared_expert_intermediate_size is 512, expected 1024 to 1024"},
        {offsetof(struct model_config, vocab),        8,    "vocab_size is 8, expected 16 to 1048576"},
        {offsetof(struct model_config, n_layers),     1000, "num_hidden_layers is 1000"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_config c;
        struct err e = {0};
        assert_true(synthetic_config(&c, "122b", 0, &e));
        *(int *)((char *)&c + rows[i].at) = rows[i].value;
        assert_false(forward_fits(&c, &e));
        if (!strstr(e.msg, rows[i].why) || !strstr(e.msg, "--backend cpu can"))
            fail_msg("'%s' does not say '%s'", e.msg, rows[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward__the_known_models_fit),
        cmocka_unit_test(test_forward__what_does_not_fit_is_refused_with_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
