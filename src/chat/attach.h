/* Files that a message names: "@path" or "@"a path with blanks"" as a word of its own.  The message stays as it was typed; the
 * model reads the files' text behind it:
 *
 *     MESSAGE
 *
 *     File: PATH
 *     ```
 *     TEXT
 *     ```
 *
 * with fences longer than any run of backticks in TEXT. */
#ifndef Q35_CHAT_ATTACH_H
#define Q35_CHAT_ATTACH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "session/transcript.h"

#define ATTACH_MAX ((size_t)16 << 20)   /* bytes of a file */

struct attached {
    struct entry_file *files;           /* in `mem` */
    int n, cap;
    struct arena mem;
};

bool attach_add(struct attached *a, const char *path, struct err *e);
/* Adds the files of a message in order, each once.  False: one of them cannot be attached, or is not there; with `anyway` such a word
 * is just a word.  Nothing is left in `a` then. */
bool attach_read(struct attached *a, const char *message, size_t n, bool anyway, struct err *e);
void attach_free(struct attached *a);
/* One file: its size, and its text as UTF-8 unless `text` is NULL.  False if it cannot be attached; *absent (may be NULL) then
 * tells whether there is no regular file of that name. */
bool attach_file(const char *path, size_t *bytes, struct buf *text, bool *absent, struct err *e);
/* What the model reads of a user's message. */
struct text attach_content(const struct entry *m, struct arena *a);

#endif
