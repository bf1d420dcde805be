/* Guides of real schemas, of patterns and of calls under ids at random (the same ones each time), for two seconds: what a mask has is what the ids
 * are one by one, a place is the one that a replay from the start leads to, going back is copying a place back, and what memory is given back
 * changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guide/guide.h"
#include "tests/fuzz/long_run.h"
#include "text/pyjson.h"
#include "text/tokenizer.h"

enum { SCHEMAS = 400, MOST = 200 };

static uint64_t rnd_state = 9;
static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rnd_state >> 32) * below >> 32);
}

static struct tokenizer *tokenizer;
static struct guide_vocabulary *vocabulary;
static int n_ids;
static char *schemas[SCHEMAS];
static int n_schemas;

static const char *const patterns[] = {"[a-z]{1,200}", "(a|bc)*\\d+", "[^x]*x", "\\S+( \\S+){0,5}", "é|€{2,40}|[😀-😎]+", ".{3,}"};
static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"find\", \"parameters\": {\"type\": \"object\", \"properties\": {"
    "\"word\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}, \"in\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}}, "
    "\"required\": [\"word\"]}}}]";

static void read_schemas(void)
{
    FILE *f = fopen("tests/data/schemas/schemas.jsonl", "r");
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    assert_non_null(f);
    while ((len = getline(&line, &cap, f)) > 0 && n_schemas < SCHEMAS) {
        struct arena arena = {0};
        struct pyjson v;
        struct buf schema = {0};
        assert_true(pyjson_parse(&v, (struct text){line, (size_t)len}, PYJSON_LOADS, &arena, NULL));
        pyjson_dump(pyjson_get(&v, "schema"), &schema);
        schemas[n_schemas++] = strdup(buf_str(&schema));
        buf_free(&schema);
        arena_free(&arena);
    }
    free(line);
    fclose(f);
}

/* NULL: that one does not compile. */
static struct guide *some_guide(const char **source)
{
    struct err e;
    const bool calls = rnd(6) == 0, pattern = !calls && rnd(6) == 0;
    static const enum guide_kind kinds[] = {GUIDE_CALLS, GUIDE_TALK, GUIDE_TALK_ONCE};
    const enum guide_kind kind = calls ? kinds[rnd(3)] : rnd(6) ? GUIDE_TEXT : GUIDE_EITHER;
    const struct text one = text_of("find");
    const struct grammar_calls of = {.tools = text_of(tools), .allowed = &one, .n_allowed = (int)rnd(2), .several = kind < GUIDE_TALK && rnd(2)};
    *source = calls ? tools : pattern ? patterns[rnd(sizeof patterns / sizeof *patterns)] : schemas[rnd((uint32_t)n_schemas)];
    struct grammar *g = calls ? grammar_of_calls(&of, &e)
                      : pattern ? grammar_of_pattern(text_of(*source), &e)
                      : grammar_of_schema(text_of(*source), &(struct grammar_options){.ordered = rnd(2)}, &e);
    if (g && kind == GUIDE_EITHER)
        assert_true(grammar_or_calls(g, &of, &e));
    struct guide *guide = g ? guide_new(g, vocabulary, kind) : NULL;
    grammar_release(g);
    return guide;
}

static bool same_place(const struct guide_state *a, const struct guide_state *b)
{
    return a->at.place == b->at.place && a->at.n_key == b->at.n_key && !memcmp(a->at.key, b->at.key, a->at.n_key) && a->stage == b->stage
        && a->lead == b->lead && a->matched == b->matched && a->bare == b->bare && a->line == b->line && a->called == b->called;
}

/* The ids from the start lead to *s. */
static void check_replay(struct guide *g, const struct guide_state *start, const int32_t *ids, int n, const struct guide_state *s, const char *source)
{
    struct guide_state again = *start;
    for (int i = 0; i < n; i++)
        if (!guide_advance(g, &again, ids[i]))
            fail_msg("%s: id %d of %d is refused in a replay", source, i, n);
    if (!same_place(&again, s))
        fail_msg("%s: a replay of %d ids ends elsewhere", source, n);
}

/* Some ids, likelier ones of the mask, are what the mask says. */
static void check_mask(struct guide *g, const struct guide_state *s, const uint32_t *bits, const char *source)
{
    for (int i = 0; i < 60; i++) {
        const int32_t id = (int32_t)rnd((uint32_t)n_ids);
        struct guide_state next = *s;
        if (guide_advance(g, &next, id) != (bits[id / 32] >> (id % 32) & 1))
            fail_msg("%s: id %d is %s the mask", source, id, bits[id / 32] >> (id % 32) & 1 ? "wrongly in" : "missing from");
    }
}

static int32_t some_id(const uint32_t *bits)
{
    const int from = (int)rnd((uint32_t)n_ids);
    for (int i = 0; i < n_ids; i++) {
        const int32_t id = (from + i) % n_ids;
        if (bits[id / 32] >> (id % 32) & 1)
            return id;
    }
    return -1;
}

/* Writes a text and goes back in it; returns how many ids were accepted. */
static int write_some(struct guide *g, const char *source)
{
    struct guide_state start = guide_begin(g, rnd(2)), s = start, kept = start;
    int32_t ids[MOST], forced[8];
    int n = 0, n_kept = 0, accepted = 0;
    uint32_t *bits = calloc((size_t)(n_ids + 31) / 32, sizeof *bits);
    guide_watch(g, &start);
    guide_watch(g, &s);
    guide_watch(g, &kept);
    for (int turn = 0; turn < MOST && n < MOST; turn++) {
        const uint32_t what = rnd(16);
        if (what == 0) {
            s = kept;
            n = n_kept;
        } else if (what == 1) {
            kept = s;
            n_kept = n;
        } else if (what < 5) {          /* any id, mostly refused */
            const struct guide_state before = s;
            const int32_t id = (int32_t)rnd((uint32_t)n_ids + 5) - 2;
            if (guide_advance(g, &s, id))
                ids[n++] = id;
            else if (!same_place(&s, &before))
                fail_msg("%s: a refused id changed the place", source);
        } else if (what < 8) {
            const int n_forced = guide_forced(g, &s, forced, 8);
            for (int i = 0; i < n_forced && n < MOST; i++) {
                if (!guide_advance(g, &s, forced[i]))
                    fail_msg("%s: forced id %d is refused", source, forced[i]);
                ids[n++] = forced[i];
            }
        } else {
            const int n_admitted = guide_mask(g, &s, bits, n_ids);
            check_mask(g, &s, bits, source);
            const int32_t id = guide_rests(g, &s) && rnd(3) == 0 ? tokenizer_special(tokenizer, "<tool_call>") : some_id(bits);
            if (id < 0) {
                if (!guide_must_end(g, &s) || n_admitted)
                    fail_msg("%s: nothing can follow %d ids", source, n);
                break;
            }
            if (!guide_advance(g, &s, id))
                fail_msg("%s: id %d of the mask is refused", source, id);
            ids[n++] = id;
        }
        accepted++;
        if (rnd(8) == 0)
            check_replay(g, &start, ids, n, &s, source);
        guide_settle(g, rnd(3) ? GRAMMAR_TRIM : 1);
    }
    check_replay(g, &start, ids, n, &s, source);
    guide_unwatch(g, &start);
    guide_unwatch(g, &s);
    guide_unwatch(g, &kept);
    free(bits);
    return accepted;
}

static void test_fuzz__a_guide_is_what_a_replay_of_its_ids_is(void **state)
{
    (void)state;
    rnd_state = long_run_seed(rnd_state);
    long n_guides = 0, n_accepted = 0;
    for (struct long_run run = long_run_begin(2, 60); long_run_goes_on(&run);) {
        const char *source;
        struct guide *g = some_guide(&source);
        for (int i = 0; i < 2 && g; i++)
            n_accepted += write_some(g, source);
        n_guides += g != NULL;
        guide_release(g);
    }
    assert_true(n_guides > 0 && n_accepted > 100);
    printf("%ld guides, %ld turns\n", n_guides, n_accepted);
}

int main(void)
{
    struct err e;
    tokenizer = tokenizer_open("assets/demo", &e);
    if (!tokenizer) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    n_ids = tokenizer_n_ids(tokenizer);
    vocabulary = guide_vocabulary_of(tokenizer);
    read_schemas();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fuzz__a_guide_is_what_a_replay_of_its_ids_is)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    while (n_schemas)
        free(schemas[--n_schemas]);
    guide_vocabulary_release(vocabulary);
    tokenizer_close(tokenizer);
    return failed;
}
