/* Words that are looked for in what was said, not in how a file writes it down.  ASCII letters match in either case. */
#ifndef Q35_CHAT_WORDS_H
#define Q35_CHAT_WORDS_H

#include <stdbool.h>

#include "base/buf.h"

struct words {
    char **plain, **escaped;            /* as they stand in a text, and in a line of JSON */
    int n;
};

void words_split(struct words *w, const char *find);    /* at blanks; w is {0} */
void words_free(struct words *w);
/* Does the conversation in this session file have all of them, wherever they are?  Then *hit is the first line of its text that
 * has most of them, cut to what stands around the first one; the caller frees it.  Of no words it stays as it is. */
bool words_in_file(const struct words *w, const struct buf *file, char **hit);

#endif
