/* Writes safetensors files: several at once, by several threads, past the page cache where the file system allows it (O_DIRECT).  The
 * bytes depend on the tensors and their order alone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "model/safetensors.h"

/* A tensor to be written.  The caller fills in all but `at`. */
struct tensor_out {
    const char *name;                   /* printable ASCII without quotes and backslashes */
    enum dtype  dtype;                  /* one that has a name: not DT_NONE, not DT_OTHER */
    int         n_dims;
    uint64_t    shape[TENSOR_MAX_DIMS];
    uint64_t    at;                     /* from the end of the header; set by safetensors_write() */
    const void *source;                 /* for `make` */
};

struct file_out {
    const char *path;                   /* an older file there is overwritten */
    struct tensor_out *const *tensors;    /* in the order of the file */
    int         n_tensors;
    uint64_t    bytes;                  /* of the whole file; set by safetensors_write() */
};

struct write_options {
    int n_threads;                      /* 0: one a processor, at least 4 */
    /* Bytes [at, at + n) of t, on any thread; false with the reason ends all writing. */
    bool (*make)(const struct tensor_out *t, uint64_t at, uint64_t n, uint8_t *dst, struct err *e);
};

/* True when the bytes are on the disk.  False with the reason; then some files are there and incomplete. */
bool safetensors_write(struct file_out *files, int n_files, const struct write_options *o, struct err *e);

uint64_t tensor_out_bytes(const struct tensor_out *t);
