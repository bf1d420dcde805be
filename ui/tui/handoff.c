#include "ui/tui/handoff.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/unicode.h"
#include "option/paths.h"
#include "session/export.h"
#include "ui/tui/numbers.h"

enum { MAX_FILE = 64 << 20, NOT_FOUND = 127 };

/* --- the file ---------------------------------------------------------------------------------------------------- */

/* Makes a temporary file; fills in its path. -1 if no place allows it. */
static int make_file(struct buf *path, const char *suffix)
{
    const char *const places[] = {getenv("XDG_RUNTIME_DIR"), "/tmp"};
    int fd = -1;
    for (int i = 0; i < 2 && fd < 0; i++) {
        buf_reset(path);
        buf_addf(path, "%s/q35chat-XXXXXX%s", places[i] ? places[i] : "", suffix);
        if (places[i] && *places[i] == '/')
            fd = mkostemps(path->data, (int)strlen(suffix), O_CLOEXEC);
    }
    return fd;
}

/* Writes a text to a new temporary file.  False with the reason. */
static bool put_file(struct buf *path, const char *suffix, const char *text, size_t n, struct err *e)
{
    int fd = make_file(path, suffix);
    if (fd < 0)
        return err_set(e, "cannot make a file in /tmp: %s", strerror(errno));
    bool ok = file_write(fd, text, n);
    ok = !close(fd) && ok;
    if (!ok) {
        err_set(e, "cannot write %s: %s", path->data, strerror(errno));
        unlink(path->data);
    }
    return ok;
}

/* Reads the edited file, which the editor may have replaced by a new one. */
static bool take_file(const char *path, const char *draft, struct buf *text, struct err *e)
{
    struct stat st;
    if (lstat(path, &st))
        return err_set(e, "cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(e, "%s is no longer a plain file", path);
    if (!file_read(text, path, MAX_FILE, e))
        return false;
    if (text->len && memchr(text->data, 0, text->len))
        return err_set(e, "%s has a zero byte, so it is not text", path);
    size_t n = strlen(draft);
    bool draft_ends = n && draft[n - 1] == '\n';
    if (text->len && text->data[text->len - 1] == '\n' && !draft_ends)
        text->data[--text->len] = 0;    /* editors add a newline to the last line */
    return true;
}

/* --- the program ------------------------------------------------------------------------------------------------- */

/* Starts a program, in which signals have their default actions.  in, out: its standard input and output, -1: the terminal.  Without the terminal it
 * gets a session of its own, so that one that stays in the background to serve the clipboard outlives this process.  Returns 0, or an errno. */
static int start(const char *const *argv, int in, int out, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, usual;
    const int ours[] = {SIGINT, SIGQUIT, SIGPIPE, SIGXFSZ};
    sigemptyset(&none);
    sigemptyset(&usual);
    for (int i = 0; i < 4; i++)
        sigaddset(&usual, ours[i]);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, (short)((in < 0 ? 0 : POSIX_SPAWN_SETSID) | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK));
    posix_spawnattr_setsigdefault(&attr, &usual);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawn_file_actions_init(&files);
    if (in >= 0) {
        posix_spawn_file_actions_adddup2(&files, in, 0);
        posix_spawn_file_actions_adddup2(&files, out, 1);
        posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    }
    posix_spawn_file_actions_addclosefrom_np(&files, 3);        /* descriptors that a library opened without O_CLOEXEC */
    int rc = posix_spawnp(pid, argv[0], &files, &attr, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    return rc;
}

/* The shell that waits for the program must survive a Ctrl-C that the program handles. */
#define SURVIVES "trap : INT QUIT; "

/* Runs sh -c with the path as "$1".  Returns the status of waitpid(); -1 with errno. */
static int run_in_terminal(const char *command, const char *path)
{
    const char *const argv[] = {"/bin/sh", "-c", command, "q35chat", path, NULL};
    struct sigaction before[2], ignore = {.sa_handler = SIG_IGN};
    pid_t pid;
    int status = -1;
    sigaction(SIGINT, &ignore, &before[0]);
    sigaction(SIGQUIT, &ignore, &before[1]);
    int rc = start(argv, -1, -1, &pid);
    while (!rc && waitpid(pid, &status, 0) < 0)
        rc = errno == EINTR ? 0 : errno;
    sigaction(SIGINT, &before[0], NULL);
    sigaction(SIGQUIT, &before[1], NULL);
    errno = rc;
    return rc ? -1 : status;
}

/* True if a program ended with status 0; else says how it ended. */
static bool ended_well(int status, const char *name, struct err *e)
{
    if (status == -1)
        return err_set(e, "cannot run %s: %s", name, strerror(errno));
    if (WIFSIGNALED(status))
        return err_set(e, "%s was ended by signal %d", name, WTERMSIG(status));
    if (WEXITSTATUS(status) == NOT_FOUND)
        return err_set(e, "no such program: %s", name);
    return WEXITSTATUS(status) == 0 || err_set(e, "%s ended with status %d", name, WEXITSTATUS(status));
}

static const char *first_env(const char *first, const char *second)
{
    const char *value = getenv(first);
    if (!value || !*value)
        value = getenv(second);
    return value && *value ? value : NULL;
}

bool handoff_edit(const char *draft, struct buf *edited, struct err *e)
{
    const char *editor = first_env("VISUAL", "EDITOR");
    struct buf path = {0}, command = {0}, text = {0};
    struct err why = {0}, unread = {0};
    if (editor)
        buf_addf(&command, SURVIVES "%s \"$@\"", editor);
    else
        buf_adds(&command, SURVIVES "if command -v vi > /dev/null; then vi \"$@\"; else nano \"$@\"; fi");
    bool ok = put_file(&path, ".md", draft, strlen(draft), e);
    if (ok) {
        ok = ended_well(run_in_terminal(command.data, path.data), editor ? editor : "vi or nano", &why);
        bool read = take_file(path.data, draft, &text, &unread);
        bool has_news = read ? strcmp(buf_str(&text), draft) != 0 : !access(path.data, F_OK);
        if (ok && read) {
            buf_reset(edited);
            buf_add(edited, text.data, text.len);
        } else {
            ok = err_set(e, "%s; your draft is unchanged%s%s", ok ? unread.msg : why.msg, has_news ? ", the edited text is in " : "",
                         has_news ? path.data : "");
        }
        if (ok || !has_news)
            unlink(path.data);
    }
    buf_free(&path);
    buf_free(&command);
    buf_free(&text);
    return ok;
}

bool handoff_page(const char *text, size_t n, struct err *e)
{
    const char *pager = first_env("PAGER", "PAGER");
    struct buf path = {0}, command = {0}, safe = {0};
    unicode_safe(&safe, text, n);
    buf_addf(&command, SURVIVES "%s \"$@\"", pager ? pager : "less");
    bool ok = put_file(&path, ".txt", buf_str(&safe), safe.len, e);
    if (ok) {
        ok = ended_well(run_in_terminal(command.data, path.data), pager ? pager : "less", e);
        unlink(path.data);
    }
    buf_free(&path);
    buf_free(&command);
    buf_free(&safe);
    return ok;
}

bool handoff_open(const char *path, struct err *e)
{
    static const char script[] = "o=$(command -v xdg-open || command -v open) || exit 127; \"$o\" \"$0\" & exit 0";
    char *const argv[] = {"sh", "-c", (char *)script, (char *)path, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none;
    pid_t pid;
    int status = -1;
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    if (!posix_spawn(&pid, "/bin/sh", &files, &attr, argv, environ))
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    return !status || err_set(e, "no program opens files here: xdg-open (xdg-utils) is not installed");
}

/* --- the clipboard ------------------------------------------------------------------------------------------------- */

enum { LIMIT_MS = 2000, NAP_NS = 2000000 };

/* --- programs ---------------------------------------------------------------------------------------------------- */

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

/* Runs a program whose input is the text in a memory file: no pipe to feed, no SIGPIPE.  Its output is no pipe either, which a program in the
 * background would keep open.  The beginning of its output goes to output[size]. */
static bool run(const char *const *argv, const char *text, size_t n, char *output, size_t size)
{
    int in = memfd_create("copied", MFD_CLOEXEC), out = memfd_create("output", MFD_CLOEXEC);
    bool ok = in >= 0 && out >= 0 && file_write(in, text, n) && lseek(in, 0, SEEK_SET) == 0;
    pid_t pid;
    ok = ok && !start(argv, in, out, &pid) && wait_for(pid);
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

/* Copies to the buffer of tmux, which may pass it on to the terminal.  False without tmux. */
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

/* Copies by the program of the desktop.  False if there is none, or over ssh. */
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

/* Writes the text to a file in place of a clipboard, and says where. */
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
