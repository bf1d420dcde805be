/* Answers by steps that are recorded and launched, on a real checkpoint and any device; included after cmocka.h.  Answers that step together are
 * those that each has alone. */
#ifndef Q35_TESTS_ANSWERS_H
#define Q35_TESTS_ANSWERS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/load.h"
#include "kernels/number.h"
#include "model/layout.h"
#include "model/stepper.h"

enum { CTX = 96, PROMPT = 11, MOST = 24, DEPTH = 5, SLOTS = 4 };

static struct model model;
static struct stepper *stepper;
static int32_t prompt[PROMPT];
static int  slot;                       /* the conversation that is asked */

struct answer {
    int     n, n_steps, n_accepted;
    int32_t ids[MOST + STEP_ROWS];
    float   prob[MOST + STEP_ROWS];
    struct step_outlook outlook[MOST + STEP_ROWS];
    enum step_end ended;
};

struct request {
    struct step_sampling how;
    int32_t bias_id;
    float   bias;                       /* of bias_id; 0: none */
    int     depth;
    int     n_prompt;                   /* 0: all of it */
    bool    is_read;                    /* the cache holds the prompt */
    int     settle_every;               /* steps; 0: never */
};

static void read_prompt(int n)
{
    cache_reset(model.caches[slot]);
    forward_prefill(model.forward, model.caches[slot], prompt, n, 0, true);
}

static int n_prompt(const struct request *q)
{
    return q->n_prompt ? q->n_prompt : PROMPT;
}

static void begin(const struct request *q)
{
    struct step_sampling how = q->how;
    how.n_ids = model.cfg.vocab;
    how.repetition_penalty = how.repetition_penalty > 0 ? how.repetition_penalty : 1;
    how.room = how.room ? how.room : MOST;
    if (!q->is_read)
        read_prompt(n_prompt(q));
    stepper_begin(stepper, slot, &how, prompt, n_prompt(q), 0, n_prompt(q), &q->bias_id, &q->bias, q->bias != 0, q->depth);
}

static void take(struct answer *a, const struct step_result *r)
{
    for (int i = 0; i < r->n; i++) {
        a->ids[a->n] = r->ids[i];
        a->prob[a->n] = r->prob[i];
        a->outlook[a->n++] = r->outlook[i];
        a->n_accepted += r->drafted[i];
    }
    a->n_steps++;
    a->ended = (enum step_end)r->ended;
}

/* One result after the other. */
static struct answer ask(const struct request *q)
{
    struct answer a = {0};
    struct step_result r;
    struct err e;
    begin(q);
    while (!a.ended) {
        stepper_launch(stepper);
        assert_true(stepper_wait(stepper, &r, &e));
        take(&a, &r);
        if (q->settle_every && a.n_steps % q->settle_every == 0 && !a.ended) {
            void *states = malloc(cache_saved_bytes(&model.cfg, model.kv));
            assert_int_equal(stepper_settle(stepper, &e), n_prompt(q) + a.n - 1);
            if (a.n_steps % 2)          /* saved or not, the answer goes on */
                cache_state_save(model.cache, states);
            stepper_resume(stepper);
            free(states);
        }
    }
    const int at = stepper_end(stepper, a.n_steps, &e);
    assert_int_equal(at, n_prompt(q) + (a.n ? a.n - 1 : 0));
    return a;
}

static void same_answer(const struct answer *a, const struct answer *b)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->ended, b->ended);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n * sizeof *a->ids);
    assert_memory_equal(a->prob, b->prob, (size_t)a->n * sizeof *a->prob);
}

/* The greatest |a - b|; of a alone where b is NULL.  (In a loop with fmax() instead, gcc 12 for aarch64 has an error of its own.) */
static double furthest(const float *a, const float *b, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++) {
        const double off = fabs((double)a[i] - (b ? (double)b[i] : 0));
        if (!(off <= most))
            most = isnan(off) ? INFINITY : off;
    }
    return most;
}

/* ---- several answers under way ---- */

/* A result of conversation i. */
static void hear(struct answer *a, int i)
{
    struct step_result r;
    struct err e;
    stepper_choose(stepper, i);
    assert_true(stepper_wait(stepper, &r, &e));
    take(a, &r);
}

/* One step of those of n answers that have not ended, in an order that changes. */
static void step_together(struct answer *a, int n, int round)
{
    int of[SLOTS], rows = 0;
    for (int k = 0; k < n; k++)
        if (!a[(k + round) % n].ended)
            of[rows++] = (k + round) % n;
    stepper_step_together(stepper, of, rows);
    for (int k = rows - 1; k >= 0; k--)
        hear(&a[of[k]], of[k]);
}

/* Conversation i goes on by itself, with drafts that the others' steps come behind. */
static void step_alone(struct answer *a, int i)
{
    stepper_choose(stepper, i);
    stepper_step(stepper, 1);
    hear(a, i);
    if (a->ended)
        return;
    stepper_draft(stepper, 2);
    stepper_step(stepper, 3);
    hear(a, i);
}

static bool all_ended(const struct answer *a, int n)
{
    for (int i = 0; i < n; i++)
        if (!a[i].ended)
            return false;
    return true;
}

/* The MTP block's keys of all positions, to be freed. */
static float *mtp_keys_of(int i)
{
    const struct kv_rows *kv = &model.caches[i]->kv[model.cfg.n_full];
    const size_t n = CTX * (size_t)(kv->n_kv_heads * kv->head_dim), size = kv->dtype == DT_BF16 ? 2 : 4;
    float *keys = malloc(n * sizeof *keys);
    uint16_t *half = malloc(n * sizeof *half);
    struct err e;
    model.dev->copy(model.dev, size == 2 ? (void *)half : keys, kv->k, n * size);
    assert_true(model.dev->finish(model.dev, &e));
    for (size_t k = 0; size == 2 && k < n; k++)
        keys[k] = bf16_f32(half[k]);
    free(half);
    return keys;
}

/* Those of the first n positions, those that were left out included; they are run like a prompt's, which rounds otherwise. */
static void same_mtp_keys(int i, int n, const float *want)
{
    const struct kv_rows *kv = &model.caches[i]->kv[model.cfg.n_full];
    const int n_values = n * kv->n_kv_heads * kv->head_dim;
    float *keys = mtp_keys_of(i);
    const double size = furthest(want, NULL, n_values), off = furthest(want, keys, n_values), most = kv->dtype == DT_BF16 ? 1e-2 : 1e-3;
    free(keys);
    if (!(off <= most * size))
        fail_msg("conversation %d: keys are off by %g, the largest is %g", i, off, size);
}

/* An answer that a conversation gave by itself, and what it leaves. */
struct alone {
    struct answer a;
    char  *states;
    float *keys;
};

static char *states_of(int i)
{
    char *states = malloc(cache_saved_bytes(&model.cfg, model.kv));
    struct err e;
    cache_state_save(model.caches[i], states);
    assert_true(model.dev->finish(model.dev, &e));
    return states;
}

/* n answers; with: steps of one conversation in between. */
static void answer_together(const struct request *q, const struct alone *want, int n, bool with)
{
    struct answer a[SLOTS] = {0};
    struct err e;
    for (slot = 0; slot < n; slot++) {
        begin(&q[slot]);
        stepper_step(stepper, 1);
        hear(&a[slot], slot);
    }
    slot = 0;
    for (int round = 0; !all_ended(a, n); round++) {
        step_together(a, n, round);
        if (with && !a[round % n].ended)
            step_alone(&a[round % n], round % n);
    }
    for (int i = 0; i < n; i++) {
        same_answer(&a[i], &want[i].a);
        if (q[i].how.n_alternatives)
            assert_memory_equal(a[i].outlook, want[i].a.outlook, (size_t)a[i].n * sizeof *a[i].outlook);
        stepper_choose(stepper, i);
        assert_int_equal(stepper_end(stepper, a[i].n_steps, &e), n_prompt(&q[i]) + a[i].n - 1);
        char *states = states_of(i);
        assert_memory_equal(states, want[i].states, cache_saved_bytes(&model.cfg, model.kv));
        free(states);
        same_mtp_keys(i, n_prompt(&q[i]) + a[i].n - 2, want[i].keys);
    }
}

static void test_stepper__answers_of_one_step_are_those_that_each_has_alone(void **state)
{
    (void)state;
    const struct request q[SLOTS] = {
        {.n_prompt = 4},
        {.how = {.temperature = 0.8f, .top_k = 20, .top_p = 0.9f, .rng = 8, .n_alternatives = 5}, .bias_id = 3, .bias = 2},
        {.how = {.temperature = 1.2f, .presence_penalty = 1, .repetition_penalty = 1.3f, .rng = 9, .room = 17}, .n_prompt = 7},
        {.how = {.temperature = 1, .top_p = 0.95f, .rng = 10, .room = 20}, .n_prompt = 9},
    };
    struct alone want[SLOTS];
    for (int i = 0; i < SLOTS; i++)     /* all in the same slot */
        want[i] = (struct alone){ask(&q[i]), states_of(slot), mtp_keys_of(slot)};
    for (int n = 2; n <= SLOTS; n++)
        answer_together(q, want, n, n % 2);
    for (int i = 0; i < SLOTS; i++)
        free(want[i].states), free(want[i].keys);
}

static int open_model(const char *dir, const char *backend, const char *kv)
{
    struct err e = {0};
    const struct load_options o = {.dir = dir, .backend = backend, .kv = kv, .head = "bf16", .n_threads = 1, .n_ctx = CTX, .chunk = 64,
                                   .depth = DEPTH, .n_sequences = SLOTS, .n_snapshots = LOAD_NO_SNAPSHOTS};
    if (!load_open(&model, &o, &e) || !(stepper = stepper_open(model.forward, model.caches, SLOTS, model.head, DEPTH, &e))) {
        print_error("%s: %s\n", dir, e.msg);
        return -1;
    }
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = (int32_t)((uint32_t)(i + 1) * 2654435761u % (uint32_t)(model.cfg.vocab - 10));
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    stepper_close(stepper);
    load_close(&model);
    return 0;
}

#endif
