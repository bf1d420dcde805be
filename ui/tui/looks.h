/* How the transcript is shown: what keys such as Alt-R, Alt-H and Alt-P switch. */
#ifndef Q35_UI_TUI_LOOKS_H
#define Q35_UI_TUI_LOOKS_H

#include <stdbool.h>

#include "ui/tui/heat.h"
#include "ui/tui/table.h"

/* Plain value, valid as {0}. */
struct looks {
    bool panel;                         /* the panel at the right, if there is room */
    bool bare;                          /* text alone, without status line and panel */
    bool raw;                           /* markdown as source */
    bool mouse;                         /* clicks and the wheel come as keys */
    bool lent;                          /* but until the next key the terminal has the mouse: the user wants to select or paste with it */
    enum table_shape tables;
    struct heat_tint heat;
};

#endif
