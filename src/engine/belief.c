#include "engine/belief.h"

enum {
    FIRST = 50,                         /* struct belief's n at first: the prior counts as much as 50 events */
    MOST = 300,                         /* ... and at most, so that the usual weights follow the last few answers */
};
static const double unusual = 0.2;      /* chance that the rate of a new answer, or after a change, is none of the usual ones */
static const float rates[BELIEF_RATES] = {0.05f, 0.15f, 0.25f, 0.35f, 0.45f, 0.55f, 0.65f, 0.75f, 0.83f, 0.9f, 0.95f, 0.98f};

/* The weights before any event: more for rates near the middle, some for every rate; their sum is 1. */
static void prior(double middle, double p[BELIEF_RATES])
{
    double sum = 0;
    for (int i = 0; i < BELIEF_RATES; i++) {
        const double off = ((double)rates[i] - middle) / 0.25;
        sum += p[i] = 1 / (1 + off * off);
    }
    for (int i = 0; i < BELIEF_RATES; i++)
        p[i] /= sum;
}

/* Mixes the weights: `share` of the usual weights and a little of the prior, the rest of the weights as they were.  Their sum becomes 1. */
static void doubt(struct belief *b, double share)
{
    double p[BELIEF_RATES], sum = 0;
    prior((double)b->middle, p);
    for (int i = 0; i < BELIEF_RATES; i++)
        sum += (double)b->weight[i];
    for (int i = 0; i < BELIEF_RATES; i++)
        b->weight[i] = (float)((1 - share) * (double)b->weight[i] / sum + share * ((1 - unusual) * (double)b->usual[i] + unusual * p[i]));
}

void belief_init(struct belief *b, double middle)
{
    double p[BELIEF_RATES];
    *b = (struct belief){.n = FIRST, .middle = (float)middle};
    prior(middle, p);
    for (int i = 0; i < BELIEF_RATES; i++)
        b->weight[i] = b->usual[i] = (float)p[i];
}

void belief_begin(struct belief *b)
{
    doubt(b, 1);
}

void belief_note(struct belief *b, double change, bool hit)
{
    for (int i = 0; i < BELIEF_RATES; i++)
        b->weight[i] *= hit ? rates[i] : 1 - rates[i];
    doubt(b, change);
    for (int i = 0; i < BELIEF_RATES; i++)
        b->usual[i] += (b->weight[i] - b->usual[i]) / (float)(b->n + 1);
    if (b->n < MOST)
        b->n++;
}

double belief_chance(const struct belief *b)
{
    double sum = 0;
    for (int i = 0; i < BELIEF_RATES; i++)
        sum += (double)(b->weight[i] * rates[i]);
    return sum;
}

void belief_chances(const struct belief *b, double *all, int n)
{
    double left[BELIEF_RATES];
    for (int i = 0; i < BELIEF_RATES; i++)
        left[i] = (double)b->weight[i];
    all[0] = 1;
    for (int k = 1; k < n; k++) {
        all[k] = 0;
        for (int i = 0; i < BELIEF_RATES; i++)
            all[k] += left[i] *= (double)rates[i];
    }
}
