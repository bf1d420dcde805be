/* The tokens of an answer: looking at them, branching off at one, continuing a stopped answer, ending the reasoning.  The responder must report its
 * tokens. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "answer/token.h"
#include "base/err.h"

struct chat;

/* Tokens of assistant message i, or (i = -1) of the last request of the answer under way. */
struct chat_token {
    const char *text;           /* the piece; may be part of a character.  Valid until the conversation changes */
    size_t n;
    bool   reasoning;           /* the token belongs to the reasoning, not to the text of the answer */
    size_t at;                  /* its first byte in that text */
    enum token_source source;
    float  prob;                /* probability of the token, before penalties and cuts; negative: not known (a loaded session) */
    int    n_alternatives;      /* by falling probability; the token itself is among them if it is that likely */
    struct { const char *text; size_t n; float prob; } alternatives[LIMIT_ALTERNATIVES];
};
int  chat_n_tokens(struct chat *c, int i);
bool chat_token(struct chat *c, int i, int k, struct chat_token *out);
/* Makes a sibling of answer i: its first k tokens, then the given alternative of token k, then what the model writes after these. */
bool chat_branch_token(struct chat *c, int i, int k, int alternative, struct err *e);

/* The end of the shown path; chat_continue() acts accordingly. */
enum chat_rest {
    CHAT_WHOLE,                 /* a whole answer, or the path is empty: nothing to continue */
    CHAT_STOPPED,               /* an answer that the user or a limit stopped: the model continues it, and it stays one message */
    CHAT_CUT,                   /* an answer in whose middle the program ended: the same */
    CHAT_UNANSWERED,            /* a message, or results of tools, without an answer: the model answers */
    CHAT_UNRUN,                 /* calls of which some have no result: the model makes another answer instead */
};
enum chat_rest chat_rest(const struct chat *c);
bool chat_continue(struct chat *c, struct err *e);
/* Ends the reasoning that is under way: the model begins its answer.  False: it is not reasoning. */
bool chat_answer_now(struct chat *c);
