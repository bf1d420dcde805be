#include "engine/gate.h"

enum { IDLE = 16 };                     /* after so many steps without a draft one is made, to see whether drafts are right again */
static const double change = 0.01,      /* chance that the rate of right drafts has changed between two drafts */
    change_of_bin = 0.003;              /* likewise within a bin: its rate changes less, since the MTP block's probability says most of it */
/* Upper bounds of the bins, in probabilities of the MTP block, and the rates that are expected at first. */
static const float bounds[GATE_BINS] = {0.3f, 0.5f, 0.7f, 0.85f, 0.95f, 2};
static const double middles[GATE_BINS] = {0.2, 0.4, 0.6, 0.78, 0.9, 0.97}, middle_of_all = 0.75;

/* Bins of drafts found in the text: the least lengths of their matches, and the rates that are expected at first. */
static const int lengths[GATE_LENGTHS] = {0, 5, 8, 16};
static const double middles_of_length[GATE_LENGTHS] = {0.35, 0.55, 0.75, 0.9};

void gate_init(struct gate *g, int most, const struct price *price)
{
    *g = (struct gate){.most = most, .price = price};
    belief_init(&g->all, middle_of_all);
    for (int i = 0; i < GATE_BINS; i++)
        belief_init(&g->bin[i], middles[i]);
    for (int i = 0; i < GATE_LENGTHS; i++)
        belief_init(&g->looked_up[i], middles_of_length[i]);
}

/* ---- chances */

static int bin_of(float prob)
{
    int i = 0;
    while (i < GATE_BINS - 1 && !(prob < bounds[i]))
        i++;
    return i;
}

/* The chance that a draft to which the MTP block gave this probability is right. */
static double chance(const struct gate *g, float prob)
{
    return belief_chance(&g->bin[bin_of(prob)]);
}

void gate_begin(struct gate *g)
{
    belief_begin(&g->all);
    for (int i = 0; i < GATE_BINS; i++)
        belief_begin(&g->bin[i]);
    for (int i = 0; i < GATE_LENGTHS; i++)
        belief_begin(&g->looked_up[i]);
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
        belief_note(&g->looked_up[bin], change, i < n_right);
}

/* ---- decisions.  The unit of time is that of a step of one row. */

/* Tokens per unit of time at the best fixed number of drafts. */
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

int gate_verify(const struct gate *g, const float *prob, int n)
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

/* The drafts that are not made yet have no probability: their chance is that of any draft. */
int gate_make(const struct gate *g, const float *prob, int n, int lot)
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

/* For the best number of drafts, *n: the tokens that they are expected to give, less those that the engine makes otherwise in their time. */
static double best_net(const struct gate *g, const double right[GATE_ROWS], double worth, double price_of_draft, int *n)
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

int gate_look_up(const struct gate *g, int length)
{
    const double worth = best_rate(g);
    double found[GATE_ROWS], made[GATE_ROWS];
    int n, n_made;
    if (!price_known(g->price))
        return 0;
    belief_chances(&g->looked_up[bin_of_length(length)], found, GATE_ROWS);
    belief_chances(&g->all, made, GATE_ROWS);
    return best_net(g, found, worth, 0, &n) > best_net(g, made, worth, price_draft(g->price, 1), &n_made) ? n : 0;
}

void gate_chances(const struct gate *g, const float *prob, int n, double right[GATE_ROWS])
{
    right[0] = 1;
    for (int i = 0; i < n; i++)
        right[i + 1] = right[i] * chance(g, prob[i]);
}

void gate_chances_found(const struct gate *g, int length, double right[GATE_ROWS])
{
    belief_chances(&g->looked_up[bin_of_length(length)], right, GATE_ROWS);
}

void gate_chances_later(const struct gate *g, double right[GATE_ROWS])
{
    belief_chances(&g->all, right, GATE_ROWS);
}
