/* The engine thread: events, queue, interrupts, closing.  The model is made of hashes (fake_model.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ids.h"
#include "engine/engine.h"
#include "fake_model.h"
#include "tests/slow_disk.h"
#include "tests/tmpdir.h"

enum { MAX_DONE = 512, MAX_FILES = 8, PATIENCE_MS = 120000 };

/* The time that the engine sees.  Some tests let it pass by themselves, so that it does not matter how busy the machine is. */
static bool own_time;
static atomic_llong own_ns, own_waited_ns;

int64_t __wrap_clock_ns(void);
double  __wrap_clock_ms_since(int64_t start_ns);
int64_t __wrap_clock_waited_ns(void);

int64_t __wrap_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return own_time ? own_ns : (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double __wrap_clock_ms_since(int64_t start_ns)  { return (double)(__wrap_clock_ns() - start_ns) * 1e-6; }
int64_t __wrap_clock_waited_ns(void)            { return own_waited_ns; }

/* Everything an engine said so far. */
struct log {
    struct engine *g;
    bool       ready, fatal;
    int        n_loading, n_prefill, n_events;
    int        done[MAX_DONE];          /* EV_DONE by serial */
    int        place[MAX_DONE], n_ended;        /* which of them came first, from 1 */
    struct event last_done[MAX_DONE];
    struct ids ids[MAX_DONE];
    int        prefill_done[MAX_DONE], after_done;
    char       why[512];
    int        saved[MAX_FILES];        /* EV_SAVED by conversation */
    size_t     restored[MAX_FILES];     /* tokens of EV_RESTORED likewise */
    int        n_refused;               /* files that could not be used */
    char       refused[512];            /* why the last one could not */
};

static void refused(struct log *l, const char *why)
{
    if (!*why)
        return;
    l->n_refused++;
    snprintf(l->refused, sizeof l->refused, "%s", why);
}

static void drain(struct log *l)
{
    struct event_list list = engine_drain(l->g);
    for (int i = 0; i < list.n; i++) {
        const struct event *ev = &list.events[i];
        uint32_t s = ev->serial;
        assert_true(s < MAX_DONE);
        l->n_events++;
        if (s && l->done[s])
            l->after_done++;
        switch (ev->kind) {
        case EV_LOADING: l->n_loading++; assert_true(ev->done <= ev->total); assert_false(l->ready); break;
        case EV_READY:   l->ready = true; break;
        case EV_PREFILL: l->n_prefill++; l->prefill_done[s] = (int)ev->done; break;
        case EV_TOKENS:  ids_append(&l->ids[s], ev->ids, ev->n); break;
        case EV_DONE:    l->done[s]++; l->place[s] = ++l->n_ended; l->last_done[s] = *ev; break;
        case EV_RESTORED: refused(l, ev->message); l->restored[ev->sequence] += ev->done; break;
        case EV_SAVED:   refused(l, ev->message); l->saved[ev->sequence]++; break;
        case EV_FATAL:   l->fatal = true; snprintf(l->why, sizeof l->why, "%s", ev->message); break;
        }
    }
}

static void wait_for_done(struct log *l, uint32_t serial)
{
    while (!l->done[serial]) {
        assert_true(engine_wait(l->g, PATIENCE_MS));
        drain(l);
    }
}

/* Its end is told by the call itself, although the engine thread is busy with a row all the time. */
static void interrupt(struct log *l, uint32_t serial)
{
    fake.hold_pos = 1;
    while (!fake.held)
        usleep(1000);
    engine_interrupt(l->g, serial);
    drain(l);
    assert_int_equal(l->done[serial], 1);
    assert_int_equal(l->last_done[serial].finish, END_INTERRUPTED);
    assert_int_equal(fake.hold_pos, 1);
    fake.hold_pos = 0;
}

static void log_open(struct log *l, const struct engine_options *o)
{
    struct err e = {0};
    memset(l, 0, sizeof *l);
    l->g = engine_open(o, &e);
    if (!l->g)
        print_error("%s\n", e.msg);
    assert_non_null(l->g);
}

static void log_open_ready(struct log *l, const struct engine_options *o)
{
    log_open(l, o);
    while (!l->ready) {
        assert_true(engine_wait(l->g, PATIENCE_MS));
        drain(l);
    }
}

static void log_close(struct log *l)
{
    assert_string_equal(l->refused, "");
    engine_close(l->g);
    for (int i = 0; i < MAX_DONE; i++)
        ids_free(&l->ids[i]);
}

static const struct engine_options options = {.model_dir = "fake", .n_ctx = 2000, .draft_depth = -1};
/* Nobody comes to its end before a test that is kept waiting for half a minute looks. */
static const struct engine_options endless = {.model_dir = "fake", .n_ctx = 100000, .draft_depth = -1};
static const int32_t prompt[] = {1, 2, 3, 4, 5};

static int reset(void **state)
{
    (void)state;
    fake.row_us = fake.nan_pos = fake.fault_pos = fake.load_steps = fake.load_step_us = fake.hold_pos = fake.reached = fake.n_loaded = 0;
    fake.load_error = NULL;
    fake.no_mtp = fake.several = fake.hold_load = own_time = false;
    fake.on_rows = NULL;
    own_ns = own_waited_ns = 0;
    return 0;
}

static void test_engine__loads_says_ready_and_answers_in_order(void **state)
{
    (void)state;
    struct log l;
    struct sampling how = {.max_tokens = 20, .draft_depth = -1};
    fake.load_steps = 5;
    fake.load_step_us = 60000;
    fake.hold_load = true;
    log_open(&l, &options);
    assert_null(engine_info(l.g));
    uint32_t a = engine_submit(l.g, 0, spans_text(prompt, 5), 5, &how);        /* before the weights are there */
    uint32_t b = engine_submit(l.g, 0, spans_text(prompt, 4), 4, &how);
    assert_true(a > 0 && b > 0 && a != b);
    fake.hold_load = false;
    wait_for_done(&l, b);
    assert_true(l.ready);
    assert_true(l.n_loading >= 2);
    assert_int_equal(l.done[a], 1);
    assert_int_equal(l.done[b], 1);
    assert_int_equal(l.after_done, 0);
    assert_int_equal(l.last_done[a].finish, END_LENGTH);
    assert_int_equal(l.last_done[a].stats.n_tokens, 20);
    assert_int_equal(l.last_done[a].stats.n_prompt, 5);
    assert_int_equal(l.prefill_done[a], 5);
    assert_int_equal(l.ids[a].n, 20);
    const struct model_info *i = engine_info(l.g);
    assert_non_null(i);
    assert_string_equal(i->model, "fake");
    assert_string_equal(i->formats, "INT4 + FP8 shared, INT8 head, KV f32");
    assert_int_equal(i->n_ctx, 2000);
    assert_true(i->draft_depth > 0);
    assert_int_equal(i->n_ends, 1);
    assert_int_equal(i->ends[0], FAKE_EOS);
    log_close(&l);
}

static void test_engine__the_descriptor_is_readable_while_events_wait(void **state)
{
    (void)state;
    struct log l;
    log_open(&l, &options);
    while (!l.ready) {
        struct pollfd p = {.fd = engine_fd(l.g), .events = POLLIN};
        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
        drain(&l);
    }
    assert_false(engine_wait(l.g, 0));
    log_close(&l);
}

static void test_engine__an_interrupt_ends_the_running_answer_soon_and_only_it(void **state)
{
    (void)state;
    struct log l;
    struct sampling how = {.draft_depth = -1};
    fake.row_us = 300;
    log_open(&l, &endless);
    uint32_t a = engine_submit(l.g, 0, spans_text(prompt, 5), 0, &how);
    how.max_tokens = 5;
    uint32_t b = engine_submit(l.g, 0, spans_text(prompt, 5), 0, &how);
    while (l.ids[a].n < 10) {
        assert_true(engine_wait(l.g, PATIENCE_MS));
        drain(&l);
    }
    interrupt(&l, a);
    engine_interrupt(l.g, a);           /* twice, and unknown ones: harmless */
    engine_interrupt(l.g, 400);
    engine_interrupt(l.g, 0);
    wait_for_done(&l, b);
    assert_int_equal(l.last_done[b].finish, END_LENGTH);
    engine_interrupt(l.g, b);           /* stale */
    uint32_t c = engine_submit(l.g, 0, spans_text(prompt, 5), 0, &how);
    wait_for_done(&l, c);
    assert_int_equal(l.last_done[c].finish, END_LENGTH);
    assert_int_equal(l.done[a] + l.done[b] + l.done[c], 3);
    assert_int_equal(l.after_done, 0);
    log_close(&l);
}

static void test_engine__an_interrupt_during_a_slow_prompt_is_noticed_at_once(void **state)
{
    (void)state;
    struct log l;
    struct sampling how = {.max_tokens = 5};
    int32_t ids[600] = {0};
    fake.row_us = 2000;                 /* 256 rows at once would take half a second */
    log_open_ready(&l, &options);
    fake.hold_pos = 300;                /* however late it is: the prompt is not read */
    uint32_t a = engine_submit(l.g, 0, spans_text(ids, 600), 0, &how);
    while (l.prefill_done[a] < 100) {
        assert_true(engine_wait(l.g, PATIENCE_MS));
        drain(&l);
    }
    interrupt(&l, a);
    assert_int_equal(l.ids[a].n, 0);
    uint32_t b = engine_submit(l.g, 0, spans_text(ids, 600), 0, &(struct sampling){.max_tokens = 1});
    wait_for_done(&l, b);
    assert_int_equal(l.last_done[b].finish, END_LENGTH);
    /* what was computed is not lost, and was at most the chunk of the moment: of 60 ms at 2 ms a row, or more */
    assert_true(l.last_done[b].stats.n_cached >= l.prefill_done[a] && l.last_done[b].stats.n_cached <= l.prefill_done[a] + 30);
    log_close(&l);
}

/* A real model on a CPU may need a second for one row.  What is computed when the interrupt comes is not lost either. */
static void test_engine__an_interrupt_does_not_wait_for_a_slow_row(void **state)
{
    (void)state;
    struct log l;
    struct sampling how = {.draft_depth = -1};
    int32_t ids[64] = {1, 2, 3, 4, 5};
    log_open_ready(&l, &options);
    for (int decoding = 0; decoding < 2; decoding++) {
        fake.hold_pos = decoding ? 30 : 8;      /* into an answer, or just behind the prompt */
        uint32_t a = engine_submit(l.g, 0, spans_text(ids, 8), 0, &how);
        while (decoding ? l.ids[a].n < 1 : !l.n_prefill) {
            assert_true(engine_wait(l.g, PATIENCE_MS));
            drain(&l);
        }
        interrupt(&l, a);
        assert_int_equal(l.last_done[a].stats.n_tokens, l.ids[a].n);
        memcpy(ids + 8, decoding ? l.ids[a].data : ids, (size_t)l.ids[a].n * sizeof *ids);
        uint32_t b = engine_submit(l.g, 0, spans_text(ids, 8 + l.ids[a].n), 0, &(struct sampling){.max_tokens = 1});
        wait_for_done(&l, b);
        assert_int_equal(l.last_done[b].stats.n_cached, decoding ? 8 + l.ids[a].n - 1 : 8);
        assert_int_equal(l.after_done, 0);
    }
    log_close(&l);
}

static void row_takes_50_ms(int rows) { own_ns += 50000000ll * rows; }

/* The first rows may be slow for reasons that pass: weights that come from the disk, a busy machine. */
static void test_engine__chunks_grow_again_after_a_slow_start(void **state)
{
    (void)state;
    struct log l;
    int32_t ids[1500] = {0};
    own_time = true;
    fake.on_rows = row_takes_50_ms;     /* those that warm up */
    log_open_ready(&l, &options);
    fake.on_rows = NULL;
    wait_for_done(&l, engine_submit(l.g, 0, spans_text(ids, 1500), 0, &(struct sampling){.max_tokens = 1}));
    assert_true(l.n_prefill >= 2 && l.n_prefill <= 20);
    log_close(&l);
}

static void no_processor_for_100_ms(int rows)
{
    (void)rows;
    own_ns += 100000000;
    own_waited_ns += 100000000;
}

/* Waiting takes as long for a chunk of one row as for one of many: smaller chunks would only wait more often. */
static void test_engine__waiting_for_a_processor_makes_no_small_chunks(void **state)
{
    (void)state;
    struct log l;
    int32_t ids[1500] = {0};
    own_time = true;
    log_open_ready(&l, &options);
    fake.on_rows = no_processor_for_100_ms;
    wait_for_done(&l, engine_submit(l.g, 0, spans_text(ids, 1500), 0, &(struct sampling){.max_tokens = 1}));
    assert_true(l.n_prefill >= 2 && l.n_prefill <= 20);         /* of one row each there would be 1,500 */
    log_close(&l);
}

static void test_engine__a_waiting_submit_can_be_interrupted_at_once(void **state)
{
    (void)state;
    struct log l;
    struct sampling how = {.max_tokens = 1};
    fake.load_steps = 1;
    fake.hold_load = true;
    log_open(&l, &options);
    uint32_t a = engine_submit(l.g, 0, spans_text(prompt, 5), 0, &how), b = engine_submit(l.g, 0, spans_text(prompt, 5), 0, &how);
    engine_interrupt(l.g, b);
    drain(&l);
    assert_int_equal(l.done[b], 1);
    assert_int_equal(l.last_done[b].finish, END_INTERRUPTED);
    uint32_t c = engine_submit(l.g, 0, spans_text(prompt, 5), 0, &how);        /* the queue's end is where it should be */
    engine_interrupt(l.g, a);
    fake.hold_load = false;
    wait_for_done(&l, c);
    assert_int_equal(l.last_done[a].finish, END_INTERRUPTED);
    assert_int_equal(l.last_done[c].finish, END_LENGTH);
    assert_int_equal(l.done[a] + l.done[b] + l.done[c], 3);
    log_close(&l);
}

static void test_engine__many_submits_and_interrupts_each_end_once(void **state)
{
    (void)state;
    struct log l;
    struct sampling how = {.max_tokens = 30, .draft_depth = -1, .temperature = 1};
    int32_t ids[40];
    unsigned r = 1;
    uint32_t last = 0;
    fake.row_us = 20;
    log_open(&l, &options);
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < 40; k++)
            ids[k] = (int32_t)((r = r * 1103515245u + 12345u) >> 20) % 16;
        how.seed = r;
        last = engine_submit(l.g, 0, spans_text(ids, 1 + (int)(r >> 16) % 40), 3, &how);
        if (r >> 10 & 1)
            engine_interrupt(l.g, last - (r >> 12) % 4);
        if (i % 8 == 0) {
            usleep(1000);
            drain(&l);
        }
    }
    for (uint32_t s = 1; s <= last; s++) {
        wait_for_done(&l, s);
        assert_int_equal(l.done[s], 1);
        assert_int_not_equal(l.last_done[s].finish, END_FAILED);
    }
    assert_int_equal(l.after_done, 0);
    log_close(&l);
}

/* ---- several answers at once ---- */

static void open_several(struct log *l, int n_sequences)
{
    struct engine_options o = endless;
    o.n_sequences = n_sequences;
    fake.several = true;
    log_open(l, &o);
}

static void wait_for_tokens(struct log *l, uint32_t serial, int n)
{
    while (l->ids[serial].n < n) {
        assert_int_equal(l->done[serial], 0);
        assert_true(engine_wait(l->g, PATIENCE_MS));
        drain(l);
    }
}

static void test_engine__answers_run_beside_each_other_and_end_one_by_one(void **state)
{
    (void)state;
    struct log l;
    struct sampling how = {.draft_depth = -1}, few = {.max_tokens = 20, .draft_depth = -1};
    fake.row_us = 300;
    open_several(&l, 3);
    uint32_t a = engine_submit(l.g, 1, spans_text(prompt, 5), 0, &how), b = engine_submit(l.g, 2, spans_text(prompt, 4), 0, &how);
    wait_for_tokens(&l, b, 3);
    wait_for_tokens(&l, a, 3);
    uint32_t c = engine_submit(l.g, 3, spans_text(prompt, 3), 0, &few);
    wait_for_done(&l, c);               /* neither waited for the others' ends, */
    assert_int_equal(l.last_done[c].finish, END_LENGTH);
    assert_int_equal(l.done[a] + l.done[b], 0);
    interrupt(&l, a);                   /* nor ends with one of them */
    const int n = l.ids[b].n;
    wait_for_tokens(&l, b, n + 10);
    interrupt(&l, b);
    assert_int_equal(l.after_done, 0);
    log_close(&l);
}

static void test_engine__more_requests_than_places_wait_in_order_and_people_first(void **state)
{
    (void)state;
    struct log l;
    struct sampling how = {.draft_depth = -1}, patient = {.max_tokens = 3, .patience_ms = 3600000}, person = {.max_tokens = 3};
    fake.row_us = 300;
    open_several(&l, 2);
    uint32_t a = engine_submit(l.g, 1, spans_text(prompt, 5), 0, &how), b = engine_submit(l.g, 2, spans_text(prompt, 4), 0, &how);
    wait_for_tokens(&l, a, 1);
    wait_for_tokens(&l, b, 1);
    uint32_t s = engine_submit(l.g, 3, spans_text(prompt, 3), 0, &patient), t = engine_submit(l.g, 4, spans_text(prompt, 3), 0, &patient);
    uint32_t again = engine_submit(l.g, 1, spans_text(prompt, 2), 0, &person);     /* a conversation has one answer at a time */
    uint32_t p = engine_submit(l.g, 5, spans_text(prompt, 3), 0, &person);
    interrupt(&l, b);
    wait_for_done(&l, t);
    assert_true(l.place[b] < l.place[p] && l.place[p] < l.place[s] && l.place[s] < l.place[t]);
    assert_int_equal(l.done[again], 0);
    interrupt(&l, a);
    wait_for_done(&l, again);
    assert_int_equal(l.after_done, 0);
    log_close(&l);
}

/* A program whose patience is over is as good as a person who came then: nobody who comes later goes before it. */
static void test_engine__patience_comes_to_its_end(void **state)
{
    (void)state;
    struct log l;
    struct sampling how = {.draft_depth = -1}, impatient = {.max_tokens = 1, .patience_ms = 1}, person = {.max_tokens = 1};
    int32_t ids[4500] = {0};
    fake.row_us = 200;
    open_several(&l, 2);
    uint32_t a = engine_submit(l.g, 1, spans_text(prompt, 5), 0, &how), b = engine_submit(l.g, 2, spans_text(prompt, 4), 0, &how);
    wait_for_tokens(&l, a, 1);
    wait_for_tokens(&l, b, 1);
    uint32_t s = engine_submit(l.g, 3, spans_text(prompt, 3), 0, &impatient);
    const int64_t came = clock_ns();
    while (clock_ms_since(came) < 2)
        usleep(1000);
    uint32_t p = engine_submit(l.g, 4, spans_text(prompt, 3), 0, &person);
    interrupt(&l, b);
    wait_for_done(&l, s);
    wait_for_done(&l, p);
    assert_true(l.place[s] < l.place[p]);       /* in the queue, */
    interrupt(&l, a);
    fake.row_us = 50;
    s = engine_submit(l.g, 3, spans_text(ids, 1500), 0, &impatient);
    const int64_t came_again = clock_ns();
    while (clock_ms_since(came_again) < 2)
        usleep(1000);
    p = engine_submit(l.g, 4, spans_text(ids, 4500), 0, &person);
    wait_for_done(&l, s);
    wait_for_done(&l, p);
    assert_true(l.place[s] < l.place[p]);       /* and when both read their prompts: they take turns, so the shorter one ends first */
    log_close(&l);
}

/* Between two chunks of a long prompt the others go on. */
static void test_engine__a_long_prompt_holds_nobody_up(void **state)
{
    (void)state;
    struct log l;
    struct sampling how = {.draft_depth = -1};
    int32_t ids[1500] = {0};
    fake.row_us = 200;
    open_several(&l, 2);
    uint32_t a = engine_submit(l.g, 1, spans_text(prompt, 5), 0, &how);
    wait_for_tokens(&l, a, 1);
    uint32_t b = engine_submit(l.g, 2, spans_text(ids, 1500), 0, &(struct sampling){.max_tokens = 1});
    const int n = l.ids[a].n;
    wait_for_done(&l, b);
    assert_true(l.ids[a].n >= n + 5);
    interrupt(&l, a);
    log_close(&l);
}

/* ---- checkpoints of several conversations ---- */

static struct tmpdir dir;

static int with_files(void **state)
{
    return reset(state) || !tmpdir_make(&dir);
}

static int without_files(void **state)
{
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", dir.path);
    return system(command);
}

static const char *file_of(uint64_t name)
{
    static char path[96];
    snprintf(path, sizeof path, "%s/%d", dir.path, (int)name);
    return path;
}

/* Submits a prompt of n tokens that only this conversation has, and a short answer. */
static uint32_t ask(struct log *l, uint64_t name, int n)
{
    const struct sampling how = {.max_tokens = 3};
    int32_t *ids = calloc((size_t)n, sizeof *ids);
    for (int i = 0; i < n; i++)
        ids[i] = (int32_t)(i * 7 + (int)name) % 16;
    uint32_t serial = engine_submit(l->g, name, spans_text(ids, n), n - 2, &how);
    free(ids);
    return serial;
}

/* Returns how many tokens were there. */
static int talk(struct log *l, uint64_t name, int n)
{
    uint32_t serial = ask(l, name, n);
    wait_for_done(l, serial);
    return l->last_done[serial].stats.n_cached;
}

static void wait_for_saved(struct log *l, uint64_t name, int n)
{
    while (l->saved[name] < n) {
        assert_true(engine_wait(l->g, PATIENCE_MS));
        drain(l);
    }
}

/* None of them takes the place of another, whatever is written when. */
static void test_engine__all_conversations_are_saved(void **state)
{
    enum { N = 3 };
    struct log l;
    (void)state;
    open_several(&l, N);
    for (uint64_t name = 1; name <= N; name++)
        assert_int_equal(talk(&l, name, 300), 0);
    for (uint64_t name = 1; name <= N; name++)
        engine_save(l.g, name, file_of(name));
    for (uint64_t name = 1; name <= N; name++)
        wait_for_saved(&l, name, 1);
    for (uint64_t name = 1; name <= N; name++)
        talk(&l, name, 400);
    for (uint64_t name = 1; name <= N; name++)
        engine_save(l.g, name, file_of(name));
    log_close(&l);                      /* what was asked for is saved then */
    open_several(&l, N);
    for (uint64_t name = 1; name <= N; name++)
        engine_restore(l.g, name, file_of(name));
    for (uint64_t name = 1; name <= N; name++)
        assert_int_equal(talk(&l, name, 500), 398);
    for (uint64_t name = 1; name <= N; name++)
        assert_true(l.restored[name] >= 398);
    log_close(&l);
}

/* The same ids with another picture share only the text before it. */
static void test_engine__a_conversation_comes_back_with_its_picture(void **state)
{
    enum { PROMPT = 300, AT = 100 };
    const struct picture seen[] = {{.first = AT, .n = 60, .h = 6, .w = 10, .hash = {5, 6}}, {.first = AT, .n = 60, .h = 6, .w = 10, .hash = {5, 7}}};
    const struct sampling how = {.max_tokens = 3};
    struct log l;
    int32_t ids[PROMPT + 50];
    (void)state;
    for (int i = 0; i < PROMPT + 50; i++)
        ids[i] = i * 7 % 16;
    open_several(&l, 2);
    uint32_t serial = engine_submit(l.g, 1, (struct spans){ids, PROMPT, seen, 1}, PROMPT - 2, &how);
    wait_for_done(&l, serial);
    engine_save(l.g, 1, file_of(1));
    log_close(&l);
    for (int other = 0; other < 2; other++) {
        open_several(&l, 2);
        engine_restore(l.g, 1, file_of(1));
        serial = engine_submit(l.g, 1, (struct spans){ids, PROMPT + 50, seen + other, 1}, PROMPT + 48, &how);
        wait_for_done(&l, serial);
        assert_true(l.restored[1] >= PROMPT - 2);
        assert_true(other ? !l.last_done[serial].stats.n_cached : l.last_done[serial].stats.n_cached >= PROMPT - 2);
        if (other)
            assert_int_equal(l.last_done[serial].stats.refill.common, AT);
        log_close(&l);
    }
}

/* The newer of two waiting saves of a conversation is made; a conversation that is not resident has nothing to save. */
static void test_engine__a_save_that_came_too_late_holds_nobody_up(void **state)
{
    struct log l;
    (void)state;
    open_several(&l, 2);
    talk(&l, 1, 300);
    talk(&l, 2, 300);
    for (int i = 0; i < 50; i++) {
        engine_save(l.g, 1, file_of(1));
        engine_save(l.g, 7, file_of(7));        /* was never there */
    }
    engine_save(l.g, 2, file_of(2));
    wait_for_saved(&l, 2, 1);
    wait_for_saved(&l, 1, 1);
    assert_int_equal(l.saved[7], 0);
    assert_int_equal(access(file_of(7), F_OK), -1);
    log_close(&l);
}

/* The file that is restored, as a copy of the conversation begins, is being written by the same engine, to a disk that is slower than two programs
 * wait for each other's lock (LOCK_TRIES in engine/checkpoint.c). */
static void test_engine__a_restore_waits_for_the_save_of_the_same_file(void **state)
{
    enum { LONGER_MS = 2500 };
    struct log l;
    (void)state;
    open_several(&l, 3);
    talk(&l, 1, 1500);
    disk_slow();
    engine_save(l.g, 1, file_of(1));
    disk_asked();
    engine_restore(l.g, 3, file_of(1));
    engine_wait(l.g, LONGER_MS);        /* to no avail, unless it gives up */
    disk_fast();
    wait_for_saved(&l, 1, 1);
    assert_int_equal(talk(&l, 3, 5), 0);
    assert_true(l.restored[3] >= 1498);
    log_close(&l);
}

/* The next save of a conversation is asked for at any moment of the one before. */
static void test_engine__saves_of_one_conversation_take_each_others_place(void **state)
{
    struct log l;
    (void)state;
    open_several(&l, 2);
    talk(&l, 1, 300);
    for (int i = 0; i < 300; i++) {
        engine_save(l.g, 1, file_of(1));
        usleep((useconds_t)(i % 30 * 20));
        drain(&l);
    }
    log_close(&l);
    open_several(&l, 2);
    engine_restore(l.g, 1, file_of(1));
    assert_int_equal(talk(&l, 1, 400), 298);
    log_close(&l);
}

enum { CHATS = 3, ROUNDS = 10, ROUND = 70 };

/* They come in turns, or all at once.  Tells how many tokens were there in each turn of each. */
static void talk_in_turns(int n_places, bool at_once, int cached[ROUNDS][CHATS])
{
    struct log l;
    open_several(&l, n_places);
    for (uint64_t name = 1; name <= CHATS; name++)
        engine_keep(l.g, name, file_of(name));
    for (int turn = 0; turn < ROUNDS; turn++) {
        uint32_t serial[CHATS];
        for (int i = 0; i < CHATS; i++) {
            serial[i] = ask(&l, (uint64_t)i + 1, (turn + 1) * ROUND);
            if (!at_once)
                wait_for_done(&l, serial[i]);
        }
        for (int i = 0; i < CHATS; i++) {
            wait_for_done(&l, serial[i]);
            cached[turn][i] = l.last_done[serial[i]].stats.n_cached;
        }
    }
    if (n_places < CHATS)
        assert_true(l.restored[1] > 0);
    log_close(&l);
    for (uint64_t name = 1; name <= CHATS; name++)
        unlink(file_of(name));
}

/* More conversations than places: what each has computed goes to its file and comes back. */
static void test_engine__of_three_conversations_in_two_places_nothing_is_computed_twice(void **state)
{
    int wanted[ROUNDS][CHATS], got[ROUNDS][CHATS];
    (void)state;
    talk_in_turns(CHATS, false, wanted);
    for (int turn = 1; turn < ROUNDS; turn++)
        assert_int_equal(wanted[turn][0], turn * ROUND - 2);
    for (int n_places = 1; n_places < CHATS; n_places++) {
        talk_in_turns(n_places, false, got);
        assert_memory_equal(got, wanted, sizeof got);
        talk_in_turns(n_places, true, got);
        assert_memory_equal(got, wanted, sizeof got);
    }
}

/* Who takes the place does not wait for the disk, nor do others; only who comes back does. */
static void test_engine__a_conversation_leaves_its_place_without_waiting_for_the_disk(void **state)
{
    struct log l;
    (void)state;
    open_several(&l, 2);
    engine_keep(l.g, 1, file_of(1));
    talk(&l, 1, 1500);
    talk(&l, 2, 300);
    disk_slow();
    assert_int_equal(talk(&l, 3, 300), 0);
    disk_asked();
    assert_int_equal(talk(&l, 2, 400), 298);
    const uint32_t back = ask(&l, 1, 1600);
    assert_int_equal(talk(&l, 3, 400), 298);
    assert_int_equal(talk(&l, 2, 500), 398);
    assert_false(l.done[back]);
    disk_fast();
    wait_for_done(&l, back);
    assert_int_equal(l.last_done[back].stats.n_cached, 1498);
    assert_true(l.restored[1] >= 1498);
    log_close(&l);
}

/* A deleted conversation does not come back by being saved, and one without a file gets none. */
static void test_engine__a_conversation_that_was_deleted_is_not_saved_when_it_leaves(void **state)
{
    struct log l;
    char file[2][96];
    (void)state;
    open_several(&l, 1);
    for (int i = 0; i < 2; i++) {
        snprintf(file[i], sizeof file[i], "%s/%d.end", dir.path, i + 1);
        engine_keep(l.g, (uint64_t)i + 1, file[i]);
    }
    assert_true(tmpdir_put(&dir, "2", "words", 5));
    talk(&l, 1, 300);
    talk(&l, 2, 300);
    talk(&l, 3, 300);
    wait_for_saved(&l, 2, 1);
    assert_int_equal(access(file[0], F_OK), -1);
    assert_int_equal(access(file[1], F_OK), 0);
    engine_keep(l.g, 2, NULL);
    assert_int_equal(talk(&l, 2, 300), 0);
    log_close(&l);
    assert_int_equal(l.saved[1], 0);
    unlink(file[1]);
    unlink(file_of(2));
}

/* It is told, and the file stays as it is: the other program needs it. */
static void test_engine__a_checkpoint_that_another_program_has_stays(void **state)
{
    struct log l;
    struct stat before, after;
    (void)state;
    open_several(&l, 2);
    talk(&l, 1, 300);
    engine_save(l.g, 1, file_of(1));
    wait_for_saved(&l, 1, 1);
    int fd = open(file_of(1), O_RDWR);
    assert_true(fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &before));
    engine_restore(l.g, 2, file_of(1));
    assert_int_equal(talk(&l, 2, 400), 0);
    assert_int_equal(l.n_refused, 1);
    assert_non_null(strstr(l.refused, "in use by another q35chat"));
    assert_null(strstr(l.refused, "deleted"));
    talk(&l, 1, 500);
    engine_save(l.g, 1, file_of(1));
    wait_for_saved(&l, 1, 2);
    assert_int_equal(l.n_refused, 2);
    assert_non_null(strstr(l.refused, "in use by another q35chat"));
    assert_true(!stat(file_of(1), &after) && after.st_ino == before.st_ino && after.st_size == before.st_size);
    close(fd);
    engine_save(l.g, 1, file_of(1));
    wait_for_saved(&l, 1, 3);
    assert_int_equal(l.n_refused, 2);
    *l.refused = 0;
    log_close(&l);
}

/* ---- conversations that come back ---- */

enum { PLACES = 3, BACK = 1500, OTHER = 6 };

/* An answer of OTHER goes on and on, and conversation 1, of BACK tokens, is in its file. */
static uint32_t with_one_away(struct log *l)
{
    const struct sampling how = {.max_tokens = 90000};
    open_several(l, PLACES);
    engine_keep(l->g, 1, file_of(1));
    talk(l, 1, BACK);
    for (uint64_t name = 2; name <= PLACES; name++)
        talk(l, name, 200);             /* dearer than the first one, which has a file */
    const uint32_t goes_on = engine_submit(l->g, OTHER, spans_text(prompt, 5), 5, &how);
    wait_for_saved(l, 1, 1);
    talk(l, 2, 210);
    talk(l, 3, 210);
    return goes_on;
}

static void goes_on(struct log *l, uint32_t serial, int n)
{
    wait_for_tokens(l, serial, l->ids[serial].n + n);
}

/* While the disk takes its time, others take steps, begin and end. */
static void test_engine__a_conversation_that_comes_back_holds_up_nobody(void **state)
{
    struct log l;
    (void)state;
    const uint32_t other = with_one_away(&l);
    disk_reads_slow();
    const uint32_t back = ask(&l, 1, BACK + 100);
    disk_read_asked();
    goes_on(&l, other, 100);
    assert_true(talk(&l, 3, 220) > 0);
    goes_on(&l, other, 100);
    assert_false(l.done[back]);
    disk_reads_fast();
    wait_for_done(&l, back);
    assert_int_equal(l.last_done[back].stats.n_cached, BACK - 2);
    assert_true(l.restored[1] >= BACK - 2);
    goes_on(&l, other, 1);
    log_close(&l);
}

/* Its last event is out at once, and what comes back stays for the next prompt. */
static void test_engine__an_interrupt_does_not_wait_for_what_comes_back(void **state)
{
    struct log l;
    (void)state;
    with_one_away(&l);
    disk_reads_slow();
    const uint32_t back = ask(&l, 1, BACK + 100);
    disk_read_asked();
    engine_interrupt(l.g, back);
    drain(&l);
    assert_int_equal(l.done[back], 1);
    assert_int_equal(l.last_done[back].finish, END_INTERRUPTED);
    const uint32_t again = ask(&l, 1, BACK + 200);
    disk_reads_fast();
    wait_for_done(&l, again);
    assert_int_equal(l.last_done[again].stats.n_cached, BACK - 2);
    assert_int_equal(l.done[back], 1);
    log_close(&l);
}

/* At any moment of the way back; the file stays whole. */
static void test_engine__closing_leaves_what_comes_back_in_its_file(void **state)
{
    struct log l;
    (void)state;
    with_one_away(&l);
    log_close(&l);
    for (int i = 0; i < 40; i++) {
        open_several(&l, 2);
        engine_keep(l.g, 1, file_of(1));
        engine_keep(l.g, 2, file_of(2));
        ask(&l, 1, BACK + 10);
        engine_save(l.g, 1, file_of(1));
        usleep((useconds_t)(i * 50));
        log_close(&l);
    }
    open_several(&l, 2);
    engine_keep(l.g, 1, file_of(1));
    assert_true(talk(&l, 1, BACK + 100) >= BACK - 2);
    log_close(&l);
}

static void damage(const char *path, long at)
{
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pwrite(fd, "damage", 6, at) == 6 && !close(fd));
}

static void test_engine__a_damaged_file_holds_up_nobody(void **state)
{
    enum { ROWS_AT = 3 * 4096 };
    struct log l;
    (void)state;
    const uint32_t other = with_one_away(&l);
    damage(file_of(1), ROWS_AT + 5000);
    disk_reads_slow();
    const uint32_t back = ask(&l, 1, BACK + 100);
    disk_read_asked();
    goes_on(&l, other, 100);
    disk_reads_fast();
    wait_for_done(&l, back);
    assert_int_equal(l.last_done[back].finish, END_LENGTH);
    assert_int_equal(l.last_done[back].stats.n_cached, 0);
    assert_int_equal(l.n_refused, 1);
    assert_non_null(strstr(l.refused, ": it is deleted"));
    assert_int_equal(access(file_of(1), F_OK), -1);
    assert_int_equal(talk(&l, 1, BACK + 200), BACK + 98);
    goes_on(&l, other, 1);
    *l.refused = 0;
    log_close(&l);
}

/* Another program has it: that is told once, and the prompt is computed. */
static void test_engine__a_conversation_whose_file_is_in_use_is_computed_again(void **state)
{
    struct log l;
    (void)state;
    const uint32_t other = with_one_away(&l);
    int fd = open(file_of(1), O_RDWR);
    assert_true(fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB));
    const uint32_t back = ask(&l, 1, BACK + 100);
    goes_on(&l, other, 10);
    wait_for_done(&l, back);
    assert_int_equal(l.last_done[back].stats.n_cached, 0);
    assert_int_equal(l.n_refused, 1);
    assert_non_null(strstr(l.refused, "in use by another q35chat"));
    assert_int_equal(access(file_of(1), F_OK), 0);
    close(fd);
    *l.refused = 0;
    log_close(&l);
}

static void test_engine__two_conversations_come_back_at_once(void **state)
{
    struct log l;
    (void)state;
    with_one_away(&l);
    engine_keep(l.g, 4, file_of(4));
    talk(&l, 4, 300);
    talk(&l, 2, 90);
    talk(&l, 3, 90);
    wait_for_saved(&l, 4, 1);
    disk_reads_slow();
    const uint32_t first = ask(&l, 1, BACK + 100), second = ask(&l, 4, 400);
    disk_read_asked();
    assert_int_equal(l.done[first] + l.done[second], 0);
    disk_reads_fast();
    wait_for_done(&l, first);
    wait_for_done(&l, second);
    assert_int_equal(l.last_done[first].stats.n_cached, BACK - 2);
    assert_int_equal(l.last_done[second].stats.n_cached, 298);
    log_close(&l);
}

/* Neither a save of the conversation that comes back, nor one of another conversation to the same file. */
static void test_engine__a_save_does_not_touch_a_file_that_is_read(void **state)
{
    struct log l;
    (void)state;
    open_several(&l, 2);
    talk(&l, 1, BACK);
    engine_save(l.g, 1, file_of(1));
    wait_for_saved(&l, 1, 1);
    talk(&l, 2, BACK + 100);            /* dearer than the first one, which gives up its place */
    disk_reads_slow();
    engine_restore(l.g, 3, file_of(1));
    disk_read_asked();
    engine_save(l.g, 3, file_of(1));
    engine_save(l.g, 2, file_of(1));
    disk_reads_fast();
    wait_for_saved(&l, 2, 1);
    wait_for_saved(&l, 3, 1);
    assert_true(l.restored[3] >= BACK - 2);
    assert_int_equal(l.n_refused, 0);
    assert_int_equal(access(file_of(1), F_OK), 0);
    engine_restore(l.g, 4, file_of(1));         /* of one of them, and whole */
    talk(&l, 4, 5);
    assert_true(l.restored[4] >= 68);
    log_close(&l);
}

/* Reading ahead for a conversation brings it back, too. */
static void test_engine__reading_ahead_waits_for_what_comes_back(void **state)
{
    const struct sampling how = {.max_tokens = 3};
    struct log l;
    int32_t ids[BACK + 400];
    (void)state;
    const uint32_t other = with_one_away(&l);
    for (int i = 0; i < BACK + 400; i++)
        ids[i] = (i * 7 + 1) % 16;
    engine_interrupt(l.g, other);
    talk(&l, 3, 90);                    /* then it has ended */
    fake.reached = 0;
    engine_read_ahead(l.g, 1, spans_text(ids, BACK + 300), BACK + 290);
    while (!l.restored[1]) {
        assert_true(engine_wait(l.g, PATIENCE_MS));
        drain(&l);
    }
    while (fake.reached < (BACK + 300) / 64 * 64)
        usleep(1000);
    const uint32_t serial = engine_submit(l.g, 1, spans_text(ids, BACK + 400), BACK + 390, &how);
    wait_for_done(&l, serial);
    assert_true(l.last_done[serial].stats.n_cached >= (BACK + 300) / 64 * 64);
    assert_true(l.last_done[serial].stats.n_ahead > 64);
    log_close(&l);
}

static void test_engine__a_device_fault_ends_all_answers(void **state)
{
    (void)state;
    struct log l;
    struct sampling how = {.draft_depth = -1};
    fake.fault_pos = 300;
    open_several(&l, 2);
    uint32_t a = engine_submit(l.g, 1, spans_text(prompt, 5), 0, &how), b = engine_submit(l.g, 2, spans_text(prompt, 4), 0, &how);
    wait_for_done(&l, a);
    wait_for_done(&l, b);
    assert_int_equal(l.last_done[a].finish, END_FAILED);
    assert_int_equal(l.last_done[b].finish, END_FAILED);
    assert_non_null(strstr(l.last_done[b].message, "operation attention failed"));
    log_close(&l);
}

static void test_engine__closing_does_not_wait_for_weights_and_answers(void **state)
{
    (void)state;
    struct sampling how = {.draft_depth = -1};
    for (int decoding = 0; decoding < 2; decoding++) {
        struct log l;
        fake.load_steps = decoding ? 0 : 10000;
        fake.load_step_us = 5000;
        fake.row_us = 2000;
        log_open(&l, &endless);
        uint32_t a = engine_submit(l.g, 0, spans_text(prompt, 5), 0, &how);
        engine_submit(l.g, 0, spans_text(prompt, 5), 0, &how);
        while (decoding ? l.ids[a].n < 3 : l.n_loading < 2) {
            assert_true(engine_wait(l.g, PATIENCE_MS));
            drain(&l);
        }
        log_close(&l);
        assert_true(decoding ? fake.reached < endless.n_ctx / 2 : fake.n_loaded < fake.load_steps / 2);
    }
    engine_close(NULL);
}

static void test_engine__a_checkpoint_that_fails_to_load_is_fatal_and_answers_every_submit(void **state)
{
    (void)state;
    struct log l;
    struct sampling how = {.max_tokens = 5};
    fake.load_error = "model.safetensors: tensor x is [2], expected [3]";
    log_open(&l, &options);
    uint32_t a = engine_submit(l.g, 0, spans_text(prompt, 5), 0, &how);
    while (!l.fatal) {
        assert_true(engine_wait(l.g, PATIENCE_MS));
        drain(&l);
    }
    assert_string_equal(l.why, fake.load_error);
    uint32_t b = engine_submit(l.g, 0, spans_text(prompt, 5), 0, &how);
    wait_for_done(&l, a);
    wait_for_done(&l, b);
    assert_int_equal(l.last_done[a].finish, END_FAILED);
    assert_int_equal(l.last_done[b].finish, END_FAILED);
    assert_string_equal(l.last_done[b].message, fake.load_error);
    assert_null(engine_info(l.g));
    log_close(&l);
}

static void test_engine__a_device_fault_is_fatal(void **state)
{
    (void)state;
    struct log l;
    struct sampling how = {.max_tokens = 50};
    fake.fault_pos = 20;
    log_open(&l, &options);
    uint32_t a = engine_submit(l.g, 0, spans_text(prompt, 5), 0, &how), b = engine_submit(l.g, 0, spans_text(prompt, 5), 0, &how);
    while (!l.fatal) {
        assert_true(engine_wait(l.g, PATIENCE_MS));
        drain(&l);
    }
    assert_string_equal(l.why, "operation attention failed: out of order");
    assert_int_equal(l.done[a], 1);
    assert_int_equal(l.last_done[a].finish, END_FAILED);
    assert_true(l.ids[a].n > 5);        /* what came before it was delivered */
    wait_for_done(&l, b);
    log_close(&l);
}

static void test_engine__a_refused_prompt_says_why_and_the_engine_lives_on(void **state)
{
    (void)state;
    struct log l;
    struct sampling how = {.max_tokens = 5}, bad = {.temperature = NAN};
    int32_t ids[2100] = {0}, far = 99;
    log_open(&l, &options);
    uint32_t s[] = {
        engine_submit(l.g, 0, (struct spans){0}, 0, &how),
        engine_submit(l.g, 0, spans_text(ids, 2100), 0, &how),
        engine_submit(l.g, 0, spans_text(&far, 1), 0, &how),
        engine_submit(l.g, 0, spans_text(ids, 5), 0, &bad),
        engine_submit(l.g, 0, spans_text(ids, 5), 0, &how),
    };
    const char *why[] = {"the prompt is empty", "the prompt has 2100 tokens, the context holds 2000", "id 99, expected 0 to 15",
                         "temperature is nan"};
    wait_for_done(&l, s[4]);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(l.last_done[s[i]].finish, END_REFUSED);
        assert_non_null(strstr(l.last_done[s[i]].message, why[i]));
    }
    assert_int_equal(l.last_done[s[4]].finish, END_LENGTH);
    log_close(&l);
}

static void test_engine__going_back_into_the_middle_of_an_answer_computes_little(void **state)
{
    (void)state;
    struct log l;
    struct machine_figures m;
    struct sampling how = {.max_tokens = 1500, .draft_depth = -1};
    int32_t ids[5 + 1500];
    log_open(&l, &options);
    uint32_t a = engine_submit(l.g, 0, spans_text(prompt, 5), 5, &how);
    wait_for_done(&l, a);
    memcpy(ids, prompt, sizeof prompt);
    memcpy(ids + 5, l.ids[a].data, 1500 * sizeof *ids);
    how.max_tokens = 20;
    for (int cut = 1490; cut > 600; cut -= 300) {
        how.n_answer_prefix = cut;
        uint32_t b = engine_submit(l.g, 0, spans_text(ids, 5 + cut), 5, &how);
        wait_for_done(&l, b);
        assert_true(l.last_done[b].stats.n_cached > cut - 530);
        assert_memory_equal(l.ids[b].data, ids + 5 + cut, (cut < 1480 ? 20 : 10) * sizeof *ids);
    }
    engine_machine(l.g, &m);
    assert_true(m.snapshots >= 2 && m.snapshots <= m.snapshots_max && m.memory_total > 0);
    log_close(&l);
}

/* A conversation as a template sends it: turn i's prompt is the path's first at[i] tokens and two that the next prompt does not have. */
enum { TURNS = 5 };
static const int rejoins_at[TURNS] = {70, 150, 170, 400, 480};

static struct stats take_turn(struct log *l, uint64_t name, const int32_t *path, int i, struct ids *said)
{
    struct sampling how = {.max_tokens = 6, .draft_depth = -1};
    int32_t ids[500];
    memcpy(ids, path, (size_t)rejoins_at[i] * sizeof *ids);
    ids[rejoins_at[i]] = ids[rejoins_at[i] + 1] = path[rejoins_at[i]] ^ 1;
    uint32_t a = engine_submit(l->g, name, spans_text(ids, rejoins_at[i] + 2), rejoins_at[i], &how);
    wait_for_done(l, a);
    said->n = 0;
    ids_append(said, l->ids[a].data, l->ids[a].n);
    return l->last_done[a].stats;
}

/* Only the tokens after the rejoin point are computed, and the answer is that of an engine that has never seen the conversation. */
static void check_cost(struct log *l, uint64_t name, const int32_t *path, int i, int cached)
{
    struct ids said = {0}, wanted = {0};
    struct log fresh;
    struct stats s = take_turn(l, name, path, i, &said);
    if (s.n_cached != cached)
        fail_msg("turn %d: %d of %d tokens were there, expected %d", i, s.n_cached, s.n_prompt, cached);
    log_open(&fresh, &options);
    take_turn(&fresh, 0, path, i, &wanted);
    log_close(&fresh);
    assert_int_equal(said.n, wanted.n);
    assert_memory_equal(said.data, wanted.data, (size_t)said.n * sizeof(int32_t));
    ids_free(&said);
    ids_free(&wanted);
}

static void test_engine__going_back_costs_the_tokens_behind_the_rejoin_point(void **state)
{
    (void)state;
    struct log l;
    struct engine_options o = options;
    int32_t path[500], other[500];
    for (int i = 0; i < 500; i++) {
        path[i] = (i * 7 + i / 16) % 16;
        other[i] = (i * 5 + 3) % 16;
    }
    o.n_sequences = 2;
    o.n_snapshots = 32;
    log_open(&l, &o);
    for (int i = 0; i < TURNS; i++)                     /* each turn rejoins where the one before did */
        check_cost(&l, 1, path, i, i ? rejoins_at[i - 1] : 0);
    check_cost(&l, 1, path, 4, rejoins_at[4]);          /* another answer to the last message */
    check_cost(&l, 1, path, 2, rejoins_at[2]);          /* back to turn 2 (undo, a branch): its own states */
    for (int i = 3; i > 0; i--) {                       /* an earlier message edited, and the turn after it */
        path[rejoins_at[i - 1] + 5] ^= 2;
        check_cost(&l, 1, path, i, rejoins_at[i - 1]);
        check_cost(&l, 1, path, i + 1, rejoins_at[i]);
    }
    check_cost(&l, 2, other, 0, 0);                     /* another conversation, and back: both are there */
    check_cost(&l, 1, path, 3, rejoins_at[2]);
    check_cost(&l, 2, other, 1, rejoins_at[0]);
    check_cost(&l, 1, path, 4, rejoins_at[3]);
    log_close(&l);
}

/* The answer is the same, and every submit is answered, wherever the reading ahead is when it comes. */
static void test_engine__a_submit_ends_the_reading_ahead_at_any_point(void **state)
{
    (void)state;
    int32_t ids[700], other[700];
    struct log plain, l;
    struct sampling how = {.max_tokens = 10, .draft_depth = -1};
    for (int i = 0; i < 700; i++) {
        ids[i] = i * 7 % 16;
        other[i] = i * 5 % 16;
    }
    log_open(&plain, &options);
    uint32_t want = engine_submit(plain.g, 0, spans_text(ids, 700), 690, &how);
    wait_for_done(&plain, want);
    fake.row_us = 20;
    log_open(&l, &options);
    for (int round = 0; round < 40; round++) {
        engine_read_ahead(l.g, 0, spans_text(other, 700), 700);        /* so that there is something to read each time */
        usleep((useconds_t)(round % 8 * 1000));
        engine_read_ahead(l.g, 0, spans_text(ids, 680), 680);
        usleep((useconds_t)(round / 8 * 3000));
        if (round % 3 == 0)
            engine_read_ahead(l.g, 0, (struct spans){0}, 0);
        uint32_t a = engine_submit(l.g, 0, spans_text(ids, 700), 690, &how);
        wait_for_done(&l, a);
        assert_int_equal(l.last_done[a].finish, END_LENGTH);
        assert_int_equal(l.ids[a].n, 10);
        assert_memory_equal(l.ids[a].data, plain.ids[want].data, 10 * sizeof *ids);
    }
    assert_int_equal(l.after_done, 0);
    engine_read_ahead(l.g, 0, spans_text(other, 700), 700);            /* and closing does not wait for it */
    log_close(&l);
    log_close(&plain);
}

static void test_engine__what_was_read_ahead_is_counted(void **state)
{
    (void)state;
    int32_t ids[300] = {0};
    struct log l;
    struct sampling how = {.max_tokens = 1};
    uint32_t a = 0;
    log_open_ready(&l, &options);
    int most = 0;
    for (int i = 0; i < 100 && most < 256; i++) {       /* nothing tells when it has ended: a submit that comes too soon ends it */
        ids[0] = i % 16;
        engine_read_ahead(l.g, 0, spans_text(ids, 290), 290);
        usleep(1000u << (i < 10 ? i : 10));
        a = engine_submit(l.g, 0, spans_text(ids, 300), 295, &how);
        wait_for_done(&l, a);
        assert_int_equal(l.last_done[a].stats.n_ahead, l.last_done[a].stats.n_cached);
        most = l.last_done[a].stats.n_ahead;
        assert_true(most % 64 == 0);
    }
    assert_int_equal(most, 256);
    log_close(&l);
}

static struct refill refill_of(struct log *l, uint64_t name, const int32_t *ids, int n, int snapshot_pos)
{
    struct sampling how = {.max_tokens = 2, .draft_depth = 0};
    uint32_t a = engine_submit(l->g, name, spans_text(ids, n), snapshot_pos, &how);
    wait_for_done(l, a);
    return l->last_done[a].stats.refill;
}

static void test_engine__what_is_read_again_has_a_reason(void **state)
{
    (void)state;
    struct log l;
    struct engine_options o = options;
    int32_t ids[900];
    for (int i = 0; i < 900; i++)
        ids[i] = 2 + i % 14;            /* no message ends */
    o.n_sequences = 1;
    log_open(&l, &o);
    struct refill r = refill_of(&l, 7, ids, 300, 300);
    assert_true(r.happened && !r.resident && r.common == 0 && r.pos == 0);
    assert_false(refill_of(&l, 7, ids, 600, 600).happened);       /* it goes on */
    assert_false(refill_of(&l, 7, ids, 600, 600).happened);       /* the same once more */
    ids[500] ^= 1;
    r = refill_of(&l, 7, ids, 700, 700);
    assert_true(r.happened && r.resident && r.common == 500 && r.pos == 300 && !r.from_file);
    ids[250] ^= 1;
    r = refill_of(&l, 7, ids, 700, 700);
    assert_true(r.happened && r.resident && r.common == 250 && r.pos == 0);
    ids[660] ^= 1;
    assert_int_equal(refill_of(&l, 7, ids, 720, 650).common, 660);
    ids[690] ^= 1;                      /* 40 tokens behind the snapshot: not worth a word */
    assert_false(refill_of(&l, 7, ids, 740, 700).happened);
    r = refill_of(&l, 8, ids, 300, 300);                /* another conversation takes the place */
    assert_true(r.happened && !r.resident);
    r = refill_of(&l, 7, ids, 740, 740);
    assert_true(r.happened && !r.resident && r.pos == 300);
    log_close(&l);
}

/* Tokens lost before the reading ahead are reported with the answer that follows. */
static void test_engine__what_was_read_again_ahead_has_a_reason_too(void **state)
{
    (void)state;
    struct log l;
    int32_t ids[900];
    for (int i = 0; i < 900; i++)
        ids[i] = i % 16;
    log_open(&l, &options);
    refill_of(&l, 7, ids, 600, 600);
    ids[400] ^= 1;
    engine_read_ahead(l.g, 7, spans_text(ids, 512), 512);
    usleep(20000);                      /* whether it has begun or not, the reason is the same */
    struct refill r = refill_of(&l, 7, ids, 700, 700);
    assert_true(r.happened && r.resident && r.common == 400 && r.pos == 0);
    assert_false(refill_of(&l, 7, ids, 700, 700).happened);
    log_close(&l);
}

static void test_engine__bias_is_copied_and_bans(void **state)
{
    (void)state;
    struct log l;
    int32_t ids[15];
    float bias[15];
    for (int i = 0; i < 15; i++) {
        ids[i] = i;
        bias[i] = -INFINITY;
    }
    struct sampling how = {.max_tokens = 8, .temperature = 1, .bias_ids = ids, .bias = bias, .n_bias = 15};
    log_open(&l, &options);
    uint32_t a = engine_submit(l.g, 0, spans_text(prompt, 5), 0, &how);
    memset(ids, 0xff, sizeof ids);
    memset(bias, 0, sizeof bias);
    wait_for_done(&l, a);
    assert_int_equal(l.ids[a].n, 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(l.ids[a].data[i], 15);
    log_close(&l);
}

/* Vocabularies are padded: rows without a token behind them must never be heard of, sampled, greedy or drafted. */
static void test_engine__padding_ids_are_never_picked(void **state)
{
    (void)state;
    struct log l;
    log_open(&l, &options);
    for (int i = 0; i < 3; i++) {
        struct sampling how = {.max_tokens = 100, .temperature = i ? 5 : 0, .top_k = i == 2 ? 16 : 0, .draft_depth = 2, .n_ids = 11};
        uint32_t a = engine_submit(l.g, 0, spans_text(prompt, 5), 0, &how);
        wait_for_done(&l, a);
        assert_int_equal(l.ids[a].n, 100);
        for (int k = 0; k < 100; k++)
            assert_true(l.ids[a].data[k] >= 0 && l.ids[a].data[k] <= 10);
        assert_true(l.last_done[a].stats.drafts[DRAFT_MTP][0].accepted > 0);
    }
    log_close(&l);
}

static void test_engine__bad_options_are_refused_before_anything_is_read(void **state)
{
    (void)state;
    const struct { struct engine_options o; const char *why; } rows[] = {
        {{0},                                                   "no model directory"},
        {{.model_dir = "missing"},                              "missing/config.json"},
        {{.model_dir = "fake", .backend = "tpu"},               "backend 'tpu' is unknown"},
        {{.model_dir = "fake", .kv = "int1"},                   "the KV recipe is 'int1', expected auto or one of: f32"},
        {{.model_dir = "fake", .head = "int2"},                 "'int2'"},
        {{.model_dir = "fake", .draft_depth = 8},               "draft depth is 8"},
        {{.model_dir = "fake", .draft_depth = -2},              "draft depth is -2"},
        {{.model_dir = "fake", .chunk = -1},                    "chunk is -1"},
        {{.model_dir = "fake", .n_threads = -1},                "threads is -1"},
        {{.model_dir = "fake", .n_ctx = -1},                    "--ctx is -1"},
        {{.model_dir = "fake", .n_ctx = 400001},                "--ctx is 400001, expected 1 to 400000: the model's 100000 positions"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err e = {0};
        assert_null(engine_open(&rows[i].o, &e));
        assert_non_null(strstr(e.msg, rows[i].why));
    }
    struct err e = {0};
    if (!dev_backend("cuda", &e)) {             /* not built in, or no GPU */
        assert_non_null(strstr(e.msg, "backend 'cuda'"));
        assert_null(engine_open(&(struct engine_options){.model_dir = "fake", .backend = "cuda"}, &(struct err){0}));
    }
}

static void test_engine__a_model_without_mtp_drafts_nothing(void **state)
{
    (void)state;
    struct log l;
    struct sampling how = {.max_tokens = 10, .draft_depth = -1};
    fake.no_mtp = true;
    log_open(&l, &options);
    uint32_t a = engine_submit(l.g, 0, spans_text(prompt, 5), 0, &how);
    wait_for_done(&l, a);
    assert_int_equal(engine_info(l.g)->draft_depth, 0);
    assert_int_equal(l.last_done[a].stats.n_steps, 9);
    assert_int_equal(stats_all_drafts(&l.last_done[a].stats).drafted, 0);
    log_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_engine__loads_says_ready_and_answers_in_order, reset),
        cmocka_unit_test_setup(test_engine__the_descriptor_is_readable_while_events_wait, reset),
        cmocka_unit_test_setup(test_engine__an_interrupt_ends_the_running_answer_soon_and_only_it, reset),
        cmocka_unit_test_setup(test_engine__an_interrupt_during_a_slow_prompt_is_noticed_at_once, reset),
        cmocka_unit_test_setup(test_engine__an_interrupt_does_not_wait_for_a_slow_row, reset),
        cmocka_unit_test_setup(test_engine__chunks_grow_again_after_a_slow_start, reset),
        cmocka_unit_test_setup(test_engine__waiting_for_a_processor_makes_no_small_chunks, reset),
        cmocka_unit_test_setup(test_engine__a_waiting_submit_can_be_interrupted_at_once, reset),
        cmocka_unit_test_setup(test_engine__many_submits_and_interrupts_each_end_once, reset),
        cmocka_unit_test_setup(test_engine__answers_run_beside_each_other_and_end_one_by_one, reset),
        cmocka_unit_test_setup(test_engine__more_requests_than_places_wait_in_order_and_people_first, reset),
        cmocka_unit_test_setup(test_engine__patience_comes_to_its_end, reset),
        cmocka_unit_test_setup(test_engine__a_long_prompt_holds_nobody_up, reset),
        cmocka_unit_test_setup_teardown(test_engine__all_conversations_are_saved, with_files, without_files),
        cmocka_unit_test_setup_teardown(test_engine__a_conversation_comes_back_with_its_picture, with_files, without_files),
        cmocka_unit_test_setup_teardown(test_engine__a_save_that_came_too_late_holds_nobody_up, with_files, without_files),
        cmocka_unit_test_setup_teardown(test_engine__a_restore_waits_for_the_save_of_the_same_file, with_files, without_files),
        cmocka_unit_test_setup_teardown(test_engine__saves_of_one_conversation_take_each_others_place, with_files, without_files),
        cmocka_unit_test_setup_teardown(test_engine__of_three_conversations_in_two_places_nothing_is_computed_twice, with_files, without_files),
        cmocka_unit_test_setup_teardown(test_engine__a_conversation_leaves_its_place_without_waiting_for_the_disk, with_files, without_files),
        cmocka_unit_test_setup_teardown(test_engine__a_conversation_that_was_deleted_is_not_saved_when_it_leaves, with_files, without_files),
        cmocka_unit_test_setup_teardown(test_engine__a_checkpoint_that_another_program_has_stays, with_files, without_files),
        cmocka_unit_test_setup_teardown(test_engine__a_conversation_that_comes_back_holds_up_nobody, with_files, without_files),
        cmocka_unit_test_setup_teardown(test_engine__an_interrupt_does_not_wait_for_what_comes_back, with_files, without_files),
        cmocka_unit_test_setup_teardown(test_engine__closing_leaves_what_comes_back_in_its_file, with_files, without_files),
        cmocka_unit_test_setup_teardown(test_engine__a_damaged_file_holds_up_nobody, with_files, without_files),
        cmocka_unit_test_setup_teardown(test_engine__a_conversation_whose_file_is_in_use_is_computed_again, with_files, without_files),
        cmocka_unit_test_setup_teardown(test_engine__two_conversations_come_back_at_once, with_files, without_files),
        cmocka_unit_test_setup_teardown(test_engine__a_save_does_not_touch_a_file_that_is_read, with_files, without_files),
        cmocka_unit_test_setup_teardown(test_engine__reading_ahead_waits_for_what_comes_back, with_files, without_files),
        cmocka_unit_test_setup(test_engine__a_device_fault_ends_all_answers, reset),
        cmocka_unit_test_setup(test_engine__closing_does_not_wait_for_weights_and_answers, reset),
        cmocka_unit_test_setup(test_engine__a_checkpoint_that_fails_to_load_is_fatal_and_answers_every_submit, reset),
        cmocka_unit_test_setup(test_engine__a_device_fault_is_fatal, reset),
        cmocka_unit_test_setup(test_engine__a_refused_prompt_says_why_and_the_engine_lives_on, reset),
        cmocka_unit_test_setup(test_engine__going_back_into_the_middle_of_an_answer_computes_little, reset),
        cmocka_unit_test_setup(test_engine__a_submit_ends_the_reading_ahead_at_any_point, reset),
        cmocka_unit_test_setup(test_engine__what_was_read_ahead_is_counted, reset),
        cmocka_unit_test_setup(test_engine__what_is_read_again_has_a_reason, reset),
        cmocka_unit_test_setup(test_engine__going_back_costs_the_tokens_behind_the_rejoin_point, reset),
        cmocka_unit_test_setup(test_engine__what_was_read_again_ahead_has_a_reason_too, reset),
        cmocka_unit_test_setup(test_engine__bias_is_copied_and_bans, reset),
        cmocka_unit_test_setup(test_engine__padding_ids_are_never_picked, reset),
        cmocka_unit_test_setup(test_engine__bad_options_are_refused_before_anything_is_read, reset),
        cmocka_unit_test_setup(test_engine__a_model_without_mtp_drafts_nothing, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
