/* What the program's exit status says, and its version. */
#ifndef Q35_UI_EXITS_H
#define Q35_UI_EXITS_H

#define Q35_VERSION "0.1.0"

enum { EXIT_ANSWERED = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130, EXIT_SIGNAL = 128 /* plus its number */ };

#endif
