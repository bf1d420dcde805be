/* The answer as it arrives -> reasoning, text and tool calls (rules: docs/formats.md).  Fed with decoded text in pieces
 * of any size; the result does not depend on how it was cut. */
#ifndef Q35_TEXT_STREAM_H
#define Q35_TEXT_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "text/message.h"

struct stream;

enum delta_kind {
    DELTA_REASONING,    /* text */
    DELTA_CONTENT,      /* text */
    DELTA_CALL_BEGIN,   /* text: the function's name */
    DELTA_CALL_END,     /* text: arguments as a JSON object; truncated: the answer ended inside, never run it */
};
struct delta {
    enum delta_kind kind;
    struct text     text;               /* valid during the callback */
    size_t          from;               /* of reasoning and content: byte of the whole input at which the text stands, as it is */
    int             call;               /* 0, 1, ...: which call of this answer */
    bool            truncated;
};
typedef void stream_fn(const struct delta *d, void *arg);

/* tools: JSON texts as in struct conversation, n 0: markup is text.  thinking: the prompt ended inside the think block. */
struct stream *stream_open(const struct text *tools, int n_tools, bool thinking, stream_fn *fn, void *arg);
void stream_push(struct stream *s, const char *text, size_t n);
/* The end; `cut` when the model was stopped by a limit or by the user rather than by itself. */
void stream_finish(struct stream *s, bool cut);
bool stream_in_reasoning(const struct stream *s);
void stream_close(struct stream *s);

#endif
