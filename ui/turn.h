/* Shows a conversation on a plain terminal, line by line: no cursor movement but the carriage return of lines about a wait, and
 * not even that where `accessible` is on or TERM is a terminal that knows nothing of the kind. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/wrap.h"
#include "chat/chat.h"
#include "option/options.h"
#include "ui/printer.h"

struct turn {
    struct chat    *chat;
    struct options *o;
    bool color;                         /* dim text */
    bool speaks;                        /* "You: ", "Answer: " before texts */
    bool recalls;                       /* Up brings back what was typed */
    bool wraps;                         /* lines break at words */
    enum chat_answer (*ask)(struct turn *t, const char *name, const char *arguments);
    void (*choose)(struct turn *t);     /* the message waits for chat_choose_model() */

    /* inside */
    struct waiting waiting;
    bool chooses;                       /* the message waits now */
    bool in_line;                       /* the cursor is after text */
    bool dimmed;                        /* the sequence was sent */
    enum turn_part { TURN_NOTHING, TURN_THINKING, TURN_ANSWER } part;   /* kind of the last text */
    int64_t thinks_ns;                  /* start of reasoning that is not shown; 0: none */
    struct wrap wrap;
    bool dead;                          /* the model has ended */
};

void turn_init(struct turn *t, struct chat *c, struct options *o);
void turn_free(struct turn *t);
/* Shows everything until the answer ends; Ctrl-C stops it. */
void turn_run(struct turn *t);
/* One event outside a turn (loading, a note). */
void turn_event(struct turn *t, const struct chat_event *ev);
/* Shows text of ours or of a command, made safe, dim. */
void turn_say(struct turn *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
