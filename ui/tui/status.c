#include "ui/tui/status.h"

#include <string.h>

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

static void say_text(struct row *r, int priority, const char *text)
{
    if (text && *text)
        buf_adds(&say(r, priority)->text, text);
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
    say_text(r, 2, s->note);
}

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

static void say_machine(struct row *r, const struct status *s, int columns)
{
    double gib = 1 << 30;
    if (s->cost && *s->cost)
        say_long_and_short(say_part(r, 6, PART_turn), s->cost);
    buf_adds(&say_part(r, 7, PART_sampling)->text, s->sampling ? s->sampling : "");
    if (s->memory_used > 0 && s->memory_total > 0)
        buf_addf(&say_part(r, 8, PART_memory)->text, "%.1f/%.0f GiB", s->memory_used / gib, s->memory_total / gib);
    if (s->throttled && *s->throttled) {
        struct saying *it = say(r, 2);
        it->look.style = STYLE_status_warn;
        buf_addf(&it->text, "throttled: %s", s->throttled);
        buf_adds(&it->less, "throttled");
    }
    if (s->slow) {
        struct saying *it = say(r, 2);
        it->look.style = STYLE_status_warn;
        buf_adds(&it->text, "slow memory: /stats");
        buf_adds(&it->less, "slow memory");
    }
    if (s->celsius > 0)
        buf_addf(&say_part(r, 9, PART_machine)->text, "%d C", s->celsius);
    if (s->watts > 0)
        buf_addf(&say_part(r, 10, PART_machine)->text, "%.0f W", s->watts);
    if (s->recipe && *s->recipe && columns >= WIDE) {
        struct saying *it = say_part(r, 11, PART_formats);
        const char *comma = strrchr(s->recipe, ',');
        buf_adds(&it->text, s->recipe);
        buf_adds(&it->less, comma ? comma + strspn(comma, ", ") : "");
    }
}

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
    say_text(r, 1, s->search);
}

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

static int least(const struct saying *s, int cut)
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
        int k = r->at[i].shown ? least(&r->at[i], cut) : 0;
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
    size_t n = glyph_fit(text, form(s)->len, columns, NULL);
    bool whole = n == form(s)->len || columns < 4, block = s->look.style != STYLE_figures;
    if (!whole)
        n = glyph_fit(text, form(s)->len, columns - 3, NULL);
    if (block)
        cells_puts(c, a, 0, col - 1, s->look, " ");
    col = cells_put(c, a, 0, col, s->look, text, n);
    if (!whole)
        col = cells_puts(c, a, 0, col, s->look, "...");
    if (block)
        cells_puts(c, a, 0, col, s->look, " ");
    return col;
}

static void draw(struct row *r, struct cells *c, struct area a)
{
    int room = a.cols - width(r, LEAST_SESSION), used = 0, cut = room < 0 ? -room : 0, take[MAX_ITEMS] = {0};
    for (int i = 0; i < r->n; i++) {                    /* columns left over go to the items that were cut, from the left */
        const struct saying *s = &r->at[i];
        int most = s->shown ? columns_of(s) : 0, few = s->shown ? least(s, LEAST_SESSION) : 0;
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
