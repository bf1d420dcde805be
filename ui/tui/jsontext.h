/* The lines of a text that is JSON, whichever way the model has broken it: a line for each member and item, indented by two columns a level.  Every
 * line is a piece of the source. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "ui/tui/sheet.h"

/* Valid as {0}: the text has not begun. */
struct jsontext {
    size_t at;                          /* where the next line begins in the source */
    int  depth;                         /* open objects and lists */
    bool begun, over;                   /* over: the outermost value has ended */
};

/* Whether a text is laid out as JSON: if it begins with an object that has a member, or has none. */
enum jsontext_kind { JSONTEXT_UNDECIDED, JSONTEXT_IS, JSONTEXT_NOT };
enum jsontext_kind jsontext_kind(const char *s, size_t n);

/* Adds the lines of s[0..n) from t->at on that no later text can change. */
void jsontext_take(struct jsontext *t, const char *s, size_t n, struct sheet *to);
/* Adds the rest, a line that is not complete. */
void jsontext_rest(const struct jsontext *t, const char *s, size_t n, struct sheet *to);
