/* Real schemas with labelled instances: each that compiles accepts all of its valid instances, written in three ways, and no invalid one.
 * Without arguments the schemas of tests/data/schemas; by hand `test_schemas FILE...` with other files of that form, V=1 for each failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "guide/grammar.h"
#include "text/pyjson.h"

static const char *const vendored[] = {"tests/data/schemas/schemas.jsonl"};
static const char *const *files = vendored;
static int n_files = 1;

struct counts { int schemas, compiled, valid, tight, invalid, loose; double ms[4096]; };

static bool accepts(struct grammar *g, const char *text)
{
    struct grammar_state s = grammar_begin(g);
    return grammar_text(g, &s, text_of(text)) == strlen(text) && grammar_may_end(g, &s);
}

/* Writes JSON with ", " and ": " outside of strings in one of three ways: so, compact, or indented. */
static void written(struct buf *out, struct text json, int form)
{
    bool quoted = false;
    int depth = 0;
    for (size_t i = 0; i < json.n; i++) {
        const char c = json.p[i];
        if (c == '\\' && quoted) {
            buf_add(out, &json.p[i++], 2);
            continue;
        }
        quoted ^= c == '"';
        const bool opens = c == '{' || c == '[', closes = c == '}' || c == ']';
        const bool empty = opens && (json.p[i + 1] == '}' || json.p[i + 1] == ']');
        const bool emptied = closes && (json.p[i - 1] == '{' || json.p[i - 1] == '[');
        if (quoted || form == 0 || (c != ' ' && c != ',' && !opens && !closes)) {
            buf_addc(out, c);
            continue;
        }
        if (form == 1) {
            if (c != ' ')
                buf_addc(out, c);
            continue;
        }
        depth += opens ? !empty : closes ? -!emptied : 0;
        if (closes && !emptied)
            buf_addf(out, "\n%*s", 2 * depth, "");
        if (c != ' ' || json.p[i - 1] == ':')
            buf_addc(out, c);
        if (c == ',' || (opens && !empty))
            buf_addf(out, "\n%*s", 2 * depth, "");
    }
}

/* The first byte of the text that is refused. */
static size_t refused_at(struct grammar *g, const char *text)
{
    struct grammar_state s = grammar_begin(g);
    return grammar_text(g, &s, text_of(text));
}

static void try_instance(struct grammar *g, struct text id, const struct pyjson *test, struct counts *c)
{
    const bool valid = pyjson_truth(pyjson_get(test, "valid"));
    const struct pyjson *keyword = pyjson_get(test, "keyword");
    struct buf json = {0}, text = {0};
    bool wrong = false;
    pyjson_dump(pyjson_get(test, "data"), &json);
    for (int form = 0; form < 3; form++) {
        buf_reset(&text);
        written(&text, (struct text){json.data, json.len}, form);
        const bool ok = accepts(g, buf_str(&text));
        if (ok != valid && getenv("V"))
            printf("%s %.*s at %zu of %.*s: %.300s\n", valid ? "too tight" : "too loose", (int)id.n, id.p, refused_at(g, buf_str(&text)),
                   keyword ? (int)keyword->text.n : 0, keyword ? keyword->text.p : "", buf_str(&text));
        wrong |= ok != valid;
    }
    buf_free(&json);
    buf_free(&text);
    c->valid += valid;
    c->tight += valid && wrong;
    c->invalid += !valid;
    c->loose += !valid && wrong;
}

static void try_schema(const struct pyjson *line, struct counts *c)
{
    const struct text id = pyjson_get(line, "id")->text;
    const struct pyjson *tests = pyjson_get(line, "tests");
    struct buf schema = {0};
    struct err e = {0};
    pyjson_dump(pyjson_get(line, "schema"), &schema);
    const int64_t start = clock_ns();
    struct grammar *g = grammar_of_schema((struct text){schema.data, schema.len}, NULL, &e);
    c->ms[c->schemas++ & 4095] = clock_ms_since(start);
    if (getenv("V") && (!g || c->ms[c->schemas - 1] > 50))
        printf("%s %.*s: %s %.1f ms\n", g ? "slow" : "refused", (int)id.n, id.p, e.msg, c->ms[c->schemas - 1]);
    c->compiled += g != NULL;
    for (size_t i = 0; g && i < tests->n; i++)
        try_instance(g, id, &tests->items[i], c);
    grammar_release(g);
    buf_free(&schema);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void test_schemas__that_compile_accept_the_valid_instances_and_no_others(void **state)
{
    (void)state;
    static struct counts c;
    for (int i = 0; i < n_files; i++) {
        FILE *f = fopen(files[i], "r");
        assert_non_null(f);
        char *line = NULL;
        size_t cap = 0;
        ssize_t len;
        while ((len = getline(&line, &cap, f)) > 0) {
            struct arena arena = {0};
            struct pyjson v;
            assert_true(pyjson_parse(&v, (struct text){line, (size_t)len}, PYJSON_LOADS, &arena, NULL));
            try_schema(&v, &c);
            arena_free(&arena);
        }
        free(line);
        fclose(f);
    }
    const int n = c.schemas < 4096 ? c.schemas : 4096;
    assert_true(n > 0);
    qsort(c.ms, (size_t)n, sizeof *c.ms, compare);
    printf("%d of %d schemas compile (%.1f %%); %d of %d valid instances refused, %d of %d invalid ones accepted\n", c.compiled, c.schemas,
           100.0 * c.compiled / c.schemas, c.tight, c.valid, c.loose, c.invalid);
    printf("compiling: p50 %.2f ms, p95 %.2f ms, p99 %.2f ms, max %.2f ms\n", c.ms[n / 2], c.ms[n * 95 / 100], c.ms[n * 99 / 100], c.ms[n - 1]);
    assert_int_equal(c.tight, 0);
    assert_int_equal(c.loose, 0);
    assert_true(c.compiled * 100 >= c.schemas * 95);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        files = (const char *const *)argv + 1;
        n_files = argc - 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_schemas__that_compile_accept_the_valid_instances_and_no_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
