/* Answers under a guide, against a model of hashes: the same tokens at every number of drafts, alone and in steps of several answers; all of it once
 * with a device that the host waits for, once with one that works beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/clock.h"
#include "base/ids.h"
#include "engine/answering.h"
#include "fake_model.h"
#include "guide/guide.h"

enum { CTX = 300, ROOM = 60, THINK_END = 20, STOP = FAKE_EOS, TAG = 0, TAG_END = 11 };

/* Steps of several rows are cheap: drafts pay. */
static int64_t now_ns;

int64_t __wrap_clock_ns(void);
double  __wrap_clock_ms_since(int64_t start);
int64_t __wrap_clock_waited_ns(void);
int64_t __wrap_clock_ns(void)                   { return now_ns += 1000; }
double  __wrap_clock_ms_since(int64_t start)    { return (double)(__wrap_clock_ns() - start) * 1e-6; }
int64_t __wrap_clock_waited_ns(void)            { return 0; }

static void rows_take_time(int rows)    { now_ns += 1000000 + 20000ll * rows; }

static struct model_config config;
static struct weights weights;
static struct dev *dev;
static struct guide_vocabulary *vocabulary, *of_calls;
static unsigned rng_state = 1;

static int below(int n)
{
    rng_state = rng_state * 1103515245u + 12345u;
    return (int)((rng_state >> 8) % (unsigned)n);
}

/* ---- guides over a small vocabulary */

/* By id; NULL: control tokens, of which STOP ends an answer.  The last ids of the model are no tokens. */
static const char *const tokens[24] = {"a", NULL, "b", "ab", "[", "]", "1", "12", ",", ", ", "\n", "\n\n", "],", "[1", "ba", "c", "abc",
                                       "x1", "\xC3", "\xA9", NULL /* </think> */, "2", " ", "x"};

/* The same for calls; the first one is a mark. */
static const char *const call_tokens[24] = {
    "<tool_call>", NULL, "\n<function=f>\n", "\n<function", "=f", ">\n", "<parameter=a>\n", "1", "2", "\n</parameter>\n", "</function>\n",
    "</tool_call>", "<parameter=b>\n", "x", " ", "</parameter>\n", "\n", "12", "y", "=", NULL /* </think> */, "<function=", "f", "g",
};

static void encode(const void *arg, struct text t, bool marks, struct ids *out)
{
    const char *const *all = arg;
    (void)marks;
    for (size_t at = 0; at < t.n;) {
        int best = -1;
        for (int id = 0; id < 24; id++) {
            const size_t n = all[id] ? strlen(all[id]) : 0;
            if (n && n <= t.n - at && !memcmp(all[id], t.p + at, n) && (best < 0 || n > strlen(all[best])))
                best = id;
        }
        if (best < 0)
            return;
        ids_add(out, best);
        at += strlen(all[best]);
    }
}

static struct guide_vocabulary *vocabulary_of(const char *const *all, bool marks)
{
    struct guide_token list[24] = {0};
    for (int id = 0; id < 24; id++) {
        list[id].bytes = all[id] ? text_of(all[id]) : (struct text){0};
        list[id].mark = marks && (id == TAG || id == TAG_END);
    }
    return guide_vocabulary_new(list, 24, THINK_END, &(struct guide_vocabulary_hooks){encode, all});
}

/* Some loop, some end soon, some have much text that is forced. */
static const char *const patterns[] = {
    "talk", "once", "(\\[(a|b)+(, 12(1|2)*)*\\],)+", "(abcabc(1|x1)abab\\n)*", "(é|ab|\\n){3,40}", "\\[12121212(a|b)\\]", ".*", "[ab]*",
};

static struct guide *guide_of_calls(enum guide_kind kind)
{
    static const char tools[] = "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"integer\"}, "
                                "\"b\": {\"type\": \"string\"}}, \"required\": [\"a\"]}}]";
    struct err e = {0};
    struct grammar *grammar = grammar_of_calls(&(struct grammar_calls){.tools = text_of(tools)}, &e);
    assert_non_null(grammar);
    struct guide *g = guide_new(grammar, of_calls, kind);
    grammar_release(grammar);
    return g;
}

/* "talk" and "once": any text, in which there are calls. */
static struct guide *guide_of(const char *pattern)
{
    struct err e = {0};
    if (!strcmp(pattern, "talk") || !strcmp(pattern, "once"))
        return guide_of_calls(*pattern == 't' ? GUIDE_TALK : GUIDE_TALK_ONCE);
    struct grammar *grammar = grammar_of_pattern(text_of(pattern), &e);
    if (!grammar)
        fail_msg("%s: %s", pattern, e.msg);
    struct guide *g = guide_new(grammar, vocabulary, false);
    grammar_release(grammar);
    return g;
}

/* ---- one answer */

struct heard { struct ids ids; };

static bool never(void *arg)                                            { return arg == NULL; }
static void ignore(void *arg, int done, int total, int cached)          { (void)arg, (void)done, (void)total, (void)cached; }
static bool hear(void *arg, const struct picks *p)
{
    struct heard *h = arg;
    ids_append(&h->ids, p->ids, p->n);
    return true;
}

/* True if the guide admits the id at *s, which it advances over; an end id where the text may end. */
static bool admits(struct guide *g, struct guide_state *s, const struct sampling *how, int32_t id)
{
    for (int i = 0; i < how->n_stop; i++)
        if (how->stop[i] == id)
            return guide_may_end(g, s);
    return guide_advance(g, s, id);
}

/* The answer by definition: one token at a time; each is picked without a guide and, if that refuses it, once more from what it admits, tried id
 * by id. */
static enum end oracle(const int32_t *prompt, int n, const struct sampling *how, struct ids *out)
{
    struct picker *p = picker_open(config.vocab);
    struct guide *g = how->guide;
    struct guide_state s = guide_begin(g, how->guide_rests);
    uint64_t chain = fake_chain(prompt, n);
    enum end why = END_LENGTH;
    picker_begin(p, how, prompt, n);
    for (int i = 0; i < how->max_tokens; i++) {
        const struct step_sampling before = p->how;
        uint32_t mask[2] = {0};
        uint8_t seen[64];
        float logits[64];
        struct pick pick;
        struct err e;
        struct guide_state next = s;
        fake_logits(logits, chain);
        memcpy(seen, p->seen, (size_t)config.vocab);
        assert_true(picker_pick(p, logits, &pick, &e));
        if (!admits(g, &next, how, pick.id)) {
            for (int32_t id = 0; id < config.vocab; id++) {
                struct guide_state one = s;
                mask[id / 32] |= (uint32_t)admits(g, &one, how, id) << (id % 32);
            }
            p->how = before;
            memcpy(p->seen, seen, (size_t)config.vocab);
            p->mask = mask;
            assert_true(picker_pick(p, logits, &pick, &e));
            p->mask = NULL;
            next = s;
            assert_true(admits(g, &next, how, pick.id));
        }
        s = next;
        ids_add(out, pick.id);
        chain = fake_mix(chain, (uint64_t)pick.id);
        if (how->n_stop && pick.id == how->stop[0]) {
            why = END_STOP;
            break;
        }
        if (guide_must_end(g, &s) && (!how->n_stop || i + 1 == how->max_tokens)) {
            why = END_STOP;
            break;
        }
    }
    picker_close(p);
    return why;
}

static struct cache *caches[4];
static struct forward *forward;

static struct decoder *open_decoder(int depth, int n_sequences)
{
    struct err e;
    const struct decoder_options o = {.n_ctx = CTX, .chunk = 64, .fixed_chunk = true, .depth = depth, .n_sequences = n_sequences, .n_snapshots = 4};
    for (int i = 0; i < n_sequences; i++)
        caches[i] = cache_open(dev, &(struct kv_shape){.cfg = &config, .recipe = kv_recipe_find("f32", NULL), .n_ctx = CTX + STEP_ROWS, .n_slots = 1},
                               &e);
    forward = forward_open(dev, &config, &weights, o.chunk, &e);
    struct decoder *d = decoder_open(dev, &config, forward, caches, &o, &e);
    assert_non_null(d);
    return d;
}

static void close_decoder(struct decoder *d)
{
    const int n = d->o.n_sequences;
    decoder_close(d);
    forward_close(forward);
    for (int i = 0; i < n; i++)
        cache_close(caches[i]);
}

static void assert_same_ids(const struct ids *a, const struct ids *b)
{
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++)
        assert_int_equal(a->data[i], b->data[i]);
}

static void random_prompt(int32_t *ids, int n)
{
    for (int i = 0; i < n; i++)
        ids[i] = below(config.vocab);
}

static struct outcome ask(struct decoder *d, const int32_t *ids, int n, const struct sampling *how, struct heard *h)
{
    const struct decoder_hooks hooks = {.stop = never, .prefill = ignore, .tokens = hear, .arg = h};
    const struct prompt p = {.spans = spans_text(ids, n), .how = how};
    struct outcome out;
    struct err e;
    assert_true(decoder_answer(d, &p, &hooks, &out, &e));
    return out;
}

static const struct sampling hows[] = {
    {.max_tokens = ROOM},
    {.max_tokens = ROOM, .temperature = 1, .seed = 7},
    {.max_tokens = ROOM, .temperature = 0.7f, .top_k = 5, .top_p = 0.9f, .min_p = 0.05f, .seed = 8},
    {.max_tokens = ROOM, .temperature = 0.9f, .presence_penalty = 1.5f, .repetition_penalty = 1.2f, .seed = 9},
    {.max_tokens = ROOM, .repetition_penalty = 1.3f, .presence_penalty = 0.4f},
};

static void test_guided__every_number_of_drafts_gives_the_same_answer(void **state)
{
    (void)state;
    enum { HOWS = sizeof hows / sizeof *hows, PATTERNS = sizeof patterns / sizeof *patterns };
    int n_ended = 0, n_accepted = 0, n_forced = 0;
    fake.n_again = 0;
    memset(fake.n_cut, 0, sizeof fake.n_cut);
    for (int round = 0; round < 2 * HOWS * PATTERNS; round++) {
        int32_t prompt[12];
        struct ids want = {0};
        struct sampling how = hows[round % HOWS];
        random_prompt(prompt, 12);
        how.guide = guide_of(patterns[round % PATTERNS]);
        how.guide_rests = round % 3 == 1;
        how.n_stop = round % 4 > 0;
        how.stop[0] = STOP;
        const enum end why = oracle(prompt, 12, &how, &want);
        n_ended += why == END_STOP;
        for (int depth = -1; depth <= ENGINE_MAX_DEPTH; depth++) {
            struct heard h = {0};
            struct decoder *d = open_decoder(depth < 0 ? ENGINE_MAX_DEPTH : depth, 1);
            how.draft_depth = depth;
            how.lookup = round % 2;
            const struct outcome out = ask(d, prompt, 12, &how, &h);
            assert_same_ids(&h.ids, &want);
            assert_int_equal(out.finish, why);
            n_accepted += stats_drafts(&out.stats, DRAFT_MTP).accepted;
            n_forced += stats_drafts(&out.stats, DRAFT_GUIDE).accepted;
            assert_true(depth < 0 || !stats_drafts(&out.stats, DRAFT_GUIDE).drafted);
            close_decoder(d);
            ids_free(&h.ids);
        }
        ids_free(&want);
        guide_release(how.guide);
    }
    if (getenv("V"))
        printf("%d ended, %ld picked again, %d drafts and %d forced ones accepted\n", n_ended, fake.n_again, n_accepted, n_forced);
    assert_true(n_ended > 10 && fake.n_again > 1000 && n_accepted > 300 && n_forced > 30);
    assert_true(fake.beside_host ? fake.n_void > 10 : !fake.n_void);
    for (int row = 0; row < ENGINE_MAX_DEPTH; row++)
        assert_true(fake.n_cut[row] > 0);
}

/* Reasoning that ends at every place of a step, and drafts on both sides of it. */
static void test_guided__reasoning_may_end_at_any_row_of_a_step(void **state)
{
    (void)state;
    int seen[ROOM] = {0}, n_ends = 0;
    struct guide *g = guide_of(patterns[2]);
    fake.bad_draft_of = 0;              /* all drafts are right, as long as no guide speaks: steps are long */
    for (int round = 0; round < 400; round++) {
        int32_t prompt[7];
        const int32_t bias_id = THINK_END;
        const float bias = 1;
        struct sampling how = {.max_tokens = ROOM, .guide = g, .guide_rests = true, .stop = {STOP}, .n_stop = 1, .bias_ids = &bias_id, .bias = &bias,
                               .n_bias = 1, .draft_depth = round % 2 ? ENGINE_MAX_DEPTH : -1};
        struct ids want = {0};
        struct heard h = {0};
        random_prompt(prompt, 7);
        oracle(prompt, 7, &how, &want);
        struct decoder *d = open_decoder(ENGINE_MAX_DEPTH, 1);
        ask(d, prompt, 7, &how, &h);
        assert_same_ids(&h.ids, &want);
        for (int i = 0; i < want.n; i++)
            if (want.data[i] == THINK_END) {
                seen[i]++;
                n_ends++;
                break;
            }
        close_decoder(d);
        ids_free(&h.ids);
        ids_free(&want);
    }
    for (int i = 0; i < 9; i++)         /* rows of the first steps */
        assert_true(seen[i] > 0);
    assert_true(n_ends > 200);
    fake.bad_draft_of = 3;
    guide_release(g);
}

/* Chi-square of ids against the distribution of what the guide admits after these tokens, in standard deviations from its mean; without top-k,
 * top-p and min-p that is the softmax over the admissible ids. */
static double misfit(struct guide *g, const struct sampling *how, const int32_t *before, int n_before, uint64_t chain, const int *count)
{
    struct guide_state s = guide_begin(g, false);
    double p[64] = {0}, sum = 0, chi = 0;
    float logits[64];
    int n = 0, bins = 0;
    for (int i = 0; i < n_before; i++) {
        assert_true(guide_advance(g, &s, before[i]));
        chain = fake_mix(chain, (uint64_t)before[i]);
    }
    fake_logits(logits, chain);
    for (int32_t id = 0; id < config.vocab; id++) {
        struct guide_state next = s;
        p[id] = admits(g, &next, how, id) ? exp((double)logits[id] / (double)how->temperature) : 0;
        sum += p[id];
        n += count[id];
    }
    for (int id = 0; id < config.vocab; id++) {
        const double want = n * p[id] / sum;
        assert_true(p[id] > 0 || !count[id]);
        chi += want > 0 ? (count[id] - want) * (count[id] - want) / want : 0;
        bins += want > 0;
    }
    assert_true(n > 100 && bins > 1);
    return (chi - (bins - 1)) / sqrt(2.0 * (bins - 1));
}

/* The first token has no drafts before it, the second and third one have. */
static void test_guided__sampled_tokens_have_the_distribution_of_what_is_admissible(void **state)
{
    (void)state;
    enum { SEEDS = 8000 };
    const int32_t prompt[] = {5, 9, 2, 14};
    struct guide *g = guide_of("[abc]+[12]*");
    for (int depth = 0; depth <= 3; depth += 3) {
        struct decoder *d = open_decoder(depth, 1);
        int count[3][64] = {{0}}, likely[2] = {0};
        for (int pass = 0; pass < 3; pass++)    /* of those that began with the likeliest tokens */
            for (int seed = 0; seed < SEEDS; seed++) {
                const struct sampling how = {.max_tokens = 5, .temperature = 1.5f, .seed = (uint64_t)seed * 977 + (uint64_t)pass,
                                             .draft_depth = depth, .guide = g, .stop = {STOP}, .n_stop = 1};
                struct heard h = {0};
                ask(d, prompt, 4, &how, &h);
                if (h.ids.n > pass && !memcmp(h.ids.data, likely, (size_t)pass * sizeof *likely))
                    count[pass][h.ids.data[pass]]++;
                ids_free(&h.ids);
                if (seed + 1 < SEEDS)
                    continue;
                const double off = misfit(g, &how, likely, pass, fake_chain(prompt, 4), count[pass]);
                if (getenv("V"))
                    printf("depth %d, token %d: %.1f standard deviations\n", depth, pass, off);
                assert_true(off < 4);
                for (int id = 0; pass < 2 && id < config.vocab; id++)
                    if (id != STOP && count[pass][id] > count[pass][likely[pass]])
                        likely[pass] = id;
            }
        close_decoder(d);
    }
    guide_release(g);
}

/* ---- several answers */

struct asker {
    bool under_way, over;
    int  begins;
    int32_t prompt[20];
    int  n;
    struct sampling how;
    struct heard heard;
    struct outcome out;
    struct ids want;
    enum end why;
};

static bool asker_hear(void *arg, const struct picks *p)        { return hear(&((struct asker *)arg)->heard, p); }
static void asker_done(void *arg)
{
    struct asker *a = arg;
    a->under_way = false;
    a->over = true;
}

static void test_guided__answers_at_once_are_those_that_each_is_alone(void **state)
{
    (void)state;
    enum { ASKERS = 9 };
    const struct dev_caps *caps = dev->caps;
    static struct dev_caps several;
    several = *caps;
    several.several = true;
    dev->caps = &several;
    fake.n_together = 0;
    for (int round = 0; round < 16; round++) {
        struct asker all[ASKERS] = {0};
        struct decoder *d = open_decoder(round % 4 ? 3 : 0, 4);
        struct err e;
        for (int i = 0; i < ASKERS; i++) {
            struct asker *a = &all[i];
            a->how = hows[below(5)];
            a->how.guide = guide_of(patterns[below(8)]);
            a->how.guide_rests = below(2);
            a->how.stop[0] = STOP;
            a->how.n_stop = below(4) > 0;
            a->how.draft_depth = below(3) ? -1 : below(4);
            a->how.lookup = below(2);
            a->n = 1 + below(20);
            a->begins = below(30);
            random_prompt(a->prompt, a->n);
            a->why = oracle(a->prompt, a->n, &a->how, &a->want);
        }
        for (int turn = 0, over = 0; over < ASKERS; turn++) {
            for (int i = 0; i < ASKERS; i++) {
                struct asker *a = &all[i];
                const struct decoder_hooks hooks = {never, ignore, asker_hear, asker_done, a};
                const struct prompt p = {.spans = spans_text(a->prompt, a->n), .how = &a->how};
                if (a->under_way || a->over || turn < a->begins || !decoder_may_begin(d, &(struct arrival){.prompt = p.spans}))
                    continue;
                a->under_way = true;
                decoder_begin(d, &p, &hooks, &a->out);
            }
            assert_true(decoder_turn(d, &e));
            for (int i = over = 0; i < ASKERS; i++)
                over += all[i].over;
        }
        for (int i = 0; i < ASKERS; i++) {
            assert_same_ids(&all[i].heard.ids, &all[i].want);
            assert_int_equal(all[i].out.finish, all[i].why);
            ids_free(&all[i].heard.ids);
            ids_free(&all[i].want);
            guide_release(all[i].how.guide);
        }
        close_decoder(d);
    }
    assert_true(fake.n_together > 100);
    dev->caps = caps;
}

/* ---- calls in any text */

/* Calls that begin at every row of a step, with all drafts right, each followed by any text. */
static void test_guided__a_call_may_begin_at_any_row_of_a_step_and_steps_before_it_are_not_guarded(void **state)
{
    (void)state;
    int seen[ROOM] = {0}, n_whole = 0;
    struct guide *g = guide_of_calls(GUIDE_TALK);
    const int32_t bias_ids[] = {TAG, 2, 3, 21};         /* what may begin a call */
    const float bias[] = {1, 0, 0, 0}, never_picked[] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    fake.bad_draft_of = 0;
    fake.n_guarded = 0;
    for (int round = 0; round < 400; round++) {
        int32_t prompt[7];
        const bool calls = round >= 100;
        struct sampling how = {.max_tokens = ROOM, .guide = g, .guide_rests = round % 5 == 0, .stop = {STOP}, .n_stop = 1, .bias_ids = bias_ids,
                               .bias = calls ? bias : never_picked, .n_bias = 4, .draft_depth = round % 2 ? ENGINE_MAX_DEPTH : -1,
                               .lookup = round % 3 == 0};
        struct ids want = {0};
        struct heard h = {0};
        random_prompt(prompt, 7);
        oracle(prompt, 7, &how, &want);
        struct decoder *d = open_decoder(ENGINE_MAX_DEPTH, 1);
        ask(d, prompt, 7, &how, &h);
        assert_same_ids(&h.ids, &want);
        for (int i = 0, begun = 0; i < want.n; i++) {
            seen[i] += want.data[i] == TAG && !begun;
            begun |= want.data[i] == TAG;
            n_whole += begun && want.data[i] == TAG_END;
        }
        assert_true(calls || !fake.n_guarded);
        close_decoder(d);
        ids_free(&h.ids);
        ids_free(&want);
    }
    for (int i = 0; i < 9; i++)
        assert_true(seen[i] > 0);
    assert_true(n_whole > 20 && fake.n_guarded > 100);
    fake.bad_draft_of = 3;
    guide_release(g);
}

/* ---- ends */

static void test_guided__a_beginning_that_does_not_fit_is_refused_and_one_that_does_continues(void **state)
{
    (void)state;
    struct guide *g = guide_of("\\[12(a|b)*\\]");
    struct decoder *d = open_decoder(3, 1);
    const int32_t fits[] = {3, 4, 7, 0, 2}, not[] = {3, 4, 0};
    struct sampling how = {.max_tokens = ROOM, .guide = g, .stop = {STOP}, .n_stop = 1, .n_answer_prefix = 2, .draft_depth = -1};
    struct heard h = {0};
    struct outcome out = ask(d, not, 3, &how, &h);
    assert_int_equal(out.finish, END_REFUSED);
    assert_non_null(strstr(out.why.msg, "token 2 of 2"));
    how.n_answer_prefix = 4;
    out = ask(d, fits, 5, &how, &h);
    assert_int_not_equal(out.finish, END_FAILED);
    struct guide_state s = guide_begin(g, false);
    for (int i = 1; i < 5; i++)
        assert_true(guide_advance(g, &s, fits[i]));
    for (int i = 0; i < h.ids.n; i++)
        assert_true(admits(g, &s, &how, h.ids.data[i]));
    ids_free(&h.ids);
    close_decoder(d);
    guide_release(g);
}

static void test_guided__a_beginning_that_no_call_has_is_not_guided_any_further(void **state)
{
    (void)state;
    struct guide *g = guide_of_calls(GUIDE_TALK);
    struct decoder *d = open_decoder(3, 1);
    const int32_t prompt[] = {13, TAG, 13, 13};
    for (int n = 0; n <= 3; n++) {      /* x; <tool_call>; neither of which continues the other */
        struct sampling how = {.max_tokens = 20, .guide = g, .stop = {STOP}, .n_stop = 1, .n_answer_prefix = n, .draft_depth = -1};
        struct heard guided = {0}, alone = {0};
        assert_int_not_equal(ask(d, prompt, 4, &how, &guided).finish, END_FAILED);
        how.guide = NULL;
        ask(d, prompt, 4, &how, &alone);
        if (n == 3)
            assert_same_ids(&guided.ids, &alone.ids);
        ids_free(&guided.ids);
        ids_free(&alone.ids);
    }
    close_decoder(d);
    guide_release(g);
}

/* A text that the vocabulary cannot continue, and one whose only continuations are banned. */
static void test_guided__where_nothing_can_follow_the_answer_ends_with_a_sentence(void **state)
{
    (void)state;
    const int32_t prompt[] = {3, 5}, banned[] = {0, 3};
    const float never_picked[] = {-INFINITY, -INFINITY};
    for (int i = 0; i < 2; i++) {
        struct guide *g = guide_of(i ? "a(z|zz)" : "ba?b");
        struct decoder *d = open_decoder(3, 1);
        const struct sampling how = {.max_tokens = ROOM, .guide = g, .stop = {STOP}, .n_stop = 1, .draft_depth = -1, .bias_ids = banned,
                                     .bias = never_picked, .n_bias = i ? 0 : 2};
        struct heard h = {0};
        const struct outcome out = ask(d, prompt, 2, &how, &h);
        if (i) {
            assert_int_equal(out.finish, END_FAILED);
            assert_non_null(strstr(out.why.msg, "no token can follow"));
        } else {
            assert_int_equal(out.finish, END_STOP);
        }
        ids_free(&h.ids);
        const struct sampling free = {.max_tokens = 5, .draft_depth = -1};
        assert_int_equal(ask(d, prompt, 2, &free, &h).finish, END_LENGTH);      /* the next answer is none the worse */
        ids_free(&h.ids);
        close_decoder(d);
        guide_release(g);
    }
}

static int open_device(void **state)
{
    struct err e;
    (void)state;
    fake.vocab = 26;
    fake.on_rows = rows_take_time;
    dev = dev_open_cpu(1, &e);
    assert_true(config_load(&config, "fake", &e) && weights_open(&weights, &config, "fake", &e));
    vocabulary = vocabulary_of(tokens, false);
    of_calls = vocabulary_of(call_tokens, true);
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    guide_vocabulary_release(vocabulary);
    guide_vocabulary_release(of_calls);
    weights_close(&weights);
    dev->close(dev);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guided__every_number_of_drafts_gives_the_same_answer),
        cmocka_unit_test(test_guided__reasoning_may_end_at_any_row_of_a_step),
        cmocka_unit_test(test_guided__sampled_tokens_have_the_distribution_of_what_is_admissible),
        cmocka_unit_test(test_guided__answers_at_once_are_those_that_each_is_alone),
        cmocka_unit_test(test_guided__a_call_may_begin_at_any_row_of_a_step_and_steps_before_it_are_not_guarded),
        cmocka_unit_test(test_guided__a_beginning_that_no_call_has_is_not_guided_any_further),
        cmocka_unit_test(test_guided__a_beginning_that_does_not_fit_is_refused_and_one_that_does_continues),
        cmocka_unit_test(test_guided__where_nothing_can_follow_the_answer_ends_with_a_sentence),
    };
    int failed = cmocka_run_group_tests(tests, open_device, close_device);
    fake.beside_host = true;
    return failed + cmocka_run_group_tests(tests, open_device, close_device);
}
