#include "engine/sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define GOLDEN 0x9e3779b97f4a7c15u      /* the step of SplitMix64's counter */

struct cand {
    float   logit, weight;              /* weight = exp((logit - max) / temperature), so the best has 1 */
    int32_t id;
};

/* Distinct ids in order of appearance. */
struct id_set {
    bool    *has;                       /* [vocab] */
    int32_t *ids;                       /* [vocab] */
    int      n;
};

struct sampler {
    int             vocab, n_ids;       /* n_ids <= vocab: those that can be picked */
    struct sampling how;
    uint64_t        rng;
    struct id_set   seen;               /* in prompt or answer: repetition penalty */
    struct id_set   made;               /* in the answer: presence penalty */
    struct cand    *cand;               /* [vocab] */
    float          *raw;                /* [vocab]: as the model gave them, for the outlook */
};

static void *alloc(size_t n, size_t size)
{
    void *p = memory_zeroed(n, size);
    return p;
}

static void set_init(struct id_set *s, int vocab)
{
    s->has = alloc((size_t)vocab, sizeof *s->has);
    s->ids = alloc((size_t)vocab, sizeof *s->ids);
}

static void set_clear(struct id_set *s)
{
    for (int i = 0; i < s->n; i++)
        s->has[s->ids[i]] = false;
    s->n = 0;
}

static void set_add(struct id_set *s, int32_t id)
{
    if (s->has[id])
        return;
    s->has[id] = true;
    s->ids[s->n++] = id;
}

static void set_free(struct id_set *s)
{
    free(s->has);
    free(s->ids);
}

struct sampler *sampler_open(int vocab)
{
    struct sampler *s = alloc(1, sizeof *s);
    s->vocab = vocab;
    set_init(&s->seen, vocab);
    set_init(&s->made, vocab);
    s->cand = alloc((size_t)vocab, sizeof *s->cand);
    s->raw = alloc((size_t)vocab, sizeof *s->raw);
    return s;
}

void sampler_close(struct sampler *s)
{
    if (!s)
        return;
    set_free(&s->seen);
    set_free(&s->made);
    free(s->cand);
    free(s->raw);
    free(s);
}

size_t sampler_bytes(int vocab)
{
    return (size_t)vocab * (2 * (sizeof(bool) + sizeof(int32_t)) + sizeof(struct cand) + sizeof(float));
}

bool sampler_check(const struct sampling *how, int vocab, struct err *e)
{
    const struct { const char *name; double value, low, high; } numbers[] = {
        {"temperature",        how->temperature,        0,         1000},
        {"top_p",              how->top_p,              0,         1},
        {"min_p",              how->min_p,              0,         1},
        {"presence_penalty",   how->presence_penalty,   -1000,     1000},
        {"repetition_penalty", how->repetition_penalty, 0,         1000},
        {"top_k",              how->top_k,              0,         INT32_MAX},
        {"max_tokens",         how->max_tokens,         0,         INT32_MAX},
        {"draft_depth",        how->draft_depth,        -1,        ENGINE_MAX_DEPTH},
        {"n_ids",              how->n_ids,              0,         INT32_MAX},
        {"n_stop",             how->n_stop,             0,         ENGINE_MAX_STOP},
        {"n_bias",             how->n_bias,             0,         INT32_MAX},
        {"n_alternatives",     how->n_alternatives,     0,         ENGINE_MAX_ALTERNATIVES},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(numbers[i].value >= numbers[i].low && numbers[i].value <= numbers[i].high))
            return err_set(e, "%s is %g, expected %g to %g", numbers[i].name, numbers[i].value, numbers[i].low, numbers[i].high);
    for (int i = 0; i < how->n_bias; i++) {
        if (how->bias_ids[i] < 0 || how->bias_ids[i] >= vocab)
            return err_set(e, "logit bias for id %d, expected 0 to %d", how->bias_ids[i], vocab - 1);
        if (!(how->bias[i] <= FLT_MAX))
            return err_set(e, "logit bias of id %d is %g, expected a number or -inf", how->bias_ids[i], (double)how->bias[i]);
    }
    return true;
}

int sampler_n_ids(const struct sampling *how, int vocab)
{
    return how->n_ids && how->n_ids < vocab ? how->n_ids : vocab;
}

uint64_t sampler_stream(const struct sampling *how)
{
    return how->seed + (how->temperature > 0 ? (uint64_t)how->n_begun * GOLDEN : 0);
}

void sampler_begin(struct sampler *s, const struct sampling *how, const int32_t *prompt, int n_prompt)
{
    s->how = *how;
    s->n_ids = sampler_n_ids(how, s->vocab);
    s->rng = sampler_stream(how);
    set_clear(&s->seen);
    set_clear(&s->made);
    for (int i = 0; i < n_prompt; i++)
        set_add(&s->seen, prompt[i]);
    for (int i = n_prompt - how->n_begun; i < n_prompt; i++)
        set_add(&s->made, prompt[i]);
}

/* In [0, 1), 53 bits.  SplitMix64: a counter and a mixer, so that neighbouring seeds give unrelated streams. */
static double uniform(uint64_t *state)
{
    uint64_t z = *state += GOLDEN;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

int32_t sampler_argmax(const float *logits, int vocab)
{
    int32_t best = 0;
    for (int32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static void penalize(const struct sampler *s, float *logits)
{
    const struct sampling *h = &s->how;
    float repetition = h->repetition_penalty > 0 ? h->repetition_penalty : 1;

    for (int i = 0; i < h->n_bias; i++)
        logits[h->bias_ids[i]] += h->bias[i];
    if (repetition != 1)
        for (int i = 0; i < s->seen.n; i++) {
            float *l = &logits[s->seen.ids[i]];
            *l = *l > 0 ? *l / repetition : *l * repetition;
        }
    if (h->presence_penalty != 0)
        for (int i = 0; i < s->made.n; i++)
            logits[s->made.ids[i]] -= h->presence_penalty;
}

static bool better(const struct cand *a, const struct cand *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

static void swap(struct cand *a, struct cand *b)
{
    struct cand t = *a;
    *a = *b;
    *b = t;
}

/* c[0..n-1] is a heap with its worst candidate on top, but for c[i], which may have to sink. */
static void sink(struct cand *c, int n, int i)
{
    for (;;) {
        int worst = i, l = 2 * i + 1, r = l + 1;
        if (l < n && better(&c[worst], &c[l]))
            worst = l;
        if (r < n && better(&c[worst], &c[r]))
            worst = r;
        if (worst == i)
            return;
        swap(&c[i], &c[worst]);
        i = worst;
    }
}

/* The k best ids that are not banned, in no order; returns how many. */
static int best_ids(struct cand *c, const float *logits, int vocab, int k)
{
    int n = 0;
    for (int32_t i = 0; i < vocab; i++) {
        struct cand new = {.logit = logits[i], .id = i};
        if (new.logit == -INFINITY)
            continue;
        if (n < k) {
            c[n++] = new;
            if (n == k && k < vocab)
                for (int j = k / 2 - 1; j >= 0; j--)
                    sink(c, k, j);
        } else if (better(&new, &c[0])) {
            c[0] = new;
            sink(c, k, 0);
        }
    }
    return n;
}

static double total_weight(const struct cand *c, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)c[i].weight;
    return sum;
}

/* Orders c[0..n-1] around the one in the middle: better ones before it, worse ones after it.  Returns where it went. */
static int partition(struct cand *c, int n)
{
    int m = 0;
    swap(&c[n / 2], &c[n - 1]);
    for (int i = 0; i < n - 1; i++)
        if (better(&c[i], &c[n - 1]))
            swap(&c[i], &c[m++]);
    swap(&c[m], &c[n - 1]);
    return m;
}

/* Brings the smallest set of best candidates that weighs at least `mass` to the front; returns its size.  Selection, not
 * sorting: linear in n. */
static int nucleus(struct cand *c, int n, double mass)
{
    int from = 0, to = n;
    while (from < to) {
        int m = from + partition(c + from, to - from);
        double before = total_weight(c + from, m - from), with = before + (double)c[m].weight;
        if (before >= mass) {
            to = m;
        } else if (with >= mass) {
            return m + 1;
        } else {
            mass -= with;
            from = m + 1;
        }
    }
    return from ? from : 1;
}

static int at_least(struct cand *c, int n, float weight)
{
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (c[i].weight >= weight)
            c[kept++] = c[i];
    return kept;
}

static bool sample(struct sampler *s, const float *logits, struct pick *out)
{
    const struct sampling *h = &s->how;
    struct cand *c = s->cand;
    int n = best_ids(c, logits, s->n_ids, h->top_k > 0 && h->top_k < s->n_ids ? h->top_k : s->n_ids);
    if (!n)
        return false;
    float max = c[0].logit;
    for (int i = 1; i < n; i++)
        max = fmaxf(max, c[i].logit);
    for (int i = 0; i < n; i++)         /* the difference may overflow to -inf: weight 0 */
        c[i].weight = expf((c[i].logit - max) / h->temperature);
    if (h->top_p > 0 && h->top_p < 1)
        n = nucleus(c, n, (double)h->top_p * total_weight(c, n));
    if (h->min_p > 0)
        n = at_least(c, n, h->min_p);

    double total = total_weight(c, n), u = uniform(&s->rng) * total;
    int i = 0, last = 0;
    for (; i < n; i++) {
        if (c[i].weight > 0)
            last = i;
        u -= (double)c[i].weight;
        if (u < 0)
            break;
    }
    if (i == n)                         /* rounding left a crumb of u */
        i = last;
    *out = (struct pick){.id = c[i].id, .prob = (float)((double)c[i].weight / total)};
    return true;
}

/* The likeliest ids of s->raw, and how likely `id` is.  Two passes over the vocabulary; the sum in double. */
static void look(const struct sampler *s, int32_t id, struct outlook *o)
{
    struct cand best[ENGINE_MAX_ALTERNATIVES] = {0};
    int k = s->how.n_alternatives < s->n_ids ? s->how.n_alternatives : s->n_ids;
    double sum = 0;
    o->n = 0;
    for (int32_t i = 0; i < s->n_ids; i++) {
        float l = s->raw[i];
        if (o->n == k && !(l > best[k - 1].logit))
            continue;
        int at = o->n < k ? o->n++ : k - 1;
        for (; at && l > best[at - 1].logit; at--)
            best[at] = best[at - 1];
        best[at] = (struct cand){.logit = l, .id = i};
    }
    for (int32_t i = 0; i < s->n_ids; i++)
        sum += (double)expf(s->raw[i] - best[0].logit);
    for (int i = 0; i < o->n; i++) {
        o->ids[i] = best[i].id;
        o->probs[i] = (float)((double)expf(best[i].logit - best[0].logit) / sum);
    }
    o->prob = (float)((double)expf(s->raw[id] - best[0].logit) / sum);
}

bool sampler_bad_logit(struct err *e, int id, float logit)
{
    return err_set(e, "the logit of id %d is %g, expected a finite number", id, (double)logit);
}

bool sampler_all_banned(struct err *e, int n_ids)
{
    return err_set(e, "no id is left to pick from: all %d are banned", n_ids);
}

bool sampler_pick(struct sampler *s, float *logits, struct pick *out, struct err *e)
{
    if (s->how.n_alternatives)
        memcpy(s->raw, logits, (size_t)s->n_ids * sizeof *s->raw);
    penalize(s, logits);
    for (int i = 0; i < s->n_ids; i++)  /* -inf is a ban */
        if (!(logits[i] <= FLT_MAX))
            return sampler_bad_logit(e, i, logits[i]);
    if (s->how.temperature > 0) {
        if (!sample(s, logits, out))
            return sampler_all_banned(e, s->n_ids);
    } else {
        *out = (struct pick){.id = sampler_argmax(logits, s->n_ids), .prob = 1};
        if (logits[out->id] == -INFINITY)
            return sampler_all_banned(e, s->n_ids);
    }
    out->outlook.prob = -1;
    for (int i = 0; i < s->how.n_bias && s->how.n_alternatives; i++)
        if (s->how.bias[i] == -INFINITY)
            s->raw[s->how.bias_ids[i]] = -INFINITY;
    if (s->how.n_alternatives)
        look(s, out->id, &out->outlook);
    set_add(&s->seen, out->id);
    set_add(&s->made, out->id);
    return true;
}
