/* Failures: a sentence for the user about the world, CHECK for bugs of this program, a warning while the program continues. */
#pragma once

#include <stdbool.h>

/* One sentence about a failure outside the program: the file, what was found, what was expected.
 * Plain value, valid as {0}.  A function that can fail in this way returns bool and takes a `struct err *` as its last argument. */
struct err {
    char msg[512];
};

/* Writes the sentence, cut at 511 bytes.  Control characters (bidirectional ones too) and invalid UTF-8 become '?'.  `e` may be
 * NULL.  Always returns false, for `return err_set(e, ...)`. */
bool err_set(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A bug: prints condition, file and line on stderr, then aborts.  On in every build. */
#define CHECK(cond) ((cond) ? (void)0 : err_bug(#cond, __FILE__, __LINE__))

__attribute__((noreturn)) void err_bug(const char *cond, const char *file, int line);
/* Prints one sentence about too little memory and ends the program with status 1. */
__attribute__((noreturn)) void err_no_memory(void);
/* Has `fn` called before those two print; it restores the terminal, so that they are readable.  It may run on any thread. */
void err_before_bug(void (*fn)(void));

/* Prints one line on stderr, "q35chat: ...", made safe for a terminal as err_set() does.  Any thread.  While a sink is set, the
 * line goes there instead; a front end that owns the terminal sets one. */
void err_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void err_set_sink(void (*sink)(const char *line, void *arg), void *arg);
