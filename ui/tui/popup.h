/* A list over the last rows of the transcript: completions, sessions, commands, keys, branches.  It draws the rows and moves the choice; only the
 * caller knows what the rows mean.  Plain value, valid as {0}; the caller owns rows and texts. */
#pragma once

#include <stdbool.h>

#include "ui/tui/cells.h"

enum { POPUP_ROWS = 8 };        /* of the list; title and help line come on top */

struct popup_row {
    const char *text, *note;    /* note: at the right edge, or in a column of its own, dim; NULL: none */
    const char *more;           /* after the text, dim, as far as there is room; NULL: none */
    bool found;                 /* listed whatever the filter is */
    bool head;                  /* a heading, which cannot be chosen */
    bool cut;                   /* if there is too little room, the text is cut, not the note */
    bool here;                  /* marked with '*': the open session, the shown branch.  (The choice is marked with '>') */
};

struct popup {
    const char *title;          /* NULL: no title row */
    const char *help;           /* the last row: which keys do what; NULL: none.  Without a title it also has "4 of 30" */
    bool column;                /* notes are sentences: all begin in the same column, after the longest text */
    const char *filter;         /* typed text: shown after the title; only rows with all its words are listed (case counts if it has
                                 * capitals).  NULL: no filter, all rows are listed */
    bool half;                  /* takes at most half of the rows */
    const char *empty;          /* shown when no row is listed; NULL: "nothing found" */
    const struct popup_row *rows;
    int n;
    int chosen;                 /* index of the chosen row; -1: none (a list for reading) */
    int top;                    /* set by popup_draw(): the first row in view */
    struct area list;           /* set by popup_draw(): the rows' area of the screen */
};

/* To be called after rows or filter have changed: chooses the nearest row that is listed; -1 if there is none. */
void popup_settle(struct popup *p);
/* Moves the choice by listed rows; a single step goes from one end to the other.  Without a choice it scrolls the view. */
void popup_move(struct popup *p, int by);
void popup_choose(struct popup *p, int row);            /* row: an index */
/* Chooses the row at a cell of the screen, if there is one.  True: this row was already chosen. */
bool popup_click(struct popup *p, int row, int col);
int  popup_listed(const struct popup *p);               /* the number of rows that pass the filter */
/* The rows of the screen that the list takes if it may have `rows`; 0: it does not fit. */
int  popup_height(const struct popup *p, int rows);
/* Draws the list in the last rows of the area.  With a filter the cursor is set after it. */
void popup_draw(struct popup *p, struct cells *c, struct area a);
