/* Patterns, choices, JSON schemas and calls of tools as automata over bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <time.h>

#include "guide/grammar.h"

/* True if the grammar accepts the whole text and lets it end. */
static bool accepts(struct grammar *g, const char *text)
{
    struct grammar_state s = grammar_begin(g);
    return grammar_text(g, &s, text_of(text)) == strlen(text) && grammar_may_end(g, &s);
}

/* A pattern, then texts that match it, then texts that do not. */
static const struct { const char *pattern, *yes[4], *no[4]; } patterns[] = {
    {"abc", {"abc"}, {"ab", "abcd", "", "xabc"}},
    {"^[A-Z]{2}-\\d{3,5}$", {"AB-123", "ZZ-12345"}, {"AB-12", "AB-123456", "ab-123"}},
    {"a*(b|cd)?e+", {"e", "aaabe", "cdeee"}, {"a", "bcde"}},
    {"[^a-c]+", {"xyz", "é€😀"}, {"xay", ""}},
    {".", {"x", "é", "😀"}, {"\n", "", "\xC3", "xx"}},
    {"(?!foo)[a-z]+", {"fo", "bar"}, {"foo", "food"}},
    {"(?=.*\\d)[a-z0-9]{4,6}", {"abc1", "1abcde"}, {"abcd", "a1"}},
    {"(a?b?){1000}", {"", "ab", "bbaab"}, {"c"}},
    {"[a-z]{0,100000}", {"", "q"}, {"Q"}},
    {"\\u00e9|[\\u{1F600}-\\u{1F64F}]", {"é", "😀"}, {"e", "\xF0\x9F"}},
    {"x{,2}", {"x{,2}"}, {"xx"}},
    {"(/?(\\.{2}|[a-z]*)($|/))*", {"", "..", "a/b", "/a//"}, {"A", "a/.b"}},
    {"(^a|b|c$)*", {"abbc", "c", "bb", "ac"}, {"ba", "cb", "aa", "cc"}},
    {"(?:^|x)y($|,)z?", {"y", "xy", "y,z"}, {"yz", "xx"}},
    {"(^a|$){2}b?", {"a"}, {"aa", "ab", "b"}},
    {"(?:^a)?b??c+?d{1,2}?", {"acd", "bcdd", "ccd"}, {"aacd", "bd"}},
    {"(?<n_1>a)(?<é$>b)]a{", {"ab]a{"}, {"ab"}},
};

static void test_pattern__accepts_what_matches_and_nothing_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct err e = {0};
        struct grammar *g = grammar_of_pattern(text_of(patterns[i].pattern), &e);
        if (!g)
            fail_msg("%s", e.msg);
        for (int k = 0; k < 4; k++) {
            if (patterns[i].yes[k] && !accepts(g, patterns[i].yes[k]))
                fail_msg("%s refuses %s", patterns[i].pattern, patterns[i].yes[k]);
            if (patterns[i].no[k] && accepts(g, patterns[i].no[k]))
                fail_msg("%s accepts %s", patterns[i].pattern, patterns[i].no[k]);
        }
        grammar_release(g);
    }
}

static void test_pattern__what_cannot_be_enforced_is_refused_by_name(void **state)
{
    (void)state;
    static const struct { const char *pattern, *word; } row[] = {
        {"a\\b", "word boundary"},
        {"(a)\\1", "back reference"}, {"(?<=a)b", "look-behind"}, {"\\p{L}", "Unicode property"}, {"a{200000}", "count"},
        {"(", "not closed"}, {"a)", "not opened"}, {"[b-a]", "range"}, {"*", "nothing"},
        {"(a(?=b))c", "look-ahead"}, {"a(?!a)a(?!b|c)b", "satisfies"},
        /* repetitions of nothing, as ECMA-262 has it */
        {"a**", "nothing"}, {"a++", "nothing"}, {"a*+", "nothing"}, {"a???", "nothing"}, {"a+??", "nothing"}, {"a{2}*", "nothing"},
        {"a{1}{2}", "nothing"}, {"{1}", "nothing"}, {"a|{2,}", "nothing"}, {"(?:*a)", "nothing"}, {"^?", "anchor"}, {"$?", "anchor"},
        {"^*", "anchor"}, {"\\u{}", "not a character"}, {"(?<>a)", "name"}, {"(?<1a>b)", "name"}, {"(?<a b>c)", "name"}, {"(?<n", "name"},
        {"(?P<n>a)", "special group"},
        {"(", "the pattern cannot be enforced: \"(\" has a parenthesis that is not closed"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = {0};
        struct grammar *g = grammar_of_pattern(text_of(row[i].pattern), &e);
        if (g || !strstr(e.msg, row[i].word))
            fail_msg("%s: \"%s\" has no \"%s\"", row[i].pattern, e.msg, row[i].word);
    }
}

static void test_choices__end_where_one_ends_and_force_what_they_share(void **state)
{
    (void)state;
    const struct text choice[] = {text_of("yes, please"), text_of("yes, thanks"), text_of("no"), text_of("none")};
    struct err e = {0};
    struct grammar *g = grammar_of_choices(choice, 4, &e);
    char out[32] = "";
    assert_non_null(g);
    assert_true(accepts(g, "no") && accepts(g, "none") && accepts(g, "yes, thanks"));
    assert_false(accepts(g, "yes") || accepts(g, "nones") || accepts(g, ""));
    struct grammar_state s = grammar_begin(g);
    assert_true(grammar_byte(g, &s, 'y'));
    assert_int_equal(grammar_forced(g, &s, out, sizeof out), 4);
    assert_string_equal(out, "es, ");
    const struct grammar_state before = s;
    assert_false(grammar_byte(g, &s, 'x'));
    assert_int_equal(s.place, before.place);
    grammar_release(g);
    assert_null(grammar_of_choices(choice, 0, &e));
}

/* A schema, values that it accepts, and values that it does not. */
static const struct { const char *schema, *yes[4], *no[5]; } schemas[] = {
    {"{\"type\": \"integer\", \"minimum\": -5, \"maximum\": 120}", {"-5", "0", "120", "7.0"}, {"-6", "121", "1.5", "01", "1e1"}},
    {"{\"type\": \"number\", \"exclusiveMinimum\": 0.25, \"maximum\": 1}", {"0.26", "1", "0.9999"}, {"0.25", "1.01", "-1", "0"}},
    {"{\"type\": \"integer\", \"multipleOf\": 7}", {"0", "14", "-21", "7.0"}, {"1", "15"}},
    {"{\"type\": \"string\", \"maxLength\": 2}", {"\"\"", "\"é😀\"", "\"\\u00e9\\n\""}, {"\"abc\"", "\"\\ud800\"", "abc"}},
    {"{\"type\": \"array\", \"uniqueItems\": true, \"items\": {\"enum\": [\"a\", \"b\", 1, 1.0]}}", {"[]", "[\"a\", 1]", "[1, \"b\", \"a\"]"},
     {"[\"a\", \"a\"]", "[1, 1.0]", "[1, \"a\", 1]"}},
    {"{\"allOf\": [{\"items\": {\"enum\": [1, 2, 3]}}, {\"items\": {\"minimum\": 2}}], \"type\": \"array\", \"uniqueItems\": true, \"minItems\": 2}",
     {"[3, 2]", "[2, 3]"}, {"[2]", "[1, 2]", "[2, 2]"}},
    {"{\"type\": \"string\", \"pattern\": \"b\"}", {"\"abc\"", "\"\\u0062\""}, {"\"ac\""}},
    {"{\"enum\": [1, \"a\", null, {\"x\": [true]}]}", {"1.0", "\"a\"", "null", "{\"x\": [true]}"}, {"2", "\"b\"", "true"}},
    {"{\"type\": \"object\", \"properties\": {\"a\": {}}, \"required\": [\"a\"]}", {"{\"a\":1,\"b\": {}}", "{\"b\":1,\"a\":2}"},
     {"{}", "{\"b\":1}", "{\"a\":1,\"a\":2}", "{\"a\":1,\"b\":1,\"b\":2}", "{\"a\":1,}"}},
    {"{\"$ref\": \"#/$defs/t\", \"$defs\": {\"t\": {\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/t\"}, \"maxItems\": 2}}}",
     {"[]", "[[],[[]]]"}, {"[[],[],[]]", "[1]", "[[]"}},
    {"{\"not\": {\"type\": [\"string\", \"null\"]}}", {"1", "{}"}, {"\"a\"", "null"}},
    {"{\"oneOf\": [{\"minimum\": 2, \"type\": \"integer\"}, {\"maximum\": 5, \"type\": \"integer\"}]}", {"1", "6"}, {"2", "5", "\"\""}},
    {"{\"if\": {\"properties\": {\"k\": {\"const\": 1}}}, \"then\": {\"required\": [\"v\"]}, \"type\": \"object\"}",
     {"{\"k\":2}", "{\"k\":1,\"v\":0}"}, {"{\"k\":1}", "{}"}},
};

static void test_schema__accepts_its_values_and_no_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        struct err e = {0};
        struct grammar *g = grammar_of_schema(text_of(schemas[i].schema), NULL, &e);
        if (!g)
            fail_msg("%s: %s", schemas[i].schema, e.msg);
        for (int k = 0; k < 5; k++) {
            if (k < 4 && schemas[i].yes[k] && !accepts(g, schemas[i].yes[k]))
                fail_msg("%s refuses %s", schemas[i].schema, schemas[i].yes[k]);
            if (schemas[i].no[k] && accepts(g, schemas[i].no[k]))
                fail_msg("%s accepts %s", schemas[i].schema, schemas[i].no[k]);
        }
        grammar_release(g);
    }
}

static void test_schema__plain_integers_have_no_point(void **state)
{
    (void)state;
    static const struct { const char *schema, *text; bool plain, also; } row[] = {
        {"{\"type\": \"integer\"}", "1", true, true}, {"{\"type\": \"integer\"}", "1.0", false, true}, {"{\"type\": \"number\"}", "1.0", true, true},
        {"{\"type\": \"integer\", \"minimum\": 3}", "7.00", false, true}, {"{\"type\": \"integer\", \"minimum\": 3}", "7", true, true},
        {"{\"enum\": [1, 2.5]}", "1.0", false, true}, {"{\"enum\": [1, 2.5]}", "2.5", true, true}, {"{\"const\": 1.0}", "1.0", true, true},
        {"{\"type\": \"integer\", \"multipleOf\": 5}", "10.0", false, true},
        {"{\"type\": \"integer\", \"not\": {\"const\": 1}}", "1", false, false},
        {"{\"not\": {\"type\": \"integer\"}}", "4687168320.5", false, false}, {"{\"not\": {\"type\": \"integer\"}}", "468716832.5", true, true},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (int plain = 0; plain < 2; plain++) {
            struct err e = {0};
            struct grammar *g = grammar_of_schema(text_of(row[i].schema), &(struct grammar_options){.plain = plain}, &e);
            if (!g || accepts(g, row[i].text) != (plain ? row[i].plain : row[i].also))
                fail_msg("%s: %s %s", row[i].schema, row[i].text, e.msg);
            grammar_release(g);
        }
}

static void test_schema__what_cannot_be_enforced_is_refused_by_name_and_place(void **state)
{
    (void)state;
    static const struct { const char *schema, *sentence; } row[] = {
        {"{\"properties\": {\"a\": {\"type\": \"array\", \"uniqueItems\": true}}}", "#/properties/a: \"uniqueItems\" cannot be enforced"},
        {"{\"properties\": {\"a\": {\"type\": \"string\", \"pattern\": \"(\"}}}",
         "#/properties/a: \"pattern\" cannot be enforced: \"(\" has a parenthesis that is not closed"},
        {"{\"prefixItems\": [{\"const\": 1}, {\"enum\": [1, 2]}], \"items\": false, \"uniqueItems\": true}", "#: \"uniqueItems\" cannot be enforced"},
        {"{\"items\": {\"enum\": [[1], [2]]}, \"uniqueItems\": true}", "#: \"uniqueItems\" cannot be enforced"},
        {"{\"type\": \"array\", \"items\": {\"enum\": [1, 2]}, \"uniqueItems\": true, \"minItems\": 3}", "no text satisfies the schema"},
        {"{\"$ref\": \"#/$defs/x\"}", "#: \"$ref\" leads to no schema of this document"},
        {"{\"type\": \"text\"}", "#: \"type\" does not name a JSON type"},
        {"{\"properties\": {\"a\": {\"required\": \"b\"}}}", "#/properties/a: \"required\" is not a list of names"},
        {"{\"required\": [1]}", "#: \"required\" is not a list of names"},
        {"{\"multipleOf\": -3}", "#: \"multipleOf\" is not a positive number"}, {"{\"multipleOf\": 0}", "#: \"multipleOf\" is not a positive number"},
        {"{\"multipleOf\": 1e-300}", "#: \"multipleOf\" cannot be enforced: a number of so many digits"},
        {"{\"properties\": {\"a\": {\"type\": \"string\", \"pattern\": \"a.{20}$\", \"not\": {\"pattern\": \"[ab].{20}$\"}}}}",
         "#/properties/a: the values need too many states to be enforced"},
        {"{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}}, \"required\": [\"a\"]}", "no text satisfies the schema"},
        {"{\"type\": \"object\", \"minProperties\": 3, \"maxProperties\": 0}", "no text satisfies the schema"},
        {"{\"type\": \"object\", \"minProperties\": 3, \"propertyNames\": {\"enum\": [\"a\", \"b\"]}}", "no text satisfies the schema"},
        {"{\"type\": \"object\", \"minProperties\": 2, \"additionalProperties\": false, \"patternProperties\": {\"^a$\": {}}}",
         "no text satisfies the schema"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = {0};
        assert_null(grammar_of_schema(text_of(row[i].schema), NULL, &e));
        assert_string_equal(e.msg, row[i].sentence);
    }
    struct buf notes = {0};
    struct err e = {0};
    struct grammar *g = grammar_of_schema(text_of(row[0].schema), &(struct grammar_options){.loose = true, .notes = &notes}, &e);
    assert_non_null(g);
    assert_non_null(strstr(buf_str(&notes), "uniqueItems"));
    assert_true(accepts(g, "{\"a\": [1, 1]}"));
    assert_false(grammar_check(g, text_of("{\"a\": [1, 1]}"), &e));
    assert_true(grammar_check(g, text_of("{\"a\": [1, 2]}"), &e));
    grammar_release(g);
    buf_free(&notes);
}

/* Writes a schema: parts for the letters from A on, and what stands around them. */
static void write_parts(struct buf *out, const char *before, const char *part, int n, const char *after)
{
    buf_reset(out);
    buf_adds(out, before);
    for (int i = 0; i < n; i++) {
        buf_adds(out, i ? ", " : "");
        buf_addf(out, part, 'A' + i % 26, i, i);
    }
    buf_adds(out, after);
}

/* Returns the processor time of a fixed amount of work, the unit of a bound that holds on any processor: some 0.04 s, emulated 0.2. */
static clock_t unit_of_work(void)
{
    const clock_t begun = clock();
    uint64_t hash = 0xcbf29ce484222325;
    for (uint64_t i = 0; i < 1 << 25; i++)
        hash = (hash ^ i) * 0x100000001b3;
    assert_true(hash);
    return clock() - begun;
}

static void test_schema__work_for_many_patterns_is_bounded(void **state)
{
    (void)state;
    static const struct { const char *before, *part, *after, *yes, *no; int n; } row[] = {
        {"{\"oneOf\": [", "{\"type\": \"string\", \"pattern\": \"^.*%c.*$\"}", "]}", "\"to Be\"", "\"AB\"", 26},
        {"{\"anyOf\": [", "{\"type\": \"string\", \"pattern\": \"^.*%c.*$\"}", "]}", "\"aZ AB\"", "\"ab\"", 26},
        {"{\"allOf\": [", "{\"type\": \"string\", \"pattern\": \"%c\"}", "]}", "\"ABCDEFGHIJKLMNOPQRSTUVWXYZ\"", "\"ABCDEFGH\"", 26},
        {"{\"type\": \"object\", \"properties\": {", "\"%c%d\": {\"type\": \"string\"}", "}}", "{\n        \"B1\": \"x\"}", "{\"B1\": 1}", 1500},
        {"{\"type\": \"object\", \"required\": [", "\"%c%d\"", "]}", NULL, NULL, 5000},
        {"{\"oneOf\": [", "{\"const\": \"%c%d\"}", "]}", NULL, NULL, 9000},
        {"{\"allOf\": [", "{\"title\": \"%c%d\"}", "]}", NULL, NULL, 20000},
        {"{\"anyOf\": [", "{\"properties\": {\"%c%d\": {\"type\": \"integer\"}}}", "]}", "{\"B1\": \"x\"}", "{\"B1\": }", 1000},
        {"{\"anyOf\": [", "{\"properties\": {\"%c%d\": {\"type\": \"integer\"}, \"z\": {\"const\": 1}}, \"additionalProperties\": false}",
         "], \"type\": \"object\"}", "{\"B1\": 1, \"z\": 1}", "{\"B1\": 1, \"C2\": 2}", 3000},
        {"{\"allOf\": [", "{\"anyOf\": [{\"properties\": {\"k%c\": {\"const\": 1}}}, {\"properties\": {\"j%d\": {\"const\": 1}}}]}", "]}", NULL,
         NULL, 12},
        {"{\"allOf\": [", "{\"if\": {\"properties\": {\"k%c\": {\"const\": 1}, \"k%d\": true}, \"required\": [\"k%d\"]}, \"then\": {\"required\": "
         "[\"t\"]}}", "]}", NULL, NULL, 100},
    };
    enum { MOST = 80 };                 /* units; the slowest row takes 5, under sanitizers and emulated some 15 */
    const clock_t unit = unit_of_work();
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct buf schema = {0};
        struct err e = {0};
        write_parts(&schema, row[i].before, row[i].part, row[i].n, row[i].after);
        const clock_t begun = clock();
        struct grammar *g = grammar_of_schema((struct text){schema.data, schema.len}, NULL, &e);
        const double units = (double)(clock() - begun) / (double)unit;
        if (units > MOST)
            fail_msg("%.200s takes %.0f units", buf_str(&schema), units);
        if (!g != !row[i].yes)
            fail_msg("%.200s: %s", buf_str(&schema), e.msg);
        if (g && (!accepts(g, row[i].yes) || accepts(g, row[i].no) || grammar_work(g) > 3000000))
            fail_msg("%.200s: %llu derivatives", buf_str(&schema), (unsigned long long)grammar_work(g));
        grammar_release(g);
        buf_free(&schema);
    }
}

static void test_grammar__beyond_the_work_that_is_allowed_refuses_until_more_is(void **state)
{
    (void)state;
    struct err e = {0};
    struct grammar *g = grammar_of_pattern(text_of("(.*[aeiou].{0,30}){20}"), &e);
    struct grammar_state s = grammar_begin(g);
    grammar_allow(g, 300);
    const size_t n = grammar_text(g, &s, text_of("abcdefghijklmnopqrstuvwxyz"));
    assert_true(n < 26 && grammar_full(g));
    for (size_t i = n; i < 26; i++) {
        grammar_allow(g, 100000);
        assert_false(grammar_full(g));
        assert_true(grammar_byte(g, &s, (uint8_t)('a' + i)));
    }
    grammar_release(g);
}

static void test_schema__long_lists_and_equal_references_take_linear_work(void **state)
{
    (void)state;
    static const struct { const char *yes, *no; } row[] = {{"\"A19998\"", "\"A19999\""}, {"19998", "20000"}, {NULL, NULL}};
    struct buf schema = {0};
    struct err e = {0};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        buf_reset(&schema);
        buf_adds(&schema, "{\"enum\": [");
        for (int k = 0; k < 20000; k++) {
            buf_adds(&schema, k ? ", " : "");
            if (i == 0)
                buf_addf(&schema, "\"%c%d\"", 'A' + k % 26 * (k != 19998), k);
            else
                buf_addf(&schema, i == 1 ? "%d" : "[%d]", k);
        }
        buf_adds(&schema, "]}");
        struct grammar *g = grammar_of_schema((struct text){schema.data, schema.len}, &(struct grammar_options){.plain = true}, &e);
        if (!g && row[i].yes)
            fail_msg("%s", e.msg);
        assert_true(!g || !row[i].yes || (accepts(g, row[i].yes) && !accepts(g, row[i].no)));
        if (!g)
            assert_string_equal(e.msg, "#: the values need too many states to be enforced");
        grammar_release(g);
    }
    buf_reset(&schema);
    buf_adds(&schema, "{\"$ref\": \"#/$defs/f60\", \"$defs\": {\"f0\": {\"const\": 1}");
    for (int i = 1; i <= 60; i++)
        buf_addf(&schema, ", \"f%d\": {\"allOf\": [{\"$ref\": \"#/$defs/f%d\"}, {\"$ref\": \"#/$defs/f%d\"}]}", i, i - 1, i - 1);
    buf_adds(&schema, "}}");
    struct grammar *g = grammar_of_schema((struct text){schema.data, schema.len}, NULL, &e);
    if (!g)
        fail_msg("%s", e.msg);
    assert_true(accepts(g, "1") && !accepts(g, "2"));
    assert_true(grammar_check(g, text_of("1"), &e) && !grammar_check(g, text_of("2"), &e));
    grammar_release(g);
    buf_free(&schema);
}

/* Takes the first of 'a', all bytes up or all bytes down that may follow; a quote only if nothing else may.  False: nothing may. */
static bool take_one(struct grammar *g, struct grammar_state *s, int way, bool *quote)
{
    for (int i = -1; i < 256; i++) {
        const int byte = i < 0 ? 'a' : way == 1 ? i : 255 - i;
        struct grammar_state next = *s;
        if ((i < 0 && way) || byte == '"' || !grammar_byte(g, &next, (uint8_t)byte))
            continue;
        *s = next;
        return true;
    }
    return *quote = grammar_byte(g, s, '"');
}

static void test_schema__a_key_of_a_pattern_can_end_wherever_it_is(void **state)
{
    (void)state;
    static const char *const row[] = {
        "{\"type\": \"object\", \"patternProperties\": {\"b$\": true}, \"additionalProperties\": false, \"minProperties\": 1}",
        "{\"type\": \"object\", \"patternProperties\": {\"x.y\": true, \"^a+$\": true}, \"additionalProperties\": false, \"minProperties\": 2}",
        "{\"type\": \"object\", \"propertyNames\": {\"pattern\": \"[^a]{3}$\"}, \"minProperties\": 1}",
        "{\"type\": \"object\", \"patternProperties\": {\"b{3}\": true}, \"additionalProperties\": false, \"minProperties\": 1}",
        "{\"type\": \"object\", \"patternProperties\": {\"x.{9}y\": true, \"a\": false}, \"properties\": {\"xxx\": true}, \"minProperties\": 2}",
        "{\"type\": \"object\", \"propertyNames\": {\"minLength\": 17}, \"minProperties\": 1}",
        "{\"type\": \"object\", \"propertyNames\": {\"pattern\": \"^[\\u4e00-\\u9fff]{30,36}$\"}, \"minProperties\": 1}",
        "{\"type\": \"object\", \"propertyNames\": {\"pattern\": \"^[\\u0000-\\u001f]{59}$\"}, \"minProperties\": 1}",    /* as \\n, 118 bytes */
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (int way = 0; way < 3; way++) {
            struct err e = {{0}};
            struct grammar *g = grammar_of_schema(text_of(row[i]), NULL, &e);
            assert_non_null(g);
            struct grammar_state s = grammar_begin(g);
            bool ended = !grammar_byte(g, &s, '{') || !grammar_byte(g, &s, '"');
            assert_false(ended);
            for (int n = 0; !ended; n++)
                if (!take_one(g, &s, way, &ended) || n == 200)
                    fail_msg("%s: nothing can follow %d bytes of a key", row[i], n);
            assert_true(grammar_byte(g, &s, ':'));
            grammar_release(g);
        }
}

/* Whether a key is accepted does not depend on keys that came before. */
static void test_schema__keys_are_the_same_in_any_order(void **state)
{
    (void)state;
    static const char schema[] = "{\"type\": \"object\", "
                                 "\"patternProperties\": {\"[^x-z].{117}\\\\\\\\|[a-z_]\": {}}, \"additionalProperties\": true}";
    static const char *const text[] = {"{\"\\\\\": 3}", "{\"\u00e9\": 1}", "{\"\u00e9a\": 1}", "{\"\\\\\": 3}"};
    for (int first = 0; first < 4; first++) {
        struct err e;
        struct grammar *g = grammar_of_schema(text_of(schema), NULL, &e);
        assert_non_null(g);
        for (int i = 0; i < 4; i++)
            assert_true(accepts(g, text[(first + i) % 4]));
        grammar_release(g);
    }
}

/* Only free keys are bound: the name of a member may be longer, also where both may come. */
static void test_schema__names_of_members_have_any_length(void **state)
{
    (void)state;
    char name[256], text[320], schema[640];
    struct err e;
    snprintf(name, sizeof name, "%0130d", 7);
    snprintf(schema, sizeof schema, "{\"type\": \"object\", \"properties\": {\"%s\": {\"const\": 1}, \"%s8\": {\"const\": 2}}}", name, name);
    struct grammar *g = grammar_of_schema(text_of(schema), NULL, &e);
    assert_non_null(g);
    snprintf(text, sizeof text, "{\"%s\": 1}", name);
    assert_true(accepts(g, text));
    snprintf(text, sizeof text, "{\"%s8\": 2}", name);
    assert_true(accepts(g, text));
    snprintf(text, sizeof text, "{\"%.118s\": 2}", name);
    assert_true(accepts(g, text));
    snprintf(text, sizeof text, "{\"%.119s\": 2}", name);
    assert_false(accepts(g, text));
    grammar_release(g);
    g = grammar_of_schema(text_of("{\"type\": \"object\", \"minProperties\": 2, "
                                  "\"propertyNames\": {\"pattern\": \"^[\\n\\u0001]{59}$\"}}"), NULL, &e);
    assert_null(g);                     /* only one such key has room */
}

static void test_calls__of_wrong_schemas_are_refused_by_tool_and_place(void **state)
{
    (void)state;
    static const struct { const char *tool, *sentence; } row[] = {
        {"{\"properties\": {\"a\": {\"$ref\": \"#/$defs/x\"}}}", "#/properties/a: \"$ref\" leads to no schema of this document"},
        {"{\"$ref\": \"#/$defs/x\"}", "#: \"$ref\" leads to no schema of this document"},
        {"{\"properties\": {\"a\": {\"enum\": []}}, \"required\": [\"a\"]}", "no value satisfies the parameter a"},
        {"{\"properties\": {}, \"required\": [\"a\"], \"additionalProperties\": false}", "no value satisfies the parameter a"},
        {"{\"type\": \"objec\"}", "#: \"type\" is not \"object\""}, {"{\"type\": [\"array\", \"null\"]}", "#: \"type\" is not \"object\""},
        {"{\"properties\": {\"a\": {}}, \"required\": \"a\"}", "#: \"required\" is not a list of names"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (int strict = 0; strict < 2; strict++) {
            struct buf tools = {0}, notes = {0}, sentence = {0};
            struct err e = {0};
            buf_addf(&tools, "[{\"type\": \"function\", \"function\": {\"name\": \"f\", %s\"parameters\": %s}}]",
                     strict ? "" : "\"strict\": false, ", row[i].tool);
            buf_addf(&sentence, "the tool f: %s", row[i].sentence);
            struct grammar *g = grammar_of_calls(&(struct grammar_calls){.tools = {tools.data, tools.len}, .strict = true, .notes = &notes}, &e);
            if (!strict && (!g || !strstr(buf_str(&notes), row[i].sentence)))
                fail_msg("%s: %s", row[i].tool, buf_str(&notes));
            if (strict && (g || strcmp(e.msg, buf_str(&sentence))))
                fail_msg("%s: %s", row[i].tool, e.msg);
            grammar_release(g);
            buf_free(&tools);
            buf_free(&notes);
            buf_free(&sentence);
        }
}

static void test_calls__have_what_is_required_and_no_property(void **state)
{
    (void)state;
    static const char tools[] = "[{\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"required\": [\"b\"]}}, "
        "{\"name\": \"g\", \"parameters\": {\"properties\": {\"a\": {}}, \"required\": [\"b\", \"b\"], "
        "\"additionalProperties\": {\"type\": \"integer\"}}}]";
    struct err e = {0};
    struct grammar *g = grammar_of_calls(&(struct grammar_calls){.tools = text_of(tools)}, &e);
    if (!g)
        fail_msg("%s", e.msg);
    assert_false(accepts(g, "<tool_call>\n<function=f>\n</function>\n</tool_call>"));
    assert_true(accepts(g, "<tool_call>\n<function=f>\n<parameter=b>\nany text\n</parameter>\n</function>\n</tool_call>"));
    assert_true(accepts(g, "<tool_call>\n<function=g>\n<parameter=b>\n7\n</parameter>\n</function>\n</tool_call>"));
    assert_false(accepts(g, "<tool_call>\n<function=g>\n<parameter=b>\nx\n</parameter>\n</function>\n</tool_call>"));
    grammar_release(g);
}

static void test_calls__have_known_names_and_each_parameter_once(void **state)
{
    (void)state;
    static const char tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"w\", \"parameters\": {\"type\": \"object\", \"properties\": "
        "{\"city\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}}, \"required\": [\"city\"]}}}, {\"name\": \"now\"}, "
        "{\"name\": \"any\", \"parameters\": {\"additionalProperties\": true}}, "
        "{\"name\": \"mix\", \"parameters\": {\"properties\": {\"x\": {\"anyOf\": [{\"type\": \"string\", \"maxLength\": 3}, "
        "{\"type\": [\"integer\", \"array\"]}]}}}}, {\"name\": \"odd\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"thing\"}}}}]";
#define CITY "<tool_call>\n<function=w>\n<parameter=city>\nA <b>\n\"</parameter>\n</parameter>\n"
#define BEGIN "<tool_call>\n<function=w>\n<parameter=city>\n"
#define MIX "<tool_call>\n<function=mix>\n<parameter=x>\n"
#define CLOSE "\n</parameter>\n" END
#define END "</function>\n</tool_call>"
    static const struct { const char *only; bool several; const char *text; bool ok; } row[] = {
        {NULL, true, "text", false}, {NULL, true, CITY END, true}, {NULL, true, CITY END "\n" CITY END, true},
        {NULL, false, CITY END "\n" CITY END, false}, {NULL, true, CITY END "\n" CITY END "\n" CITY END, true},
        {NULL, true, CITY "<parameter=n>\n7\n</parameter>\n" END, true}, {NULL, true, CITY "<parameter=n>\nx\n</parameter>\n" END, false},
        {NULL, true, CITY "<parameter=city>\nB\n</parameter>\n" END, false}, {NULL, true, "<tool_call>\n<function=w>\n" END, false},
        {"now", true, "<tool_call>\n<function=now>\n" END, true}, {"now", true, CITY END, false},
        /* a string ends where the parser ends it */
        {NULL, true, BEGIN "x</parameter>\n" END, true}, {NULL, true, BEGIN "x</parameter> y\n</parameter>\n" END, true},
        {NULL, true, BEGIN "\n</parameter>\n" END, true}, {NULL, true, BEGIN "x\n</parameter>\n</parameter>\n" END, false},
        {NULL, true, BEGIN "x\n<parameter=n>\n</parameter>\n" END, false}, {NULL, true, BEGIN "x <parameter=n>\n</parameter>\n" END, true},
        {NULL, true, BEGIN "x\n</function>\n</tool_call>\n</parameter>\n" END, false},
        {NULL, true, BEGIN "x\n</function>\ny\n</parameter>\n" END, true}, {NULL, true, BEGIN "x</parameter> \n <parameter=n>", false},
        /* other types; a string in quotes would be one with its quotes */
        {"mix", false, MIX "7" CLOSE, true}, {"mix", false, MIX "77.0" CLOSE, false}, {"mix", false, MIX "abc" CLOSE, true},
        {"mix", false, MIX "abcd" CLOSE, false}, {"mix", false, MIX "\"\\u0061\"" CLOSE, false}, {"mix", false, MIX "\"a\"" CLOSE, true},
        {"mix", false, MIX "[]" CLOSE, true}, {"mix", false, MIX "[\"abcd\"]" CLOSE, true},
        /* tools whose arguments may be anything */
        {"any", false, "<tool_call>\n<function=any>\n<parameter=x>\n1\n</parameter>\n" END, true},
        {"odd", false, "<tool_call>\n<function=odd>\n<parameter=a>\n1\n</parameter>\n" END, true},
        {"odd", false, "<tool_call>\n<function=od>", false},
    };
    struct buf notes = {0};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = {0};
        const struct text only = row[i].only ? text_of(row[i].only) : text_of("");
        const struct grammar_calls calls = {.tools = text_of(tools), .allowed = &only, .n_allowed = only.n > 0, .several = row[i].several,
                                            .notes = &notes};
        buf_reset(&notes);
        struct grammar *g = grammar_of_calls(&calls, &e);
        if (!g)
            fail_msg("%s", e.msg);
        if (accepts(g, row[i].text) != row[i].ok)
            fail_msg("%s %s: %s", only.p, row[i].ok ? "refuses" : "accepts", row[i].text);
        grammar_release(g);
    }
    assert_non_null(strstr(buf_str(&notes), "the tool odd is called with any arguments: "));
    buf_free(&notes);
    struct err e = {0};
    assert_null(grammar_of_calls(&(struct grammar_calls){.tools = text_of(tools), .allowed = &(struct text){"later", 5}, .n_allowed = 1}, &e));
    assert_string_equal(e.msg, "there is no tool later");
}

/* An agent with a dozen MCP servers has hundreds. */
static void test_calls__two_thousand_tools_are_guided(void **state)
{
    (void)state;
    struct buf tools = {0};
    struct err e = {0};
    for (int n = 1; n <= 2049; n++) {
        buf_addf(&tools, "%s{\"name\": \"server%d__tool_%d\", \"parameters\": {\"properties\": {\"n\": {\"type\": \"integer\"}}}}",
                 n > 1 ? ", " : "[", n / 200, n);
        if (n < 2048)
            continue;
        struct buf list = {0};
        buf_addf(&list, "%s]", tools.data);
        struct grammar *g = grammar_of_calls(&(struct grammar_calls){.tools = {list.data, list.len}, .strict = true}, &e);
        assert_int_equal(g != NULL, n == 2048);
        if (g) {
            assert_true(accepts(g, "<tool_call>\n<function=server10__tool_2048>\n<parameter=n>\n7\n</parameter>\n</function>\n</tool_call>"));
            assert_false(accepts(g, "<tool_call>\n<function=server10__tool_2048>\n<parameter=n>\nx\n</parameter>\n</function>\n</tool_call>"));
            grammar_release(g);
        }
        buf_free(&list);
    }
    assert_string_equal(e.msg, "tools: there are 2049, and calls of at most 2048 can be guided; send fewer, or start with --no-tool-guide");
    buf_free(&tools);
}

/* All tools together have less time than one schema; those that come too late may have any arguments. */
static void test_calls__tools_of_great_schemas_end_in_time(void **state)
{
    (void)state;
    struct buf tools = {0}, notes = {0};
    struct err e = {0};
    for (int i = 0; i < 100; i++) {
        buf_addf(&tools, "%s{\"name\": \"t%d\", \"parameters\": {\"properties\": {\"x\": {\"allOf\": [", i ? ", " : "[", i);
        for (int k = 0; k < 40; k++)
            buf_addf(&tools, "%s{\"anyOf\": [{\"minLength\": %d}, {\"maxLength\": 5%d}, {\"pattern\": \"a%d\"}]}", k ? ", " : "", k % 10,
                     k % 7, k % 3);
        buf_adds(&tools, "]}}}}");
    }
    buf_addc(&tools, ']');
    struct grammar *g = grammar_of_calls(&(struct grammar_calls){.tools = {tools.data, tools.len}, .notes = &notes}, &e);
    assert_non_null(g);
    assert_non_null(strstr(buf_str(&notes), " and those after it are called with any arguments: the schemas of all tools together are too large\n"));
    assert_true(accepts(g, "<tool_call>\n<function=t99>\n<parameter=y>\n1\n</parameter>\n" END));
    grammar_release(g);
    buf_free(&tools);
    buf_free(&notes);
}

static void test_calls__stand_beside_any_form(void **state)
{
    (void)state;
    static const char tools[] = "[{\"name\": \"now\"}]";
    static const struct { const char *text; bool ok; } row[] = {
        {"{\"a\": {\"b\": 1}}", true}, {"<tool_call>\n<function=now>\n" END, true}, {"<tool_call>\n<function=now>\n" END "{}", false},
        {"{}<tool_call>", false}, {"now", false}, {"{\"x\": 1, \"x\": 2}", false},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = {0};
        struct grammar *g = grammar_of_json();
        assert_true(grammar_or_calls(g, &(struct grammar_calls){.tools = text_of(tools)}, &e));
        if (accepts(g, row[i].text) != row[i].ok)
            fail_msg("%s: %s", row[i].ok ? "refuses" : "accepts", row[i].text);
        grammar_release(g);
    }
    struct err e = {0};
    struct grammar *g = grammar_of_json();
    assert_false(grammar_or_calls(g, &(struct grammar_calls){.tools = text_of("[]")}, &e));
    assert_string_equal(e.msg, "there are no tools to call");
    grammar_release(g);
}

static void test_grammar__a_long_answer_takes_little_memory(void **state)
{
    (void)state;
    static const struct { const char *schema, *open, *close; } row[] = {
        {"{\"items\": {\"type\": \"object\", \"additionalProperties\": {\"type\": \"integer\"}}}", "[{", "}]"},
        {"{\"items\": {\"properties\": {\"a\": true}, \"patternProperties\": {\"^k\": {\"enum\": [1, 2]}}}}", "[{\"a\": {}, ", "}]"},
    };
    for (int i = 0; i < 2; i++) {
        struct err e = {0};
        struct grammar *g = grammar_of_schema(text_of(row[i].schema), NULL, &e);
        struct grammar_state s = grammar_begin(g);
        struct buf b = {0};
        buf_adds(&b, row[i].open);
        for (int k = 0; b.len < 300000; k++)
            buf_addf(&b, k % 40 ? "\"key%d\": %d, " : "\"last\\n%d\": %d}, {", k, k % 2 + 1);
        buf_addf(&b, "\"k\": 1%s", row[i].close);
        for (size_t at = 0; at < b.len; at += 4) {
            const struct text t = {b.data + at, at + 4 < b.len ? 4 : b.len - at};
            if (grammar_text(g, &s, t) != t.n)
                fail_msg("refused at byte %zu: %.*s", at, (int)t.n, t.p);
            grammar_trim(g, &(struct grammar_state *){&s}, 1, i ? 5000 : GRAMMAR_TRIM);
        }
        assert_true(grammar_may_end(g, &s));
        assert_in_range(grammar_bytes(g), 0, i ? 8 << 20 : 32 << 20);
        buf_free(&b);
        grammar_release(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pattern__accepts_what_matches_and_nothing_else),
        cmocka_unit_test(test_pattern__what_cannot_be_enforced_is_refused_by_name),
        cmocka_unit_test(test_schema__accepts_its_values_and_no_others),
        cmocka_unit_test(test_schema__plain_integers_have_no_point),
        cmocka_unit_test(test_schema__what_cannot_be_enforced_is_refused_by_name_and_place),
        cmocka_unit_test(test_grammar__a_long_answer_takes_little_memory),
        cmocka_unit_test(test_schema__work_for_many_patterns_is_bounded),
        cmocka_unit_test(test_grammar__beyond_the_work_that_is_allowed_refuses_until_more_is),
        cmocka_unit_test(test_schema__long_lists_and_equal_references_take_linear_work),
        cmocka_unit_test(test_schema__a_key_of_a_pattern_can_end_wherever_it_is),
        cmocka_unit_test(test_schema__keys_are_the_same_in_any_order),
        cmocka_unit_test(test_schema__names_of_members_have_any_length),
        cmocka_unit_test(test_calls__of_wrong_schemas_are_refused_by_tool_and_place),
        cmocka_unit_test(test_calls__have_what_is_required_and_no_property),
        cmocka_unit_test(test_calls__have_known_names_and_each_parameter_once),
        cmocka_unit_test(test_calls__stand_beside_any_form),
        cmocka_unit_test(test_calls__two_thousand_tools_are_guided),
        cmocka_unit_test(test_calls__tools_of_great_schemas_end_in_time),
        cmocka_unit_test(test_choices__end_where_one_ends_and_force_what_they_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
