/* Threads that signals pass by: they go to the one that owns the terminal. */
#ifndef Q35_BASE_QUIET_H
#define Q35_BASE_QUIET_H

#include <pthread.h>

/* pthread_create() for such a thread.  Only faults reach it, for those are its own. */
int quiet_thread(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
