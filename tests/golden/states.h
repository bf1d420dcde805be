/* States that rejected drafts leave after a long prompt, on the demo model and any device; included after cmocka.h. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "engine/load.h"
#include "model/prompt.h"
#include "model/stepper.h"

enum { SAID = 16, NEXT = 6, DEEPEST = STEP_ROWS - 1, CALL = 2048 };

static struct model model;
static struct stepper *stepper;
static int32_t *ids;                    /* the prompt, and behind it what was said */
static int n_prompt;
static char *start;                     /* the states behind the prompt */
static bool every_depth;                /* else 0, 1, 3 and 7 drafts */

struct answer {
    int     n, n_rejected;
    int32_t ids[SAID + STEP_ROWS];
    float   prob[SAID + STEP_ROWS];
};

/* Phrases that come again and again with changes, so that some drafts are right and some are not. */
static void make_prompt(void)
{
    uint32_t x = 12345;
    for (int i = 0; i < n_prompt; i++) {
        x = x * 1664525 + 1013904223;
        ids[i] = x >> 28 ? (int32_t)(300 + i % 37 * 11) : (int32_t)(300 + (x >> 12) % 3000);
    }
}

static char *states_of(struct cache *k)
{
    struct err e;
    char *states = malloc(cache_saved_bytes(&model.cfg, model.kv));
    cache_state_save(k, states);
    assert_true(model.dev->finish(model.dev, &e));
    return states;
}

static void read_prompt(void)
{
    cache_reset(model.cache);
    for (int pos = 0; pos < n_prompt; pos += model.chunk) {
        const int n = n_prompt - pos < model.chunk ? n_prompt - pos : model.chunk;
        prompt_chunk(model.forward, model.cache, ids + pos, n, pos, true);
    }
    start = states_of(model.cache);
}

/* Answers after the first `pos` ids with so many drafts a step.  Returns the position that the cache has then reached. */
static int answer(struct answer *a, const struct step_sampling *how, int pos, int room, int depth)
{
    struct step_sampling s = *how;
    struct stepper_slot *slot = stepper_slot(stepper, 0);
    struct step_result r;
    struct err e;
    int n_steps = 0;
    *a = (struct answer){0};
    s.n_ids = model.cfg.vocab;
    s.repetition_penalty = 1;
    s.room = room;
    stepper_begin(slot, &s, ids, pos, 0, pos, NULL, NULL, 0, depth);
    for (bool ended = false; !ended; n_steps++) {
        stepper_launch(slot);
        assert_true(stepper_wait(slot, &r, &e));
        for (int i = 0; i < r.n; i++) {
            a->ids[a->n] = r.ids[i];
            a->prob[a->n++] = r.prob[i];
        }
        a->n_rejected += n_steps ? depth + 1 - r.n : 0;
        ended = r.ended;
    }
    assert_int_equal(a->n, room);
    return stepper_end(slot, n_steps, &e);
}

static void same_answer(const struct answer *got, const struct answer *want, const char *what, int depth)
{
    if (memcmp(got->ids, want->ids, sizeof got->ids) || memcmp(got->prob, want->prob, sizeof got->prob))
        fail_msg("%s KV rows, %d drafts: %s is not what it is without drafts", model.kv->name, depth, what);
}

/* States to the last bit; of the KV rows, the words that come next and their probabilities. */
static void test_states__rejected_drafts_leave_those_of_an_answer_without_drafts(void **state)
{
    (void)state;
    static const struct step_sampling hows[] = {{.temperature = 0}, {.temperature = 1, .top_k = 20, .rng = 7}};
    for (size_t h = 0; h < sizeof hows / sizeof *hows; h++) {
        struct answer said, next, want_said, want_next;
        char *want = NULL;
        int rejected = 0;
        for (int depth = 0; depth <= DEEPEST; depth += every_depth ? 1 : depth + 1) {
            cache_state_load(model.cache, start);
            const int pos = answer(&said, &hows[h], n_prompt, SAID, depth);
            assert_int_equal(pos, n_prompt + SAID - 1);
            char *got = states_of(model.cache);
            memcpy(ids + n_prompt, said.ids, (SAID - 1) * sizeof *ids);
            answer(&next, &(struct step_sampling){0}, pos, NEXT, 0);
            if (depth) {
                same_answer(&said, &want_said, "the answer", depth);
                same_answer(&next, &want_next, "what comes next", depth);
                if (memcmp(got, want, cache_state_bytes(&model.cfg)))
                    fail_msg("%s KV rows, %d drafts: the states are not those without drafts", model.kv->name, depth);
                free(got);
            } else {
                want_said = said, want_next = next, want = got;
            }
            rejected += said.n_rejected;
        }
        print_message("%s: %d tokens deep, %s: %d drafts rejected\n", model.kv->name, n_prompt, h ? "sampled" : "greedy", rejected);
        assert_true(rejected > 0);
        free(want);
    }
}

static int open_states(const char *backend, const char *kv, int n)
{
    struct err e = {0};
    const struct load_options o = {.dir = "assets/demo", .backend = backend, .kv = kv, .n_threads = 2, .n_ctx = n + 2 * SAID + NEXT, .chunk = CALL,
                                   .depth = DEEPEST, .n_snapshots = LOAD_NO_SNAPSHOTS};
    if (!load_open(&model, &o, &e) || !(stepper = stepper_open(model.forward, model.caches, 1, model.head, DEEPEST, &e))) {
        print_error("assets/demo with --kv %s: %s\n", kv, e.msg);
        return -1;
    }
    n_prompt = n;
    ids = malloc((size_t)(n + SAID) * sizeof *ids);
    make_prompt();
    read_prompt();
    return 0;
}

static int close_states(void **state)
{
    (void)state;
    free(start);
    free(ids);
    stepper_close(stepper);
    load_close(&model);
    return 0;
}
