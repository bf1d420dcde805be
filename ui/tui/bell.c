#include "ui/tui/bell.h"

#include <string.h>

enum { WAIT_MS = 5000 };

void bell_call(struct bell *b, const char *when, const char *what, const char *conversation, int64_t ms)
{
    bool always = !strcmp(when, "done");
    if (!strcmp(when, "never") || (!always && b->focus == BELL_IN))
        return;
    buf_reset(&b->text);
    buf_addf(&b->text, "%s%s%s", what, *conversation ? ": " : "", conversation);
    b->due_ms = ms + (always || b->focus == BELL_OUT ? 0 : WAIT_MS);
}

void bell_focus(struct bell *b, bool in)
{
    b->focus = in ? BELL_IN : BELL_OUT;
    if (in)
        bell_answer(b);
}

void bell_answer(struct bell *b)
{
    b->due_ms = 0;
}

bool bell_due(struct bell *b, int64_t ms)
{
    bool due = b->due_ms && ms >= b->due_ms;
    if (due)
        b->due_ms = 0;
    return due;
}

int bell_timeout(const struct bell *b, int64_t ms)
{
    return !b->due_ms ? -1 : b->due_ms > ms ? (int)(b->due_ms - ms) : 0;
}
