#include "bench/report.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"

extern const char *const bench_commit;          /* of this build's sources, "-dirty" when they had changes: version.c */

static void quote(struct buf *out, const char *s)
{
    json_quote(out, s, strlen(s));
}

/* Prints a blank line after a table, if the report is text. */
static void leave_table(struct report *r)
{
    if (r->columns && !r->o->json)
        printf("\n");
    r->columns = NULL;
}

void report_fact(struct report *r, const char *key, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_adds(&r->facts, r->facts.len ? ", " : "");
    quote(&r->facts, key);
    buf_adds(&r->facts, ": ");
    quote(&r->facts, text);
    leave_table(r);
    if (!r->o->json)
        printf("%-10s %s\n", key, text);
}

void report_note(struct report *r, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_adds(&r->notes, r->notes.len ? ", " : "");
    quote(&r->notes, text);
    leave_table(r);
    if (!r->o->json)
        printf("note: %s\n", text);
}

void report_cut(struct report *r, const char *why)
{
    r->cut = true;
    report_note(r, "%s", why);
}

/* ---- time */

void report_limit(struct report *r, double s)
{
    r->until_ns = s > 0 ? clock_ns() + (int64_t)(s * 1e9) : 0;
}

bool report_has_time(const struct report *r, double ms)
{
    return !r->until_ns || clock_ns() + (int64_t)(ms * 1e6) <= r->until_ns;
}

bool report_stopped(const struct report *r)
{
    return r->o->stopped && r->o->stopped();
}

/* ---- facts */

void report_open(struct report *r, const char *what, const struct bench_options *o)
{
    char date[64];
    time_t now = time(NULL);
    struct tm tm;
    *r = (struct report){.o = o, .what = what};
    strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &tm));
    report_fact(r, "command", "%s", o->arguments ? o->arguments : what);
    report_fact(r, "commit", "%s", bench_commit);
    report_fact(r, "date", "%s", date);
}

void report_device(struct report *r, const struct dev *d)
{
    struct dev_facts f;
    if (!dev_facts(d, &f)) {
        report_fact(r, "device", "%s, %d threads", d->name, dev_cpu_threads(d));
        return;
    }
    report_fact(r, "gpu", "%s, sm_%d, %d multiprocessors", f.gpu, f.arch, f.n_sm);
    report_fact(r, "clocks", "at most %d MHz, memory %d MHz", f.sm_mhz, f.memory_mhz);
    report_fact(r, "memory", "%.1f GiB, L2 %.1f MiB", (double)f.memory / (1 << 30), (double)f.l2 / (1 << 20));
    report_fact(r, "driver", "%s", f.driver);
}

static void end_table(struct report *r)
{
    CHECK(r->at == 0);
    if (r->tables.len)
        buf_adds(&r->tables, "]}");
}

void report_table(struct report *r, const char *name, const struct column *columns, int n_columns)
{
    end_table(r);
    buf_adds(&r->tables, r->tables.len ? ", {\"name\": " : "{\"name\": ");
    quote(&r->tables, name);
    buf_adds(&r->tables, ", \"rows\": [");
    r->columns = columns;
    r->n_columns = n_columns;
    r->n_rows = 0;
    if (r->o->json)
        return;
    printf("\n%s\n", name);
    for (int i = 0; i < n_columns; i++)
        printf("%s%*s", i ? "  " : "", columns[i].width, columns[i].heading);
    printf("\n");
}

/* Begins the next cell of a table; returns its column. */
static const struct column *next_cell(struct report *r)
{
    const struct column *c = &r->columns[r->at];
    buf_adds(&r->tables, r->at ? ", " : r->n_rows ? ", {" : "{");
    quote(&r->tables, c->key);
    buf_adds(&r->tables, ": ");
    if (!r->o->json && r->at)
        printf("  ");
    return c;
}

/* Ends a cell, and the row with its last one. */
static void end_cell(struct report *r)
{
    if (++r->at < r->n_columns)
        return;
    r->at = 0;
    r->n_rows++;
    buf_addc(&r->tables, '}');
    if (!r->o->json) {
        printf("\n");
        fflush(stdout);
    }
}

void report_text(struct report *r, const char *text)
{
    const struct column *c = next_cell(r);
    quote(&r->tables, text);
    if (!r->o->json)
        printf("%*s", c->width, text);
    end_cell(r);
}

void report_number(struct report *r, double x)
{
    const struct column *c = next_cell(r);
    if (isfinite(x))
        buf_addf(&r->tables, "%.9g", x);
    else
        buf_adds(&r->tables, "null");
    if (!r->o->json) {
        if (isfinite(x))
            printf("%*.*f", c->width, c->decimals, x);
        else
            printf("%*s", c->width, "-");
    }
    end_cell(r);
}

static void write_json(const struct report *r, struct buf *out)
{
    buf_adds(out, "{\"bench\": ");
    quote(out, r->what);
    buf_addf(out, ", \"complete\": %s, \"facts\": {%s}, \"tables\": [%s], \"notes\": [%s]}\n", r->cut ? "false" : "true",
             buf_str(&r->facts), buf_str(&r->tables), buf_str(&r->notes));
}

int report_close(struct report *r, const struct err *failure)
{
    struct buf json = {0};
    bool ok = !failure;
    fflush(stdout);
    if (failure)
        err_warn("%s", failure->msg);
    r->at = 0;                          /* a failure may have cut a row */
    end_table(r);
    write_json(r, &json);
    if (ok && r->o->json)
        fputs(buf_str(&json), stdout);
    if (ok && r->o->out_file) {
        FILE *f = fopen(r->o->out_file, "we");
        ok = f && fputs(buf_str(&json), f) >= 0;
        ok = f && !fclose(f) && ok;
        if (!ok)
            err_warn("cannot write %s: %s", r->o->out_file, strerror(errno));
    }
    buf_free(&json);
    buf_free(&r->facts);
    buf_free(&r->tables);
    buf_free(&r->notes);
    return fflush(stdout) || ferror(stdout) || !ok;
}
