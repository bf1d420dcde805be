/* A front end, as its conversation knows it, and the kinds of turns.  Plain values, valid as {0}. */
#ifndef Q35_CHAT_FRONT_H
#define Q35_CHAT_FRONT_H

#include <stdbool.h>

/* Abilities of a front end. */
struct chat_front {
    bool can_ask;                       /* it answers CHAT_APPROVE and CHAT_MODELS.  Otherwise calls that need approval are refused, and a server
                                         * with several models is an error */
    bool keeps;                         /* conversations are saved (if the option save is on) */
    bool attaches;                      /* "@path" in a message attaches the file; otherwise it is text like the rest */
    const char *tools;                  /* the meaning of tools = auto: "all", "none" */
    bool screen;                        /* it is the full screen: Enter on an empty draft does what /continue does, all commands exist */
    bool reads_ahead;                   /* more messages may follow: between turns the engine reads ahead what the next prompt will hold */
    bool inspects;                      /* it calls chat_token() for probabilities and alternatives of tokens, which must then be recorded */
};

enum turn_kind {
    TURN_AGAIN,                         /* answers the end of the path, which was there before */
    TURN_SUBMITTED,                     /* a new message, which returns to the user if it gets no text of an answer */
    TURN_SUMMARY,                       /* the model writes a summary, which becomes no entry */
    TURN_ASIDE,                         /* a question aside: neither question nor answer become entries; its tools run */
};

#endif
