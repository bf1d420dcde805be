/* Lays out a block of markdown, complete or not, as lines.  md4c parses it; streaming is handled by markdown.c. */
#pragma once

#include "ui/tui/sheet.h"

struct render_as {
    bool table;                 /* the block is a table, with its delimiter row in the second line */
    enum table_shape shape;
    int  left;                  /* columns before the block, which continues a list item */
};

/* Appends source[from..to), laid out for out->columns.  Places of lines are bytes of `source`. */
void render(struct sheet *out, const char *source, size_t from, size_t to, const struct render_as *as);
/* Appends a formula on lines of its own, source[from..to), delimiters included.  False: it can only be shown as source. */
bool render_formula(struct sheet *out, const char *source, size_t from, size_t to);
/* Appends the source as it is, one line for each of its lines. */
void render_source(struct sheet *out, struct look look, const char *source, size_t from, size_t to);
