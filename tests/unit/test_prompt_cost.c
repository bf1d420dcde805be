/* Calculated cost of a prompt, with the shapes of the 122B model in INT4 and FP8; no data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>

#include "bench/cost.h"
#include "model/synthetic.h"
#include "model/traffic.h"

static struct model_config config;
static struct weights weights;
static struct layer_weights layers[MODEL_MAX_LAYERS];
static struct expert_weights expert;
static const struct kv_recipe *kv;

static const struct prompt_machine gb10 = {240, 95}, only_memory = {240, 1e12}, only_products = {1e12, 95};

static struct weight matrix(enum weight_format format, int rows, int cols)
{
    return (struct weight){.format = format, .rows = rows, .cols = cols};
}

static void fill_layer(struct layer_weights *l, bool full, enum weight_format format, enum weight_format shared, struct expert_weights *experts)
{
    const struct model_config *c = &config;
    const int H = c->hidden, q = c->n_q_heads * c->head_dim, kv_dim = c->n_kv_heads * c->head_dim, value = config_lin_value_dim(c);
    l->full = full;
    l->attn = (struct attn_weights){.q = matrix(format, 2 * q, H), .k = matrix(format, kv_dim, H), .v = matrix(format, kv_dim, H),
                                    .o = matrix(format, H, q)};
    l->delta = (struct delta_weights){.qkv = matrix(format, config_conv_dim(c), H), .z = matrix(format, value, H),
                                      .a = matrix(format, c->lin_v_heads, H), .b = matrix(format, c->lin_v_heads, H),
                                      .out = matrix(format, H, value)};
    l->moe = (struct moe_weights){.router = matrix(WEIGHT_DENSE, c->n_experts, H), .shared_gate = matrix(WEIGHT_DENSE, 1, H), .experts = experts};
    l->moe.shared.gate = matrix(shared, 2 * c->shared_inter, H);       /* with up, as it is packed */
    l->moe.shared.down = matrix(shared, H, c->shared_inter);
}

static int open_shapes(void **state)
{
    (void)state;
    static struct expert_weights mtp_expert;
    struct err e;
    if (!synthetic_config(&config, "122b", 0, &e))
        return -1;
    kv = kv_recipe_find("bf16", &e);
    expert.gate = matrix(WEIGHT_INT4, 2 * config.moe_inter, config.hidden);
    expert.down = matrix(WEIGHT_INT4, config.hidden, config.moe_inter);
    mtp_expert.gate = matrix(WEIGHT_DENSE, 2 * config.moe_inter, config.hidden);
    mtp_expert.down = matrix(WEIGHT_DENSE, config.hidden, config.moe_inter);
    for (int i = 0; i < config.n_layers; i++)
        fill_layer(&layers[i], config.full[i], WEIGHT_INT4, WEIGHT_FP8, &expert);
    weights = (struct weights){.layers = layers, .mtp = {.present = true, .fc = matrix(WEIGHT_DENSE, config.hidden, 2 * config.hidden)}};
    fill_layer(&weights.mtp.layer, true, WEIGHT_DENSE, WEIGHT_DENSE, &mtp_expert);
    return 0;
}

static struct prompt_cost cost(int n, int chunk, const struct prompt_machine *m)
{
    return prompt_cost(&config, &weights, kv, n, chunk, false, m);
}

/* Lengths whose cost is printed; 20,000 tokens are an agent's first prompt. */
static const int told[] = {128, 2048, 8192, 20000, 32768};
enum { N_TOLD = sizeof told / sizeof *told };

/* Two operations for each of the 9 billion parameters that a token uses behind the head's, and at most a fifth more for attention and the chunk
 * form. */
static void test_prompt_cost__a_token_costs_what_its_parameters_do(void **state)
{
    (void)state;
    const struct prompt_cost c = cost(8192, 4096, &gb10);
    const double per_token = c.flops / 8192;
    assert_true(per_token > 18e9 && per_token < 22e9);
}

static void test_prompt_cost__each_chunk_reads_all_weights(void **state)
{
    (void)state;
    double all = config.n_experts * (double)traffic_expert(&expert, true) * config.n_layers;
    assert_true(all > 59e9 && all < 61e9);
    const double one = cost(4096, 4096, &gb10).bytes, four = cost(4096, 1024, &gb10).bytes;
    /* and all that is no expert; of the MTP block only KV rows are wanted */
    assert_true(four - one > 3 * all && four - one < 3 * all * 1.1);
    assert_true(cost(128, 4096, &gb10).bytes > 0.98 * all);
}

static double sum_of(const struct prompt_layer *l, char what)
{
    double sum = 0;
    for (int i = 0; i < l->n; i++)
        sum += what == 'w' ? l->all[i].weights : what == 'a' ? l->all[i].read + l->all[i].written : l->all[i].flops;
    return sum;
}

/* Every matrix of the layer is read once, each expert among them; every number that an operation leaves for another is written and read, so bytes of
 * activations follow from the widths. */
static void test_prompt_layer__operations_add_up_to_what_the_shapes_say(void **state)
{
    (void)state;
    const struct model_config *c = &config;
    const double n = 4096, H = c->hidden, conv = config_conv_dim(c), value = config_lin_value_dim(c),
        heads = c->lin_v_heads, slots = n * (c->top_k + 1), S = value * c->lin_k_dim;
    for (int i = 0; i < c->n_layers; i++) {
        const struct layer_weights *w = &layers[i];
        const struct weight *mixer[] = {&w->attn.q, &w->attn.k, &w->attn.v, &w->attn.o, &w->delta.qkv, &w->delta.z, &w->delta.a, &w->delta.b,
                                        &w->delta.out};
        double matrices = (double)(c->n_experts * traffic_expert(&expert, true) + traffic_expert(&w->moe.shared, true)
                                  + traffic_matrix(&w->moe.router, true) + traffic_matrix(&w->moe.shared_gate, true));
        for (int m = w->full ? 0 : 4; m < (w->full ? 4 : 9); m++)
            matrices += (double)traffic_matrix(mixer[m], true);
        struct prompt_layer l;
        prompt_layer(&l, c, w, kv, (int)n, 0, false);
        assert_true(fabs(sum_of(&l, 'w') - matrices) < 1e-6 * matrices);
        if (w->full)
            continue;
        const double norms = n * H * (4 + 2) + n * H * (4 + 4 + 2), mixed = n * (4 * H * 2 + 2 * conv + 8 * heads),
            rule = n * (2 * conv + 8 * heads + 4 * value) + 8 * S + n * value * (4 + 2),
            out = n * (2 * value + 8 * H), routed = n * (4 * H + 4 * (c->n_experts + 1) + 4 * (c->n_experts + c->top_k + 3 * c->top_k + 1)),
            experts = n * 2 * H + slots * c->moe_inter * (2 + 2) + slots * H * (2 + 2) + n * 8 * H;
        const double all = norms + mixed + rule + out + routed + experts;
        assert_true(fabs(sum_of(&l, 'a') - all) < 1e-6 * all);
        struct layer_weights narrow = *w;       /* the norm leaves rows in fp32 as well, which a and b read once for both */
        narrow.delta.a.format = narrow.delta.b.format = WEIGHT_DENSE;
        prompt_layer(&l, c, &narrow, kv, (int)n, 0, false);
        assert_true(fabs(sum_of(&l, 'a') - (all + n * H * 4)) < 1e-6 * all);
    }
}

static void test_prompt_cost__memory_or_products_are_the_bound(void **state)
{
    (void)state;
    const struct prompt_cost both = cost(2048, 4096, &gb10), memory = cost(2048, 4096, &only_memory), products = cost(2048, 4096, &only_products);
    assert_true(fabs(memory.ms - memory.bytes / 240e6) < 1e-6 * memory.ms);
    assert_true(fabs(products.ms - products.flops / 95e9) < 1e-3 * products.ms);
    assert_true(both.ms >= memory.ms && both.ms >= products.ms && both.ms <= memory.ms + products.ms);
}

/* Up to 128 tokens activations are two halves, so products cost twice. */
static void test_prompt_cost__short_chunks_compute_twice(void **state)
{
    (void)state;
    assert_true(cost(128, 4096, &gb10).flops > 1.8 * cost(129, 4096, &gb10).flops * 128 / 129);
}

/* 8.8 of some 19 GFLOP a token are in eight bits, and count half: of the routed experts' gate and up, in_proj_qkv, q, k and v.  Products of chunks of
 * up to 128 tokens stay as they are, and experts with few rows. */
static void test_prompt_cost__eight_bits_count_half(void **state)
{
    (void)state;
    const struct model_config *c = &config;
    const double delta = c->n_layers - c->n_full, rows = delta * config_conv_dim(c)
        + c->n_full * 2.0 * (c->n_q_heads + c->n_kv_heads) * c->head_dim + c->n_layers * 2.0 * c->top_k * c->moe_inter;
    const struct prompt_cost exact = cost(4096, 4096, &gb10), int8 = prompt_cost(&config, &weights, kv, 4096, 4096, true, &gb10),
        small = prompt_cost(&config, &weights, kv, 128, 4096, true, &gb10);
    assert_true(fabs((exact.flops - int8.flops) / 4096 - rows * c->hidden) < 1e6);
    assert_true(prompt_cost(&config, &weights, kv, 8192, 8192, true, &gb10).ms < 0.82 * cost(8192, 8192, &gb10).ms);
    assert_true(small.flops == cost(128, 4096, &gb10).flops);
    const double mixers = rows - c->n_layers * 2.0 * c->top_k * c->moe_inter;
    assert_true(fabs((cost(640, 4096, &gb10).flops - prompt_cost(c, &weights, kv, 640, 4096, true, &gb10).flops) / 640 - mixers * c->hidden) < 1e6);
    for (int i = 0; i < N_TOLD; i++) {
        const int n = told[i];
        const struct prompt_cost p = prompt_cost(&config, &weights, kv, n, 8192, true, &gb10);
        print_message("%5d tokens in eight bits: %.0f GB, %.1f TFLOP, %.0f ms, %.0f tok/s\n", n, p.bytes * 1e-9, p.flops * 1e-12, p.ms,
                      1e3 * n / p.ms);
    }
}

static void test_prompt_cost__what_a_gb10_is_said_to_need(void **state)
{
    (void)state;
    for (int share = 100; share >= 80; share -= 20)
        for (int i = 0; i < N_TOLD; i++) {
            const struct prompt_cost c = cost(told[i], 8192, &(struct prompt_machine){240, 0.95 * share}),
                s = cost(told[i], 1024, &(struct prompt_machine){240, 0.95 * share});
            print_message("%5d tokens, %d %% of 95 TFLOP/s: %.0f GB, %.1f TFLOP, %.0f ms, %.0f tok/s; in chunks of 1,024 %.0f tok/s\n", told[i],
                          share, c.bytes * 1e-9, c.flops * 1e-12, c.ms, 1e3 * told[i] / c.ms, 1e3 * told[i] / s.ms);
            assert_true(s.ms >= c.ms);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompt_cost__a_token_costs_what_its_parameters_do),
        cmocka_unit_test(test_prompt_cost__each_chunk_reads_all_weights),
        cmocka_unit_test(test_prompt_layer__operations_add_up_to_what_the_shapes_say),
        cmocka_unit_test(test_prompt_cost__memory_or_products_are_the_bound),
        cmocka_unit_test(test_prompt_cost__short_chunks_compute_twice),
        cmocka_unit_test(test_prompt_cost__eight_bits_count_half),
        cmocka_unit_test(test_prompt_cost__what_a_gb10_is_said_to_need),
    };
    return cmocka_run_group_tests(tests, open_shapes, NULL);
}
