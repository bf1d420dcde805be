/* A chat may have to go on when its terminal is wanted back: other programs use its model.  No process can end for its shell and go on, so a chat
 * that shares its model runs in a child.  The waiter is its parent, which does nothing but wait: it stops when the child stops, passes signals on
 * that were sent to it alone, and ends as the child ends, or when the child leaves it. */
#ifndef Q35_UI_WAITER_H
#define Q35_UI_WAITER_H

#include <signal.h>
#include <stdbool.h>

/* Before there is a thread.  Returns in the child; where no process can be made, in the only one, without a waiter. */
void waiter_start(void);
void waiter_status(int status);         /* the program's exit status, should it leave the waiter */
/* After `said` on stderr the waiter ends; this process goes on without a terminal, in a session of its own, and SIGTERM ends it.  False: there is no
 * waiter. */
bool waiter_leave(const char *said);
/* For handlers: the signal is one that has just come, passed on by the waiter after it was sent to both. */
bool waiter_repeats(int sig, const siginfo_t *info);

#endif
