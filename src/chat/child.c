#include "chat/child.h"

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
#include "base/grow.h"
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

/* The file that takes a process into a new one; -1: there is none. */
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

static void moment(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void cgroup_end(struct child *c)
{
    enum { PATIENCE = 500 };
    int fd = *c->cgroup ? cgroup_file(c, "cgroup.kill") : -1;
    if (fd >= 0) {
        if (write(fd, "1", 1) < 0) {}
        close(fd);
    }
    for (int i = 0; *c->cgroup && rmdir(c->cgroup) && errno == EBUSY && i < PATIENCE; i++)
        moment();
    *c->cgroup = 0;
}

/* --- its start ---------------------------------------------------------------------------------------------------- */

struct plan {
    char *const *argv, *const *env;
    struct { int what; struct rlimit to; } limits[5];
    int in, out, door;
};

/* Tasks of the whole machine: at least as many as our user has. */
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
    const rlim_t most[] = {0, (rlim_t)l->files, (rlim_t)l->file_mb << 20, (rlim_t)l->memory_mb << 20, n_tasks() + (rlim_t)l->processes};
    static const int what[] = {RLIMIT_CORE, RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_NPROC};
    for (int i = 0; i < 5; i++) {
        struct rlimit now;
        rlim_t to = getrlimit(what[i], &now) || now.rlim_max > most[i] ? most[i] : now.rlim_max;
        p->limits[i].what = what[i];
        p->limits[i].to = (struct rlimit){to, to};
    }
}

/* In the new process, which shares our memory until it runs its program: nothing but system calls. */
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
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 0; i < 5; i++)         /* last: a sanitizer's runtime in here would need more memory than they allow */
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
        child_sweep(c);
    }
    return why;
}

/* --- its end ------------------------------------------------------------------------------------------------------ */

struct process {
    pid_t pid, parent, session;
};

struct processes {
    struct process *items;
    int n, cap;
};

static bool read_process(const char *pid, struct process *p)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC), group;
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *end = strrchr(text, ')');       /* its name may hold anything */
    p->pid = atoi(pid);
    return end && sscanf(end + 1, " %*c %d %d %d", &p->parent, &group, &p->session) == 3;
}

static void list_processes(struct processes *l)
{
    DIR *d = opendir("/proc");
    l->n = 0;
    for (struct dirent *f; d && (f = readdir(d));) {
        struct process p;
        if (!isdigit((unsigned char)*f->d_name) || !read_process(f->d_name, &p))
            continue;
        l->items = grow(l->items, l->n, &l->cap, sizeof *l->items);
        l->items[l->n++] = p;
    }
    if (d)
        closedir(d);
}

static const struct process *find(const struct processes *l, pid_t pid)
{
    for (int i = 0; i < l->n; i++)
        if (l->items[i].pid == pid)
            return &l->items[i];
    return NULL;
}

/* Nobody comes back into our session who was put out of it. */
static bool is_its(const struct processes *l, const struct process *p)
{
    enum { DEEPEST = 1000 };
    if (p->session == getsid(0))
        return false;
    for (int i = 0; p && i < DEEPEST; i++) {
        if (p->parent == getpid())
            return true;
        p = find(l, p->parent);
    }
    return false;
}

void child_sweep(struct child *c)
{
    enum { PASSES = 2000 };             /* of a millisecond */
    struct processes l = {0};
    cgroup_end(c);
    for (int pass = 0, found = 1; found && pass < PASSES; pass++) {
        list_processes(&l);
        found = 0;
        for (int i = 0; i < l.n; i++)
            if (is_its(&l, &l.items[i])) {
                kill(l.items[i].pid, SIGKILL);
                waitpid(l.items[i].pid, NULL, WNOHANG);
                found++;
            }
        if (found)
            moment();
    }
    free(l.items);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    c->pid = 0;
}
