/* Colours for the tokens in the transcript, by how they were chosen or by their probability. */
#ifndef Q35_UI_TUI_HEAT_H
#define Q35_UI_TUI_HEAT_H

#include "chat/chat.h"
#include "ui/tui/pane.h"

enum heat { HEAT_NONE, HEAT_HOW, HEAT_PROBABILITY };

/* Plain value, valid as {0}. */
struct heat_tint {
    enum heat shown;                    /* what the user wants */
    enum heat tinted;                   /* the colours that the pane has now, */
    int  n_tokens, n_items;             /* ... for the first n_tokens of the answer under way and the first n_items items */
};

/* Colours the items as `shown` says; cheap when nothing changed. */
void heat_tint(struct heat_tint *h, struct pane *p, struct chat *c);

#endif
