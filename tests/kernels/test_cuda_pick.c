#include "tests/kernels/pick.h"

/* Not a bound, a figure. */
static void test_pick__how_long_it_takes(void **state)
{
    (void)state;
    need_device();
    const struct { const char *name; struct step_sampling how; } rows[] = {
        {"greedy", {0}},
        {"top-k 20, top-p 0.95", {.temperature = 0.6f, .top_k = 20, .top_p = 0.95f}},
        {"top-p 0.95", {.temperature = 0.6f, .top_p = 0.95f}},
        {"nothing cut", {.temperature = 1}},
        {"top-k 900", {.temperature = 1, .top_k = 900}},
        {"top-k 20, 8 alternatives", {.temperature = 0.6f, .top_k = 20, .n_alternatives = 8}},
        {"temperature 5, top-p 0.95", {.temperature = 5, .top_p = 0.95f}},
    };
    for (int n = 1; n <= 4; n += 2)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            struct rig g;
            struct err e;
            rig_open(&g, 248320, n);
            random_logits(&g, 2);
            for (int j = 0; j < n * g.vocab; j += 5001)
                g.logits[j] += 6;
            g.how = rows[i].how;
            g.how.repetition_penalty = 1;
            g.how.n_ids = g.vocab;
            g.how.room = INT32_MAX;
            put(&g);
            dev->graph_begin(dev);
            for (int j = 0; j < 20; j++)
                launch(&g, false);
            struct dev_graph *graph = dev->graph_end(dev, &e);
            assert_non_null(graph);
            dev->graph_launch(dev, graph);
            finish();
            int64_t t = clock_ns();
            for (int j = 0; j < 5; j++)
                dev->graph_launch(dev, graph);
            finish();
            printf("step_pick %d row%s %-26s %7.1f us\n", n, n > 1 ? "s," : ", ", rows[i].name, clock_ms_since(t) * 1000 / 100);
            dev->graph_free(dev, graph);
            rig_close(&g);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PICK_TESTS,
        cmocka_unit_test(test_pick__how_long_it_takes),
    };
    return cmocka_run_group_tests(tests, open_cuda, close_device);
}
