/* A block of markdown, complete or not, to lines.  md4c says what it means; nothing here knows that text arrives in pieces. */
#ifndef Q35_UI_TUI_RENDER_H
#define Q35_UI_TUI_RENDER_H

#include "ui/tui/sheet.h"
#include "ui/tui/table.h"

struct render_as {
    bool table;                 /* it is one: its second line is the delimiter row */
    enum table_shape shape;
    int  left;                  /* columns before it: it goes on within an item of a list */
};

/* Appends source[from..to), laid out for out->columns.  Positions are those of `source`. */
void render(struct sheet *out, const char *source, size_t from, size_t to, const struct render_as *as);
/* The same as it is, a line for a line. */
void render_source(struct sheet *out, struct look look, const char *source, size_t from, size_t to);

#endif
