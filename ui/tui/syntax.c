#include "ui/tui/syntax.h"

int syntax_find(const char *info, size_t n)
{
    (void)info;
    (void)n;
    return -1;
}

const char *syntax_name(int language)
{
    (void)language;
    return "";
}

int syntax_line(int language, int state, const char *line, size_t n, void (*fn)(void *arg, enum style style, size_t from, size_t n), void *arg)
{
    (void)language;
    (void)line;
    fn(arg, STYLE_code, 0, n);
    return state;
}
