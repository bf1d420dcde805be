/* The q35chats that are attached to a server.  Each has a stream of lines from it, which stays open as long as both run: it says how the model loads,
 * what the model is, and what else all of them must know.  When the stream ends the server has ended. */
#ifndef Q35_SERVE_ATTACHED_H
#define Q35_SERVE_ATTACHED_H

#include <stdint.h>

#include "base/buf.h"
#include "base/text.h"
#include "serve/web.h"

struct attached {
    struct exchange *x;
    char    *name;
    uint64_t conversation;              /* the conversation whose checkpoint news it gets; 0: none */
};

/* Plain value, valid as {0}; attached_free() frees it. */
struct attached_list {
    struct attached *all;
    int n, cap;
};

/* Adds a q35chat and begins its stream with these lines. */
void attached_add(struct attached_list *l, struct exchange *x, struct text name, const struct buf *lines);
bool attached_gone(struct attached_list *l, const struct exchange *x);  /* removes the one with this exchange; false: there is none */
void attached_tell(struct attached_list *l, const struct buf *lines);   /* sends the lines to all */
/* From now on the q35chat of this name, and no other one, gets the news of the conversation's checkpoint.  False: there is none of this name. */
bool attached_claim(struct attached_list *l, struct text name, uint64_t conversation);
void attached_tell_of(struct attached_list *l, uint64_t conversation, const struct buf *lines);         /* sends the lines to that one */
void attached_end(struct attached_list *l);             /* ends all streams */
void attached_free(struct attached_list *l);

#endif
