#include "engine/drafts.h"

#include "base/clock.h"
#include "base/least.h"

/* A device that works beside the host is idle for some ten microseconds when it is waited for.  Beside a draft that takes longer than this that is
 * little, so such drafts are made one by one; quicker ones are made together. */
static const double one_by_one_ms = 0.5;

/* ---- proposers ---- */

/* A source of drafts. */
struct proposer {
    enum { NEEDS_STEP, NEEDS_TEXT, NEEDS_GUIDE } needs;         /* it learns from steps alone; reads the text (drafter.looks); reads the guide */
    /* After a result: learns which of its drafts were right, verified or not. */
    void (*learn)(struct drafter *d, const struct step_result *r);
    /* Then: finds its drafts for the next step.  NULL: they are made on the device. */
    void (*propose)(struct drafter *d, const struct step_result *r);
    /* The drafts that propose() found, or NULL. */
    const int32_t *(*ids)(const struct drafter *d);
    /* right[i] becomes the chance that the first i of its n drafts are right. */
    void (*chances)(const struct drafter *d, int n, double right[GATE_ROWS]);
};

/* Learns which drafts were right.  The first one that was not verified is known, too, if all before it were right: the token that was picked is in
 * its place. */
static void mtp_learn(struct drafter *d, const struct step_result *r)
{
    int n_right = 0;
    if (d->by != DRAFT_MTP)
        return;
    while (n_right < r->n_drafts && r->drafted[n_right])
        n_right++;
    const bool one_more = n_right == r->n_drafts && r->n == n_right + 1 && d->n > n_right;
    if (one_more && r->ids[n_right] == d->made.ids[n_right])
        n_right++;
    gate_learn(&d->gate, d->made.prob, d->n, n_right, least(r->n, d->n));
}

static void mtp_chances(const struct drafter *d, int n, double right[GATE_ROWS])
{
    gate_chances(&d->gate, d->made.prob, n, right);
}

/* Reports to the gate how many of the tokens found in the text were right. */
static void lookup_learn(struct drafter *d, const struct step_result *r)
{
    const int n_known = least(r->n, d->n_found);
    int n_right = 0;
    while (n_right < n_known && r->ids[n_right] == d->found[n_right])
        n_right++;
    if (d->match)
        gate_learn_found(&d->gate, d->match, n_right, n_known);
}

/* Adds the new tokens to the text and finds the next drafts in it, as far as the guide admits them. */
static void lookup_propose(struct drafter *d, const struct step_result *r)
{
    for (int i = 0; i < r->n; i++)
        lookup_add(&d->text, r->ids[i]);
    d->n_found = lookup_next(&d->text, d->found, ENGINE_MAX_DEPTH);
    if (d->guided)
        d->n_found = guided_admits(d->guided, d->found, d->n_found);
    d->match = d->n_found ? d->text.length : 0;
}

static const int32_t *lookup_ids(const struct drafter *d)
{
    return d->found;
}

static void lookup_chances(const struct drafter *d, int n, double right[GATE_ROWS])
{
    (void)n;
    gate_chances_found(&d->gate, d->match, right);
}

/* Reports to the gate how many of the forced tokens were right. */
static void forced_learn(struct drafter *d, const struct step_result *r)
{
    const int n_known = least(r->n, d->n_forced);
    int n_right = 0;
    while (n_right < n_known && r->ids[n_right] == d->forced[n_right])
        n_right++;
    gate_learn_forced(&d->gate, n_right, n_known);
}

static void forced_propose(struct drafter *d, const struct step_result *r)
{
    (void)r;
    d->n_forced = guide_forced(d->guided->guide, &d->guided->at, d->forced, ENGINE_MAX_DEPTH);
    d->n_forced = guided_admits(d->guided, d->forced, d->n_forced);
}

static const int32_t *forced_ids(const struct drafter *d)
{
    return d->forced;
}

static void forced_chances(const struct drafter *d, int n, double right[GATE_ROWS])
{
    (void)n;
    gate_chances_forced(&d->gate, right);
}

static const struct proposer proposers[DRAFT_SOURCES] = {
    [DRAFT_MTP]    = {.needs = NEEDS_STEP, .learn = mtp_learn, .chances = mtp_chances},
    [DRAFT_LOOKUP] = {.needs = NEEDS_TEXT, .learn = lookup_learn, .propose = lookup_propose, .ids = lookup_ids, .chances = lookup_chances},
    [DRAFT_GUIDE]  = {.needs = NEEDS_GUIDE, .learn = forced_learn, .propose = forced_propose, .ids = forced_ids, .chances = forced_chances},
};

/* Lets all proposers learn from a result, and those propose that need no device for their drafts.  was_step: a step, not the first pick. */
static void after_result(struct drafter *d, const struct step_result *r, bool was_step)
{
    for (int i = 0; i < DRAFT_SOURCES; i++) {
        const struct proposer *p = &proposers[i];
        if (p->needs == NEEDS_TEXT ? !d->looks : p->needs == NEEDS_GUIDE ? !d->guided || d->depth != DRAFTER_AUTO : !was_step)
            continue;
        p->learn(d, r);
        if (p->propose)
            p->propose(d, r);
    }
    d->room -= r->n;
}

/* ---- one answer ---- */

void drafter_init(struct drafter *d, struct stepper_slot *slot, int most, bool beside, struct price *price)
{
    *d = (struct drafter){.slot = slot, .beside = beside, .price = price};
    gate_init(&d->gate, most, price);
}

void drafter_free(struct drafter *d)
{
    lookup_free(&d->text);
}

void drafter_begin(struct drafter *d, int depth, int room, bool looks, struct spans prompt)
{
    d->depth = depth;
    d->room = room;
    d->looks = looks && depth == DRAFTER_AUTO;
    d->begun = false;
    d->by = DRAFT_MTP;
    d->n = d->n_verified = d->n_early = d->n_found = d->match = d->n_forced = 0;
    d->guided = NULL;
    d->cut = false;
    if (d->looks)
        lookup_begin(&d->text, prompt);
    gate_begin(&d->gate);
}

/* Returns how many drafts to make before waiting for them, when one takes draft_ms. */
static int at_a_time(bool beside, double draft_ms)
{
    return beside && draft_ms > 0 && draft_ms < one_by_one_ms ? ENGINE_MAX_DEPTH : 1;
}

/* Decides between the drafts that were made and, if `new_drafts`, more of them. */
static struct decision decide(const struct drafter *d, bool new_drafts)
{
    const struct offers o = {
        .room = d->room, .n = d->n, .prob = d->made.prob, .at_a_time = new_drafts && !d->cut ? at_a_time(d->beside, price_draft_ms(d->price, 1)) : 0,
    };
    return gate_decide(&d->gate, &o);
}

/* Gives the stepper the drafts of the next step, unless they were made on the device. */
static void propose(struct drafter *d)
{
    if (proposers[d->by].ids)
        stepper_propose(d->slot, proposers[d->by].ids(d), d->n);
}

/* Queues drafts after the step, so that a device that works beside the host makes them while the host reads the result: how many is decided by
 * what was known before it.  None after the first pick, since the next step may be one of several answers; none where the next drafts are
 * likely to be found in the text; and none after a step that tries one draft after many without. */
static void draft_early(struct drafter *d)
{
    const int least_tokens = 1;         /* of the step under way */
    d->n_early = 0;
    if (d->beside && d->begun && price_draft_ms(d->price, 1) > 0 && d->by == DRAFT_MTP && !(d->n && d->gate.idle)) {
        const struct offers o = {.room = d->room - least_tokens, .at_a_time = at_a_time(d->beside, price_draft_ms(d->price, 1))};
        d->n_early = gate_decide(&d->gate, &o).make;
    }
    if (d->n_early)
        stepper_draft(d->slot, d->n_early);
}

void drafter_launch(struct drafter *d)
{
    const bool first = !d->begun;
    if (d->depth != DRAFTER_AUTO && d->guided) {
        d->n_verified = first ? 0 : d->n;
        stepper_step(d->slot, 1 + d->n_verified);
        d->begun = true;
        return;
    }
    if (d->depth != DRAFTER_AUTO) {
        d->n = 0;
        stepper_launch(d->slot);
        return;
    }
    if (!first && d->beside && d->launched_ns && !d->caught_up) {
        /* On a device that works beside the host only the whole round that ends now, drafts included, can be timed. */
        const double ms = clock_ms_since(d->launched_ns) - (d->by == DRAFT_MTP ? d->n * price_draft_ms(d->price, 1) : 0);
        if (ms > 0)
            price_step_took(d->price, 1 + d->n_verified, ms);
    }
    d->n_verified = first ? 0 : d->by == DRAFT_MTP ? decide(d, false).rows - 1 : d->n;
    const int64_t start = clock_ns();
    const int behind = stepper_behind(d->slot);
    propose(d);
    stepper_step(d->slot, 1 + d->n_verified);
    draft_early(d);
    d->caught_up = stepper_behind(d->slot) < behind;
    if (!first && !d->beside && !d->caught_up)
        price_step_took(d->price, 1 + d->n_verified, clock_ms_since(start));
    d->launched_ns = first ? 0 : start;
    d->begun = true;
}

/* Cuts the drafts that were made to those that the guide admits. */
static void admit_made(struct drafter *d)
{
    const int n = d->guided ? guided_admits(d->guided, d->made.ids, d->n) : d->n;
    d->cut = n < d->n;
    d->n = n;
}

/* Makes n more drafts.  early: they are queued already, and began when the step ended, which was just now.  All count as equally expensive, though
 * the first one runs the MTP rows of the step and the others one row each. */
static bool make(struct drafter *d, int n, bool early, struct err *e)
{
    const int64_t start = clock_ns();
    const bool behind = stepper_behind(d->slot) > 0;
    if (!early)
        stepper_draft(d->slot, n);
    if (!stepper_drafts(d->slot, &d->made, e))
        return false;
    d->caught_up |= behind;
    if (!d->caught_up)
        price_drafts_took(d->price, 1, n, clock_ms_since(start));
    d->n += n;
    admit_made(d);
    return true;
}

/* Makes the drafts of an answer under a guide that has a fixed number of them. */
static bool make_fixed(struct drafter *d, const struct step_result *r, struct err *e)
{
    d->room -= r->n;
    d->n = gate_usable(d->depth, d->room);
    if (!d->n)
        return true;
    stepper_draft(d->slot, d->n);
    if (!stepper_drafts(d->slot, &d->made, e))
        return false;
    admit_made(d);
    return true;
}

/* Decides whose drafts the next step verifies. */
static void choose_source(struct drafter *d, bool together)
{
    const struct decision next = gate_decide(&d->gate, &(struct offers){.room = d->room, .match = d->match, .n_forced = d->n_forced,
                                                                        .together = together});
    d->by = next.source;
    d->cut = false;
    d->n = d->by == DRAFT_MTP ? 0 : d->by == DRAFT_LOOKUP ? least(next.rows - 1, d->n_found) : next.rows - 1;
}

bool drafter_prepare_next(struct drafter *d, const struct step_result *r, struct err *e)
{
    struct decision next;
    if (d->depth != DRAFTER_AUTO)
        return !d->guided || make_fixed(d, r, e);
    after_result(d, r, d->launched_ns);
    choose_source(d, false);
    if (d->by != DRAFT_MTP) {
        d->caught_up |= d->n_early > 0;         /* which go to waste */
        return true;
    }
    if (d->n_early && !make(d, d->n_early, true, e))
        return false;
    for (; (next = decide(d, true)).make > 0;)
        if (!make(d, next.make, false, e))
            return false;
    return true;
}

void drafter_learn(struct drafter *d, const struct step_result *r)
{
    after_result(d, r, true);
    d->n_early = 0;
    d->launched_ns = 0;
    choose_source(d, true);
}

struct share drafter_share(const struct drafter *d)
{
    const int most = gate_usable(d->depth == DRAFTER_AUTO ? d->gate.most : least(d->depth, d->gate.most), d->room);
    struct share s = {.most = most, .makes = most && d->by == DRAFT_MTP && !d->cut, .idle = gate_is_idle(&d->gate), .n = least(d->n, most)};
    proposers[d->by].chances(d, s.n, s.right);
    gate_chances_later(&d->gate, s.later);
    return s;
}

/* ---- several answers ---- */

void group_init(struct group *g, struct stepper *s, struct price *price, bool beside)
{
    *g = (struct group){.s = s, .price = price, .beside = beside};
}

/* Lists the shares of the members that continue; returns how many.  A share makes drafts only if its member does, too. */
static int shares_of(const struct member *m, int n, struct share all[STEP_ROWS])
{
    int n_shares = 0;
    for (int i = 0; i < n; i++)
        if (m[i].continues) {
            all[n_shares] = drafter_share(m[i].drafter);
            all[n_shares++].makes &= m[i].makes;
        }
    return n_shares;
}

/* Decides the rows of each member; those for which drafts will be made come first, because their rows are then the first ones. */
static int share_out(struct group *g, struct member *m, int n, struct stepper_part parts[STEP_ROWS])
{
    struct share all[STEP_ROWS];
    int n_parts = 0;
    for (int i = 0; i < n; i++)
        m[i].makes = m[i].continues = true;
    shares_of(m, n, all);
    shares_verify(g->price, all, n, stepper_most_rows(g->s));
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

void group_launch(struct group *g, struct member *m, int n)
{
    struct stepper_part parts[STEP_ROWS];
    /* On a device that works beside the host only the whole round that ends now, drafts included, can be timed. */
    const double ms = clock_ms_since(g->launched_ns) - g->n_made * price_draft_ms(g->price, g->n_making);
    if (g->beside && g->launched_ns && ms > 0)
        price_step_took(g->price, g->n_rows, ms);
    const int n_parts = share_out(g, m, n, parts);
    for (int i = 0; i < n; i++)
        propose(m[i].drafter);
    const int64_t start = clock_ns();
    g->launched_ns = start;
    g->n_made = 0;
    stepper_step_together(g->s, parts, n_parts);
    if (!g->beside)
        price_step_took(g->price, g->n_rows, clock_ms_since(start));
}

/* Makes `more` drafts for each member that makes some, and waits for them. */
static bool make_together(struct group *g, struct member *m, int n, int more, struct err *e)
{
    const int64_t start = clock_ns();
    for (int i = 0; i < n; i++)
        if (m[i].makes && stepper_behind(m[i].drafter->slot))
            group_disturbed(g);         /* rows of the MTP block that were left out run first */
    stepper_draft_together(g->s, g->n_making, more);
    g->n_made += more;
    for (int i = 0; i < n; i++) {
        struct drafter *d = m[i].drafter;
        if (!m[i].continues || !m[i].makes || d->by != DRAFT_MTP || d->cut)
            continue;
        d->n = g->n_made;
        if (!stepper_drafts(d->slot, &d->made, e))
            return false;
        admit_made(d);
    }
    if (g->launched_ns)
        price_drafts_took(g->price, g->n_making, more, clock_ms_since(start));
    return true;
}

bool group_prepare_next(struct group *g, struct member *m, int n, struct err *e)
{
    struct share all[STEP_ROWS];
    for (int i = 0; i < n; i++)
        if (m[i].continues)
            drafter_learn(m[i].drafter, &m[i].result);
    for (;;) {
        const int n_shares = shares_of(m, n, all), lot = at_a_time(g->beside, price_draft_ms(g->price, g->n_making ? g->n_making : 1)),
            more = n_shares ? shares_make(g->price, all, n_shares, stepper_most_rows(g->s), lot) : 0;
        if (!more)
            return true;
        if (!make_together(g, m, n, more, e))
            return false;
    }
}
