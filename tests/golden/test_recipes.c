/* Compressed KV recipes on whole models: an answer depends neither on drafts, nor on how the prompt was cut, nor on what was computed
 * before a rewind, an interrupt or reading ahead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/load.h"
#include "model/prompt.h"
#include "model/step.h"
#include "tests/checkpoint.h"
#include "tests/emulated.h"

enum { PROMPT = 640, SHORT = 300, SHARED = 256, TOKENS = 90, CTX = 1024, CHUNK = 64 };

/* ---- answers of the demo model: the same bits are the same ids with the same probabilities */

struct answer {
    int     n, n_cached, n_accepted;
    int32_t ids[TOKENS + 8];
    float   prob[TOKENS + 8];
};

static struct engine *open_engine(const char *kv, int depth)
{
    struct err e = {0};
    struct engine *g = engine_open(&(struct engine_options){.model_dir = "assets/demo", .backend = "cpu", .kv = kv, .n_threads = 1, .n_ctx = CTX,
                                                            .chunk = CHUNK, .fixed_chunk = true, .draft_depth = depth, .n_snapshots = 4}, &e);
    if (!g)
        fail_msg("%s", e.msg);
    return g;
}

/* Ends the prompt `serial` when `stop_at` of its positions are there; 0: lets it answer. */
static struct answer collect(struct engine *g, uint32_t serial, size_t stop_at)
{
    struct answer a = {0};
    for (bool done = false; !done;) {
        bool stop = false;
        assert_true(engine_wait(g, 600000));
        struct event_list l = engine_drain(g);
        for (int i = 0; i < l.n; i++) {
            const struct event *ev = &l.events[i];
            assert_int_not_equal(ev->kind, EV_FATAL);
            if (ev->serial != serial)
                continue;
            stop = stop || (ev->kind == EV_PREFILL && stop_at && ev->done >= stop_at);
            for (int k = 0; ev->kind == EV_TOKENS && k < ev->n; k++) {
                a.ids[a.n] = ev->ids[k];
                a.prob[a.n++] = ev->prob[k];
            }
            if (ev->kind == EV_DONE) {
                assert_int_not_equal(ev->finish, END_FAILED);
                a.n_cached = ev->stats.n_cached;
                a.n_accepted = stats_all_drafts(&ev->stats).accepted;
                done = true;
            }
        }
        if (stop && !done)
            engine_interrupt(g, serial);
    }
    return a;
}

static struct answer ask(struct engine *g, const int32_t *ids, int n, int snapshot_pos, int depth)
{
    const struct sampling greedy = {.max_tokens = TOKENS, .draft_depth = depth};
    return collect(g, engine_submit(g, 0, spans_text(ids, n), snapshot_pos, &greedy), 0);
}

static void same(const char *what, const char *kv, const struct answer *a, const struct answer *b)
{
    if (a->n != b->n || memcmp(a->ids, b->ids, (size_t)a->n * sizeof *a->ids) || memcmp(a->prob, b->prob, (size_t)a->n * sizeof *a->prob))
        fail_msg("%s: the answers differ %s", kv, what);
    assert_int_equal(a->n, TOKENS);
}

/* Prompts of one kind share their first SHARED ids. */
static void make_prompt(int32_t *ids, unsigned kind)
{
    unsigned seed = 7;
    for (int i = 0; i < PROMPT; i++) {
        if (i == SHARED)
            seed += 1000 * kind;
        seed = seed * 1664525 + 1013904223;
        ids[i] = (int32_t)(4 + (seed >> 8) % 4000);
    }
}

#define EACH_COMPRESSED(r, i) \
    for (int i = 0; kv_recipe_at(i); i++) \
        for (const struct kv_recipe *r = kv_recipe_at(i); r && kv_recipe_compresses(r); r = NULL)

/* Names of the tests that every compressing recipe runs. */
static const char recipe[] = "tq4";

static void test_recipes__drafts_change_no_bit(void **state)
{
    (void)state;
    int32_t ids[PROMPT];
    make_prompt(ids, 0);
    EACH_COMPRESSED(r, i) {
        if (SANITIZED && strcmp(r->name, recipe))       /* tests/kernels/test_kv runs the operations of all */
            continue;
        struct engine *g = open_engine(r->name, 3);
        const struct answer with = ask(g, ids, SHORT, 0, 3);
        engine_close(g);
        g = open_engine(r->name, 0);
        const struct answer without = ask(g, ids, SHORT, 0, 0);
        engine_close(g);
        assert_true(with.n_accepted > TOKENS / 4);
        same("with drafts", r->name, &without, &with);
    }
}

static void test_recipes__a_rewind_finds_the_exact_rows_before_it(void **state)
{
    (void)state;
    int32_t first[PROMPT], second[PROMPT];
    make_prompt(first, 0);
    make_prompt(second, 1);
    assert_true(PROMPT + TOKENS - SHARED > CHUNK + kv_recipe_find(recipe, NULL)->recent + 4 * KV_BLOCK);        /* the ring has forgotten them */
    struct engine *g = open_engine(recipe, 3);
    const struct answer before = ask(g, first, PROMPT, SHARED, 3), edited = ask(g, second, PROMPT, SHARED, 3),
        back = ask(g, first, PROMPT, SHARED, 3);
    engine_close(g);
    g = open_engine(recipe, 3);
    const struct answer fresh = ask(g, second, PROMPT, SHARED, 3);
    engine_close(g);
    assert_int_equal(edited.n_cached, SHARED);
    assert_int_equal(back.n_cached, SHARED);
    assert_int_equal(fresh.n_cached, 0);
    same("after a rewind", recipe, &fresh, &edited);
    same("after a second rewind", recipe, &before, &back);
}

static void test_recipes__interrupts_and_reading_ahead_change_no_bit(void **state)
{
    (void)state;
    const struct sampling greedy = {.max_tokens = TOKENS, .draft_depth = 3};
    int32_t ids[PROMPT];
    make_prompt(ids, 2);
    struct engine *g = open_engine(recipe, 3);
    const struct answer fresh = ask(g, ids, PROMPT, SHARED, 3);
    engine_close(g);
    g = open_engine(recipe, 3);
    engine_read_ahead(g, 0, spans_text(ids, 450), SHARED);
    collect(g, engine_submit(g, 0, spans_text(ids, PROMPT), SHARED, &greedy), 256);
    collect(g, engine_submit(g, 0, spans_text(ids, PROMPT), SHARED, &greedy), 512);
    const struct answer resumed = ask(g, ids, PROMPT, SHARED, 3);
    engine_close(g);
    assert_true(resumed.n_cached >= 256);
    same("after interrupts", recipe, &fresh, &resumed);
}

/* ---- cuts of a prompt: a model without DeltaNet layers, whose rows depend on nothing else */

enum { ROWS = SANITIZED ? 250 : 600, DRAFTED = 2 };

static void write_attention_model(struct ck *k)
{
    struct model_config c = ck_tiny();
    c.full[0] = true;
    c.n_full = 2;
    c.n_delta = 0;
    c.head_dim = KV_DIM;
    c.n_q_heads = 2;
    ck_model(k, &c, CK_BF16, "model.language_model.", 1, 1);
    ck_write(k, &c);
}

/* Hidden states of all rows, then of a chain of drafts.  steps: rows a step, prompts otherwise. */
static void run(struct model *m, int rows, bool steps, float *out)
{
    const size_t H = (size_t)m->cfg.hidden;
    int32_t ids[ROWS];
    for (int i = 0; i < ROWS; i++)
        ids[i] = (i * 13 + i / 7) % m->cfg.vocab;
    cache_reset(m->cache);
    for (int pos = 0, n; pos < ROWS; pos += n) {
        n = ROWS - pos < rows ? ROWS - pos : rows;
        if (steps) {
            step_run(m->forward, m->cache, ids + pos, n, pos);
            cache_accept(m->cache, n);
        } else {
            prompt_chunk(m->forward, m->cache, ids + pos, n, pos, true);
        }
        memcpy(out + (size_t)pos * H, forward_hidden(m->forward), (size_t)n * H * sizeof *out);
    }
    float *draft = out + ROWS * H, *last = malloc(H * sizeof *last);
    memcpy(last, out + (ROWS - 1) * H, H * sizeof *last);
    for (int i = 0; i < DRAFTED && !steps; i++, draft += H) {
        prompt_mtp(m->forward, m->cache, last, &(int32_t){i + 1}, 1, ROWS - 1 + i, draft);
        memcpy(last, draft, H * sizeof *last);
    }
    free(last);
}

static void test_recipes__bits_do_not_depend_on_the_cuts_of_a_prompt(void **state)
{
    (void)state;
    static const struct { int rows; bool steps; } cuts[] = {{200, false}, {1, false}, {7, false}, {64, false}, {1, true}, {3, true}, {8, true}};
    struct ck k = {0};
    write_attention_model(&k);
    EACH_COMPRESSED(r, i) {
        struct model m;
        struct err e = {0};
        if (!load_open(&m, &(struct load_options){.dir = k.dir, .backend = "cpu", .kv = r->name, .n_threads = 1, .n_ctx = ROWS + 8, .chunk = 200,
                                                  .n_snapshots = LOAD_NO_SNAPSHOTS}, &e))
            fail_msg("%s", e.msg);
        const size_t n = (ROWS + DRAFTED) * (size_t)m.cfg.hidden;
        float *first[2] = {malloc(n * sizeof **first), malloc(n * sizeof **first)}, *other = malloc(n * sizeof *other);
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
            const bool begins = !c || cuts[c].steps != cuts[c - 1].steps;
            const size_t count = cuts[c].steps ? ROWS * (size_t)m.cfg.hidden : n;
            run(&m, cuts[c].rows, cuts[c].steps, begins ? first[cuts[c].steps] : other);
            for (size_t j = 0; j < count && begins; j++)
                assert_true(isfinite(first[cuts[c].steps][j]));
            if (!begins && memcmp(first[cuts[c].steps], other, count * sizeof *other))
                fail_msg("%s: the rows differ when %s have %d", r->name, cuts[c].steps ? "steps" : "chunks", cuts[c].rows);
        }
        free(first[0]), free(first[1]), free(other);
        load_close(&m);
    }
    ck_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recipes__bits_do_not_depend_on_the_cuts_of_a_prompt),
        cmocka_unit_test(test_recipes__drafts_change_no_bit),
        cmocka_unit_test(test_recipes__a_rewind_finds_the_exact_rows_before_it),
        cmocka_unit_test(test_recipes__interrupts_and_reading_ahead_change_no_bit),
    };
    return cmocka_run_group_tests_name("recipes", tests, NULL, NULL);
}
