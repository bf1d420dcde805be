/* Signals as a file descriptor.  Ctrl-C asks for the answer to end; SIGTERM and SIGHUP (the terminal is gone) ask for the program
 * to end, after what was said so far is kept.  A second one while the first waits ends the program as usual. */
#ifndef Q35_UI_INTERRUPT_H
#define Q35_UI_INTERRUPT_H

#include <stdbool.h>

void interrupt_open(void);              /* from now on these signals do not end the program by themselves */
int  interrupt_fd(void);                /* readable while one waits */
bool interrupt_taken(void);             /* takes it */
int  interrupt_ending(void);            /* the signal that wants the program to end, or 0 */
int  interrupt_signal(void);            /* the last one that came, or 0 */
/* Ends the program by that signal, so that a shell's loop ends with it; returns only if that is not possible. */
void interrupt_die(int sig);

#endif
