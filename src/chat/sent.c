#include "chat/sent.h"

enum sent *sent_all(const struct transcript *t, bool answers, struct arena *a)
{
    enum sent *how = arena_array(a, (size_t)t->n + 1, sizeof *how);
    int asked = answers ? transcript_last_user(t) : -1;
    enum sent caller = SENT_WHOLE;
    for (int i = 0; i < t->n; i++) {
        const struct entry *m = t->entries[i];
        how[i] = m->mark == MARK_DROPPED && i != asked ? SENT_AS_LINE : SENT_WHOLE;
        if (m->m.role != ROLE_TOOL)
            caller = how[i];
        else if (caller != SENT_WHOLE)
            how[i] = SENT_NOT;
    }
    return how;
}
