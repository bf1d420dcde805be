#include "engine/gate.h"

#include <string.h>

#include "base/least.h"

/* ---- beliefs ---- */

enum {
    FIRST = 50,                         /* struct belief's n at first: the prior counts as much as 50 events */
    MOST = 300,                         /* ... and at most, so that the usual weights follow the last few answers */
};
static const double unusual = 0.2;      /* chance that the rate of a new answer, or after a change, is none of the usual ones */
static const float rates[GATE_RATES] = {0.05f, 0.15f, 0.25f, 0.35f, 0.45f, 0.55f, 0.65f, 0.75f, 0.83f, 0.9f, 0.95f, 0.98f};

/* The weights before any event: more for rates near the middle, some for every rate; their sum is 1. */
static void prior(double middle, double p[GATE_RATES])
{
    double sum = 0;
    for (int i = 0; i < GATE_RATES; i++) {
        const double off = ((double)rates[i] - middle) / 0.25;
        sum += p[i] = 1 / (1 + off * off);
    }
    for (int i = 0; i < GATE_RATES; i++)
        p[i] /= sum;
}

/* Mixes the weights: `share` of the usual weights and a little of the prior, the rest of the weights as they were.  Their sum becomes 1.  An answer
 * begins with a share of 1. */
static void doubt(struct belief *b, double share)
{
    double p[GATE_RATES], sum = 0;
    prior((double)b->middle, p);
    for (int i = 0; i < GATE_RATES; i++)
        sum += (double)b->weight[i];
    for (int i = 0; i < GATE_RATES; i++)
        b->weight[i] = (float)((1 - share) * (double)b->weight[i] / sum + share * ((1 - unusual) * (double)b->usual[i] + unusual * p[i]));
}

/* Sets a belief to its prior, around the rate `middle`. */
static void belief_init(struct belief *b, double middle)
{
    double p[GATE_RATES];
    *b = (struct belief){.n = FIRST, .middle = (float)middle};
    prior(middle, p);
    for (int i = 0; i < GATE_RATES; i++)
        b->weight[i] = b->usual[i] = (float)p[i];
}

/* Notes one event: it happened (hit) or not; `change` is the chance that the rate has changed since the last one. */
static void belief_note(struct belief *b, double change, bool hit)
{
    for (int i = 0; i < GATE_RATES; i++)
        b->weight[i] *= hit ? rates[i] : 1 - rates[i];
    doubt(b, change);
    for (int i = 0; i < GATE_RATES; i++)
        b->usual[i] += (b->weight[i] - b->usual[i]) / (float)(b->n + 1);
    if (b->n < MOST)
        b->n++;
}

/* Returns the chance that the next event happens: the mean rate. */
static double belief_chance(const struct belief *b)
{
    double sum = 0;
    for (int i = 0; i < GATE_RATES; i++)
        sum += (double)(b->weight[i] * rates[i]);
    return sum;
}

/* Sets all[i], for i below n, to the chance that the next i events all happen. */
static void belief_chances(const struct belief *b, double *all, int n)
{
    double left[GATE_RATES];
    for (int i = 0; i < GATE_RATES; i++)
        left[i] = (double)b->weight[i];
    all[0] = 1;
    for (int k = 1; k < n; k++) {
        all[k] = 0;
        for (int i = 0; i < GATE_RATES; i++)
            all[k] += left[i] *= (double)rates[i];
    }
}

/* ---- what is learnt ---- */

enum { IDLE = 16 };                     /* after so many steps without a draft one is made, to see whether drafts are right again */
static const double change = 0.01,      /* chance that the rate of right drafts has changed between two drafts */
    change_of_bin = 0.003;              /* ... within a bin, whose rate changes less, since the MTP block's probability explains most of it */
/* Upper bounds of the bins, in probabilities of the MTP block, and the rates that are expected at first. */
static const float bounds[GATE_BINS] = {0.3f, 0.5f, 0.7f, 0.85f, 0.95f, 2};
static const double middles[GATE_BINS] = {0.2, 0.4, 0.6, 0.78, 0.9, 0.97}, middle_of_all = 0.75;

/* Bins of drafts found in the text: the least lengths of their matches, and the rates that are expected at first. */
static const int lengths[GATE_LENGTHS] = {0, 5, 8, 16};
static const double middles_of_length[GATE_LENGTHS] = {0.35, 0.55, 0.75, 0.9};
static const double middle_of_forced = 0.95;

void gate_init(struct gate *g, int most, const struct price *price)
{
    *g = (struct gate){.most = most, .price = price};
    belief_init(&g->all, middle_of_all);
    for (int i = 0; i < GATE_BINS; i++)
        belief_init(&g->bin[i], middles[i]);
    for (int i = 0; i < GATE_LENGTHS; i++)
        belief_init(&g->found[i], middles_of_length[i]);
    belief_init(&g->forced, middle_of_forced);
}

/* ---- chances ---- */

/* Returns the bin of a draft's probability. */
static int bin_of(float prob)
{
    int i = 0;
    while (i < GATE_BINS - 1 && !(prob < bounds[i]))
        i++;
    return i;
}

/* Returns the chance that a draft to which the MTP block gave this probability is right. */
static double chance(const struct gate *g, float prob)
{
    return belief_chance(&g->bin[bin_of(prob)]);
}

void gate_begin(struct gate *g)
{
    doubt(&g->all, 1);
    for (int i = 0; i < GATE_BINS; i++)
        doubt(&g->bin[i], 1);
    for (int i = 0; i < GATE_LENGTHS; i++)
        doubt(&g->found[i], 1);
    doubt(&g->forced, 1);
    g->idle = 0;
}

void gate_learn(struct gate *g, const float *prob, int n, int n_right, int n_known)
{
    for (int i = 0; i < n && i < n_known && i <= n_right; i++) {
        belief_note(&g->all, change, i < n_right);
        belief_note(&g->bin[bin_of(prob[i])], change_of_bin, i < n_right);
    }
    g->idle = n ? 0 : g->idle + 1;
}

bool gate_is_idle(const struct gate *g)
{
    return g->idle >= IDLE;
}

/* Returns the bin of a match's length. */
static int bin_of_length(int length)
{
    int i = GATE_LENGTHS - 1;
    while (length < lengths[i])
        i--;
    return i;
}

void gate_learn_found(struct gate *g, int match, int n_right, int n_known)
{
    const int bin = bin_of_length(match);
    for (int i = 0; i < n_known && i <= n_right; i++)
        belief_note(&g->found[bin], change, i < n_right);
}

void gate_learn_forced(struct gate *g, int n_right, int n_known)
{
    for (int i = 0; i < n_known && i <= n_right; i++)
        belief_note(&g->forced, change, i < n_right);
}

/* ---- decisions for an answer that steps alone.  The unit of time is that of a step of one row. */

/* Returns the tokens per unit of time at the best fixed number of drafts. */
static double best_rate(const struct gate *g)
{
    double best = 1, tokens = 1, right[GATE_ROWS];
    belief_chances(&g->all, right, GATE_ROWS);
    for (int n = 1; n <= g->most; n++) {
        tokens += right[n];
        const double r = tokens / (price_step(g->price, n + 1) + n * price_draft(g->price, 1));
        best = r > best ? r : best;
    }
    return best;
}

/* Returns how many of n drafts of the MTP block to verify. */
static int verify_made(const struct gate *g, const float *prob, int n)
{
    if (!price_known(g->price) || price_one_is_due(g->price))         /* everything else is compared with a step of one row */
        return 0;
    const double worth = best_rate(g);
    double all = 1, gain = 0, best = 0;
    int best_n = 0;
    for (int i = 0; i < n && i < g->most; i++) {
        gain += all *= chance(g, prob[i]);
        const double net = gain - worth * (price_step(g->price, i + 2) - 1);
        if (net > best) {
            best = net;
            best_n = i + 1;
        }
    }
    return best_n;
}

/* Returns how many more drafts to make, at most `lot`, when n were made.  Each draft to come is given the chance of any draft. */
static int make_more(const struct gate *g, const float *prob, int n, int lot)
{
    if (!n && price_one_is_due(g->price))
        return 0;
    const double worth = best_rate(g);
    double all = 1, gain = 0, best = 0, right[GATE_ROWS];
    int best_n = 0;
    belief_chances(&g->all, right, GATE_ROWS);
    for (int i = 0; i < n; i++)
        all *= chance(g, prob[i]);
    for (int i = n; i < g->most; i++) {
        gain += all * right[i + 1 - n];
        const double net = gain - worth * (price_step(g->price, i + 2) - price_step(g->price, n + 1) + (i + 1 - n) * price_draft(g->price, 1));
        if (net > best) {
            best = net;
            best_n = i + 1 - n;
        }
    }
    if (!best_n && !n && gate_is_idle(g) && g->most)
        best_n = 1;
    return best_n < lot ? best_n : lot;
}

/* Returns the largest expected gain in tokens over spending the same time on plain steps; *n is the number of drafts that reaches it. */
static double best_gain(const struct gate *g, const double right[GATE_ROWS], double worth, double price_of_draft, int *n)
{
    double best = 0, gain = 0;
    *n = 0;
    for (int i = 1; i <= g->most; i++) {
        gain += right[i];
        const double net = gain - worth * (price_step(g->price, i + 1) - 1 + i * price_of_draft);
        if (net > best) {
            best = net;
            *n = i;
        }
    }
    return best;
}

/* Decides between the drafts that cost nothing to make: forced text and what was found in the text.  rows 1: drafts of the MTP block are
 * expected to give more. */
static struct decision choose_free(const struct gate *g, const struct offers *o)
{
    struct decision d = {.source = DRAFT_MTP, .rows = 1};
    double right[GATE_ROWS], best;
    int n;
    if (!price_known(g->price) || (!o->together && price_one_is_due(g->price)))
        return d;
    const double worth = best_rate(g);
    belief_chances(&g->all, right, GATE_ROWS);
    best = best_gain(g, right, worth, price_draft(g->price, 1), &n);
    for (int forced = 0; forced < 2; forced++) {
        if (forced ? !o->n_forced : !o->match)
            continue;
        belief_chances(forced ? &g->forced : &g->found[bin_of_length(o->match)], right, GATE_ROWS);
        for (int i = o->n_forced + 1; forced && i < GATE_ROWS; i++)
            right[i] = 0;
        const double gain = best_gain(g, right, worth, 0, &n);
        if (!(gain > best) || !gate_usable(n, o->room))
            continue;
        best = gain;
        d = (struct decision){.source = forced ? DRAFT_GUIDE : DRAFT_LOOKUP, .rows = 1 + gate_usable(n, o->room)};
    }
    return d;
}

struct decision gate_decide(const struct gate *g, const struct offers *o)
{
    const struct decision free = o->match || o->n_forced ? choose_free(g, o) : (struct decision){.rows = 1};
    if (free.rows > 1)
        return free;
    const int left = gate_usable(ENGINE_MAX_DEPTH, o->room) - o->n, lot = most(least(o->at_a_time, left), 0);
    return (struct decision){
        .source = DRAFT_MTP, .make = make_more(g, o->prob, o->n, lot), .rows = 1 + verify_made(g, o->prob, gate_usable(o->n, o->room)),
    };
}

void gate_chances(const struct gate *g, const float *prob, int n, double right[GATE_ROWS])
{
    right[0] = 1;
    for (int i = 0; i < n; i++)
        right[i + 1] = right[i] * chance(g, prob[i]);
}

void gate_chances_found(const struct gate *g, int match, double right[GATE_ROWS])
{
    belief_chances(&g->found[bin_of_length(match)], right, GATE_ROWS);
}

void gate_chances_forced(const struct gate *g, double right[GATE_ROWS])
{
    belief_chances(&g->forced, right, GATE_ROWS);
}

void gate_chances_later(const struct gate *g, double right[GATE_ROWS])
{
    belief_chances(&g->all, right, GATE_ROWS);
}

/* ---- rows of a step that several answers share ---- */

/* The drafts of all answers from which rows are filled: right[i] of answer a is worth a row, if those before it have theirs. */
struct drafts {
    int    n_answers;
    int    n[PRICE_ROWS];
    double right[PRICE_ROWS][GATE_ROWS];
};

/* Gives the `room` best drafts a row each; sum[k]: tokens that the first k of them are expected to give.  taken: of each answer.  Returns how many
 * there are. */
static int best_drafts(const struct drafts *d, int room, double sum[PRICE_ROWS], int taken[PRICE_ROWS])
{
    int k = 0;
    memset(taken, 0, PRICE_ROWS * sizeof *taken);
    for (sum[0] = 0; k < room; k++) {
        int best = -1;
        for (int a = 0; a < d->n_answers; a++)
            if (taken[a] < d->n[a] && (best < 0 || d->right[a][taken[a] + 1] > d->right[best][taken[best] + 1]))
                best = a;
        if (best < 0)
            break;
        sum[k + 1] = sum[k] + d->right[best][++taken[best]];
    }
    return k;
}

/* Returns the number of rows for drafts with the largest expected gain in tokens over spending the same time on plain steps; *net: that gain. */
static int best_rows(const struct price *p, const struct drafts *d, int most_rows, double worth, double *net)
{
    double sum[PRICE_ROWS];
    int taken[PRICE_ROWS], best = 0;
    const int n = d->n_answers, n_drafts = best_drafts(d, most_rows - n, sum, taken);
    *net = 0;
    for (int k = 1; k <= n_drafts; k++) {
        const double gain = sum[k] - worth * (price_step(p, n + k) - price_step(p, n));
        if (gain > *net) {
            *net = gain;
            best = k;
        }
    }
    return best;
}

/* Returns the number of answers for which drafts are made. */
static int n_making(const struct share *all, int n)
{
    int making = 0;
    for (int a = 0; a < n; a++)
        making += all[a].makes;
    return making;
}

/* Returns the largest number of drafts that any answer with drafts may have. */
static int max_drafts(const struct share *all, int n)
{
    int most = 0;
    for (int a = 0; a < n; a++)
        if (all[a].makes && all[a].most > most)
            most = all[a].most;
    return most;
}

/* Returns the drafts that there are, and `more` of each answer that makes some. */
static struct drafts with_more(const struct share *all, int n, int more)
{
    struct drafts d = {.n_answers = n};
    for (int a = 0; a < n; a++) {
        const struct share *s = &all[a];
        d.n[a] = least(s->n + (s->makes ? more : 0), s->most);
        for (int i = 1; i <= d.n[a]; i++)
            d.right[a][i] = i <= s->n ? s->right[i] : (s->n ? s->right[s->n] : 1) * s->later[i - s->n];
    }
    return d;
}

/* Returns the tokens a unit of time when each answer has n_made drafts made and the best of them verified. */
static double shared_rate(const struct price *p, const struct share *all, int n, int most_rows, int n_made)
{
    struct share fresh[PRICE_ROWS];
    double sum[PRICE_ROWS], best = 0;
    int taken[PRICE_ROWS];
    memcpy(fresh, all, (size_t)n * sizeof *fresh);
    for (int a = 0; a < n; a++)
        fresh[a].n = 0;
    const struct drafts d = with_more(fresh, n, n_made);
    const int n_drafts = best_drafts(&d, most_rows - n, sum, taken);
    for (int k = 0; k <= n_drafts; k++) {
        const double r = (n + sum[k]) / (price_step(p, n + k) + n_made * price_draft(p, n_making(all, n)));
        best = r > best ? r : best;
    }
    return best;
}

/* Returns the best expected tokens per ms over all numbers of new drafts that may be made. */
static double best_shared_rate(const struct price *p, const struct share *all, int n, int most_rows)
{
    double best = shared_rate(p, all, n, most_rows, 0);
    for (int i = 1; n_making(all, n) && i <= max_drafts(all, n); i++) {
        const double r = shared_rate(p, all, n, most_rows, i);
        best = r > best ? r : best;
    }
    return best;
}

void shares_verify(const struct price *p, struct share *all, int n, int most_rows)
{
    double net, sum[PRICE_ROWS];
    int taken[PRICE_ROWS] = {0};
    if (price_known(p)) {
        const struct drafts d = with_more(all, n, 0);
        best_drafts(&d, best_rows(p, &d, most_rows, best_shared_rate(p, all, n, most_rows), &net), sum, taken);
    }
    for (int a = 0; a < n; a++)
        all[a].n_verified = taken[a];
}

/* True if one draft each, were it right, would pay: else there is nothing to find out. */
static bool may_pay(const struct price *p, int n, int n_makes, int most_rows)
{
    for (int k = 1; k <= n_makes && n + k <= most_rows; k++)
        if ((n + k) / (price_step(p, n + k) + price_draft(p, n_makes)) > n / price_step(p, n))
            return true;
    return false;
}

/* True if an answer that may have drafts has none now and had none for a while. */
static bool any_idle(const struct share *all, int n)
{
    for (int a = 0; a < n; a++)
        if (all[a].makes && !all[a].n && all[a].idle)
            return true;
    return false;
}

/* True if no answer has drafts of the MTP block yet. */
static bool none_made(const struct share *all, int n)
{
    for (int a = 0; a < n; a++)
        if (all[a].makes && all[a].n)
            return false;
    return true;
}

int shares_make(const struct price *p, const struct share *all, int n, int most_rows, int lot)
{
    const int n_makes = n_making(all, n);
    double best = 0;
    int best_n = 0;
    if (!n_makes || !price_known(p))
        return 0;
    const double worth = best_shared_rate(p, all, n, most_rows);
    for (int more = 0; more <= max_drafts(all, n); more++) {
        const struct drafts d = with_more(all, n, more);
        double net;
        best_rows(p, &d, most_rows, worth, &net);
        net -= worth * more * price_draft(p, n_makes);
        if (!more || net > best) {
            best = net;
            best_n = more;
        }
    }
    if (!best_n && none_made(all, n) && any_idle(all, n) && may_pay(p, n, n_makes, most_rows))
        best_n = 1;
    return least(best_n, lot);
}
