/* Shows a conversation on a plain terminal, line by line: no cursor movement but the carriage return of progress lines. */
#ifndef Q35_UI_TURN_H
#define Q35_UI_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/wrap.h"
#include "chat/chat.h"
#include "chat/options.h"

struct turn {
    struct chat    *chat;
    struct options *o;
    bool color, terminal;               /* dim text; progress lines (stderr is a terminal) */
    bool wraps;                         /* lines break at words */
    enum chat_answer (*ask)(struct turn *t, const char *name, const char *arguments);

    /* inside */
    bool progress;                      /* a progress line stands there */
    bool in_line;                       /* the cursor is behind text */
    bool dim;                           /* the last text was reasoning */
    struct wrap wrap;
    int64_t load_ns, start_ns, shown_ns;
    bool dead;                          /* the model has ended */
};

void turn_init(struct turn *t, struct chat *c, struct options *o);
void turn_free(struct turn *t);
/* Shows everything until the answer ends; Ctrl-C stops it. */
void turn_run(struct turn *t);
/* One event outside a turn (loading, a note). */
void turn_event(struct turn *t, const struct chat_event *ev);
void turn_clear(struct turn *t);        /* removes a progress line */
void turn_say(const struct turn *t, const char *text);  /* text of ours or of a command, made safe, dim */

#endif
