/* One message of a conversation, as transcript, chat template and responder use it.  Plain values.
 * All text is UTF-8 and owned by the caller (usually an arena). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

enum role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL, ROLE_OTHER };

struct call {
    struct text name;
    struct text arguments;              /* JSON text of an object, keys in order; empty: the call has no arguments field.
                                         * Anything but an object is refused by template_render() */
    struct text id;                     /* unique: the server's, else made when the call began; empty: not known, in old sessions */
};

/* An answer as it was sampled: what follows the prompt, without the token that ended it. */
struct said {
    const int32_t *ids;                 /* [n] */
    int  n;                             /* 0: not known */
    struct text text;                   /* what they decode to, control tokens by their names */
    bool thinks;                        /* the prompt ended inside the think block */
};

/* The placeholders of images and videos in a content; both have the same length. */
#define MEDIA_IMAGE "<|vision_start|><|image_pad|><|vision_end|>"
#define MEDIA_VIDEO "<|vision_start|><|video_pad|><|vision_end|>"

/* A picture of a message. */
struct media {
    struct text name;                   /* for people: a path, or "" */
    struct text bytes;                  /* of its file; in a chat, a PNG or JPEG that needs no turning */
    int w, h;                           /* its pixels */
};

struct message {
    enum role   role;
    bool        aside;                  /* a user message that asks nothing: the template does not count it as the last query */
    bool        fleeting;               /* a user message that the next prompt will have with other words: what is computed is kept up to here */
    struct text content;                /* parts already joined; images as their placeholder tags */
    size_t     *media;                  /* [n_media] offsets of the image placeholders in content; the same tags at other
                                         * offsets are plain text */
    const struct media *pictures;       /* [n_media] what is in these places; NULL: not known, as in `debug render` */
    int         n_media;
    const char *refusal;                /* the error that the template raises for this content, or NULL */
    bool        has_reasoning;          /* the field reasoning_content is a string */
    struct text reasoning;
    struct call *calls;
    int         n_calls;
    struct said said;                   /* ROLE_ASSISTANT: goes into a prompt that shows the reasoning, instead of the texts and calls */
    struct text call_id;                /* ROLE_TOOL: id of the call whose result this is; empty: results are in the order of the calls */
};
