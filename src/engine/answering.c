/* In a turn one prompt advances by a chunk, and others with it if their chunks fit into the call; then all answers whose prompts are read advance by
 * a step.  So long prompts keep the others waiting no longer than a chunk takes. */
#include "engine/answering.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/clock.h"
#include "base/least.h"
#include "base/memory.h"
#include "engine/sampler.h"
#include "model/prompt.h"
#include "model/stepper.h"

enum {
    SNAPSHOT_ON_WAY = 512,              /* tokens of an answer, where the device works while the host waits: they take a second and more */
    AHEAD = 2,                          /* picks queued on a device that works beside the host */
};

/* One answer under way.  It is made in pieces, chunks of its prompt and then steps, so that several can alternate. */
struct run {
    struct decoder *d;
    struct prompt   p;
    struct decoder_hooks h;
    struct outcome *out;
    struct sequence *q;
    struct drafter  *drafter;
    enum stage { RUN_READS, RUN_STEPS } stage;        /* its prompt is read; tokens are made */
    bool    ended;
    bool    refused;                    /* on the way, with its cache as good as before */
    int     cached;                     /* tokens of the prompt that were resident */
    int     depth;                      /* drafts a step, or DRAFTER_AUTO */
    int     room;                       /* tokens that the answer may have: max_tokens and context */
    bool    begun;                      /* stepper_begin() was called */
    struct guided guided;
    int     n_sharing;                  /* answers that took part in its newest step */
    int     n_rows;                     /* rows of that step in all, if n_sharing > 1 */
    int     n_outstanding;              /* picks that were launched and whose results were not taken */
    int     n_delivered;                /* results whose tokens were reported */
    int     message_pos;                /* worth a snapshot: last_message() */
    int     kept;                       /* position of the last snapshot on the way */
    int64_t first_ns;                   /* when the first token came; 0: not yet */
    int64_t due;                        /* base/clock.h, ns */
    int64_t moved_ns;                   /* when its last chunk or step began; 0: not yet */
};

_Static_assert((int)ENGINE_MAX_STOP <= (int)STEP_STOPS && (int)ENGINE_MAX_DEPTH < (int)STEP_ROWS, "a step holds what a request may ask for");

static void end(struct run *r, enum end why)
{
    r->ended = true;
    r->out->finish = why;
}

/* ---- prompt ---- */

/* Refuses a prompt that is empty, too long for the context, or whose pictures, answer prefix or sampling are not valid. */
static bool check_prompt(const struct decoder *d, const struct prompt *p, struct err *e)
{
    const struct spans s = p->spans;
    if (s.n < 1)
        return err_set(e, "the prompt is empty, expected at least one token");
    if (s.n >= d->o.n_ctx)
        return err_set(e, "the prompt has %d tokens, the context holds %d with the answer: take a larger --ctx", s.n, d->o.n_ctx);
    if (!decoder_check_prompt(d, s, e))
        return false;
    if (s.n_pictures && s.pictures[s.n_pictures - 1].first + s.pictures[s.n_pictures - 1].n >= s.n)
        return err_set(e, "the prompt ends within its picture %d, expected text after it", s.n_pictures);
    if (p->how->n_answer_prefix < 0 || p->how->n_answer_prefix > s.n)
        return err_set(e, "the answer's beginning has %d tokens, the whole prompt %d", p->how->n_answer_prefix, s.n);
    return sampler_check(p->how, d->c->vocab, e);
}

/* The whole prompt is read: sets up what the steps go by. */
static void begin_steps(struct run *r)
{
    const struct sampling *how = r->p.how;
    const struct decoder *d = r->d;
    r->stage = RUN_STEPS;
    r->room = d->o.n_ctx - r->q->tl.n;
    if (how->max_tokens && how->max_tokens < r->room)
        r->room = how->max_tokens;
    r->depth = how->draft_depth < 0 && d->o.depth ? DRAFTER_AUTO : how->draft_depth < d->o.depth ? how->draft_depth : d->o.depth;
    r->kept = r->q->tl.n_run;
}

enum { WORTH_A_CHUNK = 256 };           /* tokens: a chunk of a GPU takes as long as for fewer */

static bool is_end(const struct model_config *c, int32_t id)
{
    int i = 0;
    while (i < c->n_eos && c->eos[i] != id)
        i++;
    return i < c->n_eos;
}

/* Returns the position before the last message of a prompt of which the tokens before `from` were run, where a prompt with another message in its
 * place rejoins; 0: it is not worth a chunk of its own.  An id that ends answers ends every message before `snapshot_pos`.  A multiple of
 * ENGINE_BLOCK, so that bits are the same. */
static int last_message(const struct decoder *d, const struct prompt *p, int from)
{
    int n = 0, pos = least(p->snapshot_pos, p->spans.n);
    while (pos > from && n < 2)
        n += is_end(d->c, p->spans.ids[--pos]);
    pos = (pos + 1) / ENGINE_BLOCK * ENGINE_BLOCK;
    return n == 2 && pos - from >= WORTH_A_CHUNK ? pos : 0;
}

/* Finds the sequence for the prompt and makes the prompt its tokens. */
static void begin(struct run *r)
{
    struct decoder *d = r->d;
    const struct prompt *p = &r->p;
    const struct arrival a = {.name = p->sequence, .prompt = p->spans, .client = p->how->client};
    struct sequence *q = r->q = d->last = sequences_choose(&d->sequences, &a);
    struct rejoin j = sequence_rejoin(&d->sequences, q, p->spans);
    sequence_note_refill(&d->sequences, q, p->sequence, &j);
    sequence_use(&d->sequences, q, &a, p->snapshot_pos);
    sequence_set_prompt(&d->sequences, q, &j, p->spans);
    q->busy = true;
    r->message_pos = last_message(d, p, j.pos);
    r->drafter = &d->drafters[q->slot];
    r->out->stats.n_prompt = p->spans.n;
    r->out->stats.n_cached = r->cached = j.pos;
    r->out->stats.n_ahead = sequence_take_ahead(q, j.pos);
    r->out->stats.refill = sequence_take_refill(q);
    r->h.prefill(r->h.arg, q->tl.n_run, q->tl.n, r->cached);
    if (q->tl.n_run == p->snapshot_pos)
        sequence_keep(&d->sequences, q, false);
    if (q->tl.n_run == q->tl.n)
        begin_steps(r);
}

/* Returns true if somebody waits for the next token of an answer. */
static bool others_step(const struct decoder *d)
{
    bool steps = false;
    for (int i = 0; i < d->n_runs; i++)
        steps = steps || (d->runs[i]->stage == RUN_STEPS && !d->runs[i]->ended);
    return steps;
}

/* True if there are tokens of pictures among the next rows of the prompt. */
static bool has_pictures(const struct run *r, int rows)
{
    const int from = r->q->tl.n_run;
    return spans_picture(r->p.spans, from, from + rows);
}

static int rows_of_chunk(const struct run *r)
{
    const struct decoder *d = r->d;
    const struct timeline *t = &r->q->tl;
    const int stop = t->n_run < r->message_pos ? r->message_pos : r->p.snapshot_pos;
    const int rows = decoder_chunk_rows(d, t->n_run, t->n, stop, d->n_runs > 1 ? PACE_OTHERS : PACE_NEXT);
    const bool seen = has_pictures(r, rows) && others_step(d);
    return seen ? decoder_chunk_rows(d, t->n_run, t->n, stop, PACE_SEEN) : rows;
}

/* After a chunk of the run's prompt: takes a snapshot where one is due, reports progress, and begins the steps after the last chunk. */
static void after_chunk(struct run *r)
{
    const struct timeline *t = &r->q->tl;
    if (t->n_run == r->p.snapshot_pos || t->n_run == r->message_pos || t->n_run % decoder_snapshot_every(r->d) == 0)
        sequence_keep(&r->d->sequences, r->q, false);
    r->h.prefill(r->h.arg, t->n_run, t->n, r->cached);
    if (t->n_run == t->n)
        begin_steps(r);
}

/* Returns the time since which its next chunk is waited for: when its last one began, or when it was due, whichever is later. */
static int64_t waits_since(const struct run *r)
{
    return r->due > r->moved_ns ? r->due : r->moved_ns;
}

static int64_t moved_at(const struct run *r) { return r->moved_ns; }

/* Lists at most `most` of the runs in that stage, those with the earliest time first.  Returns how many there are in the list. */
static int earliest(const struct decoder *d, enum stage stage, int64_t (*time_of)(const struct run *r), struct run **in, int most)
{
    int n = 0;
    for (int i = 0; i < d->n_runs; i++) {
        struct run *r = d->runs[i];
        int at = n;
        if (r->stage != stage)
            continue;
        while (at > 0 && time_of(in[at - 1]) > time_of(r))
            at--;
        for (int j = least(n, most - 1); j > at; j--)
            in[j] = in[j - 1];
        if (at < most)
            in[at] = r;
        n += n < most;
    }
    return n;
}

/* Lists the prompts that are being read, the one that waits longest first, so that those that are due alternate. */
static int prompts_waiting(const struct decoder *d, struct run *in[PROMPT_PARTS]) { return earliest(d, RUN_READS, waits_since, in, PROMPT_PARTS); }

/* Collects the prompts that a call reads: the first one, by `rows` rows, and those whose next chunk costs little and has no pictures, as far as those
 * who wait for the end of the call allow.  A prompt that is not due is not read together with one that is.  Returns how many there are. */
static int join_prompts(struct run *first, int rows, struct run *in[PROMPT_PARTS], struct portion all[PROMPT_PARTS])
{
    const struct decoder *d = first->d;
    const enum pace_wait wait = !others_step(d) ? PACE_NEXT : has_pictures(first, rows) ? PACE_SEEN : PACE_OTHERS;
    struct run *waiting[PROMPT_PARTS];
    const int most = decoder_most_rows(d, wait), n_waiting = prompts_waiting(d, waiting);
    int n = 0;
    in[n] = first;
    all[n++] = (struct portion){first->q, rows};
    for (int i = 0; i < n_waiting; i++) {
        struct run *r = waiting[i];
        const int more = r == first ? 0 : rows_of_chunk(r);
        const bool delays = r->due > first->moved_ns && first->due <= first->moved_ns;
        if (!more || delays || !pace_joins(&d->pace, more) || rows + more > most || !prompt_joins(rows, more) || has_pictures(r, more))
            continue;
        in[n] = r;
        all[n++] = (struct portion){r->q, more};
        rows += more;
    }
    return n;
}

/* Reads the next chunk of the run's prompt, and of others in the same call.  False on a device fault; a refused picture ends only this run. */
static bool read_chunk(struct run *r, struct err *fault)
{
    struct decoder *d = r->d;
    struct run *in[PROMPT_PARTS];
    struct portion all[PROMPT_PARTS];
    int rows = rows_of_chunk(r);
    r->moved_ns = clock_ns();
    switch (decoder_look(d, r->q, r->p.spans, &rows, &r->out->stats.n_pictures, &r->out->why, fault)) {
    case READ_CHUNK:   break;
    case READ_SLICE:   return true;
    case READ_FAULT:   return false;
    case READ_REFUSED:
        timeline_cut(&r->q->tl);
        r->refused = true;
        end(r, END_FAILED);
        return true;
    }
    const int n = join_prompts(r, rows, in, all);
    for (int i = 1; i < n; i++)
        in[i]->moved_ns = r->moved_ns;
    if (!decoder_read(d, all, n, fault))
        return false;
    for (int i = 0; i < n; i++)
        after_chunk(in[i]);
    return true;
}

/* ---- tokens ---- */

/* Reports the picks and appends them to the timeline.  Returns how many; 0 when the answer was interrupted: tokens that were not reported
 * must not be in the timeline, or the next prompt would have to rewind.  `before` are the statistics without them. */
static int take_tokens(struct run *r, const struct picks *p, const struct stats *before)
{
    struct stats *s = &r->out->stats;
    s->n_tokens += p->n;
    if (!r->first_ns) {
        r->first_ns = clock_ns();
        s->prefill_ms = (double)(r->first_ns - r->p.submitted_ns) * 1e-6;
    } else {
        s->n_steps++;
        s->n_timed += p->n;
        s->decode_ms = clock_ms_since(r->first_ns);
    }
    if (!r->h.tokens(r->h.arg, p)) {
        *s = *before;
        end(r, END_INTERRUPTED);
        return 0;
    }
    for (int i = 0; i < p->n; i++)
        timeline_add(&r->q->tl, p->ids[i]);
    return p->n;
}

/* True if the guide lets nothing follow. */
static bool is_complete(const struct run *r)
{
    return r->guided.guide && guided_is_over(&r->guided);
}

static bool all_banned(struct run *r)
{
    struct err *e = &r->out->why;
    if (guided_is_full(&r->guided))
        return err_set(e, "the schema or grammar of the answer needs too much work for one token; simplify its patterns");
    return r->guided.guide ? err_set(e, "no token can follow: the schema or grammar of the answer, or a logit bias, rules out all of them")
                           : sampler_all_banned(e, sampler_n_ids(r->p.how, r->d->c->vocab));
}

/* Converts a result, and ends the answer if it was the last one.  False after an error. */
static bool picks_of(struct run *r, const struct step_result *in, struct picks *p)
{
    struct stats *s = &r->out->stats;
    const enum draft_source by = r->drafter->by;
    *p = (struct picks){.n = in->n};
    for (int i = 0; i < in->n_drafts && i < ENGINE_MAX_DEPTH; i++) {
        s->drafts[by][i].drafted++;
        s->drafts[by][i].accepted += i < in->n && in->drafted[i];
    }
    for (int i = 0; i < in->n; i++) {
        p->ids[i] = in->ids[i];
        p->prob[i] = in->prob[i];
        p->source[i] = (uint8_t)(in->drafted[i] ? token_of_draft(by) : TOKEN_SAMPLED);
        p->logprobs[i] = r->p.how->n_alternatives ? in->logprobs[i] : (struct logprobs){.prob = -1};
    }
    switch ((enum step_end)in->ended) {
    case STEP_STOPPED: end(r, END_STOP); break;
    case STEP_FULL: end(r, is_complete(r) ? END_STOP : r->q->tl.n + in->n == r->d->o.n_ctx ? END_CONTEXT : END_LENGTH); break;
    case STEP_BAD_LOGIT: end(r, END_FAILED); return sampler_bad_logit(&r->out->why, in->bad_id, in->bad_logit);
    case STEP_ALL_BANNED: end(r, END_FAILED); return all_banned(r);
    case STEP_GOES_ON:
        if (!r->p.how->n_stop && is_complete(r))        /* no id ends it */
            end(r, END_STOP);
        break;
    }
    return true;
}

/* Returns the bytes that `runs` runs of the MTP block with experts for `rows` rows in all move. */
static double block_bytes(const struct traffic *t, long runs, long rows)
{
    return runs ? (double)runs * traffic_mtp(t, traffic_distinct(t, (double)rows / (double)runs)) : 0;
}

/* Returns the bytes that the MTP block has moved since the last call. */
static double drafting_bytes(struct decoder *d)
{
    const struct traffic *t = &d->o.traffic;
    const struct stepper_counts now = stepper_counts(d->stepper), old = d->counted;
    const long late = now.late_runs - old.late_runs;
    const long runs = now.mtp_runs - old.mtp_runs - late, rows = now.last_rows - old.last_rows;
    d->counted = now;
    return (double)late * t->mtp_rows + (double)(now.heads - old.heads) * t->draft_head + block_bytes(t, runs, rows)
         + block_bytes(t, now.chained_runs - old.chained_runs, now.chained_rows - old.chained_rows);
}

/* Returns the bytes that a result's step moved; the first pick is not a step.  Bytes that several answers share are counted in equal parts. */
static double step_bytes(const struct run *r, const struct step_result *in)
{
    const struct traffic *t = &r->d->o.traffic;
    const int rows = in->n_drafts + 1;
    const double experts = traffic_distinct(t, rows), alone = traffic_step(t, rows, r->q->tl.n_run, experts);
    if (!r->first_ns)
        return 0;
    if (r->n_sharing <= 1)
        return alone;
    const double own = alone - t->fixed - experts * t->expert, shared = t->fixed + traffic_distinct(t, r->n_rows) * t->expert;
    return own + shared / r->n_sharing;
}

/* in: NULL at the end of the answer, when the MTP block has run the rows that were left out. */
static void count_bytes(struct run *r, const struct step_result *in)
{
    if (r->d->o.traffic.c)
        r->out->stats.bytes += (in ? step_bytes(r, in) : 0) + drafting_bytes(r->d);
}

/* Reports one result.  The rows of its tokens but the newest have run; the first result ran none.  False: the answer was interrupted. */
static bool report(struct run *r, const struct step_result *in)
{
    struct stats before = r->out->stats;
    struct picks p;
    bool first = !r->first_ns;
    count_bytes(r, in);
    int n = picks_of(r, in, &p) ? take_tokens(r, &p, &before) : 0;
    if (n && !first)
        timeline_ran(&r->q->tl, n);
    return n > 0;
}

/* ---- steps ---- */

/* Returns the sampling of the run in the form that a step reads on the device. */
static struct step_sampling for_device(const struct run *r)
{
    const struct sampling *how = r->p.how;
    struct step_sampling s = {
#define SAMPLING_NUMBER(name, ...) .name = how->name,
#include "config/sampling_numbers.def"
        .top_k = how->top_k, .n_ids = sampler_n_ids(how, r->d->c->vocab), .room = r->room, .rng = sampler_stream(how), .n_stop = how->n_stop,
        .biased = how->n_bias > 0, .n_alternatives = how->n_alternatives,
        .trial = {r->p.trial.rate[0], r->p.trial.rate[1]}, .trial_tokens = r->p.trial.tokens,
    };
    s.repetition_penalty = how->repetition_penalty > 0 ? how->repetition_penalty : 1;
    memcpy(s.stop, how->stop, (size_t)how->n_stop * sizeof *s.stop);
    return s;
}

/* Prepares the device to pick tokens.  If the prompt has pictures, their pad is banned: in the next prompt it would stand for one more. */
static void begin_picks(struct run *r)
{
    const struct sampling *how = r->p.how;
    const struct step_sampling of_device = for_device(r);
    const int32_t pad = r->d->c->vision.image_id;
    const size_t n = (size_t)how->n_bias;
    int32_t *ids = memory_alloc((n + 1) * sizeof *ids);
    float *bias = memory_alloc((n + 1) * sizeof *bias);
    for (size_t i = 0; i < n; i++) {
        ids[i] = how->bias_ids[i];
        bias[i] = how->bias[i];
    }
    ids[n] = pad;
    bias[n] = -INFINITY;
    const bool bans = r->p.spans.n_pictures && pad >= 0 && pad < r->d->c->vocab;
    stepper_begin(r->drafter->slot, &of_device, r->p.spans.ids, r->p.spans.n, how->n_answer_prefix, r->q->tl.n, ids, bias, how->n_bias + bans,
                  r->depth == DRAFTER_AUTO ? 0 : r->depth);
    free(bias);
    free(ids);
}

/* Notes the time; begins the answer's steps if they have not begun. */
static void ready_for_steps(struct run *r)
{
    r->moved_ns = clock_ns();
    if (r->begun)
        return;
    begin_picks(r);
    r->drafter->gate = r->d->gate;
    drafter_begin(r->drafter, r->depth, r->room, r->p.how->lookup, r->p.spans);
    if (r->guided.guide) {
        stepper_guard(r->drafter->slot, !guided_rests(&r->guided));
        r->drafter->guided = &r->guided;
    }
    r->begun = true;
    if (r->d->n_runs == 1)              /* what was run for answers before, or to warm up, does not count */
        r->d->counted = stepper_counts(r->d->stepper);
}

/* Launches the next pick of an answer that steps alone. */
static void launch(struct run *r)
{
    drafter_launch(r->drafter);
    r->n_sharing = 1;
    r->n_outstanding++;
}

/* Takes a snapshot in the middle of a long answer now and then: after an interruption less must be computed again. */
static bool keep_on_way(struct run *r, struct err *fault)
{
    struct decoder *d = r->d;
    if (d->dev->caps->beside_host || r->q->tl.n_run < r->kept + SNAPSHOT_ON_WAY)
        return true;
    if (stepper_pause(r->drafter->slot, fault) < 0)
        return false;
    sequence_keep(&d->sequences, r->q, true);
    stepper_resume(r->drafter->slot);
    r->kept = r->q->tl.n_run;
    return true;
}

/* Has the last pick of a result made once more, under a mask, as long as the guide refuses it, and prepares the next pick.  False when the device
 * failed. */
static bool obey(struct run *r, struct step_result *result, struct err *fault)
{
    struct stepper_slot *slot = r->drafter->slot;
    int row, masked = -1;
    for (; (row = guided_refuses(&r->guided, result)) >= 0; masked = row) {
        drafter_picks_again(r->drafter);
        group_disturbed(&r->d->group);
        if (row <= masked || !guided_mask(&r->guided, result, row)) {   /* a masked row is refused where the work goes beyond its bound */
            result->n = 0;
            result->ended = STEP_ALL_BANNED;
            return true;
        }
        stepper_pick_again(slot, row, r->guided.mask);
        if (!stepper_wait(slot, result, fault))
            return false;
    }
    stepper_guard(slot, !guided_rests(&r->guided));
    return true;
}

/* Takes and reports the oldest result of the answer.  False when the device failed. */
static bool take_result(struct run *r, struct step_result *result, struct err *fault)
{
    if (!stepper_wait(r->drafter->slot, result, fault) || (r->guided.guide && !obey(r, result, fault)))
        return false;
    r->n_outstanding--;
    r->n_delivered += report(r, result);
    return true;
}

/* Makes a step of one answer.  With a fixed number of drafts a device that works beside the host is always a pick ahead (`ahead`): it starts on the
 * next one before the host has read this one.  What it did beyond the last one that was reported is taken back by stepper_end(). */
static bool step_alone(struct run *r, bool ahead, struct err *fault)
{
    struct step_result result;
    ready_for_steps(r);
    group_disturbed(&r->d->group);
    const int most = ahead && !r->guided.guide && r->d->dev->caps->beside_host ? drafter_ahead(r->drafter, AHEAD) : 1;
    while (r->n_outstanding < most)
        launch(r);
    return take_result(r, &result, fault) && (r->ended || (drafter_prepare_next(r->drafter, &result, fault) && keep_on_way(r, fault)));
}

/* ---- steps of several answers ---- */

/* Takes the results of all that was launched, and of the first pick, which is not a step. */
static bool catch_up(struct run *r, struct err *fault)
{
    struct step_result result;
    ready_for_steps(r);
    while (!r->ended && (r->n_outstanding || !r->first_ns)) {
        group_disturbed(&r->d->group);
        if (!r->n_outstanding)
            launch(r);
        if (!take_result(r, &result, fault))
            return false;
        if (!r->ended)
            drafter_learn(r->drafter, &result);
    }
    return true;
}

/* Collects the answers that have not ended. */
static int join(struct run *const *all, int n, struct run *in[STEP_ROWS], struct member m[STEP_ROWS])
{
    int n_in = 0;
    for (int i = 0; i < n; i++)
        if (!all[i]->ended) {
            m[n_in] = (struct member){.drafter = all[i]->drafter, .slot = all[i]->q->slot};
            in[n_in++] = all[i];
        }
    return n_in;
}

/* Counts what the MTP block moved in equal parts, since it makes the drafts of all of them in the same runs. */
static void share_drafting_bytes(struct decoder *d, struct run *const *in, int n)
{
    const double each = d->o.traffic.c ? drafting_bytes(d) / n : 0;
    for (int i = 0; i < n; i++)
        in[i]->out->stats.bytes += each;
}

/* Takes the result of a step that was run together, for each of its n answers.  False on a device fault. */
static bool take_results(struct decoder *d, struct run *const *in, struct member *m, int n, struct err *fault)
{
    for (int i = 0; i < n; i++) {
        in[i]->moved_ns = clock_ns();
        in[i]->n_sharing = n;
        in[i]->n_rows = d->group.n_rows;
        in[i]->n_outstanding++;
        if (!take_result(in[i], &m[i].result, fault))
            return false;
        m[i].continues = !in[i]->ended;
    }
    return true;
}

/* Runs one step for all of the answers that have not ended.  False on a device fault. */
static bool step_together(struct run *const *all, int n, struct err *fault)
{
    struct decoder *d = all[0]->d;
    struct run *in[STEP_ROWS];
    struct member m[STEP_ROWS];
    for (int i = 0; i < n; i++)
        if (!catch_up(all[i], fault))
            return false;
    const int n_in = join(all, n, in, m);
    if (!n_in)
        return true;
    group_launch(&d->group, m, n_in);
    share_drafting_bytes(d, in, n_in);
    if (!take_results(d, in, m, n_in, fault) || !group_prepare_next(&d->group, m, n_in, fault))
        return false;
    share_drafting_bytes(d, in, n_in);
    for (int i = 0; i < n_in; i++) {
        in[i]->moved_ns = clock_ns();
        if (m[i].continues && !keep_on_way(in[i], fault))
            return false;
    }
    return true;
}

/* ---- end ---- */

static void stop(struct run *r)
{
    if (r->stage == RUN_READS)
        timeline_cut(&r->q->tl);
    end(r, END_INTERRUPTED);
}

/* Ends the steps of an answer; what was computed beyond its last reported token is taken back.  False on a device fault. */
static bool end_steps(struct run *r, struct err *fault)
{
    const int pos = stepper_end(r->drafter->slot, r->n_delivered, fault);
    count_bytes(r, NULL);
    CHECK(pos < 0 || pos == r->q->tl.n_run || r->out->finish == END_FAILED);
    r->d->gate = r->drafter->gate;
    return pos >= 0;
}

/* Ends the steps of a run and frees its sequence for the next request.  After a failed step the sequence is forgotten.  False on a device fault. */
static bool finish(struct run *r, struct err *fault)
{
    if (r->begun && !end_steps(r, fault))
        return false;
    r->q->finished = r->out->finish == END_STOP;
    if (r->out->finish == END_FAILED && !r->refused)    /* logits were not finite: nothing in the cache can be trusted */
        sequence_forget(&r->d->sequences, r->q);
    r->q->busy = false;
    return true;
}

/* ---- all of them ---- */

bool decoder_may_begin(const struct decoder *d, const struct arrival *a)
{
    return d->n_runs < d->most_runs && sequences_have_place(&d->sequences, a);
}

static void report_done(const struct decoder_hooks *h)
{
    if (h->done)
        h->done(h->arg);
}

void decoder_begin(struct decoder *d, const struct prompt *p, const struct decoder_hooks *h, struct outcome *out)
{
    struct guided guided = {0};
    *out = (struct outcome){0};
    if (!check_prompt(d, p, &out->why) || !guided_begin(&guided, p->how, p->spans, d->c->vocab, &out->why)) {
        out->finish = END_REFUSED;
        report_done(h);
        return;
    }
    CHECK(d->n_runs < d->most_runs);
    struct run *r = d->runs[d->n_runs++] = memory_zeroed(1, sizeof *r);
    *r = (struct run){.d = d, .p = *p, .h = *h, .out = out, .guided = guided, .due = due_ns(p->submitted_ns, p->how->patience_ms)};
    guided_watch(&r->guided);
    begin(r);
}

/* ---- the end of some ---- */

/* Frees run i and closes the gap in the list. */
static void take_out(struct decoder *d, int i)
{
    guided_free(&d->runs[i]->guided);
    free(d->runs[i]);
    for (d->n_runs--; i < d->n_runs; i++)
        d->runs[i] = d->runs[i + 1];
}

/* Ends an answer.  The snapshot is taken after the end was reported, so that nobody waits for it. */
static bool end_one(struct decoder *d, int i, struct err *fault)
{
    struct run *r = d->runs[i];
    struct sequence *q = r->q;
    group_disturbed(&d->group);
    if (!finish(r, fault))
        return false;
    report_done(&r->h);
    take_out(d, i);
    sequence_keep(&d->sequences, q, false);
    return d->dev->finish(d->dev, fault);
}

/* Finishes all runs that have ended.  False on a device fault. */
static bool end_ended(struct decoder *d, struct err *fault)
{
    for (int i = d->n_runs - 1; i >= 0; i--)
        if (d->runs[i]->ended && !end_one(d, i, fault))
            return false;
    return true;
}

void decoder_fail(struct decoder *d, const struct err *fault)
{
    while (d->n_runs) {
        struct run *r = d->runs[0];
        r->out->finish = END_FAILED;
        r->out->why = *fault;
        report_done(&r->h);
        take_out(d, 0);
    }
}

/* ---- a turn ---- */

/* Reads a chunk of the prompt that waits longest, if there is one. */
static bool read_some(struct decoder *d, struct err *fault)
{
    struct run *waiting[PROMPT_PARTS];
    if (!prompts_waiting(d, waiting))
        return true;
    for (int i = 0; i < d->n_runs; i++)
        if (d->runs[i]->begun)
            drafter_disturbed(d->runs[i]->drafter);
    group_disturbed(&d->group);
    return read_chunk(waiting[0], fault);
}

/* Lists the answers that take part in the next step: as many as it has rows, those that waited longest first. */
static int next_to_step(const struct decoder *d, struct run *in[STEP_ROWS]) { return earliest(d, RUN_STEPS, moved_at, in, STEP_ROWS); }

/* Stops the runs whose stop() hook returns true, and finishes all that have ended.  False on a device fault. */
static bool end_stopped(struct decoder *d, struct err *fault)
{
    for (int i = 0; i < d->n_runs; i++)
        if (d->runs[i]->h.stop(d->runs[i]->h.arg))
            stop(d->runs[i]);
    return end_ended(d, fault);
}

bool decoder_end_stopped(struct decoder *d, struct err *fault)
{
    const bool ok = end_stopped(d, fault);
    if (!ok)
        decoder_fail(d, fault);
    return ok;
}

bool decoder_turn(struct decoder *d, struct err *fault)
{
    struct run *in[STEP_ROWS];
    bool ok = end_stopped(d, fault);
    const int n = ok ? next_to_step(d, in) : 0;
    ok = ok && read_some(d, fault);
    if (ok && n > 1)
        ok = step_together(in, n, fault);
    else if (ok && n)
        ok = step_alone(in[0], d->n_runs == 1, fault);
    ok = ok && end_ended(d, fault);
    if (!ok)
        decoder_fail(d, fault);
    return ok;
}

bool decoder_answer(struct decoder *d, const struct prompt *p, const struct decoder_hooks *h, struct outcome *out, struct err *fault)
{
    bool ok = true;
    decoder_begin(d, p, h, out);
    while (ok && d->n_runs)
        ok = decoder_turn(d, fault);
    return ok;
}
