/* The homes of conversations: the file of each, to which it is saved when another one takes its place in memory, and what that file has of it.  At
 * most LIMIT_HOMES are known; the least recently used one is forgotten first.  May be called from any thread. */
#ifndef Q35_ENGINE_HOMES_H
#define Q35_ENGINE_HOMES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/ids.h"
#include "config/limits.h"

enum { SAVED_STATES = 2 };              /* most sets of states in a save */

/* The content of a save: the first n tokens of a conversation, and the states after some numbers of them; {0}: nothing. */
struct saving {
    const int32_t *ids;
    int n, pos[SAVED_STATES];           /* pos: numbers of tokens; 0: there are fewer sets */
};

struct home {
    uint64_t   name;                    /* the conversation; 0: this entry is free */
    char      *path;                    /* its file; NULL: it is not to be kept */
    struct ids ids;                     /* tokens that the file has */
    int        pos[SAVED_STATES];       /* ... and its states, as in struct saving */
    bool       moving;                  /* an evicted conversation is being written: it is not in memory any more, and not yet whole in the file */
    bool       no_use;                  /* the file was refused when it was read last, and nobody was told so yet */
    uint64_t   used;                    /* homes.clock when it was used last */
};

struct homes {
    pthread_mutex_t lock;               /* guards what is below */
    struct home all[LIMIT_HOMES];
    uint64_t clock;
};

void homes_init(struct homes *h);
void homes_free(struct homes *h);

/* Sets the file of a conversation.  NULL: it has none. */
void  homes_set(struct homes *h, uint64_t name, const char *path);
char *homes_path(struct homes *h, uint64_t name);       /* its file; the caller frees the text.  NULL: it has none */

/* Notes the content of the file after a save.  Ignored if `path` is not the conversation's file. */
void homes_wrote(struct homes *h, uint64_t name, const char *path, const struct saving *s);
bool homes_has(struct homes *h, uint64_t name, const struct saving *s);         /* the file has all of this content */
int  homes_common(struct homes *h, uint64_t name, const struct saving *s);      /* how many of its first tokens the file has */

void homes_move(struct homes *h, uint64_t name, bool moving);
bool homes_moving(struct homes *h, uint64_t name);

/* homes_refuse() notes that the file was read and refused.  homes_take_refused() says so once and then forgets: the caller goes on without the
 * file. */
void homes_refuse(struct homes *h, uint64_t name);
bool homes_take_refused(struct homes *h, uint64_t name);

#endif
