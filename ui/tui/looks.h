/* How the transcript is shown: what Alt-R, Alt-H, Alt-P and their like switch. */
#ifndef Q35_UI_TUI_LOOKS_H
#define Q35_UI_TUI_LOOKS_H

#include <stdbool.h>

#include "ui/tui/heat.h"
#include "ui/tui/table.h"

/* Plain value, valid as {0}. */
struct looks {
    bool panel;                         /* the panel at the right is wanted */
    bool bare;                          /* nothing but text */
    bool raw;                           /* markdown as it was written */
    bool mouse;                         /* clicks and the wheel are keys */
    enum table_shape tables;
    struct heat_tint heat;
};

#endif
