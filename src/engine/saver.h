/* One save of a sequence: its states and KV rows on their way from the device to a checkpoint file.
 *
 * Two threads may work at it, each with functions of its own: the one that has the device copies, the other one writes the file.  Only
 * saver_shorten() changes what both read; nothing is written meanwhile. */
#ifndef Q35_ENGINE_SAVER_H
#define Q35_ENGINE_SAVER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/checksum.h"
#include "base/err.h"
#include "engine/homes.h"
#include "engine/resident.h"

struct saver;

/* Copied rows, from those of the piece before it up to that token. */
struct saver_piece {
    struct saver_piece *next;           /* the caller's */
    int    to;
    size_t bytes;
    char   data[];
};

/* What came of it. */
struct saved {
    size_t written, bytes;              /* by this save; that the file has now */
    struct saving has;                  /* what the file has now; its ids are the saver's */
    struct err failed;                  /* or why it could not be written; the file is gone then, unless another program has it */
};

/* What a save of the sequence would have, as long as nothing more comes of it. */
struct saving saver_saving(const struct resident *r);

/* Copies the states, which are those of snapshots that the device has finished.  What `r` points to stays valid while rows are copied.
 * NULL: there are no states. */
struct saver *saver_open(const char *path, struct fingerprint identity, const struct resident *r);
void saver_close(struct saver *s);
const char *saver_path(const struct saver *s);
int  saver_n_tokens(const struct saver *s);             /* that are to be saved */
int  saver_n_written(const struct saver *s);            /* whose rows the file has */

/* --- on the thread of the device */

/* For a sequence that cannot be copied from later: of the first `common` tokens the file must have the rows.  Before the file is opened.
 * Returns the position from which on rows are to be copied. */
int  saver_expect(struct saver *s, int common);
/* Leaves out what the sequence does not have any more. */
void saver_shorten(struct saver *s);
/* The rows from a position on, as many as `most` bytes hold, but at least one.  The caller's to free; NULL when the device failed. */
struct saver_piece *saver_copy(const struct saver *s, int from, size_t most, struct err *fault);

/* --- on the thread of the file */

/* Of the sequence the file keeps what it has.  False: it lacks what it was expected to have, and is left as it is. */
bool saver_open_file(struct saver *s);
void saver_write(struct saver *s, const struct saver_piece *p);
bool saver_failed(const struct saver *s);               /* opening the file or writing to it */
/* All rows were written, or something failed. */
struct saved saver_finish(struct saver *s);
void saver_close_file(struct saver *s);                 /* what saver_finish() did not commit is dropped */

#endif
