#include "ui/front.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/unicode.h"
#include "option/paths.h"
#include "ui/printer.h"
#include "ui/process.h"
#include "ui/prompt.h"
#include "ui/responder.h"
#include "ui/tui/app.h"
#include "ui/tui/handoff.h"
#include "ui/tui/input.h"
#include "ui/tui/term.h"
#include "ui/tui/window.h"
#include "ui/tui/windows.h"

/* --- wakes ---------------------------------------------------------------------------------------------------------- */

/* Signals, and lines of the log from any thread, wake the loop through a pipe. */
enum { WAKE_SIZE = 1, WAKE_STOP = 2, WAKE_CONTINUE = 4, WAKE_INTERRUPT = 8, WAKE_HANGUP = 16, WAKE_TERMINATE = 32, WAKE_LINES = 64 };

static const struct { int sig; unsigned what; } taken[] = {
    {SIGWINCH, WAKE_SIZE}, {SIGTSTP, WAKE_STOP}, {SIGCONT, WAKE_CONTINUE}, {SIGINT, WAKE_INTERRUPT}, {SIGHUP, WAKE_HANGUP},
    {SIGTERM, WAKE_TERMINATE},
};
enum { N_TAKEN = sizeof taken / sizeof *taken };

static int ends[2] = {-1, -1};          /* the pipe; global, since a signal handler uses it */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buf waiting;              /* lines of the log, under the lock */

static void wake(int sig)
{
    int before = errno;
    char byte = (char)sig;
    if (write(ends[1], &byte, 1) < 0) {}        /* full: the loop wakes anyway */
    errno = before;
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)context;
    if (!waiter_repeats(sig, info))
        wake(sig);
}

static void on_line(const char *line, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    buf_addf(&waiting, "%s\n", line);
    pthread_mutex_unlock(&lock);
    wake(0);
}

static void handle(int sig)
{
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_sigaction = on_signal;
    a.sa_flags = SA_SIGINFO | SA_RESTART;       /* only poll() waits in the loop, and returns all the same */
    sigemptyset(&a.sa_mask);
    sigaction(sig, &a, NULL);
}

/* Catches the signals.  Returns a descriptor that is readable while something waits; -1 with errno. */
static int wake_open(void)
{
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
        return -1;
    for (int i = 0; i < N_TAKEN; i++)
        handle(taken[i].sig);
    signal(SIGPIPE, SIG_IGN);
    err_set_sink(on_line, NULL);
    return ends[0];
}

/* Returns WAKE_* bits of what came since the last call; appends lines of the log, each with its newline. */
static unsigned wake_take(struct buf *lines)
{
    char bytes[256];
    unsigned what = 0;
    for (ssize_t n; (n = read(ends[0], bytes, sizeof bytes)) > 0;)
        for (ssize_t i = 0; i < n; i++)
            for (int k = 0; k < N_TAKEN; k++)
                if (bytes[i] == (char)taken[k].sig)
                    what |= taken[k].what;
    pthread_mutex_lock(&lock);
    if (waiting.len) {
        buf_add(lines, waiting.data, waiting.len);
        buf_reset(&waiting);
        what |= WAKE_LINES;
    }
    pthread_mutex_unlock(&lock);
    return what;
}

/* --- the program ---------------------------------------------------------------------------------------------------- */

enum { RESIZE_MS = 30, BLOCKED_MS = 20, SAVE_MS = 2000 };

struct tui {
    struct app    app;
    struct options *o;
    const struct opening *first;
    struct term  *term;
    struct keys  *keys;
    struct cells  cells;
    int     wake_fd;
    int     frame_ms;                   /* the least time between frames */
    int64_t drawn_ms, resize_ms;        /* resize_ms: when the size will be read; 0: it has not changed */
    bool    dirty;                      /* something has happened since the last frame */
    bool    typed;                      /* a key has come since the last frame */
    int     ending;                     /* SIGHUP or SIGTERM came */
    int     theme;
};

/* --- drawing ---------------------------------------------------------------------------------------------------- */

static void resize(struct tui *t)
{
    int rows, cols;
    term_size(t->term, &rows, &cols);
    cells_size(&t->cells, rows, cols);
    t->resize_ms = 0;
    t->dirty = true;
}

/* Returns the time until the next frame.  A frame for a key takes the place of the next one, so typed text shows at once and there are no more
 * frames than before. */
static int64_t frame_wait(const struct tui *t, int64_t ms)
{
    int64_t wait = t->drawn_ms + (t->typed ? 0 : t->frame_ms) - ms;
    return wait > 0 ? wait : 0;
}

/* Draws a frame, if something has changed and the terminal can take it. */
static void draw(struct tui *t, int64_t ms)
{
    struct buf title = {0};
    bool ready = term_ready(t->term);   /* also sends output that waits */
    if (t->resize_ms && ms >= t->resize_ms) {
        resize(t);
        term_redraw(t->term);           /* even if the size is the same: the terminal may have lost what was outside */
    }
    if (!t->dirty || t->resize_ms || frame_wait(t, ms) || !ready)
        return;
    int theme = theme_find(options_text(t->o, OPT_theme));
    if (theme >= 0 && theme != t->theme)
        term_theme(t->term, theme_at(theme));
    t->theme = theme;
    pane_bars(t->app.host.pane, !term_sets_apart(t->term, STYLE_reasoning));
    view_draw(&t->app, &t->cells);
    view_title(&t->app, &title);
    term_title(t->term, buf_str(&title));
    term_draw(t->term, &t->cells);
    t->drawn_ms = t->drawn_ms + t->frame_ms > ms ? t->drawn_ms + t->frame_ms : ms;
    t->dirty = t->typed = false;
    buf_free(&title);
}

/* --- what the app wishes ---------------------------------------------------------------------------------------- */

/* Prints text of any origin on the usual screen. */
static void print_safe(const char *text, size_t n)
{
    struct buf safe = {0};
    unicode_safe(&safe, text, n);
    fwrite(buf_str(&safe), 1, safe.len, stdout);
    fflush(stdout);
    buf_free(&safe);
}

/* Prints the whole conversation on the usual screen and waits for Enter. */
static void print_all(struct tui *t)
{
    struct buf text = {0};
    struct err e = {0};
    term_leave(t->term);
    if (chat_export(t->app.host.chat, "txt", NULL, &text, &e))
        print_safe(buf_str(&text), text.len);
    else
        print_safe(e.msg, strlen(e.msg));
    fputs("\n[Enter goes back to the chat]\n", stdout);
    fflush(stdout);
    /* Waits for Enter, or for a signal, which the loop then handles. */
    struct pollfd fds[2] = {{.fd = 0, .events = POLLIN}, {.fd = t->wake_fd, .events = POLLIN}};
    char c = 0;
    while (c != '\n' && (poll(fds, 2, -1) >= 0 || errno == EINTR) && !fds[1].revents)
        if (fds[0].revents && read(0, &c, 1) <= 0)
            break;
    term_enter(t->term);
    buf_free(&text);
}

/* Opens the draft in the user's editor. */
static void hand_off(struct tui *t)
{
    struct editor *draft = t->app.host.line[WINDOW_input];
    struct buf before = {0}, after = {0};
    struct err e = {0};
    editor_text(draft, &before);
    term_leave(t->term);
    bool ok = handoff_edit(buf_str(&before), &after, &e);
    term_enter(t->term);
    if (ok)
        editor_set(draft, buf_str(&after));
    else
        host_hint(&t->app.host, "%s", e.msg);
    host_edited(&t->app.host);
    resize(t);
    buf_free(&before);
    buf_free(&after);
}

static void to_terminal(void *arg, const char *text, size_t n)
{
    term_clipboard(arg, text, n);
}

/* Does what windows have requested of the terminal: copying, printing, paging, suspending. */
static void grant_wishes(struct tui *t)
{
    struct host *h = &t->app.host;
    unsigned wishes = h->wishes;
    h->wishes &= WISH_LEAVE;
    if (wishes & WISH_COPY) {
        struct buf said = {0};
        clip_copy(buf_str(&h->copied), h->copied.len, to_terminal, t->term, !options_on(t->o, OPT_private), &said);
        host_hint(h, "%s", buf_str(&said));
        buf_free(&said);
    }
    if (wishes & WISH_REDRAW)
        term_redraw(t->term);
    if (wishes & WISH_MOUSE)
        term_mouse(t->term, !h->looks.mouse || h->looks.bare ? TERM_MOUSE_OFF : h->looks.lent ? TERM_MOUSE_LENT : TERM_MOUSE_ON);
    if (wishes & WISH_CALL)
        term_call(t->term, buf_str(&h->bell.text));
    if (wishes & WISH_PRINT)
        print_all(t);
    if (wishes & WISH_PAGE) {
        struct buf text = {0};
        struct err e = {0};
        term_leave(t->term);
        bool ok = chat_export(t->app.host.chat, "txt", NULL, &text, &e) && handoff_page(buf_str(&text), text.len, &e);
        term_enter(t->term);
        if (!ok)
            host_hint(&t->app.host, "%s", e.msg);
        resize(t);
        buf_free(&text);
    }
    if (wishes & WISH_HANDOFF)
        hand_off(t);
    if (wishes & WISH_SUSPEND) {
        term_leave(t->term);
        /* Stops the process as Ctrl-Z does; returns when it continues. */
        signal(SIGTSTP, SIG_DFL);
        raise(SIGTSTP);
        handle(SIGTSTP);
        term_enter(t->term);
        resize(t);
    }
    t->dirty = t->dirty || wishes;
}

/* --- what happens ----------------------------------------------------------------------------------------------- */

/* Passes a key on, or a report of the terminal. */
static void on_key(void *arg, const struct key_event *ev)
{
    struct tui *t = arg;
    if (ev->kind == KEYS_REPORT && ev->report == REPORT_FOCUS)
        bell_focus(&t->app.host.bell, ev->value);
    else if (ev->kind == KEYS_REPORT)
        term_report(t->term, ev->report, ev->value);
    else
        app_key(&t->app, ev, clock_ms());
    t->dirty = t->typed = true;
}

/* Reads what was typed; the end of the terminal ends the program. */
static void read_terminal(struct tui *t)
{
    char bytes[4096];
    int n;
    while ((n = term_read(t->term, bytes, sizeof bytes)) > 0) {
        keyhelp_sent(&t->app.host, bytes, (size_t)n);
        keys_feed(t->keys, bytes, (size_t)n, clock_ms(), on_key, t);
    }
    if (n < 0)
        t->ending = SIGHUP;
}

/* Handles signals and lines of other threads. */
static void read_wake(struct tui *t)
{
    struct buf lines = {0};
    unsigned what = wake_take(&lines);
    if (what & WAKE_SIZE && !t->resize_ms)
        t->resize_ms = clock_ms() + RESIZE_MS;
    if (what & WAKE_STOP)
        t->app.host.wishes |= WISH_SUSPEND;
    if (what & WAKE_CONTINUE) {         /* another program may have changed the terminal */
        term_leave(t->term);
        term_enter(t->term);
    }
    if (what & WAKE_INTERRUPT)
        app_interrupt(&t->app, clock_ms());
    if (what & WAKE_HANGUP)
        t->ending = SIGHUP;
    if (what & WAKE_TERMINATE)
        t->ending = SIGTERM;
    if (what & WAKE_LINES)
        feed_say(&t->app.host.feed, ITEM_NOTE, "%s", lines.data);
    t->dirty = t->dirty || what;
    buf_free(&lines);
}

static void shorten(int *timeout, int64_t ms)
{
    if (ms >= 0 && (*timeout < 0 || ms < *timeout))
        *timeout = (int)ms;
}

/* Returns the milliseconds until something is due; -1: nothing is. */
static int timeout(const struct tui *t)
{
    int64_t ms = clock_ms();
    int shortest = chat_timeout(t->app.host.chat);
    shorten(&shortest, keys_timeout(t->keys, ms));
    shorten(&shortest, app_timeout(&t->app));
    if (t->resize_ms)
        shorten(&shortest, t->resize_ms > ms ? t->resize_ms - ms : 0);
    if (term_waits(t->term))
        shorten(&shortest, BLOCKED_MS);
    if (t->dirty) {
        int64_t due = frame_wait(t, ms);
        shorten(&shortest, due > 0 ? due : BLOCKED_MS);
    }
    return shortest;
}

/* Runs the screen until the user leaves or a signal ends it. */
static void loop(struct tui *t)
{
    while (!t->ending && !(t->app.host.wishes & WISH_LEAVE)) {
        struct pollfd fds[CHAT_MAX_FDS + 2] = {{.fd = term_fd(t->term), .events = POLLIN}, {.fd = t->wake_fd, .events = POLLIN}};
        int n = chat_fds(t->app.host.chat, fds + 2), due = app_timeout(&t->app);
        poll(fds, (nfds_t)n + 2, timeout(t));
        int64_t ms = clock_ms();
        if (fds[1].revents)
            read_wake(t);
        if (fds[0].revents)
            read_terminal(t);
        keys_tick(t->keys, ms, on_key, t);
        const struct chat_event *ev = chat_drain(t->app.host.chat, &n);
        app_events(&t->app, ev, n, ms);
        t->dirty = t->dirty || n || due == 0 || app_timeout(&t->app) == 0;
        app_tick(&t->app, ms);
        grant_wishes(t);
        if (!t->ending)
            draw(t, clock_ms());
    }
}

/* --- the end ---------------------------------------------------------------------------------------------------- */

/* Keeps the answer so far; a message without an answer comes back, and is kept with the draft. */
static void stop_and_save(struct tui *t)
{
    int64_t until = clock_ms() + SAVE_MS;
    int n;
    t->app.closing = true;
    chat_interrupt(t->app.host.chat);
    chat_interrupt(t->app.host.chat);        /* tools end at once now */
    while (chat_busy(t->app.host.chat) && clock_ms() < until) {
        chat_wait(t->app.host.chat, -1, (int)(until - clock_ms()));
        const struct chat_event *ev = chat_drain(t->app.host.chat, &n);
        app_events(&t->app, ev, n, clock_ms());
    }
    input_keep(&t->app.host);
}

/* Appends text that is no markdown, in lines broken at blanks. */
static void add_wrapped(const char *text, int columns, struct buf *out)
{
    struct lines lines = {0};
    struct buf whole = {0};
    lines_wrap(&lines, (struct look){STYLE_text, 0}, text, strlen(text), 0, columns, 0);
    for (int i = 0; i < lines.n; i++, buf_addc(&whole, '\n'))
        lines_text(&lines, i, &whole);
    unicode_safe(out, buf_str(&whole), whole.len);
    buf_free(&whole);
    lines_free(&lines);
}

/* Prints the messages from `from` on, for the usual screen after the end: answers as those to one prompt. */
static void print_exchange(const struct tui *t, int from)
{
    struct printer p;
    printer_open(&p, t->o);
    for (int i = from; i < chat_n_messages(t->app.host.chat); i++) {
        struct chat_message m = chat_message(t->app.host.chat, i);
        struct buf out = {0}, line = {0};
        if (!strcmp(m.role, "tool") || !*m.text)
            continue;
        if (!strcmp(m.role, "user") || !printer_usable(t->o)) {
            buf_addf(&line, "%s%s", !strcmp(m.role, "user") ? "> " : "", m.text);
            add_wrapped(buf_str(&line), printer_usable(t->o) ? p.columns : INT_MAX, &out);
        } else {
            printer_push(&p, m.text, strlen(m.text), &out);
            printer_end(&p, &out);
        }
        printf("%s%s\n", buf_str(&out), m.stopped ? "[stopped]\n" : "");
        buf_free(&line);
        buf_free(&out);
    }
    printer_free(&p);
}

/* Prints what the user may still want to read, which stays in the shell's scrollback; of a private chat nothing does. */
static void print_farewell(const struct tui *t)
{
    const char *how = options_on(t->o, OPT_private) ? "none" : options_text(t->o, OPT_exit_print);
    int n = chat_n_messages(t->app.host.chat), last = n - 1;
    while (last >= 0 && strcmp(chat_message(t->app.host.chat, last).role, "user"))
        last--;
    if (!strcmp(how, "all"))
        print_exchange(t, 0);
    else if (!strcmp(how, "last") && last >= 0)
        print_exchange(t, last);
    struct buf bye = {0};
    if (strcmp(how, "none"))
        goodbye_add(t->app.host.chat, t->o, &bye);
    fputs(buf_str(&bye), stdout);
    buf_free(&bye);
}

/* --- the beginning ---------------------------------------------------------------------------------------------- */

/* Resumes a saved conversation; --resume without a name opens the list of them. */
static bool resume(struct tui *t, struct err *e)
{
    struct buf note = {0};
    bool ok = chat_resume(t->app.host.chat, &note, e);
    if (chat_n_messages(t->app.host.chat))  /* else notes about terminal and keys would be lost */
        host_changed(&t->app.host);
    else
        t->app.host.recount = true;
    if (note.len)
        feed_say(&t->app.host.feed, ITEM_NOTE, "%s", note.data);
    if (ok)
        input_restore(&t->app.host);
    if (ok && options_given(t->o, OPT_resume) && !*options_text(t->o, OPT_resume))
        picker_open(&t->app.host, PICK_SESSION);
    buf_free(&note);
    return ok;
}

/* Opens the chat and begins its input.  False with the reason. */
static bool open_chat(struct tui *t, struct err *e)
{
    static const struct chat_front front = {.can_ask = true, .keeps = true, .attaches = true, .inspects = true, .screen = true,
                                            .reads_ahead = true, .tools = "all"};
    struct chat *c = chat_open(ui_responder_of_chat(t->o, e), t->o, &front, e);
    if (!c)
        return false;
    t->app.host.ms = clock_ms();
    app_chat(&t->app, c);
    if (!resume(t, e))
        return false;
    input_begin(&t->app.host, t->first);
    return true;
}

static const struct thumb *find_thumb(void *tui, uint32_t number)
{
    const struct tui *t = tui;
    return t->app.host.chat ? chat_thumb_find(t->app.host.chat, number) : NULL;
}

/* Opens terminal, signals and keys, and draws the first frame.  False with the reason. */
static bool open_screen(struct tui *t, struct err *e)
{
    struct buf history = {0};
    struct err ignored = {0};
    const char *ssh = getenv("SSH_CONNECTION");
    bool far = ssh && *ssh;
    struct term_options to = {
        .theme = options_text(t->o, OPT_theme), .color = options_text(t->o, OPT_color), .mouse = options_on(t->o, OPT_mouse),
        .title = options_on(t->o, OPT_title), .probe = true, .pictures = !options_accessible(),
    };
    /* Servers often lack the locale that the user's machine sent; the terminal at its end speaks UTF-8 all the same. */
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8"))
        setlocale(LC_CTYPE, "C.UTF-8");
    t->term = term_open(&to, e);
    if (!t->term)
        return false;
    t->wake_fd = wake_open();
    if (t->wake_fd < 0) {
        err_set(e, "cannot watch for signals: %s", strerror(errno));
        term_close(t->term);
        return false;
    }
    term_pictures(t->term, find_thumb, t);
    t->theme = theme_find(to.theme);
    t->frame_ms = far ? 1000 / 20 : 1000 / 60;
    t->keys = keys_open();
    if (far)
        keys_escape_ms(t->keys, 100);
    const bool keeps = !options_on(t->o, OPT_private) && options_int(t->o, OPT_history_size);
    app_open(&t->app, t->o, keeps && paths_state(&history, "history.jsonl", &ignored) ? history.data : NULL);
    t->app.host.looks.mouse = to.mouse;
    t->app.host.feed.graphics = term_shows_pictures(t->term);
    if (term_note(t->term))
        feed_say(&t->app.host.feed, ITEM_NOTE, "%s", term_note(t->term));
    /* Repeats the warnings, which are also on the usual screen, hidden now. */
    for (const char *p = options_warnings(t->o), *end; (end = strchr(p, '\n')); p = end + 1) {
        struct buf line = {0};
        buf_add(&line, p, (size_t)(end - p));
        feed_say(&t->app.host.feed, ITEM_NOTE, "%s", line.data);
        buf_free(&line);
    }
    t->app.host.ms = clock_ms();
    t->drawn_ms = t->app.host.ms - 1000;
    buf_free(&history);
    resize(t);
    draw(t, clock_ms());                  /* before the model's files are read, which may take a while */
    return true;
}

/* Closes the terminal and restores the signals. */
static void close_screen(struct tui *t)
{
    term_close(t->term);
    t->term = NULL;
    keys_close(t->keys);
    cells_free(&t->cells);
    /* Restores the default actions of the signals. */
    err_set_sink(NULL, NULL);
    for (int i = 0; i < N_TAKEN; i++)
        signal(taken[i].sig, SIG_DFL);
    close(ends[0]);
    close(ends[1]);
    ends[0] = ends[1] = -1;
    buf_free(&waiting);
}

/* Ignores SIGHUP: a shell sends it to all that it started, maybe late, and the rest of the chat must survive. */
static void survive(struct tui *t)
{
    sigset_t hangup;
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &hangup, NULL);
    close_screen(t);
    signal(SIGHUP, SIG_IGN);
    pthread_sigmask(SIG_UNBLOCK, &hangup, NULL);
}

int tui_run(struct options *o, const struct opening *first)
{
    struct tui t = {.o = o, .first = first, .dirty = true};
    struct buf said = {0};
    struct err e = {0};
    int status = EXIT_ANSWERED;
    if (!ui_responder_agreed(o, &e)) {
        return process_fail(EXIT_MODEL, e.msg);
    }
    if (!open_screen(&t, &e)) {
        return process_fail(EXIT_FAILED, e.msg);
    }
    bool open = open_chat(&t, &e);
    if (open)
        loop(&t);
    if (open)
        stop_and_save(&t);
    if (t.app.host.chat)                /* while signals are still caught: another one must not end this */
        status = goodbye_status(t.app.host.chat, t.ending, status, &said);
    const bool stays = open && chat_others(t.app.host.chat);
    stays ? survive(&t) : close_screen(&t);
    if (!open || t.app.fatal.len)
        process_say(open ? t.app.fatal.data : e.msg);
    fputs(buf_str(&said), stderr);
    buf_free(&said);
    const int ending = status == EXIT_ANSWERED ? t.ending : 0;
    if (ending && !stays)
        interrupt_die(ending);
    else if (open && !t.ending)
        print_farewell(&t);
    if (!open || t.app.host.phase.kind == PHASE_DEAD)
        status = !open && t.app.host.chat ? EXIT_FAILED : EXIT_MODEL;
    waiter_status(ending ? EXIT_SIGNAL + ending : status);
    chat_close(t.app.host.chat);        /* may wait for the model; Ctrl-C then ends the program as usual */
    app_close(&t.app);
    if (ending)
        interrupt_die(ending);
    return status;
}

bool tui_check_keys(const struct options *o, struct err *e)
{
    int n;
    const char *const *keys = options_list(o, OPT_key, &n);
    struct actions *a = app_actions();
    bool ok = true;
    for (int i = 0; ok && i < n && options_from(o, OPT_key) == FROM_COMMAND_LINE; i++)
        ok = actions_bind(a, keys[i], e);
    actions_close(a);
    return ok;
}
