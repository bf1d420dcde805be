/* One message of a conversation: what the transcript keeps, the chat template writes and a responder is sent.  Plain values.
 * All text is UTF-8 and owned by the caller (usually an arena). */
#ifndef Q35_BASE_MESSAGE_H
#define Q35_BASE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

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

#endif
