#include "tool/child.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"

extern char **environ;

/* --- its environment --------------------------------------------------------------------------------------------- */

static bool passes(const char *entry, const char *pass)
{
    static const char usual[] = "PATH,HOME,USER,LOGNAME,LANG,TMPDIR,TZ";
    const struct text name = {entry, strcspn(entry, "=")};
    return text_listed(usual, name) || text_starts(name, "LC_") || text_listed(pass, name);
}

static char **environment(const char *pass)
{
    size_t n = 0;
    while (environ[n])
        n++;
    char **all = memory_zeroed(n + 3, sizeof *all), **to = all;
    for (size_t i = 0; i < n; i++)
        if (passes(environ[i], pass))
            *to++ = environ[i];
    if (!text_listed(pass, text_of("TERM")))
        *to++ = "TERM=dumb";
    if (!text_listed(pass, text_of("PAGER")))
        *to++ = "PAGER=cat";
    return all;
}

/* --- a cgroup, where we may make one below our own ---------------------------------------------------------------- */

static void cgroup_path(struct child *c)
{
    static int made;
    struct buf text = {0};
    *c->cgroup = 0;
    int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && buf_read_fd(&text, fd, "", 1 << 16, NULL) && !strncmp(buf_str(&text), "0::/", 4)) {
        const char *own = text.data + 3;
        int n = snprintf(c->cgroup, sizeof c->cgroup, "/sys/fs/cgroup%.*s/q35chat-%d-%d", (int)strcspn(own, "\n"), own, (int)getpid(), made++);
        if (n >= (int)sizeof c->cgroup - 32)
            *c->cgroup = 0;
    }
    if (fd >= 0)
        close(fd);
    buf_free(&text);
}

static int cgroup_file(const struct child *c, const char *name)
{
    struct buf path = {0};
    buf_addf(&path, "%s/%s", c->cgroup, name);
    int fd = open(path.data, O_WRONLY | O_CLOEXEC);
    buf_free(&path);
    return fd;
}

/* Makes a cgroup and opens the file through which a process enters it; -1 where that is not possible. */
static int cgroup_make(struct child *c)
{
    cgroup_path(c);
    int door = -1, end = -1;
    if (*c->cgroup && !mkdir(c->cgroup, 0700)) {
        door = cgroup_file(c, "cgroup.procs");
        end = cgroup_file(c, "cgroup.kill");
        if (door < 0 || end < 0)
            rmdir(c->cgroup);
    }
    if (end < 0) {
        *c->cgroup = 0;
        if (door >= 0)
            close(door);
        return -1;
    }
    close(end);
    return door;
}

/* True when it is gone.  Its processes, which were killed, may take a moment. */
static bool cgroup_removed(struct child *c)
{
    if (*c->cgroup && rmdir(c->cgroup) && errno == EBUSY)
        return false;
    *c->cgroup = 0;
    return true;
}

static void cgroup_kill(const struct child *c)
{
    int fd = *c->cgroup ? cgroup_file(c, "cgroup.kill") : -1;
    if (fd >= 0 && write(fd, "1", 1) < 0) {}
    if (fd >= 0)
        close(fd);
}

/* --- its start ---------------------------------------------------------------------------------------------------- */

enum { N_LIMITS = 6 };

struct plan {
    char *const *argv, *const *env;
    struct { int what; struct rlimit to; } limits[N_LIMITS];
    int in, out, door;
};

/* Our own limit of file locks, which no kernel since 2.4.25 looks at.  A tool's is lower: a mark that its processes inherit and that none of
 * them can take off. */
static rlim_t own_mark(void)
{
    struct rlimit now;
    return getrlimit(RLIMIT_LOCKS, &now) ? 0 : now.rlim_max;
}

/* Returns the number of tasks of the whole machine, which is at least that of our user. */
static rlim_t n_tasks(void)
{
    char text[128] = "";
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    const char *slash = n > 0 ? strchr(text, '/') : NULL;
    return slash ? strtoul(slash + 1, NULL, 10) : 4096;
}

static void set_limits(struct plan *p, const struct child_limits *l)
{
    rlim_t mark = own_mark();
    const rlim_t most[] = {mark ? mark - 1 : 0, 0, (rlim_t)l->files, (rlim_t)l->file_mb << 20, (rlim_t)l->memory_mb << 20,
                           n_tasks() + (rlim_t)l->processes};
    static const int what[] = {RLIMIT_LOCKS, RLIMIT_CORE, RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_NPROC};
    for (int i = 0; i < N_LIMITS; i++) {
        struct rlimit now;
        rlim_t to = getrlimit(what[i], &now) || now.rlim_max > most[i] ? most[i] : now.rlim_max;
        p->limits[i].what = what[i];
        p->limits[i].to = (struct rlimit){to, to};
    }
}

/* Whatever a library has opened without the flag is not the program's. */
static void close_files_on_exec(void)
{
    struct rlimit files;
    if (!close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) || getrlimit(RLIMIT_NOFILE, &files))
        return;
    for (int fd = 3; fd < (int)files.rlim_cur; fd++)     /* Linux before 5.11 */
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* Runs the program, in the new process, which shares our memory until then: nothing but system calls. */
static void become(const struct plan *p)
{
    sigset_t none;
    struct sigaction usual;
    memset(&usual, 0, sizeof usual);
    usual.sa_handler = SIG_DFL;
    sigemptyset(&usual.sa_mask);
    for (int sig = 1; sig < 65; sig++)
        sigaction(sig, &usual, NULL);
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (p->door >= 0 && write(p->door, "0", 1) < 0) {}
    sigemptyset(&none);
    if (dup2(p->in, 0) < 0 || dup2(p->out, 1) < 0 || dup2(p->out, 2) < 0)
        return;
    close_files_on_exec();
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 0; i < N_LIMITS; i++)         /* last: a sanitizer's runtime in here would need more memory than they allow */
        setrlimit(p->limits[i].what, &p->limits[i].to);
    execvpe(p->argv[0], p->argv, p->env);
}

static pid_t launch(const struct plan *p, volatile int *why)
{
    pid_t pid = vfork();                /* fork() would copy the page tables of a model */
    if (pid)
        return pid;
    become(p);
    *why = errno;
    _exit(127);
}

int child_start(struct child *c, char *const *argv, const char *pass, const struct child_limits *l, int in, int out)
{
    char **env = environment(pass);
    struct plan p = {.argv = argv, .env = env, .in = in, .out = out};
    volatile int why = 0;
    sigset_t all, before;
    set_limits(&p, l);
    p.door = cgroup_make(c);
    prctl(PR_SET_CHILD_SUBREAPER, 1);   /* what loses its parent becomes ours, and is found */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    c->pid = launch(&p, &why);
    if (c->pid < 0)
        why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (p.door >= 0)
        close(p.door);
    free(env);
    if (why) {
        if (c->pid > 0)
            waitpid(c->pid, NULL, 0);
        c->pid = 0;
        child_end(c);
    }
    return why;
}

/* --- its end ------------------------------------------------------------------------------------------------------ */

/* Returns the parent of a process; 0: it is gone. */
static pid_t parent_of(pid_t pid)
{
    char path[64], text[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *end = strrchr(text, ')');       /* its name may hold anything */
    return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* True if it has the mark, or cannot be asked for it and can be ended all the same: a program with the rights of a group. */
static bool has_mark(pid_t pid, rlim_t own)
{
    struct rlimit its;
    if (prlimit(pid, RLIMIT_LOCKS, NULL, &its))
        return errno == EPERM && !kill(pid, 0);
    return !own || its.rlim_max < own;
}

/* True for what has the mark and descends from us.  Other children of ours, such as the owner of a clipboard, have no mark. */
static bool is_tools(pid_t pid, rlim_t own)
{
    enum { DEEPEST = 1000 };
    if (!has_mark(pid, own))
        return false;
    for (int i = 0; pid > 1 && i < DEEPEST; i++)
        if ((pid = parent_of(pid)) == getpid())
            return true;
    return false;
}

/* Kills every process that is the tool's; false: there was one, and it may have started more meanwhile. */
static bool kill_all(void)
{
    rlim_t own = own_mark();
    bool none = true;
    DIR *d = opendir("/proc");
    for (struct dirent *f; d && (f = readdir(d));) {
        pid_t pid = isdigit((unsigned char)*f->d_name) ? atoi(f->d_name) : 0;
        if (pid <= 0 || !is_tools(pid, own))
            continue;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, WNOHANG);
        none = false;
    }
    if (d)
        closedir(d);
    return none;
}

bool child_sweep(struct child *c)
{
    enum { SLICE_MS = 2, PATIENCE_MS = 2000 };
    int64_t now = clock_ns();
    if (!c->swept_ns) {
        c->swept_ns = now;
        cgroup_kill(c);
    }
    bool over = kill_all();
    while (!over && clock_ms_since(now) < SLICE_MS)
        over = kill_all();
    over = (over && cgroup_removed(c)) || clock_ms_since(c->swept_ns) > PATIENCE_MS;
    if (over) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;                           /* orphans that became ours; everybody else waits for his own child at once */
        prctl(PR_SET_CHILD_SUBREAPER, 0);
        *c = (struct child){0};
    }
    return over;
}

void child_end(struct child *c)
{
    while (!child_sweep(c))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}
