/* What a step moves, as the measurements count it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "bench/subject.h"

static void test_subject__a_position_costs_what_the_kv_recipe_says(void **state)
{
    (void)state;
    for (int i = 0; kv_recipe_at(i); i++) {
        const struct bench_options o = {.model_dir = "assets/demo", .backend = "cpu", .kv = kv_recipe_at(i)->name, .n_threads = 1};
        struct subject s = {.o = &o};
        struct err e = {0};
        if (!load_check(&s.m, &(struct load_options){.dir = o.model_dir, .backend = o.backend, .kv = o.kv}, &e) || !load_weights(&s.m, NULL, NULL, &e))
            fail_msg("%s", e.msg);
        const struct model_config *c = &s.m.cfg;
        double far = subject_step_bytes(&s, 1, 1000, 4), near = subject_step_bytes(&s, 1, 0, 4);
        /* the MTP block's rows are no part of a step without drafts */
        double exact = c->n_full * 2 * c->n_kv_heads * c->head_dim * (s.m.kv->dtype == DT_F32 ? 4 : 2), code = (double)kv_token_bytes(c, s.m.kv);
        int codes = kv_recipe_compresses(s.m.kv) ? 1000 / 64 * 64 - s.m.kv->recent - s.m.kv->sinks : 0;
        assert_int_equal(far - near, (1000 - codes) * exact + codes * code);
        load_close(&s.m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subject__a_position_costs_what_the_kv_recipe_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
