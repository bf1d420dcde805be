/* CHECK for our own bugs, on in every build; log_warn for what a user should know and that stops nothing. */
#ifndef Q35_BASE_LOG_H
#define Q35_BASE_LOG_H

/* Our bug: says what and where on stderr, then aborts. */
#define CHECK(cond) ((cond) ? (void)0 : log_bug(#cond, __FILE__, __LINE__))

_Noreturn void log_bug(const char *cond, const char *file, int line);
/* The world's fault, but nothing can go on: says so in a sentence and ends with status 1. */
_Noreturn void log_no_memory(void);
/* `fn` is called in front of those words: it makes them readable, by giving the terminal back.  Any thread may call it. */
void log_before_bug(void (*fn)(void));

/* One line on stderr, "q35chat: ..."; made safe for a terminal as err_set() does it.  Any thread.
 * While a sink is set the line goes there instead (a front end that owns the terminal sets one). */
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_set_sink(void (*sink)(const char *line, void *arg), void *arg);

#endif
