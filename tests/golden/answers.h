/* Answers by steps that are recorded and launched, on a real checkpoint and any device; included after cmocka.h.  Answers that step together are
 * those that each has alone. */
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/load.h"
#include "kernels/number.h"
#include "model/kv.h"
#include "model/prompt.h"
#include "model/state.h"
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
    struct logprobs logprobs[MOST + STEP_ROWS];
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

static struct stepper_slot *asked(void)
{
    return stepper_slot(stepper, slot);
}

static void read_prompt(int n)
{
    cache_reset(model.caches[slot]);
    prompt_chunk(model.forward, model.caches[slot], prompt, n, 0, true);
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
    stepper_begin(asked(), &how, prompt, n_prompt(q), 0, n_prompt(q), &q->bias_id, &q->bias, q->bias != 0, q->depth);
}

static void take(struct answer *a, const struct step_result *r)
{
    for (int i = 0; i < r->n; i++) {
        a->ids[a->n] = r->ids[i];
        a->prob[a->n] = r->prob[i];
        a->logprobs[a->n++] = r->logprobs[i];
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
        stepper_launch(asked());
        assert_true(stepper_wait(asked(), &r, &e));
        take(&a, &r);
        if (q->settle_every && a.n_steps % q->settle_every == 0 && !a.ended) {
            void *states = malloc(cache_saved_bytes(&model.cfg, model.kv));
            assert_int_equal(stepper_pause(asked(), &e), n_prompt(q) + a.n - 1);
            if (a.n_steps % 2)          /* saved or not, the answer goes on */
                cache_state_save(model.cache, states);
            stepper_resume(asked());
            free(states);
        }
    }
    const int at = stepper_end(asked(), a.n_steps, &e);
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
    assert_true(stepper_wait(stepper_slot(stepper, i), &r, &e));
    take(a, &r);
}

/* How the steps of several answers are made. */
struct way {
    int  propose;                       /* ids of its own answer that a conversation is told to verify, with a wrong one behind them; 0: none */
    int  drafts;                        /* made behind each step */
    int  rarely;                        /* so many steps have none, then one has some */
    bool early;                         /* the first of them are queued before the step is heard of */
    bool alone;                         /* one conversation takes steps of its own in between */
};

/* A conversation among them. */
struct party {
    const struct request *q;
    const struct alone   *want;
    struct answer a;
    int n_drafts;                       /* for its next step */
};

/* An answer that a conversation gave by itself, and what it leaves. */
struct alone {
    struct answer a;
    char  *states;
    float *keys;
    struct step_drafts drafts[MOST + 1];        /* two behind each token, by their number */
};

/* Asks for the next answer, then for another one. */
static void propose(struct party *p, int i, int n_right)
{
    int32_t ids[DEPTH];
    int n = 0;
    for (int at = p->a.n; n < n_right && at < p->want->a.n; at++)
        ids[n++] = p->want->a.ids[at];
    const int next = p->a.n + n;
    ids[n++] = next < p->want->a.n ? (p->want->a.ids[next] + 1) % model.cfg.vocab : 0;
    stepper_propose(stepper_slot(stepper, i), ids, n);
    p->n_drafts = n;
}

/* As many rows for drafts as there is room for, the first conversation before the others. */
static int parts_of(struct party *p, int n, int round, struct stepper_part parts[SLOTS])
{
    int n_parts = 0, room = stepper_most_rows(stepper);
    for (int k = 0; k < n; k++)
        if (!p[(k + round) % n].a.ended)
            parts[n_parts++] = (struct stepper_part){(k + round) % n, 1};
    room -= n_parts;
    for (int k = 0; k < n_parts; k++) {
        const int more = p[parts[k].slot].n_drafts < room ? p[parts[k].slot].n_drafts : room;
        parts[k].rows += more;
        room -= more;
    }
    return n_parts;
}

/* Two drafts are those that it would have alone.  The first step's rows were left out, and a GPU rounds those of a prompt otherwise: there another id
 * may take the place of one whose logit is less than 0.1 away, and what is behind it differs. */
static void same_drafts(const struct step_drafts *d, const struct step_drafts *want)
{
    const bool rounds = dev_caps(model.backend)->packs_weights;
    for (int i = 0; i < 2; i++) {
        const double off = fabs((double)d->prob[i] - (double)want->prob[i]);
        if (d->ids[i] != want->ids[i] ? !rounds || off > 0.1 * (double)want->prob[i] : off > (rounds ? 1e-2 : 0))
            fail_msg("draft %d is %d with %g, expected %d with %g", i, d->ids[i], (double)d->prob[i], want->ids[i], (double)want->prob[i]);
        if (d->ids[i] != want->ids[i])
            return;
    }
}

static void take_drafts(struct party *p, int i, int n, bool all)
{
    struct step_drafts d;
    struct err e;
    assert_true(stepper_drafts(stepper_slot(stepper, i), &d, &e));
    p->n_drafts = n;
    if (all)                            /* rows of the MTP block that were left out round otherwise */
        same_drafts(&d, &p->want->drafts[p->a.n]);
}

/* One step of those of n answers that have not ended, in an order that changes. */
static void step_together(struct party *p, int n, int round, const struct way *w)
{
    struct stepper_part parts[SLOTS];
    const int drafts = w->rarely && round % (w->rarely + 1) != w->rarely ? 0 : w->drafts;
    for (int i = 0; i < n; i++)
        if (w->propose && (i + round) % 2 && !p[i].a.ended)
            propose(&p[i], i, w->propose);
    const int n_parts = parts_of(p, n, round, parts), n_drafting = w->alone || w->propose ? (n_parts + 1) / 2 : n_parts;
    stepper_step_together(stepper, parts, n_parts);
    if (drafts && w->early)
        stepper_draft_together(stepper, n_drafting, 2);
    for (int k = n_parts - 1; k >= 0; k--) {
        hear(&p[parts[k].slot].a, parts[k].slot);
        p[parts[k].slot].n_drafts = 0;
    }
    for (int i = w->early ? 2 : 0; i < drafts; i++)
        stepper_draft_together(stepper, n_drafting, 1);
    for (int k = 0; k < n_drafting && drafts; k++)
        if (!p[parts[k].slot].a.ended)
            take_drafts(&p[parts[k].slot], parts[k].slot, drafts, n_drafting == n_parts && !w->rarely);
}

/* Conversation i goes on by itself, with drafts that the others' steps come behind. */
static void step_alone(struct answer *a, int i)
{
    stepper_step(stepper_slot(stepper, i), 1);
    hear(a, i);
    if (a->ended)
        return;
    stepper_draft(stepper_slot(stepper, i), 2);
    stepper_step(stepper_slot(stepper, i), 3);
    hear(a, i);
}

static bool all_ended(const struct party *p, int n)
{
    for (int i = 0; i < n; i++)
        if (!p[i].a.ended)
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

static char *states_of(int i)
{
    char *states = calloc(1, cache_saved_bytes(&model.cfg, model.kv));     /* a short conversation's tail of rows does not fill it */
    struct err e;
    cache_state_save(model.caches[i], states);
    assert_true(model.dev->finish(model.dev, &e));
    return states;
}

/* A token a step, with drafts that are not verified. */
static void drafts_of(const struct request *q, struct step_drafts *d)
{
    struct answer a = {0};
    struct err e;
    for (begin(q); !a.ended;) {
        stepper_step(asked(), 1);
        hear(&a, slot);
        if (a.ended)
            break;
        stepper_draft(asked(), 2);
        assert_true(stepper_drafts(asked(), &d[a.n], &e));
    }
    assert_true(stepper_end(asked(), a.n_steps, &e) > 0);
}

static struct alone answer_alone(const struct request *q)
{
    struct alone w = {0};
    drafts_of(q, w.drafts);
    w.a = ask(q);
    w.states = states_of(slot);
    w.keys = mtp_keys_of(slot);
    return w;
}

static void begin_together(struct party *p, const struct request *q, const struct alone *want, int n)
{
    for (slot = 0; slot < n; slot++) {
        p[slot] = (struct party){.q = &q[slot], .want = &want[slot]};
        begin(&q[slot]);
        stepper_step(asked(), 1);
        hear(&p[slot].a, slot);
    }
    slot = 0;
}

/* Two saved states, but for the rows of the MTP block, which prompt operations may have made: the last layer of keys, and of values. */
static void same_states(const char *a, const char *b)
{
    const size_t tail = kv_tail_bytes(&model.cfg, model.kv), states = cache_saved_bytes(&model.cfg, model.kv) - tail - sizeof(int32_t),
        layers = (size_t)model.cfg.n_full + 1, layer = tail / 2 / layers;
    assert_memory_equal(a, b, states);
    for (size_t which = 0; which < 2 && tail; which++)
        assert_memory_equal(a + states + which * tail / 2, b + states + which * tail / 2, (layers - 1) * layer);
    assert_memory_equal(a + states + tail, b + states + tail, sizeof(int32_t));
}

/* The answer, its states and its keys are those that it has alone. */
static void end_together(struct party *p, int i)
{
    const struct answer *a = &p->a, *want = &p->want->a;
    struct err e;
    same_answer(a, want);
    if (p->q->how.n_alternatives)
        assert_memory_equal(a->logprobs, want->logprobs, (size_t)a->n * sizeof *a->logprobs);
    assert_int_equal(stepper_end(stepper_slot(stepper, i), a->n_steps, &e), n_prompt(p->q) + a->n - 1);
    char *states = states_of(i);
    same_states(states, p->want->states);
    free(states);
    same_mtp_keys(i, n_prompt(p->q) + a->n - 2, p->want->keys);
}

/* n answers. */
static void answer_together(const struct request *q, const struct alone *want, int n, const struct way *w)
{
    struct party p[SLOTS];
    int n_accepted = 0;
    begin_together(p, q, want, n);
    for (int round = 0; !all_ended(p, n); round++) {
        step_together(p, n, round, w);
        if (w->alone && !p[round % n].a.ended) {
            step_alone(&p[round % n].a, round % n);
            p[round % n].n_drafts = 0;
        }
    }
    for (int i = 0; i < n; i++) {
        end_together(&p[i], i);
        n_accepted += p[i].a.n_accepted;
    }
    assert_true(!w->propose || n_accepted > 4);
}

static const struct request crowd[SLOTS] = {
    {.n_prompt = 4},
    {.how = {.temperature = 0.8f, .top_k = 20, .top_p = 0.9f, .rng = 8, .n_alternatives = 5}, .bias_id = 3, .bias = 2},
    {.how = {.temperature = 1.2f, .presence_penalty = 1, .repetition_penalty = 1.3f, .rng = 9, .room = 17}, .n_prompt = 7},
    {.how = {.temperature = 1, .top_p = 0.95f, .rng = 10, .room = 20}, .n_prompt = 9},
};

static void test_stepper__answers_of_one_step_are_those_that_each_has_alone(void **state)
{
    (void)state;
    static const struct way ways[] = {
        {0}, {.alone = true}, {.drafts = 2}, {.drafts = 3, .early = true}, {.propose = 2}, {.propose = 1, .drafts = 2, .early = true},
        {.drafts = 2, .rarely = 2}, {.propose = 3, .drafts = 2, .rarely = 1, .alone = true},
    };
    struct alone want[SLOTS];
    for (int i = 0; i < SLOTS; i++)     /* all in the same slot */
        want[i] = answer_alone(&crowd[i]);
    for (int n = 2; n <= SLOTS; n++)
        for (int i = 0; i < (int)(sizeof ways / sizeof *ways); i++)
            if (n == SLOTS || i % 2 == n % 2)
                answer_together(crowd, want, n, &ways[i]);
    for (int i = 0; i < SLOTS; i++)
        free(want[i].states), free(want[i].keys);
}

/* Steps of one row give the states that an answer has when nothing was drafted; none of the drafts here is right. */
static void test_stepper__what_a_shared_step_rejects_leaves_no_trace(void **state)
{
    (void)state;
    const size_t bytes = cache_saved_bytes(&model.cfg, model.kv);
    struct err e;
    struct alone want[SLOTS];
    for (int i = 0; i < SLOTS; i++)
        want[i] = answer_alone(&crowd[i]);
    for (int n_steps = 1; n_steps <= 3; n_steps++) {
        struct party p[SLOTS];
        char *plain[SLOTS];
        for (int drafted = 0; drafted <= 1; drafted++) {
            begin_together(p, crowd, want, SLOTS);
            for (int k = 0; k < n_steps; k++) {
                struct stepper_part parts[SLOTS];
                for (int i = 0; i < SLOTS && drafted; i++)
                    propose(&p[i], i, 0);
                const int n_parts = parts_of(p, SLOTS, k, parts);
                stepper_step_together(stepper, parts, n_parts);
                for (int i = 0; i < SLOTS; i++) {
                    assert_int_equal(parts[i].rows, 1 + drafted);
                    hear(&p[i].a, i);
                    assert_int_equal(p[i].a.n, 2 + k);
                }
            }
            for (int i = 0; i < SLOTS; i++) {
                assert_int_equal(stepper_end(stepper_slot(stepper, i), 1 + n_steps, &e), n_prompt(&crowd[i]) + n_steps);
                char *states = states_of(i);
                if (drafted) {
                    assert_memory_equal(states, plain[i], bytes);
                    free(states), free(plain[i]);
                } else {
                    plain[i] = states;
                }
            }
        }
    }
    for (int i = 0; i < SLOTS; i++)
        free(want[i].states), free(want[i].keys);
}

static int open_model(const char *dir, const char *backend, const char *kv)
{
    struct err e = {0};
    const struct load_options o = {.dir = dir, .backend = backend, .kv = kv, .head = getenv("HEAD") ? getenv("HEAD") : "bf16", .mtp = getenv("MTP"),
                                   .n_threads = 1, .n_ctx = CTX, .chunk = 64, .depth = DEPTH, .n_sequences = SLOTS, .n_snapshots = LOAD_NO_SNAPSHOTS};
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

/* ---- picks that are made once more ---- */

/* Some guide, without a state: three ids in five. */
static bool is_refused(int32_t id)
{
    return ((uint32_t)id * 2654435761u >> 16) % 5 < 3;
}

static uint32_t *mask_of_admitted(void)
{
    uint32_t *mask = calloc((size_t)step_mask_words(model.cfg.vocab), sizeof *mask);
    for (int32_t id = 0; id < model.cfg.vocab; id++)
        mask[id / 32] |= (uint32_t)!is_refused(id) << (id % 32);
    return mask;
}

/* Compares alternatives with those before the pick was made again: neither a mask nor penalties change them.  A head in two planes has completed its
 * logits since. */
static void same_alternatives(const struct logprobs *a, const struct logprobs *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n * sizeof *a->ids);
    for (int i = 0; i < a->n; i++)
        assert_true(fabs((double)a->probs[i] - (double)b->probs[i]) < 2e-3);
}

/* Takes the result of conversation i; what is refused is picked once more.  Returns how often. */
static int hear_admitted(struct answer *a, int i, const uint32_t *mask)
{
    struct stepper_slot *o = stepper_slot(stepper, i);
    struct step_result r;
    struct err e;
    int n = 0;
    assert_true(stepper_wait(o, &r, &e));
    for (; r.n && is_refused(r.ids[r.n - 1]); n++) {
        const int row = r.n - 1;
        const struct logprobs before = r.logprobs[row];
        stepper_pick_again(o, row, mask);
        assert_true(stepper_wait(o, &r, &e));
        if (before.n > 0)
            same_alternatives(&r.logprobs[row], &before);
    }
    take(a, &r);
    return n;
}

/* Makes q->depth drafts for the conversation that is asked, unless they are made; returns how many of them are admitted. */
static int admitted_drafts(const struct request *q, const struct answer *a, bool made)
{
    struct step_drafts d;
    struct err e;
    int n = 0;
    if (!q->depth || a->ended)
        return 0;
    if (!made)
        stepper_draft(asked(), q->depth);
    assert_true(stepper_drafts(asked(), &d, &e));
    while (n < q->depth && !is_refused(d.ids[n]))
        n++;
    return n;
}

static void begin_guarded(const struct request *q)
{
    begin(q);
    stepper_guard(asked(), true);
}

static struct answer ask_guarded(const struct request *q, const uint32_t *mask, int *n_again)
{
    struct answer a = {0};
    struct err e;
    int n_drafts = 0;
    begin_guarded(q);
    while (!a.ended) {
        const bool early = q->depth && a.n_steps % 2;   /* drafts are queued before it is known whether the pick stays */
        stepper_step(asked(), 1 + n_drafts);
        if (early)
            stepper_draft(asked(), q->depth);
        const int again = hear_admitted(&a, slot, mask);
        *n_again += again;
        n_drafts = admitted_drafts(q, &a, early && !again);
    }
    assert_int_equal(stepper_end(asked(), a.n_steps, &e), n_prompt(q) + a.n - 1);
    return a;
}

/* The answer of a stepper for which what is refused was banned from the start. */
static struct answer ask_banned(const struct request *q)
{
    const int V = model.cfg.vocab;
    struct step_sampling how = q->how;
    int32_t *ids = malloc((size_t)V * sizeof *ids);
    float *bias = malloc((size_t)V * sizeof *bias);
    struct answer a = {0};
    struct err e;
    int n = 0;
    for (int32_t id = 0; id < V; id++)
        if (is_refused(id)) {
            ids[n] = id;
            bias[n++] = -INFINITY;
        }
    how.n_ids = V;
    how.repetition_penalty = how.repetition_penalty > 0 ? how.repetition_penalty : 1;
    how.room = MOST;
    read_prompt(n_prompt(q));
    stepper_begin(asked(), &how, prompt, n_prompt(q), 0, n_prompt(q), ids, bias, n, 0);
    while (!a.ended) {
        stepper_step(asked(), 1);
        hear(&a, slot);
    }
    assert_int_equal(stepper_end(asked(), a.n_steps, &e), n_prompt(q) + a.n - 1);
    free(ids);
    free(bias);
    return a;
}

static void test_stepper__greedy_picks_made_again_are_those_with_a_ban_from_the_start(void **state)
{
    (void)state;
    static const struct request list[] = {{.n_prompt = 4}, {.how = {.presence_penalty = 1, .repetition_penalty = 1.3f, .n_alternatives = 5}},
                                           {.how = {.n_alternatives = 3}, .n_prompt = 7}};
    uint32_t *mask = mask_of_admitted();
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        struct request q = list[i];
        const struct answer want = ask_banned(&q);
        char *states = states_of(slot);
        for (q.depth = 0; q.depth <= DEPTH; q.depth++) {
            int n_again = 0;
            const struct answer a = ask_guarded(&q, mask, &n_again);
            char *mine = states_of(slot);
            same_answer(&a, &want);
            same_states(mine, states);
            assert_true(n_again > 3);
            free(mine);
        }
        free(states);
    }
    free(mask);
}

/* All of them in steps of their own, then in steps together, where only the even ones are guarded. */
static void test_stepper__picks_made_again_are_the_same_in_shared_steps(void **state)
{
    (void)state;
    uint32_t *mask = mask_of_admitted();
    struct answer want[SLOTS], a[SLOTS] = {{0}};
    struct err e;
    int n_again = 0, n_left = SLOTS;
    for (int i = 0; i < SLOTS; i++) {
        struct request q = crowd[i];
        want[i] = i % 2 ? ask(&q) : ask_guarded(&q, mask, &n_again);
        q.depth = 3;
        const struct answer drafted = i % 2 ? ask(&q) : ask_guarded(&q, mask, &n_again);
        same_answer(&drafted, &want[i]);
    }
    for (slot = 0; slot < SLOTS; slot++) {
        if (slot % 2)
            begin(&crowd[slot]);
        else
            begin_guarded(&crowd[slot]);
        stepper_step(asked(), 1);
        n_again += slot % 2 ? (hear(&a[slot], slot), 0) : hear_admitted(&a[slot], slot, mask);
    }
    slot = 0;
    for (int round = 0; n_left; round++) {
        struct stepper_part parts[SLOTS];
        int n = 0;
        for (int i = 0; i < SLOTS; i++) {
            const int32_t next[2] = {a[i].n < want[i].n ? want[i].ids[a[i].n] : 0, a[i].n + 1 < want[i].n ? want[i].ids[a[i].n + 1] : 0};
            if (a[i].ended)
                continue;
            const bool drafts = (i + round) % 2;        /* right ones, of this round */
            if (drafts)
                stepper_propose(stepper_slot(stepper, i), next, 2);
            parts[n++] = (struct stepper_part){i, drafts && n < 2 ? 3 : 1};
        }
        stepper_step_together(stepper, parts, n);
        for (int k = 0; k < n; k++) {
            const int i = parts[k].slot;
            n_again += i % 2 ? (hear(&a[i], i), 0) : hear_admitted(&a[i], i, mask);
            n_left -= a[i].ended != 0;
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        same_answer(&a[i], &want[i]);
        assert_true(stepper_end(stepper_slot(stepper, i), a[i].n_steps, &e) > 0);
    }
    assert_true(n_again > 10);
    free(mask);
}
