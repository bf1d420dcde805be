/* The q35chats that are attached: each has asked for a stream of lines, which stays open as long as it is.  It tells how the model loads, what it is
 * then, and what else concerns all of them; that it ends tells that nobody is there any more. */
#ifndef Q35_SERVE_ATTACHED_H
#define Q35_SERVE_ATTACHED_H

#include <stdint.h>

#include "base/buf.h"
#include "base/text.h"
#include "serve/web.h"

struct attached {
    struct exchange *x;
    char    *name;
    uint64_t conversation;              /* of whose checkpoint it hears; 0: of none */
};

/* Plain value, valid as {0}; attached_free() frees it. */
struct attached_list {
    struct attached *all;
    int n, cap;
};

/* Begins its stream with these lines. */
void attached_add(struct attached_list *l, struct exchange *x, struct text name, const struct buf *lines);
bool attached_gone(struct attached_list *l, const struct exchange *x);  /* false: it is none of them */
void attached_tell(struct attached_list *l, const struct buf *lines);
/* What comes of the conversation's checkpoint is for the one of that name, and for nobody else from now on.  False: there is none. */
bool attached_claim(struct attached_list *l, struct text name, uint64_t conversation);
void attached_tell_of(struct attached_list *l, uint64_t conversation, const struct buf *lines);
void attached_end(struct attached_list *l);             /* of all streams */
void attached_free(struct attached_list *l);

#endif
