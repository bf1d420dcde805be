/* What a measurement prints: facts, then tables, as text while it runs and as one JSON object at the end. */
#ifndef Q35_BENCH_REPORT_H
#define Q35_BENCH_REPORT_H

#include <stdbool.h>

#include "backend/dev.h"
#include "base/buf.h"
#include "bench/run.h"

struct column {
    const char *key, *heading;          /* in JSON; in the table */
    int width, decimals;                /* a negative width: text, to the left */
};

struct report {
    const struct bench_options *o;
    struct buf json;
    const struct column *columns;
    int  n_columns, at;                 /* the next cell's column */
    int  n_facts, n_tables, n_rows;
};

/* Commit, date, the command as bench_options has it; then the device's facts with report_device(). */
void report_open(struct report *r, const char *what, const struct bench_options *o);
void report_device(struct report *r, const struct dev *d);
void report_fact(struct report *r, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* After the facts.  Cells then come row by row. */
void report_table(struct report *r, const char *name, const struct column *columns, int n_columns);
void report_text(struct report *r, const char *text);
void report_number(struct report *r, double x);         /* NAN: no value */
/* Prints or stores the JSON that the options ask for, and frees.  The exit status: 1 when `failure` (NULL: none; said on stderr)
 * or when it cannot be written. */
int report_close(struct report *r, const struct err *failure);

#endif
