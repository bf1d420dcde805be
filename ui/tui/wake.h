/* Wakes the loop from outside: for signals, and for lines of the log from any thread.  A process can have it open once. */
#ifndef Q35_UI_TUI_WAKE_H
#define Q35_UI_TUI_WAKE_H

#include "base/buf.h"

enum { WAKE_SIZE = 1, WAKE_STOP = 2, WAKE_CONTINUE = 4, WAKE_INTERRUPT = 8, WAKE_HANGUP = 16, WAKE_TERMINATE = 32, WAKE_LINES = 64 };

int      wake_open(void);               /* catches the signals; a descriptor that is readable while something waits.  -1 with errno */
unsigned wake_take(struct buf *lines);  /* WAKE_* bits of what came since the last call; appends lines of the log, each with its newline */
void     wake_close(void);              /* restores the default actions of the signals */
/* Stops the process as Ctrl-Z does; returns when it goes on. */
void     wake_suspend(void);

#endif
