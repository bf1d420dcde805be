#include "ui/prompt.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/unicode.h"
#include "chat/sent.h"
#include "session/held.h"
#include "ui/process.h"

enum { MAX_INPUT = 256 << 20, CHUNK = 65536, NOTICE_MS = 2000 };

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

/* True if the words name a file as "@path"; then shows the sentence, followed by the file. */
static bool names_file(const struct buf *words, const char *sentence)
{
    struct attached found = {0};
    struct buf text = {0};
    struct err e = {0};
    attach_read(&found, buf_str(words), words->len, true, &e);
    bool some = found.n > 0;
    if (some) {
        buf_addf(&text, "%s (%.*s)", sentence, (int)found.files[0].path.n, found.files[0].path.p);
        process_say(text.data);
    }
    attach_free(&found);
    buf_free(&text);
    return some;
}

bool prompt_ignores_file(const struct buf *words)
{
    return names_file(words, "a file name after @ is sent as text here; -f FILE attaches the file");
}

bool prompt_check_files(const struct options *o, struct err *e)
{
    int n;
    bool ok = true;
    const char *const *files = options_list(o, OPT_file, &n);
    for (int i = 0; i < n && ok; i++)
        ok = attach_check(files[i], e);
    return ok;
}

/* --- stdin ------------------------------------------------------------------------------------------------------ */

/* Returns the shorter of two waits for poll(); -1: no limit. */
static int sooner(int a, int b)
{
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

struct reading {
    int64_t start_ns, deadline_ns;
    int  wait_ms;                       /* time for the first byte; -1: no limit */
    bool told;
};

/* Returns how many ms to wait next while there is no input; -1: no limit. */
static int silence_ms(const struct reading *r)
{
    int gone = (int)clock_ms_since(r->start_ns), notice = r->told ? -1 : NOTICE_MS > gone ? NOTICE_MS - gone : 0;
    return sooner(notice, r->wait_ms < 0 ? -1 : r->wait_ms > gone ? r->wait_ms - gone : 0);
}

/* Decides what to do after a while without input.  EXIT_ANSWERED: keep waiting. */
static int silent(struct reading *r)
{
    int gone = (int)clock_ms_since(r->start_ns);
    if (r->deadline_ns && !prompt_ms_left(r->deadline_ns)) {
        process_say("--timeout was reached while stdin was read");
        return EXIT_TIMEOUT;
    }
    if (r->wait_ms >= 0 && gone >= r->wait_ms) {
        fprintf(stderr, "q35chat: no input on stdin for %d s: use --no-stdin to skip it, or < /dev/null\n", r->wait_ms / 1000);
        return EXIT_USAGE;
    }
    if (!r->told && gone >= NOTICE_MS) {
        process_say("waiting for input on stdin (use --no-stdin to skip it)");
        r->told = true;
    }
    return EXIT_ANSWERED;
}

/* Reads standard input to its end; returns EXIT_ANSWERED or the exit status. */
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
        process_say("stdin looks binary: it holds a zero byte; text was expected (pictures and PDFs are given with -f FILE)");
        status = EXIT_USAGE;
    }
    if (!status && !unicode_valid(s, n))
        process_say("stdin is not all UTF-8; other bytes became U+FFFD");
    if (!status && !n && strstr(buf_str(prompt), "{}"))
        process_say("stdin is empty: {} stays in the prompt as it is");
    while (n && (s[n - 1] == '\n' || s[n - 1] == '\r'))
        n--;
    if (!status)
        prompt_join(prompt, s, n);
    buf_free(&text);
    return status;
}

/* --- the first message of a chat -------------------------------------------------------------------------------- */

static bool add_file(struct buf *text, const char *path, struct err *e)
{
    if (strpbrk(path, "\"\n"))
        return err_set(e, "%s cannot be named in a message: its name has a quote or a line end", path);
    buf_addf(text, strpbrk(path, " \t") ? "@\"%s\" " : "@%s ", path);
    return true;
}

/* Reads the text of stdin; keys then come from the terminal. */
static int read_piped(const struct options *o, struct buf *prompt, struct opening *first)
{
    int tty = open("/dev/tty", O_RDWR | O_CLOEXEC), status = EXIT_ANSWERED;
    size_t words = prompt->len;
    if (tty < 0) {
        fprintf(stderr, "q35chat: a chat needs a terminal, and stdin is not one; cannot open /dev/tty: %s\n", strerror(errno));
        return EXIT_USAGE;
    }
    if (options_on(o, OPT_stdin))
        status = prompt_read_stdin(o, prompt, 0);
    first->piped = prompt->len > words;
    dup2(tty, 0);
    close(tty);
    bool names = !status && first->piped        /* the text may come from a stranger, and a chat attaches the files that a message names */
              && names_file(prompt, "a file after @ is not attached with text from stdin; use -f FILE");
    return names ? EXIT_USAGE : status;
}

int prompt_opening(const struct options *o, struct buf *prompt, struct opening *first)
{
    struct err e = {0};
    int n, status = isatty(0) ? EXIT_ANSWERED : read_piped(o, prompt, first);
    const char *const *files = options_list(o, OPT_file, &n);
    bool ok = !status && prompt_check_files(o, &e);
    for (int i = 0; ok && i < n; i++)
        ok = add_file(&first->text, files[i], &e);
    if (*e.msg) {
        process_say(e.msg);
        return EXIT_USAGE;
    }
    while (prompt->len && isspace((unsigned char)prompt->data[prompt->len - 1]))
        prompt->data[--prompt->len] = 0;
    first->sent = !prompt_is_blank(prompt);
    buf_add(&first->text, buf_str(prompt), prompt->len);
    return status;
}

bool prompt_submit(struct chat *c, const struct opening *first, struct err *e)
{
    const char *text = buf_str(&first->text);
    return chat_submit(c, text, first->text.len, e) || (first->piped && chat_submit(c, text, first->text.len, e));
}

/* --- the last lines of a chat -------------------------------------------------------------------------------------- */

/* Appends a blank and the word, quoted for a shell. */
static void add_word(const char *s, void *arg)
{
    buf_addc(arg, ' ');
    process_word(arg, s);
}

/* True if -r alone would choose another model: the file names another one, none, or a server in a file that is not trusted with it. */
static bool needs_model(const struct chat *c, const struct options *o, const char *name)
{
    struct buf was = {0};
    const char *now = chat_held_with(c);
    bool chosen = options_from(o, OPT_model) == FROM_COMMAND_LINE || options_from(o, OPT_endpoint) == FROM_COMMAND_LINE;
    bool named = held_with(name, &was), needs = named ? !held_same(was.data, now) || (strchr(name, '/') && *now != '/') : chosen;
    buf_free(&was);
    return needs;
}

void goodbye_add(const struct chat *c, const struct options *o, struct buf *out)
{
    struct buf name = {0}, line = {0};
    if (chat_saved_name(c, &name)) {
        add_word(program_invocation_name, &line);
        if (options_given(o, OPT_config))
            add_word("--config", &line), add_word(options_text(o, OPT_config), &line);
        if (needs_model(c, o, name.data))
            held_words(chat_held_with(c), add_word, &line);
        add_word("-r", &line);
        add_word(name.data, &line);
        buf_adds(out, "resume with:");
        unicode_safe(out, line.data, line.len);
        buf_addc(out, '\n');
    }
    buf_free(&name);
    buf_free(&line);
}

/* Saves the conversation in the first of these places that works. */
static bool save_elsewhere(struct chat *c, struct buf *path)
{
    const char *const places[] = {getenv("HOME"), "/var/tmp", getenv("TMPDIR"), "/tmp"};
    char date[32];
    time_t now = time(NULL);
    struct tm tm;
    bool ok = false;
    strftime(date, sizeof date, "%Y-%m-%d-%H%M%S", localtime_r(&now, &tm));
    for (size_t i = 0; i < sizeof places / sizeof *places && !ok; i++) {
        if (!places[i] || *places[i] != '/')
            continue;
        buf_reset(path);
        buf_addf(path, "%s/q35chat-%s-%d.jsonl", places[i], date, (int)getpid());
        ok = chat_save(c, path->data, NULL) && chat_keep(c, NULL);
    }
    return ok;
}

int goodbye_status(struct chat *c, int ending, int status, struct buf *said)
{
    struct err e = {0};
    struct buf path = {0}, told = {0};
    if (!chat_n_nodes(c) || chat_keep(c, &e))
        return status;
    buf_addf(&told, "q35chat: %s", e.msg);
    if (ending && save_elsewhere(c, &path))
        buf_addf(&told, "; it is in %s: q35chat -r %s continues it", path.data, path.data);
    else
        status = EXIT_FAILED;
    unicode_safe(said, told.data, told.len);
    buf_addc(said, '\n');
    buf_free(&path);
    buf_free(&told);
    return status;
}
