/* The files of one checkpoint as one set of named tensors: which copy of a name counts, and which were taken. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/checksum.h"
#include "base/err.h"
#include "model/safetensors.h"

struct shard_tensor {
    const char          *name;
    uint64_t             hash;
    const struct tensor *t;
    int                  file;          /* index into files */
    bool                 taken;         /* for the caller: somebody wanted it */
};

struct shards {
    struct safetensors  *files;
    int                  n_files;
    struct shard_tensor *list;          /* one entry a name */
    int                  n, cap;
    int                 *slots;         /* hash table of indices + 1 */
    uint64_t             n_slots;       /* a power of two */
    int                  n_stale;       /* stored copies that do not count */
};

/* Opens the shards of DIR.  With model.safetensors.index.json each tensor is in the file that the index names, and copies elsewhere are stale; names
 * that the index lacks are taken from model_extra_tensors.safetensors.  Without an index: model.safetensors, else model-*.safetensors, of which the
 * later file counts, and model_extra_tensors.safetensors for names that are nowhere else.
 * False with the reason, which names file and tensor; *s must be closed either way. */
bool shards_open(struct shards *s, const char *dir, struct err *e);
void shards_close(struct shards *s);
struct shard_tensor *shards_find(const struct shards *s, const char *name);                 /* NULL: not there */
static inline const struct safetensors *shards_file(const struct shards *s, const struct shard_tensor *t) { return &s->files[t->file]; }
/* Frees everything about names; the mappings stay. */
void shards_drop_names(struct shards *s);

/* Adds a fingerprint of the model in a directory, made without reading all of it: names, sizes and 16 samples of 4 KiB each of config.json, the index
 * and the shards, their beginnings among them. Another training of the same geometry has other samples. */
void shards_add_fingerprint(struct fingerprinter *f, const char *dir);
