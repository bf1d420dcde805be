/* Pastes go into the line that has the focus.  A paste so large that it may be a mistake opens a question first. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "option/paths.h"
#include "base/file.h"
#include "ui/tui/input.h"
#include "ui/tui/numbers.h"

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
    return window_state(h, WINDOW_paste);
}

static void take_paste(struct host *h, const struct key_event *ev)
{
    bool asks = window_is_open(h, WINDOW_paste);
    if (asks)          /* another paste while the question is open: both are in question */
        buf_add(&paste(h)->asked, ev->text, ev->n);
    else
        buf_add(&paste(h)->coming, ev->text, ev->n);
    if (ev->kind != KEYS_PASTE_END || asks)
        return;
    struct editor *e = host_focus(h);
    if (!e && window_is_open(h, WINDOW_approve) && window_front(h) == WINDOW_input)
        e = input_editor(h);
    if (e == input_editor(h) && paste(h)->coming.len > PASTE_ASKS) {
        paste(h)->asked = paste(h)->coming;
        paste(h)->coming = (struct buf){0};
        window_open(h, WINDOW_paste);
        return;
    }
    if (e && paste(h)->coming.len)
        editor_paste(e, paste(h)->coming.data, paste(h)->coming.len);
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
        editor_insert(input_editor(h), word.data, word.len);
        end_question(h);
    } else {
        host_hint(h, "%s", e.msg);
    }
    buf_free(&path);
    buf_free(&word);
}

void act_paste_insert(struct host *h)
{
    editor_paste(input_editor(h), paste(h)->asked.data, paste(h)->asked.len);
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
