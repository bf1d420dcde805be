#include "ui/tui/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/unicode.h"

enum { MOMENT_MS = 100, LAST_MS = 1000 };       /* LAST_MS: how long the restoring bytes may be stuck at the end */

/* --- the promise -------------------------------------------------------------------------------------------------
 * What a signal handler needs is static and set before `taken`. */

enum { FREE, GIVING, TAKEN };

static struct {
    atomic_int taken;           /* a state; several threads may hit the same fault, and one of them restores the terminal */
    int   in, out;
    pid_t owner;                /* a forked child inherits our handlers, but must not restore the terminal */
    struct termios found;
    char   bytes[512];
    size_t n;
} promise;

/* Faults, and signals that would kill the program; the latter only if they have no handler. */
static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM, SIGHUP, SIGINT, SIGQUIT};
enum { N_FAULTS = 5, N_SIGNALS = sizeof signals / sizeof *signals };
static struct sigaction before[N_SIGNALS];

void tty_give_back_now(void)
{
    if (getpid() != promise.owner)
        return;
    int kept = errno, taken = TAKEN;
    if (!atomic_compare_exchange_strong(&promise.taken, &taken, GIVING)) {
        struct timespec ms = {.tv_nsec = 1000000};
        for (int i = 0; i < LAST_MS && promise.taken == GIVING; i++)     /* so that the caller's message follows; a fault in here ends the wait */
            nanosleep(&ms, NULL);
        errno = kept;
        return;
    }
    sigset_t ttou, mask;
    sigemptyset(&ttou);
    sigaddset(&ttou, SIGTTOU);                  /* else a program in the background would be stopped here */
    pthread_sigmask(SIG_BLOCK, &ttou, &mask);
    for (size_t at = 0; at < promise.n;) {
        ssize_t k = write(promise.out, promise.bytes + at, promise.n - at);
        struct pollfd p = {.fd = promise.out, .events = POLLOUT};
        if (k <= 0 && errno != EINTR && (errno != EAGAIN || poll(&p, 1, LAST_MS) == 0))
            break;
        at += k > 0 ? (size_t)k : 0;
    }
    tcsetattr(promise.in, TCSANOW, &promise.found);
    promise.taken = FREE;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    errno = kept;
}

/* Gives the terminal back before a signal ends the program. */
static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)context;
    tty_give_back_now();
    for (int i = 0; i < N_SIGNALS; i++)
        if (signals[i] == sig)
            sigaction(sig, &before[i], NULL);
    if (info->si_code <= 0)             /* sent with kill(); a fault happens again, and then has its former handler */
        raise(sig);
}

void tty_restore_with(const char *restore, size_t n)
{
    CHECK(n <= sizeof promise.bytes);
    int taken = promise.taken;
    promise.taken = FREE;
    memcpy(promise.bytes, restore, n);
    promise.n = n;
    promise.taken = taken;
}

/* --- the line --------------------------------------------------------------------------------------------------- */

bool tty_open(struct tty *t, int in, int out, struct err *e)
{
    *t = (struct tty){.in = in, .out = out};
    if (tcgetattr(in, &t->found))
        return err_set(e, "cannot read the settings of the terminal: %s", strerror(errno));
    /* A second description of the terminal: the shell shares the one of `out`, so O_NONBLOCK must not be set there. */
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", out);
    int own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    t->own_out = own >= 0;
    if (t->own_out)
        t->out = own;
    return true;
}

void tty_close(struct tty *t)
{
    if (t->own_out)
        close(t->out);
    t->own_out = false;
    buf_free(&t->late);
}

/* Makes the terminal raw: bytes come at once and unchanged. */
static void make_raw(int fd, struct termios raw)
{
    raw.c_iflag &= ~(tcflag_t)(IGNBRK | BRKINT | PARMRK | ISTRIP | INLCR | IGNCR | ICRNL | IXON);
    raw.c_oflag &= ~(tcflag_t)OPOST;
    raw.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON | ISIG | IEXTEN);
    raw.c_cflag = (raw.c_cflag & ~(tcflag_t)(CSIZE | PARENB)) | CS8;
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(fd, TCSANOW, &raw);               /* keeps input that was typed ahead */
}

void tty_take(struct tty *t)
{
    static bool at_exit;
    CHECK(!promise.taken);
    tcgetattr(t->in, &t->found);                /* the shell may have changed the settings since */
    promise.in = t->in;
    promise.out = t->out;
    promise.owner = getpid();
    promise.found = t->found;
    promise.taken = TAKEN;
    if (!at_exit)
        atexit(tty_give_back_now);
    at_exit = true;
    err_before_bug(tty_give_back_now);
    static char stack[65536];                   /* the fault may be a stack overflow */
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack}, has;
    if (!sigaltstack(NULL, &has) && (has.ss_flags & SS_DISABLE))
        sigaltstack(&own, NULL);
    struct sigaction a = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&a.sa_mask);
    for (int i = 0; i < N_SIGNALS; i++) {
        sigaction(signals[i], NULL, &before[i]);
        if (i < N_FAULTS || (!(before[i].sa_flags & SA_SIGINFO) && before[i].sa_handler == SIG_DFL))
            sigaction(signals[i], &a, NULL);
    }
    make_raw(t->in, t->found);
}

/* Writes as many of the waiting bytes as the terminal accepts at once. */
static void push(struct tty *t)
{
    while (t->late.len && !t->gone) {
        ssize_t k = write(t->out, t->late.data, t->late.len);
        if (k > 0) {
            buf_consume(&t->late, (size_t)k);
            t->sent += (size_t)k;
        } else if (k == 0 || errno == EAGAIN)
            return;
        else if (errno != EINTR)
            t->gone = true;
    }
}

/* Waits until the terminal accepts bytes; false: it did not within `ms`. */
static bool await_room(const struct tty *t, int ms)
{
    struct pollfd p = {.fd = t->out, .events = POLLOUT};
    return poll(&p, 1, ms) > 0 && p.revents;
}

void tty_give_back(struct tty *t)
{
    if (promise.taken)
        for (push(t); t->late.len && !t->gone && await_room(t, LAST_MS);)
            push(t);
    buf_reset(&t->late);
    t->sent += promise.taken ? promise.n : 0;
    tty_give_back_now();
    for (int i = 0; i < N_SIGNALS; i++) {
        struct sigaction now;
        sigaction(signals[i], NULL, &now);
        if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal)
            sigaction(signals[i], &before[i], NULL);
    }
}

bool tty_ready(struct tty *t)
{
    push(t);
    return t->gone || (!t->late.len && await_room(t, 0));
}

void tty_write(struct tty *t, const char *bytes, size_t n)
{
    int64_t start = clock_ns();
    buf_add(&t->late, bytes, n);
    push(t);
    while (t->late.len && !t->gone) {
        double left = MOMENT_MS - clock_ms_since(start);
        if (left < 1 || !await_room(t, (int)left))
            return;
        push(t);
    }
}

int tty_read(struct tty *t, char *bytes, size_t size)
{
    struct pollfd p = {.fd = t->in, .events = POLLIN};
    if (t->gone)
        return -1;
    if (poll(&p, 1, 0) <= 0)
        return 0;
    if (p.revents & POLLIN) {
        ssize_t n = read(t->in, bytes, size);
        if (n > 0)
            return (int)n;
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            return 0;
    }
    t->gone = true;                             /* POLLHUP, EIO, end of file */
    return -1;
}

/* --- glyphs whose width differs ------------------------------------------------------------------------------------ */

enum {
    FIRST = 0xF0000,            /* the first character of a private-use plane, whose last two code points are not characters */
    MOST = 0x7FFF,
    SLOTS = 0x10000,            /* twice MOST, so that searches are short */
    CODE_BYTES = 4,             /* of a placeholder in UTF-8 */
};

void anchors_free(struct anchors *a)
{
    free(a->at);
    free(a->slots);
    *a = (struct anchors){0};
}

void anchors_clear(struct anchors *a)
{
    a->n = 0;
    if (a->slots)
        memset(a->slots, 0, SLOTS * sizeof *a->slots);
}

bool anchors_room(const struct anchors *a, int n)
{
    return a->n + n <= MOST;
}

static uint32_t hash(const struct glyph *g, int col)
{
    uint32_t h = 2166136261u ^ (uint32_t)col;
    for (size_t i = 0; i < g->n; i++)
        h = (h ^ (unsigned char)g->text[i]) * 16777619u;
    return h ^ h >> 16;
}

uint32_t anchor_code(struct anchors *a, const struct glyph *g, int col)
{
    if (!a->at) {
        a->at = memory_alloc(MOST * sizeof *a->at);
        a->slots = memory_zeroed(SLOTS, sizeof *a->slots);
    }
    uint32_t i = hash(g, col) % SLOTS;
    for (; a->slots[i]; i = (i + 1) % SLOTS) {
        const struct anchor *an = &a->at[a->slots[i] - 1];
        if (an->col == col && an->glyph.width == g->width && an->glyph.n == g->n && !memcmp(an->glyph.text, g->text, g->n))
            break;
    }
    if (!a->slots[i]) {
        if (a->n == MOST)
            return 0;
        a->at[a->n++] = (struct anchor){*g, col};
        a->slots[i] = a->n;
    }
    return FIRST + 2 * (uint32_t)(a->slots[i] - 1);
}

/* Moves the cursor to a column of its row, whatever column the terminal believes the cursor to be in. */
static void go_to(int col, const char *(*right)(int n), struct buf *out)
{
    buf_addc(out, '\r');
    if (col)
        buf_adds(out, right(col));
}

/* Returns the number of the placeholder at the beginning of s[0..n), which is odd for a second column; -1: s begins with other text. */
static int placeholder(const struct anchors *a, const char *s, size_t n)
{
    uint32_t cp = 0;
    if (n)
        unicode_decode(s, n, &cp, NULL);
    return cp >= FIRST && cp < FIRST + 2 * (uint32_t)a->n ? (int)(cp - FIRST) : -1;
}

void anchors_expand(const struct anchors *a, const char *s, size_t n, int cols, const char *(*right)(int n), struct buf *out)
{
    for (size_t i = 0; i < n;) {
        int p = placeholder(a, s + i, n - i);
        if (p < 0) {
            const char *next = memchr(s + i + 1, '\xF3', n - i - 1);       /* first byte of a placeholder in UTF-8 */
            size_t plain = next ? (size_t)(next - s) - i : n - i;
            buf_add(out, s + i, plain);
            i += plain;
            continue;
        }
        const struct anchor *an = &a->at[p / 2];
        i += CODE_BYTES;
        if (p % 2 == 0) {
            /* Blanks, then the glyph on top: a terminal with a narrower idea of the glyph shows the rest of the blanks, and one that takes the glyph
             * for a combining mark puts the mark on a blank. */
            buf_add(out, "  ", an->glyph.width);
            go_to(an->col, right, out);
            buf_add(out, an->glyph.text, an->glyph.n);
            if (placeholder(a, s + i, n - i) == p + 1) {
                i += CODE_BYTES;
                p++;
            }
        }
        int after = an->col + 1 + p % 2;
        if (after < cols)                       /* at the edge curses makes no assumption about the cursor */
            go_to(after, right, out);
    }
}
