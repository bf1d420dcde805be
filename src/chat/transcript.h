/* The messages of one conversation, in memory.  Plain value, valid as {0}. */
#ifndef Q35_CHAT_TRANSCRIPT_H
#define Q35_CHAT_TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/ids.h"
#include "text/message.h"

struct entry {
    struct message m;           /* text in `mem` */
    struct text tool;           /* ROLE_TOOL: who answered */
    struct ids  ids;            /* ROLE_ASSISTANT: as they were sampled, stop id included; may be empty */
    bool        stopped;        /* the answer was ended by the user or by a limit */
    struct arena mem;
};

struct transcript {
    char *system;               /* NULL: none; not one of the entries */
    struct entry **entries;
    int n, cap;
};

struct entry *transcript_add(struct transcript *t, enum role role, const char *content, size_t n);
void entry_reasoning(struct entry *m, const char *text, size_t n);
void entry_call(struct entry *m, const char *name, const char *arguments, size_t n);
void entry_tool(struct entry *m, const char *name);
void transcript_system(struct transcript *t, const char *text);         /* NULL or "": none */
void transcript_cut(struct transcript *t, int n);                       /* keeps the first n entries */
int  transcript_last_user(const struct transcript *t);                  /* index, or -1 */
void transcript_free(struct transcript *t);

#endif
