#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/unicode.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*sink)(const char *line, void *arg);
static void *sink_arg;
static void (*before_bug)(void);

_Noreturn void log_bug(const char *cond, const char *file, int line)
{
    if (before_bug)
        before_bug();
    fprintf(stderr, "q35chat: bug: %s:%d: %s does not hold\n", file, line, cond);
    abort();
}

_Noreturn void log_no_memory(void)
{
    static const char text[] = "q35chat: no memory is left\n";
    if (before_bug)
        before_bug();
    if (write(2, text, sizeof text - 1) < 0) {}         /* stdio might allocate */
    _exit(EXIT_FAILURE);
}

void log_before_bug(void (*fn)(void))
{
    before_bug = fn;
}

void log_warn(const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    text[unicode_plain(text, strlen(text), '?')] = 0;
    pthread_mutex_lock(&lock);
    if (sink)
        sink(text, sink_arg);
    else
        fprintf(stderr, "q35chat: %s\n", text);
    pthread_mutex_unlock(&lock);
}

void log_set_sink(void (*to)(const char *line, void *arg), void *arg)
{
    pthread_mutex_lock(&lock);
    sink = to;
    sink_arg = arg;
    pthread_mutex_unlock(&lock);
}
