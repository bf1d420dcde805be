#include "ui/line.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/unicode.h"
#include "chat/chat.h"
#include "chat/command.h"
#include "chat/paths.h"
#include "ui/exits.h"
#include "ui/goodbye.h"
#include "ui/interrupt.h"
#include "ui/responder.h"
#include "ui/tui/history.h"
#include "ui/tui/look.h"
#include "ui/turn.h"
#include "ui/waiter.h"

struct line {
    struct turn turn;                   /* first: `ask` gets back from it to us */
    struct options *o;
    struct chat *chat;
    EditLine *el;                       /* NULL: the terminal edits its lines, so that nothing is drawn again */
    History  *history;                  /* libedit's, filled from the one of both front ends: */
    struct history *past;
    const char *prompt;
    const struct buf *message;          /* what there is of the one that is typed: its lines before this one; NULL: none is */
    struct buf typed;                   /* bytes that were read and not yet given to libedit */
    bool in_paste, broken_line;         /* inside a bracketed paste; the line just read was ended by its newline */
    bool quoted;                        /* the next character goes in as it is */
    bool interrupted, hung_up;
    bool pastes;                        /* the terminal brackets them */
    struct winsize size;                /* of the terminal, as libedit knows it */
    struct termios usual;               /* of the terminal, before an answer */
};

#define PASTE_BEGIN "\033[200~"
#define PASTE_END   "\033[201~"
enum { MARK = 6, MARK_WAIT_MS = 30, CTRL_V = 22 };

/* --- keys ------------------------------------------------------------------------------------------------------- */

static bool begins_mark(const struct buf *b)
{
    size_t n = b->len < MARK ? b->len : MARK;
    return !strncmp(b->data, PASTE_BEGIN, n) || !strncmp(b->data, PASTE_END, n);
}

/* Where prompts go: a stdout that is no terminal holds answers alone. */
static FILE *prompts(void)
{
    return isatty(1) ? stdout : stderr;
}

/* What happens while the user types stands on lines of its own. */
static void interject(struct line *l, const struct chat_event *ev)
{
    fputc('\n', stdout);
    turn_event(&l->turn, ev);
    if (l->el)
        el_set(l->el, EL_REFRESH);
    else
        fputs(l->prompt, prompts());
    fflush(stdout);
}

/* Reads what is there into `typed`, after waiting for it.  While the user thinks, the model loads. */
static bool wait_key(struct line *l, int timeout_ms)
{
    char chunk[1024];
    int64_t start = clock_ns();
    for (;;) {
        struct pollfd fds[CHAT_MAX_FDS + 2] = {{.fd = 0, .events = POLLIN}, {.fd = interrupt_fd(), .events = POLLIN}};
        int n = 2 + chat_fds(l->chat, fds + 2);
        int left = timeout_ms < 0 ? chat_timeout(l->chat) : timeout_ms - (int)clock_ms_since(start);
        if (timeout_ms >= 0 && left <= 0)
            return false;
        if (poll(fds, (nfds_t)n, left) < 0 && errno != EINTR)
            return false;
        if (interrupt_taken()) {
            l->interrupted = true;
            return false;
        }
        const struct chat_event *ev = chat_drain(l->chat, &n);
        for (int i = 0; i < n; i++)
            if (ev[i].kind == CHAT_FATAL || ev[i].kind == CHAT_NOTE)
                interject(l, &ev[i]);
            else
                waiting_event(&l->turn.waiting, &ev[i], false);
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

/* The next character of a paste, made harmless for an editor that takes control characters as commands: a newline ends the
 * line but not the message, others go in quoted or not at all. */
static bool pasted(struct line *l, wchar_t *c)
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

/* What there is of the message, while one is typed. */
static void tell_draft(struct line *l)
{
    struct buf text = {0};
    if (!l->message)
        return;
    const LineInfo *info = el_line(l->el);
    buf_add(&text, buf_str(l->message), l->message->len);
    buf_add(&text, info->buffer, (size_t)(info->lastchar - info->buffer));
    chat_draft(l->chat, buf_str(&text), text.len);
    buf_free(&text);
}

/* libedit asks for the size of the terminal once; windows change at any time. */
static bool follow_size(struct line *l)
{
    struct winsize now;
    if (ioctl(0, TIOCGWINSZ, &now) || (now.ws_col == l->size.ws_col && now.ws_row == l->size.ws_row))
        return false;
    l->size = now;
    el_resize(l->el);
    return true;
}

static int read_key(EditLine *el, wchar_t *c)
{
    struct line *l;
    el_get(el, EL_CLIENTDATA, &l);
    if (l->quoted) {
        l->quoted = false;
        *c = '\t';
        return 1;
    }
    for (;;) {
        if (l->hung_up)
            return 0;
        if (!l->typed.len)
            tell_draft(l);
        if (!l->typed.len && !wait_key(l, -1)) {
            if (l->interrupted)
                return -1;
            continue;
        }
        if (follow_size(l)) {           /* libedit takes the new screen for an empty one */
            fputc('\r', stdout);
            el_set(l->el, EL_REFRESH);
        }
        if (*l->typed.data == '\033' && begins_mark(&l->typed)) {
            if (l->typed.len < MARK && wait_key(l, MARK_WAIT_MS))
                continue;
            if (l->typed.len >= MARK) {
                l->in_paste = l->typed.data[3] == '0' && l->typed.data[4] == '0';
                buf_consume(&l->typed, MARK);
                continue;
            }
        }
        uint32_t cp;
        if (!unicode_complete(l->typed.data, l->typed.len) && wait_key(l, MARK_WAIT_MS))
            continue;
        buf_consume(&l->typed, unicode_decode(l->typed.data, l->typed.len, &cp, NULL));
        *c = (wchar_t)cp;
        if (!l->in_paste || pasted(l, c))
            return 1;
    }
}

static char *give_prompt(EditLine *el)
{
    struct line *l;
    el_get(el, EL_CLIENTDATA, &l);
    return (char *)l->prompt;
}

/* --- completion ------------------------------------------------------------------------------------------------- */

struct choices {
    struct buf common;                  /* what all of them begin with */
    struct buf all;
    int n;
};

static void add_choice(const char *word, void *arg)
{
    struct choices *c = arg;
    if (!c->n)
        buf_adds(&c->common, word);
    size_t same = 0;
    while (same < c->common.len && c->common.data[same] == word[same])
        same++;
    while (same && same < strlen(word) && ((unsigned char)word[same] & 0xc0) == 0x80)
        same--;                         /* not into the middle of a character */
    c->common.len = same;
    if (c->common.data)
        c->common.data[same] = 0;
    buf_addf(&c->all, "%s  ", word);
    c->n++;
}

static void add_files(const char *word, struct choices *c)
{
    const char *slash = strrchr(word, '/'), *base = slash ? slash + 1 : word, *home = getenv("HOME");
    struct buf dir = {0}, name = {0};
    if (!strncmp(word, "~/", 2) && home)
        buf_addf(&dir, "%s/%.*s", home, (int)(base - word - 2), word + 2);
    else
        buf_addf(&dir, "%.*s", (int)(base - word), word);
    DIR *d = opendir(dir.len ? dir.data : ".");
    for (struct dirent *f; d && (f = readdir(d));) {
        struct stat st;
        if (strncmp(f->d_name, base, strlen(base)) || (*f->d_name == '.' && *base != '.') || !unicode_valid(f->d_name, strlen(f->d_name)))
            continue;
        bool is_dir = fstatat(dirfd(d), f->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
        buf_reset(&name);
        buf_addf(&name, "%.*s%s%s", (int)(base - word), word, f->d_name, is_dir ? "/" : "");
        add_choice(name.data, c);
    }
    if (d)
        closedir(d);
    buf_free(&dir);
    buf_free(&name);
}

static unsigned char complete(EditLine *el, int key)
{
    struct line *l;
    struct choices c = {0};
    struct buf line = {0};
    unsigned char result = CC_ERROR;
    (void)key;
    el_get(el, EL_CLIENTDATA, &l);
    const LineInfo *info = el_line(el);
    buf_add(&line, info->buffer, (size_t)(info->cursor - info->buffer));
    const char *blank = line.len ? strrchr(line.data, ' ') : NULL, *word = blank ? blank + 1 : buf_str(&line);
    if (command_complete(buf_str(&line), add_choice, &c)) {
        word += *word == '@';
        add_files(word, &c);
    }
    size_t have = strlen(word);
    if (c.n && c.common.len > have) {
        el_insertstr(el, c.common.data + have);
        result = CC_REFRESH;
    }
    if (c.n == 1 && c.common.len && c.common.data[c.common.len - 1] != '/') {
        el_insertstr(el, " ");
        result = CC_REFRESH;
    } else if (c.n > 1 && c.common.len <= have) {
        printf("\n");
        turn_say(&l->turn, buf_str(&c.all));
        printf("\n");
        fflush(stdout);
        result = CC_REDISPLAY;
    }
    buf_free(&line);
    buf_free(&c.common);
    buf_free(&c.all);
    return result;
}

/* --- a message -------------------------------------------------------------------------------------------------- */

/* What keys like Up send is no text, nor is another control character. */
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

/* A line that the terminal has edited.  What was typed during an answer was not echoed. */
static bool read_plain(struct line *l, struct buf *out)
{
    enum { MOST = 4095 };               /* what the terminal keeps of a line */
    const char *end = l->typed.len ? memchr(l->typed.data, '\n', l->typed.len) : NULL;
    bool ahead = end;
    fflush(stdout);
    fputs(l->prompt, prompts());
    fflush(prompts());
    for (; !end; end = l->typed.len ? memchr(l->typed.data, '\n', l->typed.len) : NULL)
        if (l->hung_up || (!wait_key(l, -1) && l->interrupted)) {
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
    turn_say(&l->turn, "the terminal keeps 4095 bytes of a line and this one was longer; it was not sent.  @FILE sends a long text\n");
    l->interrupted = true;
    return false;
}

/* One line without its end into `out`; false at Ctrl-C, Ctrl-D or the end of the terminal. */
static bool read_line(struct line *l, const char *prompt, struct buf *out)
{
    int n;
    l->prompt = prompt;
    l->broken_line = false;
    if (!l->el)
        return read_plain(l, out);
    follow_size(l);
    if (l->pastes)
        fputs("\033[?2004h", stdout);
    fflush(stdout);
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

static bool ends_with(const struct buf *b, size_t from, const char *end)
{
    size_t n = strlen(end);
    return b->len >= from + n && !memcmp(b->data + b->len - n, end, n);
}

/* A message: a line, lines that end with a backslash, lines between two """, or a paste.  False to give up or to end. */
static bool read_lines(struct line *l, struct buf *out)
{
    enum { FENCE = 3 };
    if (!read_line(l, l->turn.speaks ? "You: " : "> ", out))
        return false;
    bool fenced = out->len >= FENCE && !memcmp(out->data, "\"\"\"", FENCE);
    if (fenced)
        buf_consume(out, FENCE);
    for (;;) {
        if (fenced && ends_with(out, 0, "\"\"\"")) {
            out->len -= FENCE;
            break;
        }
        if (!fenced && !l->broken_line && ends_with(out, 0, "\\"))
            out->len--;
        else if (!fenced && !l->broken_line)
            break;
        if (out->len || !fenced)
            buf_addc(out, '\n');
        if (!read_line(l, l->turn.speaks ? "You, next line: " : ". ", out))
            return false;
    }
    while (out->len && isspace((unsigned char)out->data[out->len - 1]))
        out->len--;
    if (out->data)
        out->data[out->len] = 0;
    return true;
}

static bool read_message(struct line *l, struct buf *out)
{
    buf_reset(out);
    l->message = out;
    bool ok = read_lines(l, out);
    l->message = NULL;
    chat_draft(l->chat, "", 0);
    return ok;
}

static void remember(struct line *l, const char *text)
{
    HistEvent ev;
    history(l->history, &ev, H_ENTER, text);
    history_add(l->past, text);
}

/* What was typed before, on the full screen too.  "history" is what libedit once wrote of this front end alone. */
static void recall(struct line *l)
{
    HistEvent ev;
    struct err e = {0};
    struct buf old = {0}, path = {0};
    if (paths_state(&old, "history", &e))
        history(l->history, &ev, H_LOAD, old.data);
    l->past = history_open(paths_state(&path, "history.jsonl", &e) ? path.data : NULL, options_int(l->o, OPT_history_size) + 1);
    for (int i = 0; i < history_n(l->past); i++)
        history(l->history, &ev, H_ENTER, history_at(l->past, i));
    buf_free(&old);
    buf_free(&path);
}

/* While an answer runs, what is typed waits for the next prompt instead of mixing with the text. */
static void quiet_keys(struct line *l)
{
    struct termios t;
    if (tcgetattr(0, &l->usual))
        return;
    t = l->usual;
    t.c_lflag &= ~(tcflag_t)(l->el ? ECHO | ICANON : ECHO);
    tcsetattr(0, TCSANOW, &t);
}

/* Whole lines that came meanwhile are taken first: they were not echoed. */
static void usual_keys(struct line *l)
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

/* Only a clear word decides: a message typed at the wrong moment must not. */
static bool decision(const char *typed, enum chat_answer *answer)
{
    static const struct { const char *word; enum chat_answer answer; } words[] = {
        {"y", CHAT_YES}, {"yes", CHAT_YES}, {"n", CHAT_NO}, {"no", CHAT_NO}, {"a", CHAT_ALWAYS}, {"always", CHAT_ALWAYS},
    };
    size_t n = strcspn(typed, " \t");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == n && !strncasecmp(typed, words[i].word, n) && !typed[n + strspn(typed + n, " \t")]) {
            *answer = words[i].answer;
            return true;
        }
    return false;
}

/* A question that typed-ahead keys must not answer. */
static enum chat_answer ask(struct turn *t, const char *name, const char *arguments)
{
    struct line *l = (struct line *)t;
    struct buf answer = {0};
    enum chat_answer result = CHAT_NO;
    (void)arguments;                    /* stands on the screen already */
    tcflush(0, TCIFLUSH);
    buf_reset(&l->typed);
    if (!l->el)
        usual_keys(l);
    buf_addf(&answer, "run %s?  y: yes, n: no, always: not asked again in this chat\n", name);
    turn_say(t, answer.data);
    buf_reset(&answer);
    bool known = false;
    while (!known && read_line(l, t->speaks ? "Your answer: " : "[y/n/always] ", &answer)) {
        known = decision(buf_str(&answer), &result);
        buf_reset(&answer);
    }
    if (l->interrupted || l->hung_up) {
        l->interrupted = false;
        chat_interrupt(l->chat);
    }
    buf_free(&answer);
    quiet_keys(l);                      /* libedit has left the terminal as it was before the turn */
    return result;
}

/* --- the loop --------------------------------------------------------------------------------------------------- */

static void run_turn(struct line *l)
{
    quiet_keys(l);
    turn_run(&l->turn);
    usual_keys(l);
}

/* Puts text into the input as if it had been pasted.  Control characters are not put: one could end the paste. */
static void put_back(struct line *l, const struct buf *text)
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

/* A terminal that edits its lines cannot be given one. */
static void say_again(struct line *l, const struct buf *text)
{
    struct buf told = {0};
    buf_addf(&told, "it was: %s\n%s", buf_str(text), chat_edited(l->chat) < 0 ? "what is typed next takes its place\n" : "");
    turn_say(&l->turn, told.data);
    buf_free(&told);
}

/* Of an earlier message that is being edited: what sending it does. */
static void tell_edit(struct line *l)
{
    struct buf told = {0};
    int message = chat_edited(l->chat), behind = chat_n_messages(l->chat) - message - 1;
    if (message >= 0)
        buf_addf(&told, "what is sent now takes the place of that message%s; an empty line leaves all as it is\n",
                 behind > 1 ? " and of those behind it" : behind ? " and of the one behind it" : "");
    turn_say(&l->turn, buf_str(&told));
    buf_free(&told);
}

static void leave_edit(struct line *l)
{
    if (chat_edited(l->chat) >= 0)
        turn_say(&l->turn, "nothing was changed\n");
    chat_edit_end(l->chat);
}

/* Where one is in the conversation: the last message and its answer. */
static void show_end(struct line *l)
{
    struct buf text = {0};
    int n = chat_n_messages(l->chat);
    for (int i = n > 2 ? n - 2 : 0; i < n; i++) {
        struct chat_message m = chat_message(l->chat, i);
        bool user = !strcmp(m.role, "user");
        buf_addf(&text, "%s%s%s\n", l->turn.speaks ? user ? "You: " : "Answer: " : user ? "> " : "", m.text, m.stopped ? " [stopped]" : "");
    }
    turn_say(&l->turn, buf_str(&text));
    buf_free(&text);
}

/* What a plain terminal has for a command of the full screen. */
static void do_without_screen(struct line *l, const char *command)
{
    struct buf text = {0};
    if (!strcmp(command, "keys") && !l->el)
        buf_adds(&text, "Enter     sends; a line that ends in \\ goes on in the next one, so do lines between two \"\"\"\n"
                        "          Backspace, Ctrl-W and Ctrl-U take back a letter, a word, the line\n"
                        "Ctrl-C    stops the answer, which is kept; clears the line; Ctrl-D ends\n");
    else if (!strcmp(command, "keys"))
        buf_adds(&text, "Enter     sends; a line that ends in \\ goes on in the next one, so do lines between two \"\"\" and a paste\n"
                        "Tab       completes commands, options and files; Ctrl-R searches what was typed before\n"
                        "Ctrl-C    stops the answer, which is kept; clears the line; Ctrl-D ends\n");
    else if (!strcmp(command, "resume"))
        buf_adds(&text, "/resume needs a name; /sessions lists them, Tab completes them\n");
    else if (!strcmp(command, "theme"))
        buf_adds(&text, "that is for the full screen\n");
    else
        buf_addf(&text, "/%s needs the full screen\n", command);
    turn_say(&l->turn, text.data);
    buf_free(&text);
}

/* The model has written a summary, which stands on the screen. */
static void ask_summary(struct line *l)
{
    struct buf text = {0};
    enum chat_answer answer = CHAT_NO;
    bool known = false;
    buf_adds(&text, "take this summary ");
    if (chat_proposes(l->chat, &text)) {
        buf_adds(&text, "?  y: yes, /undo goes back; n: no, all stays\n");
        turn_say(&l->turn, text.data);
        buf_reset(&text);
        while (!known && read_line(l, "[y/n] ", &text)) {
            known = decision(buf_str(&text), &answer);
            buf_reset(&text);
        }
        chat_decide(l->chat, known && answer != CHAT_NO);
        turn_say(&l->turn, known && answer != CHAT_NO ? "taken\n" : "left; nothing has changed\n");
        l->interrupted = false;
    }
    buf_free(&text);
}

/* False to end the program. */
static bool take_message(struct line *l, const char *typed)
{
    struct buf out = {0};
    struct err e = {0};
    const char *message;
    enum command_result r = command_run(l->chat, l->o, typed, &message, &out);
    if (r == COMMAND_EDIT && !l->el)
        say_again(l, &out);
    else if (r == COMMAND_EDIT)
        put_back(l, &out);
    else if (r == COMMAND_SCREEN)
        do_without_screen(l, message);
    else if (r == COMMAND_COPY)
        turn_say(&l->turn, "the clipboard needs the full screen; /copy FILE writes a file\n");
    else if (out.len)
        turn_say(&l->turn, out.data);
    if (r == COMMAND_EDIT)
        tell_edit(l);
    if (r == COMMAND_MOVED)
        show_end(l);
    buf_free(&out);
    if (r == COMMAND_MESSAGE && chat_submit(l->chat, message, strlen(message), &e)) {
        r = COMMAND_TURN;
    } else if (r == COMMAND_MESSAGE) {
        buf_addf(&out, "%s\n", e.msg);
        turn_say(&l->turn, out.data);   /* it may name a file */
        buf_free(&out);
    }
    if (r == COMMAND_TURN) {
        run_turn(l);
        ask_summary(l);
    }
    return r != COMMAND_QUIT;
}

static void banner(struct line *l)
{
    struct buf text = {0};
    const char *dir = chat_model_dir(l->chat), *slash = strrchr(dir, '/'), *name = slash && slash[1] ? slash + 1 : dir;
    buf_addf(&text, "q35chat " Q35_VERSION ", model %s.  /help lists the commands, Ctrl-D ends.\n", name);
    if (chat_notice(l->chat))
        buf_addf(&text, "%s\n", chat_notice(l->chat));
    turn_say(&l->turn, text.data);
    buf_free(&text);
}

static void open_editor(struct line *l)
{
    HistEvent ev;
    l->history = history_init();
    history(l->history, &ev, H_SETSIZE, options_int(l->o, OPT_history_size));
    history(l->history, &ev, H_SETUNIQUE, 1);
    recall(l);
    if (l->turn.speaks || look_is_plain(getenv("TERM")))
        return;
    l->turn.recalls = true;
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
    el_set(l->el, EL_GETCFN, read_key);
    el_wset(l->el, EL_ADDFN, L"q35-complete", L"commands and files", complete);     /* el_set() would leak copies of the two */
    el_set(l->el, EL_BIND, "\t", "q35-complete", NULL);
    el_set(l->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
}

static void close_editor(struct line *l)
{
    if (l->el)
        el_end(l->el);
    history_end(l->history);
    history_close(l->past);
    buf_free(&l->typed);
}

static bool resume(struct line *l)
{
    struct buf text = {0};
    struct err e = {0};
    bool ok = chat_resume(l->chat, &text, &e);
    if (text.len)
        buf_addc(&text, '\n');
    if (!ok)
        buf_addf(&text, "%s\n", e.msg);
    else if (chat_saved_as(l->chat))
        buf_addf(&text, "%d messages in %s\n", chat_n_messages(l->chat), chat_saved_as(l->chat));
    turn_say(&l->turn, buf_str(&text));
    buf_free(&text);
    if (ok)
        show_end(l);
    return ok;
}

int line_run(struct options *o)
{
    static const struct chat_front front = {.can_ask = true, .keeps = true, .attaches = true, .reads_ahead = true,
                                            .tools = "all"};
    struct line l = {.o = o};
    struct buf text = {0};
    struct err e = {0};
    bool on = true;
    interrupt_open();
    l.chat = chat_open(ui_responder_of_chat(o, &e), o, &front, &e);
    if (!l.chat) {
        fprintf(stderr, "q35chat: %s\n", e.msg);
        return EXIT_MODEL;
    }
    turn_init(&l.turn, l.chat, o);
    l.turn.ask = ask;
    l.turn.wraps = isatty(1);
    open_editor(&l);
    banner(&l);
    on = resume(&l);
    if (on && options_given(o, OPT_resume) && !*options_text(o, OPT_resume))
        take_message(&l, "/sessions");
    int status = on ? EXIT_ANSWERED : EXIT_FAILED;
    while (on) {
        l.interrupted = false;
        if (!read_message(&l, &text)) {
            on = l.interrupted && !l.hung_up && !interrupt_ending();
            if (on)
                leave_edit(&l);
        } else if (text.len) {
            remember(&l, text.data);
            on = take_message(&l, text.data) && !interrupt_ending();
        } else {
            leave_edit(&l);
        }
    }
    if (l.turn.dead)
        status = EXIT_MODEL;
    if (interrupt_ending())
        status = EXIT_SIGNAL + interrupt_ending();
    buf_reset(&text);
    if (!interrupt_ending() && isatty(1))
        goodbye_add(l.chat, &text);
    turn_say(&l.turn, buf_str(&text));
    close_editor(&l);
    buf_reset(&text);
    status = goodbye_status(l.chat, interrupt_ending(), status, &text);
    fputs(buf_str(&text), stderr);
    turn_free(&l.turn);
    buf_free(&text);
    waiter_status(status);
    chat_close(l.chat);
    return status;
}
