/* The conversation's file.  Each of these changes the transcript, and the file as well; a disk that fails is told and ends nothing. */
#ifndef Q35_CHAT_PERSIST_H
#define Q35_CHAT_PERSIST_H

#include "session/file.h"
#include "session/transcript.h"

struct chat;

/* What the file has of the answer under way. */
struct persist_part {
    size_t  reasoning, content;         /* bytes */
    int     ids;
    int64_t due_ns;                     /* when the rest goes there; 0: there is none */
};

struct persist {
    struct session *session;            /* NULL: there is none yet, or never will be */
    bool        wanted;                 /* one is made for the first message */
    const char *save_as;                /* the name of the first one; NULL: made from the date */
    bool        early;                  /* the file was made before a model was chosen: its first line names none */
    bool        unsaved;                /* the file lacks something */
    bool        warned;                 /* ... and the user was told when he wanted to leave */
    struct buf  doomed;                 /* the conversation that will be deleted if that is said once more */
    enum { BEHIND, INSTEAD, BESIDE } place;     /* of the next entry, against the one that the path in the file still ends with */
    struct persist_part part;
};

void persist_entry(struct chat *c, struct entry *m);            /* m is in the transcript already; it gets the time of now */
/* The next entry takes the place of `old`, or stands beside it if others came since.  On disk the path still ends with it. */
void persist_instead(struct chat *c, const struct entry *old);
void persist_cut(struct chat *c, int n);
void persist_begun(struct chat *c);                     /* an answer begins, with what was given */
void persist_part(struct chat *c);                      /* what it has gained goes to the file, if it is time */
void persist_go(struct chat *c, const struct entry *end);
void persist_forget(struct chat *c);                    /* the last entry was never said */
void persist_system(struct chat *c);                    /* the option `system` is the truth; the transcript follows it */
void persist_mark(struct chat *c, struct entry *m, int file, enum mark mark);
void persist_model(struct chat *c);                     /* writes the name of the model into a file that is `early` */
void persist_title(struct chat *c, const char *title);  /* one line, clean; "": none */
/* Another conversation takes the place of this one, with its file (NULL: it has none yet).  Both are taken. */
void persist_replace(struct chat *c, struct transcript *t, struct session *s);
/* A fresh file with all of `t`.  NULL with the reason; then there is none. */
struct session *persist_fresh(const struct chat *c, const struct transcript *t, const char *name, struct err *e);
void persist_moved(struct chat *c, struct session *s);  /* the conversation goes on in that file, which has all of it */
bool persist_again(struct chat *c, struct err *e);      /* after a failure: the whole file anew.  False: it fails still */
void persist_retry(struct chat *c);                     /* likewise, at the end of a turn; success is told */
/* The disk is asked by another thread.  These take what came of it, and tell it if it failed. */
bool persist_settled(struct chat *c);                   /* true: nothing of the file is under way any more */
void persist_wait(struct chat *c);                      /* until that is so */
bool persist_can_leave(struct chat *c, struct err *e);  /* another conversation may take its place, for this one is on the disk: waits for it */

#endif
