#include "ui/tui/window.h"

#include <stdlib.h>

#include "base/memory.h"
#include "ui/tui/app.h"

static const struct window *const windows[N_WINDOWS] = {
#define WINDOW(name) &window_##name,
#include "config/windows.def"
};

const struct window *window_at(enum window_id id)
{
    return windows[id];
}

void *window_state(const struct app *a, enum window_id id)
{
    return a->state[id];
}

void windows_begin(struct app *a)
{
    for (int i = 0; i < N_WINDOWS; i++)
        if (windows[i]->bytes)
            a->state[i] = memory_zeroed(1, windows[i]->bytes);
    a->open[N_WINDOWS - 1] = true;
}

void windows_end(struct app *a)
{
    for (int i = 0; i < N_WINDOWS; i++) {
        if (windows[i]->free)
            windows[i]->free(a);
        free(a->state[i]);
    }
}

void window_close(struct app *a, enum window_id id)
{
    if (!a->open[id])
        return;
    a->open[id] = false;
    if (windows[id]->closed)
        windows[id]->closed(a);
}

void window_open(struct app *a, enum window_id id)
{
    for (int i = 0; i < (int)id && !windows[id]->asks; i++)
        if (!windows[i]->asks)
            window_close(a, (enum window_id)i);
    a->open[id] = true;
}

bool window_is_open(const struct app *a, enum window_id id)
{
    return a->open[id];
}

enum window_id window_below(const struct app *a, enum window_id id)
{
    int i = (int)id + 1;
    while (i < N_WINDOWS - 1 && !a->open[i])
        i++;
    return (enum window_id)i;
}

enum window_id window_active(const struct app *a)
{
    return a->open[0] ? (enum window_id)0 : window_below(a, 0);
}

enum window_id window_front(const struct app *a)
{
    enum window_id id = window_active(a);
    while (windows[id]->asks)
        id = window_below(a, id);
    return id;
}

enum window_id window_in_place_of_input(const struct app *a)
{
    enum window_id id = window_active(a);
    while (!windows[id]->draw_input)
        id = window_below(a, id);
    return id;
}
