/* Steps recorded and launched on a CPU, on real checkpoints: every depth gives the answer of plain prompt operations, whatever the sampling;
 * what nobody heard of leaves no trace; states taken on the way change nothing.  HEAD=planes, MTP=int4: with these
 * forms of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/sampler.h"
#include "model/prompt.h"
#include "tests/emulated.h"
#include "tests/golden/answers.h"

static bool trained;                    /* only then are drafts accepted */

/* Greedy, a token at a time, by the operations of prompts. */
static void test_stepper__greedy_is_what_prompt_operations_give(void **state)
{
    (void)state;
    const struct answer a = ask(&(struct request){.depth = 3});
    const size_t V = (size_t)model.cfg.vocab;
    float *logits = malloc(V * sizeof *logits);
    read_prompt(PROMPT);
    const float *hidden = forward_last_hidden(model.cache);
    assert_int_equal(a.n, MOST);
    assert_int_equal(a.ended, STEP_FULL);
    for (int i = 0; i < a.n; i++) {
        prompt_head(model.forward, model.head, hidden, 1, logits);
        const int32_t best = sampler_argmax(logits, model.cfg.vocab);
        if (best != a.ids[i])           /* chunks round otherwise than steps: only a near tie may differ */
            assert_true(logits[best] - logits[a.ids[i]] < 2e-3f);
        prompt_run(model.forward, model.cache, &a.ids[i], 1, PROMPT + i);
        hidden = forward_hidden(model.forward);
    }
    free(logits);
}

/* A picture of 2 x 3 tokens in the prompt: positions differ by axis, and those of the text after it are behind the KV rows.  However the prompt is
 * cut, the keys are the same, and an answer is that of prompt operations. */
static void test_stepper__positions_may_differ_from_the_index_of_the_row(void **state)
{
    (void)state;
    enum { AT = 2, H = 2, W = 3, END = AT + H * W, OFFSET = W - H * W };
    struct rope_position at[END] = {{0, 0, 0}, {1, 1, 1}};
    for (int i = 0; i < H * W; i++)
        at[AT + i] = (struct rope_position){AT, AT + i / W, AT + i % W};
    const size_t bytes = cache_rows_bytes(model.cache, 0, PROMPT), V = (size_t)model.cfg.vocab;
    float *rows[4];
    for (int cut = 0; cut < 4; cut++) {         /* the last one: as text */
        cache_reset(model.cache);
        if (cut < 3)
            cache_set_positions(model.cache, at, END, OFFSET);
        const int first = cut == 1 ? 1 : cut == 2 ? END - 2 : PROMPT;
        prompt_chunk(model.forward, model.cache, prompt, first, 0, true);
        if (first < PROMPT)
            prompt_chunk(model.forward, model.cache, prompt + first, PROMPT - first, first, true);
        rows[cut] = malloc(bytes);
        cache_rows_save(model.cache, 0, PROMPT - 1, rows[cut]);
    }
    const size_t saved = cache_rows_bytes(model.cache, 0, PROMPT - 1);
    const int n = (int)(saved / sizeof(float));
    const double size = furthest(rows[0], NULL, n);
    assert_true(furthest(rows[1], rows[0], n) < 1e-3 * size && furthest(rows[2], rows[0], n) < 1e-3 * size);
    assert_true(furthest(rows[3], rows[0], n) > 0.05 * size);
    struct request q = {.is_read = true};
    for (q.depth = 0; q.depth <= 3; q.depth += 3) {
        cache_reset(model.cache);
        cache_set_positions(model.cache, at, END, OFFSET);
        prompt_chunk(model.forward, model.cache, prompt, PROMPT, 0, true);
        const struct answer a = ask(&q);
        float *logits = malloc(V * sizeof *logits);
        cache_reset(model.cache);
        cache_set_positions(model.cache, at, END, OFFSET);
        prompt_chunk(model.forward, model.cache, prompt, PROMPT, 0, true);
        const float *hidden = forward_last_hidden(model.cache);
        for (int i = 0; i < a.n; i++) {
            prompt_head(model.forward, model.head, hidden, 1, logits);
            assert_true(logits[sampler_argmax(logits, model.cfg.vocab)] - logits[a.ids[i]] < 2e-3f);
            prompt_run(model.forward, model.cache, &a.ids[i], 1, PROMPT + i);
            hidden = forward_hidden(model.forward);
        }
        free(logits);
    }
    for (int cut = 0; cut < 4; cut++)
        free(rows[cut]);
}

static void test_stepper__every_depth_gives_the_same_answer(void **state)
{
    (void)state;
    const struct request list[] = {
        {.depth = 0},
        {.how = {.repetition_penalty = 1.3f, .presence_penalty = 0.7f}},
        {.how = {.temperature = 1, .rng = 7}},
        {.how = {.temperature = 0.8f, .top_k = 20, .top_p = 0.9f, .min_p = 0.02f, .rng = 8, .n_alternatives = 5}},
        {.how = {.temperature = 1.2f, .presence_penalty = 1, .repetition_penalty = 1.1f, .rng = 9, .n_alternatives = 8}, .bias_id = 3, .bias = 2},
        {.how = {.room = 1}}, {.how = {.room = 9}},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct request q = list[i];
        const struct answer want = ask(&q);
        int accepted = 0;
        for (q.depth = 1; q.depth <= DEPTH; q.depth += 2) {
            const struct answer got = ask(&q);
            same_answer(&got, &want);
            if (q.how.n_alternatives)
                assert_memory_equal(got.logprobs, want.logprobs, (size_t)want.n * sizeof *want.logprobs);
            accepted += got.n_accepted;
        }
        assert_true(i || !trained || accepted > 0);
        struct request stopped = list[i];       /* at its tenth id, wherever that came first */
        if (want.n < 10)
            continue;
        stopped.how.n_stop = 1;
        stopped.how.stop[0] = want.ids[9];
        const struct answer cut = ask(&stopped);
        assert_int_equal(cut.ended, STEP_STOPPED);
        assert_true(cut.n <= 10 && cut.ids[cut.n - 1] == want.ids[9]);
        for (stopped.depth = 1; stopped.depth <= 3; stopped.depth += 2) {
            const struct answer got = ask(&stopped);
            same_answer(&got, &cut);
        }
    }
}

static void test_stepper__states_taken_on_the_way_change_nothing(void **state)
{
    (void)state;
    for (int depth = 0; depth <= 3; depth += 3) {
        struct request q = {.how = {.temperature = 0.7f, .presence_penalty = 0.5f, .rng = 5}, .depth = depth};
        const struct answer want = ask(&q);
        for (q.settle_every = 1; q.settle_every <= 3; q.settle_every += 2) {
            const struct answer got = ask(&q);
            same_answer(&got, &want);
        }
    }
}

/* After prompts that are shorter than the convolution's window, too. */
static void test_stepper__saved_states_bring_an_answer_back(void **state)
{
    (void)state;
    void *states = malloc(cache_saved_bytes(&model.cfg, model.kv));
    for (int n = 1; n <= PROMPT; n += n < 3 ? 1 : 4)
        for (int depth = 0; depth <= 3; depth += 3) {
            struct request q = {.n_prompt = n, .depth = depth};
            struct answer want, got;
            want = ask(&q);
            read_prompt(n);
            cache_state_save(model.cache, states);
            ask(&(struct request){.depth = 1});                         /* something else */
            read_prompt(n);             /* its rows; the states are taken back */
            prompt_run(model.forward, model.cache, prompt, 1, n);
            cache_state_load(model.cache, states);
            q.is_read = true;
            got = ask(&q);
            same_answer(&got, &want);
            q.is_read = false;
            q.settle_every = 1;
            got = ask(&q);
            same_answer(&got, &want);
        }
    free(states);
}

/* ---- no memory ---- */

static int n_left;                      /* pieces of memory that the device still gives */
static void *(*give)(struct dev *d, size_t bytes);

static void *give_few(struct dev *d, size_t bytes)
{
    return n_left-- > 0 ? give(d, bytes) : NULL;
}

static bool open_all(struct err *e)
{
    const struct kv_shape shape = {.cfg = &model.cfg, .recipe = model.kv, .n_ctx = CTX, .max_rows = 64, .n_slots = 1};
    struct cache *k = cache_open(model.dev, &shape, e);
    struct forward *f = k ? forward_open(model.dev, &model.cfg, &model.weights, 64, e) : NULL;
    struct stepper *s = f ? stepper_open(f, &k, 1, model.head, DEPTH, e) : NULL;
    stepper_close(s);
    forward_close(f);
    cache_close(k);
    return s;
}

static void test_stepper__without_memory_the_reason_is_given(void **state)
{
    (void)state;
    bool ok = false;
    int n = 0;
    give = model.dev->alloc;
    model.dev->alloc = model.dev->alloc_host = give_few;
    for (; !ok && n < 100; n++) {
        struct err e = {0};
        n_left = n;
        ok = open_all(&e);
        if (!ok && (!strstr(e.msg, "no memory for ") || !strstr(e.msg, " MiB asked for")))
            fail_msg("after %d pieces: '%s'", n, e.msg);
    }
    model.dev->alloc = model.dev->alloc_host = give;
    assert_true(ok && n > 4);
}

static bool cannot_run(struct dev *d, struct err *e)
{
    (void)d;
    return err_set(e, "operation step_experts failed: its blocks are not all resident");
}

static void test_stepper__a_device_that_cannot_run_the_experts_is_refused(void **state)
{
    (void)state;
    bool (*const finish)(struct dev *d, struct err *e) = model.dev->finish;
    struct err e = {0};
    model.dev->finish = cannot_run;
    assert_false(open_all(&e));
    model.dev->finish = finish;
    assert_string_equal(e.msg, "operation step_experts failed: its blocks are not all resident");
    assert_true(open_all(&e));
}

/* The states after the first n tokens, as saved, by prompt operations for the prompt and steps for the rest. */
static void states_at(int depth, int n_steps, int ahead, int n_delivered, void *out, int *pos)
{
    struct step_result r;
    struct err e;
    begin(&(struct request){.depth = depth});
    for (int i = 0; i < n_steps; i++) {
        stepper_launch(asked());
        if (i >= ahead)
            assert_true(stepper_wait(asked(), &r, &e));
    }
    *pos = stepper_end(asked(), n_delivered, &e);
    assert_true(*pos > 0);
    cache_state_save(model.cache, out);
}

static void test_stepper__what_nobody_heard_leaves_no_trace(void **state)
{
    (void)state;
    const size_t bytes = cache_saved_bytes(&model.cfg, model.kv);
    char *want = malloc(bytes), *got = malloc(bytes);
    for (int depth = 0; depth <= 3; depth += 3)
        for (int n = 1; n <= 7; n += n < 3 ? 1 : 4)
            for (int back = 0; back <= 2; back++) {
                int at, pos;
                states_at(depth, n, 0, n, want, &at);
                states_at(depth, n + back, back, n, got, &pos);
                assert_int_equal(pos, at);
                if (memcmp(got, want, bytes))
                    fail_msg("depth %d: after %d steps, %d more and those taken back, the states differ", depth, n, back);
            }
    free(want), free(got);
}

/* ---- rows of the MTP block ---- */

/* Its keys after an answer, of positions up to the one before the last token; n_more steps are launched behind the end. */
static int mtp_keys(const struct request *q, int n_more, float *out)
{
    const struct kv_rows *kv = &model.cache->kv[model.cfg.n_full];
    const size_t row = (size_t)kv->n_kv_heads * (size_t)kv->head_dim;
    struct step_result r;
    struct err e;
    int n_taken = 0, n_launched = 0;
    bool ended = false;
    memset(kv->k, 0, CTX * row * sizeof(float));
    begin(q);
    while (!ended) {
        while (n_launched <= n_taken + n_more) {
            stepper_launch(asked());
            n_launched++;
        }
        assert_true(stepper_wait(asked(), &r, &e));
        n_taken++;
        ended = r.ended;
    }
    const int pos = stepper_end(asked(), n_taken, &e);
    assert_int_equal(pos, n_prompt(q) + MOST - 1);
    memcpy(out, kv->k, (size_t)pos * row * sizeof(float));
    return pos * (int)row;
}

/* They are run like a prompt's, which rounds otherwise than a step. */
static void test_stepper__mtp_rows_that_were_left_out_are_there_at_the_end(void **state)
{
    (void)state;
    float *want = malloc(CTX * 4096 * sizeof *want), *got = malloc(CTX * 4096 * sizeof *got);
    const int n = mtp_keys(&(struct request){.depth = 3}, 0, want);
    const double size = furthest(want, NULL, n);
    for (int depth = 0; depth <= 3; depth += 3)
        for (int n_more = 0; n_more <= 1; n_more++) {
            assert_int_equal(mtp_keys(&(struct request){.depth = depth}, n_more, got), n);
            const double off = furthest(want, got, n);
            if (off > 1e-3 * size)
                fail_msg("depth %d, %d steps behind the end: keys are off by %g, the largest is %g", depth, n_more, off, size);
        }
    free(want), free(got);
}

static void test_stepper__the_mtp_block_is_read_only_for_drafts(void **state)
{
    (void)state;
    struct stepper_counts before = stepper_counts(stepper);
    struct answer a = ask(&(struct request){.depth = 0});
    struct stepper_counts after = stepper_counts(stepper);
    assert_int_equal(after.mtp_runs - before.mtp_runs, 1);
    assert_int_equal(after.mtp_rows - before.mtp_rows, a.n);
    assert_int_equal(after.last_rows, before.last_rows);
    before = after;
    a = ask(&(struct request){.depth = 2});
    after = stepper_counts(stepper);
    assert_int_equal(after.mtp_runs - before.mtp_runs, a.n_steps);
    assert_true(after.mtp_rows - before.mtp_rows > a.n_steps);          /* but experts for one row of each */
    assert_int_equal(after.last_rows - before.last_rows, a.n_steps);
}

/* Steps without drafts, then with some: whatever was left out before, and however many tokens a step gave, they are the same. */
static void test_stepper__drafts_do_not_tell_what_was_left_out(void **state)
{
    (void)state;
    struct step_drafts want[MOST], got;
    struct step_result r;
    struct err e;
    for (int every = 1; every <= 5; every += 2) {
        int n = 0;
        begin(&(struct request){.how = {.room = MOST}});
        for (bool ended = false; !ended;) {
            stepper_step(asked(), 1);
            assert_true(stepper_wait(asked(), &r, &e));
            ended = r.ended;
            if (!ended && n++ % every == 0) {
                stepper_draft(asked(), 2);
                assert_true(stepper_drafts(asked(), every == 1 ? &want[n] : &got, &e));
                if (every > 1)
                    assert_memory_equal(got.ids, want[n].ids, 2 * sizeof *got.ids);
            }
        }
        assert_true(stepper_end(asked(), MOST, &e) > 0);
    }
}

static void test_stepper__a_measured_step_leaves_an_empty_cache(void **state)
{
    (void)state;
    struct err e;
    double ms, distinct;
    const struct answer want = ask(&(struct request){.depth = 2});
    for (int rows = 1; rows <= DEPTH + 1; rows += 3) {
        assert_true(stepper_measure(stepper, rows, 40, 2, -1, &ms, &distinct, &e));
        assert_true(ms > 0 && distinct >= model.cfg.top_k && distinct <= rows * model.cfg.top_k);
        assert_true(stepper_measure(stepper, rows, 40, 2, model.cfg.top_k, &ms, &distinct, &e));
        assert_true(distinct == model.cfg.top_k);
    }
    const struct answer again = ask(&(struct request){.depth = 2});
    same_answer(&again, &want);
}

static int open_random(void **state)
{
    (void)state;
    return open_model("tests/data/model/g1/hybrid", "cpu", "f32");
}

static int open_trained(void **state)
{
    (void)state;
    trained = true;
    return open_model("assets/demo", "cpu", "f32");
}

static int open_codes(void **state)
{
    (void)state;
    return open_model("assets/demo", "cpu", "tq4");
}

int main(void)
{
    const struct CMUnitTest together[] = {cmocka_unit_test(test_stepper__answers_of_one_step_are_those_that_each_has_alone)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stepper__greedy_is_what_prompt_operations_give),
        cmocka_unit_test(test_stepper__positions_may_differ_from_the_index_of_the_row),
        cmocka_unit_test(test_stepper__every_depth_gives_the_same_answer),
        cmocka_unit_test(test_stepper__states_taken_on_the_way_change_nothing),
        cmocka_unit_test(test_stepper__saved_states_bring_an_answer_back),
        cmocka_unit_test(test_stepper__without_memory_the_reason_is_given),
        cmocka_unit_test(test_stepper__a_device_that_cannot_run_the_experts_is_refused),
        cmocka_unit_test(test_stepper__what_nobody_heard_leaves_no_trace),
        cmocka_unit_test(test_stepper__mtp_rows_that_were_left_out_are_there_at_the_end),
        cmocka_unit_test(test_stepper__the_mtp_block_is_read_only_for_drafts),
        cmocka_unit_test(test_stepper__drafts_do_not_tell_what_was_left_out),
        cmocka_unit_test(test_stepper__a_measured_step_leaves_an_empty_cache),
        cmocka_unit_test(test_stepper__answers_of_one_step_are_those_that_each_has_alone),
        cmocka_unit_test(test_stepper__what_a_shared_step_rejects_leaves_no_trace),
        cmocka_unit_test(test_stepper__greedy_picks_made_again_are_those_with_a_ban_from_the_start),
        cmocka_unit_test(test_stepper__picks_made_again_are_the_same_in_shared_steps),
    };
    int failed = cmocka_run_group_tests_name("random weights", tests, open_random, close_model);
    if (!SANITIZED)                     /* the same code on larger matrices takes minutes; test_generate and test_depths run these weights */
        failed += cmocka_run_group_tests_name("trained weights", tests, open_trained, close_model);
    return failed + cmocka_run_group_tests_name("compressed rows", together, open_codes, close_model);
}
