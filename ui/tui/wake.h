/* What wakes the loop from outside: signals, and lines of the log from any thread.  One at a time. */
#ifndef Q35_UI_TUI_WAKE_H
#define Q35_UI_TUI_WAKE_H

#include "base/buf.h"

enum { WAKE_SIZE = 1, WAKE_STOP = 2, WAKE_CONTINUE = 4, WAKE_INTERRUPT = 8, WAKE_HANGUP = 16, WAKE_TERMINATE = 32, WAKE_LINES = 64 };

int      wake_open(void);               /* takes the signals; readable while something waits.  -1 with errno: none is taken */
unsigned wake_take(struct buf *lines);  /* what came since the last time; lines of the log are appended, each with its end */
void     wake_close(void);              /* signals mean again what they usually do */
/* Stops the process as Ctrl-Z does; returns when it goes on. */
void     wake_suspend(void);

#endif
