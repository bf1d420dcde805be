#include "ui/tui/prompt.h"

#include <string.h>

#include "ui/tui/app.h"

struct prompt {
    const struct prompt_ask *ask;
    struct editor *line;                /* NULL until it was opened once */
    int  nth;                           /* hits that were passed */
};

static struct prompt *self(const struct app *a)
{
    return window_state(a, WINDOW_prompt);
}

void prompt_open(struct app *a, const struct prompt_ask *ask, const char *text)
{
    struct prompt *p = self(a);
    window_open(a, WINDOW_prompt);
    if (!p->line)
        p->line = editor_open();
    p->ask = ask;
    p->nth = 0;
    editor_reset(p->line);
    editor_insert(p->line, text, strlen(text));
}

static const char *find(struct app *a)
{
    struct prompt *p = self(a);
    struct buf text = {0};
    editor_text(p->line, &text);
    const char *found = p->ask->found && text.len ? p->ask->found(a, text.data, p->nth) : NULL;
    buf_free(&text);
    return found;
}

void act_prompt_older(struct app *a)
{
    self(a)->nth++;
    if (!find(a))
        self(a)->nth--;
}

void act_prompt_newer(struct app *a)
{
    if (self(a)->nth)
        self(a)->nth--;
}

void act_prompt_done(struct app *a)
{
    struct prompt *p = self(a);
    struct buf text = {0};
    const char *found = find(a);
    editor_text(p->line, &text);
    if (!p->ask->found || found)
        p->ask->done(a, found ? found : buf_str(&text));
    window_close(a, WINDOW_prompt);
    buf_free(&text);
}

static void draw(struct app *a, struct cells *c, struct area at)
{
    static const struct look text = {STYLE_text, 0}, dim = {STYLE_dim, 0};
    const char *found = find(a), *told = self(a)->ask->told;
    if (at.rows > 1) {
        cells_puts(c, at, 0, 0, dim, "  ");
        if (found)
            cells_puts(c, at, 0, 2, text, found);
        else
            cells_puts(c, at, 0, 2, dim, told);
        at.row++;
        at.rows--;
    }
    editor_draw(self(a)->line, c, at, self(a)->ask->sign);
}

/* --- the window ------------------------------------------------------------------------------------------------- */

static void contexts(struct app *a, struct contexts *where)
{
    (void)a;
    contexts_add(where, CONTEXT_prompt);
    contexts_add(where, CONTEXT_edit);
}

static struct editor *focus(struct app *a)
{
    return self(a)->line;
}

static void edited(struct app *a)
{
    self(a)->nth = 0;
}

static bool close_prompt(struct app *a, bool escape)
{
    (void)escape;
    window_close(a, WINDOW_prompt);
    app_edited(a);
    return true;
}

static void closed(struct app *a)
{
    editor_reset(self(a)->line);
}

static void free_state(struct app *a)
{
    editor_close(self(a)->line);
}

static const char *hint(struct app *a)
{
    (void)a;
    return "Esc back";
}

static int rows(struct app *a, const struct cells *c)
{
    return self(a)->ask->told && !view_is_tiny(c) ? 2 : 1;
}

const struct window window_prompt = {
    .bytes = sizeof(struct prompt), .free = free_state, .contexts = contexts, .focus = focus, .edited = edited, .close = close_prompt, .closed = closed, .hint = hint,
    .input_rows = rows, .draw_input = draw,
};
