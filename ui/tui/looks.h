/* How the transcript is shown: what keys such as Alt-R, Alt-H and Alt-P switch. */
#ifndef Q35_UI_TUI_LOOKS_H
#define Q35_UI_TUI_LOOKS_H

#include <stdbool.h>

#include "chat/chat.h"
#include "ui/tui/pane.h"
#include "ui/tui/table.h"

/* Colours for the tokens in the transcript, by how they were chosen or by their probability. */
enum heat { HEAT_NONE, HEAT_HOW, HEAT_PROBABILITY };

/* Plain value, valid as {0}. */
struct heat_tint {
    enum heat shown;                    /* what the user wants */
    enum heat tinted;                   /* the colours that the pane has now, */
    int  n_tokens, n_items;             /* for the first n_tokens of the answer under way and the first n_items items */
};

/* Colours the items as `shown` says; cheap when nothing changed. */
void heat_tint(struct heat_tint *h, struct pane *p, struct chat *c);

/* Plain value, valid as {0}. */
struct looks {
    bool panel;                         /* the panel at the right, if there is room */
    bool bare;                          /* text alone, without status line and panel */
    bool raw;                           /* markdown as source */
    bool mouse;                         /* clicks and the wheel come as keys */
    bool lent;                          /* until the next key the terminal has the mouse: the user wants to select or paste with it */
    enum table_shape tables;
    struct heat_tint heat;
};

#endif
