#include "engine/drafter.h"

#include "base/clock.h"
#include "base/least.h"

/* A device that works beside the host stands still for some ten microseconds when it is waited for.  Beside a draft that takes longer than this
 * that is little, so such drafts are made one by one; quicker ones are made together. */
static const double one_by_one_ms = 0.5;

void drafter_init(struct drafter *d, struct stepper_slot *slot, int most, bool beside, struct price *price)
{
    *d = (struct drafter){.slot = slot, .beside = beside, .price = price};
    gate_init(&d->gate, most, price);
}

void drafter_free(struct drafter *d)
{
    lookup_free(&d->text);
}

void drafter_begin(struct drafter *d, int depth, int room, bool looks, const int32_t *ids, int n)
{
    d->depth = depth;
    d->room = room;
    d->looks = looks && depth == DRAFTER_AUTO;
    d->begun = d->looked_up = false;
    d->n = d->n_verified = d->n_early = d->found_length = 0;
    if (d->looks)
        lookup_begin(&d->text, ids, n);
    gate_begin(&d->gate);
}

/* Notes what the step that ends now took.  Where the device works beside the host only the whole round, drafts included, can be timed. */
static void note_round(struct drafter *d)
{
    const double ms = clock_ms_since(d->launched_ns) - (d->looked_up ? 0 : d->n * price_draft_ms(d->price, 1));
    if (d->beside && d->launched_ns && !d->caught_up && ms > 0)
        price_step_took(d->price, 1 + d->n_verified, ms);
}

int drafter_at_a_time(bool beside, double draft_ms)
{
    return beside && draft_ms > 0 && draft_ms < one_by_one_ms ? ENGINE_MAX_DEPTH : 1;
}

static int at_a_time(const struct drafter *d)
{
    return drafter_at_a_time(d->beside, price_draft_ms(d->price, 1));
}

/* How many of n drafts are of use to a step of an answer that may still have `room` tokens: the step itself gives one of these. */
static int usable(int n, int room) { return room > n ? n : room > 0 ? room - 1 : 0; }

/* Queues drafts behind the step, so that a device that works beside the host makes them while the host reads the result: how many is decided by
 * what was known before it.  None behind the first pick, since the next step may be one of several answers; none where the next drafts are
 * likely to be found in the text; and none behind a step that tries one draft after many without. */
static void draft_early(struct drafter *d)
{
    const bool decided = d->beside && d->begun && price_draft_ms(d->price, 1) > 0 && !d->looked_up && !(d->n && d->gate.idle);
    const int least_tokens = 1;         /* of the step under way */
    d->n_early = decided ? gate_make(&d->gate, NULL, 0, usable(at_a_time(d), d->room - least_tokens)) : 0;
    if (d->n_early)
        stepper_draft(d->slot, d->n_early);
}

void drafter_propose(struct drafter *d)
{
    if (d->looked_up)
        stepper_propose(d->slot, d->found, d->n);
}

void drafter_launch(struct drafter *d)
{
    if (d->depth != DRAFTER_AUTO) {
        d->n = 0;
        stepper_launch(d->slot);
        return;
    }
    const bool first = !d->begun;
    if (!first)
        note_round(d);
    d->n_verified = first ? 0 : d->looked_up ? d->n : gate_verify(&d->gate, d->made.prob, usable(d->n, d->room));
    const int64_t start = clock_ns();
    const int behind = stepper_behind(d->slot);
    drafter_propose(d);
    stepper_step(d->slot, 1 + d->n_verified);
    draft_early(d);
    d->caught_up = stepper_behind(d->slot) < behind;
    if (!first && !d->beside && !d->caught_up)
        price_step_took(d->price, 1 + d->n_verified, clock_ms_since(start));
    d->launched_ns = first ? 0 : start;
    d->begun = true;
}

/* Learns which drafts were right.  Of those that were not verified the first one is known, too, if all before it were right: the token that was
 * picked stands at its place. */
static void learn(struct drafter *d, const struct step_result *r)
{
    int n_right = 0;
    while (n_right < r->n_drafts && r->drafted[n_right])
        n_right++;
    const bool one_more = n_right == r->n_drafts && r->n == n_right + 1 && d->n > n_right;
    if (one_more && r->ids[n_right] == d->made.ids[n_right])
        n_right++;
    gate_learn(&d->gate, d->made.prob, d->n, n_right, r->n < d->n ? r->n : d->n);
}

/* How many more drafts to launch now. */
static int lot(const struct drafter *d)
{
    const int left = usable(ENGINE_MAX_DEPTH, d->room) - d->n;
    return left > 0 ? least(at_a_time(d), left) : 0;
}

/* Makes n more drafts.  early: they are queued already, and began when the step ended, which was just now.  All count as equally dear, though the
 * first one runs the MTP rows of the step and the others one row each. */
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
    return true;
}

/* Compares what was found with the tokens that came, whether it was verified or not. */
static void learn_look_up(struct drafter *d, const struct step_result *r)
{
    const int n_known = r->n < ENGINE_MAX_DEPTH ? r->n : ENGINE_MAX_DEPTH;
    int n_right = 0;
    while (n_right < n_known && r->ids[n_right] == d->found[n_right])
        n_right++;
    if (d->found_length)
        gate_learn_look_up(&d->gate, d->found_length, n_right, n_known);
}

static void read_text(struct drafter *d, const struct step_result *r)
{
    learn_look_up(d, r);
    for (int i = 0; i < r->n; i++)
        lookup_add(&d->text, r->ids[i]);
}

/* Whether the next step's drafts come from the text.  one_row: it is to have none. */
static bool look_up(struct drafter *d, const struct step_result *r, bool one_row)
{
    read_text(d, r);
    d->found_length = lookup_next(&d->text, d->found, ENGINE_MAX_DEPTH) ? d->text.length : 0;
    d->n = d->found_length && !one_row ? usable(gate_look_up(&d->gate, d->found_length), d->room) : 0;
    return d->n;
}

void drafter_learn(struct drafter *d, const struct step_result *r)
{
    if (!d->looked_up)
        learn(d, r);
    d->room -= r->n;
    d->n = d->n_early = 0;
    d->launched_ns = 0;
    d->looked_up = d->looks && look_up(d, r, false);        /* a step of several answers has more than one row in any case */
}

struct share drafter_share(const struct drafter *d)
{
    const int most = usable(d->depth == DRAFTER_AUTO ? d->gate.most : least(d->depth, d->gate.most), d->room);
    struct share s = {.most = most, .makes = most && !d->looked_up, .idle = gate_is_idle(&d->gate), .n = least(d->n, most)};
    if (d->looked_up)
        gate_chances_found(&d->gate, d->found_length, s.right);
    else
        gate_chances(&d->gate, d->made.prob, s.n, s.right);
    gate_chances_later(&d->gate, s.later);
    return s;
}

bool drafter_made(struct drafter *d, int n, struct err *e)
{
    d->n = n;
    return stepper_drafts(d->slot, &d->made, e);
}

bool drafter_prepare_next(struct drafter *d, const struct step_result *r, struct err *e)
{
    if (d->depth != DRAFTER_AUTO)
        return true;
    if (d->launched_ns && !d->looked_up)
        learn(d, r);
    d->room -= r->n;
    d->looked_up = d->looks && look_up(d, r, price_one_is_due(d->price));
    if (d->looked_up) {
        d->caught_up |= d->n_early > 0;         /* which go to waste */
        return true;
    }
    d->n = 0;
    if (d->n_early && !make(d, d->n_early, true, e))
        return false;
    for (int n; (n = gate_make(&d->gate, d->made.prob, d->n, lot(d))) > 0;)
        if (!make(d, n, false, e))
            return false;
    return true;
}
