/* A conversation as a document: the messages of the shown path, with their times.  "md" has reasoning as a quote, calls and results fenced;
 * "txt" has messages and answers, and a line for each call with its result; "json" has the messages as a session has them, without token ids. */
#ifndef Q35_SESSION_EXPORT_H
#define Q35_SESSION_EXPORT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "session/transcript.h"

extern const char *const export_formats[];              /* NULL behind the last */

bool export_transcript(const struct transcript *t, const char *format, struct buf *out, struct err *e);
bool export_is_format(const char *word);
/* Completes *format (NULL: not said) for `file` (NULL: stdout, or a name of ours): what was said must be a format, else the file's
 * ending must be one; without both it is md. */
bool export_choose(const char **format, const char *file, struct err *e);
/* Writes a new file; never over one that is there. */
bool export_write(const char *file, const struct buf *text, struct err *e);

#endif
