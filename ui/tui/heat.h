/* Colours of the tokens in the transcript: how they were made, or how likely they were. */
#ifndef Q35_UI_TUI_HEAT_H
#define Q35_UI_TUI_HEAT_H

#include "chat/chat.h"
#include "ui/tui/pane.h"

enum heat { HEAT_NONE, HEAT_HOW, HEAT_PROBABILITY };

/* Plain value, valid as {0}. */
struct heat_tint {
    enum heat shown;                    /* as it shall be */
    enum heat tinted;                   /* as the pane has it, */
    int  n_tokens, n_items;             /* for so many tokens of the answer under way, and items */
};

/* Colours the items as `shown` says; cheap when nothing changed. */
void heat_tint(struct heat_tint *h, struct pane *p, struct chat *c);

#endif
