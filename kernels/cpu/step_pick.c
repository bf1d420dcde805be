/* Picks an id for each row from logits that have their bias and penalties, in the order of engine/sampler.h; then finds which rows count, and what
 * the next step begins with. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/pool.h"
#include "kernels/cpu/step_logits.h"
#include "kernels/cpu/vec.h"
#include "kernels/splitmix.h"

/* The outcome of one row, if it is reached. */
struct pick {
    int32_t id;
    float   prob;
    enum step_end failed;               /* STEP_BAD_LOGIT with bad_id, or STEP_ALL_BANNED */
    int32_t bad_id;
    struct logprobs logprobs;
};

/* ---- greedy ---- */

/* Returns the first tile with the greatest maximum. */
static int best_tile(const float *tile_max, int n_ids)
{
    int best = 0;
    for (int i = 1; i * STEP_TILE < n_ids; i++)
        if (tile_max[i] > tile_max[best])
            best = i;
    return best;
}

/* Returns the id with the greatest logit, the lowest among equals; with a bad logit the first id that has one. */
static int32_t greatest(const float *logits, const float *tile_max, int n_ids)
{
    const int from = best_tile(tile_max, n_ids) * STEP_TILE, to = from + STEP_TILE < n_ids ? from + STEP_TILE : n_ids;
    int best = from;
    for (int i = from; i < to; i++) {
        if (!(logits[i] <= FLT_MAX))
            return i;
        if (logits[i] > logits[best])
            best = i;
    }
    return best;
}

/* ---- sampling ---- */

struct cand {
    float   logit, weight;              /* weight = exp((logit - max) / temperature), so the best has 1 */
    int32_t id;
};

/* Draws a number in [0, 1), of 53 bits. */
static double uniform(uint64_t counter) { return (double)(splitmix(counter) >> 11) * 0x1p-53; }

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

/* Restores the heap c[0..n-1], which has its worst candidate on top, after a change of c[i]. */
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

/* True if the mask admits the id; NULL admits all. */
static bool admits(const uint32_t *mask, int32_t id) { return !mask || mask[id / 32] >> (id % 32) & 1; }

/* Finds the k best ids that are not banned and that the mask admits; returns how many.  If there are more ids than k, they are in descending order,
 * so that a pick among them does not depend on the others. */
static int best_ids(struct cand *c, const float *logits, int vocab, int k, const uint32_t *mask)
{
    int n = 0;
    for (int32_t i = 0; i < vocab; i++) {
        struct cand new = {.logit = logits[i], .id = i};
        if (new.logit == -INFINITY || !admits(mask, i))
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
    for (int i = n - 1; i > 0 && n == k && k < vocab; i--) {
        swap(&c[0], &c[i]);
        sink(c, i, 0);
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

/* Picks among the candidates by weight, with `u` in [0, 1). */
static int by_weight(const struct cand *c, int n, double u)
{
    int last = 0;
    for (int i = 0; i < n; i++) {
        if (c[i].weight > 0)
            last = i;
        u -= (double)c[i].weight;
        if (u < 0)
            return i;
    }
    return last;                        /* the sum of the weights was rounded down */
}

static void weigh(struct cand *c, int n, float temperature)
{
    float max = -INFINITY;
    for (int i = 0; i < n; i++)
        max = fmaxf(max, c[i].logit);
    for (int i = 0; i < n; i++)         /* the difference may overflow to -inf: weight 0 */
        c[i].weight = expf((c[i].logit - max) / temperature);
}

/* Finds the ids that top-k, top-p and min-p keep of those that the mask admits, with their weights; returns how many. */
static int kept_ids(struct cand *c, const float *logits, int n_ids, const struct step_sampling *how, const uint32_t *mask)
{
    int n = best_ids(c, logits, n_ids, how->top_k > 0 && how->top_k < n_ids ? how->top_k : n_ids, mask);
    weigh(c, n, how->temperature);
    if (how->top_p > 0 && how->top_p < 1 && n)
        n = nucleus(c, n, (double)how->top_p * total_weight(c, n));
    return how->min_p > 0 ? at_least(c, n, how->min_p) : n;
}

/* Finds the ids that a masked row is picked among (kernels/step.h), with their weights; returns how many. */
static int admitted_ids(struct cand *c, const float *logits, int n_ids, const struct step_sampling *how, const uint32_t *mask)
{
    const int all = kept_ids(c, logits, n_ids, how, NULL);
    int n = 0;
    for (int i = 0; i < all; i++)
        if (admits(mask, c[i].id))
            c[n++] = c[i];
    weigh(c, n, how->temperature);
    return n ? n : kept_ids(c, logits, n_ids, how, mask);
}

static void sample(struct pick *out, const float *logits, int n_ids, const struct step_sampling *how, double u, struct cand *c, const uint32_t *mask)
{
    const int n = mask ? admitted_ids(c, logits, n_ids, how, mask) : kept_ids(c, logits, n_ids, how, NULL);
    const double total = total_weight(c, n);
    const int i = by_weight(c, n, u * total);
    out->id = c[i].id;
    out->prob = (float)((double)c[i].weight / total);
}

/* ---- logprobs ---- */

/* Returns the logit of row `row` as it was before bias and penalties; a banned id stays banned. */
static float plain_logit(const struct step_pick_args *a, int row, int id)
{
    const struct step_sampling *how = a->sampling;
    float l = a->logits[(size_t)row * (size_t)a->vocab + (size_t)id];
    int seen = a->seen[id];
    if (l == -INFINITY)
        return l;
    for (int i = 0; i < row; i++)
        if (a->live->ids[1 + i] == id)
            seen = STEP_IN_TEXT | STEP_IN_ANSWER;
    if (seen & STEP_IN_ANSWER)
        l += how->presence_penalty;
    if (seen && how->repetition_penalty > 0 && how->repetition_penalty != 1)
        l = l > 0 ? l * how->repetition_penalty : l / how->repetition_penalty;
    return how->biased ? l - a->bias[id] : l;
}

/* Writes the likeliest ids, and the probability of `id`. */
static void look(struct logprobs *o, const struct step_pick_args *a, int row, int n_ids, int32_t id)
{
    float best[STEP_ALTERNATIVES] = {0};
    const int asked = a->sampling->n_alternatives, most = asked < STEP_ALTERNATIVES ? asked : STEP_ALTERNATIVES, k = most < n_ids ? most : n_ids;
    double sum = 0;
    o->n = 0;
    for (int32_t i = 0; i < n_ids; i++) {
        const float l = plain_logit(a, row, i);
        if (o->n == k && !(l > best[k - 1]))
            continue;
        int at = o->n < k ? o->n++ : k - 1;
        for (; at && l > best[at - 1]; at--) {
            best[at] = best[at - 1];
            o->ids[at] = o->ids[at - 1];
        }
        best[at] = l;
        o->ids[at] = i;
    }
    for (int32_t i = 0; i < n_ids; i++)
        sum += (double)expf(plain_logit(a, row, i) - best[0]);
    for (int i = 0; i < o->n; i++)
        o->probs[i] = (float)((double)expf(best[i] - best[0]) / sum);
    o->prob = (float)((double)expf(plain_logit(a, row, id) - best[0]) / sum);
}

/* ---- the step ---- */

/* Returns the id with the greatest logit that the mask admits, the lowest among equals; -1 if all of these are banned. */
static int32_t greatest_admitted(const float *logits, int n_ids, const uint32_t *mask)
{
    int32_t best = -1;
    for (int32_t i = 0; i < n_ids; i++)
        if (admits(mask, i) && logits[i] > (best < 0 ? -INFINITY : logits[best]))
            best = i;
    return best;
}

/* Picks the token of a row: the greatest logit, or a sample. out->failed says why no token can be picked. */
static void pick_row(struct pick *out, const struct step_pick_args *a, int row)
{
    const struct step_sampling *how = a->sampling;
    const int n_ids = how->n_ids > 0 && how->n_ids < a->vocab ? how->n_ids : a->vocab;
    const float *logits = a->logits + (size_t)row * (size_t)a->vocab;
    const uint32_t *mask = a->masked >> row & 1 ? a->mask + (size_t)row * (size_t)step_mask_words(a->vocab) : NULL;
    int32_t best = greatest(logits, a->tile_max + (size_t)row * (size_t)step_maxima(a->vocab), n_ids);
    *out = (struct pick){.id = best, .prob = 1};
    if (!(logits[best] <= FLT_MAX)) {
        out->failed = STEP_BAD_LOGIT;
        out->bad_id = best;
        return;
    }
    if (mask)
        out->id = best = greatest_admitted(logits, n_ids, mask);
    if (best < 0 || logits[best] == -INFINITY) {
        out->failed = STEP_ALL_BANNED;
        out->bad_id = 0;
        return;
    }
    const uint64_t counter = how->rng + (uint64_t)(row + 1) * SPLITMIX_STEP;
    if (how->temperature > 0)
        sample(out, logits, n_ids, how, uniform(mask ? counter ^ SPLITMIX_SECOND : counter), a->scratch, mask);
    if (how->n_alternatives > 0)
        look(&out->logprobs, a, row, n_ids, out->id);
}

static enum step_end why_end(const struct step_sampling *how, const struct pick *p, int n)
{
    if (p->failed)
        return p->failed;
    for (int i = 0; i < how->n_stop; i++)
        if (how->stop[i] == p->id)
            return STEP_STOPPED;
    return how->room <= n ? STEP_FULL : STEP_GOES_ON;
}

/* True if the draft of a position is made the token, for measurements. */
static bool lucky(const struct step_sampling *how, int pos)
{
    return uniform((uint64_t)(pos + 1) * SPLITMIX_STEP) < (double)how->trial[pos / how->trial_tokens % 2];
}

/* True if the id picked for a row, which is not the last of STEP_ROWS, is the draft of the next row. */
static bool is_right(const struct step_pick_args *a, int row, int32_t id)
{
    const bool trial = a->sampling->trial_tokens > 0 && !(a->masked >> row & 1);
    return trial ? lucky(a->sampling, a->live->pos + row) : id == a->live->ids[1 + row];
}

/* Picks row by row as long as picks and drafts agree.  A step that fails has no tokens. */
static void pick_rows(struct step_result *r, const struct step_pick_args *a, int n_drafts)
{
    bool agreed = true;
    for (int row = 0; agreed && row < a->n_rows && !r->ended; row++) {
        struct pick p;
        pick_row(&p, a, row);
        const bool right = row + 1 < STEP_ROWS && is_right(a, row, p.id);
        if (right)
            p.id = a->live->ids[1 + row];       /* also of a draft that was made and is not verified, so that the host finds it right */
        agreed = row < n_drafts && right;
        r->ended = why_end(a->sampling, &p, row + 1);
        if (p.failed) {
            r->n = 0;
            r->bad_id = p.bad_id;
            r->bad_logit = a->logits[(size_t)row * (size_t)a->vocab + (size_t)p.bad_id];
            return;
        }
        r->ids[row] = p.id;
        r->prob[row] = p.prob;
        r->drafted[row] = agreed;
        r->logprobs[row] = p.logprobs;
        r->n = row + 1;
    }
}

/* Writes the inputs of the MTP block and of the next step. */
static void move_on(struct step_live *v, const struct step_result *r, bool first)
{
    v->mtp_pos = first ? v->pos - 1 : v->pos;
    v->pos += v->n_apply;
    v->ids[0] = r->ids[r->n - 1];
    v->n_drafts = 0;
    v->mtp_last = r->n - 1;
    int32_t next = r->ids[0];
    for (int i = 0; i < STEP_ROWS; i++) {
        if (i < r->n)
            next = r->ids[i];           /* the last one again behind the end */
        v->mtp_next[i] = next;
        v->draft_pos[i] = v->mtp_pos + r->n + i;
    }
}

static void keep_hidden(const struct step_pick_args *a, int n, int old_parity)
{
    const size_t width = (size_t)a->width;
    const float *from = n ? a->hidden + (size_t)(n - 1) * width : a->last_hidden + (size_t)old_parity * width;
    float *to = a->last_hidden + (size_t)a->live->parity * width;
    memcpy(a->last_hidden + 2 * width, to, width * sizeof *to);
    memmove(to, from, width * sizeof *to);
}

/* Picks the tokens of a slot's rows, prepares its next step, and publishes the result by its serial, written last. */
static void pick_for_slot(const struct step_pick_args *a)
{
    struct step_live *v = a->live;
    struct step_sampling *how = a->sampling;
    struct step_result *out = &a->results[(v->step + 1) % STEP_RESULTS], r = {0};
    const int most = how->room - 1 < a->n_rows - 1 ? how->room - 1 : a->n_rows - 1, old_parity = v->parity;
    if (!v->done) {
        r.n_drafts = a->first || v->n_drafts < 0 || most < 0 ? 0 : v->n_drafts < most ? v->n_drafts : most;
        pick_rows(&r, a, r.n_drafts);
    }
    for (int i = 0; i < r.n; i++)
        a->seen[r.ids[i]] = STEP_IN_TEXT | STEP_IN_ANSWER;
    v->step++;
    v->n_apply = a->first ? 0 : r.n;
    v->parity ^= !a->first;
    v->done = v->done || r.ended;
    v->drafting = !v->done;
    v->mtp_rows = r.n;
    if (r.n) {
        move_on(v, &r, a->first);
        how->room -= r.n;
        how->rng += how->temperature > 0 ? (uint64_t)r.n * SPLITMIX_STEP : 0;
    }
    keep_hidden(a, r.n, old_parity);
    r.serial = out->serial;
    memcpy((void *)out, &r, sizeof r);
    __atomic_store_n(&out->serial, v->step, __ATOMIC_RELEASE);
}

void step_pick_cpu(struct cpu_pool *p, const struct step_pick_args *a)
{
    const size_t vocab = (size_t)a->vocab, tiles = (size_t)step_maxima(a->vocab), width = (size_t)a->width;
    struct step_run r = {0};
    (void)p;
    while (step_next_run(&r, a->rows, a->n_rows)) {
        const size_t from = (size_t)r.from, slot = (size_t)r.slot;
        struct step_pick_args one = *a;
        one.logits += from * vocab;
        one.tile_max += from * tiles;
        one.hidden += from * width;
        one.live += slot;
        one.sampling += slot;
        one.seen += slot * vocab;
        one.bias = a->bias ? a->bias + slot * vocab : NULL;
        one.results += slot * STEP_RESULTS;
        one.last_hidden += slot * 3 * width;
        one.n_rows = r.n;
        pick_for_slot(&one);
    }
}

/* Returns softmax(logits)[id] of the id with the greatest logit. */
static float share_of_greatest(const float *logits, int n_ids, int32_t id)
{
    double sum = 0;
    if (!isfinite(logits[id]))
        return 0;
    for (int i = 0; i < n_ids; i++)
        sum += (double)expf(logits[i] - logits[id]);
    return (float)(1 / sum);
}

/* Makes the greatest logit of a row draft a->i of the slot, and publishes it by its serial, written last. */
static void draft_for_slot(const struct step_draft_args *a, int row, int slot)
{
    const float *logits = a->logits + (size_t)row * (size_t)a->n_ids;
    const int32_t id = greatest(logits, a->tile_max + (size_t)row * (size_t)step_maxima(a->n_ids), a->n_ids);
    struct step_live *v = a->live + slot;
    struct step_drafts *d = a->drafts + slot;
    v->draft_ids[a->i] = id;
    v->ids[1 + a->i] = id;
    v->n_drafts = a->i + 1;
    d->ids[a->i] = id;
    d->prob[a->i] = share_of_greatest(logits, a->n_ids, id);
    __atomic_store_n(&d->serial, v->step * STEP_ROWS + a->i + 1, __ATOMIC_RELEASE);
}

void step_draft_cpu(struct cpu_pool *p, const struct step_draft_args *a)
{
    (void)p;
    for (int t = 0; t < (a->rows ? a->n_rows : 1); t++)
        draft_for_slot(a, t, step_row(a->rows, t).slot);
}
