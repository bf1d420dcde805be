/* CHECK for bugs of this program, on in every build; log_warn for what a user should know while the program continues. */
#ifndef Q35_BASE_LOG_H
#define Q35_BASE_LOG_H

/* A bug: prints condition, file and line on stderr, then aborts. */
#define CHECK(cond) ((cond) ? (void)0 : log_bug(#cond, __FILE__, __LINE__))

_Noreturn void log_bug(const char *cond, const char *file, int line);
/* Out of memory: prints one sentence and ends the program with status 1. */
_Noreturn void log_no_memory(void);
/* `fn` is called before those messages are printed; it restores the terminal, so that they are readable.
 * It may run on any thread. */
void log_before_bug(void (*fn)(void));

/* Prints one line on stderr, "q35chat: ...", made safe for a terminal as err_set() does.  Any thread.  While a sink is set, the
 * line goes there instead; a front end that owns the terminal sets one. */
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_set_sink(void (*sink)(const char *line, void *arg), void *arg);

#endif
