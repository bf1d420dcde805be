#include "chat/sent.h"

#include "chat/attach.h"

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

struct message *sent_messages(const struct transcript *t, const char *more, struct arena *a, int *n)
{
    const enum sent *how = sent_all(t, more ? SENT_NEXT : SENT_ANSWER, a);
    struct message *messages = arena_array(a, (size_t)t->n + 2, sizeof *messages);
    *n = 0;
    if (t->system)
        messages[(*n)++] = (struct message){.role = ROLE_SYSTEM, .content = text_of(t->system)};
    for (int i = 0; i < t->n; i++) {
        const struct entry *from = t->entries[i];
        if (how[i] == SENT_NOT)
            continue;
        struct message *m = &messages[(*n)++];
        *m = (struct message){.role = from->m.role, .content = text_of(SENT_INSTEAD)};
        if (how[i] == SENT_WHOLE) {
            *m = from->m;
            if (from->n_files)
                m->content = attach_content(from, a);
        }
    }
    if (more)
        messages[(*n)++] = (struct message){.role = ROLE_USER, .content = text_of(more)};
    return messages;
}
