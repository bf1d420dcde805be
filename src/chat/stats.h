/* Figures of answers add up: of the requests to a model that one answer is made of, and of the answers of a turn. */
#ifndef Q35_CHAT_STATS_H
#define Q35_CHAT_STATS_H

#include "chat/chat.h"

/* goes_on: behind what was there already, so that the prompt is none that was read, but all of the answer so far. */
void stats_add(struct chat_stats *to, const struct chat_stats *s, bool goes_on);

#endif
