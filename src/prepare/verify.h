/* Checks a checkpoint as far as possible without running it.  Each fault is one sentence. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/memory.h"

struct finding {
    bool        fault;                  /* false: a note; q35chat works with it */
    const char *kind;                   /* "truncated", "missing-tensor", ...: docs/models.md lists them */
    const char *file, *tensor;          /* NULL: not one file, not one tensor */
    const char *found, *expected, *remedy;      /* expected: NULL if `found` is enough */
};

struct verify_report {
    struct finding *list;
    int      n, cap, n_faults;
    int      n_files, n_tensors;        /* checked */
    int      n_hashed, n_unhashed;      /* files compared with a recorded hash; files without one */
    uint64_t read_bytes;
    bool     stopped;                   /* files are damaged, their contents were not checked */
    struct arena memory;                /* owns the texts */
};

struct verify_options {
    bool full;                          /* read everything: hashes, every number */
};

/* False with the reason if there is no checkpoint.  Faults of a checkpoint are findings, not errors. */
bool verify_run(const char *dir, const struct verify_options *o, struct verify_report *r, struct err *e);
void verify_free(struct verify_report *r);

/* One line: "FAULT  file: tensor t: found, expected ...: remedy". */
struct buf;
void verify_sentence(const struct finding *f, struct buf *out);
