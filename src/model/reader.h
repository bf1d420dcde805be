/* Byte ranges of files into memory, by several threads at once, past the page cache where the file system allows it (O_DIRECT).
 * Called from one owner thread; blocks come in any order. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { READER_PAGE = 4096 };            /* reads begin and end at multiples of it */

struct read_job {
    int         file;                   /* index into paths */
    uint64_t    offset, bytes;
    const void *copy;                   /* when not NULL the bytes are here instead, and offset does not count */
};

/* A job's bytes in a buffer. */
struct read_block {
    int   job, buffer;
    char *data;                         /* the byte at job.offset */
};

struct reader_options {
    const char *const *paths;
    int                n_paths;
    const struct read_job *jobs;
    int                n_jobs;
    char *const       *buffers;         /* page-aligned; owned by the caller, used until reader_close() */
    int                n_buffers, n_threads;
    size_t             buffer_bytes;    /* a job's bytes and the pages that they reach into must fit */
    /* Called on a reading thread for every block; false with the reason ends all reading.  May be NULL. */
    bool (*check)(void *arg, int job, const char *data, struct err *e);
    void *arg;
};

enum read_result { READ_BLOCK, READ_NOTHING_YET, READ_FAILED };

struct reader;
/* Starts reading; the options' arrays must stay.  NULL when a file cannot be opened. */
struct reader *reader_open(const struct reader_options *o, struct err *e);
/* Returns the next block, after at most timeout_ms; READ_FAILED with the reason: no more will come. */
enum read_result reader_next(struct reader *r, struct read_block *out, int timeout_ms, struct err *e);
/* Allows a block's buffer to be filled again. */
void reader_give_back(struct reader *r, int buffer);
bool reader_is_direct(const struct reader *r);          /* no file fell back to the page cache so far */
/* Stops after the reads that are under way. */
void reader_close(struct reader *r);
