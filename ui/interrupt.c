#include "ui/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ui/exits.h"
#include "ui/tui/tty.h"
#include "ui/waiter.h"

static int fd = -1;
static volatile sig_atomic_t waiting, ending, last;

static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)context;
    if (waiter_repeats(sig, info))
        return;
    if (waiting) {                      /* nobody took the first one: something hangs */
        tty_give_back_now();
        signal(sig, SIG_DFL);
        raise(sig);
        return;
    }
    waiting = 1;
    last = sig;
    if (sig != SIGINT)
        ending = sig;
    eventfd_write(fd, 1);
}

void interrupt_open(void)
{
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_sigaction = on_signal;
    a.sa_flags = SA_SIGINFO;
    sigemptyset(&a.sa_mask);
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        fprintf(stderr, "q35chat: cannot watch for signals: %s\n", strerror(errno));
        exit(EXIT_FAILED);
    }
    sigaction(SIGINT, &a, NULL);        /* no SA_RESTART: a blocking read returns */
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGHUP, &a, NULL);
}

int interrupt_fd(void)
{
    return fd;
}

bool interrupt_taken(void)
{
    eventfd_t n;
    if (eventfd_read(fd, &n))
        return false;
    waiting = 0;
    return true;
}

int interrupt_ending(void)
{
    return ending;
}

int interrupt_signal(void)
{
    return last;
}

void interrupt_die(int sig)
{
    fflush(stdout);
    signal(sig, SIG_DFL);
    raise(sig);
}
