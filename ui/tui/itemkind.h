/* What a transcript consists of, as values that all who make, keep or show it share. */
#ifndef Q35_UI_TUI_ITEMKIND_H
#define Q35_UI_TUI_ITEMKIND_H

#include <stddef.h>

#include "ui/tui/look.h"

enum item_kind {
    ITEM_USER,                  /* "> " before it; more than 12 rows fold to the first ones */
    ITEM_REASONING,             /* one line until it is opened; while it grows, opened, at most a third of the view: its end */
    ITEM_FILE,                  /* that came with a message: one line, the head, until it is opened */
    ITEM_ANSWER,                /* markdown */
    ITEM_CALL,                  /* a tool's card, see pane_call() */
    ITEM_NOTE,                  /* a sentence of the program */
    ITEM_ERROR,                 /* "! " before it */
    ITEM_OUTPUT,                /* of a command: lines as they are */
};

/* A style for bytes at .. at + n of an item's source. */
struct pane_tint { size_t at, n; enum style style; };

/* A place to come back to: the top row's, as marks keep it. */
struct pane_place { int item, sub; size_t at; };

#endif
