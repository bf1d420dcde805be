#include "ui/tui/input.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

/* --- a line that is asked for -------------------------------------------------------------------------------------- */

struct prompt {
    const struct prompt_ask *ask;
    int  nth;                           /* hits that were passed */
};

static struct prompt *prompt(const struct host *h)
{
    return h->state[WINDOW_prompt];
}

void prompt_open(struct host *h, const struct prompt_ask *ask, const char *text)
{
    struct prompt *p = prompt(h);
    window_open(h, WINDOW_prompt);
    p->ask = ask;
    p->nth = 0;
    editor_reset(h->line[WINDOW_prompt]);
    editor_insert(h->line[WINDOW_prompt], text, strlen(text));
}

static const char *current_hit(struct host *h)
{
    struct prompt *p = prompt(h);
    struct buf text = {0};
    editor_text(h->line[WINDOW_prompt], &text);
    const char *found = p->ask->found && text.len ? p->ask->found(h, text.data, p->nth) : NULL;
    buf_free(&text);
    return found;
}

void act_prompt_older(struct host *h)
{
    prompt(h)->nth++;
    if (!current_hit(h))
        prompt(h)->nth--;
}

void act_prompt_newer(struct host *h)
{
    if (prompt(h)->nth)
        prompt(h)->nth--;
}

void act_prompt_done(struct host *h)
{
    struct prompt *p = prompt(h);
    struct buf text = {0};
    const char *found = current_hit(h);
    editor_text(h->line[WINDOW_prompt], &text);
    if (!p->ask->found || found)
        p->ask->done(h, found ? found : buf_str(&text));
    window_close(h, WINDOW_prompt);
    buf_free(&text);
}

/* Draws a question for a line of text, with the hit it has found, or its explanation, above. */
static void draw_prompt(struct host *h, struct cells *c, struct area at)
{
    static const struct look text = {STYLE_text, 0}, dim = {STYLE_dim, 0};
    const char *found = current_hit(h), *told = prompt(h)->ask->told;
    if (at.rows > 1) {
        cells_puts(c, at, 0, 0, dim, "  ");
        if (found)
            cells_puts(c, at, 0, 2, text, found);
        else
            cells_puts(c, at, 0, 2, dim, told);
        at.row++;
        at.rows--;
    }
    editor_draw(h->line[WINDOW_prompt], c, at, prompt(h)->ask->sign);
}

/* --- the window ------------------------------------------------------------------------------------------------- */

static void to_first_hit(struct host *h)
{
    prompt(h)->nth = 0;
}

static bool close_prompt(struct host *h, bool escape)
{
    (void)escape;
    window_close(h, WINDOW_prompt);
    host_edited(h);
    return true;
}

static void empty_prompt(struct host *h)
{
    editor_reset(h->line[WINDOW_prompt]);
}

static int prompt_rows(struct host *h, const struct cells *c)
{
    return prompt(h)->ask->told && !cells_are_tiny(c) ? 2 : 1;
}

const struct window window_prompt = {
    .bytes = sizeof(struct prompt), .in = {{CONTEXT_prompt, CONTEXT_edit}, 2}, .has_line = true,
    .edited = to_first_hit, .close = close_prompt, .closed = empty_prompt, .input_rows = prompt_rows,
    .draw_input = draw_prompt, .hint = "Esc back",
};

/* --- messages that wait, and what was not sent -------------------------------------------------------------------- */

void queue_push(struct queue *q, const char *text)
{
    q->texts = memory_grow(q->texts, q->n, &q->cap, sizeof *q->texts);
    q->texts[q->n++] = memory_strdup(text);
}

static void queue_push_front(struct queue *q, const char *text)
{
    q->texts = memory_grow(q->texts, q->n, &q->cap, sizeof *q->texts);
    memmove(q->texts + 1, q->texts, (size_t)q->n * sizeof *q->texts);
    q->texts[0] = memory_strdup(text);
    q->n++;
}

/* Returns the oldest message, which the caller frees; NULL: the queue is empty. */
static char *queue_take_oldest(struct queue *q)
{
    if (!q->n)
        return NULL;
    char *s = q->texts[0];
    memmove(q->texts, q->texts + 1, (size_t)--q->n * sizeof *q->texts);
    return s;
}

static char *queue_take_newest(struct queue *q)
{
    return q->n ? q->texts[--q->n] : NULL;
}

void queue_free(struct queue *q)
{
    while (q->n)
        free(q->texts[--q->n]);
    free(q->texts);
    *q = (struct queue){0};
}

enum { MOST = 64 << 20 };

bool unsent_save(const char *session, const char *draft, const struct queue *q, bool synced)
{
    struct buf path = {0};
    bool ok = true;
    buf_addf(&path, "%s.unsent", session);
    if (*draft || q->n) {
        json_t *queue = json_array(), *all = json_pack("{s:s, s:o}", "draft", draft, "queue", queue);
        for (int i = 0; i < q->n; i++)
            json_array_append_new(queue, json_string(q->texts[i]));
        char *text = json_dumps(all, JSON_COMPACT);
        ok = text && (synced ? file_replace : file_replace_unsynced)(path.data, text, strlen(text));
        free(text);
        json_decref(all);
    } else {
        unlink(path.data);
    }
    buf_free(&path);
    return ok;
}

void unsent_load(const char *session, struct buf *draft, struct queue *q)
{
    struct buf path = {0}, text = {0};
    json_error_t ignored;
    json_t *all = NULL, *one;
    size_t i;
    buf_addf(&path, "%s.unsent", session);
    if (file_read(&text, path.data, MOST, NULL))
        all = json_loadb(buf_str(&text), text.len, 0, &ignored);
    const char *was = json_string_value(json_object_get(all, "draft"));
    if (was)
        buf_adds(draft, was);
    json_array_foreach(json_object_get(all, "queue"), i, one)
        if (json_is_string(one))
            queue_push(q, json_string_value(one));
    json_decref(all);
    buf_free(&path);
    buf_free(&text);
}

/* --- the state ---------------------------------------------------------------------------------------------------- */

static struct input *input(const struct host *h)
{
    return h->state[WINDOW_input];
}

struct input *input_state(const struct host *h)
{
    return input(h);
}

/* --- editing keys, for the line that has the focus ---------------------------------------------------------------- */

static void edit_line(struct host *h, enum edit what)
{
    struct editor *e = host_focus(h);
    if (e)
        editor_do(e, what);
    host_edited(h);
}

#define EDIT(action, what) void act_##action(struct host *h) { edit_line(h, what); }
EDIT(left, EDIT_LEFT)
EDIT(right, EDIT_RIGHT)
EDIT(word_left, EDIT_WORD_LEFT)
EDIT(word_right, EDIT_WORD_RIGHT)
EDIT(line_start, EDIT_LINE_START)
EDIT(line_end, EDIT_LINE_END)
EDIT(backspace, EDIT_BACKSPACE)
EDIT(delete, EDIT_DELETE)
EDIT(kill_big_word, EDIT_KILL_BIG_WORD_LEFT)
EDIT(kill_word_left, EDIT_KILL_WORD_LEFT)
EDIT(kill_word_right, EDIT_KILL_WORD_RIGHT)
EDIT(kill_line_end, EDIT_KILL_LINE_END)
EDIT(kill_line_start, EDIT_KILL_LINE_START)
EDIT(yank, EDIT_YANK)
EDIT(yank_pop, EDIT_YANK_POP)
EDIT(transpose, EDIT_TRANSPOSE)
EDIT(undo, EDIT_UNDO)
EDIT(redo, EDIT_REDO)
EDIT(newline, EDIT_NEWLINE)
#undef EDIT

ACT(literal, h->typing.literal = true)

void input_history(struct host *h, const char *path)
{
    input(h)->history = history_open(path, options_int(h->o, OPT_history_size));
}

/* --- history ---------------------------------------------------------------------------------------------------- */

void input_remember(struct host *h, const char *text)
{
    history_add(input(h)->history, text);
    input(h)->history->back = 0;
}

void act_older(struct host *h)
{
    struct buf draft = {0};
    editor_text(h->line[WINDOW_input], &draft);
    const char *text = history_older(input(h)->history, buf_str(&draft));
    if (text)
        editor_set(h->line[WINDOW_input], text);
    buf_free(&draft);
    host_edited(h);
}

void act_newer(struct host *h)
{
    const char *text = history_newer(input(h)->history);
    if (text)
        editor_set(h->line[WINDOW_input], text);
    host_edited(h);
}

/* True for several arrows at once: a wheel that the terminal turned into keys, which scrolls; a key that is held walks on through the history. */
static bool is_wheel(const struct host *h)
{
    return h->typing.burst && !input(h)->history->back;
}

void act_up(struct host *h)
{
    if (editor_do(h->line[WINDOW_input], EDIT_UP))
        return;
    if (is_wheel(h))
        pane_scroll(h->pane, -1);
    else
        act_older(h);
}

void act_down(struct host *h)
{
    if (editor_do(h->line[WINDOW_input], EDIT_DOWN))
        return;
    if (is_wheel(h))
        pane_scroll(h->pane, 1);
    else
        act_newer(h);
}

static const char *find_typed(struct host *h, const char *text, int nth)
{
    return history_search(input(h)->history, text, nth);
}

static void take_typed(struct host *h, const char *text)
{
    editor_set(h->line[WINDOW_input], text);
}

void act_find_typed(struct host *h)
{
    static const struct prompt_ask ask = {.sign = "/ ", .told = "type a part of an earlier message", .done = take_typed, .found = find_typed};
    prompt_open(h, &ask, "");
}

/* --- completion ------------------------------------------------------------------------------------------------- */

/* Returns the list that completes the word at the cursor, or NULL. */
static struct popup *open_completions(const struct host *h)
{
    return window_active(h) == WINDOW_input && input(h)->suggest.open ? &input(h)->suggest.popup : NULL;
}

static struct suggest *completions(struct host *h)
{
    input(h)->suggest.chat = h->chat;
    input(h)->suggest.options = h->o;
    return &input(h)->suggest;
}

void act_complete(struct host *h)
{
    if (!suggest_tab(completions(h), h->line[WINDOW_input]))
        host_hint(h, "nothing to complete");
}

bool input_take_suggestion(struct host *h)
{
    return suggest_take(completions(h), h->line[WINDOW_input]);
}

ACT(popup_up, suggest_move(completions(h), -1))
ACT(popup_down, suggest_move(completions(h), 1))

void input_tell(struct host *h)
{
    struct buf draft = {0};
    if (!input(h)->drafted || !h->chat)
        return;
    input(h)->drafted = false;
    editor_text(h->line[WINDOW_input], &draft);
    chat_draft(h->chat, buf_str(&draft), draft.len);
    buf_free(&draft);
}

/* --- sending ---------------------------------------------------------------------------------------------------- */

/* Returns a message that was not answered to the draft. */
static void give_back(struct host *h, const char *text)
{
    if (editor_empty(h->line[WINDOW_input])) {
        editor_set(h->line[WINDOW_input], text);
        host_edited(h);
    } else {                            /* another draft is being written: Alt-Up fetches the message */
        queue_push_front(&input(h)->queue, text);
        input(h)->queue.held = true;
    }
}

void input_made(struct host *h, const char *path)
{
    buf_add(&input(h)->made, path, strlen(path) + 1);
}

/* Forgets the files that the text names; removes: deletes the others. */
static void settle_made(struct host *h, const char *text, bool removes)
{
    struct buf rest = {0};
    struct buf *made = &input(h)->made;
    for (size_t at = 0; at < made->len; at += strlen(made->data + at) + 1) {
        const char *path = made->data + at;
        bool named = strstr(text, path);
        if (!named && removes)
            unlink(path);
        else if (!named)
            buf_add(&rest, path, strlen(path) + 1);
    }
    buf_free(made);
    *made = rest;
}

/* Puts a text first in the queue while its files are being read; input_next() sends it then. */
static bool waits_for_files(struct host *h, const char *text)
{
    if (!chat_awaits_files(h->chat, text, strlen(text)))
        return false;
    queue_push_front(&input(h)->queue, text);
    input(h)->queue.held = false;
    return true;
}

void input_submit(struct host *h, const char *text)
{
    struct err e = {0};
    if (waits_for_files(h, text))
        return;
    bool ok = chat_submit(h->chat, text, strlen(text), &e);
    input(h)->queue.held = !ok;
    if (ok) {
        /* Updates the file of unsent text after restored text was sent. */
        struct buf draft = {0};
        editor_text(h->line[WINDOW_input], &draft);
        if (input(h)->unsent)
            unsent_save(input(h)->unsent, buf_str(&draft), &input(h)->queue, false);
        buf_free(&draft);
    }
    if (ok)
        settle_made(h, text, false);
    else
        give_back(h, text);
    host_began(h, ok, &e);
}

void input_begin(struct host *h, const struct opening *first)
{
    struct err e = {0};
    const char *text = buf_str(&first->text);
    if (!first->sent) {
        editor_insert(h->line[WINDOW_input], text, first->text.len);
        host_edited(h);
        return;
    }
    input_remember(h, text);
    if (waits_for_files(h, text))
        return;
    bool ok = prompt_submit(h->chat, first, &e);
    if (!ok)
        give_back(h, text);
    host_began(h, ok, &e);
}

/* --- what waits ------------------------------------------------------------------------------------------------- */

void input_next(struct host *h)
{
    if (chat_proposes(h->chat, NULL))
        return;
    if (input(h)->steer) {
        char *text = input(h)->steer;
        input(h)->steer = NULL;
        input_submit(h, text);
        free(text);
    } else if (input(h)->queue.n && !input(h)->queue.held && !chat_awaits_files(h->chat, *input(h)->queue.texts, strlen(*input(h)->queue.texts))) {
        char *text = queue_take_oldest(&input(h)->queue);
        input_submit(h, text);
        free(text);
    }
}

bool input_decide(struct host *h, bool take)
{
    if (!h->chat || !chat_proposes(h->chat, NULL))
        return false;
    chat_decide(h->chat, take);
    feed_decided(&h->feed, take);
    host_changed(h);
    pane_to_end(h->pane);
    input_next(h);
    return true;
}

void act_unqueue(struct host *h)
{
    struct buf both = {0};
    char *text = queue_take_newest(&input(h)->queue);
    if (!text) {
        host_hint(h, "nothing is queued");
        return;
    }
    buf_adds(&both, text);
    if (!editor_empty(h->line[WINDOW_input])) {     /* before the draft */
        buf_addc(&both, '\n');
        editor_text(h->line[WINDOW_input], &both);
    }
    editor_set(h->line[WINDOW_input], both.data);
    host_edited(h);
    buf_free(&both);
    free(text);
}

/* --- over the end of the program -------------------------------------------------------------------------------- */

/* Keeps unsent text beside the conversation; without a conversation it goes to the history. */
void input_keep(struct host *h)
{
    struct buf draft = {0};
    const char *session = chat_n_messages(h->chat) ? chat_saved_as(h->chat) : NULL;
    editor_text(h->line[WINDOW_input], &draft);
    if (input(h)->steer)
        queue_push_front(&input(h)->queue, input(h)->steer);
    bool kept = session && unsent_save(session, buf_str(&draft), &input(h)->queue, true);
    if (kept && input(h)->unsent && strcmp(input(h)->unsent, session))
        unsent_save(input(h)->unsent, "", &(struct queue){0}, true);
    if (!kept) {
        for (int i = 0; i < input(h)->queue.n; i++)
            history_add(input(h)->history, input(h)->queue.texts[i]);
        if (draft.len)
            history_add(input(h)->history, draft.data);
    }
    for (int i = 0; i < input(h)->queue.n; i++)
        buf_adds(&draft, input(h)->queue.texts[i]);
    settle_made(h, buf_str(&draft), true);
    buf_free(&draft);
}

void input_restore(struct host *h)
{
    struct buf draft = {0};
    const char *session = chat_saved_as(h->chat);
    int before = input(h)->queue.n;
    if (!session || (input(h)->unsent && !strcmp(input(h)->unsent, session)))         /* it is restored already */
        return;
    unsent_load(session, &draft, &input(h)->queue);
    if (draft.len || input(h)->queue.n > before) {
        free(input(h)->unsent);
        input(h)->unsent = memory_strdup(session);
    }
    input(h)->queue.held = input(h)->queue.held || input(h)->queue.n > before;
    if (draft.len)
        give_back(h, draft.data);
    buf_free(&draft);
}

ACT(handoff, h->wishes |= WISH_HANDOFF)

/* --- an earlier message in the input ------------------------------------------------------------------------------ */

/* Empties the draft and returns its text, which also goes to the history, so that Up always brings it back. */
static char *take_draft(struct host *h)
{
    struct buf draft = {0};
    editor_text(h->line[WINDOW_input], &draft);
    if (draft.len)
        input_remember(h, draft.data);
    char *text = memory_strdup(buf_str(&draft));
    editor_reset(h->line[WINDOW_input]);
    buf_free(&draft);
    return text;
}

void revise_show(struct host *h)
{
    int message = chat_edited(h->chat), item = 0;
    while (item < h->pane->items.n && h->pane->items.at[item].message < message)
        item++;
    pane_to_end(h->pane);
    if (message >= 0 && item < h->pane->items.n)
        pane_show(h->pane, item, 0);
}

void revise_begin(struct host *h, int message)
{
    struct buf text = {0};
    struct err e = {0};
    if (chat_edit(h->chat, message, &text, &e)) {
        free(input_state(h)->set_aside);
        input_state(h)->set_aside = take_draft(h);
        window_open(h, WINDOW_input);
        editor_set(h->line[WINDOW_input], buf_str(&text));
        host_edited(h);
        revise_show(h);
    } else {
        host_hint(h, "%s", e.msg);
    }
    buf_free(&text);
}

bool revise_end(struct host *h)
{
    if (!h->chat || chat_edited(h->chat) < 0)
        return false;
    chat_edit_end(h->chat);
    free(take_draft(h));
    if (input_state(h)->set_aside)
        editor_set(h->line[WINDOW_input], input_state(h)->set_aside);
    free(input_state(h)->set_aside);
    input_state(h)->set_aside = NULL;
    host_edited(h);
    pane_to_end(h->pane);
    host_hint(h, "nothing was changed");
    return true;
}

/* --- the window ------------------------------------------------------------------------------------------------- */

static void input_contexts(struct host *h, struct contexts *where)
{
    if (open_completions(h))
        contexts_add(where, CONTEXT_popup);
    else if (editor_empty(h->line[WINDOW_input]))
        contexts_add(where, CONTEXT_empty);
    contexts_add(where, CONTEXT_input);
    contexts_add(where, CONTEXT_edit);
}

/* Adds contexts in the order of the help: keys that work just now and everywhere first; editing keys, which most users know, last. */
static void contexts_by_use(struct host *h, struct contexts *where)
{
    bool empty = editor_empty(h->line[WINDOW_input]);
    if (empty)
        contexts_add(where, CONTEXT_empty);
    contexts_add(where, CONTEXT_any);
    contexts_add(where, CONTEXT_input);
    contexts_add(where, CONTEXT_edit);
    if (!empty)
        contexts_add(where, CONTEXT_empty);
}

static void note_draft(struct host *h)
{
    suggest_update(completions(h), h->line[WINDOW_input]);
    input(h)->drafted = true;
}

/* Handles a click: in the draft, in the list of completions, or on a fold of the transcript. */
static bool click_draft(struct host *h, int row, int col)
{
    if (area_has(h->at.input, row, col))
        editor_click(h->line[WINDOW_input], row - h->at.input.row, col - h->at.input.col);
    else if (open_completions(h))
        return suggest_click(completions(h), row, col);
    else
        host_click_fold(h, row, col);
    return false;
}

static bool turn_wheel(struct host *h, int rows)
{
    if (!open_completions(h))
        return false;
    suggest_move(completions(h), rows);
    return true;
}

/* Closes the list of completions, or discards the summary that waits. */
static bool close_completions(struct host *h, bool escape)
{
    (void)escape;
    if (!open_completions(h))
        return input_decide(h, false);
    suggest_close(&input(h)->suggest);
    return true;
}

/* Gives a message without an answer back to the editor, unless another one follows; holds the queue after an interrupt or a failure. */
static void take_back(struct host *h, const struct chat_event *ev)
{
    struct buf both = {0};
    if (ev->kind != CHAT_DONE)
        return;
    if (!input(h)->steer && (ev->end == END_INTERRUPTED || end_failed(ev->end)))
        input(h)->queue.held = true;
    if (ev->taken_back && input(h)->steer) {   /* nothing was answered: the model gets both messages at once */
        buf_addf(&both, "%s\n\n%s", ev->taken_back, input(h)->steer);
        free(input(h)->steer);
        input(h)->steer = memory_strdup(both.data);
    } else if (ev->taken_back) {
        give_back(h, ev->taken_back);
    }
    buf_free(&both);
}

/* Frees the input with history, queue and drafts. */
static void free_input(struct host *h)
{
    struct input *in = input(h);
    history_close(in->history);
    queue_free(&in->queue);
    suggest_free(&in->suggest);
    free(in->unsent);
    free(in->steer);
    free(in->set_aside);
    buf_free(&in->made);
}

static int draft_rows(struct host *h, const struct cells *c)
{
    int rows = editor_rows(h->line[WINDOW_input], c->cols), third = c->rows / 3 > 3 ? c->rows / 3 : 3;
    return cells_are_tiny(c) ? 1 : rows < third ? rows : third;
}

static void draw_draft(struct host *h, struct cells *c, struct area at)
{
    editor_draw(h->line[WINDOW_input], c, at, "> ");
}

static int completion_rows(struct host *h, int rows)
{
    struct popup *list = open_completions(h);
    return list ? popup_height(list, rows) : 0;
}

/* Draws the list; the cursor stays in the draft. */
static void draw_completions(struct host *h, struct cells *c, struct area at)
{
    int row = c->cursor_row, col = c->cursor_col;
    popup_draw(open_completions(h), c, at);
    c->cursor_row = row;
    c->cursor_col = col;
}

const struct window window_input = {
    .bytes = sizeof(struct input), .free = free_input, .contexts = input_contexts,
    .told = contexts_by_use, .has_line = true, .edited = note_draft, .click = click_draft, .wheel = turn_wheel,
    .close = close_completions, .chat = take_back, .input_rows = draft_rows, .draw_input = draw_draft,
    .cover_rows = completion_rows, .draw_cover = draw_completions,
};
