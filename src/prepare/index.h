/* model.safetensors.index.json: the file of each tensor. */
#ifndef Q35_PREPARE_INDEX_H
#define Q35_PREPARE_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define INDEX_FILE "model.safetensors.index.json"
#define EXTRA_FILE "model_extra_tensors.safetensors"

struct index_entry {
    const char *tensor, *file;
    uint64_t    bytes;
};

/* Sorts the entries by name and writes the index of DIR, replacing an old one atomically. */
bool index_write(const char *dir, struct index_entry *list, int n, struct err *e);

/* Writes a small file of DIR atomically, readable by everybody. */
bool index_write_text(const char *dir, const char *name, const char *text, uint64_t n, struct err *e);

#endif
