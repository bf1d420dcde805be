/* The process: its exit status, its signals, and the parent that waits for it in the shell. */
#pragma once

#include <signal.h>
#include <stdbool.h>

#include "base/buf.h"

#define Q35_VERSION "0.1.0"

/* The exit statuses: EXIT(number, NAME, meaning).  The manual and docs/pipes.md have the same rows. */
#define EXITS(EXIT) \
    EXIT(0,   ANSWERED,    "the answer is complete; or you left the chat") \
    EXIT(1,   FAILED,      "a failure while running; the conversation could not be saved; -x found no code block; a line of --batch failed") \
    EXIT(2,   USAGE,       "usage: a wrong option or config file, a file that cannot be read, no prompt, a stdin that stays silent") \
    EXIT(3,   MODEL,       "the model cannot be loaded or run: missing, damaged, too little memory, GPU failure") \
    EXIT(4,   TOO_LONG,    "the prompt is longer than the context") \
    EXIT(5,   CUT,         "with --strict, --schema, --pattern or --choices: the answer was cut off or is empty") \
    EXIT(6,   DENIED,      "with --strict: a tool call was not allowed") \
    EXIT(124, TIMEOUT,     "--timeout was reached; stdout has the answer so far") \
    EXIT(129, HUNG_UP,     "died by SIGHUP after writing the answer so far") \
    EXIT(130, INTERRUPTED, "died by SIGINT (Ctrl-C) after writing the answer so far") \
    EXIT(141, BROKEN_PIPE, "died by SIGPIPE: the reader of stdout has gone") \
    EXIT(143, TERMINATED,  "died by SIGTERM after writing the answer so far")

enum exit_status {
#define EXIT_ROW(number, name, meaning) EXIT_##name = number,
    EXITS(EXIT_ROW)
#undef EXIT_ROW
    EXIT_SIGNAL = 128                   /* plus the signal's number: main() then dies by that signal */
};

/* --- output ---------------------------------------------------------------------------------------------------------- */

/* Prints "q35chat: TEXT" on stderr, safe for a terminal. */
void process_say(const char *text);
void process_warn(const char *lines);                   /* the same for each line */
int  process_fail(int status, const char *text);        /* the same; returns `status` */
/* Prints a text on stdout, without control characters if `safe`.  Returns `status`; EXIT_FAILED, after a message, if it cannot be written. */
int  process_print(const struct buf *text, bool safe, int status);
void process_word(struct buf *out, const char *s);      /* appends a text as one word of a shell, quoted where that is needed */
int  process_flush(int status);                         /* flushes stdout; returns as process_print() does */

/* --- signals --------------------------------------------------------------------------------------------------------- */

/* Signals as a file descriptor.  Ctrl-C stops the answer; SIGTERM and SIGHUP (the terminal is gone) end the program after what was written so far is
 * kept.  A second signal while the first one waits ends the program at once. */
void interrupt_open(void);              /* from now on these signals do not end the program by themselves */
int  interrupt_fd(void);                /* readable while a signal waits */
bool interrupt_taken(void);             /* takes the signal that waits; false: there is none */
int  interrupt_ending(void);            /* the signal that ends the program, or 0 */
int  interrupt_signal(void);            /* the last signal that came, or 0 */
/* Ends the program by that signal, so that a shell's loop ends with it; returns only if that is not possible. */
void interrupt_die(int sig);

/* --- the waiter ------------------------------------------------------------------------------------------------------ */

/* A chat may have to continue when its terminal is wanted back, because other programs use its model.  No process can end for its shell and
 * continue, so a chat that shares its model runs in a child.  The waiter is the parent, which only waits: it stops when the child stops, passes on
 * signals that were sent to it alone, and ends as the child ends, or when the child leaves it. */

/* Starts the child; to be called before there is a thread.  Returns in the child; if no process can be made, in this one, without a waiter. */
void waiter_start(void);
void waiter_status(int status);         /* sets the exit status that the waiter returns if this process leaves it */
/* Prints `said` on stderr and ends the waiter; this process continues without a terminal, in a session of its own, and SIGTERM ends it.  False: there
 * is no waiter. */
bool waiter_leave(const char *said);
/* For handlers: true if the signal has just come before, once from the terminal and once passed on by the waiter. */
bool waiter_repeats(int sig, const siginfo_t *info);
