/* The messages of a prompt: which entries of the shown path it holds, and how files are written into messages.
 *
 * A dropped entry leaves a line in its place, so that roles still alternate and the model knows; a dropped answer takes its calls and their results
 * along.  Of the entries before a summary only pinned ones are sent.
 *
 * A message names files as "@path" or "@"a path with blanks"", a word of its own.  The message stays as it was typed; the model reads the text of the
 * files after it, between fences that are longer than any run of backticks in TEXT; pictures come before it, as the model learned them:
 *
 *     MESSAGE
 *
 *     File: PATH
 *     ```
 *     TEXT
 *     ``` */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/memory.h"
#include "chat/pdf.h"
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

struct shelf;

struct attached {
    struct entry_file *files;           /* in `mem`, or in the shelf */
    int n, cap;
    enum pdf_as pdf;                    /* what becomes of PDF files */
    enum { ATTACH_WHOLE, ATTACH_PICTURES, ATTACH_NAMES } what;          /* PICTURES: texts are left out; NAMES: nothing is read */
    struct shelf *shelf;                /* pictures and PDF files come from there, by `take`; NULL: they are read at once */
    bool (*take)(struct shelf *s, const char *path, struct attached *to, struct err *e);        /* shelf_take() */
    bool awaits;                        /* the shelf is still reading one, which is missing here */
    const atomic_bool *ends;            /* ends the reading of PDF files when it becomes true; may be NULL */
    struct arena mem;
};

bool attach_add(struct attached *a, const char *path, struct err *e);
void attach_one(struct attached *a, const struct entry_file *f);        /* adds a file that was read; its texts stay where they are */
bool attach_stat(const char *path, struct stat *st);    /* stat() of the file, or of the one whose pages "FILE:3-5" are; false: it is not there */
/* Adds the files of a message in order, each once.  False: a file cannot be attached, or does not exist, and `a` is empty; with `anyway` such a
 * word is just text. */
bool attach_read(struct attached *a, const char *message, size_t n, bool anyway, struct err *e);
void attach_free(struct attached *a);
/* True if the file could be attached.  False with the reason. */
bool attach_check(const char *path, struct err *e);
/* Reads one file, a picture or a text.  False and *absent (may be NULL) as attach_file(); *f is in `a`. */
bool attach_any(struct entry_file *f, const char *path, struct arena *a, bool *absent, struct err *e);
/* Reads one text file: its size, and its text as UTF-8 unless `text` is NULL.  False if it cannot be attached; *absent (may be NULL) is then true if
 * there is no regular file of that name. */
bool attach_file(const char *path, size_t *bytes, struct buf *text, bool *absent, struct err *e);
/* Makes what the model reads of a message with files: its pictures, each with its name if there are several, the message, its texts. */
void attach_content(struct message *to, const struct entry *m, struct arena *a);
