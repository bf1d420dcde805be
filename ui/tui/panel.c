#include "ui/tui/panel.h"

#include <string.h>

#include "base/buf.h"
#include "base/least.h"
#include "ui/tui/numbers.h"

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

static void heading_alone(struct pen *p)
{
    p->row += p->row > 0;
    int col = cells_puts(p->c, p->a, p->row, 0, head, p->section);
    if (p->figures) {
        size_t all = strlen(p->figures);
        int room = p->a.cols - col - 2;
        bool cut = glyph_columns(p->figures, all) > room;
        col = cells_put(p->c, p->a, p->row, col + 2, plain, p->figures, cut ? glyph_fit(p->figures, all, room - 3, NULL) : all);
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

static void draw_session(struct pen *p, const struct panel *d)
{
    section(p, "SESSION");
    p->figures = d->session;
    if (d->session && *d->session)
        heading_alone(p);
    named_row(p, "model", d->model);
    named_row(p, "persona", d->persona);
    named_row(p, "samples", d->sampling);
    named_row(p, "think", d->think);
    named_row(p, "branch", d->branch);
    draw_recipe(p, d->recipe);
}

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

static void draw_speed(struct pen *p, const struct panel *d)
{
    section(p, "SPEED           now     turn");
    pair_row(p, "decode tok/s", d->decode_tok_s, NULL);
    pair_row(p, "prefill tok/s", d->prefill_tok_s, NULL);
    for (int by = 0; by < DRAFT_SOURCES; by++)
        share_row(p, drafts_share_name(by), d->drafts_now[by], d->drafts_turn[by]);
    pair_row(p, "tokens/step", d->per_step, "%.1f");
    pair_row(p, "step ms", d->step_ms, "%.1f");
    draw_steps(p, d);
}

static void draw_machine(struct pen *p, const struct panel *d)
{
    struct buf text = {0};
    double gib = 1 << 30;
    section(p, "MACHINE");
    if (d->memory_used > 0 && d->memory_total > 0)
        buf_addf(&text, "%.1f of %.0f GiB", d->memory_used / gib, d->memory_total / gib);
    named_row(p, "memory", buf_str(&text));
    buf_reset(&text);
    if (d->celsius > 0)
        buf_addf(&text, "%d C", d->celsius);
    if (d->watts > 0)
        buf_addf(&text, "%s%.0f W%s", text.len ? "   " : "", d->watts, d->estimated ? " (est)" : "");
    named_row(p, "GPU", buf_str(&text));
    if (d->throttled && *d->throttled) {
        buf_reset(&text);
        buf_addf(&text, "throttled: %s", d->throttled);
        text_row(p, warn, text.data);
    }
    named_row(p, "disk", d->disk);
    buf_free(&text);
}

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
        buf_addf(&text, "%s   %.2f Wh", d->estimated ? " (est)" : "", d->joules / 3600);
        text_row(p, plain, text.data);
    }
    buf_free(&text);
}

static void draw_snapshots(struct pen *p, const struct panel *d)
{
    struct buf figures = {0}, text = {0};
    section(p, "SNAPSHOTS");
    if (d->snapshots_max > 0)
        buf_addf(&figures, "%d of %d", d->snapshots, d->snapshots_max);
    p->figures = buf_str(&figures);
    for (int i = d->n_kept > 3 ? d->n_kept - 3 : 0; i < d->n_kept; i++)
        buf_addf(&text, "%s%s", text.len ? ", " : "", d->kept[i]);
    if (text.len)
        text_row(p, plain, text.data);
    buf_reset(&text);
    if (d->undo_known) {
        buf_adds(&text, "undo this turn: ");
        number_tokens(&text, d->undo_refill);
        buf_adds(&text, " tok to read");
        text_row(p, plain, text.data);
    } else if (figures.len && p->section) {
        heading_alone(p);
    }
    buf_free(&figures);
    buf_free(&text);
}

/* Draws all sections, with at most `parts` rows for the context; returns the rows that they take. */
static int draw_all(const struct panel *d, struct cells *c, struct area a, int parts)
{
    struct pen p = {.c = c, .a = a};
    draw_session(&p, d);
    draw_context(&p, d, parts);
    draw_speed(&p, d);
    draw_machine(&p, d);
    draw_turn(&p, d);
    draw_snapshots(&p, d);
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
