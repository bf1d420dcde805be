#include "base/err.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;        /* guards the sink */
static void (*sink)(const char *line, void *arg);
static void *sink_arg;
static void (*before_bug)(void);

bool err_set(struct err *e, const char *fmt, ...)
{
    if (!e)
        return false;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    e->msg[utf8_plain(e->msg, strlen(e->msg), '?')] = 0;        /* file names and tensor names come from outside */
    return false;
}

_Noreturn void err_bug(const char *cond, const char *file, int line)
{
    if (before_bug)
        before_bug();
    fprintf(stderr, "q35chat: bug: %s:%d: %s does not hold\n", file, line, cond);
    abort();
}

_Noreturn void err_no_memory(void)
{
    static const char text[] = "q35chat: no memory is left\n";
    if (before_bug)
        before_bug();
    if (write(2, text, sizeof text - 1) < 0) {}         /* stdio might allocate */
    _exit(EXIT_FAILURE);
}

void err_before_bug(void (*fn)(void))
{
    before_bug = fn;
}

void err_warn(const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    text[utf8_plain(text, strlen(text), '?')] = 0;
    pthread_mutex_lock(&lock);
    if (sink)
        sink(text, sink_arg);
    else
        fprintf(stderr, "q35chat: %s\n", text);
    pthread_mutex_unlock(&lock);
}

void err_set_sink(void (*to)(const char *line, void *arg), void *arg)
{
    pthread_mutex_lock(&lock);
    sink = to;
    sink_arg = arg;
    pthread_mutex_unlock(&lock);
}
