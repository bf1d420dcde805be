/* One message of a conversation, as transcript, chat template and responder use it.  Plain values.
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
    struct text id;                     /* unique: the server's, else made when the call began; empty: not known, in old sessions */
};

struct message {
    enum role   role;
    bool        aside;                  /* a user message that asks nothing: the template does not count it as the last query */
    struct text content;                /* parts already joined; images as their placeholder tags */
    size_t     *media;                  /* [n_media] offsets of the image placeholders in content; the same tags at other
                                         * offsets are plain text */
    int         n_media;
    const char *refusal;                /* the error that the template raises for this content, or NULL */
    bool        has_reasoning;          /* the field reasoning_content is a string */
    struct text reasoning;
    struct call *calls;
    int         n_calls;
    struct text call_id;                /* ROLE_TOOL: id of the call whose result this is; empty: results are in the order of the calls */
};

#endif
