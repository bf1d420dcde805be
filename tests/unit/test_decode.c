/* Prompt reuse, drafting, rollback and sampling of the decoder, against a model of hashes that has an exact oracle; all of it
 * once with a device that the host waits for, once with one that works beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/ids.h"
#include "engine/answering.h"
#include "engine/sampler.h"
#include "fake_model.h"

enum { CTX = 400 };

/* The time that the decoder sees: what rows cost decides how many drafts pay, so it must be the same on every machine. */
static int64_t now_ns;

int64_t __wrap_clock_ns(void);
double  __wrap_clock_ms_since(int64_t start);
int64_t __wrap_clock_waited_ns(void);
int64_t __wrap_clock_ns(void)                   { return now_ns += 1000; }
double  __wrap_clock_ms_since(int64_t start)    { return (double)(__wrap_clock_ns() - start) * 1e-6; }
int64_t __wrap_clock_waited_ns(void)            { return 0; }

static void rows_take_time(int rows)    { now_ns += 1000000 + 300000ll * rows; }

static struct model_config config;
static struct weights weights;
static struct dev *dev;

/* Events of one answer. */
struct heard {
    struct ids ids;
    struct ids how;
    float   prob[CTX];
    struct logprobs logprobs[CTX];
    int     stop_after;                 /* questions that are answered with "go on"; -1: all */
    int     deaf_at;                    /* the report of tokens that is refused; 0: none */
    int     last_done, last_total, cached;
};

static bool hear_stop(void *arg)
{
    struct heard *h = arg;
    return h->stop_after >= 0 && h->stop_after-- == 0;
}

static void hear_prefill(void *arg, int done, int total, int cached)
{
    struct heard *h = arg;
    h->last_done = done;
    h->last_total = total;
    h->cached = cached;
}

static bool hear_tokens(void *arg, const struct picks *p)
{
    struct heard *h = arg;
    if (h->deaf_at && !--h->deaf_at)
        return false;
    for (int i = 0; i < p->n; i++) {
        h->prob[h->ids.n] = p->prob[i];
        h->logprobs[h->ids.n] = p->logprobs[i];
        ids_add(&h->how, p->source[i]);
        ids_add(&h->ids, p->ids[i]);
    }
    return true;
}

static void heard_free(struct heard *h)
{
    ids_free(&h->ids);
    ids_free(&h->how);
}

/* State of each open decoder. */
static struct space {
    struct decoder *d;
    struct forward *f;
    struct cache   *caches[4];
} spaces[8];

static struct space *space_of(const struct decoder *d)
{
    for (int i = 0; i < 8; i++)
        if (spaces[i].d == d)
            return &spaces[i];
    fail_msg("no more decoders");
    return NULL;
}

static void close_space(struct space *s)
{
    decoder_close(s->d);
    forward_close(s->f);
    for (int i = 0; i < 4; i++)
        cache_close(s->caches[i]);
    *s = (struct space){0};
}

static void close_decoder(struct decoder *d)
{
    if (d)
        close_space(space_of(d));
}

/* NULL with the reason. */
static struct decoder *try_to_open(const struct decoder_options *o, struct err *e)
{
    struct space *s = space_of(NULL);
    for (int i = 0; i < o->n_sequences; i++)
        s->caches[i] = cache_open(dev, &(struct kv_shape){.cfg = &config, .recipe = kv_recipe_find("f32", NULL), .n_ctx = CTX + STEP_ROWS,
                                                          .n_slots = 1}, e);
    s->f = forward_open(dev, &config, &weights, o->chunk, e);
    s->d = decoder_open(dev, &config, s->f, s->caches, o, e);
    if (!s->d)
        close_space(s);
    return s->d;
}

static struct decoder *open_with(const struct decoder_options *o)
{
    struct err e;
    struct decoder *d = try_to_open(o, &e);
    assert_non_null(d);
    return d;
}

static struct decoder *open_decoder(int depth, int chunk, int n_snapshots)
{
    return open_with(&(struct decoder_options){.n_ctx = CTX, .chunk = chunk, .fixed_chunk = true, .depth = depth, .n_sequences = 1,
                                               .n_snapshots = n_snapshots, .traffic = traffic_of(&config, &weights, HEAD_BF16, NULL, false)});
}

static struct outcome ask_in(struct decoder *d, uint64_t sequence, const int32_t *ids, int n, int snapshot_pos, const struct sampling *how,
                             struct heard *h)
{
    struct decoder_hooks hooks = {.stop = hear_stop, .prefill = hear_prefill, .tokens = hear_tokens, .arg = h};
    struct prompt p = {.sequence = sequence, .spans = spans_text(ids, n), .snapshot_pos = snapshot_pos, .how = how};
    struct outcome out;
    struct err e;
    assert_true(decoder_answer(d, &p, &hooks, &out, &e));
    assert_int_equal(out.stats.n_tokens, h->ids.n);
    return out;
}

static struct outcome ask(struct decoder *d, const int32_t *ids, int n, int snapshot_pos, const struct sampling *how, struct heard *h)
{
    return ask_in(d, 0, ids, n, snapshot_pos, how, h);
}

/* The answer by definition: one token at a time, no cache. */
static enum end oracle(const int32_t *prompt, int n, const struct sampling *how, struct ids *out)
{
    struct picker *s = picker_open(config.vocab);
    uint64_t chain = fake_chain(prompt, n);
    enum end f = END_FAILED;
    int room = how->max_tokens && how->max_tokens < CTX - n ? how->max_tokens : CTX - n;
    picker_begin(s, how, prompt, n);
    while (f == END_FAILED) {
        float logits[64];
        struct pick p;
        struct err e;
        fake_logits(logits, chain);
        assert_true(picker_pick(s, logits, &p, &e));
        ids_add(out, p.id);
        chain = fake_mix(chain, (uint64_t)p.id);
        for (int i = 0; i < how->n_stop; i++)
            if (how->stop[i] == p.id)
                f = END_STOP;
        if (f != END_STOP && out->n == room)
            f = n + out->n == CTX ? END_CONTEXT : END_LENGTH;
    }
    picker_close(s);
    return f;
}

static void assert_same_ids(const struct ids *a, const struct ids *b)
{
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++)
        assert_int_equal(a->data[i], b->data[i]);
}

static unsigned rng_state = 1;
static int pick_below(int n)
{
    rng_state = rng_state * 1103515245u + 12345u;
    return (int)((rng_state >> 8) % (unsigned)n);
}

static void random_ids(int32_t *ids, int n)
{
    for (int i = 0; i < n; i++)
        ids[i] = pick_below(config.vocab);
}

/* ---- */

static void test_decode__every_depth_gives_the_same_answer_greedy_or_sampled(void **state)
{
    (void)state;
    const struct sampling hows[] = {
        {.max_tokens = 60},
        {.max_tokens = 60, .temperature = 1, .seed = 7},
        {.max_tokens = 60, .temperature = 0.7f, .top_k = 5, .top_p = 0.9f, .min_p = 0.05f, .seed = 8},
        {.max_tokens = 60, .temperature = 0.9f, .presence_penalty = 1.5f, .repetition_penalty = 1.2f, .seed = 9},
        {.max_tokens = 60, .repetition_penalty = 1.3f, .presence_penalty = 0.4f},
    };
    const int depths[] = {0, 1, 2, 3, 5, 7, -1};              /* -1: as many as pay */
    int32_t prompt[21];
    random_ids(prompt, 21);
    fake.n_early = 0;
    for (size_t i = 0; i < sizeof hows / sizeof *hows; i++) {
        struct ids want = {0};
        oracle(prompt, 21, &hows[i], &want);
        float prob[CTX];
        for (size_t j = 0; j < sizeof depths / sizeof *depths; j++) {
            struct decoder *d = open_decoder(depths[j] < 0 ? ENGINE_MAX_DEPTH : depths[j], 8, 4);
            struct heard h = {.stop_after = -1};
            struct sampling how = hows[i];
            how.draft_depth = depths[j];
            how.lookup = true;
            struct outcome out = ask(d, prompt, 21, 0, &how, &h);
            assert_int_equal(out.finish, END_LENGTH);
            assert_same_ids(&h.ids, &want);
            if (!j)
                memcpy(prob, h.prob, sizeof prob);
            assert_memory_equal(prob, h.prob, (size_t)h.ids.n * sizeof *prob);
            const struct draft_count all = stats_all_drafts(&out.stats);
            const int accepted = all.accepted, drafted = all.drafted, made = stats_drafts(&out.stats, DRAFT_MTP).drafted;
            for (int k = 0; k < DRAFT_SOURCES * LIMIT_DRAFTS; k++) {
                const struct draft_count c = out.stats.drafts[k / LIMIT_DRAFTS][k % LIMIT_DRAFTS];
                assert_true(c.accepted <= c.drafted);
            }
            assert_int_equal(1 + out.stats.n_steps + accepted, h.ids.n);        /* the first token, then one a step + drafts */
            const int least = 101 * out.stats.n_steps + drafted + 10 * made, most = least + 10 * ENGINE_MAX_DEPTH * (out.stats.n_steps + 3);
            assert_true(out.stats.bytes >= least && out.stats.bytes <= (depths[j] ? most : least));
            if (depths[j] > 0 && !i)        /* greedy: two drafts in three are right */
                assert_true(accepted > 12);
            heard_free(&h);
            close_decoder(d);
        }
        ids_free(&want);
    }
    assert_true(fake.beside_host ? fake.n_early > 0 : !fake.n_early);
}

/* An answer of at most so many tokens: what its last steps verify and draft for it beyond these would cost time for nothing. */
static void test_decode__no_row_and_no_draft_is_beyond_the_longest_answer(void **state)
{
    (void)state;
    int32_t prompt[5];
    int accepted = 0;
    random_ids(prompt, 5);
    fake.bad_draft_of = 0;              /* all drafts right: steps have many */
    fake.n_in_vain = 0;
    struct decoder *d = open_decoder(ENGINE_MAX_DEPTH, 8, 4);
    for (int room = 1; room <= 40; room++) {
        const struct sampling how = {.max_tokens = room, .draft_depth = -1, .lookup = room % 2};
        struct heard h = {.stop_after = -1};
        const struct outcome out = ask(d, prompt, 5, 0, &how, &h);
        assert_int_equal(h.ids.n, room);
        accepted += stats_all_drafts(&out.stats).accepted;
        heard_free(&h);
    }
    close_decoder(d);
    assert_true(accepted > 300);
    assert_int_equal(fake.n_in_vain, 0);
    fake.bad_draft_of = 3;
}

static void test_decode__a_stop_id_ends_the_answer_and_nothing_after_it_stays(void **state)
{
    (void)state;
    int32_t prompt[5];
    fake.bad_draft_of = 0;              /* all drafts right: the stop comes in the middle of a step */
    for (int round = 0; round < 40; round++) {
        random_ids(prompt, 5);
        struct sampling how = {.max_tokens = 100, .draft_depth = -1, .stop = {round % 16, (round + 5) % 16}, .n_stop = 2};
        struct ids want = {0};
        enum end f = oracle(prompt, 5, &how, &want);
        struct decoder *d = open_decoder(5, 8, 4);
        struct heard h = {.stop_after = -1};
        struct outcome out = ask(d, prompt, 5, 0, &how, &h);
        assert_int_equal(out.finish, f);
        assert_same_ids(&h.ids, &want);
        const struct timeline *t = &d->last->tl;
        assert_int_equal(t->n, 5 + want.n);
        assert_int_equal(t->n_run, t->n - 1);
        assert_memory_equal(t->ids + 5, want.data, (size_t)want.n * sizeof *want.data);
        heard_free(&h);
        ids_free(&want);
        close_decoder(d);
    }
    fake.bad_draft_of = 3;
}

static void test_decode__the_context_end_is_reached_exactly(void **state)
{
    (void)state;
    int32_t prompt[CTX];
    random_ids(prompt, CTX);
    for (int n = CTX - 9; n < CTX; n++) {
        struct decoder *d = open_decoder(3, 64, 4);
        struct heard h = {.stop_after = -1};
        struct sampling how = {.draft_depth = -1};
        struct outcome out = ask(d, prompt, n, 0, &how, &h);
        assert_int_equal(out.finish, END_CONTEXT);
        assert_int_equal(h.ids.n, CTX - n);
        heard_free(&h);
        close_decoder(d);
    }
}

static void test_decode__a_longer_prompt_computes_only_what_is_new(void **state)
{
    (void)state;
    int32_t ids[CTX];
    struct decoder *d = open_decoder(2, 8, 4);
    struct sampling how = {.max_tokens = 20, .draft_depth = -1};
    random_ids(ids, 30);
    struct heard h = {.stop_after = -1};
    struct outcome out = ask(d, ids, 30, 0, &how, &h);
    assert_int_equal(out.stats.n_cached, 0);
    memcpy(ids + 30, h.ids.data, 20 * sizeof *ids);
    random_ids(ids + 50, 10);
    heard_free(&h);

    h = (struct heard){.stop_after = -1};
    long before = fake.rows_run;
    how.max_tokens = 1;
    out = ask(d, ids, 60, 0, &how, &h);
    assert_int_equal(out.stats.n_cached, 49);           /* the last token of the answer had not been run */
    assert_int_equal(fake.rows_run - before, 11);
    assert_int_equal(h.last_done, 60);
    assert_int_equal(h.cached, 49);
    heard_free(&h);

    h = (struct heard){.stop_after = -1};
    before = fake.rows_run;
    ask(d, ids, 60, 0, &how, &h);       /* once more: the states stand at its end, nothing is computed but the head */
    assert_int_equal(fake.rows_run, before);
    heard_free(&h);
    close_decoder(d);
}

static void test_decode__regenerate_refills_from_the_kept_position(void **state)
{
    (void)state;
    int32_t ids[100];
    struct decoder *d = open_decoder(2, 16, 4);
    struct sampling how = {.max_tokens = 30, .draft_depth = -1};
    random_ids(ids, 100);
    struct heard a = {.stop_after = -1}, b = {.stop_after = -1}, c = {.stop_after = -1};
    ask(d, ids, 100, 95, &how, &a);
    struct outcome out = ask(d, ids, 100, 95, &how, &b);
    assert_int_equal(out.stats.n_cached, 95);
    assert_same_ids(&a.ids, &b.ids);
    ids[97] ^= 1;                       /* an edit behind the kept position, then one before it */
    out = ask(d, ids, 100, 95, &how, &c);
    assert_int_equal(out.stats.n_cached, 95);
    ids[90] ^= 1;
    heard_free(&c);
    c = (struct heard){.stop_after = -1};
    out = ask(d, ids, 100, 95, &how, &c);
    assert_int_equal(out.stats.n_cached, 0);
    heard_free(&a);
    heard_free(&b);
    heard_free(&c);
    close_decoder(d);
}

static void test_decode__an_interrupted_prompt_continues_where_it_stopped(void **state)
{
    (void)state;
    int32_t ids[200];
    struct decoder *d = open_decoder(2, 64, 4);
    struct sampling how = {.max_tokens = 5, .draft_depth = -1};
    random_ids(ids, 200);
    struct heard a = {.stop_after = 2}, b = {.stop_after = -1};
    struct outcome out = ask(d, ids, 200, 0, &how, &a);
    assert_int_equal(out.finish, END_INTERRUPTED);
    assert_int_equal(d->last->tl.n, 128);
    out = ask(d, ids, 200, 0, &how, &b);
    assert_int_equal(out.stats.n_cached, 128);
    struct ids want = {0};
    oracle(ids, 200, &how, &want);
    assert_same_ids(&b.ids, &want);
    ids_free(&want);
    heard_free(&a);
    heard_free(&b);
    close_decoder(d);
}

static struct outcome ask_about(struct decoder *d, struct spans prompt, int snapshot_pos)
{
    const struct sampling how = {.max_tokens = 3};
    struct heard h = {.stop_after = -1};
    const struct decoder_hooks hooks = {.stop = hear_stop, .prefill = hear_prefill, .tokens = hear_tokens, .arg = &h};
    const struct prompt p = {.spans = prompt, .snapshot_pos = snapshot_pos, .how = &how};
    struct outcome out;
    struct err e;
    assert_true(decoder_answer(d, &p, &hooks, &out, &e));
    heard_free(&h);
    return out;
}

/* All prompts have the same ids. */
static void test_decode__prompts_with_other_pictures_share_the_text_before_them(void **state)
{
    enum { N = 40, AT = 10 };
    int32_t ids[N + 20];
    const struct picture cat = {.first = AT, .n = 12, .h = 3, .w = 4, .hash = {1, 2}}, dog = {.first = AT, .n = 12, .h = 3, .w = 4, .hash = {1, 3}};
    (void)state;
    for (int i = 0; i < N + 20; i++)
        ids[i] = i % 5;
    struct decoder *d = open_decoder(1, 16, 4);
    assert_int_equal(ask_about(d, (struct spans){ids, N, &cat, 1}, AT).stats.n_cached, 0);
    const struct cache *k = d->last->k;
    assert_int_equal(k->n_at, AT + 12);
    assert_int_equal(k->offset, 4 - 12);
    assert_true(k->at[AT + 11].t == AT && k->at[AT + 11].h == AT + 2 && k->at[AT + 11].w == AT + 3);
    assert_int_equal(ask_about(d, (struct spans){ids, N, &dog, 1}, N).stats.n_cached, AT);
    assert_int_equal(ask_about(d, (struct spans){ids, N, &dog, 1}, N).stats.n_cached, N);
    assert_int_equal(ask_about(d, spans_text(ids, N), AT).stats.n_cached, AT);
    assert_true(!k->n_at && !k->offset);
    const struct outcome ends = ask_about(d, (struct spans){ids, AT + 12, &cat, 1}, AT);
    assert_int_equal(ends.finish, END_REFUSED);
    assert_string_equal(ends.why.msg, "the prompt ends within its picture 1, expected text after it");
    const struct picture twice[] = {cat, dog};
    assert_int_equal(ask_about(d, (struct spans){ids, N, twice, 2}, AT).finish, END_REFUSED);
    close_decoder(d);
}

static struct beginning beginning_of(const int32_t *ids, int n, int snapshot_pos)
{
    return (struct beginning){.spans = spans_text(ids, n), .snapshot_pos = snapshot_pos};
}

static void read_ahead(struct decoder *d, const int32_t *ids, int n, int snapshot_pos, int stop_after)
{
    struct heard h = {.stop_after = stop_after};
    struct beginning b = beginning_of(ids, n, snapshot_pos);
    struct err e;
    assert_true(decoder_read_ahead(d, &b, hear_stop, &h, &e));
    assert_int_equal(d->last->tl.n, d->last->tl.n_run);
}

/* Chunks end where they would without: at multiples of 64. */
static void test_decode__what_was_read_ahead_is_not_read_again_wherever_it_was_stopped(void **state)
{
    (void)state;
    int32_t ids[300];
    struct sampling how = {.max_tokens = 5, .draft_depth = -1};
    random_ids(ids, 300);
    struct ids want = {0};
    oracle(ids, 290, &how, &want);
    for (int stop = 0; stop < 8; stop++) {
        struct decoder *d = open_decoder(2, 64, 4);
        struct heard h = {.stop_after = -1};
        read_ahead(d, ids, 280, 280, stop);
        int have = d->last->tl.n_run;
        assert_int_equal(have, stop < 1 ? 0 : stop < 6 ? 64 * (stop - 1) : 256);
        long before = fake.rows_run;
        struct outcome out = ask(d, ids, 290, 285, &how, &h);
        assert_int_equal(out.stats.n_cached, have);
        assert_int_equal(out.stats.n_ahead, have);
        if (!fake.beside_host)
            assert_true(fake.rows_run - before < 290 - have + 20);
        assert_same_ids(&h.ids, &want);
        heard_free(&h);
        h = (struct heard){.stop_after = -1};
        assert_int_equal(ask(d, ids, 290, 285, &how, &h).stats.n_ahead, 0);    /* counted once */
        heard_free(&h);
        close_decoder(d);
    }
    ids_free(&want);
}

static void test_decode__a_wrong_guess_costs_no_refill_of_the_head(void **state)
{
    (void)state;
    int32_t ids[300];
    struct decoder *d = open_decoder(2, 64, 4);
    struct sampling how = {.max_tokens = 5, .draft_depth = -1};
    struct heard h = {.stop_after = -1};
    struct ids want = {0};
    random_ids(ids, 300);
    read_ahead(d, ids, 280, 150, -1);
    ids[160] ^= 1;                      /* something else is said */
    oracle(ids, 290, &how, &want);
    struct outcome out = ask(d, ids, 290, 285, &how, &h);
    assert_int_equal(out.stats.n_cached, 128);
    assert_int_equal(out.stats.n_ahead, 128);
    assert_same_ids(&h.ids, &want);
    heard_free(&h);

    int n = d->last->tl.n;     /* what is there already gives up nothing */
    struct beginning b = beginning_of(ids, 286, 286);
    struct err e;
    h = (struct heard){.stop_after = -1};
    assert_true(decoder_read_ahead(d, &b, hear_stop, &h, &e));
    assert_int_equal(d->last->tl.n, n);
    ids_free(&want);
    close_decoder(d);
}

static void walk_ahead(struct decoder *d, uint64_t sequence, const int32_t *ids, int n)
{
    int32_t other[CTX];
    struct heard h = {.stop_after = pick_below(2) ? -1 : pick_below(6)};
    struct err e;
    int same = pick_below(2) ? n : pick_below(n + 1);
    memcpy(other, ids, (size_t)n * sizeof *ids);
    random_ids(other + same, n - same);
    struct beginning b = beginning_of(other, n, pick_below(n + 1));
    b.sequence = sequence;
    assert_true(decoder_read_ahead(d, &b, hear_stop, &h, &e));
    assert_true(d->last->tl.n - d->last->tl.n_run <= 1);
}

/* A long random life of one decoder, in one conversation or in more than are resident: every answer must be the one that a fresh,
 * depth 0, cache-free model would give. */
static void walk(int depth, int n_snapshots, int n_sequences, int rounds)
{
    int32_t ids[CTX];
    int n = 0, interrupted = 0, reused = 0;
    struct decoder *d = open_with(&(struct decoder_options){.n_ctx = CTX, .chunk = 32, .fixed_chunk = true, .depth = depth,
                                                            .n_sequences = n_sequences, .n_snapshots = n_snapshots});
    for (int round = 0; round < rounds; round++) {
        const struct timeline *t = &d->last->tl;
        int kind = pick_below(5);
        uint64_t sequence = n_sequences > 1 ? (uint64_t)pick_below(4) : 0;
        if (kind < 3 && t->n && t->n < CTX - 40) {      /* go on after the answer */
            n = t->n;
            memcpy(ids, t->ids, (size_t)n * sizeof *ids);
        } else if (n) {                 /* cut somewhere: edit, undo, regenerate */
            n = pick_below(n + 1);
        }
        int more = kind == 4 ? 0 : pick_below(30);
        if (n + more >= CTX - 2)
            n = more = 0;
        random_ids(ids + n, more);
        n += more;
        if (!n)
            random_ids(ids, n = 1);

        struct sampling how = {.max_tokens = 1 + pick_below(40), .draft_depth = pick_below(depth + 2) - 1,
                               .stop = {pick_below(16)}, .n_stop = pick_below(2)};
        if (pick_below(2)) {
            how.temperature = 0.8f;
            how.presence_penalty = 1;
            how.repetition_penalty = 1.1f;
            how.seed = (uint64_t)round;
        }
        if (!pick_below(3))             /* a beginning of it, or of something else */
            walk_ahead(d, sequence, ids, pick_below(n + 1));
        struct heard h = {.stop_after = pick_below(3) ? -1 : pick_below(12), .deaf_at = pick_below(4) ? 0 : 1 + pick_below(8)};
        struct ids want = {0};
        enum end f = oracle(ids, n, &how, &want);
        struct outcome out = ask_in(d, sequence, ids, n, n - pick_below(6), &how, &h);
        if (out.finish == END_INTERRUPTED) {
            interrupted++;
            assert_true(h.ids.n <= want.n);
            want.n = h.ids.n;
        } else {
            assert_int_equal(out.finish, f);
        }
        assert_same_ids(&h.ids, &want);
        reused += out.stats.n_cached > 0;
        t = &d->last->tl;
        assert_memory_equal(t->ids, ids, (size_t)(t->n < n ? t->n : n) * sizeof *ids);
        if (h.ids.n) {
            assert_int_equal(t->n, n + h.ids.n);
            assert_int_equal(t->n_run, t->n - 1);
        } else {
            assert_int_equal(t->n_run, t->n);
        }
        heard_free(&h);
        ids_free(&want);
    }
    assert_true(interrupted > rounds / 50);
    assert_true(reused > rounds / 4);
    close_decoder(d);
}

static void test_decode__rewind_edit_and_interrupt_never_change_an_answer(void **state)
{
    (void)state;
    const int depths[] = {0, 1, 2, 3, 5};
    for (int i = 0; i < 5; i++)
        walk(depths[i], 1 + i, 1, 400);
    walk(2, 4, 2, 800);
    walk(0, 3, 3, 400);
}

/* ---- several conversations ---- */

static struct decoder *open_several(int depth, int n_sequences)
{
    return open_with(&(struct decoder_options){.n_ctx = CTX, .chunk = 64, .fixed_chunk = true, .depth = depth, .n_sequences = n_sequences,
                                               .n_snapshots = 8});
}

/* Ids of one conversation, as the prompt of its next turn has them. */
struct talk {
    uint64_t name;
    int32_t  ids[CTX];
    int      n, computed, interrupted;
};

/* A turn of 12 new tokens.  Returns how many of the prompt's tokens were there already. */
static int talk_turn(struct decoder *d, struct talk *t, const struct sampling *how, int deaf_at)
{
    struct heard h = {.stop_after = -1, .deaf_at = deaf_at};
    struct ids want = {0};
    random_ids(t->ids + t->n, 12);
    t->n += 12;
    oracle(t->ids, t->n, how, &want);
    struct outcome out = ask_in(d, t->name, t->ids, t->n, t->n, how, &h);
    if (out.finish == END_INTERRUPTED) {
        t->interrupted++;
        assert_true(h.ids.n < want.n);
        want.n = h.ids.n;
    }
    assert_same_ids(&h.ids, &want);
    t->computed += out.stats.n_prompt - out.stats.n_cached;
    memcpy(t->ids + t->n, h.ids.data, (size_t)h.ids.n * sizeof *t->ids);
    t->n += h.ids.n;
    heard_free(&h);
    ids_free(&want);
    return out.stats.n_cached;
}

static void test_decode__two_alternating_conversations_compute_no_token_twice(void **state)
{
    (void)state;
    const struct sampling hows[] = {{.max_tokens = 9}, {.max_tokens = 9, .temperature = 0.8f, .presence_penalty = 1, .seed = 5}};
    for (int depth = 0; depth <= 3; depth += 3)
        for (int k = 0; k < 2; k++) {
            struct decoder *d = open_several(depth, 2);
            struct talk talks[2] = {{.name = 11}, {.name = 22}};
            struct sampling how = hows[k];
            how.draft_depth = -1;
            for (int turn = 0; turn < 20; turn++) {
                struct talk *t = &talks[turn % 2];
                int there = t->n ? t->n - 1 : 0;        /* all but the newest token, which no step has run */
                int cached = talk_turn(d, t, &how, turn == 7 || turn == 12 ? 3 : 0);
                assert_true(cached >= there && cached <= there + 1);
                assert_int_equal(sequences_resident(&d->sequences), turn ? 2 : 1);
            }
            for (int i = 0; i < 2; i++) {
                assert_int_equal(talks[i].interrupted, 1);
                assert_true(talks[i].computed >= 120 && talks[i].computed <= 120 + 9);    /* what was said, and the newest token of each answer */
            }
            close_decoder(d);
        }
}

static void test_decode__the_least_recently_used_conversation_gives_up_its_place(void **state)
{
    (void)state;
    const struct sampling how = {.max_tokens = 9, .draft_depth = -1};
    struct decoder *d = open_several(2, 2);
    struct talk a = {.name = 1}, b = {.name = 2}, c = {.name = 3};
    talk_turn(d, &a, &how, 0);
    talk_turn(d, &b, &how, 0);
    assert_true(talk_turn(d, &a, &how, 0) > 0);
    assert_int_equal(talk_turn(d, &c, &how, 0), 0);     /* takes the place of b */
    assert_true(talk_turn(d, &a, &how, 0) > 0);
    assert_int_equal(talk_turn(d, &b, &how, 0), 0);     /* takes the place of c; its answer is right all the same */
    assert_true(talk_turn(d, &a, &how, 0) > 0);
    assert_int_equal(sequences_resident(&d->sequences), 2);
    close_decoder(d);
}

/* Going back stays within the conversation; the other one is not touched. */
static void test_decode__an_edit_takes_no_place_of_another_conversation(void **state)
{
    (void)state;
    const struct sampling how = {.max_tokens = 9, .draft_depth = -1};
    struct decoder *d = open_several(2, 2);
    struct talk a = {.name = 1}, b = {.name = 2};
    talk_turn(d, &b, &how, 0);
    for (int i = 0; i < 4; i++)
        talk_turn(d, &a, &how, 0);
    a.n = 5;                            /* the first message is another one now */
    talk_turn(d, &a, &how, 0);
    talk_turn(d, &a, &how, 0);
    assert_int_equal(talk_turn(d, &b, &how, 0), 20);
    close_decoder(d);
}

static void test_decode__without_a_name_a_prompt_finds_what_it_continues(void **state)
{
    (void)state;
    const struct sampling how = {.max_tokens = 9, .draft_depth = -1};
    struct decoder *d = open_several(2, 2);
    struct talk a = {0}, b = {0};
    random_ids(a.ids, 80);              /* both begin alike, as with one system prompt */
    memcpy(b.ids, a.ids, sizeof b.ids);
    a.n = b.n = 80;
    talk_turn(d, &a, &how, 0);
    talk_turn(d, &b, &how, 0);          /* does not take a's place: it has another message there */
    assert_int_equal(sequences_resident(&d->sequences), 2);
    for (int i = 0; i < 6; i++)
        assert_true(talk_turn(d, i % 2 ? &b : &a, &how, 0) >= 100);
    close_decoder(d);

    d = open_several(2, 2);             /* what was read ahead before there was a name */
    struct talk c = {.name = 5, .n = 80}, e = {.name = 6};
    memcpy(c.ids, a.ids, sizeof c.ids);
    talk_turn(d, &e, &how, 0);
    read_ahead(d, a.ids, 80, 80, -1);
    assert_int_equal(talk_turn(d, &c, &how, 0), 64);
    assert_int_equal(talk_turn(d, &e, &how, 0), 20);
    close_decoder(d);
}

/* ---- several answers at once ---- */

enum { CROWD = 4 };

/* Somebody who asks. */
struct asker {
    bool    under_way, over;
    int     begins;                     /* turn in which it asks */
    int32_t prompt[CTX];
    int     n;
    struct sampling how;
    struct heard    heard;
    struct outcome  out;
    struct ids      want;
    enum end     end;                /* of what it wants, if it is not stopped */
};

static bool asker_stop(void *arg)                                            { return hear_stop(&((struct asker *)arg)->heard); }
static void asker_prefill(void *arg, int done, int total, int cached)        { hear_prefill(&((struct asker *)arg)->heard, done, total, cached); }
static bool asker_tokens(void *arg, const struct picks *p)                   { return hear_tokens(&((struct asker *)arg)->heard, p); }
static void asker_done(void *arg)
{
    struct asker *a = arg;
    assert_true(a->under_way);
    a->under_way = false;
    a->over = true;
}

static struct asker make_asker(int i)
{
    static const struct sampling hows[] = {
        {.temperature = 0}, {.temperature = 1, .top_k = 8}, {.temperature = 0.7f, .presence_penalty = 1.2f},
        {.repetition_penalty = 1.3f, .n_alternatives = 3},
    };
    struct asker a = {.how = hows[pick_below(4)], .n = 1 + pick_below(pick_below(3) ? 99 : CTX - 1), .begins = 2 * i + pick_below(20),
                      .heard = {.stop_after = -1}};
    random_ids(a.prompt, a.n);
    a.how.seed = (uint64_t)pick_below(1000);
    a.how.max_tokens = 1 + pick_below(60);
    a.how.draft_depth = pick_below(3) ? -1 : pick_below(4);
    a.how.lookup = pick_below(2);
    a.how.stop[0] = pick_below(100);    /* mostly none */
    a.how.n_stop = 1;
    if (!pick_below(4))
        a.heard.stop_after = pick_below(40);
    if (!pick_below(8))
        a.heard.deaf_at = 1 + pick_below(10);
    a.end = oracle(a.prompt, a.n, &a.how, &a.want);
    return a;
}

static void check_asker(struct asker *a)
{
    if (a->out.finish == END_INTERRUPTED)
        a->want.n = a->heard.ids.n < a->want.n ? a->heard.ids.n : a->want.n;
    else
        assert_int_equal(a->out.finish, a->end);
    assert_same_ids(&a->heard.ids, &a->want);
    assert_int_equal(a->out.stats.n_tokens, a->want.n);
    heard_free(&a->heard);
    ids_free(&a->want);
}

/* Everybody asks as soon as there is room. */
static void serve_crowd(struct decoder *d, struct asker *all, int n)
{
    const struct decoder_hooks hooks = {asker_stop, asker_prefill, asker_tokens, asker_done, NULL};
    struct err e;
    for (int turn = 0, over = 0; over < n; turn++) {
        for (int i = 0; i < n; i++) {
            struct asker *a = &all[i];
            const struct prompt p = {.spans = spans_text(a->prompt, a->n), .how = &a->how};
            struct decoder_hooks h = hooks;
            h.arg = a;
            if (a->under_way || a->over || turn < a->begins || !decoder_may_begin(d, &(struct arrival){.prompt = p.spans}))
                continue;
            a->under_way = true;
            decoder_begin(d, &p, &h, &a->out);
        }
        assert_true(decoder_turn(d, &e));
        for (int i = over = 0; i < n; i++)
            over += all[i].over;
    }
    assert_int_equal(d->n_runs, 0);
}

static long n_joined;                   /* chunks of several conversations */

static void count_joined(const struct prompt_part *parts, int n_parts)
{
    (void)parts;
    n_joined += n_parts > 1;
}

static void test_decode__answers_at_once_are_those_that_each_is_alone(void **state)
{
    (void)state;
    enum { ASKERS = 12 };
    static const int chunks[] = {16, 128, 300, CTX};
    const struct dev_caps *caps = dev->caps;
    static struct dev_caps several;
    several = *caps;
    several.several = true;
    dev->caps = &several;
    fake.n_drafts_together = fake.n_verified_together = n_joined = 0;
    fake.on_chunk = count_joined;
    for (int n_sequences = 2; n_sequences <= CROWD; n_sequences++)
        for (int round = 0; round < 12; round++) {
            struct asker all[ASKERS];
            struct decoder *d = open_with(&(struct decoder_options){.n_ctx = CTX, .chunk = chunks[round / 3], .fixed_chunk = true,
                                                                    .depth = round % 4 ? 3 : 0, .n_sequences = n_sequences, .n_snapshots = 6});
            fake.n_together = 0;
            assert_int_equal(d->most_runs, n_sequences);
            d->pace.call_ms = 1000;     /* of which rows are a small part */
            for (int i = 0; i < ASKERS; i++)
                all[i] = make_asker(i);
            serve_crowd(d, all, ASKERS);
            for (int i = 0; i < ASKERS; i++)
                check_asker(&all[i]);
            assert_true(fake.n_together > 10);
            close_decoder(d);
        }
    assert_true(fake.n_drafts_together > 100 && fake.n_verified_together > 100 && n_joined > 10);
    fake.on_chunk = NULL;
    dev->caps = caps;
}

static struct buf chunks_read;          /* conversation and rows of each chunk's parts, as in "a150+b140 c60" */
static const struct cache *talks[3];    /* in the order in which they are read first */

static void write_chunk(const struct prompt_part *parts, int n_parts)
{
    for (int i = 0; i < n_parts; i++) {
        int t = 0;
        while (talks[t] && talks[t] != parts[i].k)
            t++;
        talks[t] = parts[i].k;
        buf_addf(&chunks_read, "%s%c%d", i ? "+" : chunks_read.len ? " " : "", 'a' + t, parts[i].n);
    }
}

/* Prompts that wait together, and what is in which call. */
static const struct joined {
    const char *want;
    int  n[3];
    int  chunk;                         /* most rows of a call */
    int  patience_ms[3];
    int  seen;                          /* the prompt with a picture, from 1 on */
    bool answers;                       /* beside an answer */
    int  others_ms;                     /* how long answers wait; 0: 900, as others do, which is 3,000 rows */
    int  stops;                         /* the prompt that is stopped after two turns, from 1 on */
    int  snapshot;                      /* of the second prompt */
} joined[] = {
    {"a150+b140", {150, 140}, .chunk = 400},
    {"a60+b50+c10", {60, 50, 10}, .chunk = 400},
    {"a60+b60 c60", {60, 60, 60}, .chunk = 400},           /* 128 rows are a short call */
    {"a300 b100", {300, 100}, .chunk = 400},
    {"a100 b100", {100, 100}, .chunk = 400},
    {"a250 b200", {250, 200}, .chunk = 400},
    {"a129 b140", {129, 140}, .chunk = 400},            /* which has 128 MTP rows */
    {"a150+b192 b148", {150, 340}, .chunk = 400, .snapshot = 192},
    {"a140 b340", {140, 340}, .chunk = FAKE_MAX_ROWS},    /* whose rows take longer than a call */
    {"a340+b140", {340, 140}, .chunk = FAKE_MAX_ROWS},
    {"a200+b130 c200", {200, 200, 130}, .chunk = 350},
    {"a256 b150+a134", {390, 150}, .chunk = 300},
    {"a256 b256 a134+b134", {390, 390}, .chunk = 300},
    {"a256 b256 b134", {390, 390}, .chunk = 300, .stops = 1},
    {"a256 b256 a134", {390, 390}, .chunk = 300, .stops = 2},
    {"a150 b140", {150, 140}, .chunk = 400, .patience_ms = {0, 20000}},
    {"a150+b140", {150, 140}, .chunk = 400, .patience_ms = {20000, 20000}},
    {"a150+b140", {150, 140}, .chunk = 400, .seen = 1},
    {"a150 b140", {150, 140}, .chunk = 400, .seen = 2},
    {"a150+b140", {150, 140}, .chunk = 400, .answers = true},
    {"a150 b140", {150, 140}, .chunk = 400, .answers = true, .others_ms = 60},    /* 200 rows */
    {"a60+b50", {60, 50}, .chunk = 400, .answers = true, .others_ms = 60},
    {"a150+b140", {150, 140}, .chunk = 400, .others_ms = 60},
    {"a192+b192 c192+a192 b192+c192 a6+b6+c6", {390, 390, 390}, .chunk = 400, .others_ms = 60},
    {"a150 b140", {150, 140}, .chunk = 400, .seen = 1, .answers = true},          /* 266 rows */
};

static void call_takes_time(int rows) { now_ns += 100000000 + 300000ll * rows; }

static void read_joined(const struct joined *j)
{
    static const struct picture picture = {.first = 20, .n = 60, .h = 6, .w = 10, .hash = {1, 2}};
    const int32_t pad = config.vision.image_id;         /* no answer to a prompt with a picture says it */
    const float never = -INFINITY;
    struct decoder_hooks hooks = {asker_stop, asker_prefill, asker_tokens, asker_done, NULL};
    struct decoder *d = open_with(&(struct decoder_options){.n_ctx = CTX, .chunk = j->chunk, .n_sequences = CROWD, .n_snapshots = 6, .depth = 3});
    struct asker all[CROWD] = {{0}};
    struct err e;
    fake.on_rows = call_takes_time;
    d->pace = (struct pace){.most_ms = {1000, 1000, 100 + (j->others_ms ? j->others_ms : 900), 180}, .least_rows = 1, .telling_rows = 10 * CTX,
                             .call_ms = 100, .row_ms = 0.3};
    for (int i = j->answers ? -1 : 0; i < 3 && (i < 0 || j->n[i]); i++) {
        struct asker *a = hooks.arg = &all[i + 1];
        *a = (struct asker){.under_way = true, .n = i < 0 ? 5 : j->n[i], .heard = {.stop_after = -1},
                            .how = {.max_tokens = i < 0 ? 60 : 3, .bias_ids = &pad, .bias = &never, .n_bias = 1}};
        if (i >= 0)
            a->how.patience_ms = j->patience_ms[i];
        if (i >= 0 && j->stops == i + 1)
            a->heard.stop_after = 2;
        random_ids(a->prompt, a->n);
        a->end = oracle(a->prompt, a->n, &a->how, &a->want);
        struct prompt p = {.spans = spans_text(a->prompt, a->n), .how = &a->how, .submitted_ns = now_ns};
        p.spans.pictures = &picture;
        p.spans.n_pictures = i >= 0 && j->seen == i + 1;
        p.snapshot_pos = i == 1 ? j->snapshot : 0;
        decoder_begin(d, &p, &hooks, &a->out);
        while (i < 0 && !a->heard.ids.n)
            assert_true(decoder_turn(d, &e));
    }
    buf_reset(&chunks_read);
    memset(talks, 0, sizeof talks);
    fake.on_chunk = write_chunk;
    while (d->n_runs)
        assert_true(decoder_turn(d, &e));
    fake.on_rows = rows_take_time;
    fake.on_chunk = NULL;
    assert_string_equal(buf_str(&chunks_read), j->want);
    for (int i = 0; i < CROWD; i++) {
        struct asker *a = &all[i];
        if (!a->n)
            continue;
        if (!j->stops || i != j->stops)
            assert_int_equal(a->heard.last_done, a->n);
        check_asker(a);
    }
    if (j->snapshot) {                  /* another prompt rejoins there */
        struct asker *a = &all[2];
        const struct sampling how = {.max_tokens = 1};
        struct heard h = {.stop_after = -1};
        a->prompt[j->snapshot] ^= 1;
        assert_int_equal(ask(d, a->prompt, a->n, 0, &how, &h).stats.n_cached, j->snapshot);
        heard_free(&h);
    }
    close_decoder(d);
}

static void test_decode__short_prompts_that_wait_are_read_in_one_call(void **state)
{
    (void)state;
    const struct dev_caps *caps = dev->caps;
    struct dev_caps several = *caps;
    several.several = true;
    dev->caps = &several;
    for (size_t i = 0; i < sizeof joined / sizeof *joined; i++)
        read_joined(&joined[i]);
    buf_free(&chunks_read);
    dev->caps = caps;
}

static int longest;                     /* rows of a chunk */

static void rows_take_less(int rows)
{
    now_ns += 1000000 + 200000ll * rows;
    longest = rows > longest ? rows : longest;
}

/* A prompt of 380 tokens takes 77 ms, of pictures or text; an answer waits for the first of them that has pictures no longer than 60. */
static void test_decode__a_chunk_with_a_picture_is_short_while_another_answer_is_made(void **state)
{
    (void)state;
    static const struct { bool seen, beside; int rows; } rows[] = {{true, true, 256}, {false, true, 380}, {true, false, 380}};
    const struct picture p = {.first = 300, .n = 60, .h = 6, .w = 10, .hash = {1, 2}};
    const struct decoder_hooks hooks = {asker_stop, asker_prefill, asker_tokens, asker_done, NULL};
    const struct dev_caps *caps = dev->caps;
    const struct dev_caps both = {.several = true, .beside_host = true, .kv_dtypes = caps->kv_dtypes};
    struct err e;
    dev->caps = &both;
    fake.on_rows = rows_take_less;
    for (int i = 0; i < 3; i++) {
        struct decoder *d = open_with(&(struct decoder_options){.n_ctx = CTX, .chunk = CTX, .n_sequences = 2, .n_snapshots = 2});
        struct asker all[2] = {{.under_way = true, .how = {.max_tokens = 300}, .heard = {.stop_after = -1}},
                               {.under_way = true, .how = {.max_tokens = 1}, .heard = {.stop_after = -1}}};
        static const int32_t ids[CTX];
        const struct spans prompts[] = {spans_text(ids, 5), {.ids = ids, .n = 380, .pictures = &p, .n_pictures = rows[i].seen}};
        for (int k = !rows[i].beside; k < 2; k++) {
            struct decoder_hooks h = hooks;
            h.arg = &all[k];
            decoder_begin(d, &(struct prompt){.spans = prompts[k], .how = &all[k].how}, &h, &all[k].out);
            while (!k && !all[0].heard.ids.n)
                assert_true(decoder_turn(d, &e));
        }
        longest = 0;
        while (d->n_runs)
            assert_true(decoder_turn(d, &e));
        assert_int_equal(longest, rows[i].rows);
        assert_true(all[1].over);
        for (int k = 0; k < 2; k++)
            heard_free(&all[k].heard);
        close_decoder(d);
    }
    fake.on_rows = rows_take_time;
    dev->caps = caps;
}

/* A NaN in one row is nobody else's. */
static void test_decode__an_answer_that_fails_ends_alone(void **state)
{
    (void)state;
    const struct dev_caps *caps = dev->caps;
    static struct dev_caps several;
    several = *caps;
    several.several = true;
    dev->caps = &several;
    struct decoder *d = open_several(3, 2);
    struct asker all[2] = {{.n = 90, .how = {.max_tokens = 60}, .heard = {.stop_after = -1}},
                           {.n = 5, .how = {.max_tokens = 60}, .heard = {.stop_after = -1}}};
    for (int i = 0; i < 2; i++) {
        random_ids(all[i].prompt, all[i].n);
        all[i].end = oracle(all[i].prompt, all[i].n, &all[i].how, &all[i].want);
    }
    fake.nan_pos = 100;
    serve_crowd(d, all, 2);
    fake.nan_pos = 0;
    assert_int_equal(all[0].out.finish, END_FAILED);
    assert_non_null(strstr(all[0].out.why.msg, "NaN") ? all[0].out.why.msg : strstr(all[0].out.why.msg, "nan"));
    heard_free(&all[0].heard);
    ids_free(&all[0].want);
    check_asker(&all[1]);
    struct talk t = {.name = 1};
    talk_turn(d, &t, &(struct sampling){.max_tokens = 9}, 0);
    close_decoder(d);
    dev->caps = caps;
}

static void *no_memory(struct dev *d, size_t bytes)
{
    (void)d, (void)bytes;
    return NULL;
}

/* A failure during the first calls, or before them, is reported, and nothing stays open. */
static void test_decode__what_cannot_be_opened_says_why(void **state)
{
    (void)state;
    const struct decoder_options o = {.n_ctx = CTX, .chunk = 32, .fixed_chunk = true, .depth = 2, .n_sequences = 2, .n_snapshots = 4};
    void *(*const alloc_host)(struct dev *d, size_t bytes) = dev->alloc_host;
    struct decoder *d;
    struct err e = {0};
    fake.fault_pos = 3;
    assert_null(try_to_open(&o, &e));
    assert_string_equal(e.msg, "operation attention failed: out of order");
    e = (struct err){0};
    fake.fault_pos = o.chunk + 1;       /* a step of the warm-up, where there are some */
    fake_faulted = false;
    d = try_to_open(&o, &e);
    assert_true(fake.beside_host ? !d && !strcmp(e.msg, "operation attention failed: out of order") : d != NULL);
    close_decoder(d);
    fake.fault_pos = 0;
    fake_faulted = false;
    dev->alloc_host = no_memory;
    assert_null(try_to_open(&o, &e));
    assert_non_null(strstr(e.msg, "no memory for 4 snapshots: "));
    dev->alloc_host = alloc_host;
    close_decoder(open_with(&o));
}

static void test_decode__bad_prompts_are_refused_and_nothing_is_lost(void **state)
{
    (void)state;
    int32_t ids[CTX] = {0};
    struct decoder *d = open_decoder(2, 32, 4);
    struct sampling how = {.max_tokens = 5}, bad = {.temperature = -1}, nan = {.top_p = NAN}, begun = {.n_answer_prefix = 4};
    int32_t far = 16;
    float one = 1;
    const int32_t three = 3;
    const float no_number = NAN;
    struct sampling bias = {.bias_ids = &far, .bias = &one, .n_bias = 1}, nan_bias = {.bias_ids = &three, .bias = &no_number, .n_bias = 1};
    const struct { int n; int32_t last; const struct sampling *how; const char *why; } rows[] = {
        {0,   0,  &how,  "the prompt is empty"},
        {CTX, 0,  &how,  "the prompt has 400 tokens, the context holds 400"},
        {3,   16, &how,  "token 2 of the prompt is id 16, expected 0 to 15"},
        {3,   -1, &how,  "token 2 of the prompt is id -1"},
        {3,   0,  &bad,  "temperature is -1"},
        {3,   0,  &nan,  "top_p is nan"},
        {3,   0,  &bias, "logit bias for id 16"},
        {3,   0,  &nan_bias, "logit bias of id 3 is nan, expected a number or -inf"},
        {3,   0,  &begun, "the answer's beginning has 4 tokens, the whole prompt 3"},
    };
    struct heard h = {.stop_after = -1};
    ask(d, ids, 10, 0, &how, &h);
    int n = d->last->tl.n;
    heard_free(&h);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        h = (struct heard){.stop_after = -1};
        if (rows[i].n)
            ids[rows[i].n - 1] = rows[i].last;
        struct outcome out = ask(d, ids, rows[i].n, 0, rows[i].how, &h);
        assert_int_equal(out.finish, END_REFUSED);
        assert_non_null(strstr(out.why.msg, rows[i].why));
        assert_int_equal(d->last->tl.n, n);
    }
    close_decoder(d);
}

static void test_decode__a_nan_ends_the_answer_and_the_next_one_starts_clean(void **state)
{
    (void)state;
    int32_t ids[20];
    struct sampling how = {.max_tokens = 10, .draft_depth = -1};
    random_ids(ids, 20);
    struct decoder *d = open_decoder(3, 32, 4);
    struct heard h = {.stop_after = -1}, again = {.stop_after = -1};
    fake.nan_pos = 24;
    struct outcome out = ask(d, ids, 20, 15, &how, &h);
    fake.nan_pos = 0;
    assert_int_equal(out.finish, END_FAILED);
    assert_non_null(strstr(out.why.msg, "the logit of id 3 is nan"));
    assert_int_equal(d->last->tl.n, 0);
    out = ask(d, ids, 20, 15, &how, &again);
    assert_int_equal(out.stats.n_cached, 0);
    assert_int_equal(again.ids.n, 10);
    heard_free(&h);
    heard_free(&again);
    close_decoder(d);
}

static void test_decode__an_answer_that_may_pick_nothing_says_so(void **state)
{
    (void)state;
    int32_t ids[20], all[16];
    float banned[16];
    for (int i = 0; i < 16; i++) {
        all[i] = i;
        banned[i] = -INFINITY;
    }
    random_ids(ids, 20);
    for (int depth = 0; depth <= 3; depth += 3) {
        struct decoder *d = open_decoder(depth, 32, 4);
        struct heard h = {.stop_after = -1}, again = {.stop_after = -1};
        struct sampling how = {.max_tokens = 10, .draft_depth = -1, .bias_ids = all, .bias = banned, .n_bias = 16};
        struct outcome out = ask(d, ids, 20, 0, &how, &h);
        assert_int_equal(out.finish, END_FAILED);
        assert_int_equal(h.ids.n, 0);
        assert_string_equal(out.why.msg, "no id is left to pick from: all 16 are banned");
        how.n_bias = 15;                /* one is left, and is said ten times */
        out = ask(d, ids, 20, 0, &how, &again);
        assert_int_equal(out.finish, END_LENGTH);
        assert_int_equal(again.ids.n, 10);
        for (int i = 0; i < 10; i++)
            assert_int_equal(again.ids.data[i], 15);
        heard_free(&h);
        heard_free(&again);
        close_decoder(d);
    }
}

/* Cut anywhere and asked again with its beginning in the prompt, an answer ends as it would have; nothing of it is computed
 * again but the newest token. */
static void test_decode__an_answer_continues_where_it_was_cut(void **state)
{
    (void)state;
    const struct sampling hows[] = {
        {0},
        {.temperature = 1, .seed = 7, .presence_penalty = 1.5f},
        {.temperature = 0.8f, .seed = 8, .presence_penalty = 1, .repetition_penalty = 1.2f, .top_p = 0.9f},
    };
    enum { P = 12, N = 40 };
    int32_t ids[P + N];
    random_ids(ids, P);
    for (size_t i = 0; i < sizeof hows / sizeof *hows; i++)
        for (int depth = 0; depth <= 3; depth += 3) {
            struct ids want = {0};
            struct sampling how = hows[i];
            how.max_tokens = N;
            how.draft_depth = -1;
            oracle(ids, P, &how, &want);
            for (int cut = 1; cut < N; cut++) {
                struct decoder *d = open_decoder(depth, 8, 4);
                struct heard a = {.stop_after = -1}, b = {.stop_after = -1};
                how.n_answer_prefix = 0;
                how.max_tokens = cut;
                ask(d, ids, P, P, &how, &a);
                memcpy(ids + P, a.ids.data, (size_t)cut * sizeof *ids);
                how.n_answer_prefix = cut;
                how.max_tokens = N - cut;
                struct outcome out = ask(d, ids, P + cut, P, &how, &b);
                assert_int_equal(out.stats.n_cached, P + cut - 1);
                assert_int_equal(out.stats.n_tokens, N - cut);
                assert_memory_equal(ids + P, want.data, (size_t)cut * sizeof *ids);
                assert_memory_equal(b.ids.data, want.data + cut, (size_t)(N - cut) * sizeof *ids);
                heard_free(&a);
                heard_free(&b);
                close_decoder(d);
            }
            ids_free(&want);
        }
}

static void test_decode__every_token_has_its_logprobs_when_asked_for(void **state)
{
    (void)state;
    int32_t prompt[9];
    random_ids(prompt, 9);
    for (int asked = 0; asked < 2; asked++)
        for (int depth = 0; depth <= 3; depth += 3) {
            struct decoder *d = open_decoder(depth, 8, 4);
            struct sampling how = {.max_tokens = 50, .draft_depth = -1, .temperature = 1, .seed = 3, .presence_penalty = 2,
                                   .n_alternatives = 5 * asked};
            struct heard h = {.stop_after = -1};
            uint64_t chain = fake_chain(prompt, 9);
            ask(d, prompt, 9, 0, &how, &h);
            for (int i = 0; i < h.ids.n; i++) {
                float l[64];
                double sum = 0;
                const struct logprobs *o = &h.logprobs[i];
                fake_logits(l, chain);
                for (int j = 0; j < config.vocab; j++)
                    sum += exp((double)l[j]);
                assert_int_equal(o->n, how.n_alternatives);
                assert_true(asked ? fabs((double)o->prob - exp((double)l[h.ids.data[i]]) / sum) < 1e-5 : o->prob < 0);
                for (int k = 0; k < o->n; k++)
                    assert_true(fabs((double)o->probs[k] - exp((double)l[o->ids[k]]) / sum) < 1e-5 && (!k || o->probs[k] <= o->probs[k - 1]));
                chain = fake_mix(chain, (uint64_t)h.ids.data[i]);
            }
            heard_free(&h);
            close_decoder(d);
        }
}

/* ---- sampling exactness ---- */

/* The target distribution of one token by definition: sort, cut, normalise. */
static void target(double *p, uint64_t chain, const struct sampling *how)
{
    float logits[64];
    int V = config.vocab, order[64];
    fake_logits(logits, chain);
    for (int i = 0; i < V; i++)
        order[i] = i;
    for (int i = 0; i < V; i++)
        for (int j = i + 1; j < V; j++)
            if (logits[order[j]] > logits[order[i]]) {
                int swap = order[i];
                order[i] = order[j];
                order[j] = swap;
            }
    int n = how->top_k ? how->top_k : V, kept = 0;
    double w[64], sum = 0, cum = 0, total = 0;
    for (int i = 0; i < n; i++)
        sum += w[i] = exp(((double)logits[order[i]] - logits[order[0]]) / how->temperature);
    while (kept < n && (!how->top_p || cum < how->top_p * sum))
        cum += w[kept++];
    for (int i = 0; i < V; i++)
        p[i] = 0;
    for (int i = 0; i < kept; i++)
        if (w[i] >= how->min_p)
            total += p[order[i]] = w[i];
    for (int i = 0; i < V; i++)
        p[i] /= total;
}

/* Chi-square of the first three tokens of `rounds` answers against their exact joint distribution, in units of standard
 * deviations above its mean: about normal, so that more than 4 means a wrong distribution. */
static double misfit(int depth, const struct sampling *base, int rounds, int *accepted)
{
    enum { MAX_V = 8 };
    int V = config.vocab;
    static int count[MAX_V][MAX_V][MAX_V];
    int32_t prompt[3] = {1, 2, 3};
    struct decoder *d = open_decoder(depth, 32, 2);
    memset(count, 0, sizeof count);
    for (int i = 0; i < rounds; i++) {
        struct heard h = {.stop_after = -1};
        struct sampling how = *base;
        how.seed = (uint64_t)i + 1000 * (uint64_t)depth;
        how.max_tokens = 4;
        how.draft_depth = depth > 3 ? -1 : depth;
        struct outcome out = ask(d, prompt, 3, 3, &how, &h);
        count[h.ids.data[0]][h.ids.data[1]][h.ids.data[2]]++;
        *accepted += stats_all_drafts(&out.stats).accepted;
        heard_free(&h);
    }
    close_decoder(d);

    double chi = 0, rest_p = 0, pa[MAX_V], pb[MAX_V], pc[MAX_V];
    int cells = 0, rest_n = 0;
    uint64_t h = fake_chain(prompt, 3);
    target(pa, h, base);
    for (int a = 0; a < V; a++) {
        uint64_t ha = fake_mix(h, (uint64_t)a);
        target(pb, ha, base);
        for (int b = 0; b < V; b++) {
            target(pc, fake_mix(ha, (uint64_t)b), base);
            for (int c = 0; c < V; c++) {
                double p = pa[a] * pb[b] * pc[c], expected = p * rounds;
                if (p == 0) {
                    assert_int_equal(count[a][b][c], 0);        /* cut away: must never come */
                } else if (expected < 5) {                      /* too rare for chi-square on their own */
                    rest_p += p;
                    rest_n += count[a][b][c];
                } else {
                    chi += (count[a][b][c] - expected) * (count[a][b][c] - expected) / expected;
                    cells++;
                }
            }
        }
    }
    if (rest_p * rounds >= 5) {
        chi += (rest_n - rest_p * rounds) * (rest_n - rest_p * rounds) / (rest_p * rounds);
        cells++;
    }
    assert_true(cells > 20);
    return (chi - (cells - 1)) / sqrt(2.0 * (cells - 1));
}

static void test_decode__drafts_leave_the_sampling_distribution_as_it_is(void **state)
{
    (void)state;
    const struct sampling hows[] = {
        {.temperature = 1},
        {.temperature = 1, .top_k = 5, .top_p = 0.9f},
        {.temperature = 0.7f, .top_p = 0.95f, .min_p = 0.1f},
    };
    int old = config.vocab, depths[] = {0, 1, 3, ENGINE_MAX_DEPTH};     /* the last one: as many as pay */
    config.vocab = fake.vocab = 8;
    for (size_t i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++) {
            int accepted = 0;
            double m = misfit(depths[j], &hows[i], 6000, &accepted);
            if (fabs(m) > 4)
                print_error("case %zu depth %d: chi-square is %.1f standard deviations off\n", i, depths[j], m);
            assert_true(fabs(m) <= 4);
            assert_true(!depths[j] || depths[j] > 3 || accepted > 1000);
        }
    config.vocab = fake.vocab = old;
}

static int setup(void **state)
{
    (void)state;
    struct err e;
    fake.on_rows = rows_take_time;
    config_load(&config, "fake", &e);
    weights_open(&weights, &config, "fake", &e);
    dev = dev_open_cpu(1, &e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dev_close(dev);
    return 0;
}

static int setup_beside(void **state)
{
    fake.beside_host = true;
    return setup(state);
}

/* A stop a little behind the longest chunk would leave a call of few rows, which takes as long as one of 512. */
static void test_decode__a_chunk_takes_a_short_rest_along(void **state)
{
    (void)state;
    static const struct { double row_ms; int pos, end, want; } cases[] = {
        {0.25, 0, 20000, 8192}, {0.273, 0, 20000, 8192}, {0.273, 0, 8100, 8100}, {0.4, 0, 20000, 5440}, {0.4, 0, 5900, 5900}, {0.4, 0, 6000, 5440},
        {0.4, 8192, 13700, 5508}, {0.273, 4096, 20000, 4096},
    };
    struct decoder *d = calloc(1, sizeof *d);
    d->o.chunk = 8192;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pace_init(&d->pace, true);
        pace_begin(&d->pace, 64, 400 + 64 * cases[i].row_ms, 512, 400 + 512 * cases[i].row_ms);
        assert_int_equal(decoder_chunk_rows(d, cases[i].pos, cases[i].end, 0, PACE_NEXT), cases[i].want);
        assert_int_equal(decoder_chunk_rows(d, cases[i].pos, cases[i].end, 0, PACE_OTHERS), 512);
    }
    static const int chunks[][2] = {{64, 4096}, {4096, 4096}, {5000, 8192}, {8192, 8192}};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        d->o.chunk = chunks[i][0];
        assert_int_equal(decoder_snapshot_every(d), chunks[i][1]);
    }
    free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode__prompts_with_other_pictures_share_the_text_before_them),
        cmocka_unit_test(test_decode__every_depth_gives_the_same_answer_greedy_or_sampled),
        cmocka_unit_test(test_decode__no_row_and_no_draft_is_beyond_the_longest_answer),
        cmocka_unit_test(test_decode__a_stop_id_ends_the_answer_and_nothing_after_it_stays),
        cmocka_unit_test(test_decode__the_context_end_is_reached_exactly),
        cmocka_unit_test(test_decode__a_longer_prompt_computes_only_what_is_new),
        cmocka_unit_test(test_decode__regenerate_refills_from_the_kept_position),
        cmocka_unit_test(test_decode__an_interrupted_prompt_continues_where_it_stopped),
        cmocka_unit_test(test_decode__what_was_read_ahead_is_not_read_again_wherever_it_was_stopped),
        cmocka_unit_test(test_decode__a_wrong_guess_costs_no_refill_of_the_head),
        cmocka_unit_test(test_decode__rewind_edit_and_interrupt_never_change_an_answer),
        cmocka_unit_test(test_decode__two_alternating_conversations_compute_no_token_twice),
        cmocka_unit_test(test_decode__the_least_recently_used_conversation_gives_up_its_place),
        cmocka_unit_test(test_decode__an_edit_takes_no_place_of_another_conversation),
        cmocka_unit_test(test_decode__without_a_name_a_prompt_finds_what_it_continues),
        cmocka_unit_test(test_decode__answers_at_once_are_those_that_each_is_alone),
        cmocka_unit_test(test_decode__short_prompts_that_wait_are_read_in_one_call),
        cmocka_unit_test(test_decode__a_chunk_with_a_picture_is_short_while_another_answer_is_made),
        cmocka_unit_test(test_decode__an_answer_that_fails_ends_alone),
        cmocka_unit_test(test_decode__what_cannot_be_opened_says_why),
        cmocka_unit_test(test_decode__bad_prompts_are_refused_and_nothing_is_lost),
        cmocka_unit_test(test_decode__a_nan_ends_the_answer_and_the_next_one_starts_clean),
        cmocka_unit_test(test_decode__an_answer_that_may_pick_nothing_says_so),
        cmocka_unit_test(test_decode__an_answer_continues_where_it_was_cut),
        cmocka_unit_test(test_decode__every_token_has_its_logprobs_when_asked_for),
        cmocka_unit_test(test_decode__drafts_leave_the_sampling_distribution_as_it_is),
        cmocka_unit_test(test_decode__a_chunk_takes_a_short_rest_along),
    };
    int failed = cmocka_run_group_tests_name("the host waits for the device", tests, setup, teardown);
    return failed + cmocka_run_group_tests_name("the device works beside the host", tests, setup_beside, teardown);
}
