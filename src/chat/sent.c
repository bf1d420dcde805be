#include "chat/sent.h"

/* Where the last summary stands; entries before it are not sent. */
static int begins_at(const struct transcript *t)
{
    int i = t->n - 1;
    while (i > 0 && !t->entries[i]->summary)
        i--;
    return i;
}

enum sent *sent_all(const struct transcript *t, enum sent_for why, struct arena *a)
{
    enum sent *how = arena_array(a, (size_t)t->n + 1, sizeof *how);
    int asked = why == SENT_ANSWER ? transcript_last_user(t) : -1, begin = why == SENT_SUMMED ? t->n : begins_at(t);
    enum sent caller = SENT_WHOLE;
    for (int i = 0; i < t->n; i++) {
        const struct entry *m = t->entries[i];
        how[i] = (m->mark == MARK_DROPPED || m->skipped) && i != asked ? SENT_AS_LINE : SENT_WHOLE;
        if (i < begin && m->m.role != ROLE_TOOL && m->mark != MARK_PINNED)
            how[i] = SENT_NOT;
        if (m->m.role != ROLE_TOOL)
            caller = how[i];
        else if (caller != SENT_WHOLE)
            how[i] = SENT_NOT;
    }
    return how;
}
