#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/least.h"
#include "base/text.h"

/* Limits of addresses in KiB, and of seconds of a processor. */
#define LIMITED "ulimit -v 1500000 && ulimit -t 20 && exec \"$@\""

extern char **environ;

/* Variables that a child gets: where programs and the clipboard are.  Others may be secrets. */
static const char passed[] = "PATH,HOME,TMPDIR,DISPLAY,XAUTHORITY,WAYLAND_DISPLAY,XDG_RUNTIME_DIR";
enum { N_PASSED = 7, LOOK_MS = 100 };

/* Lists the variables that a child gets: those of `passed`, and a UTF-8 locale; NULL ends the list. */
static void fill_environment(char *env[N_PASSED + 2])
{
    int n = 0;
    for (char **v = environ; *v && n < N_PASSED; v++)
        if (text_listed(passed, (struct text){*v, strcspn(*v, "=")}))
            env[n++] = *v;
    env[n++] = "LC_ALL=C.UTF-8";
    env[n] = NULL;
}

/* Starts the program with its output in a pipe, in a session of its own.  Returns the pipe's end; -1 with errno. */
static int start(const char *const *argv, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, usual;
    char *env[N_PASSED + 2];
    int ends[2];
    fill_environment(env);
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigdefault(&attr, &usual);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, ends[1], 1);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&files, 3);
    const int rc = posix_spawn(pid, "/bin/sh", &files, &attr, (char *const *)argv, env);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    close(ends[1]);
    if (!rc)
        return ends[0];
    close(ends[0]);
    errno = rc;
    return -1;
}

/* Reads to the end of the output.  False if there is more than `most`, or the child takes too long, or *ends becomes true. */
static bool read_output(int fd, size_t most, struct buf *out, const atomic_bool *ends)
{
    const int64_t begun = clock_ns();
    char block[16384];
    ssize_t n;
    do {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        const int left = CHILD_MS - (int)clock_ms_since(begun);
        if (left <= 0 || (ends && atomic_load(ends)))
            return false;
        errno = EAGAIN;                 /* no output yet: the times are looked at again */
        n = poll(&p, 1, least(left, LOOK_MS)) > 0 ? read(fd, block, sizeof block) : -1;
        if (n > 0)
            buf_add(out, block, (size_t)n);
    } while ((n > 0 && out->len <= most) || (n < 0 && (errno == EINTR || errno == EAGAIN)));
    return n == 0 && out->len <= most;
}

int child_run(const char *const *words, size_t most, struct buf *out)
{
    return child_run_until(words, most, out, NULL);
}

int child_run_until(const char *const *words, size_t most, struct buf *out, const atomic_bool *ends)
{
    const char *argv[CHILD_WORDS + 5] = {"/bin/sh", "-c", LIMITED, "sh"};
    pid_t pid;
    int status = 0, n = 0;
    for (; words[n]; n++) {
        CHECK(n < CHILD_WORDS);
        argv[4 + n] = words[n];
    }
    const int fd = start(argv, &pid);
    if (fd < 0)
        return -1;
    const bool whole = read_output(fd, most, out, ends);
    if (!whole)
        kill(-pid, SIGKILL);
    close(fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return whole && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
