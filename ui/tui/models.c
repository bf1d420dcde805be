/* The list of a server's models: one is chosen before the first message goes, another one later (/model). */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ui/tui/input.h"
#include "ui/tui/popup.h"
#include "ui/tui/window.h"

struct models {
    struct editor *line;                /* the typed text that narrows the list */
    struct buf words;                   /* its text */
    struct popup popup;
    struct popup_row *rows;
    struct buf names;                   /* of the rows, each ended by a zero byte */
};

static struct models *models(const struct host *h)
{
    return window_state(h, WINDOW_models);
}

static void forget_models(struct host *h)
{
    struct models *m = models(h);
    free(m->rows);
    buf_free(&m->names);
    buf_free(&m->words);
    *m = (struct models){.line = m->line};
}

/* Fills the list; the choice is the model that answers, or the first one. */
static void put_models(struct host *h)
{
    struct models *m = models(h);
    const char *const *names;
    const int n = chat_models(h->chat, &names);
    const struct model_info *now = chat_info(h->chat);
    forget_models(h);
    m->rows = memory_zeroed((size_t)n, sizeof *m->rows);
    for (int i = 0; i < n; i++)
        buf_add(&m->names, names[i], strlen(names[i]) + 1);
    m->popup = (struct popup){.title = "which model", .help = "typing narrows  Enter chooses  Esc leaves it open", .filter = "",
                              .empty = "no model of that name", .rows = m->rows, .n = n};
    const char *name = m->names.data;
    for (int i = 0; i < n; i++, name += strlen(name) + 1) {
        m->rows[i].text = name;
        m->rows[i].here = now && !strcmp(now->model, name);
        if (m->rows[i].here)
            m->popup.chosen = i;
    }
    editor_reset(m->line);
    popup_settle(&m->popup);
}

/* True if the user writes, or reads another list, which the list must not cover; the next message asks instead. */
static bool is_disturbed(const struct host *h)
{
    return !host_busy(h) && (window_active(h) != WINDOW_input || !editor_empty(input_editor(h)));
}

static void take_models(struct host *h, const struct chat_event *ev)
{
    const char *const *names;
    if (ev->kind == CHAT_READY || ev->kind == CHAT_DONE || ev->kind == CHAT_FATAL)
        window_close(h, WINDOW_models);
    if (ev->kind != CHAT_MODELS || !chat_models(h->chat, &names))
        return;
    if (!window_is_open(h, WINDOW_models) && is_disturbed(h)) {
        host_note(h, "the server has several models: which one is meant is asked with the message; /model lists them");
    } else {
        put_models(h);
        window_open(h, WINDOW_models);
    }
}

/* --- keys -------------------------------------------------------------------------------------------------------- */

void act_models_take(struct host *h)
{
    struct models *m = models(h);
    struct err e = {0};
    if (m->popup.chosen < 0)
        return;
    if (!chat_choose_model(h->chat, m->rows[m->popup.chosen].text, &e))
        host_hint(h, "%s", e.msg);
    window_close(h, WINDOW_models);
}

ACT(models_up, popup_move(&models(h)->popup, -1))
ACT(models_down, popup_move(&models(h)->popup, 1))
ACT(models_page_up, popup_move(&models(h)->popup, -POPUP_ROWS + 1))
ACT(models_page_down, popup_move(&models(h)->popup, POPUP_ROWS - 1))

/* --- the window -------------------------------------------------------------------------------------------------- */

/* Closes the list; a message that waits for the choice comes back to the draft. */
static bool leave_open(struct host *h, bool escape)
{
    (void)escape;
    window_close(h, WINDOW_models);
    if (host_busy(h) && !chat_ready(h->chat))
        host_stop(h);
    else if (!chat_ready(h->chat))
        host_hint(h, "a message asks again, and so does /model");
    return true;
}

static struct editor *words_line(struct host *h)
{
    return models(h)->line;
}

static void narrow(struct host *h)
{
    struct models *m = models(h);
    buf_reset(&m->words);
    editor_text(m->line, &m->words);
    m->popup.filter = buf_str(&m->words);
    popup_settle(&m->popup);
}

static void init_models(struct host *h)
{
    models(h)->line = editor_open();
}

static void free_models(struct host *h)
{
    forget_models(h);
    editor_close(models(h)->line);
}

static bool is_shown(const struct host *h)
{
    return window_active(h) == WINDOW_models;
}

static int models_rows(struct host *h, int rows)
{
    return is_shown(h) ? popup_height(&models(h)->popup, rows) : 0;
}

static void draw_models(struct host *h, struct cells *c, struct area at)
{
    popup_draw(&models(h)->popup, c, at);
}

static bool click_row(struct host *h, int row, int col)
{
    return popup_click(&models(h)->popup, row, col);
}

static bool turn_wheel(struct host *h, int rows)
{
    popup_move(&models(h)->popup, rows);
    return true;
}

const struct window window_models = {
    .bytes = sizeof(struct models), .init = init_models, .free = free_models, .in = {{CONTEXT_models, CONTEXT_edit}, 2},
    .focus = words_line, .edited = narrow, .click = click_row, .wheel = turn_wheel, .close = leave_open, .closed = forget_models, .chat = take_models,
    .cover_rows = models_rows, .draw_cover = draw_models, .hint = "Enter chooses, Esc leaves it open\tEnter chooses",
};
