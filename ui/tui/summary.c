#include "ui/tui/summary.h"

#include <stdio.h>
#include <string.h>

#include "ui/tui/app.h"
#include "ui/tui/browse.h"
#include "ui/tui/figure.h"
#include "ui/tui/input.h"

/* --- status ----------------------------------------------------------------------------------------------------- */

static const char *hint(struct app *a)
{
    const struct window *w = window_at(window_active(&a->host));
    if (w->hint)
        return w->hint(&a->host);
    if (host_busy(&a->host))
        return a->host.phase.kind == PHASE_THINKING ? "Alt-T answer now, ^C stop\t^C stop" : "^C stop\t^C";
    if (chat_proposes(a->host.chat, NULL))
        return "Enter takes it, Esc leaves it\tEnter takes it";
    if (chat_edited(a->host.chat) >= 0)
        return "Enter replaces what is dim, Esc leaves it\tEsc leaves it";
    return input_state(&a->host)->queue.held ? "Enter sends what waits\tEnter sends" : a->host.phase.kind == PHASE_DEAD ? "/export, /quit" : "F1 keys";
}

static const char *state(struct app *a)
{
    const struct window *w = window_at(window_active(&a->host));
    int n = chat_n_messages(a->host.chat) - chat_edited(a->host.chat);
    if (w->state && w->state(&a->host, a->said.state, sizeof a->said.state))
        return a->said.state;
    if (chat_edited(a->host.chat) >= 0)
        snprintf(a->said.state, sizeof a->said.state, "editing, replaces %d message%s", n, n == 1 ? "" : "s");
    else if (a->host.phase.kind == PHASE_CALLING && !a->host.phase.asking && !a->host.phase.stopping)
        snprintf(a->said.state, sizeof a->said.state, "running %s", a->host.phase.tool);
    else
        snprintf(a->said.state, sizeof a->said.state, "%s", phase_name(&a->host.phase));
    return a->said.state;
}

static void add_sign(struct buf *signs, bool on, const char *sign)
{
    if (on)
        buf_addf(signs, signs->len ? " %s" : "%s", sign);
}

static const char *signs(struct app *a)
{
    static const char *const heat[] = {"", "HEAT", "HEAT"};
    buf_reset(&a->said.signs);
    add_sign(&a->said.signs, a->host.typing.behind_ctrl_x, "^X");
    add_sign(&a->said.signs, a->host.looks.raw, "RAW");
    add_sign(&a->said.signs, a->host.looks.heat.shown != HEAT_NONE, heat[a->host.looks.heat.shown]);
    add_sign(&a->said.signs, !options_on(a->host.o, OPT_think), "NO-THINK");
    add_sign(&a->said.signs, options_off(a->host.o, OPT_save) || chat_unsaved(a->host.chat), "NO-SAVE");
    return a->said.signs.len ? a->said.signs.data : NULL;
}

static void put_drafts(const struct chat_stats *t, int *drafted, int *accepted)
{
    *drafted = *accepted = 0;
    for (int i = 0; i < CHAT_MAX_DEPTH; i++) {
        *drafted += t->drafted[i];
        *accepted += t->accepted[i];
    }
}

/* The first token of a request comes from the prompt, not from a step. */
static double per_step(const struct chat_stats *t)
{
    return t->n_steps ? (double)(t->n_tokens - t->n_rounds) / t->n_steps : 0;
}

/* Tokens come just now: not while a tool runs, or asks. */
static bool flows(const struct app *a)
{
    return a->host.phase.kind == PHASE_THINKING || a->host.phase.kind == PHASE_ANSWERING;
}

static void put_speed(const struct app *a, struct status *s)
{
    const struct chat_stats *t = host_busy(&a->host) ? &a->figures.turn : chat_last_stats(a->host.chat);
    if (a->host.phase.kind == PHASE_READING)
        s->read_tok_s = a->figures.progress.total ? progress_rate(&a->figures.progress) : 0;
    else
        s->tok_s = flows(a) ? a->figures.tok_s : t->tok_s;
    put_drafts(t, &s->drafted, &s->accepted);
    s->per_step = per_step(t);
}

/* Of the last turn: what was read and what was said, each with its seconds; joules.  In short what was said. */
static const char *cost(struct app *a)
{
    const struct chat_stats *t = chat_last_stats(a->host.chat);
    buf_reset(&a->said.cost);
    if (host_busy(&a->host) || !t->n_tokens || !options_on(a->host.o, OPT_stats))
        return NULL;
    figure_turn(&a->said.cost, t->n_prompt - t->n_cached, t->prefill_ms, t->n_tokens, t->decode_ms);
    if (t->joules > 0) {
        buf_adds(&a->said.cost, ", ");
        figure_joules(&a->said.cost, t->joules);
    }
    buf_addc(&a->said.cost, '\t');
    figure_turn(&a->said.cost, 0, 0, t->n_tokens, t->decode_ms);
    return a->said.cost.data;
}

static const char *sampling(struct app *a)
{
    buf_reset(&a->said.sampling);
    chat_sampling_name(a->host.chat, &a->said.sampling);
    return buf_str(&a->said.sampling);
}

void summary_status(struct app *a, struct status *s)
{
    const struct phase *p = &a->host.phase;
    int hit, n_hits;
    *s = (struct status){.state = "opening"};
    if (!a->host.chat)
        return;
    s->state = state(a);
    s->hint = hint(a);
    bool moves = p->kind == PHASE_LOADING || p->kind == PHASE_READING;
    s->timed = p->turn || p->kind == PHASE_LOADING;
    s->state_s = (int)((a->host.ms - p->since_ms) / 1000);
    if (moves && a->figures.progress.total)
        s->percent = progress_percent(&a->figures.progress);
    s->ctx_used = a->figures.ctx.tokens;
    s->ctx_estimated = a->figures.ctx.estimated;
    s->ctx_total = chat_info(a->host.chat) ? chat_info(a->host.chat)->n_ctx : 0;
    s->session = chat_title(a->host.chat);
    s->queued = input_state(&a->host)->queue.n;
    s->below = pane_follows(a->host.pane) ? 0 : pane_below(a->host.pane);
    s->signs = signs(a);
    put_speed(a, s);
    if (browse_search(&a->host, &hit, &n_hits)) {
        snprintf(a->said.search, sizeof a->said.search, n_hits ? "hit %d of %d" : "not found", hit, n_hits);
        s->search = a->said.search;
    }
    s->sampling = sampling(a);
    s->cost = cost(a);
    s->recipe = chat_info(a->host.chat) ? chat_info(a->host.chat)->formats : NULL;
    s->memory_used = a->figures.machine.memory_used;
    s->memory_total = a->figures.machine.memory_total;
    if (!host_busy(&a->host) && !a->host.looks.panel)      /* it is not looked at: what was hot then may be cool now */
        return;
    s->celsius = a->figures.machine.celsius;
    s->throttled = a->figures.machine.throttled;
    s->watts = a->figures.machine.watts;
}

/* --- panel ------------------------------------------------------------------------------------------------------ */

static const char *note_of(const char *what)
{
    return !strcmp(what, "system") || !strcmp(what, "tools") ? "pinned" : NULL;
}

static void put_context(struct app *a, struct panel *p)
{
    struct figures *f = &a->figures;
    int n = f->n_parts < MAX_PARTS ? f->n_parts : MAX_PARTS;
    for (int i = 0; i < n; i++) {
        const struct chat_part *part = &f->parts[f->n_parts - n + i];   /* the newest */
        a->said.parts[i] = (struct panel_part){part->what, part->label, part->tokens, note_of(part->what)};
    }
    p->parts = a->said.parts;
    p->n_parts = n;
    p->ctx_used = f->ctx.tokens;
    p->ctx_estimated = f->ctx.estimated;
    p->not_counted = f->not_counted;
    p->ctx_total = chat_info(a->host.chat) ? chat_info(a->host.chat)->n_ctx : 0;
}

/* Where the path stands beside others last: "2/3 of turn 1". */
static void put_branch(struct app *a, struct panel *p)
{
    int which, n = 1, turn = 0, i = chat_n_messages(a->host.chat);
    while (n < 2 && --i >= 0)
        n = chat_siblings(a->host.chat, i, &which);
    if (i < 0)
        return;
    for (int k = 0; k <= i; k++)
        turn += !strcmp(chat_message(a->host.chat, k).role, "user");
    snprintf(a->said.branch, sizeof a->said.branch, "%d/%d of turn %d", which + 1, n, turn);
    p->branch = a->said.branch;
}

static void put_speeds(struct app *a, struct panel *p, const struct chat_stats *t)
{
    const struct chat_stats *now = &a->figures.recent;
    p->decode_tok_s = (struct panel_pair){flows(a) ? a->figures.tok_s : 0, t->tok_s};
    if (a->host.phase.kind == PHASE_READING && a->figures.progress.total)
        p->prefill_tok_s.now = progress_rate(&a->figures.progress);
    if (t->prefill_ms > 0)
        p->prefill_tok_s.turn = (t->n_prompt - t->n_cached) * 1000 / t->prefill_ms;
    put_drafts(t, &p->accept_turn.drafted, &p->accept_turn.accepted);
    p->per_step.turn = per_step(t);
    p->step_ms.turn = t->n_steps ? t->decode_ms / t->n_steps : 0;
    if (flows(a) && now->n_steps) {
        put_drafts(now, &p->accept_now.drafted, &p->accept_now.accepted);
        p->per_step.now = per_step(now);
        p->step_ms.now = now->decode_ms / now->n_steps;
    }
    p->steps = a->figures.steps.ms;
    p->n_steps = a->figures.steps.n;
}

static void put_turn(struct app *a, struct panel *p)
{
    bool busy = host_busy(&a->host);
    const struct chat_stats *t = busy ? &a->figures.turn : chat_last_stats(a->host.chat);
    put_speeds(a, p, t);
    p->turn_s = busy ? (double)(a->host.ms - a->host.phase.since_ms) / 1000 : t->wall_ms / 1000;
    p->turn_tokens = t->n_tokens;
    p->joules = busy ? 0 : t->joules;
}

static const char *think(struct app *a)
{
    int budget = options_int(a->host.o, OPT_think_budget);
    if (!options_on(a->host.o, OPT_think))
        return "off";
    snprintf(a->said.think, sizeof a->said.think, budget ? "on, budget %d" : "on", budget);
    return a->said.think;
}

void summary_panel(struct app *a, struct panel *p)
{
    *p = (struct panel){0};
    if (!a->host.chat)
        return;
    const struct chat_info *info = chat_info(a->host.chat);
    p->session = chat_title(a->host.chat);
    p->model = info ? info->model : NULL;
    p->think = think(a);
    p->sampling = sampling(a);
    p->recipe = info ? info->formats : NULL;
    put_branch(a, p);
    put_context(a, p);
    put_turn(a, p);
    p->memory_used = a->figures.machine.memory_used;
    p->memory_total = a->figures.machine.memory_total;
    p->celsius = a->figures.machine.celsius;
    p->watts = a->figures.machine.watts;
    p->throttled = a->figures.machine.throttled;
    p->snapshots = a->figures.machine.snapshots;
    p->snapshots_max = a->figures.machine.snapshots_max;
    p->disk = options_off(a->host.o, OPT_save) ? "not kept" : chat_unsaved(a->host.chat) ? "NOT SAVED" : chat_saved_as(a->host.chat) ? "saved" : NULL;
}

void summary_free(struct summary *s)
{
    buf_free(&s->signs);
    buf_free(&s->sampling);
    buf_free(&s->cost);
}
