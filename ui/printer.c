#include "ui/printer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unicode.h"
#include "ui/tui/look.h"
#include "ui/tui/markdown.h"
#include "ui/tui/term.h"

bool printer_usable(const struct options *o)
{
    return isatty(1) && !options_on(o, OPT_raw) && !options_on(o, OPT_accessible) && !look_is_plain(getenv("TERM"));
}

void printer_set(struct printer *p, int columns, int width, const char *theme, int colors)
{
    /* one column stays free: some terminals begin the next line as soon as the last column is filled */
    p->columns = columns > 1 ? columns - 1 : 1;
    p->measure = width > 0 && width < p->columns ? width : p->columns;
    p->colors = colors;
    p->theme = colors < 0 ? NULL : theme_at(theme_find(colors ? theme : "mono"));
}

void printer_open(struct printer *p, const struct options *o)
{
    struct winsize size;
    int has = term_print_colors(1);
    *p = (struct printer){0};
    printer_set(p, ioctl(1, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col, options_int(o, OPT_width), options_text(o, OPT_theme),
                has < 0 ? has : look_colors(options_text(o, OPT_color), has));
}

void printer_free(struct printer *p)
{
    markdown_close(p->text);
    buf_free(&p->early);
    *p = (struct printer){0};
}

/* --- looks ------------------------------------------------------------------------------------------------------ */

/* Appends the codes of a colour for a terminal of n colours; base is 30 for the foreground, 40 for the background. */
static void add_color(struct buf *out, int32_t color, int n, int base)
{
    if (color < 0 || n <= 0)
        return;
    if (n <= 256)
        color = look_nearest(color, n);
    if (color < 8)
        buf_addf(out, ";%d", base + color);
    else if (color < 16)
        buf_addf(out, ";%d", base + 60 + color - 8);
    else if (color < 256)
        buf_addf(out, ";%d;5;%d", base + 8, color);
    else
        buf_addf(out, ";%d;2;%d;%d;%d", base + 8, color >> 16 & 255, color >> 8 & 255, color & 255);
}

/* Appends the sequence for a look, starting from none; nothing for plain text. */
static void add_look(const struct printer *p, struct look look, struct buf *out)
{
    static const struct { int mark, code; } codes[] = {
        {LOOK_BOLD, 1}, {LOOK_DIM, 2}, {LOOK_ITALIC, 3}, {LOOK_UNDERLINE, 4}, {LOOK_REVERSE, 7}, {LOOK_STRIKE, 9},
    };
    const struct theme_style *s = &p->theme->style[look.style];
    struct buf sequence = {0};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if ((look.marks | s->marks) & codes[i].mark)
            buf_addf(&sequence, ";%d", codes[i].code);
    add_color(&sequence, s->fg, p->colors, 30);
    add_color(&sequence, s->bg, p->colors, 40);
    if (sequence.len)
        buf_addf(out, "\033[%sm", sequence.data + 1);
    buf_free(&sequence);
}

/* --- lines ------------------------------------------------------------------------------------------------------ */

/* Returns the bytes of a line's text; blanks at its end count only in code. */
static size_t length(const struct lines *l, const struct line *line)
{
    size_t from = line->n_runs ? l->runs[line->first].at : 0, n = 0;
    for (uint32_t i = line->first; i < line->first + line->n_runs; i++)
        n += l->runs[i].n;
    while (line->block < 0 && n && l->text.data[from + n - 1] == ' ')
        n--;
    return n;
}

/* Appends a line with its colours and without trailing blanks. */
static void add_line(const struct printer *p, const struct lines *l, int i, struct buf *out)
{
    const struct line *line = &l->lines[i];
    size_t left = length(l, line);
    for (int k = 0; k < line->indent && left; k++)
        buf_addc(out, ' ');
    for (uint32_t k = line->first; k < line->first + line->n_runs && left; k++) {
        const struct run *r = &l->runs[k];
        size_t n = r->n < left ? r->n : left;
        size_t before = out->len;
        if (p->theme)
            add_look(p, r->look, out);
        bool looks = out->len > before;
        unicode_safe(out, l->text.data + r->at, n);
        if (looks)
            buf_adds(out, "\033[0m");
        left -= n;
    }
    buf_addc(out, '\n');
}

/* Appends the text of lines, without their looks. */
static void add_said(const struct lines *l, int from, int to, struct buf *out)
{
    for (int i = from; i < to; i++) {
        if (l->lines[i].n_runs)
            buf_add(out, l->text.data + l->runs[l->lines[i].first].at, length(l, &l->lines[i]));
        buf_addc(out, '\n');
    }
}

/* Lines that came out early are now final.  Should they say something else by now (the first line of a paragraph was so long that some
 * of it came out, and it was a table's header), they come again: better twice than not at all. */
static void confirm(struct printer *p, const struct lines *l, int n_final)
{
    struct buf now = {0};
    if (n_final <= p->n_final)
        return;
    if (p->n_printed > p->n_final) {
        add_said(l, p->n_final, p->n_printed < n_final ? p->n_printed : n_final, &now);
        bool same = now.len <= p->early.len && !memcmp(buf_str(&now), buf_str(&p->early), now.len);
        if (same)
            buf_consume(&p->early, now.len);
        else
            p->n_printed = p->n_final;
        if (!same)
            buf_reset(&p->early);
    }
    p->n_final = n_final;
    buf_free(&now);
}

/* Prints the lines that will not change any more. */
static void print(struct printer *p, struct buf *out)
{
    const struct lines *l = markdown_lines(p->text);
    int settled = markdown_n_settled(p->text);
    confirm(p, l, markdown_n_final(p->text));
    for (; p->n_printed < settled; p->n_printed++) {
        add_line(p, l, p->n_printed, out);
        if (p->n_printed >= p->n_final)
            add_said(l, p->n_printed, p->n_printed + 1, &p->early);
    }
}

void printer_push(struct printer *p, const char *text, size_t n, struct buf *out)
{
    if (!p->text) {
        p->text = markdown_open();
        markdown_width(p->text, p->columns, p->measure);
        markdown_fences(p->text, true);
    }
    markdown_push(p->text, text, n);
    print(p, out);
}

void printer_end(struct printer *p, struct buf *out)
{
    if (!p->text)
        return;
    markdown_end(p->text);
    print(p, out);
    markdown_close(p->text);
    p->text = NULL;
    p->n_printed = p->n_final = 0;
    buf_reset(&p->early);
}

/* --- lines about a wait -------------------------------------------------------------------------------------------- */

enum {
    SOON_MS = 500, LONG_MS = 1000,      /* for waits with a known end, and for others */
    REWRITE_MS = 100, ADD_MS = 10000,
};

void waiting_open(struct waiting *w, const struct options *o)
{
    *w = (struct waiting){
        .tells = isatty(2),
        .adds = options_on(o, OPT_accessible) || look_is_plain(getenv("TERM")),
    };
    phase_open(&w->phase, clock_ms());
    w->kind = w->phase.kind;
    w->since_ms = w->phase.since_ms;
}

static int width(void)
{
    enum { WIDEST = 72 };
    struct winsize size;
    int columns = ioctl(2, TIOCGWINSZ, &size) ? 0 : size.ws_col;
    return columns > 1 && columns <= WIDEST ? columns - 1 : WIDEST;
}

void waiting_clear(struct waiting *w)
{
    if (w->shown)
        fprintf(stderr, "\r%*s\r", width(), "");
    w->shown = false;
}

static void begin(struct waiting *w, int64_t ms)
{
    w->kind = w->phase.kind;
    w->since_ms = ms;
    w->told_ms = 0;
}

void waiting_turn(struct waiting *w)
{
    phase_turn(&w->phase, clock_ms());
    begin(w, clock_ms());
}

void waiting_follow(struct waiting *w, const struct chat_event *ev, int64_t ms)
{
    phase_event(&w->phase, ev, ms);
    if (w->phase.kind != w->kind)
        begin(w, ms);
}

/* True if the wait is long enough for a line about it to be read. */
static bool is_worth(const struct waiting *w, int64_t ms)
{
    const struct progress *p = &w->phase.progress;
    int left_s = progress_left_s(p, ms);
    int64_t took = ms - w->since_ms;
    switch (w->kind) {
    case PHASE_LOADING:
    case PHASE_READING:
        return w->told_ms || (left_s < 0 ? took >= LONG_MS && p->done < p->total : took >= SOON_MS && left_s > 1);
    case PHASE_THINKING:
    case PHASE_ANSWERING:
        return took >= LONG_MS;
    default:
        return false;
    }
}

/* Appends what the program waits for, with progress. */
static void describe(const struct waiting *w, int64_t ms, struct buf *line)
{
    const struct progress *p = &w->phase.progress;
    buf_addf(line, "%s ", phase_name(&w->phase));
    if (w->kind == PHASE_LOADING) {
        progress_bytes(line, p);
        buf_adds(line, progress_rate(p) > 0 ? ", " : "");
        progress_bytes_s(line, p);
        progress_left(line, p, ms);
    } else if (w->kind == PHASE_READING) {
        buf_addf(line, "%zu of %zu tokens", p->done, p->total);
        if (p->cached)
            buf_addf(line, " (%zu from the cache)", p->cached);
        progress_left(line, p, ms);
    } else {
        buf_addf(line, "for %d s", (int)((ms - w->since_ms) / 1000));
    }
}

bool waiting_line(struct waiting *w, int64_t ms, struct buf *line)
{
    if (!is_worth(w, ms) || (w->told_ms && ms - w->told_ms < (w->adds ? ADD_MS : REWRITE_MS)))
        return false;
    describe(w, ms, line);
    w->told_ms = ms;
    return true;
}

void waiting_event(struct waiting *w, const struct chat_event *ev, bool tell)
{
    enum phase_kind before = w->kind;
    waiting_follow(w, ev, clock_ms());
    if (w->kind != before)
        waiting_clear(w);
    if (tell && w->tells) {
        struct buf line = {0};
        if (waiting_line(w, clock_ms(), &line)) {
            if (w->adds)
                fprintf(stderr, "%s\n", line.data);
            else
                fprintf(stderr, "\r%-*.*s", width(), width(), line.data);
            w->shown = !w->adds;
            buf_free(&line);
        }
    }
}
