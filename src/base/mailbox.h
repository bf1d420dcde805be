/* A queue of fixed-size items from any thread to one taker; taking swaps two lists.
 * mailbox_post() never blocks on the taker; the file descriptor is readable while items wait. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct mailbox_list {
    char *items;
    int   n, cap;
};

struct mailbox {
    pthread_mutex_t     lock;
    struct mailbox_list lists[2];
    int                 in;             /* index of the list that receives posts */
    size_t              item_size;
    int                 fd;             /* eventfd */
};

bool  mailbox_init(struct mailbox *m, size_t item_size);         /* false with errno if no more files can be opened */
void  mailbox_free(struct mailbox *m);
void  mailbox_post(struct mailbox *m, const void *item);         /* copies the item; any thread */
/* All items posted since the last take, oldest first; valid until the next take.  One thread. */
const void *mailbox_take(struct mailbox *m, int *n);
/* Sleeps until an item waits or timeout_ms has passed (-1: no limit); true if an item waits. */
bool  mailbox_wait(struct mailbox *m, int timeout_ms);
