/* q35chat-provenance.json: the sources and files of a checkpoint that q35chat built.  It has no time and no path, so the same sources
 * give the same bytes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "fetch/digest.h"

#define PROVENANCE_FILE "q35chat-provenance.json"

struct provenance_origin {
    char *repo, *commit;                /* NULL: unknown */
    char  fingerprint[DIGEST_HEX];      /* identifies a checkpoint without reading all of it; computed in hybrid.c */
};

struct provenance_item {                /* a file or a moved tensor */
    char    *name;
    uint64_t bytes;
    char     sha256[DIGEST_HEX];        /* "": unknown */
};

struct provenance {
    char *program;                      /* "q35chat 0.1.0" */
    char *layout;                       /* "linked" or "compact" */
    struct provenance_origin int4, fp8;
    struct provenance_item *files, *tensors;
    int n_files, n_tensors;
};

void provenance_print(const struct provenance *p, struct buf *out);
/* Reads the record of DIR.  False with the reason; *there is false if there is no file. */
bool provenance_read(struct provenance *p, const char *dir, bool *there, struct err *e);
void provenance_free(struct provenance *p);
void provenance_add_file(struct provenance *p, const char *name, uint64_t bytes, const char *sha256);
void provenance_add_tensor(struct provenance *p, const char *name, uint64_t bytes, const char *sha256);
/* True if both have the same sources and layout. */
bool provenance_same_sources(const struct provenance *a, const struct provenance *b);
const struct provenance_item *provenance_find(const struct provenance_item *list, int n, const char *name);     /* NULL: not there */
