/* Titles by the model.  After a turn, while nothing is under way, the chat asks the model for a title of a conversation without one (option
 * auto_title).  The request is the conversation and one more message, which becomes no entry, so that the next turn computes no more than without it.
 * The user's next key ends it.  The title is recorded like one of the user, which it never replaces. */
#pragma once

#include <stdbool.h>

struct chat;
struct news;

void titler_turn_ended(struct chat *c);
void titler_typed(struct chat *c, bool some);           /* a key has changed the draft; some: it is not empty */
void titler_leave(struct chat *c);                      /* another conversation replaces this one */
void titler_step(struct chat *c);                       /* begins or ends a request, if it is time */
int  titler_timeout(const struct chat *c);              /* ms until titler_step() has something to do; -1: nothing */
/* Ends the request.  True: its DONE is still to come, and no other request can be made before. */
bool titler_stop(struct chat *c);
bool titler_news(struct chat *c, const struct news *it);        /* true: the news is about its request */
