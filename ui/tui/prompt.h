/* A prompt asks for a line in place of the input: a text to search for, a title.  The caller chooses its texts and gets the typed line. */
#ifndef Q35_UI_TUI_PROMPT_H
#define Q35_UI_TUI_PROMPT_H

#include "ui/tui/window.h"

struct prompt_ask {
    const char *sign;                   /* before the line: "/ " */
    const char *told;                   /* the row above the line, what to type, while found() returns NULL; NULL: no such row */
    /* Enter was pressed, with this line.  The prompt is still open, and is closed afterwards. */
    void (*done)(struct host *h, const char *text);
    /* For a search while typing: the nth hit of `text`, which is shown above the line, and which done() gets; returns NULL if there is none. */
    const char *(*found)(struct host *h, const char *text, int nth);
};

/* `ask` must live as long as the prompt is open. */
void prompt_open(struct host *h, const struct prompt_ask *ask, const char *text);

#endif
