/* The order in which a thread may take locks: only ones of a higher rank than all that it holds.  So no two threads can wait for each other.  Builds
 * for sanitizers check it at every lock (LOCK_CHECKED); in other builds these functions are those of pthread.  A lock that is not listed here is held
 * while no listed one is taken. */
#pragma once

#include <pthread.h>

#include "base/err.h"

enum lock_rank {
    LOCK_WORKER,                        /* of struct worker: saving, restoring, and others; their hooks are called under it */
    LOCK_REQUESTS,                      /* of struct requests: asks the storage what is moving, posts events */
    LOCK_HOMES,                         /* of struct storage */
    LOCK_MAILBOX,                       /* of struct mailbox */
};

#ifndef LOCK_CHECKED
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define LOCK_CHECKED 1
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LOCK_CHECKED 1
#endif
#endif
#endif
#ifndef LOCK_CHECKED
#define LOCK_CHECKED 0
#endif

extern _Thread_local unsigned lock_held;                /* bits of 1 << rank: the locks that this thread holds */

static inline void lock_take(pthread_mutex_t *m, enum lock_rank rank)
{
    CHECK(!LOCK_CHECKED || !(lock_held >> rank));
    pthread_mutex_lock(m);
    if (LOCK_CHECKED)
        lock_held |= 1u << rank;
}

static inline void lock_release(pthread_mutex_t *m, enum lock_rank rank)
{
    if (LOCK_CHECKED)
        lock_held &= ~(1u << rank);
    pthread_mutex_unlock(m);
}
