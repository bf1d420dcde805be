#include "tests/pty/cable.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utmp.h>

#include "base/clock.h"
#include "base/err.h"

enum { BITS_PER_BYTE = 10, MS = 1000000 };

static void run(char **argv)
{
    signal(SIGINT, SIG_DFL);                            /* a shell's background jobs ignore them */
    signal(SIGQUIT, SIG_DFL);
    execvp(argv[0], argv);
    fprintf(stderr, "cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

void cable_open(struct cable *c, int rows, int cols, char **argv)
{
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    int slave;
    CHECK(openpty(&c->master, &slave, NULL, NULL, &size) == 0);
    CHECK(tcgetattr(slave, &c->found) == 0);
    c->glass = glass_open(rows, cols, &c->to_send);
    c->pid = fork();
    CHECK(c->pid >= 0);
    if (!c->pid) {
        close(c->master);
        CHECK(login_tty(slave) == 0);
        run(argv);
    }
    close(slave);
    fcntl(c->master, F_SETFL, O_NONBLOCK);
    fcntl(c->master, F_SETFD, FD_CLOEXEC);
}

void cable_close(struct cable *c)
{
    if (!c->ended) {
        kill(c->pid, SIGKILL);
        waitpid(c->pid, NULL, 0);
    }
    cable_hang_up(c);
    glass_close(c->glass);
    buf_free(&c->to_send);
}

void cable_hang_up(struct cable *c)
{
    if (c->master >= 0)
        close(c->master);
    c->master = -1;
}

static void look_for_end(struct cable *c)
{
    int status;
    if (c->ended || waitpid(c->pid, &status, WNOHANG) != c->pid)
        return;
    c->ended = true;
    c->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* How much the cable brings just now. */
static size_t room(const struct cable *c, size_t most)
{
    if (c->frozen)
        return 0;
    if (!c->bits_per_s)
        return most;
    if (clock_ns() < c->read_until_ns)
        return 0;
    return most < 32 ? most : 32;
}

static void read_some(struct cable *c)
{
    char bytes[65536];
    size_t most = room(c, sizeof bytes);
    ssize_t n = most ? read(c->master, bytes, most) : 0;
    if (n <= 0)
        return;
    glass_feed(c->glass, bytes, (size_t)n);
    if (c->log) {
        fwrite(bytes, 1, (size_t)n, c->log);
        fflush(c->log);                         /* a script may wait for what is in it */
    }
    if (c->bits_per_s) {
        int64_t now = clock_ns(), from = c->read_until_ns > now - 20 * MS ? c->read_until_ns : now;
        c->read_until_ns = from + (int64_t)n * BITS_PER_BYTE * 1000 * MS / c->bits_per_s;
    }
}

static void send_some(struct cable *c)
{
    ssize_t n = c->to_send.len ? write(c->master, c->to_send.data, c->to_send.len) : 0;
    if (n > 0)
        buf_consume(&c->to_send, (size_t)n);
}

void cable_move(struct cable *c, int ms)
{
    if (c->bits_per_s && ms > 10)
        ms = 10;
    bool reads = c->master >= 0 && room(c, 1);
    struct pollfd p = {.fd = c->master, .events = (short)((reads ? POLLIN : 0) | (c->to_send.len ? POLLOUT : 0))};
    if (!p.events)
        p.fd = -1;
    poll(&p, 1, ms);
    if (p.fd >= 0 && p.revents & POLLHUP && !(p.revents & POLLIN))
        poll(NULL, 0, ms < 5 ? ms : 5);                 /* nobody has the other end: only the program's end is awaited */
    if (c->master >= 0) {
        read_some(c);
        send_some(c);
    }
    look_for_end(c);
}

void cable_size(struct cable *c, int rows, int cols)
{
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    glass_size(c->glass, rows, cols);
    ioctl(c->master, TIOCSWINSZ, &size);
}

bool cable_unchanged(const struct cable *c)
{
    struct termios now;
    if (tcgetattr(c->master, &now))
        return false;
    return now.c_iflag == c->found.c_iflag && now.c_oflag == c->found.c_oflag && now.c_cflag == c->found.c_cflag
        && now.c_lflag == c->found.c_lflag && !memcmp(now.c_cc, c->found.c_cc, sizeof now.c_cc);
}

int64_t cable_cpu_ns(const struct cable *c)
{
    char path[64];
    long long ns = -1;
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)c->pid, (int)c->pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return -1;
    if (fscanf(f, "%lld", &ns) != 1)
        ns = -1;
    fclose(f);
    return ns;
}
