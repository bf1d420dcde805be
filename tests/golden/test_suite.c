/* The official tests of JSON schema, draft 2020-12, by keyword: docs/schemas-reference.md has the table that this test makes.
 * WRITE_SCHEMAS=1 writes it; V=1: each test that fails, and why schemas are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "guide/grammar.h"
#include "text/pyjson.h"

static const char page[] = "docs/schemas-reference.md", begins[] = "<!-- keywords -->\n", ends[] = "<!-- end of keywords -->";

enum { KEYWORDS = 128 };
static struct keyword { char name[80]; int tests, refused, tight, loose; } keywords[KEYWORDS];
static int n_keywords;

static struct keyword *keyword_of(struct text name)
{
    int i = 0;
    while (i < n_keywords && !text_is(name, keywords[i].name))
        i++;
    assert_true(i < KEYWORDS);
    if (i == n_keywords)
        snprintf(keywords[n_keywords++].name, sizeof keywords[i].name, "%.*s", (int)name.n, name.p);
    return &keywords[i];
}

static void try_schema(const struct pyjson *line)
{
    struct keyword *k = keyword_of(pyjson_get(line, "id")->text);
    const struct pyjson *tests = pyjson_get(line, "tests");
    struct buf schema = {0}, text = {0};
    struct err e = {0};
    pyjson_dump(pyjson_get(line, "schema"), &schema);
    struct grammar *g = grammar_of_schema((struct text){schema.data, schema.len}, NULL, &e);
    k->tests += (int)tests->n;
    k->refused += g ? 0 : (int)tests->n;
    if (!g && getenv("V"))
        printf("%s refused: %s\n", k->name, e.msg);
    for (size_t i = 0; g && i < tests->n; i++) {
        const bool valid = pyjson_truth(pyjson_get(&tests->items[i], "valid"));
        struct grammar_state s = grammar_begin(g);
        buf_reset(&text);
        pyjson_dump(pyjson_get(&tests->items[i], "data"), &text);
        const bool accepted = grammar_text(g, &s, (struct text){text.data, text.len}) == text.len && grammar_may_end(g, &s);
        k->tight += valid && !accepted;
        k->loose += !valid && accepted;
        if (accepted != valid && getenv("V"))
            printf("%s too %s: %.*s: %.200s\n", k->name, valid ? "tight" : "loose", (int)text.len, text.data, buf_str(&schema));
    }
    grammar_release(g);
    buf_free(&schema);
    buf_free(&text);
}

static void read_suite(void)
{
    FILE *f = popen("xz -dc tests/data/schemas/suite.jsonl.xz", "r");
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    assert_non_null(f);
    while ((len = getline(&line, &cap, f)) > 0) {
        struct arena arena = {0};
        struct pyjson v;
        assert_true(pyjson_parse(&v, (struct text){line, (size_t)len}, PYJSON_LOADS, &arena, NULL));
        try_schema(&v);
        arena_free(&arena);
    }
    free(line);
    assert_int_equal(pclose(f), 0);
}

static void add_row(struct buf *out, const struct keyword *k)
{
    char number[4][16];
    const int n[] = {k->tests - k->refused - k->tight - k->loose, k->refused, k->tight, k->loose};
    for (int i = 0; i < 4; i++)
        snprintf(number[i], sizeof number[i], i && !n[i] ? "" : "%d", n[i]);
    buf_addf(out, "| %s | %d | %s | %s | %s | %s |\n", k->name, k->tests, number[0], number[1], number[2], number[3]);
}

static void make_table(struct buf *out)
{
    struct keyword sum = {.name = "**all that are not optional**"}, optional = {.name = "**all**"};
    buf_adds(out, "\n| tests of | tests | right | refused | too tight | too loose |\n| --- | --- | --- | --- | --- | --- |\n");
    for (int i = 0; i < n_keywords; i++) {
        struct keyword *const sums[] = {&sum, &optional};
        for (int j = strncmp(keywords[i].name, "optional", 8) ? 0 : 1; j < 2; j++) {
            sums[j]->tests += keywords[i].tests;
            sums[j]->refused += keywords[i].refused;
            sums[j]->tight += keywords[i].tight;
            sums[j]->loose += keywords[i].loose;
        }
        add_row(out, &keywords[i]);
    }
    add_row(out, &sum);
    add_row(out, &optional);
    buf_addc(out, '\n');
}

static void test_suite__the_table_of_keywords_is_what_the_page_has(void **state)
{
    (void)state;
    struct buf text = {0}, table = {0};
    struct err e;
    read_suite();
    make_table(&table);
    assert_true(file_read(&text, page, 1 << 20, &e));
    const char *from = strstr(buf_str(&text), begins), *to = from ? strstr(from, ends) : NULL;
    assert_true(from && to);
    from += strlen(begins);
    if (getenv("WRITE_SCHEMAS")) {
        FILE *f = fopen(page, "w");
        assert_non_null(f);
        fprintf(f, "%.*s%.*s%s", (int)(from - text.data), text.data, (int)table.len, table.data, to);
        assert_int_equal(fclose(f), 0);
    } else if ((size_t)(to - from) != table.len || memcmp(from, table.data, table.len)) {
        fail_msg("%s has another table: WRITE_SCHEMAS=1 build/tests/golden/test_suite writes it again", page);
    }
    buf_free(&text);
    buf_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_suite__the_table_of_keywords_is_what_the_page_has)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
