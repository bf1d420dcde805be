/* Compressed KV recipes in the engine on a GPU: an answer depends neither on drafts nor on what was computed before a rewind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "backend/dev.h"
#include "engine/engine.h"
#include "model/kv_recipe.h"

enum { PROMPT = 640, SHARED = 256, TOKENS = 200, CTX = 1024, CHUNK = 128 };

struct answer {
    int     n, n_cached, n_drafts;
    int32_t ids[TOKENS + 8];
    float   prob[TOKENS + 8];
};

static bool gpu(void)
{
    struct err e = {0};
    return dev_backend("cuda", &e);
}

static struct engine *open_engine(const char *kv, int depth)
{
    struct err e = {0};
    struct engine *g = engine_open(&(struct engine_options){.model_dir = "assets/demo", .backend = "cuda", .kv = kv, .n_ctx = CTX, .chunk = CHUNK,
                                                            .fixed_chunk = true, .draft_depth = depth, .n_snapshots = 4}, &e);
    if (!g)
        fail_msg("--kv %s: %s", kv, e.msg);
    return g;
}

static void add_event(struct answer *a, const struct event *ev, bool *done)
{
    for (int k = 0; ev->kind == EV_TOKENS && k < ev->n; k++) {
        a->ids[a->n] = ev->ids[k];
        a->prob[a->n++] = ev->prob[k];
    }
    if (ev->kind != EV_DONE)
        return;
    if (ev->finish == END_FAILED)
        fail_msg("the answer ended after %d tokens: %s", a->n, ev->message);
    a->n_cached = ev->stats.n_cached;
    a->n_drafts += stats_all_drafts(&ev->stats).accepted;
    *done = true;
}

static struct answer ask(struct engine *g, const int32_t *ids, int n, int snapshot_pos, int depth)
{
    const struct sampling greedy = {.max_tokens = TOKENS, .draft_depth = depth};
    const uint32_t serial = engine_submit(g, 1, spans_text(ids, n), snapshot_pos, &greedy);
    struct answer a = {0};
    for (bool done = false; !done;) {
        assert_true(engine_wait(g, 60000));
        struct event_list l = engine_drain(g);
        for (int i = 0; i < l.n; i++) {
            assert_int_not_equal(l.events[i].kind, EV_FATAL);
            if (l.events[i].serial == serial)
                add_event(&a, &l.events[i], &done);
        }
    }
    return a;
}

static void same(const char *what, const char *kv, const struct answer *a, const struct answer *b)
{
    assert_int_equal(a->n, TOKENS);
    if (a->n != b->n || memcmp(a->ids, b->ids, (size_t)a->n * sizeof *a->ids) || memcmp(a->prob, b->prob, (size_t)a->n * sizeof *a->prob))
        fail_msg("--kv %s: the answers differ %s", kv, what);
}

/* Prompts of one kind share their first SHARED ids. */
static void make_prompt(int32_t *ids, unsigned kind)
{
    unsigned seed = 7;
    for (int i = 0; i < PROMPT; i++) {
        seed = seed * 1664525 + 1013904223 + (i == SHARED ? kind : 0);
        ids[i] = (int32_t)(4 + (seed >> 8) % 4000);
    }
}

static void test_recipes__drafts_change_no_bit_on_a_gpu(void **state)
{
    (void)state;
    int32_t ids[PROMPT];
    if (!gpu())
        skip();
    make_prompt(ids, 0);
    for (int i = 0; kv_recipe_at(i); i++) {
        const struct kv_recipe *r = kv_recipe_at(i);
        if (!kv_recipe_compresses(r))
            continue;
        struct engine *g = open_engine(r->name, 3);
        const struct answer with = ask(g, ids, PROMPT, 0, 3);
        engine_close(g);
        g = open_engine(r->name, 0);
        const struct answer without = ask(g, ids, PROMPT, 0, 0);
        engine_close(g);
        assert_true(with.n_drafts > 0);
        same("with drafts", r->name, &without, &with);
    }
}

static void test_recipes__a_rewind_finds_its_rows_on_a_gpu(void **state)
{
    (void)state;
    int32_t first[PROMPT], second[PROMPT];
    if (!gpu())
        skip();
    make_prompt(first, 0);
    make_prompt(second, 1);
    struct engine *g = open_engine("tq4", 3);
    const struct answer before = ask(g, first, PROMPT, SHARED, 3), edited = ask(g, second, PROMPT, SHARED, 3),
        back = ask(g, first, PROMPT, SHARED, 3);
    engine_close(g);
    g = open_engine("tq4", 3);
    const struct answer fresh = ask(g, second, PROMPT, SHARED, 3);
    engine_close(g);
    assert_int_equal(edited.n_cached, SHARED);
    assert_int_equal(back.n_cached, SHARED);
    same("after a rewind", "tq4", &fresh, &edited);
    same("after a second rewind", "tq4", &before, &back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recipes__drafts_change_no_bit_on_a_gpu),
        cmocka_unit_test(test_recipes__a_rewind_finds_its_rows_on_a_gpu),
    };
    return cmocka_run_group_tests_name("cuda_recipes", tests, NULL, NULL);
}
