#include "engine/group.h"

#include "base/clock.h"

void group_init(struct group *g, struct stepper *s, struct price *price, bool beside)
{
    *g = (struct group){.s = s, .price = price, .beside = beside};
}

/* Rows that a step of n answers may have.  On a device that works beside the host each answer has one, and no drafts: the MTP block over rows of
 * several answers has not been tested on a GPU yet. */
static int most_rows(const struct group *g, int n)
{
    return g->beside ? n : stepper_most_rows(g->s);
}

static int shares_of(const struct member *m, int n, struct share all[STEP_ROWS])
{
    int n_shares = 0;
    for (int i = 0; i < n; i++)
        if (m[i].goes_on) {
            all[n_shares] = drafter_share(m[i].drafter);
            all[n_shares++].makes &= m[i].makes;
        }
    return n_shares;
}

/* Notes what the last step took, where only the whole round, drafts included, can be timed. */
static void note_round(struct group *g)
{
    const double ms = clock_ms_since(g->launched_ns) - g->n_made * price_draft_ms(g->price, g->n_making);
    if (g->beside && g->launched_ns && ms > 0)
        price_step_took(g->price, g->n_rows, ms);
}

/* Rows of each member; those for which drafts will be made come first, because their rows are then the first ones. */
static int share_out(struct group *g, struct member *m, int n, struct stepper_part parts[STEP_ROWS])
{
    struct share all[STEP_ROWS];
    int n_parts = 0;
    for (int i = 0; i < n; i++)
        m[i].makes = m[i].goes_on = true;
    shares_of(m, n, all);
    shares_verify(g->price, all, n, most_rows(g, n));
    g->n_rows = g->n_making = 0;
    for (int makes = 1; makes >= 0; makes--)
        for (int i = 0; i < n; i++)
            if (all[i].makes == makes) {
                m[i].makes = makes;
                m[i].n_rows = 1 + all[i].n_verified;
                g->n_rows += m[i].n_rows;
                g->n_making += makes;
                parts[n_parts++] = (struct stepper_part){m[i].slot, m[i].n_rows};
            }
    return n_parts;
}

/* Did any of them leave out rows of the MTP block?  They are run before its drafts. */
static bool any_behind(const struct member *m, int n)
{
    for (int i = 0; i < n; i++)
        if (m[i].makes && stepper_behind(m[i].drafter->slot))
            return true;
    return false;
}

static void make(struct group *g, const struct member *m, int n, int more)
{
    if (any_behind(m, n))
        group_disturbed(g);
    stepper_draft_together(g->s, g->n_making, more);
    g->n_made += more;
}

void group_launch(struct group *g, struct member *m, int n)
{
    struct stepper_part parts[STEP_ROWS];
    note_round(g);
    const int n_parts = share_out(g, m, n, parts);
    for (int i = 0; i < n; i++)
        drafter_propose(m[i].drafter);
    const int64_t start = clock_ns();
    g->launched_ns = start;
    g->n_made = 0;
    stepper_step_together(g->s, parts, n_parts);
    if (!g->beside)
        price_step_took(g->price, g->n_rows, clock_ms_since(start));
}

/* Waits for the drafts that were launched. */
static bool take(struct group *g, struct member *m, int n, struct err *e)
{
    for (int i = 0; i < n; i++)
        if (m[i].goes_on && m[i].makes && !m[i].drafter->looked_up && !drafter_made(m[i].drafter, g->n_made, e))
            return false;
    return true;
}

static bool make_some(struct group *g, struct member *m, int n, int more, struct err *e)
{
    const int64_t start = clock_ns();
    make(g, m, n, more);
    if (!take(g, m, n, e))
        return false;
    if (g->launched_ns)
        price_drafts_took(g->price, g->n_making, more, clock_ms_since(start));
    return true;
}

bool group_prepare_next(struct group *g, struct member *m, int n, struct err *e)
{
    struct share all[STEP_ROWS];
    for (int i = 0; i < n; i++)
        if (m[i].goes_on)
            drafter_learn(m[i].drafter, &m[i].result);
    for (;;) {
        const int n_shares = shares_of(m, n, all),
            lot = drafter_at_a_time(g->beside, price_draft_ms(g->price, g->n_making ? g->n_making : 1)),
            more = n_shares ? shares_make(g->price, all, n_shares, most_rows(g, n_shares), lot) : 0;
        if (!more)
            return true;
        if (!make_some(g, m, n, more, e))
            return false;
    }
}
