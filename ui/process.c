#include "ui/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/unicode.h"
#include "ui/tui/tty.h"

/* --- output ---------------------------------------------------------------------------------------------------------- */

int process_fail(int status, const char *text)
{
    struct buf safe = {0};
    unicode_safe(&safe, text, strlen(text));
    fprintf(stderr, "q35chat: %s\n", buf_str(&safe));
    buf_free(&safe);
    return status;
}

void process_say(const char *text)
{
    process_fail(EXIT_ANSWERED, text);
}

void process_warn(const char *lines)
{
    for (const char *end; (end = strchr(lines, '\n')); lines = end + 1)
        err_warn("%.*s", (int)(end - lines), lines);
}

int process_flush(int status)
{
    struct err e;
    if (!fflush(stdout) && !ferror(stdout))
        return status;
    err_set(&e, "cannot write: %s", strerror(errno));
    return process_fail(EXIT_FAILED, e.msg);
}

void process_word(struct buf *out, const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/+:,@";
    if (*s && s[strspn(s, plain)] == 0) {
        buf_adds(out, s);
        return;
    }
    buf_addc(out, '\'');
    for (; *s; s++)
        buf_adds(out, *s == '\'' ? "'\\''" : (char[]){*s, 0});
    buf_addc(out, '\'');
}

int process_print(const struct buf *text, bool safe, int status)
{
    struct buf shown = {0};
    if (safe)
        unicode_safe(&shown, buf_str(text), text->len);
    fwrite(buf_str(safe ? &shown : text), 1, safe ? shown.len : text->len, stdout);
    buf_free(&shown);
    return process_flush(status);
}

/* --- signals --------------------------------------------------------------------------------------------------------- */

static int signal_fd = -1;
static volatile sig_atomic_t waiting, ending, last;

/* Notes a signal and wakes poll().  A second one, if the first was not taken, ends the program. */
static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)context;
    if (waiter_repeats(sig, info))
        return;
    if (waiting) {                      /* the first one was not taken: something hangs */
        tty_give_back_now();
        signal(sig, SIG_DFL);
        raise(sig);
        return;
    }
    waiting = 1;
    last = sig;
    if (sig != SIGINT)
        ending = sig;
    eventfd_write(signal_fd, 1);
}

void interrupt_open(void)
{
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_sigaction = on_signal;
    a.sa_flags = SA_SIGINFO;
    sigemptyset(&a.sa_mask);
    signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (signal_fd < 0) {
        fprintf(stderr, "q35chat: cannot watch for signals: %s\n", strerror(errno));
        exit(EXIT_FAILED);
    }
    sigaction(SIGINT, &a, NULL);        /* no SA_RESTART: a blocking read returns */
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGHUP, &a, NULL);
}

int interrupt_fd(void)
{
    return signal_fd;
}

bool interrupt_taken(void)
{
    eventfd_t n;
    if (eventfd_read(signal_fd, &n))
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

/* --- the waiter ------------------------------------------------------------------------------------------------------ */

enum { MOST_SIGNAL = 64, JUST_MS = 1000 };

static pid_t waiter;                    /* the parent; 0: there is none */
static int status_now;
static struct came { int64_t ms; bool passed_on; } came[MOST_SIGNAL + 1];      /* by signal: when the newest one came */

/* Ends this process by the signal that ended its child, so that the shell sees the same. */
static void end_by(int sig)
{
    sigset_t one;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});     /* the child has left one */
    signal(sig, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, sig);
    raise(sig);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    _exit(EXIT_SIGNAL + sig);
}

/* Waits in place of the child for its parent: passes signals on, stops with it, and ends as it does. */
static __attribute__((noreturn)) void serve_child(pid_t child, const sigset_t *all)
{
    for (;;) {
        siginfo_t info;
        int sig = sigwaitinfo(all, &info);
        /* what the terminal sends (Ctrl-C, Ctrl-Z, its size) has reached the child as well */
        bool for_us_alone = info.si_code == SI_USER || info.si_code == SI_QUEUE || info.si_code == SI_TKILL;
        if (sig == SIGCHLD) {
            int how;
            while (waitpid(child, &how, WNOHANG | WUNTRACED) == child) {
                if (WIFSTOPPED(how)) {
                    kill(getpid(), SIGSTOP);
                    kill(child, SIGCONT);       /* the shell has continued us */
                } else if (WIFSIGNALED(how)) {
                    end_by(WTERMSIG(how));
                } else if (WIFEXITED(how)) {
                    _exit(WEXITSTATUS(how));
                }
            }
        } else if (sig == SIGUSR1 && info.si_code == SI_QUEUE && info.si_pid == child) {        /* the child leaves */
            if (info.si_value.sival_int > EXIT_SIGNAL)
                end_by(info.si_value.sival_int - EXIT_SIGNAL);
            _exit(info.si_value.sival_int);
        } else if (sig > 0 && sig != SIGCONT && for_us_alone) {
            kill(child, sig);
        }
    }
}

/* --- the child ------------------------------------------------------------------------------------------------------- */

void waiter_start(void)
{
    sigset_t all, usual;
    const pid_t parent = getpid();
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &usual);
    pid_t child = fork();
    if (child > 0)
        serve_child(child, &all);
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);       /* killing the waiter is meant for this process */
        if (getppid() != parent)
            _exit(EXIT_FAILED);
        waiter = parent;
    }
    sigprocmask(SIG_SETMASK, &usual, NULL);
}

void waiter_status(int status)
{
    status_now = status;
}

bool waiter_leave(const char *said)
{
    if (!waiter)
        return false;
    fputs(said, stderr);
    fflush(NULL);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, 0);
    setsid();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    close(null);
    sigqueue(waiter, SIGUSR1, (union sigval){.sival_int = status_now});
    waiter = 0;
    return true;
}

bool waiter_repeats(int sig, const siginfo_t *info)
{
    if (!waiter || sig < 1 || sig > MOST_SIGNAL)
        return false;
    bool passed_on = info && info->si_code == SI_USER && info->si_pid == waiter;
    struct came before = came[sig];
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    came[sig] = (struct came){(int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000, passed_on};
    return before.ms && before.passed_on != passed_on && came[sig].ms - before.ms < JUST_MS;
}
