/* Ctrl-C as a file descriptor.  A second one while the first waits ends the program as usual. */
#ifndef Q35_UI_INTERRUPT_H
#define Q35_UI_INTERRUPT_H

#include <stdbool.h>

void interrupt_open(void);              /* from now on SIGINT does not end the program by itself */
int  interrupt_fd(void);                /* readable while one waits */
bool interrupt_taken(void);             /* takes it */

#endif
