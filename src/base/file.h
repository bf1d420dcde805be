/* Whole files: reading, writing, replacing, renaming. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"

/* Reads the whole file.  False, with the reason, if it is not a regular file (checked without blocking) or has more than `max`
 * bytes. */
bool file_read(struct buf *b, const char *path, size_t max, struct err *e);
/* The same, but also from a pipe, a FIFO or a device, which must reach its end within `patience_ms`. */
bool file_read_stream(struct buf *b, const char *path, size_t max, int patience_ms, struct err *e);
/* Reads the rest of an open file of any kind; `path` is for the message. */
bool file_read_fd(struct buf *b, int fd, const char *path, size_t max, struct err *e);
/* Appends the next line of a stream, without its newline.  A last line needs none.  After FILE_LINE_INTERRUPTED, which a signal causes, another
 * call continues the line; FILE_LINE_UNREADABLE leaves the reason in errno. */
enum file_line { FILE_LINE, FILE_LINE_END, FILE_LINE_INTERRUPTED, FILE_LINE_TOO_LONG, FILE_LINE_UNREADABLE };
enum file_line file_read_line(struct buf *b, FILE *in, size_t max);
/* Writes all n bytes, with as many write() calls as needed; false with errno. */
bool file_write(int fd, const void *bytes, size_t n);
/* Read and write all n bytes at that offset; false with errno, which is 0 if the file ends before them. */
bool file_read_at(int fd, void *to, size_t n, uint64_t at);
bool file_write_at(int fd, const void *bytes, size_t n, uint64_t at);
/* Appends to a file, which is made if need be; false with errno.  Does not wait for the reader of a FIFO. */
bool file_append(const char *path, const void *bytes, size_t n);
/* Replaces the file atomically by a new one that only its owner can read; false with errno, and the old file is unchanged. */
bool file_replace(const char *path, const void *bytes, size_t n);
/* The same for the thread of the screen, which does not wait for the disk: if power fails soon, the file may be the old one, or empty. */
bool file_replace_unsynced(const char *path, const void *bytes, size_t n);

/* Renames a file, never over another file: then, and on any other failure, false and errno, and `from` is still there. */
bool file_move(const char *from, const char *to);
/* Waits until a new name of a file is on disk, by syncing its directory.  Does nothing on a file system that cannot do that. */
void file_sync_name(const char *path);
/* Makes the folders that lead to the path, which is changed meanwhile; only their owner can use them.  False with the reason. */
bool file_make_parents(char *path, struct err *e);
