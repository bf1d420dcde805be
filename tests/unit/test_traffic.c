/* Bytes that steps move, as measurements and chat count them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>

#include "engine/load.h"
#include "model/traffic.h"

static void open_demo(struct model *m, const char *kv)
{
    const struct load_options o = {.dir = "assets/demo", .backend = "cpu", .kv = kv, .n_threads = 1};
    struct err e = {0};
    if (!load_check(m, &o, &e) || !load_weights(m, NULL, NULL, &e))
        fail_msg("%s", e.msg);
}

static void test_traffic__a_position_costs_what_the_kv_recipe_says(void **state)
{
    (void)state;
    for (int i = 0; kv_recipe_at(i); i++) {
        struct model m;
        open_demo(&m, kv_recipe_at(i)->name);
        const struct model_config *c = &m.cfg;
        const struct traffic t = traffic_of(c, &m.weights, m.head, m.kv, false);
        double far = traffic_step(&t, 1, 1000, 4), near = traffic_step(&t, 1, 0, 4);
        /* the MTP block's rows are no part of a step without drafts */
        double exact = c->n_full * 2 * c->n_kv_heads * c->head_dim * (m.kv->dtype == DT_F32 ? 4 : 2), code = (double)kv_token_bytes(c, m.kv);
        int codes = kv_recipe_compresses(m.kv) ? 1000 / 64 * 64 - m.kv->recent - m.kv->sinks : 0;
        assert_int_equal(far - near, (1000 - codes) * exact + codes * code);
        load_close(&m);
    }
}

static void test_traffic__a_row_more_costs_its_experts(void **state)
{
    (void)state;
    struct model m;
    open_demo(&m, NULL);
    const struct traffic t = traffic_of(&m.cfg, &m.weights, m.head, m.kv, false);
    const double one = traffic_distinct(&t, 1), four = traffic_distinct(&t, 4);
    assert_true(fabs(one - m.cfg.top_k) < 1e-9 && four > one && four < 4 * one && traffic_distinct(&t, 1e6) <= m.cfg.n_experts);
    double experts = 0;
    for (int i = 0; i < m.cfg.n_layers; i++)
        experts += (double)traffic_expert(&m.weights.layers[i].moe.experts[0], false);
    assert_true(fabs(traffic_step(&t, 1, 0, 5) - traffic_step(&t, 1, 0, 3) - 2 * experts) < 1);
    assert_true(m.weights.mtp.present && traffic_mtp(&t, one) > t.mtp && t.draft_head > 0 && t.mtp_rows > 0 && t.mtp_rows < t.mtp
                && traffic_mtp(&t, one) + t.draft_head < traffic_step(&t, 1, 0, one));
    load_close(&m);
}

static void test_traffic__a_draft_reads_half_of_an_mtp_block_in_fp8_and_little_more_than_a_quarter_in_int4(void **state)
{
    (void)state;
    double bytes[3];
    for (int i = MTP_STORED; i <= MTP_INT4; i++) {
        struct model m;
        open_demo(&m, NULL);
        const struct moe_weights *moe = &m.weights.mtp.layer.moe;
        weights_make_mtp(&m.weights, &m.cfg, (enum mtp_form)i);
        const struct traffic t = traffic_of(&m.cfg, &m.weights, m.head, m.kv, false);
        bytes[i] = traffic_mtp(&t, m.cfg.top_k) - (double)(weight_bytes(&moe->router) + weight_bytes(&moe->shared_gate));
        if (i == MTP_INT4)                  /* fc and the shared expert are in FP8, and INT4 has zero points */
            bytes[i] -= (double)((3 * m.cfg.shared_inter + 2 * m.cfg.hidden) * m.cfg.hidden) / 2;
        load_close(&m);
    }
    const double fp8 = bytes[MTP_FP8] / bytes[MTP_STORED] - 0.5, int4 = bytes[MTP_INT4] / bytes[MTP_STORED] - 0.25;
    assert_true(fp8 >= 0 && fp8 < 0.001);
    assert_true(int4 >= 0 && int4 < 2.5 / 256 + 0.001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_traffic__a_position_costs_what_the_kv_recipe_says),
        cmocka_unit_test(test_traffic__a_row_more_costs_its_experts),
        cmocka_unit_test(test_traffic__a_draft_reads_half_of_an_mtp_block_in_fp8_and_little_more_than_a_quarter_in_int4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
