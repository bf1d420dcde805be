#include "engine/share.h"

#include <string.h>

#include "base/least.h"

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

/* The rows for drafts that give most beyond what the engine makes in their time; *net: how much. */
static int best_rows(const struct price *p, const struct drafts *d, int most_rows, double worth, double *net)
{
    double sum[PRICE_ROWS];
    int taken[PRICE_ROWS], best = 0;
    const int n = d->n_answers, n_drafts = best_drafts(d, most_rows - n, sum, taken);
    *net = 0;
    for (int k = 1; k <= n_drafts; k++) {
        const double of_k = sum[k] - worth * (price_step(p, n + k) - price_step(p, n));
        if (of_k > *net) {
            *net = of_k;
            best = k;
        }
    }
    return best;
}

static int n_making(const struct share *all, int n)
{
    int making = 0;
    for (int a = 0; a < n; a++)
        making += all[a].makes;
    return making;
}

static int most_made(const struct share *all, int n)
{
    int most = 0;
    for (int a = 0; a < n; a++)
        if (all[a].makes && all[a].most > most)
            most = all[a].most;
    return most;
}

/* Those that there are, and `more` of each answer that makes some. */
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

/* Tokens a unit of time when each answer has that many drafts made and the best of them verified. */
static double rate(const struct price *p, const struct share *all, int n, int most_rows, int n_made)
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

static double best_rate(const struct price *p, const struct share *all, int n, int most_rows)
{
    double best = rate(p, all, n, most_rows, 0);
    for (int i = 1; n_making(all, n) && i <= most_made(all, n); i++) {
        const double r = rate(p, all, n, most_rows, i);
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
        best_drafts(&d, best_rows(p, &d, most_rows, best_rate(p, all, n, most_rows), &net), sum, taken);
    }
    for (int a = 0; a < n; a++)
        all[a].n_verified = taken[a];
}

/* One draft each, were it right, would pay: else there is nothing to find out. */
static bool may_pay(const struct price *p, int n, int n_makes, int most_rows)
{
    for (int k = 1; k <= n_makes && n + k <= most_rows; k++)
        if ((n + k) / (price_step(p, n + k) + price_draft(p, n_makes)) > n / price_step(p, n))
            return true;
    return false;
}

static bool is_idle(const struct share *all, int n)
{
    for (int a = 0; a < n; a++)
        if (all[a].makes && !all[a].n && all[a].idle)
            return true;
    return false;
}

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
    const double worth = best_rate(p, all, n, most_rows);
    for (int more = 0; more <= most_made(all, n); more++) {
        const struct drafts d = with_more(all, n, more);
        double net;
        best_rows(p, &d, most_rows, worth, &net);
        net -= worth * more * price_draft(p, n_makes);
        if (!more || net > best) {
            best = net;
            best_n = more;
        }
    }
    if (!best_n && none_made(all, n) && is_idle(all, n) && may_pay(p, n, n_makes, most_rows))
        best_n = 1;
    return least(best_n, lot);
}
