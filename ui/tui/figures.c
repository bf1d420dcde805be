#include "ui/tui/figures.h"

#include <stdio.h>
#include <string.h>

#include "chat/command.h"
#include "ui/tui/input.h"
#include "ui/tui/numbers.h"
#include "ui/tui/windows.h"

void steps_begin(struct steps *s)
{
    *s = (struct steps){0};
}

void steps_add(struct steps *s, const struct stats *now)
{
    int n = now->n_steps - s->last.n_steps;
    double ms = now->decode_ms - s->last.decode_ms;
    for (int i = 0; i < n && i < STEPS_KEPT && ms > 0; i++) {
        if (s->n == STEPS_KEPT)
            memmove(s->ms, s->ms + 1, (STEPS_KEPT - 1) * sizeof *s->ms);
        else
            s->n++;
        s->ms[s->n - 1] = (float)(ms / n);
    }
    s->last = *now;
}

void steps_sample(struct steps *s, const struct stats *now)
{
    s->samples[s->n_samples++ % STEPS_SAMPLES] = *now;
}

void steps_recent(const struct steps *s, struct stats *out)
{
    const struct stats *old = s->n_samples > STEPS_SAMPLES ? &s->samples[s->n_samples % STEPS_SAMPLES] : &s->samples[0];
    *out = stats_between(old, &s->last);
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

enum { SAMPLE_MS = 200, MACHINE_MS = 1000 };

void figures_follow(struct figures *f, struct host *h)
{
    if (h->recount && h->chat) {
        f->n_parts = chat_context(h->chat, &f->parts);
        f->ctx = chat_context_used(h->chat);
        f->not_counted = chat_not_counted(h->chat);
        h->recount = false;
    }
    if (f->n_turns != h->n_turns)
        steps_begin(&f->steps);
    f->n_turns = h->n_turns;
}

void figures_came(struct figures *f, struct host *h)
{
    struct stats now;
    figures_follow(f, h);
    chat_stats_now(h->chat, &now);
    steps_add(&f->steps, &now);
}

static bool shows_machine(const struct host *h)
{
    return h->chat && (h->looks.panel || host_busy(h));
}

void figures_sample(struct figures *f, struct host *h)
{
    figures_follow(f, h);
    if (h->ms - f->sampled_ms < SAMPLE_MS && f->phase == h->phase.kind)
        return;
    f->sampled_ms = h->ms;
    f->phase = h->phase.kind;
    f->progress = h->phase.progress;
    f->tok_s = rate_now(&h->phase.rate, h->ms);
    if (h->chat)
        chat_stats_now(h->chat, &f->turn);
    if (host_busy(h)) {
        f->ctx = chat_context_used(h->chat);
        steps_sample(&f->steps, &f->turn);
        steps_recent(&f->steps, &f->recent);
    }
    if (shows_machine(h) && h->ms - f->machine_ms >= MACHINE_MS) {
        f->machine_ms = h->ms;
        chat_machine(h->chat, &f->machine);
    }
}

int figures_timeout(const struct figures *f, const struct host *h)
{
    int64_t sample_ms = f->sampled_ms + SAMPLE_MS - h->ms, machine_ms = f->machine_ms + MACHINE_MS - h->ms;
    int64_t soonest = -1;
    if (shows_machine(h))
        soonest = machine_ms > sample_ms ? machine_ms : sample_ms;
    if (host_busy(h) || h->phase.kind == PHASE_LOADING)
        soonest = sample_ms;            /* never later than the machine's */
    else if (soonest < 0 && !shows_machine(h))
        return -1;
    return soonest > 0 ? (int)soonest : 0;
}

/* --- status ----------------------------------------------------------------------------------------------------- */

/* True if the draft is a message, not a command. */
static bool has_message(struct host *h)
{
    struct buf draft = {0};
    const char *argument;
    editor_text(h->line[WINDOW_input], &draft);
    bool yes = draft.len && !command_name(draft.data, &argument);
    buf_free(&draft);
    return yes;
}

/* Returns the hint about Enter and Esc while no answer is under way, in the order in which act_send() and act_go_on() decide. */
static const char *enter_now(struct summary *sum)
{
    struct chat *c = sum->host->chat;
    const struct queue *q = &input_state(sum->host)->queue;
    bool draft = !editor_empty(sum->host->line[WINDOW_input]);
    if (chat_edited(c) >= 0)
        return draft ? "Enter replaces what is dim, Esc cancels\tEsc cancels" : "Enter or Esc cancels\tEsc cancels";
    if (chat_proposes(c, NULL))
        return draft ? "Esc discards the summary\tEsc discards" : "Enter accepts, Esc discards\tEnter accepts";
    if (draft && q->n && q->held && has_message(sum->host)) {
        snprintf(sum->hint, sizeof sum->hint, "Enter sends this, then %d held\tEnter sends this", q->n);
        return sum->hint;
    }
    if (draft)
        return "F1 keys";
    if (q->n)
        return q->n > 1 ? "Enter sends the held messages\tEnter sends them" : "Enter sends the held message\tEnter sends it";
    switch (chat_rest(c)) {
    case CHAT_WHOLE:      return "F1 keys";
    case CHAT_STOPPED:
    case CHAT_CUT:        return "Enter continues";
    case CHAT_UNANSWERED: return "Enter answers it";
    default:              return "Enter answers again";
    }
}

/* Returns the hint at keys for the status line, long form and short form apart by a tab. */
static const char *keys_now(struct summary *sum)
{
    const struct window *w = sum->host->windows[window_active(sum->host)];
    if (w->hint_now)
        return w->hint_now(sum->host);
    if (w->hint)
        return w->hint;
    if (host_busy(sum->host))
        return sum->host->phase.kind == PHASE_THINKING ? "Alt-T answer now, ^C stop\t^C stop" : "^C stop\t^C";
    return sum->host->phase.kind == PHASE_DEAD ? "/export, /quit" : enter_now(sum);
}

/* Returns the word for what the program does, for the status line. */
static const char *state(struct summary *sum)
{
    const struct window *w = sum->host->windows[window_active(sum->host)];
    int n = chat_n_messages(sum->host->chat) - chat_edited(sum->host->chat);
    if (w->state && w->state(sum->host, sum->state, sizeof sum->state))
        return sum->state;
    if (chat_edited(sum->host->chat) >= 0)
        snprintf(sum->state, sizeof sum->state, "editing, replaces %d message%s", n, n == 1 ? "" : "s");
    else if (sum->host->phase.kind == PHASE_CALLING && !sum->host->phase.asking && !sum->host->phase.stopping)
        snprintf(sum->state, sizeof sum->state, "running %s", sum->host->phase.tool);
    else
        snprintf(sum->state, sizeof sum->state, "%s", phase_name(&sum->host->phase));
    return sum->state;
}

static void add_sign(struct buf *signs, bool on, const char *sign)
{
    if (on)
        buf_addf(signs, signs->len ? " %s" : "%s", sign);
}

/* Returns the signs of unusual settings, or NULL. */
static const char *signs(struct summary *sum)
{
    static const char *const heat[] = {"", "HEAT", "HEAT"};
    buf_reset(&sum->signs);
    add_sign(&sum->signs, sum->host->typing.behind_ctrl_x, "^X");
    add_sign(&sum->signs, sum->host->looks.raw, "RAW");
    add_sign(&sum->signs, sum->host->looks.heat.shown != HEAT_NONE, heat[sum->host->looks.heat.shown]);
    add_sign(&sum->signs, !options_on(sum->host->o, OPT_think), "NO-THINK");
    add_sign(&sum->signs, *options_text(sum->host->o, OPT_schema), "SCHEMA");
    add_sign(&sum->signs, *options_text(sum->host->o, OPT_pattern), "PATTERN");
    add_sign(&sum->signs, *options_text(sum->host->o, OPT_choices), "CHOICES");
    add_sign(&sum->signs, options_on(sum->host->o, OPT_private), "PRIVATE");
    add_sign(&sum->signs, options_off(sum->host->o, OPT_save) || chat_unsaved(sum->host->chat), "NO-SAVE");
    return sum->signs.len ? sum->signs.data : NULL;
}

/* True while tokens come: not while a tool runs, or asks. */
static bool flows(struct summary *sum)
{
    return sum->host->phase.kind == PHASE_THINKING || sum->host->phase.kind == PHASE_ANSWERING;
}

/* Returns the cost of the last turn: tokens read and answered, each with its seconds, and joules; after a tab the short form, the answer alone. */
static const char *cost(struct summary *sum)
{
    const struct stats *t = chat_last_stats(sum->host->chat);
    buf_reset(&sum->cost);
    if (host_busy(sum->host) || !t->n_tokens || !options_on(sum->host->o, OPT_stats))
        return NULL;
    number_turn(&sum->cost, t->n_prompt - t->n_cached, t->prefill_ms, t->n_tokens, t->decode_ms);
    if (t->joules > 0) {
        buf_adds(&sum->cost, ", ");
        number_joules(&sum->cost, t->joules);
    }
    buf_addc(&sum->cost, '\t');
    number_turn(&sum->cost, 0, 0, t->n_tokens, t->decode_ms);
    return sum->cost.data;
}

static const char *sampling(struct summary *sum)
{
    buf_reset(&sum->sampling);
    chat_sampling_name(sum->host->chat, &sum->sampling);
    return buf_str(&sum->sampling);
}

void summary_status(struct summary *sum, struct status *s)
{
    const struct phase *p = &sum->host->phase;
    int hit, n_hits;
    *s = (struct status){.state = "opening"};
    if (!sum->host->chat)
        return;
    s->parts = options_text(sum->host->o, OPT_status);
    s->state = state(sum);
    s->hint = keys_now(sum);
    bool moves = p->kind == PHASE_LOADING || p->kind == PHASE_READING;
    s->timed = p->turn || p->kind == PHASE_LOADING;
    s->state_s = phase_seconds(p, sum->host->ms);
    if (moves && sum->figures->progress.total)
        s->percent = progress_percent(&sum->figures->progress);
    s->ctx_used = sum->figures->ctx.tokens;
    s->ctx_estimated = sum->figures->ctx.estimated;
    s->ctx_total = chat_info(sum->host->chat) ? chat_info(sum->host->chat)->n_ctx : 0;
    s->session = chat_title(sum->host->chat);
    s->queued = input_state(sum->host)->queue.n;
    s->held = input_state(sum->host)->queue.held;
    s->below = sum->host->pane->follows ? 0 : pane_below(sum->host->pane);
    s->signs = signs(sum);
    const struct stats *t = host_busy(sum->host) ? &sum->figures->turn : chat_last_stats(sum->host->chat);
    if (sum->host->phase.kind == PHASE_READING)
        s->read_tok_s = sum->figures->progress.total ? progress_rate(&sum->figures->progress) : 0;
    else
        s->tok_s = flows(sum) ? sum->figures->tok_s : stats_tok_s(t);
    for (int by = 0; by < DRAFT_SOURCES; by++)
        s->drafts[by] = stats_drafts(t, (enum draft_source)by);
    s->per_step = stats_tokens_per_step(t);
    s->gb_token = stats_gb_per_token(t);
    if (browse_search(sum->host, &hit, &n_hits)) {
        snprintf(sum->search, sizeof sum->search, n_hits ? "hit %d of %d" : "not found", hit, n_hits);
        s->search = sum->search;
    }
    s->sampling = sampling(sum);
    s->cost = cost(sum);
    s->recipe = chat_info(sum->host->chat) ? chat_info(sum->host->chat)->formats : NULL;
    s->slow = chat_info(sum->host->chat) && chat_info(sum->host->chat)->slow;
    s->machine = sum->figures->machine;
    if (!host_busy(sum->host) && !sum->host->looks.panel)      /* the machine is not sampled now: all but its memory is old */
        s->machine = (struct machine_figures){.memory_used = s->machine.memory_used, .memory_total = s->machine.memory_total};
}

/* --- panel ------------------------------------------------------------------------------------------------------ */

/* Returns the sign of a part, as in the list of /context. */
static const char *note_of(const struct chat_part *part)
{
    if (!strcmp(part->what, "system") || !strcmp(part->what, "tools"))
        return "pinned";
    return part->mark == CHAT_PINNED ? "*" : part->mark == CHAT_DROPPED ? "-" : NULL;
}

/* Sets the branch, the last message with siblings: "2/3 of turn 1". */
static void put_branch(struct summary *sum, struct panel *p)
{
    int which, n = 1, turn = 0, i = chat_n_messages(sum->host->chat);
    while (n < 2 && --i >= 0)
        n = chat_siblings(sum->host->chat, i, &which);
    if (i < 0)
        return;
    for (int k = 0; k <= i; k++)
        turn += !strcmp(chat_message(sum->host->chat, k).role, "user");
    snprintf(sum->branch, sizeof sum->branch, "%d/%d of turn %d", which + 1, n, turn);
    p->branch = sum->branch;
}

/* Fills in the speeds of the panel: now, and over the turn. */
static void put_speeds(struct summary *sum, struct panel *p, const struct stats *t)
{
    const struct stats *now = &sum->figures->recent;
    p->decode_tok_s = (struct panel_pair){flows(sum) ? sum->figures->tok_s : 0, stats_tok_s(t)};
    if (sum->host->phase.kind == PHASE_READING && sum->figures->progress.total)
        p->prefill_tok_s.now = progress_rate(&sum->figures->progress);
    if (t->prefill_ms > 0)
        p->prefill_tok_s.turn = (t->n_prompt - t->n_cached) * 1000 / t->prefill_ms;
    for (int by = 0; by < DRAFT_SOURCES; by++) {
        p->drafts_turn[by] = stats_drafts(t, (enum draft_source)by);
        if (flows(sum) && now->n_steps)
            p->drafts_now[by] = stats_drafts(now, (enum draft_source)by);
    }
    p->per_step.turn = stats_tokens_per_step(t);
    p->step_ms.turn = t->n_steps ? t->decode_ms / t->n_steps : 0;
    if (flows(sum) && now->n_steps) {
        p->per_step.now = stats_tokens_per_step(now);
        p->step_ms.now = now->decode_ms / now->n_steps;
    }
    p->steps = sum->figures->steps.ms;
    p->n_steps = sum->figures->steps.n;
}

static const char *think(struct summary *sum)
{
    int budget = options_int(sum->host->o, OPT_think_budget);
    if (!options_on(sum->host->o, OPT_think))
        return "off";
    snprintf(sum->think, sizeof sum->think, budget ? "on, budget %d" : "on", budget);
    return sum->think;
}

void summary_panel(struct summary *sum, struct panel *p)
{
    *p = (struct panel){0};
    if (!sum->host->chat)
        return;
    const struct model_info *info = chat_info(sum->host->chat);
    p->session = chat_title(sum->host->chat);
    p->model = info ? info->model : NULL;
    p->think = think(sum);
    p->sampling = sampling(sum);
    p->recipe = info ? info->formats : NULL;
    put_branch(sum, p);
    const struct figures *f = sum->figures;
    int n = f->n_parts < MAX_PARTS ? f->n_parts : MAX_PARTS;
    for (int i = 0; i < n; i++) {
        const struct chat_part *part = &f->parts[f->n_parts - n + i];   /* the newest */
        sum->parts[i] = (struct panel_part){part->what, part->label, part->tokens, note_of(part)};
    }
    p->parts = sum->parts;
    p->n_parts = n;
    p->ctx_used = f->ctx.tokens;
    p->ctx_estimated = f->ctx.estimated;
    p->not_counted = f->not_counted;
    p->ctx_total = chat_info(sum->host->chat) ? chat_info(sum->host->chat)->n_ctx : 0;
    bool busy = host_busy(sum->host);
    const struct stats *t = busy ? &sum->figures->turn : chat_last_stats(sum->host->chat);
    put_speeds(sum, p, t);
    p->turn_s = busy ? (double)(sum->host->ms - sum->host->phase.since_ms) / 1000 : t->wall_ms / 1000;
    p->turn_tokens = t->n_tokens;
    p->joules = busy ? 0 : t->joules;
    p->machine = f->machine;
    p->disk = options_off(sum->host->o, OPT_save) ? "not kept"
            : chat_unsaved(sum->host->chat) ? "NOT SAVED" : chat_saved_as(sum->host->chat) ? "saved" : NULL;
}

void summary_free(struct summary *sum)
{
    buf_free(&sum->signs);
    buf_free(&sum->sampling);
    buf_free(&sum->cost);
}
