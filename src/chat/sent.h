/* The messages of a prompt: which entries of the shown path it holds, and how files are written into messages.
 *
 * A dropped entry leaves a line in its place, so that roles still alternate and the model knows; a dropped answer takes its calls and their results
 * along.  Of the entries before a summary only pinned ones are sent.
 *
 * A message names files as "@path" or "@"a path with blanks"", a word of its own.  The message stays as it was typed; the model reads the text of the
 * files after it, between fences that are longer than any run of backticks in TEXT:
 *
 *     MESSAGE
 *
 *     File: PATH
 *     ```
 *     TEXT
 *     ``` */
#ifndef Q35_CHAT_SENT_H
#define Q35_CHAT_SENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "session/transcript.h"

#define SENT_INSTEAD "(left out)"

enum sent { SENT_WHOLE, SENT_AS_LINE, SENT_NOT };
enum sent_for {
    SENT_NEXT,                  /* the prompt of the next message */
    SENT_ANSWER,                /* the prompt of an answer to the last user message, which is then sent whole */
    SENT_SUMMED,                /* the next prompt if a summary were the end of the path */
};

/* Returns for each entry of the path how it is sent, in `a`. */
enum sent *sent_all(const struct transcript *t, enum sent_for why, struct arena *a);
/* Returns the messages of a prompt, in `a`, with the system prompt and the text of files.  `more`: one more message of the user, or NULL. */
struct message *sent_messages(const struct transcript *t, const char *more, struct arena *a, int *n);

/* --- files --- */

#define ATTACH_MAX ((size_t)16 << 20)   /* bytes of a file */

struct attached {
    struct entry_file *files;           /* in `mem` */
    int n, cap;
    struct arena mem;
};

bool attach_add(struct attached *a, const char *path, struct err *e);
/* Adds the files of a message in order, each once.  False: a file cannot be attached, or does not exist, and `a` is empty; with `anyway` such a
 * word is just text. */
bool attach_read(struct attached *a, const char *message, size_t n, bool anyway, struct err *e);
void attach_free(struct attached *a);
/* Reads one file: its size, and its text as UTF-8 unless `text` is NULL.  False if it cannot be attached; *absent (may be NULL) is then true if there
 * is no regular file of that name. */
bool attach_file(const char *path, size_t *bytes, struct buf *text, bool *absent, struct err *e);
/* Returns what the model reads of a message with files. */
struct text attach_content(const struct entry *m, struct arena *a);

#endif
