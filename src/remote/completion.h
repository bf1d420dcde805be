/* Reads one answer of an OpenAI-compatible server, streamed by /v1/chat/completions: from events to reasoning, text and tool calls.
 *
 * Servers differ; all of these forms are understood:
 * - reasoning comes as `reasoning_content` (llama.cpp, SGLang, vLLM before 0.16), `reasoning` (vLLM, ollama) or `thinking`.  If a delta has
 *   several, only the name that this answer used first counts, so that nothing comes twice;
 * - parts of a tool call may lack id and index (ollama), all have index 0 (ollama), repeat id and name, begin at index 1, or bring the
 *   arguments as an object instead of text;
 * - blank lines before the reasoning, and before the text after it (vLLM, transformers), belong to the template and are dropped;
 * - the figures come in a last chunk without choices, in every chunk, as `timings` (llama.cpp), or not at all;
 * - an error may come in the middle, as an event or a chunk, as an object or a text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "answer/stats.h"
#include "base/err.h"
#include "base/text.h"

enum completion_kind {
    COMPLETION_READING,                 /* done, total, cached: tokens of the prompt */
    COMPLETION_REASONING,               /* text */
    COMPLETION_TEXT,                    /* text */
    COMPLETION_CALL_BEGIN,              /* text: the tool's name, never empty; id: the server's, or empty */
    COMPLETION_CALL,                    /* text: arguments as a JSON object; truncated: the answer ended within the call, or they are no object, and
                                         * `text` is as it came */
};
struct completion_delta {
    enum completion_kind kind;
    struct text text, id;               /* valid during the call */
    bool   truncated;
    size_t done, total, cached;
};
typedef void completion_fn(const struct completion_delta *d, void *arg);

/* Why the answer ended. */
enum completion_finish { COMPLETION_OPEN, COMPLETION_DONE /* without a reason */, COMPLETION_STOPPED, COMPLETION_LENGTH,
                         COMPLETION_CONTEXT, COMPLETION_BROKEN /* the model ended within a call */, COMPLETION_FILTERED };

struct completion;
/* continues: the answer continues an earlier one, so that blank lines at its beginning are kept. */
struct completion *completion_open(completion_fn *fn, void *arg, bool continues);
void completion_close(struct completion *c);
/* An answer of more than so many bytes is an error of completion_push(): the server does not stop. */
void completion_limit(struct completion *c, size_t most);

/* Takes bytes of the body as they arrive.  False with the reason: the server sent an error, or the body is no stream of events. */
bool completion_push(struct completion *c, const char *bytes, size_t n, struct err *e);
/* The body has ended.  False with the reason: it ended before the answer was complete. */
bool completion_end(struct completion *c, struct err *e);
/* Reports calls that are still open as truncated, after an interrupt or when the stream broke. */
void completion_cut(struct completion *c);

enum completion_finish completion_finish(const struct completion *c);
struct stats completion_stats(const struct completion *c);      /* negative figures are not known */
/* The name of the field in which reasoning came, for sending it back in later requests; NULL: none came. */
const char *completion_reasoning_name(const struct completion *c);
/* Makes one sentence for a person of a body with an error, in any of the forms that servers use. */
void completion_error(const char *body, size_t n, struct err *e);
