/* The report of a measurement: facts, tables and notes, as text while it runs and as one JSON object at the end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/dev.h"
#include "base/buf.h"
#include "bench/run.h"

struct column {
    const char *key, *heading;          /* in JSON; in the table */
    int width, decimals;                /* a negative width: text, to the left */
};

struct report {
    const struct bench_options *o;
    const char *what;
    struct buf facts, tables, notes;    /* JSON, without the brackets around it */
    const struct column *columns;
    int  n_columns, at;                 /* the next cell's column */
    int  n_rows;
    bool    cut;
    int64_t until_ns;                   /* 0: no limit */
};

/* Commit, date, the command as bench_options has it; then the device's facts with report_device(). */
void report_open(struct report *r, const char *what, const struct bench_options *o);
void report_device(struct report *r, const struct dev *d);
void report_fact(struct report *r, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Notes that something could not be measured, or was left out.  No paths: reports are sent to others. */
void report_note(struct report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void report_cut(struct report *r, const char *why);     /* a note, and the report is not complete */
/* Begins a table; its cells follow row by row. */
void report_table(struct report *r, const char *name, const struct column *columns, int n_columns);
void report_text(struct report *r, const char *text);
void report_number(struct report *r, double x);         /* NAN: no value */

/* Call between two rows.  stopped: Ctrl-C was pressed.  has_time: the time limit leaves room for `ms` more. */
bool report_stopped(const struct report *r);
void report_limit(struct report *r, double s);          /* seconds from now on; 0: no limit, as at the beginning */
bool report_has_time(const struct report *r, double ms);
/* Prints or stores the JSON that the options ask for, and frees the report.  Returns the exit status: 1 if `failure` is not NULL, which is printed on
 * stderr, or if the JSON cannot be written. */
int report_close(struct report *r, const struct err *failure);
