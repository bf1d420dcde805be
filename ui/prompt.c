#include "ui/prompt.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/unicode.h"
#include "chat/attach.h"
#include "ui/interrupt.h"

enum { MAX_INPUT = 256 << 20, CHUNK = 65536, NOTICE_MS = 2000 };

void prompt_say(const char *text)
{
    struct buf safe = {0};
    unicode_safe(&safe, text, strlen(text));
    fprintf(stderr, "q35chat: %s\n", buf_str(&safe));
    buf_free(&safe);
}

bool prompt_is_blank(const struct buf *b)
{
    return strspn(buf_str(b), " \t\r\n") == b->len;
}

int prompt_ms_left(int64_t deadline_ns)
{
    if (!deadline_ns)
        return -1;
    int64_t left = (deadline_ns - clock_ns() + 999999) / 1000000;
    return left < 0 ? 0 : left > 1 << 30 ? 1 << 30 : (int)left;
}

bool prompt_ignores_file(const struct buf *words)
{
    struct attached found = {0};
    struct buf text = {0};
    struct err e = {0};
    attach_read(&found, buf_str(words), words->len, true, &e);
    bool some = found.n > 0;
    if (some) {
        buf_addf(&text, "a file after @ is not attached here, the word is text; -f FILE attaches (%.*s)", (int)found.files[0].path.n,
                 found.files[0].path.p);
        prompt_say(text.data);
    }
    attach_free(&found);
    buf_free(&text);
    return some;
}

/* --- stdin ------------------------------------------------------------------------------------------------------ */

/* The sooner one of two waits for poll(); -1 is for ever. */
static int sooner(int a, int b)
{
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

struct reading {
    int64_t start_ns, deadline_ns;
    int  wait_ms;                       /* for the first byte; -1: for ever */
    bool told;
};

/* How long to wait next while nothing has come; -1: for ever. */
static int silence_ms(const struct reading *r)
{
    int gone = (int)clock_ms_since(r->start_ns), notice = r->told ? -1 : NOTICE_MS > gone ? NOTICE_MS - gone : 0;
    return sooner(notice, r->wait_ms < 0 ? -1 : r->wait_ms > gone ? r->wait_ms - gone : 0);
}

/* Nothing came for a while.  EXIT_ANSWERED: goes on waiting. */
static int silent(struct reading *r)
{
    int gone = (int)clock_ms_since(r->start_ns);
    if (r->deadline_ns && !prompt_ms_left(r->deadline_ns)) {
        prompt_say("--timeout was reached while stdin was read");
        return EXIT_TIMEOUT;
    }
    if (r->wait_ms >= 0 && gone >= r->wait_ms) {
        fprintf(stderr, "q35chat: nothing came on stdin for %d s and it stays open: --no-stdin ignores it, < /dev/null ends it\n", r->wait_ms / 1000);
        return EXIT_USAGE;
    }
    if (!r->told && gone >= NOTICE_MS) {
        prompt_say("waiting for stdin (--no-stdin ignores it)");
        r->told = true;
    }
    return EXIT_ANSWERED;
}

static int read_all(struct reading *r, struct buf *text)
{
    struct pollfd fds[2] = {{.fd = 0, .events = POLLIN}, {.fd = interrupt_fd(), .events = POLLIN}};
    for (;;) {
        int ready = poll(fds, 2, sooner(text->len ? -1 : silence_ms(r), prompt_ms_left(r->deadline_ns)));
        if (ready > 0 && fds[1].revents && interrupt_taken())
            return EXIT_SIGNAL + interrupt_signal();
        if (ready <= 0) {
            int status = ready ? EXIT_ANSWERED : silent(r);
            if (status)
                return status;
            continue;
        }
        buf_reserve(text, CHUNK);
        ssize_t n = fds[0].revents ? read(0, text->data + text->len, CHUNK) : -1;
        if (n < 0 && (!fds[0].revents || errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0) {
            fprintf(stderr, "q35chat: cannot read stdin: %s\n", strerror(errno));
            return EXIT_USAGE;
        }
        if (n == 0)
            return EXIT_ANSWERED;
        text->len += (size_t)n;
        text->data[text->len] = 0;
        if (text->len > MAX_INPUT) {
            fprintf(stderr, "q35chat: stdin has more than %d MiB, no context holds that much\n", MAX_INPUT >> 20);
            return EXIT_USAGE;
        }
    }
}

void prompt_join(struct buf *prompt, const char *text, size_t n)
{
    struct buf all = {0};
    const char *p = buf_str(prompt), *hole = strstr(p, "{}");
    if (!n)
        return;
    if (!hole) {
        if (prompt->len)
            buf_adds(prompt, "\n\n");
        buf_add(prompt, text, n);
        return;
    }
    while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    for (; hole; p = hole + 2, hole = strstr(p, "{}")) {
        buf_add(&all, p, (size_t)(hole - p));
        buf_add(&all, text, n);
    }
    buf_adds(&all, p);
    buf_reset(prompt);
    buf_add(prompt, buf_str(&all), all.len);
    buf_free(&all);
}

int prompt_read_stdin(const struct options *o, struct buf *prompt, int64_t deadline_ns)
{
    int seconds = options_int(o, OPT_stdin_wait);
    struct reading r = {.start_ns = clock_ns(), .deadline_ns = deadline_ns, .wait_ms = seconds && !prompt_is_blank(prompt) ? seconds * 1000 : -1};
    struct buf text = {0};
    int status = read_all(&r, &text);
    const char *s = buf_str(&text);
    size_t n = text.len;
    if (n >= 3 && !memcmp(s, "\xef\xbb\xbf", 3)) {      /* a byte order mark is no part of the text */
        s += 3;
        n -= 3;
    }
    if (!status && memchr(s, 0, n)) {
        prompt_say("stdin looks binary: it holds a zero byte; text was expected");
        status = EXIT_USAGE;
    }
    if (!status && !unicode_valid(s, n))
        prompt_say("stdin is not all UTF-8; what is not became U+FFFD");
    if (!status && !n && strstr(buf_str(prompt), "{}"))
        prompt_say("stdin is empty: {} stays in the prompt as it is");
    if (!status)
        prompt_join(prompt, s, n);
    buf_free(&text);
    return status;
}
