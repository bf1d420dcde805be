/* A line that is asked for: what to search, what was typed before, a title. */
#include <string.h>

#include "ui/tui/app.h"

/* What the search in the history stands at, or NULL. */
static const char *find_typed(const struct app *a)
{
    struct buf what = {0};
    editor_text(a->line, &what);
    const char *text = what.len ? history_search(a->history, what.data, a->prompt_at) : NULL;
    buf_free(&what);
    return text;
}

void act_prompt_older(struct app *a)
{
    a->prompt_at++;
    if (!find_typed(a))
        a->prompt_at--;
}

void act_prompt_newer(struct app *a)
{
    if (a->prompt_at)
        a->prompt_at--;
}

void act_prompt_done(struct app *a)
{
    const char *text = a->prompt == PROMPT_TYPED ? find_typed(a) : NULL;
    if (a->prompt == PROMPT_RENAME)
        picker_renamed(a);
    else if (a->prompt != PROMPT_TYPED)
        browse_find(a);
    else if (text)
        editor_set(a->editor, text);
    window_close(a, WINDOW_prompt);
}

static void draw(struct app *a, struct cells *c, struct area at)
{
    static const struct look text = {STYLE_text, 0}, dim = {STYLE_dim, 0};
    static const char *const signs[] = {"/ ", "? ", "/ ", "> "};
    const char *found = a->prompt == PROMPT_TYPED ? find_typed(a) : NULL;
    if (at.rows > 1) {
        cells_puts(c, at, 0, 0, dim, found ? "  " : a->prompt == PROMPT_RENAME ? "  its title; an empty one takes the first line again"
                                                  : "  type a part of what you wrote before");
        if (found)
            cells_put(c, at, 0, 2, text, found, strlen(found));
        at.row++;
        at.rows--;
    }
    editor_draw(a->line, c, at, signs[a->prompt]);
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
    return a->line;
}

static void edited(struct app *a)
{
    a->prompt_at = 0;
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
    editor_reset(a->line);
}

static const char *hint(struct app *a)
{
    (void)a;
    return "Esc back";
}

static int rows(struct app *a, const struct cells *c)
{
    return a->prompt >= PROMPT_TYPED && !view_is_tiny(c) ? 2 : 1;
}

const struct window window_prompt = {
    .contexts = contexts, .focus = focus, .edited = edited, .close = close_prompt, .closed = closed, .hint = hint,
    .input_rows = rows, .draw_input = draw,
};
