#include "ui/tui/prompt.h"

#include <string.h>


struct prompt {
    const struct prompt_ask *ask;
    struct editor *line;                /* NULL until it was opened once */
    int  nth;                           /* hits that were passed */
};

static struct prompt *prompt(const struct host *h)
{
    return window_state(h, WINDOW_prompt);
}

void prompt_open(struct host *h, const struct prompt_ask *ask, const char *text)
{
    struct prompt *p = prompt(h);
    window_open(h, WINDOW_prompt);
    if (!p->line)
        p->line = editor_open();
    p->ask = ask;
    p->nth = 0;
    editor_reset(p->line);
    editor_insert(p->line, text, strlen(text));
}

static const char *current_hit(struct host *h)
{
    struct prompt *p = prompt(h);
    struct buf text = {0};
    editor_text(p->line, &text);
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
    editor_text(p->line, &text);
    if (!p->ask->found || found)
        p->ask->done(h, found ? found : buf_str(&text));
    window_close(h, WINDOW_prompt);
    buf_free(&text);
}

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
    editor_draw(prompt(h)->line, c, at, prompt(h)->ask->sign);
}

/* --- the window ------------------------------------------------------------------------------------------------- */

static struct editor *prompt_line(struct host *h)
{
    return prompt(h)->line;
}

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
    editor_reset(prompt(h)->line);
}

static void free_prompt(struct host *h)
{
    editor_close(prompt(h)->line);
}

static int prompt_rows(struct host *h, const struct cells *c)
{
    return prompt(h)->ask->told && !cells_are_tiny(c) ? 2 : 1;
}

const struct window window_prompt = {
    .bytes = sizeof(struct prompt), .free = free_prompt, .in = {{CONTEXT_prompt, CONTEXT_edit}, 2}, .focus = prompt_line,
    .edited = to_first_hit, .close = close_prompt, .closed = empty_prompt, .input_rows = prompt_rows,
    .draw_input = draw_prompt, .hint = "Esc back",
};
