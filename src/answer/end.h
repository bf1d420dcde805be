/* Why an answer or a turn ended. */
#pragma once

#include <stdbool.h>
#include <string.h>

enum end {
    END_STOP,                   /* the model ended it */
    END_STOP_TEXT,              /* a stop string */
    END_LENGTH,                 /* max_tokens */
    END_CONTEXT,                /* the context is full */
    END_LOOP,                   /* it repeated itself (chat/answer.h) */
    END_INTERRUPTED,
    END_TOOL_ROUNDS,            /* of a turn: too many rounds of tool calls */
    END_FAILED,                 /* broken, or refused by whoever was asked; a message says why */
    END_TOO_LONG,               /* failed: the context cannot hold the prompt */
    END_REFUSED,                /* failed: the engine cannot begin what was asked for; a message says why */
    ENDS
};

/* The name in --json, and between two q35chats. */
static inline const char *end_word(enum end end)
{
    static const char *const words[ENDS] = {"stop", "stop_text", "length", "context", "loop", "interrupted", "tool_rounds", "error", "too_long",
                                            "refused"};
    return words[end];
}

/* END_FAILED for a word that is not in the list. */
static inline enum end end_of_word(const char *word)
{
    int i = 0;
    while (i < ENDS && strcmp(end_word((enum end)i), word))
        i++;
    return i < ENDS ? (enum end)i : END_FAILED;
}

static inline bool end_failed(enum end end) { return end >= END_FAILED; }
