/* A conversation as the chat template sees it.  Read from the JSON of an OpenAI-style message list, or built by chat.
 * All text is UTF-8 and owned by the caller (usually an arena). */
#ifndef Q35_TEXT_MESSAGE_H
#define Q35_TEXT_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "text/text.h"

enum role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL, ROLE_OTHER };

struct call {
    struct text name;
    struct text arguments;              /* JSON text of an object, keys in order; empty: the call has no arguments field.
                                         * Anything but an object is refused by template_render() */
};

struct message {
    enum role   role;
    struct text content;                /* parts already joined; images as their placeholder tags */
    size_t     *media;                  /* [n_media] where in content such a placeholder begins; the same tags anywhere
                                         * else are text that somebody wrote */
    int         n_media;
    const char *refusal;                /* what the template says when it comes to this content, or NULL */
    bool        has_reasoning;          /* the field reasoning_content is a string */
    struct text reasoning;
    struct call *calls;
    int         n_calls;
};

struct conversation {
    struct message *messages;
    int             n_messages;
    struct text    *tools;              /* JSON text of each tool object, as the client wrote it */
    int             n_tools;
    bool            thinking;           /* enable_thinking is not the boolean false */
    bool            generation_prompt;  /* add_generation_prompt */
    bool            vision_ids;         /* add_vision_id */
};

/* One of our placeholders in a content, whichever it is: both are this long. */
#define MEDIA_IMAGE "<|vision_start|><|image_pad|><|vision_end|>"
#define MEDIA_VIDEO "<|vision_start|><|video_pad|><|vision_end|>"

/* Reads {"messages": [...], "tools": [...], "kwargs": {...}} (extra keys ignored) into `a`.  False with a sentence of ours
 * for what is no such object.  What the template refuses is template_render()'s to say, in the template's words. */
bool conversation_parse(struct conversation *c, const char *json, size_t len, struct arena *a, struct err *e);

#endif
