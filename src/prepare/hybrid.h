/* The hybrid checkpoint: an INT4 checkpoint with the shared experts of the official FP8 release; for quality also with its attention and the out
 * projections of DeltaNet, which suffer most from four bits.  Of that release only these matrices and their scales are read, by byte range. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "prepare/source.h"

#define HYBRID_FP8_FILE     "model_shared_experts_fp8.safetensors"
#define HYBRID_QUALITY_FILE "model_attention_fp8.safetensors"

struct hybrid_options {
    const char *out;                    /* the directory to make */
    const char *program;                /* "q35chat 0.1.0" */
    bool quality;                       /* attention and out projections too */
    bool compact;                       /* rewrite the shards without unused copies, FP8 in place of the old matrices */
    bool dry_run;
    bool hash;                          /* record the hash of every file; reads all files */
    void (*progress)(void *arg, uint64_t done, uint64_t total);         /* bytes of FP8; any thread, may be NULL */
    void *arg;
};

struct hybrid_file {
    char       *name;
    uint64_t    bytes;
    const char *how;                    /* "hard link", "clone", "copy", "written"; NULL in a dry run: not decided yet */
};

struct hybrid_report {
    enum { HYBRID_BUILT, HYBRID_PLANNED, HYBRID_THERE } state;         /* THERE: built before, nothing to do */
    struct hybrid_file *files;
    int      n_files;
    int      n_matrices;                /* FP8 ones */
    uint64_t fp8_bytes;                 /* of them and their scales */
    uint64_t written_bytes;             /* additional disk space, as far as known */
    uint64_t stale_bytes;               /* unused copies in the shards */
};

/* Builds it in OUT.part, which is renamed to OUT when it is complete.  If the build is interrupted at any moment, a second run with the
 * same sources completes it.  False with the reason; *r can be freed either way. */
bool hybrid_build(const char *int4_dir, struct source *fp8, const struct hybrid_options *o, struct hybrid_report *r, struct err *e);
void hybrid_report_free(struct hybrid_report *r);
