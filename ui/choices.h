/* What the last word of a line may become: a command, something that its command takes, or a file. */
#ifndef Q35_UI_CHOICES_H
#define Q35_UI_CHOICES_H

#include <stddef.h>

#include "base/buf.h"

struct choices {
    int    n;
    const char *word;                   /* the word, in the line */
    size_t have;                        /* its bytes */
    struct buf common;                  /* what all of them begin with */
    struct buf all;                     /* to be shown, two blanks behind each */
};

void choices_find(struct choices *c, const char *line);         /* choices_free() afterwards */
void choices_free(struct choices *c);

#endif
