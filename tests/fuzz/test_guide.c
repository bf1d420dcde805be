/* Schemas, patterns and tools put together at random (the same ones each time), for two seconds: each compiles or ends in a sentence, and random
 * texts that a grammar lets end are what it was made of: a walk never gets stuck, and a state is that of a walk from the start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "guide/grammar.h"
#include "tests/fuzz/long_run.h"

enum { MOST_MS = 30 };                  /* of a random text */

static uint64_t rnd_state = 5;
static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rnd_state >> 32) * below >> 32);
}

#define PICK(list) list[rnd(sizeof list / sizeof *list)]

static void add_pattern(struct buf *b, int depth)
{
    static const char *const atoms[] = {"a", "b", ".", "\\\\d", "[a-c]", "[^b]", "é", "x{2,3}", "", "\\\\w",
        "(?!a)", "^", "$", "{", "(", "\\\\b", "[", "\\\\u12"};
    static const char *const tails[] = {"", "", "*", "+", "?", "{2}", "{1,40}", "|"};
    for (int n = 1 + (int)rnd(4); n > 0; n--) {
        if (depth < 4 && !rnd(3)) {
            buf_addc(b, '(');
            add_pattern(b, depth + 1);
            buf_addc(b, ')');
        } else {
            buf_adds(b, rnd(12) ? atoms[rnd(10)] : PICK(atoms));
        }
        buf_adds(b, PICK(tails));
    }
}

static void add_schema(struct buf *b, int depth)
{
    static const char *const types[] = {"\"string\"", "\"integer\"", "\"number\"", "\"object\"", "\"array\"",
        "\"null\"", "[\"boolean\", \"string\"]"};
    static const char *const lists[] = {"anyOf", "oneOf", "allOf", "prefixItems"}, *const one[] = {"not", "items",
        "additionalProperties", "contains", "if", "then",
        "else", "propertyNames"}, *const sizes[] = {"minimum", "maximum", "exclusiveMinimum", "multipleOf",
        "minLength", "maxLength", "minItems", "maxItems",
        "minProperties", "maxProperties"}, *const values[] = {"0", "1", "3", "-2", "0.5", "1e3", "null", "\"a\"",
        "[1]", "{\"b\": 2}", "true"};
    static const char *const rest[] = {"\"$ref\": \"#\"", "\"$ref\": \"#/properties/a\"", "\"required\": [\"a\"]",
        "\"uniqueItems\": true", "\"format\": \"date\"",
        "\"enum\": [1, \"a\", null]", "\"type\": 7", "\"dependentRequired\": {\"a\": [\"b\"]}"};
    if (depth > 4 || !rnd(12)) {
        buf_adds(b, rnd(3) ? "true" : "{}");
        return;
    }
    buf_adds(b, "{");
    for (int n = (int)rnd(4); n >= 0; n--) {
        switch (rnd(8)) {
        case 0: case 1: buf_addf(b, "\"type\": %s", PICK(types)); break;
        case 2: buf_addf(b, "\"%s\": %s", PICK(sizes), values[rnd(6)]); break;
        case 3: buf_addf(b, "\"const\": %s", PICK(values)); break;
        case 4: buf_addf(b, "\"%s\": ", PICK(one)); add_schema(b, depth + 1); break;
        case 5:
            buf_addf(b, "\"%s\": [", PICK(lists));
            add_schema(b, depth + 1);
            buf_adds(b, ", ");
            add_schema(b, depth + 1);
            buf_adds(b, "]");
            break;
        case 6:
            buf_adds(b, rnd(2) ? "\"properties\": {\"a\": " : "\"patternProperties\": {\"^a\": ");
            add_schema(b, depth + 1);
            buf_adds(b, ", \"b\": ");
            add_schema(b, depth + 1);
            buf_adds(b, "}");
            break;
        case 7: buf_adds(b, PICK(rest)); break;
        }
        buf_adds(b, n ? ", " : "");
    }
    buf_adds(b, "}");
}

/* Writes a random text for the grammar of `source`, of bytes that are accepted, until it may end or is long. */
static void walk(struct grammar *g, struct buf *source, struct buf *out)
{
    struct grammar_state s = grammar_begin(g);
    const int64_t start = clock_ns();       /* counted repetitions in others make each byte dear */
    for (int n = 0; n < 300 && clock_ms_since(start) < MOST_MS && !(grammar_may_end(g, &s) && !rnd(3)); n++) {
        struct grammar_state next = s;
        int tries = 0;
        uint8_t byte = (uint8_t)(32 + rnd(95));
        while (!grammar_byte(g, &next, byte) && tries++ < 300)
            byte = tries < 40 ? (uint8_t)(32 + rnd(95)) : (uint8_t)(byte + 1);
        if (tries > 300) {
            if (!grammar_may_end(g, &s) && !grammar_full(g))
                fail_msg("%s accepts nothing after %s", buf_str(source), buf_str(out));
            break;
        }
        s = next;
        if (rnd(8) == 0)
            grammar_trim(g, &(struct grammar_state *){&s}, 1, rnd(2) ? 1 : GRAMMAR_TRIM);
        buf_addc(out, (char)byte);
    }
    struct grammar_state again = grammar_begin(g);
    grammar_trim(g, (struct grammar_state *[]){&s, &again}, 2, 1);
    assert_int_equal(grammar_text(g, &again, (struct text){out->data, out->len}), out->len);
    assert_int_equal(again.place, s.place);
}

static void test_fuzz__guides_never_get_stuck(void **state)
{
    (void)state;
    const uint64_t seed = long_run_seed(rnd_state);
    uint64_t k = 0;
    long made = 0, ended = 0;
    for (struct long_run run = long_run_begin(2, 100); long_run_goes_on(&run);) {
        struct buf b = {0}, text = {0}, notes = {0};
        struct err e = {0};
        rnd_state = (seed + k++ * 0x9E3779B97F4A7C15u) | 1;        /* the same grammars, however long the walks before them were */
        const bool pattern = rnd(3) == 0;
        if (pattern)
            add_pattern(&b, 0);
        else
            add_schema(&b, 0);
        struct grammar *g = pattern ? grammar_of_pattern((struct text){b.data, b.len}, &e)
                                   : grammar_of_schema((struct text){b.data, b.len}, &(struct grammar_options){.notes = &notes}, &e);
        if (!g && !e.msg[0])
            fail_msg("refused without a sentence: %s", buf_str(&b));
        made += g != NULL;
        for (int i = 0; i < 3 && g; i++) {
            buf_reset(&text);
            walk(g, &b, &text);
            struct grammar_state s = grammar_begin(g);
            grammar_text(g, &s, (struct text){text.data, text.len});
            if (!grammar_may_end(g, &s) || pattern)
                continue;
            ended++;
            if (!grammar_check(g, (struct text){text.data, text.len}, &e) && !notes.len)     /* a noted keyword is enforced only in part */
                fail_msg("%s accepts %s: %s", buf_str(&b), buf_str(&text), e.msg);
        }
        grammar_release(g);
        buf_free(&b);
        buf_free(&text);
        buf_free(&notes);
    }
    assert_true(made > 0 && ended > 0);
    printf("%ld grammars, %ld finished values\n", made, ended);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fuzz__guides_never_get_stuck)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
