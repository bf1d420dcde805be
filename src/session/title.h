/* What a conversation is called. */
#ifndef Q35_SESSION_TITLE_H
#define Q35_SESSION_TITLE_H

#include "base/buf.h"
#include "base/text.h"
#include "chat/chat.h"
#include "session/transcript.h"

enum { TITLE_COLUMNS = 60 };

/* Each appends one line of valid UTF-8 without control characters, or nothing. */
void title_clean(struct buf *out, struct text given);                   /* a title as somebody typed it */
/* A title that a model has written: its first line without quotation marks around it and a full stop.  False: that is no title. */
bool title_written(struct buf *out, const char *answer);
void title_of_message(struct buf *out, struct text message);            /* its first line, cut to TITLE_COLUMNS */
void title_of_node(struct buf *out, const struct chat_node *n);         /* its first line; else the answer after its calls, and the first call; else
                                                                         * in brackets what it is */
void title_of(struct buf *out, const struct transcript *t);             /* as given, else after the first message of all */

#endif
