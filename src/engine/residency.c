#include "engine/residency.h"

#include <math.h>

double residency_price(const struct seat *s)
{
    return s->n / (s->kept ? (double)RESIDENCY_READ : 1) * exp2(-s->idle_s / RESIDENCY_HALF_S);
}

/* True if the conversation is dear: as if it had just been used and had so many tokens. */
static bool is_dear(const struct seat *s)
{
    return residency_price(s) >= RESIDENCY_LONG;
}

/* Returns how many sequences in memory are long. */
static int n_long(const struct seat *all, int n_all)
{
    int n = 0;
    for (int i = 0; i < n_all; i++)
        n += all[i].n >= RESIDENCY_LONG;
    return n;
}

/* True if it is the only dear conversation of another client. */
static bool is_others_only(const struct seat *all, int n_all, int i, const struct newcomer *who)
{
    if (all[i].client == who->client || !is_dear(&all[i]))
        return false;
    for (int k = 0; k < n_all; k++)
        if (k != i && all[k].client == all[i].client && is_dear(&all[k]))
            return false;
    return true;
}

/* Returns a rank that comes before the price of taking a place: 0 no objection, 1 it is the only dear conversation of another client, 2
 * it is the side place. */
static int objection(const struct seat *all, int n_all, int i, const struct newcomer *who)
{
    const bool side = n_all > 2 && who->n >= RESIDENCY_LONG && all[i].n < RESIDENCY_LONG && n_long(all, n_all) >= n_all - 1;
    return side ? 2 : is_others_only(all, n_all, i, who);
}

int residency_choose(const struct seat *all, int n_all, const struct newcomer *who)
{
    int best = -1, least = 0;
    for (int i = 0; i < n_all; i++) {
        const int against = all[i].busy ? 0 : objection(all, n_all, i, who);
        if (all[i].busy || (best >= 0 && against > least))
            continue;
        if (best < 0 || against < least || residency_price(&all[i]) < residency_price(&all[best])) {
            best = i;
            least = against;
        }
    }
    return best;
}

bool residency_waits(const struct seat *all, int n_all, const struct newcomer *who)
{
    const int i = residency_choose(all, n_all, who);
    if (i < 0 || who->n >= RESIDENCY_LONG || !is_dear(&all[i]))
        return false;
    for (int k = 0; k < n_all; k++)
        if (all[k].busy && all[k].n < RESIDENCY_LONG)
            return true;
    return false;
}
