/* Pastes come into the input; Enter makes a command or a message of the typed text.  A command may open a window or begin a turn. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "chat/command.h"
#include "chat/dropped.h"
#include "option/paths.h"
#include "ui/tui/input.h"
#include "ui/tui/numbers.h"
#include "ui/tui/windows.h"

/* --- pastes and files ---------------------------------------------------------------------------------------------- */

/* Pastes go into the line that has the focus.  A paste so large that it may be a mistake opens a question first. */
enum {
    PASTE_ASKS = 256 << 10,             /* bytes of a paste that opens the question */
    PASTE_ROWS = 2,                     /* of the question */
};

struct paste {
    struct buf coming;                  /* the part of a paste that has come */
    struct buf asked;                   /* the paste that the question is about */
    size_t counted;                     /* bytes of it that `tokens` is for */
    double tokens;                      /* about */
    int    room;                        /* tokens that the context has left; 0: not known */
};

static struct paste *paste(const struct host *h)
{
    return h->state[WINDOW_paste];
}

/* Collects a paste; at its end inserts it, or asks what to do with a large one. */
static void take_paste(struct host *h, const struct key_event *ev)
{
    bool asks = h->open[WINDOW_paste];
    if (asks)          /* another paste while the question is open: both are in question */
        buf_add(&paste(h)->asked, ev->text, ev->n);
    else
        buf_add(&paste(h)->coming, ev->text, ev->n);
    if (ev->kind != KEYS_PASTE_END || asks)
        return;
    struct editor *e = host_focus(h);
    if (!e && h->open[WINDOW_approve] && window_front(h) == WINDOW_input)
        e = h->line[WINDOW_input];
    if (e == h->line[WINDOW_input] && paste(h)->coming.len > PASTE_ASKS) {
        paste(h)->asked = paste(h)->coming;
        paste(h)->coming = (struct buf){0};
        window_open(h, WINDOW_paste);
        return;
    }
    struct buf words = {0};
    if (e == h->line[WINDOW_input] && dropped_words(buf_str(&paste(h)->coming), paste(h)->coming.len, &words))
        editor_insert(e, words.data, words.len);
    else if (e && paste(h)->coming.len)
        editor_paste(e, paste(h)->coming.data, paste(h)->coming.len);
    buf_free(&words);
    buf_free(&paste(h)->coming);
    host_edited(h);
}

/* Estimates the tokens of the paste from those of its beginning. */
static void count_tokens(struct host *h)
{
    enum { SAMPLE = 256 << 10 };
    struct paste *p = paste(h);
    size_t n = p->asked.len < SAMPLE ? p->asked.len : SAMPLE;
    const struct model_info *info = chat_info(h->chat);
    if (p->counted == p->asked.len)
        return;
    p->counted = p->asked.len;
    p->tokens = (double)chat_count_tokens(h->chat, p->asked.data, n) * (double)p->asked.len / (double)n;
    p->room = info && info->n_ctx ? info->n_ctx - chat_context_used(h->chat).tokens : 0;
}

static long count_lines(const struct buf *text)
{
    long lines = text->data[text->len - 1] != '\n';
    for (size_t i = 0; i < text->len; i++)
        lines += text->data[i] == '\n';
    return lines;
}

/* Draws the question about a large paste, with its size and whether it fits. */
static void draw_paste(struct host *h, struct cells *c, struct area at)
{
    static const struct look plain = {STYLE_text, 0};
    struct buf line = {0};
    count_tokens(h);
    bool narrow = at.cols < 60, fits = !paste(h)->room || paste(h)->tokens <= paste(h)->room;
    buf_adds(&line, narrow ? "" : fits ? "This paste is large: " : "This paste is too long: ");
    number_bytes(&line, paste(h)->asked.len);
    buf_adds(&line, ", ");
    number_count(&line, count_lines(&paste(h)->asked));
    buf_adds(&line, narrow ? " lines, ~" : " lines, about ");
    number_tokens(&line, paste(h)->tokens);
    buf_adds(&line, " tok");
    if (!fits) {
        buf_adds(&line, narrow ? " of " : ", and ");
        number_tokens(&line, paste(h)->room);
        buf_adds(&line, narrow ? "" : " still fit");
    }
    cells_blank(c, at, plain);
    if (at.rows > 1)
        cells_puts(c, at, 0, 0, plain, line.data);
    int row = at.rows - 1;
    int col = cells_puts(c, at, row, 0, plain, 
                         at.cols < 60 ? "a file, i insert, d drop: " : "a attach it as a file  i insert it  d or Esc drop it: ");
    c->cursor_row = at.row + row;
    c->cursor_col = at.col + (col < at.cols ? col : at.cols - 1);
    buf_free(&line);
}

/* --- its keys --------------------------------------------------------------------------------------------------- */

static void end_question(struct host *h)
{
    window_close(h, WINDOW_paste);
    host_edited(h);
}

/* Writes the text to a new file of the state directory that only the user can read. */
static bool keep_as_file(const struct buf *text, struct buf *path, struct err *e)
{
    char name[64];
    for (int i = 1, fd = -1; fd < 0; i++) {
        snprintf(name, sizeof name, "pastes/paste-%lld-%d.txt", (long long)time(NULL), i);
        buf_reset(path);
        if (!paths_state(path, name, e))
            return false;
        fd = open(path->data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 && errno == EEXIST)
            continue;
        bool ok = fd >= 0 && file_write(fd, text->data, text->len);
        if (!ok)
            err_set(e, "cannot write %s: %s", path->data, strerror(errno));
        if (fd >= 0)
            close(fd);
        return ok;
    }
    return false;
}

void act_paste_attach(struct host *h)
{
    struct buf path = {0}, word = {0};
    struct err e = {0};
    if (options_on(h->o, OPT_private)) {
        host_hint(h, "a private chat writes no file: i inserts the paste");
    } else if (keep_as_file(&paste(h)->asked, &path, &e)) {
        input_made(h, path.data);
        buf_addf(&word, strpbrk(path.data, " \t") ? "@\"%s\" " : "@%s ", path.data);
        editor_insert(h->line[WINDOW_input], word.data, word.len);
        end_question(h);
    } else {
        host_hint(h, "%s", e.msg);
    }
    buf_free(&path);
    buf_free(&word);
}

void act_paste_insert(struct host *h)
{
    editor_paste(h->line[WINDOW_input], paste(h)->asked.data, paste(h)->asked.len);
    end_question(h);
}

void act_paste_drop(struct host *h)
{
    end_question(h);
    host_hint(h, "the paste is dropped; the clipboard still has it");
}

/* --- the window ------------------------------------------------------------------------------------------------- */

static bool take_paste_event(struct host *h, const struct key_event *ev)
{
    bool paste = ev->kind == KEYS_PASTE || ev->kind == KEYS_PASTE_END;
    if (paste)
        take_paste(h, ev);
    return paste;
}

static bool drop_paste(struct host *h, bool escape)
{
    (void)escape;
    act_paste_drop(h);
    return true;
}

static void forget_paste(struct host *h)
{
    buf_free(&paste(h)->asked);
    paste(h)->counted = 0;
}

static void free_paste(struct host *h)
{
    buf_free(&paste(h)->coming);
    buf_free(&paste(h)->asked);
}

static int paste_rows(struct host *h, const struct cells *c)
{
    (void)h;
    (void)c;
    return PASTE_ROWS;
}

const struct window window_paste = {
    .asks = true, .bytes = sizeof(struct paste), .free = free_paste, .in = {{CONTEXT_paste}, 1},
    .event = take_paste_event, .close = drop_paste, .closed = forget_paste, .input_rows = paste_rows,
    .draw_input = draw_paste, .hint = "",
};

enum { SPLIT_ALT_MS = 150 };            /* Esc, then Enter within this time is an Alt-Enter that a slow line split */

/* --- commands ---------------------------------------------------------------------------------------------------- */

/* Shows the output of a command, from its beginning if it is longer than the screen. */
static void show_output(struct host *h, const struct buf *out)
{
    if (!out->len)
        return;
    int lines = 0;
    for (size_t i = 0; i < out->len; i++)
        lines += out->data[i] == '\n';
    feed_say(&h->feed, ITEM_OUTPUT, "%s", out->data);
    pane_to_end(h->pane);
    if (lines >= h->at.pane.rows)          /* shows its beginning */
        pane_go(h->pane, (struct pane_place){.item = h->pane->items.n - 1});
}

/* Shows keys: a list, all actions, or the test of keys. */
static void show_keys(struct host *h, const char *which)
{
    struct buf all = {0};
    if (!strcmp(which, "test"))
        keyhelp_test(h);
    else if (strcmp(which, "all"))
        keyhelp_open(h);
    else
        actions_list(h->actions, &all);
    show_output(h, &all);
    buf_free(&all);
}

/* Runs a command that only a front end with a screen has. */
static void do_on_screen(struct host *h, const char *name, const char *argument)
{
    if (!strcmp(name, "resume"))
        picker_open(h, PICK_SESSION);
    else if (!strcmp(name, "keys"))
        show_keys(h, argument);
    else if (!strcmp(name, "inspect"))
        inspect_answer(h, atoi(argument));
    else if (!strcmp(name, "theme"))
        host_hint(h, "theme %s", argument);      /* the next frame has it */
}

/* Does what a command wants of the screen. */
static void take_result(struct host *h, enum command_result r, const char *message, struct buf *out)
{
    if (!host_busy(h) && (r == COMMAND_DONE || r == COMMAND_MOVED || r == COMMAND_EDIT))
        host_changed(h);
    switch (r) {
    case COMMAND_MESSAGE:
        if (host_busy(h) || (input_state(h)->queue.n && !input_state(h)->queue.held)) {      /* of an answer, or with the files of a message */
            input_state(h)->queue.held = false;
            queue_push(&input_state(h)->queue, message);
        } else {
            input_submit(h, message);
        }
        break;
    case COMMAND_DONE:
    case COMMAND_MOVED:
        show_output(h, out);
        if (!host_busy(h))
            input_restore(h);           /* this may be another conversation now */
        break;
    case COMMAND_TURN:
        host_began(h, true, NULL);
        show_output(h, out);
        break;
    case COMMAND_EDIT:
        editor_set(h->line[WINDOW_input], buf_str(out));
        host_edited(h);
        revise_show(h);
        break;
    case COMMAND_COPY:
        host_copy(h, out, "answer");
        break;
    case COMMAND_SCREEN:
        do_on_screen(h, message, buf_str(out));
        break;
    case COMMAND_QUIT:
        h->wishes |= WISH_LEAVE;
        break;
    }
}

/* Opens a list for a command that prints one in other front ends.  False: it is no such command. */
static bool opens_list(struct host *h, const char *text)
{
    const char *argument = "", *name = command_name(text, &argument);
    if (!name)
        return false;
    if (!strcmp(name, "sessions"))
        picker_find(h, argument);
    else if (!strcmp(name, "tree") && !*argument)
        picker_open(h, PICK_NODE);
    else if (!strcmp(name, "context") && !*argument)
        picker_open(h, PICK_PART);
    else
        return false;
    return true;
}

/* Runs what was typed: a command, or a message to send. */
static void run_typed(struct host *h, const char *text)
{
    const char *message;
    struct buf out = {0};
    if (!opens_list(h, text)) {
        enum command_result r = command_run(h->chat, h->o, text, &message, &out);
        take_result(h, r, message, &out);
    }
    buf_free(&out);
}

void input_quit(struct host *h)
{
    run_typed(h, "/quit");
}

/* --- keys -------------------------------------------------------------------------------------------------------- */

static void trim(struct buf *text)
{
    while (text->len && isspace((unsigned char)text->data[text->len - 1]))
        text->data[--text->len] = 0;
}

/* Enter on an empty draft. */
void act_go_on(struct host *h)
{
    struct err e = {0};
    if (host_busy(h) || input_decide(h, true) || revise_end(h))
        return;
    if (input_state(h)->queue.n) {
        input_state(h)->queue.held = false;
        input_next(h);
    } else if (chat_rest(h->chat) != CHAT_WHOLE) {
        host_began(h, chat_continue(h->chat, &e), &e);
    }
}

void act_send(struct host *h)
{
    struct buf text = {0};
    bool split_alt = h->typing.escape_ms && h->ms - h->typing.escape_ms < SPLIT_ALT_MS;
    struct buf before = {0};
    editor_before(h->line[WINDOW_input], &before);
    bool backslash = before.len && before.data[before.len - 1] == '\\';
    buf_free(&before);
    if (split_alt || backslash) {
        if (!split_alt)
            editor_do(h->line[WINDOW_input], EDIT_BACKSPACE);
        editor_do(h->line[WINDOW_input], EDIT_NEWLINE);
        host_edited(h);
        return;
    }
    editor_text(h->line[WINDOW_input], &text);
    trim(&text);
    if (text.len) {
        input_remember(h, text.data);
        editor_reset(h->line[WINDOW_input]);
        host_edited(h);
        input_tell(h);                  /* the message is no longer a draft */
        run_typed(h, text.data);
    } else {
        act_go_on(h);
    }
    buf_free(&text);
}

/* Takes the choice; if nothing is left to take, Enter sends the message. */
void act_popup_enter(struct host *h)
{
    if (!input_take_suggestion(h))
        act_send(h);
}

void act_steer(struct host *h)
{
    struct buf text = {0};
    editor_text(h->line[WINDOW_input], &text);
    trim(&text);
    if (text.len && (!host_busy(h) || *text.data == '/')) {
        act_send(h);
    } else if (text.len) {
        free(input_state(h)->steer);
        input_state(h)->steer = memory_strdup(text.data);
        input_state(h)->queue.held = false;
        input_remember(h, text.data);
        editor_reset(h->line[WINDOW_input]);
        host_stop(h);
    }
    buf_free(&text);
}
