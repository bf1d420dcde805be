/* Drafts from the text itself: where its end has been before, and what followed there.  Quotations, edited code and repeated names are
 * found so without a model.  Takes ids one by one, a bounded amount of work for each. */
#pragma once

#include <stdint.h>

#include "engine/spans.h"

enum { LOOKUP_LEAST = 3 };              /* ids that must be alike before anything is proposed */

struct lookup {
    int32_t *ids;                       /* [n] the text; a token of a picture is -1 - its index, unlike any other */
    int32_t *earlier;                   /* [n] where an id's last LOOKUP_LEAST ids may have stood before; -1: nowhere */
    int32_t *newest;                    /* [1 << bits] by hash: where these ids stood last; -1 */
    int      n, cap, cap_earlier, bits;
    int      at, length;                /* the text's last `length` ids stand before `at`, too; 0: they stand nowhere */
};

/* {0} is a valid one without a text. */
void lookup_free(struct lookup *l);
/* Replaces the text.  Pictures in it are neither matched nor proposed. */
void lookup_begin(struct lookup *l, struct spans text);
void lookup_add(struct lookup *l, int32_t id);
/* Copies what followed there, `most` ids; where the text ends, what was copied is repeated.  Returns how many: fewer when a picture follows, and 0
 * when there is no match.  l->length is the length of the match. */
int  lookup_next(const struct lookup *l, int32_t *out, int most);
