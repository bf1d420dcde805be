/* Instruments of development: measurements that answer whether a method is right, not how fast a machine is.  One program, tests/bench/measure.c,
 * runs them; they link the library and print reports as `q35chat bench` does. */
#pragma once

#include "base/ids.h"
#include "bench/subject.h"
#include "engine/load.h"

struct measure_options {
    struct bench_options b;
    const char *text_file, *write_dir;
    int    answers;                     /* at once, at most; 0: one after the other */
    int    n_positions;                 /* of each kind of head */
    double chance, then;                /* that a simulated draft is right; `then` alternates with it.  0: several chances, and no change */
};

/* Each returns the exit status. */
int measure_head(const struct measure_options *o);      /* a head in two planes against the INT8 head */
int measure_kv(const struct measure_options *o);        /* recipes of the KV cache: bytes and errors; with a model and a text its next tokens */
int measure_drafts(const struct measure_options *o);    /* answers whose drafts are right with a given chance */
int measure_prompts(const struct measure_options *o);   /* short prompts at once */
int measure_guide(const struct measure_options *o);     /* answers under guides against answers without */
int measure_write(const struct measure_options *o);     /* a synthetic model as a checkpoint */

/* ---- parts of them */

/* Reads the first tokens of a text, at most `most`; fails with fewer than `least`.  Control tokens in the text count as such, so that it can be
 * rendered conversations. */
bool text_ids(const struct model *m, const char *path, int least, int most, struct ids *out, struct err *e);

/* Measures attention over keys and values of known kinds, in the geometry of a large model: the error of its output, and planted keys that it must
 * find.  False with the reason. */
bool kv_attention(struct report *r, struct dev *d, struct err *e);
/* Finds the recipes that a device takes for heads of this model, the exact one first; at most `most`.  Returns their number. */
int kv_recipes_of(const struct dev *d, const struct model_config *c, const struct kv_recipe **out, int most);
enum { KV_MOST_RECIPES = 8 };

/* Answers in which drafts are right with a given chance, so that drafting can be measured with random weights: a table of steps at each number of
 * drafts, and a table of answers by the chance that a draft is right when all before it were.  Everything but that chance is as in a chat.  there:
 * the plain read of another machine, GB/s; 0: not projected.  False with the reason when the device fails. */
bool trial_report(struct subject *s, struct report *r, const struct measure_options *o, struct err *e);
/* A table of answers without a guide, with tools that are not called, in a string of a call, and of JSON whose keys are forced. */
bool guide_report(struct subject *s, struct report *r, const struct measure_options *o, struct err *e);
/* A table of one to o->answers answers at once, without drafts and with simulated drafts. */
bool crowd_report(struct subject *s, struct report *r, const struct measure_options *o, struct err *e);

/* A table of how long one to o->answers prompts take that come together. */
bool prompts_report(struct subject *s, struct report *r, const struct measure_options *o, struct err *e);

/* Stores a synthetic model in the published layout: 14 shards with an index and stale copies, vision tensors, the MTP block in a file of its
 * own; no tokenizer.  DIR is made when it is not there.  *bytes (may be NULL) is what was written. */
bool synthetic_write(const char *name, int n_layers, const char *dir, uint64_t seed, int n_threads, size_t *bytes, struct err *e);
/* The same for any geometry: the text of its config.json, which messages call `name`. */
bool synthetic_write_config(const struct buf *config, const char *name, const char *dir, uint64_t seed, int n_threads, size_t *bytes, struct err *e);
