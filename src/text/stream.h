/* Splits an arriving answer into reasoning, text and tool calls (rules: docs/formats.md).  The input is decoded text in pieces of
 * any size; the result does not depend on the cuts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "text/message.h"

struct stream;

enum delta_kind {
    DELTA_REASONING,    /* text */
    DELTA_CONTENT,      /* text */
    DELTA_CALL_BEGIN,   /* text: the function's name; truncated: the model ended within the name, and the text is empty; a limit within it leaves no
                         * call */
    DELTA_CALL_PIECE,   /* text: the next part of the arguments' JSON text, as soon as it is certain; the first part begins with the brace.  The text
                         * of CALL_END begins with all of them, unless the model gave a parameter twice: then none follow the first value */
    DELTA_CALL_END,     /* text: arguments as a JSON object; truncated: the answer ended inside the call, which must not run: the text ends where the
                         * model ended, and is no JSON */
};
struct delta {
    enum delta_kind kind;
    struct text     text;               /* valid during the callback */
    size_t          from;               /* reasoning, content: byte offset in the whole input where this text begins */
    int             call;               /* number of the call in this answer, from 0 */
    bool            truncated;
    size_t          closing;            /* truncated: number of bytes after the text that would close its object */
};
typedef void stream_fn(const struct delta *d, void *arg);

/* tools: JSON texts as in struct conversation, n 0: markup is text.  thinking: the prompt ended inside the think block. */
struct stream *stream_open(const struct text *tools, int n_tools, bool thinking, stream_fn *fn, void *arg);
void stream_push(struct stream *s, const char *text, size_t n);
/* Ends the answer. `cut`: a limit or the user stopped the model, it did not end by itself. */
void stream_finish(struct stream *s, bool cut);
bool stream_in_reasoning(const struct stream *s);
void stream_close(struct stream *s);
