/* A saver is one save of a sequence: it takes states and KV rows from the device to a checkpoint file.
 *
 * Two threads may use it at a time, each with the functions listed for it below: the device's thread copies, the file's thread writes.  Only
 * saver_shorten() changes what both threads read; the file's thread must not write meanwhile. */
#ifndef Q35_ENGINE_SAVER_H
#define Q35_ENGINE_SAVER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/checksum.h"
#include "base/err.h"
#include "engine/homes.h"
#include "engine/resident.h"

struct saver;

/* Copied KV rows: of the positions from the end of the piece before (or the first that was wanted) to `to` - 1. */
struct saver_piece {
    struct saver_piece *next;           /* for the caller, who may chain pieces */
    int    to;
    size_t bytes;
    char   data[];
};

/* The outcome of a save. */
struct saved {
    size_t written, bytes;              /* bytes that this save wrote; size of the file now */
    struct saving has;                  /* content of the file now; the saver owns its ids */
    struct err failed;                  /* if not empty: why the save failed.  The file is deleted then, unless another program has it */
};

/* The content that a save would write if the sequence stayed as it is. */
struct saving saver_saving(const struct resident *r);

/* Copies the states of snapshots, which the device must have finished.  What `r` points to must stay valid while rows are copied.
 * NULL: the sequence has no snapshots, so there is nothing to save. */
struct saver *saver_open(const char *path, struct fingerprint identity, const struct resident *r);
void saver_close(struct saver *s);
const char *saver_path(const struct saver *s);
int  saver_n_tokens(const struct saver *s);             /* tokens that are to be saved */
int  saver_n_written(const struct saver *s);            /* tokens whose rows the file has */

/* --- on the device's thread */

/* For a sequence whose rows will be overwritten: the file must already have the rows of its first `common` tokens.  Called before
 * saver_open_file().  Returns the first position whose rows must be copied. */
int  saver_expect(struct saver *s, int common);
/* Leaves out tokens and states that the sequence has replaced since. */
void saver_shorten(struct saver *s);
/* Copies rows from position `from` on, as many as fit into `most` bytes, but at least one.  The caller frees them; NULL when the device failed. */
struct saver_piece *saver_copy(const struct saver *s, int from, size_t most, struct err *fault);

/* --- on the file's thread */

/* Opens the file and drops from it what is not of this sequence.  False: the file lacks the rows of saver_expect(), and stays as it is. */
bool saver_open_file(struct saver *s);
void saver_write(struct saver *s, const struct saver_piece *p);
bool saver_failed(const struct saver *s);               /* opening or writing the file failed */
/* Commits, after all rows were written; or gives the failure. */
struct saved saver_finish(struct saver *s);
void saver_close_file(struct saver *s);                 /* drops what saver_finish() did not commit */

#endif
