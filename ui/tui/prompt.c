#include "ui/tui/prompt.h"

#include <string.h>


struct prompt {
    const struct prompt_ask *ask;
    struct editor *line;                /* NULL until it was opened once */
    int  nth;                           /* hits that were passed */
};

static struct prompt *self(const struct host *h)
{
    return window_state(h, WINDOW_prompt);
}

void prompt_open(struct host *h, const struct prompt_ask *ask, const char *text)
{
    struct prompt *p = self(h);
    window_open(h, WINDOW_prompt);
    if (!p->line)
        p->line = editor_open();
    p->ask = ask;
    p->nth = 0;
    editor_reset(p->line);
    editor_insert(p->line, text, strlen(text));
}

static const char *find(struct host *h)
{
    struct prompt *p = self(h);
    struct buf text = {0};
    editor_text(p->line, &text);
    const char *found = p->ask->found && text.len ? p->ask->found(h, text.data, p->nth) : NULL;
    buf_free(&text);
    return found;
}

void act_prompt_older(struct host *h)
{
    self(h)->nth++;
    if (!find(h))
        self(h)->nth--;
}

void act_prompt_newer(struct host *h)
{
    if (self(h)->nth)
        self(h)->nth--;
}

void act_prompt_done(struct host *h)
{
    struct prompt *p = self(h);
    struct buf text = {0};
    const char *found = find(h);
    editor_text(p->line, &text);
    if (!p->ask->found || found)
        p->ask->done(h, found ? found : buf_str(&text));
    window_close(h, WINDOW_prompt);
    buf_free(&text);
}

static void draw(struct host *h, struct cells *c, struct area at)
{
    static const struct look text = {STYLE_text, 0}, dim = {STYLE_dim, 0};
    const char *found = find(h), *told = self(h)->ask->told;
    if (at.rows > 1) {
        cells_puts(c, at, 0, 0, dim, "  ");
        if (found)
            cells_puts(c, at, 0, 2, text, found);
        else
            cells_puts(c, at, 0, 2, dim, told);
        at.row++;
        at.rows--;
    }
    editor_draw(self(h)->line, c, at, self(h)->ask->sign);
}

/* --- the window ------------------------------------------------------------------------------------------------- */

static void contexts(struct host *h, struct contexts *where)
{
    (void)h;
    contexts_add(where, CONTEXT_prompt);
    contexts_add(where, CONTEXT_edit);
}

static struct editor *focus(struct host *h)
{
    return self(h)->line;
}

static void edited(struct host *h)
{
    self(h)->nth = 0;
}

static bool close_prompt(struct host *h, bool escape)
{
    (void)escape;
    window_close(h, WINDOW_prompt);
    host_edited(h);
    return true;
}

static void closed(struct host *h)
{
    editor_reset(self(h)->line);
}

static void free_state(struct host *h)
{
    editor_close(self(h)->line);
}

static const char *hint(struct host *h)
{
    (void)h;
    return "Esc back";
}

static int rows(struct host *h, const struct cells *c)
{
    return self(h)->ask->told && !cells_are_tiny(c) ? 2 : 1;
}

const struct window window_prompt = {
    .bytes = sizeof(struct prompt), .free = free_state, .contexts = contexts, .focus = focus, .edited = edited, .close = close_prompt, .closed = closed, .hint = hint,
    .input_rows = rows, .draw_input = draw,
};
