/* The model under measurement: a checkpoint, or random weights in a real geometry. */
#pragma once

#include "bench/report.h"
#include "bench/run.h"
#include "engine/load.h"
#include "model/traffic.h"

struct subject {
    const struct bench_options *o;
    struct model      m;
    struct traffic    traffic;          /* bytes that its steps move */
    double            read_gb_s;        /* plain read of this device: everything else is a share of it */
    int               n_full, n_delta;  /* layers of each kind, in order */
    const struct layer_weights *full[MODEL_MAX_LAYERS], *delta[MODEL_MAX_LAYERS];
};

/* Opens device and model and measures the plain read; `l` gives context, chunk and steps.  False with the reason; must be closed either
 * way. */
bool subject_open(struct subject *s, const struct bench_options *o, const struct load_options *l, struct err *e);
void subject_report(const struct subject *s, struct report *r);         /* the facts of device and model */
void subject_close(struct subject *s);

static inline bool subject_fused(const struct subject *s) { return s->m.dev->caps->packs_weights; }
static inline size_t subject_matrix_bytes(const struct subject *s, const struct weight *w) { return traffic_matrix(w, subject_fused(s)); }
/* Bytes of making n_drafts drafts after a step: for each the MTP block, with the experts of one row, and the draft head.  The block's KV rows are not
 * counted. */
double subject_draft_bytes(const struct subject *s, int n_drafts);

/* Opens only the device, on the multiprocessors of the options; load_weights() comes next. */
bool subject_load(struct model *m, const struct bench_options *o, const struct load_options *l, struct err *e);
