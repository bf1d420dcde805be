/* Compares answers of `q35chat debug` with golden files, one figure per call.
 *   compare tokenize|render|parse GOLDEN.jsonl ANSWERS.jsonl
 *   compare prompts EXPECTED.safetensors                 prints {"ids": ...} lines, as input for `debug logits` and `debug draft`
 *   compare greedy EXPECTED.safetensors DEPTH            prints the input line for `debug generate`
 *   compare logits EXPECTED.safetensors ANSWER.safetensors
 *   compare draft|generate EXPECTED.safetensors ANSWERS.jsonl
 * for a backend that rounds activations:
 *   compare kl EXPECTED.safetensors ANSWER.safetensors            a row whose best two logits are 0.1 apart keeps its best one;
 *                                                                 mean KL divergence
 *   compare draft-close|generate-close EXPECTED.safetensors ANSWERS.jsonl       ids, up to the first choice closer than that
 *   compare agree ONE.safetensors OTHER.safetensors               two answers of `debug logits`: as kl
 *   compare same ONE.safetensors OTHER.safetensors                ... must have the same bits
 * Prints "N of M ..." and ends with 0 if all agree. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "model/safetensors.h"

enum { N_PROMPTS = 6 };
static const double bound = 2e-3;
static const double kl_bound = 1e-3, clear_margin = 0.1;

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

/* Checks streamed pieces: together with the flush at the end they are the text, and nothing is shown early that
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

static size_t argmax(const float *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

static double margin(const float *x, size_t n)          /* of the best logit to the next */
{
    size_t best = argmax(x, n);
    double next = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if (i != best && (double)x[i] > next)
            next = (double)x[i];
    return (double)x[best] - next;
}

static double log_sum(const float *x, size_t n)
{
    double top = (double)x[argmax(x, n)], sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)x[i] - top);
    return top + log(sum);
}

static double divergence(const float *p, const float *q, size_t n)
{
    double lp = log_sum(p, n), lq = log_sum(q, n), kl = 0;
    for (size_t i = 0; i < n; i++)
        kl += exp((double)p[i] - lp) * ((double)p[i] - lp - (double)q[i] + lq);
    return kl;
}

/* Logits of the prompts: those of `want`, named `name`, against an answer of `debug logits`. */
static int close_logits(const struct safetensors *want, const char *name, const char *answer)
{
    struct safetensors got;
    size_t n_rows = 0, n_clear = 0, n_same = 0;
    double kl = 0, worst_kl = 0, worst = 0;
    open_st(&got, answer);
    for (int i = 0; i < N_PROMPTS; i++) {
        size_t n, m;
        const float *w = tensor(want, &n, name, i), *g = tensor(&got, &m, "logits.%d", i);
        size_t V = (size_t)safetensors_find(&got, "logits.0")->shape[1];
        if (n != m || n % V) {
            fprintf(stderr, "prompt %d: %zu logits, expected %zu\n", i, m, n);
            return 1;
        }
        for (size_t r = 0; r < n / V; r++) {
            const float *a = w + r * V, *b = g + r * V;
            double d = divergence(a, b, V);
            bool clear = margin(a, V) > clear_margin, same_best = argmax(a, V) == argmax(b, V);
            n_rows++;
            n_clear += clear;
            n_same += clear && same_best;
            kl += d;
            worst_kl = d <= worst_kl ? worst_kl : d;
            if (clear && !same_best)
                fprintf(stderr, "prompt %d, row %zu: best is %zu, expected %zu, by %.3f\n", i, r, argmax(b, V), argmax(a, V), margin(a, V));
            for (size_t v = 0; v < V; v++) {
                double e = fabs((double)a[v] - (double)b[v]);
                worst = e <= worst ? worst : e;
            }
        }
    }
    kl /= (double)n_rows;
    printf("top-1 of %zu of %zu clear rows (of %zu), mean KL %.1e, worst row %.1e, max difference of logits %.1e\n", n_same, n_clear, n_rows, kl,
           worst_kl, worst);
    safetensors_close(&got);
    return !(n_same == n_clear && kl <= kl_bound);
}

static int same_bits(const char *answer)
{
    struct safetensors got;
    size_t n_rows = 0, ok = 0;
    open_st(&got, answer);
    for (int i = 0; i < N_PROMPTS; i++) {
        size_t n, m;
        const float *a = tensor(&expected, &n, "logits.%d", i), *b = tensor(&got, &m, "logits.%d", i);
        size_t V = (size_t)safetensors_find(&got, "logits.0")->shape[1];
        for (size_t r = 0; r < n / V; r++) {
            bool equal = n == m && !memcmp(a + r * V, b + r * V, V * sizeof *a);
            if (!equal && ok == n_rows)
                fprintf(stderr, "prompt %d, row %zu has other bits\n", i, r);
            n_rows++;
            ok += equal;
        }
    }
    printf("the same bits in %zu of %zu rows\n", ok, n_rows);
    safetensors_close(&got);
    return ok < n_rows;
}

/* How many of n ids agree: all of them, or those before the first that differs if its choice was close; else -1. */
static int agreeing(const json_t *list, const int32_t *ids, size_t n, const double *margins)
{
    if (json_array_size(list) != n)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (json_integer_value(json_array_get(list, i)) != ids[i])
            return margins[i] > clear_margin ? -1 : (int)i;
    return (int)n;
}

static int close_drafts(const char *answers)
{
    FILE *f = open_file(answers);
    int ok = 0, n_all = 0, n_agree = 0;
    for (int i = 0; i < N_PROMPTS; i++) {
        size_t n, one, all, drafted;
        const int32_t *first = tensor(&expected, &one, "prompt%d.mtp_first", i), *want = tensor(&expected, &n, "prompt%d.mtp_drafts", i);
        const float *l = tensor(&expected, &all, "prompt%d.logits", i), *d = tensor(&expected, &drafted, "prompt%d.mtp_logits", i);
        size_t V = drafted / n;
        json_t *a = next_line(f), *list = json_array();
        int32_t ids[16] = {*first};
        double margins[16] = {margin(l + all - V, V)};
        size_t j;
        json_t *id;
        json_array_append(list, json_object_get(a, "first"));
        json_array_foreach(json_object_get(a, "drafts"), j, id)
            json_array_append(list, id);
        for (j = 0; j < n && j < 15; j++) {
            ids[1 + j] = want[j];
            margins[1 + j] = margin(d + j * V, V);
        }
        int k = agreeing(list, ids, n + 1, margins);
        if (k < 0)
            fprintf(stderr, "prompt %d: a draft differs that is not close\n", i);
        ok += k >= 0;
        n_agree += k > 0 ? k : 0;
        n_all += (int)n + 1;
        json_decref(list);
        json_decref(a);
    }
    fclose(f);
    printf("%d of %d prompts, %d of %d ids until a close choice goes the other way\n", ok, N_PROMPTS, n_agree, n_all);
    return ok < N_PROMPTS;
}

/* The lines are depths: each must keep to the reference while its choices are clear, and all must say the same. */
static int close_generated(const char *answers)
{
    FILE *f = open_file(answers);
    size_t n, m;
    const int32_t *want = tensor(&expected, &n, "greedy.ids", 0);
    const float *stored = tensor(&expected, &m, "greedy.margin", 0);
    double *margins = malloc(n * sizeof *margins);
    json_t *a, *first = NULL;
    int ok = 0, n_lines = 0, n_same = 0, k = 0;
    for (size_t i = 0; i < n; i++)
        margins[i] = (double)stored[i];
    while ((a = next_line(f))) {
        json_t *ids = json_object_get(a, "ids");
        if (!first)
            first = json_incref(ids);
        k = agreeing(ids, want, n, margins);
        if (k < 0)
            fprintf(stderr, "line %d leaves the reference at a clear choice\n", n_lines);
        ok += k >= 0;
        n_same += same(ids, first);
        n_lines++;
        json_decref(a);
    }
    fclose(f);
    printf("%d of %d continuations, %d of %zu ids until a close choice goes the other way, %d the same at every depth\n", ok, n_lines, k, n, n_same);
    json_decref(first);
    free(margins);
    return !n_lines || ok < n_lines || n_same < n_lines;
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
               : !strcmp(what, "generate") ? generated(answer)
               : !strcmp(what, "kl") ? close_logits(&expected, "prompt%d.logits", answer)
               : !strcmp(what, "agree") ? close_logits(&expected, "logits.%d", answer)
               : !strcmp(what, "same") ? same_bits(answer)
               : !strcmp(what, "draft-close") ? close_drafts(answer)
               : !strcmp(what, "generate-close") ? close_generated(answer) : 2;
    safetensors_close(&expected);
    return status;
}
