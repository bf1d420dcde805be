#include "ui/lineedit.h"

#include <ctype.h>
#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "chat/chat.h"
#include "option/paths.h"
#include "ui/process.h"
#include "ui/tui/complete.h"
#include "ui/tui/history.h"
#include "ui/tui/look.h"

/* --- the line -------------------------------------------------------------------------------------------------------- */

struct lineedit {
    struct turn *turn;                  /* shows what happens meanwhile */
    const struct options *o;
    EditLine *el;                       /* NULL: the terminal edits its lines, so that nothing is drawn again */
    History  *history;                  /* libedit's, filled from the one of both front ends: */
    struct history *past;
    const char *prompt;
    const struct buf *message;          /* the lines of the message that is typed, before this one; NULL: no message is typed */
    struct buf typed;                   /* bytes that were read and not yet given to libedit */
    bool in_paste, broken_line;         /* inside a bracketed paste; the line just read was ended by its newline */
    bool quoted;                        /* the next character is inserted as it is */
    bool typed_only;                    /* of lineedit_answer() */
    bool dropped;                       /* keys were pasted or typed before: no key counts until there is a pause */
    bool interrupted, hung_up;
    bool asks_model;                    /* of lineedit_asks_model() */
    bool shell_wrote;                   /* the program was stopped, and the line is not shown since */
    bool pastes;                        /* the terminal brackets them */
    struct winsize size;                /* of the terminal, as libedit knows it */
    struct termios usual;               /* of the terminal, before an answer */
};

#define PASTE_BEGIN "\033[200~"
#define PASTE_END   "\033[201~"
enum { MARK = 6, MARK_WAIT_MS = 30, PASTE_REST_MS = 500, CTRL_V = 22 };

/* --- keys ------------------------------------------------------------------------------------------------------- */

/* Returns the stream for prompts: a stdout that is not a terminal gets answers only. */
static FILE *prompts(void)
{
    return isatty(1) ? stdout : stderr;
}

/* Shows the prompt again, with the line so far. */
static void prompt_again(struct lineedit *l)
{
    if (l->el)
        el_set(l->el, EL_REFRESH);
    else
        fputs(l->prompt, prompts());
    fflush(stdout);
}

static int continued_fd = -1;           /* readable after SIGCONT */

static void note_continued(int sig)
{
    (void)sig;
    eventfd_write(continued_fd, 1);
}

/* Takes the terminal again after Ctrl-Z and fg, between which the shell changed its modes, and shows the line. */
static void take_terminal(struct lineedit *l)
{
    l->shell_wrote = false;
    if (l->el) {
        el_set(l->el, EL_PREP_TERM, 0);         /* else libedit holds the modes for set */
        el_set(l->el, EL_PREP_TERM, 1);
        fputs(l->pastes ? "\r\033[?2004h" : "\r", stdout);
    }
    prompt_again(l);
}

/* Notes that a model must be chosen, unless the user is typing: the message will wait for the choice. */
static void take_models(struct lineedit *l)
{
    const char *const *names;
    const LineInfo *info = l->el ? el_line(l->el) : NULL;
    if (l->message && !l->message->len && !l->typed.len && (!info || info->lastchar == info->buffer)) {
        l->asks_model = true;
    } else if (l->message) {
        turn_say(l->turn, "\nthe server has %d models; which one is meant is asked with the message\n", chat_models(l->turn->chat, &names));
        prompt_again(l);
    }
}

/* Waits for keys and reads them into `typed`.  Meanwhile the model loads. */
static bool wait_key(struct lineedit *l, int timeout_ms)
{
    char chunk[1024];
    int64_t start = clock_ns();
    for (;;) {
        struct pollfd fds[CHAT_MAX_FDS + 3] = {{.fd = 0, .events = POLLIN}, {.fd = interrupt_fd(), .events = POLLIN},
                                               {.fd = continued_fd, .events = POLLIN}};
        int n = 3 + chat_fds(l->turn->chat, fds + 3);
        int left = timeout_ms < 0 ? chat_timeout(l->turn->chat) : timeout_ms - (int)clock_ms_since(start);
        if (timeout_ms >= 0 && left <= 0)
            return false;
        if (poll(fds, (nfds_t)n, left) < 0 && errno != EINTR)
            return false;
        eventfd_t times;
        if (!eventfd_read(continued_fd, &times))
            l->shell_wrote = true;
        if (l->shell_wrote && tcgetpgrp(0) == getpgrp())        /* in the background that would stop the program */
            take_terminal(l);
        if (interrupt_taken()) {
            l->interrupted = true;
            return false;
        }
        const struct chat_event *ev = chat_drain(l->turn->chat, &n);
        for (int i = 0; i < n; i++)
            if (ev[i].kind == CHAT_FATAL || ev[i].kind == CHAT_NOTE) {
                fputc('\n', stdout);             /* an event that comes while the user types has lines of its own */
                turn_event(l->turn, &ev[i]);
                prompt_again(l);
            } else if (ev[i].kind == CHAT_MODELS) {
                take_models(l);
            } else {
                waiting_event(&l->turn->waiting, &ev[i], false);
            }
        if (l->asks_model)
            return false;
        if (!fds[0].revents)
            continue;
        ssize_t got = read(0, chunk, sizeof chunk);
        if (got > 0)
            buf_add(&l->typed, chunk, (size_t)got);
        else if (got == 0 || (errno != EINTR && errno != EAGAIN))
            l->hung_up = true;          /* the terminal is gone: reading again would spin */
        return got > 0;
    }
}

/* Makes a pasted character harmless for an editor that takes control characters as commands: a newline ends the
 * line but not the message, others go in quoted or not at all. */
static bool pasted(struct lineedit *l, wchar_t *c)
{
    if (*c == '\r' || *c == '\n') {
        *c = '\n';
        l->broken_line = true;
        return true;
    }
    if (*c == '\t') {
        l->quoted = true;
        *c = CTRL_V;
        return true;
    }
    return *c >= 32 && *c != 127;
}

/* Updates the size of the terminal, which libedit reads only once. */
static bool follow_size(struct lineedit *l)
{
    struct winsize now;
    if (ioctl(0, TIOCGWINSZ, &now) || (now.ws_col == l->size.ws_col && now.ws_row == l->size.ws_row))
        return false;
    l->size = now;
    el_resize(l->el);
    return true;
}

/* Called by libedit for the next character.  Returns 1, 0 at the end of input, -1 to leave the line. */
static int next_key(EditLine *el, wchar_t *c)
{
    struct lineedit *l;
    el_get(el, EL_CLIENTDATA, &l);
    if (l->quoted) {
        l->quoted = false;
        *c = '\t';
        return 1;
    }
    for (;;) {
        if (l->hung_up)
            return 0;
        if (!l->typed.len && l->message) {              /* the draft is the message so far */
            const LineInfo *info = el_line(l->el);
            struct buf text = {0};
            buf_add(&text, buf_str(l->message), l->message->len);
            buf_add(&text, info->buffer, (size_t)(info->lastchar - info->buffer));
            chat_draft(l->turn->chat, buf_str(&text), text.len);
            buf_free(&text);
        }
        if (!l->typed.len && !wait_key(l, l->dropped ? PASTE_REST_MS : -1)) {
            if (l->interrupted || l->asks_model)
                return -1;
            if (!l->dropped || l->hung_up)
                continue;
            *c = '\n';                  /* the line ends, to be refused */
            return 1;
        }
        if (follow_size(l)) {           /* libedit expects an empty screen */
            fputc('\r', stdout);
            el_set(l->el, EL_REFRESH);
        }
        size_t n = l->typed.len < MARK ? l->typed.len : MARK;
        if (*l->typed.data == '\033' && (!strncmp(l->typed.data, PASTE_BEGIN, n) || !strncmp(l->typed.data, PASTE_END, n))) {
            if (l->typed.len < MARK && wait_key(l, MARK_WAIT_MS))
                continue;
            if (l->typed.len >= MARK) {
                l->in_paste = l->typed.data[3] == '0' && l->typed.data[4] == '0';
                l->dropped = l->dropped || l->typed_only;
                buf_consume(&l->typed, MARK);
                continue;
            }
        }
        uint32_t cp;
        if (!unicode_complete(l->typed.data, l->typed.len) && wait_key(l, MARK_WAIT_MS))
            continue;
        buf_consume(&l->typed, unicode_decode(l->typed.data, l->typed.len, &cp, NULL));
        *c = (wchar_t)cp;
        l->dropped = l->dropped || (l->typed_only && l->in_paste);
        if (l->dropped)
            continue;
        if (!l->in_paste || pasted(l, c))
            return 1;
    }
}

static char *give_prompt(EditLine *el)
{
    struct lineedit *l;
    el_get(el, EL_CLIENTDATA, &l);
    return (char *)l->prompt;
}

/* --- completion ------------------------------------------------------------------------------------------------- */

/* Completes the word before the cursor as far as all completions agree, or lists them. */
static unsigned char complete_word(EditLine *el, int key)
{
    struct lineedit *l;
    struct complete c = {0};
    struct buf before = {0}, all = {0};
    unsigned char result = CC_ERROR;
    (void)key;
    el_get(el, EL_CLIENTDATA, &l);
    const LineInfo *info = el_line(el);
    buf_add(&before, info->buffer, (size_t)(info->cursor - info->buffer));
    complete_find(&c, buf_str(&before), NULL);
    const char *word = buf_str(&before) + c.start, *common = buf_str(&c.common);
    const size_t have = strlen(word), same = strncmp(common, word, have) ? 0 : have;
    if (c.common.len > same && (same == have || c.n == 1)) {
        int replaced = 0;               /* characters; of a word that gets quotes, or that is a part of a title */
        for (const char *s = word + same; *s; s++)
            replaced += ((unsigned char)*s & 0xC0) != 0x80;
        if (replaced)
            el_deletestr(el, replaced);
        el_insertstr(el, common + same);
        result = CC_REFRESH;
    } else if (c.n > 1) {
        for (int i = 0; i < c.n; i++)
            buf_addf(&all, c.whole ? "%s (%s)  " : "%s  ", c.items[i].word, c.items[i].note);
        printf("\n");
        turn_say(l->turn, "%s", buf_str(&all));
        printf("\n");
        fflush(stdout);
        result = CC_REDISPLAY;
    }
    if (complete_ends(&c)) {
        el_insertstr(el, " ");
        result = CC_REFRESH;
    }
    complete_free(&c);
    buf_free(&before);
    buf_free(&all);
    return result;
}

/* --- lines ------------------------------------------------------------------------------------------------------ */

/* Adds typed text without control characters and the sequences of keys such as Up. */
static void add_typed(struct buf *out, const char *s, size_t n)
{
    size_t from = out->len;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\033' && i + 1 < n && (s[i + 1] == '[' || s[i + 1] == 'O'))
            for (i += 2; i < n && (s[i] < '@' || s[i] > '~');)
                i++;
        else if (((unsigned char)s[i] >= 32 && s[i] != 127) || s[i] == '\t')
            buf_addc(out, s[i]);
    }
    struct buf text = {0};
    unicode_replace(&text, buf_str(out) + from, out->len - from);
    out->len = from;
    buf_add(out, buf_str(&text), text.len);
    buf_free(&text);
}

/* Reads a line that the terminal has edited.  Keys typed during an answer were not echoed. */
static bool read_plain(struct lineedit *l, struct buf *out)
{
    enum { MOST = 4095 };               /* what the terminal keeps of a line */
    const char *end = l->typed.len ? memchr(l->typed.data, '\n', l->typed.len) : NULL;
    bool ahead = end;
    fflush(stdout);
    fputs(l->prompt, prompts());
    fflush(prompts());
    for (; !end; end = l->typed.len ? memchr(l->typed.data, '\n', l->typed.len) : NULL)
        if (l->hung_up || (!wait_key(l, -1) && (l->interrupted || l->asks_model))) {
            buf_reset(&l->typed);
            fputc('\n', prompts());
            fflush(prompts());
            return false;
        }
    size_t n = (size_t)(end - l->typed.data), from = out->len;
    add_typed(out, l->typed.data, n);
    buf_consume(&l->typed, n + 1);
    if (ahead)
        fprintf(prompts(), "%.*s\n", (int)(out->len - from), buf_str(out) + from);
    if (n < MOST)
        return true;
    turn_say(l->turn, "the terminal keeps 4095 bytes of a line and this one was longer; it was not sent.  @FILE sends a long text\n");
    l->interrupted = true;
    return false;
}

bool lineedit_line(struct lineedit *l, const char *prompt, struct buf *out)
{
    int n;
    l->prompt = prompt;
    l->broken_line = l->interrupted = l->asks_model = l->shell_wrote = false;
    if (!l->el)
        return read_plain(l, out);
    follow_size(l);
    if (l->pastes)
        fputs("\033[?2004h", stdout);
    fflush(stdout);
    el_set(l->el, EL_PREP_TERM, 1);             /* before the prompt, else the terminal shows and Ctrl-Z discards keys typed right behind it */
    const char *s = el_gets(l->el, &n);
    if (l->pastes)
        fputs("\033[?2004l", stdout);
    if (!s || n <= 0) {
        l->in_paste = false;
        fputs(l->interrupted ? "^C\n" : "\n", stdout);
        fflush(stdout);
        return false;
    }
    buf_add(out, s, (size_t)n - (s[n - 1] == '\n'));
    return true;
}

bool lineedit_answer(struct lineedit *l, const char *prompt, struct buf *out)
{
    l->typed_only = true;
    bool ok = lineedit_line(l, prompt, out);
    if (ok && (l->dropped || l->typed.len)) {   /* or the terminal does not mark pastes, and several lines came at once */
        lineedit_forget(l);
        buf_reset(out);
        turn_say(l->turn, "pasted text is not an answer, nor are keys from before the question: type it\n");
    }
    l->typed_only = l->dropped = false;
    return ok;
}

static bool message_ends_with(const struct buf *b, const char *end)
{
    size_t n = strlen(end);
    return b->len >= n && !memcmp(b->data + b->len - n, end, n);
}

/* Reads a message: a line, lines that end with a backslash, lines between two """, or a paste.  False to cancel or to end. */
static bool read_message(struct lineedit *l, struct buf *out)
{
    enum { FENCE = 3 };
    if (!lineedit_line(l, l->turn->speaks ? "You: " : "> ", out))
        return false;
    bool fenced = out->len >= FENCE && !memcmp(out->data, "\"\"\"", FENCE);
    if (fenced)
        buf_consume(out, FENCE);
    for (;;) {
        if (fenced && message_ends_with(out, "\"\"\"")) {
            out->len -= FENCE;
            break;
        }
        if (!fenced && !l->broken_line && message_ends_with(out, "\\"))
            out->len--;
        else if (!fenced && !l->broken_line)
            break;
        if (out->len || !fenced)
            buf_addc(out, '\n');
        if (!lineedit_line(l, l->turn->speaks ? "You, next line: " : ". ", out))
            return false;
    }
    while (out->len && isspace((unsigned char)out->data[out->len - 1]))
        out->len--;
    if (out->data)
        out->data[out->len] = 0;
    return true;
}

bool lineedit_message(struct lineedit *l, struct buf *out)
{
    buf_reset(out);
    l->message = out;
    bool ok = read_message(l, out);
    l->message = NULL;
    chat_draft(l->turn->chat, "", 0);
    return ok;
}

void lineedit_remember(struct lineedit *l, const char *text)
{
    HistEvent ev;
    history(l->history, &ev, H_ENTER, text);
    history_add(l->past, text);
}

bool lineedit_edits(const struct lineedit *l)
{
    return l->el;
}

bool lineedit_asks_model(const struct lineedit *l)
{
    return l->asks_model;
}

bool lineedit_interrupted(const struct lineedit *l)
{
    return l->interrupted;
}

bool lineedit_gone(const struct lineedit *l)
{
    return l->hung_up;
}

/* --- an answer runs --------------------------------------------------------------------------------------------- */

void lineedit_rest(struct lineedit *l)
{
    struct termios t;
    if (tcgetattr(0, &l->usual))
        return;
    t = l->usual;
    t.c_lflag &= ~(tcflag_t)(l->el ? ECHO | ICANON : ECHO);
    tcsetattr(0, TCSANOW, &t);
}

/* Takes keys again.  Without libedit, whole lines that came meanwhile are read into `typed` first: they were not echoed. */
void lineedit_resume(struct lineedit *l)
{
    char chunk[1024];
    struct pollfd in = {.fd = 0, .events = POLLIN};
    for (ssize_t n = 1; !l->el && n > 0 && poll(&in, 1, 0) > 0;) {
        n = read(0, chunk, sizeof chunk);
        if (n > 0)
            buf_add(&l->typed, chunk, (size_t)n);
        l->hung_up = l->hung_up || n == 0;
    }
    tcsetattr(0, TCSANOW, &l->usual);
}

void lineedit_forget(struct lineedit *l)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    l->dropped = l->typed.len || poll(&in, 1, 0) > 0;   /* more may come */
    tcflush(0, TCIFLUSH);
    buf_reset(&l->typed);
    if (!l->el)
        lineedit_resume(l);
}

/* Puts text into the line as if it had been pasted, without control characters: one could end the paste. */
void lineedit_put(struct lineedit *l, const struct buf *text)
{
    struct buf keys = {0};
    buf_adds(&keys, PASTE_BEGIN);
    for (size_t i = 0; i < text->len; i++)
        if ((unsigned char)text->data[i] >= 32 || text->data[i] == '\n' || text->data[i] == '\t')
            buf_addc(&keys, text->data[i]);
    buf_adds(&keys, PASTE_END);
    buf_add(&keys, buf_str(&l->typed), l->typed.len);
    buf_free(&l->typed);
    l->typed = keys;
}

/* --- opening and closing ---------------------------------------------------------------------------------------- */

/* Starts libedit, for a terminal that does not edit its lines. */
static void open_libedit(struct lineedit *l)
{
    l->turn->recalls = true;
    /* libedit turns characters into bytes by the locale; ours are UTF-8 whatever it says */
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8"))
        setlocale(LC_CTYPE, "C.UTF-8");
    l->pastes = isatty(1);
    l->el = el_init("q35chat", stdin, prompts(), stderr);
    ioctl(0, TIOCGWINSZ, &l->size);
    el_set(l->el, EL_CLIENTDATA, l);
    el_set(l->el, EL_PROMPT, give_prompt);
    el_set(l->el, EL_EDITOR, "emacs");
    el_set(l->el, EL_SIGNAL, 0);
    el_set(l->el, EL_HIST, history, l->history);
    el_set(l->el, EL_GETCFN, next_key);
    el_wset(l->el, EL_ADDFN, L"q35-complete", L"commands and files", complete_word);        /* el_set() would leak copies of the two */
    el_set(l->el, EL_BIND, "\t", "q35-complete", NULL);
    el_set(l->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
}

struct lineedit *lineedit_open(struct turn *t, const struct options *o)
{
    HistEvent ev;
    struct lineedit *l = memory_zeroed(1, sizeof *l);
    l->turn = t;
    l->o = o;
    l->history = history_init();
    history(l->history, &ev, H_SETSIZE, options_int(o, OPT_history_size));
    history(l->history, &ev, H_SETUNIQUE, 1);
    /* Gives libedit what was typed before, on the full screen too. */
    struct err e = {0};
    struct buf path = {0};
    const bool keeps = !options_on(l->o, OPT_private) && options_int(l->o, OPT_history_size);
    l->past = history_open(keeps && paths_state(&path, "history.jsonl", &e) ? path.data : NULL, options_int(l->o, OPT_history_size));
    for (int i = 0; i < l->past->n; i++)
        history(l->history, &ev, H_ENTER, l->past->entries[i]);
    buf_free(&path);
    continued_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    signal(SIGCONT, note_continued);
    if (!t->speaks && !look_is_plain(getenv("TERM")))
        open_libedit(l);
    return l;
}

void lineedit_close(struct lineedit *l)
{
    signal(SIGCONT, SIG_DFL);
    close(continued_fd);
    if (l->el)
        el_end(l->el);
    history_end(l->history);
    history_close(l->past);
    buf_free(&l->typed);
    free(l);
}
