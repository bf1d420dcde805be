/* The tools of the config file: programs that run as child processes.  A child cannot leave: it has a session of its own without a terminal, a
 * small environment, limits, and an end that reaches everything it has started, under whatever name. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/unicode.h"
#include "option/options.h"
#include "tool/kind.h"
#include "tool/tool.h"

extern char **environ;

/* --- a section of the config file ------------------------------------------------------------------------------------ */

enum { TIMEOUT_S = 30, MAX_OUTPUT = 64 * 1024, MAX_WORDS = 64 };

struct program {
    char **argv;
    char  *words;                       /* the text that argv points into */
    char  *pass;                        /* names of more variables for its environment, with commas */
    int    timeout_s;
    size_t max_output;
    struct child_limits {
        long memory_mb;                 /* addresses of each process; MiB */
        long processes;                 /* more than run already; root has no such limit */
        long file_mb, files;            /* the size of each; how many may be open at a time */
    } limits;
};

/* True if a backslash at `s` escapes the next character.  Between double quotes it does that before few characters only. */
static bool escapes(const char *s, char quote)
{
    return *s == '\\' && s[1] && quote != '\'' && (!quote || strchr("\"\\$`\n", s[1]));
}

/* Splits as a shell splits words, with '...', "..." and \x, and nothing else of a shell.  `s` is changed. */
static int split_words(char *s, char **words, int max)
{
    int n = 0;
    for (;;) {
        while (*s == ' ' || *s == '\t' || *s == '\n')
            s++;
        if (!*s)
            return n;
        if (n == max)
            return -1;
        char *to = s, quote = 0;
        words[n++] = to;
        for (; *s && (quote || !strchr(" \t\n", *s)); s++) {
            if (quote ? *s == quote : *s == '\'' || *s == '"')
                quote = quote ? 0 : *s;
            else if (escapes(s, quote) && *++s == '\n')
                continue;               /* a continued line */
            else
                *to++ = *s;
        }
        if (quote)
            return -1;
        bool end = !*s;
        *to = 0;
        if (end)
            return n;
        s++;
    }
}

/* Reads a positive number; without text the standard one. */
static bool read_limit(const char *text, long standard, long max, long *out)
{
    char *end;
    *out = text ? strtol(text, &end, 10) : standard;
    return !text || (end != text && !*end && *out > 0 && *out <= max);
}

/* Returns the JSON object that the template prints; NULL if the description is not UTF-8. */
static char *make_schema(const struct option_tool *c)
{
    struct buf out = {0};
    json_t *name = json_string(c->name), *description = json_string(c->description ? c->description : "");
    char *name_text = json_dumps(name, JSON_ENCODE_ANY), *description_text = json_dumps(description, JSON_ENCODE_ANY);
    if (name_text && description_text)
        buf_addf(&out, "{\"type\": \"function\", \"function\": {\"name\": %s, \"description\": %s, \"parameters\": %s}}", name_text,
                 description_text, c->parameters ? c->parameters : "{\"type\": \"object\", \"properties\": {}}");
    free(name_text);
    free(description_text);
    json_decref(name);
    json_decref(description);
    return out.data;
}

/* Checks the schema of the arguments: an object whose names of parameters come back from a call as they are. */
static bool check_parameters(const struct option_tool *c, struct err *e)
{
    json_t *j = c->parameters ? json_loads(c->parameters, 0, NULL) : NULL, *value;
    bool ok = !c->parameters || json_is_object(j) || err_set(e, "[tool %s]: parameters is not a JSON object", c->name);
    const char *key;
    json_object_foreach(json_object_get(j, "properties"), key, value)
        if (ok && !text_is_tag_name(text_of(key)))
            ok = err_set(e, "[tool %s]: a parameter has the name \"%s\": " TEXT_TAG_NAME, c->name, key);
    json_decref(j);
    return ok;
}

/* Reads the limits of processes, which are generous: a language's run time reserves gigabytes of addresses, a build starts hundreds of processes. */
static bool read_process_limits(const struct option_tool *c, struct child_limits *l, struct err *e)
{
    const struct { const char *key, *text; long standard, max, *to; } rows[] = {
        {"max_memory_mb", c->max_memory_mb, 64 << 10, 1 << 24, &l->memory_mb},
        {"max_processes", c->max_processes, 1000, 1 << 20, &l->processes},
        {"max_file_mb", c->max_file_mb, 4 << 10, 1 << 24, &l->file_mb},
        {"max_files", c->max_files, 1024, 1 << 20, &l->files},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!read_limit(rows[i].text, rows[i].standard, rows[i].max, rows[i].to))
            return err_set(e, "[tool %s]: %s is '%s', expected 1 to %ld", c->name, rows[i].key, rows[i].text, rows[i].max);
    return true;
}

static void free_program(void *def)
{
    struct program *p = def;
    free(p->argv);
    free(p->words);
    free(p->pass);
    free(p);
}

/* Cuts the command into p->argv. */
static bool read_command(const struct option_tool *c, struct program *p, struct err *e)
{
    char *words[MAX_WORDS + 1] = {0};
    p->words = memory_strdup(c->command);
    int n = split_words(p->words, words, MAX_WORDS);
    if (n <= 0)
        return err_set(e, "[tool %s]: command is '%s', expected a program and up to %d words, quotes closed", c->name, c->command, MAX_WORDS - 1);
    p->argv = memory_zeroed((size_t)n + 1, sizeof *p->argv);
    memcpy(p->argv, words, (size_t)n * sizeof *words);
    return true;
}

/* Adds a tool of the config file, with its limits.  False with the setting that is wrong. */
static bool add_program(struct tools *l, const struct option_tool *c, struct err *e)
{
    long timeout, output;
    if (!tools_check_name(l, c->name, e))
        return false;
    if (!c->command || !*c->command)
        return err_set(e, "[tool %s] of the config file has no command", c->name);
    if (!check_parameters(c, e))
        return false;
    if (!read_limit(c->timeout_s, TIMEOUT_S, 3600, &timeout))
        return err_set(e, "[tool %s]: timeout_s is '%s', expected 1 to 3600", c->name, c->timeout_s);
    if (!read_limit(c->max_output, MAX_OUTPUT, 16 << 20, &output))
        return err_set(e, "[tool %s]: max_output is '%s', expected 1 to %d bytes", c->name, c->max_output, 16 << 20);
    const bool pictures = c->pictures && !strcmp(c->pictures, "on");
    if (c->pictures && !pictures && strcmp(c->pictures, "off"))
        return err_set(e, "[tool %s]: pictures is '%s', expected on or off", c->name, c->pictures);
    struct program *p = memory_zeroed(1, sizeof *p);
    *p = (struct program){.pass = memory_strdup(c->env ? c->env : ""), .timeout_s = (int)timeout, .max_output = (size_t)output};
    bool ok = read_process_limits(c, &p->limits, e) && read_command(c, p, e);
    char *schema = ok ? make_schema(c) : NULL;
    if (schema) {
        tools_add(l, &tool_child, c->name, schema, p)->pictures = pictures;
        return true;
    }
    free_program(p);
    return ok ? err_set(e, "[tool %s]: description is not UTF-8", c->name) : false;
}

static bool add_programs(struct tools *l, const struct options *o, struct err *e)
{
    for (int i = 0; i < options_n_tools(o); i++)
        if (!add_program(l, options_tool(o, i), e))
            return false;
    return true;
}

static char **program_argv(const struct tool *t)
{
    const struct program *p = t->def;
    return p->argv;
}

/* --- the environment of a child ------------------------------------------------------------------------------------- */

/* True if this variable is passed on. */
static bool passes(const char *entry, const char *pass)
{
    static const char usual[] = "PATH,HOME,USER,LOGNAME,LANG,TMPDIR,TZ";
    const struct text name = {entry, strcspn(entry, "=")};
    return text_listed(usual, name) || text_starts(name, "LC_") || text_listed(pass, name);
}

/* Returns the environment of a child, to be freed. */
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

/* --- a running child ------------------------------------------------------------------------------------------------ */

struct child {
    pid_t pid;                          /* also its session and group; 0: no child */
    rlim_t mark;                        /* the limit that its processes inherit, see own_mark() */
    char  cgroup[PATH_MAX];             /* "" where none can be made */
    int64_t swept_ns;                   /* since when its remaining processes are being ended; 0: not yet */
    struct child *next;                 /* in `live` */
};

static struct child *live;              /* children whose processes have not all ended */

/* --- a cgroup, where we may make one below our own ---------------------------------------------------------------- */

/* Sets the path of a new cgroup below our own; "" where there is none of version 2. */
static void name_cgroup(struct child *c)
{
    static int made;
    struct buf text = {0};
    *c->cgroup = 0;
    int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && file_read_fd(&text, fd, "", 1 << 16, NULL) && !strncmp(buf_str(&text), "0::/", 4)) {
        const char *own = text.data + 3;
        int n = snprintf(c->cgroup, sizeof c->cgroup, "/sys/fs/cgroup%.*s/q35chat-%d-%d", (int)strcspn(own, "\n"), own, (int)getpid(), made++);
        if (n >= (int)sizeof c->cgroup - 32)
            *c->cgroup = 0;
    }
    if (fd >= 0)
        close(fd);
    buf_free(&text);
}

static int open_cgroup_file(const struct child *c, const char *name)
{
    struct buf path = {0};
    buf_addf(&path, "%s/%s", c->cgroup, name);
    int fd = open(path.data, O_WRONLY | O_CLOEXEC);
    buf_free(&path);
    return fd;
}

/* Makes a cgroup and opens the file through which a process enters it; -1 where that is not possible. */
static int make_cgroup(struct child *c)
{
    name_cgroup(c);
    int door = -1, end = -1;
    if (*c->cgroup && !mkdir(c->cgroup, 0700)) {
        door = open_cgroup_file(c, "cgroup.procs");
        end = open_cgroup_file(c, "cgroup.kill");
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

/* True if the cgroup is gone.  Its processes, which were killed, may take a moment. */
static bool remove_cgroup(struct child *c)
{
    if (*c->cgroup && rmdir(c->cgroup) && errno == EBUSY)
        return false;
    *c->cgroup = 0;
    return true;
}

static void kill_cgroup(const struct child *c)
{
    int fd = *c->cgroup ? open_cgroup_file(c, "cgroup.kill") : -1;
    if (fd >= 0 && write(fd, "1", 1) < 0) {}
    if (fd >= 0)
        close(fd);
}

/* --- the start of a child ------------------------------------------------------------------------------------------- */

enum { N_LIMITS = 6 };

struct plan {
    char *const *argv, *const *env;
    struct { int what; struct rlimit to; } limits[N_LIMITS];
    int in, out, door;
};

/* Returns our own limit of file locks, which no kernel since 2.4.25 enforces.  Each child gets a lower one of its own: a mark that its processes
 * inherit and cannot take off, since a limit can only be lowered. */
static rlim_t own_mark(void)
{
    struct rlimit now;
    return getrlimit(RLIMIT_LOCKS, &now) ? 0 : now.rlim_max;
}

/* Returns the highest mark that no living child has; 0: there is none. */
static rlim_t free_mark(void)
{
    rlim_t mark = own_mark();
    for (bool taken = true; taken && mark;) {
        mark--;
        taken = false;
        for (const struct child *c = live; c && !taken; c = c->next)
            taken = c->mark == mark;
    }
    return mark;
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

/* Fills in the limits of a child's resources, none above those of this process; `mark` is a lock limit by which its processes are found. */
static void set_limits(struct plan *p, const struct child_limits *l, rlim_t mark)
{
    const rlim_t most[] = {mark, 0, (rlim_t)l->files, (rlim_t)l->file_mb << 20, (rlim_t)l->memory_mb << 20, n_tasks() + (rlim_t)l->processes};
    static const int what[] = {RLIMIT_LOCKS, RLIMIT_CORE, RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_NPROC};
    for (int i = 0; i < N_LIMITS; i++) {
        struct rlimit now;
        rlim_t to = getrlimit(what[i], &now) || now.rlim_max > most[i] ? most[i] : now.rlim_max;
        p->limits[i].what = what[i];
        p->limits[i].to = (struct rlimit){to, to};
    }
}

/* A library may have opened files without the flag; the program does not get them either. */
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

/* Starts the process; *why: errno of the program that cannot be run. */
static pid_t launch(const struct plan *p, volatile int *why)
{
    pid_t pid = vfork();                /* fork() would copy the page tables of a model */
    if (pid)
        return pid;
    become(p);
    *why = errno;
    _exit(127);
}

static void end_child(struct child *c);

/* Runs the program with `in` as its stdin and `out` as its stdout and stderr.  0, or errno. */
static int start_child(struct child *c, const struct program *prog, int in, int out)
{
    char **env = environment(prog->pass);
    struct plan p = {.argv = prog->argv, .env = env, .in = in, .out = out};
    volatile int why = 0;
    sigset_t all, before;
    c->mark = free_mark();
    set_limits(&p, &prog->limits, c->mark);
    p.door = make_cgroup(c);
    prctl(PR_SET_CHILD_SUBREAPER, 1);   /* processes that lose their parent become our children, and are found */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    c->pid = launch(&p, &why);
    if (c->pid < 0)
        why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    c->next = live;
    live = c;
    if (p.door >= 0)
        close(p.door);
    free(env);
    if (why) {
        if (c->pid > 0)
            waitpid(c->pid, NULL, 0);
        c->pid = 0;
        end_child(c);
    }
    return why;
}

/* --- the end of a child --------------------------------------------------------------------------------------------- */

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

/* Reads the mark of a process.  False: it has none, or none can be read and it cannot be ended either.  A program with the rights of a group, whose
 * mark cannot be read, gets 0. */
static bool read_mark(pid_t pid, rlim_t *mark)
{
    struct rlimit its;
    const rlim_t own = own_mark();
    *mark = 0;
    if (prlimit(pid, RLIMIT_LOCKS, NULL, &its))
        return errno == EPERM && !kill(pid, 0);
    *mark = its.rlim_max;
    return !own || its.rlim_max < own;
}

/* True for a marked process that descends from the child.  An orphan, which has lost the processes between, belongs to the child of its mark; with
 * another mark, which it has made itself, to the last child that ends.  Other children of ours, such as the owner of a clipboard, have no mark. */
static bool belongs_to(const struct child *c, pid_t pid)
{
    enum { DEEPEST = 1000 };
    rlim_t mark;
    if (!read_mark(pid, &mark))
        return false;
    for (int i = 0; pid > 1 && i < DEEPEST; i++) {
        for (const struct child *other = live; other; other = other->next)
            if (pid == other->pid)
                return other == c;
        if ((pid = parent_of(pid)) == getpid())
            return mark == c->mark || !live->next;
    }
    return false;
}

/* Kills every process of the child.  False: there was one, which may have started more meanwhile. */
static bool kill_all(const struct child *c)
{
    bool none = true;
    DIR *d = opendir("/proc");
    for (struct dirent *f; d && (f = readdir(d));) {
        pid_t pid = isdigit((unsigned char)*f->d_name) ? atoi(f->d_name) : 0;
        if (pid <= 0 || !belongs_to(c, pid))
            continue;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, WNOHANG);
        none = false;
    }
    if (d)
        closedir(d);
    return none;
}

/* Takes the child off the list of those that live.  After the last one, orphans are no longer given to us. */
static void forget_child(struct child *c)
{
    struct child **at = &live;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    *c = (struct child){0};
    if (live)
        return;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;                               /* orphans that became ours; every other caller waits for its own child at once */
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* Ends, for a few milliseconds, what a child has started and left running; its own process has been waited for.  False: call it again soon. */
static bool sweep_child(struct child *c)
{
    enum { SLICE_MS = 2, PATIENCE_MS = 2000 };
    int64_t now = clock_ns();
    if (!c->swept_ns) {
        c->swept_ns = now;
        kill_cgroup(c);
    }
    bool over = kill_all(c);
    while (!over && clock_ms_since(now) < SLICE_MS)
        over = kill_all(c);
    over = (over && remove_cgroup(c)) || clock_ms_since(c->swept_ns) > PATIENCE_MS;
    if (over)
        forget_child(c);
    return over;
}

/* Does the same to the end, which may take two seconds. */
static void end_child(struct child *c)
{
    while (!sweep_child(c))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* --- a call --------------------------------------------------------------------------------------------------------- */

struct child_run {
    struct tool_run run;
    const struct program *program;
    struct child child;
    int     fd;                         /* stdout and stderr of the child; -1: closed */
    int64_t start_ns;
    bool    ended;                      /* its process was waited for; what it has started is being ended */
    int     status;
    enum { NOT_KILLED, TOO_LONG, TOO_MUCH } killed;     /* why we ended it */
};

/* Puts the arguments into a file that nobody else can see: no second pipe to feed, no SIGPIPE. */
static int arguments_fd(const char *arguments, size_t n)
{
    int fd = memfd_create("arguments", MFD_CLOEXEC);
    for (size_t done = 0; fd >= 0 && done < n;) {
        ssize_t k = write(fd, arguments + done, n - done);
        if (k < 0 && errno != EINTR) {
            close(fd);
            return -1;
        }
        done += k > 0 ? (size_t)k : 0;
    }
    if (fd >= 0)
        lseek(fd, 0, SEEK_SET);
    return fd;
}

/* Kills a call that still runs, with the processes that it started, and frees it. */
static void close_call(struct tool_run *run)
{
    struct child_run *r = (struct child_run *)run;
    if (r->child.pid && !r->ended) {
        kill(-r->child.pid, SIGKILL);
        waitpid(r->child.pid, NULL, 0);
    }
    if (r->child.pid)
        end_child(&r->child);
    if (r->fd >= 0)
        close(r->fd);
}

/* Starts the program of a tool with the arguments as its input.  NULL with the reason. */
static struct tool_run *start_call(const struct tool *t, const char *arguments, size_t n, struct err *e)
{
    struct child_run *r = memory_zeroed(1, sizeof *r);
    *r = (struct child_run){.run.tool = t, .program = t->def, .fd = -1, .start_ns = clock_ns()};
    int pipes[2] = {-1, -1}, in = arguments_fd(arguments, n);
    int rc = in < 0 || pipe2(pipes, O_CLOEXEC) ? errno : start_child(&r->child, r->program, in, pipes[1]);
    if (in >= 0)
        close(in);
    if (pipes[1] >= 0)
        close(pipes[1]);
    r->fd = pipes[0];
    if (rc) {
        err_set(e, "cannot run %s: %s", r->program->argv[0], strerror(rc));
        tool_close(&r->run);
        return NULL;
    }
    fcntl(r->fd, F_SETFL, O_NONBLOCK);
    return &r->run;
}

static int call_fds(const struct tool_run *run, struct pollfd *fds)
{
    const struct child_run *r = (const struct child_run *)run;
    if (r->fd < 0)
        return 0;
    fds[0] = (struct pollfd){.fd = r->fd, .events = POLLIN};
    return 1;
}

static int call_timeout(const struct tool_run *run)
{
    return ((const struct child_run *)run)->ended ? 1 : TOOL_TICK_MS;
}

static void kill_for(struct child_run *r, int why)
{
    if (!r->killed)
        r->killed = why;
    if (!r->ended)
        kill(-r->child.pid, SIGKILL);
}

/* Reads some output.  False when there is no more now, or never again. */
static bool read_some(struct child_run *r)
{
    char chunk[4096];
    ssize_t n = r->fd < 0 ? 0 : read(r->fd, chunk, sizeof chunk);
    if (n == 0 && r->fd >= 0) {
        close(r->fd);
        r->fd = -1;
    }
    size_t room = r->program->max_output - r->run.out.len;
    if (n > 0)
        buf_add(&r->run.out, chunk, (size_t)n < room ? (size_t)n : room);
    if (n > 0 && (size_t)n > room)
        kill_for(r, TOO_MUCH);
    return n > 0 && !r->killed;
}

/* Appends the output as text, and a line about its end unless the program ended well. */
static void report(const struct child_run *r, struct buf *result)
{
    const struct buf *out = &r->run.out;
    struct buf text = {0};
    unicode_replace(&text, buf_str(out), r->killed ? unicode_complete(buf_str(out), out->len) : out->len);
    while (text.len && strchr(" \t\r\n", text.data[text.len - 1]))
        text.data[--text.len] = 0;
    const char *gap = text.len ? "\n" : "";
    if (r->killed == TOO_MUCH)
        buf_addf(&text, "%s[ended: more than %zu bytes of output]", gap, r->program->max_output);
    else if (r->killed)
        buf_addf(&text, "%s[ended: longer than %d s]", gap, r->program->timeout_s);
    else if (WIFSIGNALED(r->status))
        buf_addf(&text, "%s[ended by signal %d]", gap, WTERMSIG(r->status));
    else if (WEXITSTATUS(r->status))
        buf_addf(&text, "%s[exit status %d]", gap, WEXITSTATUS(r->status));
    else if (!text.len)
        buf_adds(&text, "[no output]");
    buf_add(result, text.data, text.len);
    buf_free(&text);
}

/* Reads the output so far and ends the call when the program has ended or run too long.  True: the result is complete. */
static bool step_call(struct tool_run *run, struct buf *result)
{
    struct child_run *r = (struct child_run *)run;
    while (read_some(r))
        ;
    if (!r->ended && clock_ms_since(r->start_ns) > r->program->timeout_s * 1000.0)
        kill_for(r, TOO_LONG);
    r->ended = r->ended || waitpid(r->child.pid, &r->status, WNOHANG);
    if (!r->ended || !sweep_child(&r->child))
        return false;
    while (!r->killed && read_some(r))
        ;
    report(r, result);
    return true;
}

static void interrupt_call(struct tool_run *run)
{
    struct child_run *r = (struct child_run *)run;
    if (r->child.pid && !r->ended)
        kill(-r->child.pid, SIGINT);
}

static void kill_call(struct tool_run *run)
{
    struct child_run *r = (struct child_run *)run;
    if (r->child.pid)
        kill_for(r, TOO_LONG);
}

const struct tool_kind tool_child = {
    .add = add_programs, .free_def = free_program, .argv = program_argv, .start = start_call, .fds = call_fds, .timeout = call_timeout,
    .step = step_call, .interrupt = interrupt_call, .kill = kill_call, .close = close_call,
};
