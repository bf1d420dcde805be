/* Going back and aside in the tree of messages. */
#ifndef Q35_CHAT_BRANCH_H
#define Q35_CHAT_BRANCH_H

#include <stdbool.h>

#include "base/buf.h"

struct chat;

/* A message that is being written anew; numbers of entries. */
struct edit {
    bool on;
    int  message, end;                  /* it, and what the path ended with when it was marked */
    bool replaced;                      /* the turn's message took its place */
};

bool branch_replace(struct chat *c);    /* a message that is being edited leaves the path, with what follows; false: none is */
/* The message that the path ends with got no answer: older ones are shown again; or, if it is new, it was never said.  True: `text` is
 * what it said. */
bool branch_take_back(struct chat *c, bool is_new, struct buf *text);

#endif
