/* Where a checkpoint that we built comes from and what its files are: q35chat-provenance.json beside them.  It holds no time and no path, so
 * the same sources give the same bytes. */
#ifndef Q35_PREPARE_PROVENANCE_H
#define Q35_PREPARE_PROVENANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "fetch/digest.h"

#define PROVENANCE_FILE "q35chat-provenance.json"

struct provenance_origin {
    char *repo, *commit;                /* NULL: not known */
    char  fingerprint[DIGEST_HEX];      /* tells one checkpoint from another without reading it all; hybrid.c says of what */
};

struct provenance_item {                /* a file, or a tensor that was moved */
    char    *name;
    uint64_t bytes;
    char     sha256[DIGEST_HEX];        /* "": not known */
};

struct provenance {
    char *program;                      /* "q35chat 0.1.0" */
    char *layout;                       /* "linked" or "compact" */
    struct provenance_origin int4, fp8;
    struct provenance_item *files, *tensors;
    int n_files, n_tensors;
};

void provenance_print(const struct provenance *p, struct buf *out);
/* DIR's file.  False with the reason; *there tells a missing file from a bad one. */
bool provenance_read(struct provenance *p, const char *dir, bool *there, struct err *e);
void provenance_free(struct provenance *p);
void provenance_add_file(struct provenance *p, const char *name, uint64_t bytes, const char *sha256);
void provenance_add_tensor(struct provenance *p, const char *name, uint64_t bytes, const char *sha256);
/* Whether both come from the same sources and have the same layout. */
bool provenance_same_sources(const struct provenance *a, const struct provenance *b);
const struct provenance_item *provenance_find(const struct provenance_item *list, int n, const char *name);     /* NULL: not there */

#endif
