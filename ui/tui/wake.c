#include "ui/tui/wake.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "ui/waiter.h"

static const struct { int sig; unsigned what; } taken[] = {
    {SIGWINCH, WAKE_SIZE}, {SIGTSTP, WAKE_STOP}, {SIGCONT, WAKE_CONTINUE}, {SIGINT, WAKE_INTERRUPT}, {SIGHUP, WAKE_HANGUP},
    {SIGTERM, WAKE_TERMINATE},
};
enum { N_TAKEN = sizeof taken / sizeof *taken };

static int ends[2] = {-1, -1};          /* of the pipe; a handler has no other way to know it */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buf waiting;              /* lines of the log, under the lock */

static void wake(int sig)
{
    int before = errno;
    char byte = (char)sig;
    if (write(ends[1], &byte, 1) < 0) {}        /* full: somebody will look anyway */
    errno = before;
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)context;
    if (!waiter_repeats(sig, info))
        wake(sig);
}

static void on_line(const char *line, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    buf_addf(&waiting, "%s\n", line);
    pthread_mutex_unlock(&lock);
    wake(0);
}

static void handle(int sig)
{
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_sigaction = on_signal;
    a.sa_flags = SA_SIGINFO | SA_RESTART;       /* of the loop only poll() waits, which returns all the same */
    sigemptyset(&a.sa_mask);
    sigaction(sig, &a, NULL);
}

int wake_open(void)
{
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
        return -1;
    for (int i = 0; i < N_TAKEN; i++)
        handle(taken[i].sig);
    signal(SIGPIPE, SIG_IGN);
    log_set_sink(on_line, NULL);
    return ends[0];
}

unsigned wake_take(struct buf *lines)
{
    char bytes[256];
    unsigned what = 0;
    for (ssize_t n; (n = read(ends[0], bytes, sizeof bytes)) > 0;)
        for (ssize_t i = 0; i < n; i++)
            for (int k = 0; k < N_TAKEN; k++)
                if (bytes[i] == (char)taken[k].sig)
                    what |= taken[k].what;
    pthread_mutex_lock(&lock);
    if (waiting.len) {
        buf_add(lines, waiting.data, waiting.len);
        buf_reset(&waiting);
        what |= WAKE_LINES;
    }
    pthread_mutex_unlock(&lock);
    return what;
}

void wake_close(void)
{
    log_set_sink(NULL, NULL);
    for (int i = 0; i < N_TAKEN; i++)
        signal(taken[i].sig, SIG_DFL);
    close(ends[0]);
    close(ends[1]);
    ends[0] = ends[1] = -1;
    buf_free(&waiting);
}

void wake_suspend(void)
{
    signal(SIGTSTP, SIG_DFL);
    raise(SIGTSTP);
    handle(SIGTSTP);
}
