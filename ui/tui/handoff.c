#include "ui/tui/handoff.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/unicode.h"

enum { MAX_FILE = 64 << 20, NOT_FOUND = 127 };

/* --- the file ---------------------------------------------------------------------------------------------------- */

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

/* The shell that waits for the program must survive a Ctrl-C that the program handles.  In the program signals have their default actions. */
#define SURVIVES "trap : INT QUIT; "

/* Runs sh -c with the path as "$1".  Returns the status of waitpid(); -1 with errno. */
static int run(const char *command, const char *path)
{
    extern char **environ;
    char *const argv[] = {"sh", "-c", (char *)command, "q35chat", (char *)path, NULL};
    static const int ours[] = {SIGINT, SIGQUIT};
    struct sigaction before[2], ignore = {.sa_handler = SIG_IGN};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, usual;
    pid_t pid;
    int status = -1;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGXFSZ);
    for (int i = 0; i < 2; i++) {
        sigaddset(&usual, ours[i]);
        sigaction(ours[i], &ignore, &before[i]);
    }
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addclosefrom_np(&files, 3);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigdefault(&attr, &usual);
    posix_spawnattr_setsigmask(&attr, &none);
    int rc = posix_spawn(&pid, "/bin/sh", &files, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    while (!rc && waitpid(pid, &status, 0) < 0)
        rc = errno == EINTR ? 0 : errno;
    for (int i = 0; i < 2; i++)
        sigaction(ours[i], &before[i], NULL);
    errno = rc;
    return rc ? -1 : status;
}

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
        ok = ended_well(run(command.data, path.data), editor ? editor : "vi or nano", &why);
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
        ok = ended_well(run(command.data, path.data), pager ? pager : "less", e);
        unlink(path.data);
    }
    buf_free(&path);
    buf_free(&command);
    buf_free(&safe);
    return ok;
}
