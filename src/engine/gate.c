#include "engine/gate.h"

#include <math.h>

enum { TRUSTED = 6 };                   /* measurements of a price before others are compared with it */
enum { IDLE = 16 };                     /* steps without a draft, after which one is made to see how it fares */
static const double first_ratio = 0.25, /* a row more, as long as none was measured, of a step of one row */
    dearer = 0.12, cheaper = 0.15,      /* weights of a newer measurement: what disturbs one makes it longer */
    hope = 0.0004,                      /* by so much a high price sinks with every step, so that it is measured again one day */
    change = 0.01,                      /* chance that the rate has changed between two events */
    change_of_bin = 0.003;              /* likewise, where a probability says already how likely it is */
/* Upper bounds of the bins. */
static const float bounds[GATE_BINS] = {0.3f, 0.5f, 0.7f, 0.85f, 0.95f, 2};
static const double middles[GATE_BINS] = {0.2, 0.4, 0.6, 0.78, 0.9, 0.97}, middle_of_all = 0.75;

/* Likewise for matches: lengths from which on, and what is believed of them at first. */
static const int lengths[GATE_LENGTHS] = {0, 5, 8, 16};
static const double middles_of_length[GATE_LENGTHS] = {0.35, 0.55, 0.75, 0.9};

/* ---- prices */

void gate_init(struct gate *g, int most)
{
    *g = (struct gate){.most = most};
    g->ratio[0] = 1;
    gate_begin(g);
}

/* One measurement is never believed at once: the machine may have been busy. */
static double settle(double old, double now)
{
    const double bounded = now > 1.5 * old ? 1.5 * old : now < old / 1.5 ? old / 1.5 : now;
    return old + (bounded > old ? dearer : cheaper) * (bounded - old);
}

static double first_price(int rows) { return 1 + first_ratio * (rows - 1); }

/* What a step of so many rows takes, in steps of one row.  Between measured ones on the straight line; behind them at the last slope. */
static double price(const struct gate *g, int rows)
{
    int low = rows, high = rows;
    while (low > 1 && g->ratio[low - 1] <= 0)
        low--;
    while (high <= GATE_ROWS && g->ratio[high - 1] <= 0)
        high++;
    if (low == rows)
        return g->ratio[rows - 1];
    if (high <= GATE_ROWS)
        return g->ratio[low - 1] + (g->ratio[high - 1] - g->ratio[low - 1]) * (rows - low) / (high - low);
    const double slope = low > 1 ? (g->ratio[low - 1] - 1) / (low - 1) : first_ratio;
    return g->ratio[low - 1] + slope * (rows - low);
}

/* Steps become slower as the context grows, all of them together: so the ratios move slowly, and the common factor quickly.  A row never
 * costs more than a step of its own. */
void gate_step_took(struct gate *g, int rows, double ms)
{
    double *ratio = &g->ratio[rows - 1];
    for (int i = 1; i < GATE_ROWS; i++)
        if (g->ratio[i] > first_price(i + 1))
            g->ratio[i] -= hope * (g->ratio[i] - first_price(i + 1));
    if (g->one_ms <= 0)
        g->one_ms = ms / first_price(rows);
    if (*ratio <= 0)
        *ratio = price(g, rows);
    if (rows == 1 || g->timed[rows - 1] >= TRUSTED)
        g->one_ms = settle(g->one_ms, ms / *ratio);
    if (rows > 1)
        *ratio = fmin(settle(*ratio, ms / g->one_ms), rows);
    if (g->timed[rows - 1] < TRUSTED)
        g->timed[rows - 1]++;
}

void gate_drafts_took(struct gate *g, int n, double ms)
{
    g->draft_ms = g->draft_ms <= 0 ? ms / n : settle(g->draft_ms, ms / n);
}

static double draft_price(const struct gate *g)
{
    return g->one_ms > 0 ? g->draft_ms / g->one_ms : 0;
}

/* ---- gains */

static const float rates[GATE_RATES] = {0.05f, 0.15f, 0.25f, 0.35f, 0.45f, 0.55f, 0.65f, 0.75f, 0.83f, 0.9f, 0.95f, 0.98f};

/* Before anything is known, rates about `middle` are likelier, and none is excluded. */
static double prior(int i, double middle)
{
    const double off = (rates[i] - middle) / 0.25;
    return 1 / (1 + off * off);
}

/* With a weight of `share` for what is not known, in place of what was believed. */
static void doubt(struct gate_belief *b, double middle, double share)
{
    double all = 0, sum = 0;
    for (int i = 0; i < GATE_RATES; i++) {
        all += prior(i, middle);
        sum += (double)b->weight[i];
    }
    for (int i = 0; i < GATE_RATES; i++)
        b->weight[i] = (float)((sum > 0 ? (1 - share) * (double)b->weight[i] / sum : 0) + share * prior(i, middle) / all);
}

static void note(struct gate_belief *b, double middle, double change_of_it, bool hit)
{
    for (int i = 0; i < GATE_RATES; i++)
        b->weight[i] *= hit ? rates[i] : 1 - rates[i];
    doubt(b, middle, change_of_it);
}

/* The mean rate. */
static double chance_of(const struct gate_belief *b)
{
    double sum = 0;
    for (int i = 0; i < GATE_RATES; i++)
        sum += (double)(b->weight[i] * rates[i]);
    return sum;
}

/* all[n]: the chance that the next n events happen. */
static void chances(const struct gate_belief *b, double all[GATE_ROWS])
{
    double left[GATE_RATES];
    for (int i = 0; i < GATE_RATES; i++)
        left[i] = (double)b->weight[i];
    all[0] = 1;
    for (int n = 1; n < GATE_ROWS; n++) {
        all[n] = 0;
        for (int i = 0; i < GATE_RATES; i++)
            all[n] += left[i] *= (double)rates[i];
    }
}

static int bin_of(float prob)
{
    int i = 0;
    while (i < GATE_BINS - 1 && !(prob < bounds[i]))
        i++;
    return i;
}

/* That a draft of this probability is right. */
static double chance(const struct gate *g, float prob)
{
    return chance_of(&g->bin[bin_of(prob)]);
}

void gate_begin(struct gate *g)
{
    doubt(&g->all, middle_of_all, 0.5);
    for (int i = 0; i < GATE_BINS; i++)
        doubt(&g->bin[i], middles[i], 0.5);
    for (int i = 0; i < GATE_LENGTHS; i++)
        doubt(&g->looked_up[i], middles_of_length[i], 0.5);
    g->idle = 0;
}

void gate_learn(struct gate *g, const float *prob, int n, int n_right, int n_known)
{
    for (int i = 0; i < n && i < n_known && i <= n_right; i++) {
        const int bin = bin_of(prob[i]);
        note(&g->all, middle_of_all, change, i < n_right);
        note(&g->bin[bin], middles[bin], change_of_bin, i < n_right);
    }
    g->idle = n ? 0 : g->idle + 1;
}

static int bin_of_length(int length)
{
    int i = GATE_LENGTHS - 1;
    while (length < lengths[i])
        i--;
    return i;
}

void gate_learn_look_up(struct gate *g, int length, int n_right, int n_known)
{
    const int bin = bin_of_length(length);
    for (int i = 0; i < n_known && i <= n_right; i++)
        note(&g->looked_up[bin], middles_of_length[bin], change, i < n_right);
}

/* ---- decisions.  Times are in steps of one row. */

/* Tokens a unit of time at the best fixed number of drafts. */
static double best_rate(const struct gate *g)
{
    double best = 1, tokens = 1, right[GATE_ROWS];
    chances(&g->all, right);
    for (int n = 1; n <= g->most; n++) {
        tokens += right[n];
        const double r = tokens / (price(g, n + 1) + n * draft_price(g));
        best = r > best ? r : best;
    }
    return best;
}

int gate_verify(const struct gate *g, const float *prob, int n)
{
    if (g->one_ms <= 0)                 /* everything else is compared with a step of one row */
        return 0;
    const double worth = best_rate(g);
    double all = 1, gain = 0, best = 0;
    int best_n = 0;
    for (int i = 0; i < n && i < g->most; i++) {
        gain += all *= chance(g, prob[i]);
        const double net = gain - worth * (price(g, i + 2) - 1);
        if (net > best) {
            best = net;
            best_n = i + 1;
        }
    }
    return best_n;
}

/* The next drafts have no probability yet: they are as good as others of late. */
int gate_make(const struct gate *g, const float *prob, int n, int lot)
{
    const double worth = best_rate(g);
    double all = 1, gain = 0, best = 0, right[GATE_ROWS];
    int best_n = 0;
    chances(&g->all, right);
    for (int i = 0; i < n; i++)
        all *= chance(g, prob[i]);
    for (int i = n; i < g->most; i++) {
        gain += all * right[i + 1 - n];
        const double net = gain - worth * (price(g, i + 2) - price(g, n + 1) + (i + 1 - n) * draft_price(g));
        if (net > best) {
            best = net;
            best_n = i + 1 - n;
        }
    }
    if (!best_n && !n && g->idle >= IDLE && g->most)
        best_n = 1;
    return best_n < lot ? best_n : lot;
}

/* What the best number of drafts is expected to give beyond what the engine makes in their time; *n drafts. */
static double best_net(const struct gate *g, const double right[GATE_ROWS], double worth, double price_of_draft, int *n)
{
    double best = 0, gain = 0;
    *n = 0;
    for (int i = 1; i <= g->most; i++) {
        gain += right[i];
        const double net = gain - worth * (price(g, i + 1) - 1 + i * price_of_draft);
        if (net > best) {
            best = net;
            *n = i;
        }
    }
    return best;
}

int gate_look_up(const struct gate *g, int length)
{
    const double worth = best_rate(g);
    double found[GATE_ROWS], made[GATE_ROWS];
    int n, n_made;
    if (g->one_ms <= 0)
        return 0;
    chances(&g->looked_up[bin_of_length(length)], found);
    chances(&g->all, made);
    return best_net(g, found, worth, 0, &n) > best_net(g, made, worth, draft_price(g), &n_made) ? n : 0;
}
