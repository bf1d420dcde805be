/* Threads that receive no signals: those go to the thread that owns the terminal. */
#ifndef Q35_BASE_QUIET_H
#define Q35_BASE_QUIET_H

#include <pthread.h>

/* pthread_create() with all signals blocked but those of the thread's own faults (SIGSEGV and the like). */
int quiet_thread(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
