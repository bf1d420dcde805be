#include "ui/tui/status.h"

#include <string.h>

#include "base/buf.h"
#include "base/least.h"
#include "ui/tui/numbers.h"

enum {
    TINY = 60,                          /* columns below which only what matters most is shown, in short */
    WIDE = 110,                         /* columns from which there is room for what can be known otherwise */
    GAP = 2,                            /* blanks between items */
    LEAST_SESSION = 12, GOOD_SESSION = 20,      /* columns to which it may be cut; for what matters less than it */
    BAR = 10,                           /* columns of the context bar without its brackets */
    LAST_PRIORITY = 12, HIDDEN = 99,
    MAX_ITEMS = 24,
};

/* An item of the line, in a long form and maybe a short one. */
struct saying {
    int  priority;
    bool right, shown, brief;
    bool elastic;                       /* it may be cut */
    struct look look;
    struct buf text, less;
};

struct row {
    struct saying at[MAX_ITEMS];
    int n;
    const char *parts;                  /* names of those that are shown, with blanks between; empty: all */
};

enum part {
#define PART(name, help) PART_##name,
#include "config/status.def"
#undef PART
};
static const char *const part_names[] = {
#define PART(name, help) #name,
#include "config/status.def"
#undef PART
};

/* Returns the next item to fill.  Priorities are those of status.h, but state and signs come first; of equal ones the first gets the better place. */
static struct saying *say(struct row *r, int priority)
{
    struct saying *s = &r->at[r->n++];
    *s = (struct saying){.priority = priority, .look = {STYLE_figures, 0}};
    return s;
}

/* Begins an item that the option `status` may leave out. */
static struct saying *say_part(struct row *r, int priority, enum part part)
{
    size_t n = strlen(part_names[part]);
    bool chosen = !*r->parts;
    for (const char *p = r->parts; *p && !chosen; p += strcspn(p, " "), p += strspn(p, " "))
        chosen = strcspn(p, " ") == n && !memcmp(p, part_names[part], n);
    return say(r, chosen ? priority : HIDDEN);
}

/* Splits a text at its tab into the long and the short form; without a tab it is the long form. */
static void say_long_and_short(struct saying *it, const char *both)
{
    const char *tab = strchr(both, '\t');
    buf_add(&it->text, both, tab ? (size_t)(tab - both) : strlen(both));
    buf_adds(&it->less, tab ? tab + 1 : "");
}

/* Adds the state, with time and percent. */
static void say_state(struct row *r, const struct status *s)
{
    const char *state = s->state ? s->state : "";
    struct saying *it = say(r, 0);
    it->look.style = STYLE_status;
    buf_adds(&it->text, state);
    buf_adds(&it->less, state);
    if (s->timed) {
        buf_addc(&it->text, ' ');
        number_clock(&it->text, s->state_s);
    }
    if (s->percent > 0)
        buf_addf(&say(r, 2)->text, "%d%%", s->percent);
}

/* Adds speed, acceptance, tokens a step and traffic. */
static void say_speed(struct row *r, const struct status *s)
{
    double rate = s->read_tok_s > 0 ? s->read_tok_s : s->tok_s;
    if (rate > 0) {
        struct buf *text = &say_part(r, 3, PART_speed)->text;
        number_rate(text, rate);
        buf_adds(text, " tok/s");
    }
    for (int by = 0; by < DRAFT_SOURCES; by++)
        if (s->drafts[by].drafted > 0 && (by == DRAFT_MTP || s->drafts[by].accepted > 0))
            buf_addf(&say_part(r, s->timed ? 5 : 6, PART_accept)->text, "%s %d%%", drafts_share_name(by),
                     (int)(100 * drafts_share(s->drafts[by]) + 0.5));
    if (s->per_step >= 1.05)            /* less is shown as 1.0, as without drafts */
        buf_addf(&say_part(r, 7, PART_steps)->text, "%.1f tok/step", s->per_step);
    if (s->gb_token > 0)
        buf_addf(&say_part(r, 8, PART_traffic)->text, s->gb_token < 0.1 ? "%.1f MB/tok" : "%.1f GB/tok", s->gb_token * (s->gb_token < 0.1 ? 1e3 : 1));
}

/* Adds the context.  The percentage repeats what the bar shows, for the first look. */
static void say_context(struct row *r, const struct status *s, int columns)
{
    if (s->ctx_total <= 0)
        return;
    int percent = (int)(100.0 * s->ctx_used / s->ctx_total), full = (int)((double)BAR * s->ctx_used / s->ctx_total + 0.5);
    struct saying *it = say_part(r, 2, PART_ctx);
    it->look.style = percent >= 90 ? STYLE_status_bad : percent >= 75 ? STYLE_status_warn : STYLE_figures;
    buf_adds(&it->text, s->ctx_estimated ? "ctx ~" : "ctx ");
    number_tokens(&it->text, s->ctx_used);
    buf_addc(&it->text, '/');
    number_context(&it->text, s->ctx_total);
    buf_addf(&it->text, " %d%%", percent);
    buf_addf(&it->less, "%d%%", percent);
    if (columns < WIDE)
        return;
    struct saying *bar = say_part(r, 12, PART_bar);
    bar->look = it->look;
    buf_addc(&bar->text, '[');
    for (int i = 0; i < BAR; i++)
        buf_addc(&bar->text, i < full ? '#' : '-');
    buf_addc(&bar->text, ']');
}

/* Adds cost, sampling, memory, warnings, temperature, power and formats. */
static void say_machine(struct row *r, const struct status *s, int columns)
{
    const struct machine_figures *m = &s->machine;
    const double gib = 1 << 30;
    if (s->cost && *s->cost)
        say_long_and_short(say_part(r, 6, PART_turn), s->cost);
    buf_adds(&say_part(r, 7, PART_sampling)->text, s->sampling ? s->sampling : "");
    if (m->memory_used > 0 && m->memory_total > 0)
        buf_addf(&say_part(r, 8, PART_memory)->text, "%.1f/%.0f GiB", m->memory_used / gib, m->memory_total / gib);
    if (*m->throttled) {
        struct saying *it = say(r, 2);
        it->look.style = STYLE_status_warn;
        buf_addf(&it->text, "throttled: %s", m->throttled);
        buf_adds(&it->less, "throttled");
    }
    if (s->slow) {
        struct saying *it = say(r, 2);
        it->look.style = STYLE_status_warn;
        buf_adds(&it->text, "slow memory: /stats");
        buf_adds(&it->less, "slow memory");
    }
    if (m->celsius > 0)
        buf_addf(&say_part(r, 9, PART_machine)->text, "%d C", m->celsius);
    if (m->watts > 0)
        buf_addf(&say_part(r, 10, PART_machine)->text, "%.0f W", m->watts);
    if (s->recipe && *s->recipe && columns >= WIDE) {
        struct saying *it = say_part(r, 11, PART_formats);
        const char *comma = strrchr(s->recipe, ',');
        buf_adds(&it->text, s->recipe);
        buf_adds(&it->less, comma ? comma + strspn(comma, ", ") : "");
    }
}

/* Adds how far the view is above the end, and the search. */
static void say_view(struct row *r, const struct status *s)
{
    if (s->below > 0) {
        struct saying *it = say(r, 1);
        buf_adds(&it->text, "-- ");
        number_count(&it->text, s->below);
        buf_adds(&it->text, s->below == 1 ? " more line, End to follow --" : " more lines, End to follow --");
        number_count(&it->less, s->below);
        buf_adds(&it->less, " below");
    }
    if (s->search)
        buf_adds(&say(r, 1)->text, s->search);
}

/* Adds the items at the right: title, signs, queue, hint. */
static void say_right(struct row *r, const struct status *s)
{
    int first = r->n;
    if (s->session && *s->session) {
        struct saying *it = say_part(r, 5, PART_title);
        it->elastic = true;
        buf_adds(&it->text, s->session);
    }
    if (s->signs && *s->signs) {
        struct saying *it = say(r, 0);
        it->look.style = STYLE_status_warn;
        buf_adds(&it->text, s->signs);
    }
    if (s->queued > 0) {
        struct saying *it = say(r, 1);
        buf_addf(&it->text, s->held ? "%d held" : "%d queued (Alt-Up edits)", s->queued);
        buf_addf(&it->less, s->held ? "%d held" : "%d queued", s->queued);
    }
    if (s->hint && *s->hint) {
        struct saying *it = say(r, 4);
        it->look.style = STYLE_status;
        say_long_and_short(it, s->hint);
    }
    for (int i = first; i < r->n; i++)
        r->at[i].right = true;
}

/* --- what there is room for --- */

static const struct buf *form(const struct saying *s)
{
    return s->brief && s->less.len ? &s->less : &s->text;
}

static int columns_of(const struct saying *s)
{
    return glyph_columns(buf_str(form(s)), form(s)->len);
}

static int least_columns(const struct saying *s, int cut)
{
    int n = columns_of(s);
    return s->elastic && n > cut ? cut : n;
}

/* Returns the width of the items that are shown, with the title cut to `cut` columns. */
static int width(const struct row *r, int cut)
{
    int n = 2;                          /* a blank at either end */
    bool any = false;
    for (int i = 0; i < r->n; i++) {
        int k = r->at[i].shown ? least_columns(&r->at[i], cut) : 0;
        n += k ? k + (any ? GAP : 0) : 0;
        any |= k > 0;
    }
    return n;
}

/* Shows the items of a priority that fit beside a title of `cut` columns; false: not all did. */
static bool show(struct row *r, int priority, bool brief, int columns, int cut)
{
    bool all = true;
    for (int i = 0; i < r->n; i++) {
        struct saying *s = &r->at[i], before = *s;
        if (s->priority != priority)
            continue;
        s->shown = true;
        s->brief = brief;
        if (width(r, cut) > columns && (priority || !brief)) {
            s->shown = before.shown;
            s->brief = before.brief;
            all = false;
        }
    }
    return all;
}

/* Chooses items and forms: first everything that matters, in short; then in full; then the rest, until an item does not fit. */
static void fit(struct row *r, int columns)
{
    for (int priority = 0; priority < 5; priority++)
        if (columns >= TINY || priority != 3)
            show(r, priority, true, columns, LEAST_SESSION);
    if (columns < TINY)
        return;
    for (int priority = 0; priority < 5; priority++)
        show(r, priority, false, columns, LEAST_SESSION);
    for (int priority = 5; priority <= LAST_PRIORITY && show(r, priority, true, columns, priority > 6 ? GOOD_SESSION : LEAST_SESSION);)
        priority++;
    for (int i = 0; i < r->n; i++)      /* what has a short form, in full */
        if (r->at[i].shown && r->at[i].less.len)
            show(r, r->at[i].priority, false, columns, GOOD_SESSION);
}

/* Draws an item; items that do not look like figures get a blank of their own look at either side. */
static int put(struct cells *c, struct area a, int col, const struct saying *s, int columns)
{
    const char *text = buf_str(form(s));
    size_t n = glyph_fit(text, form(s)->len, columns);
    bool whole = n == form(s)->len || columns < 4, block = s->look.style != STYLE_figures;
    if (!whole)
        n = glyph_fit(text, form(s)->len, columns - 3);
    if (block)
        cells_puts(c, a, 0, col - 1, s->look, " ");
    col = cells_put(c, a, 0, col, s->look, text, n);
    if (!whole)
        col = cells_puts(c, a, 0, col, s->look, "...");
    if (block)
        cells_puts(c, a, 0, col, s->look, " ");
    return col;
}

/* Draws the items; columns that are left over go to those that were cut. */
static void draw(struct row *r, struct cells *c, struct area a)
{
    int room = a.cols - width(r, LEAST_SESSION), used = 0, cut = room < 0 ? -room : 0, take[MAX_ITEMS] = {0};
    for (int i = 0; i < r->n; i++) {                    /* columns left over go to the items that were cut, from the left */
        const struct saying *s = &r->at[i];
        int most = s->shown ? columns_of(s) : 0, few = s->shown ? least_columns(s, LEAST_SESSION) : 0;
        take[i] = room <= 0 ? few : most > few + room ? few + room : most;
        room -= take[i] - few;
        used += s->right && take[i] ? take[i] + GAP : 0;
    }
    take[0] = take[0] > cut ? take[0] - cut : 0;        /* on the smallest screens even the state */
    int left = 1, right = a.cols - 1 - (used ? used - GAP : 0);
    for (int i = 0; i < r->n; i++) {
        int *col = r->at[i].right ? &right : &left;
        if (take[i])
            *col = put(c, a, *col, &r->at[i], take[i]) + GAP;
    }
}

void status_draw(const struct status *s, struct cells *c, struct area a)
{
    struct row r = {.parts = s->parts ? s->parts : ""};
    a.rows = a.rows > 1 ? 1 : a.rows;
    cells_blank(c, a, (struct look){STYLE_figures, 0});
    say_state(&r, s);
    say_speed(&r, s);
    say_context(&r, s, a.cols);
    say_machine(&r, s, a.cols);
    say_view(&r, s);
    say_right(&r, s);
    fit(&r, a.cols);
    draw(&r, c, a);
    for (int i = 0; i < r.n; i++) {
        buf_free(&r.at[i].text);
        buf_free(&r.at[i].less);
    }
}

void status_title(const struct status *s, struct buf *out)
{
    buf_adds(out, "q35chat");
    if (s->session && *s->session)
        buf_addf(out, ": %s", s->session);
}

/* --- the side panel ------------------------------------------------------------------------------------------------ */

static const struct look plain = {STYLE_text, 0}, dim = {STYLE_dim, 0}, head = {STYLE_heading, 0}, bar = {STYLE_bar, 0},
    warn = {STYLE_status_warn, 0};

/* The place of the next row. */
struct pen {
    struct cells *c;
    struct area a;              /* without the rule */
    int row;
    const char *section;        /* its heading, drawn before the first row */
    const char *figures;        /* figures to the right of the heading */
};

static void section(struct pen *p, const char *name)
{
    p->section = name;
    p->figures = NULL;
}

/* Draws the heading of a section in a row of its own. */
static void heading_alone(struct pen *p)
{
    p->row += p->row > 0;
    int col = cells_puts(p->c, p->a, p->row, 0, head, p->section);
    if (p->figures) {
        size_t all = strlen(p->figures);
        int room = p->a.cols - col - 2;
        bool cut = glyph_columns(p->figures, all) > room;
        col = cells_put(p->c, p->a, p->row, col + 2, plain, p->figures, cut ? glyph_fit(p->figures, all, room - 3) : all);
        if (cut)
            cells_puts(p->c, p->a, p->row, col, plain, "...");
    }
    p->row++;
    p->section = NULL;
}

/* Returns the next row; the heading of a section appears with its first row. */
static int next_row(struct pen *p)
{
    if (p->section)
        heading_alone(p);
    return p->row++;
}

static void text_row(struct pen *p, struct look look, const char *text)
{
    cells_puts(p->c, p->a, next_row(p), 0, look, text);
}

/* Draws a named value: "model   Qwen3.5-122B int4". */
static void named_row(struct pen *p, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    int row = next_row(p);
    cells_puts(p->c, p->a, row, 0, dim, name);
    cells_puts(p->c, p->a, row, 8, plain, value);
}

/* Draws text that ends at a column. */
static void right_at(struct pen *p, int row, int end, struct look look, const char *text)
{
    cells_puts(p->c, p->a, row, end - glyph_columns(text, strlen(text)), look, text);
}

/* Draws a row for each format. */
static void draw_recipe(struct pen *p, const char *recipe)
{
    const char *name = "weights";
    while (recipe && *recipe) {
        size_t n = strcspn(recipe, ",");
        int row = next_row(p);
        cells_puts(p->c, p->a, row, 0, dim, name);
        cells_put(p->c, p->a, row, 8, plain, recipe, n);
        recipe += n;
        recipe += strspn(recipe, ", ");
        name = "";
    }
}

/* Draws the section about the conversation. */
static void draw_session(struct pen *p, const struct panel *d)
{
    section(p, "SESSION");
    p->figures = d->session;
    if (d->session && *d->session)
        heading_alone(p);
    named_row(p, "model", d->model);
    named_row(p, "samples", d->sampling);
    named_row(p, "think", d->think);
    named_row(p, "branch", d->branch);
    draw_recipe(p, d->recipe);
}

/* Draws the bar of the context used. */
static void draw_bar(struct pen *p, int used, int total)
{
    char text[64];
    int n = p->a.cols - 3 < 24 ? p->a.cols - 3 : 24, row;
    if (n < 4)
        return;
    int full = (int)((double)n * used / total + 0.5);
    full = full > n ? n : full;
    memset(text, '#', (size_t)full);
    memset(text + full, '-', (size_t)(n - full));
    row = next_row(p);
    int col = cells_puts(p->c, p->a, row, 0, dim, "[");
    col = cells_put(p->c, p->a, row, col, bar, text, (size_t)full);
    col = cells_put(p->c, p->a, row, col, dim, text + full, (size_t)(n - full));
    cells_puts(p->c, p->a, row, col, dim, "]");
}

enum { LABEL = 8, NOTE = 6 };           /* where a part's label begins, as in other rows; columns of its note */

/* Draws a part of the context with its tokens. */
static void draw_part(struct pen *p, const struct panel_part *part)
{
    struct buf tokens = {0};
    struct area name = p->a;
    int row = next_row(p), note = most(p->a.cols - NOTE, 0), label_end = most(note - 7, 0);
    const char *what = part->what ? part->what : "", *label = part->label ? part->label : "";
    name.cols = least(label_end, *label ? LABEL - 1 : label_end);
    cells_puts(p->c, name, row, 0, dim, what);
    name.cols = label_end;
    cells_puts(p->c, name, row, *what ? LABEL : 0, plain, label);
    number_tokens(&tokens, part->tokens);
    right_at(p, row, note - 1, plain, tokens.data);
    cells_puts(p->c, p->a, row, note, dim, part->note ? part->note : "");
    buf_free(&tokens);
}

/* Draws the largest parts, in their order, if there is no room for all. */
static void draw_parts(struct pen *p, const struct panel *d, int room)
{
    struct buf rest = {0};
    int least = 0, shown = d->n_parts, hidden = 0, hidden_tokens = 0;
    while (shown > room) {              /* the smallest count that leaves few enough */
        int next = 0, n = 0;
        for (int i = 0; i < d->n_parts; i++)
            if (d->parts[i].tokens > least && (!next || d->parts[i].tokens < next))
                next = d->parts[i].tokens;
        if (!next)
            break;
        least = next;
        for (int i = 0; i < d->n_parts; i++)
            n += d->parts[i].tokens > least;
        shown = n + 1;                  /* and the row that says how many are not shown */
    }
    bool all = d->n_parts <= room;
    for (int i = 0; i < d->n_parts; i++) {
        if (all || d->parts[i].tokens > least) {
            draw_part(p, &d->parts[i]);
        } else {
            hidden++;
            hidden_tokens += d->parts[i].tokens;
        }
    }
    if (!hidden)
        return;
    buf_addf(&rest, "%d smaller", hidden);
    draw_part(p, &(struct panel_part){rest.data, NULL, hidden_tokens, NULL});
    buf_free(&rest);
}

/* Draws the section about the context, with as many parts as there is room for. */
static void draw_context(struct pen *p, const struct panel *d, int room)
{
    struct buf figures = {0}, text = {0};
    if (d->ctx_total <= 0)
        return;
    section(p, "CONTEXT");
    buf_adds(&figures, d->ctx_estimated ? "~" : "");
    number_tokens(&figures, d->ctx_used);
    buf_adds(&figures, " of ");
    number_context(&figures, d->ctx_total);
    buf_addf(&figures, "  %d%%", (int)(100.0 * d->ctx_used / d->ctx_total));
    p->figures = figures.data;
    draw_bar(p, d->ctx_used, d->ctx_total);
    draw_parts(p, d, room);
    if (d->not_counted > 0) {
        buf_adds(&text, "(thinking ");
        number_tokens(&text, d->not_counted);
        buf_adds(&text, " not counted)");
        text_row(p, dim, text.data);
    }
    buf_free(&figures);
    buf_free(&text);
}

enum { NOW = 19, TURN = 28 };           /* where the columns of speeds end */

/* Draws a figure that ends at this column; "--" if it is not known. */
static void figure(struct pen *p, int row, int end, double value, const char *fmt)
{
    struct buf text = {0};
    if (value <= 0)
        buf_adds(&text, "--");
    else if (fmt)
        buf_addf(&text, fmt, value);    /* NOLINT: ours */
    else
        number_rate(&text, value);
    right_at(p, row, end, value > 0 ? plain : dim, text.data);
    buf_free(&text);
}

static void pair_row(struct pen *p, const char *name, struct panel_pair v, const char *fmt)
{
    if (v.now <= 0 && v.turn <= 0)
        return;
    int row = next_row(p);
    cells_puts(p->c, p->a, row, 0, dim, name);
    figure(p, row, NOW, v.now, fmt);
    figure(p, row, TURN, v.turn, fmt);
}

/* Draws the share of accepted drafts, now and over the turn. */
static void share_row(struct pen *p, const char *name, struct draft_count now, struct draft_count turn)
{
    struct buf text = {0};
    if (now.drafted <= 0 && turn.drafted <= 0)
        return;
    int row = next_row(p);
    cells_puts(p->c, p->a, row, 0, dim, name);
    for (int i = 0; i < 2; i++) {
        struct draft_count s = i ? turn : now;
        buf_reset(&text);
        if (s.drafted > 0)
            buf_addf(&text, "%.0f %%", 100 * drafts_share(s));
        else
            buf_adds(&text, "--");
        right_at(p, row, i ? TURN : NOW, s.drafted > 0 ? plain : dim, text.data);
    }
    buf_free(&text);
}

/* Draws step times; the highest sign is the longest step in view. */
static void draw_steps(struct pen *p, const struct panel *d)
{
    static const char sign[][4] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    enum { N = sizeof sign / sizeof *sign };
    int n = d->n_steps < p->a.cols - 1 ? d->n_steps : p->a.cols - 1;
    const float *ms = d->steps + d->n_steps - n;
    float most = 0;
    if (n < 2)
        return;
    for (int i = 0; i < n; i++)
        most = ms[i] > most ? ms[i] : most;
    int row = next_row(p);
    for (int i = 0; i < n; i++) {
        int k = most > 0 && ms[i] > 0 ? (int)((float)N * ms[i] / most) : 0;
        cells_puts(p->c, p->a, row, i, bar, sign[k < N ? k : N - 1]);
    }
}

/* Draws the section about the machine. */
static void draw_machine(struct pen *p, const struct panel *d)
{
    struct buf text = {0};
    const struct machine_figures *m = &d->machine;
    const double gib = 1 << 30;
    section(p, "MACHINE");
    if (m->memory_used > 0 && m->memory_total > 0)
        buf_addf(&text, "%.1f of %.0f GiB", m->memory_used / gib, m->memory_total / gib);
    named_row(p, "memory", buf_str(&text));
    buf_reset(&text);
    if (m->celsius > 0)
        buf_addf(&text, "%d C", m->celsius);
    if (m->watts > 0)
        buf_addf(&text, "%s%.0f W", text.len ? "   " : "", m->watts);
    named_row(p, "GPU", buf_str(&text));
    if (*m->throttled) {
        buf_reset(&text);
        buf_addf(&text, "throttled: %s", m->throttled);
        text_row(p, warn, text.data);
    }
    named_row(p, "disk", d->disk);
    buf_free(&text);
}

/* Draws the section about the turn. */
static void draw_turn(struct pen *p, const struct panel *d)
{
    struct buf text = {0};
    section(p, "THIS TURN");
    if (d->turn_s > 0)
        buf_addf(&text, "%.1f s", d->turn_s);
    if (d->turn_tokens > 0) {
        buf_adds(&text, text.len ? "   " : "");
        number_count(&text, d->turn_tokens);
        buf_adds(&text, " tok");
    }
    if (text.len)
        text_row(p, plain, text.data);
    buf_reset(&text);
    if (d->joules > 0) {
        number_joules(&text, d->joules);
        buf_addf(&text, "   %.2f Wh", d->joules / 3600);
        text_row(p, plain, text.data);
    }
    buf_free(&text);
}

/* Draws how many snapshots the engine has. */
static void draw_snapshots(struct pen *p, const struct machine_figures *m)
{
    struct buf figures = {0};
    if (m->snapshots_max <= 0)
        return;
    section(p, "SNAPSHOTS");
    buf_addf(&figures, "%d of %d", m->snapshots, m->snapshots_max);
    p->figures = figures.data;
    heading_alone(p);
    buf_free(&figures);
}

/* Draws all sections, with at most `parts` rows for the context; returns the rows that they take. */
static int draw_all(const struct panel *d, struct cells *c, struct area a, int parts)
{
    struct pen p = {.c = c, .a = a};
    draw_session(&p, d);
    draw_context(&p, d, parts);
    section(&p, "SPEED           now     turn");
    pair_row(&p, "decode tok/s", d->decode_tok_s, NULL);
    pair_row(&p, "prefill tok/s", d->prefill_tok_s, NULL);
    for (int by = 0; by < DRAFT_SOURCES; by++)
        share_row(&p, drafts_share_name(by), d->drafts_now[by], d->drafts_turn[by]);
    pair_row(&p, "tokens/step", d->per_step, "%.1f");
    pair_row(&p, "step ms", d->step_ms, "%.1f");
    draw_steps(&p, d);
    draw_machine(&p, d);
    draw_turn(&p, d);
    draw_snapshots(&p, &d->machine);
    return p.row;
}

int panel_columns(int screen, int measure)
{
    return most(PANEL_COLUMNS, least(PANEL_MOST_COLUMNS, screen - (measure > 0 ? measure : screen) - 2));
}

void panel_draw(const struct panel *d, struct cells *c, struct area a)
{
    struct area in = {a.row, a.col + 2, a.rows, a.cols - 2}, none = {a.row, a.col, 0, a.cols - 2};
    cells_blank(c, a, plain);
    for (int r = 0; r < a.rows; r++)
        cells_puts(c, a, r, 0, (struct look){STYLE_rule, 0}, "│");
    int fixed = draw_all(d, c, none, 0), parts = a.rows - fixed;        /* what the other sections leave */
    draw_all(d, c, in, parts > 3 ? parts : 3);
}
