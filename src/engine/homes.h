/* Conversations and their files: where each is kept while another one has its place, and what of it the file has.  At most LIMIT_HOMES are known,
 * the least recently used one is forgotten first.  Any thread. */
#ifndef Q35_ENGINE_HOMES_H
#define Q35_ENGINE_HOMES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/ids.h"
#include "config/limits.h"

enum { SAVED_STATES = 2 };              /* states of a save */

/* What a save of a conversation has: its first tokens, and the states at some positions of these; all 0: nothing. */
struct saving {
    const int32_t *ids;
    int n, pos[SAVED_STATES];           /* pos: 0 where there are fewer */
};

struct home {
    uint64_t   name;                    /* of the conversation; 0: this one is free */
    char      *path;                    /* NULL: it is not to be kept */
    struct ids ids;                     /* that the file has */
    int        pos[SAVED_STATES];       /* likewise */
    bool       moving;                  /* the conversation is on its way into the file: it can be neither here nor there */
    bool       no_use;                  /* the file was of none when it was read last, and nobody has been told yet */
    uint64_t   used;
};

struct homes {
    pthread_mutex_t lock;               /* guards what is below */
    struct home all[LIMIT_HOMES];
    uint64_t clock;
};

void homes_init(struct homes *h);
void homes_free(struct homes *h);

/* From now on that is the conversation's file.  NULL: it has none. */
void  homes_set(struct homes *h, uint64_t name, const char *path);
char *homes_path(struct homes *h, uint64_t name);       /* the caller's to free; NULL: it has none */

/* The file has this now, and nothing else that counts.  Of another path than the conversation's it is not noted. */
void homes_wrote(struct homes *h, uint64_t name, const char *path, const struct saving *s);
bool homes_has(struct homes *h, uint64_t name, const struct saving *s);         /* the file has all of it */
int  homes_common(struct homes *h, uint64_t name, const struct saving *s);      /* of its tokens, the file has so many */

void homes_move(struct homes *h, uint64_t name, bool moving);
bool homes_moving(struct homes *h, uint64_t name);

/* The file was read, and was of no use; and whether it was, which is told once: whoever asks goes on without it. */
void homes_refuse(struct homes *h, uint64_t name);
bool homes_take_refused(struct homes *h, uint64_t name);

#endif
