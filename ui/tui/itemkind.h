/* Kinds and parts of items, values that feed, pane and items share. */
#ifndef Q35_UI_TUI_ITEMKIND_H
#define Q35_UI_TUI_ITEMKIND_H

#include <stddef.h>

#include "ui/tui/look.h"

enum item_kind {
    ITEM_USER,                  /* "> " before it; more than 12 rows fold to the first ones */
    ITEM_REASONING,             /* one line until it is opened; while it grows, opened, at most a third of the view: its end */
    ITEM_FILE,                  /* a file of a message: one line, the head, until it is opened */
    ITEM_ANSWER,                /* markdown */
    ITEM_CALL,                  /* the card of a tool call, see pane_call() */
    ITEM_NOTE,                  /* a sentence of the program */
    ITEM_ERROR,                 /* "! " before it */
    ITEM_OUTPUT,                /* output of a command, line by line as it is */
};

/* A style for bytes at .. at + n of an item's source. */
struct pane_tint { size_t at, n; enum style style; };

/* A place in the transcript, of the top row: the item, a byte of its source, and the row's number among rows of that byte. */
struct pane_place { int item, sub; size_t at; };

#endif
