/* Does an answer repeat itself?  It does when its newest tokens are one span again and again, without any difference: at least
 * LOOP_TIMES times, and LOOP_TOKENS tokens in all.  Whatever counts, names or varies between two repetitions never meets that, so
 * lists, tables, code and refrains between verses pass.  Plain value, valid as {0}. */
#ifndef Q35_CHAT_LOOP_H
#define Q35_CHAT_LOOP_H

#include <stdbool.h>

#include "base/ids.h"

enum { LOOP_TIMES = 6, LOOP_TOKENS = 1024, LOOP_LONGEST = 1024 };       /* LOOP_LONGEST: tokens of a span that is looked for */

struct loop {
    int span, times;                    /* tokens of the span, and how often it came; 0: no repetition now */
    int same[LOOP_LONGEST + 1];         /* for each distance: so many of the newest tokens equal the one that far before them */
};

/* Looks at the last of `ids`, after every one of them.  True while they repeat. */
bool loop_push(struct loop *l, const struct ids *ids);

#endif
