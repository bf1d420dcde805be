/* A list over the last rows of the transcript: completions, sessions, commands, keys, branches.  Drawing and the movement of
 * the choice; what the rows mean is the caller's.  Plain value, valid as {0}; rows and texts stay the caller's. */
#ifndef Q35_UI_TUI_POPUP_H
#define Q35_UI_TUI_POPUP_H

#include <stdbool.h>

#include "ui/tui/cells.h"

enum { POPUP_ROWS = 8 };        /* of the list; title and help line come on top */

struct popup_row {
    const char *text, *note;    /* note: at the right edge, or in a column of its own, dim; NULL: none */
    bool head;                  /* a heading: cannot be chosen */
    bool cut;                   /* where both have no room, the text is cut and not the note */
    bool here;                  /* marked with '*': the open session, the shown branch.  '>' before it marks the choice */
};

struct popup {
    const char *title;          /* NULL: no title row */
    const char *help;           /* the last row: which keys do what; NULL: none.  Without a title "4 of 30" stands beside it */
    bool column;                /* notes are sentences: they begin in one column, behind the longest text */
    const char *filter;         /* what was typed: shown behind the title, and only rows with all its words are listed
                                 * (smart case).  NULL: there is no filter, all are */
    const char *empty;          /* shown when no row is listed; NULL: "nothing found" */
    const struct popup_row *rows;
    int n;
    int chosen;                 /* a row, by index; -1: none (a list that is only read) */
    int top;                    /* the first row in view, as popup_draw() left it, */
    struct area list;           /* and where the rows stand on the screen */
};

/* After rows or filter have changed: the choice is a listed row again, the nearest one; -1 when there is none. */
void popup_settle(struct popup *p);
/* Up or down by listed rows, round at the ends for single steps.  Without a choice the view scrolls. */
void popup_move(struct popup *p, int by);
void popup_choose(struct popup *p, int row);            /* by index */
/* Chooses the row at a cell of the screen, if there is one.  True: it was the choice already. */
bool popup_click(struct popup *p, int row, int col);
int  popup_listed(const struct popup *p);               /* rows that pass the filter */
/* Rows of the screen it takes when it may have `rows`: 0 when not even one fits. */
int  popup_height(const struct popup *p, int rows);
/* In the last rows of the area.  With a filter the cursor is placed behind it. */
void popup_draw(struct popup *p, struct cells *c, struct area a);

#endif
