#include "ui/tui/look.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { NONE = -1, RED = 1, GREEN = 2, MAGENTA = 5, CYAN = 6 };
enum { BOLD = LOOK_BOLD, ITALIC = LOOK_ITALIC, UNDERLINE = LOOK_UNDERLINE, REVERSE = LOOK_REVERSE, DIM = LOOK_DIM };

enum theme_id {
#define THEME(id, name, help) THEME_##id,
#include "config/theme.def"
    N_THEMES
};

/* The rows of config/theme.def; styles without a row keep the terminal's colours (see fill()). */
static const struct { uint8_t theme, style, marks; int16_t fg, bg; } colours[] = {
#define COLOUR(theme, style, fg, bg, marks) {THEME_##theme, STYLE_##style, marks, fg, bg},
#include "config/theme.def"
};

static struct theme themes[N_THEMES] = {
#define THEME(id, name, help) {name, help, {{0}}},
#include "config/theme.def"
};

/* Fills in the themes, once, on the thread that owns the terminal. */
static void fill(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    for (int i = 0; i < N_THEMES; i++)
        for (int k = 0; k < N_STYLES; k++)
            themes[i].style[k] = (struct theme_style){NONE, NONE, 0};
    for (size_t i = 0; i < sizeof colours / sizeof *colours; i++)
        themes[colours[i].theme].style[colours[i].style] = (struct theme_style){colours[i].fg, colours[i].bg, colours[i].marks};
}

const struct theme *theme_at(int i)
{
    fill();
    return i >= 0 && i < N_THEMES ? &themes[i] : NULL;
}

int theme_find(const char *name)
{
    for (int i = 0; i < N_THEMES; i++)
        if (!strcmp(themes[i].name, name))
            return i;
    return -1;
}

const char *style_name(enum style style)
{
    static const char *const names[] = {
#define STYLE(name, help) #name,
#include "config/theme.def"
    };
    return names[style];
}

uint32_t look_rgb(int32_t color)
{
    static const uint32_t first[16] = {
        0x000000, 0xCD0000, 0x00CD00, 0xCDCD00, 0x0000EE, 0xCD00CD, 0x00CDCD, 0xE5E5E5,
        0x7F7F7F, 0xFF0000, 0x00FF00, 0xFFFF00, 0x5C5CFF, 0xFF00FF, 0x00FFFF, 0xFFFFFF,
    };
    static const uint8_t level[6] = {0, 95, 135, 175, 215, 255};
    if (color > 255)
        return (uint32_t)color & 0xFFFFFF;
    if (color < 16)
        return first[color];
    if (color >= 232)
        return (uint32_t)(8 + 10 * (color - 232)) * 0x010101;
    color -= 16;
    return (uint32_t)level[color / 36] << 16 | (uint32_t)level[color / 6 % 6] << 8 | level[color % 6];
}

int32_t look_nearest(int32_t color, int n)
{
    if (color < n && color < 256)
        return color;
    uint32_t want = look_rgb(color);
    int best = 0, least = 0x7FFFFFFF;
    /* Among 256 colours the first sixteen are skipped, since users change them. */
    for (int i = n > 16 ? 16 : 0; i < n && i < 256; i++) {
        uint32_t rgb = look_rgb(i);
        int r = (int)(rgb >> 16) - (int)(want >> 16), g = (int)(rgb >> 8 & 255) - (int)(want >> 8 & 255), b = (int)(rgb & 255) - (int)(want & 255);
        int distance = 3 * r * r + 6 * g * g + b * b;       /* about as the eye weighs them */
        if (distance < least) {
            least = distance;
            best = i;
        }
    }
    return best;
}

int look_colors(const char *option, int has)
{
    const char *own = getenv("Q35CHAT_COLOR"), *none = getenv("NO_COLOR"), *force = getenv("FORCE_COLOR");
    if (!option || !strcmp(option, "auto"))
        option = own;
    bool always = option && !strcmp(option, "always");
    if (option && !strcmp(option, "never"))
        return 0;
    if (!always && ((none && *none) || (force && !strcmp(force, "0"))))
        return 0;
    return has > 0 ? has : 0;
}

bool look_is_plain(const char *term)
{
    return !term || !*term || !strcmp(term, "dumb") || !strcmp(term, "unknown") || !strcmp(term, "emacs");
}
