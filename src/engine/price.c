#include "engine/price.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"

enum {
    TRUSTED = 6,                        /* after so many measurements of a ratio, steps of its rows correct one_ms too */
    LONG_AGO = 256,                     /* steps of several rows, after which one of one row is measured again */
};
static const double first_ratio = 0.25, /* time of one more row before any measurement, in steps of one row */
    first_answer = 0.15,                /* time of one more answer in a run that makes drafts, before any measurement, in runs for one answer */
    dearer = 0.12, cheaper = 0.15,      /* weights of a measurement above and below the old value; disturbances only make times longer */
    doubtful = 0.7,                     /* time of one more row, in steps of one row, above which a remembered price may be a busy machine's */
    shortest_ms = 1e-4, longest_ms = 1e6, least_ratio = 0.5,    /* bounds of likely prices */
    hope = 0.0004;                      /* a ratio above the first one loses this share of the excess with every step, so that it is tried again */

/* A measurement counts as at most 1.5 times the old value, and at least as a 1.5th: the machine may have been busy. */
static double bounded(double old, double now) { return now > 1.5 * old ? 1.5 * old : now < old / 1.5 ? old / 1.5 : now; }

static double settle(double old, double now)
{
    const double to = bounded(old, now);
    return old + (to > old ? dearer : cheaper) * (to - old);
}

/* The first measurements and the value that was assumed before them have equal weights: their mean.  But a second one that is less counts alone,
 * since something may have disturbed the first. */
static double settle_first(double old, double now, int n_before)
{
    const double to = bounded(old, now);
    return n_before == 1 && to < old ? to : old + (to - old) / (n_before + 2);
}

static double first_price(int rows) { return 1 + first_ratio * (rows - 1); }

/* Returns a price between those of the neighbours that were measured. */
static double interpolated(const struct price *p, int rows)
{
    int low = rows - 1, high = rows + 1;
    while (low > 1 && p->ratio[low - 1] <= 0)
        low--;
    while (high <= PRICE_ROWS && p->ratio[high - 1] <= 0)
        high++;
    const double below = low > 1 ? p->ratio[low - 1] : 1;
    if (high <= PRICE_ROWS)
        return below + fmin((p->ratio[high - 1] - below) / (high - low), first_ratio) * (rows - low);
    const double slope = low > 1 ? (below - 1) / (low - 1) : first_ratio;
    return below + slope * (rows - low);
}

double price_step(const struct price *p, int rows)
{
    const double ratio = rows > 1 ? p->ratio[rows - 1] : 1;
    return ratio <= 0 ? interpolated(p, rows) : rows > 1 && p->timed[rows - 1] == 1 ? fmin(ratio, interpolated(p, rows)) : ratio;
}

/* When the context grows, steps of all numbers of rows become slower alike: so one_ms is corrected first, and the ratio gets what is left.  A step
 * of n rows never counts as slower than n steps of one. */
void price_step_took(struct price *p, int rows, double ms)
{
    double *ratio = &p->ratio[rows - 1];
    p->ratio[0] = 1;
    for (int i = 1; i < PRICE_ROWS; i++)
        if (p->ratio[i] > first_price(i + 1))
            p->ratio[i] -= hope * (p->ratio[i] - first_price(i + 1));
    if (p->one_ms <= 0)
        p->one_ms = ms / first_price(rows);
    if (*ratio <= 0)
        *ratio = price_step(p, rows);
    p->since_one = rows == 1 ? 0 : p->since_one + 1;
    if (ms < p->one_ms && (rows > 1 || p->timed[0] < TRUSTED))
        p->one_ms = ms;                 /* one_ms was too high: a larger step was faster, or the first steps ran cold */
    else if (rows == 1 || p->timed[rows - 1] >= TRUSTED)
        p->one_ms = settle(p->one_ms, ms / *ratio);
    const int before = p->timed[rows - 1];
    if (rows > 1)
        *ratio = fmin(before < TRUSTED ? settle_first(*ratio, ms / p->one_ms, before) : settle(*ratio, ms / p->one_ms), rows);
    if (before < TRUSTED)
        p->timed[rows - 1]++;
}

void price_drafts_took(struct price *p, int n_answers, int n, double ms)
{
    double *of = &p->draft_ms[n_answers - 1];
    *of = *of <= 0 ? ms / n : settle(*of, ms / n);
}

/* 0 (not measured), or from least to most; NaN is neither. */
static bool is_figure(double x, double least, double most) { return (x >= 0 && x <= 0) || (x >= least && x <= most); }

bool price_one_is_due(const struct price *p) { return p->since_one >= LONG_AGO; }

bool price_is_likely(const struct price *p)
{
    bool ok = price_known(p) && is_figure(p->one_ms, shortest_ms, longest_ms);
    for (int i = 0; i < PRICE_ROWS; i++)
        ok = ok && is_figure(p->ratio[i], least_ratio, i + 1) && p->timed[i] >= 0 && p->timed[i] <= TRUSTED
          && is_figure(p->draft_ms[i], shortest_ms, longest_ms);
    return ok;
}

void price_doubt(struct price *p)
{
    for (int i = 1; i < PRICE_ROWS; i++)
        if (p->ratio[i] > 1 + doubtful * i) {
            p->ratio[i] = 0;
            p->timed[i] = 0;
        }
}

/* Estimated from the nearest number of answers that was measured. */
double price_draft_ms(const struct price *p, int n_answers)
{
    for (int off = 0; off < PRICE_ROWS && n_answers > 0; off++) {
        const int low = n_answers - off, high = n_answers + off,
            at = low > 0 && p->draft_ms[low - 1] > 0 ? low : high <= PRICE_ROWS && p->draft_ms[high - 1] > 0 ? high : 0;
        if (at)
            return p->draft_ms[at - 1] * (1 + first_answer * (n_answers - 1)) / (1 + first_answer * (at - 1));
    }
    return 0;
}

double price_draft(const struct price *p, int n_answers)
{
    return price_known(p) ? price_draft_ms(p, n_answers) / p->one_ms : 0;
}

/* ---- the file ---- */

enum {
    LINES   = 32,                       /* most lines that a file keeps */
    BYTES   = 1 << 16,                  /* most bytes of a file that is read */
    FIGURES = 1 + 3 * PRICE_ROWS,       /* of a line: those of the struct, in its order */
};

/* Reads the figures of a line.  Returns its key, after the blank; NULL: these are no prices. */
static const char *parse(const char *line, struct price *p)
{
    double all[FIGURES];
    char *end;
    for (int i = 0; i < FIGURES; i++, line = end) {
        all[i] = strtod(line, &end);
        if (end == line || !(all[i] >= 0 && all[i] < 1e9))
            return NULL;
    }
    *p = (struct price){.one_ms = all[0]};
    for (int i = 0; i < PRICE_ROWS; i++) {
        p->ratio[i] = all[1 + i];
        p->timed[i] = (int)all[1 + PRICE_ROWS + i];
        p->draft_ms[i] = all[1 + 2 * PRICE_ROWS + i];
    }
    return *line == ' ' && price_is_likely(p) ? line + 1 : NULL;
}

bool price_recall(struct price *p, const char *path, const char *key)
{
    struct buf text = {0};
    struct err ignored;
    bool found = false;
    char *rest = file_read(&text, path, BYTES, &ignored) ? text.data : NULL;
    for (char *line; (line = strsep(&rest, "\n"));) {
        struct price got;
        const char *of = parse(line, &got);
        if (of && !strcmp(of, key)) {
            price_doubt(&got);
            *p = got;
            found = true;
        }
    }
    buf_free(&text);
    return found;
}

/* Appends a line of the file of prices; the key comes last. */
static void write_line(struct buf *out, const struct price *p, const char *key)
{
    buf_addf(out, "%.5g", p->one_ms);
    for (int i = 0; i < PRICE_ROWS; i++)
        buf_addf(out, " %.5g", p->ratio[i]);
    for (int i = 0; i < PRICE_ROWS; i++)
        buf_addf(out, " %d", p->timed[i]);
    for (int i = 0; i < PRICE_ROWS; i++)
        buf_addf(out, " %.5g", p->draft_ms[i]);
    buf_addf(out, " %s\n", key);
}

/* Appends the newest lines of other keys. */
static void write_others(struct buf *out, const char *path, const char *key)
{
    struct buf text = {0};
    struct err ignored;
    int n = 0;
    char *rest = file_read(&text, path, BYTES, &ignored) ? text.data : NULL;
    for (char *line; (line = strsep(&rest, "\n"));) {
        struct price p;
        const char *of = parse(line, &p);
        if (!of || !strcmp(of, key))
            continue;
        if (n++ >= LINES - 1)
            buf_consume(out, (size_t)(strchr(out->data, '\n') + 1 - out->data));
        write_line(out, &p, of);
    }
    buf_free(&text);
}

bool price_remember(const struct price *p, const char *path, const char *key, struct err *e)
{
    struct buf out = {0};
    write_others(&out, path, key);
    write_line(&out, p, key);
    const bool ok = file_replace_unsynced(path, out.data, out.len)
                 || err_set(e, "cannot remember what steps take in %s: %s", path, strerror(errno));
    buf_free(&out);
    return ok;
}

/* ---- chunks of prompts ---- */

enum { SEEN_ROWS = 256 };               /* of a chunk of PACE_SEEN, at least: fewer read nearly all experts, too */

void pace_init(struct pace *p, bool beside_host)
{
    /* On a CPU a row costs the same in a chunk of any length.  Others may wait 100 ms; 40 of these are left for a busy machine. */
    static const struct pace cpu = {.most_ms = {60, 60, 60, 60}, .least_rows = 1, .telling_rows = 32};
    /* On a GB10 a call of the 122B model costs about 0.26 s and a row 0.25 ms (docs/log/2026-11.md): 8,192 rows in 2.3 s.  Chunks of 512
     * rows read nearly all experts, so shorter ones only cost more.  Of the 60 ms that an answer may wait beside pictures, 6 are left for its own
     * step and what else lies between two chunks. */
    static const struct pace gpu = {.most_ms = {2600, 350, 350, 54}, .least_rows = 512, .telling_rows = 512};
    *p = beside_host ? gpu : cpu;
}

/* Returns the time of a row.  At least an eighth of a chunk's time is that of its rows: otherwise one call_ms that was measured too high would make
 * rows free for good. */
static double time_of_row(const struct pace *p, int rows, double ms)
{
    return fmax(ms - p->call_ms, ms / 8) / rows;
}

void pace_begin(struct pace *p, int few, double few_ms, int many, double many_ms)
{
    const double call = (few_ms * many - many_ms * few) / (many - few);
    p->call_ms = fmin(fmax(call, 0), fmin(few_ms, many_ms));
    p->row_ms = p->short_ms = time_of_row(p, many, many_ms);
}

/* In short chunks a row takes longer than in long ones, so a short chunk counts only if it lowers row_ms.  Otherwise one delay of the machine would
 * make all later chunks short. */
void pace_took(struct pace *p, int rows, double ms)
{
    const double row = time_of_row(p, rows, ms);
    if (rows >= p->telling_rows || ms > p->most_ms[PACE_NEXT] || row < p->row_ms)
        p->row_ms = row;
    if (rows >= SEEN_ROWS && rows < p->telling_rows)
        p->short_ms = (p->short_ms + row) / 2;
}

bool pace_joins(const struct pace *p, int rows)
{
    return p->call_ms > 0 && (rows <= p->least_rows || rows * p->row_ms <= p->call_ms);
}

int pace_rows(const struct pace *p, enum pace_wait wait, int most)
{
    if (wait == PACE_SEEN && p->most_ms[wait] - p->call_ms < SEEN_ROWS * p->row_ms)
        wait = PACE_OTHERS;
    const double left = p->most_ms[wait] - p->call_ms, row_ms = wait == PACE_SEEN ? fmax(p->row_ms, p->short_ms) : p->row_ms;
    if (row_ms * most <= left)
        return most;
    const int in_time = left > 0 ? (int)(left / row_ms) : 0, least_rows = wait == PACE_SEEN ? SEEN_ROWS : p->least_rows;
    const int least = least_rows < most ? least_rows : most;
    return in_time > least ? in_time : least;
}
