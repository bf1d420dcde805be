#include "chat/loop.h"

static bool repeats(int span, int same)
{
    int all = same + span;              /* its first time equals nothing before it */
    return same && all >= LOOP_TOKENS && all / span >= LOOP_TIMES;
}

bool loop_push(struct loop *l, const struct ids *ids)
{
    const int last = ids->n - 1, longest = last < LOOP_LONGEST ? last : LOOP_LONGEST;
    l->span = l->times = 0;
    for (int d = 1; d <= longest; d++)
        l->same[d] = ids->data[last] == ids->data[last - d] ? l->same[d] + 1 : 0;
    for (int d = 1; d <= longest && !l->span; d++)
        if (repeats(d, l->same[d])) {
            l->span = d;
            l->times = (l->same[d] + d) / d;
        }
    return l->span > 0;
}
