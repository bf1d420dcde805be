#include "base/mapped.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/utf8.h"

/* The signal handler reads this table: a row is valid while `end` is not 0. */
enum { ROWS = 1024 };
static struct {
    uintptr_t begin;
    _Atomic uintptr_t end;
    char *path;
} rows[ROWS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct termios found;
static bool terminal;

void mapped_add(const void *at, size_t n, const char *path)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < ROWS; i++)
        if (!rows[i].end) {             /* no row is free: the message will not name this file */
            rows[i].begin = (uintptr_t)at;
            rows[i].path = memory_strdup(path);
            rows[i].path[utf8_plain(rows[i].path, strlen(path), '?')] = 0;
            rows[i].end = (uintptr_t)at + n;
            break;
        }
    pthread_mutex_unlock(&lock);
}

void mapped_drop(const void *at)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < ROWS; i++)
        if (rows[i].end && rows[i].begin == (uintptr_t)at) {
            rows[i].end = 0;
            free(rows[i].path);
            break;
        }
    pthread_mutex_unlock(&lock);
}

/* Returns the file that is mapped at this address. */
static const char *path_of(uintptr_t p)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i].end > p && rows[i].begin <= p)
            return rows[i].path;
    return "its name is not known";
}

static void write_text(const char *text)
{
    if (write(2, text, strlen(text)) < 0) {}
}

/* Handles SIGBUS: a mapped file that has become shorter ends the program with its name. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code != BUS_ADRERR) {  /* not caused by a mapped file */
        signal(sig, SIG_DFL);
        raise(sig);
        return;
    }
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&told))
        for (;;)                        /* another thread met it, too, and ends the program */
            pause();
    if (terminal && tcgetpgrp(0) == getpgrp())
        tcsetattr(0, TCSANOW, &found);
    write_text("\nq35chat: a model file was changed while it was in use: ");
    write_text(path_of((uintptr_t)info->si_addr));
    write_text("\n");
    _exit(EXIT_FAILURE);
}

void mapped_watch(void)
{
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_sigaction = on_fault;
    a.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&a.sa_mask);
    sigaction(SIGBUS, &a, NULL);
    terminal = isatty(0) && !tcgetattr(0, &found);
}
