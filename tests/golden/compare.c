/* Compares answers of `q35chat debug` with golden files, one figure per call.
 *   compare tokenize|render|parse GOLDEN.jsonl ANSWERS.jsonl
 *   compare prompts EXPECTED.safetensors                 prints {"ids": ...} lines, as input for `debug logits` and `debug draft`
 *   compare greedy EXPECTED.safetensors DEPTH            prints the input line for `debug generate`
 *   compare logits EXPECTED.safetensors ANSWER.safetensors
 *   compare draft|generate EXPECTED.safetensors ANSWERS.jsonl
 * Prints "N of M ..." and ends with 0 if all agree. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "model/safetensors.h"

enum { N_PROMPTS = 6 };
static const double bound = 2e-3;

static json_t *next_line(FILE *f)               /* NULL at the end */
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n = getline(&line, &cap, f);
    json_error_t e;
    json_t *j = n > 0 ? json_loadb(line, (size_t)n, JSON_ALLOW_NUL | JSON_DECODE_ANY, &e) : NULL;
    if (n > 0 && !j)                    /* integers beyond 64 bits */
        j = json_loadb(line, (size_t)n, JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &e);
    if (n > 0 && !j) {
        fprintf(stderr, "not JSON: %.200s\n", line);
        exit(2);
    }
    free(line);
    return j;
}

static FILE *open_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(2);
    }
    return f;
}

static bool same(const json_t *got, const json_t *want) { return got && want && json_equal((json_t *)got, (json_t *)want); }

/* The text of one decode field: golden files leave out what equals the field before it. */
static const json_t *or_else(const json_t *o, const char *key, const json_t *other)
{
    const json_t *v = json_object_get(o, key);
    return v ? v : other;
}

/* What must hold of streamed pieces: together with the flush at the end they are the text, and nothing is shown early that
 * would have to be taken back (each piece is whole characters, which jansson has checked by decoding it). */
static bool pieces_give(const json_t *pieces, const json_t *text)
{
    char *all = NULL;
    size_t n = 0, i;
    json_t *piece;
    FILE *f = open_memstream(&all, &n);
    json_array_foreach((json_t *)pieces, i, piece)
        fwrite(json_string_value(piece), 1, json_string_length(piece), f);
    fclose(f);
    bool ok = n == json_string_length(text) && !memcmp(all, json_string_value(text), n);
    free(all);
    return ok;
}

static bool tokenize_agrees(const json_t *g, const json_t *a)
{
    const char *kind = json_string_value(json_object_get(g, "kind"));
    const json_t *text = json_object_get(g, "text");
    if (!strcmp(kind, "encode"))
        return same(json_object_get(a, "ids"), json_object_get(g, "ids"))
            && same(json_object_get(a, "ids_plain"), or_else(g, "ids_plain", json_object_get(g, "ids")));
    if (!strcmp(kind, "decode"))
        return same(json_object_get(a, "text"), text) && same(json_object_get(a, "text_skip_special"), json_object_get(g, "text_skip_special"));
    return same(json_object_get(a, "text"), text) && pieces_give(json_object_get(a, "pieces"), text);
}

static bool value_agrees(const json_t *got, const json_t *want)         /* numbers by value, integers exactly */
{
    if (json_is_number(got) && json_is_number(want) && !(json_is_integer(got) && json_is_integer(want)))
        return json_number_value(got) == json_number_value(want);
    if (json_is_object(want)) {
        const char *key;
        json_t *v;
        if (!json_is_object(got) || json_object_size(got) != json_object_size(want))
            return false;
        json_object_foreach((json_t *)want, key, v)
            if (!value_agrees(json_object_get(got, key), v))
                return false;
        return true;
    }
    if (json_is_array(want)) {
        if (!json_is_array(got) || json_array_size(got) != json_array_size(want))
            return false;
        for (size_t i = 0; i < json_array_size(want); i++)
            if (!value_agrees(json_array_get(got, i), json_array_get(want, i)))
                return false;
        return true;
    }
    return same(got, want);
}

static bool render_agrees(const json_t *g, const json_t *a)
{
    const json_t *error = json_object_get(g, "error");
    if (error)                          /* the reference may put the exception's type in front */
        return json_object_get(a, "error") && strstr(json_string_value(error), json_string_value(json_object_get(a, "error")));
    return same(json_object_get(a, "rendered"), json_object_get(g, "rendered"))
        && value_agrees(json_object_get(a, "ids"), json_object_get(g, "ids"));
}

static bool answer_agrees(const json_t *e, const json_t *a)
{
    const json_t *want = json_object_get(e, "tool_calls"), *got = json_object_get(a, "tool_calls");
    if (!same(json_object_get(a, "reasoning"), json_object_get(e, "reasoning")) || !same(json_object_get(a, "content"), json_object_get(e, "content"))
        || json_array_size(want) != json_array_size(got))
        return false;
    for (size_t i = 0; i < json_array_size(want); i++) {
        const json_t *w = json_array_get(want, i), *g = json_array_get(got, i);
        if (!same(json_object_get(g, "name"), json_object_get(w, "name"))
            || json_is_true(json_object_get(g, "truncated")) != json_is_true(json_object_get(w, "truncated"))
            || !value_agrees(json_object_get(g, "arguments"), json_object_get(w, "arguments")))
            return false;
    }
    return true;
}

static bool parse_agrees(const json_t *g, const json_t *a)
{
    if (answer_agrees(json_object_get(g, "expect"), a))
        return true;
    size_t i;
    json_t *also;
    json_array_foreach(json_object_get(g, "also_ok"), i, also)
        if (answer_agrees(also, a))
            return true;
    return false;
}

static int lines(const char *golden, const char *answers, bool (*agrees)(const json_t *, const json_t *))
{
    FILE *gf = open_file(golden), *af = open_file(answers);
    json_t *g, *a;
    int n = 0, ok = 0;
    while ((g = next_line(gf))) {
        a = next_line(af);
        bool good = a && agrees(g, a);
        if (!good)
            fprintf(stderr, "%s differs\n", json_string_value(json_object_get(g, "id")));
        n++;
        ok += good;
        json_decref(g);
        json_decref(a);
    }
    bool extra = (a = next_line(af));
    json_decref(a);
    fclose(gf);
    fclose(af);
    printf("%d of %d lines\n", ok, n);
    return !n || ok < n || extra;
}

static struct safetensors expected;

static void open_st(struct safetensors *s, const char *path)
{
    struct err e = {0};
    if (!safetensors_open(s, path, &e)) {
        fprintf(stderr, "%s\n", e.msg);
        exit(2);
    }
}

static const void *tensor(const struct safetensors *s, size_t *n, const char *fmt, int i)
{
    char name[64];
    snprintf(name, sizeof name, fmt, i);
    const struct tensor *t = safetensors_find(s, name);
    if (!t) {
        fprintf(stderr, "%s: no tensor %s\n", s->path, name);
        exit(2);
    }
    *n = t->bytes / 4;
    return safetensors_data(s, t);
}

static void print_ids(const int32_t *ids, size_t n, const char *rest)
{
    printf("{\"ids\": [");
    for (size_t i = 0; i < n; i++)
        printf("%s%d", i ? ", " : "", ids[i]);
    printf("]%s}\n", rest);
}

static int prompts(void)
{
    for (int i = 0; i < N_PROMPTS; i++) {
        size_t n;
        const int32_t *ids = tensor(&expected, &n, "prompt%d.ids", i);
        print_ids(ids, n, ", \"depth\": 3");
    }
    return 0;
}

static int greedy(const char *depth)
{
    size_t n, m;
    char rest[64];
    const int32_t *ids = tensor(&expected, &n, "greedy.prompt", 0);
    tensor(&expected, &m, "greedy.ids", 0);
    snprintf(rest, sizeof rest, ", \"max_tokens\": %zu, \"draft\": %d", m, atoi(depth));
    print_ids(ids, n, rest);
    return 0;
}

static int logits(const char *answer)
{
    static const char *const kinds[] = {"logits", "hidden"};
    struct safetensors got;
    double worst[2] = {0};
    open_st(&got, answer);
    for (int i = 0; i < N_PROMPTS; i++)
        for (int k = 0; k < 2; k++) {
            char want_name[32], got_name[32];
            size_t n, m;
            snprintf(want_name, sizeof want_name, "prompt%%d.%s", kinds[k]);
            snprintf(got_name, sizeof got_name, "%s.%%d", kinds[k]);
            const float *w = tensor(&expected, &n, want_name, i), *g = tensor(&got, &m, got_name, i);
            for (size_t j = 0; j < n; j++) {
                double d = n == m ? fabs((double)w[j] - (double)g[j]) : INFINITY;
                worst[k] = d <= worst[k] ? worst[k] : d;
            }
        }
    printf("max difference of logits %.1e, of hidden states %.1e\n", worst[0], worst[1]);
    safetensors_close(&got);
    return !(worst[0] <= bound && worst[1] <= bound);
}

static bool ids_equal(const json_t *list, const int32_t *ids, size_t n)
{
    bool ok = json_array_size(list) == n;
    for (size_t i = 0; ok && i < n; i++)
        ok = json_integer_value(json_array_get(list, i)) == ids[i];
    return ok;
}

static int drafts(const char *answers)
{
    FILE *f = open_file(answers);
    int ok = 0;
    for (int i = 0; i < N_PROMPTS; i++) {
        size_t n, one;
        const int32_t *want = tensor(&expected, &n, "prompt%d.mtp_drafts", i), *first = tensor(&expected, &one, "prompt%d.mtp_first", i);
        json_t *a = next_line(f);
        ok += json_integer_value(json_object_get(a, "first")) == *first && ids_equal(json_object_get(a, "drafts"), want, n);
        json_decref(a);
    }
    fclose(f);
    printf("%d of %d prompts\n", ok, N_PROMPTS);
    return ok < N_PROMPTS;
}

static int generated(const char *answers)
{
    FILE *f = open_file(answers);
    size_t n;
    const int32_t *want = tensor(&expected, &n, "greedy.ids", 0);
    json_t *a;
    int ok = 0, n_lines = 0;
    while ((a = next_line(f))) {
        ok += ids_equal(json_object_get(a, "ids"), want, n);
        n_lines++;
        json_decref(a);
    }
    fclose(f);
    printf("%d of %d continuations of %zu tokens\n", ok, n_lines, n);
    return !n_lines || ok < n_lines;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const char *what = argv[1], *file = argv[2], *answer = argc > 3 ? argv[3] : "";
    if (!strcmp(what, "tokenize"))
        return lines(file, answer, tokenize_agrees);
    if (!strcmp(what, "render"))
        return lines(file, answer, render_agrees);
    if (!strcmp(what, "parse"))
        return lines(file, answer, parse_agrees);
    open_st(&expected, file);
    int status = !strcmp(what, "prompts") ? prompts()
               : !strcmp(what, "greedy") ? greedy(answer)
               : !strcmp(what, "logits") ? logits(answer)
               : !strcmp(what, "draft") ? drafts(answer)
               : !strcmp(what, "generate") ? generated(answer) : 2;
    safetensors_close(&expected);
    return status;
}
