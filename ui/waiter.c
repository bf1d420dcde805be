#include "ui/waiter.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ui/exits.h"

enum { MOST_SIGNAL = 64, JUST_MS = 1000 };

static pid_t waiter;                    /* of this process; 0: there is none */
static int status_now;
static struct came { int64_t ms; bool passed_on; } came[MOST_SIGNAL + 1];      /* by signal: the newest one */

/* ---- the waiter ---- */

static void die_of(int sig)
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

static void end_with(int status)
{
    if (status > EXIT_SIGNAL)
        die_of(status - EXIT_SIGNAL);
    _exit(status);
}

/* Stops as the child did, and lets it go on when the shell wants that. */
static void stop_with(pid_t child)
{
    kill(getpid(), SIGSTOP);
    kill(child, SIGCONT);
}

static void look(pid_t child)
{
    int how;
    while (waitpid(child, &how, WNOHANG | WUNTRACED) == child) {
        if (WIFSTOPPED(how))
            stop_with(child);
        else if (WIFSIGNALED(how))
            die_of(WTERMSIG(how));
        else if (WIFEXITED(how))
            _exit(WEXITSTATUS(how));
    }
}

/* What the terminal sends (Ctrl-C, Ctrl-Z, its size) has reached the child as well. */
static bool was_for_waiter_alone(const siginfo_t *info)
{
    return info->si_code == SI_USER || info->si_code == SI_QUEUE || info->si_code == SI_TKILL;
}

__attribute__((noreturn)) static void wait_for(pid_t child, const sigset_t *all)
{
    for (;;) {
        siginfo_t info;
        int sig = sigwaitinfo(all, &info);
        if (sig == SIGCHLD)
            look(child);
        else if (sig == SIGUSR1 && info.si_code == SI_QUEUE && info.si_pid == child)
            end_with(info.si_value.sival_int);          /* the child leaves */
        else if (sig > 0 && sig != SIGCONT && was_for_waiter_alone(&info))
            kill(child, sig);
    }
}

/* ---- the child ---- */

static void become_child(pid_t parent, const sigset_t *usual)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);   /* who kills the waiter means this */
    if (getppid() != parent)
        _exit(EXIT_FAILED);
    waiter = parent;
    sigprocmask(SIG_SETMASK, usual, NULL);
}

void waiter_start(void)
{
    sigset_t all, usual;
    const pid_t parent = getpid();
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &usual);
    pid_t child = fork();
    if (child > 0)
        wait_for(child, &all);
    if (!child)
        become_child(parent, &usual);
    else
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

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool waiter_repeats(int sig, const siginfo_t *info)
{
    if (!waiter || sig < 1 || sig > MOST_SIGNAL)
        return false;
    bool passed_on = info && info->si_code == SI_USER && info->si_pid == waiter;
    struct came before = came[sig];
    came[sig] = (struct came){now_ms(), passed_on};
    return before.ms && before.passed_on != passed_on && came[sig].ms - before.ms < JUST_MS;
}
