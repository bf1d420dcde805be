/* A line that is asked for, in the input's place: what to search, a title.  Who asks says how it looks and gets what was typed. */
#ifndef Q35_UI_TUI_PROMPT_H
#define Q35_UI_TUI_PROMPT_H

#include "ui/tui/window.h"

struct prompt_ask {
    const char *sign;                   /* stands before the line: "/ " */
    const char *told;                   /* says above the line what to type, where found() has nothing; NULL: there is no row above it */
    /* Enter: what was typed.  The prompt is still open, and is closed afterwards. */
    void (*done)(struct host *h, const char *text);
    /* For a search while one types: the nth hit of it, shown above the line; NULL: there is none.  Then done() gets the hit. */
    const char *(*found)(struct host *h, const char *text, int nth);
};

/* `ask` must live as long as the prompt is open. */
void prompt_open(struct host *h, const struct prompt_ask *ask, const char *text);

#endif
