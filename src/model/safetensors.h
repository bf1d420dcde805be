/* One safetensors file: its header checked, its bytes mapped.  Name -> dtype, shape, byte range; no meaning attached.
 * The file is mapped read-only and must not shrink while it is open: reading a page that is gone kills the process
 * (SIGBUS; base/mapped.h reports which file it was).  safetensors_read() and safetensors_populate() report that instead. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/tensor.h"

enum { TENSOR_MAX_DIMS = 8 };

struct tensor {
    const char *name;                   /* printable ASCII */
    uint64_t    hash;                   /* of the name: safetensors_hash() */
    uint64_t    offset, bytes;          /* where in the file; inside it and as large as dtype and shape say */
    enum dtype  dtype;
    int         n_dims;
    uint64_t    shape[TENSOR_MAX_DIMS];
};

struct safetensors {
    char          *path;
    int            fd;
    const uint8_t *map;                 /* the whole file */
    uint64_t       size;
    struct tensor *tensors;             /* in the order of the header */
    int            n_tensors;
    int           *slots;               /* hash table of indices + 1 */
    uint64_t       n_slots;             /* a power of two */
    char          *header;              /* owns the names */
};

/* Maps a file and reads its header.  False with the reason, which names the file, and the tensor if there is one. *s can be closed either way. */
bool safetensors_open(struct safetensors *s, const char *path, struct err *e);
void safetensors_close(struct safetensors *s);
/* Reads only the header: `json` of len bytes, to be followed by data_bytes of data, as in a file called `path`.  Nothing is mapped; *s must be
 * closed. */
bool safetensors_parse(struct safetensors *s, const char *json, size_t len, uint64_t data_bytes, const char *path, struct err *e);

const struct tensor *safetensors_find(const struct safetensors *s, const char *name);       /* NULL: not there */
static inline const void *safetensors_data(const struct safetensors *s, const struct tensor *t) { return s->map + t->offset; }

/* Copies a tensor's bytes by read(2).  False with the reason: the file has shrunk, or cannot be read. */
bool safetensors_read(const struct safetensors *s, const struct tensor *t, void *dst, struct err *e);
/* Makes bytes [offset, offset + n) of the mapping present in memory.  False with the reason. */
bool safetensors_populate(const struct safetensors *s, uint64_t offset, uint64_t n, struct err *e);
/* Frees names, shapes and table; mapping and path stay. */
void safetensors_drop_header(struct safetensors *s);

uint64_t    safetensors_hash(const char *name);
const char *dtype_name(enum dtype t);
size_t      dtype_bytes(enum dtype t);          /* of one element; 0 for DT_NONE and DT_OTHER */
