/* Figures since the start of the server, for /metrics. */
#pragma once

#include "answer/stats.h"
#include "base/buf.h"
#include "serve/keys.h"

enum histogram_id {
#define HISTOGRAM(id, name, help, ...) HISTOGRAM_##id,
#include "config/histograms.def"
#undef HISTOGRAM
    N_HISTOGRAMS
};
enum { HISTOGRAM_BOUNDS = 24 };         /* most bounds of a histogram, and the bucket of what is beyond them */

struct histogram {
    unsigned long long n[HISTOGRAM_BOUNDS], count;      /* values in each bucket; all of them */
    double sum;
};

/* Plain value, valid as {0}. */
struct metrics {
    unsigned long long requests, refused, overloaded;           /* requests for answers: all, wrong ones, those that met a full queue */
    unsigned long long left, unread;                            /* answers whose client went away before the end; whose client did not read */
    unsigned long long stopped, length, aborted, failed;        /* answers by their end; aborted: interrupted, or their client is gone */
    unsigned long long answers;                                 /* those that reached their client, and did not fail */
    unsigned long long prompt_tokens, cached_tokens, tokens, drafted, accepted;
    double prefill_s, decode_s;
    struct histogram histograms[N_HISTOGRAMS];
};

/* Gauges of the moment. */
struct metrics_now {
    const char *model;                  /* its name for clients */
    int running, waiting, unread, clients;
    int resident, resident_max, evicted, moved_out, moved_in;   /* conversations, as in config/machine.def */
};

/* Adds n values, each of this size. */
void metrics_observe(struct metrics *m, enum histogram_id id, double value, int n);
/* Adds the figures of an answer that has ended, to those of its key too (NULL: it came over a unix socket). */
void metrics_answer(struct metrics *m, const struct stats *s, struct key *key);
/* Appends everything in the text format of Prometheus, version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/ */
void metrics_print(const struct metrics *m, const struct metrics_now *now, const struct keys *keys, struct buf *out);
