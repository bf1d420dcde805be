/* Titles of conversations. */
#ifndef Q35_SESSION_TITLE_H
#define Q35_SESSION_TITLE_H

#include "base/buf.h"
#include "base/text.h"
#include "session/transcript.h"

enum { TITLE_COLUMNS = 60 };

/* Each appends one line of valid UTF-8 without control characters, or nothing. */
void title_clean(struct buf *out, struct text given);                   /* a title that the user typed */
/* A title that a model wrote: its first line without quotation marks around it and a full stop.  False: it is not a title. */
bool title_written(struct buf *out, const char *answer);
void title_of_message(struct buf *out, struct text message);            /* its first line, cut to TITLE_COLUMNS */
void title_of(struct buf *out, const struct transcript *t);             /* the given title, else that of the first message */

#endif
