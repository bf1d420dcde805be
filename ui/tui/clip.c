#include "ui/tui/clip.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "option/paths.h"
#include "session/export.h"
#include "ui/tui/numbers.h"

enum { LIMIT_MS = 2000, NAP_NS = 2000000 };

/* --- programs ---------------------------------------------------------------------------------------------------- */

/* Starts a program in a session of its own, so that one that stays in the background to serve the clipboard outlives this process.  Its output is
 * not a pipe, which such a program would keep open. */
static pid_t spawn(const char *const *argv, int in, int out)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, usual;
    pid_t pid;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGXFSZ);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigdefault(&attr, &usual);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in, 0);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&files, 3);        /* descriptors that a library opened without O_CLOEXEC */
    int rc = posix_spawnp(&pid, argv[0], &files, &attr, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    return rc ? -1 : pid;
}

/* Waits for a program, and kills it after the limit; true if it exits with 0. */
static bool wait_for(pid_t pid)
{
    int64_t start = clock_ns();
    int status = 0;
    for (;;) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid)
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (ended < 0 && errno != EINTR)
            return false;
        if (clock_ms_since(start) > LIMIT_MS)
            kill(-pid, SIGKILL);
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
}

/* Runs a program whose input is the text in a memory file: no pipe to feed, no SIGPIPE.  The beginning of its output goes to output[size]. */
static bool run(const char *const *argv, const char *text, size_t n, char *output, size_t size)
{
    int in = memfd_create("copied", MFD_CLOEXEC), out = memfd_create("output", MFD_CLOEXEC);
    bool ok = in >= 0 && out >= 0 && file_write(in, text, n) && lseek(in, 0, SEEK_SET) == 0;
    pid_t pid = ok ? spawn(argv, in, out) : -1;
    ok = pid > 0 && wait_for(pid);
    ssize_t k = size ? pread(out, output, size - 1, 0) : 0;
    if (size)
        output[k > 0 ? k : 0] = 0;
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return ok;
}

/* --- places ------------------------------------------------------------------------------------------------------ */

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

/* True if tmux can pass a buffer on to the terminal (3.2 and later): "tmux 3.3a", "tmux next-3.4"; a version without a number is newer. */
static bool tmux_passes_on(void)
{
    static const char *const argv[] = {"tmux", "-V", NULL};
    char output[64];
    int major, minor;
    if (!run(argv, "", 0, output, sizeof output))
        return false;
    const char *digits = output + strcspn(output, "0123456789");
    return sscanf(digits, "%d.%d", &major, &minor) != 2 || major > 3 || (major == 3 && minor >= 2);
}

static bool to_tmux(const char *text, size_t n, const char **where)
{
    static const char *const both[] = {"tmux", "load-buffer", "-w", "-", NULL};
    static const char *const buffer[] = {"tmux", "load-buffer", "-", NULL};
    if (!is_set("TMUX"))
        return false;
    bool passes_on = tmux_passes_on();
    *where = passes_on ? "the tmux buffer, and the clipboard if the terminal lets it" : "the tmux buffer";
    return run(passes_on ? both : buffer, text, n, NULL, 0);
}

static bool to_desktop(const char *text, size_t n, const char **where)
{
    static const struct program {
        const char *needs, *where, *argv[5];
    } programs[] = {
        {"WAYLAND_DISPLAY", "the clipboard (wl-copy)", {"wl-copy", "--type", "text/plain"}},
        {"DISPLAY", "the clipboard (xclip)", {"xclip", "-selection", "clipboard", "-in"}},
        {"DISPLAY", "the clipboard (xsel)", {"xsel", "--clipboard", "--input"}},
    };
    if (is_set("SSH_CONNECTION"))       /* that display is not where the user sits */
        return false;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        *where = programs[i].where;
        if (is_set(programs[i].needs) && run(programs[i].argv, text, n, NULL, 0))
            return true;
    }
    return false;
}

static void count_bytes(size_t n, struct buf *message)
{
    number_count(message, (long)n);
    buf_adds(message, n == 1 ? " byte" : " bytes");
}

static bool into_file(const char *text, size_t n, const char *why, struct buf *message)
{
    struct buf path = {0};
    struct err e = {0};
    bool ok = paths_state(&path, "clipboard.txt", &e)
        && (file_replace_unsynced(path.data, text, n) || err_set(&e, "cannot write %s: %s", path.data, strerror(errno)));
    if (ok) {
        buf_adds(message, "copied ");
        count_bytes(n, message);
        buf_addf(message, " to %s%s", path.data, why);
    } else {
        buf_addf(message, "nothing was copied: %s", e.msg);
    }
    buf_free(&path);
    return ok;
}

bool clip_copy(const char *text, size_t n, void (*fn)(void *arg, const char *text, size_t n), void *arg, bool file, struct buf *message)
{
    const char *where;
    if (!n) {
        buf_adds(message, "nothing to copy");
        return false;
    }
    if (to_tmux(text, n, &where) || to_desktop(text, n, &where)) {
        buf_adds(message, "copied ");
        count_bytes(n, message);
        buf_addf(message, " to %s", where);
        return true;
    }
    if (fn && n <= CLIP_TERMINAL_MAX) {
        fn(arg, text, n);
        buf_adds(message, "copied ");
        count_bytes(n, message);
        buf_adds(message, " with OSC 52 (the terminal does not confirm)");
        return true;
    }
    if (!file) {
        buf_addf(message, "nothing was copied%s", fn ? ": too long for a terminal's clipboard" : "");
        return false;
    }
    return into_file(text, n, fn ? ": too long for a terminal's clipboard" : "", message);
}

